"""A module's file brings back what was saved: class, settings, weights, constants.

Whatever else a file is, it is refused in one line, and nothing is loaded.
"""

import contextlib
import json
import os
import pickle
import re
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from tinyruns import output, read

import tinyrmc
from tinyrmc import cores, nn
from tinyrmc import primitives as p
from tinyrmc.backend.files import replace
from tinyrmc.cli import grade
from tinyrmc.cores.agent import Agent, AgentConfig
from tinyrmc.course import proof, record, saved_answers
from tinyrmc.errors import RunError, UserError
from tinyrmc.nn.layers import ties
from tinyrmc.results.figures.style import picture
from tinyrmc.training.run import load_arrays, save_arrays

SIZES = st.integers(1, 4)
BIASES = st.floats(-2, 2, width=32)
PLAIN = cores.RNN, cores.GRU, cores.Feedforward
GATES = st.sampled_from(["unit", "memory", None])


@st.composite
def any_core(draw):
    """A core of any kind with settings of any kind, and the shape of its input."""
    size, seed = draw(SIZES), draw(st.integers(0, 9))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    own = {"dtype": dtype, "seed": seed}
    slots = {"mem_slots": draw(SIZES), "head_size": draw(SIZES)}
    slots |= {"num_heads": draw(SIZES), "forget_bias": draw(BIASES)}
    slots |= {"attention_mlp_layers": draw(SIZES), "qkv_norm": draw(st.booleans())}
    kind = draw(st.sampled_from("rmc paper lstm deep dnc entnet bank rnn conv".split()))
    if kind == "rmc":
        more = {"num_blocks": draw(SIZES), "input_bias": draw(BIASES)}
        more |= {"gate_style": draw(GATES), "activate_final": draw(st.booleans())}
        core = cores.RelationalMemory(size, **slots, **more, **own)
    elif kind == "paper":
        core = cores.PaperRelationalMemory(size, **slots, **own)
    elif kind == "lstm":
        core = cores.LSTM(size, draw(SIZES), draw(BIASES), **own)
    elif kind == "deep":
        core = cores.DeepLSTM(size, draw(SIZES), draw(SIZES), draw(BIASES), **own)
    elif kind == "dnc":
        controller = draw(st.sampled_from(["lstm", "feedforward"]))
        more = {"controller": controller, "clip": draw(st.sampled_from([None, 0.5]))}
        core = cores.DNC(size, draw(SIZES), draw(SIZES), draw(SIZES), **more, **own)
    elif kind in ("entnet", "bank"):
        entnet = cores.EntNet if kind == "entnet" else cores.EntNetBank
        core = entnet(size, draw(SIZES), draw(SIZES), **own)
    elif kind == "rnn":
        core = draw(st.sampled_from(PLAIN))(size, 3, **own)
    else:
        core = cores.ConvLSTM(2, size, draw(SIZES), draw(SIZES), 3, **own)
    return core


def answers(core):
    """A core's reply to fixed inputs."""
    shape = getattr(core, "input_shape", (core.input_size,))
    x = np.random.default_rng(5).normal(size=(2, 3, *shape)).astype(core.dtype)
    outputs, _ = core.unroll(x, core.initial_state(2))
    return np.stack([output.data for output in outputs])


def same(one, other):
    assert repr(one) == repr(other) and type(one) is type(other)
    assert one.arrays().keys() == other.arrays().keys()
    for name, x in one.arrays().items():
        assert x.dtype == other.arrays()[name].dtype
        np.testing.assert_array_equal(x, other.arrays()[name])


@given(any_core())
@settings(max_examples=60, deadline=None)
def test_every_core_comes_back_with_its_settings(tmp_path_factory, core):
    path = tmp_path_factory.mktemp("core") / "core.npz"
    tinyrmc.save(core, path)
    again = tinyrmc.load(path)
    same(core, again)
    assert again.config == core.config
    np.testing.assert_array_equal(answers(again), answers(core))
    other = type(core)(**core.config, seed=99)
    if core.constants():  # a first memory that was drawn comes along
        assert set(core.constants()) == {"first"}
    other.load_parameters(tinyrmc.load(path))
    np.testing.assert_array_equal(answers(other), answers(core))


