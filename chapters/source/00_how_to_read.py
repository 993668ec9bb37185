# %% [markdown]
# # 0. How to read this
#
# **Figures 1 and 2 of the paper.** About 30 minutes. You need Python and some NumPy.
#
# These chapters rebuild one idea, the Relational Memory Core, from nothing but arrays:
# its nine equations, the derivatives that train it, the tasks it was made for, and the
# ways in which it breaks. The idea comes from *Relational recurrent neural networks*
# (Adam Santoro and others, 2018, arXiv 1806.01822). We call it "the paper". It begins
# with a doubt:
#
# > Memory-based neural networks model temporal data by leveraging an ability to
# > remember information for long periods. It is unclear, however, whether they also
# > have an ability to perform complex relational reasoning with the information they
# > remember. (Abstract)
#
# Remembering is one thing. *Relating* what you remember is another: which of eight
# remembered points is the fourth farthest from the third? The paper's answer is
#
# > a new memory module [...] which employs multi-head dot product attention to allow
# > memories to interact. (Abstract)
#
# This chapter lets you be that memory for a minute. Then it shows you the module in one
# picture and its tasks in another, explains how the other chapters work, and lists
# them.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import tinyrmc
from tinyrmc import course, equations
from tinyrmc.course.exercises import first as ex
from tinyrmc.training.discovery import load_task

course.setup()

# %% [markdown]
# ## First, be the memory
#
# Below, four points arrive one after the other, as a network gets them. Cover the
# picture, read the four lines once, and then answer the question without looking back.
# Write the label in place of `None` and run the cell: Shift+Enter.

# %%
nth_farthest = load_task("nth_farthest")
layout = (4, 2)  # points, dimensions
example = nth_farthest.draw(np.random.default_rng(1), 1, *layout, layout)
labels, n, m = (part[0] for part in nth_farthest.decode(example["inputs"], layout))
points = example["inputs"][0, :, :2]
for label, (x, y) in zip(labels, points, strict=True):
    print(f"the point with the label {label} lies at ({x:+.1f}, {y:+.1f})")
print(f"Which one is number {n} in distance from point {m}? (Number 1 is the nearest.)")

your_answer = None

if your_answer is not None:
    print("right" if your_answer == example["target"][0] else "no, try again")

# %% tags=["hide-input"] alt="Four labelled points in a square, one of them orange: the one that the question measures distances from"
# Draws the four points
figure, panel = plt.subplots(figsize=(3.2, 3.2))
for label, point in zip(labels, points, strict=True):
    panel.scatter(*point, s=170, color="C1" if label == m else "C0")
    centred = {"ha": "center", "va": "center"}
    panel.annotate(f"{label}", point, color="white", fontsize=9, **centred)
panel.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
panel.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
plt.show()

# %% [markdown]
# What did you keep in mind: the four points, or the distances between them? With the
# picture the question is easy, because you see all distances at once. A network has no
# picture. It has only what its memory has kept, and the paper is about how the things
# in a memory can look at each other.
#
# ## The whole thing in one picture
#
# This is the paper's figure 1, drawn again from one real step of the core: every square
# is a number that the package has computed. A *memory* is a matrix. Each of its rows is
# a *slot*, and here each slot has a colour of its own. So has the input of this time
# step. The darker a square, the larger its number. On a first reading you can skip the
# code that computes the picture. Code that only draws is folded to its first line, here
# and in all chapters; click to open it.
#
# - **(a)** The memory and the input go into the box A, which is attention. Its result
#   passes through a small network, the MLP, and a second path (the residual) leads
#   around that network. Then each row is brought to a common scale (the norm). Gates,
#   numbers between 0 and 1, decide how much of the old memory stays and how much of the
#   new is written. Out come the next memory and the output.
# - **(b)** Inside A, all rows share the same three matrices. The slots get queries; the
#   slots and the input get keys and values.
# - **(c)** Every query is compared with every key. The softmax turns each row of
#   comparisons into shares that sum to 1, and the shares mix the values. So the rows
#   that come out are *blends*: the shares that mix their numbers also mix their colours
#   here. The gates mix the colours of the next memory in the same way.

