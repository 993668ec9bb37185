# %% [markdown]
# # 5. Encoding: a new input joins the memory
#
# **Equation 2, section 3.2.** Thirty-five minutes. You need chapter 4: queries, keys, values, softmax, heads.
#
# In chapter 4 the slots of a memory $M$ ($N$ rows of width $F$) looked at each other. But how does anything get into the memory? The paper:
#
# > We assumed that we already had a matrix of memories $M$. Of course, memories instead need to be encoded as new inputs are received.
# > Suppose then that $M$ is some randomly initialised memory. We can efficiently incorporate new information $x$ into $M$ with a simple
# > modification to equation 1
#
# and the modification is one more row to look at:
#
# $$\widetilde{M} = \mathrm{softmax}\left(\frac{M W^q \, ([M; x] W^k)^\top}{\sqrt{d_k}}\right) [M; x] W^v \tag{2}$$
#
# The first half of this chapter builds it. The second half is a laboratory: some twenty things that must hold for any attention function,
# whoever wrote it, tried on *yours*.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course, equations
from tinyrmc.exercises import encoding as ex

course.setup()
rng = np.random.default_rng(1806)

# %% [markdown]
# **Exercise 1.** Bring your attention along: equation 1 for given queries, keys and values. Copy it from chapter 4 or, better, write it
# again. The experiments below will run on it.


# %%
def attention(Q, K, V):
    """Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v) -> (..., N, d_v)."""
    ...


ex.attention.check(attention)

# %% [markdown]
# ## One more row
#
# The paper writes "$[M; x]$ to denote the row-wise concatenation of $M$ and $x$": the input becomes a row below the $N$ slots. For that it
# must be as wide as a slot. Inputs seldom are, so a matrix brings them to the width $F$ first; here we take $x$ as it comes out of that.
#
# **Exercise 2.** Leading axes are examples, as ever: each example has a memory and an input of its own.


# %%
def append_rows(M, x):
    """M (..., N, F), x (..., F) -> (..., N + 1, F)."""
    ...


ex.append_rows.check(append_rows)

# %% [markdown]
# ## Who looks, and at what
#
# > Since we use $[M; x]$ when computing the keys and values, and only $M$ when computing the queries, $\widetilde{M}$ is a matrix with same
# > dimensionality as $M$. Thus, equation 2 is a memory-size preserving attention operation that includes attention over the memories and
# > the new observations.
#
# The slots ask, the slots and the input answer. The input itself asks nothing: it has no row in the result, so the memory stays as large as
# it was, whatever arrives and however often.
#
# **Exercise 3.** Equation 2 for one head.


