"""Fills the template of a page, which contains its style and script, and a policy that forbids all others."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from ompd.render.words import clean

_FOLDER = files("ompd.report") / "page"
_TEMPLATES = frozenset(["base.html", "parts.html", "page.html", "triage.html"])


class _Loader(BaseLoader):
    # Loads templates from a zip archive, too.

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, None]:
        if template not in _TEMPLATES:
            raise TemplateNotFound(template)
        return _text(template), template, None


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    # Removes control characters and marks that reverse the direction of text; then jinja2 escapes the value.
    return value if isinstance(value, Markup) else clean(str(value))


def fill(name: str, **values: Any) -> str:
    """Return the text of the page with the template *name*."""
    environment = Environment(
        loader=_Loader(),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = _text("style.css"), _text("script.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    # Style and script contain no text of the target, so they need no escapes. The policy allows them by their hashes.
    return environment.get_template(name).render(policy=policy, style=Markup(style), script=Markup(script), **values)


def drawn(picture: str | None) -> Markup | None:
    """Return a picture as markup that the template does not escape. ``svg`` has escaped its texts already."""
    return Markup(picture) if picture is not None else None


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