# %%
rng = np.random.default_rng(14)
N, F = 3, 5  # slots, and units in each
memory, x = rng.normal(size=(N, F)), rng.normal(size=F)
W_q, W_k, W_v = rng.normal(size=(3, F, F)) / np.sqrt(F)
rows = np.vstack([memory, x])  # [M; x], slots and input
queries, keys, values = 1.3 * memory @ W_q, rows @ W_k, rows @ W_v


def random_matrix():
    return rng.normal(size=(F, F)) / np.sqrt(F)


parameters = {"W_q": 1.3 * W_q[None], "W_k": W_k[None], "W_v": W_v[None]}  # one head
for gate in "fio":
    parameters[f"W_{gate}"] = random_matrix()
    parameters[f"U_{gate}"] = random_matrix()
    parameters[f"b_{gate}"] = np.zeros(F)
parameters |= {"mlp": [(random_matrix(), np.zeros(F))], "forget_bias": 1.0}
parameters |= {"gain": np.ones(F), "offset": np.zeros(F)}

# Equations 2 to 9 on a batch of one. `inside` collects what happens within the step.
inside, before = {}, np.tanh(memory)  # `before`: the output of the step before
state = memory[None], before[None]
shown, (next_state, _) = equations.step(np, x[None], state, parameters, inside)
output, next_memory = shown[0], next_state[0]  # (N, F) each

shares = inside["attention"][0][0]  # (N, N + 1)
attended = shares @ values  # equation 1
kept = inside["forget_gate"][0].mean(axis=-1, keepdims=True)  # (N, 1): a slot's average
written = inside["input_gate"][0].mean(axis=-1, keepdims=True)  # (N, 1)

# %% tags=["hide-input"]
# Colours, and three functions that draw with them
NAMES = ("C0", "C2", "C3", "C1")  # three slots and the input
COLOURS = np.array([plt.matplotlib.colors.to_rgb(name) for name in NAMES])  # (N + 1, 3)
CENTRED = {"ha": "center", "va": "center"}
BLENDS = shares @ COLOURS
GATED = (kept * COLOURS[:3] + written * BLENDS) / (kept + written)


def draw_rows(panel, left, top, numbers, colours, cell=0.3, name="", gap=0.06):
    """A matrix as rows of squares; returns the middles of its left and right side."""
    dark = 0.25 + 0.75 / (1 + np.exp(-1.5 * numbers))
    for i, j in np.ndindex(numbers.shape):
        colour = 1 - dark[i, j] * (1 - colours[i])
        corner = (left + j * cell, top - (i + 1) * cell - i * gap)
        look = {"facecolor": colour, "edgecolor": "white", "lw": 0.5}
        panel.add_patch(Rectangle(corner, cell, cell, **look))
    height = len(numbers) * (cell + gap) - gap
    width = numbers.shape[1] * cell
    panel.text(left + width / 2, top + 0.1, name, ha="center", va="bottom")
    middle = top - height / 2
    return (left - 0.05, middle), (left + width + 0.05, middle)


def draw_box(panel, x, y, text, width=0.9, height=0.9, colour="0.93"):
    corner = (x - width / 2, y - height / 2)
    look = {"boxstyle": "round,pad=0,rounding_size=0.08", "edgecolor": "0.3"}
    panel.add_patch(FancyBboxPatch(corner, width, height, facecolor=colour, **look))
    panel.text(x, y, text, **CENTRED)


def draw_arrow(panel, start, end, bend=0.0):
    look = {"arrowstyle": "-|>", "mutation_scale": 11, "color": "0.3"}
    bent = f"arc3,rad={bend}"
    panel.add_patch(FancyArrowPatch(start, end, connectionstyle=bent, **look))


