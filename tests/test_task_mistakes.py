"""Mistakes in a task of your own.

One line says where in its file, or what was expected, before there is a run directory.
"""

import importlib
import re
import sys
from pathlib import Path

import pytest
from owntask import LARGER
from tinyruns import contents
from tinytasks import forks

from tinyrmc.cli import evaluate, plot, train
from tinyrmc.cli.commands import run_main
from tinyrmc.cli.new import example, write_example
from tinyrmc.config import flag_of
from tinyrmc.training import discovery

pytestmark = pytest.mark.usefixtures("empty_directory")


@pytest.fixture
def mistaken(monkeypatch, tmp_path_factory):
    """Drops in the task `larger` with some of its text replaced.

    Returns the number of the line on which the last new text begins.
    """
    folder = tmp_path_factory.mktemp("mistaken") / "tasks"
    folder.mkdir()
    monkeypatch.setattr(discovery, "FOLDER", folder)

    def drop(*pairs):
        sys.modules.pop("tinyrmc_tasks.larger", None)
        text, at = LARGER, 0
        for old, new in pairs:
            assert text.count(old) == 1
            at = text.index(old)
            text = text.replace(old, new)
        (folder / "larger.py").write_text(text)
        return text.count("\n", 0, at) + 1

    yield drop
    sys.modules.pop("tinyrmc_tasks.larger", None)


DRAWN = "inputs = rng.normal(size=shape).astype(np.float32)"
TARGET = '"target": inputs.argmax(1)}'
BUILT = "return nn.MLP(numbers, [*hidden, numbers], seed=rng)"
GIVES = 'model(batch["inputs"])'
LOST = f"logits = {GIVES}"
METRICS = 'metrics = {"accuracy": (right, losses.size)}'
REFERENCES = "    def references"
MARKS = 'return {"test_accuracy": {"guessing": guessing, "paper (wide)": 0.99}}'
RETURNED = "return primitives.sum(losses), losses.size, metrics, None"


@pytest.mark.slow
def test_a_mistake_has_a_place(mistaken, refused):
    for workers in ["", "--workers 1", "--workers 2"]:
        for old, part, other, place, says in [
            (DRAWN, ".as", ".reshape(7, -1).as", "draw", "cannot reshape array of .*"),
            (DRAWN, "rng.normal", "self.confg", "draw", "AttributeError: .* 'confg'"),
            (BUILT, "[*hidden, numbers]", "4", "build", "MLP: output_sizes must li.*"),
            (BUILT, BUILT, "nn.Linear(0, 4, seed=0)", "build", "Linear: .*, not 0"),
            (LOST, "inputs", "input", "loss", "KeyError: 'input'"),
            (LOST, LOST, "import of_nobody", "loss", "ModuleNotFoundError: .*_nobody'"),
            (LOST, '"]', '"][:, :1]', "loss", r"linear\(float32\[1, 1\], .*"),
            (
                LOST,
                GIVES,
                f"np.tanh({GIVES})",
                "loss",
                r".* write primitives\.tanh, .*",
            ),
        ]:
            line = mistaken((old, old.replace(part, other)))
            assert re.fullmatch(
                f"tasks/larger.py, line {line}, in {place}: {says}",
                refused(train.main, "larger", *workers.split()),
            )


@forks
def test_a_mistake_in_a_worker_process_has_a_place(mistaken, capsys):
    imports = "import numpy as np\n"
    fails = (
        "\n        if multiprocessing.parent_process():"
        '\n            raise IndexError("here")'
    )
    line = 2 + mistaken(
        (imports, f"import multiprocessing\n{imports}"), (LOST, LOST + fails)
    )
    with pytest.raises(SystemExit) as caught:
        run_main(lambda: train.main(["larger", "--workers", "2"]))
    assert caught.value.code == 2
    says = f"tasks/larger.py, line {line}, in loss: IndexError: here\n"
    assert capsys.readouterr().err == f"error: worker 1: {says}"


def test_our_own_mistakes_are_left_whole(mistaken, monkeypatch, capsys):
    mistaken()
    monkeypatch.setattr(train, "_trainer", lambda *_, **__: {}["ours"])
    with pytest.raises(KeyError, match="ours"):
        run_main(lambda: train.main(["larger"]))
    with pytest.raises(ModuleNotFoundError, match="of_nobody"):
        run_main(lambda: importlib.import_module("tinyrmc.of_nobody"))
    assert contents() == {} and capsys.readouterr().err == ""


