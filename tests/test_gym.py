"""Worlds in Gymnasium: what its checker, its wrappers and its users expect."""

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from tinyrmc.environments import IDS
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.gym import LevelEnv, LevelsEnv
from tinyrmc.environments.world import WorldError

BOX = "tinyrmc/BoxWorld-v0"
SMALL = {BOX: dict(levels=300, room=6, solution_length=1, distractors=1, limit=30)}
EVERY = pytest.mark.parametrize("id", IDS)


def make(id, **arguments):
    return gymnasium.make(id, **SMALL.get(id, {}), **arguments)


def make_vec(id, num_envs, **arguments):
    return gymnasium.make_vec(id, num_envs, **SMALL.get(id, {}), **arguments)


def row(seen, k):
    if isinstance(seen, dict):
        return {name: x[k] for name, x in seen.items()}
    return seen[k]


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    return np.array_equal(one, other)


@EVERY
@pytest.mark.parametrize("observation", ["pixels", "codes"])
@pytest.mark.parametrize("mode", [None, "rgb_array", "ansi"])
def test_gymnasiums_checker_finds_nothing(id, observation, mode):
    env = make(id, observation=observation, render_mode=mode)
    check_env(env.unwrapped)
    env.close()


@EVERY
@pytest.mark.parametrize("observation", ["pixels", "codes"])
def test_one_level_and_many_play_the_same_game(id, observation):
    env = make(id, observation=observation)
    envs = make_vec(id, 1, observation=observation)
    assert isinstance(envs.unwrapped, LevelsEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    rng, ends = np.random.default_rng(0), 0
    for seed in range(3):
        seen, info = env.reset(seed=seed)
        all_seen, _ = envs.reset(seed=seed)
        assert equal(seen, row(all_seen, 0)) and info == {}
        for _ in range(400):
            action = int(rng.integers(env.action_space.n))
            seen, reward, terminated, truncated, _ = env.step(action)
            several = envs.step(np.array([action]))
            assert several[0] in envs.observation_space
            assert (reward, terminated, truncated) == tuple(x[0] for x in several[1:4])
            if terminated or truncated:
                assert several[4]["_final_obs"].tolist() == [True]
                assert equal(seen, several[4]["final_obs"][0])
                assert not equal(seen, row(several[0], 0))  # a new level
                ends += 1
                break
            assert equal(seen, row(several[0], 0)) and "final_obs" not in several[4]
    assert ends == 3 or id != BOX


@EVERY
def test_seeds_repeat_a_game_and_others_do_not(id):
    def play(seed):
        envs = make_vec(id, 4)
        seen = [envs.reset(seed=seed)[0]]
        rng = np.random.default_rng(0)
        for _ in range(60):
            seen.append(envs.step(rng.integers(envs.single_action_space.n, size=4))[0])
        return np.array(seen)

    assert (play(3) == play(3)).all()
    assert (play(3) != play(4)).any()


def test_a_reset_begins_to_count_steps_anew():
    envs = make_vec(BOX, 3)  # at most 31 steps
    for _ in range(2):
        envs.reset(seed=0)
        for _ in range(20):
            assert not envs.step(np.zeros(3, int))[3].any()


def test_each_level_that_ends_has_its_own_last_observation():
    envs = LevelsEnv(BoxWorld(levels=50, limit=1), num_envs=6, observation="codes")
    envs.reset(seed=0)
    up = np.zeros(6, int)
    columns = envs.step(up)[0]["position"][:, 1]
    info = envs.step(up)[4]
    last = [seen["position"][1] for seen in info["final_obs"]]
    assert last == columns.tolist() and len({*last}) > 1


def test_episodes_are_measured_by_gymnasiums_own_wrapper():
    envs = RecordEpisodeStatistics(make_vec(BOX, 8))
    envs.reset(seed=0)
    rng, lengths = np.random.default_rng(0), []
    for _ in range(200):
        *_, info = envs.step(rng.integers(4, size=8))
        if "episode" in info:
            lengths += info["episode"]["l"][info["_episode"]].tolist()
    assert len(lengths) > 40 and max(lengths) <= 31


@EVERY
def test_gymnasiums_own_vectors_work_too(id):
    envs = make_vec(id, 2, vectorization_mode="sync")
    seen, _ = envs.reset(seed=0)
    assert seen in envs.observation_space
    for _ in range(50):
        seen, *_ = envs.step(envs.action_space.sample())
    envs.close()


@EVERY
@pytest.mark.parametrize("whole", [True, False])
def test_pictures_and_texts(id, whole):
    env = make(id, render_mode="rgb_array", render_whole=whole)
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
    assert len(np.unique(picture)) > 1
    envs = make_vec(id, 3, render_mode="ansi", render_whole=whole)
    envs.reset(seed=0)
    texts = envs.render()
    assert len(texts) == 3 and all("\x1b[" in text for text in texts)
    assert make_vec(id, 3).render() is None


def test_the_last_picture_of_a_level_is_of_its_end():
    env = make(BOX, render_mode="rgb_array")
    env.reset(seed=0)
    before, over = env.render(), False
    while not over:
        before = env.render()
        _, _, terminated, truncated, _ = env.step(0)
        over = terminated or truncated
    # at the upper wall for long, nothing moves any more
    assert (env.render() == before).all()


def test_a_world_of_your_own_needs_no_id():
    world = BoxWorld(levels=10)
    env = LevelEnv(world)
    assert env.reset(seed=1)[0].shape == (5, 5, 6)
    with pytest.raises(WorldError, match="room: the world is already made"):
        LevelEnv(world, room=6)


def test_without_gymnasium_the_worlds_are_there():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from tinyrmc.environments.box_world import BoxWorld; print(BoxWorld.noise)"
    )
    words = [sys.executable, "-c", code]
    assert subprocess.run(words, capture_output=True, text=True).stdout == "1\n"


