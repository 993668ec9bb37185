"""A fence around the process that runs what a learner wrote.

The system itself holds it, where it can: limits of time, memory and the size of files
(POSIX); a namespace without a network in which no other process can be seen, Landlock
(Linux 5.13), by which it reads Python's folders alone and writes into its own, and a
filter of system calls, so that it begins no program and opens no socket (Linux, on
x86-64 and ARM). A hook in Python refuses the same, which is all there is elsewhere.
Python code can get around that hook if it tries hard; so on other systems, grade what
you do not trust in a container or a virtual machine. Nothing here needs special rights,
and nothing guards against a fault in the system's own kernel.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import struct
import sys
import sysconfig
from pathlib import Path
from typing import Any

MEMORY = 2 << 30  # bytes of address space
LARGEST = 32 << 20  # bytes of a file
NEW_USER, NEW_PIDS, NEW_NETWORK, NEW_IPC = 0x10000000, 0x20000000, 0x40000000, 0x8000000
DIE_WITH_PARENT, NO_NEW_RIGHTS = 1, 38  # of prctl
CREATE, ADD, RESTRICT = 444, 445, 446  # Landlock's calls, the same on all machines
READING = 0b1101  # execute, read files, list folders
WRITING = 0x1FF2  # write files, remove, make: all of Landlock's first version
TRUNCATE = 1 << 14  # since its third
FILTER, PACKAGE = 22, Path(__file__).resolve().parents[2]


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
        if _few_calls(system):
            held.append("no program, no socket")
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
        ("RLIMIT_NOFILE", 64),
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
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    system.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    return True


def _readable() -> set[str]:
    """The places that an answer may read: Python, its packages and this one. Not
    `sys.path`: where a teacher calls Python, hand-ins, keys and grades may lie.
    """
    places = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    places |= {each for each in sys.path if each.endswith(("-packages", ".zip"))}
    parts = ("tasks", "chapters/claims", "benchmarks/results")
    places |= {str(PACKAGE), *(str(PACKAGE.parent / part) for part in parts)}
    system = "/usr /lib /lib64 /nix/store /System /Library/Fonts /dev/urandom".split()
    system += [os.environ.get("SYSTEMROOT") or "/usr"]
    system += [f"/etc/{each}" for each in "ld.so.cache localtime fonts".split()]
    return {*places, *system, "/etc/alternatives", "/dev/null"}


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
    for path, allowed in [
        *((each, READING) for each in _readable()),
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


# The system calls by which a process begins or reaches another, opens a socket or
# leaves what outlives it, with their numbers on x86-64 and on ARM (which has no fork).
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
CLONE, CLONE3, THREAD = (56, 220), 435, 0x10000
CALLS = """
    execve 59 221      execveat 322 281         fork 57 221        vfork 58 221
    socket 41 198      io_uring_setup 425 425   kill 62 129        tkill 200 130
    tgkill 234 131     rt_sigqueueinfo 129 138  ptrace 101 117
    pidfd_open 434 434 rt_tgsigqueueinfo 297 240 pidfd_send_signal 424 424
    setpgid 109 154    setsid 112 157           setpriority 141 140
    process_vm_readv 310 270  process_vm_writev 311 271
    unshare 272 97     setns 308 268            mount 165 40       keyctl 250 219
    shmget 29 194      msgget 68 186            semget 64 190
"""


def _few_calls(system: Any) -> bool:
    """Refuse CALLS, and to begin a process. A program for the kernel (seccomp) looks at
    each call: it loads a number, and jumps by it.
    """
    load, equal, least, has, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse, unknown = 0x7FFF0000, 0x50001, 0x50026  # EPERM, ENOSYS
    if platform.machine() not in MACHINES:
        return False
    at, machine = MACHINES[platform.machine()]
    numbers = [(int(x), int(arm)) for x, arm in re.findall(r" (\d+) (\d+)", CALLS)]
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, refuse)]
    steps += [(load, 0, 0, 0), (least, 0, 1, 1 << 30), (give, 0, 0, refuse)]
    # without clone3 the C library takes clone, whose first argument can be seen
    steps += [(equal, 0, 1, CLONE3), (give, 0, 0, unknown)]
    for each in numbers:
        steps += [(equal, 0, 1, each[at]), (give, 0, 0, refuse)]
    steps += [(equal, 0, 3, CLONE[at]), (load, 0, 0, 16), (has, 1, 0, THREAD)]
    steps += [(give, 0, 0, refuse), (give, 0, 0, allow)]
    text = b"".join(struct.pack("HBBI", *step) for step in steps)
    kept = ctypes.create_string_buffer(text)
    program = struct.pack("HP", len(steps), ctypes.addressof(kept))
    system.prctl(NO_NEW_RIGHTS, 1, 0, 0, 0)
    return system.prctl(FILTER, 2, program, 0, 0) == 0


REFUSED = (
    *"socket. subprocess. ctypes. os.system os.exec os.posix_spawn os.spawn".split(),
    *"os.fork os.kill os.startfile pty. os.symlink os.link os.chmod os.chown".split(),
    *"signal.pthread_kill winreg. os.setxattr os.lockf sqlite3. _winapi.Cr".split(),
)
OF_PATHS = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.utime")
FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _hook(folder: Path) -> None:
    """Refuse in Python what no answer needs. A hook cannot be taken away."""
    own = [os.path.realpath(folder)]
    readable = [*own, *map(os.path.realpath, _readable())]

    def outside(path: Any, places: list[str]) -> bool:
        if isinstance(path, int):
            return False
        real = os.path.realpath(os.fsdecode(path))
        parts = {real, *map(str, Path(real).parents)}
        return real != os.devnull and parts.isdisjoint(places)

    def refuse(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            refused = outside(path, own if flags & FOR_WRITING else readable)
        elif event in ("os.listdir", "os.scandir"):
            refused = outside(arguments[0] or ".", readable)
        elif event in OF_PATHS:
            paths = [each for each in arguments if isinstance(each, (str, bytes))]
            refused = any(outside(each, own) for each in paths)
        else:
            refused = event.startswith(REFUSED)
        if refused:
            raise PermissionError(f"{event} is closed while a notebook is graded")

    sys.addaudithook(refuse)
