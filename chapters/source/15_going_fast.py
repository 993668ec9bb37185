# %% [markdown]
# # 15. Going fast
#
# **Equation 4, section 3.** Forty minutes. You need the tape (chapter 2), the complex
# step (chapter 3), layer norm (chapter 6) and the gates (chapter 7).
#
# The paper's equations say what is to be computed, not in which order, in which
# portions, or by how many. This chapter is about that freedom. The numbers that come
# out stay the same, up to rounding; what changes is how long one waits for them.
#
# First, what there is to gain. The project's own benchmark times one training step,
# forward, backward and Adam, of the same network from the same weights, on four cores
# of one machine. The figures come from the file `benchmarks/results/cpu.json`, which
# says how they were taken.

# %%
import contextlib
import itertools
import json
import time
from collections import Counter, OrderedDict

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown

from tinyrmc import (
    RelationalMemory,
    Tape,
    Tensor,
    backend,
    course,
    fused,
    gradcheck,
    kernels,
    nn,
    optim,
)
from tinyrmc import primitives as p
from tinyrmc.course.exercises import speed as ex
from tinyrmc.training import workers
from tinyrmc.training.task import PIECE

course.setup()  # among other things, matrix products on one thread; why, is said below
rng = np.random.default_rng(15)
benchmark = json.loads(
    (course.assets().parents[1] / "benchmarks" / "results" / "cpu.json").read_text()
)

# %% alt="Bars of the time of a training step at three sizes: tinyrmc's is about half to three fifths as long as the shortest of the others, which are PyTorch, torch.compile, JAX, and at one size MyGrad and HIPS autograd"
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4))
for panel, row in zip(panels, benchmark["rows"], strict=True):
    times = {"tinyrmc": row["ours_seconds"], **row["peers"]}
    bars = panel.barh(
        [*times],
        [1e3 * t for t in times.values()],
        color=["C0"] + ["0.7"] * len(row["peers"]),
    )
    panel.bar_label(
        bars, [f"{1e3 * t:,.{0 if t > 0.1 else 1}f}" for t in times.values()], padding=3
    )
    panel.set(
        title=row["size"].replace(", batch", ",\nbatch"),
        xlabel="ms for a step",
        xlim=(0, 1.35e3 * max(times.values())),
    )
    panel.invert_yaxis()
plt.show()

# %% [markdown]
# (That machine was a virtual one, whose host gave it now more and now less speed: the
# bars' lengths are not good to two digits. The others run as one usually runs them, a
# thread for each core. Given a process for each core, the first of the three things
# below, PyTorch gains too; tinyrmc then takes 0.50 to 0.59 of its time,
# `benchmarks/results/cpu_processes.json`.)
#
# Three things help: batches go through the network in pieces, shared among workers; the
# operations in which a step spends its time have derivatives worked out by hand; and
# what needs no memory is taken out of the loop over time. The chapter goes through them
# in this order. Then the same code moves to a GPU, and one operation goes all the way
# from its equation to a CUDA kernel.
#
# Some cells below measure. What they print holds for your machine at this moment and is
# not kept in this notebook, so they stand empty until you run them. They all use this
# clock:


# %%
def least(rounds, **functions):
    """The least seconds that each function takes. They take turns; and since a disturbance can only add, the least is the best guess."""
    times = {name: [] for name in functions}
    for _ in range(course.fast(rounds, 2)):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: min(each) for name, each in times.items()}


# %% [markdown]
# ## Pieces
#
# A processor computes faster than its memory can deliver. What it has used last is
# therefore kept in a *cache*, small and quick; what finds no room there drives out what
# was not used for longest. Now let a chain of operations, such as norm, ReLU and gate,
# go over a large array, one after the other. Each operation ends at the far end of the
# array, and the next begins at the near end, which has long been driven out.
#
# Here is such a cache, with room for 32 blocks, and a chain of six operations over an
# array of 256 blocks. The array is cut into pieces, and each piece goes through all six
# before the next one begins. How often must a block be loaded from memory?


# %%
def loads(blocks, room, passes, piece):
    """How many blocks are loaded when an array goes through a chain of `passes` operations, one piece after the other."""
    cache, loaded = OrderedDict(), 0  # the block that was used last stands last
    for start in range(0, blocks, piece):
        for _ in range(passes):
            for block in range(start, min(start + piece, blocks)):
                loaded += block not in cache
                cache[block] = True
                cache.move_to_end(block)
                if len(cache) > room:
                    cache.popitem(last=False)
    return loaded


# %% alt="Left, loads of a block against the size of a piece: one up to the size of the cache, six from the next size on. Right, calls: half as many with every doubling of the piece"
pieces = 2 ** np.arange(9)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
left.semilogx(
    pieces, [loads(256, room=32, passes=6, piece=k) / 256 for k in pieces], "o-", base=2
)
left.axvline(32, color="0.5", ls=":")
left.text(30, 4, "room in\nthe cache", ha="right", color="0.3")
left.set(
    xlabel="blocks in a piece", title="loads from memory, for each block", ylim=(0, 6.5)
)
right.loglog(pieces, 6 * 256 / pieces, "o-", color="C1", base=2)
right.set(xlabel="blocks in a piece", title="calls of an operation")
plt.show()

