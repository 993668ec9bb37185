"""Why agents fail: counted as the task counts."""

import json

import box_why
import numpy as np
import pytest
import report
from tinytasks import changed

from tinyrmc.training.discovery import load_task
from tinyrmc.training.run import Run

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


def test_its_way_is_what_the_run_measured(tmp_path):
    run = Run.create(tmp_path, "box", {}, {}, tmp_path / "agent")
    for step, solved in (1200, 0.25), (1240, None), (2400, 0.5):
        more = {} if solved is None else {"validation_solved": solved}
        run.log({"step": step, "loss": 1.0} | more)
    found = {"curves": {"agent": box_why.curve(run.path)}}
    assert found["curves"]["agent"] == {1200: 0.25, 2400: 0.5}
    told = report.markdown(json.loads(json.dumps(found))).splitlines()
    assert told[0] == "| solved after so many updates | 1,200 | 2,400 | 4,400 |"
    assert told[2] == "| agent | 25.0 % | 50.0 % |  |"
