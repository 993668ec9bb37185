"""Run directories: where a training run keeps its configuration, its metrics and its checkpoints.

    runs/nth_farthest-quick-3/
        config.json                what was asked for
        environment.json           what it ran on
        metrics.jsonl              one JSON object per line, appended as training goes
        checkpoint.npz             the newest checkpoint
        checkpoint.previous.npz    the one before it
        lock.json                  who is writing all this, while somebody is

This module knows nothing of tasks, models or optimizers: a checkpoint is a dict of named arrays and a JSON state.
Three promises shape it.

*Nothing is half written.* A file is written beside its final place, forced to disk and only then renamed. Whenever a
process is killed, whatever the disk does, a whole checkpoint remains: the newest or the one before it. A run has one
writer at a time (see `Run.writing`); readers may come whenever they like.

*Nothing wrong is read.* A file of arrays is an ordinary npz (`numpy.load` opens it) with two text members besides the
arrays: `tinyrmc.json` (format, version and the caller's `meta`) and `sha256`, the digest of every other member's name
and bytes. Nothing is ever pickled or unpickled, so a checkpoint from a stranger runs no code.

*Every failure is one line*: what, why, and what to do now. That line is the text of a `RunError`.
"""

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
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from . import __version__

try:
    import fcntl
except ImportError:
    import msvcrt  # Windows

    fcntl = None

FORMAT = "tinyrmc arrays"
VERSION = 1
HEADER, DIGEST = "tinyrmc.json", "sha256"  # arrays are members called <name>.npy, so these two names stay free
ZIP_MAGIC = b"PK\x03\x04"


class RunError(Exception):
    """A failure to tell the user in one line; command lines print `error: <text>` and exit with code 2."""


@contextlib.contextmanager
def _explained(action, remedy):
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {action}: {error.strerror}; {remedy}") from error


# --- Files of named arrays --------------------------------------------------------------------------------------------


def save_arrays(path, arrays, meta, previous=None):
    """Write named arrays and a JSON `meta` to the npz file `path`, whole or not at all.

    arrays: {name: array of numbers or booleans, any shape}; names are printable text without backslashes.
    meta: anything JSON can say, also NaN and infinities (tuples come back as lists, NumPy scalars as Python numbers).
    previous: where a file that already stands at `path` is moved to; without it, that file is replaced.

    Equal content in equal order gives equal bytes. Costs one copy of the arrays in memory.
    Raises RunError for an array that would need pickle, an unusable name, and anything the disk refuses.
    """
    _write_whole(Path(path), _pack(arrays, meta), previous)


def load_arrays(path, if_damaged="make or fetch it again"):
    """Read what `save_arrays` wrote: ({name: array}, meta), in the order it was saved.

    Raises RunError when the file is missing, unreadable, cut short, changed by as little as one bit, of foreign origin,
    or of a newer format; `if_damaged` is the remedy named when the content cannot be trusted.
    """
    with _explained(f"read {path}", "give the path of a run directory or an npz file"):
        data = Path(path).read_bytes()
    return _unpack(data, path, if_damaged)


