"""The CUDA kernels, run without a GPU.

The same Python launches the same source, compiled by g++ with cuda_shim.h. Each kernel
is compared with its array body in float64, the threads of a block taking turns in
either order. This cannot show speed, nor races between threads that a GPU truly runs at
once; benchmarks/gpu.py makes the same comparisons on a GPU.
"""

import dataclasses
import shutil
import subprocess

import cuda_shim
import fakecupy
import numpy as np
import pytest
from cuda_shim import RawModule, shim
from fakecupy import cupy, device, no_sync, only, single
from samplers import LAYOUTS, Case, gradients, output_weights
from turns import in_turn

from tinyrmc import RelationalMemory, Tape, backend, fused, optim
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Parameter
from tinyrmc.backend import gpu as kernels
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer

pytestmark = pytest.mark.slow

random = np.random.default_rng(0)  # begins anew in each test


def there(case):
    return case.map(single).map(device)


@pytest.fixture(params=["upwards", pytest.param("downwards", marks=pytest.mark.weekly)])
def gpu(request, monkeypatch):
    """The stand-in with kernels; gives the list of those launched since."""
    cuda_shim.installed(monkeypatch)
    monkeypatch.setitem(cuda_shim.order, "downwards", request.param == "downwards")
    random.bit_generator.state = np.random.default_rng(1).bit_generator.state
    cuda_shim.launches.clear()
    return cuda_shim.launches


def close(ours, exact, tolerance=2e-6):
    """Within `tolerance` of the largest element.

    A sum rounds relative to its terms, not to the result.
    """
    assert type(ours) is fakecupy.ndarray
    assert (ours.dtype, ours.shape) == (np.float32, exact.shape)
    scale = max(1.0, np.abs(exact).max(initial=0))
    assert np.abs(ours.get() - exact).max(initial=0) <= tolerance * scale


def normal(*shape):
    return random.standard_normal(shape)


# --- Each kernel against its array body -----------------------------------------------

CASES = []


def put(launches, name, *arguments, **static):
    case = Case(name, arguments, static)
    CASES.append(
        pytest.param(case, launches.split(), id=str(case).replace("float64", ""))
    )


NORM = "layer_norm_forward layer_norm_backward column_sums"
_small = (1, 1), (1, 5), (5,), (7, 31), (2, 3, 33), (9, 64), (40, 3)
_wide = (5, 768), (3, 1536), (2, 6144)  # fewer warps have room, down to one
for _shape in *_small, *_wide:
    _width = _shape[-1]
    put(NORM, "layer_norm", normal(*_shape) + 3, normal(_width), normal(_width))
    _arrays = normal(*_shape), normal(_width), normal(_width), 2 * normal(*_shape)
    put(NORM, "layer_norm", *_arrays)
put(NORM, "layer_norm", normal(4, 6), normal(6), normal(6), epsilon=0.1)

ATTENTION = "attention_forward attention_backward"
for _batch, _rows, _heads, _key, _value, _queries in [
    (2, 4, 2, 3, 2, None),
    (1, 1, 1, 1, 1, None),
    (2, 5, 3, 4, 4, 4),
    (3, 5, 2, 2, 5, 1),
    (1, 9, 2, 32, 32, 8),
    (1, 33, 1, 5, 3, None),
    (1, 64, 1, 8, 8, 63),
    (1, 63, 1, 32, 32, None),
    (1, 100, 1, 2, 3, None),
    (1, 300, 1, 3, 3, 2),
    (1, 3, 1, 2, 2, 3),
]:
    _static = {"num_heads": _heads, "key_size": _key}
    if _queries is not None:
        _static["num_queries"] = _queries
    _qkv = normal(_batch, _rows, _heads * (2 * _key + _value))
    put(ATTENTION, "attention", _qkv, **_static)
# exponentials that would overflow, of exact numbers
_qkv = np.round(30 * normal(1, 4, 12))
put(ATTENTION, "attention", _qkv, num_heads=1, key_size=4)

