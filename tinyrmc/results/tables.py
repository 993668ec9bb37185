"""The tables of results: from runs to numbers, and from numbers to rows."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..config import json_text
from ..errors import RunError, UsageError, counted
from ..runs.files import explained, from_json, read_whole
from ..runs.run import Run
from ..text import Rows, duration, markdown_table, number
from ..training.checkpoints import is_over, task_of
from ..training.discovery import load_task_of
from ..training.task import Task
from .groups import group_runs, last_evaluation, task_word

LEGEND = (
    "Each row is a command, without --seed and --workers. *paper*: what it reports for "
    "this cell of its tables and figures. *mean* and *top* (*lowest*, where lower is "
    "better): ours, over the seeds, on held-out examples; *best batch*: on the best "
    "single training batch of the task itself, where that was recorded. *floor*: what "
    "you get without learning; a script may see more than the network does. *success*: "
    "how many seeds reached that. *seeds*: which ones. *ended on*: the rung on which a "
    "curriculum still stood at the end; such a network was never trained on the task "
    "itself. *time*: mean over the seeds, evaluations included. What the paper reports "
    "stands in a table of its own, and *ours* beside it where it was run."
)
OTHER_PLACES = (
    "The paper's other results have no run here. These commands would make them:"
)
ELSEWHERE = "choose another --out"
FEW = 12  # rows of the paper's results, up to which all are shown

# The parts of a run's environment that stand beside its result.
SURROUNDINGS = (
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

Summary = dict[str, Any]  # what JSON can hold

# --- From runs to numbers -------------------------------------------------------------


def summary(runs: list[Run]) -> Summary:
    """What there is to say of evaluated runs: {"groups": [...], "not_run": [...],
    "claims": [...]}, in the order of tasks and runs.

    A group is a configuration, whatever the seed (see `group_summary`). `not_run` are
    the published cells of these runs' tasks that none of them stands for: {"task",
    "cell", "paper", "command"}. `claims` are the paper's claims that these runs test:
    see `_claims`.
    """
    groups: list[Summary] = []
    not_run: list[Summary] = []
    claims: list[Summary] = []
    of_tasks: dict[str, list[Run]] = {}
    for run in runs:
        of_tasks.setdefault(task_word(run.config), []).append(run)
    for members in of_tasks.values():
        found = [group_summary(*group) for group in group_runs(members).items()]
        groups += _alike_together(found)
        not_run += _missing(members[0].config, {c for g in found for c in g["cells"]})
        claims += _claims(members[0].config, found)
    return {"groups": groups, "not_run": not_run, "claims": claims}


def _alike_together(groups: list[Summary]) -> list[Summary]:
    """Groups whose configurations differ in the model alone, one after the other."""
    alike = [(group["preset"], {**group["config"], "model": None}) for group in groups]
    order = sorted(range(len(groups)), key=lambda k: alike.index(alike[k]))
    return [groups[k] for k in order]


def _missing(config: dict, cells: set[str]) -> list[Summary]:
    """The published cells of a run's task, without `cells`.

    The command is None for those that nothing here trains.
    """
    begin = f"python -m tinyrmc.train {task_word(config)}"
    return [
        {
            "task": task_word(config),
            "cell": cell,
            "paper": paper,
            "command": None if words is None else f"{begin} {words}".strip(),
        }
        for cell, (paper, words) in load_task_of(config).Task.published.items()
        if cell not in cells
    ]


def _claims(config: dict, groups: list[Summary]) -> list[Summary]:
    """The claims of a run's task for which these groups have both sides: {"task",
    "claim", "better", "worse", "holds"}, each side {"cell", "metric", "value",
    "label"}.

    A group is compared with the one most like it, and so with one on the same version
    of the data.
    """
    found = []
    for claim, cells in load_task_of(config).Task.claims.items():
        better, worse = ([g for g in groups if _measured(g, cell)] for cell in cells)
        for group in better if worse else ():
            other = min(worse, key=lambda each: _differences(group, each))
            sides = [_side(*x) for x in zip((group, other), cells, strict=True)]
            low, high = sides if group["lower"] else sides[::-1]
            found.append(
                {
                    "task": task_word(config),
                    "claim": claim,
                    "better": sides[0],
                    "worse": sides[1],
                    "holds": low["value"] < high["value"],
                }
            )
    return found


def _measured(group: Summary, cell: str) -> bool:
    return cell in group["cells"] and group["cells"][cell]["metric"] in group["mean"]


def _side(group: Summary, cell: str) -> Summary:
    metric = group["cells"][cell]["metric"]
    return {
        "cell": cell,
        "metric": metric,
        "value": group["mean"][metric],
        "label": group["label"],
    }


def _differences(group: Summary, other: Summary) -> int:
    """How many settings two groups do not share."""
    one, two = (_settings(each["config"]) for each in (group, other))
    return sum(one.get(name) != two.get(name) for name in one.keys() | two.keys())


def _settings(config: dict, prefix: str = "") -> Summary:
    """{"model.core": "rmc", ..} of a configuration."""
    found: Summary = {}
    for name, value in config.items():
        inside = isinstance(value, dict)
        place = f"{prefix}{name}"
        found |= _settings(value, f"{place}.") if inside else {place: value}
    return found


def group_summary(label: str, runs: list[Run]) -> Summary:
    """Evaluated runs of one configuration: each as in `run_summary`, and the mean and
    the top of each number that all of them have.
    """
    task = task_of(runs[0])
    members = [run_summary(run, task) for run in runs]
    measured = {*task.held_out_metrics(members[0]), f"best_batch_{task.headline}"}
    values: dict[str, list[Any]] = {}
    for name in members[0]:
        if name in measured:
            every = [member.get(name) for member in members]
            if None not in every:
                values[name] = every
    mean = {name: statistics.fmean(every) for name, every in values.items()}
    cells = {
        cell: {"paper": task.published[cell][0], "metric": metric}
        for cell, metric in task.cells().items()
        if cell in task.published
    }
    own = [cell for cell in cells if cells[cell]["metric"] == task.result]
    cell = own[0] if own else None
    return {
        "task": task_word(runs[0].config),
        "preset": runs[0].config["preset"],
        "label": label,
        "cell": cell,
        "paper": None if cell is None else cells[cell]["paper"],
        "cells": cells,
        "config": runs[0].config["config"],
        "parameters": task.parameters(task.build(np.random.SeedSequence(0))),
        "references": task.references(),
        "success": task.success,
        "mean": mean,
        "top": {
            name: (min if task.lower_is_better(name) else max)(every)
            for name, every in values.items()
        },
        "runs": members,
        "curve_of": task.watched,
        "result": task.result,
        "lower": task.lower_is_better(task.headline),
        **({"notes": [*notes]} if (notes := task.notes()) else {}),
    }


def run_summary(run: Run, task: Task) -> Summary:
    """One evaluated run: seed, command, machine, how far it came, the last evaluation,
    the best training batch, and the curve: [step, seconds, rung, headline] of each
    evaluation. "finished" is there, and true, if it ended by itself before its steps
    were done.
    """
    last = last_evaluation(run, task)
    if last is None:
        raise RunError(f"{run.path} has not been evaluated yet")
    lines, over = run.metrics(), is_over(run, task, last["step"])
    early = over and last["step"] < task.config.train.steps
    headline, best_batch = task.watched, f"best_batch_{task.headline}"
    batches = [line.get(best_batch) for line in lines if task.is_final(line)]
    curve = [
        [line["step"], line["seconds"], line.get("rung"), round(line[headline], 4)]
        for line in lines
        if line.get(headline) is not None
    ]
    return {
        "seed": run.config["seed"],
        "command": _command(run, finished=over),
        **{key: run.environment[key] for key in SURROUNDINGS if key in run.environment},
        **{key: last[key] for key in ("step", "samples", "seconds")},
        **({"finished": True} if early else {}),
        **task.held_out_metrics(last),
        best_batch: max((v for v in batches if v is not None), default=None),
        # the rung of a curriculum, where that is not the task itself
        "ended_on": None if task.is_final(last) else last.get("rung"),
        "curve": curve,
    }


def _command(run: Run, finished: bool) -> str:
    """The command without what the result does not depend on: where the run and its
    data lay, and a time limit that was not reached.
    """
    command = without_places(run.environment.get("command", ""))
    return re.sub(r" --max-minutes[ =]\S+", "", command) if finished else command


def without_places(command: str) -> str:
    """A command without where its run and its data lay."""
    path = r"('[^']*'|\S+)"  # quoted where it has a space
    return re.sub(rf" --(run|data-dir)[ =]{path}", "", command)


# --- From numbers to rows -------------------------------------------------------------


def markdown(found: Summary) -> str:
    """The `tables` of a summary in Markdown, and what its runs were trained on."""
    words = [*map(markdown_table, tables(found)), f"{trained_on(found)}\n"]
    return "\n".join(words)


def tables(found: Summary) -> list[Rows]:
    """The tables of a summary: for each task what was run; where that is not all, what
    the paper reports; and which of its claims hold.
    """
    shown = []
    letters = _letters(found)
    for task, groups in _by_task(found).items():
        shown.append(_ran(task, groups, letters))
        if not_run := [cell for cell in found["not_run"] if cell["task"] == task]:
            shown += filter(None, [_published(task, groups, not_run)])
        if claims := [c for c in found["claims"] if c["task"] == task]:
            shown.append(_claimed(claims))
    return shown


def _claimed(claims: list[Summary]) -> Rows:
    """A row for each claim of the paper that was tested."""

    def said(side: Summary) -> str:
        head = side["cell"].rpartition(", ")[2]
        return f"{number(side['metric'], side['value'])} ({head})"

    rows = []
    for claim in claims:
        better, worse, words = claim["better"], claim["worse"], claim["claim"]
        if [each["claim"] for each in claims].count(words) > 1:
            words += f" (`{better['label']}`)"
        holds = "yes" if claim["holds"] else "no"
        rows.append([words, said(better), said(worse), holds])
    return [["the paper says", "ours", "beside", "holds"], *rows]


def _by_task(found: Summary) -> dict[str, list[Summary]]:
    tasks: dict[str, list[Summary]] = {}
    for group in found["groups"]:
        tasks.setdefault(group["task"], []).append(group)
    return tasks


def _ran(task: str, groups: list[Summary], letters: dict[str, str]) -> Rows:
    """A row for each configuration. Columns in which there is nothing are left out."""
    headline = groups[0]["result"]
    floors = _floors(groups, headline)
    others = _beside(groups, headline)
    head = [
        f"`python -m tinyrmc.train {task}`",
        "paper",
        f"{headline.replace('_', ' ')}, mean",
        best_word(groups),
        "best batch",
        *(f"floor: {floor}" for floor in floors),
        *(f"mean {without_split(name)}" for name in others),
        success_at(groups[0], headline),
        "steps",
        "ended on",
        "parameters",
        "seeds",
        "machine",
        "time",
    ]
    rows = [_row(group, headline, floors, others, letters) for group in groups]
    kept = [k for k, column in enumerate(zip(*rows, strict=True)) if any(column)]
    return [[row[k] for k in kept] for row in [head, *rows]]


def _row(
    group: Summary,
    headline: str,
    floors: list[str],
    others: list[str],
    letters: dict[str, str],
) -> list[str]:
    """The cells below the head that `_ran` makes."""
    runs, mean, top = group["runs"], group["mean"], group["top"]
    known = group["references"].get(headline, {})
    best_batch = best_batch_of(group)
    return [
        f"`{group['label']}`",
        f"{group['paper']} ({group['cell']})" if group["paper"] else "",
        number(headline, mean.get(headline)),
        number(headline, top.get(headline)),
        number(headline, top.get(best_batch)),
        *(number(headline, known.get(floor)) for floor in floors),
        *(number(name, mean.get(name)) for name in others),
        success(group, headline),
        steps(group),
        _listed(run.get("ended_on") for run in runs),
        f"{group['parameters']:,}",
        ranges(run["seed"] for run in runs),
        _listed(letters[machine(run)] for run in runs),
        duration(statistics.fmean(run["seconds"] for run in runs)),
    ]


def _listed(words: Iterable[str | None]) -> str:
    """Different words, with commas between."""
    return ", ".join(dict.fromkeys(word for word in words if word))


def _floors(groups: list[Summary], headline: str) -> list[str]:
    """The names of the reference values that were not published."""
    known = [
        label for group in groups for label in group["references"].get(headline, {})
    ]
    return [*dict.fromkeys(label for label in known if not label.startswith("paper"))]


def _beside(groups: list[Summary], headline: str) -> list[str]:
    """The held-out accuracies and perplexities besides the headline."""
    names = dict.fromkeys(name for group in groups for name in group["mean"])
    return [
        name
        for name in names
        if re.search("accuracy|perplexity|score", name)
        and not name.startswith("best_batch_")
        and name != headline
    ]


def _published(task: str, groups: list[Summary], not_run: list[Summary]) -> Rows:
    """The paper's results, with ours beside them; cells are called "row, column".

    Of many rows only those are shown in which something was run, so there may be none
    at all. Cells stand side by side or, where most of that table would be empty, in a
    list. Where several groups stand for a cell, as with two versions of the data, all
    of them count as ours.
    """
    entries: dict[str, tuple] = {}  # cell -> what the paper says, ours
    for group in groups:
        for cell, of in group["cells"].items():
            ours = number(of["metric"], group["mean"].get(of["metric"]))
            _, *others = entries.get(cell, ("",))
            entries[cell] = of["paper"], ", ".join(filter(None, [*others, ours]))
    ran = {cell.rpartition(", ")[0] for cell in entries}
    for missing in not_run:
        state = "not run" if missing["command"] else ""
        entries[missing["cell"]] = missing["paper"], state
    placed = {cell.rpartition(", ")[::2]: both for cell, both in entries.items()}
    rows, columns = (dict.fromkeys(names) for names in zip(*placed, strict=True))
    shown = [row for row in rows if row in ran or len(rows) <= FEW]
    if not shown:
        return []
    if len(placed) < len(rows) * len(columns) / 2:
        head = [f"{task} in the paper", "it reports", "ours"]
        listed = [cell for cell in entries if cell.rpartition(", ")[0] in shown]
        return [head, *([cell, *entries[cell]] for cell in listed)]

    def said(row: str, column: str) -> str:
        paper, ours = placed.get((row, column), ("", ""))
        own = "" if ours in ("", "not run") else f"ours {ours}"
        return "; ".join(filter(None, [paper, own]))

    head = [f"{task} in the paper", *columns]
    table = [[row, *(said(row, column) for column in columns)] for row in shown]
    return [head, *table]


def seed_tables(found: Summary) -> list[Rows]:
    """Other tables of a summary, one for each task, which names it if there are
    several: every seed, the mean, the floors and the published numbers of each metric.
    """
    tasks = _by_task(found)
    return [
        _seeds(groups, task if len(tasks) > 1 else "") for task, groups in tasks.items()
    ]


def by_seed(found: Summary) -> str:
    """The `seed_tables` of a summary in Markdown."""
    return "\n".join(map(markdown_table, seed_tables(found)))


def _seeds(groups: list[Summary], task: str) -> Rows:
    seeds = sorted({run["seed"] for group in groups for run in group["runs"]})
    labels = dict.fromkeys(
        label
        for group in groups
        for known in group["references"].values()
        for label in known
    )
    mean = ["mean"] if len(seeds) > 1 else []
    rows = [[task, *(f"seed {seed}" for seed in seeds), *mean, *labels]]
    for group in groups:
        of_seed = {run["seed"]: run for run in group["runs"]}
        references = group["references"] or {group["result"]: {}}
        for metric, known in references.items():
            row = [f"{group['label']}: {metric.replace('_', ' ')}"]
            for seed in seeds:
                run = of_seed.get(seed)
                row.append(number(metric, run.get(metric)) if run else "not run")
            row += [number(metric, group["mean"].get(metric)) for _ in mean]
            row += [number(metric, known.get(label)) for label in labels]
            rows.append(row)
        times = [
            duration(of_seed[seed]["seconds"]) if seed in of_seed else ""
            for seed in seeds
        ]
        nothing = [""] * (len(mean) + len(labels))
        rows.append([f"{group['label']}: training time, [h:]mm:ss", *times, *nothing])
    return rows


# --- In words -------------------------------------------------------------------------


def without_split(name: str) -> str:
    """A held-out metric in words, without saying that it is one."""
    return name.removeprefix("test_").replace("_", " ")


def best_word(groups: Sequence[Summary]) -> str:
    """What the best of several results is called: the lowest, where that is best."""
    return "lowest" if groups and groups[0]["lower"] else "top"


def best_batch_of(group: Summary) -> str:
    """The name of the headline on the best training batch."""
    return f"best_batch_{group['curve_of'].partition('_')[2]}"


def success_at(group: Summary, metric: str) -> str:
    """The head of a column of successes, which says what a run must reach to be one."""
    if group["success"] is None:
        return "success"
    least = "at most" if group["lower"] else "at least"
    return f"success: {least} {number(metric, group['success'])}"


def success(group: Summary, metric: str) -> str:
    """How many runs of a group reached what its task calls a success: "4 of 5"; empty
    if it names no such value.
    """
    mark, lower = group["success"], group["lower"]
    if mark is None:
        return ""
    values = [run.get(metric) for run in group["runs"]]
    reached = [
        v for v in values if v is not None and (v <= mark if lower else v >= mark)
    ]
    return f"{len(reached)} of {len(values)}"


def steps(group: Summary) -> str:
    """How many steps a group's runs took and, if they were cut short, of how many."""
    done = sorted({run["step"] for run in group["runs"]})
    asked = group["config"]["train"]["steps"]
    said = " to ".join(f"{step:,}" for step in dict.fromkeys((done[0], done[-1])))
    return said if went_to_the_end(group) else f"{said} of {asked:,}"


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
    """What a run was trained on."""
    ranks = run.get("ranks", 1)
    words = [
        run.get("processor"),
        f"{run['cores']} cores" if "cores" in run else "",
        run.get("gpu"),
        f"{ranks} ranks" if ranks > 1 else "",
        counted(run.get("workers", 1), "worker"),
    ]
    return ", ".join(word for word in words if word)


