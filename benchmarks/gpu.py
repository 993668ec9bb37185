"""The training step of the Relational Memory Core on a GPU: python benchmarks/gpu.py

First correctness, on the GPU itself: each kernel against its array body in float64 on NumPy, and whole training steps against NumPy's.
Whatever differs stops everything. Then times: ours with the array bodies alone, with kernels, and with kernels and TF32; PyTorch eager,
through torch.compile, and through torch.compile with CUDA graphs (what its mode "reduce-overhead" turns on), each in float32 and in TF32.
Last the memory traffic of each kernel. All of it goes to results/gpu-<name of the GPU>.json. Without a GPU: one line, exit code 2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from tinyrmc import Tape, backend, fused, kernels
from tinyrmc.commands import Parser, run_main
from tinyrmc.discovery import load_task
from tinyrmc.primitives import sum as total
from tinyrmc.runs import environment
from tinyrmc.training import Totals, Trainer

RESULTS = Path(__file__).resolve().parent / "results"
BATCHES, CHECKED = (32, 128, 1600), 32  # batch sizes that are timed, and the one at which everything is compared
LEAST, REPEATS = 5, 50  # steps in a row of times, at least; launches of a kernel
RATE = 1e-3  # of Adam, constant, in ours as in peers.py


@dataclasses.dataclass(frozen=True)
class Work:
    """A training step of "nth farthest": N slots of H heads, T time steps (and as many labels)."""

    slots: int = 8
    heads: int = 8
    head_size: int = 32
    steps: int = 8

    def __str__(self):
        return f"{self.slots} slots x {self.heads * self.head_size} units, {self.heads} heads, T = {self.steps}"


class Wrong(Exception):
    """The GPU computes something else than it should."""


def make_trainer(work: Work, batch: int, device: str) -> Trainer:
    """Our training step on one batch, which is drawn beforehand and lies on the device."""
    nf = load_task("nth_farthest")
    config = nf.Config(
        model=nf.CoreConfig(mem_slots=work.slots, num_heads=work.heads, head_size=work.head_size, activate_final=False),
        data=nf.DataConfig(objects=work.steps, dimensions=16),
        train=nf.TrainConfig(batch_size=batch, learning_rate=RATE, warmup_steps=0, clip_norm=None),
    )
    trainer = Trainer(nf.Task(config), seed=0, device=device)
    drawn = {name: backend.to_device(x, trainer.xp) for name, x in trainer.stream.batch(0, 0, batch).items()}
    trainer.stream.batch = lambda step, start, stop: {name: x[start:stop] for name, x in drawn.items()}
    return trainer


# --- Correctness --------------------------------------------------------------------------------------------------------------------------


def kernel_cases(work: Work, batch: int) -> list:
    """(fused primitive, float64 arrays, static arguments) at the sizes of the training step and at awkward ones."""
    normal, F, rows = np.random.default_rng(0).standard_normal, work.heads * work.head_size, work.slots + 1
    cases = []
    for shape in (batch, rows, 3 * F), (batch, work.slots, F), (1, 1), (7, 33), (5, 1536):
        gain, offset = normal(shape[-1]), normal(shape[-1])
        cases += [(fused.layer_norm, [normal(shape), gain, offset, *residual], {}) for residual in ([], [normal(shape)])]
    heads = {"num_heads": work.heads, "key_size": work.head_size}
    cases += [(fused.attention, [normal((batch, rows, 3 * F))], {**heads, "num_queries": work.slots})]
    cases += [(fused.attention, [normal((2, n, 3 * 13))], {"num_heads": 3, "key_size": 4}) for n in (1, 33, 64)]
    for examples, slots, width, columns in (batch, work.slots, F, 2 * F), (batch, work.slots, F, 2), (3, 5, 33, 66), (3, 5, 33, 2):
        shapes = (examples, 1, columns), (examples, slots, columns), (examples, slots, width), (examples, slots, width)
        cases += [(fused.rmc_gates, [normal(shape) for shape in shapes], {"input_bias": 0.25, "forget_bias": 1.0})]
    for count, classes in (batch, work.steps), (5, 100):
        targets = np.random.default_rng(0).integers(classes, size=count)
        cases += [(fused.softmax_cross_entropy, [normal((count, classes)), targets], {})]
    return cases


def value_and_gradients(op, arrays, static, weights):
    """The value of op(*arrays, **static), and the gradients of its sum weighted by `weights`."""
    with Tape() as tape:
        watched = [tape.watch(a) if a.dtype.kind == "f" else a for a in arrays]
        y = op(*watched, **static)
        loss = total(y * weights)
    return [y.data, *tape.gradient(loss, [a for a in watched if hasattr(a, "tape")])]


def difference(ours, exact) -> float:
    """The largest difference, relative to the largest element."""
    exact = backend.to_host(exact)
    return float(np.abs(backend.to_host(ours) - exact).max() / max(1e-30, np.abs(exact).max()))


def check_kernels(xp, work: Work, batch: int) -> dict:
    """{kernel: largest difference from its array body in float64}. Wrong if a kernel is not used, or one differs by more than 1e-4."""
    found: dict = {}

    def on_gpu(a):
        return xp.asarray(a.astype(np.float32) if a.dtype.kind == "f" else a)

    for op, arrays, static in kernel_cases(work, batch):
        weights = np.random.default_rng(1).standard_normal(op(*arrays, **static).shape)
        there = [on_gpu(a) for a in arrays]
        if op.override(xp, there, static) is op:
            raise Wrong(f"{op.name} runs no kernel at {[a.shape for a in arrays]}")
        ours, exact = value_and_gradients(op, there, static, on_gpu(weights)), value_and_gradients(op, arrays, static, weights)
        if arrays[0].shape[-1] == 1:  # one column has no variance: the gradient of x is zero, and of rounding there is no relative size
            ours, exact = ours[:1], exact[:1]
        worst = max(map(difference, ours, exact))
        if not worst < 1e-4:
            raise Wrong(f"{op.name} at {[a.shape for a in arrays]} differs from its array body by {worst:.1e} of the largest element")
        found[op.name] = max(found.get(op.name, 0.0), worst)
    return found


def losses(trainer: Trainer, steps: int) -> list[float]:
    """The mean loss of each of the next steps, before its update."""
    found = []
    for _ in range(steps):
        trainer.window = Totals()
        trainer.advance()
        loss, count = trainer.window.sums["loss"]
        found.append(float(loss) / float(count))
    return found


def check_steps(work: Work, batch: int, steps: int = 3) -> dict:
    """The largest differences from NumPy in loss, gradient and moments over some training steps, with kernels and without.

    Not in the parameters: Adam's first steps are as long for a gradient that is all rounding as for any other.
    """
    host, found = make_trainer(work, batch, "cpu"), {}
    exact = losses(host, 1)
    first = host.optimizer.first_moment.copy()  # a tenth of the gradient
    exact += losses(host, steps - 1)
    for name, mode in ("kernels", contextlib.nullcontext), ("array bodies", kernels.off):
        with mode():
            ours = make_trainer(work, batch, "cuda")
            loss = losses(ours, 1)
            worst = {"gradient": difference(ours.optimizer.first_moment, first)}
            loss += losses(ours, steps - 1)
        worst |= {"loss": difference(np.array(loss), np.array(exact))}
        worst |= {moment: difference(getattr(ours.optimizer, moment), getattr(host.optimizer, moment)) for moment in ours.optimizer.slots}
        if not all(value < 1e-3 for value in worst.values()):
            raise Wrong(f"{steps} training steps with {name} differ from NumPy's: {worst}")
        found[name] = worst
    return found


# --- Time ---------------------------------------------------------------------------------------------------------------------------------


def milliseconds(step, wait, seconds: float) -> dict:
    """Median and fastest of single steps, each waited for, and the mean of many in a row, waited for once: what training sees."""
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
    return {"ms": 1e3 * row, "single_ms": 1e3 * statistics.median(single), "fastest_ms": 1e3 * min(single), "steps": len(single)}


def time_ours(xp, work: Work, batch: int, seconds: float) -> dict:
    """{row: times} of our step in three ways."""
    wait, rows = xp.cuda.Device().synchronize, {}
    ways = {
        "ours, array bodies": (kernels.off, False),
        "ours, kernels": (contextlib.nullcontext, False),
        "ours, kernels, TF32": (contextlib.nullcontext, True),
    }
    for name, (mode, tf32) in ways.items():
        backend.use_tf32(xp, tf32)
        with mode():
            rows[name] = milliseconds(make_trainer(work, batch, "cuda").advance, wait, seconds)
    backend.use_tf32(xp, False)
    return rows


def torch_step(work: Work, batch: int, compiled: bool):
    """PyTorch's step (see peers.py) on the GPU, from our weights on our batch. Wrong if its first three losses are not ours."""
    import peers

    host = make_trainer(work, batch, "cpu")
    weights = {name: parameter.data.copy() for name, parameter in host.model.named_parameters()}
    examples, sizes = host.stream.batch(0, 0, batch), (work.slots, work.heads, work.head_size)
    step, _ = peers.torch_eager(weights, examples["inputs"], examples["target"], sizes, compiled=compiled, device="cuda")
    worst = difference(np.array([float(step()) for _ in range(3)]), np.array(losses(make_trainer(work, batch, "cuda"), 3)))
    if not worst < 1e-2:  # a TF32 operand may be off by 5e-4
        raise Wrong(f"PyTorch's first losses differ from ours by {worst:.1e}")
    return step


