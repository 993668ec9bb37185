"""Layers against NumPy, and the naming, copying and loading of their parameters."""

import inspect
import itertools
import math

import numpy as np
import pytest
from samplers import overlap

from tinyrmc import Parameter, Tape, Tensor, cores, gradcheck, nn, primitives
from tinyrmc.backend import to_host
from tinyrmc.cores.agent import Agent
from tinyrmc.cores.memn2n import MemN2N, TextMemN2N
from tinyrmc.optim import SGD


def normal(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# --- starting values and checks -------------------------------------------------------


def test_truncated_normal_has_the_moments_of_a_normal_cut_at_two():
    values = nn.truncated_normal(np.random.default_rng(0), (400, 500), 0.5, np.float64)
    density, inside = math.exp(-2) / math.sqrt(2 * math.pi), math.erf(2 / math.sqrt(2))
    std = math.sqrt(1 - 4 * density / inside)  # 0.8796
    assert np.abs(values).max() <= 1.0
    assert np.abs(values).max() > 0.999  # cut there and not before
    assert values.mean() == pytest.approx(0, abs=0.005)
    assert values.std() == pytest.approx(0.5 * std, rel=0.005)
    for edge in (0.25, 0.5, 0.75):  # and its shape: redrawn, not clipped or folded
        expected = math.erf(edge / 0.5 / math.sqrt(2)) / inside
        assert np.mean(np.abs(values) < edge) == pytest.approx(expected, abs=0.005)


def test_starting_values_follow_their_generator():
    one, same, other = (
        nn.truncated_normal(np.random.default_rng(seed), (3, 4), 1.0)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.dtype == np.float32
    rng = np.random.default_rng(0)
    first, second = nn.Linear(4, 4, seed=rng), nn.Linear(4, 4, seed=rng)
    mlp = nn.MLP(4, [4, 4], seed=0)
    assert not np.array_equal(first.weight.data, second.weight.data)
    assert not np.array_equal(mlp.layers[0].weight.data, mlp.layers[1].weight.data)
    np.testing.assert_array_equal(mlp.layers[0].weight.data, first.weight.data)


def test_sizes_and_dtypes_are_checked():
    for size in 1, 7, np.int64(3):
        nn.Linear(size, size, seed=0)
    for bad in 0, -1, 1.5, True, False, None, "3", np.float64(2):
        for make in (
            lambda: nn.Linear(bad, 3, seed=0),
            lambda: nn.Linear(3, bad, seed=0),
            lambda: nn.LayerNorm(bad),
            lambda: nn.MLP(3, [4, bad], seed=0),
            lambda: nn.Embedding(4, bad, seed=0),
            lambda: nn.Embedding(bad, 4, seed=0),
        ):
            with pytest.raises(ValueError, match="an integer of at least 1, not"):
                make()
    assert nn.check_dtype("Thing", "float32") == np.float32
    assert nn.check_dtype("Thing", complex) == np.complex128
    for bad in int, bool, np.uint8, np.float16, None:
        for make in (
            lambda: nn.LayerNorm(1024, bad),
            lambda: nn.Linear(2, 3, dtype=bad, seed=0),
            lambda: nn.MLP(2, [3], dtype=bad, seed=0),
            lambda: nn.Linear(2, 3, seed=0).astype(bad),
        ):
            with pytest.raises(TypeError, match="dtype must be floating point of 32"):
                make()


# --- layers ---------------------------------------------------------------------------


def test_linear(xp):
    for leading, bias, relu in itertools.product(
        ((4,), (2, 3), (2, 3, 2)), (False, True), (False, True)
    ):
        layer = nn.Linear(5, 6, bias=bias, relu=relu, dtype=np.float64, seed=0)
        names = [name for name, _ in layer.named_parameters()]
        assert names == ["weight", "bias"][: 1 + bias]
        x = normal(*leading, 5, seed=2)
        expected = np.einsum("...i,io->...o", x, layer.weight.data)
        if bias:
            layer.bias.data = normal(6, seed=1)
            expected = expected + layer.bias.data
        expected = np.where(expected > 0, expected, 0) if relu else expected
        gradcheck(layer, x, parameters=layer.parameters())
        found = to_host(layer.to(xp)(xp.asarray(x)).data)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("with_residual", [False, True])
def test_layer_norm_treats_each_row_by_itself(xp, with_residual):
    layer = nn.LayerNorm(6, np.float64)
    layer.gain.data, layer.offset.data = normal(6, seed=1), normal(6, seed=2)
    x, residual = normal(2, 3, 6, seed=3), normal(2, 3, 6, seed=4)
    expected = np.empty_like(x)
    for b, row in np.ndindex(2, 3):
        z = x[b, row] + (residual[b, row] if with_residual else 0)
        expected[b, row] = (z - z.mean()) / np.sqrt(
            z.var() + 1e-5
        ) * layer.gain.data + layer.offset.data
    arguments = (x, residual) if with_residual else (x,)
    gradcheck(layer, *arguments, parameters=layer.parameters())
    ours = to_host(layer.to(xp)(*map(xp.asarray, arguments)).data)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-13)
    assert [name for name, _ in layer.named_parameters()] == ["gain", "offset"]


def test_rms_norm_is_its_formula(xp):
    rng = np.random.default_rng(0)
    x, residual = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 3, 5))
    layer = nn.RMSNorm(5, epsilon=0.1, dtype=np.float64).to(xp)
    layer.gain.data = xp.asarray(rng.normal(size=5))
    for z, given in (x, (x,)), (x + residual, (x, residual)):
        expected = z / np.sqrt((z**2).mean(-1, keepdims=True) + 0.1)
        found = layer(*(xp.asarray(each) for each in given))
        expected = expected * to_host(layer.gain.data)
        np.testing.assert_allclose(to_host(found.data), expected, atol=1e-12)
    if xp is np:
        assert gradcheck(layer, x, residual) < 1e-12
    assert nn.RMSNorm(5).to(xp)(xp.ones((2, 5), np.float32)).dtype == np.float32


