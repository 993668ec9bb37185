# %% [markdown]
# # 10. A step, and its training
#
# **Equations 7 to 9, section 3.3.** About 120 minutes, in two sittings. You need
# attention (chapter 6), $g_\psi$ (chapter 8), gates (chapter 9) and your training loop
# (chapter 5).
#
# You have all the parts. Attention has proposed $\widetilde{M}$. What becomes the next
# memory? Here you write the update, put the whole step together, and your core learns.
#
# | symbol | shape | what it is |
# |---|---|---|
# | $x_t$ | (B, F) | the input of step $t$, as wide as a slot, for B examples |
# | $m_{i,t}$ | (B, N, F) | the memory; slot $i$ of it has F numbers |
# | $h_{i,t}$ | (B, N, F) | what the outside and the gates see of the memory |
# | $g_\psi(\widetilde{m}_{i,t})$ | (B, N, F) | the *candidate*, made of what attention proposes |
# | $f, i, o$ | (B, N, G) | pre-activations of the three gates; G is F or 1 |
#
# (The index $i$ counts slots; $i$ by itself belongs to the input gate. That is the
# paper's choice.)

# %%
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import PaperRelationalMemory, course, equations
from tinyrmc.course.exercises import learning
from tinyrmc.course.exercises import memory as ex
from tinyrmc.course.step_network import StepNetwork

course.setup()
rng = np.random.default_rng(8)

# %% [markdown]
# ## Your pieces
#
# `course.pieces(9)` fetches what you wrote in chapters 6 to 9. Where you have none yet,
# or where the tape cannot follow yours, you get the course's own:

# %%
my = course.pieces(9)
my

# %% [markdown]
# Every piece takes the array library `xp` first. `my.sigmoid(np, x)` computes;
# `my.sigmoid(primitives, x)` computes the same and records it on the project's tape. In
# this chapter you write with `xp`, too: `xp.tanh(m)` in place of `np.tanh(m)`. A check
# tries your values with NumPy, and your gradient on the tape. (What is on that tape has
# no methods and no `len`: write `xp.mean(x, axis=-1)`, and `W_q.shape[0]`.)
#
# ## Equation 7: keep and take
#
# $$m_{i,t} = \sigma(f_{i,t} + \tilde{b}^f) \circ m_{i,t-1}
# + \sigma(i_{i,t}) \circ g_\psi(\widetilde{m}_{i,t}) \tag{7}$$
#
# The first product is what a slot keeps, the second what it takes. Nothing forces the
# two gates to add up to 1. **Write down first:** open or shut each of them completely.
# What becomes of a 5 in the memory with a candidate of 3, in the four cases?
#
# "Unit" gating has a gate for each unit, G = F. "Memory" gating has one for each slot,
# G = 1: a slot is kept or overwritten as a whole.
#
# **Exercise 1.** Write it, so that both kinds of gating work. `f` and `i` are
# pre-activations, and may be $\pm\infty$.


# %%
def update_memory(xp, f, i, m, candidate, forget_bias):
    """f, i (B, N, G), m and candidate (B, N, F), forget_bias a number -> (B, N, F)."""
    ...


ex.update_memory.check(update_memory)
update_memory = ex.update_memory.yours(update_memory)

# %% tags=["hide-output"]
for f in (np.inf, -np.inf):
    for i in (np.inf, -np.inf):
        after = update_memory(np, np.array(f), np.array(i), 5.0, 3.0, 0.0)
        print(f"forget gate {f > 0:d}, input gate {i > 0:d}: {float(after):.0f}")

# %% [markdown]
# ## Equations 8 and 9, and the whole step
#
# The memory may grow, as the first corner shows. What the outside and the next step's
# gates get to see is pressed into $(-1, 1)$ and gated once more:
#
# $$h_{i,t} = \sigma(o_{i,t}) \circ \tanh(m_{i,t}) \tag{8}$$
#
# $$s_{i,t+1} = (m_{i,t}, h_{i,t}) \tag{9}$$
#
# So the step is: attention over slots and input (equation 2); the candidate; three
# pre-activations (equations 4 to 6); the new memory (7); and what it shows (8).
#
# **Exercise 2.** Write it. `p` has the weights by name: `W_q`, `W_k`, `W_v`; `mlp`,
# `gain`, `offset`; `W_f`, `U_f`, `b_f`, and the same for `i` and `o`; and the number
# `forget_bias`. You have `my.multi_head_attention(xp, m, x, W_q, W_k, W_v)`,
# `my.g_psi(xp, z, mlp, gain, offset)`, `my.gate(xp, x, h, W, U, b)` and `my.sigmoid`.


