# %% [markdown]
# # 15. Going fast
#
# **Equations 1 and 4, section 3.** Forty minutes. You need the tape (chapter 2), attention (chapter 4), layer norm (chapter 6) and the
# gates (chapter 7).
#
# The paper's equations say what is to be computed, not in which order, in which portions, or by how many. This chapter is about that
# freedom. The numbers that come out stay the same, up to rounding; what changes is how long one waits for them.
#
# What is to be had shows in the project's own benchmark: one training step, forward, backward and Adam, of the same network from the same
# weights, on four cores of one machine. The figures are those of the file `benchmarks/results/cpu.json`, which says how they were taken.

# %%
import itertools
import json
import math
import operator
import time
from collections import Counter, OrderedDict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from IPython.display import Markdown
from threadpoolctl import threadpool_limits

from tinyrmc import RelationalMemory, Tape, Tensor, backend, course, equations, fused, gradcheck, kernels, nn, optim, parallel
from tinyrmc import primitives as p
from tinyrmc.exercises import speed as ex
from tinyrmc.training import PIECE, Trainer

course.setup()
threadpool_limits(limits=1, user_api="blas")  # matrix products on one thread; why, is said below
rng = np.random.default_rng(15)
benchmark = json.loads((course.assets().parents[1] / "benchmarks" / "results" / "cpu.json").read_text())

# %% alt="Bars of the time of a training step at three sizes: tinyrmc's is about half to three fifths as long as the shortest of the others, which are PyTorch, torch.compile, JAX, and at one size MyGrad and HIPS autograd"
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4))
for panel, row in zip(panels, benchmark["rows"], strict=True):
    times = {"tinyrmc": row["ours_seconds"], **row["peers"]}
    bars = panel.barh([*times], [1e3 * t for t in times.values()], color=["C0"] + ["0.7"] * len(row["peers"]))
    panel.bar_label(bars, [f"{1e3 * t:,.{0 if t > 0.1 else 1}f}" for t in times.values()], padding=3)
    panel.set(title=row["size"].replace(", batch", ",\nbatch"), xlabel="ms for a step", xlim=(0, 1.35e3 * max(times.values())))
    panel.invert_yaxis()
plt.show()

# %% [markdown]
# (That machine was a virtual one, whose host gave it now more and now less speed: the bars' lengths are not good to two digits.)
#
# Three things help, and they are the first three parts of this chapter: batches go through the network in pieces, shared among workers;
# the operations that a step spends its time in have derivatives worked out by hand; and what needs no memory is taken out of the loop over
# time. The fourth part takes one operation from its equation to a GPU.
#
# Some cells below measure. What they print holds for your machine at this moment and is not kept in this notebook, so they stand empty
# until you run them. They all use this clock:


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
# A processor computes faster than its memory can deliver. What it has used last is therefore kept in a *cache*, small and quick, and
# whatever does not find room there drives out what was not used for longest. Now let a chain of operations, such as norm, ReLU and gate, go
# over a large array, one after the other. Each operation ends at the far end of the array, and the next begins at the near end, which has
# long been driven out. An array that is a little larger than the cache is
# enough for nothing to be found there.
#
# Here is such a cache in ten lines, with room for 32 blocks, and a chain of six operations over an array of 256 blocks. The array is cut
# into pieces, and each piece goes through all six before the next one begins. How often must a block be loaded from memory?


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
left.semilogx(pieces, [loads(256, room=32, passes=6, piece=k) / 256 for k in pieces], "o-", base=2)
left.axvline(32, color="0.5", ls=":")
left.text(30, 4, "room in\nthe cache", ha="right", color="0.3")
left.set(xlabel="blocks in a piece", title="loads from memory, for each block", ylim=(0, 6.5))
right.loglog(pieces, 6 * 256 / pieces, "o-", color="C1", base=2)
right.set(xlabel="blocks in a piece", title="calls of an operation")
plt.show()

# %% [markdown]
# On the left is a cliff: a piece that finds room is loaded once, one that is a little too large six times. On the right stands what small
# pieces cost: every call of an operation has a price of its own, in Python and in NumPy, however little there is to do. So a piece should
# be as large as will still fit. Where that is on your machine, a chain of six operations over 64 MiB of float32 shows (the caches' sizes
# are told by Linux only):

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


for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
    print(f"cache of level {(cache / 'level').read_text().strip()}: {(cache / 'size').read_text().strip()}")
sizes = [2**k for k in range(10, 25, 2) if 2**k <= len(numbers)]
for size, seconds in least(3, **{str(k): lambda k=k: chain(k) for k in sizes}).items():
    print(f"pieces of {int(size) / 256:7,.0f} KiB: {1e9 * seconds / len(numbers):6.2f} ns for each number")

# %% [markdown]
# Expect a valley: dear on the left, where calls are many, and on the right, where no cache has room; how deep it is depends on the caches.
#
# A batch is cut in the same way: each piece of examples goes through the whole network, forward and backward, before the next one. The
# largest arrays of a step are the queries, keys and values of all slots and the input. How large are they for the whole batch of the three
# sizes above, and for a piece? And how much does the tape hold for backward?


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


core, readout = RelationalMemory(input_size=40, mem_slots=8, head_size=8, num_heads=8), nn.Linear(512, 8)
adam = optim.Adam(core.parameters() + readout.parameters())
inputs, targets = rng.standard_normal((128, 8, 40), dtype=np.float32), rng.integers(8, size=128)


