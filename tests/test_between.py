"""Between the paper's core and the released one: both ends are what their names say,
and what is between them trains.
"""

import dataclasses

import between
import numpy as np
import pytest

from tinyrmc import PaperRelationalMemory, RelationalMemory

SIZES = (5, 3, 4, 2)  # input_size, slots, head size, heads


def outputs(core, inputs):
    state, found = core.initial_state(inputs.shape[1]), []
    for x in inputs:
        output, state = core(x, state)
        found.append(output.data)
    return np.stack(found)


@pytest.fixture
def inputs():
    return np.random.default_rng(3).normal(size=(4, 2, 5))  # (T, B, input_size)


def test_with_no_row_as_released_it_is_the_papers_core(inputs):
    ours = between.Between(*SIZES, dtype=np.float64, seed=7)
    theirs = PaperRelationalMemory(*SIZES, dtype=np.float64, seed=7)
    np.testing.assert_array_equal(outputs(ours, inputs), outputs(theirs, inputs))


def copy(mine, other):
    """Give the parameters of a module the values of another one's."""
    for to, parameter in zip(mine.parameters(), other.parameters(), strict=True):
        to.data[...] = parameter.data


def copy_attention(ours, block):
    """The released layout is head by head, with q, k and v of each side by side."""
    qkv = block["qkv"].weight.data.reshape(8, 2, 3, 4)  # (F, H, 3, V)
    for kind, weight in enumerate((ours.W_q, ours.W_k, ours.W_v)):
        weight.data[...] = np.moveaxis(qkv[:, :, kind], 0, 1)  # (H, F, V)
    ours.qkv_bias.data[...] = block["qkv"].bias.data
    for norm in ("qkv_norm", "attention_norm", "mlp_norm"):
        copy(getattr(ours, norm), block[norm])


def copy_gates(ours, theirs):
    """The released layout has the input gate and the forget gate side by side."""
    F = 8
    x, m = theirs.gate_inputs, theirs.gate_memory
    bias = x.bias.data + m.bias.data
    ours.W_i.data[...], ours.W_f.data[...] = x.weight.data[:, :F], x.weight.data[:, F:]
    ours.U_i.data[...], ours.U_f.data[...] = m.weight.data[:, :F], m.weight.data[:, F:]
    ours.b_i.data[...], ours.b_f.data[...] = bias[:F], bias[F:]


def test_with_all_rows_as_released_it_is_the_released_core(inputs):
    ours = between.Between(*SIZES, released=between.ROWS, dtype=np.float64)
    theirs = RelationalMemory(*SIZES, dtype=np.float64)
    rng = np.random.default_rng(5)
    for parameter in theirs.parameters():
        parameter.data[...] = rng.normal(size=parameter.shape) / 2
    copy(ours.input_projection, theirs.input_projection)
    (block,) = theirs.blocks
    copy_attention(ours, block)
    for mine, other in zip(ours.mlp, theirs.mlp, strict=True):
        copy(mine, other)
    copy_gates(ours, theirs)
    np.testing.assert_allclose(
        outputs(ours, inputs), outputs(theirs, inputs), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("row", between.ROWS)
def test_every_row_makes_a_difference(row, inputs):
    without = tuple(each for each in between.ROWS if each != row)
    whole, less = (
        between.Between(*SIZES, released=each, dtype=np.float64, seed=1)
        for each in (between.ROWS, without)
    )
    assert np.abs(outputs(whole, inputs) - outputs(less, inputs)).max() > 1e-3


def test_a_row_that_is_not_there_is_refused():
    with pytest.raises(
        ValueError,
        match="released: gate is no row of the table; there are first memory, q, k, v, "
        "residual, norm",
    ):
        between.Between(*SIZES, released=("gate",))


def test_both_ends_and_every_single_row_are_trained():
    found = between.combinations()
    assert len(found) == len({*found.values()}) == 2 + 2 * len(between.ROWS)
    assert found["all as released"] == between.ROWS
    assert found["all as in the paper"] == ()
    assert found["as in the paper but for: output"] == ("output",)
    assert "output" not in found["as released but for: output"]


def test_with_no_row_as_released_it_is_the_run_of_the_papers_core():
    preset = between.nth_farthest.Task.presets["quick"][1]
    model = dataclasses.replace(preset.model, core="rmc_paper")
    config = dataclasses.replace(preset, model=model)
    ours, theirs = (
        dict(kind(config).build(np.random.SeedSequence(3)).named_parameters())
        for kind in (between.Task, between.nth_farthest.Task)
    )
    assert list(ours) == list(theirs)
    for name, parameter in ours.items():
        np.testing.assert_array_equal(parameter.data, theirs[name].data)


def test_some_steps_of_training():
    found = between.train(("q, k, v",), steps=2, seed=0)
    assert found["released"] == ["q, k, v"] and found["rung"] == 0
    assert 0 <= found["test_accuracy"] <= 1
