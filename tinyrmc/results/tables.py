"""The tables of results: from runs to numbers, and from numbers to rows."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import numpy as np

from ..errors import RunError
from ..runs.run import Run
from ..training.checkpoints import task_from_dict
from ..training.discovery import load_task
from .groups import group_runs, last_evaluation
from .text import counted, duration, markdown_table, number

LEGEND = (
    "A row is a command, but for --seed and --workers. *paper*: what it reports for "
    "this cell of its tables and figures. *ours, mean* and "
    "*top*: over the seeds, on held-out examples; *best batch*: on the best single "
    "training batch of the task itself. *floor*: what can be "
    "had without learning the task. *success*: how many seeds reached that. *ended "
    "on*: the rung of a curriculum which a network never "
    "left; its figures are those of one that was never trained on the task itself. "
    "*time*: mean of the seeds, with evaluations."
)


# --- From runs to numbers -------------------------------------------------------------


def summary(runs: list[Run]) -> dict:
    """What there is to say of evaluated runs, as JSON can hold it: {"groups": [...],
    "not_run": [...]}, in the order of tasks and runs.

    A group is a configuration, whatever the seed (see `group_summary`). `not_run` are
    the published cells of these runs' tasks that none of them stands for: {"task",
    "cell", "paper", "command"}.
    """
    groups, not_run = [], []
    for name in dict.fromkeys(run.config["task"] for run in runs):
        of_task = group_runs([run for run in runs if run.config["task"] == name])
        found = [group_summary(label, members) for label, members in of_task.items()]
        alike = [
            (group["preset"], {**group["config"], "model": None}) for group in found
        ]  # but for the model: these stand together
        groups += [
            found[k]
            for k in sorted(range(len(found)), key=lambda k: alike.index(alike[k]))
        ]
        published = load_task(name).Task.published
        not_run += [
            {
                "task": name,
                "cell": cell,
                "paper": paper,
                "command": f"python -m tinyrmc.train {name} {words}".strip(),
            }
            for cell, (paper, words) in published.items()
            if cell not in [group["cell"] for group in found]
        ]
    return {"groups": groups, "not_run": not_run}


def group_summary(label: str, runs: list[Run]) -> dict:
    """Evaluated runs of one configuration: each as in `run_summary`, and the mean and
    the top of each number that all of them have.
    """
    task = task_from_dict(runs[0].config)
    members = [run_summary(run, task) for run in runs]
    names = [name for name in members[0] if name.startswith(("test_", "best_batch_"))]
    every = {
        name: values
        for name in names
        if None not in (values := [member.get(name) for member in members])
    }
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
    """One run: seed, command, machine, how far it came, the last evaluation, the best
    training batch, and the curve.

    The curve has [step, seconds, rung, value] for each evaluation of the task's
    headline.
    """
    lines, last, headline = (
        run.metrics(),
        last_evaluation(run, task),
        f"test_{task.headline}",
    )
    batches = [
        line.get(f"best_batch_{task.headline}") for line in lines if task.is_final(line)
    ]
    batches = [value for value in batches if value is not None]
    surroundings = (
        "date",
        "git_commit",
        "processor",
        "cores",
        "workers",
        "ranks",
        "gpu",
        "python",
        "numpy",
        "blas",
    )
    return {
        "seed": run.config["seed"],
        "command": _command(run, finished=last["step"] >= task.config.train.steps),
        **{key: run.environment[key] for key in surroundings if key in run.environment},
        **{key: last[key] for key in ("step", "samples", "seconds")},
        **{key: value for key, value in last.items() if key.startswith("test_")},
        f"best_batch_{task.headline}": max(batches, default=None),
        "ended_on": None
        if task.is_final(last)
        else last.get("rung"),  # of a curriculum, where that is not the task itself
        "curve": [
            [line["step"], line["seconds"], line.get("rung"), round(line[headline], 4)]
            for line in lines
            if line.get(headline) is not None
        ],
    }


def _command(run, finished):
    """The command without what is not of the result: where the run lay, and a limit of
    time that was not met.
    """
    words = run.environment.get("command", "")
    return re.sub(
        r" --(run|max-minutes)[ =]\S+" if finished else r" --run[ =]\S+", "", words
    )


# --- Tables ---------------------------------------------------------------------------


def markdown(found: dict) -> str:
    """The tables of results of a `summary` in Markdown, and what its runs were trained
    on.
    """
    return "\n".join(
        [*map(markdown_table, tables(found)), f"{machines_in_words(found)}\n"]
    )


def tables(found: dict) -> list[list[list[str]]]:
    """The rows of each table of results, its head first: for each task what was run,
    and where that is not all, what the paper reports.
    """
    shown = []
    for task in dict.fromkeys(group["task"] for group in found["groups"]):
        groups = [group for group in found["groups"] if group["task"] == task]
        shown.append(_ran(task, groups, _machines(found)))
        if not_run := [cell for cell in found["not_run"] if cell["task"] == task]:
            shown.append(_published(task, groups, not_run))
    return shown


def _ran(task, groups, machines):
    """A row for each configuration. Columns in which there is nothing are left out."""
    name = groups[0]["curve_of"]
    best, known = (
        name.replace("test_", "best_batch_"),
        [group["references"].get(name, {}) for group in groups],
    )
    floors = list(
        dict.fromkeys(
            label
            for values in known
            for label in values
            if not label.startswith("paper")
        )
    )
    others = list(
        dict.fromkeys(
            each
            for group in groups
            for each in group["mean"]
            if each.startswith("test_") and each != name
        )
    )
    others = [each for each in others if "accuracy" in each]
    head = [
        f"`python -m tinyrmc.train {task}`",
        "paper",
        "ours, mean",
        "top",
        "best batch",
        *(f"floor: {floor}" for floor in floors),
    ]
    head += [f"mean {each.removeprefix('test_').replace('_', ' ')}" for each in others]
    head += [
        f"success: {number(name, groups[0]['success'])}",
        "steps",
        "ended on",
        "parameters",
        "seeds",
        "machine",
        "time",
    ]
    rows = []
    for group, values in zip(groups, known, strict=True):
        runs = group["runs"]
        row = [
            f"`{group['label']}`",
            f"{group['paper']} ({group['cell']})" if group["paper"] else "",
        ]
        row += [
            number(name, group["mean"].get(name)),
            number(name, group["top"].get(name)),
            number(name, group["top"].get(best)),
        ]
        row += [number(name, values.get(floor)) for floor in floors]
        row += [number(each, group["mean"].get(each)) for each in others]
        ends = dict.fromkeys(run.get("ended_on") or "" for run in runs)
        row += [
            success(group),
            steps(group),
            ", ".join(filter(None, ends)),
            f"{group['parameters']:,}",
        ]
        row += [_ranges(run["seed"] for run in runs)]
        row += [", ".join(dict.fromkeys(machines[machine(run)] for run in runs))]
        rows.append([*row, duration(statistics.fmean(run["seconds"] for run in runs))])
    kept = [k for k, column in enumerate(zip(*rows, strict=True)) if any(column)]
    return [[row[k] for k in kept] for row in [head, *rows]]


def _published(task, groups, not_run):
    """The paper's results side by side, their cells being called "row, column"."""
    entries = {
        group["cell"]: f"{group['paper']}; above" for group in groups if group["cell"]
    }
    entries |= {cell["cell"]: f"{cell['paper']}; not run" for cell in not_run}
    parts = {cell: cell.rpartition(", ")[::2] for cell in entries}
    rows, columns = (
        list(dict.fromkeys(names)) for names in zip(*parts.values(), strict=True)
    )
    placed = {parts[cell]: entry for cell, entry in entries.items()}
    return [
        [f"{task} in the paper", *columns],
        *(
            [row, *(placed.get((row, column), "") for column in columns)]
            for row in rows
        ),
    ]


