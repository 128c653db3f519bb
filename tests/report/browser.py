"""A headless Chromium, driven through a pipe by its own protocol.

No driver program, no port and no further package is needed: messages are JSON, each
ended by a zero byte, on two pipes that the browser finds as files 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time

# Puts the pipes where the browser looks for them, and becomes the browser.
LAUNCHER = """
import fcntl, os, sys
high = [fcntl.fcntl(int(pipe), fcntl.F_DUPFD, 10) for pipe in sys.argv[1:3]]
for place, pipe in zip((3, 4), high):
    os.dup2(pipe, place)
    os.close(pipe)
os.execv(sys.argv[3], sys.argv[3:])
"""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60.0


def find_browser():
    """Return the path of a Chromium, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A browser with one page, to be used in a ``with`` statement."""

    def __init__(self, path, profile):
        self.events = []
        self._number = 0
        self._unread = b""
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            path,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        pipes = (to_browser, from_browser)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", LAUNCHER, *map(str, pipes), *command],
            pass_fds=pipes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = None
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self):
        """Get hold of the page that the browser begins with."""
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send(
            "Target.attachToTarget", targetId=page["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End the browser."""
        try:
            self._session = None
            self.send("Browser.close")
            self._process.wait(10)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def send(self, method, **parameters):
        """Send a command, wait for its answer, and keep what happens meanwhile."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _receive(self):
        """Return the next message; events are kept on the way."""
        end = time.monotonic() + SECONDS
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._in], [], [], end - time.monotonic())
            if not ready:
                msg = f"the browser was silent for {SECONDS:g} seconds"
                raise TimeoutError(msg)
            more = os.read(self._in, 1 << 20)
            if not more:
                msg = "the browser has gone"
                raise EOFError(msg)
            self._unread += more
        text, _, self._unread = self._unread.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, path, width=1200, height=900, scheme="light"):
        """Show a file at a size and in a colour scheme, and wait until it is there."""
        self.resize(width, height)
        self.emulate(scheme)
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._receive()

    def resize(self, width, height):
        """Make the window so large."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def emulate(self, scheme, media=""):
        """Let the page believe in a colour scheme, and in being printed."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.send("Emulation.setEmulatedMedia", media=media, features=[feature])

    def run(self, expression):
        """Return the value of a JavaScript expression."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key, code):
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
            )

    def click(self, x, y):
        """Press and release the left button of the mouse."""
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="left",
                clickCount=1,
            )

    def complaints(self):
        """Return what went wrong: exceptions, messages on the console, requests."""
        found = []
        for event in self.events:
            method, parameters = event["method"], event["params"]
            if method in (
                "Runtime.exceptionThrown",
                "Runtime.consoleAPICalled",
                "Log.entryAdded",
                "Network.loadingFailed",
            ):
                found.append((method, parameters))
        return found

    def requests(self):
        """Return the addresses that were asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, whole=True):
        """Return a picture of the page as PNG."""
        answer = self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole
        )
        return base64.b64decode(answer["data"])

    def pdf(self):
        """Return the page as it is printed."""
        answer = self.send(
            "Page.printToPDF", printBackground=True, preferCSSPageSize=True
        )
        return base64.b64decode(answer["data"])
