"""The softmax cross-entropy over a large vocabulary, in tiles: whatever their size, it
is the plain one.
"""

import tracemalloc

import autograd
import autograd.numpy as hips
import numpy as np
import pytest
from turns import in_turn

from tinyrmc import Parameter, Tape, fused, optim
from tinyrmc import primitives as p
from tinyrmc.backend import to_host

ROWS, WORDS, WIDTH = 5, 7, 3
TILINGS = [
    {"block": block, "keep": keep}
    for block in range(1, 9)
    for keep in (0, 1, block * block, 4 * block, ROWS * WORDS, None)
]
every_tiling = in_turn("tiling", TILINGS)


def problem(rows=ROWS, words=WORDS, width=WIDTH, dtype=np.float64, scale=1.0):
    random = np.random.default_rng(0)
    shapes = (rows, width), (words, width), words
    x, weight, bias = (scale * random.standard_normal(s).astype(dtype) for s in shapes)
    return x, weight, random.integers(words, size=rows), bias


def plain(xp, x, weight, targets, bias):
    """-log p[target], row by row."""
    losses = []
    for row, target in zip(x, targets, strict=True):
        logits = xp.dot(weight, row) + bias
        highest = xp.max(logits)
        total = xp.sum(xp.exp(logits - highest))
        losses.append(xp.log(total) + highest - logits[target])
    return xp.stack(losses)


def ours(x, weight, targets, bias, row_weights, **static):
    """Losses, and their weighted sum's gradients with respect to x, weight and bias."""
    with Tape() as tape:
        leaves = [tape.watch(a) for a in (x, weight, bias)]
        losses = fused.linear_cross_entropy(
            leaves[0], leaves[1], targets, leaves[2], **static
        )
        loss = p.sum(losses * row_weights)
    return losses.data, *tape.gradient(loss, leaves)


@pytest.fixture(scope="module")
def expected():
    """The losses of `problem` and their gradients, by HIPS autograd."""
    x, weight, targets, bias = problem()
    row_weights = np.linspace(-1, 2, ROWS)

    def loss(x, weight, bias):
        return hips.sum(plain(hips, x, weight, targets, bias) * row_weights)

    gradients = autograd.grad(loss, argnum=(0, 1, 2))(x, weight, bias)
    return plain(np, x, weight, targets, bias), *gradients


@every_tiling
def test_any_tiles_give_the_plain_values_and_gradients(tiling, expected):
    found = ours(*problem(), np.linspace(-1, 2, ROWS), **tiling)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@in_turn("tiling", [{}, {"block": 64}, {"block": 64, "keep": 0}])
def test_float32_stays_close_to_float64(tiling):
    size = 150, 1000, 20
    weights = np.ones(150)
    exact = ours(*problem(*size), weights, **tiling)
    single = [
        a.astype(np.float32) if a.dtype.kind == "f" else a
        for a in (*problem(*size), weights)
    ]
    for found, other in zip(ours(*single, **tiling), exact, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, other, atol=3e-6 * np.abs(other).max())


