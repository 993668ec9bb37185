"""The time and memory that it takes to make integers of a text, and to start from them.

    python benchmarks/corpora.py [--tokens N] [--words V] [--folder FOLDER] [--out FILE]

Writes a text of the size of WikiText-103 into a temporary folder: 103,227,021 tokens of
267,735 words, in lines of 57. Frequencies fall as 1/rank down to rank 10,000, and then
faster, so that the rarest words occur about three times, as they do there. Then, each
in a fresh process:

first    the text is read, numbered and written as integers, as
         `python -m tinyrmc data wikitext-103` does it
later    the integers are mapped into memory, and the first 100 words of 64 lanes read

Peak memory is the largest resident set of the process, Python and NumPy included.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import report
from running import peak_bytes, run_python

from tinyrmc.cli.commands import run_main

TOKENS, WORDS = 103_227_021, 267_735  # of WikiText-103, with <eos>
LINE = 57  # words
HELD_OUT = 250_000  # tokens of validation and test text


def vocabulary(count: int) -> np.ndarray:
    """Words that get longer as they get rarer, as objects; some are not ASCII."""
    letters = "etaoinsr"
    words = []
    for k in range(count):
        word, rest = "", k + 72  # three letters or more
        while True:
            word += letters[rest % 8]
            rest = rest // 8 - 1
            if rest < 0:
                break
        words.append(word + "\N{LATIN SMALL LETTER E WITH ACUTE}" * (k % 97 == 50))
    return np.array(words, dtype=object)


def write_text(path: Path, tokens: int, words: np.ndarray, seed: int) -> None:
    """Write this many tokens, line ends among them, in WikiText's format."""
    rng = np.random.default_rng(seed)
    ranks = np.arange(len(words))
    weights = 1 / ((ranks + 2.7) * np.maximum(ranks / 10_000, 1) ** 0.7)
    edges = np.cumsum(weights / weights.sum())
    left = tokens
    with open(path, "w", encoding="utf-8") as file:
        while left > 0:
            lines = min(left // (LINE + 1) + 1, 10_000)
            drawn = np.searchsorted(edges, rng.random((lines, LINE)))
            drawn = np.minimum(drawn, len(words) - 1)
            if left == tokens:  # each word at least once
                drawn.ravel()[: len(words)] = ranks[: drawn.size]
            for row in words[drawn].tolist():
                row = row[: left - 1]
                file.write(f" {' '.join(row)} \n")
                left -= len(row) + 1
                if left <= 0:
                    break


def measure(folder: str) -> dict[str, float]:
    """Load the corpus in this process."""
    from tinyrmc import corpora

    began, cpu = time.perf_counter(), time.process_time()
    corpus = corpora.load("wikitext-103", folder)
    text = corpus.texts["train"]
    lanes = text[: len(text) // 64 * 64].reshape(64, -1)
    lanes[:, :100].sum()  # reads from the disk
    return {
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - cpu,
        "tokens": sum(len(ids) for ids in corpus.texts.values()),
        "words": len(corpus.vocabulary),
        "peak_bytes": peak_bytes(),
    }


def both(folder: Path, tokens: int, words: int) -> dict[str, Any]:
    """Write the text and measure `first` and `later`."""
    place = folder / "wikitext-103"
    place.mkdir()
    known = vocabulary(words - 1)  # and <eos>
    sizes = {"train": tokens, "valid": HELD_OUT, "test": HELD_OUT}
    for seed, (part, size) in enumerate(sizes.items()):
        write_text(place / f"wiki.{part}.tokens", size, known, seed)
    found: dict[str, Any] = {"tokens": tokens, "words": words}
    found["bytes"] = (place / "wiki.train.tokens").stat().st_size
    for name in ("first", "later"):
        found[name] = json.loads(run_python(Path(__file__), "--measure", str(folder)))
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = report.parser("corpora", "Time the reading of a long text.")
    add = parser.add_argument
    add("--tokens", type=int, default=TOKENS, metavar="N")
    add("--words", type=int, default=WORDS, metavar="V")
    add("--folder", metavar="FOLDER", help="where the text is written for a while")
    add("--measure", metavar="FOLDER", help="only read the text there, as JSON")
    options = parser.parse_args(argv)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    result = report.heading("corpora")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        result["corpora"] = both(Path(folder), options.tokens, options.words)
    report.publish(result, options.out)
    return 0


if __name__ == "__main__":
    run_main(main)
