"""Many faults that runs, files and command lines can meet, and what becomes of them.

    make faults                             all 770, 27 minutes of processor time
    make faults ARGS="--share 0.1 --seed 1 --only kills forged"
    make faults ARGS="--log tried.jsonl"    goes on where it was broken off

Every case is tried in processes of its own, beside a small run of one of the tasks, and
ends in one of four ways. It *survived*: what came out is what came out without the
fault, to the last bit (in `streams` and `words`: no file was changed or lost). It was
*refused*: one line, exit code 2, and no file has changed. It was *silent*: something
else came out, or something was lost, without a word. Or it ended in a *traceback*, in
an exit code of no meaning, or not at all. The last two are our mistakes: they are
listed.

The seed decides everything but the moments of kills and signals, which depend on the
machine too.
"""

import argparse
import contextlib
import copy
import functools
import importlib.util
import io
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from rankhelp import MPIEXEC

from tinyrmc.__main__ import COMMANDS
from tinyrmc.errors import RunError
from tinyrmc.training.run import Run, load_arrays, save_arrays

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits and links of Linux"),
]

ROOT = Path(__file__).resolve().parent.parent
MAKING = threading.Lock()
LONG = 100  # seconds, after which a case counts as hanging; more on a busy machine
OUTCOMES = "survived", "refused", "silent", "traceback"

_ANY = "--train.log-every 3 --train.evaluate-every 6 --train.checkpoint-minutes 1e-9"
_CORE = "--model.mem-slots 2 --model.head-size 4 --model.num-heads 2"
TASKS = {
    "nth_farthest": f"quick {_CORE} --data.dimensions 2 --data.stages 2 1 3 1 "
    "--data.promotion-threshold 0.01 --train.batch-size 8 --train.steps 14",
    "language_modeling": f"quick {_CORE} --train.batch-size 4 --train.steps 8",
    "babi": "quick --data.generated --data.task 1 --train.steps 8 --model.restarts 1",
    "box_world": f"quick {_CORE} --train.batch-size 8 --train.steps 8 --agent.unroll 4 "
    "--model.features 8 --model.hidden-size 8 --world.room 7 --world.stages 5 1 0 "
    "--world.solution 1 2 --world.distractors 0 1 --world.pool 64 --world.limit 50",
}


def words_of(task, workers=1):
    """The words that train a small run."""
    small = TASKS[task].split()
    return ["train", task, *small, *_ANY.split(), "--workers", str(workers)]


# --- One process ----------------------------------------------------------------------

# what `python -m tinyrmc` does, where tasks are tested on few examples and nothing is
# drawn; a run can be broken off at step 5
PROGRAM = """
import importlib, itertools, os, signal, sys, time
heard = signal.getsignal(signal.SIGINT) != signal.SIG_IGN
if heard:  # while all is imported, it ends without a word
    signal.signal(signal.SIGINT, signal.SIG_DFL)
from tinyrmc.cli import train
from tinyrmc.cli.commands import run_main
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

def main():
    for name in os.environ["TASKS_OF_THE_CAMPAIGN"].split():
        kind = load_task(name).Task
        if isinstance(getattr(kind, "test_examples", None), int):
            kind.test_examples = 40
        kind.pictures = lambda *_: []
    train.draw_run = lambda run: []
    if "SLOW_DISK" in os.environ:
        fsync = os.fsync
        os.fsync = lambda file: (time.sleep(0.2), fsync(file))
    if "CLOCK_JUMPS_BACK" in os.environ:
        earlier = itertools.count(time.time(), -3600)
        time.time = lambda: next(earlier)
    if "STOP_AT_5" in os.environ:
        advance = Trainer.advance
        def watched(self, *words):
            if self.step == 4:
                os.kill(os.getpid(), signal.SIGTERM)
            return advance(self, *words)
        Trainer.advance = watched
    return importlib.import_module(f"tinyrmc.cli.{sys.argv[1]}").main(sys.argv[2:])

if heard:
    signal.signal(signal.SIGINT, signal.default_int_handler)
run_main(main)
"""


class Ended(NamedTuple):
    """How a process ended: its exit code (None: it hung), and what it said."""

    code: int | None
    out: str
    err: str


