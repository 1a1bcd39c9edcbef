"""Waits outside of OpenMP in damaged memory, or in memory that no real program can be made to have."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ompd.binary.core.procfs import (
    find_connection,
    parse_signals,
    parse_stat,
    parse_syscall_arguments,
    parse_timers,
)
from ompd.contract.process import Location, Module, Stack
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.system_waits.interpreter_lock import InterpreterLock
from ompd.debugger.system_waits.kernel import Origin
from ompd.debugger.system_waits.objects import AwaitedObject, Owners
from ompd.debugger.system_waits.routines import Callers, Routines, plain
from ompd.errors import MalformedFile, MemoryFault, Unavailable
from ompd.isa.x86.architectures import X86_64
from ompd.model.stalls import SystemWait
from ompd.questions.why.system import system_wait
from ompd.session import Session
from tests.support.hostile import Overlaid
from tests.support.outside import Words, core_of_outside

OWNER, KIND = 8, 16
NOT_FORKED, FORKED = Origin(is_forked=False, parent=900), Origin(is_forked=True, parent=900)


class Core:
    """The core of the waiting program, with other bytes in some places."""

    def __init__(self) -> None:
        self.words: Words = core_of_outside("waits", "kernel")
        self.target = Overlaid(str(self.words.place))

    def object(self, name: str) -> int:
        said: dict[str, Any] = self.words.said[self.words.thread(name)]
        return int(said["object"])

    def wait(self, name: str, **patches: int) -> SystemWait:
        """Return a thread's wait, with other words at some offsets of its object (``at_8=5``)."""
        self.target.reads = 0
        self.target.overlay = {
            self.object(name) + int(at.removeprefix("at_")): struct.pack("<I", value) for at, value in patches.items()
        }
        with Session(self.target, FileFinder()) as session:
            session.target.close = lambda: None  # type: ignore[method-assign]
            found = system_wait(session, self.words.thread(name))
        assert found is not None
        return found


@pytest.fixture(scope="module")
def core() -> Iterator[Core]:
    made = Core()
    close = made.target.close
    yield made
    close()


@pytest.mark.parametrize(
    ("patches", "reason"),
    [
        ({"at_8": 0}, "no owner noted"),
        ({"at_8": 1 << 30}, "no thread can have the number"),
        ({"at_0": 7}, "contradicts itself"),
        ({"at_0": 0}, "nobody holds"),
    ],
    ids=["no owner", "absurd owner", "absurd lock", "free"],
)
def test_a_mutex_that_contradicts_itself_has_no_owner(core: Core, patches: dict[str, int], reason: str) -> None:
    wait = core.wait("mutex_normal", **patches)
    assert (wait.kind, wait.owner, wait.is_owner_alive) == ("mutex", None, None)
    assert reason in wait.unavailable["owner"]


class Woken(Overlaid):
    """A core whose threads have *answer* as the result of a system call."""

    answer: int | None = None

    def registers(self, thread: int) -> Mapping[str, int]:
        found = super().registers(thread)
        return found if self.answer is None else {**found, "rax": self.answer & (1 << 64) - 1}


def test_a_thread_that_was_woken_up_and_has_not_run_yet_does_not_sleep() -> None:
    # The object looks as it did in the thread's sleep: a mutex that was taken again, or a wake-up without a reason.
    words = core_of_outside("waits", "kernel")
    names = ("mutex_normal", "sem", "cond_wait", "join", "rwlock_writer", "at_barrier", "once_waits", "futex_private")
    sleeping = [words.thread(name) for name in (*names, "epolls")]
    # -4 is EINTR. epoll_wait() has it while it is stopped; futex() returns it after a signal handler.
    interrupted = [(answer, sleeping) for answer in (None, -512, -516)]
    for answer, still in (*interrupted, (-4, sleeping[-1:]), (0, []), (-11, [])):
        target = Woken(str(words.place))
        target.answer = answer
        with Session(target, FileFinder()) as session:
            ways = [session.process.waiting.progress(thread) for thread in sleeping]
            waiting = [thread for thread in sleeping if session.process.system_waits.of(thread) is not None]
        assert ways == ["blocked" if thread in still else "spinning" for thread in sleeping], answer
        assert waiting == still, answer


