"""The package and the course in a real Pyodide: PYODIDE=FOLDER make test-all
ARGS="tests/test_pyodide.py", where FOLDER holds a whole one, with NumPy and matplotlib.

Wheels that it lacks, such as pytest, are made of what is installed here, or are those
of its folder `more`.
"""

import importlib.metadata
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import browser
import in_browser
import pytest
from test_like_a_browser import SUITES
from test_site import (  # noqa: F401
    BAR,
    LINES,
    address,
    begins,
    built,
    built_here,
    website,
)

HERE = Path(__file__).resolve().parent
FOLDER, LIVE = os.environ.get("PYODIDE"), os.environ.get("BROWSER_LIVE")
LONGEST, WHOLE = 60, 240  # seconds for a cell and for a chapter
CHAPTERS = [path.name[:2] for path in in_browser.chapters()]
MEANT = [number for number in CHAPTERS if number <= "15" or number in ("25", "26")]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER and not LIVE, reason="needs PYODIDE=FOLDER"),
]
TOOLS = "pytest pluggy iniconfig hypothesis attrs sortedcontainers autograd"
PACKAGES = [*in_browser.AT_ONCE, "packaging", *TOOLS.split()]


@pytest.fixture(scope="session")
def inside(tmp_path_factory):
    """Runs a script of tests/ in Pyodide and gives what it printed."""
    if not FOLDER or not shutil.which("node"):
        pytest.skip("needs PYODIDE=FOLDER and Node.js")
    lock, out = in_browser.lock_of(Path(FOLDER)), tmp_path_factory.mktemp("wheels")
    wheels = [str(path) for path in Path(FOLDER).glob("more/*.whl")]
    own = {Path(wheel).name.partition("-")[0] for wheel in wheels}
    there = in_browser.needed(lock, PACKAGES)
    for name in {*PACKAGES, *in_browser.ADDED} - {*there} - own:
        try:
            wheels.append(str(in_browser.packed(name, out)))
        except importlib.metadata.PackageNotFoundError:
            continue  # the kernel's own; the project itself is read from its folder
    words = {"PACKAGES": ",".join(there), "WHEELS": ",".join(wheels)}

    def run(*arguments, seconds=3600):
        return subprocess.run(
            ["node", HERE / "pyodide_host.mjs", *arguments],
            env=os.environ | words | {"PYODIDE": FOLDER},
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    return run


@pytest.mark.parametrize("suite", SUITES.split())
def test_the_suites_pass(inside, suite):
    found = inside("pyodide_suites.py", f"test_{suite}.py")
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]


@pytest.mark.parametrize("number", MEANT)
def test_a_chapter_runs_in_time(inside, number):
    found = inside("chapter_seconds.py", number)
    assert found.returncode == 0, found.stderr
    took = json.loads(found.stdout.splitlines()[-1])
    assert took["errors"] == []
    assert max(took["seconds"]) <= LONGEST and sum(took["seconds"]) <= WHOLE


# --- In Chromium ----------------------------------------------------------------------

# The kernel's state; then the first code cell that has a text is replaced by another
# and run, and gives the text that came out. Null: any.
STATUS = (
    "window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status"
)
RUN = """(async (has, text) => {
    const {content} = jupyterapp.shell.currentWidget, {widgets} = content;
    const found = widgets.findIndex(({model}) =>
        model.type === "code" && model.sharedModel.getSource().includes(has));
    content.activeCellIndex = found;
    if (text) widgets[found].model.sharedModel.setSource(text);
    await jupyterapp.commands.execute("notebook:run-cell");
    const outputs = widgets[found].model.outputs.toJSON();
    return outputs.map(each => each.text ?? each.evalue ?? "").join("") || "nothing";
})"""


TEXT = """window.jupyterapp?.shell?.currentWidget?.content?.model?.sharedModel?.toJSON()
    .cells.map(each => each.source).join("")"""


def opened(window, address, chapter):  # noqa: F811
    window.open(address + in_browser.address(chapter))
    window.until(f"{STATUS} === 'idle'", seconds=900)


def ran(window, has, text=None, seconds=300, meanwhile="true"):
    call = f"{RUN}({json.dumps(has)}, {json.dumps(text)})"
    window.run(f"window.ran = ''; {call}.then(x => ran = x, x => ran = `{{x}}`); 0")
    window.until(meanwhile, seconds)
    return window.until("window.ran", seconds)


SOFTMAX = """def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum({})


ex.softmax.check(softmax)"""
ONES = """def ones(n):
    return np.where(np.arange(n) < {}, 1.0, 0.0)


ex.ones.check(ones)"""
STEP = """def step(xp, x, m, h, p):
    z = my.multi_head_attention(xp, m, x, p["W_q"], p["W_k"], p["W_v"])
    z = my.g_psi(xp, z, p["mlp"], p["gain"], p["offset"])
    weights = ((p[w + k] for w in ("W_", "U_", "b_")) for k in "fio")
    f, i, o = (my.gate(xp, x, h, *each) for each in weights)
    m = update_memory(xp, f, i, m, z, p["forget_bias"])
    return m, my.sigmoid(xp, o) * {}


ex.step.check(step)
step = ex.step.yours(step)"""
ANSWERS = {  # chapter: (what its cell has, the answer, a wrong end, the right one)
    "02_puzzles": ("ex.ones.check", ONES, "n - 1", "n"),
    "06_attention": ("ex.softmax.check", SOFTMAX, "", "axis=-1, keepdims=True"),
    "10_memory_update": ("ex.step.check", STEP, "m", "xp.tanh(m)"),
}
DOWNLOAD = """(async () => {
    const link = new Promise(done => HTMLAnchorElement.prototype.click = function () {
        done(this.href);
    });
    document.querySelector("#tinyrmc-work button").click();
    const bytes = new Uint8Array(await (await fetch(await link)).arrayBuffer());
    return Array.from(bytes);
})()"""


