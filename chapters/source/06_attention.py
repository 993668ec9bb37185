# %% [markdown]
# # 6. Attention: memories look at each other
#
# **Equation 1, section 3.1.** About 105 minutes. You need matrix products and
# broadcasting (chapter 1), and for the way back chapter 3.
#
# A memory of the Relational Memory Core is a matrix $M$ of $N$ rows, its *slots*. So
# far a slot is just a row of numbers. In this chapter the slots exchange what they
# hold. In the words of the paper:
#
# > We will first assume that we do not need to consider memory encoding; that is, that
# > we already have some stored memories in matrix $M$, with row-wise compartmentalized
# > memories $m_i$. [...] Using MHDPA, each memory will attend over all of the other
# > memories, and will update its content based on the attended information.
#
# MHDPA is *multi-head dot product attention*, and its formula is the first equation:
#
# $$A_\theta(M) = \mathrm{softmax}\left(\frac{M W^q \, (M W^k)^\top}{\sqrt{d_k}}\right)
# M W^v, \qquad \theta = (W^q, W^k, W^v) \tag{1}$$
#
# $W^q$, $W^k$ and $W^v$ are the matrices that a network learns, and $\theta$ is their
# common name. We take the equation apart from the inside out: dot products, softmax,
# the root, the weighted mean, and last the heads. In the code, capital letters that
# stand alone, `M`, `Q`, `K`, `V`, are matrices. In the shapes after them `N` is the
# number of slots, `F` the width of a slot, `d_k` the width of a key or query, and `d_v`
# the width of a value.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course, equations
from tinyrmc.course.exercises import attention as ex

course.setup()
rng = np.random.default_rng(937)

# %% [markdown]
# ## Who fits whom: dot products
#
# Each slot asks a question, its *query*, and offers a *key* under which others can find
# its content. Both are rows of numbers, made from the slot by a matrix: $Q = M W^q$,
# $K = M W^k$. Their dot product says how well a query fits a key, and $Q K^\top$ holds
# all dot products at once. Row $i$, column $j$ says how well slot $i$'s question fits
# slot $j$'s key.
#
# Here are four slots of width 3, with queries and keys in the plane, so that you can
# see them:

# %%
M = rng.normal(size=(4, 3))
W_q, W_k = rng.normal(size=(2, 3, 2))
Q, K = M @ W_q, M @ W_k  # (4, 2) each
scores = Q @ K.T  # (4, 4)

