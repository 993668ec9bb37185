"""Builds the website. Run `make site`, or `python site/make_site.py [--out FOLDER]`. It
does not use the network.

No text is kept here a second time. First this script fills a source folder: with the
few pages of `pages/`, with the documents and notebooks of the repository, whose links
it turns to the website's pages, and with a page for each module, each task and each
world. Then Sphinx makes the website. MathJax comes from the Python package
sphinx-mathjax-offline, which is used for nothing else.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.util
import inspect
import json
import pkgutil
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import chapter_map
import in_browser
import reference
from markup import LINK, rst, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGES = HERE / "pages"
sys.path.insert(0, str(ROOT))

TOOLS = ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx-mathjax-offline")
PARTS = ("source", "html", "doctrees", "jupyter_execute", "browser")  # of what is built
# a11y and sre serve readers who turn speech on
MATHJAX = ("tex-chtml-full.js", "output/chtml/fonts", "a11y", "sre")
# documents of the repository, and the pages that show them
DOCUMENTS = {
    "README.md": "index.md",  # pages/index.md includes parts of it
    "chapters/README.md": "chapters/index.md",
    "chapters/teaching/README.md": "chapters/teaching/index.md",
    "chapters/teaching/goals.md": "chapters/teaching/goals.md",
    "chapters/teaching/questions.md": "chapters/teaching/questions.md",
    "chapters/teaching/answers.md": "chapters/teaching/answers.md",
    "tasks/README.md": "tasks/index.md",
    "tasks/research.md": "tasks/research.md",
    "benchmarks/README.md": "results/index.md",
    "tinyrmc/README.md": "library.md",
    "tinyrmc/course/assets/README.md": "chapters/assets.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
SOLUTIONS = "course.exercises."

# The inside: heading -> modules and packages in reading order. A package brings its
# modules with it. A test holds that each module is in one of them.
GROUPS = {
    "The paper": ("equations", "cores.relational", "cores"),
    "The engine": ("autograd", "fused", "gpu", "nn", "optim", "backend"),
    "Training": ("training", "runs", "config", "errors"),
    "Texts and stories": ("corpora",),
    "Worlds": ("environments",),
    "Results": ("results", "text"),
    "Command lines": ("train", "cli"),
    "The course": ("course",),
}


# --- What there is --------------------------------------------------------------------


def documents() -> list[str]:
    """The Markdown documents and notebooks that become pages, by their paths in the
    repository.
    """
    found = [*DOCUMENTS]
    for pattern in (
        "chapters/[0-9][0-9]_*.ipynb",
        "benchmarks/[a-z]*.md",
        "benchmarks/results/*.md",
    ):
        found += sorted(
            path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern)
        )
    return found


def modules() -> dict[str, str]:
    """Name without `tinyrmc.` -> path in the repository, of every module that has a
    page: all but private ones and the solutions of the exercises.
    """
    found = {}
    for each in pkgutil.walk_packages([str(ROOT / "tinyrmc")], "tinyrmc."):
        name = each.name.removeprefix("tinyrmc.")
        solution = name.startswith(SOLUTIONS) and not name.endswith(".exercise")
        if not solution and not any(part.startswith("_") for part in name.split(".")):
            end = "/__init__.py" if each.ispkg else ".py"
            found[name] = each.name.replace(".", "/") + end
    return found


def grouped(names: list[str]) -> dict[str, list[str]]:
    """Heading -> modules of the reference."""
    left = list(names)
    groups: dict[str, list[str]] = {}
    for heading, members in GROUPS.items():
        groups[heading] = []
        for member in members:
            inside = [
                name for name in left if name == member or name.startswith(f"{member}.")
            ]
            groups[heading] += inside
            left = [name for name in left if name not in inside]
    return groups


def tasks() -> list[str]:
    """The names of the built-in tasks."""
    return sorted(path.stem for path in (ROOT / "tasks").glob("[!_]*.py"))


def task_module(name: str) -> ModuleType:
    """A built-in task as the module `tasks.NAME`, which is what its page calls it.

    It comes from its file, not through the import path, where `tasks` may be anybody's.
    """
    qualified = f"tasks.{name}"
    if qualified not in sys.modules:
        file = ROOT / "tasks" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(qualified, file)
        assert spec is not None and spec.loader is not None
        sys.modules[qualified] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[qualified])
    return sys.modules[qualified]


def pages() -> dict[str, str]:
    """Path in the repository -> page of the source folder that shows it."""
    found = {}
    for name in documents():
        shown = f"results/{Path(name).name}" if name.startswith("benchmarks/") else name
        found[name] = DOCUMENTS.get(name, shown)
    found |= {path: f"reference/{name}.md" for name, path in modules().items()}
    found |= {f"tasks/{name}.py": f"tasks/{name}.md" for name in tasks()}
    return found | {"tinyrmc/__init__.py": "reference/index.md"}


@functools.cache
def edited() -> dict[str, str]:
    """Page without its ending -> the file of the repository that you edit to change it.
    Pages that commands make, such as those of results, have none.
    """
    found = {f"{path.stem}.md": f"site/pages/{path.name}" for path in PAGES.glob("*")}
    found |= {page: path for path, page in pages().items()}
    for path in ROOT.glob("chapters/[0-9][0-9]_*.ipynb"):
        found[f"chapters/{path.name}"] = f"chapters/source/{path.stem}.py"
    return {
        page.rpartition(".")[0]: path
        for page, path in found.items()
        if not path.startswith("benchmarks/results/")
    }


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
        """The Markdown of the repository's file `name`, with links to pages, or to
        copies of files, in place of its links to other files.
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
        for shown in (path, f"{path}/README.md", f"{path}/__init__.py"):
            if shown in self.pages:
                return f"{label}(/{self.pages[shown]}{hash}{anchor})"
        if (ROOT / path).is_file():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.folder / path)
            return f"{label}(/{path})"
        if not (ROOT / path).is_dir():
            warning = f"the link {label}({target}) leads to no file"
            print(f"{name}: WARNING: {warning}", file=sys.stderr)
        return label.removeprefix("!")[1:-1]  # nothing to show

    def add_documents(self):
        """The documents and notebooks of the repository."""
        for name in documents():
            text = (ROOT / name).read_text(encoding="utf-8")
            if name.endswith(".md"):
                page = name if name == "README.md" else self.pages[name]
                self.write(page, self.relink(chapter_map.drawn(text), name))
                continue
            notebook = json.loads(text)
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = self.relink("".join(cell["source"]), name)
            self.write(name, json.dumps(notebook))

    def add_project(self):
        """The project itself, which the first page offers."""
        words = ["hatchling", "build", "-t", "sdist", "-d", f"{self.folder}"]
        subprocess.run(
            [sys.executable, "-m", *words], cwd=ROOT, check=True, capture_output=True
        )
        (archive,) = self.folder.glob("tinyrmc-*.tar.gz")
        archive = archive.rename(self.folder / "tinyrmc.tar.gz")
        size = in_browser.megabytes([archive])
        page = (PAGES / "index.md").read_text(encoding="utf-8")
        self.write("index.md", page.replace("{{MEGABYTES}}", f"{size}"))

    def add_reference(self):
        """Pages for who uses the library; and a page for each module, with their table
        of contents.
        """
        for name, text in reference.pages().items():
            self.write(f"reference/{name}.md", text)
        found = modules()
        about = (
            "A page for each module, with all that it says of itself. What you import"
        )
        text = ["# The inside", "", f"{about} is [here](index.md).", ""]
        for heading, names in grouped([*found]).items():
            rows = []
            for name in names:
                self.write(f"reference/{name}.md", module_page(name, found[name]))
                rows.append(
                    [f"[`{name}`]({name}.md)", first_sentence(f"tinyrmc.{name}")]
                )
            text += [f"## {heading}", "", table(["module", "what it is"], rows)]
            text += ["```{toctree}", ":hidden:", "", *names, "```", ""]
        self.write("reference/modules.md", "\n".join(text))

    def add_tasks(self):
        """A page for each task."""
        for name in tasks():
            self.write(f"tasks/{name}.md", task_page(name))

    def add_worlds(self):
        """A page for each world that Gymnasium knows, and its pictures."""
        import world_pages

        for id in world_pages.IDS:
            self.write(f"{world_pages.page_of(id)}.md", world_pages.world_page(id))
            world_pages.draw(id, self.folder / "worlds")


