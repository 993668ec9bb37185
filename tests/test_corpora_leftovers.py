"""Files beside texts that are no texts: hidden ones, leftovers, copies; and texts under
unusual names.
"""

import bz2
import codecs
import gzip
import lzma
import os
import re

import numpy as np
import pytest
from corpora_files import members, tarred, write, zipped
from test_corpora_babi import TEXT, files
from test_corpora_prose import FOOTER, HEADER, MARK, document, places, shown

from tinyrmc import corpora
from tinyrmc.corpora import CorpusError, loading
from tinyrmc.training import discovery

pytestmark = pytest.mark.usefixtures("caches")

# what systems, browsers and editors leave; none of it is data
HIDDEN = [
    "._{}.txt",
    ".{}.txt",
    ".ipynb_checkpoints/{}-checkpoint.txt",
    ".git/objects/{}.txt",
    "__MACOSX/gutenberg/{}.txt",
    "__MACOSX/._{}.txt",
    "$RECYCLE.BIN/{}.txt",
    "lost+found/{}.txt",
    "@eaDir/{}.txt/SYNO.txt",
    "~${}.txt",
    "#{}.txt#",
    ".#{}.txt",
    "{}.txt~",
    "{}.txt.bak",
    ".{}.txt.swp",
    "{}.txt.part",
    "{}.txt.crdownload",
    "{}.txt.download/{}.txt",
    "{}.txt.sb-1a2b3c4d-X9/{}.txt",
]
# what a copy is called
COPIES = [
    "{} copy",
    "{} copy 2",
    "{} - Copy",
    "{} - Copy (2)",
    "{} (1)",
    "{}(1)",
    "{} (copy)",
    "{} (another copy)",
    "{} (3rd copy)",
    "{}-Copy1",
    "{}-checkpoint",
    "{}_backup",
    "{}.bak",
    "{}.orig",
    "Copy of {}",
    "{} - Kopie",
    "Kopie (2) von {}",
    "{} \u2013 kopia",
    "Kopia {}",
    "{} - Kopi",
    "{} \u306e\u30b3\u30d4\u30fc",
    "{} - \u043a\u043e\u043f\u0438\u044f (2)",
    "{} [1]",
    "{}-copy-2",
    "{} - copie",
    "{} - \u526f\u672c",
    "{} copy copy",
    "{} (someone's conflicted copy 2024-01-31)",
    "{}.sync-conflict-20240131-101500-ABCDEFG",
]
BOOKS = {name: f"It is the book {name}.\n" for name in ("98", "1342", "11889", "76")}


def books(folder, extra):
    """Four books and other files, in a data directory."""
    own = {f"{name}.txt": text for name, text in BOOKS.items()}
    return write(folder / "gutenberg", own | extra)


def texts(folder, name="gutenberg"):
    loaded = corpora.load(name, folder)
    return {part: ids.tolist() for part, ids in loaded.texts.items()}


def expected(tmp_path):
    """The texts of the four books alone."""
    return texts(books(tmp_path / "plain", {}).parent)


# --- Hidden files and leftovers -------------------------------------------------------


def test_what_is_hidden_or_left_over_is_no_book(tmp_path):
    alone = expected(tmp_path)
    for k, name in enumerate(HIDDEN):
        for book in "98", "76":  # in other words, so that it counts if it is read
            odd = {
                name.format(book, book): b"\0\x05\x16\x07Mac OS X" if k % 2 else "other"
            }
            folder = tmp_path / f"{k} {book}"
            books(folder, odd)
            corpus = corpora.load("gutenberg", folder)
            assert {k: x.tolist() for k, x in corpus.texts.items()} == alone, name
            assert not any("left out" in note for note in corpus.notes)


