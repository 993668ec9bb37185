"""Fills the tables in the pages of results from the committed summaries.

    python benchmarks/pages.py            writes them
    python benchmarks/pages.py --check    names what is not up to date; exit code 1

The pages are the Markdown files beside this one. Between `<!-- NAME WORDS -->` and
`<!-- end -->` is what this script writes there:

    runs FILE ...         a row for each group of runs of results/FILE.json: the mean of
                          the seeds and their spread, the paper's number, the floors
    measured FILE [N ...] the tables (N: only these, from 0) of a benchmark
    paper TASK [ROW ...]  the paper's table for that task, ours beside each cell; quotes
                          around a row's name that has spaces
    frequency             perplexity by how often words are
    claims, front         CLAIMS and FRONT, each with what ours say
    after, searched       a row for each core, a column for each of AFTER, with floors;
                          the search for each core's rate

Every seed of every run is in results/TASK_seeds.md, which this writes, too.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import report
from claims import CLAIMS, FRONT, NO, PARTLY, YES

from tinyrmc.results import tables
from tinyrmc.results.text import duration, number
from tinyrmc.training.discovery import load_task

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# ends of files of what was only tried, or at sizes that suit other cores
TRIALS = ("_rates", "_trials", "_variations", "after")
NOT_RUN = '<span class="not-run">○</span>'
NINETEEN = "10k, mean, PE LS RN ReLU"  # of twenty tasks; the file of one is missing
LONG = re.compile(  # words of a command that a row of a table leaves out
    r"(?<=stages)( \d+)+| --model.conv-lstm.*encoder conv"
    r"| --data.operations .*answers reversed"
)

AFTER = {  # what cores before and after the RMC are compared in -> task and preset
    "nth farthest, 4 x 4": ("nth_farthest", "fair"),
    "nth farthest, 8 x 16": ("nth_farthest", "ladder_short"),
    "recall": ("recall", "quick"),
    "recall, apart": ("recall", "apart"),
    "recall, rewrites": ("recall", "rewrites"),
    "addition": ("program_evaluation", "addition"),
    "control": ("program_evaluation", "control3"),
    "Penn Treebank, perplexity": ("language_modeling", "quick"),
    "a maze, one bit": ("junction", "quick"),
}
SEARCH = 10  # the seed that chose each core's rate
OTHERS = "dnc", "entnet", "entnet_bank"  # rivals of 2018, which have pages of their own

Group = dict[str, Any]


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def finished(task: str) -> list[Group]:
    """All groups of a task that went to their end, but for trials."""
    found = []
    for path in sorted(RESULTS.glob("*.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))
        if not path.stem.endswith(TRIALS) and isinstance(summary, dict):
            found += [g for g in summary.get("groups", ()) if g["task"] == task]
    return [group for group in found if tables.went_to_the_end(group)]


# --- Cells ----------------------------------------------------------------------------


def spread(group: Group, metric: str) -> str:
    """The mean of the seeds, and from the lowest to the highest of them."""
    values = [run[metric] for run in group["runs"]]
    mean = number(metric, statistics.fmean(values))
    if len(values) == 1:
        return mean
    ends = (number(metric, value) for value in (min(values), max(values)))
    low, high = (words.removesuffix(" %") for words in ends)
    return mean if low == high else f"{mean} ({low} to {high})"


def short(label: str) -> str:
    """A command for a row of a table, with … where it is long."""
    return LONG.sub(" …", label)


def seeds(group: Group) -> str:
    many = len(group["runs"])
    return f"{many} seed" + "s" * (many > 1)


def floors(group: Group, metric: str) -> str:
    known = group["references"].get(metric, {}).items()
    return ", ".join(number(metric, x) for label, x in known if label[:5] != "paper")


def mark(group: Group, metric: str, paper: str) -> str:
    """How near ours comes to a number of the paper's."""
    told = re.match(r"(< )?([\d.]+)", paper)
    if told is None:  # in words
        return PARTLY
    value, wanted = group["mean"][metric], float(told[2])
    if "%" in number(metric, value):
        value *= 100
    if told[1]:  # the best batch of a core that fails; ours is a mean over tests
        return PARTLY if value < wanted else NO
    off = 0.5 * 10.0 ** -len(told[2].partition(".")[2])  # half of its last digit
    lacks = value - wanted if group["lower"] else wanted - value
    return YES if lacks <= off else PARTLY if lacks <= wanted / 10 else NO


