"""A learner's NumPy code runs on the tape, and comes back in later chapters."""

import inspect
import linecache
import math
from types import SimpleNamespace

import numpy as np
import pytest

from tinyrmc import PaperRelationalMemory, Tape, course, equations, primitives
from tinyrmc.course import assembly, saved_answers
from tinyrmc.course.exercises import gates, memory, normalisation, tape
from tinyrmc.course.exercises import nth_farthest as nth
from tinyrmc.course.step_network import StepNetwork
from tinyrmc.course.traced import each_in, on_tape

rng = np.random.default_rng(0)
M, X = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 4))


# Answers in the styles of several learners: methods and functions, None and
# expand_dims, in place and not.


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    e = np.exp(x)
    e /= e.sum(-1, keepdims=True)
    return e


def layer_norm(x, gain, offset):
    away = x - x.mean(-1, keepdims=True)
    return gain * away / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) + offset


def layer_norm_by_std(x, gain, offset):
    deviation = np.sqrt(np.std(x, axis=-1, keepdims=True) ** 2 + 1e-5)
    return (x - np.mean(x, -1)[..., None]) / deviation * gain + offset


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x > 0, 1 / (1 + small), small / (1 + small))


def append_rows(M, x):
    return np.concatenate((M, np.expand_dims(x, -2)), axis=-2)


def attention(Q, K, V):
    return softmax(Q @ K.swapaxes(-1, -2) / math.sqrt(Q.shape[-1])) @ V


def attention_by_einsum(Q, K, V):
    scores = np.einsum("bnd,brd->bnr", Q, K) / K.shape[-1] ** 0.5
    turned = np.einsum("bnr, brd -> bdn", softmax(scores), V)
    return turned.transpose(0, 2, 1)


def gate_by_einsum(x, h, W, U, b):
    return np.einsum("bf,fg->bg", x, W)[:, None] + np.einsum("bnf,fg->bng", h, U) + b


def relu_mlp(z, layers):
    for number, (W, b) in enumerate(layers):
        z = np.matmul(z, W) + b
        if number < len(layers) - 1:
            z = z * (z > 0)
    return z


def mlp_by_names(z, layers):
    (W1, b1), (W2, b2) = layers
    z = np.add(np.dot(z, W1), b1)
    return np.dot(np.multiply(z, np.greater(z, 0)), W2) + b2


def test_what_is_written_for_numpy_runs_on_the_tape():
    Q, (W, U) = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 4, 4))
    layers = [(W, X[0]), (U, X[1])]
    for mine, name, arguments in [
        (softmax, "softmax", [M]),
        (layer_norm, "layer_norm", [M, *X]),
        (layer_norm_by_std, "layer_norm", [M, *X]),
        (sigmoid, "sigmoid", [M]),
        (append_rows, "append_rows", [M, X]),
        (attention, "attention", [M, Q, Q + 1]),
        (relu_mlp, "mlp", [M, layers]),
        (mlp_by_names, "mlp", [M, layers]),
        (attention_by_einsum, "attention", [M, Q, Q + 1]),
        (gate_by_einsum, "gate", [X, M, W, U, X[0]]),
    ]:
        assembly.check(on_tape(mine), getattr(equations, name), arguments)


def test_every_solution_is_a_piece():
    for name, _, module, exercise in assembly.PIECES:
        solution = on_tape(getattr(assembly.exercises(module), exercise).function)
        right = getattr(equations, name)
        assembly.check(solution, right, assembly.arguments(module, exercise))


def test_float32_stays_float32():
    with Tape() as tape:
        x = tape.watch(M.astype(np.float32))
        result = on_tape(layer_norm)(primitives, x, np.ones(4), np.zeros(4))
    assert result.dtype == np.float32


