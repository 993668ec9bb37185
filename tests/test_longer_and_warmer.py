"""Runs that go on for longer, or begin with the weights of others; and what is measured
at their end, and when.
"""

import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tinytasks
from tinyruns import TINY, assert_same_run, evaluated, nth_farthest

import tinyrmc
from tinyrmc import cores
from tinyrmc.cli import evaluate, report, train
from tinyrmc.training import TrainConfig, loop
from tinyrmc.training.run import Run


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nth_farthest.Task, "test_examples", 64)
    return tmp_path


def trained(name, steps, *words):
    assert train.main([*TINY, "--run", name, "--train.steps", str(steps), *words]) == 0
    return Run.open(name)


def longer(name, steps, *words):
    words = ["--resume", name, "--train.steps", str(steps), *words]
    assert train.main(words) == 0
    return Run.open(name)


# --- Longer ---------------------------------------------------------------------------


@pytest.mark.parametrize("first", [7, 10, 12])
def test_an_extended_run_is_the_longer_run(first, here, capsys):
    """Bit for bit, where the schedule is the same so far: warm-up, and a plateau."""
    whole = trained("whole", 20)
    trained("short", first)
    capsys.readouterr()
    again = longer("short", 20)
    out = capsys.readouterr().out
    assert f"note: 20 steps instead of {first}; schedules are those" in out
    rates = [line["learning_rate"] for line in whole.metrics()]
    assert [line["learning_rate"] for line in again.metrics()] == rates
    arrays, state = again.load()
    expected, said = whole.load()
    for name in expected:
        np.testing.assert_array_equal(arrays[name], expected[name])
    assert state["run"] == again.config
    assert again.config == whole.config | {"extended": [first]}
    again = longer("short", 25)
    assert again.config["extended"] == [first, 20]
    assert said["step"] == 20 and again.load()[1]["step"] == 25


def test_a_cosine_is_that_of_the_longer_run(here, capsys):
    trained("run", 12, "--train.cosine-fraction", "0.5", "--train.warmup-steps", "0")
    capsys.readouterr()
    run = longer("run", 30)
    note = capsys.readouterr().out.splitlines()[0]
    assert note.endswith("the next learning rate is 0.003, the last one was 0.000201")
    assert [line["learning_rate"] for line in run.metrics()][-1] < 1e-4


def test_a_run_that_was_killed_while_it_was_extended_goes_on(here):
    """config.json is new then, and the checkpoint of before."""
    trained("run", 10)
    shutil.copytree("run", "before")
    whole = longer("run", 20)
    shutil.copy("run/config.json", "before/config.json")
    assert train.main(["--resume", "before"]) == 0
    assert_same_run(Run.open("before"), whole)


def test_what_cannot_be_extended_is_refused(here, refused):
    trained("run", 10)
    says = refused(train.main, "--resume", "run", "--train.steps", "9")
    assert "--train.steps 9: run has done 10" in says
    words = "--train.steps", "20", "--train.batch-size", "4"
    says = refused(train.main, "--resume", "run", *words)
    assert "config.train.batch_size: 8 so far, 4 asked for" in says
    assert "goes with a new run" in refused(
        train.main, "--resume", "run", "--init", "run"
    )
    config = json.loads((here / "run/config.json").read_text())
    config["config"]["train"]["steps"] = 20  # without a word of what was
    (here / "run/config.json").write_text(json.dumps(config))
    says = refused(train.main, "--resume", "run")
    assert "config.train.steps: 10 so far, 20 asked for" in says


# --- Warmer ---------------------------------------------------------------------------


def parameters(run):
    arrays, _ = run.load()
    return {k: x for k, x in arrays.items() if k.startswith("parameters/")}


