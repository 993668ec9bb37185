"""Draw the learning curves of finished or running runs, and what networks do.

    python -m tinyrmc plot RUN [RUN ...]
    python -m tinyrmc plot attention RUN       what a memory attends to, with tests
    python -m tinyrmc plot hops RUN            what a memory network looks at
    python -m tinyrmc plot examinations RUN [RUN ...]
    python -m tinyrmc plot level --seed N      a level of BoxWorld
    python -m tinyrmc plot episode RUN [--level N]

Runs of one configuration under several seeds make one line, their mean in a band from
the lowest to the highest; each core has the same colour in every picture. A single run
also gets the pictures its task draws of a trained network. `--against
steps,samples,hours` draws three panels side by side, like the paper's figure 5.

`attention` draws the paper's figure 3 and the gates of the same examples. It measures
over held-out sequences how much attention goes to the input and to the slots that took
in the reference, and tests how often the answer is still right when slots are wiped or
attention is cut: see `results/probes.py`. `hops` draws what the hops of a memory
network look at in stories, beside the sentences that the data name as supporting facts.
`examinations` draws what `evaluate` prints below the metrics, for several networks side
by side. `level` draws the board, what the player sees of it, and the tree of its keys
and locks, like the paper's figure 9. `episode` draws a level as a trained agent plays
it, one of those that `evaluate` counts. `--html FILE` writes a page to look at.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..backend import blas_threads
from ..config import json_text
from ..environments.box_world import BoxWorld
from ..errors import RunError, UsageError, UserError
from ..results import attending, episodes, memory_hops, probes
from ..results.findings import announced, draw, is_small, names, side_by_side
from ..results.groups import core_of, find_runs, parts, task_word, title_of
from ..results.plotting import draw_curves, draw_run, require_png
from ..text import aligned, paragraph, terminal_width
from ..training.checkpoints import open_checkpoint, restore_model
from ..training.ranks import require_alone
from ..training.rl.actors import ActingTask
from ..training.tables import Table
from .commands import Parser, add_data_dir, program
from .flags import add_flags, from_flags


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc plot")
    words = sys.argv[1:] if argv is None else argv
    if words and (other := OTHERS.get(words[0])):
        return other(words[1:])
    options = _parser().parse_args(words)
    runs, left_out = find_runs(options.runs, options.data_dir)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    if len(runs) == 1 and options.out is None:
        paths = draw_run(runs[0], options.against)
    else:
        out = options.out or Path("learning_curve.png")
        paths = [draw_curves(runs, out, options.against)]
    print(*paths, sep="\n")
    return 0


def _parser() -> Parser:
    parser = Parser(
        program("plot"),
        "Draw the learning curves of training runs.",
        epilog="`attention RUN` draws, measures and tests what a memory attends to,\n"
        "`hops RUN` what a memory network looks at, `examinations RUN` what evaluate\n"
        "examines, `level` a level of BoxWorld, `episode RUN` one that an agent\n"
        "plays: see attention --help and so on.",
    )
    _add_runs(
        parser,
        "run directory, or a folder of them; several seeds of one configuration make "
        "one line",
        "FILE",
        "write the learning curve alone to this PNG file, replaced if it exists "
        "(default: learning_curve.png, in the run's directory with its other pictures "
        "or, for several runs, in the current one)",
    )
    parser.add_argument(
        "--against",
        type=lambda words: tuple(words.split(",")),
        default=("steps",),
        metavar="AXIS,AXIS",
        help="draw the curves against steps (the default), samples or hours, or what "
        "the task counts its samples in (tokens, world_steps); against several of "
        "these, only the task's headline is drawn",
    )
    return parser


def _add_runs(parser: Parser, runs: str, takes: str, out: str) -> None:
    """Some runs, and where their pictures go, with what the help says of them."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help=runs)
    parser.add_argument("--out", type=Path, metavar=takes, help=out)
    add_data_dir(parser)


# --- What a memory attends to ---------------------------------------------------------


