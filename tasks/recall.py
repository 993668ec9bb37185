"""Recall: pairs of a key and a value arrive, then keys alone. Which value was whose?

Associative recall, as Ba et al. (2016, "Using fast weights to attend to the recent
past") asked it of recurrent networks, and Arora et al. (2023, "Zoology") of everything
since: `c9 k8 j3 f1 ? c` has the answer 9. A memory must bind each value to its key when
they come, and find the value again by the key alone. No pair has anything to do with
another: nothing is compared, nothing is sorted.

In `quick` a step is a pair, and at the end come the questions: keys with a mark, each
answered at its own step. In `apart` a step is one symbol, a key, then its value, and so
on, as in the sources: there a network has to join two steps before it has anything to
store. All keys of a sequence differ, and all values. In `rewrites` a key may come again
with another value, and the last one counts: a memory must let go of what it had, too.

*An easier way.* A training batch has between `least_pairs` and `pairs` pairs, by chance
and the same for every core; `--data.least-pairs 4` asks for all four from the start.
Held-out examples have all pairs.

*The floors.* A network that keeps the last value alone is right when the key of the
last pair is asked for: 1 / pairs of the time, or somewhat more in `rewrites`, where
that key may have come before. There one that knows no order, such as a sum of outer
products, cannot do better than to take one of the key's values by chance: 45 %.

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
    least_pairs: int = 1
    """the fewest pairs that a training batch may have"""
    questions: int = 4
    """keys that are asked for at the end, no pair twice"""
    keys: int = 8
    """kinds of keys there are"""
    values: int = 8
    """kinds of values there are"""
    together: bool = True
    """key and value come in one step, rather than the value after its key"""
    rewrites: bool = False
    """a key may come again, with another value; then the last value counts"""

    def __post_init__(self):
        check_values(self, "data")
        check_least("data", self, "pairs", "least_pairs", "questions", "keys", "values")
        for name in "least_pairs", "questions":
            if getattr(self, name) > self.pairs:
                raise ValueError(
                    f"data.{name} must be at most data.pairs, {self.pairs}, not "
                    f"{getattr(self, name)}"
                )
        for name in ["values"] + ["keys"] * (not self.rewrites):
            if getattr(self, name) < self.pairs:
                raise ValueError(
                    f"data.{name} must be at least data.pairs, {self.pairs}, not "
                    f"{getattr(self, name)}: those of a sequence all differ"
                )

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
        steps=4000, batch_size=64, learning_rate=2e-3, cosine_fraction=0.5
    ),
)
APART = replace(QUICK, data=DataConfig(together=False))
EIGHT = replace(QUICK, data=DataConfig(pairs=8, questions=8, keys=16, values=16))
REWRITES = replace(QUICK, data=replace(EIGHT.data, keys=4, rewrites=True))

# --- The examples ---------------------------------------------------------------------


def draw(
    rng: np.random.Generator, count: int, data: DataConfig, pairs: int
) -> dict[str, np.ndarray]:
    """`count` sequences of so many pairs.

    inputs (B, T, keys + values + 1) float32: the key, the value, the mark of a
    question; target (B, questions), the values asked for.
    """
    P = pairs
    Q = min(data.questions, pairs)
    rows = np.arange(count)[:, None]

    def different(kinds, number):
        each = np.broadcast_to(np.arange(kinds), (count, kinds))
        return rng.permuted(each, axis=1)[:, :number]

    values, keys = different(data.values, P), rng.integers(data.keys, size=(count, P))
    if not data.rewrites:
        keys = different(data.keys, P)
    asked = keys[rows, different(P, Q)]  # (B, Q)
    same = keys[:, None, ::-1] == asked[..., None]  # (B, Q, P), the last pair first
    stride = 1 if data.together else 2
    inputs = np.zeros((count, stride * P + Q, data.width), np.float32)
    places, ends = stride * np.arange(P), stride * P + np.arange(Q)
    inputs[rows, places, keys] = 1
    inputs[rows, places + stride - 1, data.keys + values] = 1
    inputs[rows, ends, asked] = inputs[rows, ends, -1] = 1
    return {"inputs": inputs, "target": values[rows, P - 1 - same.argmax(axis=-1)]}


# --- The task -------------------------------------------------------------------------


class Network(nn.Module):
    """A core over the sequence, and a linear layer that answers at each question."""

    def __init__(self, config: Config, seed):
        rng = nn.generator(seed)
        self.core = build_core(config.model, config.data.width, rng)
        self.head = nn.Linear(self.core.output_size, config.data.values, seed=rng)

    def __call__(self, inputs, trace=None):
        """Inputs (B, T, width) -> an answer at each step: logits (B, T, values)."""
        state = self.core.initial_state(inputs.shape[0])
        outputs, _ = self.core.unroll(inputs, state, trace)
        return self.head(p.stack(outputs, axis=1))


class Task(training.Task):
    """Associative recall; see the module's text."""

    presets = {
        "quick": ("four pairs: a minute of one core, to 98 %", QUICK),
        "apart": ("the same, the value a step after its key", APART),
        "eight": ("eight pairs of twice as many symbols", EIGHT),
        "rewrites": ("eight pairs of four keys: the last value counts", REWRITES),
    }

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count, pairs=None):
        """Examples of so many pairs; by default of all, as held-out ones are."""
        return draw(rng, count, self.config.data, pairs or self.config.data.pairs)

    def stream(self, model, seed):
        return training.Samples(self.draw, seed, choose=self._choose)

    def _choose(self, rng) -> int:
        """The number of pairs of a step."""
        data = self.config.data
        return int(rng.integers(data.least_pairs, data.pairs + 1))

    phases = ()  # whatever their number, the loss is the same

    def loss(self, model, batch, carry):
        asked = batch["target"].shape[1]  # the last steps are the questions
        logits = model(batch["inputs"])[:, -asked:]  # (B, Q, values)
        losses = fused.softmax_cross_entropy(logits, batch["target"])  # (B, Q)
        right = (logits.data.argmax(axis=-1) == batch["target"]).sum()
        return p.sum(losses), losses.size, {"accuracy": (right, losses.size)}, None

    def describe(self, model):
        return describe(self.config.model, model.core)

    def references(self):
        data = self.config.data
        again = (data.pairs - 1) / data.keys if data.rewrites else 0
        floors = {"keeping the last value": (1 + again) / data.pairs}
        if data.rewrites:  # the mean of 1 / n: n - 1 of the other pairs have the key
            none = (1 - 1 / data.keys) ** data.pairs
            floors["one of the key's values"] = (1 - none) * data.keys / data.pairs
        return {"test_accuracy": floors}
