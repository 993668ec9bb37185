# %% [markdown]
# # 10. The memory update: one whole step
#
# **Equations 7 to 9, section 3.3.** About 200 minutes. You need attention (chapter 6),
# the input among the rows (chapter 7), $g_\psi$ (chapter 8) and gates (chapter 9); for
# the way back also chapter 3, and for the training at the end chapter 5.
#
# You have all the parts. A memory $M$ of $N$ slots has looked at itself and at the new
# input $x$, and attention has proposed $\widetilde{M}$, a matrix of the same size. What
# becomes the next memory? In this chapter you write that update and put the whole step
# together. We lay the paper beside the code that its authors released: they are not the
# same network. At the end, a network learns with the step that you wrote.
#
# The letters, once more:
#
# | symbol | shape | what it is |
# |---|---|---|
# | $x_t$ | (B, F) | the input of step $t$, for B examples, already as wide as a slot |
# | $m_{i,t}$ | (B, N, F) | the memory; slot $i$ of it is a row of F numbers |
# | $h_{i,t}$ | (B, N, F) | the *hidden state*: what the outside and the gates see of the memory |
# | $\widetilde{m}_{i,t}$ | (B, N, F) | what attention proposes (equation 2) |
# | $g_\psi(\widetilde{m}_{i,t})$ | (B, N, F) | the same, processed row by row: the *candidate* |
# | $f, i, o$ | (B, N, G) | *pre-activations* of the forget, input and output gates: any numbers (equations 4 to 6); G is F or 1 |
# | $\sigma(f + \tilde{b}^f), \sigma(i), \sigma(o)$ | (B, N, G) | the *gates* themselves, between 0 (shut) and 1 (open) |
#
# (As in the paper, the index $i$ counts the slots, and the letter $i$ by itself belongs
# to the input gate.)

# %%
import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import (
    PaperRelationalMemory,
    RelationalMemory,
    Tape,
    course,
    equations,
    fused,
    nn,
    optim,
)
from tinyrmc import primitives as p
from tinyrmc.course.exercises import memory as ex
from tinyrmc.course.step_network import StepNetwork

course.setup()
rng = np.random.default_rng(8)


