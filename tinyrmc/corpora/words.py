"""Running text as words: books with the licence around them, and newswire in SGML."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from gzip import GzipFile
from typing import IO

from .corpus import CorpusError
from .files import decoded

# --- Words ----------------------------------------------------------------------------

# Encodings differ in their quotation marks and dashes; _..._ is italics.
_PLAIN = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2014": "--",
        "\ufeff": None,
        "_": None,
    }
)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|--|\.\.\.|[^\w\s]")


def prose(text: str) -> str:
    """Running text with its words between spaces and each paragraph on a line.

    A word is letters and digits, also with ' and - inside (don't, well-known), or one
    punctuation mark; -- and ... are one. Capitals stay; curly quotation marks become
    straight ones. Paragraphs are what blank lines separate.
    """
    text = text.translate(_PLAIN).replace("\r\n", "\n").replace("\r", "\n")
    lines = (" ".join(_WORD.findall(part)) for part in re.split(r"\n\s*\n", text))
    return "".join(f"{line}\n" for line in lines if line)


# --- Books of Project Gutenberg -------------------------------------------------------

_START = re.compile(
    r"^\*\*\* ?START OF TH(?:IS|E) PROJECT GUTENBERG E[^*]{0,400}\*\*\*.*\n"
    r"|^\*END\*? ?THE SMALL PRINT!.*\n",  # books made before 2003 or so
    re.M,
)
_END = re.compile(
    r"^\*\*\* ?END OF TH(?:IS|E) PROJECT GUTENBERG E"
    r"|^End of (?:the |this )?Project Gutenberg",
    re.M | re.I,
)
_CREDITS = re.compile(
    r"\s*(?:This e-?(?:book|text) was )?(?:Produced|Prepared|E-?text prepared|"
    r"Transcribed) (?:by|from)\b.*?(?:\n\s*\n|\Z)",
    re.S | re.I,
)


def book(data: bytes, name: str) -> str:
    """The text of a Project Gutenberg file, without what is around the book.

    Left out are the header and the licence, and the credits at the beginning. A file
    without the usual marks is taken whole. The encoding is UTF-8, or else the one that
    the header states. CorpusError for bytes that are neither.
    """
    text = _text(data, name).replace("\r\n", "\n").replace("\r", "\n")
    if end := _END.search(text):
        text = text[: end.start()]
    if starts := [*_START.finditer(text)]:
        text = text[starts[-1].end() :]
        if credits := _CREDITS.match(text):
            text = text[credits.end() :]
    return text


def _text(data: bytes, name: str) -> str:
    stated = re.search(rb"Character set encoding:[ \t]*([^\r\n]+)", data[:10_000])
    try:
        return decoded(data, name)
    except CorpusError as error:
        if not isinstance(error.__cause__, UnicodeDecodeError):
            raise
        encoding = _codec(stated[1].decode("ascii", "replace")) if stated else ""
        if encoding in ("", "ascii", "utf-8"):
            raise
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{name} is not {encoding} at byte {error.start:,} "
            f"(0x{data[error.start]:02x}); convert it to UTF-8, or take it out"
        ) from error


def _codec(stated: str) -> str:
    """Python's name for an encoding; '' for none that it knows."""
    name = re.sub(r"(?i)^(?:iso )?(latin|cp)-(?=\d)", r"\1", stated.strip())
    try:
        return codecs.lookup(name).name
    except LookupError:
        return ""


# --- Newswire -------------------------------------------------------------------------

_TEXT = re.compile(r"<TEXT>(.*?)</TEXT>", re.S | re.I)
_TAG = re.compile(r"</?\w+[^>]*>")


LARGEST_STORY = 16 << 20  # bytes


def newswire(file: IO[bytes] | GzipFile, name: str) -> Iterator[tuple[str, str]]:
    """(id, text) of each document of type story in a file of the LDC's SGML.

    CorpusError for a document of more than LARGEST_STORY bytes.
    """
    lines: list[bytes] = []
    offset = start = 0
    while line := file.readline(LARGEST_STORY):
        if offset - start > LARGEST_STORY:
            raise CorpusError(
                f"{name} has a document of over {LARGEST_STORY:,} bytes from byte "
                f"{start:,}; it is not newswire"
            )
        if line.startswith(b"<DOC"):
            lines, start = [], offset
        lines.append(line)
        offset += len(line)
        if line.startswith(b"</DOC>"):
            document = decoded(b"".join(lines), name, start)
            head = document.partition("\n")[0]
            found = re.search(r'id="([^"]*)"', head)
            if found and 'type="story"' in head:
                yield found[1], "\n\n".join(map(_untagged, _TEXT.findall(document)))


def _untagged(text: str) -> str:
    """The text without tags; each, such as <P>, begins a paragraph."""
    return html.unescape(_TAG.sub("\n\n", text))
