"""Where the fields of the runtime's structures lie: what it publishes, else debug information of it, else a table.

A stripped library has neither constants nor debug information. Its table is chosen by its build-id, where that is one
of a file that the table is known to fit; else by what it exports, and then only if the state of the process, read by
that table, does not contradict itself (:mod:`ompd.runtimes.libomp.layout.proof`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ompd.contract.memory import StructLayout
from ompd.contract.process import Module, Process
from ompd.errors import (
    CorruptState,
    LayoutUnavailable,
    MemoryFault,
    NotInitialised,
    OmpdError,
    TypeNotFound,
    Unavailable,
    Unsupported,
)
from ompd.records import record
from ompd.runtimes.layout import dwarf, published, selfdescribed
from ompd.runtimes.layout.table import Table, tables
from ompd.runtimes.libomp.layout import proof
from ompd.runtimes.libomp.layout.image import ThreadTable, Variables, find_again, find_threads
from ompd.runtimes.libomp.layout.names import defined_as

# Releases are distinguished by names that they export first; those of other runtimes' tables are not libomp's.
_RUNTIME = "libomp"


@record
class Stripped:
    """What stands in for a stripped runtime's symbols: the *table* that fits, how that is known, its threads and its
    variables.
    """

    table: Table
    how: str
    threads: ThreadTable
    variables: Variables


@record
class Known:
    """The layouts of the structures that were asked for; *stripped* is None for a runtime with symbols."""

    layouts: dict[str, StructLayout]
    stripped: Stripped | None


def load(process: Process, module: Module, wanted: Mapping[str, Sequence[str]]) -> Known:
    """Return the layouts of the structures and members *wanted*.

    :raises LayoutUnavailable: if nothing tells them
    :raises NotInitialised: if the runtime has no state yet
    """
    try:
        return Known(_published(process, module, wanted), None)
    except LayoutUnavailable as error:
        untold = error
    try:
        return Known(_from_debug_information(process, module, wanted), None)
    except (LayoutUnavailable, TypeNotFound):
        pass
    stripped = _prove(process, module, str(untold))
    return Known({name: of_table(stripped.table, name, members) for name, members in wanted.items()}, stripped)


def _published(process: Process, module: Module, wanted: Mapping[str, Sequence[str]]) -> dict[str, StructLayout]:
    # Members of which the runtime says something else where it describes itself are not believed.
    layouts = published.load(process, module, wanted)
    try:
        wrong = selfdescribed.contradictions(layouts, selfdescribed.load(process, module))
    except (LayoutUnavailable, CorruptState):
        return layouts
    address = selfdescribed.address_in(process, module)
    assert address is not None  # it has been read
    return {
        name: layout.without({member: (address, text) for member, text in wrong.get(name, {}).items()})
        for name, layout in layouts.items()
    }


def of_table(table: Table, name: str, members: Sequence[str]) -> StructLayout:
    """Return what *table* has of the structure that this plugin calls *name*.

    :raises LayoutUnavailable: if it has nothing of it
    """
    return replace(table.layout(defined_as(name), [member.removeprefix(":") for member in members]), name=name)


def _from_debug_information(
    process: Process, module: Module, wanted: Mapping[str, Sequence[str]]
) -> dict[str, StructLayout]:
    members = {
        name: (defined_as(name), [member.removeprefix(":") for member in names]) for name, names in wanted.items()
    }
    return dwarf.load(process, module, members)


@record
class _Proven:
    """What was proven of a runtime at an earlier stop."""

    table: Table
    how: str
    threads: ThreadTable
    is_build_known: bool


def _prove(process: Process, module: Module, untold: str) -> Stripped:
    key = _RUNTIME, module.start
    earlier = process.lasting.get(key)
    if isinstance(earlier, _Proven):
        with suppress(OmpdError):
            variables = Variables(process, module)
            threads = find_again(variables, earlier.table, earlier.threads, is_proven=earlier.is_build_known)
            return Stripped(earlier.table, earlier.how, threads, variables)
    found = _prove_anew(process, module, untold)
    is_build_known = module.build_id is not None and module.build_id in found.table.build_ids
    process.lasting[key] = _Proven(found.table, found.how, found.threads, is_build_known)
    return found


def _prove_anew(process: Process, module: Module, untold: str) -> Stripped:
    known = list(tables(_RUNTIME, process.architecture_name))
    by_build_id = [table for table in known if module.build_id is not None and module.build_id in table.build_ids]
    likely = by_build_id or [table for table in known if _exports_fit(process, module, table)]
    said: list[str] = [] if likely else [_nothing_fits(module, known, process.architecture_name)]
    proven: list[Stripped] = []
    variables = Variables(process, module)
    try:
        variables.pointers()  # or say why there are none
        for table in likely:
            try:
                proven.append(_try(process, module, table, variables, is_build_known=bool(by_build_id)))
            except NotInitialised:
                raise
            except LayoutUnavailable as error:
                said.append(f"layout {table.name}: {error}")
    except (MemoryFault, Unavailable) as error:
        if isinstance(error, NotInitialised):
            raise
        said.append(str(error))
    if len(proven) == 1:
        return proven[0]
    if proven:
        said.append(f"{' and '.join(each.table.name for each in proven)} both fit")
    raise LayoutUnavailable(
        f"{untold}, nor has it debug information; {'; '.join(said)}",
        hint="install the runtime's debug symbols, or name their folder with --debug-dir",
    )


def _exports_fit(process: Process, module: Module, table: Table) -> bool:
    found = process.symbols_in(module, [*table.has_exports, *table.lacks_exports])
    return all(name in found for name in table.has_exports) and not any(name in found for name in table.lacks_exports)


def _nothing_fits(module: Module, known: Sequence[Table], architecture: str) -> str:
    if not known:
        return f"there are no layouts of {_RUNTIME} for {architecture}"
    releases = ", ".join(release for table in known for release in table.releases)
    return f"what it exports is not what {releases} export, whose layouts are known"


def _try(process: Process, module: Module, table: Table, variables: Variables, *, is_build_known: bool) -> Stripped:
    _check_self_description(process, module, table)
    try:
        threads = find_threads(variables, table, is_proven=is_build_known)
    except NotInitialised:
        raise
    except OmpdError as error:
        raise LayoutUnavailable(str(error)) from error
    if is_build_known:
        return Stripped(table, f"build-id of {table.build_ids[str(module.build_id)]}", threads, variables)
    return Stripped(table, "; ".join(_proofs(process, module, table, threads)), threads, variables)


def _check_self_description(process: Process, module: Module, table: Table) -> None:
    # Intel's runtime exports the names of some release of LLVM's, whose layouts it does not share.
    try:
        told = selfdescribed.load(process, module)
    except LayoutUnavailable:
        return
    except OmpdError as error:
        raise LayoutUnavailable(f"the runtime's description of itself cannot be read: {error}") from error
    known = {
        name: of_table(table, name, list(layout.fields))
        for name, layout in told.items()
        if defined_as(name) in table.structs
    }
    for wrong in selfdescribed.contradictions(known, told).values():
        raise LayoutUnavailable(f"the runtime's description of itself contradicts it: {next(iter(wrong.values()))}")


def _proofs(process: Process, module: Module, table: Table, threads: ThreadTable) -> Iterator[str]:
    finding = proof.examine(process, table, threads)
    if finding.contradiction is not None:
        raise LayoutUnavailable(
            f"the runtime's structures contradict it: {finding.contradiction}"
            f" ({finding.agreed} other statements agree with it)"
        )
    yield "exported names"
    yield f"{finding.agreed} statements of the runtime's structures"
    try:
        wrong = proof.trace(process, module, table, threads)
    except (Unavailable, Unsupported) as error:
        yield f"not its own code: {error}"
        return
    if wrong is not None:
        raise LayoutUnavailable(f"the runtime's own code contradicts it: {wrong}")
    yield "what its own code reads"
