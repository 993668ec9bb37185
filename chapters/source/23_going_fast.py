# %% [markdown]
# # 23. By hand: going fast, first part
#
# **Equation 4, section 3.** About 65 minutes. You need the tape (chapter 3), the
# complex step (chapter 4), layer norm with its derivative (chapter 8) and the gates
# (chapter 9).
#
# The paper's equations say what to compute. They do not say in which order, in which
# portions, or on how many cores. Three chapters are about that freedom. The numbers
# stay the same, up to rounding; what changes is how long you wait for them.
#
# First, what is there to gain? The project's own benchmark times one training step,
# forward, backward and Adam, of the same network from the same weights, on two cores of
# an AMD EPYC (Zen 4). On other processors the lead is larger, or smaller, or gone
# (`benchmarks/README.md`). The figures come from the file
# `benchmarks/results/cpu.json`, which says how they were measured.

# %%
import contextlib
from collections import Counter
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, Tape, course, fused, gradcheck, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import primitive
from tinyrmc.course import held, least
from tinyrmc.course.exercises import by_hand as ex

course.setup()
rng = np.random.default_rng(15)
benchmark = course.summary("cpu")
timed = [row for row in benchmark["rows"] if row["core"] == "rmc"]

# %% tags=["hide-input"] alt="Bars of the time of a training step at three sizes: tinyrmc's is the shortest each time, by little at the largest; the others are PyTorch with threads and with processes, torch.compile, JAX, and at one size MyGrad and HIPS autograd"
# Draws the time of a step, ours and the others
figure, panels = plt.subplots(1, 3, figsize=(12, 3.4))
for panel, row in zip(panels, timed, strict=True):
    times = {"tinyrmc": row["ours_seconds"], **row["peers"]}
    ms = [1e3 * seconds for seconds in times.values()]
    bars = panel.barh([*times], ms, color=["C0"] + ["0.7"] * len(row["peers"]))
    labels = [f"{t:,.0f}" if t > 100 else f"{t:,.1f}" for t in ms]
    panel.bar_label(bars, labels, padding=3)
    panel.set(title=row["size"].replace(", batch", ",\nbatch"))
    panel.set(xlabel="ms for a step", xlim=(0, 1.35 * max(ms)))
    panel.invert_yaxis()
plt.show()

# %% [markdown]
# (That machine was a virtual one, so do not trust the bars to two digits. The other
# libraries run as you would usually run them, with a thread for each core. PyTorch has
# a second bar, with a process for each core, which is the subject of chapter 24.)
#
# Here is what helps, chapter by chapter:
#
# - The operations in which a step spends its time have derivatives worked out by hand,
#   and what does not depend on the memory $M$ moves out of the loop over time. That is
#   this chapter.
# - Batches go through the network in pieces, shared among workers (chapter 24).
# - The same code moves to a GPU, and one operation goes all the way from its equation
#   to a CUDA kernel (chapter 25).
#
# Some cells below measure. What they print holds for your machine at this moment. This
# notebook does not keep it, so those cells have no output until you run them. They all
# use the clock `least`. A second tool, `held`, counts what a tape keeps for its walk
# back:

# %%
course.show(least, held)

# %% [markdown]
# And here is a network to look at, the one of the second panel:

# %%
core = RelationalMemory(input_size=40, mem_slots=8, head_size=8, num_heads=8)
readout = nn.Linear(512, 8)
inputs = rng.standard_normal((128, 8, 40), dtype=np.float32)
targets = rng.integers(8, size=128)


def loss_of(start, stop):
    """The sum of the losses of these examples: the output after eight steps must name
    one of eight classes.
    """
    outputs, _ = core.unroll(inputs[start:stop], core.initial_state(stop - start))
    return p.sum(fused.softmax_cross_entropy(readout(outputs[-1]), targets[start:stop]))