def random_weights(N, F, H, G, seed=0):
    """Weights of a fresh network under the names of equations.py, with gates G wide;
    and a memory to begin with.
    """
    core = PaperRelationalMemory(F, N, F // H, H, dtype=np.float64, seed=seed)
    named = core.equation_parameters()
    weights = {name: getattr(value, "data", value) for name, value in named.items()}
    weights["mlp"] = [(weight.data, bias.data) for weight, bias in weights["mlp"]]
    for gate in "fio":
        for name in (f"W_{gate}", f"U_{gate}", f"b_{gate}"):
            weights[name] = weights[name][..., :G]
    return weights, core.initial_state(1)[0]


# %% [markdown]
# ## Your pieces
#
# What you wrote in chapters 6 to 9 comes back here. `check` has kept each right answer,
# and `course.pieces(9)` fetches those up to chapter 9. Some have another name here:
# `multi_head_attention` is your `encode_with_heads`, and `gate` is your
# `gate_of_every_slot`. Where you have none yet, or where the tape cannot follow yours,
# you get the course's own, and the table says why:

# %%
my = course.pieces(9)
my

# %% [markdown]
# Every piece now takes the array library `xp` as its first argument.
# `my.sigmoid(np, x)` computes. `my.sigmoid(primitives, x)` computes the same and
# records it on the tape, so a gradient follows. You wrote for NumPy, and in most cases
# need not change a line: when NumPy's functions meet an object that is not an array,
# they ask it what to do. Ours answers with the operation of the same name from
# `primitives`. (The tape cannot follow everything. It loses track in an array of zeros
# that you fill entry by entry, and knows no `np.einsum` with `...` in it.)
#
# From here on you write with `xp` yourself: `xp.tanh(m)` where you wrote `np.tanh(m)`.
# A check then tries your values with NumPy and your gradient on the tape. (What is on
# the tape has no methods: write `xp.mean(x, axis=-1)`, not `x.mean(axis=-1)`. And you
# cannot loop over it: write `W_q[h]` for each head `h`, not `for W in W_q`. It has no
# `len(W_q)` either: write `W_q.shape[0]`.)
#
# ## Equation 7: keep and take
#
# The simplest update would make $\widetilde{M}$ the next memory. Chapter 7 showed where
# that leads: after a few inputs all slots hold nearly the same. An update needs a way
# *not* to follow attention.
#
# $$m_{i,t} = \sigma(f_{i,t} + \tilde{b}^f) \circ m_{i,t-1}
# + \sigma(i_{i,t}) \circ \underbrace{g_\psi(\widetilde{m}_{i,t})} \tag{7}$$
#
# > The underbrace denotes the modification to a standard LSTM. (section 3.3)
#
# Read it slot by slot; $\circ$ multiplies entry by entry. The first product is what the
# slot keeps of the old memory, the second what it takes from the candidate. The two
# gates are independent: nothing forces them to add up to 1. Open or shut each gate
# completely, and you have four *corners*. Here they are for $m = 5$, a candidate of 3
# and $\tilde{b}^f = 0$:

# %%
for f in (40.0, -40.0):
    for i in (40.0, -40.0):
        gates = (
            f"sigma(f) = {my.sigmoid(np, f):.0f}, sigma(i) = {my.sigmoid(np, i):.0f}"
        )
        after = float(ex.update_memory(np, f, i, 5.0, 3.0, 0.0))
        print(f"{gates}: the next memory is {after:.0f}")
shares = [f"sigma({bias:.0f}) = {my.sigmoid(np, bias):.3f}" for bias in (0.0, 1.0, 3.0)]
print(", ".join(shares))

# %% [markdown]
# From the top: old and new add up; the old stays; the new replaces it; the slot is
# cleared.
#
# $\tilde{b}^f$ is the *forget bias* of chapter 9, a constant. In a fresh network $f$ is
# near 0, so this constant decides what share of itself the memory keeps at each step.
# The last line of numbers gives that share for three biases.
#
# **Exercise 1.** Equation 7. `f` and `i` are pre-activations, so applying the sigmoid
# is up to you: `my.sigmoid(xp, f)`. They may be $\pm\infty$, for a gate that is nailed
# open or shut. `candidate` stands for $g_\psi(\widetilde{m})$, ready made.


# %%
def update_memory(xp, f, i, m, candidate, forget_bias):
    """f, i (B, N, G), m and candidate (B, N, F), forget_bias a number -> (B, N, F)."""
    ...


ex.update_memory.check(update_memory)
my_update_memory = ex.update_memory.yours(update_memory)

# %% [markdown]
# ## Equations 8 and 9: what is shown
#
# The memory itself can grow, as the first corner shows. What the outside gets to see is
# pressed into $(-1, 1)$ and gated once more:
#
# $$h_{i,t} = \sigma(o_{i,t}) \circ \tanh(m_{i,t}) \tag{8}$$
#
# $$s_{i,t+1} = (m_{i,t}, h_{i,t}) \tag{9}$$
#
# This pair goes on to the next step. (Equation 3, in chapter 9, names it in the other
# order; it is the same pair.) $h$ is the output of the step. In the next step the gates
# will see it, as equations 4 to 6 say.
#
# **Exercise 2.** Equation 8.


# %%
def output(xp, o, m):
    """o (B, N, G), m (B, N, F) -> (B, N, F)."""
    ...


ex.output.check(output)
my_output = ex.output.yours(output)

# %% [markdown]
# The paper adds: "In practice we did not find output gates necessary". You will see
# below what the released code made of that.
#
# ## One gate for each unit, or for each slot
#
# So far every unit of every slot has gates of its own, G = F. The paper calls this
# "unit" gating, and describes another kind:
#
# > Instead of producing scalar gates for each individual unit ('unit' gating), we can
# > produce scalar gates for each memory row by converting $W^f$, $W^i$, $W^o$, $U^f$,
# > $U^i$, and $U^o$ from weight matrices into weight vectors, and by replacing the
# > element-wise product in the gating equations with scalar-vector multiplication.
# > (section 3.3)
#
# That is "memory" gating: a slot is kept or overwritten as a whole. In equation 4 the
# matrix $W^f$ becomes a vector $w^f$, and $W^f x_t$ a single number; G = 1. The
# scalar-vector multiplication is what broadcasting does with an array (B, N, 1) beside
# an array (B, N, F), so equation 7 needs no change.
#
# **Exercise 3.** Write such a gate: not the pre-activation, but its sigmoid. Watch the
# axes. The input's part is one number for each *example*; the part of $h$ is one number
# for each *slot* of each example. (This is a detour, for NumPy alone, without `xp`.)


# %%
def memory_gate(x, h, w, u, b):
    """x (B, F), h (B, N, F), w and u (F,), b a number -> (B, N, 1), each in [0, 1]."""
    ...


ex.memory_gate.check(memory_gate)

# %% [markdown]
# Here are both kinds on the same six slots, and what they cost: the number of weights
# of all three gates.

# %%
N, F = 6, 16
x, h = rng.normal(size=(1, F)), rng.normal(size=(1, N, F))
W, U = rng.normal(size=(2, F, F)) / np.sqrt(F)
unit = my.sigmoid(np, my.gate(np, x, h, W, U, np.zeros(F)))  # (1, N, F)
memory = ex.memory_gate(x, h, W[:, 0], U[:, 0], 0.0)  # (1, N, 1)

# %% tags=["hide-input"] alt="Two heat maps of gates, slots by units: with unit gating every cell has its own shade, with memory gating every row has one"
# Draws gates of both kinds
figure, panels = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True)
for panel, gate, count, name in (
    (panels[0], unit, 3 * (2 * F * F + F), "unit"),
    (panels[1], memory, 3 * (2 * F + 1), "memory"),
):
    image = panel.imshow(np.broadcast_to(gate[0], (N, F)), cmap="Blues", vmin=0, vmax=1)
    panel.set(title=f"{name} gating: {count:,} weights", xlabel="unit", yticks=range(N))
panels[0].set(ylabel="slot")
figure.colorbar(image, ax=panels, label="shut (0) to open (1)", shrink=0.8)
plt.show()

# %% [markdown]
# In neither kind does a weight have an index for the slot, so either works with any
# number of slots (chapter 8).
#
# ## The whole step
#
# Now you have everything:
#
# 1. attention over slots and input, $\widetilde{M}$ (equation 2):
#    `my.multi_head_attention(xp, m, x, W_q, W_k, W_v)`;
# 2. the candidate $g_\psi(\widetilde{M})$:
#    `my.g_psi(xp, attended, mlp, gain, offset)`;
# 3. three pre-activations (equations 4 to 6), each `my.gate(xp, x, h, W, U, b)`;
# 4. the new memory (equation 7), and from the new memory the new hidden state
#    (equations 8 and 9): your functions of this chapter.
#
# **Exercise 4.** The whole step. `p` is a dict of the weights: `W_q`, `W_k`, `W_v`;
# `mlp`, `gain`, `offset`; `W_f`, `U_f`, `b_f` and the same for `i` and `o`; and the
# number `forget_bias`. Everything that you have written goes into it.


# %%
def step(xp, x, m, h, p):
    """x (B, F), m and h (B, N, F), p a dict -> (new m, new h), each (B, N, F)."""
    ...


ex.step.check(step)
my_step = ex.step.yours(step)

# %% [markdown]
# Now look at one step. It has four slots of 12 units; we count slots from 0. We have
# set some gates by hand: the input gates of slots 1 and 3 are shut, the forget gate of
# slot 1 is open, and the forget gate of slot 3 is shut. Gates are white where they are
# shut and dark where they are open. In the other panels blue is positive and red
# negative. Follow a row from left to right: slot 1 keeps what it held, slot 3 loses it,
# and the other two mix.

