# %% [markdown]
# # 6. Attention: memories look at each other
#
# **Equations 1 and 2, sections 3.1 and 3.2.** About 195 minutes (55 on the core road),
# in three sittings. You need chapter 1 (arrays), chapter 3 (the engine) and chapter 5
# (learning).
#
# A memory of the Relational Memory Core is a matrix $M$ of $N$ rows, its *slots*, each
# $F$ wide. "Each memory will attend over all of the other memories, and will update its
# content based on the attended information":
#
# $$A_\theta(M) = \mathrm{softmax}\left(\frac{M W^q \, (M W^k)^\top}{\sqrt{d_k}}\right)
# M W^v \tag{1}$$
#
# The network learns three matrices, $\theta = (W^q, W^k, W^v)$. Each slot asks a
# question, its *query*; it offers a *key* under which others find it; and it offers a
# *value*, which they get: $Q = M W^q$, $K = M W^k$, $V = M W^v$. Keys are $d_k$ wide,
# values $d_v$.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course, equations, fused
from tinyrmc.course.exercises import attention as ex
from tinyrmc.course.exercises import learning

course.setup()
rng = np.random.default_rng(937)

# %% [markdown]
# ## Who fits whom
#
# Row $i$, column $j$ of $Q K^\top$ is the dot product of query $i$ and key $j$. It is
# large where two arrows point the same way, and negative where they point apart:

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
# Scores can be any numbers. A slot needs *shares*, which are at least 0 and have the
# sum 1: $\mathrm{softmax}(x)_j = e^{x_j} / \sum_k e^{x_k}$.
#
# **Exercise 1.** Write it for the last axis of any array. Some numbers are as large as
# 3000, whose exponential nothing can hold. Some are $-\infty$: "not at all", exactly 0.
# (What happens to the shares if you add the same number to all $x_j$?)


# %%
def softmax(x):
    """x (..., n) -> (..., n), each row at least 0 and with the sum 1."""
    ...


ex.softmax.check(softmax)

# %% [markdown]
# ## Why the root
#
# *Extra: where the root in equation 1 comes from.*
#
# Let the entries of queries and keys be independent, with mean 0 and variance 1. Then a
# dot product is a sum of $d_k$ such products: its variance is $d_k$. Divided by the
# root it is 1 at any width.
#
# Why care? The derivative of share $a_j$ with respect to score $x_k$ is
# $a_j (\delta_{jk} - a_k)$, where $\delta_{jk}$ is 1 for $j = k$ and else 0. Where all
# shares are 0 or 1 it vanishes: no gradient says where to look. **Write down
# first:** without the root, how large is the largest of eight shares at $d_k = 2048$?
#
# **Now draw it yourself.** Make random queries and keys for widths from 2 to 2048, and
# measure the mean largest share of many queries, with the root and without. Draw both
# against the width, with names for curves and axes. The two cells after the next have
# ours, with two measures more.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %%
widths = 2 ** np.arange(1, 12)
raw, largest, slope, samples = {}, {}, {}, course.fast(500, 50)
for name, power in (("divided by √d_k", 0.5), ("not divided", 0.0)):
    for d_k in widths:
        q = rng.normal(size=(samples, 1, d_k))
        k = rng.normal(size=(samples, 8, d_k))
        scores = q @ np.swapaxes(k, -1, -2) / d_k**power
        a = ex.softmax(scores)[:, 0]  # (samples, 8)
        jacobian = a[:, :, None] * (np.eye(8) - a[:, None, :])
        raw.setdefault(name, []).append(scores.std())
        largest.setdefault(name, []).append(a.max(axis=-1).mean())
        slope.setdefault(name, []).append(abs(jacobian).mean())

