"""What the command lines share: one-line errors with exit code 2, suggestions for names, and flags made from dataclasses."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import re
import shlex
import shutil
import sys
import typing
from collections.abc import Callable
from pathlib import Path

from .backend import DeviceError
from .cores import SettingsError
from .discovery import TaskError, UnknownTask, nearest, place_of, told
from .parallel import WorkerError
from .ranks import LaunchError
from .runs import RunError


class UsageError(Exception):
    """The words of a command line are wrong."""


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message):
        """Raise instead of printing the usage first."""
        raise UsageError(f"{message} ({self.prog} --help explains)")


def run_main(main: Callable[[], int]) -> typing.NoReturn:
    """Run a command line's `main`. An error of the user's is one line on stderr and exit code 2; Ctrl-C is 130.

    So is any other exception that has passed through a task's own code, with the place there; elsewhere it is ours, and left whole.
    """
    try:
        sys.exit(main())
    except (UsageError, RunError, UnknownTask, TaskError, SettingsError, DeviceError, WorkerError, LaunchError) as error:
        _refuse(" ".join([str(error), *getattr(error, "__notes__", ())]))
    except ModuleNotFoundError as error:
        _refuse(f"{error.name} is not installed for {sys.executable}; use .venv/bin/python, or pip install -e .")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # whoever read our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if not place_of(error):
            raise
        _refuse(told(error))


def _refuse(words: str) -> typing.NoReturn:
    print(f"error: {' '.join(words.split())}", file=sys.stderr)
    sys.exit(2)


def fields_of(kind: type, prefix: str = "") -> dict[str, type]:
    """The fields of a (nested, perhaps generic) dataclass by their dotted names, with their types: seed, model.mem_slots, ..."""
    found, hints = {}, typing.get_type_hints(kind, include_extras=False)
    for field in dataclasses.fields(kind):
        nested, name = dataclasses.is_dataclass(hints[field.name]), f"{prefix}{field.name}"
        found |= fields_of(hints[field.name], f"{name}.") if nested else {name: hints[field.name]}
    return found


def flags_of(kind: type) -> list[str]:
    """All flags that the fields of a dataclass make: --seed, --model.mem-slots, and for a bool also --model.no-activate-final."""
    return [flag for name, of in fields_of(kind).items() for flag in (flag_of(name), *([flag_of(name, no=True)] if of is bool else []))]


def flag_of(field: str, no: bool = False) -> str:
    """The flag that sets a field, or that switches it off."""
    *path, name = field.split(".")
    return "--" + ".".join([*path, f"no-{name}" if no else name]).replace("_", "-")


def parse(kind: type, default, args: list[str], prog: str, description: str, known: list[str]):
    """A dataclass from flags, by tyro. `known` are the flags there are, for suggestions. UsageError with one line for bad words."""
    import tyro

    for word in args:
        flag = word.split("=")[0].replace("_", "-")
        if word.startswith("--") and flag not in (*known, "--help"):
            raise UsageError(f"unknown flag {word!r}{nearest(flag, known)} ({prog} --help lists them)")
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(kind, default=default, args=args, prog=prog, description=description)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(f"{_one_line(complaint.getvalue(), args)} ({prog} --help explains)") from None
    except ValueError as error:  # the options refused their values, which tyro lets through
        raise UsageError(f"{error} ({prog} --help explains)") from None


def _one_line(box: str, args: list[str]) -> str:
    """What tyro says in a box of several lines, in one: which flag, what it takes, what it got."""
    lines = [re.sub(r"[\u2500-\u257f]+|-{5,}", " ", line).strip(" |+") for line in box.splitlines()]  # without the box
    text = " ".join(" ".join(lines).split()).split("For full helptext")[0].strip()
    if choice := re.search(r"invalid choice '(.*?)' for argument '(--[\w.-]+)'.*Expected one of \((.*?)\)", text):
        word, flag, known = choice.groups()
        known = re.findall(r"'(.*?)'", known)
        return f"{flag} is one of {', '.join(known)}, not {word!r}{nearest(word, known)}"
    if kind := re.search(r"Error parsing (--[\w.-]+): .*Argument helptext: .*?\1 (\[[A-Z .[\]]+\]|\S+)", text):
        flag, takes = kind.groups()
        after = [word for k, word in enumerate(args) if k and args[k - 1].replace("_", "-") == flag]
        after += [word.partition("=")[2] for word in args if word.replace("_", "-").startswith(f"{flag}=")]
        return f"{flag} takes {takes.replace('{None}|', '')}, not {after[-1]!r}" if after else f"{flag} takes {takes}"
    return re.sub(r"^([A-Z][a-z]+ (error|argument|options) )?(Error parsing [\w.]+: )?", "", text)  # a dataclass's own words on its values


def python() -> str:
    """How to call this Python from here: `python` where that is it, else its path, from the current directory if it lies below."""
    found, here = shutil.which("python"), Path.cwd()
    if found and Path(found).parent == Path(sys.executable).parent:
        return "python"
    path = Path(sys.executable)
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def percent(value: float | None) -> str:
    """A fraction as people read it."""
    return "" if value is None or value != value else f"{100 * value:.1f} %"


def number(metric: str, value: float | None) -> str:
    """The value of a metric as people read it: in percent what is called accuracy."""
    return percent(value) if "accuracy" in metric else "" if value is None else f"{value:.4f}"


def counted(number: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def markdown_table(rows: list[list[str]]) -> str:
    """A table in Markdown; the first row is its head."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def results_table(metrics: dict, references: dict[str, dict[str, float]]) -> str:
    """The held-out metrics, each beside its floors and published numbers."""
    labels = list(dict.fromkeys(label for values in references.values() for label in values))
    rows = [["", "this run", *labels]]
    for name in (n for n in metrics if n.startswith("test_")):
        known = references.get(name, {})
        rows.append([name.replace("_", " "), *(number(name, value) for value in (metrics[name], *map(known.get, labels)))])
    return aligned(rows)


def aligned(rows: list[list[str]]) -> str:
    """Rows of equally many cells as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]) for row in rows
    )


def duration(seconds: float) -> str:
    """Seconds as h:mm:ss or m:ss."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
