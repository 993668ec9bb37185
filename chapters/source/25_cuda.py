# %% [markdown]
# # 25. CUDA: kernels of your own
#
# **Appendix A of the course.** About 245 minutes, in five sittings. You need layer norm
# (chapter 8) and what a fused operation is (chapter 23).
#
# A GPU is another machine with another memory, and it runs many thousands of threads. A
# program for it is a *kernel*: it says what one thread does. Here you write six of
# them, as in Sasha Rush's [GPU Puzzles](https://github.com/srush/GPU-Puzzles), and you
# compare the fifth with the project's own. Then a whole network moves to such a
# machine.
#
# You need no GPU. A [simulator](../tinyrmc/course/simulator.py), 300 lines of Python,
# runs the threads one after the other. It counts what they move, and it names mistakes
# with which a GPU just computes something else.

# %%
import textwrap
from collections import Counter

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
    nn,
    optim,
)
from tinyrmc import primitives as p
from tinyrmc.backend import gpu as kernels
from tinyrmc.course.exercises import cuda as ex
from tinyrmc.course.simulator import Fault, launch

course.setup()
rng = np.random.default_rng(15)

# %% [markdown]
# ## A number for each thread
#
# | word | what it is |
# |---|---|
# | kernel | a function that very many threads run, each on numbers of its own |
# | thread | one run through that function; `threadIdx.x` is its number in its block |
# | block | some threads that can work together; `blockIdx.x` is its number, `blockDim.x` the number of its threads |
# | launch | the start of a kernel, with a number of blocks and of threads in each |
# | global memory | where arrays lie; each read or write of it is slow |
#
# In our simulator a kernel takes `cuda`, which knows which thread is running, then
# arrays and numbers. It writes its result into an array that it is given. The names are
# those of Numba, which compiles such functions for real GPUs. Here 3 blocks of 4
# threads double 10 numbers:


# %%
def doubled(cuda, y, x, count):
    at = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if at < count:
        y[at] = 2 * x[at]


x, y = np.arange(10.0), np.zeros(10)
counts = launch(doubled, 3, 4, y, x, 10)
print(y)
print(counts)

# %% [markdown]
# Twelve threads start for ten numbers, hence the `if`, the *guard*. **Write down
# first:** what becomes of two threads without a number, if the guard is missing?


# %% tags=["hide-output"]
def unguarded(cuda, y, x, count):
    at = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y[at] = 2 * x[at]


try:
    launch(unguarded, 3, 4, y, x, 10)
except Fault as fault:
    print(textwrap.fill(f"{type(fault).__name__}: {fault}", 80))

# %% [markdown]
# On a GPU often nobody would tell you: the thread would read whatever lies behind `x`,
# and write over whatever lies behind `y`.
#
# **Exercise 1.** Add a bias to each column and apply a ReLU, one number a thread. The
# rows of `x` lie one after the other, so number `at` stands in column `at % width`.


# %%
def bias_relu(cuda, y, x, bias, count, width):
    """y[at] = max(x[at] + the bias of its column, 0), one number a thread.

    x, y (count,), rows of `width` numbers one after the other; bias (width,).
    """
    ...


ex.bias_relu.check(bias_relu)

# %% [markdown]
# CUDA itself is C++ with a few more words. Here is the project's kernel for the same.
# It works in place, and `relu` says whether to apply one:


# %%
def cuda_text(file, name):
    """The function `name` as it stands in a file of tinyrmc/backend/gpu/."""
    text = (kernels.FOLDER / file).read_text(encoding="utf-8")
    start = text.rindex("\n", 0, text.index(f" {name}(")) + 1
    lines = text[start : text.index("\n}\n", start) + 2]
    return Markdown(f"`tinyrmc/backend/gpu/{file}`\n\n```cpp\n{lines}\n```")


cuda_text("linear.cu", "bias_relu")

# %% [markdown]
# ## What memory delivers at once
#
# Threads do not run alone. 32 of them, a *warp*, go through the kernel together, line
# by line. When they read, memory delivers groups of numbers that lie side by side: in
# our simulator 32 at once, numbers 0 to 31, 32 to 63 and so on. Each group that the
# warp touches costs one *transaction*, whether one thread needs it or all. So it
# matters *which* thread reads *what*. **Write down first:** thread $k$ of a warp reads
# `x[stride * k]`. How many transactions does the warp need for stride 1, 2, 32 and 100?
#
# **Exercise 2.** Find out, and draw it. Write a kernel of your own inside, launch it
# with one block of 32 threads for each stride, and draw what reading costs.
# (`counts.transactions` has those of the writes in it, too.)


