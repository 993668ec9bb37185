# %% [markdown]
# # 8. The memory update: one whole step
#
# **Equations 7 to 9, section 3.3.** Forty minutes. You need attention (chapter 4), the
# input among the rows (chapter 5), $g_\psi$ (chapter 6) and gates (chapter 7).
#
# All parts lie on the table. A memory $M$ of $N$ slots has looked at itself and at the
# new input $x$, and attention has proposed $\widetilde{M}$, a matrix of the same size.
# What shall the next memory be? This chapter writes that update, puts the whole step
# together, and then lays the paper beside the code that its authors released: they are
# not the same network, and each difference can be seen.
#
# The letters, once more:
#
# | symbol | shape | what it is |
# |---|---|---|
# | $x_t$ | (B, F) | the input of step $t$, for B examples, already as wide as a slot |
# | $m_{i,t}$ | (B, N, F) | the memory; slot $i$ of it is a row of F numbers |
# | $h_{i,t}$ | (B, N, F) | the *hidden state*: what the outside and the gates get to see of the memory |
# | $\widetilde{m}_{i,t}$ | (B, N, F) | what attention proposes (equation 2) |
# | $g_\psi(\widetilde{m}_{i,t})$ | (B, N, F) | the same, processed row by row: the *candidate* |
# | $f, i, o$ | (B, N, G) | *pre-activations* of the forget, input and output gate, any numbers (equations 4 to 6); G is F or 1 |
# | $\sigma(f + \tilde{b}^f), \sigma(i), \sigma(o)$ | (B, N, G) | the *gates* themselves, between 0 (shut) and 1 (open) |
#
# (As in the paper, $i$ as an index counts the slots, and $i$ as a letter of its own
# belongs to the input gate.)

# %%
import json

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

course.setup()
rng = np.random.default_rng(8)


def random_weights(N, F, H, G, seed=0):
    """Weights of a fresh network under the names of equations.py, with gates G wide; and a memory to begin with."""
    core = PaperRelationalMemory(F, N, F // H, H, dtype=np.float64, seed=seed)
    weights = {
        name: getattr(value, "data", value)
        for name, value in core.equation_parameters().items()
    }
    weights["mlp"] = [(weight.data, bias.data) for weight, bias in weights["mlp"]]
    for name in "fio":
        weights[f"W_{name}"], weights[f"U_{name}"] = (
            weights[f"W_{name}"][:, :G],
            weights[f"U_{name}"][:, :G],
        )
        weights[f"b_{name}"] = weights[f"b_{name}"][:G]
    return weights, core.initial_state(1)[0]


# %% [markdown]
# ## The naive update, and why not
#
# "Naively", says the paper (chapter 7 quotes it), $M$ could become $\widetilde{M}$ at
# each step. Chapter 5 saw the slots grow alike that way. Here is the naive update
# beside the one of this chapter, with two forget biases: six slots of 16 units, fresh
# weights, forty random inputs.
#
# On the left the *spread*, the distance of the slots from their mean as a share of
# their size: near 1 where they have nothing in common, 0 where all are the same. On the
# right two sequences are read that differ in the first input alone: how far apart are
# the two memories, again as a share of their size?


# %%
def spread(m):
    """How far the slots of m (..., N, F) lie apart: 0 where all are equal, near 1 where they have nothing in common."""
    size = np.sqrt((m * m).mean())
    return (
        np.sqrt(((m - m.mean(axis=-2, keepdims=True)) ** 2).mean()) / size
        if size
        else 0.0
    )


def memories(weights, m, inputs, naive):
    """The memory before the first and after each of the inputs (T, F)."""
    h, found = np.zeros_like(m), [m]
    for x in inputs[:, None]:
        if naive:
            m = equations.multi_head_attention(
                np, m, x, weights["W_q"], weights["W_k"], weights["W_v"]
            )
        else:
            _, (m, h) = equations.step(np, x, (m, h), weights)
        found.append(m)
    return found


weights, first = random_weights(N=6, F=16, H=2, G=16)
inputs = rng.normal(size=(40, 16))
others = np.concatenate(
    [rng.normal(size=(1, 16)), inputs[1:]]
)  # another first input, then the same
updates = {
    "naive": (True, 0.0),
    "gated, forget bias 1": (False, 1.0),
    "gated, forget bias 3": (False, 3.0),
}
apart, remembered = {}, {}
for name, (naive, forget_bias) in updates.items():
    one, other = (
        memories(weights | {"forget_bias": forget_bias}, first, each, naive)
        for each in (inputs, others)
    )
    apart[name] = [spread(m) for m in one]
    remembered[name] = [
        np.linalg.norm(a - b) / np.linalg.norm(a)
        for a, b in zip(one[1:], other[1:], strict=True)
    ]

# %% alt="Two panels over forty steps, logarithmic. With the naive update the slots are copies of each other after five steps and the first input fades; with gates both fall much more slowly, the more slowly the larger the forget bias"
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.4))
for name in updates:
    panels[0].semilogy(apart[name], ".-", label=name)
    panels[1].semilogy(range(1, 41), remembered[name], ".-", label=name)
