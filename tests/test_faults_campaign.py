"""The campaign of faults: a small share of it, and that it would tell."""

import json
import random
import sys

import faults
import forging
import numpy as np
import pytest
from tinyruns import ROOT, python
from trials import Ended, judge

from tinyrmc.errors import RunError
from tinyrmc.runs.arrays import load_arrays
from tinyrmc.runs.run import Run

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks, and reads /proc")


@linux
def test_a_small_share_of_the_campaign(tmp_path):
    """No case of it is silent, and none ends in a traceback."""
    groups = "kills signals workers streams damaged forged words calls".split()
    words = ["--tasks", "nth_farthest", "--share", "0.03", "--only", *groups]
    out = tmp_path / "faults.json"
    done = python(ROOT / "benchmarks" / "faults.py", *words, "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(out.read_text())
    assert found["wrong"] == [] and [*found["faults"]] == groups
    for counts in found["faults"].values():
        assert counts["tried"] == counts["survived"] + counts["refused"] > 0
    assert "forged" in done.stdout and "traceback" in done.stdout


def test_what_is_wrong_is_called_so():
    line = "error: no\n"
    for ended, same, unchanged, outcome in (
        (Ended(0, "", ""), True, True, "survived"),
        (Ended(0, "", ""), False, True, "silent"),
        (Ended(2, "", line), False, True, "refused"),
        (Ended(2, "", line), False, False, "silent"),
        (Ended(2, "", line * 2), False, True, "traceback"),
        (Ended(2, "", "no\n"), False, True, "traceback"),
        (Ended(1, "", line), False, True, "traceback"),
        (Ended(0, "", "Traceback (most recent call last)"), True, True, "traceback"),
        (Ended(-11, "", ""), True, True, "traceback"),
        (Ended(None, "", ""), True, True, "traceback"),
    ):
        assert judge(ended, same, unchanged)[0] == outcome, ended


@pytest.fixture
def small(tmp_path):
    """A directory with the files of a run."""
    config = {"task": "t", "preset": "p", "seed": 0, "config": {"rungs": [[1, 2]]}}
    run = Run.create(tmp_path, "run", config, {"command": "c"}, tmp_path / "run")
    run.log({"step": 1, "loss": 0.5, "rung": "4x4"})
    state = {"run": config, "step": 1, "window": {"loss": [1, 2]}}
    run.save({"parameters/w": np.ones(3, np.float32)}, state)
    return run


@linux
@pytest.mark.parametrize("damage", forging.DAMAGES)
def test_damages_are_damages(damage, small):
    for number, name in enumerate(("config.json", "checkpoint.npz")):
        rng, path = random.Random(number), small.path / name
        before = path.read_bytes()
        damage(path, rng)
        assert not path.is_file() or path.is_symlink() or path.read_bytes() != before
    with pytest.raises(RunError):
        small.load()


def test_forgeries_have_other_types_and_checksums_that_are_right(small):
    rng = random.Random(0)
    names = "config.json", "environment.json", "metrics.jsonl"
    for name in names * 5:
        path = small.path / name
        before = path.read_text()
        forging.forge_json(path, rng)
        assert path.read_text() != before
        path.write_text(before)
    whole = small.checkpoint.read_bytes()
    for forge in (forging.forge_state, forging.forge_both, forging.forge_arrays) * 5:
        forge(small.checkpoint, rng)
        load_arrays(small.checkpoint)
        assert small.checkpoint.read_bytes() != whole
        small.checkpoint.write_bytes(whole)


def test_a_value_is_never_forged_into_one_of_its_own_type():
    for value in (3, 0.5, "x", True, None, [1], {"a": 1}):
        for new in forging.other_kinds(value):
            assert type(new) is not type(value), (value, new)
    state = {"a": [1, {"b": None}]}
    assert [*forging.places(state)] == [("a",), ("a", 0), ("a", 1), ("a", 1, "b")]
    assert forging.replaced(state, ("a", 1, "b"), 3) == {"a": [1, {"b": 3}]}
    assert state == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("words", ["--quick", "--share 0.5", "--only kills"])
def test_a_part_of_the_campaign_replaces_no_result(words):
    assert faults.parsed(words.split()).out is None
    assert faults.parsed([]).out == faults.OUT
