"""Draw the learning curves of finished or running runs: `python -m tinyrmc.plot RUN [RUN ...]`.

Runs of one configuration under several seeds make one line, their mean in a band from the lowest to the highest; other configurations make
other lines. A single run also gets the pictures its task draws of a trained network, such as attention maps. With `--against samples` or
`--against hours` the curves stand over the examples seen, or over the time it took on the machine that trained them. What a memory attends
to is drawn, measured and tested by `python -m tinyrmc.plot attention RUN`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .commands import Parser, run_main
from .loading import open_checkpoint, restore_model, task_from_dict
from .ranks import require_alone
from .runs import Run, RunError, first_difference


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.plot")
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["attention"]:
        from . import attention

        return attention.main(words[1:])
    more = "`attention RUN` draws, measures and tests what a memory attends to: see attention --help."
    parser = Parser(prog="python -m tinyrmc.plot", description="Draw the learning curves of training runs.", epilog=more)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run directory; several seeds of one configuration make one line")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="write the learning curve alone to this PNG file, replaced if it exists "
        "(default: learning_curve.png, in the run's directory with its other pictures or, for several runs, in the current one)",
    )  # fmt: skip
    parser.add_argument("--against", choices=("steps", "samples", "hours"), default="steps", help="what the curves are drawn against")
    options = parser.parse_args(argv)
    runs = [Run.open(path) for path in options.runs]
    if len(runs) == 1 and options.out is None:
        paths = draw_run(runs[0], options.against)
    else:
        paths = [draw_curves(runs, options.out or Path("learning_curve.png"), options.against)]
    print(*paths, sep="\n")
    return 0


def draw_run(run: Run, against: str = "steps") -> list[Path]:
    """The learning curve of one run and, if it has a checkpoint, its task's pictures, in the run's directory; returns the paths."""
    curve = draw_curves([run], run.path / "learning_curve.png", against)
    if not (run.checkpoint.exists() or run.previous_checkpoint.exists()):
        return [curve]
    task, arrays, state = open_checkpoint(run.path)
    try:
        return [curve, *task.pictures(restore_model(task, arrays, state), curve.parent)]
    except OSError as error:
        raise _unwritable(curve.parent, error) from error


def draw_curves(runs: list[Run], out: Path, against: str = "steps") -> Path:
    """The learning curves of runs of one task in the PNG file `out`. RunError says what is missing or does not go together.

    against: a name in figures.AXES.

    Shown are the task's headline and whatever else has reference values and was measured in every group.
    """
    from . import figures

    if out.suffix.lower() != ".png":
        raise RunError(f"cannot draw into {out}: pictures are PNG files; give --out a name that ends in .png")
    for run in runs[1:]:
        if run.config.get("task") != runs[0].config.get("task"):
            raise RunError(f"{runs[0].path} and {run.path} are runs of different tasks; plot them one by one")
    tasks = [task_from_dict(run.config) for run in runs]
    headline = f"test_{tasks[0].headline}"
    groups = group_runs(runs)
    lines = {label: [run.metrics() for run in members] for label, members in groups.items()}
    for label, members in groups.items():
        for run, of_run in zip(members, lines[label], strict=True):
            if not figures.shared_points([of_run], headline)[0].size:
                raise RunError(f"{run.path} has no line with {headline} yet; train it until its first evaluation")
        if not figures.mean_and_range(lines[label], headline, against)[0].size:
            short = min(members, key=lambda run: run.metrics()[-1]["step"])
            what = "time, nor on either side of one" if against == "hours" else "step"
            raise RunError(f"the runs of {label!r} were never evaluated at the same {what}; {short.path} is the shortest, leave it out")

    references = _references({label: tasks[runs.index(members[0])] for label, members in groups.items()})
    others = [name for name in references if name != headline]
    shown = [name for name in others if all(figures.mean_and_range(group, name, against)[0].size for group in lines.values())]
    title = runs[0].config["task"] + (f", seed {runs[0].config['seed']}" if len(runs) == 1 else "")
    try:
        return figures.learning_curve(lines, references, [headline, *shown], out, title, against)
    except OSError as error:
        raise _unwritable(out, error) from error


def group_runs(runs: list[Run]) -> dict[str, list[Run]]:
    """{label: runs} of each configuration, the seed aside, in the order given. RunError for two runs that are the same in all.

    A label is the preset and the core; a later group of the same two is told by the fields in which it differs from the first.
    """
    groups: list[list[Run]] = []
    for run in runs:
        group = next((group for group in groups if _same(group[0], run)), None)
        if group is None:
            groups.append([run])
            continue
        for other in group:
            if other.config["seed"] == run.config["seed"]:
                raise RunError(f"{other.path} and {run.path} have the same configuration and seed; give one of them")
        group.append(run)
    return dict(zip(_labels([group[0].config for group in groups]), groups, strict=True))


def _same(one, other):
    return first_difference(*({**run.config, "seed": None} for run in (one, other))) is None


def _labels(configs):
    names = []
    for config in configs:
        core = config["config"].get("model", {}).get("core")
        names.append(f"{config['preset']}, {core}" if core else config["preset"])
    firsts = [configs[names.index(name)]["config"] for name in names]  # the first group of the same name
    differences = [_differences(first, config["config"]) for first, config in zip(firsts, configs, strict=True)]
    return [", ".join([name, *fields]) for name, fields in zip(names, differences, strict=True)]


def _differences(one, other, prefix=""):
    """['model.mem_slots 8', ...]: the fields of a nested configuration in which `other` differs from `one`."""
    found = []
    for name, value in other.items():
        if isinstance(value, dict):
            found += _differences(one.get(name, {}), value, f"{prefix}{name}.")
        elif value != one.get(name):
            found.append(f"{prefix}{name} {value}")
    return found


def _references(tasks):
    """The reference values of {label of a group: task}; where groups have different ones, each is named after its group."""
    each = {label: task.references() for label, task in tasks.items()}
    first = next(iter(each.values()))
    if all(references == first for references in each.values()):
        return first
    named: dict[str, dict[str, float]] = {}
    for label, references in each.items():
        for metric, values in references.items():
            named.setdefault(metric, {}).update({f"{label}: {name}": value for name, value in values.items()})
    return named


def _unwritable(path, error):
    return RunError(f"cannot write {path}: {error.strerror}; give python -m tinyrmc.plot a writable place with --out")


if __name__ == "__main__":
    run_main(main)
