"""Internal control variables: their names, their scopes, and their places in the runtime.

Each variable has its name in OpenMP 5.1. If OpenMP 5.0 has another name for it (with ``ompd-``), it has that name, too.
Variables in ``td_icvs`` belong to a task. OMPD gives some of these the scope of a thread; for a thread, they are read
from its current task. Two variables that OMPD libraries leave out are read from the settings that the runtime displays
(``ompd_env_block``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ompd.contract.helpers import icv_readers
from ompd.contract.helpers.icv_readers import Value
from ompd.contract.memory import StructLayout, StructView, read_pointer, read_signed, read_unsigned
from ompd.contract.ompd import Scope
from ompd.contract.plugin import IcvDescription, TeamSizing
from ompd.errors import (
    CorruptState,
    FieldNotFound,
    LayoutUnavailable,
    MemoryFault,
    SymbolNotFound,
    Unavailable,
    Unsupported,
)
from ompd.runtimes.libomp.handles import Parallel, Task, Thread

if TYPE_CHECKING:
    from ompd.runtimes.libomp.plugin import Runtime

_MAX_STRING = 1 << 16
_MAX_ENVIRONMENT = 1 << 16  # bytes; the settings are some 60 lines
_MAX_LIST = 1 << 12  # levels in OMP_NUM_THREADS and similar lists

# kmp_sched_t of kmp.h, with the names of the schedule clause. Two bits above the kind are modifiers.
_SCHEDULES = {
    **dict.fromkeys((33, 34, 40, 41), "static"),
    35: "dynamic",
    **dict.fromkeys((36, 42, 43), "guided"),
    38: "auto",
    39: "trapezoidal",
    44: "static_steal",
}
_UNCHUNKED_STATIC = (34, 41)
_MONOTONIC, _NONMONOTONIC = 1 << 29, 1 << 30
# kmp_proc_bind_t
_BINDINGS = ("false", "true", "primary", "close", "spread", "intel", "default")
# enum __kmp_tool of ompt-general.cpp
_TOOL = {0: "error", 1: "unset", 2: "disabled", 3: "enabled"}

# For each variable of the runtime that holds a list: the environment variable that sets the list, and the numbers that
# stand for the words in it.
_BINDING_WORDS = {"false": 0, "true": 1, "master": 2, "primary": 2, "close": 3, "spread": 4}
_LISTS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "__kmp_nested_nth": ("OMP_NUM_THREADS", {}),
    "__kmp_nested_proc_bind": ("OMP_PROC_BIND", _BINDING_WORDS),
}

# Variables that OMPD leaves out and that no routine changes, with the environment variables under which the runtime
# displays them.
_DISPLAYED = {
    "wait-policy-var": "OMP_WAIT_POLICY",
    "target-offload-var": "OMP_TARGET_OFFLOAD",
}


def describe(runtime: Runtime) -> list[IcvDescription]:
    """Return the ICVs that :func:`read` can read."""
    described = icv_readers.describe(_READERS)
    try:
        displayed = display_control_vars(runtime)
    except (Unavailable, MemoryFault, CorruptState):
        displayed = {}  # display_control_vars() reports the error
    return described + [
        IcvDescription(name, Scope.ADDRESS_SPACE) for name, variable in _DISPLAYED.items() if variable in displayed
    ]


def read(runtime: Runtime, name: str, handle: object) -> Value:
    """Return the value of ICV *name* for *handle*, whose class must fit the ICV's scope.

    :raises BadInput: if there is no such ICV, or *handle* has another scope
    """
    if name in _DISPLAYED:
        try:
            return display_control_vars(runtime)[_DISPLAYED[name]]
        except KeyError:
            raise Unavailable(f"the runtime does not display {_DISPLAYED[name]}") from None
    return icv_readers.read(_READERS, _HANDLES, runtime, name, handle)


def display_control_vars(runtime: Runtime) -> Mapping[str, str]:
    """Return the settings in ``ompd_env_block``, a text that the runtime writes during initialisation."""
    block = read_pointer(runtime.process, runtime.global_address("ompd_env_block"))
    size = read_unsigned(runtime.process, runtime.global_address("ompd_env_block_size"), runtime.process.pointer_size)
    if block is None:
        raise Unavailable("the runtime has freed its settings: it has shut down")
    if size > _MAX_ENVIRONMENT:
        raise CorruptState(block, f"ompd_env_block of {size} bytes")
    text = runtime.heap.read(block, size).split(b"\0", 1)[0].decode("utf-8", "replace")
    pairs = (line.partition("=") for line in text.split("\n") if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


# The size of a team

_NO_LIMIT = 0x7FFFFFFF
_SERIAL = 1  # enum library_type: library_serial
# The runtime has room for this many threads, even if the copies of threadprivate variables are in fixed arrays.
_SURE_CAPACITY = 100
_DEVICE_LIMITS = ("KMP_DEVICE_THREAD_LIMIT", "KMP_ALL_THREADS", "KMP_MAX_THREADS")


def sizing(region: Parallel) -> TeamSizing:
    """Return the variables from which ``__kmp_fork_call`` and ``__kmp_reserve_threads`` compute the size of a team.

    :raises Unavailable: if one of them is unknown, and for regions inside of a ``teams`` construct
    """
    if any(team.t_level == 0 and team.t_parent is not None for team in region.team.chain):
        raise Unavailable("the region is inside of a teams construct, which has its own limits")
    if region.place > 1:
        raise Unavailable("nested serialized regions share one task descriptor, so that its variables may be newer")
    task = region.implicit_task(0).generating()
    if task is None:
        raise Unavailable("which task encountered the region is unknown")
    own, parent = _icvs(task), _icvs(_implicit(region, task))
    # The runtime reads these two from the implicit task, even if an explicit task encountered the region.
    if any(own.signed(name) != parent.signed(name) for name in ("nproc", "dynamic")):
        raise Unavailable("the task that encountered the region, an explicit one, has other settings than its thread")
    limit = own.signed("thread_limit")
    return TeamSizing(
        nthreads=own.signed("nproc"),
        dynamic=own.signed("dynamic") != 0,
        thread_limit=limit if 0 < limit < _NO_LIMIT else None,
        max_active_levels=own.signed("max_active_levels"),
        active_level=region.active_level() - (region.size() > 1),
        # On a target construct the clause limits the regions of the explicit task that clang makes of the construct.
        others=(*_other_limits(region.team.runtime), *(("thread_limit",) if task.kind() == "explicit" else ())),
    )


def _implicit(region: Parallel, task: Task) -> Task:
    # The implicit task of the thread that encountered a region, in the enclosing region.
    enclosing = region.enclosing()
    if task.kind() != "explicit":
        return task
    if enclosing is None:
        raise Unavailable("an explicit task outside of all regions encountered the region")
    numbers = [number for number in range(enclosing.size()) if enclosing.member(number) == region.member(0)]
    if not numbers:
        raise CorruptState(region.team.address, "the primary thread is not in the enclosing team")
    return enclosing.implicit_task(numbers[0])


def _other_limits(runtime: Runtime) -> Iterator[str]:
    # Settings that no control variable shows, if they may have given a team fewer threads.
    given = runtime.process.environment()
    try:
        is_serial = _global(runtime, name="__kmp_library", routine="kmp_get_library") == _SERIAL
    except (Unavailable, SymbolNotFound):
        is_serial = "KMP_LIBRARY" in given
    if is_serial:
        yield "KMP_LIBRARY=serial"
    yield from (name for name in _DEVICE_LIMITS if name in given)
    try:
        is_fixed = _global(runtime, name="__kmp_tp_cached") != 0
    except (Unavailable, SymbolNotFound):
        is_fixed = True
    if is_fixed and len(runtime.threads()) > _SURE_CAPACITY:
        yield "KMP_ALL_THREADPRIVATE"


# Variables of tasks


def _icvs(task: Task) -> StructView:
    runtime = task.runtime
    view = StructView(runtime.heap, runtime.layouts["kmp_internal_control_t"], task.view.address_of("td_icvs"))
    if not _sched(task, view).unsigned("r_sched_type"):
        raise Unavailable("the runtime has not given the task its variables yet")
    return view


def _sched(task: Task, icvs: StructView) -> StructView:
    return StructView(task.runtime.heap, task.runtime.layouts["kmp_r_sched_t"], icvs.address_of("sched"))


def _of_thread(reader: Callable[[Task], Value]) -> Callable[[Thread], Value]:
    return icv_readers.of_thread(Thread.icv_task, reader)


def _dynamic(task: Task) -> bool:
    return _icvs(task).unsigned("dynamic") != 0


def _run_sched(task: Task) -> str:
    view = _sched(task, _icvs(task))
    kind, chunk = view.unsigned("r_sched_type"), view.signed("chunk")
    plain = kind & ~(_MONOTONIC | _NONMONOTONIC)
    name = _SCHEDULES.get(plain)
    if name is None:
        raise CorruptState(view.address, f"schedule of kind {kind:#x}")
    modifier = "monotonic:" if kind & _MONOTONIC else "nonmonotonic:" if kind & _NONMONOTONIC else ""
    # For a schedule without chunks, ``chunk`` is 0 or 1, which is not a chunk size that the user chose.
    return f"{modifier}{name}" + (f",{chunk}" if plain not in _UNCHUNKED_STATIC and chunk > 0 else "")


def _list(task: Task, global_name: str, member: str) -> list[int]:
    # The values of a list that apply to regions inside of the task's region. An environment variable has one value for
    # each level.
    runtime = task.runtime
    layout = runtime.layouts["kmp_nested_nthreads_t" if member == "nth" else "kmp_nested_proc_bind_t"]
    address = runtime.process.symbol_in(runtime.module, global_name)
    if address is None:
        if runtime.stripped is None:
            raise Unavailable(f"the runtime has no {global_name}")
        address = _list_of_team(task) if member == "nth" else None
        if address is None:
            address = _list_by_content(runtime, global_name, layout, member)
        if address is None:
            return []
    view = StructView(runtime.process, layout, address)
    used = view.signed("used")
    array = view.pointer(member)
    if not 0 <= used <= _MAX_LIST:
        raise CorruptState(address, f"{global_name} has {used} entries")
    first = task.team().t_level + 1
    if array is None or used <= first:
        return []
    raw = runtime.process.read(array + 4 * first, 4 * (used - first))
    order = runtime.process.byte_order
    return [int.from_bytes(raw[start : start + 4], order, signed=True) for start in range(0, len(raw), 4)]


def _list_of_team(task: Task) -> int | None:
    # Since LLVM 19 each team points to the list of its regions' sizes (t_nested_nth).
    try:
        view = task.runtime.structures.view("kmp_base_team_t.t_nested_nth", task.team().address)
        return view.pointer("t_nested_nth")
    except (LayoutUnavailable, FieldNotFound):
        return None


def _list_by_content(runtime: Runtime, global_name: str, layout: StructLayout, member: str) -> int | None:
    # The address of the list with the values of an environment variable. None if the variable has at most one value,
    # because the runtime then has no list.
    variable, codes = _LISTS[global_name]
    text = runtime.process.environment().get(variable, "")
    if "," not in text:
        return None
    unknown = Unavailable(f"{variable} is a list, and the runtime has no symbols that would tell where it keeps it")
    try:
        values = [codes[word] if codes else int(word) for word in text.lower().replace(" ", "").split(",")]
    except (KeyError, ValueError):
        raise unknown from None
    order = runtime.process.byte_order
    expected = b"".join(value.to_bytes(4, order, signed=True) for value in values)
    matching = []
    for address in runtime.stripped.variables.pointers() if runtime.stripped is not None else ():
        view = StructView(runtime.process, layout, address)
        try:
            array, used, size = view.pointer(member), view.signed("used"), view.signed("size")
            if array is not None and used == len(values) <= size <= _MAX_LIST:
                matching += [address] if runtime.process.read(array, len(expected)) == expected else []
        except MemoryFault:
            continue
    if len(matching) != 1:
        raise unknown
    return matching[0]


def _nthreads(task: Task) -> int | str:
    values = [_icvs(task).signed("nproc"), *_list(task, "__kmp_nested_nth", "nth")]
    return values[0] if len(values) == 1 else ",".join(map(str, values))


def _bind(task: Task) -> str:
    values = [_icvs(task).signed("proc_bind"), *_list(task, "__kmp_nested_proc_bind", "bind_types")]
    if not all(0 <= value < len(_BINDINGS) for value in values):
        raise CorruptState(task.address, f"proc_bind is {values}")
    return ",".join(_BINDINGS[value] for value in values)


def _member(task: Task, *, name: str) -> int:
    return _icvs(task).signed(name)


# Variables of the address space


def _global(runtime: Runtime, *, name: str, size: int = 4, routine: str | None = None) -> int:
    # A stripped runtime still has the API routine that returns the variable.
    if routine is None or runtime.stripped is None:
        return read_unsigned(runtime.process, runtime.global_address(name), size)
    return _call(runtime, routine)


def _flag(runtime: Runtime, *, name: str, routine: str | None = None) -> bool:
    return _global(runtime, name=name, routine=routine) != 0


def _call(runtime: Runtime, name: str) -> int:
    # The result, a C int, of one of the runtime's own routines. An emulator runs the routine as a thread of a team,
    # because for a thread that the runtime does not know, the routine would start to initialise the runtime.
    routine = runtime.process.symbol_in(runtime.module, name)
    if routine is None:
        raise Unavailable(f"the runtime exports no {name}")
    reason = "no thread is in a team"
    for thread in runtime.threads():
        if thread.team is None:
            continue
        native = thread.native_thread_id()
        try:
            value = runtime.process.call(routine, native).value & 0xFFFFFFFF
        except (Unavailable, Unsupported) as error:
            reason = str(error)
            break
        return value - (1 << 32) if value >> 31 else value
    raise Unavailable(f"the runtime has no symbols that would tell it, and {name}() cannot be asked: {reason}")


def _debug(runtime: Runtime) -> bool:
    return read_signed(runtime.process, runtime.global_address("ompd_state"), 8) > 0


def _tool(runtime: Runtime) -> str:
    value = read_unsigned(runtime.process, runtime.global_address("__kmp_tool"), 4)
    return _TOOL.get(value, str(value))


def _string(runtime: Runtime, *, name: str) -> str:
    address = read_pointer(runtime.process, runtime.global_address(name))
    if address is None:
        return ""
    runtime.heap.read(address, 1)  # raises if the page is lost; read_string() would return an empty text
    return runtime.process.read_string(address, _MAX_STRING).decode("utf-8", "replace")


_HANDLES: icv_readers.Handles = {Scope.THREAD: Thread, Scope.PARALLEL: Parallel, Scope.TASK: Task}

_READERS: icv_readers.Readers = {
    "dyn-var": (Scope.THREAD, _of_thread(_dynamic)),
    "run-sched-var": (Scope.TASK, _run_sched),
    "stacksize-var": (Scope.ADDRESS_SPACE, partial(_global, name="__kmp_stksize", size=8)),
    "cancel-var": (Scope.ADDRESS_SPACE, partial(_flag, name="__kmp_omp_cancellation", routine="omp_get_cancellation")),
    "max-task-priority-var": (
        Scope.ADDRESS_SPACE,
        partial(_global, name="__kmp_max_task_priority", routine="omp_get_max_task_priority"),
    ),
    "debug-var": (Scope.ADDRESS_SPACE, _debug),
    "nthreads-var": (Scope.THREAD, _of_thread(_nthreads)),
    "display-affinity-var": (Scope.ADDRESS_SPACE, partial(_flag, name="__kmp_display_affinity")),
    "affinity-format-var": (Scope.ADDRESS_SPACE, partial(_string, name="__kmp_affinity_format")),
    "default-device-var": (Scope.THREAD, _of_thread(partial(_member, name="default_device"))),
    "tool-var": (Scope.ADDRESS_SPACE, _tool),
    "tool-libraries-var": (Scope.ADDRESS_SPACE, partial(_string, name="__kmp_tool_libraries")),
    "tool-verbose-init-var": (Scope.ADDRESS_SPACE, partial(_string, name="__kmp_tool_verbose_init")),
    "thread-limit-var": (Scope.TASK, partial(_member, name="thread_limit")),
    "max-active-levels-var": (Scope.TASK, partial(_member, name="max_active_levels")),
    "bind-var": (Scope.TASK, _bind),
    "num-procs-var": (Scope.ADDRESS_SPACE, partial(_global, name="__kmp_avail_proc", routine="omp_get_num_procs")),
    "ompd-num-procs-var": (Scope.ADDRESS_SPACE, partial(_global, name="__kmp_avail_proc", routine="omp_get_num_procs")),
    **icv_readers.COMMON,
}
