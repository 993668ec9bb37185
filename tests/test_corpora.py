"""Texts as integers: numbering against a count by hand, the layouts in which people
have the files, the cache, and what cannot be read.
"""

import codecs
import dataclasses
import errno
import hashlib
import os
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from corpora_files import LAYOUTS, PTB, WIKITEXT, members, write
from hypothesis import given
from hypothesis import strategies as st

from tinyrmc import corpora
from tinyrmc.corpora import CorpusError, MissingCorpus, cache, files, finding, loading
from tinyrmc.corpora.known import CORPORA

SHORT = {"train": "train", "valid": "validation", "test": "test"}


def by_hand(text):
    """The words of a text, a line at a time."""
    found = []
    for line in text.split("\n")[:-1]:
        found += [*line.split(), "<eos>"]
    return found


def decoded(corpus, part):
    return corpus.vocabulary.decode(corpus.texts[part])


# --- Numbering ------------------------------------------------------------------------


WORDS = st.lists(st.sampled_from([*"abcdefg", "<unk>", "\n"]), min_size=1).map(" ".join)


@given(WORDS, WORDS, WORDS, st.none() | st.integers(2, 9), st.integers(1, 3))
def test_ids_follow_the_counts_of_the_training_text(
    train, validation, test, size, least
):
    texts = {"train": train, "validation": validation, "test": test}
    cut = {part: text.replace("\n", " <eos> ").split() for part, text in texts.items()}
    corpus = corpora.from_texts(**texts, vocabulary_size=size, minimum_count=least)
    words, counts = corpus.vocabulary.words, corpus.vocabulary.counts
    seen = Counter(cut["train"])
    for part, original in cut.items():
        ids = corpus.texts[part]
        assert ids.dtype == np.int32 and len(ids) == len(original)
        for word, kept in zip(original, decoded(corpus, part), strict=True):
            assert kept == (word if word in words else "<unk>")
    assert counts.dtype == np.int64 and counts.tolist() == [
        Counter(decoded(corpus, "train"))[word] for word in words
    ]
    assert [*counts] == sorted(counts, reverse=True)
    assert len(words) == len(set(words)) <= (size or 99)
    plain = [word for word in words if word not in ("<eos>", "<unk>")]
    assert all(seen[word] >= least for word in plain)
    left_out = [w for w in seen if seen[w] >= least and w not in words and w != "<unk>"]
    for word in left_out:  # only by the size, and no rarer word is in
        assert size is not None and len(words) == size
        assert all(seen[word] <= seen[other] for other in plain)
    assert ("<eos>" in words) == ("<eos>" in seen)


def test_equal_counts_stay_in_order_of_appearance():
    corpus = corpora.from_texts(train="d c b a a b\n", validation="a\n", test="b\n")
    assert corpus.vocabulary.words == ["b", "a", "d", "c", "<eos>"]
    assert corpus.vocabulary.counts.tolist() == [2, 2, 1, 1, 1]
    assert corpus.vocabulary.eos == 4 and corpus.vocabulary.unk is None


def test_a_vocabulary_encodes_and_decodes():
    words = corpora.from_texts(
        train=PTB["train"], validation="a\n", test="a\n"
    ).vocabulary
    ids = words.encode("the cat\nsat")
    assert ids.dtype == np.int32 and words.decode(ids) == ["the", "cat", "<eos>", "sat"]
    assert words.encode(["the", "cat"]).tolist() == ids[:2].tolist()
    assert words.encode("no cow", unknown="unk").tolist() == [words.unk] * 2
    with pytest.raises(CorpusError, match=r"'cow' is not one of the vocabulary's 12 w"):
        words.encode("the cow")
    plain = corpora.from_texts(train="a b\n", validation="a\n", test="a\n").vocabulary
    with pytest.raises(
        CorpusError, match="'cow' is not one of"
    ):  # nothing stands for it
        plain.encode("cow", unknown="unk")


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_a_text_without_words_is_refused(part):
    texts = {"train": "a\n", "validation": "a\n", "test": "a\n"} | {part: "  "}
    with pytest.raises(CorpusError, match=f"the {part} text of mine is empty"):
        corpora.from_texts(**texts, name="mine")


