"""Train every combination of the values of some fields, under several seeds.

    python -m tinyrmc sweep nth_farthest --grid model.mem_slots=1,4 model.num_heads=1,8
    python -m tinyrmc sweep nth_farthest --grid figure4_reduced --seeds 0,1,2
    python -m tinyrmc sweep --resume runs/nth_farthest-sweep-1

Each combination under each seed is an ordinary run directory inside the sweep's,
trained by `tinyrmc train` in a process of its own, which prints into the .log beside
it. As many are trained at a time as there are cores, each by one worker, for workers of
one run wait for each other. Fewer runs share the cores.

--resume goes on with runs that were cut by --max-minutes or broken off, bit for bit. If
a run fails, or a combination is impossible, a line says so and the others go on. At the
end stands the table of `tinyrmc report`. `tinyrmc report SWEEP` shows what there is
while it runs, `tinyrmc plot SWEEP` the learning curves.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from .. import __version__
from ..config import fields_of, flag_of, stored_path, value_of, words_of_value
from ..errors import RunError, UsageError, counted, nearest
from ..results.groups import last_evaluation
from ..results.tables import show
from ..results.text import duration, number
from ..training import discovery
from ..training.machine import changed_code, environment, usable_cores
from ..training.run import Run, is_over, relocated, require_own_data, task_from_dict
from ..training.telling import idle_fields
from ..training.workers import (
    LAUNCHERS,
    PARENT,
    LaunchError,
    ranks_started,
)
from .commands import (
    OWN_CORES,
    Options,
    Parser,
    add_core,
    add_flags,
    add_places,
    at_least,
    hyphenated,
    leading_names,
    parse_words,
    program,
    python,
    task_and_preset,
)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code.

    That is 0; 1 if runs failed; 130 if Ctrl-C stopped it, which saves what is trained.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words:
        _parser().print_help()
        return 0
    names, words = leading_names(words)
    if "_ARGCOMPLETE" in os.environ:
        _complete(names, words)
    options, flags = _parser().parse_known_args(words)
    if (size := ranks_started()) > 1:
        raise LaunchError(f"{size} ranks would all do the same; leave out mpiexec")
    run = _earlier(options, [*names, *flags]) if options.resume else None
    described = dict(run.config) if run else _described(names, options, flags)
    if options.data_dir is not None:
        described["places"] = {"data_dir": stored_path(options.data_dir)}
    if options.core:
        described["core_files"] = [stored_path(file) for file in options.core]
    found, notes = combinations(described)
    gpu = any(options.device == "cuda" for *_, options in found)
    most = min(len(described["seeds"]) * len(found), 1 if gpu else len(usable_cores()))
    if options.jobs:
        described["jobs"] = options.jobs
    jobs = described.get("jobs", most)
    if run is None:
        told = any(options.workers for *_, options in found)
        if jobs > 1 and not told:  # each has its share of the cores
            described["workers"] = max(1, len(usable_cores()) // jobs)
        name = f"{described['task']}-sweep"
        machine = environment(__version__)
        run = Run.create("runs", name, described, machine, options.run)
    with run.writing():
        run = run.moved(described)
        cells = cells_of(run, found)
        before = [cell.state() for cell in cells]
        todo = [cell for cell, at in zip(cells, before, strict=True) if not at.whole]
        print(f"{described['task']} {described['preset']}: ", end="")
        print(f"{counted(len(cells), 'run')}, {len(todo)} to do, {jobs} at a time")
        said = [f"{x} ({counted(n, 'combination')})" for x, n in notes.items()]
        whole = [at.run for at in before if at.whole and at.run]
        code = Counter(x for at in whole for x in changed_code(at.last_code, at.config))
        said += [f"{x} ({counted(n, 'run')})" for x, n in code.items()]
        for note in said:
            print(f"  note      {note}")
        print(f"  sweep     {run.path}", flush=True)
        status = train(todo, jobs)
    if status == 130:
        print("\nstopped, and saved what was being trained")
    states = [cell.state() for cell in cells]
    if runs := [state.run for state in states if state.run is not None]:
        print()
        show(runs, run.path / "results.md")
        for note in said:  # what was told before the training has scrolled by
            print(f"note: {note}")
    if not all(state.whole for state in states):
        resume = f"sweep --resume {run.word}"
        print(f"go on with\n    {python()} -m tinyrmc {resume}")
    return status


# --- What is asked for ----------------------------------------------------------------


def _parser() -> Parser:
    parser = Parser(
        program("sweep"),
        "Train every combination of the values of some fields, under several seeds.",
        usage="%(prog)s TASK [PRESET] --grid FIELD=VALUE,VALUE ... [--flags]",
        epilog="Flags of the task, such as --train.steps, and --device and --tf32 go\n"
        f"to every run. `{program('train')} TASK --help-all` shows them, and with\n"
        "them the fields for --grid.",
    )
    add = parser.add_argument
    says = "fields and values, as in model.mem_slots=1,8; or the name of a grid of the "
    says += "task's"
    add("--grid", nargs="+", default=[], metavar="FIELD=VALUES", help=says)
    add("--seeds", metavar="N,N", help="as in 0,1,2 (default: 0)")
    says = "runs at a time (default: one a core, on a GPU one)"
    add("--jobs", type=at_least(1), metavar="N", help=says)
    says = "the sweep's directory, a new one (default: the next runs/TASK-sweep-N)"
    add("--run", type=Path, metavar="DIR", help=says)
    add("--resume", type=Path, metavar="DIR", help="go on with this sweep")
    says = "the folder with the data of the task, for all runs (default: where the "
    says += "task looks for them); for an earlier sweep, where they are now"
    add_places(parser, says, f"{OWN_CORES}; for an earlier sweep, where it is now")
    return parser


def _complete(names: list[str], words: list[str]) -> None:
    """Answer a shell that asks for a flag, of the sweep's or of its task's, for a field
    of a grid, or for a value.
    """
    kind, preset = task_and_preset(names)
    parser = _parser()
    first = Parser("", "", add_help=False)
    add_core(first)
    first.parse_known_args(words)  # whose flags there are, then
    _, default = kind.presets[preset]
    parser.conflict_handler = "resolve"  # both have --run
    add_flags(parser, Options(), "run")
    add_flags(parser, default, names[0])
    grid: Any = parser._option_string_actions["--grid"]
    grid.completer = lambda **_: [
        *kind.grids,
        *(f"{field}=" for field in fields_of(type(default))),
    ]
    parser.parse_args(words)


def _earlier(options, others: list[str]) -> Run:
    """The sweep to go on with; it says itself what it trains."""
    run = Run.open(options.resume)
    if "grid" not in run.config:
        raise RunError(
            f"{run.path} is not a sweep; go on with a single run by "
            f"{python()} -m tinyrmc.train --resume {run.word}"
        )
    if others or options.grid or options.seeds or options.run:
        raise UsageError(
            f"--resume {run.path} goes on with what that sweep is; beside it say "
            "--jobs, --data-dir and --core alone"
        )
    return run


def _described(names: list[str], options, flags: list[str]) -> dict:
    """The config.json of a new sweep."""
    if any(word.partition("=")[0] == "--seed" for word in flags):
        raise UsageError("--seed is for one run; a sweep takes --seeds")
    kind, asked = task_and_preset(names)
    preset, grid = read_grid(kind, options.grid)
    preset = asked if len(names) > 1 else preset or asked
    seeds = ("0" if options.seeds is None else options.seeds).split(",")
    if not all(map(str.isdecimal, seeds)) or len({*map(int, seeds)}) < len(seeds):
        raise UsageError(
            "--seeds takes different numbers with commas between them, as in 0,1,2, "
            f"not {options.seeds!r}"
        )
    types = fields_of(type(kind.presets[preset][1]))
    for field in (each for each in grid if each in types):
        flag = flag_of(field)
        given = {hyphenated(word).partition("=")[0] for word in flags}
        if given & {flag, flag_of(field, no=True)}:
            raise UsageError(f"{flag} is in --grid, too; leave one of them out")
        for value in grid[field]:
            try:  # true and false are right, too
                words = value.title() if types[field] is bool else value
                value_of(types[field], words.split())
            except ValueError as error:
                raise UsageError(f"--grid {field}={value}: {flag} {error}") from error
    described: dict[str, Any] = {"preset": preset, "grid": grid}
    described["seeds"] = [*map(int, seeds)]
    described |= {"words": flags, "workers": None}
    return discovery.stored(names[0]) | described


def read_grid(kind: Any, words: list[str]) -> tuple[str | None, dict[str, list[str]]]:
    """(preset or None, {field: values}) of what --grid was given.

    The words are FIELD=VALUE,VALUE ... or the name of one of the task's grids.
    """
    if len(words) == 1 and words[0] in kind.grids:
        _, preset, fields = kind.grids[words[0]]
        return preset, {
            field: [" ".join(words_of_value(value)) for value in values]
            for field, values in fields.items()
        }
    pairs = [word.partition("=")[::2] for word in words]
    grid = {name.replace("-", "_"): values.split(",") for name, values in pairs}
    if not words or len(grid) < len(words) or any("" in grid[field] for field in grid):
        known = "; or the name of a grid: " * bool(kind.grids) + ", ".join(kind.grids)
        near = nearest(words[0], kind.grids) if words else ""
        given = f" (given: {' '.join(words)})" if words else ", and is missing"
        raise UsageError(
            "--grid takes each field once with all its values, as in "
            f"model.mem_slots=1,8 model.num_heads=1,8{known}{given}{near}"
        )
    return None, grid


# --- Combinations and cells -----------------------------------------------------------

# {field: value}, the flags for it, what they configure, how they run it
Asked = tuple[dict[str, str], list[str], Any, Options]


def combinations(described: dict) -> tuple[list[Asked], Counter[str]]:
    """(the combinations that can be trained, notes with how many they are about).
    UsageError if none can be trained.
    """
    task = described["task"]
    preset = described["preset"]
    grid = described["grid"]
    discovery.load_cores_of(described)
    kind, _ = task_and_preset([discovery.word_of(described), preset])
    _, default = kind.presets[preset]
    types = fields_of(type(default))
    if "places" in described and "data_dir" not in types:
        raise UsageError(f"--data-dir: {task} reads no data; leave it out")
    for field in grid:
        if field not in types:
            near = nearest(field, types)
            raise UsageError(f"--grid: {task} has no field {field!r}{near}")
    found: list[Asked] = []
    notes: Counter[str] = Counter()
    for chosen in itertools.product(*grid.values()):
        values = dict(zip(grid, chosen, strict=True))
        words = [*described["words"]]
        for field, value in values.items():
            if types[field] is bool and value.lower() in ("true", "false"):
                words.append(flag_of(field, no=value.lower() == "false"))
            else:
                words += [flag_of(field), *value.split()]
        try:
            config, options = parse_words(task, preset, default, Options(), words)
        except UsageError as error:
            notes[f"cannot be: {error.reason}"] += 1
            continue
        if any(config == other for *_, other, _ in found):
            notes["the same as an earlier one"] += 1
            continue
        found.append((values, words, config, options))
        for where, names in idle_fields(kind(config)).items():
            for field in (each for each in grid if len(grid[each]) > 1):
                if any(field == k or field.startswith(f"{k}.") for k in names):
                    notes[f"{field} is without effect {where}"] += 1
    if not found:
        raise UsageError(f"no combination can be trained: each {next(iter(notes))}")
    return found, notes


def cells_of(run: Run, found) -> list[Cell]:
    """The runs of a sweep in the order of training: one seed of all, then the next."""
    config = run.config
    cells = []
    task = discovery.word_of(config)
    data_dir = config.get("places", {}).get("data_dir")
    share = config.get("workers")
    files = [f"--core={os.path.expanduser(x)}" for x in config.get("core_files", ())]
    for seed in config["seeds"]:
        for values, words, asked, options in found:
            most = asked.train.batch_size if options.device == "cpu" else 1
            workers = ["--workers", str(min(share, most))] if share else []
            parts = [f"{field}={value}" for field, value in values.items()]
            name = re.sub(r"[^\w.,=+-]+", "_", ",".join([*parts, f"seed={seed}"]))
            start = [task, config["preset"], *words]
            start += ["--seed", str(seed), *workers]
            cells.append(Cell(values, seed, start, run.path / name, data_dir, files))
    return cells


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination of a sweep's grid with one of the seeds."""

    values: dict[str, str]  # field -> the word for its value
    seed: int
    words: list[str]  # that train it, but for where and how long
    path: Path  # its run directory
    data_dir: str | None = None  # where its data are, if that was said
    files: Sequence[str] = ()  # the flags that name those of its cores

    @property
    def name(self) -> str:
        """Its values and its seed in words."""
        values = [f"{field} {value}" for field, value in self.values.items()]
        return ", ".join([*values, f"seed {self.seed}"])

    @property
    def log(self) -> Path:
        """The file with what its training prints."""
        return self.path.with_name(f"{self.path.name}.log")

    def train(self, *more: str) -> int:
        """Begin its run, or go on with it, by these words more; returns the exit code,
        as `run_logged` does.
        """
        where = [] if self.data_dir is None else ["--data-dir", self.data_dir]
        words = [*self.words, f"--run={self.path}"]
        if any(self.path.glob("checkpoint*.npz")):  # trained, even if all else is gone
            words = [f"--resume={self.path}"]
        elif self.path.exists():
            shutil.rmtree(self.path)  # it was killed before it saved anything
        words = ["-m", "tinyrmc.train", *words, *self.files, *where, *more]
        return run_logged(words, str(self.log))

    def state(self) -> State:
        """How far it has come. CorpusError if its text is not the one that is here."""
        why = failure(self.log)
        ended = State(f"failed: {why}" if why else "stopped")
        if not (self.path / "config.json").exists():
            return ended if self.log.exists() else State("not run")
        run = Run.open(self.path)
        run = dataclasses.replace(run, config=relocated(run.config, self.data_dir))
        task = task_from_dict(run.config)
        last = last_evaluation(run, task)
        require_own_data(run, task)  # else others would be trained on another text
        if last is None:
            return ended
        over = is_over(run, task, last["step"])
        if why and not over:
            return State(ended.says, False, run)
        cut = "" if over else f" of {task.config.train.steps:,}, cut short,"
        reached = number(task.watched, last[task.watched]) or "not finite"
        took = f"{counted(last['step'], 'step')}{cut} in {duration(last['seconds'])}"
        says = f"{task.watched.replace('_', ' ')} {reached}, {took}"
        return State(says, over and task.result in last, run)


