"""The tables of results: from runs to records, and from records to rows.

A record is what there is to say of one evaluated run; a group holds the records of one
configuration, a seed each, and what they share.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import blas_threads
from ..backend.files import read_whole, replace
from ..config import json_text
from ..errors import RunError, UsageError, counted
from ..training.discovery import load_task_of
from ..training.machine import code_changes
from ..training.networks import restore_model
from ..training.run import (
    Run,
    explained,
    is_over,
    load_arrays,
    parsed,
    task_from_dict,
)
from ..training.task import Task
from .groups import core_of, group_runs, last_evaluation, task_word
from .text import (
    Rows,
    aligned,
    duration,
    markdown_table,
    number,
    paragraph,
    terminal_width,
)

# (the head of a column, or "published" for the paper's table, and what it explains)
LEGEND = (
    ("", "Each row is a command, without --seed and --workers."),
    (
        "best",
        "All numbers are of the weights that did best on the validation set, at these "
        "*steps*.",
    ),
    (
        "code",
        "Runs between which a file of yours had changed stand apart; in brackets the "
        "beginning of its SHA-256, as in environment.json.",
    ),
    ("paper", "*paper*: what it reports for this cell of its tables and figures."),
    (
        "",
        "*mean*, *lowest*, *highest* and *deviation* (the standard deviation of one "
        "run, estimated from the seeds): ours, on held-out examples; *best batch*: on "
        "the best single training batch of the task itself, where that was recorded. "
        "*floor*: what you get without learning; a script may see more than the network"
        " does. *success*: how many seeds reached that. *seeds*: which ones.",
    ),
    (
        "ended on",
        "*ended on*: the stage at which a curriculum still stood at the end; such a "
        "network was never trained on the task itself.",
    ),
    ("", "*time*: mean over the seeds, with all evaluations but the last."),
    (
        "published",
        "What the paper reports is in a separate table, with *ours* beside it where it "
        "was run.",
    ),
)
OTHER_PLACES = (
    "The paper's other results have no run here. These commands would make them:"
)
WORD = r"('[^']*'|\S+)"  # quoted where it has a space
CSV_HEAD = "task,configuration,core,parameters,"
FEW = 12  # rows of the paper's results, up to which all are shown

# The parts of a run's environment that stand beside its result.
SURROUNDINGS = "date git_commit processor cores workers ranks gpu python numpy blas"

Summary = dict[str, Any]  # what JSON can hold

# --- From runs to records -------------------------------------------------------------


def summary(runs: list[Run], best: bool = False) -> Summary:
    """The groups of evaluated runs, in the order of tasks and runs. `best`: with the
    weights that did best on the validation set, which are evaluated now.

    "groups"   a `group_summary` of each configuration, whatever the seed
    "not_run"  the published cells of these tasks that no run stands for: {"task",
               "cell", "paper", "command"}, whose command is None where nothing here
               trains such a network
    """
    of_tasks: dict[str, list[Run]] = {}
    for run in runs:
        of_tasks.setdefault(task_word(run.config), []).append(run)
    found: Summary = {"groups": [], "not_run": []} | ({"best": True} if best else {})
    for word, members in of_tasks.items():
        apart = group_runs(members).items()
        groups = [group_summary(label, each, best) for label, each in apart]
        task = load_task_of(members[0].config).Task
        ran = {cell for group in groups for cell in group["cells"]}
        found["groups"] += groups
        for cell, (paper, words) in task.published.items():
            if cell not in ran:
                train = f"python -m tinyrmc.train {word} {words}".rstrip()
                command = None if words is None else train
                missing = {"task": word, "cell": cell, "paper": paper}
                found["not_run"].append(missing | {"command": command})
    return found


def group_summary(label: str, runs: list[Run], best: bool = False) -> Summary:
    """Evaluated runs of one configuration: their records, what they share, and the mean
    and the top of each number that all of them have.
    """
    config = runs[0].config
    task = task_from_dict(runs[0].config)
    records = [run_summary(run, task) for run in runs]
    if best:
        records = [x | _of_best(run) for x, run in zip(records, runs, strict=True)]
    measured = {*task.held_out_metrics(records[0]), f"best_batch_{task.headline}"}
    values = {
        name: [record[name] for record in records]
        for name in records[0]
        if name in measured and all(each.get(name) is not None for each in records)
    }
    cells = {
        cell: {"paper": task.published[cell][0], "metric": metric}
        for cell, metric in task.cells().items()
        if cell in task.published
    }
    cell = next((c for c, of in cells.items() if of["metric"] == task.result), None)
    return {
        "task": task_word(config),
        "preset": config["preset"],
        "label": label,
        "cell": cell,
        "paper": None if cell is None else cells[cell]["paper"],
        "cells": cells,
        "config": config["config"],
        "parameters": task.parameters(task.build(np.random.SeedSequence(0))),
        "references": task.references(),
        "success": task.success,
        "mean": {name: statistics.fmean(every) for name, every in values.items()},
        "top": {
            name: (min if task.lower_is_better(name) else max)(every)
            for name, every in values.items()
        },
        "runs": records,
        "curve_of": task.watched,
        "result": task.result,
        "lower": task.lower_is_better(task.headline),
        **({"notes": [*notes]} if (notes := task.notes()) else {}),
    }


def run_summary(run: Run, task: Task) -> Summary:
    """The record of one evaluated run: seed, command, machine, how far it came, the
    last evaluation, the best training batch, and the curve: [step, seconds, stage,
    headline] of each evaluation. "finished" is there, and true, if it ended by itself
    before its steps were done.
    """
    last = last_evaluation(run, task)
    if last is None:
        raise RunError(f"{run.path} has not been evaluated yet")
    lines = run.metrics()
    over = is_over(run, task, last["step"])
    told = run.environment.get("command", "")
    command = re.sub(rf" --(run|data-dir)[ =]{WORD}", "", told)
    if over:  # a time limit that was not reached
        command = re.sub(r" --max-minutes[ =]\S+", "", command)
    early = over and last["step"] < task.config.train.steps
    best_batch = f"best_batch_{task.headline}"
    batches = [line.get(best_batch) for line in lines if task.is_final(line)]
    known = [key for key in SURROUNDINGS.split() if key in run.environment]
    return {
        "seed": run.config["seed"],
        "command": command,
        **{key: run.environment[key] for key in known},
        **{key: last[key] for key in ("step", "samples", "seconds")},
        **({"finished": True} if early else {}),
        **task.held_out_metrics(last),
        best_batch: max((v for v in batches if v is not None), default=None),
        # the stage of a curriculum, where that is not the task itself
        "ended_on": None if task.is_final(last) else last.get("stage"),
        "curve": [
            [line["step"], line["seconds"], line.get("stage"), round(value, 4)]
            for line in lines
            if (value := line.get(task.watched)) is not None
        ],
    }


def _of_best(run: Run) -> Summary:
    """The step of a run's best weights, and their metrics on all held-out sets."""
    if not run.best.exists():
        raise RunError(
            f"--best: {run.path} has no best.npz; runs have one that had a finite "
            "result on a validation set (--train.keep-best)"
        )
    arrays, state = load_arrays(run.best)
    task = task_from_dict(run.config)
    for each in code_changes(run.config, run):
        print(f"note: {run.path}: {each}", file=sys.stderr)
    model = restore_model(task, arrays, state)
    found = {"step": state["step"]}
    with blas_threads(1):
        for split in task.splits:
            sums = task.evaluate(model, 0, 1, np, *task.naming(split))
            found |= task.named(split, sums)
    return found


