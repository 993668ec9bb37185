"""A core of one's own, in one file outside the package, is a core like any other."""

import csv
import dataclasses
import importlib
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from test_sweep import AtOnce, in_this_process
from tinyruns import TINY, output, python

import tinyrmc
from tinyrmc import cores, nn
from tinyrmc import primitives as p
from tinyrmc.cli import evaluate, generate, play, plot, report, sweep, train
from tinyrmc.config import from_json, to_json, words_of
from tinyrmc.cores import CoreConfig, build_core, describe, registry
from tinyrmc.errors import ConfigError, UsageError, UserError
from tinyrmc.results.figures import style
from tinyrmc.results.groups import command_words, parts
from tinyrmc.training import discovery
from tinyrmc.training.run import Run, task_from_dict
from tinyrmc.training.telling import idle_fields

DELTA = '''"""A memory of one matrix, in which each write replaces what was there."""

from dataclasses import dataclass

import tinyrmc
from sizes import LEAST
from tinyrmc import cores, nn
from tinyrmc import primitives as p
from tinyrmc import primitives as p


class Delta(cores.Core):
    def __init__(self, input_size, units, decay, seed):
        self.input_size, self.output_size, self.decay = input_size, units, decay
        self.layer = nn.Linear(input_size + units, units, seed=seed)

    def initial_state(self, batch_size):
        return self.zeros(batch_size, self.output_size)

    def __call__(self, inputs, state, trace=None):
        new = p.tanh(self.layer(p.concatenate([inputs, state], axis=1)))
        state = self.decay * state + (1 - self.decay) * new
        return state, state


@dataclass(frozen=True)
class FadingConfig:
    """The settings of the fading core alone."""

    units: int = 8
    """numbers that it remembers"""
    decay: float = 0.5
    """the part of them that stays"""

    def __post_init__(self):
        if self.units < LEAST:
            raise ValueError(f"model.fading.units must be at least {LEAST}")


@tinyrmc.register_core("fading", config=FadingConfig)
def build(model, input_size, seed):
    """a memory that fades"""
    return Delta(input_size, model.own.units, model.own.decay, seed)
'''
MORE = ["--model.core", "fading", "--model.fading.units", "6"]


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file with the core, and the one beside it that it imports."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "mycores.py").write_text(DELTA)
    (folder / "sizes.py").write_text("LEAST = 1\n")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    modules = {*sys.modules}
    yield folder / "mycores.py"
    for name in {*sys.modules} - modules:
        if name.startswith(discovery.PACKAGE) or name == "sizes":
            del sys.modules[name]


def run_train(*words):
    assert train.main([*map(str, words)]) == 0


