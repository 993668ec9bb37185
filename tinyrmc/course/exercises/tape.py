"""Chapter 3: an engine of your own."""

import inspect
import math
from types import FunctionType

import numpy as np

from .. import panels
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
        in e = d a each factor has the other for its slope: dL/dd is dL/de times a
            by_e * a -> by_e * d
        in e = d a each factor has the other for its slope: by way of e, a gets dL/de
        times d
            by_e * d + -> by_e * a +
    """,
    exact=lambda a, b: by_complex_step(_loss, "a b")(1.0, a, b),
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


class Value:
    """A number that leaves on its tape, a list, how it was made.

    `*`, `tanh` and `backward` are the solutions of exercises, below.
    """

    def __init__(self, data, tape):
        self.data, self.tape, self.grad = data, tape, 0.0

    def record(self, data, inputs):
        output = Value(data, self.tape)
        self.tape.append((output, inputs))
        return output

    def __add__(self, other):
        return self.record(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __sub__(self, other):
        return self.record(self.data - other.data, [(self, 1.0), (other, -1.0)])


def _alone(method, *numbers):
    """A method's result for Values, and its derivatives as its entries have them."""
    tape = []
    values = [Value(number, tape) for number in numbers]
    output = method(*values)
    if output is None:
        return None
    if not hasattr(output, "data"):
        raise Wrong(f"the result is {kind(output)}, expected a Value")
    if not tape:
        raise Wrong("it leaves no entry on the tape: is it made by self.record?")
    slopes = [slope for _, inputs in tape for _, slope in inputs]
    if any(isinstance(slope, Value) for slope in slopes):
        raise Wrong("a local derivative is a Value; a number stands there: value.data")
    _walk_back(output, tape)
    names = dict(zip(("self", "other"), values, strict=False))
    gradients = {name: value.grad for name, value in names.items()}
    return {"data": output.data, "derivatives": gradients}


def _walk_back(loss, tape):
    loss.grad = 1.0
    for output, inputs in reversed(tape):
        for value, derivative in inputs:
            value.grad += derivative * output.grad


def _pairs(rng):
    return [(2.0, -0.5), *map(tuple, rng.normal(size=(3, 2)).tolist()), (0.0, 3.0)]


@used(
    _alone,
    cases=_pairs,
    hints=[
        "It is like __add__: compute the result, and record it with its inputs.",
        "How does a b change when a alone moves by a little? By b times as much.",
    ],
    mistakes="""
        each factor gets its own value; it gets the other's
            (self, other.data), (other, self.data)
                -> (self, self.data), (other, other.data)
        both derivatives are 1, as in a sum
            (self, other.data), (other, self.data) -> (self, 1.0), (other, 1.0)
        the entry names one of the two factors alone
            , (other, self.data)] -> ]
        each factor stands beside the other Value; beside it stands the other's number,
        its data
            (self, other.data), (other, self.data) -> (self, other), (other, self)
    """,
)
def times(self, other):
    """self * other for Values -> a Value, with its entry on the tape."""
    inputs = [(self, other.data), (other, self.data)]
    return self.record(self.data * other.data, inputs)


@used(
    _alone,
    cases=lambda rng: [(0.5,), (-1.5,), (0.0,), *((x,) for x in rng.normal(size=3))],
    hints=[
        "math.tanh(self.data) is the result y. What is its slope, written with y?",
        "The slope is 1 - y * y; there is one input, self.",
    ],
    mistakes="""
        your slope of tanh is 1 - x * x; it is 1 - y * y, of the result
            1 - y * y -> 1 - self.data**2
        your slope of tanh is 1 - y; it is 1 - y * y
            1 - y * y -> 1 - y
        you leave out the slope of tanh
            1 - y * y -> 1.0
    """,
)
def tanh(self):
    """The tanh of a Value -> a Value, with its entry on the tape."""
    y = math.tanh(self.data)
    return self.record(y, [(self, 1 - y * y)])


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


