"""Calls that are refused, and words that the message must hold: a row each.

What needs files, runs or a device is refused beside the tests of those; what the engine
refuses is in test_engine_refusals.py.
"""

from functools import partial

import numpy as np
import pytest
import tinyworld
from tinytasks import Config, Larger, changed, nth_farthest
from turns import in_turn

from tasks import language_modeling as lm
from tinyrmc import fused, nn
from tinyrmc import primitives as p
from tinyrmc.backend import namespace
from tinyrmc.cli import data, play
from tinyrmc.cores import (
    DNC,
    CoreConfig,
    DeltaNet,
    DNCConfig,
    LinearAttention,
    PaperRelationalMemory,
    RelationalMemory,
    Transformer,
    build_core,
)
from tinyrmc.cores.config import MapCoreConfig, SettingsError
from tinyrmc.cores.lstm import ConvLSTMConfig
from tinyrmc.cores.memn2n import Encoding, MemN2N, TextMemN2N
from tinyrmc.corpora import sampling
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.pacman import MiniPacman
from tinyrmc.environments.world import WorldError
from tinyrmc.errors import UsageError
from tinyrmc.training import Epochs, TrainConfig
from tinyrmc.training.discovery import UnknownTask, load_task
from tinyrmc.training.rl import vtrace
from tinyrmc.training.schedules import Plateau
from tinyrmc.training.trainer import Trainer

NAN, INF = float("nan"), float("inf")


def ones(*shape):
    return np.ones(shape, np.float32)


# --- Layers, operations, cores --------------------------------------------------------

attend = partial(fused.attention, ones(2, 4, 24), num_heads=2, key_size=4)
hop = partial(fused.memory_hop, ones(1, 2, 3), ones(1, 4, 3), ones(1, 4, 3))
conv = partial(nn.Conv2d, input_channels=2, output_channels=3, seed=0)
dnc = partial(DNC, 3, 4, 3, 4, seed=0)
paper = partial(PaperRelationalMemory, 5, 2, 4, seed=0)