def test_memory_networks_and_agents_come_back_too(tmp_path):
    encoding = cores.Encoding("printed", 1.0, longest=4)
    agent = Agent(AgentConfig(features=4), (5, 5, 2), 3, 4, seed=1)
    for module in (
        cores.MemN2N(9, 4, 3, hops=2, encoding=encoding, seed=1),
        cores.TextMemN2N(9, 4, 3, 2, seed=1),
        agent,
    ):
        tinyrmc.save(module, tmp_path / "it.npz")
        again = tinyrmc.load(tmp_path / "it.npz", classes=[Agent, AgentConfig])
        same(module, again)
        constants = again.constants()
        assert constants.keys() == module.constants().keys()
        for name, constant in module.constants().items():
            np.testing.assert_array_equal(constants[name].value, constant.value)


@dataclass(frozen=True)
class Sizes:
    units: int = 3
    words: tuple[str, ...] = ("a", "b")


class Net(nn.Module):
    """A class of one's own, with every kind of setting."""

    def __init__(self, core, *layers, sizes=Sizes(), more=None, seed=0):
        self.core, self.layers, self.more = core, layers, more
        self.head = nn.Linear(core.output_size, sizes.units, seed=seed)

    def __call__(self, x):
        output, _ = self.core(x, self.core.initial_state(len(x)))
        for layer in self.layers:
            output = layer(output)
        return self.head(output)


def own_net():
    dropout = nn.Dropout(0.25, shared=(0, 1))
    more = {"a": [1, None, ("x", True)], "b": dropout}
    return Net(
        cores.LSTM(2, 4, seed=1), nn.MLP(4, [5, 4], seed=0), sizes=Sizes(6), more=more
    )


def test_a_class_of_ones_own_comes_back_by_its_name(tmp_path):
    net, path = own_net().astype(np.float64), tmp_path / "net.npz"
    tinyrmc.save(net, path)
    with pytest.raises(RunError, match=r"by a class Net; give classes=\[Net\]"):
        tinyrmc.load(path)
    with pytest.raises(RunError, match="by a class Sizes"):
        tinyrmc.load(path, classes=Net)
    again = tinyrmc.load(path, classes=[Net, Sizes])
    same(net, again)
    assert again.more["a"] == [1, None, ("x", True)] and again.more["b"].rate == 0.25
    x = np.ones((3, 2))
    np.testing.assert_array_equal(again(x).data, net(x).data)
    own = own_net()
    own.load_parameters(tinyrmc.load(path, classes=[Net, Sizes]))
    np.testing.assert_allclose(own(x.astype("f4")).data, net(x).data, atol=1e-6)


def test_what_a_file_cannot_hold_is_named():
    class Odd(nn.Module):
        def __init__(self, function):
            self.layer = nn.Linear(2, 2, seed=0)

    with pytest.raises(RunError, match="Odd: function is a type, which a file cannot"):
        tinyrmc.save(Odd(int), "odd.npz")


class Drawn(nn.Module):
    def __init__(self, seed=0):
        self.head, self.R = nn.Linear(2, 2, seed=0), nn.generator(seed).normal(size=2)


def test_a_layer_put_into_a_list_or_dict_is_saved(tmp_path):
    core = cores.RelationalMemory(3, mem_slots=2, head_size=4, seed=0)
    core.blocks[0]["attention_norm"] = nn.RMSNorm(4)
    layers = nn.MLP(2, [3, 2], seed=0)
    layers.layers[1] = nn.Linear(3, 2, seed=5, bias=False)
    for k, module in enumerate((core, layers)):
        tinyrmc.save(module, tmp_path / f"{k}.npz")
        again = tinyrmc.load(tmp_path / f"{k}.npz")
        assert again.arrays().keys() == module.arrays().keys()
        for name, x in module.arrays().items():
            np.testing.assert_array_equal(again.arrays()[name], x)
    assert type(tinyrmc.load(tmp_path / "0.npz").blocks[0]["attention_norm"]) is (
        nn.RMSNorm
    )


