"""Program evaluation: read a short program character by character, then write its
result (section 4.1 of Santoro et al. 2018).

A kind of task is a set of operations (--data.operations names others):

    addition   add                                        (81890+26992)+25059                  -> 133941
    control    add, subtract, if                          (51263-18406)if90173>44187else26350  -> 32857
    program    add, subtract, multiply, if, for           x=(38748-25542)for[7]x+=96709        -> 690169
    copy, reverse, double: no program, one number         19079 -> 19079, 97091,
                                                          1907919079

`length` is the number of digits of every number written in a program, `nesting` the
number of its operations, each of which but the innermost has the result so far as one
operand.

Two styles. `release` is the generator that the paper's authors published: numbers of
exactly L digits, loops of 1 to 9 rounds, the result so far always the first operand
(--data.nest-position random puts it anywhere, as in the paper's figure 6). The answer
is the value modulo 10^(L+1), from 0 on; the figure says 10^L, but with L = 5 it prints
answers of six digits. There are 45 symbols, of which programs use 28. `lte` is the task
from which that one descends, Learning to Execute (Zaremba & Sutskever 2014): Python
with variables, numbers from 1 to 10^L, factors and rounds from 1 to 4 L, the result so
far at a random place. The answer is the value itself, perhaps negative, and a stop:

    j=8584#for x in range(8):j+=920#b=(1500+j)#print((b+7567))@                                ->
                                                                                               25011.

There `copy`, `reverse` and `double` say what is done to the input: the network reads
the number, the number backwards, or the number twice, and always writes the number.

Sequence to sequence: a core reads the characters, and its state stays as it is at the
end of each example. From there a core, the same or another, takes one step for each
character of the answer, which a head reads off its output. What is fed to it meanwhile
(--model.decoder):

    zeros             nothing: the whole answer comes out of the state (not autoregressive; the paper's best, and the default)
    teacher           the character before, of the right answer; measured like this a network looks better than it is
    own_predictions   the character before, as the network itself would write it

How difficult the training examples are (--data.curriculum); those of the test all have
full length and nesting:

    baseline   full length and nesting
    naive      length 1 to L at nesting 1, then nesting 2 to N at length L: a level ends when the loss hardly falls any more
    mix        every example draws its length from 1..L and its nesting from 1..N (the paper's choice, and the default)
    combine    mix, up to the level that `naive` would have reached

In the published example nothing ever calls the test that ends a level, so that
`combine`, its default, stays with one digit and one operation. Here it climbs.

Read an accuracy against its floor: whoever writes the most frequent character at each
place, whatever the program, has 20 % of the characters right in addition, 13 % in
control and programs, 10 % in copying. Accuracy counts characters, exact match whole
answers. Published numbers are the top scores of the paper's sweeps, at L = 5 and N = 2;
for the memory tasks it does not tell the length.

Where this departs from the paper: arrays are as wide as the longest program and answer
there can be, not wider, which changes nothing, since states are kept and losses masked
(the mean is over the released number of places all the same: --model.loss-mean). Figure
6 shows no product, the published generator makes some: accuracy is also given on the
programs without one, and `--data.operations add subtract if for` trains without. The
presets for minutes have small memories with a gate for each unit, a ReLU after the
attention MLP, clipped gradients, a warm-up, and a rate that falls at the end.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tinyrmc import nn
from tinyrmc import primitives as p
from tinyrmc.backend import namespace, to_host
from tinyrmc.cores import CoreConfig, build_core, describe
from tinyrmc.errors import nearest
from tinyrmc.fused import softmax_cross_entropy
from tinyrmc.training.task import HELD_OUT_SEED, Samples, TrainConfig
from tinyrmc.training.task import Task as BaseTask

# --- The language ---------------------------------------------------------------------


class Form(NamedTuple):
    """One way to write an operation: with {0}, {1}, ... for the operands, {k} for a
    small number and {v} for a new variable.
    """

    operands: int
    text: str
    value: Callable[..., int]  # of k and the operands
    lines: str = ""  # what must have been done before


ADD = Form(2, "({0}+{1})", lambda k, a, b: a + b)
SUBTRACT = Form(2, "({0}-{1})", lambda k, a, b: a - b)

FORMS: dict[
    str, dict[str, tuple[Form, ...]]
] = {  # style -> operation -> its forms, each as likely as the others
    "release": {
        "add": (Form(2, "{0}+{1}", ADD.value),),
        "subtract": (Form(2, "{0}-{1}", SUBTRACT.value),),
        "multiply": (Form(2, "{0}*{1}", lambda k, a, b: a * b),),
        "if": (
            Form(4, "{0}if{1}>{2}else{3}", lambda k, a, b, c, d: a if b > c else d),
            Form(4, "{0}if{1}<{2}else{3}", lambda k, a, b, c, d: a if b < c else d),
        ),
        "for": (Form(2, "x={0}for[{k}]x+={1}", lambda k, a, b: a + k * b),),
    },
    "lte": {
        "add": (ADD,),
        "subtract": (SUBTRACT,),
        "pair": (ADD, SUBTRACT),
        "multiply": (
            Form(1, "({0}*{k})", lambda k, a: a * k),
            Form(1, "({k}*{0})", lambda k, a: k * a),
        ),
        "identity": (Form(1, "{0}", lambda k, a: a),),
        "assign": (
            Form(2, "({v}+{1})", ADD.value, "{v}={0}#"),
            Form(2, "({v}-{1})", SUBTRACT.value, "{v}={0}#"),
        ),
        "for": (
            Form(
                2,
                "{v}",
                lambda k, a, b: a + k * b,
                "{v}={0}#for x in range({k}):{v}+={1}#",
            ),
        ),
        "if": (
            Form(
                4, "({0} if {1}>{2} else {3})", lambda k, a, b, c, d: a if b > c else d
            ),
        ),
    },
}
OPERATIONS = {  # style -> kind -> its operations
    "release": {
        "addition": ("add",),
        "control": ("add", "subtract", "if"),
        "program": ("add", "subtract", "multiply", "if", "for"),
    },
    "lte": {
        "addition": ("add",),
        "control": ("pair", "if"),
        "program": ("pair", "multiply", "identity", "assign", "for", "if"),
    },
}
MEMORY = ("copy", "reverse", "double")
START, PAD, VARIABLES = "~", ".", "abcdefghij"
SYMBOLS = {  # style -> the symbols, a symbol's number being its place
    "release": (
        "_unk_",
        "_null_",
        "_eos_",
        "|",
        *sorted(
            [*"0123456789+-*=:/() x<>[]~!.aefgilnors", "else", "for", "if", "range"]
        ),
    ),
    "lte": tuple(
        sorted(
            {
                *f"0123456789+-*=:()> #@{START}{PAD}",
                *VARIABLES,
                *"for x in range print if else",
            }
        )
    ),
}
_PLACES = {  # style -> the place of each ASCII character
    style: np.array(
        [
            symbols.index(chr(code)) if chr(code) in symbols else -1
            for code in range(128)
        ]
    )
    for style, symbols in SYMBOLS.items()
}


def encode(texts: list[str], width: int, style: str) -> np.ndarray:
    """Texts as symbols (count, width), filled up with full stops."""
    characters = "".join([text.ljust(width, PAD) for text in texts]).encode("ascii")
    return _PLACES[style][np.frombuffer(characters, np.uint8)].reshape(
        len(texts), width
    )


def decode(symbols, style: str) -> str:
    """Symbols (T,) as text; those of several characters, which nobody writes, as
    question marks.
    """
    return "".join(
        SYMBOLS[style][symbol] if len(SYMBOLS[style][symbol]) == 1 else "?"
        for symbol in symbols
    )


# --- What to generate -----------------------------------------------------------------


@dataclass(frozen=True)
class DataConfig:
    """Which programs, how long, and the way up to them."""

    kind: Literal["addition", "control", "program", "copy", "reverse", "double"] = (
        "copy"
    )
    """programs of the operations that the module's text lists, or a number to be
    remembered
    """
    length: int = 5
    """digits of each number L, at most 18; a curriculum begins with fewer"""
    nesting: int = 1
    """operations of a program N, one inside the other; a curriculum begins with fewer
    """
    style: Literal["release", "lte"] = "release"
    """the generator that the paper's authors published, or the original Learning to
    Execute
    """
    operations: tuple[str, ...] = ()
    """operations instead of the kind's, all equally likely: add subtract multiply if
    for, in style lte also pair identity assign
    """
    nest_position: Literal["first", "random"] | None = None
    """which operand the result so far is; None: the first in style release, a random
    one in style lte
    """
    curriculum: Literal["baseline", "naive", "mix", "combine"] = "mix"
    """how difficult the training examples are; see the module's text"""
    patience: int = 10
    """lines of metrics, one every train.log_every steps, for which a level lasts at
    least (naive, combine)
    """
    threshold: float = 0.1
    """a level ends when, over so many lines, the loss falls by less than this fraction
    of itself from line to line (naive, combine)
    """

    def __post_init__(self):
        if not 1 <= self.length <= 18:
            raise ValueError(
                f"data.length must be from 1 to 18 digits, not {self.length}"
            )
        if self.nesting < 1:
            raise ValueError(
                f"data.nesting must be at least 1 operation, not {self.nesting}"
            )
        if self.style == "lte" and self.nesting > len(VARIABLES):
            raise ValueError(
                f"data.nesting must be at most {len(VARIABLES)} in style lte, which "
                f"has no more variables, not {self.nesting}"
            )
        if self.kind in MEMORY and (self.nesting > 1 or self.operations):
            what = (
                f"data.nesting must be 1, not {self.nesting}"
                if self.nesting > 1
                else "leave data.operations out"
            )
            raise ValueError(
                f"data.kind {self.kind} is one number to be remembered, without "
                f"operations: {what}"
            )
        for name in self.operations:
            if name not in (known := FORMS[self.style]):
                raise ValueError(
                    f"data.operations holds {name!r}; style {self.style} has "
                    f"{', '.join(known)}{nearest(name, known)}"
                )
        if self.patience < 2 or not 0 < self.threshold < math.inf:
            raise ValueError(
                "data.patience must be at least 2 and data.threshold positive, not "
                f"{self.patience} and {self.threshold}"
            )
        if self.climbs and self.length == self.nesting == 1:
            raise ValueError(
                f"data.curriculum {self.curriculum} has no level to climb at length "
                "1 and nesting 1; choose mix or baseline"
            )

    @property
    def climbs(self) -> bool:
        """Whether the curriculum goes from level to level."""
        return self.curriculum in ("naive", "combine")

    @property
    def in_use(self) -> tuple[str, ...]:
        """The operations of the programs; none for a memory task."""
        return self.operations or OPERATIONS[self.style].get(self.kind, ())


