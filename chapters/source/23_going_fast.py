# %% [markdown]
# # 23. Going fast: the same numbers, sooner
#
# **No equation of the paper.** About 190 minutes, in three sittings. You need the tape
# (chapter 3), layer norm with its derivative (chapter 8) and the gates (chapter 9).
#
# The paper's equations say what to compute, not in which order, in which portions, or
# on how many cores. You use that freedom here. The numbers stay the same, up to
# rounding; for some of them you wait less.
#
# What is there to gain? Near the end a table has each device of this chapter (a way to
# save time or memory; no GPU is meant), what it saves, and the time of a whole step.
# First look at the package beside other libraries: the project's benchmark times one
# training step of the same network from the same weights, with version 0.1.0 on one
# core of an AMD EPYC (Zen 4), a virtual machine: do not trust the bars to two digits.
# `tinyrmc` is NumPy, `compiled` has the loops that come below. On other processors the
# lead is larger, or smaller, or gone ([speed](../benchmarks/speed.md)).

# %%
import contextlib
import importlib.util
from collections import Counter, OrderedDict
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, Tape, backend, course, fused, gradcheck, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import primitive
from tinyrmc.course import held, least
from tinyrmc.course.exercises import going_fast as ex
from tinyrmc.training.machine import usable_cores

course.setup()  # it also puts matrix products on one thread; the reason comes below
rng = np.random.default_rng(15)
benchmark = course.summary("cpu_one_core")
sizes = "large", "small", "quick"
timed = [row for row in benchmark["rows"] if row["work"] in sizes]

# %% tags=["hide-input"] alt="Bars of the time of a training step at three sizes: tinyrmc's with compiled loops is the shortest each time and tinyrmc's in NumPy the next, by little at the largest; the others are PyTorch with threads and with processes, torch.compile, JAX, and at one size HIPS autograd"
# Draws the time of a step, ours and the others
figure, panels = plt.subplots(1, 3, figsize=(12, 3.4))
for panel, row in zip(panels, timed, strict=True):
    ours = {"tinyrmc": "ours_seconds", "tinyrmc, compiled": "compiled_seconds"}
    times = {name: row[key] for name, key in ours.items()} | row["peers"]
    colours = ["C0"] * len(ours) + ["0.7"] * len(row["peers"])
    ms = [1e3 * seconds for seconds in times.values()]
    bars = panel.barh([*times], ms, color=colours)
    labels = [f"{t:,.0f}" if t > 100 else f"{t:,.1f}" for t in ms]
    panel.bar_label(bars, labels, padding=3)
    panel.set(title=row["size"].replace(", batch", ",\nbatch"))
    panel.set(xlabel="ms for a step", xlim=(0, 1.35 * max(ms)))
    panel.invert_yaxis()
plt.show()

# %% [markdown]
# Some cells below measure, and show nothing until you run them. They use `least`, a
# clock, and `held`, which counts the bytes that a tape keeps for its walk back.
#
# Here is a network to look at, that of the second panel:

# %%
core = RelationalMemory(input_size=40, mem_slots=8, head_size=8, num_heads=8, seed=0)
readout = nn.Linear(512, 8, seed=0)
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
# The tape can differentiate any composition. But if you know the derivative of the
# whole, you can write it down as one operation, *fused*. Take layer norm. `fused/` also
# defines it as a composition; there the tape records each step and keeps the arrays
# that each step's derivative will need. **Write down first:** how many entries will the
# composed operation leave, and how many the fused one?

# %% tags=["hide-output"]
rows = (128 * 9, 64)  # of 128 examples, each with 8 slots and an input
x, residual, g = (rng.standard_normal(rows, dtype=np.float32) for _ in range(3))
gain, offset = np.ones(64, np.float32), np.zeros(64, np.float32)
VERSIONS = {"composed": fused.layer_norm.reference, "by hand": fused.layer_norm}

for name, operation in VERSIONS.items():
    with Tape() as tape:
        operation(*[tape.watch(array) for array in (x, gain, offset, residual)])
    names = [rules.name for rules, *_ in tape.entries]
    entries, size = len(tape.entries), held(tape) / x.nbytes
    print(f"{name}: entries {entries}; the tape holds {size:.1f} times the bytes of x")
    for k in range(0, len(names), 7):
        print("  ", ", ".join(names[k : k + 7]))

