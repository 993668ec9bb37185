"""Processes in which something is measured: a Python with nothing tuned, and that of a
candidate, which times its steps whenever it is asked.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinyrmc.backend import blas_threads
from tinyrmc.backend.cpu import keep_freed_memory
from tinyrmc.errors import RunError, counted

HERE = Path(__file__).resolve().parent
CPUS = Path("/sys/devices/system/cpu")
CAN_LIMIT = hasattr(os, "sched_setaffinity")  # processes to some cores: on Linux

# environment variables that make BLAS or a library faster or slower: candidates do not
# get them
TUNING = (
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "MKL_",
    "VECLIB_",
    "OMP_",
    "GOMP_",
    "KMP_",
    "XLA_",
    "JAX_",
    "TORCH",
)


class Broken(Exception):
    """A candidate's process ended; the text is the last line it said."""


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout is the tables alone."""
    print(text, file=sys.stderr, flush=True)


def tuning_variables() -> list[str]:
    """The environment variables that are set here and kept from the candidates."""
    return sorted(name for name in os.environ if name.startswith(TUNING))


def surroundings(folder: str) -> dict[str, str]:
    """The environment of a process.

    What torch.compile makes goes to `folder`: if it were shared, code made for one
    thread would serve four.
    """
    tuning = tuning_variables()
    kept = {name: x for name, x in os.environ.items() if name not in tuning}
    path = [str(HERE.parent), kept.get("PYTHONPATH", "")]
    return kept | {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "JAX_PLATFORMS": "cpu",
        "TORCHINDUCTOR_CACHE_DIR": folder,
    }


def run_python(*arguments: Any, python: str = sys.executable) -> str:
    """A new Python's output. RunError with its last line, if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, *map(str, arguments)],
            env=surroundings(folder),
            capture_output=True,
            text=True,
        )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise RunError(f"python {Path(arguments[0]).name} failed: {last}")
    return done.stdout


@contextlib.contextmanager
def limited_to(cores: int) -> Iterator[None]:
    """Processes started in here get so many cores, if CAN_LIMIT."""
    if not CAN_LIMIT:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, spread_out(before)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def spread_out(cpus: set[int]) -> list[int]:
    """CPU numbers, one of each physical core first: two threads of one core are not two
    cores. In order where Linux does not tell.
    """
    threads: dict[Any, list[int]] = {}  # those of each core
    for cpu in sorted(cpus):
        siblings = CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        core = siblings.read_text() if siblings.exists() else cpu
        threads.setdefault(core, []).append(cpu)
    turns = itertools.zip_longest(*threads.values())
    return [cpu for turn in turns for cpu in turn if cpu is not None]


class Candidate:
    """A candidate's process on `cores` cores.

    `hello` is what it reported when it was ready, `rounds` what it has answered so far:
    the seconds of a step, or what else its script measures. Broken if the process ends.
    """

    def __init__(
        self,
        name: str,
        cores: int,
        problem: Path | str | None = None,
        python: str = sys.executable,
        script: Path | None = None,
    ):
        self.name, self.cores = name, cores
        self.rounds: list[Any] = []
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "said.txt"
        words = [name] if problem is None else [name, str(problem)]
        with limited_to(cores), open(self._said, "w") as said:
            self._process = subprocess.Popen(
                [python, str(script or HERE / "candidates.py"), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=surroundings(self._folder.name),
            )
        try:
            self.hello = self._reply()
        except BaseException:
            self.close()
            raise

    def time(self, seconds: float) -> None:
        """Measure one round of about so many seconds."""
        with contextlib.suppress(BrokenPipeError):  # then there is no reply either
            print(seconds, file=self._process.stdin, flush=True)
        self.rounds.append(self._reply())

    @property
    def seconds(self) -> float:
        """The median of the rounds, where they are seconds."""
        return statistics.median(self.rounds)

    def _reply(self):
        line = self._process.stdout.readline()
        if not line.endswith("\n"):  # it may have ended in the middle of one
            said = self._said.read_text().strip().splitlines()
            raise Broken((said or ["it was killed, or out of memory"])[-1])
        return json.loads(line)

    def close(self) -> None:
        """End the process. A second call does nothing."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


@contextlib.contextmanager
def left_out(name: str, cores: int, peers: Collection[str]) -> Iterator[list[str]]:
    """Gives a list, which is not empty afterwards if one of the peers broke; that is
    said too.

    RunError if anything else broke: without it there is nothing to compare.
    """
    broken: list[str] = []
    try:
        yield broken
    except Broken as error:
        fails = f"{name} fails on {counted(cores, 'core')}"
        if name not in peers:
            raise RunError(f"{fails}: {error}; nothing is written") from None
        broken.append(str(error))
        say(f"  {fails}, which is left out: {error}")


def take_turns(
    running: Iterable[Candidate], rounds: int, seconds: float, peers: Collection[str]
) -> list[Candidate]:
    """Time all of them in each round; those that still run in the end.

    One of the peers that breaks is left out. RunError if anything else breaks.
    """
    running = list(running)
    for _ in range(rounds):
        for each in list(running):
            with left_out(each.name, each.cores, peers) as broken:
                each.time(seconds)
            if broken:
                running.remove(each)
    return running


def beside(
    script: str,
    settings: Iterable[tuple[str, int]],
    work: str,
    peers: Collection[str],
    largest_error: float,
    rounds: int,
    seconds: float,
) -> list[Candidate]:
    """Candidates of a script at one work, each (name, cores) in a process of its own,
    timed in turn; those that still run in the end.

    RunError as in `take_turns`, or where the first losses are not the same for all.
    """
    with contextlib.ExitStack() as stack:
        running = []
        for name, cores in settings:
            with left_out(name, cores, peers):
                running.append(Candidate(name, cores, work, script=Path(script)))
                stack.callback(running[-1].close)
        compare(running, largest_error)
        return take_turns(running, rounds, seconds, peers)


def compare(running: Iterable[Any], largest_error: float) -> None:
    """RunError if first losses differ by more than this part of the largest."""
    first, *others = running
    expected = np.array(first.hello["losses"])
    for other in others:
        off = np.max(abs(other.hello["losses"] - expected)) / np.max(abs(expected))
        if not off <= largest_error:
            who = f"{other.name} on {counted(other.cores, 'core')}"
            raise RunError(f"{who}: its first losses are off by {off:.1e}")


# --- In a candidate's process ---------------------------------------------------------


def serve(
    make: Callable[[], tuple[dict, Callable[[float], Any]]],
    threads: int,
    requests: Iterable[str],
    answer: Callable[[Any], None],
) -> None:
    """A candidate's life: make() gives (hello, timed). It answers hello, and then
    timed(seconds) for every line of `requests`, a number of seconds.
    """
    keep_freed_memory()
    with np.errstate(all="ignore"), blas_threads(threads):
        hello, timed = make()
        answer(hello)
        for line in requests:
            answer(timed(float(line)))


def answering() -> Callable[[Any], None]:
    """In a candidate's process: answer(reply), a line of JSON on what was stdout.

    What a library prints must not be taken for an answer: from now on stdout is stderr.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(reply: Any) -> None:
        print(json.dumps(reply), file=replies, flush=True)

    return answer
