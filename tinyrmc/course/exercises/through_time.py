"""Chapter 12: back through a step, and through time."""

from types import SimpleNamespace

import numpy as np

from ... import equations
from .. import panels
from ..assembly import the_courses
from ..compare import Wrong
from . import attention, gates, normalisation, tape
from .derived import by_complex_step
from .exercise import each, exercise, normal
from .gates import gated_vjp, keep_and_take, sigmoid, sigmoid_of_complex
from .memory import _step_parameters, little_step, of_small_step, update_memory
from .used import used

my = the_courses()  # as a learner fetches them
vjps = SimpleNamespace(
    gate_vjp=gates.gate_vjp,
    layer_norm_gradient=normalisation.layer_norm_gradient,
    stacks_vjp=tape.stacks_vjp,
    attention_vjp=attention.attention_vjp,
)


def _state(f, i, o, m, candidate, forget_bias):
    """Equations 7 and 8, of complex numbers too."""
    after = keep_and_take(f, i, m, candidate, forget_bias)
    return after, sigmoid_of_complex(o) * np.tanh(after)


def _states(rng, scale, forget_bias, *shape):
    g_m, g_h, m, candidate = normal(rng, shape, shape, shape, shape)
    f, i, o = scale * rng.normal(size=(3, *shape))
    return g_m, g_h, f, i, o, m, candidate, forget_bias


@exercise(
    cases=each(
        _states,  # gates are open or shut, to the last digit, in the fourth
        "1 1 2 3, 1 -2 3 3, 1 0 2 2 4, 1e6 3 2 3, 1 1 1 1",
    ),
    hints=[
        "The new memory is used twice: the next step gets it, and equation 8 shows it. "
        "So what is its whole gradient?",
        "It is g_m + g_h * sigmoid(o) * (1 - tanh(after) ** 2), where after is the new "
        "memory. Compute it once more with `update_memory`.",
        "With that sum, `gated_vjp` gives the gradients of f, i, m and candidate. And "
        "o gets g_h * tanh(after) times the slope of its sigmoid.",
    ],
    mistakes="""
        you leave out what comes back through h: the new memory is used twice
            + g_h * show * (1 - shown * shown) ->
        you leave out the slope of the tanh
            * (1 - shown * shown) ->
        you add g_m and g_h first and send both through equation 8: g_m does not pass it
            g_m + g_h * show -> (g_m + g_h) * show
        you take the tanh of the memory before the update; h shows the new one
            np.tanh(after) -> np.tanh(m)
        o has seen tanh(m), not m: its gradient lacks the tanh
            g_h * shown -> g_h * after
        you leave out the slope of the output gate's sigmoid
            * show * (1 - show) ->
        the gradients of m and of the candidate have changed places
            by_o, by_m, by_candidate -> by_o, by_candidate, by_m
    """,
    leading="g_m g_h f i o m candidate",
    anysize="g_m g_h",
    precise=True,
    exact=by_complex_step(_state, "f i o m candidate", outputs=2),
)
def state_vjp(g_m, g_h, f, i, o, m, candidate, forget_bias):
    """The gradients of f, i, o, m and candidate, given those of the new m and new h.

    Equations 7 and 8. All arrays are alike, (..., F) -> five of the same shape.
    """
    after = update_memory(np, f, i, m, candidate, forget_bias)
    show, shown = sigmoid(o), np.tanh(after)
    by_o = g_h * shown * show * (1 - show)
    g = g_m + g_h * show * (1 - shown * shown)  # used twice: two gradients add up
    by_f, by_i, by_m, by_candidate = gated_vjp(g, f, i, m, candidate, forget_bias)
    return by_f, by_i, by_o, by_m, by_candidate


def _processed(rng, B, N, F, G, scale=1):
    layers = [normal(rng, (F, G), G), normal(rng, (G, F), F)]
    g, z = normal(rng, (B, N, F), (B, N, F))
    return scale * g, z, layers, *normal(rng, F, F)


