"""The OpenMP runtimes of a process: which cannot be read and why, and what follows from several of them."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.contract.plugin import ThreadHandle
from ompd.errors import LayoutUnavailable, NotInitialised, OmpdError
from ompd.machine.report import Report
from ompd.model import RuntimeRecord
from ompd.model.findings import LoadChain
from ompd.questions.facts.damage import NO_RUNTIME, is_damaged
from ompd.safety.quoting import quote_file
from ompd.session import LoadedRuntime, Session

_LLVM = frozenset(("libomp", "libiomp5"))


def examine(session: Session, rows: Sequence[RuntimeRecord]) -> tuple[Report, ...]:
    """Return which runtimes cannot be read (area ``target``), and the risks of several (area ``process``).

    :param rows: the records of the runtimes
    """
    readable, risks = Report("target"), Report("process")
    loaded = session.runtimes
    for runtime, row in zip(loaded, rows, strict=True):
        _readable(readable, runtime, row)
    if not loaded and not session.stop.lost_runtimes:
        _none(session, readable)
    if len(loaded) > 1:
        _several(session, risks)
    elif loaded and not session.stop.lost_runtimes:
        risks.fine(f"one OpenMP runtime: {loaded[0].found.module.name}")
    return readable, risks


def _none(session: Session, report: Report) -> None:
    lost = "there are no OpenMP threads, regions and tasks to show; `ompd stack --raw` shows the stacks"
    if is_damaged(session):
        report.unknown("no_runtime", "OpenMP", NO_RUNTIME, lost)
        return
    count = len(session.process.symbols.modules())
    report.add(
        "no_runtime",
        "error",
        "OpenMP",
        f"no OpenMP runtime among the {count} modules of the process",
        lost,
        "link the program with -fopenmp; if it loads OpenMP later, inspect it then",
    )


# Runtimes that cannot be read, or not as well as they could be


def _readable(report: Report, runtime: LoadedRuntime, row: RuntimeRecord) -> None:
    fault, name = runtime.fault, runtime.found.module.name
    if isinstance(fault, NotInitialised):
        report.add(
            "runtime_not_initialised",
            "note",
            name,
            str(fault),
            "no thread of the process is an OpenMP thread of it yet",
            None,
        )
    elif isinstance(fault, LayoutUnavailable):
        report.add(
            *("runtime_layout", "error", name, str(fault)),
            "none of its threads, regions and tasks can be read",
            "install its debug information, and make a table of it: ompd layout add FILE.debug"
            f" (FILE.debug is the debug file of {quote_file(name)}); or --debug-dir FOLDER, --debuginfod",
        )
    elif runtime.space is None:
        why = str(fault) if fault is not None else f"{name} is a runtime for which ompd has no plugin"
        hint = fault.hint if fault is not None else "--plugins FOLDER names a plugin for it"
        report.add(
            *("runtime_unreadable", "error", name, why, "none of its threads, regions and tasks can be read"),
            hint or None,
        )
    else:
        report.fine(f"{row.id} can be read (layout: {row.layout or 'unknown'})")
        if row.keeps_states is False and row.kind in _LLVM:
            report.add(
                "omp_debug",
                "note",
                name,
                f"{row.id} keeps no states: OMP_DEBUG was not enabled, and no tool was loaded, when it began",
                "states are derived from stacks, barriers and locks; tasks have no frames, and there are no events",
                "start the program with OMP_DEBUG=enabled",
            )


# Several runtimes


def _several(session: Session, report: Report) -> None:
    loaded = session.runtimes
    kinds = [runtime.found.kind for runtime in loaded]
    both = sum(runtime.space is not None and runtime.is_initialised for runtime in loaded) > 1
    severity, why, remedy = _mixture(kinds, are_used=both)
    uses = "; ".join(_use(session, runtime) for runtime in loaded)
    names = ", ".join(dict.fromkeys(runtime.found.module.name for runtime in loaded))
    report.add(
        "duplicate_runtimes",
        severity,
        names,
        f"{len(loaded)} OpenMP runtimes are in this process: {uses}",
        why,
        remedy,
        chains=_chains(session),
    )


def _use(session: Session, runtime: LoadedRuntime) -> str:
    name = f"{runtime.id} ({runtime.found.module.name})"
    if not runtime.is_initialised:
        return f"{name} is not initialised"
    if runtime.space is None:
        return f"{name} cannot be read, so whether it has threads is unknown"
    try:
        threads = [handle for handle in runtime.space.threads() if _is_here(session, handle)]
    except OmpdError as error:
        return f"{name} is initialised, and its threads cannot be read ({error})"
    return f"{name} is initialised and has {len(threads)} thread{'s' * (len(threads) != 1)}"


def _is_here(session: Session, handle: ThreadHandle) -> bool:
    try:
        return handle.native_thread_id() in session.process.threads.ids()
    except OmpdError:
        return False


def _mixture(kinds: Sequence[str], *, are_used: bool) -> tuple[str, str, str]:
    # How bad it is, why, and what mends it.
    llvm = [kind for kind in kinds if kind in _LLVM]
    gnu = kinds.count("libgomp")
    pools = "each has a pool of its own, so that together they start more threads than either was allowed"
    if len(llvm) > 1:
        same = "copies of one runtime" if len(set(llvm)) == 1 else "LLVM's and Intel's runtime, which share their code"
        return (
            "error" if are_used else "warning",
            f"they are {same}: both export the same __kmp symbols, so that calls of one may end in the other; the"
            f" second one ends the program (OMP: Error #15) unless KMP_DUPLICATE_LIB_OK is set, and then deadlocks,"
            f" crashes and wrong results are known; {pools}",
            "keep one: link all modules with the same file, or install all packages from one channel",
        )
    if gnu > 1:
        return (
            "warning",
            f"they are copies of libgomp: omp_set_num_threads(), locks and threadprivate variables of one mean nothing"
            f" to the other; {pools}",
            "keep one: install all packages from one channel, or build one of them against the other's libgomp",
        )
    if gnu and llvm:
        return (
            "note",
            f"libgomp and {llvm[0]} work beside each other, as far as is known; {pools}; a child of fork() can go on"
            f" with {llvm[0]}'s regions, and hangs in libgomp's; {llvm[0]} exports GOMP_ routines, too, so that gcc's"
            " code may call it",
            f"to keep one, link gcc's modules with {llvm[0]} in place of libgomp, or set the number of threads of one"
            " to 1",
        )
    return "note", f"what this mixture does is unknown; {pools}", "keep one"


def _chains(session: Session) -> tuple[LoadChain, ...]:
    needed = session.process.dependencies()
    chains = []
    for runtime in session.runtimes:
        chain = needed.chain(runtime.found.module)
        chains.append(
            LoadChain(
                module=runtime.found.module.name,
                begins=chain.begins,
                modules=tuple(module.name for module in chain.modules),
                needed_by=tuple(module.name for module in chain.needed_by),
                unavailable={"begins": chain.fault} if chain.fault is not None else {},
            )
        )
    return tuple(chains)
