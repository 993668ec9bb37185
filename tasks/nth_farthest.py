"""Nth farthest: "what is the nth farthest vector from vector m?" (section 4.1 and
appendix A.1 of Santoro et al. 2018).

A sequence of k vectors x_t, uniform in [-1, 1]^D, each with a label l_t; every step
also carries the question (n, m) as one-hot vectors, so the input is (x_t; l_t; n; m).
After the last step the network answers with the label of the vector that is nth
farthest from the one labelled m. It must keep all vectors, compare all distances to one
of them, and sort.

Where the paper leaves room: n counts from 0. The released generator counts from the
nearest, so that n = 0 asks for m itself, whose distance is zero, and k - 1 for the
farthest; so do we (--data.count-from farthest turns it round, as the task's name would
have it). With all N vectors that is the same task under other names; with fewer, only
the released count lets n mean the same again when one more vector comes. Labels do not
follow the order of presentation.

Read any accuracy against two floors. Whoever answers m when asked for the vector
nearest to m, and guesses otherwise, is right 2/k of the time (25 % at 8 vectors, 50 %
at 4) without comparing anything. Whoever ranks the vectors by their own norm, without
looking at m, does still better (30.8 %, 59.5 %). Accuracy "without self" leaves the
questions out whose answer is m.

The ladder. Trained directly at 8 x 16, or even at 4 x 4, a network sits on the first
floor for a very long time. So training climbs `rungs` of (objects, dimensions): a rung
is passed when the accuracy on the fresh examples of the last `log_every` steps covers
`passing` of the way from 2/k to 1 (from 0, where k is 2). Inputs always have the final
layout: unused dimensions are zero, labels come from all N, and k objects take k time
steps. Some of the steps, `rehearsal`, go back to an earlier rung.

Where this departs from the paper (appendix A.1; preset `paper` does not, as far as the
paper tells): the ladder; batches of 256 instead of 1600; Adam's rate 1e-3 instead of
1e-4, warmed up and falling to zero at the end; the gradient's norm clipped at 1;
memories of 4 x 64 or 8 x 128 units instead of 2048 in all; a ReLU after the last layer
of the attention MLP (--model.no-activate-final takes it away); in `ladder`, a forget
bias of 2. The ladder decides: at 4 x 4 without it, 12,000 steps end on the first floor
(benchmarks/README.md).

The paper's baselines, which it reports below 30 % as their best batch: an LSTM of 64 to
4096 units (sizes between are not listed), and a Differentiable Neural Computer of 1, 8
or 16 words of 128, 512 or 1024, its controller an LSTM of two layers as wide as a word,
with 1, 2 or 4 read heads and as many write heads. `paper_lstm` and `paper_dnc` take one
size of each. There is no EntNet for this task in the paper; `paper_entnet` has a size
from its program evaluation (2 to 8 cells of 1024 or 2048 units in all). Each
`--model.core` works with the other presets too: slots are then the DNC's words or the
EntNets' slots and cells.
"""

from __future__ import annotations

import functools
import typing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tinyrmc import nn
from tinyrmc import primitives as p
from tinyrmc.cores import CoreConfig, DNCConfig, build_core, describe
from tinyrmc.fused import softmax_cross_entropy
from tinyrmc.results import attention, probes
from tinyrmc.training.task import HELD_OUT_SEED, Samples, TrainConfig
from tinyrmc.training.task import Task as BaseTask


