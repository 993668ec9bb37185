# %% [markdown]
# # 5. Encoding: a new input joins the memory
#
# **Equation 2, section 3.2.** Thirty-five minutes. You need chapter 4: queries, keys,
# values, softmax, heads.
#
# In chapter 4 the slots of a memory $M$ ($N$ rows of width $F$) looked at each other.
# But how does anything get into the memory? The paper:
#
# > We assumed that we already had a matrix of memories $M$. Of course, memories instead
# > need to be encoded as new inputs are received. Suppose then that $M$ is some
# > randomly initialised memory. We can efficiently incorporate new information $x$ into
# > $M$ with a simple modification to equation 1
#
# and the modification is one more row to look at:
#
# $$\widetilde{M} = \mathrm{softmax}\left(\frac{M W^q \, ([M; x] W^k)^\top}{\sqrt{d_k}}\right) [M; x] W^v \tag{2}$$
#
# The first half of this chapter builds it. The second half is a laboratory: some twenty
# things that must hold for any attention function, whoever wrote it, tried on *yours*.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course, equations
from tinyrmc.course.exercises import encoding as ex

course.setup()
rng = np.random.default_rng(1806)

# %% [markdown]
# **Exercise 1.** Bring your attention along: equation 1 for given queries, keys and
# values. Copy it from chapter 4 or, better, write it again. The experiments below will
# run on it. (Letters as in chapter 4: `M`, `Q`, `K` and `V` are matrices; `N` slots of
# width `F`, `R` keys of width `d_k`, and values of width `d_v` are sizes.)


# %%
def attention(Q, K, V):
    """Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v) -> (..., N, d_v)."""
    ...


ex.attention.check(attention)

# %% [markdown]
# ## One more row
#
# The paper writes "$[M; x]$ to denote the row-wise concatenation of $M$ and $x$": the
# input becomes a row below the $N$ slots. For that it must be as wide as a slot. Inputs
# seldom are, so a matrix brings them to the width $F$ first; here we take $x$ as it
# comes out of that.
#
# **Exercise 2.** Leading axes are examples, as ever: each example has a memory and an
# input of its own.


# %%
def append_rows(M, x):
    """M (..., N, F), x (..., F) -> (..., N + 1, F)."""
    ...


ex.append_rows.check(append_rows)

# %% [markdown]
# ## Who looks, and at what
#
# > Since we use $[M; x]$ when computing the keys and values, and only $M$ when
# > computing the queries, $\widetilde{M}$ is a matrix with same dimensionality as $M$.
# > Thus, equation 2 is a memory-size preserving attention operation that includes
# > attention over the memories and the new observations.
#
# The slots ask, the slots and the input answer. The input itself asks nothing: it has
# no row in the result, so the memory stays as large as it was, whatever arrives and
# however often.
#
# **Exercise 3.** Equation 2 for one head.