# %% [markdown]
# On the left is a cliff: a piece that finds room is loaded once, one that is a little
# too large six times. On the right stands what small pieces cost: every call of an
# operation has a price of its own, in Python and in NumPy, however little there is to
# do. So a piece should be as large as will still fit. Does your machine agree? Here a
# chain of six operations goes over 64 MiB of float32. Expect a valley: dear on the
# left, where calls are many, and on the right, where no cache has room.

# %% tags=["varies"]
numbers = rng.standard_normal(course.fast(2**24, 2**18), dtype=np.float32)
room = np.empty_like(numbers)


def chain(size):
    for start in range(0, len(numbers), size):
        x, y = numbers[start : start + size], room[start : start + size]
        np.multiply(x, x, out=y)
        for _ in range(2):
            np.add(y, 1, out=y)
            np.multiply(y, 0.5, out=y)
        np.add(x, y, out=y)


sizes = [2**k for k in range(10, 25, 2) if 2**k <= len(numbers)]
for size, seconds in least(3, **{str(k): lambda k=k: chain(k) for k in sizes}).items():
    print(
        f"pieces of {int(size) / 256:7,.0f} KiB: {1e9 * seconds / len(numbers):6.2f} ns for each number"
    )

# %% [markdown]
# A batch is cut in the same way: each piece of examples goes through the whole network,
# forward and backward, before the next one. The largest arrays of a step are the
# queries, keys and values of all slots and the input. How large are they for the whole
# batch, in the three sizes above, and for a piece of 128 examples, which is what the
# package takes? And how much does the tape hold for backward?


# %%
def held(tape):
    """Bytes of all arrays that the entries of a tape keep for backward, parameters among them; each once."""
    arrays = {}
    for *_, saved, _ in tape.entries:
        for array in saved:
            while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
                array = array.base  # a view keeps the whole array
            if isinstance(array, np.ndarray):
                arrays[id(array)] = array.nbytes
    return sum(arrays.values())


core, readout = (
    RelationalMemory(input_size=40, mem_slots=8, head_size=8, num_heads=8),
    nn.Linear(512, 8),
)
adam = optim.Adam(core.parameters() + readout.parameters())
inputs, targets = (
    rng.standard_normal((128, 8, 40), dtype=np.float32),
    rng.integers(8, size=128),
)


def loss_of(start, stop):
    """The sum of the losses of these examples: the last output after eight steps is to name one of eight classes."""
    outputs, _ = core.unroll(inputs[start:stop], core.initial_state(stop - start))
    return p.sum(fused.softmax_cross_entropy(readout(outputs[-1]), targets[start:stop]))


for row in benchmark["rows"]:
    whole, piece = (
        4 * n * (row["slots"] + 1) * 3 * row["width"] / 2**20
        for n in (row["batch"], PIECE)
    )
    print(
        f"{row['size']:34}: queries, keys and values {whole:5.2f} MiB, of a piece of {PIECE} {piece:5.2f} MiB"
    )
for count in (8, 32, 128):
    with Tape() as tape:
        loss_of(0, count)
    print(
        f"8 slots x 64, T = 8, {count:3} examples: the tape holds {held(tape) / 2**20:6.2f} MiB"
    )

# %% [markdown]
# So what one operation hands to the next is a few MiB at most, for which a server's
# last cache has room; the whole batch of the first line finds room in few. Smaller
# pieces, for the cache before the last, were tried and were not faster
# (`benchmarks/README.md`). And the memory that the tape needs grows with the piece, not
# with the batch.
#
# ### Sums and counts
#
# What may go wrong with pieces is the mean. A loss is a mean over examples, or over the
# characters of all answers, and the pieces are not all as large. The mean of the
# pieces' means is then not the mean. So a piece gives a *sum* and a *count*, these are
# added up, and one division at the end makes the mean; the gradient of the mean is the
# sum of the pieces' gradients divided by the same count.
#
# **Exercise 1.** Do that. `differentiate` takes at most `size` examples at a time and
# gives the sum of their losses, their count, and the gradient of the sum. Some examples
# have no target and do not count.


# %%
def in_pieces(differentiate, examples, size):
    """The mean loss and its gradient (2,), from pieces of at most `size` of the examples (B, 3)."""
    ...


ex.in_pieces.check(in_pieces)

# %% [markdown]
# ## Workers
#
# Pieces know nothing of each other, so several *workers* can take them, each on a core
# of its own. Each adds its pieces' gradients into a buffer of its own. Were there one
# buffer for all, two workers could both read a number, both add to it, and the one that
# writes last would wipe out what the other has added. At the end the buffers are added
# up, always in the same order. The order matters, because every sum is rounded; here is
# an extreme case:

# %%
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1)
(a + b) + c, a + (b + c)

# %% [markdown]
# Here workers share a batch of 128. `pieces_of` cuts it. `Workers` calls `share` once
# for each worker, all at the same time, and `into` says where backward is to add:

# %%
course.show(workers.pieces_of)


