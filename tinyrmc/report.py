"""The table of results: `python -m tinyrmc.report runs/`, or some run directories.

Each configuration is a row, its seeds together: what the paper reports, what ours reached, the floors under which nothing has been learnt,
and what it took. The paper's results that have not been run say so, with the command that would. `--out results.md` also writes
results.json, which holds every seed's numbers and curve, and results.png, the table as a picture; the same runs always give the same bytes.

A folder stands for the runs in it. A sweep's directory (see sweep.py) stands for the sweep's runs, but the sweeps of a folder are left out:
they have tables of their own.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .commands import Parser, UsageError, counted, duration, markdown_table, number, run_main
from .discovery import UnknownTask, load_task
from .loading import task_from_dict
from .plot import group_runs
from .ranks import require_alone
from .runs import Run, RunError, first_difference

LEGEND = (
    "*ours*: the task's headline on its held-out examples, mean and best of the seeds. *best batch*: the same on the best single training "
    "batch (of the task itself, where easier ones come first), best of the seeds. *floor*: what can be had without learning the task. "
    "*success*: how many runs reached what the task calls one. *steps*: and of how many, where runs were cut short. "
    "*time*: mean of the runs', training and the evaluations on the way."
)


# --- From runs to numbers -----------------------------------------------------------------------------------------------------------------


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The runs that `paths` stand for, and a line for whatever was found there and left out. RunError for a path that is not there.

    Of several runs with the same configuration and seed the one that came farthest counts.
    """
    runs, left_out = [], []
    for path in paths:
        folders = [path]
        if path.is_dir() and (not (path / "config.json").exists() or is_sweep(path)):
            folders = sorted((folder for folder in path.iterdir() if (folder / "config.json").exists()), key=_in_order)
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
    return _without_repeats(runs, left_out), left_out


def is_sweep(path: Path) -> bool:
    """Whether this is a sweep's directory."""
    try:
        return "grid" in Run.open(path).config
    except RunError:
        return False