def test_a_name_as_long_as_the_system_takes_is_saved(tmp_path):
    for name in "\u4f60" * 80 + ".npz", "x" * 250 + ".npz":
        tinyrmc.save(nn.Linear(2, 2, seed=0), tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_what_would_come_back_as_something_else_is_refused(tmp_path):
    path, changed, shared = (
        tmp_path / "it.npz",
        nn.Linear(2, 2, seed=0),
        nn.Linear(2, 2, seed=0),
    )
    changed.relu = True
    dropout, acting, halved = nn.Dropout(0.5), Drawn(), nn.MLP(2, [2], seed=0)
    dropout.shared, acting.act = (-1,), p.tanh
    halved.layers[0] = type("Half", (nn.Linear,), {})(2, 2, seed=0)
    with pytest.raises(ValueError, match=r"settings: 0.class: 'Half' so far"):
        nn.MLP(2, [2], seed=0).load_parameters(halved)
    for module, says in (
        (dropout, "differs in shared, so"),
        (acting, "differs in act, so"),
        (changed, r"this Linear differs in relu, so that .* Give it to __init__"),
        (Drawn(5), r"differs in R, .* drawn there can be nn\.Constant"),
        (
            type("Linear", (Net,), {})(cores.LSTM(2, 4, seed=0)),
            "Linear is tinyrmc's own",
        ),
        (Net(cores.LSTM(2, 4, seed=0), more={1: 2}), "more is a dict, which a file"),
    ):
        with pytest.raises(RunError, match=says):
            tinyrmc.save(module, path)
    assert not path.exists()
    tinyrmc.save(shared, path)
    arrays, state = load_arrays(path)
    halves = {name: x.astype("f2") for name, x in arrays.items()}
    save_arrays(path, halves, state)
    with pytest.raises(RunError, match="weight: dtype must be floating point of 32"):
        tinyrmc.load(path)
    sizes = [4]
    last = nn.Linear(4, 1, dtype=np.float64, seed=0)
    module = nn.Sequential(nn.MLP(2, sizes, seed=0), p.tanh, p.relu, last)
    sizes.append(3)
    tinyrmc.save(module, path)
    same(tinyrmc.load(path), module)
    assert tinyrmc.load(path).layers[1:3] == module.layers[1:3]
    assert pickle.loads(pickle.dumps(p.tanh)) is p.tanh


def test_settings_are_shown(tmp_path):
    core = cores.RelationalMemory(3, 4, 5, num_heads=2, activate_final=True, seed=7)
    says = "RelationalMemory(input_size=3, mem_slots=4, head_size=5, num_heads=2, "
    assert repr(core) == f"{says}activate_final=True)"
    assert core.config["gate_style"] == "unit" and core.config["dtype"] == "float32"
    assert core.astype("f8").config["dtype"] == "float64" and "seed" not in core.config
    same(
        eval(f"{repr(core)[:-1]}, seed=0)", vars(cores)),
        cores.RelationalMemory(**core.config, seed=0),
    )

    class Two(nn.Module):
        def __init__(self):
            self.one, self.many = nn.Linear(2, 3, relu=True, seed=0), [nn.LayerNorm(2)]

    shown = "Two()\n  one: Linear(input_size=2, output_size=3, relu=True)"
    assert repr(Two()) == shown

    class Bare(nn.Module):  # no parameter has the dtype
        def __init__(self, size, dtype=np.float32):
            self.size = size

    tinyrmc.save(Bare(3), path := tmp_path / "bare.npz")
    assert repr(tinyrmc.load(path, classes=[Bare])) == repr(Bare(3)) == "Bare(size=3)"
    assert Bare(3, "f8").config == {"size": 3, "dtype": "float64"}
    # arguments that do not fit are told by Python itself
    with pytest.raises(TypeError, match=r"Two.__init__\(\) takes 1 positional"):
        Two(3)


def test_other_settings_are_refused_and_nothing_changes(tmp_path):
    shipped, path = tinyrmc.load("nth_farthest_4x4"), tmp_path / "core.npz"
    core = shipped.core
    tinyrmc.save(core, path)
    sizes = core.input_size, core.mem_slots, core.head_size, core.num_heads
    plain = cores.RelationalMemory(*sizes, seed=0)
    split = cores.RelationalMemory(16, 4, 16, 4, activate_final=True, seed=0)
    before = plain.arrays()
    for source in core, tinyrmc.load(path):
        with pytest.raises(ValueError, match=r"settings: activate_final: True so far"):
            plain.load_parameters(source)
        with pytest.raises(ValueError, match=r"settings: head_size: 8 so far, 16"):
            split.load_parameters(source)
    with pytest.raises(ValueError, match=r"class: 'Network' so far, .*the part that"):
        plain.load_parameters(tinyrmc.load("nth_farthest_4x4"))
    for name, x in plain.arrays().items():
        np.testing.assert_array_equal(x, before[name])
    own = type(core)(**core.config, seed=3)
    own.load_parameters(core)
    same(own, core)
    other = type(shipped)(**shipped.config, seed=3)
    other.load_parameters(tinyrmc.load("nth_farthest_4x4"))
    same(other, shipped)


def test_shipped_networks_are_listed():
    assert tinyrmc.shipped() == ["nth_farthest_4x4"]
    with pytest.raises(RunError, match="or a name: nth_farthest_4x4"):
        tinyrmc.load("nth_farthest_5x5")


def test_a_file_that_is_not_as_it_was_written_loads_nothing(tmp_path):
    path, bad = tmp_path / "net.npz", tmp_path / "bad.npz"
    tinyrmc.save(cores.LSTM(2, 3, seed=0), path)
    whole = path.read_bytes()
    arrays, meta = load_arrays(path)

    def forged(change):
        told = json.loads(json.dumps(meta))
        kept = dict(arrays)
        change(told["module"], kept)
        save_arrays(bad, kept, told)
        return bad.read_bytes()

    def cut(module, kept):
        del kept["parameters/gates.bias"]

    def mixed(module, kept):
        kept["parameters/gates.weight"] = np.ones((9, 9), np.float32)

    cases = [whole[: len(whole) // 2], whole[:-30] + b"x" * 30, b"", forged(cut)]
    cases += [forged(mixed), whole.replace(b"hidden_size", b"hidden_sizes")]
    for key, value in [
        ("hidden_size", 4),
        ("hidden_size", -1),
        ("hidden_size", 10**15),
        ("hidden_size", {"class": "Linear", "settings": []}),
        ("hidden_size", {"tuple": 3}),
        ("nothing", 1),
        ("forget_bias", "much"),
    ]:
        cases.append(forged(lambda m, _: m["settings"].update({key: value})))
    cases.append(forged(lambda m, _: m.update(new=1)))
    cases.append(forged(lambda m, _: m["settings"].update(hidden_size={"new": 3})))
    cases.append(forged(lambda _, kept: kept.update({"new/x": np.ones(1)})))
    for name in "LSTMs", "Encoding", "namespace", None, ["LSTM"]:
        cases.append(forged(lambda m, _: m.update({"class": name})))
    cases += [forged(lambda m, _: m.clear()), forged(lambda m, _: m.pop("settings"))]
    for content in cases:
        bad.write_bytes(content)
        with pytest.raises(RunError) as error:
            tinyrmc.load(bad)
        assert "\n" not in str(error.value) and "bad.npz" in str(error.value)
    save_arrays(bad, arrays, meta | {"new": 1})
    with pytest.raises(RunError, match=r"bad.npz has a key 'new' that is unknown here"):
        tinyrmc.load(bad)
    assert zipfile.is_zipfile(path)
    assert "pickle" not in path.read_bytes().decode("latin1")


def test_the_tours_loop_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, text = read("tinyrmc/README.md").partition("## Keeping what was learnt")
    reuse, loop = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:2]
    for code in reuse, loop:
        assert len([line for line in code.splitlines() if line]) <= 28
        exec(compile(code, "README.md", "exec"), {})


# --- Other files ----------------------------------------------------------------------


def test_two_threads_save_to_one_path_at_once(tmp_path):
    """Each file is whole, no matter who was last; a reader never finds half of one."""
    path, over, wrong = tmp_path / "layer.npz", threading.Event(), []
    layers = [nn.Linear(4, 4, seed=seed) for seed in range(3)]
    tinyrmc.save(layers[0], path)

    def repeat(work):
        try:
            while not over.is_set():
                work()
        except Exception as error:
            wrong.append(error)

    works = [lambda layer=layer: tinyrmc.save(layer, path) for layer in layers]
    works += [lambda: tinyrmc.load(path)]
    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    over.wait(1)
    over.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [x.name for x in tmp_path.iterdir()] == ["layer.npz"]


def test_what_is_written_anew_is_whole_or_as_it_was(tmp_path, monkeypatch):
    """Pictures, grades, progress, answers: where the disk is full the old ones stay."""
    monkeypatch.setenv("TINYRMC_PROGRESS", str(tmp_path / "kept"))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    text = {"kind": proof.KIND}
    writes = [
        lambda: picture(lambda: Figure())(tmp_path / "a.png"),
        lambda: grade._write([["name", "points"]], tmp_path / "grades.csv"),
        lambda: record.solved("gates", "sigmoid"),
        lambda: saved_answers.save("gates", "sigmoid", sigmoid),
        lambda: proof.write(text, tmp_path / "me.progress.json"),
    ]
    for write in writes:
        write()
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) == len(writes)
    for path in files:
        path.write_bytes(path.read_bytes() + b" ")
    record.file().write_text("[]\n")
    before = [path.read_bytes() for path in files]

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for write in writes:
        with contextlib.suppress(OSError, UserError):
            write()
    assert [path.read_bytes() for path in files] == before
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == files
    monkeypatch.undo()
    os.symlink(os.devnull, tmp_path / "link")
    replace(tmp_path / "link", "to a device, which stays one")
    assert not Path(os.devnull).is_file()
    os.symlink(files[0], tmp_path / "other")
    replace(tmp_path / "other", "through a link")
    assert files[0].read_bytes() == b"through a link"


def test_an_operation_that_this_version_lacks_is_named(tmp_path):
    path = tmp_path / "layers.npz"
    for made in nn.Sequential(p.tanh), nn.Sequential(nn.Sequential(p.tanh, p.exp)):
        tinyrmc.save(made, path)
        arrays, meta = load_arrays(path)
        text = json.dumps(meta).replace("tanh", "swoosh")
        save_arrays(path, arrays, json.loads(text))
        with pytest.raises(RunError, match=r"primitives\.swoosh is unknown here; upg"):
            tinyrmc.load(path)


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / f"{'n' * 250}.npz"
    tinyrmc.save(nn.Linear(2, 2, seed=0), path)
    assert tinyrmc.load(path).num_parameters == 6


def test_numpy_and_safetensors_take_and_give_the_arrays(tmp_path):
    core, path = cores.RelationalMemory(3, 2, 4, 2, seed=1), tmp_path / "core"
    other = cores.RelationalMemory(3, 2, 4, 2, seed=2)
    np.savez(path.with_suffix(".npz"), **core.arrays())
    other.load_parameters(dict(np.load(path.with_suffix(".npz"))))
    np.testing.assert_allclose(answers(other), answers(core), atol=1e-6)
    tensors = pytest.importorskip("safetensors.numpy")
    tensors.save_file(core.arrays(), path)
    other = cores.RelationalMemory(3, 2, 4, 2, seed=3)
    other.load_parameters(tensors.load_file(path))
    np.testing.assert_allclose(answers(other), answers(core), atol=1e-6)


def test_a_state_dict_of_torch_goes_in_and_out():
    """Its weights are (out, in)."""
    torch = pytest.importorskip("torch")
    ours = nn.MLP(3, [5, 2], seed=1)
    theirs = torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)
    )
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    layers = {"0": "0", "1": "2"}  # ours: theirs, which counts the ReLU
    arrays = ours.arrays()
    theirs.load_state_dict(
        {
            f"{there}.{name}": torch.from_numpy(arrays[f"{here}.{name}"].T.copy())
            for here, there in layers.items()
            for name in ("weight", "bias")
        }
    )
    np.testing.assert_allclose(
        theirs(torch.from_numpy(x)).detach().numpy(), ours(x).data, atol=1e-6
    )
    other, state = nn.MLP(3, [5, 2], seed=2), theirs.state_dict()
    other.load_parameters(
        {name: state[f"{layers[name[0]]}{name[1:]}"].numpy().T for name in arrays}
    )
    np.testing.assert_allclose(other(x).data, ours(x).data, atol=1e-6)