def attention_main(argv: list[str]) -> int:
    """The command line after `attention`; returns the exit code."""
    parser = _of_one_run(
        "attention",
        "Draw, measure and test what a trained memory attends to.",
        "attention*.png and attention.json",
    )
    says = "held-out sequences to measure over (default: 10,000)"
    parser.add_argument("--sequences", type=int, default=10_000, metavar="N", help=says)
    options = parser.parse_args(argv)
    if options.sequences < 2:
        raise UsageError(
            f"--sequences must be at least 2, not {options.sequences}: each sequence "
            "is compared with another"
        )
    _check_places(options.out, options.html)
    task, arrays, state = open_checkpoint(options.run, options.data_dir)
    model, run = restore_model(task, arrays, state), state["run"]
    title = title_of(state)
    with blas_threads(1):
        shown = _questions(task, model, run["task"], options.run)
        measured = f"{options.sequences:,} held-out sequences"
        print(f"{title}: measuring over {measured}", file=sys.stderr)
        found = probes.analyse(model, probes.held_out(task, options.sequences))
        described = attending.tables(found, task.references())
        kept = {"run": {**run, "step": state["step"]}, **found}
        kept["floors"] = task.references()
        folder = options.out or _folder_of(options.run, "attention")
        paths = _draw(model, shown, kept, folder)
        if options.html is not None:
            chosen = shown.take(attending.to_show(model, shown))
            seen = probes.traces(model, chosen.inputs)
            page = attending.page(title, chosen, seen, described, model)
            options.html.write_text(page, encoding="utf-8")
            paths.append(options.html)
    width = terminal_width()
    for heading, says, rows in described:
        print(f"{heading}\n{paragraph(says, width)}\n\n{aligned(rows, width)}\n")
    print(*paths, sep="\n")
    return 0


def _of_one_run(name: str, says: str, files: str, page: str = "") -> Parser:
    """The parser of a command that draws one trained network.

    files: what it draws. page: what its page does, in a few words.
    """
    parser = Parser(program(f"plot {name}"), says)
    add, says = parser.add_argument, "run directory, checkpoint.npz or weights file"
    add("run", type=Path, metavar="RUN", help=says)
    says = f"existing folder for {files}, replaced if they exist (default: the run's "
    says += f"directory, or, for a file outside of any, runs/<its name>-{name})"
    add("--out", type=Path, metavar="FOLDER", help=says)
    says = f"also write a self-contained page {page}to FILE (.html), replaced if it "
    says += "exists"
    add("--html", type=Path, metavar="FILE", help=says)
    add_data_dir(parser)
    return parser


def _check_places(out: Path | None, html: Path | None = None) -> None:
    if out is not None and not out.is_dir():
        raise UsageError(
            f"--out {out} is not a folder; make it first, or name one that exists"
        )
    if html and (html.suffix.lower() != ".html" or not html.parent.is_dir()):
        raise UsageError(
            f"--html {html}: give a file name that ends in .html, in a folder that "
            "exists"
        )


def _questions(task, model, name, path):
    """The held-out examples among which those to show are chosen.

    UsageError for a network whose core does not attend, RunError for a task that asks
    no questions.
    """
    lacks = ""
    if isinstance(task, ActingTask) and probes.has_attention(model):
        lacks = f"whose agent acts; {program('plot')} episode {path} "
        lacks += "shows what its memory attends to"
    elif not hasattr(model, "core"):
        lacks = "whose network has no one core to look into; give one of nth_farthest"
    elif not probes.has_attention(model):
        core = type(model.core).__name__
        lacks = f"whose core, {core}, has no slots that attend; give one of rmc"
    elif not hasattr(model, "head"):
        lacks = "whose network has no layer `head`; call its last layer that"
    if lacks:
        raise UsageError(f"{path} is a run of {name!r}, {lacks}")
    try:
        return probes.held_out(task, attending.SHOWN)
    except RunError as error:
        raise RunError(
            f"{path} is a run of {name!r}, whose attention cannot be analysed: {error}"
        ) from error


def _folder_of(network: Path, what: str) -> Path:
    """The folder of the pictures: to the run, or to a folder with the file's name."""
    if network.is_dir():
        return network
    if (network.parent / "config.json").exists():
        return network.parent
    return Path("runs", f"{network.stem}-{what}")


