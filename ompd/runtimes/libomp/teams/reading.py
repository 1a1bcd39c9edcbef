"""What every part of the plugin reads by: one copy of the runtime in one process, and the layouts of its structures."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.pages import Heap
from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import most_threads
from ompd.contract.memory import StructLayout, read_pointer, read_signed
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, NotInitialised, SymbolNotFound, Unavailable
from ompd.runtimes.libomp.layout import layouts
from ompd.runtimes.libomp.layout.structures import Structures

# What is read of each structure, by the names of kmp.h and ompt-internal.h.
_WANTED: Mapping[str, Sequence[str]] = {
    "kmp_info_t": ("th",),
    "kmp_base_info_t": ("th_info", "th_team", "th_current_task", "ompt_thread_info"),
    "kmp_desc_t": ("ds",),
    "kmp_desc_base_t": ("ds_thread", "ds_tid"),
    "ompt_thread_info_t": ("state", "wait_id", "thread_data"),
    "kmp_team_p": ("t",),
    "kmp_base_team_t": (
        *("t_parent", "t_nproc", "t_threads", "t_level", "t_active_level", "t_pkfn", "t_implicit_task_taskdata"),
        *("ompt_team_info", "ompt_serialized_team_info"),
    ),
    "kmp_taskdata_t": ("td_flags", "td_icvs", "td_team", "td_parent", "ompt_task_info"),
    "kmp_tasking_flags_t": (
        *(":tiedness", ":final", ":tasktype", ":task_serial", ":tasking_ser", ":team_serial"),
        *(":started", ":executing", ":complete", ":freed", ":native"),
    ),
    "kmp_task_t": ("routine",),
    "kmp_internal_control_t": (
        *("dynamic", "nproc", "thread_limit", "max_active_levels", "sched", "proc_bind", "default_device"),
    ),
    "kmp_r_sched_t": ("r_sched_type", "chunk"),
    "kmp_nested_nthreads_t": ("used", "size", "nth"),
    "kmp_nested_proc_bind_t": ("used", "size", "bind_types"),
    "ompt_task_info_t": ("frame", "scheduling_parent", "task_data"),
    "ompt_team_info_t": ("parallel_data",),
    "ompt_frame_t": ("exit_frame", "enter_frame"),
    "ompt_lw_taskteam_t": ("parent", "ompt_team_info", "ompt_task_info"),
}

# The runtime makes room for as many threads as it has started, at most __kmp_sys_max_nth; Linux has no more than 4
# million ids.
_MAX_CAPACITY = 1 << 22

_MAX_HEAD = 4096
_MAX_SOURCE = 4096

_VERSION = re.compile(rb"version: ([0-9.]+)")


class Reading(ABC):
    """One copy of the runtime in one process."""

    def __init__(self, process: Process, module: Module) -> None:
        self.process = process
        self.heap = Heap(process)
        self.module = module
        known = layouts.load(process, module, _WANTED)
        self.layouts = known.layouts
        self.stripped = known.stripped  # what stands in for symbols; None in a runtime that has them
        self.structures = Structures(process, module, known, self.heap)
        base = self.layouts["kmp_base_info_t"]
        desc = self.layouts["kmp_desc_t"].embedding("ds", self.layouts["kmp_desc_base_t"])
        self.thread_layout: StructLayout = self.layouts["kmp_info_t"].embedding(
            "th", base.embedding("th_info", desc).embedding("ompt_thread_info", self.layouts["ompt_thread_info_t"])
        )
        self.team_layout: StructLayout = self.layouts["kmp_team_p"].embedding("t", self.layouts["kmp_base_team_t"])
        self.task_layout: StructLayout = self.layouts["kmp_taskdata_t"]
        self.task_flags: Mapping[str, int] = self.layouts["kmp_tasking_flags_t"].masks
        self.owners = CodeOwners(process, module)

    @property
    @abstractmethod
    def states_are_kept(self) -> bool:
        """Whether the runtime is known to keep states, frames and tools' data."""

    @property
    def layout_source(self) -> str:
        """See :attr:`AddressSpace.layout_source`."""
        return self.thread_layout.source

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return {**{name: layout.source for name, layout in self.layouts.items()}, **self.structures.sources}

    @property
    def layout_proof(self) -> str | None:
        """See :attr:`AddressSpace.layout_proof`."""
        return self.stripped.how if self.stripped is not None else None

    def global_address(self, name: str) -> int:
        """Return where the runtime's global variable *name* is.

        :raises SymbolNotFound: if it has none of that name
        :raises Unavailable: if it is stripped
        """
        address = self.process.symbol_in(self.module, name)
        if address is not None:
            return address
        if self.stripped is not None:
            raise Unavailable(f"the runtime has no symbols that would tell where {name} lies")
        raise SymbolNotFound(name, self.module.name)

    @cached_property
    def details(self) -> Structures:
        """The layouts of structures that OMPD does not publish.

        :raises LayoutUnavailable: if there are none
        """
        self.structures.layout("kmp_base_info_t")
        return self.structures

    def construct_source(self, ident: int | None) -> str | None:
        """Return ``psource`` of the ``ident_t`` at *ident*, None if there is none."""
        text = self.structures.view("ident_t", ident).pointer("psource") if ident is not None else None
        return self.process.read_string(text, _MAX_SOURCE).decode("utf-8", "replace") if text is not None else None

    def omp_version(self) -> int:
        """Return ``__kmp_openmp_version``."""
        return read_signed(self.process, self.global_address("__kmp_openmp_version"), 4)

    def version(self) -> str | None:
        """Return the number in ``__kmp_version_lib_ver``, a text that every build carries."""
        address = self.process.symbol_in(self.module, "__kmp_version_lib_ver")
        if address is None:
            if self.stripped is not None:
                raise Unavailable("the runtime has no symbols that would tell where its version lies")
            return None
        # "\0@(#) LLVM OMP version: 5.0.20140926": the NUL keeps it from being printed, the mark is for what(1)
        text = self.process.read_string(address + 1, 256)
        match = _VERSION.search(text)
        return match[1].decode() if match else None

    @cached_property
    def thread_places(self) -> Mapping[int, int]:
        """The place of each thread in ``kmp_info_t **__kmp_threads``, by its address. It is the thread's number."""
        # It has gaps: LLVM keeps places 1 to 8 for hidden helpers.
        if self.stripped is not None:
            array: int | None = self.stripped.threads.array
        else:
            array = read_pointer(self.process, self.global_address("__kmp_threads"))
        if array is None:
            raise NotInitialised(f"{self.module.name} has no threads: it is not initialised, or has shut down")
        found: dict[int, int] = {}
        for place, address in self._pointers(array, self.capacity):
            found.setdefault(address, place)
        if len(found) > self.most_threads:
            there = len(self.process.threads())
            raise CorruptState(array, f"__kmp_threads has {len(found)} threads, the process {there}")
        return found

    @cached_property
    def most_threads(self) -> int:
        """More threads than the runtime, or one team, can have."""
        return most_threads(self.process)

    def _pointers(self, address: int, count: int) -> list[tuple[int, int]]:
        # The places of an array's pointers that are not null, and these.
        size = self.process.pointer_size
        raw = self.heap.read(address, count * size).rstrip(b"\0")
        raw += bytes(-len(raw) % size)  # most of it has never been used
        values = (int.from_bytes(raw[at : at + size], self.process.byte_order) for at in range(0, len(raw), size))
        return [(place, value) for place, value in enumerate(values) if value]

    @cached_property
    def capacity(self) -> int:
        """``__kmp_threads_capacity``, a bound for the number of threads of a team.

        :raises CorruptState: if it cannot be
        """
        if self.stripped is not None:
            return self.stripped.threads.capacity
        where = self.global_address("__kmp_threads_capacity")
        capacity = read_signed(self.process, where, 4)
        if not 0 < capacity <= _MAX_CAPACITY:
            raise CorruptState(where, f"__kmp_threads_capacity is {capacity}")
        return capacity

    @cached_property
    def thread_head(self) -> int:
        """So much of a ``kmp_info_t`` is read at once, as nearly all of what is asked for is in."""
        whole = self.thread_layout.fields.get("th")
        return min(whole.size, _MAX_HEAD) if whole is not None else 0