@exercise(
    cases=each(_processed, "2 3 4 5, 3 3 3 3, 1 2 6 2, 1 4 4 4 1e3"),
    hints=[
        "Once more forward, as far as the way back needs it: what the ReLU lets pass "
        "and what goes into the norm.",
        "Then from the end: vjps.layer_norm_gradient(g, total, gain, 1e-5) is the "
        "gradient of total = hidden @ W2 + b2 + z. Two ways lead on from there to z.",
        "vjps.stacks_vjp(g, hidden, W2)[0] is the gradient of hidden; multiply it by "
        "(hidden > 0); go through W1 in the same way; and the residual adds g itself.",
    ],
    mistakes="""
        you leave out the residual: z goes into the sum as it is, too
            return g + vjps.stacks_vjp -> return vjps.stacks_vjp
        you leave out the way through the layers
            return g + vjps.stacks_vjp(by_hidden * (hidden > 0), z, W1)[0] -> return g
        the ReLU lets all of the gradient through
            * (hidden > 0) ->
        you leave out the norm
            vjps.layer_norm_gradient(g, total, gain, 1e-5) -> gain * g
        you take the norm's gradient at z; it is that at what goes into the norm
            (g, total, -> (g, z,
    """,
    anysize="g",
    exact=by_complex_step(
        lambda z, layers, gain, offset: equations.g_psi(np, z, layers, gain, offset),
        "z",
    ),
)
def g_psi_vjp(g, z, layers, gain, offset):
    """The gradient of z, given g, that of g_psi(z) = layer_norm(MLP(z) + z).

    g and z (B, N, F), layers [(W1, b1), (W2, b2)], gain and offset (F,) -> (B, N, F).
    """
    (W1, b1), (W2, b2) = layers
    hidden = np.maximum(z @ W1 + b1, 0)
    total = hidden @ W2 + b2 + z
    g = vjps.layer_norm_gradient(g, total, gain, 1e-5)
    by_hidden, _ = vjps.stacks_vjp(g, hidden, W2)
    return g + vjps.stacks_vjp(by_hidden * (hidden > 0), z, W1)[0]