def test_what_the_tape_cannot_follow_is_refused_in_words():
    for function, says in [
        (lambda x: np.partition(x, 1), "no derivative for np.partition"),
        (lambda x: np.einsum("...i,...i", x, x), "cannot record np.einsum with"),
        (lambda x: np.add(x, 1, out=np.zeros(x.shape)), "into an existing array"),
        (lambda x: np.add.reduce(x), "cannot record np.add.reduce"),
        (lambda x: np.array(x), "cannot follow into an array that you fill"),
    ]:
        with Tape() as tape, pytest.raises(TypeError, match=says):
            on_tape(function)(primitives, tape.watch(M))


def test_a_gradient_that_is_lost_is_wrong():
    def detached(xp, x):
        return x.detach() if xp is primitives else x

    with pytest.raises(assembly.Wrong, match="cut off from its arguments"):
        assembly.check(detached, lambda xp, x: x * 1.0, [M])


# --- Kept from one chapter to the next ------------------------------------------------


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("TINYRMC_PROGRESS", str(tmp_path))
    return tmp_path


def whose():
    return {piece.name: (piece.whose, piece.why) for piece in course.pieces()}


def test_without_answers_every_piece_is_the_courses(place):
    found = whose()
    assert set(found.values()) == {("the course's", "none of yours is right yet")}
    whole = len(assembly.WHOLE[2])
    assert list(found)[-1] == "step" and len(found) == len(assembly.PIECES) + whole
    assert [piece.name for piece in course.pieces(9)] == list(found)[:-whole]


def is_mine(function):
    """Whether it was made of a kept text, not of the course's own."""
    return inspect.unwrap(function).__code__.co_filename.startswith("<your ")


def test_a_right_answer_is_a_piece_from_then_on(place):
    normalisation.layer_norm.check(layer_norm)
    gates.sigmoid.yours(sigmoid)
    normalisation.g_psi.check(lambda z, *_: z)  # wrong
    found = whose()
    mine = [name for name, (owner, _) in found.items() if owner == "yours"]
    assert mine == ["layer_norm", "sigmoid"]
    my = course.pieces(9)
    assert is_mine(my.sigmoid)
    assert np.allclose(my.sigmoid(np, M), equations.sigmoid(np, M))
    assert "chapter 9  sigmoid                yours" in repr(my)
    with pytest.raises(AttributeError, match="no piece 'step'"):
        getattr(my, "step")  # noqa: B009, of chapter 10


def test_answers_of_any_chapter_come_back_with_a_word_on_whose_they_are(place, capsys):
    gates.sigmoid.check(sigmoid)
    mine, theirs = course.kept("gates", "sigmoid", "gated_vjp")
    assert is_mine(mine) and not is_mine(theirs)
    said = capsys.readouterr().out.splitlines()
    assert said[-2:] == [
        "chapter 9  sigmoid                yours",
        "chapter 9  gated_vjp              the course's (none of yours is right yet)",
    ]


def gated_vjp(g, f, i, m, candidate, forget_bias):
    keep, take = 1 / (1 + np.exp(-f - forget_bias)), 1 / (1 + np.exp(-i))
    slopes = keep * (1 - keep), take * (1 - take)
    return g * m * slopes[0], g * candidate * slopes[1], g * keep, g * take


def test_derivatives_are_yours_where_the_complex_step_takes_them(place):
    gates.gated_vjp.check(gated_vjp)
    saved_answers.save("gates", "gate_vjp", gate_of_every_slot)  # no derivative
    found = {piece.name: piece for piece in course.vjps(9)}
    assert found["gated_vjp"].whose == "yours"
    assert is_mine(found["gated_vjp"].function)
    assert not is_mine(found["gate_vjp"].function)
    assert found["gate_vjp"].whose == "the course's"
    assert "takes the arguments" in found["gate_vjp"].why
    assert "state_vjp" not in found and "state_vjp" in repr(course.vjps())
    whole = gates.gated_vjp.case(1)
    mine, right = course.vjps(9).gated_vjp(*whole), gates.gated_vjp(*whole)
    assert all(map(np.allclose, mine, right))


