# %% [markdown]
# # 25. CUDA: down to a kernel
#
# **Appendix A.** About 50 minutes. You need layer norm with its derivative (chapter 8)
# and what a fused operation is (chapter 23).
#
# A GPU is another machine with another memory. First the arrays move there: only the
# library under the functions changes. Then one operation goes from its equation to a
# *kernel*, a program for the GPU. You need no GPU here.

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
from tinyrmc import primitives as p
from tinyrmc.backend import gpu as kernels
from tinyrmc.course.exercises import cuda as ex

course.setup()
rng = np.random.default_rng(15)
inputs = rng.standard_normal((128, 8, 40), dtype=np.float32)
targets = rng.integers(8, size=128)

# %% [markdown]
# ## The same function on other arrays
#
# CuPy's arrays lie on the GPU, and its functions have NumPy's names. Code that asks an
# array for its library runs on both. Each rule of the engine gets `xp`, the library of
# its arguments:

# %%
course.show(backend.namespace, backend.register)

# %% [markdown]
# Here is a kind for trying without a GPU. Its arrays lie "far away": they are NumPy's,
# but each operation on them is counted, and refused when one array is near and another
# far. On a GPU each would be at least one *launch*, the start of a program there, and
# would move its arrays between memory and processors.

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
# ## One operation, from its equation to a kernel
#
# How many launches does a layer norm take, and how much does it move? Composed; by hand
# in array operations; and as a kernel, which reads $x$ and the residual once, writes
# $y$, and does all else on the way.

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
# By hand there are even more launches than composed. Rows whose numbers are all alike
# are centred twice; on a GPU all rows are, because to look for such rows would mean to
# wait. A kernel is written in CUDA, which is C++ with a few more words:
#
# | word | what it is |
# |---|---|
# | kernel | a function that very many threads run, each on numbers of its own |
# | thread | one run through that function; `threadIdx.x` is its number in its block |
# | warp | 32 threads that go through the function together; they can read each other's registers |
# | block | some warps on the same processor of the GPU; `blockIdx.x` is its number |
# | launch | the start of a kernel, with a number of blocks and of threads in each |
#
# Each row gets a warp. Within it a thread has a number, its *lane*, from 0 to 31. Lane
# $k$ takes the columns $k$, $k + 32$ and so on: then the 32 threads read 32 numbers
# that lie side by side, and memory delivers these together.
#
# A mean needs the sum over all columns. The lanes find it in five exchanges: each adds
# what the lane 16 away holds; then 8, 4, 2 and 1. Lane $k$'s partner is `k ^ step`, the
# number with one binary digit turned over.

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
# In CUDA a *shuffle* gives a thread what another thread of its warp holds:


# %%
def cuda(file, name):
    """The function `name` as it stands in a file of tinyrmc/backend/gpu/."""
    text = (kernels.FOLDER / file).read_text(encoding="utf-8")
    start = text.rindex("\n", 0, text.index(f" {name}(")) + 1
    lines = text[start : text.index("\n}\n", start) + 2]
    return Markdown(f"`tinyrmc/backend/gpu/{file}`\n\n```cpp\n{lines}\n```")


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
# Now the kernel. Each warp finds its row. `row.z(c)` is $z$ in column $c$, the sum of
# $x$ and the residual. (Other callers need `bias`, `group` and `stride`. By `fours`,
# four numbers are read at a time where a row allows it; the plain way follows.)

# %%
cuda("layer_norm.cu", "layer_norm_forward")

# %%
cuda("layer_norm.cu", "norm_in_sweeps")

# %% [markdown]
# - A warp without a row leaves as a whole: if only some threads left, the others would
#   wait for them in the next shuffle.
# - The first sweep finds the mean, the second the variance, the third writes $y$. Only
#   the first should find the row in memory; the others find it in the cache.
# - Why not add up $z \circ z$ in the first sweep and spare the second? Where the mean
#   is large, $\mathrm{mean}(z \circ z) - \mathrm{mean}(z)^2$ is a small difference of
#   large numbers:

# %%
z = (1000 + rng.standard_normal(64)).astype(np.float32)
d = z - z.mean()
print(f"variance in float64: {z.astype(float).var():.4f}")
shorter = np.mean(z * z) - z.mean() ** 2
print(f"in float32, as the kernel does it: {np.mean(d * d):.4f}", end="")
print(f"; with one sweep less: {shorter:.4f}")

# %% [markdown]
# All of it in NumPy, with the 32 threads as an axis:


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
# Backward, the gradients of gain and offset are sums over all blocks. Added to one
# place as they arrive, they would round differently each time. So each block writes a
# sum of its own, and a second kernel adds these up in order.
#
# ## What it brings
#
# `benchmarks/gpu.py` first compares and then measures. Here is one training step on an
# NVIDIA H100, 8 slots of 256 units, 128 examples of 8 steps, in float32. A *graph*
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
# Array operations are slowest: launches cost more than the work. Kernels make the step
# several times as fast, a graph several times more.
#
# A kernel states the same equation once more, and the complex step cannot check it.
# (The tests compile it for an ordinary processor, too.) It pays where an operation
# moves much and computes little; for matrix products the GPU's own library is hard to
# beat. At each call the engine asks who runs: a kernel, a compiled body (chapter 23) on
# NumPy's arrays, or the array code:

# %%
course.show(fused.Fused.override, backend.kernels, kernels.usable, docstring=False)

# %% [markdown]
# ## Takeaways
#
# - Code that asks an array for its library runs wherever the array lies.
# - On a GPU every array operation is a launch, and moves its arrays once more. A kernel
#   does in one what array operations do in ten or twenty.
# - Threads of a warp add up in five exchanges, always in the same order.
#
# **Further.** `row_sum` and NumPy's `sum` give different bits for the same row. Which
# of them is closer to the truth?

# %% tags=["hide-cell"]
# Answer 1
# It depends on the row. Both add in a tree of some kind, so both beat adding from
# left to right, and neither wins always.
row = rng.standard_normal(2048).astype(np.float32)
truth = row.astype(float).sum()
ways = {
    "32 lanes": ex.row_sum(row)[0],
    "NumPy": row.sum(),
    "in a row": row.cumsum()[-1],
}
for name, total in ways.items():
    print(f"{name:8}: off by {abs(total - truth):.1e}")
