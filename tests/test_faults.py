"""A run's files: what they may say, what no command waits for or believes, and what
happens when the machine gives out. test_faults_campaign.py tries more, at random.
"""

import functools
import gc
import json
import os
import signal
import subprocess
import sys
import weakref

import numpy as np
import pytest
from processes import alive, soon
from tinyruns import SURROUNDINGS, TINY, assert_same_run, error_of, python
from tinytasks import assert_finishes, forks, poisoned, relations, resumed

import tinyrmc
from tinyrmc.cli import commands, evaluate, plot, report, train
from tinyrmc.errors import RunError
from tinyrmc.training import workers
from tinyrmc.training.loop import Interrupt, Listener, run_training
from tinyrmc.training.run import Count, Run, load_arrays, misfit, parsed, save_arrays
from tinyrmc.training.trainer import MOST_WORKERS, NonFinite, Trainer
from tinyrmc.training.workers import WorkerLost

posix = pytest.mark.skipif(os.name != "posix", reason="no such files here")


# --- What JSON says -------------------------------------------------------------------

FITS = [
    (0, Count), (3, Count), (3, float), (0.5, float), (float("nan"), float), ("a", str),
    (None, Count | None), (3, Count | None), (True, bool), ([], list), ({}, dict),
]  # fmt: skip
MISFITS = [
    (True, Count), (1.0, Count), (-1, Count), ("3", Count), (10**400, Count),
    (True, float), ("x", float), (-(10**400), float), (3, str), (None, str), (1, bool),
    ("ab", list), ([], dict), ("x", Count | None),
]  # fmt: skip


def test_what_fits_and_what_does_not():
    for value, kind in FITS:
        assert misfit({"a": value, "b": []}, {"a": kind}) is None, (value, kind)
    for value, kind in MISFITS:
        assert misfit({"a": value}, {"a": kind}).startswith("a cannot be "), value
    assert misfit({}, {"a": Count}) is None
    assert misfit({}, {"a": Count}, needed=["a"]) == "it has no a"
    assert misfit([], {}) == "it cannot be []" and len(misfit("x" * 1000, {})) < 80


def test_nesting_without_end_is_a_value_error_like_any_other():
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed("[" * 100_000)
    assert parsed("[1]") == [1]


def with_steps(config, steps):
    return config | {"train": config["train"] | {"steps": steps}}


FORGED = [
    ("config.json", lambda c: c | {"task": 7}),
    ("config.json", lambda c: c | {"seed": -1}),
    ("config.json", lambda c: c | {"seed": True}),
    ("config.json", lambda c: c | {"config": None}),
    ("config.json", lambda c: c | {"config": c["config"] | {"model": [1]}}),
    ("config.json", lambda c: c | {"config": c["config"] | {"train": "9"}}),
    ("config.json", lambda c: c | {"config": with_steps(c["config"], "9")}),
    ("config.json", lambda c: c | {"places": 3}),
    ("config.json", lambda c: [c]),
    ("environment.json", lambda e: e | {"command": 5}),
    ("environment.json", lambda e: e | {"cores": "two"}),
    ("environment.json", lambda e: None),
]


READERS = evaluate.main, plot.main, report.main


def test_values_of_another_type_are_refused(copy, refused):
    for name, forge in FORGED:
        path = copy.path / name
        before = path.read_text()
        path.write_text(json.dumps(forge(json.loads(before))))
        for main in READERS:
            said = refused(main, copy.path)
            assert name in said or "configuration" in said
        path.write_text(before)


def test_settings_that_no_run_can_have_had_are_refused(copy, refused):
    path = copy.path / "environment.json"
    before = path.read_text()
    for forged in (
        {"tf32": True},
        {"graph": True},
        {"graph": "x", "device": "cuda"},
        {"device": 3},
    ):
        path.write_text(json.dumps(json.loads(before) | forged))
        said = refused(train.main, "--resume", copy.path)
        assert "environment.json is not as it was written: " in said


