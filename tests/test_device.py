"""The program on a device that is not the host: everything gives NumPy's values, waits
for nothing inside a step, and stays in float32.

The device is the stand-in of fakecupy.py, which computes with NumPy and has no compiler
of CUDA, so that the array bodies run: what is compared here is equal to the last bit.
The kernels are in test_kernels.py. CuPy itself has not been run yet.
"""

import contextlib
import itertools
import sys
from pathlib import Path

import fakecupy
import numpy as np
import pytest
from fakecupy import Refused, cupy, device, no_sync, nothing_drops_out, only, single
from numpy.testing import assert_allclose, assert_array_equal
from samplers import CASES, as_tuple, gradients, output_weights
from tinytasks import changed
from turns import in_turn, rarely

from tinyrmc import Parameter, Tape, backend, load, optim
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import Tensor
from tinyrmc.cli import evaluate, plot, train
from tinyrmc.cores import registry
from tinyrmc.training import MetricAccumulator
from tinyrmc.training.discovery import load_task, task_files
from tinyrmc.training.rl.actors import ActingTask
from tinyrmc.training.run import Run
from tinyrmc.training.trainer import Trainer

# --- The stand-in: each of its refusals can be had ------------------------------------


@in_turn(
    "mix",
    [
        lambda d, h: d + h,
        lambda d, h: h + d,
        lambda d, h: cupy.sum(h),
        lambda d, h: cupy.concatenate([d, h]),
        lambda d, h: cupy.add(d, d, out=h),
        lambda d, h: cupy.add.at(d, h.astype(int), 1.0),
        lambda d, h: d.__setitem__(..., h),
        lambda d, h: d[h.astype(int)],
        lambda d, h: h.__iadd__(d),
        lambda d, h: h.__setitem__(..., d),
        lambda d, h: d.set(d),
    ],
)
def test_host_and_device_arrays_do_not_mix(mix):
    with pytest.raises((Refused, TypeError)):
        mix(device(np.ones(3)), np.ones(3))


@in_turn(
    "wait",
    [
        bool,
        float,
        int,
        repr,
        np.float32,
        lambda d: d.get(),
        lambda d: d.item(),
        backend.to_host,
        lambda d: 1 if d > 0 else 0,
        lambda d: cupy.nonzero(d.reshape(1)),
        lambda d: cupy.where(d.reshape(1) > 0),
        lambda d: d.reshape(1)[device([True])],
        lambda d: d.reshape(1)[[0]],
        lambda d: d.reshape(1).__setitem__(device([True]), 0),
        lambda d: cupy.unique(d),
        lambda d: bool(cupy.array_equal(d, d)),
    ],
)
def test_what_waits_is_noticed(wait):
    value = device(1)
    if wait is not np.float32:  # which CuPy refuses altogether
        wait(value)
    with no_sync(), pytest.raises(Refused, match=r"host wait|not allowed"):
        wait(value)


def test_float64_is_noticed():
    x = device(np.ones(3, np.float32))
    with only(np.float32):
        assert (x * 2.0).dtype == np.float32
        assert (x > 0).dtype == bool
        for creep in (
            lambda: x * np.float64(2),
            lambda: cupy.zeros(3),
            lambda: x.astype(np.float64),
            lambda: x.mean(dtype=np.float64),
            lambda: cupy.sqrt(2.0),
            lambda: x * cupy.sqrt(2.0),
            lambda: x / cupy.arange(1, 4),
            lambda: cupy.asarray(np.ones(3)),
        ):
            with pytest.raises(Refused, match="float64 result in a float32 program"):
                creep()


