"""The reference for who uses the library: a page for each place that one imports from,
with what is exported there, and what its classes inherit.

It repeats docstrings that the pages of modules have, so nothing is indexed twice: a
search for an object, and links, lead to its module.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from markup import rst, table

# where one imports from -> what one takes from modules inside, beside what it exports
PLACES: dict[str, tuple[str, ...]] = {
    "tinyrmc": (),
    "tinyrmc.nn": (),
    "tinyrmc.primitives": (),
    "tinyrmc.fused": (),
    "tinyrmc.optim": (),
    "tinyrmc.cores": ("core.map_state",),
    "tinyrmc.training": (),
    "tinyrmc.corpora": (),
    "tinyrmc.environments": (
        "world.World",
        "box_world.BoxWorld",
        "pacman.MiniPacman",
        "from_gymnasium.GymnasiumWorld",
    ),
}
TABLES = ("tinyrmc.primitives", "tinyrmc.fused")  # a line for each, which leads on
FIRST = ("Tape", "Module", "Core", "RelationalMemory", "Task")  # on their pages


def pages() -> dict[str, str]:
    """Page -> its Markdown; the first page has the table of the others."""
    rows = [
        [f"[`{place}`]({page(place)}.md)", _says(_module(place))] for place in PLACES
    ]
    text = [
        "# Reference\n",
        "What you import, and from where. [The inside](modules.md) has a page for each "
        "module, and all that it says of itself.\n",
        table(["import from", "what it is"], rows),
        "Flags and commands are told by `--help` and in [experiments](/tasks/index.md)."
        "\n",
        "\n".join(["```{toctree}", ":hidden:", "", *map(page, PLACES), "modules"]),
        "```\n",
    ]
    return {"index": "\n".join(text)} | {page(each): _page(each) for each in PLACES}


def page(place: str) -> str:
    """The name of a place's page: use.nn."""
    return f"use{place.removeprefix('tinyrmc')}"


def exports(place: str) -> dict[str, Any]:
    """{name: what one imports under it}: documented classes and functions, except what
    the package itself exports from a place of its own.
    """
    module, found = _module(place), {}
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    ]
    for name in sorted((*names, *PLACES[place]), key=lambda name: name not in FIRST):
        inside, _, last = name.rpartition(".")
        owner = importlib.import_module(f"{place}.{inside}") if inside else module
        value = getattr(owner, last)
        ours = getattr(value, "__module__", "").startswith("tinyrmc.")
        if callable(value) and ours and _says(value) and last[0] != "_":
            found[name] = value
    if place == "tinyrmc":
        found |= {name: getattr(module, name) for name in ("load", "save", "shipped")}
        elsewhere = [
            *exports("tinyrmc.cores").values(),
            *exports("tinyrmc.fused").values(),
        ]
        found = {name: x for name, x in found.items() if x not in elsewhere}
    return found


def inherited(kind: type) -> Iterator[tuple[type, list[str]]]:
    """(class, the names of what it hands down and documents), nearest first."""
    known = {*vars(kind)}
    for owner in kind.__mro__[1:]:
        own = {name: x for name, x in vars(owner).items() if name not in known}
        known |= {*own}
        names = [name for name, x in own.items() if name[0] != "_" and _documents(x)]
        if owner.__module__.startswith("tinyrmc") and names:
            yield owner, names


def _documents(member: Any) -> bool:
    if isinstance(member, property):
        member = member.fget  # such as attrgetter, which says nothing
    inner = getattr(member, "__func__", member)
    return inspect.isfunction(inner) and bool(inspect.getdoc(inner))


def _module(place: str) -> Any:
    if place == "tinyrmc.primitives":
        place = "tinyrmc.autograd.primitives"
    return importlib.import_module(place)


def _says(value: Any) -> str:
    """The first sentence of a docstring, in one line."""
    value = getattr(value, "forward", value)  # of a primitive
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.?;:]) (?=[A-Z`])", paragraph)[0]
    return sentence.replace("|", r"\|").rstrip(":;")


def _link(value: Any, name: str, label: str = "") -> str:
    """A link to where the module of a class or function documents it."""
    return f"{{py:obj}}`{label or name} <{value.__module__}.{name}>`"


def _page(place: str) -> str:
    module = _module(place).__name__
    about = rst(f".. automodule:: {module}", "   :no-members:", "   :no-index:")
    text, found = [f"# From {place}\n", about], exports(place)  # a title of its own
    if place in TABLES:
        rows = [[_link(x, name), _says(x)] for name, x in found.items()]
        return "\n".join([*text, table(["operation", "what it gives"], rows)])
    if place == "tinyrmc":
        more = ", ".join(
            f"[`{each}`]({page(each)}.md)" for each in PLACES if each != place
        )
        text.append(
            "`RelationalMemory` and the other cores, which this exports too, stand with"
            f" those of `tinyrmc.cores`. More to import: {more}.\n"
        )
    for name, value in found.items():
        kind = "class" if inspect.isclass(value) else "function"
        documented = rst(f".. auto{kind}:: {place}.{name}", "   :no-index:")
        text += [f"## {name.rpartition('.')[2]}\n", documented]
        if kind == "class":
            text += [_inherits(owner, names) for owner, names in inherited(value)]
    return "\n".join(text)


def _inherits(owner: type, names: list[str]) -> str:
    """A table of the members that come from one class; of `Module`, a mere list."""
    if owner.__name__.startswith("_"):  # its module shows nothing of it
        links, whose = {x: f"`{x}`" for x in names}, "its own base"
    else:
        links = {x: _link(owner, f"{owner.__qualname__}.{x}", x) for x in names}
        whose = _link(owner, owner.__qualname__)
    if owner.__qualname__ == "Module":
        return f"From {whose}: {', '.join(links.values())}.\n"
    says = [_says(inspect.getattr_static(owner, name)) for name in names]
    return table(
        [f"from {whose}", "what it does"], zip(links.values(), says, strict=True)
    )
