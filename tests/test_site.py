"""The website builds without a network and without a warning, and a real browser opens
every page of it, wide and narrow.
"""

import functools
import http.server
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import zipfile
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import browser
import in_browser
import make_site
import pytest
from turns import rarely

ROOT = Path(__file__).resolve().parent.parent
LAPTOP, PHONE = (1280, 1000), (390, 844)
RESULTS = "results/index.html"
MODULES = [path.stem for path in (ROOT / "site").glob("*.py")]

missing = [name for name in make_site.TOOLS if importlib.util.find_spec(name) is None]
missing += in_browser.missing()
OWN = (
    "try.html",
    "start.html",
    "404.html",
)  # and `lite`: pages that Sphinx does not make
without = f"needs the extra docs ({', '.join(missing)} not installed): make site"


def built_here(test):
    """Marks a test of the website's tools."""
    return pytest.mark.slow(pytest.mark.skipif(bool(missing), reason=without)(test))


FACTS = """(async () => {
    await window.MathJax?.startup?.promise;
    const all = (what, of) => [...document.querySelectorAll(what)].map(of);
    const picture = e => [e.getAttribute("src"), e.alt, e.naturalWidth];
    const drawn = e => e.querySelector("mjx-container");
    const width = e => e?.getBoundingClientRect().width ?? 0;
    const equation = e => [e.textContent.slice(0, 60), width(drawn(e))];
    const unknown = "mjx-assistive-mml [mathcolor=red]";  // a command, in red
    const number = "mjx-assistive-mml mlabeledtr > mtd:first-child";
    const text = e => e.textContent.trim();
    return {
        title: document.title,
        ids: all("[id]", e => e.id),
        links: all("a[href]", e => e.href),
        pictures: all(".bd-article img", picture),  // not the buttons'
        equations: all(".math", equation),
        errors: all(`mjx-merror, [data-mjx-error], ${unknown}`, e => e.outerHTML),
        numbers: all(number, text),
        headings: all("h1", text).filter(text => text),
    };
})()"""

# Blocks of code and output of which some stands outside: [first words, the longest
# line's length, whether it is a command]. What is folded is unfolded.
SCROLLING = """(() => {
    document.querySelectorAll("details").forEach(each => each.open = true);
    const command = /^(python\\d?|pip|make|tinyrmc|mpiexec|git|uv) [-\\w.']/m;
    return [...document.querySelectorAll("pre")]
        .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth)
        .map(e => e.innerText)
        .map(text => [
            text.slice(0, 40),
            Math.max(...text.split("\\n").map(line => line.length)),
            command.test(text),
        ]);
})()"""

# What reaches beyond the screen, unless something around it that does not can be
# scrolled; the MathML for screen readers is not on it.
TOO_WIDE = """(() => {
    document.getAnimations().forEach(each => each.finish());  // side bars slide away
    const beyond = e => e.getBoundingClientRect().right > screen.width + 1;
    const scrolling = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    const held = e => {
        for (let p = e.parentElement; p; p = p.parentElement)
            if (scrolling(p) && !beyond(p)) return true;
        return false;
    };
    const shown = e => e.checkVisibility({visibilityProperty: true})
        && !e.closest("mjx-assistive-mml");
    const found = [...document.body.querySelectorAll("*")]
        .filter(e => beyond(e) && shown(e) && !held(e))
        .map(e => e.outerHTML.slice(0, 80));
    return [innerWidth, document.documentElement.scrollWidth, found];
})()"""

# Texts in a column of a table that is too narrow for them.
SQUEEZED = """[...document.querySelectorAll(".bd-article td:not(.number)")]
    .filter(e => e.clientWidth < 80 && e.textContent.trim().length > 12)
    .map(e => e.textContent.trim().slice(0, 40))"""

# Equations of which some must be scrolled to.
CUT = """[...document.querySelectorAll(".bd-article :is(div.math, .equations p)")]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.textContent.trim().slice(0, 40))"""


# Where the icon of the search ends, and the words beside it begin.
COVERED = """(() => {
    const [icon, field] = document.querySelector(".bd-search-container form").children;
    const room = parseFloat(getComputedStyle(field).paddingLeft);
    const right = icon.getBoundingClientRect().right;
    return [right, field.getBoundingClientRect().left + room];
})()"""


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """(folder of the website, what was said while it was built), here and without a
    network.
    """
    out = tmp_path_factory.mktemp("site")
    proxies = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    nowhere = dict.fromkeys(proxies, "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, ROOT / "site" / "make_site.py", "--out", out],
        capture_output=True,
        text=True,
        timeout=1800,
        cwd=out,
        env=os.environ | nowhere,
    )
    assert done.returncode == 0, done.stderr
    said = rf"lite/ has (\d\d) MB beside Pyodide\n{out / 'html' / 'index.html'}\n"
    size = re.fullmatch(said, done.stdout)
    assert size and int(size[1]) <= 40
    return out / "html", done.stderr


