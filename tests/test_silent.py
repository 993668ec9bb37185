"""Calls that would give a wrong result without a word: each is right, or refused.

Here is what a tape and an optimizer notice; settings, shapes, names and checks are in
test_silent_calls.py.
"""

import copy
import math
import pickle
import threading

import numpy as np
import pytest

from tinyrmc import Parameter, Tape, nn, optim
from tinyrmc import primitives as p


def ones(*shape):
    return np.ones(shape, np.float32)


def recorded(loss):
    """A tape with this loss, and what it gave."""
    with Tape() as tape:
        value = loss()
    return tape, value


# --- Parameters that are copied -------------------------------------------------------


COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_is_a_parameter_of_its_own(copied):
    one = Parameter(ones(3))
    optimizer = optim.SGD([one], 1.0)
    one.grad[...] = 5
    other = copied(one)
    assert other.id != one.id
    assert other.offset is None
    assert other.grad.tolist() == [0, 0, 0]
    tape, loss = recorded(lambda: p.sum(one * 2.0 + other * 3.0))
    one.grad[...] = 0
    tape.backward(loss)
    assert (one.grad == 2).all()
    assert (other.grad == 3).all()
    optimizer.step()
    assert (other.data == 1).all()


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_tied_parameters_stay_tied_in_a_copy(copied):
    module = nn.Module()
    module.one = module.two = Parameter(ones(3))
    other = copied(module)
    assert other.one is other.two


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_what_shares_memory_is_not_copied(copied):
    weight = Parameter(ones(3))
    tape, _ = recorded(lambda: p.sum(weight * 2.0))
    with pytest.raises(TypeError, match="Tape cannot be copied or pickled"):
        copied(tape)
    with pytest.raises(TypeError, match="Adam cannot be copied or pickled"):
        copied(optim.Adam([weight]))


# --- Where gradients land -------------------------------------------------------------


def test_a_gradient_from_before_the_optimizer_counts():
    weight = Parameter(ones(3))
    tape, loss = recorded(lambda: p.sum(weight * 2.0))
    tape.backward(loss)
    optimizer = optim.SGD([weight], 1.0)
    assert optimizer.gradient.tolist() == weight.grad.tolist() == [2, 2, 2]
    optimizer.step()
    assert weight.data.tolist() == [-1, -1, -1]


def test_assigning_a_gradient_reaches_the_optimizer():
    weight = Parameter(ones(3))
    optimizer = optim.SGD([weight], 1.0)
    weight.grad = np.array([1, 2, 3], np.float32)
    assert optimizer.gradient.tolist() == [1, 2, 3]
    optimizer.step()
    assert weight.data.tolist() == [0, -1, -2]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, TypeError), (ones(2), ValueError), (np.ones(3), TypeError)],
)
def test_a_gradient_that_does_not_fit_is_refused(value, kind):
    weight = Parameter(ones(3))
    with pytest.raises(kind, match="Parameter"):
        weight.grad = value


@pytest.mark.parametrize("size", [3, 4])
def test_backward_into_another_optimizers_buffer_is_refused(size):
    weight = Parameter(ones(3))
    optim.SGD([weight])
    other = optim.SGD([Parameter(ones(size))])
    tape, loss = recorded(lambda: p.sum(weight * 2.0))
    with pytest.raises(ValueError, match="another optimizer's buffer"):
        tape.backward(loss, into=other.gradient)
    assert not other.gradient.any()


def test_backward_into_a_buffer_of_two_optimizers_is_refused():
    one, two = Parameter(ones(3)), Parameter(ones(3))
    first, _ = optim.SGD([one]), optim.SGD([two])
    tape, loss = recorded(lambda: p.sum(one * two))
    with pytest.raises(ValueError, match="live in one optimizer's flat buffer"):
        tape.backward(loss, into=np.zeros_like(first.gradient))


def test_backward_of_a_loss_without_parameters_into_a_buffer_is_refused():
    buffer = optim.SGD([Parameter(ones(3))]).gradient
    with Tape() as tape:
        loss = p.sum(tape.watch(ones(3)) * 2.0)
    with pytest.raises(ValueError, match="the loss used no Parameter"):
        tape.backward(loss, into=buffer)


