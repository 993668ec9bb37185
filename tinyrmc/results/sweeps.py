"""The runs of a sweep: what has become of each, and a picture of what they reached."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import counted
from ..runs.run import Run
from ..text import duration, number
from ..training.checkpoints import is_over, relocated, require_own_data, task_of
from .groups import last_evaluation


class State(NamedTuple):
    """How far a cell has come."""

    says: str
    whole: bool = False  # trained, and evaluated, to its end
    run: Run | None = None  # if it has been evaluated
    value: float | None = None  # of the headline on the held-out examples


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination of a sweep's grid with one of the seeds."""

    values: dict[str, str]
    """field -> the word for its value"""
    seed: int
    words: list[str]
    """the words that train it, but for where and how long"""
    path: Path
    """its run directory"""
    data_dir: str | None = None
    """where its data are, if that was said"""

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
        """How far it has come.

        CorpusError if it was on another text than the one that is here.
        """
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


def draw(described: dict[str, Any], cells: Sequence[Cell], path: Path) -> Path:
    """Draw what the cells of a sweep reached: over the values of the second field that
    varies, a line for each value of the first, a panel for each of the others.

    A field that varies alone counts as the second. Values with nothing reached are
    left out. At least one cell must have been evaluated.
    """
    from . import figures

    found = [(cell, cell.state()) for cell in cells]
    found = [(cell, state) for cell, state in found if state.run]
    grid = {
        field: [v for v in values if any(c.values[field] == v for c, _ in found)]
        for field, values in described["grid"].items()
    }
    varied = [field for field in grid if len(grid[field]) > 1] or [*grid][:1]
    over, panels = varied[min(1, len(varied) - 1)], varied[2:]
    lines = varied[:1] if len(varied) > 1 else []
    drawn: dict[str, dict[str, dict[str, figures.Reached | None]]] = {}
    for chosen in itertools.product(*grid.values()):
        values = dict(zip(grid, chosen, strict=True))
        of_panel = drawn.setdefault(_short(values, panels), {})
        of_line = of_panel.setdefault(_short(values, lines) or "mean", {})
        own = [state for cell, state in found if cell.values == values]
        reached = [state.value for state in own if state.value is not None]
        whole = len(own) == len(described["seeds"]) and all(s.whole for s in own)
        of_line[values[over]] = figures.Reached(reached, whole) if reached else None
    tasks = [task_of(state.run) for _, state in found if state.run]
    metric = tasks[0].watched
    floors = [task.references().get(metric, {}) for task in tasks]
    fixed = {field: values[0] for field, values in grid.items() if len(values) == 1}
    title = [f"{described['task']} {described['preset']}", named(fixed)]
    title += [" ".join(described["words"])]
    title += [f"seeds {', '.join(map(str, described['seeds']))}"]
    return figures.value_grid(
        path,
        drawn,
        floors[0] if all(each == floors[0] for each in floors) else {},
        metric,
        over.rpartition(".")[2],
        ", ".join(filter(None, title)),
        grid["model.core"] if lines == ["model.core"] else None,
    )


def _short(values: dict[str, str], fields: Sequence[str]) -> str:
    return ", ".join(f"{field.rpartition('.')[2]} {values[field]}" for field in fields)
