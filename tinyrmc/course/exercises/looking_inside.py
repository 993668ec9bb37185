"""Chapter 14: what a slot holds, what a difference is due to, what a mask forbids."""

import numpy as np

from .exercise import each, exercise
from .experiments import Picture


def _held(rng, B, F, D, noise, centre=0):
    rows = rng.normal(size=(B, F)) + centre
    wanted = rows @ rng.normal(size=(F, D)) + noise * rng.normal(size=(B, D)) + 3.0
    return rows, wanted


def _drifting():
    rng = np.random.default_rng(1)
    rows = np.arange(40.0)[:, None] + rng.normal(size=(40, 2))
    return rows, rows @ np.array([[1.0], [-2.0]]) + rng.normal(size=(40, 1))


@exercise(
    cases=each(
        _held,  # in the second a fit learns its examples by heart
        "200 5 2 1, 60 20 3 8, 100 4 1 0, 80 6 4 0.5 10",
        also=[_drifting()],
    ),
    hints=[
        "Add a column of ones to the rows: its weight is the bias. "
        "np.linalg.lstsq(x, y, rcond=None)[0] has the weights.",
        "Fit on the first half; then errors = wanted - x @ W on the second. How large "
        "is the sum of their squares beside that of wanted - its mean?",
    ],
    mistakes="""
        you test on the examples that you have fitted
            [half:] -> [:half]
        you fit on all examples, also on those that you test with
            [:half] ->
        you fit on all examples, and test on the same
            [:half] ->
            [half:] ->
        the deviations are those from the first half's mean: what you test on, the
        second half, has its own
            wanted[half:].mean(axis=0) -> wanted[:half].mean(axis=0)
        the deviations are those from one mean of all numbers: each column has its own,
        axis=0
            wanted[half:].mean(axis=0) -> wanted[half:].mean()
        you take the mean of each column's share; sum the squares of all columns first
            1 - (errors**2).sum() / (away**2).sum()
                -> np.mean(1 - (errors**2).sum(axis=0) / (away**2).sum(axis=0))
        you square a correlation, which a readout that is far off by a factor or a shift
        does not lower: take the errors
            1 - (errors**2).sum() / (away**2).sum()
                -> np.corrcoef((wanted[half:] - errors).ravel(),
                wanted[half:].ravel())[0, 1] ** 2
        you square each column's correlation, which a readout that is far off by a
        factor or a shift does not lower: take the errors
            1 - (errors**2).sum() / (away**2).sum()
                -> np.mean([np.corrcoef(y, y - e)[0, 1] ** 2 for y, e in
                zip(wanted[half:].T, errors.T)])
        your readout has no bias
            np.ones( -> np.zeros(
    """,
    tolerance=1e-6,
)
def readable(rows, wanted):
    """The share of the variance of `wanted` that a linear readout of `rows` explains.

    rows (B, F), wanted (B, D), B even; fitted on the first half. On the second: 1 -
    sum of squared errors / sum of squared deviations from the second half's own mean
    -> a number.
    """
    half = len(rows) // 2
    x = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    W = np.linalg.pinv(x[:half]) @ wanted[:half]  # lstsq prints about NaN
    errors = wanted[half:] - x[half:] @ W
    away = wanted[half:] - wanted[half:].mean(axis=0)
    return 1 - (errors**2).sum() / (away**2).sum()


def _probed(rng, B, F, D, noise, *others):
    rows, wanted = _held(rng, B, F, D, noise)
    # some of it, as chance has
    mixed = [rows @ rng.normal(size=(F, G)) for G in others]
    controls = [np.tanh(each) + 0.3 * rng.normal(size=each.shape) for each in mixed]
    return rows, controls, wanted


