"""The paper's results and ours in one look: writes results/paper.md.

    python benchmarks/paper.py [--out FILE.md]

The paper is Santoro et al. 2018. What it reports comes from the tasks themselves, ours
from the committed summaries of runs that went to their end. A figure is shown when its
picture lies in results/ under the name that `FIGURES` gives it; until then it says "not
run". Run this again after each new summary or picture; a test holds the page to them.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tinyrmc.results.tables import went_to_the_end
from tinyrmc.results.text import number
from tinyrmc.training.discovery import load_task

RESULTS = Path(__file__).resolve().parent / "results"
# How the names of summaries end that are of what was only tried on the way.
TRIALS = ("_rates", "_trials", "_variations")
# What `evaluate` measured of one language model of each core.
EXAMINED = {
    "RMC": "language_modeling_rmc.json",
    "LSTM": "language_modeling_lstm.json",
}
# How older summaries call a task's fields.
RENAMED = {"rungs": "stages", "rung_shares": "stage_shares"}
CORES = {  # as the paper's tables call them
    "rmc": "RMC",
    "lstm": "LSTM",
    "dnc": "DNC",
    "entnet_bank": "EntNet",
}
OTHERS = {
    "entnet": "Entity Network",
    "conv_lstm": "ConvLSTM",
    "feedforward": "no memory",
    "memn2n": "MemN2N",
}
NOT_RUN = "*not run*"
TIMES = "\N{MULTIPLICATION SIGN}"

ABOUT = (
    "Each cell has what [the paper](https://arxiv.org/abs/1806.01822) reports and, "
    f"below it in bold, **ours**: {TIMES}3 is the mean of three seeds. The paper gives "
    "the top score of many settings for each core. We give one setting, the best where "
    "several of ours share a cell; sweeps, and what we tried on the way, do not count. "
    "A dagger † marks networks that stayed on easier examples and never met the task "
    "itself. *Floors* are what you reach without learning the task. [The "
    "results](../README.md) have every run with its command, seeds and time."
)


class Ours(NamedTuple):
    """What one configuration of ours reached."""

    value: float
    said: str  # as a table shows it, with the number of seeds
    seeds: int
    setting: str


# --- What was run ---------------------------------------------------------------------


def finished_groups(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The groups of runs of all summaries, but for trials and runs broken off."""
    found = []
    for path in sorted(folder.glob("*.json")):
        summary = json.loads(path.read_text(encoding="utf-8"))
        if path.stem.endswith(TRIALS) or not isinstance(summary, dict):
            continue
        for group in summary.get("groups", ()):
            data = group["config"].get("data", {})
            for old, new in RENAMED.items():
                if old in data:
                    data[new] = data.pop(old)
            if went_to_the_end(group):
                found.append(group)
    return found


def reached(group: dict[str, Any], metric: str) -> Ours | None:
    """The mean of a group's seeds; None where they lack that metric."""
    value = group["mean"].get(metric)
    if value is None:
        return None
    said = f"**{plain(number(metric, value))}** {TIMES}{len(group['runs'])}"
    if any(run.get("ended_on") for run in group["runs"]):
        said += "†"
    whole = group["mean"].get("test_exact_match_accuracy")
    if whole is not None:
        said += f"<br>whole: {plain(number('accuracy', whole))}"
    return Ours(value, said, len(group["runs"]), group["label"])


def plain(words: str) -> str:
    """Without the unit, which stands above the table."""
    return words.replace(" %", "")


Place = tuple[str, str]  # row, column


def placed(
    groups: Iterable[dict[str, Any]],
    places: Callable[[dict[str, Any]], Iterable[tuple[Place, str]]],
) -> dict[Place, Ours]:
    """{place: the best of ours}, where `places` says for which places a group counts,
    and by which metric. Of one setting the most seeds count, whatever they reached.
    """
    best: dict[Place, Ours] = {}
    for group in groups:
        for place, metric in places(group):
            ours, other = reached(group, metric), best.get(place)
            if ours is None:
                continue
            if other is None or _counts_more(ours, other, group["lower"]):
                best[place] = ours
    return best


def _counts_more(ours: Ours, other: Ours, lower: bool) -> bool:
    if ours.setting == other.setting and ours.seeds != other.seeds:
        return ours.seeds > other.seeds
    return (ours.value < other.value) == lower