# %% [markdown]
# The layer norm by hand saves $n$ and $s$ for backward, and no other array as large as
# $x$. (Its text is in [layers.py](../tinyrmc/fused/layers.py). You write a smaller one
# below.) A derivative by hand invites mistakes. So tests hold every fused operation
# against its composed definition and the complex step.
#
# **Write down first:** where will the ratio of the times be larger, for 8 rows or for
# 1,152?


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
# The time may be saved in two places: NumPy makes fewer passes over large arrays, and
# there are fewer entries, each of which costs some Python. In a whole step (its time
# stands in the table at the end):

# %%
for name, mode in (("composed", fused.plain), ("by hand", contextlib.nullcontext)):
    with mode(), Tape() as tape:
        loss_of(0, 32)
    size = held(tape) / 2**20
    print(f"{name}: {len(tape.entries)} entries; the tape holds {size:.1f} MiB")
each = benchmark["engine"]["overhead_microseconds"]
print(f"the time that an entry costs on that EPYC: {each:.1f} µs")

# %% [markdown]
# ## Yours: RMS norm
#
# Newer networks often leave the mean alone. *RMS norm* only divides each row by the
# root of its mean square:
#
# $$s = \frac{1}{\sqrt{\mathrm{mean}(x \circ x) + \epsilon}}, \qquad
# n = s \, x, \qquad y = n \circ \gamma$$
#
# To find its derivative, ask what a small change $\delta x$ does. It moves $n = s\,x$
# by itself, and through $s$. The loss changes by $\sum h \circ \delta n$ with
# $h = g \circ \gamma$. Collect what multiplies $\delta x$ in that sum. (Which of the
# two means of layer norm's formula do you expect to be gone?)
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
# Now make an operation of it: a forward rule, which says what to save, and its
# derivative. (The gain is one everywhere here.)

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
    close = gradcheck(operation, x[:5].astype(np.float64)) < 1e-12
    entries, size = len(tape.entries), held(tape) / x.nbytes
    print(f"{name}: entries {entries}; the tape holds {size:.1f} times the bytes of x")
    print("  differs from the complex step by less than 1e-12:", close)

# %% [markdown]
# ## Down to loops: a kernel
#
# Array code makes a pass over memory for each arithmetic operation. A *compiled* loop
# takes a row through the whole formula while it lies in the first cache. In Python such
# a loop is far too slow; a compiler, *Numba*, makes machine code of it.
#
# **Exercise 2.** Write RMS norm with loops over numbers, as you would in C: for each
# row, one loop for the sum of squares and one that writes into `y`. Make no arrays, and
# call nothing but `math`: that is what Numba understands.


# %%
def rms_norm_rows(x, gain, epsilon, y):
    """x (R, F), gain (F,), epsilon a number; writes y (R, F), returns nothing."""
    ...


ex.rms_norm_rows.check(rms_norm_rows)
rms_norm_rows = ex.rms_norm_rows.yours(rms_norm_rows)

# %% [markdown]
# The flags allow the compiler to add in another order, several numbers at a time.
# **Write down first:** how much faster is it than array code?


# %% tags=["varies"]
def by_arrays(x, gain):
    return gain * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-5))


if importlib.util.find_spec("numba"):
    import numba

    flags = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
    compiled = numba.njit(**flags)(rms_norm_rows)

    def by_loops(x, gain):
        y = np.empty_like(x)
        compiled(x, gain, np.float32(1e-5), y)
        return y

    try:
        by_loops(x[:1], gain)  # the first call compiles
    except numba.core.errors.NumbaError:
        print("Numba does not understand yours: the solution is compiled")
        compiled = numba.njit(**flags)(ex.rms_norm_rows.function)
    for rows in (8, 128 * 9):
        some = x[:rows]
        near = np.allclose(by_loops(some, gain), by_arrays(some, gain), atol=1e-5)
        ways = {"arrays": by_arrays, "loops": by_loops}
        times = least(50, **{name: partial(f, some, gain) for name, f in ways.items()})
        ratio = times["arrays"] / times["loops"]
        print(f"{rows:4} rows: arrays / loops {ratio:.1f}, the same numbers: {near}")
else:
    print("Numba is not here: python -m pip install '.[fast]' brings it")

