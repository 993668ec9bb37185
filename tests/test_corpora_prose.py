"""Running text: words, Project Gutenberg's files as people have them, and newswire."""

import codecs
import gzip
import io

import pytest
from corpora_files import write

from tinyrmc import corpora
from tinyrmc.corpora import CorpusError, MissingCorpus, loading, words
from tinyrmc.corpora.finding import part_of
from tinyrmc.corpora.known import BOOKS
from tinyrmc.corpora.words import book, newswire, prose

# --- Words ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("Don't stop, Mr. Well-known!", "Don't stop , Mr . Well-known !"),
        ("“_You_ want—to \u2018go\u2019...”", "\" You want -- to ' go ' ... \""),
        ("'Tis 1,000 £; snake_case", "' Tis 1 , 000 £ ; snakecase"),
        (
            "naïve Ærø \N{CYRILLIC SMALL LETTER ZHE}",
            "naïve Ærø \N{CYRILLIC SMALL LETTER ZHE}",
        ),
        ("a--b - c", "a -- b - c"),
        ("<eos>", "< eos >"),  # not the mark of the end
    ],
)
def test_words_of_prose(text, words):
    assert prose(text) == words + "\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_paragraphs_are_lines_whatever_the_line_ends(end):
    text = "\n\nOne two\nthree.\n\n \nFour.\n\n\n\nFive".replace("\n", end)
    assert prose(text) == "One two three .\nFour .\nFive\n"


# --- Books ----------------------------------------------------------------------------

HEADER = """The Project Gutenberg EBook of A Book, by Nobody

Title: A Book

Character set encoding: {}

"""
BODY = (
    "Produced by David and\nothers\n\n\nCHAPTER I\n\nIt was “café” time.\n\nTHE END\n\n"
)
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


STARTS = [
    "*** START OF THIS PROJECT GUTENBERG EBOOK A BOOK ***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***",
    "***START OF THE PROJECT GUTENBERG EBOOK A BOOK***",
    "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK WITH A TITLE,\nOF TWO LINES ***",
    "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
    "*** START OF THIS PROJECT GUTENBERG ETEXT A BOOK ***\n\n"
    "*END THE SMALL PRINT! FOR PUBLIC DOMAIN EBOOKS*Ver.02/11/02*END*",
]


@pytest.mark.parametrize("start", STARTS)
def test_header_licence_and_credits_are_left_out(start):
    assert prose(book(gutenberg(start), "a")) == INSIDE


@pytest.mark.parametrize(
    "footer",
    [
        FOOTER,
        "***END OF THE PROJECT GUTENBERG EBOOK A BOOK***\nLicence\n",
        "End of the Project Gutenberg EBook of A Book, by\nNobody\n\nLicence\n",
        "End of The Project Gutenberg Etext of A Book\n",
        "",
    ],
)
def test_ends_of_books(footer):
    assert prose(book(gutenberg(STARTS[0], footer=footer), "a")) == INSIDE


@pytest.mark.parametrize(
    "encoding, stated, body",
    [
        ("utf-8", "UTF-8", BODY),
        ("utf-8-sig", "UTF-8", BODY),
        ("utf-8-sig", "ISO-8859-1", BODY),  # the mark is believed
        ("iso-8859-1", "ISO-8859-1", PLAIN),
        ("iso-8859-1", "ISO Latin-1", PLAIN),
        ("cp1252", "Windows-1252", BODY),
        ("cp1252", "CP-1252", BODY),
    ],
)
def test_encodings(encoding, stated, body):
    data = gutenberg(STARTS[0], encoding, stated, body)
    assert prose(book(data, "a")) == INSIDE


@pytest.mark.parametrize("stated", ["ASCII", "UTF-8", "something else"])
def test_bytes_in_no_stated_encoding_are_named(stated):
    data = gutenberg(STARTS[0], "iso-8859-1", stated, PLAIN)
    place = f"{data.index(0xE9):,}"
    with pytest.raises(
        CorpusError, match=rf"11.txt is not UTF-8 at byte {place} \(0xe9"
    ):
        book(data, "11.txt")
    marked = codecs.BOM_UTF8 + data  # which counts
    with pytest.raises(CorpusError, match=f"at byte {marked.index(0xE9):,} "):
        book(marked, "11.txt")
    data = gutenberg(STARTS[0], "cp1252", "Windows-1252").replace(b"\xe9", b"\x81")
    with pytest.raises(CorpusError, match=r"is not cp1252 at byte [\d,]+ \(0x81\)"):
        book(data, "11.txt")