@pytest.mark.parametrize("wrong", [ones(4), np.ones(3)], ids=["size", "dtype"])
def test_backward_into_an_array_of_another_layout_is_refused(wrong):
    weight = Parameter(ones(3))
    optim.SGD([weight])
    tape, loss = recorded(lambda: p.sum(weight * 2.0))
    with pytest.raises(ValueError, match="is not laid out as"):
        tape.backward(loss, into=wrong)


# --- What changes between forward and backward ----------------------------------------


def changed(message, forward, change):
    """Backward after a change is refused; without it, it is not."""
    for change_now in (False, True):
        tape, loss = recorded(forward)
        if change_now:
            change()
            with pytest.raises(RuntimeError, match=message):
                tape.backward(loss)
        else:
            tape.backward(loss)


@pytest.mark.parametrize("shape", [(2, 3), (500, 3), (3,)])
def test_a_buffer_that_is_refilled_is_noticed(shape):
    x, w = ones(*shape), Parameter(ones(3, 4))
    message = r"matmul: an array float32.* was changed after it was recorded"
    changed(message, lambda: p.sum(p.matmul(x, w)), lambda: x.fill(5))


def test_a_buffer_that_is_refilled_inside_the_tape_is_noticed():
    x, w = ones(2, 3), Parameter(ones(3, 4))
    with Tape() as tape:
        loss = p.sum(p.matmul(x, w))
        x[...] = 7
        loss = loss + p.sum(p.matmul(x, w))
    with pytest.raises(RuntimeError, match="fill another one"):
        tape.backward(loss)


def test_an_array_that_no_rule_has_saved_may_be_refilled():
    x, w = ones(2, 3), Parameter(ones(2, 3))
    tape, loss = recorded(lambda: p.sum(w + x))
    x[...] = 7
    tape.backward(loss)
    assert (w.grad == 1).all()


def test_a_strided_view_that_is_refilled_is_noticed():
    x, w = ones(9, 2, 3), Parameter(ones(3, 4))
    message = "was changed after"
    changed(message, lambda: p.sum(p.matmul(x[::2, 1], w)), lambda: x.fill(0))


def test_a_parameter_written_in_place_is_noticed():
    w = Parameter(ones(40, 50))

    def refill():
        w.data[...] = 7

    changed("Parameter: an array float32", lambda: p.sum(w * w), refill)


def test_results_cannot_be_written():
    w = Parameter(ones(3))
    with Tape() as tape:
        y = w * 2.0
        with pytest.raises(ValueError, match="read-only"):
            y.data[...] = 0
        with pytest.raises(TypeError, match="Tensor is immutable"):
            y.data = np.zeros(3, np.float32)
        loss = p.sum(y * y)
    tape.backward(loss)
    assert (w.grad == 8).all()


def test_a_primitive_that_returns_its_argument_leaves_it_writable():
    w = Parameter(ones(3))
    recorded(lambda: p.squeeze(w))
    w.data = ones(3) * 2
    assert w.data.flags.writeable


def test_a_watched_array_may_change(xp):
    x = xp.ones(3, np.float32)
    with Tape() as tape:
        y = tape.watch(x)
        loss = p.sum(y * y)
        x[...] = 9
    assert tape.gradient(loss, y).tolist() == [2, 2, 2]


# --- Threads --------------------------------------------------------------------------


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_what_another_thread_computed_is_no_silent_constant():
    w = Parameter(ones(3))
    with Tape():
        own = w * 3.0
        for function in (lambda: p.sum(w * w), lambda: p.sum(own)):
            other = in_a_thread(function)
            with pytest.raises(RuntimeError, match="computed in another thread"):
                p.sum(w) + other
            p.sum(w) + other.detach()


def test_a_copied_constant_is_a_constant():
    w, constant = Parameter(ones(3)), p.sin(ones(3))
    with Tape() as tape:
        recorded_one = w * 2.0
        loss = p.sum(w * copy.deepcopy(constant))
    tape.backward(loss)
    np.testing.assert_array_equal(w.grad, constant.data)
    with pytest.raises(TypeError, match="Tape cannot be copied"):
        copy.deepcopy(recorded_one)


