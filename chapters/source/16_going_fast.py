# %% [markdown]
# # 16. Going fast
#
# **Equation 4, section 3.** Forty minutes. You need the tape (chapter 2), the complex
# step (chapter 3), layer norm (chapter 7) and the gates (chapter 8).
#
# The paper's equations say what to compute. They do not say in which order, in which
# portions, or on how many cores. This chapter is about that freedom. The numbers stay
# the same, up to rounding; what changes is how long you wait for them.
#
# First, what is there to gain? The project's own benchmark times one training step,
# forward, backward and Adam, of the same network from the same weights, on four cores
# of one machine. The figures come from the file `benchmarks/results/cpu.json`, which
# says how they were measured.

# %%
import contextlib
import itertools
import time
from collections import Counter, OrderedDict
from functools import partial

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

course.setup()  # it also puts matrix products on one thread; the reason comes below
rng = np.random.default_rng(15)
benchmark = course.summary("cpu")

# %% alt="Bars of the time of a training step at three sizes: tinyrmc's is about half to three fifths as long as the shortest of the others, which are PyTorch, torch.compile, JAX, and at one size MyGrad and HIPS autograd"
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4))
for panel, row in zip(panels, benchmark["rows"], strict=True):
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
# (That machine was a virtual one, and its host gave it sometimes more and sometimes
# less speed, so the bars' lengths are not good to two digits. The other libraries run
# as you would usually run them, with a thread for each core. If you give PyTorch a
# process for each core, which is the first of the three things below, it gains too.
# Then tinyrmc takes 0.50 to 0.59 of its time, `benchmarks/results/cpu_processes.json`.)
#
# Three things help. Batches go through the network in pieces, shared among workers. The
# operations in which a step spends its time have derivatives worked out by hand. And
# what needs no memory moves out of the loop over time. The chapter goes through them in
# this order. Then the same code moves to a GPU, and one operation goes all the way from
# its equation to a CUDA kernel.
#
# Some cells below measure. What they print holds for your machine at this moment. This
# notebook does not keep it, so those cells have no output until you run them. They all
# use this clock:


# %%
def least(rounds, **functions):
    """The least seconds that each function takes. They take turns; and because a
    disturbance can only add, the least is the best guess.
    """
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
# A processor computes faster than its memory can deliver. So it keeps what it has used
# last in a *cache*, which is small and quick. When something new needs room, it drives
# out what was not used for longest. Now let a chain of operations, such as norm, ReLU
# and gate, go over a large array, one after the other. Each operation ends at the far
# end of the array. The next begins at the near end, which was driven out long ago.
#
# Here is such a cache, with room for 32 blocks, and a chain of six operations over an
# array of 256 blocks. We cut the array into pieces, and each piece goes through all six
# before the next one begins. How often must a block be loaded from memory?


# %%
def loads(blocks, room, passes, piece):
    """How many blocks are loaded when an array goes through a chain of `passes`
    operations, one piece after the other.
    """
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
for_each_block = [loads(256, room=32, passes=6, piece=k) / 256 for k in pieces]
left.semilogx(pieces, for_each_block, "o-", base=2)
left.axvline(32, color="0.5", ls=":")
left.text(30, 4, "room in\nthe cache", ha="right", color="0.3")
left.set(title="loads from memory, for each block", ylim=(0, 6.5))
left.set(xlabel="blocks in a piece")
right.loglog(pieces, 6 * 256 / pieces, "o-", color="C1", base=2)
right.set(xlabel="blocks in a piece", title="calls of an operation")
plt.show()

# %% [markdown]
# On the left is a cliff: a piece that fits is loaded once, a piece that is a little too
# large six times. On the right you see what small pieces cost: every call of an
# operation has a price of its own, in Python and in NumPy, however little there is to
# do. So a piece should be as large as still fits. Does your machine agree? Here a chain
# of six operations goes over 64 MiB of float32. Expect a valley: expensive for small
# pieces, where calls are many, and for large pieces, where no cache has room.

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
chains = {f"{size / 256:7,.0f} KiB": lambda size=size: chain(size) for size in sizes}
for name, seconds in least(3, **chains).items():
    each = 1e9 * seconds / len(numbers)
    print(f"pieces of {name}: {each:6.2f} ns for each number")