# %% tags=["hide-input", "hide-output"] alt="Three panels against the width of a key: without the root scores spread like the root of the width, the largest share approaches 1 and derivatives vanish; with it all three stay where they are"
# Draws the three panels
figure, panels = plt.subplots(1, 3, figsize=(10, 3.2))
for panel, values, title in (
    (panels[0], raw, "spread of the scores"),
    (panels[1], largest, "largest of eight shares"),
    (panels[2], slope, "mean |derivative| of a share"),
):
    for name, colour in (("not divided", "C1"), ("divided by √d_k", "C0")):
        panel.semilogx(widths, values[name], "o-", color=colour, label=name)
    panel.set(title=title, xlabel="width of a key, d_k")
panels[0].set_yscale("log")
panels[1].set(ylim=(0, None))
panels[2].set(ylim=(0, None))
root = {"color": "black", "lw": 2, "zorder": 3, "label": "√d_k"}
panels[0].plot(widths, np.sqrt(widths), ":", **root)
panels[0].legend()
plt.show()

# %% [markdown]
# Without the root, a network starts where derivatives are next to 0, if its keys are
# wide and their entries of size 1. (That is measured on random numbers. We have trained
# none here. Chapter 15 does: its networks still learn with too large scores, but with
# wide keys they learn less.)
#
# ## A weighted mean
#
# Each slot gets the mean of all values, weighted by its shares. The root in equation 1
# keeps the scores at one size: a sum of $d_k$ independent products, each of size 1, has
# the size $\sqrt{d_k}$, and large scores make shares near 0 and 1, from which little
# gradient comes.
#
# **Exercise 2.** Equation 1, given queries, keys and values. Leading axes, if any, are
# examples. The number of keys, `R`, need not be that of queries.


# %%
def attention(Q, K, V):
    """Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v) -> (..., N, d_v)."""
    ...


ex.attention.check(attention)
attention = ex.attention.yours(attention)

# %% [markdown]
# Below, three slots look at seven values in the plane. A disc is as large as a share,
# and the diamond is what the slot gets. **Write down first:** where does the last
# one end up, whose scores are all 0?

# %%
angles = 2 * math.pi * (np.arange(7) + rng.uniform(0, 0.6, 7)) / 7
V = rng.uniform(0.5, 1, (7, 1)) * np.c_[1.4 * np.cos(angles), np.sin(angles)]  # (7, 2)
Q, K = 1.5 * rng.normal(size=(3, 2)), rng.normal(size=(7, 2))
Q[2] = 0
home, shares = attention(Q, K, V), ex.attention_weights(Q, K)

# %% tags=["hide-input", "hide-output"] alt="The same seven values in three panels, as discs as large as a slot's shares, with the percents beside them; a diamond marks what the slot gets. Slot 0 looks at two values above all, slot 1 at three that lie together, and its diamond is among them; the last has seven equal discs and its diamond in the middle of all"
# Draws what each slot looks at, and what it gets
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
# **This is a good place to stop.**
#
# ## Queries for the shares that you want
#
# *Extra: equation 1 the other way round.*
#
# **Exercise 3.** You have keys, and the shares that you want.
# Find queries that get them. The keys are linearly independent (so there are at most as
# many as a key is wide), and `P = np.linalg.pinv(K)` is an inverse from the right:
# `K @ P` is the identity, and so is its transpose, `P.T @ K.T`.


# %%
def queries_for(shares, K):
    """shares (N, R), all above 0; K (R, d_k), R <= d_k -> queries (N, d_k)."""
    ...


ex.queries_for.check(queries_for)

# %% [markdown]
# So if keys are linearly independent, queries can get any shares above 0.
#
# ## The way back
#
# *Extra: the gradient of attention by hand.*
#
# (You may skip to "It learns to look", and use ours.) From here on $A$ is the matrix
# of shares. For one head of one example,
#
# $$S = \frac{Q K^\top}{\sqrt{d_k}}, \qquad A = \mathrm{softmax}(S), \qquad O = A V$$
#
# You know the vjp of each station (chapters 3, 4). Let $g$ be the gradient of $O$, and
# write a bar for "the gradient of". Derive $\bar V$ and $\bar A$, then $\bar S$, then
# $\bar Q$ and $\bar K$, before you open the picture. Each gradient has the shape of
# what it belongs to, so each product fits in one way only.

