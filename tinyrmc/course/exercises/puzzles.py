"""Chapter 2: fifteen puzzles, one line of array code each, and one of your own."""

from functools import partial

import numpy as np

from .. import panels
from ..compare import Wrong
from ..grids import Grids
from ..oneline import one_line
from .exercise import Exercise, exercise, normal
from .used import used

WORDS = "np where arange shape T"


class Puzzle(Exercise):
    """An exercise whose `check` draws your result beside the one asked for."""

    def check(self, answer):
        """Print the verdict; a notebook shows the picture that comes back."""
        super().check(answer)
        return self.picture(answer)

    def picture(self, answer):
        """The case that the verdict names, else the first, as `Grids`.

        None where nothing is written yet, where the case is no grid, or where what is
        wrong shows in no cell.
        """
        verdict = self.judge(answer, explain=False)
        case = verdict.case or self.cases()[0]
        found, right = (self._outcome(each, case) for each in (answer, self.function))
        try:
            grids = Grids(case.number, {**case.arguments, "asked for": right}, found)
        except ValueError:
            return None
        unseen = verdict.case and not grids.wrong.any()
        return None if verdict.state == "not attempted" or unseen else grids


puzzle = partial(exercise, words=WORDS, kind=Puzzle)


@puzzle(
    cases=lambda rng: [(3,), (1,), (7,)],
    hints=["np.arange(n) is as long as it should be. What makes each entry 1?"],
    mistakes="""
        your numbers are zeros
            = np.zeros(n)
        you count up, where every entry should be 1
            = np.arange(n)
    """,
)
def ones(n):
    """n ones: a number -> (n,)."""
    return 0.0 * np.arange(n) + 1


@puzzle(
    cases=lambda rng: [
        normal(rng, 5),
        normal(rng, 1),
        (1e6 * rng.normal(size=8),),
        (np.array([3.0, 0.0, -1.0]),),  # with a 0
    ],
    hints=["A product of two vectors is a sum. What must the other vector hold?"],
    mistakes="""
        x / x is no 1 where x is 0
            = x @ (x / x)
        you add up the squares
            = x @ x
    """,
    anysize="x",
)
def total(x):
    """The sum of all entries: x (N,) -> a number."""
    return x @ (0 * np.arange(x.shape[0]) + 1)


@puzzle(
    cases=lambda rng: [(3,), (1,), (6,)],
    hints=["Compare row numbers, as a column, with column numbers, as a row."],
    mistakes="""
        everything on and below the diagonal is 1
            = np.tri(n)
        all but the diagonal is 1
            = 1 - np.eye(n)
        row == row compares each number with itself: one of the two must be a column,
        [:, None]; .T leaves a vector as it is
            = 1.0 * (np.arange(n) == np.arange(n))
    """,
)
def identity(n):
    """Ones on the diagonal, else zeros: a number -> (n, n)."""
    return np.where(np.arange(n)[:, None] == np.arange(n), 1.0, 0.0)


@puzzle(
    cases=lambda rng: [
        (np.array([2, 0, 1, 2]), 3),
        (np.array([0]), 1),
        (np.array([3, 3, 0, 1, 2]), 5),  # a class that nobody has
        (rng.integers(4, size=4), 4),  # as many labels as classes
    ],
    hints=["Entry [b, c] asks: is labels[b] equal to c? Give both an axis."],
    mistakes="""
        classes and labels have changed places
            = np.eye(C)[labels].T
        each label is compared with one class: make the labels a column, [:, None]
            = 1.0 * (labels == np.arange(C))
    """,
)
def one_hot(labels, C):
    """A 1 at each label's place: labels (B,), of C classes -> (B, C)."""
    return np.where(labels[:, None] == np.arange(C), 1.0, 0.0)


@puzzle(
    cases=lambda rng: [
        (np.array([2, 0, 1, 2]), *normal(rng, (3, 4))),
        (np.array([0]), *normal(rng, (1, 2))),
        (rng.integers(5, size=5), *normal(rng, (5, 5))),
        (np.array([4, 4]), 1e3 * rng.normal(size=(6, 3))),
    ],
    hints=["A one-hot row times a table picks a row of it."],
    mistakes="""
        you pick columns, not rows
            = table.T[labels % len(table.T)]
        you pick the row after the one you want
            = table[labels - len(table) + 1]
    """,
    anysize="table",
)
def look_up(labels, table):
    """A row of the table for each label: labels (B,), table (C, F) -> (B, F)."""
    return np.where(labels[:, None] == np.arange(table.shape[0]), 1.0, 0.0) @ table


