"""Whether an answer is one line of array code, as a puzzle demands."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from .compare import Wrong

ALLOWED = (
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Attribute),
    *(ast.Subscript, ast.Slice, ast.Name, ast.Constant),
    *(ast.operator, ast.unaryop, ast.cmpop, ast.expr_context),
)
# What may stand in brackets; a list would be an array
PLACES = (ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub, ast.Load)
Function = ast.FunctionDef | ast.Lambda


def one_line(answer: Callable[..., Any], words: Collection[str]) -> Callable[..., Any]:
    """The line of `answer`, alone with its arguments and NumPy's names.

    Raises `Wrong` unless the text of `answer` is one `return` of an expression.

    It may name its arguments and `words`, which count for functions, modules and
    attributes alike. It may look into an array with numbers, None and slices of
    numbers, but not with another array, which would be a loop in disguise. (A default,
    a decorator or a name of its own is not in the line alone, which then fails.)
    """
    function = _function(answer)
    line = _line(function)
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    known = {*names, *words}
    places = [node.slice for node in ast.walk(line) if isinstance(node, ast.Subscript)]
    for node in ast.walk(line):
        if not isinstance(node, ALLOWED) and node not in places:
            raise Wrong(
                f"it has `{ast.unparse(node)}`: no list, tuple, comprehension, branch "
                "or name may stand there; np.where, & and | decide entry by entry"
            )
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        if name and name not in known:
            says = f"it uses {name}; a puzzle allows {', '.join(sorted(words))}"
            says += " and operators"
            earlier = getattr(answer, "__globals__", {}).get(name)
            if inspect.isfunction(earlier) and earlier is not answer:
                says += f"; copy the line of your {name} into this one"
            raise Wrong(says)
    for place in places:
        if not all(isinstance(each, PLACES) for each in ast.walk(place)):
            raise Wrong(
                f"it looks up entries, in [{ast.unparse(place)}]: numbers, None "
                "and slices of numbers may stand there, and nothing else"
            )
    text = f"lambda {', '.join(names)}: {ast.unparse(line)}"
    return eval(text, {**vars(np), "np": np, "__builtins__": {}})


def _function(answer: Callable[..., Any]) -> Function:
    """The syntax tree of an answer."""
    try:
        text = inspect.getsource(answer).replace("np.newaxis", "None")
        tree = ast.parse(textwrap.dedent(text))
    except (OSError, TypeError, SyntaxError):
        found: list[Function] = []
    else:
        every = [node for node in ast.walk(tree) if isinstance(node, Function)]
        named = [node for node in every if isinstance(node, ast.FunctionDef)]
        found = [*named[:1]] or every
    if len(found) != 1:
        raise Wrong(
            "its text cannot be read: write it in a cell of its own, beginning with def"
        )
    return found[0]


def _line(function: Function) -> ast.expr:
    """The expression that a function returns, if it does nothing else."""
    if isinstance(function, ast.Lambda):
        return function.body
    body = function.body[ast.get_docstring(function) is not None :]
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        raise Wrong("it takes more than one line: `return` and an expression is all")
    return body[0].value
