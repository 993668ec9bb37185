"""Where a corpus lies: its files, or an archive of it, below the data directory."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from .corpus import PARTS, MissingCorpus
from .files import Text
from .known import CORPORA, Known


def data_directory(data_dir: str | Path | None = None) -> Path:
    """`data_dir`, else $TINYRMC_DATA, else tinyrmc's folder among the user's caches."""
    chosen = data_dir or os.environ.get("TINYRMC_DATA")
    if chosen:
        return Path(chosen)
    import pooch

    return Path(pooch.os_cache("tinyrmc"))


@dataclasses.dataclass(frozen=True)
class Found:
    """The texts of a corpus by part, and the files on disk that they come from."""

    texts: dict[str, Text]

    @property
    def paths(self) -> list[Path]:
        """The files on disk, each once."""
        return [*dict.fromkeys(text.path for text in self.texts.values())]


def find(name: str, data_dir: str | Path | None) -> Found:
    """The files of a corpus, or else an archive of it. MissingCorpus without either."""
    known, folder = CORPORA[name], data_directory(data_dir)
    partial = None
    for place in _folders(known, folder):
        found = _in_folder(known, place)
        if len(found) == len(known.files):
            return Found(found)
        if found and partial is None:
            partial = place, [part for part in PARTS if part not in found]
    for root in (folder, folder / "data"):
        for pattern in known.archives:
            for path in sorted(root.glob(pattern)):
                return Found(_in_archive(known, path))
    if partial is None:
        raise MissingCorpus(f"{name} is not in {folder}; {how_to_get(name, data_dir)}")
    place, parts = partial
    raise MissingCorpus(
        f"{name}: {place} has no {known.files[parts[0]][0]}, the {parts[0]} text; "
        f"{how_to_get(name, data_dir)}"
    )


def _folders(known: Known, data_dir: Path) -> list[Path]:
    """Where unpacked files may be. `data_dir` itself may be such a folder."""
    inside = [
        root / folder for root in (data_dir, data_dir / "data")
        for folder in known.folders
    ]  # fmt: skip
    ends = {folder.split("/")[-1] for folder in known.folders}
    itself = [data_dir] if data_dir.absolute().name in ends else []
    return itself + inside


def _in_folder(known: Known, place: Path) -> dict[str, Text]:
    found = {}
    for part, names in known.files.items():
        for name in names:
            if (place / name).is_file():
                found[part] = Text(place / name)
                break
    return found


def _in_archive(known: Known, path: Path) -> dict[str, Text]:
    return {
        part: Text(
            path,
            tuple(f"{folder}/{name}" for folder in known.folders for name in names),
        )
        for part, names in known.files.items()
    }


def how_to_get(name: str, data_dir: str | Path | None) -> str:
    """The command that gets a corpus."""
    folder = "" if data_dir is None else f" --data-dir {data_dir}"
    return f"python -m tinyrmc.data {name}{folder} gets it"
