"""The task of BoxWorld: its stages, what it is tested on, and what it is set beside."""

import numpy as np
import pytest
from boxreference import boxes_of
from tinytasks import changed, observed

from tinyrmc import training
from tinyrmc.training.discovery import load_task
from tinyrmc.training.rl import actors

box_world = load_task("box_world")
SMALL = changed(
    box_world.QUICK,
    model={"head_size": 2, "features": 8},
    world={"room": 7, "stages": ((5, 1, 0),), "pool": 64},
)
SCRIPT = "a script that forgets nothing"


def task(**world):
    config = changed(SMALL, world=world)
    made = box_world.Task(config)
    made.test_examples = 32
    return made


def test_the_next_stage_begins_when_enough_levels_are_solved():
    a_task = task()
    problem = a_task.world.problem
    assert (problem.room, problem.solution_length) == ((5, 7), (1, 1))
    # 12 x 20 steps are twice the limit: until then only short levels have ended
    assert observed(a_task, 12, {"solved": 1.0}) == {
        "stage": "rooms from 5, 1 lock",
        "world_steps": 12 * 256 * 20,
    }
    a_task.observe(100, {"solved": 0.89})
    a_task.observe(200, {})
    assert a_task.stage == 0
    line = observed(a_task, 300, {"solved": 0.91})
    assert a_task.stage == 1 and not a_task.is_final(line)
    assert a_task.world.problem == a_task.held_out_world.problem
    assert a_task.is_final(observed(a_task, 400, {"solved": 1.0}))
    again = task()
    again.load_state(a_task.state())
    assert again.world.problem == a_task.world.problem


def test_held_out_levels_are_the_task_s_own_and_no_others():
    """Each once, whatever the stage, and none of the pool."""
    a_task = task(room=12)
    model = a_task.build(np.random.SeedSequence(0))
    levels = a_task.start_held_out(np.zeros((32, 1), np.float32), 0, 32)
    np.testing.assert_array_equal(levels["level"], np.arange(32))
    before = a_task.evaluate(model)
    a_task.stage = 1
    assert a_task.evaluate(model) == before
    held_out = {board.tobytes() for board in a_task.held_out_world.levels.board}
    pool = {board.tobytes() for board in a_task.world.levels.board}
    assert not held_out & pool


def test_levels_that_are_watched_are_others_than_those_tested_at_the_end():
    """And these are the ones that older runs were tested on."""
    a_task = task(room=12, stages=())
    model = a_task.build(np.random.SeedSequence(0))
    boards = a_task.held_out_world.levels.board
    assert len({board.tobytes() for board in boards}) == len(boards) == 64
    alone = a_task.config.world.make(0, 32, training.HELD_OUT_SEED).levels.board
    np.testing.assert_array_equal(boards[:32], alone)
    for split, first in (("validation", 32), ("test", 0)):
        expected = a_task.results(model, first, first + 32)
        sums = {name: (x.sum(), 32) for name, x in expected.items()}
        assert a_task.evaluate(model, split=split) == sums
    assert len(a_task.kinds()["solution length"]) == 32


def test_the_floors_of_a_set_are_those_of_its_own_levels():
    a_task = task(stages=(), solution=(1, 1), room=6)
    shares = a_task.references()
    for split, first in (("validation", 32), ("test", 0)):
        found = a_task.results(actors.at_random, first, first + 32)
        for metric in "score", "solved":
            floor = shares[f"{split}_{metric}"]["at random"]
            assert floor == found[metric].mean()
    assert shares["validation_solved"] != shares["test_solved"]


def test_a_solved_level_is_one_whose_gem_was_taken():
    """Played by one who knows the way, each level is."""
    a_task = task(solution=(1, 3), distractors=(0, 2), room=9, stages=())
    levels = a_task.held_out_world.levels
    ways = [list(levels.solution(row)) for row in range(64)]

    def knows(world, state, u):
        pairs = zip(state["level"], state["steps"], strict=True)
        return np.array([ways[level][step] for level, step in pairs])

    found = a_task.results(knows, 0, 32)
    assert found["solved"].all()
    assert found["length"].tolist() == [*map(len, ways[:32])]
    for k, score in enumerate(found["score"]):
        assert score == 10 + sum(b.lock > 0 and not b.trap for b in boxes_of(levels, k))


def test_opening_any_box_is_one_of_the_floors():
    """The chance of a player who takes any box that the key in hand opens."""
    for length in [(1, 1), (1, 2)]:
        usual = dict(room=12, solution=(1, 4), distractors=(0, 4), stages=())
        a_task = task(**usual, distractor_length=length)
        levels = a_task.held_out_world.levels

        def chance(boxes, key):
            """To come from this key to the gem, which has no colour."""
            fitting = [box for box in boxes if box.lock == key]
            right = [box for box in fitting if not box.trap]
            if key == 0:
                return 1.0
            return sum(chance(boxes, box.content) for box in right) / len(fitting)

        chances = []
        for row in range(len(levels)):
            loose, *boxes = boxes_of(levels, row)
            chances.append(chance(boxes, loose.content))
        np.testing.assert_allclose(levels.guessed(), chances)
        shares = a_task.references()
        for split, first in (("validation", 32), ("test", 0)):
            share = shares[f"{split}_solved"]["opening any box"]
            assert share == pytest.approx(np.mean(chances[first : first + 32]))
        assert 0.3 < np.mean(chances) < 0.8
        alone = task(**usual | {"distractors": (0, 0)})
        assert list(alone.references()["test_solved"]) == ["at random", SCRIPT]


