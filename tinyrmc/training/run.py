"""Run directories: where a training run keeps its configuration, its metrics and its
checkpoints.

    runs/nth_farthest-quick-3/
        config.json                what was asked for
        environment.json           what it ran on
        metrics.jsonl              one JSON object per line, appended as training goes
        checkpoint.npz             the newest checkpoint
        checkpoint.previous.npz    the one before it
        best.npz                   the weights that did best on the validation set
        lock.json                  who is writing all this, while somebody is

This module knows nothing of tasks, models or optimizers: a checkpoint is a dict of
named arrays and a JSON state. Two promises shape it.

*Nothing is half written.* A file is written beside its final place, forced to disk and
only then renamed. Whenever a process is killed, whatever the disk does, a whole
checkpoint remains: the newest or the one before it. A run has one writer at a time (see
`Run.writing`); readers may come whenever they like.

*Nothing wrong is read.* A file of arrays has a checksum (see storage.py). A checkpoint
also answers for config.json and for the lines of metrics so far. Nothing answers for
lines after the newest checkpoint, which only a run that was killed keeps. Nothing is
ever pickled or unpickled, so a stranger's checkpoint brings no code. It may name a task
file that lies on your disk already, and nothing else.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..config import json_text
from ..errors import RunError, counted, why
from .discovery import word_of
from .own_code import changed_code, own_code
from .storage import (
    Arrays,
    Count,
    as_json,
    explained,
    from_json,
    misfit,
    opened,
    read_whole,
    save_arrays,
    unpack,
    written_whole,
)

# --- The run directory ----------------------------------------------------------------

# What the files of a run say, as far as this package reads it.
CONFIG = {
    **dict.fromkeys(("task", "task_file", "preset"), str),
    "seed": Count,
    "config": dict,
    "places": dict,
    "core_files": list[str],  # of cores of one's own
    "init": str,  # whose weights it began with
    "extended": list[Count],  # the numbers of steps that it was asked for before
    "grid": dict,  # of a sweep, as are the rest
    "seeds": list[Count],
    "words": list[str],
    "workers": Count | None,
}
ENVIRONMENT = {
    **dict.fromkeys(("command", "date", "processor", "gpu"), str),
    **dict.fromkeys(("python", "numpy", "blas", "device"), str),
    "git_commit": str | None,
    "own_commit": str,
    "own_code": dict,
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
        around = _read_object(path / "environment.json", ENVIRONMENT)
        return cls(path, config, around)

    def moved(self, config: Mapping[str, Any]) -> Run:
        """The run with another configuration, in its file too.

        For one that says anew where things are.
        """
        if config == self.config:
            return self
        config = _write_object(self.path / "config.json", config)
        return Run(self.path, config, self.environment)

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

        lock, about = FileLock(self.path / ".lock"), self.path / "lock.json"
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
                f"{self.path} holds no checkpoint: it stopped before the first one was "
                "saved; start a new run"
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
        parsed = []
        for number, line in enumerate(lines, start=1):
            try:
                parsed.append(from_json(line))
            except ValueError as error:
                raise self.bad_line(number, f"is not JSON ({error})") from None
            if wrong := misfit(parsed[-1], LINE):
                raise self.bad_line(number, f"is not a line of metrics: {wrong}")
        with contextlib.suppress(ValueError):
            if not misfit(last := from_json(rest), LINE):
                parsed.append(last)
        return parsed

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

    def require_metrics(self, lines: int, checksum: int | None) -> None:
        """RunError unless the first `lines` lines of metrics are as they were when a
        checkpoint was saved. A missing file is no error: the curve is lost, but no
        weight.
        """
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


# --- Making and reading it ------------------------------------------------------------


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
    with explained(f"read {os.path.join(path.parent, path.name)}", remedy):
        text = read_whole(path)
    try:
        value = from_json(text)
    except ValueError:
        value = None
    remedy = "restore it or start a new run"
    if not isinstance(value, dict):
        raise RunError(f"{path} is not a JSON object; {remedy}")
    if wrong := misfit(value, expected):
        raise RunError(f"{path} is not as it was written: {wrong}; {remedy}")
    return value


# --- What a result depends on besides its configuration -------------------------------


def environment(version: str) -> dict[str, Any]:
    """The surroundings that a result of tinyrmc `version` depends on.

    Names no host and no user; the home directory reads `~`.
    """
    from threadpoolctl import threadpool_info

    # the command line as one would type it; under `python -m` argv[0] is a file's path
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = [os.path.basename(sys.argv[0])]
    if spec:
        program = ["python", "-m", spec.name.removesuffix(".__main__")]
    home = re.escape(os.path.expanduser("~"))
    typed = re.sub(home + r"(?![\w.-])", "~", shlex.join(program + sys.argv[1:]))
    # BLAS, and the kind of processor it works for, which may be worth a factor of two
    built_with = np.show_config(mode="dicts").get("Build Dependencies", {})
    blas = built_with.get("blas", {}).get("name", "unknown")
    for library in threadpool_info():
        if library["user_api"] == "blas":
            kind = library.get("architecture")
            blas = f"{library['internal_api']} {library['version']}"
            blas += f" ({kind})" if kind else ""
            break
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": typed,
        "tinyrmc": version,
        "git_commit": _git_commit(Path(__file__).resolve().parents[2]),
        **own_code(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": blas,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(usable_cores()),
    }


def noted_task(
    config: dict[str, Any], machine: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A run's configuration with a checksum of a task file of one's own. If it had
    another, or if other files of one's own differ from those that its environment
    names, `machine`, notes on stderr say so.
    """
    says = changed_code((machine or {}).get("own_code", {}))
    if "task_file" in config:
        crc, name = zlib.crc32(read_whole(word_of(config))), f"{config['task']}.py"
        if config.get("task_crc", crc) != crc and name not in " ".join(says).split():
            says.append(f"{name} has changed since this run began")
        config = {"task_crc": crc, **config}
    for each in says:
        print(f"note: {each}", file=sys.stderr)
    return config


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may use; of all there are where that
    is not known, as on macOS.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


def _git_commit(root: Path) -> str | None:
    """The commit of the checkout whose top is `root`, with `-dirty` when files other
    than results differ from it; None elsewhere.
    """
    # Asking git alone would also name a repository around somebody's .venv.
    if not (root / ".git").exists():
        return None

    git = ["git", "--no-optional-locks", "-C", str(root)]
    head = [*git, "rev-parse", "--verify", "HEAD"]
    changed = [*git, "diff", "--quiet", "HEAD", "--", ".", ":!benchmarks/results"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        commit = subprocess.run(head, capture_output=True, text=True, timeout=10)
        dirty = subprocess.run(changed, capture_output=True, timeout=10).returncode
        if commit.returncode == 0:
            return commit.stdout.strip() + "-dirty" * bool(dirty)
    return None


def _processor() -> str:
    """Its name; on Linux with family and model, since several are called "AMD EPYC":
    `AMD EPYC (family 26, model 2)`.
    """
    known: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            known.setdefault(name.strip(), value.strip())
    name = known.get("model name") or platform.processor() or platform.machine()
    if "cpu family" not in known or "model" not in known:
        return name
    return f"{name} (family {known['cpu family']}, model {known['model']})"
