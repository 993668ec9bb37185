"""Tasks so small that a step takes a millisecond.

And what tests of training ask of runs of such tasks.
"""

import dataclasses
import itertools
import os
import signal

import numpy as np
import pytest

from tinyrmc import LSTM, nn, primitives
from tinyrmc.fused import softmax_cross_entropy
from tinyrmc.training import Epochs, Samples, Stream, Task, TrainConfig
from tinyrmc.training.discovery import load_task
from tinyrmc.training.loop import Listener, run_training
from tinyrmc.training.workers import CAN_FORK

nth_farthest = load_task("nth_farthest")
forks = pytest.mark.skipif(not CAN_FORK, reason="needs fork")
KINDS = [False, True] if CAN_FORK else [False]

# Nothing here divides anything else evenly: pieces are of unequal length, and runs stop
# between two lines of metrics.
TRAIN = TrainConfig(
    steps=12,
    batch_size=50,
    micro_batch_size=16,
    learning_rate=3e-3,
    warmup_steps=4,
    cosine_fraction=0.5,
    log_every=5,
    evaluate_every=10,
)


@dataclasses.dataclass(frozen=True)
class Config:
    train: TrainConfig = TRAIN


class Larger(Task):
    """A task with nothing but what it must have: which of two numbers is larger?"""

    presets = {"tiny": ("two numbers", Config())}

    def build(self, seed):
        return nn.MLP(2, [8, 2], seed=np.random.default_rng(seed))

    def draw(self, rng, count):
        inputs = rng.normal(size=(count, 2)).astype(np.float32)
        return {"inputs": inputs, "target": inputs.argmax(1)}

    def loss(self, model, batch, carry):
        logits = model(batch["inputs"])
        losses = softmax_cross_entropy(logits, batch["target"])
        right = (logits.data.argmax(1) == batch["target"]).sum()
        metrics = {"accuracy": (right, losses.size)}
        return primitives.sum(losses), losses.size, metrics, None


class RunningSum(Task):
    """A task with a carry: the sign of the sum of all numbers so far.

    Each step brings one more.
    """

    presets = {"tiny": ("numbers one by one", Config())}
    headline = "loss"
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
        target = (total[:, 0] > 0).astype(int)
        losses = softmax_cross_entropy(model.head(output), target)
        arrays = {"hidden": state[0].data, "cell": state[1].data, "total": total}
        seen = {"seen": (0 if carry is None else rows, rows)}
        return primitives.sum(losses), rows, seen, arrays


class Finite(Larger):
    """`Larger` on 120 examples, epoch after epoch.

    An epoch has two batches of 50, and 20 examples that are left out, or that come
    together with the next epoch's.
    """

    last = "drop"

    def stream(self, model, seed):
        self.epochs = Epochs(
            self.draw(np.random.default_rng(0), 120),
            self.config.train.batch_size,
            seed,
            last=self.last,
        )
        return self.epochs

    def held_out(self):
        examples = self.draw(np.random.default_rng(1), 30)
        return Epochs(examples, batch_size=30, shuffle=False)

    test_examples = 30


class BPTTBatches(Stream):
    """Windows of a long text of 0 and 1, in as many lanes as a batch has rows.

    Row k of each batch goes on where row k of the last one stopped.
    """

    random_access = True

    def __init__(self, rows, window):
        self.window = window
        text = np.random.default_rng(0).integers(2, size=(rows, 100))
        # some order, to be learnt
        self.lanes = (text | np.roll(text, 1)).cumsum(axis=1) % 2

    def batch(self, step, start, stop):
        first = step * self.window
        window = self.lanes[start:stop, first : first + self.window + 1]
        return {"x": window[:, :-1].astype(np.float32), "next": window[:, 1:]}