@pytest.fixture(scope="session")
def website(built):
    """The folder of the website."""
    return built[0]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A file server that does not write what it serves."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def address(website):
    """Where the website is served."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=website)
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def own(path):
    """Whether a page is complete in itself, without the theme's bars."""
    return path.name in OWN or {"_static", in_browser.FOLDER} & {*path.parts}


@pytest.fixture(scope="session", params=["some", *rarely(["all"])])
def pages(website, address, window, request):
    """The browser's finds on every page, by the page's path; first on a laptop, then
    under "phone" on a phone. Of the pages of modules' sources, which are alike, one is
    opened, on a laptop alone; of the reference every twelfth, of chapters and results
    every third, and once a week all.
    """
    found = {}
    seldom = sorted((website / "reference").glob("*.html"))
    kept = {website / name for name in ("reference/equations.html", RESULTS)}
    kept |= {*seldom[::12]}
    for folder in "chapters", "results":
        several = sorted((website / folder).glob("*.html"))
        seldom, kept = seldom + several, kept | {*several[::3]}
    left = set() if request.param == "all" else {*seldom} - kept
    for path in sorted({*website.rglob("*.html")} - left):
        name = path.relative_to(website).as_posix()
        source = "_modules" in path.parts
        if own(path) or (source and path.name != "equations.html"):
            continue
        window.open("about:blank")  # has a new size sooner than a long page
        window.size(*LAPTOP)
        window.open(address + name)
        facts = window.run(FACTS)
        facts["scrolling"] = window.run(SCROLLING)
        if not source:
            window.size(*PHONE)
            facts["phone"] = {
                "width": window.run(TOO_WIDE),
                "squeezed": window.run(SQUEEZED),
                "cut": window.run(CUT),
                "scrolling": window.run(SCROLLING),
            }
        found[name] = facts | {
            "requests": window.requests,
            "complaints": window.complaints,
        }
    return found


# --- Every page -----------------------------------------------------------------------


@built_here
def test_it_is_built_without_a_warning(built):
    assert [
        line for line in built[1].splitlines() if "WARNING" in line or "ERROR" in line
    ] == []


@built_here
@browser.needed
def test_there_is_a_page_for_everything(pages, website):
    made = {path.relative_to(website).as_posix() for path in website.rglob("*.html")}
    wanted = {page.rpartition(".")[0] + ".html" for page in make_site.pages().values()}
    assert wanted <= made
    notebooks = (ROOT / "chapters").glob("*.ipynb")
    tasks = (ROOT / "tasks").glob("[!_]*.py")
    some = {
        "index.html",
        RESULTS,
        "search.html",
        *(f"tasks/{path.stem}.html" for path in tasks),
    }
    assert len(some) > 10 and some <= {*pages}
    assert {f"chapters/{path.stem}.html" for path in notebooks} <= made
    for facts in pages.values():
        assert facts["title"] and facts["headings"]


def test_what_one_imports_has_a_page_with_what_it_inherits():
    """Whatever documents import, and the methods that a core has from its bases."""
    import reference

    import tinyrmc

    shown = {place: reference.exports(place) for place in reference.PLACES}
    every = [x for found in shown.values() for x in found.values()]
    for name in tinyrmc.__all__:
        value = getattr(tinyrmc, name)
        assert value in every or f"tinyrmc.{name}" in shown or name == "equations"
    text = "".join((ROOT / name).read_text() for name in make_site.DOCUMENTS)
    for place, names in re.findall(r"^from (tinyrmc[\w.]*) import (.+)$", text, re.M):
        for name in re.split(r", | as \w+", names) if place in shown else ():
            value = getattr(sys.modules[place], name, None)
            inside = f"{place}.{name}" in (*sys.modules, *reference.PLACES)
            assert inside or value is None or value in every, (place, name)
    core = reference.pages()["use.cores"].partition("## RelationalMemory")[2]
    core = core.partition("\n## ")[0]
    for method in "unroll", "last_output", "initial_state", "parameters", "arrays":
        assert f"{method}" in core
    bases = dict(reference.inherited(tinyrmc.LSTM))
    assert "unroll" in bases[tinyrmc.cores.Core]
    assert "initial_state" not in bases[tinyrmc.cores.Core]  # it has its own


def test_each_module_has_its_place_in_the_reference():
    names = [*make_site.modules()]
    placed = [name for names in make_site.grouped(names).values() for name in names]
    assert sorted(placed) == sorted(names)


