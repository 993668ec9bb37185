"""A chapter as an assignment of nbgrader.

Each exercise gets a cell of its own for its `check`, which nbgrader locks and gives
points. Below the check, between nbgrader's marks for hidden tests, the answer is tried
on the teacher's own cases; `nbgrader generate_assignment` takes that away from what
learners get, and `nbgrader autograde` puts it back. The cells for answers stay as they
are. Nothing here imports nbgrader: an assignment is a notebook with some metadata.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from ...errors import UserError
from ..exercises.exercise import Exercise
from .grades import graded, seed_of
from .hand_ins import called

CHECK = re.compile(r"^(\w+)\.(\w+)\.check\((\w+)\)$", re.MULTILINE)
HIDDEN = """{check}
### BEGIN HIDDEN TESTS
from tinyrmc.course.grading.assignment import demand

demand({exercise}, {answer}, seed={seed})
### END HIDDEN TESTS"""


def demand(exercise: Any, answer: Any, seed: int) -> None:
    """AssertionError, in the words of `check`, unless right on the cases of a seed."""
    if not isinstance(exercise, Exercise):
        problem = exercise.problem(answer)
        assert not problem, problem
        return
    before, exercise.seed = exercise.seed, seed
    try:
        verdict = exercise.judge(answer)
    finally:
        exercise.seed = before
    assert verdict.state == "right", str(verdict)


def assignment(notebook: dict[str, Any], seed: int, points: float = 1) -> dict:
    """A copy of a chapter's notebook for nbgrader; UserError if it has no exercise."""
    known, cells, done = graded(), [], set()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        found = CHECK.search(source) if cell["cell_type"] == "code" else None
        key = _key(notebook, found) if found else None
        if found is None or key not in known or key in done:
            cells.append(copy.deepcopy(cell))
            continue
        done.add(key)
        head = {**copy.deepcopy(cell), "source": source[: found.start()].rstrip()}
        head |= {"outputs": [], "execution_count": None}
        if head["source"]:
            cells.append(head)
        alias, name, answer = found.groups()
        test = HIDDEN.format(
            check=source[found.start() :].rstrip(),
            exercise=f"{alias}.{name}",
            answer=answer,
            seed=seed_of(seed, *key),
        )
        identity = f"{known[key]:02}-{name}"
        mark: dict[str, Any] = {"grade": True, "solution": False, "locked": True}
        mark |= {"task": False, "schema_version": 3}
        mark |= {"grade_id": identity, "points": points}
        new = {"cell_type": "code", "id": identity, "source": test, "outputs": []}
        cells.append({**new, "execution_count": None, "metadata": {"nbgrader": mark}})
    if not done:
        raise UserError("it has no exercise that can be graded by a program")
    return {**notebook, "cells": cells}


def _key(notebook: dict[str, Any], found: re.Match) -> tuple[str, str]:
    """The exercise that a line with `check` is about."""
    code = "\n".join(
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    )
    imports = "\n".join(line for line in code.splitlines() if "import" in line)
    return next(iter(called(f"{imports}\n{found[0]}")), ("", ""))