def _in_order(folder):
    """Run 10 after run 9."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", folder.name)]


def _without_repeats(runs, left_out):
    kept = []
    for step, run in runs:
        same = next((k for k, (_, other) in enumerate(kept) if first_difference(other.config, run.config) is None), None)
        if same is None:
            kept.append((step, run))
            continue
        worse, better = sorted([kept[same], (step, run)], key=lambda pair: pair[0])
        kept[same] = better
        left_out.append(f"{worse[1].path} has the configuration and seed of {better[1].path}")
    return [run for _, run in kept]


def last_evaluation(run: Run, task) -> dict | None:
    """The last line of a run's metrics with the task's headline on the held-out examples."""
    return next((line for line in reversed(run.metrics()) if f"test_{task.headline}" in line), None)


def summary(runs: list[Run]) -> dict:
    """What there is to say of evaluated runs, as JSON can hold it: {"groups": [...], "not_run": [...]}.

    A group is a configuration, whatever the seed (see `group_summary`). `not_run` are the published cells of these runs' tasks that none of
    them stands for: {"task", "cell", "paper", "command"}.
    """
    groups, not_run = [], []
    for name in dict.fromkeys(run.config["task"] for run in runs):
        of_task = group_runs([run for run in runs if run.config["task"] == name])
        found = [group_summary(label, members) for label, members in of_task.items()]
        published = load_task(name).Task.published
        order = [*published, None]
        groups += sorted(found, key=lambda group: order.index(group["cell"]))
        not_run += [
            {"task": name, "cell": cell, "paper": paper, "command": f"python -m tinyrmc.train {name} {words}".strip()}
            for cell, (paper, words) in published.items()
            if cell not in [group["cell"] for group in found]
        ]
    return {"groups": groups, "not_run": not_run}


def group_summary(label: str, runs: list[Run]) -> dict:
    """Evaluated runs of one configuration: each as in `run_summary`, and the mean and the top of each number that all of them have."""
    task = task_from_dict(runs[0].config)
    members = [run_summary(run, task) for run in runs]
    names = [name for name in members[0] if name.startswith(("test_", "best_batch_"))]
    every = {name: values for name in names if None not in (values := [member.get(name) for member in members])}
    cell = task.cell()
    return {
        "task": runs[0].config["task"],
        "preset": runs[0].config["preset"],
        "label": label,
        "cell": cell if cell in task.published else None,
        "paper": task.published.get(cell, (None, None))[0],
        "config": runs[0].config["config"],
        "parameters": task.build(np.random.SeedSequence(0)).num_parameters,
        "references": task.references(),
        "success": task.success,
        "mean": {name: statistics.fmean(values) for name, values in every.items()},
        "top": {name: max(values) for name, values in every.items()},
        "runs": members,
        "curve_of": f"test_{task.headline}",
    }


def run_summary(run: Run, task) -> dict:
    """One run: seed, command, machine, how far it came, the last evaluation, the best training batch, and the curve.

    The curve has [step, seconds, rung, value] for each evaluation of the task's headline.
    """
    lines, last, headline = run.metrics(), last_evaluation(run, task), f"test_{task.headline}"
    batches = [line.get(f"best_batch_{task.headline}") for line in lines if line.get("rung") == task.final_rung]
    batches = [value for value in batches if value is not None]
    surroundings = ("date", "processor", "cores", "workers", "ranks", "gpu", "python", "numpy", "blas")
    return {
        "seed": run.config["seed"],
        "command": _command(run, finished=last["step"] >= task.config.train.steps),
        **{key: run.environment[key] for key in surroundings if key in run.environment},
        **{key: last[key] for key in ("step", "samples", "seconds")},
        **{key: value for key, value in last.items() if key.startswith("test_")},
        f"best_batch_{task.headline}": max(batches, default=None),
        "curve": [
            [line["step"], line["seconds"], line.get("rung"), round(line[headline], 4)] for line in lines if line.get(headline) is not None
        ],
    }


def _command(run, finished):
    """The command without what is not of the result: where the run lay, and a limit of time that was not met."""
    words = run.environment.get("command", "")
    return re.sub(r" --(run|max-minutes)[ =]\S+" if finished else r" --run[ =]\S+", "", words)


# --- Tables -------------------------------------------------------------------------------------------------------------------------------


def markdown(found: dict) -> str:
    """The table of results of a `summary`, in Markdown."""
    return markdown_table(table(found))


def table(found: dict) -> list[list[str]]:
    """The rows of the table of results, the head first: one for each configuration, and one for each published cell not run."""
    head = ["task", "configuration", "paper", "ours, mean", "ours, top", "best batch", "floor", "success", "steps", "parameters"]
    rows = [[*head, "seeds", "machine", "time", "command"]]
    for name in dict.fromkeys(each["task"] for each in found["groups"]):
        for group in (group for group in found["groups"] if group["task"] == name):
            cell = f"{group['cell']}: " if group["cell"] else ""
            rows.append([name, f"{cell}{group['label']}", group["paper"] or "", *_reached(group), *_took(group)])
        for cell in (cell for cell in found["not_run"] if cell["task"] == name):
            rows.append([name, cell["cell"], cell["paper"], "not run", *[""] * (len(rows[0]) - 5), f"`{cell['command']}`"])
    return rows


def _reached(group):
    """Mean, top, best batch, floor, success."""
    name, best = group["curve_of"], group["curve_of"].replace("test_", "best_batch_")
    floors = {label: value for label, value in group["references"].get(name, {}).items() if not label.startswith("paper")}
    return [
        number(name, group["mean"].get(name)),
        number(name, group["top"].get(name)),
        number(name, group["top"].get(best)),
        ", ".join(f"{number(name, value)} ({label})" for label, value in floors.items()),
        success(group),
    ]


def _took(group):
    """Steps, parameters, seeds, machine, time, command."""
    runs = group["runs"]
    commands = dict.fromkeys(re.sub(r" --seed[ =]\S+", "", run["command"]) for run in runs)
    return [
        steps(group),
        f"{group['parameters']:,}",
        ", ".join(str(seed) for seed in sorted(run["seed"] for run in runs)),
        "; ".join(dict.fromkeys(map(machine, runs))),
        duration(statistics.fmean(run["seconds"] for run in runs)),
        ", ".join(f"`{command}`" for command in commands),
    ]


def success(group: dict) -> str:
    """How many runs of a group reached what its task calls a success: "4 of 5 reached 90.0 %"."""
    values = [run[group["curve_of"]] for run in group["runs"]]
    reached = sum(value is not None and value >= group["success"] for value in values)
    return f"{reached} of {len(values)} reached {number(group['curve_of'], group['success'])}"


def steps(group: dict) -> str:
    """How many steps a group's runs took and, if they were cut short, of how many."""
    done, asked = sorted({run["step"] for run in group["runs"]}), group["config"]["train"]["steps"]
    said = " to ".join(f"{step:,}" for step in (done if len(done) == 1 else (done[0], done[-1])))
    return said if done[0] >= asked else f"{said} of {asked:,}"


