"""The simulator of CUDA's threads: right results, what it counts, what it refuses."""

import os
import re
import subprocess
import sys

import cuda_shim
import numpy as np
import pytest
from cuda_shim import shim
from fakecupy import device, single

from tinyrmc import fused
from tinyrmc.course.exercises import cuda as ex
from tinyrmc.course.simulator import (
    Fault,
    OutOfBounds,
    Race,
    Stuck,
    Unwritten,
    launch,
)


def doubled(cuda, y, x, count):
    at = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if at < count:
        y[at] = 2 * x[at]


def test_each_thread_has_its_number_and_what_it_moves_is_counted():
    x, y = np.arange(100.0), np.zeros(100)
    counts = launch(doubled, 2, 64, y, x, 100)
    assert np.array_equal(y, 2 * x)
    assert (counts.reads, counts.writes, counts.longest) == (100, 100, 2)
    assert counts.transactions == 2 * 4  # numbers 0, 32, 64 and 96 begin a group


def test_blocks_and_threads_may_have_two_numbers():
    def places(cuda, out):
        x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        y = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        out[y, x] = 10 * y + x

    out = np.zeros((4, 9))
    launch(places, (3, 2), (3, 2), out)
    assert np.array_equal(out, 10 * np.arange(4)[:, None] + np.arange(9))


def test_transactions_are_groups_of_a_warp_and_conflicts_those_of_a_bank():
    def strided(cuda, y, x, stride):
        y[cuda.threadIdx.x] = x[stride * cuda.threadIdx.x]

    def banks(cuda, stride):
        held = cuda.shared.array(32 * stride)
        held[stride * cuda.threadIdx.x] = 1.0

    for stride, groups, waits in (
        (1, 1, 0),
        (2, 2, 1),
        (3, 3, 0),
        (8, 8, 7),
        (32, 32, 31),
    ):
        counts = launch(strided, 1, 32, np.zeros(32), np.zeros(32 * stride), stride)
        assert counts.transactions == 1 + groups
        assert launch(banks, 1, 32, stride).conflicts == waits

    def all_one(cuda, y, x):
        y[cuda.threadIdx.x] = x[0]

    assert launch(all_one, 1, 64, np.zeros(64), np.zeros(1)).transactions == 4


