"""Writes SVG elements, with all texts and attributes escaped.

Colours are classes of the page's style sheet, for light and dark. Elements have no style attributes, because the page's
security policy forbids them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ompd.render.words import clean

TIMES = "\u00d7"
"""The sign in front of a number of equal things."""
LINE = 16
"""The height of a line of text."""
# The width of a character in browsers' sans-serif fonts at 12 pixels. Wide characters count twice.
_WIDTH = 6.9
_MOST = 64  # characters of a text


def width_of(text: str) -> float:
    """Return the approximate width of a text."""
    # Count first and multiply once, because sums of floats differ between versions of Python.
    return _WIDTH * sum(1 if character < "\u1100" else 2 for character in text)


def shorten(text: str, most: int = _MOST) -> str:
    """Return *text* without control characters, cut to at most *most* characters."""
    shown = clean(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def fit(text: str, width: float) -> str:
    """Return the part of *text* that fits into *width*, ``""`` if fewer than three characters fit."""
    most = int(width / _WIDTH)
    return shorten(text, most) if most >= 3 else ""


def element(name: str, *inside: str, **attributes: object) -> str:
    """Return an element.

    :param inside: SVG, which is not escaped
    :param attributes: values, which are escaped; None omits the attribute
    """
    parts = [f'{_key(key)}="{escape(_value(value))}"' for key, value in attributes.items() if value is not None]
    head = " ".join((name, *parts))
    return f"<{head}>{''.join(inside)}</{name}>" if inside else f"<{head}/>"


def _key(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return clean(str(value))


def text(words: str, x: float, y: float, **attributes: object) -> str:
    """Return a line of text."""
    return element("text", escape(clean(words)), x=float(x), y=float(y), **attributes)


def title(words: str) -> str:
    """Return a tooltip for the element around it."""
    return element("title", escape(shorten(words, 400)))


def arrowhead(key: str) -> str:
    """Return the definition of a picture's arrowhead, whose id is ``KEY-head``."""
    shape = element("path", d="M0,0 L8,4 L0,8 z", class_="head")
    sizes = {"markerWidth": 8, "markerHeight": 8, "refX": 7, "refY": 4}
    return element("defs", element("marker", shape, id=f"{key}-head", orient="auto", **sizes))


def picture(body: Sequence[str], width: float, height: float, name: str, description: str, key: str) -> str:
    """Return a picture.

    :param name: its title, for screen readers
    :param description: its contents in words, for screen readers
    :param key: distinguishes its ids from those of other pictures on the page
    """
    head = element("title", escape(clean(name)), id=f"{key}-title")
    described = element("desc", escape(clean(description)), id=f"{key}-desc")
    return element(
        "svg",
        head,
        described,
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
    )
