"""``layout``: the known tables of structure layouts, and a new one from a file's debug information."""

from __future__ import annotations

from pathlib import Path

from ompd.contract.memory import StructLayout
from ompd.errors import BadInput
from ompd.model.layouts import LayoutAnswer, LayoutRecord, MemberRecord, StructRecord
from ompd.runtimes.layout import table
from ompd.session import tables


def known(name: str | None = None) -> LayoutAnswer:
    """Return the known tables, the shipped ones first; or one of them with its contents.

    :param name: a table's name, as this function returns it; of two with one name the user's own
    :raises BadInput: if there is no table with that name
    :raises BadFile: if a shipped table is damaged
    """
    shipped, (users, faults) = table.shipped_tables(), table.user_tables()
    warnings = tuple(map(str, faults))
    if name is None:
        return LayoutAnswer(tuple(map(_record, [*shipped, *users])), None, not faults, warnings)
    chosen = next((candidate for candidate in [*users, *shipped] if candidate.name == name), None)
    if chosen is None:
        about = next((f": {fault}" for fault in faults if Path(fault.path).stem == name), "")
        raise BadInput(f"no table with the name {name!r}{about}", hint="`ompd layout show` lists the tables")
    # Faults of other tables in the folder do not matter here.
    return LayoutAnswer((_record(chosen),), tuple(map(_struct, chosen.structs.values())), True, ())


def add(path: str, name: str | None = None, runtime: str | None = None) -> LayoutAnswer:
    """Make a table from the debug information of a runtime, write it into the user's folder, and return it; see
    :func:`ompd.session.tables.add`.
    """
    written, notes = tables.add(path, name, runtime)
    return LayoutAnswer((_record(written),), tuple(map(_struct, written.structs.values())), True, tuple(notes))


def _record(table_: table.Table) -> LayoutRecord:
    return LayoutRecord(
        name=table_.name,
        runtime=table_.runtime,
        origin="shipped" if table_.is_shipped else "user",
        file=str(table_.path),
        releases=table_.releases,
        architectures=table_.architectures,
        build_ids=table_.build_ids,
        has_exports=table_.has_exports,
        lacks_exports=table_.lacks_exports,
        provenance=table_.provenance,
    )


def _struct(layout: StructLayout) -> StructRecord:
    members = [MemberRecord(name, where.offset, where.size) for name, where in layout.fields.items()]
    for name, mask in layout.masks.items():
        start = (mask & -mask).bit_length() - 1
        bits = mask.bit_length() - start
        members.append(MemberRecord(name, start // 8, -(-(start % 8 + bits) // 8), start % 8, bits))
    members.sort(key=lambda member: (member.offset, member.first_bit or 0, -member.size, member.name))
    return StructRecord(layout.name, layout.size or 0, tuple(members))