def test_what_is_no_mutex_is_a_word(core: Core) -> None:
    wait = core.wait("mutex_normal", at_16=0xDEADBEEF)
    assert (wait.kind, wait.owner, wait.object) == ("futex", None, core.object("mutex_normal"))


@pytest.mark.parametrize("name", ["mutex_robust", "mutex_inherits"])
@pytest.mark.parametrize(
    ("lock", "reason"),
    [(0x80000000, "nobody holds"), (0xC0000000 | 5, "FUTEX_OWNER_DIED"), (0x80000000 | 4, "contradicts itself")],
    ids=["free", "died", "another"],
)
def test_the_lock_word_of_a_robust_mutex_has_the_last_word(core: Core, name: str, lock: int, reason: str) -> None:
    wait = core.wait(name, at_0=lock)
    assert wait.owner is None and reason in wait.unavailable["owner"]


def test_an_owner_that_the_process_does_not_have_is_not_alive_but_of_a_shared_mutex(core: Core) -> None:
    wait = core.wait("mutex_normal", at_8=4_000_000)
    assert (wait.owner, wait.is_owner_alive, wait.owner_source) == (4_000_000, False, "runtime")
    wait = core.wait("mutex_shared", at_8=4_000_000)
    assert (wait.owner, wait.is_owner_alive) == (4_000_000, None)
    assert "other processes" in wait.unavailable["is_owner_alive"]


def test_a_thread_may_wait_for_itself(core: Core) -> None:
    thread = core.words.thread("mutex_normal")
    assert core.wait("mutex_normal", at_8=thread).owner == thread


def test_other_objects_that_lie_have_no_owner(core: Core) -> None:
    wait = core.wait("rwlock_reader", at_8=77)
    assert (wait.kind, wait.object, wait.owner) == ("rwlock", None, None)
    wait = core.wait("rwlock_reader", at_24=1 << 30)
    assert wait.owner is None and wait.unavailable["owner"]
    wait = core.wait("at_barrier", at_8=0)
    assert (wait.kind, wait.object) == ("pthread_barrier", None)


@pytest.mark.parametrize("name", ["mutex_far", "rwlock_reader", "join", "at_barrier", "cond_wait", "mutex_inherits"])
def test_a_page_that_is_lost_says_nothing(core: Core, name: str) -> None:
    # A lost page reads as zeros.
    start = core.object(name) // 4096 * 4096
    core.target.reads, core.target.overlay = 0, {start: bytes(4096), start + 4096: bytes(4096)}
    with Session(core.target, FileFinder()) as session:
        session.target.close = lambda: None  # type: ignore[method-assign]
        wait = system_wait(session, core.words.thread(name))
    assert wait is not None and (wait.owner, wait.is_owner_alive, wait.is_recursive) == (None, None, None)
    # If the table for the program's calls is lost as well, the object is a word of unknown purpose.
    assert "owner" in wait.unavailable or wait.kind == "futex"


