"""A run has one writer at a time: others are refused in one line, and no writer leaves
an obstacle, however it has ended.
"""

import contextlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rankhelp import real, run_ranks
from tinyruns import AT_ONCE, LAST, LONG, SURROUNDINGS, TINY, contents, error_of

from tinyrmc.cli import evaluate, sweep, train
from tinyrmc.training.run import Run

pytestmark = pytest.mark.usefixtures("empty_directory")
posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

WRITER = """
import os, signal, sys
from tinyrmc.training.run import Run
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
    return sorted(path.name for path in run.path.glob("[!.]*"))


def test_while_one_process_writes_another_is_refused(run):
    with writer(run.path) as (_, pid):
        held = json.loads((run.path / "lock.json").read_text())
        assert (held["pid"], held["host"]) == (pid, platform.node())
        says = (
            f"run is in use by process {pid} on {platform.node()} since "
            f"{held['since']}; wait until that has ended, or stop it"
        )
        assert refusal(run).startswith(says)
        # the refused have changed nothing
        assert json.loads((run.path / "lock.json").read_text()) == held


def test_nothing_is_left_at_the_end(run):
    before = left(run)
    for error in (None, KeyboardInterrupt, SystemExit):
        with contextlib.suppress(BaseException), run.writing():
            assert left(run) == sorted([*before, "lock.json"])
            if error:
                raise error
        assert left(run) == before
    assert not (run.path / ".lock").exists()


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
        process.kill()
        process.wait()
        os.kill(child, 0)  # it lives
        threading.Timer(0.3, os.kill, [child, signal.SIGKILL]).start()
        with run.writing():
            pass


def test_what_a_dead_process_has_left_is_taken_over(run):
    """Although there is a process of that number: by now another one has it."""
    for text in ("", "{", "[]", json.dumps({"pid": 1, "host": platform.node()})):
        (run.path / "lock.json").write_text(text)
        with run.writing():
            assert (
                json.loads((run.path / "lock.json").read_text())["pid"] == os.getpid()
            )
            (run.path / "lock.json").write_text(text)  # then nobody can be named
            assert "run is in use by another process; wait" in refusal(run)


def test_a_place_that_cannot_be_written_is_told(run):
    (run.path / "lock.json").mkdir()
    assert refusal(run).startswith("cannot write run/lock.json: ")
    (run.path / "lock.json").rmdir()
    with run.writing():
        pass


# --- The command lines ----------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
@pytest.mark.slow
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
    steps = [line["step"] for line in Run.open("busy").metrics()]
    assert steps == [*range(6, LAST, 6), LAST]


def test_from_before_its_checkpoint_is_read_to_its_end_a_run_is_in_use(monkeypatch):
    assert train.main([*TINY, "--run", "run", *AT_ONCE]) == 0
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
    described = {"task": "nth_farthest", "preset": "quick", "seeds": [0], "words": []}
    described |= {"grid": {"model.mem_slots": ["1"]}, "workers": 1}
    Run.create(".", "swept", described, {"command": "c"}, "swept")
    with writer("swept") as (_, pid):
        assert f"swept is in use by process {pid} on " in refused(
            sweep.main, "--resume", "swept"
        )


@real
def test_ranks_are_refused_once():
    assert train.main([*TINY, "--run", "run", *AT_ONCE]) == 0
    before = contents()
    with Run.open("run").writing():
        done = run_ranks("--resume", "run")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: run is in use by process {os.getpid()} on ")
    assert done.stderr.count("error: ") == 1 and contents() == before
