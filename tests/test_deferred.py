"""Gradients that a rule leaves to be computed later, and tables of rows."""

import itertools
import tracemalloc

import numpy as np
import pytest
from fakecupy import no_sync

from tinyrmc import Parameter, Tape, fused, nn
from tinyrmc import primitives as p
from tinyrmc.autograd import gradients
from tinyrmc.autograd.gradients import ENOUGH_ROWS
from tinyrmc.backend import add_rows, compiles, gemm, sorting, to_host


@pytest.fixture
def made(monkeypatch):
    """The shapes of the products that the tape itself makes."""
    shapes = []

    def counting(a, b, **where):
        shapes.append((a.shape, b.shape))
        return gemm(a, b, **where)

    monkeypatch.setattr(gradients, "gemm", counting)
    return shapes


def steps_of(weight, inputs, bias=None):
    """A loss in which one weight has multiplied each of the inputs."""
    total = 0.0
    for x in inputs:
        total = total + p.sum(p.square(fused.linear(x, weight, bias)))
    return total


# --- One product for many steps -------------------------------------------------------


def test_the_steps_of_a_weight_are_one_product(xp, made):
    if compiles(xp):
        pytest.skip("on a GPU each product is made at once")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 5, 3))
    weight, bias = Parameter(xp.asarray(rng.standard_normal((3, 2)))), None
    bias = Parameter(xp.asarray(rng.standard_normal(2)))
    with Tape() as tape:
        loss = steps_of(weight, xp.asarray(x), bias)
    tape.backward(loss)
    assert made == [((3, 35), (35, 2))]  # and a sum for the bias
    rows = x.reshape(-1, 3)
    g = 2 * (rows @ to_host(weight.data) + to_host(bias.data))
    np.testing.assert_allclose(to_host(weight.grad), rows.T @ g, rtol=1e-12)
    np.testing.assert_allclose(to_host(bias.grad), g.sum(0), rtol=1e-12)


def test_enough_rows_are_not_held_any_longer(made):
    """So many rows that waiting gains nothing are multiplied at once."""
    weight, each = Parameter(np.ones((3, 2))), ENOUGH_ROWS // 2
    with Tape() as tape:
        loss = steps_of(weight, np.ones((5, each, 3)))
    tape.backward(loss)
    assert [a[1] for a, _ in made] == [2 * each, 2 * each, each]
    expected = 5 * each * np.full((3, 2), 2 * 3.0)
    np.testing.assert_allclose(weight.grad, expected, rtol=1e-12)


