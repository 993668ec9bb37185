"""The chapters: notebooks say what their sources say, show the code that there is, and
run.
"""

import ast
import copy
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import build
import mine
import nbformat
import pytest
from archives import build as build_archive
from archives import install
from build import ANSWER, FOLDED, GUESSED, HERE, VARIES, execute, main, read, sources
from turns import rarely

from tinyrmc.course.exercises import first, mended

SOURCES = sources()
LARGEST = 8_000_000  # bytes, all notebooks together
PACKAGE = HERE.parent
COLUMNS = 88

# What `course.show` and `cuda` display: a file's name, then its text.
SHOWN = re.compile(
    r"^`(\w[\w/]+\.(?:py|cu))`\n\n```\w+\n(.*?)\n```$", re.DOTALL | re.MULTILINE
)


@functools.cache
def committed(source: Path):
    return nbformat.read(HERE / f"{source.stem}.ipynb", as_version=4)


def code_cells(source: Path):
    """Those that building a notebook runs."""
    return [
        cell
        for cell in committed(source).cells
        if cell.cell_type == "code"
        and "skip-execution" not in cell.metadata.get("tags", [])
    ]


def outputs(source: Path):
    return [output for cell in code_cells(source) for output in cell.outputs]


def shown(source: Path):
    """(file, text) of each piece of the package that a notebook displays."""
    pieces = []
    for output in outputs(source):
        markdown = output.get("data", {}).get("text/markdown", "")
        found = SHOWN.findall(markdown)
        fences = re.findall("^```", markdown, re.MULTILINE)
        assert len(fences) == 2 * len(found)  # none is overlooked
        pieces += found
    return pieces


# --- The builder ----------------------------------------------------------------------


def test_a_chapter_that_is_not_there_is_refused_in_one_line(capsys):
    for name, says in (
        ("4", "; did you mean 04? There"),
        ("1", "; did you mean 01? There"),
        *((name, "; there") for name in ("x", "", "08_", "08_nor")),
    ):
        assert main(["--check", "00", name]) == 2
        said = capsys.readouterr()
        begins = f"error: no chapter begins with {name!r}{says} are 00_first_look, 01_"
        assert said.out == ""
        assert said.err.startswith(begins)
        assert said.err.count("\n") == 1


def test_a_missing_tool_is_named_with_its_remedy(monkeypatch, capsys):
    monkeypatch.setattr(build, "TOOLS", ("nbformat", "no_such_tool"))
    assert main(["00"]) == 2
    says = "no_such_tool not installed; `make chapters` installs what it takes"
    assert capsys.readouterr().err == f"error: {says}\n"


def test_your_copies_stay_as_they_are_and_answer_no_guess(tmp_path, monkeypatch):
    monkeypatch.setattr(mine, "MINE", tmp_path / "mine")
    assert mine.main([]) == 0
    for source in SOURCES:
        copied = nbformat.read(tmp_path / "mine" / f"{source.stem}.ipynb", 4)
        for cell, kept in zip(committed(source).cells, copied.cells, strict=True):
            hidden = cell.metadata.get("jupyter", {}).get("outputs_hidden")
            assert kept.source == cell.source
            assert kept.get("outputs") == ([] if hidden else cell.get("outputs"))
    for name in ("00_first_look", "01_arrays"):
        (tmp_path / "mine" / f"{name}.ipynb").write_text("mine")
    assert mine.main(["01"]) == 0 and mine.main(["x"]) == 2
    texts = [path.read_text() for path in sorted((tmp_path / "mine").iterdir())]
    assert texts[:2] == ["mine", "mine"] and texts[2] != "mine"  # the old one is kept


# --- The sources ----------------------------------------------------------------------


def test_every_notebook_has_a_source_and_the_other_way_round():
    notebooks = {path.stem for path in HERE.glob("*.ipynb")}
    assert SOURCES
    assert notebooks == {path.stem for path in SOURCES}


def test_a_picture_is_described_for_those_who_do_not_see_it():
    for source in SOURCES:
        for cell in committed(source).cells:
            drawn = [
                o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})
            ]
            if drawn or "plt.show()" in cell.source:
                image = cell.metadata.get("mystnb", {}).get("image", {})
                assert len(image.get("alt", "")) > 20, cell.source
                assert drawn, cell.source  # MPLBACKEND=Agg shows nothing


def test_a_folded_cell_says_in_the_line_that_is_left_what_it_does():
    for source in SOURCES:
        for cell in committed(source).cells:
            tags = cell.metadata.get("tags", [])
            marks = cell.metadata.get("jupyter", {})
            folded = FOLDED in tags or ANSWER in tags
            hidden = GUESSED in tags or ANSWER in tags
            assert marks.get("source_hidden", False) == folded, cell.source
            assert marks.get("outputs_hidden", False) == hidden, cell.source
            assert not folded or re.match("# [A-Z]", cell.source), cell.source
            first = cell.source.splitlines()[0] if cell.source else ""
            assert ANSWER not in tags or re.fullmatch(r"# Answer \d", first), first


