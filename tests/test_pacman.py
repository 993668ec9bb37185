"""MiniPacman: the maze, the rules against pacmanreference.py, what is seen."""

import itertools

import numpy as np
import pacmanreference as reference
import pytest
from fakecupy import cupy, device, no_sync, only

from tinyrmc.environments import maze
from tinyrmc.environments.pacman import (
    FLOOR,
    FOOD,
    GHOST,
    GHOSTS,
    MODES,
    PACMAN,
    PILL,
    POWER,
    WALL,
    MiniPacman,
)
from tinyrmc.environments.world import WorldError

# by code: wall, floor, food, pill, ghost without power, Pacman
COLOURS = np.array(
    [
        reference.WALL,
        reference.FLOOR,
        reference.FOOD,
        reference.PILL,
        (1, 0, 0),
        reference.PACMAN,
    ],
    float,
)


def picture(seen):
    """The colours, from 0 to 1, that an observation stands for."""
    image = COLOURS[seen["view"]]
    image[..., 1] += (seen["view"] == GHOST) * (seen["power"] / POWER)[:, None, None]
    return image


def check_against_reference(mode, levels, steps, seed, random_share=1.0, **arguments):
    """Play both, step for step; returns what happened, to see that much did."""
    rng = np.random.default_rng(seed)
    world = MiniPacman(mode, **arguments)
    games = [
        reference.Game(mode, world.limit, world.level_limit) for _ in range(levels)
    ]
    start = rng.random((levels, world.start_noise), np.float32)
    noise = rng.random((steps + 1, levels, world.noise), np.float32)
    state = world.start(start)
    for game, u in zip(games, start, strict=True):
        game.start(u)
    happened = {"died": 0, "out of time": 0, "level": 0}
    for now, later in itertools.pairwise(noise):
        actions = np.where(
            rng.random(levels) < random_share,
            rng.integers(0, 5, levels),
            world.scripted(state),
        )
        result = world.step(state, actions, now, keep_final=True)
        told = [
            game.step(int(action), u, v[GHOSTS:])
            for game, action, u, v in zip(games, actions, now, later, strict=True)
        ]
        reward, died, late = map(np.array, zip(*told, strict=True))
        np.testing.assert_allclose(result.reward, reward, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(result.terminated, died)
        np.testing.assert_array_equal(result.truncated, late)
        images = np.array([game.picture(world.view == "whole") for game in games])
        np.testing.assert_array_equal(picture(world.observe(result.final)), images)
        happened["died"] += died.sum()
        happened["out of time"] += late.sum()
        happened["level"] = max(happened["level"], *(game.level for game in games))
        for k in np.flatnonzero(died | late):
            games[k].start(now[k, GHOSTS:])
        if (died | late).any():
            images = np.array([game.picture(world.view == "whole") for game in games])
            np.testing.assert_array_equal(picture(world.observe(state)), images)
    return happened


@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_that_of_the_reference(mode):
    happened = check_against_reference(mode, 30, 700, seed=1, limit=150)
    print(happened)
