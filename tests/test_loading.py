"""Files that training leaves come back as they were.

Or it is refused, by the name of the field that does not fit.
"""

import copy
import dataclasses
import itertools
import json
import re
import shutil

import numpy as np
import pytest
from tinyruns import fresh_directory
from tinytasks import assert_same_arrays, nth_farthest, relations

from tinyrmc import load
from tinyrmc.cli import evaluate, train
from tinyrmc.config import check_values, from_json, to_json
from tinyrmc.cores import DNCConfig, registry
from tinyrmc.errors import ConfigError, RunError
from tinyrmc.training.discovery import load_task
from tinyrmc.training.loop import run_training
from tinyrmc.training.run import Run, save_arrays
from tinyrmc.training.trainer import Trainer

babi = load_task("babi")


def test_a_configuration_comes_back_from_json():
    for _, config in nth_farthest.Task.presets.values():
        values = dataclasses.asdict(config)
        values["data"]["stages"] = [
            list(rung) for rung in values["data"]["stages"]
        ]  # as JSON has it
        assert from_json(nth_farthest.Config, values) == config


def test_a_configuration_of_another_version_names_the_field():
    for change, says in [
        (lambda values: values["train"].pop("steps"), r"config\.train\.steps is"),
        (lambda values: values["train"].update(steps=-1), r"config\.train cannot be"),
        (lambda values: values["train"].update(steps=10**400), r"config\.train\.steps"),
        (
            lambda values: values["data"].update(stages=[[2, 1], [2, "x"]]),
            r"stages must be \(\(an integer, an integer\), \.\.\.\), not \(\(2, 1\),",
        ),
    ]:
        values = dataclasses.asdict(nth_farthest.QUICK)
        change(values)
        with pytest.raises(RunError, match=says):
            from_json(nth_farthest.Config, values)


WRONG = [
    *(None, True, 0, -1, 0.5, 10**400, float("nan"), "x"),
    *([], [1], [[1, 10**400]], {}, {"a": 1}),
]


def places_in(values, *path):
    """The path of every field, and of every item of a list."""
    yield path
    inside = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in inside:
        if isinstance(value, dict | list):
            yield from places_in(value, *path, key)
        else:
            yield (*path, key)


def put(values, path, wrong):
    """A copy with something else in one place."""
    if not path:
        return wrong
    key, *rest = path
    changed = [*values] if isinstance(values, list) else dict(values)
    changed[key] = put(values[key], rest, wrong)
    return changed


@pytest.mark.slow
def test_a_wrong_value_anywhere_is_one_error_that_names_its_field():
    """Anything still taken is of the field's type, and comes back."""
    for name in ["nth_farthest", "babi"]:
        (_, usual), *_ = load_task(name).Task.presets.values()
        written = json.loads(json.dumps(to_json(usual)["config"]))
        accepted = 0
        for path, wrong in itertools.product(places_in(written), WRONG):
            values = put(written, path, wrong)
            try:
                config = from_json(type(usual), values)
            except ConfigError as error:
                assert str(error).startswith("config") and len(str(error)) < 250
            else:
                accepted += 1
                check_values(config)
                again = json.dumps(to_json(config)["config"])
                assert again == json.dumps(values) and str(10**400) not in again
        assert accepted


def test_a_place_may_stand_among_the_fields_and_is_a_text():
    values = dataclasses.asdict(babi.QUICK)
    assert from_json(babi.Config, values | {"data_dir": "a/b"}).data_dir == "a/b"
    with pytest.raises(ConfigError, match=r"config\.data_dir must be a text or None"):
        from_json(babi.Config, values | {"data_dir": 3})


