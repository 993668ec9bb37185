"""Train every combination of the values of some fields, under several seeds.

    python -m tinyrmc sweep nth_farthest --grid model.mem_slots=1,4 model.num_heads=1,8
    python -m tinyrmc sweep nth_farthest --grid figure4_reduced --seeds 0,1,2
    python -m tinyrmc sweep nth_farthest ladder --grid model.forget_bias=1,2
    python -m tinyrmc sweep --resume runs/nth_farthest-sweep-1 --budget-minutes 60
    python -m tinyrmc sweep --show runs/nth_farthest-sweep-1
    mpiexec -n 9 python -m mpi4py.futures -m tinyrmc sweep ...

A grid is a list of fields with their values, or the name of a grid that the task has.
`--show` trains nothing and shows what is there so far. Under mpiexec rank 0 hands out
the work and the others train, on one machine or several.

A combination under a seed is a cell. A cell is an ordinary run directory inside the
sweep's, trained by `python -m tinyrmc.train` in a process of its own; what that prints
goes to the .log beside it. As many cells as there are cores are trained at a time, each
by one worker: nothing keeps more cores busy, for the workers of one run wait for each
other. With fewer cells, each has several workers.

The budget is divided so that every cell gets the same time. What some do not need goes
to those still to come, and then once more to those that were cut. A cell that stays cut
is evaluated as it is, and the table says how far it came. --resume goes on with such
cells, and with those that were broken off, bit for bit; what has finished stays. If a
cell fails, or a combination is impossible, the table says so and the others go on.
Beside the table, results.png shows what was reached over the values of the grid's
second field, with a line for each of the first, and results_curves.png the learning
curves. With more than two dozen combinations, all three show only those that have
begun.
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
from typing import Any

from .. import __version__
from ..config import fields_of, flag_of, require_same, to_json, words_of_value
from ..errors import RunError, UsageError, UserError, counted, nearest
from ..results.sweeps import Cell, Combination, caption, finished, show
from ..results.tables import check_out
from ..runs.machine import environment
from ..runs.run import Run
from ..text import duration, number
from ..training import discovery
from ..training.checkpoints import is_over, relocated, task_from_dict
from ..training.presentation import idle_fields
from ..training.processes import Places
from ..training.ranks import require_alone
from ..training.task import Task
from ..training.workers import available_cores
from .commands import (
    Options,
    Parser,
    add_data_dir,
    leading_names,
    parse_words,
    program,
    python,
)

# Minutes. With less left, cells that the budget has cut are not started again.
WORTHWHILE = 0.5

# If this many runs at the start cannot begin, all for the same reason, no more are
# tried.
HOPELESS = 3


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code.

    That is 0; 1 if cells failed; or 128 plus the number of a signal that stopped it.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        _parser().print_help()
        return 0
    described, run, options = _asked(words)
    found, code, again = combinations(described), 0, ""
    if run is None:
        _refuse_idle(described, found)
    if options.show:
        require_alone("tinyrmc sweep --show")
    else:
        run, code, again = _train(described, run, found, options)
    assert run is not None
    cells = cells_of(described, found, run.path)
    out = options.out or run.path / "results.md"
    try:
        for path in show(run, found, cells, out, options.against):
            print(path)
    finally:  # below the table, where it is seen, and even if that cannot be written
        print(end=again, flush=True)
    return code


# --- What is asked for ----------------------------------------------------------------


def _parser() -> Parser:
    """Long because it is a list: one flag after another, with its help."""
    parser = Parser(
        program("sweep"),
        "Train every combination of the values of some fields, under several seeds.",
        usage="%(prog)s TASK [PRESET] --grid FIELD=VALUE,VALUE ... [--flags]",
        epilog="Flags of the task, such as --train.steps, and --device and --tf32 go\n"
        f"to every run. `{program('train')} TASK --help-all` shows them, and with\n"
        "them the fields for --grid.",
    )
    add = parser.add_argument
    add(
        "--grid",
        nargs="+",
        metavar="FIELD=VALUES",
        help="fields and values, as in model.mem_slots=1,8; or the name of a grid of "
        "the task's",
    )
    add(
        "--seeds",
        metavar="N,N",
        help="the numbers of the seeds of every combination, as in 0,1,2 (default: 0)",
    )
    add(
        "--budget-minutes",
        type=_positive(float),
        metavar="M",
        help="about how long it may take in all; a resumed sweep counts anew",
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
        help="what the learning curves in results_curves.png are drawn against: "
        "optimizer steps (the default), samples (the examples seen), or hours of "
        "training",
    )
    add(
        "--out",
        type=Path,
        metavar="FILE.md",
        help="the table, with FILE.json, FILE.png and FILE_curves.png beside it "
        "(default: results.md in the sweep's directory)",
    )
    add_data_dir(
        parser,
        "the folder with the data of the task, for all runs (default: where the task "
        "looks for them); for an earlier sweep, where they are now",
    )
    return parser


def _positive(kind):
    def read(word):
        if not 0 < (value := kind(word)) < float("inf"):
            raise argparse.ArgumentTypeError(f"must be positive, not {word}")
        return value

    read.__name__ = kind.__name__  # argparse names it if a word is no number
    return read


def _asked(words: list[str]) -> tuple[dict, Run | None, argparse.Namespace]:
    """What a sweep's config.json says, the sweep that is there or None, the options."""
    names, words = leading_names(words)
    options, rest = _parser().parse_known_args(words)
    _check_options(options, rest)
    run = _earlier(options)
    if run is None and not names:
        raise UsageError(
            f"the first word must be a task; `{program('train')}` lists them"
        )
    before = run.config if run else {}
    task, preset, grid = _what(names, options.grid, before)
    described = {
        **task,
        "preset": preset,
        "grid": grid,
        "seeds": before.get("seeds", [0]),
        "words": rest or before.get("words", []),
        "workers": options.workers or before.get("workers"),
    }
    if options.seeds is not None:
        described["seeds"] = read_seeds(options.seeds)
    if run:
        require_same(before, before | described, str(run.path))
    if options.out is not None:
        check_out(options.out, begins=caption(described))
    described |= _places(described, options, before)
    return described, run, options