def _letters(found: Summary) -> dict[str, str]:
    """{machine: its letter}, which is empty if there is only one machine."""
    names = dict.fromkeys(
        machine(run) for group in found["groups"] for run in group["runs"]
    )
    if len(names) == 1:
        return dict.fromkeys(names, "")
    return {name: _letter(k) for k, name in enumerate(names)}


def _letter(number: int) -> str:
    """A to Z, AA, AB and so on for 0, 1, ..."""
    before, own = divmod(number, 26)
    return f"{_letter(before - 1) if before else ''}{chr(ord('A') + own)}"


def trained_on(found: Summary) -> str:
    """What the runs of a summary were trained on: the machines, and what to know of
    their texts.
    """
    named = [
        f"{letter}: {name}" if letter else name
        for name, letter in _letters(found).items()
    ]
    notes = [
        (f"{task} {group['label']}", "; ".join(group.get("notes", ())))
        for task, groups in _by_task(found).items()
        for group in groups
    ]
    shared = len({note for _, note in notes}) == 1
    said = dict.fromkeys(
        f" Note: {note}." if shared else f" Note on {label}: {note}."
        for label, note in notes
        if note
    )
    return f"Trained on {'; '.join(named)}.{''.join(said)}"


def commands(found: Summary) -> str:
    """The commands that would train what was not run, in Markdown; nothing if there is
    none.
    """
    wanted = dict.fromkeys(cell["command"] for cell in found["not_run"])
    lines = "".join(f"{command}\n" for command in wanted if command)
    return f"\n{OTHER_PLACES}\n\n```\n{lines}```\n" if lines else ""


