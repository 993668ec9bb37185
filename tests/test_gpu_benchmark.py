"""benchmarks/gpu.py without a GPU: it refuses in one line, and on the stand-in for CuPy
all of its Python runs, with our step in the place of PyTorch's.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import json
import sys
import types

import candidates
import cuda_shim
import fakecupy
import gpu as benchmark
import pytest
from candidates import Work

from tinyrmc import backend
from tinyrmc import gpu as kernels
from tinyrmc.cli.commands import run_main
from tinyrmc.gpu.graph import Graph

TINY = Work(batch=4, slots=3, width=8, steps=2, heads=2)
pytestmark = pytest.mark.slow

ROWS = [f"ours, {way}" for way in benchmark.WAYS]
ROWS += [f"{row}, TF32" for row in ROWS[1:]]
shim = pytest.mark.skipif(
    not cuda_shim.available, reason="needs g++ to run CUDA kernels on a processor"
)


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """The module, in a hurry, writing elsewhere, and without PyTorch."""
    monkeypatch.setattr(benchmark, "RESULTS", tmp_path)
    monkeypatch.setattr(benchmark, "LEAST", 1)
    monkeypatch.setattr(benchmark, "time_torch", lambda *_: None)
    monkeypatch.setattr(kernels, "_JUDGES", 32)  # the shim is slow where many wait
    return benchmark


@pytest.fixture
def cupy(monkeypatch):
    """The stand-in with kernels, and with what else of CuPy the benchmark uses."""
    cupy = fakecupy.installed(monkeypatch)
    cuda_shim.installed(monkeypatch)
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


@shim
def test_checks_then_measures_then_writes(gpu, cupy, monkeypatch, capsys, tmp_path):
    modes = []
    monkeypatch.setattr(backend, "use_tf32", lambda xp, on: modes.append(on))
    assert gpu.main(["--seconds", "0"], [TINY]) == 0
    assert "kernels are correct on Some GPU" in capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert path.name == "gpu-Some-GPU.json" and result["machine"]["gpu"] == "Some GPU"
    (work,) = result["works"]
    assert work["size"] == "3 slots x 8, T = 2, batch 4"
    assert (work["batch"], work["heads"], [*work["rows"]]) == (4, 2, ROWS)
    for name, row in work["rows"].items():
        assert row["ms"] > 0 and ("drawn" in name) is not bool(row["errors"])
        assert max(row["errors"].values(), default=0) < 1e-6
    assert modes == [False] * 4 + [True] * 3 + [False]
    checked = "layer_norm attention rmc_gates softmax_cross_entropy adam".split()
    assert sorted(result["kernel_errors"]) == sorted(checked)


@shim
def test_some_rows_some_sizes_some_minutes(gpu, cupy, capsys, tmp_path):
    """Each row is written when it is measured."""
    works = [TINY, dataclasses.replace(TINY, batch=3)]
    words = ["--seconds=0", "--works", "3", "--rows", "bodies", "graph"]
    assert gpu.main([*words, "--minutes", "0"], works) == 0
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["works"] == []
    assert "the problem" in capsys.readouterr().out.split("no time left")[0]
    written = []
    plan = gpu.Plan(["bodies", "drawn"], write=lambda: written.append(1))
    gpu.time_ours(cupy, TINY, gpu.make_problem(TINY), 0, {}, plan)
    assert written == [1] * 3
    plan = gpu.Plan(minutes=-1)
    assert gpu.time_ours(cupy, TINY, {}, 0, {}, plan) == {}
    assert capsys.readouterr().out.count("no time left") == 7


def test_words_that_mean_nothing_are_refused(gpu, cupy, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "measure", lambda *_: pytest.fail("it measures"))
    for words, says in (
        ("--seconds=-1", "--seconds must be finite and not negative, not -1.0"),
        ("--seconds=nan", "--seconds must be finite and not negative, not nan"),
        ("--works 32 5", "--works 5: the batches are [32, 128, 1600]"),
        ("--rows eager grahp", "--rows grahp: the rows are ours, array bodies"),
        ("--minutes=-1", "--minutes must not be negative, not -1.0"),
        ("--minutes=nan", "--minutes must not be negative, not nan"),
    ):
        told = one_line_error(functools.partial(gpu.main, words.split()), capsys)
        assert told.startswith(f"error: {says}")


@shim
def test_a_second_call_keeps_what_the_first_has_measured(
    gpu, cupy, monkeypatch, tmp_path
):
    """Unless the program is another; and what is now wrong takes its row along."""
    works = [TINY, dataclasses.replace(TINY, batch=3)]

    def rows_after(*words):
        gpu.main(["--seconds=0", *words], works)
        (path,) = tmp_path.iterdir()
        found = json.loads(path.read_text())["works"]
        return [(work["batch"], *work["rows"]) for work in found]

    bodies, kernels = "ours, array bodies", "ours, kernels"
    first = rows_after("--works", "4", "--rows", "bodies")
    assert first == [(4, bodies)]
    assert rows_after("--works", "3", "--rows", "bodies") == [*first, (3, bodies)]
    both = rows_after("--works", "4", "--rows", "ours, kernels")
    tf32 = f"{kernels}, TF32"
    assert both == [(4, bodies, kernels, tf32), (3, bodies)]
    with monkeypatch.context() as patch:
        patch.setattr(gpu, "_time_ours_as", lambda *_: 1 / 0)
        some = rows_after("--works", "4", "--rows", "bodies")
    assert some == [(4, kernels, tf32), (3, bodies)]
    monkeypatch.setattr(gpu, "environment", lambda version: {"git_commit": "another"})
    assert rows_after("--works", "3", "--rows", "bodies") == [(3, bodies)]


@shim
def test_a_size_or_the_kernels_that_fail_leave_the_rest(
    gpu, cupy, monkeypatch, capsys, tmp_path
):
    works = [TINY, dataclasses.replace(TINY, batch=3)]
    problem = gpu.make_problem

    def make(work):
        if work.batch == 4:
            raise ValueError("too large for that")
        return problem(work)

    def fail(*_):
        raise RuntimeError("no such library")

    monkeypatch.setattr(gpu, "make_problem", make)
    monkeypatch.setattr(gpu, "WAYS", gpu.WAYS[:1])
    monkeypatch.setattr(gpu, "time_torch", fail)
    assert gpu.main(["--seconds=0"], works) == 1
    (path,) = tmp_path.iterdir()
    result = json.loads(path.read_text())
    assert [(work["batch"], *work["rows"]) for work in result["works"]] == [
        (3, "ours, array bodies")
    ]
    told = [line.split(" fails")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["the problem", "PyTorch"]


@shim
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Wrong", "error: ours, kernels: off\nmore; it is left out\n"),
        ("RuntimeError", "fails and is left out: RuntimeError: ours, kernels: off\n"),
    ],
)
def test_a_row_that_is_wrong_or_fails_leaves_the_others(
    kind, says, gpu, cupy, monkeypatch, capsys, tmp_path
):
    check, error = gpu.check_step, getattr(gpu, kind, RuntimeError)

    def strict(name, *arguments):
        if name == "ours, kernels":
            raise error(f"{name}: off\nmore")
        return check(name, *arguments)

    monkeypatch.setattr(gpu, "check_step", strict)
    words = ["--seconds=0", "--rows", "kernels", "bodies"]
    assert gpu.main(words, [TINY]) == 1
    (path,) = tmp_path.iterdir()
    (work,) = json.loads(path.read_text())["works"]
    assert [*work["rows"]] == ["ours, array bodies", "ours, kernels, TF32"]
    assert capsys.readouterr().err.endswith(says)


@shim
def test_a_graph_that_does_something_else_is_wrong(gpu, cupy, monkeypatch):
    problem, more = gpu.make_problem(TINY), {"device": "cuda", "drawn": True}
    gpu.check_graph("ours, graph", TINY, problem, **more)
    monkeypatch.setattr(Graph, "replay", lambda self: None)
    with pytest.raises(gpu.Wrong, match="ours, graph: its steps are not those without"):
        gpu.check_graph("ours, graph", TINY, problem, **more)


def break_a_kernel(monkeypatch):
    forward = kernels.softmax_cross_entropy.forward

    def wrong(*arguments):
        losses, saved = forward(*arguments)
        return losses * 1.001, saved

    monkeypatch.setattr(kernels.softmax_cross_entropy, "forward", wrong)


def switch_a_kernel_off(monkeypatch):
    monkeypatch.setattr(kernels.attention, "condition", lambda *_, **__: False)


def break_adam(monkeypatch):
    monkeypatch.setattr(kernels, "adam", lambda *_: None)


@shim
@pytest.mark.parametrize(
    ("sabotage", "says"),
    [
        (break_a_kernel, "softmax_cross_entropy at"),
        (switch_a_kernel_off, "attention runs no kernel at"),
        (break_adam, "adam differs from its array body by"),
    ],
)
def test_what_differs_stops_it_and_nothing_is_written(
    sabotage, says, gpu, cupy, monkeypatch, capsys, tmp_path
):
    sabotage(monkeypatch)
    assert gpu.main(["--seconds", "0"], [TINY]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {says}") and err.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def scaled(work, problem):
    """A problem whose gradient is off by a ten-thousandth, which float32 does not
    explain.
    """
    gradient = {name: x * 1.0001 for name, x in problem["gradient"].items()}
    return work, problem | {"gradient": gradient}


# --- PyTorch --------------------------------------------------------------------------


@pytest.fixture
def torch(monkeypatch):
    """What time_torch asks of PyTorch; the list of the precisions that were set."""
    config = types.ModuleType("torch._inductor.config")
    config.patch = lambda options: contextlib.nullcontext()
    inductor = types.ModuleType("torch._inductor")
    inductor.config = config
    module, precisions = types.ModuleType("torch"), []
    module._inductor = inductor
    module.cuda = types.SimpleNamespace(
        is_available=lambda: True, synchronize=lambda: None
    )
    module.compiler = types.SimpleNamespace(reset=lambda: None)
    module.set_float32_matmul_precision = precisions.append
    for each in (module, inductor, config):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(benchmark, "LEAST", 1)
    return precisions


def our_step(work, problem, compiled):
    """In the place of PyTorch's."""
    return candidates.ours(candidates.make_trainer(work, problem))