# %% tags=["hide-input", "hide-output"] alt="Two rows of small matrices joined by arrows. Above, from left to right: Q, 3 by 2, and K transposed, 2 by 5, make S, 3 by 5; the softmax makes A of it; A and V, 5 by 4, make O, 3 by 4. Below, from right to left, each in the same shape: the gradient g of O, those of V and A, that of S, and those of K and Q"
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
# Here $r_i = \sum_j \bar A_{ij} A_{ij}$. A score's gradient is positive where its value
# points along $g$ more than the mean that the slot has got.
#
# **Write down first:** a slot is certain, with one share of 1. What is its row of
# $\bar S$?
#
# **Exercise 4.** Write it, with any leading axes. `vjps` has what you wrote in chapters
# 3 and 4: `vjps.stacks_vjp(g, a, b)` and `vjps.softmax_vjp(g, y)`.

# %%
vjps = course.vjps(4)
vjps


# %%
def attention_vjp(g, Q, K, V):
    """g (..., N, d_v), Q (..., N, d_k), K (..., R, d_k), V (..., R, d_v)
    -> the gradients of Q, K and V.
    """
    ...


ex.attention_vjp.check(attention_vjp)
attention_vjp = ex.attention_vjp.yours(attention_vjp)

# %% [markdown]
# A row of $\bar S$ has the sum 0, and that of a certain slot *is* 0: no gradient tells
# it where to look.
#
# ## It learns to look
#
# *Extra: your attention trains on your own tape.*
#
# A small question. Five rows carry a weekday and a number from 0 to 5. You are asked
# for a day, and the answer is the number at the *next* day: asked for Tuesday, look for
# Wednesday.
#
# **Exercise 5.** Make one entry of your tape (chapter 3) out of your attention and its
# derivative. `tape.record(result, inputs, vjp)` makes the Node of a result; `vjp` is a
# function of $g$ that gives one gradient for each input.

# %%
LittleTape = course.little_tape()
cross_entropy_vjp, train, adam_step = course.kept(
    "learning", "cross_entropy_vjp", "train", "adam_step"
)


def attend(Q, K, V):
    """Attention of Nodes, which have `data` and `tape` -> a Node."""
    ...


ex.attend.check(attend)
attend = ex.attend.yours(attend)

# %% tags=["hide-input"]
# Draws questions, and makes the loss of a network
DAYS, NUMBERS, ROWS = 7, 6, 5


def draw(rng, count):
    """Rows (count, 5, 13) and questions (count, 1, 13), and the numbers asked for."""
    days = rng.permuted(np.tile(np.arange(DAYS), (count, 1)), axis=1)[:, :ROWS]
    numbers = rng.integers(NUMBERS, size=(count, ROWS))
    asked = (days[:, :1] - 1) % DAYS  # the first row has the next day
    blank = np.zeros((count, 1, NUMBERS))
    rows = np.concatenate([np.eye(DAYS)[days], np.eye(NUMBERS)[numbers]], axis=2)
    questions = np.concatenate([np.eye(DAYS)[asked], blank], axis=2)
    return (rows, questions), numbers[:, 0]


def slopes_of(network):
    """Loss and gradients of network(weights, questions, rows) -> (B, 1, numbers)."""

    def slopes(weights, inputs, targets):
        tape = LittleTape()
        nodes = [tape.watch(w) for w in weights]
        rows, questions = map(tape.watch, inputs)
        z = network(nodes, questions, rows)
        x = z.data[:, 0] - z.data[:, 0].max(axis=1, keepdims=True)
        of_each = np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(x)), targets]

        def vjp(g):
            return (cross_entropy_vjp(g, x, targets)[:, None],)

        loss = tape.record(of_each, (z,), vjp).mean()
        return float(loss.data), tape.gradient(loss, nodes)

    return slopes


