"""The training loop: one gradient from any number of workers, runs that go on as if they had never stopped, and NaNs that do no harm.

What is said to be equal here is equal to the last bit, wall-clock fields aside, unless a tolerance is given.
"""

import dataclasses
import itertools
import os
import signal

import numpy as np
import pytest

from tinyrmc import LSTM, Tape, nn, primitives, ranks, training
from tinyrmc.discovery import load_task
from tinyrmc.fused import softmax_cross_entropy
from tinyrmc.parallel import CAN_FORK
from tinyrmc.runs import Run, RunError
from tinyrmc.training import NonFinite, Samples, Task, Totals, TrainConfig, Trainer, run_training

nth_farthest = load_task("nth_farthest")
forks = pytest.mark.skipif(not CAN_FORK, reason="needs fork")
KINDS = [False, pytest.param(True, marks=forks)]

# Nothing here divides anything else evenly: pieces are of unequal length, and runs stop between two lines of metrics.
TRAIN = TrainConfig(steps=12, batch_size=50, piece_size=16, learning_rate=3e-3, warmup_steps=4, decay=0.5, log_every=5, evaluate_every=10)


@dataclasses.dataclass(frozen=True)
class Config:
    train: TrainConfig = TRAIN


class Larger(Task):
    """A task with nothing but what a task must have: which of two numbers is the larger one?"""

    presets = {"tiny": ("two numbers", Config())}

    def build(self, seed):
        return nn.MLP(2, [8, 2], seed=np.random.default_rng(seed))

    def draw(self, rng, count):
        inputs = rng.normal(size=(count, 2)).astype(np.float32)
        return {"inputs": inputs, "target": inputs.argmax(1)}

    def loss(self, model, batch, carry):
        logits = model(batch["inputs"])
        losses = softmax_cross_entropy(logits, batch["target"])
        return primitives.sum(losses), losses.size, {"accuracy": ((logits.data.argmax(1) == batch["target"]).sum(), losses.size)}, None


class RunningSum(Task):
    """A task with a carry: the sign of the sum of all numbers so far, of which each step brings one more."""

    presets = {"tiny": ("numbers one by one", Config())}
    carries = True
    test_examples = 64

    def build(self, seed):
        network = nn.Module()
        network.core, network.head = LSTM(1, 4, seed=1), nn.Linear(4, 2, seed=2)
        return network

    def draw(self, rng, count):
        return {"x": rng.normal(size=(count, 1)).astype(np.float32)}

    def loss(self, model, batch, carry):
        rows = len(batch["x"])
        if carry is None:
            state, total = model.core.initial_state(rows), np.zeros((rows, 1))
        else:
            state, total = (carry["hidden"], carry["cell"]), carry["total"]
        total = total + batch["x"]
        output, state = model.core(batch["x"], state)
        losses = softmax_cross_entropy(model.head(output), (total[:, 0] > 0).astype(int))
        arrays = {"hidden": state[0].data, "cell": state[1].data, "total": total}
        return primitives.sum(losses), rows, {"seen": (0 if carry is None else rows, rows)}, arrays


def relations(core="rmc", **train):
    """Nth farthest with a tiny network and a ladder that is climbed within a few steps."""
    model = nth_farthest.CoreConfig(core=core, mem_slots=2, head_size=2, num_heads=2, hidden_size=5)
    data = nth_farthest.DataConfig(objects=4, dimensions=2, rungs=((2, 1), (3, 1)), passing=0.01)
    task = nth_farthest.Task(nth_farthest.Config(model, data, dataclasses.replace(TRAIN, **train)))
    task.test_examples = 100
    return task


@pytest.fixture
def make_trainer():
    """Trainers whose workers are ended when the test is over."""
    made = []

    def make(task, seed=0, workers=1, processes=None):
        made.append(Trainer(task, seed, workers, processes=processes))
        return made[-1]

    yield make
    for trainer in made:
        trainer.workers.close()