panels[0].set(title="how far apart the slots are", xlabel="steps", ylim=(1e-6, 2))
panels[1].set(
    title="what the first input still changes", xlabel="steps", ylim=(1e-3, 2)
)
panels[1].legend(loc="lower left")
plt.show()

# %% [markdown]
# After a few naive steps six slots hold one and the same vector, and after twenty next
# to nothing of the first input is left. Gates delay both, and a forget bias of 3 far
# more than one of 1. What an update needs is a way *not* to follow attention.
#
# ## Equation 7: keep and take
#
# $$m_{i,t} = \sigma(f_{i,t} + \tilde{b}^f) \circ m_{i,t-1} + \sigma(i_{i,t}) \circ \underbrace{g_\psi(\widetilde{m}_{i,t})} \tag{7}$$
#
# > The underbrace denotes the modification to a standard LSTM. (section 3.3)
#
# Read it slot by slot; $\circ$ multiplies entry by entry. The first product is what is
# kept of the old memory, the second what is taken of the candidate. The two gates are
# independent: nothing forces them to add up to 1. With $m = 5$, a candidate of 3 and
# $\tilde{b}^f = 0$, the corners:

# %%
for f in (40.0, -40.0):
    for i in (40.0, -40.0):
        gates = f"sigma(f) = {ex.sigmoid(f):.0f}, sigma(i) = {ex.sigmoid(i):.0f}"
        print(
            f"{gates}: the next memory is {float(ex.update_memory(f, i, 5.0, 3.0, 0.0)):.0f}"
        )
print(
    *(
        f"sigma({constant:.0f}) = {ex.sigmoid(constant):.3f}"
        for constant in (0.0, 1.0, 3.0)
    ),
    sep=", ",
)

# %% [markdown]
# In that order: both are added up, the old stays, the new replaces it, the slot is
# cleared.
#
# $\tilde{b}^f$ is the *forget bias* of chapter 7, a constant. In a fresh network $f$ is
# near 0, so this constant decides which share is kept at each step. The last line of
# numbers has that share for a bias of 0, and for the 1 and the 3 of the picture.
#
# **Exercise 1.** Equation 7. `f` and `i` are pre-activations: the sigmoid is yours
# (`ex.sigmoid` is one that never overflows). They may be $\pm\infty$, for a gate that
# is nailed open or shut. `candidate` stands for $g_\psi(\widetilde{m})$, ready made.


# %%
def update_memory(f, i, m, candidate, forget_bias):
    """f, i (B, N, G), m and candidate (B, N, F), forget_bias a number -> (B, N, F)."""
    ...


ex.update_memory.check(update_memory)

# %% [markdown]
# ## Equations 8 and 9: what is shown
#
# The memory itself can grow, as the first corner says. What the outside gets to see is
# pressed into $(-1, 1)$ and gated once more:
#
# $$h_{i,t} = \sigma(o_{i,t}) \circ \tanh(m_{i,t}) \tag{8}$$
#
# $$s_{i,t+1} = (m_{i,t}, h_{i,t}) \tag{9}$$
#
# This pair goes on to the next step. (Equation 3, in chapter 7, names it in the other
# order. It is the same pair.) $h$ is the output of the step, and in the next one the
# gates will see it, as equations 4 to 6 say.
#
# **Exercise 2.** Equation 8.


