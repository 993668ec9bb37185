"""Play a world in the terminal, with the arrow keys.

    python -m tinyrmc.play box_world
    python -m tinyrmc.play mini_pacman --view whole

You see what an agent sees, a window around you; `v` switches to the whole board and
back. The world waits for you: nothing moves until you press a key.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from .commands import Parser, program, run_main
from .environments.box_world import VIEWS, BoxWorld
from .environments.pacman import MiniPacman
from .environments.world import Outcome, World
from .errors import UsageError

WORLDS: dict[str, type[World]] = {"box_world": BoxWorld, "mini_pacman": MiniPacman}

# what a terminal sends -> the name of an action
KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    " ": "stay",
}
HELP = "arrows: walk   v: view   n: new level   q: quit"
_HOME = "\x1b[H\x1b[J"  # to the upper left, and wipe what is there
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own


class Game:
    """One level after the other of a world.

    Whoever plays it calls `act`, or `press` with what a keyboard sent, and prints
    `screen()`. `state` has the one level for an agent to observe.
    """

    def __init__(self, world: World, seed: int = 0, whole: bool = False):
        self.world, self.whole = world, whole
        self.rng = np.random.default_rng(seed)
        self.last = ""  # how the level before this one went
        self.begin()

    def begin(self) -> None:
        """A new level."""
        noise = self.rng.random((1, self.world.start_noise), np.float32)
        self.state = self.world.start(noise)
        self.score, self.steps = 0.0, 0

    def act(self, action: int) -> Outcome:
        """One step of the world; after the last of a level the next one has begun."""
        noise = self.rng.random((1, self.world.noise), np.float32)
        outcome = self.world.step(self.state, np.array([action]), noise)
        self.score += float(outcome.reward[0])
        self.steps += 1
        if outcome.ended[0]:
            why = "over" if outcome.terminated[0] else "out of steps"
            self.last = f"{why} after {self.steps} steps, score {self.score:g}"
            self.score, self.steps = 0.0, 0
        return outcome

    def press(self, key: str) -> bool:
        """What a key does. False: it ends the game."""
        if key == "v":
            self.whole = not self.whole
        elif key == "n":
            self.begin()
        elif KEYS.get(key) in self.world.action_names:
            self.act(self.world.action_names.index(KEYS[key]))
        return key != "q"

    def screen(self) -> str:
        """The level and the score, as lines for a terminal."""
        level = self.world.text(self.state, 0, self.whole)
        score = f"score {self.score:g}   steps {self.steps}"
        lines = [HELP, "", level, score]
        return "\n".join(lines + ([f"last level: {self.last}"] if self.last else []))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.seed < 0:
        raise UsageError(f"--seed must not be negative, not {options.seed}")
    game = Game(WORLDS[options.world](), options.seed, options.view == "whole")
    with _keyboard() as keys:
        _show(game)
        for key in keys:
            if not game.press(key):
                break
            _show(game)
    return 0


def _parser() -> Parser:
    parser = Parser(program("play"), "Play a world in the terminal.", epilog=HELP)
    parser.add_argument(
        "world", choices=WORLDS, metavar="WORLD", help=" or ".join(WORLDS)
    )
    parser.add_argument(
        "--view",
        choices=VIEWS,
        default=VIEWS[0],
        help="what you see at first (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the same one gives the same levels (default: 0)",
    )
    return parser


def _show(game: Game) -> None:
    print(_HOME + game.screen(), end="", flush=True)


@contextmanager
def _keyboard() -> Iterator[Iterator[str]]:
    """Keys as they are pressed, without Enter. Afterwards the terminal is as before."""
    try:
        import termios
        import tty
    except ModuleNotFoundError:
        raise UsageError(
            "play reads single keys from a Unix terminal, which this system does not "
            "have; on Windows, run it in WSL"
        ) from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("play needs a terminal, for the keys and for the picture")
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    print(_ENTER, end="")
    try:
        tty.setcbreak(file)
        yield _keys(file)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        print(_LEAVE, end="", flush=True)


def _keys(file: int) -> Iterator[str]:
    """The keys pressed, one by one, until the terminal closes."""
    while typed := os.read(file, 64).decode(errors="replace"):
        yield from re.findall(r"\x1b\[.|.", typed, re.DOTALL)


if __name__ == "__main__":
    run_main(main)
