"""Language modelling: read a text word by word, always predict the next one.

The task of section 4.3 of Santoro et al. 2018 (tables 2 and 3, figures 11 and 12). A
network that gives the words of a text the probabilities p_1 .. p_n has the perplexity

    exp(-(log p_1 + ... + log p_n) / n),

as if it had to choose among that many equally likely words each time.

*Lanes and windows.* The training text is cut into as many equal parts as a batch has
rows, the lanes. A step reads the next `window` words of every lane and goes back
through these alone, but the state of the network is carried on: truncated
back-propagation through time. When the lanes are at their end the next epoch begins,
with fresh states. The few words of a lane that fill no whole window are left out, in
each epoch at another place.

*The network.* Word embeddings, one or more layers of a core, a projection to the width
of the embeddings if that is another, and a softmax over the whole vocabulary whose
weights are the embeddings again (Inan et al. 2017; --model.no-tied gives it its own).
Layers of the lstm and the rnn are stacked plainly, each over the one below. The rnn
shows what is reached without a memory cell. Dropout, in training alone, acts on
embeddings, between layers, and on the output.

*A memory network*, `--model.core memn2n`, is the language model of Sukhbaatar et al.
2015 (section 5): its memories are the last `model.memories` words, and it has nothing
of what other cores have between embeddings and softmax. It learns from stretches of
`window` words, each with the words before it, from all over the text in a random order.
The presets `memn2n` and `memn2n_large` use stochastic gradient descent without dropout.
The rate falls after each epoch whose validation loss is not better than the last one's,
and the run ends when the rate is tiny.

*Every word counts once.* Each word of the validation and test text is predicted once,
the first as if a sentence had just ended (in text8, which has no sentences, the first
word is not predicted). A text is read in `data.lanes` parts side by side. Each part
first reads the `data.context` words before it, uncounted, so that it begins with a
state; `python -m tinyrmc evaluate` shows what it changes.

*Where this departs from the paper* (section 4.3 and appendix A.4):

    corpora    `quick` and `ptb` train on the Penn Treebank, `wikitext2` and
               `wikitext2_short` on WikiText-2, with the sizes of a public port of the
               RMC; `paper` on WikiText-103, or --data.corpus gutenberg, gigaword (the
               name of a book or story decides what it is for: see
               `python -m tinyrmc data --help`). Nobody has published a list of those
               books and stories, so runs on your copy stand beside no figure
    texts      any text of yours, by --data.text: see `corpora.own`
    batch      64 lanes in `paper`; the paper had six GPUs with 64 each
    MLP        a ReLU also after the attention MLP's last layer, but in `paper`
    wikitext2  the port tests the weights of its best epoch; here the last ones count.
               There the RMC begins every window of 100 words with a fresh memory, in
               training and in tests, while the LSTM keeps its state; here both keep it
    lstm       the paper's own figures for an LSTM come from Rae et al. 2018
    memn2n     its authors' program draws single words, not stretches of them, and with
               replacement. Neighbours share memories, so a stretch takes less time.
               That program trains and tests only on words that have all their memories;
               here the first words of the validation and the test text count too, with
               the memories that they have. On text8 the paper keeps words seen at least
               5 times, and counts some 44,000; PaddlePaddle's program counts that many
               that are seen at least 10 times, which is the rule here

*The first losses* of the RMC lie above ln 10,000 = 9.21, that of guessing among the
words of the Penn Treebank: in one run of `quick` 10.85 on average over the first ten
batches, and 8.2 after thirty. What it puts out is its memory, which its gates, with a
forget bias of 1, let grow to a size of 2 within a window (an LSTM's output has 0.05).
With tied embeddings the logits then have a standard deviation of 2 from the start, and
a network that is so sure of wrong words loses half the variance, some 2 nats. As in the
released program, nothing is done about it.

*Two floors*, drawn beside the curves where the training text is small enough to count:
the unigram, which always answers with the frequencies of words, and an interpolated
Kneser-Ney model of five words. A network has to come below the second one to predict
better than counting does.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinyrmc import corpora, fused, nn, training
from tinyrmc import primitives as p
from tinyrmc.backend import namespace, to_host
from tinyrmc.backend.seeds import generator
from tinyrmc.config import ADDED, PLACE, check_least, check_within
from tinyrmc.cores import CoreConfig, build_core, describe
from tinyrmc.cores.config import unused
from tinyrmc.cores.core import select_state, state_arrays, state_of
from tinyrmc.cores.memn2n import TextMemN2N
from tinyrmc.corpora import ngrams, sampling
from tinyrmc.corpora.corpus import EOS
from tinyrmc.errors import UserError, counted
from tinyrmc.training.streams import BLOCK, from_blocks

# --- What can be set ------------------------------------------------------------------


@dataclass(frozen=True)
class DataConfig:
    """The text, and how it is read."""

    common: typing.ClassVar = ("corpus", "text", "window")

    corpus: typing.Literal[
        "ptb", "wikitext-2", "wikitext-103", "text8", "gutenberg", "gigaword"
    ] = "ptb"
    """the text; `python -m tinyrmc data` lists them and gets them"""
    text: str | None = field(default=None, metadata=ADDED)
    """a text of your own instead, a file in UTF-8: `my.txt`"""
    split: tuple[float, float] = field(default=(0.9, 0.05), metadata=ADDED)
    """shares of your text for training and, after it, for validation; the rest is for
    testing
    """
    tokens: typing.Literal["words", "spaces", "characters"] | None = field(
        default=None, metadata=ADDED
    )
    """what your text is cut into: words and punctuation marks, what stands between
    spaces, or characters. None: words, but characters if it has hardly a space
    """
    vocabulary_size: int | None = None
    """how many words of the training text are kept, the most frequent ones; the others
    become <unk>; None: all
    """
    window: int = 35
    """words of each lane in a step, through which gradients go back"""
    lanes: int = 20
    """parts of a held-out text that are read side by side"""
    context: int = 100
    """words before its part that a lane reads first, uncounted"""

    def __post_init__(self):
        check_least("data", self, "window", "lanes")
        check_least("data", self, "vocabulary_size", least=2)
        check_least("data", self, "context", least=0)
        if not (min(self.split) > 0 and sum(self.split) < 1):
            raise ValueError(
                "data.split must be two shares above 0 that leave some for testing, "
                f"such as 0.9 0.05, not {self.split[0]:g} {self.split[1]:g}"
            )


@dataclass(frozen=True)
class ModelConfig(CoreConfig):
    """The core, and what is between it and the words."""

    common: typing.ClassVar = (
        *CoreConfig.common, "layers", "embedding_size", "hops", "memories"
    )  # fmt: skip
    # here the rnn may have several layers too, and the dnc has just one
    used: typing.ClassVar = {
        "rnn": ("total_units", "hidden_size", "layers"),
        "dnc": ("total_units", "hidden_size", "mem_slots", "forget_bias"),
    }
    where: typing.ClassVar = ("texts",)

    core: str = "rmc"
    """memn2n: the memory network of Sukhbaatar et al. 2015, set by embedding_size,
    hops, memories and relu alone. The others: see `nth_farthest --help`
    """
    layers: int = 1
    """layers of the lstm or rnn, each over the one below"""
    embedding_size: int = 256
    """width of the word embeddings"""
    tied: bool = True
    """whether the softmax uses the embeddings as its weights"""
    scaled: bool = field(default=False, metadata=ADDED)
    """whether the core reads the embeddings times the square root of their width, so
    that they are of size 1 at the start (Vaswani et al. 2017, section 3.4)
    """
    dropout_embedding: float = 0.0
    """fraction of the embeddings' units that a step of training leaves out"""
    dropout_between: float = 0.0
    """the same between layers"""
    dropout_output: float = 0.0
    """the same before the softmax"""
    dropout_shared: bool = False
    """whether a lane leaves out the same units at all steps of a window (Gal and
    Ghahramani 2016)
    """
    hops: int = field(default=6, metadata=ADDED)
    """of memn2n: how often it looks at its memories"""
    memories: int = field(default=100, metadata=ADDED)
    """of memn2n: how many of the last words are its memories"""
    relu: float = field(default=0.5, metadata=ADDED)
    """of memn2n: fraction of the units with a ReLU after each hop"""

    def __post_init__(self):
        super().__post_init__()
        check_least("model", self, "embedding_size", "hops", "memories")
        check_within("model", self, "[0, 1]", "relu")
        rates = "dropout_embedding", "dropout_between", "dropout_output"
        check_within("model", self, f"[0, {nn.Dropout.most}]", *rates)


