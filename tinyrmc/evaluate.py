"""Evaluate a trained run on its task's held-out examples.

    python -m tinyrmc.evaluate RUN

RUN is a run directory, a checkpoint.npz, or a weights file. With `--export FILE` the
weights and the configuration are also written to a small file that `tinyrmc.load` and
this command read.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from .backend import blas_threads
from .commands import Parser, add_data_dir, program, run_main
from .errors import UsageError
from .results.groups import command_words
from .results.text import results_table, terminal_width
from .training.checkpoints import export_weights, open_checkpoint, restore_model
from .training.ranks import require_alone


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.evaluate")
    options = _parser().parse_args(argv)
    _check_export(options.export)
    task, arrays, state = open_checkpoint(options.run, options.data_dir)
    model = restore_model(task, arrays, state)
    with blas_threads(1):
        metrics: dict[str, float] = {}
        for split in task.splits:
            sums = task.evaluate(model, 0, 1, np, *task.naming(split))
            metrics |= task.named(split, sums)
    if options.json:
        print(_as_json(metrics))
    else:
        run = state["run"]
        name = f"{run['task']} {command_words(run)}, seed {run['seed']}"
        print(f"{name}, step {state['step']:,}; {task.test_examples:,} examples")
        print(results_table(metrics, task.references(), terminal_width()))
    if options.export is not None:
        export_weights(options.export, arrays, state)
        print(f"weights written to {options.export}", file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(
        program("evaluate"), "Evaluate a trained run on its held-out examples."
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="run directory, checkpoint.npz or weights file",
    )
    parser.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write the weights and the configuration, nothing else, to FILE (.npz)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the metrics as one JSON object instead of a table",
    )
    add_data_dir(parser)
    return parser


def _check_export(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix != ".npz":
        raise UsageError(f"--export {path}: give a name that ends in .npz")
    if path.exists():
        raise UsageError(f"{path} exists already; choose another --export")


def _as_json(metrics: dict[str, float]) -> str:
    """Strict JSON: NaN and infinities become null."""
    finite = {k: v if math.isfinite(v) else None for k, v in metrics.items()}
    return json.dumps(finite)


if __name__ == "__main__":
    run_main(main)
