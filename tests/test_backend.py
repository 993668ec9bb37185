"""Which library an array belongs to, and the one door for matrix products."""

import sys
import types

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits
from turns import in_turn

from tinyrmc import Tape, backend
from tinyrmc import primitives as p
from tinyrmc.backend import cpu


@pytest.fixture
def registry():
    """The registry of array types, afterwards as it was."""
    before = dict(backend.NAMESPACES)
    yield backend.NAMESPACES
    backend.NAMESPACES.clear()
    backend.NAMESPACES.update(before)


def test_namespace_of_numpy_arrays_and_their_subclasses(registry, tmp_path):
    assert backend.namespace(np.ones(2)) is np
    assert backend.namespace(np.memmap(tmp_path / "a", np.float32, "w+", shape=3)) is np
    assert np.memmap in registry  # found once, remembered


def test_cupy_is_found_by_its_arrays_and_not_imported(registry, monkeypatch):
    cupy = types.ModuleType("cupy")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array_type = type("ndarray", (), {"__module__": "cupy._core.core"})
    assert backend.namespace(array_type()) is cupy
    with pytest.raises(TypeError, match="is not an array"):
        backend.namespace(type("ndarray", (), {"__module__": "cupyish"})())


class Other(np.ndarray):
    """Arrays of another library, as far as the registry can tell."""


def test_a_registered_backend_computes_with_its_own_functions(registry):
    calls = []

    class Namespace:
        __name__ = "other"

        def __getattr__(self, name):
            def function(*args, **kwargs):
                calls.append(name)
                return np.asarray(getattr(np, name)(*args, **kwargs)).view(Other)

            return function

    xp = Namespace()
    backend.register(Other, xp)
    a = np.ones(3).view(Other)
    assert backend.namespace(a) is xp
    with Tape() as tape:
        x = tape.watch(a)
        loss = p.sum(p.tanh(x))
    assert tape.gradient(loss, x).shape == (3,)
    assert [name for name in calls if name != "array"][:2] == ["tanh", "sum"]
    with pytest.raises(TypeError, match="add: argument 1 is a numpy array among other"):
        p.add(a, np.ones(3))


@in_turn(
    "a, b",
    [
        ((3, 4), (4, 2)),
        ((5, 3, 4), (4, 2)),
        ((5, 6, 3, 4), (4, 2)),
        ((5, 3, 4), (5, 4, 2)),
        ((3, 4), (5, 4, 2)),
    ],
)
def test_gemm_is_matmul(a, b):
    random = np.random.default_rng(0)
    a, b = random.standard_normal(a), random.standard_normal(b)
    for left in a, np.flip(np.flip(a).copy()), np.asfortranarray(a):
        np.testing.assert_allclose(
            backend.gemm(left, b), np.matmul(a, b), rtol=1e-13, atol=1e-14
        )
        out = np.empty((2, *np.matmul(a, b).shape))[1]
        assert backend.gemm(left, b, out=out) is out
        np.testing.assert_allclose(out, np.matmul(a, b), rtol=1e-13, atol=1e-14)


@in_turn("shape", [(1,), (20,), (40,), (41,), (2, 5)])
def test_a_few_rows_times_a_transposed_matrix(shape):
    """Turned around, and laid out as any other product."""
    rng = np.random.default_rng(0)
    a, stored = rng.standard_normal((*shape, 256)), rng.standard_normal((260, 256))
    for left in a, np.flip(np.flip(a).copy()), a + 1j:
        found = backend.gemm(left, stored.T)
        assert found.flags.c_contiguous and found.dtype == left.dtype
        np.testing.assert_allclose(found, left @ stored.T, rtol=1e-10, atol=1e-12)
    one = a[0]  # a vector, or rows
    expected = one @ stored.T if one.ndim == 1 else (stored @ one.T.copy()).T
    np.testing.assert_array_equal(backend.gemm(one, stored.T), expected)


@pytest.mark.parametrize("small_kernels", [False, True])
@pytest.mark.parametrize(
    ("rows", "size", "width", "times"),
    [
        *((20, 64, 128, 35), (20, 65, 130, 35), (20, 2600, 9, 35), (20, 1601, 9, 35)),
        *((1, 3, 2, 300), (3, 5, 7, 2), (50, 8, 8, 9)),
    ],
)
def test_a_multiplier_multiplies(
    xp, monkeypatch, small_kernels, rows, size, width, times
):
    """In blocks and plainly, transposed weights too, of any dtype."""
    monkeypatch.setattr(cpu, "_knows_small_products", lambda: small_kernels)
    rng = np.random.default_rng(0)
    for dtype in np.float64, np.float32, np.complex128:
        weight, x = rng.random((size, width)), rng.random((2, rows, size))
        expected = (x @ weight).astype(dtype)
        weight, x = weight.astype(dtype), x.astype(dtype)
        for stored in weight, weight.T.copy().T:
            multiply = cpu.multiplier(xp.asarray(stored), rows, times)
            for each, product in zip(xp.asarray(x), expected, strict=True):
                found = multiply(each)
                assert found.dtype == dtype
                np.testing.assert_allclose(
                    backend.to_host(found),
                    product,
                    rtol=1e-5 if dtype == np.float32 else 1e-12,
                )


def test_a_weight_is_made_ready_only_where_it_pays(monkeypatch):
    shapes = []

    def counting(a, b, out=None):
        shapes.append(b.shape)
        return np.matmul(a, b, out=out)

    monkeypatch.setattr(cpu, "gemm", counting)
    monkeypatch.setattr(cpu, "_knows_small_products", lambda: True)
    sizes = (20, 64, 35), (20, 2600, 35), (20, 64, 8), (64, 64, 35), (20, 1601, 35)
    for rows, size, times in sizes:
        weight = np.ones((size, 64), np.float32)
        cpu.multiplier(weight, rows, times)(np.ones((rows, size), np.float32))
    blocks = [(1, 2, 64, 32), (2, 2, 1300, 32)]  # with as few numbers to add up
    assert shapes == [*blocks, (64, 64), (64, 64), (1601, 64)]


def test_devices():
    assert backend.device_namespace("cpu") is np
    with pytest.raises(backend.DeviceError, match="unknown device 'tpu'; choose cpu"):
        backend.device_namespace("tpu")


def cuda_error():
    """The one line for a device that cannot be used."""
    with pytest.raises(backend.DeviceError) as caught:
        backend.device_namespace("cuda")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_cuda_without_cupy_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # import cupy now raises ImportError
    assert (
        "needs CuPy and a GPU that it can compute on (ModuleNotFoundError"
        in cuda_error()
    )
    assert "pip install 'tinyrmc[cuda12]'" in cuda_error()


def test_cuda_without_a_usable_gpu_says_why(monkeypatch):
    def ones(*_):
        raise RuntimeError("cudaErrorInsufficientDriver: it is too old\nfor 13.0")

    cupy = types.SimpleNamespace(ones=ones)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    assert "(RuntimeError: cudaErrorInsufficientDriver: it is too old)" in cuda_error()
    assert "--device cpu" in cuda_error()


def test_moves():
    array = np.ones(3)
    assert backend.to_host(array) is array
    on_device = types.SimpleNamespace(get=lambda: array)
    assert backend.to_host(on_device) is array


def test_blas_threads_holds_inside_the_block():
    def counts():
        return [
            library["num_threads"]
            for library in threadpool_info()
            if library["user_api"] == "blas"
        ]

    with threadpool_limits(2, user_api="blas"):
        before = counts()
        with backend.blas_threads(1):
            assert counts() == [1] * len(before)
        assert counts() == before