def learnt(network, *shapes, seed=0, rate=0.03):
    """The share of right answers after training."""
    start = np.random.default_rng(seed)
    weights = [start.normal(size=shape) / math.sqrt(shape[0]) for shape in shapes]
    rule, steps = learning.adam_rule(adam_step, rate), course.fast(400, 20)
    batches = (lambda step: draw(np.random.default_rng([1, seed, step]), 64)), steps
    _, weights = train(weights, slopes_of(network), rule, *batches)
    (rows, questions), targets = draw(np.random.default_rng(2), 2000)
    tape = LittleTape()
    nodes = [tape.watch(w) for w in weights]
    z = network(nodes, tape.watch(questions), tape.watch(rows)).data[:, 0]
    return np.mean(z.argmax(axis=1) == targets)


# %% [markdown]
# ## Why three matrices
#
# *Extra: what is lost with one matrix for queries and keys.*
#
# Three networks learn it: with three matrices, with one for queries and keys, and with
# none: $\mathrm{softmax}(q \, Z^\top) Z$, then a layer. **Write down first:** which of
# them can find the *next* day, all week? (A guess is right one time in six.)

# %% tags=["hide-output"]
D = DAYS + NUMBERS


def three(weights, questions, rows):
    W_q, W_k, W_v = weights
    return attend(questions @ W_q, rows @ W_k, rows @ W_v)


def one_for_both(weights, questions, rows):
    W, W_v = weights
    return attend(questions @ W, rows @ W, rows @ W_v)


def none(weights, questions, rows):
    return attend(questions, rows, rows) @ weights[0]


looks, brings = (D, 16), (D, NUMBERS)
print(f"three matrices:            {learnt(three, looks, looks, brings):.1%}")
print(f"one for queries and keys:  {learnt(one_for_both, looks, brings):.1%}")
print(f"none before the attention: {learnt(none, brings):.1%}")

# %% [markdown]
# That is one start each. Measured beforehand, from three starts at three rates, three
# matrices get to 100 % at the best of these. One for both gets to 88 % from two starts
# and to 46 % from the third, none to 40 % (40 to 41). (The best rate is chosen on the
# same questions, and a few of them came in training, too.) That none of these gets to
# 100 % follows from symmetry. Without matrices a day fits itself best. With one for
# both, the score is *symmetric*: Tuesday fits Wednesday as well as Wednesday fits
# Tuesday. For Wednesday to prefer Thursday, that pair must fit better still, and so on
# from day to day: the week does not close, and some day fails. (Why one start stays at
# 46 % we do not know.) With $W^q$ and $W^k$ a question may differ from its answer, and
# $W^v$ says what is brought.
#
# ## Heads
#
# One set of shares is one way to look. With several *heads* a slot looks in several
# ways at once: each head has matrices of its own, and the results lie side by side.
# Below, one head asks for the same colour, the other for the same shape:

# %%
colours = np.eye(3)[[0, 0, 1, 2, 1]]  # two orange, blue, green, blue
shapes = np.eye(2)[[0, 1, 0, 1, 1]]  # disc or square
things = np.hstack([colours, shapes])  # (5, 5)
by_colour, by_shape = np.diag([1, 1, 1, 0, 0]), np.diag([0, 0, 0, 1, 1])
heads = np.stack([4 * by_colour, 4 * by_shape])  # W_q, (2, 5, 5); W_k is half of it
maps = ex.attention_weights(things @ heads, things @ (heads / 2))

