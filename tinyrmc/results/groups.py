"""Runs beside each other: which of them count, which are seeds of one configuration,
and what a configuration is called.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..config import flag_of
from ..errors import RunError
from ..runs.run import Run
from ..training.checkpoints import task_from_dict
from ..training.discovery import UnknownTask

# --- Which runs count -----------------------------------------------------------------


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The evaluated runs that `paths` stand for, and a line for whatever was found
    there and left out.

    A folder stands for the runs in it, but not for a sweep's (see sweep.py) in it; a
    sweep's own path stands for its runs. Of several runs with the same configuration
    and seed the one that came farthest counts. RunError for a path that is not there,
    or if no run is left.
    """
    runs, left_out = [], []
    for path in paths:
        folders = [path]
        if path.is_dir() and (not (path / "config.json").exists() or is_sweep(path)):
            folders = sorted(
                (
                    folder
                    for folder in path.iterdir()
                    if (folder / "config.json").exists()
                ),
                key=_in_order,
            )
        for folder in folders:
            if folder != path and is_sweep(folder):
                left_out.append(f"{folder} is a sweep: give its own path")
                continue
            try:
                run = Run.open(folder)
                task = task_from_dict(run.config)
                last = last_evaluation(run, task)
            except (RunError, UnknownTask) as error:
                if folder == path:
                    raise
                left_out.append(f"{folder}: {error}")
                continue
            if last is None:
                left_out.append(f"{folder} has not been evaluated yet")
                continue
            runs.append((last["step"], run))
    if not runs:
        why = f" ({'; '.join(left_out)})" if left_out else ""
        raise RunError(
            f"there is no evaluated run in {', '.join(map(str, paths))}{why}; train "
            "one, or give other paths"
        )
    return _without_repeats(runs, left_out), left_out


def is_sweep(path: Path) -> bool:
    """Whether this is a sweep's directory."""
    try:
        return "grid" in Run.open(path).config
    except RunError:
        return False


def last_evaluation(run: Run, task) -> dict | None:
    """The last line of a run's metrics with the task's headline on the held-out
    examples.
    """
    return next(
        (line for line in reversed(run.metrics()) if f"test_{task.headline}" in line),
        None,
    )


def _in_order(folder):
    """Run 10 after run 9."""
    return [
        int(part) if part.isdigit() else part
        for part in re.split("([0-9]+)", folder.name)
    ]


def _without_repeats(runs, left_out):
    kept: dict[tuple, tuple[int, Run | None]] = {}
    for step, run in runs:
        key = run.config["task"], command_words(run.config), run.config["seed"]
        (_, worse), kept[key] = sorted(
            [kept.get(key, (-1, None)), (step, run)], key=lambda pair: pair[0]
        )
        if worse:
            left_out.append(
                f"{worse.path} has the configuration and seed of {kept[key][1].path}"
            )
    return [run for _, run in kept.values()]


# --- What belongs together, and what it is called -------------------------------------


def group_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """{command_words: runs} of each configuration of one task, the seed aside, in the
    order given.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(command_words(run.config), []).append(run)
    return groups


def command_words(run_config: dict) -> str:
    """What a run's configuration is called: the words after `python -m tinyrmc.train
    TASK` that make it, but for the seed.

    That is its preset, as the task has it now, and a flag for whatever differs from
    that: "quick --model.core lstm". Instead of a preset that is no longer there stands
    the task's first.
    """
    task = task_from_dict(run_config)
    name = (
        run_config["preset"]
        if run_config["preset"] in task.presets
        else next(iter(task.presets))
    )
    return shlex.join([name, *_flags(task.presets[name][1], task.config)])


def _flags(usual, config, prefix=""):
    """The flags of the fields in which a configuration differs from the usual one."""
    words = []
    for field in dataclasses.fields(config):
        name, value, before = (
            f"{prefix}{field.name}",
            getattr(config, field.name),
            getattr(usual, field.name),
        )
        if dataclasses.is_dataclass(value):
            words += _flags(before, value, f"{name}.")
        elif value != before:
            words += (
                [flag_of(name, no=not value)]
                if isinstance(value, bool)
                else [flag_of(name), *_values(value)]
            )
    return words


def _values(value):
    """One word, or those of a tuple of tuples in a row."""
    return (
        [word for part in value for word in _values(part)]
        if isinstance(value, tuple)
        else [str(value)]
    )
