# %% [markdown]
# # 8. Layer norm and a row-wise MLP: what each slot does by itself
#
# **The $g_\psi$ of equation 7, section 3.3.** About 130 minutes. You need axes and
# `keepdims` (chapter 1), chapter 7, and for the way back chapters 3 and 3.
#
# Attention has brought each slot something new, the row $\widetilde m_i$ of
# $\widetilde M$. Before it is written into the memory, a function $g_\psi$ works on it.
# You find it in equation 7, above a brace:
#
# $$m_{i,t} = \sigma(f_{i,t} + \tilde b^f) \circ m_{i,t-1}
# + \sigma(i_{i,t}) \circ \underbrace{g_\psi(\widetilde m_{i,t})} \tag{7}$$
#
# Here $m_{i,t}$ is slot $i$ at time $t$, and $\circ$ multiplies entry by entry. Each
# $\sigma(\dots)$ is a *gate*, a row of numbers between 0 and 1: the first says how much
# of the old stays, the second how much of the new is written. Chapter 9 is about gates,
# and about the constant $\tilde b^f$. About $g_\psi$ the paper says no more than this
# (section 3.3):
#
# > The underbrace denotes the modification to a standard LSTM. [...] (briefly, we found
# > a row/memory-wise MLP with layer normalisation to work best)
#
# The code that the authors released tells you the rest. It adds what goes into the MLP
# to what comes out of it, and then normalises:
#
# $$g_\psi(z) = \mathrm{LayerNorm}\left(\mathrm{MLP}(z) + z\right)$$
#
# The words to watch are *row/memory-wise*. In this chapter no slot ever learns anything
# about another, and you will measure that it does not.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import tinyrmc
from tinyrmc import RelationalMemory, course, equations, fused, nn
from tinyrmc import primitives as p
from tinyrmc.course.exercises import encoding
from tinyrmc.course.exercises import normalisation as ex

course.setup()
rng = np.random.default_rng(2018)

# %% [markdown]
# ## Layer norm: mean 0, variance 1
#
# Take the $F$ numbers of one slot, its *units*. Subtract their mean; divide by their
# standard deviation; then let the network stretch and shift each unit by a learnt
# *gain* $g$ and *offset* $b$, which begin at 1 and 0:
#
# $$\mathrm{LayerNorm}(x)_k
# = g_k \, \frac{x_k - \mu}{\sqrt{\mathrm{var} + \varepsilon}} + b_k, \qquad
# \mu = \frac1F \sum_k x_k, \quad \mathrm{var} = \frac1F \sum_k (x_k - \mu)^2$$
#
# The tiny $\varepsilon$, here $10^{-5}$, keeps a slot of equal numbers from being
# divided by zero.
#
# **Exercise 1.** Write it for the last axis of an array of any shape. One case is a row
# of equal numbers; another has numbers around 100,000.


# %%
def layer_norm(x, gain, offset):
    """x (..., F), gain and offset (F,) -> (..., F)."""
    ...


ex.layer_norm.check(layer_norm)

