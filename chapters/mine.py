"""Makes your own copies of the chapters, in chapters/mine/, for you to work in.

    python chapters/mine.py          those that are not there yet
    python chapters/mine.py 04 07    these anew; what you had there is gone

Outputs that would answer a guess are cleared. git ignores the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MINE = HERE / "mine"


def copy(chapter: Path, to: Path) -> None:
    """A chapter as you get it: with outputs, but for those that answer a guess."""
    notebook = json.loads(chapter.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        marks = cell["metadata"].get("jupyter", {})
        # In a copy the output is the reader's own, and to be seen once it is there.
        if marks.pop("outputs_hidden", False):
            cell["outputs"], cell["execution_count"] = [], None
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    to.write_text(text + "\n", encoding="utf-8")


def main(names: list[str]) -> int:
    """The command line; returns the exit code."""
    chapters = sorted(HERE.glob("[0-9][0-9]_*.ipynb"))
    for name in names:
        if not any(chapter.name.startswith(name) for chapter in chapters):
            print(f"error: no chapter begins with {name!r}", file=sys.stderr)
            return 2
    MINE.mkdir(exist_ok=True)
    for chapter in chapters:
        mine = MINE / chapter.name
        if chapter.name.startswith(tuple(names)) or not mine.exists():
            copy(chapter, mine)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
