"""Alice's Adventures in Wonderland as numbers, for chapters 17 and 18."""

from __future__ import annotations

import re

from tinyrmc import corpora

from ...chapter import book


def cut(text):
    """A line for each paragraph, with a space between words."""
    paragraphs = re.split(r"\n\s*\n", text.lower().replace("_", ""))
    found = [
        re.findall(r"[a-z]+(?:['-][a-z]+)*|--|[^\w\s]", each) for each in paragraphs
    ]
    return "".join(" ".join(words) + "\n" for words in found if words)


def alice():
    """The book's first ten chapters to train on, the eleventh and the twelfth apart."""
    parts = book().split("CHAPTER ")[1:]
    return corpora.from_texts(
        train=cut("".join(parts[:10])),
        validation=cut(parts[10]),
        test=cut(parts[11]),
        name="alice",
        minimum_count=2,
    )
