# %% [markdown]
# # 12. Back through time
#
# **Section 3.3, backwards.** About 220 minutes, in four sittings. The whole chapter is
# the second track, the way back: later chapters do not need it. You need chapter 10 (a
# step and its training) and the derivatives of chapters 3, 4, 6, 8 and 9.
#
# The tape has found the gradients of your core. How far back do they reach, and by
# which way? To see that you walk back yourself, first through a step, then through
# forty. A bar means "the gradient of".

# %%
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import PaperRelationalMemory, Tape, course, primitives
from tinyrmc.course.exercises import through_time as ex

course.setup()
rng = np.random.default_rng(8)
my, vjps = course.pieces(), course.vjps(9)
vjps

# %% [markdown]
# ## Back through equations 7 and 8
#
# From the step after it, a step gets two gradients: $\bar m$ of its new memory and
# $\bar h$ of its new hidden state. The new memory is used twice: the next step reads
# it, and equation 8 shows it, $h = \sigma(o) \circ \tanh m$. What is used twice gets
# two gradients, and they add up.
#
# **Exercise 1.** Derive the gradient that the new memory has in all, and take it on.
# `vjps.gated_vjp(g, f, i, m, candidate, forget_bias)` is equation 7 backwards, from
# chapter 9. What does $o$ get?


# %%
def state_vjp(g_m, g_h, f, i, o, m, candidate, forget_bias):
    """g_m and g_h, the gradients of the new m and the new h
    -> the gradients of f, i, o, of the old m and of the candidate. All (..., F).
    """
    ...


ex.state_vjp.check(state_vjp)
state_vjp = ex.state_vjp.yours(state_vjp)

# %% [markdown]
# ## Back through the candidate
#
# The candidate's gradient is on its way to $g_\psi(z) = \mathrm{norm}(\mathrm{MLP}(z) +
# z)$. You have what it takes: `vjps.layer_norm_gradient(g, x, gain, 1e-5)` from chapter
# 8, where $x$ is what goes into the norm, and `vjps.stacks_vjp(g, a, b)` from chapter 3
# for each product. $z$ is used twice.
#
# **Exercise 2.** Go back through $g_\psi$: first forward once more, as far as you need
# it, then from the end.


# %%
def g_psi_vjp(g, z, layers, gain, offset):
    """g and z (B, N, F), layers [(W1, b1), (W2, b2)] -> the gradient of z (B, N, F)."""
    ...


ex.g_psi_vjp.check(g_psi_vjp)
g_psi_vjp = ex.g_psi_vjp.yours(g_psi_vjp)

# %% [markdown]
# **This is a good place to stop.**
#
# Before it comes equation 2. A slot is used three times in each head: it makes a query,
# and it makes a key and a value for all slots to look at. `vjps.attention_vjp(g, Q, K,
# V)` is from chapter 6, and `np.split(g, H, axis=-1)` gives each head its columns of
# $g$.
#
# **Exercise 3.** Which gradient do the slots get? (That of $x$ and of the weights is
# not asked for.)


# %%
def heads_vjp(g, m, x, W_q, W_k, W_v):
    """g and m (B, N, F), x (B, F), weights (H, F, F / H) -> the gradient of m."""
    ...


ex.heads_vjp.check(heads_vjp)
heads_vjp = ex.heads_vjp.yours(heads_vjp)

# %% [markdown]
# ## The whole step
#
# **Exercise 4.** Put it together, from the step's end to its beginning: equations 8 and
# 7 (exercise 1); the three gates, by `vjps.gate_vjp(g, x, h, W, U, b)`, which gives the
# gradients of $x$, $h$, $W$, $U$ and $b$; and the candidate (exercises 2 and 3).
# Forward there are `my.gate`, `my.multi_head_attention` and `my.g_psi`, with `np`
# first. Of the weights, $U^f$ will do. We want to shut ways later: `passed` is the
# share of the candidate's gradient that goes on, 1 for all of it.


# %%
def step_vjp(x, m, h, g_m, g_h, p, passed):
    """g_m, g_h the gradients of a step's new m and h; p its weights by name, as in
    chapter 10 -> the gradients of its m, of its h and of p["U_f"].
    """
    ...


ex.step_vjp.check(step_vjp)
step_vjp = ex.step_vjp.yours(step_vjp)

