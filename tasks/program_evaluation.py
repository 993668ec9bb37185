"""Program evaluation: read a short program character by character, write its result.

The task of section 4.1 of Santoro et al. 2018. A kind of task is a set of operations
(--data.operations names others), or no program at all, but one number:

    addition   add
    control    add, subtract, if (`ALG_CTRL` in the published program, whose `CONTROL`
               is if and for)
    program    add, subtract, multiply, if, for
    copy       the number as it is
    reverse    the number backwards
    double     the number twice

For example:

    addition   (81890+26992)+25059                  -> 133941
    control    (51263-18406)if90173>44187else26350  -> 32857
    program    x=(38748-25542)for[7]x+=96709        -> 690169
    copy       19079                                -> 19079
    reverse    19079                                -> 97091
    double     19079                                -> 1907919079

`length` is the number of digits of every number written in a program, `nesting` the
number of its operations, each of which, except the innermost, takes the result so far
as one operand.

*Two styles.* `release` is the generator that the paper's authors published: numbers of
exactly L digits, loops of 1 to 9 rounds, the result so far always the first operand
(--data.nest-position random puts it anywhere, as in the paper's figure 6). The answer
is the value modulo 10^(L+1), from 0 on; the figure says 10^L, but with L = 5 it prints
answers of six digits. There are 45 symbols, of which programs use 28.

`lte` is the task that `release` descends from, Learning to Execute (Zaremba & Sutskever
2014): Python with variables, numbers from 1 to 10^L, factors and rounds from 1 to 4 L,
the result so far at a random place. The answer is the value itself, perhaps negative,
and a full stop:

    j=8584#for x in range(8):j+=920#b=(1500+j)#print((b+7567))@  -> 25011.

There `copy`, `reverse` and `double` say what is done to the input: the network reads
the number, the number backwards, or the number twice, and always writes the number.

*How numbers are written* (--data.operands for those of the program, --data.answers for
the answer; style `release`). Each digit of a sum needs the two digits of the same place
value, and what the lower ones carry. In numbers of other lengths these usually stand
elsewhere, and the digit that is wanted first depends on all. Among numbers of up to
five digits:

    usual     512+489      =  1001
    aligned   00512+00489  =  001001   digits aligned by their place value
    reversed  215+984      =  1001     the lowest digit first

The paper has neither of the last two; a run with one of them stands in no cell of its
table.

*Sequence to sequence.* A core reads the characters, and its state stays as it is at the
end of each example. From there a core, the same or another, takes one step for each
character of the answer, which a head reads off its output. What is fed to it meanwhile
(--model.decoder):

    zeros            nothing: the whole answer comes out of the state (not
                     autoregressive; the paper's best, and the default)
    teacher          the character before, of the right answer; measured like this a
                     network looks better than it is
    own_predictions  the character before, as the network itself would write it

*How difficult the training examples are* (--data.curriculum); those of the test all
have full length and nesting:

    baseline  full length and nesting
    naive     length 1 to L at nesting 1, then nesting 2 to N at length L: a level ends
              when the loss hardly falls any more
    mix       every example draws its length from 1..L and its nesting from 1..N (the
              paper's choice, and the default)
    combine   mix, up to the level that `naive` would have reached

In the published example nothing ever calls the test that ends a level, so `combine`,
its default, stays with one digit and one operation. Here it climbs, once the loss has
settled. That test also has the opposite sign: it would end a level in the middle of its
loss's fall. You can have that (--data.level-ends released).

*The floor.* Read an accuracy against it: if you write the most frequent character at
each place, whatever the program, you have 20 % of the characters right in addition of
five digits, and 25 % of three; `references` computes it for each size. Accuracy counts
characters, exact match whole answers. Published numbers are the top scores of the
paper's sweeps, at L = 5 and N = 2; for the memory tasks the paper does not tell the
length.

*Where this departs from the paper*:

    widths    arrays are as wide as the longest program and answer there can be, not
              wider. That changes nothing: states are kept and losses masked, and the
              mean is over the released number of places all the same
              (--model.loss-mean)
    products  figure 6 shows none, the published generator makes some. Accuracy is also
              given on the programs without one; to train without products, say
              `--data.operations add subtract if for`
    Adam      the published program adds epsilon before the bias is corrected; see
              `optim.Adam`
    presets   those that train in minutes have small memories with a gate for each
              unit, a ReLU after the attention MLP, clipped gradients, a warm-up, and
              a rate that falls at the end
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Literal, NamedTuple, get_args

import numpy as np

from tinyrmc import fused, nn, training
from tinyrmc import primitives as p
from tinyrmc.backend import namespace, to_host
from tinyrmc.config import ADDED, check_least, check_values, check_within
from tinyrmc.cores import CoreConfig, build_core, describe
from tinyrmc.errors import nearest

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

# style -> operation -> its forms, each as likely as the others
FORMS: dict[str, dict[str, tuple[Form, ...]]] = {
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
            Form(2, "({v}+{1})", ADD.value, lines="{v}={0}#"),
            Form(2, "({v}-{1})", SUBTRACT.value, lines="{v}={0}#"),
        ),
        "for": (
            Form(
                2,
                "{v}",
                lambda k, a, b: a + k * b,
                lines="{v}={0}#for x in range({k}):{v}+={1}#",
            ),
        ),
        "if": (
            Form(
                4, "({0} if {1}>{2} else {3})", lambda k, a, b, c, d: a if b > c else d
            ),
        ),
    },
}

# style -> kind -> its operations
OPERATIONS = {
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
START = "~"
PAD = "."
VARIABLES = "abcdefghij"

_RELEASED = [*"0123456789+-*=:/() x<>[]~!.aefgilnors", "else", "for", "if", "range"]
_PYTHON = {*"0123456789+-*=:()> #@", *"for x in range print if else"}

# style -> the symbols, a symbol's number being its place
SYMBOLS = {
    "release": ("_unk_", "_null_", "_eos_", "|", *sorted(_RELEASED)),
    "lte": tuple(sorted(_PYTHON | {START, PAD, *VARIABLES})),
}


def _numbers_of_characters(style: str) -> np.ndarray:
    """The number of each ASCII character (128,); -1 for those that are no symbol."""
    numbers = np.full(128, -1)
    for number, symbol in enumerate(SYMBOLS[style]):
        if len(symbol) == 1:
            numbers[ord(symbol)] = number
    return numbers


_NUMBERS = {style: _numbers_of_characters(style) for style in SYMBOLS}


def encode(texts: Sequence[str], width: int, style: str) -> np.ndarray:
    """Texts as symbols (B, width), filled up with full stops."""
    characters = "".join(text.ljust(width, PAD) for text in texts).encode("ascii")
    codes = np.frombuffer(characters, np.uint8).reshape(len(texts), width)
    return _NUMBERS[style][codes]


def decode(symbols: np.ndarray, style: str) -> str:
    """Symbols (T,) as text; those of several characters, which nobody writes, as
    question marks.
    """
    known = [SYMBOLS[style][symbol] for symbol in symbols]
    return "".join(symbol if len(symbol) == 1 else "?" for symbol in known)


# --- What can be set ------------------------------------------------------------------

Kind = Literal["addition", "control", "program", "copy", "reverse", "double"]
Decoder = Literal["zeros", "teacher", "own_predictions"]
Writing = Literal["usual", "aligned", "reversed"]


@dataclass(frozen=True)
class DataConfig:
    """Which programs, how long, and the way up to them."""

    kind: Kind = "copy"
    """programs of the operations that the module's text lists, or a number to be
    remembered
    """
    length: int = 5
    """digits of each number, L, at most 18; a curriculum begins with fewer"""
    nesting: int = 1
    """operations of a program, N, one inside the other; a curriculum begins with fewer
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
    operands: Writing = field(default="usual", metadata=ADDED)
    """how the numbers of a program are written: aligned, with zeros in front to full
    length; reversed, the lowest digit first (style release)
    """
    answers: Writing = field(default="usual", metadata=ADDED)
    """the same for the answer"""
    curriculum: Literal["baseline", "naive", "mix", "combine"] = "mix"
    """how difficult the training examples are; see the module's text"""
    patience: int = 10
    """a level lasts at least this many lines of metrics, one every train.log_every
    steps (naive, combine)
    """
    threshold: float = 0.1
    """the least that the loss falls, or rises, from line to line, as a fraction of
    itself; see level_ends (naive, combine)
    """
    level_ends: Literal["settled", "released"] = field(
        default="settled", metadata=ADDED
    )
    """settled: a level ends when, over the lines of patience, the loss falls by less
    than the threshold; released: unless it rises by that much (naive, combine)
    """

    def __post_init__(self):
        check_values(self, "data")
        self._check_programs()
        check_least("data", self, "patience", least=2)
        check_within("data", self, "(0, inf)", "threshold")
        if self.climbs and self.length == self.nesting == 1:
            raise ValueError(
                f"data.curriculum {self.curriculum} has no level to climb at length "
                "1 and nesting 1; choose mix or baseline"
            )

    def _check_programs(self):
        check_within("data", self, "[1, 18]", "length")  # numbers of 64 bits
        most = len(VARIABLES) if self.style == "lte" else math.inf
        check_within("data", self, f"[1, {most}]", "nesting")
        if self.kind in MEMORY and (self.nesting > 1 or self.operations):
            remedy = "leave data.operations out"
            if self.nesting > 1:
                remedy = f"data.nesting must be 1, not {self.nesting}"
            raise ValueError(
                f"data.kind {self.kind} is one number to be remembered, without "
                f"operations: {remedy}"
            )
        if not self.as_usual and (self.style == "lte" or self.kind in MEMORY):
            what = "style lte" if self.style == "lte" else f"data.kind {self.kind}"
            raise ValueError(
                f"data.operands {self.operands} and data.answers {self.answers} do not "
                f"go with {what}, whose numbers are written as usual: leave them out"
            )
        known = FORMS[self.style]
        for name in self.operations:
            if name not in known:
                raise ValueError(
                    f"data.operations holds {name!r}; style {self.style} has "
                    f"{', '.join(known)}{nearest(name, known)}"
                )

    @property
    def as_usual(self) -> bool:
        """Whether all numbers are written as usual."""
        return self.operands == self.answers == "usual"

    @property
    def climbs(self) -> bool:
        """Whether the curriculum goes from level to level."""
        return self.curriculum in ("naive", "combine")

    @property
    def mixes(self) -> bool:
        """Whether training examples are of all lengths and nestings up to a level."""
        return self.curriculum in ("mix", "combine")

    @property
    def in_use(self) -> tuple[str, ...]:
        """The operations of the programs; none for a memory task."""
        return self.operations or OPERATIONS[self.style].get(self.kind, ())


