# %% [markdown]
# # 2. Puzzles
#
# **Arrays, in one line.** As long as you like. You need chapter 1 (arrays). What is
# said of gradients, and the last questions, can wait until after chapter 6 (attention).
#
# Here are fifteen small functions. Each is one line, of a kind that you meet again in
# this course. The first eight come now; the others are a second set, for whenever you
# like; and a sixteenth is for you to invent. The rules make puzzles of them:
#
# | allowed | not allowed |
# |---|---|
# | `return` and one expression, however long | a loop, a comprehension, a second line, `if`, `and`, `or`, `lambda` |
# | operators, among them `@`, and comparisons | `sum`, `eye`, `cumsum`, any other function |
# | `np.where`, `np.arange`, `.shape`, `.T` | `len(x)`: write `x.shape[0]` |
# | numbers, `None`, `...` and slices in brackets: `x[:, None]` | arrays in brackets, as in `table[labels]`; a list, a tuple |
# | the line of an earlier puzzle, copied | a call of an earlier puzzle; one more argument, `f=np.sum` |
#
# What is left is broadcasting, comparing and multiplying. Most of the puzzles compare a
# column with a row, often of `arange`, and eight of them are a product, too. `check`
# looks at your numbers, and then reads your line. Each picture shows what goes in, and
# what comes out: blue numbers are above 0, orange ones below, and dark ones are far
# from it. (Each grid has its own shades: do not compare those of two grids.) In a table
# of truths blue is `True` and white `False`. Once you have written a line, `check` also
# draws the case that it names: what is asked for, and beside it your result, where
# cells that differ have a dashed frame.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import course
from tinyrmc.course.exercises import puzzles as ex

course.setup()


# %% tags=["hide-input"]
# Draws a puzzle: its arguments as grids, an arrow, and what comes out
def picture(puzzle, **arguments):
    grids = [(name, as_grid(name, each)) for name, each in arguments.items()]
    grids.append(("", as_grid("", puzzle(**arguments))))
    width = sum(grid.shape[1] + 1.2 for _, grid in grids)
    height = max(len(grid) for _, grid in grids)
    _, panel = plt.subplots(figsize=(0.42 * width + 0.4, 0.42 * height + 0.5))
    left = 0.0
    for name, grid in grids:
        if not name:  # what comes out
            arrow = {"arrowstyle": "-|>", "color": "0.4"}
            panel.annotate("", (left + 0.5, 0.5), (left - 0.7, 0.5), arrowprops=arrow)
            left += 1.2
        draw_cells(panel, left, grid)
        panel.text(left - 0.5, 1.1, name, va="bottom")
        left += grid.shape[1] + 0.6
    panel.set(xlim=(-0.7, left), ylim=(0.6 - height, 1.8), aspect="equal")
    panel.axis("off")


def as_grid(name, value):
    """Rows and columns. A number for each row is a column; units of 1 are left out."""
    array = np.asarray(value)
    if array.ndim == 1 and name in ("labels", "lengths", "order"):
        return array[:, None]
    return np.atleast_2d(array[..., 0] if array.ndim == 3 else array)


def draw_cells(panel, left, grid):
    """Above 0 blue, below orange, darker is further away; True is dark, False empty."""
    largest = max(float(abs(grid).max()), 1.0)
    for (row, column), number in np.ndenumerate(grid):
        strength = 0.6 * abs(float(number)) / largest
        place = (left + column - 0.5, -row + 0.02)
        colour = "C0" if number >= 0 else "C1"
        look = {"facecolor": colour, "edgecolor": "none", "alpha": strength}
        panel.add_patch(plt.Rectangle(place, 1, 0.96, **look))
        panel.add_patch(plt.Rectangle(place, 1, 0.96, fill=False, edgecolor="0.75"))
        if grid.dtype != bool:
            middle = left + column, 0.5 - row
            panel.text(*middle, f"{number:.2g}", ha="center", va="center", fontsize=9)


# %% [markdown]
# **The first set.**
#
# ## 1. Ones
#
# A row of $n$ ones. A product with it is a sum.

# %% alt="Four cells in a row, a 1 in each"
picture(ex.ones, n=4)


# %%
def ones(n):
    """n ones: a number -> (n,)."""
    ...


ex.ones.check(ones)

