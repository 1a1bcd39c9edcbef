"""Answers as JSON, written by the records themselves with :mod:`ompd.model.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ompd.model.json import format_answer as format_answer
from ompd.model.json import format_conformance as format_conformance
from ompd.model.json import format_layouts as format_layouts
from ompd.model.json import format_snapshot as format_snapshot
from ompd.model.json import format_triage as format_triage

if TYPE_CHECKING:
    from ompd.model import Answer
    from ompd.render.words import Indices


def format_json(answer: Answer[Any], indices: Indices | None = None) -> str:
    """Return the answer as one JSON object, in the format of the command in ``answer.query``.

    :param indices: a debugger's numbers of the threads, which each row gets
    """
    if indices is None:
        return format_answer(answer.query, answer)
    key, numbers = indices.key, indices.numbers
    return format_answer(answer.query, answer, lambda row: {key: numbers.get(row.native_thread_id or 0)})