@dataclass(frozen=True)
class ModelConfig(CoreConfig):
    """The core, and how it is made to answer."""

    decoder: Decoder = "zeros"
    """what is fed to the core while it answers, in training; see the module's text"""
    evaluation_decoder: Decoder | None = None
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
    train: training.TrainConfig = field(default_factory=training.TrainConfig)


QUICK = Config(
    model=ModelConfig(mem_slots=4, num_heads=4, head_size=16),
    data=DataConfig(kind="copy", length=5),
    train=training.TrainConfig(
        steps=6000, batch_size=128, learning_rate=1e-3, cosine_fraction=0.5
    ),
)
ADDITION = Config(
    model=ModelConfig(mem_slots=4, num_heads=4, head_size=32),
    data=DataConfig(kind="addition", length=3),
    train=training.TrainConfig(
        steps=8000, batch_size=128, learning_rate=1e-3, cosine_fraction=0.5
    ),
)
ADDITION5 = Config(
    model=ADDITION.model,
    data=DataConfig(kind="addition", length=5),
    train=replace(ADDITION.train, steps=40_000, evaluate_every=1000),
)
CONTROL3 = Config(
    model=ADDITION.model,
    data=DataConfig(kind="control", length=3),
    train=replace(ADDITION.train, steps=20_000),
)
PROGRAM3 = replace(CONTROL3, data=DataConfig(kind="program", length=3))
PROGRAM = Config(
    model=ADDITION.model,
    data=DataConfig(kind="program", length=5, nesting=2),
    train=replace(ADDITION.train, steps=100_000, evaluate_every=1000),
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
    train=training.TrainConfig(
        steps=200_000,
        batch_size=128,
        learning_rate=1e-3,
        warmup_steps=0,
        clip_norm=None,
        evaluate_every=1000,
    ),
)