# %%
def step(xp, x, m, h, p):
    """x (B, F), m and h (B, N, F), p a dict -> (new m, new h), each (B, N, F)."""
    ...


ex.step.check(step)
step = ex.step.yours(step)

# %% [markdown]
# ## Your core learns
#
# Four vectors come, each of four random numbers. Is the last one the same as the first?
# In half of each batch it is; in the other half it is another vector. So always saying
# yes is right in 50 % of the cases, and costs $\ln 2 = 0.69$. To do better, a network
# must keep the first vector and compare it with the last.
#
# `StepNetwork` draws weights and a first memory, projects the inputs, calls your step
# for each of them with `xp = primitives`, and puts a linear layer on the last $h$:

# %%
course.show(StepNetwork.__call__)

# %% [markdown]
# The loop, the rule and the clipping are yours, from chapter 5. For loss and gradients
# you need the project's tape: what happens inside `with Tape() as tape:` is recorded.
# (It works as yours does. But a step cuts memories, exchanges axes and puts rows below
# others, and your tape has no entries for these.)
# `fused.softmax_cross_entropy(logits, targets)` gives a loss for each example,
# `primitives.mean` their mean, and `tape.gradient(loss, parameters, strict=False)` a
# list, with zeros for a parameter that was not used.
#
# **Exercise 3.** Write it, and clip the gradients to a length of 1, all together.

# %%
from tinyrmc import Tape, fused, primitives  # noqa: F401, for your function

train, adam_step, clip = course.kept("learning", "train", "adam_step", "clip")


def slopes(network, parameters, inputs, targets):
    """network(inputs) -> logits (B, C), a list of parameters, targets (B,)
    -> the mean loss (a number), the gradients (a list of arrays).
    """
    ...


ex.slopes.check(slopes)
slopes = ex.slopes.yours(slopes)

# %% [markdown]
# **Write down first:** how many steps of training will it take to leave the floor?


# %%
def compared(rng, count=64, T=4):
    """Vectors (count, T, 4), and whether the last is the first again."""
    vectors, half = rng.normal(size=(count, T, 4)), count // 2
    vectors[:half, -1] = vectors[:half, 0]
    return vectors.astype(np.float32), (np.arange(count) < half).astype(int)


def learns(seed, steps, draw=compared, width=4):
    """The loss of each step, and the trained network."""
    network = StepNetwork(step, width, 2, N=4, F=16, H=2, seed=seed)
    parameters = network.parameters()

    def put(weights):
        for parameter, w in zip(parameters, weights, strict=True):
            parameter.data = w

    def at(weights, vectors, same):
        put(weights)
        return slopes(network, parameters, vectors, same)

    start = [parameter.data.copy() for parameter in parameters]
    rule = learning.adam_rule(adam_step, 3e-3)
    batches = (lambda t: draw(np.random.default_rng([seed, t]))), steps
    losses, weights = train(start, at, rule, *batches)
    put(weights)
    return losses, network


def right(network, vectors, same):
    """The share of right answers."""
    return np.mean(network(vectors).data.argmax(axis=1) == same)


# %%
STEPS, curves, networks = course.fast(400, 10), [], []
new = compared(np.random.default_rng(2026), course.fast(2000, 100))
for seed in range(3):
    losses, network = learns(seed, STEPS)
    curves.append(losses)
    networks.append(network)
    print(f"seed {seed}: of 2,000 new examples, {right(network, *new):.1%} are right")

# %% tags=["hide-input", "hide-output"] alt="The loss against training steps for three seeds: all leave the dotted line of always saying yes, 0.69, within fifty steps, and fall to about 0.1 after four hundred"
# Draws the three losses
figure, panel = plt.subplots(figsize=(7, 3))
for seed, losses in enumerate(curves):
    parts = np.array_split(losses, min(len(losses), 40))
    middles = (np.arange(len(parts)) + 0.5) * STEPS / len(parts)
    panel.plot(middles, [np.mean(part) for part in parts], label=f"seed {seed}")
panel.axhline(np.log(2), color="0.5", ls=":")
panel.text(STEPS, 0.7, "always yes", ha="right", color="0.4")
panel.set(xlabel="steps", ylabel="loss", ylim=(0, 0.85))
panel.legend(loc="upper right", bbox_to_anchor=(1, 0.78))
plt.show()

# %% [markdown]
# All three leave the floor within a hundred steps. **This is a good place to stop.**
#
# ## What has it learnt?
#
# No vector comes twice, so a network cannot know them by heart. But does it look at the
# first one at all? Let the examples exchange their first vectors, and see. And what has
# it *not* learnt? Two more sets: one in which the other vector differs from the first
# in a single number, and one with eight vectors in place of four. **Write down first:**
# how many will be right in each of the three?