# %%
def output(o, m):
    """o (B, N, G), m (B, N, F) -> (B, N, F)."""
    ...


ex.output.check(output)

# %% alt="The hidden value against the memory for three output gates: an S between minus one and one, flatter the more the gate is shut"
m = np.linspace(-6, 6, 200)
figure, panel = plt.subplots(figsize=(6, 3))
panel.plot(m, m, ":", color="0.5", label="the memory itself")
for o in (40.0, 0.0, -2.0):
    panel.plot(m, ex.output(o, m), label=f"h, with sigma(o) = {ex.sigmoid(o):.2f}")
panel.set(ylim=(-2, 2), xlabel="memory m", ylabel="shown")
panel.legend(loc="lower right")
plt.show()

# %% [markdown]
# The paper adds: "In practice we did not find output gates necessary". We shall see
# what the released code made of that.
#
# ## One gate for each unit, or for each slot
#
# So far every unit of every slot has gates of its own, G = F. The paper calls this
# "unit" gating, and names another:
#
# > Instead of producing scalar gates for each individual unit ('unit' gating), we can
# > produce scalar gates for each memory row by converting $W^f$, $W^i$, $W^o$, $U^f$,
# > $U^i$, and $U^o$ from weight matrices into weight vectors, and by replacing the
# > element-wise product in the gating equations with scalar-vector multiplication.
# > (section 3.3)
#
# That is "memory" gating: a slot is kept or overwritten as a whole. In equation 4 the
# matrix $W^f$ becomes a vector $w^f$ and $W^f x_t$ a single number; G = 1. And the
# scalar-vector multiplication is what broadcasting does with an array (B, N, 1) beside
# one of (B, N, F): equation 7 needs no change.
#
# **Exercise 3.** Such a gate: not the pre-activation, but its sigmoid. Mind the axes:
# the input's part is one number for each *example*, the other part one for each *slot*
# of each example.


# %%
def memory_gate(x, h, w, u, b):
    """x (B, F), h (B, N, F), w and u (F,), b a number -> (B, N, 1), each in [0, 1]."""
    ...


ex.memory_gate.check(memory_gate)

# %% [markdown]
# Both kinds on the same six slots, and what they cost. The number of weights is that of
# the three gates:

# %% alt="Two heat maps of gates, slots by units: with unit gating every cell has its own shade, with memory gating every row has one"
N, F = 6, 16
x, h = rng.normal(size=(1, F)), rng.normal(size=(1, N, F))
W, U = rng.normal(size=(2, F, F)) / np.sqrt(F)
unit = ex.sigmoid(equations.gate(np, x, h, W, U, np.zeros(F)))  # (1, N, F)
memory = ex.memory_gate(x, h, W[:, 0], U[:, 0], 0.0)  # (1, N, 1)
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
# In neither is a weight indexed by a slot. "Since parameters $W^f$, $W^i$, $W^o$,
# $U^f$, $U^i$, $U^o$, and $\psi$ are shared for each $m_i$, we can modify the number of
# memories without affecting the number of parameters" (section 3.3).
#
# ## The whole step
#
# Now everything is there:
#
# 1. attention over slots and input, $\widetilde{M}$ (equation 2):
#    `equations.multi_head_attention(np, m, x, W_q, W_k, W_v)`;
# 2. the candidate $g_\psi(\widetilde{M})$:
#    `equations.g_psi(np, attended, mlp, gain, offset)`;
# 3. three pre-activations (equations 4 to 6), each `equations.gate(np, x, h, W, U, b)`;
# 4. the new memory (equation 7), and from the new memory the new hidden state
#    (equations 8 and 9).
#
# **Exercise 4.** The whole step. `p` is a dict of the weights: `W_q`, `W_k`, `W_v`;
# `mlp`, `gain`, `offset`; `W_f`, `U_f`, `b_f` and the same for `i` and `o`; and the
# number `forget_bias`. Take the pieces of chapters 4 to 7 from `equations`, your own
# for the rest.


