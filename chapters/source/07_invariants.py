# %% [markdown]
# # 7. Encoding: a new input joins the memory
#
# **Equation 2, section 3.2.** About 135 minutes. You need chapter 6: queries, keys,
# values, softmax, heads.
#
# In chapter 6 the slots of a memory $M$ ($N$ rows of width $F$) looked at each other.
# But how does anything get into the memory? The paper:
#
# > We assumed that we already had a matrix of memories $M$. Of course, memories instead
# > need to be encoded as new inputs are received. Suppose then that $M$ is some
# > randomly initialised memory. We can efficiently incorporate new information $x$ into
# > $M$ with a simple modification to equation 1
#
# and the modification is one more row to look at:
#
# $$\widetilde{M} = \mathrm{softmax}\left(\frac{M W^q \, ([M; x] W^k)^\top}{\sqrt{d_k}}
# \right) [M; x] W^v \tag{2}$$
#
# In the first half of this chapter you build it. The second half is a laboratory: some
# twenty things must hold for any attention function, and you try them on *yours*.

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
# values. Copy it from chapter 6 or, better, write it again. The experiments below run
# on it. (The letters are those of chapter 6. `M`, `Q`, `K` and `V` are matrices. There
# are `N` slots of width `F` and `R` keys of width `d_k`; values have the width `d_v`.)


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
# rarely are, so a matrix first brings them to the width $F$. Here $x$ is the input
# after that matrix.
#
# **Exercise 2.** Write it. Leading axes are examples, as always: each example has a
# memory and an input of its own.


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
# The slots ask; the slots and the input answer. The input itself asks nothing. It has
# no row in the result, so the memory keeps its size, whatever arrives and however
# often.
#
# **Exercise 3.** Equation 2 for one head.