# --- What the paper reports -----------------------------------------------------------

KINDS = get_args(Kind)

# The paper's table 1: per-character accuracy of each of these kinds at L = 5, N = 2,
# the top score of each core's sweep.
_SCORES = {
    "RMC": (0.999, 0.996, 0.790, 1.0, 1.0, 0.998),
    "LSTM": (0.998, 0.974, 0.661, 0.998, 0.997, 0.997),
    "DNC": (0.994, 0.838, 0.695, 1.0, 1.0, 1.0),
    "EntNet": (0.984, 0.980, 0.734, 0.918, 1.0, 0.623),
}
TABLE_1 = {core: dict(zip(KINDS, row, strict=True)) for core, row in _SCORES.items()}

# What that table calls our cores.
CORES = {
    "rmc": "RMC",
    "rmc_paper": "RMC",
    "lstm": "LSTM",
    "dnc": "DNC",
    "entnet_bank": "EntNet",
}

# The words that give the preset `paper` a core, at a size of the paper's sweep.
SIZES = {
    "RMC": "",
    "LSTM": " --model.core lstm --model.layers 2",
    "DNC": " --model.core dnc --model.mem-slots 80 --model.hidden-size 256 "
    "--model.layers 2",
    "EntNet": " --model.core entnet_bank",
}


