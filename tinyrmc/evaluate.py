"""Evaluate a trained run on its task's held-out examples: `python -m tinyrmc.evaluate
RUN`.

RUN is a run directory, a checkpoint.npz, or a weights file. With `--export FILE` the
weights and the configuration are also written to a small file that `tinyrmc.load` and
this command read.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from .backend import blas_threads
from .commands import Parser, run_main
from .errors import UsageError
from .results.groups import command_words
from .results.text import results_table
from .training.checkpoints import export_weights, open_checkpoint, restore_model
from .training.ranks import require_alone
from .training.task import Totals


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.evaluate")
    parser = Parser(
        prog="python -m tinyrmc.evaluate", description=__doc__.splitlines()[0]
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
    options = parser.parse_args(argv)
    if options.export is not None and options.export.suffix != ".npz":
        raise UsageError(f"--export {options.export}: give a name that ends in .npz")
    if options.export is not None and options.export.exists():
        raise UsageError(f"{options.export} exists already; choose another --export")
    task, arrays, state = open_checkpoint(options.run)
    model = restore_model(task, arrays, state)
    with blas_threads(1):
        metrics = Totals(task.evaluate(model)).means("test_")
    if options.json:
        print(
            json.dumps(
                {
                    name: value if math.isfinite(value) else None
                    for name, value in metrics.items()
                }
            )
        )
    else:
        described = state["run"]
        name = (
            f"{described['task']} {command_words(described)}, seed {described['seed']}"
        )
        print(f"{name}, step {state['step']:,}; {task.test_examples:,} examples")
        print(results_table(metrics, task.references()))
    if options.export is not None:
        export_weights(options.export, arrays, state)
        print(f"weights written to {options.export}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    run_main(main)