def test_it_differs_from_numpy_where_cupy_does():
    x = device(np.arange(3.0))
    assert type(x.sum()) is type(cupy.max(x)) is type(x[0]) is fakecupy.ndarray
    assert x.sum().shape == ()
    far = device([4, -4])
    along = cupy.take(x, far, axis=0), cupy.take_along_axis(x, far, 0)
    for taken in cupy.take(x, far), x.take(far), x[far], *along:
        assert taken.tolist() == [1.0, 2.0]
    assert cupy.take(x, 4).tolist() == 1.0
    assert cupy.zeros((2, 3))[:, far].shape == (2, 2)
    # numbers are looked at, on both
    with pytest.raises(IndexError, match="out of bounds"):
        x[4]
    x[far] = 7.0
    assert x.tolist() == [0.0, 7.0, 7.0]
    cupy.add.at(x, device([3, 3]), 1.0)
    assert x.tolist() == [2.0, 7.0, 7.0]
    # and no warning, which would be an error here
    assert (device([7, -7]) // device([0, 0])).tolist() == [0, 0]
    assert np.isnan(cupy.log(device(-1.0)).get()) and (x / 0.0).tolist() == [np.inf] * 3
    out = cupy.zeros(3)
    assert cupy.exp(x, out=out) is out
    assert out.tolist() == np.exp([2.0, 7.0, 7.0]).tolist()


# --- The engine -----------------------------------------------------------------------


@in_turn("name", CASES)
def test_every_primitive_gives_numpys_values_and_gradients(name):
    for case in CASES[name]:
        host = case.map(single)
        there = host.map(device)
        with no_sync(), only(np.float32):
            found = as_tuple(there())
        for ours, numpys in zip(found, as_tuple(host()), strict=True):
            assert type(ours) is Tensor
            assert type(ours.data) is fakecupy.ndarray
            assert ours.dtype == numpys.dtype
            assert_array_equal(ours.data.get(), numpys.data)
        weights = output_weights(host)
        numpys = gradients(host, weights)
        with no_sync(), only(np.float32):
            ours = gradients(there, [device(w) for w in weights], watch=host.floats)
        for a, b in zip(ours, numpys, strict=True):
            assert a.dtype == b.dtype
            assert_array_equal(a.get(), b, err_msg=str(case))


def test_a_parameter_stays_where_its_array_is():
    parameter = Parameter(device(np.ones(3, np.float32)))
    assert type(parameter.data) is type(parameter.grad) is fakecupy.ndarray
    with Tape() as tape:
        loss = p.sum(parameter * parameter)
    tape.backward(loss)
    assert_array_equal(parameter.grad.get(), [2, 2, 2])
    assert "Tensor" in repr(Tensor(parameter.data))
    assert "[1., 1., 1.]" in repr(parameter)


@pytest.mark.filterwarnings("ignore:.*so nothing has changed")
@in_turn("kind", [optim.Adam, optim.RMSProp, lambda q: optim.SGD(q, momentum=0.9)])
@in_turn("bad", [None, np.nan])
@pytest.mark.filterwarnings("ignore:.*gradient's norm is nan")
def test_optimizers(kind, bad):
    random = np.random.default_rng(0)
    start, steps = (
        random.standard_normal(7).astype(np.float32),
        random.standard_normal((4, 7)).astype(np.float32),
    )
    if bad is not None:
        steps[2, 3] = bad
    host, there = Parameter(start), Parameter(device(start))
    optimizers = kind([host]), kind([there])
    for g in steps:
        optimizers[0].gradient[...] = g
        optimizers[1].gradient[...] = device(g)
        ours = optimizers[0].step(1e-2, max_norm=1.0, scale=0.5)
        with no_sync(), only(np.float32):
            theirs = optimizers[1].step(1e-2, max_norm=1.0, scale=0.5)
        assert bool(ours[1]) is bool(theirs[1]) is bool(np.isfinite(g).all())
    assert_array_equal(there.data.get(), host.data)


# --- Training -------------------------------------------------------------------------


def smallest(kind):
    """The first preset of a task with little to compute."""
    config = next(iter(kind.presets.values()))[1]
    # pieces of one size: agents' games go other ways where numbers round otherwise
    config = changed(config, train={"batch_size": 10, "micro_batch_size": 10})
    if hasattr(config.model, "embedding_size"):  # a language model
        sizes = {"embedding_size": 8, "head_size": 2, "hidden_size": 8}
        config = changed(config, model=sizes)
    if hasattr(config.model, "features"):  # an agent
        model = {"features": 8, "head_size": 4, "hidden_size": 8}
        parts = {"model": model, "world": {"limit": 10}, "agent": {"unroll": 6}}
        config = changed(config, **parts)
    return config


TASKS = [name for name in task_files() if name != "gym"]  # that plays on the host


def pairs():
    """Each task with each core; weekly, but for each core on one task, and for two
    cores of each task, its own and ours.
    """
    for name, core in itertools.product(TASKS, registry.names()):
        own = next(iter(load_task(name).Task.presets.values()))[1].model.core
        often = name == "nth_farthest" or core in ("rmc", own)
        yield pytest.param(name, core, marks=() if often else pytest.mark.weekly)


@pytest.mark.slow
@pytest.mark.parametrize("name, core", [*pairs()])
def test_training_steps_of_every_task(name, core, monkeypatch):
    fakecupy.installed(monkeypatch)
    kind = load_task(name).Task
    config = changed(smallest(kind), model={"core": core})
    host, there = (
        Trainer(kind(config), seed=3),
        Trainer(kind(config), seed=3, device="cuda"),
    )
    for _ in range(3):
        with nothing_drops_out():
            host.advance()
        with no_sync(), only(np.float32):
            there.advance()
    # Gradients of a word's embedding, of a GRU's weights, and a Transformer's products
    # are added up in another order there.
    approximate = name == "language_modeling" or core in ("gru", "transformer")
    exact = {"rtol": 1e-5, "atol": 1e-7} if approximate else {"rtol": 0}
    assert_allclose(there.optimizer.data.get(), host.optimizer.data, **exact)
    ours, numpys = there.read(), host.read()
    sums = "loss", "perplexity", "gradient_norm", "entropy", "value_loss", "ratio"
    for rounded in sums:
        # the device adds up the losses of several steps in float32
        if rounded in ours:
            expected = numpys.pop(rounded)
            assert ours.pop(rounded) == pytest.approx(expected, rel=1e-6)
    assert ours == numpys
    for trainer in host, there:
        trainer.task.test_examples = 20
    assert there.evaluate() == pytest.approx(host.evaluate(), rel=1e-6)

    again = Trainer(kind(config), seed=3, device="cuda")
    again.restore(there.arrays(), there.state())
    again.advance()
    there.advance()
    assert_array_equal(again.optimizer.data.get(), there.optimizer.data.get())


# --- What is done with a trained network ----------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_evaluation_and_pictures_of_every_task(name, tmp_path):
    """A network on the device is measured there without waiting, and drawn as it is on
    the host.
    """
    task = load_task(name).Task(smallest(load_task(name).Task))
    task.test_examples = 20
    host, there = (task.build(np.random.SeedSequence(1)).to(xp) for xp in (np, cupy))
    # players must know when the last level has ended
    waits = isinstance(task, ActingTask)
    with contextlib.nullcontext() if waits else no_sync(), only(np.float32):
        sums = task.evaluate(there, xp=cupy)
    assert MetricAccumulator(sums).means() == pytest.approx(
        MetricAccumulator(task.evaluate(host)).means(), rel=1e-6
    )
    if not hasattr(task, "pictures"):
        return
    pictures = []
    for label, model in ("host", host), ("device", there):
        (tmp_path / label).mkdir()
        pictures.append(
            [path.read_bytes() for path in task.pictures(model, tmp_path / label)]
        )
    assert pictures[0] == pictures[1]


OFTEN = ["nth_farthest", "box_world"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*OFTEN, *rarely(x for x in TASKS if x not in OFTEN)])
def test_a_run_on_the_device_is_read_on_the_host(
    name, pictures, monkeypatch, tmp_path, capsys
):
    """Trained by the command line with --device cuda: its files are loaded, evaluated
    and drawn without any device.
    """
    monkeypatch.chdir(tmp_path)
    fakecupy.installed(monkeypatch)
    kind = load_task(name).Task
    monkeypatch.setattr(kind, "test_examples", 20)
    words = [
        name,
        *"--train.steps 4 --train.batch-size 10 --train.log-every 2 --seed 1 "
        "--train.evaluate-every 2 --train.micro-batch-size 10 --workers 1".split(),
    ]
    if issubclass(kind, ActingTask):  # games may be long
        words += ["--world.limit", "10", "--agent.unroll", "6"]
    for device_name in "cpu", "cuda":
        assert train.main([*words, "--device", device_name, "--run", device_name]) == 0
    # neither CuPy's kernels here, nor graphs: that is said, and not of a CPU
    assert capsys.readouterr().out.count("note      no CUDA graphs: --graph needs") == 1
    monkeypatch.setitem(sys.modules, "cupy", None)  # from here on there is no device
    host, there = load("cpu"), load("cuda")
    for (parameter, ours), theirs in zip(
        there.named_parameters(), host.parameters(), strict=True
    ):
        # NumPy raises its own scalars to powers with other last bits
        assert type(ours.data) is np.ndarray and ours.dtype == theirs.dtype
        assert_allclose(ours.data, theirs.data, rtol=1e-5, atol=1e-6, err_msg=parameter)
    lines = [Run.open(path).metrics() for path in ("cpu", "cuda")]
    assert [line["step"] for line in lines[0]] == [2, 4]
    for ours, numpys in zip(*lines, strict=True):
        assert ours.keys() == numpys.keys()
        numbers = [
            name for name in ours if isinstance(ours[name], float) and name != "seconds"
        ]
        assert all(
            ours[name] == pytest.approx(numpys[name], rel=1e-5) for name in numbers
        )
    assert evaluate.main(["cuda"]) == 0
    assert plot.main(["cuda"]) == 0
    assert sorted(path.name for path in Path("cuda").iterdir()) == sorted(
        path.name for path in Path("cpu").iterdir()
    )