@dataclass(frozen=True)
class ModelConfig(CoreConfig):
    """The core, and how it is made to answer."""

    decoder: Literal["zeros", "teacher", "own_predictions"] = "zeros"
    """what is fed to the core while it answers, in training; see the module's text"""
    evaluation_decoder: Literal["zeros", "teacher", "own_predictions"] | None = None
    """the same on held-out examples; None: as in training"""
    share_core: bool = True
    """whether one core reads and answers, as released, or there is another for the
    answer
    """
    loss_mean: Literal["places", "characters"] = "places"
    """the loss is divided by the places that answers could fill, as released, or by the
    characters that they have
    """


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


QUICK = Config(
    model=ModelConfig(mem_slots=4, num_heads=4, head_size=16),
    data=DataConfig(kind="copy", length=5),
    train=TrainConfig(steps=6000, batch_size=128, learning_rate=1e-3, decay=0.5),
)
ADDITION = Config(
    model=ModelConfig(mem_slots=4, num_heads=4, head_size=32),
    data=DataConfig(kind="addition", length=3),
    train=TrainConfig(steps=8000, batch_size=128, learning_rate=1e-3, decay=0.5),
)
ADDITION5 = Config(
    model=ModelConfig(mem_slots=4, num_heads=4, head_size=32),
    data=DataConfig(kind="addition", length=5),
    train=TrainConfig(
        steps=40_000, batch_size=128, learning_rate=1e-3, decay=0.5, evaluate_every=1000
    ),
)
PAPER = Config(
    model=ModelConfig(
        mem_slots=4,
        num_heads=4,
        head_size=128,
        gate_style="memory",
        activate_final=False,
        hidden_size=1024,
    ),
    data=DataConfig(kind="program", length=5, nesting=2),
    train=TrainConfig(
        steps=200_000,
        batch_size=128,
        learning_rate=1e-3,
        warmup_steps=0,
        clip_norm=None,
        evaluate_every=1000,
    ),
)
PAPER_HARD = Config(
    PAPER.model, DataConfig(kind="program", length=6, nesting=3), PAPER.train
)

