"""A run on disk: its directory, its files, and the task and network in them again.

    runs/nth_farthest-quick-3/
        config.json                what was asked for
        environment.json           what it ran on
        metrics.jsonl              one JSON object per line, appended as training goes
        checkpoint.npz             the newest checkpoint
        checkpoint.previous.npz    the one before it
        best.npz                   the weights that did best on the validation set
        lock.json                  who is writing all this, while somebody is

A run directory, its checkpoint and a weights file all hold the run's configuration, so
each is enough to have the trained network again. Two promises shape this file.

*Nothing is half written.* A file is written beside its final place, forced to disk and
only then renamed. Whenever a process is killed, whatever the disk does, a whole
checkpoint remains: the newest or the one before it. A run has one writer at a time (see
`Run.writing`); readers may come whenever they like.

*Nothing wrong is read.* A file of arrays has a checksum. A checkpoint also answers for
config.json and for the lines of metrics so far. Nothing answers for lines after the
newest checkpoint, which only a run that was killed keeps. A key that is unknown here is
refused, but for those of environment.json, which is for people, and of metrics, which
are the task's. Nothing is ever pickled or unpickled, so a stranger's checkpoint brings
no code. It may name a task file that lies on your disk already, and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import platform
import re
import shlex
import shutil
import sys
import typing
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from ..backend.files import opened, read_whole, replacing
from ..config import (
    from_json,
    json_text,
    leaves_of,
    overflows,
    require_same,
    shown,
    stored_path,
    with_places,
)
from ..errors import ConfigError, RunError, UsageError, counted, unknown, why
from .discovery import load_cores_of, load_task_of
from .task import ITS_FILES, Task

# --- Files that are written whole or not at all ---------------------------------------


@contextlib.contextmanager
def explained(action: str, remedy: str) -> Iterator[None]:
    """An OSError of the body as a RunError: "cannot <action>: ...; <remedy>"."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {action}: {why(error)}; {remedy}") from error