# %%
def step(x, m, h, p):
    """x (B, F), m and h (B, N, F), p a dict -> (new m, new h), each (B, N, F)."""
    ...


ex.step.check(step)

# %% [markdown]
# One step, seen. Four slots of 12 units, counted from 0; by hand, the input gates of
# slots 1 and 3 have been shut, the forget gate of slot 1 opened and that of slot 3
# shut. Gates are white where they are shut and dark where they are open; elsewhere blue
# is positive and red negative. Follow a row from left to right: slot 1 keeps what it
# held, slot 3 loses it, the other two mix.

# %% alt="Six heat maps of four slots: the old memory, the candidate, forget gate, input gate, new memory and hidden state. The second row of the new memory equals the old one, the fourth is empty"
N, F = 4, 12
weights, m = random_weights(N, F, H=2, G=F, seed=1)
h, x = np.tanh(m), rng.normal(size=(1, F))
attended = equations.multi_head_attention(
    np, m, x, weights["W_q"], weights["W_k"], weights["W_v"]
)
candidate = equations.g_psi(
    np, attended, weights["mlp"], weights["gain"], weights["offset"]
)
f, i, o = (
    equations.gate(
        np, x, h, weights[f"W_{name}"], weights[f"U_{name}"], weights[f"b_{name}"]
    )
    for name in "fio"
)
i[0, [1, 3]], f[0, 1], f[0, 3] = -40, 40, -40
after = ex.update_memory(f, i, m, candidate, 1.0)
figure, panels = plt.subplots(1, 6, figsize=(10, 2.1), sharey=True)
values = {
    "memory m": m,
    "candidate": candidate,
    "forget gate": ex.sigmoid(f + 1.0),
    "input gate": ex.sigmoid(i),
}
values |= {"new memory": after, "new h": ex.output(o, after)}
for panel, (name, value) in zip(panels, values.items(), strict=True):
    shades = (
        {"cmap": "Blues", "vmin": 0, "vmax": 1}
        if "gate" in name
        else {"cmap": "RdBu", "vmin": -2.5, "vmax": 2.5}
    )
    panel.imshow(value[0], aspect="auto", **shades)
    panel.set_title(name, fontsize=9)
    panel.set(xticks=[], yticks=range(N))
panels[0].set(ylabel="slot")
plt.show()

# %% [markdown]
# ## Where a memory begins
#
# "Suppose then that M is some randomly initialised memory", says section 3.2, and does
# not say why random. An LSTM begins with zeros. Why not here?
#
# In equation 2 slots that are equal stay equal (chapter 5). The rest of the step does
# not part them: $g_\psi$ treats equal rows alike, and gates that see the same $x_t$ and
# the same $h$ open to the same degree. Nothing in this depends on what the weights are,
# so no training can help. A memory of equal slots, zeros or others, is a memory of one
# slot, $N$ times.
#
# Here is the spread again, for both networks of this package, the paper's and the
# released one (what sets them apart is the next section), with fresh weights, on a
# hundred random inputs, from four first memories.


# %%
def spreads(core, m, inputs):
    """The spread of the memory's slots before the first and after each of the inputs (T, D)."""
    state, found = (
        (m, np.zeros_like(m)) if isinstance(core, PaperRelationalMemory) else m,
        [spread(m)],
    )
    for x in inputs[:, None]:
        _, state = core(x, state)
        found.append(spread((state[0] if isinstance(state, tuple) else state).data))
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
kept = {
    (core, name): spreads(cores[core], m, inputs)
    for core in cores
    for name, m in beginnings.items()
}

# %% alt="The slots' spread over a hundred steps for two networks and four first memories, logarithmic. Zeros stay at the level of rounding in both; from the identity and from random numbers slots grow alike quickly in the paper's network and slowly in the released one"
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.6), sharey=True)
for panel, core in zip(panels, cores, strict=True):
    for name in beginnings:
        panel.semilogy(np.maximum(kept[core, name], 1e-18), label=name)
    panel.axhline(np.finfo(float).eps, color="0.6", ls=":", lw=1)
    panel.set(
        title=f"{core}: how far apart the slots are", xlabel="steps", ylim=(1e-18, 3)
    )