def _draw(model, shown, found, folder) -> list[Path]:
    """The pictures and attention.json, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    three = shown.take(probes.cases(shown))
    seen = probes.traces(model, three.inputs)
    paths = [
        *attending.draw_maps(three, seen, folder),
        *attending.draw_gates(three, seen, folder),
        *attending.draw_measures(found, found["floors"], folder),
        folder / "attention.json",
    ]
    paths[-1].write_text(json_text(found, indent=1) + "\n", encoding="utf-8")
    return paths


# --- What the hops of a memory network look at ----------------------------------------


def hops_main(argv: list[str]) -> int:
    """The command line after `hops`; returns the exit code."""
    parser = _of_one_run(
        "hops",
        "Draw and count what the hops of a memory network look at.",
        "hops_task_K.png, one for each task",
        page="that reads what you type ",
    )
    says = "this task alone, of a run that has several (default: all of them)"
    parser.add_argument("--task", type=int, metavar="K", help=says)
    options = parser.parse_args(argv)
    _check_places(options.out, options.html)
    task, arrays, state = open_checkpoint(options.run, options.data_dir)
    run, model = state["run"], restore_model(task, arrays, state)
    title = title_of(state)
    with blas_threads(1):
        try:
            if not hasattr(task, "readings"):
                raise UserError(
                    "it has no memory network that reads stories; give one of babi"
                )
            readings = [*task.readings(model, options.task)]
        except UserError as error:
            raise UsageError(
                f"{options.run} is a run of {run['task']!r}: {error}"
            ) from error
        if options.html is not None and len(readings) > 1:
            raise UsageError(
                f"--html: {options.run} has {len(readings)} networks, and a page holds "
                "one; choose its task with --task"
            )
        folder = options.out or _folder_of(options.run, "hops")
        folder.mkdir(parents=True, exist_ok=True)
        paths = [
            memory_hops.draw(reading, task, folder / f"hops_task_{task}.png")
            for reading in readings
            for task in np.unique(reading.tasks).tolist()
            if options.task in (None, task)
        ]
        if options.html is not None:
            page = memory_hops.page(title, readings[0], options.task)
            options.html.write_text(page, encoding="utf-8")
            paths.append(options.html)
    width = terminal_width()
    print(f"{title}\n{paragraph(memory_hops.SAYS, width)}\n{memory_hops.CAVEAT}\n")
    print(f"{aligned(memory_hops.table(readings, options.task), width)}\n")
    print(*paths, sep="\n")
    return 0


# --- What a task examines -------------------------------------------------------------


def examinations_main(argv: list[str]) -> int:
    """The command line after `examinations`; returns the exit code."""
    parser = Parser(
        program("plot examinations"),
        "Draw what a task examines of trained networks, side by side.",
    )
    _add_runs(
        parser,
        "run directories, checkpoints or weights files, of one task",
        "FOLDER",
        "existing folder for the pictures, replaced if they exist (default: the run's "
        "directory; of several runs the current folder)",
    )
    options = parser.parse_args(argv)
    _check_places(options.out)
    found, cores, common = _examine(options.runs, options.data_dir)
    alone = len(options.runs) == 1 and options.runs[0].is_dir()
    folder = options.out or (options.runs[0] if alone else Path())
    width = terminal_width()
    for name, of_networks in found.items():
        if is_small(of_networks):
            rows = aligned(side_by_side(of_networks), width)
            print(f"{paragraph(f'{name}: {common}', width)}\n\n{rows}\n")
        else:
            path = draw(name, of_networks, folder, cores, common)
            print(path)
    return 0


def _examine(
    paths: list[Path], data_dir: Path | None
) -> tuple[dict[str, dict[str, Table]], list[str | None], str]:
    """({examination: {network: what was found}}, the core of each network, what the
    networks have in common).
    """
    paths = [*dict.fromkeys(paths)]
    opened = [open_checkpoint(path, data_dir) for path in paths]
    tasks = [task_word(state["run"]) for *_, state in opened]
    if len({*tasks}) > 1:
        raise RunError(
            f"these are runs of different tasks ({', '.join(dict.fromkeys(tasks))}); "
            "draw them one by one"
        )
    cores = [core_of(state["run"]) for *_, state in opened]
    common, own = names([_said(state) for *_, state in opened])
    found: dict[str, dict[str, Table]] = {}
    for path, core, name, (task, arrays, state) in zip(
        paths, cores, own, opened, strict=True
    ):
        label = name or core or state["run"]["preset"]
        label = f"{label} ({path})" if own.count(name) > 1 else label
        model = restore_model(task, arrays, state)
        if not hasattr(task, "analyses"):
            continue
        tables = task.analyses(model)
        if titles := getattr(task, "analysis_titles", {}):
            tables = announced(f"examining {path}", titles, tables)
        with blas_threads(1):
            for examination, table in tables:
                found.setdefault(examination, {})[label] = table
    if not found:
        raise RunError(f"the task {tasks[0]!r} has nothing to examine")
    return found, cores, common


def _said(state: dict) -> list[str]:
    """A network in words: the parts of its command, its seed and its step."""
    run = state["run"]
    words = dict.fromkeys(parts(run))  # a preset may have its core's name
    return [*words, f"seed {run['seed']}", f"step {state['step']:,}"]


# --- A level of BoxWorld --------------------------------------------------------------


@dataclass(frozen=True)
class LevelConfig:
    """Settings of a level, as when training box_world."""

    solution: tuple[int, int] = (1, 5)
    """locks from the loose key to the gem: the least and the most"""
    distractors: tuple[int, int] = (0, 5)
    """branches that lead nowhere: the least and the most"""
    distractor_length: tuple[int, int] = (1, 1)
    """boxes in each of them"""
    room: int = 12
    """cells along a side of the room, without its wall: 12 is the paper's 14 x 14"""
    colours: int = 20
    """of keys and locks"""
    viewport: int = 5
    """side of the window around the player"""