# %%
def encode(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q, W_k (F, d_k), W_v (F, d_v) -> (..., N, d_v)."""
    ...


ex.encode.check(encode)

# %% [markdown]
# Here is equation 2 with numbers in it, for four slots of width six and keys of width
# three. Above, slots and input become queries, keys and values. Below, queries and keys
# make the shares, in percent, and the shares mix the values. All that comes from the
# input has an orange frame. **Write down first:** which of these matrices will have no
# such frame?

# %%
N, F, d_k, d_v = 4, 6, 3, 6
M, x = rng.normal(size=(N, F)), rng.normal(size=F)
widths = (d_k, d_k, d_v)
W_q, W_k, W_v = (rng.normal(size=(F, width)) / math.sqrt(F) for width in widths)
W_q = 2 * W_q  # so that the shares differ visibly
Z = ex.append_rows(M, x)
weights = ex.weights_behind(ex.attention, M @ W_q, Z @ W_k)  # exercise 5 explains it

# %% tags=["hide-input"] alt="Two rows of matrices. Above: the memory with the input below it, five rows, leads to queries with four rows, to keys and to values with five. Below: queries times keys transposed lead to a table of shares, four by five, which times the values makes the result, four by six. The input's row of the memory, of keys and values and its column of the transposed keys and of the shares are framed; queries and result have no frame"
# Draws equation 2 from left to right
figure, panel = plt.subplots(figsize=(10, 5))
slots = [f"slot {i}" for i in range(N)]


def draw(x, y, matrix, name, rows=(), columns=(), **style):
    """A matrix with names at its rows, and a frame around what comes from the input."""
    left, right, top, bottom = course.draw_matrix(panel, x, y, matrix, name, **style)
    for i, row in enumerate(rows):
        look = {"ha": "right", "va": "center", "fontsize": 8, "color": "0.3"}
        panel.text(left - 0.2, top + i + 0.5, row, **look)
    corner, width, height = (left, bottom - 1), right - left, 1
    if "x" in columns:
        corner, width, height = (right - 1, top), 1, bottom - top
    if "x" in (*rows, *columns):
        frame = {"fill": False, "edgecolor": "C1", "lw": 2.5, "zorder": 3}
        panel.add_patch(plt.Rectangle(corner, width, height, **frame))


def arrow(start, end, name=""):
    style = {"arrowstyle": "-|>", "color": "0.4"}
    panel.annotate("", end, start, arrowprops=style)
    middle = (start[0] + end[0]) / 2, start[1] - 0.25
    panel.text(*middle, name, ha="center", va="bottom", fontsize=8, color="0.3")


both = [*slots, "x"]
draw(0, 0, Z, "$[M; x]$", both)
arrow((3.4, 0), (6.6, 0), "each row\ntimes $W$")
draw(10.5, -0.5, M @ W_q, "queries $M W^q$", slots)
draw(18.5, 0, Z @ W_k, "keys $[M; x]\\, W^k$", both)
draw(28, 0, Z @ W_v, "values $[M; x]\\, W^v$", both)
draw(-1.5, 9, M @ W_q, "queries", slots)
panel.text(0.7, 9, "@", ha="center", va="center")
draw(4, 9, (Z @ W_k).T, "keys, transposed", columns=both)
arrow((7, 9), (10, 9), "softmax of\nscores / $\\sqrt{d_k}$")
draw(14.5, 9, weights, "shares", slots, both, shares=True)
panel.text(18, 9, "@", ha="center", va="center")
draw(22, 9, Z @ W_v, "values", ["", "", "", "", "x"])
arrow((25.4, 9), (27.2, 9))
draw(32, 9, ex.encode(M, x, W_q, W_k, W_v), "result $\\widetilde{M}$", slots)
panel.set(xlim=(-6, 35.5), ylim=(12, -5), aspect="equal")
panel.axis("off")
plt.show()

# %% [markdown]
# The queries and the result have no frame: the input asks nothing, and it gets no row
# of its own.
#
# (A map of weights shows who looked at whom, once. It says little about where
# information *is*. In the paper's words: "the conclusions we can make are limited since
# even after a single round of attention the memory can become highly distributed,
# making any interpretations about information compartmentalisation potentially
# inaccurate" (section 5.1). That holds for all maps of this chapter.)
#
# Each slot decides how much of the input it takes in. That depends on how well the
# input's key fits the slot's query. Below, the same input is multiplied by a factor,
# $s \cdot x$ for $s$ from -4 to 4, and you see the share that each slot gives it.
#
# **Write down first:** what share does a slot give to an input of zeros, $s = 0$?

# %%
lengths = np.linspace(-4, 4, 121)
memories = np.broadcast_to(M, (len(lengths), N, F))  # one example for each length
Z = ex.append_rows(memories, lengths[:, None] * x)
share = ex.weights_behind(ex.attention, M @ W_q, Z @ W_k)[..., -1]  # (lengths, slots)

# %% tags=["hide-input"] alt="The share that each of four slots gives to the input against the factor that multiplies the input: one falls from nearly 1 to 0, two rise to about a half and a third, one falls slowly; at factor 0 no share is zero"
# Draws the input's share
figure, panel = plt.subplots(figsize=(6.5, 3.2))
for i in range(N):
    panel.plot(lengths, share[:, i], label=f"slot {i}")
panel.axvline(0, color="0.7", lw=1, zorder=0)
panel.set(xlabel="factor s of the input s x", ylabel="share of the input", ylim=(0, 1))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# Where the key fits, the share grows with $s$; where it does not, it falls. And at
# $s = 0$ the slots do not ignore the input: its score is 0, which is as good as any
# other score, so it takes a share and gives back zeros. To say "nothing has arrived",
# use a mask with $-\infty$ for its score, or leave the row out.
#
# ## Heads
#
# With $H$ heads there are $H$ sets of projections, and their results lie side by side.
#
# **Exercise 4.** Equation 2 with heads. Beware of `M @ W_q` where there are as many
# examples as heads.


# %%
def encode_with_heads(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q, W_k (H, F, d_k), W_v (H, F, d_v)
    -> (..., N, H * d_v).
    """
    ...


ex.encode_with_heads.check(encode_with_heads)

# %% [markdown]
# ## The laboratory
#
# How do you test a function if you have no other version to compare it with? You test
# what must be true of it. "Shuffle the keys together with their values, and nothing may
# change": this needs no table of right numbers, and it is true for all sizes.
#
# **Exercise 5** is a puzzle, and the tool for what follows. You get a function
# `attention(Q, K, V)` that you cannot look into. It need not compute equation 1. But it
# is linear in the values: its result is a matrix of weights times $V$, and the weights
# depend on $Q$ and $K$ alone. Find them. You may call the function with any values you
# like.


# %%
def weights_behind(attention, Q, K):
    """A function attention(Q, K, V), and Q (..., N, d_k), K (..., R, d_k)
    -> its weights (..., N, R).
    """
    ...


ex.weights_behind.check(weights_behind)

# %% [markdown]
# Each experiment below is a small function. It takes an attention function `A` and
# queries, keys and values. It returns two arrays that must be the same: what it found,
# and what to expect. Each experiment runs on four cases. In one of them all sizes are
# equal, so that a forgotten transpose does not show in the shapes; another has a single
# key. The experiments run on *your* functions of exercises 1, 3 and 4, right or wrong,
# once you have written them. Until then the solutions stand in, and a line tells you
# so. (When you have written one, run the cells from here on again.)


# %%
def yours(answer, exercise):
    """The learner's function, or the solution where it is not written yet."""
    name = exercise.__name__
    if exercise.judge(answer).state == "not attempted":
        print(f"{name} is not written yet: the experiments run on the solution")
        return exercise
    print(f"{name}: the experiments run on yours")
    return answer


my_attention = yours(attention, ex.attention)
my_encode = yours(encode, ex.encode)
my_encode_with_heads = yours(encode_with_heads, ex.encode_with_heads)


# %%
def case(N, R, d_k, d_v, scale=1.0):
    """Queries, keys and values."""
    shapes = ((N, d_k), (R, d_k), (R, d_v))
    return [scale * rng.normal(size=shape) for shape in shapes]


CASES = [case(3, 4, 5, 2), case(4, 4, 4, 4), case(1, 1, 1, 1), case(6, 2, 16, 3, 3.0)]


def failure(experiment, function, Q, K, V):
    """What is wrong with what an experiment finds, in a few words, or None."""
    try:
        with np.errstate(all="ignore"):
            # It gets copies, because it may spoil them.
            found, expected = experiment(function, Q.copy(), K.copy(), V.copy())
            if found.shape != expected.shape:
                return f"the shape is {found.shape}, not {expected.shape}"
            off = np.max(abs(found - expected) / np.maximum(1, abs(expected)))
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    if off < 1e-9:
        return None
    return f"off by {off:.2g}" if off < np.inf else "not all are numbers"


def outcome(experiment, function):
    """What comes out of an experiment; "holds" if it comes out as it must."""
    for Q, K, V in CASES:
        wrong = failure(experiment, function, Q, K, V)
        if wrong:
            return f"FAILS ({len(Q)} queries, {len(K)} keys): {wrong}"
    return "holds"


def attempt(function, *experiments):
    """Try experiments on a function and print what comes out; returns them by name."""
    named = {each.__name__.replace("_", " "): each for each in experiments}
    for name, experiment in named.items():
        print(f"{name:43} {outcome(experiment, function)}")
    return named


# %% [markdown]
# ### It is a weighted mean
#
# The trick of exercise 5 finds the weights: with the identity as values, the result
# *is* the weights.
#
# **Write down first:** somebody forgets to divide by the root. Which of the seven
# experiments below will notice?

# %%
weights_of = ex.weights_behind


def no_weight_is_negative(A, Q, K, V):
    return np.minimum(weights_of(A, Q, K), 0), np.zeros((len(Q), len(K)))


def weights_sum_to_1(A, Q, K, V):
    return weights_of(A, Q, K).sum(axis=-1), np.ones(len(Q))


def result_is_weights_times_values(A, Q, K, V):
    return A(Q, K, V), weights_of(A, Q, K) @ V


def result_stays_within_the_values(A, Q, K, V):
    return A(Q, K, V), np.clip(A(Q, K, V), V.min(axis=0), V.max(axis=0))


def one_key_gets_everything(A, Q, K, V):
    return A(Q, K[:1], V[:1]), np.repeat(V[:1], len(Q), axis=0)


def queries_of_zeros_give_the_mean(A, Q, K, V):
    return A(0 * Q, K, V), np.repeat(V.mean(axis=0, keepdims=True), len(Q), axis=0)


def moving_all_values_moves_the_result(A, Q, K, V):
    return A(Q, K, V + 7), A(Q, K, V) + 7


mean = attempt(
    my_attention,
    no_weight_is_negative,
    weights_sum_to_1,
    result_is_weights_times_values,
    result_stays_within_the_values,
    one_key_gets_everything,
    queries_of_zeros_give_the_mean,
    moving_all_values_moves_the_result,
)

# %% [markdown]
# None of them would notice a missing root. The third says that attention is *linear in
# the values*: exercise 5 took that on trust. The last says that attention does not care
# where the values' zero is, because the weights sum to 1.
#
# ### Order means nothing
#
# Nothing in equations 1 and 2 knows that one slot stands above another. Shuffled
# queries shuffle the result in the same way: attention is *equivariant* under
# permutations of those who look. Keys, shuffled together with their values, change
# nothing: attention is *invariant* under permutations of those looked at.


# %%
def normal(*size, seed=1):
    """Random numbers, the same whenever an experiment runs."""
    return np.random.default_rng(seed).normal(size=size)


def shuffled(rows):
    """The rows in another order, the same for as many rows."""
    return rows[np.argsort(normal(len(rows)))]


def shuffled_queries_shuffle_the_result(A, Q, K, V):
    return A(shuffled(Q), K, V), shuffled(A(Q, K, V))


def shuffled_keys_and_values_change_nothing(A, Q, K, V):
    return A(Q, shuffled(K), shuffled(V)), A(Q, K, V)


def every_key_twice_changes_nothing(A, Q, K, V):
    return A(Q, np.tile(K, (2, 1)), np.tile(V, (2, 1))), A(Q, K, V)


def a_key_that_none_wants_may_go(A, Q, K, V):
    # One feature more, which all queries want and no key has
    Q, K = np.pad(Q, [(0, 0), (0, 1)], constant_values=1), np.pad(K, [(0, 0), (0, 1)])
    unwanted = np.append(np.zeros(K.shape[1] - 1), -1e6)
    return A(Q, np.vstack([K, unwanted]), np.vstack([V, V[:1]])), A(Q, K, V)


order = attempt(
    my_attention,
    shuffled_queries_shuffle_the_result,
    shuffled_keys_and_values_change_nothing,
    every_key_twice_changes_nothing,
    a_key_that_none_wants_may_go,
)

# %% [markdown]
# In equation 2 the slots are on both sides: they look and are looked at. So shuffled
# slots shuffle the result, while the input's column stays where it is. The equation
# does not know how many slots there are, either. Try it on your `encode`, with the
# matrix of queries as a memory and the first key as an input. The picture below the
# results shows such a shuffle.


# %%
def encoded(encode, M, x):
    """Equation 2 with random projections to keys and values of width 2."""
    return encode(M, x, *normal(3, M.shape[1], 2))


def shuffled_slots_shuffle_the_next_memory(E, M, K, V):
    return encoded(E, shuffled(M), K[0]), shuffled(encoded(E, M, K[0]))


def memory_keeps_its_size(E, M, K, V):
    return 0 * encoded(E, M, K[0]), np.zeros((len(M), 2))


def equal_slots_stay_equal(E, M, K, V):
    five_times_one_slot = np.tile(M[:1], (5, 1))
    after = encoded(E, five_times_one_slot, K[0])
    return np.ptp(after, axis=0), np.zeros(2)  # ptp: largest - smallest


equation_2 = attempt(
    my_encode,
    shuffled_slots_shuffle_the_next_memory,
    memory_keeps_its_size,
    equal_slots_stay_equal,
)

# %% tags=["hide-input"] alt="Two maps of weights of four slots over four slots and the input: when the slots are shuffled, rows and columns of the map are shuffled in the same way, and the input's column keeps its place"
# Draws the weights, before and after the shuffle
figure, panels = plt.subplots(1, 2, figsize=(7, 3))
orders = {"as they stood": [0, 1, 2, 3], "shuffled": [2, 0, 3, 1]}
for panel, (title, slots) in zip(panels, orders.items(), strict=True):
    keys = ex.append_rows(M[slots], x) @ W_k
    weights = ex.weights_behind(ex.attention, M[slots] @ W_q, keys)
    panel.imshow(weights, cmap="Greys", vmin=0, vmax=1)
    for (i, j), weight in np.ndenumerate(weights):
        look = {"fontsize": 8, "color": "white" if weight > 0.5 else "black"}
        panel.text(j, i, f"{weight:.2f}", ha="center", va="center", **look)
    panel.set(title=title, xlabel="looked at", ylabel="slot that looks")
    panel.set_xticks(range(5), [*slots, "x"])
    panel.set_yticks(range(4), slots)
plt.show()

# %% [markdown]
# What the last experiment before the picture shows has a consequence. **Slots that are
# equal stay equal**: they ask the same, so they hear the same. A memory that begins
# with zeros in all slots has $N$ copies of one slot for good, so it is a memory with
# one slot. The paper's "suppose then that $M$ is some randomly initialised memory"
# avoids it. Below we apply equation 2 again and again, to a new random input each time,
# once from a memory of zeros and once from a random one. The picture shows how far the
# slots lie apart, relative to their size: the standard deviation over the slots,
# averaged over the units, divided by the root of the mean square of the whole memory.
#
# **Write down first:** is a random beginning enough? How do you expect its curve to
# look?

# %%
steps = 8
inputs, W = rng.normal(size=(steps, F)), rng.normal(size=(3, F, F)) / math.sqrt(F)
zeros, random = np.zeros((N, F)), rng.normal(size=(N, F))
apart = {}
for name, memory in {"began with zeros": zeros, "began at random": random}.items():
    apart[name] = []
    for t in range(steps):
        memory = ex.encode(memory, inputs[t], *W)
        size = np.sqrt((memory**2).mean())
        apart[name].append(memory.std(axis=0).mean() / size)
    first, last = apart[name][0], apart[name][-1]
    print(f"{name}: apart by {first:.2g} of their size at step 1, ", end="")
    print(f"{last:.2g} at step {steps}; size {size:.2g}")

# %% tags=["hide-input"] alt="How far slots lie apart, relative to their size, over eight inputs: exactly zero all the time for a memory that began with zeros; from a random memory it falls by orders of magnitude but is not zero"
# Draws how far the slots lie apart
figure, panel = plt.subplots(figsize=(6.5, 3))
for name, distances in apart.items():
    panel.plot(range(1, steps + 1), distances, "o-", label=name)
panel.set_yscale("symlog", linthresh=1e-8)
panel.set(xlabel="inputs so far", ylim=(-2e-9, 10))
panel.set_ylabel("how far slots lie apart,\nas a fraction of their size")
panel.legend()
plt.show()

# %% [markdown]
# The random memory's slots come closer to each other, too: a mean of means forgets who
# was who. Equation 2 alone is no memory yet. Chapter 9 brings gates, which slow this
# down. Chapter 10 shows what keeps slots apart: a residual that the released code adds.
#
# ### Moving and turning
#
# A softmax of scores does not change when all scores of a row change by the same
# number. Adding one vector to *all keys* does exactly that. And scores are dot
# products: turning all queries and keys by the same rotation leaves them as they are.
# (And what does adding one vector to all *queries* do? You will meet that question
# below.)


# %%
def turned(rows):
    rotation, _ = np.linalg.qr(normal(rows.shape[1], rows.shape[1]))
    return rows @ rotation


def moving_all_keys_changes_nothing(A, Q, K, V):
    return A(Q, K + normal(K.shape[1]), V), A(Q, K, V)


def turning_queries_and_keys_changes_nothing(A, Q, K, V):
    return A(turned(Q), turned(K), V), A(Q, K, V)


differences = attempt(
    my_attention,
    moving_all_keys_changes_nothing,
    turning_queries_and_keys_changes_nothing,
)

# %% [markdown]
# ### The right numbers, for once
#
# All of this is true of *many* functions. Two experiments pin down the size of the
# scores: the root of $d_k$, and weights known by hand. Let every entry of the queries
# and keys appear four times: the dot product becomes four times as large and the root
# twice as large. So the scores double, just as they do for queries twice as long. And
# if the scaled scores are $\log c_j$ for whole numbers $c_j$, the weights are
# $c_j / \sum_k c_k$. A third experiment has scores whose exponential no float64 can
# hold. **Write down first:** which of the three notices a missing root?


# %%
def four_times_as_wide_is_twice_as_long(A, Q, K, V):
    return A(np.tile(Q, 4), np.tile(K, 4), V), A(2 * Q, K, V)


def weights_known_by_hand(A, Q, K, V):
    counts, ones = 2 + np.argsort(normal(len(K))), np.ones((1, K.shape[1]))
    keys = np.log(counts)[:, None] * ones / math.sqrt(K.shape[1])
    return weights_of(A, ones, keys), counts[None] / counts.sum()


def large_scores_do_not_overflow(A, Q, K, V):
    scores = 1e4 * np.array([[1.0, 0.0, -1.0], [-1.0, -3.0, -2.0], [3.0, 2.0, 1.0]])
    return weights_of(A, scores, math.sqrt(3) * np.eye(3)), np.eye(3)[[0, 0, 0]]


numbers = attempt(
    my_attention,
    four_times_as_wide_is_twice_as_long,
    weights_known_by_hand,
    large_scores_do_not_overflow,
)

# %% [markdown]
# ### What lies side by side does not mix
#
# A batch gives what its examples give one by one, and several heads give what each head
# gives alone. And a function should leave its arguments as they were.


# %%
def examples_of_a_batch_do_not_mix(A, Q, K, V):
    Q, K, V = (normal(2, 3, *array.shape, seed=k) for k, array in enumerate((Q, K, V)))
    alone = [[A(Q[b, h], K[b, h], V[b, h]) for h in range(3)] for b in range(2)]
    return A(Q, K, V), np.array(alone)


def flat(arrays):
    return np.concatenate([array.ravel() for array in arrays])


def arguments_stay_as_they_were(A, *arguments):
    given = [array.copy() for array in arguments]
    A(*given)
    return flat(given), flat(arguments)


side_by_side = attempt(
    my_attention, examples_of_a_batch_do_not_mix, arguments_stay_as_they_were
)


# %%
def projections(F, seed=1):
    """W_q, W_k and W_v for three heads, keys of width 5, values of width 2."""
    widths = (5, 5, 2)
    return [normal(3, F, width, seed=seed + k) for k, width in enumerate(widths)]


def heads_lie_side_by_side(E, M, K, V):
    W = projections(M.shape[1])
    alone = [E(M, K[0], *(each[h : h + 1] for each in W)) for h in range(3)]
    return E(M, K[0], *W), np.concatenate(alone, axis=-1)


def another_head_changes_its_own_columns_alone(E, M, K, V):
    W, others = projections(M.shape[1]), projections(M.shape[1], seed=4)
    changed = [each.copy() for each in W]
    for each, other in zip(changed, others, strict=True):
        each[1] = other[1]
    of_heads_0_and_2 = [0, 1, 4, 5]  # their columns
    before, after = E(M, K[0], *W), E(M, K[0], *changed)
    return after[:, of_heads_0_and_2], before[:, of_heads_0_and_2]


heads = attempt(
    my_encode_with_heads,
    heads_lie_side_by_side,
    another_head_changes_its_own_columns_alone,
)

# %% [markdown]
# ### And what does not hold
#
# It is just as good to know what you may *not* count on. Here are three statements that
# look like those above. **Write down first**, for each, whether it holds:


# %%
def moving_all_queries_changes_nothing(A, Q, K, V):
    return A(Q + 1, K, V), A(Q, K, V)


def one_key_twice_changes_nothing(A, Q, K, V):
    return A(Q, np.vstack([K, K[:1]]), np.vstack([V, V[:1]])), A(Q, K, V)


def doubling_queries_and_keys_changes_nothing(A, Q, K, V):
    return A(2 * Q, 2 * K, V), A(Q, K, V)


untrue = attempt(
    ex.attention,
    moving_all_queries_changes_nothing,
    one_key_twice_changes_nothing,
    doubling_queries_and_keys_changes_nothing,
)

# %% [markdown]
# A vector $v$ added to all queries adds $v \cdot k_j$ to the scores of key $j$. That is
# a different number for every key, and a softmax sees it. A key that appears twice gets
# two shares. And with queries and keys twice as long, the scores lie four times as far
# apart, which makes the shares sharper.
#
# ## Which experiment catches what
#
# Here are fourteen attention functions, each with one fault that is easily made. Every
# experiment on attention itself runs on each of them. A filled square is an experiment
# that fails, and the number after a name says how many do. The first column is yours.
#
# **Write down first:** which of the fourteen faults will the fewest experiments notice?


# %%
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def dot_products(Q, K):
    return Q @ np.swapaxes(K, -1, -2)


def scores(Q, K):
    return dot_products(Q, K) / math.sqrt(Q.shape[-1])


def root_of_the_keys(Q, K, V):
    return softmax(dot_products(Q, K) / math.sqrt(K.shape[-2])) @ V


def without_the_maximum(Q, K, V):
    e = np.exp(scores(Q, K))
    return e / e.sum(axis=-1, keepdims=True) @ V


def looking_only_back(Q, K, V):
    back = np.tri(Q.shape[-2], K.shape[-2]) > 0
    return softmax(np.where(back, scores(Q, K), -np.inf)) @ V


def in_place(Q, K, V):
    Q /= math.sqrt(Q.shape[-1])
    return softmax(dot_products(Q, K)) @ V


FAULTY = {
    "no root": lambda Q, K, V: softmax(dot_products(Q, K)) @ V,
    "divided by d_k": lambda Q, K, V: softmax(dot_products(Q, K) / Q.shape[-1]) @ V,
    "scores doubled": lambda Q, K, V: softmax(2 * scores(Q, K)) @ V,
    "root of the number of keys": root_of_the_keys,
    "wrong sign": lambda Q, K, V: softmax(-scores(Q, K)) @ V,
    "softmax over the queries": lambda Q, K, V: softmax(scores(Q, K), axis=-2) @ V,
    "no softmax": lambda Q, K, V: scores(Q, K) @ V,
    "exponentials not divided": lambda Q, K, V: np.exp(scores(Q, K)) @ V,
    "the maximum is not taken off": without_the_maximum,
    "K not transposed": lambda Q, K, V: softmax(Q @ K / math.sqrt(Q.shape[-1])) @ V,
    "K.T in a batch": lambda Q, K, V: softmax(Q @ K.T / math.sqrt(Q.shape[-1])) @ V,
    "looks only back": looking_only_back,
    "a ReLU on the values": lambda Q, K, V: softmax(scores(Q, K)) @ np.maximum(V, 0),
    "works in place": in_place,
}
experiments = mean | order | differences | numbers | side_by_side
functions = {"yours": my_attention} | FAULTY
fails = np.zeros((len(experiments), len(functions)), bool)
for i, experiment in enumerate(experiments.values()):
    for j, function in enumerate(functions.values()):
        fails[i, j] = outcome(experiment, function) != "holds"

# %% tags=["hide-input"] alt="A table of experiments against faulty functions: each fault is caught by at least one experiment, most by several; the missing root by two experiments about the right numbers, doubled scores only by the weights known by hand"
# Draws the table: which experiment catches which fault
figure, panel = plt.subplots(figsize=(9.5, 6.5))
style = {"cmap": "Oranges", "vmin": -0.05, "vmax": 1.4}
panel.pcolormesh(fails[::-1], edgecolors="white", linewidth=2, **style)
caught = fails.sum(axis=0)
names = [f"{name} ({n})" for name, n in zip(functions, caught, strict=True)]
slanted = {"rotation": 40, "ha": "left", "rotation_mode": "anchor"}
panel.set_xticks(np.arange(len(names)) + 0.5, names, **slanted)
panel.set_yticks(np.arange(len(experiments)) + 0.5, [*experiments][::-1])
panel.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
panel.spines[:].set_visible(False)
plt.show()

# %% [markdown]
# Three faults are noticed by one experiment each: *scores doubled*, *the maximum is not
# taken off* and *K.T in a batch*. Now look at the columns *no root* and *divided by
# d_k*: two experiments catch them, and they pass all others. And only the weights known
# by hand catch *scores doubled*. Symmetries say nothing about size: a list of
# invariants is not complete without a number that somebody has worked out.
#
# ## In the package
#
# This is equation 2 as the paper has it. It also takes several rows of input, $x$ of
# shape $(B, n, F)$ for $B$ examples. In its shapes, `K` and `V` are the widths that
# this chapter calls `d_k` and `d_v`:

# %%
course.show(equations.append_rows, equations.multi_head_attention)

# %%
M, x = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 6))
W_q, W_k, W_v = (rng.normal(size=(2, 6, 3)) for _ in range(3))
packaged = equations.multi_head_attention(np, M, x, W_q, W_k, W_v)
np.allclose(packaged, ex.encode_with_heads(M, x, W_q, W_k, W_v), rtol=1e-12)

