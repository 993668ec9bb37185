"""A run has one writer at a time: others are refused in one line, and no writer leaves
an obstacle, however it has ended.
"""

import contextlib
import errno
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rankhelp import real, run_ranks
from tinyruns import LONG, SURROUNDINGS, TINY, contents, error_of

from tinyrmc.cli import evaluate, sweep, train
from tinyrmc.runs import lock as locks
from tinyrmc.runs.run import Run

pytestmark = pytest.mark.usefixtures("empty_directory")
posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

WRITER = """
import os, signal, sys
from tinyrmc.runs.run import Run
with Run.open(sys.argv[1]).writing():
    child = os.fork() if "fork" in sys.argv else None
    if child != 0:
        print(os.getpid(), child or "", flush=True)
    signal.pause()
"""


@pytest.fixture
def run():
    return Run.create(".", "run", {"seed": 1}, {}, "run")


@contextlib.contextmanager
def writer(path, *words):
    """Another process that writes there until it is killed: (the process, and its
    number and its child's, as it has printed them).
    """
    command = [sys.executable, "-c", WRITER, str(path), *words]
    with subprocess.Popen(
        command, env=SURROUNDINGS, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, *map(int, process.stdout.readline().split())
        finally:
            process.kill()


def refusal(run):
    return error_of(run.writing().__enter__)


def left(run):
    return sorted(path.name for path in run.path.iterdir())


def test_while_one_process_writes_another_is_refused(run):
    with writer(run.path) as (_, pid):
        held = json.loads((run.path / "lock.json").read_text())
        assert (held["pid"], held["host"]) == (pid, platform.node())
        says = (
            f"run is in use by process {pid} on {platform.node()} since "
            f"{held['since']}; wait until that has ended, or stop it"
        )
        assert refusal(run).startswith(says) and f"kill {pid}" in refusal(run)
        # the refused have changed nothing
        assert json.loads((run.path / "lock.json").read_text()) == held


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_at_the_end(error, run):
    before = left(run)
    with contextlib.suppress(BaseException), run.writing():
        assert left(run) == sorted([*before, "lock.json"])
        if error:
            raise error
    assert left(run) == before
    with run.writing():
        pass


def test_a_writer_that_was_killed_is_no_obstacle(run):
    with writer(run.path) as (process, pid):
        process.kill()
        process.wait()
        assert json.loads((run.path / "lock.json").read_text())["pid"] == pid
        with run.writing():
            assert (
                json.loads((run.path / "lock.json").read_text())["pid"] == os.getpid()
            )
    assert "lock.json" not in left(run)


@posix_only
def test_the_children_of_a_killed_writer_are_no_obstacle(run):
    """A forked worker may live a little longer, and has its parent's open files."""
    with writer(run.path, "fork") as (process, _, child):
        try:
            process.kill()
            process.wait()
            os.kill(child, 0)  # it lives
            with run.writing():
                pass
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"pid": 1}',
        json.dumps({"pid": 1, "host": platform.node(), "since": "yesterday"}),
    ],
)
def test_what_a_dead_process_has_left_is_taken_over(text, run):
    """Although there is a process of that number: by now another one has it."""
    (run.path / "lock.json").write_text(text)
    with run.writing():
        assert json.loads((run.path / "lock.json").read_text())["pid"] == os.getpid()


def test_what_another_machine_has_left_is_for_a_person_to_judge(run):
    (run.path / "lock.json").write_text(
        json.dumps({"pid": 12, "host": "elsewhere", "since": "yesterday"})
    )
    before = contents()
    says = (
        "run may be in use: process 12 on elsewhere had it since yesterday, and has "
        "not said that it is over; if it is, delete "
    )
    assert refusal(run) == f"{says}{run.path / 'lock.json'}" and contents() == before
    (run.path / "lock.json").unlink()  # as told
    with run.writing():
        pass


def test_a_lock_on_a_file_that_was_just_removed_does_not_count(run, monkeypatch):
    """The writer before leaves between our opening of its file and our locking it."""
    lock, calls = locks._lock, []

    def meanwhile(file):
        calls.append(file)
        if len(calls) == 1:
            (run.path / "lock.json").unlink()
        return lock(file)

    monkeypatch.setattr(locks, "_lock", meanwhile)
    with run.writing(), writer(run.path) as (process, *printed):
        assert len(calls) == 2
        assert printed == [] and process.wait(30) == 1  # it could not come in


