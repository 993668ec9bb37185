"""The engine and its tape: things they take or refuse, and in which words.

Most of it would otherwise give a wrong result without a word. And how a Tensor prints.
"""

import copy
import functools
import os
import signal
import threading

import numpy as np
import pytest

from tinyrmc import Parameter, Tape, Tensor, fused, optim
from tinyrmc import primitives as p
from tinyrmc.autograd.engine import TABLE, Primitive
from tinyrmc.backend import to_host


def ones(*shape):
    return np.ones(shape, np.float32)


def recorded(loss):
    """A tape with this loss, and what it gave."""
    with Tape() as tape:
        value = loss()
    return tape, value


def refused(kind, message, call, *args):
    with pytest.raises(kind, match=message) as caught:
        call(*args)
    assert str(caught.value).count("\n") <= 1, str(caught.value)


# --- dtypes ---------------------------------------------------------------------------


def test_numbers_do_not_widen_float32(xp):
    floats = 2, 2.5, True, np.float64(2.5), np.float32(2.5), np.int64(2), np.bool_(True)
    for name in "add", "subtract", "multiply", "divide", "maximum", "minimum":
        operation = TABLE[name]
        for number in floats:
            with Tape() as tape:
                x = tape.watch(xp.ones(3, np.float32))
                left, right = operation(x, number), operation(number, x)
                loss = p.sum(left + right)
            assert left.dtype == right.dtype == np.float32, (name, number)
            assert tape.gradient(loss, x).dtype == np.float32


def test_operators_keep_float32(xp):
    a = xp.ones(3, np.float32)
    x = Tensor(a)
    results = [x + 1, 1 - x, np.float64(2) * x, x / np.float64(3), -x, x[0] * 2.0]
    results += [a + x, a - x, a * x, a / x, x @ a, a @ x, a**x]
    results += [x**2, x ** np.float64(2), 2**x, np.float64(2) ** x]
    results += [p.power(a, np.float64(2.0)), *p.split(a, np.int64(1), axis=0)]
    results += [
        p.take(a, xp.array([0, 1])),
        p.where(a > 0, a, 0.0),
        p.multiply(a > 0, a),
    ]
    for result in results:
        assert type(result) is Tensor and result.dtype == np.float32
    mask, w = xp.array([True, False, True]), Parameter(a)
    tape, loss = recorded(lambda: p.sum(w * mask))
    assert tape.gradient(loss, w).tolist() == [1.0, 0.0, 1.0]


def test_dtypes_that_do_not_go_together(xp):
    for one, other in (
        (np.float32, np.float64),
        (np.float64, np.float32),
        (np.float32, np.complex128),
        (np.float64, np.complex64),
    ):
        message = f"argument 1 has dtype {np.dtype(other)}, the others {np.dtype(one)}"
        refused(TypeError, message, p.add, xp.ones(3, one), xp.ones(3, other))
        # 0-d arrays are arrays
        refused(TypeError, message, p.add, xp.ones(3, one), xp.ones((), other))
    for one, other in (np.float64, np.complex128), (np.complex64, np.float32):
        wide = one if np.dtype(one).kind == "c" else other
        assert p.add(xp.ones(2, one), xp.ones(2, other)).dtype == wide


def test_integers_serve_as_indices_and_halves_not_at_all(xp):
    for wrong in xp.arange(3), xp.ones(3, np.float16):
        message = f"argument 1 has dtype {wrong.dtype}, and arrays are floating point"
        refused(TypeError, message, p.multiply, xp.ones(3, np.float32), wrong)
        with Tape() as tape:
            refused(TypeError, "watch needs floating-point", tape.watch, wrong)
    refused(TypeError, "argument 0 has dtype float16", p.exp, xp.ones(3, np.float16))


def test_what_is_not_an_array_is_refused(xp):
    a = xp.ones(3, np.float32)
    for value in [1.0, 2.0], (1.0, 2.0), "a", {1: 2}:
        message = f"{type(value).__name__} is not an array"
        refused(TypeError, message, p.add, a, value)
        refused(TypeError, message, lambda v=value: Tensor(a) + v)
        refused(TypeError, message, p.concatenate, [a, value])
        for function in p.sort, p.argsort, p.stop_gradient:
            refused(TypeError, message, function, value)
        for function in p.vstack, p.hstack:
            refused(TypeError, message, function, [value, a])
        refused(TypeError, message, p.einsum, "i,i", a, value)
        refused(TypeError, message, p.tensordot, a, value, 1)
    for arrays in (a, a), (Tensor(a), Tensor(a)), ():
        refused(TypeError, r"takes a list of arrays: stack\(\[a, b\]", p.stack, *arrays)