def level_main(argv: list[str]) -> int:
    """The command line after `level`; returns the exit code."""
    default = LevelConfig()
    parser = Parser(
        program("plot level"),
        "Draw a level of BoxWorld: board, view, and the tree of its keys and locks.",
    )
    add, says = parser.add_argument, "which level (default: 0)"
    add("--seed", type=int, default=0, metavar="N", help=says)
    says = "the PNG file, replaced if it exists (default: level.png)"
    add("--out", type=Path, default=Path("level.png"), metavar="FILE", help=says)
    add_flags(parser, default, "world", "world.")
    options = parser.parse_args(argv)
    if options.seed < 0:
        raise UsageError(f"--seed must not be negative, not {options.seed}")
    require_png(options.out)
    asked = vars(from_flags(default, options, "world."))
    solution = asked.pop("solution")
    world = BoxWorld(solution, **asked, levels=1, seed=options.seed)
    from ..results.figures import draw_level

    path = draw_level(options.out, world, 0)
    print(path)
    return 0


# --- A level that an agent plays ------------------------------------------------------


def episode_main(argv: list[str]) -> int:
    """The command line after `episode`; returns the exit code."""
    parser = _of_one_run(
        "episode",
        "Draw a held-out level as a trained agent plays it.",
        "episode_N.png and episode_N.gif",
    )
    which = parser.add_mutually_exclusive_group()
    says = "number of the held-out level (default: 0)"
    which.add_argument("--level", type=int, default=0, metavar="N", help=says)
    says = "the first level that it does not solve"
    which.add_argument("--wrong", action="store_true", help=says)
    says = "it takes the likeliest action, instead of drawing one from its policy"
    parser.add_argument("--greedy", action="store_true", help=says)
    options = parser.parse_args(argv)
    _check_places(options.out, options.html)
    opened, arrays, state = open_checkpoint(options.run, options.data_dir)
    run = state["run"]
    task = episodes.require_world(opened, run["task"], options.run)
    model = restore_model(task, arrays, state)
    title = title_of(state)
    with blas_threads(1):
        if options.wrong:
            episode = episodes.failed(task, model, options.greedy)
        else:
            episode = episodes.record(task, model, options.level, options.greedy)
    folder = options.out or _folder_of(options.run, "episode")
    folder.mkdir(parents=True, exist_ok=True)
    paths = episodes.draw(episode, folder, title)
    if options.html is not None:
        page = episodes.page(title, episode)
        options.html.write_text(page, encoding="utf-8")
        paths.append(options.html)
    print(title, f"{episode.says}.", sep="\n")
    print(*paths, sep="\n")
    return 0


# what else can be drawn, by the first word
OTHERS = {
    "attention": attention_main,
    "hops": hops_main,
    "examinations": examinations_main,
    "level": level_main,
    "episode": episode_main,
}