# --- From records to rows -------------------------------------------------------------


def markdown(found: Summary) -> str:
    """The `tables` of a summary in Markdown, and what its runs were trained on."""
    return "\n".join([*map(markdown_table, tables(found)), f"{trained_on(found)}\n"])


def by_seed(found: Summary) -> str:
    """The `seed_tables` of a summary in Markdown."""
    return "\n".join(map(markdown_table, seed_tables(found)))


def tables(found: Summary) -> list[Rows]:
    """The tables of a summary: for each task what was run and, where that is not all,
    what the paper reports.
    """
    shown = []
    for task, groups in _by_task(found).items():
        shown.append(_ran(task, groups))
        not_run = [cell for cell in found["not_run"] if cell["task"] == task]
        if not_run and (rows := _published(task, groups, not_run)):
            shown.append(rows)
    return shown


def legend(found: Summary) -> str:
    """The meaning of the heads that these tables have."""
    of_tasks = _by_task(found).items()
    heads = {head for task, groups in of_tasks for head in _ran(task, groups)[0]}
    heads |= {"", "published"} if len(tables(found)) > len(of_tasks) else {""}
    labels = " ".join(group["label"] for group in found["groups"])
    heads |= {"best"} & found.keys()
    heads |= {"code"} if re.search(r"[(;,] ?\S+ [0-9a-f]{8}\b", labels) else set()
    return " ".join(text for head, text in LEGEND if head in heads)