def _places(described, options, before):
    """Where the data of all runs are, as config.json keeps it; nothing if not said."""
    if options.data_dir is None:
        return {key: before[key] for key in ("places",) if key in before}
    default = discovery.load_task_of(described).Task.presets[described["preset"]][1]
    described = described | to_json(default)
    return {"places": relocated(described, options.data_dir)["places"]}


def _check_options(options, rest):
    single = (("--seed", "--seeds"), ("--max-minutes", "--budget-minutes"))
    for flag, instead in single:
        if any(word.split("=")[0] == flag for word in rest):
            raise UsageError(f"{flag} is for a single run; a sweep takes {instead}")
    if options.resume and options.show:
        raise UsageError("--resume trains and --show does not; give one of them")


def _earlier(options) -> Run | None:
    """The sweep to go on with or to show."""
    path = options.resume or options.show
    if path is None:
        return None
    run = Run.open(path)
    if "grid" not in run.config:
        raise RunError(
            f"{path} is not a sweep; go on with a single run by "
            f"{python()} -m tinyrmc.train --resume {path}"
        )
    if options.run:
        raise UsageError(
            f"--run {options.run} goes with a new sweep; {path} has its directory"
        )
    return run


def _what(names, words, before):
    """(the task as config.json keeps it, preset, grid) of what was named, or was there
    `before`.
    """
    keys = ("task", "task_file")
    kept = {key: before[key] for key in keys if key in before}
    stored = discovery.stored(names[0]) if names else kept
    kind = discovery.load_task_of(stored).Task
    if not words and not before:
        known = ", ".join(kind.grids)
        named = f"; or one that has a name: {known}" if known else ""
        raise UsageError(
            "give a grid of fields and values, as in --grid model.mem_slots=1,8 "
            f"model.num_heads=1,8{named}"
        )
    preset, grid = read_grid(kind, words) if words else (None, before["grid"])
    preset = before.get("preset") or preset or next(iter(kind.presets))
    preset = names[1] if len(names) > 1 else preset
    if preset not in kind.presets:
        raise UsageError(
            f"unknown preset {preset!r} of {stored['task']} ({', '.join(kind.presets)})"
            f"{nearest(preset, kind.presets)}"
        )
    return stored, preset, grid


def read_grid(kind: Any, words: list[str]) -> tuple[str | None, dict[str, list[str]]]:
    """(preset or None, {field: values}) of what --grid was given.

    The words are FIELD=VALUE,VALUE ... or the name of one of the task's grids.
    """
    if len(words) == 1 and "=" not in words[0]:
        return _named_grid(kind, words[0])
    grid: dict[str, list[str]] = {}
    for word in words:
        name, _, listed = word.partition("=")
        field = name.replace("-", "_")
        values = [value.strip() for value in listed.split(",")]
        if "" in values:
            raise UsageError(
                f"--grid {word!r}: a value is empty; give FIELD=VALUE,VALUE, as in "
                "model.mem_slots=1,8"
            )
        if field in grid:
            every = ",".join([*grid[field], *values])
            raise UsageError(
                f"--grid names {field} twice; give all its values at once, as in "
                f"{field}={every}"
            )
        grid[field] = values
    return None, grid