LAYERS = [
    (lambda: p.einsum("ij,ij->ij", ones(2, 3), ones(3, 2)), "does not fit arrays of"),
    (lambda: p.clip(ones(3), 2.0, 1.0), "bounds 2.0 and 1.0 leave nothing"),
    (lambda: p.clip(ones(3), NAN, 1.0), "bounds nan and 1.0"),
    (lambda: p.split(ones(5, 2), [3, 1]), r"places \[3, 1\] must rise"),
    (lambda: fused.layer_norm(ones(2), ones(2), ones(2), epsilon=-1.0), "epsilon"),
    (lambda: attend(key_size=0), "24 columns do not hold 2 heads"),
    (lambda: attend(num_queries=-1), "queries of 4 rows"),
    (lambda: attend(num_queries=9), "queries of 4 rows"),
    (lambda: attend(np.arange(4) < 0), "the mask leaves a row nothing to attend to"),
    (lambda: attend(np.eye(4, 5, dtype=bool)), "attention.*a mask is bool and"),
    (lambda: attend(np.ones((3, 2, 4, 4), bool)), "attention.*a mask is bool and"),
    (lambda: nn.Embedding(3, 2, std=-1.0, seed=0), r"std must be a number in \[0, i"),
    (lambda: nn.Embedding(4, 4, std="x", seed=0), "std must be a number in .* 'x'"),
    (lambda: nn.RMSNorm(5, epsilon=0.0), "RMSNorm: epsilon must be"),
    (lambda: nn.MultiHeadAttention(5, 2, seed=0), "size 5 is no multiple of num_hea"),
    (lambda: conv(input_channels=0), "^Conv2d: input_channels must be an integer of"),
    (lambda: conv(kernel=0), "^Conv2d: height must be an integer of at"),
    (lambda: conv(kernel=(2, 1.5)), "^Conv2d: width must be an integer"),
    (lambda: conv(padding="same"), "^Conv2d: padding must be 'VALID' or 'SAME', not"),
    (lambda: conv()(ones(2, 5, 5, 3)), r"x \(\.\.\., H, W, C\), weight \(height, wid"),
    (lambda: conv()(ones(5, 2)), "the shapes must be x"),
    (lambda: conv()(ones(2, 1, 5, 2)), "a kernel of 2 x 2 in a map of 1 x 5"),
    (lambda: fused.conv2d(*[ones(1, 1, 1, 1)] * 2, padding="full"), "is 'full', not"),
    (lambda: MemN2N(5, 3, -1, seed=0), "slots must be an integer of at least 0"),
    (lambda: TextMemN2N(5, 3, 2, 1, std=-1.0, seed=0), r"std must be .*\[0, inf\)"),
    (lambda: Encoding("Bag"), "Encoding.kind must be .*did you mean 'bag'"),
    (lambda: Transformer(5, 3, seed=0), "head_size must be even, not 3"),
    (lambda: Transformer(5, 4, positions="sine", seed=0), "must be 'rotary' or"),
    (lambda: DeltaNet(5, 4, chunk=0, seed=0), "DeltaNet: chunk must be an integer"),
    (lambda: dnc(controller="gru"), "^DNC: controller must be .* not 'gru'$"),
    (lambda: dnc(strength="plus"), "^DNC: strength must be 'softplus' or .* 'plus'$"),
    (lambda: dnc(clip=0), r"^DNC: clip must be a number in \(0, inf\], not 0$"),
    (lambda: dnc(clip="wide"), "^DNC: clip must be a number in .*, not 'wide'$"),
    (lambda: paper(initial_memory="zeros"), "initial_memory must be 'random' or"),
    (lambda: paper(initial_memory=None), "initial_memory must be 'random' or"),
    (lambda: paper(initial_memory=1), "initial_memory must be 'random' or"),
]
KINDS = [
    (lambda: p.where(ones(3), ones(3), 0.0), "the condition is not a bool array"),
    (lambda: p.where(None, ones(3), 0.0), "the condition is not a bool array"),
    (lambda: p.where(3, ones(3), 0.0), "the condition is not a bool array"),
    (lambda: p.take(ones(3), 1.7), "the indices are float64, not integers"),
    (lambda: p.take(ones(3), True), "the indices are bool, not integers"),
    (lambda: p.cumprod(ones(2, 3), axis=None), "axis is None"),
    (lambda: attend(np.eye(4)), "the mask is float64, not bool"),
    (lambda: hop(ones(2, 5, 4), linear="no"), "linear is True or False, not 'no'"),
    (lambda: fused.linear(ones(1, 2), ones(2, 3), relu="False"), "True or False, not"),
    (lambda: nn.Linear(2, 3, relu="False", seed=0), "relu must be True or False, not"),
    (lambda: nn.MLP(2, [3], activate_final="False", seed=0), "must be True or False"),
    (lambda: nn.LayerNorm(2).astype(complex).astype(float), "cannot hold complex128"),
    (lambda: conv(bias="no"), "Conv2d: bias must be True or False, not 'no'"),
    (lambda: conv(dtype=int), "^Conv2d: dtype must be floating point"),
    (lambda: conv()(np.zeros((2, 5, 5, 2))), "float64"),
    (lambda: DeltaNet(5, 4, gated=1, seed=0), "must be True or False"),
    (lambda: LinearAttention(5, 4, decay="yes", seed=0), "must be True or False"),
    (lambda: dnc(dtype=np.int64), "dtype must be floating point .*not int64"),
    (lambda: RelationalMemory(5, 3, 4, 2, qkv_norm="", seed=0), "must be True or F"),
    *(
        (lambda x=x: namespace(x), f"{type(x).__name__} is not an array")
        for x in (1.0, [1.0], None, np.float64(1.0), "a")
    ),
]


@in_turn("call, says", LAYERS)
def test_values_that_no_layer_takes(call, says):
    with pytest.raises(ValueError, match=f"(?s){says}"):
        call()


@in_turn("call, says", KINDS)
def test_kinds_that_no_layer_takes(call, says):
    with pytest.raises(TypeError, match=f"(?s){says}"):
        call()