def test_what_is_hidden_is_not_read_in_other_corpora(tmp_path):
    story = gzip.compress(document("A_1", "<P>\nIt is so.\n</P>\n" * 9).encode())
    stories = {f"{k}.txt": f"It is story {k}.\n" for k in range(300)}
    for name in HIDDEN:
        name = name.format("a_eng_1", "a_eng_1")
        wire = {
            f"gigaword/{name.replace('.txt', '.gz')}": b"\0\5",
            "gigaword/b.gz": story,
        }
        folder = write(tmp_path / f"wire {name.replace('/', ' ')}", wire)
        with pytest.raises(CorpusError, match=r"validation text of gigaword .* is"):
            corpora.load("gigaword", folder)  # all else of it is good
        folder = tmp_path / f"txt {name.replace('/', ' ')}"
        write(folder / "gigaword", stories | {name: b"\0\5"})
        assert sum(map(len, corpora.load("gigaword", folder).texts.values())) == 300 * 6
        folder = tmp_path / f"babi {name.replace('/', ' ')}"
        place = "tasks_1-20_v1-2/en"
        odd = name.replace("a_eng_1", "qa1_some-name_train")
        write(folder, files() | {f"{place}/{odd}": b"\0\5"})
        assert corpora.babi(data_dir=folder).stories(1, "train")[0].answer == "bathroom"


def test_what_is_hidden_in_an_archive_is_not_read(tmp_path):
    """A Mac packs `__MACOSX` and `._` files; backups may lie inside."""
    path = "wikitext-2/wiki.train.tokens"
    odd = {f"__MACOSX/{path}": b"\0\5", f".backup/{path}": b"\0\5"}
    zipped(tmp_path / "wikitext-2-v1.zip", odd | members("wikitext-2"))
    assert len(corpora.load("wikitext-2", tmp_path).texts["train"]) == 19
    stories = {name: text.encode() for name, text in files().items()}
    place = "tasks_1-20_v1-2/en/qa1_some-name_train.txt"
    odd = {f"__MACOSX/{place}": b"\0\5", f"a/.b/en/{place[19:]}": b"\0\5"}
    tarred(tmp_path / "tasks_1-20_v1-2.tar.gz", odd | stories)
    assert len(corpora.babi(data_dir=tmp_path).stories(1, "train")) == 3


def test_of_two_archives_the_one_with_the_plain_name_is_read(tmp_path):
    """` (1)` stands before `.zip` in the alphabet, and may be broken off."""
    zipped(tmp_path / "wikitext-2-v1.zip", members("wikitext-2"))
    write(tmp_path, {"wikitext-2-v1 (1).zip": b"PK", "._wikitext-2-v1.zip": b"\0\5"})
    assert len(corpora.load("wikitext-2", tmp_path).texts["train"]) == 19


def test_leftovers_are_no_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "FOLDER", tmp_path)
    before = discovery.task_files()
    odd = ["._babi.py", ".babi.py", "babi copy.py", "babi (1).py", "babi - Copy.py"]
    odd += ["babi-checkpoint.py", ".#babi.py", "babi-Copy1.py", "1babi.py"]
    odd += ["babi_copy.py", "babi_copy_2.py", "babi_Kopie.py", "babi_old.py"]
    own = ["babi.py", "memory_copy.py", "copy_.py"]  # of nothing that is here
    write(tmp_path, dict.fromkeys([*own, *odd], "'''Stories.'''"))
    (tmp_path / "folder.py").mkdir()
    found = {*discovery.task_files()} - {*before}
    assert found == {"babi", "memory_copy", "copy_"}


# --- Copies ---------------------------------------------------------------------------


def test_a_copy_of_a_book_is_neither_trained_on_nor_tested_with(tmp_path):
    """Whatever it is called, and though its name puts it into another part."""
    alone = expected(tmp_path)
    for k, name in enumerate(COPIES):
        for book in "98", "76":
            folder = tmp_path / f"{k} {book}"
            copy = f"{name.format(book)}.txt"
            books(folder, {copy: BOOKS[book], f"more/{copy}": BOOKS[book] + "Edited."})
            assert texts(folder) == alone, copy
            notes = corpora.load("gutenberg", folder).notes
            assert any(copy in note and "left out" in note for note in notes), copy


def test_an_edited_copy_does_not_take_the_place_of_its_book(tmp_path):
    """`98 copy.txt` comes before `98.txt` in the alphabet."""
    alone = expected(tmp_path)
    for k, name in enumerate(COPIES):
        folder, copy = tmp_path / f"{k}", f"{name.format('98')}.txt"
        books(folder, {copy: "Another text, of an earlier day.\n"})
        assert texts(folder) == alone, copy
        assert any(copy in x for x in corpora.load("gutenberg", folder).notes), copy