def test_what_is_not_installed_is_told(refused):
    says = refused(lambda words: importlib.import_module("of_nobody"))
    assert says.startswith("of_nobody is not installed for ")


FIELD = '"""how many numbers"""'
NUMBERS = "    numbers: int = 2"
DRAWS = f'return {{"inputs": inputs, {TARGET}'
LISTED = "    sizes: list[int] = field(default_factory=list)"
GIVEN = [  # (a line of the task, a part of it, another in its place, what is said)
    (METRICS, "(right, losses.size)", "right / losses.size", "(sum, count)}, not 'acc"),
    (METRICS, "right", "primitives.mean(losses)", "not 'accuracy': (Tensor("),
    (METRICS, "right", "None", "'accuracy': (None, 1); sum and count"),
    (METRICS, "accuracy", "gradient_norm", "'gradient_norm', a name that the training"),
    (METRICS, "accuracy", "step", "calls a metric 'step', a"),
    (METRICS, "accuracy", "share", "it gives test_loss, "),
    *(
        (METRICS, "}", f", '{name}': (1, 1)}}", f"() calls a metric '{name}'")
        for name in ("test_accuracy", "best_batch_accuracy", "stage", "loss")
    ),
    (RETURNED, "metrics", "None", "count, {metric: (sum, count"),
    (RETURNED, "primitives.sum(losses)", "losses", "with one number, not Tensor("),
    (RETURNED, "losses.size", "'many'", "not 'loss': (array("),
    (RETURNED, "losses.size", "-losses.size", "the count of its losses, not -1"),
    (LOST, "model", "primitives.stop_gradient", "on no parameter; was somethi"),
    (
        FIELD,
        FIELD,
        f"{FIELD}\n    bits = 6",
        "bits has no type, so it is not a flag; w",
    ),
    *(
        (FIELD, FIELD, f"{FIELD}\n    {name}: int = 6", f"{flag_of(name)} needs anoth")
        for name in ("seed", "help", "resume", "help_all")
    ),
    (NUMBERS, "2", "2.5", "Config: Config.numbers must"),
    (
        NUMBERS,
        NUMBERS,
        f"{LISTED}\n{NUMBERS}",
        "sizes: list[int] cannot be a flag; use",
    ),
    ("def build(self, seed)", "build", "make", "ImportError: its class Task lacks bui"),
    ("def draw(self, rng", "draw", "make", "a method draw, data, or stream and held_o"),
    (TARGET, "inputs.argmax(1)", "np.zeros(count + 1, int)", "'target' of draw() has"),
    (DRAWS, DRAWS, "return inputs, 1", "draw() must return {name: array}, not a tuple"),
    (BUILT, "return ", "", "Task.build() must return a Module, not a"),
    (MARKS, MARKS, "guessing", "references() must return a dict, not a NoneType"),
    (MARKS, MARKS, "return {'test_loss': 3}", "{label: number}}, not 'test_loss'"),
    (MARKS, MARKS, "return {'test_loss': {'a': None}}", "give {metric: {label: numbe"),
    *(
        ('"quick": (', '"quick"', repr(name), f"named by words, not by {name!r}")
        for name in (1, "../x", "--quick", "")
    ),
    ("(self, model, batch, carry)", ", carry", "", "batch, carry), and takes "),
    ("(self, rng, count)", ", count", "", "must take (self, rng, count), and takes "),
    (
        "class Task(BaseTask)",
        "(BaseTask)",
        "",
        "defines no class Task(training.Task) w",
    ),
    ("examples = 200", "200", "0", "Task.test_examples must be at least 1, not 0"),
]
LOADS = "def load_state(self, state):\n        self.stage = state['stage']\n\n"
GIVEN += [
    (REFERENCES, REFERENCES, f"    {own}\n\n{REFERENCES}", says)
    for own, says in [
        ("def stream(*_):\n        pass", "must return a Stream, not a NoneType"),
        ("def place(self, step):\n        return {'loss': 3}", "Task.place() calls a"),
        ("def place(self, step):\n        return 3", "must return a dict, not a int"),
        ("def state(self):\n        return {}", "Task must have both state and"),
        (LOADS, "Task must have both state and load_state, or neither: in workers"),
        (
            f"{LOADS}    def state(self):\n        return {{'stage': np.zeros(2)}}",
            "Task.state() must give what JSON holds: Object of type ndarray is not JSO",
        ),
        (
            f"{LOADS}    def state(self):\n        return {{'rung': 0}}",
            "larger.py, line 93, in load_state: KeyError: 'stage'",
        ),
        (f"{LOADS}    def state(self):\n        pass", "state() must return a dict"),
        ("def held_out(self, split):\n        pass", "92, must take (self), and"),
        (
            "splits = ('test', 'last')\n\n    def held_out(self):\n        pass",
            "Task.held_out, in line 94, must take (self, split), and takes (self)",
        ),
        ("def pictures(self, model):\n        pass", "must take (self, model, f"),
    ]
]