# core -> per-character accuracy of each kind at L = 5, N = 2: the paper's table 1, the
# top score of each core's sweep
TABLE_1 = {
    "RMC": {
        "addition": 0.999,
        "control": 0.996,
        "program": 0.790,
        "copy": 1.0,
        "reverse": 1.0,
        "double": 0.998,
    },
    "LSTM": {
        "addition": 0.998,
        "control": 0.974,
        "program": 0.661,
        "copy": 0.998,
        "reverse": 0.997,
        "double": 0.997,
    },
    "DNC": {
        "addition": 0.994,
        "control": 0.838,
        "program": 0.695,
        "copy": 1.0,
        "reverse": 1.0,
        "double": 1.0,
    },
    "EntNet": {
        "addition": 0.984,
        "control": 0.980,
        "program": 0.734,
        "copy": 0.918,
        "reverse": 1.0,
        "double": 0.623,
    },
}
CORES = {
    "rmc": "RMC",
    "rmc_paper": "RMC",
    "lstm": "LSTM",
    "dnc": "DNC",
    "entnet_bank": "EntNet",
}  # as that table calls them
# core -> the words that give the preset `paper` that core, at a size of the paper's
# sweep
SIZES = {
    "RMC": "",
    "LSTM": " --model.core lstm --model.layers 2",
    "DNC": " --model.core dnc --model.mem-slots 80 --model.hidden-size 256 "
    "--model.layers 2",
    "EntNet": " --model.core entnet_bank",
}