# --- Settings -------------------------------------------------------------------------

programs, recall = load_task("program_evaluation"), load_task("recall")
box_world = load_task("box_world")
SMALL = {"room": 7, "stages": ((5, 1, 0),), "pool": 64}
BOXES = changed(box_world.QUICK, world=SMALL, model={"head_size": 2, "features": 8})
PROGRAM = {"kind": "program", "nesting": 1}
SHARES = {"stages": ((3, 1), (3, 2)), "stage_shares": (0.5, 0.25)}
FINE = {name: np.zeros((4, 3)) for name in "log_rhos discounts rewards values".split()}
FINE["bootstrap"] = np.zeros(3)


def boxes(model=(), **world):
    return box_world.Task(changed(BOXES, world=world, model=dict(model)))


def acting(**agent):
    return tinyworld.Task(changed(tinyworld.CONFIG, agent=agent))


def training(**how):
    return Trainer(Larger(Config()), **how)


SETTINGS = {  # what makes them: [(one or more of them, words of the message)]
    CoreConfig: [
        ({"core": "LSTM"}, r"model\.core must be one of rmc.*did you mean 'lstm'"),
        ({"core": "feedforward"}, r"model\.core must be one of"),
        ({"gate_style": None}, r"model\.gate_style must be one of unit, memory, none"),
        ({"mem_slots": 2.5}, r"model\.mem_slots must be an integer, not 2\.5"),
        ({"mem_slots": True}, r"model\.mem_slots must be an integer, not True"),
        ({"total_units": "64"}, r"model\.total_units must be an integer or None"),
        ({"forget_bias": "1"}, r"model\.forget_bias must be a number, not '1'"),
        ({"activate_final": 1}, r"model\.activate_final must be True or False"),
        ({"settings": {"dnc": None}}, r"model\.dnc must be a DNCConfig, not None"),
        ({"layers": 0}, "model.layers must be an integer of at least 1, not 0"),
        ({"mem_slots": 3, "total_units": 100}, r"100 is no multiple of 12, of 3 slots"),
        ({"core": "dnc", "mem_slots": 3, "total_units": 100}, "multiple of 3, "),
        ({"core": "entnet_bank", "mem_slots": 3, "total_units": 100}, "multiple of 3"),
        ({"qkv_norm": "batch"}, r"model\.qkv_norm must be one of usual, la"),
    ],
    DNCConfig: [
        ({"word_size": 0}, "model.dnc.word_size must be"),
        ({"read_heads": 0}, "model.dnc.read_heads must be"),
        ({"clip": -1.0}, "model.dnc.clip must be"),
    ],
    ConvLSTMConfig: [
        ({"channels": 0}, "model.conv_lstm.channels must be an"),
        ({"kernel": 0}, "model.conv_lstm.kernel must be an"),
    ],
    TrainConfig: [
        ({"learning_rate": NAN}, r"^train.learning_rate must be in \[1.2e-38, 3.4e\+3"),
        ({"clip_norm": NAN}, r"^train.clip_norm must be in \[1.2e-38, 3.4e\+38\], not"),
        ({"checkpoint_minutes": -1.0}, r"^train.checkpoint_minutes must be in \[0, in"),
        ({"warmup_steps": -1}, r"^train.warmup_steps must be in \[0, inf\], not -1"),
        ({"cosine_fraction": 1.5}, r"^train.cosine_fraction must be in \[0, 1\], not "),
        ({"momentum": 1.0}, r"^train.momentum must be in \[0, 1\), not 1.0"),
        ({"beta1": -0.1}, r"^train.beta1 must be in \[0, 1\), not -0.1"),
        ({"epsilon": 1e-50}, r"^train.epsilon must be in \[1.2e-38, 3.4e\+38\], not 1"),
        ({"optimizer": "adagrad"}, "^train.optimizer must be one of adam, adamw, sgd,"),
        ({"momentum": 0.9}, "momentum is a setting of sgd, and train.optimizer is ada"),
        ({"optimizer": "sgd", "epsilon": 0.1}, "epsilon is a setting of adam and adam"),
        ({"weight_decay": 0.1}, "weight_decay is a setting of adamw, and train.optimi"),
        ({"log_every": 7}, r"evaluate_every \(500\) must be a multiple of train.log_e"),
    ],
    training: [
        ({"workers": 0}, "workers=0: give a number from 1 to "),
        ({"workers": 10**6}, "workers=1000000: give a number from 1 to "),
        ({"workers": 2, "device": "cuda"}, "workers=2: a GPU is fed by one worker"),
    ],
    nth_farthest.DataConfig: [
        ({"objects": 1}, r"data\.objects must be .* at least 2, not 1"),
        ({"dimensions": 0}, r"data\.dimensions.*not 0"),
        ({"stages": ((5, 1),)}, r"data\.stages holds 5 x 1, outside 2 x 1 to 4 x 4"),
        ({"stages": ((3, 1), (3, 0))}, r"data\.stages holds 3 x 0"),
        ({"promotion_threshold": 1.0}, r"data\.promotion_threshold.*not 1\.0"),
        ({"replay_fraction": -0.1}, r"data\.replay_fraction.*-0\.1"),
        ({"stage_shares": (0.5,)}, "a share for each of data.stages, which has 0, not"),
        (SHARES | {"stage_shares": (0.5,)}, "data.stages, which has 2, not 1"),
        (SHARES | {"stage_shares": (0.5, 0.5)}, "below 1: the task .* not 0.5, 0.5"),
        (SHARES | {"stage_shares": (0.5, 0.0)}, "must be positive.*not 0.5, 0.0"),
        (SHARES | {"stage_shares": (0.5, NAN)}, r"data\.stage_shares must be .*nan"),
    ],
    recall.DataConfig: [
        ({"questions": 5}, "data.questions must be at most data.pairs, 4, not 5"),
        ({"least_pairs": 5}, "data.least_pairs must be at most data.pairs, 4, not 5"),
        ({"keys": 3}, "data.keys must be at least data.pairs, 4, not 3: those of a s"),
        ({"values": 3, "rewrites": True}, "data.values must be at least data.pairs"),
        ({"pairs": 0}, "data.pairs must be an integer of at least 1"),
    ],
    programs.DataConfig: [
        ({"length": 19}, r"data\.length must be in \[1, 18\], not 19"),
        (PROGRAM | {"nesting": 11, "style": "lte"}, r"data\.nesting must be"),
        ({"kind": "copy", "nesting": 2}, r"data\.kind copy is one"),
        ({"kind": "double", "operations": ("add",)}, r"data\.kind double is one"),
        (PROGRAM | {"operations": ("divide",)}, "holds 'divide'; style release has ad"),
        ({"patience": 1}, r"data\.patience must be an integer of at least 2"),
        ({"threshold": 0.0}, r"data\.threshold must be in \(0, inf\), not 0\.0"),
        ({"length": 1, "curriculum": "naive"}, r"data\.curriculum naive has no level"),
    ],
    lm.DataConfig: [
        ({"window": 0}, "data.window"),
        ({"vocabulary_size": 1}, "data.vocabulary_size .* 2, not 1"),
        ({"lanes": 0}, "data.lanes"),
        ({"context": -1}, "data.context"),
    ],
    lm.ModelConfig: [
        ({"embedding_size": 0}, "model.embedding_size"),
        ({"dropout_between": 1.0}, "model.dropout_between"),
    ],
    lm.PlateauConfig: [
        ({"factor": 1.5}, "plateau.factor"),
        ({"patience": 0}, "plateau.patience"),
    ],
    Plateau: [
        ({"factor": 1}, "^Plateau: .*factor"),
        ({"patience": 0}, "^Plateau: .*patience"),
        ({"against": "first"}, "^Plateau: .*against"),
    ],
    acting: [
        ({"unroll": 0}, "agent.unroll must be an integer of at least 1"),
        ({"lag": -1}, r"agent.lag must be in \[0"),
        ({"reward_scale": INF}, r"agent.reward_scale must be in \[0"),
        ({"discount": 1.1}, r"agent.discount must be in \[0, 1"),
        ({"algorithm": "a2c", "lag": 2}, "agent.algorithm a2c has none"),
    ],
    partial(vtrace.targets, **FINE): [
        ({"values": np.zeros((5, 3))}, r"^vtrace: values must be float64\[4, 3\]"),
        ({"bootstrap": np.zeros((4, 3))}, r"^vtrace: bootstrap must be float64\[3\], "),
        ({"log_rhos": np.zeros((4, 1))}, r"^vtrace: log_rhos .*, not float64\[4"),
        ({"clip_rho": 0.0}, r"^vtrace: clip_rho must .* in \(0, inf\], not 0.0"),
        ({"clip_pg_rho": NAN}, "^vtrace: clip_pg_rho must be"),
        ({"lambda_": 1.1}, r"^vtrace: lambda_ must .* in \[0, 1\], not 1.1"),
    ],
    boxes: [
        ({"promotion_threshold": 0}, "world.promotion_threshold must be in"),
        ({"solution": (2, 1)}, "world.solution must be the least and the most"),
        ({"distractors": (3, 1)}, "world.distractors must be the least"),
        ({"pool": 0}, "world.pool must be an integer of at least 1"),
        ({"limit": 0}, "world.limit must be an integer of at least 1"),
        ({"distractors": (0, 20)}, "^world: 22 boxes do not fit"),
        ({"viewport": 11}, "^world: viewport must be odd, up to"),
        ({"stages": ((5, 1, 0), (4, 1, 0))}, "^stage 2 of world.stages: room must be"),
        ({"view": "remembered", "model": {"encoder": "conv"}}, "remembered is a list"),
        ({"view": "remembered", "model": {"sight": "rgb"}}, "remembered is a list"),
    ],
    MiniPacman: [
        ({"view": "map"}, "view must be 'viewport' or 'whole', not 'map'"),
        ({"limit": 0}, "limit must be an integer of at least 1, not 0"),
        ({"viewport": 7}, "viewport must be 1 or 3 or 5, not 7"),
        *(({"limit": x}, "limit must be an integer") for x in (None, NAN, True, 1.5)),
    ],
    partial(BoxWorld, levels=10): [
        (dict(distractors=12), "17 boxes do not fit into a room of 12 x 12"),
        (dict(room=5, solution_length=2, distractors=0), "2 boxes do not fit into a r"),
        (dict(room=4), "room must begin at 5 or more, not 4$"),
        (dict(room=100), "room must be at most 60, not 100"),
        (dict(solution_length=0), "solution_length must begin at 1 or more"),
        (dict(solution_length=(3, 1)), r"length is \(least, most\): \(1, 3\), not \(3"),
        (dict(distractors=(2, 0)), r"distractors is \(least, most\): \(0, 2\), not \("),
        (dict(solution_length=(5, 1)), r"not \(5, 1\)"),
        (dict(distractors=-1), "distractors must begin at 0 or more"),
        (dict(distractor_length=0), "distractor_length must begin at 1 or more"),
        (dict(colours=5), "colours must be 6 .* to 60, not 5"),
        (dict(colours=6, distractor_length=2, room=20), "colours must be 7"),
        (dict(colours=61), "to 60, not 61"),
        (dict(solution_length=61), "colours must be 62 .* to 60, not 20"),
        (dict(room=(3, 1)), r"room is \(least, most\): \(1, 3\), not \(3"),
        (dict(viewport=15), "viewport must be odd, up to 14, not 15"),
        (dict(viewport=4), "viewport must be odd, up to 14, not 4"),
        (dict(view="map"), "view must be 'viewport' or 'whole' or 'remembered', not '"),
        (dict(levels=0), "levels must be an integer of at least 1, not 0"),
        (dict(seed=-1), "seed must be an integer of at least 0, not -1"),
        (dict(room=(5, 6, 7)), r"room must be an integer or two, .* not \(5, 6, 7\)"),
        (dict(distractors=1.5), "distractors must be an integer or two, .* not 1.5"),
        (dict(solution_length="3"), "solution_length must be an integer or two"),
        (dict(limit=0), "limit must be an integer of at least 1, not 0"),
        *(
            ({name: x}, f"{name} must be an integer")
            for name in "limit levels colours viewport seed room distractors".split()
            for x in (None, NAN, True, 1.5, "5")
        ),
    ],
    partial(Epochs, {"n": np.arange(5)}): [
        ({"batch_size": 6}, "^Epochs: 5 examples do not fill a batch of 6; take a sma"),
        ({"batch_size": 0}, "^Epochs: batch_size must be an integer of at least 1, no"),
        ({"batch_size": 2, "last": "keep"}, "^Epochs: last must be 'drop' or 'fill', "),
    ],
    partial(Epochs, batch_size=2): [
        ({"examples": {"x": [1], "y": [1, 2]}}, "row an example: {'x': 1, 'y': 2}"),
        ({"examples": {}}, "^Epochs: every array needs one row an example: {}"),
        ({"examples": 10}, r"^Epochs: with a number of examples \(10\) give `take` to"),
        ({"examples": {"n": ()}, "last": "fill"}, "0 examples do not fill a batch of "),
    ],
    partial(sampling.draw, rng=np.random.default_rng(0)): [
        ({"logits": x} | how, "draw: ")
        for x, how in [
            *((x, {}) for x in (ones(1, 4), ones(0), ones(4) * NAN, ones(4) * -INF)),
            *((ones(4), {"temperature": bad}) for bad in (-1, INF, NAN)),
            (ones(4), {"top_k": -1}),
        ]
    ],
}
POSITIVE = "steps batch_size learning_rate micro_batch_size log_every evaluate_every"
SETTINGS[TrainConfig] += [
    ({name: x}, rf"^train\.{name} must be")
    for name in [*POSITIVE.split(), "nonfinite_limit", "clip_norm", "epsilon"]
    for x in (0, -3)
]


