"""The network of program_evaluation: states kept at each example's end, three ways of
answering, its sizes, and its loss.
"""

import itertools

import fakecupy
import numpy as np
import pytest
from programhelp import answered, mixed_batch, network_of, programs, task_of, texts_of
from tinytasks import changed

from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Tape
from tinyrmc.autograd.nested import leaves
from tinyrmc.backend import to_host
from tinyrmc.cores import LSTM, PaperRelationalMemory, RelationalMemory, core
from tinyrmc.cores.core import state_arrays
from tinyrmc.training.trainer import Trainer

# --- The state is kept at each example's end ------------------------------------------


class Pair(core.Core):
    """A core whose state is nested and which counts its steps."""

    def __call__(self, inputs, state, trace=None):
        (total, (count,)) = state
        return inputs, (total + inputs, (count + 1.0,))


F64 = np.float64
CORES = [
    lambda: RelationalMemory(5, 3, 2, 2, dtype=F64, seed=0),
    lambda: RelationalMemory(
        5, 3, 2, 2, gate_style=None, num_blocks=2, dtype=F64, seed=0
    ),
    lambda: PaperRelationalMemory(5, 3, 2, 2, dtype=F64, seed=0),
    lambda: LSTM(5, 4, dtype=F64, seed=0),
]


def test_nested_states_are_kept_too():
    inputs = np.arange(12.0).reshape(2, 3, 2)
    _, (total, (count,)) = Pair().unroll(
        inputs, (np.zeros((2, 2)), (np.zeros(2),)), lengths=np.array([1, 3])
    )
    np.testing.assert_array_equal(total.data, [inputs[0, 0], inputs[1].sum(0)])
    np.testing.assert_array_equal(count.data, [1, 3])


