"""MiniPacman: the rules against pacmanreference.py, what is seen, what one scores."""

import numpy as np
import pacmanreference as reference
import pytest
from fakecupy import cupy, device, no_sync, only

from tinyrmc.environments import maze
from tinyrmc.environments.pacman import GHOST, GHOSTS, POWER, MiniPacman

# of wall, floor, food, pill, a ghost without power, and Pacman
SHOWN = reference.WALL, reference.FLOOR, reference.FOOD, reference.PILL
COLOURS = np.array([*SHOWN, (1, 0, 0), reference.PACMAN], float)


def picture(seen):
    """The colours, from 0 to 1, that an observation stands for."""
    image = COLOURS[seen["view"]]
    image[..., 1] += (seen["view"] == GHOST) * (seen["power"] / POWER)[:, None, None]
    return image


def numbers(world, rng, levels, steps):
    """Random numbers for a start and for some steps."""
    start = rng.random((levels, world.start_noise), np.float32)
    return start, rng.random((steps, levels, world.noise), np.float32)


# --- Step for step --------------------------------------------------------------------


def compare(world, levels, steps, player, alike=(), first=1):
    """Play in the world and in as many games of the reference, step for step.

    player: (state, rng) -> actions. alike: which of the numbers of a level are equal to
    its first, the one of a pill. first: the levels with which games begin, from 1 to
    this. Returns what happened, to see that much did.
    """
    rng = np.random.default_rng(7)
    start, noise = numbers(world, rng, levels, steps)
    for k in alike:
        start[:, k], noise[..., GHOSTS + k] = start[:, 0], noise[..., GHOSTS]
    games = [reference.Game(world.limit) for _ in start]
    numbered = np.linspace(1, first, levels).astype(np.int32)
    state = world.start(start) | world._level(start, numbered)
    for game, u, level in zip(games, start, numbered, strict=True):
        game.start(u, int(level))

    def same_pictures(state):
        images = [game.picture(world.view == "whole") for game in games]
        np.testing.assert_array_equal(picture(world.observe(state)), images)

    same_pictures(state)
    happened = {"died": 0, "late": 0, "level": 1, "rewards": set()}
    for now in noise:
        actions = player(state, rng)
        result = world.step(state, actions, now, keep_final=True)
        told = [
            game.step(int(action), u)
            for game, action, u in zip(games, actions, now, strict=True)
        ]
        reward, died, late = map(np.array, zip(*told, strict=True))
        np.testing.assert_array_equal(result.reward, reward)
        np.testing.assert_array_equal(result.terminated, died)
        np.testing.assert_array_equal(result.truncated, late)
        same_pictures(result.final)
        happened["died"] += int(died.sum())
        happened["late"] += int(late.sum())
        happened["level"] = max(happened["level"], *(game.level for game in games))
        happened["rewards"] |= set(reward.round(3).tolist())
        for k in np.flatnonzero(result.ended):
            games[k].start(now[k, GHOSTS:])
        if result.ended.any():
            same_pictures(state)
    return happened


def random_player(state, rng):
    return rng.integers(0, 5, len(state["pacman"]))


@pytest.mark.parametrize(
    "levels, steps", [(10, 100), pytest.param(40, 500, marks=pytest.mark.slow)]
)
def test_random_steps_are_those_of_the_reference(levels, steps):
    happened = compare(MiniPacman(limit=60), levels, steps, random_player)
    assert happened["died"] > 5 and happened["late"] > 0


def test_so_are_those_of_late_levels_and_of_the_whole_maze():
    """Up to those where all 12 ghosts move in every step."""
    world = MiniPacman(view="whole")
    happened = compare(
        *(world, 30, 100), lambda state, rng: world.scripted(state), first=30
    )
    assert happened["level"] >= 30 and happened["died"] > 0
    assert happened["rewards"] >= {0, 1, 3, 5}  # a pill lies on food


def test_food_clears_a_level():
    world = MiniPacman()

    def player(state, rng):
        return world.scripted(state)

    # on a pill, Pacman eats it in the step that clears the last level
    for alike in [], [2]:
        assert compare(world, 3, 500, player, alike)["level"] > 1


