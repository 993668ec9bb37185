"""The course in a browser tab: JupyterLite, a Pyodide that has the package, and a page
with a single exercise that needs neither.

Pyodide is Python, compiled for browsers. It comes from its CDN, in the version that the
kernel names, or from a folder of your own: PYODIDE=FOLDER. What Pyodide may install
stands in its lock. Ours is a part of the CDN's, `browser/pyodide-lock.json`, and the
wheels that it lacks, which lie beside it: the project's, and of each other package
what is installed here. So nothing is downloaded to build all this, and the pages ask no
server but their own and the CDN for anything.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from markup import LINK

HERE = Path(__file__).resolve().parent / "browser"
ROOT = HERE.parent.parent
FOLDER = "lite"  # of the website
# What Pyodide lacks, and what each needs there. Nothing is fetched with pooch in a
# browser, so it goes without `requests`.
ADDED: dict[str, list[str]]
ADDED = {name: [] for name in ("tqdm", "filelock", "platformdirs")}
ADDED |= {"comm": ["traitlets"], "autograd": ["numpy"], "pooch": ["platformdirs"]}
KERNEL = "@jupyterlite/pyodide-kernel-extension"
# what a chapter has at once: other packages of the lock come when they are imported
AT_ONCE = [
    *("micropip", "piplite", "pyodide-kernel", "ipykernel", "comm", "ipython", "jedi"),
    *("numpy", "matplotlib", "pillow", "threadpoolctl", "tqdm", "filelock", "pooch"),
    "tinyrmc",
]
# What these name as needed, and no page needs: a terminal, a completion of 1,900 files,
# zones of time; and what only saving as PDF asks for, which comes on demand.
UNUSED = {"prompt-toolkit", "wcwidth", "jedi", "pytz", "fonttools"}
APPS = ("notebooks", "tree", "edit")
HEAD = """<link rel="icon" href="../../_static/favicon.svg" type="image/svg+xml">
<script type="module" src="../../_static/work.js"></script>
<style>#tinyrmc-coming { position: fixed; inset: 35% 1rem auto; z-index: -1;
  text-align: center; font: 1rem/1.6 system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #dfe4ea; } }
</style></head>"""
# what a slow line shows first: it needs no script
COMING = """<p id="tinyrmc-coming">The chapter is on its way: 8 MB,
then Python in the background.<br>
<a href="../../chapters/index.html">All chapters, to read without it</a></p>"""
INTRODUCTION = """\
*This copy runs in your browser: Shift+Enter runs a cell, the first one takes some
seconds. What you write is kept here, and all chapters see your answers. At the lower
edge, **Download my work** gives you a copy and **Restore my work** takes it back;
**Reset this chapter** brings back what you deleted; a cell that runs long gets a button
that stops it.*"""


def chapters() -> list[Path]:
    """The notebooks in order."""
    return sorted(ROOT.glob("chapters/[0-9][0-9]_*.ipynb"))


def address(chapter: str) -> str:
    """Where a chapter runs, from the first page."""
    return f"{FOLDER}/notebooks/index.html?path={chapter}.ipynb"


# --- What Pyodide installs ------------------------------------------------------------


def own_pyodide() -> Path | None:
    """The folder of PYODIDE=FOLDER; None where the CDN serves Pyodide."""
    return Path(given).resolve() if (given := os.environ.get("PYODIDE")) else None


def refusal() -> str | None:
    """Why the lab would never start with the Pyodide that is given; None if it can."""
    from jupyterlite_pyodide_kernel.constants import PYODIDE_VERSION as NAMED

    try:
        found = lock_of(own_pyodide())["info"]["version"]
    except OSError as problem:
        return f"PYODIDE holds no Pyodide: {problem}"
    if found.split(".")[:2] == NAMED.split(".")[:2]:
        return None
    return f"PYODIDE is of version {found}, and the installed kernel needs {NAMED}"


def lock_of(pyodide: Path | None) -> dict[str, Any]:
    """Packages on offer: from a folder's own Pyodide, or the CDN's."""
    place = pyodide or HERE
    return json.loads((place / "pyodide-lock.json").read_text(encoding="utf-8"))


def cdn(lock: dict[str, Any]) -> str:
    """Where the CDN has the Pyodide of a lock."""
    return f"https://cdn.jsdelivr.net/pyodide/v{lock['info']['version']}/full/"


def versions() -> str:
    """The versions that run the course in a browser, for the foot of each page."""
    lock = lock_of(own_pyodide())
    found, numpy = lock["info"], lock["packages"].get("numpy", {}).get("version")
    names = f"Pyodide {found['version']}, Python {found['python']}, NumPy {numpy}"
    return f"The course in the browser: {names}."


def needed(lock: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The entries of some packages and of all that they need, where the lock has them.

    Its keys are the names as Python's packaging writes them. What is `UNUSED` is not
    there unless it is named.
    """
    packages = {_plain(name): entry for name, entry in lock["packages"].items()}
    found: dict[str, Any] = {}
    left = [_plain(name) for name in names]
    while left:
        name = left.pop()
        if name in packages and name not in found:
            every = map(_plain, packages[name]["depends"])
            depends = [each for each in every if each not in UNUSED]
            found[name] = packages[name] | {"depends": depends}
            left += depends
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def add_packages(out: Path, pyodide: Path | None) -> None:
    """Write the lock, the wheels that it adds, and a copy of Pyodide if it is ours."""
    out.mkdir(parents=True)
    lock = lock_of(pyodide)
    names = [each for each in AT_ONCE if each not in UNUSED]
    lock["packages"] = needed(lock, [*names, "packaging", "fonttools"])
    files = [entry["file_name"] for entry in lock["packages"].values()]
    if pyodide is None:
        for entry in lock["packages"].values():
            entry["file_name"] = cdn(lock) + entry["file_name"]
    for wheel, depends in _wheels(out):
        name = _plain(wheel.name.partition("-")[0])
        if name in lock["packages"]:  # what Pyodide has fits it better
            wheel.unlink()
            continue
        lock["packages"][name] = {
            "name": name,
            "version": wheel.name.split("-")[1],
            "file_name": wheel.name,
            "install_dir": "site",
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "package_type": "package",
            "imports": _imports(wheel),
            "depends": depends,
            "unvendored_tests": False,
        }
    if pyodide is not None:
        names = [path.name for path in pyodide.glob("pyodide.*[!p]")]
        for name in [*files, *names, "python_stdlib.zip"]:
            shutil.copy(pyodide / name, out)
    text = json.dumps(lock)
    (out / "pyodide-lock.json").write_text(text, encoding="utf-8")


