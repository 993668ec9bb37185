"""The project describes itself alike everywhere, and ships all it needs and no more."""

import ast
import itertools
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import make_site
import pytest
from archives import build
from hypothesis.configuration import storage_directory
from tinyruns import ROOT, output, read

import tinyrmc

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def files(folder, pattern="*"):
    """The files of a folder, by their paths from the top."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }


# --- Archives -------------------------------------------------------------------------

COURSE = ["assets/nth_farthest_4x4.npz", "assets/alice.txt", "results/cpu.json"]


def placed(name):
    """Where the wheel has a file of the repository."""
    places = {"benchmarks/": "tinyrmc/course/", "chapters/": "tinyrmc/course/"}
    for top, place in (places | {"tasks/": "tinyrmc/tasks/"}).items():
        name = name.replace(top, place)
    return name


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of this tree."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("built") / "wheel")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """A source archive of this tree, unpacked: its top folder."""
    folder = tmp_path_factory.mktemp("built")
    with tarfile.open(build("sdist", ROOT, folder / "sdist")) as archive:
        # Python 3.11 has filters from 3.11.4 on
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder, **safe)
    return folder / f"tinyrmc-{tinyrmc.__version__}"


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_tasks_inside_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = {
            Path(name).name: archive.read(name).decode()
            for name in names
            if ".dist-info/" in name
        }
    shipped = {name for name in names if ".dist-info/" not in name}
    package = {*files("tinyrmc"), *files("tasks")} - {"tinyrmc/README.md"}
    results = files("benchmarks/results", "*.json") | files("chapters/claims", "*.json")
    assert shipped == {placed(name) for name in package | results}
    assert {"tinyrmc/py.typed", "tinyrmc/tasks/nth_farthest.py"} <= shipped
    assert {f"tinyrmc/course/{name}" for name in COURSE} <= shipped
    assert {"LICENSE", "METADATA", "RECORD"} <= set(about)
    assert "Requires-Python: >=3.11" in about["METADATA"]
    description = about["METADATA"].partition("\n\n")[2]
    assert description.startswith(
        "# tinyrmc\n\n**tinyrmc is the Relational Memory Core"
    )
    assert "Description-Content-Type: text/markdown" in about["METADATA"]
    leads = re.findall(r"\]\(([^)]*)\)|src", description)
    assert leads and all(lead.startswith(("https://", "#")) for lead in leads)
    scripts = "[console_scripts]\ntinyrmc = tinyrmc.__main__:run\n"
    assert about["entry_points.txt"] == scripts


@pytest.mark.slow
def test_shipped_networks_can_be_loaded_from_the_wheel(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import tinyrmc; print(tinyrmc.load(*tinyrmc.shipped()), tinyrmc.__file__)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    out = subprocess.check_output(command, env=environment, cwd=tmp_path, text=True)
    assert out.startswith("Network(") and str(tmp_path) in out


@pytest.mark.slow
def test_the_source_archive_makes_the_same_wheel(wheel, sdist, tmp_path):
    again = build("wheel", sdist, tmp_path / "again")
    assert again.name == wheel.name and again.read_bytes() == wheel.read_bytes()


@pytest.mark.slow
def test_the_source_archive_can_be_built_tested_and_cited(sdist):
    names = {
        path.relative_to(sdist).as_posix()
        for path in sdist.rglob("*")
        if path.is_file()
    }
    wanted = "pyproject.toml README.md LICENSE CITATION.cff CHANGELOG.md Makefile"
    wanted += (
        " CONTRIBUTING.md .ci/run .ci/sizes.py site/make_site.py site/pages/index.md"
    )
    wanted += " CODE_OF_CONDUCT.md .binder/postBuild site/static/tinyrmc.css"
    wanted += " benchmarks/cpu.py chapters/build.py .devcontainer/devcontainer.json"
    wanted += " .pre-commit-config.yaml"
    assert set(wanted.split()) | files("tinyrmc") <= names
    assert files("tasks") | files("tests") <= names
    tops = {name.partition("/")[0] for name in names}
    assert tops.isdisjoint({"runs", "build", "dist", ".venv", ".hypothesis", ".git"})
    assert not any("_build/" in name for name in names)


# --- Dependencies ---------------------------------------------------------------------


def name_of(requirement):
    return re.match(r"[\w.-]+", requirement)[0]


def imported(folder):
    """The packages that the files of a folder import, but for Python's own."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names


