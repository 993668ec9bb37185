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


def test_a_room_may_grow_by_five_percent(tmp_path, capsys):
    path = ROOT / ".ci" / "sizes.py"
    sizes = {"__file__": str(path), "__name__": "sizes"}
    exec(compile(path.read_text(), path, "exec"), sizes)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "y.py").write_text("1\n" * 90)  # small: may grow
    text = '[tool.tinyrmc.lines]\na = 10_000\n"a/b" = 2\n'
    (tmp_path / "pyproject.toml").write_text(text)
    for lines, words, code in (
        (9800, "-2.0 %\n", 0),
        (10200, "+2.0 %\n", 0),
        (10300, "+3.0 %  take care", 0),
        (10500, "+5.0 %  take care", 0),
        (10600, "+6.0 %  too much", 1),
    ):
        (tmp_path / "a" / "x.py").write_text("1\n" * lines)
        assert sizes["main"](tmp_path) == code
        printed = capsys.readouterr().out
        assert words in printed and "a/b" in printed, printed


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