def _wheels(out: Path) -> Iterator[tuple[Path, list[str]]]:
    """The wheels that are added, in `out`, and what each needs."""
    words = ["hatchling", "build", "-t", "wheel", "-d", f"{out}"]
    subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, check=True, capture_output=True
    )
    (own,) = out.glob("tinyrmc-*.whl")
    yield own, ["numpy"]  # the exercises need no more
    yield empty("jedi", out), []  # for which the kernel would ask
    for name, depends in ADDED.items():
        yield packed(name, out), depends
    kernel = Path(sys.prefix) / "share/jupyter/labextensions" / KERNEL / "static"
    for wheel in sorted(kernel.glob("pypi/*.whl")):
        if wheel.name.startswith(("piplite", "pyodide_kernel", "ipykernel")):
            shutil.copy(wheel, out)
            yield (
                out / wheel.name,
                ["ipython", "comm"] if "kernel" in wheel.name else [],
            )


def empty(name: str, out: Path) -> Path:
    """A wheel with nothing in it."""
    wheel = out / f"{name}-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        info = zipfile.ZipInfo(f"{name}-0.dist-info/METADATA")
        file.writestr(info, f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
    return wheel


def packed(name: str, out: Path) -> Path:
    """Pack an installed package in plain Python as a wheel again."""
    found = importlib.metadata.distribution(name)
    wheel = out / f"{name}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as file:
        for path in found.files or []:
            if ".." not in path.parts and "__pycache__" not in path.parts:
                info = zipfile.ZipInfo(str(path))  # without a date: the same bytes
                file.writestr(info, Path(str(path.locate())).read_bytes(), 8)
    return wheel


def _imports(wheel: Path) -> list[str]:
    """The names by which Python imports what a wheel holds."""
    with zipfile.ZipFile(wheel) as file:
        names = {name.partition("/")[0] for name in file.namelist()}
    return sorted(name.removesuffix(".py") for name in names if "-" not in name)


# --- JupyterLite ----------------------------------------------------------------------


def contents(folder: Path) -> None:
    """The chapters as a browser opens them.

    Lists of lines are one text, and links lead to chapters or nowhere.
    """
    folder.mkdir(parents=True)
    for path in chapters():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
            cell["metadata"]["trusted"] = True
            if cell["cell_type"] == "markdown":
                cell["source"] = LINK.sub(_link, cell["source"])
            for output in cell.get("outputs", []):
                for part in output, output.get("data", {}):
                    for kind, value in part.items():
                        if kind != "traceback" and isinstance(value, list):
                            part[kind] = "".join(value)
        first, rest = notebook["cells"][0]["source"].partition("\n")[::2]
        notebook["cells"][0]["source"] = f"{first}\n\n{INTRODUCTION}\n{rest}"
        (folder / path.name).write_text(json.dumps(notebook), encoding="utf-8")


def _link(match: re.Match) -> str:
    """A link that leads out of the chapters, to a file, as its text alone."""
    elsewhere = ":" in match[2] or match[2].startswith("#") or ".ipynb" in match[2]
    return match[0] if elsewhere else match[1].removeprefix("!")[1:-1]


# Where Pyodide lies, and to ask nobody else.
PYTHON = {
    "disablePyPIFallback": True,
    "pyodideUrl": "./pyodide/python.mjs",  # loads Pyodide, and tells how far it is
    "loadPyodideOptions": {
        "lockFileURL": "./pyodide/pyodide-lock.json",
        "packages": AT_ONCE,
    },
}
STORES = ["asyncStorage", "memoryStorageDriver"]  # of which the first that opens
SETTINGS = {
    "jupyter-lite-schema-version": 0,
    "jupyter-config-data": {
        "appName": "tinyrmc",
        "exposeAppInBrowser": True,  # `work.js` saves what is open
        "enableMemoryStorage": True,  # without a store; `work.js` warns
        "contentsStorageDrivers": STORES,
        "settingsStorageDrivers": STORES,
        "litePluginSettings": {f"{KERNEL}:kernel": PYTHON},
        "disabledExtensions": ["@jupyterlab/apputils-extension:announcements"],
    },
}
OVERRIDES = {
    "@jupyterlab/apputils-extension:themes": {"adaptive-theme": True},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "defer"},
    "@jupyterlab/docmanager-extension:plugin": {"autosaveInterval": 10},
}


