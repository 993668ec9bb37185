"""All that a result depends on besides its configuration: versions, processor, code.

environment.json keeps it. To code belongs that of one's own, the files of a task or a
core and whatever else these import: their digests, and the commit they are of.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shlex
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.files import read_whole
from ..config import stored_path
from . import discovery
from .run import Run

HERE = Path(__file__).resolve().parents[1]
# of Python, of what is installed, and of tinyrmc, what a checkout has beside it, too
OTHERS = [*map(Path, {sys.prefix, sys.base_prefix, sys.exec_prefix}), HERE]
OTHERS += [HERE.parent / name for name in ("benchmarks", "chapters", "site", "tests")]


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


def checksummed(config: dict[str, Any]) -> dict[str, Any]:
    """A run's configuration with a checksum of a task file of one's own."""
    if "task_file" not in config:
        return config
    crc = zlib.crc32(read_whole(discovery.word_of(config)))
    return {"task_crc": crc, **config}


def code_changes(config: dict[str, Any], run: Run | None) -> list[str]:
    """Says what has changed since a run of this configuration began: the task's file
    and, if you give the `run`, your own modules and cores.
    """
    says, ran = [], run.environment.get("own_code", {}) if run else {}
    for step, later in run.environment.get("later_code", {}).items() if run else ():
        if other := other_code(ran, later):
            says.append(f"from step {step} on it ran other code, in {', '.join(other)}")
        ran = later
    says += changed_code(ran, config)
    name, now = f"{config['task']}.py", checksummed(config).get("task_crc")
    known = ran or config.get("task_crc", now) == now
    return says if known else [*says, f"{name} has changed since this run began"]


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
    return commit_of(root, [], ("--", ".", ":!benchmarks/results"))


def _processor() -> str:
    """The processor's name; on Linux with family and model, since several are called
    "AMD EPYC": `AMD EPYC (family 26, model 2)`.
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


# --- Code of one's own ----------------------------------------------------------------


def own_files() -> dict[str, Path]:
    """The files that this process has imported and that are nobody else's, by name:
    as seen from the folder of a task or core, and elsewhere the whole path.
    """
    found: dict[str, Path] = {}
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = _place(os.path.abspath(file))
        if path is None or path.is_relative_to(discovery.FOLDER) or not path.is_file():
            continue
        name = stored_path(path)
        for folder in discovery.reached:
            near = path.relative_to(folder) if path.is_relative_to(folder) else None
            if near and found.setdefault(near.as_posix(), path) == path:
                name = near.as_posix()
                break
        found[name] = path
    return found


@functools.cache  # there are thousands of files, and each is asked for more than once
def _place(file: str) -> Path | None:
    """Where a module's file is; None if it was installed or is ours or Python's."""
    path = Path(file).resolve()
    installed = "site-packages" in path.parts or "dist-packages" in path.parts
    return None if installed or any(map(path.is_relative_to, OTHERS)) else path


def own_code() -> dict[str, Any]:
    """The entries of environment.json about it: "own_code", {file: the beginning of its
    SHA-256}, and "own_commit", that of the repository that they, or the current folder,
    are in; `-dirty` where that does not hold them as they are. Nothing, if there is
    none.
    """
    files = own_files()
    told: dict[str, Any] = {name: _digest(path) for name, path in sorted(files.items())}
    told = {"own_code": told} if told else {}
    folder = Path(discovery.reached[-1]) if discovery.reached else Path.cwd()
    ours = folder.is_relative_to(HERE.parent)  # what git_commit tells
    if not ours and (commit := commit_of(folder, [*files.values()])):
        told["own_commit"] = commit
    return told


def changed_code(before: Mapping[str, str], config: dict[str, Any]) -> list[str]:
    """Say which files are not as `own_code` told; a run's cores are those read now."""
    now, cores = own_files(), discovery.core_places(config).items()
    changed = []
    for name, digest in before.items():
        own = Path(os.path.expanduser(name))
        core = [x for was, x in cores if was.parts[-len(own.parts) :] == own.parts]
        beside = [x.parent / own for _, x in cores]  # loaded may be another run's
        loaded = [now[name]] if name in now else []
        near = [Path(x, own) for x in (*reversed(discovery.reached), "")]
        path = next(filter(Path.is_file, core + beside + loaded + near), None)
        if path is None:
            changed.append(f"{name} is gone")
        elif _digest(path) != digest:
            which = name if path.name == own.name else f"{name}, now {path.name},"
            changed.append(f"{which} has changed since this run began")
    return changed


def other_code(before: Mapping[str, str], later: Mapping[str, str]) -> dict[str, str]:
    """{file: digest} of what `own_code` told later, not before, nor by another name."""
    renamed = {k for k, x in later.items() if k not in before and x in before.values()}
    return {k: x for k, x in later.items() if before.get(k) != x and k not in renamed}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def commit_of(folder: Path, files: list[Path], among: Sequence[str] = ()) -> str | None:
    """The commit of the repository around a folder, with `-dirty` if tracked files
    (`among` those that git's words say) differ from it, or if it does not hold some of
    these files; None outside of any.
    """
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    ask: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 10}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        head = subprocess.run([*git, "rev-parse", "--verify", "HEAD"], **ask)
        if head.returncode == 0:
            status = [*git, "status", "--porcelain"]
            known = [*status, "--untracked-files=no", *among]
            tracked = subprocess.run(known, **ask).stdout
            near = [str(x) for x in files if x.is_relative_to(folder)]
            own = subprocess.run([*status, "--", *near], **ask).stdout if near else ""
            return head.stdout.strip() + "-dirty" * bool(tracked or own)
    return None
