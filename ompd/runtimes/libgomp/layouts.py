"""Layouts of libgomp's structures, and cached copies of structures.

libgomp publishes no layouts. The layouts come from debug information of the same build, or from a table that
:mod:`ompd.runtimes.libgomp.proof` has verified on the library in the process. Names are those of ``libgomp.h``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.contract.helpers.pages import CachedMemory, read_by_page
from ompd.contract.memory import Memory, StructLayout, StructView
from ompd.errors import LayoutUnavailable
from ompd.records import record

# The members of each structure that are read.
WANTED: Mapping[str, tuple[str, ...]] = {
    "gomp_thread": (
        "fn",
        "ts.team",
        "ts.work_share",
        "ts.team_id",
        "ts.level",
        "ts.active_level",
        "task",
        "release",
        "thread_pool",
    ),
    "gomp_team": (
        "nthreads",
        "prev_ts.team",
        "prev_ts.team_id",
        "prev_ts.level",
        "prev_ts.active_level",
        "ordered_release",
        "barrier.total",
        "barrier.generation",
        "barrier.awaited",
        "barrier.awaited_final",
        "task_queue",
        "task_count",
        "task_queued_count",
        "task_running_count",
        "task_lock",
        "implicit_task",
        "master_release",
    ),
    "gomp_task": (
        "parent",
        "children_queue",
        "taskgroup",
        "dependers",
        "taskwait",
        "depend_count",
        "num_dependees",
        "pnode",
        "icv.nthreads_var",
        "icv.run_sched_var",
        "icv.run_sched_chunk_size",
        "icv.default_device_var",
        "icv.thread_limit_var",
        "icv.dyn_var",
        "icv.max_active_levels_var",
        "icv.bind_var",
        "icv",
        "fn",
        "kind",
        "final_task",
        "parent_depends_on",
    ),
    "gomp_thread_pool": ("threads", "threads_size", "threads_used", "last_team", "threads_dock.bar.generation"),
    "gomp_taskgroup": ("prev", "taskgroup_queue", "taskgroup_sem", "num_children"),
    "gomp_taskwait": ("in_taskwait", "n_depend", "taskwait_sem"),
    "gomp_work_share": ("ordered_team_ids", "ordered_num_used", "ordered_owner", "ordered_cur"),
    "omp_nest_lock_t": ("lock", "count", "owner"),
}

# Structures that a source of layouts may lack: older tables do not have this one.
IF_THERE = ("gomp_doacross_work_share",)

# Members that some releases do not have: GCC 9 and 10 keep max_active_levels_var in a variable of the whole process.
OPTIONAL = frozenset(("icv.max_active_levels_var",))


@record
class Layouts:
    """The layouts of one runtime.

    ``source`` is the source of the layouts. ``of`` is the text with the releases that have these layouts. ``proof`` is
    the evidence that a table fits the library in the process, None without a table.
    """

    structs: Mapping[str, StructLayout]
    source: str
    of: str
    proof: str | None = None

    def __getitem__(self, name: str) -> StructLayout:
        return self.structs[name]

    def size(self, name: str) -> int:
        """Return the size of a structure in bytes.

        :raises LayoutUnavailable: if the structure's size is unknown
        """
        size = self.structs[name].size
        if not size:
            raise LayoutUnavailable(f"the size of {name} is not known")
        return size


def chosen(available: Mapping[str, StructLayout], source: str, of: str) -> Layouts:
    """Return the layouts of the structures that are read, from all layouts of a source.

    :raises LayoutUnavailable: if a structure or a member is missing
    """
    structs: dict[str, StructLayout] = {}
    for name, members in WANTED.items():
        if name not in available:
            raise LayoutUnavailable(f"nothing tells the layout of {name}")
        missing = [member for member in members if member not in available[name].fields and member not in OPTIONAL]
        if missing:
            raise LayoutUnavailable(f"nothing tells where {name} has {missing[0]}")
        structs[name] = available[name]
    structs.update({name: available[name] for name in IF_THERE if name in available})
    return Layouts(structs, source, of)


def copied(memory: Memory, layout: StructLayout, address: int, members: Sequence[str]) -> StructView:
    """Return a view of a structure. Its *members*, and all bytes between them, are read at once."""
    fields = [layout.field(name) for name in members if name not in OPTIONAL or name in layout.fields]
    start = min(field.offset for field in fields)
    end = max(field.offset + field.size for field in fields)
    raw = read_by_page(memory, address + start, end - start)
    return StructView(CachedMemory(memory, address + start, raw), layout, address)
