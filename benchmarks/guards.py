"""What the checks in a training step cost.

    python benchmarks/guards.py [--steps 600] [--out benchmarks/results/guards.json]

We time a step of nth farthest at 8 slots x 64, batch 128, on one core, with everything
that watches for calls that would silently give a wrong result, and with all of it
turned off: arrays that change between forward and backward (glimpses of what a tape has
borrowed, results that cannot be written), arrays of other threads, two threads in one
backward, shapes that would broadcast, and a listener whose output may fail.

Steps with and without take turns, in processor time, and each pair gives one ratio. We
report the median of the ratios and an interval that holds the true median with 95 %
confidence. What other processes do to the cache is included.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from unittest.mock import patch

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy comes

import candidates
import numpy as np
import report

from tinyrmc import fused
from tinyrmc.autograd import engine
from tinyrmc.autograd.engine import Primitive, Tape, Tensor
from tinyrmc.backend import keep_freed_memory
from tinyrmc.cli.commands import run_main
from tinyrmc.training import loop
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import Workers


def _find(tape: Tape, args, primitive):
    """`Tape._find` without a look at threads, or at what must not change."""
    places: list = []
    tracked = False
    for value in args:
        if isinstance(value, Tensor) and value.id:
            id = value.id if value.tape is tape else tape._place(value, primitive)
            places.append((id, value._data.shape, value._data.dtype))
            tracked = True
        else:
            places.append(None)
    return places if tracked else None


def turned_off(trainer: Trainer) -> contextlib.ExitStack:
    """A context in which none of the guards is there."""
    stack, share = contextlib.ExitStack(), trainer.workers.share
    for where, name, instead in (
        (engine, "_locked", lambda xp, array: array),
        (engine, "_alone", lambda into: contextlib.nullcontext()),
        (Tape, "_find", _find),
        (Tape, "_borrow", lambda *_: None),
        (fused.Fused, "_run", Primitive._run),
        (Workers, "share", share),
    ):
        stack.enter_context(patch.object(where, name, instead))
    return stack


def seconds(trainer: Trainer, show: loop.Listener) -> float:
    """The processor time of a step, which is told to the listener."""
    began = time.process_time()
    trainer.advance()
    show.step(trainer.step)
    return time.process_time() - began


def turns(trainer: Trainer, steps: int) -> np.ndarray:
    """(steps, 2): seconds of steps with the guards and without, each first in turn."""
    alone = loop.Listener()
    heard = loop._Heard(alone, loop.Interrupt(trainer.ranks))

    def off() -> float:
        with turned_off(trainer):
            return seconds(trainer, alone)

    def on() -> float:
        return seconds(trainer, heard)

    both: tuple[Callable[[], float], ...] = on, off
    for step in both * 2:
        step()
    found = [[step() for step in both[:: 1 - 2 * (k % 2)]] for k in range(steps)]
    return np.array([pair[:: 1 - 2 * (k % 2)] for k, pair in enumerate(found)])


def interval(values: np.ndarray) -> tuple[float, float]:
    """What holds the true median with 95 % confidence: two order statistics."""
    ordered, n = np.sort(values), len(values)
    reach = 0.98 * math.sqrt(n)  # 1.96 standard deviations of a count of heads
    low, high = math.floor(n / 2 - reach), math.ceil(n / 2 + reach)
    return float(ordered[max(low, 0)]), float(ordered[min(high, n - 1)])


def measured(steps: int, batch: int = 128) -> dict:
    """The medians, in milliseconds and as a ratio."""
    keep_freed_memory()
    work = candidates.Work(batch, slots=8, width=64)
    trainer = Trainer(candidates.make_task(work), workers=1)
    found = turns(trainer, steps)
    ratios = found[:, 0] / found[:, 1]
    with_them, without = (1e3 * np.median(found, axis=0)).round(2).tolist()
    return {
        "steps": steps,
        "with_ms": with_them,
        "without_ms": without,
        "ratio": round(float(np.median(ratios)), 4),
        "interval": [round(end, 4) for end in interval(ratios)],
    }


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = report.parser("guards", (__doc__ or "").partition("\n\n")[0])
    steps, says = report.at_least_one, "of each kind (default: %(default)s)"
    parser.add_argument("--steps", type=steps, default=600, metavar="N", help=says)
    options = parser.parse_args(argv)
    found = report.heading("guards") | {"guards": measured(options.steps)}
    report.publish(found, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