# %% [markdown]
# Is it right? Two examples of four slots, by hand and on the tape:

# %%
B, N, F = 2, 4, 12
core = PaperRelationalMemory(F, N, F // 2, 2, dtype=np.float64, seed=3)


def plain(core):
    """The weights of a core by name, as arrays."""
    named = core.equation_parameters().items()
    weights = {name: getattr(value, "data", value) for name, value in named}
    return weights | {"mlp": [(W.data, b.data) for W, b in weights["mlp"]]}


weights = plain(core)
x, (m, h, g_m, g_h) = rng.normal(size=(B, F)), rng.normal(size=(4, B, N, F))
with Tape() as tape:
    watched = [tape.watch(array) for array in (m, h, weights["U_f"])]
    new_m, new_h = my.step(primitives, x, *watched[:2], weights | {"U_f": watched[2]})
    loss = primitives.sum(new_m * g_m) + primitives.sum(new_h * g_h)
print(len(tape.entries), "operations on the tape")
found = tape.gradient(loss, watched)
by_hand = step_vjp(x, m, h, g_m, g_h, weights, 1.0)
for name, mine, theirs in zip(("m", "h", "U_f"), by_hand, found, strict=True):
    print(f"gradient of {name}: as on the tape,", np.allclose(mine, theirs, rtol=1e-9))

# %% [markdown]
# Your walk through a step finds what the tape finds.
#
# ## Unrolled
#
# A sequence is the same step again and again. Written side by side, the steps are one
# long computation: the core is *unrolled*. The walk back goes through it from the last
# step to the first: *back-propagation through time*. It is the tape's walk, with a
# whole step in place of each entry.

# %% tags=["hide-input"] alt="Three steps of the core side by side. Grey arrows lead forward: the memory goes along the top through equation 7, and down through equation 8 to h; the input goes to attention and to the gates, and both feed equation 7. Orange arrows lead back from the loss at the last h: along the memory's line with the forget gate as its factor, through attention with the input gate, and through the gates to h"
# Draws the unrolled core, and the ways on which the gradient comes back
COLUMNS, PITCH = 3, 4.6
figure, panel = plt.subplots(figsize=(10, 4.4))
orange = {"arrowstyle": "-|>", "color": "C1", "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
grey = orange | {"color": "0.6", "lw": 1.0}


def both_ways(start, end, way_back=True):
    """A grey arrow there, and beside it an orange one back."""
    along = np.subtract(end, start)
    aside = 0.09 * np.array([-along[1], along[0]]) / np.hypot(*along)
    panel.annotate("", end + aside, start + aside, arrowprops=grey)
    if way_back:
        panel.annotate("", start - aside, end - aside, arrowprops=orange)


def node(x, y, text):
    box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "0.4"}
    panel.text(x, y, text, ha="center", va="center", fontsize=9, bbox=box, zorder=4)


for t in range(COLUMNS + 1):
    x, ago = PITCH * t, COLUMNS - t
    before = f"t-{ago}" if ago else "t"
    node(x, 3.4, f"$m_{{{before}}}$")
    node(x, 0, f"$h_{{{before}}}$")
    if t:
        both_ways((x, 3.05), (x, 0.35))
        panel.text(x + 0.18, 1.7, "eq 8", fontsize=8, color="0.4", rotation=90)
    if not ago:
        break
    node(x + 3.3, 3.4, "eq 7")
    node(x + 1.2, 1.9, "attention, $g_\\psi$")
    node(x + 2.45, 0.25, "gates")
    node(x + 1.2, -1.35, f"$x_{{t-{ago - 1}}}$" if ago > 1 else "$x_t$")
    both_ways((x + 0.45, 3.4), (x + 2.9, 3.4))
    both_ways((x + 3.7, 3.4), (x + PITCH - 0.45, 3.4))
    both_ways((x + 0.25, 3.1), (x + 0.85, 2.25))
    both_ways((x + 1.7, 2.25), (x + 2.95, 3.15))
    both_ways((x + 0.42, 0.02), (x + 2.0, 0.17))
    both_ways((x + 2.65, 0.6), (x + 3.3, 3.05))
    both_ways((x + 1.2, -1.0), (x + 1.2, 1.55), way_back=False)
    both_ways((x + 1.45, -1.1), (x + 2.3, -0.08), way_back=False)
    shown = {"color": "C1", "va": "center", "fontsize": 9}
    panel.text(x + 1.7, 3.72, r"$\times\,$forget gate", ha="center", **shown)
    panel.text(x + 2.15, 2.85, r"$\times\,$input gate", ha="right", **shown)
node(PITCH * COLUMNS, -1.35, "loss")
both_ways((PITCH * COLUMNS, -0.32), (PITCH * COLUMNS, -1.05))
panel.set(xlim=(-0.7, PITCH * COLUMNS + 0.7), ylim=(-1.8, 4.1))
panel.axis("off")
plt.show()

# %% [markdown]
# Grey arrows lead forward, orange ones back. (The output gate and the ways back into
# the inputs are left out.) From a memory to the one before there are three ways:
#
# - along the top, straight through equation 7, with the forget gate as its factor;
# - through the candidate: the input gate, then $g_\psi$ and attention. On this way a
#   slot's gradient reaches *other* slots, too;
# - through the gates into $h$, and by equation 8 up into the memory.
#
# **Exercise 5.** Write this walk. `step_vjp` and the states that each step began with
# are given. The loss may use the $h$ of every step: `g[t]` is what it gives to that of
# step `t`. All steps use the same weights.


# %%
def through_time(step_vjp, xs, states, g):
    """xs (T, ...); states [(m, h), ...], T pairs; g (T, ...) for the h of each step;
    step_vjp(x, m, h, g_m, g_h) -> gradients of m, h and of the weights
    -> the gradients of the first m, of the first h and of the weights.
    """
    ...


ex.through_time.check(through_time)
through_time = ex.through_time.yours(through_time)

# %% [markdown]
# **This is a good place to stop.** Does it find what the tape finds, in ten steps of
# the whole core?


# %%
def states_of(xs, m, h, weights):
    """The state before each step."""
    states = []
    for x in xs:
        states.append((m, h))
        m, h = my.step(np, x, m, h, weights)
    return states


def backwards(*case):
    return step_vjp(*case, weights, 1.0)


T = 10
xs, g = rng.normal(size=(T, B, F)), rng.normal(size=(T, B, N, F))
m, h = core.initial_state(B)[0], np.zeros((B, N, F))
by_hand = through_time(backwards, xs, states_of(xs, m, h, weights), g)
with Tape() as tape:
    watched = [tape.watch(array) for array in (m, h, weights["U_f"])]
    m_t, h_t, U_f = watched
    loss = 0.0
    for x, g_t in zip(xs, g, strict=True):
        m_t, h_t = my.step(primitives, x, m_t, h_t, weights | {"U_f": U_f})
        loss = loss + primitives.sum(h_t * g_t)
found = tape.gradient(loss, watched)
for name, mine, theirs in zip(("m", "h", "U_f"), by_hand, found, strict=True):
    print(f"gradient of {name}: as on the tape,", np.allclose(mine, theirs, rtol=1e-9))

# %% [markdown]
# ## Which way does it take?
#
# The loss is at the last of forty steps only. At first all ways are open. Then we shut
# the way through $h$; then the candidate with its attention, too, which leaves the
# straight line at the top; and last everything that a step hands back along $m$, which
# leaves only $h$. **Write down first:** order the four by what arrives after 20 steps.
# And what does a forget bias of 3 change?

# %% tags=["hide-output"]
WAYS = {  # which are open: along m, through h, through g_psi and attention
    "all ways": (1, 1, 1),
    "not through $h$": (1, 0, 1),
    "equation 7 alone": (1, 0, 0),
    "through $h$ alone": (0, 1, 1),
}
xs, g = rng.normal(size=(40, B, F)), np.zeros((40, B, N, F))
g[-1] = rng.normal(size=(B, N, F))


def sizes_on(ways, xs, states, g, weights):
    """The size of what each step hands back, from the last step to the first."""
    along_m, through_h, passed = ways
    sizes = []

    def one_way(*case):
        g_m, g_h, by_U = step_vjp(*case, weights, passed)
        g_m, g_h = along_m * g_m, through_h * g_h
        sizes.append(np.linalg.norm([g_m, g_h]))
        return g_m, g_h, by_U

    through_time(one_way, xs, states, g)
    return np.array(sizes)


arrived = {}
for bias in (1.0, 3.0):
    named = weights | {"forget_bias": bias}
    states = states_of(xs, m, h, named)
    for name, ways in WAYS.items():
        arrived[bias, name] = sizes_on(ways, xs, states, g, named)
    after = [f"{arrived[bias, name][19]:.0e}" for name in WAYS]
    print(f"forget bias {bias:.0f}, after 20 steps:", ", ".join(after))

# %% tags=["hide-input", "hide-output"] alt="The size of the gradient against the steps that it has come back, for forget biases 1 and 3, logarithmic. All ways, and all but h, lie close together; with a bias of 1 they fall tenfold and then stay level, with a bias of 3 they grow in the end. Equation 7 alone falls by its forget gate, below the others. Through h alone it falls to nothing within twenty steps"
# Draws the size of the gradient on each way
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4), sharey=True)
back = np.arange(1, 41)
for panel, bias in zip(panels, (1.0, 3.0), strict=True):
    styles = ({"lw": 6, "alpha": 0.35}, {}, {"ls": "--"}, {})
    for name, style in zip(WAYS, styles, strict=True):
        panel.semilogy(back, arrived[bias, name], label=name, **style)
    panel.set(xlabel="steps back", ylim=(1e-12, 1e3), title=f"forget bias {bias:.0f}")