def _encoded(rng, B, N, F, H, scale=1):
    g, m, x = normal(rng, (B, N, F), (B, N, F), (B, F))
    weights = rng.normal(size=(3, H, F, F // H)) / np.sqrt(F)
    return scale * g, m, x, *weights


@exercise(
    cases=each(_encoded, "2 3 4 2, 3 3 3 1, 1 2 6 3, 4 4 4 4, 1 1 2 1 1e3"),
    hints=[
        "The heads stand side by side, so each gets its columns of g: np.split(g, H, "
        "axis=-1).",
        "vjps.attention_vjp(share, Q, K, V) gives the gradients of queries, keys and "
        "values. Q = m @ W_q[k] leads to m; K and V lead to the rows, m and x.",
        "Of the rows' gradient the last row is that of x: m gets [:, :-1].",
    ],
    mistakes="""
        the slots get what comes through the queries alone; they are looked at, too
            by_m + by_rows[:, :-1] -> by_m
        the slots get what comes through keys and values alone; they ask, too
            by_m + by_rows[:, :-1] -> by_rows[:, :-1]
        the last slot is left out in the place of the input's row
            by_rows[:, :-1] -> by_rows[:, 1:]
        every head gets the first columns of g
            np.split(g, H, axis=-1) -> [np.split(g, H, axis=-1)[0]] * H
        what the values say is missing
            + vjps.stacks_vjp(by_V, rows, W_v[k])[0] ->
    """,
    anysize="g",
    exact=by_complex_step(
        lambda m, x, W_q, W_k, W_v: equations.multi_head_attention(
            np, m, x, W_q, W_k, W_v
        ),
        "m",
    ),
)
def heads_vjp(g, m, x, W_q, W_k, W_v):
    """The gradient of the slots m, given g, that of equation 2.

    g and m (B, N, F), x (B, F), W_q, W_k, W_v (H, F, F / H) -> (B, N, F).
    """
    H, rows = len(W_q), np.concatenate([m, x[:, None]], axis=1)
    by_m, by_rows = 0.0, 0.0
    for k, share in enumerate(np.split(g, H, axis=-1)):
        head = m @ W_q[k], rows @ W_k[k], rows @ W_v[k]
        by_Q, by_K, by_V = vjps.attention_vjp(share, *head)
        by_m = by_m + vjps.stacks_vjp(by_Q, m, W_q[k])[0]
        by_rows = by_rows + vjps.stacks_vjp(by_K, rows, W_k[k])[0]
        by_rows = by_rows + vjps.stacks_vjp(by_V, rows, W_v[k])[0]
    return by_m + by_rows[:, :-1]


def _through(m, h, U_f, x, p, passed):
    """A step of complex numbers, whose candidate sees only a share of a change."""
    weights = p["W_q"], p["W_k"], p["W_v"]

    def candidate(m):
        attended = equations.multi_head_attention(np, m, x, *weights)
        return equations.g_psi(np, attended, p["mlp"], p["gain"], p["offset"])

    seen = passed * candidate(m) + (1 - passed) * candidate(np.real(m))
    f, i, o = (
        equations.gate(np, x, h, p[f"W_{k}"], U, p[f"b_{k}"])
        for k, U in zip("fio", (U_f, p["U_i"], p["U_o"]), strict=True)
    )
    after = equations.update_memory(np, f, i, m, seen, p["forget_bias"])
    return after, equations.output(np, o, after)


def _whole_steps(rng, B, N, F, H, passed=1.0, forget_bias=1.0):
    p = _step_parameters(rng, F, H, F, forget_bias)
    return rng.normal(size=(B, F)), *rng.normal(size=(4, B, N, F)), p, passed


@exercise(
    cases=each(_whole_steps, "2 3 4 2, 2 2 2 1 0, 1 4 4 4 1 3, 3 2 4 2 0.5 -1"),
    hints=[
        "Forward once more: the three pre-activations, what attention gives, and the "
        "candidate. Then from the end to the beginning.",
        "state_vjp gives the gradients of f, i, o, of m (on the straight line) and of "
        "the candidate. Each gate's leads to h, by gate_vjp; the forget gate's to U_f, "
        "too.",
        "passed times the candidate's gradient goes through g_psi_vjp and heads_vjp to "
        "m, and adds to what came on the straight line.",
    ],
    mistakes="""
        what comes to m through attention is missing
            by_m + heads_vjp(g, m, x, *weights) -> by_m
        the straight line is missing: m gets what comes through attention alone
            by_m + heads_vjp -> heads_vjp
        h gets what the forget gate says alone; it goes into all three gates
            by_h = by_h + found[1] -> by_h = found[1] if gate == "f" else by_h
        you return the gradient of another gate's U
            if gate == "f" else by_U -> if gate == "o" else by_U
        you add g_h to the gradient of the old h; it reaches the new one through the
        gates alone
            return by_m + heads_vjp(g, m, x, *weights), by_h
                -> return by_m + heads_vjp(g, m, x, *weights), by_h + g_h
        you shut no way: `passed` is what goes on of the candidate's gradient
            passed * by_candidate -> by_candidate
    """,
    exact=lambda x, m, h, g_m, g_h, p, passed: by_complex_step(
        _through, "m h U_f", outputs=2
    )(g_m, g_h, m, h, p["U_f"], x, p, passed),
)
def step_vjp(x, m, h, g_m, g_h, p, passed):
    """A whole step backwards: the gradients of its m, its h and of U_f.

    g_m and g_h, those of the new m and h; p the weights by name; `passed` the share of
    the candidate's gradient that goes on through g_psi and attention.
    """
    weights = p["W_q"], p["W_k"], p["W_v"]
    attended = my.multi_head_attention(np, m, x, *weights)
    after = p["mlp"], p["gain"], p["offset"]
    candidate = my.g_psi(np, attended, *after)
    f, i, o = (my.gate(np, x, h, p[f"W_{k}"], p[f"U_{k}"], p[f"b_{k}"]) for k in "fio")
    *gates, by_m, by_candidate = state_vjp(
        g_m, g_h, f, i, o, m, candidate, p["forget_bias"]
    )
    by_h = by_U = 0.0
    for gate, g in zip("fio", gates, strict=True):
        found = vjps.gate_vjp(g, x, h, p[f"W_{gate}"], p[f"U_{gate}"], p[f"b_{gate}"])
        by_h = by_h + found[1]
        by_U = found[3] if gate == "f" else by_U
    g = g_psi_vjp(passed * by_candidate, attended, *after)
    return by_m + heads_vjp(g, m, x, *weights), by_h, by_U


def little_vjp(x, m, h, g_m, g_h, w):
    """The vjp of `little_step`."""
    keep = sigmoid(w[0] * h + 1)
    shown = np.tanh(keep * m + w[1] * x)
    g = g_m + g_h * w[2] * (1 - shown * shown)
    by_f = g * m * keep * (1 - keep)
    return g * keep, by_f * w[0], np.stack([by_f * h, g * x, g_h * shown])


def _sequence(rng, T, F, scale=1):
    """A step's vjp, inputs, the states before them and gradients of what is shown."""
    w, (m, h) = rng.normal(size=(3, F)), rng.normal(size=(2, F))
    xs, states = rng.normal(size=(T, F)), []
    for x in xs:
        states.append((m, h))
        m, h = little_step(x, m, h, w)
    return of_small_step(little_vjp, w), xs, states, scale * rng.normal(size=(T, F))


def _unrolled(xs, m, h, w):
    shown = []
    for x in xs:
        m, h = little_step(x, m, h, w)
        shown.append(h)
    return np.stack(shown)


@exercise(
    cases=each(_sequence, "3 2, 4 4, 1 3, 30 2, 5 3 1e3"),
    hints=[
        "The walk of chapter 3 with a whole step in place of an entry: from the last "
        "step to the first. After the last step nobody needs m any more.",
        "h of step t is used twice: by the loss, which gives g[t], and by step t + 1. "
        "Add both before you call step_vjp. All steps use the same weights.",
        "g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t]); total += g_w. "
        "Begin with zeros like g[0].",
    ],
    mistakes="""
        you walk from the first step to the last
            reversed(range(len(xs))) -> range(len(xs))
        what the loss gives to h takes the place of what comes from the step after; add
        both
            g_h + g[t] -> g[t]
        you do not hand the memory's gradient on to the step before
            [t], g_m, -> [t], 0 * g_m,
        you add g[t] after step t, not before: it arrives one step too early
            g_h + g[t]) -> g_h); g_h = g_h + g[t]
        you add g[t] to the memory's gradient; it is what the loss gives to h
            g_m, g_h + g[t]) -> g_m + g[t], g_h)
        the weights keep what one step gives them, not the sum of all
            total + g_w -> g_w
    """,
    anysize="g",
    exact=lambda step_vjp, xs, states, g: by_complex_step(_unrolled, "m h w")(
        g, xs, *states[0], step_vjp.keywords["w"]
    ),
)
def through_time(step_vjp, xs, states, g):
    """Back-propagation through time -> the gradients of the first m, the first h and w.

    xs (T, ...), the inputs; states, T pairs (m, h), before each step; g (T, ...), what
    the loss gives to the h that each step shows.
    step_vjp(x, m, h, g_m, g_h) takes the gradients of a step's new m and new h, and
    gives those of its m, of its h and of the weights that all steps share.
    """
    g_m, g_h, total = np.zeros_like(g[0]), np.zeros_like(g[0]), 0.0
    for t in reversed(range(len(xs))):
        g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t])
        total = total + g_w
    return g_m, g_h, total