def start(words, folder, before="", after="", ranks=1, **around):
    """Begin a command in `folder`, in a shell of its own; before, after: what the shell
    does before it, and with its streams.
    """
    launch = [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py"]
    launch = launch if ranks > 1 else [sys.executable]
    line = shlex.join([*launch, "-c", PROGRAM, *words])
    shell = f"set -o pipefail; {before} {'' if '|' in after else 'exec'} {line} {after}"
    around = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **around}
    around["TASKS_OF_THE_CAMPAIGN"] = " ".join(TASKS)
    return subprocess.Popen(
        ["bash", "-c", shell],
        cwd=folder,
        env=os.environ | around,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def wait(child):
    """How it ended; its session is killed if it hangs, and when it has ended."""
    said, busy = None, os.getloadavg()[0] / (os.cpu_count() or 1)
    with contextlib.suppress(subprocess.TimeoutExpired):
        said = child.communicate(timeout=LONG * max(1, busy))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    return Ended(child.returncode, *said) if said else Ended(None, *child.communicate())


def run(words, folder, *setting, **around):
    """A command from beginning to end."""
    return wait(start(words, folder, *setting, **around))


def made(words, codes=(0,), **around):
    """Run a command among the data that must end well, or nothing can be trusted."""
    ended = run(words, data_folder(), **around)
    assert ended.code in codes, f"{' '.join(words)} failed: {ended.err}"


# --- What has become of it ------------------------------------------------------------


def contents(folder):
    """A folder's contents: the bytes of files, the kinds of all else."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
    }


def judge(ended, same, unchanged=True):
    """The verdict on a command: one of OUTCOMES, and what was wrong.

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


def result_of(folder):
    """A run's final arrays, lines and state, but for times of day."""
    opened = Run.open(folder)
    arrays, state = opened.load()
    return (
        {name: (x.dtype.str, x.tobytes()) for name, x in arrays.items()},
        [{**line, "seconds": 0} for line in opened.metrics()],
        state | {"seconds": 0, "metrics": 0},
    )


def goes_for(wanted, found, ended):
    """Whether a resumed run came to this, but for lines that it said were gone."""
    told = "metrics.jsonl is gone" in ended.err
    return found == wanted or (told and found[0] == wanted[0])


def go_on(task, workers, folder, kept=False, ranks=1):
    """Finish a run that was broken off, and compare it with one that was not.

    kept: whether the run said that it can be resumed; if not, it may begin again.
    """
    path, ended = folder / "run", Ended(2, "", "holds no checkpoint")
    if (path / "config.json").exists() or kept:
        ended = run(["train", "--resume", "run"], folder, ranks=ranks)
        if ended.code and (kept or "holds no checkpoint" not in ended.err):
            return "traceback", f"resumed: exit code {ended.code}: {ended.err[-300:]}"
    if ended.code:
        shutil.rmtree(path, ignore_errors=True)
        words = [*words_of(task, workers), "--run", "run"]
        ended = run(words, folder, ranks=ranks)
    if ended.code:
        return "traceback", f"begun again: {ended.err[-300:]}"
    same = result_of(path) == reference(task, workers, ranks)[0]
    left = [*path.glob("*.partial")]
    return ("survived", "") if same and not left else ("silent", f"other bits, {left}")


# --- Small runs -----------------------------------------------------------------------


def data_folder():
    """Where texts and small runs are."""
    return Path(os.environ["TINYRMC_DATA"])


def prepare(folder, names):
    """Write a text and the small runs that these groups need: of every task one that
    has finished and one that was broken off.
    """
    os.environ["TINYRMC_DATA"] = str(folder)
    said = "the cat sat on a mat and saw some other cats there".split()
    for part, count in ("train", 400), ("valid", 30), ("test", 40):
        rng = np.random.default_rng(count)
        lines = [" ".join(rng.choice(said, 6)) for _ in range(count)]
        (folder / f"ptb.{part}.txt").write_text("\n".join([*lines, ""]))
    for task in TASKS:
        reference(task, 1)
        made([*words_of(task), "--run", f"{task}-half"], (143,), STOP_AT_5="1")
        if {"kills", "signals", "machines"} & {*names}:
            reference(task, 2)
    if "ranks" in names:
        reference("nth_farthest", 1, 2)
    if "sweeps" in names:
        words = ["sweep", *words_of("nth_farthest")[1:-2], "--grid", *SWEPT]
        made([*words, "--run", "sweep"])


@functools.cache
def reference(task, workers, ranks=1):
    """(what the unbroken run has come to, the seconds that it took)."""
    began, path = time.monotonic(), data_folder() / f"{task}-whole{ranks * workers}"
    path = path.with_name(f"{path.name}-ranks") if ranks > 1 else path
    with MAKING:  # two attempts at a time may ask for the same
        if not path.exists():
            made([*words_of(task, workers), "--run", str(path)], ranks=ranks)
    return result_of(path), time.monotonic() - began


def with_run(task, name, folder):
    """A copy of a small run, "whole1" or "half", as `run` in the folder."""
    return Path(shutil.copytree(data_folder() / f"{task}-{name}", folder / "run"))


# --- Damage ---------------------------------------------------------------------------

# a value of every kind that JSON has, and some that nobody expects
KINDS = (
    *(None, True, -7, 1.5, 10**30, float("nan"), "text", "", "x" * 5000, "\0"),
    *([], ["text"], [[1, 2], 3], {}, {"text": 1}),
)
DAMAGES = """
cut flipped noise emptied nested another webpage gone folder pipe device loop
""".split()


def damage(how, path, rng):
    """Harm a file; says how."""
    data = path.read_bytes()
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how in ("device", "loop"):
        path.symlink_to("/dev/zero" if how == "device" else path.name)
    elif how != "gone":
        path.write_bytes(_damaged(how, data, path.suffix == ".npz", rng))
    return how


def _damaged(how, data, archive, rng):
    """The bytes of a harmed file; archive: of an npz file."""
    at = rng.randrange(len(data))
    if how == "flipped":  # one bit
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    made = io.BytesIO()
    if how == "nested" and archive:
        with zipfile.ZipFile(made, "w") as file:
            file.writestr("tinyrmc.json", "[" * 100_000)
    elif how == "another" and archive:
        np.savez(made, weights=np.ones(3))
    return {
        "cut": data[:at],
        "noise": rng.randbytes(rng.randrange(1, 5000)),
        "emptied": b"",
        "nested": made.getvalue() or b"[" * 100_000,
        "another": made.getvalue() or json.dumps(rng.choice(KINDS)).encode(),
        "webpage": b"<!DOCTYPE html>\n<title>404 Not Found</title>\n",
    }[how]


# --- Forgeries ------------------------------------------------------------------------


def places(value, path=()):
    """The places of all values in what JSON gave, containers included."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else pairs:
        yield from places(part, (*path, key))


def forged_value(value, rng, where=lambda place: True):
    """(a copy with a value of another kind at one of these places, which says so)."""
    place = rng.choice([p for p in places(value) if where(p)])
    inner = changed = copy.deepcopy(value)
    for key in place[:-1]:
        inner = inner[key]
    new = inner[place[-1]] = rng.choice(other_kinds(inner[place[-1]]))
    return changed, f"{place} = {str(new)[:20]!r}"


def other_kinds(value):
    """KINDS, but for those that could stand in this value's place.

    Where there is nothing, a number or a text could.
    """
    if value is None:
        return [new for new in KINDS if isinstance(new, bool | list | dict)]
    alike = (float, int) if type(value) is float else (type(value),)
    return [new for new in KINDS if type(new) not in alike]


def forge_json(path, rng):
    """Put a value of another type into a JSON file, or into one of its lines."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else []
    number = rng.randrange(len(lines)) if lines else 0
    value, says = forged_value(
        json.loads(lines[number] if lines else path.read_text()), rng
    )
    text = json.dumps(value)
    if lines:
        lines[number] = text
        text = "\n".join(lines)
    path.write_text(text + "\n")
    return says


def forge_state(path, rng):
    """The same in the state of a checkpoint, whose checksum is right."""
    arrays, state = load_arrays(path)
    state, says = forged_value(state, rng, lambda p: p[0] != "window" or len(p) < 3)
    save_arrays(path, arrays, state)
    return says


def forge_arrays(path, rng):
    """Make an array of a checkpoint not finite, or give it another shape, type or name,
    or take it away.
    """
    arrays, state = load_arrays(path)
    how = rng.choice(("not finite", "shape", "type", "name", "gone"))
    name = rng.choice([n for n in arrays if how != "not finite" or "parameters/" in n])
    x = arrays.pop(name)
    arrays |= {
        "not finite": lambda: {name: np.full_like(x, rng.choice((np.nan, np.inf)))},
        "shape": lambda: {name: np.zeros((*x.shape, 2), x.dtype)},
        "type": lambda: {name: x.astype(rng.choice((bool, np.complex64)))},
        "name": lambda: {f"{name}.other": x},
        "gone": dict,
    }[how]()
    save_arrays(path, arrays, state)
    return f"{name}: {how}"


FORGERIES = [(forge_state, "checkpoint.npz"), (forge_arrays, "checkpoint.npz")]
for name in "config.json", "environment.json", "metrics.jsonl", "lock.json":
    FORGERIES.append((forge_json, name))


# --- Runs that end in the middle ------------------------------------------------------


def kills(rng, folder):
    """SIGKILL at random moments, up to three times, to a run or a worker of it."""
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    words = [*words_of(task, workers), "--run", "run"]
    for _ in range(rng.randint(1, 3)):
        child, pid = start(words, folder), None
        time.sleep(rng.uniform(0, 1.1 * reference(task, workers)[1]))
        if rng.random() < 0.3:
            path = Path(f"/proc/{child.pid}/task/{child.pid}/children")
            pid = path.read_text().split()[:1] if path.exists() else None
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid[0]) if pid else child.pid, signal.SIGKILL)
        if wait(child).code not in (0, 2, -signal.SIGKILL):
            return "traceback", f"{task}, {workers} workers: exit code"
        if (folder / "run" / "checkpoint.npz").exists():
            words = ["train", "--resume", "run"]
        else:
            shutil.rmtree(folder / "run", ignore_errors=True)
    outcome, why = go_on(task, workers, folder)
    return outcome, f"{task}, {workers} workers: {why}"


