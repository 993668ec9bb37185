"""A plugin that makes Python here as poor as Python in a browser:

    python -m pytest -p like_a_browser tests/test_engine.py

No locks, threads, processes or other modules that WebAssembly lacks, and indices of 32
bits: the functions of NumPy that take no wider integers than the machine's take none of
64 bits. Load it before anything else; it stays until the process ends. A test that
itself asks for threads or processes is skipped, here and in a real browser's Python.
"""

import contextlib
import functools
import os
import subprocess
import sys
import sysconfig
import threading
import traceback

import pytest

LACKING = (
    "fcntl msvcrt resource termios pwd lzma _lzma ssl _ssl _multiprocessing gymnasium"
)
UNABLE = ("start new thread", "not implemented", "Not supported", "processes")
# place of the indices among the arguments
STRICT = {"take": 1, "bincount": 0, "repeat": 1, "put": 1, "choose": 0}


def _refuse(kind, *words):
    def refused(*arguments, **keywords):
        raise kind(*words)

    return refused


def _strict(np, name, place):
    function = getattr(np, name)

    @functools.wraps(function)
    def strict(*arguments, **keywords):
        given = arguments[place] if len(arguments) > place else None
        if getattr(given, "dtype", None) in (np.int64, np.uint64, np.uint32):
            raise TypeError(
                f"Cannot cast array data from dtype('{given.dtype}') to dtype('int32') "
                "according to the rule 'safe'"
            )
        return function(*arguments, **keywords)

    setattr(np, name, strict)


def imitate():
    """From now on."""
    import hypothesis  # noqa: F401  whose own start needs what is gone then
    import numpy as np

    sysconfig.get_config_vars()  # found by the name of this platform
    places = sysconfig.get_paths() | {"stdlib": "/lib"}  # not there: in a zip file
    sysconfig.get_path = lambda name, *_: places[name]
    sys.modules.update(dict.fromkeys(LACKING.split()))  # None: there is no such module
    sys.platform = "emscripten"
    threading.Thread.start = _refuse(RuntimeError, "can't start new thread")
    os.fork = _refuse(OSError, 52, "Function not implemented")
    subprocess.Popen.__init__ = _refuse(OSError, 138, "Not supported")
    for name in "sched_getaffinity", "register_at_fork":
        vars(os).pop(name, None)
    np.intp = np.int32
    for name, place in STRICT.items():
        _strict(np, name, place)


def pytest_collection_modifyitems(items):
    """There is no GPU, so its stand-in has nothing to imitate."""
    items[:] = [item for item in items if "stand-in" not in item.name]


@contextlib.contextmanager
def _skipping():
    try:
        yield
    except (OSError, RuntimeError, ModuleNotFoundError) as error:
        files = [each.filename for each in traceback.extract_tb(error.__traceback__)]
        ours = [file for file in files if "tinyrmc/" in file.rpartition("tests/")[2]]
        if ours or not any(text in str(error) for text in UNABLE):
            raise
        pytest.skip(f"asks for what is not there: {error}")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    """Skips a test whose fixture could not start what it asked for itself."""
    with _skipping():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """The same of the test."""
    with _skipping():
        return (yield)


if sys.platform != "emscripten":
    imitate()
