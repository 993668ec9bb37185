"""The course as a learner has it: a chapter in JupyterLab in a real browser, run
untouched, then an exercise answered.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import browser
import pytest

CHAPTERS = Path(__file__).resolve().parent.parent / "chapters"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("jupyterlab") is None,
        reason="needs the extra course: make lab",
    ),
    browser.absent,
    pytest.mark.slow,
]

MENU = (
    "[...document.querySelectorAll('.lm-MenuBar-item')]"
    ".find(e => e.textContent == {!r})"
)
ITEM = (
    "[...document.querySelectorAll('.lm-Menu-item')]"
    ".find(e => e.textContent.startsWith({!r}))"
)
# JupyterLab draws only what is on the screen, so we ask for cells, and do not see them.
PAGE = "window.jupyterapp?.shell.currentWidget"
READY = (
    f"{PAGE}?.context?.isReady && "
    f"{PAGE}.context.sessionContext.session?.kernel?.status == 'idle'"
)
CELLS = f"{PAGE}.content.widgets.filter(e => e.model.type == 'code')"
EXERCISE = f"{CELLS}.find(e => e.model.sharedModel.source.includes('def mean_slot'))"
DONE = (
    f"{CELLS}.every(e => e.model.sharedModel.execution_count && "
    "e.model.executionState == 'idle')"
)
# Of each cell of code its number, or null, and what it gave.
RUN = (
    f"{CELLS}.map(e => [e.model.sharedModel.execution_count, e.model.outputs.toJSON()])"
)
VERDICT = (
    f"{EXERCISE}.model.outputs.toJSON().map(e => e.text).join('').match(/right.*/)?.[0]"
)
ANSWER = """def mean_slot(M):
    return M.mean(axis=0)


ex.mean_slot.check(mean_slot)"""
CONTROL = 2  # as DevTools counts modifiers
SHIFT = 8


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """(address of a JupyterLab, the token that it wants), started as `make lab` starts
    it, on a copy of the chapters.
    """
    folder, home = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("home")
    (folder / "chapters").mkdir()
    shutil.copy(CHAPTERS / "00_first_look.ipynb", folder / "chapters")
    environment = os.environ | {"HOME": str(home), "TINYRMC_FAST": "1"}
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(home / name)
    command = [sys.executable, "-m", "jupyterlab", "chapters"]
    command += ["--no-browser", "--port=0", "--allow-root"]
    command += ["--LabApp.expose_app_in_browser=True"]
    with open(home / "log", "w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        about = told(server, home)
        yield f"http://localhost:{about['port']}/", about["token"]
    finally:
        browser.end(server)


def told(server, home):
    """A JupyterLab's own notes, once it runs."""
    end = time.monotonic() + 60
    while True:
        found = [file.read_text() for file in home.glob("RUNTIME/jpserver-*.json")]
        if any(found):  # there, and written
            return json.loads("".join(found))
        log = (home / "log").read_text()
        assert server.poll() is None and time.monotonic() < end, log
        time.sleep(0.1)


@pytest.mark.weekly
def test_a_chapter_runs_untouched_and_takes_an_answer(lab, window):
    address, token = lab
    window.size(1280, 1000)
    window.open(f"{address}lab/tree/00_first_look.ipynb?token={token}")
    window.until(READY)

    # What is committed must not be taken for what comes now.
    window.click(MENU.format("Edit"))
    window.click(ITEM.format("Clear Outputs of All Cells"))
    assert not any(number or outputs for number, outputs in window.run(RUN))
    window.click(MENU.format("Run"))
    window.click(ITEM.format("Run All Cells"))
    window.until(DONE)
    numbers, outputs = zip(*window.run(RUN), strict=True)
    assert [*numbers] == [*range(1, len(numbers) + 1)]
    said = [output for each in outputs for output in each]
    for output in said:
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"
    assert str(said).count("not attempted") == 1
    assert str(said).count("image/png") == 4

    window.run(f"{PAGE}.content.scrollToCell({EXERCISE}).then(() => null)")
    window.click(f"{EXERCISE}.node.querySelector('.cm-content')")
    window.press("a", 65, modifiers=CONTROL)
    window.type(ANSWER)
    window.press("Enter", 13, modifiers=SHIFT, text="\r")
    assert window.until(VERDICT) == "right: 5 cases agree"

    # the website's extra, where it is installed, brings an extension of other pages
    complaints = [said for said in window.complaints if "@jupyterlite/" not in said]
    assert complaints == []
    known = (address, "data:", "blob:")
    assert [url for url in window.requests if not url.startswith(known)] == []
    # Else the browser asks whether to leave.
    window.run(f"{PAGE}.context.save().then(() => null)")