@in_turn("tiling", [{}, {"block": 2}, {"block": 2, "keep": 0}])
@in_turn("dtype", [np.float32, np.float64])
def test_logits_of_ten_thousand(tiling, dtype):
    """One far above all others comes in the last tile, or in the first."""
    x = np.array([[1e4], [-1e4], [1e4], [-1e4]], dtype)
    weight = np.array([[-1], [0], [0.5], [-1], [1]], dtype)
    targets, weights = np.array([4, 0, 0, 3]), np.ones(4, dtype)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        losses, gx, gweight, gbias = ours(
            x, weight, targets, np.zeros(5, dtype), weights, **tiling
        )
    np.testing.assert_allclose(losses, [0, np.log(2), 2e4, np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(gx, [[0], [0], [2], [0]], atol=1e-6)
    np.testing.assert_allclose(gbias, [-1, 0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(gweight[:, 0], [-1e4, 0, 0, 0, 1e4], atol=1e-3)


@in_turn("keep", [0, None])
@in_turn("forbidden", [slice(0, 4), slice(2, 4), slice(0, 3)])
def test_words_that_are_forbidden(forbidden, keep):
    """A bias of -inf for a whole tile of them, or for more or fewer."""
    x, weight, targets, bias = problem()
    bias[forbidden], targets = -np.inf, np.full(ROWS, 5)
    row_weights = np.arange(1.0, ROWS + 1)
    results = ours(x, weight, targets, bias, row_weights, block=2, keep=keep)
    with fused.plain():
        expected = ours(x, weight, targets, bias, row_weights)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_without_bias_and_with_more_axes():
    x, weight, targets, _ = problem(6)
    flat = fused.linear_cross_entropy(x, weight, targets, block=2)
    with_zeros = fused.linear_cross_entropy(x, weight, targets, np.zeros(WORDS))
    np.testing.assert_allclose(flat.data, with_zeros.data, rtol=1e-13)
    cube = fused.linear_cross_entropy(
        x.reshape(2, 3, WIDTH), weight, targets.reshape(2, 3), block=2
    )
    np.testing.assert_array_equal(cube.data, flat.data.reshape(2, 3))
    nothing = fused.linear_cross_entropy(x[:0], weight, targets[:0])
    assert nothing.shape == (0,)


def test_gradients_are_added_to_what_there_is():
    """To a tied weight, to a buffer, and to a value that others use too."""
    x, weight, targets, bias = problem()
    ids, expected = np.array([0, 3, 3, 6, 1]), {}
    for tiling in {}, {"block": 2, "keep": 8}:
        embedding, offset = Parameter(weight), Parameter(bias)
        optimizer = optim.SGD([offset, embedding])
        for doubled in False, True:
            with Tape() as tape:
                h = p.tanh(p.take(embedding, ids, axis=0))
                losses = fused.linear_cross_entropy(
                    h + x, embedding, targets, offset, **tiling
                )
                loss = p.sum(losses) + p.sum(h * h) if doubled else p.sum(losses)
            optimizer.zero_grad()
            tape.backward(loss)
            tape_again = [embedding.grad.copy(), offset.grad.copy()]
            before = expected.setdefault(doubled, tape_again)
            for one, other in zip(tape_again, before, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)

    def loss(table):
        h = hips.tanh(hips.dot(np.eye(WORDS)[ids], table))
        return hips.sum(plain(hips, h + x, table, targets, bias)) + hips.sum(h * h)

    np.testing.assert_allclose(expected[True][0], autograd.grad(loss)(weight))


@in_turn("last", [True, False])
def test_the_gradient_of_a_value_that_others_use(last):
    """u + v gives u and v one and the same array, which is not written over."""
    x, weight, targets, _ = problem()

    with Tape() as tape:
        t = tape.watch(x)
        u, v = t * 2.0, t * 3.0
        losses = [fused.linear_cross_entropy(u, weight, targets), (u + v) * x]
        if last:
            losses = [(u + v) * x, fused.linear_cross_entropy(u, weight, targets)]
        loss = p.sum(losses[0]) + p.sum(losses[1])
    found = tape.gradient(loss, t)
    _, gx, *_ = ours(2 * x, weight, targets, np.zeros(WORDS), np.ones(ROWS))
    np.testing.assert_allclose(found, 2 * gx + 5 * x, rtol=1e-12)


def test_memory_does_not_grow_with_rows_times_words():
    """Neither that of the logits nor that of a second gradient of the weight."""
    x, weight, targets, bias = problem(1000, 16_000, 20, np.float32)
    logits = 1000 * 16_000 * x.itemsize
    parameters = [Parameter(a) for a in (x, weight, bias)]
    tracemalloc.start()
    try:
        with Tape() as tape:
            losses = fused.linear_cross_entropy(
                parameters[0], parameters[1], targets, parameters[2], block=100, keep=0
            )
            loss = p.sum(losses)
        tape.backward(loss)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < weight.nbytes < logits / 10


@in_turn("keep", [0, 1, 5, 12, 13, 26, 30, 34, 35, 36])
def test_no_more_is_kept_than_allowed(keep):
    """And no less, but for the tile that does not fit."""
    x, weight, targets, _ = problem()
    with Tape() as tape:
        fused.linear_cross_entropy(tape.watch(x), weight, targets, block=2, keep=keep)
    (*_, saved, _) = tape.entries[0]
    (kept,) = [part for part in saved if isinstance(part, list)]
    sizes = sum(e.size for tiles in kept for e, _ in tiles)
    assert min(keep, ROWS * WORDS) - 4 < sizes <= keep


def test_what_is_refused(xp):
    x, weight, *_ = (xp.asarray(a) for a in problem())

    def refused(kind, says, targets, weight=weight):
        with pytest.raises(kind, match=f"(?s)linear_cross_entropy.*{says}"):
            fused.linear_cross_entropy(x, weight, xp.asarray(targets))

    refused(ValueError, r"targets \(\.\.\.\).*targets are integers", [1, 2])
    refused(TypeError, "indices are float64, not integers", [0.0] * ROWS)
    refused(ValueError, r"x \(\.\.\., d\)", [0] * ROWS, weight[:, :2])
    if xp is np:
        refused(IndexError, "-1 is none of 0 .. 6;", [0, 1, -1, 2, 3])
        refused(IndexError, "7 is none of 0 .. 6;", [0, 1, 7, 2, 3])
    else:
        outside = xp.asarray([0, -1, 7, 2, 3])
        for tiling in {}, {"block": 2}:
            losses = fused.linear_cross_entropy(x, weight, outside, **tiling)
            bad = np.isnan(to_host(losses.data))
            assert bad.tolist() == [False, True, True, False, False]


@in_turn("dtype", [np.uint16, np.int32, np.uint32, np.int64])
def test_targets_of_any_integers(dtype):
    x, weight, targets, bias = problem(4, 70_000, 1)
    targets[:] = 255, 299, 0, 65_535
    found = fused.linear_cross_entropy(x, weight, targets.astype(dtype), bias)
    expected = plain(np, x, weight, targets, bias)
    np.testing.assert_allclose(found.data, expected, rtol=1e-12)
