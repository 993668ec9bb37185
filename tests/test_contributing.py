"""Tools for contributors: hooks, and what a room may grow."""

import re

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