@pytest.mark.slow
def test_what_a_task_gives_is_checked(mistaken, refused):
    imports = "from dataclasses import dataclass, field\n"
    for line, part, other, says in GIVEN:
        new = line.replace(part, other)
        mistaken((imports, f"{imports}from pathlib import Path\n"), (line, new))
        told = refused(train.main, "larger")
        assert says in told, (says, told)
        assert contents() == {}


def test_a_preset_that_cannot_be_says_why_alone(mistaken, refused):
    mistaken(("evaluate_every=10", "evaluate_every=8"))
    told = refused(train.main, "larger")
    assert re.fullmatch(
        r"task 'larger' \(.*larger\.py, line \d+\): train\.evaluate_every \(8\) must "
        r"be a multiple of train\.log_every .*",
        told,
    )


def test_an_error_of_two_lines_is_two_sentences(mistaken, refused):
    mistaken((LOST, 'logits = model(batch["inputs"]) + np.ones((7, 9), np.float32)'))
    told = refused(train.main, "larger")
    assert re.search(r"shapes \S+ \S+. Shapes must broadcast", told), told


def test_a_script_that_leaves_is_no_task(empty_directory, refused):
    Path("script.py").write_text("import sys\n\nsys.exit(0)\n")
    says = "script.py, line 3) cannot be imported: SystemExit: 0"
    assert refused(train.main, "script.py").endswith(says)


def test_constants_and_properties_are_no_fields(mistaken, capsys):
    kept = (
        "\n    kinds: typing.ClassVar = (1, 2)"
        "\n    _hidden = 3\n"
        "\n    @property"
        "\n    def twice(self):"
        "\n        return 2\n"
    )
    mistaken(
        ('"""how many numbers"""', '"""how many numbers"""' + kept),
        ("import numpy as np\n", "import typing\nimport numpy as np\n"),
    )
    assert train.main(["larger", "--train.steps", "5"]) == 0


def test_what_an_agent_sees_of_a_world(refused, capsys):
    write_example("blind", kind="world")
    text = Path("blind.py").read_text()
    Path("blind.py").write_text(text.replace('"view"', '"picture"'))
    says = "model.encoder conv needs a view of at least 3 cells a side, not 0 x 0"
    found = refused(train.main, "blind.py", "--model.encoder", "conv")
    assert found.startswith(says)
    Path("unsolved.py").write_text(text.replace("def succeeds", "def solves"))
    assert "its class Task lacks succeeds" in refused(train.main, "unsolved.py")
    write_example("seen", kind="world")
    says = "by model.sight rgb as its pixels(); write those"
    assert says in refused(train.main, "seen.py", "--model.sight", "rgb")
    words = ["seen.py", "--train.steps", "2", "--workers", "1"]
    text = text.replace("observation = {", 'observation = {"map": Codes((2, 3), 3), ')
    text = text.replace(SEEN, f'{SEEN}, "map": np.zeros((len(seen), 2, 3), np.uint8)')
    Path("mapped.py").write_text(text)
    assert train.main(["mapped.py", *words[1:]]) == 0
    assert "plot episode" not in capsys.readouterr().out  # it cannot be drawn


SEEN = '"view": seen.astype(np.uint8)[:, None, None]'
ENDED = "return Outcome(reward, turned, late, final)"


