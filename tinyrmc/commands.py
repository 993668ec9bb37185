"""What the command lines share: one-line errors with exit code 2, suggestions for
names, and flags made from dataclasses.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import shutil
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

from .config import flags_of, parse
from .errors import UsageError, UserError
from .training.discovery import place_of, told


class Parser(argparse.ArgumentParser):
    """argparse with errors of one line."""

    def error(self, message):
        """Raise instead of printing the usage first."""
        raise UsageError(f"{message} ({self.prog} --help explains)")


def run_main(main: Callable[[], int]) -> typing.NoReturn:
    """Run a command line's `main`.

    An error of the user's is one line on stderr and exit code 2; Ctrl-C is 130.

    So is any other exception that has passed through a task's own code, with the place
    there; elsewhere it is ours, and left whole.
    """
    try:
        sys.exit(main())
    except UserError as error:
        _refuse(" ".join([str(error), *getattr(error, "__notes__", ())]))
    except ModuleNotFoundError as error:
        _refuse(
            f"{error.name} is not installed for {sys.executable}; use "
            ".venv/bin/python, or pip install -e ."
        )
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


def python() -> str:
    """How to call this Python from here: `python` where that is it, else its path, from
    the current directory if it lies below.
    """
    found, here = shutil.which("python"), Path.cwd()
    if found and Path(found).parent == Path(sys.executable).parent:
        return "python"
    path = Path(sys.executable)
    return shlex.quote(
        str(path.relative_to(here) if path.is_relative_to(here) else path)
    )


@dataclasses.dataclass(frozen=True)
class Options:
    """What does not belong to the task."""

    seed: int = 0
    """seed of everything random in the run: first weights and data"""
    workers: int | None = None
    """processes that share a batch (under mpiexec, of each rank); None: as many as the
    work is worth, one a core at most. Same number, same bits
    """
    device: Literal["cpu", "cuda"] = "cpu"
    """cuda needs CuPy: pip install 'tinyrmc[cuda12]' or 'tinyrmc[cuda13]'"""
    tf32: bool = False
    """with cuda: matrix products may round their operands to TF32, 10 bits of mantissa
    instead of 23, for speed on recent GPUs
    """
    run: Path | None = None
    """the run directory, which must not exist yet; None: the next free
    runs/<task>-<preset>-<n>
    """
    max_minutes: float | None = None
    """stop, save and evaluate after so many minutes of training"""

    def __post_init__(self):
        if self.seed < 0:
            raise ValueError(f"--seed must not be negative, got {self.seed}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"--workers must be at least 1, got {self.workers}")
        if self.tf32 and self.device != "cuda":
            raise ValueError(
                f"--tf32 goes with --device cuda, and the device is {self.device}; "
                "leave --tf32 out, or say --no-tf32"
            )
        if self.max_minutes is not None and not self.max_minutes > 0:
            raise ValueError(f"--max-minutes must be positive, got {self.max_minutes}")


def parse_words(
    task: str, preset: str, default, options: Options, args: list[str]
) -> tuple:
    """(the task's configuration, the options) from flags: --train.steps 100 --seed 1.

    UsageError for what cannot be.
    """
    import tyro

    unnamed, config_kind = tyro.conf.arg(name=""), type(default)
    fields = [
        ("options", Annotated[Options, unnamed]),
        ("config", Annotated[config_kind, unnamed]),
    ]
    both = dataclasses.make_dataclass("Flags", fields, frozen=True)
    prog, known = (
        f"python -m tinyrmc.train {task} {preset}",
        [*flags_of(Options), *flags_of(config_kind), "--resume"],
    )
    about = (sys.modules[config_kind.__module__].__doc__ or "").strip().splitlines()[0]
    flags = parse(
        both,
        both(options, default),
        args,
        prog,
        f"{about} Defaults are those of the preset {preset!r}.",
        known,
    )
    return flags.config, flags.options
