"""Flags: what a command line says about the fields of a configuration.

`add_flags` gives an argparse parser a flag for every field (see `config.py`), and
`from_flags` makes the configuration out of what was parsed. A reader stands between
them: it knows how many words a type takes, and what they mean.
"""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .config import descriptions, flag_of, words_of_value
from .errors import nearest


class Refused(ValueError):
    """The words after a flag are not what it takes."""


class Reader(typing.NamedTuple):
    """How a flag's words become a value.

    takes: what the flag wants, for its help and for errors.
    width: how many words that is; None for any number.
    read: the value of the words. Raises `Refused`.
    """

    takes: str
    width: int | None
    read: Callable[[list[str]], Any]

    def value_of(self, words: list[str]) -> Any:
        """The value, if there are as many words as there should be."""
        if self.width is not None and len(words) != self.width:
            got = repr(" ".join(words)) if words else "nothing"
            raise Refused(f"takes {self.takes}, not {got}")
        return self.read(words)


SCALARS = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


def reader_of(hint: Any) -> Reader:
    """The reader of a field's type. TypeError for a type that cannot be a flag."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in SCALARS:
        return _scalar(hint)
    if hint is bool:
        return _choice((True, False))
    if origin is typing.Literal:
        return _choice(inner)
    if origin in (typing.Union, types.UnionType) and inner[1:] == (types.NoneType,):
        return _optional(reader_of(inner[0]))
    if origin is tuple and inner:
        repeated = inner[-1] is Ellipsis
        parts = [reader_of(part) for part in inner[: 1 if repeated else None]]
        if all(part.width for part in parts):  # else where would one end?
            return _repeated(parts[0]) if repeated else _in_a_row(parts)
    raise TypeError(
        f"{getattr(hint, '__name__', hint) if origin is None else hint} cannot be a "
        "flag; use int, float, str, bool, Literal, tuples of these, or X | None"
    )


def _scalar(kind: Any) -> Reader:
    def read(words):
        try:
            return kind(words[0])
        except ValueError:
            raise Refused(f"takes {SCALARS[kind]}, not {words[0]!r}") from None

    return Reader(SCALARS[kind], 1, read)


def _choice(values: tuple) -> Reader:
    known = {str(value): value for value in values}

    def read(words):
        if words[0] in known:
            return known[words[0]]
        near = nearest(words[0], known)
        raise Refused(f"is one of {', '.join(known)}, not {words[0]!r}{near}")

    return Reader("{" + ",".join(known) + "}", 1, read)


def _optional(of: Reader) -> Reader:
    takes = f"{of.takes}|None"

    def read(words):
        try:
            return None if words == ["None"] else of.read(words)
        except Refused as error:
            raise Refused(str(error).replace(of.takes, takes, 1)) from None

    return Reader(takes, of.width, read)


def _switch_or_none() -> Reader:
    """The reader of a flag that says yes by itself, and no or None if told so."""
    given = _optional(_choice((True, False)))
    return Reader(
        f"[{given.takes}]", None, lambda words: given.value_of(words) if words else True
    )


def _in_a_row(parts: list[Reader]) -> Reader:
    """Several values, one after the other, for a tuple of fixed length."""
    width = sum(part.width or 0 for part in parts)

    def read(words):
        rest, values = list(words), []
        for part in parts:
            values.append(part.read([rest.pop(0) for _ in range(part.width or 0)]))
        return tuple(values)

    return Reader(" ".join(part.takes for part in parts), width, read)


def _repeated(of: Reader) -> Reader:
    """Any number of values of one kind; no word at all is the empty tuple."""
    takes, step = f"[{of.takes} ...]", of.width or 1

    def read(words):
        if len(words) % step:
            raise Refused(f"takes {takes}, not {' '.join(words)!r}")
        return tuple(of.read(words[k : k + step]) for k in range(0, len(words), step))

    return Reader(takes, None, read)


class _Field(argparse.Action):
    """Puts the value of one field, under its dotted name, into the namespace."""

    def __init__(self, option_strings, dest, reader=None, **keywords):
        self.reader = reader
        super().__init__(option_strings, dest, **keywords)

    def __call__(self, parser, namespace, values, option_string=None):
        if self.reader is None:  # a bool: its second flag is the one that says no
            value = option_string == self.option_strings[0]
        else:
            try:
                value = self.reader.value_of(values)
            except Refused as error:
                parser.error(f"{self.option_strings[0]} {error}")
        setattr(namespace, self.dest, value)


def add_flags(
    parser: argparse.ArgumentParser, default: Any, title: str, prefix: str = ""
) -> None:
    """Give a parser a flag for every field of the dataclass instance `default`.

    Fields of the same dataclass stand together, under `title` and the first line of the
    class's docstring. Each flag begins with the prefix: "world." makes `--world.room`.
    `from_flags`, given the same prefix, reads what was parsed.
    """
    _add_group(parser, default, title, prefix)


def _add_group(parser, default, title, prefix):
    kind = type(default)
    says, hints = descriptions(kind), typing.get_type_hints(kind)
    about = (kind.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    group = parser.add_argument_group(f"{title}: {about}" if about else title)
    nested = {}
    for field in dataclasses.fields(kind):
        name, value = prefix + field.name, getattr(default, field.name)
        if dataclasses.is_dataclass(value):
            nested[name] = value
            continue
        words = " ".join(words_of_value(value)) or "none"
        text = f"{says.get(field.name, '')} (default: {words})".strip()
        action = _add_flag(group, name, hints[field.name], text.replace("%", "%%"))
        action.rare = field.name not in getattr(kind, "common", [field.name])
    for name, value in nested.items():
        _add_group(parser, value, name, f"{name}.")


def _add_flag(group, name, hint, text):
    yes, no = flag_of(name), flag_of(name, no=True)
    keywords = {"dest": name, "default": argparse.SUPPRESS, "help": text}
    if hint is bool:
        return group.add_argument(yes, no, action=_Field, nargs=0, **keywords)
    either = hint == bool | None
    reader = _switch_or_none() if either else reader_of(hint)
    reads = {"nargs": "*", "metavar": reader.takes, "reader": reader}
    if either:
        hidden = {**keywords, "help": argparse.SUPPRESS}
        group.add_argument(no, action="store_const", const=False, **hidden)
    return group.add_argument(yes, action=_Field, **keywords, **reads)


def from_flags(default: Any, flags: argparse.Namespace, prefix: str = "") -> Any:
    """The configuration `default` with the values that were given as flags.

    ValueError, from the dataclass itself, if it refuses them.
    """
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(default):
        name, value = prefix + field.name, getattr(default, field.name)
        if dataclasses.is_dataclass(value):
            changes[field.name] = from_flags(value, flags, f"{name}.")
        elif hasattr(flags, name):
            changes[field.name] = getattr(flags, name)
    return dataclasses.replace(default, **changes)