# %% [markdown]
# The extra `fast` has such a *body* for each operation in which a step spends its time.
# It is made for float32, and takes the place of the array code; the definition that
# both are held against stays the same. Matrix products stay with BLAS.
# `python -m tinyrmc.train` uses the bodies by itself; in a program you ask for them.
# How much does a whole step gain? (The bars in the middle panel above say it of one
# machine, with the optimizer.) **Write down first:** as much as the norm alone?


# %% tags=["varies"]
def whole_step(size=128):
    total = 0.0
    for start in range(0, len(inputs), size):
        with Tape() as tape:
            loss = loss_of(start, start + size)
        tape.backward(loss)
        total += float(loss.data)
    return total


found = {}
for on in (False, True):
    body = fused.use_compiled(on)  # "numpy", or Numba and its version
    found[body] = whole_step(), least(10, step=whole_step)["step"]
    print(f"{body}: loss {found[body][0]:.5f}, {1e3 * found[body][1]:.1f} ms")
fused.use_compiled(False)  # below, NumPy again
print("ratio", *(f"{found['numpy'][1] / seconds:.2f}" for _, seconds in found.values()))

# %% [markdown]
# **This is a good place to stop.**
#
# ## Out of the loop
#
# A recurrent network goes through time step by step. But not all of a step needs the
# memory that the step before has left. Look at a gate, equation 4:
#
# $$f_{i,t} = W^f x_t + U^f h_{i,t-1} + b^f \tag{4}$$
#
# Only the second term has to wait. (The released core, which runs below, has
# $\tanh(m_{i,t-1})$ in the place of $h_{i,t-1}$: it waits as well.) The others need the
# inputs alone, so you can compute them for all $T$ steps at once: one product over
# $T B$ rows in place of $T$ products over $B$. A call of the core runs six linear
# layers: one for the input, one for queries, keys and values, two in the MLP, and for
# the gates one of the input and one of the memory. So eight steps run 48, and one more
# for the first memory, which all examples share. `unroll` moves the two out that see
# inputs alone. **Write down first:** how many will it run?


# %% tags=["hide-output"]
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
# This saves no arithmetic, but calls. How much sooner do you have the outputs?

# %% tags=["varies"]
times = least(20, step_by_step=step_by_step, unrolled=unrolled)
told = ", ".join(f"{name} {1e3 * t:.1f} ms" for name, t in times.items())
print(f"{told}, ratio {times['step_by_step'] / times['unrolled']:.2f}")

# %% [markdown]
# Fewer calls need not be less time. (In three tries, not recorded, now one way was
# ahead and now the other.) Backward saves calls in the same way: in the loop a weight
# gets $T$ gradients, which must be added up.
#
# **Exercise 3.** Find the gradient of a weight over all steps, in one product of two
# matrices: without a loop over time, and without a stack of $T$ products that are added
# up afterwards. (The check counts lines and bytes.)


# %%
def weight_gradient(x, g):
    """d loss / d W of y = x @ W at all T steps at once, given g = d loss / d y.

    x (T, B, I), g (T, B, O) -> (I, O).
    """
    ...


ex.weight_gradient.check(weight_gradient)

# %% [markdown]
# ## Pieces
#
# Memory is slow, so a processor keeps what it has used last in a *cache*, which is
# small and quick. When something new needs room, it takes the place of what has gone
# unused the longest (in a real cache this is only nearly so). Now let a chain of
# operations go over a large array, one after the other. Each ends at the last block;
# the next begins at the first, which has left the cache long ago. So cut the array into
# pieces, and let each go through the whole chain before the next begins. Here is such a
# cache:


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


# %% [markdown]
# **Write down first:** a chain of six operations goes over 256 blocks, and the cache
# has room for 32. How often is a block loaded, on average, when a piece has 16 blocks,
# 32, or 64?
#
# **Exercise 4.** Find out with `loads`, and draw it: the loads of a block against the
# blocks in a piece, for pieces of 1, 2, 4, 8 and so on up to 256 blocks. The lower axis
# has the number of blocks, and may be on a logarithmic scale. (The check looks at
# places and heights; what follows from them, you say.)


# %%
def cost_of_pieces(panel, room, passes):
    """Draw how often a block of 256 is loaded, on average, against the blocks in a
    piece, 1, 2, 4, ..., 256. The cache has `room`, the chain has `passes` operations.
    """
    ...