# %% tags=["hide-input"] alt="Three drawings. (a) Coloured memory rows and an input row go into a box A, then through an MLP with a residual way around it and a norm, then through gates, which the old memory also reaches, to the next memory and the output, whose rows have colours between their own and the blended ones. (b) Each row is multiplied by shared matrices into queries of the slots and keys and values of slots and input. (c) A matrix of shares between queries and keys mixes the values into a new memory whose rows have blended colours"
# Draws figure 1
places = [["a", "a"], ["b", "c"]]
ratios = {"height_ratios": [1, 1.25], "width_ratios": [1, 1.25]}
figure, panels = plt.subplot_mosaic(places, figsize=(10, 7.2), **ratios)
for panel in panels.values():
    panel.set(aspect="equal")
    panel.axis("off")

a = panels["a"]
_, from_memory = draw_rows(a, 0, 2.6, memory, COLOURS, name="memory M")
_, from_input = draw_rows(a, 0, 0.6, x[None], COLOURS[3:], name="input x")
draw_box(a, 3, 1.6, "A")
draw_arrow(a, from_memory, (2.5, 1.75))
draw_arrow(a, from_input, (2.5, 1.4))
left, right = draw_rows(a, 4.2, 2.1, attended, BLENDS, name="blended")
draw_arrow(a, (3.5, 1.6), left)
draw_box(a, 7, 1.6, "MLP")
draw_arrow(a, right, (6.5, 1.6))
draw_box(a, 8.2, 1.6, "+", 0.4, 0.4)
draw_arrow(a, (7.5, 1.6), (7.98, 1.6))
draw_arrow(a, (6.0, 1.5), (8.2, 1.38), bend=0.5)
a.text(7.25, 0.72, "residual", ha="center", va="top", color="0.3", fontsize=9)
draw_box(a, 9.3, 1.6, "norm")
draw_arrow(a, (8.42, 1.6), (8.83, 1.6))
draw_box(a, 10.6, 1.6, "gates")
draw_arrow(a, (9.77, 1.6), (10.13, 1.6))
draw_arrow(a, (0.75, 3.05), (10.6, 2.08), bend=-0.16)
note = {"ha": "center", "color": "0.3"}
a.text(5.6, 3.52, "what is kept of the old memory", va="bottom", **note)
draw_arrow(a, (1.6, 0.4), (10.6, 1.12), bend=0.18)
set_by = "the input, and the output of the step before, set the gates"
a.text(5.6, -0.22, set_by, va="top", **note)
for top, name, numbers in ((3.1, "next memory", next_memory), (1.05, "output", output)):
    left, _ = draw_rows(a, 11.8, top, numbers, GATED, name=name)
    draw_arrow(a, (11.07, 1.6), left)
a.set(xlim=(-0.3, 13.5), ylim=(-0.9, 4.1), title="(a) one time step")

b = panels["b"]
_, right = draw_rows(b, 0, 2.7, rows, COLOURS, name="[M; x]")
for top, name, matrix, numbers in (
    (4.6, "W^q", "queries", queries),
    (2.6, "W^k", "keys", keys),
    (0.5, "W^v", "values", values),
):
    left, _ = draw_rows(b, 3.6, top, numbers, COLOURS, name=matrix)
    draw_arrow(b, right, left)
    between = 0.45 * np.array(right) + 0.55 * np.array(left)
    b.text(*between, f"${name}$", backgroundcolor="white", **CENTRED)
b.set(xlim=(-0.3, 5.4), ylim=(-1.2, 5.2), title="(b) the same matrices for every row")

c = panels["c"]
draw_rows(c, 0, 4.4, queries, COLOURS, name="queries")
draw_rows(c, 2.4, 4.6, keys, COLOURS, name="keys")
c.text(1.95, 3.85, r"$\times$", **CENTRED)
draw_arrow(c, (1.95, 3.05), (1.95, 2.5))
c.text(2.15, 2.8, "softmax of the scores", va="center")
cell = 0.5
for i, j in np.ndindex(shares.shape):
    x0, y0 = 0.95 + j * cell, 1.9 - i * cell
    look = {"facecolor": str(1 - 0.8 * shares[i, j]), "edgecolor": "white"}
    c.add_patch(Rectangle((x0, y0 - cell), cell, cell, **look))
    colour = "white" if shares[i, j] > 0.55 else "black"
    middle = (x0 + cell / 2, y0 - cell / 2)
    c.text(*middle, f"{shares[i, j]:.1f}", color=colour, fontsize=9, **CENTRED)
