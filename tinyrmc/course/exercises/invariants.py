"""Chapter 7: what holds for any attention, and experiments that find out."""

import math

import numpy as np

from ... import equations
from .attention import softmax
from .exercise import altered, exercise, normal
from .experiments import Picture, report
from .used import used


def right_attention(Q, K, V):
    """Equation 1."""
    return equations.attention(np, Q, K, V)


def _attention(Q, K, V):
    scores = Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])
    return softmax(scores) @ V


def _faulty(name, *pairs):
    function = altered(_attention, *pairs)
    function.__name__ = name.replace(" ", "_")
    return function


CHANGES = {
    "no root": (" / math.sqrt(Q.shape[-1])", ""),
    "divided by d_k": ("math.sqrt(Q.shape[-1])", "Q.shape[-1]"),
    "scores doubled": ("= Q", "= 2 * Q"),
    "root of the number of keys": ("Q.shape[-1]", "K.shape[-2]"),
    "wrong sign": ("= Q", "= -Q"),
    "softmax over the queries": (
        "softmax(scores)",
        "np.swapaxes(softmax(np.swapaxes(scores, -1, -2)), -1, -2)",
    ),
    "no softmax": ("softmax(scores)", "scores"),
    "the maximum is not taken off": (
        "softmax(scores)",
        "(np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True))",
    ),
    "K.T in a batch": ("np.swapaxes(K, -1, -2)", "K.T"),
    "looks only back": (
        "(scores)",
        "(np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf))",
    ),
    "fond of itself": ("(scores)", "(scores + 0.1 * np.eye(*scores.shape[-2:]))"),
    "a ReLU on the values": ("@ V", "@ np.maximum(V, 0)"),
    "works in place": (
        "scores = Q",
        "Q /= math.sqrt(Q.shape[-1])\n    scores = Q",
        "-1, -2) / math.sqrt(Q.shape[-1])",
        "-1, -2)",
    ),
}
FAULTY = {name: _faulty(name, *pairs) for name, pairs in CHANGES.items()}
FOND_OF_THE_FIRST = _faulty(
    "fond of the first", "(scores)", "(scores - 0.1 * np.arange(K.shape[-2]))"
)
WEAKER_BY_PLACE = _faulty(
    "weaker by place", "@ V", "@ V / np.arange(1, Q.shape[-2] + 1)[:, None]"
)
ROOT_OF_VALUES = _faulty("root of the width of a value", "Q.shape[-1]", "V.shape[-1]")
ROOT_OF_QUERIES = _faulty("root of the number of queries", "Q.shape[-1]", "Q.shape[-2]")
ODD_ONES_LAST = _faulty(
    "odd ones last", "(scores) @ V", "(scores[np.argsort(np.arange(len(Q)) % 2)]) @ V"
)


def plain_mean(Q, K, V):
    """All keys count the same."""
    return 0 * (Q @ np.swapaxes(K, -1, -2)) @ V + V.mean(axis=-2, keepdims=True)


@exercise(
    cases=lambda rng: [
        (right_attention, *normal(rng, (3, 2), (5, 2))),
        (FAULTY["no root"], *normal(rng, (4, 4), (4, 4))),
        (FAULTY["wrong sign"], *normal(rng, (2, 3, 4), (2, 6, 4))),
        (plain_mean, *normal(rng, (3, 2), (1, 2))),
        (right_attention, *normal(rng, (2, 3), (3, 3))),  # as many keys as features
        (right_attention, *normal(rng, (3, 2), (3, 2))),  # as many keys as queries
    ],
    hints=[
        "The result is weights times values. You may choose the values: which matrix "
        "can you multiply by without changing anything?",
        "The identity, np.eye(...). How many rows do the values have?",
    ],
    mistakes="""
        you give the weights of equation 1, whatever the function
            = equations.attention_weights(np, Q, K)
        you give the keys as values
            = attention(Q, K, K)
    """,
    leading="Q K",
)
def weights_behind(attention, Q, K):
    """The weights of a function attention(Q, K, V) = weights V, found by calling it.

    Q (..., N, d_k), K (..., R, d_k) -> (..., N, R).
    """
    return attention(Q, K, np.eye(K.shape[-2]))


# --- Experiments ----------------------------------------------------------------------

# queries, keys, their width, that of values, and how large they are
_SIZES = ((3, 4, 5, 2, 1.0), (4, 4, 4, 4, 1.0), (1, 1, 1, 1, 1.0), (6, 2, 16, 3, 3.0))


def _difference(experiment, function, arrays):
    """The fault in an experiment's results, in a few words, or ""."""
    copies = [each.copy() for each in arrays]  # it may spoil them
    try:
        with np.errstate(all="ignore"):
            found, expected = (
                1.0 * np.asarray(x) for x in experiment(function, *copies)
            )
    except NotImplementedError:
        raise
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    if found.shape != expected.shape:
        return f"the shape is {found.shape}, not {expected.shape}"
    with np.errstate(all="ignore"):
        off = np.max(abs(found - expected) / np.maximum(1, abs(expected)), initial=0)
    if off < 1e-9:
        return ""
    return f"off by {off:.2g}" if off < np.inf else "not all are numbers"


def outcome(experiment, function):
    """Try experiment(function, Q, K, V) on some arrays: "holds", or where it fails."""
    for N, R, d_k, d_v, scale in _SIZES:
        arrays = normal(
            np.random.default_rng([N, R, d_k, d_v]), (N, d_k), (R, d_k), (R, d_v)
        )
        if wrong := _difference(experiment, function, [scale * x for x in arrays]):
            return f"FAILS ({N} queries, {R} keys): {wrong}"
    return "holds"


