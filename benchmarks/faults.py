"""Faults, many of them: what runs, files and command lines can meet, and what becomes
of it.

    make faults                             minutes on two cores
    make faults ARGS=--quick                a first look
    python benchmarks/faults.py --seed 1 --only kills forged

Every case is tried in a process of its own, beside a small run of one of the tasks, and
ends in one of four ways. It *survived*: what came out is what came out without the
fault, to the last bit. It was *refused*: one line, exit code 2, and no file has
changed. It was *silent*: something else came out, or something was lost, without a
word. Or it ended in a *traceback*, in an exit code of no meaning, or not at all. The
last two are our mistakes, and are listed.

The groups: `kills` (SIGKILL at a random moment, resumed), `signals` (at a random
moment), `starts` (Ctrl-C while Python is still importing), `workers` (one of them is
killed), `disks` (a full one, on a small tmpfs where root can mount one), `streams` (no
room, closed, ASCII, few descriptors), `damaged` files of a run, `forged` ones (a value
of another type in any of them, checksums made right again), `words` (bad command
lines) and `calls` (of the library).

The seed decides everything but the moments of kills and signals, which depend on the
machine too. One file has no checksum: a text in environment.json that is another text
is believed, and not tried here.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy comes

import forging
import numpy as np
import report

import tinyrmc
from tinyrmc import train
from tinyrmc.commands import run_main
from tinyrmc.results import curves
from tinyrmc.results.text import aligned
from tinyrmc.runs.machine import environment
from tinyrmc.runs.run import Run
from tinyrmc.training import loop
from tinyrmc.training.children import _end_all as end_children
from tinyrmc.training.discovery import load_task, task_files
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import Workers

HERE = Path(__file__).resolve().parent
OUTCOMES = ("survived", "refused", "silent", "traceback")
LONG = 100  # seconds, after which a case counts as hanging
COMMANDS = "train evaluate plot report sweep data generate play new".split()

# --- Small runs -----------------------------------------------------------------------

_ANY = "--train.log-every 3 --train.evaluate-every 6 --train.checkpoint-minutes 1e-9"
_CORE = "--model.mem-slots 2 --model.head-size 4 --model.num-heads 2"
_AGENT = (
    f"{_CORE} --train.batch-size 8 --agent.unroll 4 --model.features 8 "
    "--model.hidden-size 8 --train.steps 8"
)
TASKS = {
    "nth_farthest": f"quick {_CORE} --data.dimensions 2 --data.rungs 2 1 3 1 "
    "--data.passing 0.01 --train.batch-size 8 --train.steps 14",
    "program_evaluation": f"quick {_CORE} --train.batch-size 4 --train.steps 8",
    "language_modeling": f"quick {_CORE} --train.batch-size 4 --train.steps 8",
    "babi": "quick --data.generated --data.task 1 --train.steps 8 --model.restarts 1",
    "box_world": f"quick {_AGENT} --world.room 7 --world.stages 5 1 0 --world.solution "
    "1 2 --world.distractors 0 1 --world.pool 64 --world.limit 50",
    "mini_pacman": f"quick {_AGENT} --world.limit 40",
}


def words_of(task: str, workers: int) -> list[str]:
    """The words after `train` of a small run."""
    return [task, *TASKS[task].split(), *_ANY.split(), "--workers", str(workers)]


def write_text(folder: Path) -> None:
    """A text of the Penn Treebank's layout."""
    words = "the cat sat on a mat and saw some other cats there".split()
    for part, count in ("train", 400), ("valid", 30), ("test", 40):
        rng = np.random.default_rng(count)
        lines = [" ".join(rng.choice(words, 6)) for _ in range(count)]
        (folder / f"ptb.{part}.txt").write_text("\n".join([*lines, ""]))


def make_small() -> None:
    """Let every task be tested on few examples and draw nothing, in this process and in
    those that it forks.
    """
    for command in COMMANDS:
        importlib.import_module(f"tinyrmc.{command}")  # for few files may be open then
    for name in task_files():
        kind = load_task(name).Task
        if isinstance(getattr(kind, "test_examples", None), int):
            kind.test_examples = 40
        kind.pictures = lambda *_: []
    # of a curve only what is drawn
    setattr(curves, "draw_curves", _drawn)  # noqa: B010
    setattr(train, "draw_run", lambda run: [])  # noqa: B010


