"""The house has floors: every module imports only from its own floor or from below, the
commands do not import each other, and nothing runs in a circle.
"""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "tinyrmc"
COMMANDS = {*"train evaluate plot generate play sweep report data new".split()}
FLOORS = [
    {*"errors equations backend config".split()},
    {"autograd"},
    {"fused"},
    {"nn", "optim"},
    {"cores", "corpora", "environments"},
    {"training"},
    {"results"},
    {"cli", "course"},
]


def modules():
    """{dotted name below tinyrmc: the names it imports from tinyrmc}, lazy ones too."""
    files = [f for f in sorted(PACKAGE.rglob("*.py")) if f.parent.name != "tasks"]
    names = {".".join(f.relative_to(PACKAGE).with_suffix("").parts): f for f in files}
    return {name: imported(name, file, names) for name, file in names.items()}


def imported(name, file, names):
    found, package = set(), name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                whole = ".".join([*base, alias.name])
                found.add(whole if whole in names else ".".join(base))
    return {each if each in names else f"{each}.__init__" for each in found if each}


MODULES = modules()


def floor(name):
    top = name.split(".")[0]
    return next((k for k, rooms in enumerate(FLOORS) if top in rooms), None)


def test_a_module_imports_only_from_its_floor_or_below():
    above = {
        name: [to for to in targets if (floor(to) or 0) > floor(name)]
        for name, targets in MODULES.items()
        if floor(name) is not None
    }
    assert {name: names for name, names in above.items() if names} == {}


def test_every_room_has_a_floor():
    outside = {"__init__", "__main__", "train"}
    assert {name for name in MODULES if floor(name) is None} == outside


def test_commands_do_not_import_each_other():
    for name in COMMANDS:
        others = {f"cli.{command}" for command in COMMANDS - {name}}
        assert not MODULES[f"cli.{name}"] & others


def test_no_imports_run_in_a_circle():
    inits = {name for name in MODULES if name.endswith("__init__")}
    graph = {
        name: targets - inits - {name}
        for name, targets in MODULES.items()
        if name not in inits
    }
    TopologicalSorter(graph).prepare()  # raises CycleError
