"""A learner and its actors on several ranks do what one process does with this lag."""

import dataclasses
import subprocess
import sys

import fakecupy
import numpy as np
import pytest
import tinyworld
from rankhelp import MPIEXEC, SURROUNDINGS, all_well, on_ranks, real
from tinytasks import assert_same_arrays, forks, timeless

from tinyrmc.backend import to_host
from tinyrmc.cli import new
from tinyrmc.errors import RunError
from tinyrmc.runs.run import Run
from tinyrmc.training.apart import Apart
from tinyrmc.training.ranks import Ranks
from tinyrmc.training.trainer import Trainer

CONFIG = tinyworld.CONFIG
SHORT = {"steps": 12, "log_every": 5, "evaluate_every": 10}


def task(lag=2, **train):
    return tinyworld.Task(
        dataclasses.replace(
            CONFIG,
            agent=dataclasses.replace(CONFIG.agent, lag=lag),
            train=dataclasses.replace(CONFIG.train, **{**SHORT, **train}),
        )
    )


def found(trainer, steps=7):
    """(arrays, line) after so many steps."""
    with trainer:
        for _ in range(steps):
            trainer.advance()
        return trainer.arrays(), trainer.read(test=True)


@pytest.mark.parametrize("lag", [1, 2])
def test_a_learner_and_one_actor_give_the_bits_of_one_process(lag):
    expected, line = found(Trainer(task(lag), seed=4))

    def live(ranks):
        return found(Apart(task(lag), seed=4, ranks=ranks))

    (arrays, told), (actor_s, _) = all_well(on_ranks(2, live))
    assert_same_arrays(dict(sorted(arrays.items())), dict(sorted(expected.items())))
    assert timeless([told]) == timeless([line])
    assert told["lag"] == lag
    # trajectories are the learner's alone
    assert actor_s.keys() == {name for name in arrays if not name.startswith("carry/")}


