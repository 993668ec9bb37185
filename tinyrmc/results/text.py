"""Numbers and tables as people read them.

A table is a list of rows of equally many cells, the head first. Files get it in
Markdown (`markdown_table`), a terminal gets columns under each other (`aligned`).
"""

import itertools
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping

Rows = list[list[str]]

LEGIBLE = 16  # characters: words are not wrapped into anything narrower

# --- Numbers --------------------------------------------------------------------------


def percent(value: float | None) -> str:
    """A fraction in percent; nothing for None and NaN."""
    if value is None or value != value:
        return ""
    return f"{100 * value:.1f} %"


def is_share(metric: str) -> bool:
    """Whether a metric is a fraction of examples, to be read in percent: an accuracy,
    an error that is not a squared or an absolute one, or what is solved, recalled or
    agreed upon.
    """
    shares = "accuracy|(?<!squared_)(?<!absolute_)error|solved|recall|agreement"
    return bool(re.search(shares, metric))


def number(metric: str, value: float | None) -> str:
    """The value of a metric: a share in percent, a perplexity with two decimals, a
    score or a length with one, or with two below ten, anything else with four.
    """
    if is_share(metric):
        return percent(value)
    if value is None:
        return ""
    decimals = 2 if "perplexity" in metric else 4
    if re.search("score|length", metric):
        decimals = 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f}"


def duration(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"


# --- Tables in files ------------------------------------------------------------------


def markdown_table(rows: Rows) -> str:
    """A table in Markdown."""
    head, *body = rows
    ruled = [head, ["---"] * len(head), *body]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in ruled]
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped) + "\n"


# --- Tables on a terminal -------------------------------------------------------------


def terminal_width() -> int:
    """The columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size().columns


def paragraph(words: str, width: int) -> str:
    """Markdown prose for a terminal: without its marks, wrapped at `width`."""
    return textwrap.fill(_plain(words), width)


def aligned(rows: Rows, width: int | None = None) -> str:
    """A table as lines of text, its columns under each other.

    A column with a number in it stands to the right, others to the left; one with
    nothing in it is left out. The first column says which thing a row is about. `width`
    is how wide lines may be (None: as wide as they are). In a table that is wider,
    cells end their lines between words; if that is not enough, the columns stand in
    several tables, one below the other. A single row then has a line for each cell with
    something in it.
    """
    columns = [
        column
        for k, column in enumerate(zip(*rows, strict=True))
        if k == 0 or any(column[1:])
    ]
    rows = [[_plain(cell) for cell in row] for row in zip(*columns, strict=True)]
    if width is None:
        width = sum(map(len, itertools.chain(*rows))) + 2 * len(columns)
    widths, least = [], []
    for head, *cells in zip(*rows, strict=True):
        widths.append(_widest([head, *cells]))
        words = _widest(word for cell in cells for word in _wrapped(cell, 1))
        legible = min(_widest(cells), max(LEGIBLE, words))
        least.append(max(_widest(_wrapped(head, 1)), legible))
    room = width - 2 * (len(widths) - 1)
    while sum(widths) > room:
        spare = [w if w > low else 0 for w, low in zip(widths, least, strict=True)]
        if not any(spare):
            few = len(rows) < 3 or not rows[0][1:]
            return _blocks(rows, width) if few else _stacked(rows, width)
        widths[spare.index(max(spare))] -= 1
    return _side_by_side(rows, widths)


def results_table(
    metrics: Mapping[str, float | None],
    references: Mapping[str, Mapping[str, float]],
    width: int | None = None,
) -> str:
    """The held-out metrics, each beside its floors and published numbers.

    None stands for what is not finite, as in metrics.jsonl.
    """
    labels = [*dict.fromkeys(label for known in references.values() for label in known)]
    rows = [["", "this run", *labels]]
    for name in {**metrics, **references}:
        known = references.get(name, {})
        values = [metrics.get(name), *map(known.get, labels)]
        shown = [number(name, value) for value in values]
        if values[0] is None:
            shown[0] = "not finite" if name in metrics else "not measured"
        rows.append([name.replace("_", " "), *shown])
    return aligned(rows, width)


# --- How that is done -----------------------------------------------------------------


def _plain(words: str) -> str:
    return re.sub("[`*]", "", words)


def _wrapped(cell: str, width: int) -> list[str]:
    """The lines of a cell, which end after a space, but not within 9 %."""
    held = cell.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(
        held, max(width, 1), break_long_words=False, break_on_hyphens=False
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or [""]


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _side_by_side(rows: Rows, widths: list[int]) -> str:
    """The rows as lines; with an empty one between rows if some take several."""
    right = [any(map(is_number, cells)) for _, *cells in zip(*rows, strict=True)]
    wrapped = [[*map(_wrapped, row, widths)] for row in rows]
    widths = [
        _widest(itertools.chain(*column)) for column in zip(*wrapped, strict=True)
    ]
    texts = []
    for number, cells in enumerate(wrapped):
        height = max(map(len, cells))
        lines = []
        for k in range(height):
            line = []
            for cell, width, to_the_right in zip(cells, widths, right, strict=True):
                at = k if number else k - height + len(cell)  # heads end at the bottom
                part = cell[at] if 0 <= at < len(cell) else ""
                line.append(part.rjust(width) if to_the_right else part.ljust(width))
            lines.append("  ".join(line).rstrip())
        texts.append("\n".join(lines))
    tall = any("\n" in each for each in texts[1:])
    return ("\n\n" if tall else "\n").join(texts)


def is_number(cell: str) -> bool:
    """Whether a cell holds a number, with or without a unit: 9, -3.2, 90 %, 4 of 5."""
    return re.fullmatch(r"-?[\d.,:]+( %| of [\d,]+)?", cell) is not None


def _stacked(rows: Rows, width: int) -> str:
    """The columns in as many tables as it takes. Long names of rows come first, and in
    the tables their numbers.
    """
    (first, *names), *columns = [[*column] for column in zip(*rows, strict=True)]
    texts, about = [], [first, *names]
    if _widest(about) > width // 3:
        about = ["", *(str(k) for k in range(1, len(names) + 1))]
        margin = len(about[-1]) + 2
        lines = [first]
        for number, name in zip(about[1:], names, strict=True):
            begun = f"{number.rjust(margin - 2)}  "
            for part in _wrapped(name, width - margin):
                lines.append(begun + part)
                begun = " " * margin
        texts.append("\n".join(lines))
    shown, widths = [about], [_widest(about)]
    for column in [*columns, None]:
        need = 0
        if column is not None:
            heads = _widest(_wrapped(column[0], 1))
            need = max(heads, min(_widest(column[1:]), width - widths[0] - 2))
        if column is None or sum(widths) + 2 * len(widths) + need > width:
            if len(shown) > 1:
                texts.append(
                    _side_by_side([*map(list, zip(*shown, strict=True))], widths)
                )
            shown, widths = [about], [widths[0]]
        if column is not None:
            shown.append(column)
            widths.append(need)
    return "\n\n".join(texts)


def _blocks(rows: Rows, width: int) -> str:
    """Each row as its first cell, and below it a line for each that is not empty."""
    (about, *head), *body = rows
    margin = 4 + _widest(head) + 2
    texts = [about] if about else []
    for first, *cells in body:
        lines = _wrapped(first, width)
        for name, cell in zip(head, cells, strict=True):
            if cell:
                start, *others = _wrapped(cell, width - margin)
                lines.append(f"    {name}".ljust(margin) + start)
                lines += [" " * margin + other for other in others]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)
