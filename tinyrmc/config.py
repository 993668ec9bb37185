"""Configurations: dataclasses <-> words <-> JSON, and how two of them differ.

A configuration is a frozen dataclass. Its fields are numbers, texts, choices, tuples of
these, or further dataclasses; a string under a field says what the field means:

    @dataclass(frozen=True)
    class Config:
        length: int = 4
        \"""symbols that arrive before the question\"""
        train: TrainConfig = field(default_factory=TrainConfig)

Every field is a flag (`--length 5`, `--train.steps 100`) with that string as its help:
see `flags.py`. Every configuration can be written to JSON and read back. A dataclass
may name its `common` fields, the ones that `--help` shows; `--help-all` has the rest.

A field of the outermost dataclass may say where something lies instead of what is
computed: it is a `PLACE`. Runs that differ only in a place are the same, so JSON holds
places apart from the rest of the configuration.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import json
import os
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .errors import ConfigError, RunError, nearest

# Metadata of a field that came after runs had been written. Their files lack it and get
# its default, which must therefore say how things were before.
ADDED = {"added": True}

# Metadata of a field `data_dir: Path | None` that says where something lies.
PLACE = {"place": True}


def is_place(field: dataclasses.Field) -> bool:
    """Whether a field says where something lies, not what is computed."""
    return "place" in field.metadata


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


# --- Values ---------------------------------------------------------------------------


def check_values(config: Any, where: str = "") -> None:
    """ValueError, naming the field, for a value that no command line would let through.

    It goes by the types of the fields, and of the fields of nested dataclasses. `where`
    begins the names: "model" makes them "model.core".
    """
    if not dataclasses.is_dataclass(config):
        return
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, hint = getattr(config, field.name), hints[field.name]
        name = f"{where}.{field.name}" if where else field.name
        nested = isinstance(hint, type) and dataclasses.is_dataclass(hint)
        if nested and isinstance(value, hint):
            check_values(value, name)
        elif not is_place(field) and (wrong := _misfit(value, hint)):
            raise ValueError(f"{name} {wrong}")


def check_least(owner: str, config: Any, *names: str, least: int = 1) -> None:
    """ValueError unless the fields of these names are at least `least`, or None.

    "model" as the owner makes the names "model.hops".
    """
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            raise ValueError(
                f"{owner}.{name} must be an integer of at least {least}, not {value}"
            )


def _misfit(value: Any, hint: Any) -> str | None:
    """What a value must be and is not, in words; None if it is of a field's type."""
    if _is_of(value, hint):
        return None
    near = nearest(str(value).lower(), map(str, _choices(hint)))
    return f"must be {_in_words(hint)}, not {_shown(value)}{near}"


def _shown(value: Any) -> str:
    """A value in a message, in a few words."""
    if overflows(value):
        return f"one with {len(str(abs(value)))} digits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."


def _choices(hint: Any) -> tuple:
    """The values of a type that is a choice, or a choice or None; else none."""
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in _UNIONS:
        return tuple(x for part in typing.get_args(hint) for x in _choices(part))
    return ()


_UNIONS = typing.Union, types.UnionType
_KINDS: dict[Any, tuple] = {
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    bool: (bool, np.bool_),
    str: (str,),
    types.NoneType: (types.NoneType,),
}


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a field's type; one that no flag has lets all pass."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if origin in _UNIONS:
        return any(_is_of(value, part) for part in parts)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[1:] == (...,):
            parts = parts[:1] * len(value)
        return len(value) == len(parts) and all(map(_is_of, value, parts))
    if dataclasses.is_dataclass(hint) or (type(value) is bool and hint in (int, float)):
        return False
    if hint in _KINDS and not isinstance(value, _KINDS[hint]):
        return False
    return not overflows(value)


def overflows(value: Any) -> bool:
    """Whether it is an integer that no float can hold: somewhere it would overflow."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _in_words(hint: Any) -> str:
    """A field's type, as a message says it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, parts))
    if origin in _UNIONS:
        return " or ".join(map(_in_words, parts))
    if origin is tuple:
        each = ("..." if part is Ellipsis else _in_words(part) for part in parts)
        return f"({', '.join(each)})"
    words = {int: "an integer", float: "a number", bool: "True or False", str: "a text"}
    if hint is types.NoneType:
        return "None"
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")


# --- Words ----------------------------------------------------------------------------


