"""Boxes below one another, for pictures that are as narrow as a telephone."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.records import record
from ompd.render.columns import wrap
from ompd.render.words import clean
from ompd.report import svg

LEFT, BESIDE = 8.0, 10.0
"""The left edge of boxes, and the room between an arrow and its words."""
ARROW_X = LEFT + 22
"""Where arrows leave boxes and arrive at boxes."""
WIDEST = 34
"""Characters of a line. A picture of boxes is then at most 300 pixels wide."""
_LINES = 3  # of a text


def lines_of(text: str) -> list[str]:
    """Return a text as lines that fit into a box, none for an empty text. A long text is cut."""
    lines = wrap(clean(text), WIDEST) if text else []
    return [*lines[: _LINES - 1], svg.shorten(" ".join(lines[_LINES - 1 :]), WIDEST)] if len(lines) > _LINES else lines


@record
class Box:
    """A box with lines of text. ``words`` are its tooltip, and the border of a *root* is thick."""

    lines: Sequence[str]
    words: str | None = None
    is_root: bool = False

    @property
    def width(self) -> float:
        """The width that the text needs."""
        return max(90.0, 20 + max(map(svg.width_of, self.lines), default=0.0))

    @property
    def height(self) -> float:
        """The height that the text needs."""
        return 18.0 + svg.LINE * len(self.lines)

    def draw(self, y: float, width: float) -> str:
        """Return the box with its upper edge at *y*."""
        texts = [
            svg.text(line, LEFT + width / 2, y + 21 + number * svg.LINE, text_anchor="middle")
            for number, line in enumerate(self.lines)
        ]
        style = "box root" if self.is_root else "box"
        shape = svg.element("rect", x=LEFT, y=y, width=width, height=self.height, rx=6, class_=style)
        return svg.element("g", *([svg.title(self.words)] if self.words is not None else []), shape, *texts)


def words_beside(lines: Sequence[str], y: float) -> list[str]:
    """Return the words beside an arrow that begins at *y*."""
    return [
        svg.text(line, ARROW_X + BESIDE, y + svg.LINE * (number + 1), class_="edge")
        for number, line in enumerate(lines)
    ]


def width_beside(lines: Sequence[str]) -> float:
    """Return how far words beside an arrow reach to the right."""
    return ARROW_X + BESIDE + max(map(svg.width_of, lines), default=0.0)
