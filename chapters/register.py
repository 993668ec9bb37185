"""The register of conclusions: sentences of the chapters, each with what tests it.

    python chapters/register.py            measures all again
    python chapters/register.py 09 12      those of these chapters
    python chapters/register.py --new      those that changed since they were measured

A sentence that says what learns, what does not, which is better, what a memory holds or
how far it looks is a claim. chapters/claims/NN.py holds those of a chapter:

    chapter = Chapter("09", "keep_a_bit")

    @claim(lambda n: ahead(n, "bias 0", "bias 3"))
    def the_bias_matters():
        '''With a bias of 3 the loss ends at {bias 3:.2f}, with 0 at {bias 0:.2f}.'''
        return {
            f"bias {b}": [chapter.keep_a_bit(b, seed=seed)[-1] for seed in range(5)]
            for b in (0, 3)
        }

The docstring is the sentence as the chapter has it, with its numbers; a blank line
stands between several. The function measures: a name, and a number for each seed. (A
name has no dot in it.) The condition says of the numbers whether the sentence holds.
"Does not learn" takes three `rates`, "better" three seeds and to be `ahead`, "holds" an
untrained or shuffled control, "new examples" that none are `shared`.

The numbers go to chapters/claims/NN.json. The chapter shows them, if it likes, with
`course.measured(9, "the_bias_matters")`. Tests hold the sentences, the chapter and the
file together; only what changes a claim's code, or the chapter's code that it calls,
asks for a new measurement.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import functools
import hashlib
import importlib.util
import inspect
import io
import json
import multiprocessing
import os
import re
import symtable
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tinyrmc.course.evidence import Measured, by_chance

__all__ = ["Chapter", "ahead", "by_chance", "claim", "even", "rates", "shared"]

HERE = Path(__file__).resolve().parent
CLAIMS = HERE / "claims"
Claim = Callable[[], dict[str, Any]]


# --- What claims are made of ----------------------------------------------------------


def claim(
    holds: Callable[[Measured], Any], show: str = ".2f"
) -> Callable[[Claim], Claim]:
    """Enter a function as a claim: `holds(numbers)` says whether its sentence stands,
    `show` how its numbers are written.
    """

    def enter(function: Claim) -> Claim:
        function.holds, function.show = holds, show  # type: ignore[attr-defined]
        return function

    return enter


def ahead(numbers: Measured, more: str, *less: str, level: float = 0.05) -> bool:
    """Whether `more` lies further above each of the `less` than chance explains."""
    return all(by_chance(numbers[more], numbers[each]) <= level for each in less)


def even(numbers: Measured, one: str, other: str) -> bool:
    """Whether chance may explain which of the two is ahead."""
    return not ahead(numbers, one, other) and not ahead(numbers, other, one)


def rates(rate: float) -> tuple[float, float, float]:
    """A learning rate between two others, each a factor of three away."""
    return rate / 3, rate, 3 * rate


def shared(seen: np.ndarray, new: np.ndarray) -> int:
    """How many of the examples `new` (n, ...) are among those `seen` (m, ...)."""
    known = {np.ascontiguousarray(each).tobytes() for each in seen}
    return sum(np.ascontiguousarray(each).tobytes() in known for each in new)


class Chapter:
    """Some names of a chapter's source, as attributes, without running the rest of it.

    Statements that define them, and what those need that stands above, are executed
    when the first is asked for. Exercises are solved by the course. What a loop fills
    is not found: name a function instead.
    """

    def __init__(self, number: str, names: str) -> None:
        (source,) = (HERE / "source").glob(f"{number}_*.py")
        self._code = needed(source.read_text(encoding="utf-8"), *names.split())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(self._code, vars(self))
        if name not in vars(self):
            raise AttributeError(f"{name} is not among the names asked for")
        return vars(self)[name]


@functools.cache  # files of claims are loaded often
def needed(text: str, *names: str) -> str:
    """The statements of `text` that define `names`, with those above that they need."""
    wanted, kept = {*names}, []
    for statement in reversed(ast.parse(text).body):
        if _defined(statement) & wanted:
            code = ast.unparse(statement)
            kept.insert(0, code)
            # in a function, for a module holds what its comprehensions call their own
            # from Python 3.12 on
            inside = "def _():\n" + textwrap.indent(code, " ")
            wanted |= _used(symtable.symtable(inside, "chapter", "exec"))
    return "\n".join(kept)


def _defined(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {each.asname or each.name for each in statement.names}
        case ast.Assign():
            parts = [part for each in statement.targets for part in ast.walk(each)]
            return {part.id for part in parts if isinstance(part, ast.Name)}
        case ast.AugAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _used(table: symtable.SymbolTable) -> set[str]:
    """The names that a piece of code takes from outside."""
    symbols = table.get_symbols() if table.get_type() != "module" else []
    names = {each.get_name() for each in symbols if each.is_global()}
    return names.union(*map(_used, table.get_children()))


# --- Reading the register -------------------------------------------------------------


def chapters(names: Sequence[str] = ()) -> list[Path]:
    """The files of claims, or those of these chapters."""
    found = sorted(CLAIMS.glob("[0-9][0-9].py"))
    if unknown := {*names} - {path.stem for path in found}:
        there = " ".join(path.stem for path in found)
        raise ValueError(f"no claims for {', '.join(sorted(unknown))}; for {there}")
    return [path for path in found if not names or path.stem in names]


def load(path: Path) -> tuple[ModuleType, dict[str, Claim]]:
    """A file of claims, and its claims by name."""
    spec = importlib.util.spec_from_file_location(f"claims_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    claims = {k: v for k, v in vars(module).items() if hasattr(v, "holds")}
    return module, claims


def digest(path: Path, name: str) -> str:
    """A fingerprint of the code that measures: the claim's, what it uses of the file,
    what it calls of chapters. Docstrings, conditions and comments do not count, nor how
    much of it a browser does.
    """
    module, kept = load(path)[0], []
    used = needed(path.read_text(encoding="utf-8"), name)
    for each in ast.parse(used).body:
        if isinstance(each, ast.FunctionDef) and each.name == name:
            each.decorator_list = []
        if not isinstance(each, ast.ImportFrom):
            kept.append(ast.unparse(each))
    for known, each in vars(module).items():
        if isinstance(each, Chapter) and f"{known} = Chapter(" in used:
            kept.append(each._code)
    tree = ast.parse("\n".join(kept))
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "course.fast":
            del each.args[2:]
        if isinstance(each, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(each):
            each.body = each.body[1:] or [ast.Pass()]
    text = "\n".join(map(ast.unparse, tree.body))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def stored(path: Path) -> dict[str, Any]:
    """Read the numbers that were measured for a chapter's claims."""
    file = path.with_suffix(".json")
    if not file.exists():
        return {"claims": {}}
    return json.loads(file.read_text(encoding="utf-8"))