def attended(layer, x, others, may):
    """Attention row by row, head by head, from the layer's weights."""
    H, K = layer.num_heads, layer.key_size
    w = {name: to_host(value) for name, value in layer.arrays().items()}
    qkv, answers = [], []
    for rows in x, others:
        y = (rows @ w["qkv.weight"] + w["qkv.bias"]).reshape(*rows.shape[:2], H, -1)
        qkv.append((y[..., :K], y[..., K : 2 * K], y[..., 2 * K :]))
    for b in range(len(x)):
        for i in range(x.shape[1]):
            row = []
            for h in range(H):
                scores = [
                    qkv[0][0][b, i, h] @ qkv[1][1][b, j, h] / np.sqrt(K)
                    if may(b, h, i, j)
                    else -np.inf
                    for j in range(others.shape[1])
                ]
                shares = np.exp(scores) / np.exp(scores).sum()
                row.append(shares @ qkv[1][2][b, :, h])
            answers.append(np.concatenate(row) @ w["out.weight"] + w["out.bias"])
    return np.reshape(answers, (*x.shape[:2], -1))


def test_multi_head_attention_is_attention_row_by_row(xp):
    rng = np.random.default_rng(0)
    x, context = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 3, 6))
    masks = rng.random((2, 1, 4, 4)) < 0.7
    masks |= np.eye(4, dtype=bool)
    for more in {}, {"key_size": 5, "value_size": 2, "output_size": 7}:
        make = {**more, "dtype": np.float64, "seed": 1}
        layer = nn.MultiHeadAttention(6, 2, **make).to(xp)
        causal = nn.MultiHeadAttention(6, 2, causal=True, **make).to(xp)
        cases = [
            (layer, x, x, {}, lambda b, h, i, j: True),
            (layer, x, x, {"mask": masks}, lambda b, h, i, j: masks[b, 0, i, j]),
            (layer, x, context, {"context": context}, lambda b, h, i, j: True),
            (
                layer,
                x,
                context,
                {"context": context, "mask": masks[..., :3] | (np.arange(3) == 0)},
                lambda b, h, i, j: masks[b, 0, i, j] or j == 0,
            ),
            (causal, x, x, {}, lambda b, h, i, j: j <= i),
            (
                causal,
                x,
                x,
                {"mask": masks},
                lambda b, h, i, j: j <= i and masks[b, 0, i, j],
            ),
        ]
        for made, rows, others, given, may in cases:
            given = {name: xp.asarray(value) for name, value in given.items()}
            seen = {}
            found = made(xp.asarray(rows), **given, trace=seen)
            expected = attended(made, rows, others, may)
            np.testing.assert_allclose(to_host(found.data), expected, atol=1e-12)
            assert seen["attention"].shape[:3] == (2, 2, 4)
        if xp is np:
            assert gradcheck(layer, x) < 1e-10
            assert gradcheck(lambda a, b, f=layer: f(a, b), x, context) < 1e-10
    with pytest.raises(ValueError, match="causal is for rows of one text"):
        causal(x, context)


