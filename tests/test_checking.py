"""The checker itself: it passes what is right, fails what is wrong and says where.

And its Hessian products are exact.
"""

import itertools
import re
import sys
import threading

import numpy as np
import pytest

from tinyrmc import Parameter, Tensor, fused, gradcheck, nn
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import TABLE, primitive
from tinyrmc.autograd.gradcheck import _named

random = np.random.default_rng(0)
X, Y = random.standard_normal((3, 4)), random.standard_normal((4, 2))


# --- Right functions ------------------------------------------------------------------


def test_right_functions_pass():
    z, c = random.standard_normal((2, 12)), random.standard_normal((2, 3))
    for function, *inputs in (
        (lambda x, y: p.sum(p.tanh(x @ y)), X, Y),
        (lambda x, y: x @ y, X, Y),  # not a scalar
        (lambda x: (p.exp(x), p.sum(x * x)), X),  # several results
        (lambda z, c: fused.lstm_gates(z, c), z, c),
        (lambda x: p.square(x), np.array(3.0)),  # 0-d
        (lambda x: x * x, np.array(3.0)),
        (lambda x: x[0] * x[1], np.array([2.0, 3.0])),
        (lambda x, y: x**3 + 2**x + y**x + np.ones(3) ** y, X[:, :3], Y.T[:1, :3] ** 2),
        (lambda x: p.where(x.data.real > 0, x, 0.0), X),
        (
            lambda x, y: p.multiply(x, 2.0) + p.multiply(y, np.ones(3)),
            np.array(3.0),
            np.ones(1),
        ),
        (lambda x: p.sum(x) * 0.0, X),  # depends on x in name only
    ):
        for seed in range(3):
            assert gradcheck(function, *inputs, seed=seed) <= 1e-14


def test_integer_and_mask_inputs_pass_through():
    def loss(x, indices, mask):
        assert indices.dtype == np.int64
        assert mask.dtype == bool
        return p.sum(p.where(mask, p.square(p.take(x, indices, axis=0)), 0.0))

    gradcheck(loss, X, np.array([0, 2, 2]), random.random((3, 4)) < 0.5)


def test_parameters_are_checked_and_left_as_they_were():
    weight, bias, scale = Parameter(Y), Parameter(np.ones(2)), Parameter(np.array(2.0))
    weight.grad[...] = 7.0
    places = [(q.data, q.grad, q.version) for q in (weight, bias, scale)]
    gradcheck(
        lambda x: fused.linear(x, weight, bias, relu=True) * scale,
        X,
        parameters=[weight, bias, scale],
    )
    for q, (data, grad, version) in zip((weight, bias, scale), places, strict=True):
        assert q.data is data
        assert q.grad is grad
        assert q.version == version
        assert q.dtype == np.float64
    assert (weight.data == Y).all()
    assert (weight.grad == 7).all()


# --- Wrong functions ------------------------------------------------------------------


def detached_half(x, y):
    """Right in x; in y, half of the dependence is cut off."""
    cut = y.detach() if isinstance(y, Tensor) else y
    return p.sum(x) + p.sum(p.square(y)) + p.sum(cut)


def test_a_wrong_gradient_is_reported_with_its_argument_both_numbers_and_the_seed():
    with pytest.raises(AssertionError) as caught:
        gradcheck(detached_half, X, Y, seed=5)
    message = str(caught.value)
    assert message.count("\n") == 2
    found = re.search(
        r"input 1 of shape \(4, 2\):\nbackward gives (\S+), the complex step "
        r"(\S+),\nrelative error (\S+) over",
        message,
    )
    assert found, message
    assert float(found[1]) != pytest.approx(float(found[2]))
    assert message.endswith("tolerance 1e-10, seed 5")


def test_a_wrong_parameter_is_named():
    right, wrong = Parameter(X), Parameter(Y)
    with pytest.raises(AssertionError, match=r"worst at parameter 1 of shape \(4, 2\)"):
        gradcheck(
            lambda: p.sum(right * right) + p.sum(p.square(wrong.detach()) * wrong),
            parameters=[right, wrong],
        )
    with pytest.raises(AssertionError, match=r"worst at parameter 'b' of shape \(4"):
        gradcheck(
            lambda x: p.sum(x * right) + p.sum(p.square(wrong.detach()) * wrong),
            Parameter(X),
            parameters={"a": right, "b": wrong},
        )


def test_what_the_complex_step_cannot_see_is_told():
    """Not what is stopped on purpose, nor a kink."""
    for function in lambda x: x * np.abs(x.data), lambda x: x / np.linalg.norm(x.data):
        with pytest.raises(ValueError, match=r"cannot judge .* modulus of complex"):
            gradcheck(function, X)
    assert gradcheck(lambda x: x / p.stop_gradient(p.sum(x * x)), X) < 1e-14
    assert gradcheck(p.abs, np.zeros(3)) == 0


