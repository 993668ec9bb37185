# %% [markdown]
# # 1. Arrays: a memory and its axes
#
# **The notation of section 3.1.** About 145 minutes, in two sittings. You need Python
# and some NumPy.
#
# Many mistakes happen with axes: you sum over the wrong one, or stretch numbers along
# the wrong one. Here you practise on memories, matrices whose row $i$ is a *slot* $m_i$
# of $F$ numbers, its *units*:
#
# $$M = \begin{pmatrix} m_1 \\ \vdots \\ m_N \end{pmatrix} \in \mathbb{R}^{N \times F}$$
#
# (Formulas count from 1, Python from 0.) At the end you answer the questions of nth
# farthest, thousands at once, without a loop.

# %%
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb

from tinyrmc import course, equations
from tinyrmc.course.exercises import arrays as ex
from tinyrmc.training.discovery import load_task

course.setup()
rng = np.random.default_rng(11)

# %%
M = rng.normal(size=(3, 5))  # N = 3 slots of F = 5 units
print("shape      ", M.shape)
print("slot 1     ", M[1].round(1))
print("unit 4     ", M[:, 4].round(1), "of every slot")

# %% [markdown]
# ## Axes: which one goes away
#
# In the shape `(3, 5)` axis 0 is 3 long and walks from slot to slot; axis 1 walks from
# unit to unit. A sum, a mean or a maximum *along* an axis removes that axis: one number
# remains for each place along the others. With `keepdims=True` it stays, with size 1.


# %% tags=["hide-input"] alt="A matrix of three rows and five columns; below it the means along axis 0, one for each of the five columns, and to its right the means along axis 1, one for each of the three rows"
# Draws a matrix and its means
def draw_square(panel, x, y, text, **look):
    """A square with a text in it; x and y are those of its lower left corner."""
    look = {"edgecolor": "none", "alpha": 1} | look
    panel.add_patch(plt.Rectangle((x, y), 0.94, 0.94, **look))
    seen = 1 - look["alpha"] * (1 - np.array(to_rgb(look["facecolor"])))
    bright = seen**2.2 @ (0.21, 0.72, 0.07)  # red, green and blue, as eyes weigh them
    colour = "black" if bright > 0.18 else "white"
    centred = {"ha": "center", "va": "center"}
    panel.text(x + 0.47, y + 0.47, text, color=colour, **centred)


def colour_of(value):
    return plt.cm.RdBu(0.5 + value / 5)


def draw(panel, left, top, numbers, name=""):
    """A matrix as squares with its numbers in them."""
    for (i, j), value in np.ndenumerate(numbers):
        colour = colour_of(value)
        draw_square(panel, left + j, top - i - 1, f"{value:.1f}", facecolor=colour)
    middle = left + numbers.shape[1] / 2
    panel.text(middle, top + 0.15, name, ha="center", va="bottom")


figure, panel = plt.subplots(figsize=(7, 3.6))
over_slots = M.mean(axis=0, keepdims=True)
over_units = M.mean(axis=1, keepdims=True)
draw(panel, 0, 3, M, "M, shape (3, 5)")
draw(panel, 0, -1.2, over_slots, "M.mean(axis=0), shape (5,): over the slots")
name = "M.mean(axis=1, keepdims=True),\nshape (3, 1): over the units"
draw(panel, 7.5, 3, over_units, name)
panel.set(xlim=(-0.2, 10.8), ylim=(-2.3, 4.3), aspect="equal")
panel.axis("off")
plt.show()

# %% [markdown]
# Negative numbers count axes from the end: the last is -1. Code that must work with any
# axes in front of the slots counts that way. Where the number of axes is fixed, either
# way will do.
#
# ## Broadcasting: small arrays are stretched
#
# To add two arrays of different shapes, NumPy writes the shapes below each other,
# **aligned from the right**, and fills up the shorter one with 1s on the left. Where
# the sizes agree, all is well. Where one of them is 1, that array is stretched along
# this axis. Anything else is an error.
#
# **Write down first:** what shape does each of the five pairs in the next cell make,
# and which pair does not fit?

