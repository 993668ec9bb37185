"""What a trained memory attends to: pictures, tables and a page of what `probes.py`
measures and tests.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

from . import probes
from .probes import PERIODS, PLACES, Questions, Traces
from .text import percent

SHOWN = 256  # held-out examples among which those to show are chosen


IN_PAGE, WRONG_IN_PAGE, PAGE_BYTES = (
    16,
    8,
    1_000_000,
)  # examples of the page, wrongly answered ones besides, bytes of data at most


TEMPLATE = Path(__file__).with_suffix(".html")


# --- Examples -------------------------------------------------------------------------


def look(model, questions: Questions) -> tuple[Questions, Traces, np.ndarray]:
    """(questions, what the network does with them, the slots that took in the marked
    step).
    """
    seen = probes.traces(model, questions.inputs)
    return questions, seen, probes.holders(probes.shares(seen, questions.marked))


def to_show(model, questions):
    """Rows for the page: figure 3's cases, then the first examples, then the first of
    those that are answered wrongly.
    """
    wrong = np.flatnonzero(
        probes.traces(model, questions.inputs).logits.argmax(-1) != questions.targets
    )
    rows = dict.fromkeys(
        [
            *probes.cases(questions),
            *range(min(IN_PAGE, len(questions.targets))),
            *wrong[:WRONG_IN_PAGE],
        ]
    )
    return np.array([*rows], int)


def _verdict(questions, seen, row):
    answer, target = int(seen.logits[row].argmax()), int(questions.targets[row])
    return f"Answer {answer}, " + (
        "right" if answer == target else f"wrong, it is {target}"
    )


def _titles(questions, seen):
    titles = []
    for row in range(len(questions.targets)):
        question, steps = questions.describe(row)
        name = next(iter(steps[0]))
        titles.append(
            f"{question}\n{_verdict(questions, seen, row)}\n{name} at each step: "
            f"{' '.join(str(step[name]) for step in steps)}"
        )
    return titles


# --- Pictures -------------------------------------------------------------------------


def draw_cases(task, model, folder: Path) -> list[Path]:
    """Figure 3 alone, as a task's picture: nothing, where nothing attends."""
    if not probes.has_attention(model):
        return []
    questions = probes.held_out(task, SHOWN)
    return draw_maps(*look(model, questions.take(probes.cases(questions))), folder)


def draw_maps(questions: Questions, seen: Traces, held, folder: Path) -> list[Path]:
    """The attention of every head at every step."""
    from .. import figures

    weights = seen.attention
    return [
        figures.attention(
            weights,
            questions.marked,
            _titles(questions, seen),
            folder / "attention.png",
            questions.mark,
            held,
        )
    ]


def draw_gates(questions: Questions, seen: Traces, held, folder: Path) -> list[Path]:
    """The gates of every slot over time; nothing, where there are none."""
    from .. import figures

    if seen.input_gate is None:
        return []
    gates = {"input gate": seen.input_gate, "forget gate": seen.forget_gate}
    return [
        figures.gates(
            gates,
            questions.marked,
            _titles(questions, seen),
            folder / "attention_gates.png",
            questions.mark,
            held,
        )
    ]


def draw_measures(found: dict, floors: dict, folder: Path) -> list[Path]:
    """How much attention goes where, and the accuracies of the causal tests."""
    from .. import figures

    words = _words(found["mark"])
    places = {
        words[place]: {name: table[place] for name, table in found["attention"].items()}
        for place in PLACES
    }
    tests = {
        words[test]: _in_words(found[test], words)
        for test in ("wiped", "cut")
        if found[test]
    }
    return [
        figures.shares(places, found["mark"], folder / "attention_measured.png"),
        figures.accuracies(
            tests, found["intact"], floors, folder / "attention_tests.png"
        ),
    ]


def _in_words(table, words):
    return {
        words.get(name, name): {words[column]: values for column, values in row.items()}
        for name, row in table.items()
    }


def _words(mark):
    """What the keys of `analysis.analyse` are called where people read them."""
    return {
        "input": "the input",
        "holders": f"the slots that took in the {mark}",
        "others": "all other slots",
        "controls": "as many other slots, at random",
        "slots": "all slots but itself",
        "all": "everything but itself",
        "before": f"before the {mark}",
        "at": f"at the {mark}",
        "after": f"after the {mark}",
        "reset": f"reset after the {mark}",
        "swapped": "swapped at the end",
        "wiped": "when these are wiped",
        "cut": "when no slot attends to",
    }


# --- Tables ---------------------------------------------------------------------------


