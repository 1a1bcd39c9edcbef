"""The page of ``ompd report`` in a browser without a screen: light, dark, narrow, printed, and with scripts off.

With ``OMPD_FULL=1``, where Chromium is installed (Debian: chromium-headless-shell).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zlib
from collections import Counter
from pathlib import Path

import pytest

from tests.support import FULL, Missing, stopped
from tests.support.command import ompd as command
from tests.support.html_page import Page

pytestmark = pytest.mark.skipif(not FULL, reason="OMPD_FULL is not set")
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
SECONDS = 120


def browser() -> str:
    """Return the browser.

    :raises Missing: if there is none
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise Missing(BROWSERS[0], "not found")
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    browser()
    file = tmp_path_factory.mktemp("page") / "hang.html"
    assert command("report", stopped("nested").core, "-o", file, "--var", "thread_count").code == 0
    return file


def opened(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open the page, and return what the browser printed."""
    words = [browser(), "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [*words, profile, *options, f"file://{page}"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    return done


def pixels(file: Path) -> tuple[int, int, list[bytes]]:
    """Return width, height and the rows of a PNG file, three bytes for each pixel."""
    data = file.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, width, height, kind = 8, b"", 0, 0, 0
    while at < len(data):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        inside = data[at + 8 : at + 8 + size]
        if name == b"IHDR":
            width, height, kind = int.from_bytes(inside[:4], "big"), int.from_bytes(inside[4:8], "big"), inside[9]
        packed += inside if name == b"IDAT" else b""
        at += size + 12
    depth = {2: 3, 6: 4}[kind]
    raw, rows, before = zlib.decompress(packed), [], bytes(width * depth)
    for number in range(height):
        start = number * (width * depth + 1)
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + width * depth], before, depth)
        rows.append(bytes(value for index, value in enumerate(before) if index % depth < 3))
    return width, height, rows


def _unfiltered(method: int, line: bytes, above: bytes, depth: int) -> bytes:
    # As the standard has it: none, sub, up, average, Paeth.
    found = bytearray()
    for index, value in enumerate(line):
        left = found[index - depth] if index >= depth else 0
        corner = above[index - depth] if index >= depth else 0
        up = above[index]
        if method == 4:
            guess = left + up - corner
            added = min((left, up, corner), key=lambda other: abs(guess - other))
        else:
            added = (0, left, up, (left + up) // 2)[method]
        found.append((value + added) & 255)
    return bytes(found)


def colours(page: Path, name: str, *options: str, width: int = 1000) -> list[tuple[int, ...]]:
    """Return the colours on a picture of the page, the most frequent first."""
    file = page.parent / f"{name}.png"
    opened(page, f"--screenshot={file}", f"--window-size={width},700", *options)
    wide, high, rows = pixels(file)
    assert (wide, high) == (width, 700)
    found = Counter(tuple(row[at : at + 3]) for row in rows[::3] for at in range(0, len(row), 9))
    return [colour for colour, _ in found.most_common()]


def test_light_dark_and_narrow_pages_have_their_colours(page: Path) -> None:
    light = colours(page, "light", "--blink-settings=preferredColorScheme=1")
    dark = colours(page, "dark", "--blink-settings=preferredColorScheme=0")
    assert (light[0], dark[0]) == ((255, 255, 255), (22, 24, 28))
    narrow = colours(page, "narrow", "--blink-settings=preferredColorScheme=1", width=500)
    assert narrow[0] == (255, 255, 255) and len(narrow) > 20


def test_nothing_is_asked_of_a_network(page: Path) -> None:
    log = page.parent / "net.json"
    opened(page, f"--log-net-log={log}", "--dump-dom", "--disable-background-networking", "--disable-component-update")
    events = json.loads(log.read_text())["events"]
    urls = {event["params"]["url"] for event in events if "url" in (event.get("params") or {})}
    assert not {url for url in urls if str(page.name) not in url and re.match(r"(https?|ftp|wss?)://", url)}


def test_the_page_is_readable_with_scripts_off(page: Path) -> None:
    source = page.read_text()
    without = page.with_name("without.html")
    without.write_text(re.sub(r"<script>.*</script>", "", source, flags=re.DOTALL))
    off, on = (opened(each, "--dump-dom").stdout for each in (without, page))
    # Without scripts nothing is hidden but the tools that need them.
    assert re.findall(r"<(\w+)[^>]* hidden", off) == ["p"] and not re.findall(r"<\w+[^>]* hidden", on)
    assert " ".join(Page(off).text.split()) == Page(source).words
    assert on.count('<th scope="col"><button type="button"') > 5


def test_the_page_prints(page: Path) -> None:
    file = page.parent / "page.pdf"
    opened(page, f"--print-to-pdf={file}", "--no-pdf-header-footer")
    data = file.read_bytes()
    assert data.startswith(b"%PDF-") and data.count(b"/Type /Page\n") + data.count(b"/Type/Page") >= 1
