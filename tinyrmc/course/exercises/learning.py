"""Chapter 5: learning: a loss and its gradient, and what to do with a gradient."""

import itertools
import math

import numpy as np

from .attention import softmax
from .derived import by_complex_step, log_shares
from .exercise import each, exercise, normal
from .mended import mended
from .tape import LittleTape, of_node
from .used import used
from .whole import SOUND, whole


def _scores(rng, R, C, scale=1, offset=0):
    logits = scale * rng.normal(size=(R, C)) + offset * np.arange(R)[:, None]
    return logits, rng.integers(C, size=R)


def _answers(rng, R, *more):
    return rng.normal(size=R), *_scores(rng, R, *more)


def one_hot(logits, targets):
    return np.eye(logits.shape[1])[targets]


@exercise(
    cases=each(
        _answers,  # in the fourth each row stands at a height of its own
        "5 7, 4 4, 3 3 1e3, 4 5 1 2e3, 1 6",
        also=[
            (np.full(2, 1 / 2), np.zeros((2, 4)), np.array([3, 0])),  # of a mean loss
            (np.zeros(2), np.eye(2, 3), np.array([1, 1])),
        ],
    ),
    hints=[
        "p is a softmax over each row (`ex.softmax` is one that does not overflow). "
        "What does the loss of a row do when one logit of it grows a little?",
        "Take 1 off p at the right answer of each row: a copy of p, and "
        "p[np.arange(R), targets] -= 1.",
        "g has one number for each row, so it must meet the rows: g[:, None].",
    ],
    mistakes="""
        you do not take the 1 of the right answer off: the gradient is p - y
            -= 1 -> -= 0
        only the right answer's logit gets a gradient; the others must go down
            * gradient -> * gradient * one_hot(logits, targets)
        you take 1 off in every row for the targets of all rows: write p[np.arange(R),
        targets] -= 1
            [np.arange(len(targets)), targets] -> [:, targets]
        you subtract the targets as they are, numbers such as 3; write them one-hot
            gradient[np.arange(len(targets)), targets] -= 1
                -> gradient -= targets[:, None]
        you take 1 off whole rows; each row has one place: write p[np.arange(R),
        targets] -= 1
            [np.arange(len(targets)), targets] -> [targets]
        you write -1 in the right answer's place; take 1 off what stands there, with -=
        1
            -= 1 -> = -1
        g lies along the columns; it has one number for each row: g[:, None]
            g[:, None] -> g
        your softmax runs down the columns, not along each row
            softmax(logits) -> softmax(logits.T).T
    """,
    anysize="logits",
    large=lambda rng: [
        (np.ones(5000), rng.normal(size=(5000, 30)), rng.integers(30, size=5000))
    ],
    exact=by_complex_step(
        lambda logits, targets: -log_shares(logits)[np.arange(len(targets)), targets],
        "logits",
    ),
)
def cross_entropy_vjp(g, logits, targets):
    """The gradient of the logits, given g, that of the losses -ln softmax(z)[target].

    g (R,), logits (R, C), targets (R,) integers -> (R, C).
    """
    gradient = softmax(logits)  # (R, C)
    gradient[np.arange(len(targets)), targets] -= 1  # p - y
    return g[:, None] * gradient


# --- A network and its training -------------------------------------------------------


def _networks(rng, B, *widths):
    weights = []
    for width, next_width in itertools.pairwise(widths):
        weights += normal(rng, (width, next_width), next_width)
    return weights, *normal(rng, (B, widths[0]))


def _on_a_tape(answer, weights, x):
    """A network's result, and the gradients of its mean square."""
    tape = LittleTape()
    nodes = {f"weights[{k}]": tape.watch(w) for k, w in enumerate(weights)}
    return of_node(answer([*nodes.values()], tape.watch(x)), nodes)