def test_sequential_has_a_length_and_an_order():
    layers = [nn.Linear(3, 4, seed=0), primitives.tanh, nn.Linear(4, 2, seed=1)]
    net, x = nn.Sequential(*layers), np.ones((2, 3), np.float32)
    assert len(net) == 3 and [*net] == layers and net[0] is net[-3] is layers[0]
    assert type(net[1:]) is nn.Sequential and [*net[1:]] == layers[1:]
    np.testing.assert_array_equal(net[1:](net[:1](x)).data, net(x).data)
    assert [*nn.MLP(3, [4, 2], seed=0)[:1].arrays()] == ["0.weight", "0.bias"]
    assert len(nn.Sequential()) == 0 and nn.Sequential()(x) is x
    with pytest.raises(IndexError):
        net[3]
    for wrong, says in (
        ((layers,), r"layer 0 is a list, which .* write Sequential\(\*layers\)"),
        ((tuple(layers),), r"layer 0 is a tuple, .* Sequential\(\*layers\)"),
        ((primitives.tanh, 3), "layer 1 is a int, which cannot be called"),
        ((None,), "layer 0 is a NoneType"),
        ((nn.Linear,), r"layer 0 is the class Linear; make one .*Linear\(\.\.\.\)"),
    ):
        with pytest.raises(TypeError, match=f"^Sequential: {says}"):
            nn.Sequential(*wrong)


def test_a_seed_is_asked_for_wherever_something_is_drawn():
    """Without one, two layers would be the same one."""
    kinds = [x for module in (nn, cores) for x in vars(module).values()]
    kinds = [x for x in kinds if isinstance(x, type) and issubclass(x, nn.Module)]
    drawn = 0
    for kind in {*kinds, Agent, MemN2N, TextMemN2N}:
        seed = inspect.signature(kind).parameters.get("seed")
        if seed is not None:
            drawn += 1
            assert seed.default is seed.empty and seed.kind is seed.KEYWORD_ONLY, kind
    assert drawn > 18
    for make in lambda: nn.Linear(2, 2), lambda: cores.GRU(2, 2):
        with pytest.raises(TypeError, match=r"missing 1 required .* argument: 'seed'"):
            make()
    shared = np.random.default_rng(0)
    one, other = nn.Linear(16, 16, seed=shared), nn.Linear(16, 16, seed=shared)
    assert not np.allclose(one.weight.data, other.weight.data)