for _style in "unit", "memory":
    for _batch, _slots, _width in (
        (2, 3, 4),
        (1, 1, 5),
        (3, 1, 2),
        (3, 2, 33),
        (2, 5, 150),
    ):
        _columns = 2 * _width if _style == "unit" else 2
        _gates = [normal(_batch, n, _columns) for n in (1, _slots)]
        _memories = [normal(_batch, _slots, _width) for _ in range(2)]
        put(
            f"rmc_gates_forward rmc_gates_backward_{_style}",
            "rmc_gates",
            *_gates,
            *_memories,
            input_bias=0.25,
            forget_bias=-0.5,
        )

for _shape in (1, 2), (7, 8), (3, 33), (5,), (2, 3, 4), (4, 1), (6, 100):
    _targets = np.asarray(random.integers(0, _shape[-1], _shape[:-1]))
    put(
        "softmax_cross_entropy_forward softmax_cross_entropy_backward",
        "softmax_cross_entropy",
        5 * normal(*_shape),
        _targets,
    )


@shim
@in_turn("shift", [0, 1, 2])
@in_turn("shape", [(5, 8), (3, 256), (3, 260), (2, 768), (2, 772)])
def test_a_norm_wherever_its_arrays_lie(shape, shift, gpu):
    """Whether or not they can be read 16 bytes at once."""
    arrays = normal(*shape) + 2, normal(shape[1]), normal(shape[1]), normal(*shape)

    def moved(array):
        flat = device(np.zeros(array.size + 4, np.float32))
        start = -(flat.data.ptr // 4) % 4 + shift
        flat[start : start + array.size] = device(single(array).reshape(-1))
        place = flat[start : start + array.size].reshape(array.shape)
        assert place.data.ptr % 16 == 4 * shift and place.flags.c_contiguous
        return place

    case = Case("layer_norm", arrays, {})
    weights = output_weights(case)
    there = case.map(moved)
    with no_sync(), only(np.float32):
        found = gradients(there, [moved(w) for w in weights], case.floats)
        value = there().data
    close(value, case().data)
    for one, exact in zip(found, gradients(case, weights), strict=True):
        close(one, exact, 5e-6)


@shim
@in_turn("case, expected", CASES)
def test_gives_the_values_and_gradients_of_its_array_body(case, expected, gpu):
    with no_sync(), only(np.float32):
        value = there(case)()
    close(value.data, case().data)
    weights = output_weights(case)
    weights_there = [device(single(w)) for w in weights]
    with no_sync(), only(np.float32):
        ours = gradients(there(case), weights_there, watch=case.floats)
    # in a layer norm of width 1 or 5, d is mostly rounding
    tolerance = 1e-5 if case.name == "layer_norm" else 2e-6
    for one, exact in zip(ours, gradients(case, weights), strict=True):
        close(one, exact, tolerance)
    assert gpu == [expected[0], *expected]


def test_every_kernel_is_among_them():
    compared = {name for case in CASES for name in case.values[1]}
    others = "adam squares judge bias_relu relu_backward add_up keep_largest count_step"
    assert {*RawModule(kernels.source()).signatures} == compared | {*others.split()}
    assert {f"{name}.cu" for name in kernels.SOURCES} == {
        path.name for path in kernels.FOLDER.glob("*.cu")
    }


@shim
@in_turn("name", ["layer_norm", "attention", "rmc_gates", "softmax_cross_entropy"])
def test_any_choice_of_gradients(name, gpu):
    """Unwanted gradients are neither needed nor wrong.

    And a gradient that comes in pieces of memory is put in order.
    """
    case = next(
        param.values[0] for param in reversed(CASES) if param.values[0].name == name
    )

    def partial(case, watched, place=lambda a: a):
        with Tape() as tape:
            arguments = [
                tape.watch(a) if k == watched else a
                for k, a in enumerate(case.arguments)
            ]
            y = p.transpose(case(arguments))
            loss = p.sum(
                p.square(p.transpose(y)) if y.ndim < 2 else p.transpose(p.square(y))
            )
        return tape.gradient(loss, arguments[watched])

    for watched in case.floats:
        close(partial(there(case), watched), partial(case, watched), 1e-5)


@shim
def test_traces(gpu):
    def traced(case, place):
        trace = {}
        case = case.map(place)
        getattr(fused, case.name)(*case.arguments, **case.static, trace=trace)
        return trace

    for case in [
        param.values[0]
        for param in CASES
        if param.values[0].name in ("attention", "rmc_gates")
    ]:
        exact = traced(case, np.asarray)
        ours = traced(case.map(single), device)
        assert set(ours) == set(exact)
        for name, values in exact.items():
            close(ours[name], values)


@shim
def test_a_target_out_of_range_makes_its_row_nan_and_the_step_is_refused(gpu):
    weight, targets = Parameter(device(single(normal(4, 3)))), [0, 3, -1, 2]
    optimizer = optim.Adam([weight])
    with Tape() as tape:
        losses = fused.softmax_cross_entropy(weight, device(targets))
        # even if nobody looks at the losses of those rows
        good = device(np.isin(targets, [0, 1, 2]))
        loss = p.sum(p.where(good, losses, 0.0))
    tape.backward(loss)
    bad = [False, True, True, False]
    assert np.isnan(losses.data.get()).tolist() == bad
    assert np.isnan(weight.grad.get()).any(axis=1).tolist() == bad
    before = weight.data.get()
    _, finite = optimizer.step()
    assert not finite
    np.testing.assert_array_equal(weight.data.get(), before)


@shim
@in_turn("betas", [(0.9, 0.999), (0.0, 0.99)])
@pytest.mark.filterwarnings("ignore:.*gradient's norm is inf")
def test_adam(betas, gpu):
    """Against the array body in float64.

    One gradient of four is not finite: nothing moves, and the count of steps does not
    either.
    """
    start, steps = normal(700), normal(4, 700)
    steps[2, 3] = np.inf
    host, ours = Parameter(start), Parameter(device(single(start)))
    exact, kernel = (optim.Adam([q], 1e-2, *betas) for q in (host, ours))
    for g in steps:
        exact.gradient[...], kernel.gradient[...] = g, device(single(g))
        exact.step(max_norm=1.0, scale=0.5)
        with no_sync(), only(np.float32):
            kernel.step(max_norm=1.0, scale=0.5)
        for name in "data", "first_moment", "second_moment", "updates":
            close(getattr(kernel, name), getattr(exact, name))
    assert gpu == ["squares", "judge", "adam"] * 4
    moved = ours.data.get() - single(start)
    np.testing.assert_allclose(
        moved, host.data - start, atol=2e-5 * np.abs(moved).max()
    )


# --- When they run --------------------------------------------------------------------


def norm_case(*shape):
    return Case("layer_norm", (normal(*shape), normal(shape[-1]), normal(shape[-1])))


def beyond(name, *arrays, **static):
    return there(Case(name, arrays, static))


FALLBACKS = [
    norm_case(2, 3).map(device),  # float64
    there(norm_case(1, 6145)),  # too wide
    there(norm_case(0, 3)),  # empty
    beyond("attention", normal(1, 64, 96), num_heads=1, key_size=32),  # too many rows
    beyond("attention", normal(1, 3, 6), np.eye(3) > 0, num_heads=1, key_size=2),
    beyond("softmax_cross_entropy", normal(2, 3), np.array([0, 1], np.int32)),
]


@shim
@in_turn("case", FALLBACKS)
def test_what_the_kernels_do_not_support_is_left_to_the_array_body(case, gpu):
    case()
    assert gpu == []


@shim
@in_turn("layout", ["permuted strides", "negative strides", "gaps"])
@in_turn("name", ["layer_norm", "attention", "rmc_gates", "softmax_cross_entropy"])
def test_arrays_that_lie_otherwise_in_memory(name, layout, gpu):
    case, expected = next(
        param.values for param in reversed(CASES) if param.values[0].name == name
    )
    weights = output_weights(case)
    ours = gradients(
        there(case).map(LAYOUTS[layout]), [device(single(w)) for w in weights]
    )
    for one, exact in zip(ours, gradients(case, weights), strict=True):
        close(one, exact, 1e-5)
    assert gpu == expected


@shim
def test_nan_passes_the_relu(gpu):
    x, weight, bias = (
        device(single(each))
        for each in (np.full((1, 2), np.nan), np.eye(2), np.zeros(2))
    )
    assert np.isnan(fused.linear(x, weight, bias, relu=True).data.get()).all()
    assert gpu == ["bias_relu"]


@shim
def test_a_constant_row_becomes_its_offset(gpu):
    for width in 4, 7, 260, 772, 1024:
        x, gain = np.full((2, width), 100.3), np.ones(width)
        arrays = [device(single(array)) for array in (x, gain, 0 * gain)]
        assert not fused.layer_norm(*arrays).data.get().any(), width
    assert gpu == ["layer_norm_forward"] * 5


def test_kernels_are_for_a_compiler_of_cuda_and_for_what_they_take(gpu, monkeypatch):
    x, k = device(single(normal(2))), device([0, 1])
    assert backend.kernels(np, single(normal(2))) is None
    assert backend.kernels(cupy, x, None, x) is kernels
    assert backend.kernels(cupy, x, k, indices=(1,)) is kernels
    assert (
        backend.kernels(cupy, x, k) is backend.kernels(cupy, device(normal(2))) is None
    )
    assert backend.kernels(cupy, x, x, indices=(1,)) is None
    monkeypatch.delattr(cupy, "RawModule")
    assert backend.kernels(cupy, x) is None


@shim
@in_turn("forward", [True, False])
def test_backward_is_of_the_kind_that_forward_was(forward, gpu):
    """The two save different things."""
    cases = [
        there(next(param.values[0] for param in CASES if param.values[0].name == name))
        for name in ("layer_norm", "rmc_gates")
    ]
    for case in cases:
        gpu.clear()
        with Tape() as tape:
            x = tape.watch(case.arguments[0])
            with kernels.off() if not forward else no_sync():
                y = case([x, *case.arguments[1:]])
            loss = p.sum(y)
        with kernels.off() if forward else no_sync():
            tape.gradient(loss, x)
        assert bool(gpu) is forward and len(gpu) in (0, 2, 3)


# --- Together -------------------------------------------------------------------------


@shim
@in_turn("blocks", [1, 2])
def test_the_launches_of_one_step_of_the_core(blocks, gpu):
    """A step's cost on a GPU: one launch for each fused operation forward."""
    core, x = RelationalMemory(5, 3, 4, 2, blocks, seed=0), single(normal(2, 5))
    exact, _ = core(x, core.initial_state(2))
    core.to(cupy)
    with no_sync(), only(np.float32):
        output, _ = core(device(x), core.initial_state(2))
    close(output.data, exact.data)
    norm = "layer_norm_forward"
    block = ["bias_relu", norm, "attention_forward", norm, *["bias_relu"] * 2, norm]
    assert gpu == [*["bias_relu"] * 2, *block * blocks, "rmc_gates_forward"]


@shim
@pytest.mark.parametrize("gates", ["unit", "memory"])
def test_training_steps_of_nth_farthest_are_numpys(gates, gpu, monkeypatch):
    fakecupy.installed(monkeypatch)
    monkeypatch.setattr(kernels, "_JUDGES", 32)  # the shim is slow where many wait
    kind = load_task("nth_farthest").Task
    config = next(iter(kind.presets.values()))[1]
    sizes = {"mem_slots": 3, "num_heads": 2, "gate_style": gates}
    model = dataclasses.replace(config.model, **sizes)
    train = dataclasses.replace(config.train, batch_size=6)
    config = dataclasses.replace(config, model=model, train=train)
    host = Trainer(kind(config), seed=3)
    ours = Trainer(kind(config), seed=3, device="cuda")
    for _ in range(2):
        host.advance()
        with no_sync(), only(np.float32):
            ours.advance()
        for name in "first_moment", "second_moment", "data":
            there = ours.optimizer.packed(getattr(ours.optimizer, name))
            exact = getattr(host.optimizer, name)
            close(there, exact, 1e-5)
            assert np.abs(there.get() - exact).max() <= 2e-5 * np.abs(exact).max()
    assert ours.read()["loss"] == pytest.approx(host.read()["loss"], rel=1e-6)
    expected = f"{NORM} {ATTENTION} rmc_gates_forward rmc_gates_backward_{gates} adam"
    expected += " softmax_cross_entropy_forward softmax_cross_entropy_backward squares"
    expected += " judge bias_relu relu_backward add_up keep_largest count_step"
    assert set(gpu) == set(expected.split())


# --- The shim -------------------------------------------------------------------------

STRICT = """
extern "C" __global__ void add(const float* a, float* b, int count, float x)
{
    if (threadIdx.x < count) b[threadIdx.x] = a[threadIdx.x] + x;
}
extern "C" __global__ void turn(float* a, int wait)
{
    extern __shared__ float shared[];
    shared[threadIdx.x] = a[threadIdx.x];
    if (wait) __syncthreads();
    a[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def strict():
    return RawModule(STRICT)


@shim
def test_the_shim_runs_what_a_gpu_would(strict, gpu):
    a, b = device(single(normal(40))), cupy.zeros(40, np.float32)
    strict.get_function("add")((1,), (64,), (a, b, np.int32(40), np.float32(0.5)))
    np.testing.assert_array_equal(b.get(), a.get() + np.float32(0.5))
    before, turn = b.get(), strict.get_function("turn")
    turn((1,), (40,), (b, np.int32(1)), shared_mem=160)
    np.testing.assert_array_equal(b.get(), before[::-1])
    # without the wait, in whichever order
    turn((1,), (40,), (b, np.int32(0)), shared_mem=160)
    assert np.isnan(b.get()).any()


# --- Compilers of CUDA ----------------------------------------------------------------


def test_compiles_for_a_gpu(tmp_path):
    """With nvcc, else with the runtime compiler that CuPy uses; neither needs a GPU."""
    source = kernels.source()
    if shutil.which("nvcc"):
        (tmp_path / "kernels.cu").write_text(source)
        command = (
            "nvcc -cubin -arch=sm_80 -std=c++17 -Werror=all-warnings -Xptxas=-v "
            "kernels.cu -o kernels.cubin"
        )
        done = subprocess.run(
            command.split(), cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        # ptxas says it for each kernel
        without_spills = done.stderr.count(", 0 bytes spill stores")
        assert without_spills == source.count('extern "C"')
        return
    nvrtc = pytest.importorskip(
        "cupy.cuda.nvrtc", reason="needs nvcc, or CuPy and its runtime compiler"
    )
    try:
        nvrtc.getVersion()
    except Exception as error:
        pytest.skip(f"needs nvcc or NVIDIA's runtime compiler ({error})")
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, ("--gpu-architecture=sm_80", "-std=c++17"))
    except nvrtc.NVRTCError:
        raise AssertionError(nvrtc.getProgramLog(program)) from None


def test_the_shared_memory_of_a_block_suffices_for_the_papers_sizes():
    assert all(kernels._norm_warps(width) >= 4 for width in (256, 768, 1536))
    assert kernels._attention_shared(32, 33, 32, 32, 32) <= kernels.SHARED
