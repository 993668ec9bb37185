# %% [markdown]
# # 8. Layer norm and a row-wise MLP: what each slot does by itself
#
# **The $g_\psi$ of equation 7, section 3.3.** About 195 minutes, in three sittings. You
# need chapter 6 (attention) and, for the way back, chapters 3 to 5. In this chapter
# $\gamma$ and $\beta$ are a norm's gain and offset, and $g$ is a gradient.
#
# Attention has brought each slot a row $\widetilde m_i$. Before it is written into the
# memory, $g_\psi$ works on it. The paper says little about it: "we found a
# row/memory-wise MLP with layer normalisation to work best". The code that the authors
# released says the rest:
#
# $$g_\psi(z) = \mathrm{LayerNorm}\left(\mathrm{MLP}(z) + z\right)$$
#
# *Row-wise* means that no slot learns anything about another here. You will measure it.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course, equations
from tinyrmc.course.exercises import attention, learning
from tinyrmc.course.exercises import normalisation as ex

course.setup()
rng = np.random.default_rng(2018)

# %% [markdown]
# ## Layer norm
#
# Take the $F$ numbers of a slot. Subtract their mean. Divide by the standard deviation:
# the root of the mean of the squares that are left, to which a tiny $\varepsilon$,
# $10^{-5}$, is added *under* the root, so that equal numbers are not divided by 0. Then
# each unit is stretched by its gain $\gamma_k$ and moved by its offset $\beta_k$, which
# are learnt, and begin at 1 and 0.
#
# **Exercise 1.** Write it for the last axis of any array. One case has numbers around
# 100,000. (Think of chapter 4 before you take differences of large numbers.)


# %%
def layer_norm(x, gain, offset):
    """x (..., F), gain and offset (F,) -> (..., F)."""
    ...


ex.layer_norm.check(layer_norm)
layer_norm = ex.layer_norm.yours(layer_norm)

# %% [markdown]
# What is left of a row? For three numbers you can see it. Rows with the sum 0 lie in a
# plane, and in the plane those of length $\sqrt 3$ lie on a circle. The norm projects a
# row into the plane, and moves it along its ray onto the circle:

# %%
rows = rng.normal(size=(60, 3)) * [1.0, 0.8, 0.8] + [0.6, 0.0, -0.3]
# Two unit vectors at right angles, both with the sum 0
plane = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
before = rows @ plane.T
after = ex.layer_norm(rows, np.ones(3), np.zeros(3)) @ plane.T

# %% tags=["hide-input"] alt="A cloud of points in the plane of rows with sum zero, and where layer norm moves them: each along its ray onto a circle around the middle"
# Draws the points before and after
figure, panel = plt.subplots(figsize=(5.6, 4))
for start, end in zip(before, after, strict=True):
    panel.plot(*np.stack([start, end]).T, color="0.85", lw=0.8, zorder=1)
panel.scatter(*before.T, s=14, color="C0", label="before, mean taken off")
panel.scatter(*after.T, s=14, color="C1", label="after")
panel.scatter(0, 0, marker="+", color="0.3")
panel.set(aspect="equal", title="rows of three numbers, seen in the plane of sum 0")
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# The norm subtracts a row's mean. Of what is left it keeps the *direction*, and not the
# size.
#
# ## The way back through a norm
#
# *(Second track: you may skip to "Which slot learns of which?", and use ours.)* Name
# the stations, with $s$ for *one over* the standard deviation:
#
# $$d = x - \mathrm{mean}(x), \qquad
# s = \frac{1}{\sqrt{\mathrm{mean}(d \circ d) + \varepsilon}}, \qquad
# n = s \, d, \qquad y = n \circ \gamma + \beta$$
#
# From $y$ to $n$ the gradient becomes $u = g \circ \gamma$. From $n$ to $d$, move $d$
# by a little, $\delta d$, and see how $n = s \, d$ moves: by itself, and because $s$
# moves. First $s$. It is $(\mathrm{mean}(d \circ d) + \varepsilon)^{-1/2}$, and the
# inner mean moves by $2 \, \mathrm{mean}(d \circ \delta d)$, so
#
# $$\delta s = -\tfrac12 \, s^3 \cdot 2 \, \mathrm{mean}(d \circ \delta d)
# = -s^3\, \mathrm{mean}(d \circ \delta d)$$
#
# Then $n$. With $n = s \, d$ put in twice,
#
# $$\delta n = s\, \delta d + d\, \delta s
# = s \left(\delta d - n\, \mathrm{mean}(n \circ \delta d)\right)$$
#
# The loss moves by $\sum_j u_j \, \delta n_j$. In that sum, collect what stands before
# each $\delta d_k$. The first part of $\delta n$ gives $s \, u_k$. The second gives
# $-s \, n_k$ times the mean of all $u_j n_j$. So the gradient of $d$ is
# $s \left(u - n\, \mathrm{mean}(u \circ n)\right)$.
#
# **Write down first:** look at the circle. In which two directions can you move a row
# without changing the result? How large is the gradient along these?
#
# **Exercise 2.** Take the last step, from $d$ to $x$, and write all of it.