def test_what_is_stopped_hides_no_mistake_beside_it():
    def real(xp, x):
        return xp.exp(x.real) + 0 * x, (x,)

    wrong = primitive(real)
    wrong.vjp(lambda xp, needs, g, x: 0 * g)
    for stopped in (lambda x: p.stop_gradient(x) * x, lambda x: p.stop_gradient(x)):
        assert gradcheck(lambda x, f=stopped: f(x) + p.exp(x), X) < 1e-14
        with pytest.raises(ValueError, match="cannot judge"):
            gradcheck(lambda x, f=stopped: wrong(x) + f(x), X)
    del TABLE["real"]


def test_a_bend_is_no_kink():
    def forward(xp, x):
        return xp.sin(x), (x,)

    wrong = primitive(forward)
    wrong.vjp(lambda xp, needs, g, x: 1.001 * g * xp.cos(x))
    for x in np.linspace(-3, 3, 9):
        with pytest.raises(AssertionError) as told:
            gradcheck(lambda x: wrong(100 * x), np.full(12, x))
        assert "kink" not in str(told.value)
    del TABLE["forward"]


def test_two_checks_at_once_leave_the_parameters_alone():
    layer = nn.Linear(3, 2, seed=0).astype(np.float64)
    before, failed = layer.arrays(), []

    def check():
        try:
            for _ in range(20):
                gradcheck(layer, np.ones((4, 3)))
        except AssertionError as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=check) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    for name, array in layer.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_what_another_thread_stops_hides_nothing_here():
    def function(x):
        thread = threading.Thread(target=lambda: p.stop_gradient(np.ones(1) + 0j))
        thread.start()
        thread.join()
        return x * np.abs(x.data)

    with pytest.raises(ValueError, match="cannot judge"):
        gradcheck(function, X)


def test_a_rule_that_agrees_with_a_complex_step_that_sees_nothing(monkeypatch):
    """Both say that the slope is 0; a plain difference knows better."""
    forwards = [
        lambda xp, x: (xp.exp(x.real) + 0 * x, ()),
        lambda xp, x: (1e-9 * xp.exp(x.real) + 0 * x, ()),
        lambda xp, x: (1e9 * xp.sin(x.real) + 0 * x, ()),
        lambda xp, x: (xp.exp(x.real) + xp.maximum(x, 0), ()),  # at a kink, too
    ]
    monkeypatch.setattr(p.tanh, "rule", lambda xp, needs, g: 0 * g)
    for forward, x in itertools.product(forwards, (X, 1 + X, 0 * X[:1])):
        monkeypatch.setattr(p.tanh, "forward", forward)
        with pytest.raises((ValueError, AssertionError)):
            gradcheck(p.tanh, x)


def test_one_number_among_thousands_that_the_complex_step_cannot_see(monkeypatch):
    x = np.random.default_rng(0).normal(size=(40, 50))
    seen = np.arange(x.size).reshape(x.shape) != 7

    def forward(xp, x):
        return xp.where(seen, xp.exp(x), xp.exp(x.real) + 0 * x), (x,)

    monkeypatch.setattr(p.tanh, "forward", forward)
    monkeypatch.setattr(p.tanh, "rule", lambda xp, needs, g, x: g * seen * xp.exp(x))
    with pytest.raises(ValueError, match="cannot judge"):
        gradcheck(p.tanh, x)


def test_what_is_flat_at_a_point_passes():
    """Where the first derivatives are 0, higher ones must not look like a mistake."""
    zeros = np.zeros(3)
    for function in p.square, p.prod, lambda x: x**3, lambda x: x**4 + x**5, p.cos:
        assert gradcheck(function, zeros) < 1e-10


def test_a_kink_is_told_where_the_check_fails():
    for function, x in (
        (p.max, np.array([1.0, 1.0])),
        (p.min, np.array([2.0, 1.0, 1.0])),
        (lambda x: p.clip(x, 0.0, 1.0), np.array([1.0, 0.5])),
        (lambda x: p.maximum(x, 1.0 * x[::-1]), np.array([1.0, 1.0])),
    ):
        with pytest.raises(AssertionError, match=r"has a kink here, .*; move the"):
            gradcheck(function, x)
        gradcheck(function, x + np.array([-0.05, 0.1, 0.3])[: x.size])
    # where neither slope is the complex step's, nor between those of both sides
    with pytest.raises(ValueError, match=r"(?s)cannot judge .*a kink here.*; move"):
        gradcheck(lambda x: p.clip(x, 0.0, 1.0), np.array([0.0, 1.0]))


