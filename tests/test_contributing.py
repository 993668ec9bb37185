"""Tools for contributors: templates, environments, hooks and the drawing."""

import re

import drawing
import pytest
from tinyruns import ROOT, read


def test_what_runs_before_a_commit_is_what_make_lint_runs():
    yaml = pytest.importorskip("yaml")
    (local,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    entries = [hook["entry"] for hook in local["hooks"]]
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)[1]
    run = [line.strip().replace("$(python)", "python") for line in lint.splitlines()]
    assert [entry.replace(" --force-exclude", "") for entry in entries] == [
        line.removesuffix(" .") for line in run
    ]


def test_a_room_that_passes_its_budget_is_told(tmp_path, capsys):
    path = ROOT / ".ci" / "sizes.py"
    sizes = {"__file__": str(path), "__name__": "sizes"}
    exec(compile(path.read_text(), path, "exec"), sizes)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.py").write_text("1\n2\n3\n")
    (tmp_path / "a" / "b" / "y.py").write_text("1\n2\n")
    budgets = tmp_path / "pyproject.toml"
    for text, code in ('a = 3\n"a/b" = 2', 0), ('a = 2\n"a/b" = 2', 1), ("a = 4", 1):
        budgets.write_text(f"[tool.tinyrmc.lines]\n{text}\n")
        assert sizes["main"](tmp_path) == code
    assert capsys.readouterr().out.count("1 too many") == 2


def test_the_drawing_is_that_of_chapter_0(tmp_path):
    """Both pictures have as many shapes and letters as the committed ones; their bytes
    depend on the version of matplotlib.
    """
    drawing.main(tmp_path)
    for name in drawing.NAMES.values():
        made, kept = (tmp_path / name).read_text(), read(f"site/static/{name}")
        for part in ('id="patch_', 'id="text_', "fill: #"):
            assert made.count(part) == kept.count(part) > 10, "python site/drawing.py"


def test_colours_for_dark_pages_keep_their_hue():
    assert drawing.inverted("black") == (1, 1, 1, 1)
    assert drawing.inverted("white")[:3] == (drawing.DARKEST,) * 3
    red, green, blue, _ = drawing.inverted((0.9, 0.6, 0.6))
    assert red > green == pytest.approx(blue) and red < 0.5