# %% [markdown]
# ## 2. Total
#
# The sum of all entries of a vector. Some of them may be 0.

# %% alt="A row of four numbers, 3, -1, 4 and 2, and beside it their sum, 8"
picture(ex.total, x=np.array([3.0, -1.0, 4.0, 2.0]))


# %%
def total(x):
    """The sum of all entries: x (N,) -> a number."""
    ...


ex.total.check(total)

# %% [markdown]
# ## 3. Identity
#
# Ones on the diagonal, as in the first memory of the released code (chapter 11).

# %% alt="A square of four by four cells, ones on the diagonal and zeros elsewhere"
picture(ex.identity, n=4)


# %%
def identity(n):
    """Ones on the diagonal, else zeros: a number -> (n, n)."""
    ...


ex.identity.check(identity)

# %% [markdown]
# ## 4. One-hot
#
# Labels become rows with a single 1, as symbols do in most of this course.

# %% alt="Three labels, 2, 0 and 1, and beside them three rows of four cells with a 1 in column 2, 0 and 1"
picture(ex.one_hot, labels=np.array([2, 0, 1]), C=4)


# %%
def one_hot(labels, C):
    """A 1 at each label's place: labels (B,), of C classes -> (B, C)."""
    ...


ex.one_hot.check(one_hot)

# %% [markdown]
# ## 5. Look up
#
# Each word takes its row from a table. As array code that would be `table[labels]`. As
# a product it is the line you have just written, times the table.

# %% alt="Labels 2, 0 and 2, a table of three rows, and the rows 2, 0 and 2 of the table"
picture(
    ex.look_up, labels=np.array([2, 0, 2]), table=np.array([[1.0, 2], [3, 4], [5, 6]])
)


# %%
def look_up(labels, table):
    """A row of the table for each label: labels (B,), table (C, F) -> (B, F)."""
    ...


ex.look_up.check(look_up)

# %% [markdown]
# ## 6. Causal mask
#
# A network that predicts the next word must not look at it. Row $t$ says at which times
# $s$ the time $t$ may look.

# %% alt="A square of four by four cells, true on and below the diagonal"
picture(ex.causal_mask, T=4)


# %%
def causal_mask(T):
    """Which times s may time t look at? Those up to itself: a number -> (T, T), True
    and False.
    """
    ...


ex.causal_mask.check(causal_mask)

# %% [markdown]
# ## 7. Padding mask
#
# Sequences of different lengths lie in one array, filled up behind their ends. Which
# entries count?

# %% alt="Lengths 2, 4 and 1, and three rows of four cells: the first 2, 4 and 1 of them are true"
picture(ex.padding_mask, lengths=np.array([2, 4, 1]), T=4)


# %%
def padding_mask(lengths, T):
    """True inside each sequence, False behind its end: lengths (B,) -> (B, T)."""
    ...


ex.padding_mask.check(padding_mask)

# %% [markdown]
# ## Tables of truths in a calculation
#
# From here on a comparison is a factor, or a term of a sum. **Write down first** what
# each of the four lines in the next cell gives.

# %% tags=["hide-output"]
seen = np.arange(3)[:, None] >= np.arange(3)  # the causal mask of three times
print("1.0 * seen, row 2:", (1.0 * seen)[2])
print("1.0 * seen @ (1, 1, 1):", 1.0 * seen @ np.ones(3))
print("seen @ (True, True, True):", seen @ (np.ones(3) > 0))
try:
    print("seen - seen:", seen - seen)
except TypeError as problem:
    print("seen - seen:", type(problem).__name__)

# %% [markdown]
# Beside numbers, `True` counts as 1 and `False` as 0. Between two tables of truths
# nothing is counted: `@` only says whether there is a place where both are `True`, `+`
# means "or", and `-` is refused. So write `1.0 *` before one of them.
#
# ## 8. Cumulative sum
#
# Row $t$ becomes the sum of the rows up to $t$. Think of a mask as a matrix of numbers.

# %% alt="Four rows of two numbers, and beside them their running sums down the columns"
picture(ex.cumulative_sum, x=np.array([[1.0, 0], [2, 1], [3, 0], [4, 1]]))


# %%
def cumulative_sum(x):
    """Row t is the sum of the rows up to t: x (..., T, F) -> (..., T, F)."""
    ...


