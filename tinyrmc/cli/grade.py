"""Grade what learners have handed in.

    tinyrmc grade HAND_INS --out grades.csv
    tinyrmc grade HAND_INS --out grades.csv --chapters 03 06 --seed 20260911

HAND_INS is a folder. Each of its folders, zips ("Download my work") and notebooks
belongs to one learner: anna/, anna.zip, anna_06_attention.ipynb, anna.progress.json.
Answers are tried on cases that check does not show, drawn from the seed: keep it, and
you can repeat the grades. Solutions are locked: an answer that calls one is wrong.

Each notebook runs in a process of its own, with little time and memory, and of its
cells only what its answers need. On Linux the system itself keeps it from the network,
from other processes and from all files but Python's and those in a folder of its own.
On other systems a hook in Python does, which is less: there, grade strangers' notebooks
in a container. What it does not guard against: chapters/teaching/README.md, "Grading".
"""

from __future__ import annotations

import csv
import io
import os
import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..backend.files import replace
from ..errors import UsageError, UserError, counted, unwritable
from .commands import Parser, program

if TYPE_CHECKING:
    from ..course.grading.grades import Key, Row


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = _options(argv)
    # here, since other commands need no course
    from ..course import proof
    from ..course.grading import grades, hand_ins

    folder: Path = options.folder
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give one with what was handed in")
    if options.out is not None and options.out.exists() and not options.replace:
        raise UsageError(f"--out {options.out} exists already; --replace writes anew")
    key = proof.read_key(options.key) if options.key else None
    if (key is None) != (options.signed is None):
        raise UsageError("--key and --signed belong together")
    found = hand_ins.read(folder)
    for hand_in in found:
        for problem in hand_in.problems:
            print(f"left out: {problem}", file=sys.stderr)
    wanted = _wanted(options.chapters, found)
    if not wanted or not found:
        raise UserError(
            f"{folder} holds no notebook of the course; give a folder with notebooks "
            "(.ipynb), or the zips that Download my work makes"
        )
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9)
    count = counted(len(found), "learner")
    print(f"{count}, {counted(len(wanted), 'exercise')}, --seed {seed}", flush=True)
    rows = grades.grade(found, [*wanted], seed, options.seconds, options.workers, _tell)
    _tell_of_fence(rows)
    if options.out is not None:
        _write(table(rows, wanted), options.out)
        print(options.out)
    if key is not None:
        _sign(rows, options.signed, key)
    return 0


def _options(argv):
    about = (
        "Grade what learners have handed in.\n\n" + (__doc__ or "").partition("\n\n")[2]
    )
    parser = Parser(program("grade"), about.rstrip())
    add = parser.add_argument
    add("folder", type=Path, metavar="HAND_INS", help="a folder of what was handed in")
    says = "write the grades there, a row for each learner"
    add("--out", type=Path, metavar="FILE.csv", help=says)
    add("--replace", action="store_true", help="--out may replace a file")
    says = "draws the cases; by default another one each time, which is printed"
    add("--seed", type=int, metavar="NUMBER", help=says)
    says = "grade these; by default all that anybody has handed in"
    add("--chapters", nargs="+", type=int, metavar="NN", default=(), help=says)
    says = "that one exercise may take (default: %(default)g)"
    add("--seconds", type=float, default=30.0, metavar="NUMBER", help=says)
    says = "learners at a time (default: the cores, at most 8)"
    cores = min(8, os.cpu_count() or 1)
    add("--workers", type=int, default=cores, metavar="NUMBER", help=says)
    says = "a secret of yours, to sign with what was found right"
    add("--key", type=Path, metavar="FILE", help=says)
    says = "write a signed file of progress for each learner there"
    add("--signed", type=Path, metavar="FOLDER", help=says)
    options = parser.parse_args(argv)
    for name, least in (("seconds", 1), ("workers", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise UsageError(f"--{name} must be at least {least}, got {value:g}")
    return options


def _wanted(numbers, found) -> dict[Key, int]:
    """The exercises to grade, with their chapters."""
    from ..course.grading import grades

    every = grades.graded()
    for number in numbers:
        if number not in every.values():
            raise UsageError(f"--chapters {number}: there is no such chapter to grade")
    if not numbers:
        answered = {
            key for each in found for book in each.books for key in book.answers
        }
        answered |= {tuple(n.split(".")[:2]) for each in found for n, _ in each.kept}
        numbers = {every[key] for key in answered if key in every}
    return {key: number for key, number in every.items() if number in numbers}


def _tell(row: Row) -> None:
    wrong = [
        f"{name} {each.state}"
        for (_, name), each in row.grades.items()
        if each.state != "right"
    ]
    shown = ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if wrong[3:] else "")
    score = f"{row.right:3} of {len(row.grades)}"
    print(f"{row.hand_in.learner:20} {score}  {shown}".rstrip(), flush=True)


def _tell_of_fence(rows) -> None:
    held: list[str] = next((row.held for row in rows if row.held), [])
    by = f"the system held: {', '.join(held)}" if held else "only Python held the fence"
    print(f"Each notebook ran in a process of its own; {by}.")


COLUMNS = ("learner", "right", "of", "percent", "not right", "why", "read", "left out")


def table(rows: Sequence[Row], wanted: dict[Key, int]) -> list[list[str]]:
    """The head and a row for each learner; after COLUMNS, one for each exercise."""
    from ..course.grading import grades

    heads = [f"{number:02} {name}" for (_, name), number in wanted.items()]
    lines = [[*COLUMNS, *heads]]
    read = {key for key in wanted if grades.to_be_read(*key)}
    for row in rows:
        failed = {k: each for k, each in row.grades.items() if each.state != "right"}
        whys = [f"{key[1]}: {each.why}" for key, each in failed.items() if each.why]
        own = [key[1] for key in read if row.grades[key].state == "right"]
        lines.append(
            [
                row.hand_in.learner,
                str(row.right),
                str(len(row.grades)),
                f"{100 * row.right / len(row.grades):.1f}",
                "; ".join(key[1] for key in failed),
                " | ".join(whys),
                "; ".join(own),
                " | ".join(row.hand_in.problems),
                *(row.grades[key].state for key in wanted),
            ]
        )
    return [[_harmless(cell) for cell in line] for line in lines]


def _harmless(cell: str) -> str:
    """A cell that a spreadsheet does not take for a formula, also where it takes a
    semicolon for the end of a cell, as in much of Europe.
    """
    return re.sub(r"(^|;)(\s*[=+@\-\uff1d\uff0b\uff0d\uff20])", r"\1'\2", cell)


def _write(lines: list[list[str]], out: Path) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    try:
        replace(out, text.getvalue().encode("utf-8-sig"))
    except OSError as error:
        raise UserError(unwritable(out, error, "choose another place")) from None


def _sign(rows: Sequence[Row], folder: Path, key: bytes) -> None:
    from ..course import proof

    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        right = [".".join(k) for k, each in row.grades.items() if each.state == "right"]
        contents = proof.signed(proof.made(row.hand_in.learner, right, {}), key)
        proof.write(contents, folder / f"{row.hand_in.learner}.progress.json")
    print(f"{counted(len(rows), 'signed file')} in {folder}")