@dataclass(frozen=True)
class DataConfig:
    """The task's size and the way up to it."""

    objects: int = 4
    """vectors in a sequence, N; also the number of time steps"""
    dimensions: int = 4
    """dimensions of a vector, D"""
    rungs: tuple[tuple[int, int], ...] = ()
    """easier (objects, dimensions) to climb first, as pairs: 3 1 3 2; none: train on
    the task itself
    """
    count_from: typing.Literal["nearest", "farthest"] = "nearest"
    """which vector n = 0 asks for: the nearest, m itself (the released generator), or
    the farthest (the task's name)
    """
    passing: float = 0.35
    """a rung is passed at this fraction of the way from the 2/k floor to perfect
    accuracy
    """
    rehearsal: float = 0.25
    """fraction of the steps that go back to a random earlier rung"""

    def __post_init__(self):
        if self.objects < 2 or self.dimensions < 1:
            raise ValueError(
                "data.objects must be at least 2 and data.dimensions 1, not "
                f"{self.objects} and {self.dimensions}"
            )
        for objects, dimensions in self.rungs:
            if not (
                2 <= objects <= self.objects and 1 <= dimensions <= self.dimensions
            ):
                raise ValueError(
                    f"data.rungs holds {objects} x {dimensions}, outside 2 x 1 to "
                    f"{self.objects} x {self.dimensions} of the task itself"
                )
        if not (0 < self.passing < 1 and 0 <= self.rehearsal < 1):
            raise ValueError(
                "data.passing must be in (0, 1) and data.rehearsal in [0, 1), not "
                f"{self.passing} and {self.rehearsal}"
            )


@dataclass(frozen=True)
class Config:
    """Everything that decides a run's result, together with the seed."""

    model: CoreConfig = field(default_factory=CoreConfig)
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


QUICK = Config(
    model=CoreConfig(mem_slots=4, num_heads=8, head_size=8),
    data=DataConfig(objects=4, dimensions=4, rungs=((3, 1), (3, 2), (3, 4))),
    train=TrainConfig(steps=12_000, batch_size=256, learning_rate=1e-3, decay=0.4),
)
LADDER = Config(
    model=CoreConfig(mem_slots=8, num_heads=8, head_size=16, forget_bias=2.0),
    data=DataConfig(
        objects=8,
        dimensions=16,
        rungs=(
            (3, 1),
            (3, 2),
            (3, 4),
            (3, 8),
            (3, 16),
            (4, 16),
            (5, 16),
            (6, 16),
            (7, 16),
        ),
        passing=0.2,
        rehearsal=0.1,
    ),
    train=TrainConfig(
        steps=90_000,
        batch_size=256,
        learning_rate=1e-3,
        warmup_steps=3000,
        decay=0.6,
        evaluate_every=1000,
    ),
)
PAPER = Config(
    model=CoreConfig(
        mem_slots=8, num_heads=8, head_size=32, activate_final=False, hidden_size=2048
    ),
    data=DataConfig(objects=8, dimensions=16),
    train=TrainConfig(
        steps=1_000_000,
        batch_size=1600,
        learning_rate=1e-4,
        warmup_steps=0,
        clip_norm=None,
        evaluate_every=1000,
    ),
)
PAPER32 = Config(PAPER.model, DataConfig(objects=8, dimensions=32), PAPER.train)
PAPER_LSTM = replace(PAPER, model=CoreConfig("lstm", hidden_size=2048))
PAPER_DNC = replace(
    PAPER,
    model=CoreConfig(
        "dnc",
        8,
        hidden_size=512,
        layers=2,
        dnc=DNCConfig(512, read_heads=4, write_heads=4),
    ),
)
PAPER_ENTNET = replace(PAPER, model=CoreConfig("entnet_bank", 8, total_units=2048))


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

    inputs (count, objects, D + 3 N) float32; and for each example (count,): target, the
    label of the answer; is_self, whether that is m itself; reference, the time step of
    m.
    """
    most, width = layout
    rows = np.arange(count)
    x = np.zeros((count, objects, width), np.float32)
    x[..., :dimensions] = rng.uniform(-1, 1, (count, objects, dimensions))
    labels = rng.permuted(np.broadcast_to(np.arange(most), (count, most)), axis=1)[
        :, :objects
    ]  # of the object at each time step
    reference, n = rng.integers(
        objects, size=(2, count)
    )  # the time step of m; n of the question
    difference = x - x[rows, reference][:, None]
    distance = np.einsum("bkd,bkd->bk", difference, difference)
    order = np.argsort(distance, axis=1)  # time steps, m's own first
    rank = _from_nearest(n, objects, count_from)

    inputs = np.zeros((count, objects, width + 3 * most), np.float32)
    inputs[..., :width] = x
    inputs[rows[:, None], np.arange(objects), width + labels] = 1
    inputs[rows, :, width + most + n] = 1
    inputs[rows, :, width + 2 * most + labels[rows, reference]] = 1
    return {
        "inputs": inputs,
        "target": labels[rows, order[rows, rank]],
        "is_self": rank == 0,
        "reference": reference,
    }


def _from_nearest(n, objects, count_from):
    """n as a place in the order that begins with m itself."""
    return n if count_from == "nearest" else objects - 1 - n


def decode(
    inputs: np.ndarray, layout: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What inputs (B, T, D + 3 N) say: the label at each time step (B, T), n (B,) and
    the label m (B,).
    """
    most, width = layout
    labels, n, m = (
        inputs[..., width + k * most : width + (k + 1) * most].argmax(-1)
        for k in range(3)
    )
    return labels, n[:, 0], m[:, 0]


