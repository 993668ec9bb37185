"""The Differentiable Neural Computer against a slow one, written word by word.

And its gradients, what must hold of any memory, and errors.
"""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import unrolled
from turns import in_turn

from tinyrmc import DNC, Tape, fused
from tinyrmc import primitives as p
from tinyrmc.backend import to_host
from tinyrmc.cores.dnc import allocation, allocations, follow_links, update_usage

T, B, INPUT = 10, 2, 3
SETTING = {
    "N": 4,
    "W": 3,
    "R": 2,
    "H": 2,
    "layers": 2,
    "controller": "lstm",
    "strength": "softplus",
    "clip": 20.0,
}
VARIATIONS = [
    {},
    {"H": 1, "layers": 1},
    {"R": 1, "H": 3},
    {"N": 1, "W": 1},
    {"N": 5, "W": 1, "R": 3},
    {"strength": "oneplus"},
    {"clip": None},
    {"clip": 0.4},
    {"controller": "feedforward"},
    {"controller": "feedforward", "layers": 1, "clip": 0.7},
]
varied = in_turn("change", VARIATIONS)


def dnc_of(change=(), seed=0, spread=0.7):
    """A DNC with random parameters, biases too, and its setting."""
    s = SETTING | dict(change)
    sizes = s["N"], s["W"], 4, s["R"], s["H"], s["layers"]
    kinds = s["controller"], s["strength"], s["clip"]
    core = DNC(INPUT, *sizes, *kinds, output_size=5, dtype=np.float64, seed=0)
    rng = np.random.default_rng(seed)
    for parameter in core.parameters():
        parameter.data = spread * rng.standard_normal(parameter.shape)
    return core, s


def weightings(rng, *shape):
    """In the simplex, with something left over."""
    found = rng.random(shape) + 0.1
    return found / (found.sum(-1, keepdims=True) + 0.3)


def a_state(s, seed=0):
    """A state as it may be in the middle of a sequence.

    From zero, words tie for the least used, and rounding decides which is first.
    """
    rng = np.random.default_rng(seed)
    N, W, R, H = (s[name] for name in "NWRH")
    memory, words = rng.standard_normal((B, N, W)), rng.standard_normal((B, R * W))
    usage = rng.random((B, N))
    links = rng.random((B, H, N, N)) * (1 - np.eye(N)) / N
    precedence, write = weightings(rng, B, H, N), weightings(rng, B, H, N)
    read = weightings(rng, B, R, N)
    controller = ()
    if s["controller"] == "lstm":
        pairs = [rng.standard_normal((2, B, 4)) / 2 for _ in range(s["layers"])]
        controller = tuple(map(tuple, pairs))
    return memory, usage, links, precedence, write, read, words, controller


def the_inputs(seed=0):
    return np.random.default_rng(seed).standard_normal((T, B, INPUT))


def everywhere(xp, state):
    return tuple(
        everywhere(xp, part) if isinstance(part, tuple) else xp.asarray(part)
        for part in state
    )


def for_the_oracle(s, state):
    return state if state[7] else (*state[:7], [(np.zeros((B, 0)),) * 2] * s["layers"])


# --- the same as the oracle -----------------------------------------------------------


@varied
def test_equals_the_oracle_over_10_steps(xp, change):
    core, s = dnc_of(change)
    P = {name: parameter.data for name, parameter in core.named_parameters()}
    state, inputs = a_state(s), the_inputs()
    expected = oracles.dnc(np, P, s, inputs, for_the_oracle(s, state))
    outputs, _ = unrolled(core.to(xp), xp.asarray(inputs), everywhere(xp, state))
    np.testing.assert_allclose(
        [to_host(output.data) for output in outputs], expected, rtol=1e-9, atol=1e-11
    )
    if s["clip"] is not None and s["clip"] < 1:  # the bound was met
        assert (np.abs(expected) == s["clip"]).any()


# --- what must hold of any memory -----------------------------------------------------

NEARLY = 1e-12


def in_the_simplex(weights):
    return weights.min() >= -NEARLY and weights.sum(-1).max() <= 1 + NEARLY


@given(st.integers(1, 6), st.integers(0, 1000), st.booleans())
def test_allocation_points_at_what_is_least_in_use(words, seed, some_are_full):
    usage = np.random.default_rng(seed).random((3, words))
    if some_are_full:
        usage[0] = 1.0
    found = allocation(usage).data
    assert in_the_simplex(found)
    u = 1e-6 + (1 - 1e-6) * usage
    for b, n in np.ndindex(usage.shape):
        before = np.prod([v for v in u[b] if v < u[b, n]])
        expected = (1 - u[b, n]) * before
        assert found[b, n] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert (found.argmax(1) == usage.argmin(1))[0 if not some_are_full else 1 :].all()
    assert not some_are_full or found[0].max() < 1e-5


def test_of_words_equally_in_use_the_first_is_taken(xp):
    assert to_host(allocation(xp.zeros((1, 4))).data)[0] == pytest.approx(
        [1, 1e-6, 1e-12, 1e-18], rel=1e-5
    )
    assert to_host(allocation(xp.asarray([[0.5, 0.5, 0.5]])).data)[0] == pytest.approx(
        [0.5, 0.25, 0.125], rel=1e-5
    )