@dataclass(frozen=True)
class PlateauConfig:
    """The rate falls when the validation text is no longer predicted better."""

    common: typing.ClassVar = ()

    factor: float | None = None
    """what the rate is multiplied by; None: it does not fall"""
    patience: int = 1
    """evaluations in a row without a better one after which the rate falls"""
    threshold: float = field(default=0.0, metadata=ADDED)
    """better means by more than this fraction"""
    against: typing.Literal["best", "last"] = field(default="best", metadata=ADDED)
    """better than the best loss so far, or than the last one"""
    stop_below: float | None = field(default=None, metadata=ADDED)
    """the run ends when the rate has fallen below this; None: it takes all its steps"""

    def __post_init__(self):
        check_within("plateau", self, "(0, 1)", "factor")
        check_least("plateau", self, "patience")
        check_within("plateau", self, "[0, inf]", "threshold")


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    data_dir: Path | None = field(default=None, metadata=PLACE)
    """the folder with the text, as its archive or unpacked; None: the user's cache
    folder, where `python -m tinyrmc data` puts it
    """
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    plateau: PlateauConfig = field(default_factory=PlateauConfig)
    train: training.TrainConfig = field(default_factory=training.TrainConfig)

    def __post_init__(self):
        if self.data.text is not None:  # its folder is a place, its name is not
            path = (self.data_dir or Path()) / Path(self.data.text).expanduser()
            object.__setattr__(self, "data", replace(self.data, text=path.name))
            object.__setattr__(self, "data_dir", path.parent)
        least, rate = self.plateau.stop_below, self.train.learning_rate
        if self.plateau.factor and least and least > rate:
            raise ValueError(
                f"plateau.stop_below {least:g} is more than train.learning_rate "
                f"{rate:g}, so the run would end at once; lower it"
            )


# An epoch of the Penn Treebank has 829 windows of 35 words in 32 lanes.
QUICK = Config(
    model=ModelConfig(
        mem_slots=1,
        num_heads=4,
        head_size=64,
        hidden_size=256,
        layers=2,
        embedding_size=256,
        dropout_embedding=0.3,
        dropout_between=0.3,
        dropout_output=0.3,
    ),
    data=DataConfig(corpus="ptb", window=35),
    train=training.TrainConfig(
        steps=12 * 829,
        batch_size=32,
        learning_rate=3e-3,
        cosine_fraction=1.0,
        beta2=0.99,
        clip_norm=0.5,
        evaluate_every=800,
    ),
)