def _words_of_cell(kind: str, core: str) -> str:
    """The words that train what stands in a cell of the table."""
    words = f"paper --data.kind {kind}"
    if kind in MEMORY:
        words += " --data.nesting 1"
    words += SIZES[core]
    if kind in MEMORY and core == "DNC":  # there its controller has no memory
        words += " --model.dnc.controller feedforward"
    return words


# --- The examples ---------------------------------------------------------------------


class Layout(NamedTuple):
    """How long the longest input and the longest answer are, and over how many places
    the released loss takes its mean.
    """

    inputs: int
    answers: int
    places: int


@functools.cache
def layout(data: DataConfig) -> Layout:
    """The widths of a batch's arrays."""
    L = data.length
    N = data.nesting
    lte = data.style == "lte"
    if data.kind in MEMORY:
        other = 2 * L if data.kind == "double" else L  # read in lte, else written
        return Layout(other + 1, L + 1, L + 1) if lte else Layout(L, other, other + 1)
    forms = [form for name in data.in_use for form in FORMS[data.style][name]]
    largest, rounds = (10**L, 4 * L) if lte else (10**L - 1, 9)
    # What the longest operation adds to a program does not depend on the others; each
    # but the first has the text so far in place of a number, in style release in
    # brackets.
    longest = max(
        len((form.lines + form.text).format(*[largest] * 4, k=rounds, v="a"))
        for form in forms
    )
    number = len(str(largest)) if lte else len(str(largest)) - len("()")
    inputs = N * longest - (N - 1) * number
    if not lte:
        return Layout(inputs, L + 1, 2 * L)
    for _ in range(N):  # values are linear in each operand: the furthest is at a corner
        largest = max(
            abs(form.value(rounds, *corner))
            for form in forms
            for corner in product((-largest, largest), repeat=form.operands)
        )
    answers = len(f"-{largest}.")
    return Layout(inputs + len("print()@"), answers, answers)


class Operation(NamedTuple):
    """One operation of a program, as it was drawn."""

    form: Form
    numbers: list[int]  # its operands, but for the result so far
    k: int
    place: float  # of the result so far, as a fraction of the operands
    variable: str


def write_program(operations: Sequence[Operation], style: str) -> tuple[str, int]:
    """(text, value) of the program made of some operations, the innermost first."""
    lines = ""
    text = ""
    result = 0
    for number, (form, numbers, k, place, variable) in enumerate(operations):
        values = numbers[: form.operands]
        texts = [*map(str, values)]
        if number:
            nested = int(place * form.operands)
            values[nested] = result
            texts[nested] = f"({text})" if style == "release" else text
        lines += form.lines.format(*texts, k=k, v=variable)
        text = form.text.format(*texts, k=k, v=variable)
        result = form.value(k, *values)
    return (f"{lines}print({text})@" if style == "lte" else text), result


