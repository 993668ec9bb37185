"""Lines of Python a room, and whether each room keeps to its budget.

The budgets stand in pyproject.toml under `tool.tinyrmc.lines`. A room is a folder or a
file; one that has a budget of its own does not count in the room around it. If your
change passes a budget, take something away, or say why the budget must be larger.
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def lines_of(path: Path) -> int:
    """Lines of Python in a folder, or in one file."""
    files = path.rglob("*.py") if path.is_dir() else [path]
    made = {"_build", "__pycache__"}
    texts = (file.read_bytes() for file in files if not made & {*file.parts})
    return sum(text.count(b"\n") for text in texts)


def sizes(rooms: list[str], root: Path) -> dict[str, int]:
    """Lines of each room, without the rooms in it that are counted themselves."""
    whole = {room: lines_of(root / room) for room in rooms}
    inside = {
        room: [other for other in rooms if other.startswith(f"{room}/")]
        for room in rooms
    }
    return {room: n - sum(whole[x] for x in inside[room]) for room, n in whole.items()}


def main(root: Path = ROOT) -> int:
    """Print the rooms; exit code 1 if one is too large."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    budgets = project["tool"]["tinyrmc"]["lines"]
    found = sizes([*budgets], root)
    for room, lines in found.items():
        over = f"  {lines - budgets[room]:,} too many" * (lines > budgets[room])
        print(f"{room:20} {lines:7,} of {budgets[room]:7,}{over}")
        for path in sorted((root / room).glob("*")) if room == "tinyrmc" else ():
            name = f"{room}/{path.name}"
            if name not in budgets and (
                n := lines_of(path) if path.suffix in ("", ".py") else 0
            ):
                print(f"  {path.name:18} {n:7,}")
    return int(any(lines > budgets[room] for room, lines in found.items()))


if __name__ == "__main__":
    sys.exit(main())
