"""The flags of a configuration, for argparse."""

from __future__ import annotations

import argparse
import dataclasses
import typing
from typing import Any

from ..config import descriptions, flag_of, reader_of, words_of_value


class _Field(argparse.Action):
    """Puts the value of one field, under its dotted name, into the namespace."""

    def __init__(self, option_strings, dest, reader=None, **keywords):
        self.reader = reader
        super().__init__(option_strings, dest, **keywords)

    def __call__(self, parser, namespace, values, option_string=None):
        if not values and self.const is not None:  # a switch
            value = option_string not in self.const
        else:
            try:
                value = self.reader.value_of(values)
            except ValueError as error:
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
    kind: Any = type(default)
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
        if was := field.metadata.get("was"):  # commands of before still run
            group._option_string_actions[flag_of(prefix + was)] = action
    for name, value in nested.items():
        add_flags(parser, value, name, f"{name}.")


def _add_flag(group: Any, name: str, hint: Any, text: str) -> Any:
    """A flag; a switch has one that says yes and one that says no."""
    yes, no = flag_of(name), flag_of(name, no=True)
    keywords: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
    keywords |= {"help": text, "action": _Field}
    if hint is bool:
        return group.add_argument(yes, no, nargs=0, const=[no], **keywords)
    reader = reader_of(hint)
    keywords |= {"nargs": "*", "reader": reader, "metavar": reader.takes}
    if hint == bool | None:
        keywords |= {"const": [no], "metavar": f"[{reader.takes}]"}
        hidden = {**keywords, "nargs": 0, "help": argparse.SUPPRESS}
        group.add_argument(no, **hidden)
    return group.add_argument(yes, **keywords)


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
