"""Why does an agent that learns sometimes forget for a while what it could do?

    python benchmarks/falls.py [--out benchmarks/results/falls.json]

`box_world quick` without a memory, seed 0, falls back several times on its way. Shortly
before two of these falls, which we knew from its curve, we stop. From there we go on
again and again: with the random numbers that were to come and with others, at the
preset's learning rate and at a quarter of it. Over every ten updates we write down

    solved  the share of levels that ended solved
    change  how far an update turned the policy: the Kullback-Leibler divergence of the
            policy after it from that before it, a mean over the states it learnt from
    moved   how far it moved the parameters: the norm of the difference
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import report

from tinyrmc.backend import blas_threads, keep_freed_memory
from tinyrmc.cli.commands import run_main
from tinyrmc.cores.core import state_of
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

box_world = load_task("box_world")
STARTS = 590, 730  # updates; the falls begin within the next ten
RATES = 1.0, 0.25  # of the preset's
NUMBERS = None, 1000, 1001  # seeds of the random numbers; None: the run's own
UPDATES, TOGETHER = 70, 10


class Task(box_world.Task):  # type: ignore[name-defined]
    """Keeps what an update learns from and the policy before it; can lower the rate."""

    factor = 1.0

    def learning_rate(self, step):
        return self.factor * super().learning_rate(step)

    def _actor_critic(self, batch, logits, values):
        self.learnt.append((batch, logits.data[:, :-1]))
        return super()._actor_critic(batch, logits, values)


def divergence(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """KL(before || after) of softmax policies given by logits (..., A), (...)."""
    p, q = (x - np.logaddexp.reduce(x, axis=-1, keepdims=True) for x in (before, after))
    return np.sum(np.exp(p) * (p - q), axis=-1)


def update(trainer: Any) -> np.ndarray:
    """One update: levels solved and ended, the policy's change, how far it moved."""
    task, before = trainer.task, trainer.optimizer.data.copy()
    task.learnt = []
    trainer.advance()
    moved = np.linalg.norm(trainer.optimizer.data - before)
    changes, solved, ended = [], 0, 0
    for batch, old in task.learnt:
        state = state_of(batch, trainer.model.initial_state(len(old)))
        new, _, _ = task._call(trainer.model, batch, state)
        changes.append(divergence(old, new.data[:, :-1]))
        solved += batch["solved"].sum()
        ended += batch["ended"].sum()
    return np.array([solved, ended, np.mean(changes), moved])


def branch(trainer: Any, rate: float, updates: int) -> dict:
    """Goes on from where the trainer is; the measurements of every ten updates."""
    trainer.task.factor = rate
    found = np.array([update(trainer) for _ in range(updates)])
    solved, ended, change, moved = found.reshape(-1, TOGETHER, 4).sum(1).T
    measured = {
        "solved": solved / ended,
        "change": change / TOGETHER,
        "moved": moved / TOGETHER,
    }
    return {k: [float(f"{y:.4g}") for y in x] for k, x in measured.items()}


def measured(config, starts=STARTS, updates=UPDATES) -> list[dict]:
    """Each branch from each start."""
    keep_freed_memory()
    trainer: Any = Trainer(Task(config), seed=0)
    own, kept, found = trainer.stream, {}, []
    with blas_threads(1), np.errstate(all="ignore"):
        for start in starts:
            while trainer.step < start:
                update(trainer)
            arrays = {name: x.copy() for name, x in trainer.arrays().items()}
            kept[start] = arrays, trainer.state()
        for start, numbers, rate in itertools.product(starts, NUMBERS, RATES):
            others = numbers is not None
            stream = trainer.task.stream(trainer.model, numbers) if others else own
            trainer.stream = stream
            trainer.restore(*kept[start])
            what = {"start": start, "numbers": numbers, "rate": rate}
            found.append(what | branch(trainer, rate, updates))
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = report.parser("falls", (__doc__ or "").partition("\n\n")[0])
    options = parser.parse_args(argv)
    quick = box_world.QUICK
    config = replace(quick, model=replace(quick.model, core="feedforward"))
    found = report.heading("falls") | {"falls": measured(config)}
    report.publish(found, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
