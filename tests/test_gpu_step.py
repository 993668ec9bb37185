"""A training step on a GPU: its products by cuBLAS, all steps of a memory in one
entry, buffers and sums that a CUDA graph can repeat.

On the stand-in, with the kernels compiled by g++. What it cannot show is in
test_kernels.py; whole steps are in test_gpu_graph.py.
"""

import cuda_shim
import fakecupy
import numpy as np
import pytest
from cuda_shim import shim
from fakecupy import cupy, device, no_sync, only, single
from test_kernels import close

from tinyrmc import RelationalMemory, Tape, backend, fused, optim
from tinyrmc import primitives as p
from tinyrmc.backend import gpu as kernels
from tinyrmc.backend import joined, stacked
from tinyrmc.cores.relational import _all_steps

pytestmark = [shim, pytest.mark.slow]


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


# --- Products -------------------------------------------------------------------------


def operands(dtype):
    """(a, b) of every rank, and as they may lie in memory."""

    def array(*shape):
        numbers = normal(*shape)
        return (numbers + 1j * normal(*shape) if dtype.kind == "c" else numbers).astype(
            dtype
        )

    yield array(5, 7), array(7, 3)
    yield array(7, 5).T, array(3, 7).T
    yield array(2, 5, 7), array(7, 3)
    yield array(7), array(7, 3)
    yield array(7), array(7)
    yield array(5, 7), array(7)
    yield array(2, 5, 7), array(7)
    yield array(9, 7)[:5], array(7, 8)[:, 2:5]  # rows farther apart than they are long
    yield array(5, 14)[:, ::2], array(7, 3)[::-1]  # what cuBLAS cannot read
    yield array(2, 3, 5, 7), array(2, 3, 7, 4)
    yield array(2, 5, 3, 7).swapaxes(1, 2), array(2, 3, 4, 7).swapaxes(2, 3)
    yield array(3, 5, 7), array(2, 1, 7, 4)
    yield array(5, 7), array(2, 3, 7, 4)
    yield array(1, 7), array(7, 1)
    yield array(4, 1), array(1, 3)
    yield array(0, 7), array(7, 3)


@pytest.mark.parametrize("dtype", [np.dtype(kind) for kind in "fdFD"], ids=str)
def test_products_are_numpys(dtype, cublas):
    for host in operands(dtype):
        a, b = (device(x) for x in host)
        a._array, b._array = host  # as it lies in memory
        exact, label = np.matmul(*host), [x.shape for x in host]
        close = {"rtol": 0, "atol": 1e-5 if dtype.char in "fF" else 1e-13}
        with no_sync():
            ours = backend.gemm(a, b)
        assert ours.shape == exact.shape and ours.dtype == exact.dtype, label
        np.testing.assert_allclose(ours.get(), exact, **close, err_msg=str(label))
        if exact.ndim == 0:
            continue
        start = np.ones_like(exact)
        for add in False, True:
            for out in device(start), device(np.ones((*exact.shape, 2), dtype))[..., 0]:
                answer = backend.gemm(a, b, out=out, add=add)
                assert answer is out
                np.testing.assert_allclose(out.get(), exact + add * start, **close)
    assert {name for name, _ in cublas.asked} == {"GemmEx", "GemmStridedBatchedEx"}


def test_products_of_unlike_things_are_left_to_the_library(cublas):
    mixed = backend.gemm(device(normal(2, 3)), device(normal(3, 2) + 1j))
    assert mixed.dtype == np.complex128 and cublas.asked == []
    with pytest.raises(ValueError, match="inner sizes differ"):
        backend.gemm(device(normal(2, 3)), device(normal(2, 3)))


def test_tf32_is_a_way_of_computing(cublas):
    x = device(single(normal(3, 3)))
    for on in True, False:
        backend.use_tf32(cupy, on)
        backend.gemm(x, x)
        backend.gemm(device(normal(3, 3)), device(normal(3, 3)))  # not of float64
    assert [compute for _, compute in cublas.asked] == [77, 70, 68, 70]


