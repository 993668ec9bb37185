"""Texts as files, or as members of an archive that is never unpacked.

A member is found by its name and read straight out of the archive, so nothing that an
archive says is ever written anywhere. What is hidden is no text, nor what editors and
systems leave beside texts: `is_data` says so for files, folders and members alike.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import fnmatch
import functools
import gzip
import os
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
WEB_PAGE = re.compile(rb"(\s*)(<(?:!doctype|html|head|body|title|\?xml)\b)", re.I)
GZIP = b"\x1f\x8b"
LFS = b"version https://git-lfs.github.com/spec/"
# how files begin that are not text, whatever their names say; and what stands in them a
# little later
KINDS = {
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "a zip archive",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ\x00": "an xz file",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\x04\x22\x4d\x18": "an LZ4 file",
    b"\x1f\x9d": "a compress (.Z) file",
    b"%PDF-": "a PDF",
    b"{\\rtf": "an RTF document",
    b"PAR1": "a Parquet file",
    b"\x93NUMPY": "a NumPy file",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3\x00": "an SQLite file",
    b"GIF8": "a picture (GIF)",
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"AT&TFORM": "a DjVu document",
    b"%!PS": "a PostScript document",
    b"\xd0\xcf\x11\xe0": "a document of an old Microsoft Office",
    b"ITSF": "a compiled help file (CHM)",
    b"ID3": "a recording (MP3)",
    b"OggS": "a recording (Ogg)",
    b"bplist": "a property list",
    b"II*\x00": "a picture (TIFF)",
    b"MM\x00*": "a picture (TIFF)",
    b"\x00asm": "a WebAssembly file",
    b"\xca\xfe\xba\xbe": "a Java class",
    b"\x7fELF": "a program (ELF)",
    b"\x5d\x00\x00": "an LZMA file",
    b"\x00\x05\x16\x07": "a Mac's notes on another file (AppleDouble)",
}
LATER = {
    (257, b"ustar"): "a tar archive",
    (30, b"mimetypeapplication/epub+zip"): "an EPUB book",
    (30, b"mimetypeapplication/vnd.oasis"): "an OpenDocument file",
    (30, b"[Content_Types].xml"): "an Office document",
    (60, b"BOOKMOBI"): "a Kindle book (MOBI)",
    (60, b"TEXtREAd"): "a Palm book",
    (4, b"ftyp"): "a recording or film (MP4)",
}
# names of what is hidden, and of what systems, editors and downloads leave behind
LEFT = re.compile(
    r"""\.(?!\.?$).* | [~#$].* | .*~ | __MACOSX | lost\+found | @eaDir
    | System\ Volume\ Information | .*\.sb-\w+(?:-\w+)?
    | .*\.(?:bak|backup|orig|old|save|sw[opx]|te?mp|part|partial|crdownload|download)
    """,
    re.I | re.X | re.S,
)
# what they add to the name of a copy, in some languages
_COPIED = (
    "copy|kop(?:i[aeo]?|ya)|copi[ea]|c\u00f3pia|m\u00e1solata?|"
    "\u043a\u043e\u043f[\u0438\u0456]\u044f|\u7684?\u526f\u672c|"
    "\u306e?\u30b3\u30d4\u30fc|(?:\ubcf5)?\uc0ac\ubcf8"
)
COPY = re.compile(
    rf"""(?:{_COPIED}) (?:\ \(\d+\))? \ (?:(?:of|von|van|de|di|a[fv])\ )? (?P<of>.+)
    | (?P<name>.+?) (?:
        [ _.-]* [(\[] \d+ [)\]]
      | [ _.\u2013\u2014-]+ \(? (?:(?:another|\d+(?:st|nd|rd|th))\ )?
        (?:{_COPIED}) [ _-]?\d* \)?
      | [\u7684\u306e] (?:\u526f\u672c|\u30b3\u30d4\u30fc)
      | [ _.-]+ (?:checkpoint|bak|backup|orig|original|old|save)
      | [ _.-]* [(\[] [^()\[\]]*conflict[^()\[\]]* [)\]]
      | [ _.-]+ (?:sync-)?conflict[\w-]*
    )""",
    re.I | re.X,
)


def is_data(path: str | PurePosixPath) -> bool:
    """Whether no part of a path, such as that of an archive's member, is hidden or a
    leftover.
    """
    return not any(map(LEFT.fullmatch, PurePosixPath(path).parts))


def original(stem: str) -> str:
    """The name, without its ending, of what a file is a copy of: 98-0 of 98-0 copy (2);
    another name as it is.
    """
    while copy := COPY.fullmatch(stem):
        stem = copy["of"] or copy["name"]
    return stem


def data_files(folder: Path) -> Iterator[Path]:
    """The files below a folder that are data, by name. Links to folders are followed,
    after what lies there itself, and each folder is entered once.

    CorpusError for a folder that cannot be read.
    """

    def refuse(error: OSError) -> None:
        raise CorpusError(
            f"cannot read {error.filename}: {why(error)}; make it readable, or take it "
            "out"
        ) from error

    tops = [folder]
    seen = set()
    for top in tops:  # grows
        for place, folders, names in os.walk(top, onerror=refuse):
            if (real := os.path.realpath(place)) in seen:
                folders.clear()
                continue
            seen.add(real)
            folders[:] = sorted(filter(is_data, folders))
            paths = [Path(place, name) for name in folders]
            tops += [path for path in paths if path.is_symlink()]
            files = (Path(place, name) for name in sorted(filter(is_data, names)))
            yield from (path for path in files if path.is_file())


def named_like(pattern: str, folder: Path) -> list[Path]:
    """The files of a folder with a name like this, in small letters or capitals: the
    plainest name first. CorpusError if the folder cannot be read.
    """
    if not folder.is_dir():
        return []
    with readable(folder):
        inside = [path for path in folder.iterdir() if is_data(path.name)]
    like = pattern.lower()
    found = [path for path in inside if fnmatch.fnmatchcase(path.name.lower(), like)]
    return sorted(filter(Path.is_file, found), key=lambda path: (len(path.name), path))


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
                    if f"/{name}".lower().endswith(f"/{self.member}".lower()):
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
    """(path, how to open it) of each file of data in a .zip, a .tar.gz or a folder."""
    if path.is_dir():
        for file in sorted(file for file in path.iterdir() if file.is_file()):
            if is_data(file.name):
                yield f"{path.name}/{file.name}", functools.partial(file.open, "rb")
        return
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir() and is_data(info.filename):
                    yield info.filename, functools.partial(archive.open, info)
        return
    with tarfile.open(path, "r:gz") as tar:
        for member in tar:
            if member.isfile() and is_data(member.name):  # no links, no devices
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
        kinds = [kind for (at, x), kind in LATER.items() if data.startswith(x, at)]
        kinds += [kind for start, kind in KINDS.items() if data.startswith(start)]
        kinds += ["a picture (BMP)"] * bool(re.match(rb"BM.{4}\0{4}", data, re.S))
        kinds += ["a RIFF file"] * bool(
            re.match(rb"RIFF.{4}(WAVE|WEBP|AVI )", data, re.S)
        )
        if data.startswith(LFS):
            raise CorpusError(
                f"{name} is no text but a pointer to one, of Git LFS; get the file "
                "itself with: git lfs pull"
            )
        if kinds:
            raise CorpusError(
                f"{name} is {kinds[0]} and no text; unpack or convert it, or take it "
                "out"
            )
        if data.startswith(codecs.BOM_UTF8):
            offset = len(codecs.BOM_UTF8)
            data = data[offset:]
        if page := WEB_PAGE.match(data):
            line = page[1].count(b"\n") + 1
            raise CorpusError(
                f"{name} line {line} begins a web page ({page[2].decode()}), as failed "
                "downloads leave it; fetch it again, or its plain text"
            )
    if (zero := data.find(0)) >= 0:
        near = data[zero & ~3 :][:64]
        share = near.count(0) / len(near)  # of Latin letters, 1 / 2 or 3 / 4
        says = "as no text has; fetch it again"
        if 0.3 < share < 0.9:
            kind = "UTF-32" if share > 0.7 else "UTF-16"
            says = f"as {kind} has; convert it to UTF-8, or fetch it again"
        raise CorpusError(f"{name} has a zero at byte {offset + zero:,}, {says}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{name} is not UTF-8 at byte {offset + error.start:,} "
            f"(0x{data[error.start]:02x}); unpack it, convert it, or fetch it again"
        ) from error
