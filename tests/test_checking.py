"""The checker itself: it passes what is right, fails what is wrong and says where.

And its Hessian products are exact.
"""

import re

import numpy as np
import pytest

from tinyrmc import Parameter, Tape, Tensor, fused, gradcheck, nn
from tinyrmc import primitives as p
from tinyrmc.autograd import engine
from tinyrmc.autograd.engine import TABLE, Primitive, primitive
from tinyrmc.autograd.gradcheck import hessian_vector_product

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


def test_constants_stay_real_while_one_argument_moves():
    """Each argument of a fused primitive on its own, the others closed over."""
    gain = np.ones(4)
    gradcheck(lambda bias: fused.linear(X, Y, bias), np.ones(2))
    gradcheck(lambda offset: fused.layer_norm(X, gain, offset), gain)
    gradcheck(lambda residual: fused.layer_norm(X, gain, gain, residual), X)
    gates, memory = random.standard_normal((2, 3, 8)), random.standard_normal((2, 3, 4))
    gradcheck(lambda m: fused.rmc_gates(gates[:, :1], gates, memory, m), memory)
    gradcheck(lambda z: fused.rmc_gates(gates[:, :1], z, memory, memory), gates)


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


def test_parameters_come_back_after_a_failure():
    weight = Parameter(Y)
    with pytest.raises(ZeroDivisionError):
        gradcheck(
            lambda: p.sum(weight) if weight.dtype == np.float64 else 1 / 0,
            parameters=[weight],
        )
    assert weight.dtype == np.float64


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


def test_the_place_of_an_input_counts_integers_too():
    with pytest.raises(AssertionError, match=r"worst at input 2 of shape \(4, 2\)"):
        gradcheck(lambda x, k, y: detached_half(x, y), X, np.array([1]), Y)


def test_a_wrong_parameter_is_named():
    right, wrong = Parameter(X), Parameter(Y)
    with pytest.raises(AssertionError, match=r"worst at parameter 1 of shape \(4, 2\)"):
        gradcheck(
            lambda: p.sum(right * right) + p.sum(p.square(wrong.detach()) * wrong),
            parameters=[right, wrong],
        )
    with pytest.raises(
        AssertionError, match=r"worst at parameter 'b' of shape \(4, 2\)"
    ):
        gradcheck(
            lambda x: p.sum(x * right) + p.sum(p.square(wrong.detach()) * wrong),
            Parameter(X),
            parameters={"a": right, "b": wrong},
        )


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
        (
            AssertionError,
            "not depend on input 0; was it",
            lambda x: p.sum(x.detach()),
            X,
        ),
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
    for tolerance in None, np.nan, True, np.inf:
        with pytest.raises(ValueError, match="tolerance"):
            gradcheck(p.sum, X, tolerance=tolerance)


# --- Hessian-vector products ----------------------------------------------------------


def test_hessian_of_a_logistic_loss():
    """sum log(1 + e^z), z = X w: the Hessian is X^T diag(s (1 - s)) X, s = sigma(z)."""
    w, v = Parameter(random.standard_normal(4)), random.standard_normal(4)
    (product,) = hessian_vector_product(
        lambda: p.sum(p.log(1.0 + p.exp(X @ w))), [w], [v]
    )
    s = 1 / (1 + np.exp(-X @ w.data))
    np.testing.assert_allclose(product, X.T @ (s * (1 - s) * (X @ v)), rtol=1e-13)


def test_hessian_is_symmetric_through_every_fused_primitive():
    """u^T H v = v^T H u, H v is linear in v, and is the derivative of the gradient.

    For a loss through attention, norms, gates, a ReLU and the cross-entropy.
    """
    make = np.random.default_rng(3).standard_normal
    qkv, gain, weight, cell = parameters = [
        Parameter(make(s)) for s in ((4, 2 * 6), (4,), (4, 16), (2, 4))
    ]
    x, memory, targets = make((2, 3, 4)), make((2, 3, 4)), np.array([1, 3])

    def loss():
        heads = fused.linear(x, qkv)
        rows = fused.attention(heads, num_heads=2, key_size=2)  # (2, 3, 4)
        rows = fused.layer_norm(rows, gain, gain * 0.5, memory)
        from_input = fused.linear(rows[:, :1], weight[:, :8])
        from_memory = fused.linear(rows, weight[:, 8:], relu=True)
        rows = fused.rmc_gates(from_input, from_memory, rows, rows * memory)
        hidden, _ = fused.lstm_gates(rows[:, 0] @ weight, cell)
        return p.mean(fused.softmax_cross_entropy(hidden * 3.0, targets))

    u, v = ([make(q.shape) for q in parameters] for _ in range(2))

    def inner(left, right):
        return sum(np.sum(a * b) for a, b in zip(left, right, strict=True))

    Hu, Hv = (hessian_vector_product(loss, parameters, d) for d in (u, v))
    assert inner(u, Hv) == pytest.approx(inner(v, Hu), rel=1e-12)
    both = hessian_vector_product(
        loss, parameters, [a - 2 * b for a, b in zip(u, v, strict=True)]
    )
    for total, a, b in zip(both, Hu, Hv, strict=True):
        np.testing.assert_allclose(total, a - 2 * b, rtol=1e-11, atol=1e-13)
    small = 1e-5
    after, before = (gradient_at(loss, parameters, v, h) for h in (small, -small))
    for right, left, exact in zip(after, before, Hv, strict=True):
        slope = (right - left) / (2 * small)
        np.testing.assert_allclose(slope, exact, rtol=1e-6, atol=1e-8)


def gradient_at(loss, parameters, directions, h):
    """The gradient of loss() with the parameters moved by h along the directions."""
    start = [q.data.copy() for q in parameters]
    for q, d in zip(parameters, directions, strict=True):
        q.data = q.data + h * d
    with Tape() as tape:
        value = loss()
    gradient = tape.gradient(value, parameters)
    for q, data in zip(parameters, start, strict=True):
        q.data = data
    return gradient


def test_parameters_stay_real_and_vectors_fit():
    w = Parameter(np.ones(3))
    data, grad = w.data, w.grad
    hessian_vector_product(lambda: p.sum(p.exp(w)), [w], [np.ones(3)])
    assert w.data is data
    assert w.grad is grad
    assert (grad == 0).all()
    for vector in np.ones(1), np.full(3, 1j):
        with pytest.raises(ValueError, match="is no real vector for a parameter"):
            hessian_vector_product(lambda: p.sum(w * w * w), [w], [vector])


class Detached(nn.Module):
    """Its weight takes part in the result, and gets no gradient."""

    def __init__(self):
        self.weight = Parameter(np.ones((3, 2)))

    def __call__(self, x):
        return x @ self.weight.data


def test_a_network_s_own_parameters_are_checked():
    layer = nn.Linear(3, 2, dtype=np.float64)
    assert gradcheck(layer, X[:, :3]) < 1e-10
    assert gradcheck(lambda x: layer(x), X[:, :3], parameters=layer) < 1e-10
    for call in (
        lambda: gradcheck(Detached(), X[:, :3]),
        lambda: gradcheck(p.tanh, X[:, :3], parameters=Detached()),
    ):
        with pytest.raises(AssertionError, match="not depend on parameter 'weight'"):
            call()


def test_what_the_complex_step_cannot_differentiate_is_named(monkeypatch):
    monkeypatch.setattr(engine, "TABLE", dict(TABLE))
    magnitude = Primitive(lambda xp, x: (xp.abs(x), ()))
    magnitude.vjp(lambda xp, needs, g: g)
    with pytest.raises(TypeError, match="or the function is not analytic"):
        gradcheck(magnitude, X)
