# %% [markdown]
# # 1. Arrays: a memory and its axes
#
# **The notation of section 3.1.** Twenty-five minutes. You need Python and some NumPy.
#
# Everything in this course is an array, and most mistakes in it are made with axes: a
# sum over the wrong one, a number stretched along another. This chapter is about them,
# on the arrays that matter here, memories. The paper begins with
#
# > some stored memories in matrix $M$, with row-wise compartmentalized memories $m_i$.
# > (Section 3.1)
#
# $$M = \begin{pmatrix} m_1 \\ \vdots \\ m_N \end{pmatrix} \in \mathbb{R}^{N \times F}$$
#
# So row $i$ of $M$ is memory $i$, a *slot* of $F$ numbers, its *units*. (Formulas count
# from 1, Python from 0.)

# %%
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course, equations
from tinyrmc.course.exercises import arrays as ex
from tinyrmc.training.discovery import load_task

course.setup()
rng = np.random.default_rng(11)

# %%
M = rng.normal(size=(3, 5))  # N = 3 slots of F = 5 units
print("shape      ", M.shape)
print("slot 1     ", M[1].round(2))
print("unit 4     ", M[:, 4].round(2), "of every slot")

# %% [markdown]
# ## Axes: which one goes away
#
# A shape is a list of sizes, and each place in it an *axis*. In `(3, 5)` axis 0 is 3
# long and walks from slot to slot; axis 1 is 5 long and walks from unit to unit. A sum,
# a mean or a maximum *along* an axis takes that axis away, and what remains is one
# number for everything else. With `keepdims=True` the axis stays, with size 1. (The
# cell that draws the next picture is folded to one line; code that draws may always be
# skipped.)

# %% tags=["hide-input"] alt="A matrix of three rows and five columns; below it the means along axis 0, one for each of the five columns, and to its right the means along axis 1, one for each of the three rows"
# Draws a matrix and its means
figure, panel = plt.subplots(figsize=(7, 3.6))


def draw(panel, left, top, numbers, name=""):
    """A matrix as squares with its numbers in them."""
    for (i, j), value in np.ndenumerate(numbers):
        panel.add_patch(
            plt.Rectangle(
                (left + j, top - i - 1),
                0.94,
                0.94,
                facecolor=plt.cm.RdBu(0.5 + value / 5),
                edgecolor="none",
            )
        )
        panel.text(
            left + j + 0.47, top - i - 0.53, f"{value:.1f}", ha="center", va="center"
        )
    panel.text(left + numbers.shape[1] / 2, top + 0.15, name, ha="center", va="bottom")


draw(panel, 0, 3, M, "M, shape (3, 5)")
draw(
    panel,
    0,
    -1.2,
    M.mean(axis=0, keepdims=True),
    "M.mean(axis=0), shape (5,): over the slots",
)
draw(
    panel,
    7.5,
    3,
    M.mean(axis=1, keepdims=True),
    "M.mean(axis=1, keepdims=True),\nshape (3, 1): over the units",
)
panel.set(xlim=(-0.2, 10.8), ylim=(-2.3, 4.3), aspect="equal")
panel.axis("off")
plt.show()

# %% [markdown]
# Negative numbers count axes from the end: the last is -1. Here nearly everything is
# written that way, because what stands in front of the slots changes, as we shall see,
# and what stands at the end does not.
#
# ## Broadcasting: small arrays are stretched
#
# Two arrays of different shapes can still be added. NumPy writes the shapes below each
# other, **aligned from the right**, and fills up with 1 on the left. Where the sizes
# agree, good; where one of them is 1, that array is stretched along this axis, as if it
# were repeated; in all other cases it is an error.

# %%
for one, other in (
    ((3, 5), (5,)),
    ((3, 5), (3, 1)),
    ((3, 1), (5,)),
    ((2, 3, 5), (3, 1)),
    ((3, 5), (3,)),
):
    try:
        print(f"{one!s:>10} with {other!s:<7} makes {np.broadcast_shapes(one, other)}")
    except ValueError:
        print(
            f"{one!s:>10} with {other!s:<7} does not fit: the last axes are {one[-1]} and {other[-1]} long"
        )

# %% [markdown]
# So a vector of `F` numbers is added to *every slot*, which is what a bias does; and a
# column of shape `(N, 1)` gives each slot a number of its own, which is what a gate
# does that opens or closes a whole slot (chapter 7). Nothing is copied for it.

