"""A headless browser, driven by the Chrome DevTools Protocol over a pipe: it needs no port and no other package.

https://chromedevtools.github.io/devtools-protocol/ has the names of commands and events.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.machine import Missing, clean_environment, require, wheel_folder

SECONDS = 120
# The browser reads commands from descriptor 3 and writes to descriptor 4: the pipes' descriptors become these two.
_LAUNCH = (
    "import os, sys\n"
    "for old, new in zip(sys.argv[1:3], (10, 11)): os.dup2(int(old), new)\n"
    "for old, new in ((10, 3), (11, 4)): os.dup2(old, new)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-pipe",
)
_DOMAINS = ("Page", "Runtime", "Log", "Network")
_AXE_DIGEST = "84494fec757e4710dc751c8d7a636e457f4532f08f85c86dc9070133fbff53bc"
"""The SHA-256 of axe-core 4.12.1."""


def axe_source() -> str:
    """Return the script of axe-core.

    :raises Missing: if axe-core was not fetched, or has another digest
    """
    data = (wheel_folder("axe-core") / "axe_playwright_python" / "axe.min.js").read_bytes()
    if hashlib.sha256(data).hexdigest() != _AXE_DIGEST:
        raise Missing("axe-core", "the file that was fetched is not the one whose digest is known")
    return data.decode()


class Browser:
    """A browser with its own profile. Use it in a ``with`` statement.

    :raises Missing: if this machine has no browser
    """

    def __init__(self) -> None:
        program = require("chromium")
        self._profile = tempfile.mkdtemp(prefix="browser-")
        reading, self._writes = os.pipe()
        self._reads, writing = os.pipe()
        command = [sys.executable, "-c", _LAUNCH, str(reading), str(writing), str(program), *_OPTIONS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={self._profile}", "about:blank"],
            pass_fds=(reading, writing),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(),
        )
        os.close(reading)
        os.close(writing)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._reads, selectors.EVENT_READ)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        os.close(self._writes)
        os.close(self._reads)
        # Closing the pipe ends the browser and its children.
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command to the browser and return its answer.

        :raises RuntimeError: if it refuses
        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._writes, data) :]
        for answer in self._messages():
            if answer.get("id") == self._number:
                break
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def wait(self, method: str, session: str) -> None:
        """Wait for an event."""
        if not any(_is(event, method, session) for event in self.events):
            next(event for event in self._messages() if _is(event, method, session))

    def _messages(self) -> Iterator[dict[str, Any]]:
        # Events are kept until a caller waits for them.
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            whole, end, self._rest = self._rest.partition(b"\0")
            if end:
                message = json.loads(whole)
                if "method" in message:
                    self.events.append(message)
                yield message
                continue
            self._rest = whole
            if self._selector.select(timeout=1):
                data = os.read(self._reads, 1 << 20)
                if not data:
                    raise RuntimeError(f"the browser ended with {self._process.wait()}")
                self._rest += data
        raise RuntimeError(f"the browser said nothing for {SECONDS} s")

    @contextmanager
    def page(
        self, file: Path, *, dark: bool = False, width: int = 1000, scripts: bool = True, axe: bool = False
    ) -> Iterator[Shown]:
        """Open a file and yield the page that the browser shows.

        :param axe: load axe-core into the page, too
        """
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.events.clear()
        for domain in _DOMAINS:
            self.send(f"{domain}.enable", session)
        self.send("Emulation.setScriptExecutionDisabled", session, value=not scripts)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", session, features=[scheme])
        sizes = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", session, **sizes)
        self.send("Page.navigate", session, url=file.as_uri())
        self.wait("Page.loadEventFired", session)
        shown = Shown(self, session, width)
        if axe:
            shown.evaluate(axe_source() + ";true")
        try:
            yield shown
        finally:
            self.send("Target.closeTarget", targetId=target)


def _is(event: Mapping[str, Any], method: str, session: str) -> bool:
    return event.get("method") == method and event.get("sessionId") == session


class Shown:
    """A page in the browser."""

    def __init__(self, browser: Browser, session: str, width: int) -> None:
        self._browser, self._session, self._width = browser, session, width

    def evaluate(self, code: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited.

        :raises RuntimeError: if the expression throws
        """
        done = self._browser.send(
            "Runtime.evaluate", self._session, expression=code, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(str(done["exceptionDetails"]))
        return done["result"].get("value")

    @property
    def said(self) -> Sequence[str]:
        """The console's messages, with errors and violations of the page's policy."""
        self.evaluate("1")
        names = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self._browser.events if event["method"] in names]

    @property
    def requests(self) -> Sequence[str]:
        """The addresses of all requests."""
        self.evaluate("1")
        events = (event for event in self._browser.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in events]

    def violations(self) -> Sequence[str]:
        """Return the violations that axe-core finds with all parts of the page unfolded."""
        self.evaluate("document.querySelectorAll('details').forEach(function (one) { one.open = true; })")
        found = self.evaluate(
            "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))"
        )
        return [
            f"{each['impact']}: {each['id']}: {each['nodes'][0]['html'][:200]} ({len(each['nodes'])})"
            for each in json.loads(found)
        ]

    def picture(self, file: Path, *, whole: bool = False) -> Path:
        """Write the visible part of the page as a PNG; with *whole* the whole page, at most 4,000 pixels of it."""
        options: dict[str, Any] = {}
        if whole:
            high = min(int(self.evaluate("document.documentElement.scrollHeight")), 4000)
            options = {"clip": {"x": 0, "y": 0, "width": self._width, "height": high, "scale": 1}}
            options["captureBeyondViewport"] = True
        done = self._browser.send("Page.captureScreenshot", self._session, format="png", **options)
        file.write_bytes(base64.b64decode(done["data"]))
        return file

    def printed(self, file: Path) -> Path:
        """Write the printed page as a PDF."""
        done = self._browser.send("Page.printToPDF", self._session, printBackground=False)
        file.write_bytes(base64.b64decode(done["data"]))
        return file
