"""Which code of one's own ran: the digests of its files, and the commit they are of.

A result depends on more than tinyrmc and its settings: on the files of a task or a core
of one's own, and on whatever else these import. environment.json keeps what they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..config import stored_path
from . import discovery

HERE = Path(__file__).resolve().parents[1]
# of Python, of what is installed, and of tinyrmc, what a checkout has beside it, too
OTHERS = [*map(Path, {sys.prefix, sys.base_prefix, sys.exec_prefix}), HERE]
OTHERS += [HERE.parent / name for name in ("benchmarks", "chapters", "site", "tests")]


def own_files() -> dict[str, Path]:
    """The files that this process has imported and that are nobody else's, by name:
    as seen from the folder of a task or core, and elsewhere the whole path.
    """
    found: dict[str, Path] = {}
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        installed = "site-packages" in path.parts or "dist-packages" in path.parts
        theirs = any(path.is_relative_to(x) for x in [*OTHERS, discovery.FOLDER])
        if installed or theirs or not path.is_file():
            continue
        name = stored_path(path)
        for folder in discovery.reached:
            near = path.relative_to(folder) if path.is_relative_to(folder) else None
            if near and found.setdefault(near.as_posix(), path) == path:
                name = near.as_posix()
                break
        found[name] = path
    return found


def own_code() -> dict[str, Any]:
    """What environment.json says of it: "own_code", {file: the beginning of its
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


def changed_code(before: Mapping[str, str]) -> list[str]:
    """The files that are not as `own_code` told, in words."""
    now, changed = own_files(), []
    for name, digest in before.items():
        places = [now.get(name), *(Path(x, name) for x in reversed(discovery.reached))]
        places.append(Path(os.path.expanduser(name)))
        path = next((x for x in places if x and x.is_file()), None)
        if path is None:
            changed.append(f"{name} is gone")
        elif _digest(path) != digest:
            changed.append(f"{name} has changed since this run began")
    return changed


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def commit_of(folder: Path, files: list[Path]) -> str | None:
    """The commit of the repository around a folder, with `-dirty` if tracked files
    differ from it, or if it does not hold some of these files; None outside of any.
    """
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    ask: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 10}
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        head = subprocess.run([*git, "rev-parse", "--verify", "HEAD"], **ask)
        if head.returncode == 0:
            status = [*git, "status", "--porcelain"]
            tracked = subprocess.run([*status, "--untracked-files=no"], **ask).stdout
            near = [str(x) for x in files if x.is_relative_to(folder)]
            own = subprocess.run([*status, "--", *near], **ask).stdout if near else ""
            return head.stdout.strip() + "-dirty" * bool(tracked or own)
    return None
