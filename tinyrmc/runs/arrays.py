"""Named arrays in an npz file with a checksum, never pickled."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from ..config import json_text
from ..errors import RunError
from .files import explained, write_whole

FORMAT = "tinyrmc arrays"


VERSION = 1


HEADER, DIGEST = (
    "tinyrmc.json",
    "sha256",
)  # arrays are members called <name>.npy, so these two names stay free


ZIP_MAGIC = b"PK\x03\x04"


# --- Files of named arrays ------------------------------------------------------------


def save_arrays(path, arrays, meta, previous=None):
    """Write named arrays and a JSON `meta` to the npz file `path`, whole or not at all.

    arrays: {name: array of numbers or booleans, any shape}; names are printable text
        without backslashes.
    meta: anything JSON can say, also NaN and infinities (tuples come back as lists,
        NumPy scalars as Python numbers).
    previous: where a file that already stands at `path` is moved to; without it, that
        file is replaced.

    Equal content in equal order gives equal bytes. Costs one copy of the arrays in
    memory. Raises RunError for an array that would need pickle, an unusable name, and
    anything the disk refuses.
    """
    write_whole(Path(path), _pack(arrays, meta), previous)


def load_arrays(path, if_damaged="make or fetch it again"):
    """Read what `save_arrays` wrote: ({name: array}, meta), in the order it was saved.

    Raises RunError when the file is missing, unreadable, cut short, changed by as
    little as one bit, of foreign origin, or of a newer format; `if_damaged` is the
    remedy named when the content cannot be trusted.
    """
    with explained(f"read {path}", "give the path of a run directory or an npz file"):
        data = Path(path).read_bytes()
    return unpack(data, path, if_damaged)


def under(prefix, arrays):
    """The arrays whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _pack(arrays, meta):
    members = {
        HEADER: json_text({"format": FORMAT, "version": VERSION, "meta": meta}).encode()
    }
    for name, array in arrays.items():
        if not (name and name.isprintable() and "\\" not in name):
            raise RunError(
                f"cannot save an array named {name!r}; use printable text without "
                "backslashes"
            )
        array = np.asarray(array, order="C")
        if array.dtype.kind not in "biufc":
            raise RunError(
                f"cannot save array {name!r} of dtype {array.dtype}: only numbers "
                "and booleans are stored, never "
                "pickled objects; put other things into the JSON state"
            )
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        members[f"{name}.npy"] = buffer.getvalue()
    members[DIGEST] = _digest(members).encode()

    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(
                zipfile.ZipInfo(name), content
            )  # a ZipInfo made from a name alone is dated 1980-01-01
    return archive.getvalue()


def unpack(data, path, if_damaged):
    try:
        file = zipfile.ZipFile(io.BytesIO(data))
    # bytes that no longer make sense end in almost any exception, here and below
    except Exception as error:
        state = (
            "cut short"
            if ZIP_MAGIC.startswith(data[: len(ZIP_MAGIC)])
            else "not an npz file"
        )
        raise RunError(
            f"{path} is {state} ({len(data):,} bytes); {if_damaged}"
        ) from error

    damaged = RunError(f"{path} is damaged (its checksum does not match); {if_damaged}")
    try:
        members = {
            info.filename: file.read(info) for info in file.infolist()
        }  # checks each member's CRC
    except Exception as error:
        raise damaged from error

    foreign = RunError(
        f"{path} is an npz file, but not one of tinyrmc's; give a checkpoint or a "
        "weights file"
    )
    try:
        header = json.loads(members[HEADER])
        if header["format"] != FORMAT:
            raise foreign
        version = header["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise foreign from error
    if version != VERSION:
        raise RunError(
            f"{path} has format version {version!r}, this tinyrmc reads {VERSION}; "
            "upgrade tinyrmc"
        )

    digest = members.pop(DIGEST, b"")
    if digest != _digest(members).encode():
        raise damaged
    del members[HEADER]
    try:
        arrays = {
            name.removesuffix(".npy"): np.load(io.BytesIO(content), allow_pickle=False)
            for name, content in members.items()
        }
    except (
        Exception
    ) as error:  # a digest that is right over content that is not: made so on purpose
        raise foreign from error
    return arrays, header["meta"]


def _digest(members):
    """sha256 over the names and bytes of all members; an npy member's bytes begin with
    its dtype and shape.
    """
    sha256 = hashlib.sha256()
    for name, content in members.items():
        sha256.update(f"{name}\n{len(content)}\n".encode())
        sha256.update(content)
    return sha256.hexdigest()
