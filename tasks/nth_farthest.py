"""Nth farthest: "what is the nth farthest vector from vector m?"

The task of section 4.1 and appendix A.1 of Santoro et al. 2018. A sequence has k
vectors x_t, uniform in [-1, 1]^D, each with a label l_t. Every step also carries the
question (n, m) as one-hot vectors, so the input is (x_t; l_t; n; m). After the last
step the network answers with the label of the vector that is nth farthest from the one
labelled m. It must keep all vectors, compare all distances to one of them, and sort.

*Where the paper leaves room.* n counts from 0. The released generator counts from the
nearest, so that n = 0 asks for m itself, whose distance is zero, and k - 1 for the
farthest; so do we (--data.count-from farthest turns it round, as the task's name would
have it). With all N vectors that is the same task under other names. With fewer, only
the released count keeps the meaning of n when one more vector is added. Labels do not
follow the order of presentation.

*Compared with the published program.* It has the question the other way round, (x_t;
l_t; m; n): to compare inputs, exchange the last two blocks of N columns. Its rate
decays from 1e-4 to 8e-5, by 0.9 every 10,000 steps, and its Adam adds epsilon before
the bias is corrected (see `optim.Adam`); here the rate of `paper` is constant. And it
hands `num_mems`, 4, to the core as the number of heads and of blocks too, which with
2048 units a head makes 1.2 billion parameters; `--model.num-heads` and
`--model.num-blocks` set what its flags do not.

*Two floors.* Read any accuracy against them. If you answer m when asked for the vector
nearest to m, and guess otherwise, you are right 2/k of the time (25 % at 8 vectors,
50 % at 4) without comparing anything. If you rank the vectors by their own norm,
without looking at m, you do still better (30.8 %, 59.5 %). Accuracy "without self"
leaves out the questions whose answer is m.

*The ladder.* Trained directly, even at 4 x 4, a network sits on the first floor for a
long time (in one run of `direct` for some 4,000 steps, at a low rate). So training
climbs `stages` of (objects, dimensions). A stage is passed when the accuracy on the
fresh examples of the last `log_every` steps covers `promotion_threshold` of the way
from 2/k to 1 (from 0, where k is 2). Inputs always have the final layout: unused
dimensions are zero, labels come from all N, and k objects take k time steps. A share of
the steps, `replay_fraction`, goes back to an earlier stage.

A core that never passes the first stage never meets the task, and its result says
nothing about it. With `stage_shares` stages open by steps instead, whatever the
accuracy, so every core sees the same examples. The preset `fair` does so; compare cores
with it.

*Where this departs from the paper* (appendix A.1; the preset `paper` does not, as far
as the paper tells):

    ladder       easier stages first. At 4 x 4 and a rate of 1e-3, 12,000 steps without
                 it end on the first floor. `direct` has none, a rate of 3e-4 and twice
                 the steps, and leaves the floor (benchmarks/nth_farthest_tried.md)
    batches      256 examples (`quick` and `ladder_short` 512) instead of 1600
    Adam's rate  1e-3 (`quick` 3e-3, `ladder_short` 2e-3, `plane` 1.5e-3, `direct` 3e-4)
                 instead of 1e-4, warmed up, and falling to zero at the end
    clipping     the gradient's norm is clipped at 1
    memories     4 x 64 (`plane` 4 x 32, both ladders 8 x 128) units instead of 2048 in
                 all
    g_psi        a ReLU also after the last layer of the attention MLP
                 (--model.no-activate-final takes it away)
    forget bias  2 in both ladders, else 1

*The paper's baselines*, reported below 30 % on their best batch: an LSTM of 64 to 4096
units (sizes between are not listed), and a Differentiable Neural Computer of 1, 8 or 16
words of 128, 512 or 1024, its controller an LSTM of two layers as wide as a word, with
1, 2 or 4 read heads and as many write heads; `paper_dnc` is one of these. There is no
EntNet for this task in the paper. Each `--model.core` works with the other presets too:
slots are then the DNC's words or the EntNets' slots and cells.
"""

from __future__ import annotations

import functools
import typing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinyrmc import fused, nn, training
from tinyrmc import primitives as p
from tinyrmc.config import ADDED, check_least, check_values, check_within
from tinyrmc.cores import CoreConfig, DNCConfig, build_core, describe

# --- What can be set ------------------------------------------------------------------


