"""Makes slides of a chapter: its headings, quotations, equations, exercises, pictures.

    python chapters/teaching/slides.py 06 09            06_attention.slides.html, ...
    python chapters/teaching/slides.py 06 --reveal reveal.js    from that folder

Nothing is written a second time: the slides come from the notebook itself, by nbconvert
and reveal.js. Of a section a slide shows the heading, the first sentence, quotations
and equations; each picture and each exercise has a slide below it. In a chapter's
source, `tags=["slide"]` at a cell shows it whole, and `tags=["no-slide"]` leaves it
out.

A browser fetches reveal.js and MathJax from cdn.jsdelivr.net when it opens the slides.
For a room without a network, give --reveal a folder with reveal.js 4 in it (npm pack
reveal.js@4), and --mathjax its file tex-chtml-full.js of MathJax 3, as the package
sphinx-mathjax-offline has it.
"""

from __future__ import annotations

import argparse
import copy
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{reveal}/dist/reveal.css">
<link rel="stylesheet" href="{reveal}/dist/theme/white.css">
<style>
.reveal {{ font: 26px/1.45 system-ui, sans-serif; color: #1c2530 }}
.reveal section {{ text-align: left }}
.reveal :is(h1, h2) {{ font: 650 1.5em system-ui, sans-serif; text-transform: none }}
.reveal h1 {{ font-size: 2em }}
.reveal blockquote {{ width: auto; padding: 0.5em 1em; box-shadow: none;
  border-left: 4px solid #0b5fad }}
.reveal section img {{ display: block; max-height: 620px; margin: 0 auto }}
.anchor-link {{ display: none }}
</style>
<script>MathJax = {{tex: {{inlineMath: [["$", "$"]]}}}}</script>
<script defer src="{mathjax}"></script>
<div class="reveal"><div class="slides">
{sections}
</div></div>
<script src="{reveal}/dist/reveal.js"></script>
<script>Reveal.initialize({{hash: true, slideNumber: true, width: 1100, height: 700,
  transition: "none"}})</script>
</html>
"""
REVEAL = "https://cdn.jsdelivr.net/npm/reveal.js@4"
MATHJAX = "https://cdn.jsdelivr.net/npm/mathjax@3/es5/tex-chtml-full.js"
CHAPTERS = Path(__file__).resolve().parent.parent
SHOW, HIDE = "slide", "no-slide"
ASKED = "**Exercise ", "**Write down", "**Now draw"  # what learners are to do
EQUATION = re.compile(r"\$\$.+?\$\$", re.DOTALL)
SENTENCE = re.compile(r"^.+?(?:[.?!](?=\s|$)|:$)", re.DOTALL)


def tagged(book: dict[str, Any]) -> dict[str, Any]:
    """A notebook of slides: each cell is one, under its heading, or the next on it."""
    cells = []
    for cell in book["cells"]:
        tags = cell["metadata"].get("tags", [])
        if HIDE in tags:
            continue
        if SHOW in tags:
            cells.append(_slide(copy.deepcopy(cell), "subslide"))
        elif cell["cell_type"] == "markdown":
            cells += _of_text("".join(cell["source"]), cell.get("id", ""))
        else:
            cells += _of_pictures(cell)
    return {**book, "cells": cells}


def _slide(cell: dict[str, Any], kind: str) -> dict[str, Any]:
    cell["metadata"] = {**cell["metadata"], "slideshow": {"slide_type": kind}}
    return cell


def _of_text(text: str, identity: str) -> Iterator[dict[str, Any]]:
    """Slides of a cell's text: a new one at each heading, and at each exercise."""
    for k, piece in enumerate(re.split(r"^(?=#+ |\*\*Exercise )", text, flags=re.M)):
        heading, _, rest = piece.partition("\n")
        kept = []
        if not heading.startswith("#"):
            heading, rest = "", piece
        paragraphs = [each.strip() for each in rest.split("\n\n") if each.strip()]
        if heading and paragraphs and not paragraphs[0].startswith((*">$-|*",)):
            first = SENTENCE.match(paragraphs.pop(0))
            kept += [first[0]] if first else []
        for each in paragraphs:
            if each.startswith((">", "*Extra", *ASKED)):
                kept.append(each)
            elif each.startswith("- ") and heading.endswith("Takeaways"):
                kept.append(each)
            else:
                kept += EQUATION.findall(each)
        if heading or kept:
            source = "\n\n".join([heading, *kept]).strip()
            cell = {"cell_type": "markdown", "metadata": {}, "source": source}
            cell["id"] = f"{identity}-{k}"[:64]
            yield _slide(cell, "slide" if heading else "subslide")


def _of_pictures(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A slide of the pictures that a cell draws, without its code."""
    outputs = [
        copy.deepcopy(each)
        for each in cell["outputs"]
        if "image/png" in each.get("data", {})
    ]
    alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
    for each in outputs:
        each["metadata"] = {"image/png": {"alt": alt}}
    if outputs:
        made = {**cell, "metadata": {}, "source": "", "outputs": outputs}
        yield _slide(made, "subslide")


def main(words: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("numbers", nargs="+", metavar="NN", help="chapters, two digits each")
    add("--out", type=Path, default=Path(), metavar="FOLDER", help="(default: here)")
    says = "(default: cdn.jsdelivr.net)"
    add("--reveal", metavar="URL", default=REVEAL, help=f"the folder reveal.js {says}")
    add("--mathjax", metavar="URL", default=MATHJAX, help=f"a file of MathJax {says}")
    options = parser.parse_args(words)
    try:
        import nbformat
        from nbconvert import SlidesExporter
    except ImportError as problem:
        print(f"error: {problem.name} is not installed; `make lab` installs it")
        return 2
    chosen = [sorted(CHAPTERS.glob(f"{number}_*.ipynb")) for number in options.numbers]
    for number, found in zip(options.numbers, chosen, strict=True):
        if len(found) != 1:
            print(f"error: no chapter {number!r}; give two digits", file=sys.stderr)
            return 2
    exporter = SlidesExporter(exclude_input=True)
    options.out.mkdir(parents=True, exist_ok=True)
    for (chapter,) in chosen:
        book = tagged(nbformat.read(chapter, as_version=4))
        whole, _ = exporter.from_notebook_node(nbformat.from_dict(book))
        sections = re.search(
            r'<div class="slides">(.*)</div>\s*</div>\s*</main>', whole, re.S
        )
        assert sections is not None
        title = "".join(book["cells"][0]["source"]).partition("\n")[0].lstrip("# ")
        where = {"reveal": options.reveal, "mathjax": options.mathjax}
        text = PAGE.format(title=title, sections=sections[1], **where)
        file = options.out / f"{chapter.stem}.slides.html"
        file.write_text(text, encoding="utf-8", newline="\n")
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