@pytest.mark.slow
def test_a_new_run_begins_with_the_weights_of_another(here, capsys, monkeypatch):
    """All of them: a learning rate of nearly zero leaves them where they were."""
    still = "--train.learning-rate", "1e-30", "--seed", "5"
    first = trained("first", 10)
    assert evaluate.main(["first", "--export", "first.npz", "--json"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("HOME", str(here))  # as a report writes it
    sources = "first", "first.npz", "first/checkpoint.npz", "~/first.npz"
    for number, source in enumerate(sources):
        warm = trained(f"warm{number}", 3, "--init", source, *still)
        out = capsys.readouterr().out
        source = source.replace("~", str(here))
        assert f"init: 28 of 28 parameters from {source}\n" in out
        for name, x in parameters(first).items():
            np.testing.assert_array_equal(parameters(warm)[name], x)
        assert Path(warm.config["init"]).expanduser() == here / source
        assert warm.config["seed"] == 5
        assert warm.load()[1]["step"] == 3
    assert train.main(["--resume", "warm0"]) == 0  # finished, and still what it is
    assert longer("warm0", 6).config["init"] == "~/first"


def test_what_was_not_taken_is_named(here, capsys):
    trained("first", 5)
    capsys.readouterr()
    wider = trained("wider", 2, "--init", "first", "--model.attention-mlp-layers", "3")
    out = capsys.readouterr().out
    assert "init: 28 of 30 parameters from first\n" in out
    assert "not taken: core.mlp.2.weight, none there, (2, 2) here\n" in out
    was = "other settings: core was RelationalMemory(input_size=14, mem_slots=2, head_"
    assert was in out
    assert parameters(wider).keys() > parameters(Run.open("first")).keys()
    other = trained("other", 2, "--init", "first", "--model.head-size", "3")
    out = capsys.readouterr().out
    assert "not taken: core.mlp.0.weight, (2, 2) there, (3, 3) here\n" in out
    assert other.config["init"].endswith("first")


@pytest.mark.slow
def test_a_first_memory_that_was_drawn_goes_with_the_weights(here, capsys, refused):
    """Bit for bit, from a run, from one of before checkpoints held it, and a file; the
    new run, on workers too, keeps it when it goes on.
    """
    still = "--model.core", "rmc_paper", "--train.learning-rate", "1e-30"
    first = trained("first", 3, *still)
    assert evaluate.main(["first", "--export", "first.npz", "--json"]) == 0
    capsys.readouterr()
    expected = evaluated(capsys, "first")
    memory = tinyrmc.load("first").core.first.value
    arrays, state = first.load()
    old = {name: x for name, x in arrays.items() if "constants/" not in name}
    assert arrays.keys() - old.keys() == {"constants/core.first"}
    Run.open(shutil.copytree(first.path, "old")).save(old, state, instead=True)
    assert evaluated(capsys, "old") == expected
    for source in "first", "old", "first.npz":
        words = *still, "--init", source, "--seed", "5", "--workers", "2"
        warm = trained(f"of {source}", 3, *words)
        assert "taken too: core.first, which was drawn" in capsys.readouterr().out
        found = evaluated(capsys, f"of {source}")
        assert found["test_loss"] == expected["test_loss"]
        np.testing.assert_array_equal(warm.load()[0]["constants/core.first"], memory)
    whole, again = trained("whole", 6, *words), longer("of first.npz", 6)
    for name, x in whole.load()[0].items():
        np.testing.assert_array_equal(again.load()[0][name], x)
    trained("wider", 2, *still, "--init", "first", "--model.mem-slots", "3")
    says = capsys.readouterr().out
    assert "not taken: core.first, (2, 2) there, (3, 2) here" in says
    wrong = arrays | {"constants/core.first": np.zeros((5, 2), np.float32)}
    Run.open("old").save(wrong, state, instead=True)
    assert "has shape (2, 2), the array (5, 2)" in refused(evaluate.main, "old")


def test_weights_that_fit_nowhere_make_no_run(here, refused):
    tinyrmc.save(cores.LSTM(2, 3, seed=0), "core.npz")
    says = refused(train.main, *TINY, "--run", "run", "--init", "core.npz")
    assert "no parameter has a name and shape of this network; there are" in says
    says = refused(train.main, *TINY, "--run", "run", "--init", "nowhere")
    assert "cannot read nowhere" in says
    assert [path.name for path in here.iterdir()] == ["core.npz"]


# --- Measuring ------------------------------------------------------------------------


def test_some_sets_alone_are_measured(here, capsys, refused):
    trained("run", 5)
    capsys.readouterr()
    found = evaluated(capsys, "run", "--splits", "test")
    assert found == evaluated(capsys, "run")
    says = refused(evaluate.main, "run", "--splits", "validation")
    assert "--splits validation: nth_farthest has test" in says


def test_a_run_may_end_without_being_measured(here, capsys, refused):
    run = trained("run", 7, "--no-final-evaluation")
    out = capsys.readouterr().out
    assert "not measured at the end" in out and "evaluate" in out
    assert "\nplot " not in out and "tinyrmc.train --resume run\n" in out
    assert not any("test_accuracy" in line for line in run.metrics())
    says = refused(report.main, "run")  # and names what the end named
    assert "not been evaluated yet: python -m tinyrmc.train --resume run)" in says
    assert train.main(["--resume", "run"]) == 0  # measures what is missing
    assert "test_accuracy" in run.metrics()[-1]
    capsys.readouterr()
    assert train.main(["--resume", "run"]) == 0
    assert "has finished already" in capsys.readouterr().out


class Slow(tinytasks.Larger):
    """Each step takes a second, each evaluation ten, by a clock of its own."""

    clock = 0.0

    def after_update(self, model):
        Slow.clock += 1

    def evaluate(self, *arguments):
        Slow.clock += 10
        return super().evaluate(*arguments)


@pytest.mark.parametrize(
    "every, final, steps, took, planned",
    [
        (20, True, 39, 59, 10),  # known since step 20; 40 would be measured, too
        (20, False, 41, 61, None),
        (500, True, 60, 60, 512),  # judged by a step it takes 512: more than a minute
        (500, False, 60, 60, None),
    ],
)
def test_measuring_at_the_end_counts(
    every, final, steps, took, planned, make_trainer, new_run, monkeypatch
):
    Slow.clock, told = 0.0, []
    clock = SimpleNamespace(monotonic=lambda: Slow.clock)
    monkeypatch.setattr(loop, "time", clock)

    class Hears(loop.Listener):
        def planning(self, seconds, limit):
            told.append((seconds, limit))

    train = TrainConfig(1000, 8, log_every=10, evaluate_every=every)
    trainer = make_trainer(Slow(tinytasks.Config(train)), processes=False)
    end = loop.run_training(trainer, new_run(), 1, Hears(), final=final)
    assert (end, trainer.step, Slow.clock) == ("time", steps, took)
    first = planned if every == 500 or planned is None else 512
    assert told == ([] if first is None else [(pytest.approx(first), 60)])


def test_tensorboard_reads_the_lines_of_metrics(here):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    trained("run", 12, "--log", "tensorboard")
    (path,) = here.glob("run/events*")
    path.rename(f"{path}.first")  # a name has whole seconds
    run = longer("run", 16)  # and goes on with it
    paths, found = sorted(here.glob("run/events*")), {}
    data = b"".join(path.read_bytes() for path in paths)
    while data:  # a length and its checksum, an event and its checksum
        end = 12 + int.from_bytes(data[:8], "little")
        event = Event.FromString(data[12:end])
        found |= {(v.tag, event.step): v.simple_value for v in event.summary.value}
        data = data[end + 4 :]
    lines = {line["step"]: line for line in run.metrics()}
    told = {(name, k): x for k, line in lines.items() for name, x in line.items()}
    told = {where: x for where, x in told.items() if not isinstance(x, str)}
    found = {where: x for where, x in found.items() if where[1] in lines}  # 12 is gone
    assert found == pytest.approx(told, rel=1e-6)


def test_without_tensorboard_the_remedy_is_named(here, refused, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    says = refused(train.main, *TINY, "--log", "tensorboard")
    assert "--log tensorboard needs tensorboardX; pip install 'tinyrmc[tens" in says
    path = trained("run", 7).path / "environment.json"  # on a machine that had it
    path.write_text(path.read_text().replace('"metrics"', '"tensorboard"'))
    says = refused(train.main, "--resume", "run", "--train.steps", "10")
    assert says.startswith("--log tensorboard needs tensorboardX")
    assert longer("run", 10, "--log", "metrics").metrics()[-1]["step"] == 10