# %% [markdown]
# Training cuts a batch in the same way: each piece of examples goes through the whole
# network, forward and backward, before the next one. The largest arrays of a step are
# the queries, keys and values of all slots and the input. How large are they for the
# whole batch, in the three sizes above? How large are they for a piece of 128 examples,
# which is what the package takes? And how much does the tape hold for backward?


# %%
def held(tape):
    """Bytes of all arrays that a tape keeps for backward, parameters among them. Each
    array counts once.
    """
    arrays = {}
    for *_, saved, _ in tape.entries:
        for array in saved:
            while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
                array = array.base  # a view keeps the whole array
            if isinstance(array, np.ndarray):
                arrays[id(array)] = array.nbytes
    return sum(arrays.values())


core = RelationalMemory(input_size=40, mem_slots=8, head_size=8, num_heads=8)
readout = nn.Linear(512, 8)
adam = optim.Adam(core.parameters() + readout.parameters())
inputs = rng.standard_normal((128, 8, 40), dtype=np.float32)
targets = rng.integers(8, size=128)


def loss_of(start, stop):
    """The sum of the losses of these examples: the output after eight steps must name
    one of eight classes.
    """
    outputs, _ = core.unroll(inputs[start:stop], core.initial_state(stop - start))
    return p.sum(fused.softmax_cross_entropy(readout(outputs[-1]), targets[start:stop]))


print("queries, keys and values:")
for row in benchmark["rows"]:
    example = 4 * (row["slots"] + 1) * 3 * row["width"] / 2**20  # MiB
    whole, piece = row["batch"] * example, PIECE * example
    print(f"{row['size']:34}: {whole:5.2f} MiB, of a piece of {PIECE} {piece:5.2f} MiB")
for count in (8, 32, 128):
    with Tape() as tape:
        loss_of(0, count)
    print(f"8 slots x 64, T = 8, {count:3} examples: ", end="")
    print(f"the tape holds {held(tape) / 2**20:6.2f} MiB")

# %% [markdown]
# So one operation hands a few MiB at most to the next, and a server's last cache has
# room for that. Few caches have room for the whole batch of the first line. We also
# tried smaller pieces, for the cache before the last, and they were not faster
# (`benchmarks/README.md`). And the memory that the tape needs grows with the piece, not
# with the batch.
#
# ### Sums and counts
#
# With pieces, the mean can go wrong. A loss is a mean over examples, or over the
# characters of all answers, and not all pieces are equally large. Then the mean of the
# pieces' means is not the mean. So each piece gives a *sum* and a *count*. Add these
# up, and one division at the end makes the mean. The gradient of the mean is the sum of
# the pieces' gradients, divided by the same count.
#
# **Exercise 1.** Do that. `differentiate` takes at most `size` examples at a time. It
# gives the sum of their losses, their count, and the gradient of the sum. Some examples
# have no target and do not count.


# %%
def in_pieces(differentiate, examples, size):
    """examples (B, 3), in pieces of at most `size` -> mean loss, its gradient (2,)."""
    ...


ex.in_pieces.check(in_pieces)

# %% [markdown]
# ## Workers
#
# Pieces know nothing of each other, so several *workers* can take them, each on a core
# of its own. Each worker adds its pieces' gradients into a buffer of its own. With one
# buffer for all, two workers could both read a number and both add to it; then the one
# that writes last would wipe out what the other has added. At the end the buffers are
# added up, always in the same order. The order matters, because every sum is rounded.
# Here is an extreme case:

# %%
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1)
(a + b) + c, a + (b + c)

# %% [markdown]
# Now workers share a batch of 128. `pieces_of` cuts it. `Workers` calls `share` once
# for each worker, all at the same time, and `into` says where backward adds:

# %%
course.show(workers.pieces_of)


# %%
def gradient_by(count):
    """The gradient of the mean loss, computed by `count` workers."""
    buffers = np.zeros((count, adam.gradient.size), np.float32)
    pieces = workers.pieces_of(len(inputs), 16, count)

    def share(worker, request):
        for start, stop in pieces[worker::count]:  # piece i is of worker i mod count
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
close = abs(alone - both).max() < 1e-6 * abs(alone).max()
print("one worker and two, equal to a millionth of the largest entry:", close)

# %% [markdown]
# These workers are threads, which is enough to show that nothing goes wrong. To be
# fast, the package takes processes, because Python has a lock, the GIL: of all threads
# of a process only one at a time may run Python. NumPy releases the lock inside a long
# operation, but a training step of this size consists of very many short ones. The
# benchmark's file has the same step, 8 slots of 64 units with a batch of 128, for
# workers of either kind, and for threads in a Python built without the lock:

# %% alt="Time of a step against the number of workers: with processes and with threads without the lock it falls to about half or less with four, with ordinary threads it falls a little with two and rises to almost three times with four"
figure, panel = plt.subplots(figsize=(6.5, 3.6))
curves = {}  # kind -> (workers, ms)
for row in benchmark["sharing"]:
    curves.setdefault(row["kind"], []).append((row["workers"], 1e3 * row["seconds"]))
places = ((6, -14), (-8, -16), (6, 6))
for number, ((kind, curve), place) in enumerate(
    zip(curves.items(), places, strict=True)
):
    colour, end = f"C{number}", curve[-1]
    panel.plot(*np.array(curve).T, "o-", color=colour, label=kind)
    look = {"xytext": place, "textcoords": "offset points", "color": colour}
    panel.annotate(f"{end[1]:.1f}", end, **look)
panel.set(xlabel="workers", ylabel="ms for a step")
panel.set(xticks=(1, 2, 4), xlim=(0.8, 4.5), ylim=(0, None))
panel.legend()
plt.show()

# %% [markdown]
# Four processes are not four times as fast as one. They do not share adding up the
# gradients and updating the parameters; the pieces are smaller, so that calls weigh
# more; and the cores share a memory. We have not measured how much each of the three
# costs.
#
# One thing must be switched off. A library, BLAS, does the matrix products, and it can
# use all cores by itself. Handing out the work and waiting for the last core takes
# time, and with a worker on each core every core is busy already. So in training BLAS
# has one thread, and we share the cores where there is more to share: whole pieces.
# Here it is on your machine (do not be surprised by a ratio far above 1):

# %% tags=["varies"]
square = rng.standard_normal((128, 128), dtype=np.float32)
cores, times = workers.available_cores(), {}
for threads in (1, cores):
    with backend.blas_threads(threads):
        times[threads] = least(5, product=lambda: square @ square)["product"]
    name = f"{threads} BLAS thread{'s' * (threads > 1)}"
    print(f"(128 x 128) times (128 x 128), {name}: {1e6 * times[threads]:.1f} µs")
print(f"ratio {times[cores] / times[1]:.2f}")

# %% [markdown]
# ## Fused operations: one derivative by hand
#
# The tape can differentiate any composition of basic operations. But it need not: if
# you know the derivative of the whole, you can write it down as one operation, *fused*.
# Take layer norm. The paper says only that it is there ("we found a row/memory-wise MLP
# with layer normalisation to work best", section 3.3). For each row $z$ of $F$ numbers,
#
# $$d = z - \mathrm{mean}(z), \qquad
# s = \frac{1}{\sqrt{\mathrm{mean}(d \circ d) + \epsilon}}, \qquad
# n = s \, d, \qquad y = n \circ \gamma + \beta$$
#
# with a gain $\gamma$ and an offset $\beta$, both $F$ wide, and a small $\epsilon$;
# $\circ$ multiplies entry by entry. In the core a row is a sum, $z = x + {}$residual,
# and the operation takes both. Its definition in `fused.py` is composed of basic
# operations. The tape records each of its steps, and keeps the arrays that each step's
# derivative will need:

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
# Now the derivative. Let $L$ be the loss. Its derivative $g$ by $y$ is given. We go
# back the way the row came, and at each station we ask what a small change $\delta$
# does.
#
# From $y$ to $n$: $\delta y = \delta n \circ \gamma$, so the derivative by $n$ is
# $h = g \circ \gamma$. (This $h$ is not the hidden state of equation 8.)
#
# From $n$ to $d$: a change of $d$ moves $n = s\,d$ by itself, and through $s$. Because
# $s = (\mathrm{mean}(d \circ d) + \epsilon)^{-1/2}$,
#
# $$\delta s = -\tfrac12 \left(\mathrm{mean}(d \circ d) + \epsilon\right)^{-3/2}
# \cdot 2\, \mathrm{mean}(d \circ \delta d) = -s^3\, \mathrm{mean}(d \circ \delta d)$$
#
# $$\delta n = s\, \delta d + d\, \delta s
# = s \left(\delta d - n\, \mathrm{mean}(n \circ \delta d)\right)$$
#
# where we have written $s^3 d$ as $s^2 n$, and $s d$ once more as $n$. The loss changes
# by $\sum h \circ \delta n$. Sorted by $\delta d$, that is
# $\sum s\,(h - n\, \mathrm{mean}(h \circ n)) \circ \delta d$, so
#
# $$\frac{\partial L}{\partial d} = s \left(h - n\, \mathrm{mean}(h \circ n)\right)$$
#
# From $d$ to $z$: $\delta d = \delta z - \mathrm{mean}(\delta z)$. What does
# subtracting the mean do to a derivative on its way back? And what is the mean of $n$?
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
# Subtracting the mean is its own transpose: what comes back loses its mean. And $n$ has
# the mean 0, so
#
# $$\frac{\partial L}{\partial z}
# = s \left(h - \mathrm{mean}(h) - n\, \mathrm{mean}(h \circ n)\right)$$
#
# You can understand this without a calculation. In chapter 7 layer norm moved rows of
# three numbers straight onto a circle. If you move a row along $(1, 1, 1)$, off the
# plane of the circle, or along its ray $n$, nothing changes in the result. So the
# derivative can have no part in these two directions, and the formula subtracts the
# part that $h$ has in them:

