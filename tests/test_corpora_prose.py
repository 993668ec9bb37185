"""Running text: words, Project Gutenberg's files as people have them, and newswire."""

import codecs
import gzip
import itertools
import unicodedata

import pytest
from corpora_files import write

from tinyrmc import corpora
from tinyrmc.corpora import CorpusError, MissingCorpus
from tinyrmc.corpora.known import BOOKS
from tinyrmc.corpora.loading import find, part_of
from tinyrmc.corpora.words import book, newswire, prose

pytestmark = pytest.mark.usefixtures("caches")


# --- Words ----------------------------------------------------------------------------

WORDS = {
    "Don't stop, Mr. Well-known!": "Don't stop , Mr . Well-known !",
    "“_You_ want—to \u2018go\u2019...”": "\" You want -- to ' go ' ... \"",
    "'Tis 1,000 £; snake_case": "' Tis 1 , 000 £ ; snakecase",
    "naïve Ærø \u0436": "naïve Ærø \u0436",
    "a--b - c": "a -- b - c",
    "<eos>": "< eos >",  # not the mark of the end
}


def test_words_of_prose():
    for text, words in WORDS.items():
        assert prose(text) == words + "\n"
    whole = "\n\nOne two\nthree.\n\n \nFour.\n\n\n\nFive"
    for end in "\n", "\r\n", "\r":
        said = "One two three .\nFour .\nFive\n"
        assert prose(whole.replace("\n", end)) == said


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_what_is_written_on_a_letter_does_not_split_its_word(form):
    """Accents apart from their letters, vowel signs, joiners; and soft hyphens."""
    words = [
        "caf\u00e9",
        "na\u00efve-t\u00e9",
        "Vi\u1ec7t",  # two marks
        "\u0939\u093f\u0928\u094d\u0926\u0940",  # Hindi, with vowel signs
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd",  # Tamil
        "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",  # Hebrew, with points
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a joiner
        "a\u0301\u20dd",  # a mark around it
    ]
    text = unicodedata.normalize(form, " ".join(words))
    assert prose(text) == unicodedata.normalize("NFC", " ".join(words)) + "\n"
    for hidden in "\u00ad\ufeff\u2060\u200e\u2066":
        assert prose(f"cof{hidden}fee, so{hidden}me") == "coffee , some\n"
    assert prose("a cof\u00ad\nfee\n\nor two") == "a coffee\nor two\n"
    assert prose("well\u2010known re\u2011enter") == "well-known re-enter\n"
    assert prose("two\u200bwords\u00a0here") == "two words here\n"


# --- Books ----------------------------------------------------------------------------

HEADER = """The Project Gutenberg EBook of A Book, by Nobody

Title: A Book

Character set encoding: {}

"""
BODY = (
    "Produced by David and\nothers\n\n\nCHAPTER I\n\nIt was “café” time.\n\nTHE END\n\n"
)
LONG = BODY.replace("time.", "time. " + "Some more of it. " * 150)
PLAIN = BODY.replace("“", '"').replace("”", '"')
FOOTER = """End of Project Gutenberg's A Book, by Nobody

*** END OF THIS PROJECT GUTENBERG EBOOK A BOOK ***

Updated editions will replace the previous one.
*** START: FULL LICENSE ***
"""
INSIDE = 'CHAPTER I\nIt was " café " time .\nTHE END\n'


def gutenberg(start, encoding="utf-8", stated="UTF-8", body=BODY, footer=FOOTER):
    """A file as Project Gutenberg gives it: CRLF, header, book, licence."""
    whole = HEADER.format(stated) + start + "\n\n" + body + footer
    return whole.replace("\n", "\r\n").encode(encoding)


