"""The process in which one learner's answers run.

It reads a job from standard input and writes a line for each exercise, as JSON: first
that it begins, then what is asked for. `results` is what the answers return; there the
solution of the exercise is locked. `words` is what `check` says. What the answers print
goes nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any


def main() -> None:
    """Run the job. The fence closes before any line of the learner's runs."""
    from . import fence

    job = json.load(sys.stdin)
    tell = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        os.dup2(nowhere, handle)
    folder = Path.cwd()
    held = fence.close(folder, job["seconds"])
    answers = folder / "progress" / "answers"
    answers.mkdir(parents=True)
    for name, text in job["kept"].items():
        (answers / name).write_text(text, encoding="utf-8")

    def say(**words: Any) -> None:
        tell.write(json.dumps(words) + "\n")
        tell.flush()

    say(held=held)
    from .statements import Notebook

    books = [Notebook(cells, name) for name, cells in job["notebooks"]]
    ask = {"results": results_of, "words": words_of}[job["asked"]]
    for k, (book, module, name, seed) in enumerate(job["tasks"]):
        say(begin=k)
        say(end=k, **ask(books[book], module, name, seed))


def answers(book: Any, module: str, name: str) -> Iterator[tuple[Any, str]]:
    """(an answer in a notebook, why it is none)."""
    from .statements import Unreadable

    for expression, at in book.answers(module, name):
        try:
            yield book.value(expression, at), ""
        except Unreadable as problem:
            yield None, str(problem)
        except Exception as problem:
            yield None, f"it raises {type(problem).__name__}: {problem}"
    if name in book.broken:
        yield None, book.broken[name]


def words_of(book: Any, module: str, name: str, seed: int) -> dict[str, Any]:
    """The state of each answer, and the words of `check` about it."""
    from .grades import exercise_of

    exercise, said = exercise_of(module, name), []
    exercise.seed = seed
    for answer, why in answers(book, module, name):
        if why:
            said.append(("wrong", why))
        elif hasattr(exercise, "judge"):
            verdict = exercise.judge(answer)
            said.append((verdict.state, verdict.text))
        elif answer is ...:
            said.append(("not attempted", ""))
        else:  # a report, which is judged elsewhere
            said.append(("right", ""))
    return {"said": said}


def results_of(book: Any, module: str, name: str, seed: int) -> dict[str, Any]:
    """All that each answer returns."""
    from .grades import exercise_of, results, tried
    from .wire import packed

    exercise = exercise_of(module, name)
    exercise.seed = seed
    found: list[list] = []
    calls = tried(exercise)
    with locked(exercise):
        for answer, why in answers(book, module, name):
            if why:
                found.append([])
            elif hasattr(exercise, "judge"):
                found.append([packed(x) for x in results(exercise, answer, calls)])
            else:
                found.append([packed(answer)])
    return {"found": found}


def stub(*_: Any, **__: Any) -> Any:
    """Stands where a solution was, among that module's names."""
    raise PermissionError("this calls the solution, which is locked")


@contextlib.contextmanager
def locked(exercise: Any) -> Any:
    """Within, the solution has lost its code, and no call reaches it."""
    ways = [getattr(exercise, name, None) for name in ("function", "exact")]
    parts = [
        part
        for each in ways
        for part in (vars(each).values() if isinstance(each, type) else [each])
    ]
    own = [each for each in parts if isinstance(each, FunctionType)]
    codes = [each.__code__ for each in own]
    for each in own:
        names = each.__code__.co_freevars
        each.__code__ = stub.__code__.replace(co_freevars=names)
    try:
        yield
    finally:
        for each, code in zip(own, codes, strict=True):
            each.__code__ = code


if __name__ == "__main__":
    main()
