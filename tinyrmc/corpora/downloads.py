"""Getting official archives. Only this module reaches for the network."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from ..errors import unwritable
from .corpus import CorpusError
from .finding import data_directory, remedy, require_known
from .known import CORPORA, Archive
from .stories import ARCHIVES

SECONDS = 30  # without a byte, until a server counts as gone


def download(name: str, data_dir: str | Path | None = None) -> Path:
    """Get the official archive of a corpus into the data directory; returns its path.

    It is written under another name, checked against the recorded checksum, and
    renamed. Addresses are tried in turn. CorpusError if none of them has it.
    """
    if name == "babi":
        archives = ARCHIVES["v1.2"]
    else:
        require_known(name)
        archives = CORPORA[name].archives
    if not archives:
        raise CorpusError(f"{name} has no archive; {remedy(name, data_dir)}")
    folder, failed = data_directory(data_dir), []
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    for archive in archives:
        for url in archive.urls:
            try:
                return _fetched(archive, url, folder)
            except _Failed as error:
                failed.append(f"{url} ({error})")
    for each in new:
        with contextlib.suppress(OSError):
            each.rmdir()
    raise CorpusError(
        f"cannot download {name} from {', nor from '.join(failed)}; try again, or "
        f"fetch {archives[0].file} by other means into {folder}"
    )


class _Failed(Exception):
    """One address did not have it."""


def _fetched(archive: Archive, url: str, folder: Path) -> Path:
    import pooch

    # a bar on a terminal alone
    bar = sys.stderr.isatty()
    get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=SECONDS)
    log = pooch.get_logger()
    level = log.level
    log.setLevel("WARNING")  # it says where a file goes; so do we
    try:
        return Path(pooch.retrieve(url, archive.hash, archive.file, folder, None, get))
    except OSError as error:
        if hasattr(error, "request"):  # from the library requests: the network failed
            raise _Failed(_reason(error)) from error
        advice = "free some space there, or give another --data-dir"
        path = folder / archive.file
        raise CorpusError(unwritable(path, error, advice)) from error
    except ValueError as error:  # how pooch reports another checksum
        raise _Failed("what came has another checksum") from error
    finally:
        log.setLevel(level)


def _reason(error: Exception) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"{response.status_code} {response.reason}"
    kinds = {"ConnectTimeout": "no answer", "ReadTimeout": "no answer"}
    kinds |= {"ChunkedEncodingError": "the connection was cut"}
    return kinds.get(type(error).__name__, "no connection")
