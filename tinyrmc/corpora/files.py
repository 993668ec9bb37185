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
import hashlib
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import why
from .corpus import CorpusError, DamagedCorpus

BLOCK = 1 << 18  # bytes read at once: their words fit into a processor's cache
LONGEST_WORD = 1 << 24  # bytes without a space: no text has as many
Entry = tuple[str, int, Callable[[], Any]]

# what servers send in place of a file
WEB_PAGE = re.compile(rb"(\s*)(<(?:!doctype|html|head|\?xml)\b)", re.I)
NEWLINE = b"\n"

LARGEST = 2 << 30  # declared bytes that `entries` accepts


@dataclasses.dataclass(frozen=True)
class Text:
    """A file or, with `members`, an archive's member whose path ends in one of them."""

    path: Path
    members: tuple[str, ...] = ()

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[IO[bytes], str, int]]:
        """(its bytes as a stream, its name for messages, its size in bytes).

        CorpusError for a file that cannot be read, an archive that is damaged or cut
        short, a member that is not there, and what `entries` refuses.
        """
        with readable(self.path):
            if not self.members:
                with open(self.path, "rb") as file:
                    yield file, str(self.path), self.path.stat().st_size
                return
            with contextlib.closing(entries(self.path)) as members:
                for name, size, opened in members:
                    if f"/{name}".endswith(tuple(f"/{m}" for m in self.members)):
                        with opened() as file:
                            yield file, f"{self.path}:{name}", size
                        return
        raise CorpusError(
            f"{self.path} has no {self.members[0]} in it; fetch the official archive"
        )


def entries(path: Path) -> Generator[Entry, None, None]:
    """(path, declared size, how to open it) of each file in a .zip or a .tar.gz.

    CorpusError where more than LARGEST bytes are declared: for a member of a zip, or
    for all members of a tar up to this one, which must be decompressed to get there.
    """
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    _refuse_a_bomb(path, info.filename, info.file_size)
                    yield (
                        _plain(info.filename),
                        info.file_size,
                        functools.partial(archive.open, info),
                    )
        return
    total = 0
    with tarfile.open(path, "r:gz") as tar:
        for member in tar:
            total += member.size
            _refuse_a_bomb(path, member.name, total)
            if member.isfile():  # no links, no devices
                yield (
                    _plain(member.name),
                    member.size,
                    functools.partial(tar.extractfile, member),
                )


def _plain(name: str) -> str:
    """A member's path without a leading ./"""
    return str(PurePosixPath(name))


def _refuse_a_bomb(path: Path, member: str, size: int) -> None:
    if size > LARGEST:
        raise CorpusError(
            f"{path} declares {size:,} bytes of text at {member!r}, more than any "
            "corpus has; it is not an archive of one: delete it"
        )


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
        raise DamagedCorpus(
            f"{path} is damaged or cut short ({error}); delete it and fetch it again"
        ) from error
    except OSError as error:
        if error.filename is None or Path(error.filename) != path:
            raise  # not about this file
        raise CorpusError(
            f"cannot read {path}: {why(error)}; give a file that you may read"
        ) from error


def read_whole(file: IO[bytes], name: str, largest: int) -> bytes:
    """All bytes of a file; CorpusError if there are more than `largest`."""
    data = file.read(largest + 1)
    if len(data) > largest:
        raise CorpusError(
            f"{name} has more than {largest:,} bytes, which no file of this corpus "
            "has; delete it"
        )
    return data


def strings(file: IO[bytes], name: str, digests: tuple[Any, ...] = ()) -> Iterator[str]:
    """A UTF-8 text in pieces of BLOCK bytes or so that end at a space or a line end.

    digests: hashlib objects that are fed the bytes as they come

    CorpusError for bytes that are not UTF-8, with their offset.
    """
    rest, offset = b"", 0
    while block := file.read(BLOCK):
        for digest in digests:
            digest.update(block)
        end = max(block.rfind(b" "), block.rfind(b"\n")) + 1
        if end:
            yield decoded(rest + block[:end], name, offset)
            offset += len(rest) + end
            rest = b""
        rest += block[end:]
        if len(rest) > LONGEST_WORD:
            raise CorpusError(
                f"{name} has no space or line end for {LONGEST_WORD:,} bytes from byte "
                f"{offset:,}; it is not a text of words"
            )
    if rest:
        yield decoded(rest, name, offset)


def decoded(data: bytes, name: str, offset: int = 0) -> str:
    """UTF-8 as text, without a byte order mark. `offset` is where in the file it is.

    CorpusError for what is not UTF-8, and for a web page in place of a text.
    """
    if offset == 0:
        if data.startswith(codecs.BOM_UTF8):
            offset = len(codecs.BOM_UTF8)
            data = data[offset:]
        if page := WEB_PAGE.match(data):
            raise CorpusError(
                f"{name} line {page[1].count(NEWLINE) + 1} begins a web page "
                f"({page[2].decode()}), as failed downloads leave it; fetch it again"
            )
    if (zero := data.find(0)) >= 0:
        raise CorpusError(
            f"{name} has a zero at byte {offset + zero:,}, as UTF-16 has; convert it "
            "to UTF-8, or fetch it again"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        start = offset + error.start
        raise CorpusError(
            f"{name} is not UTF-8 at byte {start:,} (0x{data[error.start]:02x}); "
            "convert it, or fetch it again"
        ) from error


def digest_of(path: Path, kind: str) -> str:
    """The hash of a file, in hexadecimal digits."""
    with readable(path), open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
