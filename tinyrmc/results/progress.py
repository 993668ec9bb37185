"""A run as you see it while it trains: a bar on a terminal, elsewhere some lines.

When the run passes a stage, a floor or a published result, a line says so.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import in_words
from ..training.loop import Listener
from ..training.task import Task
from .text import duration, is_share, number

# seconds without a line, after which one comes where no terminal is: with the next line
# of metrics, or without
QUIET, SILENT = 30.0, 60.0
LONG = 2.0  # seconds of a wait from which on you are told what it is for
ERRORS = 3  # how many standard errors past a mark a run must be to count


class Progress(Listener):
    """Told of every step and every line of metrics: a bar on a terminal, or lines.

    The marks to pass are the task's floors and published results. done: the steps that
    the run had done before. events: a folder that gets TensorBoard's event files.
    """

    def __init__(self, task: Task, done: int = 0, events: Path | None = None):
        self.events = events
        self.writer: Any = None
        self.task = task
        self.headline = task.headline
        self.steps = task.config.train.steps
        self.done = done
        self.first = done
        self.passed: set[str] = set()
        self.stage: Any = None
        self.tested: float | None = None
        self.bar: Any = None
        self.began = self.printed = time.monotonic()

    @functools.cached_property
    def marks(self) -> dict[str, float]:
        """Floors and published results of the held-out headline, by their labels."""
        return self.task.references().get(self.task.watched, {})

    def show_bar(self) -> None:
        """Draw a bar on the terminal from now on."""
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no thread of its own: the workers are forked
        self.bar = tqdm(
            total=self.steps,
            initial=self.done,
            mininterval=1,
            maxinterval=1,
            dynamic_ncols=True,
            bar_format="{desc}|{bar:10}| {n_fmt}/{total_fmt} [{remaining}, {rate_fmt}]",
            unit="step",
        )

    def recall(self, lines: list[dict]) -> None:
        """Take in the lines of a run that goes on, without a word about them."""
        for line in lines:
            self._notice(line)

    def step(self, step: int) -> None:
        """A step is done."""
        if self.bar is not None:
            self.bar.update(step - self.done)
        self.done = step
        if self.bar is None and time.monotonic() - self.printed > SILENT:
            self._tell(step, [])

    def line(self, line: dict) -> None:
        """A line of metrics has come."""
        if self.events is not None:
            self._write_events(line)
        for news in self._notice(line):
            self._print(f"step {line['step']:>7,}  {news}")
        words = self._words(line)
        if self.bar is not None:  # two fit 80 columns with the bar
            self.bar.set_description_str(f"{', '.join(words[:2])} ", refresh=False)
            return
        if self.task.watched in line or time.monotonic() - self.printed > QUIET:
            self._tell(line["step"], words)

    def _tell(self, step: int, words: list[str]) -> None:
        """How far it has come."""
        self.printed = now = time.monotonic()
        rate = (self.done - self.first) / max(now - self.began, 1e-9)
        left = duration((self.steps - self.done) / rate) if rate else "?"
        pace = (
            f"{rate:.1f} steps/s"
            if rate >= 1 or not rate
            else f"{1 / rate:.1f} s a step"
        )
        said = [f"step {step:>7,}/{self.steps:,}", *words, pace, f"ETA {left}"]
        self._print("  ".join(said))

    def _write_events(self, line: dict) -> None:
        """The line for TensorBoard. Its thread starts when the workers are forked."""
        if self.writer is None:
            from tensorboardX import SummaryWriter

            self.writer = SummaryWriter(str(self.events), purge_step=line["step"])
        for name, value in line.items():
            if isinstance(value, int | float):
                self.writer.add_scalar(name, value, line["step"])
        self.writer.flush()

    def planning(self, seconds: float, limit: float) -> None:
        """How long measuring at the end may take is known: say so, if it is long."""
        of = f"about {duration(seconds)} of {duration(limit)}"
        if seconds > limit:
            self._print(f"measuring at the end is left to `--resume`: it takes {of}")
        elif seconds > LONG:
            late = f", the run {duration(max(limit, limit / 2 + seconds))} in all"
            without = "--no-final-evaluation leaves it out"
            self._print(f"measuring at the end will take {of}{late} ({without})")

    def testing(self, splits: Sequence[str], seconds: float | None) -> None:
        """The last evaluation begins: say so, if it will take a while."""
        if seconds is None or seconds > LONG:
            about = f", about {duration(seconds)}" if seconds else ""
            self._print(f"measuring on {' and '.join(splits)}{about}")

    def _words(self, line: dict) -> list[str]:
        """The held-out headline, the batches', and the loss."""
        words = []
        headline = self.headline
        if self.tested is not None:
            held_out = in_words(self.task.watched).removesuffix(in_words(headline))
            words.append(f"{held_out}{number(headline, self.tested)}")
        if headline in line:
            on_a_stage = "stage" in line and not self.task.is_final(line)
            of = f"stage {line['stage']}" if on_a_stage else self.task.batches
            words.append(f"{of} {number(headline, line[headline])}")
        if "loss" in line:
            words.append(f"loss {line['loss']:.4f}")
        return words

    def _notice(self, line: dict) -> list[str]:
        """The news of a line: stages, floors and published results that are passed."""
        news = []
        watched = self.task.watched
        if "stage" in line:
            if self.stage is not None and line["stage"] != self.stage:
                news.append(f"stage {self.stage} passed; now {line['stage']}")
            self.stage = line["stage"]
        value = line.get(watched)
        if value is None:
            return news
        self.tested = value
        lower = self.task.lower_is_better(self.headline)
        examples = self.task.examples(self.task.splits[0])
        for label, mark in self.marks.items():
            ahead = mark - value if lower else value - mark
            by_chance = 0.0
            if is_share(self.headline) and 0 <= mark <= 1:
                by_chance = ERRORS * math.sqrt(mark * (1 - mark) / examples)
            if label not in self.passed and ahead > by_chance:
                self.passed.add(label)
                what = f"{in_words(watched)} {number(watched, value)}"
                kind = "result" if label.startswith("paper") else "floor"
                news.append(
                    f"{what}: past the {kind} {label!r}, {number(watched, mark)}"
                )
        return news

    def _print(self, text: str) -> None:
        if self.bar is None:
            print(text, flush=True)
        else:
            self.bar.write(text)

    def close(self) -> None:
        """Leave the terminal in order."""
        for each in self.bar, self.writer:
            if each is not None:
                each.close()