def signals(rng, folder):
    """A signal at a random moment: a run that has begun can be resumed. Some ignore it,
    as `nohup` and a shell's background do.
    """
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    name = rng.choice(("INT", "TERM", "HUP"))
    ignored = name != "TERM" and rng.random() < 0.3
    where = f"{task}, {workers} workers, {name}{', ignored' * ignored}"
    before = f"trap '' {name};" * ignored
    child = start([*words_of(task, workers), "--run", "run"], folder, before)
    time.sleep(rng.uniform(0, 1.1 * reference(task, workers)[1]))
    number = signal.Signals[f"SIG{name}"]
    child.send_signal(number)
    ended = wait(child)
    ours = "tinyrmc" in ended.err or ended.code != 1
    # before Python reaches our code, it has a message of its own
    codes = (0,) if ignored and name == "HUP" else (0, 128 + number, -number)
    if ours and ("Traceback" in ended.err or ended.code not in codes):
        return "traceback", f"{where}: exit code {ended.code}: {ended.err[-300:]}"
    outcome, why = go_on(task, workers, folder, kept=(folder / "run").exists())
    return outcome, f"{where}: {why}"


def starts(rng, folder):
    """Ctrl-C while a command's modules are imported."""
    line = [sys.executable, "-m", "tinyrmc", rng.choice([*COMMANDS]), "--help"]
    before = "" if rng.random() < 0.7 else "trap '' INT;"
    child = start([], folder, f"{before} exec {shlex.join(line)};")
    time.sleep(rng.uniform(0, 1))
    child.send_signal(signal.SIGINT)
    ended = wait(child)
    # before Python reaches our code, it has a message of its own
    well = ended.code in ((0,) if before else (0, 130, -2)) or (
        not before and "tinyrmc" not in ended.err.replace(str(folder), "")
    )
    why = f"{line[-2]}: exit code {ended.code}: {ended.err[-200:]}"
    return ("survived", "") if well else ("traceback", why)


