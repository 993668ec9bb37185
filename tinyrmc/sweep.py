"""Train every combination of the values of some fields, under several seeds, many runs
at a time.

    python -m tinyrmc.sweep nth_farthest --grid model.mem_slots=1,4 model.num_heads=1,8 --seeds 0,1,2 --budget-minutes 120
    python -m tinyrmc.sweep nth_farthest --grid figure4_reduced                a grid that the task has a name for
    python -m tinyrmc.sweep nth_farthest ladder --grid model.forget_bias=1,2 --train.steps 30000      from a preset, with other flags
    python -m tinyrmc.sweep --resume runs/nth_farthest-sweep-1 --budget-minutes 60
    python -m tinyrmc.sweep --show runs/nth_farthest-sweep-1                   table and pictures of what is there by now
    mpiexec -n 9 python -m mpi4py.futures -m tinyrmc.sweep ...                 rank 0 hands out, eight train, on one machine or several

A combination under a seed is a cell, and a cell is an ordinary run directory inside the
sweep's, trained by `python -m tinyrmc.train` in a process of its own, what it prints
being in the .log beside it. As many cells as there are cores are trained at a time,
each by one worker: nothing keeps more cores busy, for the workers of one run wait for
each other. With fewer cells, each has several workers.

The budget is divided so that every cell gets the same time, and what some do not need
goes to those still to come, and then once more to those that were cut. A cell that
stays cut is evaluated as it is, and the table says how far it came. --resume goes on
with such cells, and with those that were broken off, bit for bit; what has finished
stays. A cell that fails, or a combination that cannot be, is told in the table, and the
others go on. Beside the table, results.png shows what was reached over the values of
the grid's second field, with a line for each of the first, and results_curves.png the
learning curves.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path

from . import __version__
from .commands import Options, Parser, parse_words, python, run_main
from .config import fields_of, flag_of, require_same
from .errors import RunError, UsageError, nearest
from .results.sweeps import Cell, finished, show
from .results.text import counted, duration, number
from .runs.machine import environment
from .runs.run import Run
from .training import discovery
from .training.checkpoints import task_from_dict
from .training.processes import Places
from .training.ranks import require_alone
from .training.workers import available_cores

WORTHWHILE = (
    0.5  # minutes: for less, cells that the budget has cut are not started again
)


# --- What is asked for ----------------------------------------------------------------


def read_grid(kind, words: list[str]) -> tuple[str | None, dict[str, list[str]]]:
    """(preset or None, {field: values}) from what --grid was given: FIELD=VALUE,VALUE
    ... or the name of one of the task's grids.
    """
    if len(words) == 1 and "=" not in words[0]:
        if words[0] not in kind.grids:
            known = (
                f" ({', '.join(kind.grids)}){nearest(words[0], kind.grids)}"
                if kind.grids
                else ""
            )
            raise UsageError(
                f"--grid: there is no grid named {words[0]!r}{known}; or give "
                "fields, as in --grid model.mem_slots=1,8"
            )
        _, preset, grid = kind.grids[words[0]]
        return preset, {
            field: [str(value) for value in values] for field, values in grid.items()
        }
    grid: dict[str, list[str]] = {}
    for word in words:
        field, equals, values = word.partition("=")
        field = field.replace("-", "_")
        if not equals or "" in (
            values := [value.strip() for value in values.split(",")]
        ):
            raise UsageError(
                f"--grid {word!r}: a value is empty; give FIELD=VALUE,VALUE, as in "
                "model.mem_slots=1,8"
            )
        if field in grid:
            raise UsageError(
                f"--grid names {field} twice; give all its values at once, as in "
                f"{field}={','.join([*grid[field], *values])}"
            )
        grid[field] = values
    return None, grid


def read_seeds(words: str) -> list[int]:
    """[0, 1, 2] from "0,1,2"."""
    if not re.fullmatch(r"\d+(,\d+)*", words) or len(set(words.split(","))) < len(
        words.split(",")
    ):
        raise UsageError(
            "--seeds takes different numbers with commas between them, as in 0,1,2, "
            f"not {words!r}"
        )
    return [int(word) for word in words.split(",")]


def flags(kind: type, values: dict[str, str]) -> list[str]:
    """The train command's flags that give the fields of a configuration these values."""
    words, types = [], fields_of(kind)
    for field, value in values.items():
        if types[field] is not bool:
            words += [flag_of(field), *value.split()]
        elif value.lower() in ("true", "false"):
            words.append(flag_of(field, no=value.lower() == "false"))
        else:
            raise UsageError(f"--grid: {field} is one of true, false, not {value!r}")
    return words


