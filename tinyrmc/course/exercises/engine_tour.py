"""Chapter 26: what a tape records and keeps, rules for its table, who owns an array."""

import numpy as np

from ... import nn
from ...autograd import primitives
from ...autograd.engine import Parameter, Tape, Tensor
from ...autograd.gradients import unbroadcast
from ..chapter import held
from ..compare import Wrong
from .derived import by_complex_step
from .drawn import drawn
from .exercise import each, exercise, named, normal
from .mended import mended
from .used import used

# --- What is recorded, and what runs back ---------------------------------------------

_CHAIN = [("a", ["x"]), ("b", ["a"]), ("loss", ["b"])]
_NET = [
    ("u", ["x", "W"]),
    ("mask", ["n"]),
    ("h", ["u", "mask"]),
    ("shown", ["h"]),
    ("far", ["n", "mask"]),
    ("d", ["h", "u"]),
    ("loss", ["d", "far"]),
    ("also", ["loss"]),
]


@exercise(
    cases=lambda rng: [
        (_CHAIN, ["x"], "loss"),
        (_NET, ["W"], "loss"),
        (_NET, ["n"], "loss"),
        (_NET, ["W", "n"], "d"),
        (_NET, ["W"], "also"),
        ([("p", ["w", "x"]), ("q", ["x", "w"]), ("loss", ["q", "p"])], ["w"], "loss"),
        ([("p", ["w"]), ("q", ["p"]), ("p2", ["p", "c"]), ("r", ["c"])], ["w"], "q"),
    ],
    hints=[
        "Forward first. An operation is entered if one of its inputs is watched, or "
        "came out of an entry. Keep a set of these names.",
        "Then reversed(entries). Begin with a set that holds the loss alone. An entry "
        "runs if its output is in the set, and then its inputs come into the set.",
    ],
    mistakes="""
        you run all entries, also those that the loss does not depend on
            if output in wanted: -> if True:
        you enter every operation, also those on constants alone
            if tracked & {*inputs}: -> if True:
        you ask that all inputs are tracked; one is enough
            if tracked & {*inputs}: -> if tracked >= {*inputs}:
        you go forward: the rule of the loss runs first
            reversed(entries) -> entries
        a name that came out of an entry is not tracked itself
            tracked.add(output) -> tracked.add(None)
        you follow the first input of each entry, and not the others
            wanted |= {*inputs} -> wanted |= {inputs[0]}
        you search from the loss down; the walk takes the newest entry first
            = by_search(operations, watched, loss)
    """,
)
def way_back(operations, watched, loss):
    """The operations whose rules run on the way back, in that order, by their outputs.

    operations: (output, inputs), names, in the order they ran; watched: the names of
    parameters; all other names that no operation gives are constants.
    """
    tracked, entries = {*watched}, []
    for output, inputs in operations:
        if tracked & {*inputs}:
            tracked.add(output)
            entries.append((output, inputs))
    wanted, run = {loss}, []
    for output, inputs in reversed(entries):
        if output in wanted:
            run.append(output)
            wanted |= {*inputs}
    return run


def by_search(operations, watched, loss):
    """A mistake of `way_back`: each entry, then what its inputs need."""
    inputs_of, found = dict(operations), []

    def visit(name):
        if name in inputs_of and name not in found:
            found.append(name)
            for inputs in inputs_of[name]:
                visit(inputs)

    visit(loss)
    entered = way_back.function(operations, watched, loss)
    return [name for name in found if name in entered]


# --- A rule for the table -------------------------------------------------------------


def _by_rule(answer, g, x):
    """The engine's call, with all that the forward rule has saved."""
    y = np.sqrt((x * x).sum(axis=-1))
    return answer(np, (x,), g, x, y)


_of_length = by_complex_step(lambda x: np.sqrt((x * x).sum(axis=-1)), "x")


def _exact(g, x):
    nothing = ~x.any(axis=-1, keepdims=True)
    return np.where(nothing, 0.0, _of_length(g, x + nothing))


def _rows(rng, scale, *shape):
    return tuple(scale * x for x in normal(rng, shape[:-1], shape))


_WITH_A_SHORT_ROW = np.array([1.0, -2.0]), np.array([[3e-9, 4e-9], [3.0, 4.0]])
_WITH_A_ROW_OF_ZEROS = np.array([1.0, -2.0]), np.array([[3.0, 4.0], [0.0, 0.0]])


