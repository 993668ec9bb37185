"""Markdown that the website's pages are put together from."""

from __future__ import annotations

import re
from collections.abc import Iterable

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")


def rst(*lines: str) -> str:
    """reStructuredText inside Markdown."""
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def table(head: list[str], rows: Iterable) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