SMALL_PRINT = (
    "***START**THE SMALL PRINT!**FOR PUBLIC DOMAIN ETEXTS**START***\n"
    'Why is this "Small Print!" statement here? You know: lawyers.\n'
    + "They tell us you might sue us.\n" * 9
    + "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*\n"
)
STARTS = [
    "*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***",
    "***START OF THE PROJECT GUTENBERG EBOOK A BOOK***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK WITH A TITLE,\nOF TWO LINES ***",
    "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
    "*** START OF THE COPYRIGHTED PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A*B*O*O*K ***",
    "*** start of the project gutenberg ebook a book ***",
    " ** Start of This Project Gutenberg eBook A Book **",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK",
    SMALL_PRINT,
    "*** START OF PROJECT GUTENBERG EBOOK A BOOK ***",
    "_*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***_",
]
ENDS = [
    FOOTER,
    "***END OF THE PROJECT GUTENBERG EBOOK A BOOK***\nLicence\n",
    "End of the Project Gutenberg EBook of A Book, by\nNobody\n\nLicence\n",
    "*** END OF THE COPYRIGHTED PROJECT GUTENBERG EBOOK A BOOK ***\nLicence\n",
    "*** end of the project gutenberg ebook a book\nLicence\n",
    "  The End of the Project Gutenberg Etext of A Book\nLicence\n",
    "*** START: FULL LICENSE ***\nLicence\n",
    "",
]


def test_header_licence_and_credits_are_left_out():
    """After every mark that a book begins with, before each that it ends with."""
    inside = prose(LONG.partition("\n\n\n")[2])
    for start, end in itertools.product(STARTS, ENDS):
        assert prose(book(gutenberg(start, footer=end), "a")[0]) == INSIDE, (start, end)
        text, _ = book(gutenberg(start, body=LONG, footer=end), "a")
        assert prose(text) == inside, (start, end)


def test_credits_have_many_forms():
    inside = prose(LONG.partition("\n\n\n")[2])
    for said in [
        "This Project Gutenberg Etext was typed by Nobody",
        "Scanned and proofed by Nobody\nand others",
        "eBook prepared by Nobody",
        "Transcribed from the edition of 1891",
    ]:
        body = LONG.replace("Produced by David and\nothers", said)
        assert prose(book(gutenberg(STARTS[0], body=body), "a")[0]) == inside, said


def test_several_books_in_a_file_are_all_kept():
    one = gutenberg(STARTS[0], body=LONG).decode()
    other = one.replace("CHAPTER I", "CHAPTER II")
    text, doubt = book(f"{one}\n\n{other}".encode(), "a")
    assert prose(text).count("THE END") == 2 and "Licence" not in text and not doubt
    assert text.index("CHAPTER I\n") < text.index("CHAPTER II\n")


def test_encodings():
    cases = [
        ("utf-8", "UTF-8", BODY),
        ("utf-8-sig", "UTF-8", BODY),
        ("utf-8-sig", "ISO-8859-1", BODY),  # the mark is believed
        ("iso-8859-1", "ISO-8859-1", PLAIN),
        ("iso-8859-1", "ISO Latin-1", PLAIN),
        ("cp1252", "Windows-1252", BODY),
        ("cp1252", "CP-1252", BODY),
        ("cp1252", "ISO-8859-1", BODY),  # it has quotation marks, so it is not
        ("cp1252", "ISO Latin-1", BODY),
        ("cp1252", "ISO-8859-15", BODY),
        ("cp1252", "Windows Codepage 1252", BODY),
        ("iso-8859-1", "ISO-8859-1 (Latin-1)", PLAIN),
    ]
    for encoding, stated, body in cases:
        data = gutenberg(STARTS[0], encoding, stated, body)
        assert prose(book(data, "a")[0]) == INSIDE, (encoding, stated)


def test_bytes_in_no_stated_encoding_are_named():
    for stated in "ASCII", "UTF-8", "something else":
        data = gutenberg(STARTS[0], "iso-8859-1", stated, PLAIN)
        says = rf"11.txt is not UTF-8 at byte {data.index(0xE9):,} \(0xe9"
        with pytest.raises(CorpusError, match=says):
            book(data, "11.txt")
        marked = codecs.BOM_UTF8 + data  # which counts
        with pytest.raises(CorpusError, match=f"at byte {marked.index(0xE9):,} "):
            book(marked, "11.txt")
    data = gutenberg(STARTS[0], "cp1252", "Windows-1252").replace(b"\xe9", b"\x81")
    with pytest.raises(CorpusError, match=r"is not cp1252 at byte [\d,]+ \(0x81\)"):
        book(data, "11.txt")
    latin = gutenberg(STARTS[0], "iso-8859-1", "ISO-8859-1", PLAIN + "\x81")
    assert "café" in book(latin, "11.txt")[0]  # with what cp1252 has not
    data = b"<html>" + gutenberg(STARTS[0], "iso-8859-1", "ISO-8859-1", PLAIN)
    with pytest.raises(CorpusError, match=r"11.txt line 1 begins a web page"):
        book(data, "11.txt")