# %% [markdown]
# ## One derivative by hand: a fused operation
#
# The tape can differentiate any composition of basic operations. But it need not: if
# you know the derivative of the whole, you can write it down as one operation, *fused*.
# Take layer norm, as chapter 8 has it. For each row $z$ of $F$ numbers,
#
# $$d = z - \mathrm{mean}(z), \qquad
# s = \frac{1}{\sqrt{\mathrm{mean}(d \circ d) + \epsilon}}, \qquad
# n = s \, d, \qquad y = n \circ \gamma + \beta$$
#
# with a gain $\gamma$ and an offset $\beta$, both $F$ wide, and a small $\epsilon$;
# $\circ$ multiplies entry by entry. In the core a row is a sum, $z = x + {}$residual,
# and the operation takes both. `fused/` also defines it as a composition of basic
# operations. There the tape records each step and keeps the arrays that each step's
# derivative will need. How many entries will the composed operation leave? How many the
# fused one? Write down two numbers.

# %%
rows = (128 * 9, 64)  # of 128 examples, each with 8 slots and an input
x, residual, g = (rng.standard_normal(rows, dtype=np.float32) for _ in range(3))
gain, offset = np.ones(64, np.float32), np.zeros(64, np.float32)
VERSIONS = {"composed": fused.layer_norm.reference, "by hand": fused.layer_norm}

for name, operation in VERSIONS.items():
    with Tape() as tape:
        operation(*[tape.watch(array) for array in (x, gain, offset, residual)])
    names = ", ".join(rules.name for rules, *_ in tape.entries)
    entries, size = len(tape.entries), held(tape) / x.nbytes
    print(f"{name}: entries {entries}; the tape holds {size:.1f} times the bytes of x")
    print(f"  ({names})")

# %% [markdown]
# The derivative of layer norm you know from chapter 8, with $u = g \circ \gamma$:
#
# $$\frac{\partial L}{\partial z}
# = s \left(u - \mathrm{mean}(u) - n\, \mathrm{mean}(u \circ n)\right)$$
#
# The package has this formula, and two sums for gain and offset. `xp` is the array
# library, here NumPy; `gemm` is a matrix product; `needs` says which derivatives
# somebody asked for; and the names of small helpers begin with an underscore:

# %%
course.show(fused.layer_norm.forward, fused.layer_norm.rule)

# %% [markdown]
# The forward rule does not call `mean`: it writes a mean as a matrix product with a
# vector of $1/F$, because BLAS is faster at it. The rule saves $n$ and $s$ for
# backward, and no other array as large as $x$. One word above the rule has to wait
# until chapter 25: `kernel` names what runs in its place on a GPU.
#
# A derivative by hand is a place for mistakes. So every fused operation carries its
# composed definition, and the tests hold it against this definition and against the
# complex step of chapter 4. Here we hold both versions against the complex step, in
# float64. Then we measure what working by hand brings: forward and backward, composed
# and by hand. Where will the ratio be larger, for 8 rows or for 1,152? Write down your
# guess, and why.

# %%
some_gain = 1 + 0.1 * rng.standard_normal(64)
arguments = (x[:5], some_gain, offset, residual[:5])
exact = [array.astype(np.float64) for array in arguments]
for name, operation in VERSIONS.items():
    close = gradcheck(operation, *exact) < 1e-12
    print(f"{name}: differs from the complex step by less than 1e-12:", close)


# %% tags=["varies"]
def forward_and_backward(operation, rows):
    arrays = (x[:rows], gain, offset, residual[:rows])
    with Tape() as tape:
        arguments = [tape.watch(array) for array in arrays]
        loss = p.sum(operation(*arguments) * g[:rows])
    tape.gradient(loss, arguments)


for rows in (8, 64 * 5, 128 * 9):
    versions = {}
    for name, operation in VERSIONS.items():
        versions[name] = partial(forward_and_backward, operation, rows)
    times = least(50, **versions)
    told = ", ".join(f"{name} {1e6 * t:.0f} µs" for name, t in times.items())
    print(f"{rows:4} rows: {told}, ratio {times['composed'] / times['by hand']:.2f}")

