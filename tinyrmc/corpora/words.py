"""Running text as words: books with the licence around them, and newswire in SGML."""

from __future__ import annotations

import codecs
import hashlib
import html
import operator
import re
import unicodedata
import zlib
from collections.abc import Iterator

import numpy as np

from .corpus import CorpusError
from .files import decoded

# --- Words ----------------------------------------------------------------------------

# Encodings differ in their quotation marks and dashes; _..._ is italics.
_QUOTES, _HYPHENS = "\u2018\u2019\u201c\u201d", "\u2010\u2011"
_PLAIN = str.maketrans(_QUOTES + _HYPHENS, "''\"\"--", "_") | {0x2014: "--"}
FACTOR = 0x9E3779B97F4A7C15  # an odd number without a pattern
SHINGLE = 8  # words in a row that hardly two authors write
FEW = 8  # by fewer of them no text is told from another
MOST = 0.5  # of them in another text: then it is a copy, edited
SHARED = 0.1  # in the text that is learnt from: then a test of the rest is doubtful
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|--|\.\.\.|[^\w\s]")
# letters of scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer,
# Japanese, Chinese
UNSPACED = (
    "[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


class _Letters(dict):
    """{code: a letter or itself}: Unicode's marks are part of the letter that they are
    written on, and so are the joiners of Indian and Persian words.
    """

    def __missing__(self, code: int) -> int:
        mark = unicodedata.category(chr(code))[0] == "M" or code in (0x200C, 0x200D)
        return self.setdefault(code, ord("x") if mark else code)


class _Shown(dict):
    """{code: itself or None}: soft hyphens, byte order marks and what else only steers
    a line (Unicode's Cf) is left out; a space of no width is a space.
    """

    def __missing__(self, code: int) -> int | None:
        hidden = unicodedata.category(chr(code)) == "Cf"
        return self.setdefault(code, None if hidden else code)


_LETTERS = _Letters()
# 30 of Unicode's marks, and what follows them
_MARKED = re.compile(r"((?:[^\w\s!-~]){30})([^\w\s!-~]+)")


def _few(marked: re.Match[str]) -> str:
    rest = (c for c in marked[2] if unicodedata.category(c)[0] != "M")
    return marked[1] + "".join(rest)


_SHOWN = _Shown({0x200B: 0x20, 0x200C: 0x200C, 0x200D: 0x200D})


def plain(text: str) -> str:
    """The same text in one spelling: letters composed (NFC), nothing hidden.

    Of marks on one letter 30 are kept, as many as any language has and more: NFC sorts
    them, and takes the square of their number.
    """
    text = text.translate(_SHOWN)
    if not text.isascii():
        text = _MARKED.sub(_few, text)
    return unicodedata.normalize("NFC", text)


def words_in(text: str, pattern: re.Pattern[str]) -> list[str]:
    """The matches of a pattern, to which a letter and its marks are one (NFC)."""
    if text.isascii():
        return pattern.findall(text)
    text = plain(text)
    spans = (match.span() for match in pattern.finditer(text.translate(_LETTERS)))
    return [text[start:stop] for start, stop in spans]


def prose(text: str) -> str:
    """Running text with its words between spaces and each paragraph on a line.

    A word is letters and digits, also with ' and - inside (don't, well-known), or one
    punctuation mark; -- and ... are one. Capitals stay; curly quotation marks become
    straight ones. Paragraphs are what blank lines separate.
    """
    text = _plain_ends(text.translate(_PLAIN)).replace("\u00ad\n", "")
    parts = re.split(r"\n\s*\n", text)
    lines = (" ".join(words_in(part, _WORD)) for part in parts)
    return "".join(f"{line}\n" for line in lines if line)


def essence(text: str) -> bytes:
    """A digest of a text's letters and digits alone, so that copies are equal which
    differ in lines, spaces, punctuation or capitals. b"" if it has none.
    """
    inside = re.sub(r"[\W_]+", "", plain(text)).lower()
    return hashlib.sha256(inside.encode()).digest() if inside else b""


# tags and characters by name, as in HTML; the number of a line
_MARKUP = re.compile(r"<[^<>]*>|&#?\w{1,31};")
_NUMBER = re.compile(r"\W*\d[\d.:]*(?!\w)")
_BARE = re.compile(rf"{UNSPACED}|[^\W_]+")


def shingles(text: str, size: int) -> np.ndarray:
    """A number for each SHINGLE words in a row of a text, each once. Copies share most
    of them, whatever was edited here and there, with or without punctuation, capitals,
    lines and their numbers, or HTML.

    size: of all that are compared, in bytes; of more than 2 MB a sample is taken, by
        the numbers themselves, so that all texts keep the same ones
    """
    text = plain(_plain_ends(_MARKUP.sub(" ", text))).lower()
    lines = [line for line in text.split("\n") if line.strip()]
    bare = [*map(_unnumbered, lines)]
    if 2 * sum(map(operator.ne, lines, bare)) > len(lines):
        lines = bare
    words = _BARE.findall("\n".join(lines))
    known = {word: zlib.crc32(word.encode()) for word in set(words)}
    each = np.fromiter(map(known.__getitem__, words), np.uint64, len(words))
    found = in_a_row(each, SHINGLE)
    return np.unique(found[found % np.uint64(1 + (size >> 21)) == 0])


def in_a_row(each: np.ndarray, size: int) -> np.ndarray:
    """A number for each `size` words in a row, from a number, uint64, of each word."""
    count = max(0, len(each) - size + 1)
    found = np.zeros(count, np.uint64)
    for k in range(size):
        found = found * np.uint64(FACTOR) + each[k : k + count]
    return found ^ found >> np.uint64(31)


def _unnumbered(line: str) -> str:
    """A line without the number before it, or after it and at least two spaces."""
    if number := _NUMBER.match(line):
        return line[number.end() :]
    inside, _, last = line.replace("\t", "  ").rstrip().rpartition("  ")
    return inside if last.strip().isdecimal() else line


def _plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- Books of Project Gutenberg -------------------------------------------------------

# The marks around a book; in old files the end of the small print is where it begins.
_BEGINS = re.compile(
    r"""(?<!\*)\*{2,}+ \s*+ START \s OF \s (?:THE\s|THIS\s)? (?:COPYRIGHTED\s)?
    PROJECT \s GUTENBERG (?: (?:(?!\n\s*\n)[\s\S]){0,400}? \*{3} )? [^\n]*\n?""",
    re.I | re.X,
)
_PRINTED = re.compile(r"\*END\W*THE SMALL PRINT[^\n]*\n?", re.I)
_ENDS = re.compile(
    r"""^[^\w\n]*+ (?: (?:THE\s)? END \s OF \s (?:THE\s|THIS\s)? (?:COPYRIGHTED\s)?
    PROJECT \s GUTENBERG | START: \s FULL \s LICENSE )""",
    re.I | re.M | re.X,
)
_CREDITS = re.compile(
    r"\A\s*(?:This )?(?:Project Gutenberg )?(?:e-?(?:book|text) )?(?:was )?(?:produced|"
    r"prepared|typed|created|scanned|transcribed)(?: and \w+)? (?:by|from)\b"
    r".*?(?:\n\s*\n|\Z)",
    re.S | re.I,
)


def book(data: bytes, name: str) -> tuple[str, str]:
    """(the text of a Project Gutenberg file, what to tell the user of such books; ""
    where it is as usual).

    Left out are the header and the licence, and the credits at the beginning. A file
    without the usual marks is taken whole. The encoding is UTF-8, or else the one that
    the header states; CorpusError for bytes that are neither.
    """
    whole = _plain_ends(_text(data, name))
    books = _BEGINS.split(whole)[1:] or _PRINTED.split(whole)[-1:]
    parts = [_ENDS.split(each, maxsplit=1) for each in books]
    begun = len(books[-1]) < len(whole)
    if begun:
        parts = [[_CREDITS.sub("", part[0], count=1), *part[1:]] for part in parts]
    text = "\n\n".join(part[0] for part in parts)
    if not text.strip():
        return "", "nothing is left of these books without what is around them"
    if 2 * len(text) < len(whole):
        return text, "less than half is left of these books without what is around them"
    if not begun:
        return text, "these books have no mark of where they begin"
    if len(parts[-1]) == 1:
        return text, "these books have no mark of where they end"
    if "Project Gutenberg" in text:
        return text, "something of Project Gutenberg is left in these books"
    return text, ""


def _text(data: bytes, name: str) -> str:
    """A book decoded."""
    try:
        return decoded(data, name)
    except CorpusError as error:
        stated = re.search(rb"Character set encoding:[ \t]*([^\r\n]+)", data[:10_000])
        if not (stated and isinstance(error.__cause__, UnicodeDecodeError)):
            raise
        said = stated[1].strip().decode("ascii", "replace")
        # what Python has no name for: "ISO Latin-1", "Codepage 1252"
        if odd := re.search(r"(latin|cp|code ?page)[ -]?(\d+)", said, re.I):
            said = ("latin" if odd[1].lower() == "latin" else "cp") + odd[2]
        try:
            encoding = codecs.lookup(said).name
        except LookupError:
            raise error from None
        if encoding in ("ascii", "utf-8"):
            raise
    try:
        # who says Latin-1 and has quotation marks where it has none, means cp1252
        quotes = re.search(rb"[\x80-\x9f]", data)
        known = not re.search(rb"[\x81\x8d\x8f\x90\x9d]", data)
        if encoding in ("iso8859-1", "iso8859-15") and quotes and known:
            encoding = "cp1252"
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{name} is not {encoding} at byte {error.start:,} "
            f"(0x{data[error.start]:02x}); convert it to UTF-8, or take it out"
        ) from error


_STORY = re.compile(r'(?!\w)[^>]*type="story"')
_TEXT, _END = re.compile("<TEXT>", re.I), re.compile("</TEXT>", re.I)
_TAG = re.compile(r"</?\w[^<>]*>")


def newswire(data: bytes, name: str) -> Iterator[tuple[str, str]]:
    """(id, text) of each document of type story in a file of the LDC's SGML. Each tag,
    such as <P>, begins a paragraph.
    """
    # split, for a pattern from mark to mark reads on to the end where one is missing
    for whole in _plain_ends(decoded(data, name)).split("</DOC>")[:-1]:
        head, _, document = whole.rpartition("<DOC")[2].partition(">")
        found = re.search(r'id="([^"]*)"', head)
        if found and _STORY.match(head):
            parts = _END.split(document)[:-1]
            text = "\n\n".join(_TEXT.split(part)[-1] for part in parts)
            text = re.sub(r"&#[0-9a-fx]{9,};?", "", _TAG.sub("\n\n", text), flags=re.I)
            yield found[1], html.unescape(text)
