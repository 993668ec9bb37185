"""Draw, measure and test what a trained memory attends to: `python -m tinyrmc.plot attention RUN`.

RUN is a run directory, a checkpoint.npz or a weights file of a core whose slots attend. Drawn are the paper's figure 3 (the reference
first, in the middle, last) and the gates of the same examples; measured over held-out sequences is how much attention goes to the input and
to the slots that took in the reference; tested is how often the answer is still right when slots are wiped or attention is cut. What each
of these means exactly, `tinyrmc/analysis.py` says at its top. `--html FILE` also writes a page to look at, which needs no network.
"""

from __future__ import annotations

import base64
import json
import sys
import textwrap
from pathlib import Path

import numpy as np

from . import analysis
from .analysis import PERIODS, PLACES, Questions, Traces
from .backend import blas_threads
from .commands import Parser, UsageError, aligned, percent
from .comparing import command_words
from .loading import open_checkpoint, restore_model
from .runs import RunError

SHOWN = 256  # held-out examples among which those to show are chosen
IN_PAGE, WRONG_IN_PAGE, PAGE_BYTES = 16, 8, 1_000_000  # examples of the page, wrongly answered ones besides, bytes of data at most
TEMPLATE = Path(__file__).with_suffix(".html")


def main(argv: list[str]) -> int:
    """The command line after `attention`; returns the exit code."""
    parser = Parser(prog="python -m tinyrmc.plot attention", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, checkpoint.npz or weights file")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER",
        help="existing folder for attention*.png and attention.json, replaced if they exist (default: the run's directory, or for a file "
        "that lies in none runs/<its name>-attention)",
    )  # fmt: skip
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a self-contained page to FILE (.html), replaced if it exists")
    parser.add_argument("--sequences", type=int, default=10_000, metavar="N", help="held-out sequences to measure over (default: 10,000)")
    options = parser.parse_args(argv)
    if options.sequences < 2:
        raise UsageError(f"--sequences must be at least 2, not {options.sequences}: each sequence is compared with another")
    if options.out is not None and not options.out.is_dir():
        raise UsageError(f"--out {options.out} is not a folder; make it first, or name one that exists")
    if options.html is not None and (options.html.suffix.lower() != ".html" or not options.html.parent.is_dir()):
        raise UsageError(f"--html {options.html}: give a file name that ends in .html, in a folder that exists")

    task, arrays, state = open_checkpoint(options.run)
    model = restore_model(task, arrays, state)
    if not analysis.has_attention(model):
        core = type(getattr(model, "core", model)).__name__
        says = f"its core, {core}, has no slots that attend; give one of rmc or rmc_paper"
        raise UsageError(f"{options.run} has no attention to draw: {says}")
    run = state["run"]
    title = f"{run['task']} {command_words(run)}, seed {run['seed']}, step {state['step']:,}"
    with blas_threads(1):
        try:
            shown = analysis.held_out(task, SHOWN)
        except RunError as error:
            raise RunError(f"{options.run} is a run of {run['task']!r}, whose attention cannot be analysed: {error}") from error
        three = look(model, shown.take(analysis.cases(shown)))
        print(f"{title}: measuring over {options.sequences:,} held-out sequences", file=sys.stderr)
        found = analysis.analyse(model, analysis.held_out(task, options.sequences))
        described = tables(found, task.references())
        folder = options.out or _folder_of(options.run)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            paths = [*draw_maps(*three, folder), *draw_gates(*three, folder), *draw_measures(found, task.references(), folder)]
            paths.append(folder / "attention.json")
            kept = {"run": {**run, "step": state["step"]}, **found, "floors": task.references()}
            paths[-1].write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            if options.html is not None:
                paths.append(options.html)
                options.html.write_text(page(title, look(model, shown.take(_to_show(model, shown))), described), encoding="utf-8")
        except OSError as error:
            raise RunError(f"cannot write {error.filename}: {error.strerror}; give a writable place with --out and --html") from error
    for heading, says, rows in described:
        print(f"{heading}\n{textwrap.fill(says, 110)}\n\n{aligned(rows)}\n")
    print(*paths, sep="\n")
    return 0


def _folder_of(network: Path) -> Path:
    """Where the pictures of a run go, or of a file: into its run's directory, else into a folder with its name."""
    if network.is_dir():
        return network
    return network.parent if (network.parent / "config.json").exists() else Path("runs", f"{network.stem}-attention")