def flag_of(field: str, no: bool = False) -> str:
    """The flag that sets a field, `--model.mem-slots`, or switches it off:
    `--model.no-activate-final`.
    """
    *path, name = field.split(".")
    return "--" + ".".join([*path, f"no-{name}" if no else name]).replace("_", "-")


def words_of(config: Any, usual: Any, prefix: str = "") -> list[str]:
    """The flags that turn the `usual` configuration into `config`; places aside."""
    words = []
    for field in dataclasses.fields(config):
        if is_place(field):
            continue
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


def to_json(config: Any) -> dict[str, Any]:
    """What JSON keeps of a configuration: {"config": its fields}.

    If it has places, "places" holds these: absolute paths, `~` for the home directory.
    """
    values = dataclasses.asdict(config)
    places = {
        field.name: values.pop(field.name)
        for field in dataclasses.fields(config)
        if is_place(field)
    }
    kept = {name: path and stored_path(path) for name, path in places.items()}
    return {"config": values, **({"places": kept} if kept else {})}


def stored_path(path: str | Path) -> str:
    """A path as files keep it: absolute, `~` for the home directory."""
    path = Path(os.path.abspath(os.path.expanduser(path)))
    home = Path(os.path.expanduser("~"))
    for place in (home, home.resolve()):
        if path.is_relative_to(place):
            return (Path("~") / path.relative_to(place)).as_posix()
    return str(path)


def with_places(config: Any, places: Mapping[str, str | None]) -> Any:
    """The configuration with its places as `to_json` kept them.

    Places that it does not have are skipped.
    """
    known = {field.name for field in dataclasses.fields(config) if is_place(field)}
    changes = {
        name: path and Path(os.path.expanduser(path))
        for name, path in places.items()
        if name in known
    }
    return dataclasses.replace(config, **changes)


def from_json(kind: type, values: Any, where: str = "config") -> Any:
    """A nested dataclass from what JSON gave back, lists as tuples.

    ConfigError names a field that is missing, unknown or not of its type. A field that
    was `ADDED` later may be missing, and so are places.
    """
    if not isinstance(values, dict):
        raise _not_as_written(where, f"must have fields, not be {_shown(values)}")
    hints, built = typing.get_type_hints(kind), {}
    fields = {field.name: field for field in dataclasses.fields(kind)}
    needed = [
        name
        for name, field in fields.items()
        if "added" not in field.metadata and not is_place(field)
    ]
    for name in [*needed, *values]:
        if name not in values or name not in fields:
            state = "missing" if name in fields else "unknown"
            raise ConfigError(
                f"{where}.{name} is {state}; the file was written by another version "
                "of the task (tasks/README.md says how to add a field)"
            )
    for name, value in values.items():
        hint = str | None if is_place(fields[name]) else hints[name]
        built[name] = _field_from_json(hint, value, f"{where}.{name}")
    try:
        return kind(**built)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where} cannot be used: {error}") from error


def _field_from_json(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return from_json(typing.cast(type, hint), value, where)
    value = _tuples(value)
    if wrong := _misfit(value, hint):
        raise _not_as_written(where, wrong)
    return value


def _not_as_written(where: str, wrong: str) -> ConfigError:
    return ConfigError(
        f"{where} {wrong}; restore the run's configuration or start a new run"
    )


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

    "model.mem_slots: 4 so far, 8 asked for". Tuples equal lists, 1 equals 1.0,
    NaN equals NaN.
    """
    return _difference(json.loads(json_text(saved)), json.loads(json_text(asked)), "")


def _difference(saved, asked, prefix):
    for key in saved | asked:
        name = prefix + key
        if key not in asked:
            return f"{name}: {saved[key]!r} so far, no such field asked for"
        if key not in saved:
            return f"{name}: no such field so far, {asked[key]!r} asked for"
        ours, theirs = saved[key], asked[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if (found := _difference(ours, theirs, f"{name}.")) is not None:
                return found
        elif ours != theirs and json_text(ours) != json_text(theirs):  # NaN is not NaN
            return f"{name}: {ours!r} so far, {theirs!r} asked for"
    return None


def require_same(saved: dict, asked: dict, what: str) -> None:
    """RunError unless both configurations are equal; `what` names the checkpoint, or
    the sweep, that the first belongs to.
    """
    if (found := first_difference(saved, asked)) is not None:
        raise RunError(
            f"{what} has another configuration: {found}; ask for the same or start a "
            "new run"
        )
