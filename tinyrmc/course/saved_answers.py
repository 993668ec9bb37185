"""The functions and classes that you wrote, saved from one chapter to the next.

A chapter runs by itself, so what you wrote in another one is gone when it begins. That
is why `check` saves the text of every right answer, a file for each, beside your
progress, and above it the text of what it calls: your helpers, imports and numbers.
`answer` makes a function of such a text again. Nothing is sent anywhere, and with
TINYRMC_PROGRESS set to nothing, nothing is saved.
"""

from __future__ import annotations

import ast
import builtins
import dis
import importlib
import linecache
import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..backend.files import replace
from . import record
from .limits import OTHERS

Function = Callable[..., Any]
GIVEN = {"np": np, "math": math}  # what every answer may use


class NotSaved(Exception):
    """An answer cannot be saved; the text says why."""


def _file(name: str) -> Path | None:
    """The file for the text of "chapter.exercise"; None where nothing is saved."""
    beside = record.file()
    return beside and beside.parent / "answers" / f"{name}.py"


def save(chapter: str, name: str, function: Function) -> str:
    """Save the text of a right answer. The reason where that cannot be, or ""."""
    file = _file(f"{chapter}.{name}")
    if file is None:
        return ""
    try:
        module = importlib.import_module(f"tinyrmc.course.exercises.{chapter}")
        # exercises of the chapter are there when an answer is read
        known = {key for key, each in vars(module).items() if hasattr(each, "judge")}
        own = function.__name__ if function.__name__.isidentifier() else name
        texts: dict[str, str] = {}
        _collect(function, own, known - {own}, texts)
        text = "\n\n\n".join(texts.values()) + "\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        replace(file, text)
    except NotSaved as problem:
        return str(problem)
    except OSError:  # `record` has said so
        return ""
    return ""


def answer(chapter: str, name: str, **known: Any) -> Function | None:
    """Your function or class for an exercise; None if none is saved.

    Its text may use np, math and what is `known`. With any other name it raises
    NameError when it is called.
    """
    files = map(_file, record.names(chapter, name))
    file = next((each for each in files if each and each.exists()), None)
    if file is None:
        return None
    place = f"<your {name}>"
    names: dict[str, Any] = {**GIVEN, **known}
    try:
        text = file.read_text(encoding="utf-8")
        linecache.cache[place] = len(text), None, text.splitlines(True), place
        exec(compile(text, place, "exec"), names)
        last = ast.parse(text).body[-1]
    except Exception:
        return None
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        found = names[last.targets[0].id]
    else:
        found = names.get(getattr(last, "name", ""))
    return found if callable(found) else None


# --- The text of an answer ------------------------------------------------------------


def _collect(value: Any, name: str, known: set[str], texts: dict[str, str]) -> None:
    """Put the text of `value` into `texts`, after that of what it calls."""
    codes, text = _codes(value), _text(value, name)
    if any(code.co_freevars for code in codes if code.co_name != "__class__"):
        free = ", ".join(codes[0].co_freevars)
        if free and free != "__class__":
            raise NotSaved(f"it uses {free} of a function around it")
    texts[name] = ""  # it may call itself
    parts = (value, *vars(value).values())  # a class itself has none
    around = next((f.__globals__ for f in parts if isinstance(f, FunctionType)), {})
    for used in sorted(_names(codes, text)):
        if used in texts or used in GIVEN or used not in around or used in known:
            continue
        texts_of = around[used]
        if hasattr(builtins, used) and getattr(builtins, used) is texts_of:
            continue
        if line := _imported(texts_of, used):
            texts[used] = line
        elif _is_theirs(texts_of):
            _collect(texts_of, used, known, texts)
        elif (literal := _literal(texts_of)) is not None:
            texts[used] = f"{used} = {literal}"
        elif not type(texts_of).__module__.startswith("tinyrmc."):
            kind = type(texts_of).__name__
            raise NotSaved(f"it uses {used} ({kind}), which is not a function of yours")
    del texts[name]
    texts[name] = text


def _codes(value: Any) -> list[CodeType]:
    parts = vars(value).values() if isinstance(value, type) else [value]
    codes = [getattr(each, "__code__", None) for each in parts]
    return [code for code in codes if code is not None]


def _names(codes: list[CodeType], text: str) -> set[str]:
    """Global names that the codes load, and those in the heads of definitions."""
    found: set[str] = set()
    for code in codes:
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                found.add(step.argval)
        found |= _names([c for c in code.co_consts if isinstance(c, CodeType)], "")
    for node in ast.walk(ast.parse(text)) if text else ():
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            heads: list[Any] = [*node.decorator_list]
            heads += node.bases if isinstance(node, ast.ClassDef) else [node.args]
            for head in heads:
                inside = ast.walk(head)
                found |= {each.id for each in inside if isinstance(each, ast.Name)}
    return found


def _imported(value: Any, name: str) -> str:
    """The line that imports `value` under this name; "" where there is none."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    if hasattr(value, "judge"):  # an exercise of another chapter
        place = f"tinyrmc.course.exercises.{value.chapter}"
        return f"from {place} import {value.name} as {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not module or not own or module == "__main__" or _is_theirs(value):
        return ""
    try:
        there = getattr(importlib.import_module(module), own, None)
    except ImportError:
        return ""
    return f"from {module} import {own} as {name}" if there is value else ""


def _is_theirs(value: Any) -> bool:
    """Whether a function or class was written by the learner."""
    codes = _codes(value) if isinstance(value, (FunctionType, type)) else []
    return bool(codes) and not codes[0].co_filename.startswith(OTHERS)


def _literal(value: Any) -> str | None:
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError, TypeError):
        return None


def _text(value: Any, name: str) -> str:
    """The definition of a function, class or lambda, in its own words."""
    if not isinstance(value, (FunctionType, type)) or not (codes := _codes(value)):
        raise NotSaved(f"it is not a function or class of yours, but {value!r}")
    code = codes[0]
    lines = linecache.getlines(code.co_filename)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        tree = ast.Module([], [])
    found = [each for each in ast.walk(tree) if _is_text_of(each, value, code)]
    if not found:
        raise NotSaved("its text is not there to be read")
    node: Any = found[-1]
    if isinstance(node, ast.Lambda):
        if len(found) > 1:
            raise NotSaved("there are several lambdas in its line")
        return f"{name} = {ast.unparse(node)}"
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return textwrap.dedent("".join(lines[first - 1 : node.end_lineno])).rstrip()


def _is_text_of(node: Any, value: Any, code: CodeType) -> bool:
    if isinstance(value, type):
        if not isinstance(node, ast.ClassDef) or node.name != value.__name__:
            return False
        return node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
    if code.co_name == "<lambda>":
        return isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    if not isinstance(node, ast.FunctionDef) or node.name != code.co_name:
        return False
    firsts = [node.lineno, *(each.lineno for each in node.decorator_list)]
    return code.co_firstlineno in firsts
