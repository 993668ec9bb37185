"""What tasks have found out about trained networks, as text and as pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..training.examinations import Curve, Table, Value
from . import text

Found = Mapping[str, Table]  # what a network is called -> what was found


def cells(table: Table) -> text.Table:
    """A table as words."""

    def words(value: Value) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, float):
            return text.number(table.metric, value)
        return f"{value:,}"

    return [[*table.columns], *([words(value) for value in row] for row in table.rows)]


def draw(
    name: str, found: Found, folder: Path, cores: list[str | None] | None = None
) -> Path:
    """Draw one examination of some networks into `folder`; returns the PNG file.

    A Curve becomes a picture of curves, a Table one of tables. OSError where it cannot
    be written.
    """
    from .. import figures

    path = folder / f"{re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')}.png"
    if all(isinstance(table, Curve) for table in found.values()):
        return figures.examined(found, path, name, cores)
    shown = [cells(table) for table in found.values()]
    note = f"{name}: {next(iter(found))}"
    if len(found) > 1:
        for number, rows in enumerate(shown, start=1):
            rows[0][0] += f" ({number})"
        listed = (f"({k}) {label}" for k, label in enumerate(found, start=1))
        note = f"{name}: {'; '.join(listed)}"
    return figures.tables(shown, path, note)
