"""Packages and chapters as Python in a browser is given them."""

import importlib.util
import json
import tomllib
import zipfile
from pathlib import Path

import in_browser
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LOCK = in_browser.lock_of(None)


def test_pyodide_has_every_requirement_at_a_version_that_fits():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for line in tomllib.loads(text)["project"]["dependencies"]:
        wanted = Requirement(line)
        entry = LOCK["packages"].get(wanted.name)
        if entry is None:
            assert wanted.name in in_browser.ADDED, wanted
        else:
            assert wanted.specifier.contains(entry["version"]), wanted
    assert {*in_browser.ADDED} >= {"autograd", "pooch", "comm"}


def test_what_the_lock_names_it_has():
    names = {*LOCK["packages"], *in_browser.ADDED, "tinyrmc"}
    kernels = {"piplite", "pyodide-kernel", "ipykernel", "jedi"}
    assert {*in_browser.AT_ONCE} - kernels <= names
    for entry in LOCK["packages"].values():
        depends = {*map(in_browser._plain, entry["depends"])} - in_browser.UNUSED
        assert depends <= {*LOCK["packages"]}
        assert len(entry["sha256"]) == 64
    assert [*in_browser.needed(LOCK, ["contourpy"])] == ["contourpy", "numpy"]
    found = in_browser.needed(LOCK, ["ipython", "matplotlib"])
    assert not in_browser.UNUSED & {*found}
    assert all({*entry["depends"]} <= {*found} for entry in found.values())
    assert "fonttools" in in_browser.needed(LOCK, ["fonttools"])  # named, it is there


@pytest.mark.skipif(
    importlib.util.find_spec("jupyterlite_pyodide_kernel") is None,
    reason="needs the extra browser",
)
def test_the_lock_is_of_the_pyodide_that_the_kernel_names():
    from jupyterlite_pyodide_kernel.constants import PYODIDE_VERSION

    assert LOCK["info"]["version"] == PYODIDE_VERSION


def test_what_is_installed_becomes_a_wheel_again(tmp_path):
    wheel = in_browser.packed("filelock", tmp_path)
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        assert b"Name: filelock" in file.read(
            next(name for name in names if name.endswith(".dist-info/METADATA"))
        )
    assert "filelock/__init__.py" in names
    assert not any("__pycache__" in name or ".." in name for name in names)
    assert in_browser._imports(wheel) == ["filelock"]
    first = wheel.read_bytes()
    assert in_browser.packed("filelock", tmp_path).read_bytes() == first
    assert in_browser._imports(in_browser.empty("jedi", tmp_path)) == []


def test_chapters_lead_only_to_chapters_and_lists_are_one_text(tmp_path):
    in_browser.contents(tmp_path / "contents")
    files = sorted((tmp_path / "contents").glob("*.ipynb"))
    assert [file.name for file in files] == [
        each.name for each in in_browser.chapters()
    ]
    for file in files:
        notebook = json.loads(file.read_text(encoding="utf-8"))
        first = notebook["cells"][0]["source"]
        assert "**Reset this chapter**" in first
        for cell in notebook["cells"]:
            assert isinstance(cell["source"], str)
            if cell["cell_type"] == "markdown":
                for _, target in in_browser.LINK.findall(cell["source"]):
                    inside = target.partition("#")[0].rpartition("/")[2]
                    known = not inside or (tmp_path / "contents" / inside).is_file()
                    assert known or ":" in target, (file.name, target)
            for output in cell.get("outputs", []):
                for value in [output.get("text", ""), *output.get("data", {}).values()]:
                    assert not isinstance(value, list)


def test_chapters_take_minutes_at_most_as_the_table_says():
    text = (in_browser.HERE / "seconds.json").read_text(encoding="utf-8")
    found, table = json.loads(text), (in_browser.HERE / "README.md").read_text("utf-8")
    assert {f"{n:02}" for n in (*range(16), 25, 26)} == {*found["native"]}
    assert {*found["browser"]} > {*found["native"]}
    for number, cells in found["browser"].items():
        known = number in found["native"]
        assert max(cells) <= (60 if known else 120) and sum(cells) <= 240
        here = f"{sum(found['native'][number]):.1f}" if known else ""
        row = f"| {int(number)} | {sum(cells):.1f} | {max(cells):.1f} | {here} |"
        assert row in table, row
