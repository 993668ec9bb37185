"""The attention of a trained memory: pictures, tables and a page of `probes.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..training.task import Task
from . import pages, probes
from .probes import PERIODS, PLACES, Questions, Traces
from .text import Rows, percent

SHOWN = 256  # held-out examples among which those to show are chosen

# Limits of the page: examples, wrongly answered ones besides, bytes of data.
IN_PAGE = 16
WRONG_IN_PAGE = 8
PAGE_BYTES = 1_000_000
TEMPLATE = Path(__file__).with_suffix(".html")

Found = dict[str, Any]  # what `probes.analyse` gives, or a part of it
Floors = Mapping[str, Mapping[str, float]]  # what `Task.references` gives

# --- Examples -------------------------------------------------------------------------


def to_show(model: Any, questions: Questions) -> np.ndarray:
    """Rows for the page: figure 3's cases, the first examples, the first wrong ones."""
    answers = probes.traces(model, questions.inputs).logits.argmax(-1)
    wrong = np.flatnonzero(answers != questions.targets)
    first = range(min(IN_PAGE, len(questions.targets)))
    rows = [*probes.cases(questions), *first, *wrong[:WRONG_IN_PAGE]]
    return np.array([*dict.fromkeys(rows)], int)


def _verdict(questions: Questions, seen: Traces, row: int) -> str:
    answer, target = int(seen.logits[row].argmax()), int(questions.targets[row])
    right = "right" if answer == target else f"wrong, it is {target}"
    return f"Answer {answer}, {right}"


# --- Pictures -------------------------------------------------------------------------


def draw_cases(task: Task, model: Any, folder: Path) -> list[Path]:
    """Figure 3 alone, as a task's picture; nothing, if no slot attends."""
    if not probes.has_attention(model):
        return []
    questions = probes.held_out(task, SHOWN)
    cases = questions.take(probes.cases(questions))
    return [draw_maps(cases, probes.traces(model, cases.inputs), folder)]


def draw_maps(
    questions: Questions, seen: Traces, folder: Path, kind: str = "png"
) -> Path:
    """The attention of every head at every step."""
    from . import figures

    titles = []
    for row in range(len(questions.targets)):
        question, steps = questions.describe(row)
        name = next(iter(steps[0]))
        came = " ".join(str(step[name]) for step in steps)
        verdict = _verdict(questions, seen, row)
        titles.append(f"{question}\n{verdict}\n{name} at each step: {came}")
    held = probes.holders(probes.shares(seen, questions.marked))
    about = questions.marked, titles, questions.mark, held
    return figures.attention(folder / f"attention.{kind}", seen.attention, *about)


def draw_tests(found: Found, floors: Floors, folder: Path, kind: str = "png") -> Path:
    """The accuracies of the causal tests."""
    from . import figures

    words = _words(found["mark"])
    tests = {
        words[test]: {
            words.get(name, name): {words[how]: values for how, values in row.items()}
            for name, row in found[test].items()
        }
        for test in ("wiped", "cut")
        if found[test]
    }
    path = folder / f"attention_tests.{kind}"
    return figures.accuracies(path, tests, found["intact"], floors)


def _words(mark: str) -> dict[str, str]:
    """The names of the keys of `probes.analyse` where people read them."""
    return {
        "input": "the input",
        "holders": f"the slots that took in the {mark}",
        "controls": "as many other slots, at random",
        "slots": "all slots but itself",
        "all": "everything but itself",
        "before": f"before the {mark}",
        "after": f"after the {mark}",
        "reset": f"reset after the {mark}",
        "swapped": "swapped at the end",
        "wiped": "when these are wiped",
        "cut": "when no slot attends to",
    }


# --- Tables ---------------------------------------------------------------------------