class Layout(NamedTuple):
    """How long the longest input and the longest answer are, and over how many places
    the released loss takes its mean.
    """

    inputs: int
    answers: int
    places: int


@functools.cache
def layout(data: DataConfig) -> Layout:
    """The widths of a batch's arrays.

    What the longest operation adds to a program does not depend on the others.
    """
    length, lte = data.length, data.style == "lte"
    if data.kind in MEMORY:
        doubled = length * (1 + (data.kind == "double"))
        return (
            Layout(doubled + 1, length + 1, length + 1)
            if lte
            else Layout(length, doubled, doubled + 1)
        )
    forms = [form for name in data.in_use for form in FORMS[data.style][name]]
    largest, rounds = (10**length, 4 * length) if lte else (10**length - 1, 9)
    digits = len(str(largest))
    sizes = [
        sum(
            len(part.format(*[largest] * form.operands, k=rounds, v="a"))
            for part in (form.lines, form.text)
        )
        for form in forms
    ]
    inputs = data.nesting * max(sizes) - (data.nesting - 1) * (
        digits if lte else digits - 2
    )
    if not lte:
        return Layout(inputs, length + 1, 2 * length)
    for _ in range(
        data.nesting
    ):  # values are linear in each operand, so the largest is at a corner
        largest = max(
            abs(f.value(rounds, *corner))
            for f in forms
            for corner in itertools.product((-largest, largest), repeat=f.operands)
        )
    answers = len(f"-{largest}.")
    return Layout(inputs + len("print()@"), answers, answers)