# %% tags=["hide-input"] alt="Four query arrows and four key arrows in the plane, and the matrix of their dot products: large where arrows point the same way"
# Draws queries, keys and scores
figure, (plane, matrix) = plt.subplots(1, 2, figsize=(8.5, 3.6))
for name, rows, colour in (("q", Q, "C0"), ("k", K, "C1")):
    for i, (x, y) in enumerate(rows):
        style = {"arrowstyle": "->", "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
        plane.annotate("", (x, y), (0, 0), arrowprops=style | {"color": colour})
        # A label stands beyond its arrow's point, and a little to its left.
        beyond, aside = 1 + 0.35 / math.hypot(x, y), 0.12
        place = beyond * x - aside * y, beyond * y + aside * x
        plane.text(*place, f"{name}{i}", color=colour, ha="center", va="center")
reach = 1.25 * max(abs(Q).max(), abs(K).max())
plane.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
plane.set_title("queries (blue) and keys (orange)")
most = abs(scores).max()
matrix.imshow(scores, cmap="PRGn", vmin=-most, vmax=most)
for (i, j), score in np.ndenumerate(scores):
    colour = "white" if abs(score) > 4 else "black"
    matrix.text(j, i, f"{score:.1f}", ha="center", va="center", color=colour)
matrix.set(xlabel="key of slot", ylabel="query of slot", title="scores, Q Kᵀ")
matrix.set(xticks=range(4), yticks=range(4))
plt.show()

# %% [markdown]
# A score is large and positive (green) where two arrows point the same way, and
# negative (purple) where they point apart. Longer arrows count for more.
#
# ## From scores to shares: softmax
#
# Scores can be any numbers. A slot needs *shares*, which are not negative and sum to 1.
# The softmax makes them:
#
# $$\mathrm{softmax}(x)_j = \frac{e^{x_j}}{\sum_k e^{x_k}}$$
#
# **Exercise 1.** Write it for the last axis of an array of any shape. The check tries
# it on numbers as large as 3000, whose exponential no float64 can hold, and on
# $-\infty$, which means "not at all" and must give exactly 0.
#
# All exercises here work like this: write the function where the dots are and run the
# cell, and `check` says what it thinks. Stuck? Run `ex.softmax.hint()` in a cell of its
# own, several times if you like. The last resort is `ex.softmax.solution()`.


# %%
def softmax(x):
    """x (..., n) -> (..., n), each row at least 0 and with the sum 1."""
    ...


ex.softmax.check(softmax)

# %% [markdown]
# ## Why the root
#
# Before the softmax, equation 1 divides by $\sqrt{d_k}$, where "$d_k$ is the
# dimensionality of the key vectors used as a scaling factor". What for? Suppose the
# $d_k$ entries of a query and of a key are independent, with mean 0 and variance 1.
# Then their dot product is a sum of $d_k$ products, each with mean 0 and variance 1, so
# it has the variance $d_k$. The wider the keys, the larger the scores. Divided by
# $\sqrt{d_k}$ they have variance 1 at any width:

# %%
widths = 2 ** np.arange(1, 12)
raw, scaled = [], []
for d_k in widths:
    q, k = rng.normal(size=(2, course.fast(2000, 200), d_k))
    products = (q * k).sum(axis=-1)
    raw.append(products.std())
    scaled.append((products / math.sqrt(d_k)).std())

# %% [markdown]
# And large scores are bad for learning. A softmax of large scores is all but certain:
# the largest score takes everything, and if you move a score a little, nothing changes.
# By the quotient rule, the derivative of share $a_j$ with respect to score $x_k$ is
# $a_j (\delta_{jk} - a_k)$, where $\delta_{jk}$ is 1 if $j = k$ and 0 otherwise. With
# all shares at 0 or 1 this derivative is 0 everywhere. Below you see three things, with
# the root and without it: the spread of the scores (their standard deviation), the
# largest share of eight keys, and the mean size of these derivatives.
#
# **Write down first:** without the root, how large is the largest of eight shares at
# $d_k = 2048$?

# %%
largest, slope, samples = {}, {}, course.fast(500, 50)
for name, power in (("divided by √d_k", 0.5), ("not divided", 0.0)):
    for d_k in widths:
        q = rng.normal(size=(samples, 1, d_k))
        k = rng.normal(size=(samples, 8, d_k))
        a = ex.softmax(q @ np.swapaxes(k, -1, -2) / d_k**power)[:, 0]  # (samples, 8)
        jacobian = a[:, :, None] * (np.eye(8) - a[:, None, :])
        largest.setdefault(name, []).append(a.max(axis=-1).mean())
        slope.setdefault(name, []).append(abs(jacobian).mean())

# %% tags=["hide-input"] alt="Three panels against the width of a key: without the root scores spread like the root of the width, the largest share approaches 1 and derivatives vanish; with it all three stay where they are"
# Draws the three panels
figure, panels = plt.subplots(1, 3, figsize=(10, 3.2))
panels[0].loglog(widths, raw, "o-", color="C1", label="not divided")
panels[0].loglog(widths, scaled, "o-", color="C0", label="divided by √d_k")
root = {"color": "black", "lw": 2, "zorder": 3, "label": "√d_k"}
panels[0].loglog(widths, np.sqrt(widths), ":", **root)
panels[0].set(title="spread of the scores", xlabel="width of a key, d_k")
panels[0].legend()
for panel, values, title in (
    (panels[1], largest, "largest of eight shares"),
    (panels[2], slope, "mean |derivative| of a share"),
):
    for name, colour in (("not divided", "C1"), ("divided by √d_k", "C0")):
        panel.semilogx(widths, values[name], "o-", color=colour)
    panel.set(title=title, xlabel="width of a key, d_k", ylim=(0, None))
plt.show()

# %% [markdown]
# An implementation that forgets the root starts somewhere on the orange curves, and the
# wider its keys, the farther to the right. One that multiplies by the root
# (`/ d_k ** -0.5` instead of `* d_k ** -0.5`) has scores that spread like $d_k$ itself,
# and starts farther right still. There the derivatives are small, and with them the
# gradients.
#
# **Exercise 2.** The weights of attention: scores, root, softmax. Leading axes are
# examples or heads and stay as they are. There are `R` keys. Here there are as many
# keys as slots, $R = N$, but your function must not count on that: in chapter 7 there
# is one key more.


# %%
def attention_weights(Q, K):
    """Q (..., N, d_k), K (..., R, d_k) -> (..., N, R). Row i says how query i divides
    its attention among the keys.
    """
    ...


ex.attention_weights.check(attention_weights)

# %% [markdown]
# ## What comes back: a weighted mean
#
# Besides its key, a slot offers a *value*, $V = M W^v$: this is what the others get
# when they look at it. Slot $i$ takes home the mean of all values, weighted by its
# shares.
#
# **Exercise 3.** Equation 1 as a whole, given queries, keys and values.


# %%
def attention(Q, K, V):
    """Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v) -> (..., N, d_v)."""
    ...


ex.attention.check(attention)

# %% [markdown]
# A weighted mean cannot leave the values: every entry of the result lies between the
# smallest and the largest entry of its column of $V$. Here three slots look at seven
# values in the plane. The scores of the last slot are all 0.
#
# **Write down first:** where does a slot with scores of 0 end up?

# %%
angles = 2 * math.pi * (np.arange(7) + rng.uniform(0, 0.6, 7)) / 7
V = rng.uniform(0.5, 1, (7, 1)) * np.c_[1.4 * np.cos(angles), np.sin(angles)]  # (7, 2)
Q, K = 1.5 * rng.normal(size=(3, 2)), rng.normal(size=(7, 2))
Q[2] = 0
home, shares = ex.attention(Q, K, V), ex.attention_weights(Q, K)

# %% tags=["hide-input"] alt="The same seven values in three panels, as discs as large as a slot's shares, with the percents beside them; a diamond marks what the slot takes home. One slot divides its attention, with more than half of it for a single value; one gives nearly all to one value, and its diamond lies there; the last has seven equal discs and its diamond in the middle of all"
# Draws what each slot looks at, and what it takes home
figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True)
names = ("slot 0", "slot 1", "slot 2, scores of 0")
for i, (panel, name) in enumerate(zip(panels, names, strict=True)):
    panel.scatter(*V.T, s=1800 * shares[i], color=f"C{i}", alpha=0.3, lw=0)
    panel.scatter(*V.T, s=8, color="0.3")
    for share, v in zip(shares[i], V, strict=True):
        away = {"xytext": (6, 5), "textcoords": "offset points", "fontsize": 8}
        panel.annotate(f"{share:.0%}", v, color="0.3", **away)
    look = {"marker": "D", "s": 60, "color": f"C{i}", "edgecolor": "white"}
    panel.scatter(*home[i], zorder=3, **look)
    panel.set(title=name, aspect="equal", xticks=[], yticks=[])
    panel.spines[:].set_visible(True)
    panel.margins(0.2)
