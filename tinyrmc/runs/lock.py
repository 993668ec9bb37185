"""One writer for each run directory."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from ..config import json_text
from ..errors import RunError
from .files import Count, explained, from_json, misfit

fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    fcntl = None

# Whether a writer still lives is for the system to say: it drops the locks of a
# process, however it ended. A process number in a file would have to be believed,
# though another process may have been given it since. The lock is lockf's, which
# belongs to a process: flock's would pass to forked workers, and the workers of a
# killed process would keep it as long as they live. (So two threads of one process are
# not kept apart.)
#
# What stands in the file tells others whom to ask. It also serves where locks do not
# reach from machine to machine: what another machine has left may be in use there, and
# only a person can know. On a file system that has no locks at all nothing more is
# checked: refusing to train there would be worse.


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep `folder` locked, by the file lock.json, which names us and is gone at the
    end. RunError if somebody else has it.
    """
    path = folder / "lock.json"
    file = _lock_file(folder, path)
    try:
        with explained(f"write {path}", "free some space there"):
            file.truncate(0)
            since = datetime.now(UTC).isoformat(timespec="seconds")
            holder = {"pid": os.getpid(), "host": platform.node(), "since": since}
            file.write(json_text(holder) + "\n")
            file.flush()
        yield
    finally:  # removed while it is still ours; but Windows removes no open file
        for end in (path.unlink, file.close) if fcntl else (file.close, path.unlink):
            with contextlib.suppress(OSError):
                end()


def _lock_file(folder: Path, path: Path) -> TextIO:
    """The lock file, open and locked.

    RunError if another process has it, or if one of another machine has left it.
    """
    while True:
        with explained(f"write {path}", "make it a writable file, or delete it"):
            file = _open(path)
        free = _lock(file)
        if os.fstat(file.fileno()).st_nlink > 0:
            break
        file.close()  # its holder has removed it since we opened it
    file.seek(0)
    pid, host, since = _holder(file.read(1000))
    if free and host in (None, platform.node()):
        return file
    file.close()
    if free:
        raise RunError(
            f"{folder} may be in use: process {pid} on {host} had it since {since}, "
            f"and has not said that it is over; if it is, delete {path}"
        )
    raise RunError(
        f"{folder} is in use by process {pid} on {host} since {since}; wait until that "
        f"has ended, or stop it (`kill {pid}` lets it save)"
    )


def _open(path: Path) -> TextIO:
    """A regular file, open for reading and appending, without waiting for a pipe."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(path, "a+", encoding="utf-8", errors="replace")


def _lock(file: TextIO) -> bool:
    """Whether an open file could be locked, or need not be, because its file system has
    no locks.
    """
    try:
        if fcntl:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            # Far beyond the text: on Windows nobody can read what is locked.
            file.seek(1 << 30)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass
    return True


def _holder(text: str) -> tuple[int | str, str | None, str]:
    """(pid, host, since) from the text of a lock file; question marks and no host while
    it is still empty.
    """
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found = from_json(text)
        said = found["pid"], found["host"], found["since"]
        if not misfit([*said], tuple[Count, str, str]):
            return said
    return "?", None, "?"
