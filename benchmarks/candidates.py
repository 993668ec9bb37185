"""Time candidates, each in a process of its own.

    python benchmarks/candidates.py NAME [PROBLEM]

A problem is one training step of "nth farthest" at some size, as a file: the weights,
the batch, and in float64 the loss, the gradient, and the loss after one update. A
candidate is `step()`, which trains once and returns the loss before the update. Its
process reports how far its first steps are from the problem's, and then times its steps
whenever it is asked.

The script that starts a candidate decides how many cores it has, through the affinity
of its process, and each candidate does what it can with those.

Rounding and ReLUs: float32 knows an activation to about a millionth, and one that close
to zero may fall on either side; where it does, the gradient jumps. Among the millions
of a large batch some do, in a different place in each library, and the gradients of two
libraries that are both right differ by a thousandth. So a problem holds only examples
in which every ReLU is `MARGIN` away from its kink; on those the gradients of all
candidates agree to rounding.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import peers
from report import FAST
from running import answering, serve

from tinyrmc import backend, optim
from tinyrmc.autograd.engine import Tape
from tinyrmc.backend import (
    device_namespace,
    to_host,
)
from tinyrmc.backend.cpu import keep_freed_memory
from tinyrmc.cores import CoreConfig, DNCConfig
from tinyrmc.fused import use_compiled
from tinyrmc.training import Task, TrainConfig
from tinyrmc.training.discovery import load_task
from tinyrmc.training.machine import usable_cores
from tinyrmc.training.pieces import micro_batches
from tinyrmc.training.streams import Stream
from tinyrmc.training.trainer import Trainer
from tinyrmc.training.workers import CAN_FORK, Workers

DIMENSIONS = 16  # of a vector of the task
PIECE = 64  # examples whose float64 tape is held at a time
MARGIN = 1e-5

TOGETHER, APART = "SGEMM, one product on all cores", "SGEMM, one product on each core"


@dataclasses.dataclass(frozen=True)
class Work:
    """The size of a training step: batch B, slots N, their width F in H heads, and T
    time steps, one for each vector of the sequence.

    The core is "rmc", or "dnc": then slots are words, heads read, and the controller is
    one LSTM layer of 256 units.
    """

    batch: int
    slots: int
    width: int
    steps: int = 8
    heads: int = 8
    core: str = "rmc"

    def __str__(self):
        memory = f"{self.slots} slots x {self.width}"
        if self.core == "dnc":
            memory = f"{self.slots} words x {self.width}, {self.heads} read heads"
        return f"{memory}, T = {self.steps}, batch {self.batch}"

    @property
    def flops(self) -> int | None:
        """Floating-point operations of the matrix products of a step, forward and
        backward, a multiplication and an addition being two.

        A product has two derivatives, each at its own cost, and one where a factor is
        an input: the data, or the first memory, whose products are made once, for one
        example. None for a DNC, which spends little of its time in products.
        """
        if self.core == "dnc":
            return None
        N, F, T = self.slots, self.width, self.steps
        qkv, mlp, row_gates = (N + 1) * F * 3 * F, 2 * N * F * F, F * 2 * F
        every = qkv + mlp + row_gates + 2 * N * (N + 1) * F  # the last: attention
        gates, projection = N * F * 2 * F, (DIMENSIONS + 3 * T) * F
        head = N * F * 256 + 3 * 256 * 256 + 256 * T
        first = N * F * 3 * F  # of qkv
        of_each = 3 * (T * every + head - first + (T - 1) * gates) + 2 * T * projection
        return 2 * self.batch * of_each + 2 * 2 * (first + gates)


# --- problems -------------------------------------------------------------------------


def make_task(work: Work) -> Task:
    """Nth farthest at this size, with the network and the optimizer that the peers
    have.
    """
    model = CoreConfig(
        mem_slots=work.slots,
        num_heads=work.heads,
        head_size=work.width // work.heads,
        activate_final=False,
    )
    if work.core == "dnc":
        memory = DNCConfig(work.width, work.heads)
        model = CoreConfig("dnc", work.slots, settings={"dnc": memory})
    train = TrainConfig(
        batch_size=work.batch, learning_rate=peers.RATE, warmup_steps=0, clip_norm=None
    )
    nf = load_task("nth_farthest")
    data = nf.DataConfig(work.steps, DIMENSIONS)
    return nf.Task(nf.Config(model=model, data=data, train=train))


def make_problem(work: Work, path: Path) -> None:
    """Write the problem of this size: `work`, `weights/*`, `batch/*`, `loss`,
    `gradient/*` and `loss_after`. The same every time.
    """
    task = make_task(work)
    model = task.build(np.random.SeedSequence(0))
    weights = {name: parameter.data for name, parameter in model.named_parameters()}
    exact = model.astype(np.float64)
    examples = _clear_examples(task, work, exact)
    inputs = examples["inputs"].astype(np.float64)
    adam = optim.Adam(exact.parameters(), peers.RATE)
    loss = _differentiate(task, exact, examples | {"inputs": inputs})
    adam.gradient /= work.batch
    gradient = {name: p.grad.copy() for name, p in exact.named_parameters()}
    adam.step()
    after = _differentiate(task, exact, examples | {"inputs": inputs}, record=False)
    named = {
        f"{group}/{name}": x
        for group, arrays in (
            ("weights", weights),
            ("batch", examples),
            ("gradient", gradient),
        )
        for name, x in arrays.items()
    }
    size = json.dumps(dataclasses.astuple(work))
    np.savez(path, work=size, loss=loss, loss_after=after, **named)


def _clear_examples(task, work, exact):
    """A batch of examples that keep clear of every ReLU's kink."""
    drawn = task.draw(np.random.default_rng(0), 2 * work.batch + 16)
    weights = {name: parameter.data for name, parameter in exact.named_parameters()}
    inputs = drawn["inputs"].astype(np.float64)
    nearest = _clearances(weights, inputs, drawn["target"], sizes_of(work))
    chosen = np.flatnonzero(nearest > MARGIN)[: work.batch]
    if len(chosen) < work.batch:
        raise ValueError(
            f"only {len(chosen)} of {len(inputs)} examples keep clear of every "
            f"ReLU's kink; {work} is too large for that"
        )
    return {name: x[chosen] for name, x in drawn.items()}