def combinations(described: dict) -> list[tuple[dict[str, str], list[str], str | None]]:
    """(values, train words, why it cannot be or None) of every combination.

    UsageError for a grid that is wrong.

    A value that can be with none of the others' values is wrong; one that can with some
    makes bad combinations of the rest.
    """
    task, preset, grid = described["task"], described["preset"], described["grid"]
    kind = discovery.load_task(task).Task
    default = kind.presets[preset][1]
    known = fields_of(type(default))
    for field in grid:
        if field not in known:
            raise UsageError(
                f"--grid: {task} has no field {field!r}{nearest(field, known)}; its "
                "--help lists them"
            )
    found, seen = [], {}
    for chosen in itertools.product(*grid.values()):
        values = dict(zip(grid, chosen, strict=True))
        words, refusal = [*described["words"], *flags(type(default), values)], None
        try:
            config, _ = parse_words(task, preset, default, Options(), list(words))
        except UsageError as error:
            refusal = re.sub(
                r" \(python -m \S+ .*--help \w+( them)?\)$", "", str(error)
            )
        else:
            if (same := seen.setdefault(repr(config), values)) is not values:
                twice = ", ".join(
                    f"{field}={same[field]},{values[field]}"
                    for field in grid
                    if same[field] != values[field]
                )
                raise UsageError(
                    "--grid names the same value twice: "
                    f"{twice or '='.join(next(iter(values.items())))}"
                )
        found.append((values, words, refusal))
    for field, values in grid.items():
        for value in values:
            refusals = [
                refusal for chosen, _, refusal in found if chosen[field] == value
            ]
            if None not in refusals:
                raise UsageError(f"--grid {field}={value}: {refusals[0]}")
    return found


def cells_of(described: dict, found: list, folder: Path) -> list[Cell]:
    """The cells of a sweep whose `combinations` are `found`, in the order in which they
    are trained: one seed of all, then the next.
    """
    workers = ["--workers", str(described["workers"])] if described["workers"] else []
    cells = []
    for seed in described["seeds"]:
        for values, words, _ in (
            combination for combination in found if combination[2] is None
        ):
            name = ",".join(
                [
                    *(f"{field}={value}" for field, value in values.items()),
                    f"seed={seed}",
                ]
            )
            start = [
                described["task"],
                described["preset"],
                *words,
                "--seed",
                str(seed),
                *workers,
            ]
            cells.append(
                Cell(values, seed, start, folder / re.sub(r"[^\w.,=+-]+", "_", name))
            )
    return cells


def _parser():
    parser = Parser(
        prog="python -m tinyrmc.sweep",
        usage="python -m tinyrmc.sweep TASK [PRESET] --grid FIELD=VALUE,VALUE ... "
        "[--flags]",
        description=__doc__.splitlines()[0],
        epilog="Flags of the task, such as --train.steps, and --device and --tf32 go to "
        "every run. `python -m tinyrmc.train TASK --help` "
        "shows them, and so the fields for --grid.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--grid",
        nargs="+",
        metavar="FIELD=VALUES",
        help="fields and values, as in model.mem_slots=1,8; or the name of a task's "
        "grid",
    )
    add("--seeds", metavar="N,N", help="the seeds of every combination (default: 0)")
    add(
        "--budget-minutes",
        type=_positive(float),
        metavar="M",
        help="about how long it all may take, when resumed from then on",
    )
    add(
        "--jobs",
        type=_positive(int),
        metavar="N",
        help="runs at a time (default: one a core, on a GPU one)",
    )
    add(
        "--workers",
        type=_positive(int),
        metavar="N",
        help="processes that share a run's batches (default: the cores that --jobs "
        "leaves)",
    )
    add(
        "--run",
        type=Path,
        metavar="DIR",
        help="the sweep's directory, which must not exist yet (default: the next "
        "runs/TASK-sweep-N)",
    )
    add("--resume", type=Path, metavar="DIR", help="go on with this sweep")
    add(
        "--show",
        type=Path,
        metavar="DIR",
        help="train nothing: the table and the pictures of what there is of this sweep",
    )
    add(
        "--against",
        choices=("steps", "samples", "hours"),
        default="steps",
        help="what the curves are drawn against",
    )
    beside = "FILE.json, FILE.png and FILE_curves.png beside it"
    add(
        "--out",
        type=Path,
        metavar="FILE.md",
        help=f"the table, with {beside} (default: results.md in the sweep's)",
    )
    return parser


def _positive(kind):
    def read(word):
        if not 0 < (value := kind(word)) < float("inf"):
            raise argparse.ArgumentTypeError(f"must be positive, not {word}")
        return value

    read.__name__ = (
        kind.__name__
    )  # for argparse's complaint of a word that is no number
    return read