plt.show()

# %% [markdown]
# A disc is as large as the slot's share of that value, and the diamond is what the slot
# takes home. Slot 1 looks at one value and comes home with nearly that value. Slot 0
# looks most at one, but the others pull, too. A slot with scores of 0 has equal shares:
# it takes home the plain mean.
#
# ## The way back
#
# How do $W^q$, $W^k$ and $W^v$ learn? Through queries, keys and values, and these get
# their gradients from the result. You know the three kinds of vjp that it takes: of a
# product, of a softmax, and of a division by a number (chapter 3). First name what you
# meet on the way there, for one head of one example. (Here $A$ is the matrix of shares
# alone. What equation 1 calls $A(Q, K, V)$ is $O$.)
#
# $$S = \frac{Q K^\top}{\sqrt{d_k}}, \qquad A = \mathrm{softmax}(S), \qquad O = A V$$
#
# Somebody hands you $g$, the gradient of $O$. Go back station by station, and write a
# bar for "the gradient of":
#
# - $O = A V$ is a product of two matrices. So
#   $\bar V = A^\top g$ and $\bar A = g V^\top$.
# - Each row of $A$ is the softmax of a row of $S$. So
#   $\bar S = A \circ (\bar A - r)$, where $r_i = \sum_j \bar A_{ij} A_{ij}$ is one
#   number for each row.
# - $S$ is a product again, divided by the root. So
#   $\bar Q = \bar S K / \sqrt{d_k}$ and $\bar K = \bar S^\top Q / \sqrt{d_k}$.
#
# In words: a value gets a part of the gradient of every slot that looked at it, as
# large as the share that the slot gave it. And the gradient of a score is positive if
# its value points along $g$ more than the slot's weighted mean of all values does; that
# is what the bracket $\bar A - r$ says. Here are all these matrices for three queries
# and five keys, green where a number is positive and purple where it is negative. Above
# you go forward, below back. Look at the shapes: each gradient has the shape of what it
# belongs to, and each product fits in one way only.