# --- The texts of errors --------------------------------------------------------------


def test_errors_name_the_operation_the_arguments_and_the_remedy(xp):
    one, three, wide = xp.ones(3, np.float32), xp.ones(3), xp.ones((2, 3))
    shapes = r"\(float64\[2, 3\], float64\[4\]\): .*\nShapes must broadcast"
    for call, kind, message in (
        (lambda: p.add(wide, xp.ones(4)), ValueError, f"add{shapes}"),
        (lambda: p.matmul(wide, wide), ValueError, r"matmul\(.*\): .*\nThe last"),
        (lambda: p.matmul(three, 2.0), TypeError, r"matmul\(float64\[3\], 2\.0\): "),
        (lambda: p.reshape(wide, (4, 2)), ValueError, r"reshape\(.*\nThe new shape"),
        (lambda: p.sum(three, axis=1), IndexError, r"sum\(float64\[3\]\): axis 1 is"),
        (lambda: p.concatenate([wide, wide[:1].T]), ValueError, "All arrays must agr"),
        (lambda: p.concatenate(three), TypeError, r"takes a list .*\[a, b"),
        (lambda: p.multiply(three), TypeError, "takes 2 array arguments, got 1"),
        (lambda: p.add(one, one, one), TypeError, "takes 2 array arguments; got 3 pos"),
        (lambda: p.sum(three, axes=0), TypeError, r"'axes' is not .*axis, keepdims\)"),
        (lambda: p.add(three, b=three), TypeError, r"'b' is not .*none\); .* by posit"),
        (lambda: p.power(three, exponent=2), TypeError, "'exponent' is not a static"),
        (lambda: p.sum(wide, 0, axis=1), TypeError, "'axis' is given in order and by"),
        (lambda: p.sum(wide, keepdims="no"), TypeError, "keepdims is True or False"),
        (lambda: Tensor(one)[one], TypeError, "not made of integers; "),
        (lambda: Tensor(one)[Tensor(one)], TypeError, r"Tensor is .*; read t\.data"),
        (lambda: Tensor(one)[7], IndexError, r"getitem\(.*[iI]ndex 7 is out of bounds"),
        (lambda: p.unstack(wide[:, :0], axis=1), ValueError, "axis 1 has length 0"),
        (lambda: p.exp(np.ones(3, ">f8")), TypeError, "exp: >f8 arguments.* byte"),
        (lambda: p.negative(xp.ones(2, bool)), TypeError, r"negative\(bool\[2\]\): "),
        (lambda: Tensor(three) + 10**400, (OverflowError, TypeError), "^add"),
        (
            lambda: fused.layer_norm(wide, xp.ones(4), three),
            ValueError,
            r"layer_norm\(.*must be x \(\.\.\., F\), gain \(F\), offset \(F\)",
        ),
        (
            lambda: fused.attention(xp.ones((1, 2, 7)), num_heads=2, key_size=1),
            ValueError,
            r"attention\(.*7 columns .*; need heads \* \(2 \* key \+ value\)$",
        ),
    ):
        refused(kind, message, call)
    for mask in True, np.True_, np.array(True):
        refused(
            TypeError, "mask; write primitives.where", Tensor(one).__getitem__, mask
        )


def add_in_place(t, other=1):
    t += other


def set_item(t):
    t[0] = 1