@used(
    _by_rule,
    cases=each(
        _rows,
        "1 2 3, 1 3 3, 1e3 2 2 5, 1 4 1",
        also=[_WITH_A_ROW_OF_ZEROS, _WITH_A_SHORT_ROW],
    ),
    hints=[
        "y^2 is the sum of x_k^2. Move one x_k a little: 2 y dy = 2 x_k dx_k.",
        "g and y lack the last axis: g[..., None]. Where y is 0, so is x: divide by 1 "
        "there, xp.where(y == 0, 1.0, y).",
    ],
    mistakes="""
        a row of zeros gives NaN: 0 / 0
            xp.where(y == 0, 1.0, y) -> y
        a row that is short but not 0 has a gradient like any other: only where y is 0
        divide by 1
            xp.where(y == 0, 1.0, y) -> xp.maximum(y, 1e-3)
        you add a small number to the length: for short rows that is not small
            xp.where(y == 0, 1.0, y) -> y + 1e-8
        you do not divide by the length
            g / length -> g
        you divide by the square of the length
            g / length -> g / length**2
    """,
    exact=_exact,
)
def length_vjp(xp, needs, g, x, y):
    """The gradient of x, where y is the length of each row.

    x (..., F), y and g (...) -> (..., F); zeros for a row of zeros.
    """
    length = xp.where(y == 0, 1.0, y)
    return (g / length)[..., None] * x


# --- What a tape keeps ----------------------------------------------------------------


@drawn(
    cases=lambda rng: [([1, 2, 4, 8],), ([3, 5],), ([1, 5, 12],)],
    hints=[
        "For each length: x = Parameter(np.ones(10)); with Tape() as tape: begin "
        "with x, and apply the operation `length` times.",
        "course.held(tape) counts the bytes; divided by x.data.nbytes it is the number "
        "of arrays.",
        "Three curves: panel.plot(lengths, found, label='tanh') with the three labels "
        "that the text names, then panel.legend(), and names for both axes.",
    ],
    mistakes="""
        you count bytes, not arrays
            held(tape) / x.data.nbytes -> held(tape)
        you count the entries of the tape, which are as many as there are operations
            held(tape) / x.data.nbytes -> len(tape.entries)
        you apply each operation once, whatever the length
            range(length) -> range(1)
    """,
)
def kept_by_chains(panel, lengths):
    """Draw how many arrays the tape keeps after a chain of as many operations as each
    of `lengths` says, on a Parameter of 10 numbers: curves "add 1", "tanh" and "sin".
    """
    chains = {
        "add 1": lambda y: y + 1.0,
        "tanh": primitives.tanh,
        "sin": primitives.sin,
    }
    for label, operation in chains.items():
        found = []
        for length in lengths:
            x = Parameter(np.ones(10))
            with Tape() as tape:
                y = x
                for _ in range(length):
                    y = operation(y)
            found.append(held(tape) / x.data.nbytes)
        panel.plot(lengths, found, label=label)
    panel.legend()
    panel.set(xlabel="operations in the chain", ylabel="arrays that the tape keeps")


# --- Who owns a gradient --------------------------------------------------------------

KEPT = np.array([1.0, 2.0])  # what a forward pass has computed

BOTH, DOUBLED, MEAN_OF_TWO, OF_THE_FORWARD = named(
    both=lambda g: (g, g),
    doubled=lambda g: (2.0 * g,),
    mean_of_two=lambda g: (np.full(2, g / 2),),
    of_the_forward=lambda g: (KEPT.copy(),),
)


def _recordings(rng):
    """Entries (output, inputs, vjp); the loss is number 9, or 7."""
    sums = [(2, (0,), DOUBLED), (3, (0, 1), BOTH), (4, (3, 2), BOTH)]
    end = [(9, (4,), MEAN_OF_TWO)]
    twice = [(1, (0,), OF_THE_FORWARD), (2, (0,), OF_THE_FORWARD)]
    more = [(5, (1, 0), BOTH), (6, (4, 5), BOTH)]
    return [
        ([*sums, *end], 9, [0, 1]),
        ([(4, (0, 0), BOTH), (7, (4,), MEAN_OF_TWO)], 7, [0]),
        ([(9, (0,), MEAN_OF_TWO)], 9, [0]),
        ([*twice, (3, (1, 2), BOTH), (4, (0, 3), BOTH), *end], 9, [0]),
        ([*sums, *more, (9, (6,), MEAN_OF_TWO)], 9, [0, 1, 3]),
    ]


