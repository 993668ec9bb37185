"""Players of MiniPacman who know less of it: each knows what it should."""

import json

import numpy as np
import pacman_players
import pytest
import report

from tinyrmc.environments import maze
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
    assert (goals == np.where(reached, maze.CELLS // 2, 7)).all()
    np.testing.assert_array_equal(mind["board"][~lost], before[~lost])
    rows, places = np.nonzero(mind["board"] != before)
    assert rows.tolist() == np.flatnonzero(lost).tolist()
    assert (places == WORLD.constants["place"][goals[lost]]).all()


def test_a_memory_of_food_saves_steps():
    told = [
        pacman_players.play(False, food, ahead=False, games=64)
        for food in (True, False)
    ]
    (remembers, _), (forgets, _) = (x["score after 300 steps"] for x in told)
    assert remembers > forgets + 20
    assert all(x["score after 300 steps"][0] < 0.7 * x["score"][0] for x in told)
    lines = report.markdown({"players": json.loads(json.dumps(told))}).splitlines()
    assert lines[0].startswith("| a script that knows the ghosts | and the food |")
    row = f"| in the window | all | no | 64 | {remembers:.1f} ± "
    assert lines[2].startswith(row)


def test_looking_ahead_goes_where_more_food_is_and_shuns_the_ghost(games):
    """In an empty maze: six steps before the game ends, one, and ten."""
    state = {name: x[:3].copy() for name, x in games.items()}
    pacman = maze.NUMBER[3, 8]
    board = np.full((3, maze.CELLS), FLOOR, np.uint8)
    board[0, [pacman - 1, *range(pacman + 2, pacman + 9)]] = FOOD
    board[1, pacman + 1] = FOOD  # which a fast ghost reaches at the same time
    board[2, maze.NUMBER[13, 9]] = FOOD  # too far
    state["board"][:, WORLD.constants["place"][: maze.CELLS]] = board
    state["ghosts"][:] = maze.GONE
    left = maze.FIRST + maze.MOVES.index((0, -1))
    state["ghosts"][1, 0] = (pacman + 2) * maze.DIRECTIONS + left
    state |= {"pacman": 0 * state["pacman"] + pacman, "power": 0 * state["power"]}
    state |= {"food": 0 * state["food"] + 50, "level": np.array([1, 9, 1], np.int32)}
    state["frame"] = WORLD.limit - np.array([6, 1, 10], np.int32)
    taken = pacman_players.look_ahead(WORLD, state, np.random.default_rng(6))
    names = np.array(WORLD.action_names)
    script = WORLD.scripted(state)
    assert names[script[0]] == "left" and names[script[2]] != "stay"
    assert taken[2] == script[2]
    assert names[taken[0]] == "right" and names[taken[1]] != "right"
