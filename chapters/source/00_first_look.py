# %% [markdown]
# # 0. A first look: a core learns before your eyes
#
# **Figures 1 and 2 of the paper.** About 80 minutes (45 on the core road). You need
# Python and some NumPy.
#
# This course builds one idea, the Relational Memory Core, from nothing but arrays, and
# you write nearly all of it. The idea comes from *Relational recurrent neural networks*
# (Adam Santoro and others, 2018, arXiv 1806.01822); we call it "the paper". Networks
# with a memory can remember things. Can they also *relate* what they remember? The
# paper's answer is
#
# > a new memory module [...] which employs multi-head dot product attention to allow
# > memories to interact. (Abstract)
#
# First you are such a memory for a minute. Then you watch one learn.

# %%
import itertools

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import display
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

import tinyrmc
from tinyrmc import Tape, course, equations, fused, optim, primitives
from tinyrmc.course.exercises import first as ex
from tinyrmc.training.discovery import load_task

course.setup()

# %% [markdown]
# ## Be the memory
#
# Four points arrive one after the other. Read the lines once, look away, and answer:
# write the label in place of `None` and run the cell (Shift+Enter).

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

# %% [markdown]
# With a picture this is easy, because you see all distances at once. A network has only
# what its memory has kept. What did you keep: the points, or the distances between
# them?

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
# ## Watch a core learn
#
# Now a small core gets the same kind of question about three numbers on a line: 128
# fresh questions in each of 2,500 steps. The curve, the share of right answers, grows
# while you watch, for half a minute or a minute.
#
# A curve says nothing without *baselines*. A blind guess is right in one case of three.
# But number 0 from $m$ is $m$ itself. If you see that, and guess at the rest, two
# thirds of your answers are right. If you sort the numbers by their distance from 0
# instead of $m$, you get further still. If you know only their order along the line,
# you are right in eight cases of nine: you guess where $m$ is the middle one and $n$ is
# not 0. If you also know on which side of 0 $m$ lies, you take the end on the other
# side for the farther one, and are right in 17 cases of 18. You have compared no
# distances yet. Only above *that* line are the order and the sign of $m$ not enough.


# %% tags=["hide-input"]
# A curve that is drawn again while it grows
class Curve:
    def __init__(self, steps, baselines):
        self.figure, self.panel = plt.subplots(figsize=(8, 3.4))
        for name, height in baselines.items():
            self.panel.axhline(height, color="0.5", lw=0.8, ls="--")
            place = {"transform": self.panel.get_yaxis_transform(), "va": "center"}
            self.panel.text(1.01, height, f"{name}, {height:.1%}", **place)
        (self.line,) = self.panel.plot([], [], lw=1.5)
        self.panel.set(xlim=(0, steps), ylim=(0.3, 1), xlabel="step")
        self.panel.set(ylabel="right answers")
        plt.close(self.figure)  # shown once only, where it grows
        self.shown = display(self.figure, display_id=True)

    def grow(self, right, every):
        heights = [np.mean(right[k : k + every]) for k in range(0, len(right), every)]
        steps = every * (np.arange(len(heights)) + 0.5)
        self.line.set_data(steps, heights)
        if self.shown:  # in a notebook, not where the file runs as a program
            self.shown.update(self.figure)


# %% tags=["hide-input"]
# The loop in which a core learns: you write such a loop in chapter 5
SIZE, STEPS = (3, 1), course.fast(2500, 100, 800)  # three vectors of one dimension


def kinds(inputs):
    """Of each question: 0 where n is 0; else 1 where m lies at an end, and where m is
    the middle one, 2 if its sign leads to the right answer and 3 if it misleads.
    """
    labels, n, m = nth_farthest.decode(inputs, SIZE)
    places = inputs[:, :, 0]
    own = places[labels == m[:, None]]
    down, up = own - places.min(axis=1), places.max(axis=1) - own  # to both ends
    between = (down > 0) & (up > 0)
    misled = between & ((own > 0) == (up > down))  # the farther end is not beyond 0
    return np.where(n == 0, 0, 1 + between + misled)


