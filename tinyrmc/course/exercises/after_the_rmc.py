"""Chapter 28: memories after the RMC, a step at a time and in chunks."""

import numpy as np

from ..compare import Wrong
from ..panels import new_panel
from .exercise import each, exercise
from .experiments import report
from .recorded import recorded
from .used import used


def _fades(rng, T, d, e, *lead):
    q, k = rng.normal(size=(2, *lead, T, d))
    return q, k, rng.normal(size=(*lead, T, e)), rng.uniform(0.3, 1, (*lead, T))


def _begins_anew():
    q, k, v, a = _fades(np.random.default_rng(28), 5, 3, 2)
    a[[1, 3]] = 0.0, 1.0  # a product of decays would be 0 from here on
    return q, k, v, a


@recorded(
    cases=each(
        _fades, "4 3 2, 3 3 3, 1 2 4, 6 2 5 3, 2 4 4 2 3", also=[_begins_anew()]
    ),
    hints=[
        "A loop over t, with S = 0 at first. What stays of S, what is added, and only "
        "then what the query finds.",
        "k[..., t, :, None] * v[..., t, None, :] is k_t v_t^T, (..., d, e), and "
        "a[..., t, None, None] a number for each matrix.",
        "q[..., t, None, :] @ S is a row for each example; [..., 0, :] takes it out. "
        "xp.stack(rows, axis=-2) puts all steps below each other.",
    ],
    mistakes="""
        you read before you write: a step should find its own pair, too
            S = a[..., t, None, None] * S + written
                -> S, old = a[..., t, None, None] * S + written, S + 0 * written
            @ S) -> @ old)
        you read after the decay, but before you write: a step should find its own pair
            S = a[..., t, None, None] * S + written
                -> old = a[..., t, None, None] * S + 0 * written; S = old + written
            @ S) -> @ old)
        you fade after you have read: a_t is for what was there before step t writes
            S = a[..., t, None, None] * S + written -> S = S + written
            [..., 0, :]) -> [..., 0, :]); S = a[..., t, None, None] * S
        your decay stands around the whole sum: it fades what was there before, not what
        is written now
            * S + written -> * (S + written)
        you fade what is written, and not what was there
            a[..., t, None, None] * S + written -> S + a[..., t, None, None] * written
        you let go of nothing: S = a_t S + ...
            a[..., t, None, None] * S -> S
        you write with what the decay leaves, 1 - a; here what is written counts in full
            + written -> + (1 - a[..., t, None, None]) * written
        you fade with the decay of the step before
            a[..., t, None -> a[..., t - 1, None
        your outer product lies on its side: the key's numbers make the rows
            k[..., t, :, None] * v[..., t, None, :]
                -> v[..., t, :, None] * k[..., t, None, :]
        you take the mean of what was written, not its sum
            @ S) -> @ S / (t + 1))
        you look up the key in place of the query
            (q[..., t -> (k[..., t
    """,
    leading="q k v a",
    anysize="v",
)
def fading(xp, q, k, v, a):
    """Linear attention with a decay: S_t = a_t S_{t-1} + k_t v_t^T, o_t = S_t^T q_t.

    q, k (..., T, d), v (..., T, e), a (..., T); S is 0 at first -> all o (..., T, e),
    and the last S (..., d, e).
    """
    S, found = 0.0, []
    for t in range(q.shape[-2]):
        written = k[..., t, :, None] * v[..., t, None, :]
        S = a[..., t, None, None] * S + written
        found.append((q[..., t, None, :] @ S)[..., 0, :])
    return xp.stack(found, axis=-2), S


def _lookups(rng, d, e, *lead, scale=1.0):
    S, v = rng.normal(size=(*lead, d, e)), rng.normal(size=(*lead, e))
    q, k = scale * (rng.normal(size=(2, *lead, d)) + 1)
    return S, q, k, v, np.array(rng.uniform(0.2, 0.9, lead))


def _empty_and_whole():
    """A first step, an empty memory and a beta of 1; and one that leaves all alone."""
    _, q, k, v, _ = _lookups(np.random.default_rng(4), 3, 2, 2)
    return np.zeros((2, 3, 2)), q, k, v, np.array([1.0, 0.0])


