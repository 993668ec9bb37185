# %% [markdown]
# # 7. Gates: what is kept and what is written
#
# **Equations 3 to 6, section 3.3.** Thirty-five minutes. You need chapter 5. What comes
# from chapters 2 and 6 is said again in a few words.
#
# Attention makes of a memory $M$ and an input another memory $\widetilde M$ of the same
# size. One could leave it at that:
#
# > Since $M$ and $\widetilde M$ are the same dimensionality, we can naively introduce
# > recurrence by first randomly initialising $M$, and then updating it with
# > $\widetilde M$ at each timestep. We chose to do this by embedding this update into
# > an LSTM.
#
# Chapter 5 showed what becomes of the naive way: after a few steps all slots were
# nearly the same. An *LSTM*, a long short-term memory, is a recurrent network whose
# cell is not overwritten but *gated*: at every step it decides for each number how much
# of the old to keep and how much of the new to write. Here every slot becomes such a
# cell.
#
# The state of slot $i$ is a pair. $m_i$ is what it keeps; $h_i$ is what it showed of it
# last:
#
# $$s_{i,t} = (h_{i,t-1}, m_{i,t-1}) \tag{3}$$
#
# Three *gates* are computed from the input $x_t$ and from $h_{i,t-1}$, by one and the
# same formula with three sets of weights: the *forget* gate $f$, the *input* gate $i$
# and the *output* gate $o$.
#
# $$f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}$$
#
# $$i_{i,t} = W^i x_t + U^i h_{i,t-1} + b^i \tag{5}$$
#
# $$o_{i,t} = W^o x_t + U^o h_{i,t-1} + b^o \tag{6}$$
#
# (The index $i$ counts slots, the letter $i$ is the input gate. The paper has it so.)
# In full, a gate is the sigmoid of such a row of numbers; the row itself is called its
# *pre-activation*. What the gates do stands in equation 7:
#
# $$m_{i,t} = \sigma(f_{i,t} + \tilde b^f) \circ m_{i,t-1} + \sigma(i_{i,t}) \circ g_\psi(\widetilde m_{i,t}) \tag{7}$$
#
# where $\circ$ multiplies entry by entry. One gate says how much of the old memory
# stays, the other how much is written of what attention proposes, after a function
# $g_\psi$ has worked on every row by itself (chapter 6: a small network and a norm).
# $\tilde b^f$ is the *forget bias*, one constant number for all slots and units. It is
# not learnt: it is chosen beforehand, to open the forget gates of a fresh network
# further. What that is good for, the second half of this chapter shows.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

import tinyrmc
from tinyrmc import Tape, course, equations, fused, nn, optim
from tinyrmc import primitives as p
from tinyrmc.cores import LSTM
from tinyrmc.course.exercises import gates as ex
from tinyrmc.course.exercises import normalisation
from tinyrmc.results import probes

course.setup()
rng = np.random.default_rng(1997)

# %% [markdown]
# ## Open and shut: the sigmoid
#
# A gate must lie between 0, shut, and 1, open. Pre-activations can be anything. The
# sigmoid makes one of the other:
#
# $$\sigma(x) = \frac{1}{1 + e^{-x}}$$
#
# **Exercise 1.** For every entry by itself, numbers like -1000 and $\pm\infty$ among
# them.


# %%
def sigmoid(x):
    """An array of any shape -> the same shape, between 0 and 1."""
    ...


ex.sigmoid.check(sigmoid)

# %% alt="The sigmoid rises from 0 to 1, with 0.5 at 0 and 0.73 at 1; its slope is a hump, 0.25 high at 0 and nearly 0 beyond 5"
x = np.linspace(-7, 7, 141)
gates = ex.sigmoid(x)
figure, panel = plt.subplots(figsize=(6.5, 3))
panel.plot(x, gates, label="$\\sigma(x)$")
panel.plot(
    x,
    gates * (1 - gates),
    "--",
    color="C1",
    label="its slope, $\\sigma(x)\\,(1 - \\sigma(x))$",
)
for at in (-4.0, 0.0, 1.0, 4.0):
    panel.plot(at, ex.sigmoid(at), "o", color="C0")
    where = (8, -12) if at > 0 else (-72, 7) if at < 0 else (8, -4)
    panel.annotate(
        f"$\\sigma({at:.0f}) = {ex.sigmoid(at):.2f}$",
        (at, ex.sigmoid(at)),
        xytext=where,
        textcoords="offset points",
    )
panel.set(xlabel="pre-activation", ylim=(-0.03, 1.08), yticks=(0, 0.25, 0.5, 0.75, 1))
panel.legend(loc="upper left")
plt.show()

