# %% [markdown]
# # 25. CUDA: going fast, third part
#
# **Section 3, layer normalisation.** About 70 minutes. You need layer norm with its
# derivative (chapter 8) and what a fused operation is (chapter 23).
#
# A GPU is another machine with another memory. This chapter moves the same code there,
# in two steps. First the arrays: the functions stay, and only the library under them
# changes. Then one operation goes all the way from its equation to a *kernel*, a
# program written for the GPU. You need no GPU to read it, and none to do the exercise.

# %%
import itertools
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
from tinyrmc import (
    gpu as kernels,
)
from tinyrmc import primitives as p
from tinyrmc.course.exercises import cuda as ex

course.setup()
rng = np.random.default_rng(15)
inputs = rng.standard_normal((128, 8, 40), dtype=np.float32)
targets = rng.integers(8, size=128)

# %% [markdown]
# ## The same function on other arrays
#
# A GPU has a memory of its own. CuPy is a library whose arrays lie there, and whose
# functions have NumPy's names and arguments. Code that names NumPy, as in
# `np.zeros(3)`, makes its arrays in one memory only. Code that first asks an array for
# its library runs on both:

# %%
course.show(backend.namespace, backend.register)

# %%
print(backend.namespace(np.ones(3)).__name__)

# %% [markdown]
# (`_discover` recognises CuPy's arrays when it first sees them.) That is all there is
# to it. Each rule of the engine gets `xp`, the library of its arguments, as you have
# seen in the rules of chapter 23. So any kind of array will do, if you register it with
# its library.
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
# line of it knows that they are far. How many launches will backward and the update
# take? Write down a guess: tens, hundreds, thousands?


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
# basic operations, then by hand in array operations. Chapter 23 saw far fewer entries
# for the one by hand. Do you expect fewer launches, too?

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

# %% tags=["hide-input"] alt="Two panels of bars for a layer norm forward: as a composition or as array operations ten launches or more and fourteen to sixteen times the bytes of x, as a kernel one launch and three times the bytes"
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
course.show(
    kernels.layer_norm.launch_forward, kernels.normalise, kernels._grid_of_warps
)

# %% [markdown]
# Compare it with the forward rule on arrays in chapter 23: it has the same arguments,
# and again it gives a result and what backward will need. `@Override` turns it into
# what stands in for that rule on a GPU. It calls `normalise`, which launches. `_launch`
# takes a kernel's name, the number of blocks and of threads in each, and the kernel's
# arguments; CuPy compiles the kernel the first time. (`bias` is there for other
# callers.)
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
wings.set(xlabel="after the exchange with the lane this far away")
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
    """The function `name` as it stands in a file of tinyrmc/gpu/."""
    text = (kernels.FOLDER / file).read_text(encoding="utf-8")
    start = text.rindex("\n", 0, text.index(f" {name}(")) + 1
    lines = text[start : text.index("\n}\n", start) + 2]
    return Markdown(f"`tinyrmc/gpu/{file}`\n\n```cpp\n{lines}\n```")


cuda("warp.cu", "warp_sum")

# %% [markdown]
# **Exercise 1.** Do the same in NumPy, where the 32 lanes are an axis. Begin with a row
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
# addresses of arrays, and numbers. Each warp finds its row, and `row.go_to` moves the
# addresses to where that row begins. (`group` and `stride` are for a residual that is
# part of a larger array, such as the slots without the input's row.)

# %%
cuda("layer_norm.cu", "layer_norm_forward")

# %% [markdown]
# The work is in here. `row.z(c)` is $z$ in column $c$, the sum of $x$ and the residual.
# (`norm_by_fours` does the same for rows of up to 768 columns that lie so that a thread
# can read four numbers at once. It keeps them in registers.)

# %%
cuda("layer_norm.cu", "norm_in_sweeps")