# --- Tables ---------------------------------------------------------------------------


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first row is the head; columns that are empty go."""
    kept = [k for k in range(len(rows[0])) if any(row[k] for row in rows[1:])]
    lines = [[row[k] for k in kept] for row in rows]
    lines.insert(1, ["---"] * len(kept))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def runs(*names: str) -> str:
    """A row for each group of runs and each metric that has floors."""
    every = [group for name in names for group in read(name)["groups"]]
    (task,) = {group["task"] for group in every}
    head = f"`train {task}`", "measured", "ours", "seeds", "paper", "floors"
    rows: list[tuple[str, ...]] = [(*head, "parameters", "time")]
    for group in every:
        metrics = [metric for metric in group["references"] if metric in group["mean"]]
        tested = [metric for metric in metrics if metric.startswith("test")]
        label, size = f"`{short(group['label'])}`", f"{group['parameters']:,}"
        which = tables.ranges(run["seed"] for run in group["runs"])
        time = duration(statistics.fmean(run["seconds"] for run in group["runs"]))
        for metric in tested or metrics or [group["result"]]:
            name = metric.removeprefix("test_").replace("_", " ")
            paper = (group["paper"] or "") if metric == group["result"] else ""
            ours, marks = spread(group, metric), floors(group, metric)
            rows.append((label, name, ours, which, paper, marks, size, time))
            label = which = size = time = ""  # once a group
    return table(rows)


def measured(name: str, *which: str) -> str:
    """The tables of a benchmark."""
    every = [part.strip() for part in report.markdown(read(name)).split("\n\n")]
    kept = [every[int(k)] for k in which] if which else every
    return "\n\n".join(kept) + "\n"


def paper(task: str, *only: str) -> str:
    """The paper's table for a task, with ours beside."""
    ours: dict[str, tuple[Group, str]] = {}
    for group in finished(task):
        for cell, known in group["cells"].items():
            best, metric = ours.get(cell), known["metric"]
            if best is None or _counts_more(group, best[0], metric):
                ours[cell] = group, metric
        if group["label"] == "large --data.task all":
            ours[NINETEEN] = group, group["result"]
    rows: dict[str, dict[str, str]] = {}
    for cell, (told, words) in load_task(task).Task.published.items():
        row, _, column = cell.rpartition(", ")
        if task == "babi":  # a row for each network, and of twenty tasks their mean
            row, column = column, row.removesuffix(", mean")
            if "task" in column:
                continue
        if (only and row not in only and column not in only) or words is None:
            continue
        shown = f"{NOT_RUN} {told}" if told else ""
        if cell in ours:
            group, metric = ours[cell]
            shown = f"**{spread(group, metric)}**, {seeds(group)}"
            shown += ", 19 tasks" * (cell == NINETEEN)
            if told:
                shown = f"{mark(group, metric, told)} {told}<br>{shown}"
        rows.setdefault(row, {})[column] = shown
    columns = dict.fromkeys(column for cells in rows.values() for column in cells)
    body = [[row, *(cells.get(c, "") for c in columns)] for row, cells in rows.items()]
    return table([["", *columns], *body])


def _counts_more(group: Group, other: Group, metric: str) -> bool:
    """Of one setting the one with more seeds; else the better one."""
    if group["label"] == other["label"]:
        return len(group["runs"]) > len(other["runs"])
    return (group["mean"][metric] < other["mean"][metric]) == group["lower"]


def frequency() -> str:
    """Table 3: perplexity by how often the training text has a word."""
    examined = {}
    of = {"RMC": "language_modeling_rmc", "LSTM": "language_modeling_lstm"}
    for core, name in of.items():
        found = read(name)["examinations"]["by frequency"]
        examined[core] = {row[0]: row for row in found["rows"]}
    rows = [["in training", "share of the test text", *examined]]
    for often, row in examined["RMC"].items():
        values = [f"{known[often][3]:,.1f}" for known in examined.values()]
        rows.append([often, row[2], *values])
    return table(rows)


def claims() -> str:
    """The papers' claims, and our results."""
    rows = [["the paper says", "", "ours", "what is known"]]
    for claim in CLAIMS:
        said = "<br>".join(map(_told, claim.ours))
        rows.append([claim.says, claim.verdict, said, claim.why])
    return table(rows)


def front() -> str:
    """The table of the project's front page."""
    rows = [["`python -m tinyrmc.train`", "measured", "ours", "beside it"]]
    for measure, ours, *others in FRONT:
        name, label = ours.split(" | ")
        command, said = f"`{_group(name, label)['task']} {label}`", _said(name, label)
        rows.append([command, measure, f"**{said}**", "; ".join(map(_told, others))])
    return table(rows)


def after() -> str:
    """The cores that came after the RMC beside it, on all tasks that have been run."""

    def told(groups: list[Group]) -> str:
        shown = [
            f"{spread(g, g['result'])} at {g['config']['train']['learning_rate']:g}, "
            f"{seeds(g)}"
            for g in groups
        ]
        return "<br>".join([*shown, f"{groups[0]['parameters']:,} parameters"])

    return _cores_by_tasks(False, told)


