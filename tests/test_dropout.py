"""Dropout: what it drops, how often, and what a mask depends on."""

import numpy as np
import pytest
from fakecupy import no_sync, only

from tinyrmc import Tape, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.gradcheck import gradcheck
from tinyrmc.backend import to_host

SEEDS = np.random.default_rng(0).integers(2**64, size=64, dtype=np.uint64)


def noise(count=64, xp=np):
    return nn.Noise(xp.asarray(SEEDS[:count]))


def dropped(shape, rate=0.5, *, axis=1, shared=(), source=None):
    """Where ones become zeros."""
    layer = nn.Dropout(rate, axis, shared)
    return layer(np.ones(shape), source or noise(shape[axis])) == 0


def test_it_drops_at_its_rate_and_keeps_the_mean():
    x = np.random.default_rng(1).standard_normal((50, 64, 33)) + 3
    drawn = noise().draw(x.shape, 1)
    for rate in 0.01, 0.1, 0.5, 0.9:
        y = nn.Dropout(rate, axis=1)(x, noise())
        kept = y != 0
        np.testing.assert_array_equal(kept, drawn >= 65536 * rate - 0.5)
        deviation = np.sqrt(rate * (1 - rate) / x.size)
        assert abs(1 - kept.mean() - rate) < 4 * deviation
        np.testing.assert_array_equal(y[kept], (x * (1 / (1 - rate)))[kept])
        assert abs(y.mean() - x.mean()) < 4 * 3.2 * deviation / (1 - rate)


def test_without_noise_or_rate_x_comes_back():
    x, source = np.ones((3, 2, 4), np.float32), noise(2)
    assert nn.Dropout(0.5)(x) is x
    assert nn.Dropout(0.0, axis=1)(x, source) is x
    assert source.uses == 0
    assert nn.Dropout(0.5).parameters() == []


def test_inside_a_tape_it_drops_or_refuses(xp):
    """Nobody should find out after a week that nothing was dropped."""
    x = xp.ones((40, 50), np.float32)
    weight = nn.Parameter(x)
    layer = nn.Dropout(0.9)
    for given in (), (None,):
        with Tape(), pytest.raises(RuntimeError, match=r"Dropout\(0.9\) drops nothing"):
            layer(weight, *given)
    for wrong in True, 1, noise(40).seeds, "noise":
        with (
            Tape(),
            pytest.raises(TypeError, match=r"Dropout takes noise from nn\.Noise"),
        ):
            layer(weight, wrong)
    with Tape() as tape:
        assert layer(weight, False) is weight
        assert nn.Dropout(0.0)(weight) is weight
        y = layer(weight, noise(40, xp))
        z = layer(weight, np.random.default_rng(0))
        loss = p.sum(y + z)
    tape.backward(loss)
    for dropped in y, z:
        share = float((to_host(dropped.data) == 0).mean())
        assert 0.85 < share < 0.95
    np.testing.assert_allclose(to_host(weight.grad), to_host(y.data + z.data))


def test_a_generator_gives_the_masks_in_turn():
    x = np.ones((6, 7, 8), np.float32)
    layer = nn.Dropout(0.5, shared=(0, -1))
    one, other = (layer(x, rng) for rng in [np.random.default_rng(3)] * 2)
    assert (layer(x, np.random.default_rng(3)) == one).all() and (one != other).any()
    assert (one == one[:1, :, :1]).all()  # one mask serves these axes


def test_what_it_refuses():
    for rate in 1, 1.0, -0.1, np.nan, "half", None, True, 0.999999:
        with pytest.raises(ValueError, match="Dropout: rate must be"):
            nn.Dropout(rate)
    for axes in {"shared": True}, {"axis": 0.5}, {"shared": "01"}:
        with pytest.raises(TypeError, match="takes axes by number"):
            nn.Dropout(0.5, **axes)
    for seeds in 3, [1, 2], np.ones(2), np.ones((2, 1), int):
        with pytest.raises(ValueError, match="Noise: seeds must be a one-dimensional"):
            nn.Noise(seeds)
    for shape, axis in (
        ((3, 4), 1),
        ((4, 3), -1),
        ((3, 4, 5), 0),
        ((4, 3, 5), 3),
        ((4,), 0),
        ((), 0),
    ):
        with pytest.raises(ValueError, match=r"axis -?\d of shape .* of 4 seeds"):
            nn.Dropout(0.5, axis)(np.ones(shape), noise(4))
    with pytest.raises(IndexError):
        nn.Dropout(0.5, 1, shared=7)(np.ones((2, 3, 4)), noise(3))
    with pytest.raises(TypeError, match=r"x is int64; convert"):
        nn.Dropout(0.5)(np.ones((4, 3), int), noise(4))


