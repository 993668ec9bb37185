"""Play a world in the terminal, with the arrow keys.

    python -m tinyrmc play box_world
    python -m tinyrmc play mini_pacman --view whole
    python -m tinyrmc play box_world --agent RUN
    python -m tinyrmc play box_world --script

You see what an agent sees, a window around you; `v` switches to the whole board and
back. The world waits for you: nothing moves until you press a key.

With `--agent` a trained agent plays in the world of its run, four steps a second, and
below the level you read what it did and what its memory attended to. With `--script` a
script plays: in BoxWorld one that forgets nothing, and you see what it has seen so far;
in MiniPacman one that sees the whole maze.
"""

from __future__ import annotations

import os
import pkgutil
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import Array, blas_threads
from ..backend.seeds import generator
from ..environments import WORLDS
from ..environments.world import VIEWS, Outcome, State, World
from ..errors import UsageError, counted
from ..results.episodes import once_more, require_world, think
from ..training.networks import open_checkpoint, restore_model
from ..training.rl.actors import ActingTask
from ..training.run import under
from .commands import MOVED, Parser, add_core, at_least, program

# what a terminal sends -> the name of an action
KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    " ": "stay",
}
HELP = "arrows: walk   v: view   n: new level   q: quit"
HELP_SHOWN = (
    "space: stop and go   right arrow: one step   v: view   n: new level   q: quit"
)
PAUSE = 0.25  # seconds between the steps of an agent
_HOME = "\x1b[H\x1b[J"  # to the upper left, and wipe what is there
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of its own


class Game:
    """A world's levels, one after another.

    To play, call `act`, or `press` with what a keyboard sent, and print `screen()`.
    `state` holds the level that is being played.
    """

    pause: float | None = None  # seconds until it goes on by itself
    help = HELP

    def __init__(self, world: World, seed: int = 0, whole: bool = False):
        self.world, self.whole = world, whole
        if "stay" in world.action_names:
            self.help = HELP.replace("walk", "walk   space: stay")
        self.rng = generator(seed)
        self.last = ""  # how the level before this one went
        self.begin()

    def begin(self) -> None:
        """A new level."""
        noise = self.rng.random((1, self.world.start_noise), np.float32)
        self.state = self.world.start(noise)
        self.score, self.steps = 0.0, 0

    def act(self, action: int) -> None:
        """One step of the world; after a level's last step the next level has begun."""
        noise = self.rng.random((1, self.world.noise), np.float32)
        taken = np.array([action])
        outcome = self.world.step(self.state, taken, noise, keep_final=True)
        self.score += float(outcome.reward[0])
        self.steps += 1
        if outcome.ended[0]:
            self.end(outcome)

    def end(self, outcome: Outcome) -> None:
        """The level is over, and the next one has begun."""
        ending = self.world.ending(outcome, counted(self.steps, "step"))
        self.last = f"{ending}, score {self.score:g}"
        self.score, self.steps = 0.0, 0

    def press(self, key: str) -> bool:
        """Do what a key asks for. False: the game is over."""
        if key == "v":
            self.whole = not self.whole
        elif key == "n":
            self.begin()
        elif KEYS.get(key) in self.world.action_names:
            self.act(self.world.action_names.index(KEYS[key]))
        return key not in ("q", "\x04")  # or Ctrl-D

    def screen(self) -> str:
        """The level and the score, as lines for a terminal."""
        level = self.world.text(self.state, 0, self.whole)
        score = f"score {self.score:g}   steps {self.steps}"
        lines = [self.help, self.world.signs, "", level, score]
        return "\n".join(lines + ([f"last time: {self.last}"] if self.last else []))


class Shown(Game):
    """A game in which another plays, by `step`, and you look on."""

    def __init__(self, world: World, seed: int = 0, whole: bool = False):
        super().__init__(world, seed, whole)
        self.pause, self.help = PAUSE, HELP_SHOWN  # no key walks

    def step(self) -> None:
        """One step of the player."""
        raise NotImplementedError

    def press(self, key: str) -> bool:
        """Take a key, as in a game that you play; without one, go on."""
        if key == " ":
            self.pause = None if self.pause else PAUSE
        elif key in ("", "\x1b[C"):
            self.step()
        elif key in "vnq\x04":
            return super().press(key)
        return True


class Scripted(Shown):
    """Played by a script, which learnt nothing: script(world, state) -> actions."""

    def __init__(
        self, world, script: Callable[[Any, State], Array], seed=0, whole=False
    ):
        super().__init__(world, seed, whole)
        self.script = script

    def step(self) -> None:
        """One step of the script."""
        self.act(int(self.script(self.world, self.state)[0]))


