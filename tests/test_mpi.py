"""Real ranks that train together: what one process would give, one voice, and no rank
left waiting for another that is gone.

Under mpiexec there are two: where waiting ranks spin, these are as many as two cores
can bear. More are threads, in test_ranks.py.
"""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rankhelp import (
    MPIEXEC,
    STEPS,
    SURROUNDINGS,
    TINY,
    assert_close,
    mpiexec,
    real,
    run_ranks,
)
from tinyruns import AT_ONCE
from tinytasks import forks, timeless

from tinyrmc.cli import train
from tinyrmc.training import discovery
from tinyrmc.training.run import Run

pytestmark = [pytest.mark.slow, real, pytest.mark.usefixtures("empty_directory")]


def fewer(monkeypatch):
    """The same for a single process, which is this one."""
    monkeypatch.setattr(discovery.load_task("nth_farthest").Task, "test_examples", 200)
    monkeypatch.setattr("tinyrmc.results.plotting.draw_run", lambda run: [])


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """(run, what was printed) of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("two_ranks")
    done = subprocess.run(
        **mpiexec(*TINY, "--workers", 1), cwd=folder, capture_output=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (folder / "runs").iterdir()
    return Run.open(path), done.stdout


def assert_same_run(one, other, tolerance=None):
    """The same checkpoint and lines: to the last bit, or within a tolerance."""
    (ours, our_state), (theirs, their_state) = one.load(), other.load()
    assert list(ours) == list(theirs)
    assert our_state["step"] == their_state["step"]
    assert our_state["task"] == their_state["task"]
    for name in ours:
        np.testing.assert_allclose(
            ours[name],
            theirs[name],
            rtol=tolerance or 0,
            atol=tolerance or 0,
            err_msg=name,
        )
    assert len(one.metrics()) == len(other.metrics())
    for our_line, their_line in zip(
        timeless(one.metrics()), timeless(other.metrics()), strict=True
    ):
        assert_close(our_line, their_line, tolerance or 0)


def test_two_ranks_train_what_one_process_trains(two_ranks, monkeypatch):
    run, _ = two_ranks
    fewer(monkeypatch)
    for workers in (1, 2):
        assert (
            train.main([*TINY, "--workers", str(workers), "--run", f"{workers}"]) == 0
        )
        assert_same_run(run, Run.open(f"{workers}"), 1e-5)
    assert [line["step"] for line in run.metrics()] == [5, 10, 15, 20]
    assert "test_accuracy" in run.metrics()[-1]


def test_ranks_speak_with_one_voice(two_ranks):
    run, printed = two_ranks
    steps = "step      10/20", "step      20/20"
    for once in (*steps, ", seed 5\n", "2 ranks x 1 worker", "this run", "evaluate  "):
        assert printed.count(once) == 1
    assert "resume  " not in printed  # nothing is left to do
    files = "checkpoint.npz checkpoint.previous.npz config.json environment.json"
    files = [*files.split(), "metrics.jsonl"]
    assert sorted(path.name for path in run.path.glob("[!.]*")) == files
    assert (run.environment["ranks"], run.environment["workers"]) == (2, 1)
    assert re.match(
        r"(MPICH|Open MPI|Intel MPI|MVAPICH|Microsoft MPI) [\d.]+$",
        run.environment["mpi"],
    )


def test_the_command_as_one_types_it():
    python = [MPIEXEC, "-n", "2", sys.executable, "-m", "mpi4py"]
    command = [*python, "-m", "tinyrmc.train", *TINY, *AT_ONCE]
    done = subprocess.run(
        command, env=SURROUNDINGS, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("picture   ") == 2
    (path,) = Path("runs").iterdir()
    typed = "mpiexec -n 2 python -m mpi4py -m tinyrmc.train nth_farthest --model"
    assert Run.open(path).environment["command"].startswith(typed)


@forks
def test_ranks_of_two_processes_each(two_ranks):
    done = run_ranks(*TINY, "--workers", 2, "--run", "four")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 ranks x 2 processes" in done.stdout
    assert_same_run(Run.open("four"), two_ranks[0], 1e-5)


def test_a_signal_on_one_rank_stops_all_and_any_number_of_ranks_goes_on(
    two_ranks, monkeypatch, capsys
):
    # as a launcher may, twice: the second does no harm
    twice = "1 6 [os.kill(os.getpid(), signal.SIGTERM) for _ in range(2)]"
    done = run_ranks(*TINY, "--workers", 1, "--run", "half", TROUBLE=twice)
    assert (done.returncode, done.stderr) == (143, "")
    assert done.stdout.count("SIGTERM at step 6: saved.") == 1
    assert "-m mpi4py -m tinyrmc.train --resume half\n" in done.stdout
    assert "    mpiexec -n 2 " in done.stdout
    assert Run.open("half").load()[1]["step"] == 6
    for copy in ("alone", "two"):
        shutil.copytree("half", copy)

    done = run_ranks("--resume", "two")
    assert (done.returncode, done.stderr) == (0, "") and "note" not in done.stdout
    assert_same_run(Run.open("two"), two_ranks[0])

    fewer(monkeypatch)
    assert train.main(["--resume", "alone", "--workers", "1"]) == 0
    assert (
        "note: the run had 1 worker on 2 ranks, now 1; it goes on, but not bit for bit"
        in capsys.readouterr().out
    )
    assert_same_run(Run.open("alone"), two_ranks[0], 1e-5)


def test_a_run_of_one_process_goes_on_with_two_and_stops_when_time_is_over(
    two_ranks, monkeypatch
):
    fewer(monkeypatch)
    assert train.main([*TINY, "--workers", "1", "--run", "run", *AT_ONCE]) == 0
    assert Run.open("run").load()[1]["step"] == 1
    done = run_ranks("--resume", "run", "--workers", 1, "--max-minutes", 1e-9)
    assert (done.returncode, done.stderr) == (0, "")
    assert "out of time; 18 steps to go" in done.stdout
    assert "note: the run had 1 worker, now 1 on 2 ranks" in done.stdout
    assert Run.open("run").load()[1]["step"] == 2
    assert run_ranks("--resume", "run").returncode == 0
    assert_same_run(Run.open("run"), two_ranks[0], 1e-5)
    done = run_ranks("--resume", "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("has finished already (20 steps)") == 1


def test_a_signal_to_mpiexec_saves(two_ranks):
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with subprocess.Popen(
            **mpiexec(*TINY, "--run", f"run{number}", SLOWLY="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            while not process.stdout.readline().startswith("step"):
                assert process.poll() is None
            process.send_signal(number)
            out, _ = process.communicate(timeout=120)
        # Open MPI's mpiexec passes the signal on, but listens no more
        if two_ranks[0].environment["mpi"].startswith("MPICH"):
            assert process.returncode == code
            assert out.count(f"{signal.Signals(number).name} at step ") == 1
        assert 10 <= Run.open(f"run{number}").load()[1]["step"] < STEPS


@pytest.mark.weekly
def test_a_rank_that_dies_takes_all_with_it():
    nothing = "raise ZeroDivisionError('nothing')"
    on_one = r"ZeroDivisionError: nothing\n"
    full = "0 1 raise RunError('the disk is full')"
    # a task is tried out first, which takes its loss some times
    for trouble, where, says in (
        (f"1 12 {nothing}", "Task.loss", rf"{on_one}\(on rank 1 of 2\)"),
        (f"1 3 {nothing}", "Task.after_update", rf"{on_one}\(on rank 1 of 2\)"),
        (f"0 3 {nothing}", "Task.after_update", on_one),
        (
            "1 3 os.kill(os.getpid(), signal.SIGKILL)",
            "Task.after_update",
            "(?i)killed|signal",
        ),
        (full, "Run.save", "^error: the disk is full$"),
        (full, "Run.log", "^error: the disk is full$"),
        (
            "1 3 args[1].parameters()[0].data[...] += 1e-6",
            "Task.after_update",
            "^error: .* parameters differ at step 20 ",
        ),
    ):
        words = [*TINY, "--workers", 1, "--run", "run"]
        done = run_ranks(*words, TROUBLE=trouble, WHERE=where)
        told = done.stdout + done.stderr  # MPICH tells of a kill on standard output
        assert done.returncode != 0, trouble
        assert len(re.findall(says, told, re.M)) == 1 or "KILL" in trouble, told
        assert told.count("ZeroDivisionError: ") <= 1
        shutil.rmtree("run")


def test_what_cannot_be_is_told_once():
    for words, says in (
        (["nth_farthest", "--sed", "1"], "unknown flag '--sed'; did you mean '--seed'"),
        (
            [*TINY, "--train.batch-size", "3", "--workers", "2"],
            "--workers 2 on each of 2 ranks are more than the 3 examples of a batch",
        ),
        ([*TINY, "--train.batch-size", "1"], "1 on each of 2 ranks are more than the"),
        ([*TINY, "--run", "."], "exists already"),
        (
            [*TINY, "--train.learning-rate", "1e30", "--train.warmup-steps", "0"],
            "stopped at step",
        ),
    ):
        done = run_ranks(*words)
        assert done.returncode == 2 and says in done.stderr
        assert done.stderr.startswith("error: ") and done.stderr.count("error: ") == 1


def test_ranks_that_start_from_different_parameters_write_nothing(two_ranks):
    """As from different files, or another version of what draws first weights."""
    for resumed in (False, True):
        words = [*TINY, "--run", "run"]
        if resumed:
            shutil.copytree(two_ranks[0].path, "run")
            words = ["--resume", "run"]
        before = {path.name: path.read_bytes() for path in Path("run").glob("[!.]*")}
        trouble = "1 1 args[0].optimizer.data[-1] += 1"
        done = run_ranks(*words, TROUBLE=trouble, WHERE="RankTrainer.try_out")
        assert done.returncode == 2 and done.stderr.count("error: ") == 1
        assert done.stderr.startswith(
            f"error: the ranks' parameters differ at step {20 if resumed else 0} "
        )
        after = {path.name: path.read_bytes() for path in Path("run").glob("[!.]*")}
        assert after == before and Path("run").exists() == resumed


def test_mpiexec_without_mpi4py_is_refused():
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "tinyrmc.train", *TINY]
    done = subprocess.run(
        command, env=SURROUNDINGS, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2 and done.stdout == "" and not Path("runs").exists()
    says = "error: 2 ranks were started that do not know of each other; start them by "
    says += "mpiexec -n 2 python -m mpi4py "
    assert done.stderr.count(f"{says}-m tinyrmc.train ...,") == 1
