"""Sweeps: which runs a grid makes, that they are the runs of the train command, what
becomes of those that fail, and who gets how long.
"""

import contextlib
import json
import math
import random
import re
import shutil
import signal
import statistics
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
from owntask import dropped_in
from tinyruns import assert_same_run, contents, cut_short

from tinyrmc.cli import sweep, train
from tinyrmc.cli.commands import run_main
from tinyrmc.errors import RunError, UserError
from tinyrmc.results import sweeps
from tinyrmc.runs.run import Run
from tinyrmc.training import discovery, processes

GRID = ["--grid", "model.width=2,4", "model.depth=1,2"]


@pytest.fixture
def larger(monkeypatch, tmp_path):
    """The task, in an empty current directory, with runs that are trained in this
    process, one after the other.
    """
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(processes, "ThreadPoolExecutor", AtOnce)
    monkeypatch.setattr(processes, "run_logged", in_this_process)
    monkeypatch.setattr(processes, "_signal", 0)
    return dropped_in(monkeypatch, tmp_path / "tasks")


class AtOnce:
    """An executor that has done what is submitted."""

    def __init__(self, workers):
        self.workers, self.open = workers, True

    def submit(self, function, *words):
        assert self.open
        done = Future()
        done.set_result(processes.run_logged(*words))
        return done

    def shutdown(self):
        self.open = False


def in_this_process(words, log):
    """What `processes.run_logged` does, without a process."""
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
    """Run a sweep; the sweep's directory as a Run, and what results.json says."""
    assert sweep.main([*map(str, words)]) == code
    (path,) = (
        [*Path("runs").glob("*-sweep-*")]
        if Path("runs").exists()
        else [Path(words[words.index("--resume") + 1])]
    )
    return Run.open(path), json.loads((path / "results.json").read_text())


def rows_of(found):
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in sweeps.markdown(found).strip().splitlines()
    ]
    return [dict(zip(head, row, strict=True)) for row in rows]


# --- What is trained ------------------------------------------------------------------


def test_every_combination_under_every_seed_is_a_run_of_the_train_command(
    larger, capsys
):
    run, found = swept(
        "larger",
        *GRID,
        "--seeds",
        "0,3",
        "--train.batch-size",
        "8",
        "--jobs",
        "2",
        "--workers",
        "1",
    )
    cells = sorted(
        (path for path in run.path.iterdir() if path.is_dir()),
        key=lambda path: (path / "config.json").stat().st_mtime_ns,
    )
    assert [path.name for path in cells] == [
        f"model.width={width},model.depth={depth},seed={seed}"
        for seed in (0, 3)
        for width in (2, 4)
        for depth in (1, 2)
    ]  # one seed of all comes before the next
    for path in cells:
        config = Run.open(path).config
        model = config["config"]["model"]
        values = f"model.width={model['width']},model.depth={model['depth']}"
        assert path.name == f"{values},seed={config['seed']}"
        assert (
            config["config"]["train"]["batch_size"] == 8
            and config["task"] == "larger"
            and config["preset"] == "quick"
        )
    words = [
        "larger",
        "--model.width",
        "4",
        "--model.depth",
        "2",
        "--train.batch-size",
        "8",
        "--seed",
        "3",
    ]
    assert train.main([*words, "--run", "alone", "--workers", "1"]) == 0
    assert_same_run(Run.open(cells[-1]), Run.open("alone"))
    assert (
        "larger quick: 2 x 2 values, 2 seeds: 8 runs\n  to do     8 runs, 2 at a "
        "time, 1 worker each\n" in capsys.readouterr().out
    )

    last = {path.name: Run.open(path).metrics()[-1]["test_accuracy"] for path in cells}
    for combination, row in zip(found["combinations"], rows_of(found), strict=True):
        name = ",".join(
            f"{field}={value}" for field, value in combination["values"].items()
        )
        values = [last[f"{name},seed={seed}"] for seed in (0, 3)]
        assert (
            combination["group"]["mean"]["test_accuracy"] == statistics.fmean(values)
            and combination["notes"] == []
        )
        assert row["model.width"], row["model.depth"] == combination["values"].values()
        shown = [
            row[column] for column in ("test accuracy, mean", "lowest", "top", "steps")
        ]
        assert shown == [
            f"{100 * value:.1f} %"
            for value in (statistics.fmean(values), min(values), max(values))
        ] + ["20"]
        assert (
            row["success: at least 80.0 %"]
            == f"{sum(value >= 0.8 for value in values)} of 2"
        )
    before, shown, after = (
        (run.path / "results.md").read_text().partition(sweeps.markdown(found))
    )
    assert (
        before
        == "larger quick, --train.batch-size 8, seeds 0, 3; beside it: guessing "
        "50.0 %, paper (wide) 99.0 %.\n\n"
        and shown
    )
    assert re.fullmatch(r"\n`.+` on .+, 1 worker\.\n", after)
    assert all(
        (run.path / name).read_bytes().startswith(b"\x89PNG")
        for name in ("results.png", "results_curves.png")
    )
    assert sum(1 for _ in run.path.glob("*.log")) == 8


