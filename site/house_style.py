"""Turns the project's docstrings into reStructuredText for autodoc and napoleon.

The docstrings are plain text, to be read beside the code: paragraphs with `code` in
them; sections such as "Args:", which napoleon reads; and indented blocks, such as
tables and equations, which are shown as they are.
"""

from __future__ import annotations

import ast
import html
import inspect
import re
import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from formulas import FORMULAS

WIDE = 760  # pixels; a picture with more cannot be read when shrunk to a phone
FLAG = r"(?<![\w`.-])--[a-z][\w.-]*\w"  # --data.kind
# every second part of a split is code, emphasis or a flag
MARKED = re.compile(rf"(`[^`]+`|\*\w(?:[^*]*\w)?[.?]?\*|{FLAG})")
SECTION = re.compile(r"(Args|Raises|Returns|Yields|Attributes):$")
WORD = re.compile(r"\S+")
PROGRAMS = r"python\d?|py|pip|uv|make|git|tinyrmc|mpiexec|\.venv/\S+"
COMMAND = re.compile(rf"^(?:\w+=\S* )*(?:{PROGRAMS}) [\w.'-]", re.MULTILINE)
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


# --- Docstrings -----------------------------------------------------------------------


def rst(text: str) -> list[str]:
    """The lines of a docstring, dedented, as reStructuredText."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n(?! )", text.strip("\n").rstrip()):
        section = False  # whether what is indented belongs to napoleon
        for indented, run in groupby(paragraph.splitlines(), _indented):
            block = [*run]
            if not indented:
                section = bool(SECTION.match(block[-1]))
                lines += map(_inline, block)
            elif section:
                lines += map(_inline, block)
            else:
                lines += ["", *_code(textwrap.dedent("\n".join(block)).strip("\n")), ""]
        lines.append("")
    return lines


def _indented(line):
    return not line or line[0] == " "


def _inline(text):
    """A line of running text: code in double backticks, and everything escaped that
    reStructuredText would take for markup.
    """
    parts = MARKED.split(text)
    for k, part in enumerate(parts):
        if k % 2 == 0:
            parts[k] = re.sub(r"([\\*|`]|_(?=\W|$))", r"\\\1", part)
        elif part[0] in "`-":
            parts[k] = f"``{part.strip('`')}``"
        if k % 2 and re.match(r"[\w=]", parts[k + 1]):
            parts[k] += "\\ "  # as in `x`s
    return "".join(parts)


def _code(text):
    try:
        ast.parse(text)
        language = "python"
    except SyntaxError:
        language = "text"
    return [
        f".. code-block:: {language}",
        "",
        *textwrap.indent(text, "   ").splitlines(),
    ]


def formulas(name: str) -> list[str]:
    r"""The equations of `name`.

    Equations of one line, with \qquad between them, move below each other on a phone.
    """
    lines = []
    for formula in FORMULAS.get(name, ()):
        parts = formula.split(r" \qquad ")
        if len(parts) == 1:
            lines += [".. math::", "", f"   {formula}", ""]
        else:
            row = " ".join(rf":math:`\displaystyle {part}`" for part in parts)
            lines += [".. container:: equations", "", f"   {row}", ""]
    return lines


# --- What Sphinx calls ----------------------------------------------------------------


def _process(app, what, name, object, options, lines):
    """Change the lines of a docstring in place. Its equations follow the first
    paragraph.
    """
    made = rst("\n".join(lines))
    after = made.index("") + 1 if made else 0
    lines[:] = [*made[:after], *formulas(name), *made[after:]]


def _name_aliases(app, what, name, object, options, signature, returns):
    """An alias inside a larger type by its name alone: Sphinx puts a class of its own
    around it.
    """
    return tuple(text and ALIAS.sub(r"\1", text) for text in (signature, returns))


def documented(primitive):
    """A function that stands for a primitive, which autodoc would take for a constant.
    Its signature is that of the call.
    """

    def call(*arguments, **static):
        return primitive(*arguments, **static)

    stand_in: Any = call
    stand_in.__name__ = stand_in.__qualname__ = primitive.name
    stand_in.__doc__ = primitive.forward.__doc__
    stand_in.__module__ = primitive.__module__
    stand_in.__wrapped__ = primitive.forward  # whose source is shown
    # with names alone after the arrays, as in the source, where Sphinx reads defaults
    rule = inspect.signature(primitive.forward)
    stand_in.__signature__ = rule.replace(parameters=[*rule.parameters.values()][1:])
    return stand_in


LITERAL = nodes.literal | nodes.literal_block | nodes.math | nodes.math_block


def _keep_together(app, doctree):
    """No line ends between a number and its per cent sign."""
    for text in list(doctree.findall(nodes.Text)):
        if " %" in text and not isinstance(text.parent, LITERAL):
            joined = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)
            text.parent.replace(text, nodes.Text(joined))


def _set_commands(app, doctree):
    """Commands wrap where they are too long, with a hanging indent and never inside a
    flag: each line becomes a span, and each word in it an element (see tinyrmc.css).
    """
    for block in list(doctree.findall(nodes.literal_block)):
        if COMMAND.search(text := block.astext()):
            block.parent.replace(block, nodes.raw("", commands(text), format="html"))


def commands(text: str) -> str:
    """A block of commands as HTML. What follows a # is a comment."""
    lines = []
    for line in text.splitlines():
        parts = re.split(r"((?:^|(?<= ))#.*)", line, maxsplit=1)
        code, comment = (WORD.sub(_word, part) for part in [*parts, ""][:2])
        lines.append(f'<span>{code}<span class="c1">{comment}</span></span>')
    pre = f'<div class="highlight"><pre>{"".join(lines)}</pre></div>'
    return f'<div class="highlight-text commands notranslate">{pre}</div>'


def _word(match):
    return f"<b>{html.escape(match[0])}</b>"


def _mark_wide(app, doctree, docname):
    """Pictures of many pixels get a box of the class `wide`, which scrolls on a phone:
    shrunk to its width they could not be read.
    """
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if path.suffix != ".png" or _png_width(path) <= WIDE:
            continue
        boxed = image.parent if isinstance(image.parent, nodes.paragraph) else image
        parent, place = boxed.parent, boxed.parent.index(boxed)
        parent[place] = nodes.container("", boxed, classes=["wide"])


def _png_width(path):
    return int.from_bytes(path.read_bytes()[16:20], "big")


def _offer_notebooks(app, pagename, templatename, context, doctree):
    """Only chapters have the download button: the sources of other pages are of no use
    by themselves.
    """
    if doctree is not None and app.env.doc2path(pagename).suffix == ".ipynb":
        return
    buttons = context.get("header_buttons", [])
    buttons[:] = [each for each in buttons if each.get("label") != "download-buttons"]


def setup(app):
    """Sphinx's entry point."""
    from tinyrmc.autograd.engine import TABLE

    for name, primitive in TABLE.items():
        setattr(inspect.getmodule(primitive.forward), name, documented(primitive))
    app.connect("autodoc-process-docstring", _process, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", _name_aliases)
    app.connect("doctree-read", _keep_together)
    app.connect("doctree-read", _set_commands)
    app.connect("doctree-resolved", _mark_wide)
    # after the theme has made its buttons
    app.connect("html-page-context", _offer_notebooks, priority=900)
    return {"parallel_read_safe": True}
