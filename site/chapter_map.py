"""The map of the course: what chapters/README.md lists, as a road with side roads."""

from __future__ import annotations

import html
import re

BLOCK = re.compile(r"<!-- map -->\n(.*?)<!-- end of the map -->\n", re.DOTALL)
ITEM = re.compile(r"^( *)- (.+(?:\n +[^-\s].*)*)", re.MULTILINE)
CHAPTER = re.compile(
    r"(?:\*\*)?\[(?P<title>(?P<number>\d+)\. .+?)\]\((?P<file>\w+)\.ipynb\)(?:\*\*)?, "
    r"(?P<time>.+?):\s(?P<gives>.+)",
    re.DOTALL,
)


def drawn(text: str) -> str:
    """A page's Markdown, its map drawn as HTML."""
    return BLOCK.sub(lambda block: f"\n```{{raw}} html\n{road(block[1])}\n```\n", text)


def road(text: str) -> str:
    """The stations of the core road; under each the side roads that begin there."""
    parts = ['<ol class="road">']
    open_side = open_station = False
    for indent, item in ITEM.findall(text):
        item = " ".join(item.split())
        chapter = CHAPTER.match(item)
        if not indent and chapter:
            parts += ["</ul></section>"] * open_side + ["</li>"] * open_station
            parts += [f"<li>{station(chapter, 'core')}"]
            open_side, open_station = False, True
        elif chapter:
            parts += [f"<li>{station(chapter, 'extra')}</li>"]
        else:
            parts += ["</ul></section>"] * open_side
            says = item.strip("*").removeprefix("Extra, ")
            parts += [f"<section><h3><b>Extra</b> {html.escape(says)}</h3><ul>"]
            open_side = True
    parts += ["</ul></section>"] * open_side + ["</li>"] * open_station + ["</ol>"]
    return "\n".join(parts)


def station(chapter: re.Match, kind: str) -> str:
    """One chapter: its number, title, time, and what it gives."""
    number, title = chapter["title"].split(". ", 1)
    gives = html.escape(" ".join(chapter["gives"].split()))
    time = chapter["time"].replace(" of ", " <i>of</i> ")
    return (
        f'<a class="{kind}" href="{chapter["file"]}.html"><b>{number}</b><span>'
        f"<strong>{html.escape(title)}</strong> <small>{time}</small></span></a>"
        f"<p>{gives}</p>"
    )