def seed_tables(found: Summary) -> list[Rows]:
    """Other tables of a summary, one for each task, which names it if there are
    several: every seed, the mean, the floors and the published numbers of each metric.
    """
    tasks = _by_task(found)
    shown = []
    for task, groups in tasks.items():
        name = task if len(tasks) > 1 else ""
        seeds = sorted({run["seed"] for group in groups for run in group["runs"]})
        rows = []
        for label, group in zip(_named(groups), groups, strict=True):
            of_seed = {f"seed {run['seed']}": run for run in group["runs"]}
            references = group["references"] or {group["result"]: {}}
            for metric, known in references.items():
                row = {name: f"{label}: {metric.replace('_', ' ')}"}
                for seed in (f"seed {k}" for k in seeds):
                    value = of_seed.get(seed, {}).get(metric)
                    row[seed] = number(metric, value) if seed in of_seed else "not run"
                if len(seeds) > 1:
                    row["mean"] = number(metric, group["mean"].get(metric))
                row |= {label: number(metric, value) for label, value in known.items()}
                rows.append(row)
            times = {seed: duration(run["seconds"]) for seed, run in of_seed.items()}
            says = f"{label}: training time, [h:]mm:ss"
            rows.append({name: says, **times})
        shown.append(_table(rows))
    return shown


def _by_task(found: Summary) -> dict[str, list[Summary]]:
    tasks: dict[str, list[Summary]] = {}
    for group in found["groups"]:
        tasks.setdefault(group["task"], []).append(group)
    return tasks


def _ran(task: str, groups: list[Summary]) -> Rows:
    """A row for each configuration."""
    headline = groups[0]["result"]
    metric = groups[0]["curve_of"].partition("_")[2]
    known = [group["references"].get(headline, {}) for group in groups]
    labels = dict.fromkeys(itertools.chain(*known))
    floors = [label for label in labels if not label.startswith("paper")]
    wanted = "(?!best_batch_).*(accuracy|perplexity|score)"
    measured = dict.fromkeys(name for group in groups for name in group["mean"])
    others = {
        name: f"mean {name.removeprefix('test_')}".replace("_", " ")
        for name in measured
        if name != headline and re.match(wanted, name)
    }
    rows = []
    for label, group in zip(_named(groups), groups, strict=True):
        runs = group["runs"]
        mean = group["mean"]
        top = group["top"]
        known = group["references"].get(headline, {})
        paper = f"{group['paper']} ({group['cell']})" if group["paper"] else ""
        ended_on = dict.fromkeys(filter(None, (run.get("ended_on") for run in runs)))
        done = sorted({run["step"] for run in runs})
        steps = " to ".join(f"{k:,}" for k in dict.fromkeys((done[0], done[-1])))
        if not went_to_the_end(group):  # cut short
            steps += f" of {group['config']['train']['steps']:,}"
        values = [x for run in runs if (x := run.get(headline)) is not None]
        spread: dict[str, Callable[[list[float]], float]] = {}
        if len(values) > 1:
            spread = {"lowest": min, "highest": max, "deviation": statistics.stdev}
        row = {
            f"`python -m tinyrmc.train {Path(task).name}`": f"`{label}`",
            "paper": paper,
            f"{headline.replace('_', ' ')}, mean": number(headline, mean.get(headline)),
            **{head: number(headline, of(values)) for head, of in spread.items()},
            "best batch": number(headline, top.get(f"best_batch_{metric}")),
            **{f"floor: {name}": number(headline, known.get(name)) for name in floors},
            **{head: number(name, mean.get(name)) for name, head in others.items()},
            _success(groups[0])[0]: _success(group)[1],
            "steps": steps,
            "ended on": ", ".join(ended_on),
            "parameters": f"{group['parameters']:,}",
            "seeds": ranges(run["seed"] for run in runs),
            "time": duration(statistics.fmean(run["seconds"] for run in runs)),
        }
        rows.append(row)
    return _table(rows)


