"""Texts as files, or as members of an archive that is never unpacked.

A member is found by its name and read straight out of the archive, so nothing that an
archive says is ever written anywhere.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import functools
import gzip
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import why
from .corpus import CorpusError

BLOCK = 1 << 18  # bytes read at once: their words fit into a processor's cache

# what servers send in place of a file
WEB_PAGE = re.compile(rb"(\s*)(<(?:!doctype|html|head|\?xml)\b)", re.I)
GZIP = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True)
class Text:
    """A file or, with `member`, an archive's member whose path ends so."""

    path: Path
    member: str = ""

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[IO[bytes], str]]:
        """(its bytes as a stream, its name for messages); CorpusError if that fails."""
        with readable(self.path):
            if not self.member:
                with open(self.path, "rb") as file:
                    yield ungzipped(file), str(self.path)
                return
            with contextlib.closing(entries(self.path)) as members:
                for name, opened in members:
                    if f"/{name}".endswith(f"/{self.member}"):
                        with opened() as file:
                            yield ungzipped(file), f"{self.path}:{name}"
                        return
        raise CorpusError(
            f"{self.path} has no {self.member} in it; fetch the official archive"
        )


def ungzipped(file: IO[bytes]) -> IO[bytes]:
    """The file, unpacked if it is gzip, as some servers and tools leave it."""
    start = file.read(2)
    file.seek(0)
    if start != GZIP:
        return file
    inside = gzip.GzipFile(fileobj=file, mode="rb")
    return ungzipped(inside)  # type: ignore[arg-type]  # if packed twice, too


def entries(path: Path) -> Generator[tuple[str, Callable[[], Any]], None, None]:
    """(path, how to open it) of each file in a .zip, a .tar.gz or a folder."""
    if path.is_dir():
        for file in sorted(file for file in path.iterdir() if file.is_file()):
            yield f"{path.name}/{file.name}", functools.partial(file.open, "rb")
        return
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, functools.partial(archive.open, info)
        return
    with tarfile.open(path, "r:gz") as tar:
        for member in tar:
            if member.isfile():  # no links, no devices
                name = str(PurePosixPath(member.name))  # without a leading ./
                yield name, functools.partial(tar.extractfile, member)


DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a compression that zipfile does not know
)


@contextlib.contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turns what goes wrong while a file is read into a CorpusError that names it."""
    try:
        yield
    except DAMAGE as error:
        raise CorpusError(
            f"{path} is damaged or cut short ({error}); delete it and fetch it again"
        ) from error
    except OSError as error:
        if error.filename is None or Path(error.filename) != path:
            raise  # not about this file
        raise CorpusError(
            f"cannot read {path}: {why(error)}; give a file that you may read"
        ) from error


def strings(file: IO[bytes], name: str, digest: Any) -> Iterator[str]:
    r"""A UTF-8 text in pieces of BLOCK bytes or so that end at a space or a line end.

    digest: a hashlib object that is fed the bytes as they come
    """
    rest, offset = b"", 0
    while block := file.read(BLOCK):
        digest.update(block)
        # a \r at the very end may be half of a \r\n
        ends = block.rfind(b" "), block.rfind(b"\n"), block.rfind(b"\r", 0, -1)
        if end := max(ends) + 1:
            yield decoded(rest + block[:end], name, offset)
            offset += len(rest) + end
            rest = b""
        rest += block[end:]
    if rest:
        yield decoded(rest, name, offset)


def decoded(data: bytes, name: str, offset: int = 0) -> str:
    """UTF-8 as text, without a byte order mark. `offset` is where in the file it is.
    CorpusError for anything but UTF-8, and for a web page.
    """
    if offset == 0:
        if data.startswith(codecs.BOM_UTF8):
            offset = len(codecs.BOM_UTF8)
            data = data[offset:]
        if page := WEB_PAGE.match(data):
            line = page[1].count(b"\n") + 1
            raise CorpusError(
                f"{name} line {line} begins a web page ({page[2].decode()}), as failed "
                "downloads leave it; fetch it again"
            )
    if (zero := data.find(0)) >= 0:
        raise CorpusError(
            f"{name} has a zero at byte {offset + zero:,}, as UTF-16 has; convert it "
            "to UTF-8, or fetch it again"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{name} is not UTF-8 at byte {offset + error.start:,} "
            f"(0x{data[error.start]:02x}); unpack it, convert it, or fetch it again"
        ) from error