# %%
def layer_norm_gradient(g, x, gain, epsilon):
    """The gradient g of y, x (..., F), gain (F,), a number -> that of x (..., F)."""
    ...


ex.layer_norm_gradient.check(layer_norm_gradient)
layer_norm_gradient = ex.layer_norm_gradient.yours(layer_norm_gradient)

# %% tags=["hide-output"]
x, gain, g = (
    rng.normal(size=(1, 16)),
    1 + 0.1 * rng.normal(size=16),
    rng.normal(size=16),
)
by_x = layer_norm_gradient(g[None], x, gain, 1e-5)
n = layer_norm(x, np.ones(16), np.zeros(16))
for name, along in {"along the row of ones": 1.0, "along n": n}.items():
    print(f"{name:22} {(by_x * along).sum():8.5f}")
print(f"length                 {np.linalg.norm(by_x):8.5f}")

# %% [markdown]
# Along the row of ones and along $n$ nothing changes, so the gradient has no part
# there. **This is a good place to stop.**
#
# ## Which slot learns of which?
#
# A memory has two axes. The one that you average over decides whether a slot learns
# anything of the others.
#
# **Exercise 3.** Write an instrument that measures it. `process` is any function that
# turns a memory into another one, row for row. Put `row` in the place of one slot, in a
# copy of the memory. Process both memories. How large is the largest change in each
# slot of the result?


# %%
def who_notices(process, M, slot, row):
    """process, a function of M (N, F) -> (N, ...); slot, a number; row (F,)
    -> for each slot the largest change of its result, (N,).
    """
    ...


ex.who_notices.check(who_notices)
who_notices = ex.who_notices.yours(who_notices)

# %% [markdown]
# Here another row takes the place of slot 1, in six processes. **Write down first:** in
# which of them do slots 0, 2 and 3 change, too?


# %%
def random_layers(width, count=2):
    size = width, width
    return [(rng.normal(size=size) / width**0.5, np.zeros(width)) for _ in range(count)]


N, F = 4, 8
ones, zeros = np.ones(F), np.zeros(F)
layers, wide = random_layers(F), random_layers(N * F)
W = [matrix for matrix, _ in random_layers(F, count=3)]


def joint_norm(M):
    """Mean and variance of all slots and units together."""
    return (M - M.mean()) / np.sqrt(M.var() + 1e-5)


def joint_mlp(M):
    """All slots in one long row."""
    return ex.mlp(M.reshape(1, -1), wide).reshape(M.shape)


PROCESSES = {
    "layer norm of each row": lambda M: layer_norm(M, ones, zeros),
    "MLP of each row": lambda M: ex.mlp(M, layers),
    "g_psi: both, and the residual": lambda M: ex.g_psi(M, layers, ones, zeros),
    "layer norm of the whole memory": joint_norm,
    "MLP of all slots side by side": joint_mlp,
    "attention, equation 1": lambda M: attention.attention(
        M @ W[0], M @ W[1], M @ W[2]
    ),
}
M, row = rng.normal(size=(N, F)), rng.normal(size=F)
changes = np.array([who_notices(each, M, 1, row) for each in PROCESSES.values()])