@built_here
@browser.needed
def test_every_page_fits_complains_of_nothing_and_asks_nobody_else(pages, address):
    """88 columns fit beside both side bars. On a phone code may scroll, but no command
    and no equation, and nothing else is wider; no column of a table is a word wide.
    """
    wrong = {}
    for name, facts in pages.items():
        assert facts["requests"]
        far = [x for x in facts["requests"] if not x.startswith((address, "data:"))]
        pictures = [
            (src, alt)
            for src, alt, width in facts["pictures"]
            if not width or len(alt) < 20
        ]
        found = {"far": far, "pictures": pictures, "complaints": facts["complaints"]}
        found["scrolling"] = facts["scrolling"]
        if phone := facts.get("phone"):
            commands = [block for block in phone["scrolling"] if block[2]]
            wide = phone["width"] if phone["width"] != [PHONE[0]] * 2 + [[]] else []
            found |= {"commands": commands, "wide": wide, "thin": phone["squeezed"]}
            found["cut"] = phone["cut"]
        if any(found.values()):
            wrong[name] = {what: which for what, which in found.items() if which}
    assert wrong == {}
    assert sum(len(facts["pictures"]) for facts in pages.values()) > 5
    assert sum("phone" in facts for facts in pages.values()) > 50


@built_here
@browser.needed
def test_equations_are_drawn(pages):
    for name, facts in pages.items():
        assert facts["errors"] == [], name
        assert [text for text, width in facts["equations"] if not width] == [], name
    numbers = sorted(pages["reference/equations.html"]["numbers"])
    assert numbers == [f"({k})" for k in range(1, 10)]
    chapters = [pages[name] for name in pages if re.match(r"chapters/\d", name)]
    assert any(len(facts["equations"]) > 10 for facts in chapters)


@built_here
@browser.needed
def test_links_lead_somewhere(pages, address, website):
    links, ids = {}, {}  # of each page; what is not opened is read
    for path in website.rglob("*.html"):
        name = path.relative_to(website).as_posix()
        if facts := pages.get(name):
            links[name], ids[name] = {*facts["links"]}, facts["ids"]
        elif not own(path):
            text = path.read_text(encoding="utf-8")
            hrefs = re.findall(r'<a\b[^>]* href="(.*?)"', text)
            links[name] = {urljoin(address + name, unescape(each)) for each in hrefs}
            ids[name] = re.findall(r' id="(.*?)"', text)
    assert len(links) > len(pages) + 50
    broken = []
    for name, found in links.items():
        for link in found:
            path, _, anchor = link.removeprefix(address).partition("#")
            path = path.partition("?")[0] or "index.html"
            if not link.startswith(address):
                if not link.startswith("https://"):
                    broken.append((name, link))
            elif path in ids:
                if anchor and anchor not in ids[path]:
                    broken.append((name, link))
            elif not (website / path).is_file():
                broken.append((name, link))
    assert broken == []


@built_here
def test_pages_name_no_place_of_this_machine_and_types_as_the_code_does(website):
    places = (f"{ROOT}/", f"{website.parent}/", "/site-packages/", " at 0x")
    places += ("_HasDType", "TypeAliasForwardRef")
    named = [
        (path.name, place)
        for path in website.rglob("*.html")
        for place in places
        if place in path.read_text(encoding="utf-8") and "_modules" not in path.parts
    ]
    assert named == []
    equations = (website / "reference" / "equations.html").read_text(encoding="utf-8")
    assert equations.count(">Array<") > 10


@built_here
def test_the_first_page_offers_the_project_itself(website):
    """So that "the project's folder" has an address."""
    text = (website / "index.html").read_text(encoding="utf-8")
    link = r'href="(_downloads/\w+/tinyrmc\.tar\.gz)".*?\((\d+) MB\) and unpack it'
    (place, size), *more = re.findall(link, text, re.DOTALL)
    assert more == [] and int(size) == in_browser.megabytes([website / place])
    with tarfile.open(website / place) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"Makefile", "pyproject.toml", "README.md", "chapters/mine.py"}
    assert wanted | {f"chapters/{each.name}" for each in in_browser.chapters()} <= names


# --- Some pages -----------------------------------------------------------------------


@built_here
@browser.needed
def test_the_pages_can_be_read_from_the_disk_too(website, window):
    window.size(*LAPTOP)
    for name in ("index.html", "reference/equations.html"):
        window.open((website / name).as_uri())
        facts = window.run(FACTS)
        assert facts["errors"] == [] == window.complaints
        assert all(width > 0 for _, width in facts["equations"])
        assert all(each.startswith(("file:", "data:")) for each in window.requests)


