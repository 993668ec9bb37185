"""What a result depends on besides its configuration: versions, processor, command."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np


def environment(version: str) -> dict[str, Any]:
    """What a result of tinyrmc `version` depends on besides its configuration.

    Names no host and no user; the home directory reads `~`.
    """
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": _command(),
        "tinyrmc": version,
        "git_commit": _git_commit(Path(__file__).resolve().parents[2]),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": _blas(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(usable_cores()),
    }


def usable_cores() -> list[int]:
    """The numbers of the cores that this process may use; of all there are where that
    is not known, as on macOS.
    """
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


def _blas() -> str:
    """The BLAS NumPy uses and the kind of processor it works for, which may be worth a
    factor of two: `openblas 0.3.31 (SkylakeX)`.
    """
    from threadpoolctl import threadpool_info

    for library in threadpool_info():
        if library["user_api"] == "blas":
            kind = library.get("architecture")
            name = f"{library['internal_api']} {library['version']}"
            return f"{name} ({kind})" if kind else name
    built_with = np.show_config(mode="dicts").get("Build Dependencies", {})
    return built_with.get("blas", {}).get("name", "unknown")


def _command() -> str:
    """The command line as one would type it: `python -m tinyrmc.train nth_farthest`."""
    # set under `python -m`, where argv[0] is a file's path
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec:
        program = ["python", "-m", spec.name.removesuffix(".__main__")]
    else:
        program = [os.path.basename(sys.argv[0])]
    home = re.escape(os.path.expanduser("~"))
    return re.sub(home + r"(?![\w.-])", "~", shlex.join(program + sys.argv[1:]))


def _git_commit(root: Path) -> str | None:
    """The commit of the checkout whose top is `root`, with `-dirty` when files other
    than results differ from it; None elsewhere.
    """
    # Asking git alone would also name a repository around somebody's .venv.
    if not (root / ".git").exists():
        return None

    def git(*words):
        command = ["git", "--no-optional-locks", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=10)

    with contextlib.suppress(OSError, subprocess.SubprocessError):
        commit = git("rev-parse", "--verify", "HEAD")
        same = git("diff", "--quiet", "HEAD", "--", ".", ":!benchmarks/results")
        if commit.returncode == 0:
            return commit.stdout.strip() + "-dirty" * bool(same.returncode)
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