# %%
def cost_of_strides(panel, strides):
    """Draw what reading costs a warp whose thread k reads x[stride * k]: transactions
    (upwards), against each of the `strides`. Both axes have names.
    """
    ...


ex.cost_of_strides.check(cost_of_strides)

# %% tags=["hide-output"] alt="Transactions of a warp against the stride: a straight line from 1 at stride 1 to 32 at stride 32, and from there on it stays at 32"
figure, panel = plt.subplots(figsize=(6, 3))
ex.cost_of_strides.yours(cost_of_strides)(panel, range(1, 49))
plt.show()

# %% [markdown]
# With stride 1 one transaction serves all 32 threads. From stride 32 on each thread
# needs one of its own: in the simulator the same numbers cost 32 times as much.
# (NVIDIA's GPUs of today fetch pieces of 32 bytes, eight numbers in float32: four
# pieces at stride 1, and 32 from stride 8 on, so about 8 times as much.) So
# neighbouring threads should read neighbouring numbers. (This is called *coalesced*.)
# For a row of 80 columns that means: thread $k$ of a warp takes the columns $k$, $k +
# 32$ and $k + 64$, and not three that lie side by side.
#
# **This is a good place to stop.**
#
# ## Threads that wait for each other
#
# Threads of a block have a memory in common, which is small and fast: *shared* memory.
# `cuda.shared.array(size)` gives all threads of a block the same array. With it they
# hand numbers to each other. But who is first? Here each thread writes its number and
# reads its right neighbour's:


# %%
def shifted(cuda, y, x):
    here = cuda.threadIdx.x
    held = cuda.shared.array(cuda.blockDim.x)
    held[here] = x[here]
    y[here] = held[(here + 1) % cuda.blockDim.x]


x, y = np.arange(8.0), np.zeros(8)
try:
    launch(shifted, 1, 8, y, x)
except Fault as fault:
    print(textwrap.fill(f"{type(fault).__name__}: {fault}", 80))

# %% [markdown]
# A *barrier* helps: no thread goes on before all threads of the block have arrived. In
# CUDA it is `__syncthreads()`, in Numba `cuda.syncthreads()`. Our simulator has one
# word more: `yield` hands over to the other threads.


# %%
def shifted(cuda, y, x):
    here = cuda.threadIdx.x
    held = cuda.shared.array(cuda.blockDim.x)
    held[here] = x[here]
    yield cuda.syncthreads()
    y[here] = held[(here + 1) % cuda.blockDim.x]


counts = launch(shifted, 1, 8, y, x)
print(y)
print(counts)

# %% [markdown]
# Two rules. *All* threads of a block must reach a barrier: if one has left before, the
# others wait for ever. And between two barriers no thread may write a cell that another
# one reads or writes; else there is a *race*, and either may be first. The simulator
# notices both. Blocks do not wait for each other at all.
#
# **Exercise 3.** Each number and its two neighbours, added up. Every thread could read
# three numbers from global memory. Read each only once, into shared memory with room
# for one more on both sides. Those two come from other blocks' numbers; beyond the ends
# of $x$ they are 0.


# %%
def neighbours(cuda, y, x, count):
    """y[at] = x[at - 1] + x[at] + x[at + 1]; beyond both ends stand zeros.

    x, y (count,). Each block reads its numbers of x once, and one more on each side.
    """
    ...


ex.neighbours.check(neighbours)

# %% [markdown]
# **This is a good place to stop.**
#
# ## A sum of all threads
#
# A mean needs the sum of a row, but each thread has only a part of it. Threads add up
# in *rounds*: in the first, half of them add the cell of the other half to their own;
# in the next, half of these; after $\log_2$ of their number, cell 0 has it all.

# %% tags=["hide-input"] alt="Eight cells in four rows, one row a round. Lines show who adds whose cell: first cells 0 to 3 add cells 4 to 7, then 0 and 1 add 2 and 3, then 0 adds 1. At the end cell 0 has the sum 36"
# Draws who adds whose cell in each round
held, rounds = np.arange(1, 9), [4, 2, 1]
figure, panel = plt.subplots(figsize=(7, 3))
for number, step in enumerate([*rounds, 0]):
    for cell in range(8):
        busy = number == 0 or cell < rounds[number - 1]
        colour = "C0" if busy else "0.75"
        panel.text(
            cell, -number, str(held[cell]), ha="center", va="center", color=colour
        )
        for source in (cell, cell + step) if cell < step else ():
            panel.plot([source, cell], [-number - 0.15, -number - 0.82], "0.6", lw=1)
    held = held + np.where(np.arange(8) < step, np.roll(held, -step), 0)
