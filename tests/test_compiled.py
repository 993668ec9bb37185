"""Compiled bodies (the extra `fast`) against the references, and where they run.

In float32, at the edges, in every layout, in several threads; and what happens where
Numba is missing, old or broken.
"""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from fakecupy import single
from hypothesis import given
from hypothesis import strategies as st
from samplers import CASES, LAYOUTS, Case, as_tuple, gradients, output_weights
from tinyruns import ROOT, TINY, stop_at
from turns import in_turn

from tinyrmc import Parameter, fused, optim
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import TABLE, Tape
from tinyrmc.cli import train
from tinyrmc.cores import CoreConfig, build_core
from tinyrmc.fused import table
from tinyrmc.fused.bodies import OVERRIDES, running
from tinyrmc.training.run import Run

NAMES = sorted(OVERRIDES)
needs_numba = pytest.mark.skipif(
    subprocess.run(
        [sys.executable, "-c", "import numba"], capture_output=True
    ).returncode
    != 0,
    reason="needs Numba: pip install 'tinyrmc[fast]'",
)


@pytest.fixture
def compiled(monkeypatch):
    """Bodies are on."""
    monkeypatch.setenv("TINYRMC_COMPILED", "1")
    assert fused.use_compiled().startswith("numba ")
    yield
    fused.use_compiled(False)


def assert_like(ours, theirs, tolerance=1e-5):
    """Within the tolerance of the largest finite number; NaN and infinity alike."""
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite])
    scale = max(1.0, np.abs(theirs[finite]).max(initial=0.0))
    assert np.abs(ours[finite] - theirs[finite]).max(initial=0.0) <= tolerance * scale


def assert_is_the_reference(case, tolerance=1e-5):
    """Values and gradients, both computed in float32."""
    reference, weights = TABLE[case.name].reference, output_weights(case)
    for ours, theirs in zip(
        as_tuple(case()), as_tuple(case(function=reference)), strict=True
    ):
        assert ours.dtype == np.float32
        assert_like(ours.data, theirs.data, tolerance)
    pairs = gradients(case, weights), gradients(case, weights, function=reference)
    for ours, theirs in zip(*pairs, strict=True):
        assert ours.dtype == np.float32
        assert_like(ours, theirs, tolerance)


@pytest.fixture
def ran(monkeypatch):
    """The names of the bodies that have run."""
    names = []
    for name, body in OVERRIDES.items():

        def counted(*arrays, name=name, run=body.run, **static):
            names.append(name)
            return run(*arrays, **static)

        monkeypatch.setattr(body, "run", counted)
    return names


@needs_numba
@in_turn("name", NAMES)
def test_a_body_is_its_reference(compiled, ran, name):
    for case in CASES[name]:
        for change in (lambda a: a), *LAYOUTS.values():
            assert_is_the_reference(case.map(single).map(change))
    assert name in ran


def numbers(draw, *shape, scale=1.0):
    seed = draw(st.integers(0, 2**32 - 1))
    array = scale * np.random.default_rng(seed).standard_normal(shape)
    return array.astype(np.float32)


@st.composite
def calls(draw, name):
    """A call of a fused primitive, with sizes that fill vectors and that do not."""
    few, width = st.integers(1, 5), st.integers(2, 70)  # the norm of one is rounding
    scale = draw(st.sampled_from([1e-6, 1.0, 30.0]))

    def some(*shape):
        return numbers(draw, *shape, scale=scale)

    B, N, F, G = draw(few), draw(few), draw(width), draw(width)
    if name == "linear":
        arrays = some(B, N, F), some(F, G), some(G)
        return Case(name, arrays, {"relu": draw(st.booleans())})
    if name == "layer_norm":
        residual = some(B, N, F) if draw(st.booleans()) else None
        x = some(B, N, F) + np.float32(3 * scale) * np.linspace(-1, 1, F, dtype="f4")
        return Case(name, (x, some(F), some(F), residual))
    if name == "rmc_gates":
        arrays = some(B, 1, 2 * F), some(B, N, 2 * F), some(B, N, F), some(B, N, F)
        return Case(name, arrays, {"forget_bias": draw(st.sampled_from([0.0, 1.0]))})
    H, K, V = draw(few), draw(few), draw(few)
    sizes = {"num_heads": H, "key_size": K, "num_queries": draw(st.integers(1, N))}
    return Case(name, (numbers(draw, B, N, H * (2 * K + V)),), sizes)


