"""The training step of the Relational Memory Core on a GPU.

    python benchmarks/gpu.py

First each kernel is compared, on the GPU itself, with its array body in float64 on
NumPy. Then steps are timed: ours with the array bodies alone, with kernels, and with
kernels and TF32; PyTorch eager, through torch.compile, and through torch.compile with
CUDA graphs (what its mode "reduce-overhead" turns on), each in float32 and in TF32.
Before it is timed, each takes two steps of the problem of candidates.py: loss and
gradient must be those of float64. Whatever differs stops everything; a row of PyTorch's
that does not run is left out.

Last comes the time of each kernel. All of it goes to results/gpu-<GPU's name>.json.
Without a GPU: one line, exit code 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.util
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import candidates
import numpy as np
import peers
from candidates import Work

import tinyrmc
from tinyrmc import Parameter, Tape, backend, fused, kernels, optim
from tinyrmc.commands import Parser, run_main
from tinyrmc.errors import UsageError
from tinyrmc.primitives import sum as total
from tinyrmc.runs.machine import environment

RESULTS = Path(__file__).resolve().parent / "results"
WORKS = [Work(batch, slots=8, width=256) for batch in (32, 128, 1600)]
LEAST, REPEATS = 5, 50  # steps in a row of times, at least; launches of a kernel
LARGEST_ERROR = 1e-5  # of loss and gradient, relative, as on a CPU
LARGEST_KERNEL_ERROR = 1e-4  # of the largest element
# NumPy with rounded operands comes to 0.03 in the gradient: rounding so coarse takes
# ReLUs across their kinks
LARGEST_ERROR_TF32 = 0.1


class Wrong(Exception):
    """The GPU computes something that it should not."""


# --- Correctness ----------------------------------------------------------------------


Case = tuple[fused.Fused, list[np.ndarray], dict[str, Any]]


def kernel_cases(work: Work) -> list[Case]:
    """(fused primitive, float64 arrays, static arguments) at the sizes of the training
    step and at awkward ones.
    """
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape)

    cases = [
        *_norm_cases(work, normal),
        *_attention_cases(work, normal),
        *_gate_cases(work, normal),
    ]
    for count, classes in (work.batch, work.steps), (5, 100):
        logits, targets = normal(count, classes), rng.integers(classes, size=count)
        cases.append((fused.softmax_cross_entropy, [logits, targets], {}))
    return cases


def _norm_cases(work, normal):
    B, N, F = work.batch, work.slots, work.width
    for shape in ((B, N + 1, 3 * F), (B, N, F), (1, 1), (7, 33), (5, 1536)):
        arrays = [normal(*shape), normal(shape[-1]), normal(shape[-1])]
        yield fused.layer_norm, arrays, {}
        yield fused.layer_norm, [*arrays, normal(*shape)], {}  # with a residual


def _attention_cases(work, normal):
    B, N, F, H = work.batch, work.slots, work.width, work.heads
    sizes = {"num_heads": H, "key_size": F // H, "num_queries": N}
    yield fused.attention, [normal(B, N + 1, 3 * F)], sizes
    for rows in (1, 33, 64):
        sizes = {"num_heads": 3, "key_size": 4}
        yield fused.attention, [normal(2, rows, 3 * 13)], sizes


def _gate_cases(work, normal):
    B, N, F = work.batch, work.slots, work.width
    biases = {"input_bias": 0.25, "forget_bias": 1.0}
    # a gate for each unit, or one for each slot
    for batch, slots, width, columns in (
        (B, N, F, 2 * F),
        (B, N, F, 2),
        (3, 5, 33, 66),
        (3, 5, 33, 2),
    ):
        gates = [normal(batch, 1, columns), normal(batch, slots, columns)]
        memories = [normal(batch, slots, width), normal(batch, slots, width)]
        yield fused.rmc_gates, [*gates, *memories], biases


def value_and_gradients(op, arrays, static, weights):
    """The value of op(*arrays, **static), and the gradients of its sum weighted by
    `weights`.
    """
    with Tape() as tape:
        watched = [tape.watch(a) if a.dtype.kind == "f" else a for a in arrays]
        y = op(*watched, **static)
        loss = total(y * weights)
    return [y.data, *tape.gradient(loss, [a for a in watched if hasattr(a, "tape")])]


def difference(ours, exact) -> float:
    """The largest difference, relative to the largest element."""
    exact = backend.to_host(exact)
    largest = np.abs(backend.to_host(ours) - exact).max()
    return float(largest / max(1e-30, np.abs(exact).max()))


def check_kernels(xp, work: Work) -> dict[str, float]:
    """{kernel: largest difference from its array body in float64}.

    Wrong if a kernel is not used, or one differs by more than 1e-4.
    """
    found: dict[str, float] = {}
    for op, arrays, static in kernel_cases(work):
        shapes = [a.shape for a in arrays]
        worst = _kernel_difference(xp, op, arrays, static)
        if worst is None:
            raise Wrong(f"{op.name} runs no kernel at {shapes}")
        if not worst < LARGEST_KERNEL_ERROR:
            raise Wrong(f"{op.name} at {shapes} {_differs(worst)}")
        found[op.name] = max(found.get(op.name, 0.0), worst)
    return found | {"adam": check_adam(xp)}


def _kernel_difference(xp, op, arrays, static):
    """How far a kernel's value and gradients are off; None if it is not used."""

    def on_gpu(a):
        return xp.asarray(a.astype(np.float32) if a.dtype.kind == "f" else a)

    there = [on_gpu(a) for a in arrays]
    if op.override(xp, there, static) is op:
        return None
    weights = np.random.default_rng(1).standard_normal(op(*arrays, **static).shape)
    ours = value_and_gradients(op, there, static, on_gpu(weights))
    exact = value_and_gradients(op, arrays, static, weights)
    if arrays[0].shape[-1] == 1:
        # One column has no variance: its gradient is zero, and what rounding leaves of
        # it has no relative size.
        ours, exact = ours[:1], exact[:1]
    return max(map(difference, ours, exact))


