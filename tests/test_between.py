"""Between the paper's core and the released one: both ends are what they are called,
and what is between them can be trained.
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
    ours, theirs = (
        between.Between(*SIZES, dtype=np.float64, seed=7),
        PaperRelationalMemory(*SIZES, dtype=np.float64, seed=7),
    )
    np.testing.assert_array_equal(outputs(ours, inputs), outputs(theirs, inputs))


def test_with_all_rows_as_released_it_is_the_released_core(inputs):
    ours, theirs = (
        between.Between(*SIZES, released=between.ROWS, dtype=np.float64),
        RelationalMemory(*SIZES, dtype=np.float64),
    )
    rng, (block,), F, H = np.random.default_rng(5), theirs.blocks, 8, 2
    for each in theirs.parameters():
        each.data[...] = rng.normal(size=each.shape) / 2

    def by_kind(
        values,
    ):  # the released layout is head by head, q, k and v of each side by side
        return np.moveaxis(
            values.reshape(*values.shape[:-1], H, 3, 4), -2, -3
        )  # (..., 3, H, 4)

    for mine, other in zip(
        ours.input_projection.parameters(),
        theirs.input_projection.parameters(),
        strict=True,
    ):
        mine.data[...] = other.data
    for weight, kind in zip((ours.W_q, ours.W_k, ours.W_v), range(3), strict=True):
        weight.data[...] = np.moveaxis(
            by_kind(block["qkv"].weight.data)[:, kind], 0, 1
        )  # (H, F, 4)
    ours.qkv_bias.data[...] = by_kind(block["qkv"].bias.data).ravel()
    for norm in ("gain", "offset"):
        getattr(ours.qkv_norm, norm).data[...] = by_kind(
            getattr(block["qkv_norm"], norm).data
        ).ravel()
        for mine, other in (
            (ours.attention_norm, block["attention_norm"]),
            (ours.mlp_norm, block["mlp_norm"]),
        ):
            getattr(mine, norm).data[...] = getattr(other, norm).data
    for mine, other in zip(ours.mlp, theirs.mlp, strict=True):
        mine.weight.data[...], mine.bias.data[...] = other.weight.data, other.bias.data
    for gate, part in (("i", slice(F)), ("f", slice(F, None))):
        getattr(ours, f"W_{gate}").data[...] = theirs.gate_inputs.weight.data[:, part]
        getattr(ours, f"U_{gate}").data[...] = theirs.gate_memory.weight.data[:, part]
        getattr(ours, f"b_{gate}").data[...] = (
            theirs.gate_inputs.bias.data + theirs.gate_memory.bias.data
        )[part]
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
    assert (
        found["all as released"] == between.ROWS and found["all as in the paper"] == ()
    )
    assert (
        found["as in the paper but for: output"] == ("output",)
        and "output" not in found["as released but for: output"]
    )


def test_with_no_row_as_released_it_is_the_run_of_the_papers_core():
    preset = between.nth_farthest.Task.presets["quick"][1]
    config = dataclasses.replace(
        preset, model=dataclasses.replace(preset.model, core="rmc_paper")
    )
    ours, theirs = (
        kind(config).build(np.random.SeedSequence(3))
        for kind in (between.Task, between.nth_farthest.Task)
    )
    for (name, mine), (same, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert name == same
        np.testing.assert_array_equal(mine.data, other.data)


def test_some_steps_of_training():
    found = between.train(("q, k, v",), steps=2, seed=0)
    assert (
        found["released"] == ["q, k, v"]
        and found["rung"] == 0
        and 0 <= found["test_accuracy"] <= 1
    )