@used(
    _on_a_tape,
    cases=each(_networks, "5 2 4 3, 3 3 3 3 3, 4 2 3, 2 1 4 3 5 2"),
    hints=[
        "Go through the list two by two: x = x @ W + b.",
        "After each layer but the last comes x.relu(). The last one begins at place "
        "len(weights) - 2.",
    ],
    mistakes="""
        there is no ReLU: all layers together are one matrix
            x = x.relu() -> pass
        the biases are missing
            + weights[k + 1] ->
        tanh stands between your layers; here it is relu
            x.relu() -> x.tanh()
        a ReLU follows the last layer, too: no logit can be below 0
            if k < last -> if k <= last
    """,
)
def logits(weights, x):
    """A network of any depth, on the tape: x @ W + b, with a ReLU between the layers.

    weights [W1, b1, W2, b2, ...] and x (B, D) Nodes -> a Node (B, C).
    """
    last = len(weights) - 2
    for k in range(0, len(weights), 2):
        x = x @ weights[k] + weights[k + 1]
        if k < last:
            x = x.relu()
    return x


def line_slopes(weights, inputs, targets):
    """Loss and gradients of a line through some points."""
    slope, height = weights
    error = inputs * slope + height - targets
    gradients = [
        2 * (error * inputs).mean(keepdims=True),
        2 * error.mean(keepdims=True),
    ]
    return float((error**2).mean()), gradients


def plain_rule(k, w, g):
    """A step of a tenth of the gradient."""
    return w - 0.1 * g


class Rolling:
    """A rule that remembers something for each array."""

    __name__ = "rolling_rule"

    def __init__(self):
        self.velocities = {}

    def __repr__(self):
        return f"{self.__name__}({self.velocities})"

    def __call__(self, k, w, g):
        self.velocities[k] = 0.5 * self.velocities.get(k, 0) + g
        return w - 0.1 * self.velocities[k]


def three_batches(step):
    """Three points for each step, always the same."""
    rng = np.random.default_rng([7, step])
    x = rng.normal(size=3)
    return x, 2 * x + rng.normal(size=3)


@exercise(
    cases=lambda rng: [
        (normal(rng, 1, 1), line_slopes, plain_rule, three_batches, 1),
        (normal(rng, 1, 1), line_slopes, plain_rule, three_batches, 5),
        (normal(rng, 1, 1), line_slopes, Rolling(), three_batches, 4),
        (normal(rng, 1, 1), line_slopes, plain_rule, three_batches, 0),
    ],
    hints=[
        "Each step: the batch of this step, loss and gradients at the weights as they "
        "are now, and then new weights.",
        "slopes(weights, *batch_of(step)) gives both; rule(k, w, g) gives the new "
        "array for array number k.",
        "weights = [rule(k, w, g) for k, (w, g) in enumerate(zip(weights, gradients))]",
    ],
    mistakes="""
        every step sees the first batch
            batch_of(step) -> batch_of(0)
        you count the steps from 1; the first batch is batch_of(0)
            batch_of(step) -> batch_of(step + 1)
        each step begins with the first weights again
            losses = [] -> losses, start = [], weights
            slopes(weights, * -> slopes(weights := start, *
        all arrays share one number, so that a rule with a memory mixes them up
            rule(k, w, g) for -> rule(0, w, g) for
        you hand the rule the number of the step; it asks for that of the array
            rule(k, w, g) for -> rule(step, w, g) for
        you note the loss after each step; asked for is the loss before it
            losses.append(loss) -> losses.append(slopes(weights, *batch_of(step))[0])
        the new arrays are not kept: the next step begins with them, and they come out
        at the end
            weights = [rule -> _ = [rule
    """,
)
def train(weights, slopes, rule, batch_of, steps):
    """The training loop.

    weights a list of arrays; slopes(weights, inputs, targets) -> loss, gradients;
    rule(k, w, g) -> the new array number k; batch_of(step) -> inputs, targets, with
    steps counted from 0 -> the loss of each step, the weights at the end.
    """
    losses = []
    for step in range(steps):
        loss, gradients = slopes(weights, *batch_of(step))
        pairs = zip(weights, gradients, strict=True)
        weights = [rule(k, w, g) for k, (w, g) in enumerate(pairs)]
        losses.append(loss)
    return losses, list(weights)


# --- Steps ----------------------------------------------------------------------------


def _descents(rng, rate, momentum, *shape):
    return *rng.normal(size=(3, *shape)), rate, momentum


