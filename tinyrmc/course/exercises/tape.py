"""Chapter 3: an engine of your own."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from .attention import softmax
from .derived import by_complex_step, log_shares
from .exercise import exercise, normal
from .used import used

# --- Five lines by hand ---------------------------------------------------------------


def _loss(a, b):
    c = a * b
    d = np.tanh(c)
    e = d * a
    f = e + b
    return f * f


def _slopes(a, b):
    h = 1e-30
    return _loss(a + 1j * h, b).imag / h, _loss(a, b + 1j * h).imag / h


def _back(a, b, *, square=2.0, slope=lambda c, d: 1 - d * d, a_once=0, b_once=0, f=1.0):
    """The walk back through the five lines, with one step replaced."""
    c = a * b
    d = np.tanh(c)
    by_f = square * (d * a + b) * f
    by_c = by_f * a * slope(c, d)
    by_a = (a_once != 1) * by_f * d + (a_once != 2) * by_c * b
    by_b = (b_once != 1) * by_f + (b_once != 2) * by_c * a
    return by_a, by_b


@exercise(
    cases=lambda rng: [
        (0.5, 2.0),
        (-1.5, 0.75),
        (0.0, 1.0),
        *[tuple(map(float, pair)) for pair in rng.normal(size=(3, 2))],
    ],
    hints=[
        "Begin with the last line. L = f * f, so dL/df = 2 f. Then go up, one line at "
        "a time: what is dL/de?",
        "Two lines use a: the third, with d beside it, and the first, with b. What "
        "they say adds up. The same goes for b.",
        "The slope of tanh at c is 1 - d * d, where d = tanh(c).",
    ],
    mistakes={
        "a is used twice, and you count its use in e alone": partial(_back, a_once=2),
        "a is used twice, and you count its use in c alone": partial(_back, a_once=1),
        "b is used twice, and you count its use in f alone": partial(_back, b_once=2),
        "b is used twice, and you count its use in c alone": partial(_back, b_once=1),
        "your slope of tanh is 1 - c * c; it is 1 - d * d, of the result": partial(
            _back, slope=lambda c, d: 1 - c * c
        ),
        "you leave out the slope of tanh": partial(_back, slope=lambda c, d: 1.0),
    },
    exact=_slopes,
)
def five_lines(a, b):
    """dL/da and dL/db, where c = a b, d = tanh c, e = d a, f = e + b, L = f f.

    Numbers a, b -> (number, number).
    """
    c = a * b
    d = np.tanh(c)
    f = d * a + b
    by_f = 2 * f  # f goes into the product twice
    by_e = by_f
    by_d = by_e * a
    by_c = by_d * (1 - d * d)
    by_a = by_e * d + by_c * b
    by_b = by_f + by_c * a
    return by_a, by_b


# --- A number that remembers ----------------------------------------------------------


def _sum_of(a, b):
    return a + b


def _difference(a, b):
    return a - b


def _product(a, b):
    return a * b


def _squashed(a):
    return a.tanh()


def _five_lines(a, b):
    e = (a * b).tanh() * a
    f = e + b
    return f * f


def _diamond(a, b):
    c = a * b
    return (c + a) * (c - b)


def _one_unused(a, b):
    _ = a * b  # made, and of no use
    return a.tanh()


def _more_afterwards(a, b):
    """What is made of the loss does not count for it."""
    loss = a * b
    _ = loss + a
    return loss


def _doubled(a):
    """65,536 paths, 16 entries: slow if you walk every path."""
    for _ in range(16):
        a = a + a
    return a


def _chain(a, b, c):
    return ((a * b).tanh() * c - a).tanh() * b


def _of_numbers(cls, program, numbers):
    tape = []
    values = [cls(number, tape) for number in numbers]
    loss = program(*values)
    loss.backward()
    return loss.data, [value.grad for value in values]


def _number_programs(rng):
    a, b, c = map(float, rng.normal(size=3))
    return [
        (_sum_of, [a, b]),
        (_difference, [a, b]),
        (_product, [a, b]),
        (_squashed, [a]),
        (_five_lines, [0.5, 2.0]),
        (_diamond, [b, c]),
        (_one_unused, [a, c]),
        (_more_afterwards, [a, b]),
        (_doubled, [b / 1e3]),
        (_chain, [a, b, c]),
    ]


class Value:
    """A number that leaves on its tape, a list, how it was made."""

    def __init__(self, data, tape):
        self.data, self.tape, self.grad = data, tape, 0.0

    def record(self, data, inputs):
        output = type(self)(data, self.tape)  # a Value
        self.tape.append((output, inputs))
        return output

    def __add__(self, other):
        return self.record(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __sub__(self, other):
        return self.record(self.data - other.data, [(self, 1.0), (other, -1.0)])

    def __mul__(self, other):
        inputs = [(self, other.data), (other, self.data)]
        return self.record(self.data * other.data, inputs)

    def tanh(self):
        y = math.tanh(self.data)
        return self.record(y, [(self, 1 - y * y)])

    def backward(self):
        self.grad = 1.0
        for output, inputs in reversed(self.tape):
            for value, derivative in inputs:
                value.grad += derivative * output.grad


def _walked(start=lambda value: value, order=reversed, pay=None):
    """The class Value with another walk back."""

    def backward(self):
        start(self).grad = 1.0
        for output, inputs in order(self.tape):
            for value, derivative in inputs:
                if pay:
                    pay(value, derivative, output.grad)
                else:
                    value.grad += derivative * output.grad

    return type("Value", (Value,), {"backward": backward})


def _replace(value, derivative, arrived):
    value.grad = derivative * arrived


def _add_unmultiplied(value, derivative, arrived):
    value.grad += derivative


class _OwnFactors(Value):
    def __mul__(self, other):
        inputs = [(self, self.data), (other, other.data)]
        return self.record(self.data * other.data, inputs)


class _Added(Value):
    def __sub__(self, other):
        return self.record(self.data - other.data, [(self, 1.0), (other, 1.0)])


class _WrongSlope(Value):
    def tanh(self):
        y = math.tanh(self.data)
        return self.record(y, [(self, 1 - y)])


class _SlopeOfTheArgument(Value):
    def tanh(self):
        x = self.data
        return self.record(math.tanh(x), [(self, 1 - x * x)])


Value = used(  # type: ignore[assignment, misc]
    _of_numbers,
    methods=("__add__", "__sub__", "__mul__", "tanh", "backward"),
    cases=_number_programs,
    hints=[
        "Each operation makes a new Value, and appends (new value, [(input, "
        "derivative), ...]) to self.tape. For a sum both derivatives are 1.",
        "backward: the value that it is called on has grad 1. Go through the tape from "
        "its end: reversed(self.tape).",
        "For each entry and each of its inputs: value.grad += derivative * output.grad",
    ],
    mistakes={
        "a value's later contribution replaces the earlier one; add it": _walked(
            pay=_replace
        ),
        "you do not multiply by what has arrived at the output: you add up the local "
        "derivatives alone": _walked(pay=_add_unmultiplied),
        "nothing arrives anywhere: the loss starts with grad 1, and each operation "
        "leaves its entry on the tape": _walked(start=lambda value: Value(0.0, [])),
        "you walk the tape from its beginning": _walked(order=list),
        "the first value on the tape starts with 1; the loss does, the one that "
        "backward is called on": _walked(start=lambda value: value.tape[0][0]),
        "you begin at the last value on the tape; begin at the one that backward is "
        "called on": _walked(start=lambda value: value.tape[-1][0]),
        "in a product each factor is scaled by itself, not by the other": _OwnFactors,
        "a difference passes on the same sign to both; the second gets -1": _Added,
        "your slope of tanh is 1 - y; it is 1 - y * y": _WrongSlope,
        "your slope of tanh is 1 - x * x; it is 1 - y * y, of the "
        "result": _SlopeOfTheArgument,
    },
    lines=3000,
)(Value)


# --- A network of numbers -------------------------------------------------------------


def straight(weights, x):
    """A line: slope and height."""
    slope, height = weights
    return slope * x + height


def two_waves(weights, x):
    """Two hidden units."""
    w1, b1, v1, w2, b2, v2 = weights
    return (w1 * x + b1).tanh() * v1 + (w2 * x + b2).tanh() * v2


def _lessons(rng):
    def numbers(count):
        return [float(x) for x in rng.normal(size=count)]

    return [
        (numbers(2), straight, numbers(3), numbers(3), 0.01, 1),
        (numbers(2), straight, numbers(4), numbers(4), 0.02, 5),
        (numbers(6), two_waves, numbers(4), numbers(4), 0.05, 8),
        (numbers(2), straight, numbers(1), numbers(1), 0.0, 3),
    ]


def _descent(
    weights, network, xs, ys, rate, steps, *, count=1, sign=-1, again=False, last=False
):
    """The solution, with one piece replaced."""
    losses, start = [], weights
    for _ in range(steps):
        tape = []
        values = [Value(w, tape) for w in (start if again else weights)]
        loss = Value(0.0, tape)
        for x, y in zip(xs, ys, strict=True):
            error = network(values, Value(x, tape)) - Value(y, tape)
            loss = error * error if last else loss + error * error
        loss.backward()
        weights = [v.data + sign * rate * v.grad / count for v in values]
        losses.append(loss.data)
    return weights, losses


def _mean_loss(weights, network, xs, ys, rate, steps):
    args = weights, network, xs, ys, rate, steps
    weights, losses = _descent(*args, count=len(xs))
    return weights, [loss / len(xs) for loss in losses]


def _losses_after(weights, network, xs, ys, rate, steps):
    args = weights, network, xs, ys, rate
    return _descent(*args, steps)[0], _descent(*args, steps + 1)[1][1:]


@exercise(
    cases=_lessons,
    hints=[
        "In each step: a new tape, a Value for each weight, the loss, backward, and "
        "new weights.",
        "The loss begins as Value(0.0, tape). For each pair x, y add (network(values, "
        "x) - y) squared, where x and y are Values, too.",
        "weights = [v.data - rate * v.grad for v in values], and losses.append("
        "loss.data).",
    ],
    mistakes={
        "you take the mean of the squares; here it is their sum": _mean_loss,
        "each step begins with the first weights again": partial(_descent, again=True),
        "your loss is that of the last point alone": partial(_descent, last=True),
        "your losses are those after the steps, not before": _losses_after,
    },
)
def learn(weights, network, xs, ys, rate, steps):
    """Gradient descent on the sum of the squared errors, with Values.

    weights, xs and ys lists of numbers; network(values, x) -> a Value
    -> (new weights, the loss before each step).
    """
    losses = []
    for _ in range(steps):
        tape = []
        values = [Value(w, tape) for w in weights]
        loss = Value(0.0, tape)
        for x, y in zip(xs, ys, strict=True):
            error = network(values, Value(x, tape)) - Value(y, tape)
            loss = loss + error * error
        loss.backward()
        weights = [v.data - rate * v.grad for v in values]
        losses.append(loss.data)
    return weights, losses


# --- Arrays: what is stretched, and products ------------------------------------------


def _in_front(g, shape):
    """The axes that broadcasting put before those of `shape`."""
    return tuple(range(g.ndim - len(shape)))


def _of_size_one(g, shape):
    """The axes of g where `shape` has a 1."""
    extra = g.ndim - len(shape)
    return tuple(extra + axis for axis, size in enumerate(shape) if size == 1)


def _stretched(g, shape):
    """The axes of g that broadcasting stretched from 1."""
    return tuple(axis for axis in _of_size_one(g, shape) if g.shape[axis] != 1)


def _copied(g, shape):
    """All axes along which g holds copies."""
    return _in_front(g, shape) + _stretched(g, shape)


def _aligned_from_the_left(g, shape):
    for axis, (one, other) in enumerate(zip(g.shape, shape, strict=False)):
        if one != other:
            g = g.sum(axis=axis, keepdims=True)
    return g.reshape(shape)


@exercise(
    cases=lambda rng: [
        (rng.normal(size=(3, 4)), (4,)),
        (rng.normal(size=(3, 4)), (3, 1)),
        (rng.normal(size=(3, 3)), (1, 3)),
        (rng.normal(size=(2, 3, 4)), (3, 1)),
        (rng.normal(size=(2, 3, 4)), ()),
        (rng.normal(size=(2, 1, 4)), (2, 1, 4)),
        (1e3 * rng.normal(size=(2, 3, 3)), (1, 3, 3)),
    ],
    hints=[
        "An entry that was used many times gets the sum of what all its copies get.",
        "Broadcasting made two kinds of axes: those that stand in front of `shape`, "
        "and those where `shape` has a 1.",
        "g.sum(axis=...) takes a tuple of axes. The first kind goes away, the second "
        "stays as 1: keepdims=True.",
    ],
    mistakes={
        "you sum the axes in front only, not those that were stretched from 1": (
            lambda g, shape: g.sum(axis=_in_front(g, shape))
        ),
        "you always sum over the first axis; `shape` says which were stretched": (
            lambda g, shape: g.sum(axis=0)
        ),
        "the axes that were stretched from 1 are gone (keepdims=True keeps them)": (
            lambda g, shape: g.sum(axis=_copied(g, shape))
        ),
        "you keep the axes in front as 1, where they should go (keepdims=True is "
        "for the others only)": (
            lambda g, shape: g.sum(axis=_copied(g, shape), keepdims=True)
        ),
        "you compare the two shapes from the left; broadcasting aligns them from "
        "the right": _aligned_from_the_left,
    },
    views=True,
)
def unbroadcast(g, shape):
    """The gradient of an array of `shape` that was broadcast to g.shape.

    Sums g over the axes that broadcasting added or stretched -> (like shape).
    """
    in_front = tuple(range(g.ndim - len(shape)))
    g = g.sum(axis=in_front)
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return g.sum(axis=stretched, keepdims=True)


def _turned(x):
    """Each matrix of a stack transposed."""
    return np.swapaxes(x, -1, -2)


def _two_products(g, a, b):
    """The gradients of stacks that nothing has stretched."""
    return g @ _turned(b), _turned(a) @ g


def _brought_home(bring):
    """The two products, each brought to the shape of its argument in this way."""

    def gradients(g, a, b):
        pairs = zip(_two_products(g, a, b), (a, b), strict=True)
        return tuple(bring(product, x.shape) for product, x in pairs)

    return gradients


@exercise(
    cases=lambda rng: [
        normal(rng, (2, 4), (2, 3), (3, 4)),
        normal(rng, (5, 2, 4), (5, 2, 3), (3, 4)),  # a batch meets one matrix
        normal(rng, (4, 3, 3), (3, 3), (4, 3, 3)),  # one matrix meets a batch
        normal(rng, (3, 3, 3), (3, 3, 3), (3, 3, 3)),
        normal(rng, (2, 4, 3, 2), (2, 1, 3, 5), (4, 5, 2)),  # both are stretched
        normal(rng, (1, 2, 1, 1), (1, 1, 1, 3), (1, 2, 3, 1)),
    ],
    hints=[
        "Think of one pair of matrices. y[i, j] is the sum over k of a[i, k] b[k, j], "
        "so a[i, k] moves y[i, j] by b[k, j], for every j. Sum g[i, j] b[k, j] over j: "
        "which product of g and b, one of them transposed, is that?",
        "x.T turns all axes round. np.swapaxes(x, -1, -2) transposes each matrix of a "
        "stack and leaves the stack as it is.",
        "A matrix that met many others was used many times: its gradient is a sum. "
        "`unbroadcast(product, a.shape)` makes it.",
    ],
    mistakes={
        "you do not add up over the axes along which an argument "
        "was stretched": _two_products,
        "you average over the copies of a matrix instead of adding "
        "them up": _brought_home(
            lambda g, shape: g.mean(axis=_copied(g, shape)).reshape(shape)
        ),
        "you sum the axes in front only, not those that were stretched "
        "from 1": _brought_home(lambda g, shape: g.sum(axis=_in_front(g, shape))),
    },
    leading="g a",
    anysize="g",
    exact=by_complex_step(lambda a, b: a @ b, "a b"),
)
def stacks_vjp(g, a, b):
    """The gradients of a and b, given g, the gradient of a @ b, for stacks of matrices.

    g (..., I, J), a (..., I, K), b (..., K, J); the leading axes of a and b broadcast
    -> (like a, like b).
    """
    by_a = g @ np.swapaxes(b, -1, -2)
    by_b = np.swapaxes(a, -1, -2) @ g
    return unbroadcast(by_a, a.shape), unbroadcast(by_b, b.shape)


# --- The tape of arrays ---------------------------------------------------------------


def _array_sum(a, b):
    return (a + b).mean()


def _array_difference(a, b):
    return (a - b).tanh().mean()


def _array_product(a, b):
    return (a * b).mean()


def _matrix_product(a, b):
    return (a @ b).tanh().mean()


def _relu(a, b):
    return (a * b).relu().mean()


def _squared(a):
    return (a * a).mean()


def _network(x, W1, b1, W2, b2):
    error = (x @ W1 + b1).tanh() @ W2 + b2
    return (error * error).mean()


def _deep(x, W1, b1, W2, b2):
    hidden = (x @ W1 + b1).relu()
    return ((hidden @ W2 + b2) * hidden).mean()


def _no_use(a, b):
    _ = a * b
    return a.tanh().mean()


def _twice(a):
    for _ in range(16):
        a = a + a
    return a.mean()


def _cubes(a, b):
    """An operation that the class does not know, by `record`."""
    x = a.data
    cube = a.tape.record(x**3, (a,), lambda g: (3 * g * x * x,))
    return (cube * b).mean()


def _late(a, b):
    """What is made of the loss does not count for it."""
    loss = (a * b).mean()
    _ = loss * b
    return loss


def _array_programs(rng):
    layers = normal(rng, (5, 2), (2, 4), 4, (4, 3), 3)
    square = normal(rng, (3, 3), (3, 3), 3, (3, 3), 3)
    return [
        (_squared, normal(rng, (2, 3))),
        (_array_sum, normal(rng, (2, 3), (2, 3))),
        (_array_difference, normal(rng, (3, 3), (3, 3))),
        (_array_product, normal(rng, (2, 3), (2, 3))),
        (_array_product, normal(rng, (4, 2, 3), (2, 1))),  # stretched
        (_matrix_product, normal(rng, (2, 3), (3, 4))),
        (_matrix_product, normal(rng, (4, 2, 3), (3, 3))),
        (_relu, normal(rng, (4, 3), 3)),
        (_network, layers),
        (_deep, square),
    ]


def _given(cls, program, arrays):
    """A program with this class, on the course's tape."""
    tape = _TapeOf(cls)
    nodes = [cls(each, tape) for each in arrays]
    loss = program(*nodes)
    return loss.data, tape.gradient(loss, nodes)


