"""Answers to chapters 0 to 4 that no list of mistakes has: WRONG ones, RIGHT ones."""

import math

import numpy as np

from tinyrmc.course.exercises import arrays as a
from tinyrmc.course.exercises import checking as c
from tinyrmc.course.exercises import first as f
from tinyrmc.course.exercises import tape as t

f32 = np.float32


def with_loop(M):
    out = np.zeros_like(M)
    for k in range(len(M)):
        out[k] = M[k] - M[k].mean()
    return out


def walk_every_path(self):
    """Right, but for sixteen doublings slow."""
    made = {id(output): inputs for output, inputs in self.tape}

    def arrive(value, by):
        value.grad += by
        for each, derivative in made.get(id(value), []):
            arrive(each, by * derivative)

    arrive(self, 1.0)


def walk_to_the_end(self):
    """From the last value on the tape, whichever it is."""
    self.tape[-1][0].grad = 1.0
    for output, inputs in self.tape[::-1]:
        for value, derivative in inputs:
            value.grad += derivative * output.grad


def seeded(self):
    """With the value of the loss in the place of 1."""
    t.backward.function(self)
    for value in {
        v for out, inputs in self.tape for v in (out, *(x for x, _ in inputs))
    }:
        value.grad *= self.data


def walk_by_index(self):
    self.grad = 1.0
    for k in range(len(self.tape) - 1, -1, -1):
        output, inputs = self.tape[k]
        for value, derivative in inputs:
            value.grad = value.grad + output.grad * derivative


def walk_turned(self):
    """Right, but afterwards the tape begins at its end."""
    self.grad = 1.0
    self.tape.reverse()
    for output, inputs in self.tape:
        for value, derivative in inputs:
            value.grad += derivative * output.grad


class GraphValue:
    """Its own inputs instead of a tape, and an order found by searching."""

    def __init__(self, data, tape, inputs=()):
        self.data, self.tape, self.inputs, self.grad = data, tape, inputs, 0.0

    def __add__(self, other):
        return GraphValue(self.data + other.data, [], [(self, 1), (other, 1)])

    def __sub__(self, other):
        return GraphValue(self.data - other.data, [], [(self, 1), (other, -1)])

    def __mul__(self, other):
        inputs = [(self, other.data), (other, self.data)]
        return GraphValue(self.data * other.data, [], inputs)

    def tanh(self):
        y = np.tanh(self.data)
        return GraphValue(y, [], [(self, 1 - y**2)])

    def backward(self):
        order, seen = [], set()

        def visit(value):
            if value not in seen:
                seen.add(value)
                for each, _ in value.inputs:
                    visit(each)
                order.append(value)

        visit(self)
        self.grad = 1.0
        for value in reversed(order):
            for each, derivative in value.inputs:
                each.grad += derivative * value.grad


def taught(weights, network, xs, ys, rate, steps, value=t.Value, mean=1, tape=None):
    losses, one = [], tape
    for _ in range(steps):
        values = [value(w, tape := [] if one is None else one) for w in weights[:1]]
        values += [value(w, tape) for w in weights[1:]]
        loss = None
        for x, y in zip(xs, ys, strict=True):
            error = value(y, tape) - network(values, value(x, tape))
            loss = error * error if loss is None else loss + error * error
        loss.backward()
        losses.append(loss.data)
        weights = [v.data - mean * rate * v.grad for v in values]
    return np.array(losses), weights


def curve(
    waves,
    learn,
    seed,
    panel,
    *,
    points=12,
    lines=60,
    bend=np.cos,
    steps=20,
    rate=0.01,
    start=None,
    names=True,
    dots="o",
    drawn=None,
    late=False,
    flip=False,
):
    """A learner's picture of a curve."""
    xs = [float(x) for x in np.linspace(-3, 3, points)]
    ys = [float(bend(x)) for x in xs]
    rng = np.random.default_rng(seed if start is None else start(seed))
    before = list(rng.normal(size=13))
    _, after = learn(before, waves, xs, ys, rate, steps)
    if late:
        before = after
    dense = np.linspace(-3, 3, lines)
    panel.scatter(ys if flip else xs, xs if flip else ys) if dots else 0
    for weights, label in ((before, "fresh"), (after, "learnt")):
        values = [t.Value(w, []) for w in weights]
        says = [waves(values, t.Value(x, [])).data for x in dense]
        panel.plot(dense, says if drawn is None else drawn(says), label=label)
    if names:
        panel.set_xlabel("number")
        panel.set_ylabel("height")
    return xs, ys, before, after