# --- Examples -----------------------------------------------------------------------------------------------------------------------------


def look(model, questions: Questions) -> tuple[Questions, Traces, np.ndarray]:
    """(questions, what the network does with them, the slots that took in the marked step)."""
    seen = analysis.traces(model, questions.inputs)
    return questions, seen, analysis.holders(analysis.shares(seen, questions.marked))


def _to_show(model, questions):
    """Rows for the page: figure 3's cases, then the first examples, then the first of those that are answered wrongly."""
    wrong = np.flatnonzero(analysis.traces(model, questions.inputs).logits.argmax(-1) != questions.targets)
    rows = dict.fromkeys([*analysis.cases(questions), *range(min(IN_PAGE, len(questions.targets))), *wrong[:WRONG_IN_PAGE]])
    return np.array([*rows], int)


def _verdict(questions, seen, row):
    answer, target = int(seen.logits[row].argmax()), int(questions.targets[row])
    return f"Answer {answer}, " + ("right" if answer == target else f"wrong, it is {target}")


def _titles(questions, seen):
    titles = []
    for row in range(len(questions.targets)):
        question, steps = questions.describe(row)
        name = next(iter(steps[0]))
        titles.append(f"{question}\n{_verdict(questions, seen, row)}\n{name} at each step: {' '.join(str(step[name]) for step in steps)}")
    return titles


# --- Pictures -----------------------------------------------------------------------------------------------------------------------------


def draw_cases(task, model, folder: Path) -> list[Path]:
    """Figure 3 alone, as a task's picture: nothing, where nothing attends."""
    if not analysis.has_attention(model):
        return []
    questions = analysis.held_out(task, SHOWN)
    return draw_maps(*look(model, questions.take(analysis.cases(questions))), folder)


def draw_maps(questions: Questions, seen: Traces, held, folder: Path) -> list[Path]:
    """The attention of every head at every step."""
    from . import figures

    weights = seen.attention
    return [figures.attention(weights, questions.marked, _titles(questions, seen), folder / "attention.png", questions.mark, held)]


def draw_gates(questions: Questions, seen: Traces, held, folder: Path) -> list[Path]:
    """The gates of every slot over time; nothing, where there are none."""
    from . import figures

    if seen.input_gate is None:
        return []
    gates = {"input gate": seen.input_gate, "forget gate": seen.forget_gate}
    return [figures.gates(gates, questions.marked, _titles(questions, seen), folder / "attention_gates.png", questions.mark, held)]


def draw_measures(found: dict, floors: dict, folder: Path) -> list[Path]:
    """How much attention goes where, and the accuracies of the causal tests."""
    from . import figures

    words = _words(found["mark"])
    places = {words[place]: {name: table[place] for name, table in found["attention"].items()} for place in PLACES}
    tests = {words[test]: _in_words(found[test], words) for test in ("wiped", "cut") if found[test]}
    return [
        figures.shares(places, found["mark"], folder / "attention_measured.png"),
        figures.accuracies(tests, found["intact"], floors, folder / "attention_tests.png"),
    ]


def _in_words(table, words):
    return {words.get(name, name): {words[column]: values for column, values in row.items()} for name, row in table.items()}


def _words(mark):
    """What the keys of `analysis.analyse` are called where people read them."""
    return {
        "input": "the input", "holders": f"the slots that took in the {mark}", "others": "all other slots",
        "controls": "as many other slots, at random", "slots": "all slots but itself", "all": "everything but itself",
        "before": f"before the {mark}", "at": f"at the {mark}", "after": f"after the {mark}",
        "reset": f"reset after the {mark}", "swapped": "swapped at the end",
        "wiped": "when these are wiped", "cut": "when no slot attends to",
    }  # fmt: skip


# --- Tables -------------------------------------------------------------------------------------------------------------------------------