def parsed(text: bytes | str) -> Any:
    """The value of a JSON text. ValueError for other text, or one nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_json(path: str | Path, value: Any, indent: int | None = None) -> str:
    """The JSON text of what `path` is to hold; RunError for what JSON cannot say."""
    try:
        return json_text(value, indent)
    except (TypeError, ValueError, RecursionError) as error:
        says = " ".join(str(error).split())  # an array in it has lines of its own
        raise RunError(f"cannot write {path}: {says}") from error


@contextlib.contextmanager
def written_whole(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """The file of `replacing`: the one way to replace a file of a run. RunError for
    what the disk refuses.
    """
    remedy = "free some space there or make it writable"
    remedy += " (what was saved earlier is untouched)"
    if not path.parent.is_dir():
        remedy = f"make the folder {path.parent} first"
    with explained(f"write {path}", remedy), replacing(path, previous) as file:
        yield file


# --- Checking what a file says --------------------------------------------------------


class Count(int):
    """The kind of whole numbers that are not negative."""


def _is_of(value: Any, kind: Any) -> bool:
    if kind is Count:
        return type(value) is int and value >= 0 and not overflows(value)
    if kind is float:
        return type(value) in (int, float) and not overflows(value)
    if typing.get_origin(kind) is dict:
        _, of = typing.get_args(kind)
        return isinstance(value, dict) and all(_is_of(x, of) for x in value.values())
    if typing.get_origin(kind) is list:
        (of,) = typing.get_args(kind)
        return isinstance(value, list) and all(_is_of(each, of) for each in value)
    return isinstance(value, kind)


def misfit(
    value: Any, kinds: Mapping[str, Any], needed: Sequence[str] = ()
) -> str | None:
    """The fault of a value from JSON that should be an object, in words; None if
    nothing is.

    kinds: {key: `Count`, float, str, bool, dict, list, list[one of these], None
        or a union, dict[str, one of these]}; whole numbers pass as float. Other keys
        may say anything.
    needed: the keys that must be there.
    """
    if not isinstance(value, dict):
        return f"it cannot be {shown(value)}"
    for name in needed:
        if name not in value:
            return f"it has no {name}"
    for name, kind in kinds.items():
        if name in value:
            options = typing.get_args(kind) if isinstance(kind, UnionType) else [kind]
            if not any(_is_of(value[name], each) for each in options):
                return f"{name} cannot be {shown(value[name])}"
    return None


# --- Named arrays in a file -----------------------------------------------------------

FORMAT, VERSION = "tinyrmc arrays", 1

# Members of the file besides the arrays: format, version and the caller's `meta`; the
# digest of all the others. Arrays are called <name>.npy, so these two names stay free.
HEADER, DIGEST = "tinyrmc.json", "sha256"

Arrays = dict[str, np.ndarray]
Parts = list[bytes | memoryview]  # the bytes of a member, one part after the other


def save_arrays(
    path: str | Path, arrays: Mapping[str, Any], meta: Any, previous: Path | None = None
) -> None:
    """Write named arrays and a JSON `meta` to the npz file `path`, whole or not at all.

    arrays: {name: array of numbers or booleans, any shape}; names are printable text
        without backslashes.
    meta: anything JSON can say, also NaN and infinities (tuples come back as lists,
        NumPy scalars as Python numbers).
    previous: as for `written_whole`.

    Equal content in equal order gives equal bytes. Only arrays that do not lie in C
    order are copied in memory. Raises RunError for an array that would need pickle, an
    unusable name, a `meta` that is not JSON, and anything the disk refuses.
    """
    with written_whole(Path(path), previous) as file:
        header = {"format": FORMAT, "version": VERSION, "meta": meta}
        members: dict[str, Parts] = {HEADER: [as_json(path, header).encode()]}
        members |= {f"{name}.npy": _npy(name, array) for name, array in arrays.items()}
        members[DIGEST] = [_digest(members).encode()]
        with zipfile.ZipFile(file, "w") as archive:
            for name, parts in members.items():
                # A ZipInfo made from a name alone is dated 1980-01-01.
                about = zipfile.ZipInfo(name)
                about.file_size = sum(map(len, parts))
                with archive.open(about, "w") as member:
                    for part in parts:
                        member.write(part)


def _npy(name: str, array: Any) -> Parts:
    """An array as the content of a .npy file, whose second part is the array's own."""
    if not (isinstance(name, str) and name and name.isprintable() and "\\" not in name):
        raise RunError(
            f"cannot save an array named {name!r}; use printable text without "
            "backslashes"
        )
    array = np.asarray(array, order="C")
    if array.dtype.kind not in "biufc":
        raise RunError(
            f"cannot save array {name!r} of dtype {array.dtype}: only numbers and "
            "booleans are stored, never pickled objects; put other things into the "
            "JSON state"
        )
    about = npy.header_data_from_array_1_0(array)
    header = io.BytesIO()
    npy.write_array_header_1_0(header, about)
    return [header.getvalue(), array.reshape(-1).view(np.uint8).data]


def _digest(members: Mapping[str, Parts]) -> str:
    """sha256 over the names and bytes of all members; an npy member's bytes begin with
    its dtype and shape.
    """
    sha256 = hashlib.sha256()
    for name, parts in members.items():
        sha256.update(f"{name}\n{sum(map(len, parts))}\n".encode())
        for part in parts:
            sha256.update(part)
    return sha256.hexdigest()


def load_arrays(path: str | Path) -> tuple[Arrays, Any]:
    """Read what `save_arrays` wrote: ({name: array}, meta), in the order it was saved.

    Raises RunError when the file is missing, unreadable, cut short, changed by as
    little as one bit, of foreign origin, or of a newer format.
    """
    with explained(f"read {path}", "give the path of a run directory or an npz file"):
        with opened(path) as file:
            return unpack(file, path, "make or fetch it again")