def test_the_last_state_is_unrolls_with_its_gradients(xp):
    for make in CORES:
        for count in [1, 5, 37]:
            rng = np.random.default_rng(count)
            inputs = xp.asarray(rng.standard_normal((count, 6, 5)))
            lengths, model = xp.asarray(rng.integers(0, 7, count)), make().to(xp)
            both = []
            for drops_out in (True, False):
                with Tape() as tape:
                    seen, state = tape.watch(inputs), model.initial_state(count)
                    if drops_out:
                        state = model.last_state(seen, state, lengths)
                    else:
                        state = model.unroll(seen, state, lengths=lengths)[1]
                    loss = sum(p.sum(p.sin(part)) for part in leaves(state))
                found = tape.gradient(loss, [seen, *model.parameters()], strict=False)
                parts = state_arrays(state).values()
                both.append([*map(to_host, [*parts, *found])])
            for ours, theirs in zip(*both, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_examples_that_have_ended_cost_no_steps():
    counted = []

    class Counting(Pair):
        def __call__(self, inputs, state, trace=None):
            counted.append(len(inputs.data))
            return super().__call__(inputs, state)

    lengths = np.repeat([2, 9, 0, 4], 16)
    inputs = np.ones((64, 10, 3))
    state = np.zeros((64, 3)), (np.zeros(64),)
    core = Counting()
    total, (count,) = core.last_state(inputs, state, lengths.astype(np.uint8))
    np.testing.assert_array_equal(count.data, lengths)
    np.testing.assert_array_equal(total.data[:, 0], lengths)
    assert sum(counted) == lengths.sum() and len(counted) == 9


# --- The network ----------------------------------------------------------------------


DECODERS = ["zeros", "teacher", "own_predictions"]


def test_a_batch_is_answered_like_each_example_alone():
    cores = ["rmc", "rmc_paper", "lstm"]
    for decoder, kind, share_core in itertools.product(DECODERS, cores, [True, False]):
        words = {"core": kind, "share_core": share_core}
        task = task_of(words, kind="program", length=2, nesting=2)
        model, batch, steps = network_of(task), mixed_batch(task), task.layout.answers
        assert len(set(batch["lengths"].tolist())) > 2
        together = answered(model, batch, decoder, steps).data
        assert together.shape == (steps, 6, 45)
        for k, length in enumerate(batch["lengths"]):
            row = slice(k, k + 1)
            inputs, targets = batch["inputs"][row, :length], batch["targets"][row]
            alone = model(inputs, np.array([length]), steps, decoder, targets).data
            np.testing.assert_allclose(together[:, k], alone[:, 0], 1e-9, 1e-12)


def one_hot(symbol):
    row = np.zeros((1, 45))
    row[0, symbol] = 1
    return row


def test_what_is_fed_to_the_answering_core():
    """Each way of answering, written out for one example."""
    for share_core in [True, False]:
        task = task_of({"share_core": share_core}, kind="addition", length=2)
        model, batch = network_of(task), mixed_batch(task, 1, seed=3)
        core = model.core if share_core else model.answering
        start = programs.SYMBOLS["release"].index("~")
        for decoder in DECODERS:
            state, logits = model.core.initial_state(1), []
            for symbol in batch["inputs"][0, : batch["lengths"][0]]:
                _, state = model.core(one_hot(symbol), state)
            before = start
            for t in range(3):
                fed = np.zeros((1, 45)) if decoder == "zeros" else one_hot(before)
                output, state = core(fed, state)
                logits.append(model.head(output).data[0])
                before = int(logits[-1].argmax())
                if decoder == "teacher":
                    before = batch["targets"][0, t]
            found = answered(model, batch, decoder, 3).data[:, 0]
            np.testing.assert_allclose(found, logits, rtol=1e-9, atol=1e-12)


def test_a_network_taught_its_own_answers_gives_them():
    task = task_of(kind="program", length=2, nesting=2)
    model, batch, steps = network_of(task), mixed_batch(task), task.layout.answers
    # so that answers differ
    model.head.layers[-1].weight.data = 30 * model.head.layers[-1].weight.data
    free = answered(model, batch, "own_predictions", steps).data
    own = free.argmax(-1).T
    assert len({tuple(answer) for answer in own}) > 1
    taught = answered(model, {**batch, "targets": own}, "teacher", steps).data
    np.testing.assert_allclose(taught, free, rtol=1e-9, atol=1e-12)
    other = {**batch, "targets": (own + 1) % 45}
    assert not np.allclose(answered(model, other, "teacher", steps).data[1:], free[1:])
    for decoder in "own_predictions", "zeros":  # these read no targets
        both = [answered(model, x, decoder, steps).data for x in (batch, other)]
        np.testing.assert_array_equal(*both)
    last = {**batch, "targets": np.where(np.arange(steps) == steps - 1, 7, own)}
    # the last target is fed to nobody
    np.testing.assert_array_equal(answered(model, last, "teacher", steps).data, taught)


def test_training_and_testing_may_answer_differently():
    for decoder, evaluation in itertools.product(DECODERS, [*DECODERS, None]):
        words = {"decoder": decoder, "evaluation_decoder": evaluation}
        task = task_of(words, kind="copy", length=2)
        model, batch = network_of(task), mixed_batch(task)
        asked = []
        spy = lambda *args: asked.append(args[3]) or model(*args)  # noqa: E731
        task.loss(spy, batch, None)
        task.test_examples = 5
        task.evaluate(spy)
        assert asked == [decoder, evaluation or decoder]


def test_the_networks_are_the_papers():
    """Four layers of 256 ReLU units on the core's output, then the logits of the 45
    symbols; sizes of the presets.
    """
    for preset, (_, config) in programs.Task.presets.items():
        sizes = {"mem_slots": 2, "head_size": 2, "num_heads": 1}
        small = changed(config, model=sizes)
        model = programs.Task(small).build(np.random.SeedSequence(0))
        shapes = [
            q.shape for name, q in model.named_parameters() if name.startswith("head.")
        ]
        inner = [(256, 256), (256,)] * 3
        assert shapes == [(4, 256), (256,), *inner, (256, 45), (45,)], preset
        assert [layer.relu for layer in model.head.layers] == [True] * 4 + [False]
    model = programs.PAPER.model
    assert model.mem_slots * model.num_heads * model.head_size == 2048


# --- Loss and metrics -----------------------------------------------------------------


def test_loss_and_metrics_are_what_they_say():
    for loss_mean in ["places", "characters"]:
        task = task_of({"loss_mean": loss_mean}, kind="program", length=2, nesting=2)
        model = network_of(task)
        batch = mixed_batch(task, 40)
        logits = answered(model, batch, "zeros", task.layout.answers).data
        likely = logits.argmax(-1)  # (T', B)
        # half of them get answers that the network gives, one with a mistake, so that
        # there is something to count
        for k in range(20):
            batch["targets"][k] = likely[:, k]
        batch["targets"][0, 0] = (batch["targets"][0, 0] + 1) % 45
        total = right = count = whole = other_right = other_count = 0
        for k, size in enumerate(batch["target_lengths"]):
            hits = [bool(likely[t, k] == batch["targets"][k, t]) for t in range(size)]
            total += sum(
                np.log(np.exp(logits[t, k]).sum())
                - logits[t, k, batch["targets"][k, t]]
                for t in range(size)
            )
            right, count, whole = right + sum(hits), count + size, whole + all(hits)
            example = {name: x[k : k + 1] for name, x in batch.items()}
            example |= {"targets": np.full((1, 1), 4), "target_lengths": [1]}
            if "*" not in texts_of(example, "release")[0][0]:
                other_right, other_count = other_right + sum(hits), other_count + size
        loss, divisor, metrics, carry = task.loss(model, batch, None)
        assert loss.data == pytest.approx(total, rel=1e-9) and carry is None
        assert divisor == (40 * 2 * 2 if loss_mean == "places" else count)
        assert metrics["accuracy"] == (right, count)
        assert metrics["exact_match_accuracy"] == (whole, 40)
        assert metrics["accuracy_without_products"] == (other_right, other_count)
        assert 19 <= whole < 40
        assert 0 < other_count < count


def test_what_lies_beyond_the_end_changes_nothing():
    task = task_of(kind="program", length=3, nesting=2)
    batch, model = mixed_batch(task, 20), network_of(task)

    def measured(batch):
        with Tape() as tape:
            loss, _, metrics, _ = task.loss(model, batch, None)
        return [loss.data, *np.concatenate(list(metrics.values()))], tape.gradient(
            loss, model.parameters(), strict=False
        )

    noise, other = np.random.default_rng(0), {**batch}
    for symbols, lengths in (("inputs", "lengths"), ("targets", "target_lengths")):
        inside = np.arange(batch[symbols].shape[1]) < batch[lengths][:, None]
        other[symbols] = np.where(
            inside, batch[symbols], noise.integers(45, size=batch[symbols].shape)
        )
    assert not np.array_equal(other["inputs"], batch["inputs"])
    (ours, gradients), (theirs, others) = measured(batch), measured(other)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    for one, two in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def test_every_way_of_answering_runs_on_a_device(monkeypatch):
    for model in [
        {"decoder": "teacher"},
        {"decoder": "own_predictions", "share_core": False},
        {"loss_mean": "characters"},
    ]:
        with monkeypatch.context() as patch:
            fakecupy.installed(patch)
            data = {"kind": "program", "length": 2, "nesting": 2}
            host, there = (
                Trainer(task_of(model, **data), 3, device=device)
                for device in ("cpu", "cuda")
            )
            for _ in range(2):
                with fakecupy.no_sync(), fakecupy.only(np.float32):
                    there.advance()
                with fakecupy.nothing_drops_out():
                    host.advance()
            theirs = there.optimizer.data.get()
            np.testing.assert_array_equal(theirs, host.optimizer.data)
            assert there.read() == pytest.approx(host.read(), rel=1e-5)
