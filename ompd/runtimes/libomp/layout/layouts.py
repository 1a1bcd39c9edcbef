"""Layouts of the structures that OMPD publishes: from the runtime itself, from debug information, or from a table.

A stripped library has neither constants nor debug information. Tables list the build-ids of the files that they fit. If
no table has the library's build-id, the names that the library exports select a table. That table is used only if the
runtime's structures, read at its offsets, do not contradict each other (:mod:`ompd.runtimes.libomp.layout.proof`).
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

# The kind of runtime whose tables are used.
_RUNTIME = "libomp"

# The members to read of each structure that OMPD publishes, by the names of kmp.h and ompt-internal.h.
_PUBLISHED: Mapping[str, Sequence[str]] = {
    "kmp_info_t": ("th",),
    "kmp_base_info_t": ("th_info", "th_team", "th_current_task", "ompt_thread_info"),
    "kmp_desc_t": ("ds",),
    "kmp_desc_base_t": ("ds_thread", "ds_tid"),
    "ompt_thread_info_t": ("state", "wait_id", "thread_data"),
    "kmp_team_p": ("t",),
    "kmp_base_team_t": (
        "t_parent",
        "t_nproc",
        "t_threads",
        "t_level",
        "t_active_level",
        "t_pkfn",
        "t_implicit_task_taskdata",
        "ompt_team_info",
        "ompt_serialized_team_info",
    ),
    "kmp_taskdata_t": ("td_flags", "td_icvs", "td_team", "td_parent", "ompt_task_info"),
    "kmp_tasking_flags_t": (
        ":tiedness",
        ":final",
        ":tasktype",
        ":task_serial",
        ":tasking_ser",
        ":team_serial",
        ":started",
        ":executing",
        ":complete",
        ":freed",
        ":native",
    ),
    "kmp_task_t": ("routine",),
    "kmp_internal_control_t": (
        "dynamic",
        "nproc",
        "thread_limit",
        "max_active_levels",
        "sched",
        "proc_bind",
        "default_device",
    ),
    "kmp_r_sched_t": ("r_sched_type", "chunk"),
    "kmp_nested_nthreads_t": ("used", "size", "nth"),
    "kmp_nested_proc_bind_t": ("used", "size", "bind_types"),
    "ompt_task_info_t": ("frame", "scheduling_parent", "task_data"),
    "ompt_team_info_t": ("parallel_data",),
    "ompt_frame_t": ("exit_frame", "enter_frame"),
    "ompt_lw_taskteam_t": ("parent", "ompt_team_info", "ompt_task_info"),
}

# Names of types in the runtime's sources, in OMPD's constants and in this plugin, with the names under which the types
# are defined, which debug information and tables have.
_DEFINED_AS: Mapping[str, str] = {
    "ident_t": "ident",
    "kmp_base_drdpa_lock_t": "kmp_base_drdpa_lock",
    "kmp_base_info_t": "kmp_base_info",
    "kmp_base_queuing_lock_t": "kmp_base_queuing_lock",
    "kmp_base_root_t": "kmp_base_root",
    "kmp_base_task_team_t": "kmp_base_task_team",
    "kmp_base_team_t": "kmp_base_team",
    "kmp_base_ticket_lock_t": "kmp_base_ticket_lock",
    "kmp_desc_base_t": "kmp_desc_base",
    "kmp_desc_t": "kmp_desc",
    "kmp_info_t": "kmp_info",
    "kmp_internal_control_t": "kmp_internal_control",
    "kmp_r_sched_t": "kmp_r_sched",
    "kmp_task_t": "kmp_task",
    "kmp_taskdata_t": "kmp_taskdata",
    "kmp_tasking_flags_t": "kmp_tasking_flags",
    "kmp_team_p": "kmp_team",
    "kmp_thread_data_t": "kmp_base_thread_data",
    "ompt_lw_taskteam_t": "ompt_lw_taskteam_s",
}


def defined_as(name: str) -> str:
    """Return the name in debug information and tables of the type that this plugin calls *name*."""
    return _DEFINED_AS.get(name, name)


@record
class Stripped:
    """Facts that replace the symbols of a stripped runtime: the ``table`` that fits, the proof that it fits (``how``),
    and the runtime's threads and variables.
    """

    table: Table
    how: str
    threads: ThreadTable
    variables: Variables


@record
class Loaded:
    """The layouts of the structures that OMPD publishes. ``stripped`` is None for a runtime with symbols."""

    layouts: dict[str, StructLayout]
    stripped: Stripped | None


def load(process: Process, module: Module) -> Loaded:
    """Return the layouts of the structures that OMPD publishes, from the first source that has them.

    :raises LayoutUnavailable: if no source has the layouts
    :raises NotInitialised: if the runtime has no state yet
    """
    try:
        return Loaded(_published(process, module), None)
    except LayoutUnavailable as error:
        reason = str(error)
    try:
        return Loaded(_from_debug_information(process, module), None)
    except (LayoutUnavailable, TypeNotFound):
        pass
    stripped = _prove(process, module, reason)
    return Loaded({name: of_table(stripped.table, name, members) for name, members in _PUBLISHED.items()}, stripped)


def _published(process: Process, module: Module) -> dict[str, StructLayout]:
    # Members that the runtime's self-description contradicts are left out.
    layouts = published.load(process, module, _PUBLISHED)
    try:
        wrong = selfdescribed.contradictions(layouts, selfdescribed.load(process, module))
    except (LayoutUnavailable, CorruptState):
        return layouts
    address = selfdescribed.address_in(process, module)
    assert address is not None  # the description has been read
    return {
        name: layout.without({member: (address, text) for member, text in wrong.get(name, {}).items()})
        for name, layout in layouts.items()
    }


def of_table(table: Table, name: str, members: Sequence[str]) -> StructLayout:
    """Return the layout in *table* of the structure that this plugin calls *name*.

    :raises LayoutUnavailable: if the table does not have the structure
    """
    return replace(table.layout(defined_as(name), [member.removeprefix(":") for member in members]), name=name)


def _from_debug_information(process: Process, module: Module) -> dict[str, StructLayout]:
    members = {
        name: (defined_as(name), [member.removeprefix(":") for member in names]) for name, names in _PUBLISHED.items()
    }
    return dwarf.load(process, module, members)


@record
class _Proven:
    """The table of layouts that was proven at an earlier stop, and the threads that were found with it."""

    table: Table
    how: str
    threads: ThreadTable
    is_build_known: bool


def _prove(process: Process, module: Module, reason: str) -> Stripped:
    key = _RUNTIME, module.start
    earlier = process.lasting.get(key)
    if isinstance(earlier, _Proven):
        with suppress(OmpdError):
            variables = Variables(process, module)
            threads = find_again(variables, earlier.table, earlier.threads, is_proven=earlier.is_build_known)
            return Stripped(earlier.table, earlier.how, threads, variables)
    stripped = _prove_anew(process, module, reason)
    is_build_known = module.build_id is not None and module.build_id in stripped.table.build_ids
    process.lasting[key] = _Proven(stripped.table, stripped.how, stripped.threads, is_build_known)
    return stripped


def _prove_anew(process: Process, module: Module, reason: str) -> Stripped:
    candidates = list(tables(_RUNTIME, process.architecture_name))
    by_build_id = [table for table in candidates if module.build_id is not None and module.build_id in table.build_ids]
    likely = by_build_id or [table for table in candidates if _exports_fit(process, module, table)]
    reasons: list[str] = [] if likely else [_nothing_fits(candidates, process.architecture_name)]
    proven: list[Stripped] = []
    variables = Variables(process, module)
    try:
        variables.pointers()  # raises if the variables are too many, or unreadable
        for table in likely:
            try:
                proven.append(_try(process, module, table, variables, is_build_known=bool(by_build_id)))
            except NotInitialised:
                raise
            except LayoutUnavailable as error:
                reasons.append(f"layout {table.name}: {error}")
    except (MemoryFault, Unavailable) as error:
        if isinstance(error, NotInitialised):
            raise
        reasons.append(str(error))
    if len(proven) == 1:
        return proven[0]
    if proven:
        reasons.append(f"{' and '.join(candidate.table.name for candidate in proven)} both fit")
    raise LayoutUnavailable(
        f"{reason}, nor has it debug information; {'; '.join(reasons)}",
        hint="install the runtime's debug symbols, or name their folder with --debug-dir",
    )


def _exports_fit(process: Process, module: Module, table: Table) -> bool:
    exported = process.symbols_in(module, [*table.has_exports, *table.lacks_exports])
    has_all = all(name in exported for name in table.has_exports)
    return has_all and not any(name in exported for name in table.lacks_exports)


def _nothing_fits(candidates: Sequence[Table], architecture: str) -> str:
    if not candidates:
        return f"there are no layouts of {_RUNTIME} for {architecture}"
    releases = ", ".join(release for table in candidates for release in table.releases)
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
    # The exported names do not suffice to choose a table: Intel's runtime exports the same names as a release of
    # LLVM's, but has other layouts.
    try:
        described = selfdescribed.load(process, module)
    except LayoutUnavailable:
        return
    except OmpdError as error:
        raise LayoutUnavailable(f"the runtime's description of itself cannot be read: {error}") from error
    by_table = {
        name: of_table(table, name, list(layout.fields))
        for name, layout in described.items()
        if defined_as(name) in table.structs
    }
    for wrong in selfdescribed.contradictions(by_table, described).values():
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