def tables(found: dict, floors: dict) -> list[tuple[str, str, list[list[str]]]]:
    """[(title, explanation, rows)] of what `analysis.analyse` has found; the first two
    rows of each table are its head.
    """
    mark, held, attention = found["mark"], found["holders"], found["attention"]
    columns = [(place, period) for place in PLACES for period in PERIODS]
    names = {"input": "the input", "holders": "took it in", "others": "other slots"}
    head = [
        [
            "to",
            *(
                names[place] if period == PERIODS[0] else ""
                for place, period in columns
            ),
        ]
    ]
    head.append([f"the {mark}:", *PERIODS * len(PLACES)])
    rows = [
        [name, *(percent(table[place][period]) for place, period in columns)]
        for name, table in attention.items()
    ]
    says = (
        f"To the input, to the slots that took in the {mark}, and to the others, "
        "before it came, when it came and after: the mean over the "
        f"slots that ask and over {found['examples']:,} held-out sequences. By "
        "intake (attention to the input times input gate), the "
        f"fewest slots with half of it are {held['mean number']:.1f} of "
        f"{found['slots']}; one alone has {percent(held['largest share'])}, "
        f"where all alike would have {percent(held['uniform share'])}. Uniform: "
        "attention to everything alike."
    )
    described = [("How much attention goes where", says, head + rows)]
    kinds = {"reset": "reset", "swapped": "swapped"}
    says = (
        f"Slots are reset to their first value right after the {mark}, or swapped "
        "with another sequence's after the last step. In "
        "brackets, the floors. Each accuracy is known to within about "
        f"{100 / found['examples'] ** 0.5:.1f} points."
    )
    described.append(
        (
            "Accuracy when slots are wiped",
            says,
            _accuracy_rows(found["wiped"], kinds, found, floors),
        )
    )
    if found["cut"]:
        kinds = {"before": "cut before", "after": "cut after"}
        says = (
            f"No slot attends to what the row names, at all steps before the {mark}, "
            "or after it. The gates see the input as ever."
        )
        described.append(
            (
                "Accuracy when attention is cut",
                says,
                _accuracy_rows(found["cut"], kinds, found, floors),
            )
        )
    return described


def _accuracy_rows(table, columns, found, floors):
    """The rows of a table of tests: a group of columns for each metric, then what
    nothing done and the floors give.
    """
    words, intact = _words(found["mark"]), found["intact"]
    each = [(metric, column) for metric in intact for column in columns]
    first = next(iter(columns))
    head = [
        [
            "",
            *(
                metric.replace("_", " ") if column == first else ""
                for metric, column in each
            ),
        ]
    ]
    head.append(["", *[*columns.values()] * len(intact)])
    rows = [["nothing", *(percent(intact[metric]) for metric, _ in each)]]
    rows += [
        [
            words.get(name, name),
            *(percent(row[column][metric]) for metric, column in each),
        ]
        for name, row in table.items()
    ]
    labels = dict.fromkeys(
        label for metric in intact for label in floors.get(f"test_{metric}", {})
    )
    rows += [
        [
            f"({label})",
            *(
                percent(floors.get(f"test_{metric}", {}).get(label))
                for metric, _ in each
            ),
        ]
        for label in labels
    ]
    return head + rows


# --- The page -------------------------------------------------------------------------


def page(
    title: str, examples: tuple[Questions, Traces, np.ndarray], described: list
) -> str:
    """One HTML page that holds examples, their traces and the tables, and asks the
    network for nothing.

    As many examples are kept as fit into PAGE_BYTES, but at least the first.
    """
    questions, seen, held = examples
    kept, size = [], 0
    for row in range(len(questions.targets)):
        example = _example(questions, seen, held, row)
        size += len(json.dumps(example))
        if kept and size > PAGE_BYTES:
            break
        kept.append(example)
    steps, heads, slots, columns = seen.attention.shape[1:]
    data = {
        "title": title,
        "mark": questions.mark,
        "steps": steps,
        "heads": heads,
        "slots": slots,
        "columns": columns,
        "examples": kept,
        "tables": [
            {"heading": heading, "says": says, "rows": rows}
            for heading, says, rows in described
        ],
    }
    text = json.dumps(data, separators=(",", ":")).replace(
        "<", "\\u003c"
    )  # nothing in it ends the script
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", text, 1)


def _example(questions, seen, held, row):
    """One example as the page wants it.

    Attention (T, H, N, N + n) goes as bytes, 255 for 1; gates as mean and 10th, 90th
    percentile.
    """
    question, steps = questions.describe(row)
    shifted = np.exp(seen.logits[row] - seen.logits[row].max())
    weights = np.round(255 * seen.attention[row]).astype(np.uint8)
    return {
        "question": question,
        "verdict": _verdict(questions, seen, row),
        "items": [_rounded(step) for step in steps],
        "marked": int(questions.marked[row]),
        "target": int(questions.targets[row]),
        "held": np.flatnonzero(held[row]).tolist(),
        "probabilities": np.round(shifted / shifted.sum(), 4).tolist(),
        "attention": base64.b64encode(weights.tobytes()).decode(),
        "gates": {
            name: _spread(getattr(seen, f"{name}_gate")[row])
            for name in ("input", "forget")
            if seen.input_gate is not None
        },
    }


def _rounded(value):
    """Numbers to three decimals, in dicts and lists too."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return (
        [_rounded(part) for part in value]
        if isinstance(value, list)
        else round(value, 3)
        if isinstance(value, float)
        else value
    )


def _spread(gate):
    """(T, N, F) -> [mean, 10th, 90th percentile over the units] of each step and slot."""
    summary = np.stack(
        [gate.mean(-1), *np.quantile(gate, (0.1, 0.9), axis=-1)], axis=-1
    )  # (T, N, 3)
    return np.round(summary.astype(float), 3).tolist()