def by_attributes(self, loss, wanted):
    """Gradients on the nodes themselves."""
    for output, inputs, _ in self.entries:
        for each in (output, *inputs):
            each.grad = np.zeros(np.shape(each.data))
    for each in wanted:
        each.grad = np.zeros(np.shape(each.data))
    loss.grad = np.ones(())
    for output, inputs, vjp in self.entries[::-1]:
        for each, g in zip(inputs, vjp(output.grad), strict=True):
            each.grad = each.grad + t.unbroadcast(g, each.data.shape)
    return [each.grad for each in wanted]


def once_for_each_node(self, loss, wanted):
    """A node used twice in one operation counts once."""
    gradients = {loss: np.ones(())}
    for output, inputs, vjp in reversed(self.entries):
        if output in gradients:
            arrived = dict(zip(inputs, vjp(gradients[output]), strict=True))
            for each, g in arrived.items():
                g = t.unbroadcast(g, each.data.shape)
                gradients[each] = gradients.get(each, 0) + g
    return [gradients.get(each, np.zeros(each.data.shape)) for each in wanted]


def summed_to_numbers(self, loss, wanted):
    return [g.sum() for g in t.gradient.function(self, loss, wanted)]


def unbroadcast_at_the_end(self, loss, wanted):
    """Adds what comes in different shapes."""
    gradients = {loss: np.ones(())}
    for output, inputs, vjp in reversed(self.entries):
        if output in gradients:
            for each, g in zip(inputs, vjp(gradients[output]), strict=True):
                gradients[each] = gradients.get(each, 0) + g
    return [
        t.unbroadcast(gradients[each], each.data.shape)
        if each in gradients
        else np.zeros(each.data.shape)
        for each in wanted
    ]


def taught_on(weights, network, xs, ys, rate, steps):
    """The gradients of earlier steps stay."""
    values, losses = [t.Value(w, []) for w in weights], []
    for _ in range(steps):
        tape = []
        for each in values:
            each.tape = tape
        loss = t.Value(0.0, tape)
        for x, y in zip(xs, ys, strict=True):
            error = network(values, t.Value(x, tape)) - t.Value(y, tape)
            loss = loss + error * error
        loss.backward()
        losses.append(loss.data)
        for each in values:
            each.data -= rate * each.grad
    return losses, [each.data for each in values]


def taught_elsewhere(weights, network, xs, ys, rate, steps):
    """The weights are on the tape of the first step, the loss on that of each."""
    values, losses = [t.Value(w, []) for w in weights], []
    for _ in range(steps):
        tape = []
        loss = t.Value(0.0, tape)
        for x, y in zip(xs, ys, strict=True):
            error = network(values, t.Value(x, tape)) - t.Value(y, tape)
            loss = loss + error * error
        loss.backward()
        losses.append(loss.data)
        for each in values:
            each.data -= rate * each.grad
    return losses, [each.data for each in values]


def float32_tape(self, loss, wanted):
    return [g.astype(f32) for g in t.gradient.function(self, loss, wanted)]


def farthest_of(points, m, n):
    away = np.linalg.norm(points - points[np.arange(len(points)), m][:, None], axis=2)
    return np.argsort(-away, axis=1)[np.arange(len(points)), n]


def one_by_one(points, m, n):
    found = []
    for each, k, place in zip(points, m, n, strict=True):
        found.append(np.argsort(((each - each[k]) ** 2).sum(1))[place])
    return np.array(found)


def all_at_once(points, m, n):
    asked = np.take_along_axis(points, m[:, None, None], axis=1)
    order = np.linalg.norm(points - asked, axis=2).argsort(axis=1)
    return np.take_along_axis(order, n[:, None], axis=1)[:, 0]