def test_a_forged_checkpoint_is_refused_though_its_checksum_is_right(copy, refused):
    arrays, state = load_arrays(copy.checkpoint)
    for changes in (
        {"step": "12"}, {"step": -1}, {"run": {}}, {"task": []}, {"skipped": [0]},
        {"window": {"loss": 3}}, {"lines": None}, {"seconds": {}},
    ):  # fmt: skip
        save_arrays(copy.checkpoint, arrays, state | changes)
        refused(train.main, "--resume", copy.path)
        if {*changes} & {"step", "run"}:
            assert "checkpoint.npz" in refused(evaluate.main, copy.path)


def test_weights_that_are_not_finite_tell_nothing(copy, refused):
    arrays, state = load_arrays(copy.checkpoint)
    name = next(name for name in arrays if name.startswith("parameters/"))
    says = f"{name.removeprefix('parameters/')} is not finite"
    for bad in np.nan, np.inf:
        arrays[name] = np.full_like(arrays[name], bad)
        save_arrays(copy.checkpoint, arrays, state)
        assert says in refused(evaluate.main, copy.path)
        assert says in refused(train.main, "--resume", copy.path)
        assert says in error_of(tinyrmc.load, copy.path)


# --- What ends, and how long it is ----------------------------------------------------


@posix
def test_nobody_waits_for_what_is_no_file(copy, refused):
    kinds = {
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "loop": lambda path: path.symlink_to(path.name),
        "folder": os.mkdir,
    }
    for name in "checkpoint.npz", "config.json", "environment.json", "metrics.jsonl":
        path = copy.path / name
        kept = path.rename(copy.path.with_name(name))
        for make in kinds.values():
            make(path)
            main = report.main if name == "metrics.jsonl" else evaluate.main
            assert f"cannot read copy/{name}: " in refused(main, copy.path)
            if name == "checkpoint.npz":
                assert f"cannot read copy/{name}" in refused(evaluate.main, path)
            path.rmdir() if path.is_dir() else path.unlink()
        kept.rename(path)


def test_a_long_file_that_is_none_of_ours_is_not_read(tmp_path):
    with open(tmp_path / "long.npz", "wb") as file:
        file.truncate(1 << 40)  # a TB of zeros, which take no room
    assert "not an npz file" in error_of(load_arrays, tmp_path / "long.npz")


def test_names_that_are_too_long_are_refused(refused, empty_directory):
    for main in READERS:
        with pytest.raises((RunError, OSError)) as caught:
            main(["x" * 300])
        assert "too long" in str(caught.value)
        with pytest.raises(SystemExit) as left:
            commands.run_main(functools.partial(main, ["x" * 300]))
        assert left.value.code == 2


def test_memory_that_does_not_suffice_is_one_line(capsys):
    for said in "", "Unable to allocate 9 TiB":

        def main(said=said):
            raise MemoryError(said)

        with pytest.raises(SystemExit) as left:
            commands.run_main(main)
        assert left.value.code == 2
        told = f"out of memory: {said}" if said else "out of memory"
        assert capsys.readouterr().err == f"error: {told}; ask for less\n"


def test_ctrl_c_has_no_traceback(capsys):
    def main():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as left:
        commands.run_main(main)
    assert left.value.code == 130 and capsys.readouterr().err == ""


# --- What is believed -----------------------------------------------------------------


def test_an_edited_configuration_is_believed_by_nobody(copy, refused, capsys):
    path = copy.path / "config.json"
    path.write_text(path.read_text().replace('"mem_slots": 2', '"mem_slots": 3'))
    for main in READERS:
        assert "mem_slots: 2 so far, 3 asked for" in refused(main, copy.path)


def test_lines_that_are_lost_are_told(half, refused, capsys):
    (half.path / "metrics.jsonl").write_text("")
    says = "metrics.jsonl had 1 line when half/checkpoint.npz was saved"
    assert says in refused(train.main, "--resume", "half")
    (half.path / "metrics.jsonl").unlink()  # as it says
    assert train.main(["--resume", "half"]) == 0
    assert "metrics.jsonl is gone, and its 1 line; the" in capsys.readouterr().err
    assert half.metrics()[0]["step"] == 10


