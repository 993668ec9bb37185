"""Chapter 24: three tasks for a network of the learner's own, and a report card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import record
from ..compare import Wrong
from ..limits import line_of_error
from .exercise import UNWRITTEN, is_empty, wrapped
from .experiments import Report

Draw = Callable[..., tuple[np.ndarray, np.ndarray]]
Predict = Callable[[np.ndarray], np.ndarray]
Baseline = float | Callable[[np.ndarray, np.ndarray], float]
QUESTIONS = 2000
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
    baselines: dict[str, Baseline]
    """shares of right answers, or what gives them: f(inputs, right answers)"""
    threshold: float
    question: str = ""
    size: int = 0
    """pairs, vectors or moves in training and in the test"""
    larger: int = 0
    """the same, further on than training ever goes"""
    longer: float = 0.0
    """the threshold there"""
    answers: int = 0
    """how many different answers there are"""
    chapter: str = "capstone"

    def check(self, *networks: Predict, untrained: Predict | None = None) -> None:
        """Print a report card of predict(inputs (B, T, D)) -> answers (B,), one for
        each seed, and one of a network that was not trained.
        """
        text, passed = report(self, networks, untrained)
        print(text)
        if passed:
            record.solved("capstone", self.name)

    def shares(self, inputs: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        """What the baselines get right of these questions."""
        return {
            name: each(inputs, targets) if callable(each) else each
            for name, each in self.baselines.items()
        }


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


def _shown_most(inputs, targets):
    return np.mean(inputs[:, :-1, 6:].sum(axis=1).argmax(axis=-1) == targets)


def _of_points(score):
    """How often the highest score(points (B, k, 2), last (B, 1, 2)) has the answer."""

    def share(inputs, targets):
        best = score(inputs[:, :-1, :2], inputs[:, -1:, :2]).argmax(axis=1)
        labels = inputs[:, :-1, 2:].argmax(axis=-1)
        return np.mean(labels[np.arange(len(best)), best] == targets)

    return share


recall = Task(
    "recall",
    draw_recall,
    {"a guess": 1 / 6, "the value shown most often": _shown_most},
    threshold=0.9,
    question="which value came with this key?",
    size=3,
    larger=5,
    longer=0.6,
    answers=6,
)
distances = Task(
    "distances",
    draw_distances,
    {
        "a guess": 1 / 6,
        "by the points' own norms": _of_points(lambda x, _: -(x * x).sum(axis=-1)),
        "by the dot product": _of_points(lambda x, last: (x * last).sum(axis=-1)),
    },
    threshold=0.8,
    question="which point is nearest to the last one?",
    size=3,
    larger=5,
    longer=0.4,
    answers=6,
)
maze = Task(
    "maze",
    draw_maze,
    {
        "a guess": 1 / 16,
        "the most frequent cell": lambda _, y: float(np.bincount(y).max() / len(y)),
    },
    threshold=0.9,
    question="to which cell do these moves lead?",
    size=8,
    larger=16,
    longer=0.7,
    answers=16,
)
taken_away = Report("capstone", "taken_away")


def own(name, draw, baselines, threshold):
    """A task of your own: draw(rng, count) -> inputs (B, T, D), answers (B,)."""
    for baseline, share in baselines.items():
        if not callable(share) and share >= threshold:
            raise ValueError(
                f"{baseline!r} gets {share:.0%}, so a threshold of {threshold:.0%} "
                "shows nothing: set a higher one"
            )
    return Task(name, lambda rng, count, size: draw(rng, count), baselines, threshold)


def report(
    task: Task, networks: Sequence[Predict], untrained: Predict | None = None
) -> tuple[str, bool]:
    """The report card, and whether it is passed.

    Its questions are drawn now, so that nobody can have seen them.
    """
    if not networks or is_empty(networks[0]):
        return str(UNWRITTEN), False
    rng = np.random.default_rng()
    tests = {"held out": task.draw(rng, QUESTIONS, task.size)}
    if task.larger:
        tests[f"{task.larger} in place of {task.size}"] = task.draw(
            rng, QUESTIONS, task.larger
        )
    lines, missing = [f"Report card: {task.name}"], []
    try:
        for name, test in tests.items():
            baselines = task.shares(*test)
            wanted = task.threshold if name == "held out" else task.longer
            best = max(baselines.values(), default=0.0)
            found = [_right(predict, *test) for predict in networks]
            shares = {f"seed {k}": x for k, x in enumerate(found)} | baselines
            lines += [f"  {name}", *(f"    {k:26}{x:6.1%}" for k, x in shares.items())]
            lines.append(f"    chance alone moves a seed's number {_by(min(found))}")
            if name == "held out" and wanted <= best:
                missing.append(f"a threshold above every baseline, {best:.0%}")
            elif min(found) < wanted:
                missing.append(f"{name}, {wanted:.0%} with each seed")
        if untrained is not None:
            start = _right(untrained, *tests["held out"])
            lines.append(f"  {'held out, untrained':28}{start:6.1%}")
            if start >= task.threshold:
                missing.append("something learnt: it is right before any training")
    except Wrong as problem:
        return f"wrong: {problem}", False
    if len(networks) < 2:
        missing.append("a second seed, as a second argument")
    if untrained is None:
        missing.append("a control, untrained=, the same network before training")
    verdict = f"not passed yet: {'; '.join(missing)}" if missing else "passed"
    return "\n".join([*lines, wrapped(verdict)]), not missing


def _right(predict: Predict, inputs: np.ndarray, targets: np.ndarray) -> float:
    """The share of right answers; `Wrong` where they are none, or depend on others."""
    try:
        answers = np.asarray(predict(inputs.copy()))
        alone = np.concatenate([np.ravel(predict(row[None])) for row in inputs[:20]])
    except Exception as problem:
        where = line_of_error(problem.__traceback__)
        raise Wrong(
            f"predict raises {type(problem).__name__}: {problem}{where}"
        ) from problem
    if answers.shape != targets.shape:
        raise Wrong(f"predict gives {answers.shape}, and {targets.shape} are asked for")
    if not np.array_equal(alone, answers[:20]):
        raise Wrong("an answer depends on the rest of its batch: alone it is another")
    return float(np.mean(answers == targets))


def _by(share: float) -> str:
    """How far the share of QUESTIONS right answers is known, in points."""
    if share in (0, 1):  # the rule of three: else 5 % would see none in so many
        return f"by up to {300 / QUESTIONS:.2f} points"
    return f"by {100 * (share * (1 - share) / QUESTIONS) ** 0.5:.1f} points or so"
