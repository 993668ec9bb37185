"""Limits to the work that an answer may do, where its exercise forbids some."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from .compare import Wrong


@contextmanager
def at_most(calls: int | None, memory: int | None) -> Any:
    """`Wrong` where what runs inside makes more calls, or takes more bytes.

    It counts the calls of Python's and C's functions on this thread: a walk along every
    path of a graph makes one for each path, and is stopped long before its end. Bytes
    are the most in use at one time, beyond what was in use before. None is no limit.
    """
    with _few_calls(calls), _little_memory(memory):
        yield


@contextmanager
def _few_calls(limit: int | None) -> Any:
    if limit is None:
        yield
        return
    left = limit

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        left -= event in ("call", "c_call")
        if left < 0:
            sys.setprofile(before)
            raise Wrong(
                f"it has called functions {limit} times, and would go on: it does the "
                "same work again and again"
            )

    before: Callable[..., Any] | None = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def _little_memory(limit: int | None) -> Any:
    if limit is None:
        yield
        return
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        if not tracing:
            tracemalloc.stop()
    if most - before > limit:
        raise Wrong(
            f"it holds {(most - before) / 1e6:.1f} MB at one time, {limit / 1e6:.1f} "
            "MB are allowed: it must not keep everything at once"
        )
