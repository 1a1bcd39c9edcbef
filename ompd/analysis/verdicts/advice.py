"""What to change in a program, or to look at next, for each kind of verdict."""

from __future__ import annotations

from ompd.model import Link, VerdictRecord
from ompd.model.kinds import Confidence, Kind, VerdictKind

_SURE = (Confidence.PROVEN, Confidence.LIKELY)
_ADVICE = {
    VerdictKind.LOCK_ABANDONED: (
        "look for a path that leaves this code without unlocking it: a return, a break, an exception",
    ),
    VerdictKind.BARRIER_ABSENT: (
        "let every thread of the team reach every barrier; omp for, sections, single and parallel end with one, too",
    ),
    VerdictKind.BARRIER_MISMATCH: (
        "take the barrier out of the branch or loop, or make the condition the same in all threads of the team",
    ),
    VerdictKind.ORPHANED_WORKSHARING: (
        "let all threads of the team reach this line, or take the barrier or omp for, sections, single away from it",
    ),
    VerdictKind.TASK_DEPENDENCE_CYCLE: (
        "release the lock before the taskwait or taskgroup, or do not take it in a task that others depend on",
    ),
    VerdictKind.EVENT_UNFULFILLED: (
        "call omp_fulfill_event() once for this event on every path, also when something fails",
    ),
    VerdictKind.TASKWAIT_STARVED: (
        "do not let one task wait in a loop for another: use depend clauses; remove untied from these tasks",
    ),
    VerdictKind.FORK_CHILD: (
        "fork before the first parallel region, or call exec in the child",
        'in Python: multiprocessing.set_start_method("spawn"), once, first thing under if __name__ == "__main__"',
    ),
    VerdictKind.RUNTIME_REENTRY: (
        "use no OpenMP in code that interrupts it, such as a signal handler: set a flag there, and do the work later",
    ),
    VerdictKind.DUPLICATE_RUNTIMES: (
        "build all libraries with the same compiler's OpenMP; ompd runtimes shows who has loaded which runtime",
    ),
    VerdictKind.LOST_WAKEUP: (
        "look for code that overwrites the lock without omp_set_lock or omp_unset_lock: memset, a copy, a second"
        " omp_init_lock",
    ),
    VerdictKind.RUNTIME_UNLOADED: (
        "keep the runtime loaded: link the program with it, open its library with RTLD_NODELETE, or omit dlclose",
    ),
    VerdictKind.OVERSUBSCRIBED: (
        "start fewer threads (OMP_NUM_THREADS), or let waiting threads sleep (OMP_WAIT_POLICY=passive)",
    ),
    VerdictKind.LAGGARD: (
        "look again later: a thread that is still at the same line may loop for ever, one at another line is slow",
    ),
    VerdictKind.SPIN_WAIT: (
        "look for the code that should write this word, and for the reason why no thread comes there",
    ),
    VerdictKind.EXTERNAL_WAIT: (
        "look at the other side: the process, rank or thread that should send, signal or answer",
    ),
}
_TO_LOOK_AT = frozenset(
    (VerdictKind.LAGGARD, VerdictKind.OVERSUBSCRIBED, VerdictKind.EXTERNAL_WAIT, VerdictKind.LOST_WAKEUP)
)


def advice(verdict: VerdictRecord) -> tuple[str, ...]:
    """Return what to change in the program or to look at, nothing if the verdict is too unsure for advice."""
    kind, links = verdict.kind, verdict.cycle
    if kind is VerdictKind.UNDECIDED and links and links[-1].kind in (Kind.LOCK, Kind.NEST_LOCK, Kind.MUTEX):
        return (
            f"look for a path that sets {links[-1].object} and does not release it: a return, a break, an exception",
        )
    if kind not in _TO_LOOK_AT and (verdict.stuck not in _SURE or verdict.confidence not in _SURE):
        return ()
    kinds = {link.kind for link in links}
    if kind is VerdictKind.SELF_LOCK:
        return (_for_self(links[0]),)
    if kind is VerdictKind.LOCK_CYCLE:
        if Kind.BARRIER in kinds:
            return ("release the lock, or leave the critical section, before the barrier",)
        if Kind.DOACROSS in kinds or Kind.ORDERED in kinds:
            return ("hold no lock where a thread waits for an earlier iteration",)
        these = "these locks and critical sections" if Kind.CRITICAL in kinds else "these locks"
        return (f"take {these} in the same order in all threads, or hold only one of them at a time",)
    return _ADVICE.get(kind, ())


def _for_self(link: Link) -> str:
    if link.kind is Kind.CRITICAL:
        return f"do not enter {link.object} from inside of it: give the inner section a name of its own, or remove it"
    if link.kind is Kind.MUTEX:
        return f"unlock {link.object} before this call, or make it recursive"
    return f"release {link.object} before this call, or use a nest lock (omp_set_nest_lock)"