def _table(rows: list[dict[str, str]]) -> Rows:
    """Rows of {head: cell} as a table without the columns that are empty."""
    every = dict.fromkeys(head for row in rows for head in row)
    heads = [head for head in every if any(row.get(head) for row in rows)]
    return [heads, *([row.get(head, "") for head in heads] for row in rows)]


def _published(task: str, groups: list[Summary], not_run: list[Summary]) -> Rows:
    """The paper's results, with ours beside them; cells are called "row, column". Of
    many rows only those are shown in which something was run, so there may be none.
    """
    said: dict[str, list[str]] = {}
    for group in groups:
        for cell, of in group["cells"].items():
            value = number(of["metric"], group["mean"].get(of["metric"]))
            own = said.setdefault(cell, [of["paper"]])
            own.append(f"ours {value}" if value else "")
    ran = {cell.rpartition(", ")[0] for cell in said}
    rows: dict[str, dict[str, str]] = {}
    for cell, words in {**said, **{x["cell"]: [x["paper"]] for x in not_run}}.items():
        row, _, column = cell.rpartition(", ")
        of_row = rows.setdefault(row, {f"{task} in the paper": row})
        of_row[column] = "; ".join(filter(None, words))
    shown = [of for row, of in rows.items() if row in ran or len(rows) <= FEW]
    return _table(shown) if shown else []


def _named(groups: list[Summary]) -> list[str]:
    """The label of each group for a reader: files of cores by their names alone, and
    where cores differ each row says which one it has.
    """
    shown = []
    several = len({core_of(group) for group in groups}) > 1
    for group in groups:
        label = re.sub(rf" --core {WORD}", _without_folder, group["label"])
        preset, space, more = label.partition(" ")
        core = core_of(group)
        if several and " --model.core " not in label and core not in (None, preset):
            label = f"{preset} --model.core {core}{space}{more}"
        shown.append(label)
    unclear = len({*shown}) < len(shown)  # files of one name, in several folders
    return [group["label"] for group in groups] if unclear else shown


def _without_folder(found: re.Match) -> str:
    """ " --core mycore.py" for such words with a path."""
    _, file = shlex.split(found[0])
    return f" --core {shlex.quote(Path(file).name)}"


# --- In words -------------------------------------------------------------------------


def _success(group: Summary) -> tuple[str, str]:
    """The value of a success, as the head of a column, and how many runs reached it:
    "4 of 5", or nothing if the task names no such value.
    """
    mark, metric = group["success"], group["result"]
    if mark is None:
        return "success", ""
    least, sign = ("at most", -1) if group["lower"] else ("at least", 1)
    # a run that was cut short has none; one that diverged has None
    values = [run[metric] for run in group["runs"] if metric in run]
    reached = [v for v in values if v is not None and sign * v >= sign * mark]
    head = f"success: {least} {number(metric, mark)}"
    return head, f"{len(reached)} of {len(values)}"


def went_to_the_end(group: Summary) -> bool:
    """Whether no run of a group was cut short: each took all its steps, or its task
    ended it.
    """
    asked = group["config"]["train"]["steps"]
    return all(run["step"] >= asked or run.get("finished") for run in group["runs"])


def ranges(numbers: Iterable[int]) -> str:
    """Integers in words: "0 to 4, 7" for 0, 1, 2, 3, 4 and 7."""
    parts: list[list[int]] = []
    for n in sorted(numbers):
        if parts and n == parts[-1][-1] + 1:
            parts[-1].append(n)
        else:
            parts.append([n])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) > 2 else ", ".join(map(str, part))
        for part in parts
    )


def machine(run: Summary) -> str:
    """The machine that a run was trained on."""
    ranks = run.get("ranks", 1)
    words = [
        run.get("processor"),
        counted(run["cores"], "core") if run.get("cores") else "",
        run.get("gpu"),
        f"{ranks} ranks" if ranks > 1 else "",
        counted(run.get("workers", 1), "worker"),
    ]
    return ", ".join(word for word in words if word)