class Node:
    """An array on a tape; each operation is recorded with its vjp."""

    def __init__(self, data, tape):
        self.data, self.tape = data, tape

    def __add__(self, other):
        y = self.data + other.data
        return self.tape.record(y, (self, other), lambda g: (g, g))

    def __sub__(self, other):
        y = self.data - other.data
        return self.tape.record(y, (self, other), lambda g: (g, -g))

    def __mul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a * b, (self, other), lambda g: (g * b, g * a))

    def __matmul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a @ b, (self, other), lambda g: stacks_vjp(g, a, b))

    def tanh(self):
        y = np.tanh(self.data)
        return self.tape.record(y, (self,), lambda g: (g * (1 - y * y),))

    def relu(self):
        x = self.data
        return self.tape.record(np.maximum(x, 0), (self,), lambda g: (g * (x > 0),))

    def mean(self):
        x = self.data
        share = np.full(x.shape, 1 / x.size)
        return self.tape.record(x.mean(), (self,), lambda g: (g * share,))


class _ForgottenMinus(Node):
    def __sub__(self, other):
        y = self.data - other.data
        return self.tape.record(y, (self, other), lambda g: (g, g))


class _ScaledByItself(Node):
    def __mul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a * b, (self, other), lambda g: (g * a, g * b))