# %% tags=["hide-input"] alt="The shares of two heads over five things that are orange, blue or green, and discs or squares. In the first map each thing looks at those of its colour, in the second at those of its shape"
# Draws the shares of both heads
figure, panels = plt.subplots(1, 2, figsize=(8, 3.8))
looks = [("C1", "o"), ("C1", "s"), ("C0", "o"), ("C2", "s"), ("C0", "s")]
for panel, map_, title in zip(panels, maps, ("colour", "shape"), strict=True):
    panel.imshow(map_, cmap="Greys", vmin=0, vmax=1.2)
    for (i, j), share in np.ndenumerate(map_):
        look = {"color": "white" if share > 0.6 else "black", "fontsize": 8}
        panel.text(j, i, f"{share:.2f}", ha="center", va="center", **look)
    for k, (colour, marker) in enumerate(looks):
        style = {"color": colour, "marker": marker, "s": 110, "clip_on": False}
        panel.scatter([-0.95, k], [k, -0.95], **style)
    panel.set(xlim=(-0.5, 4.5), ylim=(4.5, -0.5), xticks=[], yticks=[])
    panel.set_title(f"a head for {title}", pad=34)
    panel.set_ylabel("looks", labelpad=26)
    panel.set_xlabel("looked at")
plt.show()

# %% [markdown]
# ## Find the line: heads that mix
#
# *Extra: a frequent mistake with heads.*
#
# `np.einsum` names the axes: in `"nf,hfd->hnd"` the letter `f` is on the left only, so
# it is summed over; all others stay. Somebody writes all heads at once with it. **The
# symptom:** one head is right, and with two, slots get pieces of other slots.
#
# **Exercise 6.** Mend it.


# %%
def all_heads(M, W_q, W_k, W_v):
    """M (N, F), W_q, W_k (H, F, d_k), W_v (H, F, d_v) -> (N, H * d_v)."""
    Q, K, V = (np.einsum("nf,hfd->hnd", M, W) for W in (W_q, W_k, W_v))
    scores = np.einsum("hnd,hrd->hnr", Q, K) / math.sqrt(Q.shape[-1])
    heads = np.einsum("hnr,hrd->hnd", ex.softmax(scores), V)
    return heads.reshape(len(M), -1)


ex.all_heads.check(all_heads)
M, W = rng.normal(size=(3, 4)), rng.normal(size=(3, 2, 4, 2))
for H in (1, 2):
    found, right = (each(M, *W[:, :H]) for each in (all_heads, ex.all_heads))
    print(f"H = {H}: off by {abs(found - right).max():.2f}")

# %% [markdown]
# **This is a good place to stop.**
#
# ## Equation 2: the input is one more row
#
# How does anything get into the memory? As a row to look at: $[M; x]$ is $M$ with the
# input below it, made as wide as a slot beforehand.
#
# $$\widetilde{M} = \mathrm{softmax}\left(\frac{M W^q \, ([M; x] W^k)^\top}{\sqrt{d_k}}
# \right) [M; x] W^v \tag{2}$$
#
# The slots ask; slots and input answer. The input asks nothing, so the memory keeps its
# size.
#
# **Exercise 7.** Equation 2 with heads. Each example has a memory and an input of its
# own. $x$ becomes a row by `x[..., None, :]`, and `np.concatenate([..., ...], axis=-2)`
# puts rows below each other. (Do not write `M @ W_q` for all heads at once: with as
# many examples as heads it multiplies example 0 by head 0, example 1 by head 1.)


# %%
def encode_with_heads(M, x, W_q, W_k, W_v):
    """M (..., N, F), x (..., F), W_q, W_k (H, F, d_k), W_v (H, F, d_v)
    -> (..., N, H * d_v).
    """
    ...


ex.encode_with_heads.check(encode_with_heads)

# %% [markdown]
# Here it is with one head; shares are percents. What comes from the input will have an
# orange frame. **Write down first:** which matrices have none?

# %%
N, F, d_k, d_v = 4, 6, 3, 6
M, x = rng.normal(size=(N, F)), rng.normal(size=F)
W_q, W_k, W_v = (rng.normal(size=(F, each)) / math.sqrt(F) for each in (d_k, d_k, d_v))
W_q = 2 * W_q  # so that the shares differ visibly
Z = ex.append_rows(M, x)
weights = ex.attention_weights(M @ W_q, Z @ W_k)