def test_what_this_thread_computed_before_is_a_constant():
    w = Parameter(ones(3))
    before = p.sum(w * w)
    tape, loss = recorded(lambda: p.sum(w) * before)
    tape.backward(loss)
    assert (w.grad == 3).all()


def meeting(rule):
    """x, whose vjp calls the rule first."""
    from tinyrmc.autograd.engine import TABLE, Primitive

    def met(xp, x):
        return x + 0, ()

    primitive = Primitive(met)
    del TABLE["met"]

    @primitive.vjp
    def met_vjp(xp, needs, g):
        rule()
        return g

    return primitive


def test_two_threads_that_add_into_one_parameter_lose_nothing():
    """The second waits until the first is done, so it never reaches the rule."""
    w, inside, order = Parameter(ones(3)), threading.Event(), []

    def slow():
        inside.set()
        second.join(0.3)
        order.append("first")

    one, two = meeting(slow), meeting(lambda: order.append("second"))

    def work(primitive):
        tape, loss = recorded(lambda: p.sum(primitive(w)))
        tape.backward(loss)

    first = threading.Thread(target=work, args=(one,))
    second = threading.Thread(target=lambda: (inside.wait(), work(two)))
    second.start()
    first.start()
    first.join()
    second.join()
    assert order == ["first", "second"]
    assert (w.grad == 2).all()


def test_two_threads_that_add_into_one_buffer_are_refused():
    w, refusals = Parameter(ones(3)), []
    optimizer = optim.SGD([w])
    buffer = np.zeros_like(optimizer.gradient)

    def other():
        tape, loss = recorded(lambda: p.sum(w * 2.0))
        with pytest.raises(RuntimeError, match="another thread is adding") as caught:
            tape.backward(loss, into=buffer)
        refusals.append(caught)

    primitive = meeting(lambda: in_a_thread(other))
    tape, loss = recorded(lambda: p.sum(primitive(w)))
    tape.backward(loss, into=buffer)
    assert len(refusals) == 1
    assert (buffer == 1).all()


# --- Optimizers -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [optim.Adam, optim.RMSProp])
def test_moments_need_room(make):
    with pytest.raises(ValueError, match=r"epsilon must be at least 1\.2e-38"):
        make([Parameter(ones(3))], epsilon=1e-45)


@pytest.mark.parametrize("make", [optim.Adam, optim.RMSProp, optim.SGD])
def test_halves_have_no_room_for_squares_of_gradients(make):
    with pytest.raises(TypeError, match="needs float32 or wider: in float16"):
        make([Parameter(np.ones(3, np.float16))])


def test_an_optimizer_refuses_what_it_cannot_mean():
    with pytest.raises(TypeError, match="real parameters, not complex128"):
        optim.SGD([Parameter(np.ones(2, complex))])
    with pytest.raises(ValueError, match="Parameters are empty"):
        optim.SGD([Parameter(np.ones(0))])
    optimizer = optim.SGD([Parameter(ones(2))])
    with pytest.raises(ValueError, match="learning_rate must be"):
        optim.SGD([Parameter(ones(2))], True)
    for arguments in (
        {"scale": ones(2)},
        {"valid": "False"},
        {"valid": ones(2) > 0},
        {"learning_rate": True},
        {"max_norm": np.True_},
    ):
        (name,) = arguments
        with pytest.raises(ValueError, match=f"{name} must be"):
            optimizer.step(**arguments)
    optimizer.clips = "Matrix"
    with pytest.raises(ValueError, match=r"clips must be one of.*, not 'Matrix'"):
        optimizer.step(max_norm=1.0)
    with pytest.raises(ValueError, match="'first_moment' is unknown to SGD"):
        optimizer.load_state(optim.Adam([Parameter(ones(2))]).state())
    with pytest.raises(ValueError, match="'updates' is float32, the array complex128"):
        optimizer.load_state({"updates": np.array(1j)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"decay": 40},
        {"peak": -1e-3},
        {"peak": True},
        {"floor": 2},
        {"warmup": -1},
        {"warmup": 0.1},
        {"steps": 0},
        {"steps": math.inf},
    ],
    ids=str,
)
def test_a_schedule_of_percents_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        optim.schedule(**{"peak": 1e-3, "steps": 100} | wrong)