def test_two_pills_on_one_cell_are_eaten_one_after_the_other():
    world = MiniPacman(limit=100)

    def player(state, rng):  # stays now and then
        waits = rng.random(len(state["pacman"])) < 0.3
        return np.where(waits, 0, world.scripted(state))

    assert 2 in compare(world, 15, 150, player, alike=[1])["rewards"]


def test_ghosts_turn_as_in_the_reference_wherever_they_and_pacman_are():
    """Among them a ghost that Pacman walked onto."""
    rng = np.random.default_rng(3)
    world, cells = MiniPacman(), maze.CELLS
    on_him = [(c, d, c, p) for c in range(cells) for d in range(6) for p in (0, 9)]
    anywhere = rng.integers(0, [cells, 6, cells, 10], (800, 4))
    cell, direction, pacman, power = np.concatenate([on_him, anywhere]).T
    start, (noise,) = numbers(world, rng, len(cell), 1)
    # below these numbers ghosts stray, move though they flee, and move
    noise[:, 0] = rng.choice(np.float32([0.001, 0.01, 0.02, 0.03, 0.1, 0.3]), len(cell))
    state = world.start(start)
    state["ghosts"][:, 0] = cell * 6 + direction
    state["pacman"][...], state["power"][...] = pacman, power
    result = world.step(state, np.zeros_like(cell), noise, keep_final=True)
    told, after = [], []
    for k in range(len(cell)):
        game = reference.Game()
        game.start(start[k])
        [ghost] = game.ghosts
        ghost.cell, ghost.direction = reference.CELLS[cell[k]], int(direction[k])
        game.pacman, game.power = reference.CELLS[pacman[k]], int(power[k])
        told.append(game.step(0, noise[k])[:2])
        number = reference.CELLS.index(ghost.cell) * 6 + ghost.direction
        after.append(number if game.ghosts else maze.GONE)
    np.testing.assert_array_equal(
        [result.reward, result.terminated], [*zip(*told, strict=True)]
    )
    np.testing.assert_array_equal(result.final["ghosts"][:, 0], after)
    assert {died for _, died in told} == {False, True}


def test_the_maze():
    walls = np.array([list(line) for line in maze.MAZE]) == "#"
    assert maze.CELLS == 138
    np.testing.assert_array_equal(walls, walls[::-1])
    np.testing.assert_array_equal(walls, walls[:, ::-1])
    exits = [sum(maze.neighbour(c, w) != c for w in range(4)) for c in range(138)]
    assert [exits.count(k) for k in range(5)] == [0, 0, 114, 16, 8]
    tables = maze.tables()
    assert tables["distances"][:138].max() == 28
    assert {tables["safe_count"].min(), tables["safe_count"].max()} == {81, 119}


# --- What players score ---------------------------------------------------------------


def play(world, player, games, seed):
    """Returns and lengths of so many games, each played to its end."""
    rng, shown = np.random.default_rng(seed), []
    state = world.start(numbers(world, rng, games, 0)[0])
    total, steps = np.zeros(games), 0
    while len(total):
        noise = rng.random((len(total), world.noise), np.float32)
        result = world.step(state, player(state, rng), noise)
        total, steps = total + result.reward, steps + 1
        shown += [(score, steps) for score in total[result.ended]]
        on = ~result.ended  # only games that go on are played on
        state, total = {name: x[on] for name, x in state.items()}, total[on]
    return np.array(shown).T


def test_a_random_player_scores_as_in_the_original():
    """Means of 2500 games of the released program: score and length."""
    games = play(MiniPacman(), random_player, 800, seed=0)
    for found, known in zip(games, (9.6, 68), strict=True):
        error = found.std() * np.sqrt(1 / found.size + 1 / 2500)
        assert abs(found.mean() - known) < 3 * error + 0.05


def test_the_scripted_player_scores_as_known():
    world = MiniPacman()
    scores, _ = play(world, lambda state, rng: world.scripted(state), 100, seed=0)
    assert 516 - 80 < scores.mean() < 516 + 80  # the error of a mean of 100 is 20


# --- What is seen ---------------------------------------------------------------------