def _windows(rng, T, F, length):
    return *_sequence(rng, T, F), length


@exercise(
    cases=each(_windows, "5 2 2, 4 4 4, 3 3 1, 12 2 5, 6 3 3"),
    hints=[
        "It is the walk of through_time, but at some steps nothing is handed on to the "
        "step before.",
        "The first step of a window has t % length == 0. What it would hand back "
        "becomes zeros; what it says about the weights counts.",
    ],
    mistakes="""
        you cut nothing
            t % length == 0 -> False
        you cut one step late: the first window begins at step 0
            t % length == 0 -> t % length == 1 % length
        your windows are counted from the end; the first begins at step 0
            t % length == 0 -> (len(xs) - t) % length == 0
        the last window is missing where it is shorter
            range(len(xs)) -> range(len(xs) // length * length)
        the weights keep what one step gives them, not the sum of all
            total + g_w -> g_w
    """,
)
def in_windows(step_vjp, xs, states, g, length):
    """The gradient of the weights, where nothing goes back past a window's first step.

    As `through_time`; windows of `length` steps begin at step 0 -> like the weights.
    """
    g_m, g_h, total = np.zeros_like(g[0]), np.zeros_like(g[0]), 0.0
    for t in reversed(range(len(xs))):
        g_m, g_h, g_w = step_vjp(xs[t], *states[t], g_m, g_h + g[t])
        total = total + g_w
        if t % length == 0:  # the state that this window began with is taken as given
            g_m, g_h = 0 * g_m, 0 * g_h
    return total


