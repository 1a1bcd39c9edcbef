"""Collects the findings about one area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.model.findings import FindingRecord, LoadChain

SEVERITIES = ("error", "warning", "note")


class Report:
    """The findings about one area: ``rows`` about faults, and texts about things that are ``in_order``.

    :param area: the area, as in :class:`ompd.model.FindingRecord`
    """

    def __init__(self, area: str) -> None:
        self.area = area
        self.rows: list[FindingRecord] = []
        self.in_order: list[str] = []

    def add(
        self,
        kind: str,
        severity: str,
        subject: str,
        finding: str | None,
        consequence: str,
        remedy: str | None,
        *,
        chains: Sequence[LoadChain] = (),
        unavailable: Mapping[str, str] | None = None,
    ) -> None:
        """Add a finding as a row."""
        self.rows.append(
            FindingRecord(
                kind=kind,
                severity=severity,
                subject=subject,
                finding=finding,
                consequence=consequence,
                remedy=remedy,
                area=self.area,
                chains=tuple(chains),
                unavailable=unavailable or {},
            )
        )

    def unknown(self, kind: str, subject: str, why: str, consequence: str, remedy: str | None = None) -> None:
        """Add a row about something that could not be examined."""
        self.add(kind, "note", subject, None, consequence, remedy, unavailable={"finding": why})

    def fine(self, what: str) -> None:
        """Add a text about something that was examined and is in order."""
        self.in_order.append(what)
