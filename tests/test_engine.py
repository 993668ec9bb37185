"""The laws of the tape, on every array library: graphs, parameters, threads, memory.

Derivatives are in test_primitives.py, refusals in test_engine_refusals.py.
"""

import copy
import gc
import pickle
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from samplers import overlap

from tinyrmc import Parameter, Tape, Tensor, fused, nn, optim
from tinyrmc import primitives as p
from tinyrmc.autograd import guards
from tinyrmc.autograd.gradients import unbroadcast
from tinyrmc.backend import to_host


def gradient(xp, function, *arrays):
    """d function(*arrays) / d array for each, by a tape of its own."""
    with Tape() as tape:
        watched = [tape.watch(xp.asarray(a, float)) for a in arrays]
        loss = function(*watched)
    return tape.gradient(loss, watched)


# --- Graphs ---------------------------------------------------------------------------


def test_a_deep_chain_of_diamonds_is_walked_once(xp):
    """60 doublings: a walk over paths, not over entries, would take 2^60 steps."""

    def doublings(x):
        for _ in range(60):
            x = x + x
        return x

    assert gradient(xp, doublings, 1.0)[0] == 2.0**60


def test_reuse_accumulates(xp):
    """One use, two, three, four: each count is added up in its own way.

    The first contribution is borrowed, the second added out of place, the rest in
    place.
    """
    assert gradient(xp, lambda x: p.sum(x + x), [1.0, 2.0])[0].tolist() == [2.0, 2.0]
    for uses in range(1, 6):

        def many(x, uses=uses):
            total = p.sum(x)
            for k in range(1, uses):
                total = total + p.sum(x * float(10**k))
            return total

        assert gradient(xp, many, xp.ones(3))[0].tolist() == [float("1" * uses)] * 3


def test_nobody_writes_into_what_somebody_else_holds(xp):
    """a + b hands one array to both, and the vjp of sum is a read-only view.

    Adding more to a must not reach b, nor the shared gradient of the sum.
    """

    def residual(a, b):
        s = a + b
        return p.sum(s * 1.0) + p.sum(a * 3.0) + p.sum(a * 5.0) + p.sum(s * 7.0)

    a, b = gradient(xp, residual, xp.zeros(2), xp.zeros(2))
    assert a.tolist() == [16.0, 16.0]
    assert b.tolist() == [8.0, 8.0]
    a, b = gradient(xp, lambda a, b: p.sum(a + b), xp.zeros(2), xp.zeros(2))
    assert not overlap(a, b)
    (a,) = gradient(xp, lambda x: p.sum(x) + p.sum(x) + p.sum(x), xp.zeros(3))
    assert a.tolist() == [3.0] * 3


def test_unused_output_counts_as_zero(xp):
    (found,) = gradient(xp, lambda x: p.sum(p.unstack(x)[1]), xp.zeros((3, 2)))
    assert found.tolist() == [[0, 0], [1, 1], [0, 0]]
    z, cell = xp.full((1, 4), 0.5), xp.ones((1, 1))
    for used in range(2):
        ours, plain = (
            gradient(xp, lambda z, c, f=f: p.sum(f(z, c)[used]), z, cell)
            for f in (fused.lstm_gates, fused.lstm_gates.reference)
        )
        for one, other in zip(ours, plain, strict=True):
            np.testing.assert_allclose(to_host(one), to_host(other), rtol=1e-14)


def test_dead_branch_costs_nothing(xp):
    def branches(x):
        p.sum(p.log(x - x))  # its derivative is not finite
        return p.sum(x * 2.0)

    with np.errstate(all="ignore"):
        assert gradient(xp, branches, xp.ones(2))[0].tolist() == [2.0, 2.0]


def test_constants_and_what_is_outside_a_tape_are_not_recorded(xp):
    parameter = Parameter(xp.ones(2))
    assert p.sum(parameter * 2.0).id == 0
    with Tape() as tape:
        x = p.exp(xp.ones(2)) + Tensor(xp.ones(2)) * 3.0
        loss = p.sum(parameter.detach() * 2.0)
        assert tape.entries == []
    assert x.id == loss.id == p.sum(parameter * 2.0).id == 0


