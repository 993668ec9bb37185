"""Tasks are found wherever tinyrmc lies: in a bare clone, behind an editable install,
in a wheel; and never in somebody else's `tasks`.

The project's own build backend makes each kind of installation in a temporary folder,
without pip or network, and a new interpreter is asked what it finds: what the tests'
own process has imported or installed has no say. To install a wheel is to unpack it; an
editable install is a wheel with a .pth file, which `site.addsitedir` reads as it does
in site-packages.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tinyruns import ROOT, fresh_directory, output

from tinyrmc.training import discovery
from tinyrmc.training.discovery import UnknownTask, load_task, load_task_of, stored

NEEDED = ["tinyrmc", "tasks", ".ci", "pyproject.toml", "README.md", "LICENSE"]

# words: tasks to load, as JSON, then folders like site-packages
ASK = """
import json, site, sys
before = list(sys.path)
for folder in sys.argv[2:]:
    site.addsitedir(folder)
added = [folder for folder in sys.path if folder not in before]
sys.path[1:1] = added  # ahead of the tests' own installation
import tinyrmc
from tinyrmc.training.discovery import UnknownTask, load_task, task_files

files = {name: str(file) for name, file in task_files().items()}
loaded, errors = {}, {}
for word in json.loads(sys.argv[1]):
    try:
        module = load_task(word)
        assert load_task(word) is module
        loaded[word] = module.__file__
    except UnknownTask as error:
        errors[word] = str(error)
about = {"tinyrmc": tinyrmc.__file__, "files": files}
print(json.dumps(about | {"loaded": loaded, "errors": errors}))
"""

TASK = 'class Task: held_out, presets = None, {"tiny": ("", None)}\n'
DROPPED_IN = f'"""A task of two lines."""\n{TASK}'
POISON = "raise SystemExit('a foreign file was imported')\n"


def ask(*words, place, cwd, site_folders=()):
    """Ask an interpreter started in `cwd`, with `place` on its path, to load tasks."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(place),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # the current directory must be able to do harm
    environment.pop("PYTHONSAFEPATH", None)
    asked = "-c", ASK, json.dumps(words), *site_folders
    return json.loads(output(*asked, cwd=cwd, env=environment))


# --- Installations --------------------------------------------------------------------


