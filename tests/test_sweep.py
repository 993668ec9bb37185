"""Sweeps: which runs a grid makes, that they are the runs of the train command, what
becomes of those that fail, and who gets how long.
"""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from owntask import dropped_in
from processes import alive, soon
from tinyruns import LONG, SURROUNDINGS, assert_same_run, contents

from tinyrmc.cli import sweep, train
from tinyrmc.cli.commands import run_main
from tinyrmc.errors import UsageError
from tinyrmc.results import tables
from tinyrmc.training import discovery
from tinyrmc.training.run import Run

GRID = ["--grid", "model.width=2,4", "model.depth=1,2"]


@pytest.fixture
def larger(monkeypatch, tmp_path):
    """The task, in an empty current directory, with runs that are trained in this
    process.
    """
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sweep, "run_logged", in_this_process)
    monkeypatch.setattr(sweep, "ThreadPoolExecutor", AtOnce)
    return dropped_in(monkeypatch, tmp_path / "tasks")


class AtOnce(ThreadPoolExecutor):
    """Has done what is submitted: one thread alone may redirect what is printed."""

    def submit(self, function, *words):
        done = Future()
        done.set_result(function(*words))
        return done


def in_this_process(words, log):
    """Act as `sweep.run_logged`, without a process."""
    assert words[:2] == ["-m", "tinyrmc.train"]
    with (
        open(log, "a") as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
        pytest.raises(SystemExit) as caught,
    ):
        run_main(lambda: train.main([*words[2:]]))
    return caught.value.code


def swept(*words, code=0):
    """Run a sweep, one cell after the other: (it, its table, what it knows of it)."""
    assert sweep.main([*map(str, words), "--jobs", "1"]) == code
    (path,) = {path.parent for path in Path().rglob("results.md")}
    found = json.loads((path / "results.json").read_text())
    head, *rows = tables.tables(found)[0]
    return Run.open(path), [dict(zip(head, row, strict=True)) for row in rows], found


def cells(run):
    """The runs of a sweep in the order in which they were begun."""
    found = [path for path in run.path.iterdir() if path.is_dir()]
    return sorted(found, key=lambda path: (path / "config.json").stat().st_mtime_ns)


# --- What is trained ------------------------------------------------------------------


@pytest.mark.slow
def test_every_combination_under_every_seed_is_a_run_of_the_train_command(
    larger, capsys
):
    given = ["--train.batch-size", "8", "--workers", "1"]
    run, rows, found = swept("larger", *GRID, "--seeds", "0,3", *given)
    assert [path.name for path in cells(run)] == [
        f"model.width={width},model.depth={depth},seed={seed}"
        for seed in (0, 3)
        for width in (2, 4)
        for depth in (1, 2)
    ]  # one seed of all comes before the next
    words = ["larger", "--model.width", "4", "--model.depth", "2", "--seed", "3"]
    out = capsys.readouterr().out
    assert train.main([*words, *given, "--run", "alone"]) == 0
    assert_same_run(Run.open(cells(run)[-1]), Run.open("alone"))
    assert out.startswith("larger quick: 8 runs, 8 to do, 1 at a time\n")
    assert re.search(r"^1/8  model.width \d, .*%, 20 steps in 0:0\d$", out, re.M)
    last = {path.name: Run.open(path).metrics()[-1] for path in cells(run)}
    for row, group in zip(rows, found["groups"], strict=True):
        model = group["config"]["model"]
        name = f"model.width={model['width']},model.depth={model['depth']}"
        values = [last[f"{name},seed={n}"]["test_accuracy"] for n in (0, 3)]
        assert row["test accuracy, mean"] == f"{50 * sum(values):.1f} %"
        assert row["success: at least 80.0 %"].endswith(" of 2")
        assert row["steps"] == "20"
    assert rows[-1]["`python -m tinyrmc.train larger`"] == (
        "`quick --model.depth 2 --train.batch-size 8`"
    )
    text = (run.path / "results.md").read_text()
    assert text.startswith(tables.markdown(found))
    assert sum(1 for _ in run.path.glob("*.log")) == 8


@pytest.mark.slow
def test_fields_may_be_true_or_false_or_of_several_numbers(larger):
    few = ["--train.steps", "5", "--train.evaluate-every", "5"]
    for words in "true,false", "True,False":
        grid = ["--grid", f"model.linear={words}", "model.shape=1 2,3"]
        run, _, _ = swept("larger", *grid, *few, "--run", words)
        models = [Run.open(path).config["config"]["model"] for path in cells(run)]
        assert [(model["linear"], model["shape"]) for model in models] == [
            (a, b) for a in (True, False) for b in ([1, 2], [3])
        ]
        shutil.rmtree(words)


# --- What does not go well ------------------------------------------------------------


