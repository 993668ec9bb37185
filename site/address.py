"""Writes the project's public address: `make address REPOSITORY=owner/name`.

The address stands in one place, the table `project.urls` of pyproject.toml. While that
is empty, nothing links to it. This script writes it there, and what follows from it:
the badges and the install command of the README, the links of CITATION.cff, and the
first two cells of every notebook, which open it in Colab and Binder. The website asks
`repository()` when it is built. Another address takes the place of the old one.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HOST = "https://github.com/"
NAMES = re.compile(r"[a-z\d](?:-?[a-z\d]){0,38}/(?!\.+$)[\w.-]{1,100}", re.I | re.A)
CELLS = ("badges", "install")  # ids of the cells that notebooks begin with
COLAB = "https://colab.research.google.com/github/{}/blob/main/{}"
BINDER = "https://mybinder.org/v2/gh/{}/main?urlpath=lab/tree/{}"
IMAGES = {
    "Colab": "https://colab.research.google.com/assets/colab-badge.svg",
    "Binder": "https://mybinder.org/badge_logo.svg",
}
TESTS = HOST + "{}/actions/workflows/tests.yml"

CLONE = """\
```
# The package alone, for notebooks anywhere
pip install 'tinyrmc[course] @ git+{at}{repository}'
# Or everything
git clone {at}{repository}
cd {name}
```

Then, in that folder:"""

INSTALL = """\
# Installs tinyrmc where it is missing, as in Colab. If Colab then asks you to restart
# the session, do so and go on with the next cell.
import importlib.util

if importlib.util.find_spec("tinyrmc") is None:
    %pip install --quiet "autograd>=1.7" "tinyrmc @ git+{at}{repository}\""""


class Refused(ValueError):
    """The address cannot be written; nothing has been."""


def repository(root: Path = ROOT) -> str:
    """`owner/name` on GitHub; empty while it is not decided."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    url = project["project"].get("urls", {}).get("Repository", "")
    return url.removeprefix(HOST)


def pages(repository: str) -> str:
    """Where GitHub publishes the website, as `.github/workflows/site.yml` has it."""
    owner, name = repository.split("/")
    return f"https://{owner.lower()}.github.io/{name}/"


# --- What is written ------------------------------------------------------------------


def badge(label: str, image: str, target: str) -> str:
    """A picture with a link, in Markdown."""
    return f"[![{label}]({image})]({target})"


def launchers(repository: str, notebook: str) -> list[str]:
    """The badges that open a notebook, named by its path, in Colab and Binder."""
    targets = {"Colab": COLAB, "Binder": BINDER}
    return [
        badge(f"Open in {name}", IMAGES[name], target.format(repository, notebook))
        for name, target in targets.items()
    ]


def opening(repository: str, notebook: str) -> list[dict[str, Any]]:
    """The cells that a notebook begins with, in the format of .ipynb files; none while
    the address is not decided.

    The second is only ever run by hand, so it has no number.
    """
    if not repository:
        return []
    badges = "\n".join(launchers(repository, notebook))
    install = INSTALL.format(at=HOST, repository=repository)
    return [
        {"cell_type": "markdown", "id": CELLS[0], "metadata": {}, "source": badges},
        {
            "cell_type": "code",
            "id": CELLS[1],
            "metadata": {"tags": ["skip-execution"]},
            "source": install,
            "execution_count": None,
            "outputs": [],
        },
    ]


def _notebook(text: str, repository: str, path: str) -> str:
    notebook = json.loads(text)
    rest = [each for each in notebook["cells"] if each["id"] not in CELLS]
    first = opening(repository, path)
    for cell in first:
        cell["source"] = cell["source"].splitlines(keepends=True)
    notebook["cells"] = first + rest
    # as nbformat writes it
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _between(text: str, name: str, lines: list[str], where: str) -> str:
    """`text` with other lines in its region `name`."""
    region = rf"(?s)(<!-- address: {name} -->\n).*?(<!-- end -->\n)"
    made, count = re.subn(
        region, lambda found: found[1] + "\n".join([*lines, ""]) + found[2], text
    )
    if count != 1:
        raise Refused(f"{where} has no region '<!-- address: {name} -->'; put it back")
    return made


def _readme(text: str, repository: str, where: str) -> str:
    run = TESTS.format(repository)
    first = "chapters/00_how_to_read.ipynb"
    badges = [badge("tests", f"{run}/badge.svg", run), *launchers(repository, first)]
    name = repository.partition("/")[2]
    clone = CLONE.format(at=HOST, repository=repository, name=name).splitlines()
    text = _between(text, "badges", badges, where)
    return _between(text, "clone", clone, where)


def _project(text: str, repository: str, where: str) -> str:
    rows = {
        "Repository": f"{HOST}{repository}",
        "Documentation": pages(repository),
        "Issues": f"{HOST}{repository}/issues",
        "Changelog": f"{HOST}{repository}/blob/main/CHANGELOG.md",
    }
    table = "".join(f'{name} = "{url}"\n' for name, url in rows.items())
    made, count = re.subn(
        r"(?m)^(\[project\.urls\]\n)(?:\w+ = .*\n)*", rf"\g<1>{table}", text
    )
    if count != 1:
        raise Refused(f"{where} has no table [project.urls]; put it back, empty")
    return made


def _citation(text: str, repository: str, where: str) -> str:
    rows = f'repository-code: "{HOST}{repository}"\nurl: "{pages(repository)}"\n'
    text = re.sub(r"(?m)^(?:repository-code|url): .*\n", "", text)
    made, count = re.subn(r"(?m)^license: .*\n", rf"\g<0>{rows}", text)
    if count != 1:
        raise Refused(f"{where} has no line 'license:', below which the address goes")
    return made


WRITERS = {
    "pyproject.toml": _project,
    "README.md": _readme,
    "CITATION.cff": _citation,
}


def write(repository: str, root: Path) -> list[str]:
    """Write the address everywhere; the paths of the files that changed.

    All texts are made before the first is written. Refused says what is wrong.
    """
    if not NAMES.fullmatch(repository) or repository.endswith(".git"):
        raise Refused(
            f"REPOSITORY={repository!r} is not owner/name: give the two words that "
            "follow github.com/"
        )
    made = {}
    for name, writer in WRITERS.items():
        text = (root / name).read_text(encoding="utf-8")
        made[name] = writer(text, repository, name)
    for path in sorted((root / "chapters").glob("[0-9][0-9]_*.ipynb")):
        name = path.relative_to(root).as_posix()
        made[name] = _notebook(path.read_text(encoding="utf-8"), repository, name)
    changed = [
        name
        for name, text in made.items()
        if text != (root / name).read_text(encoding="utf-8")
    ]
    for name in changed:
        (root / name).write_text(made[name], encoding="utf-8", newline="\n")
    return changed


def main(words: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    words = sys.argv[1:] if words is None else words
    try:
        if len(words) != 1:
            raise Refused("name one repository: make address REPOSITORY=owner/name")
        changed = write(words[0], ROOT)
    except (Refused, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    print("\n".join(changed) or f"{words[0]} stands everywhere already")
    return 0


if __name__ == "__main__":
    sys.exit(main())
