"""How long the memory networks' recipe takes on one core: 120 epochs of bAbI's stories.

    python benchmarks/stories.py [--data-dir FOLDER] [--out FILE.json]

All twenty tasks, each with a network of its own, by `babi quick --data.task all`: 20
epochs with a linear start, then 100 with the softmax. Some epochs of each kind are
timed, and the recipe's time is the median of each kind times its number of epochs; once
with one restart, once with ten side by side. Time is that of the processor.
Evaluations, of which there are twelve, are left out. `--generated` takes the five tasks
that need no files.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from pathlib import Path

import report

from tinyrmc.backend import blas_threads
from tinyrmc.cli.commands import add_data_dir, run_main
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

RESTARTS = 1, 10
EPOCHS = {"linear": 20, "softmax": 100}  # of the recipe


def measure(restarts: int, data_dir: Path | None, generated: bool, rounds: int) -> dict:
    """{"tasks", "restarts", "seconds", "rounds": {kind: seconds of each epoch}}."""
    babi = load_task("babi")
    usual = babi.QUICK
    config = replace(
        usual,
        data_dir=data_dir,
        data=replace(usual.data, task="all", generated=generated),
        model=replace(usual.model, restarts=restarts),
    )
    task, times = babi.Task(config), {}
    trainer = Trainer(task, seed=0, workers=1, processes=False)
    with blas_threads(1):
        trainer.advance()
        for kind in EPOCHS:
            task.linear = kind == "linear"
            times[kind] = [_epoch(trainer, task.epoch) for _ in range(rounds)]
    medians = {kind: statistics.median(found) for kind, found in times.items()}
    return {
        "tasks": len(task.materials),
        "restarts": restarts,
        "seconds": sum(EPOCHS[kind] * medians[kind] for kind in EPOCHS),
        "rounds": times,
    }


def _epoch(trainer: Trainer, steps: int) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    for _ in range(steps):
        trainer.advance()
    return time.process_time() - began


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = report.parser("stories", "Time the recipe of bAbI.")
    add, rounds = parser.add_argument, report.at_least_one
    add("--rounds", type=rounds, default=5, metavar="N", help="epochs of each kind")
    add("--generated", action="store_true", help="five tasks, which need no files")
    add_data_dir(parser)
    options = parser.parse_args(words)
    result = report.heading("stories")
    result["stories"] = [
        measure(restarts, options.data_dir, options.generated, options.rounds)
        for restarts in RESTARTS
    ]
    report.publish(result, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
