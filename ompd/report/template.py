"""A page: a template filled, style and script inside of it, and a policy that allows no other."""

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
    # Also out of an archive, which no folder is.

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, None]:
        if template not in _TEMPLATES:
            raise TemplateNotFound(template)
        return _text(template), template, None


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    # What the template puts into the page, before it is escaped: no control character, nothing that turns text round.
    return value if isinstance(value, Markup) else clean(str(value))


def fill(name: str, **values: Any) -> str:
    """Return the text of the page that the template *name* is of."""
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
    # Ours, and hashed by the policy: not a word of these is the target's.
    return environment.get_template(name).render(policy=policy, style=Markup(style), script=Markup(script), **values)


def drawn(picture: str | None) -> Markup | None:
    """Return a picture as the template takes it: what is the target's in it is escaped already."""
    return Markup(picture) if picture is not None else None


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