class _EntryByEntry(Node):
    def __matmul__(self, other):
        a, b = self.data, other.data
        return self.tape.record(a @ b, (self, other), lambda g: (g @ b, a @ g))


class _MeanAsSum(Node):
    def mean(self):
        x = self.data
        ones = np.ones(x.shape)
        return self.tape.record(x.mean(), (self,), lambda g: (g * ones,))


class _MeanUnshared(Node):
    def mean(self):
        x = self.data
        return self.tape.record(x.mean(), (self,), lambda g: (g,))


class _PythonsMax(Node):
    def relu(self):
        x = self.data
        return self.tape.record(max(x, 0), (self,), lambda g: (g * (x > 0),))


class _ReluOfG(Node):
    def relu(self):
        x = self.data
        y = np.maximum(x, 0)
        return self.tape.record(y, (self,), lambda g: (np.maximum(g, 0),))


class _ReluPassesAll(Node):
    def relu(self):
        return self.tape.record(np.maximum(self.data, 0), (self,), lambda g: (g,))


class _SlopeWithoutG(Node):
    def tanh(self):
        y = np.tanh(self.data)
        return self.tape.record(y, (self,), lambda g: (1 - y * y,))


class _BareTanh(Node):
    def tanh(self):
        y = np.tanh(self.data)
        return self.tape.record(y, (self,), lambda g: g * (1 - y * y))


