"""Runs beside each other: which of them count, which are seeds of one configuration,
and what a configuration is called.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import stored_path, words_of
from ..errors import RunError, UserError
from ..training.discovery import UnknownTask, core_places
from ..training.machine import other_code
from ..training.run import (
    Run,
    lines_of,
    relocated,
    require_own_data,
    task_from_dict,
    text_of,
)
from ..training.task import Task

# --- Which runs count -----------------------------------------------------------------


def find_runs(
    paths: Sequence[Path], data_dir: Path | None = None
) -> tuple[list[Run], list[str]]:
    """The evaluated runs that `paths` stand for, and a line for each one left out.

    A folder stands for the runs in it, but not for its sweeps: a sweep's own path
    stands for its runs. Of several runs with the same configuration, text, code and
    seed, the one that came farthest counts, or the last of equals. A copied run counts
    once, even if its config.json names another seed: its metrics are the same, to the
    second. A run is left out if its text is not where it was. RunError for a
    path that is not there, or if no run is left.

    data_dir: where the runs' data are by now, if they have moved.
    """
    best: dict[tuple, tuple[int, Run]] = {}  # step of the last evaluation, run
    measured: dict[tuple, Run] = {}  # the first with these lines
    left_out: list[str] = []
    for path in paths:
        for folder in _folders(path):
            if folder != path and is_sweep(folder):
                left_out.append(f"{folder} is a sweep: give its own path")
                continue
            if len(paths) > 1 and folder.is_file():  # a picture among runs/*
                left_out.append(f"{folder} is no run directory")
                continue
            try:
                run = Run.open(folder)
                if "places" in run.config:
                    config = relocated(run.config, data_dir)
                    run = dataclasses.replace(run, config=config)
                task = task_from_dict(run.config)
                if (last := last_evaluation(run, task)) is None:
                    does = f"python -m tinyrmc.train --resume {run.word}"
                    left_out.append(f"{folder} has not been evaluated yet: {does}")
                    continue
            except (RunError, UnknownTask) as error:
                if folder == path:
                    raise
                left_out.append(f"{folder}: {error}")
                continue
            try:  # floors and sizes are those of the text that is here
                require_own_data(run, task)
            except UserError as error:
                left_out.append(f"{folder}: {error}")
                continue
            words = command_words(run.config)
            seed = run.config["seed"]
            lines = run.path.joinpath("metrics.jsonl").read_bytes()
            like = measured.setdefault((task_word(run.config), words, lines), run)
            if like.config["seed"] != seed:
                left_out.append(f"{folder} is a copy of {like.path}: equal metrics")
                continue
            code = (*sorted(code_of(run).items()),)
            key = task_word(run.config), words, text_of(run), seed, code
            kept = (last["step"], run)
            other = best.get(key)
            if other and other[0] > kept[0]:
                kept, other = other, kept
            best[key] = kept
            if other and not other[1].path.samefile(kept[1].path):
                says = f"has the configuration and seed of {kept[1].path}"
                left_out.append(f"{other[1].path} {says}")
    if not best:
        why = f" ({'; '.join(left_out)})" if left_out else ""
        raise RunError(
            f"there is no evaluated run in {', '.join(map(str, paths))}{why}; train "
            "one, or give other paths"
        )
    return [run for _, run in best.values()], left_out


def _folders(path: Path) -> list[Path]:
    """The run directories that a path stands for, run 10 after run 9."""
    holds_runs = os.path.isdir(path) and not os.path.exists(path / "config.json")
    if not (holds_runs or is_sweep(path)):
        return [path]

    def numbers_as_numbers(folder: Path) -> list[int | str]:
        parts = re.split("([0-9]+)", folder.name)
        return [int(part) if part.isdigit() else part for part in parts]

    found = (config.parent for config in path.glob("*/config.json"))
    return sorted(found, key=numbers_as_numbers)


def is_sweep(path: Path) -> bool:
    """Whether this is a sweep's directory."""
    try:
        return "grid" in Run.open(path).config
    except RunError:
        return False


def last_evaluation(run: Run, task: Task) -> dict[str, Any] | None:
    """The last line of a run's metrics with the task's headline on held-out examples:
    those that are watched, in a finished run all.
    """
    lines = reversed(lines_of(run, task))
    return next((line for line in lines if task.watched in line), None)


