"""Playing by hand: what keys do, what the screen says, and a real terminal."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tinyrmc.cli import play
from tinyrmc.environments import box_player
from tinyrmc.environments.box_world import BoxWorld
from tinyrmc.environments.pacman import MiniPacman
from tinyrmc.environments.world import Outcome

ROOT = Path(__file__).resolve().parent.parent
COLOURS = re.compile(r"\x1b\[[\d;]*m")


def rows(game):
    """The level on the screen, as characters."""
    lines = COLOURS.sub("", game.screen()).splitlines()
    return [line[::2] for line in lines if line[1::2].strip() == "" and line.strip()]


def test_arrows_walk_and_the_screen_follows():
    world = BoxWorld(levels=50, room=6, solution_length=1, distractors=0)
    asked = {"D": (0, -1), "A": (-1, 0), "C": (0, 1), "B": (1, 0)}
    walked = set()
    for seed in range(9):
        game = play.Game(world, seed)
        for key, move in asked.items():
            before = game.world.observe(game.state)["position"][0].astype(int)
            assert game.press(f"\x1b[{key}")
            after = game.world.observe(game.state)["position"][0].astype(int)
            assert tuple(after - before) in (move, (0, 0))  # a wall may be there
            walked.add(tuple(after - before))
    assert walked >= {*asked.values()}
    assert "steps 4" in game.screen() and game.world.signs in game.screen()
    assert "space" not in game.screen()
    assert game.press(" ") and game.press("x") and game.steps == 4  # no such action
    assert not game.press("q") and not game.press("\x04")


def test_the_view_is_switched_and_a_new_level_begins():
    game = play.Game(BoxWorld(levels=50))
    small = rows(game)
    assert small[2][2] == "@" and len(small) == 5
    game.press("v")
    assert len(rows(game)) == 14
    before = game.state["level"][0]
    game.press("\x1b[A")
    game.press("n")
    assert game.state["level"][0] != before and game.steps == 0


def test_a_level_that_ends_is_told_of():
    game = play.Game(BoxWorld(levels=5, limit=1))
    game.press("\x1b[A"), game.press("\x1b[A")
    ending = "last time: not solved, out of steps (1, and one more), score 0"
    assert game.screen().endswith(ending) and game.steps == 0


def test_a_level_that_is_solved_is_told_of():
    game = play.Game(BoxWorld(levels=5, solution_length=1, distractors=0))
    plan = game.world.levels.solution(int(game.state["level"][0]))
    for action in plan:
        game.act(action)
    assert game.last == f"solved after {len(plan)} steps, score 11"


def test_pacman_is_told_how_many_levels_he_cleared():
    for level, says in (1, "0 levels"), (2, "1 level"), (3, "2 level"):
        game = play.Game(MiniPacman(limit=2))
        game.state["level"][0] = level
        game.press(" "), game.press(" ")
        assert game.last.startswith(f"out of steps (limit 2), {says}")
        caught = Outcome([0], [True], [False], {"level": [level]})
        told = MiniPacman().ending(caught, "5 steps")
        assert told.startswith(f"caught after 5 steps, {says}")


def test_pacman_can_stay():
    game = play.Game(MiniPacman())
    assert "space: stay" in game.screen()
    before = game.state["pacman"].copy()
    game.press(" ")
    assert game.steps == 1 and (game.state["pacman"] == before).all()


def read_until(terminal, text):
    """Read a terminal until a text has come."""
    shown = b""
    while text not in shown:
        assert select.select([terminal], [], [], 60)[0], f"{text} never came"
        shown += os.read(terminal, 4096)
    return shown


@contextlib.contextmanager
def playing(*words, typed=b""):
    """(the process, the keyboard and screen) of a game; what was typed before it."""
    import pty
    import termios

    leader, follower = pty.openpty()
    before = termios.tcgetattr(leader)
    os.write(leader, typed)
    command = [sys.executable, "-m", "tinyrmc", "play", *words]
    pipes = {"stdin": follower, "stdout": follower, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, cwd=ROOT) as process:
        try:
            yield process, leader
            assert process.stderr.read() == b""
        finally:
            process.kill()
    assert termios.tcgetattr(leader) == before
    os.close(leader), os.close(follower)


def test_it_does_not_wait_forever_for_a_key(monkeypatch):
    """A signal that comes just before it waits is heard when it looks up."""
    waited = []

    def select(files, _, __, seconds):
        waited.append(seconds)
        return files * (len(waited) == 3), [], []

    monkeypatch.setattr(play.select, "select", select)
    monkeypatch.setattr(play.os, "read", lambda file, most: b"q")
    assert next(play._keys(0, play.Game(BoxWorld()))) == "q"
    assert len(waited) == 3 and max(waited) <= 1


LEAVES = b"\x1b[?1049l"  # its screen
terminal = pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")


def test_a_script_plays_and_you_see_what_it_remembers():
    game = play.Scripted(BoxWorld(view="remembered"), box_player.scripted, seed=3)
    unseen = sum(row.count("?") for row in rows(game))
    assert 50 < unseen and game.press("\x1b[C") and game.steps == 1
    for _ in range(200):
        if "solved" in game.last:
            break
        assert sum(row.count("?") for row in rows(game)) <= unseen
        game.press("")  # nobody pressed a key
    assert "solved after" in game.last and "not" not in game.last
    assert game.press(" ") and game.pause is None and not game.press("q")


@terminal
@pytest.mark.slow
def test_in_a_real_terminal():
    with playing("box_world", "--view", "whole") as (process, screen):
        shown = read_until(screen, b"steps 0")
        os.write(screen, b"\x1b[A\x1b[Dvq")
        shown += read_until(screen, LEAVES)
        assert process.wait(60) == 0
    assert b"steps 2" in shown and shown.count(b"\x1b[H") == 4
    with playing("box_world", typed=b"q\n") as (process, screen):
        read_until(screen, LEAVES)
        assert process.wait(60) == 0


@terminal
@pytest.mark.slow
def test_a_terminal_is_as_before_after_a_signal_and_no_key_is_lost():
    with playing("mini_pacman") as (process, screen):
        read_until(screen, b"steps 0")
        os.write(screen, b"\x1b[A" * 100)
        read_until(screen, b"steps 100")
        process.send_signal(signal.SIGTERM)
        read_until(screen, LEAVES)
        assert process.wait(60) == 128 + signal.SIGTERM
