"""The learning curves of runs, drawn from their metrics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from ..errors import RunError, UsageError
from ..training.mistakes import check_given
from ..training.networks import open_checkpoint, restore_model
from ..training.run import Run, explained, task_from_dict
from .findings import names
from .groups import core_of, group_runs, parts, task_word

ELSEWHERE = "give python -m tinyrmc plot a writable place with --out"


def draw_run(run: Run, against: Sequence[str] = ("steps",)) -> list[Path]:
    """The learning curve of a run and, if it has a checkpoint, its task's pictures, in
    its directory; returns the paths.
    """
    curve = draw_curves([run], run.path / "learning_curve.png", against)
    if not (run.checkpoint.exists() or run.previous_checkpoint.exists()):
        return [curve]
    task, arrays, state = open_checkpoint(run)
    if not hasattr(task, "pictures"):
        return [curve]
    model = restore_model(task, arrays, state)
    with explained(f"write {run.path}", ELSEWHERE):
        drawn = task.pictures(model, run.path)
        return [curve, *check_given(task, "pictures", drawn, list)]


def draw_curves(
    runs: list[Run], out: Path, against: Sequence[str] = ("steps",)
) -> Path:
    """The learning curves of evaluated runs of one task in a file, PNG, PDF or SVG.

    against: names in learning_curves.AXES, or what the task counts its examples in.

    They show the task's headline and, against a single axis, whatever else was measured
    in every group and has references. RunError says what does not go together.
    """
    from . import figures

    if out.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise RunError(
            f"cannot draw into {out}: give --out a name that ends in .png, .pdf or .svg"
        )
    for run in runs[1:]:
        if task_word(run.config) != task_word(runs[0].config):
            raise RunError(
                f"{runs[0].path} and {run.path} are runs of different tasks; plot "
                "them one by one"
            )
    groups = group_runs(runs)
    configs = [members[0].config for members in groups.values()]
    title = configs[0]["task"]
    if len(groups) == 1:
        seed = f", seed {configs[0]['seed']}" if len(runs) == 1 else ""
        title += f" {next(iter(groups))}{seed}"
    else:  # what they have in common goes into the title, the rest names each
        words = [parts(*each) for each in zip(configs, groups, strict=True)]
        if len({*map(tuple, words)}) < len(words):  # one core of several files
            for known, config in zip(words, configs, strict=True):
                known += config.get("core_files", ())
        common, own = names(words)
        title = f"{title} {common}".strip()
        pairs = zip(own, configs, groups.values(), strict=True)
        groups = {name or config["preset"]: runs_ for name, config, runs_ in pairs}
    tasks = dict(zip(groups, map(task_from_dict, configs), strict=True))
    task = next(iter(tasks.values()))
    axes = dict.fromkeys(["steps", task.unit[0], "samples", "hours"])
    if not set(against) <= set(axes) or len(set(against)) < len(against):
        raise UsageError(
            f"--against takes {', '.join(axes)}, or several with commas between, not "
            f"{','.join(against)!r}"
        )
    lines, measured = {}, {}  # of each group; and the metrics that it has values of
    for label, members in groups.items():
        unit, each = tasks[label].unit
        lines[label] = [
            [{**line, unit: line["samples"] * each} for line in run.metrics()]
            for run in members
        ]
        every = itertools.chain.from_iterable(lines[label])
        values = itertools.chain.from_iterable(line.items() for line in every)
        measured[label] = {name for name, value in values if value is not None}
        if task.watched not in measured[label]:
            raise RunError(
                f"the runs of {label!r} have no value of {task.watched}; leave them out"
            )
    references = _in_all([each.references() for each in tasks.values()])
    metrics = [task.watched]
    if len(against) == 1:
        shared, split = set.intersection(*measured.values()), f"{task.splits[0]}_"
        watched = [name for name in references if name.startswith(split)]
        metrics += [name for name in watched if name in shared - {task.watched}]
    training = []  # batches of the task itself, where they are the watched network's
    if len(runs) == 1 and task.batches_watched:
        first = lines[next(iter(groups))][0]
        training = [line for line in first if task.is_final(line)]
    cores = [*map(core_of, configs)]
    with explained(f"write {out}", ELSEWHERE):
        out.parent.mkdir(parents=True, exist_ok=True)
        return figures.learning_curve(
            out, lines, references, metrics, title, against, cores, training
        )


def _in_all(known: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The references of each metric that all tasks have, with one value."""
    return {
        metric: {
            name: value
            for name, value in values.items()
            if all(each.get(metric, {}).get(name) == value for each in known)
        }
        for metric, values in known[0].items()
    }
