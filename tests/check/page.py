"""The list of known differences in docs/check.md, made from ompd's table.

``python -m tests.check.page`` rewrites it. A test checks that it is up to date.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ompd.questions.check.known import Entry, Known
from tests.support.cache import CHECKOUT

PAGE = CHECKOUT / "docs" / "check.md"
BEGIN, END = "<!-- made by `python -m tests.check.page` -->\n", "<!-- end of the list -->\n"
_VENDORS = {"llvm": "LLVM", "intel": "Intel"}


def entries_text(known: Known) -> str:
    """Return the list of entries."""
    return "\n".join(line for entry in known.entries for line in _lines(entry))


def libraries_text(known: Known) -> str:
    """Return the list of the libraries whose differences were measured."""
    return "\n".join(f"- {_VENDORS[str(each.vendor)]} {each.release}: {each.what}" for each in known.libraries)


def made(known: Known) -> str:
    """Return the text between the marks."""
    return (
        f"The libraries that were examined:\n\n{libraries_text(known)}\n\nThe differences:\n\n{entries_text(known)}\n"
    )


def page(text: str, known: Known) -> str:
    """Return the page *text* with its list replaced by the one made from the table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made(known)}\n{END}{after}"


def _lines(entry: Entry) -> Iterator[str]:
    releases = "; ".join(f"{_VENDORS[vendor]} {', '.join(found)}" for vendor, found in entry.releases.items())
    debugged = "" if entry.is_debugged else " without OMP_DEBUG"
    compiler = " as gcc compiles it" if entry.compiler == "gcc" else ""
    yield f"### {entry.number}. {entry.title}"
    yield ""
    yield from textwrap.wrap(entry.text, 130)
    yield ""
    yield f"- Standard: {entry.standard}"
    yield f"- Releases: {releases}"
    yield f"- Shown by: `fixtures/programs/check/{entry.program}.c`{compiler}{debugged}"
    if entry.issue is not None:
        yield f"- Reported: <{entry.issue}>"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), Known()))
