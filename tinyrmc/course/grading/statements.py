"""The answers in a notebook, without running the notebook.

A chapter trains networks; an answer needs none of that. So of all statements at the top
level of its cells only those run that give an answer the names it uses: definitions,
imports, numbers. What `check` or `yours` is called with is an answer; so is a function
or class with the name of an exercise, where a learner has deleted that line.
"""

from __future__ import annotations

import ast
import dis
import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from ..saved_answers import GIVEN

MAGIC = re.compile(r"^([ \t]*)[%!?].*$", re.MULTILINE)


class Unreadable(Exception):
    """An answer's cell is no Python, or what it needs fails; the text says which."""


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell."""

    node: ast.stmt
    place: str
    """stands for a file's name in tracebacks"""
    binds: frozenset[str]
    uses: frozenset[str]


class Notebook:
    """The statements of a notebook's cells, in order."""

    def __init__(self, cells: list[str], name: str):
        self.statements: list[Statement] = []
        self.broken: dict[str, str] = {}  # name -> why the cell that defines it fails
        for number, text in enumerate(cells, 1):
            text = MAGIC.sub(r"\1pass", text)
            place = f"<{name}, cell {number}>"
            linecache.cache[place] = len(text), None, text.splitlines(True), place
            try:
                nodes = ast.parse(text).body
            except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
                line = (
                    f" (line {problem.lineno})"
                    if isinstance(problem, SyntaxError)
                    else ""
                )
                why = f"its cell is no Python: {getattr(problem, 'msg', problem)}{line}"
                names = re.findall(r"^(?:def|class)\s+(\w+)|^(\w+)\s*=", text, re.M)
                self.broken |= {a or b: why for a, b in names}
                continue
            self.statements += [Statement(n, place, *_names(n)) for n in nodes]

    def answers(self, module: str, name: str) -> list[tuple[ast.expr, int]]:
        """Expressions that are answers to an exercise, each with the number of the
        statement that it stands in; the exercise's own name first.
        """
        imports = (pair for each in self.statements for pair in _imported(each.node))
        known = {k: path for k, path in imports if path.startswith("tinyrmc.course")}
        found = {}
        for k, statement in enumerate(self.statements):
            for call in ast.walk(statement.node):
                if not isinstance(call, ast.Call) or not call.args:
                    continue
                path = _dotted(call.func).split(".")
                path[:1] = known.get(path[0], path[0]).split(".")
                if path[-3:-1] == [module, name] and path[-1] in ("check", "yours"):
                    found[ast.dump(call.args[0])] = call.args[0], k
        own = ast.parse(name, mode="eval").body
        if not found and any(name in each.binds for each in self.statements):
            found[ast.dump(own)] = own, len(self.statements)
        return sorted(found.values(), key=lambda each: _dotted(each[0]) != name)

    def value(self, expression: ast.expr, before: int) -> Any:
        """The value of an expression after what it needs has run; or Unreadable."""
        names: dict[str, Any] = {**GIVEN, "__name__": "__main__", "display": print}
        line = ast.fix_missing_locations(ast.Expr(expression))
        whole = Statement(line, "", *_names(line))
        failed = ""
        for k in sorted(self._needed(whole, before)):
            each = self.statements[k]
            module = ast.Module([each.node], [])
            try:
                exec(compile(module, each.place, "exec"), names)
            except Exception as problem:  # it may not be needed in the end
                text = ast.unparse(each.node).split("\n")[0][:60]
                why = f"`{text}` raises {type(problem).__name__}: {problem}"
                failed = failed or f"what it needs fails: {why}"
        code = compile(ast.Expression(expression), "<the answer>", "eval")
        try:
            return eval(code, names)
        except Exception as problem:
            says = f"it raises {type(problem).__name__}: {problem}"
            raise Unreadable(failed or says) from problem

    def _needed(self, statement: Statement, before: int) -> set[int]:
        """The numbers of the statements whose names a statement uses, and so on."""
        found: set[int] = set()
        left = [(statement, before)]
        while left:
            user, at = left.pop()
            for name in user.uses:
                k = self._binding(name, at)
                if k is None and name in self.broken:
                    raise Unreadable(self.broken[name])
                if k is not None and k not in found:
                    found.add(k)
                    each = self.statements[k]
                    # a function looks its names up when it is called; a line at once
                    late = isinstance(each.node, (ast.FunctionDef, ast.ClassDef))
                    left.append((each, before if late else k))
        return found

    def _binding(self, name: str, before: int) -> int | None:
        """The last statement before this one that gives a name its value, or the first
        one after it: cells need not be run in their order.
        """
        at = [k for k, each in enumerate(self.statements) if name in each.binds]
        earlier = [k for k in at if k < before]
        return earlier[-1] if earlier else at[0] if at else None


def _names(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """(global names that a statement binds or changes, those that it uses)."""
    binds: set[str] = set()
    uses: set[str] = set()
    try:
        left = [compile(ast.Module([node], []), "", "exec")]
    except (SyntaxError, ValueError, RecursionError):  # such as a `return` outside
        return frozenset(), frozenset()
    while left:
        code = left.pop()
        left += [each for each in code.co_consts if isinstance(each, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_NAME", "LOAD_GLOBAL"):
                uses.add(step.argval)
            elif step.opname == "STORE_GLOBAL" or (
                step.opname == "STORE_NAME" and code.co_name == "<module>"
            ):
                binds.add(step.argval)
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    for each in targets:  # x[0] = .. and x.y = .. change x
        if isinstance(each, (ast.Subscript, ast.Attribute)):
            binds.add(_dotted(each).split(".")[0])
    return frozenset(binds - {""}), frozenset(uses)


def _imported(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """(name, the dotted path that it stands for) of what a statement imports."""
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            for alias in each.names:
                head = alias.name.split(".")[0]
                yield alias.asname or head, alias.name if alias.asname else head
        elif isinstance(each, ast.ImportFrom):
            for alias in each.names:
                yield alias.asname or alias.name, f"{each.module}.{alias.name}"


def _dotted(node: ast.AST) -> str:
    """a.b.c of an expression, as a text; of x[0].b it is x.b, of others ""."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Subscript):
        return _dotted(node.value)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""
