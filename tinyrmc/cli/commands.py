"""Shared by the command lines: one style of help, errors of one line with exit code 2,
and the flags that train a task.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import io
import itertools
import math
import os
import re
import shlex
import shutil
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

from ..config import (
    changed,
    choices,
    descriptions,
    flag_of,
    hints_of,
    value_of,
    values_of,
    wanted,
    words_of_value,
)
from ..cores.config import CoreConfig, unused
from ..errors import UsageError, UserError, nearest, why


def program(command: str) -> str:
    """The words that called this: `tinyrmc train`, or `python -m tinyrmc.train`."""
    called = Path(sys.argv[0])
    if called.stem == "tinyrmc":
        return f"tinyrmc {command}"
    door = command == "train" and called.parts[-2:] != ("tinyrmc", "__main__.py")
    return f"python -m tinyrmc{'.' if door else ' '}{command}"


# A word that begins with a hyphen and is a number, not a flag.
NEGATIVE = re.compile(r"-((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf)$", re.IGNORECASE)


def asked_by_shell() -> tuple[list[str], str]:
    """(the whole words, the word begun) of a line that a shell asks how to complete."""
    from argcomplete.lexers import split_line

    line = os.environ["COMP_LINE"]
    point = int(os.environ["COMP_POINT"])
    _, begun, _, words, _ = split_line(line, point)
    return words, begun


def complete(words: Sequence[str], known: Iterable[str]) -> None:
    """Answer a shell that asks for a command, a task's name, or its preset's."""
    from ..training.discovery import load_task, task_files

    if words:
        if words[0] not in ("train", "sweep") or len(words) > 2:
            return
        known = load_task(words[1]).Task.presets if len(words) > 1 else task_files()
    if not asked_by_shell()[1].startswith("-"):
        parser = Parser("", "")
        parser.add_argument("name", choices=[*known])
        parser.parse_args([])


def hyphenated(word: str) -> str:
    """A flag as it is spelt here; other words, and what follows "=", as they are."""
    flag, sign, value = word.partition("=")
    return flag.replace("_", "-") + sign + value if flag.startswith("--") else word


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line, and suggestions for unknown flags."""

    def __init__(self, prog: str, description: str, **keywords: Any):
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=functools.partial(
                _HelpFormatter,
                max_help_position=30,
                width=min(shutil.get_terminal_size().columns, 88),
            ),
            **keywords,
        )
        self._negative_number_matcher = NEGATIVE  # argparse's own knows no exponents

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError, instead of printing and leaving."""
        message = re.sub("^argument (--[a-z-]+): ", r"\1 ", message)
        raise UsageError(message, f"{self.prog} --help explains")

    def parse_known_args(self, args=None, namespace=None):
        """As argparse does. Flags may have underscores, as fields do, and a switch may
        be told its value after an equals sign.
        """
        words = [*map(hyphenated, sys.argv[1:] if args is None else args)]
        for k, word in enumerate(words):
            flag, _, value = word.partition("=")
            action = self._option_string_actions.get(flag)
            if isinstance(action, _Field) and action.nargs == 0:
                no = (action.const or [flag])[0]  # a switch
                if flag != no and value.lower() in ("true", "false"):
                    words[k] = flag if value.lower() == "true" else no
        return super().parse_known_args(words, namespace)

    def parse_args(self, args=None, namespace=None):
        """The namespace. UsageError for words that nothing takes."""
        if "_ARGCOMPLETE" in os.environ:
            import argcomplete

            # how many words are ahead of those that this parser reads
            ahead = len(asked_by_shell()[0]) - len(args or ())
            os.environ["_ARGCOMPLETE"] = str(ahead)
            argcomplete.autocomplete(self, always_complete_options="long")
        found, rest = self.parse_known_args(args, namespace)
        if not rest:
            return found
        flag = next((word for word in rest if word.startswith("--")), None)
        if flag is None:
            self.error(f"unexpected {rest[0]!r}")
        near = nearest(flag.partition("=")[0], self._option_string_actions)
        hint = f"{self.prog} --help lists them"
        raise UsageError(f"unknown flag {flag!r}{near}", hint)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Takes descriptions as they are, and metavars that say what is repeated."""

    def _format_args(self, action, default_metavar):
        if action.nargs == "*" and isinstance(action.metavar, str):
            return action.metavar
        return super()._format_args(action, default_metavar)


