"""Your progress as a small file that you can hand in.

    from tinyrmc import course
    course.hand_in("Anna")                 writes Anna.progress.json

    tinyrmc progress --out Anna.progress.json        the same from a shell
    tinyrmc progress --verify Anna.progress.json     whether it is as it was written
    tinyrmc grade FOLDER                             judges the answers in such files

The file holds the exercises that you solved, and the text of your answers. Its
*digest*, the SHA-256 of all the rest, shows that a file was cut short or edited by
hand. It proves no more: everybody can compute a digest, so somebody who means to
deceive writes a new one. What a teacher can trust is `tinyrmc grade`, which runs the
answers in the file.

A *signature* (HMAC-SHA256) needs a key, a file that only the teacher has. `tinyrmc
grade --key FILE --signed FOLDER` signs what it has itself found right. With the same
key, `tinyrmc progress --verify` then shows that a holder of the key wrote this file,
and that nobody has changed it since. Everybody who can verify can also sign: give the
key to nobody. And no signature shows who wrote an answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from ..backend.files import replace
from ..errors import UserError, counted, unknown, unwritable, why
from . import record

KIND = "tinyrmc progress"
ANSWER = re.compile(r"[a-z_]+\.\w+\.py")
LEAST = 16  # bytes of a key


class Refused(UserError):
    """A file of progress is not what it was when it was written, or none at all."""


def progress_of(learner: str) -> dict[str, Any]:
    """Your progress, as it is kept on this machine."""
    place = record.file()
    answers = {}
    for path in sorted((place.parent / "answers").glob("*.py")) if place else ():
        answers[path.name] = path.read_text(encoding="utf-8")
    return made(learner, record.read(), answers)


def made(
    learner: str, solved: Iterable[str], answers: Mapping[str, str]
) -> dict[str, Any]:
    """The contents of a file of progress, with its digest."""
    contents = {
        "kind": KIND,
        "version": __version__,
        "learner": learner,
        "solved": sorted(solved),
        "answers": dict(sorted(answers.items())),
    }
    return contents | {"digest": hashlib.sha256(_told(contents)).hexdigest()}


def signed(contents: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """The same contents with the signature of a key."""
    return {**contents, "signature": _signature(contents, key)}


def read(text: str, key: bytes | None = None) -> dict[str, Any]:
    """The contents of a file; Refused if its digest or the key's signature is wrong."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("it is cut short, or no file of progress") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise Refused("it is no file of progress")
    digest = hashlib.sha256(_told(found)).hexdigest()
    if not _equal(found.get("digest"), digest):
        raise Refused("it was changed after it was written: its digest does not fit")
    if key is not None and not _equal(found.get("signature"), _signature(found, key)):
        has = "is of another key" if "signature" in found else "is missing"
        raise Refused(f"its signature {has}")
    if says := unknown(found, {*made("", (), {}), "signature"}):
        raise Refused(f"it {says}")
    solved, answers = found.get("solved"), found.get("answers")
    if not isinstance(solved, list) or not isinstance(answers, dict):
        raise Refused("it is no file of progress of this version")
    return found


def answers_of(text: str) -> dict[str, str]:
    """The answers in a file of progress, module.exercise.py -> text."""
    answers = read(text)["answers"]
    return {
        name: each
        for name, each in answers.items()
        if ANSWER.fullmatch(name) and isinstance(each, str)
    }


def read_key(file: Path) -> bytes:
    """A key from its file; UserError says how to make one."""
    try:
        key = file.read_bytes().strip()
    except OSError as problem:
        raise UserError(f"the key {file} cannot be read: {why(problem)}") from None
    if len(key) < LEAST:
        raise UserError(
            f"the key {file} has {len(key)} bytes, fewer than {LEAST}; this makes one: "
            'python -c "import secrets; print(secrets.token_hex())"'
        )
    return key


def write(contents: Mapping[str, Any], file: Path) -> None:
    """Write a file of progress; UserError where it cannot be, or other things lie."""
    text = json.dumps(contents, indent=1, ensure_ascii=False) + "\n"
    try:
        if file.exists() and KIND.encode() not in file.read_bytes():
            raise UserError(f"{file} is no file of progress; choose another name")
        replace(file, text)
    except OSError as problem:
        raise UserError(unwritable(file, problem, "choose another place")) from None


def hand_in(name: str) -> None:
    """Write NAME.progress.json here: your progress and answers, to hand in."""
    file = Path(re.sub(r"[^-.+@\w ]", "_", name) + ".progress.json")
    contents = progress_of(name)
    write(contents, file)
    solved = counted(len(contents["solved"]), "solved exercise")
    print(f"{file}: {solved}, {counted(len(contents['answers']), 'answer')}")


def _told(contents: Mapping[str, Any]) -> bytes:
    """The text that digest and signature are of: all but these two."""
    rest = {k: v for k, v in contents.items() if k not in ("digest", "signature")}
    return json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()


def _signature(contents: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, _told(contents), hashlib.sha256).hexdigest()


def _equal(found: Any, right: str) -> bool:
    return isinstance(found, str) and hmac.compare_digest(
        found.encode(), right.encode()
    )
