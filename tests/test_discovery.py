"""Tasks are found wherever tinyrmc lies: in a bare clone, behind an editable install,
in a wheel; and never in a stranger's `tasks` folder.

Each kind of installation is made in a temporary folder, by the project's own build
backend and without pip or network, and asked by a new interpreter: what the tests' own
process has imported or installed has no say. Installing a wheel is unpacking it; an
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

from tinyrmc.errors import nearest

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ["tinyrmc", "tasks", "pyproject.toml", "README.md", "LICENSE"]

ASK = """
import json, site, sys
before = list(sys.path)
for folder in sys.argv[2:]:
    site.addsitedir(folder)
sys.path[1:1] = [folder for folder in sys.path if folder not in before]  # ahead of the tests' own installation
import tinyrmc
from tinyrmc.training.discovery import UnknownTask, load_task, task_files
answer = {"tinyrmc": tinyrmc.__file__, "files": {name: str(file) for name, file in task_files().items()}}
if sys.argv[1]:
    try:
        answer["loaded"] = load_task(sys.argv[1]).__file__
        answer["once"] = load_task(sys.argv[1]) is load_task(sys.argv[1])
    except UnknownTask as error:
        answer["error"] = str(error)
print(json.dumps(answer))
"""

DROPPED_IN = '"""A task of two lines."""\nclass Task: presets = {"tiny": ("", None)}\n'


def python(*arguments, **keywords):
    """What a new interpreter prints; its complaint, if it fails."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        **keywords,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def ask(place, cwd, load="", site_folders=()):
    """What an interpreter started in `cwd`, with `place` on its path, finds; `load`
    names a task to import as well.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(place),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop(
        "PYTHONSAFEPATH", None
    )  # the current directory must be able to do harm
    return json.loads(python("-c", ASK, load, *site_folders, cwd=cwd, env=environment))


def clone(folder):
    """A copy of the sources, as `git clone` would leave them."""
    folder.mkdir()
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(source, folder, kind):
    """A wheel of `source` (kind: wheel or editable), built by hatchling and unpacked
    into `folder`.
    """
    code = (
        f"import sys; from hatchling.build import build_{kind} as build; "
        "build(sys.argv[1])"
    )
    wheels = folder.with_name(f"{folder.name}-wheels")
    wheels.mkdir()
    python("-c", code, wheels, cwd=source)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module", params=["bare clone", "editable install", "wheel"])
def installation(request, tmp_path_factory):
    """(the folder that holds both packages, keyword arguments of `ask` for it)."""
    folder = tmp_path_factory.mktemp("installation")
    source = clone(folder / "clone")
    if request.param == "bare clone":
        return source, {"place": source}
    if request.param == "editable install":
        return source, {
            "place": "",
            "site_folders": [build(source, folder / "site", "editable")],
        }
    installed = build(source, folder / "site", "wheel")
    shutil.rmtree(source)  # nothing may be read from where it was built
    return installed, {"place": installed}


@pytest.fixture
def tasks(installation):
    """The installation's `tasks` folder, which a test may write to; what it added is
    taken away again.
    """
    folder = installation[0] / "tasks"
    before = set(folder.iterdir())
    yield folder
    for file in set(folder.iterdir()) - before:
        file.unlink()


@pytest.fixture
def foreign(tmp_path):
    """A directory that is somebody else's project, with a `tasks` package and a
    `tinyrmc_tasks` of its own.
    """
    for package in ("tasks", "tinyrmc_tasks"):
        (tmp_path / package).mkdir()
        for name in ("__init__", "nth_farthest", "homework"):
            (tmp_path / package / f"{name}.py").write_text(
                "raise SystemExit('a foreign file was imported')\n"
            )
    return tmp_path


def test_found_and_loaded_from_any_installation(installation, tmp_path):
    folder, place = installation
    answer = ask(**place, cwd=tmp_path, load="nth_farthest")
    assert Path(answer["tinyrmc"]).is_relative_to(
        folder
    )  # otherwise this looks at some other copy
    assert "nth_farthest" in answer["files"]
    assert answer["files"] == {
        file.stem: str(file)
        for file in sorted((folder / "tasks").glob("*.py"))
        if not file.stem.startswith("_")
    }
    assert answer["loaded"] == str(folder / "tasks" / "nth_farthest.py")
    assert answer["once"]


def test_a_foreign_tasks_package_in_the_current_directory_is_not_looked_at(
    installation, foreign
):
    folder, place = installation
    answer = ask(**place, cwd=foreign, load="nth_farthest")
    assert answer["loaded"] == str(folder / "tasks" / "nth_farthest.py")
    assert "homework" not in answer["files"]
    assert "foreign" not in ask(**place, cwd=foreign, load="homework")["error"]


def test_a_file_dropped_in_is_a_task(installation, tasks, tmp_path):
    _, place = installation
    (tasks / "copying.py").write_text(DROPPED_IN)
    (tasks / "_shared.py").write_text(
        "raise SystemExit('a private file was imported')\n"
    )
    answer = ask(**place, cwd=tmp_path, load="copying")
    assert answer["loaded"] == str(tasks / "copying.py")
    assert "nth_farthest" in answer["files"] and "_shared" not in answer["files"]


@pytest.mark.parametrize(
    "text, complaint",
    [
        (
            "import no_such_module\n",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("class Task(:\n", "SyntaxError"),
        ("class Tusk: pass\n", "no class Task with presets"),
        ('"""Empty."""\nclass Task: presets = {}\n', "no class Task with presets"),
        ('class Task: presets = {"tiny": ("", None)}\n', "no docstring"),
    ],
)
def test_a_broken_file_is_named_and_hides_no_other(
    installation, tasks, tmp_path, text, complaint
):
    _, place = installation
    (tasks / "broken.py").write_text(text)
    answer = ask(**place, cwd=tmp_path, load="broken")
    assert str(tasks / "broken.py") in answer["error"] and complaint in answer["error"]
    answer = ask(**place, cwd=tmp_path, load="nth_farthest")
    assert {"broken", "nth_farthest"} <= set(answer["files"])
    assert "loaded" in answer


def test_a_broken_file_is_tried_again_when_mended(tmp_path, monkeypatch):
    from tinyrmc.training import discovery

    monkeypatch.setattr(discovery, "FOLDER", tmp_path)
    file = tmp_path / "mended_in_a_notebook.py"
    file.write_text("raise RuntimeError('half written')\n")
    with pytest.raises(
        discovery.UnknownTask, match=r"mended_in_a_notebook.*RuntimeError: half written"
    ):
        discovery.load_task("mended_in_a_notebook")
    file.write_text(
        DROPPED_IN
        + "# longer than before, so that no cached bytecode is taken for it\n"
    )
    assert discovery.load_task("mended_in_a_notebook").__doc__ == "A task of two lines."
    del sys.modules["tinyrmc_tasks.mended_in_a_notebook"]


def test_an_unknown_task_brings_the_nearest_name_and_all_names():
    from tinyrmc.training.discovery import UnknownTask, load_task

    with pytest.raises(
        UnknownTask,
        match=r"unknown task 'nth_fartest' \(tasks: .*nth_farthest.*\); did you mean "
        r"'nth_farthest'\?",
    ):
        load_task("nth_fartest")
    with pytest.raises(UnknownTask) as caught:
        load_task("zzz")
    assert "did you mean" not in str(caught.value) and "nth_farthest" in str(
        caught.value
    )


@pytest.fixture
def distribution(tmp_path):
    """A folder of installed packages: a distribution offers a package of tasks, one
    under a taken name, and two packages that are gone.
    """
    site = tmp_path / "site"
    package = site / "others_tasks"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sorting.py").write_text(DROPPED_IN)
    (package / "nth_farthest.py").write_text(
        "raise SystemExit('a task of the project was replaced')\n"
    )
    record = site / "others-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: others\nVersion: 1.0\n"
    )
    packages = {
        "gone": "a_package_that_is_gone",
        "also": "gone_too.tasks",
        "others": "others_tasks",
    }
    (record / "entry_points.txt").write_text(
        "[tinyrmc.tasks]\n"
        + "".join(f"{name} = {value}\n" for name, value in packages.items())
    )
    return site


def test_another_distribution_adds_tasks_and_replaces_none(distribution, tmp_path):
    place = os.pathsep.join([str(ROOT), str(distribution)])
    answer = ask(place, cwd=tmp_path, load="sorting")
    assert answer["loaded"] == str(distribution / "others_tasks" / "sorting.py")
    assert list(answer["files"])[-1] == "sorting"  # after the built-in ones
    assert ask(place, cwd=tmp_path, load="nth_farthest")["loaded"] == str(
        ROOT / "tasks" / "nth_farthest.py"
    )


KNOWN = (
    "--seed --resume --workers --train.steps --train.warmup-steps --model.mem-slots "
    "--model.num-heads --model.core"
).split()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        *(
            ("--sed", "--seed"),
            ("--resum", "--resume"),
            ("--worker", "--workers"),
            ("--train.stpes", "--train.steps"),
        ),
        *(
            ("--steps", "--train.steps"),
            ("--slots", "--model.mem-slots"),
            ("--heads", "--model.num-heads"),
        ),
        *(
            (word, None)
            for word in (
                "--nosuch",
                "--model.no-such",
                "--threads",
                "--help-me",
                "--time",
                "--epochs",
                "--size",
                "--",
                "",
            )
        ),
    ],
)
def test_only_what_is_near_is_suggested(word, meant):
    assert nearest(word, KNOWN) == (f"; did you mean {meant!r}?" if meant else "")


def test_of_equally_near_words_the_first_is_suggested():
    assert (
        nearest("mem_slot", ["model.mem_slots", "other.mem_slots"])
        == "; did you mean 'model.mem_slots'?"
    )
    assert (
        nearest("quik", {"quick": 1, "ladder": 2}) == "; did you mean 'quick'?"
        and nearest("x", []) == ""
    )