def test_a_row_of_pytorch_that_does_not_run_is_left_out(torch, monkeypatch, capsys):
    def step(work, problem, compiled):
        if compiled:
            raise RuntimeError("no compiler for this GPU\nand many more lines")
        return our_step(work, problem, compiled)

    monkeypatch.setattr(benchmark, "torch_step", step)
    monkeypatch.setattr(benchmark, "torch_graph", lambda *both: our_step(*both, False))
    problem = benchmark.make_problem(TINY)
    rows, plan = {}, benchmark.Plan()
    benchmark.time_torch(TINY, problem, 0, True, rows, plan)
    graph = "PyTorch torch.cuda.graph"
    names = ["PyTorch eager", graph, "PyTorch eager, TF32", f"{graph}, TF32"]
    assert [*rows] == names
    assert torch == ["highest", "high"]
    said = (
        "PyTorch torch.compile, CUDA graphs, TF32 fails and is left out: "
        "RuntimeError: no compiler for this GPU"
    )
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert not plan.wrong
    rows = {}
    benchmark.time_torch(TINY, problem, 0, False, rows, plan)
    assert [*rows] == names[:2]


def test_a_row_of_pytorch_that_differs_is_left_out(torch, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "torch_step", our_step)
    work, problem = scaled(TINY, benchmark.make_problem(TINY))
    rows, plan = {}, benchmark.Plan(["eager"])
    benchmark.time_torch(work, problem, 0, False, rows, plan)
    assert rows == {} and plan.wrong
    says = "error: PyTorch eager: its gradient is off by 1.0e-04 of its value; it is"
    assert capsys.readouterr().err.startswith(says)