def own_norm_answer(
    inputs: np.ndarray, layout: tuple[int, int], count_from: str = "nearest"
) -> np.ndarray:
    """The answers (B,) of somebody who ranks the vectors by their own norm and knows
    which rank is m itself.

    It never compares two vectors, so its accuracy is the second floor: a network above
    it has learnt a relation.
    """
    rows, width = np.arange(len(inputs)), layout[1]
    labels, n, m = decode(inputs, layout)
    rank = _from_nearest(n, inputs.shape[1], count_from)
    norm = np.where(
        labels == m[:, None], -1.0, np.square(inputs[..., :width]).sum(-1)
    )  # squared; m itself is the nearest
    return labels[rows, np.argsort(norm, axis=1)[rows, rank]]


@functools.cache
def own_norm_accuracy(layout: tuple[int, int]) -> tuple[float, float]:
    """How often that is right, of all questions and of those without self: to within
    0.2 %, from whichever end n counts.
    """
    rng, right, others, count = np.random.default_rng(HELD_OUT_SEED), 0, 0, 200_000
    for _ in range(0, count, 10_000):
        rows = draw(rng, 10_000, *layout, layout)
        hits = own_norm_answer(rows["inputs"], layout) == rows["target"]
        right, others = (
            right + hits.sum() / count,
            others + hits[~rows["is_self"]].mean() * 10_000 / count,
        )
    return float(right), float(others)


class Network(nn.Module):
    """A core over the sequence, then the paper's head on its last output: four layers
    of 256 ReLU units, and the logits of the N labels.
    """

    def __init__(self, config: Config, seed):
        objects, dimensions = config.data.objects, config.data.dimensions
        rng = np.random.default_rng(seed)
        self.core = build_core(config.model, dimensions + 3 * objects, rng)
        self.head = nn.MLP(self.core.output_size, [256] * 4 + [objects], seed=rng)

    def __call__(self, inputs, trace=None):
        """Inputs (B, T, D + 3 N) -> logits (B, N)."""
        outputs, _ = self.core.unroll(
            inputs, self.core.initial_state(inputs.shape[0]), trace
        )
        return self.head(outputs[-1])