def _differentiate(task, model, batch, record=True):
    """The mean loss. If recorded, the gradients of its sum are added to the
    parameters'.
    """
    total, count = 0.0, len(batch["target"])
    for start, stop in micro_batches(count, PIECE, 1):
        piece = {name: x[start:stop] for name, x in batch.items()}
        with Tape() if record else contextlib.nullcontext() as tape:
            loss, *_ = task.loss(model, piece, None)
        if record:
            tape.backward(loss)
        total += float(loss.data)
    return total / count


class Watching(peers.Library):
    """NumPy, which notes how near each example has come to the kink of some ReLU."""

    def __init__(self):
        super().__init__(np)
        self.nearest = np.inf

    def relu(self, x):
        of_each = abs(x).reshape(len(x), -1).min(axis=1)
        self.nearest = np.minimum(self.nearest, of_each)
        return np.maximum(x, 0)


def _clearances(weights, inputs, targets, sizes):
    """How near each example comes to the kink of some ReLU: (B,)."""
    found = []
    for start, stop in micro_batches(len(inputs), PIECE, 1):
        lib = Watching()
        peers.loss_of(lib, weights, inputs[start:stop], targets[start:stop], sizes)
        found.append(lib.nearest)
    return np.concatenate(found)


def read_problem(path) -> tuple[Work, dict]:
    """The size and the rest of a problem's file: {"weights": {name: array}, "batch":
    ..., "gradient": ..., "loss": x, "loss_after": x}.
    """
    found: dict = {"weights": {}, "batch": {}, "gradient": {}}
    with np.load(path) as file:
        for key in file:
            group, _, name = key.partition("/")
            if name:
                found[group][name] = file[key]
            else:
                found[key] = file[key].tolist()
    return Work(*json.loads(found.pop("work"))), found