# %% [markdown]
# A fresh network has pre-activations around 0: its gates stand half open, where the
# slope is largest and they learn fastest. (The forget gates with their bias stand
# further open: at 0.73 for a bias of 1.)
#
# ## One slot
#
# **Exercise 2.** Equations 4, 5 and 6 for a single slot: an input of $D$ numbers, a
# slot of $F$ units, $G$ gates. $x$ and $h$ are rows; a weight is stored (in, out), so
# the paper's $W x$ is `x @ W`.


# %%
def gate(x, h, W, U, b):
    """x (D,), h (F,), W (D, G), U (F, G), b (G,) -> the pre-activation (G,)."""
    ...


ex.gate.check(gate)

# %% [markdown]
# In this chapter there are as many gates as the slot has units, $G = F$: each number in
# the slot has a gate to itself. (Chapter 8 tries one gate for the whole slot.)
#
# > We can make the operations of individual memories $m_i$ nearly identical to those in
# > a normal LSTM cell state
#
# Here is how nearly. A normal LSTM computes the three gates as above, and with a fourth
# set of weights $j$, what is to be written. Then
#
# $$m_t = \sigma(f + \tilde b^f) \circ m_{t-1} + \sigma(i) \circ \tanh(j), \qquad h_t = \sigma(o) \circ \tanh(m_t)$$
#
# The Relational Memory Core replaces $\tanh(j)$ by $g_\psi(\widetilde m_i)$ and leaves
# everything else. Below the forget bias is 1, as in the released code. The package's
# LSTM keeps its four sets of weights side by side, in the order $i, j, f, o$, and those
# for $x$ above those for $h$; so we can take them apart and make a step of it out of
# the exercises' parts:

# %%
D, F = 3, 5
lstm = LSTM(D, F, forget_bias=1.0, dtype=np.float64)
x, h, m = rng.normal(size=D), rng.normal(size=F), rng.normal(size=F)

of_i, of_j, of_f, of_o = np.split(lstm.gates.weight.data, 4, axis=1)  # (D + F, F) each
b_i, b_j, b_f, b_o = np.split(lstm.gates.bias.data, 4)
i, j, f, o = (
    ex.gate(x, h, W[:D], W[D:], b)
    for W, b in ((of_i, b_i), (of_j, b_j), (of_f, b_f), (of_o, b_o))
)
next_m = ex.sigmoid(f + 1.0) * m + ex.sigmoid(i) * np.tanh(j)
next_h = ex.sigmoid(o) * np.tanh(next_m)

_, (hidden, cell) = lstm(
    x[None], (h[None], m[None])
)  # the package's, for a batch of one
np.allclose(next_m, cell.data[0]) and np.allclose(next_h, hidden.data[0])

# %% [markdown]
# ## All slots, with the same weights
#
# Now a memory of $N$ slots. In equations 4 to 6 the index $i$ stands at $h$ and not at
# $W$, $U$ and $b$: all slots have the same weights, and they all get the same input.
# They differ only in their own $h_i$.
#
# **Exercise 3.** For a batch of memories. Mind the case with as many examples as slots.


# %%
def gate_of_every_slot(x, h, W, U, b):
    """x (B, D), h (B, N, F), W (D, G), U (F, G), b (G,) -> (B, N, G)."""
    ...


ex.gate_of_every_slot.check(gate_of_every_slot)

# %% [markdown]
# The parts, for one example with four slots of eight units. What comes from the input
# is the same in every row; what comes from $h$ is not; together they make the gates:

# %% alt="Three tables of four slots and eight units: the input's part has four equal rows, the part of h four different ones, and the sigmoid of their sum are the gates between 0 and 1"
N, D, F = 4, 6, 8
x, h = rng.normal(size=(1, D)), rng.normal(size=(1, N, F))
W, U, b = (
    rng.normal(size=(D, F)) / math.sqrt(D),
    rng.normal(size=(F, F)) / math.sqrt(F),
    np.zeros(F),
)
parts = {
    "from the input, $x W$": np.broadcast_to(x @ W, (N, F)),
    "from each slot, $h U$": h[0] @ U,
    "the gates, $\\sigma(x W + h U + b)$": ex.sigmoid(
        ex.gate_of_every_slot(x, h, W, U, b)
    )[0],
}
figure, panels = plt.subplots(1, 3, figsize=(10, 2.2))
for panel, (title, part) in zip(panels, parts.items(), strict=True):
    style = (
        {"cmap": "Greys", "vmin": 0, "vmax": 1}
        if "gates" in title
        else {"cmap": "RdBu", "vmin": -2.5, "vmax": 2.5}
    )
    figure.colorbar(panel.imshow(part, **style), ax=panel, fraction=0.03)
    panel.set(
        title=title, xlabel="unit", ylabel="slot", xticks=range(F), yticks=range(N)
    )
