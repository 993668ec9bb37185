"""Chapter 0: one exercise to try the checks on."""

from .exercise import exercise, normal
from .experiments import Picture


@exercise(
    cases=lambda rng: [
        normal(rng, (3, 4)),
        normal(rng, (4, 4)),  # square: the shape does not tell what was averaged
        normal(rng, (1, 5)),
        (1e6 * rng.normal(size=(6, 2)),),
    ],
    hints=[
        "The slots are the rows of M. Averaging the rows takes away one axis: which?",
        "M.mean(axis=...) averages along one axis and removes it. The slots lie along "
        "axis 0.",
    ],
    mistakes="""
        you average the units of each slot, not the slots
            = M.mean(axis=1)
        you divide by the number of units, not by that of the slots
            M.mean(axis=0) -> M.sum(axis=0) / M.shape[1]
        you average all entries into a single number
            = M.mean()
    """,
    anysize="M",
)
def mean_slot(M):
    """The mean of all slots: M (N, F) -> (F,)."""
    return M.mean(axis=0)


def _no_shares(curves):
    """The first thing that no shares of right answers would show, or nothing."""
    if any(each.y.min() < 0 or each.y.max() > 1 for each in curves):
        return "a share of right answers lies between 0 and 1"
    if any(len({*each.y}) < 3 for each in curves):
        return "a curve is level: draw the share of each 50 steps, not of all of them"


picture = Picture("first", cannot_be=_no_shares)