def in_a_notebook(text, **names):
    """Names a cell of this text defines."""
    cell = "/nowhere/cell.py"
    linecache.cache[cell] = len(text), None, text.splitlines(True), cell
    names |= {"__name__": "__main__", "np": np}
    exec(compile(text, cell, "exec"), names)
    return names


def test_your_tape_is_made_of_the_methods_that_are_right(place, capsys):
    """Functions of a notebook, whose text `inspect` does not find."""
    capsys.readouterr()
    course.little_tape()
    assert capsys.readouterr().out == "LittleTape: the course's\n"
    known = {"stacks_vjp": tape.stacks_vjp, "unbroadcast": tape.unbroadcast}
    for name in tape.METHODS:
        text = inspect.getsource(getattr(tape, name).function).partition("\n)\n")[2]
        mine = in_a_notebook(text, **known)[name]
        getattr(tape, name).check(mine)
    kept = course.little_tape()()
    said = capsys.readouterr().out
    assert said.startswith("right: ") and "LittleTape: yours are matmul, " in said
    assert "stacks_vjp             the course's (none of yours is right yet)" in said
    x = kept.watch(np.array([1.0, -2.0]))
    for method in (x.relu, x.mean, x.__matmul__, kept.gradient):
        assert method.__code__.co_filename.startswith("<your ")
    (g,) = kept.gradient((x * x).mean(), [x])
    assert g.tolist() == [1.0, -2.0]
    for name in known:
        text = inspect.getsource(known[name].function).partition("\n)\n")[2]
        known[name].check(in_a_notebook(text, unbroadcast=tape.unbroadcast)[name])
    capsys.readouterr()
    course.little_tape()
    assert capsys.readouterr().out == "LittleTape: yours\n"
    place.joinpath("answers/tape.relu.py").write_text("def relu(self):\n    return 0")
    theirs = course.little_tape()().watch(x.data).relu
    assert theirs.__code__ is tape.relu.function.__code__
    assert "chapter 3  relu                   the course's (" in capsys.readouterr().out


def kept_in_words(place, text, name, **names):
    """Check an answer in a cell; gives what is kept of it."""
    cell = in_a_notebook(text, **names)
    gates.sigmoid.check(cell[name])
    return saved_answers.answer("gates", "sigmoid")


def test_helpers_imports_and_numbers_of_a_cell_are_kept(place, capsys):
    text = (
        "import math as m\n"
        "from numpy import exp as e\n"
        "ONE, unused = 1.0, object()\n"
        "def positive(x):\n    return ONE / (ONE + e(-abs(x)))\n"
        "def mine(x):\n"
        "    unused = m.pi\n"
        "    return np.where(x > 0, positive(x), 1 - positive(x))\n"
    )
    found = kept_in_words(place, text, "mine")
    assert capsys.readouterr().out.startswith("right: ")
    assert np.allclose(found(M), sigmoid(M))
    (file,) = place.rglob("*.py")
    assert "object" not in file.read_text()


def test_a_lambda_is_kept(place):
    text = "mine = lambda x: np.exp(-np.logaddexp(0, -x))\n"
    found = kept_in_words(place, text, "mine")
    assert np.allclose(found(M), sigmoid(M))


def test_what_cannot_be_kept_is_said_at_once(place, capsys):
    text = "def mine(x):\n    return table(x)\n"
    table = np.vectorize(lambda x: sigmoid(np.array(x)))
    assert kept_in_words(place, text, "mine", table=table) is None
    assert "will not have yours: it uses table (vectorize)" in capsys.readouterr().out
    one = type("One", (), {"__repr__": lambda _: "1.0"})  # looks like a number
    one.__call__ = lambda _, x: sigmoid(x)
    assert kept_in_words(place, text, "mine", table=one()) is None
    assert "will not have yours: it uses table (One)" in capsys.readouterr().out
    around = "def make(s):\n    def mine(x):\n        return s(x)\n    return mine\n"
    assert kept_in_words(place, around + "mine = make(s)\n", "mine", s=sigmoid) is None
    assert "it uses s of a function around it" in capsys.readouterr().out


