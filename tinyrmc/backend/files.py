"""Files that are read whole, and files that are written whole or not at all.

A file is written beside its final place, forced to disk and only then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def opened(path: str | Path) -> BinaryIO:
    """A regular file, open for reading.

    OSError for anything else: a pipe or a device might never end.
    """
    path = os.fspath(path)  # no number of an open file
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(path, "rb")


def read_whole(path: str | Path) -> bytes:
    """The bytes of a regular file. OSError as from `opened`."""
    with opened(path) as file:
        return file.read()


@contextlib.contextmanager
def replacing(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """A file beside `path`, open for writing; forced to disk and renamed once the body
    is done. Nothing is replaced if the body fails, with OSError say.

    previous: where a file that stands at `path` is moved to; without it, that file is
        replaced.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    # A name of its own: other threads and processes may write the same file now.
    short = path.name.encode(errors="ignore")[:100].decode(errors="ignore")
    beside = path.with_name(f"{short}.{secrets.token_hex(4)}.partial")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if previous is not None:
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, previous)
        os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):  # gone already when all went well
            beside.unlink()


def replace(path: Path, data: str | bytes) -> None:
    """Write a file as `replacing` does, through links; into a pipe or device at once.
    OSError where that fails.
    """
    data = data.encode() if isinstance(data, str) else data
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    with replacing(path) as file:
        file.write(data)
