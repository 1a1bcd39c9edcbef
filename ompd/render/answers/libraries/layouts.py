"""``layout show``: the tables of layouts as a table, and one of them as lines."""

from __future__ import annotations

from collections.abc import Iterator

from ompd.model.layouts import LayoutAnswer, LayoutRecord, MemberRecord
from ompd.render.words import NONE, Line, Table, clean, format_count


def layouts_table(answer: LayoutAnswer) -> Table:
    """Return a row for each known table."""
    titles = ("NAME", "RUNTIME", "RELEASES", "ARCHITECTURES", "BUILD-IDS", "FROM")
    lines = (
        Line(
            (
                clean(row.name),
                clean(row.runtime),
                clean(", ".join(row.releases)),
                clean(", ".join(row.architectures)),
                str(len(row.build_ids)),
                "shipped" if row.origin == "shipped" else "the user's folder",
            )
        )
        for row in answer.rows
    )
    return Table(titles, tuple(lines))


def notes(answer: LayoutAnswer, *, verbose: bool) -> Iterator[str]:
    """Yield the origins of the tables, each once; if *verbose*, also build-ids and files."""
    made: dict[str, list[str]] = {}
    for row in answer.rows:
        made.setdefault(row.provenance, []).append(row.name)
    for provenance, names in made.items():
        yield clean(f"{', '.join(names)}: {provenance}")
    for row in answer.rows if verbose else ():
        for build_id, what in row.build_ids.items():
            yield clean(f"{row.name}: build-id {build_id}: {what}")
        if row.origin != "shipped":
            yield clean(f"{row.name}: file {row.file}")


def layout_lines(answer: LayoutAnswer) -> Iterator[str]:
    """Yield lines about one table, then a block of lines for each of its structures."""
    for row in answer.rows:
        yield clean(f"{row.name}   {row.runtime}")
        yield clean(f"  releases       {', '.join(row.releases)}")
        yield clean(f"  architectures  {', '.join(row.architectures)}")
        yield f"  build-ids      {len(row.build_ids) or NONE}"
        for build_id, what in row.build_ids.items():
            yield clean(f"    {build_id}  {what}")
        if row.has_exports or row.lacks_exports:
            yield clean(f"  exports        {', '.join(row.has_exports) or NONE}")
            yield clean(f"  exports not    {', '.join(row.lacks_exports) or NONE}")
        yield clean(f"  provenance     {row.provenance}")
        yield clean(f"  file           {row.file}")
    for struct in answer.structs or ():
        yield ""
        yield clean(f"{struct.name}   {format_count(struct.size, 'byte')}")
        yield from (_member_line(member) for member in struct.members)


def _member_line(member: MemberRecord) -> str:
    if member.bits is None:
        return clean(f"{member.offset:>8}  {member.size:>8}  {member.name}")
    return clean(f"{f'{member.offset}:{member.first_bit}':>8}  {format_count(member.bits, 'bit'):>8}  {member.name}")


def describe_layout(layout: LayoutRecord, structs: int) -> str:
    """Return a text about the table of layouts that was written."""
    parts = (layout.name, layout.runtime, ", ".join(layout.releases), ", ".join(layout.architectures))
    build_ids = ", ".join(layout.build_ids) or NONE
    lines = [
        "   ".join((*parts, format_count(structs, "structure"))),
        f"  file           {layout.file}",
        f"  build-id       {build_ids}",
    ]
    return "\n".join(map(clean, lines))
