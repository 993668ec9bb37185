"""Builds the website: `make site`, or `python site/make_site.py [--out FOLDER]`. It
asks the network for nothing.

Texts that stand elsewhere in the repository are not kept here a second time. A source
folder is put together first: the few pages of `pages/`; the documents and notebooks
from where they stand, their links turned to the website's pages; and a page for each
module and for each task. Sphinx makes the website of that. MathJax comes out of the
Python package sphinx-mathjax-offline, which serves for nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import pkgutil
import posixpath
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

TOOLS = ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx-mathjax-offline")
PARTS = ("source", "html", "doctrees", "jupyter_execute")  # of what is built
MATHJAX = (
    "tex-chtml-full.js",
    "output/chtml/fonts",
    "a11y",
    "sre",
)  # the last two when a reader turns speech on
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    "chapters/README.md",
)
INCLUDED = {
    "README.md": "index.md",
    "benchmarks/README.md": "results/index.md",
    "chapters/README.md": "chapters/index.md",
}  # by pages/
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")

# the reference: heading -> modules in reading order; whatever is in none stands at the
# end
GROUPS = {
    "The paper": (
        "equations",
        "memory",
        "cores",
        "baselines.lstm",
        "baselines.dnc",
        "baselines.entnet",
    ),
    "The engine": (
        "engine",
        "primitives",
        "fused",
        "kernels",
        "nn",
        "optim",
        "checking",
        "backend",
    ),
    "Training": ("training", "parallel", "ranks", "runs", "loading", "discovery"),
    "Experiments": ("analysis", "report", "sweep", "pool"),
    "Command lines": ("train", "evaluate", "plot", "attention", "commands"),
    "The course": ("course", "exercises", "exercises.exercise"),
}


# --- What there is --------------------------------------------------------------------


def documents() -> list[str]:
    """The Markdown documents and notebooks that become pages, by their paths in the
    repository.
    """
    found = [*DOCUMENTS]
    for pattern in ("chapters/[0-9][0-9]_*.ipynb", "benchmarks/results/*.md"):
        found += sorted(
            path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)
        )
    return found


def modules() -> dict[str, str]:
    """Name without `tinyrmc.` -> path in the repository, of every module that has a
    page: all but private ones and the solutions.
    """
    found = {}
    for each in pkgutil.walk_packages([str(ROOT / "tinyrmc")], "tinyrmc."):
        name = each.name.removeprefix("tinyrmc.")
        solution = name.startswith("exercises.") and name != "exercises.exercise"
        if not solution and not any(part.startswith("_") for part in name.split(".")):
            found[name] = each.name.replace(".", "/") + (
                "/__init__.py" if each.ispkg else ".py"
            )
    return found


def tasks() -> list[str]:
    """The names of the tasks in the repository's own folder."""
    return sorted(path.stem for path in (ROOT / "tasks").glob("[!_]*.py"))


def pages() -> dict[str, str]:
    """Path in the repository -> page of the source folder that shows it."""
    found = {
        name: INCLUDED.get(name, name.removeprefix("benchmarks/"))
        for name in documents()
    }
    found |= {path: f"reference/{name}.md" for name, path in modules().items()}
    found |= {f"tasks/{name}.py": f"tasks/{name}.md" for name in tasks()}
    return found | {"tinyrmc/__init__.py": "reference/index.md"}


# --- The source folder ----------------------------------------------------------------


class Source:
    """The folder that Sphinx reads."""

    def __init__(self, folder: Path):
        self.folder, self.pages = folder, pages()

    def write(self, name: str, text: str) -> None:
        """A file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def relink(self, text: str, name: str) -> str:
        """Markdown that stands in the repository's file `name`, its links to other
        files turned to pages, or to copies of the files.
        """
        parts = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
        for k in range(0, len(parts), 2):  # the others are code
            parts[k] = LINK.sub(
                lambda match: self._link(match[1], match[2], name), parts[k]
            )
        return "".join(parts)

    def _link(self, label, target, name):
        path, hash, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return f"{label}({target})"
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
        shown = [
            self.pages[each]
            for each in (path, f"{path}/README.md", f"{path}/__init__.py")
            if each in self.pages
        ]
        if shown:
            return f"{label}(/{shown[0]}{hash}{anchor})"
        if (ROOT / path).is_file():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.folder / path)
            return f"{label}(/{path})"
        if not (ROOT / path).is_dir():
            print(
                f"{name}: WARNING: the link {label}({target}) leads to no file",
                file=sys.stderr,
            )
        return label.removeprefix("!")[1:-1]  # nothing to show

    def add_documents(self):
        """The documents and notebooks of the repository."""
        for name in documents():
            text = (ROOT / name).read_text(encoding="utf-8")
            if name.endswith(".md"):
                self.write(
                    name if name in INCLUDED else self.pages[name],
                    self.relink(text, name),
                )
                continue
            notebook = json.loads(text)
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = self.relink("".join(cell["source"]), name)
            self.write(name, json.dumps(notebook))

    def add_reference(self):
        """A page for each module, and their table of contents."""
        found = modules()
        grouped = [name for names in GROUPS.values() for name in names]
        groups = GROUPS | {
            "Further": tuple(name for name in found if name not in grouped)
        }
        text = ["# Reference", "", first_paragraph("tinyrmc"), ""]
        for heading, names in groups.items():
            names = [name for name in names if name in found]
            if not names:
                continue
            text += [f"## {heading}", "", "| module | what it is |", "|---|---|"]
            text += [
                f"| [`{name}`]({name}.md) | {first_paragraph(f'tinyrmc.{name}')} |"
                for name in names
            ]
            text += ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
            for name in names:
                self.write(f"reference/{name}.md", module_page(name, found[name]))
        self.write("reference/index.md", "\n".join(text))

    def add_tasks(self):
        """A page for each task."""
        for name in tasks():
            self.write(f"tasks/{name}.md", task_page(name))


def rst(*lines: str) -> str:
    """reStructuredText inside Markdown."""
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def first_paragraph(module: str) -> str:
    """What a module says of itself first: one sentence, in one line."""
    text = (
        inspect.getdoc(importlib.import_module(module))
        .split("\n\n")[0]
        .replace("\n", " ")
    )
    return re.split(r"(?<=[.?]) (?=[A-Z`])", text)[0].replace("|", r"\|")


def table(head, rows) -> str:
    """A Markdown table."""
    return (
        "\n".join(
            f"| {' | '.join(map(str, row))} |"
            for row in [head, ["---"] * len(head), *rows]
        )
        + "\n"
    )


def module_page(name: str, path: str) -> str:
    """A module's own text, a link to its whole source, and what is public in it."""
    return (
        "# "
        f"{name}\n\n{whole_source(f'tinyrmc.{name}', path)}\n{rst(f'.. automodule:: tinyrmc.{name}')}"
    )


