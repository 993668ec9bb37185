"""Each page's head, where its text is edited, and how its tables and charts look.

Sphinx calls `setup`, since conf.py lists this module among the extensions.
"""

from __future__ import annotations

import functools
import html
import re
import tomllib
from typing import Any

import make_site
from docutils import nodes
from sphinx import addnodes

LONGEST = 160  # characters of a description: what search engines show
NUMBER = re.compile(r"[<>~±+-]?\s?\d[\d,.]*(?:\s?(?:%|ms|s|kB|MB|GB|x|h|min))?\b.*")
PLAIN = re.compile(r"[A-Za-z]{3,}")  # a word: a cell that has one is no number
CHARTS = "benchmarks/results/"
UNSEEN = [f'<span class="visually-hidden">{x}</span>' for x in ("name", "mark")]
OF = '<span class="of" aria-hidden="true">{}</span>'


def repository() -> str:
    """The public address, from pyproject.toml; empty while there is none."""
    text = (make_site.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["project"].get("urls", {}).get("Repository", "")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx's entry point."""
    app.connect("html-page-context", _describe)
    app.connect("html-page-context", _list_titles_alone)
    app.connect("doctree-resolved", _align_numbers)
    app.connect("doctree-resolved", _mark_charts)
    app.connect("doctree-resolved", _stack_on_phones)
    if repository():  # after the theme has made its buttons
        app.connect("html-page-context", _offer_editing, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# --- The head of a page ---------------------------------------------------------------


def _describe(app, pagename, templatename, context, doctree):
    """A description, and how the page is shown where somebody links to it. Its address
    is left out while there is none.
    """
    title = re.sub(r"<[^>]*>", "", html.unescape(context.get("title", "")))
    if pagename == app.config.root_doc:
        title = context["title"] = app.config.tagline
        context["docstitle"] = ""
    tags = {"name": {}, "property": {"og:title": title, "og:type": "website"}}
    if says := description(doctree):
        tags["name"]["description"] = tags["property"]["og:description"] = says
    tags["property"]["og:site_name"] = app.config.project
    if base := app.config.html_baseurl:
        tags["property"]["og:url"] = f"{base}{pagename}.html"
    lines = [context.get("metatags", "")]
    for kind, values in tags.items():
        for name, value in values.items():
            content = html.escape(value, quote=True)
            lines.append(f'<meta {kind}="{name}" content="{content}" />')
    context["metatags"] = "\n".join(lines)


def description(doctree: nodes.document | None) -> str:
    """The first paragraph of running text, cut between words."""
    if doctree is None:
        return ""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if len(text) < 30 or isinstance(paragraph.parent, addnodes.desc_content):
            continue
        if len(text) <= LONGEST:
            return text
        return text[:LONGEST].rsplit(" ", 1)[0].rstrip(",;:") + " …"
    return ""


def _offer_editing(app, pagename, templatename, context, doctree):
    """A button that opens what the page is made of, to be edited."""
    if path := make_site.edited().get(pagename):
        where = f"{repository()}/edit/main/{path}"
        button = {
            "type": "link",
            "url": where,
            "text": "",
            "tooltip": "Edit this page",
            "icon": "fa-solid fa-pencil",
            "label": "edit-button",
        }
        context["header_buttons"].append(button)


# --- The list of all pages ------------------------------------------------------------


def _list_titles_alone(app, pagename, templatename, context, doctree):
    """For each page Sphinx copies every heading of every page, and all but the titles
    are dropped again. Without them the website takes a sixth less time to build.
    """
    listed = context["toctree"]

    def toctree(**words):
        whole, app.env.tocs = app.env.tocs, _titles(app.env)
        try:
            return listed(**words)
        finally:
            app.env.tocs = whole

    context["toctree"] = toctree


@functools.cache
def _titles(env):
    """Each page's contents without headings, but with the pages that it leads to."""
    tocs = {name: toc.deepcopy() for name, toc in env.tocs.items()}
    for item in (item for toc in tocs.values() for item in toc if len(item) > 1):
        if below := [*item.findall(addnodes.toctree)]:
            item[1][:] = below
        else:
            item.pop(1)
    return tocs


# --- Tables and charts ----------------------------------------------------------------


def _align_numbers(app, doctree, docname):
    """Columns of numbers stand at the right, with their heads."""
    for group in doctree.findall(nodes.tgroup):
        rows = [*group.findall(nodes.row)]
        (body,) = group.findall(nodes.tbody)
        for column in range(len(rows[0].children)):
            cells = [row[column] for row in rows if column < len(row)]
            if _is_number([row[column] for row in body.children if column < len(row)]):
                for cell in cells:
                    cell["classes"] = [*cell["classes"], "number"]


def _stack_on_phones(app, doctree, docname):
    """A table of three columns or more, one of them with sentences, is shown as cards
    on a phone, where each cell says its column. Empty heads get a word for readers.
    """
    for table in doctree.findall(nodes.table):
        head, *rows = table.findall(nodes.row)
        words = [html.escape(each.astext().strip()) for each in head]
        for k, each in enumerate(head):
            if not words[k]:
                each += nodes.raw("", UNSEEN[k > 0], format="html")
        longest = max(len(each.astext()) for each in table.findall(nodes.entry))
        if len(words) < 3 or longest < 40:
            continue
        table["classes"] = [*table["classes"], "stacked"]
        for row in rows:
            for word, cell in [*zip(words, row, strict=False)][1:]:
                if word and cell.astext().strip():
                    cell.insert(0, nodes.raw("", OF.format(word), format="html"))


def _is_number(cells: list[nodes.Element]) -> bool:
    if any("text-left" in cell["classes"] for cell in cells):  # as its author wants it
        return False
    texts = [text for cell in cells if (text := cell.astext().strip())]
    return bool(texts) and all(map(is_number, texts))


def is_number(text: str) -> bool:
    """Whether a cell holds a number, with its unit or a range, and no words."""
    return bool(NUMBER.fullmatch(text)) and not PLAIN.search(text)


def _mark_charts(app, doctree, docname):
    """Charts are lines on white, so a dark page may turn them dark. Pictures whose
    colours mean something must stay as they are.
    """
    for image in doctree.findall(nodes.image):
        if CHARTS in image["uri"]:
            image["classes"] = [*image["classes"], "chart"]