def of_cells(group: dict[str, Any]) -> list[tuple[Place, str]]:
    """The paper's places that a group stands for."""
    return [(split(cell), known["metric"]) for cell, known in group["cells"].items()]


def flags(group: dict[str, Any], part: str, told: Iterable[str] = ()) -> str:
    """The flags of a group's command that change a part of its configuration, such as
    "world", but for those that a row has `told` in words.
    """
    _, *words = re.split(r" (?=--)", group["label"])
    own = [word for word in words if word.startswith(f"--{part}.")]
    return " ".join(w for w in own if w.split()[0].partition(".")[2] not in told)


def split(cell: str) -> Place:
    """("8 x 16", "RMC") of "8 x 16, RMC"."""
    row, _, column = cell.rpartition(", ")
    return row, column


# --- Tables ---------------------------------------------------------------------------


def table(
    head: str,
    rows: dict[str, str],
    columns: Iterable[str],
    paper: dict[Place, str],
    ours: dict[Place, Ours],
) -> str:
    """A Markdown table; `rows` gives each its name on the page. A place that neither
    has is empty.
    """
    columns = list(columns)
    lines = [[head, *columns], [":---"] * (1 + len(columns))]
    for row, name in rows.items():
        shown = []
        for column in columns:
            reports, own = paper.get((row, column)), ours.get((row, column))
            parts = [reports, own.said if own else NOT_RUN if reports else None]
            shown.append("<br>".join(part for part in parts if part))
        lines.append([name, *shown])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def paragraph(*words: str) -> str:
    """Running text, 88 columns wide."""
    return textwrap.fill(" ".join(words), 88, break_on_hyphens=False) + "\n"


def programs(groups: list[dict[str, Any]]) -> str:
    """Table 1, and what we have of smaller programs."""
    task = load_task("program_evaluation")
    own = [group for group in groups if group["task"] == "program_evaluation"]
    paper = {
        (kind, core): f"{100 * score:.1f}"
        for core, row in task.TABLE_1.items()
        for kind, score in row.items()
    }
    columns = list(task.TABLE_1)
    ours = placed(own, of_cells)
    rows = {kind: kind.capitalize() for kind in task.KINDS}
    for group in own:
        for (kind, _), _ in of_cells(group):
            rows[kind] = f"{kind.capitalize()}{floors(group)}"
    smaller = placed(own, _smaller)
    text = "\n".join(
        [
            "## Table 1: program evaluation and memorisation\n",
            paragraph(
                "Characters that are right, in percent, of two operations on numbers "
                "of five digits, and of one number to be copied, reversed, doubled. "
                "*Whole* are answers of ours without a mistake, which the paper does "
                "not give. Nor does it say how long its numbers for copying, reversing "
                "and doubling are; ours have five digits."
            ),
            table("", rows, columns, paper, ours),
        ]
    )
    if smaller:
        names = {row: row for row, _ in sorted(smaller)}
        text += "\nSmaller or easier programs, ours alone:\n\n"
        text += table("", names, columns, {}, smaller)
    return text


def _smaller(group: dict[str, Any]) -> list[tuple[Place, str]]:
    """The place of programs of another size than the paper's."""
    data, core = group["config"]["data"], CORES.get(group["config"]["model"]["core"])
    programs = data["kind"] in ("addition", "control", "program")
    if group["cells"] or not programs or core is None or data["style"] != "release":
        return []
    operations = f"{data['nesting']} operation" + "s" * (data["nesting"] > 1)
    row = f"{data['kind'].capitalize()}, {data['length']} digits, {operations}"
    for name in ("operands", "answers"):
        how = data.get(name, "usual")
        row += f", {name} {how}" if how != "usual" else ""
    told = "kind", "length", "nesting", "operands", "answers"
    row += _in_code(flags(group, "data", told))
    # slots are a setting that a row names; a DNC's are words, which others do not have
    own = ["core", "mem-slots"] if core == "DNC" else ["core"]
    row += _in_code(flags(group, "model", own))
    return [((row, core), group["result"])]


def _in_code(words: str) -> str:
    """What flags add to the name of a row; nothing if there are none."""
    return f", `{words}`" if words else ""


