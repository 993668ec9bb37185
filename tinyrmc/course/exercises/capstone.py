"""Chapter 24: three tasks for a network of the learner's own, and a report card."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .. import record
from ..limits import line_of_error
from .exercise import UNWRITTEN, is_empty

Draw = Callable[..., tuple[np.ndarray, np.ndarray]]
HELD_OUT, QUESTIONS = 2026, 2000  # a seed that no training should draw from
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)])  # up, right, down, left
# Between which neighbours (x, y) of the 4 x 4 maze there is a wall
PAIRS = "00 10, 11 12, 21 31, 02 03, 22 32, 22 23, 13 23"
WALLS = {
    frozenset(tuple(map(int, cell)) for cell in pair.split())
    for pair in PAIRS.split(", ")
}


@dataclass(frozen=True)
class Task:
    """A task: draw(rng, count, size) -> inputs (B, T, D), right answers (B,)."""

    name: str
    draw: Draw
    baselines: dict[str, float]
    threshold: float
    question: str = ""
    size: int = 0
    """pairs, vectors or moves in training and in the test"""
    larger: int = 0
    """the same, further on than training ever goes"""
    answers: int = 0
    """how many different answers there are"""
    chapter: str = "capstone"

    def check(self, predict: Callable[[np.ndarray], np.ndarray]) -> None:
        """Print a report card of predict(inputs (B, T, D)) -> answers (B,)."""
        print(report(self, predict))


def draw_recall(rng, count, size):
    """Pairs of a key and a value, each one-hot of 6; then a key alone: which value was
    its?
    """
    one_hot = np.eye(6, dtype=np.float32)
    keys = rng.permuted(np.tile(np.arange(6), (count, 1)), axis=1)[:, :size]
    values = rng.integers(6, size=(count, size))
    asked = rng.integers(size, size=count)
    rows = np.arange(count)
    pairs = np.concatenate([one_hot[keys], one_hot[values]], axis=-1)
    question = np.zeros((count, 1, 12), np.float32)
    question[:, 0, :6] = one_hot[keys[rows, asked]]
    return np.concatenate([pairs, question], axis=1), values[rows, asked]


def draw_distances(rng, count, size):
    """Points in the plane, two numbers each, with labels, one-hot of 6; then a point
    without one: which label has the point nearest to it?
    """
    points = rng.uniform(-1, 1, (count, size + 1, 2)).astype(np.float32)
    labels = rng.permuted(np.tile(np.arange(6), (count, 1)), axis=1)[:, :size]
    inputs = np.zeros((count, size + 1, 2 + 6), np.float32)
    inputs[..., :2] = points
    inputs[:, :-1, 2:] = np.eye(6, dtype=np.float32)[labels]
    away = np.linalg.norm(points[:, :-1] - points[:, -1:], axis=-1)
    return inputs, labels[np.arange(count), away.argmin(axis=1)]


def draw_maze(rng, count, size):
    """Moves, one-hot of 4, in a maze of 4 x 4 cells, from cell 0; a move into a wall
    does nothing: which cell, 0 to 15, do they lead to?
    """
    moves = rng.integers(4, size=(count, size))
    at = np.zeros((count, 2), int)
    for step in moves.T:
        to = np.clip(at + MOVES[step], 0, 3)
        free = [
            frozenset((tuple(a.tolist()), tuple(b.tolist()))) not in WALLS
            for a, b in zip(at, to, strict=True)
        ]
        at = np.where(np.array(free)[:, None], to, at)
    return np.eye(4, dtype=np.float32)[moves], 4 * at[:, 1] + at[:, 0]


recall = Task(
    "recall",
    draw_recall,
    {"a guess": 1 / 6, "the value shown most often": 0.49},
    threshold=0.9,
    question="which value came with this key?",
    size=3,
    larger=5,
    answers=6,
)
distances = Task(
    "distances",
    draw_distances,
    {"a guess": 1 / 6, "by the points' own norms": 0.47},
    threshold=0.75,
    question="which point is nearest to the last one?",
    size=3,
    larger=5,
    answers=6,
)
maze = Task(
    "maze",
    draw_maze,
    {"a guess": 1 / 16, "the most frequent cell": 0.29},
    threshold=0.9,
    question="to which cell do these moves lead?",
    size=8,
    larger=16,
    answers=16,
)


def own(name, draw, baselines, threshold):
    """A task of your own: draw(rng, count) -> inputs (B, T, D), answers (B,)."""
    return Task(name, lambda rng, count, size: draw(rng, count), baselines, threshold)


def report(task: Task, predict: Callable[[np.ndarray], np.ndarray]) -> str:
    """The report card, in lines."""
    if is_empty(predict):
        return str(UNWRITTEN)
    inputs, targets = task.draw(np.random.default_rng(HELD_OUT), QUESTIONS, task.size)
    try:
        began = time.perf_counter()
        answers = np.asarray(predict(inputs.copy()))
        seconds = time.perf_counter() - began
        alone = np.concatenate([np.ravel(predict(row[None])) for row in inputs[:20]])
    except Exception as problem:
        where = line_of_error(problem.__traceback__)
        return f"wrong: predict raises {type(problem).__name__}: {problem}{where}"
    if answers.shape != targets.shape:
        return (
            f"wrong: predict gives {answers.shape}, and {targets.shape} are asked for"
        )
    accuracy = np.mean(answers == targets)
    lines = [f"Report card: {task.name}", f"  {'right, held out':27}{accuracy:6.1%}"]
    lines += [f"  {name:27}{value:6.1%}" for name, value in task.baselines.items()]
    error = (accuracy * (1 - accuracy) / len(targets)) ** 0.5
    lines.append(f"  chance alone moves the first number by {100 * error:.1f} points")
    if task.larger:
        more, right = task.draw(np.random.default_rng(1), 500, task.larger)
        try:
            share = f"{np.mean(np.asarray(predict(more)) == right):6.1%}"
        except Exception as problem:
            share = f"raises {type(problem).__name__}"
        lines.append(f"  {f'{task.larger} in place of {task.size}':27}{share}")
    same = "the same" if np.array_equal(alone, answers[:20]) else "OTHER"
    lines.append(f"  one question at a time gives {same} answers")
    lines.append(f"  {1e3 * seconds / len(targets):.2f} ms for a question")
    if same == "OTHER":
        lines.append("not passed: an answer must not depend on the rest of its batch")
    elif accuracy >= task.threshold:
        lines.append(f"passed: the threshold is {task.threshold:.0%}")
        record.solved("capstone", task.name)
    else:
        lines.append(f"not passed yet: the threshold is {task.threshold:.0%}")
    return "\n".join(lines)