def learns(seed, grow=lambda right, every: None):
    """For each question of each step, whether the answer is right, and the question's
    kind: two arrays (steps, questions).
    """
    model = nth_farthest.CoreConfig(mem_slots=3, num_heads=4, head_size=8)
    data = nth_farthest.DataConfig(objects=3, dimensions=1)
    config = nth_farthest.Config(model=model, data=data, head_units=128)
    network = nth_farthest.Network(config, seed=seed)
    right, asked = [], []
    adam = optim.Adam(network.parameters())
    rate = optim.schedule(7e-4, STEPS, warmup=STEPS // 20, cosine_fraction=0.3)
    for step in range(STEPS):
        rng = np.random.default_rng([seed, step])
        questions = nth_farthest.draw(rng, 128, *SIZE, SIZE)
        with Tape() as tape:
            answers = network(questions["inputs"])
            losses = fused.softmax_cross_entropy(answers, questions["target"])
            loss = primitives.mean(losses)
        adam.zero_grad()
        tape.backward(loss)
        adam.step(rate(step), max_norm=1.0)
        right.append(answers.data.argmax(axis=1) == questions["target"])
        asked.append(kinds(questions["inputs"]))
        if (step + 1) % 50 == 0:
            grow(right, 50)
    return np.array(right), np.array(asked)


# %% alt="The share of right answers against training steps, with five dashed lines: guessing at a third, the self query at two thirds, sorting by the distance from 0 at 78 percent, knowing the order along the line at 89 percent, and the sign of m as well at 94 percent. The curve jumps to the second line at once, rests there for some hundred steps, and then climbs a little above the fifth"
by_norm, _ = nth_farthest.own_norm_accuracy(SIZE)
baselines = {"guessing": 1 / 3, "m where n = 0": 2 / 3, "sorted from 0": by_norm}
baselines |= {"the order alone": 8 / 9, "order, m's sign": 17 / 18}
right, asked = learns(2, Curve(STEPS, baselines).grow)
early, late = slice(STEPS // 25, 200), slice(-200, None)  # steps
easy = asked == 0
print(f"steps 100 to 200, where n is 0:  {right[early][easy[early]].mean():.0%}")
print(f"steps 100 to 200, elsewhere:     {right[early][~easy[early]].mean():.0%}")
print(f"the last 200 steps, all:         {right[late].mean():.1%}")
for kind, what in ((2, "its sign leads"), (3, "its sign misleads")):
    share = right[late][asked[late] == kind].mean()
    print(f"m is the middle one, {what + ':':20} {share:.0%}")

# %% [markdown]
# It gets the easy part within seconds, and rests there: from three starts, in steps 100
# to 200, it is right in 100 % of the cases where $n$ is 0, and in 50 % of the others.
# Then it learns more. In the end it is right in 96.0 % (95.7 to 96.3), above the
# highest line, if not by much. Two kinds of questions are better evidence: in both, $n$
# is not 0 and $m$ is the middle one. In three of 18 questions the sign of $m$ leads to
# the right answer, in one of 18 it misleads. If you go by order and sign alone,
# you cannot tell the two kinds apart, and your answer is right in the one and wrong in
# the other: the two shares add up to 100 %. It is right in 95 % (95 to 96) of
# the first kind and in 82 % (80 to 84) of the second. So it goes by more than these
# two. (Where the sign misleads, the two distances are also closer to
# each other and so harder to compare: in the mean they differ by 0.25, where it leads
# by 0.58.)
#
# The code is folded. You need not read it yet: you will write such parts yourself, the
# tape, the loss, the rule for a step, the loop, and a core. What learns here is the
# form of the core that the authors released. The picture below, and the core that you
# write on the shortest way, are of the paper's equations. Chapter 11 has the
# difference, chapter 13 what it costs.
#
# A core of the released form, which comes with the course, was trained for longer, on
# four vectors of four dimensions. Guessing gets 25 % there, but that is not the number
# to compare with. How far do you get if you know only the signs of $m$'s four
# coordinates? And if you know in which quarter of $[-1, 1]$ each of them lies? (Chapter
# 13 has such rules.)

# %%
network = tinyrmc.load(course.assets() / "nth_farthest_4x4.npz")
new, count = np.random.default_rng(2018), course.fast(4000, 400)
questions = nth_farthest.draw(new, count, 4, 4, (4, 4))
answers = network(questions["inputs"]).data.argmax(axis=-1)
trained = np.mean(answers == questions["target"])


def sorted_from(place_of):
    """How often you are right if you take m to lie at place_of(m)."""
    x = questions["inputs"][..., :4]
    labels, n, m = nth_farthest.decode(questions["inputs"], (4, 4))
    is_m, rows = labels == m[:, None], np.arange(count)
    away = np.linalg.norm(x - place_of(x[is_m])[:, None], axis=-1)
    order = np.argsort(np.where(is_m, -1, away), axis=1)  # m itself comes first
    return np.mean(labels[rows, order[rows, n]] == questions["target"])


print(f"knowing m's signs:     {sorted_from(lambda m: np.sign(m) / 2):.1%}")
quarters = sorted_from(lambda m: (np.floor(2 * m) + 0.5) / 2)
print(f"knowing its quarters:  {quarters:.1%}")
print(f"the trained core:      {trained:.1%} of {count:,} new questions")

# %% [markdown]
# ## The whole thing in one picture
#
# The paper's figure 1, drawn again from one real step of a core with random weights.
# Every square is a number; the darker, the larger. A *memory* is a matrix. Each of its
# rows is a *slot* and has a colour here, and so has the input. (Code that only draws is
# folded, in all chapters.)
#
# - **(a)** Memory and input go into A, which is attention. Its result passes through a
#   small network, the MLP, with a second path (the residual) around it, and each row is
#   brought to a common scale (the norm). *Gates*, numbers between 0 and 1, decide how
#   much of the old memory stays and how much of the new is written.
# - **(b)** Inside A, all rows share three matrices. Slots get queries; slots and input
#   get keys and values.
# - **(c)** Every query is compared with every key. The softmax makes shares of each row
#   of comparisons, which sum to 1, and the shares mix the values, and the colours.

# %% tags=["hide-input"]
# Computes one step of a small core, to be drawn below
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
# After a single step none of the blended rows belongs to one slot any more. But the
# gates keep a part of the old memory, so you still see which slot each row of the next
# memory came from.
#
# ## What it is for
#
# Two tasks of the paper's figure 2. In **nth farthest** you have answered a question.
# The upper right panel shows what the network sees (blue is above 0, red below): each
# time step is a row of numbers, the vector and then its label, n and m, each *one-hot*,
# a row of zeros with a single 1. In **program evaluation** a program arrives character
# by character, and the network writes the number that it computes. (`for[3]` does what
# follows it three times.)

# %% tags=["hide-input"]
# Draws one example of each task
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
# ## What you build, and in what order
#
# - **An engine.** Arrays first (chapter 1, then puzzles). Then the machine that finds
#   derivatives: a number that remembers how it was made, and a tape for arrays (3). You
#   learn how to judge it (4), and write the loop that trains networks on it (5).
#   Chapter 26 is a tour of the project's own.
# - **The core**, equation by equation, forwards and back (6 to 9). In chapter 10 your
#   own core learns. 11 sets it beside the released code, 12 walks back through time, 14
#   looks into a core that was trained beforehand, 15 breaks one, and 28 has what came
#   after it.
# - **The tasks**: nth farthest (13, 14), programs (16), language (17, 18), memory
#   networks (19, 20), and acting (21, 22, 27).
# - **Speed** (23; on a GPU 25), and a **capstone**: a task of your own (24).
#
# The shortest way is the *core road*: chapters 0, 3, 5, 6, 9, 10 and 13, without their
# sections that begin with *Extra*. By our count it takes ten hours. Two readers,
# language models that solved it from its text alone, guessed 10 1/2 and 12 hours for a
# person; nobody was timed. All else is a side road. (Where a chapter of the core road
# needs one that you have left out, look up there what is new to you: NumPy's arrays in
# chapter 1, $g_\psi$ in 8.)
#
# What you have written is used from then on. Where yours is missing, the course's own
# takes its place, so you can skip any exercise and any chapter. The first three
# sittings of chapter 3 need no arrays, and in the third your first network learns: you
# may go there at once. If you know automatic differentiation, skip 3 and 4; if you have
# trained networks, 5 as well. If you have an implementation that does not learn, begin
# with 15.
#
# ## How a chapter works
#
# Run `make lab` in the project's folder: it opens your copies of the chapters in
# JupyterLab, without the outputs that would answer a guess. Run the cells from the top
# (Shift+Enter), change what you like, and run them again. Nothing needs the internet or
# a GPU.
#
# The minutes at the head of a chapter are counted, and nobody was timed: one for every
# 75 words, one for every seven or eight lines of code, and for each exercise eight
# (fourteen where you have to find a wrong line first) and about 2.3 for every line of
# its solution. A first try in a new subject may take half as long again. Places to stop
# end the sittings. Where one says **Write down first**, do so: a guess that turns out
# wrong teaches you more than a result that you only read. Parts marked *second track*,
# which walk back through an equation by hand, can be left out. And
# `course.fast(2500, 100, 800)` is 2500; only with TINYRMC_FAST=1, a quick trial of
# whether a chapter runs, is it 100, and in a browser, which is slower, 800.
#
# The chapters show the project's code from the files that run. Here are the two
# equations that the first half is heading for:

# %%
course.show(equations.update_memory, equations.output)

# %% [markdown]
# **Exercises.** A cell holds a function whose body is three dots, with a `check` below
# it. Here is one to try:
#
# **Exercise 1.** The mean of all slots of a memory. `M` has `N` rows, the slots, with
# `F` units each.


# %%
def mean_slot(M):
    """M (N, F) -> (F,)."""
    ...


ex.mean_slot.check(mean_slot)

# %% [markdown]
# A check tries your function on several cases, always the same ones. Each may take ten
# seconds; an endless loop is stopped then, and you are told in which line. If an answer
# is wrong, the check says in which case and where. If it is a mistake that many people
# make, it names the mistake. And it gives you a line to try:
# `mean_slot(*ex.mean_slot.case(2))` calls your function as case 2 does, and
# `ex.mean_slot(*ex.mean_slot.case(2))` gives what is right. (For methods there is a
# `.use(...)` in between: it runs a small program with yours.)

# %%
ex.mean_slot.check(lambda M: M.mean(axis=1))

# %% [markdown]
# In case 2, with four slots of four units, this answer even has the right shape: a
# shape that fits proves little.
#
# `ex.mean_slot.hint()` gives a hint, and each call the next one.
# `ex.mean_slot.solution()` prints a solution, and `ex.mean_slot(M)` runs it. Some
# exercises are for *debugging*: a function runs, and something goes wrong. You mend it
# in its cell.
#
# The text of each right answer is kept, with the functions of yours that it calls, in a
# folder on this machine and nowhere else. (If it is right but slow, the check says what
# it would cost in a training.) `course.progress()` lists what you have solved and says
# where; `course.forget()` deletes it.
#
# ## A picture of your own
#
# *Extra: your first experiment with a network.*
#
# One run may be luck. `learns(seed)` trains the core of this chapter from another start
# and on other questions, in half a minute or a minute. It returns two arrays, and the
# first, (steps, questions), says which answers were right.
#
# **Now draw it yourself.** Take two seeds of your own. Draw the share of right answers,
# in the mean of each 50 steps, against the steps: a curve for each seed, with names for
# curves and axes, and if you like the lines of the baselines. **Write down first:** in
# what will the two curves differ, where each rests, how long, or where it ends?

# %%
panel = ...  # figure, panel = plt.subplots()
# ...
ex.picture.check(panel)

# %% [markdown]
# ## Letters
#
# *Extra: a table to look things up in.*
#
# They are the paper's wherever it has one, unless a chapter says otherwise:
#
# | letter | meaning |
# |---|---|
# | $B$, $T$ | examples in a batch, side by side; time steps |
# | $N$, $F$ | slots of a memory, the rows of $M$; units of a slot, its columns |
# | $n$, $R$ | rows of input (in nth farthest, the question's n); rows that are looked at, $N + n$ |
# | $H$ | attention heads |
# | $Q$, $K$, $V$ | the matrices of all queries, keys and values |
# | `K`, `V` | in a shape such as `(H, F, K)`: units of a key and of a value in each head, the paper's $d_k$ and $d_v$ |
# | $G$ | width of a gate: $F$, or 1 |
# | $M$, $m_i$, $\widetilde M$ | the memory, its slot $i$, what attention proposes to write |
# | $x$, $h$ | the input, and the output (the hidden state) |
# | $W$, $U$, $b$; $w$ | what is learnt: matrices and biases; weights of any kind |
# | $f$, $i$, $o$; $\hat f$ | what a gate is made of, before the sigmoid (as an index $i$ counts); the gate |
# | $c$ | what is proposed to be written, the candidate |
# | $g$, $g_\psi$ | the gradient that comes back; the paper's network for each row |
# | $k$, $j$ | whatever is counted (in nth farthest, $k$ vectors, and $m$ is the one that $n$ counts from) |
#
# Comments and docstrings give shapes like this: `M (B, N, F) -> (B, N, N)`. Axis 0
# holds the examples, axis 1 the slots, axis 2 the units.
#
# ## Takeaways
#
# - The core is a matrix of slots that look at each other and at the input.
# - No accuracy without a baseline beside it. A shape that fits is not yet a right
#   answer.
#
# **Further.** In the picture of figure 1, which of the three blended rows took most
# from the input? Could a network answer the question of nth farthest if it kept only
# the mean of its slots, as in the exercise? (Answers to such questions are folded below
# them. Unfold them when you have your own.)

# %% tags=["hide-cell"]
# Answer 1
# It is the row with the largest share in the last column, that of the input.
from_input = shares[:, -1]
print("shares of the input in the three blended rows:", *from_input.round(2))
print("the most is in row", from_input.argmax(), "(counted from 0, from the top)")

# %% tags=["hide-cell"]
# Answer 2
# It could not, if a slot holds a vector beside its label. Exchange the labels of two
# vectors: the answer to a question may change, and the mean of all rows stays what it
# was. (Slots that hold something else, such as products of vector and label, are
# another matter: chapter 28 has memories that are sums of these.)
vectors, names = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), np.array([0, 1, 2])
for told in (names, names[[0, 2, 1]]):
    rows_told = np.concatenate([vectors, np.eye(3)[told]], axis=1)
    farthest = told[np.linalg.norm(vectors, axis=1).argmax()]
    print("mean slot:", rows_told.mean(axis=0).round(2), " farthest from 0:", farthest)
