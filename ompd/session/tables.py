"""Makes a layout table from a file that no process has loaded. The debugger's half reads its debug information, the
runtimes' half chooses the types and fields of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ompd.binary.types.types import flat_members
from ompd.debugger.files.debug_file import DebugFile
from ompd.errors import BadFile, BadInput, LayoutUnavailable, MalformedFile, TypeNotFound, Unsupported
from ompd.runtimes.layout import generate, second_reader, table
from ompd.safety.child import GivenUp


def add(path: str, name: str | None = None, runtime: str | None = None) -> tuple[table.Table, list[str]]:
    """Make a layout table from a runtime's debug information, and write it into the user's folder.

    :param path: the runtime's own file, or its separate debug file
    :param name: name of the table and of the runtime's release; if None, the file gives it
    :param runtime: one of :data:`generate.FAMILIES`; if None, the types in the file decide
    :returns: the table, and notes about it for the user
    :raises BadFile: if the file is of the wrong kind, or damaged, or the table cannot be written
    :raises BadInput: if a shipped table has the same name
    :raises LayoutUnavailable: if the debug information is missing, of no known runtime, or lacks a type
    """
    file = DebugFile(path)
    try:
        return _add(file, path, name, runtime)
    except MalformedFile as error:
        raise BadFile(path, f"has damaged debug information: {error}") from error


def _add(file: DebugFile, path: str, name: str | None, runtime: str | None) -> tuple[table.Table, list[str]]:
    runtime = runtime if runtime is not None else _runtime_of(file)
    family = generate.FAMILIES[runtime]
    structs = {type_name: shape for type_name in family.types if (shape := _shape(file, family, type_name)) is not None}
    telling = file.types.find(family.telling)
    producer, folder = file.compiler(telling) if telling is not None else ("", "")
    release = generate.release_of(runtime, producer, folder, file.intels_version() if runtime == "libomp" else None)
    base = Path(path).name
    build_id = file.build_id
    label = name if name is not None else release or base
    chosen = generate.file_name(runtime, [name or "", build_id[:12] if build_id is not None else base])
    if any(shipped.name == chosen for shipped in table.shipped_tables()):
        raise BadInput(f"{chosen} is the name of a shipped table", hint="--name gives it another one")
    readers, notes = _read_again(file, family, structs)
    layout_table = generate.make(
        runtime,
        releases=[label],
        architecture=file.architecture,
        provenance=f"DWARF of {base}, {readers}" + (f" ({producer})" if producer else ""),
        build_ids={build_id: f"{base}, {label}, {file.architecture}"} if build_id is not None else {},
        exported=file.exported(generate.telling_exports(runtime)),
        structs=structs,
    )
    written, was_there = generate.store(chosen, layout_table)
    if was_there:
        notes.append(f"it takes the place of the table of that name that was in {written.path}")
    if build_id is None:
        notes.append(f"{path} has no build-id, so the table cannot be matched to a file by itself")
    return written, notes


def _read_again(
    file: DebugFile, family: generate.Family, structs: Mapping[str, generate.Shape]
) -> tuple[str, list[str]]:
    # Returns a text about the readers of the debug information, for the table's provenance, and notes for the user.
    # Raises LayoutUnavailable if the readers disagree.
    type_names = {name: [name, *([family.aliases[name]] if name in family.aliases else [])] for name in family.types}
    try:
        version, shapes = second_reader.read(file.debug_path, type_names, generate.is_wanted)
    except GivenUp as error:
        return "one reader", [f"the table is from one reader: pyelftools has not read {file.debug_path}: {error}"]
    for name in family.types:
        differing = _difference(name, structs.get(name), shapes[name])
        if differing is not None:
            raise LayoutUnavailable(
                f"the debug information of {file.path} is read differently by ompd and by pyelftools: {differing}",
                hint="no table is written; please report it, with the file if you may",
            )
    return f"two readers that agree, ompd's own and pyelftools {version}", []


def _difference(name: str, ours: generate.Shape | None, shapes: Sequence[generate.Shape]) -> str | None:
    if ours is None:  # an optional type; ompd takes none if several types have its name
        return f"{name} is missing, and is there" if len(shapes) == 1 else None
    if not shapes:
        return f"{name} is there, and is missing"
    for size, fields in shapes:
        if size != ours[0]:
            return f"{name} has {ours[0]} bytes, and {size}"
        for member in sorted({*fields, *ours[1]}):
            our_member, other_member = (list(members.get(member, ())) for members in (ours[1], fields))
            if our_member != other_member:
                return f"{name}.{member} is {our_member or 'missing'}, and {other_member or 'missing'}"
    return None


def _runtime_of(file: DebugFile) -> str:
    runtimes = [runtime for runtime, family in generate.FAMILIES.items() if _has(file, family.telling)]
    if not runtimes:
        types = ", ".join(f"{family.telling} ({runtime})" for runtime, family in generate.FAMILIES.items())
        raise LayoutUnavailable(
            f"the debug information of {file.path} is not that of a known runtime: it has none of {types}"
        )
    if len(runtimes) > 1:
        raise LayoutUnavailable(
            f"the debug information of {file.path} is of {' and '.join(runtimes)}", hint="choose one with --runtime"
        )
    return runtimes[0]


def _has(file: DebugFile, type_name: str) -> bool:
    try:
        return file.types.find(type_name) is not None
    except TypeNotFound:
        return True  # several types have this name


def _shape(file: DebugFile, family: generate.Family, type_name: str) -> generate.Shape | None:
    # None for an optional type that this build lacks, or whose name is ambiguous.
    try:
        dwarf_type = file.types.find(type_name)
        if dwarf_type is None and type_name in family.aliases:
            dwarf_type = file.types.find(family.aliases[type_name])
        if dwarf_type is not None:
            members = flat_members(file.types, dwarf_type, generate.is_wanted)
            return dwarf_type.size, {
                member.path: [member.offset, member.size]
                + ([] if member.bits is None else [member.first_bit or 0, member.bits])
                for member in members
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
