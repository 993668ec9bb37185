"""The paper's language model at its full size, for a few steps on this machine.

    python benchmarks/paper_size.py --steps 20 --out benchmarks/results/paper_size.json

WikiText-103's 267,735 words and the preset `paper`: 2,500 units, 64 lanes of 100 words.
The ids are made up (drawn by Zipf's law), so what comes out is speed and memory, and no
perplexity. The first step, which fills caches and pages, is left out of the speed.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import tinyrmc
from tinyrmc import corpora
from tinyrmc.backend import blas_threads, keep_freed_memory
from tinyrmc.runs.machine import environment
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


def measure(steps: int, workers: int, threads: int, core: str) -> dict:
    """Seconds of each step, and the peak memory of this process in bytes."""
    kind = load_task("language_modeling").Task
    _, config = kind.presets["paper"]
    config = replace(config, model=replace(config.model, core=core))
    task = kind(config)
    window = config.train.batch_size * config.data.window  # tokens of a step
    task.corpus = synthetic(WORDS, STEPS_AT_ONCE * window + config.train.batch_size)
    keep_freed_memory()
    seconds = []
    with blas_threads(threads), Trainer(task, seed=0, workers=workers) as trainer:
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
        "workers": workers,
        "threads": threads,
        "seconds": [round(x, 2) for x in seconds],
        "tokens_per_second": window / typical,
        "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "hours_per_epoch": TOKENS / window * typical / 3600,
        "loss": loss,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="BLAS threads")
    parser.add_argument("--core", default="rmc")
    parser.add_argument("--out", type=Path, help="write the figures to this file")
    words = parser.parse_args()
    found = measure(words.steps, words.workers, words.threads, words.core)
    found["environment"] = environment(tinyrmc.__version__)
    print(
        f"{found['parameters']:,} parameters, {found['tokens_per_second']:,.0f} tokens "
        f"a second, {found['peak_memory'] / 2**30:.1f} GiB at most, an epoch of "
        f"WikiText-103 would take {found['hours_per_epoch']:,.0f} hours"
    )
    if words.out:
        words.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
