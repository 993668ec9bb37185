"""Tools tests share: array libraries, small runs, and some settings.

Two settings must stand before NumPy and Hypothesis are imported: one BLAS thread (on
small matrices more of them cost time), and the folder where Hypothesis remembers its
examples (else it would be wherever you start pytest). And Ctrl-C is heard, which a job
in the background would ignore, and its children with it.
"""

import os
import signal
import threading
from pathlib import Path

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY",
    str(Path(__file__).resolve().parent.parent / ".hypothesis"),
)

os.environ.setdefault("TINYRMC_COMPILED", "0")  # test_compiled.py has them run
os.environ["TINYRMC_PROGRESS"] = ""  # no test solves an exercise for you

import contextlib
import dataclasses
import shutil
import signal
import sys

import browser
import cuda_shim
import fakecupy
import numpy as np
import pytest
import tinyagents
from babistories import write_babi
from hypothesis import settings
from tinyruns import ROOT, TINY, contents, nth_farthest, stop_at

from tinyrmc import fused
from tinyrmc.autograd import engine
from tinyrmc.backend import gpu as kernels
from tinyrmc.cli import (
    plot,  # noqa: F401, it draws whatever `few_pictures` does later
    train,
)
from tinyrmc.cli.commands import run_main
from tinyrmc.cores import registry
from tinyrmc.results import plotting
from tinyrmc.training import discovery
from tinyrmc.training.run import Run
from tinyrmc.training.trainer import Trainer

