"""Draw the learning curves of finished or running runs: `python -m tinyrmc.plot RUN
[RUN ...]`.

Runs of one configuration under several seeds make one line, their mean in a band from
the lowest to the highest; other configurations make other lines, and each core has the
same colour in every picture. A single run also gets the pictures its task draws of a
trained network, such as attention maps. With `--against samples` or `--against hours`
the curves stand over the examples seen, or over the time it took on the machine that
trained them; `--against steps,samples,hours` draws three panels side by side, as the
paper's figure 5. `python -m tinyrmc.plot attention RUN` draws, measures and tests what
a memory attends to. RUN is a run directory, a checkpoint.npz or a weights file of a
core whose slots attend. Drawn are the paper's figure 3 (the reference first, in the
middle, last) and the gates of the same examples; measured over held-out sequences is
how much attention goes to the input and to the slots that took in the reference; tested
is how often the answer is still right when slots are wiped or attention is cut. What
each of these means exactly, `results/probes.py` says at its top. `--html FILE` also
writes a page to look at, which needs no network.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path

from .backend import blas_threads
from .commands import Parser, run_main
from .errors import RunError, UsageError
from .results import attention, probes
from .results.curves import draw_curves, draw_run
from .results.groups import command_words, find_runs
from .results.text import aligned
from .training.checkpoints import open_checkpoint, restore_model
from .training.ranks import require_alone


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc.plot")
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["attention"]:
        return attention_main(words[1:])
    more = (
        "`attention RUN` draws, measures and tests what a memory attends to: see "
        "attention --help."
    )
    parser = Parser(
        prog="python -m tinyrmc.plot",
        description="Draw the learning curves of training runs.",
        epilog=more,
    )
    says = (
        "run directory, or a folder of them; several seeds of one configuration make "
        "one line"
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help=says)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the learning curve alone to this PNG file, replaced if it exists "
        "(default: learning_curve.png, in the run's directory with its other "
        "pictures or, for several runs, in the current one)",
    )
    parser.add_argument(
        "--against",
        type=_axes,
        default=("steps",),
        metavar="AXIS,AXIS",
        help="draw the curves against steps (the default), samples or hours, or "
        "several of these; then of the task's headline alone",
    )
    options = parser.parse_args(argv)
    runs, left_out = find_runs(options.runs)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if len(runs) == 1 and options.out is None:
        paths = draw_run(runs[0], options.against)
    else:
        paths = [
            draw_curves(
                runs, options.out or Path("learning_curve.png"), options.against
            )
        ]
    print(*paths, sep="\n")
    return 0


def _axes(words):
    axes = tuple(words.split(","))
    if not set(axes) <= {"steps", "samples", "hours"} or len(set(axes)) < len(axes):
        raise argparse.ArgumentTypeError(
            "takes steps, samples, hours, or several with commas between, not "
            f"{words!r}"
        )
    return axes


# --- What a memory attends to


def attention_main(argv: list[str]) -> int:
    """The command line after `attention`; returns the exit code."""
    parser = Parser(
        prog="python -m tinyrmc.plot attention",
        description="Draw, measure and test what a trained memory attends to.",
    )
    parser.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="run directory, checkpoint.npz or weights file",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="existing folder for attention*.png and attention.json, replaced if they "
        "exist (default: the run's directory, or for a file "
        "that lies in none runs/<its name>-attention)",
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write a self-contained page to FILE (.html), replaced if it exists",
    )
    parser.add_argument(
        "--sequences",
        type=int,
        default=10_000,
        metavar="N",
        help="held-out sequences to measure over (default: 10,000)",
    )
    options = parser.parse_args(argv)
    if options.sequences < 2:
        raise UsageError(
            f"--sequences must be at least 2, not {options.sequences}: each sequence "
            "is compared with another"
        )
    if options.out is not None and not options.out.is_dir():
        raise UsageError(
            f"--out {options.out} is not a folder; make it first, or name one that "
            "exists"
        )
    if options.html is not None and (
        options.html.suffix.lower() != ".html" or not options.html.parent.is_dir()
    ):
        raise UsageError(
            f"--html {options.html}: give a file name that ends in .html, in a "
            "folder that exists"
        )

    task, arrays, state = open_checkpoint(options.run)
    model = restore_model(task, arrays, state)
    if not probes.has_attention(model):
        core = type(getattr(model, "core", model)).__name__
        says = (
            f"its core, {core}, has no slots that attend; give one of rmc or rmc_paper"
        )
        raise UsageError(f"{options.run} has no attention to draw: {says}")
    run = state["run"]
    title = (
        f"{run['task']} {command_words(run)}, seed {run['seed']}, step "
        f"{state['step']:,}"
    )
    with blas_threads(1):
        try:
            shown = probes.held_out(task, attention.SHOWN)
        except RunError as error:
            raise RunError(
                f"{options.run} is a run of {run['task']!r}, whose attention cannot "
                f"be analysed: {error}"
            ) from error
        three = attention.look(model, shown.take(probes.cases(shown)))
        print(
            f"{title}: measuring over {options.sequences:,} held-out sequences",
            file=sys.stderr,
        )
        found = probes.analyse(model, probes.held_out(task, options.sequences))
        described = attention.tables(found, task.references())
        folder = options.out or _folder_of(options.run)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            paths = [
                *attention.draw_maps(*three, folder),
                *attention.draw_gates(*three, folder),
                *attention.draw_measures(found, task.references(), folder),
            ]
            paths.append(folder / "attention.json")
            kept = {
                "run": {**run, "step": state["step"]},
                **found,
                "floors": task.references(),
            }
            paths[-1].write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
            if options.html is not None:
                paths.append(options.html)
                options.html.write_text(
                    attention.page(
                        title,
                        attention.look(
                            model, shown.take(attention.to_show(model, shown))
                        ),
                        described,
                    ),
                    encoding="utf-8",
                )
        except OSError as error:
            raise RunError(
                f"cannot write {error.filename}: {error.strerror}; give a writable "
                "place with --out and --html"
            ) from error
    for heading, says, rows in described:
        print(f"{heading}\n{textwrap.fill(says, 110)}\n\n{aligned(rows)}\n")
    print(*paths, sep="\n")
    return 0


def _folder_of(network: Path) -> Path:
    """Where the pictures of a run go, or of a file: into its run's directory, else into
    a folder with its name.
    """
    if network.is_dir():
        return network
    return (
        network.parent
        if (network.parent / "config.json").exists()
        else Path("runs", f"{network.stem}-attention")
    )


if __name__ == "__main__":
    run_main(main)
