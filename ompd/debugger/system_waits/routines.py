"""The routine of the C library, of MPI or of Python in which a thread waits, by the functions on its stack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ompd.contract.process import Module, Shape, Stack
from ompd.debugger.places import Places
from ompd.debugger.stacks.calls import Calls
from ompd.debugger.symbols import Symbols

_MAX_FRAMES = 128
_MAX_OWN = 24  # the most innermost frames that count as the C library's

KINDS = {
    **dict.fromkeys(("pthread_mutex_lock", "pthread_mutex_timedlock", "pthread_mutex_clocklock"), "mutex"),
    **dict.fromkeys(("pthread_mutex_cond_lock", "mtx_lock", "mtx_timedlock"), "mutex"),
    **dict.fromkeys(("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait"), "condition"),
    **dict.fromkeys(("cnd_wait", "cnd_timedwait"), "condition"),
    **dict.fromkeys(("pthread_join", "pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join"), "join"),
    **dict.fromkeys(("pthread_timedjoin_ex", "pthread_clockjoin_ex"), "join"),
    **dict.fromkeys(("sem_wait", "sem_timedwait", "sem_clockwait"), "semaphore"),
    **dict.fromkeys(("pthread_rwlock_rdlock", "pthread_rwlock_timedrdlock", "pthread_rwlock_clockrdlock"), "rwlock"),
    **dict.fromkeys(("pthread_rwlock_wrlock", "pthread_rwlock_timedwrlock", "pthread_rwlock_clockwrlock"), "rwlock"),
    "pthread_barrier_wait": "pthread_barrier",
    **dict.fromkeys(("pthread_once", "call_once", "cxa_guard_acquire"), "once"),
}
"""The kind of object that a routine waits for, by its name without leading underscores."""

ENDLESS = frozenset(name for name in KINDS if "timed" not in name and "clock" not in name)
"""The routines without a time limit."""

# Functions of the C library in a statically linked program: functions that the routines in KINDS call, and other
# functions that wait.
_OWN = re.compile(
    r"lll_\w*lock_wait\w*|futex_wait|futex_lock_pi\w*|futex_abstimed_wait\w*|do_futex_wait|sem_wait_\w+"
    r"|pthread_(?:mutex|cond|rwlock|once|barrier|clockjoin|timedjoin)_\w+|syscall_cancel\w*|internal_syscall_cancel"
    r"|nanosleep|clock_nanosleep\w*|u?sleep|thrd_sleep|p?poll|p?select|epoll_p?wait2?|readv?|writev?|p?read64|p?write64"
    r"|accept4?|connect|recv(?:from|msg|mmsg)?|send(?:to|msg|mmsg)?|wait(?:pid|id|[34])?|sigwait(?:info)?"
    r"|sigtimedwait\w*|sigsuspend|pause|flock|fcntl\w*|open(?:at)?(?:64)?|syscall"
)
_C_LIBRARY = re.compile(
    r"(?:^|/)(?:libc|libpthread|librt|ld-linux[-\w]*|ld-musl[-\w]*|ld|libc\.musl[-\w]*)(?:-\d[\d.]*)?\.so(?:\.\d+)*"
    r"(?: \(deleted\))?$|^\[?(?:vdso|linux-vdso|linux-gate)"
)
_BY_COMPILER = re.compile(r"\.(?:constprop|part|isra|cold|lto_priv)\.?\d*")
# Routines of MPI. A Fortran program may have own routines called mpi_…, although the standard reserves these names. So
# lower-case names count only for routines that may wait.
_MPI = re.compile(
    r"P?MPI_[A-Z][A-Za-z0-9_]*|p?mpi_(?:[bsr]?send|send(?:_init)?|m?recv|sendrecv(?:_replace)?|m?probe|wait(?:all|any|some)?"
    r"|test(?:all|any|some)?|barrier|bcast|(?:all)?gatherv?|scatterv?|alltoall[vw]?|(?:all)?reduce|reduce_scatter(?:_block)?"
    r"|(?:ex)?scan|init(?:_thread)?|finalize|abort|start(?:all)?|parrived|comm_(?:dup|split|create|free|spawn|accept|connect)"
    r"|comm_(?:create_group|split_type|disconnect|dup_with_info)|intercomm_(?:create|merge)|cart_create|graph_create"
    r"|win_(?:create|allocate|free|fence|(?:un)?lock(?:_all)?|flush(?:_all)?|start|complete|post|wait)"
    r"|file_(?:open|close|sync|(?:i?read|i?write)\w*))_{1,2}"
)
# CPython, Python/ceval_gil.c: the function that waits for the interpreter lock. If its name was stripped, its callers
# show the wait.
_TAKES_GIL = "take_gil"
_CALLERS_OF_IT = frozenset(
    (
        *("PyEval_RestoreThread", "PyEval_AcquireThread", "PyEval_AcquireLock", "PyGILState_Ensure"),
        *("_PyThreadState_Attach", "_PyEval_EvalFrameDefault", "_Py_HandlePending"),
    )
)
# libstdc++, bits/atomic_futex.h: the shared state of a future waits in functions of this class.
_FUTURE = "_ZNSt28__atomic_futex_unsigned_base"
# libstdc++, bits/atomic_wait.h: the name of an instance of the waiting template contains the function that supplied the
# condition.
_ATOMIC_WAITS = {"NKSt5latch4wait": "latch", "NKSt14__tree_barrierI": "std_barrier"}
_MAX_ATOMIC = 8  # the most frames of libstdc++ around a wait for a latch or barrier
_TIMED = frozenset(("pthread_cond_timedwait", "pthread_cond_clockwait"))
POOLS = {
    "blas_thread_server": "the thread pool of OpenBLAS",  # driver/others/blas_server.c
    "_Z9th_workerPv": "the thread pool of numexpr",  # numexpr/module.cpp
    # oneTBB, src/tbb/private_server.cpp; TBB up to 2020, the same file
    "_ZN3tbb6detail2r13rml14private_worker3runEv": "the thread pool of oneTBB",
    "_ZN3tbb8internal3rml14private_worker3runEv": "the thread pool of TBB",
    "_ZN3c1010ThreadPool9main_loopEm": "the thread pool of PyTorch",  # c10/core/thread_pool.cpp
    # CPython, Modules/_queuemodule.c: threads of ThreadPoolExecutor wait here.
    "_queue_SimpleQueue_get": "a queue of Python",
}
"""Thread pools, by the symbol of the function in which their idle threads wait for work."""
# Functions that may be on the stack between a function in POOLS and the C library's routine.
_BETWEEN = re.compile(
    r"_ZNSt18condition_variable\w*4wait\w*|_?Py(?:Thread|Semaphore|ParkingLot)_\w+|_queue_SimpleQueue_get_impl"
)
_POOL_WAITS = (None, "condition", "semaphore")  # None: the pool makes the system call itself


class Callers(NamedTuple):
    """The facts about a wait that follow from the functions on the stack.

    ``routine`` is the function of the C library that other code called, None if it is unknown, or if the thread is not
    in the C library. ``kind`` is the kind of object that the thread waits for, None if no name shows it.
    ``inner_count`` is how many of the innermost frames belong to the C library, or to libstdc++ if its functions show
    the kind. ``mpi`` is the function of MPI that the thread is in, None outside of MPI. ``python`` is the module of
    CPython if the thread waits for the interpreter lock, else None. ``pool`` is the thread pool if the thread waits
    there for work, else None.
    """

    routine: str | None
    kind: str | None
    inner_count: int
    mpi: str | None
    python: Module | None
    pool: str | None


def plain(symbol: str) -> str:
    """Return the name of a C library's function without its version, a compiler's suffix, and prefixes of aliases."""
    name = _BY_COMPILER.sub("", symbol.partition("@")[0]).removeprefix("__GI_").lstrip("_").removeprefix("libc_")
    return name.removeprefix("new_") if name.startswith("new_sem_") else name


class Routines:
    """The routines in which threads wait. Stacks of the same shape are examined once."""

    def __init__(self, symbols: Symbols, places: Places, calls: Calls) -> None:
        self._symbols, self._places, self._calls = symbols, places, calls
        self._callers: dict[Shape, Callers] = {}
        self._is_static = not any(_C_LIBRARY.search(m.name) and "[" not in m.name for m in symbols.modules())

    def of(self, stack: Stack) -> Callers:
        """Return the facts about a wait that follow from the functions on *stack*."""
        callers = self._callers.get(stack.shape)
        if callers is None:
            callers = self._callers[stack.shape] = self._of(*stack.shape)
        return callers

    def _of(self, pcs: Sequence[int], sites: Sequence[int]) -> Callers:
        names: list[tuple[Module | None, str | None]] = []
        for site in sites[:_MAX_FRAMES]:
            place = self._places.locate(site)
            names.append((place.module, place.symbol))
        inner_count = self._own_frames(names)
        kind = None
        for _, name in names[:inner_count]:
            kind = kind or KINDS.get(plain(name or ""))
        routine = self._routine(pcs, names, inner_count)
        kind = kind or KINDS.get(routine or "")
        if (
            inner_count < len(names) and plain(names[inner_count][1] or "") == "cxa_guard_acquire"
        ):  # C++ initialises a static variable
            kind, routine = "once", names[inner_count][1]
        elif inner_count < len(names) and (names[inner_count][1] or "").startswith(_FUTURE):
            kind = "future"
        elif kind is None and inner_count:
            kind, inner_count = _atomic_wait(names, inner_count)
        pool = _pool(names[inner_count:]) if kind in _POOL_WAITS else None
        return Callers(
            routine, kind, inner_count, _mpi(names), _python(names[inner_count : inner_count + 4], routine), pool
        )

    def _own_frames(self, names: Sequence[tuple[Module | None, str | None]]) -> int:
        for index, (module, name) in enumerate(names[:_MAX_OWN]):
            if module is not None and _C_LIBRARY.search(module.name):
                continue
            is_inside = self._is_static and module is not None and name is not None
            if not is_inside or not (plain(name or "") in KINDS or _OWN.fullmatch(plain(name or ""))):
                return index
        return min(len(names), _MAX_OWN)

    def _routine(
        self, pcs: Sequence[int], names: Sequence[tuple[Module | None, str | None]], inner_count: int
    ) -> str | None:
        if not inner_count:
            return None
        module, symbol = names[inner_count - 1]
        if inner_count < len(names):
            # The caller's call instruction shows the called routine, even if the routine has left the stack by a jump.
            called = self._calls.routine_called(pcs[inner_count])
            if called is not None and module is not None:
                name = plain(called)
                if name in KINDS or _OWN.fullmatch(name) or self._symbols.find(module, called.partition("@")[0]):
                    return name
        if symbol is not None and inner_count < len(names):
            return plain(symbol)
        waiting = [plain(name) for _, name in names[:inner_count] if name is not None and plain(name) in KINDS]
        return waiting[-1] if waiting else None


def _python(outer: Sequence[tuple[Module | None, str | None]], routine: str | None) -> Module | None:
    # Return the module of CPython if the functions in *outer*, which called the C library, wait for the interpreter
    # lock, else None.
    for module, name in outer:
        if name is not None and plain(name) == _TAKES_GIL:
            return module
        if name in _CALLERS_OF_IT and routine in _TIMED:
            return module
        if name is not None:
            return None
    return None


def _atomic_wait(names: Sequence[tuple[Module | None, str | None]], inner_count: int) -> tuple[str | None, int]:
    # Return the kind of object that a function of libstdc++ waits for, and how many innermost frames there are with
    # this function. The kind is None, and the number *inner_count*, without such a function.
    for index, (_, name) in enumerate(names[inner_count : inner_count + _MAX_ATOMIC], inner_count):
        if name is None or not name.startswith(("_ZNSt", "_ZNKSt", "_ZSt")):
            break
        kind = next((kind for part, kind in _ATOMIC_WAITS.items() if part in name), None)
        if kind is not None:
            return kind, index + 1
    return None, inner_count


def _pool(outer: Sequence[tuple[Module | None, str | None]]) -> str | None:
    for _, symbol in outer:
        name = _BY_COMPILER.sub("", symbol or "")
        if not _BETWEEN.fullmatch(name):
            return POOLS.get(name)
    return None


def _mpi(names: Sequence[tuple[Module | None, str | None]]) -> str | None:
    # Return the outermost function of MPI. None if it has called code of the program, such as the operation of a
    # reduction: then the thread works and does not wait.
    indexes = [index for index, (_, name) in enumerate(names) if name is not None and _MPI.fullmatch(name)]
    if not indexes:
        return None
    library, routine = names[indexes[-1]]
    inside = (module for module, name in names[: indexes[-1]] if name is None or not _MPI.fullmatch(name))
    is_library = library is None or not library.is_program
    if is_library and any(module is not None and module.is_program for module in inside):
        return None
    # Libraries have each routine under two names: programs call the name without a P, tools the name with a P.
    return routine.removeprefix("P") if routine is not None and routine.startswith("PMPI_") else routine