ex.cumulative_sum.check(cumulative_sum)

# %% [markdown]
# **The second set.**
#
# ## 9. Changes
#
# From each row subtract the row before it; the first stays as it is. (That undoes
# puzzle 8. So which matrix do you need?)

# %% alt="Running sums, and beside them the four rows that they were made of"
picture(ex.changes, x=np.array([[1.0, 0], [3, 1], [6, 1], [10, 2]]))


# %%
def changes(x):
    """Row t less row t - 1, the first as it is: x (..., T, F) -> (..., T, F).

    That undoes `cumulative_sum`.
    """
    ...


ex.changes.check(changes)

# %% [markdown]
# ## 10. Shuffle
#
# Slots in another order, as in chapter 7 (invariants).

# %% alt="A memory of four slots, an order, and the slots 2, 0, 3 and 1 below each other"
picture(
    ex.shuffle,
    M=np.array([[0.0, 0], [1, 1], [2, 2], [3, 3]]),
    order=np.array([2, 0, 3, 1]),
)


# %%
def shuffle(M, order):
    """Slot i of the result is slot order[i] of M: M (..., N, F), order (N,)."""
    ...


ex.shuffle.check(shuffle)

# %% [markdown]
# ## 11. Unshuffle
#
# And back again, without sorting the order.

# %% alt="A shuffled memory, the order that did it, and the four slots in their first order"
picture(
    ex.unshuffle,
    M=np.array([[2.0, 2], [0, 0], [3, 3], [1, 1]]),
    order=np.array([2, 0, 3, 1]),
)


# %%
def unshuffle(M, order):
    """Undo `shuffle` with this order: M (..., N, F), order (N,)."""
    ...


ex.unshuffle.check(unshuffle)

# %% [markdown]
# ## 12. Ranks
#
# How many are smaller? Nothing needs to be sorted: compare every number with every
# other.

# %% alt="Four numbers, 30, 10, 20 and 50, and their ranks, 2, 0, 1 and 3"
picture(ex.ranks, x=np.array([30.0, 10, 20, 50]))


# %%
def ranks(x):
    """How many of all numbers are smaller than each of them: x (N,) -> (N,)."""
    ...


ex.ranks.check(ranks)

# %% [markdown]
# ## 13. Heads
#
# The $F$ units of a row belong to $H$ heads, side by side. Which units share a head?

# %% alt="A square of six by six cells with three true blocks of two by two along the diagonal"
picture(ex.head_mask, F=6, H=3)


# %%
def head_mask(F, H):
    """Which of F units share one of H heads, which lie side by side -> (F, F), True and
    False.
    """
    ...


ex.head_mask.check(head_mask)

# %% [markdown]
# ## 14. Last step
#
# The output of each sequence's last step, and not what stands behind its end. (In the
# picture each step has a single unit, so `x` is drawn without its last axis.)

# %% alt="Three sequences of three steps, their lengths 2, 3 and 1, and the steps 2, 5 and 6"
picture(
    ex.last_step,
    x=np.array([[[1.0], [2], [9]], [[3], [4], [5]], [[6], [9], [9]]]),
    lengths=np.array([2, 3, 1]),
)


# %%
def last_step(x, lengths):
    """The last step inside each sequence: x (B, T, F), lengths (B,) -> (B, F)."""
    ...


ex.last_step.check(last_step)

# %% [markdown]
# ## 15. Gates
#
# Equation 7 with a gate for each slot, where $\sigma(x) = 1 / (1 + e^{-x})$ is the
# *sigmoid*: near 1 for large $x$, near 0 for very negative $x$. Here you may use
# `np.exp` and `np.tanh`, too.

# %% alt="A memory of two slots, gates and what is new: the first slot stays as it was, the second is written anew"
picture(
    ex.gated,
    M=np.array([[4.0, 4], [4, 4]]),
    f=np.array([[9.0], [-9]]),
    i=np.array([[-9.0], [9]]),
    new=np.array([[4.0, -4], [4, -4]]),
)


# %%
def gated(M, f, i, new):
    """sigmoid(f) M + sigmoid(i) tanh(new), equation 7 with a gate for each slot.

    M, new (..., N, F), f and i (..., N, 1) -> (..., N, F).
    """
    ...


ex.gated.check(gated)

