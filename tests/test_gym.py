"""Worlds in Gymnasium: what its checker, its own vectors and its wrappers expect."""

import functools
import os
import sys

import gymnasium
import numpy as np
import pytest
import tinyworld
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from tinyruns import SURROUNDINGS, python

from tinyrmc.environments import IDS, world
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.gym import LevelEnv, LevelsEnv
from tinyrmc.environments.world import Codes, Outcome, World, WorldError, pick, renew
from tinyrmc.results.episodes import _steps
from tinyrmc.training.rl import actors

BOX = "tinyrmc/BoxWorld-v1"
SMALL = dict(levels=300, room=6, solution_length=1, distractors=1, limit=12)
BOX_CLASS = "tinyrmc.environments.box_world:BoxWorld"
KINDS = [(id, observation) for id in IDS for observation in ("pixels", "codes")]


class Counting(World):
    """Levels of 2 to 5 steps; the k-th brings a reward of k. You see k, and a view."""

    action_names = ("one", "other")
    observation = {"age": Codes((), 9), "view": Codes((2, 2), 9)}
    noise = start_noise = 1
    constants = {}

    def _start(self, noise):
        age = np.zeros(len(noise), np.uint8)
        return {"age": age, "last": 2 + pick(noise[:, 0], 4)}

    def _step(self, state, actions, noise, keep_final):
        state["age"] += 1
        reward = state["age"].astype(np.float32)
        over = state["age"] == state["last"]
        final = {k: x.copy() for k, x in state.items()} if keep_final else None
        renew(state, over, lambda rows: self._start(noise[rows]))
        even = reward % 2 == 0
        return Outcome(reward, over & even, over & ~even, final)

    def observe(self, state):
        view = np.broadcast_to(state["age"][:, None, None], (len(state["age"]), 2, 2))
        return {"age": state["age"], "view": view}

    def pixels(self, observed):
        return np.repeat(observed["view"][..., None], 3, axis=-1)

    def rgb(self, state, whole=False):
        return self.pixels(self.observe(state))


