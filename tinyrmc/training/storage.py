"""Files that are written whole or not at all, read only if they are regular, and
checked for what they should say; and the error that tells why one cannot be used.

JSON, and named arrays in an npz file, which `numpy.load` opens; never pickled.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import secrets
import typing
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from ..config import json_text, overflows, shown
from ..errors import RunError, why

FORMAT, VERSION = "tinyrmc arrays", 1

# Members of the file besides the arrays: format, version and the caller's `meta`; the
# digest of all the others. Arrays are called <name>.npy, so these two names stay free.
HEADER, DIGEST = "tinyrmc.json", "sha256"

Arrays = dict[str, np.ndarray]
Parts = list[bytes | memoryview]  # the bytes of a member, one part after the other


@contextlib.contextmanager
def explained(action: str, remedy: str) -> Iterator[None]:
    """An OSError of the body as a RunError: "cannot <action>: ...; <remedy>"."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot {action}: {why(error)}; {remedy}") from error


# --- Reading --------------------------------------------------------------------------


def opened(path: str | Path) -> BinaryIO:
    """A regular file, open for reading.

    OSError for anything else: a pipe or a device might never end.
    """
    path = os.fspath(path)  # no number of an open file
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(path, "rb")


def read_whole(path: str | Path) -> bytes:
    """The bytes of a regular file. OSError as from `opened`."""
    with opened(path) as file:
        return file.read()


def from_json(text: bytes | str) -> Any:
    """The value of a JSON text. ValueError for other text, or one nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# --- Checking what a file says --------------------------------------------------------


class Count(int):
    """The kind of whole numbers that are not negative."""


def _is_of(value: Any, kind: Any) -> bool:
    if kind is Count:
        return type(value) is int and value >= 0 and not overflows(value)
    if kind is float:
        return type(value) in (int, float) and not overflows(value)
    if typing.get_origin(kind) is list:
        (of,) = typing.get_args(kind)
        return isinstance(value, list) and all(_is_of(each, of) for each in value)
    return isinstance(value, kind)


def misfit(
    value: Any, kinds: Mapping[str, Any], needed: Sequence[str] = ()
) -> str | None:
    """The fault of a value from JSON that should be an object, in words; None if
    nothing is.

    kinds: {key: `Count`, float, str, bool, dict, list, list[one of these], None or a
        union}; whole numbers pass as float. Other keys may say anything.
    needed: the keys that must be there.
    """
    if not isinstance(value, dict):
        return f"it cannot be {shown(value)}"
    for name in needed:
        if name not in value:
            return f"it has no {name}"
    for name, kind in kinds.items():
        if name in value:
            options = typing.get_args(kind) if isinstance(kind, UnionType) else [kind]
            if not any(_is_of(value[name], each) for each in options):
                return f"{name} cannot be {shown(value[name])}"
    return None


# --- Writing --------------------------------------------------------------------------


def as_json(path: str | Path, value: Any, indent: int | None = None) -> str:
    """The JSON text of what `path` is to hold; RunError for what JSON cannot say."""
    try:
        return json_text(value, indent)
    except (TypeError, ValueError, RecursionError) as error:
        says = " ".join(str(error).split())  # an array in it has lines of its own
        raise RunError(f"cannot write {path}: {says}") from error


@contextlib.contextmanager
def written_whole(path: Path, previous: Path | None = None) -> Iterator[BinaryIO]:
    """A file beside `path`, open for writing; forced to disk and renamed once the body
    is done: the one way to replace a file of a run.

    previous: where a file that stands at `path` is moved to; without it, that file is
        replaced.

    RunError for what the disk refuses. Nothing is replaced if the body fails.
    """
    # A name of its own: other threads and processes may write the same file now.
    beside = path.with_name(f"{path.name[:100]}.{secrets.token_hex(4)}.partial")
    remedy = "free some space there or make it writable"
    remedy += " (what was saved earlier is untouched)"
    if not path.parent.is_dir():
        remedy = f"make the folder {path.parent} first"
    try:
        with explained(f"write {path}", remedy):
            with open(beside, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if previous is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, previous)
            os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):  # gone already when all went well
            beside.unlink()


# --- Named arrays ---------------------------------------------------------------------


def save_arrays(
    path: str | Path, arrays: Mapping[str, Any], meta: Any, previous: Path | None = None
) -> None:
    """Write named arrays and a JSON `meta` to the npz file `path`, whole or not at all.

    arrays: {name: array of numbers or booleans, any shape}; names are printable text
        without backslashes.
    meta: anything JSON can say, also NaN and infinities (tuples come back as lists,
        NumPy scalars as Python numbers).
    previous: as for `written_whole`.

    Equal content in equal order gives equal bytes. Only arrays that do not lie in C
    order are copied in memory. Raises RunError for an array that would need pickle, an
    unusable name, a `meta` that is not JSON, and anything the disk refuses.
    """
    with written_whole(Path(path), previous) as file:
        header = {"format": FORMAT, "version": VERSION, "meta": meta}
        members: dict[str, Parts] = {HEADER: [as_json(path, header).encode()]}
        members |= {f"{name}.npy": _npy(name, array) for name, array in arrays.items()}
        members[DIGEST] = [_digest(members).encode()]
        with zipfile.ZipFile(file, "w") as archive:
            for name, parts in members.items():
                # A ZipInfo made from a name alone is dated 1980-01-01.
                about = zipfile.ZipInfo(name)
                about.file_size = sum(map(len, parts))
                with archive.open(about, "w") as member:
                    for part in parts:
                        member.write(part)


def _npy(name: str, array: Any) -> Parts:
    """An array as the content of a .npy file, whose second part is the array's own."""
    if not (isinstance(name, str) and name and name.isprintable() and "\\" not in name):
        raise RunError(
            f"cannot save an array named {name!r}; use printable text without "
            "backslashes"
        )
    array = np.asarray(array, order="C")
    if array.dtype.kind not in "biufc":
        raise RunError(
            f"cannot save array {name!r} of dtype {array.dtype}: only numbers and "
            "booleans are stored, never pickled objects; put other things into the "
            "JSON state"
        )
    about, header = npy.header_data_from_array_1_0(array), io.BytesIO()
    npy.write_array_header_1_0(header, about)
    return [header.getvalue(), array.reshape(-1).view(np.uint8).data]


