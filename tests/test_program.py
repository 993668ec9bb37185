"""The program `tinyrmc COMMAND ...`, and its command that begins a task."""

import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tinyruns import ROOT, contents, output, python

import tinyrmc
from tinyrmc import __main__ as program
from tinyrmc.backend import blas_threads
from tinyrmc.cli import new, train
from tinyrmc.config import json_text
from tinyrmc.results import groups, tables
from tinyrmc.training.discovery import load_task
from tinyrmc.training.run import Run
from tinyrmc.training.trainer import Trainer


def said(*words):
    """The output of `python -m tinyrmc ...`; must succeed."""
    done = python("-m", "tinyrmc", *words, cwd=ROOT)
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


# --- Commands -------------------------------------------------------------------------


def test_alone_and_asked_for_help_it_lists_its_commands(capsys):
    for words in ([], ["--help"], ["-h"]):
        assert program.main(words) == 0
        listed = capsys.readouterr().out.splitlines()
        for name, about in program.COMMANDS.items():
            assert any(line.split(maxsplit=1) == [name, about] for line in listed)
        assert max(map(len, listed)) <= 80


@pytest.mark.skipif(os.name == "nt", reason="a shell of Unix")
def test_streams_that_are_closed_say_nothing_and_break_nothing():
    asks = "sys.stdin.isatty() or sys.stdout.isatty() or sys.stderr.isatty()"
    code = (
        f"import sys; from tinyrmc.cli import commands as c; c.run_main(lambda: {asks})"
    )
    words = shlex.join([sys.executable, "-c", code])
    assert subprocess.run(f"{words} <&- >&- 2>&-", shell=True, cwd=ROOT).returncode == 0


def test_it_runs_as_a_module():
    assert said() == program.usage() + "\n"
    assert said("--version") == f"tinyrmc {tinyrmc.__version__}\n"
    assert "usage: " in said("evaluate", "--help")


def test_a_command_is_the_main_of_its_module(monkeypatch):
    for name in program.COMMANDS:
        module = importlib.import_module(f"tinyrmc.cli.{name}")
        monkeypatch.setattr(module, "main", lambda words: 40 + len(words))
        assert program.main([name, "runs/x", "--flag"]) == 42


def test_only_the_command_that_is_asked_for_is_imported():
    code = (
        "import sys; from tinyrmc.__main__ import main; main(['--version']); "
        "print(*sys.modules)"
    )
    loaded = output("-c", code, cwd=ROOT).split()
    assert "tinyrmc.cli.commands" in loaded
    assert not {f"tinyrmc.cli.{name}" for name in program.COMMANDS} & set(loaded)


def test_an_unknown_command_is_refused(refused, empty_directory):
    known = ", ".join(program.COMMANDS)
    for word, meant in ("trian", "; did you mean 'train'?"), ("--verison", ""):
        says = f"unknown command {word!r} (commands: {known}){meant}"
        assert refused(program.main, word, "--seed", "1") == says


# --- A new task -----------------------------------------------------------------------


def test_a_new_task_is_the_template_and_trains(empty_directory, capsys):
    assert program.main(["new", "lookup"]) == 0
    out = capsys.readouterr().out
    text = Path("lookup.py").read_text()
    assert text.startswith('"""Lookup: ') and text.endswith("floor}}\n")
    (command,) = [line for line in out.splitlines() if "tinyrmc.train" in line]
    words = command.split("tinyrmc.train ")[1].split()
    few = ["--train.steps", "1", "--workers", "1"]
    assert train.main([*words, "--model.core", "lstm", "--length", "2", *few]) == 0
    run = Run.open("runs/lookup-quick-1")
    assert run.config["task"] == "lookup"
    assert run.config["config"]["length"] == 2
    assert train.main(["--resume", str(run.path)]) == 0
    assert tinyrmc.load(run.path).num_parameters > 0