# %%
def encode(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q and W_k (F, K), W_v (F, V) -> (..., N, V)."""
    ...


ex.encode.check(encode)

# %% [markdown]
# Here are all matrices of equation 2 for four slots of width six, keys of width three, and numbers drawn at random. Whatever comes from the
# input has an orange frame: a column of the keys (they are drawn transposed, as the product wants them), a column of the weights, a row of
# the values, and nothing of the result.

# %% alt="Five matrices in a row: queries of four slots, keys of four slots and the input, weights with a fifth column for the input, values with a fifth row for it, and the result with four rows again"
N, F, K, V = 4, 6, 3, 6
M, x = rng.normal(size=(N, F)), rng.normal(size=F)
W_q, W_k, W_v = (rng.normal(size=(F, width)) / math.sqrt(F) for width in (K, K, V))
W_q = 2 * W_q  # so that the shares differ visibly
Z = ex.append_rows(M, x)
weights = ex.weights_behind(ex.attention, M @ W_q, Z @ W_k)  # what this function does, exercise 5 will tell
matrices = {
    "queries\n$M W^q$": M @ W_q,
    "keys\n$([M; x]\\, W^k)^\\top$": (Z @ W_k).T,
    "weights\nsoftmax(... / $\\sqrt{d_k}$)": weights,
    "values\n$[M; x]\\, W^v$": Z @ W_v,
    "result\n$\\widetilde{M}$": ex.encode(M, x, W_q, W_k, W_v),
}
figure, panels = plt.subplots(1, 5, figsize=(10, 2.6), width_ratios=[matrix.shape[1] for matrix in matrices.values()])
for panel, (title, matrix) in zip(panels, matrices.items(), strict=True):
    style = {"cmap": "Greys", "vmin": 0, "vmax": 1} if matrix is weights else {"cmap": "RdBu", "vmin": -2.5, "vmax": 2.5}
    panel.imshow(matrix, **style)
    panel.set_title(f"{title}", fontsize=10)
    panel.set_xlabel(f"{matrix.shape[0]} x {matrix.shape[1]}")
    panel.set(xticks=[], yticks=[])
for panel, corner, width, height in ((panels[1], (3.5, -0.5), 1, 3), (panels[2], (3.5, -0.5), 1, 4), (panels[3], (-0.5, 3.5), 6, 1)):
    panel.add_patch(plt.Rectangle(corner, width, height, fill=False, edgecolor="C1", lw=3, clip_on=False))
plt.show()

# %% [markdown]
# (A map of weights shows who looked at whom, once. What it says about where information *is* is little, in the paper's words: "the
# conclusions we can make are limited since even after a single round of attention the memory can become highly distributed, making any
# interpretations about information compartmentalisation potentially inaccurate", section 5.1. That holds for all maps of this chapter.)
#
# How much of the input a slot takes in, the slot decides: it depends on how well the input's key fits its query. Below, the same input is
# multiplied by a factor, $s \cdot x$ for $s$ from -4 to 4, and the share is drawn that each slot gives it. Where the key fits, the share
# grows with $s$; where it does not, it falls.

# %% alt="The share that each of four slots gives to the input against the factor that multiplies the input: one falls from nearly 1 to 0, two rise to about a half and a third, one falls slowly; at factor 0 no share is zero"
lengths = np.linspace(-4, 4, 121)
Z = ex.append_rows(np.broadcast_to(M, (len(lengths), N, F)), lengths[:, None] * x)  # one example for each length
share = ex.weights_behind(ex.attention, M @ W_q, Z @ W_k)[..., -1]  # (lengths, slots)
figure, panel = plt.subplots(figsize=(6.5, 3.2))
for i in range(N):
    panel.plot(lengths, share[:, i], label=f"slot {i}")
panel.axvline(0, color="0.7", lw=1, zorder=0)
panel.set(xlabel="factor s of the input s x", ylabel="share of the input", ylim=(0, 1))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# Look at $s = 0$. An input of zeros is not ignored: its score is 0, which is as good as any other score, so it takes a share, and gives
# back zeros. "Nothing has arrived" has to be said otherwise, by a mask with $-\infty$ for its score, or by leaving the row out.
#
# ## Heads
#
# With $H$ heads there are $H$ sets of projections, and the results lie side by side.
#
# **Exercise 4.** Equation 2 with heads. Beware of `M @ W_q` where there are as many examples as heads.


# %%
def encode_with_heads(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q and W_k (H, F, K), W_v (H, F, V) -> (..., N, H * V)."""
    ...


ex.encode_with_heads.check(encode_with_heads)

# %% [markdown]
# ## The laboratory
#
# How do you test a function of which you have no second copy? By what must hold for it. "Shuffle the keys together with their values, and
# nothing may change" needs no table of right numbers, and it is true for all sizes.
#
# **Exercise 5** is a puzzle, and the tool for what follows. You are given a function `attention(Q, K, V)` that you cannot look into; it need not be
# that of equation 1. Find out which weights it gives to the keys. You may call it, with any values you like.


# %%
def weights_behind(attention, Q, K):
    """A function attention(Q, K, V), Q (..., N, d_k), K (..., R, d_k) -> its weights (..., N, R)."""
    ...


ex.weights_behind.check(weights_behind)

# %% [markdown]
# Each experiment below is a small function that takes an attention function and queries, keys, values, and returns two arrays that must be
# the same. It is tried on four cases, among them one where all sizes are equal, so that a forgotten transpose does not show in the shapes,
# and one with a single key. And it is tried on *your* functions of exercises 1, 3 and 4, right or wrong, once they are written. Until then
# the solutions stand in, and a line says so:


# %%
def yours(answer, exercise):
    """The learner's function, or the solution where it is not written yet."""
    if exercise.judge(answer).state == "not attempted":
        print(f"{exercise.__name__} is not written yet (see above): the experiments run on the solution")
        return exercise
    print(f"{exercise.__name__}: the experiments run on yours")
    return answer


my_attention = yours(attention, ex.attention)
my_encode = yours(encode, ex.encode)
my_encode_with_heads = yours(encode_with_heads, ex.encode_with_heads)


# %%
def case(N, R, d_k, d_v, scale=1.0):
    return scale * rng.normal(size=(N, d_k)), scale * rng.normal(size=(R, d_k)), scale * rng.normal(size=(R, d_v))


CASES = [case(3, 4, 5, 2), case(4, 4, 4, 4), case(1, 1, 1, 1), case(6, 2, 16, 3, scale=3.0)]


def normal(*size, seed=1):
    """Random numbers, the same whenever an experiment runs."""
    return np.random.default_rng(seed).normal(size=size)


def any_order(n):
    return np.argsort(normal(n))


def outcome(experiment, function):
    """What comes out of an experiment, in a few words; "holds" if it comes out as it must."""
    for Q, K, V in CASES:
        where = f"with {len(Q)} queries and {len(K)} keys of width {K.shape[1]}"
        try:
            with np.errstate(all="ignore"):
                found, expected = experiment(function, Q.copy(), K.copy(), V.copy())  # copies: it may spoil them
                if found.shape != expected.shape:
                    return f"FAILS, {where}: the shape is {found.shape}, not {expected.shape}"
                difference = np.max(abs(found - expected) / np.maximum(1, abs(expected)))
        except Exception as problem:
            return f"FAILS, {where}: {type(problem).__name__}: {problem}"
        if not difference < 1e-9:  # so that NaN fails, too
            return f"FAILS, {where}: off by {difference:.2g}" if difference < np.inf else f"FAILS, {where}: not all are numbers"
    return "holds"


EXPERIMENTS = []


def attempt(experiment, function):
    """Run an experiment, keep it for later, and say what came out."""
    EXPERIMENTS.append(experiment)
    print(f"{experiment.__name__.replace('_', ' '):50} {outcome(experiment, function)}")


# %% [markdown]
# ### It is a weighted mean
#
# The weights are found by the trick of exercise 5: with the identity as values, the result *is* the weights.


# %%
def no_weight_is_negative(attention, Q, K, V):
    weights = ex.weights_behind(attention, Q, K)
    return np.minimum(weights, 0), np.zeros((len(Q), len(K)))


def weights_sum_to_1(attention, Q, K, V):
    return ex.weights_behind(attention, Q, K).sum(axis=-1), np.ones(len(Q))


def result_is_weights_times_values(attention, Q, K, V):
    return attention(Q, K, V), ex.weights_behind(attention, Q, K) @ V


def result_stays_within_the_values(attention, Q, K, V):
    result = attention(Q, K, V)
    return result, np.clip(result, V.min(axis=0), V.max(axis=0))


def one_key_gets_everything(attention, Q, K, V):
    return attention(Q, K[:1], V[:1]), np.repeat(V[:1], len(Q), axis=0)


def queries_of_zeros_give_the_mean(attention, Q, K, V):
    return attention(0 * Q, K, V), np.repeat(V.mean(axis=0, keepdims=True), len(Q), axis=0)


def moving_all_values_moves_the_result(attention, Q, K, V):
    return attention(Q, K, V + 7), attention(Q, K, V) + 7


for experiment in (
    no_weight_is_negative,
    weights_sum_to_1,
    result_is_weights_times_values,
    result_stays_within_the_values,
    one_key_gets_everything,
    queries_of_zeros_give_the_mean,
    moving_all_values_moves_the_result,
):
    attempt(experiment, my_attention)

# %% [markdown]
# Because the weights depend on queries and keys alone, the third says that attention is *linear in the values*; because they sum to 1, the
# last says that it does not care where the values' zero is.
#
# ### Order means nothing
#
# Nothing in equations 1 and 2 knows that one slot stands above another. Shuffled queries shuffle the result in the same way: attention is
# *equivariant* under permutations of those who look. Shuffled keys, together with their values, change nothing: it is *invariant* under
# permutations of those looked at.


# %%
def shuffled_queries_shuffle_the_result(attention, Q, K, V):
    order = any_order(len(Q))
    return attention(Q[order], K, V), attention(Q, K, V)[order]


def shuffled_keys_and_values_change_nothing(attention, Q, K, V):
    order = any_order(len(K))
    return attention(Q, K[order], V[order]), attention(Q, K, V)


def every_key_twice_changes_nothing(attention, Q, K, V):
    return attention(Q, np.tile(K, (2, 1)), np.tile(V, (2, 1))), attention(Q, K, V)


def a_key_that_none_wants_may_go(attention, Q, K, V):
    Q, K = np.pad(Q, [(0, 0), (0, 1)], constant_values=1), np.pad(K, [(0, 0), (0, 1)])  # a feature that all queries want and no key has
    unwanted = np.append(np.zeros(K.shape[1] - 1), -1e6)
    return attention(Q, np.vstack([K, unwanted]), np.vstack([V, V[:1]])), attention(Q, K, V)


for experiment in (
    shuffled_queries_shuffle_the_result,
    shuffled_keys_and_values_change_nothing,
    every_key_twice_changes_nothing,
    a_key_that_none_wants_may_go,
):
    attempt(experiment, my_attention)

# %% [markdown]
# In equation 2 the slots are on both sides: they look and are looked at. So shuffled slots shuffle the result, while the input's column
# stays where it is. That is why the number of slots is free: the equation does not know how many there are. Try it on your `encode`, with
# the matrix of queries as a memory, and see it in a picture.


# %%
def shuffled_slots_shuffle_the_next_memory(encode, Q, K, V):
    M, x, order = Q, K[0], any_order(len(Q))
    W = normal(3, M.shape[1], 2)
    return encode(M[order], x, *W), encode(M, x, *W)[order]


def memory_keeps_its_size(encode, Q, K, V):
    result = encode(Q, K[0], *normal(3, Q.shape[1], 2))
    return 0 * result, np.zeros((len(Q), 2))


def equal_slots_stay_equal(encode, Q, K, V):
    M, W = np.repeat(Q[:1], 5, axis=0), normal(3, Q.shape[1], 2)
    result = encode(M, K[0], *W)
    return result, np.repeat(result[:1], 5, axis=0)


EQUATION_2 = (shuffled_slots_shuffle_the_next_memory, memory_keeps_its_size, equal_slots_stay_equal)
for experiment in EQUATION_2:
    attempt(experiment, my_encode)

# %% alt="Two maps of weights of four slots over four slots and the input: when the slots are shuffled, rows and columns of the map are shuffled in the same way, and the input's column keeps its place"
order = np.array([2, 0, 3, 1])
figure, panels = plt.subplots(1, 2, figsize=(7, 3))
for panel, (title, slots) in zip(panels, {"as they stood": np.arange(4), "shuffled": order}.items(), strict=True):
    rows = ex.append_rows(M[slots], x)
    weights = ex.weights_behind(ex.attention, M[slots] @ W_q, rows @ W_k)
    panel.imshow(weights, cmap="Greys", vmin=0, vmax=1)
    for i, j in np.ndindex(4, 5):
        panel.text(j, i, f"{weights[i, j]:.2f}", ha="center", va="center", fontsize=8, color="white" if weights[i, j] > 0.6 else "black")
    panel.set(title=title, xticks=range(5), yticks=range(4), xlabel="looked at", ylabel="slot that looks")
    panel.set_xticklabels([*map(str, slots), "x"])
    panel.set_yticklabels([*map(str, slots)])
plt.show()

# %% [markdown]
# The last experiment has a price. **Slots that are equal stay equal**: they ask the same, so they are told the same. A memory that begins
# with zeros in all slots has $N$ copies of one slot for ever, which is a memory with one slot. The paper's "suppose then that $M$ is some
# randomly initialised memory" avoids it. Below, equation 2 is applied again and again, to a new random input each time, once from a memory of zeros and once
# from a random one. Drawn is how far the slots lie apart:

# %% alt="How far slots lie apart over eight inputs: exactly zero all the time for a memory that began with zeros; from a random memory it falls by orders of magnitude but is not zero"
steps = 8
inputs, W = rng.normal(size=(steps, F)), rng.normal(size=(3, F, F)) / math.sqrt(F)
figure, panel = plt.subplots(figsize=(6.5, 3))
for name, memory in (("began with zeros", np.zeros((N, F))), ("began at random", rng.normal(size=(N, F)))):
    apart = []
    for t in range(steps):
        memory = ex.encode(memory, inputs[t], *W)
        apart.append(memory.std(axis=0).mean())
    panel.plot(range(1, steps + 1), apart, "o-", label=name)
    print(f"{name}: standard deviation over the slots after step 1: {apart[0]:.3g}, after step {steps}: {apart[-1]:.3g}")
panel.set_yscale("symlog", linthresh=1e-8)
panel.set(xlabel="inputs so far", ylabel="standard deviation\nover the slots", ylim=(-2e-9, 10))
panel.legend()
plt.show()

# %% [markdown]
# The random memory's slots come closer to each other, too: a mean of means forgets who was who. Equation 2 alone is no memory yet. Chapters
# 6 and 7 bring what keeps the slots themselves: a residual, a norm, and gates.
#
# ### Only differences and angles count
#
# A softmax of scores does not change when all scores of a row change by the same number. Adding one vector to *all keys* does just that.
# And scores are dot products: turning all queries and keys by the same rotation leaves them as they are.


# %%
def moving_all_keys_changes_nothing(attention, Q, K, V):
    return attention(Q, K + normal(K.shape[1]), V), attention(Q, K, V)


def turning_queries_and_keys_changes_nothing(attention, Q, K, V):
    rotation, _ = np.linalg.qr(normal(Q.shape[1], Q.shape[1]))
    return attention(Q @ rotation, K @ rotation, V), attention(Q, K, V)


for experiment in (moving_all_keys_changes_nothing, turning_queries_and_keys_changes_nothing):
    attempt(experiment, my_attention)

# %% [markdown]
# ### The right numbers, for once
#
# All of this is true of *many* functions. Two experiments pin down the size of the scores: the root of $d_k$, and weights known by hand.
# With every feature written down four times, a dot product is four times as large and the root twice as large, so the scores double: the
# same as with queries twice as long. And if the scaled scores are $\log c_j$ for whole numbers $c_j$, the weights are $c_j / \sum_k c_k$.


# %%
def four_times_as_wide_is_twice_as_long(attention, Q, K, V):
    return attention(np.tile(Q, 4), np.tile(K, 4), V), attention(2 * Q, K, V)


def weights_known_by_hand(attention, Q, K, V):
    counts, ones = 2 + any_order(len(K)), np.ones((1, K.shape[1]))
    keys = np.log(counts)[:, None] * ones / math.sqrt(K.shape[1])
    return ex.weights_behind(attention, ones, keys), counts[None] / counts.sum()


def large_scores_do_not_overflow(attention, Q, K, V):
    scores = 1e4 * np.array([[1.0, 0.0, -1.0], [-1.0, -3.0, -2.0], [3.0, 2.0, 1.0]])
    return ex.weights_behind(attention, scores, math.sqrt(3) * np.eye(3)), np.eye(3)[[0, 0, 0]]


for experiment in (four_times_as_wide_is_twice_as_long, weights_known_by_hand, large_scores_do_not_overflow):
    attempt(experiment, my_attention)

# %% [markdown]
# ### What lies side by side does not mix
#
# A batch is its examples one by one, heads are theirs, and whoever calls a function gets back the arguments as they were.


# %%
def examples_of_a_batch_do_not_mix(attention, Q, K, V):
    Q, K, V = (normal(2, 3, *array.shape, seed=k) for k, array in enumerate((Q, K, V)))
    alone = [[attention(Q[b, h], K[b, h], V[b, h]) for h in range(3)] for b in range(2)]
    return attention(Q, K, V), np.array(alone)


def arguments_stay_as_they_were(attention, Q, K, V):
    given = [array.copy() for array in (Q, K, V)]
    attention(*given)
    return np.concatenate([array.ravel() for array in given]), np.concatenate([array.ravel() for array in (Q, K, V)])


for experiment in (examples_of_a_batch_do_not_mix, arguments_stay_as_they_were):
    attempt(experiment, my_attention)


# %%
def projections(F, seed=1):
    """For three heads, keys of width 5, values of width 2."""
    return [normal(3, F, 5, seed=seed), normal(3, F, 5, seed=seed + 1), normal(3, F, 2, seed=seed + 2)]


def heads_lie_side_by_side(encode_with_heads, Q, K, V):
    weights = projections(Q.shape[1])
    alone = [encode_with_heads(Q, K[0], *(W[h : h + 1] for W in weights)) for h in range(3)]
    return encode_with_heads(Q, K[0], *weights), np.concatenate(alone, axis=-1)


def another_head_changes_its_own_columns_alone(encode_with_heads, Q, K, V):
    weights, others = projections(Q.shape[1]), projections(Q.shape[1], seed=4)
    changed = [np.concatenate([W[:1], other[1:2], W[2:]]) for W, other in zip(weights, others, strict=True)]  # head 1 of 0, 1, 2
    before, after = encode_with_heads(Q, K[0], *weights), encode_with_heads(Q, K[0], *changed)
    return after[:, [0, 1, 4, 5]], before[:, [0, 1, 4, 5]]


HEADS = (heads_lie_side_by_side, another_head_changes_its_own_columns_alone)
for experiment in HEADS:
    attempt(experiment, my_encode_with_heads)

# %% [markdown]
# ### And what does not hold
#
# It is as good to know what one may *not* count on. Three statements that look like those above. Say of each what you expect, before you
# run the cell:
#
# - adding one vector to all *queries* changes nothing;
# - writing *one* key and its value down twice changes nothing;
# - multiplying queries and keys by 2 changes nothing, because a softmax looks at differences only.


# %%
def moving_all_queries(attention, Q, K, V):
    return attention(Q + 1, K, V), attention(Q, K, V)


def one_key_twice(attention, Q, K, V):
    return attention(Q, np.vstack([K, K[:1]]), np.vstack([V, V[:1]])), attention(Q, K, V)


def twice_as_long(attention, Q, K, V):
    return attention(2 * Q, 2 * K, V), attention(Q, K, V)


for experiment in (moving_all_queries, one_key_twice, twice_as_long):
    print(f"{experiment.__name__.replace('_', ' '):20} {outcome(experiment, ex.attention)}")

# %% [markdown]
# A vector $v$ added to all queries adds $v \cdot k_j$ to the scores of key $j$: a different number for every key, and that is what a softmax
# sees. A key that stands there twice gets two shares. And scores four times as far apart make the shares sharper.
#
# ## Which experiment catches what
#
# Here are thirteen attention functions with one fault each, all of which somebody may write, and every experiment on each of them. A filled
# square is an experiment that fails. The first column is yours.


# %%
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def scores(Q, K):
    return Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1])