def loss_of(start, stop):
    """The sum of the losses of these examples: the last output after eight steps is to name one of eight classes."""
    outputs, _ = core.unroll(inputs[start:stop], core.initial_state(stop - start))
    return p.sum(fused.softmax_cross_entropy(readout(outputs[-1]), targets[start:stop]))


for row in benchmark["rows"]:
    whole, piece = (4 * n * (row["slots"] + 1) * 3 * row["width"] / 2**20 for n in (row["batch"], PIECE))
    print(f"{row['size']:34}: queries, keys and values {whole:5.2f} MiB, of a piece of {PIECE} {piece:5.2f} MiB")
for count in (8, 32, 128):
    with Tape() as tape:
        loss_of(0, count)
    print(f"8 slots x 64, T = 8, {count:3} examples: the tape holds {held(tape) / 2**20:6.2f} MiB")

# %% [markdown]
# 128 is what the package takes. What one operation hands to the next is then a few MiB at most, for which a server's last cache has room;
# the whole batch of the first line finds room in few. Smaller pieces, for the cache before the last, were tried and were not faster
# (`benchmarks/README.md`). And the memory that the tape needs grows with the piece, not with the batch.
#
# ### Sums and counts
#
# What may go wrong with pieces is the mean. A loss is a mean over examples, or over the letters of all answers, and the pieces are not all
# as large: the last one is shorter, and answers differ in length. The mean of the pieces' means is then not the mean. So a piece gives a
# *sum* and a *count*, these are added up, and one division at the end makes the mean; the gradient of the mean is the sum of the pieces'
# gradients divided by the same count.
#
# **Exercise 1.** Do that. `differentiate` takes at most four examples at a time and gives the sum of their losses, their count, and the
# gradient of the sum. Some examples have no target and do not count.


# %%
def in_pieces(differentiate, examples, size):
    """The mean loss and its gradient (2,), from pieces of at most `size` of the examples (B, 3)."""
    ...


ex.in_pieces.check(in_pieces)

# %% [markdown]
# ## Workers
#
# Pieces know nothing of each other, so several *workers* can take them, each on a core of its own. Each adds its pieces' gradients into a
# buffer of its own. Were there one buffer for all, two workers could both read a number, both add to it, and the one that writes last would
# wipe out what the other has added. At the end the buffers are added up, always in the same order. The order matters, because every sum is
# rounded; here is an extreme case:

# %%
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1)
(a + b) + c, a + (b + c)

# %% [markdown]
# Here workers share a batch of 128. `pieces_of` cuts it, and `Workers` asks all of them at once; `into` says where backward is to add:

# %%
course.show(parallel.pieces_of)


# %%
def gradient_by(count):
    """The gradient of the mean loss, computed by `count` workers."""
    buffers = np.zeros((count, adam.gradient.size), np.float32)
    pieces = parallel.pieces_of(len(inputs), 16, count)

    def share(worker, request):
        for start, stop in pieces[worker::count]:  # piece i belongs to worker i mod count
            with Tape() as tape:
                loss = loss_of(start, stop)
            tape.backward(loss, into=buffers[worker])

    team = parallel.Workers(count, share)
    team.run("differentiate")
    team.close()
    for other in buffers[1:]:
        buffers[0] += other
    return buffers[0] / len(inputs)


alone, both, again = gradient_by(1), gradient_by(2), gradient_by(2)
print("two workers twice, the same bits:", np.array_equal(both, again))
print("one worker and two, the same bits:", np.array_equal(alone, both))
print("one worker and two, equal to a millionth of the largest entry:", abs(alone - both).max() < 1e-6 * abs(alone).max())

# %% [markdown]
# These workers are threads, which is enough to show that nothing goes wrong. To be fast, the package takes processes, because Python has a
# lock: of all threads of a process only one at a time may run Python. NumPy lets go of the lock inside a long operation, but a training
# step of this size is very many short ones. The benchmark's file has the same step, 8 slots of 64 units with a batch of 128, by workers of
# either kind, and by threads in a Python built without the lock:

# %% alt="Time of a step against the number of workers: with processes and with threads without the lock it falls to about half or less with four, with ordinary threads it falls a little with two and rises to almost three times with four"
figure, panel = plt.subplots(figsize=(6.5, 3.6))
kinds = dict.fromkeys(row["kind"] for row in benchmark["sharing"])
for kind, colour, place in zip(kinds, ("C0", "C1", "C2"), ((6, -14), (-8, -16), (6, 6)), strict=True):
    workers, seconds = zip(*[(row["workers"], row["seconds"]) for row in benchmark["sharing"] if row["kind"] == kind], strict=True)
    panel.plot(workers, [1e3 * s for s in seconds], "o-", color=colour, label=kind)
    panel.annotate(f"{1e3 * seconds[-1]:.1f}", (workers[-1], 1e3 * seconds[-1]), xytext=place, textcoords="offset points", color=colour)
panel.set(xlabel="workers", ylabel="ms for a step", xticks=(1, 2, 4), xlim=(0.8, 4.5), ylim=(0, None))
panel.legend()
plt.show()

