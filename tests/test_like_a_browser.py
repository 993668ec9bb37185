"""Python in a browser has indices of 32 bits, and neither threads, processes nor locks:
the package imitates nothing of it, so this does.
"""

from pathlib import Path

import pytest
from tinyruns import SURROUNDINGS, python

HERE = Path(__file__).resolve().parent
SUITES = (
    "engine primitives equations fused nn optim cores ngrams linear_cross_entropy "
    "course exercises exercise_machinery puzzles"
)


def poor(*words):
    """Run Python there."""
    return python(*words, cwd=HERE.parent, timeout=None)


def test_every_module_can_be_imported():
    found = poor(
        "-c",
        """if True:
        import sys; sys.path.insert(0, "tests")
        import importlib, pkgutil, like_a_browser, tinyrmc
        for module in pkgutil.walk_packages(tinyrmc.__path__, "tinyrmc."):
            if module.name.rpartition(".")[2] not in ("__main__", "gym", "compiled"):
                importlib.import_module(module.name)
        """,
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_workers_take_turns_and_say_so_once():
    found = poor(
        "-c",
        """if True:
        import sys; sys.path.insert(0, "tests")
        import like_a_browser
        from tinyrmc.training.workers import CAN_FORK, Workers
        for _ in range(2):
            print(Workers(3, lambda worker, request: 10 * worker + request).run(5))
        assert not CAN_FORK
        """,
    )
    said = "no threads here: the workers' shares are computed one after another\n"
    assert found.stdout == said + 2 * "[5, 15, 25]\n"


def test_a_learner_counts_integers_of_64_bits():
    found = poor(
        "-c",
        """if True:
        import sys; sys.path.insert(0, "tests")
        import like_a_browser, numpy as np
        from tinyrmc import course
        course.setup()
        print(np.bincount(np.array([2, 0, 2], np.int64), minlength=4))
        """,
    )
    assert found.stdout == "[1 0 2 0]\n", found.stderr


@pytest.mark.slow
@pytest.mark.weekly
def test_the_suites_pass_there():
    files = [f"tests/test_{name}.py" for name in SUITES.split()]
    plugin = ["-p", "like_a_browser", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words = ["-m", "pytest", "-q", "-m", "not slow", *plugin, *files]
    around = SURROUNDINGS | {"PYTHONPATH": str(HERE)}
    found = python(*words, cwd=HERE.parent, env=around, timeout=None)
    assert found.returncode == 0, found.stdout[-3000:]
