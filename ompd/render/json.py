"""Answers as JSON, which records can write themselves, so that it is in :mod:`ompd.model.json`."""

from ompd.model.json import format_answer as format_answer
from ompd.model.json import format_conformance as format_conformance
from ompd.model.json import format_layouts as format_layouts
from ompd.model.json import format_snapshot as format_snapshot
from ompd.model.json import format_triage as format_triage