@pytest.fixture
def new_run(tmp_path):
    return lambda task=None: Run.create(tmp_path, "run", {"config": dataclasses.asdict(task.config) if task else {}}, {})


def assert_same_arrays(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def timeless(lines):
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def stop_at(task, step, number=signal.SIGTERM):
    """Send this process a signal while a step is computed: the `step`-th from now. The step is finished, the run then stops."""
    steps = itertools.count(1)
    task.after_update = lambda model: os.kill(os.getpid(), number) if next(steps) == step else None
    return task


# --- One gradient, whoever computes it ----------------------------------------------------------------------------------------------------


def gradient_of_one_step(trainer):
    trainer.advance()
    return trainer.optimizer.gradient.copy()


@pytest.mark.parametrize("core", ["rmc", "rmc_paper", "lstm"])
def test_the_gradient_is_that_of_the_mean_loss_with_any_number_of_workers(core, make_trainer):
    task = relations(core, clip_norm=None)
    reference = make_trainer(task)
    batch = reference.stream.batch(0, 0, TRAIN.batch_size)
    with Tape() as tape:
        loss, count, _, _ = task.loss(reference.model, batch, None)
        mean = loss / count
    direct = np.concatenate([g.reshape(-1) for g in tape.gradient(mean, list(reference.model.parameters()))])
    assert count == 50 and np.abs(direct).max() > 1e-3
    for workers, processes in ((1, False), (2, False), (3, False), *([(2, True), (3, True)] if CAN_FORK else [])):
        gradient = gradient_of_one_step(make_trainer(relations(core, clip_norm=None), workers=workers, processes=processes))
        np.testing.assert_allclose(gradient, direct, rtol=1e-4, atol=1e-6 * np.abs(direct).max())


@forks
@pytest.mark.parametrize("workers", [2, 3])
def test_processes_and_threads_give_the_same_bits(workers, make_trainer):
    pair = [make_trainer(relations(), seed=4, workers=workers, processes=processes) for processes in (False, True)]
    for step in range(1, 7):
        for trainer in pair:
            trainer.advance()
        assert_same_arrays(*(trainer.arrays() for trainer in pair))
        if step % 3 == 0:
            lines = [timeless([trainer.read() | trainer.evaluate()]) for trainer in pair]
            assert lines[0] == lines[1]


def test_equal_seeds_give_equal_runs_and_others_do_not(make_trainer):
    trainers = [make_trainer(relations(), seed) for seed in (1, 1, 2)]
    for trainer in trainers:
        trainer.advance()
    first, again, other = (trainer.arrays() for trainer in trainers)
    assert_same_arrays(first, again)
    assert not np.array_equal(first["parameters/core.input_projection.weight"], other["parameters/core.input_projection.weight"])


@pytest.mark.parametrize("processes", KINDS)
def test_held_out_metrics_do_not_depend_on_who_computes_them(processes, make_trainer):
    one, three = make_trainer(relations()), make_trainer(relations(), workers=3, processes=processes)
    alone, shared = one.evaluate(), three.evaluate()
    assert alone.keys() == shared.keys() == {"test_loss", "test_accuracy", "test_accuracy_without_self"}
    assert alone["test_accuracy"] == shared["test_accuracy"]
    assert alone["test_loss"] == pytest.approx(shared["test_loss"], rel=1e-6)


@forks
def test_the_curriculum_reaches_every_worker(make_trainer):
    """Worker processes have a task of their own; which rung is climbed is told them with each request."""
    pair = [make_trainer(relations(), workers=2, processes=processes) for processes in (False, True)]
    for rung in (0, 2, 1):
        for trainer in pair:
            trainer.task.rung = rung
            trainer.advance()
        assert_same_arrays(*(trainer.arrays() for trainer in pair))


# --- A line of metrics --------------------------------------------------------------------------------------------------------------------


def test_as_many_workers_as_the_work_is_worth(make_trainer, monkeypatch):
    task = relations(batch_size=8)
    assert make_trainer(task, workers=None).workers.count == 1  # eight examples of a tiny network
    monkeypatch.setattr(training, "WORTHWHILE", 1)
    monkeypatch.setattr(ranks, "available_cores", lambda: 3)
    assert make_trainer(task, workers=None, processes=True).workers.count == 3
    monkeypatch.setattr(training, "GIL", True)
    assert make_trainer(task, workers=None, processes=False).workers.count == 2
    monkeypatch.setattr(training, "GIL", False)
    assert make_trainer(task, workers=None, processes=False).workers.count == 3
    monkeypatch.setattr(ranks, "available_cores", lambda: 100)
    assert make_trainer(task, workers=None, processes=True).workers.count == 8  # never more than examples


def test_totals_are_means_over_everything_counted():
    totals = Totals()
    for metrics in ({"a": (1, 2), "b": (0, 0)}, {"a": (5, 1), "c": (np.float32(0.1), np.int64(1))}):
        totals.add(metrics)
    means = totals.means("test_")
    assert means["test_a"] == 2 and np.isnan(means["test_b"]) and means["test_c"] == float(np.float32(0.1))
    assert totals.plain() == {"a": (6, 3), "b": (0, 0), "c": (float(np.float32(0.1)), 1)}
    assert all(type(value) in (int, float) for pair in totals.plain().values() for value in pair)
    assert Totals(totals.plain()).means() == pytest.approx(totals.means(), nan_ok=True)


def test_a_line_tells_the_mean_since_the_last_one(make_trainer):
    trainer = make_trainer(Larger(Config()))
    losses, norms = [], []
    for _ in range(5):
        before = dict(trainer.window.sums)
        trainer.advance()
        sums = trainer.window.sums
        losses.append((sums["loss"][0] - before.get("loss", (0, 0))[0]) / 50)
        norms.append(float(sums["gradient_norm"][0] - before.get("gradient_norm", (0, 0))[0]))
    line = trainer.read()
    assert (line["step"], line["samples"]) == (5, 250)
    assert line["loss"] == pytest.approx(np.mean(losses)) and line["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-5)
    assert line["learning_rate"] == TRAIN.learning_rate and "skipped_updates" not in line
    trainer.advance()
    assert trainer.read()["loss"] != line["loss"]


def test_a_run_writes_its_lines_and_ends_with_the_held_out_metrics(make_trainer, new_run):
    run, shown, trainer = new_run(), [], make_trainer(Larger(Config()))
    assert run_training(trainer, run, show=shown.append) == "finished"
    lines = run.metrics()
    assert lines == shown and [line["step"] for line in lines] == [5, 10, 12]
    assert [name for name in lines[0] if name.startswith("test_")] == []
    assert {"test_loss", "test_accuracy", "loss", "accuracy"} <= lines[1].keys()
    assert {"test_loss", "test_accuracy"} <= lines[2].keys()  # measured after the last step, not repeated from step 10
    assert lines[2]["test_loss"] != lines[1]["test_loss"]
    assert [line["seconds"] for line in lines] == sorted(line["seconds"] for line in lines)
    arrays, state = run.load()
    assert state["step"] == 12 and state["run"] == run.config
    assert_same_arrays(arrays, trainer.arrays())


def test_the_last_line_is_not_measured_twice(make_trainer, new_run):
    run = new_run()
    run_training(make_trainer(Larger(Config(dataclasses.replace(TRAIN, steps=10)))), run)
    assert [line["step"] for line in run.metrics()] == [5, 10]
    assert "test_accuracy" in run.metrics()[-1]


# --- Stopping and going on ----------------------------------------------------------------------------------------------------------------


def unbroken(make_trainer, task, run, workers=1):
    trainer = make_trainer(task, seed=3, workers=workers)
    assert run_training(trainer, run) == "finished"
    return trainer


def resumed(make_trainer, task, run, workers=1):
    """What `--resume` does."""
    trainer = make_trainer(task, seed=3, workers=workers)
    arrays, state = run.load()
    trainer.restore(arrays, state)
    run.truncate_metrics(state["lines"])
    return trainer


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=forks)])
@pytest.mark.parametrize("core", ["rmc", "rmc_paper", "lstm"])
def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(core, workers, make_trainer, new_run):
    whole, broken = new_run(), new_run()
    reference = unbroken(make_trainer, relations(core), whole, workers)

    stopped = make_trainer(stop_at(relations(core), 7), seed=3, workers=workers)
    assert run_training(stopped, broken) == "SIGTERM" and stopped.step == 7
    assert [line["step"] for line in broken.metrics()] == [5]
    stopped.workers.close()

    again = resumed(make_trainer, relations(core), broken, workers)
    assert again.step == 7 and again.seconds == stopped.seconds
    assert_same_arrays(again.arrays(), stopped.arrays())
    assert run_training(again, broken) == "finished"
    assert_same_arrays(again.arrays(), reference.arrays())
    assert {"optimizer/updates", "optimizer/first_moment", "optimizer/second_moment"} <= again.arrays().keys()
    assert again.task.state() == reference.task.state() != {"rung": 0}  # the ladder was climbed meanwhile
    assert timeless(broken.metrics()) == timeless(whole.metrics())
    assert broken.metrics()[-1]["seconds"] >= stopped.seconds