@pytest.mark.slow
def test_it_trains_is_described_resumed_evaluated_reported_drawn_and_loaded(
    file, capsys, monkeypatch
):
    run_train(*TINY, "--core", file, *MORE, "--run", "one")
    run_train(*TINY, *MORE, "--run", "two", "--seed", 1)  # known by now
    run_train(*TINY, "--run", "rmc")
    out = capsys.readouterr().out
    assert "network   fading, units 6, decay 0.5, " in out
    kept = json.loads(Path("one/config.json").read_text())
    assert kept["config"]["model"]["fading"] == {"units": 6, "decay": 0.5}
    assert kept["core_files"] == [str(file)]
    assert "core_files" not in json.loads(Path("rmc/config.json").read_text())

    # a process that knows of it by the run alone
    words = "-m", "tinyrmc", "evaluate", "one", "--json", "--export", "net.npz"
    assert "test_accuracy" in json.loads(output(*words))
    assert "fading" in output("-m", "tinyrmc", "report", "one", "two", "rmc")
    assert command_words(kept).endswith(f" --core {file}")
    assert not any("--core " in part for part in parts(kept))
    load = "import tinyrmc; print(tinyrmc.load('net.npz').core)"
    assert output("-c", load).startswith("Delta(input_size=")
    net = tinyrmc.load("one")
    tinyrmc.save(net, "same.npz")
    tinyrmc.save(net.core, "core.npz")
    load = "import tinyrmc; print(tinyrmc.load({!r}{}).num_parameters)"
    assert int(output("-c", load.format("same.npz", ""))) == net.num_parameters
    assert int(output("-c", load.format("core.npz", ""))) == net.core.num_parameters
    known = f"import sys; sys.path.insert(0, {str(file.parent)!r}); import mycores; "
    discovery._brought.clear()  # as if its file had been imported as any other
    tinyrmc.save(net, "other.npz")
    done = python("-c", load.format("other.npz", ""))
    assert "other.npz: its core `fading` is not registered: import" in done.stderr
    assert int(output("-c", known + load.format("other.npz", ""))) == net.num_parameters
    discovery.load_cores([str(file)])
    steps = int(TINY[TINY.index("--train.steps") + 1])
    resume = "-m", "tinyrmc.train", "--resume", "one", "--train.steps", str(2 * steps)
    assert "fading" in output(*resume)

    plot.main(["one", "two", "rmc", "--out", "curves.png"])
    assert Path("curves.png").stat().st_size > 1000


@pytest.mark.slow
def test_every_command_finds_a_core_whose_file_has_moved(file, capsys):
    """All of them open runs in one way, and take --core."""
    run_train(*TINY, "--core", file, *MORE, "--run", "one")
    tinyrmc.save(tinyrmc.load("one").core, "core.npz")
    steps = int(TINY[TINY.index("--train.steps") + 1])
    longer = ["--resume", "one", "--train.steps", str(2 * steps)]
    cases = [
        (evaluate, ["one", "--json"], None),
        (report, ["one"], None),
        (plot, ["one", "--out", "curves.png"], None),
        (plot, ["analyses", "one"], "nothing to examine"),
        (plot, ["attention", "one"], "no slots that attend"),
        (plot, ["hops", "one"], "no memory network"),
        (plot, ["episode", "one"], "no world to play in"),
        (generate, ["one", "The"], "writes no text"),
        (play, ["box_world", "--agent", "one"], "no world to play in"),
        (train, longer, None),
    ]
    elsewhere = file.parent / "elsewhere"
    elsewhere.mkdir()
    for each in file, file.with_name("sizes.py"):
        each.rename(elsewhere / each.name)
    moved = elsewhere / file.name
    renamed = moved.with_name("ours.py")
    renamed.write_text(DELTA)
    for command, words, says in cases:
        forget()
        with pytest.raises(
            UserError, match=r"is not in .*it is now: --core FOLDER/myc"
        ):
            command.main(words)
        for given in (moved,) if command is train else (moved, renamed):
            forget()
            asked = [*words, "--core", str(given)]
            if says is None:
                assert command.main(asked) == 0
                continue
            with pytest.raises(UserError, match=says):
                command.main(asked)
    forget()
    tinyrmc.load("one")  # it was resumed with the file's new place
    forget()
    with pytest.raises(UserError, match=r"core is not in .*in Python load_cores"):
        tinyrmc.load("core.npz")
    discovery.load_cores([str(moved)])
    assert type(tinyrmc.load("core.npz")).__name__ == "Delta"


