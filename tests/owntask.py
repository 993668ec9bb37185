"""A small task for tests, dropped into the folder where tasks are found: it has
published cells and a named grid.
"""

import sys

from tinyrmc.training import discovery

LARGER = '''"""Larger: which of some numbers is the largest?"""

from dataclasses import dataclass, field

import numpy as np

from tinyrmc import nn, primitives
from tinyrmc.fused import softmax_cross_entropy
from tinyrmc.training.task import Task as BaseTask
from tinyrmc.training import TrainConfig


@dataclass(frozen=True)
class Model:
    """The network."""

    width: int = 4
    """units of the hidden layer"""
    depth: int = 1
    """hidden layers"""
    shape: tuple[int, ...] = ()
    """nothing"""
    linear: bool = False
    """no hidden layer"""

    def __post_init__(self):
        if self.width < 1 or self.depth < 1:
            both = f"{self.width} and {self.depth}"
            raise ValueError(
                f"model.width and model.depth must be at least 1, not {both}"
            )
        if self.width % self.depth:
            raise ValueError(
                f"model.width {self.width} is no multiple of model.depth {self.depth}"
            )


@dataclass(frozen=True)
class Config:
    """Everything."""

    model: Model = field(default_factory=Model)
    numbers: int = 2
    """how many numbers"""
    train: TrainConfig = TrainConfig(
        steps=20,
        batch_size=16,
        learning_rate=1e-2,
        warmup_steps=0,
        log_every=5,
        evaluate_every=10,
        micro_batch_size=2048,
    )


class Task(BaseTask):
    """Which is the largest?"""

    presets = {
        "quick": ("two numbers", Config()),
        "three": ("three numbers", Config(numbers=3)),
    }
    widths = {"model.width": (2, 4), "model.depth": (1,)}
    grids = {"widths": ("some widths", "three", widths)}
    published = {
        "2 numbers, wide": ("99 %", "--model.width 8"),
        "2 numbers, narrow": ("< 60 % on its best batch", ""),
        "3 numbers, wide": ("90 %", "three --model.width 8"),
    }
    success = 0.8
    test_examples = 200

    def build(self, seed):
        model, numbers = self.config.model, self.config.numbers
        hidden = [] if model.linear else [model.width] * model.depth
        rng = np.random.default_rng(seed)
        return nn.MLP(numbers, [*hidden, numbers], seed=rng)

    def draw(self, rng, count):
        shape = (count, self.config.numbers)
        inputs = rng.normal(size=shape).astype(np.float32)
        return {"inputs": inputs, "target": inputs.argmax(1)}

    def loss(self, model, batch, carry):
        logits = model(batch["inputs"])
        losses = softmax_cross_entropy(logits, batch["target"])
        right = (logits.data.argmax(1) == batch["target"]).sum()
        metrics = {"accuracy": (right, losses.size)}
        return primitives.sum(losses), losses.size, metrics, None

    def references(self):
        guessing = 1 / self.config.numbers
        return {"test_accuracy": {"guessing": guessing, "paper (wide)": 0.99}}

    def cell(self):
        width = "wide" if self.config.model.width >= 8 else "narrow"
        return f"{self.config.numbers} numbers, {width}"
'''


NAME = "tinyrmc_tasks.larger"  # its module


def dropped_in(monkeypatch, folder):
    """Make `larger`, and it alone, the task there is; returns its module."""
    folder.mkdir()
    (folder / "larger.py").write_text(LARGER)
    monkeypatch.setattr(discovery, "FOLDER", folder)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    module = discovery.load_task("larger")
    # set by monkeypatch, so that it is removed when the test is over
    del sys.modules[NAME]
    monkeypatch.setitem(sys.modules, NAME, module)
    return module
