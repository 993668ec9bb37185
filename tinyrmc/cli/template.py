"""Recall: symbols arrive, then a number. Which symbol stood at that place?"""

from dataclasses import dataclass, field

import numpy as np

from tinyrmc import fused, nn, primitives, training
from tinyrmc.cores import CoreConfig, build_core

SYMBOLS = 8  # how many kinds there are


@dataclass(frozen=True)
class Config:
    """Each field is a flag, and the text below it is the flag's help."""

    model: CoreConfig = field(default_factory=CoreConfig)
    length: int = 4
    """symbols that arrive before the question"""
    train: training.TrainConfig = field(default_factory=training.TrainConfig)


QUICK = Config(
    model=CoreConfig(mem_slots=4, num_heads=2, head_size=16),
    train=training.TrainConfig(
        steps=2000, batch_size=64, learning_rate=2e-3, cosine_fraction=0.5
    ),
)


class Network(nn.Module):
    """A core that reads, and a linear layer that answers from its last output."""

    def __init__(self, config, seed):
        rng = nn.generator(seed)
        self.core = build_core(config.model, SYMBOLS + config.length, rng)
        self.head = nn.Linear(self.core.output_size, SYMBOLS, seed=rng)

    def __call__(self, inputs):  # (B, T, SYMBOLS + length) -> (B, SYMBOLS)
        state = self.core.initial_state(len(inputs))
        outputs, _ = self.core.unroll(inputs, state)
        return self.head(outputs[-1])


class Task(training.Task):
    """The answers to the training loop: a network, examples, a loss, a floor."""

    presets = {"quick": ("four symbols; half a minute", QUICK)}

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count):
        length = self.config.length
        symbols = rng.integers(SYMBOLS, size=(count, length))
        place = rng.integers(length, size=count)
        one_hot = np.eye(SYMBOLS + length, dtype=np.float32)
        question = one_hot[SYMBOLS + place][:, None]  # (B, 1, SYMBOLS + length)
        inputs = np.concatenate([one_hot[symbols], question], axis=1)
        return {"inputs": inputs, "target": symbols[np.arange(count), place]}

    def loss(self, model, batch, carry):
        """The summed loss, its count, {metric: (sum, count)}, no carry."""
        logits = model(batch["inputs"])
        losses = fused.softmax_cross_entropy(logits, batch["target"])  # (B,)
        right = (logits.data.argmax(-1) == batch["target"]).sum()
        metrics = {"accuracy": (right, losses.size)}
        return primitives.sum(losses), losses.size, metrics, None

    def references(self):
        """A floor: keep one symbol, and guess whenever another is asked for."""
        length = self.config.length
        floor = (1 + (length - 1) / SYMBOLS) / length
        return {"test_accuracy": {"remembering one": floor}}