def build_lite(work: Path, out: Path) -> None:
    """JupyterLite with the chapters, in `out`."""
    contents(work / "contents")
    for name, value in ("jupyter-lite", SETTINGS), ("overrides", OVERRIDES):
        (work / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    words = ["--lite-dir", ".", "--output-dir", f"{out}", "--contents", "contents"]
    words += [word for app in APPS for word in ("--apps", app)]
    words += ["--no-sourcemaps", "--no-unused-shared-packages"]
    command = [sys.executable, "-m", "jupyterlite_core", "build", *words]
    made = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"JupyterLite cannot be built:\n{made.stdout}{made.stderr}")
    for app in APPS:
        page = out / app / "index.html"
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"<title>.*?</title>", "<title>tinyrmc</title>", text)
        text = text.replace("</head>", HEAD, 1)
        text = re.sub("<body.*?>", rf"\g<0>{COMING}", text, count=1)
        page.write_text(text, encoding="utf-8")


def build(out: Path, work: Path) -> None:
    """Add all this to the website in `out`."""
    pyodide = own_pyodide()
    work.mkdir(parents=True)
    build_lite(work, out / FOLDER)
    packages = out / FOLDER / "pyodide"
    add_packages(packages, pyodide)
    words = {
        "{{PYODIDE}}": "./" if pyodide else cdn(lock_of(None)),
        "{{MEGABYTES}}": str(megabytes(packages.iterdir()) if pyodide else 30),
        "{{LITE}}": FOLDER,
        "{{FIRST}}": address(chapters()[0].stem),
    }
    folders = {".html": out, ".mjs": packages}
    for file in (each for each in HERE.iterdir() if each.suffix != ".md"):
        text = file.read_text(encoding="utf-8")
        for mark, word in words.items():
            text = text.replace(mark, word)
        folder = folders.get(file.suffix, out / "_static")
        (folder / file.name).write_text(text, encoding="utf-8", newline="\n")
    rest = [each for each in (out / FOLDER).rglob("*.*") if each.parent != packages]
    rest += packages.glob("tinyrmc*")
    print(f"{FOLDER}/ has {megabytes(rest)} MB beside Pyodide")


def megabytes(files: Iterable[Path]) -> int:
    """The size of all these files together."""
    return round(sum(each.stat().st_size for each in files if each.is_file()) / 1e6)


def add_button(app, pagename, templatename, context, doctree):
    """A chapter's page has the button that runs it, below its title."""
    chapter = pagename.removeprefix("chapters/")
    if not re.fullmatch(r"\d\d_\w+", chapter) or chapter == pagename:
        return
    said = f'<a href="../{address(chapter)}">Run it in your browser</a>'
    button = f'</h1>\n<p class="run">{said}</p>'
    context["body"] = context["body"].replace("</h1>", button, 1)


def missing() -> list[str]:
    """The tools of the extra `browser` that are not installed."""
    lite = "jupyterlite_core", "jupyterlite_pyodide_kernel", "jupyter_server"
    names = *lite, "hatchling", *ADDED
    return [name for name in names if importlib.util.find_spec(name) is None]
