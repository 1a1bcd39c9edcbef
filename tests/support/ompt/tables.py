"""How the numbers of a document are kept: enumerations with the document's own names, found by those of C."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag

from ompd.records import record


@record
class Enumeration:
    """An enumeration of C and the numbers that its names have.

    ``members`` has the names in capitals and without ``prefix``. ``others`` are members whose names in C have another
    prefix, by these names.
    """

    prefix: str
    members: type[IntEnum] | type[IntFlag]
    others: Mapping[str, IntEnum | IntFlag]

    def numbers(self) -> dict[str, int]:
        """Return the number of each name in C, second names of a number included, in the document's order."""
        other_names = {member: name for name, member in self.others.items()}
        return {
            other_names.get(member, f"{self.prefix}{name.lower()}"): int(member)
            for name, member in self.members.__members__.items()
        }


def enumeration(
    prefix: str, members: type[IntEnum] | type[IntFlag], others: Mapping[str, IntEnum | IntFlag] | None = None
) -> Enumeration:
    """Return the enumeration of *members*, whose names in C have *prefix*, but for *others*."""
    return Enumeration(prefix, members, others or {})