def trained_on(found: Summary) -> str:
    """The machines of a summary's runs, and notes on their texts."""
    runs = [run for group in found["groups"] for run in group["runs"]]
    machines = dict.fromkeys(map(machine, runs))
    notes = {
        f"{Path(task).name} {label}": "; ".join(group.get("notes", ()))
        for task, groups in _by_task(found).items()
        for label, group in zip(_named(groups), groups, strict=True)
    }
    shared = len({*notes.values()}) == 1
    said = dict.fromkeys(
        f" Note: {note}." if shared else f" Note on {label}: {note}."
        for label, note in notes.items()
        if note
    )
    return f"Trained on {'; '.join(machines)}.{''.join(said)}"


def commands(found: Summary) -> str:
    """The commands that would train what was not run, in Markdown, or nothing."""
    wanted = dict.fromkeys(cell["command"] for cell in found["not_run"])
    lines = "".join(f"{command}\n" for command in wanted if command)
    return f"\n{OTHER_PLACES}\n\n```\n{lines}```\n" if lines else ""


# --- Telling it -----------------------------------------------------------------------


def show(
    runs: list[Run], out: Path | None, every_seed: bool = False, best: bool = False
) -> None:
    """Print the tables of evaluated runs. `out`: write them there, as `as_csv` does or
    in Markdown below what was written by hand, and what they were made of to the JSON
    file beside it.
    """
    found = summary(runs, best)
    width = terminal_width()
    for rows in seed_tables(found) if every_seed else tables(found):
        print(f"{aligned(rows, width)}\n")
    if not every_seed:
        print(paragraph(trained_on(found), width))
        print(f"\n{paragraph(legend(found), width)}")
    if out is None:
        return
    with explained(f"write {out}", "choose another --out"):
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.suffix == ".csv":
            words = as_csv(found, every_seed)
        else:
            before = out.read_text(encoding="utf-8") if out.exists() else ""
            words = re.split(r"(?m)^\|", before, maxsplit=1)[0]
            more = f"{markdown(found)}\n{legend(found)}\n{commands(found)}"
            words += by_seed(found) if every_seed else more
        replace(out, words)
        replace(out.with_suffix(".json"), json_text(found) + "\n")
    print(out, out.with_suffix(".json"), sep="\n")


def as_csv(found: Summary, every_seed: bool) -> str:
    """The numbers of a summary as they are, in CSV: a row for each configuration with
    mean, lowest, highest and deviation of its seeds, or a row for each run.
    """
    rows: list[dict[str, Any]] = []
    for task, groups in _by_task(found).items():
        for label, group in zip(_named(groups), groups, strict=True):
            about = {
                "task": Path(task).name,
                "configuration": label,
                "core": core_of(group),
                "parameters": group["parameters"],
            }
            runs = group["runs"]
            names = [x for x in group["mean"] if not x.startswith("best_batch_")]
            if every_seed:
                keys = "seed", "step", "seconds", *names
                rows += [about | {key: run[key] for key in keys} for run in runs]
                continue
            seeds = " ".join(str(run["seed"]) for run in runs)
            row: dict[str, Any] = {**about, "seeds": seeds}
            rows.append(row)
            for name in names:
                values = [run[name] for run in runs]
                row |= {f"{name}_mean": group["mean"][name]}
                row |= {f"{name}_lowest": min(values), f"{name}_highest": max(values)}
                if len(values) > 1:
                    row[f"{name}_deviation"] = statistics.stdev(values)
            row["seconds"] = statistics.fmean(run["seconds"] for run in runs)
    text = io.StringIO()
    heads = [*dict.fromkeys(head for row in rows for head in row)]
    writer = csv.DictWriter(text, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def check_out(out: Path) -> None:
    """UsageError unless `show` replaces nothing at `out` but an earlier table, with
    its .json beside it.
    """
    if out.suffix not in (".md", ".csv"):
        raise UsageError(
            f"--out {out}: give a name that ends in .md or .csv; a .json is written "
            "beside it"
        )
    beside = out.with_suffix(".json")
    there = [path for path in (out, beside) if path.exists()]
    try:
        ours = not there or "groups" in parsed(read_whole(beside))
        if out.suffix == ".csv" and out in there:
            ours &= read_whole(out).startswith(CSV_HEAD.encode())
    except (OSError, ValueError, TypeError):  # not there, or no JSON
        ours = False
    if not ours:
        raise UsageError(
            f"--out {out}: {there[0]} exists and is no table that this command wrote; "
            "choose another name"
        )
