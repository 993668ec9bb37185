"""Chapter 0: one exercise to try the checks on."""

from __future__ import annotations

from .exercise import exercise


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(3, 4)),),
        (
            rng.normal(size=(4, 4)),
        ),  # as many slots as units: the shape does not tell which were averaged
        (rng.normal(size=(1, 5)),),
        (1e6 * rng.normal(size=(6, 2)),),
    ],
    hints=[
        "The slots are the rows of M. Averaging the rows takes away one axis: which?",
        "M.mean(axis=...) averages along one axis and removes it. The slots lie "
        "along axis 0.",
    ],
    mistakes={
        "the units of each slot are averaged, not the slots": lambda M: M.mean(axis=1),
        "all entries are averaged into a single number": lambda M: M.mean(),
        "the slots are added up, but not divided by their number": lambda M: M.sum(
            axis=0
        ),
    },
)
def mean_slot(M):
    """The mean of all slots: M (N, F) -> (F,)."""
    return M.mean(axis=0)