def _drawn(runs: Sequence[Run], out: Path, against: Sequence[str] = ()) -> Path:
    for each in runs:
        each.metrics()
    return out


# --- One process ----------------------------------------------------------------------


class Ended(NamedTuple):
    """How a process ended: its exit code (None: it hung), and what it said."""

    code: int | None
    out: str
    err: str


Setting = Callable[[], object]  # what a child does before it runs a command


def start(words: Sequence[str], folder: Path, setting: Setting = lambda: None) -> int:
    """Run a command in a forked child, in `folder`; its process id.

    What it prints goes to the files out and err beside the folder.
    """
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code: Any = 1
    try:
        os.setsid()
        os.chdir(folder)
        for number in (1, 2):
            name = f"{folder}.{('out', 'err')[number - 1]}"
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, number)
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), "utf-8")
        sys.stderr = io.TextIOWrapper(
            open(2, "wb", closefd=False),
            "utf-8",
            "backslashreplace",
            write_through=True,
        )
        sys.argv = [str(HERE / "faults.py")]
        setting()
        module = importlib.import_module(f"tinyrmc.{words[0]}")
        run_main(lambda: module.main([*words[1:]]))
    except SystemExit as leaving:
        code = leaving.code or 0
    except BaseException as error:
        os.write(2, f"Traceback: {error!r}\n".encode(errors="replace"))
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        end_children()  # at the exit, which os._exit passes over
        os._exit(code)


def wait(pid: int, folder: Path) -> Ended:
    """Wait until a child has ended; kill its session if it hangs."""
    until, status = time.monotonic() + LONG, None
    while status is None:
        done, found = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(found)
        elif time.monotonic() > until:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        else:
            time.sleep(0.005)
    said = []
    for name in ("out", "err"):
        file = Path(f"{folder}.{name}")
        said.append(file.read_text(errors="replace") if file.exists() else "")
        file.unlink(missing_ok=True)
    return Ended(status, *said)


def run(words: Sequence[str], folder: Path, setting: Setting = lambda: None) -> Ended:
    """Run a command in a child of its own, in `folder`."""
    return wait(start(words, folder, setting), folder)


def contents(folder: Path) -> dict[str, Any]:
    """What lies in a folder: the bytes of files, the kinds of all else."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
    }


def judge(ended: Ended, same: bool, unchanged: bool = True) -> tuple[str, str]:
    """(the outcome, what was wrong).

    same: whether what came out is right. unchanged: whether all files are as before.
    """
    lines = ended.err.strip().splitlines()
    last = lines[-1] if lines else "nothing was said"
    if ended.code is None:
        return "traceback", "it hung"
    if "Traceback" in ended.err or ended.code not in (0, 2):
        return "traceback", f"exit code {ended.code}: {last[:300]}"
    if ended.code == 2:
        errors = [line for line in lines if line.startswith("error: ")]
        if len(errors) != 1 or not last.startswith("error: "):
            return "traceback", f"no single line: {ended.err[:300]}"
        return ("refused", "") if unchanged else ("silent", "refused, files changed")
    return ("survived", "") if same else ("silent", f"another result: {last[:200]}")


# --- Runs that are broken off ---------------------------------------------------------


def timeless(folder: Path) -> tuple:
    """What a run has come to, but for times of day."""
    opened = Run.open(folder)
    arrays, state = opened.load()
    lines = [{**line, "seconds": 0} for line in opened.metrics()]
    left = state | {"seconds": 0, "metrics": 0}
    return {k: (x.dtype.str, x.tobytes()) for k, x in arrays.items()}, left, lines


@functools.cache
def reference(task: str, workers: int) -> tuple[tuple, float]:
    """(what the unbroken run has come to, the seconds that it took)."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        ended = run(["train", *words_of(task, workers), "--run", "run"], Path(folder))
        if ended.code:
            raise SystemExit(f"the small run of {task} failed: {ended.err}")
        return timeless(Path(folder, "run")), time.monotonic() - began