def searched() -> str:
    """The search of each core's rate: what one seed got at each of three."""

    def told(groups: list[Group]) -> str:
        each = {g["config"]["train"]["learning_rate"]: g for g in groups}
        return "<br>".join(
            f"{rate:g}: {spread(each[rate], each[rate]['result'])}"
            for rate in sorted(each)
        )

    return _cores_by_tasks(True, told)


def _cores_by_tasks(search: bool, told: Callable[[list[Group]], str]) -> str:
    """A row for each core, a column for each of AFTER: told(groups) of the search, or
    of all other seeds. Floors are the last row.
    """
    found: dict[str, dict[str, list[Group]]] = {}
    marks: dict[str, str] = {}
    fair, addition = "nth_farthest_fair", "program_evaluation_addition"
    for name in (fair, "nth_farthest_fair_rates", addition, "after"):
        summary = read(name) if (RESULTS / f"{name}.json").exists() else {}
        swept = [one["group"] for one in summary.get("combinations", [])]
        for group in summary.get("groups", swept):
            kept = [run for run in group["runs"] if (run["seed"] == SEARCH) == search]
            of = group["task"], group["preset"]
            columns = [column for column, what in AFTER.items() if what == of]
            if not kept or group["config"]["model"]["core"] in OTHERS:
                continue
            for column in columns:
                cells = found.setdefault(_core_of(group), {})
                cells.setdefault(column, []).append(group | {"runs": kept})
                marks[column] = floors(group, group["result"])
    columns = [column for column in AFTER if column in marks]
    body = [
        [core, *(told(row[c]) if c in row else "" for c in columns)]
        for core, row in found.items()
    ]
    rows = [["", *columns], *body, ["floors", *(marks[c] for c in columns)]]
    return table(rows) if body else "Nothing has been run yet.\n"


def _core_of(group: Group) -> str:
    """A core's name, which of its own switches are on, and what it lacks."""
    model = group["config"]["model"]
    own = model.get(model["core"]) or {}
    words = [model["core"], *(name for name, x in own.items() if x is True)]
    return " ".join(words + ["without convolution"] * (own.get("conv") == 1))


def _told(words: str) -> str:
    """Words, with our result if they name one after a bar."""
    what, *of = words.split(" | ")
    return f"{what}: {_said(*of)}" if of else what


def _group(name: str, label: str) -> Group:
    """The group of runs of a summary with that label."""
    summary = read(name)
    if name == "inside":
        runs = [run for run in summary[name] if run["form"] == label]
        return {"runs": runs, "result": "test_accuracy"}
    (group,) = (
        g for g in summary["groups"] if label in (g["label"], short(g["label"]))
    )
    return group


def _said(name: str, label: str) -> str:
    group = _group(name, label)
    kept = [run for run in group["runs"] if run.get("seed") != SEARCH]
    group = group | {"runs": kept or group["runs"]}
    return f"{spread(group, group['result'])}, {seeds(group)}"


# --- Pages ----------------------------------------------------------------------------

MAKERS: dict[str, Callable[..., str]] = {
    maker.__name__: maker
    for maker in (runs, measured, paper, frequency, claims, front, after, searched)
}
BLOCK = re.compile(
    rf"<!-- ({'|'.join(MAKERS)})((?: [^>]+)?) -->\n.*?<!-- end -->", re.DOTALL
)


def filled(text: str) -> str:
    """A page with its tables as the summaries have them now."""

    def made(match: re.Match) -> str:
        maker, words = match[1], shlex.split(match[2])
        return f"<!-- {maker}{match[2]} -->\n\n{MAKERS[maker](*words)}\n<!-- end -->"

    return BLOCK.sub(made, text)


def every_seed() -> dict[Path, str]:
    """results/TASK_seeds.md: the tables of all summaries of a task, with every seed."""
    found: dict[str, list[str]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(summary, dict) and "not_run" in summary:
            for task in dict.fromkeys(g["task"] for g in summary["groups"]):
                if task == "babi":  # one seed, and pages of its own
                    continue
                own = [g for g in summary["groups"] if g["task"] == task]
                part = f"## {path.stem}\n\n{tables.by_seed(summary | {'groups': own})}"
                found.setdefault(task, []).append(part)
    return {
        RESULTS / f"{task}_seeds.md": f"# {task}, every seed\n\n" + "\n".join(parts)
        for task, parts in found.items()
    }


def pages() -> dict[Path, str]:
    """{file: its text}, as it should be."""
    files = HERE.parent / "README.md", *sorted(HERE.glob("*.md"))
    return {path: filled(path.read_text("utf-8")) for path in files} | every_seed()


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(words).check
    old = [
        path
        for path, text in pages().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path in old:
        print(path.relative_to(HERE.parent))
        if not check:
            path.write_text(pages()[path], encoding="utf-8")
    return int(check and bool(old))


if __name__ == "__main__":
    raise SystemExit(main())