def test_another_file_in_the_place_of_a_core_is_told_and_kept(file, capsys):
    """A file that was only renamed is not."""
    run_train(*TINY, "--core", file, *MORE, "--run", "one")
    renamed, edited = file.with_name("ours.py"), file.with_name("edited.py")
    renamed.write_text(DELTA)
    edited.write_text(DELTA.replace("p.tanh", "p.sigmoid"))

    def told(command, *words):
        forget()
        capsys.readouterr()
        assert command.main([*map(str, words)]) == 0
        out, err = capsys.readouterr()
        return out, [line for line in err.splitlines() if "note: " in line]

    def later():
        return json.loads(Path("one/environment.json").read_text())["later_code"]

    changed = "note: {} has changed since this run began"
    now_edited = [changed.format("mycores.py, now edited.py,")]
    for place, notes in (file, []), (renamed, []), (edited, now_edited):
        out, found = told(evaluate, "one", "--metrics-only", "--core", place)
        assert found == notes and f" --core {place}, seed 0" in out
    file.rename(file.with_name("away.txt"))
    for place, notes in (renamed, []), (edited, now_edited):
        assert told(evaluate, "one", "--json", "--core", place)[1] == notes

    longer = "--resume", "one", "--core", renamed, "--train.steps", 16
    assert told(train, *longer)[1] == []
    file.write_text(DELTA)  # there again, but it is no longer the run's
    assert told(evaluate, "one", "--json")[1] == []
    renamed.write_text(edited.read_text())
    assert told(evaluate, "one", "--json")[1] == [changed.format("ours.py")]
    longer = "--resume", "one", "--core", edited, "--train.steps", 20
    assert told(train, *longer)[1] == [changed.format("ours.py, now edited.py,")]
    assert {k: {*x} for k, x in later().items()} == {
        "12": {"ours.py", "sizes.py"},
        "16": {"edited.py", "sizes.py"},
    }
    since = ["note: from step 16 on it ran other code, in edited.py"]
    assert told(evaluate, "one", "--json")[1] == since
    out, found = told(report, "one")
    assert "(edited.py from step 16 " in " ".join(out.split()) and found == []
    told(evaluate, "one", "--json", "--export", "one/best.npz")
    renamed.write_text(DELTA)
    notes = [*since, changed.format("edited.py, now ours.py,")]
    found = told(report, "one", "--best", "--core", renamed)[1]
    assert found == [x.replace("note", "note: one") for x in notes]


def test_two_versions_of_a_core_are_compared_by_their_runs(file, capsys, monkeypatch):
    """Each run is read with its own file, though both register one name."""
    other = file.with_name("v2") / "mycores.py"
    other.parent.mkdir()
    other.with_name("sizes.py").write_text("LEAST = 2\n")
    code = DELTA.replace("decay", "pace").replace("p.tanh", "p.sigmoid")
    other.write_text(code.replace("pace: float = 0.5", "pace: float = 0.25"))
    for seed, place in enumerate((file, other)):
        forget()
        run_train(*TINY, "--core", place, *MORE, "--run", f"g/{seed}", "--seed", seed)
    words = {str(file): "decay", str(other): "pace"}

    forget()
    capsys.readouterr()
    assert report.main(["g", "--out", "table.csv"]) == 0
    assert capsys.readouterr().err == ""
    with open("table.csv", encoding="utf-8", newline="") as rows:
        found = [row["configuration"].split()[-1] for row in csv.DictReader(rows)]
    assert found == [*words]
    assert plot.main(["g", "--out", "curves.svg"]) == 0
    assert capsys.readouterr().err == ""
    drawn = re.findall("<!-- (.*) -->", Path("curves.svg").read_text())
    assert all(place in "".join(drawn) for place in words)  # in two lines if it is long

    seen = []
    task = discovery.load_task("nth_farthest").Task
    examine = lambda self, net: seen.append("pace" in repr(net.core)) or []  # noqa: E731
    monkeypatch.setattr(task, "analyses", examine, raising=False)
    assert plot.main(["analyses", "g/0", "g/1"]) == 0 and seen == [False, True]
    assert capsys.readouterr().err == ""  # each has the other file beside it, too

    for seed, place in (0, file), (1, other), (0, file):
        task_from_dict(Run.open(f"g/{seed}").config)
        assert discovery.core_files({"fading"}) == [str(place)]  # of a run that begins
    for seed, net in (0, "g/0"), (1, "core.npz"):
        forget()
        tinyrmc.save(tinyrmc.load(f"g/{seed}").core, "core.npz")
        forget()
        tinyrmc.load(net)  # it stays, as its core must
        with pytest.raises(
            UserError, match=r"'fading' is registered already, in .*choo"
        ):
            tinyrmc.load(f"g/{1 - seed}")
    forget()
    discovery.load_cores([str(file)])  # named, it yields to no other that is
    task_from_dict(Run.open("g/0").config)
    with pytest.raises(UserError, match=r"'fading' is registered already, in .*choose"):
        discovery.load_cores([str(other)])


