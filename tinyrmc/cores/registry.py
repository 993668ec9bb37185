"""The cores that `--model.core` chooses from: one registry, for ours and for yours.

    @dataclass(frozen=True)
    class FadingConfig:
        \"""The settings of the fading core alone.\"""

        units: int = 64
        \"""units of its memory\"""

    @tinyrmc.register_core("fading", config=FadingConfig)
    def build(model, input_size, seed):
        \"""a memory that fades\"""
        return Fading(input_size, model.own.units, seed=seed)

Then `--model.core fading --model.fading.units 32` goes with every task that has a
choice of cores; help, completion, descriptions, reports and pictures know it. A file
with such a core is named by `--core FILE`; a distribution names a module that registers
one as an entry point in the group `tinyrmc.cores`. The cores of this package are
registered in the same way, each at the end of its own file.
"""

from __future__ import annotations

import functools
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from ..errors import UserError

GROUP = "tinyrmc.cores"
NAME = re.compile(r"(?!.*__)[a-z]\w*")
Where = Literal["everywhere", "maps", "texts"]
Build = Callable[[Any, Any, Any], Any]


class SettingsError(UserError, ValueError):
    """No core has these settings."""


@dataclass(frozen=True)
class Entry:
    """A core, as it was registered: see `register_core`."""

    build: Build
    config: type | None
    says: str
    used: tuple[str, ...] | None
    size: Callable[[Any, Any], str] | None
    check: Callable[[Any], None] | None
    where: Where
    reads_maps: bool
    colour: str | None


_entries: dict[str, Entry] = {}
# those that only a run has asked for: another run's file may take the name
yielding: dict[str, Entry] = {}


def register_core(
    name: str,
    build: Build | None = None,
    *,
    config: type | None = None,
    says: str = "",
    used: tuple[str, ...] | None = None,
    size: Callable[[Any, Any], str] | None = None,
    check: Callable[[Any], None] | None = None,
    where: Where = "everywhere",
    reads_maps: bool = False,
    colour: str | None = None,
) -> Any:
    """Make a core known as `--model.core NAME`. Without `build` it is a decorator.

    Args:
        build: `build(model, input_size, seed)` gives a new `Core`. `model` is the
            `CoreConfig`: `model.own` has the core's own settings, and what several
            cores share is `model.hidden_size`, `model.mem_slots` and so on.
            `input_size` is the width of an input.
        config: the core's own settings, a frozen dataclass with a default for each
            field: `--model.NAME.FIELD`.
        says: what the core is, for the help; by default the first line of `build`'s
            docstring.
        used: the fields of `CoreConfig` that make a difference to it, so that a run
            can tell of a flag without effect; by default none if it has a `config`,
            and else that is not told.
        size: `size(model, core)` says what follows the name where a run describes the
            core: " of 64 units"; by default its settings.
        check: `check(model)` raises ValueError for settings that cannot be.
        where: "maps": only where maps come in; "texts": only where words are read.
        reads_maps: whether `input_size` is the (height, width, channels) of a map,
            which comes in a row otherwise.
        colour: of its curves, as #RRGGBB; None: one that is free.

    ValueError for a name that cannot be, or that another core has.
    """

    def register(build: Build) -> Build:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"core {name!r}: give it a name of small letters, digits and _"
            )
        if config is not None and not (isinstance(config, type) and _settled(config)):
            raise ValueError(
                f"core {name!r}: config must be a frozen dataclass with a default for "
                f"each field, not {config!r}"
            )
        known = used if used is not None or config is None else ()
        here = build
        other = _entries.get(name)
        there = build if other is None or other is yielding.get(name) else other.build
        if [_place(here), here.__qualname__] != [_place(there), there.__qualname__]:
            raise ValueError(
                f"core {name!r} is registered already, in {_place(there)}; choose "
                "another name"
            )
        first = (build.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        _entries[name] = Entry(
            build, config, says or first, known, size, check, where, reads_maps, colour
        )
        return build

    return register if build is None else register(build)


def _settled(config: Any) -> bool:
    """Whether a class is a frozen dataclass whose fields all have defaults."""
    if not hasattr(config, "__dataclass_params__"):
        return False
    usual = (
        x.default is not MISSING or x.default_factory is not MISSING
        for x in fields(config)
    )
    return all(usual) and config.__dataclass_params__.frozen


def _place(build: Any) -> str:
    return getattr(sys.modules.get(build.__module__), "__file__", build.__module__)


def cores() -> dict[str, Entry]:
    """Name -> entry of every core, in the order in which they were registered: the
    package's own first, those of other distributions next.
    """
    _load_added()
    return _entries


def added() -> set[str]:
    """The cores that are not of this package."""
    ours = __package__ + "."
    return {k for k, e in cores().items() if not e.build.__module__.startswith(ours)}


def restore(before: dict[str, Entry]) -> None:
    """Forget all but these: what registered the others could not be imported."""
    _entries.clear()
    _entries.update(before)


def names(*where: str) -> tuple[str, ...]:
    """The cores that are everywhere, and those that are only where this is."""
    return tuple(
        name for name, e in cores().items() if e.where in ("everywhere", *where)
    )


@functools.cache
def _load_added() -> None:
    """Import what other distributions name; one that fails must not take the others
    with it.
    """
    from importlib import metadata  # takes its time

    for entry in metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            warnings.warn(f"core {entry.name!r} ({entry.value}): {error}", stacklevel=2)