def time_torch(work: Work, batch: int, seconds: float) -> dict:
    """{row: times} of PyTorch's step, as its users write it and compiled."""
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: no rows of it")
        return {}
    import torch
    import torch._inductor.config as inductor

    if not torch.cuda.is_available():
        print("this PyTorch cannot use the GPU: no rows of it")
        return {}
    rows: dict = {}
    for precision, suffix in ("highest", ""), ("high", ", TF32"):
        torch.set_float32_matmul_precision(precision)
        for name, compiled, graphs in ("eager", False, False), ("torch.compile", True, False), ("torch.compile, CUDA graphs", True, True):
            torch.compiler.reset()
            with inductor.patch({"triton.cudagraphs": graphs}):  # what torch.compile(mode="reduce-overhead") sets
                step = torch_step(work, batch, compiled)
                rows[f"PyTorch {name}{suffix}"] = milliseconds(step, torch.cuda.synchronize, seconds)
    return rows


def time_kernels(xp, work: Work, batch: int) -> dict:
    """{kernel: microseconds and GB/s} for each shape in which the training step launches it.

    The launches of one step are kept with their arguments and each is repeated. Its traffic is each array once, and three of Adam's twice.
    """
    trainer, kept, launch = make_trainer(work, batch, "cuda"), {}, kernels._launch
    wait = xp.cuda.Device().synchronize
    trainer.advance()

    def keep(xp, name, blocks, threads, *args, shared=0):
        arrays = [a for a in args if hasattr(a, "nbytes") and hasattr(a, "get")]
        shapes = " ".join(str(list(a.shape)) for a in arrays[:2])
        kept.setdefault(f"{name} {shapes}", ((xp, name, blocks, threads, *args), {"shared": shared}, arrays))
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
        moved = sum({id(a): a.nbytes for a in arrays}.values()) + (3 * arrays[0].nbytes if args[1] == "adam" else 0)
        rows[name] = {"us": 1e6 * seconds, "GB/s": moved / seconds / 1e9}
    return rows


