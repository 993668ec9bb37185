"""Make an assignment for nbgrader of a chapter.

    tinyrmc assignment chapters/06_attention.ipynb --out source --seed 20260911
    nbgrader generate_assignment 06_attention

The first writes source/06_attention/06_attention.ipynb, in the folder of an nbgrader
course. Each exercise is worth a point, and its hidden tests draw their cases from the
seed. nbgrader is another program (python -m pip install 'tinyrmc[nbgrader]'), which has
its own ways to hand out, collect and grade. It runs a learner's whole notebook; set
TINYRMC_FAST=1 so that training is cut short.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError, UserError, unwritable, why
from .commands import Parser, program


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = Parser(program("assignment"), (__doc__ or "").rstrip())
    add = parser.add_argument
    add("chapter", type=Path, metavar="NOTEBOOK", help="a chapter's notebook")
    says = "the folder `source` of an nbgrader course"
    add("--out", type=Path, metavar="FOLDER", required=True, help=says)
    says = "draws the hidden cases"
    add("--seed", type=int, metavar="NUMBER", required=True, help=says)
    add("--points", type=float, default=1.0, metavar="NUMBER", help="of each exercise")
    options = parser.parse_args(argv)
    from ..course.grading.assignment import assignment
    from ..course.grading.hand_ins import Unfit, cells_of

    chapter: Path = options.chapter
    try:
        text = chapter.read_text(encoding="utf-8")
        cells_of(text)
    except OSError as problem:
        raise UsageError(f"{chapter} cannot be read: {why(problem)}") from None
    except (Unfit, UnicodeDecodeError) as problem:
        raise UsageError(f"{chapter}: {problem}") from None
    try:
        made = assignment(json.loads(text), options.seed, options.points)
    except UserError as problem:
        raise UserError(f"{chapter}: {problem}") from None
    file = options.out / chapter.stem / chapter.name
    if file.exists():
        raise UsageError(f"{file} exists already; choose another folder")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
        file.write_text(written, encoding="utf-8", newline="\n")
    except OSError as problem:
        raise UserError(unwritable(file, problem, "choose another folder")) from None
    count = sum("nbgrader" in cell["metadata"] for cell in made["cells"])
    print(f"{file}: {count} exercises")
    return 0