def _asked(args: list[str]) -> tuple[dict, Run | None, argparse.Namespace]:
    """What a sweep's config.json says, the sweep to go on with or to show, and the
    options.
    """
    words = [args.pop(0) for _ in range(2) if args and not args[0].startswith("-")]
    options, rest = _parser().parse_known_args(args)
    for flag, instead in (("--seed", "--seeds"), ("--max-minutes", "--budget-minutes")):
        if any(word.split("=")[0].replace("_", "-") == flag for word in rest):
            raise UsageError(f"{flag} is of a single run; a sweep takes {instead}")
    if options.out is not None and options.out.suffix != ".md":
        raise UsageError(
            f"--out {options.out}: give a name that ends in .md; a .json and a .png "
            "are written beside it"
        )
    if options.resume and options.show:
        raise UsageError("--resume trains and --show does not; give one of them")
    path = options.resume or options.show
    run = Run.open(path) if path else None
    if run and "grid" not in run.config:
        raise RunError(
            f"{run.path} is not a sweep; go on with a single run by {python()} -m "
            f"tinyrmc.train --resume {run.path}"
        )
    if run and options.run:
        raise UsageError(
            f"--run {options.run} goes with a new sweep; {run.path} has its directory"
        )
    if not words and not run:
        raise UsageError(
            "the first word must be a task; `python -m tinyrmc.train` lists them"
        )
    before = run.config if run else {}
    task = words[0] if words else before["task"]
    kind = discovery.load_task(task).Task
    if not options.grid and not run:
        named = (
            f"; or one that has a name: {', '.join(kind.grids)}" if kind.grids else ""
        )
        raise UsageError(
            "give a grid of fields and values, as in --grid model.mem_slots=1,8 "
            f"model.num_heads=1,8{named}"
        )
    preset, grid = (
        read_grid(kind, options.grid) if options.grid else (None, before["grid"])
    )
    preset = (
        words[1]
        if len(words) > 1
        else before.get("preset") or preset or next(iter(kind.presets))
    )
    if preset not in kind.presets:
        raise UsageError(
            f"unknown preset {preset!r} of {task} "
            f"({', '.join(kind.presets)}){nearest(preset, kind.presets)}"
        )
    seeds = read_seeds(options.seeds) if options.seeds else before.get("seeds", [0])
    described = {
        "task": task,
        "preset": preset,
        "grid": grid,
        "seeds": seeds,
        "words": rest or before.get("words", []),
    }
    described["workers"] = options.workers or before.get("workers")
    if run:
        require_same(run.config, described, str(run.path))
    return described, run, options


# --- Training -------------------------------------------------------------------------