def unpack(
    file: BinaryIO, path: str | Path, if_damaged: str, meta_alone: bool = False
) -> tuple[Arrays, Any]:
    """({name: array}, meta) from an open file; raises as `load_arrays` does.

    if_damaged: the remedy to name when the content cannot be trusted.
    meta_alone: leave the arrays, and with them the checksum over all, unread.
    """
    try:
        with zipfile.ZipFile(file) as archive:  # which checks a CRC of each member
            names = [n for n in archive.namelist() if n == HEADER or not meta_alone]
            members = {name: archive.read(name) for name in names}
    # bytes that no longer make sense can end in almost any exception
    except Exception as error:
        size = file.seek(0, io.SEEK_END)
        raise RunError(
            f"{path} is damaged, cut short or not an npz file ({size:,} bytes); "
            f"{if_damaged}"
        ) from error
    foreign = RunError(
        f"{path} is an npz file, but not one of tinyrmc's; give a checkpoint or a "
        "weights file"
    )
    try:
        header = parsed(members[HEADER])
        ours = header["format"]
        version = header["version"]
        meta = header.get("meta")
    except (KeyError, TypeError, ValueError) as error:
        raise foreign from error
    if ours != FORMAT:
        raise foreign
    if version != VERSION:
        raise RunError(
            f"{path} has format version {version!r}, this tinyrmc reads {VERSION}; "
            "upgrade tinyrmc"
        )
    if says := unknown(header, ("format", "version", "meta")):
        raise RunError(f"{path} {says}")
    if meta_alone:
        return {}, meta
    digest = members.pop(DIGEST, b"")
    if digest != _digest({name: [x] for name, x in members.items()}).encode():
        raise RunError(f"{path} is damaged (its checksum does not match); {if_damaged}")
    del members[HEADER]
    try:
        arrays = {
            name.removesuffix(".npy"): np.load(
                io.BytesIO(members.pop(name)), allow_pickle=False
            )
            for name in [*members]
        }
    # The digest is right and the content is not: somebody made it so on purpose.
    except Exception as error:
        raise foreign from error
    return arrays, meta


def under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


# --- The run directory ----------------------------------------------------------------

# What the files of a run say, as far as this package reads it.
CONFIG = {
    **dict.fromkeys(("task", "task_file", "preset"), str),
    "seed": Count,
    "config": dict,
    "places": dict,
    "task_crc": int,  # of a task's file of one's own
    "core_files": list[str],  # of cores of one's own
    "init": str,  # whose weights it began with
    "extended": list[Count],  # the numbers of steps that it was asked for before
    "grid": dict,  # of a sweep, as are the rest
    "seeds": list[Count],
    "words": list[str],
    "workers": Count | None,
    "jobs": Count,
}
# the state in a checkpoint, and in part in a file of weights
STATE = (
    *("run", "step", "seconds", "workers", "ranks", "window", "skipped", "stream"),
    *("task", "best", "lines", "metrics", "steady"),
)
ARRAYS = "parameters", "constants", "optimizer", "carry"  # what their names begin with
ENVIRONMENT = {
    **dict.fromkeys(("command", "date", "processor", "gpu"), str),
    **dict.fromkeys(("python", "numpy", "blas", "device"), str),
    "git_commit": str | None,
    "own_commit": str,
    "own_code": dict[str, str],
    "later_code": dict[str, dict[str, str]],  # from a step on, of a run that went on
    "cores": Count | None,
    "workers": Count,
    "ranks": Count,
    "tf32": bool,
    "plain": bool,
    "compiled": bool,
    "bodies": str,
    "log": str,
    "graph": bool | None,
}
LINE = {"step": Count, "samples": Count, "seconds": float}
GO_ON = (
    "restore the file, or move it away (the run goes on without it, and its curve "
    "then begins there)"
)