def test_a_shuffle_gives_what_another_thread_of_the_warp_brings():
    def sums(cuda, y, x):
        held, here = cuda.shared.array(2), cuda.threadIdx.x
        value = x[here]
        for step in (16, 8, 4, 2, 1):
            value += yield cuda.shfl_xor(value, step)
        if here % 32 == 0:
            held[here // 32] = value
        yield cuda.syncthreads()
        y[here] = held[1 - here // 32]

    x, y = np.arange(64.0) ** 2, np.zeros(64)
    counts = launch(sums, 1, 64, y, x)
    assert np.array_equal(y, np.repeat([x[32:].sum(), x[:32].sum()], 32))
    assert counts.barriers == 1


# Kernels that CUDA does not allow: (the fault, words of it, kernel, threads)


def beyond(cuda, y):
    y[cuda.threadIdx.x] = 0.0


def before(cuda, y):
    y[cuda.threadIdx.x - 1] = 0.0


def same_cell(cuda, y):
    y[0] = cuda.threadIdx.x


def lost_update(cuda, y):
    y[0] = y[0] + 1.0


def of_another_block(cuda, y):
    y[cuda.blockIdx.x] = y[1 - cuda.blockIdx.x] if cuda.blockIdx.x < 2 else 0.0


def no_barrier(cuda, y):
    held = cuda.shared.array(4)
    held[cuda.threadIdx.x] = 1.0
    y[cuda.threadIdx.x] = held[3 - cuda.threadIdx.x]


def read_then_written(cuda, y):
    held, here = cuda.shared.array(4), cuda.threadIdx.x
    held[here] = 1.0
    yield cuda.syncthreads()
    y[here] = held[(here + 1) % 4]
    held[here] = 2.0


def leaves(cuda, y):
    if cuda.threadIdx.x == 2:
        return
    yield cuda.syncthreads()


def leaves_late(cuda, y):
    for _ in range(1 + (cuda.threadIdx.x < 2)):
        yield cuda.syncthreads()


def another_barrier(cuda, y):
    if cuda.threadIdx.x < 2:
        yield cuda.syncthreads()
    else:
        yield cuda.syncthreads()


def no_yield(cuda, y):
    held = cuda.shared.array(4)
    held[cuda.threadIdx.x] = 1.0
    cuda.syncthreads()
    y[cuda.threadIdx.x] = held[0]


def at_the_end(cuda, y):
    cuda.syncthreads()


def bare_yield(cuda, y):
    yield


def shuffle_without_one(cuda, y):
    if cuda.threadIdx.x:
        yield cuda.shfl_xor(1.0, 1)
    else:
        yield cuda.syncthreads()


def shuffle_beyond(cuda, y):
    yield cuda.shfl_xor(1.0, 16)


def half(cuda, y):
    y[0.5] = 1.0


def one_of_two(cuda, y):
    held = cuda.shared.array((2, 2))
    held[0] = 1.0


def a_whole_array(cuda, y):
    y[cuda.threadIdx.x] = np.ones(2)


REFUSED = [
    (OutOfBounds, "thread 3 of block 0 writes y[3], and y has 3 cells", beyond),
    (OutOfBounds, "thread 0 of block 0 writes y[-1]", before),
    (Race, "thread 1 of block 0 writes y[0], which thread 0 of block 0 w", same_cell),
    (Race, "thread 1 of block 0 reads y[0], which thread 0 of block 0 w", lost_update),
    (Race, "and blocks do not wait for each other", of_another_block),
    (Unwritten, "thread 0 of block 0 reads shared[3], which nobody has", no_barrier),
    (Race, "writes shared[1], which thread 0 of block 0 reads,", read_then_written),
    (Stuck, "thread 0 of block 0 waits at a barrier for thread 2 of", leaves),
    (Stuck, "at a barrier for thread 2 of block 0, which has ended", leaves_late),
    (Stuck, "of block 0, which waits at another one", another_barrier),
    (Stuck, "asks for a barrier, and does not wait: write `yield`", no_yield),
    (Stuck, "asks for a barrier, and does not wait: write `yield`", at_the_end),
    (Stuck, "a kernel yields cuda.syncthreads() or a shuffle", bare_yield),
    (Stuck, "at a shuffle for thread 0 of block 0, which", shuffle_without_one),
    (Stuck, "its warp has 4 threads, none is 16", shuffle_beyond),
    (Fault, "one cell takes 1 whole number", half),
    (Fault, "one cell takes 2 whole numbers", one_of_two),
    (Fault, "writes a whole array to y[0]", a_whole_array),
]  # fmt: skip


def test_what_cuda_does_not_allow_is_refused_by_name():
    for kind, words, kernel in REFUSED:
        blocks, threads = (2, 1) if kernel is of_another_block else (1, 4)
        with pytest.raises(kind, match=re.escape(words)) as found:
            launch(kernel, blocks, threads, np.zeros(3 if kernel is beyond else 4))
        lines = [each.name for each in found.traceback]
        assert kernel.__name__ in lines or kernel is at_the_end


def test_a_barrier_parts_what_a_block_does_and_not_what_blocks_do():
    def in_turn(cuda, y):
        if cuda.threadIdx.x == 0:
            y[cuda.blockIdx.x] = 1.0
        yield cuda.syncthreads()
        if cuda.threadIdx.x == 1:
            y[cuda.blockIdx.x] = 2.0

    y = np.zeros(2)
    launch(in_turn, 2, 2, y)
    assert np.array_equal(y, [2, 2])


def test_a_threads_place_in_the_learners_text_is_told():
    def wrong(cuda, y, x, bias, count, width):
        y[cuda.threadIdx.x] = x[count]

    says = ex.bias_relu.judge(wrong).text
    assert "it raises OutOfBounds: thread 0 of block 0 reads x[12], and x has" in says
    assert "in line 2 of wrong: y[cuda.threadIdx.x] = x[count]" in says


@shim
@pytest.mark.slow
def test_the_solution_gives_what_the_projects_kernel_gives(monkeypatch):
    cuda_shim.installed(monkeypatch)
    cuda_shim.launches.clear()
    rng = np.random.default_rng(0)
    x, (gain, offset) = rng.normal(size=(5, 70)), rng.normal(size=(2, 70))
    mine = np.zeros_like(x)
    launch(ex.layer_norm.function, 5, 32, mine, x, gain, offset, 70, 1e-5)
    theirs = fused.layer_norm(*(device(single(each)) for each in (x, gain, offset)))
    assert np.allclose(mine, theirs.data.get(), atol=1e-5)
    assert cuda_shim.launches == ["layer_norm_forward"]


IN_NUMBA = """
import inspect, re
import numpy as np
from numba import cuda
from tinyrmc.course.exercises import cuda as ex

names = {"cuda": cuda, "add": lambda a, b: a + b}

def jitted(exercise, compiled=cuda.jit):
    text = inspect.getsource(exercise.function)
    text = text[text.index("def ") :].replace("yield from ", "").replace("yield ", "")
    text = text.replace("(cuda, ", "(")
    text = re.sub(r"array[(]([(]edge, edge[)]|[^)]+)[)]", r"array(\\1, float)", text)
    exec(compile(text, "kernel", "exec"), names)
    return compiled(names[exercise.name])

jitted(ex.block_reduce, compiled=lambda function: function)
rng = np.random.default_rng(0)
x, bias, y = rng.normal(size=15), rng.normal(size=5), np.zeros(15)
jitted(ex.bias_relu)[4, 4](y, x, bias, 15, 5)
assert np.allclose(y, np.maximum(x + np.tile(bias, 3), 0))
jitted(ex.neighbours)[4, 4](y, x, 15)
assert np.allclose(y, np.convolve(x, np.ones(3), "same"))
x, (gain, offset) = rng.normal(size=(3, 10)), rng.normal(size=(2, 10))
y = np.zeros((3, 10))
jitted(ex.layer_norm)[3, 4](y, x, gain, offset, 10, 1e-5)
assert np.allclose(y, ex.normed(x, gain, offset, 1e-5))
a, b, out = rng.normal(size=(5, 7)), rng.normal(size=(7, 6)), np.zeros((5, 6))
jitted(ex.product)[(2, 2), (4, 4)](out, a, b, 5, 7, 6)
assert np.allclose(out, a @ b)
"""


@pytest.mark.slow
def test_without_yield_the_solutions_run_in_numbas_simulator():
    """An independent reading of threads, blocks, barriers and shared memory."""
    pytest.importorskip("numba")
    done = subprocess.run(
        [sys.executable, "-c", IN_NUMBA],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-500:]