def _digest(members: Mapping[str, Parts]) -> str:
    """sha256 over the names and bytes of all members; an npy member's bytes begin with
    its dtype and shape.
    """
    sha256 = hashlib.sha256()
    for name, parts in members.items():
        sha256.update(f"{name}\n{sum(map(len, parts))}\n".encode())
        for part in parts:
            sha256.update(part)
    return sha256.hexdigest()


def load_arrays(path: str | Path) -> tuple[Arrays, Any]:
    """Read what `save_arrays` wrote: ({name: array}, meta), in the order it was saved.

    Raises RunError when the file is missing, unreadable, cut short, changed by as
    little as one bit, of foreign origin, or of a newer format.
    """
    with explained(f"read {path}", "give the path of a run directory or an npz file"):
        with opened(path) as file:
            return unpack(file, path, "make or fetch it again")


def unpack(
    file: BinaryIO, path: str | Path, if_damaged: str, meta_alone: bool = False
) -> tuple[Arrays, Any]:
    """({name: array}, meta) from an open file; raises as `load_arrays` does.

    if_damaged: the remedy to name when the content cannot be trusted.
    meta_alone: leave the arrays, and with them the checksum over all, unread.
    """
    try:
        with zipfile.ZipFile(file) as archive:  # which checks a CRC of each member
            names = [n for n in archive.namelist() if n == HEADER or not meta_alone]
            members = {name: archive.read(name) for name in names}
    # bytes that no longer make sense can end in almost any exception
    except Exception as error:
        size = file.seek(0, io.SEEK_END)
        raise RunError(
            f"{path} is damaged, cut short or not an npz file ({size:,} bytes); "
            f"{if_damaged}"
        ) from error
    foreign = RunError(
        f"{path} is an npz file, but not one of tinyrmc's; give a checkpoint or a "
        "weights file"
    )
    try:
        header = from_json(members[HEADER])
        ours, version, meta = header["format"], header["version"], header.get("meta")
    except (KeyError, TypeError, ValueError) as error:
        raise foreign from error
    if ours != FORMAT:
        raise foreign
    if version != VERSION:
        raise RunError(
            f"{path} has format version {version!r}, this tinyrmc reads {VERSION}; "
            "upgrade tinyrmc"
        )
    if meta_alone:
        return {}, meta
    digest = members.pop(DIGEST, b"")
    if digest != _digest({name: [x] for name, x in members.items()}).encode():
        raise RunError(f"{path} is damaged (its checksum does not match); {if_damaged}")
    del members[HEADER]
    try:
        arrays = {
            name.removesuffix(".npy"): np.load(
                io.BytesIO(members.pop(name)), allow_pickle=False
            )
            for name in [*members]
        }
    # The digest is right and the content is not: somebody made it so on purpose.
    except Exception as error:
        raise foreign from error
    return arrays, meta


def under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