def attempt(function, *experiments):
    """Try experiments on a function and print what comes out; returns them by name."""
    named = {each.__name__.replace("_", " "): each for each in experiments}
    for name, experiment in named.items():
        print(f"{name:43} {outcome(experiment, function)}")
    return named


def _comes_out(experiment, A):
    """Whether an answer's experiment holds for a function."""
    found = "holds" if outcome(experiment, A) == "holds" else "fails"
    return f"your experiment {found} for A"


@used(
    _comes_out,
    cases=lambda rng: [
        (right_attention,),
        (FAULTY["no root"],),
        (FAULTY["divided by d_k"],),
        (FAULTY["scores doubled"],),
        (FAULTY["root of the number of keys"],),
        (ROOT_OF_VALUES,),
        (ROOT_OF_QUERIES,),
    ],
    hints=[
        "Choose queries and keys of your own, so simple that you know the shares by "
        "hand. With the identity as values, the result is the shares.",
        "Shares 1/3 and 2/3 want scores 0 and ln 2, after the division by the root. If "
        "d_k were 4, a query (1, 1, 1, 1) and a key (c, c, c, c) would have the score "
        "4 c / 2.",
        "K = np.log([[1.0], [2.0]]) * np.ones((2, 4)) / 2 and Q = np.ones((1, 4)): "
        "return A(Q, K, np.eye(2)), np.array([[1, 2]]) / 3",
    ],
    mistakes="""
        your experiment holds whatever the size of the scores
            = (weights_behind(A, Q, K).sum(axis=-1), np.ones(len(Q)))
        your expectation is wrong: the right function fails it
            = (weights_behind(A, Q, K), equations.attention_weights(np, 2 * Q, K))
        at a width of 1 the root is 1, so nobody sees whether it is there
            np.ones((2, 4)) / 2 -> np.ones((2, 1))
            np.ones((1, 4)) -> np.ones((1, 1))
        there are as many keys as a key is wide, so the root of one is that of the other
            np.ones((2, 4)) / 2 -> np.ones((2, 2)) / math.sqrt(2)
            np.ones((1, 4)) -> np.ones((1, 2))
    """,
)
def size_of_the_scores(A, Q, K, V):
    """An experiment that a right attention passes, and none whose scores are too large
    or too small.

    A function A(Q, K, V), and some Q, K, V that it may use or not -> found, expected.
    """
    K = np.log([[1.0], [2.0]]) * np.ones((2, 4)) / 2
    return A(np.ones((1, 4)), K, np.eye(2)), np.array([[1.0, 2.0]]) / 3


@used(
    _comes_out,
    cases=lambda rng: [
        (right_attention,),
        (FAULTY["no root"],),
        (FAULTY["wrong sign"],),
        (FAULTY["looks only back"],),
        (FAULTY["fond of itself"],),
        (FOND_OF_THE_FIRST,),
        (WEAKER_BY_PLACE,),
        (ODD_ONES_LAST,),
    ],
    hints=[
        "Put the queries in another order, for example [::-1], and the keys with their "
        "values, too. What must become of the result?",
        "Keys and values go together: A(Q[::-1], K[::-1], V[::-1]). Only the order of "
        "the queries may show in the result.",
    ],
    mistakes="""
        you expect what a right function does not do: keys move with their values, and
        queries take their rows along
            = (A(Q[::-1], K[::-1], V), A(Q, K, V))
        you move the queries alone; keys have an order, too
            K[around], V[around] -> K, V
        you move the keys alone; queries have an order, too
            Q[::-1] -> Q
            V)[::-1] -> V)
        you compare with equation 1, so that a function fails for another reason, such
        as a missing root
            = (A(Q, K, V), right_attention(Q, K, V))
    """,
)
def order_means_nothing(A, Q, K, V):
    """An experiment that fails for a function that knows in which order slots stand,
    and for no other.

    A function A(Q, K, V), and Q, K, V to try it on -> found, expected.
    """
    R = len(K) // 2
    around = np.r_[R : len(K), 0:R]  # the second half first
    return A(Q[::-1], K[around], V[around]), A(Q, K, V)[::-1]


@used(
    report("A", array=True),
    cases=lambda rng: [(right_attention, seed) for seed in range(3)],
    hints=[
        "How sure is attention? The largest share is one measure of it. On what might "
        "it depend: the length of the queries, the width, the number of keys?",
        "With the identity as values, A gives the shares. Take the mean over many "
        "queries, made by np.random.default_rng(seed).",
        "For each s in a list of lengths: A(s * Q, K, np.eye(5)).max(axis=-1).mean()",
    ],
    mistakes="""
        your settings are too few to say anything
            np.arange(-3, 4) -> np.arange(0, 2)
        your numbers do not come from what A returns
            np.array(largest) -> np.log(lengths) + rng.normal() / 9
        you conclude that it falls
            "rises" -> "falls"
    """,
)
def my_experiment(A, seed):
    """Measures something about attention at five settings or more.

    -> settings, in growing order; what was measured at each; and the claim "rises",
    "falls", "stays" or "neither".
    """
    rng = np.random.default_rng(seed)
    Q, K = rng.normal(size=(200, 1, 8)), rng.normal(size=(200, 5, 8))
    lengths = 2.0 ** np.arange(-3, 4)
    largest = [A(s * Q, K, np.eye(5)).max(axis=-1).mean() for s in lengths]
    return lengths, np.array(largest), "rises"


picture = Picture("invariants", curves=3)
