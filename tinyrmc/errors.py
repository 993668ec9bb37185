"""Errors that are the user's to mend.

A command line prints the text of a `UserError` as one line and exits with code 2; any
other exception is a bug of ours, and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """The base class: the text names the thing, the value and the remedy."""


class UsageError(UserError):
    """The words of a command line are wrong; `hint` says where to look."""

    def __init__(self, reason: str, hint: str = ""):
        super().__init__(f"{reason} ({hint})" if hint else reason)
        self.reason = reason


class RunError(UserError):
    """A run, or a file of one, cannot be read, written or used."""


class ConfigError(RunError):
    """A stored configuration does not fit the class it was made from."""


def why(error: OSError) -> str:
    """The system's words for an OSError; for one without a number, its own text."""
    return error.strerror or str(error) or type(error).__name__


def unwritable(path: object, error: OSError, remedy: str) -> str:
    """What could not be written, why, and what to do."""
    return f"cannot write {path}: {why(error)}; {remedy}"


def counted(number: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def nearest(word: str, known: Iterable[str]) -> str:
    """'; did you mean ...?', if some known word is near enough, else ''.

    Only the last part counts: of --model.core it is `core`.
    """
    own_part = {}
    for name in reversed(list(known)):
        own_part[name.rpartition(".")[2].lstrip("-")] = name
    asked = word.rpartition(".")[2].lstrip("-")
    close = difflib.get_close_matches(asked, own_part, n=1, cutoff=0.7)
    return f"; did you mean {own_part[close[0]]!r}?" if close else ""
