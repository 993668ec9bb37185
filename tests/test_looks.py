"""The heads of the website's pages, where they are edited; how tables, charts and
icons look.
"""

import re
from pathlib import Path

import icons
import make_site
import pytest

pytest.importorskip("sphinx", reason="needs the extra docs: make site")
import looks
from docutils import nodes

ROOT = Path(__file__).resolve().parent.parent


def test_numbers_are_told_by_their_looks():
    for text in "303,364", "94.6 %", "50.0 %, 59.5 %", "< 30 %", "0 to 4", "0:42", "2":
        assert looks.is_number(text), text
    for text in "quick", "4 slots x 64", "", "rmc", "nth_farthest 2":
        assert not looks.is_number(text), text


def table(*rows):
    """A table whose first row is its head."""
    group = nodes.tgroup(cols=len(rows[0]))
    made = [
        nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in row))
        for row in rows
    ]
    group += [nodes.thead("", made[0]), nodes.tbody("", *made[1:])]
    return nodes.table("", group)


def test_columns_of_numbers_stand_at_the_right_with_their_heads():
    found = table(
        ["core", "accuracy", "paper"], ["rmc", "94.6 %", "91 %"], ["2", "46 %", ""]
    )
    looks._align_numbers(None, found, "page")
    classes = [
        [*map("".join, (e["classes"] for e in r))] for r in found.findall(nodes.row)
    ]
    assert classes == [["", "number", "number"]] * 3


SCRIPT = (
    'x={"circle-dot":[512,512,[],"f192","M1 2"],sun:[512,512,[9728],"f185","M3 4"]};'
    'y={sun:[576,512,[9728],"f185","M5 6z"],"not-used":[1,1,[],"f000","M7"]}'
)


def test_every_page_that_somebody_writes_can_be_edited(monkeypatch):
    monkeypatch.setattr(looks, "repository", lambda: "https://github.com/some/one")

    def edited(page):
        context = {"header_buttons": []}
        looks._offer_editing(None, page, "", context, None)
        return [
            button["url"].removeprefix("https://github.com/some/one/edit/main/")
            for button in context["header_buttons"]
        ]

    assert edited("chapters/06_attention") == ["chapters/source/06_attention.py"]
    assert edited("index") == ["README.md"]
    assert edited("inside") == ["site/pages/inside.md"]
    assert edited("results/index") == ["benchmarks/README.md"]
    assert edited("results/claims") == ["benchmarks/claims.md"]
    assert edited("results/babi") == edited("search") == []
    found = make_site.edited()
    assert len(found) > 100
    assert [path for path in found.values() if not (ROOT / path).is_file()] == []


def test_icons_move_from_the_script_to_the_style_sheet(tmp_path):
    script = tmp_path / icons.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    (script.parent / "fontawesome.js.map").touch()
    (tmp_path / icons.STYLE).write_text("a { color: red; }")
    page = tmp_path / "page.html"
    tag = '<script defer src="../_static/scripts/fontawesome.js?digest=90"></script>'
    body = (
        '<i class="fa-solid fa-sun fa-lg"></i><i class="fa-regular fa-circle-dot"></i>'
    )
    page.write_text(f"{tag}\n<p>text</p>{body}")
    icons.replace(tmp_path)
    assert page.read_text() == f"<p>text</p>{body}"
    assert [*script.parent.iterdir()] == []
    style = (tmp_path / icons.STYLE).read_text()
    assert style.startswith("a { color: red; }") and "CC BY 4.0" in style
    shapes = dict(re.findall(r"\.fa-([a-z-]+) .*?viewBox='([^']*)'", style))
    # of two of a name the last, which is the solid one; sizes are no icons
    assert shapes == {"circle-dot": "0 0 512 512", "sun": "0 0 576 512"}
    assert "M5 6z" in style and "M3 4" not in style
