"""Draw the learning curves of finished or running runs: `python -m tinyrmc.plot RUN [RUN ...]`.

Runs of one configuration under several seeds make one line, their mean in a band from the lowest to the highest; other configurations make
other lines, and each core has the same colour in every picture. A single run also gets the pictures its task draws of a trained network,
such as attention maps. With `--against samples` or `--against hours` the curves stand over the examples seen, or over the time it took on
the machine that trained them; `--against steps,samples,hours` draws three panels side by side, as the paper's figure 5. What a memory
attends to is drawn, measured and tested by `python -m tinyrmc.plot attention RUN`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .commands import Parser, run_main
from .comparing import find_runs, group_runs
from .loading import open_checkpoint, restore_model, task_from_dict
from .ranks import require_alone
from .runs import Run, RunError


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.plot")
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["attention"]:
        from . import attention

        return attention.main(words[1:])
    more = "`attention RUN` draws, measures and tests what a memory attends to: see attention --help."
    parser = Parser(prog="python -m tinyrmc.plot", description="Draw the learning curves of training runs.", epilog=more)
    says = "run directory, or a folder of them; several seeds of one configuration make one line"
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help=says)
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="write the learning curve alone to this PNG file, replaced if it exists "
        "(default: learning_curve.png, in the run's directory with its other pictures or, for several runs, in the current one)",
    )  # fmt: skip
    parser.add_argument(
        "--against", type=_axes, default=("steps",), metavar="AXIS,AXIS",
        help="draw the curves against steps (the default), samples or hours, or several of these; then of the task's headline alone",
    )  # fmt: skip
    options = parser.parse_args(argv)
    runs, left_out = find_runs(options.runs)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if len(runs) == 1 and options.out is None:
        paths = draw_run(runs[0], options.against)
    else:
        paths = [draw_curves(runs, options.out or Path("learning_curve.png"), options.against)]
    print(*paths, sep="\n")
    return 0


def _axes(words):
    axes = tuple(words.split(","))
    if not set(axes) <= {"steps", "samples", "hours"} or len(set(axes)) < len(axes):
        raise argparse.ArgumentTypeError(f"takes steps, samples, hours, or several with commas between, not {words!r}")
    return axes


def draw_run(run: Run, against: Sequence[str] = ("steps",)) -> list[Path]:
    """The learning curve of one run and, if it has a checkpoint, its task's pictures, in the run's directory; returns the paths."""
    curve = draw_curves([run], run.path / "learning_curve.png", against)
    if not (run.checkpoint.exists() or run.previous_checkpoint.exists()):
        return [curve]
    task, arrays, state = open_checkpoint(run.path)
    try:
        return [curve, *task.pictures(restore_model(task, arrays, state), curve.parent)]
    except OSError as error:
        raise _unwritable(curve.parent, error) from error


def draw_curves(runs: list[Run], out: Path, against: Sequence[str] = ("steps",)) -> Path:
    """The learning curves of evaluated runs of one task in the PNG file `out`. RunError says what does not go together.

    against: names in figures.AXES.

    Shown are the task's headline and, against one axis, whatever else has reference values and was measured in every group.
    """
    from . import figures

    if out.suffix.lower() != ".png":
        raise RunError(f"cannot draw into {out}: pictures are PNG files; give --out a name that ends in .png")
    for run in runs[1:]:
        if run.config["task"] != runs[0].config["task"]:
            raise RunError(f"{runs[0].path} and {run.path} are runs of different tasks; plot them one by one")
    groups = group_runs(runs)
    lines = {label: [run.metrics() for run in members] for label, members in groups.items()}
    tasks = {label: task_from_dict(members[0].config) for label, members in groups.items()}
    headline = f"test_{next(iter(tasks.values())).headline}"
    references = _references(tasks)

    def measured(name):
        return all(any(line.get(name) is not None for run in group for line in run) for group in lines.values())

    metrics = [headline, *(name for name in references if name != headline and measured(name))]
    metrics = metrics if len(against) == 1 else metrics[:1]
    cores = [members[0].config["config"].get("model", {}).get("core") for members in groups.values()]
    (task, *_), ((of_run, *_), *_) = tasks.values(), lines.values()
    training = [line for line in of_run if task.is_final(line)] if len(runs) == 1 else []
    try:
        return figures.learning_curve(lines, references, metrics, out, _title(groups), against, cores, training)
    except OSError as error:
        raise _unwritable(out, error) from error
    except ValueError as error:
        raise RunError(f"{error}; leave them out") from error


def _title(groups):
    """The task; of a single configuration also its words, of a single run its seed."""
    runs = [run for members in groups.values() for run in members]
    words = [runs[0].config["task"], *(groups if len(groups) == 1 else [])]
    return " ".join(words) + (f", seed {runs[0].config['seed']}" if len(runs) == 1 else "")


def _references(tasks):
    """The reference values of {label of a group: task}. One that is not the same for all groups is named after those that it is of."""
    found: dict[str, dict[str, float]] = {}
    each = {label: task.references() for label, task in tasks.items()}
    for metric, name in dict.fromkeys((metric, name) for known in each.values() for metric, values in known.items() for name in values):
        of_value: dict[float, list[str]] = {}
        for label, known in each.items():
            of_value.setdefault(known.get(metric, {}).get(name), []).append(label)
        for value, labels in of_value.items():
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            if value is not None:
                found.setdefault(metric, {})[name if len(of_value) == 1 else f"{labels[0]}{more}: {name}"] = value
    return found


def _unwritable(path, error):
    return RunError(f"cannot write {path}: {error.strerror}; give python -m tinyrmc.plot a writable place with --out")


if __name__ == "__main__":
    run_main(main)