def test_a_tape_can_be_read(xp):
    with Tape() as tape:
        p.sum(p.tanh(tape.watch(xp.ones((2, 3)))))
    assert [entry[0].name for entry in tape.entries] == ["tanh", "sum"]
    assert tape.entries[0][2] == [(1, (2, 3), np.float64)]
    assert tape.entries[1][3] == [(3, (), np.float64)]


def test_thousands_of_operations():
    """No recursion, whose depth Python limits."""
    with Tape() as tape:
        x = y = tape.watch(np.ones(()))
        for _ in range(5_000):
            y = y + 1.0
    assert tape.gradient(y, x) == 1.0


def test_gradient_of_an_intermediate(xp):
    with Tape() as tape:
        x = tape.watch(xp.array([1.0, 2.0]))
        y = x * 3.0
        loss = p.sum(p.square(y)) + p.sum(y)
    gx, gy, one = tape.gradient(loss, [x, y, loss])
    assert gy.tolist() == [7.0, 13.0]
    assert gx.tolist() == [21.0, 39.0]
    assert one == 1.0


def test_unbroadcast_is_the_transpose_of_broadcasting(xp):
    """<broadcast(x), g> = <x, unbroadcast(g)>"""
    random = np.random.default_rng(0)
    shapes = (), (1,), (3,), (1, 3), (2, 1), (2, 3), (4, 1, 1), (4, 2, 3)
    for shape in shapes:
        x, g = (xp.asarray(random.standard_normal(s)) for s in (shape, (4, 2, 3)))
        back = unbroadcast(g, shape)
        assert back.shape == shape
        forth = float(xp.sum(xp.broadcast_to(x, g.shape) * g))
        assert forth == pytest.approx(float(xp.sum(x * back)))


# --- Parameters -----------------------------------------------------------------------


def test_backward_adds_into_grad(xp):
    weight = Parameter(xp.array([1.0, 2.0]))
    buffer = weight.grad
    for count in 1, 2, 3:
        with Tape() as tape:
            loss = p.sum(weight * 3.0) + p.sum(weight)
        tape.backward(loss)
        assert weight.grad is buffer
        assert buffer.tolist() == [4.0 * count] * 2


def test_backward_into_a_flat_buffer(xp):
    """The buffer has an optimizer's layout, and tapes of two pieces add up in it.

    The parameters' own gradients stay as they are.
    """
    random = np.random.default_rng(0)
    weight, bias, unused = parameters = [
        Parameter(xp.asarray(random.standard_normal(s))) for s in ((3, 2), (2,), (4,))
    ]
    optimizer = optim.SGD(parameters)
    into = xp.zeros_like(optimizer.data)
    views, expected = optimizer.views(into), None
    for place in None, None, views, views:
        with Tape() as tape:  # two steps, whose products are made together
            rows = [fused.linear(k * xp.ones((5, 3)), weight, bias) for k in (1, 2)]
            loss = p.sum(p.square(rows[0])) + p.sum(p.square(rows[1]))
        tape.backward(loss, into=place)
        if place is not None:
            assert (optimizer.gradient == expected).all()
        else:
            expected = optimizer.gradient.copy()
    np.testing.assert_array_equal(to_host(into), to_host(expected))
    assert (views[weight.id] != 0).all() and (views[bias.id] != 0).all()
    assert (views[unused.id] == 0).all()


