"""Agents act in worlds and learn from it, by the loop that trains everything."""

import numpy as np
import pytest
import tinyworld
from tinytasks import (
    KINDS,
    assert_finishes,
    assert_same_arrays,
    changed,
    forks,
    steps,
    stop_at,
    timeless,
)

from tinyrmc.cores.core import state_of
from tinyrmc.training.discovery import TaskError
from tinyrmc.training.loop import run_training
from tinyrmc.training.rl import vtrace

CONFIG = tinyworld.CONFIG


def task(agent=(), model=(), train=()):
    parts = {"agent": dict(agent), "model": dict(model), "train": dict(train)}
    return tinyworld.Task(changed(CONFIG, **parts))


def acted(a_task, steps=1, B=12, seed=0):
    """A model, and the (batch, carry) that it gets in each of so many steps."""
    model = a_task.build(np.random.SeedSequence(seed))
    model.heads.weight.data *= 20  # a policy that prefers something
    stream, carry, found = a_task.stream(model, seed), None, []
    for step in range(steps):
        batch, carry = a_task.prepare(model, stream.batch(step, 0, B), carry)
        found.append((batch, carry))
    return model, found


# --- Learning -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.weekly
def test_only_a_memory_learns_which_way_to_turn(make_trainer):
    for core, low, high in [
        ("lstm", 0.95, 1.0),
        ("rmc", 0.95, 1.0),
        ("feedforward", 0.0, 0.75),
    ]:
        model = {"core": core, "mem_slots": 2, "num_heads": 2, "head_size": 8}
        trainer = make_trainer(task(model=model))
        while not trainer.finished:
            trainer.advance()
        line = trainer.read(test=True)
        assert low <= line["test_solved"] <= high
        assert line["ratio"] == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
@pytest.mark.weekly
def test_an_agent_learns_from_what_an_older_one_did(make_trainer):
    # at twice this rate one seed of four forgets again what it had learnt
    train = {"steps": 250, "learning_rate": 0.005}
    trainer = make_trainer(task(agent={"lag": 3}, train=train))
    while not trainer.finished:
        trainer.advance()
    assert trainer.read(test=True)["test_solved"] > 0.9


def test_a_view_that_the_network_cannot_see_is_refused():
    with pytest.raises(TaskError, match="at least 3 cells a side, not 1 x 1"):
        task(model={"encoder": "conv"}).build(np.random.SeedSequence(0))


# --- Acting ---------------------------------------------------------------------------


def test_the_learner_repeats_what_the_actor_thought():
    """Through ends of levels inside a trajectory, and from one to the next."""
    for core in ["lstm", "rmc", "rnn", "feedforward"]:
        a_task = task(
            model={"core": core, "mem_slots": 2, "num_heads": 2, "head_size": 8}
        )
        model, steps = acted(a_task, steps=3)
        ends = 0
        for batch, carry in steps:
            metrics = a_task.loss(model, batch, carry)[2]
            total, count = metrics["ratio"]
            assert total / count == pytest.approx(1, abs=1e-6)
            ends += batch["ended"][:, :-1].sum()
        assert ends > 5
        batch, carry = steps[-1]
        forgetting = batch | {"is_first": np.zeros_like(batch["is_first"])}
        if core != "feedforward":
            total, count = a_task.loss(model, forgetting, carry)[2]["ratio"]
            assert abs(total / count - 1) > 1e-5


def test_a_trajectory_is_what_a_plain_loop_sees():
    """Level by level, the world asked by itself, the score added up here."""
    a_task = task()
    model, steps = acted(a_task, steps=4, B=5)
    noise = [a_task.stream(model, 0).batch(k, 0, 5)["noise"] for k in range(4)]
    world = a_task.world
    for row in range(5):
        level = world.start(noise[0][row : row + 1, 0, :1])
        last, gained, score = world.actions, 0.0, 0.0
        fresh, state = True, model.initial_state(1)
        for k, (batch, _) in enumerate(steps):
            for t in range(8):
                if fresh:
                    state = model.initial_state(1)
                seen = world.observe(level)["view"]
                at = {name: x[row, t] for name, x in batch.items() if x.ndim > 1}
                assert at["seen/view"] == seen[0]
                assert (at["action"], at["reward"]) == (last, gained)
                assert at["is_first"] == fresh
                moment = {
                    "seen/view": seen[:, None],
                    "action": np.array([[last]]),
                    "reward": np.array([[gained]], np.float32),
                }
                logits, _, state = model(*a_task.planes(moment), state)
                p_all = np.exp(logits.data[0, 0] - logits.data.max())
                p_all /= p_all.sum()
                u = noise[k][row, t + 1, 0]
                drawn = int((np.cumsum(p_all)[:-1] <= u).sum())
                assert at["taken"] == drawn
                assert np.exp(at["behaviour"]) == pytest.approx(p_all[drawn], rel=1e-5)
                outcome = world.step(
                    level, np.array([drawn]), noise[k][row : row + 1, t + 1, 1:2]
                )
                score += outcome.reward[0]
                over = bool(outcome.ended[0])
                assert (at["gained"], at["ended"]) == (outcome.reward[0], over)
                assert at["score"] == (score if over else 0)
                assert at["solved"] == (outcome.reward[0] == 1)
                last = world.actions if over else drawn
                gained, score = (0, 0) if over else (outcome.reward[0], score)
                fresh = over