@exercise(
    cases=each(
        _descents,
        "0.1 0.9 5, 0.1 0 3 4, 3 0.5 2 2, 0 0.9 1, 0.1 0.9 2 3 4",
        also=[(np.eye(3, 2), np.ones((3, 2)), np.zeros((3, 2)), 0.5, 0.9)],
    ),
    hints=[
        "First the velocity: a part of the old one, and the gradient on top.",
        "Then the step, against the *new* velocity. Return both.",
        "v = momentum * v + g, then w - rate * v. Write v = ..., not v += ...: that "
        "would change the caller's array.",
    ],
    mistakes="""
        you step by the gradient alone; the velocity is for stepping
            rate * v, v -> rate * g, v
        you step by the velocity before its update
            v = momentum * v + g ->
            rate * v, v -> rate * v, momentum * v + g
        your velocity is a running mean, with 1 - momentum before g; here g comes in
        whole
            + g -> + (1 - momentum) * g
        you look ahead, as Nesterov does: w - rate * (g + momentum * v); here the step
        is w - rate * v
            rate * v, v -> rate * (g + momentum * v), v
        the rate is inside your velocity; some libraries do that, here it multiplies the
        step
            + g -> + rate * g
            rate * v, v -> v, v
    """,
)
def sgd(w, g, v, rate, momentum):
    """One step of gradient descent with momentum.

    w weights, g their gradient, v the velocity, all of one shape -> (new w, new v).
    """
    v = momentum * v + g
    return w - rate * v, v


# Where epsilon stands shows only where the gradient is about as small.
SMALL = 1e-8


def _moments(rng, t, rate, beta1, beta2, scale, *shape):
    w, g, m = rng.normal(size=(3, *shape))
    v = rng.uniform(0.5, 2, shape)
    return w, scale * g, scale * m, scale**2 * v, t, rate, beta1, beta2


def _first(*g):
    return np.ones(len(g)), np.array(g), *np.zeros((2, len(g))), 1, 0.5, 0.9, 0.999


@exercise(
    cases=each(
        _moments,
        "5 0.01 0.9 0.999 1 3 4, 1000 0.5 0.9 0.999 1 2 2, 2 0.01 0.5 0.75 1 4, "
        "3 0.01 0 0.5 1 1, 10 3 0.9 0.999 1e-8 2 3 2",
        also=[_first(1e-3, -2.0, 1e6, 0.0), _first(SMALL, -2 * SMALL)],
    ),
    hints=[
        "Two running means: m of the gradient, v of its square. Each keeps beta of "
        "what it was and takes 1 - beta of the new.",
        "Both begin at 0, so after t steps they are too small by a factor 1 - beta**t. "
        "Divide it out for the step, but return m and v as they are.",
        "w - rate * m_hat / (np.sqrt(v_hat) + 1e-8)",
    ],
    mistakes="""
        you leave out both corrections, 1 - beta**t
            / (1 - beta1**t) ->
            / (1 - beta2**t) ->
        you multiply by the corrections, 1 - beta**t; the means are too small: divide
            / (1 - beta1**t) -> * (1 - beta1**t)
            / (1 - beta2**t) -> * (1 - beta2**t)
        you count t one too large; the first step has t = 1
            / (1 - beta1**t) -> / (1 - beta1**(t + 1))
            / (1 - beta2**t) -> / (1 - beta2**(t + 1))
        you add the new whole; each mean takes 1 - beta of it
            (1 - beta1) * g -> g
            (1 - beta2) * g -> g
        you forget the root of v
            np.sqrt(v_hat) -> v_hat
        your 1e-8 is inside the root; here it is added to the root
            np.sqrt(v_hat) + 1e-8 -> np.sqrt(v_hat + 1e-8)
        you leave out the 1e-8: a weight that has had no gradient yet becomes 0 / 0
            + 1e-8 ->
        v is a mean of the gradient; it should be one of its square
            * g * g -> * g
        you return the corrected m and v; they would be corrected again at the next step
            1e-8), m, v -> 1e-8), m_hat, v_hat
    """,
)
def adam_step(w, g, m, v, t, rate, beta1, beta2):
    """Step number t, from 1, of Adam, with 1e-8 beside the root.

    w weights, g their gradient, m and v the means of g and g * g, all of one shape
    -> (new w, new m, new v).
    """
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return w - rate * m_hat / (np.sqrt(v_hat) + 1e-8), m, v


def adam_rule(adam_step, rate):
    """A rule for `train` that keeps what each array's next step needs."""
    kept = {}

    def rule(k, w, g):
        t, m, v = kept.get(k, (1, np.zeros_like(w), np.zeros_like(w)))
        w, m, v = adam_step(w, g, m, v, t, rate, 0.9, 0.999)
        kept[k] = t + 1, m, v
        return w

    return rule