# %% tags=["hide-input", "hide-output"] alt="A table of six processes and four slots: with the first three, made row by row, only the replaced slot 1 changes, and the others stay exactly as they are; with the joint norm, the wide MLP and attention all slots change"
# Draws the table of changes
figure, panel = plt.subplots(figsize=(7, 3.4))
panel.imshow(changes > 0, cmap="Blues", vmin=0, vmax=2, aspect="auto")
for (i, j), change in np.ndenumerate(changes):
    text = f"{change:.2f}" if change else "0"
    panel.text(j, i, text, ha="center", va="center")
panel.set_xticks(range(N), ["slot 0", "slot 1, replaced", "slot 2", "slot 3"])
panel.set_yticks(range(len(PROCESSES)), PROCESSES)
panel.axhline(2.5, color="white", lw=6)
panel.set_title("largest change of a slot")
panel.tick_params(length=0)
panel.spines[:].set_visible(False)
plt.show()

# %% [markdown]
# The other slots change in the last three. For attention that is the purpose. For a
# norm it is a leak: something goes from slot to slot past the attention, and no map of
# shares shows it. How bad is that? Let the numbers of slot 0 be ten and a hundred times
# as large. **Write down first:** how large do the *other* slots come out of a joint
# norm?
#
# **Now draw it yourself**, from a memory of your own of four slots. Multiply slot 0 by
# factors from 1 to 1,000, and draw against the factor how large slots 1 to 3 come out
# (the standard deviation over the units of each, in the mean of the three): once of
# your norm of each row, once of `joint_norm`. Curves and axes have names. The two cells
# after the next have three of the factors, as bars.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %%
M, factors = rng.normal(size=(N, 32)), (1, 10, 100)
larger = [M * np.array([factor, 1, 1, 1])[:, None] for factor in factors]
ones, zeros = np.ones(32), np.zeros(32)
sizes = {
    "norm of each row": [layer_norm(each, ones, zeros).std(axis=1) for each in larger],
    "joint norm": [joint_norm(each).std(axis=1) for each in larger],
}

# %% tags=["hide-input", "hide-output"] alt="The size of four slots after a norm, as bars, when slot 0 is 1, 10 and 100 times as large: with the norm of each row all bars are 1; with the joint norm slot 0 takes 2 and the other three shrink to next to nothing"
# Draws the size of each slot after both norms
figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
for panel, (name, values) in zip(panels, sizes.items(), strict=True):
    for k, (factor, value) in enumerate(zip(factors, values, strict=True)):
        shade = {"color": "C0", "alpha": (0.35, 0.65, 1.0)[k]}
        label = f"slot 0 times {factor}"
        bars = panel.bar(
            np.arange(N) + 0.27 * (k - 1), value, 0.25, label=label, **shade
        )
        panel.bar_label(bars, [f"{each:.2g}" for each in value], fontsize=8)
    panel.set(title=name, xticks=range(N), ylim=(0, 2.3))
    panel.set_xticklabels([f"slot {k}" for k in range(N)])
panels[0].set_ylabel("size after the norm")
panels[0].legend(loc="upper right")
plt.show()

# %% [markdown]
# One large slot takes all the variance. It is an easy mistake: `layer_norm` in
# TensorFlow 1's `contrib`, for one, takes all axes but the first where you do not say
# otherwise. Chapter 15 (breaking it) trains a network with it.
#
# ## Find the line: a memory that changes
#
# **The symptom:** nobody writes to `M`, and after a call it is another memory.
#
# **Exercise 4.** Mend it.


# %%
def norm_of_slots(M):
    """Each slot of M (..., F) with mean 0 and mean square 1 -> (..., F)."""
    d = M
    d -= d.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)


ex.norm_of_slots.check(norm_of_slots)
M = np.array([[1.0, 2.0, 6.0]])
norm_of_slots(M)
print(M)

# %% [markdown]
# ## An MLP, and why it needs a ReLU
#
# A *multi-layer perceptron* is some layers, each a matrix and a bias, with a
# *nonlinearity* between each two. Here it is the *ReLU*, $\max(x, 0)$ for every entry.
# Why is it needed? Without it two layers are one, whatever their numbers:
#
# $$(z W_1 + b_1) W_2 + b_2 = z \, (W_1 W_2) + (b_1 W_2 + b_2)$$
#
# For slots of width 2 you can see what a ReLU does. A grid goes in; the hidden layer
# has five units, two of which are above 0 in the whole square. Where the number that a
# ReLU sees changes its sign, straight lines of the grid get a corner. **Write down
# first:** along how many lines do the corners lie?