@dataclass(frozen=True)
class DataConfig:
    """The task's size and the way up to it."""

    objects: int = 4
    """vectors in a sequence, N; also the number of time steps"""
    dimensions: int = 4
    """dimensions of a vector, D"""
    stages: tuple[tuple[int, int], ...] = ()
    """easier (objects, dimensions) to climb first, as pairs: 3 1 3 2; none: train on
    the task itself
    """
    count_from: typing.Literal["nearest", "farthest"] = "nearest"
    """which vector n = 0 asks for: the nearest, m itself (the released generator), or
    the farthest (the task's name)
    """
    promotion_threshold: float = 0.35
    """a stage is passed at this fraction of the way from the 2/k floor to perfect
    accuracy
    """
    replay_fraction: float = 0.25
    """fraction of the steps that go back to a random earlier stage"""
    stage_shares: tuple[float, ...] = field(default=(), metadata=ADDED)
    """the share of all steps that each of the stages gets, however well it is learnt;
    the task itself has the rest; none: a stage opens by accuracy, see
    promotion_threshold
    """

    def __post_init__(self):
        check_values(self, "data")
        N, D = self.objects, self.dimensions
        check_least("data", self, "objects", least=2)
        check_least("data", self, "dimensions")
        for objects, dimensions in self.stages:
            if not (2 <= objects <= N and 1 <= dimensions <= D):
                raise ValueError(
                    f"data.stages holds {objects} x {dimensions}, outside 2 x 1 to "
                    f"{N} x {D} of the task itself"
                )
        check_within("data", self, "(0, 1)", "promotion_threshold")
        check_within("data", self, "[0, 1)", "replay_fraction")
        shares = self.stage_shares
        if shares and len(shares) != len(self.stages):
            raise ValueError(
                "data.stage_shares needs a share for each of data.stages, which has "
                f"{len(self.stages)}, not {len(shares)}"
            )
        if not all(share > 0 for share in shares) or not sum(shares) < 1:
            raise ValueError(
                "data.stage_shares must be positive, their sum below 1: the task "
                f"itself has the rest; not {', '.join(map(str, shares))}"
            )


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    model: CoreConfig = field(default_factory=CoreConfig)
    data: DataConfig = field(default_factory=DataConfig)
    head_units: int = field(default=256, metadata=ADDED)
    """units in each of the four layers of the head that answers"""
    train: training.TrainConfig = field(default_factory=training.TrainConfig)

    def __post_init__(self):
        check_least("config", self, "head_units")
        steps, every = self.train.steps, self.train.log_every
        data = self.data
        for stage, share in zip(data.stages, data.stage_shares, strict=False):
            if round(share * steps) < every:
                raise ValueError(
                    f"data.stage_shares gives stage {stage[0]} x {stage[1]} fewer "
                    f"steps than train.log_every ({every}), and stages change only at "
                    f"a line of metrics: {share} of {steps:,}; give it more, or train "
                    "longer"
                )


QUICK = Config(
    model=CoreConfig(mem_slots=4, num_heads=8, head_size=8),
    data=DataConfig(objects=4, dimensions=4, stages=((3, 1), (3, 2), (3, 4))),
    # With a larger batch and rate than `longer` it passes 90 % after fewer examples.
    # With 300 steps of warm-up one of five seeds does not leave the first stage.
    train=training.TrainConfig(
        steps=3600,
        batch_size=512,
        learning_rate=3e-3,
        warmup_steps=1000,
        cosine_fraction=0.4,
        log_every=25,
        evaluate_every=300,
    ),
)
LONGER = replace(
    QUICK,
    train=training.TrainConfig(
        steps=12_000, batch_size=256, learning_rate=1e-3, cosine_fraction=0.4
    ),
)
FAIR = replace(LONGER, data=replace(LONGER.data, stage_shares=(0.2, 0.15, 0.15)))
DIRECT = replace(
    LONGER,
    data=replace(LONGER.data, stages=()),
    train=replace(LONGER.train, steps=24_000, learning_rate=3e-4),
)
PLANE = Config(
    model=CoreConfig(mem_slots=4, num_heads=4, head_size=8),
    data=DataConfig(objects=4, dimensions=2, stages=((3, 1), (3, 2))),
    head_units=96,
    train=training.TrainConfig(
        steps=24_000,
        batch_size=256,
        learning_rate=1.5e-3,
        cosine_fraction=0.5,
        evaluate_every=1000,
    ),
)
LADDER = Config(
    model=CoreConfig(mem_slots=8, num_heads=8, head_size=16, forget_bias=2.0),
    data=DataConfig(
        objects=8,
        dimensions=16,
        stages=(
            *((3, dimensions) for dimensions in (1, 2, 4, 8, 16)),
            *((objects, 16) for objects in (4, 5, 6, 7)),
        ),
        promotion_threshold=0.2,
        replay_fraction=0.1,
    ),
    train=training.TrainConfig(
        steps=90_000,
        batch_size=256,
        learning_rate=1e-3,
        warmup_steps=3000,
        cosine_fraction=0.6,
        evaluate_every=1000,
    ),
)
# A third of the examples of `ladder`, in larger batches at a larger rate.
LADDER_SHORT = replace(
    LADDER,
    train=replace(
        LADDER.train,
        steps=16_000,
        batch_size=512,
        learning_rate=2e-3,
        warmup_steps=1500,
        evaluate_every=500,
    ),
)
PAPER = Config(
    model=CoreConfig(
        mem_slots=8, num_heads=8, head_size=32, activate_final=False, hidden_size=2048
    ),
    data=DataConfig(objects=8, dimensions=16),
    train=training.TrainConfig(
        steps=1_000_000,
        batch_size=1600,
        learning_rate=1e-4,
        warmup_steps=0,
        clip_norm=None,
        evaluate_every=1000,
    ),
)
PAPER32 = replace(PAPER, data=DataConfig(objects=8, dimensions=32))