# %% tags=["hide-input"] alt="Two rows of small matrices joined by arrows. Above, from left to right: Q, 3 by 2, and K transposed, 2 by 5, make S, 3 by 5; the softmax makes A of it; A and V, 5 by 4, make O, 3 by 4. Below, from right to left, each in the same shape: the gradient g of O, those of V and A, that of S, and those of K and Q"
# Draws attention's matrices, the way there and the way back
draw = np.random.default_rng(4)
Q, K, V, g = (draw.normal(size=shape) for shape in ((3, 2), (5, 2), (5, 4), (3, 4)))
S = Q @ K.T / math.sqrt(2)
A = ex.softmax(S)
by_Q, by_K, by_V = ex.attention_vjp(g, Q, K, V)
by_A = g @ V.T
by_S = A * (by_A - (by_A * A).sum(axis=1, keepdims=True))
there = {"$Q$": Q, "$K^\\top$": K.T, "$S$": S, "$A$": A, "$V$": V, "$O$": A @ V}
back = {"$\\bar Q = \\bar S K / \\sqrt{d_k}$": by_Q}
back["$\\bar K^\\top = Q^\\top \\bar S / \\sqrt{d_k}$"] = by_K.T
back["$\\bar S = A \\circ (\\bar A - r)$"] = by_S
back |= {"$\\bar A = g V^\\top$": by_A, "$\\bar V = A^\\top g$": by_V, "$g$": g}
centres = (0, 5, 12, 18.7, 25, 31.3)  # of the six matrices, in cells
figure, panel = plt.subplots(figsize=(10, 4.6))
for y, matrices in ((0, there), (9.5, back)):
    for x, (name, matrix) in zip(centres, matrices.items(), strict=True):
        _, _, _, bottom = course.draw_matrix(panel, x, y, matrix, name)
        if y == 0:
            size = "{} by {}".format(*matrix.shape)
            look = {"ha": "center", "va": "top", "color": "0.4"}
            panel.text(x, bottom + 0.3, size, **look)


def arrow(start, end, colour, bend=0.0):
    style = {"arrowstyle": "-|>", "color": colour, "lw": 1.4}
    style["connectionstyle"] = f"arc3,rad={bend}"
    panel.annotate("", end, start, arrowprops=style)


for start, end in ((7.6, 9.4), (14.6, 16.1), (27.1, 29.2)):
    arrow((start, 0), (end, 0), "C0")
    arrow((end, 9.5), (start, 9.5), "C1")
arrow((29.2, 11.1), (19.5, 11.1), "C1", bend=-0.35)  # from g, past V, to A
arrow((10, 11.1), (0.5, 11.1), "C1", bend=-0.35)  # from S, past K, to Q
for x in (1.75, 22.1):
    panel.text(x, 0, "@", color="C0", ha="center", va="center")
