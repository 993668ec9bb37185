"""The cores that --model.core chooses from.

One interface for all, their sizes, and what a configuration refuses.
"""

import dataclasses
import inspect
import itertools
import typing

import numpy as np
import pytest
from numpy.testing import assert_allclose
from turns import in_turn

from tinyrmc import Tape, Tensor, gradcheck, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.nested import leaves, refilled
from tinyrmc.backend import to_host
from tinyrmc.cli.commands import Parser, add_flags, from_flags
from tinyrmc.config import words_of
from tinyrmc.cores import (
    DNC,
    GRU,
    LSTM,
    RNN,
    STM,
    ConvLSTM,
    CoreConfig,
    DeepLSTM,
    DeltaNet,
    DNCConfig,
    EntNet,
    EntNetBank,
    Feedforward,
    LinearAttention,
    PaperRelationalMemory,
    RelationalMemory,
    SelectiveSSM,
    Transformer,
    build_core,
    describe,
    registry,
)
from tinyrmc.cores.config import SettingsError, unused
from tinyrmc.cores.core import Core
from tinyrmc.errors import UsageError
from tinyrmc.training.discovery import load_task, task_files

CORES = registry.names()
every_core = in_turn("name", CORES)
SMALL = CoreConfig(
    mem_slots=3,
    head_size=2,
    num_heads=2,
    activate_final=False,
    hidden_size=4,
    layers=2,
    settings={"dnc": DNCConfig(3, 2, 2)},
)


def small(name):
    return dataclasses.replace(SMALL, core=name)


def on_host(value):
    return to_host(value.data if isinstance(value, Tensor) else value)


def parse(words):
    parser = Parser("prog", "")
    add_flags(parser, CoreConfig(), "model")
    try:
        return from_flags(CoreConfig(), parser.parse_args(words))
    except ValueError as error:
        parser.error(str(error))


@in_turn("number", [-1e-05, -2.5e10, -0.5, -7.0, -np.inf])
def test_a_flag_takes_back_the_words_that_stand_for_a_number(number):
    config = CoreConfig(forget_bias=number)
    assert parse(words_of(config, CoreConfig())) == config


@every_core
def test_every_core_has_the_one_interface(xp, name):
    core = build_core(small(name), 5, seed=1).to(xp)
    state, trace = core.initial_state(7), []
    x = np.random.default_rng(0).standard_normal((7, 3, 5)).astype(np.float32)
    for t in range(3):
        output, after = core(xp.asarray(x[:, t]), state, trace)
        assert output.shape == (7, core.output_size) and output.dtype == np.float32
        kinds, kinds_before = (
            [(leaf.shape, leaf.dtype) for leaf in leaves(each)]
            for each in (after, state)
        )
        assert kinds == kinds_before
        assert {shape[0] for shape, _ in kinds} == {7}  # examples first, everywhere
        state = after
    assert len(trace) in (0, 3)  # of those that have something to show, each step
    assert all(type(a) is xp.ndarray for step in trace for a in step.values())
    outputs, last = core.unroll(xp.asarray(x), core.initial_state(7))
    assert_allclose(
        to_host(outputs[-1].data), to_host(output.data), rtol=1e-5, atol=1e-6
    )
    for ours, theirs in zip(leaves(last), leaves(state), strict=True):
        assert_allclose(to_host(ours.data), to_host(theirs.data), rtol=1e-5, atol=1e-6)


