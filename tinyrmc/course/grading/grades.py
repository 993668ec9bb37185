"""Grades: each answer of each learner, judged on cases that only the teacher can draw.

The results that a learner's process sends are compared here with those of the solution.
An experiment that learners think up has no solution: `check` judges whether its numbers
bear its claim out, and the grade says that a person should read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..assembly import gradients
from ..cases import Case
from ..compare import Demand, agree
from ..exercises.exercise import Exercise
from ..exercises.experiments import Report
from ..exercises.recorded import Recorded
from ..overview import exercises
from .hand_ins import Book, HandIn, load, shown
from .wire import Other, unpacked

SECONDS = 30.0  # that one exercise may take, its notebook's start included
MOST = 8 << 20  # bytes of results that are read
TRIES = 5  # answers to one exercise that are judged
DISK, FILES = 128 << 20, 500  # bytes and files that a process may leave in its folder
Key = tuple[str, str]  # module, exercise


@dataclass
class Grade:
    """The state of one answer, in words."""

    state: str = "not handed in"
    """right, wrong, not attempted, not handed in"""
    why: str = ""


@dataclass
class Row:
    """One learner's grades."""

    hand_in: HandIn
    grades: dict[Key, Grade]
    held: list[str] = field(default_factory=list)
    """what the system held of the fence around the answers"""

    @property
    def right(self) -> int:
        """The number of right answers."""
        return sum(each.state == "right" for each in self.grades.values())


def exercise_of(module: str, name: str) -> Any:
    """An exercise, or a report that is judged like one."""
    return getattr(load(module), name)


def graded(numbers: Sequence[int] = ()) -> dict[Key, int]:
    """The exercises of some chapters that can be graded, with their chapters."""
    return {
        (module, name): number
        for (number, module), names in exercises().items()
        if not numbers or number in numbers
        for name in names
        if isinstance(exercise_of(module, name), (Exercise, Report))
    }


def to_be_read(module: str, name: str) -> bool:
    """Whether a person should read an answer, since no solution is compared."""
    exercise = exercise_of(module, name)
    if not isinstance(exercise, Exercise):
        return True
    found = results(exercise, exercise.function, tried(exercise))
    return all(isinstance(each, str) for each in found)


def seed_of(seed: int, module: str, name: str) -> int:
    """The seed of one exercise's cases: it tells nothing of the teacher's."""
    text = f"{seed} {module}.{name}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:6])


def tried(exercise: Any) -> list[tuple[Case, Demand, bool]]:
    """(arguments of an answer, the demand on its result, whether on its gradient)."""
    if not isinstance(exercise, Exercise):
        return []
    calls = [(case, exercise.demand, False) for case in exercise.cases()]
    if isinstance(exercise, Recorded):
        calls += [(case, demand, True) for case, demand in exercise.on_tape()]
    return calls


def results(
    exercise: Exercise, answer: Any, calls: Sequence[tuple[Case, Demand, bool]]
) -> list[Any]:
    """The result of an answer in each call; an exception where it raises one."""
    found = []
    for case, _, backward in calls:
        if not backward:
            found.append(exercise._outcome(exercise.called(answer), case))
            continue
        try:
            found.append(gradients(answer, case.copies()))
        except Exception as problem:
            found.append(problem)
    return found


def same(exercise: Exercise, found: Sequence[Any]) -> bool:
    """Whether results are those of the solution."""
    calls = tried(exercise)
    expected = results(exercise, exercise.function, calls)
    if exercise.exact:
        with np.errstate(all="ignore"):
            expected = [exercise.exact(*case.copies()) for case, *_ in calls]
    return len(found) == len(calls) and all(
        agree(mine, right, demand)
        for mine, right, (_, demand, _) in zip(found, expected, calls, strict=True)
    )


