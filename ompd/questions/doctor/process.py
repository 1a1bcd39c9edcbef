"""Risks of the process itself: settings, more threads than processors, stacks, a child of fork()."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ompd.errors import OmpdError, Unavailable
from ompd.machine.report import Report
from ompd.machine.supply import groups
from ompd.machine.supply.files import Roots
from ompd.model import ThreadRecord
from ompd.questions.facts.damage import is_fork
from ompd.questions.facts.processors import counted_processors
from ompd.questions.why.collect import gone_threads
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.survey.stack_extents import StackExtents

_SMALL_STACK = 1 << 20
_MANY_SPINS = 1_000_000_000
_LONG_MS = 60_000


def environment_of(session: Session) -> tuple[Mapping[str, str] | None, str]:
    """Return the program's environment and its origin in words, or None and the reason why it is unknown."""
    try:
        variables, is_current = session.process.environment.current()
    except OmpdError as error:
        return None, str(error)
    return variables, "its environment" if is_current else "the environment that it was started with"


def examine(
    session: Session,
    threads: Sequence[ThreadRecord],
    environment: tuple[Mapping[str, str] | None, str],
    *,
    is_partial: bool = False,
    remedy: str | None = None,
) -> Report:
    """Return the risks of the process.

    :param threads: the rows of ``threads``
    :param environment: what :func:`environment_of` returned
    :param is_partial: whether some threads, or facts about them, may be missing because they could not be read
    :param remedy: how the process gets more processors, None if the setting that took them is unknown
    """
    report = Report("process")
    variables, source = environment
    if variables is None:
        report.unknown("environment", "environment", source, "whether settings endanger the program is unknown")
    elif len(session.runtimes) > 1:
        _duplicates_allowed(report, variables, source)
    at_least = "at least " * is_partial
    is_over = _processors(session, report, threads, at_least, remedy)
    if is_over and variables is not None:
        _active_waits(report, variables, {runtime.found.kind for runtime in session.runtimes})
    _stacks(session, report, threads, variables or {}, at_least)
    _fork(session, report, threads)
    return report


def _duplicates_allowed(report: Report, variables: Mapping[str, str], source: str) -> None:
    value = variables.get("KMP_DUPLICATE_LIB_OK", "")
    if value.lower() in ("1", "true", "t", "yes", "y", "on", "enabled", ".true.", ".t."):
        report.add(
            "kmp_duplicate_lib_ok",
            "warning",
            "KMP_DUPLICATE_LIB_OK",
            f"KMP_DUPLICATE_LIB_OK={value} in {source}",
            "LLVM's and Intel's runtimes do not refuse a second copy of themselves (OMP: Error #15); with two copies"
            " the program may hang, crash or compute wrong results",
            "unset KMP_DUPLICATE_LIB_OK, and keep one runtime",
        )


# Threads and processors


def _processors(
    session: Session, report: Report, threads: Sequence[ThreadRecord], at_least: str, remedy: str | None
) -> bool:
    # Report on processors. Return whether more threads are in active regions than there are processors.
    members = [row for row in threads if row.parallel is not None and row.native_thread_id is not None]
    active = {row.native_thread_id for row in members if (row.active_level or 0) > 0}
    if len(active) < 2:
        return False
    usable, words, why = _usable(session)
    if usable is None:
        report.unknown(
            "oversubscription",
            f"{at_least}{len(active)} threads in active regions",
            why,
            "whether more threads work than there are processors is unknown",
        )
        return False
    if len(active) <= usable and at_least:
        report.unknown(
            "oversubscription",
            f"{at_least}{len(active)} threads in active regions",
            "not all threads could be read",
            "whether more threads work than there are processors is unknown",
        )
        return False
    if len(active) <= usable:
        report.fine(f"{len(active)} threads are in active regions, and the process may use {words}")
        return False
    nested = any((row.active_level or 0) > 1 for row in members)
    whole = max(1, int(usable))
    report.add(
        "nested_oversubscription" if nested else "oversubscription",
        "warning",
        f"{at_least}{len(active)} threads",
        f"{at_least}{len(active)} threads are in active{' nested' * nested} regions, and the process may use {words}",
        "they take turns on the processors: at each barrier all wait for those that have not had their turn",
        f"OMP_NUM_THREADS={whole}"
        + " OMP_MAX_ACTIVE_LEVELS=1" * nested
        + (f"; {remedy}" if remedy else _or_more(whole)),
    )
    return True


def _or_more(whole: int) -> str:
    return f", or allow more processors than {whole} (taskset, the batch system, docker run --cpus)"


def _usable(session: Session) -> tuple[float | None, str, str]:
    # Return how many processors the process may use, and that in words. If it is unknown, return None, and the reason
    # as the third result.
    try:
        count = len(session.process.system.allowed_processors())
    except Unavailable as error:
        counted = counted_processors(session)
        if counted is None:
            return None, "", f"{error}, and no runtime in it has counted them"
        runtime, count = counted
        return count, f"{count} processor{'s' * (count != 1)}, as {runtime} counted when it began", ""
    words = f"{count} processor{'s' * (count != 1)} (Cpus_allowed_list)"
    process_id = session.target.process_id
    assert process_id is not None  # otherwise its processors are unknown
    try:
        quotas = groups.quotas(process_id, Roots())
    except Unavailable as error:
        return count, f"{words} if no control group allows it less: {error}", ""
    least = min(quotas, key=lambda quota: quota.processors, default=None)
    if least is None or least.processors >= count:
        return count, words, ""
    return least.processors, f"the time of {least.processors:g} of {words} ({least.file})", ""


