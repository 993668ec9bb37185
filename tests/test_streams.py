"""Streams of batches: a batch is the same for everyone who asks for it.

And a finite set of examples, epoch after epoch.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyrmc.training.discovery import TaskError
from tinyrmc.training.streams import BLOCK, Epochs, Samples

COUNTS = st.integers(1, 150)
BATCHES = st.integers(1, 100)


def numbered(count, *words, **keywords):
    """Epochs over the numbers 0, 1, 2, ..."""
    return Epochs({"n": np.arange(count)}, *words, **keywords)


def numbers(stream, steps):
    """A stream's numbers in its first steps, in order."""
    parts = [stream.batch(step, 0, stream.batch_size)["n"] for step in range(steps)]
    return np.concatenate(parts)


# --- Epochs ---------------------------------------------------------------------------


@given(COUNTS, BATCHES, st.integers(0, 3))
def test_an_epoch_that_drops_brings_no_example_twice(count, batch, seed):
    if batch > count:
        with pytest.raises(ValueError, match="do not fill a batch"):
            numbered(count, batch, seed)
        return
    stream = numbered(count, batch, seed)
    assert stream.steps_per_epoch == count // batch
    for epoch in range(3):
        first = epoch * stream.steps_per_epoch
        steps = range(first, first + stream.steps_per_epoch)
        brought = np.concatenate([stream.batch(k, 0, batch)["n"] for k in steps])
        assert {stream.epoch(step) for step in steps} == {epoch}
        assert len(set(brought.tolist())) == len(brought) == count // batch * batch
        assert set(brought.tolist()) <= set(range(count))


@given(COUNTS, BATCHES, st.integers(0, 3))
def test_an_epoch_that_fills_brings_every_example_once(count, batch, seed):
    stream = numbered(count, batch, seed, last="fill")
    epochs = 3
    brought = numbers(stream, math.ceil(epochs * count / batch))
    for epoch in range(epochs):
        part = brought[epoch * count : (epoch + 1) * count]
        assert sorted(part.tolist()) == list(range(count))
    assert stream.steps_per_epoch == pytest.approx(count / batch)
    for step in range(5):
        assert stream.epoch(step) == step * batch // count


@given(
    st.integers(1, 300),
    st.integers(1, 200),
    st.sampled_from(["drop", "fill"]),
    st.booleans(),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_a_batch_is_the_same_however_it_is_cut(count, batch, last, noisy, step, random):
    batch = min(batch, count)

    def noise(rng, batch):
        return batch | {"z": rng.permutation(len(batch["n"]))}

    stream = numbered(count, batch, 7, last=last, vary=noise if noisy else None)
    whole = stream.batch(step, 0, batch)
    cuts = sorted({0, batch, *(random.randint(0, batch) for _ in range(3))})
    pairs = list(itertools.pairwise(cuts))
    random.shuffle(pairs)
    for start, stop in pairs:
        stream.batch(random.randint(0, 30), 0, 1)  # whatever was asked for before
        part = stream.batch(step, start, stop)
        assert part.keys() == whole.keys()
        for name, x in part.items():
            np.testing.assert_array_equal(x, whole[name][start:stop])


def test_every_epoch_has_an_order_of_its_own_which_the_seed_decides():
    orders = [numbers(numbered(40, 10, seed), 12).reshape(3, 40) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(orders[0], orders[1])
    every = [order.tolist() for order in np.concatenate(orders[1:])]
    assert all(a != b for a, b in itertools.combinations(every, 2))
    assert all(order != list(range(40)) for order in every)


def test_arrays_and_a_function_give_the_same():
    x, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50)
    arrays = Epochs({"x": x, "y": y}, 8, 3)
    function = Epochs(50, 8, 3, take=lambda rows: {"x": x[rows], "y": y[rows]})
    for step in range(15):
        ours, theirs = (stream.batch(step, 2, 7) for stream in (arrays, function))
        np.testing.assert_array_equal(ours["x"], x[ours["y"]])
        assert ours["x"].shape == (5, 3)
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_noise_is_another_in_each_step_and_leaves_the_examples_alone():
    x = np.zeros((200, 2))

    def vary(rng, batch):
        batch["x"] += rng.normal(size=batch["x"].shape)
        return batch

    stream = Epochs({"x": x}, 150, 3, last="fill", vary=vary)
    rows = np.concatenate([stream.batch(step, 0, 150)["x"] for step in range(4)])
    assert len(np.unique(rows, axis=0)) == 600 and not x.any()


# --- Samples --------------------------------------------------------------------------


def test_samples_depend_on_nothing_but_seed_step_and_block():
    def draw(rng, count, level):
        return {"x": rng.normal(size=count), "level": np.full(count, level)}

    def stream(seed=3):
        return Samples(draw, seed, choose=lambda rng: int(rng.integers(100)))

    whole = stream().batch(5, 0, 200)
    for start, stop in ((0, 1), (63, 65), (BLOCK, 2 * BLOCK), (150, 200)):
        part = stream().batch(5, start, stop)
        for name in whole:
            np.testing.assert_array_equal(part[name], whole[name][start:stop])
    assert len(set(whole["x"].tolist())) == 200 and len(set(whole["level"])) == 1
    others = [stream().batch(6, 0, 200), stream(4).batch(5, 0, 200)]
    assert all(set(o["x"].tolist()).isdisjoint(whole["x"].tolist()) for o in others)
    assert stream().state() == {}


def given_by(drawn):
    """Two streams whose functions give this for every block, whatever they are asked.

    And one that takes it for a whole batch.
    """
    return [
        Samples(lambda rng, count: drawn, 0),
        numbered(200, 200, vary=lambda rng, batch: drawn),
        Epochs(200, 200, take=lambda rows: drawn),
    ]


def test_blocks_of_other_rows_than_asked_for_are_refused():
    for drawn, says in [
        ({"x": np.zeros(64), "y": np.zeros(65)}, r"the array 'y' of {}.* shape \[65\]"),
        ({"x": np.zeros((16, 2))}, r"the array 'x' of {}.* shape \[16, 2\]; .* row"),
        ({"x": np.zeros(())}, r"the array 'x' of {}.* shape \[\]"),
        ((np.zeros(64), np.zeros(64)), "{} must return {{name: array}}, not a tuple"),
        (None, "{} must return {{name: array}}, not a NoneType"),
    ]:
        for name, stream in zip(("draw", "vary"), given_by(drawn), strict=False):
            with pytest.raises(TaskError, match=says.format(rf"{name}\(\)")):
                stream.batch(0, 0, 200)


def test_every_block_is_as_long_as_what_is_taken_for_it():
    """The last block of a batch is shorter; a `vary` may lose a row there alone."""

    def loses(rng, batch):
        return {"n": batch["n"][: min(len(batch["n"]), 7)]}

    stream = numbered(200, 200, vary=loses)
    with pytest.raises(TaskError, match=r"shape \[7\].* each of the 64 examples"):
        stream.batch(0, 0, 200)
    with pytest.raises(TaskError, match=r"shape \[7\].* each of the 8 examples"):
        stream.batch(0, 192, 200)
    none = Epochs(200, 100, take=lambda rows: {"n": rows[1:]})
    with pytest.raises(TaskError, match=r"'n' of take\(\).* of the 50 examples"):
        none.batch(0, 0, 50)