def test_a_vocabulary_of_one_word_is_refused():
    says = "the size of a vocabulary must be at least 2, .*, not 1"
    with pytest.raises(CorpusError, match=says):
        corpora.from_texts(train="a", validation="a", test="a", vocabulary_size=1)


# --- Files in the layouts that people have --------------------------------------------


@pytest.mark.parametrize("name, texts", [("ptb", PTB), ("wikitext-2", WIKITEXT)])
@pytest.mark.parametrize("below", ["", "data"])
def test_unpacked_official_files(name, texts, below, tmp_path):
    write(tmp_path / below, members(name))
    corpus = corpora.load(name, tmp_path)
    assert corpus.name == name and len(corpus.notes) == 3
    for short, part in SHORT.items():
        assert decoded(corpus, part) == by_hand(texts[short])
        assert "is not the published text" in corpus.notes[0]


RENAMED = {
    "ptb": ["data/penn/{}.txt", "penn/{}.txt", "ptb/{}.txt", "ptb.{}.txt"],
    "wikitext-2": ["data/wikitext-2/{}.txt", "wikitext-2/{}.txt"],
}


@pytest.mark.parametrize("name, layout", [(n, x) for n in RENAMED for x in RENAMED[n]])
def test_renamed_files(name, layout, tmp_path):
    texts = LAYOUTS[name][1]
    write(tmp_path, {layout.format(part): text for part, text in texts.items()})
    corpus = corpora.load(name, tmp_path)
    assert decoded(corpus, "test") == by_hand(texts["test"])


def test_the_folder_of_the_files_may_be_named_itself(tmp_path):
    write(tmp_path, members("wikitext-2"))
    corpus = corpora.load("wikitext-2", tmp_path / "wikitext-2")
    assert decoded(corpus, "test") == by_hand(WIKITEXT["test"])
    with pytest.raises(MissingCorpus):  # the same names, and another corpus
        corpora.load("wikitext-103", tmp_path / "wikitext-2")


def test_the_directory_may_come_from_the_surroundings(tmp_path, monkeypatch):
    write(tmp_path, members("ptb"))
    monkeypatch.setenv("TINYRMC_DATA", str(tmp_path))
    assert decoded(corpora.load("ptb"), "test") == by_hand(PTB["test"])
    monkeypatch.delenv("TINYRMC_DATA")
    assert finding.data_directory() == finding.user_directory()


def test_what_is_missing_is_said_with_the_command(tmp_path):
    folder = tmp_path / "my data"
    with pytest.raises(MissingCorpus) as caught:
        corpora.load("ptb", folder)
    command = f"python -m tinyrmc data ptb --data-dir '{folder}'"
    assert str(caught.value) == f"ptb is not in {folder}; get it with: {command}"
    write(
        folder,
        {"wikitext-103/wiki.valid.tokens": "a", "wikitext-103/wiki.test.tokens": "a"},
    )
    with pytest.raises(
        MissingCorpus, match=r"wikitext-103 has no wiki.train.tokens; get"
    ):
        corpora.load("wikitext-103", folder)
    assert not (folder / "tinyrmc-cache").exists()


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(
        CorpusError, match=r"no corpus 'wikitext2' .*did you mean 'wikitext-2'"
    ):
        corpora.load("wikitext2", tmp_path)


def test_published_files_have_no_note(tmp_path, monkeypatch):
    write(tmp_path, members("ptb"))
    hashes = {
        part: f"sha1:{hashlib.sha1(PTB[short].encode()).hexdigest()}"
        for short, part in SHORT.items()
    }
    known = dataclasses.replace(CORPORA["ptb"], hashes=hashes)
    monkeypatch.setitem(CORPORA, "ptb", known)
    assert corpora.load("ptb", tmp_path).notes == ()
    (tmp_path / "simple-examples/data/ptb.test.txt").write_text("a cat \n")
    note = "ptb.test.txt is not the published text (7 bytes, not 449,945)"
    assert corpora.load("ptb", tmp_path).notes == (note,)  # true in any folder


