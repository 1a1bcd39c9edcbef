"""Pages of ``ompd report`` and ``ompd triage`` in a headless browser: light, dark, narrow, printed, without scripts.

They run with ``OMPD_FULL=1``, if Chromium, axe-core and pdftoppm are installed (tests/tools.toml). Without a browser,
tests/report/test_report.py and tests/triage/test_triage_page.py check the text of the pages.
"""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.report.triage.page import make_triage_page
from tests.support import FULL, require, stopped
from tests.support.browser import Browser
from tests.support.command import ompd as command
from tests.support.png import pixels
from tests.support.report_pages import OF_KIND, core_of, large, source_of
from tests.support.triage_pages import of_job

pytestmark = pytest.mark.skipif(not FULL, reason="OMPD_FULL is not set")
NAMES = (*OF_KIND, "variables", "cut", "large", "triage", "ranks")
WHITE, BLACK, DARK, MISSING, ARRIVED = (255, 255, 255), (0, 0, 0), (22, 24, 28), (213, 94, 0), (86, 180, 233)
NARROW = 360  # pixels, the width of a telephone
# Elements with a text of their own, the right edge of wide ones, and elements with text that is not visible.
BLOCKS = "h1, h2, h3, p, dt, dd, th, td, pre, summary, caption, figcaption, .tree span, .plain li, .legend li"
RIGHTMOST = """Math.max(...Array.from(document.querySelectorAll('.wide, pre, h1, h3, dd'))
    .map(e => e.getBoundingClientRect().right))"""
WAITS = """Array.from(document.querySelectorAll('#why figure svg, #jobs figure:has(.arrow) svg'))
    .map(e => [e.getBoundingClientRect().right, e.getBoundingClientRect().width, +e.getAttribute('width')])"""