@built_here
@browser.needed
def test_a_search_finds_chapters_for_words_and_objects_for_names(address, window):
    results = '[...document.querySelectorAll("#search-results li")]'
    for size in LAPTOP, PHONE:
        some = 5 if size == LAPTOP else 2
        for query, page, says in (
            ("gates", "chapters/09_gates.html", "9. Gates: what is kept and what is "),
            ("softmax", "chapters/06_attention.html", "6. Attention: memories look "),
            ("multi_head_attention", "reference/equations.html", "multi_head_att"),
            ("PaperRelationalMemory", "reference/cores.relational.html", "PaperRelat"),
            ("python -m tinyrmc.train --resume", "chapters/", "14. Looking inside"),
        )[-some:]:
            window.size(*size)
            window.open(address + "search.html?q=" + query.replace(" ", "+"))
            window.until(f"{results}.length > 2", seconds=20)
            assert says in window.run(f"{results}[0].innerText"), query
            assert page in window.run(f"{results}[0].querySelector('a').href")
            width, needed, beyond = window.run(TOO_WIDE)
            assert width == size[0] >= needed and (size == LAPTOP or not beyond)
            shown = window.run("document.querySelector('#search-results').innerText")
            assert "System Settings" not in shown and ".ipynb" not in shown
            assert [*window.run(COVERED)] == sorted(window.run(COVERED))
            assert window.complaints == []
            assert all(each.startswith((address, "data:")) for each in window.requests)


@built_here
def test_every_formula_stands_at_something_that_is_documented(website):
    from formulas import FORMULAS

    texts = [path.read_text(encoding="utf-8") for path in website.rglob("*.html")]
    ids = {each for text in texts for each in re.findall(r' id="(.*?)"', text)}
    assert [name for name in FORMULAS if not {name, f"module-{name}"} & ids] == []


@built_here
@browser.needed
def test_icons_are_drawn_without_the_icon_script(address, window):
    masks = """[...document.querySelectorAll(".fa-solid, .fa-brands, .fa-regular")]
        .map(e => getComputedStyle(e, "::before").maskImage.slice(0, 9))"""
    window.size(*LAPTOP)
    for page in ("index.html", "chapters/00_first_look.html"):
        # a style sheet that is still there brings the fonts of an earlier page
        window.call("Network.clearBrowserCache")
        window.open(address + page)
        assert {*window.run(masks)} == {'url("data'}
        assert not any("fontawesome.js" in each for each in window.requests)
        if page == "index.html":  # chapters draw folded code with it
            assert not any("fa-solid" in each for each in window.requests)


@built_here
@browser.needed
def test_pages_say_what_they_are_and_name_no_address(website):
    """Titles are all different, and no address stands anywhere while there is none."""
    from looks import repository

    titles = []
    for path in website.rglob("*.html"):
        if own(path):
            continue
        text = path.read_text(encoding="utf-8")
        titles += re.findall(r"<title>(.*?)</title>", text, re.DOTALL)
        assert '<meta property="og:title" content="' in text
        assert '<p class="title logo__title">tinyrmc</p>' in text
        assert bool(repository()) == ("og:url" in text)
    text = (website / "index.html").read_text(encoding="utf-8")
    assert '<meta name="description" content="tinyrmc is' in text
    assert "tinyrmc: networks that compare what they remember" in titles
    assert len(titles) > 50 and len({*titles}) == len(titles)


@built_here
@browser.needed
def test_the_page_inside_another_follows_its_theme(address, window):
    window.size(*LAPTOP)
    window.open(address + "inside.html")
    # A frame that is still loading has a document without an element.
    theme = """document.getElementById("inside")
        .contentDocument?.documentElement?.dataset.theme"""
    for name in ("dark", "light"):
        window.run(f"document.documentElement.dataset.theme = '{name}'")
        window.until(f"{theme} === '{name}'")
    assert window.complaints == []


KINDS = """index.html chapters/06_attention.html chapters/index.html results/claims.html
results/index.html results/nth_farthest.html tasks/index.html tasks/nth_farthest.html
reference/index.html reference/equations.html library.html CHANGELOG.html inside.html
search.html?q=softmax try.html 404.html _modules/tinyrmc/equations.html"""
VIOLATIONS = """axe.run(%s, {resultTypes: ["violations"]}).then(found =>
    found.violations.map(({id, nodes}) => [id, nodes.map(each => each.html)]))"""


@built_here
@browser.needed
@pytest.mark.skipif("AXE" not in os.environ, reason="needs AXE=axe.min.js, of axe-core")
def test_axe_finds_no_violation_of_ours(address, website, window):
    """On a page of every kind, by day on a laptop and by night on a phone. In the lab
    only the bar is ours.
    """
    axe = Path(os.environ["AXE"]).read_text(encoding="utf-8")
    worlds = next(website.glob("worlds/*.html")).relative_to(website).as_posix()
    media, found = "Emulation.setEmulatedMedia", {}
    for scheme, size in (("light", LAPTOP), ("dark", PHONE)):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        window.call(media, features=[feature])
        for name in [*KINDS.split(), worlds, in_browser.address(CHAPTER)]:
            window.open("about:blank")
            window.size(*size)
            window.open(address + name)
            window.run("window.MathJax?.startup?.promise.then(() => null)")
            place = "document"
            if name.startswith(in_browser.FOLDER):
                window.until(f"{BAR}?.checkVisibility()")
                place = BAR
            window.run(f"{axe}; 0")
            for kind, where in window.run(VIOLATIONS % place):
                found.setdefault(kind, []).append((name, scheme, where))
    window.call(media, features=[])
    assert found == {}


