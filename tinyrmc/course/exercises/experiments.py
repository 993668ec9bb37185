"""The judge of an experiment that a learner has thought up.

Nobody knows what it measures. It is judged by what it returns: settings, a number for
each, and a claim that the numbers bear out, whatever the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..compare import Wrong

CLAIMS = ("rises", "falls", "stays", "neither")
RIGHT = "its numbers bear the claim out"


def borne_out(measured: np.ndarray) -> str:
    """The claim that numbers allow: "stays" if they differ by less than a tenth of the
    largest, "rises" or "falls" if nine in ten pairs of them do.
    """
    if np.ptp(measured) <= 0.1 * abs(measured).max():
        return "stays"
    later, earlier = np.tril_indices(len(measured), -1)
    rising = np.mean(measured[later] > measured[earlier])
    falling = np.mean(measured[later] < measured[earlier])
    return "rises" if rising >= 0.9 else "falls" if falling >= 0.9 else "neither"


def report(subject: str) -> Callable[..., Any]:
    """run(answer, function, seed), for `used`; `subject` is the function's name."""

    def run(answer, function, seed):
        calls = 0

        def counted(*arguments, **named):
            nonlocal calls
            calls += 1
            return function(*arguments, **named)

        found, again = answer(counted, seed), answer(counted, seed)
        if found is None:
            return None
        settings, measured, claim = _parts(found)
        if calls < 2 * len(settings):
            raise Wrong(f"it does not call {subject} for each setting: measure that")
        if not np.array_equal(measured, _parts(again)[1]):
            raise Wrong(
                "it measures something else when it runs again: draw with "
                "np.random.default_rng(seed)"
            )
        if claim != borne_out(measured):
            numbers = ", ".join(f"{each:.3g}" for each in measured)
            raise Wrong(
                f'it claims "{claim}", and measures {numbers}: that is '
                f'"{borne_out(measured)}" (with seed {seed})'
            )
        return RIGHT

    return run


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