def test_tensors_refuse_what_arrays_do(xp):
    for kind in Tensor, Parameter:
        t = kind(xp.ones(3))
        for use, message in (
            (bool, r"no truth value and is no index; read t\.item\(\)"),
            (int, "no truth value"),
            (range(9).__getitem__, "no truth value and is no index"),
            (list, r"not a sequence; .* gives primitives\.unstack\(t\), or xp\."),
            (len, r"not a sequence; its length is t\.shape\[0\]"),
            (lambda t: t == np.ones(3), r"not compared; .*: t\.data == u\.data"),
            (lambda t: t > 0, "not compared; compare arrays"),
            (np.asarray, r"not turn into a NumPy array by itself; write t\.data"),
            (np.array, r"not turn into a NumPy array by itself; write t\.data"),
            (set_item, r"immutable; .* primitives\.where, or xp\.where in "),
            (add_in_place, r"immutable; write t = t \+ u"),
        ):
            refused(TypeError, message, use, t)
        if xp is np:
            for ours, call in (
                ("exp", lambda: np.exp(t)),
                ("sum", lambda: np.sum(t)),
                ("stack", lambda: np.stack([t, t])),
                ("abs", lambda: np.abs(t)),
                ("add", lambda: np.add(t, np.ones(3))),
                ("power", lambda: np.power(t, 2)),
                ("add", lambda: np.add.reduce(t, axis=0)),
            ):
                told = rf"np\.\w+ takes no Tensor; write primitives\.{ours}, or "
                told += rf"xp\.{ours} in a function of xp$"
                refused(TypeError, told, call)
            array, out = np.ones(3), {"out": np.ones(3)}
            for name, value in ("where", array > 0), ("dtype", float), *out.items():
                told = rf"np\.add takes no {name} with a Tensor, .*; write a new one"
                refused(TypeError, told, lambda m={name: value}: np.add(array, t, **m))
            refused(TypeError, "takes no out", add_in_place, array, t)
            assert (array == 1).all() and (out["out"] == 1).all()
            refused(TypeError, r"write np\.log2\(t\.data\), which has no", np.log2, t)
            refused(TypeError, r"write t\.shape$", np.shape, t)
        refused(TypeError, ".", xp.exp, t)
        assert t in {t} and not hasattr(t, "tolist")
        for name in "sum", "mean", "reshape":
            told = rf"write primitives\.{name}\(t, \.\.\.\), or xp\.{name}\(t, \.\.\.\)"
            refused(AttributeError, told, getattr, t, name)
        refused(AttributeError, r"xp\.transpose\(t\) in a function", getattr, t, "T")
        refused(AttributeError, r"tape\.backward\(t\)", getattr, t, "backward")
        refused(AttributeError, r"data, which has no gradient", getattr, t, "tolist")
        refused(ValueError, "ddof must be below the 3 entries", p.var, t, None, 3)
    refused(AttributeError, ".", setattr, Tensor(xp.ones(3)), "data", xp.ones(3))


# --- Misuse of a tape -----------------------------------------------------------------


def doubled(xp):
    with Tape() as tape:
        x = tape.watch(xp.ones(2))
        loss = p.sum(x * 2.0)
    return tape, loss, x


def test_a_tape_is_walked_back_once(xp):
    ways = (
        lambda tape, loss, x: tape.backward(loss),
        lambda tape, loss, x: tape.gradient(loss, x),
    )
    for first in ways:
        for second in ways:
            recording = doubled(xp)
            first(*recording)
            message = "this Tape is consumed; record again"
            refused(RuntimeError, message, second, *recording)


def test_a_tape_is_used_in_order(xp):
    message = "this Tape has recorded nothing"
    refused(RuntimeError, message, Tape().backward, Tensor(xp.ones(())))
    with Tape() as tape:
        x = tape.watch(xp.ones(2))
        loss = p.sum(x * 2.0)
        message = "still recording; leave the with-block first"
        refused(RuntimeError, message, tape.backward, loss)
        message = "already recording in this thread; close it"
        refused(RuntimeError, message, Tape().__enter__)
    assert tape.gradient(loss, x).tolist() == [2.0, 2.0]
    refused(RuntimeError, "already used; make a new one", tape.__enter__)
    with pytest.raises(ZeroDivisionError), Tape():
        raise ZeroDivisionError  # which closes the tape
    with Tape():
        pass


def test_losses_that_are_none(xp):
    elsewhere = Tensor(xp.ones(())), xp.ones(()), 1.0, Parameter(xp.ones(()))
    for loss in *elsewhere, doubled(xp)[1]:
        tape, _, x = doubled(xp)
        message = "the loss does not depend on anything recorded on this Tape"
        refused(RuntimeError, message, tape.backward, loss)
    message = r"scalar loss, not shape \(2,\); reduce it with primitives\.sum or mean"
    refused(ValueError, message, tape.backward, x)


def test_a_tensor_of_an_older_tape(xp):
    """An error on a new tape, for it would silently cut the gradient.

    A constant outside of tapes, and welcome when detached.
    """
    _, _, old = doubled(xp)
    assert p.sum(old).id == 0
    with Tape() as tape:
        new = tape.watch(xp.ones(2))
        message = r"multiply: an argument was made on another Tape.*\.detach\(\)"
        refused(RuntimeError, message, p.multiply, new, old)
        loss = p.sum(new * old.detach())
    assert tape.gradient(loss, new).tolist() == [1.0, 1.0]