def whole_source(module: str, path: str) -> str:
    """A link to the page of a module's code, which Sphinx makes where something of it
    is documented.
    """
    page = f"../_modules/{module.replace('.', '/')}.html"
    return (
        f'<p><a href="{page}"><code>{path}</code></a></p>\n' if contents(module) else ""
    )


def task_page(name: str) -> str:
    """A task in its own words, its presets, what is published about it, its grids, and
    the contents of its file.
    """
    from house_style import FLAG

    from tinyrmc.training.discovery import load_task

    module = load_task(name)
    task = module.Task
    title = module.__doc__.partition(":")[0]
    parts = [
        f"# {title}\n",
        whole_source(f"tasks.{name}", f"tasks/{name}.py"),
        rst(f".. automodule:: tasks.{name}", "   :no-members:"),
    ]
    rows = []
    for preset, (says, config) in task.presets.items():
        train = config.train
        says = re.sub(FLAG, r"`\g<0>`", says)
        rows.append(
            [
                f"`{preset}`",
                says,
                f"{train.steps:,}",
                f"{train.batch_size:,}",
                f"{train.learning_rate:g}",
            ]
        )
    train = f"python -m tinyrmc.train {name}"
    parts += [
        "## Presets\n",
        table(
            ["preset", "what it is", "steps", "examples a step", "learning rate"], rows
        ),
    ]
    parts += [f"```\n{train} {next(iter(task.presets))}\n{train} --help\n```\n"]
    parts += ["What they reached is told in the [results](/results/index.md).\n"]
    if task.published:
        rows = [
            [cell, says, f"`{train} {words}`"]
            for cell, (says, words) in task.published.items()
        ]
        parts += [
            "## What the paper reports\n",
            table(["", "paper", "the same here"], rows),
        ]
    if task.grids:
        rows = [
            [
                f"`{grid}`",
                says,
                f"`{preset}`",
                "; ".join(
                    f"{field} {', '.join(map(str, values))}"
                    for field, values in fields.items()
                ),
            ]
            for grid, (says, preset, fields) in task.grids.items()
        ]
        parts += [
            "## Sweeps\n",
            table(["sweep", "what it is", "from preset", "every combination of"], rows),
        ]
    kinds = {
        each: "class" if inspect.isclass(vars(module)[each]) else "function"
        for each in contents(module.__name__)
    }
    parts += [
        "## In the file\n",
        rst(*(f".. auto{kind}:: tasks.{name}.{each}" for each, kind in kinds.items())),
    ]
    return "\n".join(parts)


def contents(name: str) -> list[str]:
    """The names of the public classes and functions that a module itself defines and
    describes, in order.
    """
    module = importlib.import_module(name)
    return [
        each
        for each, value in vars(module).items()
        if not each.startswith("_")
        and callable(value)
        and getattr(value, "__module__", "") == name
        and inspect.getdoc(value)
    ]


# --- The website ----------------------------------------------------------------------


def add_mathjax(out: Path) -> None:
    """The parts of MathJax that the pages load, from the Python package that ships it."""
    (package,) = importlib.util.find_spec(
        "sphinx-mathjax-offline"
    ).submodule_search_locations
    for name in MATHJAX:
        source, target = (
            Path(package) / "static" / "mathjax" / name,
            out / "_static" / "mathjax" / name,
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(
            source, target
        )


def main(words=None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="make_site.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE / "_build",
        metavar="FOLDER",
        help="replaced; html/ in it is the website",
    )
    out = parser.parse_args(words).out.resolve()
    missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"error: {', '.join(missing)} not installed; `python -m pip install -e "
            "'.[docs]'` installs what it takes",
            file=sys.stderr,
        )
        return 2
    strange = sorted({path.name for path in out.glob("[!.]*")} - {*PARTS})
    if strange:  # such as the notebooks beside chapters/source
        print(
            f"error: {out} holds {strange[0]}, which is no part of a website; --out "
            "takes a folder for nothing else",
            file=sys.stderr,
        )
        return 2
    for name in PARTS:
        shutil.rmtree(out / name, ignore_errors=True)
    source = Source(out / "source")
    shutil.copytree(HERE / "pages", source.folder)
    source.add_documents()
    source.add_reference()
    source.add_tasks()
    add_mathjax(out / "html")
    from sphinx.cmd.build import main as sphinx

    words = [
        "-q",
        "-j",
        "auto",
        "-b",
        "html",
        "-c",
        HERE,
        "-d",
        out / "doctrees",
        source.folder,
        out / "html",
    ]
    failed = sphinx([str(word) for word in words])
    if not failed:
        print(out / "html" / "index.html")
    return failed


if __name__ == "__main__":
    sys.exit(main())
