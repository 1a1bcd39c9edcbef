"""Saves what was seen of a command's processes: snapshots, pages, JSON, and a file for continuous integration."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import ompd.questions.snapshot as snapshots
from ompd.errors import BadFile, OmpdError
from ompd.questions.why.looks import look_before
from ompd.render.json import format_json
from ompd.report.gather import gather
from ompd.report.page import make_page
from ompd.run.looking import Seen
from ompd.safety.writing import Destination
from ompd.session import Session


def make_folder(path: str) -> None:
    """Make a folder, which may exist already.

    :raises BadFile: if it cannot be made
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadFile(path, f"cannot be made: {error.strerror}") from error


def save(folder: str, seen: Sequence[Seen], reason: str) -> list[str]:
    """Write a snapshot, a page and the verdicts of each process that has an answer, and ``junit.xml`` on all.

    Return the reasons why files are missing.

    :param folder: an existing folder
    :param reason: why the processes were looked at
    """
    faults = []
    for look in seen:
        if look.answer is None:
            continue
        stem = f"{folder}/{look.process_id}"
        try:
            _write(f"{stem}.json", f"{format_json(look.answer)}\n".encode())
            with Session.attach(look.process_id) as session:
                snapshots.take_snapshot(session, f"{stem}.core")
                answers = gather(session, earlier=look_before(session))
            words = ["ompd", "report", f"{look.process_id}.core", "-o", f"{look.process_id}.html"]
            _write(f"{stem}.html", make_page(answers, words, time.strftime("%Y-%m-%d %H:%M:%S %z")).encode())
        except OmpdError as error:
            faults.append(f"{look.name}: {error}")
    try:
        _write(f"{folder}/junit.xml", _junit(seen, reason))
    except OmpdError as error:
        faults.append(str(error))
    return faults


def save_verdicts(path: str, seen: Sequence[Seen]) -> None:
    """Write the verdicts of all processes to one file, a JSON object a line.

    :raises BadFile: if it cannot be written
    """
    _write(path, "".join(f"{format_json(look.answer)}\n" for look in seen if look.answer is not None).encode())


def _write(path: str, data: bytes) -> None:
    with Destination(path) as place, place.written() as file:
        file.write(data)


def _junit(seen: Sequence[Seen], reason: str) -> bytes:
    # A test case for each process with an answer; it fails if the process is stuck.
    with_answers = [look for look in seen if look.answer is not None]
    failures = str(sum(look.is_stuck for look in with_answers))
    suite = ET.Element("testsuite", name="ompd run", tests=str(len(with_answers)), failures=failures)
    for look in with_answers:
        case = ET.SubElement(suite, "testcase", classname="ompd.run", name=look.name)
        summary = look.answer.rows[0].summary if look.answer is not None else ""
        if look.is_stuck:
            ET.SubElement(case, "failure", message=_printable(f"{reason}: {summary}"))
        else:
            ET.SubElement(case, "system-out").text = _printable(summary)
    stream = BytesIO()
    ET.ElementTree(suite).write(stream, encoding="utf-8", xml_declaration=True)
    return stream.getvalue() + b"\n"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
