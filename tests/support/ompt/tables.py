"""Enumerations with the numbers and names of a document."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag

from ompd.records import record


@record
class Enumeration:
    """A C enumeration and the numbers of its names.

    ``members`` has the names in capitals without ``prefix``. ``others`` has members whose C names have another prefix,
    by C name.
    """

    prefix: str
    members: type[IntEnum] | type[IntFlag]
    others: Mapping[str, IntEnum | IntFlag]

    def numbers(self) -> dict[str, int]:
        """Return the number of each C name in the document's order, including second names of a number."""
        other_names = {member: name for name, member in self.others.items()}
        return {
            other_names.get(member, f"{self.prefix}{name.lower()}"): int(member)
            for name, member in self.members.__members__.items()
        }


def enumeration(
    prefix: str, members: type[IntEnum] | type[IntFlag], others: Mapping[str, IntEnum | IntFlag] | None = None
) -> Enumeration:
    """Return the enumeration of *members*, whose C names have *prefix* except for *others*."""
    return Enumeration(prefix, members, others or {})