def under(prefix, arrays):
    """The arrays whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _pack(arrays, meta):
    members = {HEADER: _json({"format": FORMAT, "version": VERSION, "meta": meta}).encode()}
    for name, array in arrays.items():
        if not (name and name.isprintable() and "\\" not in name):
            raise RunError(f"cannot save an array named {name!r}; use printable text without backslashes")
        array = np.asarray(array, order="C")
        if array.dtype.kind not in "biufc":
            raise RunError(
                f"cannot save array {name!r} of dtype {array.dtype}: only numbers and booleans are stored, never "
                "pickled objects; put other things into the JSON state"
            )
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    members[DIGEST] = _digest(members).encode()

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content)  # a ZipInfo made from a name alone is dated 1980-01-01
    return archive.getvalue()


def _unpack(data, path, if_damaged):
    try:
        file = zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:  # bytes that no longer make sense end in almost any exception, here and below
        state = "cut short" if ZIP_MAGIC.startswith(data[: len(ZIP_MAGIC)]) else "not an npz file"
        raise RunError(f"{path} is {state} ({len(data):,} bytes); {if_damaged}") from error

    damaged = RunError(f"{path} is damaged (its checksum does not match); {if_damaged}")
    try:
        members = {info.filename: file.read(info) for info in file.infolist()}  # checks each member's CRC
    except Exception as error:
        raise damaged from error

    foreign = RunError(f"{path} is an npz file, but not one of tinyrmc's; give a checkpoint or a weights file")
    try:
        header = json.loads(members[HEADER])
        if header["format"] != FORMAT:
            raise foreign
        version = header["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise foreign from error
    if version != VERSION:
        raise RunError(f"{path} has format version {version!r}, this tinyrmc reads {VERSION}; upgrade tinyrmc")

    digest = members.pop(DIGEST, b"")
    if digest != _digest(members).encode():
        raise damaged
    del members[HEADER]
    try:
        arrays = {name.removesuffix(".npy"): np.load(io.BytesIO(content), allow_pickle=False) for name, content in members.items()}
    except Exception as error:  # a digest that is right over content that is not: made so on purpose
        raise foreign from error
    return arrays, header["meta"]


def _digest(members):
    """sha256 over the names and bytes of all members; an npy member's bytes begin with its dtype and shape."""
    sha256 = hashlib.sha256()
    for name, content in members.items():
        sha256.update(f"{name}\n{len(content)}\n".encode())
        sha256.update(content)
    return sha256.hexdigest()


def _write_whole(path, data, previous=None):
    """Write beside `path`, force to disk, rename. The one way in which this module replaces a file."""
    beside = path.with_name(f"{path.name}.partial")  # always the same name: what a killed process left is overwritten
    remedy = "free some space there or make it writable (what was saved earlier is untouched)"
    try:
        with _explained(f"write {path}", remedy):
            with open(beside, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if previous is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, previous)
            os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):  # gone already when all went well
            beside.unlink()


# --- The run directory ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run directory. `config` and `environment` are as JSON gives them back (lists, never tuples)."""

    path: Path
    config: dict
    environment: dict

    @classmethod
    def create(cls, root, name, config, environment, path=None):
        """Make `root/<name>-<n>` with the next free n, or exactly `path`, and write the two JSON files into it.

        Processes that start at the same moment get different numbers. Raises RunError when `path` exists or the
        directory cannot be made.
        """
        parent = Path(root) if path is None else Path(path).parent
        with _explained(f"make a run directory in {parent}", "choose a writable place with --run"):
            parent.mkdir(parents=True, exist_ok=True)
            candidates = _numbered(parent, name) if path is None else [Path(path)]
            for path in candidates:
                with contextlib.suppress(FileExistsError):  # mkdir decides between processes
                    path.mkdir()
                    break
            else:
                resumed = f" or resume it with --resume {path}" if (path / "config.json").exists() else ""
                raise RunError(f"{path} exists already; choose another --run{resumed}")
        try:
            _write_whole(path / "environment.json", _json(environment, indent=2).encode() + b"\n")
            _write_whole(path / "config.json", _json(config, indent=2).encode() + b"\n")  # last: it marks a whole run
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)  # ours alone: mkdir has just made it
            raise
        return cls.open(path)

    @classmethod
    def open(cls, path):
        """Open an existing run directory. Raises RunError when `path` is not one."""
        path = Path(path)
        return cls(path, _read_object(path / "config.json"), _read_object(path / "environment.json"))

    def writing(self):
        """A context for whoever changes the run, which no two processes are in at a time. RunError names the one that is.

        Enter it before reading what is to be gone on from: the other might still have added to that.
        """
        return _locked(self.path)

    @property
    def checkpoint(self):
        return self.path / "checkpoint.npz"

    @property
    def previous_checkpoint(self):
        return self.path / "checkpoint.previous.npz"

    def save(self, arrays, state):
        """Write a checkpoint; the newest one so far becomes the previous one. Raises as `save_arrays` does."""
        save_arrays(self.checkpoint, arrays, state, previous=self.previous_checkpoint)

    def load(self):
        """(arrays, state) of the newest checkpoint. Raises RunError when there is none or it cannot be trusted."""
        newest, older, restart = self.checkpoint, self.previous_checkpoint, "start a new run"
        go_back = f"to go back to the one before it, move {older} there" if older.exists() else restart
        with _explained(f"read {newest}", "make it readable"):
            with contextlib.suppress(FileNotFoundError):
                return _unpack(newest.read_bytes(), newest, go_back)
            with contextlib.suppress(FileNotFoundError):  # the writer was killed, or is just now, between two renames
                return _unpack(older.read_bytes(), older, restart)
        raise RunError(f"{self.path} holds no checkpoint: it stopped before the first one was saved; {restart}")

    def log(self, line):
        """Append one object to metrics.jsonl. Strict JSON for any reader: NaN and infinities become null."""
        line = json.loads(_json(line), parse_constant=lambda not_finite: None)
        with _explained(f"write {self._metrics_path}", "free some space there, then resume"):
            with open(self._metrics_path, "a", encoding="utf-8") as file:
                file.write(_json(line) + "\n")

    def metrics(self):
        """All lines of metrics.jsonl as dicts. A last line torn by a crash is left out."""
        if not self._metrics_path.exists():
            return []
        with _explained(f"read {self._metrics_path}", "make it readable"):
            lines = self._metrics_path.read_bytes().split(b"\n")
        parsed = []
        for number, line in enumerate(lines, start=1):
            try:
                parsed.append(json.loads(line))
            except ValueError:
                if number < len(lines):  # the last piece is what follows the last newline: nothing, or a torn line
                    raise RunError(f"{self._metrics_path} line {number} is not JSON; delete that line") from None
        return parsed

    def truncate_metrics(self, lines):
        """Keep the first `lines` lines only, so that a resumed run appends where its checkpoint was taken."""
        kept = self.metrics()[:lines]
        _write_whole(self._metrics_path, "".join(_json(line) + "\n" for line in kept).encode())

    @property
    def _metrics_path(self):
        return self.path / "metrics.jsonl"


