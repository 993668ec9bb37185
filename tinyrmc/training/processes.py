"""Many commands, some of them at a time, on this machine or on all that MPI has ranks
on.

An executor of concurrent.futures waits for each command: threads here, mpi4py's on the
ranks of `mpiexec -n 5 python -m mpi4py.futures` (where the words of a command and
the name of a file are all that passes between ranks). The command itself is always a
process of its own, so that nothing one of them does can harm another, and what it
prints goes to a file. A signal that would stop us is passed on once to all of them, and
no more are started. A SIGKILL we cannot pass on, so each command is told whose child it
is, and watches for itself (see `workers.orphaned`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from .ranks import LAUNCHERS, LaunchError, mpi_library, require_alone
from .workers import PARENT

SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
]

_children: set[subprocess.Popen] = set()
_signal = 0  # the one that has come; after it this process starts no more commands


def run_logged(words: Sequence[str], log: str) -> int:
    """Run `python words`, and append what it prints to the file `log`.

    Returns its exit code, negative for the signal that ended it.
    """
    ours = {name for pair in LAUNCHERS.items() for name in pair}  # the child is no rank
    around = {name: value for name, value in os.environ.items() if name not in ours}
    around |= {"PYTHONUNBUFFERED": "1", PARENT: str(os.getpid())}
    with open(log, "ab") as file:
        if _signal:
            return -_signal
        # In a session of its own, so that a terminal's Ctrl-C reaches it through us
        # alone: a second one would stop it at once.
        child = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=around,
            start_new_session=True,
        )
        _children.add(child)
        if _signal:  # it came in the meantime, and found no such child
            _end_children()
        code = child.wait()
        _children.discard(child)
        return code


def listen() -> None:
    """From now on pass signals on to the commands that run here."""
    for number in SIGNALS:
        # nohup has a process ignore a SIGHUP
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _stop)


def _stop(number, _):
    global _signal
    if not _signal:
        _signal = number
        _end_children()


def _end_children():
    """Ask each child to end, and only once: at a second signal it would not save."""
    with contextlib.suppress(KeyError):  # of a set that is empty
        while True:
            _children.pop().terminate()


def _ranks():
    """An executor on the other ranks, and how many these are."""
    MPI = mpi_library()
    from mpi4py.futures import MPIPoolExecutor

    if MPI.COMM_WORLD.Get_size() == 1:
        require_alone(
            "tinyrmc sweep",
            "mpi4py's MPI is not that of the launcher; use its mpiexec",
        )
        raise LaunchError(
            "mpi4py.futures needs ranks to hand the work to; mpiexec -n 5 python -m "
            "mpi4py.futures -m tinyrmc sweep ..."
        )
    executor = MPIPoolExecutor(initializer=listen)
    return executor, executor.num_workers


class Places:
    """Where commands run: `count` at a time. A context manager, which lets the ranks or
    threads go at its end.

    count: how many here; on ranks, as many as there are beside rank 0.
    """

    def __init__(self, count: int):
        self.enough = False
        started = " ".join(sys.orig_argv)
        self.on_ranks = bool(re.search(r" -m ?mpi4py\.futures\b", started))
        if self.on_ranks:
            self.executor, self.count = _ranks()
        else:
            require_alone(
                "tinyrmc sweep",
                "start it with mpiexec -n {size} python -m mpi4py.futures -m "
                "{program} ...",
            )
            self.executor, self.count = ThreadPoolExecutor(count), count

    def launch(self, python: str = "python") -> str:
        """What comes before the name of a module on a command line that starts it with
        these places.
        """
        if self.on_ranks:
            return f"mpiexec -n {self.count + 1} {python} -m mpi4py.futures -m"
        return f"{python} -m"

    def run(
        self, number: int, words_of: Callable[[int, int], tuple[Sequence[str], str]]
    ) -> Iterator[tuple[int, int]]:
        """Run commands 0 .. number - 1, in this order; yields (which, exit code) as
        they end.

        words_of(k, left) gives the words and the log of command k when it is about to
        start; left is how many turns the places need for it and all that follow, if
        each place takes them in turn.

        After a signal no more are started, and those that run end in their own way;
        `stopped` then has its number. Set `enough` for the same without a signal.
        """
        global _signal
        running: dict[Future, int] = {}
        next_one, turns, _signal = 0, -(-number // self.count), 0

        def more() -> bool:
            return next_one < number and not _signal and not self.enough

        before = {name: signal.getsignal(name) for name in SIGNALS}
        try:
            listen()
            while running or more():
                while len(running) < self.count and more():
                    words, log = words_of(next_one, turns - next_one // self.count)
                    running[self.executor.submit(run_logged, words, log)] = next_one
                    next_one += 1
                # a signal that comes just before this waits is heard after it
                some = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for done in some.done:
                    yield running.pop(done), done.result()
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error is not None:  # nobody will hear of those that run: they save and end
            _stop(signal.SIGTERM, None)
        self.executor.shutdown()

    @property
    def stopped(self) -> int:
        """The number of the signal that has come, else 0."""
        return _signal