# --- Mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LevelEnv, LevelsEnv])
def test_steps_out_of_order_are_refused(kind):
    env = kind(BoxWorld(levels=10), render_mode="ansi")
    action = env.action_space.sample()
    with pytest.raises(WorldError, match=r"no level has begun; call reset\(\) first"):
        env.step(action)
    with pytest.raises(WorldError, match="render: no level has begun"):
        env.render()
    env.reset()
    env.step(action)
    env.close()
    env.close()
    for late in (lambda: env.step(action), env.reset):
        with pytest.raises(WorldError, match="the environment is closed"):
            late()


def test_a_level_that_is_over_must_be_reset():
    env = LevelEnv(BoxWorld(levels=10, limit=1))
    env.reset()
    env.step(0)
    assert env.step(0)[3]
    with pytest.raises(WorldError, match=r"the level is over; call reset\(\) first"):
        env.step(0)
    env.reset()
    env.step(0)


@pytest.mark.parametrize("action", [4, -1, 1.0, [0], None, "up", True])
def test_an_action_that_is_none_is_refused(action):
    env = LevelEnv(BoxWorld(levels=10))
    env.reset()
    says = "there is no action" if type(action) is int else "an action is one integer"
    with pytest.raises(WorldError, match=says):
        env.step(action)


@pytest.mark.parametrize("actions", [[0, 4], [0], [[0, 0]], [0.0, 1.0]])
def test_actions_that_do_not_fit_are_refused(actions):
    envs = LevelsEnv(BoxWorld(levels=10), num_envs=2)
    envs.reset()
    with pytest.raises(WorldError, match="action"):
        envs.step(actions)


@pytest.mark.parametrize(
    "arguments, says",
    [
        (dict(observation="rgb"), "observation must be pixels or codes, not 'rgb'"),
        (dict(render_mode="human"), "render_mode must be rgb_array or ansi"),
        (
            dict(rooms=3),
            "^BoxWorld got an unexpected keyword argument 'rooms'; its arguments are "
            "solution_length, distractors, .*seed$",
        ),
        (dict(max_episode_steps=9), "give limit instead of max_episode_steps"),
        (dict(viewport=99), "viewport 99 is larger than the map"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, says):
    name = "tinyrmc.environments.box_world:BoxWorld"
    for kind in (LevelEnv, LevelsEnv):
        with pytest.raises(WorldError, match=says):
            kind(name, **arguments)
    with pytest.raises(WorldError, match="num_envs must be at least 1, not 0"):
        LevelsEnv(name, num_envs=0)


@pytest.mark.parametrize("world", ["nope:X", "tinyrmc.environments", BoxWorld, "", 7])
def test_what_is_no_world_is_named(world):
    with pytest.raises(WorldError, match="a World or the text 'module:Class', not "):
        LevelEnv(world)


def test_actions_in_another_byte_order_are_refused():
    env = LevelEnv(BoxWorld(levels=5))
    env.reset(seed=0)
    with pytest.raises(WorldError, match=r"must be integers\[1\], one for each level"):
        env.step(np.array(3, np.dtype(int).newbyteorder()))


@pytest.mark.parametrize(
    "text", ["raise ImportError('for another NumPy')", "version = 'too old'"]
)
def test_a_gymnasium_that_does_not_load_stops_nothing_else(text, tmp_path):
    (tmp_path / "gymnasium.py").write_text(text)
    words = "import tinyrmc.environments.box_world as w; print(w.BoxWorld().actions)"
    done = subprocess.run(
        [sys.executable, "-c", words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "4\n"
    assert "not registered with Gymnasium" in done.stderr
    assert "Traceback" not in done.stderr