# --- Docstrings -----------------------------------------------------------------------


# a docstring: what becomes of it, where the last empty line is left out
WRITTEN = {
    "One line.\nTwo.": "One line.\nTwo.",
    "Of `x`s, a*b, |k|, x_t and end_.": r"Of ``x``\ s, a\*b, \|k\|, x_t and end\_.",
    "It (--data.count-from last) is.": "It (``--data.count-from`` last) is.",
    "It takes --a.b=False.": r"It takes ``--a.b``\ =False.",
    "*Nothing is half written.* So.": "*Nothing is half written.* So.",
    "Args:\n    a, b: `x`.\n        More.\nRaises it.": (
        "Args:\n    a, b: ``x``.\n        More.\nRaises it."
    ),
    "So:\n\n    x' = x W\n\n    y  = z\n\nEnd.": (
        "So:\n\n.. code-block:: text\n\n   x' = x W\n\n   y  = z\n\n\nEnd."
    ),
    "One:\n    with a:  # why\n        b": (
        "One:\n\n.. code-block:: python\n\n   with a:  # why\n       b\n"
    ),
}


@built_here
def test_a_docstring_becomes_restructuredtext():
    from house_style import rst

    for text, wanted in WRITTEN.items():
        assert rst(text) == [*wanted.split("\n"), ""], text


@built_here
def test_one_line_of_equations_becomes_several_that_may_wrap(monkeypatch):
    import house_style

    monkeypatch.setattr(
        house_style, "FORMULAS", {"f": (r"a = b \tag{1}", r"c, \qquad d")}
    )
    assert house_style.formulas("f") == [
        ".. math::",
        "",
        r"   a = b \tag{1}",
        "",
        ".. container:: equations",
        "",
        r"   :math:`\displaystyle c,` :math:`\displaystyle d`",
        "",
    ]
    assert house_style.formulas("g") == []


@built_here
def test_commands_are_set_a_line_a_block_and_a_word_a_whole():
    from house_style import COMMAND, commands

    text = "make x  # see <y>\n\npip install '.[a]'"
    lines = [
        '<span><b>make</b> <b>x</b>  <span class="c1">'
        "<b>#</b> <b>see</b> <b>&lt;y&gt;</b></span></span>",
        '<span><span class="c1"></span></span>',
        "<span><b>pip</b> <b>install</b> <b>&#x27;.[a]&#x27;</b>"
        '<span class="c1"></span></span>',
    ]
    assert f"<pre>{''.join(lines)}</pre>" in commands(text)
    for command in (text, "# first\n.venv/bin/python -m x", "A=b tinyrmc new lookup"):
        assert COMMAND.search(command)
    for code in ("make = 3", "python(x)", "  git log", "the tinyrmc x"):
        assert not COMMAND.search(code)


# --- Without its tools ----------------------------------------------------------------


