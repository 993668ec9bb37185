"""benchmarks/gpu.py without a GPU: it refuses in one line; over the stand-in all of its
Python runs, with our step for PyTorch's.
"""

import contextlib
import importlib.util
import inspect
import json
import sys
import types

import candidates
import cuda_shim
import fakecupy
import gpu as benchmark
import peers
import pytest
from candidates import Work

from tinyrmc import backend, kernels
from tinyrmc.commands import run_main

TINY = Work(batch=4, slots=3, width=8, steps=2, heads=2)
ROWS = ["ours, array bodies", "ours, kernels", "ours, kernels, TF32"]
shim = pytest.mark.skipif(
    not cuda_shim.available, reason="needs g++ to run CUDA kernels on a processor"
)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """The module, in a hurry, writing elsewhere, and without PyTorch."""
    for name, value in {
        "RESULTS": tmp_path,
        "LEAST": 1,
        "REPEATS": 1,
        "time_torch": lambda *_: {},
    }.items():
        monkeypatch.setattr(benchmark, name, value)
    return benchmark


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in with kernels, and with what else of CuPy the benchmark uses."""
    cupy = fakecupy.installed(monkeypatch)
    pool = types.SimpleNamespace(free_all_blocks=lambda: None)
    for name, value in {
        "RawModule": cuda_shim.RawModule,
        "get_default_memory_pool": lambda: pool,
    }.items():
        monkeypatch.setattr(cupy, name, value, raising=False)
    monkeypatch.setattr(backend, "use_tf32", lambda xp, on: None)
    return cupy


def one_line_error(main, capsys):
    """The error with which a command ends that prints nothing else."""
    with pytest.raises(SystemExit) as caught:
        run_main(main)
    out, err = capsys.readouterr()
    assert caught.value.code == 2 and out == "" and err.count("\n") == 1
    return err


def test_without_a_gpu_it_says_so_and_writes_nothing(
    gpu, monkeypatch, capsys, tmp_path
):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert one_line_error(lambda: gpu.main([]), capsys).startswith(
        "error: --device cuda needs CuPy"
    )
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_a_time_that_is_none_is_refused(seconds, gpu, cupy, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "measure", lambda *_: pytest.fail("it measures"))
    says = f"error: --seconds must be finite and not negative, not {float(seconds)}\n"
    assert one_line_error(lambda: gpu.main([f"--seconds={seconds}"]), capsys) == says


@shim
def test_checks_then_measures_then_writes(gpu, cupy, monkeypatch, capsys, tmp_path):
    modes = []
    monkeypatch.setattr(backend, "use_tf32", lambda xp, on: modes.append(on))
    assert gpu.main(["--seconds", "0"], [TINY]) == 0
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert path.name == "gpu-Some-GPU.json" and result["machine"]["gpu"] == "Some GPU"
    (work,) = result["works"]
    assert (work["size"], work["batch"], work["heads"], [*work["rows"]]) == (
        "3 slots x 8, T = 2, batch 4",
        4,
        2,
        ROWS,
    )
    for row in work["rows"].values():
        assert row["ms"] > 0 and max(row["errors"].values()) < 1e-6
    assert modes == [False, False, True, False]
    assert set(result["kernel_errors"]) == {
        "layer_norm",
        "attention",
        "rmc_gates",
        "softmax_cross_entropy",
        "adam",
    }
    timed = {name.split()[0] for name in result["kernels"]}
    assert timed == {*cuda_shim.RawModule(kernels.source()).signatures} - {
        "rmc_gates_backward_memory"
    }
    adam = next(
        row for name, row in result["kernels"].items() if name.startswith("adam")
    )
    size = sum(
        p.size
        for p in candidates.make_trainer(
            TINY, gpu.make_problem(TINY)
        ).model.parameters()
    )
    assert adam["GB/s"] * adam["us"] * 1e3 == pytest.approx(
        7 * 4 * size + 9
    )  # and three scalars, one of them a bool
    assert "kernels are correct on Some GPU" in capsys.readouterr().out


@shim
def test_no_rows_in_tf32_on_a_gpu_that_has_none(gpu, cupy, monkeypatch):
    monkeypatch.setattr(
        cupy.cuda.runtime,
        "getDeviceProperties",
        lambda device: {"name": b"Some GPU", "major": 7, "minor": 5},
    )
    assert [*gpu.time_ours(cupy, TINY, gpu.make_problem(TINY), 0)] == ROWS[:2]


@shim
@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        ("a kernel", "softmax_cross_entropy at"),
        ("a kernel is off", "attention runs no kernel at"),
        ("adam", "adam differs from its array body by"),
        ("a step", "ours, array bodies: its gradient is off by"),
    ],
)
def test_what_differs_stops_it_and_nothing_is_written(
    sabotage, says, gpu, cupy, monkeypatch, capsys, tmp_path
):
    if sabotage == "a kernel":
        forward = kernels.softmax_cross_entropy.forward
        monkeypatch.setattr(
            kernels.softmax_cross_entropy,
            "forward",
            lambda *args: (forward(*args)[0] * 1.001, forward(*args)[1]),
        )
    elif sabotage == "a kernel is off":
        monkeypatch.setattr(kernels.attention, "condition", lambda *_, **__: False)
    elif sabotage == "adam":
        monkeypatch.setattr(kernels, "adam", lambda *_: None)
    else:
        read = candidates.read_problem
        monkeypatch.setattr(
            candidates, "read_problem", lambda path: scaled(*read(path))
        )
    assert gpu.main(["--seconds", "0"], [TINY]) == 1
    err = capsys.readouterr().err
    assert (
        err.startswith(f"error: {says}")
        and err.count("\n") == 1
        and [*tmp_path.iterdir()] == []
    )


def scaled(work, problem):
    """A problem whose gradient is off by a ten-thousandth, which float32 does not
    explain.
    """
    return work, problem | {
        "gradient": {name: x * 1.0001 for name, x in problem["gradient"].items()}
    }


# --- PyTorch --------------------------------------------------------------------------


@pytest.fixture
def torch(monkeypatch):
    """What time_torch asks of PyTorch; gives the list of the precisions that were set."""
    modules = {
        name: types.ModuleType(name)
        for name in ("torch", "torch._inductor", "torch._inductor.config")
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    module, precisions = modules["torch"], []
    module._inductor, modules["torch._inductor"].config = (
        modules["torch._inductor"],
        modules["torch._inductor.config"],
    )
    modules["torch._inductor.config"].patch = lambda options: contextlib.nullcontext()
    module.cuda = types.SimpleNamespace(
        is_available=lambda: True, synchronize=lambda: None
    )
    module.compiler = types.SimpleNamespace(reset=lambda: None)
    module.set_float32_matmul_precision = precisions.append
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(benchmark, "LEAST", 1)
    return precisions


def test_a_row_of_pytorch_that_does_not_run_is_left_out(torch, monkeypatch, capsys):
    def step(work, problem, compiled):
        if compiled:
            raise RuntimeError("no compiler for this GPU\nand many more lines")
        return candidates.ours(candidates.make_trainer(work, problem))

    monkeypatch.setattr(benchmark, "torch_step", step)
    rows = benchmark.time_torch(TINY, benchmark.make_problem(TINY), 0, tf32=True)
    assert [*rows] == ["PyTorch eager", "PyTorch eager, TF32"] and torch == [
        "highest",
        "high",
    ]
    said = (
        "PyTorch torch.compile, CUDA graphs, TF32 fails at batch 4 and is left out: "
        "RuntimeError: no compiler for this GPU"
    )
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert [
        *benchmark.time_torch(TINY, benchmark.make_problem(TINY), 0, tf32=False)
    ] == ["PyTorch eager"]


def test_a_row_of_pytorch_that_differs_stops_everything(torch, monkeypatch):
    monkeypatch.setattr(
        benchmark,
        "torch_step",
        lambda work, problem, _: candidates.ours(
            candidates.make_trainer(work, problem)
        ),
    )
    with pytest.raises(
        benchmark.Wrong,
        match=r"^PyTorch eager: its gradient is off by 1\.0e-04 of its value$",
    ):
        benchmark.time_torch(*scaled(TINY, benchmark.make_problem(TINY)), 0, tf32=True)


def test_pytorchs_step_can_be_made_on_a_gpu():
    assert {"compiled", "device"} <= set(
        inspect.signature(peers.torch_eager).parameters
    )


def test_no_rows_of_pytorch_where_it_is_not_installed(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert benchmark.time_torch(None, None, 0, tf32=True) == {}
    assert capsys.readouterr().out == "PyTorch is not installed: no rows of it\n"