# %% tags=["hide-output"]
cases = [((3, 5), (5,)), ((3, 5), (3, 1)), ((3, 1), (5,))]
cases += [((2, 3, 5), (3, 1)), ((3, 5), (3,))]
for one, other in cases:
    pair = f"{one!s:>10} with {other!s:<7}"
    try:
        print(f"{pair} makes {np.broadcast_shapes(one, other)}")
    except ValueError:
        lengths = f"{one[-1]} and {other[-1]}"
        print(f"{pair} does not fit: the last axes are {lengths} long")

# %% [markdown]
# So a vector of `F` numbers is added to *every slot*: that is what a bias does. A
# column `(N, 1)` gives each slot a number of its own: that is what a gate does when it
# opens or closes a whole slot. NumPy copies nothing to do this.

# %%
bias = np.linspace(-2, 2, 5)
slot_gate = np.array([[1.0], [0.5], [0.0]])

# %% tags=["hide-input"] alt="A bias, one row of five numbers, is stretched over all three slots; a gate, a column of three numbers, is stretched along the units: the stretched copies are drawn pale"
# Draws both, the stretched copies pale
figure, panels = plt.subplots(1, 2, figsize=(10, 3))
for panel, small, name in (
    (panels[0], bias[None], "bias in M + bias: (5,) as (3, 5)"),
    (panels[1], slot_gate, "gate in M * gate: (3, 1) as (3, 5)"),
):
    for i, j in np.ndindex(3, 5):
        value = np.broadcast_to(small, (3, 5))[i, j]
        look = {"edgecolor": "0.2"}
        if i >= small.shape[0] or j >= small.shape[1]:  # a stretched copy
            look = {"alpha": 0.35}
        draw_square(panel, j, 2 - i, f"{value:g}", facecolor=colour_of(value), **look)
    panel.set(xlim=(-0.2, 5.2), ylim=(-0.2, 3.2), aspect="equal", title=name)
    panel.axis("off")
plt.show()

# %% [markdown]
# There is a trap. With as many slots as units, a shape that should not fit does fit,
# and NumPy says nothing. Subtract the mean from every slot, and forget `keepdims`.
# **Write down first:** are the means of the slots 0 then? If not, why?

# %% tags=["hide-output"]
square = rng.normal(size=(4, 4))
wrong = square - square.mean(axis=-1)  # (4, 4) with (4,): means along the columns
right = square - square.mean(axis=-1, keepdims=True)  # (4, 4) with (4, 1)
print("means of the slots, wrong:", wrong.mean(axis=-1).round(2))
means = right.mean(axis=-1).round(2) + 0.0  # adding 0.0 makes 0 of -0
print("means of the slots, right:", means)

# %% [markdown]
# **Exercise 1.** Subtract every slot's own mean, the first half of layer normalisation
# (chapter 8). Whatever stands in front of the last axis stays as it is.


# %%
def centred(M):
    """M (..., N, F) -> (..., N, F), every slot with the mean 0."""
    ...


ex.centred.check(centred)

# %% [markdown]
# ## New axes: every slot with every other
#
# `None` in an index makes a new axis of size 1. With it, broadcasting can pair things:
# `M[:, None]` is `(N, 1, F)`, `M[None]` is `(1, N, F)`, and their difference is
# `(N, N, F)`. Its entry `[i, j]` is slot `i` minus slot `j`.
#
# **Exercise 2.** The squared distance of every slot from every other. The check also
# tries it with examples in front, so count axes from the end: in `M[..., :, None, :]`
# the dots stand for all axes in front.


# %%
def squared_distances(M):
    """M (..., N, F) -> (..., N, N); [i, j] sums (m_i - m_j) squared over the units."""
    ...


ex.squared_distances.check(squared_distances)

# %% [markdown]
# Here are eight points in the plane, numbered, and beside them the matrix of their
# distances. Where are its zeros, and why is it symmetric? Row 3, sorted, answers every
# question about point 3.

