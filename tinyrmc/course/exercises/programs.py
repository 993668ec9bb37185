"""Chapter 11: programs, sequences of different lengths, and what counts as right."""

from __future__ import annotations

import numpy as np

from .exercise import exercise


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
        (
            ("if<", 111, ("-", 1, 2), 0, 222),
            3,
        ),  # less than nothing stays so where it is compared
        (("if>", 12, ("-", 1, 500), 3, 45), 3),
        (("if>", a, 400, 400, 99), 3),  # neither larger nor smaller
        (("if<", a, b, b, 99), 3),
        (("for", 7, ("*", d, e), 96709), 5),
        (("for", 3, a, ("-", b, 7)), 4),
        (("-", ("for", 1, a, b), ("if<", a, 2, 1, b)), 3),
        (("+", 99999, 1), 5),
        (("+", 995, 10), 2),  # the answer begins with zeros that are not written
        (deep, 3),
    ]


def _value_in_parts(part, modulus):
    """The value of a program whose every part is taken modulo."""
    if isinstance(part, int):
        return part
    name, *operands = part
    first = operands[:1] if name == "for" else []
    return (
        _value(
            (
                name,
                *first,
                *(_value_in_parts(each, modulus) for each in operands[len(first) :]),
            )
        )
        % modulus
    )


def _value(
    part, loop=lambda k, a, b: a + k * b, swapped=False, larger=("if>",), or_equal=()
):
    """The value of a program, with the mistakes asked for."""
    if isinstance(part, int):
        return part
    name, *operands = part
    if name == "for":
        return loop(
            operands[0],
            *(_value(each, loop, swapped, larger, or_equal) for each in operands[1:]),
        )
    values = [_value(each, loop, swapped, larger, or_equal) for each in operands]
    if name in ("if>", "if<"):
        a, b, c, d = values
        return (
            a
            if ((b > c) if name in larger else (b < c)) != swapped
            or (name in or_equal and b == c)
            else d
        )
    a, b = values
    return {"+": a + b, "-": a - b, "*": a * b}[name]


def _answer(**mistake):
    return lambda program, length: str(_value(program, **mistake) % 10 ** (length + 1))


@exercise(
    cases=_programs,
    hints=[
        "A number is its own value. Any other part is a tuple whose operands may be "
        "parts themselves: a function that calls itself helps.",
        "x = A; for k rounds: x += B. What is x in the end? (k is a plain number, A "
        "and B may be parts.)",
        "Python's % never gives a negative number for a positive modulus: -9753 % "
        "100000 is 90247. str(...) of that is the answer.",
    ],
    mistakes={
        "the answer is taken modulo 10 to the length, one digit too few": lambda program, length: (
            str(_value(program) % 10**length)
        ),
        "the sign is dropped before the remainder is taken": lambda program, length: (
            str(abs(_value(program)) % 10 ** (length + 1))
        ),
        "the answer is the value itself, without the remainder": lambda program, length: (
            str(_value(program))
        ),
        "the answer is filled up with zeros": lambda program, length: (
            f"{_value(program) % 10 ** (length + 1):0{length + 1}}"
        ),
        "the remainder keeps the sign of the value, as it does in C": lambda program, length: (
            str(int(np.fmod(_value(program), 10 ** (length + 1))))
        ),
        "the answer is a number, not a text": lambda program, length: (
            _value(program) % 10 ** (length + 1)
        ),
        "a loop's operands are taken in the order a, k, b, as in its text": _answer(
            loop=lambda k, a, b: k + a * b
        ),
        "the loop makes one round too few": _answer(
            loop=lambda k, a, b: a + (k - 1) * b
        ),
        "the loop adds up both operands in every round": _answer(
            loop=lambda k, a, b: k * (a + b)
        ),
        "the loop adds a again and again to b, and not b to a": _answer(
            loop=lambda k, a, b: b + k * a
        ),
        "the remainder is taken of every part, not of the value alone": lambda program, length: (
            str(_value_in_parts(program, 10 ** (length + 1)))
        ),
        "the two outcomes of an if have changed places": _answer(swapped=True),
        "< and > have changed places": _answer(larger=("if<",)),
        "equal numbers count as larger, >= for >": _answer(or_equal=("if>",)),
        "equal numbers count as smaller, <= for <": _answer(or_equal=("if<",)),
        "equal numbers count as larger and as smaller, >= for > and <= for <": _answer(
            or_equal=("if>", "if<")
        ),
        "both kinds of if take the larger": _answer(larger=("if>", "if<")),
    },
)
def evaluate(program, length):
    """The answer, a text, to a program whose numbers have `length` digits: its value
    modulo 10^(length + 1).

    A program is a number or a tuple: ("+", a, b), ("-", a, b), ("*", a, b); ("if>", a,
    b, c, d), which is a if b > c and else d, ("if<", a, b, c, d); ("for", k, a, b),
    where k times b is added to a. a, b, c and d are programs, k is a number.
    """

    def value(part):
        if isinstance(part, int):
            return part
        name, *operands = part
        if name == "for":
            k, a, b = operands
            return value(a) + k * value(b)
        a, b, *others = map(value, operands)
        if name in ("if>", "if<"):
            c, d = others
            return a if (b > c if name == "if>" else b < c) else d
        return {"+": a + b, "-": a - b, "*": a * b}[name]

    return str(value(program) % 10 ** (length + 1))


def _leaky(x, state):
    return 0.9 * state + x


def _bounded(x, state):
    return np.tanh(state - 2 * x)