def forget():
    """As if this process had loaded no file with a core."""
    for each in discovery._brought:
        sys.modules.pop(discovery._own_name(each), None)
    sys.modules.pop("sizes", None)
    registry.restore({k: e for k, e in registry.cores().items() if k != "fading"})
    discovery._brought.clear()
    discovery._given.clear()


def test_every_task_and_preset_takes_it(file):
    discovery.load_cores([str(file)])
    for name in discovery.task_files():
        kind = discovery.load_task(name).Task
        for preset, (_, usual) in kind.presets.items():
            if "core" not in {x.name for x in dataclasses.fields(usual.model)}:
                continue
            model = dataclasses.replace(usual.model, core="fading")
            config = dataclasses.replace(usual, model=model)
            assert "--model.core" in words_of(config, usual), (name, preset)
            again = from_json(
                type(config), json.loads(json.dumps(to_json(config)["config"]))
            )
            assert again == config
            assert build_core(model, 5, 0).output_size == 8


def test_its_flags_are_in_the_help_and_complete(file, capsys, monkeypatch):
    with pytest.raises(SystemExit):
        train.main(["nth_farthest", "--core", str(file), "--help-all"])
    told = " ".join(capsys.readouterr().out.split())
    assert "--model.fading.units INT numbers that it remembers (default: 8)" in told
    assert "fading: a memory that fades" in told
    own, others = "--model.fading.units", "--model.num-heads"
    for words, shown, hidden in (
        (["--help"], [own, others, "--model.core NAME --help"], ["--model.dnc."]),
        (["--help", "--model.core", "fading"], [own], [others, "--model.dnc."]),
        (["--model.core=dnc", "-h"], ["--model.dnc.clip", "--model.layers"], [own]),
    ):
        with pytest.raises(SystemExit):
            train.main(["nth_farthest", *words])
        told = capsys.readouterr().out
        assert [flag in told for flag in shown + hidden] == (
            [True] * len(shown) + [False] * len(hidden)
        ), words
    with pytest.raises(UsageError, match=r"model.fading.units must be at least 1"):
        train.main(
            ["nth_farthest", "--model.core", "fading", "--model.fading.units", "0"]
        )
    with pytest.raises(UsageError, match=r"not 'fadin'; did you mean 'fading'"):
        train.main(["nth_farthest", "--model.core", "fadin"])


@pytest.mark.slow
def test_a_sweep_trains_it_beside_others(file, capsys, monkeypatch):
    def logged(words, log):
        forget()  # a process finds the core by its words alone
        return in_this_process(words, log)

    monkeypatch.setattr(sweep, "run_logged", logged)
    monkeypatch.setattr(sweep, "ThreadPoolExecutor", AtOnce)
    words = [*TINY, "--core", str(file), "--grid", "model.core=rmc,fading"]
    words += ["model.fading.units=3,5", "--run", "swept", "--jobs", "1"]
    assert sweep.main(words) == 0
    out = capsys.readouterr().out
    note = "model.fading.units is without effect on the core rmc (2 combinations)\n"
    assert out.count(note) == 2  # above what is trained, and below the table
    assert out.endswith(f"note: {note}")
    assert "4 runs, 4 to do" in out
    assert len([*Path("swept").glob("model.core=fading*/config.json")]) == 2
    assert sweep.main(["--resume", "swept"]) == 0
    report.main(["swept"])
    moved = file.rename(file.with_name("moved.py"))
    forget()
    assert sweep.main(["--resume", "swept", "--core", str(moved)]) == 0
    out = capsys.readouterr().out
    assert "fading" in out and "mycores.py, now" not in out
    moved.write_text(DELTA.replace("p.tanh", "p.sigmoid"))
    forget()
    assert sweep.main(["--resume", "swept", "--core", str(moved)]) == 0
    says = "mycores.py, now moved.py, has changed since this run began (4 runs)"
    assert says in capsys.readouterr().out


