"""Let a trained language model continue a text.

    python -m tinyrmc generate RUN "The"
    python -m tinyrmc generate RUN "The" --words 200 --temperature 0.8 --top-k 40

RUN is a run directory, a checkpoint.npz, or a weights file. Words appear as they are
drawn. A temperature below 1 keeps to what the model expects, 0 takes the likeliest word
each time; the same seed gives the same text.

Write the words of the prompt with spaces between them, as the text has them. A word
that the text does not have is read in lower case: the Penn Treebank has no capitals. An
empty prompt, "", begins a new sentence. A text of your own may have been read by its
characters; then they are written so. Some texts write all their rare words as <unk>,
which makes that a frequent word; --no-unk leaves it out.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from pathlib import Path

import numpy as np

from ..backend import blas_threads
from ..errors import RunError, UsageError
from ..training.networks import open_checkpoint, restore_model
from .commands import Parser, add_places, at_least, program


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(program("generate"), (__doc__ or "").strip())
    add = parser.add_argument
    says = "run directory, checkpoint.npz or weights file"
    add("run", type=Path, metavar="RUN", help=says)
    says = 'the words to go on from; "" begins a new sentence'
    add("prompt", metavar="PROMPT", help=says)
    says = "how many words to write (default: 100)"
    add("--words", type=at_least(1), default=100, metavar="N", help=says)
    says = "below 1: likely words become likelier; 0: the likeliest (default: 1.0)"
    add("--temperature", type=at_least(0, float), default=1.0, metavar="T", help=says)
    says = "draw among the K likeliest words; 0: among all (default)"
    add("--top-k", type=at_least(0), default=0, metavar="K", help=says)
    says = "the same one gives the same text (default: 0)"
    add("--seed", type=at_least(0), default=0, metavar="N", help=says)
    says = "never write <unk>, which stands for all rare words"
    add("--no-unk", action="store_true", help=says)
    add_places(parser)
    options = parser.parse_args(argv)
    task, arrays, state = open_checkpoint(options.run, options.data_dir)
    model = restore_model(task, arrays, state)
    name = state["run"]["task"]
    if not hasattr(task, "generate"):
        raise RunError(
            f"{options.run} is a run of {name!r}, which writes no text; give a run of "
            "a language model"
        )
    without = {"unk": False} if options.no_unk else {}
    if without and "unk" not in inspect.signature(task.generate).parameters:
        raise UsageError(f"--no-unk: the task {name!r} has no <unk> to leave out")
    if not state["step"]:
        print(f"note: {options.run} is at step 0: untrained", file=sys.stderr)
    rng = np.random.default_rng(options.seed)
    settings = options.words, options.temperature, options.top_k
    words = task.generate(model, options.prompt, rng, *settings, **without)
    between = getattr(task, "between", " ")
    prompt = options.prompt.strip() if between else options.prompt
    with blas_threads(1), np.errstate(all="ignore"):
        first = [*itertools.islice(words, 1)]  # it may raise what the prompt lacks
        print(prompt, end="", flush=True)
        begins_line = not prompt
        for word in itertools.chain(first, words):
            space = "" if begins_line or word == "\n" else between
            print(f"{space}{word}", end="", flush=True)
            begins_line = word == "\n"
    if not begins_line:
        print(flush=True)
    return 0