# %%
points = rng.uniform(-1, 1, size=(8, 2))
distances = np.sqrt(ex.squared_distances(points))

# %% tags=["hide-input"] alt="Eight numbered points in the plane, and beside them the symmetric matrix of their distances with zeros on the diagonal"
# Draws the points and their distances
figure, (plane, matrix) = plt.subplots(1, 2, figsize=(8.5, 3.6))
plane.scatter(*points.T, s=140)
for k, point in enumerate(points):
    plane.annotate(f"{k}", point, ha="center", va="center", color="white", fontsize=8)
plane.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
plane.set_title("eight slots of two units")
shown = matrix.imshow(distances, cmap="Greys")
figure.colorbar(shown, ax=matrix)
matrix.set(xlabel="slot", ylabel="slot", title="distance")
matrix.set(xticks=range(8), yticks=range(8))
plt.show()

# %% [markdown]
# The zeros stand on the diagonal, because every point is at distance 0 from itself. The
# matrix is symmetric, because it is as far from $i$ to $j$ as from $j$ to $i$.

# %%
nearest_first = distances[3].argsort()  # places of the entries, smallest entry first
print("from 3, the nearest first:", nearest_first)

# %% [markdown]
# **Now draw it yourself.** Do distances differ as much when slots have more units? Make
# memories of eight slots with 1, 2, 4, ... up to 256 units, of numbers of your own
# choice, and find the distances of all pairs. Draw the smallest of them (without that
# of a slot from itself) and the largest against the number of units: two curves with
# names, and named axes. **Write down first:** what becomes of the ratio of the two? The
# cell after the next has our picture.

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% tags=["hide-input", "hide-output"] alt="Left: the smallest and the largest distance of eight random slots against the number of their units, both axes logarithmic; both curves rise, and the larger one less steeply. Right: the ratio of the two falls towards 1 where all units are drawn independently; where each slot has only two numbers, mixed into all units, it falls up to four units, and then hardly"
# Draws the smallest and the largest distance for slots of more and more units
units, medians = 2 ** np.arange(9), []
for F in units:
    rng_F = np.random.default_rng(F)
    free = rng_F.normal(size=(100, 8, F))  # 100 memories
    mixed = rng_F.normal(size=(100, 8, 2)) @ rng_F.normal(size=(100, 2, F))
    distance = np.sqrt(ex.squared_distances(np.stack([free, mixed])))
    i, j = np.triu_indices(8, k=1)
    pairs = distance[..., i, j]  # (2, 100, 28)
    low, high = pairs.min(axis=-1), pairs.max(axis=-1)
    medians.append(np.median([low, high, high - low, high / low], axis=-1))
smallest, largest, difference, ratio = np.moveaxis(medians, 0, -1)  # each (2, 9)
figure, (panel, ratios) = plt.subplots(1, 2, figsize=(9, 3))
panel.loglog(units, smallest[0], "o-", base=2, label="smallest")
panel.loglog(units, largest[0], "o-", base=2, label="largest")
panel.set(xlabel="units of a slot", ylabel="distance of two slots")
ratios.loglog(units, ratio[0], "o-", base=2, label="all units independent")
ratios.loglog(units, ratio[1], "o-", base=2, label="two numbers, mixed")
ratios.set(xlabel="units of a slot", ylabel="largest / smallest")
for axis in (panel.xaxis, panel.yaxis, ratios.xaxis, ratios.yaxis):
    axis.set_major_formatter("{x:g}")  # 16, not 2 to the power of 4
panel.legend()
ratios.legend()
plt.show()
print("medians of 100 memories     independent       two numbers, mixed")
print("                        ratio    difference          ratio")
for k in (0, 2, 4, 8):
    numbers = f"{ratio[0, k]:8.1f} {difference[0, k]:11.1f} {ratio[1, k]:17.1f}"
    print(f"{units[k]:3} units {' ' * 10} {numbers}")

