"""Headless Chromium, driven through a pipe in its DevTools protocol.

It takes no package and no port, and one process opens all pages.
"""

import base64
import http.server
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time

import pytest

# unlike the full browser, this one contacts nobody by itself
EXECUTABLE = shutil.which("chromium-headless-shell")
absent = pytest.mark.skipif(
    EXECUTABLE is None or os.name == "nt",
    reason="needs chromium-headless-shell to open pages",
)


def needed(test):
    """A test that opens pages: slow, and skipped where there is no browser."""
    return pytest.mark.slow(absent(test))


SCHOOL = "school.test"  # a name of this machine that is not localhost
LIVE = ";cdn.jsdelivr.net" if os.environ.get("BROWSER_LIVE") else ""

# The browser reads from 3 and writes to 4.
EXEC = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def end(process, patience=10):
    """Ask a process to end; kill it if it does not."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Outside(http.server.BaseHTTPRequestHandler):
    """A proxy for all but this machine: notes what is asked for, and refuses it."""

    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_error(502)

    do_CONNECT = do_POST = do_HEAD = do_GET

    def log_message(self, *_):
        pass


class Browser:
    """One window. `open` loads a page; after that `requests` holds what the page asked
    for, `outside.asked` what anyone here, workers too, wanted of other machines, and
    `complaints` what its console said.
    """

    def __init__(self, profile):
        self.requests, self.complaints = [], []
        self.outside = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Outside)
        self.outside.asked = []
        threading.Thread(target=self.outside.serve_forever, daemon=True).start()
        self._held, self._numbers = b"", itertools.count(1)
        self._session, self._loaded = None, False
        self._start(profile)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def _start(self, profile):
        (reads, self._to), (self._from, writes) = os.pipe(), os.pipe()
        options = (
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            f"--proxy-server=http://127.0.0.1:{self.outside.server_port}",
            f"--proxy-bypass-list={SCHOOL}{LIVE}",
            f"--host-resolver-rules=MAP {SCHOOL} 127.0.0.1",
        )
        starter = [sys.executable, "-c", EXEC, str(reads), str(writes)]
        self.process = subprocess.Popen(
            [*starter, EXECUTABLE, *options],
            pass_fds=(reads, writes),
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)

    def close(self):
        """End the browser."""
        os.close(self._to)
        end(self.process)
        os.close(self._from)
        self.outside.shutdown()
        self.outside.server_close()

    def call(self, method, **parameters):
        """The browser's answer to a command; RuntimeError if it refuses."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, patience=60):
        """The next message from the browser. Events are noted on the way."""
        deadline = time.monotonic() + patience
        while b"\0" not in self._held:
            left = max(0, deadline - time.monotonic())
            if not select.select([self._from], [], [], left)[0]:
                raise TimeoutError("the browser says nothing")
            got = os.read(self._from, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self._held += got
        text, _, self._held = self._held.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event, about):
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            thrown = details.get("exception", {})
            said = thrown.get("description") or thrown.get("value") or details["text"]
            self.complaints.append(str(said))
        elif event == "Runtime.consoleAPICalled":
            if about["type"] in ("error", "warning", "assert"):
                words = [
                    each.get("value", each.get("description")) for each in about["args"]
                ]
                self.complaints.append(" ".join(map(str, words)))
        elif event == "Log.entryAdded":
            entry = about["entry"]
            if entry["level"] in ("error", "warning"):
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}")

    def size(self, width, height):
        """A window of this size; up to 500 pixels wide it is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width <= 500,
        )

    def open(self, address):
        """Load a page, scripts and all."""
        self.requests, self.complaints, self._loaded = [], [], False
        self.outside.asked = []
        failed = self.call("Page.navigate", url=address).get("errorText")
        if failed:
            raise RuntimeError(f"{address}: {failed}")
        while not self._loaded:
            self._next()

    def run(self, script):
        """The value of an expression, or of a promise that it gives, as JSON has it."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            thrown = found["exceptionDetails"]["exception"]
            raise RuntimeError(thrown.get("description", "the script failed"))
        return found["result"].get("value")

    def until(self, script, seconds=60):
        """The value of an expression, as soon as it has one that is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if found := self.run(script):
                    return found
            except RuntimeError as error:
                if "navigated" not in str(error):  # one page leads to the next
                    raise
            time.sleep(0.1)
        raise TimeoutError(f"for {seconds} seconds nothing came of {script}")

    def click(self, element):
        """Press the mouse in the middle of an element, given as an expression, as soon
        as it can be seen.
        """
        middle = """(element => {
            element?.scrollIntoView({block: "nearest"});
            const box = element?.getBoundingClientRect();
            return box?.width ? [box.x + box.width / 2, box.y + box.height / 2] : null;
        })"""
        x, y = self.until(f"{middle}({element})")
        where = {"x": x, "y": y}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **where)
        button = {"button": "left", "clickCount": 1, **where}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **button)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **button)

    def press(self, key, code, modifiers=0, text=""):
        """A key by its name and number; `modifiers` 2 is Control, 8 is Shift."""
        held = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": code,
            "modifiers": modifiers,
        }
        typed = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **held, **typed)
        self.call("Input.dispatchKeyEvent", type="keyUp", **held)

    def type(self, text):
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, whole=False):
        """A PNG of the window, or of the whole page."""
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {**size, "x": 0, "y": 0, "scale": 1}
            options = {"clip": clip, "captureBeyondViewport": True}
        taken = self.call("Page.captureScreenshot", format="png", **options)
        return base64.b64decode(taken["data"])


def opened(window, page, fragment=""):
    """Open a page at a fragment; nobody may complain or be asked for anything."""
    window.open("about:blank")  # else only the fragment is new, and nothing is loaded
    window.open(f"{page.as_uri()}#{fragment}")
    asked = [r for r in window.requests if not r.startswith(("file:", "data:"))]
    assert window.complaints == [] and asked == []


def text_of(window, name):
    """The text of an element of the page."""
    return window.run(f"document.getElementById('{name}').textContent")


def cells(window, table):
    """The rows of a table of the page."""
    rows = f"[...document.getElementById('{table}').rows]"
    return window.run(f"{rows}.map(row => [...row.cells].map(c => c.textContent))")