def test_several_heads_are_given_different_words(xp):
    usage = xp.asarray([[0.2, 0.0, 0.9, 0.1]])
    given = to_host(allocations(usage, xp.ones((1, 3))).data)
    assert given[0].argmax(-1).tolist() == [1, 3, 0]
    # a head that writes nothing takes nothing
    unused = to_host(allocations(usage, xp.zeros((1, 2))).data)
    np.testing.assert_array_equal(unused[0, 0], unused[0, 1])


def test_what_was_read_and_is_declared_free_is_given_out_again():
    write, read = np.zeros((1, 1, 3)), np.array([[[0.0, 1.0, 0.0]]])
    for free, place in ((1.0, 1), (0.0, 2)):
        usage = update_usage(
            np.array([[0.9, 0.95, 0.8]]), write, read, np.array([[free]])
        )
        assert allocation(usage).data.argmax() == place
    write = np.array([[[0.0, 0.5, 0.0], [0.0, 0.5, 1.0]]])
    written = update_usage(np.zeros((1, 3)), write, read, np.zeros((1, 1)))
    assert written.data.tolist() == [[0.0, 0.75, 1.0]]


@given(st.integers(1, 6), st.integers(0, 1000))
def test_what_was_written_is_found_by_content_and_by_time(words, seed):
    """As many vectors as there are words, each written to its own word.

    Each is found by itself, and by those before and after.
    """
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((words, 12))
    memory, usage = rng.standard_normal((1, words, 12)), np.zeros((1, words))
    links = np.zeros((1, 1, words, words))
    precedence = write = np.zeros((1, 1, words))
    read, places = np.zeros((1, 1, words)), []
    for vector in vectors:
        usage = update_usage(usage, write, read, np.ones((1, 1)))
        write = allocations(usage, np.ones((1, 1)))
        memory = fused.erase_and_write(
            memory, write, np.ones((1, 1, 12)), vector[None, None]
        )
        links = fused.temporal_links(links, write, precedence)
        precedence = (1 - p.sum(write, axis=-1, keepdims=True)) * precedence + write
        places.append(write)
    assert sorted(place.data.argmax() for place in places) == list(range(words))
    for vector in vectors:
        found = fused.content_weights(vector[None, None], memory, np.full((1, 1), 1e4))
        np.testing.assert_allclose((found @ memory).data[0, 0], vector, atol=1e-4)
    for earlier, later in itertools.pairwise(places):
        np.testing.assert_allclose(
            follow_links(links, earlier).data[:, :, 1], later.data, atol=1e-4
        )
        np.testing.assert_allclose(
            follow_links(links, later).data[:, :, 0], earlier.data, atol=1e-4
        )


def test_no_gradient_flows_from_usage_into_what_was_written():
    rng = np.random.default_rng(0)
    write, read = weightings(rng, 1, 2, 3), weightings(rng, 1, 1, 3)
    free = rng.random((1, 1))
    with Tape() as tape:
        w, r = tape.watch(write), tape.watch(read)
        loss = p.sum(p.square(update_usage(rng.random((1, 3)), w, r, free)))
    of_write, of_read = tape.gradient(loss, [w, r], strict=False)
    assert not of_write.any() and of_read.all()
    moved = update_usage(rng.random((1, 3)), write + 1e-30j, read, free)
    assert not moved.data.imag.any()


# --- the rest -------------------------------------------------------------------------


def test_parameters_have_stable_names_and_shapes():
    core = DNC(3, 5, 4, 6, read_heads=2, write_heads=3, layers=2, seed=0)
    names = {name: parameter.shape for name, parameter in core.named_parameters()}
    columns = 3 * (3 * 4 + 3) + 2 * (4 + 2 + 7)
    assert names == {
        "controller.layers.0.gates.weight": (3 + 8 + 6, 24),
        "controller.layers.0.gates.bias": (24,),
        "controller.layers.1.gates.weight": (3 + 8 + 12, 24),
        "controller.layers.1.gates.bias": (24,),
        "interface.weight": (12, columns),
        "interface.bias": (columns,),
        "output.weight": (12 + 8, 6),
        "output.bias": (6,),
    }
    core = DNC(3, 5, 4, 6, layers=2, controller="feedforward", seed=0)
    layers = [name for name, _ in core.named_parameters()][:4]
    assert layers == [
        f"controller.{k}.{name}" for k in range(2) for name in ("weight", "bias")
    ]


def test_the_trace_is_what_was_computed(xp):
    core, s = dnc_of()
    (x, *_), state, trace = the_inputs(), everywhere(xp, a_state(s)), []
    _, after = core.to(xp)(xp.asarray(x), state, trace)
    (seen,) = trace
    for name, place in (("write", 4), ("read", 5), ("usage", 1)):
        np.testing.assert_array_equal(to_host(seen[name]), to_host(after[place].data))
    assert seen["read_modes"].shape == (B, 2, 5)
    for name in "allocation_gates", "write_gates", "free_gates":
        assert seen[name].shape == (B, 2)
