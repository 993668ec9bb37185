"""Learning rates that follow epochs, and one that falls when a metric stalls."""

import dataclasses
import json

import pytest
from tinytasks import TRAIN, Config, Finite, Larger, assert_goes_on

from tinyrmc.training.loop import run_training
from tinyrmc.training.schedules import Plateau, staircase

# --- Staircase ------------------------------------------------------------------------


def test_a_staircase_halves_at_the_start_of_every_25th_epoch():
    rate = staircase(0.01, every=25)
    found = [rate(epoch) for epoch in (0, 24, 25, 49, 50, 99)]
    assert found == [0.01, 0.01, 0.005, 0.005, 0.0025, 0.00125]
    assert staircase(9.0, 2, factor=1 / 3)(4) == pytest.approx(1.0)


class Stairs(Finite):
    """Two batches an epoch; the rate is halved every other epoch."""

    def learning_rate(self, step):
        return staircase(self.config.train.learning_rate, 2)(self.epochs.epoch(step))


def test_a_task_follows_its_epochs(make_trainer):
    trainer, rates = make_trainer(Stairs(Config())), []
    for _ in range(10):
        trainer.advance()
        rates.append(trainer.read()["learning_rate"] / TRAIN.learning_rate)
    assert rates == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]


# --- Plateau --------------------------------------------------------------------------


def scales(plateau, values):
    """The scale after each value of its metric."""
    found = []
    for value in values:
        before = plateau.scale
        assert plateau.observe({plateau.metric: value}) == (plateau.scale < before)
        found.append(plateau.scale)
    return found


NAN = float("nan")


def test_the_scale_falls_when_nothing_improves():
    for settings, values, expected in [
        ({}, [3, 2, 2, 1, 1.5, 1], [1, 1, 0.5, 0.5, 0.25, 0.125]),
        ({"patience": 2}, [3, 3, 2, 3, 3, 3], [1, 1, 1, 1, 0.5, 0.5]),
        ({"factor": 0.1}, [1, 1], [1, 0.1]),
        ({"threshold": 0.1}, [10, 9.5, 8.9, 8.8], [1, 0.5, 0.5, 0.25]),
        ({"larger": True}, [0.1, 0.2, 0.1, 0.3], [1, 1, 0.5, 0.5]),
        # 2.5 is better than 3, the last one, but not than 2, the best
        ({"against": "last"}, [2, 3, 2.5, 2.6], [1, 0.5, 0.5, 0.25]),
        ({"against": "best"}, [2, 3, 2.5, 1.9], [1, 0.5, 0.25, 0.25]),
        # what is not a number is no improvement, and nothing is measured against it
        ({}, [NAN, 2, NAN, 1], [0.5, 0.5, 0.25, 0.25]),
        ({"against": "last"}, [2, NAN, 1.9, 1.8], [1, 0.5, 0.5, 0.5]),
    ]:
        assert scales(Plateau("test_loss", **settings), values) == pytest.approx(
            expected
        )
        # through a checkpoint after every value
        plateau, found = Plateau("test_loss", **settings), []
        for value in values:
            state = json.loads(json.dumps(plateau.state()))
            plateau = Plateau("test_loss", **settings)
            plateau.load_state(state)
            found += scales(plateau, [value])
        assert found == pytest.approx(expected)


def test_lines_without_the_metric_are_passed_over():
    plateau = Plateau("test_loss")
    for line in ({"test_loss": 1.0}, {"loss": 2.0}, {}, {"loss": 2.0}):
        assert not plateau.observe(line)
    assert plateau.scale == 1 and plateau.observe({"test_loss": 1.0})


class Stalling(Larger):
    """The held-out loss must fall by half, which it never does.

    When the rate has fallen three times, the run ends.
    """

    def __init__(self, config):
        super().__init__(config)
        self.plateau = Plateau("test_loss", threshold=0.5)

    def learning_rate(self, step):
        return self.plateau.scale * self.config.train.learning_rate

    def observe(self, step, metrics):
        self.plateau.observe(metrics)

    def finished(self, step):
        return super().finished(step) or self.plateau.scale < 0.2

    def state(self):
        return {"plateau": self.plateau.state()}

    def load_state(self, state):
        self.plateau.load_state(state["plateau"])


def stalling():
    train = dataclasses.replace(TRAIN, steps=100, log_every=2, evaluate_every=4)
    return Stalling(Config(train))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_rate_follows_the_held_out_loss_through_a_checkpoint(
    workers, make_trainer, new_run
):
    trainer, again, whole, broken = assert_goes_on(
        lambda: make_trainer(stalling(), workers=workers), new_run, 9
    )
    lines = whole.metrics()
    rates = {
        line["step"]: line["learning_rate"] / TRAIN.learning_rate for line in lines
    }
    # measured at 4, and without an improvement at 8, 12 and 16
    assert trainer.step == 16 and trainer.finished
    assert rates == {2: 1, 4: 1, 6: 1, 8: 1, 10: 0.5, 12: 0.5, 14: 0.25, 16: 0.25}
    assert "test_loss" in lines[-1]
    assert run_training(again, broken) == "finished" and again.step == 16
