"""Evaluate a trained run on its task's held-out examples.

    python -m tinyrmc evaluate RUN

RUN is a run directory, a checkpoint.npz, or a weights file. Beside the metrics it
prints what else the task examines: for a language model, the perplexity of rare and of
common words, and how much of the preceding text it uses; for an agent, how well it
plays, sampled and greedy, beside players who learnt nothing, with 95 % confidence
intervals. With `--export FILE` the weights and the configuration are also written to a
small file that `tinyrmc.load` and this command read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import blas_threads
from ..config import json_text
from ..errors import UsageError
from ..nn import Module
from ..results.findings import cells
from ..results.groups import title_of
from ..results.text import aligned, paragraph, results_table, terminal_width
from ..training.mistakes import check_given
from ..training.networks import export_weights, open_checkpoint, restore_model
from ..training.task import Task
from .commands import Parser, add_places, program


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(
        program("evaluate"), "Evaluate a trained run on its task's held-out examples."
    )
    add = parser.add_argument
    says = "run directory, checkpoint.npz or weights file"
    add("run", type=Path, metavar="RUN", help=says)
    says = "write the weights and the configuration, nothing else, to FILE (.npz)"
    add("--export", type=Path, metavar="FILE", help=says)
    says = "measure on these sets alone, such as validation"
    add("--splits", nargs="+", metavar="SET", help=says)
    says = "the weights that did best on the validation set, not the last ones"
    add("--best", action="store_true", help=says)
    says = "print the metrics as one JSON object instead of a table"
    add("--json", action="store_true", help=says)
    says = "leave out what else the task examines, which may take long"
    add("--metrics-only", action="store_true", help=says)
    add_places(parser)
    options = parser.parse_args(argv)
    out = options.export
    if out is not None and out.suffix != ".npz":
        raise UsageError(f"--export {out}: give a name that ends in .npz")
    if out is not None and (out.exists() or not out.parent.is_dir()):
        why = "it exists already" if out.exists() else f"{out.parent} is no folder"
        raise UsageError(f"cannot write {out}: {why}; choose another --export")
    path = options.run
    if options.best:
        if not (path / "best.npz").is_file():
            raise UsageError(
                f"--best: {path} has no best.npz; runs have one that had a finite "
                "result on a validation set (--train.keep-best)"
            )
        path = path / "best.npz"
    task, arrays, state = open_checkpoint(path, options.data_dir)
    for split in options.splits or ():
        if split not in task.splits:
            known = ", ".join(task.splits)
            raise UsageError(f"--splits {split}: {state['run']['task']} has {known}")
    model = restore_model(task, arrays, state)
    with blas_threads(1):
        _evaluate(task, model, state, options)
    if out is not None:
        export_weights(out, arrays, state)
        print(f"weights written to {out}", file=sys.stderr)
    return 0


def _evaluate(task: Task, model: Module, state: dict, options) -> None:
    """Measure, examine, and print each result as soon as it is there."""
    width = terminal_width()
    if not options.json:
        print(f"{title_of(state)}; ", end="", flush=True)
    metrics: dict[str, float] = {}
    counts: dict[str, int] = {}
    for split in options.splits or task.splits:
        sums = task.evaluate(model, 0, 1, np, *task.naming(split))
        metrics |= task.named(split, sums)
        counts[split] = int(sums["loss"][1]) if "loss" in sums else 0
    if not options.json:
        print(_counted(task, counts), flush=True)
        for note in task.notes():
            print(f"note: {note}", flush=True)
        print(results_table(metrics, task.references(), width), flush=True)
    titles = getattr(task, "analysis_titles", {})
    analyses: Any = ()
    examined = task.splits[-1] in (options.splits or task.splits)
    if hasattr(task, "analyses") and examined and not options.metrics_only:
        analyses = check_given(task, "analyses", task.analyses(model), list)
    if options.json:
        exact: dict[str, Any] = {**metrics}
        for name, table in analyses:
            kept = {"metric": table.metric, "columns": table.columns}
            exact.setdefault("examinations", {})[name] = kept | {"rows": table.rows}
        # strict JSON: NaN and infinities become null
        print(json.dumps(json.loads(json_text(exact), parse_constant=lambda _: None)))
        return
    for name, found in analyses:
        asks = f": {titles[name]}" if name in titles else ""
        title = paragraph(f"{name}{asks}", width)
        print(f"\n{title}\n\n{aligned(cells(found), width)}", flush=True)


def _counted(task: Task, counts: dict[str, int]) -> str:
    """The number of examples, or of tokens if losses count those, in words."""
    name, _ = task.unit
    if name == Task.unit[0] or not any(counts.values()):
        name = "examples"
        counts = {each: task.examples(each) for each in counts}
        if len(numbers := {*counts.values()}) == 1:
            return f"{numbers.pop():,} {name}"
    return ", ".join(f"{n:,} {name} of {split}" for split, n in counts.items())
