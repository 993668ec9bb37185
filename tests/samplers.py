"""Arguments for every primitive in the table, and a gradient check on them.

`CASES[name]` lists calls of one primitive: a 0-d array wherever one makes sense, axes
of size 1, broadcasting, every static argument. Values keep away from the kinks of
maximum, max and ReLU, where there is no derivative to compare with; ties have tests of
their own.
"""

from dataclasses import dataclass, field

import numpy as np

from tinyrmc import fused, primitives  # noqa: F401  (fused fills the table)
from tinyrmc.autograd.engine import TABLE, Primitive, Tape
from tinyrmc.backend import namespace

STEP = 1e-30
TOLERANCE = 1e-10


def overlap(a, b):
    """Whether two arrays share memory. CuPy's own answer is wrong where one of them has
    a single element, so there the addresses are compared.
    """
    if not hasattr(a.data, "ptr"):
        return namespace(a).shares_memory(a, b)
    ends = [(x.data.ptr, x.data.ptr + x.nbytes) for x in (a, b)]  # without gaps
    return ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1]


@dataclass(frozen=True)
class Case:
    """One call of the primitive `name`: arguments in order, and static arguments.

    The arguments are float64 arrays, index arrays, numbers or None.
    """

    name: str
    arguments: tuple
    static: dict = field(default_factory=dict)

    @property
    def floats(self):
        """Positions of the arguments that have a gradient."""
        return [
            k
            for k, a in enumerate(self.arguments)
            if hasattr(a, "dtype") and a.dtype.kind == "f"
        ]

    def __call__(self, arguments=None, function=None):
        """function(*arguments, **static); by default the primitive itself.

        concatenate and stack get a list.
        """
        arguments = self.arguments if arguments is None else arguments
        function = function_of(self.name) if function is None else function
        arguments = [list(arguments)] if takes_a_list(self.name) else arguments
        return function(*arguments, **self.static)

    def map(self, change):
        """The same call with `change` applied to every array."""

        def within(value):
            if isinstance(value, tuple):
                return tuple(map(within, value))
            return change(value) if hasattr(value, "dtype") else value

        static = {name: within(value) for name, value in self.static.items()}
        return Case(self.name, within(self.arguments), static)

    def replace(self, position, value):
        """The arguments, one of them exchanged."""
        return (*self.arguments[:position], value, *self.arguments[position + 1 :])

    def __str__(self):
        words = [
            f"{a.dtype}{list(a.shape)}" if hasattr(a, "dtype") else repr(a)
            for a in self.arguments
        ]
        words += [f"{name}={value}" for name, value in self.static.items()]
        return f"{self.name}({', '.join(words)})"


def function_of(name):
    """The primitive of this name, or the function composed of primitives."""
    return TABLE.get(name) or getattr(primitives, name)


def takes_a_list(name):
    return getattr(TABLE.get(name), "variadic", name in ("vstack", "hstack"))


# --- The cases ------------------------------------------------------------------------

_random = np.random.default_rng(1)
CASES: dict[str, list[Case]] = {}


def normal(*shape):
    return np.asarray(_random.standard_normal(shape))


def positive(*shape):
    return np.asarray(_random.uniform(0.5, 2.0, shape))


def away_from_zero(*shape):
    return np.asarray(positive(*shape) * _random.choice([-1.0, 1.0], shape))


def put(name, *arguments, **static):
    CASES.setdefault(name, []).append(Case(name, arguments, static))