def _machines(found):
    """{machine: its letter}; where there is but one, it needs none."""
    names = list(
        dict.fromkeys(
            machine(run) for group in found["groups"] for run in group["runs"]
        )
    )
    return {
        name: chr(ord("A") + k) if len(names) > 1 else ""
        for k, name in enumerate(names)
    }


def machines_in_words(found: dict) -> str:
    """What the runs of a summary were trained on."""
    machines = _machines(found)
    return (
        "Trained on "
        f"{'; '.join(f'{letter}: {name}' if letter else name for name, letter in machines.items())}."
    )


def _ranges(numbers):
    """Integers in words: "0 to 4, 7" for 0, 1, 2, 3, 4 and 7."""
    numbers = sorted(numbers)
    starts = [k for k, n in enumerate(numbers) if k == 0 or n != numbers[k - 1] + 1]
    parts = [numbers[k:end] for k, end in zip(starts, [*starts[1:], None], strict=True)]
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part))
        for part in parts
    )


def commands(found: dict) -> str:
    """The commands that would train what was not run, in Markdown; nothing if there is
    none.
    """
    lines = "".join(f"{cell['command']}\n" for cell in found["not_run"])
    return f"\nWhat was not run:\n\n```\n{lines}```\n" if lines else ""


def success(group: dict) -> str:
    """How many runs of a group reached what its task calls a success: "4 of 5"."""
    values = [run[group["curve_of"]] for run in group["runs"]]
    return (
        f"{sum(value is not None and value >= group['success'] for value in values)} "
        f"of {len(values)}"
    )


