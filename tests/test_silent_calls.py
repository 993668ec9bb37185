"""Calls that would give a wrong result without a word: settings, shapes, names, checks.

See test_engine_refusals.py for what a tape notices.
"""

import functools
from dataclasses import dataclass, field

import numpy as np
import pytest

from tinyrmc import Parameter, Tape, fused, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.gradcheck import gradcheck
from tinyrmc.cores import CoreConfig, build_core
from tinyrmc.cores.agent import AgentConfig
from tinyrmc.cores.config import MapCoreConfig
from tinyrmc.training import Task, TrainConfig
from tinyrmc.training.discovery import load_task


def normal(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def ones(*shape):
    return np.ones(shape, np.float32)


# --- Settings -------------------------------------------------------------------------


def test_settings_that_a_command_line_takes_are_taken():
    CoreConfig("lstm", total_units=np.int64(8), forget_bias=1)
    assert MapCoreConfig(core="feedforward").core == "feedforward"
    AgentConfig(core="conv_lstm", total_units=7)  # it has no units in all
    load_task("recall").DataConfig(keys=2, rewrites=True)


def test_a_tasks_own_settings_are_checked_too():
    @dataclass(frozen=True)
    class Config:
        lengths: tuple[int, ...] = (1, 2)
        train: TrainConfig = field(default_factory=TrainConfig)

    Task(Config())
    with pytest.raises(ValueError, match="lengths must be"):
        Task(Config(lengths=(1, "2")))
    with pytest.raises(ValueError, match=r"train\.steps must be an integer"):
        Task(Config(train=TrainConfig(steps=2.5)))


# --- Shapes that would broadcast ------------------------------------------------------

SHAPES = {
    "layer_norm": ((2, 1), (5,), (5,)),
    "layer_norm's residual": ((2, 5), (5,), (5,), (1, 5)),
    "linear": ((2, 3), (3, 4), (1,)),
    "conv2d": ((1, 4, 4, 2), (2, 2, 2, 3), (1,)),
    "rmc_gates": ((2, 1, 6), (2, 4, 6), (1, 4, 3), (2, 4, 3)),
    "rmc_gates's columns": ((2, 1, 4), (2, 4, 4), (2, 4, 1), (2, 4, 1)),
    "lstm_gates": ((2, 20), (2, 4)),
    "lstm": ((3, 2, 4), (6, 8), (8,), (1, 2), (2, 2)),
    "memory_hop": ((1, 2, 3), (1, 4, 3), (1, 4, 3), (1, 5, 4)),
    "sliding_hop": ((2, 3, 4), (2, 4, 4), (1, 4), (2, 4, 4), (1, 4)),
    "content_weights": ((2, 2, 3), (1, 4, 3), (2, 2)),
    "erase_and_write": ((2, 4, 3), (2, 2, 4), (1, 2, 3), (2, 2, 3)),
    "temporal_links": ((2, 1, 4, 4), (2, 1, 4), (1, 1, 4)),
    "linear_scan": ((3, 2), (3, 1), (2,)),
    "solve_lower": ((1, 3, 3), (2, 3, 2)),
}


def test_fused_operations_do_not_broadcast():
    for name, shapes in SHAPES.items():
        operation = getattr(fused, name.partition("'")[0])
        with pytest.raises(ValueError, match=operation.name):
            operation(*[normal(*shape) for shape in shapes])


def test_a_mask_for_examples_is_none_for_heads():
    qkv, mask = normal(2, 4, 24), np.ones((2, 4, 4), bool)
    with pytest.raises(ValueError, match="examples, or heads"):
        fused.attention(qkv, mask, num_heads=2, key_size=4)
    mask[0, :, 1:] = False
    trace: dict = {}
    fused.attention(qkv, mask[:, None], num_heads=2, key_size=4, trace=trace)
    assert (trace["attention"][0, :, :, 0] == 1).all()
    assert (trace["attention"][1] < 1).all()


def test_lengths_are_within_the_steps():
    for name in "rmc", "lstm", "dnc":
        core = build_core(CoreConfig(name, hidden_size=4, head_size=2), 3, 0)
        for lengths in np.array([-1, 2]), np.array([2, 9]):
            with pytest.raises(ValueError, match=r"integers from 0 to 4"):
                core.unroll(ones(2, 4, 3), core.initial_state(2), lengths=lengths)


# --- Arrays with rules of their own ---------------------------------------------------


class Lengths(np.ndarray):
    """Numbers with a unit, say."""


def test_arrays_with_rules_of_their_own_are_refused():
    for make in np.ma.masked_array, lambda a: a.view(Lengths):
        for call in p.sum, Parameter:
            with pytest.raises(TypeError, match="an array with rules of its own"):
                call(make(ones(2, 3)))


# --- Names ----------------------------------------------------------------------------


def test_parameters_of_a_subclass_of_mlp_are_found():
    class Scaled(nn.MLP):
        def __init__(self):
            super().__init__(3, [4], seed=0)
            self.scale = Parameter(ones(4))

    names = [name for name, _ in Scaled().named_parameters()]
    assert names == ["0.weight", "0.bias", "scale"]


def test_two_parameters_have_two_names():
    def parameters(value):
        if isinstance(value, dict):
            return {key: parameters(part) for key, part in value.items()}
        return Parameter(value)

    module = nn.Module()
    for parts in {0: ones(2), "0": ones(3)}, {"a.b": ones(2), "a": {"b": ones(3)}}:
        module.parts = parameters(parts)
        with pytest.raises(ValueError, match="two parameters are called 'parts"):
            module.parameters()


@dataclass
class Holder:
    held: object


def test_parameters_where_nobody_looks_are_refused():
    x, module = Parameter(ones(3)), nn.Module()
    partial = functools.partial(fused.linear, weight=x)
    for module.hidden in {x}, {"a": x}.values(), Holder(x), partial:
        with pytest.raises(TypeError, match=r"hidden is a .*, which is not searched"):
            module.parameters()


def test_a_parameter_of_a_class_is_refused():
    class Shared(nn.Module):
        weight = Parameter(ones(3))

    with pytest.raises(TypeError, match=r"Shared\.weight belongs to the class"):
        Shared().parameters()


def test_a_module_that_knows_its_parent_is_walked_once():
    module, child = nn.Module(), nn.Linear(2, 3, seed=0)
    module.child, child.parent = child, module
    assert [n for n, _ in module.named_parameters()] == ["child.weight", "child.bias"]


# --- What was wrong, and is right -----------------------------------------------------


def test_a_logit_of_minus_infinity(xp):
    logits = xp.asarray(np.array([[0.0, -np.inf, 1.0]]))
    target = xp.asarray(np.array([0]))
    expected = np.log1p(np.e)
    for call in fused.softmax_cross_entropy, fused.softmax_cross_entropy.reference:
        with Tape() as tape:
            x = tape.watch(logits)
            loss = call(x, target)
            total = p.sum(loss)
        assert float(loss.data[0]) == pytest.approx(expected, rel=1e-14)
        gradient = tape.gradient(total, x)
        assert bool((gradient == gradient).all())
        assert float(gradient[0, 1]) == 0


def test_an_action_that_is_forbidden():
    logits, actions = np.array([[0.0, -np.inf, 1.0]]), np.array([0])
    two, _ = fused.categorical(logits[:, [0, 2]], actions), None
    for call in fused.categorical, fused.categorical.reference:
        with Tape() as tape:
            x = tape.watch(logits)
            chosen, entropy = call(x, actions)
            total = p.sum(chosen) + p.sum(entropy)
        assert chosen.data == pytest.approx(two[0].data, rel=1e-14)
        assert entropy.data == pytest.approx(two[1].data, rel=1e-14)
        assert np.isfinite(tape.gradient(total, x)).all()


def test_products_over_no_numbers(xp):
    for operation in p.matmul, fused.linear:
        w = Parameter(xp.ones((0, 3), np.float32))
        with Tape() as tape:
            x = tape.watch(xp.ones((2, 4, 0), np.float32))
            loss = p.sum(operation(x, w))
        assert float(loss.data) == 0
        gx, gw = tape.gradient(loss, [x, w])
        assert gx.shape == (2, 4, 0)
        assert gw.shape == (0, 3)


def test_means_of_no_rows():
    with Tape() as tape:
        x = tape.watch(np.ones((0, 3)))
        y = p.mean(x, axis=1)
        loss = p.sum(y)
    assert y.shape == (0,)
    assert tape.gradient(loss, x).shape == (0, 3)


class LikeCuPy:
    """NumPy, but for `clip`, which CuPy refuses for complex numbers."""

    def __getattr__(self, name):
        return getattr(np, name)

    def clip(self, x, low, high):
        assert x.dtype.kind != "c"
        return np.clip(x, low, high)


def test_clip_of_a_complex_step():
    x = np.array([-1.0, 0.5, 3.0]) + 1j * np.array([1e-30, 2e-30, 3e-30])
    assert p.clip(x, 0.0, 2.0).data.tolist() == [0, 0.5 + 2e-30j, 2]
    assert p.clip(x, None, 2.0).data.tolist() == [*x[:2], 2]
    gradcheck(lambda x: p.clip(x, 0.0, 2.0), np.array([-1.0, 0.5, 3.0]))
    clipped, _ = p.clip.forward(LikeCuPy(), x, a_min=0.0, a_max=2.0)
    assert clipped.tolist() == [0, 0.5 + 2e-30j, 2]
