# %% [markdown]
# # 7. A laboratory of invariants: what must hold for any attention
#
# **Equations 1 and 2 again.** About 115 minutes, in two sittings. You need chapter 6
# (attention); its letters are the same.
#
# How do you test a function if there is no other version to compare it with? You test
# what must be true of it. "Put the keys in another order, with their values, and
# nothing changes": that needs no table of right numbers. Here you make such
# experiments, and let thirteen faulty functions run into them.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course
from tinyrmc.course.exercises import attention as attention_ex
from tinyrmc.course.exercises import invariants as ex

course.setup()
rng = np.random.default_rng(1806)
attention, encode = course.kept("attention", "attention", "encode_with_heads")

# %% [markdown]
# ## A function that you cannot look into
#
# **Exercise 1.** You get a function `attention(Q, K, V)`, which need not compute
# equation 1. But its result is a matrix of weights times $V$, and the weights depend on
# $Q$ and $K$ alone. Find them. You may call it with any values you like.


# %%
def weights_behind(attention, Q, K):
    """attention(Q, K, V), with Q (..., N, d_k), K (..., R, d_k) -> (..., N, R)."""
    ...


ex.weights_behind.check(weights_behind)
weights_behind = ex.weights_behind.yours(weights_behind)

# %% [markdown]
# ## Experiments
#
# An experiment takes an attention function `A` and some `Q`, `K` and `V`, and returns
# two arrays that must be equal: what it found, and what to expect. `ex.attempt` runs
# each on four sizes. In one all sizes are equal, so that a forgotten transpose does not
# show in the shapes; in another there is a single key.
#
# **Write down first:** somebody forgets the root. Which of the eight will notice?


# %%
def no_weight_is_negative(A, Q, K, V):
    return np.minimum(weights_behind(A, Q, K), 0), np.zeros((len(Q), len(K)))


def weights_sum_to_1(A, Q, K, V):
    return weights_behind(A, Q, K).sum(axis=-1), np.ones(len(Q))


def result_is_weights_times_values(A, Q, K, V):
    return A(Q, K, V), weights_behind(A, Q, K) @ V


def queries_of_zeros_give_the_mean(A, Q, K, V):
    return A(0 * Q, K, V), np.repeat(V.mean(axis=0, keepdims=True), len(Q), axis=0)


def moving_all_keys_changes_nothing(A, Q, K, V):
    return A(Q, K + np.arange(K.shape[1]), V), A(Q, K, V)


def large_scores_do_not_overflow(A, Q, K, V):
    return A(1e4 * np.eye(3), np.eye(3), np.eye(3)), np.eye(3)


def examples_of_a_batch_do_not_mix(A, Q, K, V):
    two = np.stack([Q, 2 * Q]), np.stack([K, K - 1]), np.stack([V, 3 * V])
    return A(*two), np.stack([A(Q, K, V), A(2 * Q, K - 1, 3 * V)])


def arguments_stay_as_they_were(A, Q, K, V):
    before = Q.copy()
    A(Q, K, V)
    return Q, before


given = ex.attempt(
    attention,
    no_weight_is_negative,
    weights_sum_to_1,
    result_is_weights_times_values,
    queries_of_zeros_give_the_mean,
    moving_all_keys_changes_nothing,
    large_scores_do_not_overflow,
    examples_of_a_batch_do_not_mix,
    arguments_stay_as_they_were,
)

# %% tags=["hide-output"]
noticed = ex.attempt(ex.FAULTY["no root"], *given.values())

# %% [markdown]
# None of the eight notices. (Why may all keys move? The same number comes to all scores
# of a row, and a softmax does not see it.) The size of the scores needs an experiment
# of its own, and you write it.
#
# **Exercise 2.** An experiment that a right attention passes, and no function whose
# scores are too large or too small. You need not use the arrays that you are given:
# choose queries and keys for which you know the shares by hand.


# %%
def size_of_the_scores(A, Q, K, V):
    """A(Q, K, V) -> found, expected."""
    ...


ex.size_of_the_scores.check(size_of_the_scores)
size_of_the_scores = ex.size_of_the_scores.yours(size_of_the_scores)

# %% [markdown]
# **This is a good place to stop.**
#
# ## Order means nothing
#
# Nothing in equation 1 knows that one slot stands above another. Queries in another
# order give the same rows in that order: attention is *equivariant* under permutations
# of those who look. Keys with their values in another order change nothing: it is
# *invariant* under permutations of those looked at.
#
# **Exercise 3.** Write that as an experiment. A function that knows about order must
# fail. One that does not must pass, even if it is wrong otherwise: an experiment that
# compares with the right function tells you that something is wrong, but not what.