def test_books_of_one_text_count_once_and_are_named(tmp_path):
    """Also with another header, other lines, another encoding, packed, or typeset."""
    text = "It's the “book” 76, Zoë.\n\nSo it is.\n"
    books(tmp_path / "plain", {"76.txt": text})
    alone = texts(tmp_path / "plain")
    end = f"\n{FOOTER[-29:]}"
    typed = text.replace("“", '"').replace("”", '"').replace("It's", "It\u2019s")
    same = {
        "equal": text,
        "crlf": text.replace("\n", "\r\n"),
        "mac": text.replace("\n", "\r"),
        "marked": codecs.BOM_UTF8 + text.encode(),
        "packed": gzip.compress(text.encode()),
        "wrapped": text.replace(" ", "\n"),
        "longer": text + "\n\n\n",
        "framed": f"{MARK}\n{text}{end}",
        "latin": (HEADER.format("Windows-1252") + MARK + text + end).encode("cp1252"),
        "typed": typed,
        "capitals": text.upper(),
        "900": text,  # another number
    }
    for name, data in same.items():
        folder = tmp_path / name
        books(folder, {"76.txt": text, f"my/{name}.txt": data})
        corpus = corpora.load("gutenberg", folder)
        assert {k: x.tolist() for k, x in corpus.texts.items()} == alone, name
        said = f"the same text as another file, and left out: {name}.txt (as 76.txt)"
        assert said in corpus.notes, name


def test_an_edited_copy_is_a_copy_whatever_it_is_called(tmp_path):
    """Told by its passages: an old version, a part, a book among others, bare words,
    a page.
    """

    def told(name, edited=()):
        many = (
            f"In the book {name} stands a sentence of number {k}" for k in range(60)
        )
        rest = (f"{x} was edited" if k in edited else x for k, x in enumerate(many))
        return ".\n".join(rest) + ".\n"

    own = {f"{name}.txt": told(name) for name in BOOKS}
    alone = texts(write(tmp_path / "plain" / "gutenberg", own).parent)
    other = {
        "98 2.txt": told("98", {3, 50}),
        "old/tale.txt": told("98", range(0, 60, 3)),
        "part.txt": told("98")[:1000],
        "wrapped.txt": told("98", {7}).replace(" ", "\r\n").upper(),
        "all.txt": "".join(map(told, BOOKS)),
        "bare.txt": re.sub(r"[^\w\n]+", " ", told("98", {9})),
        "line.txt": told("98", {9}).replace(".", "").replace("\n", " "),
    }
    lines = told("98", {9}).splitlines()
    numbered = {"a": "{:4} {}", "b": "{}. {}", "c": "[{:03}]\t{}", "d": "{1}    {0}"}
    for name, form in numbered.items():
        rows = (form.format(k, line) for k, line in enumerate(lines, 1))
        other[f"{name}.txt"] = "\n".join(rows)
    rows = (f'<p class="a">{x.replace(" ", " <i>", 1)}</i>&nbsp;</p>' for x in lines)
    other["page.txt"] = "\n".join(rows)
    for name, text in other.items():
        folder = tmp_path / name
        write(folder / "gutenberg", own | {name: text})
        assert texts(folder) == alone, name
        said = f"left out: {name.rpartition('/')[2]} (mostly as "
        assert any(said in note for note in corpora.load("gutenberg", folder).notes)
    write(tmp_path / "other" / "gutenberg", own | {"2.txt": told("98", range(40))})
    assert texts(tmp_path / "other") != alone  # one that shares a third of them


def test_a_copy_moves_none_of_the_books(tmp_path):
    """The book with a number stays, in its part."""
    for name in "a", "zzz", "my book":
        for number, part in {"76": "test", "11889": "validation"}.items():
            folder = tmp_path / name / number
            books(folder, {f"{name}.txt": BOOKS[number]})
            corpus = corpora.load("gutenberg", folder)
            assert number in shown(corpus, part) or "<unk>" in shown(corpus, part)
            assert len(corpus.texts[part]) == 7
            assert len(corpus.texts["train"]) == 14