# %% tags=["hide-input", "hide-output"] alt="Two rows of matrices. Above: the memory with the input below it, five rows, leads to queries with four rows, to keys and to values with five. Below: queries times keys transposed lead to a table of shares, four by five, which times the values makes the result, four by six. The input's row of the memory, of keys and values and its column of the transposed keys and of the shares are framed; queries and result have no frame"
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
# The queries and the result have no frame: the input asks nothing, and gets no row.
#
# Now a question about its size. If an input is all zeros, does it count for nothing?
# Multiply $x$ by a number $s$. **Write down first:** which share do the slots give it
# at $s = 0$?

# %%
lengths = np.linspace(-4, 4, 121)
memories = np.broadcast_to(M, (len(lengths), N, F))  # one example for each length
Z = ex.append_rows(memories, lengths[:, None] * x)
share = ex.attention_weights(M @ W_q, Z @ W_k)[..., -1]  # (lengths, slots)

# %% tags=["hide-input", "hide-output"] alt="The share that each of four slots gives to the input against the factor that multiplies the input: two fall from nearly 1 and from 0.8 to 0, two rise slowly; at factor 0 no share is zero"
# Draws the input's share
figure, panel = plt.subplots(figsize=(6.5, 3.2))
for i in range(N):
    panel.plot(lengths, share[:, i], label=f"slot {i}")
panel.axvline(0, color="0.7", lw=1, zorder=0)
panel.set(xlabel="factor s of the input s x", ylabel="share of the input", ylim=(0, 1))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# At $s = 0$ its score is 0, and 0 is a score like any other: an input of zeros takes a
# share, and gives back zeros. To say "nothing has come", give it the score $-\infty$.
# That is a *mask*.
#
# ## Transformers, and a mask for time
#
# *Extra: what else the same attention makes.*
#
# The same equation carries the networks that write texts. What differs is who looks.
# Here the slots of a memory do. In a *Transformer* (Vaswani and others, 2017) it is the
# words of a text; in one that writes, each word looks at those before it. In chapter 20
# (memory networks) a question looks at sentences. A Transformer keeps a row for every
# word; our memory keeps $N$ slots, however long the text.
#
# A word that you want to predict must not be seen. So each moment's scores for the
# future become $-\infty$: a *causal* mask. **The symptom:** below, symbols come from a
# fair die with eight faces, which nobody can predict; a guess costs $\ln 8 = 2.08$. And
# yet the loss falls far below.
#
# **Exercise 8.** Find the line.


# %%
def shares_of_the_past(scores):
    """Moment t sees itself and what was before: (..., T, T) -> (..., T, T)."""
    T = scores.shape[-1]
    seen = np.tri(T, k=1) > 0
    return ex.softmax(np.where(seen, scores, -np.inf))


ex.shares_of_the_past.check(shares_of_the_past)

# %% tags=["hide-input"]
# Learns to predict the next of eight symbols, with these shares
FACES, T = 8, 6


def foresight(shares, rate=0.3):
    """The mean loss of the last twenty steps."""
    scores, values, losses = np.zeros((T, T)), np.zeros((FACES, FACES)), []
    for step in range(course.fast(300, 10)):
        symbols = np.random.default_rng([3, step]).integers(FACES, size=(64, T + 1))
        X, targets = np.eye(FACES)[symbols[:, :-1]], symbols[:, 1:]
        A = shares(scores)
        p = ex.softmax(A @ (X @ values))  # (64, T, faces)
        losses.append(-np.log(np.take_along_axis(p, targets[..., None], 2)).mean())
        g = (p - np.eye(FACES)[targets]) / 64
        values -= rate * np.einsum("btf,btc->fc", X, A.T @ g)
        by_A = np.einsum("btc,brc->tr", g, X @ values)
        scores -= rate * A * (by_A - (by_A * A).sum(axis=1, keepdims=True))
    return np.mean(losses[-20:])


