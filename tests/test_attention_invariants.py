"""Laws of any attention function. Try yours:

    from test_attention_invariants import check_attention
    check_attention(my_attention)            # my_attention(Q, K, V) -> output, in NumPy

with queries Q (..., N, d_k), keys K (..., R, d_k), values V (..., R, d_v) and output
(..., N, d_v): equation 1 of "Relational recurrent neural networks". Nothing is compared
with a reference implementation. Each check states one property of softmax(Q K^T /
sqrt(d_k)) V and raises an AssertionError that says which one failed, and on what case.
`check_multi_head_attention` does the same for the heads of equation 2. (The tests below
draw their cases with hypothesis, so importing this file needs the `dev` extra.)

The trick that most checks use: with the identity as values, the output is the matrix of
attention weights.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turns import in_turn

from tinyrmc import RelationalMemory, equations

TOLERANCE = 1e-9  # float64 throughout; the loosest check loses about 4 of its 16 digits


@dataclass(frozen=True)
class Case:
    """Sizes, scale and seed of one random example.

    Printed when a check fails, it is enough to repeat the failure.
    """

    queries: int = 3  # N
    keys: int = 4  # R
    key_size: int = 5  # d_k
    value_size: int = 2  # d_v
    scale: float = 1.0
    seed: int = 0

    def arrays(self, *leading):
        """Q (*leading, N, d_k), K (*leading, R, d_k) and V (*leading, R, d_v).

        Normally distributed.
        """
        random = np.random.default_rng(self.seed)
        queries, keys = (self.queries, self.key_size), (self.keys, self.key_size)
        sizes = queries, keys, (self.keys, self.value_size)
        return [
            self.scale * random.standard_normal((*leading, *size)) for size in sizes
        ]

    def permutation(self, size):
        return np.random.default_rng(self.seed + 1).permutation(size)


CASES = (
    Case(),
    # all sizes equal: a missing transpose runs
    Case(queries=4, keys=4, key_size=4, value_size=4, seed=1),
    Case(queries=1, keys=1, key_size=1, value_size=1, seed=2),
    Case(queries=6, keys=2, key_size=16, value_size=3, scale=3.0, seed=3),
)


# The checks ---------------------------------------------------------------------------


def apply(attention, *arguments, case, shape):
    """attention(*arguments), checked.

    It runs, its numbers are finite, its shape is right, its inputs are untouched.
    """
    before = [array.copy() for array in arguments]
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(attention(*arguments))
    except Exception as error:
        shapes = ", ".join(str(array.shape) for array in arguments)
        raise AssertionError(
            f"the function raises {type(error).__name__} on shapes {shapes}: {error}"
        ) from error
    assert result.shape == shape, (
        f"the output has shape {result.shape}, expected {shape}, for {case}"
    )
    assert np.isfinite(result).all(), (
        f"the output has values that are not finite, for {case}"
    )
    for array, copy in zip(arguments, before, strict=True):
        assert np.array_equal(array, copy), (
            "the function changes its arguments; work on copies"
        )
    return result


def weights_of(attention, Q, K, case):
    """The attention weights (N, R) behind an output.

    With the identity as values, they are the output.
    """
    return apply(
        attention, Q, K, np.eye(case.keys), case=case, shape=(case.queries, case.keys)
    )


def output_of(attention, Q, K, V, case):
    """The output (..., N, d_v) on arrays with the sizes of the case."""
    return apply(attention, Q, K, V, case=case, shape=(*Q.shape[:-1], V.shape[-1]))


def assert_same(actual, expected, message, case):
    error = np.max(np.abs(actual - expected)) / max(1.0, np.max(np.abs(expected)))
    assert error <= TOLERANCE, f"{message}; they differ by {error:.1e}, for {case}"


def check_weights_are_a_distribution(attention, case):
    """The weights of every query are non-negative and sum to 1."""
    Q, K, _ = case.arrays()
    weights = weights_of(attention, Q, K, case)
    assert (weights >= 0).all(), (
        f"an attention weight is negative: {weights.min():.3g}, for {case}"
    )
    sums = weights.sum(axis=-1)
    message = (
        "the weights of a query must sum to 1 over the keys (softmax over the last "
        "axis)"
    )
    assert_same(sums, np.ones_like(sums), message, case)


def check_known_weights(attention, case):
    """Arithmetic by hand, with whole numbers c_j.

    Scaled dot products log c_j give weights c_j / sum(c).
    """
    counts = np.random.default_rng(case.seed).integers(1, 10, case.keys)
    Q = np.ones((1, case.key_size))
    # q . k_j = sqrt(d_k) log c_j
    K = np.outer(np.log(counts), Q) / np.sqrt(case.key_size)
    weights = apply(attention, Q, K, np.eye(case.keys), case=case, shape=(1, case.keys))
    message = (
        f"scaled dot products log {counts} must give weights {counts} / "
        f"{counts.sum()}, not {weights[0].round(3)}"
    )
    assert_same(weights[0], counts / counts.sum(), message, case)


def check_scale(attention, case):
    """Dot products are divided by sqrt(d_k).

    Every feature four times over is the same as queries twice as long.
    """
    Q, K, V = case.arrays()
    # 4 q.k / sqrt(4 d_k)
    wide = output_of(attention, np.tile(Q, 4), np.tile(K, 4), V, case)
    twice = output_of(attention, 2 * Q, K, V, case)  # 2 q.k / sqrt(d_k)
    says = "the dot products must be divided by sqrt(d_k), d_k the width of a key"
    assert_same(wide, twice, says, case)


def check_permuting_slots(attention, case):
    """Order carries no meaning.

    Permuted queries permute the output, permuted pairs of key and value change nothing.
    """
    Q, K, V = case.arrays()
    output = output_of(attention, Q, K, V, case)
    order = case.permutation(case.queries)
    permuted = output_of(attention, Q[order], K, V, case)
    assert_same(
        permuted, output[order], "permuting the queries must permute the output", case
    )
    order = case.permutation(case.keys)
    permuted = output_of(attention, Q, K[order], V[order], case)
    says = "permuting keys together with their values must change nothing"
    assert_same(permuted, output, says, case)


def check_shift_invariance(attention, case):
    """Softmax depends on differences alone.

    One vector added to every key adds one number to a query's dot products.
    """
    Q, K, V = case.arrays()
    shift = np.random.default_rng(case.seed + 2).standard_normal(case.key_size)
    shifted = output_of(attention, Q, K + shift, V, case)
    output = output_of(attention, Q, K, V, case)
    says = "adding the same vector to all keys must change nothing"
    assert_same(shifted, output, says, case)


def check_no_overflow(attention, case):
    """Scaled dot products of +-1e4 still give weights: here 1 and 0.

    Their bare exponential is infinite or zero.
    """
    # (N, R): one query, one row each
    logits = 1e4 * np.array([[1.0, 0.0, -1.0], [-1.0, -3.0, -2.0], [3.0, 2.0, 1.0]])
    K = np.sqrt(3) * np.eye(3)  # then Q K^T / sqrt(d_k) is Q
    try:
        weights = apply(attention, logits, K, np.eye(3), case=case, shape=(3, 3))
    except AssertionError as error:
        raise AssertionError(
            "logits of 1e4 overflow; subtract the largest of the row before exp "
            f"({error})"
        ) from error
    message = (
        "logits 1e4 apart must give weights 1 and 0; subtract the largest of the row "
        "before exp"
    )
    assert_same(weights, np.eye(3)[[0, 0, 0]], message, case)


def check_convex_hull(attention, case):
    """Every output is a weighted mean of the values.

    It lies within their range in each coordinate, and is weights @ V.
    """
    Q, K, V = case.arrays()
    output = output_of(attention, Q, K, V, case)
    slack = TOLERANCE * max(1.0, np.max(np.abs(V)))
    inside = (output >= V.min(axis=-2) - slack) & (output <= V.max(axis=-2) + slack)
    assert inside.all(), f"an output lies outside the range of the values, for {case}"
    weights = weights_of(attention, Q, K, case)
    assert_same(
        output, weights @ V, "the output must be the weights times the values", case
    )


def check_batch(attention, case):
    """Leading axes never mix.

    A batch of B equals B single examples, and heads (B, H, N, d_k) equal B * H.
    """
    for leading in [(3,), (2, 3)]:
        Q, K, V = case.arrays(*leading)
        together = output_of(attention, Q, K, V, case)
        for index in np.ndindex(*leading):
            alone = output_of(attention, Q[index], K[index], V[index], case)
            says = f"example {index} of a batch must come out as it does alone"
            assert_same(together[index], alone, says, case)


CHECKS = (
    check_weights_are_a_distribution,
    check_scale,  # before the known weights, whose message is less to the point
    check_known_weights,
    check_permuting_slots,
    check_shift_invariance,
    check_no_overflow,
    check_convex_hull,
    check_batch,
)


def check_attention(attention, cases=CASES):
    """All checks on all cases.

    Returns nothing when attention(Q, K, V) is right; AssertionError names what is not.
    """
    for check in CHECKS:
        for case in cases:
            check(attention, case)


def check_multi_head_attention(multi_head_attention, case=Case(), heads=3):
    """H heads are H single heads side by side.

    Eq 1's columns are concatenated and nothing is mixed afterwards.

    multi_head_attention(M, x, W_q, W_k, W_v) -> (N, H * V), with memory M (N, F), input
    rows x (n, F), and for the weights of all heads W_q, W_k (H, F, K) and W_v (H, F,
    V).
    """
    random = np.random.default_rng(case.seed)
    F = 6
    M, x = random.standard_normal((case.queries, F)), random.standard_normal((2, F))
    sizes = case.key_size, case.key_size, case.value_size
    W_q, W_k, W_v = (random.standard_normal((heads, F, size)) for size in sizes)
    together = np.asarray(multi_head_attention(M, x, W_q, W_k, W_v))
    singles = [
        multi_head_attention(M, x, W_q[k : k + 1], W_k[k : k + 1], W_v[k : k + 1])
        for k in range(heads)
    ]
    expected = (case.queries, heads * case.value_size)
    assert together.shape == expected, (
        f"the output has shape {together.shape}, expected {expected}, for {case}"
    )
    says = "H heads must be H single heads side by side"
    assert_same(together, np.concatenate(singles, axis=-1), says, case)


# Ours holds them all ------------------------------------------------------------------

cases = st.builds(
    Case,
    queries=st.integers(1, 8),
    keys=st.integers(1, 8),
    key_size=st.integers(1, 16),
    value_size=st.integers(1, 8),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 10.0]),
    seed=st.integers(0, 2**32 - 3),
)


def our_attention(Q, K, V):
    return equations.attention(np, Q, K, V)


def our_multi_head_attention(M, x, W_q, W_k, W_v):
    return equations.multi_head_attention(np, M, x, W_q, W_k, W_v)


@in_turn("check", CHECKS)
def test_equation_1(check):
    given(cases)(lambda case: check(our_attention, case))()


def test_check_attention_accepts_a_right_function():
    check_attention(our_attention)


@given(cases, st.integers(1, 4))
def test_equation_2_heads(case, heads):
    check_multi_head_attention(our_multi_head_attention, case, heads)


# Wrong ones fail, and the message says why --------------------------------------------


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def logits(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])


def no_max_shift(Q, K, V):
    e = np.exp(logits(Q, K))
    return e / e.sum(axis=-1, keepdims=True) @ V


def changes_its_input(Q, K, V):
    Q /= np.sqrt(Q.shape[-1])
    return softmax(Q @ np.swapaxes(K, -1, -2)) @ V


def first_batch_entry_only(Q, K, V):
    return softmax(logits(Q, K[(0,) * (K.ndim - 2)])) @ V


def looks_only_back(Q, K, V):
    return (
        softmax(np.where(np.tri(Q.shape[-2], K.shape[-2]) > 0, logits(Q, K), -np.inf))
        @ V
    )


WRONG = [  # function, the check that must catch it, what the message must say
    (lambda Q, K, V: softmax(Q @ np.swapaxes(K, -1, -2)) @ V, check_scale, "sqrt"),
    (
        lambda Q, K, V: softmax(logits(Q, K) * 0.5) @ V,
        check_known_weights,
        "scaled dot products",
    ),
    (
        lambda Q, K, V: softmax(logits(Q, K - K.mean()) ** 2) @ V,
        check_shift_invariance,
        "same vector",
    ),
    (
        lambda Q, K, V: softmax(logits(Q, K), axis=-2) @ V,
        check_weights_are_a_distribution,
        "sum to 1",
    ),
    (looks_only_back, check_permuting_slots, "permuting"),
    (no_max_shift, check_no_overflow, "largest"),
    (
        lambda Q, K, V: 2 * softmax(logits(Q, K)) @ V,
        check_convex_hull,
        "outside the range",
    ),
    (first_batch_entry_only, check_batch, "alone"),
    (changes_its_input, check_convex_hull, "changes its arguments"),
    (
        lambda Q, K, V: (softmax(logits(Q, K)) @ V).sum(axis=-1),
        check_convex_hull,
        "shape",
    ),
]


@in_turn("wrong, check, message", WRONG)
def test_a_wrong_function_is_rejected(wrong, check, message):
    with pytest.raises(AssertionError, match=message):
        for case in CASES:
            check(wrong, case)
    with pytest.raises(AssertionError):
        check_attention(wrong)


def test_a_missing_transpose_is_rejected_even_where_it_runs():
    square = Case(queries=4, keys=4, key_size=4, value_size=4, seed=1)
    with pytest.raises(AssertionError, match="permuting keys"):
        check_permuting_slots(lambda Q, K, V: softmax(Q @ K / 2) @ V, square)


def test_every_check_rejects_something():
    assert {check for _, check, _ in WRONG} == set(CHECKS)


def mixed_heads(M, x, W_q, W_k, W_v):
    heads = our_multi_head_attention(M, x, W_q, W_k, W_v)
    return heads + heads.mean(axis=-1, keepdims=True)


def one_softmax_for_all_heads(M, x, W_q, W_k, W_v):
    Z = np.concatenate([M, x])
    scores = sum(logits(M @ q, Z @ k) for q, k in zip(W_q, W_k, strict=True))
    return np.concatenate([softmax(scores) @ Z @ v for v in W_v], axis=-1)


@in_turn("wrong", [mixed_heads, one_softmax_for_all_heads])
def test_wrong_heads_are_rejected(wrong):
    with pytest.raises(AssertionError, match=r"side by side|shape"):
        check_multi_head_attention(wrong)


# The whole core, in the released formulation ------------------------------------------

cores = st.fixed_dictionaries(
    {
        "mem_slots": st.integers(2, 5),
        "head_size": st.integers(2, 4),
        "num_heads": st.integers(1, 3),
        "num_blocks": st.integers(1, 2),
        "key_size": st.sampled_from([None, 3]),
        "seed": st.integers(0, 1000),
    }
)
gate_styles = st.sampled_from(["unit", "memory"])
INPUT_SIZE, BATCH = 7, 3


def build(**settings):
    return RelationalMemory(INPUT_SIZE, dtype=np.float64, **{"seed": 0} | settings)


def inputs_for(settings, steps=1):
    return np.random.default_rng(settings["seed"]).standard_normal(
        (steps, BATCH, INPUT_SIZE)
    )


def random_state(core, seed):
    return np.random.default_rng(seed).standard_normal(core.initial_state(BATCH).shape)


@given(cores, gate_styles)
def test_open_forget_gate_and_shut_input_gate_keep_the_memory_exactly(
    settings, gate_style
):
    biases = {"forget_bias": np.inf, "input_bias": -np.inf}
    core = build(gate_style=gate_style, **biases, **settings)
    memory = random_state(core, settings["seed"])
    output, state = core(inputs_for(settings)[0], memory)
    assert np.array_equal(state.data, memory)
    assert np.array_equal(output.data, memory.reshape(BATCH, -1))


@given(cores, st.sampled_from(["unit", "memory", None]))
def test_slots_that_start_equal_stay_equal_and_the_identity_tells_them_apart(
    settings, gate_style
):
    core = build(gate_style=gate_style, **settings)
    first = core.initial_state(BATCH)
    for memory in np.zeros_like(first), first:
        state = memory
        for x in inputs_for(settings, steps=4):
            _, state = core(x, state)
        spread = np.max(np.ptp(state.data, axis=1))
        if memory is not first:
            assert spread < 1e-12
        elif gate_style:
            assert spread > 1e-3


@given(cores, gate_styles, st.sampled_from([1.0, 1e3]))
def test_slots_and_examples_have_no_order_and_gates_lie_between_0_and_1(
    settings, gate_style, scale
):
    core = build(gate_style=gate_style, **settings)
    x, memory = scale * inputs_for(settings)[0], random_state(core, settings["seed"])
    _, state = core(x, memory, trace=(trace := []))
    (record,) = trace
    for name in ("input_gate", "forget_gate"):
        assert (record[name] >= 0).all() and (record[name] <= 1).all()
    assert (record["attention"] >= 0).all()
    np.testing.assert_allclose(record["attention"].sum(axis=-1), 1.0, rtol=1e-12)
    close = {"rtol": 1e-9, "atol": 1e-9}
    order = np.random.default_rng(settings["seed"]).permutation(settings["mem_slots"])
    _, permuted = core(x, memory[:, order])
    np.testing.assert_allclose(permuted.data, state.data[:, order], **close)
    for b in range(BATCH):
        _, alone = core(x[b : b + 1], memory[b : b + 1])
        np.testing.assert_allclose(alone.data[0], state.data[b], **close)