BROADCASTS = [
    ((), ()),
    ((3,), ()),
    ((), (2, 3)),
    ((1,), (4,)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((4, 1, 3), (2, 1)),
    ((1, 1), (1, 1)),
    ((2, 3), (2, 3)),
]
SHAPES = [(), (1,), (5,), (2, 3), (2, 1, 3)]

for _a, _b in BROADCASTS:
    for _name in "add", "subtract", "multiply", "maximum", "minimum":
        put(_name, normal(*_a), normal(*_b))
    put("divide", normal(*_a), away_from_zero(*_b))
    put(
        "where",
        np.asarray(_random.random(np.broadcast_shapes(_a, _b)) < 0.5),
        normal(*_a),
        normal(*_b),
    )
    put("where", np.asarray(_random.random(_b) < 0.5), normal(*_a), normal(*_a))
for _name in "add", "subtract", "multiply", "maximum", "minimum", "divide":
    put(_name, away_from_zero(2, 3), 0.25)
    put(_name, -0.25, away_from_zero(2, 3))
# the side not taken may be infinite
put("where", np.array([True, False, True]), normal(2, 3), -np.inf)
put("where", np.array([[True], [False]]), 0.0, normal(2, 3))

for _shape in SHAPES:
    for _name in "negative", "square", "exp", "sin", "cos", "tanh", "sigmoid":
        put(_name, normal(*_shape))
    for _name in "sqrt", "log":
        put(_name, positive(*_shape))
    for _exponent in 2, 3, 0.5, -1, -1.5:
        put("power", positive(*_shape), _exponent)
    put("power", normal(*_shape), 3)

    put("softplus", normal(*_shape))
    put("clip", positive(*_shape), a_min=0.8, a_max=1.2)
    put("clip", normal(*_shape), a_min=-9.0, a_max=9.0)
for _a, _b in BROADCASTS:
    put("power", positive(*_a), normal(*_b))
    put("logaddexp", normal(*_a), normal(*_b))
put("power", 2.5, normal(2, 3))
put("logaddexp", np.array([800.0, -800.0, 1e-3, 2.0]), np.array([1.0, 1e-3, -1e9, 2.0]))
for _shape in SHAPES:
    for _name in "log1p", "arccosh":
        put(_name, np.asarray(1 + positive(*_shape)))
    for _name in "expm1", "sinh", "cosh", "arctan", "arcsinh":
        put(_name, normal(*_shape))
    for _name in "tan", "arcsin", "arccos", "arctanh", "log1p":
        put(_name, np.asarray(away_from_zero(*_shape) / 3))
    for _name in "abs", "sign", "relu":
        put(_name, away_from_zero(*_shape))
put("softplus", np.array([-50.0, -1.0, 0.0, 1.0, 50.0]))

for _name in "sum", "mean", "max", "min", "prod", "var":
    for _shape in SHAPES:
        put(_name, normal(*_shape))
        put(_name, normal(*_shape), keepdims=True)
    for _axis in 0, 1, -1, -2, (0, 1), (2, 0), (-1, 1), (0, 1, 2):
        put(_name, normal(2, 1, 3), axis=_axis)
        put(_name, normal(2, 4, 3), axis=_axis, keepdims=True)
for _shape, _axis in (
    ((1,), -1),
    ((5,), 0),
    ((2, 3), -1),
    ((2, 3), 0),
    ((2, 1, 3), 1),
    ((2, 4, 3), 1),
):
    put("softmax", normal(*_shape), axis=_axis)
put("softmax", normal(3, 4))
for _name in "var", "std":
    put(_name, normal(2, 4, 3), axis=(0, 2), ddof=1, keepdims=True)
    put(_name, normal(2, 4, 3))
    put(_name, normal(2, 4, 3), axis=-1)
put("prod", np.array([[2.0, 0.0, 3.0], [0.0, 1.0, 0.0], [1.0, 2.0, 3.0]]), axis=1)
for _shape, _axis in (
    ((1,), 0),
    ((5,), -1),
    ((2, 3), 1),
    ((7, 3), 0),
    ((2, 9, 3), 1),
    ((2, 8, 1), -2),
    ((3, 0), 1),
):
    put("cumprod", normal(*_shape), axis=_axis)
    put("cumsum", normal(*_shape), axis=_axis)
    put("flip", normal(*_shape), axis=_axis)
    put("roll", normal(*_shape), shift=2, axis=_axis)
    put("sort", normal(*_shape), axis=_axis)
_zeros = [2.0, 0.0, 3.0, -1.0], [0.0, 2.0, 0.0, 4.0]
_underflow = [1e-30, 1e-30, 1.0, 1e30]
put("cumprod", np.array([*_zeros, _underflow]), axis=1)

for _a, _b in [
    ((3,), (3,)),
    ((1,), (1,)),
    ((3,), (3, 2)),
    ((3,), (2, 3, 4)),
    ((2, 3), (3,)),
    ((4, 2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((1, 1), (1, 1)),
    ((5, 2, 3), (3, 4)),
    ((5, 6, 2, 3), (3, 4)),
    ((5, 6, 2, 3), (3,)),
    ((3,), (5, 6, 3, 2)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (5, 3, 1)),
]:
    put("matmul", normal(*_a), normal(*_b))

put("reshape", normal(2, 3), shape=(3, 2))
put("reshape", normal(2, 3, 4), shape=(4, -1))
put("reshape", normal(), shape=(1, 1))
put("reshape", normal(1), shape=())
put("reshape", normal(6), shape=-1)
for _shape, _axes in (
    ((), None),
    ((), ()),
    ((3,), None),
    ((2, 3), None),
    ((2, 3), (0, 1)),
    ((2, 3, 4), (2, 0, 1)),
    ((2, 3, 4), (1, -1, 0)),
):
    put("transpose", normal(*_shape), axes=_axes)
put("flip", normal(2, 3))
put("flip", normal(2, 3, 2), axis=(0, -1))
put("roll", normal(2, 3), shift=-1)
put("roll", normal(2, 3), shift=(1, -2), axis=(0, 1))
put("sort", normal(3, 4))
put("moveaxis", normal(2, 3, 4), source=0, destination=-1)
put("moveaxis", normal(2, 3, 4), source=(0, 2), destination=(1, 0))
for _width in 1, (0, 2), ((1, 0), (2, 3)):
    put("pad", normal(2, 3), pad_width=_width, constant_values=0.5)
for _k in -1, 0, 2:
    for _name in "tril", "triu":
        put(_name, normal(2, 3, 4), k=_k)
    put("trace", normal(3, 4), offset=_k)
put("trace", normal(2, 3, 4), axis1=-1, axis2=0)
put("repeat", normal(2, 3), repeats=2, axis=1)
put("repeat", normal(2, 3), repeats=[2, 0, 1], axis=-1)
put("repeat", normal(2, 3), repeats=3)
for _reps in 2, (2, 1), (2, 3, 1, 2):
    put("tile", normal(2, 1, 3), reps=_reps)
for _name in "vstack", "hstack":
    put(_name, normal(3), normal(3))
    put(_name, normal(2, 3), normal(2, 3), normal(2, 3))
put("hstack", normal(), normal(2))
put("vstack", normal(2, 3), normal(3))
put("outer", normal(3), normal(4))
put("tensordot", normal(2, 3, 4), normal(3, 4, 5))
put("tensordot", normal(2, 3, 4), normal(4, 5), axes=1)
put("tensordot", normal(2, 3), normal(4), axes=0)
put("tensordot", normal(2, 3, 4), normal(4, 3, 5), axes=([1, -1], [1, 0]))
put("einsum", "ij,ij->", normal(2, 3), normal(2, 3))
put("einsum", "bij,bjk->bik", normal(2, 3, 4), normal(2, 4, 5))
put("einsum", "ijk,kjl,li", normal(2, 3, 4), normal(4, 3, 5), normal(5, 2))
put("einsum", "b i, j -> j b", normal(2, 3), normal(4))
put("einsum", "ijk->ki", normal(2, 3, 4))
put("einsum", "...i,...ij->...j", normal(2, 5, 3), normal(2, 5, 3, 4))
put("einsum", "...i,ij->j...", normal(2, 5, 3), normal(3, 4))
put("einsum", "...i,...ij->...j", normal(3), normal(2, 3, 4))
put("einsum", "...i,...j->...ij", normal(3), normal(4))
put("swapaxes", normal(2, 3, 4), axis1=0, axis2=2)
put("swapaxes", normal(2, 3, 4), axis1=-1, axis2=-2)
put("swapaxes", normal(1, 3), axis1=1, axis2=1)
for _shape, _axis in ((), 0), ((3,), 0), ((3,), -1), ((2, 3), 1), ((2, 3), (0, 2)):
    put("expand_dims", normal(*_shape), axis=_axis)
for _shape, _axis in (
    ((), None),
    ((1,), None),
    ((1, 3, 1), None),
    ((1, 3, 1), 0),
    ((1, 3, 1), -1),
    ((1, 3, 1), (0, 2)),
):
    put("squeeze", normal(*_shape), axis=_axis)
for _shape, _new in (
    ((), ()),
    ((), (2, 3)),
    ((1,), (4,)),
    ((3,), (2, 3)),
    ((2, 1), (5, 2, 3)),
    ((2, 3), (2, 3)),
):
    put("broadcast_to", normal(*_shape), shape=_new)
put("concatenate", normal(2, 3), normal(1, 3), normal(4, 3))
put("concatenate", normal(2, 1), normal(2, 3), axis=1)
put("concatenate", normal(2, 1, 3), normal(2, 4, 3), axis=-2)
put("concatenate", normal(3))
put("stack", normal(), normal(), normal())
put("stack", normal(2, 3), normal(2, 3), axis=-1)
put("stack", normal(2, 3), normal(2, 3), normal(2, 3), axis=1)
put("stack", normal(1))
put("unstack", normal(3))
put("unstack", normal(1, 3))
put("unstack", normal(2, 3, 4), axis=1)
put("unstack", normal(2, 3, 4), axis=-1)
put("split", normal(5), indices_or_sections=[2])
put("split", normal(2, 6), indices_or_sections=[1, 1, 4], axis=1)
put("split", normal(2, 6, 3), indices_or_sections=3, axis=-2)
put("split", normal(1, 3), indices_or_sections=1)
for _key in (
    0,
    -1,
    slice(1, None),
    slice(None, None, -1),
    slice(0, 0),
    (1, 2),
    (slice(None), 1),
    (Ellipsis, 0),
    (None, 0),
    (),
    Ellipsis,
    (0, 0, 0),
    (slice(None), None, slice(0, 3, 2)),
    np.array([1, 0, 1, -1]),
    [[0], [1]],
    (np.arange(2), np.array([2, 0], np.uint8)),
    (slice(None), [2, 2], slice(1, 3)),
    (np.array([[0], [1]]), slice(None), np.array([3, 0, 3])),
    (Ellipsis, 0, np.array([1, 1])),
    (None, np.zeros(0, int)),
):
    put("getitem", normal(2, 3, 4), key=_key)
put("getitem", normal(), key=())
put("getitem", normal(), key=None)
put("take", normal(5), np.array([0, 3, 3, -1]))
put("take", normal(5), np.array(2))
put("take", normal(2, 3), np.array([[0, 5], [5, 5]]))
put("take", normal(4, 3), np.array([1, 1, 0]), axis=0)
put("take", normal(2, 4, 3), np.array([[1, -1, 1], [0, 2, 1]]), axis=1)
put("take", normal(2, 4, 3), np.array([[1, 1]]), axis=-1)
put("take", normal(2, 4, 3), 2, axis=-2)
put("take", normal(4, 3), np.zeros((0,), int), axis=0)

put("take_along_axis", normal(5), np.array([0, 3, 3, -1]))
put("take_along_axis", normal(2, 3), np.array([[2, 0, 1], [1, 1, 1]]), axis=1)
put("take_along_axis", normal(2, 3), np.array([[1, 0, 1]]), axis=0)
put("take_along_axis", normal(2, 3), np.array([[1, 0, 1, 1]]), axis=1)
put("take_along_axis", normal(1, 3, 2), np.array([[[1]], [[-1]]]))
put("take_along_axis", normal(4, 1), _random.integers(0, 4, (2, 3)), axis=0)
put("take_along_axis", normal(2, 4, 3), _random.integers(-4, 4, (2, 5, 3)), axis=-2)
put("take_along_axis", normal(2, 3), np.zeros((2, 0), int), axis=-1)

for _shape, _in in ((5,), 5), ((3, 5), 5), ((2, 3, 5), 5), ((1, 1, 1), 1):
    for _relu in False, True:
        put("linear", normal(*_shape), normal(_in, 4), normal(4), relu=_relu)
        put("linear", normal(*_shape), normal(_in, 4), None, relu=_relu)
put("linear", normal(3, 2), normal(2, 3))
for _shape, _kernel in (
    ((2, 3, 4, 2), (2, 2)),
    ((3, 3, 1), (1, 3)),
    ((2, 1, 5, 6, 2), (3, 2)),
    ((2, 2, 2, 1), (2, 1)),
):
    for _padding in "VALID", "SAME":
        _weight = normal(*_kernel, _shape[-1], 3)
        put("conv2d", normal(*_shape), _weight, normal(3), padding=_padding)
        put("conv2d", normal(*_shape), _weight, padding=_padding, relu=True)
put("conv2d", normal(2, 1, 2, 3), normal(5, 4, 3, 2), normal(2), padding="SAME")
put("conv2d", normal(2, 3, 19, 2), normal(2, 2, 2, 3), normal(3))
put("conv2d", normal(2, 3, 17, 1), normal(3, 3, 1, 2), normal(2), padding="SAME")
for _ids in (0, 3, 3, 0, 1), [[4, 0], [4, 4]], 2, np.zeros((0, 3), int):
    put("embedding", normal(5, 3), np.asarray(_ids))
put("embedding", normal(300, 1), np.asarray([0, 299, 0]))
for _shape in (6,), (3, 6), (2, 3, 6), (2, 1, 4):
    put("layer_norm", normal(*_shape), normal(_shape[-1]), normal(_shape[-1]))
    put(
        "layer_norm",
        normal(*_shape),
        normal(_shape[-1]),
        normal(_shape[-1]),
        normal(*_shape),
    )
put("layer_norm", normal(2, 6), normal(6), normal(6), normal(2, 6), epsilon=0.1)
put("attention", normal(2, 4, 2 * 8), num_heads=2, key_size=3)
put("attention", normal(2, 4, 2 * 8), num_heads=2, key_size=3, num_queries=3)
put("attention", normal(1, 3, 3), num_heads=1, key_size=1)
put("attention", normal(2, 1, 3 * 5), num_heads=3, key_size=1)
put("attention", normal(3, 5, 4 * 6), num_heads=4, key_size=2, num_queries=1)
for _shape in (4, 4), (1, 4), (2, 1, 4, 4), (1, 2, 1, 4), (2, 2, 4, 4):
    put(
        "attention",
        normal(2, 4, 2 * 8),
        _random.random(_shape) < 0.5,
        num_heads=2,
        key_size=3,
    )
    CASES["attention"][-1].arguments[1][..., 1] = True  # no row is left without
put(
    "attention",
    normal(2, 4, 2 * 8),
    np.eye(3, 4, dtype=bool),
    num_heads=2,
    key_size=3,
    num_queries=3,
)
put("attention", normal(2, 4, 2 * 8), None, num_heads=2, key_size=3)
for _networks, _batch, _memories, _columns in (2, 3, 4, 5), (1, 2, 3, 4), (1, 1, 1, 1):
    _hop = (
        normal(_networks, _batch, 2),
        normal(_networks, _columns, 2),
        normal(_networks, _columns, 2),
        normal(_batch, _memories, _columns),
    )
    put("memory_hop", *_hop)
    put("memory_hop", *_hop, None, linear=True)
    put("memory_hop", *_hop, np.arange(_memories) < [[2]] * _batch)
for _batch, _words, _memories in (2, 3, 4), (1, 1, 3), (2, 3, 1), (1, 1, 1):
    _ages, _known = (
        normal(2, _memories, 3),
        normal(2, _batch, _memories + _words - 1, 3),
    )
    _hop = normal(_batch, _words, 3), _known[0], _ages[0], _known[1], _ages[1]
    put("sliding_hop", *_hop)
    if _memories > 1:
        put("sliding_hop", *_hop, np.arange(_known.shape[2]) >= [[1]] * _batch)
for _batch, _slots, _width in (2, 3, 4), (1, 1, 1), (3, 1, 2), (2, 4, 1):
    for _columns in 2 * _width, 2:  # one gate a unit, one gate a slot
        put(
            "rmc_gates",
            normal(_batch, 1, _columns),
            normal(_batch, _slots, _columns),
            *[normal(_batch, _slots, _width) for _ in range(2)],
        )
put(
    "rmc_gates",
    normal(2, 1, 8),
    normal(2, 3, 8),
    normal(2, 3, 4),
    normal(2, 3, 4),
    input_bias=0.5,
    forget_bias=-0.5,
)
put("linear_scan", normal(5, 3), normal(5, 3), normal(3))
put("linear_scan", normal(1, 2), normal(1, 2), normal(2))
put("solve_lower", normal(4, 4), normal(4, 2))
put("solve_lower", normal(2, 3, 5, 5), normal(2, 3, 5, 1))
put("solve_lower", normal(2, 2, 2), normal(2, 2, 3))
put("lstm_gates", normal(2, 4 * 3), normal(2, 3))
put("lstm_gates", normal(1, 4), normal(1, 1), forget_bias=0.0)
put("lstm_gates", normal(12), normal(3))
for _steps, _batch, _in, _size in (3, 2, 4, 3), (1, 1, 1, 1), (4, 3, 1, 2):
    _layer = (
        normal(_steps, _batch, _in),
        normal(_in + _size, 4 * _size),
        normal(4 * _size),
        normal(_batch, _size),
        normal(_batch, _size),
    )
    put("lstm", *_layer)
    put("lstm", *_layer, None, forget_bias=0.0)
    _ends = _random.integers(0, _steps + 2, _batch)
    put("lstm", *_layer, _ends)
    _fresh = _random.random((_steps, _batch)) < 0.4
    put("lstm", *_layer, None, _fresh)
    put("lstm", *_layer, _ends, _fresh)
for _heads, _words, _width in (2, 3, 4), (1, 1, 1), (1, 5, 2), (3, 2, 1):
    put(
        "content_weights",
        normal(2, _heads, _width),
        normal(2, _words, _width),
        positive(2, _heads),
    )
    put(
        "erase_and_write",
        normal(2, _words, _width),
        *[normal(2, _heads, _size) for _size in (_words, _width, _width)],
    )
    put(
        "temporal_links",
        normal(2, _heads, _words, _words),
        normal(2, _heads, _words),
        normal(2, _heads, _words),
    )
put("content_weights", normal(2, 1, 3), normal(2, 4, 3), normal(2, 1), epsilon=0.5)
# factors that are zero
_ones = np.ones((1, 3, 2)), np.ones((1, 3, 3))
put("erase_and_write", normal(1, 2, 3), *_ones, normal(1, 3, 3))
for _shape in (4,), (3, 4), (2, 3, 4), (2, 1):
    put(
        "softmax_cross_entropy",
        normal(*_shape),
        np.asarray(_random.integers(0, _shape[-1], _shape[:-1])),
    )
    put(
        "categorical",
        normal(*_shape),
        np.asarray(_random.integers(0, _shape[-1], _shape[:-1])),
    )
# no target twice: on a device their gradients are added up in another order
for _tiling in (
    {},
    {"block": 1},
    {"block": 2, "keep": 0},
    {"block": 2, "keep": 12},
    {"block": 4, "keep": 25},
):
    put(
        "linear_cross_entropy",
        normal(2, 3, 4),
        normal(7, 4),
        _random.permutation(7)[:6].reshape(2, 3),
        *([] if _tiling == {"block": 1} else [normal(7)]),
        **_tiling,
    )
for _name in "silu", "gelu":
    for _shape in (), (3, 4), (2, 1, 5):
        put(_name, normal(*_shape))
for _name, _axes in ("logsumexp", (None, 0, -1, (0, 2))), ("log_softmax", (0, 1, -1)):
    for _axis in _axes:
        put(_name, 3 * normal(2, 3, 4), axis=_axis)
put("logsumexp", normal(2, 3), axis=1, keepdims=True)
put("logsumexp", normal())


# see test_gpu_step.py and test_recompute.py
ELSEWHERE = {"relational_memory", "computed_again", "pulled"}
KNOWN = {*TABLE, *primitives.COMPOSED} - ELSEWHERE
if set(CASES) != KNOWN:
    raise LookupError(
        "primitives without cases, or cases without a primitive: "
        f"{sorted(set(CASES) ^ KNOWN)}; see put(...) above"
    )
EVERY = [case for cases in CASES.values() for case in cases]
for _name in primitives.COMPOSED:  # CASES is for rows of the table from here on
    CASES.pop(_name)


# --- Layouts: the same values elsewhere in memory -------------------------------------


def _every_second(a):
    wide = (
        namespace(a).full((*a.shape[:-1], 2 * a.shape[-1]), 7, a.dtype) if a.ndim else a
    )
    if a.ndim:
        wide[..., ::2] = a
    return wide[..., ::2] if a.ndim else a


def _turned_twice(a):
    xp = namespace(a)
    return xp.asarray(xp.flip(xp.flip(a).copy()))


def _read_only(a):
    a = a.copy()
    if isinstance(a, np.ndarray):  # CuPy has nothing of the kind
        a.flags.writeable = False
    return a


LAYOUTS = {
    "contiguous": lambda a: a.copy(),
    "permuted strides": lambda a: a.T.copy().T,
    "negative strides": _turned_twice,
    "gaps": _every_second,
    "read-only": _read_only,
}


# --- The check ------------------------------------------------------------------------


def _contract(xp, *outputs, weights):
    return xp.asarray(
        sum(xp.sum(o * w) for o, w in zip(outputs, weights, strict=True))
    ), (weights,)


contract = Primitive(_contract)
# hands the weights themselves to the rule under test
contract.vjp(lambda xp, needs, g, weights: tuple(weights))
del TABLE[contract.name]


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def direction(random, shape):
    """Random, no component near zero: an error in any of them shows."""
    return np.asarray(
        random.uniform(0.5, 1.0, shape) * random.choice([-1.0, 1.0], shape)
    )


def output_weights(case, seed=0):
    """Random weights that sum up the outputs of a case to a scalar loss.

    They are on the device, if the outputs are.
    """
    random = np.random.default_rng(seed)
    return [
        namespace(o.data).asarray(direction(random, o.shape).astype(o.dtype))
        for o in as_tuple(case())
    ]


def gradients(case, weights, watch=None, function=None):
    """d sum(outputs * weights) / d argument, as the tape computes it.

    For the arguments in `watch` (default: all that have a gradient).
    """
    watch = case.floats if watch is None else watch
    with Tape() as tape:
        arguments = [
            tape.watch(a) if k in watch else a for k, a in enumerate(case.arguments)
        ]
        loss = contract(list(as_tuple(case(arguments, function))), weights=weights)
    return tape.gradient(loss, [arguments[k] for k in watch])


def check_gradient(case, seed=0):
    """AssertionError unless the vjp agrees with the complex step.

    In a random direction of every argument.
    """
    weights = output_weights(case, seed)
    # not the weights again, for which a transposed Jacobian would be right too
    random = np.random.default_rng([seed, 1])
    for position, gradient in zip(case.floats, gradients(case, weights), strict=True):
        argument = case.arguments[position]
        xp = namespace(argument)
        assert gradient.shape == argument.shape
        v = xp.asarray(direction(random, argument.shape))
        moved = as_tuple(
            case(case.replace(position, xp.asarray(argument + 1j * STEP * v)))
        )
        exact = sum(
            float(xp.sum(w * o.data.imag / STEP))
            for w, o in zip(weights, moved, strict=True)
        )
        ours, scale = (
            float(xp.sum(gradient * v)),
            max(float(xp.sum(xp.abs(gradient * v))), abs(exact), 1e-6),
        )
        assert abs(ours - exact) <= TOLERANCE * scale, (
            f"{case}: argument {position}: vjp {ours!r}, complex step {exact!r}"
        )