ex.cost_of_pieces.check(cost_of_pieces)

# %% tags=["hide-output"] alt="Left, loads of a block against the size of a piece: one up to the size of the cache, six from the next size on. Right, calls: half as many with every doubling of the piece"
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
ex.cost_of_pieces.yours(cost_of_pieces)(left, room=32, passes=6)
pieces = 2 ** np.arange(9)
right.loglog(pieces, 6 * 256 / pieces, "o-", color="C1", base=2)
right.set(xlabel="blocks in a piece", ylabel="calls of an operation")
plt.show()

# %% [markdown]
# So with 16 or 32 blocks in a piece each is loaded once, and with 64 six times, once
# for each operation. On the left the loads rise at once, where a piece no longer fits.
# On the right stands what small pieces cost in calls: half as many with every doubling.
# So in this toy a piece should be as large as still fits.
#
# Training cuts a batch in the same way: each piece of examples goes through the whole
# network, forward and backward, before the next. What does a tape hold of a piece?

# %%
for count in (8, 32, 128):
    with Tape() as tape:
        loss_of(0, count)
    print(f"{count:3} examples: the tape holds {held(tape) / 2**20:6.2f} MiB")

# %% [markdown]
# A second cache often has a megabyte or two: not even the 8 examples fit. So the toy
# does not tell which pieces are best. A clock does. **Write down first:** which of
# these takes the least time, and which the most?

# %% tags=["varies"]
pieces = {f"pieces of {n:3}": partial(whole_step, n) for n in (8, 16, 32, 64, 128)}
for name, seconds in least(5, **pieces).items():
    print(f"{name}: {1e3 * seconds:.1f} ms")

# %% [markdown]
# We have no record of these times to set beside yours. Training takes pieces of 256
# examples. We chose that: pieces smaller than 128 gained less than 2 %
# ([speed](../benchmarks/speed.md)), and larger ones cost memory. Of 256 against 128 we
# have no record.
#
# With pieces the mean can go wrong. A loss is a mean over examples that have a target,
# and not all pieces have as many. So each gives a *sum* and a *count*.
#
# **Exercise 5.** Find the mean loss and its gradient. `differentiate` takes at most
# `size` examples at a time. It gives the sum of their losses, their count, and the
# gradient of the sum. Some examples have no target and do not count.


# %%
def in_pieces(differentiate, examples, size):
    """examples (B, 3), in pieces of at most `size` -> mean loss, its gradient (2,)."""
    ...


ex.in_pieces.check(in_pieces)

# %% [markdown]
# **This is a good place to stop.**
#
# ## A softmax in pieces
#
# A softmax over a large vocabulary needs only one number of each row, $\ln \sum_j
# e^{z_j}$, but all logits at once may be more than fits. Make those of a *block* of
# words, add up, throw them away, make the next. There is one difficulty: you must
# subtract the largest logit before `exp`, and you do not know it in advance. So keep
# the largest so far and the sum so far. When a larger one comes, what becomes of the
# sum? (Attention over long texts uses the same trick: FlashAttention, Dao and others
# 2022, never makes the whole matrix of scores.)
#
# **Exercise 6.** Take the sum in blocks, once through. `logits_of` refuses more than
# `size` words.


# %%
def log_sum_exp_in_blocks(logits_of, words, size):
    """logits_of(start, stop) -> the logits (R, stop - start) of the words from start to
    before stop; all are 0 to words - 1 -> ln sum exp, (R,).
    """
    ...


ex.log_sum_exp_in_blocks.check(log_sum_exp_in_blocks)
log_sum_exp_in_blocks = ex.log_sum_exp_in_blocks.yours(log_sum_exp_in_blocks)

# %% [markdown]
# Backward, $p - y$ is as large as the logits. But with the sum in hand you can make any
# block of $p$ again, use it for its two products, and throw it away:


# %%
def loss_in_blocks(h, E, targets, size):
    """h (R, d), E (V, d), targets (R,) -> losses (R,), gradients of h and E."""

    def logits_of(start, stop):
        return h @ E[start:stop].T

    total = log_sum_exp_in_blocks(logits_of, len(E), size)
    losses = total - np.sum(h * E[targets], axis=1)
    dh, dE = np.zeros_like(h), np.zeros_like(E)
    for start in range(0, len(E), size):
        stop = min(start + size, len(E))
        block = np.exp(logits_of(start, stop) - total[:, None])  # p, (R, stop - start)
        inside = (start <= targets) & (targets < stop)
        block[inside, targets[inside] - start] -= 1  # p - y
        dh += block @ E[start:stop]
        dE[start:stop] = block.T @ h
    return losses, dh, dE


h, E = rng.normal(size=(1000, 32)), rng.normal(size=(5000, 32)) / 32**0.5
words = rng.integers(len(E), size=len(h))
with Tape() as tape:
    watched = [tape.watch(h), tape.watch(E)]
    total = p.sum(fused.linear_cross_entropy(*watched, words, block=500))
_, *mine = loss_in_blocks(h, E, words, 500)
theirs = tape.gradient(total, watched)
print(
    "as the package's:",
    *(np.allclose(*each) for each in zip(mine, theirs, strict=True)),
)

# %% [markdown]
# ## Workers
#
# Pieces know nothing of each other, so several *workers* can take them, each on a core
# of its own. Each adds its gradients into a buffer of its own: with one for all, two
# could both read a number and both add to it, and the one that writes last wipes out
# the other's. At the end the buffers are added up, always in the same order, because
# every sum is rounded. **Write down first:** the two sums.

# %% tags=["hide-output"]
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1)
print((a + b) + c, a + (b + c))

# %% [markdown]
# Workers can be threads or processes. Python has a lock, the GIL: only one thread at a
# time may run Python. NumPy releases it inside a long operation, but this training step
# consists of very many short ones. In one measurement, on four cores of another EPYC,
# we timed the same step for workers of either kind, and for threads in a Python built
# without the lock:

# %% tags=["hide-input"] alt="Time of a step against the number of workers: with processes and with threads without the lock it falls to about half or less with four, with ordinary threads it falls a little with two and rises to almost three times with four"
# Draws the time of a step for processes and threads
figure, panel = plt.subplots(figsize=(6.5, 3.6))
curves = {}  # kind -> (workers, ms)
sharing = course.summary("cpu_sharing")["sharing"]
for row in sharing:
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
# There, four ordinary threads took almost three times as long as one, in that one
# measurement, and four processes were not four times as fast as one. The gradients that
# must be added up, the smaller pieces, and the one memory that all cores share may be
# the reasons; what each of these costs we have not measured. BLAS could use all cores
# by itself, but handing out small work takes time. So in training it has one thread,
# and the workers share whole pieces. Here is one small product on your machine:

# %% tags=["varies"]
square = rng.standard_normal((128, 128), dtype=np.float32)
cores, times = len(usable_cores()), {}
for threads in (1, cores):
    with backend.blas_threads(threads):
        times[threads] = least(5, product=lambda: square @ square)["product"]
    name = f"{threads} BLAS thread{'s' * (threads > 1)}"
    print(f"(128 x 128) times (128 x 128), {name}: {1e6 * times[threads]:.1f} µs")
print(f"ratio {times[cores] / times[1]:.2f}")

# %% [markdown]
# ## What each is worth
#
# Here is the network of this chapter with 128 examples, and the time of a whole step.
# Compiled bodies were timed on one core of the first EPYC, workers on the other one,
# and a softmax alone on a Xeon, once. The rows of derivatives by hand and of pieces
# under 128 are from the speed page: it names no processor for them and, for pieces, no
# size of the network; and the derivatives were timed in an older state of the code.
# *Not measured* means that no record tells; your clock above may. **Write down first:**
# which device saves most on one core?

