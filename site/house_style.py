"""Turns the project's docstrings into reStructuredText for autodoc.

The docstrings are plain text, to be read beside the code. They are made of paragraphs
with `code` in them and of indented blocks, each of which is one of

    items      a name or several, a colon, and what they are: what follows "Args:"
    columns    a word, two spaces or more, and what it means, as here; the text may go
               on below, indented
    a table    rows of cells between bars; the first row is the head
    code       anything else, kept as it is
"""

from __future__ import annotations

import ast
import html
import inspect
import re
import textwrap
from pathlib import Path
from typing import Any

from docutils import nodes
from formulas import FORMULAS

WIDE = 760  # pixels; a picture with more cannot be read when shrunk to a phone
ITEM = re.compile(r"([\w*.]+(?:, [\w*.]+)*): +(\S.*)")
GAP = re.compile(r" {2,}")
FLAG = r"(?<![\w`.-])--[a-z][\w.-]*\w"  # --data.kind
# x_t, sum_k, h_{i,t-1}, b^f, ]^D
INDEX = r"(?:(?<![\w`])(?:sum|prod|[A-Za-z])|\])[_^](?:\w|\{[^}]+\})(?![\w^(])"
# every second part of a split is code, emphasis or one of these
MARKED = re.compile(rf"(`[^`]+`|\*\w(?:[^*]*\w)?[.?]?\*|{FLAG}|{INDEX})")
WORD = re.compile(r"\S+")
PROGRAMS = r"python\d?|py|pip|uv|make|git|tinyrmc|mpiexec|\.venv/\S+"
COMMAND = re.compile(rf"^(?:\w+=\S* )*(?:{PROGRAMS}) [\w.'-]", re.MULTILINE)
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


# --- Docstrings -----------------------------------------------------------------------


def rst(text: str) -> list[str]:
    """The lines of a docstring, dedented, as reStructuredText."""
    lines: list[str] = []
    for block in _blocks(text):
        head = block[0]
        if head[0] != " ":
            lines += _items(block, fewest=2) or [_inline(line) for line in block]
        else:
            block = textwrap.dedent("\n".join(block)).splitlines()
            lines += _table(block) or _items(block) or _columns(block) or _code(block)
        lines.append("")
    return lines


def _blocks(text):
    """Runs of lines that are all indented or all not.

    A list of items is one run with the indented lines below its items. Code may hold
    blank lines.
    """
    found: list[list[str]] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n").rstrip()):
        lines = paragraph.splitlines()
        if lines and lines[0][0] != " " and _items(lines, fewest=2):
            found.append(lines)
            continue
        for number, line in enumerate(lines):
            same = found and (line[0] == " ") == (found[-1][0][0] == " ")
            if same and (number or line[0] == " "):
                found[-1] += [line] if number else ["", line]
            else:
                found.append([line])
    return found


def _inline(text):
    """A line of running text: code in double backticks, indices set as indices, and
    everything escaped that reStructuredText would take for markup.
    """
    parts = MARKED.split(text)
    for k, part in enumerate(parts):
        if k % 2 == 0:
            parts[k] = re.sub(r"([\\*|`]|_(?=\W|$))", r"\\\1", part)
            continue
        if part[0] in "`-":
            parts[k] = f"``{part.strip('`')}``"
        elif part[0] != "*":
            base, kind, index = re.split(r"([_^])", part, maxsplit=1)
            role = "sub" if kind == "_" else "sup"
            parts[k] = f"{base}\\ :{role}:`{index.strip('{}')}`"
        if parts[k + 1][:1].isalnum():
            parts[k] += "\\ "  # as in `x`s
    return "".join(parts)


def _entries(block):
    """[(line at the margin, the lines below that are indented)]."""
    entries = []
    for line in block:
        if line[:1] not in ("", " "):
            entries.append((line, []))
        elif entries:
            entries[-1][1].append(line)
        else:
            return []
    return entries


def _indented(lines, by="   "):
    return [f"{by}{line}" if line else "" for line in lines]


def _definitions(pairs):
    """A definition list of (term, text), texts being docstrings in turn."""
    lines = []
    for term, text in pairs:
        lines += [term, *_indented(rst(text))]
    return lines


def _below(first, rest):
    """The text of an entry: the rest of its first line, the lines below dedented."""
    indents = [len(line) - len(line.lstrip()) for line in rest if line.strip()]
    margin = min(indents, default=0)
    return "\n".join([first, *(line[margin:] for line in rest)])


def _items(block, fewest=1):
    """A block of names and what they are, as a definition list; empty if it is none."""
    entries = _entries(block)
    matched = [ITEM.fullmatch(line) for line, _ in entries]
    if len(entries) < fewest or not all(matched):
        return []
    return _definitions(
        (f"``{m[1]}``", _below(m[2], rest))
        for m, (_, rest) in zip(matched, entries, strict=True)
    )


def _columns(block):
    """A block of columns as a definition list or a table; empty if it is none."""
    entries = _entries(block)
    rows = [GAP.split(line) for line, _ in entries]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) != 1 or min(widths) < 2:
        return []
    if any(row[1].startswith("#") for row in rows):  # code with comments
        return []
    if widths == {2}:
        return _definitions(
            (_term(first), _below(text, rest))
            for (first, text), (_, rest) in zip(rows, entries, strict=True)
        )
    return [] if any(rest for _, rest in entries) else _list_table(rows)


def _term(text):
    """The left column: as code where it looks like some."""
    return f"``{text}``" if re.search(r"[=_/.(]", text) else _inline(text)


def _table(block):
    """A block of rows between bars as a table; empty if it is none."""
    if not all(line.startswith("|") and line.endswith("|") for line in block):
        return []
    return _list_table(
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block],
        head=1,
    )


def _list_table(rows, head=0):
    lines = [".. list-table::", f"   :header-rows: {head}", ""]
    for row in rows:
        lines += [
            f"   {'-' if k else '* -'} {_inline(cell)}".replace("   -", "     -", 1)
            for k, cell in enumerate(row)
        ]
    return lines


def _code(block):
    text = "\n".join(block)
    try:
        ast.parse(text)
        language = "python"
    except SyntaxError:
        language = "text"
    return [f".. code-block:: {language}", "", *_indented(block)]


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
    stand_in.__signature__ = primitive.__signature__
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
    """What Sphinx calls first."""
    from tinyrmc.autograd.engine import TABLE

    for name, primitive in TABLE.items():
        setattr(inspect.getmodule(primitive.forward), name, documented(primitive))
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _name_aliases)
    app.connect("doctree-read", _keep_together)
    app.connect("doctree-read", _set_commands)
    app.connect("doctree-resolved", _mark_wide)
    # after the theme has made its buttons
    app.connect("html-page-context", _offer_notebooks, priority=900)
    return {"parallel_read_safe": True}