# --- Pages ----------------------------------------------------------------------------


def first_sentence(module: str) -> str:
    """A module's own first words, in one line."""
    text = inspect.getdoc(importlib.import_module(module)) or ""
    paragraph = text.partition("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[.?]) (?=[A-Z`])", paragraph)[0].replace("|", r"\|")


def module_page(name: str, path: str) -> str:
    """A module's own text, a link to its whole source, and what is public in it."""
    source = whole_source(f"tinyrmc.{name}", path)
    return f"# {name}\n\n{source}\n{rst(f'.. automodule:: tinyrmc.{name}')}"


def whole_source(module: str, path: str) -> str:
    """A link to the page of a module's code, which Sphinx makes if it documents
    something in it.
    """
    page = f"../_modules/{module.replace('.', '/')}.html"
    link = f'<p><a href="{page}"><code>{path}</code></a></p>\n'
    return link if contents(module) else ""


def task_page(name: str) -> str:
    """A task in its own words, its presets, what is published about it, its grids, and
    the contents of its file.
    """
    module = task_module(name)
    title = (module.__doc__ or "").partition(":")[0]
    members = [
        f".. auto{'class' if inspect.isclass(vars(module)[each]) else 'function'}:: "
        f"tasks.{name}.{each}"
        for each in contents(module.__name__)
    ]
    parts = [
        f"# {title}\n",
        whole_source(f"tasks.{name}", f"tasks/{name}.py"),
        rst(f".. automodule:: tasks.{name}", "   :no-members:"),
        *_presets(name, module.Task),
        *_published(name, module.Task),
        *_grids(module.Task),
        "## In the file\n",
        rst(*members),
    ]
    return "\n".join(parts)