@puzzle(
    cases=lambda rng: [(4,), (1,), (7,)],
    hints=["Row t is the time that looks, column s the time it looks at: s <= t."],
    mistakes="""
        a time may look at itself, too: >=, not >
            = np.arange(T)[:, None] > np.arange(T)
        you let each time see the future
            = np.triu(np.ones((T, T))) > 0
        two rows are compared, pair by pair: make one of them a column
            = np.arange(T) >= np.arange(T)
    """,
)
def causal_mask(T):
    """Which times s may time t look at? Those up to itself: a number -> (T, T), True
    and False.
    """
    return np.arange(T)[:, None] >= np.arange(T)


@puzzle(
    cases=lambda rng: [
        (np.array([2, 4, 1]), 4),
        (np.array([3, 1, 2]), 3),
        (np.array([0, 5]), 5),  # one that is empty
        (np.array([1]), 1),
    ],
    hints=["Entry [b, t] asks: is t still inside? Times count from 0."],
    mistakes="""
        one step too many counts
            = np.arange(T) <= lengths[:, None]
        True stands behind the end
            = np.arange(T) >= lengths[:, None]
    """,
)
def padding_mask(lengths, T):
    """True inside each sequence, False behind its end: lengths (B,) -> (B, T)."""
    return np.arange(T) < lengths[:, None]


@puzzle(
    cases=lambda rng: [normal(rng, (4, 2)), normal(rng, (3, 3)), normal(rng, (1, 5))],
    hints=["Which rows does sum t contain? You have just drawn that as a mask."],
    mistakes="""
        you sum along the other axis
            = x.cumsum(axis=1)
        you sum from the end
            = x[::-1].cumsum(axis=0)[::-1].copy()
    """,
    leading="x",
    anysize="x",
)
def cumulative_sum(x):
    """Row t is the sum of the rows up to t: x (..., T, F) -> (..., T, F)."""
    return (np.arange(x.shape[-2])[:, None] >= np.arange(x.shape[-2])) * 1.0 @ x


@puzzle(
    cases=lambda rng: [normal(rng, (4, 2)), normal(rng, (3, 3)), normal(rng, (1, 5))],
    hints=[
        "Row t takes 1 times row t and -1 times row t - 1. Draw the matrix of that.",
        "It is 1 where t == s and -1 where t == s + 1.",
    ],
    mistakes="""
        the row before it is added, not subtracted (^ does not subtract)
            = x + np.vstack([0 * x[:1], x[:-1]])
        the row after it is subtracted, not the row before
            = x - np.vstack([x[1:], 0 * x[:1]])
        the first row loses the last one: time does not go in a circle
            = x - np.roll(x, 1, axis=0)
    """,
    leading="x",
    anysize="x",
)
def changes(x):
    """Row t less row t - 1, the first as it is: x (..., T, F) -> (..., T, F).

    That undoes `cumulative_sum`.
    """
    return (
        1.0 * (np.arange(x.shape[-2])[:, None] == np.arange(x.shape[-2]))
        - (np.arange(x.shape[-2])[:, None] == np.arange(x.shape[-2]) + 1)
    ) @ x


def _orders(rng):
    return [
        (*normal(rng, (4, 2)), np.array([2, 0, 3, 1])),
        (*normal(rng, (3, 3)), np.array([1, 2, 0])),  # not its own inverse
        (*normal(rng, (1, 2)), np.array([0])),
        (*normal(rng, (7, 2)), np.array([6, 0, 2, 1, 4, 3, 5])),
    ]


@puzzle(
    cases=_orders,
    hints=["This is `look_up`, with the memory for a table."],
    mistakes="""
        you put rows back where they came from
            = M[np.argsort(order)]
        nothing moves
            = M + 0
    """,
    leading="M",
    anysize="M",
)
def shuffle(M, order):
    """Slot i of the result is slot order[i] of M: M (..., N, F), order (N,)."""
    return np.where(order[:, None] == np.arange(order.shape[0]), 1.0, 0.0) @ M


@puzzle(
    cases=_orders,
    hints=["What undoes a product with a matrix that only shuffles? Its transpose."],
    mistakes="""
        you shuffle once more
            = M[order]
        you turn the slots round
            = M[::-1].copy()
    """,
    leading="M",
    anysize="M",
)
def unshuffle(M, order):
    """Undo `shuffle` with this order: M (..., N, F), order (N,)."""
    return np.where(np.arange(order.shape[0])[:, None] == order, 1.0, 0.0) @ M