def test_a_book_as_a_web_page_is_refused():
    data = b"<html>" + gutenberg(STARTS[0], "iso-8859-1", "ISO-8859-1", PLAIN)
    with pytest.raises(CorpusError, match=r"11.txt line 1 begins a web page"):
        book(data, "11.txt")


def test_a_file_without_marks_is_taken_whole():
    data = b"[Emma by Jane Austen 1816]\n\nProduced by hand, she said.\n"
    whole = "[ Emma by Jane Austen 1816 ]\nProduced by hand , she said .\n"
    assert prose(book(data, "austen-emma.txt")) == whole


# --- A folder of books ----------------------------------------------------------------

# by the rule: 98 falls into the training text, 1342 too, 11889 into validation, 76 into
# the test
NUMBERS = {"train": [98, 1342], "validation": [11889], "test": [76]}


def library(folder, extra=()):
    names = ["98.txt", "1342-0.txt", "pg11889.txt", "76.txt", *extra]
    said = {name: f"Book {name} " + "again " * 3 for name in names}
    return write(folder / "gutenberg", said)


def shown(corpus, part):
    return " ".join(corpus.vocabulary.decode(corpus.texts[part]))


def test_a_books_number_decides_its_part(tmp_path):
    for part, numbers in NUMBERS.items():
        assert {part_of(str(k), 80, 10) for k in numbers} == {part}
    parts = [part_of(str(k), 80, 10) for k in range(10_000)]
    assert 7900 < parts.count("train") < 8100 and 900 < parts.count("test") < 1100
    library(tmp_path)
    corpus = corpora.load("gutenberg", tmp_path)
    again = "again again again <eos>"
    assert shown(corpus, "test") == "<unk> " * 4 + again
    assert corpus.texts["train"].size == 2 * corpus.texts["test"].size
    before = {path: part for part, path in _places(tmp_path)}
    library(tmp_path, extra=["11-0.txt", "1661.txt", "2701-0.txt", "austen-emma.txt"])
    after = {path: part for part, path in _places(tmp_path)}
    assert after.items() > before.items() and len(after) == 8


def _places(folder):
    from tinyrmc.corpora.finding import find

    return [(part, text.path) for part, text in find("gutenberg", folder).texts]


def test_one_file_is_taken_of_a_book(tmp_path):
    extra = ["1342.txt", "1342-8.txt", "1/3/4/pg1342.txt", "98-8.txt", "76.txt.utf-8"]
    library(tmp_path, extra)
    names = [path.name for _, path in _places(tmp_path)]
    assert names == ["98.txt", "1342-0.txt", "pg11889.txt", "76.txt"]
    (note,) = corpora.load("gutenberg", tmp_path).notes
    assert note == "5 files are other encodings of the same books, and left out"


def test_too_few_books_are_refused(tmp_path):
    write(tmp_path / "gutenberg", {"98.txt": "a", "1342.txt": "b"})
    says = (
        r"none of the books in .*gutenberg \(2 in all\) is for validation or test: .*; "
        r"add others, such as 2554 \(validation\), 76 \(test\)"
    )
    with pytest.raises(CorpusError, match=says):
        corpora.load("gutenberg", tmp_path)


def test_three_books_are_enough_if_they_are_the_ones_that_are_named(tmp_path):
    for part, number in BOOKS.items():
        assert part_of(str(number), training=80, validation=10) == part
        assert f"{number} ({part})" in corpora.CORPORA["gutenberg"].remedy
    write(tmp_path / "gutenberg", {f"{n}.txt": "a b" for n in BOOKS.values()})
    texts = corpora.load("gutenberg", tmp_path).texts
    assert all(len(text) == 3 for text in texts.values())


