"""The one training loop: steps, lines of metrics, evaluations, checkpoints, until the
end or a signal.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import numpy as np

from ..backend import blas_threads, keep_freed_memory
from ..runs.run import Run
from .ranks import Ranks
from .trainer import Trainer
from .workers import orphaned


class Interrupt:
    """Turns the first Ctrl-C or SIGTERM into a flag, so that a step is finished and
    saved; a second one stops at once.

    With several ranks it is left to mpiexec to stop at once, which passes on to all
    ranks, perhaps twice, what itself is sent. That nobody is left who waits for this
    process counts as a SIGHUP.
    """

    def __init__(self, ranks: Ranks):
        self._ranks, self._number = ranks, 0

    @property
    def number(self) -> int:
        """The number of a signal that has come to this rank, else 0."""
        return self._number or (signal.SIGHUP if orphaned() else 0)

    @property
    def signal(self) -> int:
        """The number of a signal that has come to any rank, else 0.

        All ranks ask together.
        """
        return self._ranks.largest(self.number)

    def __enter__(self):
        self._before = {
            s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def _note(self, number, _):
        self._number = number
        if self._ranks.size == 1:
            self.__exit__()

    def __exit__(self, *_):
        for s, handler in self._before.items():
            signal.signal(s, handler)


def run_training(
    trainer: Trainer,
    run: Run,
    max_minutes: float | None = None,
    show: Callable[[dict], None] = lambda line: None,
) -> str:
    """Train until the configured steps are done, `max_minutes` have passed, or a signal
    comes; saves as it goes and at the end.

    Each line of metrics goes to the run and to `show`. Returns "finished", "time" or
    the signal's name. A run that ended in one of the first two ways is evaluated, and
    its last line holds `test_*`; a run whose steps are all done already is only
    evaluated. BLAS runs on one thread, the workers being the parallelism. Of several
    ranks one has the `Run`, the others an `Onlooker`.
    """
    keep_freed_memory()
    config, ranks, began, saved = (
        trainer.task.config.train,
        trainer.ranks,
        time.monotonic(),
        0.0,
    )
    before, lines = trainer.seconds, ranks.together(lambda: len(run.metrics()))

    def save():
        ranks.each(
            trainer.require_finite
        )  # so that a bad state never replaces a good one
        trainer.require_agreement()
        arrays, state = (
            trainer.arrays(),
            {**trainer.state(), "lines": lines, "run": run.config},
        )
        ranks.each(lambda: run.save(arrays, state))

    def log(line):
        ranks.each(lambda: run.log(line))
        show(line)

    def note():  # the ranks' largest count, for all must save and stop at the same step
        return time.monotonic() - began, interrupt.number

    if trainer.step == 0:
        save()  # a directory that cannot be written is better found now than in an hour
    tested = None  # the step of the last evaluation
    with blas_threads(1), Interrupt(ranks) as interrupt, np.errstate(all="ignore"):
        while trainer.step < config.steps:
            elapsed, stopped = map(max, zip(*trainer.advance(note), strict=True))
            trainer.seconds = before + elapsed
            if trainer.step % config.log_every == 0:
                line = trainer.read()
                if trainer.step % config.evaluate_every == 0:
                    line |= trainer.evaluate()
                    tested = trainer.step
                log(line)
                lines += 1
            over = max_minutes is not None and elapsed >= 60 * max_minutes
            if (
                over or stopped or (ranks.size == 1 and interrupt.number)
            ):  # several hear of a late signal with the next step's notes
                break
            if elapsed - saved >= 60 * config.checkpoint_minutes:
                save()
                saved = elapsed
        save()
        if not interrupt.signal and tested != trainer.step:
            line = {
                "step": trainer.step,
                "samples": trainer.step * config.batch_size,
                "seconds": round(trainer.seconds, 2),
            }
            line |= trainer.window.means() | trainer.evaluate()
            log(line)
        if stopped := interrupt.signal:
            return signal.Signals(stopped).name
    return "finished" if trainer.step >= config.steps else "time"
