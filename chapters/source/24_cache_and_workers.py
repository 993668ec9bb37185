# %% [markdown]
# # 24. Cache and workers: going fast, second part
#
# **No equation of the paper: the same numbers, in another order.** About 45 minutes.
# You need the tape (chapter 3) and batches (chapter 5).
#
# A processor computes faster than its memory can deliver, and it has several cores.
# This chapter cuts a batch into pieces that fit into a cache, and shares the pieces
# among workers. The gradients stay the same, up to rounding.
#
# Some cells below measure, with two tools of chapter 23: `least` is a clock, and `held`
# counts the bytes that a tape keeps for its walk back. Times hold for your machine at
# this moment. This notebook does not keep them, so the cells that take them have no
# output until you run them.

# %%
from collections import OrderedDict

import matplotlib.pyplot as plt
import numpy as np

from tinyrmc import RelationalMemory, Tape, backend, course, fused, nn, optim
from tinyrmc import primitives as p
from tinyrmc.course import held, least
from tinyrmc.course.exercises import cache_and_workers as ex
from tinyrmc.training import PIECE, workers
from tinyrmc.training.pieces import pieces_of

course.setup()  # it also puts matrix products on one thread; the reason comes below
rng = np.random.default_rng(15)
benchmark = course.summary("cpu")
timed = [row for row in benchmark["rows"] if row["core"] == "rmc"]


# %% [markdown]
# ## Pieces
#
# Because memory is slow, a processor keeps what it has used last in a *cache*, which is
# small and quick. When something new needs room, it drives out what has gone unused the
# longest. Now let a chain of operations, such as norm, ReLU and gate, go over a large
# array, one after the other. Each operation ends at the far end of the array. The next
# begins at the near end, which was driven out long ago.
#
# Here is such a cache, with room for 32 blocks, and a chain of six operations over an
# array of 256 blocks. We cut the array into pieces, and each piece goes through all six
# before the next one begins. How often must a block be loaded from memory when a piece
# has 16 blocks, 32, or 64? Write down three numbers.


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


# %% tags=["hide-input"] alt="Left, loads of a block against the size of a piece: one up to the size of the cache, six from the next size on. Right, calls: half as many with every doubling of the piece"
# Draws the loads and the calls for each size of a piece
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
# of six operations goes over 64 MiB of float32, in pieces of 4 KiB to 64 MiB. Which
# size will be the fastest? Write it down before you run the cell. (The model says that
# there is a valley: small pieces pay for calls, and large ones find no room.)

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
# whole batch, in the three sizes that chapter 23 has timed? How large are they for a
# piece of 128 examples, which is what the package takes? And how much does the tape
# hold for backward?

# %%
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
for row in timed:
    example = 4 * (row["slots"] + 1) * 3 * row["width"] / 2**20  # MiB
    whole, piece = row["batch"] * example, PIECE * example
    print(f"{row['size']:34}: {whole:5.2f} MiB, of a piece of {PIECE} {piece:5.2f} MiB")
for count in (8, 32, 128):
    with Tape() as tape:
        loss_of(0, count)
    print(f"8 slots x 64, T = 8, {count:3} examples: ", end="")
    print(f"the tape holds {held(tape) / 2**20:6.2f} MiB")

# %% [markdown]
# So with pieces, one operation hands the next a few MiB at most, and a server's last
# cache has room for that. Few caches have room for the whole batch of the first line.
# We also tried smaller pieces, for the smaller cache before the last, and they were not
# faster (`benchmarks/README.md`). And the memory that the tape needs grows with the
# piece, not with the batch.
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
# Here is an extreme case. What do you expect for each of the two sums?

# %%
a, b, c = np.float32(1e8), np.float32(-1e8), np.float32(1)
(a + b) + c, a + (b + c)

# %% [markdown]
# Now workers share a batch of 128. `pieces_of` cuts it. `Workers` calls `share` once
# for each worker, all at the same time, and `into` says where backward adds:

# %%
course.show(pieces_of)