def write_program(levels, style: str) -> tuple[str, int]:
    """(text, value) of the program made of `levels`, the innermost first.

    A level is (form, numbers to choose operands from, k, the place of the result so far
    as a fraction, a variable).
    """
    lines, text, value = "", None, 0
    for form, numbers, k, place, variable in levels:
        values = numbers[: form.operands]
        texts = list(map(str, values))
        if text is not None:
            nested = int(place * form.operands)
            values[nested], texts[nested] = (
                value,
                f"({text})" if style == "release" else text,
            )
        lines += form.lines.format(*texts, k=k, v=variable)
        text, value = form.text.format(*texts, k=k, v=variable), form.value(k, *values)
    return (f"{lines}print({text})@", value) if style == "lte" else (text, value)


def draw_programs(
    rng: np.random.Generator,
    data: DataConfig,
    lengths: np.ndarray,
    nestings: np.ndarray,
) -> tuple[list, list, np.ndarray]:
    """(texts, answers, whether there is a product in it) of a program for each length
    and nesting.
    """
    count, N, lte = len(lengths), data.nesting, data.style == "lte"
    each = lengths[:, None, None]
    low, high = (1, 10**each + 1) if lte else (10 ** (each - 1), 10**each)
    numbers = rng.integers(low, high, (count, N, 4))
    rounds = rng.integers(1, 4 * lengths[:, None] + 1 if lte else 10, (count, N))
    chosen, variant = (
        rng.integers(len(data.in_use), size=(count, N)),
        rng.integers(2, size=(count, N)),
    )
    places = rng.random((count, N)) * (
        (data.nest_position or ("random" if lte else "first")) == "random"
    )
    variables = (
        rng.permuted(np.broadcast_to(list(VARIABLES), (count, len(VARIABLES))), axis=1)
        if lte
        else np.full((count, N), "")
    )

    forms, texts, answers = [FORMS[data.style][name] for name in data.in_use], [], []
    drawn = (lengths, nestings, chosen, variant, numbers, rounds, places, variables)
    for length, nesting, *parts in zip(*(x.tolist() for x in drawn), strict=True):
        levels = [
            (forms[operation][which % len(forms[operation])], *rest)
            for operation, which, *rest in zip(
                *(part[:nesting] for part in parts), strict=True
            )
        ]
        text, value = write_program(levels, data.style)
        texts.append(text)
        answers.append(f"{value}." if lte else str(value % 10 ** (length + 1)))
    is_product = np.array([name == "multiply" for name in data.in_use])[chosen] & (
        np.arange(N) < nestings[:, None]
    )
    return texts, answers, is_product.any(axis=1)


def draw_numbers(
    rng: np.random.Generator, data: DataConfig, lengths: np.ndarray
) -> tuple[list, list, np.ndarray]:
    """(texts, answers, False) of a memory task with a number for each length."""
    numbers = list(map(str, rng.integers(10 ** (lengths - 1), 10**lengths).tolist()))
    other = {
        "copy": numbers,
        "reverse": [s[::-1] for s in numbers],
        "double": [s + s for s in numbers],
    }[data.kind]
    none = np.zeros(len(numbers), bool)
    return (
        ([f"{s}@" for s in other], [f"{s}." for s in numbers], none)
        if data.style == "lte"
        else (numbers, other, none)
    )


def draw(
    rng: np.random.Generator,
    count: int,
    data: DataConfig,
    level: tuple[int, int],
    mixed: bool,
) -> dict[str, np.ndarray]:
    """`count` examples of the (length, nesting) `level`, or, `mixed`, with each drawn
    from 1 up to it.

    inputs (count, T) and targets (count, T') are symbols, the widths those of `layout`;
    lengths and target_lengths (count,) say how many of them are the text, the rest
    being full stops; has_product (count,) whether something is multiplied.
    """
    lengths, nestings = [
        rng.integers(1, most + 1, count) if mixed else np.full(count, most)
        for most in level
    ]
    memory = data.kind in MEMORY
    texts, answers, has_product = (
        draw_numbers(rng, data, lengths)
        if memory
        else draw_programs(rng, data, lengths, nestings)
    )
    widths = layout(data)
    return {
        "inputs": encode(texts, widths.inputs, data.style),
        "lengths": np.array(list(map(len, texts))),
        "targets": encode(answers, widths.answers, data.style),
        "target_lengths": np.array(list(map(len, answers))),
        "has_product": has_product,
    }