plt.show()

# %% [markdown]
# So a gate of slot $i$ knows the input and slot $i$, and nothing else. Slot 2 is given
# another $h$, and `who_notices`, a tool from chapter 6, says for each slot how much its
# gates change at most:


# %%
def gates_of(slots):
    return ex.sigmoid(ex.gate_of_every_slot(x, slots[None], W, U, b)[0])


normalisation.who_notices(gates_of, h[0], 2, rng.normal(size=F)).round(2)

# %% [markdown]
# No gate sees another slot, nor what attention finds at this step. Slots learn of each
# other in equation 2 alone, and their gates a step later, by their own $h$.
#
# ## Fifty steps
#
# What does a gate do to a memory in the long run? Take one number $m$, kept by
# $\sigma(f_t + \tilde b^f)$ and written to by $\sigma(i_t)$:
#
# $$m_t = \sigma(f_t + \tilde b^f)\, m_{t-1} + \sigma(i_t)\, c_t$$
#
# where $c_t$ stands for whatever is proposed at step $t$. Put $m_{t-1}$ in, then
# $m_{t-2}$, down to $m_0$. What comes out is a weighted sum of everything that was ever
# proposed, and of the first memory:
#
# $$m_T = a_0 m_0 + a_1 c_1 + a_2 c_2 + \dots + a_T c_T$$
#
# **Exercise 4.** Find the weights $a_0, \dots, a_T$. There are $F$ units, each with
# gates of its own. One case has a gate that is quite shut: a pre-activation of
# $-\infty$.


# %%
def weights_of_the_past(f, i, forget_bias):
    """Pre-activations f and i (T, F), a number -> a_0 to a_T (T + 1, F)."""
    ...


ex.weights_of_the_past.check(weights_of_the_past)

# %% [markdown]
# The first of them, $a_0$, is the product of all forget gates. The forget bias moves
# all of these gates at once. With pre-activations of 0, so that nothing but this
# constant counts, this is what is left of a memory:

# %% alt="What is left of a memory over 50 steps for five forget biases: on a linear axis the curves for 0 and 1 fall to nothing within ten steps and that for 5 is still above 0.7 at the end; on a logarithmic axis all are straight lines"
T = 50
colours = {0.0: "C0", 1.0: "C1", 2.0: "C2", 3.0: "C3", 5.0: "C4"}
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.2))
for bias in colours:
    left = [
        ex.weights_of_the_past(np.zeros((t, 1)), np.zeros((t, 1)), bias)[0, 0]
        for t in range(T + 1)
    ]
    for panel in panels:
        panel.plot(left, color=colours[bias], label=f"{bias:.0f}")
    half = math.log(0.5) / math.log(ex.sigmoid(bias))
    print(
        f"forget bias {bias:.0f}: gate {ex.sigmoid(bias):.3f}, half is left after {half:6.1f} steps, and {left[-1]:.1e} after {T}"
    )
for panel, scale in zip(panels, ("linear", "log"), strict=True):
    panel.set(xlabel="steps", ylabel="what is left of the memory", yscale=scale)
panels[1].legend(title="forget bias", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# A gate that is half open halves the memory at every step. Any gate below 1 loses a
# fixed *part* per step, so memory fades like a radioactive substance, with a half-life.
# From a bias of 1 to one of 5 the half-life grows from two steps to a hundred.
#
# **Exercise 5.** The other way round: which bias leaves a given share after a given
# number of steps?


# %%
def forget_bias_for(share, steps):
    """0 < share < 1, steps >= 1 -> the bias b for which sigmoid(b) ** steps == share."""
    ...


ex.forget_bias_for.check(forget_bias_for)

# %% [markdown]
# Fading is half of it. The other half is what is written meanwhile. Below, a 1 is
# proposed at step 5, with the input gate wide open. Before and after, what is proposed
# is noise, and the input gate is shut (left) or half open (right), as in a fresh
# network. It takes both gates to remember: one that keeps, and one that does not write
# over it.

# %% alt="A memory over 50 steps into which a 1 is written at step 5: with the input gate otherwise shut it decays smoothly, the slower the larger the bias; with the input gate half open noise covers it"
noise = 0.5 * rng.normal(size=T)
noise[4] = 1.0  # the one thing worth keeping, at step 5
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.2), sharey=True)
for panel, (title, otherwise) in zip(
    panels, {"otherwise shut": -np.inf, "otherwise half open": 0.0}.items(), strict=True
):
    for bias in (0.0, 1.0, 3.0, 5.0):
        trace, m = [0.0], 0.0
        for t in range(T):
            write = ex.sigmoid(np.inf if t == 4 else otherwise)
            m = ex.sigmoid(bias) * m + write * noise[t]
            trace.append(m)
        panel.plot(trace, color=colours[bias], label=f"forget bias {bias:.0f}")
    panel.axvline(5, color="0.6", lw=1, ls=":")
    panel.set(title=f"input gate {title}", xlabel="step")