def test_a_core_of_its_own_colour_and_all_lines_look_different():
    known = [*registry.cores()]
    looks = style.looks(["fading", "rmc"])
    assert looks[0]["color"] != looks[1]["color"]
    assert looks[1]["color"] == style.COLOURS[0]  # the RMC's, beside any other
    for count in 1, 5, 20:
        several = [*known, *(f"own {k}" for k in range(count)), None, "rmc", "rmc"]
        looks = style.looks(several)
        assert len({tuple(look.values()) for look in looks}) == len(several)


def test_what_cannot_be_registered_is_refused(file):
    def build(model, input_size, seed):
        return nn.Linear(input_size, 3, seed=seed)

    with pytest.raises(ValueError, match=r"core 'lstm' is registered already, in"):
        cores.register_core("lstm", build)
    for name in "Delta", "a-b", "1st":
        with pytest.raises(ValueError, match=r"give it a name of small letters"):
            cores.register_core(name, build)

    @dataclasses.dataclass(frozen=True)
    class Needs:
        units: int

    with pytest.raises(ValueError, match=r"config must be a frozen dataclass with a"):
        cores.register_core("needs", build, config=Needs)
    cores.register_core("linear", build)
    cores.register_core("linear", build)  # a cell of a notebook, run again
    with pytest.raises(ValueError, match=r"gives a Linear; it must give a tinyrmc.cor"):
        build_core(CoreConfig("linear"), 3, 0)
    with pytest.raises(ConfigError, match=r"core must be one of rmc.*not 'fading'"):
        from_json(CoreConfig, to_json(CoreConfig())["config"] | {"core": "fading"})

    file.write_text("raise ValueError('nothing here')")
    with pytest.raises(UserError, match=r"core 'mycores' \(.*line 1\): nothing here"):
        discovery.load_cores([str(file)])
    file.write_text("x = 1")
    with pytest.raises(UserError, match=r"it registers no core; see"):
        discovery.load_cores([str(file)])
    for word, says in ("gone.py", "see register_core"), ("mycores", "mean mycores.py?"):
        with pytest.raises(
            UserError, match=r"there is no Python file.*core; .*" + says
        ):
            train.main(["nth_farthest", "--core", str(file.with_name(word))])


def test_a_distribution_can_bring_one(file, tmp_path):
    site = tmp_path / "site"
    about = site / "more_cores-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: more-cores\nVersion: 1\n"
    )
    names = "[tinyrmc.cores]\nmine = more_cores\ngone = no_such_module\n"
    (about / "entry_points.txt").write_text(names)
    (site / "more_cores.py").write_text(DELTA)
    (site / "sizes.py").write_text("LEAST = 1\n")
    path = f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    around = os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "default"}
    words = "-m", "tinyrmc.train", *TINY, *MORE, "--run", "brought"
    assert "fading, units 6" in output(*words, env=around)
    assert "core_files" not in json.loads(Path("brought/config.json").read_text())