class Watched(Shown):
    """Played by a trained agent."""

    def __init__(self, task: ActingTask, model, seed=0, whole=False, greedy=False):
        self.task = task
        self.model = model
        self.greedy = greedy
        super().__init__(task.held_out_world, seed, whole)

    def begin(self) -> None:
        """A new level, of which the agent knows nothing."""
        super().begin()
        self.carry = self.task.begin(self.model, self.state)
        self.told = ""

    def step(self) -> None:
        """One step of the agent."""
        noise = self.rng.random((1, 1, 1 + self.world.noise), np.float32)
        trajectory, self.carry = self.task.act(
            self.model, self.world, self.carry, noise, self.greedy
        )
        before = self.state
        self.state = under("levels/", self.carry)
        policy, values, attention = think(self.task, self.model, trajectory)
        taken = trajectory["taken"][0, 0]
        name = self.world.action_names[taken]
        sure = 100 * policy[0, 0, taken]
        self.told = f"agent: {name}, {sure:.0f} % sure, value {values[0, 0]:.2f}"
        if attention is not None:
            shares = 100 * attention[0, 0].mean(axis=(0, 1))  # of heads and slots
            slots, columns = attention.shape[3:]
            names = [f"slot {k + 1}" for k in range(slots)]
            names += ["input"] * (columns - slots)
            pairs = zip(names, shares, strict=True)
            said = ", ".join(f"{name} {share:.0f} %" for name, share in pairs)
            self.told += f"\nattends to {said}"
        self.score += float(trajectory["gained"][0, 0])
        self.steps += 1
        if trajectory["ended"][0, 0]:
            self.end(once_more(self.world, before, trajectory, noise))

    def screen(self) -> str:
        """The level, and what the agent thought when it took its last step."""
        return f"{super().screen()}\n{self.told}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    epilog = f"{HELP}\nwith --agent or --script: {HELP_SHOWN}"
    parser = Parser(program("play"), "Play a world in the terminal.", epilog=epilog)
    add = parser.add_argument
    says = " or ".join(WORLDS)
    add("world", choices=WORLDS, metavar="WORLD", help=says)
    says = "what you see at first (default: %(default)s)"
    add("--view", choices=VIEWS, default=VIEWS[0], help=says)
    says = "the same one and the same keys give the same game (default: 0)"
    add("--seed", type=at_least(0), default=0, metavar="N", help=says)
    says = "let the agent of this run play, in its run's world: a run directory, "
    says += "checkpoint.npz or weights file"
    add("--agent", type=Path, metavar="RUN", help=says)
    says = "it takes the likeliest action, instead of drawing one from its policy"
    add("--greedy", action="store_true", help=says)
    says = "let a script play that learnt nothing, but sees or remembers all"
    add("--script", action="store_true", help=says)
    add_core(parser, MOVED)
    options = parser.parse_args(argv)
    if options.script and options.agent is not None:
        raise UsageError("--script and --agent both play; give one of them")
    if options.greedy and options.agent is None:
        raise UsageError("--greedy says how an agent plays; give one with --agent")
    whole = options.view == "whole"
    game: Game
    place, script, how = WORLDS[options.world]
    kind = pkgutil.resolve_name(place)
    if options.script:
        player = pkgutil.resolve_name(script)
        game = Scripted(kind(**how), player, options.seed, whole)
    elif options.agent is None:
        game = Game(kind(), options.seed, whole)
    else:
        task, arrays, state = open_checkpoint(options.agent)
        agents = require_world(task, name := state["run"]["task"], options.agent)
        if type(agents.held_out_world) is not kind:
            raise UsageError(
                f"{options.agent} is a run of {name!r}, whose agent cannot play "
                f"{options.world}; give one of {options.world}"
            )
        model = restore_model(task, arrays, state)
        game = Watched(agents, model, options.seed, whole, options.greedy)
    with blas_threads(1), _keyboard(game) as keys:
        print(_HOME + game.screen(), end="", flush=True)
        for key in keys:
            if not game.press(key):
                break
            print(_HOME + game.screen(), end="", flush=True)
    return 0


@contextmanager
def _keyboard(game: Game) -> Iterator[Iterator[str]]:
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
    previous = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    print(_ENTER, end="")
    try:
        tty.setcbreak(file, termios.TCSADRAIN)  # what was typed meanwhile counts
        yield _keys(file, game)
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        print(_LEAVE, end="", flush=True)
        signal.signal(signal.SIGTERM, previous)


def _keys(file: int, game: Game) -> Iterator[str]:
    """The keys pressed, one by one, until the terminal closes; "" when the game goes on
    by itself.
    """
    while True:
        # it looks up every second: a signal just before `select` does not end it
        if not select.select([file], [], [], game.pause or 1)[0]:
            if game.pause:
                yield ""
        # all that a terminal holds, so that no arrow, three bytes, is cut in two
        elif typed := os.read(file, 4096).decode(errors="replace"):
            yield from re.findall(r"\x1b\[.|.", typed, re.DOTALL)
        else:
            return
