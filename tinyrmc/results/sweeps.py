"""The runs of a sweep, and how far each has come."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

from ..errors import counted
from ..runs.run import Run
from ..training.checkpoints import is_over, relocated, require_own_data, task_of
from .groups import last_evaluation
from .text import duration, number


class State(NamedTuple):
    """How far a cell has come."""

    says: str
    whole: bool = False  # trained, and evaluated, to its end
    run: Run | None = None  # if it has been evaluated
    value: float | None = None  # of the headline on the held-out examples


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination of a sweep's grid with one of the seeds."""

    values: dict[str, str]  # field -> the word for its value
    seed: int
    words: list[str]  # that train it, but for where and how long
    path: Path  # its run directory
    data_dir: str | None = None  # where its data are, if that was said

    @property
    def name(self) -> str:
        """Its values and its seed in words."""
        return f"{named(self.values)}, seed {self.seed}"

    @property
    def log(self) -> Path:
        """The file with what its training prints."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def begun(self) -> bool:
        """Whether its run directory is whole."""
        return (self.path / "config.json").exists()

    def state(self) -> State:
        """How far it has come. CorpusError if its text is not the one that is here."""
        why = failure(self.log)
        ended = State(f"failed: {why}" if why else "stopped")
        if not self.begun:
            return ended if self.log.exists() else State("not run")
        run = Run.open(self.path)
        run = dataclasses.replace(run, config=relocated(run.config, self.data_dir))
        task = task_of(run)
        last = last_evaluation(run, task)
        require_own_data(run, task)  # else others would be trained on another text
        if last is None:
            return ended
        steps, value = task.config.train.steps, last[task.watched]
        over = is_over(run, task, last["step"])
        if why and not over:
            return State(ended.says, False, run, value)
        cut = "" if over else f" of {steps:,}, cut by the budget,"
        reached = number(task.watched, value) or "not finite"
        took = f"{counted(last['step'], 'step')}{cut} in {duration(last['seconds'])}"
        says = f"{task.watched.replace('_', ' ')} {reached}, {took}"
        return State(says, over and task.result in last, run, value)


def named(values: dict[str, str]) -> str:
    """A combination in words."""
    return ", ".join(f"{field} {value}" for field, value in values.items())


def failure(log: Path) -> str | None:
    """Why a training failed, if it did: the last line that it printed."""
    if not log.exists():
        return None
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    last = text.rpartition("\n")[2]
    return last.removeprefix("error: ") if last.startswith("error: ") else None
