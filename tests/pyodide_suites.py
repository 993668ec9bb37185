"""Runs test files in Pyodide: pyodide_suites.py FILE ..., of tests/."""

import os
import shutil
import sys
from pathlib import Path

HERE = Path("/tests_here")  # where files can be made, and the plugin's words are true


def main(files):
    """The exit code of pytest."""
    import pytest

    skipped = shutil.ignore_patterns("__pycache__", "*.ipynb", "_build", "*.png")
    for name in ("tinyrmc", "tasks", "tests", "benchmarks", "chapters", "site"):
        shutil.copytree(Path("/repo", name), HERE / name, ignore=skipped)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(Path("/repo", name), HERE)
    os.chdir(HERE)
    os.environ["MPLBACKEND"] = "agg"  # Pyodide's own draws in a page
    # In Pyodide 0.27 a file that has been replaced comes back when it is deleted.
    os.replace = lambda old, new: (Path(new).unlink(True), os.rename(old, new))
    sys.path[:0] = [str(HERE), str(HERE / "tests")]
    options = "-q --capture=sys -p like_a_browser --tb=short -W ignore -o addopts="
    options += " -p no:cacheprovider -p no:threadexception -p no:faulthandler"
    return pytest.main([*options.split(), "-mnot slow", *(f"tests/{x}" for x in files)])


if __name__ == "__main__":
    if code := int(main(sys.argv[1:])):  # to exit would be a fault of Pyodide's
        raise RuntimeError(f"pytest has ended with {code}")
