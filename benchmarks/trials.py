"""What each case of faults.py is made of: a small run of a task, a command in a process
of its own, and a verdict on how it ended.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinyrmc.cli import train
from tinyrmc.cli.commands import run_main
from tinyrmc.results import curves
from tinyrmc.runs.run import Run
from tinyrmc.training.children import _end_all as end_children
from tinyrmc.training.discovery import load_task, task_files
from tinyrmc.training.trainer import Trainer

HERE = Path(__file__).resolve().parent
LONG = 100  # seconds, after which a case counts as hanging
COMMANDS = "train evaluate plot report sweep data generate play new".split()

WHOLE = {1: "whole", 2: "whole-together"}  # by how many workers there were

Verdict = tuple[str, str]  # one of OUTCOMES, and what was wrong
OUTCOMES = ("survived", "refused", "silent", "traceback")

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


def words_of(task: str, workers: int = 1) -> list[str]:
    """The words that train a small run."""
    small = TASKS[task].split()
    return ["train", task, *small, *_ANY.split(), "--workers", str(workers)]


def prepare(folder: Path) -> None:
    """Let every task be tested on few examples and draw nothing, in this process and in
    those that it forks; texts and small runs will be in this folder.
    """
    os.environ["TINYRMC_DATA"] = str(folder)
    _write_text(folder)
    for command in COMMANDS:
        importlib.import_module(f"tinyrmc.cli.{command}")  # later few files may be open
    for name in task_files():
        kind = load_task(name).Task
        if isinstance(getattr(kind, "test_examples", None), int):
            kind.test_examples = 40
        kind.pictures = lambda *_: []
    # curves are read, but not drawn
    setattr(curves, "draw_curves", _drawn)  # noqa: B010
    setattr(train, "draw_run", lambda run: [])  # noqa: B010


def _write_text(folder: Path) -> None:
    """A text of the Penn Treebank's layout."""
    words = "the cat sat on a mat and saw some other cats there".split()
    for part, count in ("train", 400), ("valid", 30), ("test", 40):
        rng = np.random.default_rng(count)
        lines = [" ".join(rng.choice(words, 6)) for _ in range(count)]
        (folder / f"ptb.{part}.txt").write_text("\n".join([*lines, ""]))


def _drawn(runs: Sequence[Run], out: Path, against: Sequence[str] = ()) -> Path:
    for each in runs:
        each.metrics()
    return out


def small_runs() -> None:
    """A finished run of every task, and one that was broken off at step 5."""
    for task in TASKS:
        reference(task)
        words = [*words_of(task), "--run", f"{task}-half"]
        made(words, data_folder(), _stop_at_5, codes=(143,))


def small_sweep() -> None:
    """A sweep of two runs."""
    task, *words = words_of("nth_farthest")[1:]
    place = words.index("--model.mem-slots")
    del words[place : place + 2]
    grid = ["--grid", "model.mem_slots=1,2", "--run", "sweep", "--jobs", "2"]
    made(["sweep", task, *words, *grid], data_folder())


def _stop_at_5() -> None:
    advance = Trainer.advance

    def watched(self, *words):
        if self.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return advance(self, *words)

    setattr(Trainer, "advance", watched)  # noqa: B010


def data_folder() -> Path:
    """Where texts and small runs are."""
    return Path(os.environ["TINYRMC_DATA"])


def with_run(task: str, name: str, folder: Path) -> Path:
    """A copy of a small run, "whole" or "half", as `run` in the folder."""
    return Path(shutil.copytree(data_folder() / f"{task}-{name}", folder / "run"))


# --- One process ----------------------------------------------------------------------


class Ended(NamedTuple):
    """How a process ended: its exit code (None: it hung), and what it said."""

    code: int | None
    out: str
    err: str


Setting = Callable[[], object]  # what a child does before its work


def nothing() -> None:
    """The setting of most children."""


def command(words: Sequence[str]) -> Callable[[], int]:
    """What `python -m tinyrmc.<words>` does."""
    return lambda: importlib.import_module(f"tinyrmc.cli.{words[0]}").main([*words[1:]])