SMALLEST = {
    RelationalMemory: {"input_size": 5, "mem_slots": 2, "head_size": 4},
    PaperRelationalMemory: {"input_size": 5, "mem_slots": 2, "head_size": 4},
    LSTM: {"input_size": 5, "hidden_size": 4},
    DeepLSTM: {"input_size": 5, "hidden_size": 4, "layers": 2},
    RNN: {"input_size": 5, "hidden_size": 4},
    GRU: {"input_size": 5, "hidden_size": 4},
    Feedforward: {"input_size": 5, "hidden_size": 4},
    DNC: {"input_size": 5, "mem_slots": 4, "word_size": 3, "hidden_size": 4},
    EntNet: {"input_size": 5, "mem_slots": 4, "mem_size": 3},
    EntNetBank: {"input_size": 5, "cells": 4, "hidden_size": 3},
    ConvLSTM: {"height": 2, "width": 3, "in_channels": 2, "channels": 4, "kernel": 3},
    Transformer: {"input_size": 5, "head_size": 4, "num_heads": 2, "window": 3},
    LinearAttention: {"input_size": 5, "head_size": 4, "num_heads": 2},
    DeltaNet: {"input_size": 5, "head_size": 4, "num_heads": 2, "layers": 2},
    SelectiveSSM: {"input_size": 5, "head_size": 4, "state_size": 3},
    STM: {"input_size": 5, "mem_slots": 3, "mem_size": 4},
}


def test_lengths_are_those_of_each_example_run_alone_step_by_step(xp):
    """For every core, with no step and with all: last outputs, states and gradients."""
    for make, settings in SMALLEST.items():
        core = make(**settings, dtype=np.float64, seed=0).to(xp)
        rng, lengths = np.random.default_rng(0), np.array([0, 3, 5, 1, 5], np.uint8)
        x = xp.asarray(rng.standard_normal((5, 5, core.input_size)))
        weights = xp.asarray(rng.standard_normal((5, core.output_size)))
        with Tape() as tape:
            seen = tape.watch(x)
            state = core.initial_state(5)
            output, state = core.last_output(seen, state, xp.asarray(lengths))
            loss = p.sum(output * weights)
        found = tape.gradient(loss, [seen, *core.parameters()], strict=False)
        with Tape() as tape:
            seen, loss, alone = tape.watch(x), 0.0, []
            for k, length in enumerate(lengths.tolist()):
                expected, own = xp.zeros((1, core.output_size)), core.initial_state(1)
                for t in range(length):
                    expected, own = core(seen[k : k + 1, t], own)
                loss = loss + p.sum(expected * weights[k])
                alone.append([expected, *leaves(own)])
        expected = tape.gradient(loss, [seen, *core.parameters()], strict=False)
        for ours, theirs in zip(found, expected, strict=True):
            assert_allclose(to_host(ours), to_host(theirs), 1e-10, 1e-12)
        for ours, *theirs in zip([output, *leaves(state)], *alone, strict=True):
            for k, each in enumerate(theirs):
                here, there = on_host(ours)[k : k + 1], on_host(each)
                assert_allclose(here, there, 1e-10, 1e-12)


class LowRank(nn.Linear):
    """A layer that learns what it adds to another one's weight."""

    weight = property(lambda self: self.other.weight + self.a @ self.b)

    def __init__(self, other, rng):
        self.other, self.bias, self.relu = other, other.bias, other.relu
        self.a, self.b = (
            nn.Parameter(rng.standard_normal(shape))
            for shape in ((other.weight.shape[0], 1), (1, other.weight.shape[1]))
        )


@in_turn("kind, layer", {LSTM: "gates", RNN: "linear", GRU: "linear"}.items())
def test_a_layer_may_compute_its_weight(xp, kind, layer):
    core, rng = kind(3, 2, dtype=np.float64, seed=0), np.random.default_rng(0)
    setattr(core, layer, LowRank(getattr(core, layer), rng))
    x, gradients = xp.asarray(rng.standard_normal((2, 4, 3))), []
    for trace in None, []:  # all steps at once, and one after the other
        with Tape() as tape:
            outputs, _ = core.to(xp).unroll(x, core.initial_state(2), trace)
            loss = p.sum(p.stack(outputs) ** 2)
        gradients.append(map(to_host, tape.gradient(loss, core.parameters())))
    for ours, theirs in zip(*gradients, strict=True):
        assert ours.any()
        assert_allclose(ours, theirs, 1e-10, 1e-12)