def _differs(worst):
    return f"differs from its array body by {worst:.1e} of the largest element"


def check_adam(xp, count: int = 10_000, updates: int = 5) -> float:
    """How far Adam's kernel comes from its array body in float64 after some updates.

    Wrong as in `check_kernels`.
    """
    exact = optim.Adam([Parameter(np.zeros(count))], 1e-2)
    ours = optim.Adam([Parameter(xp.zeros(count, np.float32))], 1e-2)
    if not kernels.usable(xp, ours.data):
        raise Wrong("adam runs no kernel")
    for g in np.random.default_rng(0).standard_normal((updates, count)):
        for optimizer, gradient in (exact, g), (ours, xp.asarray(g.astype(np.float32))):
            optimizer.gradient[...] = gradient
            optimizer.step()
    names = ("data", "first_moment", "second_moment")
    worst = max(difference(getattr(ours, name), getattr(exact, name)) for name in names)
    if not worst < LARGEST_KERNEL_ERROR:
        raise Wrong(f"adam {_differs(worst)} after {updates} updates")
    return worst


def make_problem(work: Work) -> dict:
    """The problem of this size (see candidates.py): weights, a batch, and in float64
    what the first step must find. Takes minutes, if large.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problem.npz"
        candidates.make_problem(work, file)
        _, problem = candidates.read_problem(file)
        return problem


def check_step(name: str, step, moments, problem: dict, tf32: bool) -> dict:
    """The errors of the first two steps. Wrong if one of them is too large."""
    errors = candidates.first_errors(step, moments, problem)
    largest = LARGEST_ERROR_TF32 if tf32 else LARGEST_ERROR
    for what, error in errors.items():
        if not error <= largest:
            raise Wrong(f"{name}: its {what} is off by {error:.1e} of its value")
    return errors


# --- Time -----------------------------------------------------------------------------


def milliseconds(step, wait, seconds: float) -> dict:
    """Median and fastest of single steps, each waited for, and the mean of many in a
    row, waited for once: what training sees.
    """
    for _ in range(LEAST):
        step()
    wait()
    single: list[float] = []
    began = time.perf_counter()
    while len(single) < LEAST or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        step()
        wait()
        single.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in single:
        step()
    wait()
    row = (time.perf_counter() - start) / len(single)
    return {
        "ms": 1e3 * row,
        "single_ms": 1e3 * statistics.median(single),
        "fastest_ms": 1e3 * min(single),
        "steps": len(single),
    }


def time_ours(xp, work: Work, problem: dict, seconds: float) -> dict:
    """{row: errors and times} of our step in three ways, or in two where there is no
    TF32.
    """
    wait, rows = xp.cuda.Device().synchronize, {}
    ways = [("array bodies", False), ("kernels", False)]
    if backend.has_tf32(xp):
        ways.append(("kernels", True))
    for way, tf32 in ways:
        name = f"ours, {way}{', TF32' * tf32}"
        backend.use_tf32(xp, tf32)
        trainer = candidates.make_trainer(work, problem, device="cuda")
        with contextlib.nullcontext() if way == "kernels" else kernels.off():
            step, moments = candidates.ours(trainer)
            errors = check_step(name, step, moments, problem, tf32)
            times = milliseconds(trainer.advance, wait, seconds)
        rows[name] = {"errors": errors, **times}
    backend.use_tf32(xp, False)
    return rows


def torch_step(work: Work, problem: dict, compiled: bool):
    """PyTorch's step on the GPU: (step, moments) as in peers.py, but a step does not
    wait for the GPU.
    """
    batch, sizes = problem["batch"], candidates.sizes_of(work)
    targets = batch["target"].astype(np.int64)
    return peers.torch_eager(
        problem["weights"], batch["inputs"], targets, sizes, compiled, device="cuda"
    )


def time_torch(work: Work, problem: dict, seconds: float, tf32: bool) -> dict:
    """{row: errors and times} of PyTorch's step, as its users write it and compiled; in
    TF32 too, if the GPU has it.
    """
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: no rows of it")
        return {}
    import torch

    if not torch.cuda.is_available():
        print("this PyTorch cannot use the GPU: no rows of it")
        return {}
    rows: dict[str, dict] = {}
    for rounded in (False, True) if tf32 else (False,):
        torch.set_float32_matmul_precision("high" if rounded else "highest")
        for kind in ("eager", "torch.compile", "torch.compile, CUDA graphs"):
            name = f"PyTorch {kind}{', TF32' * rounded}"
            torch.compiler.reset()
            try:
                rows[name] = _time_torch_as(kind, name, work, problem, seconds, rounded)
            except Wrong:
                raise
            # its compiler is missing, say, or does not know this GPU
            except Exception as error:
                said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                print(f"{name} fails at batch {work.batch} and is left out: {said}")
    return rows


def _time_torch_as(kind, name, work, problem, seconds, tf32):
    """A row of PyTorch's: errors and times."""
    import torch
    import torch._inductor.config as inductor

    # what torch.compile(mode="reduce-overhead") sets
    with inductor.patch({"triton.cudagraphs": kind.endswith("CUDA graphs")}):
        step, moments = torch_step(work, problem, kind != "eager")
        errors = check_step(name, step, moments, problem, tf32)
        times = milliseconds(step, torch.cuda.synchronize, seconds)
    return {"errors": errors, **times}


