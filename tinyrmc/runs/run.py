"""Run directories: where a training run keeps its configuration, its metrics and its
checkpoints.

    runs/nth_farthest-quick-3/
        config.json                what was asked for
        environment.json           what it ran on
        metrics.jsonl              one JSON object per line, appended as training goes
        checkpoint.npz             the newest checkpoint
        checkpoint.previous.npz    the one before it
        lock.json                  who is writing all this, while somebody is

This module knows nothing of tasks, models or optimizers: a checkpoint is a dict of
named arrays and a JSON state. Three promises shape it.

*Nothing is half written.* A file is written beside its final place, forced to disk and
only then renamed. Whenever a process is killed, whatever the disk does, a whole
checkpoint remains: the newest or the one before it. A run has one writer at a time (see
`Run.writing`); readers may come whenever they like.

*Nothing wrong is read.* A file of arrays is an ordinary npz (`numpy.load` opens it)
with two text members besides the arrays: `tinyrmc.json` (format, version and the
caller's `meta`) and `sha256`, the digest of every other member's name and bytes.
Nothing is ever pickled or unpickled, so a checkpoint from a stranger runs no code.

*Every failure is one line*: what, why, and what to do now. That line is the text of a
`RunError`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..config import json_text
from ..errors import RunError
from .arrays import save_arrays, unpack
from .files import explained, write_whole
from .lock import locked

# --- The run directory ----------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run directory.

    `config` and `environment` are as JSON gives them back (lists, never tuples).
    """

    path: Path
    config: dict
    environment: dict

    @classmethod
    def create(cls, root, name, config, environment, path=None):
        """Make `root/<name>-<n>` with the next free n, or exactly `path`, and write the
        two JSON files into it.

        Processes that start at the same moment get different numbers. Raises RunError
        when `path` exists or the directory cannot be made.
        """
        parent = Path(root) if path is None else Path(path).parent
        with explained(
            f"make a run directory in {parent}", "choose a writable place with --run"
        ):
            parent.mkdir(parents=True, exist_ok=True)
            candidates = _numbered(parent, name) if path is None else [Path(path)]
            for path in candidates:
                with contextlib.suppress(
                    FileExistsError
                ):  # mkdir decides between processes
                    path.mkdir()
                    break
            else:
                resumed = (
                    f" or resume it with --resume {path}"
                    if (path / "config.json").exists()
                    else ""
                )
                raise RunError(f"{path} exists already; choose another --run{resumed}")
        try:
            write_whole(
                path / "environment.json",
                json_text(environment, indent=2).encode() + b"\n",
            )
            write_whole(
                path / "config.json", json_text(config, indent=2).encode() + b"\n"
            )  # last: it marks a whole run
        except BaseException:
            shutil.rmtree(
                path, ignore_errors=True
            )  # ours alone: mkdir has just made it
            raise
        return cls.open(path)

    @classmethod
    def open(cls, path):
        """Open an existing run directory. Raises RunError when `path` is not one."""
        path = Path(path)
        return cls(
            path,
            _read_object(path / "config.json"),
            _read_object(path / "environment.json"),
        )

    def writing(self):
        """A context for whoever changes the run, which no two processes are in at a
        time. RunError names the one that is.

        Enter it before reading what is to be gone on from: the other might still have
        added to that.
        """
        return locked(self.path)

    @property
    def checkpoint(self):
        return self.path / "checkpoint.npz"

    @property
    def previous_checkpoint(self):
        return self.path / "checkpoint.previous.npz"

    def save(self, arrays, state):
        """Write a checkpoint; the newest one so far becomes the previous one.

        Raises as `save_arrays` does.
        """
        save_arrays(self.checkpoint, arrays, state, previous=self.previous_checkpoint)

    def load(self):
        """(arrays, state) of the newest checkpoint.

        Raises RunError when there is none or it cannot be trusted.
        """
        newest, older, restart = (
            self.checkpoint,
            self.previous_checkpoint,
            "start a new run",
        )
        go_back = (
            f"to go back to the one before it, move {older} there"
            if older.exists()
            else restart
        )
        with explained(f"read {newest}", "make it readable"):
            with contextlib.suppress(FileNotFoundError):
                return unpack(newest.read_bytes(), newest, go_back)
            with contextlib.suppress(
                FileNotFoundError
            ):  # the writer was killed, or is just now, between two renames
                return unpack(older.read_bytes(), older, restart)
        raise RunError(
            f"{self.path} holds no checkpoint: it stopped before the first one was "
            f"saved; {restart}"
        )

    def log(self, line):
        """Append one object to metrics.jsonl.

        Strict JSON for any reader: NaN and infinities become null.
        """
        line = json.loads(json_text(line), parse_constant=lambda not_finite: None)
        with explained(
            f"write {self._metrics_path}", "free some space there, then resume"
        ):
            with open(self._metrics_path, "a", encoding="utf-8") as file:
                file.write(json_text(line) + "\n")

    def metrics(self):
        """All lines of metrics.jsonl as dicts. A last line torn by a crash is left out."""
        if not self._metrics_path.exists():
            return []
        with explained(f"read {self._metrics_path}", "make it readable"):
            lines = self._metrics_path.read_bytes().split(b"\n")
        parsed = []
        for number, line in enumerate(lines, start=1):
            try:
                parsed.append(json.loads(line))
            except ValueError:
                if (
                    number < len(lines)
                    # the last piece is what follows the last newline: nothing, or a torn
                    # line
                ):
                    raise RunError(
                        f"{self._metrics_path} line {number} is not JSON; delete "
                        "that line"
                    ) from None
        return parsed

    def truncate_metrics(self, lines):
        """Keep the first `lines` lines only, so that a resumed run appends where its
        checkpoint was taken.
        """
        kept = self.metrics()[:lines]
        write_whole(
            self._metrics_path,
            "".join(json_text(line) + "\n" for line in kept).encode(),
        )

    @property
    def _metrics_path(self):
        return self.path / "metrics.jsonl"


class Onlooker(Run):
    """A run whose directory another process writes, and whose metrics it reads: here
    both are passed over.
    """

    def writing(self):
        """Nothing."""
        return contextlib.nullcontext()

    def save(self, arrays, state):
        """Nothing."""

    def log(self, line):
        """Nothing."""

    def metrics(self):
        """None."""
        return []

    def truncate_metrics(self, lines):
        """Nothing."""


def _numbered(root, name):
    """The paths `root/<name>-<n>` from the number after the largest one taken."""
    taken = [
        entry.name.removeprefix(f"{name}-")
        for entry in root.iterdir()
        if entry.name.startswith(f"{name}-")
    ]
    first = 1 + max(
        (int(number) for number in taken if re.fullmatch("[0-9]+", number)), default=0
    )
    return (root / f"{name}-{n}" for n in itertools.count(first))


def _read_object(path):
    with explained(f"read {path}", "give the path of a run directory"):
        text = path.read_bytes()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RunError(f"{path} is not a JSON object; restore it or start a new run")
    return value