# %%
rows, h = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
n = fused.layer_norm(rows, np.ones(3), np.zeros(3), epsilon=0.0).data
back = ex.layer_norm_gradient(h, rows, np.ones(3), 0.0)
print("no part along (1, 1, 1):", np.allclose(back.sum(axis=1), 0))
print("and none along n:", np.allclose((back * n).sum(axis=1), 0))

# %% [markdown]
# The package has this formula, and two sums for gain and offset. `xp` is the array
# library, here NumPy; `gemm` is a matrix product; `needs` says which derivatives
# somebody asked for; and the names of small helpers begin with an underscore:

# %%
course.show(fused.layer_norm.forward, fused.layer_norm.rule)

# %% [markdown]
# The forward rule does not call `mean`: it writes a mean as a matrix product with a
# vector of $1/F$, because BLAS is faster at it. The rule saves $n$ and $s$ for
# backward, and nothing else of the row's size. Two words above the rule have to wait
# until the end of the chapter: `kernel` names what runs in its place on a GPU, and
# `hint` is what an error message adds.
#
# A derivative by hand is a place for mistakes. So every fused operation carries its
# composed definition, and the tests hold it against this definition and against the
# complex step of chapter 3. Here we do so in float64. Then we measure what it brings:
# forward and backward, composed and by hand.

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
# The gain has two sources. NumPy makes fewer passes over the arrays. And there are
# fewer entries, each of which costs some Python beside NumPy's own work. How many are
# there in a whole step, and how much does one cost, according to the benchmark's file?

# %%
for name, mode in (("composed", fused.reference), ("by hand", contextlib.nullcontext)):
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
# it is beside a core that is called at each step:


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
# each call has a price that does not shrink with the arrays. Backward gains the same.
# If each of $T$ steps uses a weight, its $T$ gradients must be added up: $T$ products
# and $T - 1$ additions of whole matrices. Out of the loop, it is one product.
#
# **Exercise 3.** Find the gradient of a weight over all steps, from the inputs and the
# derivatives of all steps.


# %%
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    ...


ex.weight_gradient.check(weight_gradient)

# %% [markdown]
# ## The same function on other arrays
#
# A GPU has a memory of its own. CuPy is a library whose arrays lie there, and whose
# functions have NumPy's names and arguments. Code that says `np.exp(x)` cannot run on
# both. Code that first asks the array for its library can:

# %%
course.show(backend.namespace, backend.register)

# %%
print(backend.namespace(np.ones(3)).__name__)

# %% [markdown]
# (`_discover` recognises CuPy's arrays when it first sees them.) That is all there is
# to it. Each rule of the engine gets `xp`, the library of its arguments, as you have
# seen in the rules above. So any kind of array will do, if you register it with its
# library.
#
# To see it without a GPU, here is a kind of our own. Its arrays lie "far away": they
# are NumPy's, but each operation on them is counted, and refused when one of its arrays
# is near and another far. On a GPU each of these operations would be at least one
# *launch*, the start of a program there, and would move its arrays between the GPU's
# memory and its processors. Looking at an array in another way, like `reshape`, is
# free. NumPy has two hooks for arrays that want a say: it calls `__array_ufunc__` for
# what works entry by entry and for matrix products, and `__array_function__` for the
# rest.