# %% [markdown]
# Four processes are not four times as fast as one. Adding up gradients and updating parameters are not shared, four pieces are smaller than
# one and so further up the slope on the left, and the cores share a memory; how much each of the three costs has not been measured.
#
# ### One thread for BLAS
#
# A matrix product is done by a library, BLAS, which can use all cores by itself. For large products this is right. Those of this network
# are small. How long does one take? A product of an $m \times k$ with a $k \times n$ matrix is $mkn$ multiplications and as many additions;
# one core of the benchmark's machine does a quarter of what four did in large products:

# %%
per_core = benchmark["rows"][0]["sgemm"] / benchmark["cores"]  # floating-point operations a second
for rows, inner, columns in ((9, 64, 192), (32 * 9, 64, 192), (128 * 9, 64, 192), (1600 * 9, 256, 768)):
    print(f"({rows} x {inner}) times ({inner} x {columns}): {1e6 * 2 * rows * inner * columns / per_core:9,.1f} µs at full speed")

# %% [markdown]
# Waking other threads, handing out the work and waiting for the last of them takes some microseconds itself; and much longer where a core
# is busy with something else, for all wait for the one that has not got its turn. With a worker on each core, every core *is* busy. So in
# training, BLAS has one thread, and the cores are shared out where there is more to share: whole pieces. How does a single product fare on
# your machine? Do not be surprised by a ratio far above 1.

# %% tags=["varies"]
square = rng.standard_normal((128, 128), dtype=np.float32)
cores, times = parallel.available_cores(), {}
for threads in (1, cores):
    with backend.blas_threads(threads):
        times[threads] = least(5, product=lambda: square @ square)["product"]
    print(f"(128 x 128) times (128 x 128), {threads} BLAS thread{'s' * (threads > 1)}: {1e6 * times[threads]:.1f} µs")
print(f"ratio {times[cores] / times[1]:.2f}")

# %% [markdown]
# ## Fused operations: one derivative by hand
#
# The tape can differentiate any composition of basic operations. It need not: who knows the derivative of the whole can write it down as
# one operation, *fused*. Take layer norm, of which the paper says only that it is there ("we found a row/memory-wise MLP with layer
# normalisation to work best", section 3.3). For each row $z$, of $F$ numbers,
#
# $$d = z - \mathrm{mean}(z), \qquad s = \frac{1}{\sqrt{\mathrm{mean}(d \circ d) + \epsilon}}, \qquad n = s \, d, \qquad y = n \circ \gamma + \beta$$
#
# with a gain $\gamma$ and an offset $\beta$, both $F$ wide, and a small $\epsilon$; $\circ$ multiplies entry by entry. Composed of basic
# operations this is the definition in `fused.py`. The tape records each of its steps, and keeps the arrays that each step's derivative will
# want:

# %%
x, residual, g = (rng.standard_normal((128 * 9, 64), dtype=np.float32) for _ in range(3))  # rows of 128 examples: 8 slots and an input
gain, offset = np.ones(64, np.float32), np.zeros(64, np.float32)
VERSIONS = {"composed": fused.layer_norm.reference, "by hand": fused.layer_norm}

for name, operation in VERSIONS.items():
    with Tape() as tape:
        operation(*[tape.watch(array) for array in (x, gain, offset, residual)])
    names = ", ".join(rules.name for rules, *_ in tape.entries)
    print(f"{name}: entries {len(tape.entries)} ({names}); the tape holds {held(tape) / x.nbytes:.1f} times the bytes of x")

# %% [markdown]
# Now the derivative. Let the loss be $L$ and $g$ its derivative by $y$, given. We go back the way the row came, and at each station ask
# what a small change $\delta$ does.
#
# From $y$ to $n$: $\delta y = \delta n \circ \gamma$, so the derivative by $n$ is $h = g \circ \gamma$. (This $h$ is not the hidden state
# of equation 8.)
#
# From $n$ to $d$: a change of $d$ moves $n = s\,d$ by itself, and through $s$. Since $s = (\mathrm{mean}(d \circ d) + \epsilon)^{-1/2}$,
#
# $$\delta s = -\tfrac12 \left(\mathrm{mean}(d \circ d) + \epsilon\right)^{-3/2} \cdot 2\, \mathrm{mean}(d \circ \delta d) = -s^3\, \mathrm{mean}(d \circ \delta d)$$
#
# $$\delta n = s\, \delta d + d\, \delta s = s \left(\delta d - n\, \mathrm{mean}(n \circ \delta d)\right)$$
#
# where $s^3 d$ was written as $s^2 n$, and $s d$ once more as $n$. The loss changes by $\sum h \circ \delta n$. Sorted by $\delta d$, that
# is $\sum s\,(h - n\, \mathrm{mean}(h \circ n)) \circ \delta d$, so
#
# $$\frac{\partial L}{\partial d} = s \left(h - n\, \mathrm{mean}(h \circ n)\right)$$
#
# From $d$ to $z$: $\delta d = \delta z - \mathrm{mean}(\delta z)$. What does taking off the mean do to a derivative on its way back? (And
# what is the mean of $n$?)
#
# **Exercise 2.** Take the last step, and write it all as code. Rows are the last axis, whatever stands before it.


# %%
def layer_norm_gradient(g, x, gain, epsilon):
    """d loss / d x of y = layer_norm(x) * gain + offset, given g = d loss / d y. g, x (..., F), gain (F,), epsilon a number -> (..., F)."""
    ...


ex.layer_norm_gradient.check(layer_norm_gradient)