def _batches(rng):
    def case(step, B, T, F, lengths, beyond=1.0):
        lengths = np.array(lengths)
        inputs = rng.normal(size=(B, T, F))
        inputs[np.arange(T) >= lengths[:, None]] = beyond
        return step, inputs, lengths, rng.normal(size=(B, F))

    return [
        case(_leaky, 3, 6, 2, [2, 6, 4]),
        case(_bounded, 4, 4, 4, [1, 2, 3, 4]),
        case(_leaky, 2, 5, 3, [0, 5]),  # one that has no input at all
        case(_bounded, 2, 5, 3, [3, 3]),
        case(_leaky, 3, 7, 2, [1, 5, 7], beyond=np.nan),  # whatever stands there
    ]


def _read(step, inputs, lengths, state, late=0, after=None):
    for t in range(inputs.shape[1]):
        inside = (t < lengths + late)[:, None]
        state = np.where(
            inside, step(inputs[:, t], state), state if after is None else after
        )
    return state


def _read_on(step, inputs, lengths, state):
    for t in range(inputs.shape[1]):
        state = step(inputs[:, t], state)
    return state


def _read_zeros(step, inputs, lengths, state):
    inside = np.arange(inputs.shape[1]) < lengths[:, None]
    return _read_on(step, np.where(inside[..., None], inputs, 0), lengths, state)


def _from_the_first(step, inputs, lengths, state):
    return _read(lambda x, _: step(x, state), inputs, lengths, state)


def _mixed(step, inputs, lengths, state):
    for t in range(inputs.shape[1]):
        inside = (t < lengths)[:, None]
        state = inside * step(inputs[:, t], state) + (1 - inside) * state
    return state


@exercise(
    cases=_batches,
    hints=[
        "All examples take every step together. Which of them still have a character "
        "at step t? A comparison of t with lengths says it.",
        "np.where(condition, new, old), with a condition of shape (B, 1), takes "
        "whole rows of one or the other.",
    ],
    mistakes={
        "the state goes on changing beyond the length": _read_on,
        "the inputs beyond the length are set to zero, but the state goes on": _read_zeros,
        "each step begins from the first state, not from the one that the step "
        "before has left": _from_the_first,
        "the state is set to zero beyond the length": lambda *case: _read(
            *case, after=0.0
        ),
        "the last character is not read": lambda *case: _read(*case, late=-1),
        "one character too many is read": lambda *case: _read(*case, late=1),
        "old and new are multiplied by 1 and 0 and added: 0 times what is not a "
        "number is not a number": _mixed,
        "all examples stop with the longest": lambda step, inputs, lengths, state: (
            _read(step, inputs, np.full_like(lengths, lengths.max()), state)
        ),
        "all examples stop with the shortest": lambda step, inputs, lengths, state: (
            _read(step, inputs, np.full_like(lengths, lengths.min()), state)
        ),
    },
)
def read(step, inputs, lengths, state):
    """The state (B, F) after each example's own length of inputs (B, T, F): lengths
    (B,), step(x (B, F), state) -> the next state.
    """
    for t in range(inputs.shape[1]):
        inside = (t < lengths)[:, None]  # (B, 1)
        state = np.where(inside, step(inputs[:, t], state), state)
    return state


def _written(rng):
    def case(B, T, wrong, lengths=None):
        targets = rng.integers(10, size=(B, T))
        answers = np.where(rng.random((B, T)) < wrong, (targets + 1) % 10, targets)
        return (
            answers,
            targets,
            rng.integers(1, T + 1, B) if lengths is None else np.array(lengths),
        )

    right = np.array([[1, 2, 3], [4, 5, 6]])
    rubbish_after = np.array([[1, 2, 9], [4, 9, 9]])
    return [
        case(20, 6, 0.3),
        case(50, 4, 0.1),
        case(4, 4, 0.5, [1, 2, 3, 4]),
        (rubbish_after, right, np.array([2, 1])),
        case(1, 1, 0.0),
    ]


def _right(answers, targets, lengths):
    counts = np.arange(targets.shape[1]) < lengths[:, None]
    return (answers == targets) & counts, counts


def _of_each(answers, targets, lengths):
    right, counts = _right(answers, targets, lengths)
    return (right.sum(axis=1) / counts.sum(axis=1)).mean(), (right == counts).all(
        axis=1
    ).mean()


@exercise(
    cases=_written,
    hints=[
        "np.arange(T) < lengths[:, None] is True, (B, T), where a character counts.",
        "Of all characters that count, in all answers together, how many are right?",
        "A whole answer is right where no character that counts is wrong: (right | "
        "~counts).all(axis=1).",
    ],
    mistakes={
        "what stands beyond the length counts, too": lambda answers, targets, lengths: (
            (answers == targets).mean(),
            (answers == targets).all(axis=1).mean(),
        ),
        "a whole answer must be right beyond its length, too": lambda answers, targets, lengths: (
            score(answers, targets, lengths)[0],
            (answers == targets).all(axis=1).mean(),
        ),
        "each answer's own accuracy is averaged, so that a character of a short one "
        "counts for more": _of_each,
        "the characters beyond the length are taken for wrong in whole answers": lambda answers, targets, lengths: (
            score(answers, targets, lengths)[0],
            _right(answers, targets, lengths)[0].all(axis=1).mean(),
        ),
        "the two numbers have changed places": lambda *case: score(*case)[::-1],
        "the right characters are divided by all places": lambda answers, targets, lengths: (
            _right(answers, targets, lengths)[0].mean(),
            score(answers, targets, lengths)[1],
        ),
    },
)
def score(answers, targets, lengths):
    """(fraction of the characters that are right, fraction of the answers that are
    wholly right). Symbols (B, T) each, lengths (B,).
    """
    counts = np.arange(targets.shape[1]) < lengths[:, None]
    right = answers == targets
    return right[counts].mean(), (right | ~counts).all(axis=1).mean()