# %% alt="A bias, one row of five numbers, is stretched over all three slots; a gate, a column of three numbers, is stretched along the units: the stretched copies are drawn pale"
bias, slot_gate = np.linspace(-2, 2, 5), np.array([[1.0], [0.5], [0.0]])
figure, panels = plt.subplots(1, 2, figsize=(10, 3))
for panel, small, name in (
    (panels[0], bias[None], "bias in M + bias: (5,) as (3, 5)"),
    (panels[1], slot_gate, "gate in M * gate: (3, 1) as (3, 5)"),
):
    for i, j in np.ndindex(3, 5):
        value = np.broadcast_to(small, (3, 5))[i, j]
        real = i < small.shape[0] and j < small.shape[1]
        look = (
            {"alpha": 1, "edgecolor": "0.2"}
            if real
            else {"alpha": 0.35, "edgecolor": "none"}
        )
        panel.add_patch(
            plt.Rectangle(
                (j, 2 - i), 0.94, 0.94, facecolor=plt.cm.RdBu(0.5 + value / 5), **look
            )
        )
        panel.text(
            j + 0.47,
            2.47 - i,
            f"{value:g}",
            ha="center",
            va="center",
            alpha=1 if real else 0.5,
        )
    panel.set(xlim=(-0.2, 5.2), ylim=(-0.2, 3.2), aspect="equal", title=name)
    panel.axis("off")
plt.show()

# %% [markdown]
# Broadcasting has a trap. If there are as many slots as units, a shape that should not
# fit does fit, and NumPy says nothing. Take the mean off every slot, and forget
# `keepdims`:

# %%
square = rng.normal(size=(4, 4))
wrong = square - square.mean(
    axis=-1
)  # (4, 4) with (4,): the means lie along the columns
right = square - square.mean(axis=-1, keepdims=True)  # (4, 4) with (4, 1)
print("means of the slots, wrong:", wrong.mean(axis=-1).round(2))
print("means of the slots, right:", right.mean(axis=-1).round(2) + 0.0)

# %% [markdown]
# **Exercise 1.** Take off every slot's own mean. This is the first half of layer
# normalisation (chapter 6). Whatever stands in front of the last axis stays as it is.


# %%
def centred(M):
    """M (..., N, F) -> (..., N, F), every slot with the mean 0."""
    ...


ex.centred.check(centred)

# %% [markdown]
# ## New axes: every slot with every other
#
# `None` in an index makes a new axis of size 1. With it, broadcasting can pair things.
# `M[:, None]` has the shape `(N, 1, F)`, `M[None]` has `(1, N, F)`; their difference
# has `(N, N, F)`, and its entry `[i, j]` is slot `i` minus slot `j`. One line, no loop.
#
# **Exercise 2.** The squared distance of every slot from every other: what nth farthest
# asks for, if the slots are the vectors. It will also be tried with examples in front
# of the slots, so count axes from the end: in `M[..., :, None, :]` the dots stand for
# all axes in front, and a colon for the whole of one axis.


# %%
def squared_distances(M):
    """M (..., N, F) -> (..., N, N); entry [i, j] is the sum over the units of (m_i - m_j) squared."""
    ...


ex.squared_distances.check(squared_distances)

# %% [markdown]
# Eight points in the plane, and the distances of each from each. The diagonal is 0, and
# the matrix is its own mirror image. Row 3, sorted, answers every question about point
# 3:

# %% alt="Eight numbered points in the plane, and beside them the symmetric matrix of their distances with zeros on the diagonal"
points = rng.uniform(-1, 1, size=(8, 2))
distances = np.sqrt(ex.squared_distances(points))
figure, (plane, matrix) = plt.subplots(1, 2, figsize=(8.5, 3.6))
plane.scatter(*points.T, s=140)
for k, point in enumerate(points):
    plane.annotate(f"{k}", point, ha="center", va="center", color="white", fontsize=8)
plane.set(
    aspect="equal",
    xlim=(-1.15, 1.15),
    ylim=(-1.15, 1.15),
    title="eight slots of two units",
)
shown = matrix.imshow(distances, cmap="Greys")
figure.colorbar(shown, ax=matrix)
matrix.set(
    xlabel="slot", ylabel="slot", xticks=range(8), yticks=range(8), title="distance"
)
plt.show()
print(
    "from 3, the nearest first:", distances[3].argsort()
)  # the places of the entries, that of the smallest first

# %% [markdown]
# ## Batches first, and one matrix for all slots
#
# Training looks at many examples at once. They get an axis of their own, and it always
# comes first: a batch of memories has the shape `(B, N, F)`. What was written for one
# memory works for the batch unchanged, if it counted its axes from the end.
#
# Products too. `@` multiplies the *last two* axes, rows by columns, and broadcasts all
# axes before them:

# %%
batch = rng.normal(size=(2, 3, 5))  # B = 2 memories
W = rng.normal(size=(5, 4))
projected = batch @ W  # (2, 3, 5) @ (5, 4) -> (2, 3, 4)
one_by_one = np.array([[slot @ W for slot in memory] for memory in batch])
print(
    projected.shape, "- the same as slot by slot:", np.allclose(projected, one_by_one)
)

# %% [markdown]
# Every slot of every example was multiplied by the same `W`. This is what the paper
# calls *row-wise shared weights* (figure 1), and why it can say that "we can modify the
# number of memories without affecting the number of parameters" (section 3.3): no axis
# of `W` is as long as the memory has slots.
#
# Weights are laid out `(in, out)` and multiply from the right, because examples and
# slots lie in rows. Where the paper writes $W x$ for a column $x$, the code says
# `x @ W`.
#
# **Exercise 3.** Attention has several heads, each with a matrix of its own. Multiply
# every slot of every example by the matrix of every head. The leading axes are `(B,)`
# and `(H,)`, and the result wants `(B, H)`.


# %%
def project(M, W):
    """M (B, N, F), W (H, F, K) -> (B, H, N, K)."""
    ...


ex.project.check(project)

# %% [markdown]
# ## Views: the same numbers under another shape
#
# In the computer's memory an array is one long row of numbers, and a note on how to
# walk through it: how many places to step for the next row, how many for the next
# column. These are its *strides*. `reshape`, `swapaxes`, slices and broadcasting mostly
# make a new note about the same numbers, a *view*. That costs nothing, but whoever
# writes into a view writes into the original:

