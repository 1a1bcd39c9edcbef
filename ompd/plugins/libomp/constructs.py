"""From a region to the function the compiler made of it, by the stacks of its team.

The runtime keeps a region's function (``t_pkfn``) only where it formed a team of several threads for clang's code. gcc's code
runs on libomp through a wrapper, serialized regions leave the field stale. But the function is on the stack: its frame is the one
that the runtime's invoking routine, or for clang's ``if(0)`` the user's function, called. A thread's stack holds such an entry
frame for each region whose code it is in, in the order of the regions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ompd import outlined
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.contract.process import Frame, Process
    from ompd.plugins.libomp.plugin import Runtime
    from ompd.plugins.libomp.regions import Region
    from ompd.plugins.libomp.threads import Thread

# Routines that call a region's function: kmp_runtime.cpp, kmp_gsupport.cpp. The wrappers are static C++ functions in some builds,
# and GOMP's entry points carry versions and a prefix in the symbol table; routine_name() takes both off.
_INVOKER = re.compile(r"__kmp_invoke_microtask$|__kmp_GOMP_\w*microtask_wrapper$|GOMP_parallel(?!\w*_start)\w*$")
# Routines that user code calls to start a region. Innermost on a stack, they say that its function has not begun or is over.
_FORK = re.compile(r"GOMP_parallel\w*$|__kmpc_fork_call(?:_if)?$|__kmpc_serialized_parallel$|__kmpc_end_serialized_parallel$")

# Teams have many threads that would all say the same; one that does not tell is seldom alone.
_MAX_ASKED = 8


_CPLUSPLUS = re.compile(r"_ZL?(\d{1,3})(\w+)")


def routine_name(symbol: str | None) -> str:
    """Return the name of one of the runtime's routines as its source has it, ``""`` where there is no symbol."""
    name = (symbol or "").partition("@")[0]
    if match := _CPLUSPLUS.match(name):
        name = match[2][: int(match[1])]
    return name.removeprefix("__kmp_api_")


def is_wrapper(runtime: Runtime, entry: int) -> bool:
    """Tell whether a microtask is the runtime's own, as the wrapper around the function of gcc's code."""
    return runtime.process.module_at(entry) == runtime.module


def region_entry(region: Region) -> int:
    """Return the entry of a region's function from the stacks of its threads.

    :raises Unavailable: if no thread of the team has it on its stack
    """
    asked = 0
    # The primary thread last: its stack holds more regions, and with workers there is no need to tell them apart.
    for number in reversed(range(min(region.size(), _MAX_ASKED))):
        asked += 1
        try:
            entry = _entries(region.thread(number)).get(region)
        except OmpdError:
            continue  # a stack that cannot be read says nothing; the others may
        if entry is not None:
            return entry
    raise Unavailable(f"the runtime does not keep this region's function, and it is on no stack of {asked} of its threads")


def _entries(thread: Thread) -> dict[Region, int]:
    # The entries of the regions whose code is on the thread's own stack.
    cached = thread.runtime.region_entries.get(thread.address)
    if cached is None:
        cached = thread.runtime.region_entries[thread.address] = _match(thread)
    return cached


def _match(thread: Thread) -> dict[Region, int]:
    process = thread.runtime.process
    native = process.thread_for_id(ThreadIdKind.PTHREAD, thread.native_id(ThreadIdKind.PTHREAD))
    frames = process.stack(native).frames
    entries = [entry for inner, outer in zip(frames, frames[1:]) if (entry := _entry(thread.runtime, inner, outer))]
    regions = list(thread.hosted_regions())
    if len(entries) == len(regions) - 1 and _is_forking(thread.runtime, frames):
        regions = regions[1:]
    if len(entries) != len(regions):
        return {}  # a compiler inlined one of the functions: which, nobody can tell
    return dict(zip(regions, entries))


def _entry(runtime: Runtime, inner: Frame, outer: Frame) -> int | None:
    # The start of the function of *inner* if it is a region's, called by *outer*.
    process = runtime.process
    place = process.locate(inner.call_site)
    start = place.symbol_address if place.symbol_address is not None else inner.function_start
    if place.module is None or place.module == runtime.module or place.module.is_system_library:
        return None
    caller = process.locate(outer.call_site)
    if caller.module == runtime.module:
        return start if _INVOKER.match(routine_name(caller.symbol)) else None
    return start if _is_called_by_user(place.symbol, caller.symbol) else None


def _is_called_by_user(symbol: str | None, caller: str | None) -> bool:
    # clang calls the function of a region with a false if clause directly. With -g it may be a pair, whose inner one has the body;
    # a task's function is called by its entry.
    if symbol is None or "_debug__" in symbol or outlined.parse(symbol) is None:
        return False
    called_by = outlined.parse(caller or "")
    return called_by is None or called_by.construct != "task"


def _is_forking(runtime: Runtime, frames: tuple[Frame, ...]) -> bool:
    # Whether the routine that user code last called is one that starts, or ends, a region.
    process: Process = runtime.process
    last = ""
    for frame in frames:
        module = process.module_at(frame.call_site)
        if module == runtime.module:
            last = routine_name(process.locate(frame.call_site).symbol)
        elif last or module is None or not module.is_system_library:
            break
    return _FORK.match(last) is not None