for k in range(N + 1):
    colour, length = COLOURS[k], cell - 0.1
    above = (0.95 + k * cell + 0.05, 1.95)
    c.add_patch(Rectangle(above, length, 0.12, facecolor=colour))
    if k < N:
        beside = (0.78, 1.9 - (k + 1) * cell + 0.05)
        c.add_patch(Rectangle(beside, 0.12, length, facecolor=colour))
c.text(1.95, 0.25, "shares", ha="center", va="top")
c.text(3.25, 1.15, r"$\times$", **CENTRED)
draw_rows(c, 3.6, 1.85, values, COLOURS, name="values")
c.text(5.4, 1.15, "=", **CENTRED)
draw_rows(c, 5.7, 1.67, attended, BLENDS, name="blended")
c.set(xlim=(-0.3, 7.5), ylim=(-0.6, 5.2), title="(c) compare, share out, mix")
plt.show()

# %% [markdown]
# The matrices are random: nothing has been learnt here. And even in a trained network
# you should not read too much into such shares. The paper says of its own maps that
# "the conclusions we can make are limited since even after a single round of attention
# the memory can become highly distributed, making any interpretations about information
# compartmentalisation potentially inaccurate" (section 5.1). Look at the blended rows:
# after a single step none of them belongs to one slot any more. But the gates keep a
# part of the old memory, so you can still see which slot each row of the next memory
# came from:

# %%
print("kept of the old memory, on average:", *kept[:, 0].round(2))
print("written of the new:                ", *written[:, 0].round(2))

# %% [markdown]
# ## What it is for
#
# The paper's figure 2 shows its tasks. Below are real examples of two of them, from the
# code that also makes the training data:
#
# - **Nth farthest.** Vectors arrive one after the other, each with a label, and always
#   with the same question: which one is the nth farthest from vector m? Here n counts
#   from the nearest: number 0 is m itself, number 1 the nearest other vector, and so
#   on. "We emphasize that the model must sort distance relations between vectors, and
#   not the vectors themselves" (section 4.1). The upper right panel shows what the
#   network gets to see (blue is above 0, red below). Each time step is one row of
#   numbers: the vector, and then its label, n and m. Each of these three is a row of
#   zeros with a single 1 (*one-hot*, chapter 1).
# - **Program evaluation.** A small program arrives character by character, and the
#   network writes the number that the program computes. (`for[3]` does what follows it
#   three times.)
#
# The paper also has language modelling (chapter 13) and reinforcement learning: worlds
# in which the network must act (chapter 15).

# %%
programs = load_task("program_evaluation")
layout = (6, 2)  # objects, dimensions
example = nth_farthest.draw(np.random.default_rng(2640), 1, *layout, layout)
labels, n, m = (part[0] for part in nth_farthest.decode(example["inputs"], layout))
points, answer = example["inputs"][0, :, :2], example["target"][0]
reference = points[example["reference"][0]]
place = np.linalg.norm(points - reference, axis=-1).argsort().argsort()  # 0: m itself

data = programs.DataConfig(kind="program", length=3, nesting=2)
program = programs.draw(np.random.default_rng(7), 1, data, (3, 2), mixed=False)
source = programs.decode(program["inputs"][0, : program["lengths"][0]], "release")
digits = program["targets"][0, : program["target_lengths"][0]]
result = programs.decode(digits, "release")