class Onlooker(Run):
    """A run whose directory another process writes, and whose metrics it reads: here both are passed over."""

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


# --- One writer -------------------------------------------------------------------------------------------------------

# Whether a writer still lives is for the system to say: it drops the locks of a process that has ended in whatever way,
# whereas a number in a file would have to be believed, though another process may have been given it since. The lock is
# lockf's, which belongs to a process: flock's would pass to forked workers, and those of a killed process would keep it
# as long as they live. (Two threads of one process are therefore not kept apart.)
#
# What stands in the file tells the others whom to ask. It also serves where locks do not reach from machine to machine:
# what another machine has left may be in use there, and only a person can know. Without that, a file system that has no
# locks at all means no check: to refuse to train there would be worse.


@contextlib.contextmanager
def _locked(folder):
    """Keep `folder` locked, by the file lock.json, which names us and is gone at the end. RunError if somebody else has it."""
    path = folder / "lock.json"
    file = _lock_file(folder, path)
    try:
        with _explained(f"write {path}", "free some space there"):
            file.truncate(0)
            since = datetime.now(UTC).isoformat(timespec="seconds")
            file.write(_json({"pid": os.getpid(), "host": platform.node(), "since": since}) + "\n")
            file.flush()
        yield
    finally:  # removed while it is still ours; but Windows removes no open file
        for end in (path.unlink, file.close) if fcntl else (file.close, path.unlink):
            with contextlib.suppress(OSError):
                end()


def _lock_file(folder, path):
    """The lock file, open and locked. RunError if another process has it, or if one of another machine has left it."""
    while True:
        with _explained(f"write {path}", "make it writable"):
            file = open(path, "a+", encoding="utf-8")
        free = _lock(file)
        if os.fstat(file.fileno()).st_nlink == 0:  # whoever had it before has removed it since we opened it
            file.close()
            continue
        file.seek(0)
        pid, host, since = _holder(file.read(1000))
        if free and host in (None, platform.node()):
            return file
        file.close()
        if free:
            said = f"{folder} may be in use: process {pid} on {host} had it since {since}, and has not said that it is over"
            raise RunError(f"{said}; if it is, delete {path}")
        said = f"{folder} is in use by process {pid} on {host} since {since}"
        raise RunError(f"{said}; wait until that has ended, or stop it (`kill {pid}` lets it save)")