def test_backward_into_a_place_that_meets_itself_is_refused():
    weight = Parameter(np.ones((3, 2)))
    numbers = np.zeros(24)
    places = {
        "broadcast": (np.lib.stride_tricks.as_strided(numbers, (3, 2), (0, 8)), False),
        "windows": (
            np.lib.stride_tricks.sliding_window_view(numbers[:4], 2, writeable=True),
            False,
        ),
        "columns": (numbers.reshape(3, 8)[:, 2:4], True),
        "turned": (numbers[:6].reshape(2, 3).T, True),
        "backwards": (numbers[:12:2][::-1].reshape(3, 2), True),
    }
    for name, (place, fits) in places.items():
        with Tape() as tape:
            loss = p.sum(p.square(weight))
        numbers[...] = 0
        if fits:
            tape.backward(loss, into={weight.id: place})
            assert (place == 2).all(), name
            continue
        with pytest.raises(ValueError, match="is a view whose numbers share memory"):
            tape.backward(loss, into={weight.id: place})
        assert not numbers.any()


def test_a_parameter_used_at_fifty_steps(xp):
    """h_t = w h_{t-1}: d h_50 / dw = 50 w^49 h_0.

    Through p.grad, a flat buffer and gradient alike.
    """
    w = Parameter(xp.array(1.01))
    own, views, found = w.grad, {w.id: xp.zeros(())}, []
    for way in "backward", "into", "gradient":
        with Tape() as tape:
            h = 2.0
            for _ in range(50):
                h = w * h
        if way == "gradient":
            found.append(tape.gradient(h, w))
        else:
            tape.backward(h, into=None if way == "backward" else views)
    assert float(own) == pytest.approx(50 * 1.01**49 * 2.0, rel=1e-13)
    assert type(found[0]) is type(w.data) and found[0].shape == ()
    assert own == views[w.id] == found[0]


def test_a_parameter_as_the_loss(xp):
    w = Parameter(xp.array(3.0))
    with Tape() as tape:
        p.sum(w)
    tape.backward(w)
    assert w.grad == 1.0


def test_parameter_data_is_copied_in_place(xp):
    source = xp.ones((2, 3), np.float32)
    weight = Parameter(source)
    memory = weight.data
    weight.data = 2 * source
    assert weight.data is memory
    assert (memory == 2).all()
    assert (source == 1).all()
    for kind, wrong in (
        (ValueError, xp.ones((3, 2), np.float32)),
        (TypeError, xp.ones((2, 3))),
        (TypeError, None),
    ):
        for name in "data", "grad":
            with pytest.raises(kind, match="Parameter"):
                setattr(weight, name, wrong)
    for wrong in xp.arange(3), xp.ones(3, np.float16):
        with pytest.raises(TypeError, match=f"32 bits or more, not {wrong.dtype}"):
            Parameter(wrong)


COPIES = copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))


def test_a_copied_parameter_is_another_one(xp):
    for copied in COPIES if xp is np else COPIES[:2]:
        weight = Parameter(xp.ones(2))
        optimizer = optim.SGD([weight], 1.0)
        weight.grad[...] = 5
        other = copied(weight)
        assert other.id != weight.id and not other.grad.any()
        assert not overlap(other.data, weight.data)
        weight.grad[...] = 0
        with Tape() as tape:
            loss = p.sum(weight * 2.0 + other * 3.0)
        tape.backward(loss)
        assert weight.grad.tolist() == [2.0, 2.0]
        assert other.grad.tolist() == [3.0, 3.0]
        optimizer.step()
        assert (other.data == 1).all()


def test_copies_of_modules_tapes_and_optimizers():
    weight, module = Parameter(np.ones(3)), nn.Module()
    module.one = module.two = weight
    with Tape() as tape:
        tracked = weight * 2.0
    for copied in COPIES:
        other = copied(module)
        assert other.one is other.two
        for shares in tape, tracked, optim.Adam([weight]):
            if shares is not tracked or copied is not copy.copy:
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    copied(shares)


# --- Threads --------------------------------------------------------------------------