# %% tags=["hide-input"] alt="Left: six labelled points in the plane with lines from the point asked about to the others, numbered by distance, the answer circled. Right: the same example as the network gets it, six time steps of a vector and three one-hot parts. Below: a program, one character to a box, and the digits of its answer"
# Draws figure 2
places = [["plane", "steps"], ["program", "program"]]
ratios = {"height_ratios": [3, 1], "width_ratios": [1, 1.6]}
figure, panels = plt.subplot_mosaic(places, figsize=(10, 5.8), **ratios)
plane, steps, strip = panels["plane"], panels["steps"], panels["program"]
for label, point, rank in zip(labels, points, place, strict=True):
    plane.plot(*np.stack([reference, point]).T, color="0.8", zorder=0)
    edge = "black" if label == answer else "none"
    colour = "C1" if label == m else "C0"
    plane.scatter(*point, s=170, color=colour, edgecolor=edge, linewidth=2.5)
    plane.annotate(f"{label}", point, color="white", fontsize=9, **CENTRED)
    if rank:
        between = 0.6 * point + 0.4 * reference
        look = {"color": "0.3", "fontsize": 8, "backgroundcolor": "white"}
        plane.annotate(f"{rank}", between, **look, **CENTRED)
plane.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal")
plane.set(xticks=[-1, 0, 1], yticks=[-1, 0, 1])
question = f"Which is number {n} in distance from {m}?"
plane.set_title(f"{question}\nThe answer: {answer}", fontsize=10)

image = example["inputs"][0]
steps.imshow(image, cmap="RdBu", vmin=-1.3, vmax=1.3, aspect="auto")
starts = [0, 2, 8, 14, 20]
for start in starts[1:-1]:
    steps.axvline(start - 0.5, color="0.4", lw=1)
middles = [(start + end - 1) / 2 for start, end in itertools.pairwise(starts)]
steps.set_xticks(middles, ["vector", "its label", "n", "m"])
steps.tick_params(length=0)
steps.set(ylabel="time step", yticks=range(6), title="the same, as the network gets it")

for k, character in enumerate(source + " " + result):
    if character != " ":
        read = k < len(source)
        look = {"facecolor": "0.92"} if read else {"facecolor": "C2", "alpha": 0.5}
        strip.add_patch(Rectangle((k, 0), 0.9, 1, edgecolor="none", **look))
        letter = {"family": "monospace", "fontsize": 10}
        strip.text(k + 0.45, 0.45, character, **letter, **CENTRED)
strip.text(len(source) / 2, 1.25, "read, one character a step", ha="center")
strip.text(len(source) + 1 + len(result) / 2, 1.25, "written", ha="center")
strip.set(xlim=(-0.5, len(source) + len(result) + 2.5), ylim=(-0.3, 1.9))
strip.axis("off")
plt.show()

# %% [markdown]
# And this is where the course leads. It comes with a small core that was trained on nth
# farthest with four vectors of four dimensions. (In chapter 10 you train one yourself.)
# Here this core answers questions that it has never seen. Guessing would get 25 % of
# them right:

# %%
network = tinyrmc.load(course.assets() / "nth_farthest_4x4.npz")
new, count = np.random.default_rng(2018), course.fast(4000, 400)
questions = nth_farthest.draw(new, count, 4, 4, (4, 4))
answers = network(questions["inputs"]).data.argmax(axis=-1)
right = np.mean(answers == questions["target"])
print(f"{right:.1%} of {count:,} new questions answered right")

# %% [markdown]
# ## How a chapter works
#
# The minutes at the head of a chapter are an estimate: one minute for every 150 words,
# one for every 15 lines of code, and seven for each exercise. Some exercises take one
# minute, and some half an hour.
#
# For each step you first read the paper's own sentence, then its equation with the
# paper's number. Then comes an experiment or a picture, and then you write the step
# yourself. The chapters do not copy the project's code: they show it from the very
# files that run, so it cannot go out of date. Here are the two equations that the
# course is heading for. It will explain every letter in them (`xp` is the array
# library, for now NumPy):

# %%
course.show(equations.update_memory, equations.output)