def tables(found: dict, floors: dict) -> list[tuple[str, str, list[list[str]]]]:
    """[(title, explanation, rows)] of what `analysis.analyse` has found; the first two rows of each table are its head."""
    mark, held, attention = found["mark"], found["holders"], found["attention"]
    columns = [(place, period) for place in PLACES for period in PERIODS]
    names = {"input": "the input", "holders": "took it in", "others": "other slots"}
    head = [["to", *(names[place] if period == PERIODS[0] else "" for place, period in columns)]]
    head.append([f"the {mark}:", *PERIODS * len(PLACES)])
    rows = [[name, *(percent(table[place][period]) for place, period in columns)] for name, table in attention.items()]
    says = (
        f"To the input, to the slots that took in the {mark}, and to the others, before it came, when it came and after: the mean over the "
        f"slots that ask and over {found['examples']:,} held-out sequences. By intake (attention to the input times input gate), the "
        f"fewest slots with half of it are {held['mean number']:.1f} of {found['slots']}; one alone has {percent(held['largest share'])}, "
        f"where all alike would have {percent(held['uniform share'])}. Uniform: attention to everything alike."
    )
    described = [("How much attention goes where", says, head + rows)]
    kinds = {"reset": "reset", "swapped": "swapped"}
    says = (
        f"Slots are reset to their first value right after the {mark}, or swapped with another sequence's after the last step. In "
        f"brackets, the floors. Each accuracy is known to within about {100 / found['examples'] ** 0.5:.1f} points."
    )
    described.append(("Accuracy when slots are wiped", says, _accuracy_rows(found["wiped"], kinds, found, floors)))
    if found["cut"]:
        kinds = {"before": "cut before", "after": "cut after"}
        says = f"No slot attends to what the row names, at all steps before the {mark}, or after it. The gates see the input as ever."
        described.append(("Accuracy when attention is cut", says, _accuracy_rows(found["cut"], kinds, found, floors)))
    return described


def _accuracy_rows(table, columns, found, floors):
    """The rows of a table of tests: a group of columns for each metric, then what nothing done and the floors give."""
    words, intact = _words(found["mark"]), found["intact"]
    each = [(metric, column) for metric in intact for column in columns]
    first = next(iter(columns))
    head = [["", *(metric.replace("_", " ") if column == first else "" for metric, column in each)]]
    head.append(["", *[*columns.values()] * len(intact)])
    rows = [["nothing", *(percent(intact[metric]) for metric, _ in each)]]
    rows += [[words.get(name, name), *(percent(row[column][metric]) for metric, column in each)] for name, row in table.items()]
    labels = dict.fromkeys(label for metric in intact for label in floors.get(f"test_{metric}", {}))
    rows += [[f"({label})", *(percent(floors.get(f"test_{metric}", {}).get(label)) for metric, _ in each)] for label in labels]
    return head + rows


# --- The page -----------------------------------------------------------------------------------------------------------------------------


def page(title: str, examples: tuple[Questions, Traces, np.ndarray], described: list) -> str:
    """One HTML page that holds examples, their traces and the tables, and asks the network for nothing.

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
        "title": title, "mark": questions.mark, "steps": steps, "heads": heads, "slots": slots, "columns": columns, "examples": kept,
        "tables": [{"heading": heading, "says": says, "rows": rows} for heading, says, rows in described],
    }  # fmt: skip
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # nothing in it ends the script
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", text, 1)


def _example(questions, seen, held, row):
    """One example as the page wants it. Attention (T, H, N, N + n) goes as bytes, 255 for 1; gates as mean and 10th, 90th percentile."""
    question, steps = questions.describe(row)
    shifted = np.exp(seen.logits[row] - seen.logits[row].max())
    weights = np.round(255 * seen.attention[row]).astype(np.uint8)
    return {
        "question": question, "verdict": _verdict(questions, seen, row), "items": [_rounded(step) for step in steps],
        "marked": int(questions.marked[row]), "target": int(questions.targets[row]), "held": np.flatnonzero(held[row]).tolist(),
        "probabilities": np.round(shifted / shifted.sum(), 4).tolist(),
        "attention": base64.b64encode(weights.tobytes()).decode(),
        "gates": {name: _spread(getattr(seen, f"{name}_gate")[row]) for name in ("input", "forget") if seen.input_gate is not None},
    }  # fmt: skip


def _rounded(value):
    """Numbers to three decimals, in dicts and lists too."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else round(value, 3) if isinstance(value, float) else value


def _spread(gate):
    """(T, N, F) -> [mean, 10th, 90th percentile over the units] of each step and slot."""
    summary = np.stack([gate.mean(-1), *np.quantile(gate, (0.1, 0.9), axis=-1)], axis=-1)  # (T, N, 3)
    return np.round(summary.astype(float), 3).tolist()