class Budget:
    """So many minutes for all cells, or None for as many as they take."""

    def __init__(self, minutes: float | None):
        self.minutes, self.began = minutes, time.monotonic()
        self.given: dict[
            Path, tuple[float, float]
        ] = {}  # when a cell was started, and for how long
        # what a start and a last evaluation have taken at most, beyond the minutes that
        # were given
        self.extra = 0.0

    def left(self) -> float:
        """The minutes that are left."""
        return (
            float("inf")
            if self.minutes is None
            else self.minutes - (time.monotonic() - self.began) / 60
        )

    def limit(self, cell: Cell, turns: int) -> list[str]:
        """The words that limit a cell's training to its share of what is left, when so
        many cells are to be trained one after the other.
        """
        if self.minutes is None:
            return []
        share = self.left() / turns
        minutes = max(share - self.extra, share / 2, 1e-6)
        self.given[cell.path] = time.monotonic(), minutes
        return ["--max-minutes", f"{minutes:.6g}"]

    def ended(self, cell: Cell) -> None:
        """A cell has come to its end."""
        if cell.path in self.given:
            began, minutes = self.given[cell.path]
            self.extra = max(self.extra, (time.monotonic() - began) / 60 - minutes)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code: 0, 1 if some cells failed, or 128 and
    the number of a signal that stopped it.
    """
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        _parser().print_help()
        return 0
    described, run, options = _asked(args)
    found = combinations(described)
    code = 0
    if options.show:
        require_alone("tinyrmc.sweep --show")
    else:
        run, code = _train(described, run, found, options)
    for path in show(
        run,
        found,
        cells_of(run.config, found, run.path),
        options.out or run.path / "results.md",
        options.against,
    ):
        print(path)
    return code


def _train(described: dict, run: Run | None, found: list, options) -> tuple[Run, int]:
    """Train what is not finished; returns the sweep and the exit code."""
    number = len(described["seeds"]) * sum(refusal is None for _, _, refusal in found)
    cores, gpu = available_cores(), any("cuda" in word for word in described["words"])
    with Places(options.jobs or (1 if gpu else min(number, cores))) as places:
        if run is None:
            alone = 1 if gpu or places.on_ranks else cores // places.count
            described["workers"] = options.workers or (
                None if places.count == 1 else max(1, alone)
            )  # None: as many as the work is worth
            surroundings = environment(__version__)
            surroundings["command"] = surroundings["command"].replace(
                "python -m", places.launch(), 1
            )
            run = Run.create(
                "runs",
                f"{described['task']}-sweep",
                described,
                surroundings,
                options.run,
            )
        with run.writing():
            cells = cells_of(described, found, run.path)
            todo = [cell for cell in cells if not finished(cell)]
            _announce(
                described,
                run,
                found,
                len(cells),
                len(todo),
                places.count,
                options.budget_minutes,
            )
            failed = _train_cells(todo, places, Budget(options.budget_minutes))
    if places.stopped:
        print(
            f"\n{signal.Signals(places.stopped).name}: stopped, and saved what was "
            "being trained"
        )
    if any(not finished(cell) for cell in cells):
        budget = (
            f" --budget-minutes {options.budget_minutes:g}"
            if places.stopped and options.budget_minutes
            else ""
        )
        print(
            f"go on with\n    {places.launch(python())} tinyrmc.sweep --resume "
            f"{shlex.quote(str(run.path))}{budget}",
            flush=True,
        )
    return run, 128 + places.stopped if places.stopped else int(failed)


def _train_cells(todo: list[Cell], places: Places, budget: Budget) -> bool:
    """Train cells, and those that the budget has cut again as long as it lasts; whether
    some failed.
    """
    number, ended, failed = len(todo), 0, set()

    def start(k, turns):
        return [
            "-m",
            "tinyrmc.train",
            *_words(todo[k]),
            *budget.limit(todo[k], turns),
        ], str(todo[k].log)

    while todo:
        for k, code in places.run(len(todo), start):
            cell, ended = todo[k], ended + 1
            budget.ended(cell)
            if code and not places.stopped:
                _note_failure(cell, code)
                failed.add(cell.path)
            print(
                f"{min(ended, number):>{len(str(number))}}/{number}  {cell.name}: "
                f"{_outcome(cell, code)}",
                flush=True,
            )
        todo = [cell for cell in todo if not finished(cell) and cell.path not in failed]
        if places.stopped or budget.left() < WORTHWHILE * -(-len(todo) // places.count):
            break
    return bool(failed)


def _announce(described, run, found, number, left, places, minutes):
    shape = " x ".join(str(len(values)) for values in described["grid"].values())
    refused = sum(refusal is not None for _, _, refusal in found)
    none = f"; {counted(refused, 'combination')} cannot be" if refused else ""
    workers = (
        f", {counted(described['workers'], 'worker')} each"
        if described["workers"]
        else ""
    )
    asked = (
        f"{shape} value{'' if shape == '1' else 's'}, "
        f"{counted(len(described['seeds']), 'seed')}"
    )
    print(
        f"{described['task']} {described['preset']}: {asked}: "
        f"{counted(number, 'run')}{none}"
    )
    print(f"  to do     {counted(left, 'run')}, {places} at a time{workers}")
    if minutes and left:
        print(
            f"  budget    {minutes:g} minutes, "
            f"{duration(60 * minutes / -(-left // places))} for each run and what "
            "others leave"
        )
    print(f"  sweep     {run.path}", flush=True)


def _words(cell: Cell) -> list[str]:
    """The words after `python -m tinyrmc.train` that begin a cell or go on with it."""
    run = cell.run()
    if run and (run.checkpoint.exists() or run.previous_checkpoint.exists()):
        return ["--resume", str(cell.path)]
    if cell.path.exists():
        shutil.rmtree(cell.path)  # it was killed before it saved anything
    return [*cell.words, "--run", str(cell.path)]


def _note_failure(cell, code):
    """Make sure that the log's last line says why (see Cell.failure): a traceback does
    not, and a killed process says nothing.
    """
    if cell.failure() is None:
        why = (
            f"ended by {signal.Signals(-code).name} (out of memory?)"
            if code < 0
            else f"exit code {code}; see {cell.log.name}"
        )
        with open(cell.log, "a", encoding="utf-8") as file:
            file.write(f"\nerror: {why}\n")


def _outcome(cell, code):
    run = cell.run()
    if code and (failure := cell.failure()):
        return f"failed: {failure}"
    if run is None or code:
        return "stopped"
    task, last = task_from_dict(run.config), run.metrics()[-1]
    name = f"test_{task.headline}"
    cut = (
        ""
        if last["step"] >= task.config.train.steps
        else f" of {task.config.train.steps:,}, cut by the budget,"
    )
    return (
        f"{name.replace('_', ' ')} {number(name, last[name])}, "
        f"{counted(last['step'], 'step')}{cut} in {duration(last['seconds'])}"
    )


if __name__ == "__main__":
    run_main(main)