# %% [markdown]
# What does layer norm keep of a row? With gain 1 and offset 0, every row comes out with
# a sum of 0 and a length of $\sqrt F$ (up to $\varepsilon$). For rows of three numbers
# you can see it. The rows whose sum is 0 lie in a plane, and in this plane those of
# length $\sqrt 3$ form a circle. Subtracting the mean is a projection into the plane.
# Dividing by the standard deviation then moves every point along its ray onto the
# circle.

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
# So the norm keeps a *direction*, the direction of the row without its mean, and throws
# size and mean away: 10 times the row gives the same, and so does the row plus a
# constant. What the norm throws away can be of no use later, and it can do no harm
# later either. With gain 1 and offset 0, whatever attention and MLP make of a slot, it
# comes out with the same length. A learnt gain stretches some units more than others,
# so the length then depends on the direction. But it still does not depend on the size
# of what came in.
#
# ## The way back through a norm
#
# Let $L$ be the loss, and write $y$ for the result. Somebody hands you
# $g = \partial L / \partial y$. (In this section $g$ is that gradient. Gain and offset
# are $\gamma$ and $\beta$.) What is the gradient of the row $x$? First name the
# stations on the way there; $s$ is *one over* the standard deviation:
#
# $$d = x - \mathrm{mean}(x), \qquad
# s = \frac{1}{\sqrt{\mathrm{mean}(d \circ d) + \varepsilon}}, \qquad
# n = s \, d, \qquad y = n \circ \gamma + \beta$$
#
# Go back the way the row came. At each station, ask what a small change $\delta$ does.
#
# **From $y$ to $n$.** $\delta y = \delta n \circ \gamma$, so the gradient of $n$ is
# $u = g \circ \gamma$.
#
# **From $n$ to $d$.** A change of $d$ moves $n = s\,d$ by itself, and through $s$.
# Because $s = (\mathrm{mean}(d \circ d) + \varepsilon)^{-1/2}$,
#
# $$\delta s = -\tfrac12 \left(\mathrm{mean}(d \circ d) + \varepsilon\right)^{-3/2}
# \cdot 2\, \mathrm{mean}(d \circ \delta d) = -s^3\, \mathrm{mean}(d \circ \delta d)$$
#
# $$\delta n = s\, \delta d + d\, \delta s
# = s \left(\delta d - n\, \mathrm{mean}(n \circ \delta d)\right)$$
#
# Here $s^3 d$ is $s^2 n$. One of these two $s$ then went into the mean, where $s d$ is
# $n$ again. The loss changes by $\sum u \circ \delta n$. Sorted by $\delta d$, that is
# $\sum s\,(u - n\, \mathrm{mean}(u \circ n)) \circ \delta d$, so
#
# $$\frac{\partial L}{\partial d} = s \left(u - n\, \mathrm{mean}(u \circ n)\right)$$
#
# **From $d$ to $x$.** $\delta d = \delta x - \mathrm{mean}(\delta x)$. What does
# subtracting the mean do to a gradient on its way back? And what is the mean of $n$?
#
# **Write down first:** from the picture of the circle, name two directions in which you
# can move a row without changing the result. How large is the gradient's part in these
# directions?
#
# **Exercise 2.** Take the last step, and write it all as code. Rows are the last axis,
# whatever stands before it. The check compares with the complex step (chapter 4).


# %%
def layer_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = layer_norm(x) * gain + offset, given g = d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    ...


ex.layer_norm_gradient.check(layer_norm_gradient)
my_layer_norm_gradient = ex.layer_norm_gradient.yours(layer_norm_gradient)

# %% [markdown]
# Subtracting the mean is its own transpose: what comes back loses its mean. And $n$ has
# the mean 0, so
#
# $$\frac{\partial L}{\partial x}
# = s \left(u - \mathrm{mean}(u) - n\, \mathrm{mean}(u \circ n)\right)$$
#
# You can understand this without a calculation. If you move a row along the row of
# ones, off the plane of the circle, nothing changes in the result. If you move it along
# its ray $n$, nothing changes either (up to $\varepsilon$). So the gradient has no part
# in these two directions: the formula removes from $u$ its part in each of them. Here
# is that for a row of sixteen, and beside it what the tape finds:

# %%
x, gain = rng.normal(size=(1, 16)), 1 + 0.1 * rng.normal(size=16)
with tinyrmc.Tape() as tape:
    watched = tape.watch(x)
    normed = fused.layer_norm(watched, gain, np.zeros(16))
    weights = rng.normal(size=(1, 16))  # the loss is a weighted sum of the result
    loss = p.sum(normed * weights)
gradient = tape.gradient(loss, watched)
by_hand = my_layer_norm_gradient(weights, x, gain, 1e-5)
n = ex.layer_norm(x, np.ones(16), np.zeros(16))
print("by hand as on the tape:                     ", np.allclose(by_hand, gradient))
print("part along the row of ones, nearly 0:       ", abs(by_hand.sum()) < 1e-12)
print("part along the normalised row, nearly 0:    ", abs((by_hand * n).sum()) < 1e-4)
print(f"length of the gradient, for comparison:      {np.linalg.norm(by_hand):.2f}")