def test_a_report_misses_lines_too(copy, refused):
    path = copy.path / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[-1:]))
    assert "had 3 lines when" in refused(report.main, copy.path)


def test_numbers_that_were_edited_are_believed_by_nobody(copy, refused):
    path = copy.path / "metrics.jsonl"
    before = path.read_text()
    for line in 0, -1:
        lines = [json.loads(each) for each in before.splitlines()]
        lines[line]["accuracy"] = 0.99
        path.write_text("".join(json.dumps(each) + "\n" for each in lines))
        for main in (report.main, plot.main):
            assert "metrics.jsonl is not as it was when" in refused(main, copy.path)
        says = refused(train.main, "--resume", copy.path)
        assert "metrics.jsonl is not as it was when" in says


def test_lines_of_another_type_are_refused(copy, refused):
    path = copy.path / "metrics.jsonl"
    *lines, last = path.read_text().splitlines()
    for change in (
        {"loss": "x"},
        {"loss": [1]},
        {"step": None},
        {"test_accuracy": "1"},
    ):
        changed = json.dumps(json.loads(last) | change)
        path.write_text("\n".join([*lines, changed]) + "\n")
        says = f"metrics.jsonl line {len(lines) + 1} is no"
        assert says in refused(report.main, "copy")


def test_a_line_that_was_added_is_believed_by_nobody(copy, refused):
    path = copy.path / "metrics.jsonl"
    before = path.read_text()
    for step in 99, 1:
        added = json.loads(before.splitlines()[-1])
        added |= {"step": step, "test_accuracy": 0.99}
        path.write_text(before + json.dumps(added) + "\n")
        for main in (report.main, plot.main):
            assert f"line 4 is of step {step}, after step 12" in refused(
                main, copy.path
            )


def test_a_backend_that_is_none_is_one_line(copy):
    around = SURROUNDINGS | {"MPLBACKEND": "nonsense"}
    done = python("-m", "tinyrmc", "plot", copy.path, env=around)
    assert done.returncode == 2 and done.stderr.startswith("error: matplotlib refuses")
    assert done.stderr.endswith("; unset the variable MPLBACKEND\n")


# --- The machine gives out ------------------------------------------------------------


@forks
def test_a_trainer_that_nobody_holds_leaves_no_process():
    trainer = Trainer(relations(), workers=2)
    trainer.advance()
    (child,) = (one.pid for one in trainer.workers._children)
    files = len(os.listdir("/proc/self/fd"))
    gone = weakref.ref(trainer)
    gc.disable()
    try:
        del trainer
        assert gone() is None and soon(lambda: not alive(child))
    finally:
        gc.enable()
    assert len(os.listdir("/proc/self/fd")) < files


@forks
def test_workers_that_cannot_be_started_leave_no_run(
    refused, monkeypatch, empty_directory
):
    started, child = [], workers.Child

    def full(*words):
        if len(started) == 2:
            raise OSError(24, "Too many open files")
        started.append(child(*words))
        return started[-1]

    monkeypatch.setattr(workers, "Child", full)
    said = refused(train.main, *TINY, "--workers", "5", "--run", "run")
    assert said == (
        "cannot start worker 4 of 5: Too many open files; give fewer --workers"
    )
    assert not any(alive(each.pid) for each in started)


def test_workers_beyond_all_reason_are_refused(refused, empty_directory):
    words = [*TINY, "--train.batch-size", "80000", "--workers", "70000"]
    assert f"from 1 to {MOST_WORKERS}" in refused(train.main, *words)


def lose_a_worker(task, step):
    """A trainer of two workers whose second is killed before this step."""
    trainer = Trainer(task, seed=3, workers=2)
    advance = trainer.advance

    def watched(*words):
        if trainer.step == step:
            os.kill(trainer.workers._children[0].pid, signal.SIGKILL)
        return advance(*words)

    trainer.advance = watched
    return trainer


