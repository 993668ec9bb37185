"""Why agents fail: counted as the task counts."""

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
    model = task.build(np.random.SeedSequence(0))
    m = box_why.moments(task, model)
    results = task.results(model, 48, 96)
    last = m["end"] >= 0
    assert np.bincount(m["level"]).tolist() == results["length"].tolist()
    solved = np.bincount(m["level"][last], m["end"][last] == 0)
    assert solved.tolist() == results["solved"].tolist()
    assert (m["end"][last] == 2).any() and m["known"].any() and m["near"].any()
    assert not (m["near"] & ~m["known"]).any()
    assert 0.2 < m["right"].mean() == pytest.approx(m["chance"].mean(), abs=0.06)
