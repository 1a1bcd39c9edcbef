"""The beginning and end of a query: its runtimes, its budget of reads, and the warnings of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from ompd.contract.plugin import ThreadHandle
from ompd.errors import BadInput, NoAnswer, NoCall, OmpdError, Unavailable
from ompd.model import Answer, RuntimeRecord
from ompd.questions.facts.damage import changes, is_damaged, is_fork, losses, raise_no_runtime
from ompd.questions.facts.gathering import Problems
from ompd.runtimes.layout import table
from ompd.session import LoadedRuntime, Session

Item = TypeVar("Item")
Row = TypeVar("Row")


class _Named(Protocol):
    @property
    def id(self) -> str: ...


_Row = TypeVar("_Row", bound=_Named)


def begin(session: Session) -> Problems:
    """Begin a query, with a fresh budget of reads."""
    session.process.memory.begin_question()
    return Problems()


def each(session: Session, items: Iterable[Item], record: Callable[[Item], Row]) -> Iterator[Row]:
    """Yield the record of each item, until the query's budget of reads is spent."""
    for item in items:
        row = record(item)
        if session.process.memory.spent is not None:
            return  # the row may be wrong, because its last reads were refused
        yield row


def readable_runtimes(session: Session, problems: Problems, *, needed: bool = True) -> Iterator[LoadedRuntime]:
    """Yield the runtimes that have handles, and warn about those that cannot be read.

    :param needed: whether the query has no answer without a runtime
    :raises NoAnswer: if there is no such runtime, nor one that is not initialised yet
    """
    unread = [runtime for runtime in session.runtimes if runtime.space is None and runtime.is_initialised]
    reasons = [_reason(runtime) for runtime in unread]
    usable = [runtime for runtime in session.runtimes if runtime.space is not None]
    waiting = [runtime for runtime in session.runtimes if not runtime.is_initialised]
    if not usable and not waiting and (needed or not (reasons or session.stop.lost_runtimes)):
        _raise_no_answer(session, reasons)
    for runtime, (reason, hint) in zip(unread, reasons, strict=True):
        if isinstance(runtime.fault, NoCall):
            problems.note(reason)
            continue
        threads = session.stop.threads_inside(runtime.found.module)
        if is_damaged(session):
            problems.incomplete(reason)  # truncated stacks hide how many threads are in its code
        elif threads:
            are = "thread is" if threads == 1 else "threads are"
            problems.incomplete(f"{reason}, and {threads} {are} in its code" + (f"; {hint}" if hint else ""))
        else:
            problems.note(f"{reason}; no thread is in its code")
    for runtime in waiting:
        problems.note(not_begun(runtime))
    for fault in session.stop.lost_libraries:
        problems.incomplete(f"{fault}: an OpenMP runtime in it would not be seen")
    yield from usable


def has_no_handles(session: Session) -> bool:
    """Return whether the library that serves a runtime has no functions for threads, regions and tasks (DMPL)."""
    return any(isinstance(runtime.fault, NoCall) for runtime in session.runtimes)


def not_begun(runtime: LoadedRuntime) -> str:
    """Return the note on a runtime that is not initialised. It leaves nothing unread: it has no threads yet."""
    return f"{runtime.fault}: no thread of the process is an OpenMP thread of it"


def _reason(runtime: LoadedRuntime) -> tuple[str, str]:
    if runtime.fault is not None:
        return str(runtime.fault), runtime.fault.hint
    return f"{runtime.found.module.name} {NO_PLUGIN}", _NO_PLUGIN_HINT


NO_PLUGIN = "has ompd_dll_locations, and ompd has no plugin for its runtime"
_NO_PLUGIN_HINT = "`ompd runtimes` shows the libraries that it names; --plugins DIR names a folder with a plugin for it"
_FILES_HINT = (
    "put the files of the run there, or name their folder: --sysroot DIR for all of them, --exe FILE for the program,"
    " --debug-dir DIR for one with .build-id in it"
)


def _raise_no_answer(session: Session, unread: Sequence[tuple[str, str]]) -> None:
    # *unread*: the reason and the hint of each runtime that cannot be read.
    name = session.target.name if session.fault is None else f"{session.target.name}: {session.fault}"
    raise_no_runtime(session, name, [*(reason for reason, _ in unread), *session.stop.lost_runtimes])
    if unread:
        reasons = [*(reason for reason, _ in unread), *map(str, table.user_tables()[1])]
        raise NoAnswer(f"{name}: " + "; ".join(reasons), hint=unread[0][1])
    if session.stop.lost_runtimes:
        raise NoAnswer(f"{name}: " + "; ".join(session.stop.lost_runtimes), hint=_FILES_HINT)
    modules = session.process.symbols.modules()
    if not modules:
        hint = "take the core with the kernel or with gcore"
        if session.target.kind == "lldb":
            hint = f"LLDB may have another program than the one that ran: {session.process.finder.program_option}"
        raise NoAnswer(f"{name}: names none of the program's files", hint=hint)
    raise NoAnswer(
        f"{name}: no OpenMP runtime among its {len(modules)} modules",
        hint="the program was not linked with one, or ended before it was loaded",
    )


