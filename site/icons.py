"""The theme's icons without its icon script, which is larger than a page with all its
pictures: each icon that some page shows becomes a mask in the style sheet.

The shapes are Font Awesome's (https://fontawesome.com/license/free, CC BY 4.0), taken
from the script.
"""

from __future__ import annotations

import re
from pathlib import Path

SCRIPT = Path("_static", "scripts", "fontawesome.js")
STYLE = Path("_static", "tinyrmc.css")
TAG = re.compile(r"<script[^>]*/fontawesome\.js[^>]*></script>\s*")
USED = re.compile(r'class="[^"]*\bfa-(?:solid|brands|regular) ([^"]*)"')
NAME = re.compile(r"\bfa-([a-z0-9-]+)")
SHAPE = r'[,{{]"?{}"?:\[(\d+),(\d+),\[[^\]]*\],"[0-9a-f]+","([^"]+)"\]'
CREDIT = "/* Icons: Font Awesome Free, https://fontawesome.com, CC BY 4.0 */"
# With the icons' own font, the browser would load it only to know a line's height.
BASE = """
:is(.fa-solid, .fa-brands, .fa-regular) { font-family: inherit; }
a.reference.download::before { content: none; }
:is(.fa-solid, .fa-brands, .fa-regular)::before {
  content: "";
  display: inline-block;
  width: 1.25em;
  height: 1em;
  background: currentColor;
  vertical-align: -.125em;
  mask: var(--shape) center / contain no-repeat;
}"""


def replace(html: Path) -> None:
    """Take the icon script out of every page below `html`, and add its icons to the
    style sheet.
    """
    names: set[str] = set()
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for classes in USED.findall(text):
            names |= {*NAME.findall(classes)}
        if TAG.search(text):
            page.write_text(TAG.sub("", text), encoding="utf-8", newline="\n")
    script = html / SCRIPT
    rules = style(script.read_text(encoding="utf-8"), names)
    with (html / STYLE).open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"\n{rules}\n")
    for each in script.parent.glob("fontawesome.js*"):
        each.unlink()


def style(script: str, names: set[str]) -> str:
    """The rules for those names that are icons; others, such as fa-lg, are sizes."""
    rules = [CREDIT + BASE]
    for name in sorted(names):
        # the last of its name is the solid one
        if found := re.findall(SHAPE.format(re.escape(name)), script):
            rules.append(f".fa-{name} {{ --shape: {_mask(*found[-1])}; }}")
    return "\n".join(rules)


def _mask(width: str, height: str, path: str) -> str:
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' "
        f"viewBox='0 0 {width} {height}'><path d='{path}'/></svg>"
    )
    return f'url("data:image/svg+xml,{svg.replace("<", "%3C").replace(">", "%3E")}")'