def _lock(file):
    """Whether an open file could be locked, or need not be, its file system having no locks."""
    try:
        if fcntl:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            file.seek(1 << 30)  # far beyond the text, for on Windows nobody can read what is locked
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        pass
    return True


def _holder(text):
    """(pid, host, since) from the text of a lock file; question marks and no host where it is still empty."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found = json.loads(text)
        return found["pid"], found["host"], found["since"]
    return "?", None, "?"


def _numbered(root, name):
    """The paths `root/<name>-<n>` from the number after the largest one taken."""
    taken = [entry.name.removeprefix(f"{name}-") for entry in root.iterdir() if entry.name.startswith(f"{name}-")]
    first = 1 + max((int(number) for number in taken if re.fullmatch("[0-9]+", number)), default=0)
    return (root / f"{name}-{n}" for n in itertools.count(first))


def _read_object(path):
    with _explained(f"read {path}", "give the path of a run directory"):
        text = path.read_bytes()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RunError(f"{path} is not a JSON object; restore it or start a new run")
    return value


def _json(value, indent=None):
    return json.dumps(value, indent=indent, default=_from_numpy)


def _from_numpy(value):
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r} is not JSON; use numbers, text, lists and dicts")


# --- Configurations and surroundings ----------------------------------------------------------------------------------


def first_difference(saved, asked):
    """The first field in which two nested configurations differ, as a sentence with both values; None when equal.

    "model.mem_slots: 4 in the checkpoint, 8 asked for". Tuples equal lists, 1 equals 1.0, NaN equals NaN.
    """
    return _difference(json.loads(_json(saved)), json.loads(_json(asked)), prefix="")


def _difference(saved, asked, prefix):
    for key in saved | asked:
        if key not in asked:
            return f"{prefix}{key}: {saved[key]!r} in the checkpoint, no such field asked for"
        if key not in saved:
            return f"{prefix}{key}: no such field in the checkpoint, {asked[key]!r} asked for"
        ours, theirs = saved[key], asked[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if (found := _difference(ours, theirs, f"{prefix}{key}.")) is not None:
                return found
        elif ours != theirs and _json(ours) != _json(theirs):  # the second comparison is for NaN
            return f"{prefix}{key}: {ours!r} in the checkpoint, {theirs!r} asked for"
    return None


def require_same(saved, asked, what):
    """Raise RunError unless both configurations are equal; `what` names the checkpoint the first belongs to."""
    if (found := first_difference(saved, asked)) is not None:
        raise RunError(f"{what} has another configuration: {found}; ask for the same or start a new run")


def environment():
    """What a result depends on besides its configuration. Names no host and no user; the home directory reads `~`."""
    affinity = getattr(os, "sched_getaffinity", None)  # the cores we may use; not known on macOS and Windows
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(),
        "tinyrmc": __version__,
        "git_commit": _git_commit(Path(__file__).resolve().parent.parent),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
    }


def _blas():
    """The BLAS NumPy uses and the kind of processor it works for, which may be worth a factor of two: `openblas 0.3.31 (SkylakeX)`."""
    from threadpoolctl import threadpool_info

    for library in threadpool_info():
        if library["user_api"] == "blas":
            kind = f" ({library['architecture']})" if library.get("architecture") else ""
            return f"{library['internal_api']} {library['version']}{kind}"
    return np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {}).get("name", "unknown")


def _command():
    """The command line as one would type it: `python -m tinyrmc.train nth_farthest`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)  # set under `python -m`, where argv[0] is a file's path
    program = ["python", "-m", spec.name.removesuffix(".__main__")] if spec else [os.path.basename(sys.argv[0])]
    home = os.path.expanduser("~")
    return re.sub(re.escape(home) + r"(?![\w.-])", "~", shlex.join(program + sys.argv[1:]))


def _git_commit(root):
    """The commit of the checkout whose top is `root`, with `-dirty` when files differ from it; None elsewhere."""
    if not (root / ".git").exists():  # asking git alone would also name a repository around somebody's .venv
        return None
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "--no-optional-locks", "-C", str(root), *describe]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return None


def _processor():
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