def go_on(task: str, workers: int, folder: Path, kept: bool) -> tuple[str, str]:
    """Finish a run that was broken off, and compare it with one that was not.

    kept: whether the run said that it could be resumed.
    """
    words = ["train", "--resume", "run"]
    said = ""
    if not (folder / "run" / "config.json").exists() and not kept:
        shutil.rmtree(folder / "run", ignore_errors=True)
    elif (folder / "run").exists():
        ended = run(words, folder)
        none_yet = "holds no checkpoint" in ended.err and not kept
        if ended.code == 2 and none_yet:
            shutil.rmtree(folder / "run")
            said = "began again"
        elif ended.code != 0:
            return "traceback", f"resumed: exit code {ended.code}: {ended.err[-300:]}"
    if not (folder / "run").exists():
        ended = run(["train", *words_of(task, workers), "--run", "run"], folder)
        if ended.code:
            return "traceback", f"begun again: {ended.err[-300:]}"
    same = timeless(folder / "run") == reference(task, workers)[0]
    return ("survived", said) if same else ("silent", "resumed to other bits")


def kills(rng: random.Random, folder: Path) -> tuple[str, str]:
    """SIGKILL, up to three times, at random moments."""
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    seconds = reference(task, workers)[1]
    words = ["train", *words_of(task, workers), "--run", "run"]
    for _ in range(rng.randint(1, 3)):
        pid = start(words, folder)
        time.sleep(rng.uniform(0, 1.1 * seconds))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait(pid, folder)
        if (folder / "run" / "checkpoint.npz").exists():
            words = ["train", "--resume", "run"]
        else:
            shutil.rmtree(folder / "run", ignore_errors=True)
    outcome, why = go_on(task, workers, folder, False)
    return outcome, f"{task}, {workers} workers: {why}"


def signals(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A signal at a random moment: a run that has begun can be resumed."""
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    number = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    where = f"{task}, {workers} workers, {number.name}"
    seconds = reference(task, workers)[1]
    words = ["train", *words_of(task, workers), "--run", "run"]
    pid = start(words, folder, _default_signals)
    time.sleep(rng.uniform(0, 1.1 * seconds))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    ended = wait(pid, folder)
    if "Traceback" in ended.err or ended.code not in (0, 128 + number, -number):
        return "traceback", f"{where}: exit code {ended.code}: {ended.err[-300:]}"
    outcome, why = go_on(task, workers, folder, kept=(folder / "run").exists())
    return outcome, f"{where}: {why}"


def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def starts(rng: random.Random, folder: Path) -> tuple[str, str]:
    """Ctrl-C while a command's modules are being imported."""
    command = rng.choice(COMMANDS)
    words = [sys.executable, "-m", f"tinyrmc.{command}", "--help"]
    child = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(rng.uniform(0, 1.0))
    child.send_signal(signal.SIGINT)
    err = child.communicate(timeout=LONG)[1]
    ours = "tinyrmc" in err.replace(str(folder), "")
    # before Python has come to us, it has its own words
    if child.returncode in (0, 130, -2) or not ours:
        return "survived", ""
    return "traceback", f"{command}: exit code {child.returncode}: {err[-200:]}"


def workers(rng: random.Random, folder: Path) -> tuple[str, str]:
    """One of two worker processes is killed at a random moment."""
    task = rng.choice([*TASKS])
    seconds = reference(task, 2)[1]
    pid = start(["train", *words_of(task, 2), "--run", "run"], folder)
    time.sleep(rng.uniform(0.1, 1) * seconds)
    with contextlib.suppress(OSError):
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in listed[:1]:
            os.kill(int(child), signal.SIGKILL)
    ended = wait(pid, folder)
    outcome, why = judge(ended, same=True)
    if outcome == "traceback":
        return outcome, f"{task}: {why}"
    outcome, why = go_on(task, 2, folder, kept=False)
    return outcome, f"{task}: {why}"


# --- The machine gives out ------------------------------------------------------------


@contextlib.contextmanager
def tmpfs(folder: Path, size: int) -> Iterator[Callable[[int], object]]:
    """A file system of so many bytes in memory; gives what makes it larger."""

    def mount(how: str, size: int) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "tmpfs", folder],
            check=True,
            capture_output=True,
        )

    mount("", size)
    try:
        yield lambda size: mount("remount,", size)
    finally:
        subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