def _backward(method, program, numbers):
    tape = []
    values = [Value(number, tape) for number in numbers]
    loss = program(*values)
    before = [*tape]
    if method(loss) is not None:
        raise Wrong("it returns something; backward leaves what it finds in each grad")
    if [*map(id, tape)] != [*map(id, before)]:
        raise Wrong("it changes the tape, which a second walk needs as it was")
    return _results(
        [*inspect.signature(program).parameters], loss, [value.grad for value in values]
    )


def _results(names, loss, gradients):
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


@used(
    _backward,
    cases=_number_programs,
    hints=[
        "The value that backward is called on, self, has the grad 1. Go through the "
        "tape from its end: reversed(self.tape).",
        "An entry is a pair, (output, inputs), and inputs is a list of pairs, (value, "
        "derivative).",
        "For each of an entry's inputs: value.grad += derivative * output.grad",
    ],
    mistakes="""
        a value's later contribution replaces the earlier one; add it
            grad += -> grad =
        you do not multiply by what has arrived at the output: you add up the local
        derivatives alone
            * output.grad ->
        nothing arrives anywhere: the value that backward is called on has the grad 1
            self.grad = 1.0 -> pass
        you walk the tape from its beginning
            reversed(self.tape) -> self.tape
        you begin at the last value on the tape; begin at the one that backward is
        called on
            self.grad = 1.0 -> self.tape[-1][0].grad = 1.0
        you turn the tape itself over; reversed(self.tape) goes through it from the end
        and leaves it as it is
            reversed(self.tape) -> self.tape.reverse() or self.tape
        you take the entries off the tape; reversed(self.tape) goes through it from the
        end and leaves it as it is
            reversed(self.tape) -> [self.tape.pop() for _ in self.tape[:]]
    """,
    lines=3000,
)
def backward(self):
    """Walk the tape back from this Value: every Value's grad is its gradient."""
    self.grad = 1.0
    for output, inputs in reversed(self.tape):
        for value, derivative in inputs:
            value.grad += derivative * output.grad


def complete(cls, **methods):
    """Give a class copies of solutions: a teacher's judge may lock the exercises'."""
    for name, solved in methods.items():
        code, names = solved.function.__code__, solved.function.__globals__
        setattr(cls, name, FunctionType(code, names, name))


complete(Value, __mul__=times, tanh=tanh, backward=backward)


def straight(weights, x):
    """A line: slope and height. It sees whether the tape of a step is a new one."""
    slope, height = weights
    guess = slope * x + height
    if len(x.tape) > 500:
        raise Wrong(
            "it goes on writing on the tape of earlier steps, so each walk back is "
            "longer than the one before: make a new tape in each step"
        )
    return guess


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
        (numbers(2), straight, numbers(5), numbers(5), 0.01, 40),  # one tape is long
    ]


def _a_step_a_point(weights, network, xs, ys, rate, steps):
    losses = []
    for _ in range(steps):
        total = 0.0
        for x, y in zip(xs, ys, strict=True):
            (loss,), weights = learn(weights, network, [x], [y], rate, 1)
            total += loss
        losses.append(total)
    return losses, weights


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
        all steps write on one tape, so each walk back is longer than the one before:
        make a new tape in each step
            tape = [] -> pass
            losses = [] -> losses, tape = [], []
        your loss is that of the last point alone
            loss = loss + -> loss =
        your loss is the mean of the squared errors; here it is their sum
            loss = loss + error * error
                -> loss = loss + error * error * Value(1 / len(xs), tape)
        you make a step after each point; here all points together make one step
            = _a_step_a_point(weights, network, xs, ys, rate, steps)
        you note the loss after each step; here it is the loss before
            = (learn(weights, network, xs, ys, rate, steps + 1)[0][1:], learn(weights,
                network, xs, ys, rate, steps)[1])
        you return the weights first; the losses come first, as in chapter 5's `train`
            return losses, weights -> return weights, losses
        your weights stay as they were: either the new ones are not kept, or the Values
        that you made are not on the tape of this step, so that no gradient reaches them
            rate * v.grad -> 0 * v.grad
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
    -> (the loss before each step, new weights).
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
    return losses, weights


