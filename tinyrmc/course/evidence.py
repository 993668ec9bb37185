"""The numbers behind a chapter's conclusions: one for each seed, and their interval."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence

import numpy as np

from .chapter import ASSETS, ROOT

# In an installation they lie in the package, beside the assets.
CLAIMS = (ASSETS.parent / "claims", ROOT / "chapters" / "claims")


class Seeds(tuple[float, ...]):
    """One number for each seed. A format such as `.2f` or `.0%` gives the mean and,
    where they differ, the lowest and the highest: 0.58 (0.36 to 0.69).
    """

    def __new__(cls, measured: float | Iterable[float]) -> Seeds:
        return super().__new__(cls, np.ravel([*np.atleast_1d(measured)]).tolist())  # type: ignore

    @property
    def mean(self) -> float:
        return math.fsum(self) / len(self)  # `sum` rounds otherwise from Python 3.12 on

    @property
    def low(self) -> float:
        return min(self)

    @property
    def high(self) -> float:
        return max(self)

    def __format__(self, how: str) -> str:
        three = (format(each, how) for each in (self.mean, self.low, self.high))
        mean, low, high = (each.removesuffix("%") for each in three)
        sign = " %" if how.endswith("%") else ""
        return mean + sign + (f" ({low} to {high})" if low != high else "")


class Measured(dict[str, Seeds]):
    """The numbers of one conclusion by their names, which a notebook shows as a table.

    `show` is the format of each.
    """

    def __init__(self, numbers: dict[str, Sequence[float]], show: str = ".3g") -> None:
        super().__init__({name: Seeds(each) for name, each in numbers.items()})
        self.show = show

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(
            f"{name:{width}}  {each:{self.show}}"
            + (f", {len(each)} seeds" if len(each) > 1 else "")
            for name, each in self.items()
        )


def measured(chapter: int, claim: str) -> Measured:
    """The numbers that a chapter's conclusion rests on, from `chapters/claims`.

    They take longer than a chapter may: several seeds, rates, and controls.
    """
    for folder in CLAIMS:
        file = folder / f"{chapter:02}.json"
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))["claims"][claim]
            return Measured(found["numbers"], found["show"])
    raise ValueError(f"chapter {chapter} has no claims: {CLAIMS[-1]}")


def by_chance(larger: Sequence[float], smaller: Sequence[float]) -> float:
    """The share of cases in which chance puts `larger` as far ahead of `smaller`.

    A permutation test, one-sided: the share of all ways to deal the numbers to two
    groups of these sizes that do so. Three against three can give 1/20 at best, where
    all of one group lie above all of the other. Of more than 20,000 ways it draws
    20,000 and counts the one that was seen as well, so it never says 0. ValueError
    where a group is empty or a number is not finite.
    """
    numbers, n = np.array([*larger, *smaller], float), len(larger)
    if not (len(larger) and len(smaller) and np.isfinite(numbers).all()):
        raise ValueError(f"finite numbers in both groups, not {larger} and {smaller}")
    if math.comb(len(numbers), n) <= 20_000:
        groups = np.array([*itertools.combinations(range(len(numbers)), n)])
    else:
        rng = np.random.default_rng(0)
        dealt = [rng.permutation(len(numbers))[:n] for _ in range(20_000)]
        groups = np.array([range(n), *dealt])
    seen = numbers[:n].sum()
    slack = 1e-9 * abs(numbers).sum()  # sums round
    return float(np.mean(numbers[groups].sum(axis=1) >= seen - slack))