# --- Pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_pieces_of_any_size_give_the_same_words(block, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", block)
    monkeypatch.setattr(cache, "BLOCK", block)
    write(tmp_path, members("wikitext-2"))
    corpus = corpora.load("wikitext-2", tmp_path)
    for short, part in SHORT.items():
        assert decoded(corpus, part) == by_hand(WIKITEXT[short])


def test_a_byte_order_mark_is_no_word(tmp_path):
    path = "simple-examples/data/ptb.test.txt"
    write(tmp_path, members("ptb") | {path: codecs.BOM_UTF8 + b"the cat"})
    assert decoded(corpora.load("ptb", tmp_path), "test") == ["the", "cat"]


@pytest.mark.parametrize(
    "text, says",
    [
        (b"<!DOCTYPE html>\n<html>", r"line 1 begins a web page \(<!DOCTYPE\)"),
        (b"<!doctype html><html>404</html>", r"line 1 begins a web page \(<!doctype\)"),
        (b"\n\n <HTML lang='en'>not found", r"line 3 begins a web page \(<HTML\)"),
        (codecs.BOM_UTF8 + b"<?xml version='1.0'?>", "line 1 begins a web page"),
        ("the cat".encode("utf-16-le"), "has a zero at byte 1, as UTF-16 has"),
    ],
)
def test_what_a_failed_download_leaves_is_no_text(text, says, tmp_path):
    path = "wikitext-2/wiki.train.tokens"
    write(tmp_path, members("wikitext-2") | {path: text})
    with pytest.raises(CorpusError, match=f"{path} {says}"):
        corpora.load("wikitext-2", tmp_path)


def test_a_last_line_without_an_end_has_no_eos(tmp_path):
    write(tmp_path, members("ptb") | {"simple-examples/data/ptb.test.txt": "a cat"})
    assert decoded(corpora.load("ptb", tmp_path), "test") == ["a", "cat"]