panels[0].text(2, 2 * np.finfo(float).eps, "rounding", color="0.4", fontsize=8)
panels[1].legend(loc="center right", bbox_to_anchor=(1, 0.45))
plt.show()

# %% [markdown]
# From zeros the slots stay equal up to rounding errors (the dotted line), and those do
# not grow into anything either. A millionth of random numbers has a spread near 1 at
# first, for the spread is a share of the size. But the first step writes numbers of
# ordinary size, nearly the same for all slots, and beside these the differences are
# tiny; the fresh networks make them no larger again. (In the long run they make all
# differences smaller, the paper's faster than the released one; the next section finds
# the line that decides it. Training can change that, for slots that are not equal.)
#
# The released code takes the identity: row $i$ is 1 at unit $i$ and 0 elsewhere. It is
# as good at telling the slots apart, and it need not be drawn, stored or seeded. With
# more units than slots, columns of zeros are added; with fewer, the last columns are
# cut off.
#
# **Exercise 5.** The first memory of the release, for a batch.


# %%
def first_memory(batch_size, N, F):
    """Integers -> (batch_size, N, F)."""
    ...


ex.first_memory.check(first_memory)

# %% [markdown]
# Cut off: with more slots than units there are rows without a 1. They are zero, hence
# equal, hence one slot:

# %%
core = RelationalMemory(
    D, mem_slots=5, head_size=3, dtype=np.float64
)  # five slots of three units
_, m = core(inputs[:1], core.initial_state(1))
print(core.initial_state(1)[0])
print("after one step, slots 3 and 4 differ by", abs(m.data[0, 3] - m.data[0, 4]).max())

# %% [markdown]
# ## Paper and release, line by line
#
# The authors have released the formulation that they used in their experiments, as
# code. It differs from the nine equations in more than details. Our two classes, from
# the head of `memory.py`:
#
# | | `PaperRelationalMemory`: equations 1-9 | `RelationalMemory`: as released |
# |---|---|---|
# | state | memory $m$ and hidden $h$ | memory $m$ only |
# | first memory | random | the identity, cut or padded with zeros |
# | who asks (eq 2) | the slots | slots and input rows; the input's answer is lost |
# | q, k, v | linear | linear with bias, then one layer norm over q, k and v of all heads together |
# | residual, norm (eq 2) | none | layer_norm(M + attention) |
# | gates see (eqs 4-5) | $x_t$ and $h_{t-1}$ | projected $x_t$ and $\tanh(m_{t-1})$, a bias for each |
# | output (eqs 6, 8) | $h = \sigma(o) \tanh(m)$ | $m$ itself |
# | candidate (eq 7) | $g_\psi(\widetilde{m})$ | tanh of it |
#
# The first memory is done. One line after the other:
#
# **The input is projected.** Equation 2 multiplies slots and input by the same $W^k$,
# so they must be equally wide, and the paper does not say how they come to be. The
# release begins with a linear layer, $x' = xW + b$, that makes an input of any width a
# row of F. Everything behind it, the gates too, sees $x'$ and not $x$. Both our classes
# have that layer; where equations 2 to 6 say $x_t$, we give $x'$.
#
# **Who asks.** The release lets all rows of $[M; x']$ ask, and cuts the input's row off
# afterwards. A row's answer depends on its own query and on everybody's keys, not on
# who else asks. A core can attend several times in a time step; each time is called a
# *block*. With one block nothing changes:

# %%
rows = rng.normal(size=(N + 1, F))  # [M; x']
W_q, W_k, W_v = rng.normal(size=(3, F, F)) / np.sqrt(F)
keys, values = rows @ W_k, rows @ W_v
only_slots = equations.attention(np, rows[:N] @ W_q, keys, values)  # (N, F)
all_ask = equations.attention(np, rows @ W_q, keys, values)  # (N + 1, F)
print(
    f"one block: they differ by {np.linalg.norm(all_ask[:N] - only_slots) / np.linalg.norm(only_slots):.1%} of their size"
)