PTB = replace(
    QUICK,
    model=replace(
        QUICK.model,
        hidden_size=650,
        head_size=160,
        embedding_size=650,
        dropout_embedding=0.5,
        dropout_between=0.5,
        dropout_output=0.5,
    ),
    train=replace(QUICK.train, steps=40 * 829),
)
# An epoch of WikiText-2 has 326 windows of 100 words in 64 lanes.
WIKITEXT2 = Config(
    model=ModelConfig(
        mem_slots=1,
        num_heads=4,
        head_size=192,
        key_size=64,
        attention_mlp_layers=3,
        embedding_size=192,
        hidden_size=300,
        dropout_embedding=0.5,
        dropout_output=0.5,
    ),
    data=DataConfig(corpus="wikitext-2", window=100),
    plateau=PlateauConfig(factor=0.5, patience=6, threshold=1e-4),
    train=training.TrainConfig(
        steps=100 * 326,
        batch_size=64,
        learning_rate=1e-3,
        warmup_steps=0,
        clip_norm=0.1,
        log_every=163,
        evaluate_every=326,
    ),
)
# With the windows and lanes of `quick` an epoch has 1,864 steps; we counted one more.
WIKITEXT2_SHORT = replace(
    WIKITEXT2,
    model=replace(WIKITEXT2.model, dropout_embedding=0.4, dropout_output=0.4),
    data=replace(QUICK.data, corpus="wikitext-2"),
    train=replace(
        QUICK.train,
        steps=7 * 1865,
        learning_rate=2e-3,
        warmup_steps=0,
        log_every=373,
        evaluate_every=1865,
    ),
)
# An epoch of WikiText-103 has 16,129 windows of 100 words in 64 lanes.
PAPER = Config(
    model=ModelConfig(
        mem_slots=1,
        num_heads=4,
        total_units=2500,
        attention_mlp_layers=5,
        activate_final=False,
        embedding_size=512,
        dropout_embedding=0.5,
    ),
    data=DataConfig(corpus="wikitext-103", window=100),
    train=training.TrainConfig(
        steps=20 * 16_129,
        batch_size=64,
        learning_rate=1e-3,
        warmup_steps=0,
        clip_norm=0.1,
        evaluate_every=5000,
    ),
)
# An epoch of the Penn Treebank has 7,262 batches of 128 words: 8 stretches of 16. The
# authors' program counts all words, and has 7,263.
MEMN2N = Config(
    model=ModelConfig(core="memn2n", embedding_size=150),
    data=DataConfig(corpus="ptb", window=16),
    plateau=PlateauConfig(
        factor=1 / 1.5, threshold=1e-4, against="last", stop_below=1e-5
    ),
    train=training.TrainConfig(
        steps=100 * 7263,
        batch_size=8,
        optimizer="sgd",
        learning_rate=0.01,
        warmup_steps=0,
        objective="sum",
        clip_norm=50.0,
        log_every=807,
        evaluate_every=7263,
    ),
)
MEMN2N_LARGE = replace(MEMN2N, model=replace(MEMN2N.model, hops=7, memories=200))
# An epoch of the whole of text8 has some 124,000 of these batches.
MEMN2N_TEXT8 = replace(
    MEMN2N_LARGE,
    model=replace(MEMN2N_LARGE.model, embedding_size=500),
    data=replace(MEMN2N.data, corpus="text8"),
    train=replace(
        MEMN2N.train, steps=100 * 124_000, log_every=1000, evaluate_every=124_000
    ),
)

# --- What to compare it with, and what to sweep over ----------------------------------

CORES = {"rmc": "RMC", "rmc_paper": "RMC", "lstm": "LSTM"}


# The sweep of appendix A.4. Its units, 1000, 1500 .. 3000, are here multiples of 120,
# so that every number of heads and slots divides them.
SWEEP = {
    "model.total_units": (960, 1560, 2040, 2520, 3000),
    "model.num_heads": (1, 2, 3, 4, 5),
    "model.mem_slots": (1, 2),
    "model.attention_mlp_layers": (1, 2, 3, 4, 5),
    "model.num_blocks": (1, 2, 3, 4),
}

# How often a word stands in the training text: the paper's table 3 has such columns.
FREQUENCIES = (0, 100, 1_000, 10_000, math.inf)
# After how many words the network is made to forget: the paper's figure 12.
UNROLLS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
AT_ONCE = 2_000  # words that are read at once in doing so

# A training text of at most this many tokens is counted for floors: ten seconds, 1 GB.
COUNTED = 5_000_000
ANNOUNCED = 500_000  # from this many on you are told, for it takes a second or more
FLOORS = "floors-1"  # the name under which they are kept


# --- What was published: test perplexities --------------------------------------------

# Each is a cell, `corpus, model`, with the words that train such a model, or None.
# Santoro et al. 2018, table 2, where the LSTM is that of Rae et al. 2018; and a public
# port of the RMC to WikiText-2 (github.com/L0SG/relational-rnn-pytorch).
PUBLISHED: dict[str, tuple[str, str | None]] = {
    "wikitext-103, RMC": ("31.6", "paper"),
    "wikitext-103, LSTM": ("34.3", "paper --model.core lstm"),
    "gutenberg, RMC": ("42.0", "paper --data.corpus gutenberg"),
    "gutenberg, LSTM": ("45.5", "paper --data.corpus gutenberg --model.core lstm"),
    "gigaword, RMC": ("38.3", "paper --data.corpus gigaword"),
    "gigaword, LSTM": ("43.7", "paper --data.corpus gigaword --model.core lstm"),
    "wikitext-2, RMC": ("107.2 (a port)", "wikitext2"),
    "wikitext-2, LSTM": (
        "105.6 (a port)",
        "wikitext2 --model.core lstm --model.embedding-size 300",
    ),
    # Sukhbaatar et al. 2015, table 2, of networks without a memory of words
    "ptb, RNN of 300 units": ("129", None),
    "ptb, LSTM of 100 units": ("115", None),
    "ptb, SCRN": ("115", None),
    "text8, RNN of 500 units": ("184", None),
    "text8, LSTM of 500 units": ("154", None),
    "text8, SCRN": ("161", None),
}

