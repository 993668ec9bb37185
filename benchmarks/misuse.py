"""Faults of users: command lines and calls that make no sense.

Each is a function of a random generator and an empty folder, as faults.py takes them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import random
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forging
import numpy as np
from trials import (
    COMMANDS,
    TASKS,
    Verdict,
    contents,
    judge,
    run,
    start,
    wait,
    with_run,
    words_of,
)

import tinyrmc
from tinyrmc.errors import UserError
from tinyrmc.runs.arrays import load_arrays, save_arrays
from tinyrmc.runs.run import Run
from tinyrmc.training.discovery import load_task
from tinyrmc.training.loop import run_training
from tinyrmc.training.trainer import Trainer

# --- Command lines --------------------------------------------------------------------

LINES = {
    "train": ["train TASK", "train --resume run", "train TASK"],
    "evaluate": ["evaluate run", "evaluate run --json"],
    "plot": ["plot run", "plot level"]
    + [f"plot {what} run" for what in ("attention", "hops", "examinations", "episode")],
    "report": ["report run", "report run --out r.md"],
    "sweep": ["sweep TASK --grid train.batch_size=4 --seeds x"],
    "data": ["data", "data ptb"],
    "generate": ["generate run the"],
    "play": ["play box_world", "play mini_pacman --agent run"],
    "new": ["new mine"],
}
BAD = [
    *("", " ", "-1", "0", "0.5", "nan", "inf", "-inf", "1e999", "9" * 400, "1,2"),
    *("x" * 300, "None", "=", "--", "a/b", "/dev/null"),
    *("\u00e9\U0001f600", "\udcff"),
]
HOW = "flag", "flag", "flag", "more", "less", "other"


def words(rng: random.Random, folder: Path) -> Verdict:
    """A command line with a word that cannot be right, or is not wanted."""
    task = rng.choice([*TASKS])
    with_run(task, "whole", folder)
    line = _spoilt_line(rng, task)
    if line[0] == "train":
        line += ["--max-minutes", "0.0001"]
    before = contents(folder)
    ended = run(line, folder, _little_memory)
    after = contents(folder)
    if ended.code == 2:
        unchanged = after == before
    else:
        unchanged = before.keys() <= after.keys()
    made = folder.rglob("config.json")
    meant = not any("NaN" in file.read_text() for file in made)
    outcome, why = judge(ended, meant and unchanged, unchanged)
    return outcome, f"{line!r}: {why}"


def _spoilt_line(rng: random.Random, task: str) -> list[str]:
    """A line of LINES with a bad word in it, or one too few."""
    said = rng.choice(LINES[rng.choice(COMMANDS)])
    line = [part.replace("TASK", task) for part in said.split()]
    if line[:2] == ["train", task]:
        line = words_of(task)
    flags = _flags(line[0], task)
    how, bad = rng.choice(HOW), rng.choice(BAD)
    if how == "flag" and flags:
        line += [rng.choice(flags), *([bad] if rng.random() < 0.9 else [])]
    elif how == "more":
        line.insert(rng.randrange(1, len(line) + 1), bad)
    elif how == "less" and len(line) > 1:
        line.pop(rng.randrange(1, len(line)))
    elif len(line) > 1:
        line[rng.randrange(1, len(line))] = bad
    return line


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    sys.stdin = open(os.devnull)


@functools.cache
def _flags(command: str, task: str) -> list[str]:
    """The flags that a command has."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        help_ = [task, "--help-all"] if command == "train" else ["--help"]
        importlib.import_module(f"tinyrmc.cli.{command}").main(help_)
    found = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", out.getvalue()))
    return sorted(found - {"--help", "--help-all", "--max-minutes"})


# --- Calls of the library -------------------------------------------------------------


def calls(rng: random.Random, folder: Path) -> Verdict:
    """A call of the library with a value that cannot be right: the error says so."""
    bad = rng.choice([*forging.KINDS, 2.5, b"x", object(), np.zeros(2), -1])
    name, call = rng.choice([*_calls_with(bad).items()])

    def work() -> int:
        try:
            call()
        except (ValueError, TypeError) as error:
            raise UserError(str(error)) from error
        return 0

    outcome, why = judge(wait(start(work, folder), folder), same=False)
    return outcome, f"{name} with {bad!r:.40}: {why}"


def _calls_with(bad: Any) -> dict[str, Callable[[], object]]:
    """Calls by name, each with this value, or with -3 where this one would be right."""
    kind = load_task("nth_farthest").Task
    config = next(iter(kind.presets.values()))[1]
    count, minutes = _but_not(bad, int), _but_not(bad, int, float, type(None))
    return {
        "Trainer(seed)": lambda: Trainer(kind(config), seed=count),
        "Trainer(workers)": lambda: Trainer(
            kind(config), workers=_but_not(bad, int, type(None))
        ),
        "Trainer(device)": lambda: Trainer(kind(config), device=bad),
        "load": lambda: tinyrmc.load(bad),
        "load_arrays": lambda: load_arrays(bad),
        "save_arrays": lambda: save_arrays("x.npz", {"a": _no_array(bad)}, {}),
        "save_arrays(name)": lambda: save_arrays(
            "x.npz", {_but_not(bad, str): np.ones(1)}, {}
        ),
        "Run.open": lambda: Run.open(bad),
        "Run.log": lambda: _a_run().log(_but_not(bad, dict)),
        "run_training(max_minutes)": lambda: run_training(
            Trainer(kind(config)), _a_run(), max_minutes=minutes
        ),
    }


def _a_run() -> Run:
    return Run.create(".", "run", {}, {})


def _but_not(value: Any, *kinds: type) -> Any:
    """The value; -3 if it is of one of these kinds, unless it is a number below 0."""
    negative = isinstance(value, int | float) and not value >= 0
    return -3 if isinstance(value, kinds) and not negative else value


def _no_array(value: Any) -> Any:
    with contextlib.suppress(ValueError):
        if np.asarray(value).dtype.kind in "biufc":
            return "text"
    return value