def equal(one, other):
    """Whether two observations or infos are the same, down to shapes and masks."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray) and one.dtype == object:
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return one == other


def test_gymnasiums_checker_finds_nothing():
    for id, observation in KINDS:
        small = SMALL if id == BOX else {}
        for mode in None, "rgb_array", "ansi":
            env = gymnasium.make(id, observation=observation, render_mode=mode, **small)
            check_env(env.unwrapped)
            env.close()


# --- As Gymnasium's own vectors -------------------------------------------------------


def test_steps_are_those_of_gymnasiums_own_vectors():
    """One level from one seed, and several of a world that has but one level."""
    for observation in ["pixels", "codes"]:
        for mode in AutoresetMode:
            worlds = [
                (1, lambda: BoxWorld(**SMALL)),
                (1, Counting),
                (4, lambda: BoxWorld(**SMALL | {"levels": 1})),
            ]
            for count, made in worlds:
                ours = LevelsEnv(made(), count, observation, autoreset_mode=mode)
                make = functools.partial(LevelEnv, made(), observation=observation)
                theirs = SyncVectorEnv([make] * count, autoreset_mode=mode)
                assert ours.metadata["autoreset_mode"] is mode
                assert ours.observation_space == theirs.observation_space
                assert ours.action_space == theirs.action_space
                rng, ends = np.random.default_rng(0), np.zeros(count)
                if count == 1 and made is not Counting:
                    assert not equal(ours.reset(seed=4)[0], ours.reset(seed=3)[0])
                assert equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
                for _ in range(150):
                    actions = rng.integers(ours.single_action_space.n, size=count)
                    found, expected = ours.step(actions), theirs.step(actions)
                    for one, other in zip(found, expected, strict=True):
                        assert equal(one, other)
                    assert found[0] in ours.observation_space
                    over = found[2] | found[3]
                    ends += over
                    some = over
                    if mode != AutoresetMode.DISABLED:
                        some = rng.random(count) < 0.02
                    if some.any():
                        options = {"reset_mask": some}
                        mine, its = (x.reset(options=options) for x in (ours, theirs))
                        assert equal(mine[0], its[0]) and mine[1] == its[1] == {}
                assert (ends > 2).all()


def test_a_mask_resets_those_levels_alone():
    for mode in AutoresetMode:
        envs = LevelsEnv(Counting(), 3, "codes", autoreset_mode=mode)
        envs.reset(seed=0)
        envs.step([0, 0, 0])
        seen, info = envs.reset(options={"reset_mask": np.array([True, False, True])})
        assert seen["age"].tolist() == [[0], [1], [0]] and info == {}
        assert envs.reset(options={})[0]["age"].tolist() == [[0]] * 3
    for mask in [True] * 3, np.ones(2, bool), np.ones(3), np.zeros(3, bool), None:
        with pytest.raises(WorldError, match=r"reset_mask must be an array bool\[3\]"):
            envs.reset(options={"reset_mask": mask})
    for env in envs, LevelEnv(Counting()):
        with pytest.raises(WorldError, match="reset has no option 'level'"):
            env.reset(options={"level": 3})
    with pytest.raises(WorldError, match="no level has begun"):
        LevelsEnv(Counting(), 1).reset(options={"reset_mask": np.ones(1, bool)})


def episodes(envs, mode, steps=120):
    """(row, length, return, first reward, from the wrapper) of each episode."""
    count, rng = envs.num_envs, np.random.default_rng(0)
    envs.reset(seed=0)
    rewards = [[] for _ in range(count)]
    waiting, found = np.zeros(count, bool), []
    for _ in range(steps):
        actions = rng.integers(envs.single_action_space.n, size=count)
        _, reward, terminated, truncated, info = envs.step(actions)
        over = terminated | truncated
        for k in range(count):
            if waiting[k] and mode is AutoresetMode.NEXT_STEP:
                assert reward[k] == 0 and not over[k]
                continue
            rewards[k].append(float(reward[k]))
            if over[k]:
                said = info.get("episode", {})
                assert "episode" not in info or info["_episode"][k]
                lengths = said["l"][k] if said else None, said["r"][k] if said else None
                found.append((k, rewards[k], lengths))
                rewards[k] = []
        waiting = over
        if mode is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
    envs.close()
    return found


def test_lengths_returns_and_first_rewards_are_exact():
    for vectorization in ["vector_entry_point", "sync", "async"]:
        for mode in AutoresetMode:
            how = dict(autoreset_mode=mode)
            if vectorization != "vector_entry_point":
                how = dict(vector_kwargs=how)
            how |= dict(vectorization_mode=vectorization, **SMALL)
            envs = RecordEpisodeStatistics(gymnasium.make_vec(BOX, 4, **how))
            found = episodes(envs, mode)
            assert min(np.bincount([k for k, *_ in found], minlength=4)) > 3
            for _, rewards, said in found:
                # the others take the mask out of the options, so the wrapper sees none
                ours = vectorization == "vector_entry_point"
                if ours or mode != AutoresetMode.DISABLED:
                    assert said == (len(rewards), pytest.approx(sum(rewards)))
                assert len(rewards) <= 13
        default = gymnasium.make_vec(BOX, 2, vectorization_mode=vectorization, **SMALL)
        assert default.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        default.close()


def test_what_was_seen_stays_as_it_was():
    envs = LevelsEnv(Counting(), 2, "codes")
    first, _ = envs.reset(seed=0)
    second = envs.step([0, 0])[0]
    assert first["age"].tolist() == [[0], [0]] and second["age"].tolist() == [[1], [1]]


# --- Pictures -------------------------------------------------------------------------


def test_pictures_texts_and_larger_pixels():
    for id in IDS:
        small = SMALL if id == BOX else {}
        for whole in True, False:
            how = dict(render_whole=whole, **small)
            env = gymnasium.make(id, render_mode="rgb_array", **how)
            env.reset(seed=0)
            picture = env.render()
            assert picture.dtype == np.uint8 and picture.shape[2:] == (3,)
            assert len(np.unique(picture)) > 1
            envs = gymnasium.make_vec(id, 3, render_mode="ansi", **how)
            envs.reset(seed=0)
            texts = envs.render()
            assert len(texts) == 3 and all("\x1b[" in text for text in texts)
        plain, large = (LevelEnv(*IDS[id][:1], scale=k) for k in (1, 8))
        one, other = plain.reset(seed=0)[0], large.reset(seed=0)[0]
        assert other in large.observation_space and (other[::8, ::8] == one).all()
        assert gymnasium.make_vec(id, 3, **small).render() is None


def test_the_last_picture_of_a_level_is_of_its_end():
    env = LevelEnv(Counting(), render_mode="rgb_array")
    env.reset(seed=0)
    over, steps = False, 0
    while not over:
        _, _, terminated, truncated, _ = env.step(0)
        over, steps = terminated or truncated, steps + 1
    assert (env.render() == steps).all()


# --- Mistakes -------------------------------------------------------------------------


def test_steps_out_of_order_are_refused():
    for kind in [LevelEnv, LevelsEnv]:
        env = kind(BoxWorld(levels=10), render_mode="ansi")
        action = env.action_space.sample()
        with pytest.raises(WorldError, match=r"no level has begun; call reset\("):
            env.step(action)
        with pytest.raises(WorldError, match="render: no level has begun"):
            env.render()
        env.reset()
        env.step(action)
        env.close()
        env.close()
        for late in (functools.partial(env.step, action), env.reset):
            with pytest.raises(WorldError, match="the environment is closed"):
                late()


def test_a_level_that_is_over_must_be_reset():
    env = LevelEnv(BoxWorld(levels=10, limit=1))
    for _ in range(2):
        env.reset()
        env.step(0)
        assert env.step(0)[3]
        with pytest.raises(WorldError, match=r"level is over; call reset\(\) first"):
            env.step(0)


def test_actions_that_are_none_are_refused():
    env, envs = LevelEnv(BoxWorld(levels=10)), LevelsEnv(BoxWorld(levels=10), 2)
    env.reset(), envs.reset()
    for action in 4, -1, 1.0, [0], None, "up", True:
        says = "there is no action" if type(action) is int else "an action is one int"
        with pytest.raises(WorldError, match=says):
            env.step(action)
    for actions in [0, 4], [0], [[0, 0]], [0.0, 1.0]:
        with pytest.raises(WorldError, match="action"):
            envs.step(actions)
    with pytest.raises(WorldError, match=r"must be integers\[1\] in an array"):
        env.step(np.array(3, np.dtype(int).newbyteorder()))


REFUSED = {
    "observation must be 'pixels' or 'codes', not 'rgb'": dict(observation="rgb"),
    "render_mode must be 'rgb_array' or 'ansi'": dict(render_mode="human"),
    "scale must be an integer of at least 1": dict(scale=0),
    "give limit instead of max_episode_steps": dict(max_episode_steps=9),
    "viewport must be odd, up to 14": dict(viewport=99),
}


def test_arguments_that_do_not_fit_are_refused():
    for says, arguments in REFUSED.items():
        for kind in LevelEnv, LevelsEnv:
            with pytest.raises(ValueError, match=says):
                kind(**{"world": BOX_CLASS} | arguments)
    for kind in LevelEnv, LevelsEnv:
        with pytest.raises(TypeError, match="unexpected keyword argument 'rooms'"):
            kind(BOX_CLASS, rooms=3)
    for name in "num_envs", "autoreset_mode":
        with pytest.raises(TypeError, match=f"multiple values .* {name!r}"):
            LevelEnv(BOX_CLASS, **{name: 2})
    with pytest.raises(ValueError, match=r"num_envs must be .* at least 1, not 0"):
        LevelsEnv(BOX_CLASS, num_envs=0)
    with pytest.raises(WorldError, match="room: the world is already made"):
        LevelEnv(BoxWorld(levels=10), room=6)
    with pytest.raises(ValueError, match="'Never' is not a valid AutoresetMode"):
        LevelsEnv(BOX_CLASS, autoreset_mode="Never")


def test_what_a_world_of_your_own_lacks_is_named():
    given = {
        # not two actions, g and o, nor one that is a list of two
        "action_names": ["go", {"go", "stay"}, (), [["go", "stay"]]],
        "observation": [
            *({"age": Codes(2, 9)}, {"age": ((), 9)}, {"age": Codes((), 300)}),
            *({"age": Codes((), 9.5)}, {"age": Codes((), "9")}),
        ],
    }
    for name, values in given.items():
        for value in values:
            world = type("Own", (Counting,), {name: value})()
            with pytest.raises(WorldError, match=rf"Own.{name}.* must be .*, such as"):
                LevelsEnv(world, 2)
    odd = {
        "noise": 1.0,
        "start_noise": -1,
        "observation": {},
        "observe": lambda self, state: Counting.observe(self, state) | {"more": 1},
        "pixels": lambda self, seen: seen["view"] / 2,
    }
    for name, value in odd.items():
        with pytest.raises(WorldError, match=rf"^Own\.{name}.* must be "):
            LevelsEnv(type("Own", (Counting,), {name: value})())
    blind = type("Own", (Counting,), {"pixels": World.pixels})()
    assert LevelsEnv(blind, observation="codes").reset()[0]["age"] == 0
    with pytest.raises(WorldError, match="Own has no text; leave render_mode out"):
        LevelEnv(blind, observation="codes", render_mode="ansi")
    with pytest.raises(WorldError, match="Own has no pixels; give codes"):
        LevelEnv(blind)
    low = type("Own", (Counting,), {"observation": {"age": Codes((), -1)}})()
    with pytest.raises(WorldError, match=r"has 1, and its highest value is said to be"):
        LevelEnv(low)

    class Forgetful(Counting):
        def _step(self, *args):
            return super()._step(*args)._replace(final=None)

    env = LevelEnv(Forgetful())
    env.reset()
    with pytest.raises(WorldError, match=r"Forgetful\._step must give `final` if"):
        env.step(0)


def test_a_world_whose_levels_never_end_is_named_in_its_first_test(monkeypatch):
    class Endless(tinyworld.junction.Junction):
        def _step(self, state, actions, noise, keep_final):
            never = np.zeros(len(actions), bool)
            final = dict(state) if keep_final else None
            return Outcome(never.astype(np.float32), never, never.copy(), final)

    task = tinyworld.Task(tinyworld.CONFIG)
    monkeypatch.setattr(world, "LONGEST", 200)
    task.__dict__["world"] = Endless(2)
    with pytest.raises(WorldError, match=r"^a level of Endless goes on after 220"):
        task.results(actors.at_random, 0, 4)
    with pytest.raises(WorldError, match="a level of Endless goes on after"):
        [*_steps(task, actors.at_random, 0, greedy=False)]
    task.world.limit = 300  # its own word counts
    with pytest.raises(WorldError, match="goes on after 320 steps"):
        task.results(actors.at_random, 0, 4)


@pytest.mark.parametrize(
    "text", ["raise ImportError('for another NumPy')", "version = 'too old'", None]
)
def test_training_needs_no_gymnasium(text, tmp_path):
    hidden = "" if text else "import sys; sys.modules['gymnasium'] = None; "
    if text:
        (tmp_path / "gymnasium.py").write_text(text)
    words = (
        f"{hidden}import tinyrmc.environments.box_world as w; print(w.BoxWorld.noise)"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = python("-c", words, env=SURROUNDINGS | {"PYTHONPATH": path})
    assert done.stdout == "1\n" and "Traceback" not in done.stderr
    assert ("not registered with Gymnasium" in done.stderr) == bool(text)