# %%
def order_means_nothing(A, Q, K, V):
    """A(Q, K, V) -> found, expected."""
    ...


ex.order_means_nothing.check(order_means_nothing)
order_means_nothing = ex.order_means_nothing.yours(order_means_nothing)

# %% [markdown]
# In equation 2 the slots are on both sides, so **slots that are equal stay equal**:
# they ask the same, so they get the same. A memory of zeros is a memory with one slot,
# $N$ times. "Suppose then that $M$ is some randomly initialised memory", says the
# paper. Is random enough? Below, equation 2 takes in eight inputs, and you see how far
# the slots lie apart, as a share of their size. **Write down first:** what will the
# curve of the random memory look like?


# %%
def distances_of(scale, seed=0, N=4, F=6, steps=8, longer=1.0, mixed=True):
    """How far the slots lie apart after each input; they begin `scale` large. Queries
    are `longer`; not `mixed`: values are the rows themselves.
    """
    rng = np.random.default_rng(seed)
    inputs, W = rng.normal(size=(steps, F)), rng.normal(size=(3, 1, F, F))
    W[0] *= longer
    W[2] = W[2] if mixed else math.sqrt(F) * np.eye(F)
    memory, apart = scale * rng.normal(size=(N, F)), []
    for x in inputs:
        memory = encode(memory, x, *W / math.sqrt(F))
        apart.append(memory.std(axis=0).mean() / np.sqrt((memory**2).mean()))
    return apart


apart = {"began with zeros": distances_of(0.0), "began at random": distances_of(1.0)}

# %% tags=["hide-input", "hide-output"] alt="How far slots lie apart, relative to their size, over eight inputs: exactly zero all the time for a memory that began with zeros; from a random memory it falls by orders of magnitude but is not zero"
# Draws how far the slots lie apart
figure, panel = plt.subplots(figsize=(6.5, 3))
for name, distances in apart.items():
    panel.plot(range(1, 9), distances, "o-", label=name)
panel.set_yscale("symlog", linthresh=1e-8)
panel.set(xlabel="inputs so far", ylim=(-2e-9, 10))
panel.set_ylabel("how far slots lie apart,\nas a fraction of their size")
panel.legend()
plt.show()

# %% [markdown]
# They come closer to each other, in twenty draws of weights and inputs in 99 % of the
# steps, and end 3e-13 to 3e-05 apart, half of them less than 2e-09. Each new slot is a
# mean of the same rows, and where shares are alike, so are the means. It does not take
# $W^v$: where values are the rows themselves, the median is 5e-09; and with eight slots
# of 64 units it is 1e-08. Sharper shares do not prevent it: with queries ten times as
# long 18 of 20 draws still end less than 1e-4 apart, 6 of them closer than any of the
# twenty before, and 2 stay more than 1 % apart. (Slots also become equal where all of
# them look at one and the same row. Which of the two ways does it we have not
# separated.)
#
# So with equation 2 alone and fresh weights, the $N$ slots are mostly soon nearly one
# slot, $N$ times. In a whole core, with gates, it goes more slowly. Chapter 11 (paper
# against release) shows how fast there, and what keeps slots apart longer.
#
# ## What does not hold
#
# It is as good to know what you may *not* count on. **Write down first**, for each of
# these, whether it holds:


# %% tags=["hide-output"]
def moving_all_queries_changes_nothing(A, Q, K, V):
    return A(Q + 1, K, V), A(Q, K, V)


def one_key_twice_changes_nothing(A, Q, K, V):
    return A(Q, np.vstack([K, K[:1]]), np.vstack([V, V[:1]])), A(Q, K, V)


def doubling_queries_and_keys_changes_nothing(A, Q, K, V):
    return A(2 * Q, 2 * K, V), A(Q, K, V)


untrue = ex.attempt(
    attention,
    moving_all_queries_changes_nothing,
    one_key_twice_changes_nothing,
    doubling_queries_and_keys_changes_nothing,
)

# %% [markdown]
# A vector $v$ added to all queries adds $v \cdot k_j$ to the scores of key $j$, another
# number for each key. A key that stands there twice gets two shares. And scores four
# times as large make shares sharper.
#
# ## Which experiment catches what
#
# Thirteen functions, each with one fault that is easily made; a filled square is an
# experiment that fails. The first column is yours, and so are the last two rows.
# **Write down first:** which faults will be noticed by one experiment alone?

