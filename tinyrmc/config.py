"""Configurations: dataclasses <-> words <-> JSON, and how two of them differ.

A configuration is a frozen dataclass. Its fields are numbers, texts, choices, tuples of
these, or further dataclasses; a string under a field says what the field means:

    @dataclass(frozen=True)
    class Config:
        length: int = 4
        \"""symbols that arrive before the question\"""
        train: TrainConfig = field(default_factory=TrainConfig)

Every field is a flag (`--length 5`, `--train.steps 100`) with that string as its help:
see `cli/commands.py`. A dataclass may name its `common` fields, the ones that `--help`
shows; `--help-all` has the rest. A field of the outermost dataclass may say where
something lies instead of what is computed: it is a `PLACE`. Runs that differ only in a
place are the same, so JSON holds places apart from the rest of the configuration.

What is registered while a program runs is no field of a class. A dataclass may name
fields whose words are such `choices`, {field: function of the class -> words}, and
fields that map names to further dataclasses, its `sections`, {field: function of the
class -> {name: the usual one}}, which count as fields beside the others.
"""

from __future__ import annotations

import ast
import contextlib
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

from .errors import ConfigError, RunError, inside, nearest, unknown

# Metadata of a field that came after runs had been written. Their files lack it and get
# its default, which must therefore say how things were before.
ADDED = {"added": True}

# Metadata of a field `data_dir: Path | None` that says where something lies.
PLACE = {"place": True}