# %% tags=["hide-output"]
def sets_of(vectors, same):
    """Three other sets, made of new examples."""
    exchanged, alike = vectors.copy(), vectors.copy()
    exchanged[:, 0] = vectors[::-1, 0]
    alike[same == 0, -1, 1:] = vectors[same == 0, 0, 1:]
    return {
        "new examples": (vectors, same),
        "first vectors exchanged": (exchanged, same),
        "one number differs": (alike, same),
        "eight vectors": compared(np.random.default_rng(2027), len(vectors), T=8),
    }


for name, examples in sets_of(*new).items():
    print(f"{name:24}", *(f"{right(each, *examples):6.1%}" for each in networks))

# %% [markdown]
# Of new examples, 96 % (95 to 97) are right, and none of these vectors was seen in
# training. Where the first vectors are exchanged, 50 % are right: without the right
# first vector it can only guess. So the nine equations, as you wrote them, have learnt
# to keep a vector and to compare.
#
# What they have not learnt: to look closely. Where only one of four numbers differs,
# 63 % (58 to 70) are right, for most of these pass as the same. And to do it at any
# distance: among eight vectors, it finds 16 % (6 to 28) of those that are the same.
# Both may come with training on such examples; here there were none.
#
# Why vectors? With eight symbols, each 1 at a place of its own, there are 64 pairs, and
# training shows them all. Then "new examples" are old ones, and nothing tells comparing
# from knowing by heart. We have tried: of the pairs of the last three symbols none was
# shown. After 600 steps, three seeds, 100 % of the other pairs are right, and 0 % of
# the held-out pairs of equal symbols. It had learnt the pairs by heart. Nothing in such
# inputs says that two fives are to each other as two fours.
#
# There are tasks on which your step learns less: chapter 13 (nth farthest) has one on
# which it does not get off the floor, and finds out what it lacks.
#
# ## One step, seen
#
# Four slots of 12 units. We have set some gates by hand: slot 1 keeps everything and
# takes nothing; slot 3 neither keeps nor takes. **Write down first:** what will rows 1
# and 3 of the new memory look like?

