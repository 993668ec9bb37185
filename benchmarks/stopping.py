"""Faults that end a run in the middle: kills and signals, to all its processes or one.

Each is a function of a random generator and an empty folder, as faults.py takes them.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import forging
from trials import (
    COMMANDS,
    HERE,
    LONG,
    TASKS,
    Ended,
    Verdict,
    came_to,
    command,
    contents,
    data_folder,
    go_on,
    judge,
    reference,
    result_of,
    start,
    wait,
    words_of,
)

MPIEXEC = shutil.which("mpiexec")
TOGETHER = 8.0  # seconds that a small run of two ranks may take


def kills(rng: random.Random, folder: Path) -> Verdict:
    """SIGKILL, up to three times, at random moments."""
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    seconds = reference(task, workers)[1]
    words = [*words_of(task, workers), "--run", "run"]
    for _ in range(rng.randint(1, 3)):
        pid = start(command(words), folder)
        time.sleep(rng.uniform(0, 1.1 * seconds))
        os.kill(pid, signal.SIGKILL)
        wait(pid, folder)
        if (folder / "run" / "checkpoint.npz").exists():
            words = ["train", "--resume", "run"]
        else:
            shutil.rmtree(folder / "run", ignore_errors=True)
    outcome, why = go_on(task, workers, folder)
    return outcome, f"{task}, {workers} workers: {why}"


def signals(rng: random.Random, folder: Path) -> Verdict:
    """A signal at a random moment: a run that has begun can be resumed."""
    task, workers = rng.choice([*TASKS]), rng.choice((1, 2))
    number = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    where = f"{task}, {workers} workers, {number.name}"
    words = [*words_of(task, workers), "--run", "run"]
    pid = start(command(words), folder, _default_signals)
    time.sleep(rng.uniform(0, 1.1 * reference(task, workers)[1]))
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


def starts(rng: random.Random, folder: Path) -> Verdict:
    """Ctrl-C while a command's modules are being imported."""
    name = rng.choice(COMMANDS)
    child = _popen(sys.executable, "-m", "tinyrmc", name, "--help", folder=folder)
    time.sleep(rng.uniform(0, 1.0))
    child.send_signal(signal.SIGINT)
    ended = _ended(child)
    ours = "tinyrmc" in ended.err.replace(str(folder), "")
    # before Python reaches our code, it has a message of its own
    if ended.code in (0, 130, -2) or not ours:
        return "survived", ""
    return "traceback", f"{name}: exit code {ended.code}: {ended.err[-200:]}"


def workers(rng: random.Random, folder: Path) -> Verdict:
    """One of two worker processes is killed at a random moment."""
    task = rng.choice([*TASKS])
    pid = start(command([*words_of(task, 2), "--run", "run"]), folder)
    time.sleep(rng.uniform(0.1, 1) * reference(task, 2)[1])
    _kill_one(pid, rng)
    outcome, why = judge(wait(pid, folder), same=True)
    if outcome != "traceback":
        outcome, why = go_on(task, 2, folder)
    return outcome, f"{task}: {why}"


def _kill_one(parent: int, rng: random.Random) -> None:
    """SIGKILL to one of a process's children, if it has any."""
    with contextlib.suppress(OSError):
        found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if found:
            os.kill(int(rng.choice(found)), signal.SIGKILL)


# --- Ranks of MPI ---------------------------------------------------------------------


def ranks(rng: random.Random, folder: Path) -> Verdict:
    """A run of two ranks: a signal comes, or a rank is killed, or a file is damaged."""
    how = rng.choice(("a signal", "a rank is killed", "damaged"))
    words, resume = [*words_of("nth_farthest"), "--run", "run"], ["--resume", "run"]
    if how == "damaged":
        shutil.copytree(_run_of_ranks(), folder / "run")
        return _damaged(rng, folder, ["train", *resume])
    child = _mpiexec(words, folder)
    time.sleep(rng.uniform(0.5, 1.1 * TOGETHER))
    if how == "a signal":
        child.terminate()
    else:
        _kill_rank(child.pid, rng)
    ended = _ended(child)
    if ended.code is None or "Traceback" in ended.err:
        return "traceback", f"{how}: exit code {ended.code}: {ended.err[-300:]}"
    if not (folder / "run" / "checkpoint.npz").exists():
        return "survived", f"{how}: nothing had been saved"
    ended = _ended(_mpiexec(["train", *resume], folder))
    if ended.code:
        return "traceback", f"{how}: resumed: {ended.code}: {ended.err[-300:]}"
    same = result_of(folder / "run") == result_of(_run_of_ranks())
    return ("survived" if same else "silent"), how


def _damaged(rng: random.Random, folder: Path, words: list[str]) -> Verdict:
    damage = rng.choice([d for d in forging.DAMAGES if d is not forging.flip])
    name = rng.choice(("config.json", "metrics.jsonl", "checkpoint.npz"))
    damage(folder / "run" / name, rng)
    before = contents(folder)
    ended = _ended(_mpiexec(words, folder))
    same = came_to(result_of(_run_of_ranks()), ended, folder / "run")
    after = {path: x for path, x in contents(folder).items() if path in before}
    outcome, why = judge(ended, same, not ended.code or after == before)
    return outcome, f"{name}, {damage.__name__}: {why}"


def _popen(*words: str, folder: Path) -> subprocess.Popen[str]:
    around = os.environ | {
        "PYTHONPATH": str(HERE.parent),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
    }
    return subprocess.Popen(
        words,
        cwd=folder,
        env=around,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _ended(child: subprocess.Popen[str]) -> Ended:
    try:
        out, err = child.communicate(timeout=LONG)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return Ended(None, "", "")
    return Ended(child.returncode, out, err)


def _mpiexec(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """A command of ours on two ranks."""
    ours = [sys.executable, "-m", "mpi4py", "-m", "tinyrmc", *words]
    assert MPIEXEC is not None
    return _popen(MPIEXEC, "-n", "2", *ours, folder=folder)


def _kill_rank(pid: int, rng: random.Random) -> None:
    """SIGKILL to one of the processes below mpiexec that have no children."""
    below = [pid]
    for one in below:
        with contextlib.suppress(OSError):
            path = Path(f"/proc/{one}/task/{one}/children")
            below += map(int, path.read_text().split())
    leaves = [one for one in below[1:] if b"mpi4py" in _words_of_process(one)]
    if leaves:
        with contextlib.suppress(OSError):
            os.kill(rng.choice(leaves), signal.SIGKILL)


def _words_of_process(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def small_run_of_ranks() -> None:
    """A whole run of two ranks, to copy and to compare with."""
    folder = data_folder() / "ranks"
    folder.mkdir()
    ended = _ended(_mpiexec([*words_of("nth_farthest"), "--run", "run"], folder))
    if ended.code:
        raise SystemExit(f"two ranks failed: {ended.err}")


def _run_of_ranks() -> Path:
    return data_folder() / "ranks" / "run"
