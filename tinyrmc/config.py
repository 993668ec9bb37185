"""Configurations: dataclasses <-> flags <-> JSON, and how two of them differ.

A configuration is a frozen dataclass. Its fields are numbers, texts, choices, tuples of
these, or further dataclasses; a string under a field says what the field means:

    @dataclass(frozen=True)
    class Config:
        length: int = 4
        \"""symbols that arrive before the question\"""
        train: TrainConfig = field(default_factory=TrainConfig)

Every field is a flag (`--length 5`, `--train.steps 100`), with that string as its help,
and every configuration can be written to JSON and read back. A dataclass may name its
`common` fields, the ones that `--help` shows; `--help-all` shows the rest as well.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import itertools
import json
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ConfigError, RunError, nearest

# Metadata of a field that came after runs had been written. Their files lack it and get
# its default, which must therefore say how things were before.
ADDED = {"added": True}


def fields_of(kind: type, prefix: str = "") -> dict[str, Any]:
    """The fields of a nested dataclass by their dotted names, with their types:
    {"seed": int, "model.mem_slots": int, ...}.
    """
    found: dict[str, Any] = {}
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        name, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            found |= fields_of(typing.cast(type, hint), f"{name}.")
        else:
            found[name] = hint
    return found


@functools.cache
def descriptions(kind: type) -> dict[str, str]:
    """What the strings under the fields of a dataclass say, by the fields' names."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(owner):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        body = typing.cast(ast.ClassDef, node).body
        for statement, following in itertools.pairwise(body):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(text.split())
    return found


# --- Flags ----------------------------------------------------------------------------


def flag_of(field: str, no: bool = False) -> str:
    """The flag that sets a field, `--model.mem-slots`, or switches it off:
    `--model.no-activate-final`.
    """
    *path, name = field.split(".")
    return "--" + ".".join([*path, f"no-{name}" if no else name]).replace("_", "-")


def flags_of(kind: type) -> list[str]:
    """All flags that the fields of a dataclass make."""
    flags = []
    for name, hint in fields_of(kind).items():
        flags.append(flag_of(name))
        if hint is bool:
            flags.append(flag_of(name, no=True))
    return flags


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
    if origin is typing.Literal:
        return _choice(inner)
    if origin in (typing.Union, types.UnionType) and inner[1:] == (types.NoneType,):
        return _optional(reader_of(inner[0]))
    if origin is tuple and inner[-1] is Ellipsis:
        return _repeated(reader_of(inner[0]))
    if origin is tuple:
        return _in_a_row([reader_of(part) for part in inner])
    raise TypeError(
        f"{hint} cannot be a flag; use int, float, str, bool, Path, Literal, tuples of "
        "these, or X | None"
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
    def read(words):
        return None if words == ["None"] else of.read(words)

    return Reader(f"{of.takes}|None", of.width, read)


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


def add_flags(parser: argparse.ArgumentParser, default: Any, title: str) -> None:
    """Give a parser a flag for every field of the dataclass instance `default`.

    Fields of the same dataclass stand together, under `title` and the first line of the
    class's docstring. What was parsed is read by `from_flags`.
    """
    _add_group(parser, default, title, "")


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
    keywords = {"dest": name, "default": argparse.SUPPRESS, "help": text}
    if hint is bool:
        flags = flag_of(name), flag_of(name, no=True)
        return group.add_argument(*flags, action=_Field, nargs=0, **keywords)
    reader = reader_of(hint)
    keywords |= {"nargs": "*", "metavar": reader.takes, "reader": reader}
    return group.add_argument(flag_of(name), action=_Field, **keywords)


def from_flags(default: Any, flags: argparse.Namespace, prefix: str = "") -> Any:
    """The configuration `default` with the values that were given as flags.

    ValueError, from the dataclass itself, if these cannot be.
    """
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(default):
        name, value = prefix + field.name, getattr(default, field.name)
        if dataclasses.is_dataclass(value):
            changes[field.name] = from_flags(value, flags, f"{name}.")
        elif hasattr(flags, name):
            changes[field.name] = getattr(flags, name)
    return dataclasses.replace(default, **changes)


def words_of(config: Any, usual: Any, prefix: str = "") -> list[str]:
    """The flags that make `config` out of the `usual` configuration."""
    words = []
    for field in dataclasses.fields(config):
        name = prefix + field.name
        value, before = getattr(config, field.name), getattr(usual, field.name)
        if dataclasses.is_dataclass(value):
            words += words_of(value, before, f"{name}.")
        elif value == before:
            continue
        elif isinstance(value, bool):
            words.append(flag_of(name, no=not value))
        else:
            words += [flag_of(name), *words_of_value(value)]
    return words


def words_of_value(value: Any) -> Iterator[str]:
    """One word, or those of nested tuples in a row."""
    if isinstance(value, tuple):
        for part in value:
            yield from words_of_value(part)
    else:
        yield str(value)


# --- JSON -----------------------------------------------------------------------------


def from_json(kind: type, values: dict, where: str = "config") -> Any:
    """A nested dataclass from what JSON gave back, lists as tuples.

    ConfigError names a field that is missing or unknown. A field that was `ADDED` later
    may be missing.
    """
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    names = [field.name for field in fields]
    needed = [field.name for field in fields if "added" not in field.metadata]
    for name in [*needed, *values]:
        if name not in values or name not in names:
            state = "missing" if name in names else "unknown"
            raise ConfigError(
                f"{where}.{name} is {state}; it was written by another version of the "
                "task"
            )
    built = {}
    for name, value in values.items():
        if dataclasses.is_dataclass(hints[name]) and isinstance(value, dict):
            built[name] = from_json(hints[name], value, f"{where}.{name}")
        else:
            built[name] = _tuples(value)
    try:
        return kind(**built)
    except ValueError as error:
        raise ConfigError(f"{where} cannot be used: {error}") from error


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def json_text(value: Any, indent: int | None = None) -> str:
    """The JSON text of a value that may hold NumPy's numbers and arrays."""
    return json.dumps(value, indent=indent, default=_from_numpy)


def _from_numpy(value):
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(
        f"{type(value).__name__} {value!r} is not JSON; use numbers, text, lists and "
        "dicts"
    )


# --- Differences ----------------------------------------------------------------------


def first_difference(saved: dict, asked: dict) -> str | None:
    """The first field in which two nested configurations differ, in words.

    None when they are equal.

    "model.mem_slots: 4 in the checkpoint, 8 asked for". Tuples equal lists, 1 equals
    1.0, NaN equals NaN.
    """
    return _difference(json.loads(json_text(saved)), json.loads(json_text(asked)), "")


def _difference(saved, asked, prefix):
    for key in saved | asked:
        name = prefix + key
        if key not in asked:
            return f"{name}: {saved[key]!r} in the checkpoint, no such field asked for"
        if key not in saved:
            return f"{name}: no such field in the checkpoint, {asked[key]!r} asked for"
        ours, theirs = saved[key], asked[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if (found := _difference(ours, theirs, f"{name}.")) is not None:
                return found
        elif ours != theirs and json_text(ours) != json_text(theirs):  # NaN is not NaN
            return f"{name}: {ours!r} in the checkpoint, {theirs!r} asked for"
    return None


def require_same(saved: dict, asked: dict, what: str) -> None:
    """RunError unless both configurations are equal; `what` names the checkpoint that
    the first belongs to.
    """
    if (found := first_difference(saved, asked)) is not None:
        raise RunError(
            f"{what} has another configuration: {found}; ask for the same or start a "
            "new run"
        )
