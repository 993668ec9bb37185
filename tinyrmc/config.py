"""Configurations: dataclasses <-> flags <-> JSON, and how two of them differ."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import typing

import numpy as np

from .errors import RunError, UsageError, nearest

# The metadata of a field that came after runs had been written. Their config.json lacks
# it: it may be missing, and then has its default, which says what was so before.
ADDED = {"added": True}


def fields_of(kind: type, prefix: str = "") -> dict[str, type]:
    """The fields of a (nested, perhaps generic) dataclass by their dotted names, with
    their types: seed, model.mem_slots, ...
    """
    found, hints = {}, typing.get_type_hints(kind, include_extras=False)
    for field in dataclasses.fields(kind):
        nested, name = (
            dataclasses.is_dataclass(hints[field.name]),
            f"{prefix}{field.name}",
        )
        found |= (
            fields_of(hints[field.name], f"{name}.")
            if nested
            else {name: hints[field.name]}
        )
    return found


def flags_of(kind: type) -> list[str]:
    """All flags that the fields of a dataclass make: --seed, --model.mem-slots, and for
    a bool also --model.no-activate-final.
    """
    return [
        flag
        for name, of in fields_of(kind).items()
        for flag in (flag_of(name), *([flag_of(name, no=True)] if of is bool else []))
    ]


def flag_of(field: str, no: bool = False) -> str:
    """The flag that sets a field, or that switches it off."""
    *path, name = field.split(".")
    return "--" + ".".join([*path, f"no-{name}" if no else name]).replace("_", "-")


def parse(
    kind: type, default, args: list[str], prog: str, description: str, known: list[str]
):
    """A dataclass from flags, by tyro.

    `known` are the flags there are, for suggestions. UsageError with one line for bad
    words.
    """
    import tyro

    for word in args:
        flag = word.split("=")[0].replace("_", "-")
        if word.startswith("--") and flag not in (*known, "--help"):
            raise UsageError(
                f"unknown flag {word!r}{nearest(flag, known)} ({prog} --help lists "
                "them)"
            )
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind, default=default, args=args, prog=prog, description=description
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(
            f"{_one_line(complaint.getvalue(), args)} ({prog} --help explains)"
        ) from None
    except (
        ValueError
    ) as error:  # the options refused their values, which tyro lets through
        raise UsageError(f"{error} ({prog} --help explains)") from None


def _one_line(box: str, args: list[str]) -> str:
    """What tyro says in a box of several lines, in one: which flag, what it takes, what
    it got.
    """
    lines = [
        re.sub(r"[\u2500-\u257f]+|-{5,}", " ", line).strip(" |+")
        for line in box.splitlines()
    ]  # without the box
    text = " ".join(" ".join(lines).split()).split("For full helptext")[0].strip()
    if choice := re.search(
        r"invalid choice '(.*?)' for argument '(--[\w.-]+)'.*Expected one of \((.*?)\)",
        text,
    ):
        word, flag, known = choice.groups()
        known = re.findall(r"'(.*?)'", known)
        return (
            f"{flag} is one of {', '.join(known)}, not {word!r}{nearest(word, known)}"
        )
    if kind := re.search(
        r"Error parsing (--[\w.-]+): .*Argument helptext: .*?\1 (\[[A-Z .[\]]+\]|\S+)",
        text,
    ):
        flag, takes = kind.groups()
        after = [
            word
            for k, word in enumerate(args)
            if k and args[k - 1].replace("_", "-") == flag
        ]
        after += [
            word.partition("=")[2]
            for word in args
            if word.replace("_", "-").startswith(f"{flag}=")
        ]
        return (
            f"{flag} takes {takes.replace('{None}|', '')}, not {after[-1]!r}"
            if after
            else f"{flag} takes {takes}"
        )
    return re.sub(
        r"^([A-Z][a-z]+ (error|argument|options) )?(Error parsing [\w.]+: )?", "", text
    )  # a dataclass's own words on its values


def config_from_dict(kind: type, values: dict, where: str = "config"):
    """A nested dataclass from what JSON gave back (lists become tuples).

    RunError names a field that is missing or unknown.

    A field with "added" in its metadata may be missing, and has its default: it came
    after runs had been written, and says by default what was so before.
    """
    hints, names = (
        typing.get_type_hints(kind),
        [field.name for field in dataclasses.fields(kind)],
    )
    later = [
        field.name for field in dataclasses.fields(kind) if "added" in field.metadata
    ]
    for name in [*names, *values]:
        if (name not in values and name not in later) or name not in names:
            raise RunError(
                f"{where}.{name} is {'missing' if name in names else 'unknown'}; it "
                "was written by another version of the task"
            )
    built = {}
    for name, value in values.items():
        nested = dataclasses.is_dataclass(hints[name]) and isinstance(value, dict)
        built[name] = (
            config_from_dict(hints[name], value, f"{where}.{name}")
            if nested
            else _tuples(value)
        )
    try:
        return kind(**built)
    except ValueError as error:
        raise RunError(f"{where} cannot be used: {error}") from error


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# --- Configurations and surroundings --------------------------------------------------


def first_difference(saved, asked):
    """The first field in which two nested configurations differ, as a sentence with
    both values; None when equal.

    "model.mem_slots: 4 in the checkpoint, 8 asked for". Tuples equal lists, 1 equals
    1.0, NaN equals NaN.
    """
    return _difference(
        json.loads(json_text(saved)), json.loads(json_text(asked)), prefix=""
    )


def _difference(saved, asked, prefix):
    for key in saved | asked:
        if key not in asked:
            return (
                f"{prefix}{key}: {saved[key]!r} in the checkpoint, no such field "
                "asked for"
            )
        if key not in saved:
            return (
                f"{prefix}{key}: no such field in the checkpoint, {asked[key]!r} "
                "asked for"
            )
        ours, theirs = saved[key], asked[key]
        if isinstance(ours, dict) and isinstance(theirs, dict):
            if (found := _difference(ours, theirs, f"{prefix}{key}.")) is not None:
                return found
        elif ours != theirs and json_text(ours) != json_text(
            theirs
        ):  # the second comparison is for NaN
            return f"{prefix}{key}: {ours!r} in the checkpoint, {theirs!r} asked for"
    return None


def require_same(saved, asked, what):
    """Raise RunError unless both configurations are equal; `what` names the checkpoint
    the first belongs to.
    """
    if (found := first_difference(saved, asked)) is not None:
        raise RunError(
            f"{what} has another configuration: {found}; ask for the same or start a "
            "new run"
        )


def json_text(value, indent=None) -> str:
    """The JSON text of a value that may hold NumPy's numbers and arrays."""
    return json.dumps(value, indent=indent, default=_from_numpy)


def _from_numpy(value):
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(
        f"{type(value).__name__} {value!r} is not JSON; use numbers, text, lists and "
        "dicts"
    )
