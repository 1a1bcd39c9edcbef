"""The layouts of an image of libgomp, and their proof.

Debug information of the same build has the layouts. Otherwise there are tables for releases, but a stripped library
does not show its release. A table is used if it names the library's build-id. A table is also used if the library's own
query routines, called for some threads, read the addresses that the table predicts. Most of these routines are a few
loads, which are decoded; the others run in an emulator. Whichever way a table was chosen, the structures of all threads
must agree with each other. A single contradiction rejects a table.

A user's table takes precedence over a shipped table that names the same build-id. If the user's table is rejected, the
shipped tables are tried.

For a known build, at first only structures are compared. Stacks, which show threads that are new or in a target region,
are followed only if the structures disagree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

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
from ompd.runtimes.libgomp import registered
from ompd.runtimes.libgomp.handles import Thread
from ompd.runtimes.libgomp.layouts import WANTED, Layouts, chosen
from ompd.runtimes.libgomp.runtime import Runtime
from ompd.runtimes.libgomp.structures import IMPLICIT

_RUNTIME = "libgomp"
_THREADS_SYMBOL = "gomp_tls_data"
_ADD = "ompd layout add FILE, where FILE has the debug information of this very build"
# The number of threads for which query routines are called. More threads of the same team would show nothing new.
_MAX_ASKED = 4

# Query routines, each with the member of the calling thread's gomp_thread that it reads. If this member points to a
# team or task, the routine also reads the last member there. Without a task, it reads a variable of the process
# instead.
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
# Without these four, a wrong layout of teams or tasks could pass the check.
_NEEDED = frozenset(("omp_get_thread_num", "omp_get_level", "omp_get_num_threads", "omp_in_final"))
_POINTS_TO = {"ts.team": "gomp_team", "task": "gomp_task"}


def proven(process: Process, module: Module) -> Runtime:
    """Return the libgomp in *module*, with proven layouts.

    :raises NotInitialised: if no OpenMP code has run yet
    :raises LayoutUnavailable: if no layouts are proven
    """
    layouts = _from_debug_information(process, module)
    if layouts is not None:
        return _checked(Runtime(process, module, layouts, _offset(process, module, layouts)))
    fault: OmpdError | None = None
    for candidate, layouts in _tables(process, module, by_build_id=True):
        try:
            return _checked(Runtime(process, module, layouts, _offset(process, module, layouts)))
        except OmpdError as error:
            if candidate.is_shipped:
                raise
            fault = fault or error
    try:
        return _queried(process, module)
    except LayoutUnavailable as error:
        raise fault or error from error


def _from_debug_information(process: Process, module: Module) -> Layouts | None:
    try:
        structures = {name: (name, members) for name, members in WANTED.items()}
        return chosen(dwarf.load(process, module, structures), dwarf.SOURCE, "this build")
    except (LayoutUnavailable, TypeNotFound):
        return None


def _tables(process: Process, module: Module, *, by_build_id: bool) -> Iterator[tuple[table.Table, Layouts]]:
    tables = table.tables(_RUNTIME, process.architecture_name)
    for candidate in table.naming(tables, module.build_id) if by_build_id else tables:
        try:
            layouts = chosen(candidate.structs, table.SOURCE, releases_of(candidate))
        except LayoutUnavailable:
            if candidate.is_shipped:
                raise
            continue
        build = candidate.build_ids[module.build_id] if by_build_id and module.build_id is not None else None
        yield candidate, replace(layouts, proof=f"build-id of {build}") if build is not None else layouts


def releases_of(table_: table.Table) -> str:
    """Return the releases of a table as readable text, such as ``GCC 9 to 10``. A user may have named releases in
    another way.
    """
    majors = [re.match(r"GCC (\d{1,4})\b", release) for release in table_.releases]
    numbers = sorted({int(major[1]) for major in majors if major is not None})
    if not numbers or None in majors:
        return ", ".join(table_.releases) or table_.name
    first, last = numbers[0], numbers[-1]
    return f"GCC {first}" if first == last else f"GCC {first} to {last}"


def _offset(process: Process, module: Module, layouts: Layouts) -> int:
    # The offset of gomp_tls_data, a gomp_thread, in the thread-local block of *module*. Its symbol shows the offset.
    # Without a symbol it is 0, because gomp_tls_data is the library's first thread-local variable, unless the library
    # was linked into another file.
    for thread in process.threads():
        try:
            block = process.thread_local_block(module, thread)
            if block is None:
                break
            try:
                offset = process.find_symbol(_THREADS_SYMBOL, thread=thread) - block[0]
            except SymbolNotFound:
                offset = 0
            if 0 < offset < block[1]:  # otherwise the symbol belongs to another copy of the library
                return offset
            if block[1] < layouts.size("gomp_thread"):
                raise LayoutUnavailable(f"{module.name} has no room for a gomp_thread of {layouts.of}")
        except (Unavailable, MemoryFault):
            continue
    return 0


# Known builds


def _checked(runtime: Runtime) -> Runtime:
    # Return the runtime of a known build. Its layouts are right, so a contradiction is damage, which is fatal only if
    # no thread agrees with the layouts.
    threads = registered.filled_in(runtime)
    if threads and _disagreement(threads, _led_teams(threads)) is None:
        return runtime
    disagreement = _disagreement(runtime.threads(), runtime.roster.live_teams)
    if disagreement is not None:
        thread, wrong = disagreement
        raise CorruptState(thread.address, f"{runtime.module.name} should be that of {runtime.layouts.of}, but {wrong}")
    return runtime


def _disagreement(threads: Sequence[Thread], live: Collection[int]) -> tuple[Thread, str] | None:
    # The first thread whose structures contradict each other, with the contradiction. None if there is no such thread,
    # or if another thread's structures agree with the layouts.
    faults = dict(contradictions(threads, live))
    if any(thread not in faults and thread.is_telling for thread in threads):
        return None
    return next(iter(faults.items()), None)


def _led_teams(threads: Sequence[Thread]) -> set[int]:
    # The addresses of the teams that primary threads claim.
    teams: set[int] = set()
    for thread in threads:
        try:
            teams.update(claim.team for claim in thread.own_claims if claim.number == 0)
        except OmpdError:
            continue
    return teams


# Unknown builds


def _queried(process: Process, module: Module) -> Runtime:
    # Return the runtime with the only table that is not contradicted. Tables that agree on all members that are read
    # count as one.
    rejected: list[str] = []
    fitting: list[Runtime] = []
    for candidate, layouts in _tables(process, module, by_build_id=False):
        twin = next((other for other in fitting if _is_same(layouts, other.layouts)), None)
        if twin is not None:
            if layouts.of not in twin.layouts.of.split(" or "):
                twin.layouts = replace(twin.layouts, of=f"{twin.layouts.of} or {layouts.of}")
            continue
        runtime = Runtime(process, module, layouts, _queried_offset(process, module, layouts))
        count = 0
        try:
            wrong = _contradiction(runtime)
            if wrong is None:
                wrong, count = _misread(runtime)
        except OmpdError as error:
            if candidate.is_shipped:
                raise
            wrong = str(error)  # a user's bad table must not prevent the others from being tried
        if wrong is not None:
            rejected.append(f"not that of {layouts.of}: {wrong}")
        else:
            proof = f"{count} addresses that its own code reads, and its structures agree"
            runtime.layouts = replace(runtime.layouts, proof=proof)
            fitting.append(runtime)
    if not fitting and not rejected:
        none = f"there are no layouts of libgomp for {process.architecture_name}"
        raise LayoutUnavailable(f"which release {module.name} is, is not known: {none}", hint=_ADD)
    if not fitting:
        raise LayoutUnavailable(f"no layout that is known fits {module.name}: {'; '.join(rejected)}", hint=_ADD)
    if len(fitting) > 1:
        names = ", ".join(runtime.layouts.of for runtime in fitting)
        raise LayoutUnavailable(f"nothing in the process tells which of these {module.name} is: {names}", hint=_ADD)
    return fitting[0]


def _is_same(layouts: Layouts, other: Layouts) -> bool:
    return all(
        layouts[name].fields.get(member) == other[name].fields.get(member)
        for name, members in WANTED.items()
        for member in members
    ) and all(layouts[name].size == other[name].size for name in ("gomp_team", "gomp_task"))


def _queried_offset(process: Process, module: Module, layouts: Layouts) -> int:
    # The offset of gomp_tls_data in the thread-local block, from the address that omp_get_thread_num() reads. This
    # routine reads ts.team_id and no other member of the thread.
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
        offsets = [address - block[0] for address, size in reads if size == number.size]
        inside = [offset for offset in offsets if 0 <= offset < block[1]]
        if inside and inside[-1] >= number.offset:
            return inside[-1] - number.offset
    raise LayoutUnavailable(
        f"which release {module.name} is, is not known: its build-id ({module.build_id or 'none'}) is none of those"
        f" that are, and its own routines cannot be followed{f': {fault}' if fault is not None else ''}",
        hint="; or ".join(filter(None, (fault.hint if fault is not None else "", _ADD))),
    )


def _misread(runtime: Runtime) -> tuple[str | None, int]:
    # The fault of the first routine that does not read an address that the layouts predict, None if there is none. Then
    # the number of reads that agree with the layouts.
    count = 0
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
            for expected, size in _expected(thread, member, pointed):
                # A routine may read only a part of a member, because it returns an int.
                if not any(address == expected and length <= size for address, length in reads):
                    place = f"{member}{f', {pointed}' if pointed else ''}"
                    return f"{routine} does not read {place} where it should be", count
                count += 1
    missing = sorted(_NEEDED - followed)
    return f"{', '.join(missing)} cannot be followed" if missing else None, count


def _expected(thread: Thread, member: str, pointed: str | None) -> Iterator[tuple[int, int]]:
    # The address and the size of each read that a routine should make.
    layouts = thread.runtime.layouts
    thread_field = layouts["gomp_thread"].field(member)
    yield thread.address + thread_field.offset, thread_field.size
    target = read_pointer(thread.runtime.process, thread.address + thread_field.offset) if pointed is not None else None
    if target is not None and pointed is not None:
        field = layouts[_POINTS_TO[member]].field(pointed)
        yield target + field.offset, field.size


def _most_telling(threads: Sequence[Thread]) -> list[Thread]:
    # Order threads so that those with a team and a task come first.
    return sorted(threads, key=lambda thread: -sum(thread.view.unsigned(name) != 0 for name in ("ts.team", "task")))


# Agreement of the structures


def contradictions(threads: Sequence[Thread], live: Collection[int]) -> Iterator[tuple[Thread, str]]:
    """Yield each thread whose structures contradict each other when read with the runtime's layouts, and one of the
    contradictions.

    :param live: the addresses of the live teams. Other teams are not checked
    """
    for thread in threads:
        if isinstance(thread, registered.LostThread):
            continue  # the thread cannot be read
        try:
            wrong = _contradiction_of(thread, live)
        except CorruptState as error:
            wrong = str(error)
        except OmpdError:
            wrong = None  # an unknown fact is no contradiction
        if wrong is not None:
            yield thread, f"thread {thread.native}: {wrong}"


def _contradiction(runtime: Runtime) -> str | None:
    threads = runtime.threads()
    return next((wrong for _, wrong in contradictions(threads, runtime.roster.live_teams)), None)


def _contradiction_of(thread: Thread, live: Collection[int]) -> str | None:
    runtime, claims = thread.runtime, thread.own_claims
    is_live = bool(claims) and claims[0].team in live
    level = thread.view.unsigned("ts.level")
    if is_live and runtime.team_at(claims[0].team).level() != level:
        return f"its level is {level}, its team's {runtime.team_at(claims[0].team).level()}"
    for claim in claims:
        if claim.team not in live:
            continue
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
    return _contradiction_of_task(thread) if is_live else None


def _contradiction_of_task(thread: Thread) -> str | None:
    # The contradiction between a thread's implicit task and its team, None if there is none. The implicit tasks of a
    # team are an array at the team's end, in the order of the threads' numbers.
    runtime, claim = thread.runtime, thread.own_claims[0]
    address = thread.view.pointer("task")
    if address is None:
        return "it is in a team and has no task"
    tasks = map(runtime.task_at, runtime.lineage(address))
    implicit = next((task for task in tasks if task.gomp_kind == IMPLICIT), None)
    if implicit is None or implicit.address == runtime.implicit_task_at(*claim):
        return None
    if implicit.place is None:
        region = runtime.team_at(claim.team)
        return f"its implicit task at {implicit.address:#x} is none of those of its team at {region.address:#x}"
    if implicit.address == address and implicit.place != (runtime.team_at(claim.team), claim.number):
        return f"it is number {claim.number} of its team, and its task is that of number {implicit.place[1]}"
    return None
