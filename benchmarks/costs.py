"""What the engine costs beside the arithmetic, each in a fresh process: costs.py COST
[STEPS]

overhead: microseconds that recording and differentiating one operation take: a chain of
    additions of one element, both arguments tracked, forward and backward, less the
    same additions in bare NumPy.
unroll: the highest memory in use during backward relative to that during forward, of a
    Relational Memory Core unrolled over 100 steps. What counts is what Python and NumPy
    have allocated since before the forward pass (tracemalloc): exact, and without what
    was there already, the parameters and the buffer of their gradients.
programs: milliseconds that drawing a batch of the task program_evaluation takes: 128
programs of up to 5 digits and 2 operations.
growth: MiB by which the resident memory of a training process grows over 10,000 small
steps, after 1,000 that do not count. Linux only.
composed: how much longer a step takes on one core when a fused operation is composed of
    primitives, and when all of them are: of the Relational Memory Core at 8 slots x 64,
    and of the Differentiable Neural Computer at 80 words x 64.
products: which part of a step of 8 slots x 256 its matrix products take on one core,
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
from tinyrmc.backend import blas_threads, gemm, keep_freed_memory
from tinyrmc.training.discovery import load_task
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

    def seconds(function):
        began = time.perf_counter()
        function()
        return time.perf_counter() - began

    return (
        1e6
        * statistics.median(seconds(recorded) - seconds(bare) for _ in range(rounds))
        / count
    )


def unroll(steps: int = 100, batch: int = 64) -> float:
    """Peak of backward / peak of forward, in bytes allocated."""
    rng = np.random.default_rng(0)
    core = RelationalMemory(input_size=16, mem_slots=4, head_size=16, num_heads=4)
    readout = nn.Linear(core.output_size, 10)
    optim.Adam(
        core.parameters() + readout.parameters()
    )  # gradients in the flat buffer, as in training
    inputs, targets = (
        rng.random((steps, batch, 16), np.float32),
        rng.integers(10, size=batch),
    )

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
    trainer = Trainer(
        candidates.make_task(candidates.Work(batch=8, slots=2, width=16, steps=2))
    )

    def train(count):
        for step in range(count):
            trainer.advance()
            if step % 100 == 99:
                trainer.read()

    def resident():
        return (
            int(Path("/proc/self/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 2**20
        )

    with blas_threads(1):
        train(uncounted)
        before = resident()
        train(steps)
        return resident() - before


def products(steps: int = 20, batch: int = 128) -> dict[str, float]:
    """{"share_of_step", "of_sgemm"} of the matrix products, each the median of steps
    that take turns with SGEMM's.
    """
    trainer = Trainer(
        candidates.make_task(work := candidates.Work(batch, slots=8, width=256))
    )
    sgemm, flops = candidates.sgemm(candidates.APART, 1)
    inside = []

    def timed(a, b, out=None):
        began = time.perf_counter()
        product = gemm(a, b, out)
        inside.append(time.perf_counter() - began)
        return product

    def measured(step):
        inside.clear()
        began = time.perf_counter()
        step()
        return time.perf_counter() - began, sum(inside)

    keep_freed_memory()
    with (
        blas_threads(1),
        patch.object(fused, "gemm", timed),
        patch.object(p, "gemm", timed),
    ):
        trainer.advance()
        rounds = [
            (*measured(trainer.advance), measured(sgemm)[0]) for _ in range(steps)
        ]
    return {
        "share_of_step": statistics.median(
            products / step for step, products, _ in rounds
        ),
        "of_sgemm": statistics.median(
            work.flops / products / (flops / large) for _, products, large in rounds
        ),
    }


def composed(rounds: int = 7, batch: int = 128) -> dict[str, dict[str, float]]:
    """{work: {operation: time of a step / of one in which nothing is composed}},
    medians of steps that take turns, for those in use.
    """
    names = {x: name for name, x in vars(fused).items() if isinstance(x, fused.Fused)}
    as_it_is, used, found = fused.Fused.__call__, {}, {}

    def seconds(trainer, composed):
        def call(self, *args, **static):
            used[self] = None
            return (self.reference if self in composed else as_it_is.__get__(self))(
                *args, **static
            )

        with patch.object(fused.Fused, "__call__", call):
            began = time.perf_counter()
            trainer.advance()
            return time.perf_counter() - began

    for work in (
        candidates.Work(batch, 8, 64),
        candidates.Work(batch, 80, 64, core="dnc", heads=4),
    ):
        trainer = Trainer(candidates.make_task(work))
        used.clear()
        with blas_threads(1):
            seconds(trainer, ())
            cases = {names[operation]: [operation] for operation in used} | {
                "all": [*used]
            }
            pairs = {
                case: [
                    (seconds(trainer, which), seconds(trainer, ()))
                    for _ in range(rounds)
                ]
                for case, which in cases.items()
            }
        found[work.core] = {
            case: round(np.divide(*np.median(times, axis=0)), 2)
            for case, times in pairs.items()
        }
    return found


def programs(rounds: int = 200) -> float:
    """Milliseconds a batch; the median of some."""
    task = load_task("program_evaluation")
    config = task.PAPER
    stream = task.Task(config).stream(None, seed=0)

    def seconds(step):
        began = time.perf_counter()
        stream.batch(step, 0, config.train.batch_size)
        return time.perf_counter() - began

    return 1e3 * statistics.median(map(seconds, range(rounds)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    measures = {
        measure.__name__: measure
        for measure in (overhead, unroll, growth, products, composed, programs)
    }
    parser.add_argument("cost", choices=measures)
    parser.add_argument("steps", type=int, nargs="?")
    options = parser.parse_args()
    print(
        json.dumps(
            measures[options.cost](*([] if options.steps is None else [options.steps]))
        )
    )
