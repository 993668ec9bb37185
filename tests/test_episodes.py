"""Agents that are watched: held-out levels one by one, as pictures, in the terminal."""

import re
from pathlib import Path

import numpy as np
import pytest
from tinyagents import LEVELS, restored

from tinyrmc.cli import play, plot
from tinyrmc.errors import UserError
from tinyrmc.results import episodes
from tinyrmc.training.rl.policy import sample

pytestmark = pytest.mark.slow  # agents are trained first


@pytest.fixture(scope="module")
def agent(agents):
    return restored(agents / "rmc")


@pytest.fixture(scope="module")
def solved(agent):
    """An episode that ends well."""
    task, model = agent
    level = int(np.flatnonzero(task.results(model, 0, LEVELS)["solved"])[0])
    return episodes.record(task, model, level)


# --- Level by level -------------------------------------------------------------------


def test_what_you_watch_is_what_was_counted(agents):
    for greedy in [False, True]:
        for name in ["rmc", "lstm", "pacman"]:
            task, model = restored(agents / name)
            found = task.results(model, 0, LEVELS, likeliest=greedy)
            for level in range(0, LEVELS, 8):
                episode = episodes.record(task, model, level, greedy)
                assert len(episode.actions) == found["length"][level]
                assert episode.rewards.sum() == pytest.approx(found["score"][level])
                assert episode.solved == found["solved"][level]


def test_an_episode_is_what_a_plain_loop_sees(agent, solved):
    """The world by itself, given the same actions, to its last picture."""
    task, _ = agent
    world, last = task.held_out_world, len(solved.actions)
    state = world.start_levels(np.array([solved.level]))
    for t, action in enumerate(solved.actions):
        assert (solved.boards[t] == world.rgb(state, whole=True)[0]).all()
        assert (solved.views[t] == world.rgb(state)[0]).all()
        row, column = solved.corners[t] + 2
        assert (row, column) == tuple(world.observe(state)["position"][0])
        outcome = world.step(
            state, np.array([action]), np.zeros((1, 1), np.float32), keep_final=True
        )
        assert outcome.reward[0] == solved.rewards[t]
        assert outcome.ended[0] == (t == last - 1)
    assert (solved.boards[last] == world.rgb(outcome.final, whole=True)[0]).all()
    assert solved.rewards[-1] == 10 and solved.solved
    assert solved.says == f"Episode {solved.level}: solved after {last} steps, score 11"
    assert not (solved.boards[last] == 255).all(axis=-1).any()  # the gem is gone


def test_thoughts_are_those_of_the_network_that_acted(agents):
    """The whole episode read at once; actions drawn from the policy that is shown."""
    for name in ["rmc", "lstm", "whole"]:
        task, model = restored(agents / name)
        level = 3
        episode = episodes.record(task, model, level)
        T, world = len(episode.actions), task.held_out_world
        state = world.start_levels(np.array([level]))
        seen = {"seen/view": [], "seen/held": [], "seen/position": []}
        for action in episode.actions:
            for part, codes in world.observe(state).items():
                seen[f"seen/{part}"].append(codes[0])
            world.step(state, np.array([action]), np.zeros((1, 1), np.float32))
        moments = {part: np.stack(codes)[None] for part, codes in seen.items()}
        moments["action"] = np.array([[4, *episode.actions[:-1]]])
        moments["reward"] = np.array([[0, *episode.rewards[:-1]]], np.float32)
        logits, values, _ = model(*task.planes(moments), model.initial_state(1))
        np.testing.assert_allclose(episode.values, 10 * values.data[0], rtol=1e-3)
        shares = np.exp(logits.data[0]) / np.exp(logits.data[0]).sum(1, keepdims=True)
        np.testing.assert_allclose(episode.policy, shares, rtol=1e-3)
        noise = [task.held_out_noise(k, level, level + 1)[0, 1:, 0] for k in range(4)]
        drawn = sample(np.log(episode.policy), np.concatenate(noise)[:T])
        assert drawn.tolist() == episode.actions.tolist()
        if name == "lstm":
            assert episode.attention is None
        else:
            assert episode.attention.shape == (T, 2, 2, 3)
            np.testing.assert_allclose(episode.attention.sum(axis=-1), 1, rtol=1e-5)
        assert (episode.corners is None) == (name == "whole")