def test_a_run_may_be_stopped_again_and_again(make_trainer, new_run):
    whole, broken = new_run(), new_run()
    reference = unbroken(make_trainer, relations(), whole)
    trainer = make_trainer(stop_at(relations(), 1, signal.SIGINT), seed=3)
    assert run_training(trainer, broken) == "SIGINT"
    for step in (2, 3, 3):
        trainer = resumed(make_trainer, stop_at(relations(), step, signal.SIGINT), broken)
        assert run_training(trainer, broken) == "SIGINT"
    trainer = resumed(make_trainer, relations(), broken)
    assert trainer.step == 9 and run_training(trainer, broken) == "finished"
    assert_same_arrays(trainer.arrays(), reference.arrays())
    assert timeless(broken.metrics()) == timeless(whole.metrics())


class PowerCut(BaseException):
    """Ends a run without a chance to save."""


def test_a_run_that_was_killed_goes_back_to_its_checkpoint(make_trainer, new_run):
    """The lines written after the checkpoint are cut off and written again."""
    whole, broken = new_run(), new_run()
    reference = unbroken(make_trainer, relations(checkpoint_minutes=1e-9), whole)
    task, steps = relations(checkpoint_minutes=1e-9), itertools.count(1)  # saves after each step

    def power_cut(model):
        if next(steps) == 7:
            raise PowerCut

    task.after_update = power_cut
    with pytest.raises(PowerCut):
        run_training(make_trainer(task, seed=3), broken)
    broken.log({"step": 7, "loss": 0.0})
    trainer = resumed(make_trainer, relations(checkpoint_minutes=1e-9), broken)
    assert trainer.step == 6
    run_training(trainer, broken)
    assert_same_arrays(trainer.arrays(), reference.arrays())
    assert timeless(broken.metrics()) == timeless(whole.metrics())