def test_a_field_that_came_later_may_be_missing():
    values = dataclasses.asdict(nth_farthest.QUICK)
    for name in ("total_units", "layers"):
        values["model"].pop(name)
    for name in LATER:
        values["train"].pop(name)
    values["model"]["dnc"] = dataclasses.asdict(DNCConfig())  # as all runs had it
    assert from_json(nth_farthest.Config, values) == nth_farthest.QUICK
    values["model"]["dnc"]["word_size"] = 3  # of a core that it does not have
    assert from_json(nth_farthest.Config, values) != nth_farthest.QUICK


LATER = "optimizer momentum beta1 beta2 rms_decay epsilon".split()


def older(described):
    """A run's configuration, as it was written before some fields were there."""
    described = json.loads(json.dumps(described))
    for name in LATER:
        described["config"]["train"].pop(name)
    return described


def test_a_run_from_before_optimizers_could_be_chosen_goes_on(half):
    """With Adam, to the same bits."""
    shutil.copytree(half.path, "old")
    old = Run.open("old")
    arrays, state = old.load()
    (old.path / "config.json").write_text(json.dumps(older(old.config)))
    old.save(arrays, state | {"run": older(state["run"])})
    for path in ("half", "old"):
        assert train.main(["--resume", path]) == 0
    (new, _), (ours, state) = half.load(), Run.open("old").load()
    assert_same_arrays(ours, new)
    assert "optimizer" not in state["run"]["config"]["train"]
    assert load("old") is not None


def test_going_on_with_another_optimizer_is_refused(half, refused):
    says = "config.train.optimizer: 'adam' so far, 'sgd' asked for"
    words = "--resume", "half", "--train.optimizer", "sgd"
    assert says in refused(train.main, *words)


@pytest.mark.slow
def test_load_gives_the_trained_network():
    for core in registry.names():
        with fresh_directory() as tmp_path:
            task = relations(core)
            described = {
                "task": "nth_farthest",
                "preset": "quick",
                "seed": 3,
                **to_json(task.config),
            }
            run = Run.create(tmp_path, "run", described, {})
            trainer = Trainer(task, seed=3)
            run_training(trainer, run)
            inputs = task.draw(np.random.default_rng(0), 5)["inputs"]
            for path in (run.path, str(run.path), run.checkpoint):
                np.testing.assert_array_equal(
                    load(path)(inputs).data, trainer.model(inputs).data
                )


UNKNOWN = {
    "state": lambda arrays, state: state.update(new=1),
    "run": lambda arrays, state: state["run"].update(new=1),
    "config": lambda arrays, state: state["run"]["config"]["train"].update(new=1),
    "places": lambda arrays, state: state["run"].update(places={"new": None}),
    "task": lambda arrays, state: state["task"].update(new={"a": 1}),
    "array": lambda arrays, state: arrays.update({"new/x": np.ones(1)}),
    "parameter": lambda arrays, state: arrays.update({"parameters/new": np.ones(1)}),
    "constant": lambda arrays, state: arrays.update({"constants/new": np.ones(1)}),
}
# of what a network is not made of
RESUMED = {
    "stream": lambda arrays, state: state["stream"].update(new=1),
    "optimizer": lambda arrays, state: arrays.update({"optimizer/new": np.ones(1)}),
    "carry": lambda arrays, state: arrays.update({"carry/new": np.ones(1)}),
}


def test_a_key_that_is_unknown_is_refused(half, refused):
    """Nobody knows what it changes."""
    whole = half.load()
    for place, change in (UNKNOWN | RESUMED).items():
        arrays, state = copy.deepcopy(whole)
        change(arrays, state)
        save_arrays("new.npz", arrays, state)
        if place in UNKNOWN:
            with pytest.raises(RunError, match=r"\bnew\b"):
                load("new.npz")
        half.save(arrays, state)
        assert re.search(r"\bnew\b", refused(train.main, "--resume", "half")), place
    (half.path / "config.json").write_text(json.dumps(half.config | {"new": 1}))
    for main, *words in [train.main, "--resume"], [evaluate.main]:
        says = "config.json has a key 'new' that is unknown here; upgrade tinyrmc"
        assert says in refused(main, *words, "half")