# %%
launches, moved = Counter(), Counter()  # by the name of the operation
FREE = {"reshape", "swapaxes", "moveaxis", "expand_dims", "transpose"}
FREE |= {"empty", "empty_like"}


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
        if isinstance(value, type) or not callable(value):
            return value
        return lambda *arguments, **named: run(name, value, arguments, named)


def run(name, function, arguments, named):
    """Call a function of NumPy with far arrays; count it."""
    named = {key: near(each) for key, each in named.items()}
    result = function(*map(near, arguments), **named)
    if not isinstance(result, (np.ndarray, np.generic)):
        return result
    if name not in FREE:
        launches[name] += 1
        read = sum(each.nbytes for each in arguments if isinstance(each, Far))
        moved[name] += result.nbytes + read
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
# Now comes a whole training step of the Relational Memory Core on far arrays. Not a
# line of it knows of them.


# %%
def training_step(xp):
    """One step of a fresh network on arrays of the library xp; returns its loss and its
    parameters afterwards, as NumPy's arrays.
    """
    core = RelationalMemory(40, mem_slots=8, head_size=8, num_heads=8).to(xp)
    readout = nn.Linear(512, 8).to(xp)
    adam = optim.Adam(core.parameters() + readout.parameters())
    here, wanted = xp.asarray(inputs), xp.asarray(targets)
    with Tape() as tape:
        outputs, _ = core.unroll(here, core.initial_state(len(inputs)))
        loss = p.mean(fused.softmax_cross_entropy(readout(outputs[-1]), wanted))
    adam.zero_grad()
    launches.clear()
    tape.backward(loss)
    adam.step()
    return np.asarray(loss.data), np.asarray(adam.data)


for one, other in zip(training_step(np), training_step(far), strict=True):
    print("the same numbers:", np.array_equal(one, other))
print(f"backward and update: {sum(launches.values())} launches, the most frequent:")
for name, count in launches.most_common(3):
    print(f"  {name} {count}")

# %% [markdown]
# The tests do the same with a much stricter stand-in for CuPy (`tests/fakecupy.py`): it
# refuses whatever CuPy refuses, and whatever would make the processor wait for the GPU.
# With CuPy and a GPU, `--device cuda` is all it takes to train there.
#
# To be plain: **nothing in this project has been measured on a GPU yet.** The tests
# have compiled the kernels, one of which the next part shows, and run them on an
# ordinary processor. That tells you whether they compute the right numbers, and nothing
# about speed.
#
# ## One operation, from its equation to a CUDA kernel
#
# How many launches does a layer norm take, and how much does it move? First composed of
# basic operations, then by hand in array operations:

# %%
far_arguments = [Tensor(far.asarray(array)) for array in (x, gain, offset, residual)]
counted = {}
for name, operation in VERSIONS.items():
    launches.clear()
    moved.clear()
    operation(*far_arguments)
    counted[name + ",\narrays"] = sum(launches.values()), sum(moved.values()) / x.nbytes
rows, width = x.shape
once = 3 * x.nbytes  # x, residual, y
once += 4 * (2 * width + 2 * rows)  # gain, offset; mean and scale of each row
counted["by hand,\nkernel"] = 1, once / x.nbytes

# %% alt="Two panels of bars for a layer norm forward: as a composition or as array operations ten launches or more and fourteen to sixteen times the bytes of x, as a kernel one launch and three times the bytes"
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2))
columns = zip(*counted.values(), strict=True)
titles = ("launches", "bytes moved / bytes of x")
for panel, values, title in zip(panels, columns, titles, strict=True):
    bars = panel.bar([*counted], values, color=("0.7", "C0", "C2"), width=0.6)
    panel.bar_label(bars, fmt="%.3g", padding=2)
    panel.set(title=f"layer norm forward: {title}", ylim=(0, 1.15 * max(values)))
plt.show()

