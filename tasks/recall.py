"""Recall: pairs of a key and a value arrive, then keys alone. Which value came with each?

Associative recall, as Ba et al. (2016, "Using fast weights to attend to the recent
past") asked it of recurrent networks, and Arora et al. (2023, "Zoology") of everything
since: `c9 k8 j3 f1 ? c` has the answer 9. A memory must bind each value to its key when
they come, and find the value again by the key alone. No pair has anything to do with
another: nothing is compared, nothing is sorted.

Each step is one symbol: a key, then its value, and so on; at the end the questions, keys
with a mark, each of which is answered at its own step. So a network has to join two
steps before it has anything to store. With `together` a pair is one step.

All keys of a sequence differ, and all values. With `rewrites` a key may come again, with
another value, and the last one counts: then a memory must let go of what it had, too.

*The floor.* A network that keeps the last value alone is right when the key of the last
pair is asked for: 1 / pairs of the time, or somewhat more with `rewrites`, where that
key may have come before.

*Beside the sources.* Ba et al. have letters and digits, 4 to 8 pairs and one question.
Arora et al. scatter many questions over the rest of a text (MQAR), with 8,192 symbols;
here they come at once, and symbols are one-hot vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tinyrmc import fused, nn, training
from tinyrmc import primitives as p
from tinyrmc.config import check_least, check_values
from tinyrmc.cores import CoreConfig, build_core, describe

# --- What can be set ------------------------------------------------------------------


@dataclass(frozen=True)
class DataConfig:
    """The pairs and the questions."""

    pairs: int = 4
    """pairs of a key and a value in a sequence"""
    questions: int = 4
    """keys that are asked for at the end, no pair twice"""
    keys: int = 16
    """kinds of keys there are"""
    values: int = 16
    """kinds of values there are"""
    together: bool = False
    """key and value come in one step, rather than the value after its key"""
    rewrites: bool = False
    """a key may come again, with another value; then the last value counts"""

    def __post_init__(self):
        check_values(self, "data")
        check_least("data", self, "pairs", "questions", "keys", "values")
        if self.questions > self.pairs:
            raise ValueError(
                f"data.questions must be at most data.pairs, {self.pairs}, not "
                f"{self.questions}"
            )
        for name in ["values"] + ["keys"] * (not self.rewrites):
            if getattr(self, name) < self.pairs:
                raise ValueError(
                    f"data.{name} must be at least data.pairs, {self.pairs}, not "
                    f"{getattr(self, name)}: those of a sequence all differ"
                )

    @property
    def steps(self) -> int:
        """The steps of a sequence, T."""
        return self.pairs * (1 if self.together else 2) + self.questions

    @property
    def width(self) -> int:
        """The numbers of a step: a key, a value, and the mark of a question."""
        return self.keys + self.values + 1


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    model: CoreConfig = field(default_factory=CoreConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: training.TrainConfig = field(default_factory=training.TrainConfig)


QUICK = Config(
    model=CoreConfig(mem_slots=4, num_heads=4, head_size=16),
    train=training.TrainConfig(
        steps=3000, batch_size=128, learning_rate=2e-3, cosine_fraction=0.5
    ),
)
EIGHT = replace(QUICK, data=DataConfig(pairs=8, questions=8, keys=32, values=32))
REWRITES = replace(QUICK, data=replace(EIGHT.data, keys=4, rewrites=True))

# --- The examples ---------------------------------------------------------------------


def draw(
    rng: np.random.Generator, count: int, data: DataConfig
) -> dict[str, np.ndarray]:
    """`count` sequences: inputs (B, T, width) float32, target (B, questions), the
    values asked for.
    """
    P, Q, rows = data.pairs, data.questions, np.arange(count)[:, None]

    def different(kinds):
        return rng.permuted(np.tile(np.arange(kinds), (count, 1)), axis=1)[:, :P]

    values = different(data.values)  # (B, P)
    keys = different(data.keys)
    if data.rewrites:
        keys = rng.integers(data.keys, size=(count, P))
    asked = keys[rows, rng.permuted(np.tile(np.arange(P), (count, 1)), axis=1)[:, :Q]]
    same = keys[:, None, ::-1] == asked[..., None]  # (B, Q, P), the last pair first
    inputs = np.zeros((count, data.steps, data.width), np.float32)
    stride = 1 if data.together else 2
    places = stride * np.arange(P)
    inputs[rows, places, keys] = 1
    inputs[rows, places + stride - 1, data.keys + values] = 1
    ends = np.arange(stride * P, data.steps)
    inputs[rows, ends, asked] = 1
    inputs[:, ends, -1] = 1
    return {"inputs": inputs, "target": values[rows, P - 1 - same.argmax(axis=-1)]}


# --- The task -------------------------------------------------------------------------


class Network(nn.Module):
    """A core over the sequence, and a linear layer that answers at each question."""

    def __init__(self, config: Config, seed):
        rng = nn.generator(seed)
        self.questions = config.data.questions
        self.core = build_core(config.model, config.data.width, rng)
        self.head = nn.Linear(self.core.output_size, config.data.values, seed=rng)

    def __call__(self, inputs, trace=None):
        """Inputs (B, T, width) -> logits (B, questions, values)."""
        state = self.core.initial_state(inputs.shape[0])
        outputs, _ = self.core.unroll(inputs, state, trace)
        return self.head(p.stack(outputs[-self.questions :], axis=1))


class Task(training.Task):
    """Associative recall; see the module's text."""

    presets = {
        "quick": ("four pairs: two or three minutes of two cores", QUICK),
        "eight": ("eight pairs of twice as many symbols", EIGHT),
        "rewrites": ("eight pairs of four keys: the last value counts", REWRITES),
    }

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count):
        return draw(rng, count, self.config.data)

    def loss(self, model, batch, carry):
        logits = model(batch["inputs"])  # (B, Q, values)
        losses = fused.softmax_cross_entropy(logits, batch["target"])  # (B, Q)
        right = (logits.data.argmax(axis=-1) == batch["target"]).sum()
        return p.sum(losses), losses.size, {"accuracy": (right, losses.size)}, None

    def describe(self, model):
        return describe(self.config.model, model.core)

    def references(self):
        data = self.config.data
        again = (data.pairs - 1) / data.keys if data.rewrites else 0
        return {"test_accuracy": {"keeping the last value": (1 + again) / data.pairs}}