def _presets(name, task):
    from house_style import FLAG

    rows = []
    for preset, (says, config) in task.presets.items():
        train = config.train
        sizes = (
            f"{train.steps:,}",
            f"{train.batch_size:,}",
            f"{train.learning_rate:g}",
        )
        rows.append([f"`{preset}`", re.sub(FLAG, r"`\g<0>`", says), *sizes])
    head = ["preset", "what it is", "steps", "examples a step", "learning rate"]
    train = f"python -m tinyrmc.train {name}"
    return [
        "## Presets\n",
        table(head, rows),
        f"```\n{train} {next(iter(task.presets))}\n{train} --help\n```\n",
        "What they reached is told in the [results](/results/index.md).\n",
    ]


def _published(name, task):
    rows = [
        [cell, says, f"`python -m tinyrmc.train {name} {words}`"]
        for cell, (says, words) in task.published.items()
    ]
    heading = "## What the paper reports\n"
    return [heading, table(["", "paper", "the same here"], rows)] if rows else []


def _grids(task):
    rows = []
    for grid, (says, preset, fields) in task.grids.items():
        every = [
            f"{field} {', '.join(map(str, values))}" for field, values in fields.items()
        ]
        rows.append([f"`{grid}`", says, f"`{preset}`", "; ".join(every)])
    head = ["sweep", "what it is", "from preset", "every combination of"]
    return ["## Sweeps\n", table(head, rows)] if rows else []


def contents(name: str) -> list[str]:
    """The names of the public classes and functions that a module itself defines and
    documents, in order.
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
    """The parts of MathJax that the pages load, from the package that ships it."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    assert spec is not None and spec.submodule_search_locations
    package = Path(spec.submodule_search_locations[0])
    for name in MATHJAX:
        source = package / "static" / "mathjax" / name
        target = out / "_static" / "mathjax" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)


