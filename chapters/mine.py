"""Makes your own copies of the chapters, in chapters/mine/, for you to work in.

    python chapters/mine.py          those that are not there yet, or empty
    python chapters/mine.py 04 07    these anew; what you had is kept beside, as
                                     04_....before-1.ipynb

Outputs that would answer a guess are cleared. git ignores the folder. Where it cannot
be written, the variable TINYRMC_MINE names another.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MINE = Path(os.environ.get("TINYRMC_MINE") or HERE / "mine").expanduser()


def copy(chapter: Path, to: Path) -> None:
    """A chapter as you get it: with outputs, but for those that answer a guess."""
    notebook = json.loads(chapter.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        marks = cell["metadata"].get("jupyter", {})
        # In a copy the output is the reader's own, and to be seen once it is there.
        if marks.pop("outputs_hidden", False):
            cell["outputs"], cell["execution_count"] = [], None
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    handle, beside = tempfile.mkstemp(dir=to.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        os.chmod(beside, 0o644)
        os.replace(beside, to)
    except BaseException:
        os.unlink(beside)
        raise


def put_aside(mine: Path) -> Path:
    """Rename a learner's copy to a name that is free; returns that."""
    for k in range(1, 1_000_000):
        old = mine.with_name(f"{mine.stem}.before-{k}{mine.suffix}")
        try:
            old.touch(exist_ok=False)  # so that nobody else takes this name
        except FileExistsError:
            continue
        try:
            mine.replace(old)
        except OSError:
            old.unlink()
            raise
        return old
    raise FileExistsError(17, "no name is free for the old copy", str(mine))


def main(names: list[str]) -> int:
    """The command line; returns the exit code."""
    chapters = sorted(
        path
        for path in HERE.glob("[0-9][0-9]_*.ipynb")
        if re.fullmatch(r"\d\d_\w+", path.stem)  # no copies beside them
    )
    numbers = [path.name[:2] for path in chapters]
    for name in names:
        if name not in numbers:
            advice = f"give two digits, {numbers[0]} to {numbers[-1]}"
            print(f"error: there is no chapter {name!r}; {advice}", file=sys.stderr)
            return 2
    try:
        MINE.mkdir(parents=True, exist_ok=True)
        for chapter in chapters:
            mine = MINE / chapter.name
            empty = not mine.exists() or not mine.stat().st_size
            if chapter.name[:2] not in names and not empty:
                continue
            old = None if empty else put_aside(mine)
            try:
                copy(chapter, mine)
            except OSError:
                if old:
                    old.rename(mine)
                raise
            if old:
                print(f"{mine.name} is new; what you had there is {old.name}")
    except OSError as error:
        why = error.strerror or error
        remedy = "name another folder in the variable TINYRMC_MINE"
        print(f"error: cannot write {MINE}: {why}; {remedy}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