# --- The network and the task ---------------------------------------------------------


class Network(nn.Module):
    """A core that reads, a core that answers (the same one, unless `share_core` is
    off), and the paper's head of four layers.
    """

    def __init__(self, config: Config, seed):
        rng, symbols = np.random.default_rng(seed), SYMBOLS[config.data.style]
        self.start, self.symbols = symbols.index(START), len(symbols)
        self.core = build_core(config.model, self.symbols, rng)
        self.answering = (
            None
            if config.model.share_core
            else build_core(config.model, self.symbols, rng)
        )
        self.head = nn.MLP(
            self.core.output_size, [256] * 4 + [self.symbols], seed=rng
        )  # a ReLU after each of the four

    def __call__(
        self,
        inputs,
        lengths,
        steps: int,
        decoder: str = "zeros",
        targets=None,
        trace=None,
    ):
        """Symbols (B, T) with their true lengths (B,) -> logits (steps, B, symbols).

        decoder: as in ModelConfig; `teacher` reads the targets (B, steps). `trace`
            receives the answering core's steps.
        """
        xp, batch = namespace(inputs), inputs.shape[0]
        _, state = self.core.unroll(
            self._one_hot(inputs), self.core.initial_state(batch), lengths=lengths
        )
        core, first = self.answering or self.core, xp.full(batch, self.start)
        if decoder == "own_predictions":
            return self._answer_freely(core, state, first, steps, trace)
        if decoder == "zeros":
            fed = xp.zeros((batch, steps, self.symbols), self._dtype)
        else:
            fed = self._one_hot(
                xp.concatenate([first[:, None], targets[:, :-1]], axis=1)
            )
        return self.head(p.stack(core.unroll(fed, state, trace)[0]))

    def _answer_freely(self, core, state, symbol, steps, trace):
        """Each step's input is the likeliest symbol of the step before; no gradient
        flows through that choice.
        """
        logits = []
        for _ in range(steps):
            output, state = core(self._one_hot(symbol), state, trace)
            logits.append(self.head(output))
            symbol = logits[-1].data.argmax(axis=-1)
        return p.stack(logits)

    @property
    def _dtype(self):
        return self.head.layers[0].weight.dtype

    def _one_hot(self, symbols):
        """Made on the device, where it costs next to nothing: what travels there is the
        symbols' numbers.
        """
        return namespace(symbols).eye(self.symbols, dtype=self._dtype)[symbols]


