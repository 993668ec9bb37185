"""Arrays that leave or enter, whatever their layout in memory: other programs read the
raw bytes, as safetensors does.
"""

import copy
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tinyrmc
from tinyrmc import Parameter, Tape, nn, optim, primitives
from tinyrmc.backend import to_host
from tinyrmc.training.trainer import _on_host

LAYOUTS = {  # the same values, laid out in another way
    "C": lambda x: x,
    "Fortran": lambda x: np.asarray(x, order="F"),
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "backwards": lambda x: np.flip(np.flip(x).copy()) if x.ndim else x,
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape) if x.size else x,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


class Holder(nn.Module):
    def __init__(self, value):
        self.weight = Parameter(value)
        self.drawn = nn.Constant(value, True)


def saved(folder, way, module):
    """The arrays of a module, after a way through a file."""
    if way == "npz":
        np.savez(folder / "x.npz", **module.arrays())
        return dict(np.load(folder / "x.npz"))
    if way == "torch":
        torch = pytest.importorskip("torch")
        return {k: torch.from_numpy(x).numpy() for k, x in module.arrays().items()}
    tensors = pytest.importorskip("safetensors.numpy")
    tensors.save_file(module.arrays(), folder / "x.safetensors")
    return tensors.load_file(folder / "x.safetensors")


@pytest.mark.parametrize("way", ["npz", "safetensors", "torch"])
def test_arrays_come_back_from_every_file(way, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")

    @given(
        hnp.arrays(
            st.sampled_from([np.float32, np.float64]),
            hnp.array_shapes(min_dims=0, max_dims=4, max_side=4),
            elements=st.integers(-99, 99),
        ),
        st.sampled_from([*LAYOUTS]),
    )
    def check(values, layout):
        if layout == "broadcast" and not values.ndim:
            return
        value = LAYOUTS[layout](values)
        module = Holder(value)
        own = module.weight.data
        assert own.flags.c_contiguous and own.dtype.isnative
        assert module.drawn.value.flags.c_contiguous
        for found in module.arrays(), saved(folder, way, module):
            np.testing.assert_array_equal(found["weight"], value)
        other = Holder(np.zeros(value.shape, own.dtype))
        entering = {"weight": LAYOUTS["C" if not value.ndim else layout](value)}
        other.load_parameters(entering)
        np.testing.assert_array_equal(saved(folder, way, other)["weight"], value)

    check()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_else_leaves_is_in_c_order(layout, xp):
    if layout == "big-endian" and xp is not np:
        return
    value = xp.asarray(LAYOUTS[layout](np.arange(12.0).reshape(3, 4) / 3))
    with Tape() as tape:
        x = tape.watch(value)
        loss = primitives.sum(primitives.transpose(x) @ x)
    found = tape.gradient(loss, x)
    assert found.flags.c_contiguous and x.data.flags.c_contiguous
    with Tape() as tape:
        x = tape.watch(value)
        loss = primitives.sum(primitives.transpose(x) * xp.ones((4, 3)))
    assert tape.gradient(loss, x).flags.c_contiguous
    module = Holder(to_host(value)).to(xp).astype(np.float64)
    module.weight.data = xp.asarray(np.asfortranarray(np.ones((3, 4))))
    other = copy.deepcopy(module)
    other.weight.bind(*(xp.asarray(np.ones((4, 3))).T for _ in range(2)))
    sgd = optim.SGD(module.parameters())
    for arrays in module.arrays(), sgd.state(), other.arrays():
        assert all(x.flags.c_contiguous for x in arrays.values())
    assert other.astype(np.float32).weight.data.flags.c_contiguous
    kept = _on_host(carry={"state": primitives.transpose(value).data, "whole": value})
    assert all(x.flags.c_contiguous for x in kept.values())
    np.testing.assert_array_equal(kept["carry/state"].T, to_host(value))


def test_a_module_s_own_file_keeps_a_transposed_weight(tmp_path):
    layer = nn.Linear(3, 4, seed=0)
    layer.weight = Parameter(np.arange(12, dtype=np.float32).reshape(4, 3).T)
    tinyrmc.save(layer, tmp_path / "layer.npz")
    again = tinyrmc.load(tmp_path / "layer.npz")
    np.testing.assert_array_equal(again.arrays()["weight"], layer.weight.data)


def test_a_constant_is_a_copy():
    """Its owner may go on with the array."""
    value = np.ones((2, 3))
    constant = nn.Constant(value)
    value[...] = 5
    assert (constant.on(np, np.float32) == 1).all()
    assert functools.reduce(np.add, constant.value.ravel()) == 6