@dataclass(frozen=True)
class Run:
    """A run directory.

    `config` and `environment` are as JSON gives them back (lists, never tuples).
    """

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]

    @classmethod
    def create(
        cls,
        root: str | Path,
        name: str,
        config: Mapping[str, Any],
        environment: Mapping[str, Any],
        path: str | Path | None = None,
    ) -> Run:
        """Make `root/<name>-<n>` with the next free n, or exactly `path`, and write the
        two JSON files into it.

        Processes that start at the same moment get different numbers. Raises RunError
        when `path` exists, the directory cannot be made, or what it is to hold is not
        JSON; then there is no directory.
        """
        path = _new_directory(Path(root), name, None if path is None else Path(path))
        try:
            # config.json last: it marks a whole run
            environment = _write_object(path / "environment.json", environment)
            return cls(path, _write_object(path / "config.json", config), environment)
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # ours alone: we have just made it
            raise

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open an existing run directory. Raises RunError when `path` is not one."""
        path = Path(path)
        config = _read_object(path / "config.json", CONFIG)
        if says := unknown(config, CONFIG):
            raise RunError(f"{path / 'config.json'} {says}")
        around = _read_object(path / "environment.json", ENVIRONMENT)
        return cls(path, config, around)

    def moved(
        self, config: Mapping[str, Any], environment: Mapping[str, Any] | None = None
    ) -> Run:
        """The run with another configuration, or environment, in their files too.

        For one that says anew where things are, or what went on with it.
        """
        files: dict[str, Any] = {"config": config}
        files["environment"] = environment or self.environment
        for name, value in files.items():
            if value != getattr(self, name):
                files[name] = _write_object(self.path / f"{name}.json", value)
        return Run(self.path, **files)

    @property
    def last_code(self) -> dict[str, str]:
        """The digests of the files of one's own with which it was trained last."""
        first = self.environment.get("own_code", {})
        return [first, *self.environment.get("later_code", {}).values()][-1]

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A context for changing the run. Two processes are never in it at a time: the
        second gets a RunError that names the first.

        Enter it before you read what is to be continued: the other process might still
        have added to that. The system drops the lock of a process, however it ended;
        lock.json only says whom to ask. Both files are gone at the end.
        """
        if sys.platform == "emscripten":  # a browser's Python is alone: no locks
            yield
            return
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / ".lock")
        about = self.path / "lock.json"
        try:
            # a second, in which the workers of a writer that was killed end
            lock.acquire(timeout=1)
            if not os.path.exists(lock.lock_file):  # removed since we opened it
                lock.release()
                lock.acquire(timeout=1)
        except Timeout:
            who = "another process"
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                said = json.loads(about.read_bytes())
                who = f"process {said['pid']} on {said['host']} since {said['since']}"
            raise RunError(
                f"{self.path} is in use by {who}; wait until that has ended, or stop "
                "it (`kill` lets it save)"
            ) from None
        except OSError as error:
            raise RunError(f"cannot lock {self.path}: {why(error)}") from error
        try:
            since = datetime.now(UTC).isoformat(timespec="seconds")
            holder = {"pid": os.getpid(), "host": platform.node(), "since": since}
            with explained(f"write {about}", "free some space there"):
                about.write_text(json_text(holder) + "\n", encoding="utf-8")
            ours = "checkpoint.npz.", "best.npz.", "metrics.jsonl.", "config.json."
            for left in self.path.glob("*.partial"):  # by a writer that was killed
                if left.name.startswith(ours):
                    with contextlib.suppress(OSError):
                        left.unlink()
            yield
        finally:
            for path in about, Path(lock.lock_file):  # while the lock is still ours
                with contextlib.suppress(OSError):
                    path.unlink()
            lock.release()

    @property
    def word(self) -> str:
        """Its path in a command line, where nothing but a flag begins with a hyphen."""
        path = str(self.path)
        return shlex.quote(f"./{path}" if path.startswith("-") else path)

    # --- Checkpoints

    @property
    def checkpoint(self) -> Path:
        """The newest checkpoint."""
        return self.path / "checkpoint.npz"

    @property
    def previous_checkpoint(self) -> Path:
        """The one before it."""
        return self.path / "checkpoint.previous.npz"

    def save(
        self, arrays: Mapping[str, Any], state: Mapping[str, Any], instead: bool = False
    ) -> None:
        """Write a checkpoint; the newest one so far becomes the previous one.

        instead: replace the newest one, and keep the one before it.

        Raises as `save_arrays` does.
        """
        previous = None if instead else self.previous_checkpoint
        save_arrays(self.checkpoint, arrays, state, previous)

    @property
    def best(self) -> Path:
        """The weights that did best on the validation set, if there is one."""
        return self.path / "best.npz"

    def save_best(self, arrays: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Write these weights, which are the best so far. Raises as `save_arrays`."""
        save_arrays(self.best, arrays, state)

    def load(self) -> tuple[Arrays, dict[str, Any]]:
        """(arrays, state) of the newest checkpoint.

        Raises RunError when there is none or it cannot be trusted.
        """
        if (found := self._newest()) is None:
            raise RunError(
                f"{self.path} holds no checkpoint: none was saved before it stopped, "
                "or the file is gone; start a new run"
            )
        return found

    def load_state(self) -> Any:
        """The state of the newest checkpoint, without its arrays; None if there is no
        checkpoint. RunError if it cannot be read.
        """
        found = self._newest(meta_alone=True)
        return found and found[1]

    def _newest(self, meta_alone: bool = False) -> tuple[Arrays, Any] | None:
        newest, older = self.checkpoint, self.previous_checkpoint
        restart = "start a new run"
        go_back = f"to go back to the one before it, move {older} there"
        remedies = {newest: go_back if older.exists() else restart, older: restart}
        # a writer was killed between two renames, or is between them now, if the
        # newest is not there
        for path, remedy in remedies.items():
            with explained(f"read {path}", "make it readable"):
                with contextlib.suppress(FileNotFoundError), opened(path) as file:
                    return unpack(file, path, remedy, meta_alone)
        return None

    # --- Metrics

    def log(self, line: Mapping[str, Any]) -> None:
        """Append one object to metrics.jsonl.

        Strict JSON for any reader: NaN and infinities become null.
        """
        path = self._metrics_path
        text = as_json(path, line)
        line = json.loads(text, parse_constant=lambda not_finite: None)
        if wrong := misfit(line, LINE):
            raise RunError(f"a line of metrics is an object with numbers: {wrong}")
        with explained(f"write {path}", "free some space there, then resume"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(json_text(line) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics.jsonl, without a last line torn by a crash."""
        # The last piece follows the last line break: nothing, or a torn line.
        *lines, rest = self._metrics_bytes().split(b"\n")
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                found.append(parsed(line))
            except ValueError as error:
                raise self.bad_line(number, f"is not JSON ({error})") from None
            if wrong := misfit(found[-1], LINE):
                raise self.bad_line(number, f"is not a line of metrics: {wrong}")
        with contextlib.suppress(ValueError):
            if not misfit(last := parsed(rest), LINE):
                found.append(last)
        return found

    def _metrics_bytes(self) -> bytes:
        """All of metrics.jsonl; nothing, if it is not there."""
        with explained(f"read {self._metrics_path}", "make it a readable file"):
            with contextlib.suppress(FileNotFoundError):
                return read_whole(self._metrics_path)
        return b""

    def bad_line(self, number: int, why: str) -> RunError:
        """The error that says what is wrong with a line of metrics.jsonl, from 1."""
        return RunError(f"{self._metrics_path} line {number} {why}; {GO_ON}")

    def truncate_metrics(self, lines: int) -> None:
        """Keep the first `lines` lines only, so that a resumed run appends where its
        checkpoint was taken.
        """
        pieces = self._metrics_bytes().split(b"\n")[:-1][:lines]
        with written_whole(self._metrics_path) as file:
            file.writelines(piece + b"\n" for piece in pieces)

    def checksum(self, lines: int) -> int | None:
        """A checksum of the first `lines` lines of metrics, which `require_metrics`
        compares. None if there are fewer.
        """
        pieces = self._metrics_bytes().split(b"\n")[:-1]
        if len(pieces) < lines:
            return None
        return zlib.crc32(b"\n".join(pieces[:lines]))

    def require_metrics(self, state: dict) -> None:
        """RunError unless the lines of metrics are as they were when the checkpoint of
        this state was saved. A missing file is no error: the curve is lost, but no
        weight.
        """
        with fitting():
            lines, checksum = state.get("metrics", (state.get("lines", 0), None))
            found = self.checksum(lines)
        if not self.has_metrics or (found is not None and checksum in (None, found)):
            return
        wrong = f"had {counted(lines, 'line')}" if found is None else "is not as it was"
        raise RunError(
            f"{self._metrics_path} {wrong} when {self.checkpoint} was saved; {GO_ON}"
        )

    @property
    def has_metrics(self) -> bool:
        """Whether there is a metrics.jsonl."""
        return os.path.lexists(self._metrics_path)

    @property
    def _metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"


def _new_directory(root: Path, name: str, path: Path | None) -> Path:
    """Make exactly `path`, or the first of the numbered ones that is free."""
    parent = root if path is None else path.parent
    remedy = "choose a writable place with --run"
    with explained(f"make a run directory in {parent}", remedy):
        parent.mkdir(parents=True, exist_ok=True)
        numbered = re.compile(re.escape(name) + "-([0-9]+)").fullmatch
        found = [numbered(entry.name) for entry in parent.iterdir()]
        free = 1 + max((int(taken[1]) for taken in found if taken), default=0)
        next_ones = (parent / f"{name}-{n}" for n in itertools.count(free))
        for candidate in next_ones if path is None else [path]:
            # mkdir decides between processes that try the same name.
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()
                return candidate
    whole = os.path.exists(candidate / "config.json")
    resumed = f" or resume it with --resume {candidate}" if whole else ""
    raise RunError(f"{candidate} exists already; choose another --run{resumed}")


def _write_object(path: Path, value: Mapping[str, Any]) -> dict[str, Any]:
    """The object as JSON gives it back, with lists for tuples."""
    text = as_json(path, value, indent=2)
    with written_whole(path) as file:
        file.write(text.encode() + b"\n")
    return json.loads(text)


def _read_object(path: Path, expected: Mapping[str, Any]) -> dict[str, Any]:
    there = any(path.parent.glob("checkpoint*.npz"))
    remedy = "restore it" if there else "give the path of a run directory"
    if any(path.parent.glob("*/config.json")):
        remedy += ", such as one of those in it"
    with explained(f"read {os.path.join(path.parent, path.name)}", remedy):
        text = read_whole(path)
    try:
        value = parsed(text)
    except ValueError:
        value = None
    remedy = "restore it or start a new run"
    if not isinstance(value, dict):
        raise RunError(f"{path} is not a JSON object; {remedy}")
    if wrong := misfit(value, expected):
        raise RunError(f"{path} is not as it was written: {wrong}; {remedy}")
    return value


# --- The task of a run, and what its checkpoint answers for ---------------------------


def task_from_dict(run_config: dict) -> Task:
    """The task that a run's config.json describes."""
    for key in ("task", "preset", "seed", "config"):
        if key not in run_config:
            raise RunError(f"the run's configuration has no {key!r}, as train's have")
    load_cores_of(run_config)
    kind = load_task_of(run_config).Task
    default = next(iter(kind.presets.values()))[1]
    config = from_json(type(default), run_config["config"])
    return kind(with_places(config, run_config.get("places", {})))


def is_over(run: Run, task: Task, step: int) -> bool:
    """Whether a run of this task was over after `step` steps.

    A task may end a run before its steps are done, and tells by its state, which the
    newest checkpoint has.
    """
    if task.finished(step):
        return True
    if (state := run.load_state()) is None:
        return False
    _require_own(run, state)
    if state["step"] != step or "task" not in state:
        return False
    own = task_from_dict(run.config)  # `task` may serve other runs, or earlier lines
    with fitting():
        take_back(own, state["task"])
        _, stale = state.get("best", (None, 0))
        return own.finished(step) or out_of_patience(own, stale)


def out_of_patience(task: Task, stale: int) -> bool:
    """Whether so many evaluations that are no better end a run."""
    patience = task.config.train.patience
    return patience is not None and stale >= patience


def relocated(run_config: dict, data_dir: str | Path | None) -> dict:
    """A run's configuration with its data in this folder; None: where they were.

    UsageError if its task has no `data_dir`.
    """
    if data_dir is None:
        return run_config
    if "data_dir" not in run_config.get("places", {}):
        raise UsageError(
            f"--data-dir {data_dir}: {run_config['task']} reads no data; leave it out"
        )
    places = {**run_config["places"], "data_dir": stored_path(data_dir)}
    return {**run_config, "places": places}


def load_checkpoint(run: Run) -> tuple[dict, dict]:
    """(arrays, state) of a run's newest checkpoint; RunError unless it is its own."""
    arrays, state = run.load()
    _require_own(run, state)
    require_arrays(arrays, run.checkpoint)
    return arrays, state


def extended(run_config: dict, steps: int) -> dict:
    """The configuration of a run that goes on until another step; keeps what it was."""
    config = run_config["config"]
    history = _asked_steps(run_config)
    config = {**config, "train": {**config["train"], "steps": steps}}
    return {**run_config, "config": config, "extended": history}


def _asked_steps(run_config: dict) -> list[int]:
    """The numbers of steps that a run was asked for, one after the other."""
    earlier = run_config.get("extended", [])
    return [*earlier, run_config["config"]["train"]["steps"]]


def _require_own(run: Run, state: Any) -> None:
    """RunError unless a checkpoint's state is of this run, as its config.json says."""
    require_run(state, run.checkpoint)
    if "extended" in run.config:  # since the checkpoint, perhaps
        with fitting():
            now, then = _asked_steps(run.config), _asked_steps(state["run"])
            for steps in now[len(then) :] if now[: len(then)] == then else ():
                state["run"] = extended(state["run"], steps)
    for key in {"places", "core_files"} & run.config.keys():  # moved since, perhaps
        state["run"] = {**state["run"], key: run.config[key]}
    require_same(state["run"], run.config, str(run.checkpoint))


def lines_of(run: Run, task: Task) -> list[dict[str, Any]]:
    """The lines of a run's metrics, if they and its config.json are those of its
    checkpoint; without one they are believed.

    RunError says what is wrong with them.
    """
    lines = run.metrics()
    for number, line in enumerate(lines, start=1):
        own = {"loss", task.headline, f"best_batch_{task.headline}"}
        names = own & line.keys() | task.held_out_metrics(line).keys()
        kinds = LINE | dict.fromkeys(names, float | None)
        if wrong := misfit(line, kinds, needed=[*LINE]):
            raise run.bad_line(number, f"is not a line of metrics: {wrong}")
    for number, (before, line) in enumerate(itertools.pairwise(lines), start=2):
        back = line["step"] < before["step"]
        if back or (line["step"] > before["step"] and task.finished(before["step"])):
            says = f"is of step {line['step']}, after step {before['step']}"
            raise run.bad_line(number, says)
    if (state := run.load_state()) is not None:
        _require_own(run, state)
        run.require_metrics(state)
    return lines


def text_of(run: Run) -> int | None:
    """The checksum of the text that a run learnt from, as its newest checkpoint knows
    it; None if it reads none.
    """
    kept = (run.load_state() or {}).get("task", {}).get("text")
    return kept if isinstance(kept, int) else None


def require_own_data(run: Run, task: Task) -> None:
    """CorpusError unless a run's text is still the one that it learnt from."""
    kept = text_of(run)
    if kept is not None and (own := task.text_checksum) is not None:
        from ..corpora import require_same as require_same_text

        moved = "data_dir" in run.config.get("places", {})
        require_same_text(kept, own, **{} if moved else {"remedy": ITS_FILES})


def require_run(state: Any, path: str | Path) -> None:
    if not isinstance(state, dict) or "run" not in state:
        raise RunError(
            f"{path} holds arrays, but not of a training run; give a run directory, "
            "its checkpoint.npz or a weights file"
        )
    if wrong := misfit(state, {"run": dict, "step": Count}, needed=["step"]):
        raise RunError(f"{path} is not of a training run: {wrong}; give another")
    if says := unknown(state, STATE) or unknown(state["run"], CONFIG):
        raise RunError(f"{path} {says}")


def require_arrays(arrays: Mapping[str, Any], path: str | Path) -> None:
    """RunError for arrays of which nobody knows what they are for."""
    if says := unknown((name.partition("/")[0] for name in arrays), ARRAYS):
        raise RunError(f"{path} {says}")


def take_back(owner: Any, state: dict) -> None:
    """`load_state` of a task or stream. ValueError for a key of which it knows nothing:
    it is neither in its `state` then, nor taken out of this one.
    """
    owner.load_state(state)
    own = json.loads(json_text(owner.state()))
    if says := unknown(dict(leaves_of(state)), dict(leaves_of(own))):
        raise ValueError(f"the state of {type(owner).__name__} {says}")


@contextlib.contextmanager
def fitting(
    says: str = "does not fit its own configuration",
    remedy: str = "",
    where: Any = "the checkpoint",
) -> Iterator[None]:
    """RunError for what goes wrong when a checkpoint is not as it was written."""
    try:
        yield
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        ConfigError,
        MemoryError,
        RecursionError,
    ) as error:
        raise RunError(f"{where} {says}: {error}{remedy}") from error