def grade(
    hand_ins: Sequence[HandIn],
    wanted: Sequence[Key],
    seed: int,
    seconds: float = SECONDS,
    workers: int = 1,
    told: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """The grades of all hand-ins; `told` hears of each as soon as it is there."""
    for module, name in wanted:
        exercise = exercise_of(module, name)
        if isinstance(exercise, Exercise):
            exercise.seed = seed_of(seed, module, name)
    rows = []
    with ThreadPoolExecutor(workers) as pool:
        work = [(each, wanted, seed, seconds) for each in hand_ins]
        for each, (said, held) in zip(hand_ins, pool.map(_run_all, work), strict=True):
            grades = {key: Grade() for key in wanted}
            for key, words, found in said:
                if grades[key].state != "right":
                    grades[key] = _judged(key, words, found)
            rows.append(Row(each, grades, held))
            told(rows[-1])
    return rows


def _judged(key: Key, words: dict[str, Any], results: dict[str, Any]) -> Grade:
    """The grade for what a learner's processes have said about one exercise."""
    if "ended" in results:
        return Grade("wrong", _short(results["ended"]))
    said: Any = words.get("said")
    found: Any = results.get("found")
    try:
        answers = [*zip(said, found, strict=True)][:TRIES]
        grades = [_one(key, state, text, each) for (state, text), each in answers]
    except Exception:  # a hostile process may say anything, and others are still graded
        ended = words.get("ended", "its process says nothing that can be read")
        return Grade("wrong", _short(ended))
    best = Grade("not attempted")
    for each in grades:
        if each.state == "right":
            return each
        best = each if each.state == "wrong" else best
    return best


def _one(key: Key, state: Any, text: Any, found: Any) -> Grade:
    """The grade of one answer: right if `check` says so, and its results are right."""
    exercise = exercise_of(*key)
    if state != "right":
        return Grade("wrong" if state == "wrong" else "not attempted", _short(text))
    values = [unpacked(each) for each in found]
    if not isinstance(exercise, Exercise):
        problem = exercise.problem(values[0])
        return Grade("wrong", _short(problem)) if problem else Grade("right")
    if same(exercise, values):
        return Grade("right")
    raised = [each.says for each in values if isinstance(each, Other) and each.says]
    says = raised[0] if raised else "its results are not right"
    return Grade("wrong", _short(f"`check` says that it is right, but here {says}"))


def _short(text: Any) -> str:
    """The words of `check` in one line: without the case, and how to try it."""
    lines, beside = str(text).splitlines(), (" ", "in case", "Try it")
    return shown(" ".join(each for each in lines if not each.startswith(beside)))


# --- The processes of a learner -------------------------------------------------------


def _run_all(work: tuple) -> tuple[list[tuple[Key, dict, dict]], list[str]]:
    """(exercise, words of `check`, results) of one learner's answers, and the fence."""
    hand_in, wanted, seed, seconds = work
    said: list[tuple[Key, dict, dict]] = []
    held: list[str] = []
    kept = dict(hand_in.kept)

    def run(books: list[Book], tasks: list[tuple[int, Key]], asked: str) -> list[dict]:
        """The lines asked for, of each task (number of the book, exercise), from one
        process. Where it is stopped, another goes on behind the one that stopped it, as
        long as there is time for all of them.
        """
        lines: list[dict] = []
        until = time.monotonic() + seconds * (len(tasks) + 1)
        while len(lines) < len(tasks):
            left = tasks[len(lines) :]
            more = min(seconds * (len(left) + 1), until - time.monotonic())
            if more <= 0:
                lines += [{"ended": "the time for all answers is used up"}] * len(left)
                break
            job = {
                "asked": asked,
                "seconds": more,
                "kept": kept,
                "notebooks": [(book.name, book.cells) for book in books],
                "tasks": [(k, *key, seed_of(seed, *key)) for k, key in left],
            }
            found, ended = _process(job, seconds)
            held[:] = held or next((x["held"] for x in found if "held" in x), [])
            for k in range(len(left)):
                line = next((x for x in found if x.get("end") == k), {"ended": ended})
                lines.append(line)
                if "ended" in line:
                    break
        return lines

    def both(books: list[Book], tasks: list[tuple[int, Key]]) -> None:
        results = run(books, tasks, "results")
        came = [k for k, each in enumerate(results) if "ended" not in each]
        words = run(books, [tasks[k] for k in came], "words")
        told = dict(zip(came, words, strict=True))
        for k, (_, key) in enumerate(tasks):
            said.append((key, told.get(k, {}), results[k]))

    for book in hand_in.books:
        both([book], [(0, key) for key in wanted if key in book.answers])
    texts = [
        (key, text)
        for key in wanted
        for name, text in hand_in.kept
        if name == f"{'.'.join(key)}.py"
    ]
    books = [Book("your kept answer", [text]) for _, text in texts]
    both(books, [(k, key) for k, (key, _) in enumerate(texts)])
    return said, held


def _process(job: dict[str, Any], seconds: float) -> tuple[list[dict], str]:
    """(the lines that a process says, how it ended). For each it has some `seconds`."""
    with (
        tempfile.TemporaryDirectory(
            prefix="tinyrmc-", ignore_cleanup_errors=True
        ) as folder,
        tempfile.TemporaryFile() as asked,
        tempfile.TemporaryFile() as told,
        tempfile.TemporaryFile() as complaints,
    ):
        asked.write(json.dumps(job).encode())
        asked.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tinyrmc.course.grading.bench"],
            cwd=folder,
            env=_environment(folder),
            stdin=asked,
            stdout=told,
            stderr=complaints,
            start_new_session=True,
        )
        try:
            stopped = _watched(
                process, told.fileno(), Path(folder), seconds, job["seconds"]
            )
        finally:  # end it, and all that it has begun
            if hasattr(os, "killpg"):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
        told.seek(0)
        complaints.seek(0)
        last = complaints.read()[-300:].decode(errors="replace").strip()
        ended = f"its process has ended by itself (code {process.returncode}) {last}"
        return [*_lines(told.read(MOST))], stopped or ended


def _environment(folder: str) -> dict[str, str]:
    """Nothing of the teacher's but where Python and its packages are."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
        "SYSTEMROOT": os.environ.get("SYSTEMROOT", ""),
        "HOME": folder,
        "TMPDIR": folder,
        "MPLCONFIGDIR": folder,
        "MPLBACKEND": "Agg",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TINYRMC_PROGRESS": str(Path(folder) / "progress"),
    }


def _watched(
    process: subprocess.Popen, told: int, folder: Path, each: float, all: float
) -> str:
    """Wait for a process. Why it must be stopped, if it says nothing new for too long,
    never ends or fills the disk; else "".
    """
    size, heard, began = 0, time.monotonic(), time.monotonic()
    while True:
        try:
            process.wait(0.05)
            return ""
        except subprocess.TimeoutExpired:
            now, length = time.monotonic(), os.fstat(told).st_size
            if length != size:
                size, heard = length, now
            if now - heard > each:
                return f"it has not come to an end after {each:g} seconds"
            if now - began > all:
                return "the time for all answers is used up"
            if _fills(folder):
                return f"it writes more than {FILES} files or {DISK >> 20} MB"


def _fills(folder: Path) -> bool:
    """Whether there are too many files in a folder, or too large ones."""
    count = size = 0
    for place, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        for name in files[:FILES]:
            with contextlib.suppress(OSError):  # gone by now
                size += os.lstat(os.path.join(place, name)).st_size
        if count > FILES or size > DISK:
            return True
    return False


def _lines(data: bytes) -> Iterator[dict]:
    for line in data.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # cut short, or not ours
            continue
        if isinstance(found, dict):
            yield found
