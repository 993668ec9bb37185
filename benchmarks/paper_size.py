"""The paper's language model at its full size, for a few steps on this machine.

    python benchmarks/paper_size.py --steps 20 --out benchmarks/results/paper_size.json

WikiText-103's 267,735 words and the preset `paper`: 2,500 units, 64 lanes of 100 words.
The ids are made up (drawn by Zipf's law), so what comes out is speed and memory, and no
perplexity. The first step, which fills caches and pages, is left out of the speed.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import report
from running import peak_bytes

from tinyrmc import corpora
from tinyrmc.backend import blas_threads, keep_freed_memory
from tinyrmc.cli.commands import run_main
from tinyrmc.training import Trainer
from tinyrmc.training.discovery import load_task

WORDS, TOKENS = 267_735, 103_227_021  # of WikiText-103, <eos> counted
STEPS_AT_ONCE = 2  # the text is as long as so many steps need, and read again and again


def synthetic(words: int, length: int) -> corpora.Corpus:
    """A text of ids that are as frequent as words are."""
    rng = np.random.default_rng(0)
    ranks = np.arange(1, words + 1)
    chances = np.cumsum(1 / ranks) / np.sum(1 / ranks)
    text = np.searchsorted(chances, rng.random(length)).astype(np.int32)
    counts = np.maximum(1, np.bincount(text, minlength=words))
    vocabulary = corpora.Vocabulary([f"w{k}" for k in range(words)], counts)
    texts = {"train": text, "validation": text[:1000], "test": text[:1000]}
    return corpora.Corpus("synthetic", texts, vocabulary)


def measure(steps: int, threads: int, core: str) -> dict:
    """Seconds of each step, and the peak memory of this process in bytes."""
    kind = load_task("language_modeling").Task
    _, config = kind.presets["paper"]
    config = replace(config, model=replace(config.model, core=core))
    task = kind(config)
    window = config.train.batch_size * config.data.window  # tokens of a step
    task.corpus = synthetic(WORDS, STEPS_AT_ONCE * window + config.train.batch_size)
    keep_freed_memory()
    seconds = []
    with blas_threads(threads), Trainer(task, seed=0, workers=1) as trainer:
        parameters = trainer.model.num_parameters
        for step in range(steps):
            start = time.perf_counter()
            trainer.advance()
            seconds.append(time.perf_counter() - start)
            print(f"step {step + 1}: {seconds[-1]:.1f} s", flush=True)
        loss = trainer.read()["loss"]
    typical = float(np.median(seconds[1:] or seconds))
    return {
        "core": core,
        "parameters": parameters,
        "threads": threads,
        "seconds": [round(x, 2) for x in seconds],
        "seconds_per_step": typical,
        "tokens_per_second": window / typical,
        "peak_memory": peak_bytes(),
        "hours_per_epoch": TOKENS / window * typical / 3600,
        "loss": loss,
    }


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    about = "Measure the paper's language model at its full size."
    parser = report.parser("paper_size", about)
    add = parser.add_argument
    steps, threads = report.at_least_one, report.at_least_one
    add("--steps", type=steps, default=20, metavar="N")
    add("--threads", type=threads, default=2, metavar="N", help="BLAS threads")
    add("--core", default="rmc", metavar="NAME")
    options = parser.parse_args(argv)
    how = options.steps, options.threads, options.core
    result = report.heading("paper_size")
    result["paper_size"] = measure(*how)
    report.publish(result, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
