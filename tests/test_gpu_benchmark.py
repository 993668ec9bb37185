"""benchmarks/gpu.py without a GPU: it refuses in one line; and over the stand-in all of its Python runs, but PyTorch's part."""

import importlib.util
import inspect
import json
import sys
import types
from pathlib import Path

import cuda_shim
import fakecupy
import pytest

from tinyrmc import backend, kernels
from tinyrmc.commands import run_main

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """The module, in small, writing elsewhere."""
    monkeypatch.syspath_prepend(FOLDER)
    import gpu

    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    for name, value in {"BATCHES": (3,), "CHECKED": 4, "LEAST": 1, "REPEATS": 1}.items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(gpu.Work, "__init__", lambda self: self.__dict__.update(slots=3, heads=2, head_size=4, steps=2))
    monkeypatch.setattr(gpu, "time_torch", lambda *_: {})
    yield gpu
    del sys.modules["gpu"]


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in with kernels, and with what else of CuPy the benchmark uses."""
    cupy = fakecupy.installed(monkeypatch)
    pool = types.SimpleNamespace(free_all_blocks=lambda: None)
    for name, value in {"RawModule": cuda_shim.RawModule, "get_default_memory_pool": lambda: pool}.items():
        monkeypatch.setattr(cupy, name, value, raising=False)
    return cupy


def test_without_a_gpu_it_says_so_and_writes_nothing(gpu, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: gpu.main([]))
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and out == "" and err.count("\n") == 1 and err.startswith("error: --device cuda needs CuPy")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(not cuda_shim.available, reason="needs g++ to run CUDA kernels on a processor")
def test_checks_then_measures_then_writes(gpu, cupy, monkeypatch, capsys, tmp_path):
    modes = []
    monkeypatch.setattr(backend, "use_tf32", lambda xp, on: modes.append(on))
    assert gpu.main(["--seconds", "0"]) == 0
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert path.name == "gpu-Some-GPU.json" and result["machine"]["gpu"] == "Some GPU"
    assert result["work"] == "3 slots x 8 units, 2 heads, T = 2"
    assert [*result["rows"]["batch 3"]] == ["ours, array bodies", "ours, kernels", "ours, kernels, TF32"]
    assert all(row["ms"] > 0 for rows in result["rows"].values() for row in rows.values())
    assert modes == [False, False, True, False]
    assert set(result["checks"]["kernels"]) == {"layer_norm", "attention", "rmc_gates", "softmax_cross_entropy"}
    timed = {name.split()[0] for name in result["kernels"]}
    assert timed == {*cuda_shim.RawModule(kernels.source()).signatures} - {"rmc_gates_backward_memory"}
    adam = next(row for name, row in result["kernels"].items() if name.startswith("adam"))
    size = sum(p.size for p in gpu.make_trainer(gpu.Work(), 2, "cpu").model.parameters())
    assert adam["GB/s"] * adam["us"] * 1e3 == pytest.approx(7 * 4 * size + 9)  # and three scalars, one of them a bool
    assert "correct on Some GPU" in capsys.readouterr().out


@pytest.mark.skipif(not cuda_shim.available, reason="needs g++ to run CUDA kernels on a processor")
@pytest.mark.parametrize("what", ["a kernel", "a kernel is off", "a step"])
def test_what_differs_stops_it_and_nothing_is_written(what, gpu, cupy, monkeypatch, capsys, tmp_path):
    if what == "a kernel":
        forward = kernels.softmax_cross_entropy.forward
        monkeypatch.setattr(kernels.softmax_cross_entropy, "forward", lambda *args: (forward(*args)[0] * 1.001, forward(*args)[1]))
    elif what == "a kernel is off":
        monkeypatch.setattr(kernels.attention, "condition", lambda *_, **__: False)
    else:
        monkeypatch.setattr(kernels, "adam", lambda *_: None)
    assert gpu.main(["--seconds", "0"]) == 1
    says = {"a kernel": "softmax_cross_entropy at", "a kernel is off": "attention runs no kernel at", "a step": "3 training steps"}
    err = capsys.readouterr().err
    assert err.startswith(f"error: {says[what]}") and err.count("\n") == 1 and [*tmp_path.iterdir()] == []


@pytest.mark.skipif(not (FOLDER / "peers.py").exists(), reason="needs benchmarks/peers.py")
def test_pytorchs_step_can_be_made_on_a_gpu(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import peers

    assert {"compiled", "device"} <= set(inspect.signature(peers.torch_eager).parameters)


def test_no_rows_of_pytorch_where_it_cannot_use_a_gpu(gpu, monkeypatch, capsys):
    monkeypatch.undo()  # time_torch itself
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert gpu.time_torch(None, 1, 0) == {}
    assert capsys.readouterr().out == "PyTorch is not installed: no rows of it\n"
