"""A text of your own by its path: how it is cut, and a run on it, from its first step
to what it writes.
"""

import gzip
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import tinyrmc
from tinyrmc import corpora
from tinyrmc.cli import evaluate, generate, plot, report, sweep, train
from tinyrmc.corpora.own import BLOCK, tokens_of, unit_of

pytestmark = pytest.mark.usefixtures("caches")

WORDS = "the cat sat, and don't you see other well-known cats there?".split()
SIGNS = "天地玄黃宇宙洪荒日月盈昃辰宿列張"
MODEL = (
    "language_modeling --train.steps 6 --train.evaluate-every 3 --train.log-every 3 "
    "--model.core lstm --train.batch-size 4 --model.layers 1 --model.hidden-size 8 "
    "--model.embedding-size 8 --data.window 5 --data.lanes 2 --workers 1 --no-compiled"
).split()


def lines(pieces, between, count=400, seed=0):
    rng = np.random.default_rng(seed)
    rows = (rng.choice(pieces, rng.integers(3, 9)) for _ in range(count))
    return "".join(f"{between.join(row)}\n" for row in rows)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("texts").mkdir()
    Path("texts/my.txt").write_text(lines(WORDS, " "))
    Path("texts/signs.txt").write_text(lines([*SIGNS], ""), encoding="utf-8")
    return tmp_path


# --- How it is cut --------------------------------------------------------------------


def test_tokens():
    text = "Don't stop_it, it's well-known: 9 cafe\u0301s \u2019tis <unk>\r\nEnd"
    assert tokens_of(text, "spaces") == [*text.split()[:-1], "<eos>", "End"]
    assert tokens_of(text, "words") == (
        "Don't stop_it , it's well-known : 9 caf\u00e9s \u2019 tis < unk > <eos> End"
    ).split(" ")
    signs = tokens_of(text, "characters")
    assert "".join(signs) == text.replace("e\u0301", "\u00e9").replace("\r\n", "<eos>")
    assert signs.count("<eos>") == 1 and signs.count(" ") == 7
    assert tokens_of("\u0939\u093f\u0928\u094d\u0926\u0940 \u0939\u0948", "words") == [
        "\u0939\u093f\u0928\u094d\u0926\u0940",
        "\u0939\u0948",
    ]  # marks are part of their letters


def test_a_text_without_spaces_is_noticed():
    for text, unit in [
        ("It was the best of times, it was the worst of times.\n", "words"),
        ("Donaudampfschifffahrtsgesellschaft und Rechtsschutzversicherung\n", "words"),
        ("def f(x):\n    return some_long_name(x, other_long_name=[1, 2])\n", "words"),
        ("동해 물과 백두산이 마르고 닳도록\n", "words"),
        ("天 地 玄黃 \uff0c 宇宙 洪荒 。\n", "words"),  # cut into words already
        ("床前明月光\uff0c疑是地上霜。\n舉頭望明月\uff0c低頭思故鄉。\n", "characters"),
        ("吾輩は猫である。名前はまだ無い。\n", "characters"),
        ("ประเทศไทยรวมเลือดเนื้อชาติเชื้อไทย\n", "characters"),
        ("ACGTTGCA" * 20 + "\n", "characters"),
        ("", "words"),
    ]:
        assert unit_of(text) == unit, text