def machine(run: dict) -> str:
    """What a run was trained on, in words."""
    workers, ranks = run.get("workers", 1), run.get("ranks", 1)
    words = [run.get("processor", ""), f"{run['cores']} cores" if "cores" in run else "", run.get("gpu", "")]
    words += [f"{ranks} ranks" if ranks > 1 else "", counted(workers, "worker")]
    return ", ".join(filter(None, words))


def by_seed(found: dict) -> str:
    """Another table of a summary of one task, in Markdown: every seed, the mean, the floors and the published numbers, for each metric."""
    seeds = list(dict.fromkeys(run["seed"] for group in found["groups"] for run in group["runs"]))
    labels = list(dict.fromkeys(label for group in found["groups"] for values in group["references"].values() for label in values))
    mean = ["mean"] if len(seeds) > 1 else []
    rows = [["", *(f"seed {seed}" for seed in seeds), *mean, *labels]]
    for group in found["groups"]:
        of_seed = {run["seed"]: run for run in group["runs"]}
        for metric, values in group["references"].items():
            cells = [number(metric, of_seed[seed].get(metric)) if seed in of_seed else "not run" for seed in seeds]
            known = [number(metric, values.get(label)) for label in labels]
            means = [number(metric, group["mean"].get(metric)) for _ in mean]
            rows.append([f"{group['label']}: {metric.replace('_', ' ')}", *cells, *means, *known])
        times = [duration(of_seed[seed]["seconds"]) if seed in of_seed else "" for seed in seeds]
        rows.append([f"{group['label']}: training time, [h:]mm:ss", *times, *[""] * len(mean + labels)])
    return markdown_table(rows)


# --- The command --------------------------------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.report")
    parser = Parser(prog="python -m tinyrmc.report", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="RUNS", help="run directories, and folders of them such as runs/")
    parser.add_argument("--seeds", action="store_true", help="show every seed and every metric instead")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.md",
        help="write the table there, and beside it FILE.json and FILE.png; a table written before is replaced",
    )  # fmt: skip
    options = parser.parse_args(argv)
    if options.out is not None and options.out.suffix != ".md":
        raise UsageError(f"--out {options.out}: give a name that ends in .md; a .json and a .png are written beside it")
    if options.out is not None and options.out.exists() and not options.out.with_suffix(".json").exists():
        raise UsageError(f"--out {options.out} exists and is no table of ours (there is no .json beside it); choose another name")
    runs, left_out = find_runs(options.paths)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if not runs:
        raise RunError(f"there is no evaluated run in {', '.join(map(str, options.paths))}; train one, or give other paths")
    found = summary(runs)
    if options.seeds:
        names = dict.fromkeys(group["task"] for group in found["groups"])
        words = "\n".join(by_seed({"groups": [group for group in found["groups"] if group["task"] == name]}) for name in names)
    else:
        words = markdown(found)
    print(words, end="")
    if options.out is not None:
        from . import figures

        write(options.out, words if options.seeds else f"{words}\n{LEGEND}\n", found)
        rows = table(found)
        picture(options.out, lambda path: figures.table(rows, path, LEGEND.replace("*", "")))
    return 0


def write(out: Path, words: str, found: dict) -> None:
    """Write a table's words to `out`, and what it was made of to the JSON file beside it. RunError if that cannot be."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(words, encoding="utf-8")
        out.with_suffix(".json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {out}: {error.strerror}; choose another --out") from error


def picture(out: Path, draw) -> Path:
    """Let `draw` make the PNG file beside `out`; returns its path. RunError if that cannot be written."""
    path = out.with_suffix(".png")
    try:
        draw(path)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    return path


if __name__ == "__main__":
    run_main(main)
