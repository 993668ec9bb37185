"""Chapter 25: kernels, from one number a thread to a norm and a product in tiles."""

import numpy as np

from ..compare import Demand, Wrong, agree
from ..simulator import launch
from .drawn import drawn
from .exercise import each, normal
from .used import used


def _frugal(found, right, counts, **most):
    """`found`; Wrong where it is right, and a count is above the `most` allowed."""
    if agree(found, right, Demand()):
        for name, allowed in most.items():
            if (count := getattr(counts, name)) > allowed:
                raise Wrong(
                    f"its numbers are right, but `{name}` is {count}, and {allowed} "
                    "are enough"
                )
    return found


# --- One number a thread --------------------------------------------------------------


def _bias_relu(answer, x, bias, threads):
    y = np.full(x.size, np.nan)
    blocks = -(-x.size // threads)
    counts = launch(answer, blocks, threads, y, x.ravel(), bias, x.size, bias.size)
    # a thread may look at its number twice
    return _frugal(y.reshape(x.shape), np.maximum(x + bias, 0), counts, longest=6)


def _rows(rng, rows, width, threads):
    return rng.normal(size=(rows, width)), rng.normal(size=width), threads


@used(
    _bias_relu,
    cases=each(_rows, "3 4 4, 2 5 4, 1 3 8, 7 1 2, 5 6 32, 4 3 5"),
    hints=[
        "cuda.blockIdx.x * cuda.blockDim.x threads stand in the blocks before this "
        "one, and cuda.threadIdx.x before this thread in its own.",
        "The last block has threads without a number: `if at < count:`.",
        "Row after row, number `at` stands in column at % width.",
    ],
    mistakes="""
        threads beyond the end read and write all the same: the guard is missing, or it
        lets one too many pass (the last number is count - 1)
            if at < count: -> if True:
        you use the thread's number in its block alone: all blocks work on the same
        numbers
            cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x -> cuda.threadIdx.x
        you multiply the block's number by the number of blocks, not by that of the
        threads in each
            cuda.blockDim.x -> cuda.gridDim.x
        you take the row's number for the column's: at // width
            at % width -> (at // width) % width
        you add the bias after the ReLU
            max(x[at] + bias[at % width], 0.0) -> max(x[at], 0.0) + bias[at % width]
        you leave out the ReLU
            max(x[at] + bias[at % width], 0.0) -> x[at] + bias[at % width]
    """,
)
def bias_relu(cuda, y, x, bias, count, width):
    """y[at] = max(x[at] + the bias of its column, 0), one number a thread.

    x, y (count,), rows of `width` numbers one after the other; bias (width,).
    """
    at = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if at < count:
        y[at] = max(x[at] + bias[at % width], 0.0)


# --- What memory delivers -------------------------------------------------------------


@drawn(
    cases=lambda rng: [
        ([*range(1, 9)],),
        ([*range(1, 41)],),
        ([1, 2, 4, 8, 16, 32, 64],),
        ([5],),
    ],
    hints=[
        "A kernel of two lines reads x[stride * cuda.threadIdx.x] and writes it to "
        "y[cuda.threadIdx.x].",
        "For each stride: x = np.zeros(32 * stride); counts = launch(kernel, 1, 32, y, "
        "x, stride).",
        "Writing y takes one transaction: counts.transactions - 1 is what reading x "
        "takes. Then panel.plot(strides, found), and panel.set(xlabel=..., "
        "ylabel=...).",
    ],
    mistakes="""
        you count the transaction of the writes as well
            .transactions - 1 -> .transactions
        you draw how many numbers are read, which is always 32
            .transactions - 1 -> .reads
        you run one thread: a transaction serves the whole warp
            1, 32, y -> 1, 1, y
        the strides are the height, and what you counted is the place
            panel.plot(strides, found) -> panel.plot(found, strides)
    """,
)
def cost_of_strides(panel, strides):
    """Draw what reading costs a warp whose thread k reads x[stride * k]: transactions
    (upwards), against each of the `strides`. Both axes have names.
    """

    def kernel(cuda, y, x, stride):
        y[cuda.threadIdx.x] = x[stride * cuda.threadIdx.x]

    found = []
    for stride in strides:
        x, y = np.zeros(32 * stride), np.zeros(32)
        found.append(launch(kernel, 1, 32, y, x, stride).transactions - 1)
    panel.plot(strides, found)
    panel.set(xlabel="stride", ylabel="transactions of a warp")


# --- A block that works together ------------------------------------------------------


def _neighbours(answer, x, threads):
    y, blocks = np.full(x.size, np.nan), -(-x.size // threads)
    counts = launch(answer, blocks, threads, y, x, x.size)
    before, after = np.append(0.0, x[:-1]), np.append(x[1:], 0.0)
    return _frugal(y, before + x + after, counts, reads=x.size + 2 * (blocks - 1))


@used(
    _neighbours,
    cases=each(
        lambda rng, count, threads: (rng.normal(size=count), threads),
        "12 4, 10 4, 5 8, 1 4, 9 8, 33 32, 7 1",
    ),
    hints=[
        "cuda.shared.array(cuda.blockDim.x + 2) has room for the block's numbers and "
        "one neighbour on each side. Thread 0 also brings the left neighbour, the last "
        "thread the right one.",
        "Where there is no number, beyond both ends of x, a thread writes 0.0: all "
        "cells that are read later must be written.",
        "Then `yield cuda.syncthreads()`, which all threads must reach, those beyond "
        "the end too. Only then `if at < count:` read three cells and write y[at].",
    ],
    mistakes="""
        threads read what others write, and no barrier stands between: yield
        cuda.syncthreads()
            yield cuda.syncthreads() -> yield from ()
        threads beyond the end do not come to the barrier, and the others wait for them
            yield cuda.syncthreads() -> if at < count: yield cuda.syncthreads()
        each thread reads three numbers from global memory
            held[here] + held[here + 1] + held[here + 2]
                -> (x[at - 1] if at else 0.0) + x[at]
                + (x[at + 1] if at + 1 < count else 0.0)
        you take 0 for the neighbours in other blocks
            x[at - 1] if at > 0 else 0.0 -> 0.0
            x[at + 1] if at + 1 < count else 0.0 -> 0.0
        nobody brings the neighbours in other blocks: these cells are never written
            if here == 0: -> if False:
            if here == cuda.blockDim.x - 1: -> if False:
        you add the two neighbours, and not the number itself
            held[here] + held[here + 1] + held[here + 2] -> held[here] + held[here + 2]
    """,
)
def neighbours(cuda, y, x, count):
    """y[at] = x[at - 1] + x[at] + x[at + 1]; beyond both ends stand zeros.

    x, y (count,). Each block reads its numbers of x once, and one more on each side.
    """
    here = cuda.threadIdx.x
    at = cuda.blockIdx.x * cuda.blockDim.x + here
    held = cuda.shared.array(cuda.blockDim.x + 2)
    held[here + 1] = x[at] if at < count else 0.0
    if here == 0:
        held[0] = x[at - 1] if at > 0 else 0.0
    if here == cuda.blockDim.x - 1:
        held[here + 2] = x[at + 1] if at + 1 < count else 0.0
    yield cuda.syncthreads()
    if at < count:
        y[at] = held[here] + held[here + 1] + held[here + 2]


def add(a, b):
    """a + b"""
    return a + b


def larger(a, b):
    """The larger of two numbers."""
    return max(a, b)


def _reduced(answer, x, combine):
    """Each thread's result for x, then for -x, in the same shared memory."""
    blocks, threads = x.shape
    found = np.full((2, blocks, threads), np.nan)

    def twice(cuda, found, x):
        block, thread = cuda.blockIdx.x, cuda.threadIdx.x
        held = cuda.shared.array(cuda.blockDim.x)
        for k in range(2):
            value = (1, -1)[k] * x[block, thread]
            value = yield from answer(cuda, held, value, combine)
            found[k, block, thread] = value

    counts = launch(twice, blocks, threads, found, x)
    whole = {add: np.sum, larger: np.max}[combine]
    both = [whole(each, axis=-1) for each in (x, -x)]
    right = np.stack([np.tile(each[:, None], threads) for each in both])
    most = 2 * (3 * threads.bit_length() + 3)
    return _frugal(found, right, counts, longest=most)


@used(
    _reduced,
    cases=each(
        lambda rng, blocks, threads, name: (
            rng.normal(size=(blocks, threads)),
            {"add": add, "larger": larger}[name],
        ),
        '1 8 "add", 2 4 "larger", 3 64 "add", 1 64 "larger", 2 2 "add"',
    ),
    hints=[
        "First held[here] = value, then a barrier. In each round half of the threads "
        "combine their own cell with the one that lies `step` further on, and `step` "
        "begins with half of cuda.blockDim.x.",
        "while step > 0: if here < step: held[here] = combine(held[here], held[here + "
        "step]); then a barrier, for all threads; then step //= 2.",
        "Read held[0] into a name, and wait once more before you return it: else a "
        "quick thread that calls you again writes into held[0], and a slow one has "
        "not read it yet.",
    ],
    mistakes="""
        you combine before all have written: a barrier belongs between
            yield cuda.syncthreads()  # all have written -> yield from ()
        no barrier stands between two rounds
            yield cuda.syncthreads()  # the round is over -> yield from ()
        you do not wait once more before you return: the next call writes into held
        while slow threads still read it
            yield cuda.syncthreads()  # all have read -> yield from ()
        all threads combine in each round, and write cells that others read
            if here < step: -> if here + step < cuda.blockDim.x:
        thread 0 goes through all cells alone, and the others wait
            = by_one(cuda, held, value, combine)
        you always add, whatever `combine` is
            combine(held[here], held[here + step]) -> held[here] + held[here + step]
        you return what is in a thread's own cell: only thread 0 has the whole
            whole = held[0] -> whole = held[here]
    """,
)
def block_reduce(cuda, held, value, combine):
    """Combine the values that all threads of a block bring; all get the result.

    held: shared memory, (threads,); combine(a, b) -> a + b, or the larger. The number
    of threads is a power of two.
    """
    here, step = cuda.threadIdx.x, cuda.blockDim.x // 2
    held[here] = value
    yield cuda.syncthreads()  # all have written
    while step > 0:
        if here < step:
            held[here] = combine(held[here], held[here + step])
        yield cuda.syncthreads()  # the round is over
        step //= 2
    whole = held[0]
    yield cuda.syncthreads()  # all have read
    return whole


def by_one(cuda, held, value, combine):
    """A mistake of `block_reduce`: right, and as slow as one thread."""
    held[cuda.threadIdx.x] = value
    yield cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        whole = held[0]
        for k in range(1, cuda.blockDim.x):
            whole = combine(whole, held[k])
        held[0] = whole
    yield cuda.syncthreads()
    whole = held[0]
    yield cuda.syncthreads()
    return whole


def normed(x, gain, offset, epsilon):
    """Layer norm of each row in NumPy."""
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + epsilon) * gain + offset


def _layer_norm(answer, x, gain, offset, epsilon, threads):
    y, (rows, width) = np.full_like(x, np.nan), x.shape
    counts = launch(answer, rows, threads, y, x, gain, offset, width, epsilon)
    right = normed(x, gain, offset, epsilon)
    # each row begins somewhere in a group of 32 numbers
    sweeps = 4 * rows * (-(-width // 32) + -(-width // threads) + 1)
    sweeps += 2 * rows * -(-width // min(threads, 32))
    # each thread may read one number more, say, the row's first to subtract it
    reads = 5 * x.size + rows * threads
    most = {"reads": reads, "writes": x.size, "transactions": sweeps}
    return _frugal(y, right, counts, **most)


def _norm_rows(rng, rows, width, threads, epsilon=1e-5, about=0.0):
    x = about + rng.normal(size=(rows, width))
    return x, *rng.normal(size=(2, width)), epsilon, threads


@used(
    _layer_norm,
    cases=each(
        _norm_rows, "2 8 8, 3 10 4, 2 5 8, 1 70 32 0.5, 2 40 8 1e-3 1e6, 4 33 16, 1 1 2"
    ),
    tolerance=1e-8,
    hints=[
        "A block has row cuda.blockIdx.x. Its thread `here` takes the columns here, "
        "here + threads, here + 2 * threads, ...: range(here, width, cuda.blockDim.x).",
        "First sweep: each thread adds up its columns, and `yield from "
        "block_reduce(cuda, held, part, add)` gives all the sum of the row. Divide by "
        "width.",
        "Second sweep: the squares of x[row, column] - mean, in the same way. Third "
        "sweep: write y[row, column].",
    ],
    mistakes="""
        you divide by the number of threads, not by that of the columns
            / width -> / cuda.blockDim.x
        you take the mean of squares less the square of the mean: where the mean is
        large, all digits are lost
            (x[row, column] - mean) ** 2 -> x[row, column] ** 2 - mean ** 2
        each thread takes columns that lie side by side: then the threads of a warp
        read numbers that lie far apart
            range(here, width, cuda.blockDim.x)
                -> range(here * -(-width // cuda.blockDim.x), min(width,
                (here + 1) * -(-width // cuda.blockDim.x)))
        a thread takes one column alone: rows may have more columns than a block has
        threads
            range(here, width, cuda.blockDim.x) -> range(here, min(width, here + 1))
        all threads do the whole row
            range(here, width, cuda.blockDim.x) -> range(width)
        you leave epsilon out
            / width + epsilon -> / width
        you divide by the variance, not by its root
            ** 0.5 -> ** 1.0
        you add the offset before you multiply by the gain
            * gain[column] + offset[column] -> + offset[column] * gain[column]
    """,
)
def layer_norm(cuda, y, x, gain, offset, width, epsilon):
    """y = (x - mean) / sqrt(variance + epsilon) * gain + offset, for each row.

    x, y (rows, width), a block for each row; gain, offset (width,).
    """
    row, here = cuda.blockIdx.x, cuda.threadIdx.x
    held = cuda.shared.array(cuda.blockDim.x)
    part = 0.0
    for column in range(here, width, cuda.blockDim.x):
        part += x[row, column]
    mean = (yield from block_reduce(cuda, held, part, add)) / width
    part = 0.0
    for column in range(here, width, cuda.blockDim.x):
        part += (x[row, column] - mean) ** 2
    variance = (yield from block_reduce(cuda, held, part, add)) / width + epsilon
    for column in range(here, width, cuda.blockDim.x):
        n = (x[row, column] - mean) / variance**0.5
        y[row, column] = n * gain[column] + offset[column]


def _product(answer, a, b, edge):
    (rows, inner), columns = a.shape, b.shape[1]
    out = np.full((rows, columns), np.nan)
    grid = -(-columns // edge), -(-rows // edge)
    counts = launch(answer, grid, (edge, edge), out, a, b, rows, inner, columns)
    reads = a.size * grid[0] + b.size * grid[1]
    return _frugal(out, a @ b, counts, reads=reads)


@used(
    _product,
    cases=each(
        lambda rng, rows, inner, columns, edge: (
            *normal(rng, (rows, inner), (inner, columns)),
            edge,
        ),
        "4 4 4 2, 3 4 5 2, 4 6 2 4, 5 3 7 4, 1 9 1 3, 3 2 4 1",
    ),
    hints=[
        "Thread (x, y) of block (X, Y) computes row Y * edge + y, column X * edge + x "
        "of the result.",
        "For each start in range(0, inner, edge): each thread brings one number of a, "
        "a[row, start + x], and one of b, b[start + y, column], into two shared arrays "
        "(edge, edge), or 0.0 where there is none. Then a barrier.",
        "Then add up the edge products, and wait once more: nobody may bring the next "
        "tile while others still read this one. Write out[row, column] at the end, if "
        "it is there.",
    ],
    mistakes="""
        you do not wait before the next tile is brought: it overwrites what slow threads
        still read
            yield cuda.syncthreads()  # all have read -> yield from ()
        you add up before all have brought their numbers
            yield cuda.syncthreads()  # all have written -> yield from ()
        all threads read from global memory what they need, each for itself
            left[y, k] * right[k, x]
                -> ((a[row, start + k] * b[start + k, column]) if row < rows
                and column < columns and start + k < inner else 0.0)
        you do not ask whether there is such a row or column: the guards are missing
            if row < rows and here < inner else 0.0 ->
            if there < inner and column < columns else 0.0 ->
            if row < rows and column < columns: -> if True:
        only the last tile counts: the sum begins anew in each
            left[y, x] = -> total = 0.0; left[y, x] =
        rows and columns have changed places: x is the column in the block, y the row
            row, column = cuda.blockIdx.y * edge + y, cuda.blockIdx.x * edge + x
                -> row, column = cuda.blockIdx.x * edge + x, cuda.blockIdx.y * edge + y
    """,
)
def product(cuda, out, a, b, rows, inner, columns):
    """out = a @ b in tiles: a (rows, inner), b (inner, columns), out (rows, columns).

    A block has edge x edge threads, one for each number of its tile of `out`.
    """
    edge, x, y = cuda.blockDim.x, cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * edge + y, cuda.blockIdx.x * edge + x
    left = cuda.shared.array((edge, edge))
    right = cuda.shared.array((edge, edge))
    total = 0.0
    for start in range(0, inner, edge):
        here, there = start + x, start + y
        left[y, x] = a[row, here] if row < rows and here < inner else 0.0
        right[y, x] = b[there, column] if there < inner and column < columns else 0.0
        yield cuda.syncthreads()  # all have written
        for k in range(edge):
            total += left[y, k] * right[k, x]
        yield cuda.syncthreads()  # all have read
    if row < rows and column < columns:
        out[row, column] = total