# %%
W1 = np.array([[1, 0, 1.0, -0.6, 0.3], [0, 1, 0.4, 1.0, -1.0]])
W2 = np.array([[1, 0], [0, 1], [0.5, 0.6], [-0.7, 0.5], [0.6, -0.4]])
b1, b2 = np.array([2, 2, 0.1, -0.2, 0.3]), np.array([-2.0, -2.0])
maps = {
    "slots that go in": lambda z: z,
    "two layers without ReLU": lambda z: (z @ W1 + b1) @ W2 + b2,
    "two layers with ReLU": lambda z: ex.mlp(z, [(W1, b1), (W2, b2)]),
}

# %% tags=["hide-input", "hide-output"] alt="A square grid with three dashed lines, where a hidden unit is 0. Without ReLU it becomes a parallelogram with straight lines. With ReLU the lines of the grid have corners on the images of the three dashed lines, and are straight between them"
# Draws the grid, where corners will be, and what becomes of both
figure, panels = plt.subplots(1, 3, figsize=(10, 3.3))
line = np.linspace(-1, 1, 201)
grid = [np.stack([np.full_like(line, c), line], axis=1) for c in np.linspace(-1, 1, 9)]
grid += [points[:, ::-1] for points in grid]
square = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
for panel, (title, process) in zip(panels, maps.items(), strict=True):
    for points in grid:
        panel.plot(*process(points).T, color="0.75", lw=0.8)
    for k in (2, 3, 4):
        a, b = W1[:, k]
        along = np.linspace(-2, 2, 801)[:, None] * np.array([-b, a])
        fold = along - b1[k] * np.array([a, b]) / (a * a + b * b)
        fold = fold[abs(fold).max(axis=1) <= 1]
        panel.plot(*process(fold).T, color=f"C{k - 2}", lw=2, ls="--")
    panel.set(title=title, aspect="equal")
    panel.axis("off")
plt.show()

# %% [markdown]
# The corners lie along three lines, and between them all is straight. The next layers
# add corners of their own.
#
# **This is a good place to stop.**
#
# ## The residual
#
# The $z$ in $\mathrm{MLP}(z) + z$ is a *residual*. A fresh MLP alone would put a random
# mixture in the place of all that attention has brought; with $z$ added the block
# begins with what there is plus a random part, and learns what to change.
#
# **Exercise 5.** All of $g_\psi$, with any number of layers: the MLP, the residual, the
# norm.


# %%
def g_psi(z, layers, gain, offset):
    """z (..., N, F), layers from F to F, gain and offset (F,) -> (..., N, F)."""
    ...


ex.g_psi.check(g_psi)

# %% [markdown]
# ## Find the line: only the last block learns
#
# Blocks with a residual, $z \leftarrow z + \tanh(z W)$, in a row, and the walk back
# through them. **The symptom:** the last gradient is right, and the farther back, the
# smaller they are.
#
# **Exercise 6.** Mend it.


# %%
def blocks_back(g, z, weights):
    """g (R, F), the gradient of the last z; z (R, F), the first; matrices (F, F)
    -> their gradients, a list.
    """
    inputs = [z]
    for W in weights:
        inputs.append(inputs[-1] + np.tanh(inputs[-1] @ W))
    found = []
    for z, W in zip(inputs[-2::-1], weights[::-1], strict=True):
        y = np.tanh(z @ W)
        by_product = g * (1 - y * y)
        found.append(z.T @ by_product)
        g = by_product @ W.T
    return found[::-1]


ex.blocks_back.check(blocks_back)
found = blocks_back(*rng.normal(size=(2, 5, 8)), [*rng.normal(size=(6, 8, 8))])
print("sizes, from first to last:", *(f"{np.linalg.norm(g):.3f}" for g in found))

# %% [markdown]
# ## Twelve of them, on your tape
#
# Do norm and residual matter? Train a deep network with and without them. Gain and
# offset learn as well: what are their gradients, if $g$ is that of
# $y = n \circ \gamma + \beta$?
#
# **Exercise 7.** Make an entry of your tape out of your norm and all three gradients.
# As in chapter 5, `x.tape.record(value, (x, gain, offset), vjp)` gives the Node, and
# `vjp(g)` a tuple of three gradients. (Every row uses gain and offset: where a gradient
# has more rows than its array, your tape adds them up.)

