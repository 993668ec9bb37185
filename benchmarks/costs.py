"""What the engine costs beside the arithmetic, each measured in a fresh process.

    python benchmarks/costs.py COST [STEPS]

overhead: microseconds that recording and differentiating one operation take. A chain of
    additions of one element, both arguments tracked, runs forward and backward; the
    same additions in bare NumPy are subtracted.
unroll: the highest memory in use during backward relative to that during forward, of a
    Relational Memory Core unrolled over 100 steps. It counts what Python and NumPy have
    allocated since before the forward pass (tracemalloc), so not the parameters and the
    buffer of their gradients.
growth: MiB by which the resident memory of a training process grows over 10,000 small
    steps, after 1,000 that do not count. Linux only.
programs: milliseconds that drawing a batch of the task program_evaluation takes: 128
    programs of up to 5 digits and 2 operations.
composed: how much longer a step takes on one core when a fused operation is composed of
    primitives, and when all of them are: of the Relational Memory Core at 8 slots x 64,
    and of the Differentiable Neural Computer at 80 words x 64.
products: what share of a step of 8 slots x 256 its matrix products take on one core,
    and how fast they run relative to large SGEMMs there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import candidates
import numpy as np

from tinyrmc import RelationalMemory, Tape, fused, nn, optim
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads, keep_freed_memory
from tinyrmc.training.discovery import load_task
from tinyrmc.training.trainer import Trainer


def seconds_of(function, *arguments) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def overhead(count: int = 1000, rounds: int = 50) -> float:
    """Microseconds an operation; the median of rounds in which engine and NumPy take
    turns.
    """
    array = np.ones(1, np.float32)

    def recorded():
        with Tape() as tape:
            x = y = tape.watch(array)
            for _ in range(count):
                y = y + x
            loss = p.sum(y)
        tape.gradient(loss, x)

    def bare():
        y = gradient = array
        for _ in range(count):
            y = y + array
        for _ in range(count):
            gradient = gradient + array  # that of x, which every addition adds to

    beyond = [seconds_of(recorded) - seconds_of(bare) for _ in range(rounds)]
    return 1e6 * statistics.median(beyond) / count


def unroll(steps: int = 100, batch: int = 64) -> float:
    """Peak of backward / peak of forward, in bytes allocated."""
    core = RelationalMemory(input_size=16, mem_slots=4, head_size=16, num_heads=4)
    readout = nn.Linear(core.output_size, 10)
    # it puts the gradients into one flat buffer, as in training
    optim.Adam(core.parameters() + readout.parameters())
    rng = np.random.default_rng(0)
    inputs = rng.random((steps, batch, 16), np.float32)
    targets = rng.integers(10, size=batch)

    def forward():
        with Tape() as tape:
            state = core.initial_state(batch)
            for x in inputs:
                output, state = core(x, state)
            return tape, p.sum(fused.softmax_cross_entropy(readout(output), targets))

    tape, loss = forward()  # what is allocated once, at first use, belongs to neither
    tape.backward(loss)
    del tape, loss
    tracemalloc.start()
    try:
        tape, loss = forward()
        peak_of_forward = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        tape.backward(loss)
        return tracemalloc.get_traced_memory()[1] / peak_of_forward
    finally:
        tracemalloc.stop()


def growth(steps: int = 10_000, uncounted: int = 1000) -> float | None:
    """MiB, after some steps that do not count; None where the system does not say."""
    if sys.platform != "linux":
        return None
    keep_freed_memory()
    work = candidates.Work(batch=8, slots=2, width=16, steps=2)
    trainer = Trainer(candidates.make_task(work))

    def train(count):
        for step in range(count):
            trainer.advance()
            if step % 100 == 99:
                trainer.read()

    def resident():
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    with blas_threads(1):
        train(uncounted)
        before = resident()
        train(steps)
        return resident() - before


def products(steps: int = 20, batch: int = 128) -> dict[str, float]:
    """{"share_of_step", "of_sgemm"} of the matrix products, each the median of steps
    that take turns with SGEMM's.
    """
    work = candidates.Work(batch, slots=8, width=256)
    trainer = Trainer(candidates.make_task(work))
    sgemm, flops = candidates.sgemm(candidates.APART, 1)
    inside: list[float] = []  # seconds of each product of a step

    def tell(a, b, product, seconds):
        if min(a.ndim, b.ndim) > 1:  # one with a vector is a sum in disguise
            inside.append(seconds)

    def once():
        inside.clear()
        step = seconds_of(trainer.advance)
        return step, sum(inside), seconds_of(sgemm)

    keep_freed_memory()
    with blas_threads(1), candidates.products_told(tell):
        trainer.advance()
        rounds = [once() for _ in range(steps)]
    shares = [of_products / step for step, of_products, _ in rounds]
    speeds = [
        work.flops / of_products / (flops / of_sgemm)
        for _, of_products, of_sgemm in rounds
    ]
    return {
        "share_of_step": statistics.median(shares),
        "of_sgemm": statistics.median(speeds),
    }


def composed(rounds: int = 7, batch: int = 128) -> dict[str, dict[str, float]]:
    """{core: {operation: time of a step in which it is composed / of one in which none
    is}} for the operations in use, medians of steps that take turns.
    """
    works = [
        candidates.Work(batch, 8, 64),
        candidates.Work(batch, 80, 64, core="dnc", heads=4),
    ]
    names = {x: name for name, x in vars(fused).items() if isinstance(x, fused.Fused)}
    found = {}
    for work in works:
        trainer = Trainer(candidates.make_task(work))
        with blas_threads(1):
            used = _step_with_composed(trainer, ())[1]
            cases = {names[operation]: [operation] for operation in used}
            found[work.core] = {
                case: _slowdown(trainer, which, rounds)
                for case, which in (cases | {"all": used}).items()
            }
    return found


def _slowdown(trainer, which, rounds):
    """The median time of a step with these operations composed / of one without."""
    pairs = [
        (_step_with_composed(trainer, which)[0], _step_with_composed(trainer, ())[0])
        for _ in range(rounds)
    ]
    return round(np.divide(*np.median(pairs, axis=0)), 2)


def _step_with_composed(trainer, which):
    """(seconds, the fused operations in use) of a step in which those of `which` are
    composed of primitives.
    """
    as_it_is, used = fused.Fused.__call__, {}

    def call(self, *args, **static):
        used[self] = None
        if self in which:
            return self.reference(*args, **static)
        return as_it_is(self, *args, **static)

    with patch.object(fused.Fused, "__call__", call):
        return seconds_of(trainer.advance), list(used)


def programs(rounds: int = 200) -> float:
    """Milliseconds a batch; the median of some."""
    task = load_task("program_evaluation")
    batch = task.PAPER.train.batch_size
    stream = task.Task(task.PAPER).stream(None, seed=0)
    times = [seconds_of(stream.batch, step, 0, batch) for step in range(rounds)]
    return 1e3 * statistics.median(times)


def main(words=None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    costs = (overhead, unroll, growth, products, composed, programs)
    measures = {measure.__name__: measure for measure in costs}
    parser.add_argument("cost", choices=measures)
    parser.add_argument("steps", type=int, nargs="?")
    options = parser.parse_args(words)
    measure = measures[options.cost]
    found = measure() if options.steps is None else measure(options.steps)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
