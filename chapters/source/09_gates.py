# %% [markdown]
# # 9. Gates: what is kept and what is written
#
# **Equations 3 to 6, section 3.3.** About 150 minutes. You need chapter 7, for the way
# back chapter 3, and for one experiment chapter 5. A few words recall what comes from
# chapter 8.
#
# From a memory $M$ and an input, attention makes another memory $\widetilde M$ of the
# same size. You could simply keep that as the next memory:
#
# > Since $M$ and $\widetilde M$ are the same dimensionality, we can naively introduce
# > recurrence by first randomly initialising $M$, and then updating it with
# > $\widetilde M$ at each timestep. We chose to do this by embedding this update into
# > an LSTM.
#
# Chapter 7 showed where the naive way leads: after a few steps all slots were nearly
# the same. An *LSTM* (long short-term memory) is a recurrent network that does not
# overwrite its cell but *gates* it. At every step, it decides for each number how much
# of the old to keep and how much of the new to write. Here every slot becomes such a
# cell.
#
# The state of slot $i$ is a pair: $m_i$ is what it keeps, and $h_i$ is what it last
# showed of it:
#
# $$s_{i,t} = (h_{i,t-1}, m_{i,t-1}) \tag{3}$$
#
# The slot computes three *gates* from the input $x_t$ and from $h_{i,t-1}$: the
# *forget* gate $f$, the *input* gate $i$ and the *output* gate $o$. All three have the
# same formula, each with its own set of weights.
#
# $$f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}$$
#
# $$i_{i,t} = W^i x_t + U^i h_{i,t-1} + b^i \tag{5}$$
#
# $$o_{i,t} = W^o x_t + U^o h_{i,t-1} + b^o \tag{6}$$
#
# (The index $i$ counts slots, and the letter $i$ is the input gate: the paper's
# choice.) Such a row of numbers is called a *pre-activation*, and the gate itself is
# its sigmoid. Equation 7 says what the gates do:
#
# $$m_{i,t} = \sigma(f_{i,t} + \tilde b^f) \circ m_{i,t-1}
# + \sigma(i_{i,t}) \circ g_\psi(\widetilde m_{i,t}) \tag{7}$$
#
# where $\circ$ multiplies entry by entry. One gate says how much of the old memory
# stays. The other says how much to write of what attention proposes, after a function
# $g_\psi$ has worked on every row by itself (chapter 8: a small network and a norm).
# $\tilde b^f$ is the *forget bias*, one constant number for all slots and units. The
# network does not learn it: you choose it beforehand, to open the forget gates of a
# fresh network further. The second half of this chapter shows what that is good for.

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
# A gate must lie between 0, shut, and 1, open. Pre-activations can be any numbers. The
# sigmoid turns a pre-activation into a gate:
#
# $$\sigma(x) = \frac{1}{1 + e^{-x}}$$
#
# **Exercise 1.** Write it for every entry by itself. Numbers like -1000 and $\pm\infty$
# are among the cases.


# %%
def sigmoid(x):
    """An array of any shape -> the same shape, between 0 and 1."""
    ...


ex.sigmoid.check(sigmoid)

# %%
x = np.linspace(-7, 7, 141)
gates = ex.sigmoid(x)

# %% tags=["hide-input"] alt="The sigmoid rises from 0 to 1, with 0.5 at 0 and 0.73 at 1; its slope is a hump, 0.25 high at 0 and nearly 0 beyond 5"
# Draws the sigmoid and its slope
figure, panel = plt.subplots(figsize=(6.5, 3))
panel.plot(x, gates, label="$\\sigma(x)$")
slope = gates * (1 - gates)
name = "its slope, $\\sigma(x)\\,(1 - \\sigma(x))$"
panel.plot(x, slope, "--", color="C1", label=name)
places = {-4.0: (-72, 7), 0.0: (8, -4), 1.0: (8, -12), 4.0: (8, -12)}
for at, place in places.items():
    point = (at, ex.sigmoid(at))
    panel.plot(*point, "o", color="C0")
    text = f"$\\sigma({at:.0f}) = {ex.sigmoid(at):.2f}$"
    panel.annotate(text, point, xytext=place, textcoords="offset points")