def test_an_owner_whose_own_page_is_lost_is_not_taken_for_dead(core: Core) -> None:
    with Session.open_core(core.words.place) as session:
        holder = system_wait(session, core.words.thread("mutex_normal"))
        assert holder is not None and holder.owner is not None
        descriptor = session.process.threads.thread_pointer(holder.owner)
    core.target.reads, core.target.overlay = 0, {descriptor // 4096 * 4096: bytes(4096)}
    with Session(core.target, FileFinder()) as session:
        session.target.close = lambda: None  # type: ignore[method-assign]
        wait = system_wait(session, core.words.thread("mutex_normal"))
    assert wait is not None and wait.owner == holder.owner and wait.is_owner_alive is not False


def test_no_words_of_an_object_make_it_fail(core: Core) -> None:
    seeded = random.Random(18)
    names = ("mutex_normal", "mutex_robust", "mutex_inherits", "cond_again", "rwlock_reader", "rwlock_behind")
    for _ in range(60):
        name = seeded.choice((*names, "at_barrier", "cond_wait"))
        patches = {f"at_{4 * at}": seeded.choice((0, 1, 2, 3, 1 << 31, seeded.getrandbits(32))) for at in range(12)}
        wait = core.wait(name, **patches)
        for key in wait.unavailable:
            assert getattr(wait, key) is None


class Contained:
    """Threads in a container: *own* has the ids inside of it, which glibc records, by native id."""

    names_all = True

    def __init__(self, own: dict[int, int], *, has_pointers: bool, origin: Origin | None = NOT_FORKED) -> None:
        self.own, self.has_pointers, self.made_by = own, has_pointers, origin

    def ids(self) -> list[int]:
        return list(self.own)

    def origin(self) -> Origin:
        if self.made_by is None:
            raise Unavailable("the target does not say")
        return self.made_by

    def thread_pointer(self, native: int) -> int:
        if not self.has_pointers:
            raise Unavailable("no register has it")
        return native << 12

    def member(self, name: str) -> None:
        raise AssertionError(name)

    def native_id(self, pthread: int) -> int:
        return self.own[pthread >> 12]

    def pthreads(self) -> dict[int, int]:
        return {own: native << 12 for native, own in self.own.items()}


@pytest.mark.parametrize(
    ("own", "has_pointers", "owner", "is_alive"),
    [
        ({100: 4, 101: 5}, True, 100, True),
        ({100: 7, 101: 5}, True, 4, False),
        ({100: 4, 101: 5}, False, 4, None),
        ({4: 4, 5: 5}, False, 4, True),
        ({6: 6, 5: 5}, False, 4, False),
    ],
)
def test_owners_in_a_container_are_known_by_their_descriptors(
    own: dict[int, int], has_pointers: bool, owner: int, is_alive: bool | None
) -> None:
    process = Contained(own, has_pointers=has_pointers)
    owners = Owners(process, process, X86_64, process, 100)  # type: ignore[arg-type]
    found = owners.add(AwaitedObject("mutex", 0x1000), 4, is_shared=False)
    assert (found.owner, found.is_owner_alive) == (owner, is_alive)


@pytest.mark.parametrize(
    ("own", "known"),
    [
        ({100: 100, 101: 101, 102: 102}, {100, 101, 102}),
        ({100: 104, 101: 101, 102: 102}, {101, 102}),  # the one id that differs from the note's was overwritten
        ({100: 101, 101: 101, 102: 102}, {102}),  # two threads have the same id
        ({100: 104, 101: 5, 102: 6}, {104, 5, 6}),  # a container
        ({100: 101, 101: 5, 102: 6}, {5, 6}),  # a container with an id that exists outside, too
        ({100: 104}, set()),  # one thread in a container, or an overwritten id
    ],
)
def test_a_number_that_contradicts_another_source_names_no_thread(own: dict[int, int], known: set[int]) -> None:
    process = Contained(own, has_pointers=True)
    owners = Owners(process, process, X86_64, process, 100)  # type: ignore[arg-type]
    added = {
        number: owners.add(AwaitedObject("mutex", 0x1000), number, is_shared=False) for number in (*own, *own.values())
    }
    assert {number for number, found in added.items() if found.is_owner_alive} == known
    ended = owners.add(AwaitedObject("mutex", 0x1000), 999, is_shared=False)
    assert ended.is_owner_alive is (False if len(known) == len(own) else None)


def test_an_owner_that_a_forked_process_does_not_have_may_be_its_first_thread() -> None:
    process = Contained({100: 100, 101: 101}, has_pointers=True, origin=FORKED)
    owners = Owners(process, process, X86_64, process, 100)  # type: ignore[arg-type]
    mutex = AwaitedObject("mutex", 0x1000)
    parents, another = owners.add(mutex, 900, is_shared=False), owners.add(mutex, 999, is_shared=False)
    assert (parents.owner, parents.owner_source, parents.is_owner_alive) == (100, "derived", None)
    assert (another.owner, another.owner_source, another.is_owner_alive) == (999, "runtime", None)
    assert "fork()" in parents.unavailable["is_owner_alive"] and "fork()" in another.unavailable["is_owner_alive"]
    assert owners.add(mutex, 101, is_shared=False).is_owner_alive
    # The joined thread cannot be the thread that fork() copied.
    assert owners.add(AwaitedObject("join", 0x1000), 999, is_shared=False, pthread=0x2000).is_owner_alive is False


def test_an_owner_is_not_known_to_be_gone_where_nobody_says_where_the_process_came_from() -> None:
    process = Contained({100: 100, 101: 101}, has_pointers=True, origin=None)
    owners = Owners(process, process, X86_64, process, 100)  # type: ignore[arg-type]
    found = owners.add(AwaitedObject("mutex", 0x1000), 999, is_shared=False)
    assert found.is_owner_alive is None and "fork()" in found.unavailable["is_owner_alive"]


# Python


class Lies:
    """Memory with some words; the rest is unreadable."""

    byte_order = "little"
    pointer_size = 8

    def __init__(self, words: dict[int, int]) -> None:
        self.words = words
        self.reads = 0

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        assert self.reads < 5000, "a walk does not end"
        base = address // 8 * 8
        if base not in self.words:
            raise MemoryFault(address, size)
        return struct.pack("<Q", self.words[base])[address - base : address - base + size]


class Interpreter:
    """The symbols of an interpreter, in which each thread has its own thread state."""

    def symbol_in(self, module: object, name: str) -> int | None:
        return 0x1000 if name == "_PyRuntime" else None

    def find_symbol_in(self, module: object, name: str, *, thread: int) -> int:
        return CURRENT + 8 * thread


COOKIE = int.from_bytes(b"xdebugpy", "little")
INTERPRETER, STATE, CURRENT = 0x4000, 0x6000, 0x8000
THREADS = (41, 42)


def interpreter(release: int) -> dict[int, int]:
    """Return the words of a CPython whose lock is held by thread 41."""
    words = {0x1000 + 8 * at: 0 for at in range(40)}
    head = {0: COOKIE, 1: release << 16 | 0xF0, 5: 0x200, 8: 0x8}
    # Offsets of ceval_gil, gil_runtime_state, enabled, locked, holder.
    gil = 14 if release == 0x030D else 15
    head |= {gil: 0x10, gil + 1: 0x100, gil + 3: 0x118, gil + 4: 0x108}
    words |= {0x1000 + 8 * at: value for at, value in head.items()}
    words |= {0x1200: INTERPRETER, INTERPRETER + 0x8: 0, INTERPRETER + 0x10: INTERPRETER + 0x100}
    words |= {INTERPRETER + 0x118: 1, INTERPRETER + 0x108: STATE, CURRENT + 8 * 41: STATE, CURRENT + 8 * 42: 0}
    return words


def holder(words: dict[int, int]) -> int:
    return InterpreterLock(Lies(words), Interpreter(), THREADS, None).holder()  # type: ignore[arg-type]


@pytest.mark.parametrize("release", [0x030D, 0x030E])
def test_pythons_lock_is_found_by_what_the_interpreter_publishes(release: int) -> None:
    assert holder(interpreter(release)) == 41


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ({0x1000: 5}, "does not publish"),
        ({0x1008: 0x03630000}, "not known"),
        ({0x1010: 1}, "without a lock"),
        ({0x1000 + 8 * 14: 1 << 40}, "contradicts itself"),
        ({0x1000 + 8 * 18: 1 << 20}, "contradicts itself"),
        ({INTERPRETER + 0x118: 0}, "nobody holds"),
        ({INTERPRETER + 0x108: 0}, "nobody holds"),
        ({INTERPRETER + 0x108: 0x999000}, "0 threads of the process use"),
        ({CURRENT + 8 * 41: 0}, "0 threads of the process use"),
        ({CURRENT + 8 * 42: STATE}, "2 threads of the process use"),
        ({INTERPRETER + 0x8: INTERPRETER}, "does not end"),
        ({0x1200: 0}, "0 Python interpreters"),
        ({INTERPRETER + 0x8: 0x5000, 0x5008: 0, 0x5010: 0x5100}, "2 Python interpreters"),
    ],
)
def test_an_interpreter_that_lies_has_no_holder(patch: dict[int, int], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        holder({**interpreter(0x030D), **patch})


def test_interpreters_without_end_are_counted() -> None:
    words = interpreter(0x030D)
    words |= {INTERPRETER + 0x10000 * at + 0x8: INTERPRETER + 0x10000 * (at + 1) for at in range(1100)}
    words |= {INTERPRETER + 0x10000 * at + 0x10: 1 for at in range(1100)}
    with pytest.raises(Unavailable, match="more than"):
        holder(words)


# Routines

PROGRAM, LIBC, MPI, PYTHON = (
    Module(name, 0, start, start + 0x1000, None, None, name == "/bin/program")
    for start, name in (
        (0x1000, "/bin/program"),
        (0x2000, "/lib/libc.so.6"),
        (0x3000, "/lib/libmpi.so.40"),
        (0x4000, "/lib/libpython3.13.so.1.0"),
    )
)


class Named:
    """Frames, each a module and the name of a function. The code does not show the routines that they call."""

    def __init__(self, *frames: tuple[Module, str | None]) -> None:
        self.frames = frames

    def modules(self) -> list[Module]:
        return [PROGRAM, LIBC, MPI, PYTHON]

    def find(self, module: Module, name: str) -> None:
        return None

    def locate(self, address: int) -> Location:
        module, name = self.frames[address]
        return Location(address, module, name, None)

    def routine_called(self, pc: int) -> str | None:
        return None

    def callers(self) -> Callers:
        numbers = tuple(range(len(self.frames)))
        stack = Stack((), None, (numbers, numbers))
        return Routines(self, self, self).of(stack)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("frames", "routine"),
    [
        ([(LIBC, "poll"), (MPI, "opal_progress"), (MPI, "PMPI_Recv"), (PROGRAM, "main")], "MPI_Recv"),
        ([(MPI, "opal_progress"), (MPI, "PMPI_Wait"), (PROGRAM, "MPI_Wait"), (PROGRAM, "main")], "MPI_Wait"),
        ([(MPI, None), (MPI, "mpi_recv_"), (PROGRAM, "MAIN__")], "mpi_recv_"),
        ([(MPI, None), (MPI, "pmpi_allreduce__"), (PROGRAM, "MAIN__")], "pmpi_allreduce__"),
        ([(PROGRAM, "mpi_exchange_halo_"), (PROGRAM, "MAIN__")], None),
        ([(PROGRAM, "add"), (MPI, "ompi_op_reduce"), (MPI, "MPI_Reduce"), (PROGRAM, "main")], None),
        ([(PROGRAM, "mpirun"), (PROGRAM, "MPI")], None),
    ],
)
def test_the_outermost_function_of_mpi_is_the_one_that_waits(
    frames: list[tuple[Module, str | None]], routine: str | None
) -> None:
    assert Named(*frames).callers().mpi == routine


