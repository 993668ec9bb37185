"""Arrays in tuples, lists and dicts, such as a core's state: out, and back in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def leaves(value: Any) -> list:
    """All arrays inside, in the order of `named_leaves`."""
    if not is_nested(value):
        return [value]
    return [leaf for _, part in items(value) for leaf in leaves(part)]


def named_leaves(value: Any, name: str) -> dict[str, Any]:
    """{name: array} of all arrays inside, in an order that does not depend on that of
    a dict: "state.0", "state.memory".
    """
    if not is_nested(value):
        return {name: value}
    found: dict[str, Any] = {}
    for key, part in items(value):
        found |= named_leaves(part, f"{name}.{key}")
    return found


def refilled(form: Any, arrays: Iterable) -> Any:
    """A value of this form with other arrays, in the order of `leaves`. Lists become
    tuples.
    """
    arrays = iter(arrays)

    def filled(part: Any) -> Any:
        if not is_nested(part):
            return next(arrays)
        parts = {key: filled(each) for key, each in items(part)}
        return parts if isinstance(part, dict) else tuple(parts.values())

    return filled(form)


def is_nested(value: Any) -> bool:
    """Whether it holds arrays, and is none itself."""
    return isinstance(value, (tuple, list, dict))


def items(value: Any) -> list[tuple[Any, Any]]:
    """The parts of a tuple, list or dict by number or name."""
    if isinstance(value, dict):
        return sorted(value.items())
    return [*enumerate(value)] if is_nested(value) else []