@recorded(
    cases=each(_lookups, "3 2, 3 3, 2 4 5, 4 4 4, 5 2 2 3", also=[_empty_and_whole()]),
    hints=[
        "First q and k, each divided by its own length. Then: what does the key find, "
        "what is missing, write it there, and only then ask with q.",
        "The length of each row of u: xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True)). "
        "What a key finds: (k[..., None, :] @ S)[..., 0, :].",
        "beta[..., None] * (v - found) is u. What is added to S is its outer product "
        "with k: k[..., :, None] * u[..., None, :].",
    ],
    mistakes="""
        your keys are not normalised: one twice as long finds four times what it wrote
            q, k = ( -> raw = k; q, k = (
            found = ( -> k = raw; found = (
        your queries are not normalised
            q, k = ( -> raw = q; q, k = (
            found = ( -> q = raw; found = (
        neither q nor k is normalised
            u / xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True)) -> u
        you divide by the square of the length
            xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True))
                -> xp.sum(u * u, axis=-1, keepdims=True)
        you divide by the root of the mean of the squares; the length has their sum
            xp.sum(u * u -> xp.mean(u * u
        you forget beta: every step replaces all that its key finds
            beta[..., None] * (v - found) -> (v - found)
        your beta weighs the value alone: it weighs what is missing, v - S^T k
            beta[..., None] * (v - found) -> beta[..., None] * v - found
        you add the value to what is there, as linear attention does; add what is
        missing
            (v - found) -> v
        you take away what is missing: v - S^T k, not the other way round
            (v - found) -> (found - v)
        you read before you write: a step should find its own pair, too
            S = S + k -> old, S = S, S + k
            @ S)[..., 0, :], S -> @ old)[..., 0, :], S
        you erase after you have written, and so a part of what you wrote: look first
            (v - found) -> v
            missing[..., None, :] -> missing[..., None, :]; S = S - beta[..., None,
                None] * k[..., :, None] * (k[..., None, :] @ S)
        beta counts twice where you erase: u = beta (v - S^T k)
            (v - found) -> (v - beta[..., None] * found)
        you let all of S go by 1 - beta: only what stands at the key makes room
            S = S + k -> S = (1 - beta[..., None, None]) * S + k
            (v - found) -> v
        your outer product lies on its side: the key's numbers make the rows
            k[..., :, None] * missing[..., None, :]
                -> missing[..., :, None] * k[..., None, :]
        you look with the query for what is missing; look with the key
            found = (k -> found = (q
        you write at the query, and read at the key
            (q, k)) -> (k, q))
    """,
    tolerance=1e-4,  # a small number that keeps a length from 0 is no mistake
    leading="S q k v beta",
    anysize="v",
)
def delta_step(xp, S, q, k, v, beta):
    """The delta rule: with q and k of length 1, u = beta (v - S^T k), S + k u^T.

    S (..., d, e), q and k (..., d) of any length, v (..., e), beta (...) -> what q then
    finds (..., e), and the new S.
    """
    q, k = (u / xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True)) for u in (q, k))
    found = (k[..., None, :] @ S)[..., 0, :]
    missing = beta[..., None] * (v - found)
    S = S + k[..., :, None] * missing[..., None, :]
    return (q[..., None, :] @ S)[..., 0, :], S


# --- In chunks ------------------------------------------------------------------------


def _chunk(rng, C, d, e, *lead):
    q, k = rng.normal(size=(2, *lead, C, d))
    return rng.normal(size=(*lead, d, e)), q, k, rng.normal(size=(*lead, C, e))


def _unit_chunk(rng, C, d, e, *lead):
    S, *keys, v = _chunk(rng, C, d, e, *lead)
    q, k = (u / np.linalg.norm(u, axis=-1, keepdims=True) for u in keys)
    return S, q, k, v, rng.uniform(0.2, 1, (*lead, C))