@pytest.mark.slow
def test_what_was_published_stands_beside_the_paper_s_own_levels_alone():
    full = box_world.Task(box_world.FULL)
    assert full.cell() == "viewport, RMC" and full.cell() in full.published
    assert full.references()["test_solved"]["paper, RMC"] == 0.98
    for core, name in (("lstm", "LSTM"), ("feedforward", "no memory")):
        ours = box_world.Task(changed(full.config, model={"core": core}))
        assert ours.cell() == f"viewport, {name}"
        known = ours.references()["test_solved"]
        assert list(known) == ["at random", "opening any box", SCRIPT]
        assert known[SCRIPT] == 1
    assert task().cell() is None
    for change in {"room": 11}, {"colours": 19}, {"limit": 90}, {"viewport": 7}:
        other = box_world.Task(changed(full.config, world=change))
        assert other.cell() is None, change
    trial = box_world.Task(changed(full.config, train={"steps": 100}))
    assert trial.cell() is None and "paper, RMC" not in trial.references()
    assert 0 < task().references()["test_solved"]["at random"] < 0.6


def test_what_is_remembered_comes_as_a_row_for_each_thing():
    config = changed(
        SMALL, model={"encoder": "attention"}, world={"view": "remembered"}
    )
    a_task = box_world.Task(config)
    for world in a_task.world, a_task.held_out_world:  # of a stage, and without one
        state, rng = world.start(np.zeros((5, 1), np.float32)), np.random.default_rng(0)
        for _ in range(30):
            world.step(state, rng.integers(4, size=5), rng.random((5, 1), np.float32))
        seen = world.observe(state)
        shown = {f"seen/{name}": x[:, None] for name, x in seen.items()}
        did = {"action": np.zeros((5, 1), int), "reward": np.zeros((5, 1))}
        picture, numbers = a_task.planes(shown | did)
        codes = a_task.held_out_world.observation["view"].highest + 1
        assert picture.shape == (5, 1, 3, 1, 4 * codes + 21) and picture.any()
        for k, rows in enumerate(seen["view"]):
            held = np.eye(21)[seen["held"][k]]
            rows = [*rows.tolist(), [0] * 4, [0] * 4][:3]
            expected = [np.append(np.eye(codes)[row], held) for row in rows]
            np.testing.assert_array_equal(picture[k, 0, :, 0], expected)
        np.testing.assert_array_equal(
            numbers[:, 0, 23:-5], seen["around"].reshape(5, -1)
        )


def test_each_stage_has_time_of_its_own_and_an_easier_one_shorter_solutions():
    stages = (5, 1, 0), (6, 2, 0)
    a_task = task(stages=stages, solution=(2, 3), distractors=(0, 0), room=9)
    assert a_task.world.problem.solution_length == (1, 1)
    unroll, limit = a_task.config.agent.unroll, a_task.config.world.limit
    most = 2 * limit // unroll  # steps that may end short levels alone
    a_task.observe(most + 1, {"solved": 1.0})
    assert a_task.stage == 1 and a_task.world.problem.solution_length == (2, 2)
    a_task.observe(2 * most + 1, {"solved": 1.0})
    assert a_task.stage == 1
    a_task.observe(2 * most + 2, {"solved": 1.0})
    assert a_task.stage == 2


def test_what_an_agent_sees_is_what_the_world_shows():
    """By hand: planes or colours, the key held, the place, what it did and gained."""
    for sight in ["codes", "rgb"]:
        a_task = box_world.Task(changed(SMALL, model={"sight": sight, "last": True}))
        world, scale = a_task.held_out_world, a_task.config.agent.reward_scale
        state = world.start_levels(np.arange(3))
        state["held"][:] = 0, 5, 20
        seen = world.observe(state)
        shown = {f"seen/{name}": x[:, None] for name, x in seen.items()}
        actions, rewards = np.array([[4], [0], [3]]), np.array([[0.0], [1], [10]])
        did = {"action": actions, "reward": rewards}
        picture, numbers = a_task.planes(shown | did)
        if sight == "codes":
            codes = world.observation["view"].highest + 1
            expected = np.eye(codes)[seen["view"]]
            held = np.eye(world.observation["held"].highest + 1)[seen["held"]]
        else:
            expected, held = world.pixels(seen) / 255, np.zeros((3, 0))
        np.testing.assert_allclose(picture[:, 0], expected, rtol=1e-6)
        place = seen["position"] / world.observation["position"].highest
        action = np.eye(5)[did["action"][:, 0]][:, : world.actions]
        expected = np.hstack([held, place, action, did["reward"] * scale])
        np.testing.assert_allclose(numbers[:, 0], expected, rtol=1e-6)
