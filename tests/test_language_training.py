"""What language models ask of training: a validation and a test text, perplexities,
and data that may move.
"""

import dataclasses
import json
import math
import re
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import tinylanguage
from tinylanguage import TEXTS, Task
from tinyruns import contents, cut_short
from tinytasks import Config, Larger, assert_same_arrays, timeless

from tinyrmc import load
from tinyrmc.cli import commands, evaluate, plot, report, sweep, train
from tinyrmc.results.plotting import draw_run
from tinyrmc.results.progress import Progress
from tinyrmc.runs.run import Run
from tinyrmc.training import discovery
from tinyrmc.training.loop import run_training

FILE = tinylanguage.__file__
HELD_OUT = [
    "validation_loss",
    "validation_perplexity",
    "test_loss",
    "test_perplexity",
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, which is the home too, with places for data."""
    monkeypatch.setattr(train, "draw_run", lambda run: [])  # it takes a second
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.chdir(tmp_path)
    for name, seed in (("data", 0), ("other", 0), ("different", 5)):
        Path(name).mkdir()
        Path(name, "seed").write_text(str(seed))
    return tmp_path


def language(**settings):
    config = tinylanguage.Config()
    changed = dataclasses.replace(config.train, **settings)
    return Task(dataclasses.replace(config, train=changed))


def trained(*words, run="run"):
    assert train.main([FILE, *words, "--run", run]) == 0
    return Run.open(run)


def held_out(line):
    return [name for name in line if name in HELD_OUT]


# --- Held-out sets --------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_first_set_is_watched_and_all_are_measured_at_the_end(
    workers, make_trainer, new_run
):
    task = language()
    trainer, run = make_trainer(task, workers=workers), new_run(task)
    assert run_training(trainer, run) == "finished"
    lines = run.metrics()
    assert [line["step"] for line in lines] == [5, 10, 15, 20]
    assert [held_out(line) for line in lines] == [[], HELD_OUT[:2], [], HELD_OUT]
    alone = Task(task.config).evaluate(trainer.model, split="test")
    assert alone["loss"][1] == TEXTS["test"] - 1
    loss = alone["loss"][0] / alone["loss"][1]
    assert lines[-1]["test_loss"] == pytest.approx(loss, rel=1e-6)


def test_a_last_step_between_evaluations_gets_a_line_with_all(make_trainer, new_run):
    """Also right after a line of metrics, where there are no means to sum up."""
    for settings in ({"steps": 18}, {"steps": 15}):
        task = language(**settings)
        trainer, run = make_trainer(task), new_run(task)
        run_training(trainer, run)
        last = run.metrics()[-1]
        assert held_out(last) == HELD_OUT and last["step"] == settings["steps"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_ends_the_last_evaluation_at_once_and_it_is_made_up_for(
    workers, make_trainer, new_run
):
    """All is saved by then."""
    task = language(steps=18)
    reached, evaluating = [], task.evaluate

    def evaluate(model, worker=0, *others):
        if trainer.step == 18 and worker == 0 and not reached:
            signal.raise_signal(signal.SIGTERM)
            reached.append(worker)
        return evaluating(model, worker, *others)

    task.evaluate = evaluate
    trainer, run = make_trainer(task, workers=workers), new_run(task)
    assert run_training(trainer, run) == "SIGTERM"
    assert reached == [] and held_out(run.metrics()[-1]) == []
    arrays, state = run.load()
    again = make_trainer(language(steps=18), workers=workers)
    again.restore(arrays, state)
    assert run_training(again, run) == "finished"
    assert held_out(run.metrics()[-1]) == HELD_OUT and again.step == 18


def test_out_of_time_where_only_one_set_was_measured(
    make_trainer, new_run, monkeypatch
):
    task = language()
    trainer, run = make_trainer(task), new_run(task)
    clock = "tinyrmc.training.loop.time.monotonic"
    monkeypatch.setattr(clock, lambda: 0.0 if trainer.step < 9 else 1e9)
    assert run_training(trainer, run, max_minutes=1) == "time"
    at_end = [line for line in run.metrics() if line["step"] == 10]
    assert [held_out(line) for line in at_end] == [HELD_OUT[:2], HELD_OUT]


def test_a_task_that_ends_a_run_by_itself_has_all_sets_in_the_last_line(
    make_trainer, new_run
):
    class Patient(Task):
        done = False

        def observe(self, step, metrics):
            self.done = step == 10

        def finished(self, step):
            return self.done or super().finished(step)

    task = Patient(tinylanguage.Config())
    trainer, run = make_trainer(task), new_run(task)
    run_training(trainer, run)
    assert held_out(run.metrics()[-1]) == HELD_OUT and trainer.step == 10


def test_sets_of_fresh_examples_are_different_ones(make_trainer):
    class Two(Larger):
        splits = ("validation", "test")
        presets = {"tiny": ("two numbers", Config())}

    one, two = make_trainer(Larger(Config())), make_trainer(Two(Config()))
    assert one.evaluate()["test_loss"] == two.evaluate()["validation_loss"]
    assert two.evaluate()["test_loss"] != two.evaluate()["validation_loss"]
    two.require_metrics()


def test_sets_may_differ_in_size(make_trainer):
    class Two(Larger):
        splits = ("validation", "test")
        presets = {"tiny": ("two numbers", Config())}

        def examples(self, split):
            return {"validation": 20, "test": 50}[split]

    trainer = make_trainer(Two(Config()))
    trainer.require_metrics()
    for split, examples in (("validation", 20), ("test", 50)):
        sums = trainer.task.evaluate(trainer.model, split=split)
        assert sums["loss"][1] == examples
    with pytest.raises(
        discovery.TaskError, match=r"Bad.examples must take \(self, split\)"
    ):
        type("Bad", (Two,), {"examples": 20})


def test_who_has_one_set_is_not_told_which(make_trainer, new_run):
    class Own(Larger):
        presets = {"tiny": ("two numbers", Config())}

        def evaluate(self, model, worker=0, workers=1, xp=np):
            return {"loss": (1.0, 2), "accuracy": (3, 4)} if worker == 0 else {}

    task = Own(Config())
    trainer, run = make_trainer(task), new_run(task)
    trainer.require_metrics()
    run_training(trainer, run)
    last = run.metrics()[-1]
    assert (last["test_loss"], last["test_accuracy"]) == (0.5, 0.75)
    assert (task.watched, task.result) == ("test_accuracy", "test_accuracy")


def test_references_must_be_of_metrics_that_there_are(make_trainer):
    class Two(Larger):
        splits = ("validation", "test")
        presets = {"tiny": ("two numbers", Config())}

        def references(self):
            return {"tset_accuracy": {"guessing": 0.5}}

    with pytest.raises(
        discovery.TaskError, match=r"tset_accuracy.*validation_accuracy"
    ):
        make_trainer(Two(Config())).require_metrics()


@pytest.mark.parametrize(
    "splits", ["test", (), ("test", "test"), ("the_test",), ("",), (1,), ["test"]]
)
def test_sets_are_named_by_different_words(splits):
    presets = {"tiny": ("two numbers", Config())}
    with pytest.raises(discovery.TaskError, match=r"Bad\.splits must be a tuple"):
        type("Bad", (Larger,), {"splits": splits, "presets": presets})


@pytest.mark.parametrize("name", ["held_out", "evaluate"])
def test_who_has_several_sets_must_hear_which_is_meant(name):
    methods = {
        "splits": ("validation", "test"),
        "presets": {"tiny": ("two numbers", Config())},
        name: lambda self: None,
    }
    with pytest.raises(
        discovery.TaskError, match=rf"Bad.{name} must take \(self, .*split"
    ):
        type("Bad", (Larger,), methods)


def test_less_is_better_on_every_set():
    task = language()
    lower = ["loss", "perplexity", "test_loss", "validation_perplexity"]
    assert all(task.lower_is_better(name) for name in lower)
    higher = ["accuracy", "test_accuracy", "best_batch_loss", "own_loss"]
    assert not any(task.lower_is_better(name) for name in higher)


def test_a_resumed_run_with_all_steps_done_is_evaluated_on_all_sets(here):
    run = trained()
    lines = timeless(run.metrics())
    cut_short(run, len(lines) - 1)
    assert train.main(["--resume", "run"]) == 0
    again = timeless(run.metrics())
    assert len(again) == len(lines)
    assert {name: again[-1][name] for name in HELD_OUT} == {
        name: lines[-1][name] for name in HELD_OUT
    }


# --- What is reported of means --------------------------------------------------------


def test_perplexity_is_that_of_the_mean_loss(make_trainer):
    trainer = make_trainer(language(), workers=2)
    losses = []
    for _ in range(3):
        before = dict(trainer.window.sums)
        trainer.advance()
        now, then = trainer.window.sums["loss"], before.get("loss", (0, 0))
        losses.append(float(now[0] - then[0]) / (now[1] - then[1]))
    line = trainer.read(test=True)
    assert line["perplexity"] == pytest.approx(math.exp(np.mean(losses)))
    assert line["perplexity"] != pytest.approx(np.mean(np.exp(losses)), rel=1e-6)
    assert line["validation_perplexity"] == math.exp(line["validation_loss"])


def test_a_floor_is_passed_from_above(capsys):
    progress = Progress(language())
    for step, value in ((10, 7.5), (20, 6.5), (30, 2.0)):
        progress.line({"step": step, "validation_perplexity": value, "loss": 1.0})
    said = [line for line in capsys.readouterr().out.splitlines() if "/20" not in line]
    assert said == [
        "step      20  validation perplexity 6.50: past the floor 'guessing', 7.00",
        "step      30  validation perplexity 2.00: past the result "
        '"paper\'s RMC", 2.50',
    ]


# --- What a run tells -----------------------------------------------------------------


def test_a_run_says_what_is_measured_and_what_comes_next(here, capsys):
    trained()
    said = capsys.readouterr().out
    every = "every 10 steps"
    assert f"\n  measured  validation perplexity (lower is better), {every}\n" in said
    assert '\ngenerate  python -m tinyrmc generate run "The"\n' in said.replace(
        f"{commands.python()} ", "python "
    )
    assert "resume" not in said  # there is nothing left to do
    trained("--max-minutes", "1e-9", run="cut")
    assert re.search(r"^resume    .* --resume cut$", capsys.readouterr().out, re.M)


def test_a_run_that_diverges_ends_as_others_do(here, capsys, monkeypatch):
    """Without a picture, for it has no number that could be drawn."""
    monkeypatch.setattr(train, "draw_run", draw_run)
    words = ["--train.learning-rate", "1e5", "--train.clip-norm", "1e9"]
    run = trained(*words)
    assert run.metrics()[-1]["test_perplexity"] is None
    out = capsys.readouterr().out
    assert [*re.findall(r"^(\w+) perplexity +not finite", out, re.M)] == [*Task.splits]
    assert "picture   none: no validation perplexity was finite\nevaluate  " in out


@pytest.mark.parametrize(
    "seconds, says",
    [
        (0.2, ""),
        (3.0, "measuring on validation and test, about 0:06\n"),
        (None, "measuring on validation and test\n"),
    ],
)
def test_a_last_evaluation_that_takes_long_is_announced(
    seconds, says, make_trainer, new_run, monkeypatch, capsys
):
    """The clock stands still but for the evaluations, which take so many seconds."""
    now, task = [0.0], language()
    if seconds is None:
        task = language(evaluate_every=50)
    trainer, run = make_trainer(task), new_run(task)
    evaluate = trainer.evaluate

    def slowly(splits=None):
        now[0] += seconds or 9.0
        return evaluate(splits)

    monkeypatch.setattr(trainer, "evaluate", slowly)
    monkeypatch.setattr("tinyrmc.training.loop.time.monotonic", lambda: now[0])
    run_training(trainer, run, show=Progress(task))
    said = capsys.readouterr().out.splitlines(keepends=True)
    assert "".join(line for line in said if line.startswith("measuring")) == says


def test_an_evaluation_that_takes_long_says_that_more_will_come(
    here, monkeypatch, capsys
):
    trained()
    capsys.readouterr()
    assert evaluate.main(["run"]) == 0 and capsys.readouterr().err == ""
    monkeypatch.setattr(evaluate, "LONG", 0.0)
    assert evaluate.main(["run", "--metrics-only"]) == 0
    assert capsys.readouterr().err == ""
    assert evaluate.main(["run", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) and err == (
        "examining it further, which --metrics-only leaves out\n"
    )


def test_each_examination_is_named_before_it_begins_and_explained(
    here, monkeypatch, capsys
):
    trained()
    explained = {
        "By word frequency": "of rare words",
        "By unroll length": "of stretches",
    }
    begun = []

    def examinations(self, model):
        for name, table in examined(self, model):
            begun.append(capsys.readouterr().err)
            yield name, table

    task = discovery.load_task(FILE).Task
    examined = task.examinations
    monkeypatch.setattr(task, "examinations", examinations)
    monkeypatch.setattr(task, "examines", explained)
    monkeypatch.setattr(evaluate, "LONG", 0.0)
    capsys.readouterr()
    assert evaluate.main(["run", "--json"]) == 0
    assert begun == [
        "examining it further, which --metrics-only leaves out\n"
        "  By word frequency: of rare words\n  By unroll length: of stretches\n"
        "1 of 2: By word frequency\n",
        "2 of 2: By unroll length\n",
    ]
    # one more than explained comes too
    monkeypatch.setattr(task, "examines", {"By word frequency": "of rare words"})
    monkeypatch.setattr(task, "examinations", examined)
    assert evaluate.main(["run"]) == 0
    headings = capsys.readouterr().out.split("\n\n")[1::2]
    assert headings == ["By word frequency: of rare words", "By unroll length"]


# --- Where the data are ---------------------------------------------------------------


def test_a_place_is_kept_apart_and_absolute(here, tmp_path_factory):
    run = trained("--data-dir", "data")
    assert run.config["places"] == {"data_dir": "~/data"}
    assert "data_dir" not in run.config["config"]
    far = tmp_path_factory.mktemp("far")
    shutil.copy("data/seed", far)
    assert trained("--data-dir", str(far), run="b").config["places"] == {
        "data_dir": str(far)
    }
    assert trained(run="c").config["places"] == {"data_dir": None}


def test_a_run_goes_on_with_its_data_elsewhere(here):
    whole = trained("--data-dir", "data", run="whole")
    with pytest.MonkeyPatch.context() as patch:
        steps = iter(range(100))
        module = discovery.load_task(FILE)
        patch.setattr(
            module.Task,
            "after_update",
            lambda *_: (
                signal.raise_signal(signal.SIGTERM) if next(steps) == 6 else None
            ),
        )
        assert train.main([FILE, "--data-dir", "data", "--run", "half"]) == 143
    shutil.move("data", "moved")
    assert train.main(["--resume", "half", "--data-dir", "moved"]) == 0
    half = Run.open("half")
    assert half.config["places"] == {"data_dir": "~/moved"}
    assert half.load()[1]["run"] == half.config
    assert_same_arrays(half.load()[0], whole.load()[0])
    assert timeless(half.metrics()) == timeless(whole.metrics())


@pytest.mark.parametrize("main", [evaluate.main, plot.main, report.main])
def test_commands_find_data_that_have_moved(main, here, refused, capsys):
    trained("--data-dir", "data")
    shutil.move("data", "moved")
    capsys.readouterr()
    if main is evaluate.main:
        assert "no seed in" in refused(main, "run")
    assert main(["run", "--data-dir", "moved"]) == 0


def test_evaluation_reads_the_data_that_it_is_told(here, capsys):
    trained("--data-dir", "data")

    def perplexity(*words):
        capsys.readouterr()
        assert evaluate.main(["run", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out)["test_perplexity"]

    assert perplexity() == perplexity("--data-dir", "other")
    assert perplexity() != perplexity("--data-dir", "different")
    assert load("run", data_dir="other").num_parameters == 56


def test_a_weights_file_does_not_tell_where_the_data_were(here, capsys):
    trained("--data-dir", "data")
    assert evaluate.main(["run", "--export", "weights.npz"]) == 0
    assert b"~/data" not in Path("weights.npz").read_bytes()
    assert evaluate.main(["weights.npz", "--data-dir", "data"]) == 0


def test_a_task_without_data_has_no_place_for_them(half, refused):
    said = refused(evaluate.main, half.path, "--data-dir", ".")
    assert said == "--data-dir .: nth_farthest reads no data; leave it out"


def test_runs_are_the_same_wherever_their_data_lie(here, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest"])  # whatever files it was given
    for seed, place in enumerate(("data", "other")):
        trained("--data-dir", place, "--seed", str(seed), run=f"runs/{place}")
    capsys.readouterr()
    assert report.main(["runs", "--out", "results.md"]) == 0
    (group,) = json.loads(Path("results.json").read_text())["groups"]
    assert len(group["runs"]) == 2 and group["label"] == "quick"
    assert "data" not in Path("results.md").read_text() + json.dumps(
        [run["command"] for run in group["runs"]]
    )


def test_a_sweep_takes_its_data_along(here, capsys):
    words = ["--seeds", "0,1", "--jobs", "2", "--run", "sweep"]
    grid = ["--grid", "model.core=rmc,lstm"]
    assert sweep.main([FILE, *grid, *words, "--data-dir", "data"]) == 0
    assert Run.open("sweep").config["places"] == {"data_dir": "~/data"}
    cells = [path for path in Path("sweep").iterdir() if path.is_dir()]
    assert [Run.open(cell).config["places"] for cell in cells] == [
        {"data_dir": "~/data"}
    ] * 4
    shutil.move("data", "moved")
    before = {path: contents(path) for path in cells}
    capsys.readouterr()
    assert sweep.main(["--resume", "sweep", "--data-dir", "moved"]) == 0
    assert {path: contents(path) for path in cells} == before
    text, kept = capsys.readouterr().out, Path("sweep/results.json").read_text()
    groups = json.loads(kept)["groups"]
    assert [group["label"] for group in groups] == ["model.core rmc", "model.core lstm"]
    for group in groups:
        mean = sum(run["validation_perplexity"] for run in group["runs"]) / 2
        assert f"{mean:.2f}" in text
    assert "%" not in text and "moved" not in kept and "~/data" not in kept


def test_a_sweep_says_which_of_its_runs_diverged(here, capsys):
    words = ["--train.clip-norm", "1e9", "--workers", "1", "--run", "sweep"]
    grid = ["--grid", "train.learning_rate=1e5,0.01"]
    assert sweep.main([FILE, *grid, *words]) == 0
    out = capsys.readouterr().out
    assert "learning_rate 1e5, seed 0: validation perplexity not finite, 20 st" in out
    assert "train.learning_rate 0.01" in out


def test_a_flag_says_where_the_data_are(here, capsys):
    with pytest.raises(SystemExit):
        train.main([FILE, "--help"])
    assert "--data-dir PATH|None" in capsys.readouterr().out
