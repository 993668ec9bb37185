"""The learning curves of runs, drawn from their metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import RunError
from ..runs.run import Run
from ..training.checkpoints import open_checkpoint, restore_model, task_from_dict
from .groups import group_runs


def draw_run(run: Run, against: Sequence[str] = ("steps",)) -> list[Path]:
    """The learning curve of one run and, if it has a checkpoint, its task's pictures,
    in the run's directory; returns the paths.
    """
    curve = draw_curves([run], run.path / "learning_curve.png", against)
    if not (run.checkpoint.exists() or run.previous_checkpoint.exists()):
        return [curve]
    task, arrays, state = open_checkpoint(run.path)
    try:
        return [curve, *task.pictures(restore_model(task, arrays, state), curve.parent)]
    except OSError as error:
        raise _unwritable(curve.parent, error) from error


def draw_curves(
    runs: list[Run], out: Path, against: Sequence[str] = ("steps",)
) -> Path:
    """The learning curves of evaluated runs of one task in the PNG file `out`.

    RunError says what does not go together.

    against: names in figures.AXES.

    Shown are the task's headline and, against one axis, whatever else has reference
    values and was measured in every group.
    """
    from .. import figures

    if out.suffix.lower() != ".png":
        raise RunError(
            f"cannot draw into {out}: pictures are PNG files; give --out a name that "
            "ends in .png"
        )
    for run in runs[1:]:
        if run.config["task"] != runs[0].config["task"]:
            raise RunError(
                f"{runs[0].path} and {run.path} are runs of different tasks; plot "
                "them one by one"
            )
    groups = group_runs(runs)
    lines = {
        label: [run.metrics() for run in members] for label, members in groups.items()
    }
    tasks = {
        label: task_from_dict(members[0].config) for label, members in groups.items()
    }
    headline = f"test_{next(iter(tasks.values())).headline}"
    references = _references(tasks)

    def without(name):
        return [
            label
            for label, group in lines.items()
            if all(line.get(name) is None for of_run in group for line in of_run)
        ]

    if none := without(headline):
        raise RunError(
            f"the runs of {none[0]!r} have no value of {headline}; leave them out"
        )
    metrics = [
        headline,
        *(name for name in references if name != headline and not without(name)),
    ]
    metrics = metrics if len(against) == 1 else metrics[:1]
    cores = [
        members[0].config["config"].get("model", {}).get("core")
        for members in groups.values()
    ]
    (task, *_), ((of_run, *_), *_) = tasks.values(), lines.values()
    training = (
        [line for line in of_run if task.is_final(line)] if len(runs) == 1 else []
    )
    try:
        return figures.learning_curve(
            lines, references, metrics, out, _title(groups), against, cores, training
        )
    except OSError as error:
        raise _unwritable(out, error) from error


def _title(groups):
    """The task; of a single configuration also its words, of a single run its seed."""
    runs = [run for members in groups.values() for run in members]
    words = [runs[0].config["task"], *(groups if len(groups) == 1 else [])]
    return " ".join(words) + (
        f", seed {runs[0].config['seed']}" if len(runs) == 1 else ""
    )


def _references(tasks):
    """The reference values of {label of a group: task}.

    One that is not the same for all groups is named after those that it is of.
    """
    found: dict[str, dict[str, float]] = {}
    each = {label: task.references() for label, task in tasks.items()}
    for metric, name in dict.fromkeys(
        (metric, name)
        for known in each.values()
        for metric, values in known.items()
        for name in values
    ):
        of_value: dict[float, list[str]] = {}
        for label, known in each.items():
            of_value.setdefault(known.get(metric, {}).get(name), []).append(label)
        for value, labels in of_value.items():
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            if value is not None:
                found.setdefault(metric, {})[
                    name if len(of_value) == 1 else f"{labels[0]}{more}: {name}"
                ] = value
    return found


def _unwritable(path, error):
    return RunError(
        f"cannot write {path}: {error.strerror}; give python -m tinyrmc.plot a "
        "writable place with --out"
    )