# --- Files ----------------------------------------------------------------------------


def check_out(out: Path, begins: str = "|") -> None:
    """UsageError unless `write` would replace nothing at `out` but an earlier table of
    the same kind, with its .json beside it, below a line that starts with `begins`.
    """
    if out.suffix != ".md":
        raise UsageError(
            f"--out {out}: give a name that ends in .md; a .json and a .png are "
            "written beside it"
        )
    ends = ".md", ".json", ".png", "_curves.png"  # the last is of a sweep
    beside = [out.with_name(f"{out.stem}{end}") for end in ends]
    there = [path for path in beside if path.exists()]
    if there and not _is_ours(out, begins):
        raise UsageError(
            f"--out {out}: {there[0]} exists and is no table that this command wrote; "
            "choose another name"
        )


def _is_ours(out: Path, begins: str) -> bool:
    """Whether the .json beside `out` is of a table, and `out`, if it is there, has a
    line that begins like this.
    """
    try:
        found = from_json(read_whole(out.with_suffix(".json")))
        words = out.read_text(encoding="utf-8") if out.exists() else begins
    except (OSError, ValueError):  # not there, or neither JSON nor text
        return False
    made = isinstance(found, dict) and bool(found.keys() & {"groups", "combinations"})
    return made and any(line.startswith(begins) for line in words.splitlines())


def write(out: Path, words: str, found: Summary, begins: str = "|") -> None:
    """Write a table's words to `out`, and what it was made of to the JSON file beside
    it. RunError if they cannot be written.

    What was written by hand above the words stays: all of the file's lines before the
    first one that starts with `begins`, which by default is how a table begins.
    """
    with explained(f"write {out}", ELSEWHERE):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(_above(out, begins) + words, encoding="utf-8")
        out.with_suffix(".json").write_text(json_text(found) + "\n", encoding="utf-8")


def _above(out: Path, begins: str) -> str:
    """The text of a file before the first line that starts with `begins`; empty if
    there is no such line, or no file.
    """
    if not out.exists():
        return ""
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True)
    starts = [k for k, line in enumerate(lines) if line.startswith(begins)]
    return "".join(lines[: starts[0]]) if starts else ""


def picture(out: Path, draw: Callable[[Path], object]) -> Path:
    """Let `draw` make the PNG file beside `out`; returns its path.

    RunError if that cannot be written.
    """
    path = out.with_suffix(".png")
    with explained(f"write {path}", ELSEWHERE):
        draw(path)
    return path