# %% [markdown]
# Taking off the mean is its own transpose: what comes back has its mean taken off. And $n$ has the mean 0, so
#
# $$\frac{\partial L}{\partial z} = s \left(h - \mathrm{mean}(h) - n\, \mathrm{mean}(h \circ n)\right)$$
#
# This can be seen. Rows of three numbers whose mean is 0 lie in a plane, and those of variance 1 on a circle in it: layer norm carries
# every row there. To move a row off the plane, or straight away from the centre, changes nothing in the result. So the derivative can have
# no part in these directions: what the formula subtracts is the part of $h$ along $(1, 1, 1)$ and the part along $n$. (The picture leaves
# out the factor $s$, so that lengths can be compared.)

# %% alt="Rows in the plane of mean zero are carried straight onto a circle; the part of the incoming gradient in the plane points anywhere, what layer norm sends back is always tangent to the circle"
plane = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])  # two directions at right angles to (1, 1, 1) and to each other
angles = 2 * np.pi * np.arange(8) / 8 + 0.2
starts = rng.uniform(0.5, 2.6, (8, 1)) * np.stack([np.cos(angles), np.sin(angles)], axis=1)  # in the plane
rows, h = starts @ plane + rng.normal(size=(8, 1)), rng.normal(size=(8, 3))
s = 1 / rows.std(axis=1, keepdims=True)
ends = s * (rows - rows.mean(axis=1, keepdims=True)) @ plane.T
back = ex.layer_norm_gradient(h, rows, np.ones(3), 0.0) / s  # to compare lengths
figure, panel = plt.subplots(figsize=(6.2, 5))
panel.add_patch(plt.Circle((0, 0), math.sqrt(3), fill=False, color="0.7"))
for start, end, arrow, tangent in zip(starts, ends, h @ plane.T, back @ plane.T, strict=True):
    panel.plot(*np.stack([start, end]).T, color="0.7", lw=1, ls=":")
    panel.plot(*start, "o", color="0.6", ms=4)
    panel.plot(*end, "o", color="black", ms=5)
    for vector, colour in ((arrow, "C1"), (tangent, "C0")):
        panel.annotate("", end + 0.6 * vector, end, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.6})
legend = {
    "row, mean taken off": ("o", "0.6"),
    "normalised": ("o", "black"),
    "h, its part in the plane": ("-", "C1"),
    "what goes back": ("-", "C0"),
}
for label, (form, colour) in legend.items():
    panel.plot([], [], form, color=colour, label=label)
panel.set(aspect="equal", xlim=(-3.2, 3.2), ylim=(-3, 3))
panel.set_axis_off()
panel.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% [markdown]
# In the package stands this formula, and two sums for gain and offset. `xp` is the array library, here NumPy; `gemm` is a matrix product;
# and `needs` tells which derivatives are asked for:

# %%
course.show(fused.layer_norm.forward, fused.layer_norm.rule)

# %% [markdown]
# The forward rule does not call `mean`: a mean is written as a matrix product with a vector of $1/F$, since BLAS is faster at it. The rule
# keeps $n$ and $s$, and nothing else of the row's size.
#
# A derivative made by hand is a place for mistakes. So every fused operation carries its composed definition, and is held against it and
# against the complex step of chapter 3. Here in float64, then what it brings, measured: forward and backward, composed and by hand.

# %%
exact = [array.astype(np.float64) for array in (x[:5], 1 + 0.1 * rng.standard_normal(64), offset, residual[:5])]
for name, operation in VERSIONS.items():
    print(f"{name}: differs from the complex step by less than 1e-12:", gradcheck(operation, *exact) < 1e-12)


# %% tags=["varies"]
def forward_and_backward(operation, rows):
    with Tape() as tape:
        arguments = [tape.watch(array) for array in (x[:rows], gain, offset, residual[:rows])]
        loss = p.sum(operation(*arguments) * g[:rows])
    tape.gradient(loss, arguments)


for rows in (8, 64 * 5, 128 * 9):
    times = least(50, **{name: lambda each=each, rows=rows: forward_and_backward(each, rows) for name, each in VERSIONS.items()})
    told = ", ".join(f"{name} {1e6 * seconds:.0f} µs" for name, seconds in times.items())
    print(f"{rows:4} rows: {told}, ratio {times['composed'] / times['by hand']:.2f}")

# %% [markdown]
# The gain has two sources. NumPy makes fewer passes over the arrays; and there are fewer entries, each of which has a price beside NumPy's
# own work, in Python. The benchmark's file has that price. For a whole step of the preset `quick`, as one worker of four has it:

# %%
price, quick = benchmark["engine"]["overhead_microseconds"], benchmark["rows"][-1]
small = RelationalMemory(input_size=40, mem_slots=quick["slots"], head_size=8, num_heads=8)
count = quick["batch"] // benchmark["cores"]


def entries_of(core):
    with Tape() as tape:
        core.unroll(inputs[:count, : quick["steps"]], core.initial_state(count))
    return len(tape.entries), held(tape)


by_hand = entries_of(small)
with fused.reference():
    composed = entries_of(small)
for name, (entries, nbytes) in (("composed", composed), ("by hand", by_hand)):
    print(f"{name}: {entries} entries at {price:.1f} µs, {1e-3 * entries * price:.1f} ms; the tape holds {nbytes / 2**20:.1f} MiB")
print(f"the whole step of quick takes {1e3 * quick['ours_seconds']:.1f} ms")

