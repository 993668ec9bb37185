"""What faults.py does to the files of a run: damage of all kinds, and forgeries whose
checksums are right.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tinyrmc.runs.arrays import load_arrays, save_arrays

# a value of every kind that JSON has, and some that nobody expects
KINDS: tuple[Any, ...] = (
    None,
    True,
    -7,
    1.5,
    10**30,
    float("nan"),
    "text",
    "",
    "x" * 5000,
    "\0",
    [],
    ["text"],
    [[1, 2], 3],
    {},
    {"text": 1},
)
DEEP = "[" * 100_000

# --- Damage ---------------------------------------------------------------------------


def cut(path: Path, rng: random.Random) -> None:
    """A file that ends too early."""
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def flip(path: Path, rng: random.Random) -> None:
    """One bit of a file is flipped."""
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def noise(path: Path, rng: random.Random) -> None:
    """Bytes that mean nothing."""
    path.write_bytes(rng.randbytes(rng.randrange(1, 5000)))


def emptied(path: Path, rng: random.Random) -> None:
    """A file of no bytes."""
    path.write_bytes(b"")


def gone(path: Path, rng: random.Random) -> None:
    """No file any more."""
    path.unlink()


def folder(path: Path, rng: random.Random) -> None:
    """A folder with the file's name."""
    path.unlink()
    path.mkdir()


def pipe(path: Path, rng: random.Random) -> None:
    """A pipe that nobody writes to."""
    path.unlink()
    os.mkfifo(path)


def device(path: Path, rng: random.Random) -> None:
    """A file without end."""
    path.unlink()
    path.symlink_to("/dev/zero")


def loop(path: Path, rng: random.Random) -> None:
    """A link to itself."""
    path.unlink()
    path.symlink_to(path.name)


def nested(path: Path, rng: random.Random) -> None:
    """JSON that is nested too deeply; in an npz file, its header."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("tinyrmc.json", DEEP)
    else:
        path.write_text(DEEP + "\n")


def another(path: Path, rng: random.Random) -> None:
    """JSON of another kind, and an npz file of somebody else."""
    if path.suffix == ".npz":
        np.savez(path, weights=np.ones(3))
    else:
        path.write_text(json.dumps(rng.choice(KINDS)) + "\n")


def inflated(path: Path, rng: random.Random) -> None:
    """A small npz file that would unpack to 2 GB; other files grow long."""
    if path.suffix == ".npz":
        path.write_bytes(bomb())
    else:
        path.write_bytes(path.read_bytes() + b" " * 10_000_000)


@functools.cache
def bomb() -> bytes:
    """An npz file of 2 MB with an array of 2 GB; takes seconds."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("parameters/x.npy", "w", force_zip64=True) as member:
            for _ in range(20):
                member.write(bytes(100_000_000))
    return made.getvalue()


def web_page(path: Path, rng: random.Random) -> None:
    """What a server sent in place of the file."""
    path.write_bytes(b"<!DOCTYPE html>\n<title>404 Not Found</title>\n")


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    cut,
    flip,
    noise,
    emptied,
    gone,
    folder,
    pipe,
    device,
    loop,
    nested,
    another,
    inflated,
    web_page,
)
NO_FILES = gone, folder, pipe, device, loop, web_page

# --- Forgeries ------------------------------------------------------------------------


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The places of all values in what JSON gave, containers included."""
    if path:
        yield path
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in inside:
        yield from places(part, (*path, key))


def replaced(value: Any, path: tuple, new: Any) -> Any:
    """A copy with another value at this place; for `gone`, without the place."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    if new is gone:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new
    return changed


def at(value: Any, path: tuple) -> Any:
    """What stands at a place."""
    for key in path:
        value = value[key]
    return value


def other_kinds(value: Any) -> list[Any]:
    """KINDS, but for those that could stand in this value's place.

    Where there is nothing, a number or a text could.
    """
    if value is None:
        return [new for new in KINDS if isinstance(new, bool | list | dict)]
    alike = (float, int) if type(value) is float else (type(value),)
    return [new for new in KINDS if type(new) not in alike]


def forge_json(path: Path, rng: random.Random) -> str:
    """Put a value of another type into a JSON file, or into one of its lines; says
    which.
    """
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else []
    number = rng.randrange(len(lines)) if lines else 0
    value = json.loads(lines[number] if lines else path.read_text())
    place = rng.choice([*places(value)])
    new = rng.choice(other_kinds(at(value, place)))
    text = json.dumps(replaced(value, place, new))
    if lines:
        lines[number] = text
        text = "\n".join(lines)
    path.write_text(text + "\n")
    return f"{place} = {str(new)[:20]!r}"


def forge_state(path: Path, rng: random.Random, within: str | None = None) -> str:
    """Put a value of another type into the state of a checkpoint, whose checksum is
    right; says which.

    within: this part of the state alone.
    """
    arrays, state = load_arrays(path)
    found = [p for p in places(state) if within is None or p[0] == within]
    place = rng.choice([p for p in found if p[0] != "window" or len(p) < 3])
    new = rng.choice(other_kinds(at(state, place)))
    save_arrays(path, arrays, replaced(state, place, new))
    return f"{place} = {str(new)[:20]!r}"


def forge_both(path: Path, rng: random.Random) -> str:
    """Put a value of another type into config.json and the checkpoint beside it."""
    arrays, state = load_arrays(path)
    place = rng.choice([*places(state["run"])])
    kinds = other_kinds(at(state["run"], place))
    new = rng.choice([kind for kind in kinds if kind is not None])  # null may be right
    state["run"] = replaced(state["run"], place, new)
    save_arrays(path, arrays, state)
    path.with_name("config.json").write_text(json.dumps(state["run"]))
    return f"{place} = {str(new)[:20]!r}"


def forge_arrays(path: Path, rng: random.Random) -> str:
    """Make an array of a checkpoint not finite, or give it another shape, type or name,
    or take it away; says which.
    """
    arrays, state = load_arrays(path)
    name = rng.choice([*arrays])
    x, what = arrays.pop(name), rng.choice(("nan", "shape", "type", "name", "gone"))
    if what == "nan":
        name = rng.choice([n for n in [*arrays, name] if n.startswith("parameters/")])
        arrays.setdefault(name, x)
        arrays[name] = np.full_like(arrays[name], rng.choice((np.nan, np.inf)))
    elif what == "shape":
        arrays[name] = np.zeros((*x.shape, 2), x.dtype)
    elif what == "type":
        arrays[name] = x.astype(rng.choice((bool, np.complex64)))
    elif what == "name":
        arrays[f"{name}.other"] = x
    if what != "nan":
        kept = name if name in arrays else what
        save_arrays(path, arrays, state)
        return f"{name}: {kept and what}"
    save_arrays(path, arrays, state)
    return f"{name}: not finite"