def _active_waits(report: Report, variables: Mapping[str, str], kinds: Collection[str]) -> None:
    llvm = bool({"libomp", "libiomp5"} & set(kinds))
    settings: list[tuple[str, str]] = []
    if variables.get("OMP_WAIT_POLICY", "").lower() == "active":
        settings.append(("OMP_WAIT_POLICY", "OMP_WAIT_POLICY=passive"))
    if "libgomp" in kinds and _spins_long(variables.get("GOMP_SPINCOUNT", "")):
        settings.append(("GOMP_SPINCOUNT", "unset GOMP_SPINCOUNT"))
    if llvm and _blocks_late(variables.get("KMP_BLOCKTIME", "")):
        settings.append(("KMP_BLOCKTIME", "KMP_BLOCKTIME=0"))
    if llvm and variables.get("KMP_LIBRARY", "").lower() == "turnaround":
        settings.append(("KMP_LIBRARY", "KMP_LIBRARY=throughput"))
    for name, remedy in settings:
        report.add(
            "active_wait",
            "warning",
            name,
            f"{name}={variables[name]}, and there are more threads than processors",
            "threads that wait spin on the processors that those need for which they wait",
            remedy,
        )


def _spins_long(text: str) -> bool:
    word = text.strip().lower()
    units = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}  # as libgomp's manual has them
    scale = units.get(word[-1:], 1)
    digits = word[:-1].strip() if scale != 1 else word
    return word.startswith("infinit") or (digits.isdecimal() and int(digits[:20]) * scale >= _MANY_SPINS)


def _blocks_late(text: str) -> bool:
    word = text.strip().lower()
    scale = 0.001 if word.endswith("us") else 1
    digits = word.removesuffix("us").removesuffix("ms").strip()
    return word.startswith("infinit") or (digits.isdecimal() and int(digits[:20]) * scale >= _LONG_MS)


# Stacks


def _stacks(
    session: Session, report: Report, threads: Sequence[ThreadRecord], variables: Mapping[str, str], at_least: str
) -> None:
    extents = session.process.stack_extents()
    for row in threads:
        if row.failed and row.si_addr is not None and row.native_thread_id is not None:
            _overflow(report, extents, row, row.native_thread_id, row.si_addr)
    sizes: dict[int, list[int]] = {}
    for row in threads:
        if row.thread_type != "worker" or row.native_thread_id is None:
            continue
        try:
            extent = extents.of(row.native_thread_id)
        except Unavailable:
            continue
        if not extent.is_first:
            sizes.setdefault(extent.size, []).append(row.native_thread_id)
    if not sizes:
        return
    least = min(sizes)
    if least >= _SMALL_STACK:
        report.fine(f"workers have stacks of {_size(least)} or more")
        return
    count = sum(len(found) for size, found in sizes.items() if size < _SMALL_STACK)
    names = ("OMP_STACKSIZE", "KMP_STACKSIZE", "GOMP_STACKSIZE")
    setting = next((f" ({name}={variables[name]})" for name in names if name in variables), "")
    report.add(
        "small_stacks",
        "note",
        f"{at_least}{count} worker{'s' * (count != 1)}",
        f"{at_least}{count} worker{'s have' if count != 1 else ' has'} a stack of {_size(least)}{setting}",
        "larger private arrays and deep recursion overflow it",
        "OMP_STACKSIZE=16M",
    )


def _overflow(report: Report, extents: StackExtents, row: ThreadRecord, thread: int, address: int) -> None:
    try:
        below = extents.overrun(thread, address)
        extent = extents.of(thread)
    except Unavailable:
        return
    if below is None:
        return
    number = f" (OpenMP {row.thread_num}/{row.team_size})" if row.thread_num is not None else ""
    enough = 16
    while enough << 20 < 4 * (extent.size + below) and enough < 1 << 16:
        enough *= 2
    report.add(
        "stack_overflow",
        "error",
        f"thread {thread}",
        f"thread {thread}{number} failed at {address:#x}, {below} bytes below its stack of {_size(extent.size)}",
        "a stack overflow is likely: the stack was too small for its private arrays or its recursion",
        "ulimit -s unlimited, in the shell that starts the program" if extent.is_first else f"OMP_STACKSIZE={enough}M",
    )


def _size(count: int) -> str:
    if count >= 1 << 20:
        return f"{count / (1 << 20):.4g} MB"
    return f"{count / (1 << 10):.4g} KB"


# fork()


def _fork(session: Session, report: Report, threads: Sequence[ThreadRecord]) -> None:
    if not is_fork(session):
        return
    inside = [row for row in threads if row.team_size is not None and row.team_size > 1]
    gone = {} if inside else gone_threads(session)
    for runtime, pool in gone.items():
        count = len(pool)
        report.add(
            "fork_child",
            "warning",
            f"process {session.target.process_id}",
            f"the process has one thread, and {runtime} keeps {count} more in its pool: fork() made it after a region",
            "the next region waits for these threads for ever",
            "no fork() once OpenMP is used; in Python multiprocessing.set_start_method('spawn') or 'forkserver'",
        )
    for row in inside:
        assert row.team_size is not None
        others = row.team_size - 1
        report.add(
            "fork_child",
            "warning",
            f"process {session.target.process_id}",
            f"the process has one thread, and its team had {others} more: fork() made it inside of a region",
            "whatever waits for these threads waits for ever: the end of the region, and in libgomp any later one",
            "no fork() once OpenMP is used; in Python multiprocessing.set_start_method('spawn') or 'forkserver'",
        )