panel.set(xlabel="pre-activation", ylim=(-0.03, 1.08), yticks=(0, 0.25, 0.5, 0.75, 1))
panel.legend(loc="upper left")
plt.show()

# %% [markdown]
# A fresh network has pre-activations around 0: its gates are half open, where the slope
# is largest and they learn fastest. (The forget gates have their bias, which opens them
# further: to 0.73 for a bias of 1.)
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
# the slot has a gate to itself. (Chapter 10 tries one gate for the whole slot.)
#
# > We can make the operations of individual memories $m_i$ nearly identical to those in
# > a normal LSTM cell state
#
# You can see how nearly. A normal LSTM computes the three gates as above. With a fourth
# set of weights it computes $j$, which it then writes:
#
# $$m_t = \sigma(f + \tilde b^f) \circ m_{t-1} + \sigma(i) \circ \tanh(j), \qquad
# h_t = \sigma(o) \circ \tanh(m_t)$$
#
# The Relational Memory Core replaces $\tanh(j)$ by $g_\psi(\widetilde m_i)$ and leaves
# everything else as it is. Below, the forget bias is 1, as in the released code. The
# package's LSTM keeps its four sets of weights side by side, in the order $i, j, f, o$,
# with those for $x$ above those for $h$. So you can take them apart, and make a step of
# the LSTM from the parts that you wrote in the exercises:

# %%
D, F = 3, 5
lstm = LSTM(D, F, forget_bias=1.0, dtype=np.float64)
x, h, m = rng.normal(size=D), rng.normal(size=F), rng.normal(size=F)

weights = np.split(lstm.gates.weight.data, 4, axis=1)  # four, (D + F, F) each
biases = np.split(lstm.gates.bias.data, 4)  # four, (F,) each
i, j, f, o = (
    ex.gate(x, h, W[:D], W[D:], b) for W, b in zip(weights, biases, strict=True)
)
next_m = ex.sigmoid(f + 1.0) * m + ex.sigmoid(i) * np.tanh(j)
next_h = ex.sigmoid(o) * np.tanh(next_m)

_, (hidden, cell) = lstm(x[None], (h[None], m[None]))  # the package's, a batch of one
np.allclose(next_m, cell.data[0]) and np.allclose(next_h, hidden.data[0])

# %% [markdown]
# ## All slots, with the same weights
#
# Now take a memory of $N$ slots. In equations 4 to 6 the index $i$ stands at $h$, but
# not at $W$, $U$ and $b$: all slots have the same weights, and they all get the same
# input. They differ only in their own $h_i$.
#
# **Exercise 3.** Equations 4, 5 and 6 for a batch of memories. Watch out for the case
# with as many examples as slots.


# %%
def gate_of_every_slot(x, h, W, U, b):
    """x (B, D), h (B, N, F), W (D, G), U (F, G), b (G,) -> (B, N, G)."""
    ...


ex.gate_of_every_slot.check(gate_of_every_slot)

# %% [markdown]
# Here are the parts, for one example with four slots of eight units. What comes from
# the input is the same in every row. What comes from $h$ is not. Together they make the
# gates:

# %%
N, D, F = 4, 6, 8
x, h = rng.normal(size=(1, D)), rng.normal(size=(1, N, F))
W = rng.normal(size=(D, F)) / math.sqrt(D)
U = rng.normal(size=(F, F)) / math.sqrt(F)
b = np.zeros(F)
gates = ex.sigmoid(ex.gate_of_every_slot(x, h, W, U, b))
parts = {
    "from the input, $x W$": np.broadcast_to(x @ W, (N, F)),
    "from each slot, $h U$": h[0] @ U,
    "the gates, $\\sigma(x W + h U + b)$": gates[0],
}

# %% tags=["hide-input"] alt="Three tables of four slots and eight units: the input's part has four equal rows, the part of h four different ones, and the sigmoid of their sum gives the gates, between 0 and 1"
# Draws the parts and the gates
figure, panels = plt.subplots(1, 3, figsize=(10, 2.2))
for panel, (title, part) in zip(panels, parts.items(), strict=True):
    style = {"cmap": "RdBu", "vmin": -2.5, "vmax": 2.5}
    if "gates" in title:
        style = {"cmap": "Greys", "vmin": 0, "vmax": 1}
    figure.colorbar(panel.imshow(part, **style), ax=panel, fraction=0.03)
    panel.set(title=title, xlabel="unit", ylabel="slot")
    panel.set(xticks=range(F), yticks=range(N))