second = equations.attention(
    np, all_ask[:N] @ W_q, all_ask @ W_k, all_ask @ W_v
)  # the input's row has been refined as well
instead = np.concatenate([only_slots, rows[N:]])  # the input as it came
plain = equations.attention(np, only_slots @ W_q, instead @ W_k, instead @ W_v)
print(
    f"two blocks: they differ by {np.linalg.norm(second - plain) / np.linalg.norm(plain):.1%} of their size"
)

# %% [markdown]
# With more blocks it does: in the second, the slots look at an input that has itself
# looked around. In the last block the input's answer is never used, and
# `RelationalMemory` does not compute it.
#
# **A layer norm on queries, keys and values.** A memory can grow, and with it the
# paper's scores, the products of two things that grow. Then softmax takes the largest
# score and nothing else (chapter 4). In the release every row of q, k and v is
# normalised first, whatever the memory's size. Here is the mean over slots of the
# largest share, as a memory is made larger and larger:

# %% alt="The largest share of attention against the size of the memory: for the paper's queries and keys it climbs to one, for the released ones, which are normalised, it stays where it was"
scales = 2.0 ** np.arange(-4, 9)
largest = {"paper": [], "released": []}
for scale in scales:
    m, x = scale * beginnings["random"], inputs[:1]
    for name, state in (("paper", (m, np.zeros_like(m))), ("released", m)):
        trace = []
        cores[name](x, state, trace)
        largest[name].append(trace[0]["attention"].max(axis=-1).mean())
figure, panel = plt.subplots(figsize=(6, 3))
for name, shares in largest.items():
    panel.semilogx(scales, shares, "o-", base=2, label=name)
panel.axhline(1 / (N + 1), color="0.5", ls=":", label="all alike")
panel.set(xlabel="factor of the memory", ylabel="largest share", ylim=(0, 1.05))
panel.legend(loc="upper left")
plt.show()

# %% [markdown]
# **A residual, inside a norm.** The paper's candidate is made of what attention brings,
# a mean of values, and of nothing else: a slot's own content must come home through
# attention. The release adds the slot itself, layer_norm(M + attention). What that is
# worth can be tried: we take the residual out of a released core, and look at the
# slots' spread again.


# %%
class WithoutResidual(nn.LayerNorm):
    """A layer norm that does not add what it is given to add."""

    def __call__(self, x, residual=None):
        return super().__call__(x)


without = RelationalMemory(
    D, N, F // 2, 2, dtype=np.float64, seed=0
)  # the same weights as above
without.blocks[0]["attention_norm"] = WithoutResidual(F, np.float64)
after = (0, 1, 2, 5, 10, 20, 50)
print("steps                       ", *(f"{t:8}" for t in after))
rows = {"paper": kept["paper", "random"], "released": kept["released", "random"]}
rows["released, without residual"] = spreads(without, beginnings["random"], inputs)
for name, found in rows.items():
    print(f"{name:28}", *(f"{found[t]:8.1e}" for t in after))

# %% [markdown]
# So this is the line that kept the slots apart in the right panel above.
#
# **What the gates see.** Equations 4 and 5 see $h_{t-1}$. The release has no $h$; its
# gates see $\tanh(m_{t-1})$. By equation 8 that is $h$ in a network whose output gates
# stand open. And it has two biases, one in each linear layer, of which only the sum
# matters. So the gates are those of the paper otherwise, to the last digits:

# %%
core, m, x = cores["released"], beginnings["random"], inputs[:1]
for parameter in core.gate_inputs, core.gate_memory:
    parameter.bias.data = rng.normal(
        size=parameter.bias.shape
    )  # a fresh network has zeros here
projected = core.input_projection(x).data
theirs = (
    core.gate_inputs(projected[:, None]) + core.gate_memory(np.tanh(m))
).data  # both gates side by side, (1, N, 2 F)
h = ex.output(np.inf, m)  # equation 8, the gate nailed open
W, U, b = (
    core.gate_inputs.weight.data,
    core.gate_memory.weight.data,
    core.gate_inputs.bias.data + core.gate_memory.bias.data,
)
print(
    "the same:",
    np.allclose(theirs, equations.gate(np, projected, h, W, U, b), rtol=1e-12),
)