@mended(
    ("gradients[number] = gradients[number] + g", "gradients[number] += g"),
    cases=_recordings,
    hints=[
        "y = a + b has the vjp lambda g: (g, g): the same array, twice. Who else may "
        "hold an array that you write into?",
        "gradients[number] = gradients[number] + g makes a new array.",
    ],
    mistakes="""
        the last contribution replaces those before it
            gradients[number] + g -> g
        you leave out all contributions but the first
            = walk([(out, ins[:1], lambda g, f=f: f(g)[:1]) for out, ins, f in entries],
                loss, wanted)
    """,
    views=True,
)
def walk(entries, loss, wanted):
    """The gradients of the numbered values in `wanted`.

    entries: (number of the output, numbers of the inputs, vjp), in the order recorded.
    """
    gradients = {loss: np.ones(())}
    for output, inputs, vjp in reversed(entries):
        if output in gradients:
            for number, g in zip(inputs, vjp(gradients[output]), strict=True):
                if number in gradients:
                    gradients[number] = gradients[number] + g
                else:
                    gradients[number] = g
    return [gradients[number] for number in wanted]


# --- A fused rule ---------------------------------------------------------------------


def _called(answer, g, a, b, asked):
    """y and the gradients asked for, as the engine gets them from a pair of rules."""
    rules = answer()
    given = rules.forward(np, a, b)
    if not isinstance(given, tuple) or len(given) != 2 or type(given[1]) is not tuple:
        raise Wrong("forward gives two things: y, and a tuple of what to save")
    y, saved = given
    large = [each for each in saved if np.size(each) >= np.size(y) > 1]
    if len(large) > 2:
        raise Wrong(f"forward saves {len(large)} arrays as large as y: two are enough")
    needs = tuple(1 if name in asked else None for name in "ab")
    found = rules.vjp(np, needs, g, *saved)
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise Wrong("vjp gives two gradients, of a and of b, in a tuple")
    result = [y]
    for name, need, partial, x in zip("ab", needs, found, (a, b), strict=True):
        if need is None and partial is not None:
            raise Wrong(f"nobody asks for the gradient of {name}: give None for it")
        if need is not None:
            partial = np.asarray(partial)
            if partial.ndim < x.ndim:
                raise Wrong(f"the gradient of {name} has the shape {partial.shape}")
            result.append(unbroadcast(partial, x.shape))
    return result


_of_gated = by_complex_step(lambda a, b: a / (1 + np.exp(-b)), "a b")


def _gated_exactly(g, a, b, asked):
    both = dict(zip("ab", _of_gated(g, a, np.clip(b, -300, 300)), strict=True))
    y = a / (1 + np.exp(-np.clip(b, -300, 300)))
    return [y, *(both[name] for name in asked)]


def _gates(rng, asked, *shape, scale=1.0):
    g, a, b = normal(rng, shape, shape, shape)
    return g, a, scale * b, asked


@used(
    _called,
    methods=("forward", "vjp"),
    cases=lambda rng: [
        _gates(rng, "ab", 3),
        _gates(rng, "ab", 2, 2),
        _gates(rng, "a", 4, 2),
        _gates(rng, "b", 2, 3),
        _gates(rng, "ab", 2, 3, 4, scale=1e3),
        (*normal(rng, (4, 3), (4, 3), 3), "ab"),  # broadcast: the engine sums it down
        (*normal(rng, (4, 3), (1, 3), (4, 1)), "ab"),
    ],
    hints=[
        "With s = sigmoid(b) the loss changes by g * (s * da + a * s * (1 - s) * db). "
        "0.5 + 0.5 * xp.tanh(0.5 * b) is the sigmoid, and never overflows.",
        "forward: return a * s, (a, s). vjp gets exactly these two at the end: "
        "vjp(xp, needs, g, a, s).",
        "g * s if needs[0] is not None else None; likewise g * a * s * (1 - s). Shapes "
        "that differ are the engine's matter.",
    ],
    mistakes="""
        you compute a gradient that nobody asks for
            if needs[0] is not None else None ->
            if needs[1] is not None else None ->
        you forget the sigmoid's own derivative: s * (1 - s)
            g * a * s * (1 - s) -> g * a
        you take the derivative of tanh, 1 - s * s
            g * a * s * (1 - s) -> g * a * (1 - s * s)
        you forget the factor s: y * (1 - s) would have it, a * (1 - s) has not
            g * a * s * (1 - s) -> g * a * (1 - s)
        the two gradients stand in the wrong order
            return ga, gb -> return gb, ga
        you leave out g
            g * s if -> s if
            g * a * s * (1 - s) -> a * s * (1 - s)
        the gate is on the wrong argument: y = b * sigmoid(a)
            def forward(xp, a, b): -> def forward(xp, b, a):
        exp overflows where b is far below 0, and 0 * inf is NaN
            0.5 + 0.5 * xp.tanh(0.5 * b) -> xp.exp(b) / (1 + xp.exp(b))
    """,
    exact=_gated_exactly,
)
class Gated:
    """y = a * sigmoid(b) and its derivative, as a pair of rules for the table."""

    @staticmethod
    def forward(xp, a, b):
        """a and b of shapes that fit -> (y, a tuple of what vjp will need)."""
        s = 0.5 + 0.5 * xp.tanh(0.5 * b)
        return a * s, (a, s)

    @staticmethod
    def vjp(xp, needs, g, a, s):
        """The gradients of a and b; None for one that `needs` has None for."""
        ga = g * s if needs[0] is not None else None
        gb = g * a * s * (1 - s) if needs[1] is not None else None
        return ga, gb