# %%
def gradient_by(count):
    """The gradient of the mean loss, computed by `count` workers."""
    buffers = np.zeros((count, adam.gradient.size), np.float32)
    pieces = pieces_of(len(inputs), 16, count)

    def share(worker, request):
        for start, stop in pieces[worker::count]:  # piece i is of worker i mod count
            with Tape() as tape:
                loss = loss_of(start, stop)
            tape.backward(loss, into=adam.views(buffers[worker]))

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
# operation, but a training step of this size consists of very many short ones. On four
# cores of an AMD EPYC we timed the same step, 8 slots of 64 units with a batch of 128,
# for workers of either kind, and for threads in a Python built without the lock
# (`benchmarks/results/cpu_sharing.json`):

# %% tags=["hide-input"] alt="Time of a step against the number of workers: with processes and with threads without the lock it falls to about half or less with four, with ordinary threads it falls a little with two and rises to almost three times with four"
# Draws the time of a step for processes and threads
figure, panel = plt.subplots(figsize=(6.5, 3.6))
curves = {}  # kind -> (workers, ms)
for row in course.summary("cpu_sharing")["sharing"]:
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
# Four threads with the lock are even slower than one. (We have not looked into why. Our
# guess is that the lock changes hands all the time, and each time somebody waits.)
#
# And four processes are not four times as fast as one. Adding up the gradients and
# updating the parameters is not shared; the pieces are smaller, so that calls weigh
# more; and the cores share one memory. We have not measured how much each of the three
# costs.
#
# One thing must be switched off. A library, BLAS, does the matrix products, and it can
# use all cores by itself. Handing out the work and waiting for the last core takes
# time, and with a worker on each core every core is busy already. So in training BLAS
# has one thread, and we share the cores where there is more to share: whole pieces.
# Here is one small product on your machine, with one thread and with all (do not be
# surprised by a ratio far above 1):

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
# ## What falls short
#
# The benchmark of chapter 23, on two cores of a Zen 4, also compares a whole step with
# large matrix products, which show how fast the processor can multiply. What share of
# that speed does a step reach? (Guess first: a half? nine tenths?)

# %%
for row in timed:
    print(f"{row['size']:34}: {row['sgemm_fraction']:.0%}")

# %% [markdown]
# The rest of the time goes into three things. One is the passes over arrays, which a
# compiled kernel would save and an array program cannot (chapter 25). Another is matrix
# products that are smaller, and so slower, than those that set the mark. The third,
# where arrays are small, is the price of the calls. (`benchmarks/README.md` has figures
# for one size.)
#
# ## In the package
#
# Pieces and workers are in `training/pieces.py` and `workers.py`.
#
# ## Takeaways
#
# - An array program waits for memory and pays for each call. Pieces balance the two.
# - Pieces hand on sums and counts, and one division comes at the end.
# - Each worker has a buffer of its own, and the order of additions is fixed.
# - Share the cores only once: workers on the outside, one BLAS thread inside.
#
# **Further.** In the picture of the cache, what changes if each operation goes over the
# array in the opposite direction to the one before? And two workers gave other bits
# than one. How would you share the work so that any number of workers gives the same?

# %% tags=["hide-cell"]
# Answer 1: an operation then begins with what the one before has just left in the
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
# Answer 2: fix the pieces and the order in which their gradients are added, no matter
# which worker computes them. Each piece then needs a buffer of its own until its turn
# comes, and that is the price. One buffer for each worker takes less, and ties the bits
# to the number of workers.


def gradient_in_order(count):
    pieces = pieces_of(len(inputs), 16, 1)  # the same for any count
    buffers = np.zeros((len(pieces), adam.gradient.size), np.float32)
    for worker in range(count):  # one after the other; the order makes no difference
        for number in range(worker, len(pieces), count):
            with Tape() as tape:
                loss = loss_of(*pieces[number])
            tape.backward(loss, into=adam.views(buffers[number]))
    return sum(buffers) / len(inputs)


print("one, two and three workers, the same bits:", end=" ")
first, *others = (gradient_in_order(count) for count in (1, 2, 3))
print(all(np.array_equal(first, other) for other in others))