def test_many_copies_are_counted_in_the_note(tmp_path):
    books(tmp_path, {f"c{k}.txt": BOOKS["98"] for k in range(9)})
    (note,) = (x for x in corpora.load("gutenberg", tmp_path).notes if "left out" in x)
    assert note.endswith("c0.txt (as 98.txt), c1.txt (as 98.txt), c2.txt (as 98.txt), "
                         "c3.txt (as 98.txt) and 5 more")  # fmt: skip


def test_copies_of_newswire_count_once_and_are_named(tmp_path):
    names = [f"NYT_ENG_199407.{k:04}" for k in range(400)]
    month = "".join(document(n, f"<P>\nIt is {n}.\n</P>\n") for n in names).encode()
    packed = gzip.compress(month)
    alone = write(tmp_path / "alone", {"gigaword/nyt_eng_199407.gz": packed})
    alone = texts(alone, "gigaword")
    same = {f"{name.format('nyt_eng_199407')}.gz": packed for name in COPIES}
    same |= {"a.gz": packed, "b/nyt_eng_199407.gz": packed}
    same |= {"unpacked.gz": month, "fast.gz": gzip.compress(month, 1)}
    same |= {"crlf.gz": gzip.compress(month.replace(b"\n", b"\r\n"))}
    for name, data in same.items():
        one = {"gigaword/nyt_eng_199407.gz": packed, f"gigaword/{name}": data}
        corpus = corpora.load("gigaword", write(tmp_path / "with" / name, one))
        assert {k: x.tolist() for k, x in corpus.texts.items()} == alone, name
        assert any("left out" in note and ".gz" in note for note in corpus.notes)
    stories = {f"{k}.txt": f"It is {k}.\n" for k in range(400)}
    write(tmp_path / "txt" / "gigaword", stories | {"x.txt": "It is 7.\n"})
    corpus = corpora.load("gigaword", tmp_path / "txt")
    assert sum(map(len, corpus.texts.values())) == 400 * 5
    assert "x.txt (as 7.txt)" in corpus.notes[0]


def test_a_document_of_newswire_counts_once(tmp_path):
    """Wherever it comes again: under another name, in other lines. A notice of a few
    words is no copy.
    """
    names = [f"NYT_ENG_199407.{k:04}" for k in range(400)]
    told = "And so said they all, late in the day, one by one, {0}, until it was {0}."
    month = [document(n, f"<P>\n{told.format(n)}\n</P>\n") for n in names]
    typed = told.replace(" ", "\n").replace(",", "")
    again = [document(f"A{n}", f"<P>\n{typed.format(n)}\n</P>\n") for n in names]
    short = [document(f"B{n}", "<P>\nIt is so.\n</P>\n") for n in names]
    files = {"gigaword/a.gz": month + again[:3], "gigaword/b.gz": again + month[:1]}
    corpora_of = {}
    for name, more in ("with", files), ("alone", {"gigaword/a.gz": month}):
        more = {"gigaword/c.gz": short} | more
        packed = {k: gzip.compress("".join(x).encode()) for k, x in more.items()}
        folder = write(tmp_path / name, packed)
        corpora_of[name] = corpora.load("gigaword", folder)
    assert texts(tmp_path / "with", "gigaword") == texts(tmp_path / "alone", "gigaword")
    says = "the same text as an earlier one, and left out: 404 documents"
    assert says in corpora_of["with"].notes and not corpora_of["alone"].notes


def test_other_archives_in_the_folder_are_no_newswire(tmp_path):
    names = [f"NYT_ENG_199407.{k:04}" for k in range(400)]
    month = "".join(document(n, f"<P>\nIt is {n}.\n</P>\n") for n in names).encode()
    write(tmp_path, {"nyt/nyt_eng_199407.gz": gzip.compress(month)})
    tarred(tmp_path / "simple-examples.tar.gz", members("ptb"))
    assert len(corpora.load("gigaword", tmp_path).texts["train"]) > 300