# --- A curve of one's own -------------------------------------------------------------


def waves(weights, x):
    """Four hidden units: thirteen Values and a Value -> a Value."""
    guess = weights[-1]
    for k in range(0, 12, 3):
        w, b, v = weights[k : k + 3]
        guess = guess + (w * x + b).tanh() * v
    return guess


def says(weights, xs):
    """The outputs of `waves` for numbers."""
    values = [Value(float(w), []) for w in weights]
    return [waves(values, Value(float(x), [])).data for x in xs]


_LEARNT = "its picture shows what it has learnt"


def _curve(answer, waves, learn, seed):
    """Looks at what is returned, then at the picture."""
    panel = panels.new_panel()
    found = answer(waves, learn, seed, panel)
    if found is None:
        return None
    xs, ys, before, after = _numbers_of(found)
    if seed == 0:  # once is enough
        one, other = (
            _numbers_of(answer(waves, learn, k, panels.new_panel()))[2] for k in (0, 1)
        )
        if not np.array_equal(before, one):
            raise Wrong("it begins elsewhere when it runs again: use default_rng(seed)")
        if np.array_equal(before, other):
            raise Wrong("its first weights are the same with every seed")
    if len(xs) < 10 or np.abs(xs).max() > 3 or len({*xs}) < len(xs):
        raise Wrong(
            "there should be ten numbers xs or more, from -3 to 3, all different"
        )
    if np.ptp(ys) < 1e-3:
        raise Wrong("its curve is flat: choose one with something to learn")
    losses = [np.square(np.subtract(says(w, xs), ys)).sum() for w in (before, after)]
    if np.array_equal(before, after):
        raise Wrong("the weights before and after training are the same")
    if not losses[1] < losses[0]:
        raise Wrong(
            f"the loss grew from {losses[0]:.3g} to {losses[1]:.3g}: is the rate too "
            "large, or have before and after changed places?"
        )
    panels.check_names(panel)
    panels.check_order(panel)
    if panels.find(panel, xs, ys, "the points").joined:
        raise Wrong('the points are joined; draw them as dots, with "o"')
    lines = [each for each in panels.drawn(panel) if each.joined]
    for name, weights in (("before", before), ("after", after)):
        found = [each for each in lines if np.allclose(each.y, says(weights, each.x))]
        if not found:
            raise Wrong(f"no line is what the network says {name} training")
        if max(len(each.x) for each in found) < 50:
            raise Wrong("the lines have too few points to see what is between them")
    return _LEARNT


def _numbers_of(found):
    if not isinstance(found, (tuple, list)) or len(found) != 4:
        raise Wrong("it should return four things: xs, ys, weights before and after")
    xs, ys, before, after = (np.array([float(x) for x in each]) for each in found)
    if xs.shape != ys.shape:
        raise Wrong(f"there are {len(xs)} xs and {len(ys)} ys")
    if len(before) != 13 or len(after) != 13:
        raise Wrong("the network has thirteen weights")
    return xs, ys, before, after


