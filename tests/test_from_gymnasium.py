"""Environments of Gymnasium as worlds: levels that are seeds and actions."""

import re
import sys

import numpy as np
import pytest
from tinyruns import ROOT, read

from tinyrmc.cli import train
from tinyrmc.environments.from_gymnasium import GymnasiumWorld
from tinyrmc.environments.gym import LevelsEnv
from tinyrmc.environments.world import Codes, Numbers, WorldError, check_world
from tinyrmc.errors import UsageError
from tinyrmc.training.discovery import load_task
from tinyrmc.training.networks import open_checkpoint
from tinyrmc.training.run import Run

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces


class Drifting(gymnasium.Env):
    """Ends when a random walk, pushed by actions, has gone too far."""

    action_space = spaces.Discrete(2, start=5)
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    made = 0

    def __init__(self):
        Drifting.made += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.normal(size=2)
        return self.at.copy(), {"ignored": 1}

    def step(self, action):
        self.at += self.np_random.normal(size=2) + 0.2 * (2 * action - 11)
        return self.at.copy(), float(action), bool(abs(self.at).max() > 4), False, {}


def played(world, state, steps, seed=1):
    """The outcomes of some random steps from a state, which changes."""
    rng, found = np.random.default_rng(seed), []
    rows = len(state["seed"])
    for _ in range(steps):
        actions = rng.integers(world.actions, size=rows)
        outcome = world.step(state, actions, rng.random((rows, 1), np.float32))
        found += [*outcome[:3], world.observe(state)["seen"]]
    return found


def test_levels_are_those_of_the_environment():
    """Step by step, as the environment itself plays them."""
    world, env = GymnasiumWorld(Drifting, limit=9), Drifting()
    check_world(world)
    assert world.observation == {"seen": Numbers((2,))}
    state = world.start(np.full((1, 1), 0.25, np.float32))
    seen, _ = env.reset(seed=int(state["seed"][0]))
    rng, ends = np.random.default_rng(0), []
    for _ in range(60):
        np.testing.assert_array_equal(world.observe(state)["seen"][0], np.float32(seen))
        taken, noise = int(state["steps"][0]) + 1, rng.random((1, 1), np.float32)
        action = rng.integers(2, size=1)
        outcome = world.step(state, action, noise, keep_final=True)
        seen, reward, over, *_ = env.step(5 + action[0])
        assert (outcome.reward[0], outcome.terminated[0]) == (reward, over)
        assert outcome.truncated[0] == (taken == 9 and not over)
        np.testing.assert_array_equal(outcome.final["saw/seen"][0], np.float32(seen))
        if outcome.ended[0]:
            ends.append(over)
            assert state["seed"][0] == 2 * int(noise[0, 0] * 2**24)
            seen, _ = env.reset(seed=int(state["seed"][0]))
    assert {*ends} == {True, False}


