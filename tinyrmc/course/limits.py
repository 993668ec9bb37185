"""Limits to the time, the work and the memory that an answer may take, and the line of
it that an exception comes from.
"""

from __future__ import annotations

import dis
import functools
import linecache
import os
import sys
import sysconfig
import time
import tracemalloc
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType
from typing import Any

import numpy as np

from .compare import Wrong

SECONDS = 10.0  # that one case may take, where nothing else is said
# What is run from these folders is not the learner's.
FOLDERS = (
    os.path.dirname(os.path.dirname(__file__)),
    os.path.dirname(np.__file__),
    os.path.dirname(linecache.__file__),  # in a browser's Python a zip file
    sysconfig.get_path("purelib"),
)
OTHERS = (*(folder + os.sep for folder in FOLDERS), "<frozen ")


class TooLong(Wrong):
    """An answer has not come to an end."""


class _Stop(BaseException):
    """Out of an answer, through any `except Exception` in it."""


@contextmanager
def at_most(lines: int | None, memory: int | None, seconds: float | None = None) -> Any:
    """`Wrong` where what runs inside takes more lines, more bytes or too long.

    A tracer sees each line of the learner's own code on this thread, so it works
    wherever Python does, in a browser as well. A walk along every path of a graph takes
    some lines for each path, and is stopped long before its end. Bytes are the most in
    use at one time, beyond what was in use before. None is no limit. Seconds are the
    processor's, for a right answer may wait while other programs run; one that sleeps
    is stopped after ten times as many.
    """
    seconds = seconds or SECONDS
    began, busy, left = time.monotonic(), time.process_time(), lines or np.inf

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename.startswith(OTHERS):
            return None
        frame.f_trace_opcodes = _spins(frame.f_code)
        left -= event == "line"
        if left < 0:
            why = f"has run {lines} lines, and does the same work again and again"
        elif (waited := time.monotonic() - began) > seconds and (
            time.process_time() - busy > seconds or waited > 10 * seconds
        ):
            why = f"has not come to an end after {seconds:g} seconds"
        else:
            return trace
        raise _Stop(f"it {why}{_line(frame.f_code, frame.f_lineno)}")

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with _little_memory(memory):
            yield
    except _Stop as stop:
        raise TooLong(str(stop)) from None
    finally:
        sys.settrace(before)


@functools.cache
def _spins(code: CodeType) -> bool:
    """Whether there is a loop on one line, whose rounds Python 3.11 does not report as
    lines: there we look at each instruction.
    """
    if sys.version_info >= (3, 12):
        return False
    steps = [*dis.get_instructions(code)]
    line = {each.offset: each.positions and each.positions.lineno for each in steps}
    back = [each for each in steps if "JUMP_BACKWARD" in each.opname]
    return any(line[each.offset] == line[each.argval] for each in back)


def _line(code: CodeType, number: int | None) -> str:
    """Says which line this is, in a line of its own."""
    text = linecache.getline(code.co_filename, number or 0).strip()
    place = f"line {(number or 0) - code.co_firstlineno + 1} of {code.co_name}"
    place = "your lambda" if code.co_name == "<lambda>" else place
    return f"\nin {place}: {text}" if text else f"\nin {place}"


def line_of_error(trace: TracebackType | None) -> str:
    """The last line of the learner's own that a traceback leads through; or ""."""
    found = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(OTHERS):
            found = _line(code, trace.tb_lineno)
        trace = trace.tb_next
    return found


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