WIDTHS = "Array.from(document.querySelectorAll('figure svg')).map(e => e.getBoundingClientRect().width)"
UNFOLD = "document.querySelectorAll('details').forEach(function (one) { one.open = true; });"
TEXTS = f"Array.from(document.querySelectorAll('{BLOCKS}')).map(e => e.textContent)"
UNSEEN = f"""Array.from(document.querySelectorAll('{BLOCKS}'))
    .filter(e => !e.hidden && e.textContent.trim() && !(e.innerText.trim() && e.getClientRects().length))
    .map(e => e.outerHTML)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages for each verdict, with values of variables, of a core that is cut off, and of 10,000 threads; and pages of
    ``ompd triage`` on cores and on an MPI job.
    """
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in NAMES}
    for kind, name in OF_KIND.items():
        assert command("report", core_of(name), "-o", files[kind]).code in (0, 3)
    core = stopped("nested").core
    assert command("report", core, "-o", files["variables"], "--var", "thread_count", "--env").code == 0
    part = folder / "core.cut"
    part.write_bytes(core.read_bytes()[: core.stat().st_size * 7 // 10])
    assert command("report", part, "-o", files["cut"]).code == 3
    files["large"].write_text(source_of(large(10_000)))
    cores = [core_of(name) for name in ("lock_cycle-two", "self_lock-lock", "laggard-barrier")]
    assert command("triage", *cores, folder / "none", "-o", files["triage"]).code == 3
    files["ranks"].write_text(make_triage_page(of_job(1_000, failed=5, baseline=True), ["ompd", "triage"], "now"))
    return files


@pytest.fixture(params=NAMES)
def page(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Path:
    return pages[request.param]


def pressed(text: str) -> str:
    """Return a text without spaces, and with ligatures replaced by letters, which a PDF may not tell apart."""
    return "".join(unicodedata.normalize("NFKC", text).split())


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_wrong_with_the_page(browser: Browser, page: Path, *, dark: bool) -> None:
    with browser.page(page, dark=dark, axe=True) as shown:
        assert list(shown.said) == [] and list(shown.requests) == [page.as_uri()]
        assert shown.evaluate("document.querySelectorAll('table.sortable th button').length") > 0
        assert list(shown.violations()) == []
        # Viewing the page causes no request.
        assert list(shown.said) == [] and list(shown.requests) == [page.as_uri()]


def test_what_is_wrong_is_found(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    good = pages["laggard"].read_text()
    for number, (old, new) in enumerate(
        (
            ("<label>Search ", "<label>"),
            ('<html lang="en">', "<html>"),
            ("</main>", "<img src='http://127.0.0.1:9/x.png'></main>"),
            ("</main>", "<script>alert(1)</script></main>"),
        )
    ):
        bad = tmp_path / f"{number}.html"
        assert old in good
        bad.write_text(good.replace(old, new, 1))
        with browser.page(bad, axe=True) as shown:
            assert [*shown.violations(), *shown.said], new


def test_light_and_dark_are_to_be_seen(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    for is_dark, ground in ((False, WHITE), (True, DARK)):
        with browser.page(pages["laggard"], dark=is_dark, width=500) as shown:
            shown.evaluate("document.getElementById('teams').scrollIntoView()")
            _, _, rows = pixels(shown.picture(tmp_path / "seen.png"))
        found = Counter(tuple(row[at : at + 3]) for row in rows[:300:2] for at in range(0, len(row), 3))
        assert found.most_common(1)[0][0] == ground
        assert found[MISSING] > 20 and found[ARRIVED] > 20


def test_a_narrow_window_is_not_scrolled_sideways(browser: Browser, page: Path) -> None:
    with browser.page(page, width=NARROW) as shown:
        shown.evaluate(UNFOLD)
        assert shown.evaluate("document.scrollingElement.scrollWidth") == NARROW
        # Wider elements scroll by themselves, and end inside of the window.
        assert shown.evaluate(RIGHTMOST) <= NARROW
        # Who waits for whom is whole, in letters of the usual size.
        for right, wide, natural in shown.evaluate(WAITS):
            assert right <= NARROW and wide == natural


def test_pictures_can_be_zoomed_without_scripts(browser: Browser, pages: dict[str, Path]) -> None:
    with browser.page(pages["ranks"], width=NARROW, scripts=False) as shown:
        before = shown.evaluate(WIDTHS)
        shown.evaluate("document.querySelectorAll('.zoom input').forEach(one => one.click())")
        assert len(before) > 2 and all(
            now > 1.5 * wide for wide, now in zip(before, shown.evaluate(WIDTHS), strict=True)
        )
        assert shown.evaluate("document.scrollingElement.scrollWidth") == NARROW


def test_everything_is_there_with_scripts_off(browser: Browser, page: Path) -> None:
    with browser.page(page, scripts=False) as off:
        # A reader can unfold parts by hand, without a script.
        off.evaluate(UNFOLD)
        assert off.evaluate(UNSEEN) == []
        assert off.evaluate("Array.from(document.querySelectorAll('[hidden]')).map(e => e.id)") == ["tools"]
        texts = off.evaluate(TEXTS)
        pictures = off.evaluate(
            "Array.from(document.querySelectorAll('svg')).map(e => e.getBoundingClientRect().width)"
        )
        assert min(pictures) > 0
    with browser.page(page) as on:
        assert on.evaluate(TEXTS) == texts and on.evaluate("document.querySelectorAll('[hidden]').length") == 0


def test_search_and_sorting_do_what_they_say(browser: Browser, pages: dict[str, Path]) -> None:
    column = (
        "Array.from(document.querySelectorAll('#threads tbody tr:not([hidden]) td:nth-child(3)')).map(e => e.innerText)"
    )
    with browser.page(pages["lock_cycle"]) as shown:
        before = shown.evaluate(column)
        assert len(before) > 3
        for order in (sorted(before), sorted(before, reverse=True)):
            shown.evaluate("document.querySelectorAll('#threads th button')[2].click()")
            assert shown.evaluate(column) == order
        typed = "var s = document.getElementById('search'); s.value = '%s'; s.dispatchEvent(new Event('input'));"
        shown.evaluate(typed % before[0])
        assert before[0] in shown.evaluate(column) and len(shown.evaluate(column)) < len(before)
        shown.evaluate(typed % "")
        assert len(shown.evaluate(column)) == len(before)


def test_all_of_it_is_printed_on_white(browser: Browser, page: Path, tmp_path: Path) -> None:
    # With a dark screen, without scripts, and with nothing unfolded.
    with browser.page(page, dark=True, scripts=False) as shown:
        file = shown.printed(tmp_path / "page.pdf")
        texts = shown.evaluate(TEXTS)
        sheet = shown.evaluate("document.getElementById('tools').innerText")
    read = subprocess.run(
        [require("pdftoppm").with_name("pdftotext"), "-raw", file, "-"], capture_output=True, text=True, check=True
    )
    printed = pressed(read.stdout)
    assert [text for text in texts if pressed(text) not in printed and text not in sheet] == []
    subprocess.run([require("pdftoppm"), "-r", "40", "-l", "4", file, tmp_path / "sheet"], check=True)
    found: Counter[tuple[int, ...]] = Counter()
    for picture in sorted(tmp_path.glob("sheet*.ppm")):
        head = re.match(rb"P6\s+\d+\s+\d+\s+255\s", data := picture.read_bytes())
        assert head is not None
        raw = data[head.end() :]
        every = Counter(zip(raw[::3], raw[1::3], raw[2::3], strict=True))
        # No sheet is empty: a reader has to turn it.
        assert every.most_common(1)[0][0] == WHITE and len(every) > 10, picture.name
        found += every
    coloured = [
        count for (red, green, blue), count in found.items() if max(red, green, blue) - min(red, green, blue) > 90
    ]
    assert sum(coloured) > 20