Node = used(  # type: ignore[assignment, misc]
    _given,
    methods=("__sub__", "__mul__", "__matmul__", "tanh", "relu", "mean"),
    cases=_array_programs,
    hints=[
        "Each is like __add__: compute the result, then tape.record(result, inputs, "
        "vjp). vjp turns g into a tuple, one gradient for each input.",
        "You know the derivatives from Value; now they multiply g entry by entry. For "
        "@ there is stacks_vjp(g, a, b).",
        "relu: g * (x > 0). mean: each of the x.size entries gets g / x.size, in an "
        "array of x's shape.",
    ],
    mistakes={
        "a difference passes on g to both; the second gets -g": _ForgottenMinus,
        "in a product each factor's gradient is scaled by itself, not by the "
        "other": _ScaledByItself,
        "the gradients of @ lack their transposes (stacks_vjp knows "
        "them)": _EntryByEntry,
        "the mean passes on g as a sum would; each entry has a share of 1 / "
        "x.size": _MeanAsSum,
        "the mean passes on a single number; each entry gets its share, in an array "
        "of x's shape": _MeanUnshared,
        "Python's max compares whole arrays; np.maximum takes each entry": _PythonsMax,
        "the ReLU looks at the sign of g, not at that of x": _ReluOfG,
        "the ReLU passes on all of g, also where x is below 0": _ReluPassesAll,
        "tanh does not multiply by g": _SlopeWithoutG,
        "a vjp gives a bare array; it gives a tuple, one gradient for each "
        "input": _BareTanh,
    },
)(Node)


