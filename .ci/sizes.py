"""Lines of Python a room, and what each has gained since the last release.

pyproject.toml holds what a room had then, under `tool.tinyrmc.lines`. A room is a
folder or a file; one that is listed itself does not count in the room around it. Above
2 % of growth you are warned; above 5 %, and more than 100 lines, `make lint` fails:
then take something away, or say why the room must be larger. With a release, write the
new numbers down.
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
    """Print the rooms; exit code 1 if one has grown too much."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    released = project["tool"]["tinyrmc"]["lines"]
    found, too_much = sizes([*released], root), False
    for room, lines in found.items():
        gained = lines - released[room]
        growth = 100 * gained / released[room]
        much = growth > 5 and gained > 100
        too_much |= much
        words = "  too much" if much else "  take care" if growth > 2 else ""
        print(f"{room:20} {lines:7,} {gained:+7,} {growth:+5.1f} %{words}")
        for path in sorted((root / room).glob("*")) if room == "tinyrmc" else ():
            name = f"{room}/{path.name}"
            if name not in released and (
                n := lines_of(path) if path.suffix in ("", ".py") else 0
            ):
                print(f"  {path.name:18} {n:7,}")
    return int(too_much)


if __name__ == "__main__":
    sys.exit(main())