def start(work: Callable[[], int], folder: Path, setting: Setting = nothing) -> int:
    """Begin this work as a command, in a forked child and in `folder`; its process id.

    What it prints goes to the files out and err beside the folder.
    """
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code: Any = 1
    try:
        os.setsid()
        os.chdir(folder)
        _print_into(folder)
        sys.argv = [str(HERE / "faults.py")]
        setting()
        run_main(work)
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


def _print_into(folder: Path) -> None:
    for number, name in (1, "out"), (2, "err"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(f"{folder}.{name}", flags), number)
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), "utf-8")
    unbuffered: Any = open(2, "wb", 0, closefd=False)  # os._exit flushes nothing
    sys.stderr = io.TextIOWrapper(
        unbuffered, "utf-8", "backslashreplace", write_through=True
    )


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


def run(words: Sequence[str], folder: Path, setting: Setting = nothing) -> Ended:
    """Run a command in a child of its own, in `folder`."""
    return wait(start(command(words), folder, setting), folder)


def made(
    words: Sequence[str],
    folder: Path,
    setting: Setting = nothing,
    codes: Sequence[int] = (0,),
) -> None:
    """Run a command that must end well, or nothing here can be trusted."""
    ended = run(words, folder, setting)
    if ended.code not in codes:
        raise SystemExit(f"{' '.join(words)} failed: {ended.err}")


# --- What has become of it ------------------------------------------------------------


def contents(folder: Path) -> dict[str, Any]:
    """What lies in a folder: the bytes of files, the kinds of all else."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
    }


def judge(ended: Ended, same: bool, unchanged: bool = True) -> Verdict:
    """The verdict on a command.

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


class Result(NamedTuple):
    """What a run has come to, but for times of day."""

    arrays: dict[str, tuple[str, bytes]]
    lines: list[dict[str, Any]]
    state: dict[str, Any]


def result_of(folder: Path) -> Result:
    """What a run has come to."""
    opened = Run.open(folder)
    arrays, state = opened.load()
    return Result(
        {name: (x.dtype.str, x.tobytes()) for name, x in arrays.items()},
        [{**line, "seconds": 0} for line in opened.metrics()],
        state | {"seconds": 0, "metrics": 0},
    )


def came_to(wanted: Result, ended: Ended, folder: Path) -> bool:
    """Whether a resumed run came to this, but for lines that it said were gone."""
    if ended.code:
        return False
    found = result_of(folder)
    told = "metrics.jsonl is gone" in ended.err
    return found == wanted or (told and found.arrays == wanted.arrays)


def reference(task: str, workers: int = 1) -> tuple[Result, float]:
    """(what the unbroken run has come to, the seconds that it took).

    Asked for before cases are forked, so that they share it.
    """
    return _whole_run(task, workers)


@functools.cache
def _whole_run(task: str, workers: int) -> tuple[Result, float]:
    began, path = time.monotonic(), data_folder() / f"{task}-{WHOLE[workers]}"
    made([*words_of(task, workers), "--run", str(path)], data_folder())
    return result_of(path), time.monotonic() - began


def go_on(task: str, workers: int, folder: Path, kept: bool = False) -> Verdict:
    """Finish a run that was broken off, and compare it with one that was not.

    kept: whether the run said that it can be resumed; if not, it may begin again.
    """
    path = folder / "run"
    if not (path / "config.json").exists() and not kept:
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        ended = run(["train", "--resume", "run"], folder)
        if ended.code == 2 and "holds no checkpoint" in ended.err and not kept:
            shutil.rmtree(path)
        elif ended.code != 0:
            return "traceback", f"resumed: exit code {ended.code}: {ended.err[-300:]}"
    if not path.exists():
        ended = run([*words_of(task, workers), "--run", "run"], folder)
        if ended.code:
            return "traceback", f"begun again: {ended.err[-300:]}"
    same = result_of(path) == reference(task, workers)[0]
    return ("survived", "") if same else ("silent", "resumed to other bits")
