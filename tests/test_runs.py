"""Run directories: numbering, metrics, and checkpoints that survive kills and full
disks.
"""

import errno
import json
import math
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from tinyruns import ROOT, SURROUNDINGS, contents, error_of, output, python

import tinyrmc
from tinyrmc import Tensor
from tinyrmc.config import first_difference
from tinyrmc.training import machine
from tinyrmc.training.run import Run, load_arrays

posix_only = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def run(tmp_path):
    return Run.create(
        tmp_path / "runs", "nth_farthest-quick", {"seed": 1}, {"python": "3"}
    )


# --- Checkpoints of a run -------------------------------------------------------------


def save_step(run, step, size=3):
    run.save({"weight": np.full(size, step, np.float32)}, {"step": step})


def loaded_step(run):
    """The step of the checkpoint, after checking that its arrays and its state are of
    one moment.
    """
    arrays, state = run.load()
    assert np.all(arrays["weight"] == state["step"])
    return state["step"]


def test_the_newest_and_the_previous_checkpoint_are_kept(run):
    for step in (1, 2, 3):
        save_step(run, step)
    assert loaded_step(run) == 3
    assert load_arrays(run.previous_checkpoint)[1] == {"step": 2}
    assert sorted(path.name for path in run.path.iterdir()) == [
        "checkpoint.npz",
        "checkpoint.previous.npz",
        "config.json",
        "environment.json",
    ]


def test_the_previous_one_is_loaded_when_the_newest_is_missing(run):
    save_step(run, 1)
    os.rename(run.checkpoint, run.previous_checkpoint)
    assert loaded_step(run) == 1
    # the only whole checkpoint stays where it is until the new one is in place
    save_step(run, 2)
    assert loaded_step(run) == 2
    assert load_arrays(run.previous_checkpoint)[1] == {"step": 1}


def test_a_run_without_a_checkpoint_says_so(run):
    assert f"{run.path} holds no checkpoint" in error_of(run.load)


def test_a_damaged_checkpoint_names_the_previous_one(run):
    save_step(run, 1)
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:100])
    assert error_of(run.load).endswith("npz file (100 bytes); start a new run")
    save_step(run, 2)
    save_step(run, 3)
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:100])
    assert f"move {run.previous_checkpoint} there" in error_of(run.load)
    os.replace(run.previous_checkpoint, run.checkpoint)  # as told
    assert loaded_step(run) == 2


def test_what_a_killed_process_left_is_cleaned_up(run):
    for name in "checkpoint.npz.partial", "metrics.jsonl.0123abcd.partial":
        (run.path / name).write_bytes(b"half")
    (run.path / "mine.partial").write_bytes(b"a user's own")
    with run.writing():
        save_step(run, 1)
    assert [x.name for x in run.path.glob("*.partial")] == ["mine.partial"]
    assert loaded_step(run) == 1


def test_a_failing_disk_leaves_the_earlier_checkpoints(run, monkeypatch):
    for call in ["fsync", "replace"]:
        with monkeypatch.context() as patch:
            save_step(run, 1)
            save_step(run, 2)
            before = {path.name: path.read_bytes() for path in run.path.iterdir()}

            def fail(*args):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            patch.setattr(os, call, fail)
            text = error_of(save_step, run, 3)
            assert text.startswith(
                f"cannot write {run.checkpoint}: No space left on device; free some"
            )
            patch.undo()
            assert before == {
                path.name: path.read_bytes() for path in run.path.iterdir()
            }
            save_step(run, 4)
            assert loaded_step(run) == 4


@posix_only
def test_a_write_that_stops_half_way(run):
    """A real limit on the size of a file: the first bytes are written, then the system
    refuses.
    """
    save_step(run, 1)
    script = """
import resource, sys, numpy as np
from tinyrmc.training.run import Run
from tinyrmc.errors import RunError
run = Run.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    run.save({"weight": np.full(100_000, 2.0)}, {"step": 2})
except RunError as error:
    print(error)
"""
    done = python("-c", script, run.path)
    assert "checkpoint.npz: File too large; free some space" in done.stdout, done.stderr
    assert not list(run.path.glob("*.partial"))
    assert loaded_step(run) == 1