def run_main(main: Callable[[], int]) -> NoReturn:
    """Run a command line's `main`: a user's error is one line on stderr, exit code 2.

    The same goes for what the system refuses (memory, a full disk, too many open files,
    a name too long), and for any exception that has passed through a task's own code,
    told with the place there. Any other is a bug of ours, and keeps its traceback.
    Ctrl-C ends with exit code 130.
    """
    for name, mode in ("stdin", "r"), ("stdout", "w"), ("stderr", "w"):
        if getattr(sys, name) is None:  # it was closed before we started
            setattr(sys, name, open(os.devnull, mode))  # so no file takes its number
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):  # ? for what it cannot show
            sys.stdout.reconfigure(errors="replace")
        try:
            code = main()
        finally:
            print(end="", flush=True)  # if this fails, it is told here, not at the exit
        sys.exit(code)
    except UserError as error:
        _refuse(" ".join([str(error), *getattr(error, "__notes__", ())]))
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # our reader, `head` say, has seen enough
        _drop_output()
        sys.exit(141)
    except Exception as error:
        _refuse(_in_words(error))


def _in_words(error: Exception) -> str:
    """The words for an exception of the system's or a task's; a bug is raised again."""
    from ..training.discovery import described, place_of

    if place_of(error):
        return described(error)
    if isinstance(error, ModuleNotFoundError) and "tinyrmc" not in str(error.name):
        return (
            f"{error.name} is not installed for {sys.executable}; use "
            ".venv/bin/python, or pip install -e ."
        )
    if isinstance(error, MemoryError):
        return f"out of memory{str(error) and ': '}{error}; ask for less"
    if not isinstance(error, OSError):
        raise error
    name = f": {error.filename}" if error.filename else ""
    notes = getattr(error, "__notes__", ())
    return " ".join([f"the system refuses: {why(error)}{name}", *notes])


def _refuse(words: str) -> NoReturn:
    """Say it in one line; leave with exit code 2. Lines are sentences."""
    lines: list[str] = []
    for line in filter(None, (" ".join(each.split()) for each in words.split("\n"))):
        if lines and "A" <= line[0] <= "Z" and lines[-1][-1] not in ".:;,?!":
            lines[-1] += "."
        lines.append(line)
    with contextlib.suppress(OSError):  # nobody can be told
        print(f"error: {' '.join(lines)}", file=sys.stderr, flush=True)
    try:
        print(end="", flush=True)
    except OSError:
        _drop_output()
    sys.exit(2)