names = ["values", "step 4", "step 2", "step 1"]
panel.set(xlim=(-0.5, 7.5), ylim=(-3.4, 0.4), xlabel="cell of shared memory")
panel.set_yticks([0, -1, -2, -3], names)
panel.spines[["left", "bottom"]].set_visible(False)
plt.show()

# %% [markdown]
# **Exercise 4.** Write this as a part of kernels. Your function waits at barriers, so a
# kernel calls it with `whole = yield from block_reduce(...)`. `held` is shared memory
# that the caller gives you, and it may call you twice with the same. Where could a
# quick thread of the second call disturb a slow one of the first?


# %%
def block_reduce(cuda, held, value, combine):
    """Combine the values that all threads of a block bring; all get the result.

    held: shared memory, (threads,); combine(a, b) -> a + b, or the larger. The number
    of threads is a power of two.
    """
    ...


ex.block_reduce.check(block_reduce)
block_reduce = ex.block_reduce.yours(block_reduce)


def add(a, b):
    return a + b


# %% [markdown]
# ## Layer norm, a block for each row
#
# **Exercise 5.** Now an operation of the core. A block has a row, and its threads share
# the columns: `range(here, width, cuda.blockDim.x)`. Go over the row three times, for
# the mean, for the variance, and to write the result. (Two times would do, if you took
# the mean of the squares less the square of the mean. Where the mean is large, that is
# a small difference of large numbers, and its digits are lost.)


# %%
def layer_norm(cuda, y, x, gain, offset, width, epsilon):
    """y = (x - mean) / sqrt(variance + epsilon) * gain + offset, for each row.

    x, y (rows, width), a block for each row; gain, offset (width,).
    """
    ...


ex.layer_norm.check(layer_norm)
layer_norm = ex.layer_norm.yours(layer_norm)

# %% [markdown]
# Here is how the project does it. A row gets a warp and not a block, and the threads of
# a warp need no shared memory for a sum: in a *shuffle* each gets what another thread
# of its warp holds. In five of them, with the thread 16 away, then 8, 4, 2 and 1, all
# 32 have the whole sum. (`x` has a second summand here, the residual; `row.z(c)` is
# their sum in column `c`.)

# %%
cuda_text("warp.cu", "warp_sum")

# %%
cuda_text("layer_norm.cu", "norm_in_sweeps")

# %% [markdown]
# The same for our simulator, and beside it yours. **Write down first:** which of the
# counts will differ?


# %% tags=["hide-output"]
def warp_sum(cuda, value):
    for step in (16, 8, 4, 2, 1):
        value += yield cuda.shfl_xor(value, step)
    return value