def clone(folder):
    """A copy of the sources, as `git clone` would leave them."""
    folder.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(source, folder, kind):
    """A wheel of `source` (kind: wheel or editable), built by hatchling and unpacked
    into `folder`.
    """
    wheels = folder.with_name(f"{folder.name}-wheels")
    wheels.mkdir()
    code = f"import sys; from hatchling import build; build.build_{kind}(sys.argv[1])"
    output("-c", code, wheels, cwd=source)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A folder like site-packages that holds the wheel alone: what it was built from is
    gone.
    """
    folder = tmp_path_factory.mktemp("wheel")
    source = clone(folder / "clone")
    built = build(source, folder / "site", "wheel")
    shutil.rmtree(source)
    return built


@pytest.fixture(scope="module", params=["bare clone", "editable install", "wheel"])
def installation(request, tmp_path_factory):
    """(the folder of the built-in tasks, keyword arguments of `ask`)."""
    if request.param == "wheel":
        built = request.getfixturevalue("wheel")
        return built / "tinyrmc" / "tasks", {"place": built}
    folder = tmp_path_factory.mktemp("installation")
    source = clone(folder / "clone")
    if request.param == "bare clone":
        return source / "tasks", {"place": source}
    site = build(source, folder / "site", "editable")
    return source / "tasks", {"place": "", "site_folders": [site]}


@pytest.fixture
def tasks(installation):
    """The folder of the built-in tasks, which a test may write to: what it added is
    removed again.
    """
    folder, _ = installation
    before = set(folder.iterdir())
    yield folder
    for file in set(folder.iterdir()) - before:
        file.unlink()


# --- Built-in tasks -------------------------------------------------------------------


def test_found_and_loaded_from_any_installation(installation, tmp_path):
    folder, place = installation
    answer = ask("nth_farthest", **place, cwd=tmp_path)
    package = Path(answer["tinyrmc"]).parent
    assert folder in (package / "tasks", package.parent / "tasks")  # not another copy
    there = sorted(folder.glob("*.py"))
    assert answer["files"] == {file.stem: str(file) for file in there}
    assert {"nth_farthest", "program_evaluation"} <= set(answer["files"])
    assert answer["loaded"] == {"nth_farthest": str(folder / "nth_farthest.py")}


def test_a_folder_beside_the_package_counts_only_in_a_clone():
    for project in [None, "theirs", "tinyrmc"]:
        with fresh_directory() as tmp_path:
            package, beside = tmp_path / "tinyrmc", tmp_path / "tasks"
            package.mkdir()
            beside.mkdir()
            if project:
                text = f'[project]\nname = "{project}"\n'
                (tmp_path / "pyproject.toml").write_text(text)
            found = discovery.built_in_folder(package)
            assert found == (beside if project == "tinyrmc" else package / "tasks")
            (package / "tasks").mkdir()
            assert discovery.built_in_folder(package) == package / "tasks"


BROKEN = {
    "imports": ("import no_such_module\n", "ModuleNotFoundError: No module"),
    "reads": ("class Task(:\n", "SyntaxError"),
    "spells": ("class Tusk: pass\n", "no class Task(training.Task) with presets"),
    "is_empty": ('"""Empty."""\nclass Task: presets = {}\n', "no class Task(training"),
    "is_silent": (TASK, "no docstring"),
}


def test_a_file_dropped_in_is_a_task_and_a_broken_one_is_named_and_hides_no_other(
    installation, tasks, tmp_path
):
    (tasks / "copying.py").write_text(DROPPED_IN)
    (tasks / "_shared.py").write_text(POISON)
    for name, (text, _) in BROKEN.items():
        (tasks / f"{name}.py").write_text(text)
    words = "copying", "nth_farthest", *BROKEN
    answer = ask(*words, **installation[1], cwd=tmp_path)
    assert {*words} <= {*answer["files"]} and "_shared" not in answer["files"]
    assert answer["loaded"]["copying"] == str(tasks / "copying.py")
    assert answer["loaded"].keys() == {"copying", "nth_farthest"}
    for name, (_, complaint) in BROKEN.items():
        assert str(tasks / f"{name}.py") in answer["errors"][name]
        assert complaint in answer["errors"][name]


# --- Tasks by their files -------------------------------------------------------------


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file with the stem of a built-in task, in a folder of the home directory; the
    current directory is that folder.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    file = folder / "nth_farthest.py"
    file.write_text(DROPPED_IN)
    before = set(sys.modules)
    yield file
    for name in set(sys.modules) - before:
        if name.startswith("tinyrmc_tasks."):
            del sys.modules[name]


def test_a_file_from_anywhere_is_loaded_by_any_installation(installation, tmp_path):
    _, place = installation
    file = tmp_path / "nth_farthest.py"
    file.write_text(DROPPED_IN)
    words = str(file), "nth_farthest.py", f".{os.sep}nth_farthest.py", "nth_farthest"
    *loaded, built_in = ask(*words, **place, cwd=tmp_path)["loaded"].values()
    assert loaded == [str(file)] * 3 and built_in != str(file)


def test_a_file_is_not_confused_with_the_built_in_task_of_its_stem(own):
    built_in, mine = load_task("nth_farthest"), load_task("nth_farthest.py")
    assert mine.__doc__ == "A task of two lines." != built_in.__doc__
    assert load_task(str(own)) is load_task("../work/nth_farthest.py") is mine
    assert load_task("nth_farthest") is built_in
    config = {"task": "nth_farthest", "task_file": "~/work/nth_farthest.py"}
    assert stored("nth_farthest.py") == stored(str(own)) == config
    assert load_task_of(config) is mine
    assert load_task_of(stored("nth_farthest")) is built_in


def test_the_file_of_a_built_in_task_is_that_task(monkeypatch):
    monkeypatch.chdir(ROOT / "tests")
    for word in ("../tasks/nth_farthest.py", str(ROOT / "tasks" / "nth_farthest.py")):
        assert load_task(word) is load_task("nth_farthest")
        assert stored(word) == stored("nth_farthest") == {"task": "nth_farthest"}


def test_a_file_that_has_moved_is_found_where_it_is_said_to_be(own, monkeypatch):
    config = stored("nth_farthest.py")
    moved = own.parent / "moved"
    moved.mkdir()
    own.rename(moved / own.name)
    with pytest.raises(UnknownTask, match=r"is not in ~/work.*: TINYRMC_TASKS=FOL"):
        load_task_of(config)
    for folders in ("moved", str(moved), os.pathsep.join(["", "nowhere", "moved"])):
        monkeypatch.setenv("TINYRMC_TASKS", folders)
        assert load_task_of(config).__file__ == str(moved / own.name)


def test_a_run_directory_cannot_bring_code_with_it(own):
    for kept in ["nth_farthest.py", "./nth_farthest.py", "/etc/a.py"]:
        own.write_text(POISON)
        with pytest.raises(UnknownTask, match=r"is not the absolute path of a file"):
            load_task_of({"task": "nth_farthest", "task_file": kept})


MANY = """
import sys
from tinyrmc.__main__ import run
for words in sys.argv[1:]:
    sys.argv = ["tinyrmc", *words.split()]
    try:
        run()
    except SystemExit as end:
        print(end.code)
    print("---")
    print("---", file=sys.stderr)
"""


def test_python_without_docstrings_is_told():
    """Under -OO tasks lack their own, and exercises the chapter that they are of."""
    words = "train nth_farthest --help", "grade hand_ins", "progress", "grade --help"
    command = [sys.executable, "-OO", "-c", MANY, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    *refused, helped = done.stdout.split("---\n")[:-1]
    assert "HAND_INS" in helped and helped.endswith("\n0\n")
    for word, out, err in zip(words, refused, done.stderr.split("---\n"), strict=False):
        assert out == "2\n" and err.count("\n") == 1, word
        assert "run it without -OO, and without PYTHONOPTIMIZE=2" in err
