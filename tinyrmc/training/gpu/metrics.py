"""Metrics added up on the GPU: one launch a step, which a CUDA graph can repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...backend import kernels, to_host
from ..pieces import MetricAccumulator, Sums


class OnDevice(MetricAccumulator):
    """Metrics in one array on the GPU, added up in place by backend/gpu/counters.cu.

    So a step costs one launch instead of an addition each, and may be captured in a
    CUDA graph. Numbers of the host's, and those that are neither float32 nor int64,
    stay in `sums`.
    """

    MOST = 64  # names

    def __init__(self, xp, saved: Mapping[str, Any] | None = None):
        super().__init__()
        self.xp, self._places = xp, dict[str, int]()
        self._gpu: Any = kernels(xp)
        start = np.zeros(2 * self.MOST)
        for name, pair in (saved or {}).items():
            if self._has_room(name):
                start[self._place(name) :][:2] = pair
            else:
                self.sums[name] = pair
        self._totals = xp.asarray(start)  # float64: a count after each sum

    def _place(self, name: str) -> int:
        """Where a name's sum is; its count is behind it."""
        return self._places.setdefault(name, 2 * len(self._places))

    def _has_room(self, name: str) -> bool:
        return name in self._places or len(self._places) < self.MOST

    def _takes(self, name: str, value: Any) -> bool:
        known = [np.dtype(np.float32), np.dtype(np.int64)]
        there = getattr(value, "shape", None) == () and value.dtype in known
        return there and self._has_room(name)

    def add(self, metrics: Mapping[str, Any]) -> None:
        there = []
        others = {}
        for name, pair in metrics.items():
            rest = list(pair)
            for k, value in enumerate(pair):
                if self._takes(name, value):
                    there.append((value, self._place(name) + k))
                    rest[k] = 0
            others[name] = tuple(rest)
        super().add(others)
        if there:
            self._gpu.add_up(self.xp, self._totals, there)

    def keep_largest(self, name: str, total, count, xp) -> None:
        pair = total, count
        if not all(self._takes(name, x) and x.dtype == np.int64 for x in pair):
            super().keep_largest(name, total, count, xp)
            return
        place = self._place(name)
        self._gpu.keep_largest(xp, self._totals, total, count, place)

    def clear(self) -> None:
        super().clear()
        self._totals[...] = 0

    def plain(self) -> Sums:
        found = super().plain()
        there = to_host(self._totals)
        for name, place in self._places.items():
            pair = found.get(name, (0, 0))
            total, count = there[place:][:2].tolist()
            found[name] = (pair[0] + total, pair[1] + count)
        return found if any(count for _, count in found.values()) else {}