# %% [markdown]
# If you only want to read, you need to install nothing: the pages show what their cells
# have printed and drawn. To work with the chapters, run `make lab` in the project's
# folder: it opens all of them in JupyterLab. Run the cells from the top (Shift+Enter),
# change what you like, and run them again. If you need more room, Ctrl+B hides the list
# of files. Nothing needs the internet or a GPU. Most chapters run in less than two
# minutes on two cores, and the longest in about four.
#
# **Exercises.** A cell holds a function whose body is three dots, with a `check` below
# it. If you leave it as it is, the check says "not attempted" and the chapter goes on:
# later cells never need your answer. What you have solved is kept on your machine and
# used again. `course.pieces()` fetches the parts of the core that you wrote, and
# `course.vjps()` your derivatives of them. In chapter 9 a network runs on your parts,
# and your derivatives carry the gradient back through it. The course adds what you did
# not write.
#
# In many cells you see `course.fast(4000, 400)`. It means 4000. If you set
# TINYRMC_FAST=1, to find out quickly whether a chapter runs at all, it means 400. And
# where a chapter says **Write down first**, do so: a guess that turns out wrong teaches
# you more than a result that you only read.
#
# Here is an exercise to try:
#
# **Exercise 1.** The mean of all slots of a memory. `M` has `N` rows, the slots, with
# `F` units each.


# %%
def mean_slot(M):
    """M (N, F) -> (F,)."""
    ...


ex.mean_slot.check(mean_slot)

# %% [markdown]
# A check tries your function on several cases. They are always the same, and some of
# them are there to catch you out. When an answer is wrong, the check says in which case
# and where, and how you get that case to try it yourself: `ex.mean_slot.case(1)`. If it
# is a mistake that many people make, it names the mistake. If not, it looks for a
# likeness: a result that is transposed, shifted or scaled, or right for one example
# only.

# %%
ex.mean_slot.check(lambda M: M.mean(axis=1))

# %% [markdown]
# In case 2, with four slots of four units, this answer even has the right shape. A
# shape that fits proves little, and many exercises have such a square case.
#
# If you are stuck, ask for a hint; each call gives you the next one. After the last
# hint, `ex.mean_slot.solution()` prints a solution. You can also call the exercise
# itself: `ex.mean_slot(M)` runs the solution, and so do the cells that come later.

# %%
ex.mean_slot.hint()

