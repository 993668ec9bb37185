"""Headless Chromium, driven through a pipe in its own DevTools protocol: no package, no
port, no second process for the next page.
"""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time

import pytest

EXECUTABLE = shutil.which(
    "chromium-headless-shell"
)  # asks nobody for anything of its own accord, as the full browser does
needed = pytest.mark.skipif(
    EXECUTABLE is None or os.name == "nt",
    reason="needs chromium-headless-shell to open pages",
)
# The browser reads from 3 and writes to 4.
EXEC = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def end(process, patience=10):
    """Ask a process to end; kill it if it does not."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Browser:
    """One window.

    `open` loads a page, after which `requests` and `complaints` hold what it asked for
    and what the console said.
    """

    def __init__(self, profile):
        (reads, to), (fro, writes) = os.pipe(), os.pipe()
        options = (
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        )
        command = [
            sys.executable,
            "-c",
            EXEC,
            str(reads),
            str(writes),
            EXECUTABLE,
            *options,
        ]
        self.process = subprocess.Popen(
            command, pass_fds=(reads, writes), stderr=subprocess.DEVNULL
        )
        os.close(reads)
        os.close(writes)
        self._to, self._from, self._held, self._numbers = (
            to,
            fro,
            b"",
            itertools.count(1),
        )
        self.requests, self.complaints, self._session, self._loaded = (
            [],
            [],
            None,
            False,
        )
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call(
                "Target.attachToTarget", targetId=target, flatten=True
            )["sessionId"]
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def close(self):
        """End the browser."""
        os.close(self._to)
        end(self.process)
        os.close(self._from)

    def call(self, method, **parameters):
        """What the browser answers to a command; RuntimeError if it refuses."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | (
            {"sessionId": self._session} if self._session else {}
        )
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
        """The next message from the browser; events are noted on the way."""
        deadline = time.monotonic() + patience
        while b"\0" not in self._held:
            if not select.select(
                [self._from], [], [], max(0, deadline - time.monotonic())
            )[0]:
                raise TimeoutError("the browser says nothing")
            got = os.read(self._from, 1 << 20)
            if not got:
                raise RuntimeError("the browser has ended")
            self._held += got
        message, _, self._held = self._held.partition(b"\0")
        message = json.loads(message)
        what, about = message.get("method"), message.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(
                about["exceptionDetails"]
                .get("exception", {})
                .get("description", about["exceptionDetails"]["text"])
            )
        elif what == "Runtime.consoleAPICalled" and about["type"] in (
            "error",
            "warning",
            "assert",
        ):
            self.complaints.append(
                " ".join(
                    str(each.get("value", each.get("description")))
                    for each in about["args"]
                )
            )
        elif what == "Log.entryAdded" and about["entry"]["level"] in (
            "error",
            "warning",
        ):
            self.complaints.append(
                f"{about['entry']['text']} {about['entry'].get('url', '')}"
            )
        elif what == "Page.loadEventFired":
            self._loaded = True
        return message

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
        failed = self.call("Page.navigate", url=address).get("errorText")
        if failed:
            raise RuntimeError(f"{address}: {failed}")
        while not self._loaded:
            self._next()

    def run(self, script):
        """What an expression, or the promise it gives, is worth to JSON."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(
                found["exceptionDetails"]["exception"].get(
                    "description", "the script failed"
                )
            )
        return found["result"].get("value")

    def until(self, script, seconds=60):
        """What an expression is worth as soon as it is worth something."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := self.run(script):
                return found
            time.sleep(0.1)
        raise TimeoutError(f"for {seconds} seconds nothing came of {script}")

    def click(self, element):
        """Press the mouse in the middle of an element, an expression, as soon as there
        is one that can be seen.
        """
        x, y = self.until(
            f"(e => {{ e?.scrollIntoView({{block: 'nearest'}}); const r = "
            "e?.getBoundingClientRect(); "
            "return r?.width ? [r.x + r.width / 2, r.y + r.height / 2] : null; "
            f"}})({element})"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
            )

    def press(self, key, code, modifiers=0, text=""):
        """A key by its name and number; `modifiers` 2 is Control, 8 is Shift."""
        held = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": code,
            "modifiers": modifiers,
        }
        self.call(
            "Input.dispatchKeyEvent",
            type="keyDown",
            **held,
            **({"text": text} if text else {}),
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **held)

    def type(self, text):
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def picture(self, whole=False):
        """A PNG of the window, or of the whole page."""
        options = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {
                "x": 0,
                "y": 0,
                "width": size["width"],
                "height": size["height"],
                "scale": 1,
            }
            options = {"clip": clip, "captureBeyondViewport": True}
        return base64.b64decode(
            self.call("Page.captureScreenshot", format="png", **options)["data"]
        )
