"""The task of MiniPacman: what it is tested on, and what it is set beside."""

import numpy as np
import pytest
from tinytasks import changed

from tinyrmc.config import from_json
from tinyrmc.errors import ConfigError
from tinyrmc.training.discovery import load_task
from tinyrmc.training.rl import actors

mini_pacman = load_task("mini_pacman")


def task(model=(), **world):
    model = {"head_size": 2, "features": 8, **dict(model)}
    config = changed(mini_pacman.QUICK, model=model, world=world)
    made = mini_pacman.Task(config)
    made.test_examples = 24
    return made


def test_floors_are_those_of_other_people_s_games():
    """Within five standard errors of 9.6 at random and 516 by script: the deviations
    of a game are 10 and 190.
    """
    a_task = task()
    a_task.test_examples = 100
    scores = a_task.references()["test_score"]
    assert scores["at random"] == pytest.approx(9.6, abs=5)
    assert scores["a script that sees all"] == pytest.approx(516, abs=95)
    assert scores["paper, RMC"] == 677
    solved = a_task.references()["test_solved"]
    assert solved["at random"] < 0.05 < 0.9 < solved["a script that sees all"]


def test_a_game_is_solved_once_a_level_is_cleared():
    levels = {"level": np.array([1, 2, 3])}
    assert task().succeeds(None, levels).tolist() == [False, True, True]


def test_an_agent_plays_what_it_sees():
    for view, size in [("viewport", (5, 5)), ("whole", (15, 19))]:
        for sight in ["codes", "rgb"]:
            a_task = task({"sight": sight, "encoder": "conv"}, view=view, limit=30)
            model = a_task.build(np.random.SeedSequence(0))
            channels = 6 if sight == "codes" else 3
            assert model.convolutions[0].weight.shape == (2, 2, channels, 12)
            places = (size[0] - 2) * (size[1] - 2)
            power = 21 if sight == "codes" else 0
            assert model.core.input_size == places * 26 + power + 5 + 1
            length = a_task.results(model, 0, 24)["length"]
            assert len(length) == 24 and 1 <= length.min() <= length.max() <= 30


def test_a_run_of_before_says_the_mode_that_there_still_is():
    world = mini_pacman.WorldConfig(limit=9)
    said = {"mode": "regular", "view": "viewport", "limit": 9}
    assert from_json(mini_pacman.WorldConfig, said) == world
    with pytest.raises(ConfigError, match=r"config\.mode is unknown"):
        from_json(mini_pacman.WorldConfig, said | {"mode": "hunt"})


CORES = ["rmc", "lstm", "dnc", "entnet", "conv_lstm", "feedforward"]


@pytest.mark.slow
def test_levels_that_are_over_drop_out_and_change_nothing(monkeypatch):
    """Held against a loop that plays on in all of them until the last one ends."""
    for core in [*CORES, "at random"]:
        with monkeypatch.context() as patch:
            if core == "at random":
                a_task, player = task(limit=150), actors.at_random
            else:
                encoder = "conv" if core == "conv_lstm" else "linear"
                sizes = {"mem_slots": 3, "hidden_size": 6, "skip": encoder == "linear"}
                a_task = task({"core": core, "encoder": encoder, **sizes}, limit=150)
                player = a_task.build(np.random.SeedSequence(0))
                player.heads.weight.data *= np.float32(20)  # it prefers something
            expected = played_to_the_end(a_task, player, 80)
            played, act = [], a_task.act

            def watched(player, world, carry, noise, likeliest):
                played.append(len(noise))
                return act(player, world, carry, noise, likeliest)

            patch.setattr(a_task, "act", watched)
            found = a_task.results(player, 0, 80)
            for name, values in expected.items():
                np.testing.assert_array_equal(found[name], values, err_msg=name)
            assert len({*expected["length"]}) > 20
            assert played[0] == 80 and played[-1] == actors.TOGETHER
            assert played == sorted(played, reverse=True)


def played_to_the_end(a_task, player, count):
    """The `results` of trajectories that all last until the limit."""
    carry, parts = {}, []
    for chunk in range(-(-a_task.world.limit // actors.TESTED)):
        noise = a_task.held_out_noise(chunk, 0, count)
        carry = carry or a_task.begin_held_out(player, noise, 0, count)
        part, carry = a_task.act(player, a_task.world, carry, noise[:, 1:])
        parts.append(part)
    ended, score, solved = (
        np.concatenate([part[name] for part in parts], axis=1)
        for name in ("ended", "score", "solved")
    )
    rows, last = np.arange(count), ended.argmax(axis=1)
    assert ended[rows, last].all()
    return {
        "score": score[rows, last],
        "solved": solved[rows, last],
        "length": last + 1,
    }


def test_half_of_the_levels_drop_out_at_a_time():
    for levels, running, number in [
        (128, 128, 128),
        (128, 65, 128),
        (128, 64, 64),
        (128, 49, 64),
        (128, 1, 16),
        (100, 40, 48),
        (40, 17, 40),
        (40, 16, 16),
        (20, 1, 20),
    ]:
        alive = np.random.default_rng(0).permutation(levels) < running
        kept = actors.still_played(alive)
        assert len({*kept}) == len(kept) == number
        assert alive[kept].sum() == running
