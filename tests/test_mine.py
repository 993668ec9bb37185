"""A learner's copies of the chapters: `python chapters/mine.py`."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FEW = "00_first_look.ipynb", "04_blending.ipynb", "10_deep.ipynb", "19_last.ipynb"
WORDS = {"cells": [{"metadata": {"jupyter": {"outputs_hidden": True}}, "outputs": [1]}]}


@pytest.fixture
def mine(tmp_path):
    """chapters/mine.py, in a folder with four chapters, copied once and worked in."""
    shutil.copy(ROOT / "chapters" / "mine.py", tmp_path)
    for name in FEW:
        (tmp_path / name).write_text(json.dumps(WORDS))
    spec = importlib.util.spec_from_file_location("mine", tmp_path / "mine.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main([]) == 0
    for name in FEW:
        (module.MINE / name).write_text(f"mine: {name}")
    return module


def there(mine):
    return {path.name: path.read_text() for path in mine.MINE.iterdir()}


def test_only_two_digits_of_a_chapter_are_taken(mine, capsys):
    before = there(mine)
    for word in "", "1", "0", "*", "..", "04_", "4", "99", "04_blending", "1\n", "0 4":
        for words in [word], ["04", word], [word, "04"]:
            assert mine.main(words) == 2, words
            says = capsys.readouterr().err
            assert says.startswith(f"error: there is no chapter {word!r}; give two di")
            assert says.count("\n") == 1 and there(mine) == before
    assert mine.main([]) == 0 and there(mine) == before


def test_what_was_there_is_kept_beside_and_said(mine, capsys):
    for k in 1, 2, 3:
        assert mine.main(["10"]) == 0
        old = f"10_deep.before-{k}.ipynb"
        assert f"10_deep.ipynb is new; what you had there is {old}\n" in (
            capsys.readouterr().out
        )
        found = there(mine)
        assert len(found) == 4 + k
        assert json.loads(found["10_deep.ipynb"])["cells"][0]["outputs"] == []
        assert found[old].startswith("mine: 10" if k == 1 else "{")
    assert found["19_last.ipynb"] == "mine: 19_last.ipynb"


def test_an_empty_copy_is_made_anew_and_none_is_left_half(mine, monkeypatch):
    (mine.MINE / FEW[1]).write_text("")
    (mine.HERE / "04_blending-Copy1.ipynb").write_text("{}")  # JupyterLab's
    assert mine.main([]) == 0
    assert len(there(mine)[FEW[1]]) > 9 and len(there(mine)) == 4
    (mine.MINE / FEW[0]).unlink()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mine.os, "replace", full)
    assert mine.main([]) == 2
    before = there(mine)
    assert {*before} == {*FEW[1:]}
    assert mine.main(["10"]) == 2 and there(mine) == before
    (mine.MINE / FEW[0]).write_text("mine again")
    assert mine.main(["10"]) == 2 and len(there(mine)) == len(FEW)


def test_a_folder_that_cannot_be_written_is_one_line(mine, capsys, monkeypatch):
    (mine.HERE / "file").write_text("")
    monkeypatch.setattr(mine, "MINE", mine.HERE / "file" / "mine")
    assert mine.main([]) == 2
    says = capsys.readouterr().err
    assert (
        "file/mine: Not a directory; name another folder in the variable TINY" in says
    )
    assert says.count("\n") == 1


def test_two_that_make_copies_anew_at_once_lose_none(mine, monkeypatch):
    """One that looks for a free name sees what the other has not yet put there."""
    assert mine.main(["04"]) == 0
    monkeypatch.setattr(mine.Path, "exists", lambda path: "before" not in path.name)
    (mine.MINE / "04_blending.ipynb").write_text("more of mine")
    assert mine.main(["04"]) == 0
    monkeypatch.undo()
    found = there(mine)
    assert found["04_blending.before-1.ipynb"] == "mine: 04_blending.ipynb"
    assert found["04_blending.before-2.ipynb"] == "more of mine"