def test_what_is_held_does_not_grow_with_the_steps():
    """Backward over 400 steps of 64 rows: those of ENOUGH_ROWS beside its own."""
    width, rows = 64, 64
    weight = Parameter(np.full((width, width), 0.01))
    tracemalloc.start()
    try:
        with Tape() as tape:
            x = np.ones((rows, width))
            for _ in range(400):
                x = p.tanh(fused.linear(x, weight))
            loss = p.sum(x)
            del x
        forward, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        tape.backward(loss)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    array = rows * width * 8
    assert forward > 400 * array
    # two arrays of ENOUGH_ROWS and the step's, their joined copies, and a few more
    assert peak - forward < (4 * (ENOUGH_ROWS // rows + 1) + 8) * array


def test_a_gradient_is_complete_whatever_came_deferred(xp):
    """Products, rows and plain arrays for one value, in any order."""
    rng = np.random.default_rng(1)
    w, x, a = (rng.standard_normal(s) for s in ((4, 3), (2, 4), (4, 3)))
    ids = np.array([3, 0, 3])

    def uses(w, x, a, ids):
        yield p.sum(p.square(fused.embedding(w, ids)))
        yield p.sum(w * a)
        yield p.sum(p.square(p.matmul(x, w)))
        yield p.sum(p.tanh(fused.embedding(w, ids)))
        yield p.sum(p.square(fused.linear(x, w)))

    expected = np.zeros((4, 3))
    np.add.at(expected, ids, 2 * w[ids] + 1 - np.tanh(w[ids]) ** 2)
    expected += a + 4 * x.T @ (x @ w)
    device = [xp.asarray(each) for each in (x, a, ids)]
    weight = Parameter(xp.asarray(w))
    for order in (0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3):
        weight.grad[...] = 0

        def record(leaf, order=order):
            with Tape() as tape:
                leaf = leaf(tape)
                losses = list(uses(leaf, *device))
                loss = losses[order[0]]
                for k in order[1:]:
                    loss = loss + losses[k]
            return tape, loss, leaf

        tape, loss, _ = record(lambda tape: weight)
        tape.backward(loss)
        watched = record(lambda tape: tape.watch(weight.data))
        parameter = record(lambda tape: weight)
        inner = record(lambda tape: tape.watch(weight.data) * 1.0)
        found = [weight.grad]
        found += [tape.gradient(loss, leaf) for tape, loss, leaf in (watched, inner)]
        found += [parameter[0].gradient(parameter[1], weight)]
        for gradient in found:
            np.testing.assert_allclose(to_host(gradient), expected, rtol=1e-12)


def test_a_gradient_that_nobody_wants_is_not_computed(made):
    weight, other = Parameter(np.ones((3, 2))), Parameter(np.ones((3, 2)))
    with Tape() as tape:
        loss = steps_of(weight, np.ones((2, 4, 3))) + steps_of(
            other, np.ones((1, 4, 3))
        )
    assert (tape.gradient(loss, other) == 24).all()
    assert made == [((3, 4), (4, 2))]


# --- Rows of a table ------------------------------------------------------------------


def test_add_rows_adds_every_row(xp):
    for count, size in itertools.product((0, 1, 2, 3, 8, 9, 500), (1, 7, 1000)):
        rng = np.random.default_rng(count)
        ids, rows = rng.integers(0, size, count), rng.standard_normal((count, 3))
        total = rng.standard_normal((size, 3))
        expected = total.copy()
        np.add.at(expected, ids, rows)
        there = xp.asarray(total)
        device = xp.asarray(ids), xp.asarray(rows)
        with no_sync():
            add_rows(there, *device)
        np.testing.assert_allclose(to_host(there), expected, rtol=1e-12, atol=1e-13)


def test_sorting_keeps_the_order_of_equal_numbers(xp):
    for shape, axis in itertools.product(
        ((0,), (1,), (9,), (3, 7), (2, 4, 5)), (0, -1)
    ):
        rng = np.random.default_rng(len(shape))
        for x in rng.integers(-2, 3, shape), rng.standard_normal(shape):
            with no_sync():
                order = sorting(xp.asarray(x), axis)
            expected = np.argsort(x, axis=axis, kind="stable")
            np.testing.assert_array_equal(to_host(order), expected)


def test_add_rows_touches_no_other_row():
    total = np.full((5, 2), np.inf, np.float32)
    total[[1, 3]] = 0
    add_rows(total, np.array([3, 1, 3], np.int32), np.ones((3, 2), np.float32))
    assert total.tolist() == [[np.inf] * 2, [1, 1], [np.inf] * 2, [2, 2], [np.inf] * 2]
    assert total.dtype == np.float32


def test_the_gradient_of_a_large_table_makes_no_second_one():
    """Backward into the table's own buffer allocates what the batch's rows need."""
    table = nn.Embedding(50_000, 16, seed=0)
    ids = np.arange(35).reshape(7, 5)
    with Tape() as tape:
        loss = p.sum(p.square(table(ids)))
    tracemalloc.start()
    tape.backward(loss)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < table.weight.grad.nbytes / 10
    rows = table.weight.data[:35]
    np.testing.assert_array_equal(table.weight.grad[:35], 2 * rows)
    assert not table.weight.grad[35:].any()


def test_ids_out_of_range_are_named_where_looking_costs_nothing(xp):
    table = nn.Embedding(6, 2, seed=0).to(xp)
    for bad in -1, 6, 100:
        ids = xp.asarray(np.array([0, bad, 5]))
        if xp is np:
            with pytest.raises(IndexError, match=rf"{bad} is none of 0 \.\. 5;\nids"):
                table(ids)
        else:
            with no_sync():
                assert table(ids).shape == (3, 2)
    with pytest.raises(TypeError, match="indices are float64, not integers"):
        table(xp.ones(3))


def test_how_an_embedding_starts():
    """As Sonnet's Embed, whatever the size of the table."""
    weight = nn.Embedding(9000, 64, seed=1).weight.data
    assert weight.dtype == np.float32
    assert np.abs(weight).max() <= 2 / 8
    assert weight.std() == pytest.approx(0.88 / 8, rel=0.01)
    assert not weight.mean(axis=1).max() > 0.1  # all rows are drawn
    assert weight[8999].std() > 0.05
    again, other = (nn.Embedding(9000, 64, seed=s).weight.data for s in (1, 2))
    assert np.array_equal(weight, again) and not np.array_equal(weight, other)
    wide = nn.Embedding(1000, 64, std=0.5, seed=0).weight.data
    assert wide.std() == pytest.approx(0.44, rel=0.01)
    rng = np.random.default_rng(
        1
    )  # drawn 4,096 rows at a time: values are kept by this
    for part in np.split(weight, [4096, 8192]):
        assert np.array_equal(part, nn.truncated_normal(rng, part.shape, 1 / 8, "f4"))
