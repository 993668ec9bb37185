"""Let a trained language model continue a text.

    python -m tinyrmc generate RUN "The"
    python -m tinyrmc generate RUN "The" --words 200 --temperature 0.8 --top-k 40

RUN is a run directory, a checkpoint.npz, or a weights file. Words appear as they are
drawn. A temperature below 1 keeps to what the model expects, 0 takes the likeliest word
each time; the same seed gives the same text.

Write the words of the prompt with spaces between them, as the text has them. A word
that the text does not have is read in lower case: the Penn Treebank has no capitals. An
empty prompt, "", begins a new sentence. Some texts write all their rare words as <unk>,
which makes that a frequent word; --no-unk leaves it out.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..backend import blas_threads
from ..config import flag_of
from ..errors import RunError, UsageError
from ..training.checkpoints import open_checkpoint, restore_model
from ..training.ranks import require_alone
from .commands import Parser, add_data_dir, program


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    require_alone("tinyrmc generate")
    options = _parser().parse_args(argv)
    for name, least in {"words": 1, "top_k": 0, "seed": 0, "temperature": 0}.items():
        if not least <= (value := getattr(options, name)) < math.inf:
            raise UsageError(f"{flag_of(name)} must be at least {least}, not {value}")
    task, arrays, state = open_checkpoint(options.run, options.data_dir)
    model = restore_model(task, arrays, state)
    if not hasattr(task, "generate"):
        raise RunError(
            f"{options.run} is a run of {state['run']['task']!r}, which writes no "
            "text; give a run of a language model"
        )
    words = task.generate(
        model,
        options.prompt,
        np.random.default_rng(options.seed),
        options.words,
        options.temperature,
        options.top_k,
        **_without_unk(task, state["run"]["task"], options),
    )
    with blas_threads(1), np.errstate(all="ignore"):
        _write(options.prompt.strip(), words)
    return 0


def _without_unk(task, name: str, options) -> dict[str, bool]:
    """The argument that leaves <unk> out; UsageError for a task without that word."""
    if not options.no_unk:
        return {}
    if "unk" not in inspect.signature(task.generate).parameters:
        raise UsageError(f"--no-unk: the task {name!r} has no <unk> to leave out")
    return {"unk": False}


def _write(prompt: str, words: Iterator[str]) -> None:
    """The prompt and the words, each as it comes, with spaces between them."""
    first = [*itertools.islice(words, 1)]  # it may raise what is wrong with the prompt
    print(prompt, end="", flush=True)
    begins_line = not prompt
    for word in itertools.chain(first, words):
        space = "" if begins_line or word == "\n" else " "
        print(f"{space}{word}", end="", flush=True)
        begins_line = word == "\n"
    if not begins_line:
        print(flush=True)


def _parser() -> Parser:
    parser = Parser(program("generate"), (__doc__ or "").strip())
    add, says = parser.add_argument, "run directory, checkpoint.npz or weights file"
    add("run", type=Path, metavar="RUN", help=says)
    says = 'the words to go on from; "" begins a new sentence'
    add("prompt", metavar="PROMPT", help=says)
    says = "how many words to write (default: 100)"
    add("--words", type=int, default=100, metavar="N", help=says)
    says = "below 1: likely words become likelier; 0: the likeliest (default: 1.0)"
    add("--temperature", type=float, default=1.0, metavar="T", help=says)
    says = "draw among the K likeliest words; 0: among all (default)"
    add("--top-k", type=int, default=0, metavar="K", help=says)
    says = "the same one gives the same text (default: 0)"
    add("--seed", type=int, default=0, metavar="N", help=says)
    says = "never write <unk>, which stands for all rare words"
    add("--no-unk", action="store_true", help=says)
    add_data_dir(parser)
    return parser