def _drop_output() -> None:
    """Let standard output go nowhere, so that nothing is written to it at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- Words that commands share --------------------------------------------------------


OWN_CORES = "a file with cores of your own, for --model.core (tinyrmc.register_core)"
MOVED = "where a core of your own is that a run needs, if its file has moved"


def add_places(
    parser: Parser,
    data: str = "where the data of the run's task are, if they have moved",
    core: str = MOVED,
) -> None:
    """Give a command that opens runs the flags that say where their data and cores
    are.
    """
    parser.add_argument("--data-dir", type=Path, metavar="FOLDER", help=data)
    add_core(parser, core)


def add_core(parser: argparse.ArgumentParser, says: str = OWN_CORES) -> None:
    """Give a command the flag that names files with cores, which are loaded at once."""
    parser.add_argument("--core", action=_Core, default=[], metavar="FILE", help=says)


class _Core(argparse.Action):
    """Registers the cores of a file, and keeps its name."""

    def __call__(self, parser, namespace, values, option_string=None):
        from ..training.discovery import load_cores

        load_cores([values])
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), values])


def at_least(least: int, kind: Callable = int) -> Callable[[str], Any]:
    """The argparse type of a number that must not be smaller."""

    def number(word: str) -> Any:
        if not least <= (value := kind(word)) < math.inf:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {word}")
        return value

    number.__name__ = kind.__name__  # argparse says: invalid int value
    return number


def html_file(word: str) -> Path:
    """The argparse type of a page to be written."""
    if word.lower().endswith(".html") and Path(word).parent.is_dir():
        return Path(word)
    raise argparse.ArgumentTypeError(
        f"{word}: give a file name that ends in .html, in a folder that exists"
    )


def python() -> str:
    """How to call this Python from here: `python` if that is it, else its path."""
    found = shutil.which("python")
    path = Path(sys.executable)
    if found and Path(found).parent == path.parent:
        return "python"
    here = path.is_relative_to(Path.cwd())
    return shlex.quote(str(path.relative_to(Path.cwd()) if here else path))


def leading_names(words: Sequence[str], most: int = 2) -> tuple[list[str], list[str]]:
    """(the names before the first flag, `most` of them at most; the other words)."""
    names = [*itertools.takewhile(lambda word: word[:1] != "-", words[:most])]
    return names, list(words[len(names) :])


# --- The flags of a configuration -----------------------------------------------------


class _Field(argparse.Action):
    """Puts the value of one field, under its dotted name, into the namespace."""

    hint: Any  # the type of the field

    def __call__(self, parser, namespace, values, option_string=None):
        if not values and self.const is not None:  # a switch
            value = option_string not in self.const
        else:
            if typing.get_origin(self.hint) is tuple:  # --flag="2 1 3 1"
                values = " ".join(values).split()
            try:
                value = value_of(self.hint, values)
            except ValueError as error:
                more = "; --core FILE brings one of your own"
                more *= self.dest == "model.core" and "did you mean" not in str(error)
                parser.error(f"{self.option_strings[0]} {error}{more}")
        setattr(namespace, self.dest, value)


def _words(known: Iterable[str]) -> Callable[..., list[str]]:
    """A completer of these words, as argcomplete asks for it."""
    return lambda **_: [*known]


def add_flags(
    parser: argparse.ArgumentParser, default: Any, title: str, prefix: str = ""
) -> None:
    """Give a parser a flag for every field of the dataclass instance `default`.

    Fields of the same dataclass stand together, under `title` and the first line of the
    class's docstring. Each flag begins with the prefix: "world." makes `--world.room`.
    `from_flags`, given the same prefix, reads what was parsed.
    """
    kind: Any = type(default)
    says = descriptions(kind)
    hints = hints_of(kind)
    about = (kind.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    if about.startswith(f"{kind.__name__}("):  # a dataclass without a docstring
        about = ""
    group = parser.add_argument_group(f"{title}: {about}" if about else title)
    nested = {}
    for each, value in values_of(default).items():
        name = prefix + each
        if dataclasses.is_dataclass(value):
            nested[name] = value
            continue
        words = " ".join(words_of_value(value)) or "none"
        text = f"{says.get(each, '')} (default: {words})".strip()
        action: Any
        hint = hints[each]
        yes = flag_of(name)
        no = flag_of(name, no=True)
        keywords: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
        keywords |= {"help": text.replace("%", "%%"), "action": _Field}
        if hint is bool:  # a flag that says yes, and one that says no
            action = group.add_argument(yes, no, nargs=0, const=[no], **keywords)
        else:
            takes, listed = wanted(hint)
            if len(takes) > 60:  # no line of the help would hold it
                takes = "NAME"
                known = choices(hint)
                if not all(word in text for word in known):
                    keywords["help"] = f"{listed}; {keywords['help']}"
            asks = "_ARGCOMPLETE" in os.environ and "tuple" not in str(hint)
            keywords |= {"nargs": 1 if asks else "*", "metavar": takes}
            if hint == bool | None:
                keywords |= {"const": [no], "metavar": f"[{takes}]"}
                hidden = {**keywords, "nargs": 0, "help": argparse.SUPPRESS}
                group.add_argument(no, **hidden)
            action = group.add_argument(yes, **keywords)
        action.hint = hint
        if Path not in (hint, *typing.get_args(hint)):  # else a shell knows files
            action.completer = _words(choices(hint))
        action.rare = each not in getattr(kind, "common", [each])
    for name, value in nested.items():
        add_flags(parser, value, name, f"{name}.")


def from_flags(default: Any, flags: argparse.Namespace, prefix: str = "") -> Any:
    """The configuration `default` with the values that were given as flags.

    ValueError, from the dataclass itself, if it refuses them.
    """
    changes: dict[str, Any] = {}
    for each, value in values_of(default).items():
        name = prefix + each
        if dataclasses.is_dataclass(value):
            changes[each] = from_flags(value, flags, f"{name}.")
        elif hasattr(flags, name):
            changes[each] = getattr(flags, name)
    return changed(default, changes)


# --- The words that train a task ------------------------------------------------------


def task_and_preset(names: Sequence[str]) -> tuple[Any, str]:
    """The class `Task` that the first word names, and the preset of the second; without
    one, the first. UsageError if there is none of that name.
    """
    from ..training.discovery import load_task

    if not names:
        raise UsageError(
            f"the first word must be a task; `{program('train')}` lists them"
        )
    kind = load_task(names[0]).Task
    preset = names[1] if len(names) > 1 else next(iter(kind.presets))
    if preset not in kind.presets:
        raise UsageError(
            f"unknown preset {preset!r} of {names[0]} ({', '.join(kind.presets)})"
            f"{nearest(preset, kind.presets)}"
        )
    return kind, preset


@dataclasses.dataclass(frozen=True)
class Options:
    """How and where to run; what is computed is the task's own configuration."""

    common: ClassVar = ("seed", "workers", "device", "run", "max_minutes")

    seed: int = 0
    """seed of everything random in the run: first weights and data"""
    workers: int | None = None
    """processes that share a batch (under mpiexec, for each rank); None: as many as the
    work is worth, at most one a core. The same number gives the same bits"""
    device: Literal["cpu", "cuda"] = "cpu"
    """cuda needs CuPy: pip install 'tinyrmc[cuda12]' or 'tinyrmc[cuda13]'; Volta and
    older GPUs need cuda12"""
    graph: bool | None = None
    """with cuda: capture whole steps as CUDA graphs, which spares the host; None: where
    that is possible. The results are the same to the last bit"""
    tf32: bool = False
    """with cuda: matrix products may round their operands to TF32, 10 bits of mantissa
    instead of 23, for speed on recent GPUs"""
    plain: bool = False
    """no fused operations: every core composed of basic primitives and of the functions
    in equations.py, which is slower and plainer; the results agree but for rounding"""
    compiled: bool = True
    """on a CPU, operations compiled by Numba where `pip install 'tinyrmc[fast]'` has
    brought it; the results agree but for rounding. They take seconds to compile, once
    """
    run: Path | None = None
    """the run directory, which must not exist yet; None: the next free
    runs/<task>-<preset>-<n>"""
    max_minutes: float | None = None
    """stop early enough that the final evaluation ends within this many minutes; at
    least half of them go to training"""
    init: Path | None = None
    """begin from the weights of this run, file or shipped network, where names and
    shapes agree"""
    final_evaluation: bool = True
    """measure on all held-out sets at the end, which `--resume` makes up for"""
    log: Literal["metrics", "tensorboard"] = "metrics"
    """tensorboard: event files in the run, too (pip install 'tinyrmc[tensorboard]')"""

    def __post_init__(self):
        if self.seed < 0:
            raise ValueError(f"--seed must not be negative, got {self.seed}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"--workers must be at least 1, got {self.workers}")
        for flag, given in ("graph", self.graph), ("tf32", self.tf32):
            if given and self.device != "cuda":
                raise ValueError(
                    f"--{flag} goes with --device cuda, and the device is "
                    f"{self.device}; leave --{flag} out, or say --no-{flag}"
                )
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"--max-minutes must be positive, got {self.max_minutes}")