def test_an_answer_kept_under_an_older_name_is_found(place):
    answers = place / "answers"
    answers.mkdir()
    answers.joinpath("nth_farthest.cut_among_slots.py").write_text(
        "def f(N, n):\n    return N + n\n"
    )
    place.joinpath("progress.json").write_text('["nth_farthest.cut_among_slots"]')
    assert saved_answers.answer("looking_inside", "cut_among_slots")(3, 1) == 4


def test_nothing_is_kept_where_nobody_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("TINYRMC_PROGRESS", "")
    normalisation.layer_norm.check(layer_norm)
    assert saved_answers.answer("normalisation", "layer_norm") is None


def test_a_solution_is_not_kept_as_yours(place):
    gates.sigmoid.check(gates.sigmoid)
    gates.sigmoid.check(gates.sigmoid.function)
    assert not list(place.rglob("*.py"))


def g_psi(z, layers, gain, offset):
    y = z
    for k, (W, b) in enumerate(layers, 1):
        y = y @ W + b
        y = np.maximum(y, 0) if k < len(layers) else y
    return layer_norm(y + z, gain, offset)  # its notebook's


def test_an_answer_finds_the_others_of_its_chapter(place):
    saved_answers.save("normalisation", "layer_norm", layer_norm)
    saved_answers.save("normalisation", "g_psi", g_psi)
    assert whose()["g_psi"] == ("yours", "")


def gate_of_every_slot(x, h, W, U, b):
    return (x @ W)[:, None] + np.einsum("...f,fg->...g", h, U) + b


def test_an_answer_that_the_tape_cannot_record_is_replaced_and_says_why(place):
    gates.gate_of_every_slot.check(gate_of_every_slot)
    owner, why = whose()["gate"]
    assert owner == "the course's"
    assert "np.einsum" in why


def test_a_spoilt_file_does_no_harm(place):
    for text in ["", "def f(:", "1 / 0", "x = 3"]:
        saved_answers.save("gates", "sigmoid", sigmoid)
        (file,) = place.rglob("*.py")
        file.write_text(text)
        assert whose()["sigmoid"] == ("the course's", "none of yours is right yet")


def step(xp, x, m, h, p):
    a = my.multi_head_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"])  # noqa: F821
    c = my.g_psi(xp, a, p["mlp"], p["gain"], p["offset"])  # noqa: F821
    f, i, o = (
        my.gate(xp, x, h, p[f"W_{g}"], p[f"U_{g}"], p[f"b_{g}"])  # noqa: F821
        for g in "fio"
    )
    m = update_memory(xp, f, i, m, c, p["forget_bias"])  # noqa: F821
    return m, my.output(xp, o, m)  # noqa: F821


def test_a_step_finds_the_pieces_and_the_functions_of_its_chapter(place):
    saved_answers.save("memory", "step", step)
    assert whose()["step"] == ("yours", "")
    assert is_mine(course.pieces().step)


# --- Exercises with xp ----------------------------------------------------------------


def detached(xp, *arguments):
    m, h = memory.step.function(xp, *arguments)
    return m, h.detach() if xp is primitives else h


def through_a_wall(xp, f, *others):
    return memory.update_memory.function(
        xp, f.detach() if xp is primitives else f, *others
    )


def half_of_it(xp, f, i, m, candidate, bias):
    return sigmoid(f + bias) * m + sigmoid(i) * candidate


def in_float64(xp, f, i, m, candidate, bias):
    f = f + np.full(f.shape[-1], float(bias))
    return memory.update_memory.function(xp, f, i, m, candidate, 0.0)


def test_right_values_with_a_wrong_gradient_are_wrong():
    for exercise, answer, says in [
        (memory.step, detached, "its result is cut off from its arguments"),
        (memory.update_memory, through_a_wall, "on the tape the gradient of f is 0 "),
        (memory.update_memory, half_of_it, "take it from xp"),
        (memory.update_memory, in_float64, "in float32:"),
    ]:
        verdict = exercise.judge(answer)
        assert verdict.state == "wrong"
        assert verdict.text.startswith("its values are right on NumPy, but ")
        assert says in verdict.text