# %%
def encode(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q and W_k (F, d_k), W_v (F, d_v) -> (..., N, d_v)."""
    ...


ex.encode.check(encode)

# %% [markdown]
# Here are all matrices of equation 2 for four slots of width six, keys of width three,
# and numbers drawn at random: blue for positive, red for negative, and grey for
# weights, from 0 to 1. Whatever comes from the input has a green frame: a column of the
# keys (they are drawn transposed, as the product wants them), a column of the weights,
# a row of the values, and nothing of the result.

# %% alt="Five matrices in a row: queries of four slots, keys of four slots and the input, weights with a fifth column for the input, values with a fifth row for it, and the result with four rows again"
N, F, d_k, d_v = 4, 6, 3, 6
M, x = rng.normal(size=(N, F)), rng.normal(size=F)
W_q, W_k, W_v = (
    rng.normal(size=(F, width)) / math.sqrt(F) for width in (d_k, d_k, d_v)
)
W_q = 2 * W_q  # so that the shares differ visibly
Z = ex.append_rows(M, x)
weights = ex.weights_behind(
    ex.attention, M @ W_q, Z @ W_k
)  # what this function does, exercise 5 will tell
matrices = {
    "queries\n$M W^q$": M @ W_q,
    "keys\n$([M; x]\\, W^k)^\\top$": (Z @ W_k).T,
    "weights\nsoftmax(... / $\\sqrt{d_k}$)": weights,
    "values\n$[M; x]\\, W^v$": Z @ W_v,
    "result\n$\\widetilde{M}$": ex.encode(M, x, W_q, W_k, W_v),
}
figure, panels = plt.subplots(
    1,
    5,
    figsize=(10, 2.8),
    width_ratios=[matrix.shape[1] for matrix in matrices.values()],
)
for panel, (title, matrix) in zip(panels, matrices.items(), strict=True):
    style = (
        {"cmap": "Greys", "vmin": 0, "vmax": 1}
        if matrix is weights
        else {"cmap": "RdBu", "vmin": -2.5, "vmax": 2.5}
    )
    panel.imshow(matrix, **style)
    panel.set_title(title, fontsize=10)
    panel.set_xlabel(f"{matrix.shape[0]} x {matrix.shape[1]}")
    panel.set(xticks=[], yticks=[])
for panel, corner, width, height in (
    (panels[1], (3.5, -0.5), 1, 3),
    (panels[2], (3.5, -0.5), 1, 4),
    (panels[3], (-0.5, 3.5), 6, 1),
):
    panel.add_patch(
        plt.Rectangle(
            corner, width, height, fill=False, edgecolor="C2", lw=3, clip_on=False
        )
    )
plt.show()

# %% [markdown]
# (A map of weights shows who looked at whom, once. What it says about where information
# *is* is little, in the paper's words: "the conclusions we can make are limited since
# even after a single round of attention the memory can become highly distributed,
# making any interpretations about information compartmentalisation potentially
# inaccurate", section 5.1. That holds for all maps of this chapter.)
#
# How much of the input a slot takes in, the slot decides: it depends on how well the
# input's key fits its query. Below, the same input is multiplied by a factor,
# $s \cdot x$ for $s$ from -4 to 4, and the share is drawn that each slot gives it.
# Where the key fits, the share grows with $s$; where it does not, it falls.

# %% alt="The share that each of four slots gives to the input against the factor that multiplies the input: one falls from nearly 1 to 0, two rise to about a half and a third, one falls slowly; at factor 0 no share is zero"
lengths = np.linspace(-4, 4, 121)
Z = ex.append_rows(
    np.broadcast_to(M, (len(lengths), N, F)), lengths[:, None] * x
)  # one example for each length
share = ex.weights_behind(ex.attention, M @ W_q, Z @ W_k)[..., -1]  # (lengths, slots)
figure, panel = plt.subplots(figsize=(6.5, 3.2))
for i in range(N):
    panel.plot(lengths, share[:, i], label=f"slot {i}")
panel.axvline(0, color="0.7", lw=1, zorder=0)
panel.set(xlabel="factor s of the input s x", ylabel="share of the input", ylim=(0, 1))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# Look at $s = 0$. An input of zeros is not ignored: its score is 0, which is as good as
# any other score, so it takes a share, and gives back zeros. "Nothing has arrived" has
# to be said otherwise, by a mask with $-\infty$ for its score, or by leaving the row
# out.
#
# ## Heads
#
# With $H$ heads there are $H$ sets of projections, and the results lie side by side.
#
# **Exercise 4.** Equation 2 with heads. Beware of `M @ W_q` where there are as many
# examples as heads.


# %%
def encode_with_heads(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q and W_k (H, F, d_k), W_v (H, F, d_v) -> (..., N, H * d_v)."""
    ...


ex.encode_with_heads.check(encode_with_heads)

# %% [markdown]
# ## The laboratory
#
# How do you test a function of which you have no second copy? By what must hold for it.
# "Shuffle the keys together with their values, and nothing may change" needs no table
# of right numbers, and it is true for all sizes.
#
# **Exercise 5** is a puzzle, and the tool for what follows. You are given a function
# `attention(Q, K, V)` that you cannot look into. It need not be that of equation 1. But
# it is linear in the values: its result is a matrix of weights times $V$, and the
# weights depend on $Q$ and $K$ alone. Find them. You may call the function, with any
# values you like.


# %%
def weights_behind(attention, Q, K):
    """A function attention(Q, K, V), Q (..., N, d_k), K (..., R, d_k) -> its weights (..., N, R)."""
    ...


ex.weights_behind.check(weights_behind)

# %% [markdown]
# An experiment below is a small function. It takes an attention function `A` and
# queries, keys and values, and returns two arrays that must be the same: what is found,
# and what is expected. It is tried on four cases, among them one where all sizes are
# equal, so that a forgotten transpose does not show in the shapes, and one with a
# single key. And it is tried on *your* functions of exercises 1, 3 and 4, right or
# wrong, once they are written. Until then the solutions stand in, and a line says so
# (run the cells from here on again when you have written one):


# %%
def yours(answer, exercise):
    """The learner's function, or the solution where it is not written yet."""
    if exercise.judge(answer).state == "not attempted":
        print(
            f"{exercise.__name__} is not written yet (see above): the experiments run on the solution"
        )
        return exercise
    print(f"{exercise.__name__}: the experiments run on yours")
    return answer


my_attention = yours(attention, ex.attention)
my_encode = yours(encode, ex.encode)
my_encode_with_heads = yours(encode_with_heads, ex.encode_with_heads)


# %%
def case(N, R, d_k, d_v, scale=1.0):
    return (
        scale * rng.normal(size=(N, d_k)),
        scale * rng.normal(size=(R, d_k)),
        scale * rng.normal(size=(R, d_v)),
    )


CASES = [
    case(3, 4, 5, 2),
    case(4, 4, 4, 4),
    case(1, 1, 1, 1),
    case(6, 2, 16, 3, scale=3.0),
]


def outcome(experiment, function):
    """What comes out of an experiment, in a few words; "holds" if it comes out as it must."""
    for Q, K, V in CASES:
        where = f"with {len(Q)} queries and {len(K)} keys of width {K.shape[1]}"
        try:
            with np.errstate(all="ignore"):
                found, expected = experiment(
                    function, Q.copy(), K.copy(), V.copy()
                )  # copies: it may spoil them
                if found.shape != expected.shape:
                    return f"FAILS, {where}: the shape is {found.shape}, not {expected.shape}"
                difference = np.max(
                    abs(found - expected) / np.maximum(1, abs(expected))
                )
        except Exception as problem:
            return f"FAILS, {where}: {type(problem).__name__}: {problem}"
        if not difference < 1e-9:  # so that NaN fails, too
            return (
                f"FAILS, {where}: off by {difference:.2g}"
                if difference < np.inf
                else f"FAILS, {where}: not all are numbers"
            )
    return "holds"


def attempt(function, **experiments):
    """Try experiments on a function and print what comes out; returns them."""
    for name, experiment in experiments.items():
        print(f"{name.replace('_', ' '):45} {outcome(experiment, function)}")
    return experiments


# %% [markdown]
# ### It is a weighted mean
#
# The weights are found by the trick of exercise 5: with the identity as values, the
# result *is* the weights.

# %%
weights_of = ex.weights_behind

mean = attempt(
    my_attention,
    no_weight_is_negative=lambda A, Q, K, V: (
        np.minimum(weights_of(A, Q, K), 0),
        np.zeros((len(Q), len(K))),
    ),
    weights_sum_to_1=lambda A, Q, K, V: (
        weights_of(A, Q, K).sum(axis=-1),
        np.ones(len(Q)),
    ),
    result_is_weights_times_values=lambda A, Q, K, V: (
        A(Q, K, V),
        weights_of(A, Q, K) @ V,
    ),
    result_stays_within_the_values=lambda A, Q, K, V: (
        A(Q, K, V),
        np.clip(A(Q, K, V), V.min(axis=0), V.max(axis=0)),
    ),
    one_key_gets_everything=lambda A, Q, K, V: (
        A(Q, K[:1], V[:1]),
        np.repeat(V[:1], len(Q), axis=0),
    ),
    queries_of_zeros_give_the_mean=lambda A, Q, K, V: (
        A(0 * Q, K, V),
        np.repeat(V.mean(axis=0, keepdims=True), len(Q), axis=0),
    ),
    moving_all_values_moves_the_result=lambda A, Q, K, V: (
        A(Q, K, V + 7),
        A(Q, K, V) + 7,
    ),
)

# %% [markdown]
# The third says that attention is *linear in the values*, which exercise 5 took on
# trust. The last says that it does not care where the values' zero is, because the
# weights sum to 1.
#
# ### Order means nothing
#
# Nothing in equations 1 and 2 knows that one slot stands above another. Shuffled
# queries shuffle the result in the same way: attention is *equivariant* under
# permutations of those who look. Shuffled keys, together with their values, change
# nothing: it is *invariant* under permutations of those looked at.


# %%
def normal(*size, seed=1):
    """Random numbers, the same whenever an experiment runs."""
    return np.random.default_rng(seed).normal(size=size)


def shuffled(rows):
    """The rows in another order, the same for as many rows."""
    return rows[np.argsort(normal(len(rows)))]


def with_an_unwanted_key(A, Q, K, V):
    Q, K = (
        np.pad(Q, [(0, 0), (0, 1)], constant_values=1),
        np.pad(K, [(0, 0), (0, 1)]),
    )  # a feature that all queries want and no key has
    unwanted = np.append(np.zeros(K.shape[1] - 1), -1e6)
    return A(Q, np.vstack([K, unwanted]), np.vstack([V, V[:1]])), A(Q, K, V)


order = attempt(
    my_attention,
    shuffled_queries_shuffle_the_result=lambda A, Q, K, V: (
        A(shuffled(Q), K, V),
        shuffled(A(Q, K, V)),
    ),
    shuffled_keys_and_values_change_nothing=lambda A, Q, K, V: (
        A(Q, shuffled(K), shuffled(V)),
        A(Q, K, V),
    ),
    every_key_twice_changes_nothing=lambda A, Q, K, V: (
        A(Q, np.tile(K, (2, 1)), np.tile(V, (2, 1))),
        A(Q, K, V),
    ),
    a_key_that_none_wants_may_go=with_an_unwanted_key,
)

# %% [markdown]
# In equation 2 the slots are on both sides: they look and are looked at. So shuffled
# slots shuffle the result, while the input's column stays where it is. Nor does the
# equation know how many slots there are. Try it on your `encode`, with the matrix of
# queries as a memory and the first key as an input, and see it in a picture.


# %%
def encoded(encode, M, x):
    """Equation 2 with random projections to keys and values of width 2."""
    return encode(M, x, *normal(3, M.shape[1], 2))


equation_2 = attempt(
    my_encode,
    shuffled_slots_shuffle_the_next_memory=lambda E, M, K, V: (
        encoded(E, shuffled(M), K[0]),
        shuffled(encoded(E, M, K[0])),
    ),
    memory_keeps_its_size=lambda E, M, K, V: (
        0 * encoded(E, M, K[0]),
        np.zeros((len(M), 2)),
    ),
    equal_slots_stay_equal=lambda E, M, K, V: (
        np.ptp(encoded(E, np.tile(M[:1], (5, 1)), K[0]), axis=0),
        np.zeros(2),
    ),  # largest - smallest
)

# %% alt="Two maps of weights of four slots over four slots and the input: when the slots are shuffled, rows and columns of the map are shuffled in the same way, and the input's column keeps its place"
figure, panels = plt.subplots(1, 2, figsize=(7, 3))
for panel, (title, slots) in zip(
    panels,
    {"as they stood": [0, 1, 2, 3], "shuffled": [2, 0, 3, 1]}.items(),
    strict=True,
):
    weights = ex.weights_behind(
        ex.attention, M[slots] @ W_q, ex.append_rows(M[slots], x) @ W_k
    )
    panel.imshow(weights, cmap="Greys", vmin=0, vmax=1)
    for i, j in np.ndindex(4, 5):
        panel.text(
            j,
            i,
            f"{weights[i, j]:.2f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if weights[i, j] > 0.5 else "black",
        )
    panel.set(title=title, xlabel="looked at", ylabel="slot that looks")
    panel.set(
        xticks=range(5), xticklabels=[*slots, "x"], yticks=range(4), yticklabels=slots
    )
plt.show()

# %% [markdown]
# (Here, too, the conclusions to be drawn "are limited", as the paper said above: the
# map is of one step.)
#
# The last experiment above the picture has a price. **Slots that are equal stay
# equal**: they ask the same, so they are told the same. A memory that begins with zeros
# in all slots has $N$ copies of one slot for ever, which is a memory with one slot. The
# paper's "suppose then that $M$ is some randomly initialised memory" avoids it. Below,
# equation 2 is applied again and again, to a new random input each time, once from a
# memory of zeros and once from a random one. Drawn is how far the slots lie apart, as a
# part of their size: the standard deviation over the slots, averaged over the units,
# divided by the root of the mean square of the whole memory.

# %% alt="How far slots lie apart, relative to their size, over eight inputs: exactly zero all the time for a memory that began with zeros; from a random memory it falls by orders of magnitude but is not zero"
steps = 8
inputs, W = rng.normal(size=(steps, F)), rng.normal(size=(3, F, F)) / math.sqrt(F)
figure, panel = plt.subplots(figsize=(6.5, 3))
for name, memory in (
    ("began with zeros", np.zeros((N, F))),
    ("began at random", rng.normal(size=(N, F))),
):
    apart = []
    for t in range(steps):
        memory = ex.encode(memory, inputs[t], *W)
        size = np.sqrt((memory**2).mean())
        apart.append(memory.std(axis=0).mean() / size)
    panel.plot(range(1, steps + 1), apart, "o-", label=name)
    print(
        f"{name}: apart by {apart[0]:.2g} of their size after step 1, by {apart[-1]:.2g} after step {steps}; the size is {size:.2g}"
    )
panel.set_yscale("symlog", linthresh=1e-8)
panel.set(
    xlabel="inputs so far",
    ylabel="how far slots lie apart,\nas a part of their size",
    ylim=(-2e-9, 10),
)
panel.legend()
plt.show()

# %% [markdown]
# The random memory's slots come closer to each other, too: a mean of means forgets who
# was who. Equation 2 alone is no memory yet. Chapters 6 and 7 bring what keeps the
# slots themselves: a residual, a norm, and gates.
#
# ### Moving and turning
#
# A softmax of scores does not change when all scores of a row change by the same
# number. Adding one vector to *all keys* does exactly that. And scores are dot
# products: turning all queries and keys by the same rotation leaves them as they are.


# %%
def turned(rows):
    rotation, _ = np.linalg.qr(normal(rows.shape[1], rows.shape[1]))
    return rows @ rotation


differences = attempt(
    my_attention,
    moving_all_keys_changes_nothing=lambda A, Q, K, V: (
        A(Q, K + normal(K.shape[1]), V),
        A(Q, K, V),
    ),
    turning_queries_and_keys_changes_nothing=lambda A, Q, K, V: (
        A(turned(Q), turned(K), V),
        A(Q, K, V),
    ),
)

# %% [markdown]
# ### The right numbers, for once
#
# All of this is true of *many* functions. Two experiments pin down the size of the
# scores: the root of $d_k$, and weights known by hand. With every entry of queries and
# keys written down four times, a dot product is four times as large and the root twice
# as large, so the scores double: the same as with queries twice as long. And if the
# scaled scores are $\log c_j$ for whole numbers $c_j$, the weights are
# $c_j / \sum_k c_k$. A third has scores whose exponential no computer can hold.


# %%
def known_by_hand(A, Q, K, V):
    counts, ones = 2 + np.argsort(normal(len(K))), np.ones((1, K.shape[1]))
    keys = np.log(counts)[:, None] * ones / math.sqrt(K.shape[1])
    return weights_of(A, ones, keys), counts[None] / counts.sum()


def of_ten_thousands(A, Q, K, V):
    scores = 1e4 * np.array([[1.0, 0.0, -1.0], [-1.0, -3.0, -2.0], [3.0, 2.0, 1.0]])
    return weights_of(A, scores, math.sqrt(3) * np.eye(3)), np.eye(3)[[0, 0, 0]]


numbers = attempt(
    my_attention,
    four_times_as_wide_is_twice_as_long=lambda A, Q, K, V: (
        A(np.tile(Q, 4), np.tile(K, 4), V),
        A(2 * Q, K, V),
    ),
    weights_known_by_hand=known_by_hand,
    large_scores_do_not_overflow=of_ten_thousands,
)

# %% [markdown]
# ### What lies side by side does not mix
#
# A batch is its examples one by one, heads are theirs, and whoever calls a function
# gets back the arguments as they were.


# %%
def one_by_one(A, Q, K, V):
    Q, K, V = (normal(2, 3, *array.shape, seed=k) for k, array in enumerate((Q, K, V)))
    return A(Q, K, V), np.array(
        [[A(Q[b, h], K[b, h], V[b, h]) for h in range(3)] for b in range(2)]
    )


def after_the_call(A, *arguments):
    given = [array.copy() for array in arguments]
    A(*given)
    return np.concatenate([array.ravel() for array in given]), np.concatenate(
        [array.ravel() for array in arguments]
    )


side_by_side = attempt(
    my_attention,
    examples_of_a_batch_do_not_mix=one_by_one,
    arguments_stay_as_they_were=after_the_call,
)


# %%
def projections(F, seed=1):
    """For three heads, keys of width 5, values of width 2."""
    return [
        normal(3, F, 5, seed=seed),
        normal(3, F, 5, seed=seed + 1),
        normal(3, F, 2, seed=seed + 2),
    ]


def head_by_head(E, M, K, V):
    W = projections(M.shape[1])
    return E(M, K[0], *W), np.concatenate(
        [E(M, K[0], *(each[h : h + 1] for each in W)) for h in range(3)], axis=-1
    )


def with_another_head_1(E, M, K, V):
    W, others = projections(M.shape[1]), projections(M.shape[1], seed=4)
    changed = [
        np.concatenate([each[:1], other[1:2], each[2:]])
        for each, other in zip(W, others, strict=True)
    ]
    return E(M, K[0], *changed)[:, [0, 1, 4, 5]], E(M, K[0], *W)[
        :, [0, 1, 4, 5]
    ]  # the columns of heads 0 and 2


heads = attempt(
    my_encode_with_heads,
    heads_lie_side_by_side=head_by_head,
    another_head_changes_its_own_columns_alone=with_another_head_1,
)

# %% [markdown]
# ### And what does not hold
#
# It is as good to know what one may *not* count on. Three statements that look like
# those above. Say of each what you expect, before you run the cell:

# %%
untrue = attempt(
    ex.attention,
    moving_all_queries_changes_nothing=lambda A, Q, K, V: (A(Q + 1, K, V), A(Q, K, V)),
    one_key_twice_changes_nothing=lambda A, Q, K, V: (
        A(Q, np.vstack([K, K[:1]]), np.vstack([V, V[:1]])),
        A(Q, K, V),
    ),
    doubling_queries_and_keys_changes_nothing=lambda A, Q, K, V: (
        A(2 * Q, 2 * K, V),
        A(Q, K, V),
    ),
)

# %% [markdown]
# A vector $v$ added to all queries adds $v \cdot k_j$ to the scores of key $j$: a
# different number for every key, and that is what a softmax sees. A key that stands
# there twice gets two shares. And with queries and keys twice as long the scores lie
# four times as far apart, which makes the shares sharper.
#
# ## Which experiment catches what
#
# Here are fourteen attention functions with one fault each, all of which somebody may
# write, and every experiment on each of them. A filled square is an experiment that
# fails, and the number behind a name is how many do. The first column is yours.


# %%
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def dot_products(Q, K):
    return Q @ np.swapaxes(K, -1, -2)


def scores(Q, K):
    return dot_products(Q, K) / math.sqrt(Q.shape[-1])


def in_place(Q, K, V):
    Q /= math.sqrt(Q.shape[-1])
    return softmax(dot_products(Q, K)) @ V


FAULTY = {
    "no root": lambda Q, K, V: softmax(dot_products(Q, K)) @ V,
    "divided by d_k": lambda Q, K, V: softmax(dot_products(Q, K) / Q.shape[-1]) @ V,
    "scores doubled": lambda Q, K, V: softmax(2 * scores(Q, K)) @ V,
    "root of the number of keys": lambda Q, K, V: (
        softmax(dot_products(Q, K) / math.sqrt(K.shape[-2])) @ V
    ),
    "wrong sign": lambda Q, K, V: softmax(-scores(Q, K)) @ V,
    "softmax over the queries": lambda Q, K, V: softmax(scores(Q, K), axis=-2) @ V,
    "no softmax": lambda Q, K, V: scores(Q, K) @ V,
    "exponentials not divided": lambda Q, K, V: np.exp(scores(Q, K)) @ V,
    "the maximum is not taken off": lambda Q, K, V: (
        (e := np.exp(scores(Q, K))) / e.sum(axis=-1, keepdims=True) @ V
    ),
    "K not transposed": lambda Q, K, V: softmax(Q @ K / math.sqrt(Q.shape[-1])) @ V,
    "K.T in a batch": lambda Q, K, V: softmax(Q @ K.T / math.sqrt(Q.shape[-1])) @ V,
    "looks only back": lambda Q, K, V: (
        softmax(np.where(np.tri(Q.shape[-2], K.shape[-2]) > 0, scores(Q, K), -np.inf))
        @ V
    ),
    "a ReLU on the values": lambda Q, K, V: softmax(scores(Q, K)) @ np.maximum(V, 0),
    "works in place": in_place,
}
experiments = mean | order | differences | numbers | side_by_side
functions = {"yours": my_attention} | FAULTY
fails = np.array(
    [
        [outcome(experiment, function) != "holds" for function in functions.values()]
        for experiment in experiments.values()
    ]
)

# %% alt="A table of experiments against faulty functions: each fault is caught by at least one experiment, most by several; the missing root by two experiments about the right numbers, doubled scores only by the weights known by hand"
figure, panel = plt.subplots(figsize=(9.5, 6.5))
panel.pcolormesh(
    fails[::-1], cmap="Oranges", vmin=-0.05, vmax=1.4, edgecolors="white", linewidth=2
)
names = [
    f"{name} ({caught})"
    for name, caught in zip(functions, fails.sum(axis=0), strict=True)
]
panel.set_xticks(
    np.arange(len(names)) + 0.5, names, rotation=40, ha="left", rotation_mode="anchor"
)
panel.set_yticks(
    np.arange(len(experiments)) + 0.5,
    [name.replace("_", " ") for name in [*experiments][::-1]],
)
panel.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
panel.spines[:].set_visible(False)
plt.show()

# %% [markdown]
# Look at the columns *no root* and *divided by d_k*: two experiments catch them, and
# they pass all others. *Scores doubled* is caught by the weights known by hand alone.
# Symmetries say nothing about size: a list of invariants is not complete without a
# number that somebody has worked out.
#
# ## In the package
#
# Equation 2 as the paper has it. It takes several rows of input as well, $x$ of shape
# $(B, n, F)$ for $B$ examples. In its shapes, `K` and `V` are the widths that this
# chapter calls `d_k` and `d_v`:

# %%
course.show(equations.append_rows, equations.multi_head_attention)

# %%
M, x = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 6))
W_q, W_k, W_v = (rng.normal(size=(2, 6, 3)) for _ in range(3))
np.allclose(
    equations.multi_head_attention(np, M, x, W_q, W_k, W_v),
    ex.encode_with_heads(M, x, W_q, W_k, W_v),
    rtol=1e-12,
)

# %% [markdown]
# The experiments of this chapter stand, a little stricter, in
# `tests/test_attention_invariants.py`. There the cases are drawn by a program that
# looks for the smallest one that fails, and more than twenty faulty functions make sure
# that every check can fail.
#
# ## To take along
#
# - The input is one more row to look at. It does not look itself, so the memory keeps
#   its size.
# - Equation 2 knows neither the order nor the number of the slots: shuffled slots give
#   a shuffled result.
# - So slots that start equal stay equal, and the first memory must tell them apart.
# - An input of zeros takes its share like any other.
# - Invariants test a function without a second copy of it; but only a number known by
#   hand says that its scale is right.
#
# **Further.** The released code lets the input ask as well and then drops its row: does
# that change the result of one step? Of two attention steps in a row? Which experiment
# would catch a function that adds a small number to the diagonal of the scores? Write a
# faulty attention function that passes all of them.