@pytest.mark.slow
def test_without_the_websites_tools_all_tests_can_still_be_collected():
    """`make test` does not install them."""
    used = re.compile(rf"^(?:import|from) (?:{'|'.join(MODULES)})\b", re.MULTILINE)
    files = [
        str(path)
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if used.search(path.read_text(encoding="utf-8"))
    ]
    assert len(files) > 5
    blocked = dict.fromkeys(["docutils", "sphinx", "myst_nb", "sphinx_book_theme"])
    code = (
        f"import sys; sys.modules.update({blocked}); import pytest; "
        "sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', "
        "*sys.argv[1:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


# --- The course in a browser ----------------------------------------------------------


@built_here
@browser.needed
def test_a_chapter_opens_in_the_browser_and_asks_only_the_cdn(website, address, window):
    chapters = [path.stem for path in in_browser.chapters()]
    text = (website / "chapters" / f"{chapters[0]}.html").read_text(encoding="utf-8")
    link = f'<a href="../{in_browser.address(chapters[0])}">Run it in your browser</a>'
    assert text.index("</h1>") < text.index(link) < text.index("<p>")
    for chapter in chapters:
        page = website / "chapters" / f"{chapter}.html"
        assert in_browser.address(chapter) in page.read_text(encoding="utf-8")
    window.size(*PHONE)
    window.open(address + "start.html")
    title = 'document.querySelector(".jp-Notebook h1")?.innerText'
    assert window.until(title, seconds=120).startswith("0. ")
    assert "Download my work" in window.until(f"{BAR}?.innerText")
    allowed = (address, "data:", "blob:", "https://cdn.jsdelivr.net/pyodide/v")
    assert [each for each in window.requests if not each.startswith(allowed)] == []
    for _ in range(0 if os.environ.get("PYODIDE") else 1200):  # Python is asked for
        if window.outside.asked:
            break
        window.run("new Promise(done => setTimeout(done, 100))")
    assert {*window.outside.asked} <= {"cdn.jsdelivr.net:443"}
    assert window.outside.asked or os.environ.get("PYODIDE")
    if not os.environ.get("PYODIDE"):  # and it is said at once that it does not come
        said = window.until(f"{LINES}.python.includes('does not') && {LINES}.python")
        assert said.startswith("Python does not arrive: cdn.jsdelivr.net cannot ")
        links = f"[...{BAR}.querySelectorAll('.python a')].map(each => each.href)"
        for link in window.run(links):
            place = website / link.removeprefix(address).partition("#")[0]
            assert place.is_file(), link


@built_here
@browser.needed
def test_words_and_a_link_come_before_any_script(address, website, window):
    """On a slow line, that is for seconds."""
    blocked = "Network.setBlockedURLs"
    window.call(blocked, urls=["*.js*"])
    try:
        window.open(address + in_browser.address(in_browser.chapters()[6].stem))
        said = window.run("document.body.innerText.trim()")
        link = window.run("document.querySelector('#tinyrmc-coming a').href")
    finally:
        window.call(blocked, urls=[])
    assert said.startswith("The chapter is on its way: 8 MB")
    assert (website / link.removeprefix(address)).is_file()


BROKEN = """{} = () => {{ throw new DOMException("it is broken", "UnknownError"); }}"""
BAR = "document.querySelector('#tinyrmc-work')"
LINES = (
    f"Object.fromEntries([...{BAR}.querySelectorAll('p')]"
    """
    .map(each => [each.className, each.hidden ? "" : each.innerText]))"""
)
CELLS = "jupyterapp.shell.currentWidget.content.model.sharedModel.cells"
CHAPTER = in_browser.chapters()[6].stem


def lab(window, address, size=LAPTOP):
    """Opens a chapter; it has its text."""
    window.open("about:blank")
    window.size(*size)
    window.open(address + in_browser.address(CHAPTER))
    window.until("document.querySelector('.jp-Notebook h1')?.innerText", seconds=120)


def begins(window, script):
    """A script that runs before any other; gives what ends that."""
    call = "Page.{}ScriptToEvaluateOnNewDocument"
    made = window.call(call.format("add"), source=script)
    return lambda: window.call(call.format("remove"), **made)


@built_here
@browser.needed
@pytest.mark.weekly
def test_a_damaged_or_full_store_gets_a_lasting_line(address, window):
    window.open("about:blank")
    quota = {"method": "Storage.overrideQuotaForOrigin", "origin": address[:-1]}
    clear = "Storage.clearDataForOrigin"  # of other tests, which had room
    window.call(clear, origin=address[:-1], storageTypes="all")
    window.call(**quota, quotaSize=1000)
    lab(window, address)
    said = window.until(f"{LINES}.lasting")
    window.call(**quota)
    assert said.startswith("This browser cannot keep your work (a private window, ")
    assert said.endswith("[QuotaExceededError]") and "Download my work" in said
    whole = begins(window, BROKEN.format("IDBFactory.prototype.open"))
    lab(window, address)  # it opens all the same, and you may go on in this tab
    assert window.until(f"{LINES}.lasting").endswith("[UnknownError it is broken]")
    window.run(f"{CELLS}[1].setSource('what I wrote')")
    assert "what I wrote" in downloaded(window)[f"{CHAPTER}.ipynb"]
    # a cell that runs long says so on a line of its own
    cell = "jupyterapp.shell.currentWidget.content.widgets[1].model"
    window.run(f"{cell}.executionState = 'running'; 0")
    window.until(f"{LINES}.now.startsWith('A cell is running: ')")
    assert "cannot keep" in window.run(LINES)["lasting"]
    whole()
    window.open(address + "try.html")
    window.run(BROKEN.format("Storage.prototype.setItem"))
    window.click("document.getElementById('code')")
    window.type("#")
    assert window.run("document.getElementById('kept').innerText").startswith("This br")


SAVED = """(async () => {
    const link = new Promise(done => HTMLAnchorElement.prototype.click = function () {
        done(this.href);
    });
    document.querySelector("#download").click();
    window.zipped = await (await fetch(await link)).blob();
    return Array.from(new Uint8Array(await zipped.arrayBuffer()));
})()"""
CHOSEN = """(bytes => {
    const files = new DataTransfer();
    const input = document.querySelector("#tinyrmc-work input");
    files.items.add(new File([new Uint8Array(bytes)], "my-tinyrmc-work.zip"));
    input.files = files.files;
    input.dispatchEvent(new Event("change"));
})"""


def downloaded(window):
    """The files in the zip of "Download my work": path -> text."""
    with zipfile.ZipFile(io.BytesIO(bytes(window.run(SAVED)))) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode() for name in file.namelist()}


