"""Texts as integers: numbering against a count by hand, the layouts in which people
have the files, the cache, and what cannot be read.
"""

import codecs
import dataclasses
import errno
import gzip
import hashlib
import json
import lzma
import os
import re
import shutil
import time
from collections import Counter

import numpy as np
import pytest
from corpora_files import LAYOUTS, PTB, WIKITEXT, members, write
from hypothesis import given
from hypothesis import strategies as st

from tinyrmc import corpora, errors
from tinyrmc.cli import data as command
from tinyrmc.corpora import CorpusError, MissingCorpus, cache, files, loading
from tinyrmc.corpora.known import CORPORA

SHORT = {"train": "train", "valid": "validation", "test": "test"}
TRAIN, TEST = (f"simple-examples/data/ptb.{part}.txt" for part in ("train", "test"))

pytestmark = pytest.mark.usefixtures("caches")


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
    assert counts.dtype == np.int64
    assert counts.tolist() == [
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
    text = "a a a b b c\n"  # the rarest is left out, but not the end of a line
    few = corpora.from_texts(train=text, validation=text, test=text, vocabulary_size=3)
    assert few.vocabulary.words == ["a", "<unk>", "<eos>"]


def test_a_vocabulary_encodes_and_decodes():
    few = dict(validation="a\n", test="a\n")
    words = corpora.from_texts(train=PTB["train"], **few).vocabulary
    ids = words.encode("the cat\nsat")
    assert ids.dtype == np.int32 and words.decode(ids) == ["the", "cat", "<eos>", "sat"]
    assert words.encode(["the", "cat"]).tolist() == ids[:2].tolist()
    assert words.encode("no cow", unknown="unk").tolist() == [words.unk] * 2
    with pytest.raises(CorpusError, match=r"'cow' is not one of the vocabulary's 12 w"):
        words.encode("the cow")
    for text, asked in ("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9"):
        other = corpora.from_texts(train=f"a {text}\n", **few).vocabulary
        assert other.decode(other.encode(asked)) == [text]
    plain = corpora.from_texts(train="a b\n", **few).vocabulary
    with pytest.raises(CorpusError, match="'cow' is not one of"):  # nothing for it
        plain.encode("cow", unknown="unk")


def test_texts_that_cannot_be_numbered_are_refused():
    for part in corpora.PARTS:
        texts = dict.fromkeys(corpora.PARTS, "a\n") | {part: "  "}
        with pytest.raises(CorpusError, match=f"the {part} text of mine is empty"):
            corpora.from_texts(**texts, name="mine")
    with pytest.raises(CorpusError, match="the size of a vocabulary must be at least"):
        corpora.from_texts(train="a", validation="a", test="a", vocabulary_size=1)


# --- Files in the layouts that people have --------------------------------------------


def test_files_are_found_in_all_layouts(tmp_path):
    renamed = {
        "ptb": ["data/penn/{}.txt", "penn/{}.txt", "ptb/{}.txt", "ptb.{}.txt"],
        "wikitext-2": ["data/wikitext-2/{}.txt", "wikitext-2/{}.txt"],
    }
    for name, (layout, texts) in LAYOUTS.items():
        for k, path in enumerate([layout, f"data/{layout}", *renamed[name]]):
            folder = write(
                tmp_path / f"{name}{k}",
                {path.format(part): text for part, text in texts.items()},
            )
            corpus = corpora.load(name, folder)
            assert corpus.name == name and len(corpus.notes) == 3
            assert "is not the published text" in corpus.notes[0]
            for short, part in SHORT.items():
                assert decoded(corpus, part) == by_hand(texts[short])


def test_the_folder_of_the_files_may_be_named_itself(tmp_path):
    write(tmp_path, members("wikitext-2"))
    corpus = corpora.load("wikitext-2", tmp_path / "wikitext-2")
    assert decoded(corpus, "test") == by_hand(WIKITEXT["test"])
    with pytest.raises(MissingCorpus):  # the same names, and another corpus
        corpora.load("wikitext-103", tmp_path / "wikitext-2")


def test_the_directory_may_come_from_the_surroundings(tmp_path, caches, monkeypatch):
    write(tmp_path, members("ptb"))
    monkeypatch.setenv("TINYRMC_DATA", str(tmp_path))
    assert decoded(corpora.load("ptb"), "test") == by_hand(PTB["test"])
    monkeypatch.delenv("TINYRMC_DATA")
    assert loading.data_directory() == caches.parent
    monkeypatch.delenv("TINYRMC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # on Linux
    assert cache.user_directory().name == "tinyrmc"


def test_what_is_missing_is_said_with_the_command(tmp_path):
    folder = tmp_path / "my data"
    with pytest.raises(MissingCorpus) as caught:
        corpora.load("ptb", folder)
    command = f"python -m tinyrmc data ptb --data-dir '{folder}'"
    assert str(caught.value) == f"ptb is not in {folder}; get it with: {command}"
    parts = {f"wikitext-103/wiki.{part}.tokens": "a" for part in ("valid", "test")}
    write(folder, parts)
    with pytest.raises(MissingCorpus, match=r"wikitext-103 has no wiki.train.tokens"):
        corpora.load("wikitext-103", folder)
    with pytest.raises(CorpusError, match=r"no corpus 'wikitext2' .*did you mean"):
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
    (tmp_path / TEST).write_text("a cat \n")
    note = "ptb.test.txt is not the published text"
    assert corpora.load("ptb", tmp_path).notes == (note,)  # true in any folder


# --- Pieces ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_pieces_of_any_size_and_all_line_ends_give_the_same_words(
    end, tmp_path, monkeypatch
):
    texts = {
        k: x.replace(b"\n", end.encode()) for k, x in members("wikitext-2").items()
    }
    for block in 1, 2, 3, 7, 64, 1 << 18:
        monkeypatch.setattr(files, "BLOCK", block)
        monkeypatch.setattr(cache, "BLOCK", block)
        corpus = corpora.load("wikitext-2", write(tmp_path / f"{block}", texts))
        for short, part in SHORT.items():
            assert decoded(corpus, part) == by_hand(WIKITEXT[short])
    text = f"a b{end}c{end}{end}d"
    three = corpora.from_texts(train=text, validation=text, test=text)
    assert decoded(three, "test") == "a b <eos> c <eos> <eos> d".split()
    assert three.vocabulary.encode(text).tolist() == three.texts["test"].tolist()


def test_marks_last_lines_and_packed_texts(tmp_path):
    """Marks around a text's words are dropped, and gzip is unpacked."""
    cases = {
        b"a cat": "a cat",  # a last line without an end has no <eos>
        codecs.BOM_UTF8 + b"the cat": "the cat",
        gzip.compress(b" a cat \n"): "a cat <eos>",
        gzip.compress(gzip.compress(b"a cat\n")): "a cat <eos>",
    }
    for k, (data, words) in enumerate(cases.items()):
        write(tmp_path / f"{k}", members("ptb") | {TEST: data})
        assert decoded(corpora.load("ptb", tmp_path / f"{k}"), "test") == words.split()
    text = " ab cd" * 200
    write(tmp_path, {"text8": gzip.compress(text.encode())})
    texts = corpora.load("text8", tmp_path).texts
    write(tmp_path / "plain", {"text8": text})
    for part, ids in corpora.load("text8", tmp_path / "plain").texts.items():
        assert len(texts[part]) == len(ids) > 0


NO_TEXTS = [
    (b"<!DOCTYPE html>\n<html>", r"line 1 begins a web page \(<!DOCTYPE\)"),
    (b"<!doctype html><html>404</html>", r"line 1 begins a web page \(<!doctype\)"),
    (b"\n\n <HTML lang='en'>not found", r"line 3 begins a web page \(<HTML\)"),
    (b"<body>\n<p>A book.</p>", r"line 1 begins a web page .*, or its plain text"),
    (codecs.BOM_UTF8 + b"<?xml version='1.0'?>", "line 1 begins a web page"),
    ("the cat".encode("utf-16-le"), "has a zero at byte 1, as UTF-16 has"),
    (lzma.compress(b"a cat"), "is an xz file and no text; unpack or convert it"),
]


def test_what_is_no_text_is_named(tmp_path):
    path = "wikitext-2/wiki.train.tokens"
    for k, (data, says) in enumerate(NO_TEXTS):
        write(tmp_path / f"{k}", members("wikitext-2") | {path: data})
        with pytest.raises(CorpusError, match=f"{path} {says}"):
            corpora.load("wikitext-2", tmp_path / f"{k}")
    whole = gzip.compress(b"the cat sat on the mat" * 20)
    write(tmp_path / "cut", members("wikitext-2") | {path: whole[:-9]})
    with pytest.raises(CorpusError, match=f"{path} is damaged or cut short"):
        corpora.load("wikitext-2", tmp_path / "cut")


def test_text8_is_cut_by_bytes_where_a_word_begins(tmp_path, monkeypatch):
    """Also where letters take two bytes: the places where it is cut are in bytes."""
    cases = [
        ([f"{'ab'[k % 2]}{'xyz'[k % 3]}" for k in range(n)], 3)
        for n in (330, 331, 362, 367)
    ]
    for block in 5, 1 << 18:
        monkeypatch.setattr(files, "BLOCK", block)
        for case, (words, width) in enumerate([*cases, (["αβγ"] * 300, 7)]):
            folder = write(
                tmp_path / f"{case}-{block}", {"text8": " " + " ".join(words)}
            )
            corpus, size = corpora.load("text8", folder), width * len(words)
            ends = [round(0.933 * size), round(0.99 * size), size]
            # word k begins at byte width * k + 1
            begin = width * np.arange(len(words)) + 1
            before = [0, *((begin < end).sum() for end in ends)]
            sizes = [corpus.texts[part].size for part in corpora.PARTS]
            assert sizes == np.diff(before).tolist()
            found = [word for part in corpora.PARTS for word in decoded(corpus, part)]
            assert found == words and corpus.vocabulary.eos is None


def test_text8_leaves_out_words_seen_fewer_than_ten_times(tmp_path):
    write(tmp_path, {"text8/text8": " few" * 9 + " often" * 10 + " z" * 200})
    corpus = corpora.load("text8", tmp_path)
    assert set(corpus.vocabulary.words) == {"often", "z", "<unk>"}


# --- What cannot be read --------------------------------------------------------------


def nothing_left(caches):
    return not caches.exists() or [*caches.iterdir()] == []


def test_bytes_that_are_not_utf8_are_named_by_file_and_offset(
    tmp_path, caches, monkeypatch
):
    bad = {TEST: b" a cat \n caf\xe9 sat \n"}
    write(tmp_path, members("ptb") | bad)
    for block in 4, 1 << 18:
        monkeypatch.setattr(files, "BLOCK", block)
        with pytest.raises(CorpusError, match=r"ptb.test.txt is not UTF-8 at byte 12"):
            corpora.load("ptb", tmp_path)
        assert nothing_left(caches)


def test_an_empty_file_is_refused(tmp_path, caches):
    for short, part in SHORT.items():
        empty = {f"simple-examples/data/ptb.{short}.txt": b""}
        folder = write(tmp_path / short, members("ptb") | empty)
        with pytest.raises(CorpusError, match=f"the {part} text of ptb .* is empty"):
            corpora.load("ptb", folder)
    assert nothing_left(caches)


@pytest.mark.parametrize("when", range(4))
def test_a_full_disk_is_one_line_and_leaves_nothing(
    when, tmp_path, caches, monkeypatch
):
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
        text = "write_text"
        monkeypatch.setattr(cache.Path, text, lambda *_, **__: Full(None).write(""))
    with pytest.raises(CorpusError) as caught:
        corpora.load("ptb", tmp_path)
    assert re.fullmatch(
        rf"cannot write {caches}/ptb-[\w-]+: No space left on device; "
        "free some space there, or name another folder in TINYRMC_CACHE",
        str(caught.value),
    )
    assert nothing_left(caches)


# --- The cache ------------------------------------------------------------------------


@pytest.fixture
def ptb(tmp_path):
    """A data directory with the small Penn Treebank, read once."""
    write(tmp_path, members("ptb"))
    corpora.load("ptb", tmp_path)
    return tmp_path


def test_a_text_is_read_once_and_then_mapped(ptb, monkeypatch):
    monkeypatch.setattr(loading, "_pieces", None)  # nothing may be read again
    ids = corpora.load("ptb", ptb).texts["train"]
    assert type(ids) is np.ndarray and not ids.flags.writeable
    while ids.base is not None and not isinstance(ids, np.memmap):
        ids = ids.base
    assert isinstance(ids, np.memmap)


def test_nothing_is_written_where_texts_are(ptb, caches):
    """It may be read-only, or somebody else's; another folder is another text."""
    assert [path.name for path in ptb.iterdir()] == ["simple-examples"]
    assert len([*caches.iterdir()]) == 1
    other = write(ptb / "other", members("ptb") | {TEST: PTB["test"].upper()})
    for path in members("ptb"):
        times = (ptb / path).stat()
        os.utime(other / path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert decoded(corpora.load("ptb", other), "test")[0] == "<unk>"  # A, not a
    assert len([*caches.iterdir()]) == 2


def test_what_another_process_has_just_written_stays(tmp_path, caches, monkeypatch):
    write(tmp_path, members("ptb"))
    write_here = cache.write

    def write_meanwhile(*words):
        """Another process, a little faster, is done before ours begins to write."""
        monkeypatch.setattr(cache, "write", write_here)
        corpus = corpora.load("ptb", tmp_path)
        cache.kept(corpus, "seen-1", lambda: "by the other")
        write_here(*words)

    monkeypatch.setattr(cache, "write", write_meanwhile)
    assert len(corpora.load("ptb", tmp_path).vocabulary) == 12
    (folder,) = caches.iterdir()
    assert (folder / "seen-1.json").exists()


def test_other_settings_and_other_files_are_read_anew(ptb, caches):
    assert len(corpora.load("ptb", ptb, vocabulary_size=5).vocabulary) == 5
    assert len(corpora.load("ptb", ptb).vocabulary) == 12
    assert len([*caches.iterdir()]) == 2
    file = ptb / TEST
    file.write_text(" the dog \n")
    assert decoded(corpora.load("ptb", ptb), "test") == ["the", "dog", "<eos>"]
    file.write_text(" the cat \n")  # as long, and another time
    os.utime(file, (1, 1))
    assert decoded(corpora.load("ptb", ptb), "test") == ["the", "cat", "<eos>"]
    file.write_text(" the dog \n")  # as long, of the same time, as `cp -p` leaves it
    os.utime(file, (1, 1))
    assert decoded(corpora.load("ptb", ptb), "test") == ["the", "dog", "<eos>"]


WAYS = ["cut", "gone", "empty", "edited", "nested", "a pipe", "another key"]


def spoil(file, how):
    """Cut a file of the cache short, say, or put another word into it."""
    data = file.read_bytes()
    edited = data.replace(b'"cat"', b'"cow"')
    if edited == data:  # the ids: one of them is another
        edited = bytes([data[0] ^ 1, *data[1:]])
    contents = {"cut": data[:8], "empty": b"", "nested": b"[" * 100_000}
    file.write_bytes({**contents, "edited": edited}.get(how, b""))
    if how == "another key" and file.name == "corpus.json":
        value = json.loads(data)["value"] | {"units": "bytes"}
        cache._put(file, value)
    if how in ("gone", "a pipe"):  # for which one would wait
        file.unlink()
    if how == "a pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(file)


@pytest.mark.parametrize("how", WAYS)
def test_a_damaged_cache_is_made_again(how, ptb, caches):
    (folder,) = caches.iterdir()
    for name in "train.int32", "test.int32", "corpus.json":
        file, data = folder / name, (folder / name).read_bytes()
        spoil(file, how)
        for part, told in PTB.items():
            assert decoded(corpora.load("ptb", ptb), SHORT[part]) == by_hand(told)
        assert file.read_bytes() == data and [*caches.iterdir()] == [folder]
    corpus = corpora.load("ptb", ptb)
    for _ in range(2):
        assert cache.kept(corpus, "seen-1", lambda: {"word": "cat"}) == {"word": "cat"}
    spoil(corpus.folder / "seen-1.json", how)
    assert cache.kept(corpus, "seen-1", lambda: {"word": "dog"}) == {"word": "dog"}


def test_what_a_killed_process_left_goes_after_a_day(ptb, caches):
    old, new = (caches / f".partial-{k}" for k in "ab")
    for path in (old, new):
        path.mkdir()
        (path / "train.int32").write_bytes(b"1234")
    os.utime(old, (time.time() - 90_000,) * 2)
    corpora.load("ptb", ptb, vocabulary_size=4)
    assert not old.exists() and new.exists()


def test_of_one_place_the_newest_integers_are_kept(ptb, caches):
    """A file that is touched adds no folder; other settings and places do."""
    corpora.load("ptb", ptb, vocabulary_size=5)
    other = write(ptb / "other", members("ptb"))
    corpora.load("ptb", other)
    assert len([*caches.iterdir()]) == 3
    for k in range(1, 5):
        os.utime(ptb / TEST, (k, k))
        corpora.load("ptb", ptb)
        corpora.load("ptb", ptb, vocabulary_size=5)
        assert len([*caches.iterdir()]) == 3
    assert loading.cached("ptb", other)
    mapped = corpora.load("ptb", ptb).texts["test"]
    (ptb / TEST).write_text(" the cat \n")
    corpora.load("ptb", ptb)
    assert len(mapped) == 7 and mapped.sum() > 0  # an open map stays whole
    books = {f"gutenberg/{k}.txt": f"It is {k}." for k in (98, 11889, 76)}
    for extra in {}, {"gutenberg/1342.txt": "Another."}:  # a book more
        corpora.load("gutenberg", write(ptb, books | extra))
        assert len([*caches.glob("gutenberg-*")]) == 1


def test_integers_of_texts_that_are_gone_go_too(ptb, caches):
    """With the next text that is read."""
    other = write(ptb / "other", members("ptb"))
    (ptb / "my.txt").write_text("a cat and a cat\n" * 99)
    corpora.own(ptb / "my.txt")
    corpora.load("ptb", other)
    corpora.load("ptb", ptb)
    assert len([*caches.iterdir()]) == 3
    shutil.rmtree(other)
    (ptb / "my.txt").unlink()
    corpora.load("ptb", ptb, vocabulary_size=5)
    assert {x.name[:3] for x in caches.iterdir()} == {"ptb"}
    assert len([*caches.iterdir()]) == 2


def test_what_is_kept_can_be_cleared(ptb, caches, capsys):
    (caches / "mine").mkdir()
    (caches / "ptb-0123456789abcdef").mkdir()  # of an earlier version
    assert command.main(["--clear"]) == 0
    says = f"deleted 2 folders of integers, 0.0 MB, in {caches}\n"
    assert capsys.readouterr().out == says
    assert [path.name for path in caches.iterdir()] == ["mine"]
    assert corpora.load("ptb", ptb).vocabulary.words  # the text is still there
    (caches / ".partial-now").mkdir()  # another process writes it
    for folder, count in (caches, 0), (ptb, 1):
        assert command.main(["--clear", "--data-dir", str(folder)]) == 0
        assert f"deleted {count} folder" in capsys.readouterr().out
    assert command.main(["--clear"]) == 0
    assert {path.name for path in caches.iterdir()} == {"mine", ".partial-now"}
    with pytest.raises(errors.UsageError, match="all texts; name none"):
        command.main(["ptb", "--clear"])