@puzzle(
    cases=lambda rng: [
        normal(rng, 5),
        normal(rng, 1),
        (np.array([3.0, -1.0, 3.0, 0.0]),),  # two alike
        (1e6 * rng.normal(size=8),),
    ],
    hints=["The rank of x[i] is how many x[j] are smaller: a comparison, then a sum."],
    mistakes="""
        a product of truth values is no count but a truth value; make one side numbers
            = (x < x[:, None]) @ (x == x)
        every number counts itself, so ranks begin at 1
            = (x <= x[:, None]) @ (0 * x + 1)
        of two that are alike, sorting twice ranks one higher
            = np.argsort(np.argsort(x))
        you give the order in which to take the numbers, not their ranks
            = np.argsort(x)
    """,
    anysize="x",
)
def ranks(x):
    """How many of all numbers are smaller than each of them: x (N,) -> (N,)."""
    return np.where(x < x[:, None], 1.0, 0.0) @ (0 * np.arange(x.shape[0]) + 1)


@puzzle(
    cases=lambda rng: [(6, 3), (6, 2), (4, 4), (5, 1), (12, 3)],
    hints=["The head of unit k is k // (F // H)."],
    mistakes="""
        you give the units to the heads in turn: the head of unit k is k % H
            = np.arange(F)[:, None] % H == np.arange(F) % H
        you take the place of a unit in its head, not the head's number: // for %
            = np.arange(F)[:, None] % (F // H) == np.arange(F) % (F // H)
        you divide by the number of heads, not by the units of a head
            = np.arange(F)[:, None] // H == np.arange(F) // H
    """,
)
def head_mask(F, H):
    """Which of F units share one of H heads, which lie side by side -> (F, F), True and
    False.
    """
    return np.arange(F)[:, None] // (F // H) == np.arange(F) // (F // H)


@puzzle(
    cases=lambda rng: [
        (*normal(rng, (3, 4, 2)), np.array([2, 4, 1])),
        (*normal(rng, (2, 2, 2)), np.array([1, 2])),
        (*normal(rng, (1, 1, 3)), np.array([1])),
        (1e3 * rng.normal(size=(4, 3, 5)), np.array([3, 3, 1, 2])),
    ],
    hints=[
        "For each sequence a one-hot row over time, (B, 1, T), times (B, T, F).",
        "The 1 stands at lengths - 1. The result is (B, 1, F): look at its only row, "
        "with [:, 0].",
    ],
    mistakes="""
        you take the step behind the last: steps count from 0
            lengths[:, None, None] - 1 -> lengths[:, None, None]
        you take the last step of all, padding or not
            = x[:, -1].copy()
        each one-hot row meets every sequence: it needs one more axis, (B, 1, T)
            = (np.arange(x.shape[1]) == lengths[:, None] - 1) @ x
        every sequence gives the step at which the first one ends
            = x[:, lengths[0] - 1].copy()
    """,
    anysize="x",
)
def last_step(x, lengths):
    """The last step inside each sequence: x (B, T, F), lengths (B,) -> (B, F)."""
    return ((np.arange(x.shape[1]) == lengths[:, None, None] - 1) * 1.0 @ x)[:, 0]


@puzzle(
    words=f"{WORDS} exp tanh",
    cases=lambda rng: [
        normal(rng, (3, 4), (3, 1), (3, 1), (3, 4)),
        normal(rng, (4, 4), (4, 1), (4, 1), (4, 4)),
        normal(rng, (2, 3, 5), (2, 3, 1), (2, 3, 1), (2, 3, 5)),
        tuple(2000 * each for each in normal(rng, (2, 3), (2, 1), (2, 1), (2, 3))),
    ],
    hints=["A sigmoid is 1 / (1 + np.exp(-x)): so divide by 1 + np.exp(-f)."],
    mistakes="""
        the gates lack their sigmoid
            = f * M + i * np.tanh(new)
        exp(f) / (1 + exp(f)) is inf / inf for a large f: write 1 / (1 + exp(-f))
            = M * np.exp(f) / (1 + np.exp(f)) + np.tanh(new) / (1 + np.exp(-i))
        the sigmoid's exponent has lost its minus: 1 + exp(f)
            -f -> f
            -i -> i
        the gates are coupled: what is written has 1 - sigmoid(f), not sigmoid(i)
            -i -> f
        both gates are made of f; what is written has a gate of its own, i
            -i -> -f
        the tanh is taken of the sum, not of what is new
            = np.tanh(M / (1 + np.exp(-f)) + new / (1 + np.exp(-i)))
        what is written lacks its tanh
            np.tanh(new) -> new
        1 + np.exp(...) has no brackets, so that you divide by 1 and add the rest
            = M + np.exp(-f) + np.tanh(new) + np.exp(-i)
    """,
    leading="M f i new",
    anysize="M new",
)
def gated(M, f, i, new):
    """sigmoid(f) M + sigmoid(i) tanh(new), equation 7 with a gate for each slot.

    M, new (..., N, F), f and i (..., N, 1) -> (..., N, F).
    """
    return M / (1 + np.exp(-f)) + np.tanh(new) / (1 + np.exp(-i))