def sizes_of(work: Work) -> tuple[str, int, int, int]:
    """Sizes for `peers.loss_of`."""
    size = work.width if work.core == "dnc" else work.width // work.heads
    return work.core, work.slots, work.heads, size


# --- candidates -----------------------------------------------------------------------


class Same(Stream):
    """A stream whose every batch is the same."""

    def __init__(self, drawn: dict):
        self.drawn = drawn

    def batch(self, step: int, start: int, stop: int) -> dict:
        """Some examples of the one batch."""
        return {name: x[start:stop] for name, x in self.drawn.items()}


def make_trainer(
    work: Work,
    problem: dict,
    workers: int = 1,
    device: str = "cpu",
    processes: bool | None = None,
    graph: bool = False,
    drawn: bool = False,
) -> Trainer:
    """The Trainer, as `tinyrmc.train` makes it, with the problem's weights. Every batch
    is the problem's, which is already on the device, or `drawn` as in training.
    """
    task, xp = make_task(work), device_namespace(device)
    batch = {name: xp.asarray(x) for name, x in problem["batch"].items()}
    if not drawn:
        task.stream = lambda model, seed: Same(batch)  # type: ignore[method-assign]
    trainer = Trainer(*(task, 0, workers, device), processes=processes, graph=graph)
    trainer.model.load_parameters(problem["weights"])
    return trainer


def ours(trainer: Trainer):
    """(step, moments) of a Trainer, as `peers` has them; both wait for the device."""

    def moments():
        flat = to_host(trainer.optimizer.first_moment)
        views = trainer.optimizer.views(flat)
        return {name: views[p.id] for name, p in trainer.model.named_parameters()}

    return steps_of(trainer), moments


def steps_of(trainer: Trainer) -> Callable[[], float]:
    """step() -> loss; it waits for the device."""

    def step():
        trainer.window.clear()
        trainer.advance()
        return trainer.window.means()["loss"]

    return step


def peer(name: str, work: Work, problem: dict, threads: int):
    """(step, moments) of a library."""
    if name.startswith(("PyTorch", "torch")):
        import torch

        torch.set_num_threads(1 if name == peers.TORCH_PROCESSES else threads)
    batch = problem["batch"]
    make, _ = peers.PEERS[name]
    return make(problem["weights"], batch["inputs"], batch["target"], sizes_of(work))


def sgemm(name: str, cores: int):
    """(step, floating-point operations of a step): one large product on all cores' BLAS
    threads, or smaller ones on each core at once.
    """
    size, repeats = (2048, 1) if name == TOGETHER else (768, 4)
    a, b = np.random.default_rng(0).random((2, size, size), dtype=np.float32)
    out = np.empty_like(a)

    def share(worker, request):
        for _ in range(repeats):
            np.matmul(a, b, out=out)
        return 0

    workers = Workers(1 if name == TOGETHER else cores, share, processes=CAN_FORK)
    return lambda: workers.run(0), workers.count * repeats * 2 * size**3


@contextlib.contextmanager
def products_told(tell):
    """Inside, every matrix product of tinyrmc calls tell(a, b, product, seconds)."""
    gemm = backend.gemm

    def telling(a, b, out=None, add=False):
        if add:  # comes back here for the product itself
            return gemm(a, b, out, add)
        began = time.perf_counter()
        product = gemm(a, b, out)
        tell(a, b, product, time.perf_counter() - began)
        return product

    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("tinyrmc") and vars(module).get("gemm") is gemm:
                stack.enter_context(patch.object(module, "gemm", telling))
        yield