def test_a_failed_level_is_found(agent, agents, monkeypatch):
    task, model = agent
    episode = episodes.failed(task, model)
    found = task.results(model, 0, LEVELS)["solved"]
    assert episode.level == found.tolist().index(0) and not episode.solved
    monkeypatch.setattr(
        type(task), "results", lambda *_, **__: {"solved": np.ones(LEVELS)}
    )
    with pytest.raises(UserError, match=r"all 40 held-out levels.* leave --wrong out"):
        episodes.failed(task, model)


# --- Pictures -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rmc", "lstm", "pacman"])
def test_plot_episode_writes_a_page(name, agents, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task, model = restored(agents / name)
    episode = episodes.record(task, model, 5)
    words = ["episode", str(agents / name), "--level", "5"]
    for where, path in ("--out .", "episode_5.html"), ("--html p.html", "p.html"):
        assert plot.main([*words, *where.split()]) == 0
        title, says, written = capsys.readouterr().out.splitlines()
        assert written == path and episode.says in Path(path).read_text()
        assert title.endswith(", seed 0, step 3") and says == f"{episode.says}."
    with pytest.raises(UserError, match="--html says where the one page goes; leave"):
        plot.main([*words, "--out", "other", "--html", "p.html"])
    assert len([*tmp_path.iterdir()]) == 2


# --- The terminal ---------------------------------------------------------------------


def test_an_agent_plays_and_says_what_it_attends_to(agent):
    game = play.Watched(*agent, seed=3)
    assert "agent:" not in game.screen() and game.pause
    ends, places = 0, set()
    for _ in range(120):
        assert game.press("")
        ends += game.steps == 0
        places.add(tuple(game.world.position(game.state)[0].tolist()))
        said, attends = game.screen().splitlines()[-2:]
        agent = r"agent: (\w+), (\d+) % sure, value -?[\d.]+"
        name, sure = re.fullmatch(agent, said).groups()
        assert name in game.world.action_names and 0 < int(sure) <= 100
        shares = [int(x) for x in re.findall(r"(\d+) %", attends)]
        named = re.findall("slot 1|slot 2|input", attends)
        assert named == ["slot 1", "slot 2", "input"]
        assert sum(shares) == pytest.approx(100, abs=2)
    assert len(places) > 5
    assert ends > 1
    assert re.search(
        r"last time: (solved|not solved) after \d+ steps|"
        r"last time: not solved, out of steps \(50, and one more\), score",
        game.screen(),
    )
    game.press(" ")
    assert game.pause is None
    before = game.steps
    assert game.press("\x1b[C") and game.steps in (before + 1, 0)
    assert game.press("\x1b[A") and game.press("v") and game.whole
    game.press("n")
    assert game.steps == 0 and "agent:" not in game.screen()
    assert not game.press("q") and not game.press("\x04")


def test_an_agent_that_is_watched_keeps_its_memory(agent):
    """Two games of one seed are alike; without the carried state they would not be."""
    games = [play.Watched(*agent, seed=1) for _ in range(2)]
    for _ in range(5):
        for game in games:
            game.step()
    assert games[0].told == games[1].told
    first = {name: x for name, x in games[0].carry.items() if name.startswith("state")}
    assert first and all(np.abs(x).sum() for x in first.values())


# --- Words that cannot be -------------------------------------------------------------


def test_bad_words_get_one_line_and_write_nothing(agents, monkeypatch, refused):
    monkeypatch.chdir(agents)
    for command, words, says in [
        (plot, "episode nowhere", "nowhere"),
        (plot, "attention rmc", "tinyrmc plot episode rmc shows what its memory"),
        (plot, "episode nth", "nth is a run of 'nth_farthest', which has no world to"),
        (plot, "episode rmc --level 40", "there is no level 40; held-out levels are"),
        (plot, "episode rmc --level -1", "there is no level -1"),
        (plot, "episode rmc --level 1 --wrong", "not allowed with argument --level"),
        (plot, "episode rmc --html page.png", "give a file name that ends in .html"),
        (play, "box_world --agent nth", "which has no world to play in"),
        (play, "box_world --agent pacman", "pacman is a run of 'mini_pacman', whose"),
        (play, "box_world --greedy", "--greedy says how an agent plays"),
        (play, "box_world --agent rmc", "play needs a terminal"),
    ]:
        assert says in refused(command.main, *words.split())
