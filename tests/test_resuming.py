"""Runs of the command line that stop, and go on: at a signal, when time is over, on a
full disk, or not at all.

Most tests call `main` in this process, in an empty current directory; what must be true
of real processes is asked of real processes.
"""

import contextlib
import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import fakecupy
import numpy as np
import pytest
from tinyruns import (
    AT_ONCE,
    LAST,
    LONG,
    STEPS,
    SURROUNDINGS,
    TINY,
    assert_same_run,
    contents,
    cut_short,
    fresh_directory,
    nth_farthest,
    python,
    resume_command,
    stop_at,
)
from tinytasks import PowerCut, forks, power_cut
from turns import rarely

from tinyrmc import load
from tinyrmc.cli import evaluate, train
from tinyrmc.cli.commands import run_main
from tinyrmc.errors import RunError
from tinyrmc.training import discovery
from tinyrmc.training.run import Run, save_arrays
from tinyrmc.training.workers import CAN_FORK

pytestmark = pytest.mark.usefixtures("few_held_out_examples", "empty_directory")


# --- Checkpoints that cannot be -------------------------------------------------------


DAMAGES = {
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cut short"),
    "foreign": (
        lambda path: np.savez(path, weight=np.ones(3)),
        "is an npz file, but not one of tinyrmc's",
    ),
    "of no run": (
        lambda path: save_arrays(path, {"weight": np.ones(3)}, {"notes": 1}),
        "not of a training run",
    ),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "cannot read"),
}


def test_a_checkpoint_that_cannot_be_trusted_is_refused(trained, refused):
    for damage in DAMAGES:
        for command in ["resume", "evaluate", "evaluate the file", "load"]:
            with fresh_directory():
                shutil.copytree(trained.path, "copy")
                copy = Run.open("copy")
                spoil, says = DAMAGES[damage]
                spoil(copy.checkpoint)
                if command == "evaluate the file" and damage == "a directory":
                    says = "cannot read copy/checkpoint.npz/config.json"
                if command == "load":
                    with pytest.raises(RunError) as caught:
                        load(copy.path)
                    said = str(caught.value)
                elif command == "resume":
                    said = refused(train.main, "--resume", copy.path)
                else:
                    said = refused(
                        evaluate.main,
                        copy.path if command == "evaluate" else copy.checkpoint,
                    )
                assert says in said and "copy" in said and "\n" not in said


def test_a_run_cannot_be_resumed_as_another(copy, refused):
    for words, says in [
        ("--model.mem-slots 3", "copy has another configuration"),
        ("--run other", "--run other goes with a new run, not with --resume"),
        ("--seed 6", "seed: 5 so far, 6 asked for"),
        ("--train.batch-size 9", "config.train.batch_size: 8 so far, 9 asked for"),
        ("--train.stpes 13", "did you mean '--train.steps'?"),
    ]:
        assert says in refused(train.main, "--resume", "copy", *words.split())


def test_a_sweep_is_resumed_by_its_own_command(refused):
    sweep = {"task": "nth_farthest", "preset": "quick", "grid": {}, "seeds": [0]}
    Run.create(".", "swept", sweep, {}, "swept")
    said = refused(train.main, "--resume", "swept")
    assert said.startswith("swept is a sweep; go on with it by ")
    assert said.endswith(" -m tinyrmc sweep --resume swept")


def test_the_weights_alone_cannot_be_resumed(copy, refused):
    with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
        evaluate.main(["copy", "--export", "weights.npz"])
    shutil.copy("weights.npz", copy.checkpoint)
    assert "weights" in refused(train.main, "--resume", "copy")


def test_a_spoilt_configuration_is_refused(trained, refused):
    for change, says in [
        (lambda config: config.clear(), "has no 'task'"),
        (lambda config: config.pop("preset"), "has no 'preset'"),
        (
            lambda config: config.update(task="nth_fartest"),
            "unknown task 'nth_fartest' (tasks: "
            f"{', '.join(discovery.task_files())}); did you mean 'nth_farthest'?",
        ),
    ]:
        with fresh_directory():
            shutil.copytree(trained.path, "copy")
            copy = Run.open("copy")
            config = json.loads((copy.path / "config.json").read_text())
            change(config)
            (copy.path / "config.json").write_text(json.dumps(config))
            assert says in refused(train.main, "--resume", "copy")


