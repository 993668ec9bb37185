"""The judges of experiments that a learner has thought up.

Nobody knows what they measure. `report` judges by what one returns: settings, a number
for each, and a claim that the numbers support, whatever the seed. `Report` is for
experiments that take long, whose runs a learner reports:

    report = {
        "question": "does a second hop help on task 1?",
        "runs": {"one hop": [0.31, 0.28, 0.30], "two hops": [0.02, 0.00, 0.04]},
        "conclusion": "one hop",
        "rates": [0.005],
        "not shown": "whether a third hop would help more",
    }
    ex.experiment.check(report)

The conclusion names the kind whose numbers are higher, or says "cannot tell". A
permutation test judges, so more runs can tell smaller differences, if their number was
fixed before the first of them ran. `rates` are the learning rates of the runs.

`Picture` is for what a learner draws: `ex.picture.check(panel)` asks whether a reader
could understand it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import panels, record
from ..compare import Wrong
from ..evidence import by_chance

CLAIMS = ("rises", "falls", "stays", "neither")
RIGHT = "its numbers support the claim"


def borne_out(measured: np.ndarray) -> str:
    """The claim that numbers allow: "stays" if they differ by less than a tenth of the
    largest, or by no more than rounding; "rises" or "falls" if nine in ten pairs do.
    """
    if np.ptp(measured) <= max(0.1 * abs(measured).max(), 1e-12):
        return "stays"
    later, earlier = np.tril_indices(len(measured), -1)
    rising = np.mean(measured[later] > measured[earlier])
    falling = np.mean(measured[later] < measured[earlier])
    return "rises" if rising >= 0.9 else "falls" if falling >= 0.9 else "neither"


def report(subject: str, array: bool = False) -> Callable[..., Any]:
    """run(answer, function, seed), for `used`; `subject` is the function's name.

    array: it returns an array, so that numbers can be told which do not come from it.
    """

    def run(answer, function, seed):
        calls = 0

        def counted(*arguments, **named):
            nonlocal calls
            calls += 1
            return function(*arguments, **named)

        found, again = answer(counted, seed), answer(counted, seed)
        if found is None:
            return None
        _, measured, claim = _parts(found)
        if not calls:
            raise Wrong(f"it does not call {subject}: measure that")
        if not np.array_equal(measured, _parts(again)[1]):
            raise Wrong(
                "it measures something else when it runs again: draw with "
                "np.random.default_rng(seed)"
            )
        if array and np.array_equal(measured, _disturbed(answer, function, seed)):
            raise Wrong(
                f"it measures the same where {subject} returns something else: its "
                f"numbers do not come from what {subject} returns"
            )
        _, other, _ = _parts(answer(function, seed + 1))
        varies = np.ptp(measured) > 1e-9 * abs(measured).max()
        if varies and np.array_equal(measured, other):
            raise Wrong(
                "it measures the same with every seed, so three seeds show nothing: "
                "draw with np.random.default_rng(seed)"
            )
        if claim != borne_out(measured):
            numbers = ", ".join(f"{each:.3g}" for each in measured)
            raise Wrong(
                f'it claims "{claim}", and measures {numbers}: that is '
                f'"{borne_out(measured)}" (with seed {seed})'
            )
        return RIGHT

    return run


def _disturbed(answer: Any, function: Any, seed: int) -> Any:
    """Has an answer measure three times the function plus noise: numbers or None."""
    rng = np.random.default_rng(0)

    def disturbed(*arguments, **named):
        right = function(*arguments, **named)
        return 3 * right + rng.normal(size=right.shape)

    try:
        with np.errstate(all="ignore"):
            return _parts(answer(disturbed, seed))[1]
    except Exception:  # whatever the noise has led to
        return None


def _parts(found: Any) -> tuple[np.ndarray, np.ndarray, str]:
    """Settings, measurements and claim; `Wrong` where they are none."""
    if not isinstance(found, (tuple, list)) or len(found) != 3:
        raise Wrong("it should return three things: settings, numbers, a claim")
    *numbers, claim = found
    try:
        settings, measured = (np.asarray(each, float) for each in numbers)
    except (TypeError, ValueError):
        raise Wrong("settings and what is measured should be numbers") from None
    if settings.ndim != 1 or measured.shape != settings.shape:
        raise Wrong(
            f"there should be one number for each setting; the shapes are "
            f"{settings.shape} and {measured.shape}"
        )
    if len(settings) < 5 or not (np.diff(settings) > 0).all():
        raise Wrong("there should be five settings or more, in growing order")
    if not np.isfinite(measured).all():
        raise Wrong("not all that it measures are finite numbers")
    if claim not in CLAIMS:
        raise Wrong(f"the claim should be one of {', '.join(CLAIMS)}, not {claim!r}")
    return settings, measured, claim


POINTS = 5  # of a curve, if there is no reason for fewer
FEWEST, UNDECIDED = 3, "cannot tell"
# Of three runs each, one way to deal them in twenty. The test asks about the name that
# is ahead, so of two kinds that do not differ, one report in ten still names one.
SURE = 0.05


class Report:
    """Checks whether runs bear a conclusion out; of trainings it asks the `rates`."""

    def __init__(self, chapter: str, name: str = "experiment", trained: bool = True):
        self.chapter, self.name, self.trained = chapter, name, trained

    def check(self, report: Any) -> None:
        """Print what is missing, or whether the runs say what the report says."""
        if report is ...:
            print("nothing to check yet: the report is still `...`")
            return
        if problem := self.problem(report):
            print(f"wrong: {problem}")
            return
        alone = self.trained and len({*_rates(report["rates"])}) == 1
        print("right: the runs bear it out" + ", at this one rate" * alone)
        record.solved(self.chapter, self.name)

    def problem(self, report: Any) -> str:
        """Words on what is missing in a report; "" if the runs bear it out."""
        parts = {"question", "runs", "conclusion"}
        if not isinstance(report, dict) or not parts <= set(report):
            return "a report is a dict with `question`, `runs` and `conclusion`"
        if not str(report["question"]).strip(" ."):
            return "what do you want to know? Write the question down in words"
        if not isinstance(report["runs"], dict) or len(report["runs"]) != 2:
            return "`runs` is a dict with two names, what you compare"
        try:
            runs = {name: [*map(float, each)] for name, each in report["runs"].items()}
        except (TypeError, ValueError):
            return "each name in `runs` has a list of numbers"
        for name, numbers in runs.items():
            if len(numbers) < FEWEST:
                return f"{name!r} has {len(numbers)} runs; three or more show a spread"
            if not all(map(math.isfinite, numbers)):
                return f"{name!r} has a number that is not finite"
        if self.trained and not _rates(report.get("rates")):
            return "a report names the `rates` of its runs: a list of numbers above 0"
        if len(str(report.get("not shown", "")).split()) < 4:
            return "a report also has `not shown`: what the runs do not tell, in words"
        low, high = sorted(runs, key=lambda name: np.mean(runs[name]))
        least = by_chance(runs[high], runs[low])
        bearable = high if least <= SURE else UNDECIDED
        if report["conclusion"] not in (*runs, UNDECIDED):
            first, second = runs
            return f"the conclusion is {first!r}, {second!r} or {UNDECIDED!r}"
        if report["conclusion"] == bearable:
            return ""
        if np.mean(runs[low]) == np.mean(runs[high]):
            return "both kinds have the same mean: these runs cannot tell"
        words = (
            f"{high!r} is ahead in the mean. Divide all runs between two names by "
            f"chance, and {high!r} is as far ahead in {least:.1%} of the ways"
        )
        if bearable == UNDECIDED:
            return (
                f"{words}: above {SURE:.0%} they cannot tell. To know more, fix a "
                "larger number of new runs, and count those alone"
            )
        return (
            f"{words}. That is enough to name it here; of kinds that do not differ one "
            "report in ten names one, too"
        )


def _rates(found: Any) -> list[float]:
    """The learning rates that a report names, or none where they cannot be any."""
    try:
        rates = [*map(float, found)]
    except (TypeError, ValueError):
        return []
    return rates if all(0 < rate < math.inf for rate in rates) else []


class Picture:
    """Checks whether a picture that a learner has drawn can be read: as many curves as
    it compares, different ones, of enough points, and names for all.

    cannot_be(curves) says in words what no right measurement would show, if anything.
    """

    def __init__(
        self,
        chapter: str,
        name: str = "picture",
        curves: int = 2,
        points: int = POINTS,
        cannot_be: Callable[[list[panels.Drawn]], str | None] = lambda curves: None,
    ):
        self.chapter, self.name, self.curves = chapter, name, curves
        self.points, self.cannot_be = points, cannot_be

    def check(self, panel: Any) -> None:
        """Print what the picture, a panel of matplotlib, lacks."""
        if panel is ...:
            print("nothing to check yet: the picture is still `...`")
            return
        problem = self._problem(panel)
        readable = "right: a reader can follow it (its numbers may still be wrong)"
        print(f"wrong: {problem}" if problem else readable)
        if not problem:
            record.solved(self.chapter, self.name)

    def _problem(self, panel: Any) -> str:
        if not hasattr(panel, "get_lines"):
            return "hand over the panel you draw into: figure, panel = plt.subplots()"
        found = [each for each in panels.drawn(panel) if len({*each.x}) >= self.points]
        if len(found) < self.curves:
            return (
                f"it has {len(found)} curves of {self.points} points or more; there "
                f"should be {self.curves}"
            )
        if any(np.isnan(each.y).all() for each in found):
            return "a curve has no number that could be drawn"
        for k, each in enumerate(found):
            if any(each.shows(other.x, other.y) for other in found[:k]):
                return "two curves are the same, point for point: is one drawn twice?"
        try:
            panels.check_names(panel)
            panels.check_order(panel)
        except Wrong as problem:
            return str(problem)
        if not panel.get_legend():
            return "nothing says which curve is which: panel.legend()"
        return self.cannot_be(found) or ""