@exercise(
    cases=each(_chunk, "4 3 2, 3 3 3, 1 2 4, 6 2 5 3, 2 4 4 2 3"),
    hints=[
        "Two parts: what a query finds in S, the memory before the chunk, and what it "
        "finds in the chunk itself.",
        "The second is attention without a softmax: (q @ k^T) @ v, with zeros where a "
        "step would see a later one. np.tril keeps the diagonal and what is below it.",
        "np.swapaxes(k, -1, -2) turns the keys over; with v behind it that is the sum "
        "of all k_t v_t^T.",
    ],
    mistakes="""
        your chunk sees the future: no step may find what a later one writes
            np.tril(q @ np.swapaxes(k, -1, -2)) -> (q @ np.swapaxes(k, -1, -2))
        your steps do not see their own pairs: read after you write
            np.swapaxes(k, -1, -2)) -> np.swapaxes(k, -1, -2), -1)
        each step sees itself and what comes after it
            np.tril -> np.triu
        your chunk sees a step ahead: leave the 1 out of np.tril
            np.swapaxes(k, -1, -2)) -> np.swapaxes(k, -1, -2), 1)
        cut off the scores (C, C), before the values come in; you cut off what is found
            np.tril(q @ np.swapaxes(k, -1, -2)) -> q @ np.swapaxes(k, -1, -2)
            scores @ v, -> np.tril(scores @ v),
        you leave out what was there before the chunk
            q @ S + scores -> scores
        you ask the memory after the chunk, which has all of it, and then count the
        chunk again
            q @ S + scores -> q @ (S + np.swapaxes(k, -1, -2) @ v) + scores
        the next memory is what was there before, and the chunk's pairs
            S + np.swapaxes -> np.swapaxes
        the next memory holds only the last pair of the chunk
            np.swapaxes(k, -1, -2) @ v -> np.swapaxes(k[..., -1:, :], -1, -2)
                @ v[..., -1:, :]
        your scores lie on their side: a row for each query, a column for each key
            q @ np.swapaxes(k, -1, -2) -> k @ np.swapaxes(q, -1, -2)
        you take the mean over the chunk, not the sum
            scores @ v, -> scores @ v / q.shape[-2],
    """,
    leading="S q k v",
    anysize="v",
    large=lambda rng: [_chunk(rng, 256, 4, 4)],
    unlooped="over time",
)
def sum_in_chunk(S, q, k, v):
    """Linear attention over a chunk of C steps, without a loop over time.

    S (..., d, e), the memory before the chunk; q, k (..., C, d), v (..., C, e) -> what
    each step finds once it has written (..., C, e), and the memory after the chunk.
    """
    scores = np.tril(q @ np.swapaxes(k, -1, -2))  # (..., C, C)
    return q @ S + scores @ v, S + np.swapaxes(k, -1, -2) @ v


@exercise(
    cases=each(_unit_chunk, "4 3 2, 3 3 3, 1 2 4, 6 2 5 3, 2 4 4 2 3, 9 2 2"),
    hints=[
        "Bring all u to one side: u_t + beta_t (sum over s < t of (k_t . k_s) u_s) = "
        "beta_t (v_t - S^T k_t). Row t has entries at all s < t, and a 1 at t.",
        "np.tril(k @ k^T, -1) has the products with earlier keys alone. beta belongs "
        "to the row: beta[..., None] * ...",
        "np.linalg.solve(np.eye(C) + ..., ...) gives all u; a chunk of the sum with u "
        "in the place of v is the rest.",
    ],
    mistakes="""
        your chunk sees the future: u_t needs earlier u alone
            np.tril(k @ np.swapaxes(k, -1, -2), -1) -> (k @ np.swapaxes(k, -1, -2))
        your system has the diagonal, too: what a step writes, it does not take away
        from itself
            np.swapaxes(k, -1, -2), -1) -> np.swapaxes(k, -1, -2))
        you subtract what was there before the chunk, and not what the chunk itself has
        written: that is what the system is for
            np.linalg.solve(system, weights * (v - k @ S)) -> weights * (v - k @ S)
        you forget beta in the system
            weights * alike -> alike
        you forget beta on the right
            weights * (v -> (v
        you forget beta
            weights = beta[..., None] -> weights = 1.0
        your beta weighs the columns: row t has beta_t
            weights * alike -> alike * beta[..., None, :]
        you take away with the wrong sign: the earlier u stand on the left, with a plus
            + weights * alike -> - weights * alike
        you leave out what was there before the chunk
            (v - k @ S) -> v
        you solve for u, and then write v
            sum_in_chunk(S, q, k, u) -> sum_in_chunk(S, q, k, v)
        beta counts twice: it is in u already
            sum_in_chunk(S, q, k, u) -> sum_in_chunk(S, q, k, weights * u)
        your queries see the future: no step may find what a later one writes
            sum_in_chunk(S, q, k, u) -> (q @ S + q @ np.swapaxes(k, -1, -2) @ u,
                S + np.swapaxes(k, -1, -2) @ u)
        your queries do not find the pair of their own step
            sum_in_chunk(S, q, k, u)
                -> (q @ S + np.tril(q @ np.swapaxes(k, -1, -2), -1) @ u,
                S + np.swapaxes(k, -1, -2) @ u)
        what a key finds is k S; you ask with the query
            v - k @ S -> v - q @ S
    """,
    leading="S q k v beta",
    large=lambda rng: [_unit_chunk(rng, 256, 4, 4)],
    unlooped="over time",
)
def delta_in_chunk(S, q, k, v, beta):
    """The delta rule over a chunk of C steps, without a loop over time.

    S (..., d, e), the memory before the chunk; q, k (..., C, d) of length 1, v
    (..., C, e), beta (..., C) -> what each step finds once it has written (..., C, e),
    and the memory after the chunk.
    """
    weights = beta[..., None]
    alike = np.tril(k @ np.swapaxes(k, -1, -2), -1)  # (..., C, C)
    system = np.eye(k.shape[-2]) + weights * alike
    u = np.linalg.solve(system, weights * (v - k @ S))
    return sum_in_chunk(S, q, k, u)