# %% [markdown]
# And the factor $s$ in front? A row of large numbers has a small $s$. Multiply a row by
# 10, and its gradient is a tenth: the larger the row, the less the result changes when
# one number moves a little.
#
# Gain and offset learn as well. Every row uses them, so they get sums over all rows: of
# $g \circ n$ for the gain, of $g$ for the offset.

# %% [markdown]
# ## Whose business is it?
#
# A memory has two axes, slots and units. Which of them you average over decides who
# learns about whom. Here is a tool to find out.
#
# **Exercise 3.** `process` is a function that turns a memory into another memory.
# Replace one slot by another row, and process the memory before and after. Say for each
# slot how much its result changes at most.


# %%
def who_notices(process, M, slot, row):
    """process(M), M (N, F) -> (N, anything); slot, a number; row (F,)
    -> the largest change of each slot (N,).
    """
    ...


ex.who_notices.check(who_notices)

# %% [markdown]
# Here are several things that a network might do with a memory of four slots. Each time
# another row takes the place of slot 1, and the table shows the largest change of every
# slot. The next section explains the MLPs. For now it is enough to know that one gets
# each row by itself, and the other gets all slots side by side in one long row.
#
# **Write down first:** in which of the six do slots 0, 2 and 3 notice the change?


# %%
def random_layer(width):
    return rng.normal(size=(width, width)) / math.sqrt(width), np.zeros(width)


def random_layers(width, count=2):
    return [random_layer(width) for _ in range(count)]


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
    "layer norm of each row": lambda M: ex.layer_norm(M, ones, zeros),
    "MLP of each row": lambda M: ex.mlp(M, layers),
    "g_psi: both, and the residual": lambda M: ex.g_psi(M, layers, ones, zeros),
    "layer norm of the whole memory": joint_norm,
    "MLP of all slots side by side": joint_mlp,
    "attention, equation 1": lambda M: encoding.attention(M @ W[0], M @ W[1], M @ W[2]),
}
M, row = rng.normal(size=(N, F)), rng.normal(size=F)
changes = [ex.who_notices(process, M, 1, row) for process in PROCESSES.values()]
changes = np.array(changes)  # (processes, N)

# %% tags=["hide-input"] alt="A table of six processes and four slots: with the first three, made row by row, only the replaced slot 1 changes, and the others stay exactly as they are; with the joint norm, the wide MLP and attention all slots change"
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
# Above the gap there are three zeros in each row, exactly 0: the other slots do not
# notice. Below the gap every slot does. For attention that is the purpose. For a norm
# it is a leak: information goes from slot to slot past the attention, through a common
# mean and a common variance, and no map of attention weights will ever show it.
#
# How bad is that? Let slot 0 grow louder and look at how large the *other* slots come
# out. **Write down first:** with a joint norm, how large are they when slot 0 is a
# hundred times as loud?

# %%
loudness = np.geomspace(1, 100, 30)
M = rng.normal(size=(N, 32))
sizes = {"norm of each row": [], "joint norm": []}
for factor in loudness:
    loud = M * np.array([factor, 1, 1, 1])[:, None]
    by_row = ex.layer_norm(loud, np.ones(32), np.zeros(32))
    sizes["norm of each row"].append(by_row[1:].std())
    sizes["joint norm"].append(joint_norm(loud)[1:].std())

# %% tags=["hide-input"] alt="Size of the three other slots after the norm as slot 0 is multiplied by 1 to 100: with the norm of each row it stays at 1, with the joint norm it falls like one over the loudness"
# Draws the size of the other slots
figure, panel = plt.subplots(figsize=(6.5, 3))
for name, values in sizes.items():
    panel.loglog(loudness, values, label=name)
panel.set(xlabel="slot 0 is multiplied by", ylabel="spread of slots 1 to 3")
panel.legend()
plt.show()

# %% [markdown]
# With a norm for each row the other slots stay as they are. With a joint norm, one loud
# slot takes up the whole variance and presses them down, to a fiftieth in the end.
#
# A joint norm is an easy mistake: some libraries' layer norm takes *all* axes but the
# first unless you say otherwise. Chapter 15 shows what it does to a network that trains
# with it.
#
# ## A row-wise MLP
#
# A *multi-layer perceptron* is a matrix and a bias, a bend, then another matrix and
# bias:
#
# $$\mathrm{MLP}(z) = \max(z W_1 + b_1,\ 0)\, W_2 + b_2$$
#
# The bend is the *ReLU* (rectified linear unit), the maximum with 0, entry by entry.
# With more layers there is a ReLU between each two, and none after the last, so that
# the result may be negative. Row-wise costs no effort: `z @ W` multiplies every row by
# the same $W$.
#
# **Exercise 4.** Write it. `layers` is a list of pairs, weight and bias, with at least
# one pair.