# %% [markdown]
# You will find the experiments of this chapter, a little stricter, in
# `tests/test_attention_invariants.py`. There a program draws the cases and looks for
# the smallest one that fails, and more than twenty faulty functions make sure that
# every check can fail.
#
# ## Takeaways
#
# - The input is one more row to look at. It does not look itself, so the memory keeps
#   its size.
# - Equation 2 knows neither the order nor the number of the slots: shuffled slots give
#   a shuffled result.
# - So slots that start equal stay equal, and the first memory must tell them apart.
# - An input of zeros takes its share like any other.
# - Invariants test a function without another version to compare it with. But only a
#   number known by hand says that its scale is right.
#
# **Further.** The released code lets the input ask as well and then drops its row. Does
# that change the result of one step? Of two attention steps in a row? Which experiment
# would catch a function that adds a small number to the diagonal of the scores? Write a
# faulty attention function that passes all the experiments.

# %% tags=["hide-cell"]
# Answer 1: not that of one step. A query makes a row of its own and touches no other,
# so a row that you drop might as well not have asked. In two steps in a row it matters,
# if you drop it only at the end: in the second step the slots look at an input that has
# already looked around.
M, x = rng.normal(size=(4, 6)), rng.normal(size=6)
W_q, W_k, W_v = rng.normal(size=(3, 6, 6)) / math.sqrt(6)