def test_a_trained_network_with_another_head_is_saved_and_loaded(tmp_path):
    """Fine-tuning: the class is a task's, which its file names."""
    trained = tinyrmc.load("nth_farthest_4x4")
    trained.head = nn.Linear(trained.core.output_size, 7, seed=1)
    tinyrmc.save(trained, tmp_path / "tuned.npz")
    again = tinyrmc.load(tmp_path / "tuned.npz")
    same(trained, again)
    assert again.head.weight.shape == (trained.core.output_size, 7)
    words = f"import tinyrmc; print(tinyrmc.load({str(tmp_path / 'tuned.npz')!r}).head)"
    assert output("-c", words).startswith("Linear(")
    tuned = tinyrmc.load(tmp_path / "tuned.npz")
    tuned.core.gates = nn.Linear(2, 3, seed=0)  # deeper inside
    tinyrmc.save(tuned, tmp_path / "deeper.npz")
    same(tuned, tinyrmc.load(tmp_path / "deeper.npz"))
    trained.head.relu = True
    with pytest.raises(RunError, match=r"in head\.relu, so .* or put a whole module"):
        tinyrmc.save(trained, tmp_path / "changed.npz")


class Out(nn.Module):
    """A layer that shares a weight given to it, and turns it round."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return x @ p.swapaxes(self.weight, 0, 1)


class Pair(nn.Module):
    def __init__(self, one, other, more=()):
        self.one, self.other, self.more = one, other, more

    def __call__(self, x):
        x = self.other(self.one(x))
        for layer in self.more:
            x = layer(x)
        return x


def linear(seed, **more):
    return nn.Linear(4, 4, seed=seed, **more)


def tied_afterwards(holder):
    net = nn.Sequential(linear(0), p.tanh, linear(1))
    if holder == "weight":
        net.layers[2].weight = net.layers[0].weight
    elif holder == "layer":
        net.layers[2] = net.layers[0]
    else:
        net.extra = {"a.b": [net.layers[0].bias]}
        net.layers[2].bias = net.layers[0].bias
    return net


def twice_in_a_list():
    one, other = linear(0), linear(1)
    return Pair(one, other, [other, one, nn.Sequential(one, p.tanh, one)])


def tied_to_an_embedding():
    first = linear(2)
    return Pair(first, Out(first.weight), [Out(first.weight)])


def shared_afterwards(what):
    one, other = (cores.RelationalMemory(4, 1, 4, seed=seed) for seed in (0, 1))
    if what == "block":
        other.blocks[0] = one.blocks[0]
    else:
        setattr(other, what, getattr(one, what))
    return Cores(one, other)


SHARED = {
    "a layer twice": lambda: nn.Sequential(layer := linear(0), p.tanh, layer),
    "three times, and deep": twice_in_a_list,
    "a weight given": tied_to_an_embedding,
    "a lone weight": lambda: Pair(Out(w := nn.Parameter(np.eye(4))), Out(w)),
    "a weight afterwards": lambda: tied_afterwards("weight"),
    "a layer afterwards": lambda: tied_afterwards("layer"),
    "a core twice": lambda: Cores(core := cores.GRU(4, 4, seed=0), core),
    "its owner": lambda: Owner(),
    "a dict afterwards": lambda: shared_afterwards("block"),
    "a list of dicts": lambda: shared_afterwards("blocks"),
    "a list afterwards": lambda: shared_afterwards("mlp"),
    "a constant": lambda: shared_afterwards("first"),
    "a list given": lambda: Pair(
        linear(0), Pair(linear(1), p.tanh, x := [linear(2)]), x
    ),
}


class Owner(nn.Module):
    """A network whose part knows it, as with a `parent` of one's own."""

    def __init__(self):
        self.part = Out(nn.Parameter(np.eye(4)))
        self.part.owner = self

    def __call__(self, x):
        return self.part(x)


