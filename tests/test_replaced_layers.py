"""Layers of one's own in the place of ours, and cores with a step of their own.

Whatever runs in the place of modules, all steps at once, fused or as CUDA kernels, must
not run in the place of modules that it does not know.
"""

import copy

import numpy as np
import pytest
from cuda_shim import shim
from fakecupy import cupy

from tinyrmc import Tape, nn, primitives
from tinyrmc.backend import to_host
from tinyrmc.cores import (
    DNC,
    GRU,
    LSTM,
    RNN,
    STM,
    ConvLSTM,
    Core,
    DeepLSTM,
    DeltaNet,
    EntNet,
    EntNetBank,
    LinearAttention,
    PaperRelationalMemory,
    RelationalMemory,
    SelectiveSSM,
    Transformer,
)
from tinyrmc.cores.blocks import Mixer
from tinyrmc.cores.core import map_state
from tinyrmc.cores.lstm import Feedforward

SLOTS = {"mem_slots": 3, "head_size": 4, "num_heads": 2, "seed": 1}
CORES = {
    "rmc": lambda: RelationalMemory(3, **SLOTS),
    "rmc blocks": lambda: RelationalMemory(3, **SLOTS, num_blocks=2),
    "rmc memory": lambda: RelationalMemory(
        3, **SLOTS, gate_style="memory", activate_final=True, attention_mlp_layers=3
    ),
    "rmc no gates": lambda: RelationalMemory(3, **SLOTS, gate_style=None),
    "rmc linear": lambda: RelationalMemory(3, **SLOTS, qkv_norm=False),
    "paper": lambda: PaperRelationalMemory(3, **SLOTS),
    "paper normed": lambda: PaperRelationalMemory(3, **SLOTS, qkv_norm=True),
    "lstm": lambda: LSTM(3, 4, seed=1),
    "deep": lambda: DeepLSTM(3, 4, 2, seed=1),
    "rnn": lambda: RNN(3, 4, seed=1),
    "gru": lambda: GRU(3, 4, seed=1),
    "conv": lambda: ConvLSTM(1, 3, 1, 2, 3, seed=1),
    "feedforward": lambda: Feedforward(3, 4, seed=1),
    "dnc": lambda: DNC(3, 4, 3, 4, seed=1),
    "dnc plain": lambda: DNC(3, 4, 3, 4, controller="feedforward", seed=1),
    "entnet": lambda: EntNet(3, 2, 4, seed=1),
    "bank": lambda: EntNetBank(3, 2, 4, seed=1),
    "gru after": lambda: GRU(3, 4, seed=1, reset="after"),
    "transformer": lambda: Transformer(3, 4, 2, window=3, seed=1),
    "linear": lambda: LinearAttention(3, 4, 2, chunk=2, decay=True, seed=1),
    "delta": lambda: DeltaNet(3, 4, 2, chunk=2, gated=True, seed=1),
    "ssm": lambda: SelectiveSSM(3, 4, 2, seed=1),
    "stm": lambda: STM(3, 3, 4, seed=1),
}


def louder(result):
    """Another number everywhere, as a layer of one's own would give."""
    if isinstance(result, tuple):  # a core's
        return result[0] * 1.5, result[1]
    return primitives.sin(result * 2.0)  # which no norm takes back


class Foreign(nn.Module):
    """A layer of another kind, of which one knows nothing but that it can be called."""

    def __init__(self, inside):
        self.inside = inside

    def __call__(self, *given, **named):
        return louder(self.inside(*given, **named))


class ForeignCore(Foreign, Core):
    def initial_state(self, batch_size):
        return self.inside.initial_state(batch_size)

    @property
    def hidden_size(self):
        return self.inside.hidden_size


def derived(layer):
    """The same layer as one of a class of one's own, with another call."""
    kind = type(layer)

    def call(self, *given, **named):
        return louder(kind.__call__(self, *given, **named))

    other = copy.deepcopy(layer)
    other.__class__ = type(f"Own{kind.__name__}", (kind,), {"__call__": call})
    return other


def foreign(layer):
    made = (ForeignCore if isinstance(layer, Core) else Foreign)(copy.deepcopy(layer))
    if hasattr(layer, "shapes"):  # a mixer's states
        made.shapes = layer.shapes
    return made