def test_pictures_and_text():
    world = MiniPacman()
    rng = np.random.default_rng(0)
    start, noise = numbers(world, rng, 4, 30)
    state = world.start(start)
    for u in noise:
        world.step(state, random_player(state, rng), u)
    state["power"][...] = 0, 1, 7, 20
    seen = world.observe(state)
    np.testing.assert_array_equal(world.rgb(state), np.floor(255 * picture(seen)))
    assert world.rgb(state, whole=True).shape == (4, 15, 19, 3)
    text = world.text(state, 2, whole=True)
    assert text.endswith("power: 7")
    assert len(text.splitlines()) == 16
    assert text.count("C") == 1
    assert world.text(state, 2).count("C") == 1
    assert len(world.text(state, 2).splitlines()) == 6


# --- The state ------------------------------------------------------------------------


def test_a_step_changes_the_arrays_of_the_state_and_a_copy_goes_the_same_way():
    world, rng = MiniPacman(limit=50), np.random.default_rng(0)
    start, noise = numbers(world, rng, 20, 100)
    state = world.start(start)
    arrays = dict(state)
    for u in noise[:60]:
        world.step(state, random_player(state, rng), u)
    copy = {name: x.copy() for name, x in state.items()}
    for u in noise[60:]:
        actions = random_player(state, rng)
        ours = world.step(state, actions, u)
        theirs = world.step(copy, actions.astype(np.uint64), u)  # any integers
        np.testing.assert_array_equal(ours.reward, theirs.reward)
    for name in state:
        assert state[name] is arrays[name]
        np.testing.assert_array_equal(state[name], copy[name])


def test_a_device_takes_the_same_steps_and_waits_for_nothing():
    """There all levels and 12 ghosts are computed; on NumPy, only what there is."""
    world = MiniPacman(limit=70)
    rng = np.random.default_rng(2)
    start, noise = numbers(world, rng, 12, 65)
    state = world.start(start) | world._level(start, np.arange(1, 13, dtype=np.int32))
    state["food"][:], top = 3, 0  # levels are cleared at once
    there = {name: device(x) for name, x in state.items()}
    for u in noise:
        players = random_player(state, rng), world.scripted(state)
        actions = np.where(rng.random(12) < 0.5, *players)
        result, v, acted = world.step(state, actions, u), device(u), device(actions)
        with no_sync(), only(np.float32):
            other = world.step(there, acted, v, keep_final=True)
            scripted, seen = world.scripted(there), world.observe(there)
            rgb = world.rgb(there, whole=True)
        np.testing.assert_array_equal(result.reward, other.reward.get())
        np.testing.assert_array_equal(result.ended, other.ended.get())
        np.testing.assert_array_equal(world.scripted(state), scripted.get())
        np.testing.assert_array_equal(world.rgb(state, whole=True), rgb.get())
        for name, array in world.observe(state).items():
            np.testing.assert_array_equal(array, seen[name].get())
        for name, array in state.items():
            assert isinstance(there[name], cupy.ndarray)
            assert there[name].dtype == array.dtype
            np.testing.assert_array_equal(array, there[name].get())
        top = max(top, state["level"].max())
    assert top > 12
    assert world.text(there, 3) == world.text(state, 3)


def test_a_smaller_window_is_the_middle_of_the_paper_s():
    """With the ghosts that are in it, and none that are outside."""
    rng, large = np.random.default_rng(0), MiniPacman()
    small = [MiniPacman(viewport=side) for side in (3, 1)]
    state, ghosts = large.start(rng.random((64, large.start_noise), np.float32)), 0
    state["level"][:] = 5  # three ghosts
    large._next_level(
        state, np.ones(64, bool), rng.random((64, large.noise), np.float32)
    )
    for _ in range(200):
        whole = large.observe(state)["view"]
        for world in small:
            view, cut = world.observe(state)["view"], (5 - world.viewport) // 2
            assert world.observation["view"].shape == view.shape[1:]
            np.testing.assert_array_equal(view, whole[:, cut : 5 - cut, cut : 5 - cut])
        ghosts += (small[0].observe(state)["view"] == GHOST).sum()
        noise = rng.random((64, large.noise), np.float32)
        large.step(state, rng.integers(5, size=64), noise)
    assert ghosts > 100
