"""The softmax over a large vocabulary: its memory, and its time beside that of its
matrix products.

    python benchmarks/large_vocabulary.py [--words 267735] [--width 512] [--rows 6400]
        [--out FILE]

Forward and backward of `fused.linear_cross_entropy` on one core: the tied weight of
267,735 words x 512 (WikiText-103 at the paper's size) and its gradient, 6,400 tokens.
Each row of the table is a fresh process:

whole: all tokens in one call. Most logits are made twice: four matrix products.
pieces: the tokens in pieces, one after the other, as the training loop cuts a batch.
    Their logits are few enough to be kept until backward: three products.
untied: like `pieces`, but there is an embedding beside the weight, with a gradient.

Memory is the most that the process ever had, all of Python included, in units of the
parameters and their gradients. Time is that of the processor, relative to the three
products of the plain algorithm (logits, gradient of the tokens, gradient of the weight)
at the best speed that any of their blocks reached before, between and after. Both are
medians of `--rounds`. Linux and macOS.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from pathlib import Path

import numpy as np
import report
from running import peak_bytes, run_python

from tinyrmc import Parameter, Tape, fused
from tinyrmc import primitives as p
from tinyrmc.backend import blas_threads, gemm, keep_freed_memory
from tinyrmc.cli.commands import run_main

KINDS = ("whole", "pieces", "untied")
BLOCK = 1600, 2048  # rows and words of a block of the plain products


def measure(kind: str, words: int, width: int, rows: int, rounds: int) -> dict:
    """{"memory", "time", "seconds", "products_seconds"} of one kind, measured here."""
    keep_freed_memory()
    rng = np.random.default_rng(0)
    weight = parameter(rng, words, width)
    others = [parameter(rng, words, width)] if kind == "untied" else []
    arrays = 2 * (1 + len(others)) * weight.data.nbytes
    # pieces so small that their logits are kept
    count = 1 if kind == "whole" else -(-rows // int(0.7 * width))
    bounds = [rows * k // count for k in range(count + 1)]
    pieces = [
        (parameter(rng, stop - start, width), rng.integers(words, size=stop - start))
        for start, stop in itertools.pairwise(bounds)
    ]

    def once():
        began = time.process_time()
        for x, targets in pieces:
            with Tape() as tape:
                loss = p.sum(fused.linear_cross_entropy(x, weight, targets))
            tape.backward(loss)
        return time.process_time() - began

    with blas_threads(1):
        seconds = [once()]
        memory = peak_bytes() / arrays
        speed = Products(weight.data, rows)
        times = []
        for _ in range(rounds):
            speed.measure()
            seconds.append(once())
            speed.measure()
            times.append(seconds[-1] / speed.seconds)
    return {
        "memory": memory,
        "time": statistics.median(times),
        "seconds": statistics.median(seconds[1:]),
        "products_seconds": speed.seconds,
    }


def parameter(rng: np.random.Generator, *shape: int) -> Parameter:
    """Normal values, and a gradient that is really in memory."""
    found = Parameter(np.zeros((0, 0), np.float32))
    values = rng.standard_normal(shape, np.float32)
    values *= 0.05
    found.bind(values, np.full(shape, 0, np.float32))
    return found


class Products:
    """The three products of the plain algorithm, a block at a time.

    seconds: what all blocks of all three take at the best speeds so far.
    """

    def __init__(self, weight: np.ndarray, rows: int):
        words = weight[: BLOCK[1]]
        x = np.random.default_rng(0).random((BLOCK[0], weight.shape[1]), np.float32)
        logits = gemm(x, words.T)
        self.blocks = rows * len(weight) / logits.size
        self.products = [
            (x, words.T, logits),
            (logits, words, np.empty_like(x)),
            (logits.T, x, np.empty_like(words)),
        ]
        self.best = [np.inf] * 3

    def measure(self, times: int = 20) -> None:
        for k, (a, b, out) in enumerate(self.products):
            for _ in range(times):
                began = time.process_time()
                gemm(a, b, out=out)
                self.best[k] = min(self.best[k], time.process_time() - began)

    @property
    def seconds(self) -> float:
        return self.blocks * sum(self.best)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Measure the softmax over a large vocabulary."
    parser = report.parser("large_vocabulary", about)
    for name, default in {
        "words": 267_735,
        "width": 512,
        "rows": 6400,
        "rounds": 3,
    }.items():
        kind = report.at_least_one
        parser.add_argument(f"--{name}", type=kind, default=default, metavar="N")
    parser.add_argument("--measure", choices=KINDS, help="only this, as JSON")
    options = parser.parse_args(argv)
    size = options.words, options.width, options.rows, options.rounds
    if options.measure:
        print(json.dumps(measure(options.measure, *size)))
        return 0
    names = ("--words", "--width", "--rows", "--rounds")
    flags = [word for pair in zip(names, map(str, size), strict=True) for word in pair]
    result = report.heading("large_vocabulary")
    result["vocabulary"] = {
        **{name: getattr(options, name) for name in ("words", "width", "rows")},
        "kinds": {
            kind: json.loads(run_python(Path(__file__), "--measure", kind, *flags))
            for kind in KINDS
        },
    }
    report.publish(result, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
