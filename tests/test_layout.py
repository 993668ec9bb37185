"""The house has floors: every module imports only from its own floor or from below, the
commands do not import each other, and nothing runs in a circle.
"""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "tinyrmc"
OURS = "tinyrmc."
COMMANDS = {*"train evaluate plot generate play sweep report data new".split()}
COMMANDS |= {*"progress grade assignment".split()}
FLOORS = [
    {*"errors equations backend config".split()},
    {"autograd"},
    {"fused"},
    {"nn", "optim"},
    {"cores", "corpora", "environments"},
    {"training"},
    {"results"},
    {"__init__"},  # the package's face
    {"cli", "course"},
]


FILES = {
    ".".join(file.relative_to(PACKAGE).with_suffix("").parts): file
    for file in sorted(PACKAGE.rglob("*.py"))
    if file.parent.name != "tasks"
}


def imported(name, text, names):
    """The imports of a module: a module's name for each thing, `__init__` for the
    face's own.
    """
    found, package = set(), ["tinyrmc", *name.split(".")[:-1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join(base + (node.module.split(".") if node.module else []))
            found |= {f"{base}.{alias.name}" for alias in node.names}
    inside = {each.partition(".")[2] for each in found if f"{each}.".startswith(OURS)}
    return {next(n for n in _modules_of(each) if n in names) for each in inside}


def _modules_of(place):
    """The modules that "cores.core.Core" may be of, the first first."""
    parts = place.split(".") if place else []
    for length in range(len(parts), -1, -1):
        yield from (".".join(parts[:length]), ".".join([*parts[:length], "__init__"]))


# {dotted name below tinyrmc: the names it imports from tinyrmc}, lazy ones too
MODULES = {
    name: imported(name, file.read_text(encoding="utf-8"), FILES)
    for name, file in FILES.items()
}


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


def test_an_import_of_the_face_is_seen():
    for name, text, room in (
        ("nn.layers", "from .. import load", "__init__"),
        ("equations", "from . import RelationalMemory", "__init__"),
        ("nn.layers", "import tinyrmc", "__init__"),
        ("nn.layers", "def f():\n    from tinyrmc import save", "__init__"),
        ("nn.layers", "from .. import cores", "cores.__init__"),
        ("nn.layers", "import tinyrmc.cores.core as c", "cores.core"),
        ("nn.layers", "from ..cores.core import Core", "cores.core"),
    ):
        assert imported(name, text, MODULES) == {room}
        assert floor(room) > floor(name)


def test_every_room_has_a_floor():
    outside = {"__main__", "train"}
    assert {name for name in MODULES if floor(name) is None} == outside


def test_no_module_knows_a_task_by_its_name():
    """Texts in the code, docstrings aside, which may give examples of commands. Worlds,
    texts and courses have names of their own, and help begins with one example.
    """
    tasks = {file.stem for file in (PACKAGE.parent / "tasks").glob("*.py")}
    assert "babi" in tasks
    rooms = {"course", "environments", "corpora"}
    own = {"cli.data": {"babi"}, "cli.new": {"recall"}, "__main__": {"nth_farthest"}}
    own["results.text"] = {"recall"}  # a share, whatever the task
    for name in MODULES:
        if name.split(".")[0] not in rooms:
            tree = ast.parse(FILES[name].read_text(encoding="utf-8"))
            known = {*re.findall(r"\w+", " ".join(texts(tree)))} & tasks
            assert known <= own.get(name, set()), (name, known)


def texts(tree):
    """The texts of a module, its docstrings aside."""
    told = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in told:
            if isinstance(node.value, str):
                yield node.value


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