panels[0].set_ylabel("memory")
panels[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# ## What is left is what is learnt
#
# Forgetting would be harmless if the network could learn to keep its gates open. But
# how does it find out that it should? By a gradient that travels from the last step
# back to the first, and on its way it is multiplied by the same gates: the derivative
# of $m_T$ by $c_t$ is $a_t$. (So it is when the gates are given. In a real network they
# depend on $h$ as well, which adds further paths.) Our tape (chapter 2) records the
# steps and finds the derivatives by itself, and they are the weights of exercise 4:

# %%
f, i, proposed = rng.normal(size=(3, 20, 4))
with Tape() as tape:
    c = tape.watch(proposed)
    m = np.zeros(4)
    for t in range(20):
        m = p.sigmoid(f[t] + 1.0) * m + p.sigmoid(i[t]) * c[t]
    loss = p.sum(m)
np.allclose(tape.gradient(loss, c), ex.weights_of_the_past(f, i, 1.0)[1:], rtol=1e-12)

# %% [markdown]
# After 50 steps at a bias of 1 this factor has fallen to about $10^{-7}$, as printed
# above, and what happened then cannot be learnt from. We try it. A bit is shown at step
# 1, then come 49 steps of noise, and at the end the network has to say which it was.
# One slot, no attention: the LSTM with 16 units, trained from the same seed with four
# forget biases.
#
# The network answers with a share for each of the two bits. Its loss is the
# *cross-entropy*, minus the natural logarithm of the share that it gave to the right
# one: 0 for a sure and right answer, and $-\ln \frac12 = 0.69$ for a guess. *Adam* is
# the rule that changes the weights: like a step against the gradient, but for each
# weight the gradient is averaged over the last steps and divided by its own usual size,
# so that a step is about as long as the learning rate says.


# %%
def train_to_keep_a_bit(forget_bias, steps, units=16, batch=64):
    """The loss at each step of training an LSTM to tell, after T steps, the bit that it was shown at the first."""
    lstm, readout = (
        LSTM(2, units, forget_bias=forget_bias, seed=10),
        nn.Linear(units, 2, seed=11),
    )
    adam = optim.Adam(lstm.parameters() + readout.parameters(), learning_rate=1e-2)
    losses = []
    for step in range(steps):
        random = np.random.default_rng([7, step])
        bits = random.integers(2, size=batch)
        inputs = random.normal(size=(batch, T, 2)).astype(np.float32)
        inputs[:, :, 1] = 0
        inputs[:, 0] = np.stack(
            [2 * bits - 1, np.ones(batch)], axis=1
        )  # the bit as -1 or 1, and a mark: this is it
        with Tape() as tape:
            outputs, _ = lstm.unroll(inputs, lstm.initial_state(batch))
            loss = p.mean(fused.softmax_cross_entropy(readout(outputs[-1]), bits))
        adam.zero_grad()
        tape.backward(loss)
        adam.step(
            max_norm=1.0
        )  # a gradient longer than 1, all parameters taken together, is scaled down to 1 first
        losses.append(float(loss.data))
    return losses


steps = course.fast(300, 5)
curves = {}
for bias in (0.0, 1.0, 3.0, 5.0):
    curves[bias] = train_to_keep_a_bit(bias, steps)
    print(
        f"forget bias {bias:.0f}: mean loss of the last ten steps {np.mean(curves[bias][-10:]):.3f}"
    )

# %% alt="The loss over 300 training steps in four panels, one for each forget bias: for 0 and 1 it stays at 0.69, the loss of a guess; for 3 and 5 it falls to nearly 0"
figure, panels = plt.subplots(1, 4, figsize=(10, 2.8), sharey=True)
for panel, (bias, losses) in zip(panels, curves.items(), strict=True):
    panel.plot(losses)
    panel.axhline(
        math.log(2), color="0.4", ls=":", lw=1.2, label="a guess, ln 2", zorder=3
    )
    panel.set(title=f"forget bias {bias:.0f}", xlabel="training steps", ylim=(0, 0.8))
panels[0].set_ylabel("loss")
panels[0].legend(loc="lower left")
plt.show()

# %% [markdown]
# Nothing differs between the four but one constant that is added to a pre-activation.
# The network could learn that constant by itself, in $b^f$. But for that it needs a
# gradient, and where the gates begin too far shut it gets next to none.
#
# The paper gives no value for $\tilde b^f$. The released code, and ours by default,
# has 1. The paper's "Nth farthest" has 8 steps, and over 8 steps a gate of 0.73 leaves
# about as much as the 0.95 of a bias of 3 left over 50, which was enough:

# %%
print(f"{ex.sigmoid(1.0) ** 8:.3f}")

# %% [markdown]
# ## The gates of a trained network
#
# What has become of the gates of the trained network in `chapters/assets`? It has read
# 4 vectors a sequence, with four slots of 64 units. Its gates are drawn over 500
# held-out sequences, beside those of the same network with its weights drawn anew. (It
# is of the released form: the gates see $\tanh(m)$ where the paper has $h$; chapter 8
# lays both side by side.)

# %%
from tinyrmc import RelationalMemory
from tinyrmc.training.checkpoints import open_checkpoint

asset = course.assets() / "nth_farthest_4x4.npz"
network, (task, _, _) = tinyrmc.load(asset), open_checkpoint(asset)
questions = probes.held_out(task, course.fast(500, 50))
seen = {"trained": probes.traces(network, questions.inputs)}
trained = network.core
network.core = RelationalMemory(
    trained.input_size, trained.mem_slots, trained.head_size, trained.num_heads
)
seen["fresh"] = probes.traces(network, questions.inputs)
for name, gate_values in seen.items():
    print(
        f"{name}: forget gates {gate_values.forget_gate.mean():.2f} on average, input gates {gate_values.input_gate.mean():.2f}"
    )

# %% alt="Histograms of forget and input gates, fresh and trained: fresh forget gates stand around 0.7 and input gates around 0.5; after training both spread out, forget gates mostly above 0.8, input gates mostly below 0.5"
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3))
bins = np.linspace(0, 1, 51)
for panel, name in zip(panels, ("forget_gate", "input_gate"), strict=True):
    for label, colour in (("fresh", "C0"), ("trained", "C1")):
        values = getattr(seen[label], name).ravel()
        share = np.full(len(values), 1 / len(values))
        panel.hist(
            values,
            bins,
            weights=share,
            histtype="stepfilled",
            fc=(colour, 0.15),
            ec=colour,
            lw=1.5,
            label=label,
        )
    panel.set(
        title=name.replace("_", " "),
        xlabel="shut (0) to open (1)",
        ylabel="share of the gates",
    )
