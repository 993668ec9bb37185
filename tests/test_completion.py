"""The Tab key in a real shell: commands, tasks, presets, flags, sets, files."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from turns import rarely

pytestmark = pytest.mark.slow
pexpect = pytest.importorskip("pexpect")
pytest.importorskip("argcomplete")
ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(sys.executable).parent / "tinyrmc"
if not (shutil.which("bash") and PROGRAM.exists()):
    pytest.skip("needs bash and the installed program", allow_module_level=True)

OWN = """import dataclasses, tinyrmc

@dataclasses.dataclass(frozen=True)
class MineConfig:
    units: int = 3

@tinyrmc.register_core("mine", config=MineConfig)
def build(model, input_size, seed):
    \"\"\"mine\"\"\"
"""


@pytest.fixture
def shell(tmp_path):
    """A bash in a pseudo-terminal that has read the one documented line."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PS1": "$ ", "TERM": "dumb"}
    environment["PATH"] = f"{PROGRAM.parent}{os.pathsep}{environment['PATH']}"
    words = ["--norc", "--noprofile", "-i"]
    size = {"dimensions": (50, 200), "cwd": tmp_path}
    with pexpect.spawn("bash", words, env=environment, timeout=60, **size) as child:
        child.sendline("bind 'set enable-bracketed-paste off'; PS1='> '")
        child.sendline('eval "$(register-python-argcomplete tinyrmc)"; echo rea""dy')
        child.expect("ready")
        child.expect("> ")
        yield child


WORDS = [
    ("tinyrmc gen", "tinyrmc generate "),
    ("tinyrmc train nth_f", "tinyrmc train nth_farthest "),
    ("tinyrmc train nth_farthest lon", "tinyrmc train nth_farthest longer "),
    ("tinyrmc train nth_farthest --model.mem", "--model.mem-slots "),
    ("tinyrmc train nth_farthest --model.core ls", "--model.core lstm "),
    ("tinyrmc train nth_farthest --seed 1 --model.core ls", "--model.core lstm "),
    ("tinyrmc train nth_farthest --model.dnc.contr", "--model.dnc.controller "),
    ("tinyrmc train nth_farthest --device cp", "--device cpu "),
    ("tinyrmc train nth_farthest --log tens", "--log tensorboard "),
    ("tinyrmc train nth_farthest --train.rms-variant k", "keras "),
    ("tinyrmc sweep nth_farthest --gri", "--grid "),
    ("tinyrmc sweep nth_farthest --grid model.mem", "model.mem_slots="),
    ("tinyrmc sweep nth_farthest --train.optimizer rm", "rmsprop "),
    ("tinyrmc train nth_farthest --run ne", "--run net.npz "),
    ("tinyrmc train nth_farthest --core ow", "--core own.py "),
    ("tinyrmc train nth_farthest --core own.py --model.core mi", "mine "),
    ("tinyrmc train nth_farthest --core own.py --model.mine.un", "mine.units "),
    ("tinyrmc sweep nth_farthest --core own.py --model.mine.un", "mine.units "),
    ("tinyrmc sweep nth_farthest --core own.py --grid model.mine", ".mine.units="),
    ("tinyrmc evaluate net.npz --core ow", "--core own.py "),
    ("tinyrmc evaluate --metr", "tinyrmc evaluate --metrics-only "),
    ("tinyrmc sweep nth_farthest lon", "tinyrmc sweep nth_farthest longer "),
    ("tinyrmc evaluate ne", "tinyrmc evaluate net.npz "),
    ("tinyrmc ass", "tinyrmc assignment "),
    ("tinyrmc prog", "tinyrmc progress "),
    ("tinyrmc grade --see", "--seed "),
    ("tinyrmc plot att", "tinyrmc plot attention "),
    ("tinyrmc plot ne", "tinyrmc plot net.npz "),
    ("tinyrmc plot attention ne", "tinyrmc plot attention net.npz "),
]


@pytest.mark.parametrize("words", [WORDS[::3], *rarely([(WORDS,)])], ids=len)
def test_the_tab_key_goes_on(words, shell):
    (Path(shell.cwd) / "net.npz").write_bytes(b"")
    (Path(shell.cwd) / "own.py").write_text(OWN)
    for begun, whole in words:
        shell.send(f"{begun}\t")
        shell.expect_exact(whole)
        shell.sendcontrol("u")


def test_help_fits_a_terminal(shell):
    shell.setwinsize(50, 80)
    shell.sendline("tinyrmc train nth_farthest --help | cat; echo do''ne")
    shell.expect("done")
    lines = shell.before.decode().splitlines()[1:]
    assert max(map(len, lines)) <= 80
    for flag in "--init", "--final-evaluation", "--max-minutes":
        shown = any(flag in line for line in lines)
        assert shown == (flag == "--max-minutes")  # the others in --help-all
