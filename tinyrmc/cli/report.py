"""The table of results of some runs.

    python -m tinyrmc report runs/
    python -m tinyrmc report runs/ --out results.md
    python -m tinyrmc report runs/ --out results.csv

Each configuration is a row, its seeds together: what the paper reports, what ours
reached, the floors under which nothing has been learnt, and what it took. Beside it
stand the results of the paper, with ours where they were run.

`--out results.md` writes that, and the commands that would train what was not run; and
results.json, which holds every seed's numbers and curve. `--out results.csv` writes the
numbers alone, for a spreadsheet or a program: a row for each configuration, with
`--seeds` one for each run. The same runs always give the same bytes.

A folder stands for the runs in it. A sweep's directory stands for the sweep's runs, but
the sweeps of a folder are left out: they have tables of their own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..results.groups import find_runs
from ..results.tables import check_out, show
from .commands import Parser, add_places, program


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(program("report"), "The table of results of some runs.")
    add = parser.add_argument
    says = "run directories, and folders of them such as runs/"
    add("paths", nargs="+", type=Path, metavar="RUNS", help=says)
    says = "show every seed instead, by the main metrics"
    add("--seeds", action="store_true", help=says)
    says = "the weights that did best on the validation set, not the last ones"
    add("--best", action="store_true", help=says)
    says = "write the table there (.md, or .csv for the numbers alone), and beside it "
    says += "a .json; a table written before is replaced"
    add("--out", type=Path, metavar="FILE", help=says)
    add_places(parser)
    options = parser.parse_args(argv)
    out = options.out
    if out is not None:
        check_out(out)
    runs, left_out = find_runs(options.paths, options.data_dir)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    show(runs, out, options.seeds, options.best)
    return 0
