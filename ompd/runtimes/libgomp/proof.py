"""Which layout this image of libgomp has, and how that is known.

Debug information of the very build tells. Else there are tables of releases, and a stripped library does not say of
which release it is. A table is used if the library's build-id is one that it names; or if, for each of some threads,
the addresses that the library's own routines read are those that the table says. Most of these routines are a few
loads, which are decoded; others are run in an emulator. In either case what the structures of all threads hold must
agree with each other. One contradiction rejects a table.

A user's own table comes before a shipped one that names the same build-id; if it is rejected, the shipped ones serve.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from ompd.contract.memory import read_pointer
from ompd.contract.process import Module, Process
from ompd.errors import (
    CorruptState,
    LayoutUnavailable,
    MemoryFault,
    OmpdError,
    SymbolNotFound,
    TypeNotFound,
    Unavailable,
)
from ompd.runtimes.layout import dwarf, table
from ompd.runtimes.libgomp.handles import Registry, Thread
from ompd.runtimes.libgomp.registered import LostThread
from ompd.runtimes.libgomp.structures.gomp import IMPLICIT
from ompd.runtimes.libgomp.structures.layouts import WANTED, Layouts, chosen

_R = TypeVar("_R", bound=Registry)

_RUNTIME = "libgomp"
_THREADS_SYMBOL = "gomp_tls_data"
_ADD = "ompd layout add FILE, where FILE has the debug information of this very build"
# Teams have many threads that would all say the same.
_MAX_ASKED = 4

# What routines that only look read: of the calling thread, of its team or task if it has one. Those of a task's
# variables read the process's own where there is no task.
_QUERIES: tuple[tuple[str, str, str | None], ...] = (
    ("omp_get_thread_num", "ts.team_id", None),
    ("omp_get_level", "ts.level", None),
    ("omp_get_active_level", "ts.active_level", None),
    ("omp_get_num_threads", "ts.team", "nthreads"),
    ("omp_in_final", "task", "final_task"),
    ("omp_get_dynamic", "task", "icv.dyn_var"),
    ("omp_get_max_threads", "task", "icv.nthreads_var"),
    ("omp_get_thread_limit", "task", "icv.thread_limit_var"),
    ("omp_get_default_device", "task", "icv.default_device_var"),
)
# Without these four a table would be believed although nothing shows what a team, or a task, is.
_NEEDED = frozenset(("omp_get_thread_num", "omp_get_level", "omp_get_num_threads", "omp_in_final"))
_POINTS_TO = {"ts.team": "gomp_team", "task": "gomp_task"}


def proven(process: Process, module: Module, make: Callable[[Layouts, int], _R]) -> _R:
    """Return what *make* makes of the layouts of the libgomp in *module*, and of where ``gomp_tls_data`` lies in its
    thread-local block.

    :raises NotInitialised: if nothing of OpenMP has run yet
    :raises LayoutUnavailable: if no layout is proven
    """
    told = _told(process, module)
    if told is not None:
        return _checked(make(told, _offset(process, module, told)))
    fault: OmpdError | None = None
    for known, layouts in _tables(process, module, by_build_id=True):
        try:
            return _checked(make(layouts, _offset(process, module, layouts)))
        except OmpdError as error:
            if known.is_shipped:
                raise
            fault = fault or error
    try:
        return _queried(process, module, make)
    except LayoutUnavailable as error:
        raise fault or error from error


def _told(process: Process, module: Module) -> Layouts | None:
    try:
        wanted = {name: (name, members) for name, members in WANTED.items()}
        return chosen(dwarf.load(process, module, wanted), dwarf.SOURCE, "this build")
    except (LayoutUnavailable, TypeNotFound):
        return None


def _tables(process: Process, module: Module, *, by_build_id: bool) -> Iterator[tuple[table.Table, Layouts]]:
    found = table.tables(_RUNTIME, process.architecture_name)
    for known in table.naming(found, module.build_id) if by_build_id else found:
        try:
            layouts = chosen(known.structs, table.SOURCE, releases_of(known))
        except LayoutUnavailable:
            if known.is_shipped:
                raise
            continue
        build = known.build_ids[module.build_id] if by_build_id and module.build_id is not None else None
        yield known, replace(layouts, proof=f"build-id of {build}") if build is not None else layouts


def releases_of(known: table.Table) -> str:
    """Return what a table is of, for people, as ``GCC 9 to 10``; the user's may be called anything."""
    majors = [re.match(r"GCC (\d{1,4})\b", release) for release in known.releases]
    numbers = sorted({int(major[1]) for major in majors if major is not None})
    if not numbers or None in majors:
        return ", ".join(known.releases) or known.name
    first, last = numbers[0], numbers[-1]
    return f"GCC {first}" if first == last else f"GCC {first} to {last}"