@used(
    _curve,
    cases=lambda rng: [(waves, learn, seed) for seed in (0, 3, 7)],
    hints=[
        "First the numbers: xs = np.linspace(-3, 3, 15).tolist(), and ys from a "
        "function that you choose.",
        "before = np.random.default_rng(seed).normal(size=13).tolist(), and _, after = "
        "learn(before, waves, xs, ys, 0.01, 200). If the loss grows, take a smaller "
        "rate.",
        "A line: dense = np.linspace(-3, 3, 61), and for each x of it "
        "waves([Value(w, []) for w in after], Value(x, [])).data.",
    ],
    mistakes="""
        you draw the same line twice: both come from the weights after training
            says(before, dense), label -> says(after, dense), label
            0.02, 200 -> 0.02, 5
        you draw the network at the points alone; between them one sees nothing
            np.linspace(-3, 3, 61) -> xs
            0.02, 200 -> 0.02, 5
        the axes have no names
            panel.set(xlabel="x", ylabel="y") -> pass
            0.02, 200 -> 0.02, 5
        your points are joined by lines
            panel.plot(xs, ys, "o") -> panel.plot(xs, ys, label="points")
            0.02, 200 -> 0.02, 5
        you return the weights in the wrong order
            xs, ys, before, after -> xs, ys, after, before
            0.02, 200 -> 0.02, 5
        the first weights come from another seed than the one that you were given
            default_rng(seed) -> default_rng(0)
            0.02, 200 -> 0.02, 5
    """,
    found=_LEARNT,
    seconds=60.0,
)
def my_curve(waves, learn, seed, panel):
    """Learns a curve of one's own and draws it.

    waves(values, x) is the network, learn as in the exercise; panel an empty picture
    -> xs and ys (lists of numbers), the weights before and after training.
    """
    xs = np.linspace(-3, 3, 10).tolist()
    ys = [abs(x) - 1.5 for x in xs]
    before = np.random.default_rng(seed).normal(size=13).tolist()
    _, after = learn(before, waves, xs, ys, 0.02, 200)
    dense = np.linspace(-3, 3, 61)
    panel.plot(xs, ys, "o")
    panel.plot(dense, says(before, dense), label="before training")
    panel.plot(dense, says(after, dense), label="after training")
    panel.set(xlabel="x", ylabel="y")
    return xs, ys, before, after


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
        you average over the copies; their gradients add up
            g.sum(axis=in_front) -> g.mean(axis=in_front)
            g.sum(axis=stretched, keepdims=True) -> g.mean(axis=stretched,
                keepdims=True)
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
        a matrix should be transposed; where all sizes are alike the shapes do not tell
            np.swapaxes(b, -1, -2) -> b
            np.swapaxes(a, -1, -2) -> a
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


SQUARED, PLUS, MINUS, TIMES, PRODUCT, RELU, USED_LATE, NO_USE, TWO_SHAPES = named(
    squared=lambda a: (a * a).mean(),
    plus=lambda a, b: (a + b).mean(),
    minus=lambda a, b: (a - b).tanh().mean(),
    times=lambda a, b: (a * b).mean(),
    product=lambda a, b: (a @ b).tanh().mean(),
    relu=lambda a, b: (a * b).relu().mean(),
    used_late=lambda a, b: (lambda c: (a + b + c).mean())(a + a),
    no_use=lambda a, b: (a * b, a.tanh().mean())[1],
    # b gets one gradient in the shape of a, and one in its own
    two_shapes=lambda a, b: (a + b).mean() + (b * b).mean(),
)


def _squares(a, b):
    """Also wants a node that is made on the way."""
    inside = a * b
    return (inside * inside).mean(), inside


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
        (NO_USE, normal(rng, (2, 3), 3)),
        (_cubes, normal(rng, (2, 3), 3)),
        (_late, normal(rng, (2, 3), (2, 3))),
        (USED_LATE, normal(rng, (2, 3), (2, 3))),
        (TWO_SHAPES, normal(rng, (3, 2), 2)),
        (TWO_SHAPES, normal(rng, (2, 2), (2, 1))),
        (_twice, (1e-3 * rng.normal(size=3),)),
        (_squares, normal(rng, (2, 3), (2, 3))),
    ]


class Node:
    """An array on a tape; each operation is recorded with its vjp.

    `@`, `relu` and `mean` are the solutions of exercises, below.
    """

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

    def tanh(self):
        y = np.tanh(self.data)
        return self.tape.record(y, (self,), lambda g: (g * (1 - y * y),))


class LittleTape:
    """Records what happens to arrays, and plays it backwards.

    `gradient` is the solution of an exercise, below.
    """

    node = Node

    def __init__(self):
        self.entries = []

    def watch(self, data):
        return self.node(np.asarray(data), self)

    def record(self, data, inputs, vjp):
        output = self.node(data, self)
        self.entries.append((output, inputs, vjp))
        return output


