"""Chapter 16: programs, sequences of different lengths, and what counts as right."""

import numpy as np

from .exercise import each, exercise, named
from .experiments import Picture


def _programs(rng):
    a, b, c, d, e = map(int, rng.integers(100, 1000, 5))
    deep = 7
    for number in rng.integers(100, 1000, 8):
        deep = ("+", deep, int(number))
    return [
        (("+", a, b), 3),
        (("-", 123, 9876), 4),  # less than nothing
        (("if>", ("-", a, b), 500, 400, c), 3),
        (("if<", ("+", a, b), 500, 400, c), 3),
        (("if<", 111, ("-", 1, 2), 0, 222), 3),  # compared, it stays less than nothing
        (("if>", 12, ("-", 1, 500), 3, 45), 3),
        (("if>", a, 400, 400, 99), 3),  # neither larger nor smaller
        (("if<", a, b, b, 99), 3),
        (("for", 7, ("*", d, e), 96709), 5),
        (("for", 3, a, ("-", b, 7)), 4),
        (("-", ("for", 1, a, b), ("if<", a, 2, 1, b)), 3),
        (("+", 99999, 1), 5),
        (("+", 995, 10), 2),  # the answer begins with zeros that are not written
        (deep, 3),
        (("*", 98765432109, 91234567891), 22),  # more digits than a float holds
    ]


@exercise(
    cases=_programs,
    hints=[
        "A number is its own value. Any other part is a tuple whose operands may be "
        "parts themselves: a function that calls itself helps.",
        "x = A; for k rounds: x += B. What is x in the end? k is a plain number, A and "
        "B may be parts.",
        "Python's % never gives a negative number for a positive modulus: -9753 % "
        "100000 is 90247. str(...) of that is the answer.",
    ],
    mistakes="""
        you take the remainder of the parts, too, and not of the whole alone
            "*": a * b}[name] -> "*": a * b}[name] % 10 ** (length + 1)
        you drop the sign before you take the remainder
            str(value(program) -> str(abs(value(program))
        the loop adds to a, and you leave out the a with which it begins
            value(a) + k * value(b) -> k * value(b)
        your remainder keeps the sign of the value, as it does in C
            value(program) % 10 ** (length + 1)
                -> int(math.fmod(value(program), 10 ** (length + 1)))
        equal numbers count, >= for > and <= for <
            b > c -> b >= c
            b < c -> b <= c
    """,
)
def evaluate(program, length):
    """The answer, a text, to a program whose numbers have `length` digits.

    It is the program's value modulo 10^(length + 1). A program is a number or one of

        ("+", a, b), ("-", a, b), ("*", a, b)
        ("if>", a, b, c, d)    a if b > c, else d
        ("if<", a, b, c, d)    a if b < c, else d
        ("for", k, a, b)       k times b is added to a

    where a, b, c and d are programs and k is a number.
    """

    def value(part):
        if isinstance(part, int):
            return part
        name, *operands = part
        if name == "for":
            k, a, b = operands
            return value(a) + k * value(b)
        a, b, *others = map(value, operands)
        if name == "if>":
            c, d = others
            return a if b > c else d
        if name == "if<":
            c, d = others
            return a if b < c else d
        return {"+": a + b, "-": a - b, "*": a * b}[name]

    return str(value(program) % 10 ** (length + 1))


LEAKY, BOUNDED = named(
    leaky=lambda x, state: 0.9 * state + x,
    bounded=lambda x, state: np.tanh(state - 2 * x),
)


def _batches(rng):
    def case(step, B, T, F, lengths, beyond=1.0):
        lengths = np.array(lengths)
        inputs = rng.normal(size=(B, T, F))
        inputs[np.arange(T) >= lengths[:, None]] = beyond
        return step, inputs, lengths, rng.normal(size=(B, F))

    return [
        case(LEAKY, 3, 6, 2, [2, 6, 4]),
        case(BOUNDED, 4, 4, 4, [1, 2, 3, 4]),
        case(LEAKY, 2, 5, 3, [0, 5]),  # one that has no input at all
        case(BOUNDED, 2, 5, 3, [3, 3]),
        case(LEAKY, 3, 7, 2, [1, 5, 7], beyond=np.nan),  # whatever stands there
    ]


