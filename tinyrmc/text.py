"""Numbers and tables as people read them.

A table is a list of rows of equally many cells, the head first. Files get it in
Markdown (`markdown_table`), a terminal gets columns under each other (`aligned`).
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

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
    an error that is not a squared or an absolute one, or what is solved.
    """
    return bool(re.search("accuracy|(?<!squared_)(?<!absolute_)error|solved", metric))


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


def in_words(metric: str) -> str:
    """The name of a metric: held-out accuracy, for test_accuracy."""
    return re.sub("^test_", "held-out ", metric).replace("_", " ")


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


def aligned(rows: Rows, width: int | None = None, keys: int = 1) -> str:
    """A table as lines of text, its columns under each other.

    A column with a number in it stands to the right, others to the left; one with
    nothing in it is left out. The first `keys` columns say what a row is about. `width`
    is how wide lines may be (None: as wide as they are). A table that is wider is made
    to fit, in the first way that will do:

        wrapping   cells end their lines between words
        dealing    the columns go to several tables below each other, each with the keys
        blocks     each row by itself: its keys, and a line for each cell with something
                   in it. Used where the keys would take more than half of a line
    """
    rows = [[_plain(cell) for cell in row] for row in _without_empty(rows, keys)]
    if width is None:
        return _side_by_side(rows, _natural(rows))
    for gap in (2, 1):
        if widths := _narrowed(rows, width, gap):
            return _side_by_side(rows, widths, gap)
    if parts := _dealt_out(rows, width, keys):
        return "\n\n".join(aligned(part, width, keys) for part in parts)
    return _blocks(rows, width, keys)


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
    for name in metrics:
        known = references.get(name, {})
        values = [metrics[name], *map(known.get, labels)]
        shown = [number(name, value) for value in values]
        if metrics[name] is None:
            shown[0] = "not finite"
        rows.append([name.replace("_", " "), *shown])
    return aligned(rows, width)


# --- How that is done -----------------------------------------------------------------


def _plain(words: str) -> str:
    return re.sub("[`*]", "", words)


def _without_empty(rows: Rows, keys: int) -> Rows:
    columns = [
        column
        for k, column in enumerate(zip(*rows, strict=True))
        if k < keys or any(column[1:])
    ]
    return [[*row] for row in zip(*columns, strict=True)]


def _pieces(cell: str, names: bool = False) -> list[str]:
    """The parts between which a line may end: after a space, but not within 9 %; if
    `names`, also after the dot and the underscore of model.mem_slots.
    """
    after_a_space = "(?<= )(?!%)"
    inside_a_name = "(?<=[a-z][._])(?=[a-z])"
    return re.split(
        f"{after_a_space}|{inside_a_name}" if names else after_a_space, cell
    )


def _wrapped(cell: str, width: int, names: bool = False) -> list[str]:
    """The lines of a cell."""
    lines = [""]
    for piece in _pieces(cell, names):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _widest(texts: Iterable[str]) -> int:
    return max((len(text.rstrip()) for text in texts), default=0)


def _natural(rows: Rows) -> list[int]:
    return [_widest(column) for column in zip(*rows, strict=True)]


def _narrowed(rows: Rows, width: int, gap: int = 2) -> list[int] | None:
    """The width of each column in lines of at most `width`; None if wrapping every cell
    is not enough. Heads are wrapped first, then all cells, then names in heads; and the
    widest column before others.
    """
    columns = [*zip(*rows, strict=True)]
    widths = _natural(rows)
    room = width - gap * (len(columns) - 1)
    for names, whole in (False, True), (False, False), (True, False):
        least = [_least(column, names, whole) for column in columns]
        while sum(widths) > room:
            spare = [w if w > low else 0 for w, low in zip(widths, least, strict=True)]
            if not any(spare):
                break
            widths[spare.index(max(spare))] -= 1
    return widths if sum(widths) <= room else None


def _least(column: tuple[str, ...], names: bool, whole: bool) -> int:
    """How narrow a column may get, if names in its head may be broken, and if its cells
    stay whole.
    """
    head, *cells = column
    of_head, of_cells = _widest(_pieces(head, names)), _widest(cells)
    if not whole:
        of_pieces = _widest(piece for cell in cells for piece in _pieces(cell))
        of_cells = max(of_pieces, min(of_cells, LEGIBLE))
    return max(of_head, of_cells)


def _side_by_side(rows: Rows, widths: list[int], gap: int = 2) -> str:
    """The rows as lines; with an empty one between rows if some take several."""
    head, *body = [
        [
            _wrapped(*pair, names=row is rows[0])
            for pair in zip(row, widths, strict=True)
        ]
        for row in rows
    ]
    widths = [
        _widest(line for lines in column for line in lines)
        for column in zip(head, *body, strict=True)
    ]
    right = [any(map(is_number, cells)) for _, *cells in zip(*rows, strict=True)]

    def text(lines):
        return "\n".join(_line(cells, widths, right, gap) for cells in lines)

    upwards = [lines[::-1] for lines in head]  # it stands at the bottom
    texts = [text([*zip_longest(*upwards, fillvalue="")][::-1])]
    texts += [text(zip_longest(*cells, fillvalue="")) for cells in body]
    tall = any("\n" in each for each in texts[1:])
    return ("\n\n" if tall else "\n").join(texts)


def _line(cells: Sequence[str], widths: list[int], right: list[bool], gap: int) -> str:
    placed = [
        cell.rjust(width) if to_the_right else cell.ljust(width)
        for cell, width, to_the_right in zip(cells, widths, right, strict=True)
    ]
    return (" " * gap).join(placed).rstrip()


def is_number(cell: str) -> bool:
    """Whether a cell holds a number, with or without a unit: 9, -3.2, 90 %, 4 of 5."""
    return re.fullmatch(r"-?[\d.,:]+( %| of [\d,]+)?", cell) is not None


def _dealt_out(rows: Rows, width: int, keys: int) -> list[Rows] | None:
    """The columns in several tables, each with the keys; None where the keys take more
    than half of a line, or a column has no room beside them.
    """
    columns = [*zip(*rows, strict=True)]
    if sum(_widest(cells) for _, *cells in columns[:keys]) > width // 2:
        return None
    parts: list[Rows] = []
    for column in columns[keys:]:
        alone = [[*cells] for cells in zip(*columns[:keys], column, strict=True)]
        if not _narrowed(alone, width):
            return None
        if parts:
            wider = [[*row, cell] for row, cell in zip(parts[-1], column, strict=True)]
            if _narrowed(wider, width):
                parts[-1] = wider
                continue
        parts.append(alone)
    return parts


def _blocks(rows: Rows, width: int, keys: int) -> str:
    """Each row as its keys, and below them a line for each cell that is not empty."""
    head, *body = rows
    margin = 4 + _widest(head[keys:]) + 2
    texts = [head[0]] if keys == 1 and head[0] else []
    for row in body:
        said = row[:keys]
        if keys > 1:
            said = [f"{name} {cell}" for name, cell in zip(head, said, strict=False)]
        lines = _wrapped(", ".join(said), width)
        for name, cell in zip(head[keys:], row[keys:], strict=True):
            if cell:
                first, *others = _wrapped(cell, width - margin)
                lines.append(f"    {name}".ljust(margin) + first)
                lines += [" " * margin + other for other in others]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)