def test_a_folder_without_books_is_none(tmp_path):
    (tmp_path / "gutenberg").mkdir()
    says = rf"put books as .txt files into {tmp_path}/gutenberg, .*; they are at www"
    with pytest.raises(MissingCorpus, match=says):
        corpora.load("gutenberg", tmp_path)


# --- Newswire -------------------------------------------------------------------------


def document(name, text, kind="story"):
    return (
        f'<DOC id="{name}" type="{kind}" >\n<HEADLINE>\nNot this\n</HEADLINE>\n'
        f"<DATELINE>\nNor this\n</DATELINE>\n<TEXT>\n{text}</TEXT>\n</DOC>\n"
    )


STORY = "<P>\nAT&amp;T said it&AMP;s\nfine.\n</P>\n<P>\nSo 5 &lt; 6.\n</P>\n"


def test_stories_of_newswire():
    file = document("A_1", STORY) + document("A_2", "1  2  3\n", "other")
    file += document("A_3", "<P>\nMore.\n</P>\n")
    found = dict(newswire(io.BytesIO(file.encode()), "a.gz"))
    assert list(found) == ["A_1", "A_3"]
    assert prose(found["A_1"]) == "AT & T said it & s fine .\nSo 5 < 6 .\n"


@pytest.mark.parametrize("line", ["a", "<P>\n"])
def test_newswire_without_end_is_refused(line, monkeypatch):
    monkeypatch.setattr(words, "LARGEST_STORY", 1000)
    file = io.BytesIO(document("A_1", STORY + line * 5000).encode())
    with pytest.raises(CorpusError, match="document of over 1,000 bytes from byte 0"):
        list(newswire(file, "a.gz"))
    assert file.tell() < 3000


def test_a_book_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "LARGEST_BOOK", 1000)
    write(
        tmp_path, {f"gutenberg/{k}.txt": "It was so.\n" * 100 for k in (1342, 2554, 76)}
    )
    with pytest.raises(CorpusError, match=r"\d+.txt has more than 1,000 bytes"):
        corpora.load("gutenberg", tmp_path)


@pytest.mark.parametrize("place", ["gigaword", "gigaword_eng_5", ""])
def test_the_ldcs_files(place, tmp_path):
    names = [f"NYT_ENG_199407.{k:04}" for k in range(400)]
    months = {
        f"data/nyt_eng/nyt_eng_19940{k}.gz": gzip.compress(
            "".join(document(n, "<P>\nIt is so.\n</P>\n") for n in names[k::2]).encode()
        )
        for k in range(2)
    }
    write(tmp_path / place, months | {"docs/0readme.txt": "not a story"})
    corpus = corpora.load("gigaword", tmp_path)
    for part, ids in corpus.texts.items():
        here = [name for name in names if part_of(name, 98, 1) == part]
        assert len(ids) == 5 * len(here) > 0
    assert "not" not in corpus.vocabulary.words


def test_each_text_file_is_a_story_where_there_is_no_gz(tmp_path):
    texts = {f"{k}.txt": "It is so.\n\nYes." for k in range(400)}
    write(tmp_path / "gigaword", texts)
    corpus = corpora.load("gigaword", tmp_path)
    assert shown(corpus, "test").startswith("It is so . <eos> Yes . <eos>")
    assert sum(map(len, corpus.texts.values())) == 400 * 8


def test_newswire_that_cannot_be_read(tmp_path):
    good = gzip.compress(document("A_1", STORY * 500).encode())
    path = tmp_path / "gigaword" / "a_eng_1.gz"
    write(tmp_path, {"gigaword/a_eng_1.gz": good[:-20]})
    with pytest.raises(CorpusError, match=f"{path} is damaged or cut short"):
        corpora.load("gigaword", tmp_path)
    bad = document("A_1", STORY).encode() + b'<DOC id="B" type="story">\n\xff\n</DOC>\n'
    path.write_bytes(gzip.compress(bad))
    with pytest.raises(CorpusError, match=f"is not UTF-8 at byte {bad.index(0xFF)} "):
        corpora.load("gigaword", tmp_path)
    assert [*(tmp_path / "tinyrmc-cache").iterdir()] == []