def _offset(process: Process, module: Module, layouts: Layouts) -> int:
    # The structure is the first of the library's thread-local variables, but for builds that have been linked into
    # something else; where there is a symbol, that tells.
    for thread in process.threads():
        try:
            block = process.thread_local_block(module, thread)
            if block is None:
                break
            try:
                offset = process.find_symbol(_THREADS_SYMBOL, thread=thread) - block[0]
            except SymbolNotFound:
                offset = 0
            if 0 < offset < block[1]:  # else it is that of another copy of the library
                return offset
            if block[1] < layouts.size("gomp_thread"):
                raise LayoutUnavailable(f"{module.name} has no room for a gomp_thread of {layouts.of}")
        except (Unavailable, MemoryFault):
            continue
    return 0


def _checked(runtime: _R) -> _R:
    # The build is known: what contradicts its layout is damage, if another thread agrees with it.
    faults = dict(contradictions(runtime))
    agreeing = [thread for thread in runtime.threads() if thread not in faults and thread.is_telling]
    if faults and not agreeing:
        thread, wrong = next(iter(faults.items()))
        raise CorruptState(thread.address, f"{runtime.module.name} should be that of {runtime.layouts.of}, but {wrong}")
    return runtime


def _queried(process: Process, module: Module, make: Callable[[Layouts, int], _R]) -> _R:
    # The tables that nothing contradicts. Those that say the same of all that is read are one.
    rejected: list[str] = []
    found: list[_R] = []
    for known, layouts in _tables(process, module, by_build_id=False):
        same = next((other for other in found if _is_same(layouts, other.layouts)), None)
        if same is not None:
            if layouts.of not in same.layouts.of.split(" or "):
                same.layouts = replace(same.layouts, of=f"{same.layouts.of} or {layouts.of}")
            continue
        runtime = make(layouts, _queried_offset(process, module, layouts))
        count = 0
        try:
            wrong = _contradiction(runtime)
            if wrong is None:
                wrong, count = _misread(runtime)
        except OmpdError as error:
            if known.is_shipped:
                raise
            wrong = str(error)  # what a user wrote into a table must not keep the others from being tried
        if wrong is not None:
            rejected.append(f"not that of {layouts.of}: {wrong}")
        else:
            proof = f"{count} addresses that its own code reads, and its structures agree"
            runtime.layouts = replace(runtime.layouts, proof=proof)
            found.append(runtime)
    if not found and not rejected:
        none = f"there are no layouts of libgomp for {process.architecture_name}"
        raise LayoutUnavailable(f"which release {module.name} is, is not known: {none}", hint=_ADD)
    if not found:
        raise LayoutUnavailable(f"no layout that is known fits {module.name}: {'; '.join(rejected)}", hint=_ADD)
    if len(found) > 1:
        names = ", ".join(runtime.layouts.of for runtime in found)
        raise LayoutUnavailable(f"nothing in the process tells which of these {module.name} is: {names}", hint=_ADD)
    return found[0]


def _is_same(one: Layouts, other: Layouts) -> bool:
    return all(
        one[name].fields.get(member) == other[name].fields.get(member)
        for name, members in WANTED.items()
        for member in members
    ) and all(one[name].size == other[name].size for name in ("gomp_team", "gomp_task"))


def _queried_offset(process: Process, module: Module, layouts: Layouts) -> int:
    # omp_get_thread_num() reads ts.team_id, and nothing else of the thread.
    routine = process.symbol_in(module, "omp_get_thread_num")
    if routine is None:
        raise LayoutUnavailable(f"{module.name} does not export omp_get_thread_num")
    number = layouts["gomp_thread"].field("ts.team_id")
    fault: OmpdError | None = None
    for thread in process.threads()[:_MAX_ASKED]:
        try:
            block = process.thread_local_block(module, thread)
            reads = process.evaluate(routine, thread).reads
        except (Unavailable, MemoryFault) as error:
            fault = error
            continue
        if block is None:
            continue
        inside = [at - block[0] for at, size in reads if size == number.size and 0 <= at - block[0] < block[1]]
        if inside and inside[-1] >= number.offset:
            return inside[-1] - number.offset
    raise LayoutUnavailable(
        f"which release {module.name} is, is not known: its build-id ({module.build_id or 'none'}) is none of those"
        f" that are, and its own routines cannot be followed{f': {fault}' if fault is not None else ''}",
        hint="; or ".join(filter(None, (fault.hint if fault is not None else "", _ADD))),
    )