# The same table's memory networks: of 2 to 7 hops with 100 memories, of 6 hops with
# other numbers of memories, and the largest.
HOPS = {"model.hops": (2, 3, 4, 5, 6, 7)}
MEMORIES = {"model.memories": (25, 50, 75, 100, 125, 150)}
SIZES = [(k, 100) for k in range(2, 8)]
SIZES += [(6, n) for n in (25, 50, 75, 125, 150)] + [(7, 200)]
PERPLEXITIES = {
    "ptb": ("memn2n", (121, 122, 120, 118, 115, 114, 118, 114, 114, 112, 114, 111)),
    "text8": (
        "memn2n_text8",
        (187, 178, 162, 154, 155, 154, 163, 166, 158, 157, 154, 147),
    ),
}


def memn2n_cell(corpus: str, hops: int, memories: int) -> str:
    """The cell of a memory network."""
    return f"{corpus}, MemN2N, {hops} hops, {memories} memories"


for _corpus, (_preset, _values) in PERPLEXITIES.items():
    for _size, _value in zip(SIZES, _values, strict=True):
        _words = "{} --model.hops {} --model.memories {}".format(_preset, *_size)
        PUBLISHED[memn2n_cell(_corpus, *_size)] = str(_value), _words


# --- Texts, as they are read ----------------------------------------------------------
#
# A model is called as `losses, state = model(tokens, targets, state)`, on tokens (B, T)
# and those after them. The state is carried on, so that a long text can be read window
# after window.


class BPTTBatches(training.Stream):
    """Windows of a text, read in several lanes at once, epoch after epoch.

    A batch has tokens (B, T) and targets (B, T), each target the token that follows;
    is_first (B,), whether an epoch begins; and noise (B,), the seed of each lane's
    dropout masks in this step.
    """

    random_access = True

    def __init__(self, text, lanes: int, window: int, seed: int):
        self.text = text
        self.lanes = lanes
        self.window = window
        self.seed = seed
        self.length = (len(text) - 1) // lanes  # of a lane
        self.windows = self.length // window
        if not self.windows:
            raise UserError(
                f"the training text has {len(text):,} tokens, too few for {lanes} "
                f"lanes of {window} and the word after; take a smaller "
                "--train.batch-size or --data.window"
            )

    def batch(self, step, start, stop):
        """Lanes start .. stop - 1 of a step's windows."""
        epoch, place = divmod(step, self.windows)
        over = self.length - self.windows * self.window
        first = generator(self.seed, epoch).integers(over + 1) + place * self.window
        rows = np.arange(start, stop)[:, None] * self.length + first
        tokens = self.text[rows + np.arange(self.window + 1)]  # (B, T + 1)

        def seeds(block):
            rng = generator(self.seed, step, block)
            return {"noise": rng.integers(2**63, size=BLOCK)}

        return {
            "tokens": np.ascontiguousarray(tokens[:, :-1]),
            "targets": np.ascontiguousarray(tokens[:, 1:]),
            "is_first": np.full(stop - start, place == 0),
            **from_blocks(seeds, start, stop),
        }


def stretches(text, lanes: int, window: int, before: int, seed: int) -> training.Epochs:
    """Stretches of a text in a random order, each with what comes before it.

    A batch has tokens (B, T), targets (B, T), each the token that follows, and
    `before` (B, before), the tokens that come first. So a model that looks back no
    further needs no state from elsewhere. An epoch brings every place that has this
    much before it, once; but where the last stretch would be cut off, it begins a bit
    earlier, so that some places come twice.

    UserError if the text is too short for one stretch.
    """
    longest = before + window + 1
    if len(text) < longest:
        raise UserError(
            f"the training text has {len(text):,} tokens, too few for stretches of "
            f"{longest}; take less memory, or a smaller --data.window"
        )
    firsts = np.minimum(
        np.arange(before, len(text) - 1, window), len(text) - 1 - window
    )
    near = np.arange(-before, window + 1)
    parts = {
        "before": slice(before),
        "tokens": slice(before, -1),
        "targets": slice(before + 1, None),
    }

    def take(rows):
        words = text[firsts[rows, None] + near]
        return {name: np.ascontiguousarray(words[:, x]) for name, x in parts.items()}

    return training.Epochs(len(firsts), lanes, seed, take=take, last="fill")


class Text(typing.NamedTuple):
    """A text to be predicted, as what is read and what follows."""

    tokens: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(cls, ids, end: int | None):
        """Every id is a target; the first one follows the `end` of a sentence.

        Where there is no such token, the first id is not predicted.
        """
        if end is None:
            return cls(ids[:-1], ids[1:])
        return cls(np.concatenate([np.full(1, end, ids.dtype), ids[:-1]]), ids)


class Parts(typing.NamedTuple):
    """Which places of a text are read side by side; arrays of one value a lane."""

    reading: np.ndarray  # the first place that is read
    counting: np.ndarray  # the first place that counts
    end: np.ndarray

    @classmethod
    def lanes(cls, length: int, lanes: int, context: int):
        """Equal parts, each of which first reads what comes before it."""
        bounds = length * np.arange(lanes + 1) // lanes
        return cls(np.maximum(bounds[:-1] - context, 0), bounds[:-1], bounds[1:])

    @classmethod
    def stretches(cls, length: int, size: int):
        """Parts of `size` places each, which know nothing of each other."""
        starts = np.arange(0, length, size)
        return cls(starts, starts, np.minimum(starts + size, length))

    def some(self, rows) -> Parts:
        """A selection of the lanes."""
        return Parts(*(x[rows] for x in self))