def test_wrt_that_the_loss_does_not_depend_on(xp):
    weight, other = Parameter(xp.ones(2)), Parameter(xp.ones((2, 3), np.float32))
    for stranger in other, Tensor(xp.ones((2, 3), np.float32)), doubled(xp)[2]:
        tape, loss = recorded(lambda: p.sum(weight * 2.0))
        with pytest.raises(KeyError, match=r"does not use wrt\[1\]; see strict"):
            tape.gradient(loss, [weight, stranger])
    tape, loss = recorded(lambda: p.sum(weight * 2.0))
    refused(TypeError, "takes Tensors", tape.gradient, loss, xp.ones(2))
    found, zeros = tape.gradient(loss, [weight, other], strict=False)
    assert found.tolist() == [2.0, 2.0]
    assert zeros.tolist() == [[0.0] * 3] * 2
    assert zeros.dtype == np.float32
    tape, constant = recorded(lambda: p.sum(Tensor(xp.ones(2))))
    assert tape.gradient(constant, weight, strict=False).tolist() == [0.0, 0.0]
    loose = functools.partial(tape.gradient, wrt=weight, strict=False)
    refused(RuntimeError, "is consumed; record again", loose, constant)
    refused(RuntimeError, "is consumed; record again", tape.backward, constant)
    with Tape() as tape:
        loss = p.sum(weight * 2.0)
        loose = functools.partial(tape.gradient, wrt=weight, strict=False)
        refused(RuntimeError, "still recording; leave the with-block", loose, constant)
    refused(ValueError, "needs a scalar loss", loose, Tensor(xp.ones(2)))
    refused(RuntimeError, "does not depend on anything", loose, xp.ones(()))
    tape.backward(loss)
    assert weight.grad.tolist() == [2.0, 2.0]


def test_a_wrong_rule_is_named(xp, monkeypatch):
    rule = p.tanh.rule

    def nameless(xp, x):
        return x, ()

    wrong = r"vjp of tanh, argument 0: the gradient is %s.* argument float64\[2, 3\]"
    for instead, says in (
        (lambda *args: rule(*args).astype(np.float32), wrong % "float32"),
        (lambda *args: rule(*args)[:, :2], wrong % r"float64\[2, 2\]"),
        (lambda *args: None, wrong % "None"),
        (lambda *args: (None, None), "it gives 2 gradients for 1 arguments"),
        (Primitive(nameless).rule, r"nameless has no derivative; .*@nameless\.vjp"),
    ):
        monkeypatch.setattr(p.tanh, "rule", instead)
        with Tape() as tape:
            x = tape.watch(xp.ones((2, 3)))
            loss = p.sum(p.tanh(x))
        refused(TypeError, says, tape.gradient, loss, x)
    monkeypatch.setattr(p.tanh, "rule", lambda *args: 2.0)
    with Tape() as tape:
        loss = p.tanh(x := tape.watch(xp.ones(())))
    refused(TypeError, "the gradient is 2.0, .* float64", tape.gradient, loss, x)
    del TABLE["nameless"]


def test_backward_into_what_has_no_place_for_a_parameter():
    one, two = Parameter(ones(3)), Parameter(ones(3))
    own, other = optim.SGD([one]), optim.SGD([two])
    both = own.views(own.gradient) | other.views(other.gradient)
    for into in (
        own.views(own.gradient),
        other.views(other.gradient),
        both | {two.id: ones(4)},
        both | {two.id: np.ones(3)},
    ):
        tape, loss = recorded(lambda: p.sum(one * two))
        with pytest.raises(ValueError, match=r"no place for a Parameter float32\[3\]"):
            tape.backward(loss, into=into)
    assert not own.gradient.any() and not other.gradient.any()
    tape.backward(loss, into=both)
    assert own.gradient.all() and other.gradient.all()


# --- What changes between forward and backward ----------------------------------------


def test_what_a_call_was_told_may_change_before_backward(xp):
    """A counter that goes on, a list that is used again: the tape has its own copy."""
    count, axes, shift, rows = np.array(-1), [1, 0, 2], [0, 1, 2], xp.asarray([0, 2])
    with Tape() as tape:
        x = tape.watch(xp.asarray([2.0, 3.0, 4.0]))
        cube = tape.watch(xp.asarray(np.arange(8.0).reshape(2, 2, 2)))
        total = p.sum(p.power(x, 3)) + p.sum(x[rows])
        total = total + p.sum(cube * p.roll(cube, shift, axes))
        for factor in (1.0, 2.0, 3.0):
            count += 1
            total = total + factor * (x[count] + x[count : count + 1][0])
        total = total + p.sum(cube * p.transpose(cube, axes))
        shift[:], axes[:], rows[...] = [1, 1, 1], [2, 1, 0], 1
    of_x, of_cube = tape.gradient(total, [x, cube])
    assert of_x.tolist() == [3 * 4 + 3, 3 * 9 + 4, 3 * 16 + 7]
    cube = np.arange(8.0).reshape(2, 2, 2)
    turned = cube.transpose(1, 0, 2)
    rolled = np.roll(cube, [0, 1, 2], (1, 0, 2)) + np.roll(cube, [0, -1, -2], (1, 0, 2))
    assert to_host(of_cube).tolist() == (2 * turned + rolled).tolist()