def test_a_grid_with_a_name_brings_its_preset(larger, capsys):
    run, found = swept("larger", "--grid", "widths")
    assert (
        "larger three: 2 x 1 values, 1 seed: 2 runs\n  to do     2 runs, "
        in capsys.readouterr().out
    )
    assert run.config["preset"] == "three" and sweeps.varied(found) == ["model.width"]
    assert sweeps.caption(found) == "larger three, model.depth 1, seed 0"
    assert sorted(path.name for path in run.path.glob("*.log")) == [
        f"model.width={n},model.depth=1,seed=0.log" for n in (2, 4)
    ]


def test_fields_may_be_true_or_false_or_of_several_numbers(larger):
    run, _ = swept(
        "larger",
        "--grid",
        "model.linear=true,false",
        "model.shape=1 2,3",
        "--train.steps",
        "5",
        "--train.evaluate-every",
        "5",
    )
    models = [
        Run.open(path).config["config"]["model"]
        for path in run.path.iterdir()
        if path.is_dir()
    ]
    assert {(model["linear"], tuple(model["shape"])) for model in models} == {
        (a, b) for a in (True, False) for b in ((1, 2), (3,))
    }


def test_floors_that_differ_are_not_drawn_through_all_panels(larger, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "tinyrmc.results.figures.curve_grid",
        lambda panels, references, *_: drawn.append(references),
    )
    run, _ = swept("larger", "--grid", "numbers=2,3")
    assert (run.path / "results.md").read_text().startswith("larger quick, seed 0.\n")
    run.path.rename("other")
    swept("larger", "--grid", "model.width=2,4")
    assert drawn == [{}, {"guessing": 0.5, "paper (wide)": 0.99}]


def test_the_picture_has_a_line_for_the_first_field_over_the_second(
    larger, monkeypatch
):
    seen = []
    monkeypatch.setattr(
        "tinyrmc.results.figures.value_grid", lambda *words: seen.append(words)
    )
    _, found = swept(
        "larger",
        *GRID,
        "model.linear=true,false",
        "--seeds",
        "0,1",
        "--train.steps",
        "10",
    )
    ((panels, references, metric, field, _, title, cores),) = seen
    assert (metric, field, title, cores) == (
        "test_accuracy",
        "depth",
        sweeps.caption(found),
        None,
    )
    assert references == {"guessing": 0.5, "paper (wide)": 0.99} and list(panels) == [
        "linear true",
        "linear false",
    ]
    sizes = {
        2: 2 * 2 + 2 + 2 * 2 + 2,
        4: 2 * 4 + 4 + 4 * 2 + 2,
    }  # of one hidden layer; a second has width * width + width more
    assert list(panels["linear true"]) == [
        "width 2: 6 parameters",
        "width 4: 6 parameters",
    ]
    assert list(panels["linear false"]) == [
        f"width {n}: {size} to {size + n * n + n} parameters"
        for n, size in sizes.items()
    ]
    for combination in found["combinations"]:
        values = combination["values"]
        panel = panels[f"linear {values['model.linear']}"]
        (line,) = (
            line
            for name, line in panel.items()
            if name.startswith(f"width {values['model.width']}:")
        )
        assert line[values["model.depth"]] == (
            [run["test_accuracy"] for run in combination["group"]["runs"]],
            True,
        )