@pytest.mark.skipif(locks.fcntl is None, reason="needs fcntl")
def test_without_locks_a_run_can_be_written_all_the_same(run, monkeypatch):
    def none(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, "lockf", none)
    with run.writing():
        pass
    test_what_another_machine_has_left_is_for_a_person_to_judge(run)


@pytest.mark.skipif(locks.fcntl is None, reason="it is the real one there")
def test_where_there_is_no_fcntl_a_byte_behind_the_text_is_locked(run, monkeypatch):
    """Windows, as far as a stand-in can tell."""
    locked = []

    class Msvcrt:
        LK_NBLCK = 2

        def locking(self, descriptor, mode, count):
            assert (mode, count) == (2, 1)
            if locked:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            locked.append(os.lseek(descriptor, 0, os.SEEK_CUR))

    monkeypatch.setattr(locks, "fcntl", None)
    monkeypatch.setattr(locks, "msvcrt", Msvcrt(), raising=False)
    with run.writing():
        assert locked[0] > 1000 * (run.path / "lock.json").stat().st_size
        assert refusal(run).startswith(
            f"run is in use by process {os.getpid()} on {platform.node()} since "
        )
    assert "lock.json" not in left(run)


def test_a_place_that_cannot_be_written_and_a_full_disk_are_told(run, monkeypatch):
    (run.path / "lock.json").mkdir()
    assert refusal(run) == (
        "cannot write run/lock.json: it is not a regular file; make it a writable "
        "file, or delete it"
    )
    (run.path / "lock.json").rmdir()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(locks, "json_text", full)
    assert (
        refusal(run)
        == "cannot write run/lock.json: No space left on device; free some space there"
    )
    assert "lock.json" not in left(run)


# --- The command lines ----------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
def test_a_run_that_is_being_trained_cannot_be_resumed_and_is_not_disturbed(
    refused, few_held_out_examples
):
    words = [sys.executable, "-m", "tinyrmc.train", *LONG, "--run", "busy"]
    with subprocess.Popen(
        words,
        env=SURROUNDINGS,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not Path("busy/metrics.jsonl").exists() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)  # so that it has not ended by then
        try:
            before = contents("busy")
            assert (
                f"busy is in use by process {process.pid} on {platform.node()} "
                in refused(train.main, "--resume", "busy")
            )
            assert evaluate.main(["busy"]) == 0  # who only reads needs no leave
            assert contents("busy") == before
        finally:
            process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    assert [line["step"] for line in Run.open("busy").metrics()] == [
        *range(6, 603, 6),
        603,
    ]


def test_from_before_its_checkpoint_is_read_to_its_end_a_run_is_in_use(monkeypatch):
    assert train.main([*TINY, "--run", "run", "--max-minutes", "1e-9"]) == 0
    run, seen = Run.open("run"), []
    assert "lock.json" not in left(run)
    for name in ("load", "save", "truncate_metrics", "log"):
        method = getattr(Run, name)
        monkeypatch.setattr(
            Run,
            name,
            lambda *words, method=method, **more: (
                seen.append("lock.json" in left(run)),
                method(*words, **more),
            )[1],
        )
    assert train.main(["--resume", "run"]) == 0
    assert len(seen) > 4 and all(seen[:-1]) and "lock.json" not in left(run)
    seen.clear()
    shutil.rmtree("run")
    assert train.main([*TINY, "--run", "run"]) == 0
    assert len(seen) > 4 and all(seen[:-1]) and "lock.json" not in left(run)


def test_a_sweep_that_is_going_on_cannot_be_resumed(refused):
    described = {
        "task": "nth_farthest",
        "preset": "quick",
        "grid": {"model.mem_slots": ["1"]},
        "seeds": [0],
        "words": [],
        "workers": 1,
    }
    Run.create(".", "swept", described, {"command": "c"}, "swept")
    with writer("swept") as (_, pid):
        assert f"swept is in use by process {pid} on " in refused(
            sweep.main, "--resume", "swept"
        )


@real
def test_ranks_are_refused_once():
    assert train.main([*TINY, "--run", "run", "--max-minutes", "1e-9"]) == 0
    before = contents()
    with Run.open("run").writing():
        done = run_ranks("--resume", "run")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: run is in use by process {os.getpid()} on ")
    assert done.stderr.count("\n") == 1 and contents() == before
