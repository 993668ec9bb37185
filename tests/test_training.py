"""The training loop: one gradient from any number of workers, and what a run tells.

What is said to be equal here is equal to the last bit, wall-clock fields aside, unless
a tolerance is given.
"""

import dataclasses

import numpy as np
import pytest
from tinytasks import (
    KINDS,
    TRAIN,
    Config,
    Heard,
    Larger,
    assert_same_arrays,
    forks,
    relations,
    steps,
)

from tinyrmc import Tape, optim
from tinyrmc.training import Epochs, MetricAccumulator, TrainConfig
from tinyrmc.training import trainer as trainer_module
from tinyrmc.training.discovery import TaskError
from tinyrmc.training.loop import run_training
from tinyrmc.training.workers import CAN_FORK


def larger(**train):
    return Larger(Config(dataclasses.replace(TRAIN, **train)))


# --- One gradient, however it is computed ---------------------------------------------


TEAMS = [(1, False), (2, False), (3, False)] + [(2, True), (3, True)] * CAN_FORK


def test_the_gradient_is_that_of_the_mean_loss_with_any_number_of_workers(make_trainer):
    for core in ["rmc", "rmc_paper", "lstm"]:
        task = relations(core, clip_norm=None)
        reference = make_trainer(task)
        batch = reference.stream.batch(0, 0, TRAIN.batch_size)
        with Tape() as tape:
            loss, count, _, _ = task.loss(reference.model, batch, None)
            mean = loss / count
        gradients = tape.gradient(mean, list(reference.model.parameters()))
        direct = np.concatenate([g.reshape(-1) for g in gradients])
        largest = np.abs(direct).max()
        assert count == 50 and largest > 1e-3
        for workers, processes in TEAMS:
            task = relations(core, clip_norm=None)
            trainer = make_trainer(task, workers=workers, processes=processes)
            trainer.advance()
            found = trainer.optimizer.gradient
            np.testing.assert_allclose(found, direct, rtol=1e-4, atol=1e-6 * largest)


def test_equal_seeds_give_equal_runs_and_others_do_not(make_trainer):
    trainers = [make_trainer(relations(), seed) for seed in (1, 1, 2)]
    for trainer in trainers:
        trainer.advance()
    first, again, other = (trainer.arrays() for trainer in trainers)
    assert_same_arrays(first, again)
    name = "parameters/core.input_projection.weight"
    assert not np.array_equal(first[name], other[name])


def test_held_out_metrics_do_not_depend_on_who_computes_them(make_trainer):
    for processes in KINDS:
        alone = make_trainer(relations()).evaluate()
        shared = make_trainer(relations(), workers=3, processes=processes).evaluate()
        assert [*alone] == ["test_loss", "test_accuracy", "test_accuracy_without_self"]
        assert alone["test_accuracy"] == shared["test_accuracy"]
        assert alone == pytest.approx(shared, rel=1e-6)


@forks
def test_the_curriculum_reaches_every_worker(make_trainer):
    """Worker processes have a task of their own: each request says the stage."""
    pair = [make_trainer(relations(), workers=2, processes=k) for k in (False, True)]
    for stage in (0, 2, 1):
        for trainer in pair:
            trainer.task.stage = stage
            trainer.advance()
        assert_same_arrays(*(trainer.arrays() for trainer in pair))


# --- A line of metrics ----------------------------------------------------------------


def test_as_many_workers_as_the_work_is_worth(make_trainer, monkeypatch):
    def count(processes=None):
        task = relations(batch_size=8)
        return make_trainer(task, workers=None, processes=processes).workers.count

    assert count() == 1  # eight examples of a tiny network
    monkeypatch.setattr(trainer_module, "WORTHWHILE", 1)
    monkeypatch.setattr(trainer_module, "usable_cores", lambda: range(3))
    assert count(processes=True) == 3
    monkeypatch.setattr(trainer_module, "GIL", True)
    assert count(processes=False) == 2
    monkeypatch.setattr(trainer_module, "GIL", False)
    assert count(processes=False) == 3
    monkeypatch.setattr(trainer_module, "usable_cores", lambda: range(100))
    assert count(processes=True) == 8  # never more than examples


def test_totals_are_means_over_everything_counted():
    totals, third = MetricAccumulator(), np.float32(0.1)
    totals.add({"a": (1, 2), "b": (0, 0)})
    totals.add({"a": (5, 1), "c": (third, np.int64(1))})
    means = totals.means()
    assert (means["a"], means["c"]) == (2, float(third))
    assert np.isnan(means["b"])
    plain = totals.plain()
    assert plain == {"a": (6, 3), "b": (0, 0), "c": (float(third), 1)}
    assert {type(number) for pair in plain.values() for number in pair} <= {int, float}
    assert MetricAccumulator(plain).means() == pytest.approx(
        totals.means(), nan_ok=True
    )