def taped(answer, *arrays):
    """The result of answer(*Nodes) on a tape, and gradients: see `of_node`."""
    tape = LittleTape()
    nodes = {f"argument {k}": tape.watch(x) for k, x in enumerate(arrays, 1)}
    return of_node(answer(*nodes.values()), nodes)


def of_node(found, nodes):
    """The array of an answer's Node, and by name the gradients of a mean of its
    entries, in which each has a weight of its own.
    """
    if found is None:
        return None
    if not hasattr(found, "tape"):
        raise Wrong(f"the result is {kind(found)}, expected a Node")
    tape, weights = found.tape, np.random.default_rng(7).normal(size=found.data.shape)
    gradients = tape.gradient((found * tape.watch(weights)).mean(), [*nodes.values()])
    return {"data": found.data, "gradients": dict(zip(nodes, gradients, strict=True))}


@used(
    taped,
    cases=lambda rng: [
        normal(rng, (2, 3), (3, 4)),
        normal(rng, (3, 3), (3, 3)),
        normal(rng, (4, 2, 3), (3, 3)),  # a batch meets one matrix
        normal(rng, (4, 2, 3), (4, 3, 2)),
    ],
    hints=["You have derived its vjp: stacks_vjp(g, a, b) gives both gradients."],
    mistakes="""
        you use .T, which turns all axes round, and one matrix that meets many gets no
        sum; stacks_vjp does both
            stacks_vjp(g, a, b) -> (g @ b.T, a.T @ g)
        the two gradients have changed places
            stacks_vjp(g, a, b) -> stacks_vjp(g, a, b)[::-1]
        you take the product entry by entry
            a @ b, (self -> a * b, (self
        you record gradients; record the function that makes them of g, lambda g: ...
            lambda g: stacks_vjp(g, a, b) -> stacks_vjp(np.ones((a @ b).shape), a, b)
    """,
)
def matmul(self, other):
    """self @ other for Nodes, stacks of matrices -> a Node."""
    a, b = self.data, other.data
    return self.tape.record(a @ b, (self, other), lambda g: stacks_vjp(g, a, b))


@used(
    taped,
    cases=lambda rng: [
        normal(rng, (4, 3)),
        normal(rng, (3, 3)),
        (np.array([-2.0, 3.0, 0.5, -1e-3]),),
        normal(rng, (2, 3, 4)),
    ],
    hints=[
        "The slope of max(x, 0) is 1 where x is above 0, and 0 elsewhere.",
        "x > 0 has just these numbers: g * (x > 0). One input, so (g * (x > 0),).",
    ],
    mistakes="""
        you pass on all of g, also where x is below 0
            g * (x > 0) -> g
        your vjp gives a bare array; it gives a tuple, one gradient for each input
            (g * (x > 0),) -> g * (x > 0)
        you pass on the slope without g
            g * (x > 0) -> 1.0 * (x > 0) + 0 * g
        you cut g off at 0; where x is below 0, g does not count, whatever its sign
            g * (x > 0) -> np.maximum(g, 0)
        you multiply by x, not by its slope
            g * (x > 0) -> g * np.maximum(x, 0)
    """,
)
def relu(self):
    """max(x, 0) of each entry of a Node -> a Node."""
    x = self.data
    return self.tape.record(np.maximum(x, 0), (self,), lambda g: (g * (x > 0),))