def test_out_of_time_is_evaluated_and_can_go_on(make_trainer, new_run):
    whole, broken = new_run(), new_run()
    reference = unbroken(make_trainer, relations(), whole)
    trainer = make_trainer(relations(), seed=3)
    assert run_training(trainer, broken, max_minutes=1e-9) == "time" and trainer.step == 1
    (line,) = broken.metrics()
    assert line["step"] == 1 and 0 <= line["test_accuracy"] <= 1
    trainer = resumed(make_trainer, relations(), broken)
    run_training(trainer, broken)
    assert_same_arrays(trainer.arrays(), reference.arrays())
    assert timeless(broken.metrics()) == timeless(whole.metrics())


def test_another_number_of_workers_goes_on_to_rounding(make_trainer, new_run):
    run = new_run()
    run_training(make_trainer(stop_at(relations(), 7), seed=3), run)
    arrays, state = run.load()
    trainers = [make_trainer(relations(), seed=3, workers=workers) for workers in (1, 2)]
    for trainer in trainers:
        trainer.restore(arrays, state)
        trainer.advance()
    for one, two in zip(*(trainer.arrays().values() for trainer in trainers), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-6)


class Counted(ranks.Ranks):
    """A single process that counts the messages which several ranks would exchange."""

    exchanges = 0

    def each(self, compute):
        self.exchanges += 1
        return super().each(compute)