def test_what_is_missing_or_was_cut_short_is_not_whole(larger, monkeypatch):
    seen = []
    monkeypatch.setattr(
        "tinyrmc.results.figures.value_grid",
        lambda panels, *words: seen.append(panels[""][next(iter(panels[""]))]),
    )
    run, _ = swept("larger", "--grid", "model.width=2,4,8,3", "--seeds", "0,1")
    for name in ("2,seed=1", "3,seed=0", "3,seed=1"):
        shutil.rmtree(run.path / f"model.width={name}")
    cut_short(Run.open(run.path / "model.width=4,seed=0"), 2)
    swept("--show", run.path)
    assert {
        value: cell and (len(cell.values), cell.whole)
        for value, cell in seen[-1].items()
    } == {
        "2": (1, False),
        "4": (2, False),
        "8": (2, True),
        "3": None,
    }


# --- What does not go well ------------------------------------------------------------


def ends_by_itself(larger, monkeypatch, step=10):
    """The task ends its runs once a line of this step was observed."""

    def observe(self, at, metrics):
        self.ended = at >= step

    def finished(self, at):
        return self.ended or at >= self.config.train.steps

    state = {
        "ended": False,
        "observe": observe,
        "finished": finished,
        "state": lambda self: {"ended": self.ended},
        "load_state": lambda self, state: setattr(self, "ended", state["ended"]),
    }
    for name, value in state.items():
        monkeypatch.setattr(larger.Task, name, value, raising=False)


def test_a_run_that_its_task_has_ended_is_whole(larger, monkeypatch, capsys):
    """With no budget it would else be started again, for ever."""
    ends_by_itself(larger, monkeypatch)
    trained, train_it = [], processes.run_logged

    def once(words, log):
        trained.append(log)
        assert len(trained) <= 2, "a run that has ended was started again"
        return train_it(words, log)

    monkeypatch.setattr(processes, "run_logged", once)
    run, found = swept("larger", "--grid", "model.width=2,4", "--workers", "1")
    out = capsys.readouterr().out
    assert len(trained) == 2 and "10 steps in" in out
    assert "cut by the budget" not in out and "--resume" not in out
    assert [row["steps"] for row in rows_of(found)] == ["10", "10"]
    for combination in found["combinations"]:
        (one,) = combination["group"]["runs"]
        assert one["finished"] is True and sweeps._in_the_end(combination).whole
    swept("--resume", run.path)
    assert len(trained) == 2 and "to do     0 runs" in capsys.readouterr().out


def test_a_run_that_ended_untested_is_evaluated(larger, monkeypatch):
    """It was stopped after its end, in the evaluation on all held-out examples."""
    monkeypatch.setattr(larger.Task, "splits", ("validation", "test"))
    ends_by_itself(larger, monkeypatch)
    run, _ = swept("larger", "--grid", "model.width=2", "--workers", "1")
    cell = Run.open(run.path / "model.width=2,seed=0")
    assert len(cell.metrics()) == 3 and "test_accuracy" in cell.metrics()[-1]
    cut_short(cell, 2)
    swept("--resume", run.path)
    assert "test_accuracy" in cell.metrics()[-1]


def test_failures_and_combinations_that_cannot_be_are_told_and_others_go_on(
    larger, capsys
):
    grid = [
        "--grid",
        "train.learning_rate=1e30,0.01",
        "model.depth=1,2",
        "model.width=3,4",
    ]
    run, found = swept("larger", *grid, "--train.steps", "200", code=1)
    rows = {
        (row["train.learning_rate"], row["model.depth"], row["model.width"]): row
        for row in rows_of(found)
    }
    for rate in ("1e30", "0.01"):
        row = rows[rate, "2", "3"]
        assert (
            row["test accuracy, mean"] == "not run"
            and row["notes"]
            == "cannot be: model.width 3 is no multiple of model.depth 2"
        )
    says = (
        r"seed 0 failed: stopped at step \d+: .* Start again with a smaller "
        r"--train.learning-rate\."
    )
    assert re.fullmatch(says, rows["1e30", "1", "4"]["notes"])
    assert (
        rows["0.01", "1", "4"]["steps"] == "200"
        and rows["0.01", "1", "4"]["notes"] == ""
    )
    out = capsys.readouterr().out
    assert (
        "6 runs; 2 combinations cannot be" in out
        and out.count(": failed: stopped at step") == 3
    )
    assert f"--resume {run.path}" in out
    again, told = swept("--show", run.path)
    assert told == found and again.path == run.path


