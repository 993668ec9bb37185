"""The engine's costs beside the arithmetic, each measured in a fresh process.

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
products: what share of a step of 8 slots x 256 its matrix products take on one core,
    and how fast they run relative to large SGEMMs there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tracemalloc
from pathlib import Path

import candidates
import numpy as np
from candidates import seconds_of

from tinyrmc import RelationalMemory, Tape, fused, nn, optim
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads
from tinyrmc.backend.cpu import keep_freed_memory
from tinyrmc.training.trainer import Trainer


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
    core = RelationalMemory(
        input_size=16, mem_slots=4, head_size=16, num_heads=4, seed=0
    )
    readout = nn.Linear(core.output_size, 10, seed=0)
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
    """{"share_of_step", "of_sgemm"} of the matrix products."""
    trainer = Trainer(candidates.make_task(candidates.Work(batch, slots=8, width=256)))
    with blas_threads(1):
        found = candidates.products(trainer.advance, steps)
    return {
        "share_of_step": found["share_of_step"],
        "of_sgemm": found["all"] / found["sgemm"],
    }


def main(words=None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    costs = (overhead, unroll, growth, products)
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