class Cores(nn.Module):
    def __init__(self, one, other):
        self.one, self.other = one, other

    def __call__(self, x):
        for core in self.one, self.other:
            x, _ = core(x, core.initial_state(2))
        return x


class Bag(nn.Module):
    def __init__(self, more=None):
        self.more = more


def holding_itself(more, put, given=False):
    bag = Bag(more) if given else Bag()
    bag.more = more
    put(more, bag)
    return bag


LATER = "which is also .*, was put there later; give it to __init__"
REFUSED = {
    "a list in itself": (
        lambda: holding_itself([linear(0)], lambda x, bag: x.append(x)),
        f"more.1, {LATER}",
    ),
    "a dict in itself": (
        lambda: holding_itself({"a": linear(0)}, lambda x, bag: x.update(b=x)),
        f"more.b, {LATER}",
    ),
    "a module in its list": (
        lambda: holding_itself([linear(0)], lambda x, bag: x.append(bag)),
        f"more.1, {LATER}",
    ),
    "a layer again": (
        lambda: holding_itself(
            {"a": linear(0)}, lambda x, bag: x.update(b=x["a"]), True
        ),
        f"more.b, {LATER}",
    ),
    "given, a list in itself": (lambda: Bag(endless()), "Bag: more holds itself"),
    "a module by which": (
        lambda: Bag({linear(0): 1}),
        "more is a dict, whose keys are not",
    ),
    "a dict to be read": (
        lambda: Bag(MappingProxyType({"a": linear(0)})),
        "more is a mappingproxy, which is not searched",
    ),
}