def layers_back(weights, x, target, *, slope, scale=2.0, axis=0):
    W1, b1, W2, b2 = weights
    h = np.tanh(x @ W1 + b1)
    g = scale * (h @ W2 + b2 - target) / target.size
    by_h = g @ W2.T * slope(h, x @ W1 + b1)
    return [x.T @ by_h, by_h.sum(axis), h.T @ g, g.sum(axis)]


def unrolled(w, u, xs, *, memory=lambda hs, t: hs[t], further=None, count=None):
    hs = [0.0]
    for x in xs:
        hs.append(np.tanh(w * hs[-1] + u * x))
    by_w, by_u, g = 0.0, 0.0, hs[-1]
    for k in range(len(xs) - 1, -1, -1):
        g *= 1 - hs[k + 1] ** 2
        by_w += g * memory(hs, k)
        by_u += g * xs[k]
        g *= w if further is None else further
    return by_w / (count or 1), by_u


def differences(f, x, h, forward=False):
    g = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[k] = h
        g[k] = (f(x + e) - f(x)) / h if forward else (f(x + e) - f(x - e)) / (2 * h)
    return g


def moved_in_place(f, x, h):
    """Adds h and takes it off again, which need not give x back."""
    g = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        x[k] += h
        above = f(x)
        x[k] -= 2 * h
        g[k] = (above - f(x)) / (2 * h)
        x[k] += h
    return g


def put_back(f, x, h):
    """Keeps the old number and puts it back."""
    g = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        before = float(x[k])
        x[k] = before + h
        above = f(x)
        x[k] = before - h
        g[k] = (above - f(x)) / (2 * h)
        x[k] = before
    return g


def better_differences(f, x):
    """Error h^4: nearly ten digits."""
    return (4 * differences(f, x, 5e-4) - differences(f, x, 1e-3)) / 3


def complex_steps(f, x, h, part=np.imag):
    g = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        z = x.astype(complex)
        z[k] += 1j * h
        g[k] = part(f(z)) / h
    return g


def rule(
    forward, vjp, x, *, v=None, g=None, slope=None, close=None, seed=3, dtype=float
):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=x.shape).astype(dtype) if v is None else v(x)
    y = forward(x)
    g = rng.normal(size=np.shape(y)).astype(dtype) if g is None else g(y)
    slope = slope or (lambda f, x, v: f(x + 1e-30j * v).imag / 1e-30)
    exact = (g * slope(forward, x, v)).sum()
    terms = vjp(g, x) * v
    close = close or (lambda a, b, size: bool(abs(a - b) <= 1e-10 * size))
    return close(terms.sum(), exact, max(abs(terms).sum(), abs(exact)))


def central(f, x, v, h=1e-5):
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


def richardson(f, x, v):
    return (4 * central(f, x, v, 5e-4) - central(f, x, v, 1e-3)) / 3


def entry_by_entry(forward, vjp, x):
    y = np.asarray(forward(x))
    g = np.random.default_rng(0).normal(size=y.shape)
    exact = np.zeros(x.shape)
    for k in np.ndindex(x.shape):
        z = x.astype(complex)
        z[k] += 1e-30j
        exact[k] = (g * forward(z).imag).sum() / 1e-30
    found = vjp(g, x)
    return np.allclose(found, exact, rtol=1e-10, atol=1e-12 * abs(exact).max())


