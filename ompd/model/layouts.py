"""Records of ``ompd layout``: layouts of runtimes' structures, independent of any target."""

from __future__ import annotations

from collections.abc import Mapping

from ompd.records import record


@record
class LayoutRecord:
    """A table of the layouts of a runtime's structures, for stripped runtimes.

    ``name`` is taken from the name of the table's ``file``. ``origin`` is ``shipped`` or ``user``. ``releases`` are the
    runtime's releases with these layouts, ``architectures`` the processors, by the psABI's names. ``build_ids`` maps
    build-ids of files with these layouts to descriptions of the files. The releases export ``has_exports`` and do not
    export ``lacks_exports``. ``provenance`` describes how the table was generated.
    """

    name: str
    runtime: str
    origin: str
    file: str
    releases: tuple[str, ...]
    architectures: tuple[str, ...]
    build_ids: Mapping[str, str]
    has_exports: tuple[str, ...]
    lacks_exports: tuple[str, ...]
    provenance: str


@record
class MemberRecord:
    """A member of a structure, or of a structure within it; names are joined by dots.

    ``offset`` from the structure's start and ``size`` are in bytes. For a bit field they describe the bytes that
    contain it. The field has ``bits`` bits from ``first_bit`` on, counted from the least significant bit of the first
    byte. Both are None for other members.
    """

    name: str
    offset: int
    size: int
    first_bit: int | None = None
    bits: int | None = None


@record
class StructRecord:
    """A structure of a runtime: the type's name, its size in bytes, and its members in the order of their offsets."""

    name: str
    size: int
    members: tuple[MemberRecord, ...]


@record
class LayoutAnswer:
    """The known tables of layouts. If one was requested by name, ``structs`` is its contents, else None.

    ``warnings`` name the files that were left out. ``complete`` is then False.
    """

    rows: tuple[LayoutRecord, ...]
    structs: tuple[StructRecord, ...] | None
    complete: bool
    warnings: tuple[str, ...]