def tables(found: Found, floors: Floors) -> list[tuple[str, str, Rows]]:
    """[(heading, explanation, rows)] of what `probes.analyse` has found. Each table has
    a head of two rows.
    """
    mark, held = found["mark"], found["holders"]
    says = (
        f"To the input, to the slots that took in the {mark}, and to the others, "
        "before it came, when it came and after: the mean over the slots that ask and "
        f"over {found['examples']:,} held-out sequences. By intake (attention to the "
        "input times input gate), the fewest slots with half of it are "
        f"{held['mean number']:.1f} of {found['slots']}; one alone has "
        f"{percent(held['largest share'])}, where all alike would have "
        f"{percent(held['uniform share'])}. Uniform: attention to everything alike."
    )
    names = {"input": "the input", "holders": "took it in", "others": "other slots"}
    columns = [(place, period) for place in PLACES for period in PERIODS]
    above = [names[place] if period == PERIODS[0] else "" for place, period in columns]
    rows = [["to", *above], [f"the {mark}:", *(period for _, period in columns)]]
    for name, table in found["attention"].items():
        values = [percent(table[place][period]) for place, period in columns]
        rows.append([name, *values])
    described = [("How much attention goes where", says, rows)]
    says = (
        f"Slots are reset to their first value right after the {mark}, or swapped with "
        "another sequence's after the last step. In brackets, the floors. Each "
        "accuracy is known to within about "
        f"{100 / found['examples'] ** 0.5:.1f} points."
    )
    rows = _accuracy_rows("wiped", ["reset", "swapped"], found, floors)
    described.append(("Accuracy when slots are wiped", says, rows))
    if found["cut"]:
        says = (
            "No slot attends to what the row names, at all steps before the "
            f"{mark}, or after it. The gates see the input as ever."
        )
        rows = _accuracy_rows("cut", ["before", "after"], found, floors)
        described.append(("Accuracy when attention is cut", says, rows))
    return described


def _accuracy_rows(test: str, hows: list[str], found: Found, floors: Floors) -> Rows:
    """The rows of a test: the intact network, what each change does to it, floors."""
    intact = found["intact"]
    words = _words(found["mark"])
    each = [(metric, how) for metric in intact for how in hows]
    above = [metric.replace("_", " ") if how == hows[0] else "" for metric, how in each]
    cut = "cut " if test == "cut" else ""
    rows = [
        ["", *above],
        ["", *(f"{cut}{how}" for _, how in each)],
        ["nothing", *(percent(intact[metric]) for metric, _ in each)],
    ]
    for name, row in found[test].items():
        values = [percent(row[how][metric]) for metric, how in each]
        rows.append([words.get(name, name), *values])
    of_metric = {name.partition("_")[2]: known for name, known in floors.items()}
    known = {metric: of_metric.get(metric, {}) for metric in intact}
    for label in dict.fromkeys(label for values in known.values() for label in values):
        values = [percent(known[metric].get(label)) for metric, _ in each]
        rows.append([f"({label})", *values])
    return rows


# --- The page -------------------------------------------------------------------------


def page(
    title: str,
    questions: Questions,
    seen: Traces,
    described: list[tuple[str, str, Rows]],
    model: Any = None,
) -> str:
    """One HTML page that holds questions, what the network did with them (`seen`), and
    the tables.

    If `model` is one that `pages.network` can write, the page computes all that itself,
    even when its reader wipes slots or cuts attention. As many examples are kept as fit
    into PAGE_BYTES, but at least the first.
    """
    network = pages.network(model)
    held = probes.holders(probes.shares(seen, questions.marked))
    examples: list[dict[str, Any]] = []
    size = 0
    for row in range(len(questions.targets)):
        question, came = questions.describe(row)
        example = {
            "question": question,
            "verdict": _verdict(questions, seen, row),
            "items": [pages.rounded(step, 3) for step in came],
            "marked": int(questions.marked[row]),
            "target": int(questions.targets[row]),
            "held": np.flatnonzero(held[row]).tolist(),
        }
        if network is not None:
            example["inputs"] = questions.inputs[row].tolist()
        else:
            example |= _recorded(seen, row)
        size += len(json.dumps(example))
        if examples and size > PAGE_BYTES:
            break
        examples.append(example)
    sizes = "steps", "heads", "slots", "columns"
    heads = "heading", "says", "rows"
    data = {
        "title": title,
        "mark": questions.mark,
        **dict(zip(sizes, seen.attention.shape[1:], strict=True)),
        "network": network,
        "examples": examples,
        "tables": [dict(zip(heads, each, strict=True)) for each in described],
    }
    return pages.filled(TEMPLATE, data)


def _recorded(seen: Traces, row: int) -> dict[str, Any]:
    """The answers, attention and gates of one example.

    Of attention (T, H, N, N + n) all; of gates (T, N, F) the mean and the 10th and 90th
    percentile over the units at each step, of each slot, (T, N, 3).
    """
    shifted = np.exp(seen.logits[row] - seen.logits[row].max())
    gates = {}
    for name, gate in seen.gates.items():
        low, high = np.quantile(gate[row], (0.1, 0.9), axis=-1)
        spread = np.stack([gate[row].mean(-1), low, high], axis=-1)
        gates[name] = pages.rounded(spread, 3)
    return {
        "probabilities": pages.rounded(shifted / shifted.sum(), 4),
        "attention": pages.attention(seen.attention[row]),
        "gates": gates,
    }