def no_maximum_taken(Q, K, V):
    e = np.exp(scores(Q, K))
    return e / e.sum(axis=-1, keepdims=True) @ V


def looks_only_back(Q, K, V):
    return softmax(np.where(np.tri(Q.shape[-2], K.shape[-2]) > 0, scores(Q, K), -np.inf)) @ V


def in_place(Q, K, V):
    Q /= math.sqrt(Q.shape[-1])
    return softmax(Q @ np.swapaxes(K, -1, -2)) @ V


FAULTY = {
    "no root": lambda Q, K, V: softmax(Q @ np.swapaxes(K, -1, -2)) @ V,
    "divided by d_k": lambda Q, K, V: softmax(Q @ np.swapaxes(K, -1, -2) / Q.shape[-1]) @ V,
    "root of the number of keys": lambda Q, K, V: softmax(Q @ np.swapaxes(K, -1, -2) / math.sqrt(K.shape[-2])) @ V,
    "wrong sign": lambda Q, K, V: softmax(-scores(Q, K)) @ V,
    "softmax over the queries": lambda Q, K, V: softmax(scores(Q, K), axis=-2) @ V,
    "no softmax": lambda Q, K, V: scores(Q, K) @ V,
    "exponentials not divided": lambda Q, K, V: np.exp(scores(Q, K)) @ V,
    "the maximum is not taken off": no_maximum_taken,
    "K not transposed": lambda Q, K, V: softmax(Q @ K / math.sqrt(Q.shape[-1])) @ V,
    "K.T in a batch": lambda Q, K, V: softmax(Q @ K.T / math.sqrt(Q.shape[-1])) @ V,
    "looks only back": looks_only_back,
    "a ReLU on the values": lambda Q, K, V: softmax(scores(Q, K)) @ np.maximum(V, 0),
    "works in place": in_place,
}
general = [experiment for experiment in EXPERIMENTS if experiment not in (*EQUATION_2, *HEADS)]
fails = np.array([[outcome(e, f) != "holds" for f in (my_attention, *FAULTY.values())] for e in general])