# %% [markdown]
# Drawn are medians of 100 memories of normal numbers. The largest distance becomes ever
# fewer times the smallest, but their difference does not shrink. So where units are
# many and drawn independently, who is nearest to whom is a matter of differences that
# are small beside the distances. (Chapter 13 meets that again.) Where units depend on
# each other, the ratio need not fall like that: where each slot has only two numbers,
# which are mixed into all of its units, it hardly falls any more from four units on.
#
# ## Batches first, and one matrix for all slots
#
# Examples of a batch get an axis of their own, which always comes first: `(B, N, F)`.
# Code for one memory works for the whole batch unchanged, if it counts from the end.
# The same goes for products. `@` multiplies the *last two* axes, and broadcasts all
# before. (A vector has only one: `slot @ W` is a vector again, and `x @ y` of two
# vectors is one number, the sum of their products.)

# %%
batch = rng.normal(size=(2, 3, 5))  # B = 2 memories
W = rng.normal(size=(5, 4))
projected = batch @ W  # (2, 3, 5) @ (5, 4) -> (2, 3, 4)
one_by_one = np.array([[slot @ W for slot in memory] for memory in batch])
same = np.allclose(projected, one_by_one)
print(projected.shape, "- the same as slot by slot:", same)

# %% [markdown]
# The same `W` multiplied every slot of every example. Therefore "we can modify the
# number of memories without affecting the number of parameters" (section 3.3): the
# number of slots is not the size of any axis of `W`. Where the paper writes $W x$ for a
# column $x$, the code says `x @ W`, with a `W` that is the paper's transposed.
#
# `np.einsum` is a product with named axes. `"bnf,fk->bnk"` is the one above. A letter
# is an axis. In front of the arrow, a letter that both arrays have, such as `f`, runs
# along both together; letters that only one of them has, such as `n` and `k`, make all
# pairs. The entries are multiplied, and a letter that is missing behind the arrow is
# summed over. `"bnf,bmf->bnm"` compares every slot with every other; `"bnf->bn"` is a
# sum over units.
#
# **Exercise 3.** Attention has several heads, each with a matrix of its own. Multiply
# every slot of every example by the matrix of every head, twice: once with a new axis
# and `@`, once with `einsum`. (The check looks at the numbers, not at which of the two
# it was.)


# %%
def project(M, W):
    """M (B, N, F), W (H, F, K) -> (B, H, N, K)."""
    ...


def project_by_names(M, W):
    """The same, with `einsum`."""
    ...


ex.project.check(project)
ex.project.check(project_by_names)

# %% [markdown]
# **This is a good place to stop.**
#
# ## Views: the same numbers under another shape
#
# In the computer's memory an array is one long row of numbers, and a note on how to
# walk through it, its *strides*: how many places to step for the next row, and how many
# for the next column. `swapaxes` and slices make a new note about the same numbers: a
# *view*. `reshape` does so wherever it can. If you write into a view, you write into
# the original. **Write down first:** what does the next cell print for `M`?