# %%
experiments = given | {
    "size of the scores (yours)": size_of_the_scores,
    "order means nothing (yours)": order_means_nothing,
}
functions = {"yours": attention} | ex.FAULTY
fails = np.zeros((len(experiments), len(functions)), bool)
for i, experiment in enumerate(experiments.values()):
    for j, function in enumerate(functions.values()):
        fails[i, j] = ex.outcome(experiment, function) != "holds"

# %% tags=["hide-input", "hide-output"] alt="A table of ten experiments and fourteen functions: the right one passes all, each faulty one fails at least one; the missing root, the division by d_k, the doubled scores and the root of the number of keys fail at the size of the scores alone"
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

# %% tags=["hide-output"]
for j, name in enumerate(functions):
    if fails[:, j].sum() == 1:
        (only,) = np.flatnonzero(fails[:, j])
        print(f"{name:28} {[*experiments][only]}")

# %% [markdown]
# Of these ten, only your `size_of_the_scores` sees that all scores are too large or too
# small by a factor. Another invariant would find a wrong root: the queries $[Q, Q]$ and
# keys $[K, K]$, twice as wide, must give what $\sqrt 2 \, Q$ and $K$ give. But a
# constant factor, such as 2, needs a number that is known by hand.
#
# ## An experiment of your own
#
# So far somebody else has asked. Now choose what to measure about attention, and how it
# depends on a setting: on the length of queries, the width, the number of keys, an
# input's size, a distance, the number of rounds. Take five settings or more, measure
# `A` at each, and look at the picture before you conclude.
#
# **Exercise 4.** Write it, so that anybody can repeat it: draw with
# `np.random.default_rng(seed)`. `check` does not know what you measure. It looks
# whether your numbers support your claim, with three seeds. (They "stay" if they differ
# by less than a tenth, and "rise" if nine in ten pairs of them do.)


# %%
def my_experiment(A, seed):
    """A(Q, K, V), and a seed -> settings, in growing order; what was measured at each;
    and "rises", "falls", "stays" or "neither".
    """
    ...


ex.my_experiment.check(my_experiment)
my_experiment = ex.my_experiment.yours(my_experiment)

# %% [markdown]
# **Now draw it yourself:** what you have measured against the settings, a curve for
# each of three seeds, with names for curves and axes. The cell after the next draws it
# in our way.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% tags=["hide-input", "hide-output"] alt="What an experiment has measured against its settings, one line for each of three seeds. Here it is the largest of five shares, which rises with the length of the queries"
# Draws what was measured with three seeds
figure, panel = plt.subplots(figsize=(6, 3))
for seed in range(3):
    settings, measured, claim = my_experiment(attention, seed)
    panel.plot(settings, measured, "o-", label=f"seed {seed}: {claim}")
panel.set(xlabel="setting", ylabel="measured")
panel.legend()
plt.show()

# %% [markdown]
# `tests/test_attention_invariants.py` has such experiments, a little stricter: a
# program draws the cases there, and looks for the smallest one that fails.
#
# **What was not shown.** What trained weights do to the distances between slots, and
# what the one slot holds that is left; that experiments which catch these thirteen
# faults catch others.
#
# ## Takeaways
#
# - Invariants test a function without another version to compare it with. A wrong
#   constant factor in the scores shows only against a number known by hand.
# - Attention knows no order. So slots that start equal stay equal, and the first memory
#   must at least tell them apart.
# - A claim that holds with one seed may be chance. Try three: three numbers lie above
#   three others by chance alone once in twenty times.
#
# **Further.** Which experiments notice a function that adds a small number to the
# diagonal of the scores? Write a faulty function that passes them all.

# %% tags=["hide-cell"]
# Answer 1
# Those experiments notice in which a place counts, because the diagonal is where a slot
# meets the key of its own place. Zero queries notice, too: their scores should all be
# 0.
for name, experiment in experiments.items():
    if ex.outcome(experiment, ex.FAULTY["fond of itself"]) != "holds":
        print(name)

# %% tags=["hide-cell"]
# Answer 2
# Any function passes that is wrong only where no experiment looks. This one forgets the
# root from a hundred keys on:


def wrong_among_many(Q, K, V):
    if K.shape[-2] < 100:
        return attention(Q, K, V)
    return ex.FAULTY["no root"](Q, K, V)


found = [ex.outcome(each, wrong_among_many) for each in experiments.values()]
print(f"{found.count('holds')} of {len(found)} experiments hold")
many = rng.normal(size=(3, 120, 8))
right = np.allclose(wrong_among_many(*many), attention_ex.attention(*many))
print("right for 120 keys:", right)
