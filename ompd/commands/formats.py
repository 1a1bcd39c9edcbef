"""The formats of answers other than text: a table of the functions that write them."""

from __future__ import annotations

from typing import Any

from ompd.commands.loading import load
from ompd.records import record

TEXT = "text"
"""The format without a row: each command has its own function for text."""


@record
class Format:
    """A format of answers.

    ``render`` names the function that formats an answer, by ``module:name``. ``commands`` are the commands with the
    format. If it is empty, all commands that query a target have the format, as an option with the help ``help``.
    """

    name: str
    render: str
    commands: tuple[str, ...] = ()
    help: str = ""

    @property
    def parameter(self) -> str:
        """The name of the option's parameter."""
        return f"as_{self.name}"


FORMATS = (
    Format("json", "ompd.render.json:format_json", help="Print one JSON object."),
    Format("json", "ompd.render.json:format_snapshot", ("snapshot",)),
    Format("json", "ompd.render.json:format_layouts", ("layout",)),
    Format("json", "ompd.render.json:format_triage", ("triage",)),
    Format("json", "ompd.render.json:format_conformance", ("conformance",)),
    Format("junit", "ompd.render.conformance:junit", ("conformance",)),
    Format("csv", "ompd.render.exchange:format_csv", ("threads",)),
    Format("dot", "ompd.render.answers.why_dot:format_dot", ("why",)),
    Format("folded", "ompd.render.exchange:format_folded", ("stack",)),
    Format("folded", "ompd.render.answers.profile:format_folded", ("profile",)),
    Format("speedscope", "ompd.render.exchange:format_speedscope", ("stack",)),
    Format("speedscope", "ompd.render.answers.profile:format_speedscope", ("profile",)),
)

SHARED = tuple(row for row in FORMATS if not row.commands)
"""The formats of all commands that query a target."""


def render(name: str, command: str, answer: Any, **numbered: Any) -> str:
    """Return the answer to *command* in the format *name*, ending in a newline unless it is empty.

    :param numbered: ``indices``, a debugger's numbers of the threads, for commands whose rows are threads
    """
    rows = [row for row in FORMATS if row.name == name]
    row = next((row for row in rows if command in row.commands), None) or next(row for row in rows if not row.commands)
    text: str = load(row.render)(answer, **numbered)
    return f"{text}\n" if text and not text.endswith("\n") else text