@used(
    taped,
    cases=lambda rng: [
        normal(rng, (2, 3)),
        normal(rng, (3, 3)),
        normal(rng, 4),
        normal(rng, (2, 3, 4)),
    ],
    hints=[
        "The result is one number, x.mean(). Move one of the x.size entries: by how "
        "much does the mean move?",
        "Each entry gets g / x.size, in an array of x's shape: np.full(x.shape, 1 / "
        "x.size) times g.",
    ],
    mistakes="""
        you pass on g as a sum would; each entry has a share of 1 / x.size
            1 / x.size -> 1.0
        the gradient is a single number; it should have the shape of x
            np.full(x.shape, 1 / x.size) -> 1 / x.size
        your vjp gives each entry its share, and leaves out g
            g * share -> share
        you take the mean over the first axis alone; it is that of all entries
            x.mean() -> x.mean(axis=0)
        you divide by the number of rows; every entry counts
            1 / x.size -> 1 / len(x)
    """,
)
def mean(self):
    """The mean of all entries of a Node -> a Node, a single number."""
    x = self.data
    share = np.full(x.shape, 1 / x.size)
    return self.tape.record(x.mean(), (self,), lambda g: (g * share,))


# The methods that exercises write, and their names in the classes
METHODS = {
    "matmul": "__matmul__",
    "relu": "relu",
    "mean": "mean",
    "gradient": "gradient",
}
complete(Node, __matmul__=matmul, relu=relu, mean=mean)


def _gradient(method, program, arrays):
    """A program's result and gradients, by this method of a tape."""
    tape = tape_of(gradient=method)()
    nodes = dict(zip(inspect.signature(program).parameters, arrays, strict=True))
    nodes = {name: tape.watch(each) for name, each in nodes.items()}
    loss = program(*nodes.values())
    if isinstance(loss, tuple):
        loss, nodes["inside"] = loss
    return _results([*nodes], loss, tape.gradient(loss, [*nodes.values()]))


@used(
    _gradient,
    cases=_array_programs,
    hints=[
        "A dict from node to gradient. It begins with {loss: np.ones(loss.data.shape)"
        "}. Go through self.entries from the end, and skip those whose output has no "
        "gradient.",
        "For each input and its g out of vjp(gradients[output]): first g = "
        "unbroadcast(g, node.data.shape), then add it to what the node has got, "
        "gradients.get(node, 0).",
        "At the end a list for the nodes in `wanted`; one that has got nothing gets "
        "np.zeros(node.data.shape).",
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
        the loss's own gradient is the number 1; it is an array of the loss's shape,
        np.ones(loss.data.shape)
            np.ones(loss.data.shape) -> 1.0
        nothing arrives anywhere: the loss's own gradient is 1, and you walk from the
        end of the entries
            reversed(self.entries) -> self.entries
        a node that the loss does not depend on gets a bare 0; it gets zeros of its
        shape
            np.zeros(node.data.shape) -> 0.0
        the gradient of a node inside is gone once it has been used; it may be wanted
            vjp(gradients[output]) -> vjp(gradients.pop(output))
        you add gradients of different shapes, and unbroadcast the sum: bring each to
        the node's shape before you add it
            g = unbroadcast(g, node.data.shape) -> pass
            [gradients.get(node, np.zeros(node.data.shape)) for node in wanted]
                -> [unbroadcast(gradients.get(node, np.zeros(node.data.shape)),
                node.data.shape) for node in wanted]
    """,
    lines=6000,
)
def gradient(self, loss, wanted):
    """Walk a tape's entries back -> the gradients of the nodes in the list `wanted`."""
    gradients = {loss: np.ones(loss.data.shape)}
    for output, inputs, vjp in reversed(self.entries):
        if output in gradients:  # else the loss does not depend on it
            for node, g in zip(inputs, vjp(gradients[output]), strict=True):
                g = unbroadcast(g, node.data.shape)
                gradients[node] = gradients.get(node, 0) + g
    return [gradients.get(node, np.zeros(node.data.shape)) for node in wanted]


complete(LittleTape, gradient=gradient)


def tape_of(**methods):
    """The class LittleTape with these in the place of its own and of its Node's."""
    own = {METHODS[name]: method for name, method in methods.items()}
    walk = {name: own.pop(name) for name in ("gradient",) if name in own}
    node = type("Node", (Node,), own)
    return type("LittleTape", (LittleTape,), {"node": node} | walk)