@pytest.mark.slow
def test_a_new_core_is_right_trains_and_is_drawn(empty_directory, refused):
    """By the commands that are printed."""
    told = output("-m", "tinyrmc", "new", "slow_sum", "--core")
    check, learn = [line.split()[1:] for line in told.splitlines() if "    " in line]
    text = Path("slow_sum.py").read_text()
    assert "class SlowSum(cores.Core)" in text and "eaky" not in text
    assert output(*check) == "The gradients are right.\n"
    wrong = text.replace("keep * state", "keep.data * state")
    Path("wrong.py").write_text(wrong.replace('"slow_sum"', '"wrong"'))
    assert "gradient" in python("wrong.py").stderr
    few = ["--train.steps", "2", "--workers", "1", "--model.slow-sum.units", "3"]
    assert "slow_sum, units 3, slowest 0.9" in output(*learn, *few)
    assert output("-m", "tinyrmc", "plot", "runs/recall-quick-1", "--out", "a.pdf")
    for name, says in (
        ("lstm", "'lstm' cannot name a core: it takes small letters, digits and _"),
        ("Slow", "'Slow' cannot name a core"),
        ("a__b", "'a__b' cannot name a core"),
    ):
        assert refused(new.main, name, "--core").startswith(says)


def test_tasks_of_one_name_in_two_files_are_two_tasks(empty_directory, capsys):
    few = ["--train.steps", "1", "--workers", "1", "--model.core", "lstm"]
    for folder in ("one", "two"):
        Path(folder).mkdir()
    files = [new.write_example("lookup", Path(folder)) for folder in ("one", "two")]
    for file in files:
        assert train.main([str(file), *few]) == 0
    runs, left_out = groups.find_runs([Path("runs")])
    assert len(runs) == 2 and left_out == []
    found = tables.summary(runs)["groups"]
    assert [len(group["runs"]) for group in found] == [1, 1]
    places = [str(file.resolve()) for file in files]
    assert [group["task"] for group in found] == places  # for a command
    found[0]["references"]["test_accuracy"]["a NumPy number"] = np.float32(0.5)
    assert "a NumPy number" in json_text(found)


@pytest.mark.slow
@pytest.mark.weekly
def test_the_template_learns(tmp_path):
    """It passes its floor within a quarter of its steps."""
    task = load_task(str(new.write_example("lookup", tmp_path))).Task
    config = task.presets["quick"][1]
    trainer = Trainer(task(config), seed=0)
    with blas_threads(1):
        for _ in range(config.train.steps // 4):
            trainer.advance()
        accuracy = trainer.evaluate()["test_accuracy"]
    trainer.workers.close()
    (floor,) = trainer.task.references()["test_accuracy"].values()
    assert accuracy > floor + 0.15


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("core, right", [("rmc", 1.0), ("feedforward", 0.6)])
def test_the_template_of_a_world_needs_a_memory(core, right, empty_directory, capsys):
    """As the document says."""
    assert program.main(["new", "junction", "--world"]) == 0
    assert "train junction.py" in capsys.readouterr().out
    words = f"junction.py --workers 1 --model.core {core} --model.hidden-size 16"
    assert train.main(words.split()) == 0
    (last,) = Run.open("runs/junction-quick-1").metrics()[-1:]
    assert right - 0.15 <= last["test_solved"] <= right


def test_a_name_that_cannot_be_is_refused(empty_directory, refused):
    Path("here.py").write_text("mine")
    for name, says in {
        "here": "here.py exists already; choose another name",
        "here.py": "here.py exists already; choose another name",
        "nth_farthest": "nth_farthest is a module or a task already; choose another",
        "a-b": "'a-b' cannot name a Python module; take letters, digits and _, ",
        "../a": "'../a' cannot name a Python module; ",
        "class": "'class' cannot name a Python module; ",
        "": "'' cannot name a Python module; ",
        "numpy": "numpy is a module or a task already; choose another name",
        "__main__": "__main__ is a module or a task already",
    }.items():
        assert refused(new.main, name).startswith(says)


def test_a_folder_that_cannot_be_written_is_told(tmp_path, empty_directory):
    with pytest.raises(OSError, match=r"No such file.*lookup\.py"):
        new.write_example("lookup", tmp_path / "gone")
    assert contents() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="no /dev/full")
def test_a_file_that_cannot_be_written_whole_is_gone(empty_directory, monkeypatch):
    import resource  # which Windows has not

    monkeypatch.setattr(new, "example", lambda *_: "x" * 100_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            new.write_example("lookup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert contents() == {}