# %%
def gradient_by(count):
    """The gradient of the mean loss, computed by `count` workers."""
    buffers = np.zeros((count, adam.gradient.size), np.float32)
    pieces = workers.pieces_of(len(inputs), 16, count)

    def share(worker, request):
        for start, stop in pieces[
            worker::count
        ]:  # piece i belongs to worker i mod count
            with Tape() as tape:
                loss = loss_of(start, stop)
            tape.backward(loss, into=buffers[worker])

    team = workers.Workers(count, share)
    team.run("differentiate")
    team.close()
    for other in buffers[1:]:
        buffers[0] += other
    return buffers[0] / len(inputs)


alone, both, again = gradient_by(1), gradient_by(2), gradient_by(2)
print("two workers twice, the same bits:", np.array_equal(both, again))
print("one worker and two, the same bits:", np.array_equal(alone, both))
print(
    "one worker and two, equal to a millionth of the largest entry:",
    abs(alone - both).max() < 1e-6 * abs(alone).max(),
)

# %% [markdown]
# These workers are threads, which is enough to show that nothing goes wrong. To be
# fast, the package takes processes, because Python has a lock, the GIL: of all threads
# of a process only one at a time may run Python. NumPy lets go of the lock inside a
# long operation, but a training step of this size is very many short ones. The
# benchmark's file has the same step, 8 slots of 64 units with a batch of 128, by
# workers of either kind, and by threads in a Python built without the lock:

# %% alt="Time of a step against the number of workers: with processes and with threads without the lock it falls to about half or less with four, with ordinary threads it falls a little with two and rises to almost three times with four"
figure, panel = plt.subplots(figsize=(6.5, 3.6))
kinds = dict.fromkeys(row["kind"] for row in benchmark["sharing"])
for kind, colour, place in zip(
    kinds, ("C0", "C1", "C2"), ((6, -14), (-8, -16), (6, 6)), strict=True
):
    workers, seconds = zip(
        *[
            (row["workers"], row["seconds"])
            for row in benchmark["sharing"]
            if row["kind"] == kind
        ],
        strict=True,
    )
    panel.plot(workers, [1e3 * s for s in seconds], "o-", color=colour, label=kind)
    panel.annotate(
        f"{1e3 * seconds[-1]:.1f}",
        (workers[-1], 1e3 * seconds[-1]),
        xytext=place,
        textcoords="offset points",
        color=colour,
    )
panel.set(
    xlabel="workers",
    ylabel="ms for a step",
    xticks=(1, 2, 4),
    xlim=(0.8, 4.5),
    ylim=(0, None),
)
panel.legend()
plt.show()

# %% [markdown]
# Four processes are not four times as fast as one. Adding up gradients and updating
# parameters are not shared, the pieces are smaller, so that calls weigh more, and the
# cores share a memory; how much each of the three costs has not been measured.
#
# One thing has to be switched off. A matrix product is done by a library, BLAS, which
# can use all cores by itself. Handing out the work and waiting for the last core takes
# time, and with a worker on each core every core is busy. So in training BLAS has one
# thread, and the cores are shared out where there is more to share: whole pieces. On
# your machine (do not be surprised by a ratio far above 1):

# %% tags=["varies"]
square = rng.standard_normal((128, 128), dtype=np.float32)
cores, times = workers.available_cores(), {}
for threads in (1, cores):
    with backend.blas_threads(threads):
        times[threads] = least(5, product=lambda: square @ square)["product"]
    print(
        f"(128 x 128) times (128 x 128), {threads} BLAS thread{'s' * (threads > 1)}: {1e6 * times[threads]:.1f} µs"
    )
print(f"ratio {times[cores] / times[1]:.2f}")

# %% [markdown]
# ## Fused operations: one derivative by hand
#
# The tape can differentiate any composition of basic operations. It need not: who knows
# the derivative of the whole can write it down as one operation, *fused*. Take layer
# norm, of which the paper says only that it is there ("we found a row/memory-wise MLP
# with layer normalisation to work best", section 3.3). For each row $z$, of $F$
# numbers,
#
# $$d = z - \mathrm{mean}(z), \qquad s = \frac{1}{\sqrt{\mathrm{mean}(d \circ d) + \epsilon}}, \qquad n = s \, d, \qquad y = n \circ \gamma + \beta$$
#
# with a gain $\gamma$ and an offset $\beta$, both $F$ wide, and a small $\epsilon$;
# $\circ$ multiplies entry by entry. In the core a row is a sum, $z = x + {}$residual,
# and the operation takes both. Composed of basic operations it is the definition in
# `fused.py`. The tape records each of its steps, and keeps the arrays that each step's
# derivative will want:

# %%
x, residual, g = (
    rng.standard_normal((128 * 9, 64), dtype=np.float32) for _ in range(3)
)  # rows of 128 examples: 8 slots and an input
gain, offset = np.ones(64, np.float32), np.zeros(64, np.float32)
VERSIONS = {"composed": fused.layer_norm.reference, "by hand": fused.layer_norm}