@forks
def test_a_lost_worker_costs_no_step(make_trainer, new_run):
    def make():
        return make_trainer(relations(), seed=3, workers=2)

    broken = new_run()
    with pytest.raises(WorkerLost, match=r"checkpoint of step 7 is there to resume fr"):
        run_training(lose_a_worker(relations(), 7), broken)
    assert broken.load_state()["step"] == 7
    assert_finishes(resumed(make(), broken), broken, make, new_run)


class Deaf(Listener):
    """Nothing can be printed any more."""

    def step(self, step):
        if step == 7:
            raise OSError(28, "No space left on device")


def test_a_log_that_is_full_costs_no_step(make_trainer, new_run):
    def make():
        return make_trainer(relations(), seed=3)

    broken, trainer = new_run(), make()
    assert run_training(trainer, broken, show=Deaf()) == "SIGPIPE"
    assert broken.load_state()["step"] == trainer.step == 7
    assert_finishes(resumed(make(), broken), broken, make, new_run)


def test_while_updates_are_skipped_a_good_checkpoint_stays(make_trainer, new_run):
    often = {"checkpoint_minutes": 1e-9}
    run, bad = new_run(), {4, 6, 7, 8, 9}
    with pytest.raises(NonFinite):
        run_training(make_trainer(poisoned(bad, nonfinite_limit=5, **often)), run)
    # from the update that was skipped until a line has told of it, nothing is saved
    assert run.load_state()["step"] == 5 and run.load()[1]["steady"]
    assert load_arrays(run.previous_checkpoint)[1]["step"] == 3


def test_of_two_that_were_stopped_in_trouble_the_good_one_stays(make_trainer, new_run):
    run = new_run()
    task = poisoned({6, 7, 8}, nonfinite_limit=10, checkpoint_minutes=1e-9)
    for step in (7, 8):
        trainer = (
            resumed(make_trainer(task, 3), run)
            if step > 7
            else make_trainer(task, seed=3)
        )
        stop_after(trainer, step)
        assert run_training(trainer, run) == "SIGTERM"
        assert not run.load()[1]["steady"] and run.load()[1]["step"] == step
        assert load_arrays(run.previous_checkpoint)[1]["steady"]


def stop_after(trainer, step):
    advance = trainer.advance

    def watched(*words):
        if trainer.step == step - 1:
            signal.raise_signal(signal.SIGTERM)
        return advance(*words)

    trainer.advance = watched


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_first_step_leaves_what_can_be_resumed(
    number, trained, few_held_out_examples, empty_directory, monkeypatch, capsys
):
    made = train._new_run

    def and_a_signal(*words):
        run = made(*words)
        signal.raise_signal(number)
        return run

    monkeypatch.setattr(train, "_new_run", and_a_signal)
    words = [*TINY, "--seed", "5", "--run", "run"]
    assert train.main(words) == 128 + number
    assert train.main(["--resume", "run"]) == 0
    assert_same_run(Run.open("run"), trained)


def test_an_interrupt_that_is_entered_twice_gives_back_what_was_there():
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt() as interrupt, interrupt:
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


# --- Streams --------------------------------------------------------------------------


def shell(words, copy, **around):
    """(exit code, stdout, stderr) of `python -m tinyrmc evaluate copy` in a shell."""
    command = f"{sys.executable} -m tinyrmc evaluate copy --metrics-only {words}"
    done = subprocess.run(
        ["sh", "-c", command],
        env=SURROUNDINGS | around,
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_streams_that_are_full_closed_or_ascii(copy):
    code, _, err = shell("> /dev/full", copy)
    assert (code, err) == (2, "error: the system refuses: No space left on device\n")
    code, out, err = shell("2>&- 0<&-", copy)
    assert code == 0 and "accuracy" in out
    assert shell(">&-", copy)[0] == 0
    ascii_ = {"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"}
    assert shell("", copy, **ascii_)[0] == 0
