"""The benchmarks run, compare before they time, count what they divide by, and say what
they measured. No test asserts a time.
"""

import contextlib
import importlib.util
import json
import math
import time
from pathlib import Path

import after
import candidates
import costs
import cpu
import numpy as np
import peers
import pytest
import report
import running
from candidates import Work

from tinyrmc.errors import RunError, UsageError
from tinyrmc.training.machine import usable_cores
from tinyrmc.training.workers import CAN_FORK

pytestmark = [pytest.mark.slow, pytest.mark.weekly]

TINY = Work(batch=5, slots=3, width=8, steps=2, heads=2)
TINY_DNC = Work(batch=5, slots=6, width=4, steps=3, heads=2, core="dnc")


@pytest.fixture(scope="module")
def problem_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("problem") / "problem.npz"
    candidates.make_problem(TINY, path)
    return path


def largest_error(candidate, problem):
    """Of the loss, the gradient and the loss after the update of (step, moments)."""
    return max(candidates.first_errors(*candidate, problem).values())


# --- Problems -------------------------------------------------------------------------


def test_flops_are_those_of_the_matrix_products_that_run(tmp_path):
    work, counted = Work(batch=70, slots=2, width=6, steps=3, heads=3), []

    def tell(a, b, product, seconds):
        # means and sums, which are written as products with a vector, are not counted
        if a.ndim > 1 and b.ndim > 1:
            counted.append(2 * a.size * b.shape[-1])

    file = tmp_path / "problem.npz"
    candidates.make_problem(work, file)
    trainer = candidates.make_trainer(*candidates.read_problem(file))
    step, _ = candidates.ours(trainer)
    with candidates.products_told(tell):
        step()
    assert sum(counted) == work.flops
    assert 290e9 < cpu.WORKS["large"].flops < 295e9  # the paper's


def float64(arrays):
    return {name: x.astype(np.float64) for name, x in arrays.items()}


def test_a_problem_keeps_clear_of_every_kink(monkeypatch, tmp_path):
    # wide, so that some of the few examples must go
    monkeypatch.setattr(candidates, "MARGIN", 3e-4)
    candidates.make_problem(TINY, tmp_path / "problem.npz")
    _, problem = candidates.read_problem(tmp_path / "problem.npz")
    inputs, targets = problem["batch"]["inputs"], problem["batch"]["target"]
    nearest = []

    class Watching(peers.Library):
        def relu(self, x):
            nearest.append(abs(x).min())
            return np.maximum(x, 0)

    weights, sizes = float64(problem["weights"]), candidates.sizes_of(TINY)
    lib = Watching(np)
    peers.loss_of(lib, weights, inputs.astype(np.float64), targets, sizes)
    assert 3e-4 < min(nearest) < 3e-3
    drawn = candidates.make_task(TINY).draw(np.random.default_rng(0), TINY.batch)
    assert not np.array_equal(inputs, drawn["inputs"])


# --- Candidates -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def dnc_problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("problem") / "problem.npz"
    candidates.make_problem(TINY_DNC, path)
    return candidates.read_problem(path)


def test_the_peers_dnc_is_ours(dnc_problem):
    """In value, in float64; that the gradients agree is found out before anything is
    timed.
    """
    work, problem = dnc_problem
    assert work == TINY_DNC and work.flops is None
    assert str(work) == "6 words x 4, 2 read heads, T = 3, batch 5"
    ours = candidates.ours(candidates.make_trainer(work, problem))
    assert largest_error(ours, problem) < 1e-6
    weights, sizes = float64(problem["weights"]), candidates.sizes_of(work)
    inputs = problem["batch"]["inputs"].astype(np.float64)
    targets = problem["batch"]["target"]
    loss = peers.loss_of(peers.Library(np), weights, inputs, targets, sizes)
    assert loss == pytest.approx(problem["loss"], rel=1e-12)


def test_pytorchs_dnc_is_ours(dnc_problem):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    work, problem = dnc_problem
    theirs = candidates.peer("PyTorch eager", work, problem, 1)
    assert largest_error(theirs, problem) < 1e-6


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_pytorchs_processes_make_the_step_of_the_problem_and_end_with_it(problem_file):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    candidate = running.Candidate(peers.TORCH_PROCESSES, 2, problem_file)
    with contextlib.closing(candidate):
        candidate.time(0.01)
        pid = candidate._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        assert len(children) == min(2, len(usable_cores())) - 1
        assert max(candidate.hello["errors"].values()) < 1e-6
    # they sleep until they see that their pipe has ended
    end = time.monotonic() + 30
    while any(Path("/proc", child).exists() for child in children):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_ours_is_the_step_of_the_problem(problem_file):
    work, problem = candidates.read_problem(problem_file)
    assert work == TINY and problem["batch"]["inputs"].dtype == np.float32
    for workers in (1, 2)[: 1 + CAN_FORK]:
        with candidates.make_trainer(work, problem, workers) as trainer:
            assert largest_error(candidates.ours(trainer), problem) < 1e-6


