"""``layout``: the known tables of structure layouts, and a new one from a file's debug information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ompd.contract.memory import StructLayout
from ompd.debugger.files.debug_file import DebugFile
from ompd.errors import BadFile, BadInput, LayoutUnavailable, MalformedFile, TypeNotFound, Unsupported
from ompd.model.layouts import LayoutAnswer, LayoutRecord, MemberRecord, StructRecord
from ompd.runtimes.layout import generate, second_reader, table
from ompd.safety.child import GivenUp


def known(name: str | None = None) -> LayoutAnswer:
    """Return the known tables, the shipped ones first; or one of them with its contents.

    :param name: a table's name, as this function returns it; of two with one name the user's own
    :raises BadInput: if there is no table with that name
    :raises BadFile: if a shipped table is damaged
    """
    shipped, (own, faults) = table.shipped_tables(), table.user_tables()
    warnings = tuple(map(str, faults))
    if name is None:
        return LayoutAnswer(tuple(map(_record, [*shipped, *own])), None, not faults, warnings)
    found = next((each for each in [*own, *shipped] if each.name == name), None)
    if found is None:
        about = next((f": {fault}" for fault in faults if Path(fault.path).stem == name), "")
        raise BadInput(f"no table with the name {name!r}{about}", hint="`ompd layout show` lists the tables")
    # What else is in the folder is not what was requested.
    return LayoutAnswer((_record(found),), tuple(map(_struct, found.structs.values())), True, ())


def add(path: str, name: str | None = None, runtime: str | None = None) -> LayoutAnswer:
    """Make a table from the debug information of a runtime, write it into the user's folder, and return it.

    :param path: the runtime's own file, or its separate debug file
    :param name: name of the table and of the runtime's release, None: read from the file
    :param runtime: one of :data:`generate.FAMILIES`, None: the one whose types are there
    :raises BadFile: if the file is of the wrong kind, or damaged, or the table cannot be written
    :raises BadInput: if the table's name is that of a shipped one
    :raises LayoutUnavailable: if the debug information is missing, of no known runtime, or lacks a type
    """
    file = DebugFile(path)
    try:
        return _add(file, path, name, runtime)
    except MalformedFile as error:
        raise BadFile(path, f"has damaged debug information: {error}") from error


def _add(file: DebugFile, path: str, name: str | None, runtime: str | None) -> LayoutAnswer:
    runtime = runtime if runtime is not None else _runtime_of(file)
    family = generate.FAMILIES[runtime]
    structs = {type_name: shape for type_name in family.types if (shape := _shape(file, family, type_name)) is not None}
    telling = file.find(family.telling)
    producer, folder = file.compiler(telling) if telling is not None else ("", "")
    release = generate.release_of(runtime, producer, folder, file.intels_version() if runtime == "libomp" else None)
    base = Path(path).name
    build_id = file.build_id
    label = name if name is not None else release or base
    chosen = generate.file_name(runtime, [name or "", build_id[:12] if build_id is not None else base])
    if any(each.name == chosen for each in table.shipped_tables()):
        raise BadInput(f"{chosen} is the name of a shipped table", hint="--name gives it another one")
    readers, notes = _read_again(file, family, structs)
    told = generate.make(
        runtime,
        releases=[label],
        architecture=file.architecture,
        provenance=f"DWARF of {base}, {readers}" + (f" ({producer})" if producer else ""),
        build_ids={build_id: f"{base}, {label}, {file.architecture}"} if build_id is not None else {},
        exported=file.exported(generate.telling_exports(runtime)),
        structs=structs,
    )
    written, was_there = generate.store(chosen, told)
    if was_there:
        notes.append(f"it takes the place of the table of that name that was in {written.path}")
    if build_id is None:
        notes.append(f"{path} has no build-id, so the table cannot be matched to a file by itself")
    return LayoutAnswer((_record(written),), tuple(map(_struct, written.structs.values())), True, tuple(notes))


def _read_again(
    file: DebugFile, family: generate.Family, structs: Mapping[str, generate.Shape]
) -> tuple[str, list[str]]:
    # Who has read it, for the table; and what the user has to know of that. Raises LayoutUnavailable if they disagree.
    wanted = {name: [name, *([family.aliases[name]] if name in family.aliases else [])] for name in family.types}
    try:
        version, found = second_reader.read(file.debug_path, wanted, generate.is_wanted)
    except GivenUp as error:
        return "one reader", [f"the table is from one reader: pyelftools has not read {file.debug_path}: {error}"]
    for name in family.types:
        differing = _difference(name, structs.get(name), found[name])
        if differing is not None:
            raise LayoutUnavailable(
                f"the debug information of {file.path} is read differently by ompd and by pyelftools: {differing}",
                hint="no table is written; please report it, with the file if you may",
            )
    return f"two readers that agree, ompd's own and pyelftools {version}", []


def _difference(name: str, ours: generate.Shape | None, found: Sequence[generate.Shape]) -> str | None:
    if ours is None:  # one that is in some builds only; of several with the name none is taken
        return f"{name} is missing, and is there" if len(found) == 1 else None
    if not found:
        return f"{name} is there, and is missing"
    for size, fields in found:
        if size != ours[0]:
            return f"{name} has {ours[0]} bytes, and {size}"
        for member in sorted({*fields, *ours[1]}):
            first, second = (list(each.get(member, ())) for each in (ours[1], fields))
            if first != second:
                return f"{name}.{member} is {first or 'missing'}, and {second or 'missing'}"
    return None


def _runtime_of(file: DebugFile) -> str:
    found = [runtime for runtime, family in generate.FAMILIES.items() if _has(file, family.telling)]
    if not found:
        types = ", ".join(f"{family.telling} ({runtime})" for runtime, family in generate.FAMILIES.items())
        raise LayoutUnavailable(
            f"the debug information of {file.path} is not that of a known runtime: it has none of {types}"
        )
    if len(found) > 1:
        raise LayoutUnavailable(
            f"the debug information of {file.path} is of {' and '.join(found)}", hint="choose one with --runtime"
        )
    return found[0]


def _has(file: DebugFile, type_name: str) -> bool:
    try:
        return file.find(type_name) is not None
    except TypeNotFound:
        return True  # several


def _shape(file: DebugFile, family: generate.Family, type_name: str) -> generate.Shape | None:
    # None of an optional type that this build does not have, or whose name stands for several there.
    try:
        found = file.find(type_name)
        if found is None and type_name in family.aliases:
            found = file.find(family.aliases[type_name])
        if found is not None:
            members = file.members(found, generate.is_wanted)
            return found.size, {
                each.path: [each.offset, each.size] + ([] if each.bits is None else [each.first_bit or 0, each.bits])
                for each in members
            }
    except (TypeNotFound, Unsupported) as error:
        if type_name not in family.optional:
            raise LayoutUnavailable(
                f"the debug information of {file.path} does not describe {type_name}: {error}"
            ) from error
        return None
    if type_name not in family.optional:
        raise LayoutUnavailable(f"the debug information of {file.path} lacks the type {type_name}")
    return None


def _record(known: table.Table) -> LayoutRecord:
    return LayoutRecord(
        name=known.name,
        runtime=known.runtime,
        origin="shipped" if known.is_shipped else "user",
        file=str(known.path),
        releases=known.releases,
        architectures=known.architectures,
        build_ids=known.build_ids,
        has_exports=known.has_exports,
        lacks_exports=known.lacks_exports,
        provenance=known.provenance,
    )


def _struct(layout: StructLayout) -> StructRecord:
    members = [MemberRecord(name, where.offset, where.size) for name, where in layout.fields.items()]
    for name, mask in layout.masks.items():
        start = (mask & -mask).bit_length() - 1
        bits = mask.bit_length() - start
        members.append(MemberRecord(name, start // 8, -(-(start % 8 + bits) // 8), start % 8, bits))
    members.sort(key=lambda member: (member.offset, member.first_bit or 0, -member.size, member.name))
    return StructRecord(layout.name, layout.size or 0, tuple(members))
