"""The learning curves of runs, drawn from their metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import RunError, UsageError
from ..runs.files import explained
from ..runs.run import Run
from ..training.checkpoints import open_checkpoint, restore_model, task_of
from ..training.task import Task
from .examinations import names
from .groups import core_of, group_runs, parts, task_word

ELSEWHERE = "give python -m tinyrmc plot a writable place with --out"


def draw_run(run: Run, against: Sequence[str] = ("steps",)) -> list[Path]:
    """The learning curve of one run and, if it has a checkpoint, its task's pictures,
    in the run's directory; returns the paths.
    """
    curve = draw_curves([run], run.path / "learning_curve.png", against)
    if not (run.checkpoint.exists() or run.previous_checkpoint.exists()):
        return [curve]
    task, arrays, state = open_checkpoint(run)
    model = restore_model(task, arrays, state)
    with explained(f"write {run.path}", ELSEWHERE):
        return [curve, *task.pictures(model, run.path)]


def draw_curves(
    runs: list[Run], out: Path, against: Sequence[str] = ("steps",)
) -> Path:
    """The learning curves of evaluated runs of one task in the PNG file `out`.

    against: names in figures.AXES, or what the task counts its examples in.

    They show the task's headline and, against a single axis, whatever else has
    reference values and was measured in every group. RunError says what does not go
    together.
    """
    from . import figures

    require_png(out)
    _require_one_task(runs)
    title, groups = _named(group_runs(runs))
    tasks = {label: task_of(members[0]) for label, members in groups.items()}
    for task in tasks.values():
        _require_axes(against, task)
    lines = {
        label: [_counted(run.metrics(), tasks[label]) for run in members]
        for label, members in groups.items()
    }
    references = _references(tasks)
    metrics = _metrics_to_draw(lines, tasks, references)
    if len(against) > 1:
        metrics = metrics[:1]
    cores = [core_of(members[0].config) for members in groups.values()]
    training = _training_lines(lines, tasks) if len(runs) == 1 else []
    with explained(f"write {out}", ELSEWHERE):
        return figures.learning_curve(
            lines, references, metrics, out, title, against, cores, training
        )


def require_png(out: Path) -> None:
    """RunError unless a picture's name ends as what it is."""
    if out.suffix.lower() != ".png":
        raise RunError(
            f"cannot draw into {out}: pictures are PNG files; give --out a name that "
            "ends in .png"
        )


Lines = Mapping[str, list[list[dict]]]  # label of a group -> the lines of each run
References = dict[str, dict[str, float]]  # metric -> label -> value


def _require_one_task(runs: list[Run]) -> None:
    for run in runs[1:]:
        if task_word(run.config) != task_word(runs[0].config):
            raise RunError(
                f"{runs[0].path} and {run.path} are runs of different tasks; plot "
                "them one by one"
            )


def _named(groups: dict[str, list[Run]]) -> tuple[str, dict[str, list[Run]]]:
    """(the title, the groups): what several groups have in common goes into the title,
    and each is named by the rest. A single run's seed goes there too.
    """
    runs = [run for members in groups.values() for run in members]
    task = runs[0].config["task"]
    if len(groups) == 1:
        seed = f", seed {runs[0].config['seed']}" if len(runs) == 1 else ""
        return f"{task} {next(iter(groups))}{seed}", groups
    configs = [members[0].config for members in groups.values()]
    common, own = names([parts(*each) for each in zip(configs, groups, strict=True)])
    labels = (
        name or config["preset"] for name, config in zip(own, configs, strict=True)
    )
    return f"{task} {common}".strip(), dict(zip(labels, groups.values(), strict=True))


def _require_axes(against: Sequence[str], task: Task) -> None:
    known = dict.fromkeys(["steps", task.unit[0], "samples", "hours"])
    if not set(against) <= set(known) or len(set(against)) < len(against):
        raise UsageError(
            f"--against takes {', '.join(known)}, or several with commas between, not "
            f"{','.join(against)!r}"
        )


def _counted(lines: list[dict], task: Task) -> list[dict]:
    """Lines of metrics with the examples in the units that the task counts in."""
    name, each = task.unit
    if name == "samples":
        return lines
    return [{**line, name: line["samples"] * each} for line in lines]


def _metrics_to_draw(
    lines: Lines, tasks: Mapping[str, Task], references: References
) -> list[str]:
    """The headline on the set that is watched, and what else was measured there in
    every group and has references.
    """

    def without(metric: str) -> list[str]:
        """The groups in which this was never measured."""
        return [
            label
            for label, runs in lines.items()
            if all(line.get(metric) is None for run in runs for line in run)
        ]

    task = next(iter(tasks.values()))
    headline = task.watched
    if lacking := without(headline):
        raise RunError(
            f"the runs of {lacking[0]!r} have no value of {headline}; leave them out"
        )
    watched = [name for name in references if name.startswith(f"{task.splits[0]}_")]
    return [headline, *(n for n in watched if n != headline and not without(n))]


def _training_lines(lines: Lines, tasks: Mapping[str, Task]) -> list[dict]:
    """The lines of a single run whose training batches were of the task itself.

    None if the batches' metrics also come from networks other than the watched one.
    """
    (task,) = tasks.values()
    ((run,),) = lines.values()
    return [line for line in run if task.batches_watched and task.is_final(line)]


def _references(tasks: Mapping[str, Task]) -> References:
    """The reference values of {label of a group: task}.

    A value that some groups do not share is named after those that do.
    """
    found: References = {}
    each = {label: task.references() for label, task in tasks.items()}
    names = dict.fromkeys(
        (metric, name)
        for references in each.values()
        for metric, values in references.items()
        for name in values
    )
    for metric, name in names:
        groups: dict[float | None, list[str]] = {}  # by the value that they have
        for label, references in each.items():
            value = references.get(metric, {}).get(name)
            groups.setdefault(value, []).append(label)
        for value, labels in groups.items():
            if value is None:
                continue
            shown = name
            if len(groups) > 1:
                more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
                shown = f"{labels[0]}{more}: {name}"
            found.setdefault(metric, {})[shown] = value
    return found
