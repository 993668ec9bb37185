"""Running text as words: books with the licence around them, and newswire in SGML."""

from __future__ import annotations

import codecs
import hashlib
import html
import itertools
import re
import unicodedata
from collections.abc import Iterator

from .corpus import CorpusError
from .files import decoded

# --- Words ----------------------------------------------------------------------------

# Encodings differ in their quotation marks and dashes; _..._ is italics.
_QUOTES, _HYPHENS = "\u2018\u2019\u201c\u201d", "\u2010\u2011"
_PLAIN = str.maketrans(_QUOTES + _HYPHENS, "''\"\"--", "_") | {0x2014: "--"}
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|--|\.\.\.|[^\w\s]")


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


def _plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- Books of Project Gutenberg -------------------------------------------------------

# The marks of thirty years, most of them typed by hand.
_MARK = re.compile(
    r"""
    (?: ^(?:[^\w\n]|_)*+ | \*{3} \s* ) (?:
      (?P<start> (?:START|BEGIN|BEGINNING) \W* (?:OF|DIESES) \s*
        (?:[^\W\d]+ \s+){0,2} PRO[JGY]E\w{1,4} \W+ GUTENBERG
        (?: (?:(?!\n\s*\n)[\s\S]){0,400}? \*{3} )? [^\n]*\n? )
    | (?P<printed> (?: END \W* (?:OF \s+)? (?:THE \s+)? SMALL \s+ PRINT
      | SMALL \s+ PRINT["'] \s+ V\. ) [^\n]*\n? (?: Ver\.[^\n]*\n )? )
    | (?P<print> (?:START \W* (?:OF \s+)? (?:THE \s+)? | THE \s+ LEGAL \s+)
        SMALL \s+ PRINT | [^\n]{0,30} (?-i: SMALL\ PRINT | Small\ Print) ["']?! )
    | (?P<end> (?:(?:THIS|HERE|IS|THE) \s+){0,3}
        (?:ENDE?|ENDS|FINE?|FIM|EINDE|SLUT|SLUTNING|LOPPU|KONIEC)\b
        (?: [^\n]{0,80}? | [^\w\n]* (?:[^\W\d]+ \s+){0,4} )
        (?<!\w) PRO[JGY]E\w{1,4} \W+ GUTENBERG
      | ENDE? \s+ (?:OF|DIESES) \s+ (?:THE|THIS)? \s* (?:E-?TEXT|EBOOK)
      | START \W+ (?:OF \s+)? FULL \s+ LICENSE
      | THE \s+ FULL \s+ PROJECT \s+ GUTENBERG \s+ LICENSE
      | (?:[^\W\d]++ \s++){0,3} COPYRIGHTED [^\n]{0,200} DETAILS \s+ ABOVE
      | MORE \s INFORMATION \s ABOUT \s THIS \s BOOK \s IS \s AT \s THE \s TOP )
    )
    """,
    re.M | re.I | re.X,
)
# Each part of a header or licence says whose it is, every 2,200 characters at least.
_NAMED = re.compile("gutenberg|small print", re.I)
_LONG, _LICENCE = 2_500, 30_000  # and none is longer than this
# in the plays of Shakespeare, between acts
_LEGALESE = re.compile(r"<<THIS ELECTRONIC VERSION OF[^<>]{0,2000}>>", re.I)
_CREDITS = re.compile(
    r"\s*(?:This )?(?:Project Gutenberg )?(?:e-?(?:book|text) )?(?:was )?(?:produced|"
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
    marks = [*_MARK.finditer(whole)]
    # None: outside a book. Small print may stand before a book or after it, so of what
    # lies between two ends the longest stretch is the book.
    begun = None if any(mark["start"] for mark in marks) else 0
    books, stretches = [], [(0, 0)]
    for mark in marks:
        if begun is not None:
            stretches.append((begun, mark.start()))
        begun = mark.end() if mark["start"] or mark["printed"] else None
        if mark["end"]:
            books.append(max(stretches, key=_length))
            stretches = [(0, 0)]
    if begun is not None:
        stretches.append((begun, len(whole)))
    books.append(max(stretches, key=_length))
    books = [(start, stop) for start, stop in books if whole[start:stop].strip()]
    missed = [*_missed(whole, marks, books)]
    books = sorted(books + missed)
    parts = [whole[start:stop] for start, stop in books]
    for k, (start, _) in enumerate(books):
        if start and (credits := _CREDITS.match(parts[k])):
            parts[k] = parts[k][credits.end() :]
    text = _LEGALESE.sub("", "\n\n".join(parts))
    if not text.strip():
        return "", "nothing is left of these books without what is around them"
    if 2 * len(text) < len(whole):
        return text, "less than half is left of these books without what is around them"
    if missed:
        return text, "long text on the other side of a mark is kept in these books"
    if books[0][0] == 0:
        return text, "these books have no mark of where they begin"
    if books[-1][1] == len(whole):
        return text, "these books have no mark of where they end"
    if "Project Gutenberg" in text:
        return text, "something of Project Gutenberg is left in these books"
    return text, ""


def _missed(
    whole: str, marks: list[re.Match[str]], books: list[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Long stretches beside the books that nowhere name Project Gutenberg: text too,
    and the mark before or after it a quotation, or one that is not complete.
    """
    known = {*books}
    for k, mark in enumerate(marks):
        after = marks[k + 1] if k + 1 < len(marks) else None
        begin = mark.end()
        end = after.start() if after else len(whole)
        if (begin, end) in known:
            continue
        closed = after and after["end"] and "LICENSE" not in after[0].upper()
        long = _LONG if mark["start"] or mark["printed"] or closed else _LICENCE
        named = (name.span() for name in _NAMED.finditer(whole, begin, end))
        ends = [begin, *itertools.chain(*named), end]
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            if stop - start > long:  # whole lines of it
                if start > begin or mark["end"]:
                    start = whole.find("\n", start)
                yield start, stop if stop == end else whole.rfind("\n", start, stop)


def _length(span: tuple[int, int]) -> float:
    """How much there is of a stretch; less, where it may be a header."""
    return (span[1] - span[0]) / (1 if span[0] else 10)


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