def test_settings_of_other_cores_are_without_effect(file):
    discovery.load_cores([str(file)])
    task = discovery.load_task("nth_farthest").Task
    usual = next(iter(task.presets.values()))[1]
    (names,) = idle_fields(task(usual)).values()
    assert "model.fading" in names and "model.dnc" in names
    model = dataclasses.replace(usual.model, core="fading")
    (names,) = idle_fields(task(dataclasses.replace(usual, model=model))).values()
    assert "model.fading" not in names and "model.dnc" in names
    assert "model.mem_slots" in names  # with a config of its own it uses no others
    core = build_core(model, 3, 0)
    assert describe(model, core) == "fading, units 8, decay 0.5"
    assert core.output_size == 8 and np.isfinite(core.layer.weight.data).all()
    assert re.fullmatch(
        r"CoreConfig\(.*FadingConfig\(units=8, decay=0.5\).*", repr(model)
    )


class Named(cores.Core):
    """A core whose state is a dict, in another order after each step."""

    def __init__(self, input_size, units, seed):
        self.input_size, self.output_size = input_size, units
        self.layer = nn.Linear(input_size + units, units, seed=seed)

    def initial_state(self, batch_size):
        zeros = self.zeros(batch_size, self.output_size)
        return {"memory": zeros, "before": (zeros + 1, zeros)}

    def __call__(self, inputs, state, trace=None):
        new = p.tanh(self.layer(p.concatenate([inputs, state["memory"]], axis=1)))
        one, other = state["before"]
        return new + one * other, {"before": (other, new), "memory": new * one}


def test_a_state_may_be_a_dict_or_nested():
    core, rng = Named(3, 2, 0).astype(np.float64), np.random.default_rng(0)
    state = {"memory": rng.standard_normal((4, 2))}
    state["before"] = tuple(rng.standard_normal((2, 4, 2)))
    x = rng.standard_normal((4, 5, 3))
    tinyrmc.gradcheck(core, x[:, 0], state)
    tinyrmc.gradcheck(core.unroll, x, state)
    lstm = tinyrmc.LSTM(3, 2, dtype=np.float64, seed=0)
    tinyrmc.gradcheck(lstm, x[:, 0], tuple(rng.standard_normal((2, 4, 2))))
    found = core.unroll(x, state, lengths=np.array([0, 5, 2, 3]))[1]
    assert (found["before"][1].data[0] == state["before"][1][0]).all()
    whole, again = (core.recompute(k).unroll(x, state)[1] for k in (None, 2))
    for one, other in (
        (whole["memory"], again["memory"]),
        *zip(whole["before"], again["before"], strict=True),
    ):
        assert (one.data == other.data).all()
    kept = cores.core.state_arrays(state)
    assert [*kept] == ["state.before.0", "state.before.1", "state.memory"]
    back = cores.core.state_of(kept, like=core.initial_state(4))
    assert back["memory"] is state["memory"] and back["before"] == state["before"]


def test_a_wrong_output_size_is_the_cores(file):
    core = Named(3, 2, 0)
    core.output_size, state = 5, core.initial_state(4)
    says = r"Named says output_size = 5, and its outputs are \[4, 2\]; they must be"
    inputs = np.zeros((4, 6, 3), np.float32)
    with pytest.raises(ValueError, match=says):
        core.unroll(inputs, state)

    class Alone(Named):
        def __call__(self, inputs, state, trace=None):
            return super().__call__(inputs, state)[0]

    says = r"Alone: a step must give \(output, state\), not a Tensor"
    with pytest.raises(TypeError, match=says):
        Alone(3, 2, 0).unroll(inputs, state)


def test_a_file_that_ran_twice_has_two_classes_of_a_name(file, monkeypatch):
    monkeypatch.syspath_prepend(file.parent)
    own = importlib.import_module("mycores").FadingConfig(3)
    discovery.load_cores([str(file)])
    says = (
        r"FadingConfig\(.*\) of mycores, which is tinyrmc_tasks.mycores_\w+'s: its fi"
    )
    with pytest.raises(
        ValueError, match=says + "le ran twice, call load_cores before you"
    ):
        CoreConfig("fading", settings={"fading": own})
    sys.modules.pop("mycores")