DNC = CoreConfig(
    "dnc",
    mem_slots=8,
    hidden_size=512,
    layers=2,
    settings={"dnc": DNCConfig(word_size=512, read_heads=4, write_heads=4)},
)

# --- The examples ---------------------------------------------------------------------


def draw(
    rng: np.random.Generator,
    count: int,
    objects: int,
    dimensions: int,
    layout: tuple[int, int],
    count_from: str = "nearest",
) -> dict[str, np.ndarray]:
    """`count` examples of `objects` vectors of `dimensions` dimensions, in the layout
    of the task N x D = `layout`.

    inputs (B, T, D + 3 N) float32; and for each example (B,): target, the label of the
    answer; is_self, whether that is m itself; reference, the time step of m.
    """
    N, D = layout
    rows, steps = np.arange(count), np.arange(objects)
    x = np.zeros((count, objects, D), np.float32)  # (B, T, D)
    x[..., :dimensions] = rng.uniform(-1, 1, (count, objects, dimensions))
    every_label = np.broadcast_to(np.arange(N), (count, N))
    labels = rng.permuted(every_label, axis=1)[:, :objects]  # (B, T)
    reference, n = rng.integers(objects, size=(2, count))  # the time step of m; n

    difference = x - x[rows, reference][:, None]
    distance = np.einsum("bkd,bkd->bk", difference, difference)
    order = np.argsort(distance, axis=1)  # time steps, m's own first
    rank = _from_nearest(n, objects, count_from)

    inputs = np.zeros((count, objects, D + 3 * N), np.float32)
    inputs[..., :D] = x
    inputs[rows[:, None], steps, D + labels] = 1
    inputs[rows, :, D + N + n] = 1
    inputs[rows, :, D + 2 * N + labels[rows, reference]] = 1
    return {
        "inputs": inputs,
        "target": labels[rows, order[rows, rank]],
        "is_self": rank == 0,
        "reference": reference,
    }


def _from_nearest(n: np.ndarray, objects: int, count_from: str) -> np.ndarray:
    """n as a place in the order that begins with m itself."""
    return n if count_from == "nearest" else objects - 1 - n