def test_two_parts_of_one_text_are_said(tmp_path):
    texts = members("ptb")
    train, valid, test = texts
    cases = {
        (valid, test): "the validation and the test text are the same",
        (train, valid): "the train and the validation text are the same",
        (train, test): "the train and the test text are the same",
    }
    for (first, second), says in cases.items():
        folder = tmp_path / says
        crlf = texts[first].replace(b"\n", b"\r\n")
        corpus = corpora.load("ptb", write(folder, texts | {second: crlf}))
        assert says in corpus.notes
    assert not any(
        "same" in x for x in corpora.load("ptb", write(tmp_path, texts)).notes
    )


def prose(seed, lines=60, words=20):
    """Lines of letters, by chance."""
    rng = np.random.default_rng(seed)
    letters = rng.choice([*"abcdefghij"], (lines, words, 5))
    return "".join(" ".join(map("".join, line)) + " .\n" for line in letters)


def in_ptb(train, test):
    texts = zip(members("ptb"), (train, prose(1), test), strict=True)
    return "ptb", dict(texts)


def in_newswire(more=""):
    names = [f"NYT_ENG_199407.{k:04}" for k in range(400)]
    told = [document(n, f"<P>\n{prose(k, 3)}</P>\n") for k, n in enumerate(names)]
    again = [x.replace("NYT", "AFP").replace("</P>", f"{more}</P>") for x in told]
    packed = gzip.compress("".join(told + again * bool(more)).encode())
    return "gigaword", {"gigaword/a.gz": packed}


def in_books(learnt, tested=""):
    """A tenth of a book that is tested with in each of ten, and the reverse."""
    told = prose(76, 100).splitlines(keepends=True)
    names = (str(k) for k in range(200, 300))
    train = [n for n in names if loading.part_of(n, 80, 10) == "train"][:10]
    found = {"98": prose(98), "76": "".join(told), "11889": prose(11889)}
    for k, name in enumerate(train):
        found[name] = prose(int(name)) + "".join(told[10 * k :][: 10 * learnt])
    found["76"] += "".join(
        "\n".join(found[n].split("\n")[:9]) for n in tested and train
    )
    return "gutenberg", {f"gutenberg/{k}.txt": x for k, x in found.items()}