# %%
LittleTape = course.little_tape()
cross_entropy_vjp, train, adam_step = course.kept(
    "learning", "cross_entropy_vjp", "train", "adam_step"
)


def norm(x, gain, offset):
    """Layer norm of Nodes: x (..., F), gain and offset (F,) -> a Node."""
    ...


ex.norm.check(norm)
norm = ex.norm.yours(norm)

# %% [markdown]
# Twelve blocks $g_\psi$ in a row, here without biases, now learn to find the nearest
# point, the task of chapter 5, by Adam without warm-up: once as it is, once without
# residuals, once without norms. **Write down first:** which of the three gets furthest
# in 300 steps? Which first loss is far from a guess, $\ln 3 = 1.10$?


# %%
def deep(weights, z, residual, normed):
    """From points (B, 8) to logits (B, 3), through twelve blocks."""
    z = z @ weights[0]
    for k in range(1, len(weights) - 1, 4):
        W1, W2, gain, offset = weights[k : k + 4]
        y = (z @ W1).relu() @ W2
        y = y + z if residual else y
        z = norm(y, gain, offset) if normed else y
    return z @ weights[-1]


# %% tags=["hide-input"]
# Draws the questions, and makes the loss of a network
BLOCKS, WIDTH, STEPS = 12, 32, course.fast(300, 5)


def draw(step):
    """The batch of a step: points (64, 8), and which of three is nearest the last."""
    points = np.random.default_rng([1, step]).uniform(-1, 1, (64, 4, 2))
    distances = np.linalg.norm(points[:, :3] - points[:, 3:], axis=-1)
    return points.reshape(64, 8), distances.argmin(axis=1)


def fresh(seed):
    start, square = np.random.default_rng(seed), (WIDTH, WIDTH)
    weights = [start.normal(size=(8, WIDTH)) / math.sqrt(8)]
    for _ in range(BLOCKS):
        weights += [start.normal(size=square) / math.sqrt(WIDTH) for _ in range(2)]
        weights += [np.ones(WIDTH), np.zeros(WIDTH)]
    return [*weights, start.normal(size=(WIDTH, 3)) / math.sqrt(WIDTH)]


def losses_of(residual, normed, rate=3e-3, seed=0, steps=STEPS):
    """The loss of each step of training."""

    def slopes(weights, inputs, targets):
        tape = LittleTape()
        nodes = [tape.watch(w) for w in weights]
        z = deep(nodes, tape.watch(inputs), residual, normed)
        x = z.data - z.data.max(axis=1, keepdims=True)
        of_each = np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(x)), targets]

        def vjp(g):
            return (cross_entropy_vjp(g, x, targets),)

        loss = tape.record(of_each, (z,), vjp).mean()
        return float(loss.data), tape.gradient(loss, nodes)

    rule = learning.adam_rule(adam_step, rate)
    return train(fresh(seed), slopes, rule, draw, steps)[0]


# %% tags=["hide-output"]
curves = {
    "as it is": losses_of(residual=True, normed=True),
    "without residuals": losses_of(residual=False, normed=True),
    "without norms": losses_of(residual=True, normed=False),
}
for name, losses in curves.items():
    print(f"{name:18} first loss {losses[0]:5.2f}, last {np.mean(losses[-20:]):.2f}")

# %% tags=["hide-input", "hide-output"] alt="Three losses over 300 steps: as it is, the loss falls from above 1 to 0.3; without residuals it stays at the guess; without norms it begins at 8, falls steeply, and ends near 0.3, too"
# Draws the three losses
figure, panel = plt.subplots(figsize=(7, 3))
for name, losses in curves.items():
    parts = np.array_split(losses, min(len(losses), 60))
    middles = (np.arange(len(parts)) + 0.5) * STEPS / len(parts)
    panel.plot(middles, [np.mean(part) for part in parts], label=name)
panel.axhline(math.log(3), color="0.6", lw=0.8, ls="--")
panel.set(xlabel="step", ylabel="loss", ylim=(0, 3))
panel.legend()
plt.show()