def decode(
    inputs: np.ndarray, layout: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs (B, T, D + 3 N) read: the label at each time step (B, T), n (B,) and
    the label m (B,).
    """
    N, D = layout
    labels, n, m = np.split(inputs[..., D:], (N, 2 * N), axis=-1)  # each (B, T, N)
    return labels.argmax(-1), n[:, 0].argmax(-1), m[:, 0].argmax(-1)


# --- The second floor -----------------------------------------------------------------


def own_norm_answer(
    inputs: np.ndarray, layout: tuple[int, int], count_from: str = "nearest"
) -> np.ndarray:
    """The answers (B,) of somebody who ranks the vectors by their own norm and knows
    which rank is m itself.

    It takes no distance between two vectors, so its accuracy is the second floor. (In
    one dimension the order along the line, without any distance, gives more.)
    """
    _, D = layout
    labels, n, m = decode(inputs, layout)
    squared = np.square(inputs[..., :D]).sum(-1)
    norm = np.where(labels == m[:, None], -1.0, squared)  # m itself is the nearest
    rank = _from_nearest(n, inputs.shape[1], count_from)
    rows = np.arange(len(inputs))
    return labels[rows, np.argsort(norm, axis=1)[rows, rank]]


@functools.cache
def own_norm_accuracy(layout: tuple[int, int]) -> tuple[float, float]:
    """How often that is right, over all questions and over those without self: to
    within 0.2 %, whichever end n counts from.
    """
    rng = np.random.default_rng(training.HELD_OUT_SEED)
    right = others = 0.0
    pieces, size = 20, 10_000
    for _ in range(pieces):
        batch = draw(rng, size, *layout, layout)
        hits = own_norm_answer(batch["inputs"], layout) == batch["target"]
        right += hits.sum() / (pieces * size)
        others += hits[~batch["is_self"]].mean() * size / (pieces * size)
    return float(right), float(others)


# --- The network ----------------------------------------------------------------------


class Network(nn.Module):
    """A core over the sequence, then the paper's head on its last output: four layers
    of `head_units` ReLU units (the paper's 256), and the logits of the N labels.
    """

    def __init__(self, config: Config, seed):
        N, D = config.data.objects, config.data.dimensions
        rng = nn.generator(seed)
        self.core = build_core(config.model, D + 3 * N, rng)
        sizes = [config.head_units] * 4 + [N]
        self.head = nn.MLP(self.core.output_size, sizes, seed=rng)

    def __call__(self, inputs, trace=None):
        """Inputs (B, T, D + 3 N) -> logits (B, N)."""
        state = self.core.initial_state(inputs.shape[0])
        outputs, _ = self.core.unroll(inputs, state, trace)
        return self.head(outputs[-1])


# --- The task -------------------------------------------------------------------------


class Task(training.Task):
    """Nth farthest with a ladder; see the module's text."""

    presets = {
        "quick": (
            "4 objects x 4 dimensions: two or three minutes of two cores, past 90 %",
            QUICK,
        ),
        "longer": (
            "quick's network on more examples, in smaller batches, to about 95 %",
            LONGER,
        ),
        "fair": (
            "longer, its stages open by steps, the same for every core: to compare "
            "cores",
            FAIR,
        ),
        "direct": (
            "longer without the ladder, with more steps at a lower rate",
            DIRECT,
        ),
        "plane": (
            "4 points of a plane, by a network small enough for the website's first "
            "page",
            PLANE,
        ),
        "ladder": (
            "8 x 16, the paper's task, by easier stages: an hour or two on four cores, "
            "to about 96 %",
            LADDER,
        ),
        "ladder_short": (
            "the same in larger batches: under an hour on two cores with the extra "
            "`fast`; ends at 84 to 94 %",
            LADDER_SHORT,
        ),
        "paper": (
            "8 x 16 with the paper's settings, as far as it tells them; not run here",
            PAPER,
        ),
        "paper32": (
            "8 objects x 32 dimensions, the harder variant; not run here",
            PAPER32,
        ),
        "paper_dnc": (
            "paper with a DNC of 8 x 512, 4 read and 4 write heads, from the paper's "
            "sweep; not run here",
            replace(PAPER, model=DNC),
        ),
    }
    grids = {
        "fair": (
            "rates to choose from for each core; choose by other seeds than those you "
            "report",
            "fair",
            {
                "model.core": ("rmc", "lstm", "dnc", "entnet", "entnet_bank"),
                "train.learning_rate": (3e-4, 1e-3, 3e-3),
            },
        ),
        "figure4": (
            "the paper's figure 4: slots x heads x gates, at 2048 units",
            "paper",
            {
                "model.total_units": (2048,),
                "model.mem_slots": (1, 8, 16),
                "model.num_heads": (1, 8, 16),
                "model.gate_style": ("unit", "memory"),
            },
        ),
        "figure4_reduced": (
            "figure 4 for a CPU: 4 objects x 4 dimensions, at 256 units",
            "longer",
            {
                "model.total_units": (256,),
                "model.mem_slots": (1, 4, 8),
                "model.num_heads": (1, 4, 8),
                "model.gate_style": ("unit", "memory"),
            },
        ),
    }
    published = {
        "8 x 16, RMC": ("91 %", "paper"),
        "8 x 16, LSTM": ("< 30 % on its best batch", "paper --model.core lstm"),
        "8 x 16, DNC": ("< 30 % on its best batch", "paper_dnc"),
        "8 x 32, RMC": ("like 8 x 16, few seeds", "paper32"),
    }

    def __init__(self, config: Config):
        super().__init__(config)
        data = config.data
        self.layout = (data.objects, data.dimensions)
        self.stages = [*data.stages, self.layout]
        self.stage = 0
        # the steps after which stages end, where steps decide that
        shares = np.cumsum(data.stage_shares)
        self.ends = np.rint(shares * config.train.steps).astype(int).tolist()

    # --- What is learnt

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count, stage=-1):
        """Examples of one stage, the task itself by default; `current` tells the stage
        being climbed from those replayed.
        """
        data = self.config.data
        size = self.stages[stage]
        examples = draw(rng, count, *size, self.layout, data.count_from)
        return {**examples, "current": np.full(count, stage in (-1, self.stage))}

    def stream(self, model, seed):
        return training.Samples(self.draw, seed, choose=self._choose)

    def _choose(self, rng) -> int:
        """The stage of a step: mostly the current one, sometimes an earlier one."""
        back = rng.random() < self.config.data.replay_fraction
        return int(rng.integers(self.stage)) if self.stage and back else self.stage

    phases = ()  # the loss is the same on all stages

    def loss(self, model, batch, carry):
        logits = model(batch["inputs"])  # (B, N)
        losses = fused.softmax_cross_entropy(logits, batch["target"])  # (B,)
        right = logits.data.argmax(axis=-1) == batch["target"]
        current = batch["current"]  # accuracy is that of the stage being climbed
        others = current & ~batch["is_self"]
        metrics = {
            "accuracy": ((right & current).sum(), current.sum()),
            "accuracy_without_self": ((right & others).sum(), others.sum()),
        }
        return p.sum(losses), losses.size, metrics, None

    # --- The ladder

    def place(self, step):
        objects, dimensions = self.stages[self.stage]
        return {"stage": f"{objects}x{dimensions}"}

    def observe(self, step, metrics):
        if self.stage == len(self.stages) - 1:
            return
        if self.ends:
            passed = step >= self.ends[self.stage]
        else:
            objects, _ = self.stages[self.stage]
            floor = 2 / objects if objects > 2 else 0
            covered = (metrics["accuracy"] - floor) / (1 - floor)
            passed = covered > self.config.data.promotion_threshold
        self.stage += passed

    def is_final(self, line):
        objects, dimensions = self.layout
        return line.get("stage") == f"{objects}x{dimensions}"

    def state(self):
        return {"stage": self.stage}

    def load_state(self, state):
        self.stage = state["stage"]

    # --- What to compare it with, and what there is to see

    def describe(self, model):
        return describe(self.config.model, model.core)

    def idle(self):
        data = self.config.data
        if not data.stages:
            return {
                "without stages": ["data.promotion_threshold", "data.replay_fraction"]
            }
        by_steps = {"where stages open by steps": ["data.promotion_threshold"]}
        return by_steps if data.stage_shares else {}

    def references(self):
        N, _ = self.layout
        all_questions, without_self = own_norm_accuracy(self.layout)
        floors = {"only the self query": 2 / N, "ranking by own norm": all_questions}
        if self.layout == (8, 16):
            floors["paper (RMC)"] = 0.91
        return {
            "test_accuracy": floors,
            "test_accuracy_without_self": {
                "only the self query": 1 / (N - 1),
                "ranking by own norm": without_self,
            },
        }

    def cell(self):
        """None for a trial: for fewer examples than `ladder` learns from."""
        t, least = self.config.train, LADDER.train
        if t.steps * t.batch_size < least.steps * least.batch_size:
            return None
        objects, dimensions = self.layout
        core = self.config.model.core.removesuffix("_paper").upper()
        return f"{objects} x {dimensions}, {core}"

    def questions(self, batch):
        from tinyrmc.results import probes

        others = ~batch["is_self"]
        kinds = {"accuracy": np.ones_like(others), "accuracy_without_self": others}
        return probes.Questions(
            batch["inputs"],
            marked=batch["reference"],
            targets=batch["target"],
            kinds=kinds,
            describe=lambda row: self._describe(batch["inputs"][row]),
        )

    def _describe(self, inputs):
        """Inputs (T, D + 3 N) of one example: its question in words, and what came at
        each step.
        """
        labels, n, m = (part[0] for part in decode(inputs[None], self.layout))
        vectors = inputs[:, : self.layout[1]]
        k = len(inputs)
        distances = np.sqrt(np.square(vectors - vectors[labels == m]).sum(-1))
        count_from = self.config.data.count_from
        # turns a count from one end into a count from the other, either way
        numbers = _from_nearest(distances.argsort().argsort(), k, count_from)
        question = (
            f"Which vector is number {n} of 0 to {k - 1} in distance from vector {m}, "
            f"the {count_from} first?"
        )
        steps = [
            {
                "label": int(labels[t]),
                "vector": vectors[t].tolist(),
                f"distance from {m}": float(distances[t]),
                "number": int(numbers[t]),
            }
            for t in range(k)
        ]
        return question, steps

    def pictures(self, model, folder: Path):
        """The attention of three examples, in the layout of the paper's figure 3: the
        reference first, in the middle, last.
        """
        from tinyrmc.results import attending

        return attending.draw_cases(self, model, folder)
