"""What the project says about itself in several places agrees, and what it ships is
complete and no more.
"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hypothesis.configuration import storage_directory

import tinyrmc

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def python(*arguments):
    """What a new interpreter, started in the project's folder, prints; its complaint,
    if it fails.
    """
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """(names in the wheel, names in the source archive without its top folder, the
    wheel's METADATA), freshly built from this tree.
    """
    folder = tmp_path_factory.mktemp("archives")
    code = (
        "import sys; from hatchling import build; build.build_wheel(sys.argv[1]); "
        "build.build_sdist(sys.argv[1])"
    )
    python("-c", code, folder)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.namelist()
        (metadata,) = (
            archive.read(name).decode()
            for name in shipped
            if name.endswith(".dist-info/METADATA")
        )
    with tarfile.open(source) as archive:
        sources = [member.name.partition("/")[2] for member in archive.getmembers()]
    return shipped, sources, metadata


def modules(folder):
    return {
        str(file.relative_to(ROOT))
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def test_the_wheel_holds_both_packages_whole_and_nothing_else(archives):
    shipped, _, metadata = archives
    assert {name for name in shipped if ".dist-info/" not in name} == modules(
        "tinyrmc"
    ) | modules("tasks")
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in shipped)
    assert "Requires-Python: >=3.11" in metadata


def test_what_hypothesis_remembers_lies_at_the_top_wherever_pytest_was_started():
    found = storage_directory()
    assert (
        getattr(found, "path", found) == ROOT / ".hypothesis"
    )  # older releases give the path itself


def test_the_source_archive_can_be_built_tested_and_cited(archives):
    _, sources, _ = archives
    wanted = modules("tinyrmc") | modules("tasks") | modules("tests")
    wanted |= {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CITATION.cff",
        "Makefile",
        ".ci/run",
    }
    wanted |= {
        "site/make_site.py",
        "site/conf.py",
        "site/pages/index.md",
        "site/static/tinyrmc.css",
    }
    assert wanted <= set(sources)
    tops = {name.partition("/")[0] for name in sources}
    assert not any("_build" in name for name in sources)
    assert tops.isdisjoint({"runs", "build", "dist", ".venv", ".hypothesis", ".git"})


def test_the_citation_carries_the_version_and_both_papers():
    citation = read("CITATION.cff")
    assert (
        re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == tinyrmc.__version__
    )
    assert (
        re.search(r"^license: (.+)$", citation, re.MULTILINE)[1] == PROJECT["license"]
    )
    assert (
        "Relational recurrent neural networks" in citation
        and "End-To-End Memory Networks" in citation
    )


def test_what_the_readme_says_is_what_runs():
    """README, Makefile and .ci/run mean the same test command; `make train` is the
    README's first command.
    """
    readme, makefile, check = read("README.md"), read("Makefile"), read(".ci/run")
    for target, command in (
        ("test", "-m pytest"),
        ("train", "-m tinyrmc.train nth_farthest"),
    ):
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
        assert recipe == f"\t$(python) {command} $(ARGS)\n"
        assert f"make {target}" in readme and f"python {command}" in readme
    assert re.search(r"^make test\b", check, re.MULTILINE)
    assert os.access(ROOT / ".ci" / "run", os.X_OK) or os.name == "nt"


def test_the_readme_names_only_extras_that_exist():
    named = {
        extra
        for group in re.findall(r"(?:tinyrmc|\.)\[([\w,-]+)\]", read("README.md"))
        for extra in group.split(",")
    }
    assert named <= set(PROJECT["optional-dependencies"])
    assert {
        "cuda12",
        "cuda13",
        "rl",
        "mpi",
        "notebooks",
        "dev",
        "bench",
        "docs",
    } <= set(PROJECT["optional-dependencies"])


def test_importing_tinyrmc_imports_numpy_and_no_other_dependency():
    """Neither CuPy nor any dependency that only a command line or a picture needs:
    quick to import, and in a browser possible at all.
    """
    unwanted = {
        re.split(r"[^\w-]", requirement)[0] for requirement in PROJECT["dependencies"]
    } - {"numpy"}
    unwanted |= {"cupy", "autograd", "mpi4py", "gymnasium", "tasks"}
    assert {"matplotlib", "tyro", "tqdm", "pooch"} <= unwanted
    code = "import sys, tinyrmc; print('\\n'.join(sys.modules))"
    loaded = {name.partition(".")[0] for name in python("-c", code).split()}
    assert "numpy" in loaded
    assert not loaded & unwanted