# %% [markdown]
# **The output is the memory itself**, and **the candidate goes through a tanh.** "In
# practice we did not find output gates necessary": the release drops equation 6, and
# the tanh of equation 8 with it. The numbers that leave the core are those that it
# keeps. They are bounded in another way: what is written at a step lies in $(-1, 1)$,
# because the candidate goes through tanh first, while the paper's candidate, the result
# of a layer norm, may have single entries as large as $\sqrt{F - 1}$. With gates that
# stand still a memory settles within $\pm \, \sigma(i) / (1 - \sigma(f + \tilde{b}^f))$
# times the largest candidate; with a forget gate near 1 that is far away. Both networks
# on four hundred inputs, with three forget biases:

# %%
long = rng.normal(size=(course.fast(400, 20), D))
sizes = {}
for forget_bias in (1.0, 3.0, 5.0):
    for name, kind in (
        ("paper", PaperRelationalMemory),
        ("released", RelationalMemory),
    ):
        core = kind(D, N, F // 2, 2, dtype=np.float64, seed=0, forget_bias=forget_bias)
        state, found = core.initial_state(1), []
        for x in long[:, None]:
            shown, state = core(x, state)
            found.append(
                [
                    abs(value).max()
                    for value in (
                        (state[0] if name == "paper" else state).data,
                        shown.data,
                    )
                ]
            )
        sizes[name, forget_bias] = np.array(found)

# %% alt="The largest entry of memory and of output over four hundred steps: memories of both networks grow, the further the larger the forget bias; the paper's output never passes one, the released output is the memory"
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
for panel, name in zip(panels, ("paper", "released"), strict=True):
    for number, forget_bias in enumerate((1.0, 3.0, 5.0)):
        in_memory, in_output = sizes[name, forget_bias].T
        panel.semilogy(
            in_memory,
            color=f"C{number}",
            label=f"memory, forget bias {forget_bias:.0f}",
        )
        if name == "paper":
            panel.semilogy(
                in_output,
                color="0.55",
                lw=0.8,
                label="the outputs of all three" if number == 2 else None,
            )
    panel.set(
        title=name + ("" if name == "paper" else ": memory and output are the same"),
        xlabel="steps",
    )
panels[0].set(ylabel="largest entry")
figure.legend(
    *panels[0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=4,
    fontsize=8,
)
plt.show()

# %% [markdown]
# Whoever reads a released memory must be ready for such numbers; whoever reads the
# paper's output never sees one above 1, nor whether a memory holds 5 or 50.
#
# ## Does it matter for learning?
#
# Four symbols out of eight arrive; was the last one the same as the first? In half of
# each batch it is made so, and in one of eight of the others it happens: whoever always
# says yes is right in 9 of 16. To answer, the network must keep the first symbol and
# compare. The released network, the paper's, and the paper's begun with the identity,
# three seeds each, a few hundred steps of Adam:


# %%
def compared(rng, count=64):
    """Symbols as one-hot rows (count, 4, 8), and whether the last is the first again."""
    symbols = rng.integers(8, size=(count, 4))
    symbols[: count // 2, 3] = symbols[: count // 2, 0]
    return np.eye(8, dtype=np.float32)[symbols], (
        symbols[:, 3] == symbols[:, 0]
    ).astype(int)


def train(core, seed):
    """The share of right answers in the batch of each step, before the step learns from it."""
    rng, right = np.random.default_rng(seed), []
    readout = nn.Linear(core.output_size, 2, seed=seed)
    adam = optim.Adam(core.parameters() + readout.parameters(), learning_rate=3e-3)
    for _ in range(course.fast(300, 10)):
        symbols, same = compared(rng)
        with Tape() as tape:
            outputs, _ = core.unroll(symbols, core.initial_state(len(symbols)))
            logits = readout(outputs[-1])
            loss = p.mean(fused.softmax_cross_entropy(logits, same))
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        right.append(np.mean(logits.data.argmax(axis=1) == same))
    return right


# %%
kinds = {
    "released": lambda seed: RelationalMemory(8, 4, 8, 2, seed=seed),
    "paper": lambda seed: PaperRelationalMemory(8, 4, 8, 2, seed=seed),
    "paper, identity": lambda seed: PaperRelationalMemory(
        8, 4, 8, 2, seed=seed, initial_memory="identity"
    ),
}
curves = {}
for name, make in kinds.items():
    curves[name] = [train(make(seed), seed) for seed in range(3)]
    print(
        f"{name:16} right in the last 50 batches:",
        *(f"{np.mean(curve[-50:]):.0%}" for curve in curves[name]),
    )


# %% alt="Right answers against training steps for three networks, three seeds each: all climb from the dotted line of always saying yes towards 1"
def smoothed(curve):
    """At each step the mean of the last twenty, at the beginning of as many as there are."""
    return [np.mean(curve[max(0, t - 20) : t]) for t in range(1, len(curve) + 1)]


figure, panel = plt.subplots(figsize=(7, 3.4))
for number, name in enumerate(kinds):
    for seed, curve in enumerate(curves[name]):
        panel.plot(
            range(1, len(curve) + 1),
            smoothed(curve),
            color=f"C{number}",
            lw=1.2,
            label=name if seed == 0 else None,
        )
panel.axhline(9 / 16, color="0.5", ls=":", label="always yes")
panel.set(xlabel="steps", ylabel="right answers", ylim=(0.3, 1.02))
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# All of them learn this. On a harder task they do not. Nth farthest is learnt on a
# *ladder* of rungs, 0 to 3, each harder than the one before (chapter 9).
# `benchmarks/between.py` has trained what lies between the two forms there, 3,000 steps
# each: the released one with one row of the table as in the paper, and the paper's with
# one row as released. What came out:

# %%
found = json.loads(
    (course.assets().parents[1] / "benchmarks" / "results" / "between.json").read_text(
        encoding="utf-8"
    )
)["between"]
for run in found:
    print(f"{run['name']:39} rung {run['rung']}   right {run['test_accuracy']:.0%}")

# %% [markdown]
# One row decides, both ways: the norm on queries, keys and values. The paper's
# equations with it learn the task; the released form without it stays on the first
# rung. So the line that stands in no equation is the one that cannot be left out, on
# this task and with this way of training; one seed each, and differences of a few
# points say nothing. That the scores no longer grow with the memory is what the norm
# does. That this is *why* it helps, we have not shown. The paper is careful about its
# own choices, too: "we cannot necessarily make any concrete claims as to the causal
# influence of our design choices on the model's capacity for relational reasoning"
# (section 6).
#
# ## In the package
#
# Equations 7 and 8 and the step, as functions of the array library `xp`:

# %%
course.show(equations.update_memory, equations.output, equations.step, docstring=False)

# %% [markdown]
# The released core. Its gates are one operation, `fused.rmc_gates`, with its derivative
# worked out by hand (in its text `i` and `f` are the gates, after the sigmoid); in
# `_attend` you find who asks, and the norms:

# %%
course.show(RelationalMemory._step, RelationalMemory._attend, fused.rmc_gates.composed)

# %% [markdown]
# ## To take along
#
# - Equation 7 keeps a share of the old memory and takes a share of the candidate; the
#   two shares are independent, and the forget bias opens the first one at the
#   beginning.
# - A gate (B, N, 1) is a memory gate, (B, N, F) a unit gate; broadcasting makes one
#   equation of both.
# - Slots that are equal stay equal, whatever the weights. The first memory must tell
#   them apart.
# - The release is another network than the nine equations: no $h$, no output gate, a
#   tanh on the candidate, a norm on q, k and v, and a residual that keeps slots apart.
#   On nth farthest the norm on q, k and v decides.
#
# **Further.** With memory gates, which of the four corners of equation 7 can a slot
# reach for one half of its units and not for the other? The identity is one memory with
# all slots different; is there one from which the slots part faster? If the input rows
# were allowed into the memory (as N + 1 slots, the oldest dropped), which of the eight
# lines of the table would have to change?