def _misread(runtime: Registry) -> tuple[str | None, int]:
    # What a routine read elsewhere than the layout says, and how many reads were where it does.
    told = 0
    followed: set[str] = set()
    for thread in _most_telling(runtime.threads())[:_MAX_ASKED]:
        for routine, member, pointed in _QUERIES:
            entry = runtime.process.symbol_in(runtime.module, routine)
            if entry is None:
                continue
            try:
                reads = runtime.process.evaluate(entry, thread.native).reads
            except Unavailable:
                continue
            followed.add(routine)
            for address, size in _expected(thread, member, pointed):
                # A routine may read a part: it answers with an int.
                if not any(at == address and length <= size for at, length in reads):
                    return (
                        f"{routine} does not read {member}{f', {pointed}' if pointed else ''} where it should be",
                        told,
                    )
                told += 1
    missing = sorted(_NEEDED - followed)
    return f"{', '.join(missing)} cannot be followed" if missing else None, told


def _expected(thread: Thread, member: str, pointed: str | None) -> Iterator[tuple[int, int]]:
    layout = thread.runtime.layouts["gomp_thread"]
    where = layout.field(member)
    yield thread.address + where.offset, where.size
    target = read_pointer(thread.runtime.process, thread.address + where.offset) if pointed is not None else None
    if target is not None and pointed is not None:
        field = thread.runtime.layouts[_POINTS_TO[member]].field(pointed)
        yield target + field.offset, field.size


def _most_telling(threads: Sequence[Thread]) -> list[Thread]:
    # Those with a team and a task first.
    return sorted(threads, key=lambda thread: -sum(thread.view.unsigned(name) != 0 for name in ("ts.team", "task")))


# What all structures must agree on


def contradictions(runtime: Registry) -> Iterator[tuple[Thread, str]]:
    """Yield what the structures of *runtime* contradict each other in if its layouts are right, by thread.

    :raises NotInitialised: if nothing of OpenMP has run yet
    """
    for thread in runtime.threads():
        if isinstance(thread, LostThread):
            continue  # nothing of it is there that could say something else
        try:
            wrong = _contradiction_of(thread)
        except CorruptState as error:
            wrong = str(error)
        except OmpdError:
            wrong = None  # what cannot be told contradicts nothing
        if wrong is not None:
            yield thread, f"thread {thread.native}: {wrong}"


def _contradiction(runtime: Registry) -> str | None:
    return next((wrong for _, wrong in contradictions(runtime)), None)


def _contradiction_of(thread: Thread) -> str | None:
    runtime = thread.runtime
    claims = thread.contexts[0].claims
    live = [claim for claim in claims if claim.team in runtime.roster.live_teams]
    level = thread.view.unsigned("ts.level")
    if claims and claims[0] in live and runtime.team_at(claims[0].team).level() != level:
        return f"its level is {level}, its team's {runtime.team_at(claims[0].team).level()}"
    for claim in live:
        region = runtime.team_at(claim.team)
        total = region.barrier.unsigned("barrier.total")
        if total != region.nthreads:
            return f"its team of {region.nthreads} has a barrier for {total}"
        for member in ("barrier.awaited", "barrier.awaited_final"):
            if region.barrier.unsigned(member) > total:
                return f"its team's barrier awaits {region.barrier.unsigned(member)} of {total}"
    if thread.pool is not None:
        pool = runtime.view("gomp_thread_pool", thread.pool)
        used, size = pool.unsigned("threads_used"), pool.unsigned("threads_size")
        if used > size or size > runtime.most_threads:
            return f"its pool has {used} of {size} threads"
    return _contradiction_of_task(thread) if live and claims[0] in live else None


def _contradiction_of_task(thread: Thread) -> str | None:
    # The implicit tasks of a team lie one after the other behind it, in the order of its threads' numbers.
    runtime = thread.runtime
    claim = thread.contexts[0].claims[0]
    address = thread.view.pointer("task")
    if address is None:
        return "it is in a team and has no task"
    for task in map(runtime.task_at, runtime.lineage(address)):
        if task.gomp_kind != IMPLICIT:
            continue
        if task.place is None:
            region = runtime.team_at(claim.team)
            return f"its implicit task at {task.address:#x} is none of those of its team at {region.address:#x}"
        break
    place = runtime.task_at(address).place
    if place is not None and (place[0].address, place[1]) != claim:
        return f"it is number {claim.number} of its team, and its task is that of number {place[1]}"
    return None