@posix_only
def test_kill_minus_nine_while_saving(run):
    """A child saves without pause and is killed 30 times: at a random moment of a save,
    once it has finished another. Four times more it is killed at one of the renames.
    """
    script = """
import itertools, os, random, signal, sys, time
import numpy as np
from tinyrmc.training.run import Run
run, random = Run.open(sys.argv[1]), random.Random(0)

def save(step):
    run.save({"weight": np.full(20_000, step, np.float32)}, {"step": step})

def save_for_ever(first, die_at, tell):
    renames, replace = itertools.count(1), os.replace
    def replace_or_die(*paths):
        if next(renames) == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*paths)
    os.replace = replace_or_die
    for step in itertools.count(first):
        save(step)
        os.write(tell, b"x")

def duration(step):
    began = time.monotonic()
    save(step)
    return time.monotonic() - began

long = max(duration(1) for _ in range(3))
step, partial = 1, 0
for trial in range(34):
    heard, tell = os.pipe()
    child = os.fork()
    if child == 0:
        save_for_ever(step + 1, trial + 1 if trial < 4 else None, tell)
    os.close(tell)
    if trial >= 4:
        os.read(heard, 1)
        time.sleep(random.uniform(0, long))
        os.kill(child, signal.SIGKILL)
    os.close(heard)
    os.waitpid(child, 0)
    for left in run.path.glob("checkpoint.npz.*.partial"):
        partial += 1
        left.unlink()
    arrays, state = run.load()
    assert np.all(arrays["weight"] == state["step"]), "not of one moment"
    assert state["step"] >= step + (trial >= 4), "an older checkpoint than before"
    step = state["step"]
print(step, partial)
"""
    steps, left_behind = map(int, output("-c", script, run.path).split())
    # kills did strike while files were being written, and not at the renames alone
    assert steps > 30 and left_behind > 4
    save_step(run, steps + 1)
    assert loaded_step(run) == steps + 1
    assert not list(run.path.glob("*.partial"))


# --- The directory and its metrics ----------------------------------------------------


def test_create_writes_and_open_reads_back(tmp_path):
    config = {"config": {"mem_slots": 4, "rungs": ((3, 2), (4, 4))}, "seed": 3}
    run = Run.create(tmp_path / "deep" / "runs", "task-quick", config, {"numpy": "2"})
    assert run.path == tmp_path / "deep" / "runs" / "task-quick-1"
    assert run.config == {
        "config": {"mem_slots": 4, "rungs": [[3, 2], [4, 4]]},
        "seed": 3,
    }
    assert run == Run.open(str(run.path))
    text = (run.path / "config.json").read_text()
    assert text.endswith("}\n")
    assert text.index("config") < text.index("seed")
    assert '\n  "config"' in text


def test_numbers_follow_the_largest_taken(tmp_path):
    for name in (
        "task-quick-2",
        "task-quick-10",
        "task-quick-old",
        "task-quick-1x",
        "other-99",
        "task-quick-7",
    ):
        (tmp_path / name).mkdir()
    assert Run.create(tmp_path, "task-quick", {}, {}).path.name == "task-quick-11"
    assert Run.create(tmp_path, "task", {}, {}).path.name == "task-1"


