"""Why agents fail: counted as the task counts, and probes that find what is there."""

import box_why
import numpy as np
import pytest
from tinytasks import changed

from tinyrmc.training.discovery import load_task

box_world = load_task("box_world")


def test_moments_are_those_that_the_task_counts():
    config = changed(
        box_world.QUICK,
        model={"core": "lstm", "hidden_size": 8, "features": 8},
        world={"solution": (1, 2), "distractors": (0, 2), "room": 9, "stages": ()},
    )
    task = box_world.Task(config)
    task.test_examples = 48
    model, other = (task.build(np.random.SeedSequence(seed)) for seed in (0, 1))
    m = box_why.moments(task, model, other)
    results = task.results(model, 48, 96)
    last = m["end"] >= 0
    assert np.bincount(m["level"]).tolist() == results["length"].tolist()
    solved = np.bincount(m["level"][last], m["end"][last] == 0)
    assert solved.tolist() == results["solved"].tolist()
    assert (m["end"][last] == 2).any() and m["known"].any() and m["near"].any()
    assert not (m["near"] & ~m["known"]).any()
    assert {*m["in sight"][m["lock"] >= 0]} == {True, False}
    assert 0.2 < m["right"].mean() == pytest.approx(m["chance"].mean(), abs=0.06)
    assert m["memory"].shape == m["other"].shape == (len(m["level"]), 16)  # h, c
    assert np.abs(m["memory"] - m["other"]).max() > 0.01


def test_a_probe_finds_what_is_there_and_nothing_else():
    rng = np.random.default_rng(0)
    answers, learns = rng.integers(5, size=2000), rng.random(2000) < 0.75
    noise = rng.normal(size=(2000, 8))
    assert box_why.told(noise + np.eye(8)[answers] * 5, answers, learns) > 0.9
    assert box_why.told(noise, answers, learns) < 0.3