# %%
N, F = 4, 12
core = PaperRelationalMemory(F, N, F // 2, 2, dtype=np.float64, seed=1)
named = core.equation_parameters().items()
p = {name: getattr(value, "data", value) for name, value in named}
p["mlp"] = [(weight.data, bias.data) for weight, bias in p["mlp"]]
m, x = core.initial_state(1)[0], rng.normal(size=(1, F))
h = np.tanh(m)
attended = my.multi_head_attention(np, m, x, p["W_q"], p["W_k"], p["W_v"])
candidate = my.g_psi(np, attended, p["mlp"], p["gain"], p["offset"])
f, i = (my.gate(np, x, h, p[f"W_{k}"], p[f"U_{k}"], p[f"b_{k}"]) for k in "fi")
i[0, [1, 3]] = -40  # shut
f[0, 1], f[0, 3] = 40, -40  # open, shut
after = update_memory(np, f, i, m, candidate, 1.0)

# %% tags=["hide-input", "hide-output"] alt="Five heat maps of four slots: the old memory, the forget gate, the candidate, the input gate and the new memory. The second row of the new memory equals the old one, the fourth is empty"
# Draws one step, from left to right
figure, panels = plt.subplots(1, 5, figsize=(10, 2.1), sharey=True)
values = {
    "memory": m,
    "times forget gate": my.sigmoid(np, f + 1.0),
    "plus candidate": candidate,
    "times input gate": my.sigmoid(np, i),
    "is the new memory": after,
}
for panel, (name, value) in zip(panels, values.items(), strict=True):
    shades = {"cmap": "PRGn", "vmin": -2.5, "vmax": 2.5}
    if "gate" in name:
        shades = {"cmap": "Greys", "vmin": 0, "vmax": 1}
    panel.imshow(value[0], aspect="auto", **shades)
    panel.set_title(name, fontsize=10)
    panel.set(xticks=[], yticks=range(N))
panels[0].set(ylabel="slot")
plt.show()

# %% [markdown]
# ## Find the line: it forgets at once
#
# Somebody reads a sequence with your step. **The symptom:** the first two of six inputs
# may change places, and in the end next to nothing shows.
#
# **Exercise 4.** One line is wrong. Mend it.


# %%
def read(step, xs, m, h):
    """step(x, m, h) -> new m, new h; xs (T, ...) -> the last h."""
    for x in xs:
        _, h = step(x, m, h)
    return h


ex.read.check(read)
xs, m = rng.normal(size=(6, 1, 16)), np.eye(4, 16)[None]
exchanged = xs[[1, 0, 2, 3, 4, 5]]
one, other = (read(ex.fresh_step, each, m, 0 * m) for each in (xs, exchanged))
apart = np.linalg.norm(one - other) / np.linalg.norm(one)
print(f"after six steps, what is shown differs by {apart:.1%}")

# %% [markdown]
# ## Find the line: six slots, worth one
#
# **The symptom:** all six slots hold the same, at every step and after any training.
# (Chapter 7: slots that are equal stay equal. Nothing in the step tells them apart, and
# no training can.)
#
# **Exercise 5.** Mend it.


# %%
def begin(first, B):
    """The first memory (N, F) for B examples -> (B, N, F)."""
    N, F = first.shape
    m = np.zeros((B, N, F))
    m += first[0]
    return m


ex.begin.check(begin)
spread = begin(rng.normal(size=(6, 16)), 2).std(axis=1).mean()
print(f"spread over the slots: {spread:.2f}")

# %% [markdown]
# ## An experiment of your own
#
# You have a core of 16 units with fresh weights, `step(x, m, h, forget_bias=1.0)`, for
# any number of slots. Choose what to measure: how much one slot notices another, how
# large the memory grows, how far apart slots stay, what is left of an input. And choose
# on what it may depend: steps, slots, the size of an input, the forget bias.
#
# **Exercise 6.** Measure it at five settings or more, look at the picture, conclude,
# and name the axes. As in chapter 7, your numbers must bear your claim out with three
# seeds.


# %%
def my_experiment(step, seed):
    """step(x, m, h, forget_bias=1.0) -> new m, new h, with x (B, 16), m, h (B, N, 16)
    -> settings, in growing order; what was measured at each; and "rises", "falls",
    "stays" or "neither".
    """
    ...


ex.my_experiment.check(my_experiment)
my_experiment = ex.my_experiment.yours(my_experiment)

# %% tags=["hide-output"] alt="What an experiment has measured against its settings, a line for each of three seeds. Here it is the likeness of a memory before and after a step, which rises with the forget bias"
figure, panel = plt.subplots(figsize=(6, 3))
for seed in range(3):
    settings, measured, claim = my_experiment(ex.fresh_step, seed)
    panel.plot(settings, measured, "o-", label=f"seed {seed}: {claim}")
panel.set(xlabel="setting", ylabel="measured")
panel.legend()
plt.show()

# %% [markdown]
# ## In the package
#
# `equations.step` is your step, with the state as a pair. (A trace for pictures, and
# inputs of several rows, make it longer.)

# %%
course.show(equations.update_memory, equations.output)

# %% [markdown]
# ## Takeaways
#
# - Equation 7 keeps a share of the old and takes a share of the candidate, and the two
#   shares are independent.
# - A gate (B, N, 1) is a memory gate, a gate (B, N, F) a unit gate. Broadcasting makes
#   one equation of both.
# - A step that takes its array library as an argument computes with one and learns with
#   another.
# - The state is $m$ and $h$. Both go on, and the first memory tells slots apart.
#
# **Further.** With memory gates, which of the four corners can a slot reach for one
# half of its units and not for the other? How many weights do the three gates have, of
# either kind, for F = 64? Exchange two slots of $m$ and of $h$: what becomes of the new
# memory, and what of the answer of a network that reads it?

# %% tags=["hide-cell"]
# Answer 1
# None. All units of a slot share its gates, so they are always in the same corner.
m, candidate = np.full((1, 1, 4), 5.0), np.full((1, 1, 4), 3.0)
mixed = np.array([[[40.0, 40.0, -40.0, -40.0]]])  # half of the units open
for name, f in (("unit", mixed), ("memory", mixed[..., :1])):
    print(f"{name} gates:", update_memory(np, f, -f, m, candidate, 0.0)[0, 0])

# %% tags=["hide-cell"]
# Answer 2
# Each has W (F, G), U (F, G) and b (G,).
for name, G in (("unit", 64), ("memory", 1)):
    print(f"{name} gating: {3 * (2 * 64 * G + G):,} weights")

# %% tags=["hide-cell"]
# Answer 3
# The slots of the new memory are exchanged, and nothing else happens: no weight knows a
# slot's number. But the layer that reads all slots side by side has weights for each
# place, so its answer changes.
order = np.array([1, 0, 2, 3])
x, (m, h) = rng.normal(size=(2, F)), rng.normal(size=(2, 2, 4, F))
new_m, new_h = step(np, x, m, h, p)
other_m, other_h = step(np, x, m[:, order], h[:, order], p)
print("exchanged, too:", np.allclose(other_m, new_m[:, order]))
reader = rng.normal(size=(4 * F, 2))
one, other = (shown.reshape(2, -1) @ reader for shown in (new_h, other_h))
print("the reader's answers are the same:", np.allclose(one, other))
