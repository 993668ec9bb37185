"""The table of results: `python -m tinyrmc.report runs/`, or some run directories.

Each configuration is a row, its seeds together: what the paper reports, what ours
reached, the floors under which nothing has been learnt, and what it took. Beside it
stand the paper's results, side by side, and which of them have not been run. `--out
results.md` writes that and the commands that would run them, results.json, which holds
every seed's numbers and curve, and results.png, the tables as a picture; the same runs
always give the same bytes.

A folder stands for the runs in it. A sweep's directory (see sweep.py) stands for the
sweep's runs, but the sweeps of a folder are left out: they have tables of their own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .commands import Parser, run_main
from .errors import UsageError
from .results.groups import find_runs
from .results.tables import (
    LEGEND,
    by_seed,
    commands,
    machines_in_words,
    markdown,
    picture,
    summary,
    tables,
    write,
)
from .training.ranks import require_alone

# --- The command ----------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.report")
    parser = Parser(
        prog="python -m tinyrmc.report", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUNS",
        help="run directories, and folders of them such as runs/",
    )
    parser.add_argument(
        "--seeds", action="store_true", help="show every seed and every metric instead"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.md",
        help="write the table there, and beside it FILE.json and FILE.png; a table "
        "written before is replaced",
    )
    options = parser.parse_args(argv)
    if options.out is not None and options.out.suffix != ".md":
        raise UsageError(
            f"--out {options.out}: give a name that ends in .md; a .json and a .png "
            "are written beside it"
        )
    if (
        options.out is not None
        and options.out.exists()
        and not options.out.with_suffix(".json").exists()
    ):
        raise UsageError(
            f"--out {options.out} exists and is no table of ours (there is no .json "
            "beside it); choose another name"
        )
    runs, left_out = find_runs(options.paths)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    found = summary(runs)
    if options.seeds:
        names = dict.fromkeys(group["task"] for group in found["groups"])
        words = "\n".join(
            by_seed(
                {
                    "groups": [
                        group for group in found["groups"] if group["task"] == name
                    ]
                }
            )
            for name in names
        )
    else:
        words = f"{markdown(found)}\n{LEGEND}\n"
    print(words, end="")
    if options.out is not None:
        from . import figures

        write(
            options.out, words if options.seeds else f"{words}{commands(found)}", found
        )
        note = f"{machines_in_words(found)} {LEGEND.replace('*', '')}"
        picture(options.out, lambda path: figures.tables(tables(found), path, note))
    return 0


if __name__ == "__main__":
    run_main(main)