# %% [markdown]
# Derivatives by hand save entries on the tape, and memory. They do not save launches:
# each of their array operations still reads its arrays and writes a result. The third
# pair of bars shows what is possible, counted by hand: read $x$ and the residual once,
# write $y$, and do everything else on the way. An array library cannot do that; a
# program for the GPU can. It is called a *kernel*, and it is written in CUDA, which is
# C++ with a few more words:
#
# | word | what it is |
# |---|---|
# | kernel | a function that very many threads run, each on numbers of its own |
# | thread | one run through that function; `threadIdx.x` is its number in its block |
# | register | where a thread has the few numbers that it is working with |
# | warp | 32 threads that go through the function together; they can read each other's registers |
# | block | some warps that run on the same processor of the GPU; `blockIdx.x` is its number, `blockDim.x` how many threads it has |
# | launch | the start of a kernel, with a number of blocks and of threads in each. The program that launches it does not wait for the end |
#
# ### Who does which row
#
# Rows do not depend on each other, so they are the natural portions. A row of 64 or 256
# numbers is too much for one thread and too little for a block, so each row gets a
# warp. Python decides how many blocks there are, with four warps in each, and launches:

# %%
course.show(kernels.layer_norm.launch_forward, kernels._grid_of_warps)

# %% [markdown]
# Compare it with the forward rule on arrays above: it has the same arguments, and again
# it gives a result and what backward will need. `@Override` turns it into what stands
# in for that rule on a GPU. `_launch` takes a kernel's name, the number of blocks and
# of threads in each, and the kernel's arguments; CuPy compiles the kernel the first
# time.
#
# Every thread then finds out which row is its warp's, from its own numbers. With ten
# rows:

# %%
blocks, threads = kernels._grid_of_warps(10)
for block in range(blocks):
    # blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP
    rows = [block * (threads // 32) + thread // 32 for thread in range(0, threads, 32)]
    taken = [row for row in rows if row < 10]
    print(f"block {block}: its warps take the rows", *taken)
    for row in rows[len(taken) :]:
        print(f"  there is no row {row}, so this warp leaves")

# %% [markdown]
# ### Who does which column, and how 32 threads take a sum
#
# Within a warp a thread has a number, its *lane*, from 0 to 31. Lane $k$ takes the
# columns $k$, $k + 32$, $k + 64$ and so on. Then, whenever the warp reads, its 32
# threads read 32 numbers that lie side by side, and a GPU's memory delivers these
# together.
#
# A mean needs the sum over all columns, and each lane has only the sum over its own.
# The lanes find the whole sum in five exchanges. In the first, each adds what the lane
# 16 away holds; then what the lane 8 away holds; then 4, 2 and 1. Lane $k$'s partner is
# `k ^ step`, the number $k$ with one binary digit turned over: 5 is 00101, and with a
# step of 16 its partner is 10101, which is 21, and the other way round. After the first
# exchange two lanes hold the same sum, after the second four, and after the fifth all
# 32 hold the sum of all.

# %% tags=["hide-input"] alt="Left, a row of 80 columns in three sweeps of 32 lanes, the last sweep half empty. Right, the butterfly: 32 lanes exchange with partners 16, 8, 4, 2 and 1 away, and the lines that lead to lane 5 in the end come from all lanes"
# Draws which lane sums what, and how the sums get to all lanes
figure, (sweeps, wings) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(1, 1.1))
columns = np.arange(96).reshape(3, 32).T
lanes = np.where(columns < 80, columns % 32, np.nan)
sweeps.imshow(lanes, aspect="auto", cmap="viridis", alpha=0.5)
shown = (0, 5, 10, 15, 21, 26, 31)
for lane, sweep in itertools.product(shown, range(3)):
    column = columns[lane, sweep]
    text = f"{column}" if column < 80 else "none"
    sweeps.text(sweep, lane, text, ha="center", va="center", fontsize=9)
sweeps.set(title="columns of a row of 80", xlabel="sweep", ylabel="lane")
sweeps.set(xticks=range(3), yticks=shown, ylim=(32.5, -1.5))

# The lanes whose numbers have reached lane 5, from the last exchange to the first
heard = {5}
for level, step in reversed([*enumerate((16, 8, 4, 2, 1))]):
    for lane in range(32):
        for source in (lane, lane ^ step):
            look = {"color": "0.85", "lw": 0.6, "zorder": 2}
            if lane in heard:
                look = {"color": "C1", "lw": 1.2, "zorder": 3}
            wings.plot([level, level + 1], [source, lane], **look)
    heard |= {lane ^ step for lane in heard}
wings.plot(5, 5, "o", color="C1")
wings.set_xticks(range(6), ("own\nsums", "16", "8", "4", "2", "1"))
wings.set(xlabel="after the exchange with the lane so far away")
wings.set(title="what lane 5 holds in the end comes from all")
wings.set(yticks=shown, ylim=(31.7, -0.7))
wings.spines[["left", "bottom"]].set_visible(False)
plt.show()

# %% [markdown]
# In CUDA a *shuffle* gives a thread what another thread of its warp holds.
# `__shfl_xor_sync` is the shuffle with partners (its first argument says that all 32
# take part). `__device__` marks a function that is called on the GPU and runs there:


# %%
def cuda(file, name):
    """The function `name` as it stands in a file of tinyrmc/kernels/."""
    text = (kernels.FOLDER / file).read_text(encoding="utf-8")
    start = text.rindex("\n", 0, text.index(f" {name}(")) + 1
    lines = text[start : text.index("\n}\n", start) + 2]
    return Markdown(f"`tinyrmc/kernels/{file}`\n\n```cpp\n{lines}\n```")


cuda("warp.cu", "warp_sum")

# %% [markdown]
# **Exercise 4.** Do the same in NumPy, where the 32 lanes are an axis. Begin with a row
# of any length, and end with what each lane holds: the same sum in all of them.


# %%
def row_sum(row):
    """A row (F,) of any length -> (32,): what each of 32 threads holds in the end."""
    ...


ex.row_sum.check(row_sum)

# %% [markdown]
# ### The kernel
#
# Now you can read it. `__global__` marks a function that is launched. Its arguments are
# addresses of arrays, and numbers. `x += row * width` moves an address to the beginning
# of the row.

# %%
cuda("layer_norm.cu", "layer_norm_forward")

# %% [markdown]
# Compare it with the equation, line by line:
#
# - **Which row**, and the lane. A warp without a row leaves as a whole: if only some of
#   its threads left, the others would wait for them in the next shuffle.
# - **First sweep:** each thread adds up its columns, `warp_sum` makes the sum of all,
#   and `m` is $\mathrm{mean}(z)$. Every thread now holds it in a register.
# - **Second sweep:** the same for $d \circ d$, and `s` is $s$. Why not add up
#   $z \circ z$ in the first sweep and save this one? The variance is
#   $\mathrm{mean}(z \circ z) - \mathrm{mean}(z)^2$, but where the mean is large that is
#   a small difference of two large numbers. The cell below shows what float32 leaves of
#   it.
# - **Third sweep:** $y = d\,s \circ \gamma + \beta$. The warp reads the row three
#   times, but it should come from the memory only once: it is small enough that the
#   second and the third sweep find it in the cache.
# - **What backward needs:** one thread writes mean and scale, two numbers for each row.
#   The rule on arrays keeps $n$, which is as large as $x$. The kernel computes $n$
#   again instead of writing and reading it. We expect this to be cheaper; nobody has
#   measured it yet.

# %%
z = (1000 + rng.standard_normal(64)).astype(np.float32)
d = z - z.mean()
print(f"variance in float64: {z.astype(float).var():.4f}")
shorter = np.mean(z * z) - z.mean() ** 2
print(f"in float32, as the kernel does it: {np.mean(d * d):.4f}", end="")
print(f"; with one sweep less: {shorter:.4f}")

# %% [markdown]
# Here is all of it in NumPy, with the 32 threads as an axis and the solution of
# exercise 4 for the sums, row by row as the warps have them:


# %%
def layer_norm_by_warps(x, residual, gain, offset, epsilon=1e-5):
    y = np.full_like(x, np.nan)
    blocks, threads = kernels._grid_of_warps(len(x))
    for block, warp in itertools.product(range(blocks), range(threads // 32)):
        row = block * (threads // 32) + warp
        if row >= len(x):
            continue  # a whole warp leaves
        z = x[row] + residual[row]  # (F,)
        lane = np.arange(len(z)) % 32  # which lane has this column
        m = ex.row_sum(z) / len(z)  # (32,): every thread holds the mean
        s = 1 / np.sqrt(ex.row_sum((z - m[lane]) ** 2) / len(z) + epsilon)  # (32,)
        y[row] = (z - m[lane]) * s[lane] * gain + offset
    return y


some = rng.normal(size=(2, 10, 80))
scales = rng.normal(size=(2, 80))
packaged = fused.layer_norm(some[0], *scales, some[1]).data
np.allclose(layer_norm_by_warps(*some, *scales), packaged, rtol=1e-12)

# %% [markdown]
# Backward is the second half of the file `tinyrmc/kernels/layer_norm.cu`: the formula
# of exercise 2, with two calls of `warp_sum`. The gradients of gain and offset are sums
# over all rows, so over all blocks. If all threads added to one place, they would add
# in the order in which they arrive, and `(a + b) + c` has shown you what that does to
# the bits. So each block writes a sum of its own, and a second kernel adds up the
# blocks in order.
#
# This notebook does not run the kernel. The tests do, in a way: g++ compiles the same
# text together with `tests/cuda_shim.h`, which says in C++ what `threadIdx`,
# `__shfl_xor_sync` and the other words mean. The tests hold the results against the
# rules on arrays in float64. That cannot show how fast the kernel is, or what goes
# wrong only when threads truly run at once. For that there is `benchmarks/gpu.py`,
# which first compares and then measures, on a machine with a GPU. Nobody has run it
# yet.
#
# ## What falls short
#
# The benchmark's file also compares a whole step with large matrix products. This is
# the part that a step uses of what the processor can do in them:

# %%
for row in benchmark["rows"]:
    print(f"{row['size']:34}: {row['sgemm_fraction']:.0%}")

# %% [markdown]
# The rest goes into three things. One is the passes over arrays, which a compiled
# kernel would save and an array program cannot. Another is matrix products that are
# smaller, and so slower, than those that set the mark. The third, where arrays are
# small, is the price of the calls. (`benchmarks/README.md` has figures for one size.)
#
# ## In the package
#
# Pieces and workers are in `training/workers.py`, the operations by hand in `fused.py`,
# and the kernels in `kernels/`. `backend.py` knows which library an array belongs to.
# The last link is the choice between arrays and kernel. The engine asks a fused
# operation for it at each call:

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
# - Pieces hand on sums and counts, and one division comes at the end. Each worker has a
#   buffer of its own, and the order of additions is fixed.
# - Share the cores only once: workers on the outside, one BLAS thread inside.
# - A derivative by hand is the change of the result, sorted by the change of the
#   argument. It saves entries and memory, and you have to check it.
# - Compute what needs no memory before the loop, for all steps at once.
# - On a GPU a kernel does in one launch, and with the least traffic, what array
#   operations do in ten or twelve. What that brings remains to be measured.
#
# **Further.** The queries, keys and values of the input row need no memory either, and
# layer norm works row by row, so you could take them out of the loop too. Why might
# that not be worth it? In the picture of the cache, what changes if each operation goes
# over the array in the opposite direction to the one before? And what would a kernel
# look like that does layer norm for rows of 100,000 numbers?

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
# Answer 2: an operation then begins with what the one before has just left in the
# cache, so each of them but the first finds a cache full of blocks. For an array much
# larger than the cache that is little. For pieces a little too large it is much: the
# cliff becomes a slope.


def loads_to_and_fro(blocks, room, passes, piece):
    cache, loaded = OrderedDict(), 0
    for start in range(0, blocks, piece):
        there = range(start, min(start + piece, blocks))
        for number in range(passes):
            for block in there if number % 2 == 0 else reversed(there):
                loaded += block not in cache
                cache[block] = True
                cache.move_to_end(block)
                if len(cache) > room:
                    cache.popitem(last=False)
    return loaded


for piece in (32, 40, 64, 256):
    always, to_and_fro = (
        each(256, room=32, passes=6, piece=piece) / 256
        for each in (loads, loads_to_and_fro)
    )
    print(f"{piece:3} blocks a piece: {always:.2f} loads, {to_and_fro:.2f} to and fro")

# %% tags=["hide-cell"]
# Answer 3: a warp for each row would give each thread 3,125 columns, and with few rows
# most of the GPU would have nothing to do. So give a row to a whole block, or to many:
# each finds the mean and the sum of squares of its piece, and a second step puts the
# pieces together, with the distance between their means. No sum of squares of the raw
# numbers is needed.
row = 1e3 + rng.normal(size=100_000)
pieces = np.array_split(row, 98)
n = np.array([len(piece) for piece in pieces])
means = np.array([piece.mean() for piece in pieces])
squares = np.array([((piece - piece.mean()) ** 2).sum() for piece in pieces])
mean = (n * means).sum() / n.sum()
variance = (squares + n * (means - mean) ** 2).sum() / n.sum()
print(np.isclose(mean, row.mean(), rtol=1e-14), np.isclose(variance, row.var()))