def test_a_process_that_dies_without_a_word_is_told(larger, monkeypatch):
    for code, says in (
        (-9, "ended by SIGKILL (out of memory?)"),
        (1, "exit code 1; see model.width=4,seed=0.log"),
    ):
        monkeypatch.setattr(
            processes,
            "run_logged",
            lambda words, log, code=code: (
                Path(log).write_text("Traceback\nOops: no\n") and code
            ),
        )
        assert (
            sweep.main(["larger", "--grid", "model.width=4", "--run", f"swept{code}"])
            == 1
        )
        found = json.loads(Path(f"swept{code}/results.json").read_text())
        assert (
            found["combinations"][0]["notes"] == [f"seed 0 failed: {says}"]
            and not Path(f"swept{code}/results.png").exists()
        )


def test_where_no_run_can_begin_no_more_are_tried(larger, monkeypatch, capsys):
    """A text that is not there, say: one error, and not one for each of 1,000 runs."""
    tried = []

    def cannot(words, log):
        tried.append(log)
        Path(log).write_text("error: the text is not here\n")
        return 2

    monkeypatch.setattr(processes, "run_logged", cannot)
    grid = ["--grid", "model.width=2,4,6,8,10", "--jobs", "1", "--run", "hopeless"]
    with pytest.raises(UserError, match=r"^no run can begin: the text is not here$"):
        sweep.main(["larger", *grid])
    assert len(tried) == 3
    monkeypatch.setattr(processes, "run_logged", in_this_process)
    _, found = swept("--resume", "hopeless")
    assert len(rows_of(found)) == 5 and all(row["steps"] for row in rows_of(found))