def _more_programs(rng):
    return [
        *_array_programs(rng),
        (_no_use, normal(rng, (2, 3), 3)),
        (_cubes, normal(rng, (2, 3), 3)),
        (_late, normal(rng, (2, 3), (2, 3))),
        (_twice, (1e-3 * rng.normal(size=3),)),
    ]


def _on_a_tape(cls, program, arrays):
    """A program on a tape of this class."""
    tape = cls()
    nodes = [tape.watch(each) for each in arrays]
    loss = program(*nodes)
    return loss.data, tape.gradient(loss, nodes)


class _Tape:
    """The solution, whose ways to go wrong inherit from it."""

    node = staticmethod(lambda data, tape: Node(data, tape))

    def __init__(self):
        self.entries = []

    def watch(self, data):
        return self.node(np.asarray(data), self)

    def record(self, data, inputs, vjp):
        output = self.node(data, self)
        self.entries.append((output, inputs, vjp))
        return output

    def walk(self):
        return reversed(self.entries)

    def bring(self, g, shape):
        return unbroadcast(g, shape)

    def pay(self, before, g):
        return before + g

    def gradient(self, loss, wanted):
        gradients = {loss: np.ones(loss.data.shape)}
        for output, inputs, vjp in self.walk():
            if output in gradients:
                for node, g in zip(inputs, vjp(gradients[output]), strict=True):
                    g = self.bring(g, node.data.shape)
                    gradients[node] = self.pay(gradients.get(node, 0), g)
        return [gradients.get(node, np.zeros(node.data.shape)) for node in wanted]


