"""What you see of a run while it trains: a bar on a terminal, elsewhere some lines.

Whenever the run passes a rung, a floor or a published result, a line says so, unless it
may be past it by chance.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from ..text import duration, in_words, is_share, number
from ..training.loop import Listener
from ..training.task import Task

# Where there is no terminal, a line comes after this many seconds without one.
QUIET = 30.0
# If a wait takes longer than this many seconds, you are told what it is for.
LONG = 2.0
# How many standard errors past a mark a run must be to count: it is measured often, and
# each time it might be past the mark by chance.
ERRORS = 3


class Progress(Listener):
    """Told of every step and every line of metrics: a bar on a terminal, or lines.

    task: what is learnt. Its headline's held-out value comes first, and its floors and
        published results are the marks to pass.
    done: the steps that the run had done before.
    """

    def __init__(self, task: Task, done: int = 0):
        self.task, self.headline = task, task.headline
        self.steps, self.done, self.first = task.config.train.steps, done, done
        self.marks = task.references().get(task.watched, {})
        self.lower = task.lower_is_better(self.headline)
        self.held_out = in_words(task.watched).removesuffix(in_words(task.headline))
        self.passed: set[str] = set()
        self.rung: Any = None
        self.tested: float | None = None
        self.bar = None
        self.began = self.printed = time.monotonic()

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

    def line(self, line: dict) -> None:
        """A line of metrics has come."""
        for news in self._notice(line):
            self._print(f"step {line['step']:>7,}  {news}")
        if self.bar is not None:
            headlines = ", ".join(self._words(line)[:2])  # fits 80 columns with the bar
            self.bar.set_description_str(f"{headlines} ", refresh=False)
            return
        now = time.monotonic()
        if self.task.watched in line or now - self.printed > QUIET:
            self.printed = now
            rate = (self.done - self.first) / max(now - self.began, 1e-9)
            left = duration((self.steps - self.done) / rate) if rate else "?"
            words = "  ".join(self._words(line))
            said = f"step {line['step']:>7,}/{self.steps:,}  {words}"
            print(f"{said}  {rate:.1f} steps/s  ETA {left}", flush=True)

    def testing(self, splits: Sequence[str], seconds: float | None) -> None:
        """The last evaluation begins: say so, if it will take a while."""
        if seconds is None or seconds > LONG:
            about = f", about {duration(seconds)}" if seconds else ""
            self._print(f"measuring on {' and '.join(splits)}{about}")

    def _words(self, line):
        """The held-out headline, the batches', and the loss."""
        words = []
        if self.tested is not None:
            words.append(f"{self.held_out}{self._value(self.tested)}")
        if self.headline in line:
            of = f"rung {line['rung']}" if self._on_a_rung(line) else self.task.batches
            words.append(f"{of} {self._value(line[self.headline])}")
        if "loss" in line:
            words.append(f"loss {line['loss']:.4f}")
        return words

    def _value(self, value):
        return number(self.headline, value)

    def _on_a_rung(self, line):
        return "rung" in line and not self.task.is_final(line)

    def _notice(self, line):
        """What a line brings: rungs, floors and published results that are passed."""
        news = []
        if "rung" in line:
            if self.rung is not None and line["rung"] != self.rung:
                news.append(f"rung {self.rung} passed; now {line['rung']}")
            self.rung = line["rung"]
        value = line.get(self.task.watched)
        if value is None:
            return news
        self.tested = value
        for label, mark in self.marks.items():
            ahead = mark - value if self.lower else value - mark
            if label not in self.passed and ahead > self._by_chance(label, mark):
                self.passed.add(label)
                what = f"{in_words(self.task.watched)} {self._value(value)}"
                kind = "result" if label.startswith("paper") else "floor"
                news.append(f"{what}: past the {kind} {label!r}, {self._value(mark)}")
        return news

    def _by_chance(self, label, mark):
        """How far past a mark a network that is no better may come by chance."""
        deviation = self.task.deviation(self.task.watched, label)
        if deviation is None:
            share = is_share(self.headline) and 0 <= mark <= 1
            deviation = math.sqrt(mark * (1 - mark)) if share else 0.0
        else:  # this mark was measured on as many examples, and is as noisy
            deviation *= math.sqrt(2)
        examples = self.task.examples(self.task.splits[0])
        return ERRORS * deviation / math.sqrt(examples)

    def _print(self, text):
        if self.bar is None:
            print(text, flush=True)
        else:
            self.bar.write(text)

    def close(self) -> None:
        """Leave the terminal in order."""
        if self.bar is not None:
            self.bar.close()
