"""Read the report of 2015 on OMPT. This project keeps only its numbers and signatures (``report_2015.json``).

``python -m tests.ompt.report REPORT DRAFT`` writes this file anew from the LaTeX sources of the report and of the
chapter that was its draft. tests/contract/test_ompt_documents.py compares the file with the sources if
``OMPD_OMPT_REPORT`` and ``OMPD_OMPT_DRAFT`` name these.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ompt.declarations import Declarations, declared, from_json

DATA = Path(__file__).with_name("report_2015.json")
_TITLE = (
    "OMPT: An OpenMP Tools Application Programming Interface for Performance Analysis,"
    " technical report of the OpenMP tools working group, revised November 12, 2015"
)
# Errors in the report's C code: a comma after a structure's member, and one at the end of a parameter list.
_SLIPS = {"ompt_record_native_class_t rclass,": "ompt_record_native_class_t rclass;", "complete,\n)": "complete\n)"}
# The comments above the parts of the list of events.
_GROUPS = {"Mandatory": "mandatory", "blame shifting": "blame_shifting", "synchronous": "other"}


@dataclass
class Report:
    """The declarations in the report's appendix, in its text and in the draft, and facts on events.

    ``groups`` has the heading of each event in the list; ``callbacks`` has the callback type of each event that the
    text explains.
    """

    appendix: Declarations
    text: Declarations
    draft: Declarations
    groups: dict[str, str]
    callbacks: dict[str, str]


def load() -> Report:
    """Return the stored report."""
    data = json.loads(DATA.read_text())
    appendix, text, draft = (from_json(data[part]) for part in ("appendix", "text", "draft"))
    return Report(appendix, text, draft, data["groups"], data["callbacks"])


def parsed(report: str, draft: str) -> dict[str, Any]:
    """Return the data that :func:`load` reads, from the LaTeX texts of report and draft.

    :raises ValueError: if a declaration is not understood
    """
    body, _, appendix = _printed(report).partition("\\appendix")
    listings = [_mended(text) for text in _verbatim(appendix)]
    return {
        "document": _TITLE,
        "sha256": hashlib.sha256(report.encode()).hexdigest(),
        "draft_document": "the chapter on tools of a draft of the OpenMP specification (ch5-toolsSupport.tex)",
        "draft_sha256": hashlib.sha256(draft.encode()).hexdigest(),
        "made_by": "python -m tests.ompt.report",
        "appendix": declared("\n".join(listings)).as_json(),
        "text": _explained(body).as_json(),
        "draft": _explained(_printed(draft)).as_json(),
        "groups": _groups(next(text for text in listings if "ompt_event_t;" in text)),
        "callbacks": _callbacks(body),
    }


def _printed(latex: str) -> str:
    latex = re.sub(r"\\begin\{comment\}.*?\\end\{comment\}", "", latex, flags=re.DOTALL)
    return re.sub(r"^[ \t]*%.*\n", "", latex, flags=re.MULTILINE)


def _explained(body: str) -> Declarations:
    # Keep only declarations in C: the text also has examples and Fortran interfaces.
    listings = [text for text in map(_mended, _verbatim(body)) if re.match(r"\s*(typedef|OMPT_|extern|C:)", text)]
    return declared("\n".join(text.replace("C:", "") for text in listings))


def _verbatim(latex: str) -> list[str]:
    return re.findall(r"\\begin\{verbatim\}(.*?)\\end\{verbatim\}", latex, re.DOTALL)


def _mended(listing: str) -> str:
    for wrong, right in _SLIPS.items():
        listing = listing.replace(wrong, right)
    return listing


def _groups(listing: str) -> dict[str, str]:
    groups, group = {}, ""
    for line in listing.splitlines():
        if "/*---" in line:
            (group,) = (name for words, name in _GROUPS.items() if words in line)
        elif match := re.match(r"\s*(ompt_event_\w+)\s*=", line):
            groups[match[1]] = group
    return groups


def _callbacks(body: str) -> dict[str, str]:
    callbacks = {}
    for item in re.split(r"\\item ", body)[1:]:
        names = re.match(r"\\verb\|(ompt_event_\w+)\|\s*(?:\(\\verb\|(ompt_event_\w+)\|\))?", item)
        kind = re.search(r"has\s+type\s+signature\s+\\verb\|(\w+)\|", item)
        if names and kind:
            callbacks |= {name: kind[1] for name in names.groups() if name}
    return callbacks


if __name__ == "__main__":
    DATA.write_text(json.dumps(parsed(*(Path(path).read_text() for path in sys.argv[1:])), indent=1) + "\n")