def test_a_step_costs_one_exchange_of_messages(new_run):
    def exchanges(steps):
        config = dataclasses.replace(TRAIN, steps=steps, log_every=100, evaluate_every=100)
        trainer = Trainer(Larger(Config(config)), ranks=Counted())
        run_training(trainer, new_run(), max_minutes=60)
        return trainer.ranks.exchanges

    assert exchanges(30) - exchanges(10) == 20


def test_signals_are_as_before_when_a_run_is_over(make_trainer, new_run):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run_training(make_trainer(stop_at(Larger(Config()), 2)), new_run())
    run_training(make_trainer(Larger(Config())), new_run())
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_second_ctrl_c_stops_at_once(make_trainer, new_run):
    task, run = Larger(Config()), new_run()

    def impatient(model):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    task.after_update = impatient
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits SIGINT ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            run_training(make_trainer(task), run)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.load()[1]["step"] == 0  # the checkpoint from before the first step


# --- A carry ------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_carry_lives_from_step_to_step_and_through_a_checkpoint(workers, make_trainer, new_run):
    whole, broken = new_run(), new_run()
    reference = unbroken(make_trainer, RunningSum(Config()), whole, workers)
    assert not reference.workers.processes
    numbers = sum(reference.stream.batch(step, 0, 50)["x"].astype(np.float64) for step in range(12))
    np.testing.assert_allclose(reference.arrays()["carry/total"], numbers, rtol=1e-5, atol=1e-5)
    assert whole.metrics()[0]["seen"] == 0.8 and whole.metrics()[1]["seen"] == 1  # only the first of five steps had none

    stopped = make_trainer(stop_at(RunningSum(Config()), 7), seed=3, workers=workers)
    run_training(stopped, broken)
    again = resumed(make_trainer, RunningSum(Config()), broken, workers)
    assert_same_arrays(again.arrays(), stopped.arrays())
    run_training(again, broken)
    assert_same_arrays(again.arrays(), reference.arrays())
    assert timeless(broken.metrics()) == timeless(whole.metrics())


def test_a_carry_goes_to_the_right_examples_when_the_number_of_workers_changes(make_trainer, new_run):
    run = new_run()
    run_training(make_trainer(stop_at(RunningSum(Config()), 7), seed=3, workers=5), run)
    again = resumed(make_trainer, RunningSum(Config()), run, workers=2)
    assert again._pieces() != Trainer(RunningSum(Config()), workers=5)._pieces()
    for _ in range(5):
        again.advance()
    numbers = sum(again.stream.batch(step, 0, 50)["x"].astype(np.float64) for step in range(12))
    np.testing.assert_allclose(again.arrays()["carry/total"], numbers, rtol=1e-5, atol=1e-5)


# --- What is not finite -------------------------------------------------------------------------------------------------------------------


class Poisoned(Larger):
    """Some steps bring a NaN."""

    bad = frozenset()

    def stream(self, model, seed):
        samples = Samples(self.draw, seed)
        clean = samples.batch

        def batch(step, start, stop):
            drawn = clean(step, start, stop)
            if step + 1 in self.bad and start == 0:  # in one piece of several
                drawn["inputs"][0, 0] = np.nan
            return drawn

        samples.batch = batch
        return samples