def vectors(groups: list[dict[str, Any]]) -> str:
    """Nth farthest: what the text and figures 4 and 5 tell, and our small version."""
    task = load_task("nth_farthest").Task
    own = [group for group in groups if group["task"] == "nth_farthest"]
    paper = {
        split(cell): plain(reports.removesuffix(" on its best batch"))
        for cell, (reports, _) in task.published.items()
    }
    more, smaller = beside(own, _smaller_vectors)
    ours = placed(own, of_cells) | smaller
    rows = {row: f"{row}{_as_ours_was(own, row)}" for row, _ in paper}
    rows |= dict(sorted(more.items()))
    about = paragraph(
        "Right answers in percent, among so many vectors of so many dimensions; for "
        "the LSTM and the DNC the paper gives the best training batch. The floors "
        "compare no two vectors. EntNet is the bank of LSTMs that the paper calls so; "
        "the Entity Network is that of Henaff et al. (2017), which the paper does not "
        "use."
    )
    columns = [*CORES.values(), OTHERS["entnet"]]
    shown = table("", rows, columns, paper, ours)
    return "\n".join(["## Nth farthest\n", about, shown])


def _size(group: dict[str, Any]) -> str:
    data = group["config"]["data"]
    return f"{data['objects']} x {data['dimensions']}"


def _smaller_vectors(group: dict[str, Any]) -> str:
    data, row = group["config"]["data"], _size(group)
    if row in {split(cell)[0] for cell in load_task("nth_farthest").Task.published}:
        row += _in_code(flags(group, "train"))  # what keeps it from being that cell
    if not data["stages"]:
        row += ", without a ladder"
    elif data.get("stage_shares"):
        row += ", the same steps on each rung"
    told = "objects", "dimensions", *RENAMED, *RENAMED.values()
    words = {word.replace("_", "-") for word in told}
    return row + _in_code(flags(group, "data", words))


def _as_ours_was(groups: list[dict[str, Any]], row: str) -> str:
    """How ours came to a row of the paper, and its floors."""
    for group in groups:
        if row in (place for (place, _), _ in of_cells(group)):
            ladder = ", ours by a ladder of easier tasks, with smaller slots"
            return (ladder if group["config"]["data"]["stages"] else "") + floors(group)
    return ""


def floors(group: dict[str, Any]) -> str:
    """What players and networks reach who learnt nothing, on a line of its own."""
    metric = group["result"]
    known = group["references"].get(metric, {}).items()
    values = [x for label, x in known if not label.startswith("paper")]
    shown = ", ".join(plain(number(metric, x)) for x in values)
    return f"<br>floor{'s' * (len(values) > 1)} {shown}" if shown else ""


def beside(
    groups: list[dict[str, Any]], row_of: Callable[[dict[str, Any]], str]
) -> tuple[dict[str, str], dict[Place, Ours]]:
    """Rows and places of groups that stand in no cell of the paper, by core."""
    rows: dict[str, str] = {}

    def place(group):
        core = (CORES | OTHERS).get(group["config"]["model"]["core"])
        if group["cells"] or core is None:
            return []
        row = row_of(group)
        rows.setdefault(row, f"{row}{floors(group)}")
        return [((row, core), group["result"])]

    return rows, placed(groups, place)


TEXTS = {
    "wikitext-103": "WikiText-103",
    "gutenberg": "Project Gutenberg",
    "gigaword": "GigaWord v5",
}
SMALLER_TEXTS = {
    "ptb": "Penn Treebank",
    "wikitext-2": "WikiText-2",
    "text8": "Text8",
}


def texts(groups: list[dict[str, Any]], folder: Path) -> str:
    """Tables 2 and 3, and what we have of smaller texts."""
    task = load_task("language_modeling").Task
    own = [group for group in groups if group["task"] == "language_modeling"]
    paper = {split(cell): reports for cell, (reports, _) in task.published.items()}
    # a text that is not here may stand for a cell of another paper
    ours = {at: each for at, each in placed(own, of_cells).items() if at[0] in TEXTS}
    columns = ("RMC", "LSTM")
    text = "\n".join(
        [
            "## Table 2: perplexity of the next word\n",
            "On the test text; lower is better.\n",
            table("", TEXTS, columns, paper, ours),
        ]
    )
    rows, smaller = beside(own, _smaller_text)
    if smaller:
        text += (
            "\nSmaller texts, ours alone; the floors are those of single words and of\n"
            "5-grams (Kneser-Ney):\n\n"
        )
        text += table("", rows, _columns(smaller), {}, smaller)
    return f"{text}\n{by_frequency(folder)}"