@needs_numba
@in_turn("name", NAMES)
def test_any_size_and_scale(compiled, name):
    @given(case=calls(name))
    def check(case):
        assert_is_the_reference(case, 3e-5)

    check()


@needs_numba
@in_turn("name", NAMES)
def test_what_is_not_finite_comes_through(compiled, name):
    @given(case=calls(name), bad=st.sampled_from([np.nan, np.inf, -np.inf]))
    def check(case, bad):
        first = case.arguments[0].copy()
        first.reshape(-1)[first.size // 2] = bad
        broken = Case(name, case.replace(0, first), case.static)
        theirs, _ = TABLE[name].forward(np, *broken.arguments, **case.static)
        assert_like(broken().data, theirs, 3e-5)

    with np.errstate(all="ignore"):
        check()


@needs_numba
def test_extremes(compiled):
    from tinyrmc.fused import compiled as kernels

    x = np.concatenate([np.linspace(-100, 0, 20_001), -(10.0 ** np.arange(-38, 38))])
    x = np.append(x, [-np.inf, np.nan]).astype(np.float32)
    exp = np.array([kernels.exp(each) for each in x])
    np.testing.assert_allclose(exp, np.exp(x.astype(float)), rtol=5e-7, atol=1e-37)
    x = np.concatenate([x, -x])
    tanh = np.array([kernels.tanh(each) for each in x])
    np.testing.assert_allclose(tanh, np.tanh(x.astype(float)), rtol=5e-7)
    assert np.nanmax(np.abs(tanh)) <= 1
    constant = np.full((2, 33), 1e4 / 3, np.float32)  # its mean is rounded
    ones = np.ones(33, np.float32)
    assert not fused.layer_norm(constant, ones, 0 * ones).data.any()


OTHERS = {
    "float64": lambda a: a,
    "big-endian": lambda a: a.astype(">f4"),
    "unaligned": lambda a: np.frombuffer(
        b"\0" + single(a).tobytes(), np.float32, a.size, offset=1
    ).reshape(a.shape),
}


@needs_numba
@in_turn("kind", OTHERS)
def test_another_kind_of_array_runs_the_array_body(compiled, ran, kind):
    names = NAMES[:1] if kind == "big-endian" else NAMES  # NumPy makes it native
    for name in names:
        case = CASES[name][0].map(OTHERS[kind])
        if kind != "big-endian":
            ours = as_tuple(case())
            fused.use_compiled(False)
            for one, other in zip(ours, as_tuple(case()), strict=True):
                np.testing.assert_array_equal(one.data, other.data)
            fused.use_compiled()
        assert not OVERRIDES[name].condition(*case.arguments, **case.static)
    assert not ran


@needs_numba
def test_empty_batches_and_unknown_options(compiled, ran):
    zeros = np.zeros((0, 4), np.float32)
    ones = np.ones(4, np.float32)
    assert fused.layer_norm(zeros, ones, ones).shape == (0, 4)
    mask = np.ones((3, 3), bool)
    fused.attention(np.ones((2, 3, 12), np.float32), mask, num_heads=2, key_size=2)
    x = np.ones((2, 1, 2), np.float32), np.ones((2, 3, 2), np.float32)
    fused.rmc_gates(*x, *np.ones((2, 2, 3, 3), np.float32))  # one gate a slot
    fused.linear(np.ones((2, 4), np.float32), np.ones((4, 3), np.float32))
    assert not ran
    with pytest.raises(ValueError, match="key_size"):
        fused.attention(np.ones((2, 3, 12), np.float32), num_heads=5, key_size=2)
    with pytest.raises(ValueError, match="epsilon"):
        fused.layer_norm(ones, ones, ones, epsilon=-1.0)


@needs_numba
def test_what_a_body_keeps_is_guarded_and_any_strides_do(compiled, ran):
    x, gain = np.ones((2, 3, 4), np.float32), Parameter(np.ones(4, np.float32))
    with Tape() as tape:
        loss = p.sum(fused.layer_norm(x, gain, np.zeros(4, np.float32)))
    with pytest.raises(RuntimeError, match="was changed after it was recorded"):
        x[...] = 2
        tape.backward(loss)
    weight, targets = np.ones((5, 4), np.float32), np.zeros(6, int)
    rows = x.reshape(6, 4)[:, :3], weight[:, :3]
    one = fused.linear_cross_entropy(*rows, targets, weight[:, 3])
    other = fused.linear_cross_entropy(*rows, targets, weight[:, 3].copy())
    np.testing.assert_array_equal(one.data, other.data)


@needs_numba
@in_turn("core", ["rmc", "rmc_paper", "lstm", "dnc", "entnet", "rnn"])
def test_gradients_of_whole_cores(compiled, core):
    """In float32 with bodies, against float64 without: gradcheck has checked those."""
    config = CoreConfig(core, mem_slots=3, head_size=4, num_heads=2)
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((5, 4, 6)).astype(np.float32)
    single_core = build_core(config, 6, 0)
    exact = single_core.astype(np.float64)

    def found(core, inputs):
        with Tape() as tape:
            outputs, _ = core.unroll(inputs, core.initial_state(5))
            loss = p.sum(p.square(p.stack(outputs)))
        tape.backward(loss)
        return {name: each.grad for name, each in core.named_parameters()}

    ours, theirs = found(single_core, inputs), found(exact, inputs.astype(float))
    norm = np.sqrt(sum(np.square(g).sum() for g in theirs.values()))
    for name, g in theirs.items():
        assert np.linalg.norm(ours[name] - g) <= 1e-5 * norm, name


@needs_numba
def test_a_large_vocabulary(compiled):
    rng = np.random.default_rng(0)
    x, weight, bias = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in ((7, 5), (50, 5), (50,))
    )
    bias[:9] = -np.inf  # all of a tile is forbidden
    targets = rng.integers(9, 50, 7)
    targets[0] = 3  # infinite loss
    for biases in (x, weight, targets, bias), (x, weight, targets):
        case = Case("linear_cross_entropy", biases, {"block": 8})
        losses = case().data
        fused.use_compiled(False)
        assert_like(losses, case().data)
        fused.use_compiled()
    sound = Case("linear_cross_entropy", (x, weight, targets), {"block": 8})
    assert_is_the_reference(sound)