def test_products_warn_of_nothing(cublas):
    with np.errstate(all="raise"):
        product = backend.gemm(*[device(np.diag([np.inf, -np.inf]))] * 2)
    assert np.isnan(product.get()).tolist() == [[False, True], [True, False]]


def test_an_error_of_cublas_is_told(cublas):
    cublas.cublasGemmEx.function = lambda *_: 14
    with pytest.raises(RuntimeError, match=r"cublasGemmEx of cuBLAS .* status 14"):
        backend.gemm(*[device(single(normal(3, 3)))] * 2)


def test_the_sums_of_columns(cublas):
    for rows, columns in (1, 1), (7, 33), (3000, 5), (5000, 64):
        x = normal(rows, columns)
        there, total = device(single(x)), device(np.ones(columns, np.float32))
        with no_sync(), only(np.float32):
            fresh = backend.column_sums(there)
            backend.column_sums(there, total)
        close(fresh, x.sum(axis=0), 1e-5)
        close(total, 1 + x.sum(axis=0), 1e-5)


# --- All steps of a memory ------------------------------------------------------------

MEMORIES = [
    {"gate_style": "unit"},
    {"gate_style": "memory"},
    {
        "input_rows": 2,
        "gate_style": "memory",
        "activate_final": True,
        "input_bias": 0.3,
    },
    {"mem_slots": 1, "head_size": 5, "num_heads": 1, "attention_mlp_layers": 1},
    {"key_size": 3, "attention_mlp_layers": 3, "forget_bias": -0.5},
]


def unrolled(core, x, state, weights, used="outputs"):
    """(entries of the tape, gradients) of a loss of the outputs, or of the state."""
    with Tape() as tape:
        inputs, first = tape.watch(x), tape.watch(state)
        outputs, last = core.unroll(inputs, first)
        if used == "outputs":
            loss = p.sum(p.stack(outputs) * weights)
        else:
            loss = p.sum(p.square(outputs[-1] if used == "last" else last))
    entries = [entry[0].name for entry in tape.entries]
    return entries, tape.gradient(loss, [inputs, first, *core.parameters()])


def memory_case(more):
    """(core, its float32 copy on the stand-in, numbers for `unrolled`)."""
    sizes = {"mem_slots": 3, "head_size": 4, "num_heads": 2, **more}
    core = RelationalMemory(5, **sizes, dtype=np.float64, seed=1)
    rows = (core.input_rows,) if core.input_rows else ()
    shape = core.mem_slots, core.mem_size
    numbers = normal(2, 4, *rows, 5), normal(2, *shape), normal(4, 2, core.output_size)
    return core, core.astype(np.float32).to(cupy), numbers


@pytest.mark.parametrize("downwards", [False, True])
@pytest.mark.parametrize("more", MEMORIES, ids=str)
def test_all_steps_of_a_memory_in_one_entry(more, downwards, cublas, monkeypatch):
    """Whatever the loss uses of it; nothing that was given is changed."""
    monkeypatch.setitem(cuda_shim.order, "downwards", downwards)
    core, there, numbers = memory_case(more)
    for used in "outputs", "last", "state":
        given = [device(single(x)) for x in numbers]
        with no_sync(), only(np.float32):
            entries, ours = unrolled(there, *given, used)
        assert entries.count("relational_memory") == 1 and "rmc_gates" not in entries
        for one, other in zip(ours, unrolled(core, *numbers, used)[1], strict=True):
            close(one, other, 2e-5)
        for array, before in zip(given, numbers, strict=True):
            np.testing.assert_array_equal(array.get(), single(before))
    for without in kernels.off, fused.plain:
        with without():
            entries = unrolled(there, *given)[0]
            assert "relational_memory" not in entries
            close(
                there.unroll(*given[:2])[1].data,
                core.unroll(*numbers[:2])[1].data,
                1e-5,
            )


