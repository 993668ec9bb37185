"""Checks that ruff lacks: the length of functions, and columns outside Python."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, LINES = 88, 80

CODE = sorted(
    path
    for folder in ("tinyrmc", "tasks", "benchmarks", "site", "chapters")
    for path in (ROOT / folder).rglob("*.py")
    if "source" not in path.parts and "_build" not in path.parts
)
TEXTS = """
Makefile pyproject.toml .ci/run README.md CONTRIBUTING.md CHANGELOG.md
CODE_OF_CONDUCT.md benchmarks/README.md chapters/README.md tasks/README.md
tasks/research.md
tinyrmc/README.md tinyrmc/course/assets/README.md site/static/tinyrmc.css
""".split()
CHAPTERS = sorted((ROOT / "chapters" / "source").glob("*.py"))

REASON = re.compile(r"\b(Long because|length of this)\b")
# what must be one line: a cell's head with its alternative text, a table's row, an
# equation, a picture or a link with nothing beside it, a command that ends in an
# address or a folder
UNBREAKABLE = re.compile(
    r"# %%|(# )?(\||\$\$|!?\[)|.*\]\([^)]*\)\S*$|.*://\S+$|cd \S+$"
)


def functions(source):
    """(name, lines without the docstring, docstring) of all functions of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines, text = node.end_lineno - node.lineno + 1, ast.get_docstring(node)
            if text is not None:
                lines -= node.body[0].end_lineno - node.body[0].lineno + 1
            yield node.name, lines, text or ""


def too_long(source):
    """Functions of over 80 lines whose docstring gives no reason."""
    return [
        f"{name}: {lines} lines"
        for name, lines, text in functions(source)
        if lines > LINES and not REASON.search(text)
    ]


def too_wide(text):
    """The numbers of lines of over 88 columns that could be broken."""
    return [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > COLUMNS and not UNBREAKABLE.match(line)
    ]


def test_a_long_function_says_why_it_is_long():
    long = {str(path): too_long(path.read_text(encoding="utf-8")) for path in CODE}
    assert {path: names for path, names in long.items() if names} == {}


def test_chapters_and_texts_have_88_columns():
    paths = [*CHAPTERS, *(ROOT / name for name in TEXTS)]
    wide = {str(path): too_wide(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: lines for path, lines in wide.items() if lines} == {}
