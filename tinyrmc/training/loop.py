"""The one training loop, as a run.

Steps, lines of metrics, evaluations and checkpoints, until the end or a signal.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..backend import blas_threads
from .run import Run
from .trainer import Trainer
from .workers import WorkerLost, orphaned

FORWARD = 0.4  # evaluating an example takes this fraction of the time to train on it


class Listener:
    """Hears how a run goes: a progress bar is one. This one does nothing."""

    def step(self, step: int) -> None:
        """`step` steps are done.

        Called after every step, in the loop: take microseconds, and ask nothing of a
        GPU.
        """

    def line(self, line: dict) -> None:
        """A line of metrics, as it was written to the run."""

    def testing(self, splits: Sequence[str], seconds: float | None) -> None:
        """The last evaluation begins, on all held-out sets.

        seconds: how long it may take, judged by the last one; None: there was none.
        """

    def planning(self, seconds: float, limit: float) -> None:
        """The last evaluation may take so many of the `limit` seconds that are left.

        If it takes more than all of them, a run that is out of time goes without.
        """


class _Stopped(BaseException):
    """A signal came while nothing was left to save."""


class Interrupt:
    """Turns the first Ctrl-C, SIGTERM or SIGHUP into a flag. A second one stops the
    run at once, except a SIGHUP: a terminal that closes sends two.

    So the step is finished and saved. Of several ranks none stops at once by itself
    (`alone`): mpiexec sees to that, and passes on to all ranks what it is sent, perhaps
    twice. If nobody is left who waits for this process, that counts as a SIGHUP.
    Entering it again changes nothing, also after a signal.
    """

    def __init__(self, alone: bool = True):
        self._alone = alone
        self._number = 0
        self._ready = False
        self._before: dict[int, Any] = {}

    @property
    def number(self) -> int:
        """The number of a signal that has come, else 0."""
        return self._number or (signal.SIGHUP if orphaned() else 0)

    def __enter__(self) -> Interrupt:
        if not self._before and threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                # nohup has a process ignore a SIGHUP
                if number and signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def take(self, number: int) -> None:
        """As if the signal of this number had come."""
        self._number = self._number or number

    def _note(self, number: int, _: object) -> None:
        self._number = number
        if self._alone:
            for each, handler in self._before.items():
                hangup = each == getattr(signal, "SIGHUP", None)
                signal.signal(each, signal.SIG_IGN if hangup else handler)
            if self._ready:
                raise _Stopped

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Lets the first signal, too, end the body at once: all has been saved."""
        self._ready = True
        try:
            yield
        finally:
            self._ready = False

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())


def run_training(
    trainer: Trainer,
    run: Run,
    max_minutes: float | None = None,
    show: Listener | None = None,
    interrupt: Interrupt | None = None,
    final: bool = True,
) -> str:
    """Train until the steps are done, `max_minutes` have passed, or a signal comes.

    It saves as it goes and at the end. Each line of metrics goes to the run and to
    `show`, which also hears of each step. Returns "finished", "time" or the signal's
    name. A run that ended in one of the first two ways is evaluated, and its last line
    holds the metrics on all held-out sets; a run whose steps are all done already is
    only evaluated. BLAS runs on one thread, since the workers are the parallelism. Of
    several ranks one has the `Run`, the others an `Onlooker`.

    interrupt: one that was entered before there was a run. It is left at the end.
    final: whether it is measured on all held-out sets at the end. The minutes count
        what that may take, but at least half of them are for training; where it would
        take more than all of them, a run that is out of time goes without.
    """
    if max_minutes is not None and not max_minutes > 0:
        raise ValueError(f"max_minutes must be positive, not {max_minutes}")
    one_thread = blas_threads(1)
    quiet = np.errstate(all="ignore")
    with one_thread, interrupt or Interrupt(trainer.ranks == 1) as interrupt, quiet:
        loop = _Loop(trainer, run, max_minutes, show or Listener(), interrupt, final)
        if trainer.step == 0:
            # a directory that cannot be written is better found now than in an hour
            loop.save()
        loop.train()
        loop.save()
        if not loop.stopped():
            with contextlib.suppress(_Stopped):
                if final and loop.has_time() and loop.test():
                    loop.save(last=1)
        if stopped := loop.stopped():
            return signal.Signals(stopped).name
    return "finished" if trainer.finished else "time"