# --- A state space --------------------------------------------------------------------


def _selects(rng, F, N, *lead, longest=2.0):
    h, x = rng.normal(size=(*lead, F, N)), rng.normal(size=(*lead, F))
    duration = rng.uniform(0.01, longest, (*lead, F))
    A = -rng.uniform(0.3, 2, (F, N))
    return h, x, duration, A, *rng.normal(size=(2, *lead, N))


@recorded(
    cases=each(_selects, "3 2, 3 3, 2 4 5, 4 4 4, 2 3 2 3 1, 1 3 2 6"),
    hints=[
        "Every number of h keeps a share of its own, exp(D A). D is a number for each "
        "unit: duration[..., None] stands beside A (F, N).",
        "What is written is an outer product: (duration * x)[..., None] * "
        "B[..., None, :], (..., F, N).",
        "What is read: (h @ C[..., None])[..., 0], of the new h.",
    ],
    mistakes="""
        you keep the share D A: what a step keeps is exp(D A)
            xp.exp(duration[..., None] * A) -> duration[..., None] * A
        every step lasts as long as every other: exp(D A), not exp(A)
            duration[..., None] * A -> A
        you keep exp(-D A); A is negative already, and so h grows
            duration[..., None] * A -> -duration[..., None] * A
        a long step writes much: D belongs to x, too
            (duration * x) -> x
        you read before you write: a step should find its own input, too
            h = keeps * h -> old, h = h, keeps * h
            (h @ C -> (old @ C
        your decay stands around the whole sum: it fades what was there before
            keeps * h + (duration * x)[..., None] * B[..., None, :]
                -> keeps * (h + (duration * x)[..., None] * B[..., None, :])
        you exchange B, where it is written, and C, where it is read
            B[..., None, :] -> C[..., None, :]
            h @ C[ -> h @ B[
        you write with what the decay leaves, 1 - exp(D A)
            (duration * x)[..., None] * -> (1 - keeps) * x[..., None] *
        that is the exact solution for an input that stays the same over the step, the
        paper's equation 4; asked for is D x B^T, as in its program
            (duration * x)[..., None] * -> (keeps - 1) / A * x[..., None] *
        you take the mean over the state, not the sum
            [..., 0], h -> [..., 0] / h.shape[-1], h
    """,
    leading="h x duration B C",
    anysize="x",
)
def selective_step(xp, h, x, duration, A, B, C):
    """A selective state space: h = exp(D A) * h + (D x) B^T, y = h C.

    h (..., F, N), x and duration D (..., F), D positive, A (F, N), negative, B and C
    (..., N) -> y (..., F) and the new h.
    """
    keeps = xp.exp(duration[..., None] * A)
    h = keeps * h + (duration * x)[..., None] * B[..., None, :]
    return (h @ C[..., None])[..., 0], h