# %%
def mlp(z, layers):
    """z (..., F), layers [(weight (in, out), bias (out,)), ...] -> (..., last out)."""
    ...


ex.mlp.check(mlp)

# %% [markdown]
# Why the bend? Without it, two layers are one: $(z W_1) W_2 = z\,(W_1 W_2)$. For slots
# of width 2 you can see what each does to the plane. A grid of points goes in. Without
# ReLU it comes out sheared, with straight lines. With ReLU it comes out bent along
# several lines, up to six, one for each column of $W_1$: there the number that the ReLU
# sees changes its sign.

# %%
depth, line = np.linspace(-1, 1, 13), np.linspace(-1, 1, 101)
grid = [np.stack([np.full_like(line, c), line], axis=1) for c in depth]
grid += [points[:, ::-1] for points in grid]  # the lines across
W1, b1 = rng.normal(size=(2, 6)), 0.5 * rng.normal(size=6)
W2, b2 = rng.normal(size=(6, 2)) / 2, np.zeros(2)
straight = W1 @ W2, b1 @ W2  # the same two layers without ReLU, as one

# %% tags=["hide-input"] alt="A square grid, the same grid after two layers without ReLU, a parallelogram with straight lines, and after two layers with ReLU, bent along several lines"
# Draws the grid and what becomes of it
figure, panels = plt.subplots(1, 3, figsize=(9, 3.1))
maps = {
    "slots that go in": lambda z: z,
    "two layers without ReLU": lambda z: ex.mlp(z, [straight]),
    "two layers with ReLU": lambda z: ex.mlp(z, [(W1, b1), (W2, b2)]),
}
for panel, (title, process) in zip(panels, maps.items(), strict=True):
    for k, points in enumerate(grid):
        panel.plot(*process(points).T, color="C0" if k < len(depth) else "C1", lw=0.9)
    panel.set(title=title, aspect="equal", xticks=[], yticks=[])
plt.show()

# %% [markdown]
# ## The residual
#
# The released code adds $z$ to what the MLP makes of it, *before* the norm. This is
# called a *residual*. A fresh MLP has random weights: on its own it would scramble
# everything that attention has brought. With $z$ added, the candidate starts out much
# like the row that came out of attention, and the MLP learns what to change.
#
# **Exercise 5.** The whole of it:
# $g_\psi(z) = \mathrm{LayerNorm}(\mathrm{MLP}(z) + z)$.


# %%
def g_psi(z, layers, gain, offset):
    """z (..., N, F), layers from F to F, gain and offset (F,) -> (..., N, F)."""
    ...


ex.g_psi.check(g_psi)

# %% [markdown]
# You see what norm and residual are for when you apply $g_\psi$ again and again, as a
# recurrent network does. The weights are fresh, the same in every round, and the curves
# are averages over many draws. They show the size of a slot (the standard deviation of
# its units), how similar it still is to its start (the correlation of its units with
# those of round 0), and how alike two slots become that began with nothing in common.
#
# **Write down first:** which of the two, norm or residual, keeps a slot from growing?
# Which keeps two slots from becoming alike?

# %%
F, draws, rounds = 64, course.fast(60, 6), 10
gain, offset = np.ones(F), np.zeros(F)
FORMS = {
    "as it is": lambda z, layers: ex.g_psi(z, layers, gain, offset),
    "no residual": lambda z, layers: ex.layer_norm(ex.mlp(z, layers), gain, offset),
    "no norm": lambda z, layers: ex.mlp(z, layers) + z,
}


def room():
    """For each form a number for each draw and round."""
    return {name: np.zeros((draws, rounds + 1)) for name in FORMS}


size, left, alike = room(), room(), room()


def correlation(a, b):
    return np.corrcoef(a, b)[0, 1]