class _Loop:
    """The memory of `run_training`."""

    def __init__(
        self,
        trainer: Trainer,
        run: Run,
        max_minutes: float | None,
        show: Listener,
        interrupt: Interrupt,
        final: bool,
    ):
        self.final = final
        self.planned = False
        self.trainer = trainer
        self.run = run
        self.show = show
        self.interrupt = interrupt
        self.config = trainer.task.config.train
        self.limit = math.inf if max_minutes is None else 60 * max_minutes
        self.began = time.monotonic()
        self.before = trainer.seconds
        self.saved = 0.0  # seconds from the beginning
        self.skipped = int(trainer.skipped)  # updates skipped until the last line
        # lines of metrics; whether the newest checkpoint is good, and its step
        self.lines = 0
        self.good = True
        self.kept = 0
        if trainer.step:
            state = run.load_state() or {}
            self.lines, self.kept = len(run.metrics()), state.get("step", 0)
            self.good = state.get("steady", True)
        self.tested = -1  # the step of the last evaluation on all held-out sets
        self.took: float | None = None  # seconds of the last one, on the watched set
        self.whole = 0.0  # those that one on all sets may take, where there is a limit

    def stopped(self) -> int:
        """The number of a signal that has come, else 0."""
        return int(self.trainer.agreed(self.interrupt.number)[0])

    def tell(self, hear: str, *what: Any) -> None:
        """Tell the listener, whose output may fail.

        That must not cost the steps since the last checkpoint, so it counts as the
        signal of a broken pipe: the run is saved, and ends.
        """
        try:
            getattr(self.show, hear)(*what)
        except OSError:
            self.show = Listener()
            self.interrupt.take(getattr(signal, "SIGPIPE", signal.SIGTERM))

    def train(self) -> None:
        """Steps, until there is a reason to stop."""
        trainer, first = self.trainer, self.trainer.step
        try:
            while not trainer.finished:
                try:
                    trainer.advance()
                except WorkerLost:
                    # All is as it was after the step before, unless workers have
                    # taken up what they carry, or the stream or a rank has gone on.
                    alone = trainer.stream.random_access and trainer.ranks == 1
                    if alone and not trainer.task.carries:
                        self.save()
                    raise
                # several ranks must save and stop at the same step
                elapsed = time.monotonic() - self.began
                left_out = self.measuring(elapsed / (trainer.step - first))
                elapsed, left_out, stopped = trainer.agreed(
                    elapsed, left_out, self.interrupt.number
                )
                trainer.seconds = self.before + elapsed
                self.tell("step", trainer.step)
                if trainer.step % self.config.log_every == 0:
                    self._read()
                # what comes late, other ranks hear of after the next step
                late = trainer.ranks == 1 and self.interrupt.number
                if elapsed + left_out >= self.limit or stopped or late:
                    return
                due = elapsed - self.saved >= 60 * self.config.checkpoint_minutes
                if due and int(trainer.skipped) == self.skipped:
                    self.save()
                    self.saved = elapsed
        except WorkerLost as error:
            raise WorkerLost(
                f"{error}; the checkpoint of step {self.kept:,} is there to resume "
                "from: with as many --workers the result is the same to the last bit, "
                "with fewer it takes less memory"
            ) from error
        finally:
            trainer.rest()

    def measuring(self, step: float) -> float:
        """Seconds of the limit to keep for what is measured after the next step, and at
        the end: half of it at most. `step`: the seconds of a step, which tell until an
        evaluation has shown them.
        """
        if self.limit == math.inf:
            return 0.0
        task, config = self.trainer.task, self.config
        one = self.took
        if one is None:
            one = task.effort(task.splits[0]) / config.batch_size * step * FORWARD
        self.whole = one * self.sets()
        known = self.took is not None or self.trainer.step % 10 == 0
        if self.final and known and not self.planned:
            self.planned = True
            self.tell("planning", self.whole, self.limit)
        keep = self.whole if self.final and self.whole <= self.limit else 0.0
        soon = (self.trainer.step + 1) % config.evaluate_every == 0
        return min(keep + one * soon, self.limit / 2)

    def has_time(self) -> bool:
        """Whether there is time to measure at the end, as far as it is known."""
        over = self.planned and self.whole > self.limit and not self.trainer.finished
        return not self.trainer.agreed(over)[0]

    def _read(self) -> None:
        """A line of metrics."""
        test = self.trainer.step % self.config.evaluate_every == 0
        over = self.trainer.finished and self.final
        if test and over:
            self._tell_of_test()
        began = time.monotonic()
        line = self.trainer.read(test, self.final)
        self.skipped = line.get("skipped_updates", 0)
        if test:
            self.took = time.monotonic() - began
            self._keep_best()
        self._log(line)
        if test and (over or len(self.trainer.task.splits) == 1):
            self.tested = self.trainer.step

    def _keep_best(self) -> None:
        """Keep the weights, if this evaluation on a validation set was the best."""
        trainer = self.trainer
        newest = trainer.best is not None and trainer.best[0] == trainer.step
        if newest and self.config.keep_best and len(trainer.task.splits) > 1:
            told = {"run": self.run.config, "step": trainer.step}
            told["task"] = trainer.task.state()
            self.run.save_best(trainer.weights(), told)

    def sets(self) -> float:
        """The effort of all held-out sets, in that of the watched one."""
        efforts = [*map(self.trainer.task.effort, self.trainer.task.splits)]
        return sum(efforts) / efforts[0]

    def _tell_of_test(self) -> None:
        took = self.took and self.took * self.sets()
        self.tell("testing", self.trainer.task.splits, took)

    def _log(self, line: dict) -> None:
        self.run.log(line)
        self.tell("line", line)
        self.lines += 1

    def test(self) -> bool:
        """A last line with all held-out metrics, unless the last line has them.

        Returns whether it was needed.
        """
        trainer = self.trainer
        if self.tested == trainer.step:
            return False
        self._tell_of_test()
        with self.interrupt.at_once():
            found = trainer.evaluate()
        place = trainer.task.place(trainer.step)
        self._log(trainer.place() | trainer.means() | place | found)
        return True

    def save(self, last: int = 0) -> None:
        """A checkpoint, which answers for all lines of metrics.

        One of the two that are kept was taken in a steady state, when no update had
        been skipped since the last line: else it may be as bad as what comes.

        last: how many lines came after the newest checkpoint. This one replaces that,
            and they are cut off when the run goes on.
        """
        self.trainer.require_finite()  # so that a bad state never replaces a good one
        arrays = self.trainer.arrays()
        state = self.trainer.state()
        state |= {"lines": self.lines - last, "run": self.run.config}
        state["steady"] = int(self.trainer.skipped) == self.skipped
        state["metrics"] = [self.lines, self.run.checksum(self.lines)]
        self.run.save(arrays, state, instead=bool(last) or not self.good)
        self.good = state["steady"]
        self.kept = self.trainer.step