def test_the_gru_is_what_it_says():
    """One gate after the other, and gradients by the complex step."""
    core, rng = GRU(3, 2, dtype=np.float64, seed=1), np.random.default_rng(0)
    x, h = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    W, b = core.linear.weight.data, rng.standard_normal(6)
    core.linear.bias.data = b
    z, r = (1 / (1 + np.exp(-(np.c_[x, h] @ W + b)[:, k : k + 2])) for k in (0, 2))
    candidate = np.tanh((np.c_[x, r * h] @ W + b)[:, 4:])
    output, state = core(x, h)
    assert output is state
    assert_allclose(output.data, z * h + (1 - z) * candidate, 1e-12)
    sequence = rng.standard_normal((4, 3, 3))
    gradcheck(
        lambda x, h: core.unroll(x, h)[0], sequence, h, parameters=core.parameters()
    )


@in_turn("make, good", SMALLEST.items())
def test_what_a_core_refuses_is_named(xp, make, good):
    name, arguments = make.__name__, inspect.signature(make).parameters.items()
    sizes = [size for size, x in arguments if x.annotation in ("int", "int | None")]
    assert {*good} <= {*sizes}
    for size, value in itertools.product(sizes, [0, -1, 1.5, True, "3"]):
        with pytest.raises(ValueError, match=f"^{name}: {size} must be an integer of"):
            make(**good | {size: value}, seed=0)
    for dtype in int, bool, str:
        with pytest.raises(TypeError, match="dtype must be floating point"):
            make(**good, dtype=dtype, seed=0)
    core = make(**good, seed=0).to(xp)
    for batch in 0, -1, 2.0:
        says = f"batch_size must be an integer of at least 1, not {batch}$"
        with pytest.raises(ValueError, match=says):
            core.initial_state(batch)

    state, x = core.initial_state(3), xp.zeros((3, core.input_size), np.float32)
    called = name.removeprefix("Deep")  # its layers refuse
    core(x, state)
    for bad in x[:, :-1], x[0], x[:, None]:
        with pytest.raises(ValueError, match=rf"^{called} expects inputs \(B, .*, got"):
            core(bad, state)
    for bad in xp.zeros(x.shape), xp.zeros(x.shape, np.int64), x.tolist():
        with pytest.raises(TypeError, match=f"^{called} (has float32 param|expects)"):
            core(bad, state)
    parts = [part.data if isinstance(part, Tensor) else part for part in leaves(state)]
    for k, part in enumerate(parts):
        for bad in part[:1], part[:, :1], part[:, :0], part[0], part[..., :-1]:
            if bad.shape != part.shape:
                wrong = refilled(state, [*parts[:k], bad, *parts[k + 1 :]])
                with pytest.raises(ValueError, match=r" expects a state \(3, .*, got "):
                    core(x, wrong)


@every_core
def test_the_arrays_of_a_first_state_are_several(name):
    """Who writes into one of them changes no other, nor a Parameter."""
    core = build_core(small(name), 5, seed=1)
    state = [
        x.data if isinstance(x, Tensor) else x for x in leaves(core.initial_state(2))
    ]
    parts = state + [parameter.data for parameter in core.parameters()]
    for one, other in itertools.combinations(parts, 2):
        assert not np.shares_memory(one, other)


@every_core
def test_what_has_ended_begins_no_new_episode(name):
    core, rng = build_core(small(name), 5, seed=1), np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 5)).astype(np.float32)
    fresh = np.array([[0, 1, 0, 1], [0, 0, 1, 0]], bool)  # of the first, once too late
    _, last = core.unroll(
        x, core.initial_state(2), lengths=np.array([3, 4]), is_first=fresh
    )
    for row, steps in enumerate((3, 4)):
        alone, part = core.initial_state(1), slice(row, row + 1)
        _, alone = core.unroll(x[part, :steps], alone, is_first=fresh[part, :steps])
        for ours, theirs in zip(leaves(last), leaves(alone), strict=True):
            assert_allclose(ours.data[part], theirs.data, rtol=1e-4, atol=1e-6)


@every_core
def test_no_steps_are_refused_in_words(xp, name):
    core = build_core(small(name), 5, seed=1).to(xp)
    with pytest.raises(ValueError, match="no steps"):
        core.unroll(xp.zeros((2, 0, 5), np.float32), core.initial_state(2))