# --- A disk that fails ----------------------------------------------------------------


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_saving_leaves_a_run_that_can_go_on(trained, half, capsys):
    """The disk is full when the resumed run saves for the first time; what was saved
    before is untouched.
    """
    before = half.checkpoint.read_bytes()
    with pytest.MonkeyPatch.context() as disk, pytest.raises(SystemExit) as caught:
        disk.setattr(os, "fsync", full)
        # this writes, too; here it shall be the checkpoint
        disk.setattr(Run, "truncate_metrics", lambda run, lines: None)
        run_main(lambda: train.main(["--resume", "half"]))
    err = capsys.readouterr().err
    assert caught.value.code == 2 and err.count("\n") == 1
    assert err.startswith(
        "error: cannot write half/checkpoint.npz: No space left on device; free some"
    )
    assert half.checkpoint.read_bytes() == before
    assert not list(half.path.glob("*.partial"))

    assert train.main(["--resume", "half"]) == 0
    assert_same_run(half, trained)


# --- Stopping and going on ------------------------------------------------------------


@pytest.mark.slow
def test_a_signal_saves_and_the_printed_command_goes_on(trained, monkeypatch, capsys):
    for name, code in [("SIGINT", 130), ("SIGTERM", 143)]:
        with monkeypatch.context() as patch:
            with fresh_directory():
                with patch.context() as patch:
                    stop_at(patch, 7, getattr(signal, name))
                    words = [*TINY, "--seed", "5", "--run", "a run's directory"]
                    assert train.main(words) == code
                out, err = capsys.readouterr()
                assert f"{name} at step 7: saved. Go on with" in out and err == ""
                words = resume_command(out)
                assert words == ["--resume", "a run's directory"]
                assert train.main(words) == 0
                out = capsys.readouterr().out
                assert "5 steps of 8 examples" in out and "note:" not in out
                assert_same_run(Run.open("a run's directory"), trained)


def test_the_task_may_be_named_again_and_its_flags_repeated(half, trained):
    assert train.main([*TINY, "--seed", "5", "--resume=half"]) == 0
    assert_same_run(half, trained)


def test_out_of_time_evaluates_and_can_go_on(trained, capsys):
    assert train.main([*TINY, "--seed", "5", "--run", "timed", *AT_ONCE]) == 0
    run, out = Run.open("timed"), capsys.readouterr().out
    assert "out of time; 11 steps to go" in out and "test accuracy" in out
    (line,) = run.metrics()
    assert line["step"] == 1 and 0 <= line["test_accuracy"] <= 1
    (command,) = re.findall(r"^resume +(.*)$", out, re.M)
    assert train.main(shlex.split(command)[3:]) == 0
    assert_same_run(run, trained)


def test_out_of_time_and_then_killed_can_go_on(trained):
    """Before the next checkpoint; the line that the first one answered for is gone."""
    words = [*TINY, "--seed", "5", "--run", "broken"]
    assert train.main([*words, *AT_ONCE]) == 0
    with pytest.MonkeyPatch.context() as patch, pytest.raises(PowerCut):
        patch.setattr(train, "_run", power_cut)
        train.main(["--resume", "broken"])
    assert Run.open("broken").metrics() == []
    assert train.main(["--resume", "broken"]) == 0
    assert_same_run(Run.open("broken"), trained)


def test_another_number_of_workers_is_allowed_and_told(half, capsys):
    assert train.main(["--resume", "half", "--workers", "2"]) == 0
    assert (
        "note: the run had 1 worker, now 2; it goes on, but not bit for bit as it "
        "would have" in capsys.readouterr().out
    )
    assert half.metrics()[-1]["step"] == STEPS


def test_a_run_on_a_gpu_records_which_and_goes_on_as_it_was(monkeypatch, capsys):
    cupy, modes = fakecupy.installed(monkeypatch), []
    monkeypatch.setattr(train, "use_tf32", lambda xp, on: modes.append((xp, on)))
    words = "--device cuda --tf32 --run run --max-minutes 1e-9"
    assert train.main([*TINY, *words.split()]) == 0
    recorded = {"device": "cuda", "tf32": True, "gpu": "Some GPU"}
    recorded |= {"compute_capability": "9.0"}
    recorded |= {"cuda_driver": 13000, "cuda_runtime": 12090}
    assert recorded.items() <= Run.open("run").environment.items()
    assert train.main(["--resume", "run"]) == 0
    assert modes == [(cupy, True)] * 2
    assert capsys.readouterr().out.count("on cuda in TF32, 1 worker") == 2