for name, operation in VERSIONS.items():
    with Tape() as tape:
        operation(*[tape.watch(array) for array in (x, gain, offset, residual)])
    names = ", ".join(rules.name for rules, *_ in tape.entries)
    print(
        f"{name}: entries {len(tape.entries)} ({names}); the tape holds {held(tape) / x.nbytes:.1f} times the bytes of x"
    )

# %% [markdown]
# Now the derivative. Let the loss be $L$ and $g$ its derivative by $y$, given. We go
# back the way the row came, and at each station ask what a small change $\delta$ does.
#
# From $y$ to $n$: $\delta y = \delta n \circ \gamma$, so the derivative by $n$ is
# $h = g \circ \gamma$. (This $h$ is not the hidden state of equation 8.)
#
# From $n$ to $d$: a change of $d$ moves $n = s\,d$ by itself, and through $s$. Since
# $s = (\mathrm{mean}(d \circ d) + \epsilon)^{-1/2}$,
#
# $$\delta s = -\tfrac12 \left(\mathrm{mean}(d \circ d) + \epsilon\right)^{-3/2} \cdot 2\, \mathrm{mean}(d \circ \delta d) = -s^3\, \mathrm{mean}(d \circ \delta d)$$
#
# $$\delta n = s\, \delta d + d\, \delta s = s \left(\delta d - n\, \mathrm{mean}(n \circ \delta d)\right)$$
#
# where $s^3 d$ was written as $s^2 n$, and $s d$ once more as $n$. The loss changes by
# $\sum h \circ \delta n$. Sorted by $\delta d$, that is
# $\sum s\,(h - n\, \mathrm{mean}(h \circ n)) \circ \delta d$, so
#
# $$\frac{\partial L}{\partial d} = s \left(h - n\, \mathrm{mean}(h \circ n)\right)$$
#
# From $d$ to $z$: $\delta d = \delta z - \mathrm{mean}(\delta z)$. What does taking off
# the mean do to a derivative on its way back? And what is the mean of $n$?
#
# **Exercise 2.** Take the last step, and write it all as code. Rows are the last axis,
# whatever stands before it.


# %%
def layer_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = layer_norm(x) * gain + offset, given g = d loss / d y.

    g, x (..., F), gain (F,), epsilon a number -> (..., F).
    """
    ...


ex.layer_norm_gradient.check(layer_norm_gradient)

# %% [markdown]
# Taking off the mean is its own transpose: what comes back has its mean taken off. And
# $n$ has the mean 0, so
#
# $$\frac{\partial L}{\partial z} = s \left(h - \mathrm{mean}(h) - n\, \mathrm{mean}(h \circ n)\right)$$
#
# This can be understood without a calculation. In chapter 6 layer norm moved rows of
# three numbers straight onto a circle. To move a row along $(1, 1, 1)$, off the plane
# of the circle, or along its ray $n$ changes nothing in the result. So the derivative
# can have no part in these two directions, and what the formula subtracts is the part
# of $h$ in them:

# %%
rows, h = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
n = fused.layer_norm(rows, np.ones(3), np.zeros(3), epsilon=0.0).data
back = ex.layer_norm_gradient(h, rows, np.ones(3), 0.0)
print(
    "no part along (1, 1, 1):",
    np.allclose(back.sum(axis=1), 0),
    " and none along n:",
    np.allclose((back * n).sum(axis=1), 0),
)

# %% [markdown]
# In the package stands this formula, and two sums for gain and offset. `xp` is the
# array library, here NumPy; `gemm` is a matrix product; `needs` tells which derivatives
# are asked for; and small helpers begin with an underscore:

# %%
course.show(fused.layer_norm.forward, fused.layer_norm.rule)

# %% [markdown]
# The forward rule does not call `mean`: a mean is written as a matrix product with a
# vector of $1/F$, since BLAS is faster at it. The rule saves $n$ and $s$ for backward,
# and nothing else of the row's size. Two words in the first line wait until the end of
# the chapter: `kernel` names what runs in its place on a GPU, `hint` is what an error
# message adds.
#
# A derivative made by hand is a place for mistakes. So every fused operation carries
# its composed definition, and is held against it and against the complex step of
# chapter 3. Here in float64, then what it brings, measured: forward and backward,
# composed and by hand.

# %%
exact = [
    array.astype(np.float64)
    for array in (x[:5], 1 + 0.1 * rng.standard_normal(64), offset, residual[:5])
]
for name, operation in VERSIONS.items():
    print(
        f"{name}: differs from the complex step by less than 1e-12:",
        gradcheck(operation, *exact) < 1e-12,
    )


# %% tags=["varies"]
def forward_and_backward(operation, rows):
    with Tape() as tape:
        arguments = [
            tape.watch(array) for array in (x[:rows], gain, offset, residual[:rows])
        ]
        loss = p.sum(operation(*arguments) * g[:rows])
    tape.gradient(loss, arguments)


for rows in (8, 64 * 5, 128 * 9):
    times = least(
        50,
        **{
            name: lambda each=each, rows=rows: forward_and_backward(each, rows)
            for name, each in VERSIONS.items()
        },
    )
    told = ", ".join(
        f"{name} {1e6 * seconds:.0f} µs" for name, seconds in times.items()
    )
    print(f"{rows:4} rows: {told}, ratio {times['composed'] / times['by hand']:.2f}")

# %% [markdown]
# The gain has two sources. NumPy makes fewer passes over the arrays; and there are
# fewer entries, each of which has a price beside NumPy's own work, in Python. How many
# are there in a whole step, and what does the benchmark's file say that one costs?

# %%
for name, mode in (("composed", fused.reference), ("by hand", contextlib.nullcontext)):
    with mode(), Tape() as tape:
        loss_of(0, 32)
    print(
        f"{name}: {len(tape.entries)} entries; the tape holds {held(tape) / 2**20:.1f} MiB"
    )
print(f"the price of an entry: {benchmark['engine']['overhead_microseconds']:.1f} µs")

# %% [markdown]
# The same has been done with attention, with the gates, and with softmax and
# cross-entropy in one. The rule of thumb: write by hand what occurs in every step, and
# save as little as will do.
#
# ## Out of the loop
#
# A recurrent network goes through time step by step, since each step needs the memory
# that the one before has left. But not all of a step needs it. Look at a gate, equation
# 4:
#
# $$f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}$$
#
# The second term has to wait for $h_{i,t-1}$. The first and the third need the inputs
# alone, and these are all there before the loop begins. So they can be computed for all
# $T$ steps at once: one product over $T B$ rows in place of $T$ products over $B$.
# `unroll` does so with the projection of the inputs and their part of the gates.
# Compared with calling the core at each step:


# %%
def step_by_step():
    state = core.initial_state(len(inputs))
    for t in range(inputs.shape[1]):
        output, state = core(inputs[:, t], state)
    return output


def unrolled():
    return core.unroll(inputs, core.initial_state(len(inputs)))[0][-1]


for run in (step_by_step, unrolled):
    with Tape() as tape:
        run()
    count = Counter(rules.name for rules, *_ in tape.entries)
    print(
        f"{run.__name__}: {len(tape.entries)} entries, {count['linear']} of them linear layers"
    )
print("the same outputs:", np.allclose(step_by_step().data, unrolled().data, atol=1e-6))

# %% [markdown]
# What it does not save is arithmetic: the multiplications are the same, in fewer and
# larger products. It is calls that one saves, which matters where pieces are small, and
# on a GPU, where each call has a price that does not shrink with the arrays. Backward
# gains the same. A weight that is used in each of $T$ steps has $T$ gradients to be
# added up: $T$ products and $T - 1$ additions of whole matrices. Out of the loop, it is
# one product.
#
# **Exercise 3.** All steps' gradient of a weight, from the inputs and the derivatives
# of all steps.


# %%
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y. x (T, B, I), g (T, B, O) -> (I, O)."""
    ...