panel.text(-3.4, 0, "there", color="C0", ha="right", va="center")
panel.text(-3.4, 9.5, "back", color="C1", ha="right", va="center")
panel.set(xlim=(-7, 34), ylim=(14.6, -5), aspect="equal")
panel.axis("off")
plt.show()

# %% [markdown]
# **Write down first:** suppose one slot is certain: its largest share is 1 and the
# others are 0. What is its row of $\bar S$, whatever $g$ is?
#
# **Exercise 4.** Write all of it, with any leading axes. What you wrote in chapter 3
# may help: `course.vjps(3)` fetches it, and `vjps.softmax_vjp(g, y)` and
# `vjps.stacks_vjp(g, a, b)` are then there. The check knows the right gradients from
# the complex step of equation 1 (chapter 4).

# %%
vjps = course.vjps(3)
vjps


# %%
def attention_vjp(g, Q, K, V):
    """g (..., N, d_v), Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v)
    -> the gradients of Q, K and V.
    """
    ...


ex.attention_vjp.check(attention_vjp)
my_attention_vjp = ex.attention_vjp.yours(attention_vjp)

# %% [markdown]
# A row of $\bar S$ has the sum 0: what one score gains, others lose, because the shares
# always sum to 1. And a slot that is certain learns nothing about whom to look at: its
# row of $\bar S$ is 0, as in the orange curves above. The *value* that it looks at
# still learns, because it is passed on as it is:

# %%
Q, K, V = rng.normal(size=(3, 4, 3))
Q[0] *= 1000  # slot 0 is certain
g = rng.normal(size=(4, 3))
by_Q, by_K, by_V = my_attention_vjp(g, Q, K, V)
seen = ex.attention_weights(Q, K)[0].argmax()
print("shares of slot 0:           ", ex.attention_weights(Q, K)[0].round(3))
print("gradient of query 0 is 0:   ", np.allclose(by_Q[0], 0))
print("gradient of query 1:        ", by_Q[1].round(3))
print(f"gradient of value {seen}:        ", by_V[seen].round(3))

# %% [markdown]
# ## Heads
#
# One set of shares is one way to look. The paper uses several at once:
#
# > if $M$ is an $N \times F$ dimensional matrix and we employ two attention heads, then
# > we compute $\widetilde{M^1} = A_\theta(M)$ and $\widetilde{M^2} = A_\phi(M)$, where
# > [they] are $N \times F/2$ matrices, $\theta$ and $\phi$ denote unique parameters for
# > the linear projections to produce the queries, keys, and values, and
# > $\widetilde{M} = [\widetilde{M^1} : \widetilde{M^2}]$, where $[:]$ denotes
# > column-wise concatenation. Intuitively, heads could be useful for letting a memory
# > share different information, to different targets, using each head.
#
# (A linear projection of the slots is a product such as $M W^q$.)
#
# **Exercise 5.** There are `H` heads, and `W_q[h]`, `W_k[h]` and `W_v[h]` are the
# projections of head `h`.


# %%
def multi_head(M, W_q, W_k, W_v):
    """M (N, F), W_q and W_k (H, F, d_k), W_v (H, F, d_v) -> (N, H * d_v)."""
    ...


ex.multi_head.check(multi_head)

# %% [markdown]
# Here are two heads over the same five slots, with random weights: two ways to look at
# the same memory.

# %%
M = rng.normal(size=(5, 8))
W_q, W_k = rng.normal(size=(2, 2, 8, 4)) / math.sqrt(2)  # two heads each

# %% tags=["hide-input"] alt="The attention weights of two heads over five slots: two different patterns, every row summing to 1"
# Draws the weights of both heads
figure, panels = plt.subplots(1, 2, figsize=(7, 3.3))
for h, panel in enumerate(panels):
    weights = ex.attention_weights(M @ W_q[h], M @ W_k[h])
    panel.imshow(weights, cmap="Greys", vmin=0, vmax=1)
    for (i, j), weight in np.ndenumerate(weights):
        look = {"color": "white" if weight > 0.5 else "black", "fontsize": 8}
        panel.text(j, i, f"{weight:.2f}", ha="center", va="center", **look)
    panel.set(title=f"head {h}", xlabel="looked at", ylabel="slot that looks")
    panel.set(xticks=range(5), yticks=range(5))