@exercise(
    cases=each(
        _probed,  # in the third the controls read more than the rows
        "200 5 2 1 3 2, 90 4 4 0.5 4 4 4, 120 3 1 9 6, 100 6 2 2 1 5 2",
    ),
    hints=[
        "readable(rows, wanted) is the share, and max(readable(each, wanted) for each "
        "in controls) the control.",
        "The control leaves 1 - control. The rows explain share - control more.",
    ],
    mistakes="""
        you take the mean of the controls: the highest counts, else one unlucky control
        makes the rows look good
            max(readable(each, wanted) for each in controls)
                -> np.mean([readable(each, wanted) for each in controls])
        you take the lowest of the controls: the highest counts
            max( -> min(
        you divide by the share: the control leaves 1 - control
            (1 - control) -> share
        you give the difference: divide it by what the control leaves
            / (1 - control) ->
        you fit all controls together, which no single one of them could
            max(readable(each, wanted) for each in controls)
                -> readable(np.concatenate(controls, axis=1), wanted)
    """,
    tolerance=1e-6,
)
def beyond_control(rows, controls, wanted):
    """How much a readout of `rows` explains, and how much more than controls do.

    rows (B, F); controls, a list of arrays (B, G), of networks that were not trained,
    each with a G of its own; wanted (B, D) -> the share that can be read from the rows,
    the highest that can be read from a control, and the part of what this one leaves
    that the rows explain.
    """
    share = readable(rows, wanted)
    control = max(readable(each, wanted) for each in controls)
    return share, control, (share - control) / (1 - control)


def _outcomes(rng):
    def case(B, groups, treated=0.4):
        group = rng.integers(groups, size=B)
        right = rng.random(B) < 0.3 + 0.5 * group / groups
        return right, rng.random(B) < treated, group

    # All of group 0 are treated, none of group 2: they compare nothing.
    right, treated, group = case(300, 3)
    one_sided = right, (treated & (group != 2)) | (group == 0), group
    confounded = rng.integers(2, size=400)
    better = rng.random(400) < 0.2 + 0.6 * confounded
    given = rng.random(400) < 0.1 + 0.8 * confounded
    return [
        (better, given, confounded),
        case(200, 4),
        one_sided,
        case(50, 1),
        case(60, 7, 0.2),
    ]


@exercise(
    cases=_outcomes,
    hints=[
        "For each group: right[treated & (group == g)].mean() minus that of those "
        "that are not treated.",
        "Leave out groups in which all are treated, or none. np.average(differences, "
        "weights=counts), with the number treated in each group.",
    ],
    mistakes="""
        all groups count alike; weigh them by the number treated
            here.sum() -> 1
        you weigh by the size of the group, not by the number treated
            here.sum() -> (group == g).sum()
        you compare over all groups at once: where a group with more right answers is
        treated more often, that alone makes a difference. Compare within each group
            = right[treated].mean() - right[~treated].mean()
    """,
)
def matched(right, treated, group):
    """The difference that a treatment makes within groups that are alike.

    right and treated (B,) bools, group (B,) integers -> the mean over the groups of
    the accuracy of the treated minus that of the others, weighted by how many are
    treated; groups without both kinds do not count.
    """
    found, counts = [], []
    for g in np.unique(group):
        here, there = treated & (group == g), ~treated & (group == g)
        if here.any() and there.any():
            found.append(right[here].mean() - right[there].mean())
            counts.append(here.sum())
    return np.average(found, weights=counts)


@exercise(
    cases=lambda rng: [(4, 1), (3, 3), (1, 1), (1, 2), (8, 5)],
    hints=[
        "Begin with the rows of input: which columns are theirs? They are True in "
        "every row.",
        "The diagonal is True too: np.eye(N + n, dtype=bool).",
        "Where either holds, attention is allowed: | joins two arrays of bool.",
    ],
    mistakes="""
        a row may not attend to itself
            np.eye(N + n, dtype=bool) -> np.zeros((N + n, 1), bool)
        only slots ask; the rows of input ask too
            np.eye(N + n -> np.eye(N, N + n
        your rows of input may attend to slots, too; a row may attend to itself and to
        the input
            | is_input -> | is_input | is_input[:, None]
    """,
)
def cut_among_slots(N, n):
    """A mask that lets every row attend to itself and to the input.

    -> (N + n, N + n), True where a row may attend to a column.
    """
    is_input = np.arange(N + n) >= N
    return np.eye(N + n, dtype=bool) | is_input


picture = Picture("looking_inside", points=4)  # such as a bar for each of four steps
