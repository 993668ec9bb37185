"""Makes the notebooks: chapters/source/NN_name.py, which people edit, becomes
chapters/NN_name.ipynb, executed, which people read.

    python chapters/build.py                    all of them
    python chapters/build.py 04 07              these
    python chapters/build.py --check            executes all briefly (TINYRMC_FAST=1), writes nothing

The sources are in the percent format of jupytext. A cell that draws says in its first
line what is to be seen, for those who cannot see it: `# %% alt="The weights of four
heads"`. A cell that does nothing but draw, at length, is marked `# %%
tags=["hide-input"]` and begins with a comment: only that and what it draws are seen
until its code is asked for. A cell whose output differs from run to run, such as a
measured time, is marked `# %% tags=["varies"]`, and its output is not kept. So the same
source gives the same bytes on the same machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = ("jupytext", "nbformat", "nbclient", "ipykernel")
LONGEST = 300  # seconds for one cell
VARIES, FOLDED = (
    "varies",
    "hide-input",
)  # the second one's name is the website's builder's
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def sources(names=()) -> list[Path]:
    """The chapters' sources in order; of `names`, beginnings of file names, if there
    are any. ValueError if nothing begins so.
    """
    found = sorted((HERE / "source").glob("[0-9][0-9]_*.py"))
    missing = [
        name for name in names if not any(path.name.startswith(name) for path in found)
    ]
    if missing:
        meant = f"0{missing[0]}"
        hint = (
            f"did you mean {meant}? There"
            if any(path.name.startswith(f"{meant}_") for path in found)
            else "there"
        )
        raise ValueError(
            f"no chapter begins with {missing[0]!r}; {hint} are "
            f"{', '.join(path.stem for path in found)}"
        )
    return [path for path in found if not names or path.name.startswith(tuple(names))]


def read(source: Path):
    """The notebook of a source, not executed; the same cells have the same ids, whoever
    makes them.
    """
    import jupytext

    notebook = jupytext.read(source)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = hashlib.sha1(f"{number} {cell.source}".encode()).hexdigest()[:8]
        alt, tags = cell.metadata.get("alt"), cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if FOLDED in tags:
            cell.metadata["jupyter"] = {"source_hidden": True}  # as JupyterLab wants it
        if alt:
            cell.metadata["mystnb"] = {
                "image": {"alt": alt}
            }  # as the website's builder wants it
    notebook.metadata = METADATA
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(notebook, brief: bool = False):
    """Run a notebook's cells in the chapters' folder; a cell that fails raises
    nbclient's CellExecutionError.
    """
    from nbclient import NotebookClient

    one_thread = {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }  # small products, and always the same bits
    environment = {
        name: value for name, value in os.environ.items() if name != "TINYRMC_FAST"
    } | one_thread
    environment |= {"TINYRMC_FAST": "1"} if brief else {}
    options = {
        "record_timing": False,
        "coalesce_streams": True,
    }  # how printed lines come in portions depends on the clock
    client = NotebookClient(
        notebook,
        timeout=LONGEST,
        resources={"metadata": {"path": str(HERE)}},
        **options,
    )
    client.extra_arguments = [
        "--IPKernelApp.log_level=ERROR"
    ]  # it warns of sockets that other users of this machine could read
    client.execute(env=environment)
    notebook.metadata = METADATA  # the kernel has added its version
    for cell in notebook.cells:
        if VARIES in cell.metadata.get("tags", []):
            cell.outputs = []


def main(words=None) -> int:
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
        print(
            f"error: {', '.join(missing)} not installed; `make chapters` installs "
            "what it takes",
            file=sys.stderr,
        )
        return 2
    import nbformat

    try:
        chosen = sources(options.names)
    except ValueError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    for source in chosen:
        print(source.stem, flush=True)
        notebook = read(source)
        execute(notebook, brief=options.check)
        if not options.check:
            nbformat.write(notebook, HERE / f"{source.stem}.ipynb")
    return 0


if __name__ == "__main__":
    sys.exit(main())
