"""Language models in training: a validation and a test text, perplexities, and data
that may move.
"""

import dataclasses
import math
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import tinylanguage
from tinylanguage import TEXTS, Task
from tinyruns import cut_short
from tinytasks import Config, Larger, assert_same_arrays, timeless

from tinyrmc.cli import evaluate, plot, report, train
from tinyrmc.training import discovery
from tinyrmc.training.loop import run_training
from tinyrmc.training.run import Run

FILE = tinylanguage.__file__
HELD_OUT = ["validation_loss", "validation_perplexity", "test_loss", "test_perplexity"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, which is the home too, with places for data."""
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


def test_the_first_set_is_watched_and_all_are_measured_at_the_end(
    make_trainer, new_run
):
    for workers in [1, 2, 3]:
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


def test_a_signal_ends_the_last_evaluation_at_once_and_it_is_made_up_for(
    make_trainer, new_run
):
    """All is saved by then."""
    for workers in [1, 2]:
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


class Two(Larger):
    splits = ("validation", "test")
    presets = {"tiny": ("two numbers", Config())}


def test_sets_of_fresh_examples_are_different_ones(make_trainer):
    one, two = make_trainer(Larger(Config())), make_trainer(Two(Config()))
    assert one.evaluate()["test_loss"] == two.evaluate()["validation_loss"]
    assert two.evaluate()["test_loss"] != two.evaluate()["validation_loss"]
    two.try_out()


def test_sets_may_differ_in_size(make_trainer, monkeypatch):
    sizes = {"validation": 20, "test": 50}
    monkeypatch.setattr(Two, "examples", lambda self, split: sizes[split])
    trainer = make_trainer(Two(Config()))
    trainer.try_out()
    for split, examples in (("validation", 20), ("test", 50)):
        sums = trainer.task.evaluate(trainer.model, split=split)
        assert sums["loss"][1] == examples


def test_sets_are_named_by_different_words():
    for splits in ["test", (), ("the_test",), ("",), ["test"]]:
        presets = {"tiny": ("two numbers", Config())}
        with pytest.raises(discovery.TaskError, match=r"Bad\.splits must be a tuple"):
            type("Bad", (Larger,), {"splits": splits, "presets": presets})


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

        def end(*_):
            if next(steps) == 6:
                signal.raise_signal(signal.SIGTERM)

        patch.setattr(discovery.load_task(FILE).Task, "after_update", end)
        assert train.main([FILE, "--data-dir", "data", "--run", "half"]) == 143
    shutil.move("data", "moved")
    assert train.main(["--resume", "half", "--data-dir", "moved"]) == 0
    half = Run.open("half")
    assert half.config["places"] == {"data_dir": "~/moved"}
    assert half.load()[1]["run"] == half.config
    assert_same_arrays(half.load()[0], whole.load()[0])
    assert timeless(half.metrics()) == timeless(whole.metrics())


def test_commands_find_data_that_have_moved(here, refused, capsys):
    trained("--data-dir", "data")
    shutil.move("data", "moved")
    capsys.readouterr()
    assert "no seed in" in refused(evaluate.main, "run")
    for main in [evaluate.main, plot.main, report.main]:
        assert main(["run", "--data-dir", "moved"]) == 0


def test_a_weights_file_does_not_tell_where_the_data_were(here, capsys):
    trained("--data-dir", "data")
    assert evaluate.main(["run", "--export", "weights.npz"]) == 0
    assert b"~/data" not in Path("weights.npz").read_bytes()
    assert evaluate.main(["weights.npz", "--data-dir", "data"]) == 0
