"""Files written whole or not at all, and the error that says why one cannot be used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import RunError


@contextlib.contextmanager
def explained(action: str, remedy: str) -> Iterator[None]:
    """An OSError of the body as a RunError: "cannot <action>: ...; <remedy>"."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {action}: {error.strerror}; {remedy}") from error


def write_whole(path: Path, data: bytes, previous: Path | None = None) -> None:
    """Write beside `path`, force to disk, rename: the one way to replace a file of a
    run.

    previous: where a file that stands at `path` is moved to; without it, that file is
        replaced.
    """
    # Always the same name, so what a killed process left is overwritten.
    beside = path.with_name(f"{path.name}.partial")
    remedy = (
        "free some space there or make it writable (what was saved earlier is "
        "untouched)"
    )
    try:
        with explained(f"write {path}", remedy):
            with open(beside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if previous is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, previous)
            os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):  # gone already when all went well
            beside.unlink()
