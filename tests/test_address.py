"""The project's public address is written everywhere, or nowhere."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import address
import build
import pytest
from test_style import too_wide

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "chapters").glob("[0-9][0-9]_*.ipynb"))[:2]
FIRST, SECOND = "some-one/a.name", "Else/where"


@pytest.fixture
def tree(tmp_path):
    """A copy of the files that the address is written into."""
    folder = tmp_path / "tree"
    (folder / "chapters").mkdir(parents=True)
    for path in [*(ROOT / name for name in address.WRITERS), *NOTEBOOKS]:
        shutil.copy(path, folder / path.relative_to(ROOT))
    return folder


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def notebook(folder, number=0):
    return json.loads((folder / "chapters" / NOTEBOOKS[number].name).read_text())


@pytest.mark.skipif(bool(address.repository()), reason="the address is decided")
def test_while_it_is_empty_no_document_leads_to_one():
    """Neither to a repository nor to the services that would open it."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True
    )
    names = listed.stdout.split() or ["README.md", "CONTRIBUTING.md", "CITATION.cff"]
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in names
        if name.endswith((".md", ".cff", ".ipynb", ".yml", ".toml"))
    }
    leads = re.compile(
        r"(github\.com/[\w.-]+|github\.io)/\S*tinyrmc|mybinder|badge\.svg"
    )
    assert len(texts) > 2
    assert {name: leads.findall(text) for name, text in texts.items()} == {
        name: [] for name in texts
    }


def test_it_is_written_everywhere(tree):
    changed = address.write(FIRST, tree)
    assert {*changed} == {*contents(tree)}
    assert address.repository(tree) == FIRST
    url = f"https://github.com/{FIRST}"
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Documentation"] == "https://some-one.github.io/a.name/"
    assert project["scripts"]  # what follows the table is still there
    readme = (tree / "README.md").read_text()
    assert f"git clone {url}\ncd a.name\n" in readme
    assert f"pip install 'tinyrmc[course] @ git+{url}'\n" in readme
    assert f"({url}/actions/workflows/tests.yml)" in readme
    assert (ROOT / ".github/workflows/tests.yml").exists() or not (
        ROOT / ".git"
    ).exists()
    citation = (tree / "CITATION.cff").read_text()
    assert f'\nrepository-code: "{url}"\n' in citation
    assert citation.count("\n    url: https://arxiv.org/") == 2


def test_a_notebook_opens_in_colab_and_binder_and_installs_what_it_needs(tree):
    nbformat = pytest.importorskip("nbformat")
    before = [
        cell for cell in notebook(tree, 1)["cells"] if cell["id"] not in address.CELLS
    ]
    address.write(FIRST, tree)
    badges, install, *rest = notebook(tree, 1)["cells"]
    assert rest == before
    path = f"chapters/{NOTEBOOKS[1].name}"
    text = "".join(badges["source"])
    at = f"github/{FIRST}/blob/main/{path}"
    assert f"(https://colab.research.google.com/{at})" in text
    assert f"mybinder.org/v2/gh/{FIRST}/main?urlpath=lab/tree/{path})" in text
    code = "".join(install["source"])
    assert (
        f'%pip install --quiet "autograd>=1.7" "tinyrmc @ git+https://github.com/{FIRST}"'
        in code
    )
    assert "skip-execution" in install["metadata"]["tags"]
    nbformat.validate(nbformat.read(tree / path, as_version=4))


def test_a_notebook_made_afterwards_is_the_same(tree, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("jupytext")
    address.write(FIRST, tree)
    monkeypatch.setattr(address, "repository", lambda: FIRST)
    made = build.read(build.sources(["00"])[0])
    kept = nbformat.read(tree / "chapters" / NOTEBOOKS[0].name, as_version=4)
    for a, b in zip(made.cells, kept.cells, strict=True):
        assert (a.id, a.source, a.metadata) == (b.id, b.source, b.metadata)


def test_the_install_cell_asks_for_what_the_extra_course_asks_for():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {*extras["optional-dependencies"]["course"]} - {"jupyterlab>=4"}
    assert {*re.findall(r'"(\w+>=[\d.]+)"', address.INSTALL)} == wanted


def test_written_again_nothing_changes_and_another_takes_its_place(tree):
    address.write(SECOND, tree)
    second = contents(tree)
    assert address.write(SECOND, tree) == []
    assert contents(tree) == second
    address.write(FIRST, tree)
    assert not any(SECOND.encode() in text for text in contents(tree).values())
    address.write(SECOND, tree)
    assert contents(tree) == second


def test_the_longest_address_that_there_can_be_keeps_the_texts_in_their_columns(tree):
    address.write(f"{'o' * 39}/{'n' * 100}", tree)
    for name in address.WRITERS:
        assert too_wide((tree / name).read_text()) == [], name


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        ["owner"],
        ["owner/"],
        ["/name"],
        ["owner/name/more"],
        ["https://github.com/owner/name"],
        ["owner/name.git"],
        ["owner/.."],
        ["own er/name"],
        ["-owner/name"],
        ["owner/na'me"],
        ["owner/näme"],
        ["owner/name", "more"],
    ],
)
def test_what_is_no_address_is_refused_in_one_line(words, tree, monkeypatch, capsys):
    before = contents(tree)
    monkeypatch.setattr(address, "ROOT", tree)
    assert address.main(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("error: ") and "owner/name" in said.err
    assert contents(tree) == before


@pytest.mark.parametrize(
    "name, mark",
    [
        ("README.md", "<!-- address: clone -->"),
        ("pyproject.toml", "[project.urls]"),
        ("CITATION.cff", "license:"),
    ],
)
def test_a_file_without_its_place_stops_everything(
    name, mark, tree, capsys, monkeypatch
):
    text = (tree / name).read_text()
    (tree / name).write_text(text.replace(mark, "gone"))
    before = contents(tree)
    monkeypatch.setattr(address, "ROOT", tree)
    assert address.main([FIRST]) == 2
    assert name in capsys.readouterr().err
    assert contents(tree) == before


def test_make_passes_the_repository_on():
    makefile = (ROOT / "Makefile").read_text()
    assert "site/address.py $(if $(REPOSITORY),'$(REPOSITORY)')\n" in makefile