# %% [markdown]
# ## 16. Your own
#
# Invent a puzzle whose result has rows and columns: a function of one line, by the same
# rules, that is none of the fifteen. Draw its arguments with
# `rng = np.random.default_rng(seed)`, at least some of them, and draw its result into
# `panel`, an empty picture: `panel.imshow(result)`, and a name for each axis with
# `panel.set(xlabel=..., ylabel=..., title=...)`. Then give it to somebody else.


# %%
def my_puzzle(seed, panel):
    """Draws into panel -> your function, and the tuple of its arguments."""
    ...


ex.my_puzzle.check(my_puzzle)
my_puzzle = ex.my_puzzle.yours(my_puzzle)

# %% alt="A puzzle of one's own: eight numbers against themselves, dark where two of them are less than 3 apart, so that the diagonal is dark"
figure, panel = plt.subplots(figsize=(3.2, 3.2))
puzzle, arguments = my_puzzle(0, panel)
plt.show()
print("its arguments:", *arguments)

# %% [markdown]
# ## What falls short
#
# A line that you cannot read a week later is no gain, and a matrix of zeros and ones is
# a costly way to move rows. The next cell takes the time of puzzle 8 and of NumPy's own
# `cumsum`. In three runs on one core of an Intel Xeon, which had other work, too, the
# product took 4 to 5, 26 to 36 and 136 to 205 times as long, for 64, 512 and 2,048 rows
# of 16 units.

# %% tags=["varies"]
for T in (64, 512, 2048):
    x, seconds = np.ones((T, 16)), []
    for summed in (ex.cumulative_sum, lambda x: x.cumsum(axis=-2)):
        began = time.process_time()
        for _ in range(10):
            summed(x)
        seconds.append(time.process_time() - began)
    print(f"{T:4} rows: the product takes {seconds[0] / seconds[1]:4.0f} times as long")

# %% [markdown]
# So use the library's `cumsum` and `take`. What is worth keeping is the idea: a sum, a
# sum under a mask, a shuffle and a look into a table are each a product with a matrix,
# and the gradient goes back through its transpose.
#
# ## Takeaways
#
# - Comparing a column with a row gives a table of all pairs.
# - A product with ones is a sum, with a one-hot row a look-up, with a mask a sum over
#   what the mask allows.
# - The transpose of a shuffle undoes it, and it also takes the gradient back.
#
# **Further.** Why does `look_up` have a derivative with respect to the table, but none
# with respect to the labels? What does `changes` do to a gradient on its way back?
# Which of the fifteen could attention do, with a softmax of large scores in the place
# of a one-hot row?

# %% tags=["hide-cell"]
# Answer 1
# The result is linear in the table, and each row's gradient is the sum of
# those that came back from its uses, one-hot transposed. A label only enters through a
# comparison. It is flat wherever it is not a jump.
labels, table = np.array([2, 0, 2]), np.zeros((3, 2))
g = np.array([[1.0, 2], [3, 4], [5, 6]])
print("gradient of the table:", *(ex.one_hot(labels, 3).T @ g))
one_more = np.zeros((3, 2))
one_more[2, 1] = 1e-6  # moves the last entry of the table
change = (ex.look_up(labels, table + one_more) - ex.look_up(labels, table)) / 1e-6
print("of its last entry, by a small step:", (g * change).sum().round(6))

# %% tags=["hide-cell"]
# Answer 2
# It becomes the product with the transpose: row t of it less the row after it.
g = np.array([[1.0], [2], [4], [8]])
D = ex.changes(np.eye(4))  # its matrix
print("back:", *(D.T @ g)[:, 0], "  by hand:", *(g - np.vstack([g[1:], [[0.0]]]))[:, 0])

# %% tags=["hide-cell"]
# Answer 3
# It could do those that pick one row: look up, shuffle, unshuffle, last step; and its
# weights alone are one-hot and identity. With one-hot keys and scores of 30, the
# softmax is a one-hot row to twelve digits.
from tinyrmc.course.exercises import attention

order, M = np.array([2, 0, 3, 1]), np.arange(8.0).reshape(4, 2)
queries, keys = 60 * ex.one_hot(order, 4), np.eye(4)
print(np.allclose(attention.attention_weights(queries, keys) @ M, ex.shuffle(M, order)))