@pytest.mark.parametrize(
    ("corpus", "told"),
    [
        (in_ptb(prose(0), prose(2)), ""),
        (in_ptb(prose(0), prose(0) + "the end\n"), "most sentences"),
        (in_ptb(prose(0), prose(0)[len(prose(0)) // 2 :]), "most sentences"),
        (in_ptb(prose(0) + prose(2), prose(2)), "most sentences"),
        (in_ptb(prose(0), prose(0).upper()), "most sentences"),
        (in_ptb(prose(0), "".join(sorted(prose(0).split("\n")))), "most sentences"),
        (in_ptb(prose(0), prose(2) + prose(0, 10)), r"1\d% of the passages"),
        (in_ptb(prose(0, 600, 6), prose(2, 60, 6)), ""),
        (in_ptb(prose(0, 60, 6), "\n".join(prose(0, 60, 6).split("\n")[::-1])), "most"),
        (in_newswire(), ""),
        (in_newswire("Edited by hand.\n"), "most sentences"),
        (in_books(0), ""),
        (in_books(1), "most sentences"),
        (in_books(0, "tested"), r"\d\d% of the passages"),
        (
            ("text8", {"text8": f"{prose(0, 200)} {prose(0, 200)}".replace("\n", " ")}),
            "m",
        ),
    ],
)
def test_what_is_tested_with_and_stands_in_the_train_text_is_said(
    corpus, told, tmp_path
):
    name, files = corpus
    write(tmp_path, files)
    for _ in range(2):  # from the cache too
        notes = corpora.load(name, tmp_path).notes
        said = [
            x for x in notes if x.endswith("of the test text stand in the train text")
        ]
        assert [bool(re.match(told, x)) for x in said] == [True] * bool(told), notes


def test_copies_of_stories_count_once_and_are_named(tmp_path):
    place = "tasks_1-20_v1-2/en"
    again = {f"{place}/qa1_again_train.txt": TEXT.replace("\n", "\r\n")}
    other = "1 It is so.\n2 Is it?\tyes\t1\n"
    unlike = {f"{place}/qa{k}_some-name_test.txt": other for k in range(1, 21)}
    write(tmp_path / "plain", files() | unlike | again)
    (tmp_path / "packed").mkdir()
    packed = {k: x.encode() for k, x in (files() | unlike | again).items()}
    tarred(tmp_path / "packed" / "tasks_1-20_v1-2.tar.gz", packed)
    for name in "plain", "packed":
        tasks = corpora.babi(data_dir=tmp_path / name)
        assert len(tasks.stories(1, "train")) == 3
        (note,) = tasks.notes
        assert "qa1_" in note and "the same text as" in note and "left out" in note
    write(tmp_path / "leak", files() | unlike)
    write(tmp_path / "leak", {f"{place}/qa4_some-name_test.txt": TEXT})
    (note,) = corpora.babi(data_dir=tmp_path / "leak").notes
    assert note == "the train and the test text are the same: task 4"
    write(tmp_path / "leak", {f"{place}/qa4_some-name_test.txt": TEXT.upper() + other})
    (note,) = corpora.babi(data_dir=tmp_path / "leak").notes
    assert note == "most stories of the test text stand in the train text: task 4"


# --- Texts under unusual names --------------------------------------------------------


def test_capitals_in_a_name_hide_no_text(tmp_path):
    alone = expected(tmp_path)
    for book, name in {
        "76": "76-0.TXT",
        "98": "PG98.Txt",
        "1342": "1342.txt.UTF-8",
    }.items():
        folder = tmp_path / name
        books(folder, {})
        (folder / "gutenberg" / f"{book}.txt").rename(folder / "gutenberg" / name)
        assert texts(folder) == alone
    ptb = {path.replace("ptb.", "PTB.").replace("txt", "TXT"): x
           for path, x in members("ptb").items()}  # fmt: skip
    assert len(corpora.load("ptb", write(tmp_path / "ptb", ptb)).texts["test"]) == 7
    (tmp_path / "zip").mkdir()
    zipped(tmp_path / "zip" / "WikiText-2-v1.ZIP", members("wikitext-2"))
    assert len(corpora.load("wikitext-2", tmp_path / "zip").texts["train"]) == 19
    babi = {path.replace(".txt", ".TXT"): text for path, text in files().items()}
    assert corpora.babi(data_dir=write(tmp_path / "babi", babi)).missing == []
    stories = {f"gigaword/{k}.TXT": f"It is {k}.\n" for k in range(300)}
    assert corpora.load("gigaword", write(tmp_path / "wire", stories))
    assert [*places(tmp_path / "76-0.TXT")][-1][1].name == "76-0.TXT"


@pytest.mark.parametrize("name", ["Gutenberg", "GUTENBERG", "data/gutenBerg"])
def test_capitals_in_a_folder_s_name_hide_no_books(name, tmp_path):
    books(tmp_path / "plain", {})
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / "plain" / "gutenberg").rename(tmp_path / name)
    for folder in tmp_path, tmp_path / name:
        assert texts(folder) == expected(tmp_path / "again")


def test_linked_folders_and_files_are_followed_each_once(tmp_path):
    alone = expected(tmp_path)
    shelf = write(tmp_path / "shelf", {f"{k}.txt": x for k, x in BOOKS.items()})
    folder = tmp_path / "linked"
    (folder / "gutenberg").mkdir(parents=True)
    os.symlink(shelf, folder / "gutenberg" / "shelf")
    assert texts(folder) == alone
    os.symlink(folder / "gutenberg", shelf / "back")  # a circle
    os.symlink(shelf, folder / "gutenberg" / "again")
    os.symlink(shelf / "gone", shelf / "gone.txt")
    corpus = corpora.load("gutenberg", folder)
    assert {k: x.tolist() for k, x in corpus.texts.items()} == alone
    assert not any("left out" in note for note in corpus.notes)
    whole = tmp_path / "whole"
    whole.mkdir()
    os.symlink(folder / "gutenberg", whole / "gutenberg")
    assert texts(whole) == alone


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    books(tmp_path, {"closed/7.txt": "A book."})
    scan = os.scandir

    def refused(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(CorpusError, match=r"cannot read .*closed: Permission denied"):
        corpora.load("gutenberg", tmp_path)


# --- What is packed under a text's name -----------------------------------------------

PACKED = {
    "a zip archive": b"PK\3\4\x14\0\0\0",
    "a bzip2 file": bz2.compress(b"a cat"),
    "an xz file": lzma.compress(b"a cat"),
    "a 7-Zip archive": b"7z\xbc\xaf\x27\x1c\0\4",
    "a Zstandard file": b"\x28\xb5\x2f\xfd\x24\x05",
    "a RAR archive": b"Rar!\x1a\7\1\0",
    "an LZ4 file": b"\x04\x22\x4d\x18\x64",
    "a compress (.Z) file": b"\x1f\x9d\x90aa",
    "a PDF": b"%PDF-1.7\n%\xe2\xe3",
    "an RTF document": rb"{\rtf1\ansi A cat}",
    "a tar archive": b"a.txt".ljust(257, b"\0") + b"ustar\x0000".ljust(300, b"\0"),
    "a Parquet file": b"PAR1\x15\x04",
    "a NumPy file": b"\x93NUMPY\x01\0",
    "a picture (GIF)": b"GIF89a\1\0",
    "a picture (PNG)": b"\x89PNG\r\n\x1a\n",
    "a picture (JPEG)": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "a picture (TIFF)": b"II*\0\x08\0\0\0",
    "a picture (TIFF) ": b"MM\0*\0\0\0\x08",
    "a picture (BMP)": b"BM\x36\0\x03\0\0\0\0\0\x36\0\0\0",
    "a WebAssembly file": b"\0asm\1\0\0\0",
    "a Java class": b"\xca\xfe\xba\xbe\0\0\0\x34",
    "a program (ELF)": b"\x7fELF\2\1\1\0",
    "an LZMA file": lzma.compress(b"a cat", lzma.FORMAT_ALONE),
    "a RIFF file": b"RIFF\x24\0\0\0WAVEfmt ",
    "a Mac's notes on another file (AppleDouble)": b"\0\5\x16\7\0\2\0\0",
    "a DjVu document": b"AT&TFORM\0\0",
    "an EPUB book": b"PK\x03\x04" + b"\0" * 26 + b"mimetypeapplication/epub+zipPK",
    "an Office document": b"PK\x03\x04" + b"\0" * 26 + b"[Content_Types].xml",
    "a Kindle book (MOBI)": b"A_Book".ljust(60, b"\0") + b"BOOKMOBI",
    "a tar archive ": gzip.compress(b"a".ljust(257, b"\0") + b"ustar  \0".ljust(300)),
}


def test_what_is_packed_is_called_so(tmp_path):
    for kind, data in PACKED.items():
        kind = kind.strip()
        write(tmp_path, members("ptb") | {"simple-examples/data/ptb.test.txt": data})
        with pytest.raises(CorpusError, match=f"ptb.test.txt is {re.escape(kind)} and"):
            corpora.load("ptb", tmp_path)
        books(tmp_path, {"76.txt": data})
        with pytest.raises(CorpusError, match=f"76.txt is {re.escape(kind)} and"):
            corpora.load("gutenberg", tmp_path)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n"
    for text in pointer, gzip.compress(pointer):
        books(tmp_path, {"76.txt": text})
        with pytest.raises(
            CorpusError, match=r"76.txt is .* a pointer .* git lfs pull"
        ):
            corpora.load("gutenberg", tmp_path)
    for encoding in "utf-16", "utf-16-le", "utf-16-be", "utf-32":
        books(tmp_path, {"76.txt": "A cat sat.".encode(encoding)})
        with pytest.raises(CorpusError, match=r"as UTF-(16|32) has; convert it"):
            corpora.load("gutenberg", tmp_path)
    for data in b"\0" * 4096, b"A cat" + b"\0" * 99:
        books(tmp_path, {"76.txt": data})
        with pytest.raises(CorpusError, match="as no text has; fetch it again"):
            corpora.load("gutenberg", tmp_path)
