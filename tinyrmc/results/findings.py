"""The findings of tasks about trained networks, as text and as pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..training.telling import Curve, HeatMap, Table, Value
from . import text

Found = Mapping[str, Table]  # what a network is called -> what was found

SHOWN = 20  # rows of a long heat map


def cells(table: Table) -> text.Rows:
    """A table, or its brief form, in words; of a long heat map some rows alone."""
    table = table.brief or table

    def words(value: Value) -> str:
        if value is None or isinstance(value, str):
            return value or ""
        if isinstance(value, float):
            return text.number(table.metric, value)
        return f"{value:,}"

    rows = table.rows
    if isinstance(table, HeatMap) and len(rows) > SHOWN:
        places = np.geomspace(1, len(rows), SHOWN).round().astype(int) - 1
        rows = [rows[k] for k in np.unique(places)]
    return [[*table.columns], *([words(value) for value in row] for row in rows)]


def together(found: Found) -> text.Rows:
    """The tables of some networks as one, with the network at the front of each row."""
    of_networks = {network: cells(table) for network, table in found.items()}
    head, *_ = next(iter(of_networks.values()))
    return [
        ["", *head],
        *([name, *row] for name, (_, *rows) in of_networks.items() for row in rows),
    ]


def names(runs: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """(the words that all runs have in common, those that each has besides), from the
    words that describe each run.
    """
    common = [word for word in runs[0] if all(word in words for words in runs)]
    own = (", ".join(word for word in words if word not in common) for words in runs)
    return ", ".join(common), [*own]


def draw(
    name: str,
    found: Found,
    folder: Path,
    cores: list[str | None] | None = None,
    common: str = "",
    kind: str = "png",
) -> Path | None:
    """Draw one examination of some networks into `folder`: Curves or HeatMaps. Returns
    the file, or None for tables, of which there is no picture.

    common: what the networks have in common. kind: of file. OSError where it cannot be
    written.
    """
    from . import figures

    path = folder / f"{re.sub('[^a-z0-9]+', '_', name.lower()).strip('_')}.{kind}"
    if all(isinstance(table, Curve) for table in found.values()):
        return figures.examined(path, found, name, cores, common)
    if all(isinstance(table, HeatMap) for table in found.values()):
        return figures.heat_maps(path, found, name, common)
    return None