def _named_grid(kind, name):
    if name not in kind.grids:
        listed = ", ".join(kind.grids)
        known = f" ({listed}){nearest(name, kind.grids)}" if listed else ""
        raise UsageError(
            f"--grid: there is no grid named {name!r}{known}; or give fields, as in "
            "--grid model.mem_slots=1,8"
        )
    _, preset, grid = kind.grids[name]
    words = {
        field: [" ".join(words_of_value(value)) for value in values]
        for field, values in grid.items()
    }
    return preset, words


def read_seeds(words: str) -> list[int]:
    """[0, 1, 2] from "0,1,2"."""
    listed = re.fullmatch(r"\d+(,\d+)*", words)
    seeds = [int(seed) for seed in words.split(",")] if listed else []
    if not seeds or len(set(seeds)) < len(seeds):
        raise UsageError(
            "--seeds takes different numbers with commas between them, as in 0,1,2, "
            f"not {words!r}"
        )
    return seeds


# --- Combinations and cells -----------------------------------------------------------


def combinations(described: dict) -> list[Combination]:
    """All combinations of a sweep's grid, in order.

    UsageError for a grid that is wrong. A value that goes with none of the others is
    wrong. One that goes with only some of them is not: its other combinations get a
    `refusal`.
    """
    task, preset, grid = described["task"], described["preset"], described["grid"]
    kind = discovery.load_task_of(described).Task
    default = kind.presets[preset][1]
    known = fields_of(type(default))
    given = {word.partition("=")[0] for word in described["words"]}
    for field in grid:
        if field not in known:
            near = nearest(field, known)
            raise UsageError(
                f"--grid: {task} has no field {field!r}; its --help-all lists them"
                f"{near}"
            )
        both = {flag_of(field), flag_of(field, no=True)} & given
        if both:
            raise UsageError(
                f"--grid gives {field} its values, and so does {min(both)}; leave one "
                "of them out"
            )
    found: list[Combination] = []
    seen: dict[str, dict[str, str]] = {}
    for chosen in itertools.product(*grid.values()):
        values = dict(zip(grid, chosen, strict=True))
        words = [*described["words"], *_flags(known, values)]
        refusal, idle = None, {}
        try:
            config, _ = parse_words(task, preset, default, Options(), words)
        except UsageError as error:
            refusal = error.reason
        else:
            _refuse_twice(values, seen.setdefault(repr(config), values))
            idle = _idle(kind(config), grid)
        found.append(Combination(values, words, refusal, idle))
    _refuse_useless(grid, found)
    return found


def _flags(types, values):
    """The train command's flags that give the fields these values."""
    words = []
    for field, value in values.items():
        if types[field] is not bool:
            words += [flag_of(field), *value.split()]
        elif value.lower() in ("true", "false"):
            words.append(flag_of(field, no=value.lower() == "false"))
        else:
            raise UsageError(f"--grid: {field} is one of true, false, not {value!r}")
    return words


def _refuse_twice(values, same):
    """UsageError if another combination, `same`, makes the same configuration."""
    if same is not values:
        pairs = [(field, same[field], values[field]) for field in values]
        twice = [f"{field}={one},{two}" for field, one, two in pairs if one != two]
        raise UsageError(
            "--grid names the same value twice: "
            f"{', '.join(twice) or '='.join(next(iter(values.items())))}"
        )


def _refuse_useless(grid, found):
    """UsageError for a value that goes with none of the others."""
    for field, values in grid.items():
        for value in values:
            refusals = [c.refusal for c in found if c.values[field] == value]
            if None not in refusals:
                raise UsageError(f"--grid {field}={value}: {refusals[0]}")


def _refuse_idle(described, found):
    """UsageError for a field whose values make no difference to any combination."""
    possible = [c for c in found if c.refusal is None]
    for field, values in described["grid"].items():
        if len(values) > 1 and all(field in c.idle for c in possible):
            raise UsageError(
                f"--grid {field}={','.join(values)}: {field} is without effect "
                f"{possible[0].idle[field]}, so its runs would be alike; leave it out, "
                "or choose a preset or flags with which it has one"
            )