def test_at_its_limit_a_level_is_over_for_one_reason():
    """Gymnasium's TimeLimit says both; an observation that an environment goes on to
    change stays as it was seen.
    """

    class Counting(gymnasium.Env):
        action_space = spaces.Discrete(3, start=-1)
        observation_space = spaces.Box(-9, 9, (2,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.seen = np.zeros(2, np.float32)
            return self.seen, {}

        def step(self, action):
            assert action in (-1, 0, 1)
            self.seen += 1  # the same array each time
            return self.seen, float(action), bool(self.seen[0] == 4), False, {}

    def make():
        return gymnasium.wrappers.TimeLimit(Counting(), 4)

    world = GymnasiumWorld(make, limit=4)
    noise = np.full((3, 1), 0.5, np.float32)
    state = world.start(noise)
    for step in range(4):
        seen = world.observe(state)["seen"]
        outcome = world.step(state, np.arange(3), noise)
        assert outcome.reward.tolist() == [-1, 0, 1]
        assert seen.tolist() == [[step, step]] * 3
        assert outcome.terminated.tolist() == [step == 3] * 3
        assert not outcome.truncated.any()


def test_a_state_goes_on_to_the_bit_in_a_world_that_has_not_played_it():
    """As a checkpoint does; also where two rows have one seed, and part."""
    world, other = (GymnasiumWorld(Drifting, limit=30) for _ in range(2))
    noise = np.repeat(np.random.default_rng(0).random((3, 1), np.float32), 2, axis=0)
    state = world.start(noise)
    played(world, state, 12)
    kept = {name: x.copy() for name, x in state.items()}
    expected = played(world, state, 40, seed=2)
    for a, b in zip(played(other, kept, 40, seed=2), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len({*map(bytes, state["saw/seen"])}) == 6


def test_training_and_held_out_levels_share_no_seed_and_environments_are_reused():
    world = GymnasiumWorld(Drifting, limit=5)
    held_out = GymnasiumWorld(Drifting, limit=5, held_out=True)
    noise = np.random.default_rng(0).random((50, 1), np.float32)
    seeds = [each.start(noise)["seed"] % 2 for each in (world, held_out)]
    assert not seeds[0].any() and seeds[1].all()
    state, made = world.start(noise[:4]), Drifting.made
    played(world, state, 200)
    assert Drifting.made <= made + 8


class Showing(gymnasium.Env):
    """Shows a space's sample."""

    action_space = spaces.Discrete(3)

    def __init__(self, shown, actions=None):
        self.observation_space = shown
        self.action_space = actions or self.action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def test_what_it_shows_becomes_codes_and_numbers():
    picture = spaces.Box(0, 9, (3, 4), np.uint8)
    parts = {
        "view": picture,
        "key": spaces.Discrete(4),
        "flags": spaces.MultiBinary(3),
        "dials": spaces.MultiDiscrete([3, 5]),
        "image": spaces.Box(0, 255, (2, 2, 3), np.uint8),
        "place": spaces.Box(-1, 1, (2,), np.float32),
    }
    codes = {
        "view": Codes((3, 4), 9),
        "key": Codes((), 3),
        "flags": Codes((3,), 1),
        "dials": Codes((2,), 4),
        "image": Codes((2, 2, 3), 255),
        "place": Numbers((2,)),
    }
    cases = [
        (picture, {"view": codes["view"]}),
        (spaces.Box(-1, 1, (2, 2)), {"seen": Numbers((2, 2))}),
        (spaces.Dict(parts), codes),
    ]
    for space, expected in cases:
        world = GymnasiumWorld(lambda space=space: Showing(space), limit=3)
        assert world.observation == expected
        check_world(world)
        vector = LevelsEnv(world, 2, "codes")  # and back again
        assert vector.observation_space.contains(vector.reset(seed=0)[0])


def test_what_cannot_be_a_world_is_refused():
    for space, actions, says in (
        (spaces.Text(3), None, "shows Text.*wrap it"),
        (spaces.Discrete(300), None, "shows Discrete.300.*wrap it"),
        (spaces.Discrete(2), spaces.Box(0, 1), "the actions of .* are Box"),
    ):
        with pytest.raises(WorldError, match=says):
            GymnasiumWorld(lambda s=space, a=actions: Showing(s, a), limit=3)
    with pytest.raises(WorldError, match="no max_episode_steps; give a limit"):
        GymnasiumWorld(Drifting)
    with pytest.raises(WorldError, match="has 2 actions"):
        GymnasiumWorld(Drifting, 3, action_names=["left"])
    make = load_task("gym").WorldConfig
    for words, says in (
        ({"id": "Nothing-v0"}, "--world.id Nothing-v0: .*Nothing"),
        ({"id": "no_such_file:Env-v0"}, "No module named 'no_such_file'"),
        ({"id": "CartPole-v1", "keep": (7,)}, "index 7 is out of bounds"),
    ):
        with pytest.raises(UsageError, match=says):
            make(**words).make(held_out=False)


BROKEN = [  # (a line of its step or reset, another in its place, what is said)
    (
        "return self.seen, {}",
        "return self.seen",
        "reset of <.*; it must give (observation, info)",
    ),
    (
        "return self.seen, 1.0, False, False, {}",
        "return self.seen, 1.0, False, {}",
        "step of <.*it gave (array(.*; it must give (observation, reward, ter",
    ),
    ("1.0", "'a'", "step of <.*the reward a finite number"),
    ("1.0", "np.nan", "step of <.*: TypeError: the reward is nan; it must"),
    ("seed=None, ", "", "reset of <.*unexpected keyword argument 'seed'"),
    ("self.seen = np.zeros(2)", "self.seen = np.zeros(3)", "> shows array([0., 0., 0."),
    (
        "return self.seen, {}",
        "return 'a', {}",
        "> shows 'a', which its observatio",
    ),
    (
        "self.seen += action",
        "self.sen += action",
        "test_from_gymnasium.py, line 7, in step: AttributeError: 'Own' object has no",
    ),
]
OWN = """class Own(gymnasium.Env):
    action_space, observation_space = spaces.Discrete(2), spaces.Box(-9, 9, (2,))
    def reset(self, *, seed=None, options=None):
        self.seen = np.zeros(2)
        return self.seen, {}
    def step(self, action):
        self.seen += action
        return self.seen, 1.0, False, False, {}
"""


def test_a_mistake_in_an_environment_is_one_line():
    def world(text):
        names = dict(globals())
        exec(compile(text, __file__, "exec"), names)
        return GymnasiumWorld(names["Own"], limit=3)

    assert world(OWN).notes == []
    for old, new, says in BROKEN:
        assert OWN.count(old) == 1
        says = ".*".join(map(re.escape, says.split(".*")))
        with pytest.raises(WorldError, match=says):
            world(OWN.replace(old, new))
    (note,) = world(OWN.replace("np.zeros(2)", "np.random.random(2)")).notes
    assert "played twice from reset(seed=0), differs: no run" in note


@pytest.fixture
def corridor(tmp_path, monkeypatch):
    """The example of the documents, in the current folder."""
    text = read("tasks/README.md")
    (code,) = re.findall(r"(?s)```python\n(# A sign.*?)```\n", text)
    (tmp_path / "corridor.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT)])
    yield ["gym", "own", "--world.id", "corridor:Corridor-v0", "--workers", "1"]
    sys.modules.pop("corridor", None)
    gymnasium.registry.pop("Corridor-v0", None)


@pytest.mark.slow
def test_a_run_in_the_documents_environment_resumes_to_the_bit(corridor):
    words = [
        *corridor,
        *"--train.steps 4 --train.log-every 4 --train.evaluate-every 4".split(),
    ]
    assert train.main([*words, "--run", "whole"]) == 0
    assert train.main([*words, "--run", "parts", "--max-minutes", "1e-9"]) == 0
    assert train.main(["--resume", "parts"]) == 0
    (_, one, _), (_, other, state) = map(open_checkpoint, ("whole", "parts"))
    assert state["step"] == 4
    for name, x in one.items():
        np.testing.assert_array_equal(x, other[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.weekly
def test_an_agent_learns_where_to_turn_in_it(corridor):
    """Three seeds; without a memory each guesses."""
    words = [*corridor, *"--train.steps 150 --train.evaluate-every 150".split()]
    for core in "rmc", "feedforward":
        for seed in range(3):
            asked = [
                "--model.core",
                core,
                "--seed",
                str(seed),
                "--run",
                f"{core}{seed}",
            ]
            assert train.main([*words, *asked]) == 0
            solved = Run.open(f"{core}{seed}").metrics()[-1]["test_solved"]
            assert solved > 0.9 if core == "rmc" else 0.3 < solved < 0.7
