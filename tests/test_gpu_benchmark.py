"""benchmarks/gpu.py without a GPU: it refuses in one line, and on the stand-in for CuPy
all of its Python runs, with our step in the place of PyTorch's.
"""

import dataclasses
import json

import cuda_shim
import fakecupy
import gpu as benchmark
import pytest
from candidates import Work
from cuda_shim import shim
from tinytasks import changed

from tinyrmc import backend
from tinyrmc.backend import gpu as kernels
from tinyrmc.errors import UsageError
from tinyrmc.training.gpu.capture import CudaGraphs

TINY = Work(batch=4, slots=3, width=8, steps=2, heads=2)
pytestmark = [pytest.mark.slow, pytest.mark.weekly]

ROWS = [f"ours, {way}" for way in benchmark.WAYS]
ROWS += [f"{row}, TF32" for row in ROWS[1:]]


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


@shim
def test_checks_then_measures_then_writes(gpu, cupy, monkeypatch, capsys, tmp_path):
    modes = []
    monkeypatch.setattr(backend, "use_tf32", lambda xp, on: modes.append(on))
    assert gpu.main(["--seconds", "0"], [TINY], []) == 0
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
def test_a_second_call_keeps_what_the_first_has_measured(
    gpu, cupy, monkeypatch, tmp_path
):
    """Unless the program is another; and what is now wrong takes its row along."""
    works = [TINY, dataclasses.replace(TINY, batch=3)]

    def rows_after(*words):
        gpu.main(["--seconds=0", *words], works, [])
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
    timed = gpu._time_ours_as
    with monkeypatch.context() as patch:
        names = []
        patch.setattr(gpu, "_time_ours_as", lambda *x: names.append(x[2]) or timed(*x))
        words = "--works", "4", "--rows", "bodies", "ours, kernels"
        rows_after(*words, "--missing")
    assert names == [bodies]
    monkeypatch.setattr(gpu, "environment", lambda version: {"git_commit": "another"})
    assert rows_after("--works", "3", "--rows", "bodies") == [(3, bodies)]


@shim
def test_an_agents_update_is_checked_and_timed(
    gpu, cupy, monkeypatch, capsys, tmp_path
):
    """Losses that are off leave a row out."""

    def short(preset, levels):
        task = make_task(preset, levels)
        return type(task)(changed(task.config, agent={"unroll": 2}))

    def with_another_bit(graphs, batch):
        advance(graphs, batch)
        graphs.trainer.optimizer.data[:1] *= 1 + 2**-20

    advance, make_task = CudaGraphs.advance, gpu.agents.make_task
    monkeypatch.setattr(gpu.agents, "make_task", short)
    monkeypatch.setattr(gpu, "CHECKED", 3)
    monkeypatch.setattr(gpu, "can_torch", lambda: False)
    monkeypatch.setattr(gpu.agents, "LEVELS", 64)
    acting = [gpu.AgentWork("quick", 4)]
    words = ["--seconds", "0", "--works", "agents"]
    assert gpu.main(words, [TINY], acting) == 0
    (path,) = tmp_path.iterdir()
    (work,) = json.loads(path.read_text())["agents"]
    assert (work["preset"], work["levels"]) == ("quick", 4)
    assert [*work["rows"]] == ["ours, kernels", "ours, graph"]
    for row in work["rows"].values():
        assert row["errors"]["losses"] < 1e-3
        assert row["steps_per_second"] == pytest.approx(1e3 * 4 * 2 / row["ms"])
    elsewhere = tmp_path / "elsewhere"
    with pytest.raises(UsageError, match="elsewhere: there is no such folder; make"):
        gpu.main([*words, "--out", str(elsewhere)], [TINY], acting)
    elsewhere.mkdir()
    with monkeypatch.context() as patch:  # a graph that does something else
        patch.setattr(CudaGraphs, "advance", with_another_bit)
        again = [*words, "--rows", "graph", "--out", str(elsewhere)]
        assert gpu.main(again, [TINY], acting) == 1
    assert "ours, graph: its steps are not those" in capsys.readouterr().err
    monkeypatch.setattr(gpu.agents, "LARGEST_ERROR", -1.0)
    assert gpu.main([*words, "--rows", "graph"], [TINY], acting) == 1
    assert "its losses are off by" in capsys.readouterr().err
    (work,) = json.loads(path.read_text())["agents"]
    assert [*work["rows"]] == ["ours, kernels"]


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
    assert gpu.main(["--seconds", "0"], [TINY], []) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {says}") and err.count("\n") == 1
    assert [*tmp_path.iterdir()] == []
