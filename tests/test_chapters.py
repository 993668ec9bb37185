"""The chapters: notebooks say what their sources say, show the code that there is, and
run.
"""

import re
from pathlib import Path

import build
import nbformat
import pytest
from build import FOLDED, HERE, VARIES, execute, main, read, sources

from tinyrmc import course
from tinyrmc.course.exercises import first

SOURCES = sources()
LARGEST = 8_000_000  # bytes, all notebooks together
PACKAGE = HERE.parent


def committed(source: Path):
    return nbformat.read(HERE / f"{source.stem}.ipynb", as_version=4)


@pytest.fixture(params=SOURCES, ids=[path.stem for path in SOURCES])
def source(request):
    return request.param


def test_the_trained_networks_are_found_from_the_folders_where_chapters_run(
    monkeypatch, tmp_path
):
    for folder in (HERE, PACKAGE, HERE / "source"):
        monkeypatch.chdir(folder)
        assert (course.assets() / "nth_farthest_4x4.npz").exists()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"no chapters/assets in .* or above it; start in"
    ):
        course.assets()


@pytest.mark.parametrize(
    "name, meant", [("4", "; did you mean 04?"), ("99", ""), ("x", "")]
)
def test_a_chapter_that_is_not_there_is_refused_in_one_line(name, meant, capsys):
    assert main(["--check", "00", name]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(
        f"error: no chapter begins with {name!r}{meant or ';'}"
    )
    assert "here are 00_how_to_read, 01_arrays, " in said.err
    assert said.err.count("\n") == 1


def test_a_missing_tool_is_named_with_its_remedy(monkeypatch, capsys):
    monkeypatch.setattr(build, "TOOLS", ("nbformat", "no_such_tool"))
    assert main(["00"]) == 2
    assert (
        capsys.readouterr().err
        == "error: no_such_tool not installed; `make chapters` installs what it takes\n"
    )


def test_every_notebook_has_a_source_and_the_other_way_round():
    assert SOURCES and {path.stem for path in HERE.glob("*.ipynb")} == {
        path.stem for path in SOURCES
    }


def test_a_notebook_says_what_its_source_says(source):
    made, kept = read(source), committed(source)
    assert [(c.id, c.cell_type, c.source, dict(c.metadata)) for c in kept.cells] == [
        (c.id, c.cell_type, c.source, dict(c.metadata)) for c in made.cells
    ], f"`make chapters` brings chapters/{source.stem}.ipynb up to its source"
    assert kept.metadata == made.metadata


def test_a_notebook_has_been_run_from_top_to_bottom_without_an_error(source):
    cells = [cell for cell in committed(source).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [
        output
        for output in outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


def test_what_a_notebook_shows_of_the_package_is_what_stands_there(source):
    for cell in committed(source).cells:
        for output in cell.get("outputs", []):
            shown = output.get("data", {}).get("text/markdown", "")
            pieces = re.findall(
                r"^`(\w[\w/]+\.(?:py|cu))`\n\n```\w+\n(.*?)\n```$",
                shown,
                re.DOTALL | re.MULTILINE,
            )
            assert len(re.findall("^```", shown, re.MULTILINE)) == 2 * len(
                pieces
            )  # none is overlooked
            for place, text in pieces:
                lines = {
                    line.strip()
                    for line in (PACKAGE / place)
                    .read_text(encoding="utf-8")
                    .splitlines()
                }
                assert {line.strip() for line in text.splitlines()} <= lines, (
                    f"`make chapters` shows {place} as it is now"
                )


def test_what_a_notebook_says_of_an_exercise_untouched_is_what_is_said_now(
    source, capsys
):
    first.mean_slot.check(lambda M: ...)
    now = capsys.readouterr().out.strip()
    said = [
        line
        for cell in committed(source).cells
        for o in cell.get("outputs", [])
        for line in o.get("text", "").splitlines()
    ]
    assert {line for line in said if line.startswith("not attempted")} <= {now}, (
        "`make chapters` runs them again"
    )


def test_a_picture_is_described_for_those_who_do_not_see_it(source):
    for cell in committed(source).cells:
        pictures = [
            output
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {})
        ]
        if pictures or "plt.show()" in cell.source:
            assert (
                len(cell.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))
                > 20
            ), cell.source


def test_a_folded_cell_says_in_the_line_that_is_left_what_it_does(source):
    for cell in committed(source).cells:
        folded = FOLDED in cell.metadata.get("tags", [])
        assert cell.metadata.get("jupyter", {}).get("source_hidden", False) == folded
        assert not folded or re.match("# [A-Z]", cell.source)


def test_a_notebook_names_no_place_of_the_machine_that_ran_it(source):
    text = (HERE / f"{source.stem}.ipynb").read_text(encoding="utf-8")
    assert not re.search(r"/home/|/root/|/tmp/|/Users/|0x[0-9a-f]{9}", text)


def test_outputs_that_differ_from_run_to_run_are_not_kept(source):
    assert not [
        cell
        for cell in committed(source).cells
        if VARIES in cell.metadata.get("tags", []) and cell.outputs
    ]


def test_all_notebooks_together_are_small():
    assert sum(path.stat().st_size for path in HERE.glob("*.ipynb")) < LARGEST


def test_a_chapter_runs(source):
    execute(read(source), brief=True)  # raises where a cell does
