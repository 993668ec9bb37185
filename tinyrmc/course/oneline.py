"""Whether an answer is one line of array code, as a puzzle demands."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection
from typing import Any

from .compare import Wrong

LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BRANCHES = (ast.IfExp, ast.BoolOp)
# What may stand in brackets; a list would be an array
PLACES = (ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub, ast.Load)
Function = ast.FunctionDef | ast.Lambda


def check_one_line(answer: Callable[..., Any], words: Collection[str]) -> None:
    """Raise `Wrong` unless the text of `answer` is one `return`, without a loop.

    It may name its arguments and `words`, which count for functions, modules and
    attributes alike. It may look into an array with numbers, None and slices of
    numbers, but not with another array, which would be a loop in disguise.
    """
    function = _function(answer)
    line = _line(function)
    known = {each.arg for each in function.args.args} | {*words}
    for node in ast.walk(line):
        if isinstance(node, LOOPS):
            raise Wrong("it loops: a comprehension is a loop as well")
        if isinstance(node, BRANCHES):
            raise Wrong("it branches, with if, and or or: write np.where, & or |")
        if isinstance(node, (ast.List, ast.Set, ast.Dict)):
            raise Wrong("it makes a list, a set or a dict: a puzzle has arrays alone")
        if isinstance(node, (ast.Lambda, ast.NamedExpr)):
            raise Wrong("it gives a name to a step: one expression is all you have")
    for node in ast.walk(line):
        name = getattr(node, "id", None) or getattr(node, "attr", None)
        if name and name not in known:
            says = f"it uses {name}; a puzzle allows {', '.join(sorted(words))}"
            says += " and operators"
            if inspect.isfunction(getattr(answer, "__globals__", {}).get(name)):
                says += f"; copy the line of your {name} into this one"
            raise Wrong(says)
        if isinstance(node, ast.Subscript) and not all(
            isinstance(each, PLACES) for each in ast.walk(node.slice)
        ):
            raise Wrong(
                f"it looks up entries, in [{ast.unparse(node.slice)}]: numbers, None "
                "and slices of numbers may stand there, and nothing else"
            )


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
    for statement in body:
        if isinstance(statement, (ast.For, ast.While)):
            raise Wrong(f"it loops, in line {statement.lineno} of the function")
    if len(body) != 1 or not isinstance(body[0], ast.Return) or body[0].value is None:
        raise Wrong("it takes more than one line: `return` and an expression is all")
    return body[0].value