# --- What a module registers ----------------------------------------------------------


class _Part(nn.Module):
    def __init__(self, **attributes):
        vars(self).update(attributes)

    def named_parameters(self):
        raise Wrong("it calls the module's own search: write yours")


def _of(*numbers):
    return Parameter(np.array(numbers, float))


def _linear(first):
    return _Part(weight=_of(first, first + 1), bias=_of(first + 2))


def _tied():
    table = _of(1, 2)
    out = _Part(bias=_of(9), table=table)
    return _Part(embedding=_Part(table=table), core=_linear(3), out=out)


def _used_twice():
    layer = _linear(1)
    return _Part(layers=[layer, _linear(5), layer])


def _with_others():
    return _Part(
        size=3,
        scale=np.ones(2),
        name="a",
        gain=_of(1, 2),
        none=None,
        constant=Tensor(np.ones(2)),
        function=np.tanh,
        bias=_of(4),
    )


NETWORKS = named(
    linear=lambda: _linear(1),
    two_layers=lambda: _Part(second=_linear(4), first=_linear(1)),
    in_lists=lambda: _Part(
        blocks=[_linear(1), (_linear(4), _of(7))], heads={"b": _linear(8), "a": _of(0)}
    ),
    with_others=_with_others,
    tied=_tied,
    used_twice=_used_twice,
    empty=lambda: _Part(size=3, layers=[]),
)


def _registered(answer, network):
    """Names and values of the parameters that an answer finds."""
    found = answer(network())
    if found is None:
        return None
    found = [*found]
    for pair in found:
        if not (isinstance(pair, tuple) and isinstance(pair[-1], Parameter)):
            raise Wrong("it gives pairs, a name and a Parameter, in a list")
    return [[name, value.data] for name, value in found]


@used(
    _registered,
    cases=lambda rng: [(each,) for each in NETWORKS],
    hints=[
        "Write a helper visit(name, value) that looks at one value. A Parameter is "
        "kept; of a Module visit all of vars(value).items(); of a list, a tuple or a "
        "dict visit what is in it; all else is left alone.",
        'The name of a child is f"{name}.{key}", and key alone at the top. Children of '
        "a list are called 0, 1, 2, ...",
        "Keep the id(value) of each Parameter that you have met in a set, and leave "
        "it out when it comes again.",
    ],
    mistakes="""
        you look at the attributes of the module itself, and not further in
            visit(f"{name}.{key}" if name else key, child) ->
                visit(key, child) if not isinstance(child, nn.Module) else None
        parameters in lists and tuples are forgotten: they would never be trained
            isinstance(value, (list, tuple)) -> False
        parameters in dicts are forgotten: they would never be trained
            isinstance(value, dict) -> False
        a parameter that stands in two places comes twice: an optimizer would step twice
            if id(value) not in seen: -> if True:
        a name says only the last part of the way: two parameters get the same name
            f"{name}.{key}" if name else key -> key
        you sort them by name; they come in the order in which they were assigned
            return found -> return sorted(found, key=lambda pair: pair[0])
        all Tensors count for you, and not only Parameters
            isinstance(value, Parameter) -> isinstance(value, Tensor)
    """,
)
def named_parameters(module):
    """[(name, Parameter), ...] of a module: in the order of its attributes, through
    modules, lists, tuples and dicts in it; each Parameter once, under its first name.

    Names are the way there, such as "blocks.0.weight".
    """
    found, seen = [], set()

    def visit(name, value):
        if isinstance(value, Parameter):
            if id(value) not in seen:
                seen.add(id(value))
                found.append((name, value))
            return
        children = {}
        if isinstance(value, nn.Module):
            children = vars(value)
        elif isinstance(value, dict):
            children = value
        elif isinstance(value, (list, tuple)):
            children = dict(enumerate(value))
        for key, child in children.items():
            visit(f"{name}.{key}" if name else key, child)

    visit("", module)
    return found