def all_ask(Z):
    return ex.attention(Z @ W_q, Z @ W_k, Z @ W_v)


asked = all_ask(ex.append_rows(M, x))
once = ex.encode(M, x, W_q, W_k, W_v)
print("one step the same: ", np.allclose(asked[:-1], once))
twice = ex.encode(once, x, W_q, W_k, W_v)
print("two steps the same:", np.allclose(all_ask(asked)[:-1], twice))

# %% tags=["hide-cell"]
# Answer 2: those that put rows in another order or let one repeat, because the diagonal
# is where a slot meets itself, and those that know what the weights must be. Moving and
# turning do not notice.


def fond_of_itself(Q, K, V):
    return softmax(scores(Q, K) + 0.1 * np.eye(Q.shape[-2], K.shape[-2])) @ V


for name, experiment in experiments.items():
    if outcome(experiment, fond_of_itself) != "holds":
        print(name)

# %% tags=["hide-cell"]
# Answer 3: any function that is wrong only where no experiment looks. This one forgets
# the root from a hundred keys on:


def wrong_among_many(Q, K, V):
    if K.shape[-2] < 100:
        return my_attention(Q, K, V)
    return softmax(dot_products(Q, K)) @ V


found = [outcome(experiment, wrong_among_many) for experiment in experiments.values()]
print(f"{found.count('holds')} of {len(found)} experiments hold")
many = rng.normal(size=(3, 120, 8))
print("right for 120 keys:", np.allclose(wrong_among_many(*many), ex.attention(*many)))