def test_an_example_has_its_own_mask_wherever_it_stands():
    """Among others, in a piece, in another place: the third one is the same."""
    whole = dropped((7, 6, 9))
    for start, stop in (0, 4), (3, 6), (3, 4):
        piece = dropped((7, stop - start, 9), source=nn.Noise(SEEDS[start:stop]))
        np.testing.assert_array_equal(piece, whole[:, start:stop])
    first = dropped((6, 9), axis=0)
    np.testing.assert_array_equal(first, whole[0])
    in_the_middle = dropped((7, 6, 2, 9))
    np.testing.assert_array_equal(in_the_middle[0, :, 1], whole[1])


def test_each_use_takes_the_next_mask():
    one, other = noise(6), noise(6)
    first = [dropped((7, 6, 9), source=one) for _ in range(2)]
    again = [dropped((7, 6, 9), source=other) for _ in range(2)]
    np.testing.assert_array_equal(first, again)
    assert (first[0] != first[1]).any()


def test_masks_are_independent():
    """Between uses, examples, rows, columns, and the two halves of a hashed word."""
    source, size = noise(), (40, 64, 100)
    one, two = (dropped(size, source=source) - 0.5 for _ in range(2))
    pairs = [(one, two), (one[1:], one[:-1]), (one[:, 1:], one[:, :-1])]
    pairs += [(one[..., lag:], one[..., :-lag]) for lag in (1, 2, 3, 50)]
    near = np.arange(2**40, 2**40 + 64, dtype=np.uint64)
    high = near << np.uint64(20)
    for seeds in near, high:
        three = dropped(size, source=nn.Noise(seeds)) - 0.5
        pairs.append((three[:, 1:], three[:, :-1]))
    for a, b in pairs:
        assert abs(np.mean(a * b)) < 4 * 0.25 / np.sqrt(a.size)
    of_examples = one.mean(axis=(0, 2))
    assert abs(of_examples).max() < 4.5 * 0.5 / np.sqrt(4000)


def test_one_mask_for_all_time_steps():
    mask = dropped((7, 6, 9), shared=0)
    assert (mask == mask[0]).all()
    assert (mask[0] != mask[0, 0]).any()
    np.testing.assert_array_equal(mask[0], dropped((6, 9), axis=0))


def test_whole_words():
    mask = dropped((30, 64, 5), 0.3, shared=-1)
    assert (mask == mask[..., :1]).all()
    assert mask.mean() == pytest.approx(0.3, abs=0.05)


def test_gradient():
    x = np.random.default_rng(3).standard_normal((3, 2, 4))
    for shared in (), 0, -1:
        layer = nn.Dropout(0.4, 1, shared)
        assert gradcheck(lambda x, f=layer: f(p.tanh(x), noise(2)), x) < 1e-12
    with Tape() as tape:
        t = tape.watch(np.ones((3, 2, 4)))
        loss = p.sum(nn.Dropout(0.5, 1)(t, noise(2)))
    np.testing.assert_array_equal(
        tape.gradient(loss, t), np.where(dropped((3, 2, 4)), 0, 2.0)
    )


def test_on_a_device_the_same_bits_without_waiting(xp):
    x = np.random.default_rng(4).standard_normal((5, 6, 7), dtype=np.float32)
    layer = nn.Dropout(0.3, 1)
    here, there = noise(6), noise(6, xp)
    for _ in range(2):
        with no_sync(), only(np.float32):
            y = layer(xp.asarray(x), there)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(to_host(y), layer(x, here))


def hashed(x):
    """lowbias32 on a Python integer."""
    for shift, factor in (16, 0x7FEB352D), (15, 0x846CA68B):
        x = (x ^ x >> shift) * factor % 2**32
    return x ^ x >> 16


def number(seed, use, row, column):
    odd = 0x9E3779B9
    key = hashed((seed + use * odd) % 2**32)
    key = hashed(hashed(key ^ seed >> 32) + row & 0xFFFFFFFF)
    word = hashed((key + column // 2 * odd) % 2**32)
    return word >> 16 * (column % 2) & 0xFFFF


def test_the_bits_are_those_of_the_definition():
    """So a run that a later version resumes goes on with the same masks."""
    seeds = [0, 1, 2**40, 2**64 - 1]
    source = nn.Noise(np.array(seeds, np.uint64))
    for use in 1, 2:
        drawn = source.draw((2, 4, 5), 1)
        for t, b, f in np.ndindex(*drawn.shape):
            assert drawn[t, b, f] == number(seeds[b], use, t, f)
    assert drawn.dtype == np.uint16