def endless():
    numbers = [1]
    numbers.append(numbers)
    return numbers


@pytest.mark.parametrize("name", REFUSED)
def test_what_holds_itself_or_hides_is_refused_in_one_line(name, tmp_path):
    make, says = REFUSED[name]
    with pytest.raises((RunError, TypeError), match=says) as error:
        tinyrmc.save(make(), tmp_path / "it.npz")
    assert "\n" not in str(error.value) and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", SHARED)
def test_what_a_module_has_twice_is_shared_again(name, tmp_path):
    path, module = tmp_path / "shared.npz", SHARED[name]()
    for parameter in module.parameters():
        parameter.data += np.random.default_rng(7).normal(size=parameter.shape)
    module = module.astype(np.float64)
    x = np.random.default_rng(0).normal(size=(2, 4))
    for _ in range(2):  # what was loaded can be saved again
        tinyrmc.save(module, path)
        again = tinyrmc.load(path, classes=[Out, Pair, Cores, Owner])
        np.testing.assert_array_equal(again(x).data, module(x).data)
        assert [*again.arrays()] == [*module.arrays()]
        assert ties(again) == ties(module) != []
        assert len(repr(again).splitlines()) == len(repr(module).splitlines())
        for parameter in again.parameters():
            parameter.data += 1.0
        assert not np.allclose(again(x).data, module(x).data)
        module = again


def test_what_was_not_shared_is_not_shared_later(tmp_path):
    path = tmp_path / "twins.npz"
    tinyrmc.save(Pair(linear(0), linear(0)), path)
    again = tinyrmc.load(path, classes=[Pair])
    assert again.one is not again.other and again.num_parameters == 40


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="pipe: it is not a regular file"):
        tinyrmc.save(nn.Linear(2, 2, seed=1), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