def test_what_the_package_imports_is_what_it_depends_on():
    required = {name_of(each) for each in PROJECT["dependencies"]}
    optional = {*"cupy cupy_backends gymnasium mpi4py numba argcomplete".split()}
    optional |= {"tensorboardX"}
    found = imported("tinyrmc") | imported("tasks")
    assert found == required | optional | {"tinyrmc"}


def test_a_chapter_needs_nothing_but_the_extra_course():
    required = {*PROJECT["dependencies"], *EXTRAS["course"]}
    # IPython comes with JupyterLab; one cell runs only where Numba is
    known = {name_of(each) for each in required} | {"tinyrmc", "IPython", "numba"}
    assert imported("chapters/source") <= known


def test_no_extra_asks_for_what_nothing_uses():
    named_otherwise = {"mpich": "mpiexec", "cupy-cuda12x": "cupy", "torch": "torch"}
    texts = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("tinyrmc", "tasks", "tests", "chapters", "benchmarks", "site")
        for path in (ROOT / folder).rglob("*.py")
        if path != Path(__file__)
    ) + read("Makefile")
    for extra, requirements in EXTRAS.items():
        for name in map(name_of, requirements):
            used = named_otherwise.get(name, name.replace("cupy-cuda13x", "cupy"))
            pattern = rf"\b{used}\b".replace("-", "[-_]")
            assert re.search(pattern, texts), f"{extra}: nothing uses {name}"


def test_every_requirement_has_a_lower_bound():
    requirements = [*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values())]
    own = [each for each in requirements if name_of(each) == "tinyrmc"]
    assert [each for each in requirements if ">=" not in each] == own


def test_importing_tinyrmc_imports_numpy_and_no_other_dependency():
    """Neither CuPy nor any dependency that only a command line or a picture needs:
    quick to import, and in a browser possible at all.
    """
    unwanted = {name_of(each) for each in PROJECT["dependencies"]} - {"numpy"}
    assert {"matplotlib", "tqdm"} <= unwanted
    unwanted |= {"cupy", "autograd", "mpi4py", "argparse", "tasks"}
    code = """
import sys, numpy, tinyrmc
with tinyrmc.Tape() as tape:
    loss = tinyrmc.primitives.sum(tinyrmc.Parameter(numpy.ones(3)) * 2.0)
tape.backward(loss)
print("\\n".join(sys.modules))
"""
    loaded = {name.partition(".")[0] for name in output("-c", code).split()}
    assert "numpy" in loaded
    assert not loaded & unwanted


# --- Documents ------------------------------------------------------------------------


def test_what_hypothesis_remembers_lies_at_the_top_wherever_pytest_was_started():
    found = storage_directory()
    # older releases give the path itself
    assert getattr(found, "path", found) == ROOT / ".hypothesis"


def test_the_citation_carries_the_version_and_both_papers():
    citation = read("CITATION.cff")
    stated = dict(re.findall(r"^(version|license): (.+)$", citation, re.MULTILINE))
    assert stated == {"version": tinyrmc.__version__, "license": PROJECT["license"]}
    assert "Relational recurrent neural networks" in citation
    assert "End-To-End Memory Networks" in citation


def test_what_the_readme_says_is_what_runs():
    """README, Makefile and .ci/run mean the same test command; `make train` is the
    README's first command.
    """
    readme, makefile, check = read("README.md"), read("Makefile"), read(".ci/run")
    commands = {"test": '-m pytest -n auto -m "not slow"'}
    commands["train"] = "-m tinyrmc.train nth_farthest"
    for target, command in commands.items():
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
        assert recipe == f"\t$(python) {command} $(ARGS)\n"
        assert f"make {target}" in readme and f"python {command}" in readme
    for target in ("lint", "test", "test-all"):
        assert re.search(rf"^make {target}\b", check, re.MULTILINE)
    assert os.access(ROOT / ".ci" / "run", os.X_OK) or os.name == "nt"


DOCUMENTS = [name for name in make_site.DOCUMENTS if name != "CHANGELOG.md"]


def test_the_documents_name_only_extras_that_exist():
    for document in DOCUMENTS:
        groups = re.findall(r"(?:tinyrmc|\.)\[([\w,-]+)\]", read(document))
        named = {extra for group in groups for extra in group.split(",")}
        assert named <= set(EXTRAS), document
    known = "cuda12 cuda13 fast mpi tensorboard completion rl course notebooks dev "
    known += "bench docs browser nbgrader"
    assert {*known.split()} == {*EXTRAS}