def test_two_threads_record_at_once():
    """Shared parameters; tapes and flat buffers of their own.

    Every result is exactly the one computed alone.
    """
    random = np.random.default_rng(0)
    weight, bias = parameters = [
        Parameter(random.standard_normal((6, 4))),
        Parameter(random.standard_normal(4)),
    ]
    optimizer = optim.SGD(parameters)
    inputs = random.standard_normal((2, 5, 6))

    def once(x):
        into = np.zeros_like(optimizer.data)
        with Tape() as tape:
            h = p.tanh(x @ weight + bias)
            loss = p.sum(p.softmax(h * h))
            count = len(tape.entries)
        tape.backward(loss, into=optimizer.views(into))
        return into, count

    alone = [once(x) for x in inputs]
    start, rounds = threading.Barrier(2), []

    def work(k):
        start.wait()
        for _ in range(300):
            into, count = once(inputs[k])
            np.testing.assert_array_equal(into, alone[k][0])
            assert count == alone[k][1]
            rounds.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rounds) == 600  # none has failed


def test_of_two_threads_one_walks_a_tape_back(monkeypatch):
    """Though both have found that nobody has yet."""
    both, check = threading.Barrier(2), guards.check_backward

    def checked(*given):
        check(*given)
        both.wait()

    monkeypatch.setattr(guards, "check_backward", checked)
    x, found = Parameter(np.ones(3)), []
    with Tape() as tape:
        loss = p.sum(p.square(x))

    def walk():
        try:
            found.append(tape.gradient(loss, x).tolist())
        except RuntimeError as error:
            found.append(str(error))

    threads = [threading.Thread(target=walk) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [2.0] * 3 in found
    assert "this Tape is consumed; record again" in found


def test_two_threads_cannot_add_into_the_same_memory(xp, monkeypatch):
    """One of them would lose what it adds; what counts is the memory, not the dict."""
    weight = Parameter(xp.ones(4))
    sgd, waits, goes_on = optim.SGD([weight]), threading.Event(), threading.Event()
    rule, other = p.tanh.rule, xp.zeros(12)

    def slow(xp, needs, g, y):
        waits.set()
        assert goes_on.wait(60)
        return rule(xp, needs, g, y)

    def recorded(function):
        with Tape() as tape:
            loss = p.sum(function(weight))
        return tape, loss

    own = sgd.gradient
    cases = [  # into what the first adds, into what the second, whether that is refused
        (sgd.views(own), sgd.views(own), True),
        (sgd.views(own), {weight.id: own}, True),
        (sgd.views(own), {weight.id: own.reshape(2, 2).reshape(4)}, True),
        (sgd.views(own), None, True),
        (None, sgd.views(own), True),
        ({weight.id: other[:4]}, {weight.id: other[3:7]}, True),
        ({weight.id: other[3:7]}, {weight.id: other[:4]}, True),
        ({weight.id: other[:4]}, {weight.id: other[4:8]}, False),
        ({weight.id: other[4:8]}, {weight.id: other[:4]}, False),
        ({weight.id: other[:4]}, sgd.views(own), False),
        (None, sgd.views(other[:4]), False),
    ]
    for first, second, refused in cases:
        waits.clear(), goes_on.clear()
        (tape, loss), (again, another) = recorded(p.tanh), recorded(p.exp)
        with monkeypatch.context() as patch:
            patch.setattr(p.tanh, "rule", slow)
            thread = threading.Thread(target=tape.backward, args=(loss, first))
            thread.start()
            assert waits.wait(60)
            if refused:
                with pytest.raises(RuntimeError, match="another thread is adding into"):
                    again.backward(another, second)
            else:
                again.backward(another, second)
            goes_on.set()
            thread.join()
        assert not guards._taken


def test_one_number_is_read_as_a_number(xp):
    for shape in (), (1,), (1, 1):
        t = Tensor(xp.full(shape, 2.5))
        assert t.item() == float(t) == 2.5 and type(t.item()) is float
        assert f"{t:.3f}" == "2.500" and f"{t:8.1e}".strip() == "2.5e+00"
        assert f"{t}" == repr(t) == str(t)
    with Tape():
        loss = p.sum(Parameter(xp.ones(3)))
        assert f"{loss:.2f} {loss:>6.1f}" == "3.00    3.0" and float(loss) == 3.0
    for several in xp.ones(3), xp.ones((0,)):
        for read in Tensor.item, float, "{:.3f}".format:
            with pytest.raises(TypeError, match=r"Tensor of shape .* holds \d numbers"):
                read(Tensor(several))
    assert Tensor(xp.array(1 + 2j)).item() == 1 + 2j


def test_lists_of_indices(xp):
    x = xp.arange(6.0).reshape(2, 3)
    t = Parameter(x)
    with Tape() as tape:
        parts = [t[[]], t[:, []], t[[1, 0]], t[[True - 1, 1], [2, 2]]]
        parts += [p.take(t, [0, 2], 1), p.take(t, []), p.take(t, (1, 1), axis=0)]
        parts += [p.take_along_axis(t, [[0], [2]], 1)]
        parts += [p.where([[True], [False]], t, 0.0)]
        loss = sum([p.sum(part) for part in parts[1:]], p.sum(parts[0]))
    theirs = np.arange(6.0).reshape(2, 3)
    expected = [theirs[[]], theirs[:, []], theirs[[1, 0]], theirs[[0, 1], [2, 2]]]
    expected += [np.take(theirs, [0, 2], 1), np.empty(0), theirs[[1, 1]]]
    expected += [np.array([[0.0], [5.0]]), np.array([[0.0, 1, 2], [0, 0, 0]])]
    for one, other in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(to_host(one.data), other)
    tape.backward(loss)
    assert float(t.grad.sum()) == 6 + 2 + 4 + 6 + 2 + 3
    for wrong in [[0.5]], [["a"]], [[0, None]]:
        with pytest.raises((TypeError, IndexError, ValueError)):
            p.take(t, *wrong)


def test_a_tape_in_one_thread_is_off_in_another(xp):
    weight, seen = Parameter(xp.ones(2)), []
    with Tape() as tape:
        thread = threading.Thread(target=lambda: seen.append(p.sum(weight * 2.0).id))
        thread.start()
        thread.join()
        assert tape.entries == []
    assert seen == [0]


# --- Memory ---------------------------------------------------------------------------


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_saved_arrays_die_in_backward(xp, no_collector):
    """After backward nobody holds what the rules have saved.

    By reference counts alone: tanh saved its output, multiply its inputs.
    """
    weight = Parameter(xp.ones((10, 10)))
    with Tape() as tape:
        hidden = p.tanh(weight * 2.0)
        product = hidden * hidden
        loss = p.sum(product)
        saved = [weakref.ref(hidden.data), weakref.ref(product.data)]
        del hidden, product
        assert saved[0]() is not None  # the tape holds it for its rule
        assert saved[1]() is None  # sum saves a shape
    tape.backward(loss)
    assert saved[0]() is None
    assert tape.entries == []


def test_nothing_is_left_for_the_garbage_collector(xp, no_collector):
    weight = Parameter(xp.ones((4, 4)))

    def step():
        with Tape() as tape:
            rows = p.unstack(fused.linear(xp.ones((3, 4)), weight, relu=True))
            loss = p.sum(p.concatenate(list(rows)) * 2.0)
        tape.backward(loss)

    step()
    gc.collect()  # CuPy compiles at first use, and leaves cycles of its own
    for _ in range(5):
        step()
    with Tape() as tape:  # and a tape that nobody consumed
        p.sum(weight * 2.0)
    del tape
    assert gc.collect() == 0


def test_backward_needs_little_more_memory_than_forward():
    """Each entry is freed as it is used.

    So backward adds to a chain of T arrays only the few gradients alive at a time. The
    bound is forward's peak and 4 arrays (the gradient that arrives, two factors and
    their product inside the rule), out of 40. Gradients kept to the end would add 40.
    """
    size, steps = 100_000, 40
    weight = Parameter(np.full(size, 0.5))
    tracemalloc.start()
    try:
        with Tape() as tape:
            x = weight
            for _ in range(steps):
                x = p.tanh(x)
            loss = p.sum(x)
            del x
        forward, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        tape.backward(loss)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    array = size * 8
    assert forward >= steps * array  # the measure sees the arrays
    assert peak <= forward + 4 * array
    assert after <= 0.5 * array
