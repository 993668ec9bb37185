"""Faults of files: those of runs, sweeps and texts are damaged or forged.

Each is a function of a random generator and an empty folder, as faults.py takes them.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import forging
from trials import (
    TASKS,
    Ended,
    Verdict,
    came_to,
    contents,
    data_folder,
    judge,
    reference,
    run,
    with_run,
    words_of,
)

# --- Files of a run -------------------------------------------------------------------


def reading(task: str, path: str) -> list[list[str]]:
    """The commands that read a run, or a file of one."""
    found = [
        ["evaluate", path, "--json", "--metrics-only"],
        ["evaluate", path, "--export", "weights.npz", "--metrics-only"],
        ["report", path],
        ["plot", path],
        ["plot", "examinations", path],
    ]
    if task == "language_modeling":
        found.append(["generate", path, "the cat", "--words", "5"])
    if task in ("box_world", "mini_pacman"):
        found.append(["plot", "episode", path])
    return found


def _told(ended: Ended, folder: Path) -> tuple:
    """What a command has said and written, so far as it counts."""
    said = re.sub(r"\d+:\d\d(:\d\d)?", "", ended.out)
    weights = folder / "weights.npz"
    return said, weights.exists() and weights.read_bytes()


@functools.cache
def _unharmed(task: str, words: tuple[str, ...]) -> tuple:
    """What a command says of a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        with_run(task, "whole", Path(folder))
        return _told(run(words, Path(folder)), Path(folder))


def _harmed(
    rng: random.Random, folder: Path, harm: Callable[[Path], str], only: str | None
) -> Verdict:
    """A file of a run is harmed; then a command reads the run, or goes on with it.

    only: which of its files; None: any.
    """
    task, resume = rng.choice([*TASKS]), rng.random() < 0.35
    path = with_run(task, "half" if resume else "whole", folder)
    if only == "lock.json":
        left = '{"pid": 1, "host": "elsewhere", "since": "then"}'
        (path / only).write_text(left)
    files = sorted(p.name for p in path.iterdir() if p.suffix in (".json", ".jsonl"))
    name = only or rng.choice([*files, "checkpoint.npz", "checkpoint.npz"])
    said = f"{task}, {name}: {harm(path / name)}"
    before = contents(folder)
    words = rng.choice(reading(task, "run"))
    if resume:
        words = ["train", "--resume", "run"]
    ended = run(words, folder)
    if resume:
        same = came_to(reference(task)[0], ended, path)
    else:
        same = not ended.code and _told(ended, folder) == _unharmed(task, (*words,))
    after = {path: x for path, x in contents(folder).items() if path in before}
    outcome, why = judge(ended, same, unchanged=after == before)
    return outcome, f"{said}; {' '.join(words)[:40]}: {why}"


def damaged(rng: random.Random, folder: Path) -> Verdict:
    """A file of a run is damaged, or is no file."""
    damage = rng.choice(forging.DAMAGES)
    only = "checkpoint.npz" if damage is forging.flip else None
    return _harmed(rng, folder, lambda path: damage(path, rng) or damage.__name__, only)


FORGERIES: list[tuple[Callable[..., str], str]] = [
    (forging.forge_json, "config.json"),
    (forging.forge_json, "environment.json"),
    (forging.forge_json, "metrics.jsonl"),
    (forging.forge_json, "lock.json"),
    (forging.forge_state, "checkpoint.npz"),
    (forging.forge_both, "checkpoint.npz"),
    (forging.forge_arrays, "checkpoint.npz"),
]


def forged(rng: random.Random, folder: Path) -> Verdict:
    """A file of a run holds a value of another type, with a checksum that is right."""
    forge, name = rng.choice(FORGERIES)
    return _harmed(rng, folder, lambda path: forge(path, rng), name)


# --- Files of a sweep, and texts ------------------------------------------------------


def _any_damage(path: Path, rng: random.Random) -> str:
    """Harm a file in a way that can be noticed without a checksum."""
    if path.suffix in (".json", ".jsonl") and rng.random() < 0.6:
        return forging.forge_json(path, rng)
    damage = rng.choice([d for d in forging.DAMAGES if d is not forging.flip])
    damage(path, rng)
    return damage.__name__


def sweeps(rng: random.Random, folder: Path) -> Verdict:
    """A file of a sweep, or of one of its runs, is damaged or forged."""
    path = Path(shutil.copytree(data_folder() / "sweep", folder / "sweep"))
    files = [p for p in sorted(path.rglob("*")) if p.is_file() and p.suffix != ".png"]
    file = rng.choice(files)
    how = _any_damage(file, rng)
    commands: Sequence[list[str]] = (
        ["sweep", "--show"], ["sweep", "--resume"], ["report"], ["plot"]
    )  # fmt: skip
    words = [*rng.choice(commands), "sweep"]
    ended = run(words, folder)
    if ended.code == 1 and words[0] == "sweep":
        ended = ended._replace(code=0)  # it came to its end, and runs of it failed
    outcome, why = judge(ended, same=True)
    return outcome, f"{file.relative_to(folder)}: {how}; {' '.join(words)}: {why}"


def texts(rng: random.Random, folder: Path) -> Verdict:
    """A text's file is no file any more, or the integers made from it are damaged."""
    path = folder / "texts"
    path.mkdir()
    for source in data_folder().glob("ptb.*"):
        shutil.copy2(source, path)
    where = {"TINYRMC_DATA": str(path), "TINYRMC_CACHE": str(folder / "cache")}
    here = functools.partial(os.environ.update, where)
    ended = run(["data", "ptb"], folder, here)
    assert ended.code == 0, ended.err
    kept = rng.random() < 0.7  # a text that says something else is another text
    files = folder.glob("cache/texts/*/*") if kept else path.glob("ptb.*")
    file = rng.choice(sorted(files))
    damage = rng.choice(forging.DAMAGES if kept else forging.NO_FILES)
    damage(file, rng)
    train = [*words_of("language_modeling"), "--run", "run"]
    for words in rng.sample((["data"], ["data", "ptb"], train), 3):
        ended = run(words, folder, here)
        same = words != train
        if words == train and kept:
            same = came_to(reference("language_modeling")[0], ended, folder / "run")
        outcome, why = judge(ended, same)
        if outcome in ("silent", "traceback"):
            break
    return outcome, f"{file.name}: {damage.__name__}; {' '.join(words)[:40]}: {why}"