def draw_programs(
    rng: np.random.Generator,
    data: DataConfig,
    lengths: np.ndarray,
    nestings: np.ndarray,
) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """(texts, answers, whether there is a product in it, which operation comes last, as
    its number in `data.in_use`) of a program for each length and nesting.
    """
    parts = _draw_parts(rng, data, lengths)
    names = np.array(data.in_use)[parts[0]]  # (B, N)
    forms = [FORMS[data.style][name] for name in data.in_use]
    texts, answers = [], []
    examples = (part.tolist() for part in (lengths, nestings, *parts))
    for length, nesting, *drawn in zip(*examples, strict=True):
        operations = [
            Operation(forms[operation][form % len(forms[operation])], *rest)
            for operation, form, *rest in islice(zip(*drawn, strict=True), nesting)
        ]
        text, value = write_program(operations, data.style)
        texts.append(text)
        modulus = 10 ** (length + 1)
        answers.append(f"{value}." if data.style == "lte" else str(value % modulus))
    written = np.arange(data.nesting) < nestings[:, None]
    has_product = ((names == "multiply") & written).any(axis=1)
    return texts, answers, has_product, parts[0][np.arange(len(lengths)), nestings - 1]


# A number of a program of the style `release`, but not how often a loop goes round.
NUMBER = re.compile(r"(?<!\[)[0-9]+")


def written(number: str, how: Writing, width: int) -> str:
    """A number's digits in one of the ways of the module's text; see there."""
    if how == "aligned":
        return number.zfill(width)
    return number[::-1] if how == "reversed" else number


