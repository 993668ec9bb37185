"""Tiny language: which word comes next? The smallest language model there is.

A task file, for tests of what language models ask of training, commands and pictures.
It predicts a word from the one before it.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tinyrmc import nn, primitives, training
from tinyrmc.config import PLACE
from tinyrmc.corpora import sampling
from tinyrmc.errors import UserError
from tinyrmc.fused import softmax_cross_entropy

WORDS = "the cat sat on a mat \n".split(" ")
SIZE, WINDOW = len(WORDS), 5
TEXTS = {"train": 600, "validation": 37, "test": 53}  # and how long each is


def text_of(name, seed=0):
    """Ids, most of which follow from the one before."""
    rng = np.random.default_rng([len(name), seed])
    count = TEXTS[name]
    steps = np.where(rng.random(count) < 0.8, 1, rng.integers(SIZE, size=count))
    return np.cumsum(steps) % SIZE


TRAIN = training.TrainConfig(
    steps=20,
    batch_size=4,
    learning_rate=0.1,
    warmup_steps=0,
    log_every=5,
    evaluate_every=10,
)


@dataclass(frozen=True)
class Model:
    """The network."""

    core: str = "rmc"
    """nothing but a name"""


@dataclass(frozen=True)
class Config:
    """Everything."""

    data_dir: Path | None = field(default=None, metadata=PLACE)
    """where a file `seed` lies; None: the seed is 0"""
    model: Model = field(default_factory=Model)
    train: training.TrainConfig = TRAIN


class BPTTBatches(training.Stream):
    """Windows of words, each with the one before it."""

    random_access = True

    def __init__(self, text, rows):
        self.text, self.rows = text, rows

    def batch(self, step, start, stop):
        """Row k goes on where row k of the last batch stopped."""
        length = len(self.text) // self.rows
        first = step * WINDOW % (length - WINDOW - 1)
        places = np.arange(start, stop)[:, None] * length + first + np.arange(WINDOW)
        return {"before": self.text[places], "next": self.text[places + 1]}


class Task(training.Task):
    """Predicts the next token."""

    presets = {"quick": ("a cat", Config())}
    published = {"tiny, RMC": ("2.5", ""), "tiny, LSTM": ("2.75", "--model.core lstm")}
    headline = "perplexity"
    splits = ("validation", "test")
    success = 3.0
    unit = ("tokens", WINDOW)

    def text(self, name):
        folder = self.config.data_dir
        if folder is None:
            return text_of(name)
        try:
            return text_of(name, int((folder / "seed").read_text()))
        except OSError:
            raise UserError(f"there is no seed in {folder}; plant one") from None

    def build(self, seed):
        return nn.Linear(SIZE, SIZE, seed=np.random.default_rng(seed))

    def stream(self, model, seed):
        return BPTTBatches(self.text("train"), self.config.train.batch_size)

    def losses(self, model, before, following):
        one_hot = np.eye(SIZE, dtype=np.float32)[before.ravel()]
        return softmax_cross_entropy(model(one_hot), following.ravel())

    def loss(self, model, batch, carry):
        losses = self.losses(model, batch["before"], batch["next"])
        return primitives.sum(losses), losses.size, {}, None

    def evaluate(self, model, worker=0, workers=1, xp=np, split=None):
        """Every word of a text once: worker k has every k-th."""
        text = self.text(split)
        each = slice(worker, None, workers)
        losses = self.losses(model, text[:-1][each], text[1:][each]).data
        return {"loss": (losses.sum(dtype=np.float64), losses.size)}

    def summary(self, means):
        return means | {"perplexity": float(np.exp(means["loss"]))}

    def references(self):
        known = {"guessing": float(SIZE), "paper's RMC": 2.5}
        return {"validation_perplexity": known, "test_perplexity": known}

    def cell(self):
        return {"rmc": "tiny, RMC", "lstm": "tiny, LSTM"}.get(self.config.model.core)

    def analyses(self, model):
        text = self.text("test")
        counts = np.bincount(text, minlength=SIZE)
        losses = self.losses(model, text[:-1], text[1:]).data.astype(float)
        often = counts[text[1:]] > np.median(counts)
        rows = [
            (name, int(rows.sum()), float(np.exp(losses[rows].mean())))
            for name, rows in {"often": often, "rarely": ~often}.items()
        ]
        heads = "the word comes", "tokens", "perplexity"
        yield "By word frequency", training.Table("test_perplexity", heads, rows)
        perplexity = float(np.exp(losses.mean()))
        lengths = [(n, perplexity * (1 + 1 / n), 2.5) for n in (1, 2, 5, 10)]
        heads = "words unrolled", "perplexity", "paper's RMC"
        yield "By unroll length", training.Curve("test_perplexity", heads, lengths)

    def generate(self, model, prompt, rng, words=100, temperature=1.0, top_k=0):
        known = prompt.split()
        for word in known:
            if word not in WORDS:
                raise UserError(f"{word!r} is none of the model's {SIZE} words")
        last = WORDS.index(known[-1])
        for _ in range(words):
            logits = model(np.eye(SIZE, dtype=np.float32)[[last]]).data[0]
            last = sampling.draw(logits, rng, temperature, top_k)
            yield WORDS[last]