plt.show()

# %% [markdown]
# So a gate of slot $i$ knows the input and slot $i$, and nothing else. Give slot 2
# another $h$, and `who_notices`, a tool from chapter 8, says for each slot how much its
# gates change at most. **Write down first:** which of the four numbers will be 0?


# %%
def gates_of(slots):
    return ex.sigmoid(ex.gate_of_every_slot(x, slots[None], W, U, b)[0])


normalisation.who_notices(gates_of, h[0], 2, rng.normal(size=F)).round(2)

# %% [markdown]
# No gate sees another slot, or what attention finds at this step. Slots hear of each
# other only in equation 2, and their gates hear of it a step later, through their own
# $h$.
#
# ## Fifty steps
#
# What does a gate do to a memory in the long run? Take one number $m$. The gate
# $\sigma(f_t + \tilde b^f)$ keeps it, and the gate $\sigma(i_t)$ writes to it:
#
# $$m_t = \sigma(f_t + \tilde b^f)\, m_{t-1} + \sigma(i_t)\, c_t$$
#
# where $c_t$ stands for whatever attention proposes at step $t$. Put the same formula
# in for $m_{t-1}$, then for $m_{t-2}$, and so on down to $m_0$. Out comes a weighted
# sum of the first memory and of everything that was ever proposed:
#
# $$m_T = a_0 m_0 + a_1 c_1 + a_2 c_2 + \dots + a_T c_T$$
#
# **Exercise 4.** Find the weights $a_0, \dots, a_T$. There are $F$ units, each with
# gates of its own. One case has a gate that is completely shut: a pre-activation of
# $-\infty$.


# %%
def weights_of_the_past(f, i, forget_bias):
    """Pre-activations f and i (T, F), a number -> a_0 to a_T (T + 1, F)."""
    ...


ex.weights_of_the_past.check(weights_of_the_past)

# %% [markdown]
# The first of them, $a_0$, is the product of all forget gates. The forget bias moves
# all of these gates at once. With pre-activations of 0, only this constant counts. Here
# is what is left of a memory. **Write down first:** with a bias of 1 (a gate of 0.73),
# after how many steps is half of it left? And with a bias of 5 (a gate of 0.993)?

# %%
T = 50
remains = {}
for bias in (0.0, 1.0, 2.0, 3.0, 5.0):
    remains[bias] = []
    for t in range(T + 1):
        nothing = np.zeros((t, 1))  # the pre-activations of t steps
        remains[bias].append(ex.weights_of_the_past(nothing, nothing, bias)[0, 0])
    gate = ex.sigmoid(bias)
    half = math.log(0.5) / math.log(gate)
    print(f"forget bias {bias:.0f}: gate {gate:.3f}, ", end="")
    print(f"half is left after {half:6.1f} steps, ", end="")
    print(f"and {remains[bias][-1]:.1e} after {T}")

# %% tags=["hide-input"] alt="What is left of a memory over 50 steps for five forget biases: on a linear axis the curves for 0 and 1 fall to nearly nothing within ten steps and that for 5 is still above 0.7 at the end; on a logarithmic axis all are straight lines"
# Draws what is left, on both scales
colours = {0.0: "C0", 1.0: "C1", 2.0: "C2", 3.0: "C3", 5.0: "C4"}
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.2))
for panel, scale in zip(panels, ("linear", "log"), strict=True):
    for bias, left in remains.items():
        panel.plot(left, color=colours[bias], label=f"{bias:.0f}")
    panel.set(xlabel="steps", ylabel="what is left of the memory", yscale=scale)