# %%
N, F = 4, 12
weights, m = random_weights(N, F, H=2, G=F, seed=1)
h, x = np.tanh(m), rng.normal(size=(1, F))


def weighed(function, *arguments, names):
    """A piece, given the weights of these names."""
    return function(np, *arguments, *(weights[name] for name in names.split()))


attended = weighed(my.multi_head_attention, m, x, names="W_q W_k W_v")
candidate = weighed(my.g_psi, attended, names="mlp gain offset")
f = weighed(my.gate, x, h, names="W_f U_f b_f")
i = weighed(my.gate, x, h, names="W_i U_i b_i")
o = weighed(my.gate, x, h, names="W_o U_o b_o")
i[0, [1, 3]] = -40  # shut
f[0, 1], f[0, 3] = 40, -40  # open, shut
after = my_update_memory(np, f, i, m, candidate, 1.0)

# %% tags=["hide-input"] alt="Six heat maps of four slots: the old memory, the candidate, forget gate, input gate, new memory and hidden state. The second row of the new memory equals the old one, the fourth is empty"
# Draws one step, from left to right
figure, panels = plt.subplots(1, 6, figsize=(10, 2.1), sharey=True)
values = {
    "memory m": m,
    "candidate": candidate,
    "forget gate": my.sigmoid(np, f + 1.0),
    "input gate": my.sigmoid(np, i),
}
values |= {"new memory": after, "new h": my_output(np, o, after)}
for panel, (name, value) in zip(panels, values.items(), strict=True):
    shades = {"cmap": "RdBu", "vmin": -2.5, "vmax": 2.5}
    if "gate" in name:
        shades = {"cmap": "Blues", "vmin": 0, "vmax": 1}
    panel.imshow(value[0], aspect="auto", **shades)
    panel.set_title(name, fontsize=9)
    panel.set(xticks=[], yticks=range(N))
panels[0].set(ylabel="slot")
plt.show()

# %% [markdown]
# ## Where a memory begins
#
# "Suppose then that M is some randomly initialised memory", says section 3.2. It does
# not say why random. An LSTM begins with zeros. Why not here?
#
# In equation 2, slots that are equal stay equal (chapter 7). The rest of the step does
# not separate them: $g_\psi$ treats equal rows alike, and gates that see the same $x_t$
# and the same $h$ open to the same degree. None of this depends on the weights, so no
# training can help. A memory of equal slots, zeros or others, is a memory of one slot,
# $N$ times.
#
# You can watch it. The *spread* is the distance of the slots from their mean as a share
# of their size: near 1 where they have nothing in common, 0 where all are the same.
# Here it is for both networks of this package, the paper's and the released one. (The
# next section shows what sets them apart.) Both have fresh weights and read a hundred
# random inputs, from four different first memories. **Write down first:** from which of
# the four do the slots stay apart?


# %%
def spread(m):
    """How far the slots of m (..., N, F) lie apart, as a share of their size."""
    size = np.sqrt((m * m).mean())
    away = m - m.mean(axis=-2, keepdims=True)
    return np.sqrt((away**2).mean()) / size if size else 0.0


def state_of(core, m):
    """The state of a core whose memory is m and which has shown nothing yet."""
    return (m, np.zeros_like(m)) if isinstance(core, PaperRelationalMemory) else m


def memory_of(state):
    return (state[0] if isinstance(state, tuple) else state).data


def spreads(core, m, inputs):
    """The spread of the slots before the first and after each of the inputs (T, D)."""
    state, found = state_of(core, m), [spread(m)]
    for x in inputs[:, None]:
        _, state = core(x, state)
        found.append(spread(memory_of(state)))
    return found