def products(step: Callable[[], Any], steps: int) -> dict[str, float]:
    """Of a step, with BLAS on one thread: the share of the time that matrix products
    take, and their floating-point operations a second: with few rows (the steps of a
    recurrent network: at most 40, or as few numbers to sum over), with many, all of
    them, and SGEMM's.

    Medians of steps that take turns with SGEMM's, after one that does not count.
    """
    keep_freed_memory()
    spent: dict[str, list] = {"few": [0, 0.0], "many": [0, 0.0]}  # operations, seconds

    def tell(a, b, product, seconds):
        if min(a.ndim, b.ndim) > 1:  # one with a vector is a sum in disguise
            rows = product.size // product.shape[-1] if b.ndim == 2 else a.shape[-2]
            of = spent["few" if min(rows, a.shape[-1]) <= 40 else "many"]
            of[0] += 2 * product.size * a.shape[-1]
            of[1] += seconds

    rounds, (large, flops) = [], sgemm(APART, 1)
    with products_told(tell):
        step()
        for _ in range(steps):
            spent |= {"few": [0, 0.0], "many": [0, 0.0]}
            whole, of_sgemm = seconds_of(step), seconds_of(large)
            each = [
                *spent.values(),
                [sum(x) for x in zip(*spent.values(), strict=True)],
            ]
            speeds = [n / seconds if n else 0.0 for n, seconds in each]
            rounds.append((each[-1][1] / whole, *speeds, flops / of_sgemm))
    names = "share_of_step", "few_rows", "many_rows", "all", "sgemm"
    medians = map(statistics.median, zip(*rounds, strict=True))
    return dict(zip(names, medians, strict=True))


def seconds_of(function: Callable, *arguments: Any) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def first_errors(step, moments, problem: dict) -> dict[str, float]:
    """The relative errors of the first step: of its loss, its gradient, and the loss
    after its update.

    The gradient's error is the norm of the difference, over all parameters, relative to
    the norm of the whole gradient.
    """
    loss, found = float(step()), moments()
    off = [
        np.linalg.norm(found[name] / (1 - peers.BETA1) - g)
        for name, g in problem["gradient"].items()
    ]
    whole = [np.linalg.norm(g) for g in problem["gradient"].values()]
    return {
        "loss": abs(loss / problem["loss"] - 1),
        "gradient": float(np.linalg.norm(off) / np.linalg.norm(whole)),
        "loss after the update": abs(float(step()) / problem["loss_after"] - 1),
    }


def median_time(step, seconds: float) -> float:
    """The median time of a step, in seconds, over about `seconds`; at least one step,
    after one that does not count.
    """
    step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def make(name: str, path: str | None) -> tuple[dict, Callable[[float], float]]:
    """Answers for `running.serve`: how far the first steps are from the problem at this
    path (SGEMM has none), then the median time of a step.
    """
    cores = len(usable_cores())
    if name in (TOGETHER, APART):
        step, flops = sgemm(name, cores)
        return {"flops": flops}, functools.partial(median_time, step)
    work, problem = read_problem(path)
    step, moments = _step_of(name, work, problem, cores)
    errors = first_errors(step, moments, problem)
    return {"errors": errors}, functools.partial(median_time, step)


def _step_of(name, work, problem, cores):
    """(step, moments) of ours or of a library."""
    if name in ("ours", FAST):
        use_compiled(name == FAST)
        return ours(make_trainer(work, problem, cores))
    return peer(name, work, problem, cores)


def main(name: str, path: str | None = None, requests=sys.stdin, answer=None) -> None:
    """A candidate's process: it answers each line of stdin with a line of JSON."""
    threads = 1 if name in ("ours", FAST, APART) else len(usable_cores())
    made = functools.partial(make, name, path)
    serve(made, threads, requests, answer or answering())


if __name__ == "__main__":
    if sys.argv[1] == "problem":
        make_problem(Work(*json.loads(sys.argv[2])), Path(sys.argv[3]))
    else:
        main(*sys.argv[1:])