# --- A picture ------------------------------------------------------------------------

SHOWN = "its picture shows what it has measured"


def made_up_sizes(bias, seed):
    """The sizes of what forty steps hand back, as if they had been measured."""
    noise = np.random.default_rng([seed, round(100 * bias) % 2**32]).normal(size=40)
    return (1 / (1 + np.exp(-bias))) ** np.arange(1, 41) * np.exp(0.3 * noise)


def _picture(answer, sizes_of, first):
    panel, asked = panels.new_panel(), {}

    def noted(bias, seed):
        found = sizes_of(bias + first, seed)
        asked.setdefault(float(bias), {})[seed] = found
        return found.copy()

    returned = answer(noted, panel)
    if returned is None:
        return None
    if not isinstance(returned, dict) or len(returned) < 3:
        raise Wrong("it should return a dict with three forget biases or more")
    for bias in returned:
        if len(asked.get(float(bias), {})) < 3:
            raise Wrong(f"bias {bias} has fewer than three seeds: one may be by chance")
    panels.check_names(panel)
    panels.check_order(panel)
    if panel.get_yscale() != "log":
        raise Wrong(
            "the sizes differ by powers of ten, and on an even axis all small ones lie "
            "on zero: panel.set_yscale('log')"
        )
    steps = np.arange(1, 41)
    for bias, values in returned.items():
        sizes = np.array([*asked[float(bias)].values()])
        if np.allclose(values, sizes.mean(0)):
            raise Wrong(
                f"for bias {bias} you add the sizes up, and the largest hides the "
                "others: take the mean of their logarithms, and exp of it"
            )
        means = np.exp(np.log(sizes).mean(0)), np.median(sizes, 0)
        if not any(np.allclose(values, mean) for mean in means):
            raise Wrong(
                f"what it returns for bias {bias} is neither the geometric mean of its "
                "seeds nor their median"
            )
        if any(each.shows(steps, values[::-1]) for each in panels.drawn(panel)):
            raise Wrong(
                "the first of the sizes is that of the last step: one step back"
            )
        panels.find(panel, steps, values, f"the mean for bias {bias}, against 1 to 40")
    return SHOWN


@used(
    _picture,
    cases=lambda rng: [(made_up_sizes, first) for first in (0, 0.5, 1)],
    hints=[
        "For each bias a list [sizes_of(bias, seed) for seed in range(3)], and its "
        "geometric mean over the first axis: np.exp(np.mean(np.log(sizes), axis=0)).",
        "One line for each bias: panel.semilogy(range(1, 41), mean, label=...). The "
        "axes get names by panel.set(xlabel=..., ylabel=...).",
    ],
    mistakes="""
        each line rests on one seed
            range(3)] -> range(1)]
        you add the sizes up, and the largest hides the others: take the geometric mean
            np.exp(np.mean(np.log(sizes), axis=0)) -> np.mean(sizes, axis=0)
        your axis is even: all small sizes lie on zero
            semilogy -> plot
        you draw from the first step on; the sizes begin at the last
            steps, means[bias] -> steps, means[bias][::-1]
        nobody can tell the lines apart
            , label=f"bias {bias}" ->
    """,
    found=SHOWN,
    seconds=60.0,
)
def how_far(sizes_of, panel):
    """Draws the size of the gradient against the steps back, for several forget biases.

    sizes_of(bias, seed) -> 40 sizes, from one step back on; panel an empty picture
    -> a dict from bias to the geometric mean over the seeds.
    """
    means, steps = {}, range(1, 41)
    for bias in (-1, 1, 3):
        sizes = [sizes_of(bias, seed) for seed in range(3)]
        means[bias] = np.exp(np.mean(np.log(sizes), axis=0))
        panel.semilogy(steps, means[bias], label=f"bias {bias}")
    panel.set(xlabel="steps back", ylabel="size of the gradient")
    return means
