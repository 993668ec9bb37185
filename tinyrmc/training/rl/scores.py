"""Scores of players on the same levels, and how sure they are.

Levels are a sample of all there could be, so each figure has its 95 % confidence
interval: Wilson's for a share, which holds for few levels and near 0 and 1 too, and the
normal one for a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ..telling import Table

Z = 1.959964  # the normal distribution has 95 % between -Z and Z
BOUNDS = "95 % from", "to"

# {metric: (levels,)}: score, solved and length, as `ActingTask.results` gives them
Results = Mapping[str, np.ndarray]
Interval = tuple[float, float | None, float | None]


def of_share(hits: np.ndarray) -> Interval:
    """(share, lower bound, upper bound) from whether each level (B,) was solved.

    Wilson's interval: the shares p for which what was found is less than Z standard
    deviations, sqrt(p (1 - p) / B), away. Wilson 1927.
    """
    count = len(hits)
    share = float(np.mean(hits))
    wide = 1 + Z**2 / count
    middle = (share + Z**2 / (2 * count)) / wide
    reach = Z / wide * np.sqrt(share * (1 - share) / count + (Z / (2 * count)) ** 2)
    return share, float(max(middle - reach, 0)), float(min(middle + reach, 1))


def of_mean(values: np.ndarray) -> Interval:
    """(mean, lower bound, upper bound) of one number a level (B,); bounds need two."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    reach = Z * float(np.std(values, ddof=1)) / np.sqrt(len(values))
    return mean, mean - reach, mean + reach


def compared(
    players: Mapping[str, Results], row: str = "level"
) -> Iterator[tuple[str, Table]]:
    """(name, table) of how well some players do in levels, or games."""
    for name, metric, interval in (
        ("levels solved", "solved", of_share),
        ("score", "score", of_mean),
        (f"steps until a {row} ended", "length", of_mean),
    ):
        rows = [[who, *interval(found[metric])] for who, found in players.items()]
        yield name, Table(f"test_{metric}", ["player", metric, *BOUNDS], rows)


def apart(players: Mapping[str, Results], name: str, kinds: np.ndarray) -> Table:
    """The share of levels that players solve, for each kind of levels by itself.

    kinds: (levels,) a number for each; `name` says what it is.
    """
    columns = [part for who in players for part in (who, *BOUNDS)]
    rows = []
    for kind in np.unique(kinds).tolist():
        own = kinds == kind
        shares = [of_share(found["solved"][own]) for found in players.values()]
        parts = [value for share in shares for value in share]
        rows.append([kind, int(own.sum()), *parts])
    return Table("test_solved", [name, "levels", *columns], rows)
