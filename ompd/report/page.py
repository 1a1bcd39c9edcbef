"""The page: a template filled with the sections, style and script inside of it, and a policy that allows no other."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

import ompd
from ompd.model import TargetRecord
from ompd.render.words import basename, clean, format_target
from ompd.report import sections
from ompd.report.gather import Found

_FOLDER = files("ompd.report") / "page"


class _Loader(BaseLoader):
    # Also out of an archive, which no folder is.

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, None]:
        if template != "page.html":
            raise TemplateNotFound(template)
        return _text(template), template, None


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    # What the template puts into the page, before it is escaped: no control character, nothing that turns text round.
    return value if isinstance(value, Markup) else clean(str(value))


def make_page(found: Found, command: Sequence[str], when: str) -> str:
    """Return the text of the page.

    :param command: the words by which it was made
    :param when: the time, for a person
    """
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
    target = _mailable(found.runtimes.target)
    return environment.get_template("page.html").render(
        title=f"ompd: {format_target(target, ())}",
        heading=format_target(target, found.runtimes.runtimes),
        policy=policy,
        # Ours, and hashed by the policy: not a word of it is the target's.
        style=Markup(style),
        script=Markup(script),
        complete=found.complete,
        incomplete=target.incomplete,
        warnings=found.warnings,
        faults=found.faults,
        verdicts=list(sections.verdicts(found.why)),
        more_verdicts=sections.more_verdicts(found.why),
        teams=sections.teams(found),
        legend=sections.legend(found),
        threads=sections.threads(found),
        regions=sections.regions(found),
        tasks=sections.tasks(found),
        icicle=sections.icicle(found),
        runtimes=sections.runtimes(found),
        icvs=sections.icvs(found),
        variables=list(sections.variables(found)),
        environment=found.environment,
        unknown=sections.unknown(found),
        modules=[(basename(name), build_id) for name, build_id in found.modules],
        architecture=target.architecture,
        version=ompd.__version__,
        python=platform.python_version(),
        command=" ".join(command),
        when=when,
        stops=[f"{length / 1e6:.1f} ms" for length in target.stops_ns],
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _mailable(target: TargetRecord) -> TargetRecord:
    # Folders say more of a person than of a program.
    return replace(target, file=basename(target.file) if target.file is not None else None, command=None)
