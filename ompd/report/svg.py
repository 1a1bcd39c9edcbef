"""Writes pictures: elements of SVG whose texts and attributes are escaped, whoever they are from.

Colours are classes, which the page's style has for light and for dark: no element has a style of its own, which the
page's security policy would not apply.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ompd.render.words import clean

TIMES = "\u00d7"
"""In front of how many there are of something."""
LINE = 16
"""The height of a line of text."""
# Of the fonts that browsers take for sans-serif at 12 pixels; wide characters count twice.
_WIDTH = 6.9
_MOST = 64  # characters of a text


def width_of(text: str) -> float:
    """Return about how wide a text is."""
    # Not a sum of widths: each Python rounds that in its own way.
    return _WIDTH * sum(1 if character < "\u1100" else 2 for character in text)


def shorten(text: str, most: int = _MOST) -> str:
    """Return a text of at most *most* characters, as it is safe to show."""
    shown = clean(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def fit(text: str, width: float) -> str:
    """Return as much of *text* as fits into *width*, nothing if that is next to nothing."""
    most = int(width / _WIDTH)
    return shorten(text, most) if most >= 3 else ""


def element(name: str, *inside: str, **attributes: object) -> str:
    """Return an element. What is *inside* is SVG already; attributes are escaped, and those that are None left out."""
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
    """Return what is shown where somebody points at the element that this is inside of."""
    return element("title", escape(shorten(words, 400)))


def picture(body: Sequence[str], width: float, height: float, name: str, description: str, key: str) -> str:
    """Return a picture.

    :param name: what it is of, for whoever cannot see it, *description* what is to be seen
    :param key: distinguishes it from all others of the page
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
