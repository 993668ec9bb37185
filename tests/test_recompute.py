"""Long sequences: backward computes steps again, and gives the same gradients."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_cores import SMALLEST
from test_descendants import MAKE
from turns import in_turn

from tinyrmc import LSTM, RelationalMemory, Tape, Tensor, gradcheck, nn, optim
from tinyrmc import primitives as p
from tinyrmc.backend import to_host
from tinyrmc.cores.recompute import leaves, refilled

CORES = {
    kind.__name__: lambda kind=kind: kind(**SMALLEST[kind], seed=0) for kind in SMALLEST
}
CORES |= {name: lambda make=make: make(seed=0) for name, make in MAKE.items()}
T, LENGTHS = 11, np.array([0, 3, 11, 7], np.uint8)
FRESH = np.random.default_rng(3).random((4, T)) < 0.3


def gradients(core, x, lengths=None, is_first=None):
    """The results of an unroll, and the gradients of all its inputs."""
    xp, weights = p.namespace(x), np.random.default_rng(1).standard_normal((4, T, 1))
    weights = xp.asarray(weights.astype(x.dtype))
    live = xp.arange(T) < (T if lengths is None else lengths[:, None])
    live = xp.broadcast_to(live, (4, T))[..., None]  # what comes later is nobody's
    start = core.initial_state(4)
    rng = np.random.default_rng(5)
    parts = [rng.random(leaf.shape).astype(x.dtype) for leaf in leaves(start)]
    with Tape() as tape:
        seen = tape.watch(x)
        moved = [tape.watch(xp.asarray(part)) for part in parts]
        outputs, last = core.unroll(
            seen, refilled(start, moved), lengths=lengths, is_first=is_first
        )
        outputs = p.where(live, p.stack(outputs, axis=1), 0.0)
        loss = p.sum(outputs * weights)
        for leaf in leaves(last):
            loss = loss + p.sum(leaf * leaf)
    entries = len(tape.entries)
    found = tape.gradient(loss, [seen, *moved, *core.parameters()], strict=False)
    made = [x.data if isinstance(x, Tensor) else x for x in [outputs, *leaves(last)]]
    count = 1 + len(moved)
    return [*map(to_host, made)], [*map(to_host, found)], count, entries


@in_turn("name", CORES)
def test_gradients_are_those_of_all_steps(xp, name):
    ends = (LENGTHS, FRESH), (None, None)
    for lengths, is_first in ends if xp is np else ends[:1]:  # the stand-in is slow
        core = CORES[name]().astype(np.float64).to(xp)
        x = xp.asarray(
            np.random.default_rng(0).standard_normal((4, T, core.input_size))
        )
        ends = [None if e is None else xp.asarray(e) for e in (lengths, is_first)]
        made, whole, *_ = gradients(core, x, *ends)
        again, parts, *_ = gradients(core.recompute(4), x, *ends)
        for ours, theirs in zip(again, made, strict=True):
            assert_allclose(ours, theirs, 1e-11, 1e-13)
        for ours, theirs in zip(parts, whole, strict=True):
            assert_allclose(ours, theirs, 1e-9, 1e-11)


@in_turn("name", ["RelationalMemory", "PaperRelationalMemory", "EntNet", "DNC", "stm"])
def test_they_are_the_same_to_the_bit_where_nothing_is_added_up(name):
    """Of inputs and states, for cores that go step by step; others multiply all steps
    at once, and with fewer rows a product rounds in another way.
    """
    core = CORES[name]()
    x = np.random.default_rng(0).standard_normal((4, T, core.input_size))
    x = x.astype(np.float32)
    made, whole, count, entries = gradients(core, x)
    again, parts, _, fewer = gradients(core.recompute(4), x)
    assert fewer < entries / 3
    for ours, theirs in zip(again + parts[1:count], made + whole[1:count], strict=True):
        assert ours.tobytes() == theirs.tobytes()
    for ours, theirs in zip(parts, whole, strict=True):
        assert_allclose(ours, theirs, 1e-4, 1e-5)


def test_the_complex_step_agrees():
    core = RelationalMemory(3, 2, 4, dtype=np.float64, seed=0).recompute(2)
    rng = np.random.default_rng(0)
    x, memory = rng.standard_normal((2, 7, 3)), rng.standard_normal((2, 2, 4))
    gradcheck(lambda x, m: core.unroll(x, m)[0], x, memory, parameters=core)


def test_backward_fills_the_optimizer_s_buffer_and_memory_is_that_of_a_part():
    core, readout = RelationalMemory(8, 4, 8, 2, seed=0), nn.Linear(64, 3, seed=1)
    adam = optim.Adam(core.parameters() + readout.parameters())
    x = np.random.default_rng(0).standard_normal((8, 400, 8)).astype(np.float32)
    found, peaks = [], []
    for every in None, 20:
        core.recompute(every)
        adam.zero_grad()
        tracemalloc.start()
        with Tape() as tape:
            outputs, _ = core.unroll(x, core.initial_state(8))
            loss = p.sum(p.square(readout(outputs[-1])))
            del outputs
        tape.backward(loss)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        found.append([parameter.grad.copy() for parameter in core.parameters()])
    assert peaks[1] < peaks[0] / 4
    for whole, parts in zip(*found, strict=True):
        assert whole.any()
        assert_allclose(parts, whole, 1e-3, 1e-5 * abs(whole).max())


def test_it_changes_no_setting_and_is_asked_for_by_a_size():
    core, other = LSTM(3, 4, seed=1), LSTM(3, 4, seed=2)
    assert core.recompute(5) is core
    core.load_parameters(other)  # which would refuse other settings
    assert repr(core) == repr(other)
    for bad in 0, -1, 2.5, True:
        with pytest.raises(ValueError, match="LSTM: every must be an integer of at le"):
            core.recompute(bad)
    with pytest.raises(ValueError, match="LSTM expects inputs"), Tape():
        core.unroll(np.zeros((2, 9, 4), np.float32), core.initial_state(2))
