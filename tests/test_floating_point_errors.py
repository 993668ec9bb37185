"""Where NumPy is told to raise floating-point errors: the same values, or its own
FloatingPointError that names the operation. What is too small to matter is no error.
"""

import itertools

import numpy as np
import pytest
from samplers import CASES, as_tuple, gradients, output_weights

from tinyrmc import Parameter, Tape, optim
from tinyrmc import primitives as p
from tinyrmc.cores import CoreConfig, DNCConfig, build_core, registry

CORES = registry.names()
SCALES = {np.float32: (1, 1e-43, 1e-30, 1e4, 1e30), np.float64: (1, 1e-310, 1e200)}


def in_peace_and_in_alarm(work):
    """Work as usual, and where NumPy raises: arrays, or the error."""
    with np.errstate(all="ignore"):
        usual = work()
    with np.errstate(all="raise"):
        try:
            return usual, work()
        except FloatingPointError as error:
            return usual, error


def assert_equal(found, usual):
    for one, other in zip(found, usual, strict=True):
        np.testing.assert_array_equal(one, other)


def test_every_operation_gives_the_same_or_names_itself():
    raised = set()
    for name, dtype in itertools.product(CASES, SCALES):
        for case, scale in itertools.product(CASES[name], SCALES[dtype]):

            def scaled(a):
                return np.asarray(a * scale, dtype) if a.dtype.kind == "f" else a

            with np.errstate(all="ignore"):
                small = case.map(scaled)
                weights = [w.astype(dtype) for w in output_weights(small)]

            def work():
                outputs = [t.data for t in as_tuple(small())]
                return outputs + gradients(small, weights)

            usual, found = in_peace_and_in_alarm(work)
            if isinstance(found, FloatingPointError):
                assert "underflow" not in str(found), str(small)
                raised.add(name)
            else:
                assert_equal(found, usual)
    assert {"exp", "square", "divide"} <= raised
    assert not {"softmax", "sigmoid", "tanh", "softplus", "add"} & raised


def test_the_error_says_where_and_keeps_its_kind():
    with np.errstate(all="raise"):
        very = p.softmax(np.float32([[0, -1e4], [-1e30, -1e30]]))
        assert very.data.tolist() == [[1, 0], [0.5, 0.5]]
        for function, value, says in (
            (p.exp, 1000.0, r"exp\(float64\[1\]\): overflow encountered in exp"),
            (p.log, 0.0, r"log\(float64\[1\]\): divide by zero encountered in log"),
            (p.sqrt, -1.0, r"sqrt\(float64\[1\]\): invalid value encountered in sqrt"),
        ):
            with pytest.raises(FloatingPointError, match=says):
                function(np.array([value]))


def test_cores_step_and_learn_in_alarm():
    sizes = {"mem_slots": 3, "head_size": 2, "num_heads": 2, "hidden_size": 4}
    for name in CORES:
        config = CoreConfig(
            core=name, layers=2, settings={"dnc": DNCConfig(3, 2, 2)}, **sizes
        )
        core = build_core(config, 3, np.random.default_rng(0))
        for scale in 1, 1e-40, 1e3:
            x = np.random.default_rng(1).standard_normal((2, 5, 3)) * scale
            x = x.astype(np.float32)

            def work():
                for w in core.parameters():
                    w.grad[...] = 0
                with Tape() as tape:
                    out, _ = core.unroll(x, core.initial_state(2))
                    loss = p.sum(p.square(p.stack(out)))
                tape.backward(loss)
                return [loss.data, *[w.grad.copy() for w in core.parameters()]]

            usual, found = in_peace_and_in_alarm(work)
            assert not isinstance(found, FloatingPointError), (name, scale, found)
            assert_equal(found, usual)


@pytest.mark.filterwarnings("ignore:.*so nothing has changed")
def test_optimizers_take_gradients_of_any_size_in_alarm():
    """Half a step, broken off by an error, would leave moments without a change."""
    for kind in optim.SGD, optim.RMSProp, optim.Adam:
        for scale in 1e-44, 1e-30, 1.0, 1e30, np.inf:

            def work():
                w = Parameter(np.ones(3, np.float32))
                optimizer = kind([w])
                for _ in range(3):
                    w.grad = np.full(3, scale, np.float32)
                    norm, finite = optimizer.step(max_norm=1.0, scale=0.5)
                return [w.data.copy(), norm, finite, *optimizer.state().values()]

            usual, found = in_peace_and_in_alarm(work)
            assert not isinstance(found, FloatingPointError), (kind, scale, found)
            assert_equal(found, usual)