@exercise(
    tolerance=1e-6,  # libraries add up to 1e-6 to the length
    cases=lambda rng: [
        ([*normal(rng, (3, 4), 4)], 1.0),
        ([*normal(rng, (2, 3), 3, (3, 1))], 100.0),  # short enough
        ([np.array([3.0, 0.0]), np.array([[4.0]])], 5.0),  # exactly as long as allowed
        ([1e-2 * x for x in normal(rng, (4, 4), (4, 4))], 0.5),
        ([np.zeros((2, 2)), np.zeros(3)], 1.0),
        ([1e6 * rng.normal(size=5)], 2.0),
        ([np.array([30.0, -40.0]), np.array([0.1])], 5.0),
    ],
    hints=[
        "One length for all arrays together: the root of the sum of all squares.",
        "If it is larger than the limit, multiply every array by the same factor, "
        "limit / length. If not, leave them as they are.",
        "limit / max(length, limit) is that factor in both cases, and it never divides "
        "by 0.",
    ],
    mistakes="""
        you clip each array by itself: that turns the gradient, it points elsewhere
        afterwards
            = [clip([g], limit)[0] for g in gradients]
        you clip each entry: that turns the gradient, it points elsewhere afterwards
            = [np.clip(g, -limit, limit) for g in gradients]
        you bring short gradients to the limit, too, and divide by a length that may be
        0; only longer ones shrink
            max(length, limit) -> length
        you forget the root: the length is the root of the sum of squares
            math.sqrt(sum -> (sum
        you add up the lengths of the arrays; the length of all is the root of the sum
        of all squares
            math.sqrt(sum(np.sum(g * g) for g in gradients))
                -> sum(math.sqrt(np.sum(g * g)) for g in gradients)
        you take means of the squares; the length is the root of their sum
            np.sum(g * g) -> np.mean(g * g)
    """,
    views=True,
)
def clip(gradients, limit):
    """All arrays of the list shrunk by one factor, so that together they are no longer
    than `limit`.

    The length is the root of the sum of all squares -> a list of arrays.
    """
    length = math.sqrt(sum(np.sum(g * g) for g in gradients))
    return [g * (limit / max(length, limit)) for g in gradients]


# --- Debugging ------------------------------------------------------------------------


def bowl(weights):
    """Loss and gradients of a bowl, twice as steep along its last array."""
    steep = range(1, len(weights) + 1)
    loss = sum(
        k * float((w * w).sum()) / 2 for k, w in zip(steep, weights, strict=True)
    )
    return loss, [k * w for k, w in zip(steep, weights, strict=True)]


@mended(
    ("[w.copy() for w in start]", "start"),
    cases=lambda rng: [
        ([*normal(rng, 3, (2, 2))], bowl, [0.1, 0.01], 2),
        ([*normal(rng, 4)], bowl, [0.1, 0.1, 0.1], 3),
        ([*normal(rng, (3, 2), 2)], bowl, [0.3, 0.001, 0.1], 5),
    ],
    hints=[
        "Try the same rate three times. Why is the second loss not the first?",
        "w -= ... writes into the array itself. Whose array is it? (list(start) is a "
        "new list of the same arrays.)",
    ],
    mistakes="""
        there is one step too many
            range(steps) -> range(steps + 1)
        nothing is learnt any more: w = w - ... only gives a new array the name w
            w -= rate * g -> w = w - rate * g
    """,
)
def try_rates(start, slopes, rates, steps):
    """The loss after some steps of plain descent, for each rate, always from `start`.

    start a list of arrays; slopes(weights) -> loss, gradients -> a list of numbers.
    """
    found = []
    for rate in rates:
        weights = [w.copy() for w in start]
        for _ in range(steps):
            _, gradients = slopes(weights)
            for w, g in zip(weights, gradients, strict=True):
                w -= rate * g
        found.append(slopes(weights)[0])
    return found


# --- An experiment built whole --------------------------------------------------------


def fresh_layers(rng, *widths):
    """Weights and biases of a new network."""
    weights = []
    for width, next_width in itertools.pairwise(widths):
        weights += [rng.normal(size=(width, next_width)) / math.sqrt(width)]
        weights += [np.zeros(next_width)]
    return weights