# %% [markdown]
# Now go back to the cell with the three dots, write the function, and run it.
#
# `course.progress()` lists the exercises that you have solved, chapter by chapter. The
# list is kept from one visit to the next, in a file on this machine and nowhere else.
# `course.progress()` says where, and `course.forget()` deletes it.
#
# ## Letters
#
# The letters are the paper's wherever it has one. They mean the same in the package and
# in all chapters, unless a chapter says otherwise:
#
# | letter | meaning |
# |---|---|
# | $B$ | examples in a batch, computed side by side |
# | $T$ | time steps, $t$ one of them |
# | $N$ | slots of a memory, the rows of $M$ |
# | $F$ | units of a slot, the columns of $M$ |
# | $n$ | rows of input; also, in nth farthest, the question's n |
# | $R$ | rows that are looked at: $N + n$ in equation 2 |
# | $H$ | attention heads |
# | $Q$, $K$, $V$ | in a formula or as arguments: the matrices of all queries, keys and values |
# | `K`, `V` | in a shape such as `(H, F, K)`: units of a key and of a value, in each head; the paper's $d_k$ and $d_v$ |
# | $G$ | width of a gate: $F$, or 1 |
# | $M$, $m_i$ | the memory, and its slot $i$; $\widetilde M$ is what attention proposes to write |
# | $x$, $h$ | the input, and the output (the hidden state) |
# | $W$, $U$, $b$ | what is learnt: matrices and biases |
#
# Comments and docstrings give shapes like this: `(B, N, F)`. Axis 0 holds the examples,
# axis 1 the slots, axis 2 the units. An arrow leads from the shapes that go in to the
# shape that comes out: `M (B, N, F) -> (B, N, N)`.
#
# ## Contents
#
# | chapter | what it does | of the paper |
# |---|---|---|
# | [0. How to read this](00_how_to_read.ipynb) | where you are | figures 1, 2 |
# | [1. Arrays](01_arrays.ipynb) | axes, broadcasting, batches, views: all on memory matrices | notation of 3.1 |
# | [2. A tape](02_a_tape.ipynb) | reverse-mode differentiation from nothing in 40 lines, and your tape beside the project's | |
# | [3. Checking gradients](03_checking_gradients.ipynb) | differences, the complex step, an independent witness, and a wrong derivative caught | |
# | [4. Learning](04_learning.ipynb) | a loss, momentum, Adam, batches, clipping, held-out examples: how a gradient becomes a trained network | |
# | [5. Attention](05_attention.ipynb) | memories look at each other | equation 1 |
# | [6. Encoding](06_encoding.ipynb) | a new input gets in, and what must stay the same however slots are ordered | equation 2 |
# | [7. Norm and MLP](07_norm_and_mlp.ipynb) | what happens to each slot by itself | 3.3, $g_\psi$ |
# | [8. Gates](08_gates.ipynb) | what to forget, what to write, what to show | equations 3-6 |
# | [9. The memory update](09_memory_update.ipynb) | one whole step, and where the released code differs from the paper | equations 7-9 |
# | [10. Nth farthest](10_nth_farthest.ipynb) | the task, its floors, training, and looking into a trained network | 4.1, 5.1, figure 3 |
# | [11. Breaking it](11_breaking_it.ipynb) | mistakes that still run, each shown failing and mended | |
# | [12. Program evaluation](12_program_evaluation.ipynb) | reading programs, writing their results | 4.1, 5.2, figures 6, 7 |
# | [13. Language modelling](13_language_modelling.ipynb) | a book, word by word: counting, windows, writing | 4.3, 5.4, figure 12, tables 2, 3 |
# | [14. Memory networks](14_memory_networks.ipynb) | another paper: keep everything, and look when somebody asks | Sukhbaatar et al. 2015 |
# | [15. Partially observed worlds](15_partially_observed_worlds.ipynb) | acting, and learning from rewards, where you see only part of the world | 4.2, 5.3, A.3, figures 9, 10 |
# | [16. By hand](16_by_hand.ipynb) | going fast: fused operations, and what leaves the loop over time | equation 4 |
# | [17. Cache and workers](17_cache_and_workers.ipynb) | going fast: a batch in pieces, shared among cores | |
# | [18. CUDA](18_cuda.ipynb) | going fast: other arrays, and one operation down to its kernel | |
# | [19. The engine, a tour](19_engine_tour.ipynb) | optional: the engine that chapter 2 leads to, read piece by piece | |
# | [20. Puzzles](20_puzzles.ipynb) | optional: masks, shuffles, heads, each in one line without a loop | |
#
# Each chapter builds on the ones before it, but you need not read them all. If you want
# the core alone, read 1 and 5 to 9, without their parts on the way back and on
# training, which need 2 to 4. If you know how automatic differentiation works, you may
# skip 2 and 3; if you have trained networks before, 4 as well. If you have an
# implementation that does not learn, begin with 11.
#
# ## Takeaways
#
# - The core is a matrix of slots. They look at each other and at the input, and gates
#   decide what is kept and what is written.
# - Each step goes from sentence to equation, experiment and exercise. Read the first
#   two slowly.
# - A check tells you which case went wrong. A shape that fits is not yet a right
#   answer.
#
# **Further.** In the picture of figure 1, which of the three blended rows took most
# from the input? Could a network answer the question of nth farthest if it kept only
# the mean of its slots, as in the exercise?
#
# From here on every chapter ends with such questions. Where the answer is known it is
# folded below them, with the code that backs it. Unfold it when you have one of your
# own.

# %% tags=["hide-cell"]
# Answer 1: the row with the largest share in the column of the input, which is the last
from_input = shares[:, -1]
print("shares of the input in the three blended rows:", *from_input.round(2))
print("the most is in row", from_input.argmax(), "(counted from 0, from the top)")

# %% tags=["hide-cell"]
# Answer 2: no. Exchange the labels of two vectors: the answer to a question may change,
# and the mean of all rows, of vectors and of one-hot labels alike, stays what it was.
vectors, names = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), np.array([0, 1, 2])
for told in (names, names[[0, 2, 1]]):
    rows_told = np.concatenate([vectors, np.eye(3)[told]], axis=1)
    farthest = told[np.linalg.norm(vectors, axis=1).argmax()]
    print("mean slot:", rows_told.mean(axis=0).round(2), " farthest from 0:", farthest)
