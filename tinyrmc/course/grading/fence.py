"""A fence around the process that runs what a learner wrote.

The system itself holds it, where it can: limits of time, memory and the size of files
(POSIX), a namespace without a network in which no other process can be seen (Linux),
and Landlock (Linux 5.13), by which it reads Python's folders alone and writes into its
own. A hook in Python refuses the same, which is all there is elsewhere. Python code can
get around that hook if it tries hard; so on other systems, grade what you do not trust
in a container or a virtual machine. Nothing here needs special rights.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

MEMORY = 2 << 30  # bytes of address space
LARGEST = 32 << 20  # bytes of a file
NEW_USER, NEW_PIDS, NEW_NETWORK, NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x8000000
DIE_WITH_PARENT, NO_NEW_RIGHTS = 1, 38  # of prctl
CREATE, ADD, RESTRICT = 444, 445, 446  # Landlock's calls, the same on all machines
READING = 0b1101  # execute, read files, list folders
WRITING = 0x1FF2  # write files, remove, make: all of Landlock's first version
TRUNCATE = 1 << 14  # since its third


def close(folder: Path, seconds: float) -> list[str]:
    """Close the fence around this process, which may write into `folder` alone.

    Returns what the system holds, in words. Call it before there are threads.
    """
    held = _limits(seconds)
    if sys.platform == "linux":
        system = ctypes.CDLL(None, use_errno=True)
        system.syscall.restype = ctypes.c_long
        if _alone(system):
            held.append("no network, no other process")
        if _landlock(system, folder):
            held.append("files of Python and its own folder alone")
    sys.dont_write_bytecode = True
    _hook(folder)
    return held


def _limits(seconds: float) -> list[str]:
    try:
        import resource
    except ImportError:  # Windows
        return []
    for what, most in (
        ("RLIMIT_AS", MEMORY),
        ("RLIMIT_CPU", int(seconds) + 1),
        ("RLIMIT_FSIZE", LARGEST),
        ("RLIMIT_NOFILE", 256),
        ("RLIMIT_CORE", 0),
    ):
        try:
            resource.setrlimit(getattr(resource, what), (most, most))
        except (AttributeError, ValueError, OSError):  # macOS has no limit of memory
            continue
    return [f"{MEMORY >> 30} GB of memory"] if sys.platform != "darwin" else []


def _alone(system: Any) -> bool:
    """Go on in a child that sees no network and no process but its own.

    This process waits for it. False where the system does not allow that.
    """
    if system.unshare(NEW_USER | NEW_PIDS | NEW_NETWORK | NEW_IPC):
        return False
    child = os.fork()
    if child:
        _wait_for(child)
    system.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    return True


def _wait_for(child: int) -> NoReturn:
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _landlock(system: Any, folder: Path) -> bool:
    version = system.syscall(CREATE, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    handled = READING | WRITING | (TRUNCATE if version >= 3 else 0)
    rules = system.syscall(
        CREATE, ctypes.byref(ctypes.c_uint64(handled)), ctypes.c_size_t(8), 0
    )
    if rules < 0:
        return False
    python: set[str] = {
        *sys.path,
        sys.prefix,
        sys.base_prefix,
        "/usr",
        "/lib",
        "/lib64",
        "/etc",
    }
    for path, allowed in [
        *((each, READING) for each in python),
        (str(folder), handled),
    ]:
        if not os.path.exists(path):
            continue
        if not os.path.isdir(path):
            allowed = 0b101
        opened = os.open(path, os.O_RDONLY | 0x200000)  # O_PATH
        packed = allowed.to_bytes(8, sys.byteorder) + opened.to_bytes(4, sys.byteorder)
        system.syscall(ADD, rules, 1, packed, 0)
        os.close(opened)
    system.prctl(NO_NEW_RIGHTS, 1, 0, 0, 0)
    closed = system.syscall(RESTRICT, rules, 0) == 0
    os.close(rules)
    return closed


REFUSED = (
    *"socket. subprocess. ctypes. os.system os.exec os.posix_spawn os.spawn".split(),
    *"os.fork os.kill os.startfile pty. os.symlink os.link os.chmod os.chown".split(),
    *"signal.pthread_kill winreg. os.setxattr os.lockf".split(),
)
OF_PATHS = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.utime")
FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _hook(folder: Path) -> None:
    """Refuse in Python what no answer needs. A hook cannot be taken away."""
    inside = os.path.realpath(folder)

    def outside(path: Any) -> bool:
        if isinstance(path, int):
            return False
        real = os.path.realpath(os.fsdecode(path))
        return real != os.devnull and os.path.commonpath([inside, real]) != inside

    def refuse(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            refused = bool(flags & FOR_WRITING) and outside(path)
        elif event in OF_PATHS:
            paths = [each for each in arguments if isinstance(each, (str, bytes))]
            refused = any(map(outside, paths))
        else:
            refused = event.startswith(REFUSED)
        if refused:
            raise PermissionError(f"{event} is closed while a notebook is graded")

    sys.addaudithook(refuse)