def other_form(layer):
    """One of our own classes, with other settings; None if there is none."""
    if type(layer) is not nn.Linear:
        return None
    other = nn.Linear(*layer.weight.shape, relu=not layer.relu, seed=9)
    return other.astype(layer.weight.dtype)


def without_bias(layer):
    if type(layer) is not nn.Linear or layer.bias is None:
        return None
    return nn.Linear(*layer.weight.shape, bias=False, relu=layer.relu, seed=9)


def rms(layer):
    return nn.RMSNorm(len(layer.gain.data)) if type(layer) is nn.LayerNorm else None


WAYS = [derived, foreign, other_form, without_bias, rms]


def places(module, path=()):
    """The path of each module inside another, list or dict."""
    if isinstance(module, nn.Module):
        children = vars(module).items()
    elif isinstance(module, dict):
        children = module.items()
    else:
        children = enumerate(module) if isinstance(module, list) else ()
    for name, child in children:
        if isinstance(child, nn.Module):
            yield (*path, name)
        yield from places(child, (*path, name))


def put(module, path, value=None):
    """The layer at a place; a value that is given is put there first."""
    *way, last = path
    for name in way:
        module = vars(module)[name] if isinstance(module, nn.Module) else module[name]
    holder = vars(module) if isinstance(module, nn.Module) else module
    if value is not None:
        holder[last] = value
    return holder[last]


def loud(core):
    """With biases and gains that are not 0 and 1, which would hide a lot."""
    rng = np.random.default_rng(3)
    for parameter in core.parameters():
        parameter.data += rng.normal(size=parameter.shape).astype(np.float32) / 4
    return core


INPUTS = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
LENGTHS = np.array([3, 2])
FIRST = np.array([[False, True, False], [False, False, True]])


def by_hand(core, lengths=False, first=False):
    """The outputs of the core's own steps on NumPy, called one after the other."""
    state, outputs = core.initial_state(2), []
    for t in range(3):
        before = state
        if first:
            state = mixed(FIRST[:, t], core.initial_state(2), state)
        output, state = core(INPUTS[:, t], state)
        if lengths:
            state = mixed(LENGTHS > t, state, before)
        outputs.append(output.data)
    return outputs


def mixed(mask, one, other):
    if isinstance(one, tuple):
        return tuple(mixed(mask, *pair) for pair in zip(one, other, strict=True))
    mask = mask.reshape(-1, *[1] * (one.ndim - 1))
    return primitives.where(mask, one, other)


def unrolled(core, xp, lengths=False, first=False, trace=None):
    core = copy.deepcopy(core).to(xp)
    more = {"lengths": xp.asarray(LENGTHS)} if lengths else {}
    more |= {"is_first": xp.asarray(FIRST)} if first else {}
    with Tape():
        state = core.initial_state(2)
        outputs, _ = core.unroll(xp.asarray(INPUTS), state, trace, **more)
    return [to_host(x.data) for x in outputs]


def check(core, xp, usual=None, label=""):
    """Every way to run it equals its own steps, and none equals the usual core."""
    for how in {}, {"lengths": True}, {"first": True}:
        expected = by_hand(core, **how)
        for trace in (None,) if how else (None, []):
            found = unrolled(core, xp, **how, trace=trace)
            for t, (one, other) in enumerate(zip(found, expected, strict=True)):
                if not how.get("lengths") or t < 2:
                    np.testing.assert_allclose(
                        one, other, rtol=2e-4, atol=2e-5, err_msg=f"{label} {how} {t}"
                    )
    if usual is not None:
        far = max(
            np.abs(a - b).max() for a, b in zip(by_hand(core), usual, strict=True)
        )
        assert far > 1e-3, f"{label}: nobody calls it"


LIBRARIES = [np, pytest.param(cupy, marks=[shim, pytest.mark.slow])]
SELDOM = [np, pytest.param(cupy, marks=[shim, pytest.mark.slow, pytest.mark.weekly])]


@pytest.mark.parametrize("xp", SELDOM, ids=["numpy", "kernels"])
@pytest.mark.parametrize("name", CORES)
def test_every_layer_replaced_and_subclassed_is_the_one_that_runs(name, xp, request):
    if xp is not np:
        request.getfixturevalue("cublas")
    core = loud(CORES[name]())
    check(core, xp)
    usual = by_hand(core)
    for path in places(core):
        if len(path) > 1 and name.startswith("deep"):
            continue  # an LSTM's own layers have their turn below
        for way in WAYS:
            other = copy.deepcopy(core)
            layer = way(put(other, path))
            if layer is not None:
                put(other, path, layer)
                check(other, xp, usual, f"{name} {path} {way.__name__}")