N, D, F = 6, 10, 16
inputs = rng.normal(size=(100, D))
beginnings = {
    "random": rng.normal(size=(1, N, F)),
    "identity": np.eye(N, F)[None],
    "random, a millionth": 1e-6 * rng.normal(size=(1, N, F)),
    "zeros": np.zeros((1, N, F)),
}
cores = {
    "paper": PaperRelationalMemory(D, N, F // 2, 2, dtype=np.float64, seed=0),
    "released": RelationalMemory(D, N, F // 2, 2, dtype=np.float64, seed=0),
}
kept = {}
for name, core in cores.items():
    for beginning, m in beginnings.items():
        kept[name, beginning] = spreads(core, m, inputs)

# %% tags=["hide-input"] alt="The slots' spread over a hundred steps for two networks and four first memories, logarithmic. Zeros stay at the level of rounding in both; from the identity and from random numbers the slots become alike quickly in the paper's network and slowly in the released one"
# Draws the slots' spread for both networks
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True)
for panel, core in zip(panels, cores, strict=True):
    for name in beginnings:
        panel.semilogy(np.maximum(kept[core, name], 1e-18), label=name)
    panel.axhline(np.finfo(float).eps, color="0.6", ls=":", lw=1)
    panel.set(title=f"{core}: how far apart the slots are")
    panel.set(xlabel="steps", ylim=(1e-18, 3))
panels[0].text(2, 2 * np.finfo(float).eps, "rounding", color="0.4", fontsize=8)
panels[1].legend(loc="center right", bbox_to_anchor=(1, 0.45))
plt.show()

# %% [markdown]
# From zeros the slots stay equal up to rounding errors (the dotted line), and the
# rounding errors do not grow into anything either. Random numbers times a millionth
# have a spread near 1 at first, because the spread is a share of the size. But the
# first step writes numbers of ordinary size, nearly the same for all slots. Beside
# these the differences are tiny, and the fresh networks do not make them larger again.
# (In the long run they make all differences smaller, the paper's network faster than
# the released one. The next section finds out why. As long as the slots are not exactly
# equal, training can change this.)
#
# The released code takes the identity: row $i$ is 1 at unit $i$ and 0 elsewhere. It
# tells the slots apart just as well, and nobody has to draw, store or seed it. If there
# are more units than slots, it gets additional columns of zeros; if there are fewer, it
# loses its last columns.
#
# **Exercise 5.** The first memory of the release, for a batch.


# %%
def first_memory(batch_size, N, F):
    """Integers -> (batch_size, N, F)."""
    ...


ex.first_memory.check(first_memory)

# %% [markdown]
# This cut has a price: with more slots than units, some rows have no 1. These rows are
# all zeros, so they are equal, and together they are worth one slot:

# %%
core = RelationalMemory(D, mem_slots=5, head_size=3, dtype=np.float64)  # three units
_, m = core(inputs[:1], core.initial_state(1))
print(core.initial_state(1)[0])
difference = abs(m.data[0, 3] - m.data[0, 4]).max()
print("after one step, slots 3 and 4 differ by", difference)

# %% [markdown]
# ## Paper and release, line by line
#
# The authors have released the formulation that they used in their experiments, as
# code. It differs from the nine equations in more than details. This table compares our
# two classes; a shorter form of it stands at the head of `cores/relational.py`:
#
# | | `PaperRelationalMemory`: equations 1-9 | `RelationalMemory`: as released |
# |---|---|---|
# | state | memory $m$ and hidden $h$ | memory $m$ only |
# | first memory | random | the identity, cut or padded with zeros |
# | who asks (eq 2) | the slots | slots and input rows; the input's answer is lost |
# | q, k, v | linear | linear with bias, then one layer norm over q, k and v of all heads together |
# | residual, norm (eq 2) | none | layer_norm(M + attention) |
# | gates see (eqs 4-5) | $x'_t$ and $h_{t-1}$ | $x'_t$ and $\tanh(m_{t-1})$, a bias for each |
# | output (eqs 6, 8) | $h = \sigma(o) \tanh(m)$ | $m$ itself |
# | candidate (eq 7) | $g_\psi(\widetilde{m})$ | tanh of it |
#
# You have seen the first memory. Before the other rows, here is what both classes
# share:
#
# **The input is projected.** Equation 2 multiplies slots and input by the same $W^k$,
# so these must be equally wide. The paper does not say how it makes them so. The
# release begins with a linear layer, $x' = xW + b$, that turns an input of any width
# into a row of F numbers. Everything after it, including the gates, sees $x'$ and not
# $x$. Both our classes have that layer: where equations 2 to 6 say $x_t$, we give $x'$.
#
# **Who asks.** The release lets all rows of $[M; x']$ ask, and cuts off the input's row
# afterwards. A row's answer depends on its own query and on all keys and values, not on
# who else asks. So with one round of attention in a step, the slots get the same
# answers either way. (With several rounds, called *blocks*, the slots of the second
# would look at an input that has itself looked around.)
#
# **A layer norm on queries, keys and values.** A memory can grow, and with it the
# paper's scores, which are products of two things that grow. Then the softmax takes the
# largest score and nothing else (chapter 6). The release first normalises every row of
# q, k and v, whatever the memory's size. Below, we make the memory larger and larger,
# and draw a slot's largest share of attention, as a mean over slots and heads. **Write
# down first:** how does this share change in each of the two networks?

# %%
scales = 2.0 ** np.arange(-4, 9)
largest = {"paper": [], "released": []}
for scale in scales:
    m, x = scale * beginnings["random"], inputs[:1]
    for name, core in cores.items():
        trace = []
        core(x, state_of(core, m), trace)
        largest[name].append(trace[0]["attention"].max(axis=-1).mean())

# %% tags=["hide-input"] alt="The largest share of attention against the size of the memory: for the paper's queries and keys it climbs to one, for the released ones, which are normalised, it stays where it was"
# Draws the largest share
figure, panel = plt.subplots(figsize=(6, 3))
for name, shares in largest.items():
    panel.semilogx(scales, shares, "o-", base=2, label=name)
panel.axhline(1 / (N + 1), color="0.5", ls=":", label="all alike")
panel.set(xlabel="factor of the memory", ylabel="largest share", ylim=(0, 1.05))
panel.legend(loc="upper left")
plt.show()

# %% [markdown]
# **A residual, inside a norm.** This is a second residual: chapter 8's goes around the
# MLP, and both forms have that one. The paper's candidate is made only of what
# attention brings, a mean of values. A slot's own content gets into it only if the slot
# attends to itself. The release adds the slot itself, layer_norm(M + attention). What
# is that worth? We take the residual out of a released core, and look at the slots'
# spread again. **Write down first:** will it be more like the paper's curve above, or
# like the released one?


# %%
class WithoutResidual(nn.LayerNorm):
    """A layer norm that does not add what it is given to add."""

    def __call__(self, x, residual=None):
        return super().__call__(x)


# The same weights as above
without = RelationalMemory(D, N, F // 2, 2, dtype=np.float64, seed=0)
without.blocks[0]["attention_norm"] = WithoutResidual(F, np.float64)
after = (0, 1, 2, 5, 10, 20, 50)
print("steps                 ", *(f"{t:8}" for t in after))
rows = {"paper": kept["paper", "random"], "released": kept["released", "random"]}
rows["released, no residual"] = spreads(without, beginnings["random"], inputs)
for name, found in rows.items():
    print(f"{name:22}", *(f"{found[t]:8.1e}" for t in after))

# %% [markdown]
# So it was the residual that kept the slots apart in the right panel above.
#
# **What the gates see.** Equations 4 and 5 see $h_{t-1}$. The release has no $h$; its
# gates see $\tanh(m_{t-1})$. By equation 8 that is $h$ in a network whose output gates
# are open. And the release has two biases, one in each linear layer; only their sum
# matters. Otherwise its gates are the paper's.
#
# **The output is the memory itself**, and **the candidate goes through a tanh.** "In
# practice we did not find output gates necessary": the release drops equation 6, and
# with it the tanh of equation 8. The numbers that leave the core are the numbers that
# it keeps. They are bounded in another way: what a step writes lies in $(-1, 1)$,
# because the candidate first goes through tanh. The paper's candidate is the result of
# a layer norm, and single entries of it may be as large as $\sqrt{F - 1}$. If the gates
# stood still, a memory would settle within
# $\pm \, \sigma(i) / (1 - \sigma(f + \tilde{b}^f))$ times the largest candidate. With a
# forget gate near 1 that is a wide bound. Here are both networks on four hundred
# inputs, with three forget biases. **Write down first:** which of the two memories
# grows further, and how large will the largest output be?

# %%
long = rng.normal(size=(course.fast(400, 20), D))
sizes = {}
classes = {"paper": PaperRelationalMemory, "released": RelationalMemory}
settings = {"dtype": np.float64, "seed": 0}
for forget_bias in (1.0, 3.0, 5.0):
    for name, kind in classes.items():
        core = kind(D, N, F // 2, 2, forget_bias=forget_bias, **settings)
        state, found = core.initial_state(1), []
        for x in long[:, None]:
            shown, state = core(x, state)
            found.append((abs(memory_of(state)).max(), abs(shown.data).max()))
        sizes[name, forget_bias] = np.array(found)

# %% tags=["hide-input"] alt="The largest entry of memory and of output over four hundred steps: memories of both networks grow, the further the larger the forget bias; the paper's output never passes one, the released output is the memory"
# Draws the largest entries
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
for panel, name in zip(panels, ("paper", "released"), strict=True):
    for number, forget_bias in enumerate((1.0, 3.0, 5.0)):
        in_memory, in_output = sizes[name, forget_bias].T
        label = f"memory, forget bias {forget_bias:.0f}"
        panel.semilogy(in_memory, color=f"C{number}", label=label)
        if name == "paper":
            label = "the outputs of all three" if number == 2 else None
            panel.semilogy(in_output, color="0.55", lw=0.8, label=label)
    panel.set(xlabel="steps")
panels[0].set(title="paper", ylabel="largest entry")
panels[1].set(title="released: memory and output are the same")
lines = panels[0].get_legend_handles_labels()
figure.legend(*lines, loc="outside lower center", ncols=4, fontsize=8)
plt.show()

# %% [markdown]
# The released memory grows at least as far, although it takes in smaller numbers. Its
# gates do not stand still: they see $\tanh(m)$, which stays near 1 or -1 where $m$ is
# large, so a large entry can hold its own gate open. If you read a released memory, be
# ready for such numbers. If you read the paper's output, you never see a number above
# 1, and you cannot tell whether a memory holds 5 or 50.

# %% [markdown]
# ## The way back through a step
#
# The next section trains a network with your step. The tape will find the gradients.
# How does it do that? You have all the parts of the answer, so put them together once
# by hand.
#
# From the steps after it, a step gets two gradients: $\bar m$ of its new memory, and
# $\bar h$ of its new hidden state. (A bar means "the gradient of".) The new memory is
# used twice. The next step reads it, and equation 8 shows it,
# $h = \sigma(o) \circ \tanh(m)$. What is used twice is paid twice, so its whole
# gradient is
#
# $$\bar m + \bar h \circ \sigma(o) \circ (1 - \tanh^2 m)$$
#
# This is the $g$ of chapter 9, and `gated_vjp` takes it on through equation 7. The
# output gate multiplies $\tanh m$, so its pre-activation $o$ gets $\bar h$ times that,
# times the slope of the sigmoid:
# $\bar h \circ \tanh m \circ \sigma(o)\,(1 - \sigma(o))$.
#
# **Exercise 6.** Equations 7 and 8 backwards. `vjps` has your functions of chapters 3
# to 9, `vjps.gated_vjp` among them. This one is for NumPy, without `xp`.

# %%
vjps = course.vjps(9)
vjps


# %%
def state_vjp(g_m, g_h, f, i, o, m, candidate, forget_bias):
    """g_m and g_h, the gradients of the new m and the new h
    -> the gradients of f, i, o, of the old m and of the candidate. All (..., F).
    """
    ...


ex.state_vjp.check(state_vjp)
my_state_vjp = ex.state_vjp.yours(state_vjp)

# %% [markdown]
# You already have the rest of the step, piece by piece. Here is all of it backwards,
# equation by equation, made of the functions in the table above. Begin to read at the
# comment "back": from there it follows the list of "The whole step" from its end to its
# beginning. Of the weights, it returns the gradient of $U^f$ alone. The gradients of
# the other matrices come out of the same calls, where you see a `_` or a `[0]`.


# %%
def what_back_needs(x, m, p):
    """Equation 2 and g_psi once more, with everything that they make on their way."""
    rows = np.concatenate([m, x[:, None]], axis=1)  # (B, N + 1, F)
    weights = [*zip(p["W_q"], p["W_k"], p["W_v"], strict=True)]
    heads = [(m @ q, rows @ k, rows @ v) for q, k, v in weights]
    each = [equations.attention(np, *head) for head in heads]
    attended = np.concatenate(each, axis=-1)  # (B, N, F)
    (W1, b1), (W2, b2) = p["mlp"]
    hidden = np.maximum(attended @ W1 + b1, 0)
    total = hidden @ W2 + b2 + attended  # before the norm
    candidate = equations.layer_norm(np, total, p["gain"], p["offset"])
    return rows, weights, heads, attended, hidden, total, candidate


def step_vjp(x, m, h, g_m, g_h, p, candidate_pays=1.0):
    """Gradients of a step's new m and new h -> those of its m, its h and of U_f.

    With candidate_pays=0, nothing goes back through g_psi and attention.
    """
    rows, weights, heads, attended, hidden, total, candidate = what_back_needs(x, m, p)
    named = {gate: [p[f"{letter}_{gate}"] for letter in "WUb"] for gate in "fio"}
    f, i, o = (my.gate(np, x, h, *named[gate]) for gate in "fio")
    # back: equations 8 and 7
    *by_gates, g_m, g = my_state_vjp(g_m, g_h, f, i, o, m, candidate, p["forget_bias"])
    # equations 6, 5 and 4
    g_h = 0.0
    for gate, by_gate in zip("oif", by_gates[::-1], strict=True):
        _, by_h, _, by_U, _ = vjps.gate_vjp(by_gate, x, h, *named[gate])
        g_h = g_h + by_h  # the last by_U is that of the forget gate
    # g_psi: the norm, then MLP and residual
    g = vjps.layer_norm_gradient(candidate_pays * g, total, p["gain"], 1e-5)
    (W1, _), (W2, _) = p["mlp"]
    by_hidden, _ = vjps.stacks_vjp(g, hidden, W2)
    g = g + vjps.stacks_vjp(by_hidden * (hidden > 0), attended, W1)[0]
    # equation 2, head by head
    shares = np.split(g, len(heads), axis=-1)
    for (q, k, v), head, share in zip(weights, heads, shares, strict=True):
        by_Q, by_K, by_V = vjps.attention_vjp(share, *head)
        by_rows = vjps.stacks_vjp(by_K, rows, k)[0] + vjps.stacks_vjp(by_V, rows, v)[0]
        g_m = g_m + vjps.stacks_vjp(by_Q, m, q)[0] + by_rows[:, :-1]
    return g_m, g_h, by_U


# %% [markdown]
# Is it right? Here is one step, with two examples of four slots, by hand and on the
# tape:

# %%
B, N, F = 2, 4, 12
weights, first = random_weights(N, F, H=2, G=F, seed=3)
x, (m, h, g_m, g_h) = rng.normal(size=(B, F)), rng.normal(size=(4, B, N, F))
with Tape() as tape:
    watched = [tape.watch(array) for array in (m, h, weights["U_f"])]
    new_m, new_h = my_step(p, x, *watched[:2], weights | {"U_f": watched[2]})
    loss = p.sum(new_m * g_m) + p.sum(new_h * g_h)
operations = len(tape.entries)
found = tape.gradient(loss, watched)
by_hand = step_vjp(x, m, h, g_m, g_h, weights)
for name, mine, theirs in zip(("m", "h", "U_f"), by_hand, found, strict=True):
    print(f"gradient of {name}: as on the tape,", np.allclose(mine, theirs, rtol=1e-9))
print(operations, "operations on the tape")

# %% [markdown]
# ## Back through time
#
# A sequence is the same step again and again, each with the state that the one before
# it left. Written side by side, the steps make one long computation: the core is
# *unrolled*. The walk back goes through it from the last step to the first. This is
# called *back-propagation through time*, and it is nothing new: it is the tape's walk,
# with a whole step in place of each entry.

# %% tags=["hide-input"] alt="Three steps of the core side by side. Grey arrows lead forward: the memory goes along the top through equation 7, and down through equation 8 to h; attention and gates feed equation 7. Orange arrows lead back from the loss at the last h: along the memory's line with the factor k, through attention with the factor w, and through the gates to h"
# Draws the unrolled core, and the ways on which the gradient comes back
COLUMNS, PITCH = 3, 4.6
figure, panel = plt.subplots(figsize=(10, 4.2))
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
    node(x + 3.1, 3.4, "eq 7")
    node(x + 1.55, 1.9, "attention, $g_\\psi$")
    node(x + 1.7, 0.25, "gates")
    node(x + 1.7, -1.35, f"$x_{{t-{ago - 1}}}$" if ago > 1 else "$x_t$")
    both_ways((x + 0.45, 3.4), (x + 2.75, 3.4))
    both_ways((x + 3.45, 3.4), (x + PITCH - 0.45, 3.4))
    both_ways((x + 0.3, 3.1), (x + 1.15, 2.2))
    both_ways((x + 1.9, 2.2), (x + 2.8, 3.1))
    both_ways((x + 0.42, 0.05), (x + 1.3, 0.2))
    both_ways((x + 1.95, 0.55), (x + 3.15, 3.1))
    both_ways((x + 1.7, -1.05), (x + 1.7, -0.05), way_back=False)
    panel.text(x + 1.55, 3.55, r"$\times\, k$", color="C1", ha="center", va="bottom")
    panel.text(x + 2.2, 2.85, r"$\times\, w$", color="C1", ha="right", va="center")
node(PITCH * COLUMNS, -1.35, "loss")
both_ways((PITCH * COLUMNS, -0.32), (PITCH * COLUMNS, -1.05))
panel.set(xlim=(-0.7, PITCH * COLUMNS + 0.7), ylim=(-1.8, 4.1))
panel.axis("off")
plt.show()

# %% [markdown]
# Grey arrows lead forward, orange ones lead back. (We have left out a few arrows: from
# $x$ to attention, from the output gate to equation 8, and the ways back into the
# inputs.) Follow the orange arrows from the loss. There are three ways from a memory to
# the one before:
#
# - along the top, straight through equation 7. The factor is the forget gate, $k$;
# - through the candidate: the input gate $w$, then $g_\psi$ and attention. This way, a
#   slot's gradient reaches the *other* slots, too;
# - through the gates into $h$, and by equation 8 up into the memory.
#
# Wherever two ways meet, their gradients add up. The weights are the same in every
# step, so their gradient is the sum of what all the steps pay in.
#
# **Exercise 7.** Write this walk. `step_vjp` is given, and so are the states that each
# step began with. The loss may use the $h$ of every step: `g[t]` is the gradient that
# it gives to the $h$ of step `t`. The judge moves the first state, and the weights of a
# whole sequence, by a complex step (chapter 4).


# %%
def through_time(step_vjp, xs, states, g):
    """xs (T, ...); states [(m, h), ...], T pairs; g (T, ...) for the h of each step;
    step_vjp(x, m, h, g_m, g_h) -> gradients of m, h and of the weights
    -> the gradients of the first m, of the first h and of the weights.
    """
    ...


ex.through_time.check(through_time)
my_through_time = ex.through_time.yours(through_time)

# %% [markdown]
# Now put everything together, on ten steps of the whole core. By hand, your walk calls
# the step backwards from above, and that is made of your derivatives. The tape needs
# nothing but your step.

# %%
T = 10
xs, g = rng.normal(size=(T, B, F)), rng.normal(size=(T, B, N, F))
m, h = np.tile(first, (B, 1, 1)), np.zeros((B, N, F))


def states_of(xs, m, h, weights):
    """The state before each step."""
    states = []
    for x in xs:
        states.append((m, h))
        m, h = my_step(np, x, m, h, weights)
    return states


def backwards(*case):
    return step_vjp(*case, weights)


by_hand = my_through_time(backwards, xs, states_of(xs, m, h, weights), g)
with Tape() as tape:
    watched = [tape.watch(array) for array in (m, h, weights["U_f"])]
    m_t, h_t, U_f = watched
    loss = 0.0
    for x, g_t in zip(xs, g, strict=True):
        m_t, h_t = my_step(p, x, m_t, h_t, weights | {"U_f": U_f})
        loss = loss + p.sum(h_t * g_t)
found = tape.gradient(loss, watched)
for name, mine, theirs in zip(("m", "h", "U_f"), by_hand, found, strict=True):
    print(f"gradient of {name}: as on the tape,", np.allclose(mine, theirs, rtol=1e-9))

# %% [markdown]
# How much of the gradient is left after 40 steps, and which way did it take? The loss
# is at the last step only. First the gradient comes back on all ways. Then we shut some
# of them: the way through $h$; the ways through $h$ and attention, which leaves only
# the straight line at the top; and last everything that a step hands back along $m$,
# which leaves only $h$. The cell prints the four in this order. **Write down first:**
# order them by what arrives after 20 steps. And what does a forget bias of 3 change?

# %%
WAYS = {  # which are open: along m, through h, through g_psi and attention
    "all ways": (1, 1, 1),
    "not through $h$": (1, 0, 1),
    "equation 7 alone, by $k$": (1, 0, 0),
    "through $h$ alone": (0, 1, 1),
}
xs, g = rng.normal(size=(40, B, F)), np.zeros((40, B, N, F))
g[-1] = rng.normal(size=(B, N, F))


def sizes_on(ways, states, weights):
    """The size of what each step hands back, from the last step to the first."""
    along_m, through_h, candidate_pays = ways
    sizes = []

    def one_way(*case):
        g_m, g_h, by_U = step_vjp(*case, weights, candidate_pays)
        g_m, g_h = along_m * g_m, through_h * g_h
        sizes.append(np.linalg.norm([g_m, g_h]))
        return g_m, g_h, by_U

    my_through_time(one_way, xs, states, g)
    return np.array(sizes)


arrived = {}
for bias in (1.0, 3.0):
    named = weights | {"forget_bias": bias}
    states = states_of(xs, m, h, named)
    for name, ways in WAYS.items():
        arrived[bias, name] = sizes_on(ways, states, named)
    after = [f"{arrived[bias, name][19]:.0e}" for name in WAYS]
    print(f"forget bias {bias:.0f}, after 20 steps:", ", ".join(after))

# %% tags=["hide-input"] alt="The size of the gradient against the steps that it has come back, for forget biases 1 and 3, logarithmic. All ways, and all but h, lie close together; with a bias of 1 they stay about level, with a bias of 3 they grow. Equation 7 alone falls by its forget gate, below the others. Through h alone it falls to nothing within twenty steps"
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
# On the straight line of equation 7 alone, the gradient shrinks by a forget gate at
# each step, as it did for a single slot in chapter 9. Through $h$ alone next to nothing
# arrives. At every step that way passes the slope of a gate and a matrix $U$ of a fresh
# network, and both make the gradient smaller. But with attention open, far more arrives
# after 40 steps than the forget gates let through. Attention is a second way along the
# memory, and an LSTM has none like it. With a bias of 3 the gradient even grows on its
# way back. This is one reason why training clips it (chapter 5).
#
# ## Your core learns
#
# Four symbols arrive, each one of eight. Is the last one the same as the first? In half
# of each batch we make it so, and in the other half it happens by chance once in eight.
# So if you always say yes, you are right in 9 cases of 16: that is the floor. To do
# better, a network must keep the first symbol and compare. We call the task *compare*.


# %%
def compared(rng, count=64):
    """Symbols, one-hot (count, 4, 8), and whether the last is the first again."""
    symbols = rng.integers(8, size=(count, 4))
    symbols[: count // 2, 3] = symbols[: count // 2, 0]
    same = (symbols[:, 3] == symbols[:, 0]).astype(int)
    return np.eye(8, dtype=np.float32)[symbols], same


# %% [markdown]
# `StepNetwork` makes a network of a step. It draws weights and a random first memory,
# projects the inputs, calls your step for each of them with `xp = primitives`, and puts
# one linear layer on the last $h$. Every number in between comes from your function:

# %%
course.show(StepNetwork.__call__)

# %% [markdown]
# First comes the list of what is in use. Then we train three seeds with 400 steps of
# Adam each, and clip the gradient at 1.
#
# **Write down first:** what share of right answers will the three reach? And how many
# steps does it take them to leave the floor?

# %%
print(my)
for name, function in (
    ("update_memory", my_update_memory),
    ("output", my_output),
    ("step", my_step),
):
    whose = "the course's" if hasattr(function, "judge") else "yours"
    print(f"chapter 10  {name:22} {whose}")

# %%
STEPS = course.fast(400, 10)


def train(seed):
    """Returns the share of right answers in each batch, before it is learnt from, and
    the share among new examples at the end.
    """
    network = StepNetwork(my_step, 8, 2, N=4, F=16, H=2, seed=seed)
    adam = optim.Adam(network.parameters(), learning_rate=3e-3)
    rng, right = np.random.default_rng(seed), []
    for _ in range(STEPS):
        symbols, same = compared(rng)
        with Tape() as tape:
            logits = network(symbols)
            loss = p.mean(fused.softmax_cross_entropy(logits, same))
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        right.append(np.mean(logits.data.argmax(axis=1) == same))
    symbols, same = compared(np.random.default_rng(2026), course.fast(2000, 100))
    return right, np.mean(network(symbols).data.argmax(axis=1) == same)


curves = []
for seed in range(3):
    curve, held_out = train(seed)
    curves.append(curve)
    print(f"seed {seed}: {held_out:.1%} of new examples right")


# %% tags=["hide-input"] alt="Right answers against training steps for three seeds: all leave the dotted line of always saying yes within a hundred steps and are at nearly 1 after three hundred"
# Draws the three learning curves
def smoothed(curve):
    """At each step the mean of the last twenty, or of as many as there are."""
    return [np.mean(curve[max(0, t - 20) : t]) for t in range(1, len(curve) + 1)]


figure, panel = plt.subplots(figsize=(7, 3.2))
for seed, curve in enumerate(curves):
    panel.plot(range(1, STEPS + 1), smoothed(curve), lw=1.2, label=f"seed {seed}")
panel.axhline(9 / 16, color="0.5", ls=":", label="always yes")
panel.set(xlabel="steps", ylabel="right answers", ylim=(0.3, 1.02))
panel.legend(loc="lower right")
plt.show()

# %% [markdown]
# The nine equations, as you wrote them down, learn to keep a symbol and to compare it
# with another. That is not enough for every task: in chapter 13 the same step meets a
# task on which it does not get off the floor, and you find out which row of the table
# above it lacks.
#
# ## In the package
#
# Your functions stand in `equations.py`, in the same words (chapter 0 shows two of
# them). Only `step` differs a little: there it takes the state as a pair, and returns
# $h$ first. Here is the released core. Its gates are one operation, `fused.rmc_gates`,
# with a derivative worked out by hand. (In its text `i` and `f` are the gates, after
# the sigmoid.) `_attend` shows who asks, and where the norms are:

# %%
course.show(RelationalMemory._step, RelationalMemory._attend, fused.rmc_gates.composed)

# %% [markdown]
# **Write down first:** above you saw how many operations your step left on the tape.
# How many does the released core leave, with its `fused` operations?

# %% alt="One step of the released core as a graph: the input is projected, joined to the memory, and goes through linear, layer_norm, attention, layer_norm, two linear and a layer_norm; gates are made of the input and of tanh of the memory; all meet in rmc_gates"
core = RelationalMemory(12, mem_slots=4, head_size=6, num_heads=2)
with Tape() as tape:
    x = tape.watch(np.ones((2, 12), np.float32))
    memory = tape.watch(core.initial_state(2))
    shown, _ = core(x, memory)
print(len(tape.entries), "operations on the tape")
course.draw_tape(shown, {"x": x, "memory": memory})
plt.show()

# %% [markdown]
# ## Takeaways
#
# - Equation 7 keeps a share of the old memory and takes a share of the candidate. The
#   two shares are independent, and the forget bias opens the first one at the
#   beginning.
# - A gate (B, N, 1) is a memory gate, a gate (B, N, F) a unit gate. Broadcasting makes
#   one equation of both.
# - On the way back, the new memory gets two gradients, from the next step and through
#   $h$. Through many steps the gradient comes along the memory: straight, with a forget
#   gate as its factor at each step, and through attention, which lets far more of it
#   arrive.
# - Slots that are equal stay equal, whatever the weights. The first memory must tell
#   them apart.
# - The release is another network than the nine equations: no $h$, no output gate, a
#   tanh on the candidate, a norm on q, k and v, and a residual that keeps slots apart.
# - A step that takes its array library as an argument computes with one and learns with
#   another.
#
# **Further.** With memory gates, which of the four corners of equation 7 can a slot
# reach for one half of its units and not for the other? The identity is one memory with
# all slots different. Is there one from which the slots of a fresh network stay apart
# longer? Exchange two slots of $m$ and of $h$: what becomes of the new memory, and what
# of the answer of a network that reads it?

# %% tags=["hide-cell"]
# Answer 1: none. All units of a slot share its two gates, so they are always in the
# same corner. With unit gates each has its own.
m, candidate = np.full((1, 1, 4), 5.0), np.full((1, 1, 4), 3.0)
mixed = np.array([[[40.0, 40.0, -40.0, -40.0]]])  # half of the units open
for name, f in (("unit", mixed), ("memory", mixed[..., :1])):
    print(f"{name} gates:", my_update_memory(np, f, -f, m, candidate, 0.0)[0, 0])

# %% tags=["hide-cell"]
# Answer 2: a larger one, for a while. The same random memory, ten and a hundred times
# as large, in the paper's network: gates forget a share at each step, so what is large
# stays above what is written for longer. In the end all fall alike.
for scale in (1.0, 10.0, 100.0):
    found = spreads(cores["paper"], scale * beginnings["random"], inputs)
    print(f"scale {scale:3.0f}:", *(f"{t} steps {found[t]:.0e}" for t in (5, 20, 50)))

# %% tags=["hide-cell"]
# Answer 3: the slots of the new memory are exchanged, and nothing else happens: no
# weight knows a slot's number. But the layer that reads all slots side by side has
# weights for each place, so its answer changes.
order = np.array([1, 0, 2, 3])
x, (m, h) = rng.normal(size=(2, F)), rng.normal(size=(2, 2, 4, F))
new_m, new_h = my_step(np, x, m, h, weights)
other_m, other_h = my_step(np, x, m[:, order], h[:, order], weights)
print("exchanged, too:", np.allclose(other_m, new_m[:, order]))
reader = rng.normal(size=(4 * F, 2))
one, other = (shown.reshape(2, -1) @ reader for shown in (new_h, other_h))
print("the reader's answers are the same:", np.allclose(one, other))