@pytest.mark.slow
def test_failures_and_combinations_that_cannot_be_are_told_and_others_go_on(
    larger, capsys
):
    grid = ["--grid", "train.learning_rate=1e30,0.01", "model.depth=1,2"]
    words = [*grid, "model.width=3,4", "--train.steps", "200"]
    run, rows, found = swept("larger", *words, code=1)
    out = capsys.readouterr().out
    why = "cannot be: model.width 3 is no multiple of model.depth 2"
    assert f"note      {why} (2 combinations)\n" in out and "6 runs, 6 to do" in out
    assert len(re.findall("^./6 .*: failed: stopped at step", out, re.M)) == 1
    assert len(re.findall("^./6 .*: failed as train.*, seed 0 did$", out, re.M)) == 2
    steps = [row["steps"] for row in rows]
    assert steps == ["10 of 200"] * 3 + ["200"] * 3 and len(found["groups"]) == 6
    assert out.endswith(f"-m tinyrmc sweep --resume {run.path}\n")
    run, rows, _ = swept("--resume", run.path, code=1)  # they fail again
    assert len(rows) == 6


def test_a_process_that_dies_without_a_word_is_told(tmp_path):
    log = tmp_path / "log"
    sweep._ending.clear()
    assert sweep.run_logged(["-c", "print(1); 1 / 0"], log) == 1
    assert sweep.failure(log) == "exit code 1; see log"
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert sweep.run_logged(["-c", killed], log) == -9
    assert sweep.failure(log) == "ended by SIGKILL (out of memory?)"
    assert sweep.run_logged(["-c", "exit('error: mine')"], log) == 1
    assert sweep.failure(log) == "mine"
    assert sweep.run_logged(["-c", "print(2)"], log) == 0
    assert sweep.failure(log) is None and log.read_text().count("$ python -c") == 4


def test_a_run_that_was_killed_before_it_saved_anything_starts_again(larger):
    run, _, _ = swept("larger", "--grid", "model.width=2")
    cell = run.path / "model.width=2,seed=0"
    for name in ("checkpoint.npz", "checkpoint.previous.npz", "metrics.jsonl"):
        (cell / name).unlink()
    (cell / "environment.json").write_text('{"old": true}')
    swept("--resume", run.path)
    again = Run.open(cell)
    assert again.metrics()[-1]["step"] == 20 and "old" not in again.environment


def test_a_trained_run_whose_configuration_is_gone_is_kept_and_told(larger, capsys):
    run, _, _ = swept("larger", "--grid", "model.width=2,4")
    cell = run.path / "model.width=2,seed=0"
    (cell / "config.json").unlink()
    before = contents(cell)
    _, rows, _ = swept("--resume", run.path, code=1)
    assert contents(cell) == before and len(rows) == 1
    told = f"cannot read {cell / 'config.json'}: No such file or directory; restore it"
    assert f"model.width 2, seed 0: failed: {told}" in capsys.readouterr().out


def test_a_sweep_written_before_goes_on(larger):
    """Its config.json may say how many workers each run has, and where its data are."""
    grid = {"model.width": ["2"], "train.cosine_fraction": ["0.5"]}
    described = {"task": "larger", "preset": "quick", "grid": grid, "workers": 2}
    described |= {"seeds": [0, 1], "words": ["--train.steps", "10"]}
    Run.create(".", "swept", described, {"command": "c"}, "swept")
    Path("swept/results.json").write_text('{"combinations": []}')
    _, rows, _ = swept("--resume", "swept")
    assert [row["seeds"] for row in rows] == ["0, 1"]
    environment = Run.open(
        "swept/model.width=2,train.cosine_fraction=0.5,seed=1"
    ).environment
    assert environment["workers"] == 2


# --- Going on -------------------------------------------------------------------------


def test_a_run_that_was_cut_says_so_and_goes_on_bit_for_bit(larger, capsys):
    cut = ["--max-minutes", "1e-9", "--workers", "1"]
    run, rows, _ = swept("larger", "--grid", "model.width=2,4", *cut)
    assert [row["steps"] for row in rows] == ["1 of 20"] * 2
    out = capsys.readouterr().out
    assert "1 step of 20, cut short," in out
    (command,) = re.findall(r"-m tinyrmc sweep (--resume .*)", out)
    _, rows, _ = swept(*command.split())
    assert [row["steps"] for row in rows] == ["20"] * 2
    for width in "2", "4":
        words = ["larger", "--model.width", width, "--run", width, "--workers", "1"]
        assert train.main(words) == 0
        cell = Run.open(run.path / f"model.width={width},seed=0")
        assert_same_run(cell, Run.open(width))
    before = {p: c for p, c in contents(run.path).items() if "results" not in p.name}
    capsys.readouterr()
    swept(*command.split())
    assert "2 runs, 0 to do" in capsys.readouterr().out
    after = {p: c for p, c in contents(run.path).items() if "results" not in p.name}
    assert after == before


