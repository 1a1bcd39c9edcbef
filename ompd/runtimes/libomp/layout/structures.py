"""Layouts of the runtime's structures beyond those that OMPD publishes.

Intel's runtime describes many of them itself (:mod:`ompd.runtimes.layout.selfdescribed`). Debug information of the very
build has them all; it is read when a question needs what nothing else tells. For a stripped runtime the table has them
that was proven to fit it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ompd.contract.memory import StructLayout, StructView
from ompd.errors import LayoutUnavailable, TypeNotFound
from ompd.runtimes.layout import dwarf, selfdescribed
from ompd.runtimes.libomp.layout.layouts import of_table
from ompd.runtimes.libomp.layout.names import defined_as

if TYPE_CHECKING:
    from ompd.contract.helpers.pages import Heap
    from ompd.contract.process import Module, Process
    from ompd.runtimes.libomp.layout.layouts import Known

# What is read of each structure.
_WANTED: Mapping[str, Sequence[str]] = {
    "kmp_base_info_t": ("th_info", "th_ident", "th_next_waiting"),
    "kmp_desc_base_t": ("ds_gtid",),
    "kmp_base_team_t": ("t_ident", "t_task_team"),
    "ident_t": ("psource", "flags"),
    "kmp_base_queuing_lock_t": ("initialized", "tail_id", "head_id", "owner_id"),
    "kmp_base_task_team_t": ("tt_threads_data", "tt_nproc"),
    "kmp_taskdata_t": ("td_ident", "td_taskwait_thread", "td_incomplete_child_tasks"),
    # The runtime pads this one to a multiple of a cache line, so that the array's elements are the union's size apart.
    "kmp_thread_data_t": ("td_deque", "td_deque_size", "td_deque_head", "td_deque_ntasks"),
}
_THREAD_DATA = "kmp_thread_data"

# What only debug information tells, or a table. Some members are in some releases only.
_HIDDEN: Mapping[str, Sequence[str]] = {
    "kmp_base_team_t.t_argv": ("t_argv", "t_argc"),
    "kmp_base_team_t.t_nested_nth": ("t_nested_nth",),
    "kmp_base_ticket_lock_t": ("initialized", "self", "next_ticket", "now_serving", "owner_id"),
    "kmp_base_drdpa_lock_t": ("initialized", "next_ticket", "now_serving", "owner_id"),
    # Intel's list has a lock and a count before its first node, LLVM's is the pointer to that.
    "kmp_base_task_team_t.tt_task_pri_list": ("tt_task_pri_list", "tt_task_pri_list.begin"),
    "kmp_base_task_team_t.tt_threads_lock": ("tt_threads_lock.lk.self",),
    "kmp_task_pri_t": ("td", "next"),
    "kmp_base_info_t.th_pri_head": ("th_pri_head",),
    "kmp_taskdata_t.td_depnode": (
        *("td_depnode", "td_dephash", "td_allow_completion_event"),
        *("td_allow_completion_event.type", "td_allow_completion_event.ed.task"),
    ),
    "kmp_taskdata_t.td_taskgroup": ("td_taskgroup", "td_last_tied"),
    "kmp_taskgroup": ("count",),
    "kmp_tasking_flags_t.proxy": ("proxy", "detachable"),
    "kmp_base_depnode": ("successors", "task", "npredecessors"),
    "kmp_depnode_list": ("node", "next"),
    "kmp_dephash": ("buckets", "size", "last_all"),
    # LLVM 11 has its last tasks by three kinds.
    "kmp_dephash_entry": (
        *("addr", "last_out", "last_set", "prev_set", "last_ins", "last_mtxs", "last_flag", "next_in_bucket"),
    ),
    "kmp_bstate": ("b_arrived", "b_go"),
    "kmp_barrier_union": (),
    "kmp_barrier_team_union": ("b_arrived",),
    "kmp_base_info_t.th_bar": ("th_bar",),
    "kmp_base_team_t.t_bar": ("t_bar",),
    "kmp_base_team_t.b": ("b",),
    "private_common": ("link", "gbl_addr", "par_addr", "cmn_size"),
}

# These lie where the compiler or the user put them; and at what is asked for as a lock there may be none.
_ANYWHERE = frozenset(("ident_t", "kmp_base_queuing_lock_t", "kmp_base_ticket_lock_t", "kmp_base_drdpa_lock_t"))


class Structures:
    """The layouts of one runtime, each loaded when first asked for.

    :param known: what is known already, as what OMPD publishes; what is not believed of it is not taken from elsewhere
    :param heap: where most of them lie
    """

    def __init__(self, process: Process, module: Module, known: Known, heap: Heap) -> None:
        self._process = process
        self._heap = heap
        self._module = module
        self._known = known
        self._found: dict[str, StructLayout] = {}

    @cached_property
    def _told(self) -> Mapping[str, StructLayout]:
        if self._known.stripped is not None:
            table = self._known.stripped.table
            found = {name: of_table(table, name, members) for name, members in _WANTED.items()}
            size = table.layout(_THREAD_DATA).size
            return {**found, "kmp_thread_data_t": replace(found["kmp_thread_data_t"], size=size)}
        told = load_layouts(self._process, self._module)
        known = self._known.layouts
        return {name: layout.without(known[name].faults) if name in known else layout for name, layout in told.items()}

    @property
    def sources(self) -> Mapping[str, str]:
        """Where the layouts that were used so far are from, by structure."""
        return {name: layout.source for name, layout in self._found.items()}

    def layout(self, name: str) -> StructLayout:
        """Return the layout of the structure *name*, or of the members of it that a longer name stands for.

        :raises LayoutUnavailable: if nothing tells it
        :raises CorruptState: if what the runtime says of it cannot be
        """
        if name not in self._found:
            self._found[name] = self._load_hidden(name) if name in _HIDDEN else self._told[name]
        return self._found[name]

    def _load_hidden(self, name: str) -> StructLayout:
        struct = name.partition(".")[0]
        if self._known.stripped is not None:
            return of_table(self._known.stripped.table, struct, _HIDDEN[name])
        try:
            return dwarf.load(self._process, self._module, {name: (defined_as(struct), _HIDDEN[name])})[name]
        except TypeNotFound as error:
            raise LayoutUnavailable(str(error)) from error

    def view(self, name: str, address: int) -> StructView:
        """Return the structure *name* that is at *address*."""
        return StructView(self._process if name in _ANYWHERE else self._heap, self.layout(name), address)


def load_layouts(process: Process, module: Module) -> dict[str, StructLayout]:
    """Return the layouts that most questions need: from the runtime itself, else from its debug information.

    :raises LayoutUnavailable: if neither has them
    """
    try:
        return selfdescribed.load(process, module)
    except LayoutUnavailable as error:
        try:
            layouts = dwarf.load(process, module, {name: (defined_as(name), of) for name, of in _WANTED.items()})
            size = process.struct_layout(module, _THREAD_DATA, ()).size
        except (LayoutUnavailable, TypeNotFound):
            raise LayoutUnavailable(f"{error}, nor is there debug information of it") from error
        return {**layouts, "kmp_thread_data_t": replace(layouts["kmp_thread_data_t"], size=size)}