def test_a_file_without_marks_is_taken_whole():
    data = b"[Emma by Jane Austen 1816]\n\nProduced by hand, she said.\n"
    whole = "[ Emma by Jane Austen 1816 ]\nProduced by hand , she said .\n"
    assert prose(book(data, "austen-emma.txt")[0]) == whole


# --- A folder of books ----------------------------------------------------------------

# by the rule: 98 falls into the training text, 1342 too, 11889 into validation, 76 into
# the test
NUMBERS = {"train": [98, 1342], "validation": [11889], "test": [76]}
MARK = "*** START OF THE PROJECT GUTENBERG EBOOK A ***\n"


def library(folder, extra=()):
    names = ["98.txt", "1342-0.txt", "pg11889.txt", "76.txt", *extra]
    again = "again " * 40
    said = {name: f"{MARK}Book {name} {again}\n{FOOTER[-29:]}" for name in names}
    return write(folder / "gutenberg", said)


def shown(corpus, part):
    return " ".join(corpus.vocabulary.decode(corpus.texts[part]))


def places(folder):
    return [(part, text.path) for part, text in find("gutenberg", folder).texts]


def test_a_books_number_decides_its_part(tmp_path):
    for part, numbers in NUMBERS.items():
        assert {part_of(str(k), 80, 10) for k in numbers} == {part}
    parts = [part_of(str(k), 80, 10) for k in range(10_000)]
    assert 7900 < parts.count("train") < 8100 and 900 < parts.count("test") < 1100
    library(tmp_path)
    corpus = corpora.load("gutenberg", tmp_path)
    assert shown(corpus, "test") == "<unk> " * 4 + "again " * 40 + "<eos>"
    assert corpus.texts["train"].size == 2 * corpus.texts["test"].size
    before = {path: part for part, path in places(tmp_path)}
    library(tmp_path, extra=["11-0.txt", "1661.txt", "2701-0.txt", "austen-emma.txt"])
    after = {path: part for part, path in places(tmp_path)}
    assert after.items() > before.items() and len(after) == 8


def test_one_file_is_taken_of_a_book(tmp_path):
    extra = ["1342.txt", "1342-8.txt", "1/3/4/pg1342.txt", "98-8.txt", "76.txt.utf-8"]
    extra += ["pg76 (1).txt", "76.txt.utf-8.txt", "pg76-images.txt"]  # copies
    library(tmp_path, extra)
    names = [path.name for _, path in places(tmp_path)]
    assert names == ["98.txt", "1342-0.txt", "pg11889.txt", "76.txt"]
    (note,) = corpora.load("gutenberg", tmp_path).notes
    assert note.startswith("other files of the same books, and left out: ")
    assert note.endswith(" and 4 more")


def test_books_of_which_little_is_left_are_named(tmp_path):
    folder = library(tmp_path, ["austen.txt"])
    long, print_ = "It was so. " * 9, SMALL_PRINT.replace("START", "")
    odd = {
        "1.txt": f"One. {long}",  # no mark
        "2.txt": f"{MARK}*** END OF THE PROJECT GUTENBERG EBOOK A ***\n{long}",
        "3.txt": f"{long}{long}\n{MARK}{long}",
        "5.txt": f"{MARK}Five. {long}\n*** START: FULL LICENSE ***\n{print_ * 9}",
        "7.txt": f"{MARK}{long}It is by Project Gutenberg.\n{FOOTER[-29:]}",
        "8.txt": f"{MARK}Eight. {long}",
        "10.txt": "",
        "6.txt": gzip.compress(f"{MARK}Six. {long}\n{FOOTER[-29:]}".encode()),
    }
    write(folder, odd)
    assert corpora.load("gutenberg", tmp_path).notes == (
        "these books have no mark of where they begin: 1.txt",
        "nothing is left of these books without what is around them: 2.txt, 10.txt",
        "less than half is left of these books without what is around them: 3.txt, "
        "5.txt",
        "something of Project Gutenberg is left in these books: 7.txt",
        "these books have no mark of where they end: 8.txt",
    )