def ranks(rng, folder):
    """Of two ranks one is killed, or mpiexec gets a signal."""
    task, how = "nth_farthest", rng.choice(("a signal", "a rank is killed"))
    child = start([*words_of(task), "--run", "run"], folder, ranks=2)
    time.sleep(rng.uniform(0.5, 1.1 * reference(task, 1, 2)[1]))
    found = [child.pid]
    for pid in found:  # and all below
        with contextlib.suppress(OSError):
            path = Path(f"/proc/{pid}/task/{pid}/children")
            found += map(int, path.read_text().split())
    with contextlib.suppress(ProcessLookupError):
        if how == "a signal":
            child.terminate()
        else:
            os.kill(found[-1], signal.SIGKILL)
    ended = wait(child)
    if ended.code is None or "Traceback" in ended.err:
        return "traceback", f"{how}: exit code {ended.code}: {ended.err[-300:]}"
    outcome, why = go_on(task, 1, folder, ranks=2)
    return outcome, f"{how}: {why}"


# --- Machines that are poor or odd ----------------------------------------------------

OWN_MOUNTS = "exec unshare -m bash -c 'mount -t tmpfs -o size=64k t /dev/shm; \"$@\"' -"
MACHINES = {  # what the shell does before the command, and what surrounds it
    "sleeps": ("", {}),
    "a slow disk": ("", {"SLOW_DISK": "1"}),
    "a clock that jumps back": ("", {"CLOCK_JUMPS_BACK": "1"}),
    "20 handles": ("ulimit -n 20;", {}),
    "64 KiB of shared memory": (OWN_MOUNTS, {}),
}


def machines(rng, folder):
    """A whole run on such a machine: it comes to the same."""
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    name, (before, around) = rng.choice([*MACHINES.items()])
    whole, seconds = reference(task, workers)
    words = [*words_of(task, workers), "--run", "run"]
    child = start(words, folder, before, **around)
    for _ in range(3 * (name == "sleeps")):
        time.sleep(rng.uniform(0, seconds / 3))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGSTOP)
            time.sleep(1)
            os.killpg(child.pid, signal.SIGCONT)
    ended = wait(child)
    outcome, why = judge(ended, not ended.code and result_of(folder / "run") == whole)
    return outcome, f"{task}, {workers} workers, {name}: {why}"