WRONG = {
    t.five_lines: [
        lambda a, b: t.five_lines(b, a),
        lambda a, b: tuple(x / 2 for x in t.five_lines(a, b)),
        lambda a, b: (t.five_lines(a, b)[0], 2 * (np.tanh(a * b) * a + b)),
        lambda a, b: t.five_lines(a, b)[0],
    ],
    t.times: [
        lambda a, b: a.record(a.data * b.data, [(a, b.data)]),
        lambda a, b: a.record(a.data * b.data, [(a, b.data), (b, b.data)]),
        lambda a, b: t.Value(a.data * b.data, a.tape),
        lambda a, b: a.data * b.data,
        lambda a, b: a.record(a.data * b.data, [(a, b), (b, a)]),
        lambda a, b: a.record(a.data + b.data, [(a, b.data), (b, a.data)]),
    ],
    t.tanh: [
        lambda a: a.record(math.tanh(a.data), [(a, 1 - abs(math.tanh(a.data)))]),
        lambda a: a.record(math.tanh(a.data), [(a, (1 - math.tanh(a.data) ** 2) ** 2)]),
        lambda a: a.record(a.data, [(a, 1.0)]),
        lambda a: math.tanh(a.data),
    ],
    t.backward: [walk_every_path, walk_to_the_end, walk_turned, seeded, lambda self: setattr(self, "grad", 1.0)],
    t.my_curve: [
        lambda *c: curve(*c, points=6),
        lambda *c: curve(*c, lines=20),
        lambda *c: curve(*c, bend=lambda x: 0.5),
        lambda *c: curve(*c, start=lambda seed: None),
        lambda *c: curve(*c, late=True),
        lambda *c: curve(*c, dots=""),
        lambda *c: curve(*c, drawn=lambda says: says[::-1]),
        lambda *c: curve(*c, flip=True),
        lambda *c: curve(*c)[:3],
    ],
    t.learn: [
        lambda w, f, x, y, r, n: taught(w, f, x[:1], y[:1], r, n),
        lambda w, f, x, y, r, n: taught(w, f, x, y, r, n, mean=0.5),
        lambda w, f, x, y, r, n: taught(w, f, x, y, r, n + 1),
        lambda w, f, x, y, r, n: taught(w, f, x, y, 0.01, n),
        taught_on,
        taught_elsewhere,
        lambda *c: taught(*c, tape=[]),
    ],
    t.matmul: [
        lambda a, b: a.tape.record(a.data @ b.data, (a, b),
            lambda g: (g @ b.data.T, a.data.T @ g)),
        lambda a, b: a.tape.record(a.data @ b.data, (a,),
            lambda g: (t.stacks_vjp(g, a.data, b.data)[0],)),
        lambda a, b: a.tape.record(a.data @ b.data, (a, b),
            lambda g: (g @ np.swapaxes(b.data, -1, -2), g * 0)),
        lambda a, b: a.data @ b.data,
    ],
    t.relu: [
        lambda a: a.tape.record(abs(a.data), (a,), lambda g: (g * np.sign(a.data),)),
        lambda a: a.tape.record(np.maximum(a.data, 0), (a,), lambda g: (np.maximum(g, 0),)),
        lambda a: a.tape.record(np.maximum(a.data, 0), (a,), lambda g: (g * np.sign(a.data),)),
        lambda a: np.maximum(a.data, 0),
    ],
    t.mean: [
        lambda a: a.tape.record(a.data.mean(axis=0), (a,),
            lambda g: (g * np.full(a.data.shape, 1 / len(a.data)),)),
        lambda a: a.tape.record(a.data.sum(), (a,), lambda g: (g * np.ones(a.data.shape),)),
        lambda a: a.tape.record(a.data.mean(), (a,), lambda g: (np.full(a.data.shape, 1 / a.data.size),)),
        lambda a: a.tape.record(a.data.mean(), (a,), lambda g: (g * a.data / a.data.size,)),
        lambda a: a.data.mean(),
    ],
    t.gradient: [
        once_for_each_node,
        summed_to_numbers,
        lambda *c: t.gradient.function(*c)[0],
        lambda *c: [2 * g for g in t.gradient.function(*c)],
        float32_tape,
        unbroadcast_at_the_end,
    ],
    a.nth_from: [
        farthest_of,
        lambda points, m, n: np.sort(
            ((points - points[np.arange(len(points)), m][:, None]) ** 2).sum(-1)
        )[np.arange(len(points)), n],
        lambda points, m, n: one_by_one(points, m, n) * 1.0,
        lambda points, m, n: one_by_one(points, m, np.maximum(n, 1)),
        lambda points, m, n: np.full(len(points), one_by_one(points, m, n)[0]),
        one_by_one,  # right, but it loops over the examples
    ],
    c.two_layers_back: [
        lambda *w: layers_back(*w, slope=lambda h, x: 1 - x**2),
        lambda *w: layers_back(*w, slope=lambda h, x: 1 - h**2, scale=1.0),
        lambda *w: layers_back(*w, slope=lambda h, x: 1 - abs(h)),
        lambda *w: layers_back(*w, slope=lambda h, x: (1 - h**2) ** 2),
    ],
    c.steps_back: [
        lambda w, u, xs: unrolled(w, u, xs, memory=lambda hs, t: hs[max(t - 1, 0)]),
        lambda w, u, xs: unrolled(w, u, xs, further=1.0),
        lambda w, u, xs: unrolled(w, u, xs, count=len(xs)),
        lambda w, u, xs: unrolled(w, u, xs)[::-1],
        lambda w, u, xs: unrolled(w, u, xs, memory=lambda hs, t: w * hs[t]),
    ],
    f.mean_slot: [
        lambda M: M.mean(axis=0, keepdims=True),
        lambda M: M.mean(axis=0).astype(f32),
        lambda M: np.median(M, axis=0),
        lambda M: M.sum(axis=0) / M.shape[1],
    ],
    a.centred: [
        with_loop,
        lambda M: M - M.mean(axis=-1)[:, None],
        lambda M: M - M.mean(axis=-1)[:, :, None],
        lambda M: np.stack([m - m.mean(axis=1, keepdims=True) for m in M]),
    ],
    a.squared_distances: [
        lambda M: ((M[:, None] - M[None, :]) ** 2).sum(-1) if M.ndim == 2 else
        ((M[:, :, None] - M[:, None]) ** 2).sum(-1),
        lambda M: np.array([[((x - y) ** 2).sum() for x in M] for y in M]),
        lambda M: abs(M[..., :, None, :] - M[..., None, :, :]).sum(-1),
        lambda M: ((M[..., :, None, :] - M[..., None, :, :]) ** 2).mean(-1),
    ],
    a.project: [
        lambda M, W: np.einsum("bnf,hfk->hbnk", M, W),
        lambda M, W: np.einsum("bnf,hfk->bnhk", M, W),
        lambda M, W: np.einsum("bnf,hfk->bnk", M, W),
        lambda M, W: M[:, None] @ W[:1],
    ],
    a.split_heads: [
        lambda x, H: np.array(np.split(x, H, axis=-1)),
        lambda x, H: x.reshape(*x.shape[:2], H, -1).transpose(0, 2, 1, 3)[:, ::-1],
        lambda x, H: x.reshape(len(x), H, x.shape[1], -1, order="F"),
        lambda x, H: x.reshape(*x.shape[:2], H, -1).transpose(1, 2, 0, 3),
    ],
    a.one_hot: [
        lambda labels, size: np.eye(size)[labels.ravel()],
        lambda labels, size: (labels == np.arange(size)).astype(float),
        lambda labels, size: np.eye(size)[size - 1 - labels],
        lambda labels, size: np.array([np.eye(size)[k] for k in labels]),
    ],
    c.softmax_vjp: [
        lambda g, y: y * (g - g.mean(-1, keepdims=True)),
        lambda g, y: g * y - y * (g * y).sum(axis=0, keepdims=True),
        lambda g, y: g * y - y * (g @ y.T) if y.ndim == 1 else
        g * y - y * np.diagonal(g @ y.swapaxes(-1, -2), 0, -2, -1)[..., None] * 2,
        lambda g, y: c.softmax_vjp(g, np.clip(y, 1e-7, 1)),
    ],
    t.unbroadcast: [
        lambda g, shape: g.sum(axis=0).reshape(shape) if len(shape) < g.ndim else g,
        lambda g, shape: g.reshape(-1, *shape).sum(axis=0) if g.size % max(
            math.prod(shape), 1) == 0 else g,
        lambda g, shape: np.resize(g, shape),
        lambda g, shape: t.unbroadcast(g, shape) if shape else g.sum(axis=0),
        lambda g, shape: t.unbroadcast(g, shape) if g.ndim == 2 else g,
    ],
    c.central_difference: [
        lambda f, x, h: differences(f, x, h, forward=True),
        lambda f, x, h: differences(f, x, h / 2),
        moved_in_place,
        lambda f, x, h: differences(f, x, h).ravel(),
        lambda f, x, h: np.array([differences(f, x, h)[k] for k in range(len(x))]),
    ],
    c.complex_step: [
        better_differences,
        lambda f, x: differences(f, x, 1e-6),
        lambda f, x: complex_steps(f, x, 1e-30).ravel(),
        lambda f, x: np.array([f(x[k] + 1e-30j).imag / 1e-30 for k in range(len(x))]),
    ],
    c.variance: [
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1),
        lambda x: (x**2).mean(-1) - x.mean(-1) ** 2,
        lambda x: (abs(x - x.mean(-1, keepdims=True)) ** 2).mean(-1),
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).mean(-1).real,
        lambda x: np.array([((r - r.mean()) ** 2).mean() for r in x]),
    ],
    c.rule_is_right: [
        lambda f, r, x: rule(f, r, x, slope=central),
        lambda f, r, x: rule(f, r, x, slope=richardson),
        lambda f, r, x: rule(
            f, r, x, slope=central, close=lambda p, q, s: abs(p - q) < 1e-6 * s
        ),
        lambda f, r, x: rule(f, r, x, slope=richardson, close=lambda p, q, s: abs(p - q) < 1e-9 * s),
        lambda f, r, x: rule(f, r, x, g=np.ones_like),
        lambda f, r, x: rule(f, r, x, v=np.ones_like),
        lambda f, r, x: rule(f, r, x, v=np.ones_like, g=np.ones_like),
        lambda f, r, x: rule(f, r, x, v=lambda x: x),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: p == q),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: abs(p - q) / abs(p) < 1e-10),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: abs(p - q) / abs(q) < 1e-10),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: abs(p - q) < 1e-8 * s),
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: abs(p - q) < 1e-10),
        lambda f, r, x: float(c.rule_is_right(f, r, x)),
        lambda f, r, x: True,
        lambda f, r, x: rule(f, r, x, close=lambda p, q, s: p - q <= 1e-10 * s),
        lambda f, r, x: np.shape(r(np.ones_like(f(x)), x)) == x.shape,
    ],
}  # fmt: skip