class _TapeOf(_Tape):
    """The course's tape with nodes of a class."""

    def __init__(self, cls):
        super().__init__()
        self.node = cls


class _Stretched(_Tape):
    def bring(self, g, shape):
        return g


class _Overwriting(_Tape):
    def pay(self, before, g):
        return g


class _AtTheBeginning(_Tape):
    def walk(self):
        return self.entries


class _BareZero(_Tape):
    def gradient(self, loss, wanted):
        found = super().gradient(loss, wanted)
        return [g if np.any(g) else 0.0 for g in found]


class _InOrderOfMaking(_Tape):
    def gradient(self, loss, wanted):
        return super().gradient(loss, wanted[::-1])


@used(
    _on_a_tape,
    methods=("watch", "record", "gradient"),
    cases=_more_programs,
    hints=[
        "watch makes a Node. record makes one, too, and appends (output, inputs, vjp) "
        "to a list.",
        "gradient: a dict from node to gradient. It begins with {loss: 1.0 in the "
        "loss's shape}. Go through the entries from the end, and skip those whose "
        "output has no gradient.",
        "For each input and its g out of vjp(gradients[output]): g = unbroadcast(g, "
        "node.data.shape), and add it to what the node has got.",
    ],
    mistakes={
        "you leave out unbroadcast: what was stretched gets a gradient of the "
        "stretched shape": _Stretched,
        "a node's later contribution replaces the earlier one; add it": _Overwriting,
        "nothing arrives anywhere: the loss's own gradient is 1, and you walk from the "
        "end of the entries": _AtTheBeginning,
        "a node that the loss does not depend on gets a bare 0; it gets zeros of its "
        "shape": _BareZero,
        "the gradients stand in another order than the nodes that were "
        "asked for": _InOrderOfMaking,
    },
    lines=6000,
)
class LittleTape:
    """Records what happens to arrays, and plays it backwards."""

    def __init__(self):
        self.entries = []

    def watch(self, data):
        return Node(np.asarray(data), self)

    def record(self, data, inputs, vjp):
        output = Node(data, self)
        self.entries.append((output, inputs, vjp))
        return output

    def gradient(self, loss, wanted):
        gradients = {loss: np.ones(loss.data.shape)}
        for output, inputs, vjp in reversed(self.entries):
            if output in gradients:  # else the loss does not depend on it
                for node, g in zip(inputs, vjp(gradients[output]), strict=True):
                    g = unbroadcast(g, node.data.shape)
                    gradients[node] = gradients.get(node, 0) + g
        return [gradients.get(node, np.zeros(node.data.shape)) for node in wanted]


