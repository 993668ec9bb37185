"""The training step of the Relational Memory Core on a GPU: python benchmarks/gpu.py

First each kernel is compared, on the GPU itself, with its array body in float64 on
NumPy. Then steps are timed: ours with the array bodies alone, with kernels, and with
kernels and TF32; PyTorch eager, through torch.compile, and through torch.compile with
CUDA graphs (what its mode "reduce-overhead" turns on), each in float32 and in TF32.
Before it is timed, each takes two steps of the problem of candidates.py: loss and
gradient must be those of float64. Whatever differs stops everything; a row of PyTorch's
that does not run is left out.

Last the time of each kernel. All of it goes to results/gpu-<name of the GPU>.json.
Without a GPU: one line, exit code 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

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
# NumPy with rounded operands comes to 0.03 in the gradient: rounding so coarse takes
# ReLUs across their kinks
LARGEST_ERROR_TF32 = 0.1


class Wrong(Exception):
    """The GPU computes something else than it should."""


# --- Correctness ----------------------------------------------------------------------


def kernel_cases(work: Work) -> list:
    """(fused primitive, float64 arrays, static arguments) at the sizes of the training
    step and at awkward ones.
    """
    normal, batch, F, rows = (
        np.random.default_rng(0).standard_normal,
        work.batch,
        work.width,
        work.slots + 1,
    )
    cases = []
    for shape in (
        (batch, rows, 3 * F),
        (batch, work.slots, F),
        (1, 1),
        (7, 33),
        (5, 1536),
    ):
        gain, offset = normal(shape[-1]), normal(shape[-1])
        cases += [
            (fused.layer_norm, [normal(shape), gain, offset, *residual], {})
            for residual in ([], [normal(shape)])
        ]
    heads = {"num_heads": work.heads, "key_size": F // work.heads}
    cases += [
        (
            fused.attention,
            [normal((batch, rows, 3 * F))],
            {**heads, "num_queries": work.slots},
        )
    ]
    cases += [
        (fused.attention, [normal((2, n, 3 * 13))], {"num_heads": 3, "key_size": 4})
        for n in (1, 33, 64)
    ]
    for examples, slots, width, columns in (
        (batch, work.slots, F, 2 * F),
        (batch, work.slots, F, 2),
        (3, 5, 33, 66),
        (3, 5, 33, 2),
    ):
        shapes = (
            (examples, 1, columns),
            (examples, slots, columns),
            (examples, slots, width),
            (examples, slots, width),
        )
        cases += [
            (
                fused.rmc_gates,
                [normal(shape) for shape in shapes],
                {"input_bias": 0.25, "forget_bias": 1.0},
            )
        ]
    for count, classes in (batch, work.steps), (5, 100):
        targets = np.random.default_rng(0).integers(classes, size=count)
        cases += [
            (fused.softmax_cross_entropy, [normal((count, classes)), targets], {})
        ]
    return cases


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
    return float(
        np.abs(backend.to_host(ours) - exact).max() / max(1e-30, np.abs(exact).max())
    )


def check_kernels(xp, work: Work) -> dict:
    """{kernel: largest difference from its array body in float64}.

    Wrong if a kernel is not used, or one differs by more than 1e-4.
    """
    found: dict = {}

    def on_gpu(a):
        return xp.asarray(a.astype(np.float32) if a.dtype.kind == "f" else a)

    for op, arrays, static in kernel_cases(work):
        weights = np.random.default_rng(1).standard_normal(op(*arrays, **static).shape)
        there = [on_gpu(a) for a in arrays]
        if op.override(xp, there, static) is op:
            raise Wrong(f"{op.name} runs no kernel at {[a.shape for a in arrays]}")
        ours, exact = (
            value_and_gradients(op, there, static, on_gpu(weights)),
            value_and_gradients(op, arrays, static, weights),
        )
        if (
            arrays[0].shape[-1] == 1
            # one column has no variance: the gradient of x is zero, and of rounding there
            # is no relative size
        ):
            ours, exact = ours[:1], exact[:1]
        worst = max(map(difference, ours, exact))
        if not worst < 1e-4:
            raise Wrong(
                f"{op.name} at {[a.shape for a in arrays]} differs from its array "
                f"body by {worst:.1e} of the largest element"
            )
        found[op.name] = max(found.get(op.name, 0.0), worst)
    return found | {"adam": check_adam(xp)}


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
    worst = max(
        difference(getattr(ours, name), getattr(exact, name))
        for name in ("data", "first_moment", "second_moment")
    )
    if not worst < 1e-4:
        raise Wrong(
            f"adam differs from its array body by {worst:.1e} of the largest element "
            f"after {updates} updates"
        )
    return worst


def make_problem(work: Work) -> dict:
    """The problem of this size (see candidates.py): weights, a batch, and in float64
    what the first step must find. Minutes, if large.
    """
    with tempfile.TemporaryDirectory() as folder:
        candidates.make_problem(work, Path(folder) / "problem.npz")
        return candidates.read_problem(Path(folder) / "problem.npz")[1]


def check_step(name: str, step, moments, problem: dict, tf32: bool) -> dict:
    """The errors of the first two steps. Wrong if one of them is too large."""
    errors = candidates.first_errors(step, moments, problem)
    for what, error in errors.items():
        if not error <= (LARGEST_ERROR_TF32 if tf32 else LARGEST_ERROR):
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
    single, began = [], time.perf_counter()
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
    ways = {
        "ours, array bodies": (kernels.off, False),
        "ours, kernels": (contextlib.nullcontext, False),
    }
    if backend.has_tf32(xp):
        ways["ours, kernels, TF32"] = (contextlib.nullcontext, True)
    for name, (mode, tf32) in ways.items():
        backend.use_tf32(xp, tf32)
        trainer = candidates.make_trainer(work, problem, device="cuda")
        with mode():
            errors = check_step(name, *candidates.ours(trainer), problem, tf32)
            rows[name] = {
                "errors": errors,
                **milliseconds(trainer.advance, wait, seconds),
            }
    backend.use_tf32(xp, False)
    return rows


def torch_step(work: Work, problem: dict, compiled: bool):
    """PyTorch's step on the GPU: (step, moments) as in peers.py, but a step does not
    wait for the GPU.
    """
    batch = problem["batch"]
    inputs, targets = batch["inputs"], batch["target"].astype(np.int64)
    return peers.torch_eager(
        problem["weights"],
        inputs,
        targets,
        candidates.sizes_of(work),
        compiled=compiled,
        device="cuda",
    )


def time_torch(work: Work, problem: dict, seconds: float, tf32: bool) -> dict:
    """{row: errors and times} of PyTorch's step, as its users write it and compiled; in
    TF32 too, if the GPU has it.
    """
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: no rows of it")
        return {}
    import torch
    import torch._inductor.config as inductor

    if not torch.cuda.is_available():
        print("this PyTorch cannot use the GPU: no rows of it")
        return {}
    rows: dict = {}
    for rounded in (False, True) if tf32 else (False,):
        torch.set_float32_matmul_precision("high" if rounded else "highest")
        for kind, compiled, graphs in (
            ("eager", False, False),
            ("torch.compile", True, False),
            ("torch.compile, CUDA graphs", True, True),
        ):
            name = f"PyTorch {kind}{', TF32' * rounded}"
            torch.compiler.reset()
            try:
                with inductor.patch(
                    {"triton.cudagraphs": graphs}
                ):  # what torch.compile(mode="reduce-overhead") sets
                    step, moments = torch_step(work, problem, compiled)
                    errors = check_step(name, step, moments, problem, rounded)
                    rows[name] = {
                        "errors": errors,
                        **milliseconds(step, torch.cuda.synchronize, seconds),
                    }
            except Wrong:
                raise
            except (
                Exception
            ) as error:  # its compiler is missing, say, or does not know this GPU
                said = f"{type(error).__name__}: {error}".strip().splitlines()[0]
                print(f"{name} fails at batch {work.batch} and is left out: {said}")
    return rows


def time_kernels(xp, work: Work, problem: dict) -> dict:
    """{kernel: microseconds and GB/s} for each shape in which the training step
    launches it.

    The launches of one step are kept with their arguments and each is repeated,
    launching included, and with what fits there in the GPU's cache: GB/s are those of a
    kernel that moves each of its arrays once, and three of Adam's twice, and may exceed
    what the memory can do.
    """
    trainer, kept, launch = (
        candidates.make_trainer(work, problem, device="cuda"),
        {},
        kernels._launch,
    )
    wait = xp.cuda.Device().synchronize
    trainer.advance()

    def keep(xp, name, blocks, threads, *args, shared=0):
        arrays = [a for a in args if hasattr(a, "nbytes") and hasattr(a, "get")]
        shapes = " ".join(str(list(a.shape)) for a in arrays[:2])
        kept.setdefault(
            f"{name} {shapes}",
            ((xp, name, blocks, threads, *args), {"shared": shared}, arrays),
        )
        launch(xp, name, blocks, threads, *args, shared=shared)

    kernels._launch = keep
    try:
        trainer.advance()
    finally:
        kernels._launch = launch
    rows = {}
    for name, (args, keywords, arrays) in kept.items():
        launch(*args, **keywords)
        wait()
        start = time.perf_counter()
        for _ in range(REPEATS):
            launch(*args, **keywords)
        wait()
        seconds = (time.perf_counter() - start) / REPEATS
        moved = sum({id(a): a.nbytes for a in arrays}.values()) + (
            3 * arrays[0].nbytes if args[1] == "adam" else 0
        )
        rows[name] = {"us": 1e6 * seconds, "GB/s": moved / seconds / 1e9}
    return rows


# --- The command ----------------------------------------------------------------------


def measure(xp, works: list[Work], seconds: float) -> dict:
    """Everything, as the file holds it: steps of all sizes, kernels checked at the
    first and timed at the last.
    """
    versions = {name: _version(name) for name in ("torch", "triton")}
    result = {
        "machine": {
            **environment(tinyrmc.__version__),
            **backend.describe_gpu(xp),
            **versions,
        },
        "kernel_errors": check_kernels(xp, works[0]),
    }
    print(
        f"kernels are correct on {result['machine']['gpu']}: "
        f"{json.dumps(result['kernel_errors'])}",
        flush=True,
    )
    result["works"] = []
    for work in works:
        problem = make_problem(work)
        rows = time_ours(xp, work, problem, seconds)
        xp.get_default_memory_pool().free_all_blocks()
        rows |= time_torch(work, problem, seconds, backend.has_tf32(xp))
        result["works"].append(
            {"size": str(work), **dataclasses.asdict(work), "rows": rows}
        )
        print(work)
        for name, row in rows.items():
            print(
                f"    {name:42} {row['ms']:9.2f} ms a step  (single "
                f"{row['single_ms']:.2f})",
                flush=True,
            )
    result["kernels"] = time_kernels(xp, work, problem)
    for name, row in result["kernels"].items():
        print(f"{name:80} {row['us']:9.1f} us {row['GB/s']:8.0f} GB/s")
    return result


def _version(name):
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def main(argv: list[str] | None = None, works: list[Work] = WORKS) -> int:
    """The command line; returns the exit code."""
    parser = Parser(
        prog="python benchmarks/gpu.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help="how long each row is timed (default 5)",
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