def threads_of(runtime: LoadedRuntime, problems: Problems) -> Sequence[ThreadHandle]:
    """Return the handles of a runtime's threads. If they cannot be read, return none and report that to *problems*."""
    try:
        return runtime.space.threads() if runtime.space is not None else ()
    except OmpdError as error:
        problems.missing(f"{runtime.id}: threads", error)
        return ()


def native_thread(session: Session, handle: ThreadHandle) -> int:
    """Return the operating system's identifier of an OpenMP thread.

    :raises Unavailable: if fork() made this process, and did not copy the thread
    """
    try:
        return handle.native_thread_id()
    except BadInput as error:
        if is_fork(session):
            raise Unavailable(f"{error}, which has one thread: it is a fork") from error
        raise


def note_first_thread(session: Session, problems: Problems) -> None:
    """Note that the process's first thread has ended, because it has no row then."""
    first, threads = session.target.process_id, session.process.threads.ids()
    if first is not None and threads and first not in threads and not is_damaged(session):
        problems.note(f"the process's first thread, {first}, is not listed: it has ended, and other threads have not")


def name_thread(session: Session, handle: ThreadHandle) -> str:
    """Return a thread's name in messages: its native id, or the address of the runtime's data."""
    try:
        return f"thread {native_thread(session, handle)}"
    except OmpdError:
        return f"the thread whose data the runtime has at {handle.address:#x}"


def program_faults(session: Session) -> list[str]:
    """Return the fault of the program's file, empty if there is none."""
    faults = [
        module.fault for module in session.process.symbols.modules() if module.is_program and module.fault is not None
    ]
    return [
        f"the program's file is missing or wrong: {fault}; functions, lines and variables of the program are unknown,"
        f" and an OpenMP runtime in it would not be seen; {session.process.finder.program_option} names the right one"
        for fault in faults
    ]


def answer(
    session: Session, rows: Sequence[Row], runtimes: tuple[RuntimeRecord, ...], problems: Problems
) -> Answer[Row]:
    """Return the answer with *rows* and all warnings, those about a damaged target first."""
    damage = [f"{m.damaged_bytes} of {m.name}" for m in session.process.symbols.modules() if m.damaged_bytes]
    if damage:
        problems.first([f"the target is damaged: bytes that it holds are not those of its files: {', '.join(damage)}"])
    problems.first(program_faults(session))
    problems.first(losses(session))
    problems.first(changes(session))
    if session.fault is not None:
        problems.first([f"{session.target.name}: {session.fault}; copy it again completely"])
    if any(runtime.layout in (table.SOURCE, None) for runtime in runtimes):
        for fault in table.user_tables()[1]:
            problems.note(str(fault))
    for error in session.hosted_faults:
        problems.incomplete(f"--ompd-library: {error}; it is given up" + (f" ({error.hint})" if error.hint else ""))
    for text in session.hosted_notes:
        problems.note(text)
    if session.note is not None:
        problems.note(f"{session.target.name}: {session.note}")
    for path, why in session.process.finder.passed_by.items():
        problems.note(f"{path} {why}")
    spent = session.process.memory.spent
    if spent is not None:
        problems.incomplete(f"{spent}; what is shown was read before")
    return Answer(session.stop.record, runtimes, tuple(rows), problems.complete, problems.warnings)


def as_tree(rows: Sequence[_Row], parent_of: Callable[[_Row], str | None]) -> list[_Row]:
    """Return the rows depth first, each after its parent, if that is among them. Siblings keep their order.

    :param parent_of: returns the id of a row's parent
    """
    ids = {row.id for row in rows}
    children: dict[str | None, list[_Row]] = {}
    for row in rows:
        parent = parent_of(row)
        children.setdefault(parent if parent in ids else None, []).append(row)
    # No recursion, because a target may claim any depth.
    tree: list[_Row] = []
    waiting = children.pop(None, [])[::-1]
    while waiting:
        row = waiting.pop()
        tree.append(row)
        inner = children.pop(row.id, None)
        if inner is not None:
            waiting += inner[::-1]
    # The rows that are left are in circles of parents.
    return tree + [row for group in children.values() for row in group]