# %%
M = np.arange(6.0).reshape(2, 3)
view = M.T  # (3, 2), rows and columns exchanged
view[0, 1] = 100  # row 0, column 1 of the view: row 1, column 0 of M
print(M)
for name, array in (("M", M), ("M.T", view)):
    print(
        "strides of",
        name,
        "in numbers:",
        tuple(stride // array.itemsize for stride in array.strides),
    )  # NumPy counts bytes
print("the same memory:", np.shares_memory(M, view))

# %% [markdown]
# `reshape` cuts the row of numbers in order, the last axis fastest, and knows nothing
# about what the numbers mean. Exchanging axes is something else: it walks in another
# order. Here are two slots of six units, which hold the results of three heads side by
# side. To give the heads an axis of their own, one must cut the last axis first,
# `(N, H, V)`, and then exchange two axes, `(H, N, V)`. Reshaping to `(H, N, V)` at once
# has the right shape and the wrong contents:

# %% alt="Twelve numbered squares in two slots, coloured by the head that made them. Cut and exchanged, each head holds the squares of its colour from both slots; reshaped at once, each head holds squares of two colours"
N, H, V = 2, 3, 2
together = np.arange(N * H * V).reshape(N, H * V)
good = together.reshape(N, H, V).swapaxes(0, 1)  # (H, N, V)
bad = together.reshape(H, N, V)
figure, panels = plt.subplots(1, 3, figsize=(10, 3.3), width_ratios=[1.1, 1, 1])
for panel, stack, title in (
    (panels[0], together[None], "side by side, (N, H V)"),
    (panels[1], good, "reshape, then swapaxes:\neach head's own"),
    (panels[2], bad, "reshape at once:\nthe right shape, mixed up"),
):
    for (h, i, j), number in np.ndenumerate(stack):
        y = -i - (N + 0.8) * h
        panel.add_patch(
            plt.Rectangle(
                (j, y),
                0.94,
                0.94,
                facecolor=f"C{number % (H * V) // V}",
                alpha=0.7,
                edgecolor="none",
            )
        )
        panel.text(j + 0.47, y + 0.47, f"{number}", ha="center", va="center")
        if len(stack) > 1 and j == 0:
            panel.text(
                -0.3,
                y + 0.47,
                f"head {h}, slot {i}",
                ha="right",
                va="center",
                fontsize=9,
            )
        elif j == 0:
            panel.text(-0.3, y + 0.47, f"slot {i}", ha="right", va="center", fontsize=9)
    panel.set(
        xlim=(-3.2 if len(stack) > 1 else -1.5, stack.shape[-1] + 0.2),
        ylim=(-7.8, 1.2),
        aspect="equal",
    )
    panel.set_title(title, fontsize=10)
    panel.axis("off")
plt.show()

# %% [markdown]
# **Exercise 4.** The same for a batch.


# %%
def split_heads(x, H):
    """x (B, N, H * V), the heads side by side -> (B, H, N, V)."""
    ...


ex.split_heads.check(split_heads)

# %% [markdown]
# ## One-hot: a name as a row of numbers
#
# Networks compute with numbers, but labels, characters and answers are names: label 3
# is not three times label 1. So they are written as *one-hot* vectors, 0 everywhere and
# 1 at one place. The rows of the identity matrix are all of them.
#
# **Exercise 5.** Labels of any shape get one more axis at the end. (In NumPy an array
# of integers can be an index.)


# %%
def one_hot(labels, size):
    """Integers (...,) from 0 to size - 1 -> (..., size)."""
    ...


ex.one_hot.check(one_hot)

# %% [markdown]
# Multiplied with a memory, a one-hot row *picks* a slot, and two ones at one half each
# give the mean of two slots. A row of shares that sum to 1 is a softer way of pointing.
# Attention (chapter 4) computes such rows.

# %%
M = rng.normal(size=(3, 4)).round(1) + 0.0
pointers = np.array(
    [[0, 1, 0], [0.5, 0, 0.5]]
)  # slot 1; half of slot 0, half of slot 2
print(M)
print("picked:")
print(pointers @ M)

# %% [markdown]
# The one-hot rows of all slots in another order make a matrix that reorders the slots.
# Nothing in the paper's equations depends on which slot stands where: reorder the
# memory before attention or its result afterwards, and the same comes out. Chapter 5
# holds you to it; here is a first look:

# %%
order = np.array([2, 0, 1])
P = ex.one_hot(order, 3)  # (3, 3)
before = equations.attention(np, P @ M, P @ M, P @ M)
after = P @ equations.attention(np, M, M, M)
print(
    "reordered:",
    np.array_equal(P @ M, M[order]),
    " the same either way:",
    np.allclose(before, after),
)

# %% [markdown]
# ## Several arrays as an index
#
# In `M[order]` one array of integers picked rows. *Two* arrays stand for the first two
# axes: they are broadcast together like any other arrays, and each pair of integers
# names one place, in a matrix a single entry. This also works on the left of `=`, where
# it writes.

# %%
batch = rng.normal(size=(4, 3, 2)).round(1)  # four examples of three slots
examples, chosen = np.arange(4), np.array([2, 0, 0, 1])  # of each example one slot
print(
    batch[examples, chosen].shape,
    "- slot 2 of example 0, slot 0 of example 1, and so on",
)

labels = rng.integers(5, size=(4, 3))  # one label for each slot
marks = np.zeros((4, 3, 5))
marks[examples[:, None], np.arange(3), labels] = (
    1  # indices of shapes (4, 1), (3,) and (4, 3) name 4 x 3 entries
)
print("one-hot, written in place:", np.array_equal(marks, ex.one_hot(labels, 5)))

# %% [markdown]
# ## In the package
#
# Two places that you can now read. The first is `[M; x]` of equation 2, the memory with
# the input as one more row. The second draws examples of nth farthest, thousands at
# once, without a loop over them: look for the new axis that pairs each vector with the
# one asked about, the three one-hot parts that are written in place, and
# `labels[rows, order[rows, rank]]`, one entry for each example.

# %%
course.show(equations.append_rows, load_task("nth_farthest").draw)

# %% [markdown]
# `np.einsum` is a product with named axes: `"bkd,bkd->bk"` multiplies the two arrays
# entry by entry and sums over `d`, which is missing on the right: here the squared
# distances. `rng.permuted` shuffles every row by itself.
#
# ## To take along
#
# - Axis 0 of a memory walks over slots, axis 1 over units; examples, and heads, stand
#   in front. Count from the end.
# - An axis that is summed over goes away; `keepdims=True` keeps it as 1, and a later
#   broadcast then goes the right way.
# - Shapes are aligned from the right. A square array hides mistakes: test with sizes
#   that all differ, and values when they do not.
# - `reshape` cuts, `swapaxes` exchanges. They are not the same, even where the shape
#   is.
# - A view shares its numbers with the original.
#
# **Further.** In which of the five exercises can a mistake leave the shape as it is, if
# all arrays are square? `M[..., :, None, :] - M[..., None, :, :]` makes `N` times as
# many numbers as `M` has: how can squared distances be had from one matrix product
# instead, and what is lost in rounding? Why does reshaping the transpose of a matrix
# have to copy?