# What tools write that a screen reader stumbles over, and what it should be.
SLIPS = [
    (r'<summary>(?=<span class="toctree-toggle")', '<summary aria-label="More pages">'),
    ('<summary aria-label="Toggle hidden content">', "<summary>"),  # it has words
    (
        r'<p class="((?:collapsed|expanded).*?)">(.*?)</p>',
        r'<span class="\1">\2</span>',
    ),
    (r'(search-button-field.*?) aria-label="Search"', r"\1"),
    ('(<div id="pst-primary-sidebar")', r'\1 role="region" aria-label="Side bar"'),
    ('(<div class="wide)', r'<div tabindex="0" class="wide'),
    (r'<dd>(<em class="sig-param">.*)</dd>', r'<span class="sig-line">\1</span>'),
    (r'<dl>\n((?:<span class="sig-line">.*\n)+)</dl>', r"\1"),
]


def tidy(html: Path) -> None:
    """Mend the slips of tools in every page."""
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for slip, right in SLIPS:
            text = re.sub(slip, right, text)
        page.write_text(text, encoding="utf-8", newline="\n")


def build(out: Path) -> int:
    """Build the website in a folder of its own; returns Sphinx's exit code."""
    for name in PARTS:
        shutil.rmtree(out / name, ignore_errors=True)
    import icons
    import landing

    from tinyrmc.course.overview import exercises

    source = Source(out / "source")
    shutil.copytree(PAGES, source.folder)
    shutil.copytree(HERE / "static", source.folder / "static")  # its pictures
    source.add_project()
    source.add_documents()
    source.add_reference()
    source.add_tasks()
    source.add_worlds()
    source.write("points.html", landing.figure())
    names = {chapter: each for (chapter, _), each in exercises().items()}
    rules = (HERE / "search.js").read_text(encoding="utf-8")
    source.write("search.js", rules.replace('{"EXERCISES": []}', json.dumps(names)))
    add_mathjax(out / "html")
    from sphinx.cmd.build import main as sphinx

    words = ["-q", "-b", "html", "-c", str(HERE)]
    words += ["-D", f"html_search_scorer={source.folder / 'search.js'}"]
    words += ["-d", str(out / "doctrees"), str(source.folder), str(out / "html")]
    failed = sphinx(words)
    if not failed:
        icons.replace(out / "html")
        tidy(out / "html")
        inside = out / "html" / "_static" / "inside.html"
        inside.write_text(landing.inside(), encoding="utf-8", newline="\n")
        in_browser.build(out / "html", out / "browser")
    return failed


def refusal(out: Path) -> str | None:
    """Why the website cannot be built there; None if it can."""
    missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    missing += in_browser.missing()
    if missing:
        return (
            f"{', '.join(missing)} not installed; `python -m pip install -e '.[docs]'` "
            "installs what it takes"
        )
    strange = sorted({path.name for path in out.glob("[!.]*")} - {*PARTS})
    if strange:  # such as the notebooks beside chapters/source
        return (
            f"{out} holds {strange[0]}, which is no part of a website; give --out a "
            "folder for nothing else"
        )
    return in_browser.refusal()


def main(words=None) -> int:
    """The command line; returns the exit code."""
    about = (__doc__ or "").partition(".")[0]
    parser = argparse.ArgumentParser(prog="make_site.py", description=about)
    parser.add_argument(
        "--out",
        type=Path,
        default=HERE / "_build",
        metavar="FOLDER",
        help="replaced; html/ in it is the website",
    )
    out = parser.parse_args(words).out.resolve()
    if (reason := refusal(out)) is not None:
        print(f"error: {reason}", file=sys.stderr)
        return 2
    failed = build(out)
    if not failed:
        print(out / "html" / "index.html")
    return failed


if __name__ == "__main__":
    sys.exit(main())