# %% [markdown]
# ### Two more by hand
#
# The rule of thumb: write by hand what occurs in every step, and save as little as will do. Some derivatives need nothing but the result.
# In chapter 4 stood that of a softmax, $a = \mathrm{softmax}(x)$: the derivative of share $a_j$ by score $x_k$ is $a_j(\delta_{jk} - a_k)$,
# where $\delta_{jk}$ is 1 if $j = k$ and else 0. So
#
# $$\frac{\partial L}{\partial x_k} = \sum_j g_j \, a_j (\delta_{jk} - a_k)$$
#
# **Exercise 3.** Work out the sum, so that no matrix of all pairs $j, k$ is made.


# %%
def softmax_gradient(g, a):
    """d loss / d x of a = softmax(x) over the last axis, from a alone, given g = d loss / d a. g, a (..., n) -> (..., n)."""
    ...


ex.softmax_gradient.check(softmax_gradient)

# %% [markdown]
# In the derivative of attention it is two lines, both in place (`gw` is the gradient of the weights, and becomes that of the scores):

# %%
course.show(fused.attention.rule)

# %% [markdown]
# The other one is the loss. If the right class is $t$, the loss is minus the logarithm of its share:
#
# $$-\log \mathrm{softmax}(x)_t = \log \sum_k e^{x_k} - x_t$$
#
# The right side is the one to compute: a share can be too small for a float and become 0, whose logarithm is $-\infty$, while the
# difference is an ordinary number. The first term is called *log-sum-exp*; like the softmax it can be computed for any numbers, if the
# largest is taken off first. Its derivative by $x_k$ is $e^{x_k} / \sum_j e^{x_j}$, and you know what that is.
#
# **Exercise 4.** Loss and derivative, in one function, as the package computes them.


# %%
def cross_entropy(logits, targets):
    """-log softmax(logits)[target] of each row, and the derivative of their sum by the logits. (B, C), integers (B,) -> (B,), (B, C)."""
    ...


ex.cross_entropy.check(cross_entropy)

# %% [markdown]
# ## Out of the loop
#
# A recurrent network goes through time step by step, since each step needs the memory that the one before has left. But not all of a step
# needs it. Look at a gate, equation 4:
#
# $$f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}$$
#
# The second term has to wait for $h_{i,t-1}$. The first and the third need the inputs alone, and these are all there before the loop
# begins. So $W^f x_t$ can be computed for all $T$ steps at once: one product over $T B$ rows in place of $T$ products over $B$. The package
# does so with the projection of the inputs and their part of the gates:

# %%
course.show(RelationalMemory._prepare_all, RelationalMemory._prepare, nn.Core.unroll, docstring=False)


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
    print(f"{run.__name__}: {len(tape.entries)} entries, {count['linear']} of them linear layers")
print("the same outputs:", np.allclose(step_by_step().data, unrolled().data, atol=1e-6))

# %% [markdown]
# What it does not save is arithmetic: the multiplications are the same, in fewer and larger products. And there is less to hoist than one
# might think. Here is what the hoisted layers do of all multiplications of the linear layers, for a step of this network:

# %%
hoisted = [core.input_projection, core.gate_inputs]  # for one row each, the input's
in_loop = [(core.blocks[0]["qkv"], core.mem_slots + 1), *((layer, core.mem_slots) for layer in (*core.mlp, core.gate_memory))]
out, inside = sum(layer.weight.size for layer in hoisted), sum(rows * layer.weight.size for layer, rows in in_loop)
print(f"hoisted: {out:,} multiplications an example and step; in the loop: {inside:,}; {out / (out + inside):.1%} are hoisted")

# %% [markdown]
# So it is the calls that one saves. It matters where pieces are small, and on a GPU, where each call has a price that does not shrink with
# the arrays.
#
# Backward gains the same. A weight that is used in each of $T$ steps has $T$ gradients to be added up: $T$ products and $T - 1$ additions
# of whole matrices. Hoisted, it is one product.
#
# **Exercise 5.** All steps' gradient of a weight, from the inputs and the derivatives of all steps.


# %%
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y. x (T, B, I), g (T, B, O) -> (I, O)."""
    ...


ex.weight_gradient.check(weight_gradient)

# %% tags=["varies"]
steps = [rng.standard_normal((16, width), dtype=np.float32) for width in (64, 128) for _ in range(8)]
X, G = np.stack(steps[:8]), np.stack(steps[8:])


def one_by_one():
    total = X[0].T @ G[0]
    for t in range(1, 8):
        total += X[t].T @ G[t]
    return total


times = least(50, one_by_one=one_by_one, at_once=lambda: ex.weight_gradient(X, G))
print("eight steps of 16 examples, 64 to 128 units:", ", ".join(f"{name} {1e6 * seconds:.1f} µs" for name, seconds in times.items()))

# %% [markdown]
# ## The same function on other arrays
#
# A GPU has a memory of its own. CuPy is a library whose arrays lie there, and whose functions have NumPy's names and arguments. Code that
# says `np.exp(x)` cannot run on both. Code that first asks the array which library it belongs to can:

# %%
course.show(backend.namespace, backend.register)

# %%
print(backend.namespace(np.ones(3)).__name__)

# %% [markdown]
# That is all there is to it: each rule of the engine is given `xp`, the namespace of its arguments, as you have seen in the rules above,
# and `equations.py` takes it as its first argument. So any array type that is registered with a namespace will do. To see it without a GPU,
# here is one of our own: arrays that lie "far away", which NumPy's functions refuse as they refuse CuPy's. Their library passes on every
# call to NumPy, and counts. On a GPU each of these calls would be at least one *launch*, that is, the start of a program there, and would
# move its arrays between the GPU's memory and its processors; what only looks at an array in another way, like `reshape`, is free.


# %%
launches, moved = Counter(), Counter()  # by the name of the function
FREE = {"reshape", "swapaxes", "moveaxis", "expand_dims", "transpose", "getitem", "empty", "empty_like"}


class Far:
    """An array that lies elsewhere."""

    __array_ufunc__ = None  # NumPy's functions are to refuse it

    def __init__(self, inside):
        self.inside = np.asarray(inside)

    def __len__(self):
        return len(self.inside)

    def __getattr__(self, name):  # shape, dtype, T, sum(), ...
        return passed_on(name, getattr(self.inside, name))


class FarLibrary:
    """The namespace of far arrays: NumPy's names."""

    def __getattr__(self, name):
        return passed_on(name, getattr(np, name))


