"""An agent's parts fit together, whichever are chosen."""

import itertools
import typing

import numpy as np
from turns import in_turn

from tinyrmc import Tape
from tinyrmc import primitives as p
from tinyrmc.cores import registry
from tinyrmc.cores.agent import Agent, AgentConfig, coordinates

ENCODERS = typing.get_args(typing.get_type_hints(AgentConfig)["encoder"])
CORES = registry.names("maps")
B, T, PICTURE, NUMBERS, ACTIONS = 2, 3, (5, 4, 3), 6, 4


def chosen():
    """Every combination that there can be."""
    for core, encoder, skip in itertools.product(CORES, ENCODERS, (False, True)):
        if core != "conv_lstm" or encoder == "conv":  # else there are no maps
            yield core, encoder, skip


@in_turn("core, encoder, skip", [*chosen()])
def test_whatever_looks_and_remembers_acts_and_learns(core, encoder, skip):
    config = AgentConfig(
        core, mem_slots=2, head_size=4, num_heads=2, hidden_size=8, features=8,
        encoder=encoder, skip=skip,
    )  # fmt: skip
    agent = Agent(config, PICTURE, NUMBERS, ACTIONS, seed=0)
    rng = np.random.default_rng(0)
    pictures = rng.random((B, T, *PICTURE), np.float32)
    numbers = rng.random((B, T, NUMBERS), np.float32)
    with Tape() as tape:
        logits, values, _ = agent(pictures, numbers, agent.initial_state(B))
        loss = p.sum(p.square(logits)) + p.sum(p.square(values))
    assert logits.shape == (B, T, ACTIONS) and values.shape == (B, T)
    tape.backward(loss)
    places = agent.places and agent.places.input_projection
    looks = agent.encoder or places or agent.convolutions[0]
    assert np.abs(looks.weight.grad).max() > 0


@in_turn("core, encoder", [("conv_lstm", "conv"), ("lstm", "linear")])
def test_with_skip_policy_and_value_see_past_the_core(core, encoder):
    """A core that says nothing lets nothing through without it."""
    apart = {}
    for skip in (False, True):
        config = AgentConfig(core, encoder=encoder, skip=skip, hidden_size=8)
        agent = Agent(config, PICTURE, NUMBERS, ACTIONS, seed=0)
        agent.hidden.weight.data[: agent.core.output_size] = 0
        pictures = np.random.default_rng(1).random((2, 1, *PICTURE), np.float32)
        numbers = np.zeros((2, 1, NUMBERS), np.float32)
        logits, _, _ = agent(pictures, numbers, agent.initial_state(2))
        apart[skip] = np.abs(logits.data[0] - logits.data[1]).max()
    assert apart[False] == 0 < apart[True]


def test_attention_reads_places_in_any_order():
    config = AgentConfig("lstm", encoder="attention", coordinates=False, rounds=2)
    agent, rng = (
        Agent(config, (7, 1, 3), NUMBERS, ACTIONS, seed=0),
        np.random.default_rng(2),
    )
    pictures = rng.random((B, T, 7, 1, 3), np.float32)
    numbers = rng.random((B, T, NUMBERS), np.float32)
    read = agent.encode(pictures, numbers).data
    shuffled = agent.encode(pictures[:, :, rng.permutation(7)], numbers).data
    np.testing.assert_allclose(read, shuffled, atol=1e-5)
    pictures[0, 0, 3] += 1
    assert (np.abs(agent.encode(pictures, numbers).data - read) > 1e-3)[0, 0].any()


def test_at_first_every_action_is_about_as_likely_and_values_are_small():
    rng = np.random.default_rng(0)
    agent = Agent(AgentConfig("lstm", features=32), PICTURE, NUMBERS, ACTIONS, seed=0)
    pictures = rng.random((50, T, *PICTURE), np.float32)
    numbers = rng.random((50, T, NUMBERS), np.float32)
    logits, values, _ = agent(pictures, numbers, agent.initial_state(50))
    assert 0 < np.abs(logits.data).max() < 0.03 and np.abs(values.data).max() < 0.03


def test_every_place_of_a_map_knows_its_row_and_its_column():
    places = coordinates(p.Tensor(np.zeros((2, 3, 2, 7), np.float32)))
    by_hand = [[[-1, -1], [-1, 1]], [[0, -1], [0, 1]], [[1, -1], [1, 1]]]
    assert places.tolist() == [by_hand] * 2