@in_turn(
    "make, given, says", [(k, *row) for k, rows in SETTINGS.items() for row in rows]
)
def test_settings_that_cannot_be(make, given, says):
    with pytest.raises(ValueError, match=says):
        make(**given)


# --- Other kinds of error -------------------------------------------------------------

levels = BoxWorld(levels=10)


def words_of(main, *lines):
    return [(lambda line=line: main(line.split()), says) for line, says in lines]


OTHERS = {
    UsageError: [
        *words_of(
            play.main,
            ("chess", "invalid choice: 'chess'"),
            ("", "the following arguments are required: WORLD"),
            ("box_world --view map", "invalid choice: 'map'"),
            ("box_world --seed -1", "--seed must be at least 0, not -1"),
            ("box_world", "play needs a terminal"),
            ("mini_pacman --script", "play needs a terminal"),
            ("box_world --script --agent x", "--script and --agent both play"),
        ),
        *words_of(
            data.main,
            ("wikitext2", "no corpus 'wikitext2' .*; did you mean 'wikitext-2'?"),
            ("ptb --datadir", "flag '--datadir'; did you mean '--data-dir'?"),
        ),
    ],
    UnknownTask: [
        (lambda: load_task("nth_fartest"), r"\(tasks: .*nth_farthest.*\); did you me"),
        (lambda: load_task("zzz"), r"unknown task 'zzz' \(tasks: .*nth_farthest.*\)$"),
    ],
    WorldError: [
        (lambda: levels.start_levels(np.array([0, 10])), "0 to 9, .* from 0 to 10"),
        (lambda: levels.start_levels(np.array([-1])), "are from -1"),
        (lambda: levels.start_levels(np.array([0.5])), "by integers, not float64"),
    ],
    SettingsError: [
        (lambda: build_core(MapCoreConfig("conv_lstm"), 12, seed=0), "of 12 numbers")
    ],
}


@in_turn("kind, call, says", [(k, *row) for k, rows in OTHERS.items() for row in rows])
def test_what_else_cannot_be(kind, call, says):
    with pytest.raises(kind, match=says):
        call()
