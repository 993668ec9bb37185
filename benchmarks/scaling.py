"""Weak scaling over MPI ranks.

    python benchmarks/scaling.py [--ranks 1 2 4] [--steps 30]

Each rank has one worker and always the same 128 examples a step, so the batch grows
with the ranks and a step should take as long as on one rank. Any extra time is the
price of adding up gradients, of waiting for each other and, on one machine, of sharing
its memory and caches. The step is that of 8 slots x 64 units with 8 heads on 8 vectors
of 16 dimensions; gradient, clipping and update are included.

It prints one JSON object a line: ranks, seconds_per_step (the median), efficiency (the
time on the first number of ranks over this).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from report import at_least_one

from tinyrmc.backend import blas_threads, keep_freed_memory
from tinyrmc.cli.commands import Parser, run_main
from tinyrmc.errors import UsageError
from tinyrmc.training.discovery import load_task
from tinyrmc.training.ranks import Ranks, launched
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import available_cores

EXAMPLES = 128  # a step, on each rank
WARM_UP = 5  # steps that do not count


def seconds_per_step(ranks: Ranks, steps: int) -> float:
    """The median over `steps` steps, taken one after the other as in training, on the
    slowest rank.
    """
    kind = load_task("nth_farthest").Task
    config = kind.presets["ladder"][1]
    model = dataclasses.replace(config.model, mem_slots=8, num_heads=8, head_size=8)
    train = dataclasses.replace(config.train, batch_size=EXAMPLES * ranks.size)
    data = dataclasses.replace(config.data, rungs=())  # all 8 vectors in every step
    config = dataclasses.replace(config, model=model, data=data, train=train)
    trainer = Trainer(kind(config), ranks=ranks)

    def message():  # as much as the training loop sends along
        return time.perf_counter(), 0

    times = [time.perf_counter()]
    keep_freed_memory()
    with blas_threads(1), np.errstate(all="ignore"):
        for _ in range(WARM_UP + steps):
            trainer.advance(message)
            times.append(time.perf_counter())
    return ranks.largest(float(np.median(np.diff(times)[WARM_UP:])))


def scaling(counts: list[int] | None = None, steps: int = 30) -> list[dict]:
    """[{ranks, seconds_per_step, efficiency}], a program under mpiexec for each number
    of ranks; by default 1, 2, 4 as far as cores go.

    UsageError if there is no mpiexec; if a program fails, with what it says.
    """
    counts = counts or [count for count in (1, 2, 4) if count <= available_cores()]
    beside = shutil.which("mpiexec", path=Path(sys.executable).parent)
    mpiexec = beside or shutil.which("mpiexec")
    if mpiexec is None:
        raise UsageError("there is no mpiexec; pip install 'tinyrmc[mpi]'")
    program = [sys.executable, "-m", "mpi4py", __file__, "--measure"]
    rows: list[dict] = []
    for count in counts:
        command = [mpiexec, "-n", str(count), *program, "--steps", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip()
            raise UsageError(f"mpiexec -n {count} failed: {said}")
        seconds = json.loads(done.stdout.splitlines()[-1])
        first = rows[0]["seconds_per_step"] if rows else seconds
        row = {"ranks": count, "seconds_per_step": seconds}
        rows.append({**row, "efficiency": first / seconds})
    return rows


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Measure weak scaling over MPI ranks."
    parser = Parser("python benchmarks/scaling.py", about)
    parser.add_argument(
        "--ranks",
        type=at_least_one,
        nargs="+",
        metavar="R",
        help="numbers of ranks; default: 1 2 4 as far as there are cores",
    )
    parser.add_argument(
        "--steps",
        type=at_least_one,
        default=30,
        help="steps to take the median of (default: 30)",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="measure with the ranks that mpiexec has started this program on",
    )
    options = parser.parse_args(argv)
    if options.measure:
        with launched() as ranks:
            print(seconds_per_step(ranks, options.steps))
        return 0
    for row in scaling(options.ranks, options.steps):
        print(json.dumps(row))
    return 0


if __name__ == "__main__":
    run_main(main)