@pytest.mark.parametrize("name", ["deep", "dnc", "dnc plain"])
def test_the_layers_of_a_layer_count_too(name):
    core = loud(CORES[name]())
    usual = by_hand(core)
    for path in places(core):
        for way in derived, foreign:
            other = copy.deepcopy(core)
            put(other, path, way(put(other, path)))
            check(other, np, usual, f"{name} {path} {way.__name__}")


@pytest.mark.parametrize("xp", LIBRARIES, ids=["numpy", "kernels"])
@pytest.mark.parametrize("name", CORES)
def test_a_core_that_derives_from_ours_is_stepped(name, xp, request):
    """Whatever it changes: its step, its first state, or a part of its step."""
    if xp is not np:
        request.getfixturevalue("cublas")
    usual = by_hand(loud(CORES[name]()))
    kind = type(CORES[name]())

    def call(self, *given):
        output, state = kind.__call__(self, *given)
        return output * 1.5, state

    def start(self, batch_size):
        return map_state(lambda x: x + 0.5, kind.initial_state(self, batch_size))

    changes = {"__call__": call}
    if name not in ("feedforward", "dnc", "dnc plain"):
        changes["initial_state"] = start
    for part in METHODS[1:]:
        if hasattr(kind, part) and (name, part) != ("rmc no gates", "_gates_of"):
            old = getattr(kind, part)

            def changed(self, *given, old=old):
                found = old(self, *given)
                if isinstance(found, tuple):
                    return tuple(x if x is None else x * 1.5 for x in found)
                return found * 1.5

            changes[part] = changed
    for what, method in changes.items():
        core = loud(CORES[name]())
        core.__class__ = type("Own", (kind,), {what: method})
        check(core, xp, usual, f"{name} {what}")
        if what in ("_gates_of", "_attend"):  # of this one object alone
            core = loud(CORES[name]())
            vars(core)[what] = method.__get__(core)
            check(core, xp, usual, f"{name}'s own {what}")


METHODS = "__call__", "_gates_of", "_attend", "_prepare", "_clipped", "_checked"


@pytest.mark.parametrize("xp", LIBRARIES, ids=["numpy", "kernels"])
@pytest.mark.parametrize("name", CORES)
def test_a_method_put_on_a_class_later_is_the_one_that_runs(
    name, xp, request, monkeypatch
):
    """On the class of the core or of a part, and on those that they derive from."""
    if xp is not np:
        request.getfixturevalue("cublas")
    core = CORES[name]()
    parts = [core, *(put(core, path) for path in places(core))]
    kinds = dict.fromkeys(base for part in parts for base in type(part).__mro__)
    for kind in kinds.keys() - {Core, Mixer, nn.Module}:
        for what in {*METHODS, "over_time", "initial_state"} & vars(kind).keys():
            old = vars(kind)[what]

            def changed(*given, old=old, what=what):
                found = old(*given)
                if what == "initial_state":
                    return map_state(lambda x: x + 0.5, found)
                if isinstance(found, tuple):
                    return found[0] + 0.5, *found[1:]
                return found + 0.5

            with monkeypatch.context() as patched:
                patched.setattr(kind, what, changed)
                check(loud(CORES[name]()), xp, label=f"{name} {kind.__name__} {what}")


def test_a_faster_way_is_said_and_not_inherited():
    class Same(RelationalMemory):
        pass

    class Said(RelationalMemory, at_once=True):
        pass

    ours = RelationalMemory(3, **SLOTS)
    assert ours.is_known() and Said(3, **SLOTS).is_known()
    assert not Same(3, **SLOTS).is_known()
    for way in "_step", "_prepare_all", "_unroll_at_once":
        with pytest.raises(TypeError, match=f"Own has {way}, which takes"):
            type("Own", (RelationalMemory,), {way: lambda *given: None})


@shim
@pytest.mark.slow
def test_ours_still_run_at_once_on_a_gpu(cublas):
    core = RelationalMemory(3, **SLOTS).to(cupy)
    with Tape() as tape:
        core.unroll(cupy.asarray(INPUTS), core.initial_state(2))
    assert "relational_memory" in [entry[0].name for entry in tape.entries]
