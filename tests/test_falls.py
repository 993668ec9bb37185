"""What benchmarks/falls.py measures of an update, against sums by hand."""

import math
from dataclasses import replace

import falls
import numpy as np
import pytest
import report


@pytest.fixture(scope="module")
def config():
    quick = falls.box_world.QUICK
    model = replace(quick.model, core="feedforward", features=8)
    train = replace(quick.train, batch_size=6, piece_size=3)
    world = replace(quick.world, limit=10)
    agent = replace(quick.agent, unroll=4)
    return replace(quick, model=model, train=train, world=world, agent=agent)


def test_the_divergence_is_its_definition():
    before, after = np.random.default_rng(0).normal(size=(2, 5, 3, 4))
    for old, new, found in zip(
        before.reshape(-1, 4),
        after.reshape(-1, 4),
        falls.divergence(before, after).ravel(),
        strict=True,
    ):
        p, q = ([math.exp(x) / sum(map(math.exp, z)) for x in z] for z in (old, new))
        by_hand = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        assert found == pytest.approx(by_hand, rel=1e-9)
    np.testing.assert_array_equal(falls.divergence(before, before), 0)


def test_branches_begin_where_the_run_was_and_differ_in_what_they_say(config):
    found = falls.measured(config, starts=(2, 3), updates=10)
    assert [(x["start"], x["numbers"], x["rate"]) for x in found] == [
        (start, numbers, rate)
        for start in (2, 3)
        for numbers in falls.NUMBERS
        for rate in falls.RATES
    ]
    for full, quarter in zip(found[::2], found[1::2], strict=True):
        assert 0 < quarter["moved"][0] < full["moved"][0] / 2
        assert 0 < quarter["change"][0] < full["change"][0]
    for branches in found[::2], found[1::2]:  # other numbers, other trajectories
        assert len({x["moved"][0] for x in branches}) == len(branches)
    # the run itself is what the branches with its own numbers and rate are
    trainer = falls.Trainer(falls.Task(config), seed=0)
    run = [falls.update(trainer) for _ in range(13)]
    for its_own, alone in (found[0], run[2:12]), (found[len(found) // 2], run[3:]):
        solved, ended, change, moved = np.sum(alone, axis=0)
        assert its_own["solved"] == pytest.approx([solved / ended], rel=1e-3)
        assert its_own["change"] == pytest.approx([change / 10], rel=1e-3)
        assert its_own["moved"] == pytest.approx([moved / 10], rel=1e-3)


def test_the_table_has_a_row_for_each_start_and_rate():
    branch = {"solved": [0.5, 0.25], "change": [0.1, 0.2], "moved": [1.0, 3.0]}
    found = [
        branch | {"start": 590, "rate": rate, "numbers": numbers}
        for numbers in (None, 7)
        for rate in (1.0, 0.25)
    ]
    _, *rows = report.PARTS["falls"](found)
    assert rows == [
        ["590", name, "25 %, 25 %", "0.2000, 0.2000", "2.000, 2.000"]
        for name in ("the preset's", "times 0.25")
    ]