def sentences(function: Claim, numbers: Measured) -> list[str]:
    """The claim's sentences with their numbers, each on one line."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return [" ".join(each.format_map(numbers).split()) for each in paragraphs]


def text_of(number: str) -> str:
    """A chapter's text on one line, comments of its code among it."""
    (source,) = (HERE / "source").glob(f"{number}_*.py")
    lines = source.read_text(encoding="utf-8").splitlines()
    return " ".join(" ".join(line.removeprefix("#") for line in lines).split())


# --- Measuring ------------------------------------------------------------------------


def measure(path: Path, name: str) -> dict[str, Any]:
    """Run a claim's experiment: its numbers, and what it took."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1, user_api="blas")
    os.environ["TINYRMC_PROGRESS"] = ""  # the course's own solutions, no learner's
    os.environ.pop("TINYRMC_FAST", None)
    function, code = load(path)[1][name], digest(path, name)
    began = time.process_time()
    found = {k: np.ravel(v).tolist() for k, v in function().items()}
    return {
        "code": code,
        "show": function.show,  # type: ignore[attr-defined]
        "seconds": round(time.process_time() - began),
        "numbers": {k: [float(f"{x:.4g}") for x in v] for k, v in found.items()},
    }


def enter(path: Path, name: str, found: dict[str, Any]) -> bool:
    """Write what was found into the chapter's file, and say whether the claim holds."""
    from tinyrmc.training.machine import environment

    claims, known, here = load(path)[1], stored(path), environment("")
    known["measured on"] = f"{here['processor']}, NumPy {here['numpy']}"
    before = known["claims"].get(name, {})
    if found | {"seconds": before.get("seconds")} == before:
        found = before  # a second more or less is no news
    known["claims"][name] = found
    known["claims"] = {k: v for k in claims if (v := known["claims"].get(k))}
    words = json.dumps(known, indent=1)  # with the seeds on one line
    words = re.sub(r"\[[^\]]*\]", lambda found: " ".join(found[0].split()), words)
    path.with_suffix(".json").write_text(words + "\n", encoding="utf-8")

    numbers = Measured(found["numbers"], found["show"])
    holds = bool(claims[name].holds(numbers))  # type: ignore[attr-defined]
    verdict = "holds" if holds else "does NOT hold"
    print(f"\n{path.stem} {name} {verdict}, {found['seconds']} s\n{numbers}")
    text = text_of(path.stem)
    for sentence in sentences(claims[name], numbers):
        if sentence not in text:
            print(f"The chapter should say: {sentence}")
    return holds


def main(words: Sequence[str] | None = None) -> int:
    """The command line; exit code 1 where a sentence does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chapters", nargs="*", metavar="NN", help="default: all")
    parser.add_argument(
        "--new", action="store_true", help="those not measured as they stand now"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    options = parser.parse_args(words)
    try:
        files = chapters(options.chapters)
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    work = []
    for path in files:
        known = stored(path)["claims"]
        for name in load(path)[1]:
            before = known.get(name, {"code": "", "seconds": 1e9})
            if not (options.new and before["code"] == digest(path, name)):
                work.append((-before["seconds"], path, name))  # the longest first
    spawn, failed = multiprocessing.get_context("spawn"), []
    with concurrent.futures.ProcessPoolExecutor(options.workers, spawn) as pool:
        running = {pool.submit(measure, *each): each for _, *each in sorted(work)}
        for done in concurrent.futures.as_completed(running):
            path, name = running[done]
            if problem := done.exception():
                print(f"\n{path.stem} {name}", *traceback.format_exception(problem))
            if problem or not enter(path, name, done.result()):
                failed.append(f"{path.stem} {name}")
    print(f"\n{len(work) - len(failed)} of {len(work)} hold", *failed, sep="\n  ")
    return int(bool(failed))


if __name__ == "__main__":
    import register  # files of claims import this module, and not `__main__`

    sys.exit(register.main())