def _smaller_text(group: dict[str, Any]) -> str:
    corpus = group["config"]["data"]["corpus"]
    words = f"{group['preset']} {flags(group, 'data', ['corpus'])}".strip()
    return f"{SMALLER_TEXTS.get(corpus, corpus)}, `{words}`"


def _columns(ours: dict[Place, Ours]) -> list[str]:
    """The cores of these places, in the usual order."""
    there = {column for _, column in ours}
    return [core for core in (CORES | OTHERS).values() if core in there]


def by_frequency(folder: Path) -> str:
    """Table 3, for the text that we have it of."""
    examined = {}
    for core, path in EXAMINED.items():
        if (folder / path).exists():
            found = json.loads((folder / path).read_text(encoding="utf-8"))
            rows = found["examinations"]["by frequency"]["rows"]
            examined[core] = {row[0]: row for row in rows}
    title = "## Table 3: perplexity by how frequent words are\n\n"
    about = (
        "The paper's text, GigaWord, is not free, so its table is *not run*. `python "
        "-m tinyrmc evaluate RUN` measures the same of any language model."
    )
    if not examined:
        return title + paragraph(about)
    about += (
        " Here it is of the Penn Treebank's test text, of `quick` with seed 0. The "
        "rows go by how often the training text has a word; *share* is how much of the "
        "test text such words are."
    )
    head = f"| in training | share | {' | '.join(examined)} |\n"
    head += f"| --- {'| ---: ' * (1 + len(examined))}|\n"
    lines = []
    for often, row in next(iter(examined.values())).items():
        values = [f"{known[often][3]:,.1f}" for known in examined.values()]
        lines.append(f"| {' | '.join([often, row[2], *values])} |\n")
    return title + paragraph(about) + "\n" + head + "".join(lines)


def worlds(groups: list[dict[str, Any]]) -> str:
    """The two worlds: scores of MiniPacman, solved levels of BoxWorld."""
    about = paragraph(
        "Mean score in MiniPacman, percent of levels solved in BoxWorld. The floors "
        "are players who learnt nothing: one at random, and a script, which in "
        "MiniPacman sees the whole maze and in BoxWorld opens any box that its key "
        "fits. Ours are smaller networks, with a thirteenth of the paper's steps on "
        "its levels of BoxWorld."
    )
    rows, paper = {}, {}
    ours: dict[Place, Ours] = {}
    for name, title in (("mini_pacman", "MiniPacman"), ("box_world", "BoxWorld")):
        own = [group for group in groups if group["task"] == name]
        for cell, (reports, _) in load_task(name).Task.published.items():
            row, column = split(cell)
            paper[f"{title}, {row}", column] = plain(reports)
            rows[f"{title}, {row}"] = f"{title}, {row}"
        for (row, column), each in placed(own, of_cells).items():
            ours[f"{title}, {row}", column] = each
        for group in own:
            for (row, _), _ in of_cells(group):
                rows[f"{title}, {row}"] = f"{title}, {row}{floors(group)}"
        more, easier = beside(own, functools.partial(_easier, title))
        rows, ours = rows | more, ours | easier
    columns = dict.fromkeys(column for _, column in [*paper, *ours])
    shown = table("", rows, columns, paper, ours)
    return "\n".join(["## Worlds\n", about, shown])


def _easier(title: str, group: dict[str, Any]) -> str:
    """The row of levels that are not the paper's."""
    words = f"{group['preset']} {flags(group, 'world')}".strip()
    return f"{title}, `{words}`"


# --- Figures --------------------------------------------------------------------------