@pytest.mark.parametrize(
    "size, workers, processes",
    # ranks that are threads cannot fork side by side
    [
        (3, 1, False),
        (3, 2, False),
        (2, 2, False),
        pytest.param(2, 2, True, marks=forks),
    ],
)
def test_any_number_of_actors_plays_the_same_levels(size, workers, processes):
    """Pieces differ, so sums round otherwise; so few steps do not show it."""
    expected, line = found(Trainer(task(), seed=4), steps=3)

    def live(ranks):
        trainer = Apart(task(), 4, workers, processes=processes, ranks=ranks)
        return found(trainer, steps=3)

    for rank, (arrays, told) in enumerate(all_well(on_ranks(size, live))):
        assert rank or arrays.keys() == expected.keys()
        for name, x in arrays.items():
            if rank == 0 or name.startswith("parameters/"):  # actors do not learn
                np.testing.assert_allclose(x, expected[name], rtol=1e-3, atol=1e-4)
        assert told["score"] == pytest.approx(line["score"], abs=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_actors_have_what_the_learner_has_however_it_rounds(device, monkeypatch):
    """To the last bit, signs of zeros too; and they know of a step that is skipped."""
    fakecupy.installed(monkeypatch)

    def live(ranks):
        with Apart(task(), seed=4, device=device, ranks=ranks) as trainer:
            update, learn = trainer.optimizer._update, trainer._learn

            def otherwise(*words):
                update(*words)
                trainer.optimizer.data *= np.float32(1 + 1e-6)
                trainer.optimizer.data[:1] = -0.0

            def spoiled():
                replies = learn()
                if trainer.step == 2:
                    trainer._gradients[0][:1] = np.nan
                return replies

            if ranks.rank == 0:
                trainer.optimizer._update, trainer._learn = otherwise, spoiled
            for _ in range(4):
                trainer.advance()
            trainer.require_agreement()
            skipped = int(trainer.skipped), int(trainer.first_skipped)
            return to_host(trainer.optimizer.data), skipped

    (data, skipped), *others = all_well(on_ranks(3, live))
    assert data.dtype == np.float32 and np.signbit(data[0]) and skipped == (1, 3)
    for other, also in others:
        assert other.tobytes() == data.tobytes() and also == skipped


def test_actors_do_not_learn_and_the_learner_does_not_act(monkeypatch):
    did = {}

    def live(ranks):
        trainer = Apart(task(), seed=4, ranks=ranks)
        for name in "_act", "_learn":
            own = getattr(trainer, name)

            def counted(*words, own=own, name=name):
                did[ranks.rank, name] = did.get((ranks.rank, name), 0) + 1
                return own(*words)

            setattr(trainer, name, counted)
        return found(trainer, steps=4)

    all_well(on_ranks(3, live))
    # two trajectories fill the queue before the first update
    assert did == {(0, "_learn"): 4, (1, "_act"): 6, (2, "_act"): 6}


@pytest.mark.parametrize("before, after", [(2, 2), (2, 1), (1, 2), (3, 2)])
def test_a_run_goes_on_apart_or_alone(before, after):
    """As if it had never stopped, to the bit, levels and queue included."""

    def on(size, live):
        return all_well(on_ranks(size, live)) if size > 1 else [live(None)]

    def trainer(ranks):
        return Apart(task(), 3, ranks=ranks) if ranks else Trainer(task(), seed=3)

    def first(ranks=None):
        with trainer(ranks) as one:
            for _ in range(7):
                one.advance()
            return one.arrays(), one.state()

    def second(ranks=None):
        with trainer(ranks) as one:
            one.restore(*saved)
            return found(one, steps=5)

    saved = on(before, first)[0]
    expected, line = found(Trainer(task(), seed=3), steps=12)
    arrays, told = on(after, second)[0]
    if before < 3:
        assert_same_arrays(dict(sorted(arrays.items())), dict(sorted(expected.items())))
        assert timeless([told]) == timeless([line])
    assert arrays.keys() == expected.keys()
    assert saved[1]["workers"] == 1


@real
def test_a_run_under_mpiexec(tmp_path):
    """By the command line: one voice, lines of metrics, and the queue is saved."""
    new.write_task("mazes", tmp_path, new.TEMPLATE_WORLD)
    words = "mazes.py --agent.algorithm impala --agent.lag 1 --train.steps 30 "
    words += "--train.log-every 10 "
    words += "--train.evaluate-every 30 --workers 1 --run run"
    start = [MPIEXEC, "-n", "2", sys.executable, "-m", "mpi4py", "-m", "tinyrmc.train"]
    done = subprocess.run(
        [*start, *words.split()],
        cwd=tmp_path,
        env=SURROUNDINGS,
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "on cpu, 2 ranks x 1 worker; rank 0 learns, rank 1 acts\n" in done.stdout
    run = Run.open(tmp_path / "run")
    assert [line["step"] for line in run.metrics()] == [10, 20, 30]
    assert "test_solved" in run.metrics()[-1]
    assert any(name.startswith("carry/queue/") for name in run.load()[0])


def test_one_rank_or_no_lag_is_refused():
    with pytest.raises(ValueError, match="two ranks or more"):
        Apart(task(), ranks=Ranks())
    failed = on_ranks(2, lambda ranks: Apart(task(lag=0), ranks=ranks))
    assert all(isinstance(each, ValueError) for each in failed)


def test_an_actor_that_fails_stops_all():
    def live(ranks):
        a_task = task()
        if ranks.rank == 1:
            a_task.play = lambda *words: 1 / 0
        return found(Apart(a_task, ranks=ranks))

    failed = on_ranks(3, live)
    assert isinstance(failed[1], ZeroDivisionError)
    assert [type(each) for each in failed[::2]] == [SystemExit] * 2
    assert "rank 1 of 3" in failed[1].__notes__[0]
    assert not isinstance(failed[1], RunError)