@built_here
@browser.needed
def test_there_is_a_way_back(address, window):
    """A deleted cell comes back by Reset, your text by Undo or out of a zip file."""
    lab(window, address)
    count = window.run(f"{CELLS}.length")
    button = f"{BAR}.querySelector('.now button')"
    change = "jupyterapp.shell.currentWidget.content.model.sharedModel.deleteCell(3)"
    window.run(f"{change}; {CELLS}[1].setSource('mine'); 0")
    window.click(f"{BAR}.querySelector('#reset')")
    window.until(f"{CELLS}.length === {count} && {LINES}.now.includes('as it came')")
    window.click(button)
    window.until(f"{CELLS}[1].getSource() === 'mine'")
    assert window.run(f"{CELLS}.length") == count - 1
    window.until(f"{LINES}.now === 'Your text is back.'")
    mine = downloaded(window)[f"{CHAPTER}.ipynb"]
    assert '"mine"' in mine
    window.click(f"{BAR}.querySelector('#reset')")
    window.until(f"{CELLS}.length === {count}")
    packed = io.BytesIO()  # by another program, with answers of another day
    answers = {"progress.json": '["attention.softmax"]', "answers/a.b.py": "def b(): 0"}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{CHAPTER}.ipynb", mine)
        for name, text in answers.items():
            file.writestr(f".tinyrmc/{name}", text)
    window.run(f"{CHOSEN}({[*packed.getvalue()]})")
    window.until(f"{LINES}.now.startsWith('3 files are back')")
    assert window.run(f"{CELLS}[1].getSource()") == "mine"
    assert {f".tinyrmc/{name}" for name in answers} <= {*downloaded(window)}
    window.run(f"{CHOSEN}({[*packed.getvalue()[:100]]})")
    window.until(f"{LINES}.now.includes('no zip file')")
    assert window.run(f"{CELLS}[1].getSource()") == "mine"


@built_here
@browser.needed
def test_the_list_of_files_waits_for_nothing_and_takes_your_work_back(address, window):
    window.open(address + f"{in_browser.FOLDER}/tree/index.html")
    window.until("!!document.querySelector('.jp-DirListing-item')", seconds=60)
    assert window.run(LINES) == {"lasting": "", "python": "", "now": ""}
    assert not window.run(f"{BAR}.querySelector('#reset').checkVisibility()")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr(".tinyrmc/answers/a.b.py", "def b(): 0")
    window.run(f"{CHOSEN}({[*packed.getvalue()]})")
    window.until(f"{LINES}.now.startsWith('1 file is back')")


SILENT = """window.Worker = class extends EventTarget {
    constructor() {
        super();
        const python = {bytes: 5e6, open: 1, host: "slow.example"};
        const event = new MessageEvent("message", {data: {python}});
        setTimeout(() => this.dispatchEvent(event), 100);
    }
    postMessage() {}
    terminate() {}
}; const now = Date.now; Date.now = () => now() + (window.later ?? 0)"""


@built_here
@browser.needed
def test_a_line_on_which_nothing_comes_is_told_after_twenty_seconds(address, window):
    """With what you can do instead."""
    loud = begins(window, SILENT)
    try:
        lab(window, address)
        window.until(f"{LINES}.python.startsWith('Python is on its way: 5 of about ')")
        window.run("later = 5_000; new Promise(done => setTimeout(done, 1500))")
        assert "Nothing has come" not in window.run(LINES)["python"]
        window.run("later = 21_000; 0")
        said = window.until(
            f"{LINES}.python.startsWith('Nothing has come from slow.example for ')"
            f" && {LINES}.python"
        )
        assert "The line or this machine may be slow" in said
        assert "Try again" in said and "Run it on your own machine" in said
        links = window.run(f"[...{BAR}.querySelectorAll('.python a')].map(x => x.href)")
        assert len(links) == 2
    finally:
        loud()