ex.weight_gradient.check(weight_gradient)

# %% [markdown]
# ## The same function on other arrays
#
# A GPU has a memory of its own. CuPy is a library whose arrays lie there, and whose
# functions have NumPy's names and arguments. Code that says `np.exp(x)` cannot run on
# both. Code that first asks the array which library it belongs to can:

# %%
course.show(backend.namespace, backend.register)

# %%
print(backend.namespace(np.ones(3)).__name__)

# %% [markdown]
# (`_discover` knows CuPy's arrays at first sight.) That is all there is to it: each
# rule of the engine is given `xp`, the library of its arguments, as you have seen in
# the rules above. So any kind of array will do that is registered with its library.
#
# To see it without a GPU, here is a kind of our own. Its arrays lie "far away": they
# are NumPy's, but each operation on them is counted, and refused when one of its arrays
# is near and the other far. On a GPU each of these operations would be at least one
# *launch*, that is, the start of a program there, and would move its arrays between the
# GPU's memory and its processors. What only looks at an array in another way, like
# `reshape`, is free. NumPy has two hooks for arrays that want a say: it calls
# `__array_ufunc__` for what works entry by entry and for matrix products,
# `__array_function__` for the rest.

# %%
launches, moved = Counter(), Counter()  # by the name of the operation
FREE = {
    "reshape",
    "swapaxes",
    "moveaxis",
    "expand_dims",
    "transpose",
    "empty",
    "empty_like",
}


class Far(np.ndarray):
    """An array that lies elsewhere."""

    def __array_ufunc__(self, operation, method, *arguments, **named):
        return run(operation.__name__, getattr(operation, method), arguments, named)

    def __array_function__(self, function, types, arguments, named):
        return run(function.__name__, function, arguments, named)


class FarLibrary:
    """NumPy's names; what its functions make is far."""

    def asarray(self, array):
        return np.asarray(array).view(Far)

    def __getattr__(self, name):
        value = getattr(np, name)
        return (
            value
            if isinstance(value, type) or not callable(value)
            else lambda *a, **named: run(name, value, a, named)
        )


def run(name, function, arguments, named):
    """Call a function of NumPy with far arrays; count it."""
    result = function(
        *map(near, arguments), **{key: near(each) for key, each in named.items()}
    )
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    if name not in FREE:
        launches[name] += 1
        moved[name] += result.nbytes + sum(
            each.nbytes for each in arguments if isinstance(each, Far)
        )
    return np.asarray(result).view(Far)