# %%
print(f"with the shares above: loss {foresight(shares_of_the_past):.2f}")
print(f"mended:                loss {foresight(ex.shares_of_the_past):.2f}")
print(f"a guess:               loss {math.log(FACES):.2f}")

# %% [markdown]
# ## In the package
#
# *Extra: the same in the library.*
#
# The same functions, with the array library `xp` as their first argument, so that they
# run on NumPy, on a GPU and on the tape. Training uses one operation for all of it,
# `fused.attention`, with your derivative:

# %%
course.show(equations.attention_weights, equations.multi_head_attention)

# %%
Q, K, V = rng.normal(size=(3, 2, 4, 8))  # two examples of four slots; one head
together = np.concatenate([Q, K, V], axis=-1)  # side by side, as one product makes them
packaged = fused.attention(together, num_heads=1, key_size=8).data
np.allclose(packaged, attention(Q, K, V), rtol=1e-12)

# %% [markdown]
# **What was not shown.** That several heads learn more than one, or that slots learn
# anything by looking at each other: the weights of heads and of equation 2 were given.
#
# ## Takeaways
#
# - Shares are at least 0 and have the sum 1; a slot gets a weighted mean.
# - At the start, where entries have the size 1, the root keeps scores, and so their
#   gradients, at one size whatever the width. *(From an extra section.)*
# - $W^q$ and $W^k$ let a question differ from its answer; $W^v$ says what is brought.
#   *(Extra, too.)*
# - Each head has shares of its own; their results lie side by side.
# - The input is one more row to look at. It does not look itself.
#
# **Further.** What happens to the orange curves if queries and keys are twice as long?
# With the root, and keys 64 wide, from how many keys on is the largest share below one
# half on average? And with keys 4 wide?
# The released code lets the input ask as well and then drops its row: does that change
# one step? Two rounds of attention in a row?

# %% tags=["hide-cell"]
# Answer 1
# The scores become four times as large, as if the keys were sixteen times as wide: the
# curves move four points to the left.
samples = course.fast(2000, 200)
for d_k, longer in ((8, 1), (8, 2), (128, 1)):
    q = longer * rng.normal(size=(samples, 1, d_k))
    k = longer * rng.normal(size=(samples, 8, d_k))
    share = ex.softmax(q @ np.swapaxes(k, -1, -2)).max(axis=-1).mean()
    print(f"width {d_k:3}, {longer} times as long: largest share {share:.2f}")

# %% tags=["hide-cell"]
# Answer 2
# With two keys it is above one half, by necessity. Where keys are 64 wide, it falls
# below with the fifth; where they are 4 wide, with the fourth. (The root gives scores
# the same size at every width, but not the same distribution.)
samples = course.fast(20_000, 200)
for d_k in (4, 64):
    print(f"width {d_k}:", end="")
    for R in range(2, 7):
        q, k = rng.normal(size=(samples, 1, d_k)), rng.normal(size=(samples, R, d_k))
        share = ex.attention_weights(q, k).max(axis=-1).mean()
        print(f"  {R} keys {share:.3f}", end="")
    print()

# %% tags=["hide-cell"]
# Answer 3
# It does not change one step: a query makes a row of its own and touches no other, so a
# row that you drop might as well not have asked. It changes two rounds: in the second,
# the slots look at an input that has itself looked around.
M, x = rng.normal(size=(4, 6)), rng.normal(size=6)
W_q, W_k, W_v = rng.normal(size=(3, 6, 6)) / math.sqrt(6)


def all_ask(Z):
    return attention(Z @ W_q, Z @ W_k, Z @ W_v)


asked = all_ask(ex.append_rows(M, x))
once = ex.encode(M, x, W_q, W_k, W_v)
print("one step the same:  ", np.allclose(asked[:-1], once))
twice = ex.encode(once, x, W_q, W_k, W_v)
print("two rounds the same:", np.allclose(all_ask(asked)[:-1], twice))