class Text(Task):
    """A language model: which symbol comes next?

    Backpropagation through a window, the state being carried from window to window.
    """

    presets = {"tiny": ("zeros and ones", Config())}
    headline = "loss"
    carries = True
    test_examples = 20

    def build(self, seed):
        network = nn.Module()
        network.core, network.head = LSTM(1, 4, seed=1), nn.Linear(4, 2, seed=2)
        return network

    def stream(self, model, seed):
        return BPTTBatches(self.config.train.batch_size, window=3)

    def held_out(self):
        return BPTTBatches(self.test_examples, window=20)

    def loss(self, model, batch, carry):
        state = model.core.initial_state(len(batch["x"]))
        if carry is not None:
            state = carry["hidden"], carry["cell"]
        outputs, (hidden, cell) = model.core.unroll(batch["x"][..., None], state)
        total = sum(
            primitives.sum(softmax_cross_entropy(model.head(output), target))
            for output, target in zip(outputs, batch["next"].T, strict=True)
        )
        carried = {"hidden": hidden.data, "cell": cell.data}
        return total, batch["next"].size, {}, carried


def changed(config, **parts):
    """A configuration with other values in its parts: model={"core": "lstm"}."""
    for name, values in parts.items():
        part = dataclasses.replace(getattr(config, name), **values)
        config = dataclasses.replace(config, **{name: part})
    return config


def relations(core="rmc", **train):
    """Nth farthest with a tiny network and a ladder that is climbed in a few steps."""
    model = nth_farthest.CoreConfig(
        core=core, mem_slots=2, head_size=2, num_heads=2, hidden_size=5
    )
    data = nth_farthest.DataConfig(
        objects=4, dimensions=2, stages=((2, 1), (3, 1)), promotion_threshold=0.01
    )
    train = dataclasses.replace(TRAIN, **train)
    task = nth_farthest.Task(nth_farthest.Config(model, data, train=train))
    task.test_examples = 100
    return task


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


def assert_same_arrays(one, other):
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


class Heard(Listener):
    """Keeps what a run has told."""

    def __init__(self):
        self.steps, self.lines = [], []

    def step(self, step):
        self.steps.append(step)

    def line(self, line):
        self.lines.append(line)


def timeless(lines):
    return [
        {name: value for name, value in line.items() if name != "seconds"}
        for line in lines
    ]


def observed(task, step, metrics):
    """Where the task stands in this line of metrics, which it then observes."""
    place = task.place(step)
    task.observe(step, place | metrics)
    return place


def steps(trainer, count):
    """The trainer, so many steps on."""
    for _ in range(count):
        trainer.advance()
    return trainer


def stop_at(task, step, number=signal.SIGTERM):
    """Send this process a signal while a step is computed: the `step`-th from now.

    The step is finished, then the run stops.
    """
    steps = itertools.count(1)
    task.after_update = lambda model: (
        os.kill(os.getpid(), number) if next(steps) == step else None
    )
    return task


def resumed(trainer, run):
    """A new trainer that goes on with a run."""
    arrays, state = run.load()
    trainer.restore(arrays, state)
    run.truncate_metrics(state["lines"])
    return trainer


class PowerCut(BaseException):
    """Ends a run without a chance to save."""


def power_cut(*_):
    raise PowerCut


def assert_finishes(again, broken, make, new_run):
    """A trainer that goes on with a broken run ends like one that never was.

    To the last bit. Returns the trainer of that other run, and the run.
    """
    whole, reference = new_run(), make()
    assert run_training(reference, whole) == "finished"
    assert run_training(again, broken) == "finished"
    assert_same_arrays(again.arrays(), reference.arrays())
    assert timeless(broken.metrics()) == timeless(whole.metrics())
    return reference, whole


def assert_goes_on(make, new_run, stop):
    """A run that stops after `stop` steps goes on as if it never had, to the last bit.

    Returns the trainer of one that was not stopped, that of the stopped one's second
    half, and both runs.
    """
    broken, stopped = new_run(), make()
    stop_at(stopped.task, stop)
    assert run_training(stopped, broken) == "SIGTERM" and stopped.step == stop
    stopped.workers.close()
    again = resumed(make(), broken)
    assert again.step == stop and again.seconds == stopped.seconds
    assert_same_arrays(again.arrays(), stopped.arrays())
    reference, whole = assert_finishes(again, broken, make, new_run)
    assert broken.metrics()[-1]["seconds"] >= stopped.seconds - 0.01  # rounded
    return reference, again, whole, broken