def poisoned(bad, **train):
    task = Poisoned(Config(dataclasses.replace(TRAIN, **train)))
    task.bad = frozenset(bad)
    return task


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=forks)])
def test_a_step_that_is_not_finite_is_not_applied(workers, make_trainer):
    trainer = make_trainer(poisoned({3}), workers=workers)
    states = []
    for _ in range(5):
        states.append({name: x.copy() for name, x in trainer.arrays().items()})
        trainer.advance()
    assert_same_arrays(states[3], states[2])
    assert not np.array_equal(states[2]["optimizer/first_moment"], states[1]["optimizer/first_moment"])
    assert not np.array_equal(trainer.arrays()["optimizer/first_moment"], states[4]["optimizer/first_moment"])
    assert all(np.isfinite(x).all() for x in trainer.arrays().values())
    line = trainer.read()
    assert line["skipped_updates"] == 1 and line["step"] == 5
    assert trainer.state()["skipped"] == [1, 3]


def test_a_nan_in_the_loss_alone_is_enough(make_trainer):
    task = Larger(Config())
    honest = task.loss
    task.loss = lambda *words: (lambda loss, *rest: (loss + np.float32("nan"), *rest))(*honest(*words))
    trainer = make_trainer(task)
    before = {name: x.copy() for name, x in trainer.arrays().items()}
    trainer.advance()
    assert np.isfinite(trainer.optimizer.gradient).all()
    assert_same_arrays(trainer.arrays(), before)
    assert trainer.state()["skipped"] == [1, 1]


def test_too_many_stop_the_run_and_the_last_checkpoint_is_kept(make_trainer, new_run):
    task = poisoned({4, 6, 7, 8}, nonfinite_limit=4)
    run = new_run(task)
    stopped = make_trainer(task, seed=3)
    with pytest.raises(NonFinite) as caught:
        run_training(stopped, run)
    said = str(caught.value)
    assert stopped.step == 10 and "stopped at step 10: 4 updates were skipped" in said and "first at step 4" in said
    assert "\n" not in said and "--train.learning-rate" in said and isinstance(caught.value, RunError)
    assert [line["step"] for line in run.metrics()] == [5]
    assert run.metrics()[0]["skipped_updates"] == 1 and run.metrics()[0]["loss"] is None
    arrays, _ = run.load()
    assert all(np.isfinite(x).all() for x in arrays.values())
    make_trainer(poisoned(()), seed=3).restore(*run.load())


def test_fewer_do_not_and_the_count_survives_a_checkpoint(make_trainer, new_run):
    run = new_run()
    assert run_training(make_trainer(stop_at(poisoned({4, 6}, nonfinite_limit=3), 7), seed=3), run) == "SIGTERM"
    again = resumed(make_trainer, poisoned({9}, nonfinite_limit=3), run)
    with pytest.raises(NonFinite, match=r"3 updates were skipped.*first at step 4"):
        run_training(again, run)

    whole = new_run()
    assert run_training(make_trainer(poisoned({4, 6}, nonfinite_limit=3), seed=3), whole) == "finished"
    assert whole.metrics()[1]["skipped_updates"] == 2 and whole.metrics()[-1]["test_accuracy"] >= 0


def test_a_run_that_ends_between_two_lines_is_checked_too(make_trainer, new_run):
    with pytest.raises(NonFinite, match="first at step 11"):
        run_training(make_trainer(poisoned({11, 12}, nonfinite_limit=2)), new_run())


@pytest.mark.parametrize("workers, processes", [(1, False), (2, False), pytest.param(2, True, marks=forks)])
def test_a_huge_learning_rate_is_stopped_without_a_warning(workers, processes, make_trainer, new_run):
    """pytest turns any warning into an error, in whichever thread."""
    task = relations(steps=40, learning_rate=1e30, warmup_steps=0, nonfinite_limit=3)
    run = new_run(task)
    with pytest.raises(NonFinite, match=r"first at step \d+;"):
        run_training(make_trainer(task, workers=workers, processes=processes), run)
    arrays, _ = run.load()
    assert all(np.isfinite(x).all() for x in arrays.values())