TIMED = (LIBC, "pthread_cond_timedwait")


@pytest.mark.parametrize(
    ("frames", "waits"),
    [
        ([TIMED, (PYTHON, "take_gil"), (PYTHON, "PyEval_RestoreThread")], True),
        ([(PYTHON, "take_gil.lto_priv.0"), (PYTHON, "PyEval_RestoreThread")], True),
        ([TIMED, (PYTHON, None), (PYTHON, "PyGILState_Ensure")], True),
        ([TIMED, (PYTHON, "PyEval_RestoreThread")], True),
        ([(LIBC, "sem_wait"), (PYTHON, None), (PYTHON, "PyEval_RestoreThread")], False),
        ([(LIBC, "pthread_cond_wait"), (PYTHON, "drop_gil"), (PYTHON, "PyEval_SaveThread")], False),
        ([TIMED, (PROGRAM, "wait_for"), (PYTHON, "PyEval_RestoreThread")], False),
    ],
)
def test_a_thread_that_takes_pythons_lock_is_known_with_and_without_names(
    frames: list[tuple[Module, str | None]], waits: bool
) -> None:
    assert Named(*frames).callers().python == (PYTHON if waits else None)


# Texts of the kernel


def test_names_are_those_of_programmers() -> None:
    assert [plain(name) for name in ("___pthread_mutex_lock", "pthread_cond_wait@@GLIBC_2.3.2", "__libc_read")] == [
        "pthread_mutex_lock",
        "pthread_cond_wait",
        "read",
    ]
    assert plain("__new_sem_wait_slow64.constprop.0") == "sem_wait_slow64"