def score(
    model, text: Text, parts: Parts, window: int, **how: typing.Any
) -> Iterator[tuple]:
    """(places, losses, scored), window after window, each (B, T) of all parts.

    The losses, -log p of the tokens at these places, are where the model is; the other
    two are on the host. Over all windows, every place of a part is counted once. Every
    part begins with a fresh state, which is carried to its end. Records no tape. `how`
    goes to the model.
    """
    if not len(parts.end):  # with few lanes, some workers get none
        return
    xp = library(model)
    state = model.initial_state(len(parts.end))
    for first in range(0, int((parts.end - parts.reading).max(initial=0)), window):
        places = parts.reading[:, None] + first + np.arange(window)
        scored = (places >= parts.counting[:, None]) & (places < parts.end[:, None])
        within = np.minimum(places, len(text.tokens) - 1)
        tokens, targets = (xp.asarray(x[within]) for x in text)
        losses, state = model(tokens, targets, state, **how)
        yield places, losses.data, scored


def total(model, text: Text, parts: Parts, window: int) -> tuple:
    """(the sum of the losses that count, where the model is; their number)."""
    xp, weight = library(model), next(iter(model.parameters()))
    sums = [xp.zeros((), weight.dtype)]
    count = 0
    for _, losses, scored in score(model, text, parts, window):
        sums.append(xp.sum(losses * xp.asarray(scored)))
        count += int(scored.sum())
    return xp.sum(xp.stack(sums)), count  # of sums of a few: float32 rounds little


def library(model) -> typing.Any:
    """The array library that a model's parameters are in."""
    return namespace(next(iter(model.parameters())).data)


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


# --- The network ----------------------------------------------------------------------


def _stacked(model: ModelConfig) -> int:
    """The number of layers, each over the one below."""
    return model.layers if model.core in ("lstm", "rnn") else 1


class Network(nn.Module):
    """Embeddings, layers of a core, and a softmax over all words."""

    def __init__(self, config: Config, words: int, seed):
        m = config.model
        rng = nn.generator(seed)
        E = m.embedding_size
        self.embedding = nn.Embedding(words, E, seed=rng)
        self.scale = math.sqrt(E) if m.scaled else None
        self.layers = []
        width = E
        for _ in range(_stacked(m)):
            self.layers.append(build_core(replace(m, layers=1), width, rng))
            width = self.layers[-1].output_size
        self.projection = self.softmax = None
        if m.tied and width != E:
            self.projection = nn.Linear(width, E, seed=rng)
        if not m.tied:
            self.softmax = nn.Embedding(words, width, seed=rng)
        self.bias = nn.Parameter(np.zeros(words, np.float32))
        along = 1 if m.dropout_shared else ()  # time, in (B, T, E)
        self.after_embedding = nn.Dropout(m.dropout_embedding, shared=along)
        self.between = nn.Dropout(m.dropout_between, shared=along)
        self.after_output = nn.Dropout(m.dropout_output, shared=along)

    def initial_state(self, batch_size: int) -> tuple:
        """One state for each layer."""
        return tuple(layer.initial_state(batch_size) for layer in self.layers)

    def __call__(self, tokens, targets, state, noise=None):
        """Tokens (B, T) and the tokens after them -> -log p of each (B, T), state."""
        outputs, state = self.unroll(tokens, state, noise)
        softmax = self._weight, targets, self.bias
        return fused.linear_cross_entropy(outputs, *softmax), state

    def unroll(self, tokens, state, noise=None):
        """The inputs of the softmax, (B, T, E), and the next state.

        noise: for dropout, an `nn.Noise` with one seed a lane; None: there is none.
        """
        x = self.embedding(tokens)
        after = []
        if self.scale is not None:
            x = x * self.scale
        x = self.after_embedding(x, noise)
        for number, (layer, before) in enumerate(zip(self.layers, state, strict=True)):
            x = self.between(x, noise) if number else x
            outputs, ended = layer.unroll(x, before)
            x = p.stack(outputs, axis=1)  # (B, T, F)
            after.append(ended)
        x = self.after_output(x, noise)
        return (self.projection(x) if self.projection else x), tuple(after)

    def logits(self, tokens, state):
        """Tokens (B, T) -> the logits (B, V) of the token that follows, next state."""
        outputs, state = self.unroll(tokens, state)
        weight = p.swapaxes(self._weight, 0, 1)
        return outputs[:, -1] @ weight + self.bias, state

    @property
    def _weight(self):
        """The softmax's weights (V, E), a row a word."""
        return (self.softmax or self.embedding).weight


# --- Two ways to learn from a text ----------------------------------------------------