def test_three_books_are_enough_if_they_are_the_ones_that_are_named(tmp_path):
    says = rf"put books as .txt files into {tmp_path}/gutenberg, .*; they are at www"
    with pytest.raises(MissingCorpus, match=says):
        corpora.load("gutenberg", write(tmp_path, {"gutenberg/readme.md": "none"}))
    write(tmp_path / "gutenberg", {"98.txt": "a", "1342.txt": "b"})
    with pytest.raises(CorpusError, match=r"none of the books in .*gutenberg \(2 in"):
        corpora.load("gutenberg", tmp_path)
    for part, number in BOOKS.items():
        assert part_of(str(number), training=80, validation=10) == part
        assert f"{number} ({part})" in corpora.CORPORA["gutenberg"].remedy
    (tmp_path / "gutenberg" / "98.txt").unlink()
    write(tmp_path / "gutenberg", {f"{n}.txt": f"a {n}" for n in BOOKS.values()})
    texts = corpora.load("gutenberg", tmp_path).texts
    assert all(len(text) == 3 for text in texts.values())


# --- Newswire -------------------------------------------------------------------------


def document(name, text, kind="story"):
    return (
        f'<DOC id="{name}" type="{kind}" >\n<HEADLINE>\nNot this\n</HEADLINE>\n'
        f"<DATELINE>\nNor this\n</DATELINE>\n<TEXT>\n{text}</TEXT>\n</DOC>\n"
    )


STORY = "<P>\nAT&amp;T said it&AMP;s\nfine.\n</P>\n<P>\nSo 5 &lt; 6.\n</P>\n"


def test_stories_of_newswire():
    file = document("A_1", STORY) + document("A_2", "1  2  3\n", "other")
    file += document("A_3", "<P>\nMore.\n</P>\n") + '<DOC id="A_4" type="story">cut'
    for end in "\n", "\r\n", "\r":
        found = dict(newswire(file.replace("\n", end).encode(), "a.gz"))
        assert list(found) == ["A_1", "A_3"]
        assert prose(found["A_1"]) == "AT & T said it & s fine .\nSo 5 < 6 .\n"


def test_the_ldcs_files(tmp_path):
    names = [f"NYT_ENG_199407.{k:04}" for k in range(400)]
    months = {
        f"data/nyt_eng/nyt_eng_19940{k}.gz": gzip.compress(
            "".join(document(n, "<P>\nIt is so.\n</P>\n") for n in names[k::2]).encode()
        )
        for k in range(2)
    }
    for place in "gigaword", "gigaword_eng_5", "":
        folder = tmp_path / f"in {place}"
        write(folder / place, months | {"docs/0readme.txt": "not a story"})
        corpus = corpora.load("gigaword", folder)
        for part, ids in corpus.texts.items():
            here = [name for name in names if part_of(name, 98, 1) == part]
            assert len(ids) == 5 * len(here) > 0
        assert "not" not in corpus.vocabulary.words
    told = {f"{k}.txt": f"It is so.\n\nYes {k}." for k in range(400)}
    write(tmp_path / "gigaword", told)
    corpus = corpora.load("gigaword", tmp_path)  # a story a file, without any .gz
    assert shown(corpus, "test").startswith("It is so . <eos> Yes <unk> . <eos>")
    assert sum(map(len, corpus.texts.values())) == 400 * 9


def test_newswire_that_cannot_be_read(tmp_path, caches):
    good = gzip.compress(document("A_1", STORY * 500).encode())
    path = tmp_path / "gigaword" / "a_eng_1.gz"
    write(tmp_path, {"gigaword/a_eng_1.gz": good[:-20]})
    with pytest.raises(CorpusError, match=f"{path} is damaged or cut short"):
        corpora.load("gigaword", tmp_path)
    bad = document("A_1", STORY).encode() + b'<DOC id="B" type="story">\n\xff\n</DOC>\n'
    path.write_bytes(gzip.compress(bad))
    with pytest.raises(CorpusError, match=f"is not UTF-8 at byte {bad.index(0xFF)} "):
        corpora.load("gigaword", tmp_path)
    assert [*caches.iterdir()] == []