# --- Disks, streams, few files --------------------------------------------------------


def mount(folder, size, how=""):
    """Whether a file system of so many bytes in memory is there now."""
    words = ["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "tmpfs", folder]
    return subprocess.run(words, capture_output=True).returncode == 0


def disks(rng, folder):
    """The disk of a run, or that of its log, is full at some point."""
    task, small, log = rng.choice([*TASKS]), folder / "small", rng.random() < 0.3
    small.mkdir()
    words = [*words_of(task), "--run"]
    assert mount(small, rng.randrange(1, 40) * 4096 * rng.choice((1, 4)))
    try:
        if log:
            fill = f"head -c 1G /dev/zero >{small}/ballast 2>/dev/null;"
            ended = run([*words, f"{folder}/run"], folder, fill, f">{small}/log")
        else:
            ended = run([*words, f"{small}/run"], folder)
        outcome, why = judge(ended, same=True)
        if outcome != "traceback":
            mount(small, 1 << 26, "remount,")
            outcome, why = go_on(task, 1, folder if log else small)
    finally:
        subprocess.run(["umount", "-l", small], capture_output=True)
    return outcome, f"{task}, {'log' if log else 'run'}: {why}"


SETTINGS = {  # what the shell does before the command, and with its streams
    "no room for output": ("", ">/dev/full"),
    "no room for errors": ("", "2>/dev/full"),
    "no room": ("", ">/dev/full 2>&1"),
    "no reader": ("", "| true"),
    "no input": ("", "<&-"),
    "no output": ("", ">&-"),
    "no errors": ("", "2>&-"),
    "no streams": ("", "<&- >&- 2>&-"),
    "ASCII": ("export PYTHONUTF8=0 PYTHONIOENCODING=ascii:strict;", ""),
    **{f"{n} handles": (f"ulimit -n {n};", "") for n in (8, 12, 20, 64)},
    # ulimit counts blocks of 1,024 bytes
    **{f"files of {n} KiB": (f"ulimit -f {n};", "") for n in (0, 1, 3, 30)},
}
# under which nobody can hear why a command was refused
DEAF = ("no errors", "no streams", "no room for errors", "no room", "files of")


def streams(rng, folder):
    """A command with such streams, few file handles, or files that may not grow; what a
    run has must survive.
    """
    task, (name, setting) = rng.choice([*TASKS]), rng.choice([*SETTINGS.items()])
    with_run(task, "whole1", folder)
    before = contents(folder)
    words = rng.choice(reading(task))
    if rng.random() < 0.3:
        words = [*words_of(task, rng.choice((1, 2))), "--run", "new"]
    ended = run(words, folder, *setting)
    if name == "no reader" and ended.code == 141:
        ended = ended._replace(code=0)
    if name.startswith(DEAF) and ended.code == 2 and not ended.err:
        ended = ended._replace(err="error: which nobody could hear")
    after = contents(folder)
    changed = [p for p in before if after.get(p) != before[p] and "png" not in p]
    outcome, why = judge(ended, same=not changed, unchanged=not changed)
    why = why and f"{why}; changed: {changed}"
    return outcome, f"{' '.join(words)[:60]} with {name}: {why}"


# --- Files that are damaged or forged -------------------------------------------------


def reading(task):
    """The commands that read a run."""
    lines = "evaluate run --json --metrics-only;evaluate run --export weights.npz"
    lines += ";report run;plot run;plot analyses run"
    lines += ";generate run cat --words 5" * (task == "language_modeling")
    lines += ";plot episode run" * (task == "box_world")
    return [line.split() for line in lines.split(";")]


def _told(ended, folder):
    """A command's words and weights, so far as they count."""
    said = re.sub(r"\d+:\d\d(:\d\d)?", "", ended.out)
    weights = folder / "weights.npz"
    return said, weights.exists() and weights.read_bytes()


@functools.cache
def _unharmed(task, words):
    """A command's words on a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        with_run(task, "whole1", Path(folder))
        return _told(run([*words], Path(folder)), Path(folder))


def _harmed(rng, folder, harm, only):
    """A file of a run is harmed; then a command reads the run, or goes on with it.

    only: which of its files; None: any.
    """
    task, resume = rng.choice([*TASKS]), rng.random() < 0.35
    path = with_run(task, "half" if resume else "whole1", folder)
    if only == "lock.json":
        (path / only).write_text('{"pid": 1, "host": "elsewhere", "since": "then"}')
    files = sorted(p.name for p in path.iterdir() if p.suffix in (".json", ".jsonl"))
    name = only or rng.choice([*files, "checkpoint.npz", "checkpoint.npz"])
    said = f"{task}, {name}: {harm(path / name, rng)}"
    before = contents(folder)
    words = ["train", "--resume", "run"] if resume else rng.choice(reading(task))
    ended = run(words, folder)
    if resume:
        same = not ended.code and goes_for(
            reference(task, 1)[0], result_of(path), ended
        )
    else:
        same = not ended.code and _told(ended, folder) == _unharmed(task, (*words,))
    after = {path: x for path, x in contents(folder).items() if path in before}
    outcome, why = judge(ended, same, unchanged=after == before)
    return outcome, f"{said}; {' '.join(words)[:40]}: {why}"


def damaged(rng, folder):
    """A file of a run is damaged, or is no file."""
    how = rng.choice(DAMAGES)
    only = "checkpoint.npz" if how == "flipped" else None
    return _harmed(rng, folder, functools.partial(damage, how), only)


def forged(rng, folder):
    """A file of a run holds a value of another type, with a checksum that is right."""
    return _harmed(rng, folder, *rng.choice(FORGERIES))


SWEPT = ["train.clip_norm=1,2", "--seeds", "0", "--jobs", "1"]


def sweeps(rng, folder):
    """A file of a sweep, or of one of its runs, is damaged or forged."""
    path = Path(shutil.copytree(data_folder() / "sweep", folder / "sweep"))
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and p.suffix != ".png"]
    file, forge = rng.choice(files), rng.random() < 0.6
    if forge and file.suffix in (".json", ".jsonl"):
        how = forge_json(file, rng)
    else:  # what is flipped in a picture or a log nobody checks
        how = damage(rng.choice([d for d in DAMAGES if d != "flipped"]), file, rng)
    words = [*rng.choice(("sweep --resume", "report", "plot")).split(), "sweep"]
    ended = run(words, folder)
    if ended.code == 1 and words[0] == "sweep":  # it came to its end, and runs failed
        ended = ended._replace(code=0)
    outcome, why = judge(ended, same=True)
    return outcome, f"{file.relative_to(folder)}: {how}; {' '.join(words)}: {why}"


def texts(rng, folder):
    """A text's file is no file any more, or the integers made from it are damaged."""
    source = shutil.copytree(data_folder(), folder / "texts", ignore=_not_texts)
    cache, kept = folder / "cache", rng.random() < 0.7
    around = {"TINYRMC_DATA": source, "TINYRMC_CACHE": str(cache)}
    ended = run(["data", "ptb"], folder, **around)
    assert ended.code == 0, ended.err
    files = [p for p in sorted((cache if kept else source).rglob("*")) if p.is_file()]
    file = rng.choice(files)
    # a text that says something else is another text
    how = damage(rng.choice(DAMAGES if kept else DAMAGES[-5:]), file, rng)
    train = [*words_of("language_modeling"), "--run", "run"]
    for words in rng.sample((["data"], ["data", "ptb"], train), 3):
        ended = run(words, folder, **around)
        whole, same = reference("language_modeling", 1)[0], words != train
        if words == train and kept and not ended.code:
            same = result_of(folder / "run") == whole
        outcome, why = judge(ended, same)
        if outcome in ("silent", "traceback"):
            break
    return outcome, f"{file.name}: {how}; {' '.join(words)[:40]}: {why}"


def _not_texts(_, names):
    return [name for name in names if not name.startswith("ptb.")]


# --- Words that make no sense ---------------------------------------------------------

LINES = """
train TASK; train --resume run; evaluate run; evaluate run --json; plot run;
plot attention run; plot hops run; plot analyses run; plot episode run; report run;
report run --out r.md; sweep TASK --grid train.batch_size=4 --seeds x; data; data ptb;
generate run the; play box_world; play mini_pacman --agent run;
new mine
""".replace("\n", " ").split(";")
BAD = [
    *("", " ", "-1", "0", "0.5", "nan", "inf", "-inf", "1e999", "9" * 400, "1,2"),
    *("x" * 300, "None", "=", "--", "a/b", "/dev/null"),
    *("\u00e9\U0001f600", "\udcff"),
]


def words(rng, folder):
    """A command line with a word that cannot be right, or is not wanted."""
    task = rng.choice([*TASKS])
    with_run(task, "whole1", folder)
    line = _spoilt_line(rng, task)
    if line[0] == "train":
        line += ["--max-minutes", "0.0001"]
    before = contents(folder)
    ended = run(line, folder, f"ulimit -v {12 << 20};")  # kibibytes
    after = contents(folder)
    refused = ended.code == 2
    unchanged = after == before if refused else before.keys() <= after.keys()
    meant = not any("NaN" in file.read_text() for file in folder.rglob("config.json"))
    outcome, why = judge(ended, meant and unchanged, unchanged)
    return outcome, f"{line!r}: {why}"


def _spoilt_line(rng, task):
    """A line of LINES with a bad word in it, or one too few."""
    line = rng.choice(LINES).replace("TASK", task).split()
    if line[:2] == ["train", task]:
        line = words_of(task)
    bad, flags = rng.choice(BAD), _flags(line[0], task)
    how = rng.choice(("flag", "flag", "flag", "more", "less", "other"))
    if how == "flag" and flags:
        line += [rng.choice(flags), *([bad] if rng.random() < 0.9 else [])]
    elif how == "more":
        line.insert(rng.randrange(1, len(line) + 1), bad)
    elif how == "less" and len(line) > 1:
        line.pop(rng.randrange(1, len(line)))
    elif len(line) > 1:
        line[rng.randrange(1, len(line))] = bad
    return line


@functools.cache
def _flags(name, task):
    """The flags that a command has."""
    help_ = [name, *([task, "--help-all"] if name == "train" else ["--help"])]
    found = set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", run(help_, data_folder()).out))
    return sorted(found - {"--help", "--help-all", "--max-minutes"})


# --- Calls of the library -------------------------------------------------------------

CALL = """
import sys
import numpy as np
import tinyrmc
from tinyrmc.errors import UserError
from tinyrmc.training.run import load_arrays, save_arrays
from tinyrmc.training.run import Run
from tinyrmc.training.discovery import load_task
from tinyrmc.training.loop import run_training
from tinyrmc.training.trainer import Trainer

kind, run = load_task("nth_farthest").Task, Run.open("run")
task = kind(next(iter(kind.presets.values()))[1])
try:
    {call}
except (ValueError, TypeError, UserError) as error:
    print("error:", " ".join(str(error).split()), file=sys.stderr)
    sys.exit(2)
"""
CALLS = {  # and the kinds of which a value may be right there
    "Trainer(task, seed={})": (int,),
    "Trainer(task, workers={})": (int, type(None)),
    "Trainer(task, device={})": (),
    "tinyrmc.load({})": (),
    "load_arrays({})": (),
    "save_arrays('x.npz', {{'a': {}}}, {{}})": (int, float, list),
    "save_arrays('x.npz', {{{}: np.ones(1)}}, {{}})": (str,),
    "Run.open({})": (),
    "run.log({})": (dict,),
    "run_training(Trainer(task), run, {})": (int, float, type(None)),
}


def calls(rng, folder):
    """A call of the library with a value that cannot be right: the error says so."""
    call, right = rng.choice([*CALLS.items()])
    bad = rng.choice([x for x in (*KINDS, 2.5, b"x", -1) if not _may_be(x, right)])
    with_run("nth_farthest", "whole1", folder)
    program = CALL.format(call=call.format(f"eval({repr(bad)!r}, {{'nan': np.nan}})"))
    line = shlex.join([sys.executable, "-c", program])
    outcome, why = judge(wait(start([], folder, f"exec {line};")), same=False)
    return outcome, f"{call.format(str(repr(bad))[:40])}: {why}"


def _may_be(value, kinds):
    """Whether a value is of these kinds; below 0 only an array's numbers are right."""
    negative = isinstance(value, int | float) and not value >= 0
    return isinstance(value, kinds) and (list in kinds or not negative)


# --- The campaign ---------------------------------------------------------------------

GROUPS = {kills: 50, signals: 40, disks: 20, streams: 80}  # and how many cases
GROUPS |= {damaged: 120, forged: 180, words: 160}
GROUPS |= {starts: 10, ranks: 10, machines: 40, sweeps: 20, texts: 20, calls: 20}
NAMES = {group.__name__: group for group in GROUPS}


def attempt(name, number, seed):
    """One case: (its group, the outcome, what was wrong)."""
    rng = random.Random(f"{name} {number} {seed}")
    with tempfile.TemporaryDirectory(prefix="tinyrmc-faults-") as folder:
        outcome, why = NAMES[name](rng, Path(folder))
    return name, outcome, f"case {number}: {why}"


def campaign(names, share, seed, log):
    """({group: {outcome: how many}}, what went wrong), on all cores. Cases that the log
    has already are not tried again.
    """
    cases = [
        (name, number, seed)
        for name in names
        for number in range(max(1, round(GROUPS[NAMES[name]] * share)))
    ]
    random.Random(seed).shuffle(cases)
    lines = log.read_text().splitlines() if log.exists() else []
    tried = {tuple(case): ended for case, ended in map(json.loads, lines)}

    def trying(case):
        if case not in tried:
            tried[case] = attempt(*case)
            with MAKING, log.open("a") as file:
                print(json.dumps((case, tried[case])), file=file)
        return tried[case]

    found, wrong = {name: dict.fromkeys(OUTCOMES, 0) for name in names}, []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, outcome, why in pool.map(trying, cases):
            found[name][outcome] += 1
            if outcome in ("silent", "traceback"):
                wrong.append(f"{name}, {outcome}, {why}")
                print(wrong[-1], file=sys.stderr, flush=True)
    return found, wrong


def main(words=None):
    """The command line; exit code 1 if a case was silent or ended in a traceback."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=[*NAMES])
    parser.add_argument("--share", type=float, default=1.0, help="of the cases")
    parser.add_argument("--log", type=Path, help="where each case's end is kept")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="tinyrmc-faults-") as folder:
        if "disks" in options.only and not mount(folder, 1 << 30):
            options.only = [name for name in options.only if name != "disks"]
            MACHINES.pop("64 KiB of shared memory", None)
            print("disks cannot be tried here: no tmpfs can be mounted")
        if MPIEXEC is None or importlib.util.find_spec("mpi4py") is None:
            options.only = [name for name in options.only if name != "ranks"]
            print("ranks cannot be tried here: no MPI")
        prepare(Path(folder), options.only)
        log = options.log or Path(folder, "tried.jsonl")
        found, wrong = campaign(options.only, options.share, options.seed, log)
        subprocess.run(["umount", "-l", folder], capture_output=True)
    print(f"{'':10}", *(f"{outcome:>10}" for outcome in OUTCOMES))
    for name, counts in found.items():
        print(f"{name:10}", *(f"{count:10}" for count in counts.values()))
    return bool(wrong)


# --- A share of it in the tests, and that it would tell -------------------------------


@pytest.mark.weekly
def test_a_small_share_of_the_campaign(monkeypatch, capsys):
    """No case of it is silent, and none ends in a traceback."""
    monkeypatch.setenv("TINYRMC_DATA", "")  # and back to what it was
    assert main(["--share", "0.02"]) == 0
    assert "forged" in capsys.readouterr().out


def test_what_is_wrong_is_called_so():
    line = "error: no\n"
    for ended, same, unchanged, outcome in (
        (Ended(0, "", ""), True, True, "survived"),
        (Ended(0, "", ""), False, True, "silent"),
        (Ended(2, "", line), False, True, "refused"),
        (Ended(2, "", line), False, False, "silent"),
        (Ended(2, "", line * 2), False, True, "traceback"),
        (Ended(2, "", "no\n"), False, True, "traceback"),
        (Ended(1, "", line), False, True, "traceback"),
        (Ended(0, "", "Traceback (most recent call last)"), True, True, "traceback"),
        (Ended(-11, "", ""), True, True, "traceback"),
        (Ended(None, "", ""), True, True, "traceback"),
    ):
        assert judge(ended, same, unchanged)[0] == outcome, ended


def test_damages_are_damages_and_forgeries_have_checksums_that_are_right(tmp_path):
    config = {"task": "t", "preset": "p", "seed": 0, "config": {"rungs": [[1, 2]]}}
    small = Run.create(tmp_path, "run", config, {"command": "c"}, tmp_path / "run")
    small.log({"step": 1, "loss": 0.5, "stage": "4x4"})
    state = {"run": config, "step": 1, "window": {"loss": [1, 2]}}
    small.save({"parameters/w": np.ones(3, np.float32)}, state)
    rng, checkpoint = random.Random(0), small.checkpoint
    for name in ("config.json", "environment.json", "metrics.jsonl") * 5:
        path = small.path / name
        before = path.read_text()
        forge_json(path, rng)
        assert path.read_text() != before
        path.write_text(before)
    whole = checkpoint.read_bytes()
    for forge in (forge_state, forge_arrays) * 5:
        forge(checkpoint, rng)
        load_arrays(checkpoint)
        assert checkpoint.read_bytes() != whole
        checkpoint.write_bytes(whole)
    for how in DAMAGES:
        damage(how, checkpoint, rng)
        try:
            arrays, kept = small.load()
        except RunError:
            pass
        else:  # one bit of a date in the zip file's directory
            assert how == "flipped" and kept["step"] == state["step"]
            assert arrays["parameters/w"].tolist() == [1, 1, 1]
        shutil.rmtree(checkpoint) if how == "folder" else checkpoint.unlink(True)
        checkpoint.write_bytes(whole)


if __name__ == "__main__":
    sys.exit(main())