plt.show()

# %% [markdown]
# It is tempting to read such maps, and the paper itself warns against it: "the
# conclusions we can make are limited since even after a single round of attention the
# memory can become highly distributed, making any interpretations about information
# compartmentalisation potentially inaccurate" (section 5.1). After one step, slot 0 no
# longer holds only what was slot 0's. The same goes for the discs further up. Chapter
# 13 tests what a trained network's maps are worth: it takes parts of the network away.
#
# ## In the package
#
# The same functions stand in `equations.py`, with the paper's names. Every function
# there takes the array library `xp` as its first argument, so that it runs on NumPy, on
# a GPU, and on our tape (the engine of chapter 3, which computes gradients):

# %%
course.show(equations.softmax, equations.attention_weights, equations.attention)

# %% [markdown]
# Training uses one operation for all of it, `fused.attention`, with your derivative of
# exercise 4. Its plain definition stands beside it, and the tests hold one against the
# other. Here are both, on the same numbers:

# %%
from tinyrmc import fused

Q, K, V = rng.normal(size=(3, 2, 4, 8))  # two examples of four slots; one head
together = np.concatenate([Q, K, V], axis=-1)  # side by side, as one product makes them
by_hand = fused.attention(together, num_heads=1, key_size=8).data
np.allclose(by_hand, equations.attention(np, Q, K, V), rtol=1e-12)

# %% [markdown]
# ## Takeaways
#
# - A row of weights is a row of shares: not negative, and their sum is 1. The result is
#   a weighted mean of the values.
# - The root keeps the scores' spread at 1, whatever the width of the keys. So it keeps
#   the gradient from vanishing.
# - The way back is four products and the softmax's vjp. A value gets a gradient from
#   every slot that looked at it; a slot that is certain learns nothing about whom to
#   look at.
# - Heads are the same equation several times over, side by side, each with projections
#   of its own.
# - Nothing here knows in which order the slots stand. Chapter 7 shows what follows from
#   that, and how a new input gets in.
#
# **Further.** What happens to the orange curves if queries and keys are twice as long?
# With the root, from how many keys on is the largest share below one half on average?
# Which of exercises 1, 2, 3 and 5 would still work if $M$ had no rows?

# %% tags=["hide-cell"]
# Answer 1: the scores become four times as large, as if the keys were sixteen times as
# wide: the curves move four points to the left.
samples = course.fast(2000, 200)
for d_k, longer in ((8, 1), (8, 2), (128, 1)):
    q = longer * rng.normal(size=(samples, 1, d_k))
    k = longer * rng.normal(size=(samples, 8, d_k))
    share = ex.softmax(q @ np.swapaxes(k, -1, -2)).max(axis=-1).mean()
    print(f"width {d_k:3}, {longer} times as long: largest share {share:.2f}")

# %% tags=["hide-cell"]
# Answer 2: with two keys it is above one half, by necessity. It falls below with the
# fifth:
for R in range(2, 8):
    q, k = rng.normal(size=(samples, 1, 64)), rng.normal(size=(samples, R, 64))
    print(R, "keys:", ex.attention_weights(q, k).max(axis=-1).mean().round(2))

# %% tags=["hide-cell"]
# Answer 3: only the softmax. It works row by row, and without rows it has nothing to
# do. In the other three M makes the keys as well, and what is shared among no keys at
# all is undefined: there is no largest score.
M, W = np.zeros((0, 4)), rng.normal(size=(1, 4, 4))
for name, arguments in (
    ("softmax", (M,)),
    ("attention_weights", (M, M)),
    ("attention", (M, M, M)),
    ("multi_head", (M, W, W, W)),
):
    try:
        print(name, "gives the shape", getattr(ex, name)(*arguments).shape)
    except ValueError as problem:
        print(f"{name} fails:\n  {problem}")
