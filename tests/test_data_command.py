"""`python -m tinyrmc data`: what it lists, gets and says."""

import re

import pytest
from corpora_files import PTB, make_official, members, tarred, write, zipped
from test_corpora_babi import files
from tinyruns import output, python

from tinyrmc import corpora
from tinyrmc.cli import data
from tinyrmc.corpora import CorpusError


def run(capsys, *words):
    """(what it prints, what it notes)."""
    assert data.main([*map(str, words)]) == 0
    return capsys.readouterr()


def rows(text):
    """{corpus: the other cells of its row}."""
    found = (re.split(r"  +", line) for line in text.splitlines())
    return {cells[0]: cells[1:] for cells in found if cells[0] in data.NAMES}


def test_it_gets_a_corpus_and_says_its_tokens(tmp_path, capsys):
    write(tmp_path, members("ptb"))
    out, err = run(capsys, "ptb", "--data-dir", tmp_path)
    for part, short in zip(corpora.PARTS, ("train", "valid", "test"), strict=True):
        count = len(PTB[short].replace("\n", " <eos> ").split())
        assert re.search(rf"^{part} +{count} ", out, re.M)
    assert re.search(r"^train +21 +929,589$", out, re.M)
    assert re.search(r"^vocabulary +12 +10,000$", out, re.M)
    assert "each line end is the word <eos>" in out
    assert f"in {tmp_path}/simple-examples/data\n" in out
    assert err.count("is not the published text") == 3
    assert max(map(len, out.splitlines())) <= 80 or len(str(tmp_path)) > 50


def test_alone_it_lists_what_is_here_and_what_to_do(tmp_path, capsys):
    out, _ = run(capsys, "--data-dir", tmp_path)
    assert rows(out) == {name: ["no"] for name in data.CORPORA}
    line = "python -m tinyrmc data ptb wikitext-2 wikitext-103 text8 babi --data-dir"
    assert f"\n    {line} {tmp_path}\n" in out
    said = " ".join(out.split())
    assert f"put books as .txt files into {tmp_path}/gutenberg, at least" in said
    assert f"put its data folder at {tmp_path}/gigaword" in said

    write(tmp_path, members("ptb") | members("wikitext-2") | files("en"))
    write(tmp_path, {"wikitext-103/wiki.test.tokens": "a"})
    run(capsys, "ptb", "--data-dir", tmp_path)
    tarred(tmp_path / "tasksv11.a.tar.gz", {"tasksv11/en/qa1_a_test.txt": b"1 a"})
    out, _ = run(capsys, "--data-dir", tmp_path)
    found = rows(out)
    assert found["ptb"] == ["yes", "21", "7", "7", "12"]
    assert "ptb.test.txt is not the published text" in " ".join(out.split())
    assert found["wikitext-2"] == ["not read yet"] and found["text8"] == ["no"]
    assert found["wikitext-103"] == ["in part"]
    lacks = "/wikitext-103 has no wiki.train.tokens and no wiki.valid.tokens"
    assert f"{tmp_path}{lacks}\n" in out.replace("\n    ", " ")
    assert re.search(r"^babi v1.2 en +yes$", out, re.M)
    assert re.search(r"^babi v1.2 en-10k +no$", out, re.M)
    assert re.search(r"^babi v1.1 en +in part$", out, re.M)
    assert "tasksv11.a.tar.gz has no qa1_*_train.txt, qa2_*_train.txt" in out.replace(
        "\n    ", " "
    )
    assert "data wikitext-2 wikitext-103 text8 babi --data-dir" in out


def test_what_is_damaged_is_listed_as_such(tmp_path, capsys):
    path = tmp_path / "tasks_1-20_v1-2.tar.gz"
    path.write_bytes(b"\x1f\x8b" * 10)
    write(tmp_path / "gutenberg", {"98.txt": "a"})
    out, _ = run(capsys, "--data-dir", tmp_path)
    said = " ".join(out.split())
    assert rows(out)["gutenberg"] == ["not usable"]
    assert "(1 in all) is for validation or test: a book's" in said
    assert re.search(r"^babi v1.2 en +not usable$", out, re.M)
    assert f"{path} is damaged or cut short" in said