@needs_numba
@pytest.mark.filterwarnings("ignore:.*gradient's norm is nan")
def test_adam(compiled):
    def trained():
        rng = np.random.default_rng(0)
        parameter = Parameter(rng.standard_normal(100_000).astype(np.float32))
        adam = optim.Adam([parameter])
        for _ in range(5):
            adam.gradient[...] = rng.standard_normal(100_000)
            adam.step(1e-2, max_norm=1.0)
        adam.gradient[3] = np.nan  # not applied
        adam.step(1e-2)
        return adam.state() | {"data": parameter.data}

    ours = trained()
    fused.use_compiled(False)
    for name, array in trained().items():
        np.testing.assert_allclose(ours[name], array, rtol=2e-6, atol=1e-7)


@needs_numba
def test_the_same_bits_in_several_threads(compiled):
    case = CASES["layer_norm"][-1].map(single)
    first, different = case().data.tobytes(), []

    def again():
        for _ in range(200):
            if case().data.tobytes() != first:
                different.append(1)

    threads = [threading.Thread(target=again) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not different


@needs_numba
def test_plain_and_the_switch(compiled, ran, monkeypatch):
    case = CASES["linear"][0].map(single)
    with fused.plain():
        case()
    assert not ran
    monkeypatch.setenv("TINYRMC_COMPILED", "0")
    assert fused.use_compiled() == fused.bodies() == "numpy"
    case()
    assert not ran and running(case.arguments[0]) is None


@needs_numba
@pytest.mark.slow
def test_a_run_records_its_bodies(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TINYRMC_COMPILED", "1")
    monkeypatch.chdir(tmp_path)
    for name, words in (
        ("a", []),
        ("two", ["--workers", "2"]),
        ("np", ["--no-compiled"]),
    ):
        assert train.main([*TINY, *words, "--run", name]) == 0
    assert fused.bodies() == "numpy"  # as it was before
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        assert train.main([*TINY, "--run", "b"]) == 128 + signal.SIGTERM
        stop_at(patch, 7)
        assert (
            train.main([*TINY, "--no-compiled", "--run", "c"]) == 128 + signal.SIGTERM
        )
    assert "computed by" not in capsys.readouterr().out
    assert train.main(["--resume", "b"]) == 0  # as it was begun
    assert train.main(["--resume", "c"]) == 0
    assert "computed by" not in capsys.readouterr().out
    used = {name: Run.open(name).environment["bodies"] for name in ("a", "np")}
    assert used["a"].startswith("numba ") and used["np"] == "numpy"
    weights = [np.load(f"{name}/checkpoint.npz") for name in ("a", "b", "np", "c")]
    for key in weights[0].files:
        if key.startswith("parameters/"):
            a, b, plain, c = (each[key] for each in weights)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(plain, c)
            np.testing.assert_allclose(a, plain, rtol=1e-3, atol=1e-4)


@needs_numba
def test_going_on_without_them(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TINYRMC_COMPILED", "1")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        stop_at(patch, 7)
        assert train.main([*TINY, "--run", "a"]) == 128 + signal.SIGTERM
    monkeypatch.setenv("TINYRMC_COMPILED", "0")
    assert train.main(["--resume", "a"]) == 0
    assert ", now by numpy; it goes on, but not bit for bit" in capsys.readouterr().out


# --- Numba missing, old, broken; the cache --------------------------------------------

PROGRAM = """
import sys
import tinyrmc
assert "numba" not in sys.modules
from tinyrmc import fused
print(fused.use_compiled(), fused.use_compiled())
import numpy as np
ones = np.ones(8, np.float32)
print(fused.layer_norm(np.arange(8, dtype=np.float32), ones, ones).data.tobytes().hex())
"""


def started(folder, **environment):
    environment = {"TINYRMC_COMPILED": "1", **environment}
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | environment | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


INSTALLATIONS = {
    "missing": ("raise ModuleNotFoundError('no numba', name='numba')", ""),
    "broken": ("raise OSError('llvmlite is gone')", "OSError: llvmlite is gone"),
    "too old": (
        "__version__ = '0.66.0'\nconfig = __import__('types').SimpleNamespace("
        "DISABLE_JIT=False)",
        "ImportError: Numba 0.66.0 is older than 0.67",
    ),
}


@in_turn("state", INSTALLATIONS)
def test_without_a_numba_that_works(tmp_path, state):
    text, told = INSTALLATIONS[state]
    (tmp_path / "numba.py").write_text(text)
    process = started(tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("numpy numpy\n")
    wanted = f"note: no compiled bodies, NumPy runs instead ({told})\n" if told else ""
    assert err == wanted  # once


@needs_numba
@pytest.mark.slow
@pytest.mark.weekly
def test_two_processes_compile_at_once(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    processes = [started(tmp_path, **cache) for _ in range(2)]
    answers = [process.communicate(timeout=300) for process in processes]
    told = "compiling for this processor: some seconds, once\n"
    assert {err for _, err in answers} <= {told, ""}
    assert told in [err for _, err in answers]
    loaded = started(tmp_path, **cache).communicate(timeout=60)
    assert loaded[1] == ""
    assert {out for out, _ in [*answers, loaded]} == {loaded[0]}
    for file in (tmp_path / "cache").rglob("*.nbi"):  # a broken cache
        file.write_bytes(b"")
    again = started(tmp_path, **cache).communicate(timeout=300)
    assert again[0] == loaded[0]


def test_compiled_bodies_are_off_by_default_in_a_library():
    assert not table.compiled