@forks
@pytest.mark.slow
def test_a_run_goes_on_with_as_many_workers_as_before(capsys):
    assert train.main([*TINY, "--workers", "2", "--run", "two", *AT_ONCE]) == 0
    assert train.main(["--resume", "two"]) == 0
    out = capsys.readouterr().out
    assert out.count("on cpu, 2 processes") == 2 and "note:" not in out
    found = Run.open("two").environment
    assert (found["workers"], found["device"]) == (2, "cpu")


def test_a_run_that_died_before_its_last_evaluation_is_evaluated(copy, trained):
    last = copy.metrics()[-1]
    cut_short(copy, 2)
    assert train.main(["--resume", "copy"]) == 0
    assert {**copy.metrics()[-1], "seconds": 0} == {**last, "seconds": 0}
    assert_same_run(copy, trained)


def test_a_run_killed_while_its_last_checkpoint_was_written_shows_its_end(
    trained, monkeypatch, capsys
):
    """Of which the line of metrics is there, and half a checkpoint beside the one that
    was taken before the last evaluation.
    """

    def killed(self, arrays, state, instead=False):
        if instead:
            self.checkpoint.with_name("checkpoint.npz.partial").write_bytes(b"PK")
            raise KeyboardInterrupt
        save(self, arrays, state)

    save = Run.save
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "save", killed)
        train.main([*TINY, "--seed", "5", "--run", "copy"])
    assert "test_accuracy" in Run.open("copy").metrics()[-1]
    assert train.main(["--resume", "copy"]) == 0
    out = capsys.readouterr().out
    assert "finished already" not in out and re.search(r"test accuracy +[\d.]+", out)
    assert list(Path("copy").glob("*.partial")) == []
    assert_same_run(Run.open("copy"), trained)


def test_a_finished_run_is_left_as_it_is(copy, capsys):
    before = contents()
    assert train.main(["--resume", "copy"]) == 0
    assert re.search(
        r"copy has finished already \(12 steps\); see \S+ -m tinyrmc evaluate copy",
        capsys.readouterr().out,
    )
    assert contents() == before


def test_memory_that_does_not_suffice_for_a_step_ends_in_one_line(monkeypatch, capsys):
    def too_much(*_):
        raise MemoryError("Unable to allocate 9.0 TiB")

    monkeypatch.setattr(nth_farthest.Task, "after_update", too_much)
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main([*TINY, "--run", "run"]))
    err = capsys.readouterr().err
    assert caught.value.code == 2
    assert err.startswith(
        "error: out of memory: Unable to allocate 9.0 TiB; choose a smaller network, "
    )
    assert err.endswith("(--train.micro-batch-size)\n") and err.count("\n") == 1
    assert Run.open("run").load()[1]["step"] == 0


# --- Real processes -------------------------------------------------------------------


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """LONG, with two workers, from a process that nobody disturbed."""
    folder = tmp_path_factory.mktemp("unbroken")
    workers = "2" if CAN_FORK else "1"
    done = python(
        "-m", "tinyrmc.train", *LONG, "--workers", workers, "--run", "whole", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return Run.open(folder / "whole"), workers


CODES = [{"SIGTERM": 143, "SIGKILL": -9}, *rarely([{"SIGINT": 130}])]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
@pytest.mark.parametrize("codes", CODES, ids=" ".join)
def test_a_process_is_stopped_and_another_goes_on(codes, unbroken):
    for name, code in codes.items():
        number = signal.Signals[name]
        with fresh_directory():
            whole, workers = unbroken
            words = ["-m", "tinyrmc.train", *LONG]
            words += ["--workers", workers, "--run", "broken"]
            with subprocess.Popen(
                [sys.executable, *words],
                env=SURROUNDINGS,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                metrics = Path("broken/metrics.jsonl")
                while not metrics.exists() and process.poll() is None:
                    time.sleep(0.002)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (code, ""), out
            broken = Run.open("broken")
            step = broken.load()[1]["step"]
            if number == signal.SIGKILL:
                assert step == 0
                words = ["--resume", "broken"]
            else:
                assert 6 <= step < LAST
                assert f"{name} at step {step}: saved" in out
                words = resume_command(out)
            done = python("-m", "tinyrmc.train", *words, "--workers", workers)
            assert (done.returncode, done.stderr) == (0, "")
            assert_same_run(broken, whole)