# %% alt="A table of experiments against faulty functions: each fault is caught by at least one experiment, most by several; the missing root only by the two experiments about the right numbers"
figure, panel = plt.subplots(figsize=(9.5, 6.5))
panel.imshow(np.where(fails, 1.0, 0.05), cmap="Oranges", vmin=0, vmax=1.4, aspect="auto")
panel.set_xticks(range(1 + len(FAULTY)), ["yours", *FAULTY], rotation=40, ha="left", rotation_mode="anchor")
panel.set_yticks(range(len(general)), [experiment.__name__.replace("_", " ") for experiment in general])
panel.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
panel.set_xticks(np.arange(0.5, len(FAULTY)), minor=True)
panel.set_yticks(np.arange(0.5, len(general) - 1), minor=True)
panel.grid(which="minor", color="white", lw=2)
panel.tick_params(which="minor", length=0)
panel.spines[:].set_visible(False)
plt.show()

# %%
for name, column in zip(FAULTY, fails.T[1:], strict=True):
    print(f"{name:30} caught by {column.sum():2} of {len(general)}")

# %% [markdown]
# Look at the columns *no root* and *divided by d_k*: two experiments catch them, and they pass all others. Symmetries say nothing about size.
# A list of invariants is not complete without a number that somebody has worked out by hand.
#
# ## In the package
#
# Equation 2 as the paper has it. It takes several rows of input as well, $x$ of shape $(B, n, F)$:

# %%
course.show(equations.append_rows, equations.multi_head_attention)

# %%
M, x = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 6))
W_q, W_k, W_v = (rng.normal(size=(2, 6, 3)) for _ in range(3))
np.allclose(equations.multi_head_attention(np, M, x, W_q, W_k, W_v), ex.encode_with_heads(M, x, W_q, W_k, W_v), rtol=1e-12)

# %% [markdown]
# The experiments of this chapter stand, a little stricter, in `tests/test_attention_invariants.py`. There the cases are drawn by a program
# that looks for the smallest one that fails, and twenty faulty functions make sure that every check can fail.
#
# ## To take along
#
# - The input is one more row to look at. It does not look itself, so the memory keeps its size.
# - Equation 2 knows neither the order nor the number of the slots: shuffled slots give a shuffled result.
# - So slots that start equal stay equal, and the first memory must tell them apart.
# - An input of zeros takes its share like any other.
# - Invariants test a function without a second copy of it; but only a number known by hand says that its scale is right.
#
# **Further.** The released code lets the input ask as well and then drops its row: does that change the result of one step? Of two
# attention steps in a row? Which experiment would catch a function that adds a small number to the diagonal of the scores? Write a faulty
# attention function that passes all of them.