def norm_by_warps(cuda, y, x, gain, offset, rows, width, epsilon):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    row = cuda.blockIdx.x * (cuda.blockDim.x // 32) + warp
    if row >= rows:
        return  # a whole warp leaves, so that no thread waits for it
    first = x[row, 0]  # a constant row becomes exactly 0
    part = 0.0
    for column in range(lane, width, 32):
        part += x[row, column] - first
    mean = first + (yield from warp_sum(cuda, part)) / width
    part = 0.0
    for column in range(lane, width, 32):
        part += (x[row, column] - mean) ** 2
    scale = 1 / ((yield from warp_sum(cuda, part)) / width + epsilon) ** 0.5
    for column in range(lane, width, 32):
        y[row, column] = (x[row, column] - mean) * scale * gain[column] + offset[column]


x, (gain, offset) = rng.normal(size=(9, 80)), rng.normal(size=(2, 80))
packaged = fused.layer_norm(x, gain, offset).data
y = np.zeros_like(x)
yours = launch(layer_norm, 9, 32, y, x, gain, offset, 80, 1e-5)
print("a block a row, as the package's:", np.allclose(y, packaged))
y = np.zeros_like(x)
theirs = launch(norm_by_warps, 3, 128, y, x, gain, offset, 9, 80, 1e-5)
print("a warp a row, as the package's: ", np.allclose(y, packaged))
for name in vars(yours):
    print(f"{name:12} {getattr(yours, name):5} {getattr(theirs, name):5}")

# %% [markdown]
# Both move almost the same through global memory. What differs is how threads talk: by
# shuffles there is no shared memory and no barrier, so no warp waits for another. The
# project also reads four numbers at a time where a row allows it, and keeps them in
# registers. Then one sweep finds the row in memory, and not three.
#
# **This is a good place to stop.**
#
# ## A product in tiles
#
# In `out = a @ b` each number of `a` is needed for every column of `b`. A thread that
# computes one number of `out` alone reads a whole row of `a` and a whole column of `b`.
# A block that computes a *tile* of `out`, say 8 by 8 numbers, can share them: it brings
# a tile of `a` and one of `b` into shared memory, uses each number eight times, and
# brings the next.
# Blocks and threads have two numbers now: `threadIdx.x` is the column within the tile,
# `threadIdx.y` the row.
#
# **Exercise 6.** Write it. How many barriers does each tile need?


# %%
def product(cuda, out, a, b, rows, inner, columns):
    """out = a @ b in tiles: a (rows, inner), b (inner, columns), out (rows, columns).

    A block has edge x edge threads, one for each number of its tile of `out`. Shared
    arrays may have two axes: cuda.shared.array((edge, edge)).
    """
    ...


ex.product.check(product)
product = ex.product.yours(product)

# %% [markdown]
# **Write down first:** by how much does the number of reads fall when the edge of the
# tiles doubles?

# %% tags=["hide-output"]
a, b, out = rng.normal(size=(16, 24)), rng.normal(size=(24, 16)), np.zeros((16, 16))
for edge in (1, 2, 4, 8):
    counts = launch(
        product, (16 // edge, 16 // edge), (edge, edge), out, a, b, 16, 24, 16
    )
    print(f"edge {edge}: {counts.reads:6,} reads of global memory, ", end="")
    print(f"{counts.shared:6,} of shared; right: {np.allclose(out, a @ b)}")

# %% [markdown]
# **This is a good place to stop.**
#
# ## The same function on other arrays
#
# Now the other way to a GPU: arrays move there, and no function knows. CuPy's arrays
# lie on the GPU, and its functions have NumPy's names. Each rule of the engine gets
# `xp`, the library of its arguments:

# %%
course.show(backend.namespace, backend.register, docstring=False)

# %% [markdown]
# Here is a kind of array for trying without a GPU. It lies "far away": it is NumPy's,
# but each operation on it is counted, and refused when one array is near and another
# far. On a GPU each would be at least one launch, and would move its arrays between
# memory and processors.

# %% tags=["hide-input"]
# Arrays that lie elsewhere, and what happens to them
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
# Now a training step on far arrays. Not a line of it knows that they are far. **Write
# down first:** how many launches do backward and the update take: tens, hundreds,
# thousands?


# %% tags=["hide-output"]
inputs = rng.standard_normal((128, 8, 40), dtype=np.float32)
targets = rng.integers(8, size=128)


def training_step(xp):
    """One step of a fresh network on arrays of the library xp; returns its loss and its
    gradients, as NumPy's arrays.
    """
    core = RelationalMemory(40, mem_slots=8, head_size=8, num_heads=8, seed=0).to(xp)
    readout = nn.Linear(512, 8, seed=0).to(xp)
    adam = optim.Adam(core.parameters() + readout.parameters())
    here, wanted = xp.asarray(inputs), xp.asarray(targets)
    with Tape() as tape:
        outputs, _ = core.unroll(here, core.initial_state(len(inputs)))
        loss = p.mean(fused.softmax_cross_entropy(readout(outputs[-1]), wanted))
    adam.zero_grad()
    launches.clear()
    tape.backward(loss)
    adam.step()
    return np.asarray(loss.data), np.asarray(adam.gradient)


for one, other in zip(training_step(np), training_step(far), strict=True):
    print("the same, up to rounding:", np.allclose(one, other, rtol=1e-4, atol=1e-6))
print(f"backward and update: {sum(launches.values())} launches, the most frequent:")
for name, count in launches.most_common(3):
    print(f"  {name} {count}")

# %% [markdown]
# With CuPy and a GPU, `--device cuda` is all it takes to train there.
#
# ## What one kernel saves
#
# How many launches does a layer norm take, and how much does it move? Composed; by hand
# in array operations; and as one kernel, which reads $x$ and the residual once, writes
# $y$, and does all else on the way. (The first two are counted. The kernel's numbers
# are written down: a kernel that does not keep its row in registers reads it several
# times.)

# %%
rows = (128 * 9, 64)  # of 128 examples, each with 8 slots and an input
x, residual = (rng.standard_normal(rows, dtype=np.float32) for _ in range(2))
gain, offset = np.ones(64, np.float32), np.zeros(64, np.float32)
VERSIONS = {"composed": fused.layer_norm.reference, "by hand": fused.layer_norm}
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

# %% tags=["hide-input"] alt="Two panels of bars for a layer norm forward: composed 11 launches and 18 times the bytes of x, by hand in array operations 23 and 24, as a kernel one launch and three times the bytes"
# Draws launches and bytes of the three ways
figure, panels = plt.subplots(1, 2, figsize=(9, 3.2))
columns = zip(*counted.values(), strict=True)
titles = ("launches", "bytes moved / bytes of x")
for panel, values, title in zip(panels, columns, titles, strict=True):
    bars = panel.bar([*counted], values, color=("0.7", "C0", "C2"), width=0.6)
    panel.bar_label(bars, fmt="%.3g", padding=2)
    panel.set(title=f"layer norm forward: {title}", ylim=(0, 1.15 * max(values)))
plt.show()

# %% [markdown]
# By hand there are even more launches than composed: rows whose numbers are all alike
# are centred twice. On a GPU all rows are, because to look for such rows would mean to
# wait. So array code that was made for a processor, as in chapter 23, can be the wrong
# one here.
#
# Here is one training step on an NVIDIA H100, 8 slots of 256 units, 128 examples of 8
# steps, in float32, as `benchmarks/gpu.py` measured it with version 0.1.0. A *graph*
# records all launches of a step once and starts them as one. **Write down first:**
# which of ours are faster than PyTorch as it comes?

# %% tags=["hide-output"]
(work,) = [
    work
    for work in course.summary("gpu-NVIDIA-H100-80GB-HBM3")["works"]
    if work["size"] == "8 slots x 256, T = 8, batch 128"
]
for name, row in work["rows"].items():
    if "TF32" not in name and "drawn" not in name:
        print(f"{name:36}{row['ms']:6.1f} ms")

# %% [markdown]
# In this one measurement our kernels are faster than PyTorch as it comes (eager), and
# so is our graph. Array operations are slower, and slowest of all: they launch more and
# move more bytes, and how much each of the two costs we have not measured. Kernels make
# the step several times as fast, and a graph several times more. It starts the same
# kernels, so what it saves can only lie between them: in starting them one by one, and
# in waiting.
#
# A kernel states the same equation once more, and the complex step cannot check it.
# (The tests compile it for an ordinary processor, too.) It may pay where an operation
# moves much and computes little; matrix products we leave to the GPU's own library.
# At each call the engine asks who runs: a kernel, a compiled body (chapter 23) on
# NumPy's arrays, or the array code:

# %%
course.show(fused.Fused.override, backend.kernels, kernels.usable, docstring=False)

# %% [markdown]
# **What was not shown.** None of your kernels ran on a GPU: the simulator counts, and
# how long a real one takes it does not say. The times are those of the project's
# kernels, on one card, in one measurement. Which operations are worth a kernel of their
# own was not measured.
#
# ## Takeaways
#
# - A kernel says what one thread does. It needs a guard, since threads come in whole
#   blocks.
# - Neighbouring threads should read neighbouring numbers: memory delivers several at
#   once.
# - Shared memory saves reads of global memory. It needs a barrier after it is written,
#   and another one before it is written again.
# - On a GPU every array operation is a launch, and moves its arrays once more. A kernel
#   does in one launch what array operations do in ten or twenty.
#
# **Further.** Shared memory has 32 *banks*: cell $c$ lies in bank $c \bmod 32$, and a
# bank serves one cell at a time. What happens when a warp reads a column of a tile of
# 32 by 32? And a sum in rounds has other bits than one from left to right: which of
# them is closer to the truth?

# %% tags=["hide-cell"]
# Answer 1
# All 32 cells lie in one bank, so the warp waits 31 times. A tile with one column more,
# which nobody uses, puts neighbours of a column into neighbouring banks.


def column_of_a_tile(cuda, y, width):
    here, tile = cuda.threadIdx.x, cuda.shared.array((32, width))
    tile[here, 0] = here
    y[here] = tile[here, 0]


for width in (32, 33):
    counts = launch(column_of_a_tile, 1, 32, np.zeros(32), width)
    print(f"tile of 32 x {width}: {counts.conflicts} times waited, writing and reading")

# %% tags=["hide-cell"]
# Answer 2
# A sum in rounds is closer, in the mean of these 1,000 rows: each of its numbers goes
# through eleven additions, and not through up to two thousand. NumPy's own sum is a
# tree of a kind as well.


def in_rounds(row):
    held = row.copy()
    while len(held) > 1:
        held = held[: len(held) // 2] + held[len(held) // 2 :]
    return held[0]


ways = {
    "in rounds": in_rounds,
    "NumPy": np.sum,
    "left to right": lambda row: row.cumsum()[-1],
}
rows = rng.standard_normal((1000, 2048)).astype(np.float32)
truth = rows.astype(float).sum(axis=1)
for name, way in ways.items():
    errors = [abs(way(row) - right) for row, right in zip(rows, truth, strict=True)]
    print(f"{name:13}: off by {np.mean(errors):.1e} in the mean of 1,000 rows")