# %% [markdown]
# Compare it with the equation, line by line:
#
# - **Which row**, and the lane. A warp without a row leaves as a whole: if only some of
#   its threads left, the others would wait for them in the next shuffle.
# - **First sweep:** each thread adds up its columns, `warp_sum` makes the sum of all,
#   and `m` is $\mathrm{mean}(z)$. Every thread now holds it in a register.
# - **Second sweep:** the same for $d \circ d$, and `s` is $s$. Why not add up
#   $z \circ z$ in the first sweep and spare the second? The variance is
#   $\mathrm{mean}(z \circ z) - \mathrm{mean}(z)^2$, but where the mean is large, this
#   is a small difference of two large numbers. The cell below shows what float32 leaves
#   of it.
# - **Third sweep:** $y = d\,s \circ \gamma + \beta$. The warp reads the row three
#   times, but it should come from the memory only once: it is small enough that the
#   second and the third sweep find it in the cache.
# - **What backward needs:** one thread writes mean and scale, two numbers for each row.
#   The rule on arrays keeps $n$, which is as large as $x$. The kernel computes $n$
#   again instead of writing and reading it. We expect computing it again to be cheaper;
#   nobody has measured it yet.

# %%
z = (1000 + rng.standard_normal(64)).astype(np.float32)
d = z - z.mean()
print(f"variance in float64: {z.astype(float).var():.4f}")
shorter = np.mean(z * z) - z.mean() ** 2
print(f"in float32, as the kernel does it: {np.mean(d * d):.4f}", end="")
print(f"; with one sweep less: {shorter:.4f}")

# %% [markdown]
# Here is all of it in NumPy, with the 32 threads as an axis and the solution of
# exercise 1 for the sums, row by row as the warps have them:


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
# Backward is the second half of the file `tinyrmc/gpu/layer_norm.cu`: the formula
# of chapter 8, with two calls of `warp_sum`. The gradients of gain and offset are sums
# over all rows, so over all blocks. If all threads added to one place, they would add
# in the order in which they arrive, and every order rounds differently (chapter 24). So
# each block writes a sum of its own, and a second kernel adds up the blocks in order.
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
# A kernel states the same equation a third time, after the composed version and the one
# by hand, and it is the only version that the complex step cannot check. It pays where
# an operation moves much and computes little. For a matrix product the GPU's own
# library is hard to beat, so the package has no kernel for it. And whatever has no
# kernel still takes a launch for each array operation.
#
# ## In the package
#
# The kernels are in `gpu/`. `backend.py` knows which library an array belongs to.
# One link is still missing: who chooses between the rule on arrays and the kernel? The
# engine asks a fused operation at each call:

# %%
course.show(fused.Fused.override, backend.kernels, kernels.usable, docstring=False)

# %% [markdown]
# `_mode` is a switch for the tests. `compiles` says whether a library can compile
# kernels: CuPy can, NumPy cannot.
#
# ## Takeaways
#
# - Code that asks an array for its library runs wherever the array lies.
# - On a GPU every array operation is a launch, and moves its arrays once more.
# - A kernel does in one launch, and with the least traffic, what array operations do in
#   ten or twelve. What that brings remains to be measured.
# - Threads of a warp add up in five exchanges, always in the same order.
#
# **Further.** What would a kernel look like that does layer norm for rows of 100,000
# numbers? And `row_sum` and NumPy's `sum` give different bits for the same row. Which
# of them is closer to the truth?

# %% tags=["hide-cell"]
# Answer 1: a warp for each row would give each thread 3,125 columns, and with few rows
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

# %% tags=["hide-cell"]
# Answer 2: it depends on the row. Both add in a tree of some kind, so both beat adding
# from left to right, and neither wins always.
row = rng.standard_normal(2048).astype(np.float32)
truth = row.astype(float).sum()
ways = {
    "32 lanes": ex.row_sum(row)[0],
    "NumPy": row.sum(),
    "in a row": row.cumsum()[-1],
}
for name, total in ways.items():
    print(f"{name:8}: off by {abs(total - truth):.1e}")