# %% tags=["hide-output"]
M = np.arange(6.0).reshape(2, 3)
view = M.T  # (3, 2), rows and columns exchanged
view[0, 1] = 100  # row 0, column 1 of the view
print(M)
for name, array in (("M", M), ("M.T", view)):
    strides = tuple(step // array.itemsize for step in array.strides)  # NumPy: in bytes
    print(f"strides of {name} in numbers: {strides}")
print("the same memory:", np.shares_memory(M, view))

# %% [markdown]
# `reshape` cuts the row of numbers in order, the last axis fastest. Exchanging axes
# walks through the same row in another order. Here are two slots of six units, the
# results of three heads side by side. You want an axis for the heads: cut the last axis
# in two, `(N, H, V)`, and then exchange two axes, `(H, N, V)`. What if you reshape to
# `(H, N, V)` at once? **Write down first:** which four numbers does head 0 hold then?

# %%
N, H, V = 2, 3, 2
together = np.arange(N * H * V).reshape(N, H * V)
good = together.reshape(N, H, V).swapaxes(0, 1)  # (H, N, V)
bad = together.reshape(H, N, V)

# %% tags=["hide-input", "hide-output"] alt="Twelve numbered squares in two slots, coloured by the head that made them. Cut and exchanged, each head holds the squares of its colour from both slots; reshaped at once, each head holds squares of two colours"
# Draws the three arrays, a colour for each head
figure, panels = plt.subplots(1, 3, figsize=(10, 3.3), width_ratios=[1.1, 1, 1])
for panel, stack, title in (
    (panels[0], together[None], "side by side, (N, H V)"),
    (panels[1], good, "reshape, then swapaxes:\neach head's own"),
    (panels[2], bad, "reshape at once:\nthe right shape, mixed up"),
):
    for (h, i, j), number in np.ndenumerate(stack):
        y = -i - (N + 0.8) * h
        colour = f"C{number % (H * V) // V}"
        draw_square(panel, j, y, f"{number}", facecolor=colour, alpha=0.7)
        if j == 0:
            name = f"slot {i}" if len(stack) == 1 else f"head {h}, slot {i}"
            panel.text(-0.3, y + 0.47, name, ha="right", va="center", fontsize=9)
    left = -1.5 if len(stack) == 1 else -3.2
    panel.set(xlim=(left, stack.shape[-1] + 0.2), ylim=(-7.8, 1.2), aspect="equal")
    panel.set_title(title, fontsize=10)
    panel.axis("off")
plt.show()

# %% [markdown]
# Reshaped at once, head 0 holds 0 to 3: numbers of two heads, and none of slot 1. The
# shape is right and the contents are wrong.
#
# **Exercise 4.** Cut and exchange for a batch.


# %%
def split_heads(x, H):
    """x (B, N, H * V), the heads side by side -> (B, H, N, V)."""
    ...


ex.split_heads.check(split_heads)

# %% [markdown]
# ## One-hot: a name as a row of numbers
#
# Labels and characters are names: label 3 is not three times label 1. So they become
# *one-hot* vectors, rows of the identity matrix: 0 everywhere and 1 at one place.
#
# **Exercise 5.** Labels of any shape get one more axis at the end. (An array of
# integers can be an index.)


# %%
def one_hot(labels, size):
    """Integers (...,) from 0 to size - 1 -> (..., size)."""
    ...


ex.one_hot.check(one_hot)

# %% [markdown]
# Multiply a one-hot row by a memory, and it *picks* a slot. A row of shares that sum to
# 1 is a softer way of pointing. Attention (chapter 6) computes such rows.

# %%
M = rng.normal(size=(3, 4)).round(1) + 0.0  # adding 0.0 makes 0 of -0
pointers = np.array([[0, 1, 0], [0.5, 0, 0.5]])  # slot 1; half of 0, half of 2
print(M)
print("picked:")
print(pointers @ M)

# %% [markdown]
# ## Several arrays as an index
#
# Two arrays of integers index the first two axes, three the first three. They are
# broadcast together, and each pair or triple of integers names one place. On the left
# of `=` such an index says where to write.

# %%
batch = rng.normal(size=(4, 3, 2)).round(1)  # four examples of three slots
examples, chosen = np.arange(4), np.array([2, 0, 0, 1])  # of each example one slot
picked = batch[examples, chosen]
print(picked.shape, "- slot 2 of example 0, slot 0 of example 1, and so on")

labels = rng.integers(5, size=(4, 3))  # one label for each slot
marks = np.zeros((4, 3, 5))
# Indices of shapes (4, 1), (3,) and (4, 3) name 4 x 3 entries.
marks[examples[:, None], np.arange(3), labels] = 1
print("one-hot, written in place:", np.array_equal(marks, ex.one_hot(labels, 5)))

# %% [markdown]
# **Exercise 6.** Now answer chapter 0's question for a whole batch: which point is
# number `n` in distance from point `m`? For a single example you would
#
# - take row `m` of the distances (exercise 2),
# - sort: `np.argsort` of `[30, 10, 20]` is `[1, 2, 0]`, the places of the entries, the
#   smallest entry first,
# - and find the answer at place `n`.
#
# For a batch you need a row, and then a place, of *each* example: that takes two arrays
# as an index, twice. No loop.


# %%
def nth_from(points, m, n):
    """points (B, N, D), m and n (B,) integers -> (B,) integers; 0 is m itself."""
    ...


ex.nth_from.check(nth_from)

# %% [markdown]
# Here are 3,000 questions at once, answered by our solution:

# %%
many = rng.normal(size=(3000, 4, 2))
m, n = rng.integers(4, size=(2, 3000))
found = ex.nth_from(many, m, n)
print(found.shape, "- from point", m[0], "the point number", n[0], "is", found[0])

# %% [markdown]
# ## In the package
#
# Two pieces that you can now read: `[M; x]` of equation 2, the memory with the input as
# one more row, and the drawing of examples of nth farthest.

# %%
course.show(equations.append_rows, load_task("nth_farthest").draw)

# %% [markdown]
# ## Takeaways
#
# - Axis 0 of a memory walks over slots, axis 1 over units. Examples and heads stand in
#   front, so count from the end.
# - An axis that you sum over goes away. `keepdims=True` keeps it with size 1.
# - Shapes are aligned from the right. A square array hides mistakes: test with sizes
#   that all differ. And always test values, too: a wrong `reshape` has the right shape
#   at all sizes.
# - `reshape` cuts, `swapaxes` exchanges. A view shares its numbers with the original.
#
# **Further.** In which of the first five exercises can a mistake leave the shape as it
# is, if all arrays are square? `M[..., :, None, :] - M[..., None, :, :]` makes `N`
# times as many numbers as `M` has: how can you get squared distances from one matrix
# product instead, and what do you lose in rounding? (Exercise 2 accepts that way, too:
# none of its cases loses so much.) Why does flattening the transpose of a matrix have
# to copy?

# %% tags=["hide-cell"]
# Answer 1
# It can in all five. Each of these is wrong, and has the right shape. (The wrong
# reshape of exercise 4, x.reshape(B, H, N, -1), needs no square for that.)
M = rng.normal(size=(3, 3, 3))
for right, wrong in (
    (ex.centred(M), M - M.mean(axis=-1)),
    (ex.squared_distances(M), ((M[:, None] - M) ** 2).sum(axis=-1)),
    (ex.project(M, M), M[None] @ M[:, None]),
    (ex.split_heads(M.reshape(3, 3, 3), 3), M.reshape(3, 3, 3, 1)),
    (ex.one_hot(np.array([1, 2, 0]), 3), ex.one_hot(np.array([1, 2, 0]), 3).T),
):
    print(right.shape == wrong.shape, np.allclose(right, wrong))

# %% tags=["hide-cell"]
# Answer 2
# |a - b|^2 = |a|^2 + |b|^2 - 2 a b, so one product of M with its transpose is
# enough. What you lose: where slots are far from 0 and close together, two large
# numbers are subtracted that agree in most digits. A distance may even come out below
# 0.
for far in (0.0, 1e4, 1e8):
    slots = far + rng.normal(size=(4, 5))
    lengths = (slots**2).sum(axis=-1)
    fast = lengths[:, None] + lengths - 2 * slots @ slots.T
    error = abs(fast - ex.squared_distances(slots)).max()
    print(f"slots at {far:.0e}: error {error:.0e}, smallest {fast.min():.0e}")

# %% tags=["hide-cell"]
# Answer 3
# A flattened array has the entries in the order of the axes. In the transpose that
# order is not the one in memory, and no steps from entry to entry, the same all along
# an axis, walk through it. A view needs such steps (strides), so NumPy copies. Where a
# reshape only adds an axis, the steps are there, and it gives a view.
matrix = np.arange(6.0).reshape(2, 3)
for array in (matrix.T, matrix.T.reshape(3, 1, 2), matrix.T.reshape(6)):
    print(array.shape, "a view:", np.shares_memory(matrix, array))
print("strides:", matrix.strides, matrix.T.strides, "in bytes")