@exercise(
    cases=_batches,
    hints=[
        "All examples take every step together. Which of them still have a character "
        "at step t? Compare t with lengths.",
        "np.where(condition, new, old), with a condition of shape (B, 1), takes whole "
        "rows of one or the other.",
    ],
    mistakes="""
        the state goes on changing beyond the length
            inside = (t < lengths) -> inside = (t < inputs.shape[1] + 0 * lengths)
        each step begins from the first state, not from the one that the step before has
        left
            step(inputs[:, t], state)
                -> step(inputs[:, t], (first := state) if t == 0 else first)
        you set the state to zero beyond the length
            state), state) -> state), 0.0)
        you read one character too many
            t < lengths -> t <= lengths
        you collect the states and take number lengths - 1: a text of length 0 keeps the
        first state, and number -1 is the last
            = np.stack([(s := step(inputs[:, t], s if t else state)) for t in
                range(inputs.shape[1])])[lengths - 1, np.arange(len(lengths))]
        you multiply old and new by 1 and 0 and add them: 0 times NaN is still NaN
            np.where(inside, step(inputs[:, t], state), state)
                -> inside * step(inputs[:, t], state) + (1 - inside) * state
    """,
)
def read(step, inputs, lengths, state):
    """The state after each example's own length of inputs.

    step(x (B, F), state) -> the next state; inputs (B, T, F), lengths (B,),
    state (B, F) -> (B, F).
    """
    for t in range(inputs.shape[1]):
        inside = (t < lengths)[:, None]  # (B, 1)
        state = np.where(inside, step(inputs[:, t], state), state)
    return state


def _written(rng, B, T, wrong):
    targets = rng.integers(10, size=(B, T))
    answers = np.where(rng.random((B, T)) < wrong, (targets + 1) % 10, targets)
    return answers, targets, rng.integers(1, T + 1, B)


_RIGHT = np.array([[1, 2, 3], [4, 5, 6]])
_RUBBISH_AFTER = np.array([[1, 2, 9], [4, 9, 9]])


@exercise(
    cases=each(
        _written,
        "20 6 0.3, 50 4 0.1, 4 4 0.5, 1 1 0",
        also=[(_RUBBISH_AFTER, _RIGHT, np.array([2, 1]))],
    ),
    hints=[
        "np.arange(T) < lengths[:, None] is True, (B, T), where a character counts.",
        "Of all characters that count, in all answers together, how many are right?",
        "A whole answer is right where no character that counts is wrong:\n"
        "(right | ~counts).all(axis=1)",
    ],
    mistakes="""
        you count what stands beyond the length, too
            < lengths -> < 99 + lengths
        you average each answer's own accuracy, so that a character of a short one
        counts for more
            right[counts].mean()
                -> ((right & counts).sum(axis=1) / counts.sum(axis=1)).mean()
        you count the characters beyond the length as wrong in whole answers
            right | ~counts -> right & counts
    """,
)
def score(answers, targets, lengths):
    """(fraction of the characters that are right, fraction of wholly right answers).

    answers and targets (B, T), symbols; lengths (B,).
    """
    counts = np.arange(targets.shape[1]) < lengths[:, None]
    right = answers == targets
    return right[counts].mean(), (right | ~counts).all(axis=1).mean()


# --- The constant answer --------------------------------------------------------------


def _answers(rng, B, T, symbols, beyond=0):
    lengths = np.append(rng.integers(1, T + 1, B - 1), T)
    counts = np.arange(T) < lengths[:, None]
    drawn = rng.integers(symbols, size=(B, T))
    often = rng.random((B, T)) < 0.5
    targets = np.where(often, rng.integers(symbols, size=T), drawn)
    targets = targets.astype(np.intp)  # a browser has 32 bits
    for column, some in zip(targets.T, counts.T, strict=True):
        found = np.sort(np.bincount(column[some], minlength=symbols))
        if found[-1] == found[-2]:  # two are most frequent
            column[some] = column[some][0]
    targets[~counts] = beyond
    return targets, lengths, symbols


_FEW = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 0], [1, 3, 4]], dtype=np.intp)


@exercise(
    cases=each(
        _answers,
        "50 4 10, 9 9 3, 200 6 45 7, 1 2 4",
        also=[(_FEW, np.array([1, 1, 2, 3]), 5)],
    ),
    hints=[
        "Which answers count at place t? Those with lengths > t.",
        "np.bincount(some_symbols, minlength=symbols).argmax() is the most frequent.",
    ],
    mistakes="""
        you count what stands beyond the length, too
            targets[lengths > t, t] -> targets[:, t]
        you take one symbol for all places
            = np.full(targets.shape[1], np.bincount(targets.ravel()).argmax())
    """,
)
def constant_answer(targets, lengths, symbols):
    """The most frequent symbol at each place, among the answers that reach it.

    targets (B, T) of 0 to symbols - 1, lengths (B,) -> (T,).
    """
    found = []
    for t in range(targets.shape[1]):
        counting = targets[lengths > t, t]
        found.append(np.bincount(counting, minlength=symbols).argmax())
    return np.array(found)


def _no_accuracies(curves):
    """The first thing that no accuracies of three places would show, or nothing."""
    if any(each.y.min() < 0 or each.y.max() > 1 for each in curves):
        return "an accuracy lies between 0 and 1: take the mean of the seeds"
    if max(each.y[np.argmax(each.x)] for each in curves) < 0.3:
        return "no place is learnt: at the end one should be far above guessing, 0.1"


picture = Picture("programs", curves=3, cannot_be=_no_accuracies)