def test_sequential_is_an_mlp_by_hand(xp):
    mlp = nn.MLP(3, [5, 2], dtype=np.float64, seed=1)
    rng = np.random.default_rng(1)
    one, two = (nn.Linear(*s, dtype=np.float64, seed=rng) for s in ((3, 5), (5, 2)))
    ours = nn.Sequential(one, primitives.relu, two)
    x = xp.asarray(normal(8, 3))
    np.testing.assert_allclose(
        to_host(ours.to(xp)(x).data), to_host(mlp.to(xp)(x).data), rtol=1e-14
    )
    assert [name for name, _ in ours.named_parameters()] == [
        *("0.weight", "0.bias", "2.weight", "2.bias")
    ]


@pytest.mark.parametrize("activate_final", [False, True])
def test_mlp(xp, activate_final):
    mlp = nn.MLP(3, [5, 4, 2], activate_final, dtype=np.float64, seed=1)
    assert [(name, p.shape) for name, p in mlp.named_parameters()] == [
        ("0.weight", (3, 5)),
        ("0.bias", (5,)),
        ("1.weight", (5, 4)),
        ("1.bias", (4,)),
        ("2.weight", (4, 2)),
        ("2.bias", (2,)),
    ]
    for k, layer in enumerate(mlp.layers):
        layer.bias.data = normal(*layer.bias.shape, seed=k)
    expected = x = normal(8, 3)
    for k, layer in enumerate(mlp.layers):
        expected = expected @ layer.weight.data + layer.bias.data
        if k < 2 or activate_final:
            expected = expected * (expected > 0)
    assert (expected < 0).any() != activate_final  # the sign shows the last ReLU
    gradcheck(mlp, x, parameters=mlp.parameters())
    np.testing.assert_allclose(
        to_host(mlp.to(xp)(xp.asarray(x)).data), expected, rtol=1e-12, atol=1e-14
    )


# --- modules --------------------------------------------------------------------------


class Nested(nn.Module):
    """Parameters in every place where they may be, one of them twice.

    They stand among things that are none.
    """

    def __init__(self):
        self.width, self.label, self.none = 3, "text", None
        self.scale = Parameter(np.ones(2, np.float32))
        self.table = {
            "up": nn.Linear(2, 3, seed=0),
            "list": [Parameter(np.zeros(1, np.float32)), {"deep": nn.LayerNorm(2)}],
        }
        self.pair = (nn.Linear(3, 1, bias=False, seed=0), nn.MLP(2, [2], seed=0))
        self.constant = Tensor(np.ones(3, np.float32))
        self.tied = self.table["up"].weight
        self.again = self.table["up"]


NAMES = [
    "scale",
    "table.up.weight",
    "table.up.bias",
    "table.list.0",
    "table.list.1.deep.gain",
    "table.list.1.deep.offset",
    "pair.0.weight",
]
NAMES += ["pair.1.0.weight", "pair.1.0.bias"]


def test_names_are_the_paths_in_order_and_tied_parameters_appear_once():
    module = Nested()
    assert [name for name, _ in module.named_parameters()] == NAMES
    parameters = module.parameters()
    assert len({p.id for p in parameters}) == len(parameters) == len(NAMES)
    assert module.num_parameters == 2 + 6 + 3 + 1 + 2 + 2 + 3 + 4 + 2


def test_tied_parameters_collect_both_gradients_and_stay_tied_in_copies(xp):
    module = Nested().to(xp)
    with Tape() as tape:
        loss = primitives.sum(module.tied) + 2 * primitives.sum(
            module.table["up"].weight
        )
    tape.backward(loss)
    assert module.tied is module.table["up"].weight
    assert module.tied.grad.tolist() == [[3.0] * 3] * 2
    copy = module.astype(np.float64)
    assert [name for name, _ in copy.named_parameters()] == NAMES
    assert copy.tied is copy.table["up"].weight is copy.again.weight
    assert copy.tied is not module.tied