def test_processes_that_start_together_get_their_own_numbers(tmp_path):
    script = """
import sys
from tinyrmc.training.run import Run
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    print(Run.create(sys.argv[1], "task", {}, {}).path.name)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes, env=SURROUNDINGS) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    made = [
        name
        for process in processes
        for name in process.communicate(timeout=60)[0].split()
    ]
    assert sorted(made) == sorted(f"task-{n}" for n in range(1, 61))


def test_a_list_of_something_else_is_told(tmp_path):
    described = {"task": "larger", "words": ["--train.steps", None]}
    path = Run.create(tmp_path, "sweep", described, {}).path
    assert "words cannot be " in error_of(Run.open, path)


def test_an_unwritable_place_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for arguments in (
        {"root": tmp_path / "file" / "runs"},
        {"root": tmp_path, "path": tmp_path / "file" / "a" / "b"},
    ):
        text = error_of(Run.create, name="task", config={}, environment={}, **arguments)
        assert text.startswith(f"cannot make a run directory in {tmp_path / 'file'}")
        assert "--run" in text


def test_what_json_cannot_hold_is_told_and_changes_nothing(run):
    save_step(run, 1)
    run.log({"step": 1})
    circle = {}
    circle["itself"] = circle
    before = contents(run.path)
    tensor = Tensor(np.zeros((3, 3)))  # whose text has several lines
    for wrong in {1, 2}, tensor, circle, {(1, 2): 3}:
        says = f"cannot write {run.path / 'metrics.jsonl'}: "
        assert error_of(run.log, {"step": 2, "loss": wrong}).startswith(says)
        says = f"cannot write {run.checkpoint}: "
        assert error_of(run.save, {}, {"wrong": wrong}).startswith(says)
        says = f"cannot write {run.path / 'config.json'}: "
        assert error_of(run.moved, {"wrong": wrong}).startswith(says)
    assert contents(run.path) == before


def test_what_is_no_run_directory_is_refused(tmp_path, run):
    assert "give the path of a run directory" in error_of(Run.open, tmp_path / "none")
    Run.create(tmp_path / "several", "run", {}, {})
    says = "give the path of a run directory, such as one of those in it"
    assert says in error_of(Run.open, tmp_path / "several")
    assert f"cannot read {tmp_path / 'config.json'}: No such file" in error_of(
        Run.open, tmp_path
    )
    for text in ("{", "[]", '"\x00"', "\xff"):
        (run.path / "config.json").write_text(text, encoding="latin-1")
        assert f"{run.path / 'config.json'} is not a JSON object" in error_of(
            Run.open, run.path
        )


def test_metrics_are_strict_json(run):
    run.log({"step": 1, "loss": math.nan, "deep": [{"x": -math.inf}], "rate": 0.1})
    run.log(
        {
            "step": np.int64(2),
            "loss": np.float32(0.5),
            "gates": np.array([0.5, np.nan]),
            "empty": None,
        }
    )

    def refuse(constant):
        raise AssertionError(constant)

    text = (run.path / "metrics.jsonl").read_text()
    lines = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    assert lines == run.metrics()
    assert lines[0] == {"step": 1, "loss": None, "deep": [{"x": None}], "rate": 0.1}
    assert lines[1] == {"step": 2, "loss": 0.5, "gates": [0.5, None], "empty": None}


def test_a_torn_last_line_is_left_out_and_cut_off(run):
    for step in (1, 2):
        run.log({"step": step})
    whole = (run.path / "metrics.jsonl").read_bytes()
    for torn in (b'{"step": 3, "lo', b"{", b"\0\0\0", b'{"note": "h\xc3'):
        (run.path / "metrics.jsonl").write_bytes(whole + torn)
        assert run.metrics() == [{"step": 1}, {"step": 2}]
        run.truncate_metrics(2)
        assert (run.path / "metrics.jsonl").read_bytes() == whole
    (run.path / "metrics.jsonl").write_bytes(b'{"step": 1\n' + whole)
    assert "metrics.jsonl line 1 is not JSON" in error_of(run.metrics)


def test_truncate_metrics_keeps_the_lines_up_to_the_checkpoint(run, monkeypatch):
    for step in (100, 200, 300):
        run.log({"step": step, "loss": 1 / step})
        run.log({"step": step, "accuracy": 0.1 * step})
    whole = (run.path / "metrics.jsonl").read_text()
    run.truncate_metrics(6)
    assert (run.path / "metrics.jsonl").read_text() == whole

    def fail(*paths):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", fail)
    assert "metrics.jsonl: " in error_of(run.truncate_metrics, 4)
    monkeypatch.undo()
    assert (run.path / "metrics.jsonl").read_text() == whole  # whole or not at all
    run.truncate_metrics(4)
    assert (run.path / "metrics.jsonl").read_text() == "".join(
        whole.splitlines(keepends=True)[:4]
    )
    run.log({"step": 201})
    assert [line["step"] for line in run.metrics()] == [100, 100, 200, 200, 201]


# --- Configurations and surroundings --------------------------------------------------


def test_first_difference_names_the_field_and_both_values():
    saved = {"model": {"mem_slots": 4, "core": "rmc"}, "seed": 0}
    asked = {"model": {"mem_slots": 8, "core": "lstm"}, "seed": 1}
    assert first_difference(saved, asked) == "model.mem_slots: 4 so far, 8 asked for"
    assert (
        first_difference(saved, saved | {"seed": None})
        == "seed: 0 so far, None asked for"
    )
    assert (
        first_difference({"a": {}}, {"a": {"b": 1}})
        == "a.b: 'no such field' so far, 1 asked for"
    )
    assert (
        first_difference({"a": {"b": 1}}, {"a": {}})
        == "a.b: 1 so far, 'no such field' asked for"
    )
    assert first_difference({"a": {"b": 1}}, {"a": 2}) is not None
    assert first_difference({"rungs": [[3, 2]]}, {"rungs": [[3, 4]]}) is not None


def test_environment_says_what_matters_and_nothing_private(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("USERPROFILE", "/home/ada")
    monkeypatch.setattr(
        sys,
        "argv",
        ["/home/ada/x/train.py", "task", "--run=/home/ada/my runs/1", "/home/adam/y"],
    )
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    found = machine.environment(tinyrmc.__version__)
    assert found["command"] == "train.py task '--run=~/my runs/1' /home/adam/y"
    assert found["numpy"] == np.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert 1 <= found["cores"] <= os.cpu_count()
    assert all(found[key] for key in ("date", "blas", "platform", "processor"))
    assert found["tinyrmc"] == tinyrmc.__version__
    assert found["date"].endswith("+00:00")
    text = json.dumps(found)
    assert "/home/ada/" not in text
    assert f'"{socket.gethostname()}"' not in text


def test_command_under_python_m(tmp_path):
    (tmp_path / "experiment.py").write_text(
        "from tinyrmc.training.machine import environment\n"
        "print(environment('')['command'])\n"
    )
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    words = "-m", "experiment", "task", "--name", "a b"
    said = output(*words, env=SURROUNDINGS | {"PYTHONPATH": path})
    assert said == "python -m experiment task --name 'a b'\n"


def test_git_commit_is_that_of_the_checkout_itself(tmp_path):
    def git(*arguments):
        identity = "-c user.name=a -c user.email=a@example.org -c commit.gpgsign=false"
        command = ["git", "-C", str(tmp_path), *identity.split(), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        git("init")
    except FileNotFoundError:
        pytest.skip("needs git")
    assert machine._git_commit(tmp_path) is None  # no commit yet
    (tmp_path / "file").write_text("a")
    git("add", "file")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert machine._git_commit(tmp_path) == commit
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "cpu.json").write_text("{}")
    git("add", ".")  # what was measured before makes no other code
    assert machine._git_commit(tmp_path) == commit
    (tmp_path / "file").write_text("b")
    assert machine._git_commit(tmp_path) == f"{commit}-dirty"
    # installed inside somebody else's repository
    (tmp_path / "site-packages").mkdir()
    assert machine._git_commit(tmp_path / "site-packages") is None