class Carried:
    """A core with a state, which it carries from window to window."""

    carries = True
    analysis_titles: typing.ClassVar[dict[str, str]] = {}

    def __init__(self, config: Config):
        self.config = config
        self.context = config.data.context

    def build(self, words, seed):
        return Network(self.config, words, seed)

    def stream(self, text, seed):
        lanes, window = self.config.train.batch_size, self.config.data.window
        return BPTTBatches(text, lanes, window, seed)

    def losses(self, model, batch, carry):
        """The losses (B, T), and the carry."""
        state = model.initial_state(len(batch["tokens"]))
        if carry is not None:
            carried = state_of(carry, like=state)
            state = select_state(batch["is_first"], state, carried)
        noise = nn.Noise(batch["noise"])
        losses, state = model(batch["tokens"], batch["targets"], state, noise)
        return losses, state_arrays(state)

    def analyses(self, model, text, parts):
        return ()

    def describe(self, model, words):
        m = self.config.model
        layers = f"{len(model.layers)} layers of " if len(model.layers) > 1 else ""
        core = describe(replace(m, layers=1), model.layers[0])
        return f"{layers}{core}, {words}{', tied' * m.tied}"

    def idle(self):
        m = self.config.model
        names = [f"model.{name}" for name in ("hops", "memories", "relu")]
        found = {f"on the core {m.core}": names}
        if _stacked(m) == 1:
            found["in a network of one layer"] = ["model.dropout_between"]
        if not (m.dropout_embedding or m.dropout_between or m.dropout_output):
            found["without dropout"] = ["model.dropout_shared"]
        return found

    def published(self):
        """(the cell, the preset that trains such a network, its published size)."""
        corpus, core = self.config.data.corpus, self.config.model.core
        cell = f"{corpus}, {CORES.get(core)}"
        usual = WIKITEXT2 if corpus == "wikitext-2" else PAPER
        size = replace(usual.model, core=core)
        if cell == "wikitext-2, LSTM":
            size = replace(size, embedding_size=300)
        return cell, usual, size


class Remembered:
    """A memory network, which reads stretches with the words before them."""

    carries = False
    analysis_titles: typing.ClassVar[dict[str, str]] = {
        "weights by hop": "how much each hop looks at each memory"
    }

    def __init__(self, config: Config):
        # each part of a held-out text begins with all memories
        self.config = config
        self.context = config.model.memories - 1

    def build(self, words, seed):
        m = self.config.model
        sizes = m.embedding_size, m.memories, m.hops
        return TextMemN2N(words, *sizes, m.relu, seed=seed)

    def stream(self, text, seed):
        lanes, window = self.config.train.batch_size, self.config.data.window
        return stretches(text, lanes, window, self.context, seed)

    def losses(self, model, batch, carry):
        """The losses (B, T); nothing is carried on."""
        losses, _ = model(batch["tokens"], batch["targets"], batch["before"])
        return losses, None

    def analyses(self, model, text, parts):
        """The weight of each hop on the last word, the one before it, and so on."""
        hops = []
        sums = 0.0
        words = 0
        window = self.config.data.window
        for *_, scored in score(model, text, parts, window, trace=hops):
            places = [to_host(seen["weights"])[scored] for seen in hops]  # (., N)
            sums += np.array([x.sum(axis=0, dtype=float) for x in places])
            words += scored.sum()
            hops.clear()
        heads = [f"hop {k + 1}" for k in range(len(sums))]
        rows = [(k + 1, *w) for k, w in enumerate((sums / words).T[::-1].tolist())]
        heads = "words ago", *heads
        yield "weights by hop", training.HeatMap("weight", heads, rows)

    def describe(self, model, words):
        m = self.config.model
        return f"memn2n, {counted(m.hops, 'hop')}, {m.memories} memories, {words}"

    def idle(self):
        names = [f"dropout_{name}" for name in ("embedding", "between", "output")]
        names = [f"model.{x}" for x in ("tied", "scaled", *names, "dropout_shared")]
        return {"on the core memn2n": [*names, "data.context"]}

    def published(self):
        """(the cell, the preset that trains such a network, its published size)."""
        corpus, m = self.config.data.corpus, self.config.model
        usual = MEMN2N_TEXT8 if corpus == "text8" else MEMN2N
        size = replace(usual.model, hops=m.hops, memories=m.memories)
        return memn2n_cell(corpus, m.hops, m.memories), usual, size


# --- The task -------------------------------------------------------------------------