def near(value):
    """The same as NumPy's own array."""
    if type(value) is np.ndarray and value.ndim:
        raise TypeError("an array that is near among arrays that are far")
    if isinstance(value, (list, tuple)):
        return type(value)(map(near, value))
    return value.view(np.ndarray) if isinstance(value, Far) else value


far = FarLibrary()
backend.register(Far, far)
print(backend.namespace(np.ones(3).view(Far)) is far)

# %% [markdown]
# Now a whole training step of the Relational Memory Core on far arrays. Not a line of
# it knows of them.


# %%
def training_step(xp):
    """One step of a fresh network on arrays of the library xp; returns its loss and its parameters afterwards, as NumPy's arrays."""
    core, readout = (
        RelationalMemory(40, mem_slots=8, head_size=8, num_heads=8).to(xp),
        nn.Linear(512, 8).to(xp),
    )
    adam = optim.Adam(core.parameters() + readout.parameters())
    with Tape() as tape:
        outputs, _ = core.unroll(xp.asarray(inputs), core.initial_state(len(inputs)))
        loss = p.mean(
            fused.softmax_cross_entropy(readout(outputs[-1]), xp.asarray(targets))
        )
    adam.zero_grad()
    launches.clear()
    tape.backward(loss)
    adam.step()
    return np.asarray(loss.data), np.asarray(adam.data)


for one, other in zip(training_step(np), training_step(far), strict=True):
    print("the same numbers:", np.array_equal(one, other))
print(
    f"backward and update: {sum(launches.values())} launches, the most frequent:",
    *launches.most_common(3),
)

# %% [markdown]
# The tests do the same with a stand-in for CuPy that is far stricter
# (`tests/fakecupy.py`): it refuses whatever CuPy refuses, and whatever would make the
# processor wait for the GPU. With CuPy and a GPU, `--device cuda` is all it takes to
# train there.
#
# To be plain: **nothing in this project has been measured on a GPU yet.** The tests
# have compiled the kernels, of which the next part shows one, and run them on an
# ordinary processor. That tells whether they compute the right numbers, and nothing
# about speed.
#
# ## One operation, from its equation to a CUDA kernel
#
# How many launches is a layer norm, and how much does it move? Composed of basic
# operations, and by hand in array operations:

# %%
far_arguments = [Tensor(far.asarray(array)) for array in (x, gain, offset, residual)]
counted = {}
for name, operation in VERSIONS.items():
    launches.clear()
    moved.clear()
    operation(*far_arguments)
    counted[name + ",\narrays"] = sum(launches.values()), sum(moved.values()) / x.nbytes
once = 3 * x.nbytes + 4 * (
    2 * x.shape[1] + 2 * x.shape[0]
)  # x, residual, y; gain, offset; mean and scale of each row
counted["by hand,\nkernel"] = 1, once / x.nbytes

# %% alt="Two panels of bars for a layer norm forward: as a composition or as array operations ten launches or more and fourteen to sixteen times the bytes of x, as a kernel one launch and three times the bytes"
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2))
for panel, values, title in zip(
    panels,
    zip(*counted.values(), strict=True),
    ("launches", "bytes moved / bytes of x"),
    strict=True,
):
    panel.bar_label(
        panel.bar([*counted], values, color=("0.7", "C0", "C2"), width=0.6),
        fmt="%.3g",
        padding=2,
    )
    panel.set(title=f"layer norm forward: {title}", ylim=(0, 1.15 * max(values)))
plt.show()

# %% [markdown]
# Derivatives by hand save entries on the tape and memory; they do not save launches,
# for each of their array operations still reads its arrays and writes a result. The
# third pair of bars is what can be had, counted by hand: read $x$ and the residual
# once, write $y$, and do everything else on the way. An array library cannot do that; a
# program for the GPU can. It is called a *kernel*, and is written in CUDA, which is C++
# with a few words more:
#
# | word | what it is |
# |---|---|
# | kernel | a function that very many threads run, each on numbers of its own |
# | thread | one run through that function; `threadIdx.x` is its number in its block |
# | register | where a thread has the few numbers that it is working with |
# | warp | 32 threads that go through the function together; they can read each other's registers |
# | block | some warps that run on the same processor of the GPU; `blockIdx.x` is its number, `blockDim.x` how many threads it has |
# | launch | the start of a kernel: so many blocks of so many threads. The program that launches does not wait for the end |
#
# ### Who does which row
#
# Rows do not depend on each other, so they are the natural portions. A row of 64 or 256
# numbers is too much for one thread and too little for a block, so each gets a warp.
# Python decides how many blocks there are, four warps in each, and launches:

# %%
course.show(kernels.layer_norm.launch_forward, kernels._grid_of_warps)

# %% [markdown]
# Compare it with the forward rule on arrays above: the same arguments, and again a
# result and what backward will want. `@Override` makes of it what stands in for that
# rule on a GPU. `_launch` takes a kernel's name, the number of blocks and of threads in
# each, and the kernel's arguments; CuPy compiles the kernel the first time.
#
# Every thread then finds out which row is its warp's, from its own numbers. With ten
# rows:

# %%
blocks, threads = kernels._grid_of_warps(10)
for block in range(blocks):
    # blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP
    rows = [block * (threads // 32) + thread // 32 for thread in range(0, threads, 32)]
    print(
        f"block {block}: its warps take the rows",
        *[
            row if row < 10 else f"({row}: there is none, so this warp leaves)"
            for row in rows
        ],
    )

# %% [markdown]
# ### Who does which column, and how 32 threads take a sum
#
# Within a warp a thread is known by its *lane*, 0 to 31. Lane $k$ takes the columns
# $k$, $k + 32$, $k + 64$ and so on. Then, whenever the warp reads, its 32 threads read
# 32 numbers that lie side by side, which a GPU's memory delivers together.
#
# A mean needs the sum over all columns, and each lane has only that of its own. They
# find the whole sum in five exchanges. In the first, each adds what the lane 16 away
# holds; then the one 8 away; then 4, 2 and 1. Lane $k$'s partner is `k ^ step`, the
# number $k$ with one binary digit turned over: 5 is 00101, and with a step of 16 its
# partner is 10101, which is 21, and the other way round. After the first exchange a sum
# is held by two lanes, after the second by four, and after the fifth all 32 hold the
# sum of all.

# %% tags=["hide-input"] alt="Left, a row of 80 columns in three sweeps of 32 lanes, the last sweep half empty. Right, the butterfly: 32 lanes exchange with partners 16, 8, 4, 2 and 1 away, and the lines that lead to lane 5 in the end come from all lanes"
# Draws which lane sums what, and how the sums get to all lanes
figure, (sweeps, wings) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(1, 1.1))
columns = np.arange(96).reshape(3, 32).T
sweeps.imshow(
    np.where(columns < 80, columns % 32, np.nan),
    aspect="auto",
    cmap="viridis",
    alpha=0.5,
)
shown = (0, 5, 10, 15, 21, 26, 31)
for lane, sweep in itertools.product(shown, range(3)):
    sweeps.text(
        sweep,
        lane,
        str(columns[lane, sweep]) if columns[lane, sweep] < 80 else "none",
        ha="center",
        va="center",
        fontsize=9,
    )
sweeps.set(
    xlabel="sweep",
    ylabel="lane",
    xticks=range(3),
    yticks=shown,
    ylim=(32.5, -1.5),
    title="columns of a row of 80",
)
heard = {
    5
}  # the lanes whose numbers have reached lane 5, from the last exchange to the first
for level, step in reversed([*enumerate((16, 8, 4, 2, 1))]):
    for lane in range(32):
        for source in (lane, lane ^ step):
            colour, width, order = ("C1", 1.2, 3) if lane in heard else ("0.85", 0.6, 2)
            wings.plot(
                [level, level + 1], [source, lane], color=colour, lw=width, zorder=order
            )
    heard |= {lane ^ step for lane in heard}
wings.plot(5, 5, "o", color="C1")
wings.set(
    xticks=range(6),
    xticklabels=("own\nsums", "16", "8", "4", "2", "1"),
    xlabel="after the exchange with the lane so far away",
)
wings.set(
    yticks=shown, ylim=(31.7, -0.7), title="what lane 5 holds in the end comes from all"
)
wings.spines[["left", "bottom"]].set_visible(False)
plt.show()

# %% [markdown]
# In CUDA a *shuffle* gives a thread what another thread of its warp holds;
# `__shfl_xor_sync` is the one with partners (its first argument says that all 32 take
# part). `__device__` marks a function that runs on the GPU and is called there:


# %%
def cuda(file, name):
    """The function `name` as it stands in a file of tinyrmc/kernels/."""
    text = (kernels.FOLDER / file).read_text(encoding="utf-8")
    start = text.rindex("\n", 0, text.index(f" {name}(")) + 1
    lines = text[start : text.index("\n}\n", start) + 2]
    return Markdown(f"`tinyrmc/kernels/{file}`\n\n```cpp\n{lines}\n```")


cuda("warp.cu", "warp_sum")

# %% [markdown]
# **Exercise 4.** The same in NumPy, where the 32 lanes are an axis: from a row of any
# length to what each lane holds in the end.


# %%
def row_sum(row):
    """A row (F,), of any length -> (32,): what each of 32 threads holds in the end, which is the same for all."""
    ...


ex.row_sum.check(row_sum)

# %% [markdown]
# ### The kernel
#
# Now it can be read. `__global__` marks a function that is launched. Its arguments are
# addresses of arrays, and numbers; `x += row * width` moves an address to the beginning
# of the row.

# %%
cuda("layer_norm.cu", "layer_norm_forward")

# %% [markdown]
# Line by line against the equation:
#
# - **Which row**, and the lane. A warp without a row leaves as a whole: if only some of
#   its threads left, the others would wait for them in the next shuffle.
# - **First sweep:** each thread adds up its columns, `warp_sum` makes the sum of all,
#   and `m` is $\mathrm{mean}(z)$, which now every thread holds in a register.
# - **Second sweep:** the same for $d \circ d$, and `s` is $s$. Why not add up
#   $z \circ z$ in the first sweep and save this one? The variance is
#   $\mathrm{mean}(z \circ z) - \mathrm{mean}(z)^2$, but where the mean is large that is
#   a small difference of two large numbers. The cell below shows what float32 leaves of
#   it.
# - **Third sweep:** $y = d\,s \circ \gamma + \beta$. The row is read three times, but
#   is to come from the memory once: it is small enough for the second and the third
#   sweep to find it in the cache.
# - **What backward needs:** one thread writes mean and scale, two numbers a row. The
#   rule on arrays keeps $n$, as large as $x$; the kernel computes $n$ again instead of
#   writing and reading it. That this is cheaper is an expectation, as long as nobody
#   has measured it.

# %%
z = (1000 + rng.standard_normal(64)).astype(np.float32)
d = z - z.mean()
print(f"variance in float64: {z.astype(float).var():.4f}")
print(
    f"in float32, as the kernel does it: {np.mean(d * d):.4f}; with one sweep less: {np.mean(z * z) - z.mean() ** 2:.4f}"
)

# %% [markdown]
# All of it in NumPy, with the 32 threads as an axis and the solution of exercise 4 for
# the sums, row by row as the warps have them:


# %%
def layer_norm_by_warps(x, residual, gain, offset, epsilon=1e-5):
    y = np.full_like(x, np.nan)
    blocks, threads = kernels._grid_of_warps(len(x))
    for block, warp in itertools.product(range(blocks), range(threads // 32)):
        row = block * (threads // 32) + warp
        if row >= len(x):
            continue  # a whole warp leaves
        z, lane = (
            x[row] + residual[row],
            np.arange(x.shape[1]) % 32,
        )  # which lane has this column
        m = ex.row_sum(z) / len(z)  # (32,): every thread holds the mean
        s = 1 / np.sqrt(ex.row_sum((z - m[lane]) ** 2) / len(z) + epsilon)  # (32,)
        y[row] = (z - m[lane]) * s[lane] * gain + offset
    return y


some = rng.normal(size=(2, 10, 80))
scales = rng.normal(size=(2, 80))
np.allclose(
    layer_norm_by_warps(*some, *scales),
    fused.layer_norm(some[0], *scales, some[1]).data,
    rtol=1e-12,
)

# %% [markdown]
# Backward is the second half of the file `tinyrmc/kernels/layer_norm.cu`: the formula
# of exercise 2, with two calls of `warp_sum`. The gradients of gain and offset are sums
# over all rows, so across blocks. Were all threads to add to one place, they would add
# in whatever order they arrive, and `(a + b) + c` has shown what that does to the bits.
# So each block writes a sum of its own, and a second kernel adds up the blocks in
# order.
#
# This notebook does not run the kernel. The tests do, in a way: g++ compiles the same
# text together with `tests/cuda_shim.h`, which says in C++ what `threadIdx`,
# `__shfl_xor_sync` and the other words mean, and the results are held against the rules
# on arrays in float64. That cannot show how fast it is, nor what goes wrong only when
# threads truly run at once. For that there is `benchmarks/gpu.py`, which first compares
# and then measures, on a machine with a GPU. It has not been run yet.
#
# ## What falls short
#
# The benchmark's file also says which part of what the processor can do in large matrix
# products a whole step makes use of:

# %%
for row in benchmark["rows"]:
    print(f"{row['size']:34}: {row['sgemm_fraction']:.0%}")

# %% [markdown]
# The rest goes into the passes over arrays, which a compiled kernel would save and an
# array program cannot; into matrix products smaller, and so slower, than those that set
# the mark; and, where arrays are small, into the price of the calls
# (`benchmarks/README.md` has figures for one size).
#
# ## In the package
#
# Pieces and workers are in `workers.py`, the operations by hand in `fused.py`, the
# kernels in `kernels/`, and which library an array belongs to in `backend.py`. The last
# link is the choice between arrays and kernel. The engine asks a fused operation for it
# at each call:

# %%
course.show(
    fused.Fused.override, kernels.Override.takes, kernels.usable, docstring=False
)

# %% [markdown]
# `_mode` is a switch for the tests; `RawModule` is what CuPy compiles kernels with, and
# NumPy does not have.
#
# ## To take along
#
# - An array program waits for memory and pays for each call. Pieces balance the two.
# - Pieces hand on sums and counts; one division comes at the end. Each worker has a
#   buffer of its own, and the order of additions is fixed.
# - Cores are shared out once: workers on the outside, one BLAS thread inside.
# - A derivative by hand is the change of the result, sorted by the change of the
#   argument. It saves entries and memory, and has to be checked.
# - What needs no memory is computed before the loop, for all steps at once.
# - On a GPU a kernel does in one launch, and with the least traffic, what array
#   operations do in ten or twelve. What that brings has to be measured first.
#
# **Further.** The queries, keys and values of the input row need no memory either, and
# layer norm works row by row: they could be taken out of the loop too. Why might that
# not be worth it? In the picture of the cache, what changes if each operation goes over
# the array in the other direction than the one before? And what would a kernel look
# like that does layer norm for rows of 100,000 numbers?