# %% [markdown]
# The time is saved in two places. NumPy makes fewer passes over the arrays. And there
# are fewer entries, each of which costs some Python on top of NumPy's own work: that
# counts most where the arrays are small. How many entries are there in a whole step,
# and how much does one cost, according to the benchmark's file?

# %%
for name, mode in (("composed", fused.plain), ("by hand", contextlib.nullcontext)):
    with mode(), Tape() as tape:
        loss_of(0, 32)
    size = held(tape) / 2**20
    print(f"{name}: {len(tape.entries)} entries; the tape holds {size:.1f} MiB")
print(f"the price of an entry: {benchmark['engine']['overhead_microseconds']:.1f} µs")

# %% [markdown]
# The package does the same with attention, with the gates, and with softmax and
# cross-entropy in one. The rule of thumb: write by hand what occurs in every step, and
# save no more than you need.
#
# ### Yours
#
# Newer networks often leave the mean alone. *RMS norm* only divides each row by the
# root of its mean square:
#
# $$s = \frac{1}{\sqrt{\mathrm{mean}(x \circ x) + \epsilon}}, \qquad
# n = s \, x, \qquad y = n \circ \gamma$$
#
# To find its derivative, ask what a small change $\delta x$ does. It moves $n = s\,x$
# by itself, and through $s$:
#
# $$\delta s = -s^3\, \mathrm{mean}(x \circ \delta x), \qquad
# \delta n = s\,\delta x + x\,\delta s$$
#
# The loss changes by $\sum h \circ \delta n$ with $h = g \circ \gamma$. Collect what
# multiplies $\delta x$ in that sum. Before you do: which of the two means of layer
# norm's formula do you expect to be gone?
#
# **Exercise 1.** The derivative of RMS norm, in a few lines of array code. Rows are the
# last axis, whatever stands before it.


# %%
def rms_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = gain * x / sqrt(mean(x * x) + epsilon), given d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    ...


ex.rms_norm_gradient.check(rms_norm_gradient)

# %% [markdown]
# Now make an operation of it, as the engine's own are made: a forward rule, which says
# what to save, and its derivative, which is yours if it is right. (The gain is one
# everywhere here.) What does the tape hold this time, compared with the composed
# version?

# %%
derivative = ex.rms_norm_gradient.yours(rms_norm_gradient)


@primitive
def rms_norm(xp, x):
    """x / sqrt(mean(x * x) + 1e-5), each row for itself"""
    s = 1 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    return x * s, (x,)


@rms_norm.vjp
def rms_norm_vjp(xp, needs, g, x):
    return derivative(g, x, xp.ones(x.shape[-1], x.dtype), 1e-5)


def composed(x):
    return x / p.sqrt(p.mean(p.square(x), axis=-1, keepdims=True) + 1e-5)


for name, operation in (("composed", composed), ("by hand", rms_norm)):
    with Tape() as tape:
        operation(tape.watch(x))
    close = gradcheck(operation, exact[0]) < 1e-12
    entries, size = len(tape.entries), held(tape) / x.nbytes
    print(f"{name}: entries {entries}; the tape holds {size:.1f} times the bytes of x")
    print("  differs from the complex step by less than 1e-12:", close)

# %% [markdown]
# Your operation saves $x$, which is there anyway, and computes $s$ and $n$ once more on
# the way back. Saving $n$ instead costs an array and spares a pass: the package's layer
# norm has made that choice.

# %% [markdown]
# ## Out of the loop
#
# A recurrent network goes through time step by step, because each step needs the memory
# that the step before has left. But not all of a step needs it. Look at a gate,
# equation 4:
#
# $$f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}$$
#
# The second term has to wait for $h_{i,t-1}$. The first and the third need only the
# inputs, and these are all there before the loop begins. So you can compute them for
# all $T$ steps at once: one product over $T B$ rows in place of $T$ products over $B$.
# `unroll` does so with the projection of the inputs and their part of the gates. Here
# it is beside a core that is called at each step. Such a call runs six linear layers,
# so eight steps run 48. Two of the six move out: how many linear layers will `unroll`
# run? Write it down.


