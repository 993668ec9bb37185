"""Chapter 24: three tasks for a network of the learner's own, and a report card."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import record
from ..compare import Wrong
from ..limits import line_of_error
from ..panels import check_names, drawn, levels, new_panel
from .exercise import UNWRITTEN, is_empty, wrapped
from .experiments import Report
from .used import used

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
    """A task: draw(rng, count, size) -> inputs (B, T, D), right answers (B,).

    One question in five is held out: `draw` never gives it, and the report card asks
    only these. A question's bytes decide which, so no question is on both sides.
    """

    name: str
    make: Draw
    """draws of all questions"""
    baselines: dict[str, Baseline]
    """shares of right answers, or what gives them: f(inputs, right answers)"""
    threshold: float
    question: str = ""
    size: int = 0
    """pairs, vectors or moves in training and in the test"""
    larger: int = 0
    """the same, further on than training ever goes"""
    longer: float = 0.0
    """the threshold there; more, where chance brings a baseline near it"""
    answers: int = 0
    """how many different answers there are"""
    chapter: str = "capstone"

    def draw(self, rng, count, size=0, held_out=False):
        """Questions to train on; with `held_out`, those that are never trained on.
        ValueError if a task has too few different questions for both.
        """
        inputs, answers = self.make(rng, 8 * count if held_out else 2 * count, size)
        for tries in itertools.count():
            last = [zlib.crc32(np.ascontiguousarray(each).data) % 5 for each in inputs]
            kept = (np.array(last) == 0) == held_out
            if kept.sum() >= count:
                return inputs[kept][:count], answers[kept][:count]
            if tries == 100 and not kept.any():
                side = "is held out" if held_out else "is there to train on"
                raise ValueError(
                    f"no question of {self.name!r} {side}, of {len(inputs)} drawn: it "
                    "needs more different questions"
                )
            more = self.make(rng, count, size)
            inputs = np.concatenate([inputs, more[0]])
            answers = np.concatenate([answers, more[1]])

    def check(self, *networks: Predict, untrained: Predict | None = None) -> None:
        """Print a report card of predict(inputs (B, T, D)) -> answers (B,), one for
        each seed, and one of a network that was not trained.
        """
        text, passed = report(self, networks, untrained)
        print(text)
        if passed:
            record.solved("capstone", self.name)

    def shares(self, inputs: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        """The shares of these questions that the baselines get right."""
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
    longer=0.65,
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

taken_away = Report("capstone", "taken_away", trained=False)


def _drawn(answer, runs, baseline):
    """The heights under each label, of what an answer draws."""
    panel = new_panel()
    answer(panel, runs, baseline)
    check_names(panel)
    found = {each.label: each.y for each in drawn(panel)}
    if lost := [name for name in runs if name not in found]:
        raise Wrong(f"there is no {lost[0]!r} in the picture: give each a label")
    if not any(np.isclose(each, baseline) for each in levels(panel)):
        raise Wrong("the baseline is not in the picture: panel.axhline(baseline)")
    return {name: np.sort(found[name]) for name in runs}


@used(
    _drawn,
    cases=lambda rng: [
        ({"as it is": [0.9, 0.8, 0.85], "wiped": [0.2, 0.3, 0.25]}, 0.3),
        ({"two slots": [*rng.random(5)], "one slot": [*rng.random(5)]}, 0.5),
        ({"a": [0.1, 0.4, 0.2], "b": [0.4, 0.1, 0.3], "c": [0.5, 0.6, 0.7]}, 0.2),
    ],
    hints=[
        "Go through runs.items(): a kind's numbers all stand at one place, 0 for the "
        "first kind, 1 for the second.",
        'panel.plot([place] * len(numbers), numbers, "o", label=name), then '
        "panel.axhline(baseline), panel.legend(), and names for both axes.",
    ],
    mistakes="""
        you draw the mean of the runs: nobody sees how far the seeds lie apart
            [place] * len(numbers), numbers, -> [place], [np.mean(numbers)],
        you draw the best run alone
            [place] * len(numbers), numbers, -> [place], [max(numbers)],
        places and numbers have changed places: what was measured goes upwards
            [place] * len(numbers), numbers, -> numbers, [place] * len(numbers),
    """,
)
def picture(panel, runs, baseline):
    """Draw every run as a point, those of one kind under one label, and the baseline as
    a line across. runs: {kind: [a share of right answers for each seed]}.
    """
    for place, (name, numbers) in enumerate(runs.items()):
        panel.plot([place] * len(numbers), numbers, "o", label=name)
    panel.axhline(baseline, color="0.6", ls="--")
    panel.set_xticks(range(len(runs)), runs)
    panel.set(xlim=(-0.5, len(runs) - 0.5), xlabel="network", ylabel="right answers")
    panel.legend()


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

    Its questions are drawn now, from those that training never meets.
    """
    if not networks or is_empty(networks[0]):
        return str(UNWRITTEN), False
    rng = np.random.default_rng()
    tests = {"held out": task.draw(rng, QUESTIONS, task.size, held_out=True)}
    if task.larger:
        tests[f"{task.larger} in place of {task.size}"] = task.draw(
            rng, QUESTIONS, task.larger, held_out=True
        )
    lines, missing = [f"Report card: {task.name}"], []
    try:
        for name, test in tests.items():
            baselines = task.shares(*test)
            leader = max(baselines, key=baselines.__getitem__, default="")
            best = baselines.get(leader, 0.0)
            ahead = best + _error(best)
            wanted = max(task.threshold if name == "held out" else task.longer, ahead)
            found = [_right(predict, *test) for predict in networks]
            shares = {f"seed {k}": x for k, x in enumerate(found)} | baselines
            lines += [f"  {name}", *(f"    {k:26}{x:6.1%}" for k, x in shares.items())]
            lines.append(f"    chance alone moves a seed's number {_by(min(found))}")
            if name == "held out" and task.threshold <= best:
                missing.append(f"a threshold above every baseline, {best:.0%}")
            elif min(found) < wanted:
                why = f" ({leader!r} and its error)" if wanted == ahead else ""
                missing.append(f"{name}, {100 * wanted:.3g}% with each seed{why}")
        if untrained is not None:
            start = _right(untrained, *tests["held out"])
            lines.append(f"  {'held out, untrained':28}{start:6.1%}")
            if start >= task.threshold:
                missing.append("something learnt: it is right before any training")
    except Wrong as problem:
        return f"wrong: {problem}", False
    if len(networks) < 2:
        missing.append("a second seed, as a second argument")
    elif len({*networks}) < len(networks):
        missing.append("another network for each seed: one is given twice")
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
    return f"by {100 * _error(share):.1f} points or so"


def _error(share: float) -> float:
    """The standard error of a share of QUESTIONS."""
    return (share * (1 - share) / QUESTIONS) ** 0.5
