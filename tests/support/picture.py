"""The picture on README's first screen: drawings of ``ompd report`` for the snapshot in ``docs/pictures``.

``python -m tests.support.picture`` (``make picture``) writes the picture anew. With ``--core`` it first builds the
program of README, lets it hang, and takes a new snapshot.
"""

from __future__ import annotations

import lzma
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

import ompd
from ompd.report import svg
from ompd.report.gather import PageAnswers, gather
from ompd.report.icicle import draw_icicle
from ompd.report.states import states_of
from ompd.report.teams import draw_teams
from ompd.report.waits import draw_waits
from ompd.session import Session
from tests.support.cache import CHECKOUT
from tests.support.demo import SOURCE, take_core

FOLDER = CHECKOUT / "docs" / "pictures"
CORE, PICTURE = FOLDER / "hang.core.xz", FOLDER / "report.svg"
_WIDTH, _MARGIN = 900, 16
# The rules for pictures in the page's style sheet, in light colours.
_STYLE = re.compile(r"^(?::root|svg text|\.(?:box|arrow|head|s-)).*$", re.MULTILINE)


def make_picture() -> str:
    """Return the picture as SVG text."""
    with Session.open_core(CORE) as session:
        found = gather(session)
    style = (files("ompd.report") / "page" / "style.css").read_text(encoding="utf-8")
    colours = re.search(r":root \{.*?\}", style, re.DOTALL)
    assert colours is not None
    rules = [colours[0].replace("\n", " "), *(line for line in _STYLE.findall(style) if not line.startswith(":root"))]
    body, y = [], float(_MARGIN)
    for part, high in _parts(found):
        body.append(part.replace("<svg ", f'<svg x="{_MARGIN}" y="{y:.0f}" ', 1) if part.startswith("<svg") else "")
        if not part.startswith("<svg"):
            body[-1] = svg.text(part, _MARGIN, y + 18, class_="heading")
        y += high
    inside = [
        svg.element("style", escape("\n".join((*rules, "svg text.heading { font-size: 15px; font-weight: bold; }")))),
        svg.element("rect", width=_WIDTH, height=y, fill="#fff"),
        *body,
    ]
    name = "a report: who waits for whom, teams, stacks"
    return svg.picture(inside, _WIDTH, y, name, _summary(found), "report") + "\n"


def _summary(found: PageAnswers) -> str:
    assert found.why is not None
    return found.why.rows[0].summary


def _parts(found: PageAnswers) -> Iterator[tuple[str, float]]:
    assert found.why is not None and found.threads is not None
    assert found.regions is not None and found.stacks is not None
    states = states_of(found.threads.rows)
    for heading, drawn in (
        (found.why.rows[0].summary, draw_waits(found.why.rows[0], "waits")),
        ("Teams", draw_teams(found.regions.rows, found.threads.rows, states, "teams")),
        ("Stacks", draw_icicle(found.stacks.rows, states, "icicle")),
    ):
        yield heading, 30.0
        height = re.search(r' height="(\d+)"', drawn or "")
        assert drawn is not None and height is not None
        yield drawn, float(height[1]) + 8


def take_snapshot() -> None:
    """Build the program, let it hang, and keep a small core of it that does not name this machine's folders."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "demo"
        folder.mkdir()
        shutil.copy(SOURCE, folder)
        program = folder / "hang"
        words = ["gcc", "-g", "-fopenmp", f"-ffile-prefix-map={folder}=/demo", "hang.c", "-o", "hang", "-lm"]
        subprocess.run(words, cwd=folder, check=True)
        core = take_core(program, folder)
        with ompd.open_core(core) as session:
            session.snapshot(folder / "small", data_limit=0)
        CORE.write_bytes(lzma.compress((folder / "small").read_bytes(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    if "--core" in sys.argv[1:]:
        take_snapshot()
    PICTURE.write_text(make_picture(), encoding="utf-8")