panels[0].set_ylabel("size of the gradient")
panels[1].legend(loc="center right", fontsize=8)
plt.show()

# %% [markdown]
# On the straight line alone the gradient shrinks by a forget gate at each step, as it
# did for one slot in chapter 9. Through $h$ next to nothing arrives: at every step that
# way passes the slope of a gate and a matrix of a fresh network. (Shut, it may cost
# something all the same: there are mixed ways.) But with the way through the candidate
# more arrives than with forget gates alone: with a bias of 1 and $h$ shut, 2 to 224
# times as much after 20 steps in twelve draws of weights; with a bias of 3, 0.8 to 11
# times, less in one of them.
#
# Is that attention, or the norm at the end of $g_\psi$, which divides by a row's spread
# and may enlarge a gradient? So we measured by what each part multiplies the gradient
# on its way back, in the mean of steps 2 to 20, with a bias of 1 and $h$ shut:
#
# | part | factor |
# |---|---|
# | the input gate | 0.52 (0.44 to 0.59) |
# | the norm | 0.91 (0.52 to 1.40) |
# | the MLP, with $z$ added | 1.11 (0.93 to 1.25) |
# | attention | 0.55 (0.43 to 0.69) |
# | all of these, the way through the candidate | 0.29 (0.16 to 0.40) |
# | the forget gate, the straight line | 0.73 (0.70 to 0.78) |
# | both ways together | 0.91 (0.81 to 1.02) |
#
# (From the lowest to the highest of twelve draws.) Attention makes it smaller in every
# draw, the norm in eight of twelve. More arrives because two ways *add up*: what comes
# through the candidate is less than what comes straight, but both together are close to
# 1 in the mean of the steps, and that counts twenty times. (An LSTM's candidate gives a
# second way, too, but that one passes the output gate and a tanh.)
#
# How much comes differs from draw to draw. With all ways open, 39 steps, from the first
# of forty to the last, shrink the gradient in ten of the twelve draws if the bias is 1,
# and let it grow in nine if it is 3: from 0.008 to 15 times, and from 0.4 to 76 times.
# This may be one reason why training clips it.
#
# ## Your picture
#
# How does the forget bias change how far back the gradient reaches? You choose biases
# and seeds; `sizes_of` draws a core's weights with a seed, walks back with all ways
# open, and returns 40 sizes, the first of them one step back.
#
# **Exercise 6.** Measure at three forget biases or more, with three seeds or more each,
# and draw the *geometric* mean over the seeds against the steps back, 1 to 40, a line
# with a `label` for each bias. That is exp of the mean of the logarithms. (The sizes
# differ by powers of ten, and in their sum the largest seed would hide all others. A
# median will do as well.) For the same reason the axis is `panel.semilogy(x, y)`.