def test_hips_autograd_is_the_step_of_the_problem(problem_file):
    work, problem = candidates.read_problem(problem_file)
    step, moments = candidates.peer("HIPS autograd", work, problem, 1)
    errors = candidates.first_errors(step, moments, problem)
    assert list(errors) == ["loss", "gradient", "loss after the update"]
    assert max(errors.values()) < 1e-6
    assert all(moment.dtype == np.float32 for moment in moments().values())


CHANGED = {
    "loss": "loss",
    "gradient": "gradient/core.mlp.0.bias",
    "loss after the update": "loss_after",
}


def test_a_candidate_that_differs_stops_everything(problem_file, tmp_path):
    for what, name in CHANGED.items():
        with np.load(problem_file) as file:
            arrays = dict(file)
        arrays[name] = arrays[name] * 1.01
        np.savez(tmp_path / "problem.npz", **arrays)
        says = rf"^ours: its {what} is off by .*nothing is written$"
        with contextlib.ExitStack() as stack, pytest.raises(cpu.Differs, match=says):
            cpu.start(stack, "ours", [1], tmp_path / "problem.npz", 0.01)


def test_a_candidate_that_breaks_says_why(problem_file):
    says = "no such library fails on 1 core: KeyError: 'no such library'"
    with contextlib.ExitStack() as stack, pytest.raises(RunError, match=says):
        cpu.start(stack, "no such library", [1], problem_file, 0.01)


# --- Turns ----------------------------------------------------------------------------


def test_a_process_that_dies_with_half_an_answer_is_broken(
    problem_file, monkeypatch, tmp_path
):
    lines = [
        "print('{}', flush=True)",
        "input()",
        "print('0.', end='', flush=True)",
        "raise SystemExit('so be it')",
    ]
    (tmp_path / "candidates.py").write_text("\n".join(lines))
    monkeypatch.setattr(running, "HERE", tmp_path)
    candidate = running.Candidate("half", 1)
    with contextlib.closing(candidate):
        for _ in range(2):  # the second time nobody is left to read
            with pytest.raises(running.Broken, match=r"^so be it$"):
                candidate.time(0.1)
        candidate.close()


def test_cpus_of_different_cores_come_first(monkeypatch, tmp_path):
    monkeypatch.setattr(running, "CPUS", tmp_path)
    assert running.spread_out({3, 0, 2}) == [0, 2, 3]  # the system does not tell
    for number, siblings in enumerate(["0-1", "0-1", "2-3", "2-3", "4-5"]):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert running.spread_out({0, 1, 2, 3, 4}) == [0, 2, 4, 1, 3]
    assert running.spread_out({1, 2, 3}) == [1, 2, 3]


# --- Results --------------------------------------------------------------------------


def test_one_size_measured_tabulated_and_drawn(monkeypatch, tmp_path):
    """All of it but the sizes and the libraries that this suite does not install."""
    monkeypatch.setattr(cpu, "WORKS", {"tiny": TINY})
    monkeypatch.setattr(cpu, "ROUND_SECONDS", 0.01)
    monkeypatch.setattr(cpu, "core_counts", lambda cores: [1])
    monkeypatch.setattr(cpu, "installed_peers", lambda: ["HIPS autograd"])
    monkeypatch.setattr(cpu, "OVER_NUMPY", ())
    found = cpu.measure_all(["tiny"], rounds=1)
    assert set(found["sgemm_rounds"]) == {candidates.TOGETHER, candidates.APART}
    assert [len(times) for times in found["sgemm_rounds"].values()] == [1, 1]
    (row,) = found["rows"]
    check_tiny(row)
    assert {"processor", "cores", "blas", "environment_removed"} <= set(found)
    assert {"tinyrmc", "numpy", "autograd"} <= set(found["versions"])

    cpu.write(found, tmp_path / "cpu.json")
    table = report.markdown(json.loads((tmp_path / "cpu.json").read_text()))
    assert table == report.markdown(found)
    assert "| tiny: 3 slots x 8, T = 2, batch 5 | " in table
    assert (tmp_path / "cpu.png").read_bytes().startswith(b"\x89PNG")


def check_tiny(row):
    """The row of ours and HIPS autograd, one round each, on one core."""
    ours, theirs = row["ours_seconds"], row["peers"]
    assert row["work"] == "tiny" and row["size"] == "3 slots x 8, T = 2, batch 5"
    assert list(theirs) == ["HIPS autograd"]
    assert row["ratio_to_fastest"] == pytest.approx(ours / theirs["HIPS autograd"])
    with_numba = importlib.util.find_spec("numba") is not None
    compiled = row["compiled_seconds"]
    assert (compiled is not None) == with_numba
    if compiled:
        fastest = compiled / theirs["HIPS autograd"]
        assert row["compiled_to_fastest"] == pytest.approx(fastest)
    assert all(len(times) == 1 for times in row["rounds"].values())
    assert len(row["rounds"]) == 2 + with_numba
    assert set(row["cores"].values()) == {1}
    fraction = TINY.flops / ours / row["sgemm"]
    assert row["sgemm_fraction"] == pytest.approx(fraction) and 0 < fraction < 1
    assert max(row["gradient_errors"].values()) < 1e-6


