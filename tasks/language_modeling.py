"""Language modelling: read a text word by word, always predict the next one.

The task of section 4.4 of Santoro et al. 2018 (tables 2 and 3, figures 11 and 12). A
network that gives the words of a text the probabilities p_1 .. p_n has the perplexity

    exp(-(log p_1 + ... + log p_n) / n),

as if it had to choose among so many equally likely words each time.

*Lanes and windows.* The training text is cut into as many equal parts as a batch has
rows, the lanes. A step reads the next `window` words of every lane and goes back
through these alone, but the state of the network is carried on: truncated
back-propagation through time. When the lanes are at their end the next epoch begins,
with fresh states. The few words of a lane that fill no whole window are left out, in
each epoch at another place.

*The network.* Word embeddings, one or more layers of a core, a projection to the width
of the embeddings if that is another, and a softmax over the whole vocabulary whose
weights are the embeddings again (Inan et al. 2017; --model.no-tied gives it its own).
Layers of the lstm and the rnn are stacked plainly, each over the one below. The rnn is
the floor without a memory cell. Dropout, in training alone, falls on embeddings,
between layers, and on the output.

*Every word counts once.* Each word of the validation and test text is predicted once,
the first as if a sentence had just ended (in text8, which has no sentences, the first
word is not predicted). A text is read in `data.lanes` parts side by side. Each part
first reads the `data.context` words before it, uncounted, so that it begins with a
state. With --data.lanes 1 the text is read in one piece; `python -m tinyrmc.evaluate`
does that too, and shows what it changes.

*Where this departs from the paper* (section 4.4 and appendix A.4):

    corpora    `quick` and `ptb` train on the Penn Treebank, `wikitext2` on WikiText-2,
               with the sizes of a public port of the RMC; `paper` on WikiText-103, or
               --data.corpus gutenberg, gigaword (which book or story is for what,
               its name decides; `python -m tinyrmc.data --help` has examples)
    batch      64 lanes in `paper`; the paper had six GPUs with 64 each
    lstm       the paper's own figures for an LSTM come from Rae et al. 2018

*Two floors*, drawn beside the curves where the training text is small enough to count:
the unigram, which always answers with the frequencies of words, and an interpolated
Kneser-Ney model of five words. A network has to come below the second one to predict
better than counting does.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinyrmc import corpora, fused, ngrams, nn, sampling, training
from tinyrmc import primitives as p
from tinyrmc.backend import namespace, to_device, to_host
from tinyrmc.config import PLACE
from tinyrmc.cores import CoreConfig, build_core, describe
from tinyrmc.cores.config import without_effect
from tinyrmc.cores.core import select_state, state_arrays, state_of
from tinyrmc.errors import UserError
from tinyrmc.training.streams import BLOCK, from_blocks, generator

# --- What can be set ------------------------------------------------------------------


@dataclass(frozen=True)
class DataConfig:
    """The text, and how it is read."""

    common: typing.ClassVar = ("corpus", "window")

    corpus: typing.Literal[
        "ptb", "wikitext-2", "wikitext-103", "text8", "gutenberg", "gigaword"
    ] = "ptb"
    """the text; `python -m tinyrmc.data` lists them and gets them"""
    vocabulary_size: int | None = None
    """the most frequent words of the training text, the others being <unk>; None: all
    of them
    """
    window: int = 35
    """words of each lane in a step, through which gradients go back"""
    lanes: int = 20
    """parts of a held-out text that are read side by side"""
    context: int = 100
    """words before its part that a lane reads first, uncounted"""

    def __post_init__(self):
        bounds = {"vocabulary_size": 2, "window": 1, "lanes": 1, "context": 0}
        for name, least in bounds.items():
            if (value := getattr(self, name)) is not None and value < least:
                raise ValueError(
                    f"data.{name} must be an integer of at least {least}, not "
                    f"{getattr(self, name)}"
                )


@dataclass(frozen=True)
class ModelConfig(CoreConfig):
    """The core, and what is between it and the words."""

    common: typing.ClassVar = (*CoreConfig.common, "layers", "embedding_size")

    layers: int = 1
    """layers of the lstm or rnn, each over the one below"""
    embedding_size: int = 256
    """width of the word embeddings"""
    tied: bool = True
    """whether the softmax has the embeddings for weights"""
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

    def __post_init__(self):
        super().__post_init__()
        if self.embedding_size < 1:
            raise ValueError(
                "model.embedding_size must be an integer of at least 1, not "
                f"{self.embedding_size}"
            )
        for name in ("dropout_embedding", "dropout_between", "dropout_output"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"model.{name} must be in [0, 1), not {getattr(self, name)}"
                )


@dataclass(frozen=True)
class PlateauConfig:
    """The rate falls when the validation text is no longer predicted better."""

    common: typing.ClassVar = ()

    factor: float | None = None
    """what the rate is multiplied by; None: it does not fall"""
    patience: int = 1
    """the rate falls after so many evaluations in a row without a better one"""

    def __post_init__(self):
        if self.factor is not None and not 0 < self.factor < 1:
            raise ValueError(f"plateau.factor must be in (0, 1), not {self.factor}")
        if self.patience < 1:
            raise ValueError(
                f"plateau.patience must be at least 1, not {self.patience}"
            )


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    data_dir: Path | None = field(default=None, metadata=PLACE)
    """the folder with the text, as its archive or unpacked; None: the user's cache
    folder, where `python -m tinyrmc.data` puts it
    """
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    plateau: PlateauConfig = field(default_factory=PlateauConfig)
    train: training.TrainConfig = field(default_factory=training.TrainConfig)


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
        decay=1.0,
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
    plateau=PlateauConfig(factor=0.5, patience=5),
    train=training.TrainConfig(
        steps=100 * 326,
        batch_size=64,
        learning_rate=1e-3,
        warmup_steps=0,
        clip_norm=0.1,
        evaluate_every=300,
    ),
)
WIKITEXT2_REGULARISED = replace(
    WIKITEXT2,
    model=replace(
        WIKITEXT2.model,
        head_size=256,
        hidden_size=1150,
        layers=3,
        embedding_size=400,
        dropout_between=0.25,
        dropout_shared=True,
    ),
    data=DataConfig(corpus="wikitext-2", window=70),
    train=replace(WIKITEXT2.train, steps=100 * 466, decay=1.0),
)
# An epoch of WikiText-103 has 16,129 windows of 100 words in 64 lanes.
PAPER = Config(
    model=ModelConfig(
        mem_slots=1,
        num_heads=4,
        total_units=2500,
        attention_mlp_layers=5,
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

# --- What was published ---------------------------------------------------------------

# Test perplexities: the paper's table 2, where the LSTM is that of Rae et al. 2018; and
# a public port of the RMC to WikiText-2 (github.com/L0SG/relational-rnn-pytorch).
PUBLISHED = {
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
}
CORES = {"rmc": "RMC", "rmc_paper": "RMC", "lstm": "LSTM"}


def _differences(one: ModelConfig, other: ModelConfig) -> set[str]:
    """The fields in which two networks differ."""
    values = vars(other).items()
    return {name for name, value in values if getattr(one, name) != value}


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
AT_ONCE = 2_000  # words that are read at once, meanwhile

# A training text of at most so many tokens is counted for floors: ten seconds, 1 GB.
COUNTED = 5_000_000
TOLD = 500_000  # from so many on you are told, for it takes a second or more
FLOORS = "floors-1"  # the name under which they are kept


# --- Reading --------------------------------------------------------------------------


class Lanes(training.Stream):
    """Windows of a text, read in so many lanes at once, epoch after epoch.

    A batch has tokens (B, T) and targets (B, T), each target the token that follows;
    fresh (B,), whether an epoch begins; and noise (B,), the seed of each lane's dropout
    masks in this step.
    """

    random_access = True

    def __init__(self, text, lanes: int, window: int, seed: int):
        self.text, self.lanes, self.window, self.seed = text, lanes, window, seed
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
            "fresh": np.full(stop - start, place == 0),
            **from_blocks(seeds, start, stop),
        }


# --- The network ----------------------------------------------------------------------


class Network(nn.Module):
    """Embeddings, layers of a core, and a softmax over all words."""

    def __init__(self, config: Config, words: int, seed):
        m, rng = config.model, np.random.default_rng(seed)
        E = m.embedding_size
        self.embedding = nn.Embedding(words, E, seed=rng)
        stacked = m.layers if m.core in ("lstm", "rnn") else 1
        self.layers, width = [], E
        for _ in range(stacked):
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
        """What the softmax sees, (B, T, E), and the next state.

        noise: for dropout, an `nn.Noise` with one seed a lane; None: there is none.
        """
        x, after = self.after_embedding(self.embedding(tokens), noise), []
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


# --- Scoring --------------------------------------------------------------------------


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


def score(model, text: Text, parts: Parts, window: int) -> Iterator[tuple]:
    """(places, losses, counted), window after window, each (B, T) of all parts.

    The losses, -log p of the tokens at these places, are where the model is; the other
    two are on the host. Of all windows together every place of a part is counted once.
    Every part begins with a fresh state, which is carried to its end. Records no tape.
    """
    xp = namespace(model.bias.data)
    state = model.initial_state(len(parts.end))
    for first in range(0, int((parts.end - parts.reading).max(initial=0)), window):
        places = parts.reading[:, None] + first + np.arange(window)
        counted = (places >= parts.counting[:, None]) & (places < parts.end[:, None])
        within = np.minimum(places, len(text.tokens) - 1)
        tokens, targets = (to_device(x[within], xp) for x in text)
        losses, state = model(tokens, targets, state)
        yield places, losses.data, counted


def total(model, text: Text, parts: Parts, window: int) -> tuple:
    """(the sum of the losses that count, where the model is; their number)."""
    xp = namespace(model.bias.data)
    sums, count = [xp.zeros((), model.bias.dtype)], 0
    for _, losses, counted in score(model, text, parts, window):
        sums.append(xp.sum(losses * to_device(counted, xp)))
        count += int(counted.sum())
    return xp.sum(xp.stack(sums)), count  # of sums of a few: float32 rounds little


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; infinite where that overflows."""
    return math.exp(loss) if loss < 700 else math.inf


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
        "wikitext2_regularised": (
            "WikiText-2 with 1,150 units and more dropout; not run here",
            WIKITEXT2_REGULARISED,
        ),
        "paper": (
            "WikiText-103, or --data.corpus gutenberg, gigaword, with the paper's "
            "settings; not run here",
            PAPER,
        ),
    }
    grids = {"a4": ("the sweep of the paper's appendix A.4", "paper", SWEEP)}
    published = PUBLISHED
    headline = "perplexity"
    success = None  # no perplexity is one
    lower = ("loss", "perplexity")
    splits = ("validation", "test")
    carries = True
    row = "lane"

    def __init__(self, config: Config):
        super().__init__(config)
        rate = config.plateau
        self.unit = ("tokens", config.data.window)
        self.plateau = rate.factor and training.Plateau(
            "validation_loss", rate.factor, rate.patience
        )

    @functools.cached_property
    def corpus(self) -> corpora.Corpus:
        """The text; set it before training to model one that is no corpus."""
        data = self.config.data
        return corpora.load(data.corpus, self.config.data_dir, data.vocabulary_size)

    # --- What is learnt

    def build(self, seed):
        return Network(self.config, len(self.corpus.vocabulary), seed)

    def stream(self, model, seed):
        data, texts = self.config.data, self.corpus.texts
        for split in self.splits:
            if len(texts[split]) < data.lanes:
                raise UserError(
                    f"the {split} text has {len(texts[split]):,} tokens, too few for "
                    f"{data.lanes:,} lanes; take a smaller --data.lanes"
                )
        lanes = self.config.train.batch_size
        return Lanes(texts["train"], lanes, data.window, seed)

    def loss(self, model, batch, carry):
        state = model.initial_state(len(batch["tokens"]))
        if carry is not None:
            carried = state_of(carry, like=state)
            state = select_state(batch["fresh"], state, carried)
        noise = nn.Noise(batch["noise"])
        losses, state = model(batch["tokens"], batch["targets"], state, noise)
        return p.sum(losses), losses.size, {}, state_arrays(state)

    def learning_rate(self, step):
        falls = self.plateau.scale if self.plateau else 1.0
        return falls * super().learning_rate(step)

    def observe(self, step, metrics):
        if self.plateau:
            self.plateau.observe(metrics)
        return {}

    def state(self):
        return self.plateau.state() if self.plateau else {}

    def load_state(self, state):
        if self.plateau:
            self.plateau.load_state(state)

    # --- How it is tested

    def summary(self, means):
        """With the perplexity, which is not the mean of the batches' perplexities."""
        return means | {"perplexity": perplexity(means["loss"])}

    def evaluate(self, model, worker=0, workers=1, xp=np, split=None):
        """The sum of the losses of a worker's lanes of a text, and their number."""
        data, text = self.config.data, self._text(split or self.splits[0])
        parts = Parts.lanes(len(text.targets), data.lanes, data.context)
        mine = parts.some(np.arange(worker, data.lanes, workers))
        return {"loss": total(model, text, mine, data.window)}

    def examinations(self, model):
        """Perplexity of the last split, by how frequent the words are in training (as
        the paper's table 3 has it for GigaWord), by how many words the network has read
        (figure 12), and read as one text, without lanes.
        """
        split = self.splits[-1]
        text, metric = self._text(split), f"{split}_perplexity"
        columns = "words", "share", "perplexity"
        rows = self._by_frequency(model, text)
        yield (
            "by frequency",
            training.Table(metric, ("in training", *columns), [*rows]),
        )
        rows = self._by_words_read(model, text)
        yield "by words read", training.Curve(metric, ("words read", split), [*rows])
        whole = self._perplexity(model, text, Parts.lanes(len(text.targets), 1, 0))
        yield (
            "as one text",
            training.Table(metric, ("lanes", "perplexity"), [(1, whole)]),
        )

    def _by_frequency(self, model, text):
        """(range, words, their share, perplexity) of each range of training counts."""
        losses = np.empty(len(text.targets))
        data = self.config.data
        parts = Parts.lanes(len(text.targets), data.lanes, data.context)
        for places, found, counted in score(model, text, parts, data.window):
            losses[places[counted]] = to_host(found)[counted]
        counts = self.corpus.vocabulary.counts[text.targets]
        for least, below in itertools.pairwise(FREQUENCIES):
            chosen = (counts >= least) & (counts < below)
            if chosen.any():
                name = f"{least:,} to {below - 1:,}" if below < math.inf else ""
                yield (
                    name or f"{least:,} and more",
                    int(chosen.sum()),
                    f"{100 * chosen.mean():.1f} %",
                    perplexity(losses[chosen].mean()),
                )

    def _by_words_read(self, model, text):
        """(k, perplexity) if the network forgets everything after every k words."""
        for size in UNROLLS:
            parts = Parts.stretches(len(text.targets), size)
            yield size, self._perplexity(model, text, parts)

    def _perplexity(self, model, text, parts):
        """Of the places that the parts count, some of the parts at a time."""
        longest = int((parts.end - parts.reading).max())
        window, loss, count = min(self.config.data.window, longest), 0.0, 0
        some = max(1, AT_ONCE // window)
        for first in range(0, len(parts.end), some):
            chosen = parts.some(slice(first, first + some))
            found, number = total(model, text, chosen, window)
            loss, count = loss + float(found), count + number
        return perplexity(loss / count)

    def _text(self, split) -> Text:
        return Text.of(self.corpus.texts[split], self.corpus.vocabulary.eos)

    # --- What it is set beside

    def describe(self, model):
        m = self.config.model
        layers = f"{len(model.layers)} layers of " if len(model.layers) > 1 else ""
        words = f"{len(self.corpus.vocabulary):,} words x {m.embedding_size}"
        tied = ", tied" if m.tied else ""
        return (
            f"{layers}{describe(replace(m, layers=1), model.layers[0])}, {words}{tied}"
        )

    def notes(self):
        return self.corpus.notes

    def references(self):
        """What counting reaches, if the training text is short enough to count."""
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
        if len(train) > TOLD:
            says = f"counting {len(train):,} tokens for the floors (once, then kept)"
            print(says, file=sys.stderr, flush=True)
        fivegram = ngrams.KneserNey(train, len(words), order=5, boundary=words.eos)
        return {
            f"{split}_perplexity": {
                "unigram": ngrams.unigram_perplexity(train, texts[split], len(words)),
                "5-gram Kneser-Ney": fivegram.perplexity(texts[split]),
            }
            for split in self.splits
        }

    def cell(self):
        """Of a network that is the published one in size, on the published text."""
        model, data = self.config.model, self.config.data
        cell = f"{data.corpus}, {CORES.get(model.core)}"
        if cell not in PUBLISHED or not self._published_text:
            return None
        usual = WIKITEXT2 if data.corpus == "wikitext-2" else PAPER
        size = replace(usual.model, core=model.core)
        if cell == "wikitext-2, LSTM":
            size = replace(size, embedding_size=300)
        alike = _differences(model, size) <= {*without_effect(model, size)}
        steps = self.config.train.steps
        return cell if alike and steps >= usual.train.steps else None

    @property
    def _published_text(self) -> bool:
        """Whether all words are those of the published text, as far as is known."""
        try:
            notes = self.corpus.notes
        except UserError:  # it is not here
            notes = ()
        other = any("not the published text" in note for note in notes)
        return self.config.data.vocabulary_size is None and not other

    # --- What it writes

    def generate(
        self, model, prompt, rng, words=100, temperature=1.0, top_k=0, unk=True
    ):
        """Words that follow a prompt, which stands at the beginning of a sentence.

        A word that is unknown is read in lower case, as all words of the Penn Treebank
        are. UserError if it is unknown then too.
        """
        vocabulary = self.corpus.vocabulary
        read = [w if w in vocabulary.ids else w.lower() for w in prompt.split()]
        ids = vocabulary.encode(read)
        if vocabulary.eos is not None:
            ids = np.concatenate([[vocabulary.eos], ids])
        if not len(ids):
            raise UserError(
                f"{self.config.data.corpus} has no sentences that an empty prompt "
                "could begin; give a first word"
            )
        never = None if unk else self.corpus.vocabulary.unk
        return self._written(model, ids, rng, words, temperature, top_k, never)

    def _written(self, model, ids, rng, words, temperature, top_k, never):
        """Word after word; `never`: the id of one that is not drawn, or None."""
        xp, eos = namespace(model.bias.data), self.corpus.vocabulary.eos
        state = model.initial_state(1)
        for _ in range(words):
            tokens = to_device(np.asarray(ids)[None], xp)
            logits, state = model.logits(tokens, state)
            scores = np.array(to_host(logits.data[0]))
            if never is not None:
                scores[never] = -np.inf
            ids = [sampling.draw(scores, rng, temperature, top_k)]
            (word,) = self.corpus.vocabulary.decode(ids)
            yield "\n" if ids[0] == eos else word