panels[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# The fresh gates stand around their constants, $\sigma(1)$ and $\sigma(0)$. Training
# has moved and spread them: now some units are kept all but whole and others half. On
# average the network keeps more and writes less than it did at first.
#
# ## In the package
#
# All three gates are one function; $G$ is the number of gates of a slot:

# %%
course.show(equations.sigmoid, equations.gate)

# %%
x, h = rng.normal(size=(3, 4)), rng.normal(size=(3, 3, 5))
W, U, b = rng.normal(size=(4, 5)), rng.normal(size=(5, 5)), rng.normal(size=5)
np.allclose(
    equations.gate(np, x, h, W, U, b), ex.gate_of_every_slot(x, h, W, U, b), rtol=1e-12
)

# %% [markdown]
# `RelationalMemory` uses that the input's part needs no memory, and computes it for all
# time steps of a sequence at once. It has no output gate: "In practice we did not find
# output gates necessary", says the paper.
#
# ## To take along
#
# - A gate is a number between 0 and 1 that multiplies. The forget gate multiplies the
#   old memory, the input gate the new.
# - All slots share the gates' weights and get the same input; a slot's gates see
#   nothing of other slots.
# - After many steps a memory is a weighted sum of all that was proposed, and the
#   weights are products of forget gates. The gradient is multiplied by the same
#   products.
# - The forget bias decides, before anything has been learnt, over how many steps there
#   is something to learn from.
#
# **Further.** Train again from another seed, and with a bias of 2. How large can a
# memory become, if what is proposed lies between -1 and 1, the input gate is half open
# and the forget bias is 1? Would the network of the last training have learnt with a
# bias of 1 over 10 steps? What happens to a memory, and to the gradient, if the forget
# gate is exactly 1?