for draw in range(draws):
    weights, start = random_layers(F), rng.normal(size=(2, F))  # two slots
    for name, form in FORMS.items():
        z = start
        for k in range(rounds + 1):
            size[name][draw, k] = z.std()
            left[name][draw, k] = correlation(z[0], start[0])
            alike[name][draw, k] = correlation(*z)
            z = form(z, weights)

# %% tags=["hide-input"] alt="Three panels over ten rounds: without the norm the size of a slot grows a hundredfold and more; with the residual more of the start is left; without it two slots become alike sooner"
# Draws sizes and likenesses
figure, panels = plt.subplots(1, 3, figsize=(10, 3.1))
titles = ("size of a slot", "likeness to its start", "likeness of two slots")
# The first curve is broad and pale, because the others run over it.
styles = ({"lw": 7, "alpha": 0.35}, {"marker": "s"}, {"marker": "^"})
for panel, values, title in zip(panels, (size, left, alike), titles, strict=True):
    for (name, value), style in zip(values.items(), styles, strict=True):
        panel.plot(value.mean(axis=0), ms=4, label=name, **style)
    panel.set(title=title, xlabel="rounds")
panels[0].set_yscale("log")
panels[0].legend()
plt.show()

# %% [markdown]
# Left: without the norm, slots grow in every round, from the third on by more than
# half. Middle: without the residual, one round of a fresh MLP leaves nothing of what a
# slot was. Right: the same MLP makes all slots more and more alike, and much sooner
# without the residual. In these two panels the green curve runs along the broad blue
# one, because likeness does not depend on size: the MLP has no biases here, so what it
# makes of $10 z$ is ten times what it makes of $z$. The norm is there for the size.
#
# ## As many slots as you like
#
# About these parameters and those of the gates the paper says (section 3.3):
#
# > Since parameters $W^f$, $W^i$, $W^o$, $U^f$, $U^i$, $U^o$, and $\psi$ are shared for
# > each $m_i$, we can modify the number of memories without affecting the number of
# > parameters.
#
# $\psi$ is what $g_\psi$ learns: the matrices and biases of the MLP, the gain and the
# offset.
#
# **Exercise 6.** Count the numbers in $\psi$. Here `layers` is the number of the MLP's
# layers.


# %%
def g_psi_parameters(N, F, layers):
    """N slots of width F; an MLP with `layers` layers, each from F to F
    -> how many trainable numbers g_psi has.
    """
    ...


ex.g_psi_parameters.check(g_psi_parameters)

# %% [markdown]
# Here is that count for slots of width 64, beside what the two leaks above would cost.
# A joint norm has as many gains and offsets as there are units in the whole memory. An
# MLP of all slots side by side has a matrix of $N F$ by $N F$. **Write down first:**
# how much does twice the number of slots cost each of the three?

# %%
slots = 2 ** np.arange(8)
F = 64
by_row = np.array([ex.g_psi_parameters(N, F, 2) for N in slots])
counts = {
    "$g_\\psi$, row by row": by_row,
    "with a joint norm": by_row + 2 * (slots - 1) * F,
    "with an MLP of all slots": [ex.g_psi_parameters(1, N * F, 2) for N in slots],
}

# %% tags=["hide-input"] alt="Parameters against the number of slots, both axes logarithmic: g_psi is a flat line, the joint norm rises slowly above it, the MLP of all slots rises with the square"
# Draws the numbers of parameters
figure, panel = plt.subplots(figsize=(6.5, 3))
for (name, values), style in zip(counts.items(), ("o-", "s-", "^-"), strict=True):
    panel.loglog(slots, values, style, ms=4, label=name)
panel.set(xlabel="number of slots", ylabel="parameters")
panel.set_xticks(slots, slots)
panel.minorticks_off()
panel.legend()
plt.show()

# %% [markdown]
# Row by row, twice the slots cost nothing; a joint norm costs $2F$ numbers more for
# each slot, and an MLP of all slots four times its matrix. What holds for $g_\psi$ row
# by row holds for the whole core, gates and attention included. The course's trained
# network has four slots. Its weights fit into a core with one slot, or with nine,
# because none of them knows how many slots there are:

# %%
trained = tinyrmc.load(course.assets() / "nth_farthest_4x4.npz").core
weights = {name: parameter.data for name, parameter in trained.named_parameters()}
D, heads = trained.input_size, (trained.head_size, trained.num_heads)
x = np.zeros((1, D), np.float32)
for mem_slots in (1, trained.mem_slots, 9):
    core = RelationalMemory(D, mem_slots, *heads)
    core.load_parameters(weights)
    output, memory = core(x, core.initial_state(1))
    print(f"slots: {mem_slots}, parameters: {core.num_parameters:,}, ", end="")
    print(f"memory: {memory.shape}, output: {output.shape}")

# %% [markdown]
# The output does grow: it is all slots side by side, so whatever reads it afterwards
# must know their number.
#
# ## In the package

# %%
course.show(equations.layer_norm, equations.mlp, equations.g_psi)

# %% [markdown]
# In training, the norm and the residual are one operation, `fused.layer_norm`, with the
# derivative of exercise 2. `nn.LayerNorm` holds its gain and offset. A linear layer
# with its bias and its ReLU is another operation, `fused.linear`. Here is $g_\psi$ made
# of these, as `RelationalMemory` does it, beside the solution on the same numbers:

# %%
z = rng.normal(size=(2, 4, 16))
first = nn.Linear(16, 16, relu=True, dtype=np.float64)
second = nn.Linear(16, 16, dtype=np.float64, seed=1)
norm = nn.LayerNorm(16, np.float64)
layers = [(layer.weight.data, layer.bias.data) for layer in (first, second)]
packaged = norm(second(first(z)), z).data
gain, offset = norm.gain.data, norm.offset.data
np.allclose(packaged, ex.g_psi(z, layers, gain, offset), rtol=1e-12)

# %% [markdown]
# ## Takeaways
#
# - Layer norm keeps the direction of a slot without its mean, and with gain 1 it fixes
#   the length. It gives the same for $x$, $10 x$ and $x + 3$.
# - So the gradient that comes back has no part along the row of ones, and none along
#   the normalised row.
# - The norm runs over the units of one slot. Over all slots jointly it would let them
#   see each other past attention, and tie its parameters to the number of slots.
# - Two layers without a bend between them are one layer.
# - With the residual inside the norm, a slot starts out much as it was.
# - All slots share everything in $g_\psi$, so its size does not depend on how many
#   there are.
#
# **Further.** Can a layer norm with a ReLU after it tell $x$ from $-x$? What does layer
# norm do to slots of width 2, and of width 1? What happens to the sizes in the left
# panel above, if the norm stands before the MLP and not after the sum?

# %% tags=["hide-cell"]
# Answer 1: yes. The norm of -x is minus the norm of x. The ReLU keeps the positive
# units of the one and the negative units of the other, which are different ones.
gain, offset = np.ones(6), np.zeros(6)
x = rng.normal(size=6)
for sign in (1, -1):
    normed = ex.layer_norm(sign * x, gain, offset)
    print(np.maximum(normed, 0).round(2))

# %% tags=["hide-cell"]
# Answer 2: of two numbers it tells which is larger, and nothing else: 1 and -1. One
# number is its own mean, so 0 is left and the offset takes its place.
pairs = rng.normal(size=(4, 2))
print(np.c_[pairs, ex.layer_norm(pairs, np.ones(2), np.zeros(2))].round(3))
print(ex.layer_norm(rng.normal(size=(3, 1)), np.ones(1), np.full(1, 7.0)).ravel())

# %% tags=["hide-cell"]
# Answer 3: they still grow, but no longer by a factor. What the MLP adds in each round
# is of the same size, because it reads normed slots, so the growth is about linear at
# first and slower later.
gain, offset = np.ones(F), np.zeros(F)
z, weights = rng.normal(size=(2, F)), random_layers(F)
before = z
for k in range(10):
    z = ex.mlp(z, weights) + z
    before = ex.mlp(ex.layer_norm(before, gain, offset), weights) + before
    if k % 3 == 0:
        after, first = z.std(), before.std()
        print(f"round {k + 1:2}: no norm {after:8.2f}, norm before the MLP {first:.2f}")