def hints_of(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields by their names; those of its sections, too."""
    hints = typing.get_type_hints(kind)
    found = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    for name, choices_of in getattr(kind, "choices", {}).items():
        if found[name] is str:
            found[name] = typing.Literal[choices_of(kind)]
    for name in getattr(kind, "sections", {}):
        del found[name]
    for name, usual in _sections(kind).items():
        if name in found:
            raise ConfigError(f"{kind.__name__} has a field {name}; rename the other")
        found[name] = type(usual)
    return found


def _sections(kind: Any) -> dict[str, Any]:
    """The sections of a dataclass that are no fields of the class, as they usually
    are: see the top.
    """
    found: dict[str, Any] = {}
    for usual in getattr(kind, "sections", {}).values():
        found |= usual(kind)
    return found


def values_of(config: Any) -> dict[str, Any]:
    """The values of a dataclass's fields and sections by their names."""
    held, usual = _held(config), _sections(type(config))
    return held | {name: held.get(name, x) for name, x in usual.items()}


def _held(config: Any) -> dict[str, Any]:
    """The values of a dataclass's fields, and of those sections that it holds."""
    held = {x.name: getattr(config, x.name) for x in dataclasses.fields(config)}
    for name in getattr(config, "sections", {}):
        held |= held.pop(name)
    return held


def value_at(config: Any, name: str) -> Any:
    """The value of a field, or a section, by its dotted name."""
    return functools.reduce(lambda x, part: values_of(x)[part], name.split("."), config)


def changed(config: Any, changes: Mapping[str, Any]) -> Any:
    """The dataclass with some of its fields and sections replaced."""
    changes, own = dict(changes), _sections(type(config))
    for name in getattr(config, "sections", {}):
        new = {each: changes.pop(each) for each in own if each in changes}
        changes[name] = {**getattr(config, name), **new}
    return dataclasses.replace(config, **changes)


def fields_of(kind: Any, prefix: str = "") -> dict[str, Any]:
    """The fields of a nested dataclass by their dotted names, with their types:
    {"seed": int, "model.mem_slots": int, ...}.
    """
    found: dict[str, Any] = {}
    for name, hint in hints_of(kind).items():
        if dataclasses.is_dataclass(hint):
            found |= fields_of(hint, f"{prefix}{name}.")
        else:
            found[prefix + name] = hint
    return found


def descriptions(kind: Any) -> dict[str, str]:
    """The strings under the fields of a dataclass, by the fields' names; "says" in a
    field's metadata is a function of the class that puts such a text together.
    """
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if dataclasses.is_dataclass(owner):
            found |= _strings(typing.cast(type, owner))
    for field in dataclasses.fields(kind):
        if "says" in field.metadata:
            found[field.name] = field.metadata["says"](kind)
    return found


@functools.cache
def _strings(owner: type) -> dict[str, str]:
    """The strings below a class's own fields; none if its source is not at hand."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError, TypeError):
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


# --- Values and the words that stand for them -----------------------------------------


SCALARS: dict[Any, tuple[str, str]] = {
    int: ("INT", "an integer"),
    float: ("FLOAT", "a number"),
    str: ("TEXT", "a text"),
    Path: ("PATH", "a Path"),
}


def wanted(hint: Any) -> tuple[str, str]:
    """(what the flag of a field of this type wants: INT|None; the same in a sentence:
    an integer or None). TypeError for a type that cannot be a flag.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if known := choices(hint):
        says = "True or False" if hint is bool else f"one of {', '.join(known)}"
        return "{" + ",".join(known) + "}", says
    if origin in (typing.Union, types.UnionType) and inner[1:] == (types.NoneType,):
        takes, says = wanted(inner[0])
        return f"{takes}|None", f"{says} or None"
    if origin is tuple and inner:
        repeated = inner[-1] is Ellipsis
        parts = [wanted(part) for part in inner[: -1 if repeated else None]]
        takes = " ".join(part[0] for part in parts)
        says = ", ".join(part[1] for part in parts)
        if "..." not in takes:  # else where would one end?
            if repeated:
                return f"[{takes} ...]", f"({says}, ...)"
            return takes, f"({says})"
    raise TypeError(
        f"{getattr(hint, '__name__', hint) if origin is None else hint} cannot be a "
        "flag; use int, float, str, bool, Literal, tuples of these, or X | None"
    )


def choices(hint: Any) -> dict[str, Any]:
    """The values of a bool or a Literal by their words; none for other types."""
    values = (True, False) if hint is bool else ()
    if typing.get_origin(hint) is typing.Literal:
        values = typing.get_args(hint)
    return {str(value): value for value in values}


def _taken(hint: Any, words: list[str]) -> Any:
    """The value of the first of these words, which are taken away."""
    if known := choices(hint):
        return known[words.pop(0)]
    inner = typing.get_args(hint)
    if not inner:
        return hint(words.pop(0))
    if typing.get_origin(hint) is not tuple:  # X | None
        return _taken(inner[0], words) if words != ["None"] else words.clear()
    if inner[-1] is not Ellipsis:
        return tuple(_taken(part, words) for part in inner)
    values = []
    while words:
        values.append(_taken(inner[0], words))
    return tuple(values)


def value_of(hint: Any, words: list[str]) -> Any:
    """The value of type `hint` that words of a command line stand for.

    ValueError if they are not what its flag takes.
    """
    rest = list(words)
    with contextlib.suppress(ValueError, LookupError):
        value = _taken(hint, rest)
        if not rest:
            return value
    takes, says = wanted(hint)
    got = repr(" ".join(words)) if words else "nothing"
    if (known := choices(hint)) and len(words) == 1:
        raise ValueError(f"is {says}, not {got}{nearest(words[0], known)}")
    raise ValueError(f"takes {takes}, not {got}")


def words_of_value(value: Any) -> Iterator[str]:
    """One word, or those of nested tuples in a row. ValueError for `overflows`."""
    if isinstance(value, tuple):
        for part in value:
            yield from words_of_value(part)
    elif overflows(value):
        raise ValueError(shown(value))
    else:
        yield str(value.item() if isinstance(value, np.generic) else value)


def overflows(value: Any) -> bool:
    """Whether it is an integer that no float can hold: somewhere it would overflow."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _misfit(value: Any, hint: Any) -> str | None:
    """The complaint about a value, in words; None if its words stand for it."""
    if Path in (hint, *typing.get_args(hint)):  # JSON has it as a text
        return None
    if dataclasses.is_dataclass(hint):
        name, module = type(value).__name__, type(value).__module__
        twice = name == getattr(hint, "__name__", "")
        known = f", which is {hint.__module__}'s: its file ran twice, call load_cores"
        says = f"must be a {getattr(hint, '__name__', hint)}, not {shown(value)}"
        return says + f" of {module}{known} before you import it" * twice
    try:
        _, says = wanted(hint)
    except TypeError:  # no flag has it
        return None
    with contextlib.suppress(ValueError):
        found = value_of(hint, [*words_of_value(value)])
        if found == value or (found != found and value != value):  # NaN
            return None
    near = nearest(str(value).lower(), choices(hint))
    return f"must be {says}, not {shown(value)}{near}"


def shown(value: Any) -> str:
    """A value in a message, in a few words."""
    if overflows(value):
        return f"one with {len(str(abs(value)))} digits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."


def check_values(config: Any, where: str = "") -> None:
    """ValueError, naming the field, for a value that no command line would let through.

    It goes by the types of the fields, and of the fields of nested dataclasses. `where`
    begins the names: "model" makes them "model.core".
    """
    if not dataclasses.is_dataclass(config):
        return
    kind: Any = type(config)
    hints = hints_of(kind)
    fields = kind.__dataclass_fields__
    for each, value in values_of(config).items():
        name = f"{where}.{each}" if where else each
        if (hint := hints.get(each)) is None:
            raise ValueError(f"{name} is unknown{nearest(each, hints)}")
        if isinstance(hint, type) and dataclasses.is_dataclass(value):
            if isinstance(value, hint):
                check_values(value, name)
                continue
        place = each in fields and "place" in fields[each].metadata
        if not place and (wrong := _misfit(value, hint)):
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


def check_within(owner: str, config: Any, interval: str, *names: str) -> None:
    """ValueError unless the fields of these names are in the interval, or None.

    interval: as in "[0, 1)", which has 0 and not 1.
    """
    for name in names:
        value = getattr(config, name)
        if not (value is None or inside(value, interval)):
            raise ValueError(f"{owner}.{name} must be in {interval}, not {value}")


# --- Flags ----------------------------------------------------------------------------


def flag_of(field: str, no: bool = False) -> str:
    """The flag that sets a field, `--model.mem-slots`, or switches it off:
    `--model.no-activate-final`.
    """
    *path, name = field.split(".")
    return "--" + ".".join([*path, f"no-{name}" if no else name]).replace("_", "-")


def words_of(config: Any, usual: Any, prefix: str = "") -> list[str]:
    """The flags that turn the `usual` configuration into `config`; places aside."""
    words = []
    known = values_of(usual)
    fields = type(config).__dataclass_fields__
    for each, value in values_of(config).items():
        name = prefix + each
        before = known[each]
        if dataclasses.is_dataclass(value):
            words += words_of(value, before, f"{name}.")
        elif value == before or "place" in fields[each].metadata:
            continue
        elif isinstance(value, bool):
            words.append(flag_of(name, no=not value))
        else:
            words += [flag_of(name), *words_of_value(value)]
    return words


# --- JSON -----------------------------------------------------------------------------


def to_json(config: Any) -> dict[str, Any]:
    """A configuration as JSON keeps it: {"config": its fields}.

    If it has places, "places" holds these: absolute paths, `~` for the home directory.
    """
    values = _as_dict(config)
    places = {}
    for field in dataclasses.fields(config):
        if "place" in field.metadata:
            path = values.pop(field.name)
            places[field.name] = path and stored_path(path)
    return {"config": values, **({"places": places} if places else {})}


def _as_dict(config: Any) -> dict[str, Any]:
    """The fields of a nested dataclass, and those sections that it holds."""
    return {
        name: _as_dict(value) if dataclasses.is_dataclass(value) else value
        for name, value in _held(config).items()
    }


def stored_path(path: str | Path) -> str:
    """A path as files keep it: absolute, `~` for the home directory."""
    path = Path(os.path.abspath(os.path.expanduser(path)))
    home = Path(os.path.expanduser("~"))
    for place in (home, home.resolve()):
        if path.is_relative_to(place):
            return (Path("~") / path.relative_to(place)).as_posix()
    return str(path)


def with_places(config: Any, places: Mapping[str, str | None]) -> Any:
    """The configuration with those of its places that `to_json` kept. ConfigError for a
    place that it has not.
    """
    known = type(config).__dataclass_fields__
    if says := unknown(places, known):
        raise ConfigError(f"the run's places: it {says}")
    changes = {k: x and Path(os.path.expanduser(x)) for k, x in places.items()}
    return dataclasses.replace(config, **changes)


def from_json(kind: type, values: Any, where: str = "config") -> Any:
    """A nested dataclass from what JSON gave back, lists as tuples.

    ConfigError names a field that is missing, unknown or not of its type. A field that
    was `ADDED` later may be missing, and so are places. What a class calls `gone`,
    {a field of before: its only value that still is}, is left out.
    """
    remedy = "restore the run's configuration or start a new run"
    if not isinstance(values, dict):
        raise ConfigError(f"{where} must have fields, not be {shown(values)}; {remedy}")
    hints = hints_of(kind)
    built = {}
    usual = _sections(kind)
    fields = {x.name: x for x in dataclasses.fields(kind) if x.name in hints}
    gone = getattr(kind, "gone", {})
    values = {k: x for k, x in values.items() if k not in gone or x != gone[k]}
    for name in getattr(kind, "sections", {}):  # as dataclasses.asdict has them
        values |= values.pop(name, {})
    for name in {**hints, **values}:
        field = fields.get(name)
        if name in usual or (field and name in values):
            continue
        if field and {"added", "place"} & field.metadata.keys():
            continue
        raise ConfigError(
            f"{where}.{name} is {'missing' if field else 'unknown'}; the file was "
            "written by another version of the task (tasks/README.md says how to add "
            "a field)"
        )
    for name, value in values.items():
        place = name in fields and "place" in fields[name].metadata
        hint = str | None if place else hints[name]
        if dataclasses.is_dataclass(hint):
            built[name] = from_json(typing.cast(type, hint), value, f"{where}.{name}")
            continue
        built[name] = _tuples(value)
        if wrong := _misfit(built[name], hint):
            raise ConfigError(f"{where}.{name} {wrong}; {remedy}")
    own = {name: built.pop(name) for name in usual if name in built}
    built |= dict.fromkeys(getattr(kind, "sections", ()), own)
    try:
        return kind(**built)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where} cannot be used: {error}") from error


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def json_text(value: Any, indent: int | None = None) -> str:
    """The JSON text of a value that may hold NumPy's numbers and arrays."""

    def from_numpy(value: Any) -> Any:
        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        raise TypeError(
            f"{type(value).__name__} {value!r} is not JSON; use numbers, text, lists "
            "and dicts"
        )

    return json.dumps(value, indent=indent, default=from_numpy)


# --- Differences ----------------------------------------------------------------------


def first_difference(saved: dict, asked: dict) -> str | None:
    """The first field in which two nested configurations differ, in words:
    "model.mem_slots: 4 so far, 8 asked for". None when they are equal.

    Tuples equal lists, 1 equals 1.0, NaN equals NaN.
    """
    ours, theirs = (dict(leaves_of(json.loads(json_text(x)))) for x in (saved, asked))
    for name in ours | theirs:
        one, other = (values.get(name, "no such field") for values in (ours, theirs))
        if one != other and json_text(one) != json_text(other):  # NaN is not NaN
            return f"{name}: {one!r} so far, {other!r} asked for"
    return None


def leaves_of(values: dict, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(path of keys, value) of what is no dict in nested dicts."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def require_same(saved: dict, asked: dict, what: str) -> None:
    """RunError unless both configurations are equal; `what` names the checkpoint, or
    the sweep, that the first belongs to.
    """
    if (found := first_difference(saved, asked)) is not None:
        raise RunError(
            f"{what} has another configuration: {found}; ask for the same or start a "
            "new run"
        )
