"""The needs of a chapter around its text: code to show, its look, files, measuring."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..autograd.engine import Tape

# Set TINYRMC_FAST=1 to find out quickly whether a chapter runs at all.
FAST = os.environ.get("TINYRMC_FAST", "0") not in ("", "0")

# The folder that holds the package: the repository's root, or site-packages.
ROOT = Path(__file__).resolve().parents[2]
ASSETS = Path(__file__).resolve().parent / "assets"
# In an installation the committed results lie in the package, beside the assets.
RESULTS = (ASSETS.parent / "results", ROOT / "benchmarks" / "results")

T = TypeVar("T")
Shown = type | Callable[..., object]  # what has a text: classes, functions, methods


def fast(full: T, brief: T, browser: T | None = None) -> T:
    """`full`, or `brief` where TINYRMC_FAST is set: steps, or the size of a sample.

    In a browser, where it mostly takes several times as long, `browser` and a note.
    """
    if FAST or browser is None or sys.platform != "emscripten":
        return brief if FAST else full
    print(f"in a browser {browser:,} instead of {full:,}, which would take minutes")
    return browser


def assets() -> Path:
    """The package's folder of trained networks, wherever the chapter runs."""
    return ASSETS


def summary(name: str) -> dict[str, Any]:
    """The committed results NAME.json of `benchmarks/results`; {} if there are none."""
    for folder in RESULTS:
        file = folder / f"{name}.json"
        if file.exists():
            return json.loads(file.read_text(encoding="utf-8"))
    return {}


def book() -> str:
    """The text of Alice's Adventures in Wonderland; see the README beside it."""
    return (ASSETS / "alice.txt").read_text(encoding="utf-8")


def setup() -> None:
    """Draw in the project's style, and multiply matrices on one thread.

    A chapter's matrices are small. Shared among many threads their products take
    longer, and their last digits depend on the machine.
    """
    import matplotlib.style
    from matplotlib.rcsetup import cycler
    from threadpoolctl import threadpool_limits

    from ..results.figures.style import COLOURS, STYLE

    readable = {
        "figure.dpi": 96,
        "figure.constrained_layout.use": True,
        "text.parse_math": True,
        "axes.prop_cycle": cycler(color=COLOURS),
    }
    matplotlib.style.use([STYLE, readable])
    threadpool_limits(limits=1, user_api="blas")
    if sys.platform == "emscripten":
        np.bincount = _wide(np.bincount)  # type: ignore[assignment]


def _wide(bincount: Callable[..., Any]) -> Callable[..., Any]:
    """`bincount` for integers of 64 bits as well, where the machine's own have 32."""

    @functools.wraps(bincount)
    def counted(x: Any, *more: Any, **named: Any) -> Any:
        wide = getattr(x, "dtype", None) == np.int64
        return bincount(x.astype(np.intp) if wide else x, *more, **named)

    return counted


class show:
    """The text of functions, classes or methods as it stands in the package.

    At the end of a cell the notebook displays it. `docstring=False` leaves the
    docstrings out; comments stay.
    """

    def __init__(self, *objects: Shown, docstring: bool = True) -> None:
        self.sources = [(_place(each), _text(each, docstring)) for each in objects]

    def __repr__(self) -> str:
        return "\n\n".join(f"# {place}\n{text}" for place, text in self.sources)

    def _repr_markdown_(self) -> str:
        return "\n\n".join(
            f"`{place}`\n\n```python\n{text}\n```" for place, text in self.sources
        )


def _place(each: Shown) -> str:
    """The file of something, as the repository names it.

    A file from outside, a task of your own or a notebook's cell, goes by its name.
    """
    file = Path(inspect.getfile(inspect.unwrap(each))).resolve()  # type: ignore[arg-type]
    if file.is_relative_to(ROOT):
        return file.relative_to(ROOT).as_posix()
    return file.name


def _text(each: Shown, docstring: bool) -> str:
    text = textwrap.dedent(inspect.getsource(each)).rstrip()
    if docstring:
        return text
    lines = text.splitlines()
    docstrings = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)
    ]
    # From the last, so that the line numbers of the others stay right.
    for string in sorted(docstrings, key=lambda string: -string.lineno):
        after = string.end_lineno or string.lineno
        while after < len(lines) and not lines[after].strip():
            after += 1
        del lines[string.lineno - 1 : after]
    return "\n".join(lines)


# --- A clock, and what a tape holds ---------------------------------------------------


def least(rounds: int, **functions: Callable[[], Any]) -> dict[str, float]:
    """The least seconds that each function takes, in turns: a disturbance only adds."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(fast(rounds, 2)):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: min(each) for name, each in times.items()}


def held(tape: Tape) -> int:
    """Bytes of all arrays that a tape keeps for backward, parameters too, each once."""
    arrays = {}
    for *_, saved, _ in tape.entries:
        for array in saved:
            while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
                array = array.base  # a view keeps the whole array
            if isinstance(array, np.ndarray):
                arrays[id(array)] = array.nbytes
    return sum(arrays.values())