# %% [markdown]
# In this one run, at this one rate, twelve blocks without residuals do not get past a
# guess. Can they not learn? And do norms matter? Here are three starts at three rates,
# measured beforehand, also without both:

# %% tags=["hide-output"]
course.measured(8, "residuals")

# %% [markdown]
# They can: at a third of the rate they get below a guess in 300 steps. Given 1,200,
# they get to 0.19 (0.18 to 0.20) without residuals. (With residuals we have not trained
# them so long.) So with residuals they learn sooner, and at a rate at which without
# them 300 steps hardly get below a guess. "It does not learn" is a sentence about a
# network *and* a rate *and* a number of steps: try three rates before you say it.
#
# And the norms? At 3/1000 they end a little lower with norms. But without norms they
# learn at all three rates, also at the largest, where with norms they stay at a guess.
# So in this network, in 300 steps without warm-up, a norm after the residual makes the
# rate more delicate, not less. (That is known of such *post-norm* networks: Xiong and
# others, 2020, say that they need a warm-up, and we have tried none.) Where residuals
# are missing, norms do harm at 3/1000; at a third of that rate none is seen in three
# seeds.
#
# What is much worse without norms, where there are residuals, is the first loss.
# Without norms the signal grows from block to block: in three fresh networks its size
# is 0.7 (0.6 to 0.7) after the first and 6.4 (5.6 to 7.7) after the twelfth. The first
# loss shows it: 5.98 (3.76 to 8.16), where a guess costs 1.10. It learns all the same
# here, at a rate of 3/1000. With norms the first loss is 1.44 (1.34 to 1.59). That is a
# little more than a guess costs: the last norm brings all numbers to the size 1, and of
# these the fresh last layer makes logits of about that size. Without both it is 1.10:
# the signal fades from block to block, and all three logits are next to 0. (A recurrent
# core does its step hundreds of times. Chapter 11 measures how large its memory grows.)

# %% [markdown]
# ## In the package

# %%
course.show(equations.layer_norm, equations.g_psi)

# %% [markdown]
# ## Takeaways
#
# - Layer norm subtracts the mean of a slot, and keeps the direction of what is left. So
#   the gradient that comes back has no part along the row of ones nor, but for
#   $\varepsilon$, along the row itself.
# - It runs over the units of one slot. Over all slots, it would let them see each other
#   past attention.
# - Layers without a nonlinearity between them are one layer.
# - With the residual a block begins with what there is plus a random part, and
#   gradients go past it. With norms, our twelve blocks learnt sooner with it, and also
#   at a rate at which without it 300 steps hardly got below a guess.
# - A norm after the residual kept our first loss nearer to a guess, 1.44 (1.34 to 1.59)
#   and not 5.98 (3.76 to 8.16). But with residuals our blocks learnt at two of three
#   rates with such norms, at all three without.
#
# **Further.** Multiply a row by 10: what becomes of the gradient? What would a joint
# norm and an MLP of all slots cost in parameters, if there were twice as many slots?
# Can a norm with two units tell 3 and 5 from 1 and 100?

# %% tags=["hide-cell"]
# Answer 1
# A row of large numbers has a small s: the gradient is a tenth.
g, x = rng.normal(size=(2, 1, 16))
one, ten = (layer_norm_gradient(g, s * x, np.ones(16), 0.0) for s in (1, 10))
print(f"ratio of the lengths: {np.linalg.norm(ten) / np.linalg.norm(one):.3f}")

# %% tags=["hide-cell"]
# Answer 2
# Row by row they cost nothing more. A joint norm has a gain and an offset for every
# unit of every slot, so twice as many; the matrix of an MLP of all slots has four times
# the numbers.
for slots in (4, 8):
    print(f"{slots} slots of 64: norm {2 * slots * 64:,}, MLP {(slots * 64) ** 2:,}")

# %% tags=["hide-cell"]
# Answer 3
# It cannot. Two numbers less their mean are d and -d, and divided by their size 1 and
# -1: all that is left is which of them is larger.
pairs = np.array([[3.0, 5.0], [1.0, 100.0]])
print(layer_norm(pairs, np.ones(2), np.zeros(2)).round(3))