# %%
def step_by_step():
    state = core.initial_state(len(inputs))
    for t in range(inputs.shape[1]):
        output, state = core(inputs[:, t], state)
    return output


def unrolled():
    outputs, _ = core.unroll(inputs, core.initial_state(len(inputs)))
    return outputs[-1]


for way in (step_by_step, unrolled):
    with Tape() as tape:
        way()
    count = Counter(rules.name for rules, *_ in tape.entries)
    print(f"{way.__name__}: {len(tape.entries)} entries, ", end="")
    print(f"{count['linear']} of them linear layers")
print("the same outputs:", np.allclose(step_by_step().data, unrolled().data, atol=1e-6))

# %% [markdown]
# This does not save arithmetic: the multiplications are the same, in fewer and larger
# products. It saves calls. That matters where pieces are small, and on a GPU, where
# each call has a price that does not shrink with the arrays. Backward gains in the same
# way. If each of $T$ steps uses a weight, its $T$ gradients must be added up: $T$
# products and $T - 1$ additions of whole matrices. Out of the loop, it is one product.
#
# **Exercise 2.** Find the gradient of a weight over all steps, from the inputs and the
# derivatives of all steps.


# %%
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    ...


ex.weight_gradient.check(weight_gradient)


# %% [markdown]
# ## What falls short
#
# A derivative by hand can be wrong, and it becomes wrong when somebody changes the
# forward rule and forgets the derivative. The tests catch that only where they look.
# And working by hand saves entries, memory and some passes, but many passes remain:
# each line of a rule still reads its arrays and writes a result. Chapter 25 shows what
# a compiled kernel saves there.
#
# Out of the loop you can take only what does not depend on $M$. That is a small part of
# a step: attention and the MLP stay where they are.
#
# ## In the package
#
# The operations by hand are in `fused/`, each beside its composed definition. The loop
# is `unroll` in `cores/core.py`. `cores/relational.py` has what the released core
# computes before the loop (`_prepare_all`) and inside it (`_step`).
#
# ## Takeaways
#
# - For a derivative by hand, write down the change of the loss, and collect what
#   multiplies the change of the argument. It saves entries and bytes on the tape, and
#   you have to check it.
# - Save for backward what the formula needs, and nothing else.
# - Compute what does not depend on $M$ before the loop, for all steps at once.
#
# **Further.** The queries, keys and values of the input row do not depend on $M$
# either, and layer norm works row by row, so you could take them out of the loop too.
# Why might that not be worth it? And RMS norm's derivative has no part along one
# direction. Which one, and why?

# %% tags=["hide-cell"]
# Answer 1: it is one row of N + 1, so there is little to win: of all the
# multiplications of a step a few percent. And there is something to lose: at every step
# its queries, keys and values must be copied beside those of the slots, because
# attention wants them in one array.
N, F, D = core.mem_slots, core.mem_size, core.input_size
by_row = 3 * F * F  # queries, keys and values of one row
whole_step = (N + 1) * by_row + 2 * N * (N + 1) * F + 2 * N * F * F + 2 * N * F * F
print(f"multiplications of the input's row: {by_row / whole_step:.1%} of a step")

# %% tags=["hide-cell"]
# Answer 2: along the row itself. Stretch a row, and RMS norm divides the stretch away:
# nothing changes in the result, so no gradient points there. (The epsilon lets a little
# through; here it is 0.)
row, h = rng.normal(size=(5, 8)), rng.normal(size=(5, 8))
back = ex.rms_norm_gradient(h, row, np.ones(8), 0.0)
print("no part along the row:", np.allclose((back * row).sum(axis=1), 0))