def test_what_proc_says_of_calls_times_signals_and_timers() -> None:
    assert parse_syscall_arguments(b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe10 0x7f0045\n") == (202, 1, 2, 3, 4, 5, 6)
    for text in (b"-1 0x7ffe10 0x7f0045\n", b"running\n", b"", b"1 x y z 1 2 3 4 5\n"):
        assert parse_syscall_arguments(text) == ()
    assert parse_stat(b"1 (a) b) S 1 1 1 0 -1 4194560 1 0 0 0 17 4 0 0 20 0 1 0 5 1 1").ticks == 17 + 4
    assert parse_signals(b"SigQ:\t0/1\nSigPnd:\t01\nShdPnd:\t80\nSigBlk:\tffff\n") == (1, 0x80, 0xFFFF)
    timers = b"ID: 0\nsignal: 12/0000\nnotify: signal/pid.7\nClockID: 1\n"
    timers += b"ID: 1\nsignal: 0/0\nnotify: none/tid.9\nClockID: 0\n"
    assert parse_timers(timers) == [(12, None, 1), (0, 9, 0)] and parse_timers(b"") == []
    for parse in (parse_stat, parse_signals):
        with pytest.raises(MalformedFile):
            parse(b"nothing")
    with pytest.raises(MalformedFile):
        parse_timers(b"ID: 0\nsignal: x\nnotify: signal/pid.7\nClockID: 1\n")


def test_what_proc_says_of_connections() -> None:
    head = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    rest = b"00000000:00000000 00:00000000 00000000     0        0"
    tcp = head + b"   0: 0100007F:1F90 00000000:0000 0A %s 77 1 0\n   1: 0100007F:1F90 0200007F:0050 01 %s 78 1\n" % (
        rest,
        rest,
    )
    assert find_connection(tcp, 77) == "127.0.0.1:8080 listening"
    assert find_connection(tcp, 78) == "127.0.0.1:8080 to 127.0.0.2:80"
    assert find_connection(tcp, 79) is None and find_connection(b"", 1) is None
    six = head + b"   0: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A %s 5 1\n" % rest
    assert find_connection(six, 5) == "[0:0:0:0:0:0:0:1]:80 listening"
    unix = (
        b"Num       RefCount Protocol Flags    Type St Inode Path\n0: 00000002 00000000 00010000 0001 01 91 /run/a b\n"
    )
    assert find_connection(unix, 91) == "/run/a b"
    assert find_connection(head + b"   0: zz:1 q:2 0A %s 77 1 0\n" % rest, 77) is None
