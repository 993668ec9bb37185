"""What a memory is worth in MiniPacman: players know what they are said to know."""

import json

import numpy as np
import pacman_players
import pytest
import report

from tinyrmc.environments.maze import CELLS
from tinyrmc.environments.pacman import FLOOR, FOOD, GHOST, PILL, MiniPacman

WORLD, WHOLE = MiniPacman(), MiniPacman(view="whole")


@pytest.fixture
def games():
    """200 games that have gone on for 60 steps."""
    rng = np.random.default_rng(5)
    state = WORLD.start(rng.random((200, WORLD.start_noise), np.float32))
    for _ in range(60):
        noise = rng.random((200, WORLD.noise), np.float32)
        WORLD.step(state, WORLD.scripted(state), noise)
    return state


@pytest.mark.parametrize("all_ghosts", [True, False])
@pytest.mark.parametrize("all_food", [True, False])
def test_a_player_knows_what_lies_in_the_window_and_what_it_is_told(
    games, all_ghosts, all_food
):
    before = {name: x.copy() for name, x in games.items()}
    mind = pacman_players.known(WORLD, games, all_ghosts, all_food)
    near = WORLD.observe(mind)["view"], WORLD.observe(games)["view"]
    np.testing.assert_array_equal(*near)
    for told, *things in (all_ghosts, GHOST), (all_food, FOOD, PILL):
        there, known, beside = (
            np.isin(each, things).sum(axis=(1, 2))
            for each in (
                WHOLE.observe(games)["view"],
                WHOLE.observe(mind)["view"],
                near[0],
            )
        )
        if told and all_ghosts == all_food:  # ghosts hide food
            assert (known == there).all() and (known > beside).any()
        elif not told:
            assert (known == beside).all() and (known < there).any()
    for name, x in games.items():
        np.testing.assert_array_equal(x, before[name])


def test_it_walks_to_a_cell_where_it_knows_of_no_food(games):
    mind = pacman_players.known(WORLD, games, True, True)
    lost = np.arange(200) % 2 == 0
    mind["board"][lost] = FLOOR
    before = mind["board"].copy()
    goals = np.where(np.arange(200) % 4 < 2, mind["pacman"], 7)
    pacman_players.walk(WORLD, mind, goals, np.full(200, 0.5))
    reached = (np.arange(200) % 4 < 2) | (mind["pacman"] == 7)
    assert (goals == np.where(reached, CELLS // 2, 7)).all()
    np.testing.assert_array_equal(mind["board"][~lost], before[~lost])
    rows, places = np.nonzero(mind["board"] != before)
    assert rows.tolist() == np.flatnonzero(lost).tolist()
    assert (places == WORLD.constants["place"][goals[lost]]).all()


def test_a_memory_of_food_saves_steps():
    told = [pacman_players.play(False, food, games=64) for food in (True, False)]
    (remembers, _), (forgets, _) = (x["score after 300 steps"] for x in told)
    assert remembers > forgets + 20
    found = {"players": json.loads(json.dumps(told))}
    lines = report.markdown(found).splitlines()
    assert lines[0].startswith("| a script that knows the ghosts | and the food |")
    assert lines[2].startswith(f"| in the window | all | {remembers:.1f} ± ")