class Task(BaseTask):
    """Program evaluation; see the module's text."""

    presets = {
        "quick": (
            "copy 5 digits, or --data.kind reverse, or double: minutes on a laptop, "
            "to 100 %",
            QUICK,
        ),
        "addition": (
            "add two numbers of 3 digits: five to twenty minutes, to 100 %",
            ADDITION,
        ),
        "addition5": (
            "add two numbers of 5 digits; not run to its end here",
            ADDITION5,
        ),
        "paper": (
            "2 operations on 5 digits with the paper's settings, or --data.kind "
            "addition, control; not run here",
            PAPER,
        ),
        "paper_hard": (
            "3 operations on 6 digits, the paper's harder variant; not run here",
            PAPER_HARD,
        ),
    }
    test_examples = 12_800
    published = {
        f"{kind}, {core}": (
            f"{100 * accuracy:.1f} %",
            "paper --data.kind "
            f"{kind}{' --data.nesting 1' if kind in MEMORY else ''}{SIZES[core]}",
        )
        for core, row in TABLE_1.items()
        for kind, accuracy in row.items()
    }

    def __init__(self, config: Config):
        super().__init__(config)
        data = config.data
        self.layout, self.full = layout(data), (data.length, data.nesting)
        self.level, self.losses = (1, 1) if data.climbs else self.full, []

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count):
        """Examples at full length and nesting."""
        return draw(rng, count, self.config.data, self.full, mixed=False)

    def draw_training(self, rng, count):
        """Examples as the curriculum has them now."""
        return draw(
            rng,
            count,
            self.config.data,
            self.level,
            mixed=self.config.data.curriculum in ("mix", "combine"),
        )

    def stream(self, model, seed):
        return Samples(self.draw_training, seed)

    def loss(self, model, batch, carry):
        return *self._measure(model, batch, self.config.model.decoder), None

    def measure(self, model, batch):
        return self._measure(
            model,
            batch,
            self.config.model.evaluation_decoder or self.config.model.decoder,
        )

    def _measure(self, model, batch, decoder):
        """(sum of the losses, their count, metrics)."""
        xp, steps = namespace(batch["targets"]), self.layout.answers
        logits = model(
            batch["inputs"], batch["lengths"], steps, decoder, batch["targets"]
        )  # (T', B, symbols)
        targets = xp.ascontiguousarray(batch["targets"].T)  # (T', B)
        counts = xp.arange(steps)[:, None] < batch["target_lengths"]
        losses = softmax_cross_entropy(logits, targets) * counts
        right = (logits.data.argmax(axis=-1) == targets) & counts
        metrics = {
            "accuracy": (right.sum(), counts.sum()),
            "exact_match_accuracy": (
                (right == counts).all(axis=0).sum(),
                len(batch["targets"]),
            ),
        }
        if self._some_multiply:
            others = ~batch["has_product"]
            metrics["accuracy_without_products"] = (
                (right & others).sum(),
                (counts & others).sum(),
            )
        places = len(batch["targets"]) * self.layout.places
        count = (
            places
            if self.config.model.loss_mean == "places"
            else xp.sum(counts, dtype=losses.dtype)
        )
        return p.sum(losses), count, metrics

    @property
    def _some_multiply(self):
        """Whether there are programs with and without a product."""
        return (
            "multiply" in self.config.data.in_use
            and len(set(self.config.data.in_use)) > 1
        )

    def observe(self, step, metrics):
        data, (length, nesting) = self.config.data, self.level
        if not data.climbs:
            return {}
        if math.isfinite(metrics["loss"]):
            self.losses = [*self.losses, metrics["loss"]][-data.patience :]
        if len(self.losses) == data.patience and self.level != self.full:
            fall = (self.losses[0] - self.losses[-1]) / (data.patience - 1)
            if fall < data.threshold * sum(self.losses) / data.patience:
                self.level, self.losses = (
                    (length + 1, 1) if length < data.length else (length, nesting + 1),
                    [],
                )
        return {"rung": f"{length}x{nesting}"}

    def is_final(self, line):
        length, nesting = self.full
        mixed = self.config.data.curriculum in ("mix", "combine") and self.full != (
            1,
            1,
        )
        return (
            not mixed
            and line.get("rung", f"{length}x{nesting}") == f"{length}x{nesting}"
        )

    def state(self):
        return {"level": self.level, "losses": self.losses}

    def load_state(self, state):
        self.level, self.losses = tuple(state["level"]), list(state["losses"])

    def describe(self, model):
        return describe(self.config.model, model.core)

    def references(self):
        held_out = Samples(self.draw, HELD_OUT_SEED).batch(0, 0, self.test_examples)
        right, counts = judged(self._constant_answer(), held_out)
        others = ~held_out["has_product"]
        floors = {
            "test_accuracy": right.sum() / counts.sum(),
            "test_exact_match_accuracy": (right == counts).all(axis=1).mean(),
            "test_accuracy_without_products": right[others].sum()
            / max(counts[others].sum(), 1)
            if self._some_multiply
            else None,
        }
        found = {
            name: {"constant answer": float(value)}
            for name, value in floors.items()
            if value is not None
        }
        if self._as_published:
            kind = self.config.data.kind
            best, name = max(
                (row[kind], name) for name, row in TABLE_1.items() if name != "RMC"
            )
            found["test_accuracy"] |= {
                "paper's top RMC": TABLE_1["RMC"][kind],
                f"paper's top {name}": best,
            }
        return found

    @property
    def _as_published(self):
        """Whether the task itself is one of table 1; `program` has been published with
        products or without, nobody knows.
        """
        data = self.config.data
        usual = set(OPERATIONS["release"].get(data.kind, ()))
        asked = set(data.in_use) in (usual, usual - {"multiply"}) and self.full == (
            5,
            1 if data.kind in MEMORY else 2,
        )
        return data.style == "release" and asked

    def cell(self):
        core = CORES.get(self.config.model.core)
        return (
            f"{self.config.data.kind}, {core}" if core and self._as_published else None
        )

    def _constant_answer(self):
        """The most frequent symbol at each place (T',) of other examples than those
        that it is tested on.
        """
        others = Samples(self.draw, HELD_OUT_SEED + 1).batch(0, 0, self.test_examples)
        return most_frequent(others, len(SYMBOLS[self.config.data.style]))

    def pictures(self, model, folder: Path):
        """Some held-out programs with the network's answers, and its accuracy at each
        place of the answer beside the floor.
        """
        from tinyrmc import figures

        batch = Samples(self.draw, HELD_OUT_SEED).batch(0, 0, 512)
        style, xp = self.config.data.style, namespace(model.parameters()[0].data)
        decoder = self.config.model.evaluation_decoder or self.config.model.decoder
        arrays = [xp.asarray(batch[name]) for name in ("inputs", "lengths", "targets")]
        logits = model(arrays[0], arrays[1], self.layout.answers, decoder, arrays[2])
        answers = to_host(logits.data.argmax(axis=-1)).T  # (B, T')
        right, counts = judged(answers, batch)
        wrong = np.flatnonzero((right != counts).any(axis=1))

        def row(k):
            size, end = batch["target_lengths"][k], batch["lengths"][k]
            text, target, answer = (
                decode(x, style)
                for x in (
                    batch["inputs"][k, :end],
                    batch["targets"][k, :size],
                    answers[k, :size],
                )
            )
            return (
                text if len(text) <= 120 else f"{text[:119]}\N{HORIZONTAL ELLIPSIS}",
                target,
                answer,
            )

        rows, mistaken = (
            {"the first eight held out": [row(k) for k in range(8)]},
            f"{len(wrong)} of {len(right)} have a mistake",
        )
        rows[f"{mistaken}, the next are" if (wrong >= 8).any() else mistaken] = [
            row(k) for k in wrong[wrong >= 8][:4]
        ]
        constant, _ = judged(self._constant_answer(), batch)
        reach = np.where(
            counts.any(axis=0), counts.sum(axis=0), np.nan
        )  # how many answers are so long
        by_place = {
            "network": right.sum(axis=0) / reach,
            "constant answer": constant.sum(axis=0) / reach,
        }
        data = self.config.data
        size = (
            f"{data.length} digits"
            if data.kind in MEMORY
            else f"{data.length} digits, nesting {data.nesting}"
        )
        title = (
            f"{data.kind}, {size}; {self.config.model.core}, decoder {decoder}; "
            "wrong characters are marked"
        )
        return [figures.answers(rows, by_place, folder / "answers.png", title)]


# --- The floor ------------------------------------------------------------------------


def most_frequent(batch: dict, symbols: int) -> np.ndarray:
    """The most frequent symbol at each place of the answers (T',), among those that are
    long enough.
    """
    places = np.arange(batch["targets"].shape[1])
    counted = places < batch["target_lengths"][:, None]
    return np.array(
        [
            np.bincount(batch["targets"][counted[:, t], t], minlength=symbols).argmax()
            for t in places
        ]
    )


def judged(answers: np.ndarray, batch: dict) -> tuple[np.ndarray, np.ndarray]:
    """Which characters of answers (B, T'), or of one for all (T',), are right, and
    which count, both (B, T').
    """
    counts = np.arange(batch["targets"].shape[1]) < batch["target_lengths"][:, None]
    return (answers == batch["targets"]) & counts, counts