def test_show_tells_what_there_is_by_now(larger, monkeypatch, capsys):
    monkeypatch.setattr(
        processes,
        "run_logged",
        lambda words, log: -9 if "width=4" in log else in_this_process(words, log),
    )
    run, _ = swept("larger", "--grid", "model.width=2,4", code=1)
    (run.path / "model.width=4,seed=0.log").unlink()  # as if it had not come to that
    before = {
        path: value for path, value in contents().items() if "results" not in path.name
    }
    capsys.readouterr()
    assert (
        sweep.main(
            [
                "--show",
                str(run.path),
                "--out",
                "elsewhere/table.md",
                "--against",
                "hours",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert re.search("^ *4 +not run$", out, re.M)
    assert re.search("^ *4 +seed 0 not run$", out, re.M)
    assert out.endswith(
        "elsewhere/table.md\nelsewhere/table.json\nelsewhere/table.png\nelsewhere/table_curves.png\n"
    )
    after = {
        path: value
        for path, value in contents().items()
        if "results" not in path.name and "elsewhere" not in str(path)
    }
    assert after == before


def test_a_run_that_was_stopped_before_its_first_evaluation_is_not_called_not_run():
    combination = {"values": {"width": "2"}, "notes": ["seed 0 not evaluated yet"]}
    found = {"grid": {"width": ["2", "4"]}, "combinations": []}
    for begun in (False, True):
        more = {"begun": begun, "idle": {}, "group": None}
        found["combinations"] = [{**combination, **more}]
        _, row = sweeps.table(found)
        assert row[:2] == ["2", "" if begun else "not run"]


def test_of_many_combinations_those_that_were_begun_are_shown(
    larger, monkeypatch, capsys
):
    """Stopped in its second run of 2 x 30: it would be 58 times "not run" otherwise."""
    drawn = []

    def until_ctrl_c(words, log):
        code = in_this_process(words, log)
        if "numbers=3" in log:
            processes._signal = signal.SIGINT
        return code

    monkeypatch.setattr(processes, "run_logged", until_ctrl_c)
    for name in "value_grid", "curve_grid":
        monkeypatch.setattr(
            f"tinyrmc.results.figures.{name}", lambda *words: drawn.append(words)
        )
    grid = ["model.width=2,4,6,8,3", "model.depth=1,2", "numbers=2,3,4"]
    words = ["--grid", *grid, "--seeds", "0,1", "--jobs", "1", "--run", "swept"]
    assert sweep.main(["larger", *words]) == 130
    out = capsys.readouterr().out
    says = "28 of 30 combinations not run; 3 of them cannot be"
    assert out.count("seed 1 not run") == 2 and f"\n\n{says}\n\nswept/" in out
    assert out.endswith("tinyrmc sweep --resume swept\n")  # below all else
    assert sweep.main(["--show", "swept"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 40
    text = Path("swept/results.md").read_text()
    assert text.count("not run") == 3 and f"\n{says}.\n" in text
    title = "larger quick, model.width 2, model.depth 1, seeds 0, 1"
    assert len(drawn) == 4
    for panels, *others in drawn:
        assert title in others and [*panels] == [""] and len(panels[""]) == 1


def test_the_run_of_another_combination_or_seed_is_not_taken_for_its_own(
    larger, capsys
):
    run, _ = swept("larger", "--grid", "model.width=2,4", "--seeds", "0,1")
    for wrong, says in (
        ("model.width=4,seed=0", "config.model.width: 4 so far, 2 asked"),
        ("model.width=2,seed=1", "seed: 1 so far, 0 asked"),
    ):
        shutil.rmtree(run.path / "model.width=2,seed=0")
        shutil.copytree(run.path / wrong, run.path / "model.width=2,seed=0")
        for flag in "--show", "--resume":
            with pytest.raises(RunError, match=re.escape(says)):
                sweep.main([flag, str(run.path)])


# --- The budget -----------------------------------------------------------------------


def test_a_run_that_the_budget_cuts_says_so_and_goes_on_bit_for_bit(larger, capsys):
    run, found = swept(
        "larger",
        "--grid",
        "model.width=2,4",
        "--budget-minutes",
        "1e-9",
        "--workers",
        "1",
    )
    assert [row["steps"] for row in rows_of(found)] == ["1 of 20"] * 2
    out = capsys.readouterr().out
    assert "1 step of 20, cut by the budget," in out
    (command,) = re.findall(r"-m tinyrmc sweep (--resume .*)", out)
    _, found = swept(*command.split())
    assert [row["steps"] for row in rows_of(found)] == ["20"] * 2
    for width in (2, 4):
        assert (
            train.main(
                [
                    "larger",
                    "--model.width",
                    str(width),
                    "--run",
                    f"alone{width}",
                    "--workers",
                    "1",
                ]
            )
            == 0
        )
        assert_same_run(
            Run.open(run.path / f"model.width={width},seed=0"),
            Run.open(f"alone{width}"),
        )
    before = {
        path: value for path, value in contents().items() if "results" not in path.name
    }
    capsys.readouterr()
    swept(*command.split())
    assert "to do     0 runs" in capsys.readouterr().out
    assert {
        path: value for path, value in contents().items() if "results" not in path.name
    } == before


def test_what_some_do_not_need_of_the_budget_goes_on_with_those_that_were_cut(
    larger, monkeypatch
):
    """Of 60 minutes each of three has 20.

    The first two would need 25, the third needs 1: so there are 19 left, of which they
    need 10.
    """
    now, given, needs = [0.0], [], {"2": 25.0, "4": 25.0, "8": 1.0}
    monkeypatch.setattr(sweep.time, "monotonic", lambda: 60 * now[0])

    def train_for(words, log):
        *words, _, minutes = words
        width = re.search(
            r"model.width[= ](\d)",
            " ".join(words).replace("model.width ", "model.width="),
        )[1]
        given.append((width, float(minutes)))
        spent = min(float(minutes), needs[width])
        now[0], needs[width] = now[0] + spent, needs[width] - spent
        with monkeypatch.context() as patch:
            patch.setattr(
                sweep.time, "monotonic", time.perf_counter
            )  # the same module as the training loop's
            return in_this_process(
                [*words, *(["--max-minutes", "1e-9"] if needs[width] else [])], log
            )

    monkeypatch.setattr(processes, "run_logged", train_for)
    _, found = swept(
        "larger", "--grid", "model.width=2,4,8", "--budget-minutes", "60", "--jobs", "1"
    )
    assert given == [("2", 20), ("4", 20), ("8", 20), ("2", 9.5), ("4", 14)]
    assert [row["steps"] for row in rows_of(found)] == ["20"] * 3


def test_what_starts_and_last_evaluations_take_comes_out_of_the_budget(monkeypatch):
    """Five in turn, 50 minutes, and a minute more for each than it was given: the first
    cannot know, the others share what it leaves.
    """
    now = [7.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: 60 * now[0])
    budget, given = sweep.Budget(50), []
    for k in range(5):
        cell = sweeps.Cell({}, k, [], Path(str(k)))
        given.append(float(budget.limit(cell, 5 - k)[1]))
        now[0] += given[-1] + 1
        budget.ended(cell)
    assert given == pytest.approx([10, *[(50 - 11) / 4 - 1] * 4]) and now[
        0
    ] == pytest.approx(57)
    assert (
        sweep.Budget(None).limit(cell, 1) == []
        and sweep.Budget(None).left() == math.inf
    )


def test_a_run_that_was_killed_before_it_saved_anything_starts_again(larger):
    run, _ = swept("larger", "--grid", "model.width=2")
    cell = run.path / "model.width=2,seed=0"
    for name in ("checkpoint.npz", "checkpoint.previous.npz", "metrics.jsonl"):
        (cell / name).unlink()
    (cell / "environment.json").write_text('{"old": true}')
    swept("--resume", run.path)
    assert (
        Run.open(cell).metrics()[-1]["step"] == 20
        and "old" not in Run.open(cell).environment
    )


def test_a_trained_run_whose_configuration_is_gone_is_kept_and_told(larger, capsys):
    run, _ = swept("larger", "--grid", "model.width=2,4")
    cell = run.path / "model.width=2,seed=0"
    (cell / "config.json").unlink()
    before = contents(cell)
    _, found = swept("--resume", run.path, code=1)
    assert contents(cell) == before
    told = f"cannot read {cell / 'config.json'}: No such file or directory; restore it"
    assert f"failed: {told}\n" in capsys.readouterr().out
    assert rows_of(found)[0]["notes"] == f"seed 0 failed: {told}"


class Clock:
    """Time that passes while runs are waited for: each takes what it needs, or what it
    is given if that is less.
    """

    def __init__(self, needs, budget):
        self.needs, self.budget, self.now, self.ends, self.given = (
            needs,
            budget,
            0.0,
            {},
            [],
        )

    def words_of(self, k, turns):
        given = (self.budget - self.now) / turns
        self.given.append(given)
        return min(given, self.needs[k]), k

    def submit(self, _, minutes, k):
        future = Future()
        self.ends[future] = self.now + minutes
        return future

    def wait(self, running, timeout, return_when):
        first = min(running, key=self.ends.get)
        self.now = self.ends[first]
        first.set_result(0)
        return type("Waited", (), {"done": {first}})

    def shutdown(self):
        pass


@pytest.mark.parametrize(
    "number, places", [(18, 4), (4, 4), (3, 4), (5, 4), (7, 1), (54, 5)]
)
@pytest.mark.parametrize("kind", ["long", "short", "mixed"])
def test_the_budget_is_shared_fairly_and_kept(number, places, kind, monkeypatch):
    rng = random.Random(number)
    needs = {
        "long": [1e9] * number,
        "short": [0.01] * number,
        "mixed": [rng.choice([0.1, 5, 1e9]) for _ in range(number)],
    }[kind]
    clock = Clock(needs, 60.0)
    monkeypatch.setattr(processes, "ThreadPoolExecutor", lambda count: clock)
    monkeypatch.setattr(processes, "wait", clock.wait)
    ended = [k for k, code in processes.Places(places).run(number, clock.words_of)]
    assert sorted(ended) == [*range(number)] and clock.now <= 60 * (1 + 1e-9)
    fair = 60 / math.ceil(number / places)
    assert min(clock.given) >= fair * (1 - 1e-9)
    if kind == "long":
        assert clock.given == pytest.approx(
            [fair] * number
        ) and clock.now == pytest.approx(60)
    if kind == "mixed" and number == 18:
        assert max(clock.given) > 1.5 * fair  # what some did not need goes to others


def test_after_each_run_a_sweep_says_how_long_the_rest_will_take(monkeypatch):
    clock = iter([100.0, 700.0, 1900.0])
    monkeypatch.setattr(sweep.time, "monotonic", lambda: next(clock))
    budget = sweep.Budget(None)
    assert budget.to_go(2, 6) == "; about 20:00 to go"
    assert budget.to_go(3, 4) == "; about 10:00 to go"
    assert budget.to_go(4, 4) == ""


def test_a_sweep_with_a_budget_says_so_once_and_no_more(larger, capsys):
    swept("larger", "--grid", "model.width=2,4", "--jobs", "1")
    first, second = re.findall(r"^[12]/2  .*$", capsys.readouterr().out, re.MULTILINE)
    assert re.search(r"; about \d+:\d\d to go$", first) and " to go" not in second
    budget = "--budget-minutes", "9", "--run", "another"
    assert sweep.main(["larger", "--grid", "model.width=2,4", *budget]) == 0
    assert " to go" not in capsys.readouterr().out


# --- Words that cannot be -------------------------------------------------------------

BAD_WORDS = [
    ("lager", "unknown task 'lager' (tasks: larger); did you mean 'larger'?"),
    (
        "larger quik --grid model.width=2",
        "unknown preset 'quik' of larger (quick, three); did you mean 'quick'?",
    ),
    (
        "larger",
        "give a grid of fields and values, as in --grid model.mem_slots=1,8 "
        "model.num_heads=1,8; or one that has a name: widths",
    ),
    ("larger --grid", "expected at least one argument"),
    ("--grid model.width=2", "the first word must be a task"),
    (
        "larger --grid model.widht=2,4",
        "'model.widht'; its --help-all lists them; did you mean 'model.width'?",
    ),
    ("larger --grid seed=0,1", "larger has no field 'seed'"),
    (
        "larger --grid width",
        "there is no grid named 'width' (widths); did you mean 'widths'?",
    ),
    (
        "larger --grid model.width=",
        "--grid 'model.width=': a value is empty; give FIELD=VALUE,VALUE",
    ),
    ("larger --grid model.width=2,,4", "--grid 'model.width=2,,4': a value is empty"),
    (
        "larger --grid model.width=2 model.depth",
        "--grid 'model.depth': a value is empty",
    ),
    (
        "larger --grid model.width=2 model.width=4",
        "--grid names model.width twice; give all its values at once, as in "
        "model.width=2,4",
    ),
    (
        "larger --grid model.width=2,4,02",
        "--grid names the same value twice: model.width=2,02",
    ),
    (
        "larger --grid model.width=2,x",
        "--grid model.width=x: --model.width takes INT, not 'x'",
    ),
    (
        "larger --grid model.width=2,0 model.depth=1,2",
        "--grid model.width=0: model.width and model.depth must be at least 1",
    ),
    (
        "larger --grid model.width=3 model.depth=2",
        "--grid model.width=3: model.width 3 is no multiple of model.depth 2",
    ),
    (
        "larger --grid model.linear=maybe",
        "--grid: model.linear is one of true, false, not 'maybe'",
    ),
    (
        "larger --grid model.width=2 --train.stpes 5",
        "unknown flag '--train.stpes'; did you mean '--train.steps'?",
    ),
    (
        "larger --grid model.width=2 --model.width 4",
        "--grid gives model.width its values, and so does --model.width; leave one",
    ),
    (
        "larger --grid model.linear=true --model.no-linear",
        "--grid gives model.linear its values, and so does --model.no-linear",
    ),
    ("larger --grid model.width=2 --train.steps x", "--train.steps takes INT, not 'x'"),
    (
        "larger --grid model.width=2 --seed 1",
        "--seed is for a single run; a sweep takes --seeds",
    ),
    (
        "larger --grid model.width=2 --max-minutes 1",
        "--max-minutes is for a single run; a sweep takes --budget-minutes",
    ),
    (
        "larger --grid model.width=2 --seeds 0,a",
        "--seeds takes different numbers with commas between them, as in 0,1,2, not "
        "'0,a'",
    ),
    ("larger --grid model.width=2 --seeds 1,1", "--seeds takes different numbers"),
    ("larger --grid model.width=2 --seeds 0,00", "--seeds takes different numbers"),
    (
        "larger --grid model.width=2 --budget-minutes 0",
        "--budget-minutes: must be positive, not 0",
    ),
    (
        "larger --grid model.width=2 --budget-minutes nan",
        "--budget-minutes: must be positive, not nan",
    ),
    ("larger --grid model.width=2 --jobs x", "--jobs: invalid int value: 'x'"),
    (
        "larger --grid model.width=2 --run file",
        "file exists already; choose another --run",
    ),
    (
        "larger --grid model.width=2 --out file.md",
        "--out file.md: file.json exists and is no table that this command wrote",
    ),
    (
        "larger --grid model.width=2 --out table.txt",
        "--out table.txt: give a name that ends in .md",
    ),
    ("--resume", "expected one argument"),
    ("--resume nowhere", "cannot read nowhere/config.json"),
    ("--resume run", "run is not a sweep; go on with a single run by"),
    (
        "--resume swept --show swept",
        "--resume trains and --show does not; give one of them",
    ),
    ("--resume swept --run other", "--run other goes with a new sweep"),
    (
        "--resume swept --grid model.width=2,8",
        "has another configuration: grid.model.width: ['2'] so far, ['2', "
        "'8'] asked for",
    ),
    (
        "larger three --resume swept",
        "swept has another configuration: preset: 'quick' so far, 'three' asked for",
    ),
    (
        "--resume swept --seeds 0,1",
        "swept has another configuration: seeds: [0] so far, [0, 1] asked for",
    ),
    (
        "--resume swept --train.steps 7",
        "swept has another configuration: words: [] so far",
    ),
]


def test_words_that_cannot_be_get_one_line_and_change_nothing(
    larger, capsys, monkeypatch
):
    Path("file").touch()
    Path("file.json").write_text("[]")
    described = {
        "task": "larger",
        "preset": "quick",
        "grid": {"model.width": ["2"]},
        "seeds": [0],
        "words": [],
        "workers": 1,
    }
    Run.create(".", "swept", described, {"command": "c"}, "swept")
    Run.create(
        ".",
        "run",
        {"task": "larger", "preset": "quick", "seed": 0, "config": {}},
        {},
        "run",
    )
    before = contents()
    for words, says in BAD_WORDS:
        with pytest.raises(SystemExit) as caught:
            run_main(lambda words=words: sweep.main(words.split()))
        err = capsys.readouterr().err
        assert (
            caught.value.code == 2
            and err.startswith("error: ")
            and err.count("\n") == 1
            and says in err
        ), (words, err)
        assert contents() == before, words


@pytest.mark.parametrize(
    "words, says",
    [
        ("--grid hops", None),  # brings its preset, a memory network
        ("quick --grid hops", "hops=2,3,4,5,6,7: model.hops is without effect on the "),
        ("quick --grid model.dnc.clip=1,2", "model.dnc.clip is without effect on the"),
        ("quick --grid model.core=rmc,memn2n model.hops=2,3", None),
        ("quick --grid plateau.patience=1,2", "is without effect without plateau.fac"),
        ("quick --grid model.hops=3 model.mem_slots=1,2", None),
    ],
)
def test_a_grid_that_would_train_the_same_network_again_is_refused(
    words, says, monkeypatch
):
    monkeypatch.setattr(sweep, "_train", lambda *_: sys.exit("trained"))
    with pytest.raises(UserError if says else SystemExit, match=says or "trained"):
        sweep.main(["language_modeling", *words.split()])


def test_the_table_says_where_a_field_makes_no_difference(empty_directory, capsys):
    grid = {"model.core": ["rmc", "memn2n"], "model.hops": ["2", "3"]}
    described = {"task": "language_modeling", "preset": "quick", "words": []}
    described |= {"grid": grid, "seeds": [0], "workers": 1}
    Run.create(".", "swept", described, {"command": "c"}, "swept")
    assert sweep.main(["--show", "swept"]) == 0
    rows = capsys.readouterr().out.splitlines()
    note = "model.hops is without effect on the core rmc"
    assert [note in row for row in rows if "not run" in row] == [True] * 2 + [False] * 2


def test_an_earlier_sweep_of_the_same_network_is_shown_all_the_same(empty_directory):
    words, grid = {"preset": "quick", "words": []}, {"model.hops": ["2", "3"]}
    described = {"task": "language_modeling", "grid": grid, "seeds": [0], "workers": 1}
    Run.create(".", "swept", described | words, {"command": "c"}, "swept")
    assert sweep.main(["--show", "swept"]) == 0


def test_the_first_words_are_help(capsys):
    assert sweep.main([]) == 0
    for words in ([], ["--help"], ["-h"]):
        if words:
            with pytest.raises(SystemExit) as caught:
                sweep.main(words)
            assert caught.value.code == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "usage: python -m tinyrmc sweep TASK [PRESET] --grid" in said
        assert "for all runs (default: where the task looks for them)" in said


@pytest.mark.parametrize("name", discovery.task_files())
def test_every_tasks_grids_can_be(name):
    kind = discovery.load_task(name).Task
    for grid, (text, preset, fields) in kind.grids.items():
        read = sweep.read_grid(kind, [grid])
        assert read[0] == preset and text
        found = sweep.combinations(
            {"task": name, "preset": preset, "grid": read[1], "words": []}
        )
        assert [each.refusal for each in found] == [None] * math.prod(
            map(len, fields.values())
        )


def test_a_named_grid_may_have_tuples():
    class Kind:
        grids = {"rooms": ("some", "quick", {"world.stages": (((5, 1, 0),), ())})}

    assert sweep.read_grid(Kind, ["rooms"]) == (
        "quick",
        {"world.stages": ["5 1 0", ""]},
    )