def _idle(task: Task, grid: dict[str, list[str]]) -> dict[str, str]:
    """The fields of a grid that make no difference to a task, and where that is so."""
    found: dict[str, str] = {}
    for where, names in idle_fields(task).items():
        for field, values in grid.items():
            idle = any(f"{field}.".startswith(f"{name}.") for name in names)
            if idle and len(values) > 1:
                found.setdefault(field, where)
    return found


def cells_of(described: dict, found: list[Combination], folder: Path) -> list[Cell]:
    """The cells of a sweep in the order of training: one seed of all, then the next."""
    workers, cells = described["workers"], []
    data_dir = described.get("places", {}).get("data_dir")
    for seed in described["seeds"]:
        for values, words, refusal, _ in found:
            if refusal is not None:
                continue
            parts = [*(f"{field}={value}" for field, value in values.items())]
            name = re.sub(r"[^\w.,=+-]+", "_", ",".join([*parts, f"seed={seed}"]))
            start = [discovery.word_of(described), described["preset"], *words]
            start += ["--seed", str(seed)]
            start += ["--workers", str(workers)] if workers else []
            cells.append(Cell(values, seed, start, folder / name, data_dir))
    for cell in cells:
        _require_own(described, cell)
    return cells


def _require_own(described: dict, cell: Cell) -> None:
    """RunError if the run in a cell's directory is that of another cell."""
    if (run := cell.run()) is None:
        return
    task, preset = described["task"], described["preset"]
    default = discovery.load_task_of(described).Task.presets[preset][1]
    config, _ = parse_words(task, preset, default, Options(), cell.words[2:])
    own = task_from_dict(run.config).config
    saved = {"seed": run.config["seed"], "config": to_json(own)["config"]}
    asked = {"seed": cell.seed, "config": to_json(config)["config"]}
    require_same(saved, asked, str(cell.path))


# --- Training -------------------------------------------------------------------------