def test_a_gradient_of_it_that_is_wrong_is_noticed(cublas, monkeypatch):
    """By a thousandth, of each argument by itself, and by one asked for alone."""
    core, there, numbers = memory_case(MEMORIES[0])
    given, steps = [device(single(x)) for x in numbers], _all_steps(kernels)
    rule = steps.rule
    exact = unrolled(core, *numbers)[1]
    for position in 0, *range(3, 14):

        def scaled(xp, needs, *saved, position=position):
            total = needs[position]
            start = total.copy()
            rule(xp, needs, *saved)
            total += np.float32(0.001) * (total - start)

        monkeypatch.setattr(steps, "rule", scaled)
        with pytest.raises(AssertionError):
            for one, other in zip(unrolled(there, *given)[1], exact, strict=True):
                close(one, other, 2e-5)
    monkeypatch.setattr(steps, "rule", rule)
    with Tape() as tape:
        first = tape.watch(given[1])
        loss = p.sum(p.stack(there.unroll(given[0], first)[0]) * given[2])
    close(tape.gradient(loss, first), exact[1], 2e-5)


# --- Where parameters lie -------------------------------------------------------------


def test_each_parameter_begins_where_16_bytes_are_read(cublas):
    """With gaps, which no update fills and no checkpoint has."""

    def made(put):
        rng = np.random.default_rng(0)
        shapes = (2, 3), (), (1, 3), (4,)
        arrays = [single(rng.standard_normal(shape)) for shape in shapes]
        return optim.Adam([optim.Parameter(put(a)) for a in arrays], 0.1)

    ours, plain = made(device), made(np.asarray)
    assert [place.start for place in plain._places] == [0, 6, 7, 10]
    assert [place.start for place in ours._places] == [0, 8, 12, 16]
    rng = np.random.default_rng(1)
    for _ in range(3):
        for one, other in zip(ours.parameters, plain.parameters, strict=True):
            g = single(rng.standard_normal(one.shape))
            one.grad[...], other.grad[...] = device(g), g
        with no_sync():
            ours.step()
        plain.step()
    assert np.count_nonzero(ours.data.get()) == plain.data.size == 14
    close(ours.packed(ours.data), plain.data, 1e-5)
    state = {name: x.get() for name, x in ours.state().items()}
    for name, x in plain.state().items():
        np.testing.assert_allclose(state[name], x, 1e-5)
    # each goes on from the other's state
    plain.load_state(state)
    np.testing.assert_array_equal(plain.first_moment, state["first_moment"])
    plain.first_moment[...] = np.arange(14)
    ours.load_state(plain.state())
    np.testing.assert_array_equal(ours.state()["first_moment"].get(), np.arange(14))
    assert ours.first_moment.get()[[5, 6, 7, 8]].tolist() == [5, 0, 0, 6]
    with pytest.raises(ValueError, match="'first_moment' has shape"):
        ours.load_state({**state, "first_moment": np.zeros(15)})


# --- Joining and capturing ------------------------------------------------------------


def test_the_steps_of_a_weight_are_added_one_by_one(cublas):
    """Joining them first would be an operation for each, and more."""
    weight = optim.Parameter(device(single(normal(3, 2))))
    with Tape() as tape:
        x = device(single(normal(5, 3)))
        loss = sum((p.sum(fused.linear(x, weight)) for _ in range(12)), 0.0)
    with fakecupy.recorded() as operations:
        tape.backward(loss)
    assert "concatenate" not in operations
    close(weight.grad, 12 * normal(5, 3).sum(axis=0)[:, None] * np.ones(2), 1e-5)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joining_many_arrays_uploads_nothing(axis, cublas):
    arrays = [normal(2, 3) + k for k in range(20)]
    for ours, theirs in (joined, np.concatenate), (stacked, np.stack):
        with fakecupy.recorded() as operations:
            there = ours(cupy, [device(a) for a in arrays], axis)
        np.testing.assert_array_equal(there.get(), theirs(arrays, axis=axis))
        assert operations.count("upload") == len(arrays)  # those of the arrays


def test_a_rate_is_sent_when_it_changes(cublas):
    optimizer = optim.Adam([optim.Parameter(device(np.ones(3, np.float32)))])
    with fakecupy.recorded() as operations:
        for rate in 0.1, 0.1, 0.2:
            optimizer.step(rate)
    assert operations.count("setitem") == 2