# number in the paper -> what it shows, and our pictures: {file in results/: how it
# differs from the paper's}
FIGURES: dict[int, tuple[str, dict[str, str]]] = {
    4: (
        "nth farthest: slots x heads x gates",
        {
            "nth_farthest_figure4.png": "the paper's sizes",
            "nth_farthest_figure4_reduced_curves.png": "4 vectors of 4 dimensions",
        },
    ),
    5: (
        "nth farthest: the RMC and its rivals while they learn",
        {
            "nth_farthest_ladder.png": "8 x 16, by the ladder",
            "nth_farthest_fair.png": "4 x 4, the same steps on each rung",
            "nth_farthest_models.png": "4 x 4, rungs that open by accuracy",
        },
    ),
    8: (
        "programs: the cores while they learn",
        {
            "program_evaluation.png": "two operations on five digits",
            "program_evaluation_addition.png": "addition of three digits",
        },
    ),
    10: (
        "MiniPacman: score while agents learn",
        {"mini_pacman.png": "through the viewport, `quick`"},
    ),
    11: (
        "language models: perplexity while they learn",
        {
            "wikitext_103.png": "WikiText-103",
            "language_modeling_quick.png": "the Penn Treebank",
        },
    ),
    12: (
        "perplexity by how many words the model has read",
        {"language_modeling_words_read.png": "the Penn Treebank"},
    ),
}


def figures(folder: Path = RESULTS) -> str:
    """A table of the figures, then our pictures of them."""
    rows = ["| figure | what it shows | ours |\n| --- | --- | --- |\n"]
    pictures = []
    for which, (shows, _) in FIGURES.items():
        links = []
        for file, says in _there(which, folder):
            links.append(f"[{says}]({file})")
            pictures.append(
                f"### Figure {which}: {says}\n\n![{shows}, {says}]({file})\n"
            )
        rows.append(f"| {which} | {shows} | {'<br>'.join(links) or NOT_RUN} |\n")
    return "\n".join(["## Figures\n", "".join(rows), *pictures])


# --- The page -------------------------------------------------------------------------


# part of the paper -> the tasks of its cells, and how our runs differ from them
PARTS = {
    "table 1: programs": (
        "program_evaluation",
        "memorisation of five digits; programs smaller or easier",
    ),
    "nth farthest": (
        "nth_farthest",
        "by a ladder of easier tasks, with smaller slots; and 4 vectors of 4 numbers",
    ),
    "table 2: texts": (
        "language_modeling",
        "the Penn Treebank and WikiText-2 instead; for table 3 the Penn Treebank",
    ),
    "worlds": (
        "mini_pacman box_world",
        "smaller networks, fewer steps; MiniPacman through the viewport alone",
    ),
}


def in_one_look(groups: list[dict[str, Any]], folder: Path) -> str:
    """How much of the paper has been run, in a row for each of its parts."""
    cells = {(group["task"], cell) for group in groups for cell in group["cells"]}
    rows = ["| part of the paper | run | in what ours differ |\n| --- | --- | --- |\n"]
    for part, (tasks, differ) in PARTS.items():
        known = {
            (task, cell)
            for task in tasks.split()
            for cell, (paper, _) in load_task(task).Task.published.items()
            if paper and (task != "language_modeling" or split(cell)[0] in TEXTS)
        }
        run = f"{len(cells & known)} of {len(known)} cells"
        rows.append(f"| {part} | {run} | {differ} |\n")
    missing = [str(which) for which in FIGURES if not _there(which, folder)]
    run = f"{len(FIGURES) - len(missing)} of {len(FIGURES)}"
    differ = "drawn of the smaller tasks above"
    if missing:
        differ = f"not run: {', '.join(missing)}"
    numbers = ", ".join(map(str, FIGURES))
    return "".join([*rows, f"| figures {numbers} | {run} | {differ} |\n"])


def _there(which: int, folder: Path) -> list[tuple[str, str]]:
    """The pictures of a figure that there are."""
    _, ours = FIGURES[which]
    return [each for each in ours.items() if (folder / each[0]).exists()]


def page(folder: Path = RESULTS) -> str:
    """The whole page in Markdown."""
    groups = finished_groups(folder)
    head = "# The paper's results, and ours\n", paragraph(ABOUT)
    parts = [programs(groups), vectors(groups), texts(groups, folder)]
    parts.append(worlds(groups))
    return "\n".join([*head, in_one_look(groups, folder), *parts, figures(folder)])


def main(words=None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "paper.md")
    out = parser.parse_args(words).out
    out.write_text(page(), encoding="utf-8")
    print(out)
    return 0


if __name__ == "__main__":
    from tinyrmc.cli.commands import run_main

    run_main(main)
