"""Makes the notebooks from their sources.

You edit chapters/source/NN_name.py. This makes chapters/NN_name.ipynb from it:
executed, for people to read.

    python chapters/build.py            all of them
    python chapters/build.py 04 07      these
    python chapters/build.py --check    executes all briefly, writes nothing

The sources are in the percent format of jupytext. Five marks stand at a cell:

`# %% alt="The weights of four heads"`: what a picture shows, for readers who cannot see
it. Every cell that draws has one.

`# %% tags=["hide-input"]`: a cell that only draws, at length. Readers see its first
line, which is a comment, and what it draws, until they ask for its code.

`# %% tags=["hide-cell"]`: an answer to one of the last questions. Code and output are
folded; its first line is a comment, too.

`# %% tags=["hide-output"]`: a cell whose output answers a guess that the reader has
been asked for. The output is folded.

`# %% tags=["varies"]`: a cell whose output differs from run to run, such as a measured
time. Its output is not kept, so the same source gives the same bytes on the same
machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

HERE = Path(__file__).resolve().parent

TOOLS = ("jupytext", "nbformat", "nbclient", "ipykernel")
LONGEST = 300  # seconds for one cell
VARIES = "varies"
FOLDED = "hide-input"  # the names that the website's builder knows
ANSWER = "hide-cell"
GUESSED = "hide-output"
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def sources(names: Sequence[str] = ()) -> list[Path]:
    """The chapters' sources in order, or those of these numbers or whole names.

    ValueError names what is none.
    """
    found = sorted((HERE / "source").glob("[0-9][0-9]_*.py"))
    if not names:
        return found
    for name in names:
        if not any(name in (path.stem, path.name[:2]) for path in found):
            raise ValueError(_no_such_chapter(name, found))
    return [path for path in found if {path.stem, path.name[:2]} & {*names}]


def _no_such_chapter(name, found) -> str:
    meant = f"0{name}"
    there = f"there are {', '.join(path.stem for path in found)}"
    if any(path.name.startswith(f"{meant}_") for path in found):
        there = f"did you mean {meant}? T{there[1:]}"
    return f"no chapter begins with {name!r}; {there}"


def read(source: Path) -> NotebookNode:
    """The notebook of a source, not executed.

    Its cells get ids that depend on nothing but the source.
    """
    import jupytext

    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        text = f"{number} {cell.source}"
        cell["id"] = hashlib.sha1(text.encode()).hexdigest()[:8]
        cell.metadata = _metadata(cell)
    notebook.metadata = METADATA
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _metadata(cell) -> dict:
    """A cell's marks as JupyterLab and the website's builder want them."""
    metadata = {}
    if tags := cell.metadata.get("tags"):
        metadata["tags"] = tags
        if FOLDED in tags:
            metadata["jupyter"] = {"source_hidden": True}
        if GUESSED in tags:
            metadata.setdefault("jupyter", {})["outputs_hidden"] = True
        if ANSWER in tags:
            metadata["jupyter"] = {"source_hidden": True, "outputs_hidden": True}
    if alt := cell.metadata.get("alt"):
        metadata["mystnb"] = {"image": {"alt": alt}}
    return metadata


def execute(
    notebook: NotebookNode,
    brief: bool = False,
    folder: Path = HERE,
    packages: Path | None = None,
) -> None:
    """Run a notebook's cells in `folder`, with the tinyrmc of `packages` if given.

    A cell that fails raises nbclient's CellExecutionError.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        timeout=LONGEST,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,  # how printed lines come in portions varies
    )
    # Else the kernel warns of sockets that other users of this machine could read.
    client.extra_arguments = ["--IPKernelApp.log_level=ERROR"]
    client.execute(env=_environment(brief, packages))
    notebook.metadata = METADATA  # the kernel has added its version
    for cell in notebook.cells:
        if VARIES in cell.metadata.get("tags", []):
            cell.outputs = []


def _environment(brief: bool, packages: Path | None) -> dict[str, str]:
    """The kernel's: one thread, because products are small, and for the same bits."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment.pop("TINYRMC_FAST", None)
    environment["TINYRMC_PROGRESS"] = ""  # what is solved here, no reader has solved
    if brief:
        environment["TINYRMC_FAST"] = "1"
    if packages is not None:
        environment["PYTHONPATH"] = str(packages)
    return environment


def main(words: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NN", help="chapters (default: all)"
    )
    parser.add_argument(
        "--check", action="store_true", help="execute briefly, write nothing"
    )
    options = parser.parse_args(words)
    missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        return _refused(
            f"{names} not installed; `make chapters` installs what it takes"
        )
    import nbformat

    try:
        chosen = sources(options.names)
    except ValueError as problem:
        return _refused(problem)
    for source in chosen:
        print(source.stem, flush=True)
        notebook = read(source)
        execute(notebook, brief=options.check)
        if not options.check:
            nbformat.write(notebook, HERE / f"{source.stem}.ipynb")
    return 0


def _refused(problem) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
