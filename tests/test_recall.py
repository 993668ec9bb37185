"""The task recall: its examples by hand, its floor, and that a memory learns it."""

from dataclasses import replace

import numpy as np
import pytest
from turns import in_turn, rarely

from tinyrmc.training.discovery import load_task

recall = load_task("recall")
PRESETS = recall.Task.presets


def answers(inputs, data):
    """The values asked for, of one sequence (T, width), with a dict."""
    known, key, found = {}, None, []
    for x in inputs:
        symbols = np.flatnonzero(x[: data.keys]).tolist()
        values = np.flatnonzero(x[data.keys : -1]).tolist()
        if x[-1]:
            (key,) = symbols
            assert not values
            found.append(known[key])
            continue
        assert len(symbols) + len(values) == 1 + data.together
        if symbols:
            (key,) = symbols
        if values:
            (known[key],) = values
    return found


@in_turn("name", PRESETS)
def test_the_answers_are_those_of_a_dict(name):
    data = PRESETS[name][1].data
    rng = np.random.default_rng(0)
    for pairs in range(1, data.pairs + 1):
        batch = recall.draw(rng, 50, data, pairs)
        for x, target in zip(batch["inputs"], batch["target"], strict=True):
            assert answers(x, data) == target.tolist()
            assert len(target) == min(pairs, data.questions)
        shown = batch["inputs"][..., data.keys : -1].sum(axis=1)
        assert (shown <= 1).all() and (shown.sum(axis=1) == pairs).all()
    assert batch["inputs"].dtype == np.float32


@in_turn("name", PRESETS)
def test_the_floors_are_what_the_last_value_gets_and_any_of_the_key(name):
    task = recall.Task(PRESETS[name][1])
    data = task.config.data
    batch = task.draw(np.random.default_rng(1), 20_000)
    stride = 1 if data.together else 2
    last = batch["inputs"][:, stride * data.pairs - 1, data.keys : -1].argmax(axis=-1)
    floor, *more = task.references()["test_accuracy"].values()
    assert abs((batch["target"] == last[:, None]).mean() - floor) < 0.01
    assert len(more) == data.rewrites
    for floor in more:  # of n values by chance
        pairs, asked = np.split(batch["inputs"][..., : data.keys], [data.pairs], axis=1)
        assert abs((1 / (asked @ pairs.swapaxes(1, 2)).sum(-1)).mean() - floor) < 0.01


def test_training_batches_have_fewer_pairs_and_held_out_ones_all():
    task = recall.Task(PRESETS["quick"][1])
    stream = task.stream(None, seed=0)
    lengths = [len(stream.batch(step, 0, 4)["inputs"][0]) for step in range(40)]
    assert {*lengths} == {2, 4, 6, 8}
    assert task.draw(np.random.default_rng(0), 3)["inputs"].shape == (3, 8, 17)


@pytest.mark.slow
@pytest.mark.parametrize("core", [*rarely(["delta", "transformer"])])
def test_a_memory_learns_it(core, make_trainer):
    config = PRESETS["quick"][1]
    model = replace(config.model, core=core, hidden_size=64)
    train = replace(config.train, steps=600, batch_size=32, learning_rate=5e-3)
    trainer = make_trainer(
        recall.Task(replace(config, model=model, train=train)), seed=0
    )
    for _ in range(600):
        trainer.advance()
    assert trainer.evaluate()["test_accuracy"] > 0.9
