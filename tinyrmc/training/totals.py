"""Sums and counts of metrics: what pieces, workers and ranks add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backend import to_host

Sums = dict[str, tuple[Any, Any]]  # {metric: (sum, count)}, numbers or 0-d arrays


class Totals:
    """Running (sum, count) of each metric.

    The sums stay on the device until `means` or `plain`, which wait for it.
    """

    def __init__(self, saved: Mapping[str, Any] | None = None):
        self.sums: Sums = dict(saved or {})

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Add {name: (sum, count)}."""
        for name, (total, count) in metrics.items():
            before = self.sums.get(name, (0, 0))
            self.sums[name] = (before[0] + total, before[1] + count)

    def keep_largest(self, name: str, total, count, xp) -> None:
        """Let `name` be the pair with the largest mean so far.

        Compared crosswise, which is exact for integers; nothing waits.
        """
        most, of = self.sums.get(name, (0, 0))
        larger = (of == 0) | (total * of > most * count)
        if hasattr(larger, "shape"):
            self.sums[name] = (
                xp.where(larger, total, most),
                xp.where(larger, count, of),
            )
        else:  # ranks have exchanged plain numbers
            self.sums[name] = (total, count) if larger else (most, of)

    def means(self) -> dict[str, float]:
        """{name: mean}; NaN where nothing was counted."""
        found = {}
        for name, (total, count) in self.sums.items():
            total, count = float(to_host(total)), float(to_host(count))
            found[name] = total / count if count else float("nan")
        return found

    def plain(self) -> Sums:
        """Sums and counts as Python numbers, to the last bit: what JSON can hold."""
        return {
            name: (to_host(total).item(), to_host(count).item())
            for name, (total, count) in self.sums.items()
        }
