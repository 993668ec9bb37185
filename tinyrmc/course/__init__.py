"""What every chapter uses: showing the package's own code, and running briefly when
only the running is to be tried.
"""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
from pathlib import Path

FAST = os.environ.get("TINYRMC_FAST", "0") not in (
    "",
    "0",
)  # set to try whether a chapter runs at all


def fast(full, brief):
    """`full`, or `brief` where TINYRMC_FAST is set: the steps of a training run, the
    size of a sample.
    """
    return brief if FAST else full


def assets() -> Path:
    """The folder of the trained networks that chapters read.

    Jupyter starts a chapter in its own folder, tests may start it elsewhere.

    FileNotFoundError where neither this folder nor one above it has them.
    """
    places = [Path.cwd(), *Path.cwd().parents]
    for folder in (
        folder
        for place in places
        for folder in (place / "assets", place / "chapters" / "assets")
    ):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"no chapters/assets in {Path.cwd()} or above it; start in the project's "
        "folder, or with `make lab`"
    )


class show:
    """The text of functions, classes or methods as it stands in the package; at the end
    of a cell it is displayed.

    `docstring=False` leaves docstrings out; `comments` stay.
    """

    def __init__(self, *objects, docstring: bool = True):
        self.sources = [(_place(each), _text(each, docstring)) for each in objects]

    def __repr__(self):
        return "\n\n".join(f"# {place}\n{text}" for place, text in self.sources)

    def _repr_markdown_(self):
        return "\n\n".join(
            f"`{place}`\n\n```python\n{text}\n```" for place, text in self.sources
        )


def _place(each) -> str:
    file = Path(inspect.getsourcefile(each)).resolve()
    return file.relative_to(Path(__file__).resolve().parents[2]).as_posix()


def _text(each, docstring) -> str:
    text = textwrap.dedent(inspect.getsource(each)).rstrip()
    if docstring:
        return text
    lines = text.splitlines()
    inside = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)
    ]
    for node in sorted(
        inside, key=lambda node: -node.lineno
    ):  # from the last, so that the numbers of the others stay right
        string = node.body[0]
        after = string.end_lineno
        while after < len(lines) and not lines[after].strip():
            after += 1
        del lines[string.lineno - 1 : after]
    return "\n".join(lines)


def setup() -> None:
    """Pictures in the project's style, as PNG of a readable size; and matrix products
    on one thread.

    A chapter's matrices are small: shared among many threads their products take
    longer, and their last digits depend on the machine.
    """
    import matplotlib as mpl
    from threadpoolctl import threadpool_limits

    from ..figures.style import COLOURS, STYLE

    size = {"figure.dpi": 96, "figure.constrained_layout.use": True}
    mpl.rcParams.update(
        STYLE
        | size
        | {"text.parse_math": True, "axes.prop_cycle": mpl.cycler(color=COLOURS)}
    )
    threadpool_limits(limits=1, user_api="blas")