# --- A puzzle of one's own ------------------------------------------------------------

FIFTEEN = [each for each in vars().values() if isinstance(each, Puzzle)]
OWN = "a puzzle of your own, and its picture"


def _own(answer, seed):
    panel = panels.new_panel()
    found = answer(seed, panel)
    if found is None:
        return None
    if not isinstance(found, tuple) or len(found) != 2 or not callable(found[0]):
        raise Wrong("it should return two things: your function, its arguments")
    function, arguments = found
    if not isinstance(arguments, tuple):
        raise Wrong("the arguments are a tuple; one alone is (x,)")
    result = np.asarray(function(*arguments))
    if result.ndim != 2 or np.ptp(1.0 * result) == 0:
        raise Wrong("its result should have rows and columns, and not one number alone")
    for each in FIFTEEN:
        if _same(each.function, arguments, result):
            raise Wrong(f"that is `{each.name}`, one of the fifteen")
    if any(_same(np.asarray, (each,), result) for each in arguments):
        raise Wrong("its result is one of its arguments, as it came")
    others = [answer(seed + k, panels.new_panel())[1] for k in (1, 2, 3)]
    if all(_same(function, each, result) for each in others):
        raise Wrong("its result is the same with every seed: draw arguments, use them")
    shown = [image.get_array() for image in panel.get_images()]
    if not any(_same(np.asarray, (each,), result) for each in shown):
        raise Wrong("the picture is not its result: panel.imshow(result), without plt")
    if not panel.get_xlabel() or not panel.get_ylabel():
        raise Wrong("the axes have no names: panel.set(xlabel=..., ylabel=...)")
    if not _same(one_line(function, WORDS.split()), arguments, result):
        raise Wrong("its line alone, with np and its arguments, gives something else")
    return OWN


def _same(puzzle, arguments, result):
    try:
        other = np.asarray(puzzle(*arguments))
    except Exception:  # it takes other arguments
        return False
    return other.shape == result.shape and np.allclose(1.0 * other, 1.0 * result)


@used(
    _own,
    cases=lambda rng: [(seed,) for seed in range(3)],
    hints=[
        "Which table of all pairs would you like to see? Which numbers divide which, "
        "which are further apart than two, whose difference is even ...",
        "A comparison of a column and a row gives it: (x[:, None] - x) ** 2 > 4. "
        "Define your function as usual, inside of my_puzzle.",
        "Draw with rng = np.random.default_rng(seed), then panel.imshow(f(x)), name "
        "both axes, and return f, (x,).",
    ],
    mistakes="""
        you draw the same numbers with every seed, or do not use them
            default_rng(seed) -> default_rng(0)
        your puzzle is one of the fifteen
            imshow(near(x) -> imshow(np.eye(8)
            return near, (x,) -> return identity.function, (8,)
    """,
    found=OWN,
    seconds=60.0,
)
def my_puzzle(seed, panel):
    """A puzzle of one's own: a function of one line, and arguments drawn with the seed.

    Draws the result into panel, an empty picture -> the function, a tuple of arguments.
    """

    def near(x): return (x[:, None] - x) ** 2 < 9  # fmt: skip

    x = np.random.default_rng(seed).integers(20, size=8)
    panel.imshow(near(x), cmap="Greys")
    panel.set(xlabel="a number", ylabel="another", title="dark: less than 3 apart")
    panel.set_xticks(range(8), x)
    panel.set_yticks(range(8), x)
    return near, (x,)