def taped(answer, *arrays):
    """What answer(*Nodes) gives on a tape, and the gradients of its mean square."""
    tape = LittleTape()
    nodes = [tape.watch(each) for each in arrays]
    found = answer(*nodes)
    if found is None:
        return None
    return found.data, tape.gradient((found * found).mean(), nodes)


# --- Chapter 5: another entry for the tape --------------------------------------------


_softmax_step = by_complex_step(lambda x: np.exp(log_shares(x)), "x")


def _shares(rng):
    def case(*shape):
        g, x = normal(rng, shape, shape)
        return g, softmax(x)

    certain = np.array([[0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
    return [
        case(4),
        case(3, 3),
        case(2, 3, 5),
        (1e3 * rng.normal(size=(2, 4)), certain),
        (rng.normal(size=(3, 1)), np.ones((3, 1))),  # the only share is always 1
    ]


@exercise(
    cases=_shares,
    hints=[
        "The derivative of share y_j with respect to score x_k is y_j (1 - y_k) where "
        "j = k, and -y_j y_k elsewhere.",
        "So x_k gets the sum over j of g_j y_j (delta_jk - y_k): g_k y_k, minus y_k "
        "times a sum that is the same for all k.",
        "That sum is (g * y).sum(axis=-1, keepdims=True).",
    ],
    mistakes={
        "you treat every share as if it stood alone, like a sigmoid": (
            lambda g, y: g * y * (1 - y)
        ),
        "you leave out what a score takes from the other shares": lambda g, y: g * y,
        "you sum over the first axis; the shares of a row lie along the last, "
        "axis=-1": (lambda g, y: g * y - y * (g * y).sum(axis=0, keepdims=True)),
        "the sums lose their axis, so that broadcasting lays them along the "
        "columns (keepdims=True keeps it)": (
            lambda g, y: g * y - y * (g * y).sum(axis=-1)
        ),
        "you sum g alone, not g times the shares": (
            lambda g, y: g * y - y * g.sum(axis=-1, keepdims=True)
        ),
    },
    leading="g y",
    anysize="g",
    exact=lambda g, y: _softmax_step(g, np.log(y)),
)
def softmax_vjp(g, y):
    """The gradient of x, where y = softmax(x) over the last axis.

    g (..., n) is the gradient of y (..., n) -> (..., n).
    """
    gy = g * y
    return gy - y * gy.sum(axis=-1, keepdims=True)