@built_here
@browser.needed
def test_on_a_phone_the_bar_covers_nothing_of_a_chapter(address, window):
    lab(window, address, PHONE)
    beside = f"""(() => {{
        const bar = {BAR}.getBoundingClientRect();
        const book = document.querySelector(".jp-Notebook").getBoundingClientRect();
        const ends = [book.bottom <= bar.top + 1, bar.bottom <= innerHeight];
        return [...ends, book.height > 300];
    }})()"""
    window.until(f"{beside}.every(Boolean)")
    if not os.environ.get("PYODIDE"):
        window.until(f"{LINES}.python.includes('does not arrive')", seconds=180)
        window.until(f"{beside}.every(Boolean)")  # the more it says, the less is left
    output = "document.querySelector('.jp-RenderedText pre')"
    assert window.run(f"getComputedStyle({output}).wordBreak") == "normal"
    wide = """[...document.querySelectorAll(
        ".jp-WindowedPanel-outer, .jp-Cell mjx-container[display]"
    )].filter(e => e.scrollWidth > e.clientWidth + 2).map(e => e.className)"""
    assert window.run(wide) == []
    title = "6. Attention: memories look at each other · tinyrmc"
    assert window.until("document.title.length > 10 && document.title") == title


@built_here
@browser.needed
def test_the_exercise_says_when_python_does_not_come(website, address, window):
    if os.environ.get("PYODIDE"):
        pytest.skip("here Python comes")
    for size in (LAPTOP, PHONE):
        window.size(*size)
        window.open(address + "try.html")
        assert window.run("document.documentElement.scrollWidth") <= size[0]
        said = 'document.getElementById("state").textContent'
        window.until(f"{said}.includes('jsdelivr.net cannot be reached')", seconds=60)
        assert window.run('document.getElementById("check").disabled')
        assert window.run('document.getElementById("instead").checkVisibility()')


@built_here
@browser.needed
def test_the_exercise_begins_again_and_back_and_tab_indents(address, window):
    window.open(address + "try.html")
    text = "document.getElementById('code').value"
    empty = window.run(text)
    window.run("document.getElementById('code').focus()")
    window.press("Tab", 9)
    window.type("mine")
    mine = window.run(text)
    assert mine == empty + "    mine"
    window.click("document.getElementById('again')")
    assert window.run(text) == empty
    window.click("document.getElementById('undo')")
    assert window.run(text) == mine
    window.press("Escape", 27)
    window.press("Tab", 9)
    assert window.run(text) == mine
    assert window.run("document.activeElement.id") != "code"
    assert window.run("document.querySelector('.fine a').href").endswith("start.html")
    window.run("localStorage.clear()")


# --- Sources --------------------------------------------------------------------------


def test_links_are_turned_to_pages_and_copies(tmp_path, capsys):
    source = make_site.Source(tmp_path)
    text = (
        "[a](../README.md#install) [b](../tinyrmc/autograd/engine.py) [c](../tests/) "
        "[d](results/cpu.json) [`e`](https://e.org) [f](#here)"
    )
    turned = (
        "[a](/index.md#install) [b](/reference/autograd.engine.md) c "
        "[d](/benchmarks/results/cpu.json) [`e`](https://e.org) [f](#here)"
    )
    code = "\n```\nx[0](y)\n```\n"
    found = source.relink(text + code + text, "benchmarks/README.md")
    assert found == turned + code + turned
    assert (tmp_path / "benchmarks/results/cpu.json").read_bytes() == (
        ROOT / "benchmarks/results/cpu.json"
    ).read_bytes()
    assert capsys.readouterr().err == ""
    assert source.relink("[x](gone.md)", "benchmarks/README.md") == "x"
    says = "benchmarks/README.md: WARNING: the link [x](gone.md) leads to no file\n"
    assert capsys.readouterr().err == says


def test_without_its_tools_it_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(make_site, "TOOLS", ("sphinx_of_another_world",))
    assert make_site.main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "sphinx_of_another_world" in said
    assert ".[docs]" in said
    assert list(tmp_path.iterdir()) == []


@built_here
def test_a_pyodide_of_another_version_is_refused(monkeypatch, tmp_path, capsys):
    from jupyterlite_pyodide_kernel.constants import PYODIDE_VERSION

    out, pyodide = tmp_path / "out", tmp_path / "pyodide"
    pyodide.mkdir()
    monkeypatch.setenv("PYODIDE", str(pyodide))
    assert "PYODIDE holds no Pyodide: " in in_browser.refusal()
    for version, fits in (("0.27.7", False), (PYODIDE_VERSION, True)):
        lock = json.dumps({"info": {"version": version}})
        (pyodide / "pyodide-lock.json").write_text(lock)
        assert (in_browser.refusal() is None) == fits
        if not fits:
            assert make_site.main(["--out", str(out)]) == 2
            says = (
                f"of version 0.27.7, and the installed kernel needs {PYODIDE_VERSION}"
            )
            assert says in capsys.readouterr().err and not out.exists()


@built_here
def test_a_folder_that_holds_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "source").mkdir()
    for name in ("notes.md", "source/notes.md"):
        (tmp_path / name).write_text("mine")
    assert make_site.main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"error: {tmp_path} holds notes.md, ")
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == ["notes.md", "notes.md", "source"]