def test_a_wrong_rule_is_found(monkeypatch):
    rule = p.tanh.rule

    def one_element(*args):
        g = rule(*args)
        g[1, 2] *= 1.01
        return g

    scaled = [
        lambda *args, f=factor: f * rule(*args) for factor in (1 + 1e-9, 1.001, 0, -1)
    ]
    for wrong in *scaled, one_element:
        monkeypatch.setattr(p.tanh, "rule", wrong)
        with pytest.raises(AssertionError, match="check failed, worst at input 0"):
            gradcheck(lambda x: p.tanh(x), X)


def test_scalar_results_are_not_interchangeable():
    """With equal weights a rule that swaps their gradients would pass."""

    @primitive
    def both(xp, x):
        return (xp.sin(x), xp.cos(x)), (x,)

    del TABLE["both"]  # no other test shall meet it

    def rule(xp, needs, g, x):
        return g[0] * xp.cos(x) - g[1] * xp.sin(x)

    both.vjp(rule)
    gradcheck(lambda x: both(x), np.array(0.7))
    both.vjp(lambda xp, needs, g, x: rule(xp, needs, g[::-1], x))
    with pytest.raises(AssertionError, match="worst at input 0"):
        gradcheck(lambda x: both(x), np.array(0.7))


def test_what_could_not_be_checked_is_refused():
    unused = Parameter(np.ones(2))
    for kind, message, function, *inputs in (
        (AssertionError, "not depend on input 0; was", lambda x: p.sum(x.detach()), X),
        (AssertionError, "not depend on input 1", lambda x, y: p.sum(x * x), X, Y),
        (TypeError, r"got float32 of shape \(3, 4\)", p.sum, X.astype(np.float32)),
        (TypeError, "float64, got complex128", lambda x, z: p.sum(x), X, X + 1j),
        (ValueError, "numbers to move", lambda x: p.sum(x * x), np.ones((0, 3))),
        (ValueError, "numbers to move", lambda x: p.sum(p.exp(X)), np.arange(3)),
        (ValueError, "result without numbers", lambda x: x[:0] * 2.0, np.ones(3)),
        (TypeError, "that are Tensors", lambda x: (p.sum(x), np.ones(2)), np.ones(3)),
    ):
        with pytest.raises(kind, match=message):
            gradcheck(function, *inputs)
    with pytest.raises(AssertionError, match="does not depend on parameter 'b'"):
        gradcheck(lambda x: p.sum(x * x), X, parameters={"b": unused})
    weight = Parameter(Y.astype(np.float32))
    with pytest.raises(TypeError, match=r"got float32 of shape \(4, 2\)"):
        gradcheck(lambda: p.sum(weight), parameters=[weight])
    says = r"Tensors, and result\.1\.a is a ndarray; was its \.data taken"
    with pytest.raises(TypeError, match=says):
        gradcheck(lambda x: (p.tanh(x), {"a": p.tanh(x).data}), X)
    for tolerance in None, np.nan, True, np.inf:
        with pytest.raises(ValueError, match="tolerance"):
            gradcheck(p.sum, X, tolerance=tolerance)


class Detached(nn.Module):
    """Its weight takes part in the result, and gets no gradient."""

    def __init__(self):
        self.weight = Parameter(np.ones((3, 2)))

    def __call__(self, x):
        return x @ self.weight.data

    method = __call__


def test_a_network_s_own_parameters_are_checked():
    layer = nn.Linear(3, 2, dtype=np.float64, seed=0)
    assert gradcheck(layer, X[:, :3]) < 1e-10
    assert gradcheck(lambda x: layer(x), X[:, :3], parameters=layer) < 1e-10
    more = {"weight": Parameter(np.ones(2))}  # of the same name as the layer's
    checked = _named(layer, [layer.weight], more)
    assert [*checked.values()] == [layer.weight, layer.bias, more["weight"]]
    for call in (
        lambda: gradcheck(Detached(), X[:, :3]),
        lambda: gradcheck(p.tanh, X[:, :3], parameters=Detached()),
        lambda: gradcheck(Detached(), X[:, :3], parameters=layer),
        lambda: gradcheck(Detached(), X[:, :3], parameters=[layer.weight]),
        lambda: gradcheck(Detached(), X[:, :3], parameters={"weight": layer.weight}),
        lambda: gradcheck(Detached().method, X[:, :3]),
    ):
        with pytest.raises(AssertionError, match="not depend on parameter 'weight'"):
            call()