def changed(message, forward, change):
    """Backward after a change is refused; without it, it is not."""
    tape, loss = recorded(forward)
    tape.backward(loss)
    tape, loss = recorded(forward)
    change()
    with pytest.raises(RuntimeError, match=message):
        tape.backward(loss)


def test_what_is_changed_before_backward_is_noticed(xp):
    w, square = Parameter(ones(3, 4)), Parameter(ones(40, 50))
    refilled = r"matmul: an array float32.* was changed after it was recorded"
    for x in ones(2, 3), ones(500, 3), ones(3), ones(9, 2, 3)[::2, 1]:
        changed(refilled, lambda x=x: p.sum(p.matmul(x, w)), lambda x=x: x.fill(5))

    def write():
        square.data[...] = 7

    message = "Parameter: an array float32"
    changed(message, lambda: p.sum(square * square), write)
    weight = Parameter(xp.ones(2))
    optimizer = optim.SGD([weight])

    def assign():
        weight.data = 2 * weight.data

    message = r"Parameter of shape \(2,\) was changed .*; call backward before the upd"
    for change in assign, optimizer.step:
        changed(message, lambda: p.sum(weight * weight), change)


def test_what_no_rule_has_saved_or_was_watched_may_be_refilled(xp):
    x, w = ones(2, 3), Parameter(ones(2, 3))
    tape, loss = recorded(lambda: p.sum(w + x))
    x[...] = 7
    tape.backward(loss)
    assert (w.grad == 1).all()
    x = xp.ones(3, np.float32)
    with Tape() as tape:
        y = tape.watch(x)
        loss = p.sum(y * y)
        x[...] = 9
    assert tape.gradient(loss, y).tolist() == [2, 2, 2]


def test_results_cannot_be_written_but_parameters_can():
    w = Parameter(ones(3))
    with Tape() as tape:
        y = w * 2.0
        with pytest.raises(ValueError, match="read-only"):
            y.data[...] = 0
        p.squeeze(w)  # which returns its argument
        loss = p.sum(y * y)
    tape.backward(loss)
    assert (w.grad == 8).all()
    w.data = ones(3) * 2
    assert w.data.flags.writeable


# --- Threads and processes ------------------------------------------------------------


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
            message = "computed in another thread"
            refused(RuntimeError, message, p.add, p.sum(w), other)
            p.sum(w) + other.detach()


def test_what_this_thread_computed_before_is_a_constant_and_so_is_its_copy():
    w = Parameter(ones(3))
    before = p.sum(w * w)
    tape, loss = recorded(lambda: p.sum(w) * before * copy.deepcopy(before))
    tape.backward(loss)
    assert (w.grad == 9).all()


def meeting(rule):
    """x, whose vjp calls the rule first."""

    def met(xp, x):
        return x + 0, ()

    primitive = Primitive(met)
    del TABLE["met"]

    @primitive.vjp
    def met_vjp(xp, needs, g):
        rule()
        return g

    return primitive


def test_a_forward_rule_gives_what_it_saves_in_a_tuple():
    twice = Primitive(lambda xp, x: 2 * x)
    del TABLE["<lambda>"]
    refused(TypeError, r"write return out, \(x,\) or \(\)", twice, np.ones((2, 2)))


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_while_a_thread_adds_can_add_itself():
    """The lock that the thread holds is nobody's in the child."""
    w, inside, go_on = Parameter(ones(3)), threading.Event(), threading.Event()
    primitive = meeting(lambda: (inside.set(), go_on.wait(30)))

    def slow():
        tape, loss = recorded(lambda: p.sum(primitive(w)))
        tape.backward(loss)

    thread = threading.Thread(target=slow)
    thread.start()
    inside.wait(30)
    child = os.fork()
    if not child:
        tape, loss = recorded(lambda: p.sum(w * 2.0))
        signal.alarm(10)  # ends a child that waits
        tape.backward(loss)
        os._exit(0 if (w.grad == 2).all() else 1)
    _, status = os.waitpid(child, 0)
    go_on.set()
    thread.join()
    assert status == 0