# --- The command --------------------------------------------------------------------------------------------------------------------------


def measure(xp, work: Work, seconds: float) -> dict:
    """Everything, as the file holds it."""
    versions = {name: _version(name) for name in ("torch", "triton")}
    result = {"work": str(work), "machine": {**environment(), **backend.describe_gpu(xp), **versions}}
    result["checks"] = {"kernels": check_kernels(xp, work, CHECKED), "training steps": check_steps(work, CHECKED)}
    print(f"correct on {result['machine']['gpu']}: {json.dumps(result['checks'])}")
    result["rows"] = {}
    for batch in BATCHES:
        rows = time_ours(xp, work, batch, seconds)
        xp.get_default_memory_pool().free_all_blocks()
        rows |= time_torch(work, batch, seconds)
        result["rows"][f"batch {batch}"] = rows
        for name, row in rows.items():
            print(f"batch {batch:5}  {name:42} {row['ms']:9.2f} ms a step  (single {row['single_ms']:.2f})", flush=True)
    result["kernels"] = time_kernels(xp, work, max(BATCHES))
    for name, row in result["kernels"].items():
        print(f"{name:80} {row['us']:9.1f} us {row['GB/s']:8.0f} GB/s")
    return result


def _version(name):
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(prog="python benchmarks/gpu.py", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each row is timed (default 5)")
    options = parser.parse_args(argv)
    xp = backend.device_namespace("cuda")
    try:
        result = measure(xp, Work(), options.seconds)
    except Wrong as error:
        print(f"error: {error}; nothing was written", file=sys.stderr)
        return 1
    path = RESULTS / f"gpu-{'-'.join(result['machine']['gpu'].split())}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    run_main(main)
