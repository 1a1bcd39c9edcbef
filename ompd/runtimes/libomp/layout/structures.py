"""Layouts of the runtime's structures that OMPD does not publish.

Intel's runtime itself describes many of these structures (:mod:`ompd.runtimes.layout.selfdescribed`). Debug information
of the build describes all of them, and is only read if there is no other source. For a stripped runtime, the layouts
come from the table that was proven to fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.memory import StructLayout, StructView
from ompd.errors import LayoutUnavailable, TypeNotFound
from ompd.runtimes.layout import dwarf, selfdescribed
from ompd.runtimes.libomp.layout.layouts import defined_as, of_table

if TYPE_CHECKING:
    from ompd.contract.helpers.pages import Heap
    from ompd.contract.process import Module, Process
    from ompd.runtimes.libomp.layout.layouts import Loaded

# The members to read of each structure.
_WANTED: Mapping[str, Sequence[str]] = {
    "kmp_base_info_t": ("th_info", "th_ident", "th_next_waiting"),
    "kmp_desc_base_t": ("ds_gtid",),
    "kmp_base_team_t": ("t_ident", "t_task_team"),
    "ident_t": ("psource", "flags"),
    "kmp_base_queuing_lock_t": ("initialized", "tail_id", "head_id", "owner_id"),
    "kmp_base_task_team_t": ("tt_threads_data", "tt_nproc"),
    "kmp_taskdata_t": ("td_ident", "td_taskwait_thread", "td_incomplete_child_tasks"),
    # A union pads this structure to a multiple of a cache line. So the size comes from the union, whose elements are in
    # the runtime's arrays.
    "kmp_thread_data_t": ("td_deque", "td_deque_size", "td_deque_head", "td_deque_ntasks"),
}
_THREAD_DATA = "kmp_thread_data"

# Members that only debug information or a table has. Some of them exist only in some releases.
_HIDDEN: Mapping[str, Sequence[str]] = {
    "kmp_base_team_t.t_argv": ("t_argv", "t_argc"),
    "kmp_base_team_t.t_nested_nth": ("t_nested_nth",),
    "kmp_base_ticket_lock_t": ("initialized", "self", "next_ticket", "now_serving", "owner_id"),
    "kmp_base_drdpa_lock_t": ("initialized", "next_ticket", "now_serving", "owner_id"),
    # Intel's list has a lock and a count before the pointer to the first node. LLVM's list is only that pointer.
    "kmp_base_task_team_t.tt_task_pri_list": ("tt_task_pri_list", "tt_task_pri_list.begin"),
    "kmp_base_task_team_t.tt_threads_lock": ("tt_threads_lock.lk.self",),
    "kmp_task_pri_t": ("td", "next"),
    "kmp_base_info_t.th_pri_head": ("th_pri_head",),
    "kmp_base_info_t.th_dispatch": ("th_dispatch",),
    "kmp_disp": ("th_doacross_flags", "th_doacross_info"),
    "kmp_taskdata_t.td_depnode": (
        "td_depnode",
        "td_dephash",
        "td_allow_completion_event",
        "td_allow_completion_event.type",
        "td_allow_completion_event.ed.task",
    ),
    "kmp_taskdata_t.td_taskgroup": ("td_taskgroup", "td_last_tied"),
    "kmp_taskgroup": ("count",),
    "kmp_tasking_flags_t.proxy": ("proxy", "detachable"),
    "kmp_base_depnode": ("successors", "task", "npredecessors"),
    "kmp_depnode_list": ("node", "next"),
    "kmp_dephash": ("buckets", "size", "last_all"),
    # LLVM 11 distinguishes three kinds of last tasks.
    "kmp_dephash_entry": (
        "addr",
        "last_out",
        "last_set",
        "prev_set",
        "last_ins",
        "last_mtxs",
        "last_flag",
        "next_in_bucket",
    ),
    "kmp_bstate": ("b_arrived", "b_go"),
    "kmp_barrier_union": (),
    "kmp_barrier_team_union": ("b_arrived",),
    "kmp_base_info_t.th_bar": ("th_bar",),
    "kmp_base_team_t.t_bar": ("t_bar",),
    "kmp_base_team_t.b": ("b",),
    "private_common": ("link", "gbl_addr", "par_addr", "cmn_size"),
}

# Structures that are read from any memory, not only from the runtime's heap. The compiler or the user placed some of
# them. At an address that is only suspected to be a lock's, there may be any data.
_ANYWHERE = frozenset(("ident_t", "kmp_base_queuing_lock_t", "kmp_base_ticket_lock_t", "kmp_base_drdpa_lock_t"))


class Structures:
    """The layouts of one runtime. Each is loaded on first use.

    :param loaded: the layouts that OMPD publishes. Members that are rejected in these layouts are also rejected here
    :param heap: the memory of most structures
    """

    def __init__(self, process: Process, module: Module, loaded: Loaded, heap: Heap) -> None:
        self._process = process
        self._heap = heap
        self._module = module
        self._loaded = loaded
        self._layouts: dict[str, StructLayout] = {}
        self._unavailable: dict[str, LayoutUnavailable] = {}

    @cached_property
    def _described(self) -> Mapping[str, StructLayout]:
        if self._loaded.stripped is not None:
            table = self._loaded.stripped.table
            layouts = {name: of_table(table, name, members) for name, members in _WANTED.items()}
            size = table.layout(_THREAD_DATA).size
            return {**layouts, "kmp_thread_data_t": replace(layouts["kmp_thread_data_t"], size=size)}
        layouts = load_layouts(self._process, self._module)
        published = self._loaded.layouts
        return {
            name: layout.without(published[name].faults) if name in published else layout
            for name, layout in layouts.items()
        }

    @property
    def sources(self) -> Mapping[str, str]:
        """The sources of the layouts used so far, by structure."""
        return {name: layout.source for name, layout in self._layouts.items()}

    def layout(self, name: str) -> StructLayout:
        """Return the layout of the structure *name*. A name ``STRUCTURE.MEMBER`` selects only some members.

        :raises LayoutUnavailable: if no source has the layout
        :raises CorruptState: if the runtime's self-description of the structure contradicts itself
        """
        if name not in self._layouts:
            if name in self._unavailable:
                raise self._unavailable[name]
            try:
                self._layouts[name] = self._load_hidden(name) if name in _HIDDEN else self._described[name]
            except LayoutUnavailable as error:
                self._unavailable[name] = error
                raise
        return self._layouts[name]

    def _load_hidden(self, name: str) -> StructLayout:
        struct = name.partition(".")[0]
        if self._loaded.stripped is not None:
            return of_table(self._loaded.stripped.table, struct, _HIDDEN[name])
        try:
            return dwarf.load(self._process, self._module, {name: (defined_as(struct), _HIDDEN[name])})[name]
        except TypeNotFound as error:
            raise LayoutUnavailable(str(error)) from error

    def view(self, name: str, address: int) -> StructView:
        """Return a view of the structure *name* at *address*."""
        return StructView(self._process if name in _ANYWHERE else self._heap, self.layout(name), address)


def load_layouts(process: Process, module: Module) -> dict[str, StructLayout]:
    """Return the layouts that are most often needed, from the runtime itself or from its debug information.

    :raises LayoutUnavailable: if neither has the layouts
    """
    try:
        return selfdescribed.load(process, module)
    except LayoutUnavailable as error:
        try:
            layouts = dwarf.load(
                process, module, {name: (defined_as(name), members) for name, members in _WANTED.items()}
            )
            size = process.struct_layout(module, _THREAD_DATA, ()).size
        except (LayoutUnavailable, TypeNotFound):
            raise LayoutUnavailable(f"{error}, nor is there debug information of it") from error
        return {**layouts, "kmp_thread_data_t": replace(layouts["kmp_thread_data_t"], size=size)}