def disks(rng: random.Random, folder: Path) -> tuple[str, str]:
    """The disk of a run, or that of its log, is full at some point."""
    task, small = rng.choice([*TASKS]), folder / "small"
    small.mkdir()
    words = ["train", *words_of(task, 1), "--run"]
    with tmpfs(small, rng.randrange(1, 40) * 4096 * rng.choice((1, 4))) as resize:
        if log := rng.random() < 0.3:
            (small / "ballast").write_bytes(b"")
            with contextlib.suppress(OSError), open(small / "ballast", "wb") as file:
                while file.write(bytes(4096)):
                    file.flush()

            def setting():
                os.dup2(os.open(small / "log", os.O_WRONLY | os.O_CREAT), 1)

            ended = run([*words, str(folder / "run")], folder, setting)
        else:
            ended = run([*words, str(small / "run")], folder)
        outcome, why = judge(ended, same=True)
        if outcome == "traceback":
            return outcome, f"{task}: {why}"
        resize(1 << 26)
        outcome, why = go_on(task, 1, folder if log else small, kept=False)
    return outcome, f"{task}, {'log' if log else 'run'}: {why}"


def _nowhere(*numbers: int) -> None:
    """Let these streams be closed."""
    for number in numbers:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)


def _full() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def _ascii() -> None:
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), "ascii")


def _broken() -> None:
    read, written = os.pipe()
    os.close(read)
    os.dup2(written, 1)


SETTINGS: dict[str, Setting] = {
    "no room for output": _full,
    "no reader": _broken,
    "no input": lambda: _nowhere(0),
    "no output": lambda: _nowhere(1),
    "no errors": lambda: _nowhere(2),
    "no streams": lambda: _nowhere(0, 1, 2),
    "ASCII": _ascii,
    **{
        f"{n} files": functools.partial(
            resource.setrlimit, resource.RLIMIT_NOFILE, (n, n)
        )
        for n in (6, 12, 64)
    },
    **{
        f"files of {n} bytes": functools.partial(
            resource.setrlimit, resource.RLIMIT_FSIZE, (n, n)
        )
        for n in (0, 100, 3000, 30_000)
    },
}