RIGHT = {
    t.five_lines: [
        lambda a, b: [2 * (np.tanh(a * b) * a + b) * (np.tanh(a * b) + a * b / np.cosh(a * b) ** 2),
                      2 * (np.tanh(a * b) * a + b) * (1 + a * a / np.cosh(a * b) ** 2)],
    ],
    t.times: [
        lambda a, b: a.record(a.data * b.data, ((b, a.data), (a, b.data))),
        lambda a, b: (y := t.Value(a.data * b.data, a.tape), a.tape.append((y, [(a, b.data), (b, a.data)])))[0],
    ],
    t.tanh: [
        lambda a: a.record(np.tanh(a.data), [(a, 1 / np.cosh(a.data) ** 2)]),
        lambda a: a.record(y := math.tanh(a.data), [(a, (1 + y) * (1 - y))]),
    ],
    t.backward: [walk_by_index],
    t.my_curve: [curve, lambda *c: curve(*c, bend=abs, points=21, rate=0.003)],
    t.learn: [taught, lambda *lesson: taught(*lesson, value=GraphValue)],
    t.matmul: [
        lambda a, b: a.tape.record(np.matmul(a.data, b.data), [a, b],
            lambda g: [g @ np.swapaxes(b.data, -1, -2), np.swapaxes(a.data, -1, -2) @ g]),
    ],
    t.relu: [
        lambda a: a.tape.record(a.data * (a.data > 0), (a,), lambda g: (np.where(a.data > 0, g, 0),)),
    ],
    t.mean: [
        lambda a: a.tape.record(a.data.mean(), [a], lambda g: [np.ones_like(a.data) * g / a.data.size]),
    ],
    t.gradient: [by_attributes, lambda *c: tuple(t.gradient.function(*c))],
    a.nth_from: [all_at_once, lambda *question: all_at_once(*question).tolist()],
    c.two_layers_back: [
        lambda *w: layers_back(*w, slope=lambda h, x: 1 / np.cosh(x) ** 2),
        lambda *w: tuple(layers_back(*w, slope=lambda h, x: (1 - h) * (1 + h))),
    ],
    c.steps_back: [unrolled],
    f.mean_slot: [
        lambda M: sum(M) / len(M),
        lambda M: np.ones(len(M)) / len(M) @ M,
        lambda M: [column.mean() for column in M.T],
    ],
    a.centred: [
        lambda M: M - M.mean(-1)[..., None],
        lambda M: M - np.expand_dims(M.sum(axis=-1) / M.shape[-1], -1),
        lambda M: M @ (np.eye(M.shape[-1]) - 1 / M.shape[-1]),
        lambda M, axis=-1: M - M.mean(axis, keepdims=True),
        lambda M: np.stack([m - m.mean(axis=-1, keepdims=True) for m in M]),
        np.vectorize(lambda m: m - m.mean(), signature="(n)->(n)"),
    ],
    a.squared_distances: [
        lambda M: np.linalg.norm(M[..., None, :] - M[..., None, :, :], axis=-1) ** 2,
        lambda M: np.square(np.expand_dims(M, -2) - np.expand_dims(M, -3)).sum(-1),
    ],
    a.project: [
        lambda M, W: np.einsum("bnf,hfk->bhnk", M, W),
        lambda M, W: np.matmul(np.expand_dims(M, 1), W[None]),
        lambda M, W: np.stack([M @ w for w in W], axis=1),
        lambda M, W: [[m @ w for w in W] for m in M],
    ],
    a.split_heads: [
        lambda x, H: np.stack(np.split(x, H, axis=-1), axis=1),
        lambda x, H: x.reshape(len(x), -1, H, x.shape[2] // H).transpose(0, 2, 1, 3),
        lambda x, H: [np.split(each, H, axis=-1) for each in x],
    ],
    a.one_hot: [
        lambda labels, size: (labels[..., None] == np.arange(size)) * 1.0,
        lambda labels, size: labels[..., None] == np.arange(size),
        lambda labels, size: np.eye(size, dtype=int)[labels],
        lambda labels, size: np.eye(size, dtype=f32)[labels],
        lambda labels, size: np.take(np.eye(size), labels, axis=0),
    ],
    c.softmax_vjp: [
        lambda g, y: y * (g - (g * y).sum(-1, keepdims=True)),
        lambda g, y: g * y - np.einsum("...i,...j,...j->...i", y, y, g),
        lambda g, y: y * (g - np.sum(g * y, axis=-1)[..., None]),
    ],
    t.unbroadcast: [
        lambda g, shape: g if g.shape == shape else t.unbroadcast.function(g, shape),
        lambda g, shape: g.sum(
            axis=tuple(
                k for k in range(g.ndim)
                if k < g.ndim - len(shape) or shape[k - g.ndim + len(shape)] == 1
            )
        ).reshape(shape),
    ],
    c.central_difference: [
        differences,
        put_back,
        lambda f, x, h: differences(f, x, h).tolist(),
        lambda f, x, h: [differences(f, x, h)][0] * 1.0,
    ],
    c.complex_step: [
        lambda f, x: complex_steps(f, x, 1e-20),
        lambda f, x: complex_steps(f, x, 1e-100),
        lambda f, x: complex_steps(f, x, 1e-9),
    ],
    c.variance: [
        lambda x: np.square(x - np.mean(x, axis=-1)[..., None]).mean(axis=-1),
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1) / x.shape[-1],
    ],
    c.rule_is_right: [
        rule,
        lambda f, r, x: rule(f, r, x, seed=8),
        entry_by_entry,
        lambda f, r, x: np.isclose(*_both(f, r, x), rtol=1e-10, atol=0),
    ],
}  # fmt: skip


def _both(forward, vjp, x):
    """Positive directions and weights, so that next to nothing cancels."""
    rng = np.random.default_rng(11)
    v, g = rng.normal(size=x.shape), rng.normal(size=np.shape(forward(x)))
    return (vjp(g, x) * v).sum(), (g * forward(x + 1e-30j * v).imag).sum() / 1e-30