# --- An experiment --------------------------------------------------------------------


def store(keys, values, beta=1.0, rule="delta"):
    """A memory into which pairs were written one after the other.

    keys (n, d), of any length, and values (n, e) -> S (d, e). rule: "delta", or "sum",
    which adds beta times each pair.
    """
    S = np.zeros((np.shape(keys)[1], np.shape(values)[1]))
    for k, v in zip(keys, values, strict=True):
        k = k / np.sqrt(k @ k)
        S = S + beta * np.outer(k, v - k @ S if rule == "delta" else v)
    return S


def _with_picture(answer, store, seed):
    """The text of `report` on an experiment; `Wrong` if its picture is not complete."""
    drawn, widths = [], set()

    def noted(keys, values, *more, **named):
        widths.add(np.shape(keys)[-1])
        return store(keys, values, *more, **named)

    def on_a_panel(store, seed):
        panel = new_panel()
        drawn.append((panel, answer(store, panel, seed)))
        return drawn[-1][1]

    said = report("store", array=True)(on_a_panel, noted, seed)
    if said is None:
        return None
    panel, (settings, measured, _) = drawn[0]
    lines = [np.array(line.get_data(), float) for line in panel.lines]
    wanted = np.array([settings, measured], float)
    if not any(x.shape == wanted.shape and np.allclose(x, wanted) for x in lines):
        raise Wrong(
            "no line of the picture has what is returned: panel.plot(settings, "
            "measured)"
        )
    upright = {float(x[0]) for x, _ in lines if len(x) > 1 and np.ptp(x) == 0}
    if len(widths) == 1 and not widths & upright:
        (d,) = widths
        raise Wrong(
            f"the picture does not mark the width of the keys, d = {d}: "
            f"panel.axvline({d})"
        )
    if not (panel.get_xlabel().strip() and panel.get_ylabel().strip()):
        raise Wrong("the axes have no names: panel.set(xlabel=..., ylabel=...)")
    return said


@used(
    _with_picture,
    cases=lambda rng: [(store, seed) for seed in range(3)],
    hints=[
        "Draw keys (n, d) and values (n, e) with rng = np.random.default_rng(seed), "
        "store them, and ask with all keys again: keys @ S, once the keys have length "
        "1. Keep e fixed: n values of n numbers each would make S grow with n.",
        "A pair is recalled if its own value is the nearest of all n to what its key "
        "finds. Differences (n, n, e): found[:, None] - values. The mean of 20 "
        "memories is steadier than one.",
        "Numbers of pairs from far below d to far above it; panel.plot(pairs, shares), "
        "panel.axvline(d), panel.set(xlabel=..., ylabel=...).",
    ],
    mistakes="""
        you conclude that it rises
            "falls" -> "rises"
        your picture does not say where d is
            panel.axvline(d, color="0.5", ls=":") -> pass
        your axes have no names
            panel.set( -> dict(
        your picture shows something else than what you return
            panel.plot(pairs, shares -> panel.plot(pairs, pairs
        your settings are too few to say anything
            (4, 8, 16, 32, 64) -> (4, 64)
    """,
)
def my_experiment(store, panel, seed):
    """Measures something about a memory at five settings or more, and draws it.

    store(keys (n, d), values (n, e), beta=1.0, rule="delta") -> S (d, e); panel, of
    matplotlib, to draw into -> settings, in growing order; what was measured at each;
    and the claim "rises", "falls", "stays" or "neither".
    """
    rng, d, shares = np.random.default_rng(seed), 16, []
    pairs = (4, 8, 16, 32, 64)
    for n in pairs:
        right = []
        for _ in range(20):
            keys, values = rng.normal(size=(2, n, d))
            keys /= np.linalg.norm(keys, axis=1, keepdims=True)
            found = keys @ store(keys, values)
            away = ((found[:, None] - values) ** 2).sum(axis=-1)  # (n, n)
            right.append(np.mean(away.argmin(axis=1) == np.arange(n)))
        shares.append(np.mean(right))
    panel.plot(pairs, shares, "o-")
    panel.axvline(d, color="0.5", ls=":")
    panel.set(xlabel="pairs", ylabel="share recalled")
    return pairs, shares, "falls"