# --- What belongs together, and what it is called -------------------------------------


def group_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """{command_words: runs} of each configuration of one task, the seed aside, in the
    order given. Where a configuration was trained on several texts, each is a group,
    and says with --data-dir where its text lies. Where files of one's own had changed,
    each is a group, and names them in brackets.
    """
    of_words: dict[str, dict[Any, list[Run]]] = {}
    for run in runs:
        of_texts = of_words.setdefault(command_words(run.config), {})
        of_texts.setdefault(text_of(run), []).append(run)
    groups: dict[str, list[Run]] = {}
    for words, of_texts in of_words.items():
        for members in of_texts.values():
            name = words
            folder = members[0].config.get("places", {}).get("data_dir")
            if folder and len(of_texts) > 1:
                home = "~/" if folder.startswith("~/") else ""  # for a shell to expand
                name += f" --data-dir {home}{shlex.quote(folder.removeprefix(home))}"
            apart = _by_code(members)
            codes = [
                {k: x for run in each for k, x in code_of(run).items()}
                for each in apart
            ]
            for code, each in zip(codes, apart, strict=True):
                told = [
                    f"{file} {digest}"
                    for file, digest in code.items()
                    if "step" in digest
                    or {c.get(file, digest) for c in codes} != {digest}
                ]
                more = f" ({'; '.join(told)})" if told else ""
                groups.setdefault(name + more, []).extend(each)
    return groups


def code_of(run: Run) -> dict[str, str]:
    """{file of one's own: the beginnings of its digests, in the order in which they
    ran} of a run: "bf96b8fa, from step 20 3247f1ef".
    """
    last = run.environment.get("own_code", {})
    code = {file: digest[:8] for file, digest in last.items()}
    for step, later in run.environment.get("later_code", {}).items():
        for file, digest in other_code(last, later).items():
            before = f"{code[file]}, " if file in code else ""
            code[file] = f"{before}from step {step} {digest[:8]}"
        last = later
    return code


def _by_code(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs apart where a file of one's own, that both had imported, was another."""
    groups: list[list[Run]] = []
    for run in runs:
        code = code_of(run)
        for members in groups:
            others = [pair for each in members for pair in code_of(each).items()]
            if all(code.get(file, digest) == digest for file, digest in others):
                members.append(run)
                break
        else:
            groups.append([run])
    return groups


def task_word(run_config: dict[str, Any]) -> str:
    """The word that stands for a run's task in a command: its name, or its file."""
    return run_config.get("task_file", run_config["task"])


def parts(run_config: dict[str, Any], words: str | None = None) -> list[str]:
    """The `command_words`, or those given, one by one: preset, core, further flags."""
    core = core_of(run_config)
    preset, *flags = re.split(r" (?=--|\()", words or command_words(run_config))
    known = f"--model.core {core}"
    flags = [x for x in flags if x != known and not x.startswith("--core ")]
    return [preset, *filter(None, [core]), *flags]


def core_of(run_config: dict[str, Any]) -> str | None:
    """The core of a run's network; None for a task that has no choice."""
    return run_config["config"].get("model", {}).get("core")


def command_words(run_config: dict[str, Any]) -> str:
    """The name of a run's configuration: "quick --model.core lstm", the words after
    `python -m tinyrmc.train TASK` that make it, but for the seed. In place of a preset
    that is gone stands the task's first. Of an extended run they say so in brackets.
    """
    task = task_from_dict(run_config)
    preset = run_config["preset"]
    if preset not in task.presets:
        preset = next(iter(task.presets))
    _, usual = task.presets[preset]
    more = ["--init", run_config["init"]] if "init" in run_config else []
    for file in run_config.get("core_files", ()):
        more += ["--core", file]
    words = shlex.join([preset, *words_of(task.config, usual), *more])
    if earlier := ", ".join(f"{k:,}" for k in run_config.get("extended", ())):
        words += f" (extended from {earlier} steps)"
    return words


def title_of(state: dict[str, Any]) -> str:
    """The name of a checkpoint's network, with the files of cores that were read:
    "nth_farthest quick, seed 0, step 20".
    """
    run = state["run"]
    run = {**run, "core_files": [*map(stored_path, core_places(run).values())]}
    name = f"{run['task']} {command_words(run)}, seed {run['seed']}"
    return f"{name}, step {state['step']:,}"
