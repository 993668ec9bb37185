"""Sweeps whose runs are processes: signals reach them, none outlives its sweep, and
ranks share them out.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from processes import alive, soon
from rankhelp import MPIEXEC, real
from tinyruns import LONG, SURROUNDINGS, TINY, assert_same_run

from tinyrmc.cli import train
from tinyrmc.runs.run import Run
from tinyrmc.training import processes


def command_line(*words):
    """What subprocess needs to know."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return {"args": [sys.executable, *map(str, words)], "env": SURROUNDINGS, **pipes}


def without(words, flag):
    """All but a flag and its value."""
    place = words.index(flag)
    return [*words[:place], *words[place + 2 :]]


TWO = [  # runs side by side
    *without(LONG, "--model.mem-slots"),
    *["--grid", "model.mem_slots=1,2", "--jobs", 2, "--run", "swept"],
]


@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
def test_a_signal_stops_all_runs_saved_and_they_go_on_bit_for_bit(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = [*TWO, "--budget-minutes", 90]
    with subprocess.Popen(**command_line("-m", "tinyrmc", "sweep", *words)) as process:
        cells = [Path(f"swept/model.mem_slots={n},seed=0") for n in (1, 2)]
        while (
            not all((cell / "metrics.jsonl").exists() for cell in cells)
            and process.poll() is None
        ):
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (143, ""), out
    assert (
        "SIGTERM: stopped, and saved what was being trained" in out
        and out.count("seed 0: stopped") == 2
    )
    assert "--resume swept --budget-minutes 90\n" in out
    assert all(0 < Run.open(cell).load()[1]["step"] < 603 for cell in cells)
    done = subprocess.run(
        **command_line("-m", "tinyrmc", "sweep", "--resume", "swept"), timeout=300
    )
    assert (done.returncode, done.stderr) == (
        0,
        "",
    ) and "to do     2 runs, 2 at a time, 1 worker each" in done.stdout
    assert train.main([*LONG, "--model.mem-slots", "1", "--run", "whole"]) == 0
    assert_same_run(Run.open(cells[0]), Run.open("whole"))
    command = Run.open(cells[0]).environment["command"]
    assert command.startswith("python -m tinyrmc.train nth_farthest quick --model.")
    assert "--model.mem-slots 1 --seed 0 " in command


@pytest.mark.skipif(os.name != "posix", reason="elsewhere children do not notice")
def test_the_runs_of_a_sweep_that_was_killed_end_too_and_are_saved(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = [*TWO, "--train.steps", 10**9]
    cells = [Path(f"swept/model.mem_slots={n},seed=0") for n in (1, 2)]
    with subprocess.Popen(**command_line("-m", "tinyrmc", "sweep", *words)) as process:
        while (
            not all((cell / "metrics.jsonl").exists() for cell in cells)
            and process.poll() is None
        ):
            time.sleep(0.002)
        children = [
            json.loads((cell / "lock.json").read_text())["pid"] for cell in cells
        ]
        process.kill()
    try:
        assert soon(lambda: not any(map(alive, children)))
    finally:
        for child in filter(alive, children):
            os.kill(child, signal.SIGKILL)
    for cell in cells:
        assert (
            Run.open(cell).load()[1]["step"] > 0 and not (cell / "lock.json").exists()
        )
        assert re.search(
            r"^SIGHUP at step [\d,]+: saved",
            cell.with_name(f"{cell.name}.log").read_text(),
            re.M,
        )


class Fake:
    """A child process that ends when it is asked to."""

    def __init__(self):
        self.asked, self.ends = 0, threading.Event()

    def terminate(self):
        self.asked += 1
        self.ends.set()

    def wait(self):
        self.ends.wait(10)
        return 0


@pytest.fixture
def start(monkeypatch):
    """Sets what is called, and gives a child, in place of starting a process."""
    monkeypatch.setattr(processes, "_signal", 0)
    monkeypatch.setattr(processes, "_children", set())

    def calls(begin):
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: begin())

    return calls


def test_a_signal_that_comes_while_a_command_is_started_reaches_it_once(
    start, tmp_path
):
    child = Fake()

    def begin():
        processes._stop(signal.SIGTERM, None)
        return child

    start(begin)
    assert processes.run_logged([], tmp_path / "log") == 0 and child.asked == 1
    processes._stop(signal.SIGINT, None)
    assert child.asked == 1
    start(None)  # no more are started
    assert processes.run_logged([], tmp_path / "log") == -signal.SIGTERM


def test_commands_hear_of_a_signal_once(start, tmp_path):
    children = [Fake() for _ in range(3)]
    processes._children.update(children)
    for number in (signal.SIGTERM, signal.SIGHUP):
        processes._stop(number, None)
    assert [child.asked for child in children] == [1, 1, 1]
    assert processes._signal == signal.SIGTERM


@pytest.mark.skipif(os.name != "posix", reason="elsewhere there is no SIGHUP")
def test_a_sweep_under_nohup_does_not_hear_a_hangup():
    before = {number: signal.getsignal(number) for number in processes.SIGNALS}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        processes.listen()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == processes._stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_where_nobody_hears_of_them_any_more_commands_end_at_once(start, tmp_path):
    """As in `tinyrmc sweep ... | head -3`; those that run are not waited for."""
    short, long = Fake(), Fake()
    short.ends.set()
    children = iter([short, long])
    start(lambda: next(children))
    with pytest.raises(BrokenPipeError), processes.Places(2) as places:
        running = places.run(2, lambda k, _: ([], str(tmp_path / f"{k}.log")))
        assert next(running)[1] == 0
        assert soon(lambda: long in processes._children)
        raise BrokenPipeError
    assert long.asked == 1
    running.close()


@real
def test_ranks_take_runs_from_rank_0(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        "-m",
        "mpi4py.futures",
        "-m",
        "tinyrmc",
        "sweep",
        *TINY,
        "--grid",
        "head_units=1,2,3",
    ]
    cut = [MPIEXEC, "-n", "3", sys.executable, *words, "--budget-minutes", "1e-9"]
    done = subprocess.run(**command_line(*words) | {"args": cut}, timeout=300)
    assert (done.returncode, done.stderr) == (
        0,
        "",
    ) and "to do     3 runs, 2 at a time, 1 worker each" in done.stdout
    command = "mpiexec -n 3 python -m mpi4py.futures -m tinyrmc sweep "
    assert (
        Run.open("runs/nth_farthest-sweep-1")
        .environment["command"]
        .startswith(f"{command}nth_farthest --model")
    )
    (line,) = re.findall(r"go on with\n +(.*)", done.stdout)
    assert re.fullmatch(
        r"mpiexec -n 3 \S+ -m mpi4py.futures -m tinyrmc sweep --resume "
        r"runs/nth_farthest-sweep-1",
        line,
    )
    done = subprocess.run(
        **command_line() | {"args": [MPIEXEC, *shlex.split(line)[1:]]}, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "") and "go on with" not in done.stdout
    assert (
        sum(
            Run.open(path).metrics()[-1]["step"] == 12
            for path in Path("runs/nth_farthest-sweep-1").glob("*seed=0")
        )
        == 3
    )
    done = subprocess.run(
        **command_line() | {"args": [MPIEXEC, "-n", "2", sys.executable, *words[2:]]},
        timeout=300,
    )
    assert done.returncode == 2 and not Path("runs/nth_farthest-sweep-2").exists()
    says = (
        "error: 2 ranks would all do the same; start it with mpiexec -n 2 python -m "
        "mpi4py.futures -m tinyrmc sweep ..."
    )
    assert done.stderr.count(says) == 1