@every_core
def test_gradients_through_10_steps_are_the_complex_steps(name):
    """Of the inputs, every part of the first state, and all parameters."""
    core = build_core(small(name), 5, seed=2).astype(np.float64)
    rng = np.random.default_rng(2)
    for parameter in core.parameters():  # those that start at zero or one, too
        parameter.data = parameter.data + 0.3 * rng.standard_normal(parameter.shape)
    start = core.initial_state(2)
    # Any numbers will do as a state. All zeros will not: the DNC's words would tie for
    # the least used, which rounding decides.
    arrays = [0.2 * rng.random(leaf.shape) for leaf in leaves(start)]
    # the write weightings, into which no gradient flows (see update_usage), and which
    # steps there are in a window
    still = {"dnc": [4], "transformer": [2, 5]}.get(name, [])
    moving = [k for k in range(len(arrays)) if k not in still]

    def outputs(inputs, *moved):
        parts = dict(enumerate(arrays)) | dict(zip(moving, moved, strict=True))
        return tuple(core.unroll(inputs, refilled(start, parts.values()))[0])

    inputs = rng.standard_normal((2, 10, 5))
    # all but those that a first state is, which is given here
    parameters = [x for n, x in core.named_parameters() if not n.startswith("first")]
    parts = [arrays[k] for k in moving]
    gradcheck(outputs, inputs, *parts, parameters=parameters, tolerance=1e-9)


@in_turn(
    "config, says, output",
    [
        (CoreConfig(), "rmc, 4 slots x 64 units, 4 heads", 256),
        (
            CoreConfig("rmc", 8, num_heads=16, total_units=2048),
            "rmc, 8 slots x 256 units, 16 heads",
            2048,
        ),
        (
            CoreConfig("lstm", layers=2, total_units=10),
            "lstm of 2 layers of 10 units",
            20,
        ),
        (
            CoreConfig(
                "dnc",
                2,
                total_units=6,
                hidden_size=5,
                layers=2,
                settings={"dnc": DNCConfig(7, 1, 2, "feedforward")},
            ),
            "dnc, 2 words x 3, 1 read and 2 write heads, feedforward controller of 2 "
            "layers of 5 units",
            5,
        ),
        (CoreConfig("entnet", 3, total_units=12), "entnet, 3 slots x 4 units", 4),
        (
            CoreConfig("entnet_bank", 8, total_units=2048),
            "entnet_bank, 8 cells of 256 units",
            256,
        ),
        (CoreConfig("entnet_bank", 1), "entnet_bank, 1 cell of 64 units", 64),
        (CoreConfig("rmc", 1, num_heads=1), "rmc, 1 slot x 16 units, 1 head", 16),
        (CoreConfig("rnn", 3, total_units=10), "rnn of 10 units", 10),
    ],
)
def test_sizes_and_descriptions(config, says, output):
    core = build_core(config, 5, seed=0)
    assert describe(config, core) == says and core.output_size == output


OTHERWISE = {
    "mem_slots": 2,
    "head_size": 4,
    "num_heads": 1,
    "total_units": 24,
    "key_size": 5,
    "num_blocks": 2,
    "attention_mlp_layers": 3,
    "activate_final": True,
    "qkv_norm": "none",
    "gate_style": "memory",
    "forget_bias": 2.0,
    "input_bias": 1.0,
    "hidden_size": 5,
    "layers": 1,
    "recompute_every": 2,
    "settings": {"dnc": DNCConfig(4, 2, 2)},
}


def all_of(config):
    """The parameters of a core, and what it makes of some inputs, as bytes."""
    core, rng = build_core(config, 5, seed=1), np.random.default_rng(0)
    inputs = rng.standard_normal((2, 3, 5)).astype(np.float32)
    outputs, _ = core.unroll(inputs, core.initial_state(2))
    return [x.data.tobytes() for x in (*core.parameters(), *outputs)]