def streams(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A command under one of the SETTINGS; what a run has must survive."""
    task, (name, setting) = rng.choice([*TASKS]), rng.choice([*SETTINGS.items()])
    with_run(task, "whole", folder)
    before = contents(folder)
    words = rng.choice(reading(task, "run"))
    if rng.random() < 0.3:
        words = ["train", *words_of(task, rng.choice((1, 2))), "--run", "new"]
    ended = run(words, folder, setting)
    if name == "no reader" and ended.code == 141:
        ended = ended._replace(code=0)
    deaf = name in ("no errors", "no streams") or "files of" in name
    if deaf and ended.code == 2 and not ended.err:
        ended = ended._replace(err="error: which nobody could hear")
    after = {path: x for path, x in contents(folder).items() if path[:3] != "new"}
    outcome, why = judge(ended, same=before.keys() <= after.keys())
    changed = [p for p in before if after.get(p) != before[p] and "png" not in p]
    if outcome == "survived" and changed:
        outcome, why = "silent", f"changed {changed}"
    return outcome, f"{' '.join(words)[:60]} with {name}: {why}"


# --- Files ----------------------------------------------------------------------------


def small_runs(folder: Path, sweep: bool = True) -> None:
    """A finished run of every task, one that was broken off at step 5, and a sweep."""
    for task in TASKS:
        words = ["train", *words_of(task, 1), "--run"]
        for name, setting in (("whole", lambda: None), ("half", _stop_at_5)):
            ended = run([*words, f"{task}-{name}"], folder, setting)
            if ended.code not in (0, 143):
                raise SystemExit(f"the small run of {task} failed: {ended.err}")
    if not sweep:
        return
    grid = ["--grid", "model.mem_slots=1,2", "--run", "sweep", "--jobs", "2"]
    small = TASKS["nth_farthest"].replace("--model.mem-slots 2", "").split()
    ended = run(["sweep", "nth_farthest", *small, *_ANY.split(), *grid], folder)
    if ended.code:
        raise SystemExit(f"the small sweep failed: {ended.err}")


def _stop_at_5() -> None:
    advance = Trainer.advance

    def watched(self, *words):
        if self.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return advance(self, *words)

    setattr(Trainer, "advance", watched)  # noqa: B010


SMALL: Path  # where `small_runs` are


def with_run(task: str, name: str, folder: Path) -> Path:
    """A copy of a small run, as `run` in the folder."""
    return Path(shutil.copytree(SMALL / f"{task}-{name}", folder / "run"))


def reading(task: str, path: str) -> list[list[str]]:
    """The commands that read a run, or a file of one."""
    found = [
        ["evaluate", path, "--json", "--metrics-only"],
        ["evaluate", path, "--export", "weights.npz", "--metrics-only"],
        ["report", path],
        ["plot", path],
        ["plot", "examinations", path],
    ]
    if task == "language_modeling":
        found.append(["generate", path, "the cat", "--words", "5"])
    if task in ("box_world", "mini_pacman"):
        found.append(["plot", "episode", path])
    return found


def alike(ended: Ended, folder: Path) -> tuple:
    """What counts of what a command has said and written."""
    said = re.sub(r"\d+:\d\d(:\d\d)?", "", ended.out)
    weights = folder / "weights.npz"
    return said, weights.exists() and weights.read_bytes()


@functools.cache
def unharmed(task: str, words: tuple[str, ...]) -> tuple:
    """What a command says of a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        with_run(task, "whole", Path(folder))
        return alike(run(words, Path(folder)), Path(folder))


def harmed(
    rng: random.Random, folder: Path, harm: Callable[[Path], str], only: str | None
) -> tuple[str, str]:
    """A file of a run is harmed; then a command reads the run, or goes on with it.

    only: which of its files; None: any.
    """
    task, resume = rng.choice([*TASKS]), rng.random() < 0.35
    path = with_run(task, "half" if resume else "whole", folder)
    (path / "lock.json").write_text('{"pid": 1, "host": "elsewhere", "since": "then"}')
    if only != "lock.json":
        (path / "lock.json").unlink()
    files = sorted(p.name for p in path.iterdir() if p.suffix in (".json", ".jsonl"))
    name = only or rng.choice([*files, "checkpoint.npz", "checkpoint.npz"])
    said = f"{task}, {name}: {harm(path / name)}"
    before = contents(folder)
    if resume:
        ended = run(["train", "--resume", "run"], folder)
        same = not ended.code and timeless(path) == reference(task, 1)[0]
        if not ended.code and not same and "note:" in ended.err:
            same = timeless(path)[0] == reference(task, 1)[0][0]
        words = ["train", "--resume"]
    else:
        words = rng.choice(reading(task, "run"))
        ended = run(words, folder)
        same = not ended.code and alike(ended, folder) == unharmed(task, (*words,))
    after = contents(folder)
    unchanged = {k: v for k, v in after.items() if k in before} == before
    outcome, why = judge(ended, same, unchanged)
    return outcome, f"{said}; {' '.join(words)[:40]}: {why}"


def damaged(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A file of a run is damaged, or is no file."""
    damage = rng.choice(forging.DAMAGES)
    only = None if damage is not forging.flip else "checkpoint.npz"

    def harm(path: Path) -> str:
        damage(path, rng)
        return damage.__name__

    return harmed(rng, folder, harm, only)


FORGERIES: list[tuple[Callable[..., str], str | None]] = [
    (forging.forge_json, "config.json"),
    (forging.forge_json, "environment.json"),
    (forging.forge_json, "metrics.jsonl"),
    (forging.forge_json, "lock.json"),
    (forging.forge_state, "checkpoint.npz"),
    (forging.forge_both, "checkpoint.npz"),
    (forging.forge_arrays, "checkpoint.npz"),
]


def forged(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A file of a run says something of another type, with a checksum that is right."""
    forge, name = rng.choice(FORGERIES)
    return harmed(rng, folder, lambda path: forge(path, rng), name)


def sweeps(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A file of a sweep, or of one of its runs, is damaged or forged."""
    path = Path(shutil.copytree(SMALL / "sweep", folder / "sweep"))
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and p.suffix != ".png"]
    file = rng.choice(files)
    if file.suffix in (".json", ".jsonl") and rng.random() < 0.6:
        how = forging.forge_json(file, rng)
    else:
        damage = rng.choice([d for d in forging.DAMAGES if d is not forging.flip])
        how = damage.__name__
        damage(file, rng)
    words = rng.choice(
        (["sweep", "--show"], ["sweep", "--resume"], ["report"], ["plot"])
    )
    ended = run([*words, "sweep"], folder)
    outcome, why = judge(ended._replace(code=ended.code and min(ended.code, 2)), True)
    return outcome, f"{file.relative_to(folder)}: {how}; {' '.join(words)}: {why}"


# --- Words and calls ------------------------------------------------------------------

BAD = (
    *("", " ", "-1", "0", "nan", "inf", "-inf", "1e999", "9" * 400, "x" * 300, "None"),
    *(
        "0.5",
        "1,2",
        "=",
        "--",
        "\u00e9\U0001f600",
        "a/b",
        "/dev/null",
        "\udcff",
        "1e400",
    ),
)


HOW = "flag", "flag", "flag", "more", "less", "other"


def words(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A command line with a word that cannot be, or is not wanted."""
    task = rng.choice([*TASKS])
    with_run(task, "whole", folder)
    said = rng.choice(LINES[rng.choice(COMMANDS)])
    line = [part.replace("TASK", task) for part in said.split()]
    if line[:2] == ["train", task]:
        line = ["train", *words_of(task, 1)]
    flags = _flags(line[0], task)
    how, bad = rng.choice(HOW), rng.choice(BAD)
    if how == "flag" and flags:
        line += [rng.choice(flags), *([bad] if rng.random() < 0.9 else [])]
    elif how == "more":
        line.insert(rng.randrange(1, len(line) + 1), bad)
    elif how == "less" and len(line) > 1:
        line.pop(rng.randrange(1, len(line)))
    elif len(line) > 1:
        line[rng.randrange(1, len(line))] = bad
    before = contents(folder)
    if line[0] == "train":
        line += ["--max-minutes", "0.0001"]
    ended = run(line, folder, _little_memory)
    after = contents(folder)
    kept = {k: v for k, v in after.items() if k in before}
    unchanged = after == before if ended.code == 2 else kept.keys() == before.keys()
    made = [*folder.rglob("config.json")]
    meant = not any("NaN" in file.read_text() for file in made)
    outcome, why = judge(ended, meant, unchanged)
    return outcome, f"{line!r}: {why}"


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    sys.stdin = open(os.devnull)


LINES = {
    "train": ["train TASK", "train --resume run", "train TASK"],
    "evaluate": ["evaluate run", "evaluate run --json"],
    "plot": ["plot run"]
    + [f"plot {what} run" for what in ("attention", "hops", "examinations", "episode")]
    + ["plot level"],
    "report": ["report run", "report run --out r.md"],
    "sweep": ["sweep TASK --grid train.batch_size=4 --seeds x", "sweep --show run"],
    "data": ["data", "data ptb"],
    "generate": ["generate run the"],
    "play": ["play box_world", "play mini_pacman --agent run"],
    "new": ["new mine"],
}


@functools.cache
def _flags(command: str, task: str) -> list[str]:
    """The flags that a command has."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        help_ = [task, "--help-all"] if command == "train" else ["--help"]
        importlib.import_module(f"tinyrmc.{command}").main(help_)
    found = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", out.getvalue()))
    return sorted(found - {"--help", "--help-all", "--max-minutes"})


def _call(rng: random.Random) -> tuple[str, Callable[[], object]]:
    """A call of the library with something that cannot be."""
    from tinyrmc.runs import load_arrays, save_arrays

    bad = rng.choice([*forging.KINDS, 2.5, b"x", object(), np.zeros(2), -1])
    kind = load_task("nth_farthest").Task
    config = next(iter(kind.presets.values()))[1]
    calls: dict[str, Callable[[], object]] = {
        "Trainer(seed)": lambda: Trainer(kind(config), seed=_no(bad, int)),
        "Trainer(workers)": lambda: Trainer(kind(config), workers=_no(bad, int, None)),
        "Trainer(device)": lambda: Trainer(kind(config), device=bad),
        "load": lambda: tinyrmc.load(bad),
        "load_arrays": lambda: load_arrays(bad),
        "save_arrays": lambda: save_arrays("x.npz", {"a": _no_array(bad)}, {}),
        "save_arrays(name)": lambda: save_arrays("x.npz", {bad: np.ones(1)}, {}),
        "Run.open": lambda: Run.open(bad),
        "Run.log": lambda: _a_run().log(_no(bad, dict)),
        "run_training(max_minutes)": lambda: loop.run_training(
            Trainer(kind(config)), _a_run(), max_minutes=_no(bad, int, float, None)
        ),
    }
    name = rng.choice([*calls])
    return f"{name} with {bad!r:.40}", calls[name]


def _a_run() -> Run:
    return Run.create(".", "run", {}, {})


def _no(value: Any, *kinds: Any) -> Any:
    """A value that is of none of these kinds, or is one of them and makes no sense."""
    plain = isinstance(value, tuple(kind for kind in kinds if kind is not None))
    none = value is None and None in kinds
    return -3 if (plain and not is_negative(value)) or none else value


def is_negative(value: Any) -> bool:
    """Whether a value is a number below 0, or no number at all."""
    return isinstance(value, int | float) and not value >= 0


def _no_array(value: Any) -> Any:
    with contextlib.suppress(ValueError):
        if np.asarray(value).dtype.kind in "biufc":
            return "text"
    return value


def calls(rng: random.Random, folder: Path) -> tuple[str, str]:
    """A call of the library with something that cannot be: the error says so."""
    name, call = _call(rng)
    receiver, sender = multiprocessing.get_context("fork").Pipe(False)
    if not (pid := os.fork()):
        os.chdir(folder)
        try:
            call()
            sender.send(("silent", "nothing was said"))
        except (tinyrmc.errors.UserError, ValueError, TypeError) as error:
            sender.send(("refused", "") if str(error) else ("traceback", "no words"))
        except BaseException as error:
            sender.send(("traceback", f"{type(error).__name__}: {error}"))
        finally:
            os._exit(0)
    outcome, why = receiver.recv() if receiver.poll(LONG) else ("traceback", "it hung")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return outcome, f"{name}: {why}"


# --- What the guards of a step cost ---------------------------------------------------


def cost(rounds: int = 7, steps: int = 4, calls: int = 100_000) -> dict[str, float]:
    """Processor time of a step of `small` (batch 128, 8 slots x 64), and of what stands
    guard in it: milliseconds, microseconds, and the steps with it over those without,
    the median of rounds in which both take turns.
    """
    kind = load_task("nth_farthest").Task
    small = next(iter(kind.presets.values()))[1]
    small = dataclasses.replace(
        small,
        model=dataclasses.replace(small.model, mem_slots=8, head_size=16, num_heads=4),
        train=dataclasses.replace(small.train, batch_size=128),
    )
    trainer = Trainer(kind(small), workers=1)
    heard = loop._Heard(loop.Listener(), loop.Interrupt(trainer.ranks))
    guarded, share = Workers.share, trainer.workers.share

    def seconds(guard: bool) -> float:
        setattr(Workers, "share", guarded if guard else share)  # noqa: B010
        show = heard if guard else loop.Listener()
        began = time.process_time()
        for _ in range(steps):
            trainer.advance()
            show.step(trainer.step)
        return (time.process_time() - began) / steps

    def microseconds(call: Callable[[], object]) -> float:
        began = time.process_time()
        for _ in range(calls):
            call()
        return (time.process_time() - began) / calls * 1e6

    seconds(True)
    turns = [(seconds(k % 2 == 0), seconds(k % 2 == 1)) for k in range(rounds)]
    pairs = [pair[:: 1 if k % 2 == 0 else -1] for k, pair in enumerate(turns)]
    setattr(Workers, "share", guarded)  # noqa: B010
    guards = microseconds(lambda: trainer.workers.share) + microseconds(
        lambda: heard.step(1)
    )
    return {
        "step_ms": round(1e3 * statistics.median(without for _, without in pairs), 2),
        "guards_us": round(guards - 2 * microseconds(lambda: None), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
    }


# --- The campaign ---------------------------------------------------------------------

Group = Callable[[random.Random, Path], tuple[str, str]]
GROUPS: dict[str, tuple[Group, int]] = {  # and how many cases
    "kills": (kills, 60),
    "signals": (signals, 40),
    "starts": (starts, 20),
    "workers": (workers, 20),
    "disks": (disks, 25),
    "streams": (streams, 80),
    "damaged": (damaged, 220),
    "forged": (forged, 380),
    "sweeps": (sweeps, 40),
    "words": (words, 400),
    "calls": (calls, 60),
}


def attempt(name: str, number: int, seed: int) -> tuple[str, str, str]:
    """One case: (its group, the outcome, what was wrong)."""
    rng = random.Random(f"{name} {number} {seed}")
    folder = Path(tempfile.mkdtemp(prefix="tinyrmc-faults-"))
    inside = folder / "here"
    inside.mkdir()
    try:
        outcome, why = GROUPS[name][0](rng, inside)
    except Exception as error:
        outcome, why = "traceback", f"the campaign itself: {error!r}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return name, outcome, f"case {number}: {why}"


def can_mount() -> bool:
    """Whether we may mount a tmpfs."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tmpfs(Path(folder), 4096):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


def campaign(
    names: Sequence[str], share: float, seed: int, jobs: int, minutes: float
) -> tuple[dict[str, dict[str, int]], list[str]]:
    """({group: {outcome: how many}}, what went wrong).

    The cases come in an order of the seed's, until so many minutes are over.
    """
    cases = [
        (name, number, seed)
        for name in names
        for number in range(max(1, round(GROUPS[name][1] * share)))
        if name != "disks" or can_mount()
    ]
    found: dict[str, dict[str, int]] = {
        name: {"tried": 0, **dict.fromkeys(OUTCOMES, 0)} for name, *_ in cases
    }
    random.Random(seed).shuffle(cases)
    wrong, until = [], time.monotonic() + 60 * minutes
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, fork) as pool:
        while cases and time.monotonic() < until:
            some = [cases.pop() for _ in range(min(8 * jobs, len(cases)))]
            for name, outcome, why in pool.map(attempt, *zip(*some, strict=True)):
                found[name]["tried"] += 1
                found[name][outcome] += 1
                if outcome in OUTCOMES[2:]:
                    wrong.append(f"{name}, {outcome}, {why}")
                    print(wrong[-1], file=sys.stderr, flush=True)
    return found, wrong


def main(argv: list[str] | None = None) -> int:
    """The command line; exit code 1 if a case was silent or ended in a traceback."""
    global SMALL
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=[*GROUPS])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases")
    parser.add_argument("--minutes", type=float, default=1e9, help="at most")
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    parser.add_argument("--cost", action="store_true", help="of a step's guards, alone")
    options = parser.parse_args(argv)
    if options.cost:
        print(json.dumps(cost()))
        return 0
    for task in {*TASKS} - {*options.tasks}:
        del TASKS[task]
    make_small()
    began, share = time.monotonic(), 0.1 if options.quick else options.share
    with tempfile.TemporaryDirectory(prefix="tinyrmc-faults-") as folder:
        write_text(Path(folder))
        os.environ["TINYRMC_DATA"] = folder
        SMALL = Path(folder)
        small_runs(SMALL, sweep="sweeps" in options.only)
        found, wrong = campaign(
            options.only, share, options.seed, options.jobs, options.minutes
        )
    print(aligned(report.PARTS["faults"](found), 88))
    if options.out is not None:
        minutes = round((time.monotonic() - began) / 60, 1)
        kept = {"benchmark": "faults", "seed": options.seed, "minutes": minutes}
        kept["faults"] = found
        kept |= {"wrong": wrong, "environment": environment(tinyrmc.__version__)}
        options.out.write_text(json.dumps(kept, indent=1) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