def passed_on(name, value):
    """A function that takes and gives far arrays; an array as a far one; and anything else as it is."""
    if isinstance(value, type) or not callable(value):
        return Far(value) if isinstance(value, np.ndarray) else value

    def function(*arguments, **named):
        result = value(*near(arguments), **{key: near(each) for key, each in named.items()})
        if name not in FREE:
            launches[name] += 1
            moved[name] += np.asarray(result).nbytes + sum(each.inside.nbytes for each in arguments if isinstance(each, Far))
        return Far(result) if isinstance(result, (np.ndarray, np.generic)) else result

    return function


def near(value):
    if isinstance(value, (list, tuple)):
        return type(value)(map(near, value))
    return value.inside if isinstance(value, Far) else value


def method(name, swapped=False):
    function = passed_on(name, getattr(operator, name))
    return (lambda self, other: function(other, self)) if swapped else (lambda self, *others: function(self, *others))


for name in "add sub mul truediv matmul neg pow gt eq getitem setitem iadd isub imul itruediv".split():
    setattr(Far, f"__{name}__", method(name))
for name in "add sub mul truediv matmul".split():
    setattr(Far, f"__r{name}__", method(name, swapped=True))

far = FarLibrary()
backend.register(Far, far)
print(backend.namespace(far.ones(3)) is far)

# %% [markdown]
# Now the paper's own equation 1, and a whole training step of the Relational Memory Core, on far arrays. Not a line of either knows of
# them.

# %%
Q, K, V = rng.normal(size=(3, 2, 4, 8))
result = equations.attention(far, far.asarray(Q), far.asarray(K), far.asarray(V))
print(type(result).__name__, np.allclose(result.inside, equations.attention(np, Q, K, V)))


def training_step(xp):
    """One step of a fresh network on arrays of the library xp; returns its loss and its parameters afterwards, far or near."""
    core, readout = RelationalMemory(40, mem_slots=8, head_size=8, num_heads=8).to(xp), nn.Linear(512, 8).to(xp)
    adam = optim.Adam(core.parameters() + readout.parameters())
    with Tape() as tape:
        outputs, _ = core.unroll(xp.asarray(inputs), core.initial_state(len(inputs)))
        loss = p.mean(fused.softmax_cross_entropy(readout(outputs[-1]), xp.asarray(targets)))
    adam.zero_grad()
    launches.clear()
    tape.backward(loss)
    adam.step()
    return near(loss.data), near(adam.data)


for one, other in zip(training_step(np), training_step(far), strict=True):
    print("the same numbers:", np.array_equal(one, other))
print(f"backward and update: {sum(launches.values())} launches, the most frequent:", *launches.most_common(3))

# %% [markdown]
# The tests do the same with a stand-in for CuPy that is far stricter (`tests/fakecupy.py`): it refuses whatever CuPy refuses, and whatever
# would make the processor wait for the GPU. With CuPy and a GPU, `xp` comes from this function, and what is needed to train there is
# `--device cuda`. Without, it says what is missing:

# %% tags=["varies"]
try:
    print(backend.device_namespace("cuda"))
except backend.DeviceError as problem:
    print(problem)

# %% [markdown]
# To be plain: **nothing in this project has been measured on a GPU yet.** The kernels of which the next part shows one have been compiled
# and run by the tests on an ordinary processor, which tells whether they compute the right numbers, and nothing about speed.
#
# ## One operation, from its equation to a CUDA kernel
#
# How many launches is a layer norm, and how much does it move? Composed of basic operations, and by hand in array operations:

# %%
far_arguments = [Tensor(far.asarray(array)) for array in (x, gain, offset, residual)]
counted = {}
for name, operation in VERSIONS.items():
    launches.clear()
    moved.clear()
    operation(*far_arguments)
    counted[name + ",\narrays"] = sum(launches.values()), sum(moved.values()) / x.nbytes
once = 3 * x.nbytes + 4 * (2 * x.shape[1] + 2 * x.shape[0])  # x, residual, y; gain, offset; mean and scale of each row
counted["by hand,\nkernel"] = 1, once / x.nbytes

# %% alt="Two panels of bars for a layer norm forward: as a composition or as array operations ten launches or more and fourteen to sixteen times the bytes of x, as a kernel one launch and three times the bytes"
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2))
for panel, values, title in zip(panels, zip(*counted.values(), strict=True), ("launches", "bytes moved / bytes of x"), strict=True):
    panel.bar_label(panel.bar([*counted], values, color=("0.7", "C0", "C2"), width=0.6), fmt="%.3g", padding=2)
    panel.set(title=f"layer norm forward: {title}", ylim=(0, 1.15 * max(values)))