panels[1].legend(title="forget bias", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# A gate that is half open halves the memory at every step. Any gate below 1 loses a
# fixed *fraction* per step, so the memory fades like a radioactive substance, with a
# half-life. From a bias of 1 to a bias of 5 the half-life grows from two steps to a
# hundred.
#
# **Exercise 5.** Now the other way round: which bias leaves a given share after a given
# number of steps?


# %%
def forget_bias_for(share, steps):
    """0 < share < 1, steps >= 1 -> the bias b with sigmoid(b) ** steps == share."""
    ...


ex.forget_bias_for.check(forget_bias_for)

# %% [markdown]
# Fading is half of the story. The other half is what gets written in the meantime.
# Below, a 1 is proposed at step 5, with the input gate wide open. Before and after it
# only noise is proposed, and the input gate is shut (left) or half open (right), as in
# a fresh network.
#
# **Write down first:** on the left, for which of the four biases can you still see at
# step 50 that there was a 1? And on the right?

# %%
noise = 0.5 * rng.normal(size=T)
noise[4] = 1.0  # the one thing worth keeping, at step 5
traces = {}
for title, otherwise in {"shut": -np.inf, "half open": 0.0}.items():
    for bias in (0.0, 1.0, 3.0, 5.0):
        trace, m = [0.0], 0.0
        for t in range(T):
            write = ex.sigmoid(np.inf if t == 4 else otherwise)
            m = ex.sigmoid(bias) * m + write * noise[t]
            trace.append(m)
        traces[title, bias] = trace

# %% tags=["hide-input"] alt="A memory over 50 steps into which a 1 is written at step 5: with the input gate otherwise shut it decays smoothly, the slower the larger the bias; with the input gate half open noise covers it"
# Draws the memory with both input gates
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3.2), sharey=True)
panel_of = dict(zip(("shut", "half open"), panels, strict=True))
for (title, bias), trace in traces.items():
    label = f"forget bias {bias:.0f}"
    panel_of[title].plot(trace, color=colours[bias], label=label)
for title, panel in panel_of.items():
    panel.axvline(5, color="0.6", lw=1, ls=":")
    panel.set(title=f"input gate otherwise {title}", xlabel="step")