def test_what_a_world_gives_is_checked(refused):
    for old, new, says in [
        ("def observe(", "def show(", "Junction lacks observe, which every world giv"),
        ("    noise = start_noise = 1", "    start_noise = 1", "Junction lacks noise"),
        ("    @functools.cached_property\n", "", "Task.world must be a property that"),
        (SEEN, SEEN.replace("uint8", "float32"), "['view'] must be uint8[2, 1, 1]"),
        (SEEN, SEEN.replace(", None]", "]"), "for two levels, not uint8[2, 1]"),
        ("nothing.copy()", "nothing", "must be arrays that share no memory, not"),
        (ENDED, "return reward, turned, late, final", "Junction._step() must be an"),
        (
            ENDED,
            ENDED.replace("reward", "reward.astype(int)"),
            "the reward of Junction._step() must be float32[2] for two levels, not int",
        ),
        (ENDED, ENDED.replace("reward", "reward.sum()"), "two levels, not float32[]"),
        ("renew(state, turned", "(state, turned", "Junction._step() must change the"),
        (
            'state["place"], state["age"]\n        turned',
            'state["place"].copy(), state["age"].copy()\n        turned',
            "Junction._step() must change the arrays of `state` in place, and begin",
        ),
        ("return outcome.reward == 1", "outcome.reward == 1", "Task.succeeds() must"),
        ("return outcome.reward == 1", "return outcome.reward", "Task.succeeds() must"),
    ]:
        text = example("world")
        assert text.count(old) == 1
        Path("mistaken.py").write_text(text.replace(old, new))
        assert says in refused(train.main, "mistaken.py", "--train.steps", "1")
        assert [*contents()] == [Path("mistaken.py")]
        for name in [x for x in sys.modules if x.startswith("tinyrmc_tasks.mistaken")]:
            del sys.modules[name]


def test_an_evaluate_of_your_own_must_give_the_headline(mistaken, capsys):
    """Found at the first evaluation: it cannot be tried with one example before."""
    own = """
    def evaluate(self, *places):
        return {"loss": (1.0, 1)}
"""
    mistaken(("    success = 0.8\n", f"    success = 0.8\n{own}"))
    flags = "--train.steps 10 --train.evaluate-every 5 --workers 1 --run run"
    says = "headline asks for 'test_accuracy', which evaluation does not give; it giv"
    with pytest.raises(SystemExit):
        run_main(lambda: train.main(["larger", *flags.split()]))
    assert says in capsys.readouterr().err


def test_what_is_asked_at_the_end_is_told_in_one_line(pictures, mistaken, capsys):
    own = "    def {}(self, *of):\n        return {}\n\n"
    both = own.format("pictures", "None") + own.format("analyses", "{'sizes': 3}")
    mistaken((REFERENCES, both + REFERENCES))
    few = ["larger", "--train.steps", "1", "--workers", "1", "--run", "run"]
    for main, words, says in [
        (train.main, few, "Task.pictures() must return a list, not a NoneType"),
        (evaluate.main, ["run"], "Task.analyses() must return a list, not a dict"),
        (plot.main, ["analyses", "run"], "analyses() must return a list, not a dict"),
    ]:
        with pytest.raises(SystemExit):
            run_main(lambda: main(words))
        assert says in capsys.readouterr().err


def test_a_configuration_without_a_docstring_has_no_heading(mistaken, capsys):
    mistaken(('    """Everything."""\n\n', ""))
    for words in ["--help"], ["--help-all"]:
        with pytest.raises(SystemExit):
            train.main(["larger", *words])
        assert "\nlarger:\n  --numbers" in capsys.readouterr().out


def test_a_preset_that_was_renamed_is_named(mistaken, refused):
    mistaken()
    few = ["--train.steps", "1", "--workers", "1"]
    assert train.main(["larger", *few, "--run", "run"]) == 0
    sys.modules.pop("tinyrmc_tasks.larger")
    mistaken(('"quick": (', '"fast": ('))
    says = (
        "run is a run of the preset 'quick', which its task no longer has; it has fas"
    )
    assert refused(train.main, "--resume", "run").startswith(says)


def test_where_lower_is_better_only_what_a_task_says_is_a_success(mistaken):
    for success in [None, 0.2, 0.9]:
        own = f"    success = {success}\n" if success else ""
        mistaken(("    success = 0.8\n", f'    headline = "loss"\n{own}'))
        kind = discovery.load_task("larger").Task
        assert kind.success == type("Heir", (kind,), {}).success == success