def test_exercises_are_numbered_in_the_order_of_the_text():
    for source in SOURCES:
        found = re.findall(r"\*\*Exercise (\d+)", source.read_text(encoding="utf-8"))
        assert found == [f"{1 + k}" for k in range(len(found))], source.stem


# --- The notebooks --------------------------------------------------------------------


def told(notebook):
    return notebook.metadata, [
        (cell.id, cell.cell_type, cell.source, dict(cell.metadata))
        for cell in notebook.cells
    ]


def test_a_notebook_says_what_its_source_says():
    for source in SOURCES:
        remedy = f"`make chapters` brings chapters/{source.stem}.ipynb up to its source"
        assert told(committed(source)) == told(read(source)), remedy


def test_a_notebook_has_been_run_from_top_to_bottom_without_an_error():
    for source in SOURCES:
        counts = [cell.execution_count for cell in code_cells(source)]
        assert counts == [*range(1, len(counts) + 1)], source.stem
        for output in outputs(source):
            assert output.output_type != "error", source.stem
            assert output.get("name") != "stderr", source.stem


def test_what_a_notebook_shows_of_the_package_is_what_stands_there():
    assert sum(len([*shown(source)]) for source in SOURCES) > 20
    for source in SOURCES:
        for place, text in shown(source):
            file = (PACKAGE / place).read_text(encoding="utf-8")
            lines = {line.strip() for line in file.splitlines()}
            missing = {line.strip() for line in text.splitlines()} - lines
            assert not missing, f"`make chapters` shows {place} as it is now"


def test_what_a_notebook_shows_of_the_package_fits_into_its_columns():
    for source in SOURCES:
        for place, text in shown(source):
            wide = [line for line in text.splitlines() if len(line) > COLUMNS]
            assert wide == [], place


def test_what_a_notebook_prints_fits_into_a_page_of_the_site():
    for source in SOURCES:
        lines = [x for o in outputs(source) for x in o.get("text", "").splitlines()]
        assert [line for line in lines if len(line) > COLUMNS + 2] == [], source.stem


def test_what_a_notebook_says_of_an_exercise_untouched_is_what_is_said_now(capsys):
    for source in SOURCES:
        first.mean_slot.check(lambda M: ...)
        now = capsys.readouterr().out.strip()
        lines = [
            line for o in outputs(source) for line in o.get("text", "").splitlines()
        ]
        said = {line for line in lines if line.startswith("not attempted")}
        now = {now, f"not attempted: {mended.UNCHANGED}"}
        assert said <= now, "`make chapters` runs them again"


def test_a_notebook_names_no_place_of_the_machine_that_ran_it():
    for source in SOURCES:
        text = (HERE / f"{source.stem}.ipynb").read_text(encoding="utf-8")
        assert not re.search(r"/home/|/root/|/tmp/|/Users/|0x[0-9a-f]{9}", text)


def test_outputs_that_differ_from_run_to_run_are_not_kept():
    for source in SOURCES:
        for cell in code_cells(source):
            assert VARIES not in cell.metadata.get("tags", []) or not cell.outputs


def test_below_a_cell_that_prints_stands_what_it_printed():
    for source in SOURCES:
        for cell in code_cells(source):
            statements = ast.parse(cell.source).body
            prints = any(
                re.search(r"\bprint\(", ast.unparse(each))
                for each in statements
                if isinstance(each, ast.Expr | ast.For | ast.With)
            )
            if prints and VARIES not in cell.metadata.get("tags", []):
                texts = [o.get("name") for o in cell.outputs]
                assert "stdout" in texts, f"{source.stem}: {cell.source}"


def test_all_notebooks_together_are_small():
    assert sum(path.stat().st_size for path in HERE.glob("*.ipynb")) < LARGEST


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """A folder like site-packages that holds this tree's wheel alone."""
    folder = tmp_path_factory.mktemp("installed")
    return install(build_archive("wheel", PACKAGE, folder / "wheel"), folder / "site")


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [*SOURCES[10::10], *rarely(x for x in SOURCES if x not in SOURCES[10::10])],
    ids=lambda x: x.stem,
)
def test_a_chapter_runs_from_the_wheel_in_an_empty_folder(
    source, packages, tmp_path, monkeypatch
):
    """With nothing but the notebook: what it reads comes with the package."""
    monkeypatch.delenv("TINYRMC_DATA")
    notebook = copy.deepcopy(committed(source))
    notebook.cells.append(nbformat.v4.new_code_cell("import tinyrmc\ntinyrmc.__file__"))
    # raises where a cell does
    execute(notebook, brief=True, folder=tmp_path, packages=packages)
    (where,) = notebook.cells[-1].outputs
    assert where["data"]["text/plain"] == repr(str(packages / "tinyrmc/__init__.py"))


@pytest.mark.slow
@pytest.mark.weekly
@pytest.mark.parametrize("source", SOURCES, ids=[path.stem for path in SOURCES])
def test_a_chapter_runs_as_a_program_too(source, tmp_path):
    settings = {"TINYRMC_FAST": "1", "TINYRMC_PROGRESS": "", "MPLBACKEND": "Agg"}
    path = os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, source],
        env=os.environ | settings | {"PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-500:]