def test_parameters_that_overflow_are_never_saved(make_trainer, new_run):
    """Each gradient is finite, but the step is not."""
    task = Larger(Config(dataclasses.replace(TRAIN, steps=1, warmup_steps=0, decay=0.0)))
    task.learning_rate = lambda step: 1e39
    run = new_run()
    with pytest.raises(NonFinite, match="stopped at step 1: parameters are no longer finite; the last good checkpoint is kept"):
        run_training(make_trainer(task), run)
    arrays, state = run.load()
    assert state["step"] == 0 and all(np.isfinite(x).all() for x in arrays.values())


# --- A worker that fails ------------------------------------------------------------------------------------------------------------------


@forks
def test_a_worker_that_fails_ends_the_run_with_its_words(make_trainer, new_run):
    task, parent = Larger(Config()), os.getpid()
    draw = task.draw
    task.draw = lambda rng, count: draw(rng, count) if os.getpid() == parent else 1 / 0
    trainer = make_trainer(task, workers=2)
    with pytest.raises(RuntimeError, match="worker 1: ZeroDivisionError: division by zero"):
        run_training(trainer, new_run())


# --- A task with defaults only ------------------------------------------------------------------------------------------------------------


def test_a_task_that_gives_only_what_it_must_learns(make_trainer, new_run):
    run = new_run()
    task = Larger(Config(dataclasses.replace(TRAIN, steps=300, learning_rate=1e-2, log_every=50, evaluate_every=100)))
    trainer = make_trainer(task, workers=2)
    assert run_training(trainer, run) == "finished"
    assert run.metrics()[-1]["test_accuracy"] > 0.95
    assert task.references() == {} and task.describe(trainer.model) == "MLP" and task.pictures(trainer.model, run.path) == []


# --- Configurations, and what is refused --------------------------------------------------------------------------------------------------


POSITIVE = ["steps", "batch_size", "learning_rate", "piece_size", "log_every", "evaluate_every", "nonfinite_limit", "clip_norm"]


@pytest.mark.parametrize(
    "values, says",
    [
        *(({name: value}, rf"train\.{name} must be positive( or None)?, not {value}$") for name in POSITIVE for value in (0, -3)),
        ({"learning_rate": float("nan")}, r"train\.learning_rate must be positive"),
        ({"learning_rate": float("inf")}, r"train\.learning_rate must be positive"),
        ({"clip_norm": float("nan")}, r"train\.clip_norm must be positive or None"),
        ({"checkpoint_minutes": -1.0}, r"train\.checkpoint_minutes must not be negative"),
        ({"decay": 1.5}, r"train\.decay must be in \[0, 1\]"),
        ({"warmup_steps": -1}, r"train\.warmup_steps"),
        ({"log_every": 7}, r"train\.evaluate_every \(500\) must be a multiple of train\.log_every \(7\)"),
    ],
)
def test_impossible_values_are_refused_by_name(values, says):
    with pytest.raises(ValueError, match=says):
        TrainConfig(**values)


def test_a_piece_is_the_batch_on_a_gpu_unless_told_otherwise():
    gpu = object()
    assert (TrainConfig(batch_size=1600).piece(np), TrainConfig(batch_size=1600).piece(gpu)) == (128, 1600)
    assert {TrainConfig(piece_size=50).piece(xp) for xp in (np, gpu)} == {50}


@pytest.mark.parametrize(
    "asked, says",
    [
        ({"workers": 0}, "workers=0: there must be at least one; leave workers out"),
        ({"workers": -1}, "workers=-1: there must be at least one"),
        ({"workers": 2, "device": "cuda"}, "workers=2 with device='cuda': a GPU is fed by one worker; leave workers out"),
    ],
)
def test_numbers_of_workers_that_cannot_be_are_refused(asked, says):
    with pytest.raises(ValueError, match=says):
        Trainer(Larger(Config()), **asked)


def test_a_loss_that_returns_something_else_is_told_what_to_return(make_trainer):
    task = Larger(Config())
    task.loss = lambda model, batch, carry: 1.0
    with pytest.raises(TypeError, match=r"Larger\.loss must return \(sum, count, metrics, carry\), not 1\.0"):
        make_trainer(task).advance()
