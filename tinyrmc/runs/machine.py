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

import numpy as np


def environment(version: str):
    """What a result depends on besides its configuration.

    Names no host and no user; the home directory reads `~`.
    """
    affinity = getattr(
        os, "sched_getaffinity", None
    )  # the cores we may use; not known on macOS and Windows
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
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
    }


def _blas():
    """The BLAS NumPy uses and the kind of processor it works for, which may be worth a
    factor of two: `openblas 0.3.31 (SkylakeX)`.
    """
    from threadpoolctl import threadpool_info

    for library in threadpool_info():
        if library["user_api"] == "blas":
            kind = (
                f" ({library['architecture']})" if library.get("architecture") else ""
            )
            return f"{library['internal_api']} {library['version']}{kind}"
    return (
        np.show_config(mode="dicts")
        .get("Build Dependencies", {})
        .get("blas", {})
        .get("name", "unknown")
    )


def _command():
    """The command line as one would type it: `python -m tinyrmc.train nth_farthest`."""
    spec = getattr(
        sys.modules["__main__"], "__spec__", None
    )  # set under `python -m`, where argv[0] is a file's path
    program = (
        ["python", "-m", spec.name.removesuffix(".__main__")]
        if spec
        else [os.path.basename(sys.argv[0])]
    )
    home = os.path.expanduser("~")
    return re.sub(
        re.escape(home) + r"(?![\w.-])", "~", shlex.join(program + sys.argv[1:])
    )


def _git_commit(root):
    """The commit of the checkout whose top is `root`, with `-dirty` when files differ
    from it; None elsewhere.
    """
    if not (
        root / ".git"
    ).exists():  # asking git alone would also name a repository around somebody's .venv
        return None
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "--no-optional-locks", "-C", str(root), *describe]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    return None


def _processor():
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
