"""Files written whole or not at all, and the error that says why one cannot be used."""

from __future__ import annotations

import contextlib
import os

from ..errors import RunError


@contextlib.contextmanager
def explained(action, remedy):
    """An OSError of the body as a RunError: "cannot <action>: ...; <remedy>"."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {action}: {error.strerror}; {remedy}") from error


def write_whole(path, data, previous=None):
    """Write beside `path`, force to disk, rename.

    The one way in which this module replaces a file.
    """
    beside = path.with_name(
        f"{path.name}.partial"
    )  # always the same name: what a killed process left is overwritten
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