class Task(training.Task):
    """Language modelling; see the module's text."""

    presets = {
        "quick": ("the Penn Treebank at 256 units, twelve epochs", QUICK),
        "ptb": ("the Penn Treebank at 640 or 650 units; not run here", PTB),
        "wikitext2": (
            "WikiText-2 with the recipe and sizes of a public port, 12 million "
            "parameters; not run here",
            WIKITEXT2,
        ),
        "wikitext2_short": (
            "the same network in seven epochs, two to three hours of one core",
            WIKITEXT2_SHORT,
        ),
        "paper": (
            "WikiText-103, or --data.corpus gutenberg, gigaword, with the paper's "
            "settings; not run here",
            PAPER,
        ),
        "memn2n": (
            "the Penn Treebank with a memory network, 100 words; not run here",
            MEMN2N,
        ),
        "memn2n_large": ("7 hops over the last 200 words", MEMN2N_LARGE),
        "memn2n_text8": (
            "the same with 500 units, on all of text8; not run here",
            MEMN2N_TEXT8,
        ),
    }
    grids = {
        "a4": ("the sweep of the paper's appendix A.4", "paper", SWEEP),
        "hops": ("a memory network of 2 to 7 hops", "memn2n", HOPS),
        "memories": ("a memory network of 25 to 150 memories", "memn2n", MEMORIES),
    }
    published = PUBLISHED
    headline = "perplexity"
    success = None  # no perplexity counts as one
    lower = ("loss", "perplexity")
    splits = ("validation", "test")
    carries = True
    row = "lane"

    def __init__(self, config: Config):
        super().__init__(config)
        rate = config.plateau
        remembers = config.model.core == "memn2n"
        self.way = (Remembered if remembers else Carried)(config)
        self.unit = ("tokens", config.data.window)
        self.carries = self.way.carries
        self.plateau = rate.factor and training.Plateau(
            "validation_loss", rate.factor, rate.patience, rate.threshold, rate.against
        )

    @functools.cached_property
    def corpus(self) -> corpora.Corpus:
        """The text; set it before training to model one that is no corpus."""
        data, folder = self.config.data, self.config.data_dir
        if data.text is None:
            return corpora.load(data.corpus, folder, data.vocabulary_size)
        how = data.split, data.tokens, data.vocabulary_size
        return corpora.own(folder / data.text, *how)

    # --- What is learnt

    def build(self, seed):
        return self.way.build(len(self.corpus.vocabulary), seed)

    def stream(self, model, seed):
        data, texts = self.config.data, self.corpus.texts
        for split in self.splits:
            if len(texts[split]) < data.lanes:
                raise UserError(
                    f"the {split} text has {len(texts[split]):,} tokens, too few for "
                    f"{data.lanes:,} lanes; take a smaller --data.lanes"
                )
        return self.way.stream(texts["train"], seed)

    phases = ()  # the plateau moves the rate alone

    def loss(self, model, batch, carry):
        losses, carry = self.way.losses(model, batch, carry)
        return p.sum(losses), losses.size, {}, carry

    def learning_rate(self, step):
        falls = self.plateau.scale if self.plateau else 1.0
        return falls * super().learning_rate(step)

    def finished(self, step):
        least, rate = self.config.plateau.stop_below, self.config.train.learning_rate
        if self.plateau and least is not None and self.plateau.scale * rate < least:
            return True
        return super().finished(step)

    def observe(self, step, metrics):
        if self.plateau:
            self.plateau.observe(metrics)

    @property
    def text_checksum(self):
        return self.corpus.checksum

    def state(self):
        kept = self.plateau.state() if self.plateau else {}
        return kept | {"text": self.text_checksum}

    def load_state(self, state):
        corpora.require_same(state.get("text"), self.text_checksum)
        if self.plateau:
            self.plateau.load_state(state)

    # --- How it is tested

    def summary(self, means):
        """With the perplexity, which is not the mean of the batches' perplexities."""
        return means | {"perplexity": perplexity(means["loss"])}

    def effort(self, split):
        """The windows of a text."""
        return len(self.corpus.texts[split]) / self.config.data.window

    def evaluate(self, model, worker=0, workers=1, xp=np, split=None):
        """The sum of the losses of a worker's lanes of a text, and their number."""
        data = self.config.data
        text = self._text(split or self.splits[0])
        parts = self._lanes(text)
        mine = parts.some(np.arange(worker, data.lanes, workers))
        return {"loss": total(model, text, mine, data.window)}

    @property
    def analysis_titles(self):
        forgets = "the perplexity if it forgets everything after a set number of words"
        lanes = f"{self.config.data.lanes} lanes"
        return self.way.analysis_titles | {
            "by frequency": "the perplexity of rare and of common words",
            "by words read": f"{forgets}, in {len(UNROLLS)} readings of the text",
            "as one text": f"a check; it should come to about the same as in {lanes}",
        }

    def analyses(self, model):
        """For a memory network, how much each hop looks at each memory, over the
        validation text (figure 3 of its paper).

        Then perplexity of the last split, by how frequent the words are in training (as
        table 3 of the RMC's paper has it for GigaWord), by how many words the network
        has read (its figure 12), and read as one text, without lanes.
        """
        first = self._text(self.splits[0])
        yield from self.way.analyses(model, first, self._lanes(first))
        split = self.splits[-1]
        text = self._text(split)
        metric = f"{split}_perplexity"
        columns = "in training", "words", "share", "perplexity"
        rows = [*self._by_frequency(model, text)]
        yield "by frequency", training.Table(metric, columns, rows)
        count = len(text.targets)
        rows = [  # it forgets everything after every k words
            (k, self._perplexity(model, text, Parts.stretches(count, k)))
            for k in UNROLLS
        ]
        yield "by words read", training.Curve(metric, ("words read", split), rows)
        rows = [(1, self._perplexity(model, text, Parts.lanes(count, 1, 0)))]
        yield "as one text", training.Table(metric, ("lanes", "perplexity"), rows)

    def _by_frequency(self, model, text):
        """(range, words, their share, perplexity) of each range of training counts."""
        losses = np.empty(len(text.targets))
        data = self.config.data
        parts = self._lanes(text)
        for places, found, scored in score(model, text, parts, data.window):
            losses[places[scored]] = to_host(found)[scored]
        counts = self.corpus.vocabulary.counts[text.targets]
        for least, below in itertools.pairwise(FREQUENCIES):
            chosen = (counts >= least) & (counts < below)
            if chosen.any():
                end = f"to {below - 1:,}" if below < math.inf else "and more"
                share = f"{100 * chosen.mean():.1f} %"
                found = perplexity(losses[chosen].mean())
                yield f"{least:,} {end}", int(chosen.sum()), share, found

    def _perplexity(self, model, text, parts):
        """The perplexity of the places that the parts count, some parts at a time."""
        longest = int((parts.end - parts.reading).max())
        window = min(self.config.data.window, longest)
        loss = 0.0
        count = 0
        some = max(1, AT_ONCE // window)
        for first in range(0, len(parts.end), some):
            chosen = parts.some(slice(first, first + some))
            found, number = total(model, text, chosen, window)
            loss, count = loss + float(found), count + number
        return perplexity(loss / count)

    def _lanes(self, text) -> Parts:
        """The parts in which a held-out text is read side by side."""
        lanes = self.config.data.lanes
        return Parts.lanes(len(text.targets), lanes, self.way.context)

    def _text(self, split) -> Text:
        return Text.of(self.corpus.texts[split], self.corpus.vocabulary.eos)

    # --- What to compare it with

    def describe(self, model):
        width = self.config.model.embedding_size
        words = f"{len(self.corpus.vocabulary):,} words x {width}"
        return self.way.describe(model, words)

    def notes(self):
        notes = self.corpus.notes
        if self.config.data.text is None:
            return notes
        sizes = [f"{len(self.corpus.texts[part]):,}" for part in corpora.PARTS]
        unit = "characters" if self.corpus.unit == "characters" else "words"
        windows = self.config.train.batch_size * self.config.data.window
        epoch = max(1, len(self.corpus.texts["train"]) // windows)
        return (
            *notes,
            f"{', '.join(sizes)} {unit} to train, validate and test, "
            f"{len(self.corpus.vocabulary):,} different ones; an epoch has "
            f"{counted(epoch, 'step')}",
        )

    def idle(self):
        found = self.way.idle()
        if self.plateau is None:
            own = "patience", "threshold", "against", "stop_below"
            found["without plateau.factor"] = [f"plateau.{name}" for name in own]
        if self.config.data.text is None:
            found["without data.text"] = ["data.split", "data.tokens"]
        else:
            found["beside data.text"] = ["data.corpus"]
        return found

    def references(self):
        """The perplexities of counting, if the training text is short enough."""
        if len(self.corpus.texts["train"]) > COUNTED:
            return {f"{split}_perplexity": {} for split in self.splits}
        return self._floors

    @functools.cached_property
    def _floors(self) -> dict[str, dict[str, float]]:
        return corpora.kept(self.corpus, FLOORS, self._counted)

    def _counted(self) -> dict[str, dict[str, float]]:
        """Within sentences, as published figures for the Penn Treebank are."""
        words, texts = self.corpus.vocabulary, self.corpus.texts
        train = texts["train"]
        if len(train) > ANNOUNCED:
            says = f"counting {len(train):,} tokens for the floors (once, then kept)"
            print(says, file=sys.stderr, flush=True)
        unigram = ngrams.KneserNey(train, len(words), order=1)
        fivegram = ngrams.KneserNey(train, len(words), order=5, boundary=words.eos)
        return {
            f"{split}_perplexity": {
                "unigram": unigram.perplexity(texts[split]),
                "5-gram Kneser-Ney": fivegram.perplexity(texts[split]),
            }
            for split in self.splits
        }

    def cell(self):
        """For a network of the published size, on the published text."""
        model = self.config.model
        cell, usual, size = self.way.published()
        if cell not in self.published or not self._published_text:
            return None
        unlike = {name for name, x in vars(size).items() if getattr(model, name) != x}
        alike = unlike <= {*unused(model)}
        steps = self.config.train.steps
        return cell if alike and steps >= usual.train.steps else None

    @property
    def _published_text(self) -> bool:
        """Whether all words are those of the published text, as far as is known.

        Of books and newswire nobody has published which files they were.
        """
        data = self.config.data
        if data.vocabulary_size is not None or data.text is not None:
            return False
        try:
            notes = self.corpus.notes
        except UserError:  # it is not here
            return True
        known = corpora.CORPORA[data.corpus].hashes
        return bool(known) and not any("not the published text" in x for x in notes)

    # --- What it writes

    @property
    def prompt(self) -> str:
        """The first word of the training text, for a command to begin with."""
        words = self.corpus.vocabulary.decode(self.corpus.texts["train"][:1000])
        if self.corpus.unit == "characters":
            text = "".join(x if len(x) == 1 else " " for x in words)  # <eos>, <unk>
            found = re.search(r"\w{1,8}", text)
            return found[0] if found else words[0]
        return next((x for x in words if x.isalpha()), words[0])

    @property
    def between(self) -> str:
        """The characters between two of its tokens: a space, or none."""
        return "" if self.corpus.unit == "characters" else " "

    def generate(
        self, model, prompt, rng, words=100, temperature=1.0, top_k=0, unk=True
    ):
        """Words that follow a prompt, which stands at the beginning of a sentence.

        A word that is unknown is read in lower case, as all words of the Penn Treebank
        are. UserError if it is unknown then too.
        """
        vocabulary = self.corpus.vocabulary
        read = corpora.tokens_of(prompt, self.corpus.unit)
        if vocabulary.eos is None:
            read = [word for word in read if word != EOS]
        known = vocabulary.ids
        lower = {w: w.lower() for w in read if w not in known and w.lower() in known}
        try:
            ids = vocabulary.encode(lower.get(w, w) for w in read)
        except corpora.CorpusError as error:
            example = ": company 's, not company's" if "'s" in known else ""
            raise UserError(
                f"{error}, with spaces between them as it has them{example}"
            ) from None
        if vocabulary.eos is not None:
            ids = np.concatenate([[vocabulary.eos], ids])
        if not len(ids):
            raise UserError(
                f"{self.corpus.name} has no sentences that an empty prompt "
                "could begin; give a first word"
            )
        never = None if unk else vocabulary.unk  # the id of what is not drawn
        return self._written(model, ids, rng, words, temperature, top_k, never)

    def _written(self, model, ids, rng, words, temperature, top_k, never):
        xp = library(model)
        eos = self.corpus.vocabulary.eos
        state = model.initial_state(1)
        for _ in range(words):
            tokens = xp.asarray(np.asarray(ids)[None])
            logits, state = model.logits(tokens, state)
            scores = np.array(to_host(logits.data[0]))
            if never is not None:
                scores[never] = -np.inf
            ids = [sampling.draw(scores, rng, temperature, top_k)]
            (word,) = self.corpus.vocabulary.decode(ids)
            yield "\n" if ids[0] == eos else word