def _draw_parts(
    rng: np.random.Generator, data: DataConfig, lengths: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Of each operation of each program (B, N): which one, which of its forms, four
    numbers (B, N, 4), the small number, the place of the result so far, a variable.
    """
    B = len(lengths)
    N = data.nesting
    lte = data.style == "lte"
    digits = lengths[:, None, None]
    low, high = (1, 10**digits + 1) if lte else (10 ** (digits - 1), 10**digits)
    numbers = rng.integers(low, high, (B, N, 4))
    rounds = rng.integers(1, 4 * lengths[:, None] + 1 if lte else 10, (B, N))
    operations = rng.integers(len(data.in_use), size=(B, N))
    forms = rng.integers(2, size=(B, N))
    anywhere = (data.nest_position or ("random" if lte else "first")) == "random"
    places = rng.random((B, N)) * anywhere
    variables = np.full((B, N), "")
    if lte:
        letters = np.broadcast_to([*VARIABLES], (B, len(VARIABLES)))
        variables = rng.permuted(letters, axis=1)[:, :N]
    return operations, forms, numbers, rounds, places, variables


def draw_numbers(
    rng: np.random.Generator, data: DataConfig, lengths: np.ndarray
) -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """(texts, answers, False, 0) of a memory task with a number for each length."""
    drawn = rng.integers(10 ** (lengths - 1), 10**lengths)
    numbers = [*map(str, drawn.tolist())]
    other = numbers
    if data.kind == "reverse":
        other = [number[::-1] for number in numbers]
    elif data.kind == "double":
        other = [number * 2 for number in numbers]
    nowhere, none = np.zeros(len(numbers), bool), np.zeros(len(numbers), int)
    if data.style == "lte":
        read = [f"{text}@" for text in other]
        return read, [f"{number}." for number in numbers], nowhere, none
    return numbers, other, nowhere, none


def draw(
    rng: np.random.Generator,
    count: int,
    data: DataConfig,
    level: tuple[int, int],
    mixed: bool,
) -> dict[str, np.ndarray]:
    """`count` examples of the (length, nesting) `level`, or, `mixed`, with each drawn
    from 1 up to it.

    inputs (B, T) and targets (B, T') are symbols, the widths those of `layout`; lengths
    and target_lengths (B,) say how many of them are the text, the rest being full
    stops; has_product (B,) whether something is multiplied; last_operation (B,) is the
    number of the outermost one in `data.in_use`.
    """
    lengths, nestings = [
        rng.integers(1, most + 1, count) if mixed else np.full(count, most)
        for most in level
    ]
    if data.kind in MEMORY:
        texts, answers, *known = draw_numbers(rng, data, lengths)
    else:
        texts, answers, *known = draw_programs(rng, data, lengths, nestings)
        L, operands = data.length, data.operands
        if operands != "usual":
            texts = [
                NUMBER.sub(lambda x: written(x[0], operands, L), text) for text in texts
            ]
        answers = [written(answer, data.answers, L + 1) for answer in answers]
    widths = layout(data)
    return {
        "inputs": encode(texts, widths.inputs, data.style),
        "lengths": np.array([len(text) for text in texts]),
        "targets": encode(answers, widths.answers, data.style),
        "target_lengths": np.array([len(answer) for answer in answers]),
        "has_product": known[0],
        "last_operation": known[1],
    }


# --- The floor ------------------------------------------------------------------------


def most_frequent(batch: dict[str, np.ndarray], symbols: int) -> np.ndarray:
    """The most frequent symbol at each place of the answers (T',), among those that are
    long enough.
    """
    targets, lengths = batch["targets"], batch["target_lengths"]
    return np.array(
        [
            np.bincount(
                targets[lengths > t, t].astype(np.intp), minlength=symbols
            ).argmax()
            for t in range(targets.shape[1])
        ]
    )


def judged(
    answers: np.ndarray, batch: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Which characters of answers (B, T'), or of one for all (T',), are right, and
    which count, both (B, T').
    """
    places = np.arange(batch["targets"].shape[1])
    counts = places < batch["target_lengths"][:, None]
    return (answers == batch["targets"]) & counts, counts


# --- The network ----------------------------------------------------------------------


class Network(nn.Module):
    """A core that reads, a core that answers (the same one, unless `share_core` is
    off), and the paper's head of four layers.
    """

    def __init__(self, config: Config, seed):
        rng = nn.generator(seed)
        symbols = SYMBOLS[config.data.style]
        self.start, self.symbols = symbols.index(START), len(symbols)
        self.core = build_core(config.model, self.symbols, rng)
        self.answering = None
        if not config.model.share_core:
            self.answering = build_core(config.model, self.symbols, rng)
        sizes = [256] * 4 + [self.symbols]  # a ReLU after each of the four
        self.head = nn.MLP(self.core.output_size, sizes, seed=rng)

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
        xp = namespace(inputs)
        B = inputs.shape[0]
        state = self.core.initial_state(B)
        state = self.core.last_state(self._one_hot(inputs), state, lengths)
        core = self.answering or self.core
        first = xp.full(B, self.start)
        if decoder not in get_args(Decoder):
            raise ValueError(f"decoder is one of {get_args(Decoder)}, not {decoder!r}")
        if decoder == "own_predictions":  # no gradient flows through the choices
            logits = []
            symbol = first
            for _ in range(steps):
                output, state = core(self._one_hot(symbol), state, trace)
                logits.append(self.head(output))
                symbol = logits[-1].data.argmax(axis=-1)
            return p.stack(logits)
        if decoder == "zeros":
            fed = xp.zeros((B, steps, self.symbols), self._dtype)
        else:
            before = xp.concatenate([first[:, None], targets[:, :-1]], axis=1)
            fed = self._one_hot(before)
        outputs, _ = core.unroll(fed, state, trace)
        return self.head(p.stack(outputs))

    @property
    def _dtype(self):
        return self.head.layers[0].weight.dtype

    def _one_hot(self, symbols):
        """Made on the device, where it costs next to nothing: only the symbols' numbers
        travel there.
        """
        return namespace(symbols).eye(self.symbols, dtype=self._dtype)[symbols]


# --- The task -------------------------------------------------------------------------


class Task(training.Task):
    """Program evaluation; see the module's text."""

    presets = {
        "quick": (
            "copy 5 digits, or --data.kind reverse, or double: two to five minutes "
            "of four cores, to 100 %",
            QUICK,
        ),
        "addition": (
            "add two numbers of 3 digits: 18 to 35 minutes of one core, to 100 %",
            ADDITION,
        ),
        "addition5": (
            "add two numbers of 5 digits: an hour of one core, to nearly 100 % in one "
            "run",
            ADDITION5,
        ),
        "control3": (
            "one operation of addition, subtraction or if on 3 digits: half an hour of "
            "one core, to 86 % in one run; in one of another seed, with "
            "--model.no-share-core, to 99.8 %",
            CONTROL3,
        ),
        "program3": (
            "the same with multiplication and for; with --model.no-share-core half an "
            "hour of one core, to 81 % in one run",
            PROGRAM3,
        ),
        "program": (
            "2 operations on 5 digits, the paper's size, by the small memory of "
            "addition; not run here, but for an easier version",
            PROGRAM,
        ),
        "paper": (
            "2 operations on 5 digits with the paper's settings, or --data.kind "
            "addition, control (its harder variant: --data.length 6 --data.nesting 3); "
            "not run here",
            PAPER,
        ),
    }
    published = {
        f"{kind}, {core}": (f"{100 * accuracy:.1f} %", _words_of_cell(kind, core))
        for core, row in TABLE_1.items()
        for kind, accuracy in row.items()
    }
    test_examples = 12_800

    def __init__(self, config: Config):
        super().__init__(config)
        data = config.data
        self.layout = layout(data)
        self.full = (data.length, data.nesting)
        self.level = (1, 1) if data.climbs else self.full
        self.losses: list[float] = []  # of the last lines of metrics at this level

    # --- What is learnt

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count):
        """Examples at full length and nesting."""
        return draw(rng, count, self.config.data, self.full, mixed=False)

    def draw_training(self, rng, count):
        """Examples as the curriculum has them now."""
        data = self.config.data
        return draw(rng, count, data, self.level, mixed=data.mixes)

    def stream(self, model, seed):
        return training.Samples(self.draw_training, seed)

    phases = ()  # the loss is the same at all levels

    def loss(self, model, batch, carry):
        return *self._measure(model, batch, self.config.model.decoder), None

    def measure(self, model, batch):
        return self._measure(model, batch, self._testing_decoder)

    @property
    def _testing_decoder(self):
        model = self.config.model
        return model.evaluation_decoder or model.decoder

    def _measure(self, model, batch, decoder):
        """(sum of the losses, their count, metrics)."""
        xp = namespace(batch["targets"])
        B, steps = batch["targets"].shape
        logits = model(
            batch["inputs"], batch["lengths"], steps, decoder, batch["targets"]
        )  # (T', B, symbols)
        targets = xp.ascontiguousarray(batch["targets"].T)  # (T', B)
        counts = xp.arange(steps)[:, None] < batch["target_lengths"]
        losses = fused.softmax_cross_entropy(logits, targets) * counts
        right = (logits.data.argmax(axis=-1) == targets) & counts
        metrics = {
            "accuracy": (right.sum(), counts.sum()),
            "exact_match_accuracy": ((right == counts).all(axis=0).sum(), B),
        }
        if self._some_multiply:
            others = ~batch["has_product"]
            metrics["accuracy_without_products"] = (
                (right & others).sum(),
                (counts & others).sum(),
            )
        if self.config.model.loss_mean == "places":
            return p.sum(losses), B * self.layout.places, metrics
        return p.sum(losses), xp.sum(counts, dtype=losses.dtype), metrics

    @property
    def _some_multiply(self):
        """Whether there are programs with and without a product."""
        in_use = set(self.config.data.in_use)
        return "multiply" in in_use and len(in_use) > 1

    # --- The curriculum

    def place(self, step):
        length, nesting = self.level
        return {"stage": f"{length}x{nesting}"} if self.config.data.climbs else {}

    def observe(self, step, metrics):
        data, (length, nesting) = self.config.data, self.level
        if not data.climbs:
            return
        if math.isfinite(metrics["loss"]):
            self.losses = [*self.losses, metrics["loss"]][-data.patience :]
        if self.level != self.full and self._level_ends():
            longer = length < data.length
            self.level = (length + 1, 1) if longer else (length, nesting + 1)
            self.losses = []

    def _level_ends(self):
        """Whether the loss's mean fall from line to line (as released, its mean rise)
        is a small part of its mean.
        """
        data = self.config.data
        if len(self.losses) < data.patience:
            return False
        change = (self.losses[0] - self.losses[-1]) / (data.patience - 1)
        if data.level_ends == "released":
            change = -change
        return change < data.threshold * sum(self.losses) / data.patience

    def is_final(self, line):
        length, nesting = self.full
        full = f"{length}x{nesting}"
        mixed = self.config.data.mixes and self.full != (1, 1)
        return not mixed and line.get("stage", full) == full

    def state(self):
        return {"level": self.level, "losses": self.losses}

    def load_state(self, state):
        self.level, self.losses = tuple(state["level"]), list(state["losses"])

    # --- What to compare it with

    def describe(self, model):
        return describe(self.config.model, model.core)

    def idle(self):
        data = self.config.data
        found = {}
        if not data.climbs:
            own = "patience", "threshold", "level_ends"
            names = [f"data.{name}" for name in own]
            found["on a curriculum without levels to climb"] = names
        if data.nesting == 1:
            found["in programs of one operation"] = ["data.nest_position"]
        return found

    def references(self):
        held_out = self._held_out(self.test_examples)
        right, counts = judged(self._constant_answer(), held_out)
        floors = {
            "test_accuracy": right.sum() / counts.sum(),
            "test_exact_match_accuracy": (right == counts).all(axis=1).mean(),
        }
        if self._some_multiply:
            others = ~held_out["has_product"]
            share = right[others].sum() / max(counts[others].sum(), 1)
            floors["test_accuracy_without_products"] = share
        found = {name: {"constant answer": float(floors[name])} for name in floors}
        if self._as_published:
            kind = self.config.data.kind
            cores = [core for core in TABLE_1 if core != "RMC"]
            best, name = max((TABLE_1[core][kind], core) for core in cores)
            found["test_accuracy"]["paper's top RMC"] = TABLE_1["RMC"][kind]
            found["test_accuracy"][f"paper's top {name}"] = best
        return found

    def _held_out(self, count, seed=training.HELD_OUT_SEED):
        return training.Samples(self.draw, seed).batch(0, 0, count)

    def _constant_answer(self):
        """The most frequent symbol at each place (T',) of other examples than those
        that it is tested on.
        """
        others = self._held_out(self.test_examples, seed=training.HELD_OUT_SEED + 1)
        return most_frequent(others, len(SYMBOLS[self.config.data.style]))

    @property
    def _as_published(self):
        """Whether the task itself is one of table 1; nobody knows whether the paper's
        programs have products.
        """
        data = self.config.data
        usual = set(OPERATIONS["release"].get(data.kind, ()))
        full = (5, 1 if data.kind in MEMORY else 2)
        operations = set(data.in_use) in (usual, usual - {"multiply"})
        usual_style = data.style == "release" and data.as_usual
        return usual_style and operations and self.full == full

    def cell(self):
        """None for a trial, for fewer examples than `quick` learns from, and for what
        is measured with the right answer at hand.
        """
        t, least = self.config.train, QUICK.train
        if t.steps * t.batch_size < least.steps * least.batch_size:
            return None
        core = CORES.get(self.config.model.core)
        if self._testing_decoder == "teacher" or not (core and self._as_published):
            return None
        return f"{self.config.data.kind}, {core}"

    # --- What is examined

    def _answers(self, model, batch):
        """The network's own answers (B, T')."""
        xp = namespace(model.parameters()[0].data)
        inputs, lengths, targets = (
            xp.asarray(batch[name]) for name in ("inputs", "lengths", "targets")
        )
        steps, decoder = self.layout.answers, self._testing_decoder
        found = []
        for start in range(0, len(lengths), training.MICRO_BATCH):
            piece = slice(start, start + training.MICRO_BATCH)
            seen = inputs[piece], lengths[piece], steps, decoder, targets[piece]
            found.append(to_host(model(*seen).data.argmax(axis=-1)).T)
        return np.concatenate(found)

    @property
    def analysis_titles(self):
        found = {"by place": "the characters of answers, from the first on"}
        if len(self.config.data.in_use) > 1:
            found["by operation"] = "programs by their last operation, the outermost"
        return found

    def analyses(self, model):
        """The accuracy at each place of the answer; and of programs by their last
        operation, with the share of whole answers.
        """
        batch = self._held_out(self.test_examples)
        right, counts = judged(self._answers(model, batch), batch)
        constant, _ = judged(self._constant_answer(), batch)
        shares = right, constant
        rows = [
            (k + 1, int(seen.sum()), *(float(x[seen, k].mean()) for x in shares))
            for k, seen in enumerate(counts.T)
            if seen.any()
        ]
        columns = "place", "answers", "right", "constant answer"
        yield "by place", training.Table("test_accuracy", columns, rows)
        if "by operation" in self.analysis_titles:
            last = batch["last_operation"]
            yield "by operation", self._by_operation(last, right, counts)

    def _by_operation(self, last, right, counts):
        rows = []
        for number, name in enumerate(self.config.data.in_use):
            hits, all_of = (x[last == number] for x in (right, counts))
            if len(hits):
                whole = (hits == all_of).all(axis=1).mean()
                shares = hits.sum() / all_of.sum(), whole
                rows.append((name, len(hits), *map(float, shares)))
        columns = "last operation", "programs", "characters right", "whole answers"
        return training.Table("test_accuracy", columns, rows)