def test_its_parts_are_the_text(here):
    """Each token once, in order; what training has just once, and never, is <unk>."""
    text = lines([*WORDS, "nowhere\u00e9"], " ", 3 * BLOCK // 50) + "once"
    for unit, split in [
        ("words", (0.8, 0.1)), ("spaces", (0.5, 0.3)), ("characters", (0.9, 0.05)),
    ]:  # fmt: skip
        Path("a.txt").write_text("once " + text, encoding="utf-8")
        corpus = corpora.own("a.txt", split, unit)
        ids = [corpus.texts[part] for part in corpora.PARTS]
        found = corpus.vocabulary.decode(np.concatenate(ids))
        assert corpus.unit == unit
        expected = tokens_of("once " + text, unit)
        if unit != "characters":
            expected = ["<unk>" if x == "once" else x for x in expected]
        assert found == expected
        shares = np.cumsum([len(x) for x in ids])[:2] / len(found)
        np.testing.assert_allclose(shares, np.cumsum(split), atol=0.012)
        ends = [corpus.vocabulary.words[x[-1]] for x in ids[:2]]
        assert ends == ["<eos>", "<eos>"]
    with gzip.open("b.txt", "wt", encoding="utf-8") as file:
        file.write("once " + text)
    packed = corpora.own("b.txt", split, unit)
    assert packed.checksum == corpus.checksum
    assert len(corpora.own("b.txt", split, "words", 5).vocabulary) == 5


def test_a_text_that_repeats_itself_is_told(tmp_path):
    """As `cat *.txt` makes it where a copy lies beside each file."""
    rows = "".join(
        f"This is sentence {k} of a text of some length.\n" for k in range(400)
    )
    most = "most sentences of the test text stand in the train text"
    lines = rows.splitlines(keepends=True)
    rng = np.random.default_rng(0)
    short = "".join(f"{' '.join(row)}.\n" for row in rng.choice(WORDS, (1500, 6)))
    signs = " ".join(rng.choice([*"!?.,;:+-*/=()"], 6000)) + "\n"
    dna = "".join(rng.choice([*"acgt"], 6000))
    for text, told in [
        (rows, ""),
        (rows + rows.upper(), most),
        (rows + rows.replace(".", ""), most),
        (
            "".join([*lines, *lines[:8]]),
            r"\d\d% of the passages of the test text",
        ),
        ("".join(f"{k} {x}" for k, x in enumerate(lines + lines)), most),
        (short, ""),
        ("".join(rng.permutation(4 * short.splitlines(keepends=True))), most),
        (signs, ""),
        (signs + signs, most),
        (dna + "\n", ""),
        (f"{dna}\n{dna}\n", most),
    ]:
        (tmp_path / "my.txt").write_text(text)
        notes = [x for x in corpora.own(tmp_path / "my.txt").notes if " test text" in x]
        assert bool(notes) == bool(told) and all(re.match(told, x) for x in notes)


def test_what_is_no_text_is_refused_in_a_line(here, refused):
    texts = {
        "there is no text x.txt; give its path, or its folder with --data-dir": None,
        "x.txt has no words in it": b"\xef\xbb\xbf\r\n \n",
        "no word comes twice in the training part of x.txt": " ".join(
            map(chr, range(97, 123))
        ).encode(),
        "the validation text of x.txt (split 0.9 0.05) is empty": b"a a",
        "too few for": b"a a\n" * 9,
        "x.txt is not UTF-8 at byte 3 (0xe9)": "caf\u00e9 ".encode("latin-1") * 99,
        "x.txt has a zero at byte": "a cat ".encode("utf-16") * 99,
        "x.txt is a zip archive and no text": b"PK\x03\x04 a cat",
    }
    for says, content in texts.items():
        if content is not None:
            Path("x.txt").write_bytes(content)
        assert says in refused(train.main, *MODEL, "--data.text", "x.txt")
    for words, says in [
        ("--data.text texts", "texts is a folder; name a text file in it"),
        ("--data.split 0.9 0.1", "data.split must be two shares above 0"),
        ("--data.split 0.9", "takes FLOAT FLOAT"),
        ("--data.tokens letters", "{words,spaces,characters}|None, not"),
    ]:
        assert says in refused(train.main, *MODEL, *words.split())
    assert not Path("runs").exists()


# --- A run ----------------------------------------------------------------------------


def test_a_run_on_a_text_of_your_own(here, capsys, monkeypatch, refused):
    """From another folder too; where the text has moved; not where it has changed."""
    for name, unit in (("my", "words"), ("signs", "characters")):
        text = ["--data.text", f"texts/{name}.txt", "--data.split", "0.8", "0.1"]
        assert train.main([*MODEL, *text, "--run", name]) == 0
        printed = capsys.readouterr().out
        assert f"{unit} to train, validate and test, " in printed
        assert ("has hardly a space" in printed) == (name == "signs")
        told = json.loads(Path(name, "config.json").read_text())
        assert told["config"]["data"]["text"] == f"{name}.txt"
        # the command that it prints writes words of this text
        (command,) = (x for x in printed.splitlines() if x.startswith("generate"))
        *_, run, prompt = shlex.split(command)
        assert run == name
        assert generate.main([run, prompt, "--words", "30", "--no-unk"]) == 0
        written = capsys.readouterr().out
        known = {*SIGNS} if name == "signs" else {*tokens_of(" ".join(WORDS), "words")}
        pieces = [*written] if name == "signs" else written.split()
        assert {*pieces} <= {*known, "\n"} and len(pieces) > 10
    monkeypatch.chdir(Path("texts"))
    assert train.main(["--resume", "../my", "--train.steps", "8"]) == 0
    assert evaluate.main(["../my", "--metrics-only", "--export", "my.npz"]) == 0
    assert report.main(["../my", "../signs"]) == 0
    assert "--data.text my.txt" in capsys.readouterr().out.replace("\n", " ")
    assert plot.main(["../my", "--out", "curve.png"]) == 0
    network = tinyrmc.load("../my")
    again = tinyrmc.load("my.npz", data_dir=Path())
    for key, x in network.arrays().items():
        np.testing.assert_array_equal(x, again.arrays()[key])
    Path("moved").mkdir()
    Path("my.txt").rename("moved/my.txt")
    assert "there is no text" in refused(evaluate.main, "../my")
    assert evaluate.main(["../my", "--data-dir", "moved", "--metrics-only"]) == 0
    Path("my.txt").write_text(Path("moved/my.txt").read_text().replace("cat", "dog"))
    says = "the data here are not those that the run learnt from"
    for command, words in ((evaluate, ["../my"]), (train, ["--resume", "../my"])):
        assert says in refused(command.main, *words)


@pytest.mark.slow
def test_a_sweep_over_a_text_and_its_name(here):
    """Texts of one name in two folders are two texts."""
    Path("other").mkdir()
    Path("other/my.txt").write_text(lines(WORDS, " ", seed=1))
    grid = ["--grid", "train.learning_rate=0.1,0.01", "--run", "sweep"]
    assert sweep.main([*MODEL, "--data.text", "texts/my.txt", *grid]) == 0
    for folder in ("texts", "other"):
        words = ["--data.text", f"{folder}/my.txt", "--run", f"run-{folder}"]
        assert train.main([*MODEL, *words]) == 0
    assert report.main(["run-texts", "run-other", "--out", "table.md"]) == 0
    table = Path("table.md").read_text()
    assert table.count("--data-dir") >= 2