settings.register_profile("dev", max_examples=50, deadline=None)
# The same examples every time.
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` is looked at
def pytest_collection_modifyitems(items):
    """The website first: one worker builds it for minutes, while the others go on. What
    opens a browser is slow.
    """
    items.sort(key=lambda item: item.path.name != "test_site.py")
    for item in items:
        if "window" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """From now on no bytecode is kept: a file that a test writes again within a second,
    as long as before, would pass for the old one.
    """
    sys.dont_write_bytecode = True


LIBRARIES = [pytest.param(np, id="numpy"), pytest.param(fakecupy.cupy, id="stand-in")]
with contextlib.suppress(ImportError):
    import cupy

    if cupy.is_available():
        LIBRARIES.append(pytest.param(cupy, id="cupy"))


@pytest.fixture(params=LIBRARIES, scope="session")
def xp(request):
    """The array library of a test.

    NumPy, the strict stand-in for CuPy and, where there is a GPU, CuPy itself. Make
    values with `xp.array`, read them with `tolist()` and `float()`, and compare them
    with NumPy's after `backend.to_host`.
    """
    return request.param


@pytest.fixture
def cublas(monkeypatch):
    """The stand-in with kernels and with a cuBLAS, which it gives."""
    fakecupy.installed(monkeypatch)
    monkeypatch.setattr(kernels, "_JUDGES", 32)  # the shim is slow where many wait
    return cuda_shim.installed(monkeypatch)


@pytest.fixture(autouse=True, scope="session")
def few_words(tmp_path_factory):
    """A text of the Penn Treebank's layout, and bAbI stories, where every command looks
    for them.
    """
    folder = tmp_path_factory.mktemp("texts")
    words = "the cat sat on a mat and saw some other cats there".split()
    for part, count in ("train", 400), ("valid", 30), ("test", 40):
        rng = np.random.default_rng(count)
        lines = [" ".join(rng.choice(words, 6)) for _ in range(count)]
        (folder / f"ptb.{part}.txt").write_text("\n".join([*lines, ""]))
    write_babi(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINYRMC_DATA", str(folder))
        patch.setenv("TINYRMC_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def nothing_within_reach(monkeypatch):
    """Files beside a task, and cores, that one test has loaded are no other test's."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(discovery, "reached", [])
    monkeypatch.setattr(discovery, "_brought", {**discovery._brought})
    monkeypatch.setattr(discovery, "_given", {*discovery._given})
    cores = {**registry.cores()}
    yield
    registry.restore(cores)


@pytest.fixture(autouse=True)
def few_pictures(request, monkeypatch):
    """At its end a run draws nothing, which takes as long as all its steps, but in a
    test that asks for `pictures`.
    """
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(plotting, "draw_run", lambda run: [])


@pytest.fixture
def pictures():
    """Let runs draw pictures at their end, as they do for users."""


@pytest.fixture(autouse=True)
def nothing_left_on():
    """Fails a test that leaves on what would change what the next test sees.

    A Tape that records, plain mode, or kernels that are off.
    """
    yield
    recording = engine._local.tape is not None
    composed, kernels_off = fused.is_plain(), not kernels._on.value
    engine._local.tape = None
    for switch in fused.table._plain, kernels._on:
        switch._wanted = switch._wanted[:1]
        switch._apply()
    assert not recording, "the test left a Tape recording"
    assert not composed, "the test left fused.plain() on"
    assert not kernels_off, "the test left kernels.off() on"


@pytest.fixture
def caches(tmp_path_factory, monkeypatch):
    """The folder of the user's caches."""
    folder = tmp_path_factory.mktemp("caches")
    monkeypatch.setenv("TINYRMC_CACHE", str(folder))
    return folder / "texts"


@pytest.fixture(scope="session")
def window(tmp_path_factory):
    """A browser."""
    one = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield one
    one.close()


# --- Small runs and trainers ----------------------------------------------------------


@pytest.fixture(scope="module")
def few_held_out_examples():
    """Nth farthest is tested on 200 examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nth_farthest.Task, "test_examples", 200)
        yield


@pytest.fixture(scope="session")
def trained_agents(tmp_path_factory):
    """A folder of runs, as `tinyagents` names them. Do not change them."""
    folder = tmp_path_factory.mktemp("agents")
    tinyagents.train_all(folder)
    return folder


@pytest.fixture(scope="module")
def agents(trained_agents):
    """The same, tested on few levels while a module's tests run."""
    with tinyagents.few_levels():
        yield trained_agents


@pytest.fixture
def empty_directory(tmp_path, monkeypatch):
    """The current directory."""
    monkeypatch.setenv("COLUMNS", "400")  # nothing is wrapped
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained(few_held_out_examples, tmp_path_factory):
    """A finished run. Do not change it, take `copy`."""
    path = tmp_path_factory.mktemp("trained") / "run"
    with contextlib.redirect_stdout(None):
        assert train.main([*TINY, "--seed", "5", "--run", str(path)]) == 0
    return Run.open(path)


@pytest.fixture
def copy(trained, empty_directory):
    """A finished run that may be changed."""
    shutil.copytree(trained.path, "copy")
    return Run.open("copy")


@pytest.fixture
def half(few_held_out_examples, empty_directory):
    """A run that was stopped at step 7."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(None):
        stop_at(patch, 7)
        assert train.main([*TINY, "--seed", "5", "--run", "half"]) == 143
    return Run.open("half")


@pytest.fixture
def refused(capsys):
    """Runs a command line that must be refused and gives its one line.

    Nothing in the current directory may have changed. Standard output may hold
    anything: an evaluation may have told its numbers before something was refused.
    """

    def run(main, *words):
        assert Path.cwd() != ROOT  # where others write at the same time
        before = contents()
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run_main(lambda: main([str(word) for word in words]))
        err = capsys.readouterr().err
        assert caught.value.code == 2
        assert err.startswith("error: ")
        assert err.endswith("\n") and err.count("\n") == 1
        assert len(err) < 400
        assert contents() == before
        return err.removeprefix("error: ").rstrip("\n")

    return run


@pytest.fixture
def make_trainer():
    """Trainers whose processes are ended when the test is over."""
    made = []

    def make(*words, **keywords):
        made.append(Trainer(*words, **keywords))
        return made[-1]

    yield make
    for trainer in made:
        trainer.close()


@pytest.fixture
def new_run(tmp_path):
    """Makes run directories."""

    def make(task=None):
        config = dataclasses.asdict(task.config) if task else {}
        return Run.create(tmp_path, "run", {"config": config}, {})

    return make