class Budget:
    """The minutes for all cells together, or None for as many as they take."""

    def __init__(self, minutes: float | None):
        self.minutes, self.began = minutes, time.monotonic()
        # when a cell was started, and for how long
        self.given: dict[Path, tuple[float, float]] = {}
        # the most that a start and a last evaluation took beyond the given minutes
        self.extra = 0.0

    def left(self) -> float:
        """The minutes that are left."""
        if self.minutes is None:
            return float("inf")
        return self.minutes - (time.monotonic() - self.began) / 60

    def limit(self, cell: Cell, turns: int) -> list[str]:
        """The words that limit a cell's training to its share of what is left.

        turns: how many cells are to be trained one after the other.
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
            took = (time.monotonic() - began) / 60
            self.extra = max(self.extra, took - minutes)

    def to_go(self, ended: int, total: int) -> str:
        """How long the rest will take if it is as quick as what has ended, in words."""
        if self.minutes is not None or ended >= total:
            return ""
        each = (time.monotonic() - self.began) / ended
        return f"; about {duration(each * (total - ended))} to go"


def _train(described, run: Run | None, found, options) -> tuple[Run, int, str]:
    """Train what is not finished; returns the sweep, the exit code, and what goes on
    with it, in words.
    """
    possible = sum(each.refusal is None for each in found)
    number, cores = len(described["seeds"]) * possible, available_cores()
    gpu = any("cuda" in word for word in described["words"])
    with Places(options.jobs or (1 if gpu else min(number, cores))) as places:
        if run is None:
            alone = 1 if gpu or places.on_ranks else max(1, cores // places.count)
            usual = None if places.count == 1 else alone  # None: what the work is worth
            described["workers"] = options.workers or usual
            run = _new_sweep(described, places, options)
        with run.writing():
            run = run.moved(described)
            cells = cells_of(described, found, run.path)
            todo = [cell for cell in cells if not finished(cell)]
            _announce(run, found, len(cells), len(todo), places.count, options)
            failed = _train_cells(todo, places, Budget(options.budget_minutes))
    if places.stopped:
        name = signal.Signals(places.stopped).name
        print(f"\n{name}: stopped, and saved what was being trained")
    again = ""
    if any(not finished(cell) for cell in cells):
        minutes = options.budget_minutes if places.stopped else None
        budget = f" --budget-minutes {minutes:g}" if minutes else ""
        launch = f"{places.launch(python())} tinyrmc sweep"
        command = f"{launch} --resume {shlex.quote(str(run.path))}{budget}"
        again = f"go on with\n    {command}\n"
    return run, 128 + places.stopped if places.stopped else int(failed), again


def _new_sweep(described, places, options) -> Run:
    machine = environment(__version__)
    command = machine["command"].replace("python -m", places.launch(), 1)
    machine["command"] = command
    name = f"{described['task']}-sweep"
    return Run.create("runs", name, described, machine, options.run)


def _train_cells(todo: list[Cell], places: Places, budget: Budget) -> bool:
    """Train cells, and go on with those that the budget has cut, as long as it lasts.

    Returns whether some failed. UserError if none can begin.
    """
    total, ended, failed = len(todo), 0, set()
    reasons: set[str | None] = set()
    width = len(str(total))

    def start(k, turns):
        limit = budget.limit(todo[k], turns)
        return ["-m", "tinyrmc.train", *_words(todo[k]), *limit], str(todo[k].log)

    while todo:
        for k, code in places.run(len(todo), start):
            cell, ended = todo[k], ended + 1
            budget.ended(cell)
            if code and not places.stopped:
                _note_failure(cell, code)
                failed.add(cell.path)
            place = f"{min(ended, total):>{width}}/{total}"
            rest = "" if places.stopped else budget.to_go(ended, total)
            print(f"{place}  {cell.name}: {_outcome(cell, code)}{rest}", flush=True)
            reasons.add(cell.failure() if code and cell.run() is None else None)
            if ended >= HOPELESS and len(reasons) == 1 and None not in reasons:
                places.enough = True
        if places.enough:
            raise UserError(f"no run can begin: {reasons.pop()}")
        todo = [c for c in todo if not finished(c) and c.path not in failed]
        turns = -(-len(todo) // places.count)
        if places.stopped or budget.left() < WORTHWHILE * turns:
            break
    return bool(failed)


def _announce(run, found, total, left, places, options):
    """The first lines of a sweep: how many runs, how many at a time, for how long."""
    described, minutes = run.config, options.budget_minutes
    shape = " x ".join(str(len(values)) for values in described["grid"].values())
    refused = sum(each.refusal is not None for each in found)
    none = f"; {counted(refused, 'combination')} cannot be" if refused else ""
    workers = described["workers"]
    each = f", {counted(workers, 'worker')} each" if workers else ""
    seeds = counted(len(described["seeds"]), "seed")
    asked = f"{shape} value{'' if shape == '1' else 's'}, {seeds}"
    name = f"{described['task']} {described['preset']}"
    print(f"{name}: {asked}: {counted(total, 'run')}{none}")
    print(f"  to do     {counted(left, 'run')}, {places} at a time{each}")
    if minutes and left:
        share = duration(60 * minutes / -(-left // places))
        print(f"  budget    {minutes:g} minutes, {share} a run and what others leave")
    print(f"  sweep     {run.path}", flush=True)


def _words(cell: Cell) -> list[str]:
    """The words after `python -m tinyrmc.train` that begin a cell or go on with it."""
    where = []
    if cell.data_dir is not None:
        where = ["--data-dir", cell.data_dir]
    if any(cell.path.glob("checkpoint*.npz")):  # trained, even if all else is gone
        return ["--resume", str(cell.path), *where]
    if cell.path.exists():
        shutil.rmtree(cell.path)  # it was killed before it saved anything
    return [*cell.words, "--run", str(cell.path), *where]


def _note_failure(cell, code):
    """Make sure that the log's last line says why (see Cell.failure).

    A traceback's does not, and a killed process says nothing.
    """
    if cell.failure() is None:
        why = f"exit code {code}; see {cell.log.name}"
        if code < 0:
            why = f"ended by {signal.Signals(-code).name} (out of memory?)"
        with open(cell.log, "a", encoding="utf-8") as file:
            file.write(f"\nerror: {why}\n")


def _outcome(cell, code):
    """What became of a cell, in words."""
    run = cell.run()
    if code and (failure := cell.failure()):
        return f"failed: {failure}"
    if run is None or code:
        return "stopped"
    task, last = task_from_dict(run.config), run.metrics()[-1]
    name, steps = task.watched, task.config.train.steps
    over = is_over(run, task, last["step"])
    cut = "" if over else f" of {steps:,}, cut by the budget,"
    value = number(name, last[name]) or "not finite"
    reached = f"{name.replace('_', ' ')} {value}"
    took = f"{counted(last['step'], 'step')}{cut} in {duration(last['seconds'])}"
    return f"{reached}, {took}"