def test_the_gradient_of_a_solution_is_that_of_the_complex_step():
    for exercise in [memory.step, nth.normed_attention]:
        case = exercise.cases()[0].copies()
        gradients = assembly.gradients(exercise.function, case)
        x = case[0]
        shift = np.zeros(x.shape, complex)
        shift[..., 0, 1] = 1e-30j
        results = exercise.function(np, x + shift, *case[1:])
        results = results if isinstance(results, tuple) else (results,)
        weights = np.random.default_rng(7)
        loss = sum((weights.normal(size=each.shape) * each).sum() for each in results)
        assert np.isclose(loss.imag / 1e-30, gradients[0][..., 0, 1].sum(), rtol=1e-12)


def test_a_step_on_the_tape_of_chapter_3_has_the_gradients_of_the_projects():
    """As chapter 10 does it: the library brings its own pieces."""
    own = SimpleNamespace(
        tanh=lambda x: x.tanh(),
        sigmoid=gates.squash,
        gate=memory.gate_on_tape,
        g_psi=memory.g_psi_on_tape.function,
        multi_head_attention=memory.heads_on_tape.function,
    )
    x, m, h, p = memory.step.cases()[0].copies()
    little = tape.LittleTape()
    watch = little.watch
    inputs = [watch(each) for each in (x, m, h)]
    nodes = {name: each_in(watch, value) for name, value in p.items()}
    new_m, new_h = memory.step.function(own, *inputs, nodes)
    for found, right in zip((new_m, new_h), memory.step(np, x, m, h, p), strict=True):
        np.testing.assert_allclose(found.data, right, rtol=1e-12)
    weights = rng.normal(size=(2, *m.shape))
    ours = [*inputs, nodes["U_f"], nodes["W_q"], nodes["mlp"][0][0]]
    loss = (new_m * watch(weights[0]) + new_h * watch(weights[1])).mean()
    by_us = little.gradient(loss, ours)
    with Tape() as recorded:
        theirs = [recorded.watch(each.data) for each in ours]
        q = {**p, "U_f": theirs[3], "W_q": theirs[4]}
        q["mlp"] = [(theirs[5], p["mlp"][0][1]), p["mlp"][1]]
        new_m, new_h = memory.step.function(primitives, *theirs[:3], q)
        loss = primitives.mean(new_m * weights[0] + new_h * weights[1])
    for a, b in zip(by_us, recorded.gradient(loss, theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)


# --- A network of a step --------------------------------------------------------------


def test_a_network_of_the_step_is_the_papers_core():
    sizes = {"N": 3, "F": 4, "H": 2, "seed": 5, "dtype": np.float64}
    network = StepNetwork(memory.step, 6, 2, **sizes)
    core = PaperRelationalMemory(6, 3, 2, 2, seed=5, dtype=np.float64)
    inputs = rng.normal(size=(2, 5, 6))
    outputs, _ = core.unroll(inputs, core.initial_state(2))
    assert np.allclose(network(inputs).data, network.head(outputs[-1]).data)


def normed_step(xp, x, M, h, w):
    """The step of chapter 13."""
    kinds = w["W_q"], w["W_k"], w["W_v"]
    M = nth.normed_attention(xp, M, x, *kinds, w["qkv_gain"], w["qkv_offset"])
    return memory.step.function(xp, x, M, h, w)


def test_every_weight_of_a_network_of_the_normed_step_gets_a_gradient():
    network = StepNetwork(normed_step, 6, 2, N=3, F=4, H=2, hidden=(5,))
    inputs = rng.normal(size=(2, 5, 6)).astype(np.float32)
    with Tape() as tape:
        loss = primitives.sum(network(inputs))
    tape.backward(loss)
    assert all(abs(each.grad).max() > 0 for each in network.parameters())