@in_turn("field", OTHERWISE)
@every_core
def test_the_fields_that_a_core_uses_are_those_that_change_it(name, field):
    config = small(name)
    told = registry.cores()[name].used
    assert told is not None, f"register the core {name} with used=(its fields, ...)"
    assert {*OTHERWISE, "core"} == {
        each.name for each in dataclasses.fields(CoreConfig)
    }
    value = OTHERWISE[field]
    if (name, field) == ("rmc_paper", "qkv_norm"):
        value = "layer"  # usually it has none
    try:
        changed = dataclasses.replace(config, **{field: value})
    except ValueError:  # rmc_paper refuses what is not in the paper
        assert field not in registry.cores()[name].used
        return
    used = {*registry.cores()[name].used, *["settings"] * (name == "dnc")}
    assert (all_of(changed) != all_of(config)) == (field in used)
    idle = "dnc" if field == "settings" else field
    free = "recompute_every"  # whatever the core, it changes what backward takes alone
    assert (idle in unused(changed)) == (field not in {*used, free})


def test_what_a_dnc_is_told_arrives():
    own = {"dnc": DNCConfig(4, 2, 3, "lstm", "oneplus", None)}
    more = {"layers": 2, "forget_bias": 0.5, "settings": own}
    config = CoreConfig("dnc", 3, hidden_size=5, **more)
    core = build_core(config, 6, seed=0)
    assert (core.mem_slots, core.word_size) == (3, 4)
    assert (core.read_heads, core.write_heads) == (2, 3)
    assert (core.strength, core.clip) == ("oneplus", None)
    layers = [
        (layer.hidden_size, layer.forget_bias) for layer in core.controller.layers
    ]
    assert layers == [(5, 0.5)] * 2
    bank = build_core(CoreConfig("entnet_bank", forget_bias=0.5), 6, seed=0)
    assert bank.forget_bias == 0.5


def test_the_command_line_reaches_all_of_it():
    words = (
        "--core dnc --dnc.word-size 32 --dnc.controller feedforward --dnc.clip None "
        "--layers 2"
    )
    found = parse(words.split())
    own = {"dnc": DNCConfig(32, controller="feedforward", clip=None)}
    assert found == CoreConfig("dnc", layers=2, settings=own)
    with pytest.raises(UsageError, match=r"not 'entnt'; did you mean 'entnet'"):
        parse(["--core", "entnt"])
    with pytest.raises(UsageError, match=r"model.total_units 7 is no multiple of 16"):
        parse(["--total-units", "7"])


def test_a_core_of_one_s_own_needs_to_name_no_weight():
    class Own(Core):
        def __init__(self, dtype=np.float32):
            self.layers = [nn.Linear(2, 3, dtype=dtype, seed=0)]

    for dtype in np.float32, np.float64:
        assert Own(dtype).zeros(2, 3).dtype == Own(dtype).dtype == dtype
        assert Own().astype(dtype).zeros(2, 3).dtype == dtype
    with pytest.raises(ValueError, match="Core has no parameters, so no dtype"):
        Core().zeros(2)


def test_a_core_that_no_table_has_is_named():
    @dataclasses.dataclass(frozen=True)
    class Untold(CoreConfig):
        core: typing.Literal["plain"] = "plain"

    @dataclasses.dataclass(frozen=True)
    class Told(Untold):
        used: typing.ClassVar = {"plain": ("hidden_size",)}

    with pytest.raises(SettingsError, match="which fields the core 'plain' uses; give"):
        unused(Untold())
    assert "mem_slots" in unused(Told()) and "hidden_size" not in unused(Told())
    with pytest.raises(SettingsError, match="build_core knows no core 'plain'; build"):
        build_core(Told(), 3, 0)


def test_paper_presets_have_the_last_layer_that_was_released():
    """It is linear; only a port has a ReLU there."""
    presets = [
        (task, name, config.model)
        for task in task_files()
        for name, (_, config) in load_task(task).Task.presets.items()
        if name.startswith("paper") and config.model.core == "rmc"
    ]
    assert len(presets) == 6
    assert [which for *which, model in presets if model.activate_final] == []