def steps(group: dict) -> str:
    """How many steps a group's runs took and, if they were cut short, of how many."""
    done, asked = (
        sorted({run["step"] for run in group["runs"]}),
        group["config"]["train"]["steps"],
    )
    said = " to ".join(
        f"{step:,}" for step in (done if len(done) == 1 else (done[0], done[-1]))
    )
    return said if done[0] >= asked else f"{said} of {asked:,}"


def machine(run: dict) -> str:
    """What a run was trained on, in words."""
    workers, ranks = run.get("workers", 1), run.get("ranks", 1)
    words = [
        run.get("processor", ""),
        f"{run['cores']} cores" if "cores" in run else "",
        run.get("gpu", ""),
    ]
    words += [f"{ranks} ranks" if ranks > 1 else "", counted(workers, "worker")]
    return ", ".join(filter(None, words))


def by_seed(found: dict) -> str:
    """Another table of a summary of one task, in Markdown: every seed, the mean, the
    floors and the published numbers, for each metric.
    """
    seeds = sorted({run["seed"] for group in found["groups"] for run in group["runs"]})
    labels = list(
        dict.fromkeys(
            label
            for group in found["groups"]
            for values in group["references"].values()
            for label in values
        )
    )
    mean = ["mean"] if len(seeds) > 1 else []
    rows = [["", *(f"seed {seed}" for seed in seeds), *mean, *labels]]
    for group in found["groups"]:
        of_seed = {run["seed"]: run for run in group["runs"]}
        for metric, values in group["references"].items():
            cells = [
                number(metric, of_seed[seed].get(metric))
                if seed in of_seed
                else "not run"
                for seed in seeds
            ]
            known = [number(metric, values.get(label)) for label in labels]
            means = [number(metric, group["mean"].get(metric)) for _ in mean]
            rows.append(
                [
                    f"{group['label']}: {metric.replace('_', ' ')}",
                    *cells,
                    *means,
                    *known,
                ]
            )
        times = [
            duration(of_seed[seed]["seconds"]) if seed in of_seed else ""
            for seed in seeds
        ]
        rows.append(
            [
                f"{group['label']}: training time, [h:]mm:ss",
                *times,
                *[""] * len(mean + labels),
            ]
        )
    return markdown_table(rows)


def write(out: Path, words: str, found: dict) -> None:
    """Write a table's words to `out`, and what it was made of to the JSON file beside
    it. RunError if that cannot be.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(words, encoding="utf-8")
        out.with_suffix(".json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    except OSError as error:
        raise RunError(
            f"cannot write {out}: {error.strerror}; choose another --out"
        ) from error


def picture(out: Path, draw) -> Path:
    """Let `draw` make the PNG file beside `out`; returns its path.

    RunError if that cannot be written.
    """
    path = out.with_suffix(".png")
    try:
        draw(path)
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror}; choose another --out"
        ) from error
    return path