class State(NamedTuple):
    """How far a cell has come."""

    says: str
    whole: bool = False  # trained, and evaluated, to its end
    run: Run | None = None  # if it has been evaluated


def failure(log: Path) -> str | None:
    """The reason why a training failed, if it did: the last line that it printed."""
    if not log.exists():
        return None
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    last = text.rpartition("\n")[2]
    return last.removeprefix("error: ") if last.startswith("error: ") else None


# --- Processes ------------------------------------------------------------------------

# If this process is killed, each run notices, and saves (`orphaned` in workers.py).
_children: set[subprocess.Popen] = set()
_ending = threading.Event()  # after it this process starts no more runs


def run_logged(words: Sequence[str], log: str) -> int:
    """Run `python words`, and append what it prints to the file `log`.

    Returns its exit code, negative for the signal that ended it. The last line of the
    log says why it failed.
    """
    ours = {name for pair in LAUNCHERS.items() for name in pair}  # the child is no rank
    around = {name: value for name, value in os.environ.items() if name not in ours}
    # a SIGKILL cannot be passed on, so each child watches whether we are there
    around |= {"PYTHONUNBUFFERED": "1", PARENT: str(os.getpid())}
    with open(log, "ab") as file:
        file.write(f"$ python {shlex.join(words)}\n".encode())
        file.flush()
        # in a session of its own: Ctrl-C reaches it through `end_runs`, and once
        child = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=around,
            start_new_session=True,
        )
        _children.add(child)
        if _ending.is_set():  # in the meantime, and there was no such child
            child.terminate()
        try:
            code = child.wait()
        except KeyboardInterrupt:
            end_runs()
            child.wait()
            raise
        finally:
            _children.discard(child)
        if code and not _ending.is_set() and failure(Path(log)) is None:
            why = f"exit code {code}; see {os.path.basename(log)}"
            if code < 0:
                why = f"ended by {signal.Signals(-code).name} (out of memory?)"
            file.write(f"\nerror: {why}\n".encode())
    return code


def end_runs() -> None:
    """Ask each child to end, and only once: at a second signal it would not save."""
    if not _ending.is_set():
        _ending.set()
        for child in [*_children]:
            child.terminate()


# --- Training -------------------------------------------------------------------------


def train(cells: list[Cell], jobs: int) -> int:
    """Train cells, `jobs` at a time; returns the exit code, as of `main`."""
    ended = itertools.count(1)
    failed = False
    told: dict[str, str] = {}  # how runs failed -> the first of them
    _ending.clear()
    with ThreadPoolExecutor(jobs) as pool:
        started = {pool.submit(cell.train): cell for cell in cells}
        try:
            for future in as_completed(started):
                cell = started[future]
                code = future.result()
                failed |= bool(code)
                place = f"{next(ended):>{len(str(len(cells)))}}/{len(cells)}"
                says = cell.state().says
                if code:
                    first = told.setdefault(says, cell.name)
                    says = says if first == cell.name else f"failed as {first} did"
                print(f"{place}  {cell.name}: {says}", flush=True)
        except BaseException as error:  # those that run save and end
            pool.shutdown(wait=False, cancel_futures=True)
            end_runs()
            if not isinstance(error, KeyboardInterrupt):
                raise
            return 130
    return int(failed)