def time_kernels(xp, work: Work, problem: dict) -> dict[str, dict[str, float]]:
    """{kernel: microseconds and GB/s} for each shape in which the training step
    launches it.

    Each launch of one step is repeated with its own arguments. The time includes
    launching, and what fits there stays in the GPU's cache. GB/s are those of a kernel
    that moves each of its arrays once, and three of Adam's twice; they may exceed what
    the memory can do.
    """
    trainer = candidates.make_trainer(work, problem, device="cuda")
    wait = xp.cuda.Device().synchronize
    trainer.advance()
    rows = {}
    for name, (launch, arrays) in _launches(trainer).items():
        launch()
        wait()
        start = time.perf_counter()
        for _ in range(REPEATS):
            launch()
        wait()
        seconds = (time.perf_counter() - start) / REPEATS
        moved = sum({id(a): a.nbytes for a in arrays}.values())
        moved += 3 * arrays[0].nbytes if name.startswith("adam ") else 0
        rows[name] = {"us": 1e6 * seconds, "GB/s": moved / seconds / 1e9}
    return rows


def _launches(trainer):
    """{kernel and shapes: (what launches it again, its arrays)} of a step."""
    kept: dict[str, tuple] = {}
    launch = kernels._launch

    def keep(xp, name, blocks, threads, *args, shared=0):
        arrays = [a for a in args if hasattr(a, "nbytes") and hasattr(a, "get")]
        shapes = " ".join(str(list(a.shape)) for a in arrays[:2])
        words = (xp, name, blocks, threads, *args)
        again = functools.partial(launch, *words, shared=shared)
        kept.setdefault(f"{name} {shapes}", (again, arrays))
        again()

    with patch.object(kernels, "_launch", keep):
        trainer.advance()
    return kept


# --- The command ----------------------------------------------------------------------


def measure(xp, works: list[Work], seconds: float) -> dict:
    """Everything, as the file holds it: steps of all sizes, kernels checked at the
    first and timed at the last.
    """
    versions = {name: _version(name) for name in ("torch", "triton")}
    here = environment(tinyrmc.__version__) | backend.describe_gpu(xp) | versions
    errors = check_kernels(xp, works[0])
    print(f"kernels are correct on {here['gpu']}: {json.dumps(errors)}", flush=True)
    timed = []
    for work in works:
        problem = make_problem(work)
        rows = time_ours(xp, work, problem, seconds)
        xp.get_default_memory_pool().free_all_blocks()
        rows |= time_torch(work, problem, seconds, backend.has_tf32(xp))
        timed.append({"size": str(work), **dataclasses.asdict(work), "rows": rows})
        print(work)
        for name, row in rows.items():
            single = f"(single {row['single_ms']:.2f})"
            print(f"    {name:42} {row['ms']:9.2f} ms a step  {single}", flush=True)
    of_kernels = time_kernels(xp, work, problem)
    for name, row in of_kernels.items():
        print(f"{name:80} {row['us']:9.1f} us {row['GB/s']:8.0f} GB/s")
    return {
        "machine": here,
        "kernel_errors": errors,
        "works": timed,
        "kernels": of_kernels,
    }


def _version(name):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def main(argv: list[str] | None = None, works: list[Work] = WORKS) -> int:
    """The command line; returns the exit code."""
    about = "Measure the training step of the Relational Memory Core on a GPU."
    parser = Parser("python benchmarks/gpu.py", about)
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help="how long each row is timed (default: 5)",
    )
    options = parser.parse_args(argv)
    if not 0 <= options.seconds < math.inf:
        raise UsageError(
            f"--seconds must be finite and not negative, not {options.seconds}"
        )
    xp = backend.device_namespace("cuda")
    try:
        result = measure(xp, works, options.seconds)
    except Wrong as error:
        print(f"error: {error}; nothing was written", file=sys.stderr)
        return 1
    path = RESULTS / f"gpu-{'-'.join(result['machine']['gpu'].split())}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    run_main(main)
