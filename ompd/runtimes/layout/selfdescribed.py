"""Layouts that Intel's runtime publishes for Intel's own debugger: ``__kmp_omp_debug_struct_info``.

This exported object in ``.data`` has the offsets and sizes of some 75 fields. Some belong to structures that OMPD does
not publish: task queues, locks, barriers. The fields are in the order of ``kmp_omp_struct_info_t`` (``kmp_omp.h``,
``KMP_OMP_VERSION`` 9, unchanged in Intel's releases from 2021 to 2026). LLVM's builds export an empty object of the
same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ompd.contract.memory import INTEGER_SIZES, Field, StructLayout
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, LayoutUnavailable
from ompd.runtimes.layout.alignment import is_aligned

SOURCE = "published"

_SYMBOL = "__kmp_omp_debug_struct_info"
_LIB_VERSION = 9
# lib_version and sizeof_this_structure, then 14 addr_and_size_t of 16 bytes, then address_width, indexed_locks,
# last_barrier and deque_size; then follow pairs of int32, and a single int32 for the size of each structure.
_HEADER_SIZE = 8 + 14 * 16 + 4 * 4
_MAX_OFFSET = 1 << 20

# Each structure, and its fields in order. The first part of a name with "." is an inner structure. "!" marks a field
# whose offset counts from the start of another structure.
_STRUCTURES: tuple[tuple[str, str], ...] = (
    (
        "kmp_base_info_t",
        "th_info th_team th_root th_serial_team th_ident th_spin_here th_next_waiting th_task_team th_current_task"
        " th_task_state th_bar th_b_worker_arrived th_teams_microtask th_teams_level !th_teams_nteams !th_teams_nth",
    ),
    ("kmp_desc_base_t", "ds_tid ds_gtid ds_thread"),
    (
        "kmp_base_team_t",
        "t_master_tid t_ident t_parent t_nproc t_threads t_serialized t_id t_pkfn t_task_team t_implicit_task_taskdata"
        " t_cancel_request t_bar t_b_master_arrived t_b_team_arrived",
    ),
    ("kmp_base_root_t", "r_root_team r_hot_team r_uber_thread r_root_id"),
    ("ident_t", "psource flags"),
    (
        "kmp_base_queuing_lock_t",
        "initialized location tail_id head_id next_ticket now_serving owner_id depth_locked flags",
    ),
    ("kmp_base_task_team_t", "tt_threads_data tt_found_tasks tt_nproc tt_unfinished_threads tt_active"),
    (
        "kmp_taskdata_t",
        "td_task_id td_flags td_team td_parent td_level td_ident td_allocated_child_tasks td_incomplete_child_tasks"
        " td_taskwait_ident td_taskwait_counter td_taskwait_thread td_taskgroup !tg_count !tg_cancel_request td_depnode"
        " !dn_node !dn_next !dn_successors !dn_task !dn_npredecessors !dn_nrefs !dn_routine",
    ),
    (
        "kmp_thread_data_t",
        "td_deque td_deque_size td_deque_head td_deque_tail td_deque_ntasks td_deque_last_stolen",
    ),
)


def load(process: Process, module: Module) -> dict[str, StructLayout]:
    """Return the layouts that the runtime in *module* describes, by structure.

    :raises LayoutUnavailable: if the runtime does not describe itself, like LLVM's builds
    :raises CorruptState: if a described layout is impossible
    """
    address = address_in(process, module)
    if address is None:
        raise LayoutUnavailable(f"{module.name} does not describe its structures ({_SYMBOL})")
    version, size = _integers(process, process.read(address, 8))
    expected = _HEADER_SIZE + 4 * sum(1 + 2 * len(fields.split()) for _, fields in _STRUCTURES)
    # the description ends with last_field, which has 8 bytes and is aligned to 8
    if version != _LIB_VERSION or size != (expected + 7) // 8 * 8 + 8:
        raise LayoutUnavailable(f"{module.name} describes its structures in another form than is known")
    words = iter(_integers(process, process.read(address + _HEADER_SIZE, expected - _HEADER_SIZE)))
    return {name: _layout(name, fields.split(), words, address) for name, fields in _STRUCTURES}


def _integers(process: Process, raw: bytes) -> list[int]:
    return [int.from_bytes(raw[at : at + 4], process.byte_order, signed=True) for at in range(0, len(raw), 4)]


def _layout(name: str, fields: list[str], words: Iterator[int], address: int) -> StructLayout:
    total = next(words)
    members: dict[str, Field] = {}
    for field in fields:
        offset, size = next(words), next(words)
        if offset == -1 or field.startswith("!"):
            continue  # a build may lack the field; and the structure of a field with "!" is not described
        is_inside = 0 <= offset <= _MAX_OFFSET and 0 < size <= _MAX_OFFSET and offset + size <= max(total, _MAX_OFFSET)
        if not is_inside or not is_aligned(offset, size):
            raise CorruptState(address, f"{name}.{field} is described as {size} bytes at offset {offset}")
        members[field] = Field(offset, size)
    return StructLayout(name, total, members, SOURCE)


def address_in(process: Process, module: Module) -> int | None:
    """Return the address of the description in *module*, None if there is none."""
    return process.symbol_in(module, _SYMBOL)


def contradictions(ours: Mapping[str, StructLayout], theirs: Mapping[str, StructLayout]) -> dict[str, dict[str, str]]:
    """Return the differences between the places of members in two sources, as texts by structure and member. Sizes are
    only compared if both are sizes of integers.
    """
    differences: dict[str, dict[str, str]] = {}
    for name in ours.keys() & theirs.keys():
        for field in ours[name].fields.keys() & theirs[name].fields.keys():
            one, other = ours[name].fields[field], theirs[name].fields[field]
            if one.offset != other.offset or (one.size != other.size and {one.size, other.size} <= INTEGER_SIZES):
                places = f"{one.size} bytes at offset {one.offset}, and {other.size} at {other.offset}"
                differences.setdefault(name, {})[field] = f"{name}.{field} is said to be {places}"
    return differences