def _idle_with(default: Any, words: Sequence[str]) -> list[str]:
    """The fields of `model` without effect on the core that words ask for, if any."""
    flag, model = "--model.core", getattr(default, "model", None)
    spelt = " ".join(words).replace(f"{flag}=", f"{flag} ").split()
    if isinstance(model, CoreConfig) and flag in spelt[:-1]:
        core = spelt[spelt.index(flag) + 1]
        with contextlib.suppress(ValueError):
            model = dataclasses.replace(model, core=core)
            return unused(model)
    return []


def parse_words(
    task: str, preset: str, default: Any, options: Options, words: Sequence[str]
) -> tuple[Any, Options]:
    """(the task's configuration, the options) from flags: --train.steps 100 --seed 1.

    `default` and `options` hold where the words say nothing. UsageError for words that
    make no valid configuration.
    """
    about = (sys.modules[type(default).__module__].__doc__ or "").strip()
    first = " ".join(about.partition("\n\n")[0].split())
    parser = Parser(
        f"{program('train')} {task} {preset}",
        f"{textwrap.fill(first, 80)}\n\nDefaults are those of the preset {preset!r}.",
        usage="%(prog)s [--flags]",
    )
    parser.add_argument("--resume", metavar="RUN", help="go on with this run")
    add_core(parser)
    whole = parser.add_argument("--help-all", action="help")
    add_flags(parser, options, "run")
    try:
        add_flags(parser, default, task)
    except argparse.ArgumentError as error:
        field = f"{type(default).__name__}'s field for {error.message.split()[-1]}"
        says = "needs another name: every task has this flag already"
        raise UsageError(f"{field} {says}") from None
    idle = _idle_with(default, words)
    rare = []
    for action in parser._actions:
        of_model, dot, name = action.dest.partition("model.")
        hidden = getattr(action, "rare", False)
        if idle and dot and not of_model:  # what the core asked for does not use
            hidden = name.partition(".")[0] in idle
        rare += [action] * hidden
    whole_list = "--help-all" in words or "_ARGCOMPLETE" in os.environ
    for action in () if whole_list else rare:
        action.help = argparse.SUPPRESS
    whole.help = f"show {len(rare)} more flags"
    if hasattr(default, "model") and not idle:
        whole.help += "; with --model.core NAME --help has those of this core"
    flags = parser.parse_args(words)
    try:
        return from_flags(default, flags), from_flags(options, flags)
    except ValueError as error:
        parser.error(str(error))