def slopes(weights, inputs, targets):
    """The mean cross-entropy of `logits`, and its gradients."""
    tape = LittleTape()
    nodes = [tape.watch(w) for w in weights]
    z = logits(nodes, tape.watch(inputs))
    losses = -log_shares(z.data)[np.arange(len(targets)), targets]

    node = tape.record(losses, (z,), lambda g: (cross_entropy_vjp(g, z.data, targets),))
    loss = node.mean()
    return float(loss.data), tape.gradient(loss, nodes)


def answers(weights, inputs):
    """The most likely answer to each question."""
    tape = LittleTape()
    nodes = [tape.watch(w) for w in weights]
    return logits(nodes, tape.watch(inputs)).data.argmax(axis=1)


@used(
    whole(),
    cases=lambda rng: [(seed,) for seed in range(3)],
    hints=[
        "draw first: a few random numbers each, and a question about them whose answer "
        "you can compute. The points of this chapter were one such task; is the first "
        "number larger than the product of the others?",
        "Training examples come from draw(np.random.default_rng([seed, t]), 64), those "
        "held out from another rng, such as np.random.default_rng([99, seed]). With "
        "real numbers no example comes twice.",
        "floor: the share of the most frequent target among those held out. The error "
        "of a share of n is about sqrt(share (1 - share) / n): four of them above the "
        "floor are hardly chance.",
    ],
    mistakes="""
        you test on examples of the training: they come from the same rng, or there are
        so few different ones that they repeat
            default_rng([99, seed]), 400 -> default_rng([seed, 0]), 400
            t: draw(np.random.default_rng([seed, t]), 32)
                -> t: draw(np.random.default_rng([seed, 0]), 400)
        you report the share of the training examples, not of those held out
            "right": right -> "right": float(np.mean(predict(trained[0]) == trained[1]))
        your floor is that of a coin, and one answer is more frequent than the other
            "floor": floor -> "floor": 0.5
        you test on twenty examples
            400) -> 20)
        the answer is among the inputs
            return inputs, targets
                -> inputs[:, 0] = 2 * targets - 1; return inputs, targets
        every seed draws the same examples
            default_rng([seed, t]) -> default_rng([0, t])
        predict sees all examples at once: you subtract their mean
            answers(weights, inputs) -> answers(weights,
                (inputs - inputs.mean(axis=0)) / inputs.std(axis=0))
        you conclude that it does not learn, and it does
            "learns" if -> "does not learn" if
        the picture does not show what a guess gets
            panel.axhline(np.log(2), color="0.6") -> pass
    """,
    found=SOUND,
    seconds=60.0,
)
def my_task(seed, panel):
    """A task of one's own: data, training, test, picture; see `whole.py`.

    Draws into panel, an empty picture -> a dict with draw, trained, tested, predict,
    right, floor, losses, conclusion.
    """

    def draw(rng, count):
        inputs = rng.uniform(-1, 1, (count, 3))
        targets = (inputs[:, 0] + 0.2 > inputs[:, 1] * inputs[:, 2]).astype(int)
        return inputs, targets

    batches = [
        (lambda t: draw(np.random.default_rng([seed, t]), 32))(t) for t in range(60)
    ]
    start = fresh_layers(np.random.default_rng(seed), 3, 16, 2)
    rule = adam_rule(adam_step, 3e-2)
    losses, weights = train(start, slopes, rule, lambda t: batches[t], 60)
    trained = [np.concatenate(each) for each in zip(*batches, strict=True)]
    tested = draw(np.random.default_rng([99, seed]), 400)

    def predict(inputs):
        return answers(weights, inputs)

    right = float(np.mean(predict(tested[0]) == tested[1]))
    floor = max(np.mean(tested[1]), np.mean(1 - tested[1]))
    surely = right - floor > 4 * math.sqrt(right * (1 - right) / 400)
    panel.plot(losses)
    panel.axhline(np.log(2), color="0.6")
    panel.set(xlabel="step", ylabel="loss")
    return {
        "draw": draw,
        "trained": trained,
        "tested": tested,
        "predict": predict,
        "right": right,
        "floor": floor,
        "losses": losses,
        "conclusion": "learns" if surely else "cannot tell",
    }