def test_a_line_tells_the_mean_since_the_last_one(make_trainer):
    trainer, losses, norms = make_trainer(larger()), [], []
    for _ in range(5):
        before = dict(trainer.window.sums)
        trainer.advance()
        for name, values in (("loss", losses), ("gradient_norm", norms)):
            added = trainer.window.sums[name][0] - before.get(name, (0, 0))[0]
            values.append(float(added))
    line = trainer.read()
    assert (line["step"], line["samples"]) == (5, 250)
    assert line["loss"] == pytest.approx(np.mean(losses) / 50)
    assert line["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-5)
    assert line["learning_rate"] == TRAIN.learning_rate
    assert "skipped_updates" not in line
    trainer.advance()
    assert trainer.read()["loss"] != line["loss"]


def test_a_line_without_a_batch_tells_where_training_is_and_moves_nothing(make_trainer):
    for task in relations(), larger():
        trainer = make_trainer(task)
        state, line = task.state(), trainer.read(test=True)
        assert (line["step"], "loss" in line) == (0, False)
        assert line["learning_rate"] == task.learning_rate(0)
        assert task.state() == state and "test_accuracy" in line
        trainer.advance()
        trainer.read()
        state, line = task.state(), trainer.read(test=True)
        assert (line["step"], "loss" in line) == (1, False)
        assert task.state() == state


def test_a_run_writes_its_lines_and_ends_with_the_held_out_metrics(
    make_trainer, new_run
):
    run, heard, trainer = new_run(), Heard(), make_trainer(larger())
    assert run_training(trainer, run, show=heard) == "finished"
    lines = run.metrics()
    assert lines == heard.lines and [line["step"] for line in lines] == [5, 10, 12]
    assert heard.steps == [*range(1, 13)]
    tested = [[name for name in line if name.startswith("test_")] for line in lines]
    assert tested == [[], *[["test_loss", "test_accuracy"]] * 2]
    assert {"loss", "accuracy"} <= lines[1].keys()
    # measured after the last step, not repeated from step 10
    assert lines[2]["test_loss"] != lines[1]["test_loss"]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    arrays, state = run.load()
    assert state["step"] == 12 and state["run"] == run.config
    assert_same_arrays(arrays, trainer.arrays())


def test_the_last_line_is_not_measured_twice(make_trainer, new_run):
    run = new_run()
    run_training(make_trainer(larger(steps=10)), run)
    assert [line["step"] for line in run.metrics()] == [5, 10]
    assert "test_accuracy" in run.metrics()[-1]


# --- Optimizers -----------------------------------------------------------------------


OPTIMIZERS = {
    "adam": ({"beta1": 0.8, "beta2": 0.99, "epsilon": 1e-3}, optim.Adam),
    "sgd": ({"momentum": 0.9}, optim.SGD),
    "rmsprop": (
        {"rms_decay": 0.99, "epsilon": 0.1, "rms_variant": "tensorflow"},
        optim.RMSProp,
    ),
}


def test_the_optimizer_is_the_one_asked_for(make_trainer):
    """Beside a plain loop with one that is made here, its defaults being its own."""
    for name in OPTIMIZERS:
        for given in [False, True]:
            settings, kind = OPTIMIZERS[name]
            task = larger(
                optimizer=name, micro_batch_size=None, **(settings if given else {})
            )
            trainer = make_trainer(task, seed=2)
            own = {key.removeprefix("rms_"): value for key, value in settings.items()}
            model = task.build(np.random.SeedSequence(2).spawn(2)[0])
            optimizer = kind(model.parameters(), **(own if given else {}))
            assert type(trainer.optimizer) is kind
            for step in range(6):
                batch = trainer.stream.batch(step, 0, 50)
                with Tape() as tape:
                    total, count, *_ = task.loss(model, batch, None)
                tape.backward(total)
                optimizer.step(task.learning_rate(step), 1.0, scale=1 / count)
                optimizer.zero_grad()
                trainer.advance()
            np.testing.assert_array_equal(trainer.optimizer.data, optimizer.data)


def test_a_snapshot_stays_as_it_was_and_every_optimizer_goes_on_from_it(make_trainer):
    for name in OPTIMIZERS:
        for processes in KINDS:
            tasks = [larger(optimizer=name, **OPTIMIZERS[name][0]) for _ in range(2)]
            words = {"seed": 2, "workers": 2, "processes": processes}
            first, again = (make_trainer(task, **words) for task in tasks)
            steps(first, 4)
            arrays, state = first.arrays(), first.state()
            kept = {name: x.copy() for name, x in arrays.items()}
            steps(first, 4)
            assert_same_arrays(arrays, kept)
            again.restore(arrays, state)
            assert_same_arrays(again.arrays(), kept)
            assert_same_arrays(steps(again, 4).arrays(), first.arrays())
            assert first.optimizer.updates == 8
            first.restore(arrays, state)  # in the place of what it has
            assert_same_arrays(first.arrays(), kept)


class Stepwise(optim.SGD):
    """An optimizer of a task's own: it moves by the gradient's signs."""

    def _update(self, rate, finite):
        self.data -= rate * np.sign(self.gradient)


class Own(Larger):
    def optimizer(self, parameters, allocate):
        return Stepwise(parameters, allocate=allocate)

    def learning_rate(self, step):
        return 2.0**-8  # which parameters of 24 bits add exactly


def test_a_task_may_give_an_optimizer_of_its_own(make_trainer):
    for processes in KINDS:
        found = []
        for workers in (1, 2):
            trainer = make_trainer(Own(Config()), workers=workers, processes=processes)
            before = trainer.optimizer.data.copy()
            trainer.advance()
            found.append(trainer.optimizer.data - before)
        moved = np.abs(found[0])
        assert np.allclose(moved[moved > 0], 2.0**-8, rtol=1e-3) and moved.any()
        np.testing.assert_array_equal(*found)


# --- What learning needs --------------------------------------------------------------


def test_training_asks_nothing_of_what_reports_and_pictures_need(make_trainer, new_run):
    def refused(*_):
        raise AssertionError("training asked for what only reports need")

    hooks = (
        "presets grids published unit row batches batches_watched success "
        "describe parameters notes idle references cell is_final"
    ).split()
    kind = type("Bare", (Larger,), {})
    for name in hooks:
        setattr(kind, name, property(refused))
    trainer = make_trainer(kind(Config()), workers=2)
    assert run_training(trainer, new_run()) == "finished"


def test_a_task_sees_the_held_out_metrics_in_its_lines(make_trainer, new_run):
    task, seen = larger(), []
    task.place = lambda step: {"stage": step}
    task.observe = lambda step, line: seen.append((step, dict(line)))
    run = new_run()
    run_training(make_trainer(task), run)
    assert [step for step, _ in seen] == [5, 10]
    first, second = (line for _, line in seen)
    assert "test_loss" not in first and second["test_loss"] > 0
    written = run.metrics()
    assert written[1] == second and second["stage"] == 10
    # what was measured while training, what the task says, what is held out
    assert list(written[1])[-3:] == ["stage", "test_loss", "test_accuracy"]


# --- A task with defaults only --------------------------------------------------------


def test_a_task_that_gives_only_what_it_must_learns(make_trainer, new_run):
    run = new_run()
    often = {"log_every": 50, "evaluate_every": 100}
    task = larger(steps=300, learning_rate=1e-2, **often)
    trainer = make_trainer(task, workers=2)
    assert run_training(trainer, run) == "finished"
    assert run.metrics()[-1]["test_accuracy"] > 0.95
    assert task.references() == {} and task.describe(trainer.model) == "MLP"
    assert not any(hasattr(task, name) for name in ("pictures", "generate", "analyses"))


def test_a_piece_is_the_batch_on_a_gpu_unless_told_otherwise():
    gpu, config = object(), TrainConfig(batch_size=1600)
    assert (config.micro_batch(np), config.micro_batch(gpu)) == (256, 1600)
    config = TrainConfig(micro_batch_size=50)
    assert (config.micro_batch(np), config.micro_batch(gpu)) == (50, 50)


# --- A batch that is masked, and rates that cannot be ---------------------------------


class Masked(Larger):
    """Only the examples of some pieces count: those that `counts` of their first row.

    The rows of a batch are numbered.
    """

    counts = staticmethod(lambda first: True)

    def stream(self, model, seed):
        drawn = self.draw(np.random.default_rng(0), TRAIN.batch_size)
        drawn["row"] = np.arange(TRAIN.batch_size)
        return Epochs(drawn, TRAIN.batch_size, shuffle=False)

    def loss(self, model, batch, carry):
        total, count, _, carry = super().loss(model, batch, carry)
        if "row" in batch and not self.counts(batch["row"][0]):
            total, count = total * np.float32(0), 0
        return total, count, {}, carry


def test_a_piece_may_be_masked_but_not_a_whole_batch(make_trainer):
    for workers in [1, 2]:
        task = Masked(Config())
        task.counts = lambda first: first == 0  # of the first piece alone
        trainer = make_trainer(task, workers=workers, processes=False)
        trainer.advance()
        start, stop = trainer.shares.pieces[0]
        assert len(trainer.shares.pieces) > 1
        assert trainer.window.sums["loss"][1] == stop - start
        before = trainer.optimizer.data.copy()
        task.counts = lambda first: False
        with pytest.raises(TaskError, match=r"^Masked\.loss\(\) must give, beside the"):
            trainer.advance()
        np.testing.assert_array_equal(trainer.optimizer.data, before)


def test_where_sums_are_the_aim_a_batch_may_be_masked(make_trainer):
    task = Masked(Config(dataclasses.replace(TRAIN, objective="sum")))
    task.counts = lambda first: False
    trainer = make_trainer(task)
    before = trainer.optimizer.data.copy()
    trainer.advance()
    np.testing.assert_array_equal(trainer.optimizer.data, before)


def test_a_rate_that_cannot_be_is_told_with_its_step(make_trainer):
    """Also one that a schedule gives in the middle of a run."""
    for rate in [-1, None, np.nan, np.inf]:
        task = Larger(Config())
        task.learning_rate = lambda step: 0.1 if step < 2 else rate
        trainer = make_trainer(task)
        trainer.advance()
        trainer.advance()
        with pytest.raises(TaskError, match=r"^Larger\.learning_rate\(2\) must give a"):
            trainer.advance()