# --- Signals --------------------------------------------------------------------------


def command_line(*words):
    """Arguments for subprocess."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return {"args": [sys.executable, *map(str, words)], "env": SURROUNDINGS, **pipes}


place = LONG.index("--model.mem-slots")
TWO = ["-m", "tinyrmc", "sweep", *LONG[:place], *LONG[place + 2 :]]  # side by side
TWO += ["--grid", "model.mem_slots=1,2", "--jobs", "2", "--run", "swept"]
# long enough that on a busy machine neither has ended when the other begins
STEPS = ["--train.steps", "303", "--train.evaluate-every", "300"]
CELLS = [Path(f"swept/model.mem_slots={n},seed=0") for n in (1, 2)]


def training(process):
    """Wait until both runs have begun to train."""
    while not all((cell / "metrics.jsonl").exists() for cell in CELLS):
        assert process.poll() is None
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals between processes")
def test_ctrl_c_stops_all_runs_saved_and_they_go_on_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with subprocess.Popen(**command_line(*TWO, *STEPS)) as process:
        training(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, ""), out
    assert "stopped, and saved what was being trained" in out
    assert "--resume swept\n" in out
    assert all(0 < Run.open(cell).load()[1]["step"] < 303 for cell in CELLS)
    resume = command_line("-m", "tinyrmc", "sweep", "--resume", "swept")
    done = subprocess.run(**resume, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert train.main([*LONG, *STEPS, "--model.mem-slots=1", "--run", "whole"]) == 0
    assert_same_run(Run.open(CELLS[0]), Run.open("whole"))
    command = Run.open(CELLS[0]).environment["command"]
    assert command.startswith("python -m tinyrmc.train nth_farthest quick --model.")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="elsewhere children do not notice")
def test_the_runs_of_a_sweep_that_was_killed_end_too_and_are_saved(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    words = [*TWO, "--train.steps", 10**9]
    with subprocess.Popen(**command_line(*words)) as process:
        training(process)
        locks = [json.loads((cell / "lock.json").read_text()) for cell in CELLS]
        process.kill()
    children = [lock["pid"] for lock in locks]
    try:
        assert soon(lambda: not any(map(alive, children)))
    finally:
        for child in filter(alive, children):
            os.kill(child, signal.SIGKILL)
    for cell in CELLS:
        assert Run.open(cell).load()[1]["step"] > 0
        log = cell.with_name(f"{cell.name}.log").read_text()
        assert re.search(r"^SIGHUP at step [\d,]+: saved", log, re.M)


def test_ctrl_c_reaches_each_run_once_and_no_other_begins(monkeypatch, tmp_path):
    """A second signal would keep them from saving."""

    class Child:
        asked = 0

        def terminate(self):
            self.asked += 1

    def until_asked(words, log):
        begun.append(log)
        sweep._ending.wait(30)

    def interrupted(futures):
        raise KeyboardInterrupt

    begun, children = [], {Child(), Child()}
    monkeypatch.setattr(sweep, "_children", children)
    monkeypatch.setattr(sweep, "run_logged", until_asked)
    monkeypatch.setattr(sweep, "as_completed", interrupted)
    cells = [sweep.Cell({}, n, [], tmp_path / str(n)) for n in (0, 1)]
    assert sweep.train(cells, 1) == 130
    sweep.end_runs()
    assert [child.asked for child in children] == [1, 1] and len(begun) <= 1


# --- Words that cannot be -------------------------------------------------------------

BAD_WORDS = {
    "lager": "unknown task 'lager' (tasks: larger); did you mean 'larger'?",
    "larger quik --grid model.width=2": "(quick, three); did you mean 'quick'?",
    "larger": "or the name of a grid: widths, and is missing",
    "larger --grid nope": "or the name of a grid: widths (given: nope)",
    "larger --grid": "expected at least one argument",
    "--grid model.width=2": "the first word must be a task",
    "larger --grid model.widht=2": "'model.widht'; did you mean 'model.width'?",
    "larger --grid seed=0,1": "larger has no field 'seed'",
    "larger --grid model.width=2,,4": "--grid takes each field once with all its value",
    "larger --grid model.width=2,x": "model.width=x: --model.width takes INT, not 'x'",
    "larger --grid model.linear=true,maybe": "model.linear=maybe: --model.linear is Tr",
    "larger --grid model.depth=1 --model.depth=2": "--model.depth is in --grid, too; l",
    "larger --grid model.linear=true --model.no-linear": "--model.linear is in --grid",
    "larger --grid model.width=3 --model.depth 2": "no combination can be trained: e",
    "larger --grid model.width=2 --seeds=": "--seeds takes different numbers",
    "larger --grid model.width=2 --train.stpes 5": "unknown flag '--train.stpes'; did",
    "larger --grid model.width=2 --seed 1": "--seed is for one run; a sweep takes",
    "larger --grid model.width=2 --seeds 0,00": "--seeds takes different numbers",
    "larger --grid model.width=2 --max-minutes nan": "must be positive, got nan",
    "larger --grid model.width=2 --jobs 0": "--jobs must be at least 1, not 0",
    "larger --grid model.width=2 --run file": "file exists already; choose another",
    "--resume": "expected one argument",
    "--resume nowhere": "cannot read nowhere/config.json",
    "--resume run": "run is not a sweep; go on with a single run by",
    "--resume swept --data-dir here": "--data-dir: larger reads no data; leave it out",
    "--resume gone": "unknown preset 'gone' of larger (quick, three)",
    "--resume swept --run other": "--resume swept goes on with what that sweep is",
}


def test_words_that_cannot_be_get_one_line_and_change_nothing(larger, refused):
    Path("file").touch()
    described = {"task": "larger", "preset": "quick", "grid": {"model.width": ["2"]}}
    described |= {"seeds": [0], "words": [], "workers": 1}
    Run.create(".", "swept", described, {"command": "c"}, "swept")
    Run.create(".", "gone", described | {"preset": "gone"}, {"command": "c"}, "gone")
    Run.create(".", "run", {"task": "larger", "preset": "quick"}, {}, "run")
    before = contents()
    for words, says in BAD_WORDS.items():
        said = refused(sweep.main, *words.split())
        assert says in said, words
        assert contents() == before, words


def test_a_field_that_makes_no_difference_is_told():
    described = {"task": "language_modeling", "preset": "quick", "words": []}
    grid = {"model.core": ["rmc", "memn2n"], "model.hops": ["2", "3"]}
    found, notes = sweep.combinations(described | {"grid": grid})
    note = "model.hops is without effect on the core rmc"
    assert len(found) == 4 and notes == {note: 2}


@pytest.mark.slow
@pytest.mark.weekly
def test_every_tasks_grids_can_be():
    for name in discovery.task_files():
        kind = discovery.load_task(name).Task
        for grid, (text, preset, fields) in kind.grids.items():
            chosen, values = sweep.read_grid(kind, [grid])
            assert chosen == preset and text
            described = {"task": name, "preset": preset, "grid": values, "words": []}
            found, _ = sweep.combinations(described)
            assert len(found) == math.prod(map(len, fields.values())), (name, grid)


def test_runs_at_a_time_are_one_a_core_but_on_a_gpu(larger, monkeypatch, capsys):
    monkeypatch.setattr(sweep, "usable_cores", lambda: range(3))
    monkeypatch.setattr(sweep, "train", lambda cells, jobs: 0)
    for more, says in (
        ([], "2 runs, 2 to do, 2 at a time"),
        (["--init", "cuda/weights.npz"], "2 runs, 2 to do, 2 at a time"),
        (["--device", "cuda"], "2 runs, 2 to do, 1 at a time"),
    ):
        assert sweep.main(["larger", "--grid", "model.width=2,4", *more]) == 0
        assert says in capsys.readouterr().out


def test_few_runs_share_the_cores_as_far_as_a_run_can_use_them(larger, monkeypatch):
    monkeypatch.setattr(sweep, "usable_cores", lambda: range(16))
    given = []
    monkeypatch.setattr(sweep, "train", lambda cells, jobs: given.append(cells) or 0)
    words = ["larger", "--grid", "train.batch_size=4,32"]
    for more in [], ["--device", "cuda", "--jobs", "2"]:
        sweep.main([*words, *more])
    workers = [[cell.words[-2:] for cell in cells] for cells in given]
    assert workers == [
        [["--workers", "4"], ["--workers", "8"]],
        [["--workers", "1"], ["--workers", "1"]],
    ]


def test_what_comes_twice_is_trained_once(larger):
    grid = {"model.width": ["2", "4", "02"]}
    described = {"task": "larger", "preset": "quick", "words": [], "grid": grid}
    found, notes = sweep.combinations(described)
    assert len(found) == 2 and notes == {"the same as an earlier one": 1}


def test_a_named_grid_may_have_tuples():
    class Kind:
        grids = {"rooms": ("some", "quick", {"world.stages": (((5, 1, 0),), ())})}

    values = {"world.stages": ["5 1 0", ""]}
    assert sweep.read_grid(Kind, ["rooms"]) == ("quick", values)


def test_the_first_words_are_help(capsys):
    assert sweep.main([]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "usage: python -m tinyrmc sweep TASK [PRESET] --grid" in said
    with pytest.raises(UsageError, match="the first word must be a task"):
        sweep.main(["--jobs", "2"])
