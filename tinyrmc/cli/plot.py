"""Draw the learning curves of finished or running runs, and what networks do.

    python -m tinyrmc plot RUN [RUN ...]
    python -m tinyrmc plot attention RUN       where a memory attends, with tests
    python -m tinyrmc plot hops RUN            where a memory network looks
    python -m tinyrmc plot analyses RUN [RUN ...]
    python -m tinyrmc plot episode RUN [--level N]

Runs of one configuration under several seeds make one line, their mean in a band from
the lowest to the highest; each core has the same colour in every picture. A single run
also gets the pictures its task draws of a trained network. `--against
steps,samples,hours` draws three panels side by side, like the paper's figure 5. `--out
figure.pdf`, or .svg, writes the curves for a paper; `attention` and `analyses` take
`--format pdf`.

`attention` draws the paper's figure 3. It measures over held-out sequences how much
attention goes to the input and to the slots that took in the reference, and tests how
often the answer is still right when slots are wiped or attention is cut: see
`results/probes.py`. `hops` counts how often the hops of a memory network look at the
sentences that the data name as supporting facts. `analyses` draws what `evaluate`
prints below the metrics, for several networks side by side. `episode` writes a page
on which a trained agent plays a level, one of those that `evaluate` counts. With
`--html FILE` you get a page of `attention` and `hops`, too.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..backend import blas_threads
from ..backend.files import replace
from ..config import json_text
from ..errors import RunError, UsageError, UserError
from ..results import attending, memory_hops, probes
from ..results.findings import draw, names, together
from ..results.groups import core_of, find_runs, parts, task_word, title_of
from ..results.plotting import draw_curves, draw_run
from ..results.text import aligned, paragraph, terminal_width
from ..training.mistakes import check_given
from ..training.networks import open_checkpoint, restore_model
from ..training.run import explained, task_from_dict
from ..training.telling import Table
from .commands import (
    Parser,
    add_places,
    at_least,
    html_file,
    program,
)

TAKES = "run directory, checkpoint.npz or weights file"


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words and (other := OTHERS.get(words[0])):
        return other(words[1:])
    parser = Parser(
        program("plot"),
        "Draw the learning curves of training runs.",
        epilog="`attention RUN` draws, measures and tests what a memory attends to,\n"
        "`hops RUN` what a memory network looks at, `analyses RUN` what evaluate\n"
        "examines, `episode RUN` a level that an agent plays: see attention --help\n"
        "and so on.",
    )
    add = parser.add_argument
    says = "run directory, or a folder of them; several seeds of one configuration "
    says += "make one line"
    action = add("runs", type=Path, nargs="+", metavar="RUN", help=says)
    action.completer = _others_and_files  # type: ignore[attr-defined]
    says = (
        "write the learning curve alone to this PNG, PDF or SVG file, replaced if it "
    )
    says += (
        "exists (default: learning_curve.png, in the run's directory with its other "
    )
    says += "pictures or, for several runs, in the folder that they are all in)"
    add("--out", type=Path, metavar="FILE", help=says)
    says = "draw the curves against steps (the default), samples or hours, or what the "
    says += "task counts its samples in (tokens, world_steps); against several of "
    says += "these, only the task's headline is drawn"
    add("--against", default="steps", metavar="AXIS,AXIS", help=says)
    add_places(parser)
    options = parser.parse_args(words)
    against = options.against.split(",")
    runs, left_out = find_runs(options.runs, options.data_dir)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if len(runs) == 1 and options.out is None:
        paths = draw_run(runs[0], against)
    else:
        out = options.out or _beside([r.path for r in runs]) / "learning_curve.png"
        paths = [draw_curves(runs, out, against)]
    print(*paths, sep="\n")
    return 0


def _others_and_files(prefix: str, parsed_args: Any, **_: Any) -> list[str]:
    """The words that a first word can become, for the Tab key."""
    from argcomplete.completers import FilesCompleter

    files = FilesCompleter()(prefix)
    return files if parsed_args.runs else [*OTHERS, *files]


def _beside(paths: list[Path]) -> Path:
    """The folder that several runs or files are all in."""
    folder = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


# --- What one trained network does ----------------------------------------------------


def _one_run(name: str, says: str, files: str = "", page: str = "") -> Parser:
    """The parser of a command about one trained network.

    files: what it draws, if anything. page: what its page does, in a few words.
    """
    parser = Parser(program(f"plot {name}"), says)
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help=TAKES)
    if files:
        says = f"folder for {files}, replaced if they exist (default: the "
        says += "run's directory, or, for a file outside of any, runs/<its name>-"
        says += f"{name})"
        add("--out", type=Path, metavar="FOLDER", help=says)
    says = f"write a self-contained page {page}to FILE (.html), replaced if it exists"
    add("--html", type=html_file, metavar="FILE", help=says)
    add_places(parser)
    return parser


def _add_format(parser: Parser) -> None:
    kinds, says = ("png", "pdf", "svg"), "the kind of picture (default: png)"
    parser.add_argument("--format", choices=kinds, default=kinds[0], help=says)


def _opened(parser: Parser, argv: list[str]) -> tuple[Any, Any, Any, dict]:
    """(options, task, model, checkpoint's state), from the words of a `_one_run`."""
    options = parser.parse_args(argv)
    task, arrays, state = open_checkpoint(options.run, options.data_dir)
    return options, task, restore_model(task, arrays, state), state


def _folder(options: Any, what: str) -> Path:
    """The folder of the pictures: to the run, or to a folder with the file's name."""
    network = options.run
    folder = options.out or (network if network.is_dir() else network.parent)
    if options.out is None and not (folder / "config.json").exists():
        folder = Path("runs", f"{network.stem}-{what}")
    with explained(f"write into {folder}", "choose another --out"):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    return folder


def attention_main(argv: list[str]) -> int:
    """The command line after `attention`; returns the exit code."""
    says = "Draw, measure and test what a trained memory attends to."
    parser = _one_run("attention", says, "the pictures and attention.json")
    add = parser.add_argument
    says = "held-out sequences to measure over (default: 10,000)"
    add("--sequences", type=at_least(2), default=10_000, metavar="N", help=says)
    _add_format(parser)
    options, task, model, state = _opened(parser, argv)
    run = state["run"]
    title = title_of(state)
    with blas_threads(1):
        shown = _questions(task, model, run["task"], options.run)
        folder = _folder(options, "attention")
        measured = f"{options.sequences:,} held-out sequences"
        print(f"{title}: measuring over {measured}", file=sys.stderr)
        found = probes.analyse(model, probes.held_out(task, options.sequences))
        three = shown.take(probes.cases(shown))
        seen = probes.traces(model, three.inputs)
        floors = task.references()
        described = attending.tables(found, floors)
        kept = {"run": {**run, "step": state["step"]}, **found, "floors": floors}
        paths = [
            attending.draw_maps(three, seen, folder, options.format),
            attending.draw_tests(found, floors, folder, options.format),
            folder / "attention.json",
        ]
        replace(paths[-1], json_text(kept, indent=1) + "\n")
        if options.html is not None:
            chosen = shown.take(attending.to_show(model, shown))
            seen = probes.traces(model, chosen.inputs)
            page = attending.page(title, chosen, seen, described, model)
            replace(options.html, page)
            paths.append(options.html)
    width = terminal_width()
    for heading, says, rows in described:
        print(f"{heading}\n{paragraph(says, width)}\n\n{aligned(rows, width)}\n")
    print(*paths, sep="\n")
    return 0


def _questions(task: Any, model: Any, name: str, path: Path) -> probes.Questions:
    """The held-out examples among which those to show are chosen.

    UsageError for a network whose core does not attend, RunError for a task that asks
    no questions.
    """
    lacks, asks = "", hasattr(task, "questions")  # else `held_out` says so
    if hasattr(task, "held_out_world") and probes.has_attention(model):
        lacks = f"whose agent acts; {program('plot')} episode {path} "
        lacks += "shows what its memory attends to"
    elif asks and not probes.has_attention(model):
        core = type(getattr(model, "core", model)).__name__
        lacks = f"whose core, {core}, has no slots that attend; give one of rmc"
    elif asks and not hasattr(model, "head"):
        lacks = "whose network has no layer `head`; call its last layer that"
    if lacks:
        raise UsageError(f"{path} is a run of {name!r}, {lacks}")
    try:
        return probes.held_out(task, attending.SHOWN)
    except RunError as error:
        raise RunError(
            f"{path} is a run of {name!r}, whose attention cannot be analysed: {error}"
        ) from error


def hops_main(argv: list[str]) -> int:
    """The command line after `hops`; returns the exit code."""
    says = "Count what the hops of a memory network look at."
    parser = _one_run("hops", says, page="that shows it, and reads what you type ")
    says = "this task alone, of a run that has several (default: all of them)"
    parser.add_argument("--task", type=int, metavar="K", help=says)
    options, task, model, state = _opened(parser, argv)
    title = title_of(state)
    width = terminal_width()
    with blas_threads(1):
        try:
            if not hasattr(task, "readings"):
                raise UserError(
                    "it has no memory network that reads stories; for a text "
                    "`tinyrmc plot analyses` draws where hops look"
                )
            readings = [*task.readings(model, options.task)]
        except UserError as error:
            name = state["run"]["task"]
            raise UsageError(f"{options.run} is a run of {name!r}: {error}") from error
        if options.html is not None and len(readings) > 1:
            raise UsageError(
                f"--html: {options.run} has {len(readings)} networks, and a page holds "
                "one; choose its task with --task"
            )
        print(f"{title}\n{paragraph(memory_hops.SAYS, width)}\n{memory_hops.CAVEAT}\n")
        print(aligned(memory_hops.table(readings, options.task), width))
        if options.html is not None:
            page = memory_hops.page(title, readings[0], options.task)
            replace(options.html, page)
            print(f"\n{options.html}")
    return 0


def episode_main(argv: list[str]) -> int:
    """The command line after `episode`; returns the exit code."""
    from ..results import episodes  # of the wing of worlds and agents

    says = "Write a page on which a trained agent plays a held-out level."
    parser = _one_run("episode", says, "episode_N.html", "of another name ")
    which = parser.add_mutually_exclusive_group()
    says = "number of the held-out level (default: 0)"
    which.add_argument("--level", type=int, default=0, metavar="N", help=says)
    says = "the first level that it does not solve"
    which.add_argument("--wrong", action="store_true", help=says)
    says = "it takes the likeliest action, instead of drawing one from its policy"
    parser.add_argument("--greedy", action="store_true", help=says)
    options, task, model, state = _opened(parser, argv)
    if options.html and options.out:
        raise UsageError("--html says where the one page goes; leave --out out")
    episodes.require_world(task, state["run"]["task"], options.run)
    title = title_of(state)
    with blas_threads(1):
        if options.wrong:
            episode = episodes.failed(task, model, options.greedy)
        else:
            episode = episodes.record(task, model, options.level, options.greedy)
    name = f"episode_{episode.level}.html"
    out = options.html or _folder(options, "episode") / name
    replace(out, episodes.page(title, episode))
    print(title, f"{episode.says}.", out, sep="\n")
    return 0


# --- What tasks examine ---------------------------------------------------------------


def analyses_main(argv: list[str]) -> int:
    """The command line after `analyses`; returns the exit code."""
    says = "Draw what a task examines of trained networks, side by side."
    parser = Parser(program("plot analyses"), says)
    add = parser.add_argument
    says = "run directories, checkpoints or weights files, "
    add("runs", type=Path, nargs="+", metavar="RUN", help=f"{says}of one task")
    says = "folder for the pictures, replaced if they exist (default: the "
    says += "run's directory; of several runs the folder that they are all in)"
    add("--out", type=Path, metavar="FOLDER", help=says)
    _add_format(parser)
    add_places(parser)
    options = parser.parse_args(argv)
    opened = {path: open_checkpoint(path, options.data_dir) for path in options.runs}
    runs = [state["run"] for *_, state in opened.values()]
    if len(tasks := dict.fromkeys(map(task_word, runs))) > 1:
        raise RunError(
            f"these are runs of different tasks ({', '.join(tasks)}); draw them one by "
            "one"
        )
    said = [
        # a preset may have its core's name
        [*dict.fromkeys(parts(run)), f"seed {run['seed']}", f"step {state['step']:,}"]
        for run, (*_, state) in zip(runs, opened.values(), strict=True)
    ]
    common, own = names(said)
    cores = [*map(core_of, runs)]
    found: dict[str, dict[str, Table]] = {}
    for (path, (_, arrays, state)), core, name in zip(
        opened.items(), cores, own, strict=True
    ):
        task = task_from_dict(state["run"])  # its core, not the one that was read last
        label = name or core or state["run"]["preset"]
        label = f"{label} ({path})" if own.count(name) > 1 else label
        if not hasattr(task, "analyses"):
            raise RunError(f"the task {state['run']['task']!r} has nothing to examine")
        with blas_threads(1):
            given = task.analyses(restore_model(task, arrays, state))
            for examination, table in check_given(task, "analyses", given, list):
                found.setdefault(examination, {})[label] = table
    alone = len(opened) == 1 and options.runs[0].is_dir()
    folder = options.out or (options.runs[0] if alone else _beside(options.runs))
    folder.mkdir(parents=True, exist_ok=True)
    width = terminal_width()
    for name, of_networks in found.items():
        if path := draw(name, of_networks, folder, cores, common, options.format):
            print(path)
            continue
        title = paragraph(f"{name}: {common}", width)
        print(f"{title}\n\n{aligned(together(of_networks), width)}\n")
    return 0


# what else can be drawn, by the first word
OTHERS = {
    "attention": attention_main,
    "hops": hops_main,
    "analyses": analyses_main,
    "episode": episode_main,
}