def test_moving_a_module_keeps_its_values_and_comes_back(xp):
    module, host = Nested(), {name: p.data for name, p in Nested().named_parameters()}
    assert module.to(xp) is module
    parameters = module.parameters()
    assert {type(a) for p in parameters for a in (p.data, p.grad)} == {xp.ndarray}
    module.to(np)
    for name, parameter in module.named_parameters():
        np.testing.assert_array_equal(parameter.data, host[name], strict=True)
    assert module.tied is module.table["up"].weight


def test_astype_converts_values_and_gradients_and_shares_nothing(xp):
    module = Nested().to(xp)
    SGD(module.parameters())  # whose flat buffer the copy must leave
    for parameter in module.parameters():
        parameter.grad[...] = 2
    copy = module.astype(np.complex128)
    for p, q in zip(module.parameters(), copy.parameters(), strict=True):
        assert q.dtype == q.grad.dtype == np.complex128 and p.dtype == np.float32
        assert type(q.data) is type(q.grad) is xp.ndarray
        np.testing.assert_array_equal(to_host(q.data), to_host(p.data))
        assert not q.grad.any()  # a copy starts with a clean gradient
        assert not overlap(p.data, q.data) and not overlap(p.grad, q.grad)
    with pytest.raises(TypeError, match="Nested: dtype must be floating point"):
        module.astype(np.int32)


def test_load_parameters_goes_into_the_memory_that_is_there(xp):
    module, source = Nested().to(xp), {}  # the arrays of a file are on the host
    optimizer = SGD(module.parameters())
    for k, (name, parameter) in enumerate(module.named_parameters()):
        # float64: converted on the way
        source[name] = np.full(parameter.shape, k + 1.0)
    module.load_parameters(source)
    for name, parameter in module.named_parameters():
        np.testing.assert_array_equal(to_host(parameter.data), source[name])
        assert parameter.dtype == np.float32
    np.testing.assert_array_equal(
        to_host(optimizer.packed(optimizer.data)),
        np.concatenate([source[name].ravel() for name in NAMES]),
    )


def broken(change):
    arrays = {
        name: np.full(p.shape, 5, np.float32) for name, p in Nested().named_parameters()
    }
    change(arrays)
    return arrays


def test_load_parameters_names_all_problems_and_changes_nothing(xp):
    module = Nested().to(xp)
    before = [p.data.copy() for p in module.parameters()]
    missing = "is missing from the arrays"
    for change, message in (
        (lambda a: a.pop("pair.0.weight"), f"'pair.0.weight' {missing}"),
        (lambda a: a.update(extra=np.ones(1)), "'extra' is unknown"),
        (
            lambda a: a.update({"pair.1.0.bias": np.ones(3)}),
            "'pair.1.0.bias' has shape (2,), the array (3,)",
        ),
        # all of them, in order
        (
            lambda a: (a.pop("table.list.0"), a.pop("scale"), a.update(b=1, c=2)),
            f"'scale' {missing}; 'table.list.0' {missing}; 'b' is unknown; "
            "'c' is unknown",
        ),
        (
            lambda a: a.update(scale=np.ones(2, complex)),
            "'scale' is float32, the array complex128",
        ),
        (
            lambda a: a.update(scale=np.array(["1", "2"])),
            "'scale' is float32, the array <U1",
        ),
        (
            lambda a: a.update(scale=np.array([1e300, 0])),
            "'scale' is float32, too small for a number",
        ),
    ):
        with pytest.raises(ValueError) as error:
            module.load_parameters(broken(change))
        assert str(error.value) == f"parameter {message}"
    masked = np.ma.masked_array(np.ones(2, np.float32), mask=[0, 1])
    with pytest.raises(TypeError, match="MaskedArray is an array with rules"):
        module.load_parameters(broken(lambda a: a.update(scale=masked)))
    for parameter, data in zip(module.parameters(), before, strict=True):
        np.testing.assert_array_equal(to_host(parameter.data), to_host(data))