@pytest.mark.parametrize("block", [5, 1 << 18])
@pytest.mark.parametrize("count", [330, 331, 362, 367])
def test_text8_is_cut_by_bytes_where_a_word_begins(block, count, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", block)
    words = [f"{'ab'[k % 2]}{'xyz'[k % 3]}" for k in range(count)]
    write(tmp_path, {"text8": " " + " ".join(words)})
    corpus = corpora.load("text8", tmp_path)
    size = 3 * count  # word k begins at byte 3k + 1
    ends = [round(0.933 * size), round(0.99 * size), size]
    before = [0, *(sum(3 * k + 1 < end for k in range(count)) for end in ends)]
    assert [corpus.texts[part].size for part in corpora.PARTS] == [*np.diff(before)]
    together = [word for part in corpora.PARTS for word in decoded(corpus, part)]
    assert together == words and corpus.vocabulary.eos is None
    assert f"({size:,} bytes, not 100,000,000)" in corpus.notes[0]


def test_a_text8_of_letters_that_take_two_bytes_has_three_parts(tmp_path, monkeypatch):
    """Its size is in bytes, and so are the places where it is cut."""
    monkeypatch.setattr(files, "BLOCK", 64)
    write(tmp_path, {"text8": " αβγ" * 300})  # word k begins at byte 7k + 1
    corpus = corpora.load("text8", tmp_path)
    ends = [round(0.933 * 2100), round(0.99 * 2100), 2100]
    before = [0, *(sum(7 * k + 1 < end for k in range(300)) for end in ends)]
    assert [corpus.texts[part].size for part in corpora.PARTS] == [*np.diff(before)]
    assert corpus.vocabulary.words == ["αβγ"]


def test_text8_leaves_out_words_seen_fewer_than_ten_times(tmp_path):
    write(tmp_path, {"text8/text8": " few" * 9 + " often" * 10 + " z" * 200})
    corpus = corpora.load("text8", tmp_path)
    assert set(corpus.vocabulary.words) == {"often", "z", "<unk>"}


# --- What cannot be read --------------------------------------------------------------


def nothing_left(folder):
    kept = folder / "tinyrmc-cache"
    return not kept.exists() or [*kept.iterdir()] == []


@pytest.mark.parametrize("block", [4, 1 << 18])
def test_bytes_that_are_not_utf8_are_named_by_file_and_offset(
    block, tmp_path, monkeypatch
):
    monkeypatch.setattr(files, "BLOCK", block)
    bad = {"simple-examples/data/ptb.valid.txt": b" a cat \n caf\xe9 sat \n"}
    write(tmp_path, members("ptb") | bad)
    with pytest.raises(
        CorpusError, match=r"ptb.valid.txt is not UTF-8 at byte 12 \(0xe9\)"
    ):
        corpora.load("ptb", tmp_path)
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("part", SHORT)
def test_an_empty_file_is_refused(part, tmp_path):
    write(tmp_path, members("ptb") | {f"simple-examples/data/ptb.{part}.txt": b""})
    with pytest.raises(CorpusError, match=f"the {SHORT[part]} text of ptb .* is empty"):
        corpora.load("ptb", tmp_path)
    assert nothing_left(tmp_path)


def test_a_file_without_spaces_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_WORD", 1 << 10)
    write(
        tmp_path, members("ptb") | {"simple-examples/data/ptb.train.txt": "x" * 300_000}
    )
    with pytest.raises(CorpusError, match="has no space or line end for 1,024 bytes"):
        corpora.load("ptb", tmp_path)


@pytest.mark.parametrize("when", range(4))
def test_a_full_disk_is_one_line_and_leaves_nothing(when, tmp_path, monkeypatch):
    write(tmp_path, members("ptb"))
    calls = iter(range(99))

    class Full:
        """A file on a disk that is full from the call `when` on."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            if next(calls) >= when:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return self.file.write(data)

    def opened(path, mode):
        return Full(open(path, mode)) if "w" in mode else open(path, mode)

    monkeypatch.setattr(cache, "open", opened, raising=False)
    if when == 3:  # all ids fit, their words do not
        monkeypatch.setattr(Path, "write_text", lambda *_, **__: Full(None).write(""))
    with pytest.raises(CorpusError) as caught:
        corpora.load("ptb", tmp_path)
    assert re.fullmatch(
        rf"cannot write {tmp_path}/tinyrmc-cache/ptb-\w+: No space left on device; "
        "free some space there, or give another --data-dir",
        str(caught.value),
    )
    assert nothing_left(tmp_path)


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    write(tmp_path, members("ptb"))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cache, "order", interrupted)
    with pytest.raises(KeyboardInterrupt):
        corpora.load("ptb", tmp_path)
    assert nothing_left(tmp_path)


# --- The cache ------------------------------------------------------------------------


@pytest.fixture
def ptb(tmp_path):
    """A data directory with the small Penn Treebank, read once."""
    write(tmp_path, members("ptb"))
    corpora.load("ptb", tmp_path)
    return tmp_path


def written(folder):
    return sorted((folder / "tinyrmc-cache").iterdir())


def test_a_text_is_read_once_and_then_mapped(ptb, monkeypatch):
    monkeypatch.setattr(loading, "_pieces", None)  # nothing may be read again
    ids = corpora.load("ptb", ptb).texts["train"]
    assert type(ids) is np.ndarray and not ids.flags.writeable
    while ids.base is not None and not isinstance(ids, np.memmap):
        ids = ids.base
    assert isinstance(ids, np.memmap)


def test_what_another_process_has_just_written_stays(tmp_path, monkeypatch):
    write(tmp_path, members("ptb"))
    check = loading.check_archives

    def check_meanwhile(*words):
        """Another process, a little faster, is done before ours begins to write."""
        monkeypatch.setattr(loading, "check_archives", check)
        corpus = corpora.load("ptb", tmp_path)
        cache.kept(corpus, "seen-1", lambda: "by the other")
        check(*words)

    monkeypatch.setattr(loading, "check_archives", check_meanwhile)
    assert len(corpora.load("ptb", tmp_path).vocabulary) == 12
    (folder,) = written(tmp_path)
    assert (folder / "seen-1.json").exists()


def test_other_settings_and_other_files_are_read_anew(ptb):
    assert len(corpora.load("ptb", ptb, vocabulary_size=5).vocabulary) == 5
    assert len(corpora.load("ptb", ptb).vocabulary) == 12
    assert len(written(ptb)) == 2
    file = ptb / "simple-examples/data/ptb.test.txt"
    file.write_text(" the dog \n")
    assert decoded(corpora.load("ptb", ptb), "test") == ["the", "dog", "<eos>"]
    file.write_text(" the cat \n")  # as long, and another time
    os.utime(file, (1, 1))
    assert decoded(corpora.load("ptb", ptb), "test") == ["the", "cat", "<eos>"]


@pytest.mark.parametrize("name", ["train.int32", "test.int32", "corpus.json"])
@pytest.mark.parametrize("how", ["cut", "gone", "empty", "edited", "nested", "pipe"])
def test_a_damaged_cache_is_made_again(name, how, ptb):
    (folder,) = written(ptb)
    file, data = folder / name, (folder / name).read_bytes()
    spoil(file, how)
    for part, told in PTB.items():
        assert decoded(corpora.load("ptb", ptb), SHORT[part]) == by_hand(told)
    assert file.read_bytes() == data and written(ptb) == [folder]


def spoil(file, how):
    """Cut a file of the cache short, say, or put another word into it."""
    data = file.read_bytes()
    edited = data.replace(b'"cat"', b'"cow"')
    if edited == data:  # the ids: one of them is another
        edited = bytes([data[0] ^ 1, *data[1:]])
    contents = {"cut": data[:8], "empty": b"", "nested": b"[" * 100_000}
    file.write_bytes({**contents, "edited": edited}.get(how, b""))
    if how in ("gone", "pipe"):
        file.unlink()
    if how == "pipe":
        os.mkfifo(file)


@pytest.mark.parametrize("how", ["cut", "gone", "empty", "edited", "nested", "pipe"])
def test_what_was_counted_is_counted_again_if_its_file_is_damaged(how, ptb):
    corpus = corpora.load("ptb", ptb)
    for _ in range(2):
        assert cache.kept(corpus, "seen-1", lambda: {"word": "cat"}) == {"word": "cat"}
    spoil(corpus.folder / "seen-1.json", how)
    assert cache.kept(corpus, "seen-1", lambda: {"word": "dog"}) == {"word": "dog"}


def test_the_faster_of_two_processes_wins(ptb, monkeypatch):
    (folder,) = written(ptb)
    mark = (folder / "corpus.json").stat().st_ino
    read, asked = cache.read, []

    def too_early(*arguments):
        asked.append(arguments)
        return read(*arguments) if len(asked) > 1 else None

    monkeypatch.setattr(cache, "read", too_early)
    monkeypatch.setattr(cache.shutil, "rmtree", lambda path, **_: None)
    assert decoded(corpora.load("ptb", ptb), "test") == by_hand(PTB["test"])
    assert (folder / "corpus.json").stat().st_ino == mark


def test_what_a_killed_process_left_goes_after_a_day(ptb):
    old, new = (ptb / "tinyrmc-cache" / f".partial-{k}" for k in "ab")
    for path in (old, new):
        path.mkdir()
        (path / "train.int32").write_bytes(b"1234")
    os.utime(old, (time.time() - 90_000,) * 2)
    corpora.load("ptb", ptb, vocabulary_size=4)
    assert not old.exists() and new.exists()


def test_a_folder_that_is_read_only_for_all_is_not_written_to(
    ptb, tmp_path_factory, monkeypatch
):
    """Not by root either, whom no permission stops."""
    other = tmp_path_factory.mktemp("caches")
    monkeypatch.setattr(loading, "user_directory", lambda: other)
    before = written(ptb)
    ptb.chmod(0o555)
    try:
        corpora.load("ptb", ptb, vocabulary_size=6)
    finally:
        ptb.chmod(0o755)
    assert written(ptb) == before and len(written(other)) == 1