plt.show()

# %% [markdown]
# Derivatives by hand save entries on the tape and memory; they do not save launches, for they are still array operations, of which each
# reads its arrays and writes a result. The third pair of bars is what can be had, counted by hand: read $x$ and the residual once, write
# $y$, and do everything else on the way. An array library cannot do that; a program for the GPU can. It is called a *kernel*, and is
# written in CUDA, which is C++ with a few words more:
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
# Rows do not depend on each other, so they are the natural portions. A row of 64 or 256 numbers is too much for one thread and too little
# for a block, so each gets a warp. Python decides how many blocks there are, four warps in each, and launches:

# %%
course.show(kernels.layer_norm.launch_forward, kernels._grid_of_warps)

# %% [markdown]
# And every thread finds out which row is its warp's, from its own numbers. With ten rows, by the line of the kernel that you will see
# below:

# %%
blocks, threads = kernels._grid_of_warps(10)
for block in range(blocks):
    # blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP
    rows = [block * (threads // 32) + thread // 32 for thread in range(0, threads, 32)]
    print(f"block {block}: its warps take the rows", *[row if row < 10 else f"({row}: there is none, so this warp leaves)" for row in rows])

# %% [markdown]
# ### Who does which column, and how 32 threads take a sum
#
# Within a warp a thread is known by its *lane*, 0 to 31. Lane $k$ takes the columns $k$, $k + 32$, $k + 64$ and so on. Then, whenever the
# warp reads, its 32 threads read 32 numbers that lie side by side, which a GPU's memory delivers together.
#
# A mean needs the sum over all columns, and each lane has only that of its own. They find the whole sum in five exchanges. In the first,
# each adds what the lane 16 away holds; then the one 8 away; then 4, 2 and 1. "Away" means: lane $k$'s partner is `k ^ step`, the number
# $k$ with one binary digit turned over, so partners are each other's partners. After the first exchange a sum is held by two lanes, after
# the second by four, and after the fifth all 32 hold the sum of all.

# %% alt="Left, a row of 80 columns in three sweeps of 32 lanes, the last sweep half empty. Right, the butterfly: 32 lanes exchange with partners 16, 8, 4, 2 and 1 away, and the lines that lead to lane 5 in the end come from all lanes"
figure, (sweeps, wings) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(1, 1.1))
columns = np.arange(96).reshape(3, 32).T
sweeps.imshow(np.where(columns < 80, columns % 32, np.nan), aspect="auto", cmap="viridis", alpha=0.5)
shown = (0, 5, 10, 15, 21, 26, 31)
for lane, sweep in itertools.product(shown, range(3)):
    sweeps.text(sweep, lane, str(columns[lane, sweep]) if columns[lane, sweep] < 80 else "none", ha="center", va="center", fontsize=9)
sweeps.set(xlabel="sweep", ylabel="lane", xticks=range(3), yticks=shown, title="columns of a row of 80")
heard = {5}  # the lanes whose numbers have reached lane 5, from the last exchange to the first
for level, step in reversed([*enumerate((16, 8, 4, 2, 1))]):
    for lane in range(32):
        for source in (lane, lane ^ step):
            colour, width, order = ("C1", 1.2, 3) if lane in heard else ("0.85", 0.6, 2)
            wings.plot([level, level + 1], [source, lane], color=colour, lw=width, zorder=order)
    heard |= {lane ^ step for lane in heard}
wings.plot(5, 5, "o", color="C1")
wings.set(xticks=range(6), xticklabels=("own\nsums", "16", "8", "4", "2", "1"), xlabel="after the exchange with the lane so far away")
wings.set(yticks=shown, ylim=(31.7, -0.7), title="what lane 5 holds in the end comes from all")
wings.spines[["left", "bottom"]].set_visible(False)
plt.show()

# %% [markdown]
# In CUDA a *shuffle* gives a thread what another thread of its warp holds; `__shfl_xor_sync` is the one with partners:


# %%
def cuda(file, name):
    """The function `name` as it stands in a file of tinyrmc/kernels/."""
    text = (kernels.FOLDER / file).read_text(encoding="utf-8")
    start = text.rindex("\n", 0, text.index(f" {name}(")) + 1
    lines = text[start : text.index("\n}\n", start) + 2]
    return Markdown(f"`tinyrmc/kernels/{file}`\n\n```cpp\n{lines}\n```")


cuda("warp.cu", "warp_sum")

# %% [markdown]
# **Exercise 6.** The same in NumPy, where the 32 lanes are an axis: from a row of any length to what each lane holds in the end.


# %%
def row_sum(row):
    """A row (F,), of any length, summed up by 32 threads -> (32,): what each of them holds in the end, which is the same."""
    ...


ex.row_sum.check(row_sum)

# %% [markdown]
# ### The kernel
#
# Now it can be read. `__global__` marks a function that is launched. Its arguments are addresses of arrays, and numbers. The words `x +=
# row * width` move the address to the beginning of the row.

# %%
cuda("layer_norm.cu", "layer_norm_forward")

# %% [markdown]
# Line by line against the equation:
#
# - **Which row**, and the lane. A warp without a row leaves as a whole: if only some of its threads left, the others would wait for them in
#   the next shuffle.
# - **First sweep:** each thread adds up its columns, `warp_sum` makes the sum of all, and `m` is $\mathrm{mean}(z)$, which now every thread
#   holds in a register.
# - **Second sweep:** the same for $d \circ d$, and `s` is $s$. Adding up $z \circ z$ in the first sweep would save this one: the variance
#   is $\mathrm{mean}(z \circ z) - \mathrm{mean}(z)^2$. But where the mean is large that is a small difference of two large numbers; the
#   cell below shows what float32 leaves of it.
# - **Third sweep:** $y = d\,s \circ \gamma + \beta$. The row is read three times, but is to come from the memory once: it is small enough
#   for the second and the third sweep to find it in the cache.
# - **What backward needs:** one thread writes mean and scale, two numbers a row. The array rule above keeps $n$, as large as $x$; the kernel
#   computes $n$ again instead of writing and reading it. That this is cheaper is an expectation, as long as nobody has measured it.

# %%
z = (1000 + rng.standard_normal(64)).astype(np.float32)
d = z - z.mean()
print(f"variance in float64: {z.astype(float).var():.4f}")
print(f"in float32, as the kernel does it: {np.mean(d * d):.4f}; with one sweep less: {np.mean(z * z) - z.mean() ** 2:.4f}")

# %% [markdown]
# All of it in NumPy, with the 32 threads as an axis and the solution of exercise 6 for the sums, row by row as the warps have them:


# %%
def layer_norm_by_warps(x, residual, gain, offset, epsilon=1e-5):
    y = np.full_like(x, np.nan)
    blocks, threads = kernels._grid_of_warps(len(x))
    for block, warp in itertools.product(range(blocks), range(threads // 32)):
        row = block * (threads // 32) + warp
        if row >= len(x):
            continue  # a whole warp leaves
        z, lane = x[row] + residual[row], np.arange(x.shape[1]) % 32  # which lane has this column
        m = ex.row_sum(z) / len(z)  # (32,): every thread holds the mean
        s = 1 / np.sqrt(ex.row_sum((z - m[lane]) ** 2) / len(z) + epsilon)  # (32,)
        y[row] = (z - m[lane]) * s[lane] * gain + offset
    return y


some = rng.normal(size=(2, 10, 80))
scales = rng.normal(size=(2, 80))
np.allclose(layer_norm_by_warps(*some, *scales), fused.layer_norm(some[0], *scales, some[1]).data, rtol=1e-12)

# %% [markdown]
# Backward is the second half of the file `tinyrmc/kernels/layer_norm.cu`: the formula of exercise 2, with two calls of `warp_sum`. The
# gradients of gain and offset are sums over rows, across warps and blocks. The easy way is that all threads add to the same place, by
# additions that nothing can interrupt, called atomic. They add in whatever order the threads arrive, and with `(a + b) + c` you saw what
# another order does to the bits. So each block writes a sum of its own, and a second kernel adds up the blocks in order.
#
# ### Run without a GPU
#
# This notebook does not run the kernel. The tests do, in a way: g++ compiles the same text together with `tests/cuda_shim.h`, which says in
# C++ what `threadIdx`, `__shfl_xor_sync` and the other words mean. The threads of a block take turns on one processor, once upwards and
# once downwards, so that a missing wait shows; every array has guards on both sides, so that a write beyond it shows; and the results are
# held against the array rules in float64. What that cannot show is how fast it is, and what goes wrong only when threads truly run at once.
# For that there is `benchmarks/gpu.py`, which first compares and then measures, on a machine with a GPU. It has not been run yet.
#
# ## What falls short
#
# The benchmark's file also says which part of what the processor can do in large matrix products a whole step makes use of:

# %%
for row in benchmark["rows"]:
    print(f"{row['size']:34}: {row['sgemm_fraction']:.0%}")

# %% [markdown]
# Where does the rest go? The network's products are smaller than those that set the mark, and run slower (`benchmarks/README.md` has the
# figures for one size). Besides them there are passes over arrays, which a compiled kernel would save and an array program cannot; and where
# arrays are small, the price of the calls.
#
# ## In the package
#
# Pieces and workers are in `parallel.py`, the operations by hand in `fused.py`, the kernels in `kernels/`, and which library an array belongs
# to in `backend.py`. What a worker does in a step of training brings most of this chapter together: its pieces, a tape for each, a buffer of
# its own, and sums with their counts, which the caller adds up and divides once.

# %%
course.show(Trainer._share, docstring=False)

# %% [markdown]
# ## To take along
#
# - An array program waits for memory and pays for each call. Pieces balance the two.
# - Pieces hand on sums and counts; one division comes at the end. Each worker has a buffer of its own, and the order of additions is fixed.
# - Cores are shared out once: workers on the outside, one BLAS thread inside.
# - A derivative by hand is the change of the result, sorted by the change of the argument. It saves entries and memory, and has to be
#   checked.
# - What needs no memory is computed before the loop, for all steps at once.
# - On a GPU a kernel does in one launch, and with the least traffic, what array operations do in ten or twelve. What that brings has to be measured
#   first.
#
# **Further.** The queries, keys and values of the input row need no memory either, and layer norm works row by row: they could be hoisted
# too. Why might that not be worth it? In the picture of the cache, what changes if each operation goes over the array in the other
# direction than the one before? And what would a kernel look like that does layer norm for rows of 100,000 numbers?
