"""The project's docstrings, which are plain text to be read beside the code, as
reStructuredText for autodoc.

A docstring is made of paragraphs with `code` in them, and of indented blocks, which are
one of

    items      a name or several, a colon, and what they are: what follows "Args:"
    columns    a word, two blanks or more, and what it means, as here; the text may go on below, indented
    a table    rows of cells between bars, the first of them the head
    code       anything else, kept as it stands
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from pathlib import Path

from docutils import nodes
from formulas import FORMULAS

WIDE = 760  # pixels
ITEM = re.compile(r"([\w*.]+(?:, [\w*.]+)*): +(\S.*)")
GAP = re.compile(r" {2,}")
FLAG = r"(?<![\w`.-])--[a-z][\w.-]*\w"  # --data.kind
# x_t, sum_k, h_{i,t-1}, b^f, ]^D
INDEX = r"(?<![\w`])(?:sum|prod|[A-Za-z]|\])[_^](?:\w|\{[^}]+\})(?![\w^(])"
MARKED = re.compile(
    rf"(`[^`]+`|\*\w(?:[^*]*\w)?[.?]?\*|{FLAG}|{INDEX})"
)  # every second part of a split is code, emphasis or one of these


def rst(text: str) -> list[str]:
    """The lines of a docstring (without the indentation of the code around it) as
    reStructuredText.
    """
    lines = []
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
    """Runs of lines that are all indented or all not; a list of items with their
    further lines is one run, code may hold blank lines.
    """
    found = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
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
    """A line of running text: code in double backticks, indices where they belong, and
    nothing else that would mean something.
    """
    parts = MARKED.split(text)
    for k, part in enumerate(parts):
        if k % 2 == 0:
            parts[k] = re.sub(r"([\\*|`]|_(?=\W|$))", r"\\\1", part)
        elif part[0] in "`-":
            parts[k] = f"``{part.strip('`')}``"
        elif part[0] != "*":
            base, kind, index = re.fullmatch(r"(.+?)([_^])\{?(.+?)\}?", part).groups()
            parts[k] = f"{base}\\ :{'sub' if kind == '_' else 'sup'}:`{index}`"
        if k % 2 and parts[k + 1][:1].isalnum():
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
    """The text of an entry: what stands on its first line, and its further lines, moved
    to the margin.
    """
    margin = min(
        (len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0
    )
    return "\n".join([first, *(line[margin:] for line in rest)])


def _items(block, fewest=1):
    entries = _entries(block)
    matched = [ITEM.fullmatch(line) for line, _ in entries]
    if len(entries) < fewest or not all(matched):
        return []
    return _definitions(
        (f"``{m[1]}``", _below(m[2], rest))
        for m, (_, rest) in zip(matched, entries, strict=True)
    )


def _columns(block):
    entries = _entries(block)
    rows = [GAP.split(line) for line, _ in entries]
    widths = {len(row) for row in rows}
    if (
        len(rows) < 2
        or len(widths) != 1
        or min(widths) < 2
        or any(row[1].startswith("#") for row in rows)
    ):
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
    """The equations of `name`.

    Those that stand in one line, \\qquad between them, may stand below each other on a
    phone.
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


def _process(app, what, name, object, options, lines):
    """Called by autodoc for each docstring; changes `lines` in place.

    The equations follow the first paragraph.
    """
    made = rst("\n".join(lines))
    after = made.index("") + 1 if made else 0
    lines[:] = [*made[:after], *formulas(name), *made[after:]]


def documented(primitive):
    """A function in the place of a primitive, which autodoc would take for a constant:
    its call, without the array library.
    """

    def call(*arguments, **static):
        return primitive(*arguments, **static)

    _xp, *parameters = inspect.signature(primitive.forward).parameters.values()
    call.__name__ = call.__qualname__ = primitive.name
    call.__doc__, call.__module__, call.__wrapped__ = (
        primitive.__doc__,
        primitive.__module__,
        primitive.forward,
    )
    call.__signature__ = inspect.Signature(parameters)
    return call


def _keep_together(app, doctree):
    """No line ends between a number and its per cent sign."""
    for text in list(doctree.findall(nodes.Text)):
        if (
            not isinstance(
                text.parent,
                nodes.literal | nodes.literal_block | nodes.math | nodes.math_block,
            )
            and " %" in text
        ):
            text.parent.replace(
                text, nodes.Text(re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text))
            )


def _mark_wide(app, doctree, docname):
    """Pictures of many pixels get a box of the class `wide`: shrunk to a phone's width
    they could not be read.
    """
    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"])
        if (
            path.suffix == ".png"
            and int.from_bytes(path.read_bytes()[16:20], "big") > WIDE
        ):  # where a PNG has its width
            boxed = image.parent if isinstance(image.parent, nodes.paragraph) else image
            parent, place = boxed.parent, boxed.parent.index(boxed)
            parent[place] = nodes.container("", boxed, classes=["wide"])


def _offer_notebooks(app, pagename, templatename, context, doctree):
    """The download button stands on the chapters alone: the sources of other pages are
    of no use by themselves.
    """
    if doctree is None or app.env.doc2path(pagename).suffix != ".ipynb":
        buttons = context.get("header_buttons", [])
        buttons[:] = [
            button for button in buttons if button.get("label") != "download-buttons"
        ]


def setup(app):
    from tinyrmc.engine import TABLE

    for name, primitive in TABLE.items():
        setattr(inspect.getmodule(primitive.forward), name, documented(primitive))
    app.connect("autodoc-process-docstring", _process)
    app.connect("doctree-read", _keep_together)
    app.connect("doctree-resolved", _mark_wide)
    app.connect(
        "html-page-context", _offer_notebooks, priority=900
    )  # after the theme has made its buttons
    return {"parallel_read_safe": True}