@built_here
@browser.needed
def test_answers_are_checked_and_outlive_a_reload(address, window):  # noqa: F811
    asked = []
    for chapter, (has, answer, wrong, right) in ANSWERS.items():
        opened(window, address, chapter)
        ran(window, "import numpy")
        assert {"np.linalg", "np.linspace"} <= {*window.run(COMPLETED)}
        if answer == STEP:
            ran(window, "my = course.pieces")
            ran(window, "def update_memory")
        assert ran(window, has, answer.format(wrong)).startswith("wrong")
        said = ran(window, has, answer.format(right))
        assert said.startswith("right")
        window.run("jupyterapp.commands.execute('docmanager:save').then(() => 0)")
        asked += window.outside.asked
    assert "yours is used" in said  # and your own core of chapter 10 learns
    ran(window, "def slopes")
    ran(window, "def compared")
    clock = "document.querySelector('#tinyrmc-work').innerText.includes('is running: ')"
    said = ran(window, "STEPS, curves", seconds=900, meanwhile=clock)
    shares = re.findall(r"seed \d: (.*)%", said)
    assert len(shares) == 3 and min(map(float, shares)) > 85, shares
    told = ran(window, "import numpy", "from tinyrmc import course\ncourse.progress()")
    assert told.count("1 of") == 3, told
    for chapter, (_, answer, _, right) in ANSWERS.items():
        window.open(address + in_browser.address(chapter))
        assert answer.format(right) in window.until(TEXT, seconds=300)
    with zipfile.ZipFile(io.BytesIO(bytes(window.run(DOWNLOAD)))) as file:
        names = {f"{chapter}.ipynb" for chapter in ANSWERS}
        assert file.testzip() is None and names <= {*file.namelist()}
        assert ".tinyrmc/progress.json" in file.namelist()
    assert asked + window.outside.asked == []


COMPLETED = """window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
    .requestComplete({code: "np.lin", cursor_pos: 6})
    .then(found => found.content.matches)"""


BLOCKED = """ServiceWorkerContainer.prototype.register = () =>
    Promise.reject(new DOMException("workers are blocked", "SecurityError"))"""


@built_here
@browser.needed
@pytest.mark.parametrize("blocked", [False, True], ids=["http", "blocked"])
def test_answers_are_kept_where_no_worker_may_help(
    address,  # noqa: F811
    window,
    blocked,
):
    """As a teacher serves it, by http to a class: no browser allows workers there. Or
    where settings, or a filter, block them.
    """
    school = address if blocked else address.replace("127.0.0.1", browser.SCHOOL)
    ours = {"origin": school[:-1], "storageTypes": "all"}  # workers of other tests too
    window.open("about:blank")
    window.call("Storage.clearDataForOrigin", **ours)
    allowed = begins(window, BLOCKED if blocked else "")
    try:
        _answers_are_kept(window, school, blocked)
    finally:
        allowed()
        window.call("Storage.clearDataForOrigin", **ours)


def _answers_are_kept(window, school, secure):
    opened(window, school, "06_attention")
    assert window.run("isSecureContext") == secure
    said = window.until(f"{LINES}.lasting", seconds=60)
    assert "This page keeps your answers in its place" in said
    ran(window, "import numpy")
    has, answer, _, right = ANSWERS["06_attention"]
    assert ran(window, has, answer.format(right)).startswith("right")
    kept = "jupyterapp.serviceManager.contents.get('.tinyrmc/progress.json')"
    window.until(f"{kept}.then(() => true, () => false)")
    window.run("jupyterapp.commands.execute('docmanager:save').then(() => 0)")
    asked = "from tinyrmc import course\ncourse.progress()"
    for chapter in "06_attention", "07_invariants":  # the same again, and the next
        opened(window, school, chapter)
        assert re.search(r"attention +1 of", ran(window, "import numpy", asked))
        if chapter[:2] == "06":
            assert answer.format(right) in window.run(TEXT)


@built_here
@browser.needed
def test_a_loop_without_an_end_is_stopped_and_run_again_from_above(
    address,  # noqa: F811
    window,
):
    opened(window, address, "06_attention")
    window.until(f"!{LINES}.python", seconds=60)
    call = f"{RUN}('import numpy', 'while True: pass')"
    window.run(f"{call}.then(() => 0, () => 0); 0")
    window.until(f"{LINES}.now.startsWith('A cell is running: ')")
    window.run("jupyterapp.commands.execute('notebook:interrupt-kernel'); 0")
    window.until(f"{LINES}.now.includes('cannot be interrupted')", seconds=2)
    button = f"{BAR}.querySelector('.now button')"
    window.click(button)
    window.until(f"{LINES}.now.startsWith('Stopped.')", seconds=60)
    cells = "jupyterapp.shell.currentWidget.content"
    window.run(f"{cells}.widgets[1].model.sharedModel.setSource('above = 1'); 0")
    window.run(f"{cells}.activeCellIndex = 2; 0")
    window.until(f"{STATUS} === 'idle'", seconds=900)
    window.click(button)
    count = f"{cells}.widgets[1].model.sharedModel.execution_count"
    window.until(f"{count} && {STATUS} === 'idle'", seconds=300)