def test_it_gets_and_counts_stories(tmp_path, capsys, monkeypatch):
    write(tmp_path, files("en") | files("en-10k", without=("qa3_some-name_train.txt",)))

    def unreachable(name, data_dir):
        raise CorpusError("cannot download babi")

    monkeypatch.setattr(corpora, "download", unreachable)
    out, err = run(capsys, "babi", "--data-dir", tmp_path)
    assert "en-10k has no qa3_*_train.txt); downloading it\nnote: cannot down" in err
    assert re.search(r"^v1.2 +en +60 +60 +80 +20$", out, re.M)
    assert re.search(r"^v1.2 +en-10k +57 +60 +78 +19$", out, re.M)
    assert "en-10k has no qa3_*_train.txt" in err and "bAbI v1.1 en is not in" in err
    assert "is not, byte for byte, what was published" in err


def test_it_downloads_what_is_missing(tmp_path, capsys, monkeypatch):
    path = zipped(tmp_path / "wikitext-2-v1.zip", members("wikitext-2"))
    make_official(monkeypatch, "wikitext-2", path, ["http://nowhere.invalid/a.zip"])
    folder = tmp_path / "data"

    def download(name, data_dir):
        data_dir.mkdir()
        path.rename(data_dir / path.name)

    monkeypatch.setattr(corpora, "download", download)
    out, err = run(capsys, "wikitext-2", "--data-dir", folder)
    assert f"wikitext-2 is not in {folder}; downloading it\n" in err
    assert f"in {folder}/wikitext-2-v1.zip\n" in out
    assert "downloading" not in run(capsys, "wikitext-2", "--data-dir", folder).err


def test_what_is_here_in_part_is_not_said_to_be_missing(tmp_path, monkeypatch, capsys):
    files = members("ptb")
    whole = {name: files.pop(name) for name in [*files] if "test" in name}
    write(tmp_path, files)
    monkeypatch.setattr(
        corpora, "download", lambda name, data_dir: write(data_dir, whole)
    )
    _, err = run(capsys, "ptb", "--data-dir", tmp_path)
    says = f"ptb is incomplete ({tmp_path}/simple-examples/data has no ptb.test.txt)"
    assert f"{says}; downloading it\n" in err


def test_what_is_missing_of_the_stories_is_fetched(tmp_path, monkeypatch, capsys):
    write(tmp_path, {path: text for path, text in files().items() if "qa1_" in path})
    both = files() | files("en-10k")
    monkeypatch.setattr(
        corpora, "download", lambda name, data_dir: write(data_dir, both)
    )
    out, err = run(capsys, "babi", "--data-dir", tmp_path)
    assert "babi is incomplete (" in err and "there is no v1.2 en-10k" in err
    assert re.search(r"^v1.2 +en +60 +60 +80 +20$", out, re.M)


def test_what_cannot_be_downloaded_is_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"gigaword is not in .*; the LDC sells it"):
        data.main(["gigaword", "--data-dir", str(tmp_path)])


def test_a_file_is_no_folder_of_texts(tmp_path):
    write(tmp_path, members("ptb"))
    file = tmp_path / "simple-examples" / "data" / "ptb.train.txt"
    for words in [], ["ptb"], ["babi"]:
        with pytest.raises(CorpusError, match=f"{file} is a file; give the folder"):
            data.main([*words, "--data-dir", str(file)])


def test_an_error_is_one_line_with_exit_code_2(tmp_path):
    write(tmp_path, members("ptb") | {"simple-examples/data/ptb.test.txt": b"\xff"})
    done = python("-m", "tinyrmc", "data", "ptb", "--data-dir", tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(
        r"error: .*ptb.test.txt is not UTF-8 at byte 0 .*\n", done.stderr
    )


def test_reading_needs_no_downloader(tmp_path):
    """The library requests is imported only where something is downloaded."""
    write(tmp_path, members("ptb"))
    code = (
        "import sys; from tinyrmc import corpora; "
        f"corpora.load('ptb', {str(tmp_path)!r}); print(*sys.modules)"
    )
    assert "requests" not in output("-c", code).split()