class Task(BaseTask):
    """Nth farthest with a ladder; see the module's text."""

    presets = {
        "quick": (
            "4 objects x 4 dimensions: minutes on a laptop, to about 95 %",
            QUICK,
        ),
        "ladder": (
            "8 x 16, the paper's task, by easier rungs: an hour or two on four "
            "cores, to about 97 %",
            LADDER,
        ),
        "paper": (
            "8 x 16 with the paper's settings, as far as it tells them; not run here",
            PAPER,
        ),
        "paper32": ("8 objects x 32 dimensions, the paper's harder variant", PAPER32),
        "paper_lstm": (
            "paper with an LSTM of 2048 units, of the 64 to 4096 that the paper tried",
            PAPER_LSTM,
        ),
        "paper_dnc": (
            "paper with a DNC of 8 x 512, 4 read and 4 write heads, from the paper's "
            "sweep",
            PAPER_DNC,
        ),
        "paper_entnet": (
            "paper with an EntNet bank of 8 cells, 2048 units in all: not in the "
            "paper for this task",
            PAPER_ENTNET,
        ),
    }
    grids = {
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
            "quick",
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
        "8 x 16, DNC": ("< 30 % on its best batch", "paper --model.core dnc"),
        "8 x 32, RMC": ("as at 8 x 16, with few of the seeds", "paper32"),
    }

    def __init__(self, config: Config):
        super().__init__(config)
        data = config.data
        self.layout = (data.objects, data.dimensions)
        self.rungs = [*data.rungs, self.layout]
        self.rung = 0

    def build(self, seed):
        return Network(self.config, seed)

    def draw(self, rng, count, rung=-1):
        """Examples of one rung, the task itself by default; `current` tells the rung
        being climbed from those rehearsed.
        """
        examples = draw(
            rng, count, *self.rungs[rung], self.layout, self.config.data.count_from
        )
        return {**examples, "current": np.full(count, rung in (-1, self.rung))}

    def stream(self, model, seed):
        return Samples(self.draw, seed, choose=self._choose)

    def _choose(self, rng) -> int:
        """The rung of a step: mostly the current one, sometimes an earlier one."""
        back = rng.random() < self.config.data.rehearsal
        return int(rng.integers(self.rung)) if self.rung and back else self.rung

    def loss(self, model, batch, carry):
        logits = model(batch["inputs"])
        losses = softmax_cross_entropy(logits, batch["target"])
        right = logits.data.argmax(axis=-1) == batch["target"]
        current, others = batch["current"], batch["current"] & ~batch["is_self"]
        metrics = {
            "accuracy": ((right & current).sum(), current.sum()),
            "accuracy_without_self": ((right & others).sum(), others.sum()),
        }
        return p.sum(losses), losses.size, metrics, None

    def observe(self, step, metrics):
        objects, dimensions = self.rungs[self.rung]
        floor = 2 / objects
        skill = (
            (metrics["accuracy"] - floor) / (1 - floor)
            if objects > 2
            else metrics["accuracy"]
        )
        if self.rung < len(self.rungs) - 1 and skill > self.config.data.passing:
            self.rung += 1
        return {"rung": f"{objects}x{dimensions}"}

    def is_final(self, line):
        objects, dimensions = self.layout
        return line.get("rung") == f"{objects}x{dimensions}"

    def state(self):
        return {"rung": self.rung}

    def load_state(self, state):
        self.rung = state["rung"]

    def describe(self, model):
        return describe(self.config.model, model.core)

    def references(self):
        objects, _ = self.layout
        both = {
            "only the self query": (2 / objects, 1 / (objects - 1)),
            "ranking by own norm": own_norm_accuracy(self.layout),
        }
        if self.layout == (8, 16):
            both["paper (RMC)"] = (0.91, None)
        names = ("test_accuracy", "test_accuracy_without_self")
        return {
            name: {
                label: pair[k] for label, pair in both.items() if pair[k] is not None
            }
            for k, name in enumerate(names)
        }

    def cell(self):
        objects, dimensions = self.layout
        return (
            f"{objects} x {dimensions}, "
            f"{self.config.model.core.removesuffix('_paper').upper()}"
        )

    def questions(self, batch):
        others = ~batch["is_self"]
        kinds = {"accuracy": np.ones_like(others), "accuracy_without_self": others}
        return probes.Questions(
            batch["inputs"],
            batch["reference"],
            batch["target"],
            kinds,
            lambda row: self._describe(batch["inputs"][row]),
        )

    def _describe(self, inputs):
        """Inputs (T, D + 3 N) of one example: its question in words, and what came at
        each step.
        """
        labels, n, m = (part[0] for part in decode(inputs[None], self.layout))
        vectors, objects = inputs[:, : self.layout[1]], len(inputs)
        distances = np.sqrt(np.square(vectors - vectors[labels == m]).sum(-1))
        count_from = self.config.data.count_from
        question = (
            f"Which vector is number {n} of 0 to {objects - 1} in distance from "
            f"vector {m}, the {count_from} first?"
        )
        numbers = _from_nearest(
            distances.argsort().argsort(), objects, count_from
        )  # its own inverse
        rows = zip(labels, vectors, distances, numbers, strict=True)
        return question, [
            {
                "label": int(label),
                "vector": vector.tolist(),
                f"distance from {m}": float(distance),
                "number": int(number),
            }
            for label, vector, distance, number in rows
        ]

    def pictures(self, model, folder: Path):
        """The attention of three examples, in the layout of the paper's figure 3: the
        reference first, in the middle, last.
        """
        return attention.draw_cases(self, model, folder)