# %%
def sizes_of(bias, seed):
    """The size of the gradient after 1, 2, ..., 40 steps back."""
    draw = np.random.default_rng([12, seed])
    core = PaperRelationalMemory(F, N, F // 2, 2, dtype=np.float64, seed=seed)
    weights = plain(core) | {"forget_bias": float(bias)}
    first, g = core.initial_state(B)[0], np.zeros((40, B, N, F))
    xs, g[-1] = draw.normal(size=(40, B, F)), draw.normal(size=(B, N, F))
    states = states_of(xs, first, 0 * first, weights)
    return sizes_on(WAYS["all ways"], xs, states, g, weights)


def how_far(sizes_of, panel):
    """Draws into panel -> a dict from bias to the geometric mean over seeds (40,)."""
    ...


ex.how_far.check(how_far)
how_far = ex.how_far.yours(how_far)

# %% tags=["hide-output"] alt="The geometric mean of the gradient's size against the steps back, logarithmic, a line for each forget bias: the lower the bias, the steeper it falls, and with a bias of 3 it grows in the end"
figure, panel = plt.subplots(figsize=(7, 3.2))
how_far(sizes_of, panel)
panel.legend()
plt.show()

# %% [markdown]
# What does it say, and what not? These are fresh weights, drawn three times. A trained
# core has other gates, and nothing here shows how far back *its* gradient reaches.
#
# **This is a good place to stop.**
#
# ## In windows
#
# A text has a million steps, and nobody keeps a million states. So you cut it into
# windows of some steps: the state goes on from window to window, the gradient does not.
# That is *truncated* back-propagation through time.
#
# **Exercise 7.** The gradient of the weights in windows. They begin at steps 0,
# `length`, 2 `length`, and so on; the last may be shorter.


# %%
def in_windows(step_vjp, xs, states, g, length):
    """As through_time, and the steps of a window -> the gradient of the weights."""
    ...


ex.in_windows.check(in_windows)
in_windows = ex.in_windows.yours(in_windows)

# %% [markdown]
# How wrong is it? Every step has a loss now. The cosine says how far the direction is
# that of the whole gradient. **Write down first:** from how many steps on is it above
# 0.9?

# %% tags=["hide-output"]
g = rng.normal(size=(40, B, N, F))
states = states_of(xs, m, h, weights)
*_, whole = through_time(backwards, xs, states, g)
for length in (1, 2, 5, 10, 20, 40):
    cut = in_windows(backwards, xs, states, g, length)
    cosine = (cut * whole).sum() / np.linalg.norm(cut) / np.linalg.norm(whole)
    print(f"windows of {length:2} steps: cosine {cosine:.2f}")

# %% [markdown]
# In this draw, only the whole has a cosine above 0.9. In twelve others, windows of 10
# steps have a cosine of 0.71 (0.34 to 0.85), windows of 20 one of 0.90 (0.75 to 0.98).
# So it takes many draws to say where 0.9 is passed. A cut gradient does not see what an
# input is good for after its window has ended.
#
# Does that mean that nothing is learnt that helps only later? We have *not* shown that.
# These are fresh weights, random gradients at every step, and one matrix out of many.
# And the state goes on: what a network has learnt to keep within a window may serve
# beyond it. Chapter 17 (language modelling) looks how far back trained networks use
# what they have read.
#
# ## Takeaways
#
# - The new memory gets two gradients, from the next step and through $h$. A slot of the
#   old one is used as query, key and value, and on the straight line.
# - In fresh networks the gradient comes through many steps along the memory: straight,
#   with a forget gate as its factor at each step, and through the candidate. The two
#   add up, so that with a bias of 1 more arrives than on the straight line alone.
# - All steps share their weights, so all that they give them adds up.
# - In windows the state goes on and the gradient does not.
#
# **Further.** How many numbers does the walk keep for forty steps, and how could you do
# with fewer? With forget gates of 0.73, how long must a window be, so that less than a
# tenth comes past its beginning on the straight line?

# %% tags=["hide-cell"]
# Answer 1
# It keeps a state for each step, and `step_vjp` computes the rest once more. (A tape
# keeps everything.) With every tenth state alone you could compute the others again,
# ten at a time: a third of the memory, for one more pass forward.
print(f"numbers in forty states: {40 * 2 * B * N * F:,}")
print(f"in four, and ten more while they are needed: {14 * 2 * B * N * F:,}")

# %% tags=["hide-cell"]
# Answer 2
# 0.73 to the power of the steps must be below 0.1.
for steps in (5, 7, 8, 10):
    print(f"{steps:2} steps: {0.73**steps:.3f}")
