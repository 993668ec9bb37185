"""Switches that hold in all threads while a block runs, in whichever order they end."""

import gc
import random
import threading

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tinyrmc import Tape, backend, fused
from tinyrmc.autograd import engine
from tinyrmc.backend import gpu
from tinyrmc.backend.gpu import graph
from tinyrmc.backend.switches import Switch


def blas():
    return [x["num_threads"] for x in threadpool_info() if x["user_api"] == "blas"]


WAYS = {  # a block of each switch, and what to look at
    "plain": (fused.plain, fused.is_plain, True),
    "compiled": (lambda: fused.held_compiled(True), fused.bodies, None),
    "kernels": (gpu.off, lambda: not gpu._on.value, True),
    "collecting": (lambda: graph._collecting.held(False), gc.isenabled, False),
    "blas": (lambda: backend.blas_threads(1), blas, None),
}


@pytest.mark.parametrize("name", WAYS)
def test_blocks_that_overlap_in_threads_leave_all_as_it_was(name, monkeypatch):
    """First in, first out: each would restore what it saw."""
    monkeypatch.delenv("TINYRMC_COMPILED", raising=False)
    block, look, inside = WAYS[name]
    with threadpool_limits(2, user_api="blas"):
        before, turns = look(), [threading.Event() for _ in range(3)]

        def first():
            with block():
                turns[0].set()
                turns[1].wait(60)
            turns[2].set()

        thread = threading.Thread(target=first)
        thread.start()
        turns[0].wait(60)
        with block():
            held = look()
            turns[1].set()
            turns[2].wait(60)
            assert look() == held, "the end of the other block has ended this one"
            assert inside is None or held == inside
        thread.join()
        assert look() == before


def test_many_blocks_in_any_order():
    """Against a list of those that are open, by hand."""
    seen, rng = [], random.Random(0)
    switch, held = Switch(0, seen.append), []
    for _ in range(500):
        if held and rng.random() < 0.5:
            block, _ = held.pop(rng.randrange(len(held)))
            block.__exit__(None, None, None)
        elif rng.random() < 0.1:
            value = rng.randrange(5)
            switch.set(value)
            if held:
                held[-1] = held[-1][0], value
            else:
                usual = value  # noqa: F841
        else:
            value = rng.randrange(5)
            block = switch.held(value)
            block.__enter__()
            held.append((block, value))
        assert not held or switch.value == held[-1][1]
    for block, _ in held:
        block.__exit__(None, None, None)
    assert switch.value == switch._wanted[0][0] == seen[-1]


def test_what_another_thread_sets_outlives_the_block_of_this_one():
    switch = Switch("usual")
    for value in "other", "third":
        with switch.held("mine"):
            thread = threading.Thread(target=switch.set, args=(value,))
            thread.start()
            thread.join()
            assert switch.value == "mine"
            switch.set("mine again")
            assert switch.value == "mine again"
        assert switch.value == value


def test_an_error_in_a_block_ends_it():
    switch = Switch("usual")
    with pytest.raises(KeyError), switch.held("another"):
        raise KeyError
    assert switch.value == "usual"


def test_a_block_that_ends_after_its_tape_brings_none_back():
    """As a generator's may, which is closed late."""
    with Tape():
        block = engine.unrecorded()
        block.__enter__()
        assert not engine.is_recording()
    block.__exit__(None, None, None)
    with Tape():
        pass
    block = engine.unrecorded()
    block.__enter__()
    with Tape():
        block.__exit__(None, None, None)
        assert engine.is_recording()


def test_compiled_bodies_are_never_away_in_between(monkeypatch):
    """A thread that computes meanwhile would take another body, and get other bits."""
    pytest.importorskip("numba")
    monkeypatch.delenv("TINYRMC_COMPILED", raising=False)
    with fused.held_compiled(True):
        lost, over = [], threading.Event()

        def looks():
            while not over.is_set():
                if fused.bodies() == "numpy":
                    lost.append(True)

        thread = threading.Thread(target=looks)
        thread.start()
        for _ in range(200):
            fused.use_compiled()
        over.set()
        thread.join()
        assert not lost
    assert fused.bodies() == "numpy"