def test_the_table_of_processors_is_that_of_the_results():
    def found(*names, cores, fast=False):
        every = [
            json.loads(cpu.RESULTS.with_name(f"{x}.json").read_text()) for x in names
        ]
        ratio = "compiled_to_fastest" if fast else "ratio_to_fastest"
        rows = [row for each in every for row in each.get("rows", ())]
        cells = {row["work"]: row[ratio] for row in rows}
        for row in (row for each in every for row in each.get("language", ())):
            speeds = {(x["name"], x["cores"]): x for x in row["candidates"]}
            of = {
                name: x["tokens_per_second"]
                for (name, n), x in speeds.items()
                if n == cores
            }
            theirs = max(of[name] for name in of if name.startswith("PyTorch"))
            ours = (of[x] for x in of if "tiny" in x and ("compiled" in x) == fast)
            cells[row["work"]] = theirs / max(ours)
        for row in (row for each in every for row in each.get("agents", ())):
            steps = {x["name"]: x["step"] for x in row["candidates"]}
            compiled = fast and steps["tinyrmc, compiled"] / steps["PyTorch eager"]
            cells[f"agent {row['work']}"] = compiled or row["ratio"]
        works = (
            "quick small middle wide large dnc,lstm 2 x 256,lstm 2 x 650,agent quick"
        )
        first, *others = works.split(",")
        shown = (cells.get(work) for work in [*first.split(), *others])
        return [f"{value:.2f}" if value else "" for value in shown]

    lines = (cpu.HERE / "speed.md").read_text().splitlines()
    for start, names, settings in (
        ("AMD EPYC (Zen 4), 1 core", ["cpu_one_core"], {"cores": 1}),
        ("the same, with the", ["cpu_one_core"], {"cores": 1, "fast": True}),
        ("[AMD EPYC (Zen 4)]", ["cpu"], {"cores": 2}),
        ("[a faster AMD EPYC](", ["cpu_processes", "cpu_dnc"], {"cores": 4}),
        ("[AMD EPYC (Zen 5)]", ["language_amd", "agents_amd"], {"cores": 1}),
        ("[Intel Xeon](", ["cpu_intel"], {"cores": 2}),
        ("the same Xeon, with", ["cpu_intel"], {"cores": 2, "fast": True}),
    ):
        (line,) = (line for line in lines if line.startswith(f"| {start}"))
        told = [cell.strip() for cell in line.strip("|").split("|")]
        assert told[1:] == found(*names, **settings), start


# --- Surroundings ---------------------------------------------------------------------


def test_the_engines_costs_can_be_measured():
    assert math.isfinite(costs.overhead(count=10, rounds=2))
    assert 0.5 < costs.unroll(steps=3, batch=2) < 2
    products = costs.products(steps=1, batch=2)
    assert 0 < products["share_of_step"] < 1 and products["of_sgemm"] > 0
    growth = costs.growth(steps=2, uncounted=1)
    assert growth is None or math.isfinite(growth)


def test_what_grows_with_a_sequence_is_measured_and_told(monkeypatch):
    monkeypatch.setattr(after, "EVERY", 4)
    rows = after.measure(1, after.CORES, (4, 12))
    sizes = [row["parameters"] for row in rows]
    assert max(sizes) < 1.25 * min(sizes)  # equal budgets
    for row in rows:
        assert [(x["steps"], x["every"]) for x in row["lengths"]] == [
            *((4, None), (12, None), (12, 4))
        ]
        assert all(x["seconds"] > 0 and x["bytes"] > 0 for x in row["lengths"])
    (table,) = report.markdown({"after": rows}).strip().split("\n\n")
    assert "T = 12, every 4th kept" in table and "times for 3 times the" in table
    assert len(table.splitlines()) == 2 + len(after.CORES)


def test_pytorchs_forms_of_the_same_cores_have_the_same_loss():
    pytest.importorskip("torch")
    for name in "transformer", "linear_attention", "delta", "ssm":
        step = after.Step(name, 224)  # more than a window; seven chunks
        assert step.theirs() is not None  # which refuses another loss


def test_bad_words_are_one_line_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(cpu, "measure_all", lambda *_: pytest.fail("measured"))
    for words, complaint in (
        ("--rounds 0", "--rounds must be at least 1, not 0"),
        ("--works huge", "invalid choice: 'huge'"),
        ("--out no/such/folder/cpu.json", "a .json file in a folder that exists"),
        ("--out cpu.txt", "must be a .json file"),
        ("--candidates PyTorch", "invalid choice: 'PyTorch'"),
        ("--works engine --candidates torch.compile", "--candidates is for large"),
    ):
        with pytest.raises((UsageError, RunError)) as caught:
            cpu.main(words.split())
        assert complaint in str(caught.value) and "\n" not in str(caught.value)
