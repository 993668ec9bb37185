"""What a training step asks of a GPU: its products by cuBLAS, all steps of a memory in
one entry, buffers and sums that a CUDA graph can repeat.

On the stand-in, with the kernels compiled by g++. What it cannot show is in
test_kernels.py; whole steps are in test_gpu_graph.py.
"""

from contextlib import nullcontext

import cuda_shim
import fakecupy
import numpy as np
import pytest
from fakecupy import Refused, cupy, device, no_sync, only, single
from samplers import Case, gradients, memory_arguments, output_weights
from test_kernels import close

from tinyrmc import RelationalMemory, Tape, backend, fused, optim
from tinyrmc import gpu as kernels
from tinyrmc import primitives as p
from tinyrmc.backend import joined, stacked
from tinyrmc.gpu.memory import relational_memory

shim = pytest.mark.skipif(
    not cuda_shim.available, reason="needs g++ to run CUDA kernels on a processor"
)
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
    ((3, 2, 1, 5, 2, 4, 3, 16, 2), {}),
    ((2, 3, 2, 9, 3, 11, 4, 2, 3), {"activate_final": True, "input_bias": 0.3}),
    ((1, 1, 1, 1, 1, 5, 5, 10, 1), {"forget_bias": -0.5}),
    ((2, 2, 1, 3, 2, 2, 2, 2, 1), {"activate_final": True}),
]


def memory_case(sizes, more):
    static = {"num_heads": sizes[4], "key_size": sizes[6], **more}
    arguments = memory_arguments(normal, *sizes)
    return Case("relational_memory", tuple(arguments), static)


@pytest.mark.parametrize("downwards", [False, True])
@pytest.mark.parametrize(("sizes", "more"), MEMORIES)
def test_a_memory_gives_what_its_definition_gives(
    sizes, more, downwards, cublas, monkeypatch
):
    monkeypatch.setitem(cuda_shim.order, "downwards", downwards)
    case = memory_case(sizes, more)
    there, weights = case.map(single).map(device), output_weights(case)
    cuda_shim.launches.clear()
    with no_sync(), only(np.float32):
        ours = there()
        found = gradients(there, [device(single(w)) for w in weights], case.floats)
    assert "rmc_gates_forward" in cuda_shim.launches
    for one, exact in zip(ours, case(), strict=True):
        close(one.data, exact.data, 1e-5)
    for one, exact in zip(found, gradients(case, weights), strict=True):
        close(one, exact, 2e-5)


def test_a_gradient_of_it_that_is_wrong_is_noticed(cublas, monkeypatch):
    """By a thousandth, of each argument by itself."""
    case, rule = memory_case(*MEMORIES[0]), relational_memory.launch_backward
    there, weights = case.map(single).map(device), output_weights(case)
    exact = gradients(case, weights)
    for position in case.floats:

        def scaled(xp, needs, *saved, position=position):
            total = needs[position]
            start = total.copy()
            rule(xp, needs, *saved)
            total += np.float32(0.001) * (total - start)

        monkeypatch.setattr(relational_memory, "launch_backward", scaled)
        found = gradients(there, [device(single(w)) for w in weights], case.floats)
        for k, one, other in zip(case.floats, found, exact, strict=True):
            wrong = pytest.raises(AssertionError) if k == position else nullcontext()
            with wrong:
                close(one, other, 2e-5)


def test_it_gives_one_gradient_alone_and_changes_nothing(cublas):
    case = memory_case(*MEMORIES[1])
    there, weights = case.map(single).map(device), output_weights(case)
    for position in case.floats:
        arguments = there.arguments, [device(single(w)) for w in weights]
        before = [[x.get() for x in arrays] for arrays in arguments]
        (found,) = gradients(there, arguments[1], [position])
        close(found, gradients(case, weights, [position])[0], 2e-5)
        for arrays, copies in zip(arguments, before, strict=True):
            for array, copy in zip(arrays, copies, strict=True):
                np.testing.assert_array_equal(array.get(), copy)


@pytest.mark.parametrize("used", ["outputs", "last", "state"])
@pytest.mark.parametrize("gates", ["unit", "memory"])
def test_a_core_unrolled_by_it(gates, used, cublas):
    """Whatever the loss uses of it, and whatever is tracked."""
    core = RelationalMemory(5, 3, 4, 2, gate_style=gates, dtype=np.float64, seed=1)
    there = core.astype(np.float32).to(cupy)
    x, state, weights = normal(2, 4, 5), normal(2, 3, 8), normal(4, 2, 24)

    def run(core, put):
        with Tape() as tape:
            inputs = tape.watch(put(x))
            outputs, last = core.unroll(inputs, put(state))
            if used == "outputs":
                loss = p.sum(p.stack(outputs) * put(weights))
            else:
                loss = p.sum(p.square(outputs[-1] if used == "last" else last))
        entries = [entry[0].name for entry in tape.entries]
        return entries, tape.gradient(loss, [inputs, *core.parameters()])

    _, exact = run(core, np.asarray)
    with no_sync(), only(np.float32):
        entries, ours = run(there, lambda a: device(single(a)))
    assert entries.count("relational_memory") == 1 and "rmc_gates" not in entries
    for one, other in zip(ours, exact, strict=True):
        close(one, other, 2e-5)
    with kernels.off():
        assert "rmc_gates" in run(there, lambda a: device(single(a)))[0]


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
        close(device(state[name]), x, 1e-5)
    # each goes on from the other's state
    plain.load_state(state)
    np.testing.assert_array_equal(plain.first_moment, state["first_moment"])
    plain.first_moment[...] = np.arange(14)
    ours.load_state(plain.state())
    there = ours.state()["first_moment"].get()
    np.testing.assert_array_equal(there, np.arange(14))
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


def test_the_stand_in_refuses_in_a_capture_what_cupy_refuses():
    stream, x = cupy.cuda.Stream(non_blocking=True), device(np.ones(3))
    stream.begin_capture()
    try:
        for wrong in (
            x.get,
            lambda: float(x[0]),
            lambda: device(np.ones(3)),
            lambda: cupy.concatenate([x] * 9),
            lambda: cupy.einsum("i,i->", x, x),
            lambda: x @ x,
        ):
            with pytest.raises(Refused, match="while a stream is captured"):
                wrong()
    finally:
        stream.end_capture()


def test_a_rate_is_sent_when_it_changes(cublas):
    optimizer = optim.Adam([optim.Parameter(device(np.ones(3, np.float32)))])
    with fakecupy.recorded() as operations:
        for rate in 0.1, 0.1, 0.2:
            optimizer.step(rate)
    assert operations.count("setitem") == 2