# %% tags=["hide-output"]
small = next(row for row in timed if row["work"] == "small")
alone, four = (
    next(x["seconds"] for x in sharing if (x["kind"], x["workers"]) == ("processes", n))
    for n in (1, 4)
)
compiled = f"{1e3 * small['compiled_seconds']:.1f} ms"
plain = f"{1e3 * small['ours_seconds']:.1f}"
workers = f"{1e3 * four:.1f} ms, alone {1e3 * alone:.1f}"
softmax = course.summary("large_vocabulary")["vocabulary"]["kinds"]
cut, whole = (softmax[kind]["seconds"] for kind in ("pieces", "whole"))
for device, saves, step in (
    ("device", "what it saves", "a whole step"),
    ("derivatives by hand", "entries, bytes", "1.6 times as long without (speed page)"),
    ("  that of layer norm alone", "the same", "1.2 to 1.3 times as long without"),
    ("compiled bodies", "passes over arrays", f"{compiled}, without {plain}"),
    ("out of the loop", "calls", "not measured"),
    ("pieces under 128 examples", "bytes", "less than 2 % gained (speed page)"),
    ("  of 267,735 words' softmax", "bytes", f"{cut:.1f} s, in one call {whole:.1f}"),
    ("a softmax in blocks", "bytes", "not measured"),
    ("four processes", "work of one core", workers),
    ("one BLAS thread in each", "handing out", "not measured"),
):
    print(f"{device:28}{saves:20}{step}")

# %% [markdown]
# ## What falls short
#
# What share of the processor's speed in large matrix products does a step in NumPy
# reach? **Write down first:** a half? nine tenths?

# %% tags=["hide-output"]
for row in timed:
    print(f"{row['size']:34}: {row['sgemm_fraction']:.0%}")

# %% [markdown]
# The rest may go into passes over arrays, which compiled bodies save, into smaller
# matrix products and, where arrays are small, into calls. For one size it was measured:
# at 8 slots of 256 units, on one core, matrix products take 74 to 75 % of a step, and
# run at 90 % of the speed of large ones ([speed](../benchmarks/speed.md)). For the
# other sizes it was not.
#
# The operations by hand are in `fused/`, each beside its composed definition; the loop
# is `unroll` in `cores/core.py`; pieces and workers are in `training/`.
#
# **What was not shown.** How these times are on another processor. What a step of the
# network waits for, memory or calls. And what the table calls not measured.
#
# ## Takeaways
#
# - A derivative by hand saves entries and bytes on the tape, and in the recorded step
#   more than a third of the time. Save for backward what the formula needs, and nothing
#   else. And check it.
# - A compiled loop takes a row through the whole formula while it lies in the cache.
#   The recorded steps of this memory took a tenth (8 slots of 256 units) to a quarter
#   (8 slots of 64) less time.
# - What the memory before does not enter can be computed before the loop, for all steps
#   at once. That saves calls; that it saves time was not shown.
# - Pieces save memory: the tape holds one at a time. They hand on sums and counts. In
#   the toy of a cache they also save loads; a real step gained less than 2 % from
#   pieces under 128 examples.
# - Training shares the cores once: workers on the outside, one BLAS thread inside. Four
#   processes took about 0.43 of the time of one (medians; in three of nine rounds a
#   half or a little more), not a quarter.
#
# **Further.** RMS norm's derivative has no part along one direction. Which one, and
# why? In the picture of the cache, what changes if each operation goes over the array
# in the opposite direction to the one before? Two workers can give other bits than one:
# how would you share the work so that any number of workers gives the same?

# %% tags=["hide-cell"]
# Answer 1
# It is the direction of the row itself. Stretch a row, and RMS norm divides the stretch
# away: nothing changes in the result, so no gradient points there. (The epsilon lets a
# little through; here it is 0.)
row, h = rng.normal(size=(5, 8)), rng.normal(size=(5, 8))
back = ex.rms_norm_gradient(h, row, np.ones(8), 0.0)
print("no part along the row:", np.allclose((back * row).sum(axis=1), 0))

# %% tags=["hide-cell"]
# Answer 2
# An operation then begins with what the one before has just left in the cache. For an
# array much larger than the cache that is little. For pieces a little too large it is
# much: the loads rise slowly, and not at once.


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
# Answer 3
# Fix the pieces and the order in which their gradients are added, no matter which
# worker computes them. Each piece then needs a buffer of its own until its turn comes,
# and that is the price. One buffer for each worker takes less, and the bits can change
# with the number of workers.
parts = np.random.default_rng(0).normal(size=12).astype(np.float32)
for count in (1, 2, 3):
    shares = [slice(k, None, count) for k in range(count)]
    each_worker = sum(parts[share].sum() for share in shares)
    each_piece = np.empty_like(parts)
    for share in shares:
        each_piece[share] = parts[share]
    print(f"{count} workers, a buffer for each: {each_worker:.9f}", end="; ")
    print(f"for each piece: {each_piece.sum():.9f}")
