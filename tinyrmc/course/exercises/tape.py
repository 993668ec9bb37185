"""Chapter 3: an engine of your own."""

from __future__ import annotations

import inspect
import math

import numpy as np

from ..compare import Wrong, kind
from .derived import by_complex_step
from .exercise import exercise, named, normal
from .used import used


def _loss(a, b):
    c = a * b
    d = np.tanh(c)
    e = d * a
    f = e + b
    return f * f


def _slopes(a, b):
    h = 1e-30
    return _loss(a + 1j * h, b).imag / h, _loss(a, b + 1j * h).imag / h


@exercise(
    cases=lambda rng: [
        (-1.5, 0.75),  # a b is not 1, where slopes of tanh hide
        (0.5, 2.0),
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
    mistakes="""
        a is used twice, and you count its use in e alone
            + by_c * b ->
        a is used twice, and you count its use in c alone
            by_e * d + ->
        b is used twice, and you count its use in f alone
            + by_c * a ->
        b is used twice, and you count its use in c alone
            by_f + ->
        your slope of tanh is 1 - c * c; it is 1 - d * d, of the result
            d * d) -> c * c)
        you leave out the slope of tanh
            by_d * (1 - d * d) -> by_d
    """,
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


def _five_lines(a, b):
    e = (a * b).tanh() * a
    f = e + b
    return f * f


def _more_afterwards(a, b):
    """Nothing made of the loss counts for it."""
    loss = a * b
    _ = loss + a
    return loss


def _doubled(a):
    """65,536 paths, 16 entries: slow if you walk every path."""
    for _ in range(16):
        a = a + a
    return a


def _of_numbers(cls, program, numbers):
    tape = []
    values = [cls(number, tape) for number in numbers]
    loss = program(*values)
    if not tape:
        raise Wrong("no operation leaves its entry on the tape")
    loss.backward()
    return _results(program, loss, [value.grad for value in values])


def _results(program, loss, gradients):
    names = [*inspect.signature(program).parameters]
    if gradients is None or len(gradients) != len(names):
        raise Wrong(f"there should be a list of {len(names)} gradients")
    return {"loss": loss.data, "gradients": dict(zip(names, gradients, strict=True))}


_PLUS, _MINUS, _TIMES, _SQUASHED, _DIAMOND, _ONE_UNUSED, _CHAIN = named(
    plus=lambda a, b: a + b,
    minus=lambda a, b: a - b,
    times=lambda a, b: a * b,
    squashed=lambda a: a.tanh(),
    diamond=lambda a, b: ((c := a * b) + a) * (c - b),
    one_unused=lambda a, b: (a.tanh(), a * b)[0],
    chain=lambda a, b, c: ((a * b).tanh() * c - a).tanh() * b,
)


def _number_programs(rng):
    a, b, c = map(float, rng.normal(size=3))
    return [
        (_PLUS, [a, b]),
        (_MINUS, [a, b]),
        (_TIMES, [a, b]),
        (_SQUASHED, [a]),
        (_five_lines, [0.5, 2.0]),
        (_DIAMOND, [b, c]),
        (_ONE_UNUSED, [a, c]),
        (_more_afterwards, [a, b]),
        (_doubled, [b / 1e3]),
        (_CHAIN, [a, b, c]),
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


Value = used(  # type: ignore[assignment, misc]
    _of_numbers,
    methods=("__sub__", "__mul__", "tanh", "backward"),
    cases=_number_programs,
    hints=[
        "Each operation makes a new Value, and appends (new value, [(input, "
        "derivative), ...]) to self.tape. For a sum both derivatives are 1.",
        "backward: the value that it is called on has grad 1. Go through the tape from "
        "its end: reversed(self.tape).",
        "For each entry and each of its inputs: value.grad += derivative * output.grad",
    ],
    mistakes="""
        a value's later contribution replaces the earlier one; add it
            grad += -> grad =
        you do not multiply by what has arrived at the output: you add up the local
        derivatives alone
            * output.grad ->
        nothing arrives anywhere: the loss starts with grad 1, and each operation leaves
        its entry on the tape
            self.grad = 1.0 -> pass
        you walk the tape from its beginning
            reversed(self.tape) -> self.tape
        you begin at the last value on the tape; begin at the one that backward is
        called on
            self.grad = 1.0 -> self.tape[-1][0].grad = 1.0
        a difference passes on the same sign to both; the second gets -1
            -1.0 -> 1.0
        in a product each factor gets its own value; it gets the other's
            (self, other.data), (other, self.data)
                -> (self, self.data), (other, other.data)
        your slope of tanh is 1 - x * x; it is 1 - y * y, of the result
            1 - y * y -> 1 - self.data**2
    """,
    lines=3000,
)(Value)


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


def _a_step_a_point(weights, network, xs, ys, rate, steps):
    losses = []
    for _ in range(steps):
        total = 0.0
        for x, y in zip(xs, ys, strict=True):
            weights, (loss,) = learn(weights, network, [x], [y], rate, 1)
            total += loss
        losses.append(total)
    return weights, losses


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
    mistakes="""
        each step begins with the first weights again
            losses = [] -> losses, start = [], weights
            for w in weights -> for w in start
        your loss is that of the last point alone
            loss = loss + -> loss =
        your loss is the mean of the squared errors; here it is their sum
            loss = loss + error * error
                -> loss = loss + error * error * Value(1 / len(xs), tape)
        you make a step after each point; here all points together make one step
            = _a_step_a_point(weights, network, xs, ys, rate, steps)
        the gradients of earlier steps are still there: each step needs new Values, or
        grad = 0
            losses = [] -> losses, kept = [], [0.0] * len(weights)
            weights = [v.data - rate * v.grad for v in values]
                -> kept = [k + v.grad for k, v in zip(kept, values, strict=True)];
                weights = [v.data - rate * k for k, v in zip(kept, values, strict=True)]
    """,
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
    mistakes="""
        you sum the axes in front only, not those that were stretched from 1
            g.sum(axis=stretched, keepdims=True) -> g
        you always sum over the first axis; `shape` says which were stretched
            = g.sum(axis=0)
        the axes that were stretched from 1 are gone (keepdims=True keeps them)
            , keepdims=True ->
        you keep the axes in front as 1, where they should go (keepdims=True is for the
        others only)
            in_front) -> in_front, keepdims=True)
            (axis for axis -> (g.ndim - len(shape) + axis for axis
    """,
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
    mistakes="""
        you do not add up over the axes along which an argument was stretched
            unbroadcast(by_a, a.shape), unbroadcast(by_b, b.shape) -> by_a, by_b
        you use .T, which turns all axes round, not only the last two
            np.swapaxes(b, -1, -2) -> b.T
            np.swapaxes(a, -1, -2) -> a.T
    """,
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


def _network(x, W1, b1, W2, b2):
    error = (x @ W1 + b1).tanh() @ W2 + b2
    return (error * error).mean()


def _deep(x, W1, b1, W2, b2):
    hidden = (x @ W1 + b1).relu()
    return ((hidden @ W2 + b2) * hidden).mean()


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
    """Nothing made of the loss counts for it."""
    loss = (a * b).mean()
    _ = loss * b
    return loss


SQUARED, PLUS, MINUS, TIMES, PRODUCT, RELU, PAID_LATE, NO_USE, TWO_SHAPES = named(
    squared=lambda a: (a * a).mean(),
    plus=lambda a, b: (a + b).mean(),
    minus=lambda a, b: (a - b).tanh().mean(),
    times=lambda a, b: (a * b).mean(),
    product=lambda a, b: (a @ b).tanh().mean(),
    relu=lambda a, b: (a * b).relu().mean(),
    paid_late=lambda a, b: (lambda c: (a + b + c).mean())(a + a),
    no_use=lambda a, b: (a * b, a.tanh().mean())[1],
    # b gets one gradient in the shape of a, and one in its own
    two_shapes=lambda a, b: (a + b).mean() + (b * b).mean(),
)


def _array_programs(rng):
    layers = normal(rng, (5, 2), (2, 4), 4, (4, 3), 3)
    square = normal(rng, (3, 3), (3, 3), 3, (3, 3), 3)
    return [
        (SQUARED, normal(rng, (2, 3))),
        (PLUS, normal(rng, (2, 3), (2, 3))),
        (MINUS, normal(rng, (3, 3), (3, 3))),
        (TIMES, normal(rng, (2, 3), (2, 3))),
        (TIMES, normal(rng, (4, 2, 3), (2, 1))),  # stretched
        (PRODUCT, normal(rng, (2, 3), (3, 4))),
        (PRODUCT, normal(rng, (4, 2, 3), (3, 3))),
        (RELU, normal(rng, (4, 3), 3)),
        (_network, layers),
        (_deep, square),
    ]


def _given(cls, program, arrays):
    """A program with this class, on the course's tape."""
    tape = LittleTape()

    def record(data, inputs, vjp):
        tape.entries.append((cls(data, tape), inputs, vjp))
        return tape.entries[-1][0]

    tape.record = record
    nodes = [cls(each, tape) for each in arrays]
    loss = program(*nodes)
    return _results(program, loss, tape.gradient(loss, nodes))


class Node:
    """An array on a tape; each operation is recorded with its vjp."""

    __array_ufunc__ = None  # NumPy must not try to add a Node to an array

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
    mistakes="""
        a difference passes on g to both; the second gets -g
            (g, -g) -> (g, g)
        in a product each factor's gradient is scaled by itself, not by the other
            (g * b, g * a) -> (g * a, g * b)
        the mean passes on g as a sum would; each entry has a share of 1 / x.size
            1 / x.size -> 1.0
        the gradient of the mean is a single number; it should have the shape of x
            np.full(x.shape, 1 / x.size) -> 1 / x.size
        the ReLU passes on all of g, also where x is below 0
            g * (x > 0) -> g
        a vjp gives a bare array; it gives a tuple, one gradient for each input
            (g * (1 - y * y),) -> g * (1 - y * y)
        in a product you use .T, which turns all axes round, and one matrix that meets
        many gets no sum; stacks_vjp does both
            stacks_vjp(g, a, b) -> (g @ b.T, a.T @ g)
    """,
)(Node)


def _more_programs(rng):
    return [
        *_array_programs(rng),
        (NO_USE, normal(rng, (2, 3), 3)),
        (_cubes, normal(rng, (2, 3), 3)),
        (_late, normal(rng, (2, 3), (2, 3))),
        (PAID_LATE, normal(rng, (2, 3), (2, 3))),
        (TWO_SHAPES, normal(rng, (3, 2), 2)),
        (TWO_SHAPES, normal(rng, (2, 2), (2, 1))),
        (_twice, (1e-3 * rng.normal(size=3),)),
    ]


def _on_a_tape(cls, program, arrays):
    """A program on a tape of this class."""
    tape = cls()
    nodes = [tape.watch(each) for each in arrays]
    loss = program(*nodes)
    return _results(program, loss, tape.gradient(loss, nodes))


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
    mistakes="""
        you leave out unbroadcast: what was stretched gets a gradient of the stretched
        shape
            unbroadcast(g, node.data.shape) -> g
        a node's later contribution replaces the earlier one; add it
            gradients.get(node, 0) + g -> g
        you add in place: a sum hands one array to both, so the other gets it, too
            unbroadcast(g, -> g if g.shape == node.data.shape else unbroadcast(g,
            gradients.get(node, 0) + g
                -> np.add(gradients[node], g, gradients[node]) if node in gradients
                else g
        nothing arrives anywhere: the loss's own gradient is 1, and you walk from the
        end of the entries
            reversed(self.entries) -> self.entries
        a node that the loss does not depend on gets a bare 0; it gets zeros of its
        shape
            np.zeros(node.data.shape) -> 0.0
        you add gradients of different shapes, and unbroadcast the sum: bring each to
        the node's shape before you add it
            g = unbroadcast(g, node.data.shape) -> pass
            [gradients.get(node, np.zeros(node.data.shape)) for node in wanted]
                -> [unbroadcast(gradients.get(node, np.zeros(node.data.shape)),
                node.data.shape) for node in wanted]
    """,
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
    """The result of answer(*Nodes) on a tape, and gradients: see `of_node`."""
    tape = LittleTape()
    nodes = {f"argument {k}": tape.watch(x) for k, x in enumerate(arrays, 1)}
    return of_node(answer(*nodes.values()), nodes)


def of_node(found, nodes):
    """The array of an answer's Node, and its mean square's gradients by name."""
    if found is None:
        return None
    if not hasattr(found, "tape"):
        raise Wrong(f"the result is {kind(found)}, expected a Node")
    gradients = found.tape.gradient((found * found).mean(), [*nodes.values()])
    return {"data": found.data, "gradients": dict(zip(nodes, gradients, strict=True))}