panels[0].set_ylabel("memory")
panels[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# On the left a bias of 5 still has most of the 1 at step 50, and a bias of 3 a tenth of
# it. On the right you cannot see the 1 in any of the four: the noise covers it. It
# takes both gates to remember: one that keeps, and one that does not write over what is
# kept.
#
# ## The way back through a gate
#
# How does a gate learn? Take equation 7 for one number, with $k$ for the gate that
# keeps and $w$ for the one that writes:
#
# $$m_t = k \, m_{t-1} + w \, c, \qquad
# k = \sigma(f + \tilde b^f), \qquad w = \sigma(i)$$
#
# Somebody hands you $g$, the gradient of $m_t$. The formula is two products and a sum,
# so $m_{t-1}$ gets $g\,k$ and $c$ gets $g\,w$. The gates themselves get what they
# multiply: $k$ gets $g\,m_{t-1}$ and $w$ gets $g\,c$. On the way from a gate to its
# pre-activation, the gradient is multiplied by the slope of the sigmoid, the dashed
# hump of the first picture:
#
# $$\sigma'(x) = \frac{e^{-x}}{(1 + e^{-x})^2}
# = \frac{1}{1 + e^{-x}} \cdot \frac{e^{-x}}{1 + e^{-x}} = \sigma(x)\,(1 - \sigma(x))$$
#
# You need no $x$ for this slope, only the gate: $k\,(1 - k)$. In the fraction on the
# left $e^{-x}$ may overflow, and in the product on the right nothing can.
#
# **Exercise 6.** The vjp of equation 7, for arrays of any shape, all alike. One case
# has pre-activations in the thousands. Here as elsewhere, the complex step is the judge
# (chapter 4).


# %%
def gated_vjp(g, f, i, m, candidate, forget_bias):
    """g, the gradient of the new memory -> the gradients of f, i, m and candidate.
    All arrays (..., F).
    """
    ...


ex.gated_vjp.check(gated_vjp)
my_gated_vjp = ex.gated_vjp.yours(gated_vjp)

# %% [markdown]
# A forget gate that is wide open keeps the memory well. **Write down first:** does it
# learn well, too? Below are the gradients for six biases, with the same $g$, memory and
# candidate, and with $f$ and $i$ at 0.

# %%
one, nothing = np.ones(1), np.zeros(1)
for bias in (-5.0, -1.0, 0.0, 1.0, 3.0, 5.0):
    by_f, _, by_m, _ = my_gated_vjp(one, nothing, nothing, one, one, bias)
    print(f"bias {bias:4.0f}: to the memory before {by_m[0]:.3f}, ", end="")
    print(f"to the gate's pre-activation {by_f[0]:.3f}")

# %% [markdown]
# The gradient of the memory before rises with the bias, up to 1. The gradient of the
# gate's pre-activation is the hump: a quarter at most, and next to nothing at both
# ends. A gate that is nailed open passes gradients on, and hardly hears them itself.
#
# From the pre-activation the gradient goes on to the weights, and here all slots meet.
# Equation 4 is two products and a sum, $x W + h U + b$. All slots of all examples use
# the same $W$, $U$ and $b$. All slots of an example use the same $x$. What is used many
# times gets a sum of gradients (chapter 3).
#
# **Exercise 7.** The vjp of exercise 3. Watch which sum runs over what: slots,
# examples, or both.


# %%
def gate_vjp(g, x, h, W, U, b):
    """g (B, N, G), x (B, D), h (B, N, F), W (D, G), U (F, G), b (G,)
    -> the gradients of x, h, W, U and b.
    """
    ...


ex.gate_vjp.check(gate_vjp)
my_gate_vjp = ex.gate_vjp.yours(gate_vjp)

# %% [markdown]
# The two vjps together lead from a memory to everything its forget gates were made of.
# Does the tape find the same?

# %%
x, h = rng.normal(size=(2, 3)), rng.normal(size=(2, 4, 5))
W, U, b = rng.normal(size=(3, 5)), rng.normal(size=(5, 5)), rng.normal(size=5)
i, m, c, g = rng.normal(size=(4, 2, 4, 5))
with Tape() as tape:
    watched = [tape.watch(array) for array in (x, h, W, U, b)]
    f = equations.gate(p, *watched)
    loss = p.sum((p.sigmoid(f + 1.0) * m + ex.sigmoid(i) * c) * g)
found = tape.gradient(loss, watched)

by_f, *_ = my_gated_vjp(g, f.data, i, m, c, 1.0)
by_hand = my_gate_vjp(by_f, x, h, W, U, b)
for name, mine, theirs in zip("xhWUb", by_hand, found, strict=True):
    print(
        f"gradient of {name}, {mine.shape}: as on the tape,", np.allclose(mine, theirs)
    )

# %% [markdown]
# ## What is left is what is learnt
#
# Forgetting would be harmless if the network could learn to keep its gates open. But
# how does it find out that it should? A gradient tells it. The gradient travels from
# the last step back to the first, and on its way the same gates multiply it: the
# derivative of $m_T$ with respect to $c_t$ is $a_t$. (This is so when the gates are
# given. In a real network they depend on $h$ as well, which adds further paths.) Our
# tape (chapter 3) records the steps and finds the derivatives by itself, and they are
# the weights of exercise 4:

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
# above. The network cannot learn from what happened so long ago. Let us try it. At step
# 1 the network sees a bit, then come 49 steps of noise, and at the end it has to say
# which bit it was. There is one slot and no attention: this is an LSTM with 16 units,
# trained from the same seed with four forget biases.
#
# The loss is the cross-entropy of the two bits, and Adam takes the steps (chapter 5). A
# guess costs $\ln 2 = 0.69$. **Write down first:** with which of the four biases, 0, 1,
# 3 and 5, will it learn?


# %%
def train_to_keep_a_bit(forget_bias, steps, units=16, batch=64, seed=10):
    """Train an LSTM to tell, after T steps, the bit that it saw at the first.
    Returns the loss at each training step.
    """
    lstm = LSTM(2, units, forget_bias=forget_bias, seed=seed)
    readout = nn.Linear(units, 2, seed=seed + 1)
    adam = optim.Adam(lstm.parameters() + readout.parameters(), learning_rate=1e-2)
    losses = []
    for step in range(steps):
        random = np.random.default_rng([7, step])
        bits = random.integers(2, size=batch)
        inputs = random.normal(size=(batch, T, 2)).astype(np.float32)
        inputs[:, :, 1] = 0
        inputs[:, 0, 0] = 2 * bits - 1  # the bit as -1 or 1
        inputs[:, 0, 1] = 1  # and a mark: this is it
        with Tape() as tape:
            outputs, _ = lstm.unroll(inputs, lstm.initial_state(batch))
            loss = p.mean(fused.softmax_cross_entropy(readout(outputs[-1]), bits))
        adam.zero_grad()
        tape.backward(loss)
        adam.step(max_norm=1.0)
        losses.append(float(loss.data))
    return losses


steps = course.fast(300, 5)
curves = {}
for bias in (0.0, 1.0, 3.0, 5.0):
    curves[bias] = train_to_keep_a_bit(bias, steps)
    last = np.mean(curves[bias][-10:])
    print(f"forget bias {bias:.0f}: mean loss of the last ten steps {last:.3f}")

# %% tags=["hide-input"] alt="The loss over 300 training steps in four panels, one for each forget bias: for 0 and 1 it stays at 0.69, the loss of a guess; for 3 and 5 it falls to nearly 0"
# Draws the four losses
figure, panels = plt.subplots(1, 4, figsize=(10, 2.8), sharey=True)
for panel, (bias, losses) in zip(panels, curves.items(), strict=True):
    panel.plot(losses)
    look = {"color": "0.4", "ls": ":", "lw": 1.2, "zorder": 3}
    panel.axhline(math.log(2), label="a guess, ln 2", **look)
    panel.set(title=f"forget bias {bias:.0f}", xlabel="training steps", ylim=(0, 0.8))
panels[0].set_ylabel("loss")
panels[0].legend(loc="lower left")
plt.show()

# %% [markdown]
# The four differ only in one constant that is added to a pre-activation. The network
# could learn that constant by itself, in $b^f$. But for that it needs a gradient, and
# where the gates begin too far shut it gets next to none.
#
# The paper gives no value for $\tilde b^f$. The released code has 1, and so does ours
# by default. The paper's "Nth farthest" has 8 steps. A bias of 1, a gate of 0.73,
# leaves about as much over 8 steps as a bias of 3, a gate of 0.95, leaves over 50. And
# that was enough:

# %%
print(f"{ex.sigmoid(1.0) ** 8:.3f}")

# %% [markdown]
# ## The gates of a trained network
#
# What has become of the gates of the course's trained network? It reads sequences of 4
# vectors, with four slots of 64 units. The picture shows its gates over 500 held-out
# sequences, beside the gates of the same network with fresh weights. (It has the
# released form: the gates see $\tanh(m)$ where the paper has $h$. Chapter 10 lays both
# side by side.)
#
# **Write down first:** will the trained gates keep more than the fresh ones, or less?
# Will they write more, or less?

# %%
from tinyrmc import RelationalMemory
from tinyrmc.training.checkpoints import open_checkpoint

asset = course.assets() / "nth_farthest_4x4.npz"
network, (task, _, _) = tinyrmc.load(asset), open_checkpoint(asset)
questions = probes.held_out(task, course.fast(500, 50))
seen = {"trained": probes.traces(network, questions.inputs)}
trained = network.core
sizes = (trained.mem_slots, trained.head_size, trained.num_heads)
network.core = RelationalMemory(trained.input_size, *sizes)
seen["fresh"] = probes.traces(network, questions.inputs)
for name, gates in seen.items():
    forget, write = gates.forget_gate.mean(), gates.input_gate.mean()
    print(f"{name}: forget gates {forget:.2f} on average, input gates {write:.2f}")

# %% tags=["hide-input"] alt="Histograms of forget and input gates, fresh and trained: fresh forget gates stand around 0.7 and input gates around 0.5; after training both spread out, forget gates mostly above 0.8, input gates mostly below 0.5"
# Draws the gates before and after training
figure, panels = plt.subplots(1, 2, figsize=(9.5, 3))
bins = np.linspace(0, 1, 51)
for panel, name in zip(panels, ("forget_gate", "input_gate"), strict=True):
    for label, colour in (("fresh", "C0"), ("trained", "C1")):
        values = getattr(seen[label], name).ravel()
        share = np.full(len(values), 1 / len(values))
        look = {"fc": (colour, 0.15), "ec": colour, "lw": 1.5, "label": label}
        panel.hist(values, bins, weights=share, histtype="stepfilled", **look)
    panel.set(xlabel="shut (0) to open (1)", ylabel="share of the gates")
    panel.set_title(name.replace("_", " "))
panels[0].legend(loc="upper left")
plt.show()

# %% [markdown]
# The fresh gates lie around their constants, $\sigma(1)$ and $\sigma(0)$. Training has
# moved and spread them: now the network keeps some units almost whole and others half.
# On average it keeps more and writes less than it did at first.
#
# ## In the package
#
# All three gates are one function; $G$ is the number of gates of a slot:

# %%
course.show(equations.sigmoid, equations.gate)

# %%
x, h = rng.normal(size=(3, 4)), rng.normal(size=(3, 3, 5))
W, U, b = rng.normal(size=(4, 5)), rng.normal(size=(5, 5)), rng.normal(size=5)
ours, yours = equations.gate(np, x, h, W, U, b), ex.gate_of_every_slot(x, h, W, U, b)
np.allclose(ours, yours, rtol=1e-12)

# %% [markdown]
# The input's part needs no memory, so `RelationalMemory` computes it for all time steps
# of a sequence at once. It has no output gate: "In practice we did not find output
# gates necessary", says the paper.
#
# ## Takeaways
#
# - A gate is a number between 0 and 1 that multiplies. The forget gate multiplies the
#   old memory, the input gate the new.
# - All slots share the gates' weights and get the same input. The gates of a slot do
#   not see the other slots.
# - After many steps a memory is a weighted sum of all that was proposed, and the
#   weights are products of forget gates. The gradient is multiplied by the same
#   products.
# - On the way back, a gate gets what it multiplies, times its slope $k\,(1 - k)$. The
#   shared weights get a sum over all slots of all examples.
# - The forget bias decides, before anything has been learnt, over how many steps there
#   is something to learn from.
#
# **Further.** Train the LSTM again from another seed, and with a bias of 2. How large
# can a memory become, if all proposals lie between -1 and 1, the input gate is half
# open and the forget bias is 1? Would the LSTM have learnt with a bias of 1 over 10
# steps? What happens to a memory, and to the gradient, if the forget gate is exactly 1?

# %% tags=["hide-cell"]
# Answer 1: training it is the only way to know.
for bias, seed in ((1.0, 20), (2.0, 10), (2.0, 20), (3.0, 20)):
    losses = train_to_keep_a_bit(bias, steps, seed=seed)
    print(f"bias {bias:.0f}, seed {seed}: loss {np.mean(losses[-10:]):.3f}")

# %% tags=["hide-cell"]
# Answer 2: at most half a proposal comes in at each step, and the forget gate leaves
# 0.73 of what there is. Where they balance, m = 0.73 m + 0.5: that is 1.86.
largest = 0.0
for _ in range(100):
    largest = ex.sigmoid(1.0) * largest + ex.sigmoid(0.0) * 1.0
print(f"after 100 steps {largest:.3f}, by hand {0.5 / (1 - ex.sigmoid(1.0)):.3f}")

# %% tags=["hide-cell"]
# Answer 3: after 10 steps a bias of 1 has left 0.73 to the power of 10, 4 %. Is that
# enough to learn from? `train_to_keep_a_bit` reads T:
T = 10
losses = train_to_keep_a_bit(1.0, steps)
print(f"loss over 10 steps: {np.mean(losses[-10:]):.3f}")
print(f"left of the first step: {ex.sigmoid(1.0) ** 10:.3f}")
T = 50

# %% tags=["hide-cell"]
# Answer 4: nothing is ever lost, and the gradient passes all steps as it is, its factor
# is 1. But then nothing can be forgotten either: the memory adds up all that was
# written and may grow without end.
f, i = np.full((50, 1), np.inf), np.zeros((50, 1))
weights = ex.weights_of_the_past(f, i, 0.0)
print("weight of the first memory", weights[0, 0], ", of every step", weights[1, 0])
print("a memory after 50 proposals of 1:", weights[1:].sum())