def test_a_trajectory_waits_in_a_queue_as_many_updates_as_its_lag_says():
    """Two are acted before the first update, and each is learnt from once."""
    a_task = task(agent={"lag": 2})
    model, found = acted(a_task, steps=4)
    stream, carry = a_task.stream(model, 0), None
    for k, (step, ahead) in enumerate([(0, 2), (0, 1), (0, 0), (1, 0)]):
        batch = stream.batch(step, 0, 12)
        trajectory, carry = a_task.play(model, batch, carry, ahead)
        assert_same_arrays(found[k][0], trajectory)
    played = [batch["taken"].tobytes() for batch, _ in found]
    assert len({*played}) == len(played)


# --- The loss -------------------------------------------------------------------------


def test_the_loss_is_that_of_the_formulas():
    """Sums over time and batch, in float64, beside the formulas written out here."""
    c = {
        "entropy_cost": 0.03,
        "value_cost": 0.7,
        "reward_scale": 0.5,
        "gae_lambda": 0.9,
    }
    a_task = task(agent=c)
    model, steps = acted(a_task, steps=2)
    batch, carry = steps[1]
    batch["behaviour"] = batch["behaviour"] - 0.1  # as if another one had acted
    total, count, _, _ = a_task.loss(model, batch, carry)
    state = state_of(batch, model.initial_state(12))
    logits, values, _ = model(*a_task.planes(batch), state, batch["is_first"])
    logits, values = logits.data.astype(float), values.data.astype(float)
    expected = 0.0
    for b in range(12):
        z = logits[b, :8] - logits[b, :8].max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        mine = log_p[np.arange(8), batch["taken"][b]]
        vs, advantages = vtrace.targets(
            (mine - batch["behaviour"][b])[:, None],
            0.99 * ~batch["ended"][b][:, None],
            0.5 * batch["gained"][b][:, None].astype(float),
            values[b, :8, None],
            values[b, 8:],
            lambda_=0.9,
        )
        expected -= (mine * advantages[:, 0]).sum()
        expected += 0.7 * 0.5 * ((vs[:, 0] - values[b, :8]) ** 2).sum()
        expected += 0.03 * (np.exp(log_p) * log_p).sum()
    assert count == 96
    assert float(total.data) == pytest.approx(expected, rel=1e-4)


def test_a2c_takes_the_actions_for_its_own():
    model, steps = acted(task(), steps=1)
    (batch, carry) = steps[0]
    other = batch | {"behaviour": batch["behaviour"] + np.float32(0.5)}
    losses = {
        (name, which): float(
            task(agent={"algorithm": name}).loss(model, each, carry)[0].data
        )
        for name in ("impala", "a2c")
        for which, each in (("same", batch), ("other", other))
    }
    assert losses["a2c", "same"] == losses["a2c", "other"]
    assert losses["impala", "same"] != losses["impala", "other"]


# --- As any other task ----------------------------------------------------------------


@forks
def test_processes_and_threads_act_alike(make_trainer):
    for lag in [0, 2]:
        pair = [
            make_trainer(task(agent={"lag": lag}), 4, workers=2, processes=processes)
            for processes in (False, True)
        ]
        assert_same_arrays(*(steps(trainer, 6).arrays() for trainer in pair))
        lines = [trainer.read(test=True) for trainer in pair]
        assert timeless(lines[:1]) == timeless(lines[1:])


@pytest.mark.slow
def test_a_run_goes_on_in_the_middle_of_its_levels(make_trainer, new_run):
    for lag in [0, 2]:
        for processes in KINDS:
            short = {"steps": 12, "log_every": 5, "evaluate_every": 10}

            def trainer():
                a_task = task(agent={"lag": lag}, train=short)
                return make_trainer(a_task, 3, workers=2, processes=processes)

            broken, stopped, again = new_run(), trainer(), trainer()
            stop_at(stopped.task, 7)
            assert run_training(stopped, broken) == "SIGTERM" and stopped.step == 7
            arrays, state = broken.load()
            again.restore(arrays, state)
            broken.truncate_metrics(state["lines"])
            assert_finishes(again, broken, trainer, new_run)


def test_each_held_out_level_is_played_once_however_they_are_shared_out():
    for pieces in [(16, 1), (50, 1), (16, 3)]:
        size, workers = pieces
        a_task = task(train={"micro_batch_size": size})
        model = a_task.build(np.random.SeedSequence(1))
        sums = [a_task.evaluate(model, k, workers) for k in range(workers)]
        found = {
            name: sum(each[name][0] for each in sums)
            for name in ("score", "solved", "length")
        }
        assert sum(each["score"][1] for each in sums) == 128
        whole = a_task.results(model, 0, 128)
        assert found == {name: whole[name].sum() for name in found}
        alone = [a_task.results(model, k, k + 1)["length"][0] for k in range(4)]
        assert a_task.results(model, 0, 4)["length"].tolist() == alone
