"""The settings of a module: the arguments that it was made with.

A Module keeps them when its class's `__init__` is called, so that classes of your own
have them too. They stand in its `repr`, its `config` and its files. The seed is not
among them: what it drew is in the parameters and constants. The dtype is the
parameters'.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..autograd import primitives
from ..autograd.engine import Parameter
from ..config import from_json, to_json
from ..errors import RunError

# the keys of what `described` tells of a value
FORMS: list[set[str]] = [{"same"}, {"tuple"}, {"dict"}, {"operation"}]
FORMS += [{"parameter", "dtype", "number"}, {"class", "settings", "number"}]
FORMS += [{"class", "fields"}]


class Config:
    """`module.config`: its settings by name. A class may have another `config`."""

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        return self if module is None else settings_of(module)


def settings_of(module: Any) -> dict[str, Any]:
    """{name: value} of what the module was made with."""
    found = dict(getattr(module, "_settings", {}))
    if "dtype" in found:
        kinds = (parameter.dtype for _, parameter in module.named_parameters())
        found["dtype"] = next(kinds, np.dtype(found["dtype"])).name
    return found


def shown(module: Any) -> str:
    """The `repr`: the settings that are not usual; where a dataclass has them, or there
    are none, also the modules inside.
    """
    usual = inspect.signature(type(module)).parameters
    told = []
    whole = False
    for name, value in settings_of(module).items():
        if dataclasses.is_dataclass(value):
            told.append(f"{name}={type(value).__name__}(...)")
        elif repr(value) not in (repr(usual[name].default), "'float32'"):
            told.append(f"{name}={value!r}")
            whole = True
    lines = [f"{type(module).__name__}({', '.join(told)})"]
    for name, child in () if whole else module.children():
        if hasattr(child, "named_parameters"):
            lines.append(f"  {name}: {child!r}".replace("\n", "\n  "))
    return "\n".join(lines)


def described(module: Any, known: dict | None = None) -> dict[str, Any]:
    """A module's class and settings as JSON has them; `rebuilt` takes them back. What
    comes again is told once: `known` has what was told, by id.

    RunError for a setting that is neither a number, a text, a module, a dataclass nor
    an operation of `primitives`, nor a list, tuple or dict of such.
    """
    known = {} if known is None else known
    if id(module) in known:
        return _again(known[id(module)], known)
    name = type(module).__name__
    if not hasattr(module, "_settings"):
        raise RunError(f"{name} has no settings; give the class an __init__ of its own")
    settings = {k: v for k, v in settings_of(module).items() if k != "dtype"}
    told = {
        key: encoded(f"{name}: {key}", value, known) for key, value in settings.items()
    }
    known[id(module)] = {"class": name, "settings": told}
    return known[id(module)]


def _again(told: dict[str, Any], known: dict) -> dict[str, Any]:
    """How to tell what was told before: by a number, which it now gets."""
    numbers = [each["number"] for each in known.values() if "number" in each]
    return {"same": told.setdefault("number", len(numbers))}


def classes_in(value: Any) -> list[type]:
    """The classes of the modules and dataclasses that `described` names."""
    if hasattr(value, "named_parameters"):
        return [type(value), *classes_in([*settings_of(value).values()])]
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        return [kind for each in value for kind in classes_in(each)]
    return [type(value)] if dataclasses.is_dataclass(value) else []


def encoded(owner: str, value: Any, known: dict | None = None) -> Any:
    """A setting as JSON has it; RunError for what is none, naming its owner. Parameters
    and what comes again only with `known`, see `described`.
    """
    try:
        return _encoded(owner, value, known)
    except RecursionError:
        says = (
            f"{owner} holds itself, or too much in each other, so no file can hold it"
        )
        raise RunError(says) from None


def _encoded(owner: str, value: Any, known: dict | None) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [encoded(owner, each, known) for each in value]
    if isinstance(value, tuple):
        return {"tuple": encoded(owner, [*value], known)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encoded(owner, x, known) for key, x in value.items()}}
    if hasattr(value, "named_parameters"):
        return described(value, known)
    if isinstance(value, Parameter) and known is not None:
        if id(value) in known:
            return _again(known[id(value)], known)
        known[id(value)] = {"parameter": [*value.shape], "dtype": value.dtype.name}
        return known[id(value)]
    if _operation(name := getattr(value, "__name__", "")) is value:
        return {"operation": name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, "fields": to_json(value)["config"]}
    raise RunError(
        f"{owner} is a {type(value).__name__}, which a file cannot hold; use numbers, "
        "texts, modules, dataclasses, primitives, and lists, tuples or dicts (by texts)"
    )


def _operation(name: str) -> Any:
    """The operation that `tinyrmc.primitives` defines by this name, or ... if none."""
    found = vars(primitives).get(name, ...)
    return found if getattr(found, "__module__", "") == primitives.__name__ else ...


def rebuilt(told: Any, classes: Mapping[str, Any], made: dict | None = None) -> Any:
    """The value that `described` has told; modules and dataclasses are of `classes`.
    `made` has what will come again, by number.
    """
    made = {} if made is None else made
    if isinstance(told, list):
        return [rebuilt(each, classes, made) for each in told]
    if not isinstance(told, dict):
        return told
    if not any(told.keys() <= form for form in FORMS):
        raise ValueError(
            f"{', '.join(map(repr, told))} is unknown here; upgrade tinyrmc"
        )
    if "same" in told:
        return made[told["same"]]
    if "tuple" in told:
        return tuple(rebuilt(told["tuple"], classes, made))
    if "dict" in told:
        return {key: rebuilt(x, classes, made) for key, x in told["dict"].items()}
    if "parameter" in told:
        value = Parameter(np.zeros(told["parameter"], told["dtype"]))
        return made.setdefault(told.get("number"), value) if "number" in told else value
    if "operation" in told:
        if (found := _operation(name := told["operation"])) is ...:
            raise ValueError(f"primitives.{name} is unknown here; upgrade tinyrmc")
        return found
    if (name := told["class"]) not in classes:
        raise ValueError(f"it was made by a class {name}; give classes=[{name}]")
    kind = classes[name]
    if "fields" in told:
        return from_json(kind, told["fields"], name)
    signature = inspect.signature(kind)
    settings = told["settings"].items()
    given = {key: rebuilt(value, classes, made) for key, value in settings}
    if unknown := given.keys() - signature.parameters.keys():
        raise ValueError(f"{name} has no setting {', '.join(sorted(unknown))}")
    if "seed" in signature.parameters:
        given["seed"] = 0  # all that it draws is replaced
    bound = inspect.BoundArguments(signature, given)  # type: ignore[arg-type]
    module = kind(*bound.args, **bound.kwargs)
    if "number" in told:
        made[told["number"]] = module
    return module
