"""Waits outside of OpenMP: each thread of a program writes what it is about to wait for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ompd.questions.snapshot
from ompd.debugger.files.finder import FileOptions
from ompd.model.stalls import SystemWait
from ompd.questions.why.system import system_wait
from ompd.session import Session
from tests.support.lldb import VERSIONS, LldbHost
from tests.support.m32 import m32_flags
from tests.support.outside import LONG, Words, build_outside, core_of_outside, waiting
from tests.support.products import sample

MUTEX = {"kind": "mutex", "routine": "pthread_mutex_lock", "system_call": "futex", "is_timed": False}
PLAIN_MUTEX = {**MUTEX, "is_recursive": False, "is_shared": False, "is_owner_alive": True}
FUTEX = {"system_call": "futex", "is_timed": False, "is_shared": False}
MISSING_ONE = {"expected": 2, "missing": 1}
PIPE = {"kind": "io", "is_timed": False}
# By the names that the threads give themselves. Waits with None are not compared.
EXPECTED: Mapping[str, Mapping[str, Any] | None] = {
    "main": {"kind": "signal", "routine": "pause", "system_call": "pause", "is_timed": False},
    "pauses": {"kind": "signal", "routine": "pause", "system_call": "pause", "is_timed": False},
    "mutex_normal": {**PLAIN_MUTEX, "symbol": "&normal"},
    "mutex_recursive": {**PLAIN_MUTEX, "is_recursive": True, "symbol": "&recursive"},
    "mutex_checked": {**PLAIN_MUTEX, "symbol": "&checked"},
    "mutex_inherits": {**PLAIN_MUTEX, "symbol": "&inherits"},
    "mutex_robust": {**PLAIN_MUTEX, "symbol": "&robust"},
    "mutex_dead": {**PLAIN_MUTEX, "is_owner_alive": False, "symbol": "&dead"},
    "mutex_shared": {**PLAIN_MUTEX, "is_shared": True, "symbol": None},
    "mutex_far": {**PLAIN_MUTEX, "symbol": None},
    "mutex_timed": {**PLAIN_MUTEX, "routine": "pthread_mutex_timedlock", "is_timed": True},
    "cond_wait": {**FUTEX, "kind": "condition", "routine": "pthread_cond_wait", "symbol": "&condition"},
    "cond_timed": {**FUTEX, "kind": "condition", "routine": "pthread_cond_timedwait", "is_timed": True},
    "cond_again": {**PLAIN_MUTEX, "routine": "pthread_cond_wait", "symbol": "&again"},
    "join": {**FUTEX, "kind": "join", "routine": "pthread_join", "is_owner_alive": True},
    "sem": {**FUTEX, "kind": "semaphore", "routine": "sem_wait", "symbol": "&semaphore"},
    "sem_timed": {**FUTEX, "kind": "semaphore", "routine": "sem_timedwait", "is_timed": True},
    "rwlock_reader": {**FUTEX, "kind": "rwlock", "routine": "pthread_rwlock_rdlock", "is_owner_alive": True},
    "rwlock_writer": {**FUTEX, "kind": "rwlock", "routine": "pthread_rwlock_wrlock", "is_owner_alive": True},
    "rwlock_of_readers": {
        **FUTEX,
        "kind": "rwlock",
        "routine": "pthread_rwlock_wrlock",
        "symbol": "&was_read",
        "readers": 1,
    },
    "rwlock_preferred": {**FUTEX, "kind": "rwlock", "routine": "pthread_rwlock_wrlock", "symbol": "&preferring"},
    "rwlock_behind": {**FUTEX, "kind": "rwlock", "routine": "pthread_rwlock_rdlock", "symbol": "&preferring"},
    "at_barrier": {
        **FUTEX,
        "kind": "pthread_barrier",
        "routine": "pthread_barrier_wait",
        "symbol": "&barrier",
        **MISSING_ONE,
    },
    "once_waits": {**FUTEX, "kind": "once", "routine": "pthread_once", "symbol": "&once"},
    "futex_private": {**FUTEX, "kind": "futex", "routine": "syscall", "symbol": "&word_private"},
    "futex_shared": {"kind": "futex", "routine": "syscall", "is_timed": True, "is_shared": True},
    "sleeps": {"kind": "sleep", "routine": "nanosleep", "is_timed": True},
    "usleeps": {"kind": "sleep", "routine": "usleep", "is_timed": True},
    "reads": {"kind": "io", "routine": "read", "system_call": "read"},
    "polls": {**PIPE, "routine": "poll"},
    "polls_two": {**PIPE, "routine": "poll", "is_timed": True},
    "polls_none": {"kind": "sleep", "routine": "poll", "is_timed": True},
    "selects": {**PIPE, "routine": "select"},
    "epolls": {**PIPE, "routine": "epoll_wait"},
    "accepts": {"kind": "io", "routine": "accept", "is_timed": None},
    "receives": {"kind": "io", "routine": "recv", "is_timed": None},
    "waits_for_child": {"kind": "child", "routine": "waitpid", "is_timed": False},
    "sigwaits": {"kind": "signal", "routine": "sigwait", "system_call": "rt_sigtimedwait", "is_timed": False},
    "sigsuspends": {"kind": "signal", "routine": "sigsuspend", "is_timed": False},
    "mpi_sleeps": {"kind": "mpi", "routine": "MPI_Recv", "system_call": "read", "is_timed": False},
    "mpi_spins": {"kind": "mpi", "routine": "MPI_Wait", "system_call": None, "is_timed": False},
    "user": None,
}
WITHOUT_OBJECTS = ("sleep", "io", "signal", "child", "mpi", "system_call")
PEERS = {
    **dict.fromkeys(("reads", "polls", "selects"), "pipe:["),
    "epolls": "anon_inode:[eventpoll]",
    "accepts": "tcp 127.0.0.1:",
    "receives": "socket:[",
}


def all_waits(session: Session) -> dict[int, SystemWait | None]:
    return {thread: system_wait(session, thread) for thread in session.process.threads.ids()}


@pytest.fixture(scope="module")
def kernel() -> Words:
    return core_of_outside("waits", "kernel")


@pytest.fixture(scope="module")
def alive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Words]:
    with waiting(build_outside("waits"), tmp_path_factory.mktemp("alive"), blocks=True) as (_, words):
        yield words


def differences(words: Words, found: Mapping[int, SystemWait | None]) -> list[str]:
    wrong = []
    for thread, word in words.said.items():
        name, wait = word["name"], found[thread]
        expected = EXPECTED[name]
        if expected is None or wait is None:
            wrong += [f"{name}: {wait}"] if expected is not None or wait is not None else []
            continue
        facts = dict(expected)
        if wait.kind not in WITHOUT_OBJECTS:
            facts["object"] = word["object"]
            facts["owner"] = word["owner"] or None
            facts["owner_source"] = "runtime" if word["owner"] else None
        elif word.get("descriptor", -1) >= 0 and wait.kind == "io":
            facts["descriptor"] = word["descriptor"]
        for key, value in facts.items():
            known = getattr(wait, key)
            if known != value and not (key == "symbol" and name == "mutex_shared"):
                wrong.append(f"{name}: {key} is {known!r}, in truth {value!r}: {wait}")
        for key, reason in wait.unavailable.items():
            assert getattr(wait, key) is None and reason, (name, key)
    return wrong


def test_a_core_of_the_kernel_shows_all_waits(kernel: Words) -> None:
    with Session.open_core(kernel.place) as session:
        assert differences(kernel, all_waits(session)) == []


def test_a_core_of_gdb_shows_all_waits() -> None:
    words = core_of_outside("waits", "gcore")
    with Session.open_core(words.place) as session:
        assert differences(words, all_waits(session)) == []


def test_a_stripped_library_shows_all_waits(kernel: Words, tmp_path: Path) -> None:
    # The sysroot has the libraries, but no debug files.
    with Session.open_core(kernel.place) as session:
        files = [module.path for module in session.process.symbols.modules() if module.path is not None]
    for file in files:
        copy = tmp_path / Path(file).relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(Path(file).read_bytes())
    with Session.open_core(kernel.place, FileOptions(sysroot=tmp_path)) as session:
        assert differences(kernel, all_waits(session)) == []


def test_a_static_program_shows_all_waits() -> None:
    words = core_of_outside("waits", "kernel", ["-static"])
    with Session.open_core(words.place) as session:
        assert differences(words, all_waits(session)) == []


@pytest.mark.parametrize("kind", ["kernel", "gcore"])
def test_a_program_of_32_bits_shows_all_waits(kind: str) -> None:
    flags = m32_flags()
    words = core_of_outside("waits", kind, [*flags.compile, *flags.link])
    with Session.open_core(words.place) as session:
        assert differences(words, all_waits(session)) == []


def test_a_snapshot_shows_all_waits(kernel: Words, tmp_path: Path) -> None:
    with Session.open_core(kernel.place) as session:
        ompd.questions.snapshot.take_snapshot(session, tmp_path / "snapshot")
    with Session.open_core(tmp_path / "snapshot") as session:
        assert differences(kernel, all_waits(session)) == []


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(("version", "kind"), sample(product(VERSIONS, ("core", "live"))))
@pytest.mark.quick()
def test_lldb_shows_all_waits(version: int, kind: str, kernel: Words, tmp_path: Path) -> None:
    host = LldbHost(version)
    try:
        executable = build_outside("waits")
        if kind == "core":
            words, found = (
                Words(kernel.place, {**kernel.said}),
                host.ask("outside", executable=str(executable), core=str(kernel.place)),
            )
        else:
            with waiting(executable, tmp_path, blocks=True) as (process, words):
                found = host.ask("outside", executable=str(executable), pid=process.pid)
    finally:
        host.close()
    waits = {int(thread): SystemWait(**wait) if wait is not None else None for thread, wait in found.items()}
    if kind == "core":
        # LLDB lacks the note that shows whether fork() made the process.
        dead = words.thread("mutex_dead")
        assert waits[dead].is_owner_alive is None  # type: ignore[union-attr]
        del words.said[dead]
    # LLDB lacks the register with the system call's number, which the code of syscall() does not show.
    for thread in (words.thread("futex_private"), words.thread("futex_shared")):
        wait = waits[thread]
        assert wait is not None and wait.kind == "system_call" and "system_call" in wait.unavailable
        del words.said[thread]
    assert differences(words, waits) == []


def test_a_live_process_shows_all_waits_and_what_its_files_are(alive: Words) -> None:
    assert isinstance(alive.place, int)
    with Session.attach(alive.place, max_stop=LONG) as session:
        found = session.ask(all_waits)
    assert differences(alive, {**found}) == []
    peers = {alive.said[thread]["name"]: wait.peer for thread, wait in found.items() if wait is not None}
    for name, begin in PEERS.items():
        assert (peers[name] or "").startswith(begin), (name, peers[name])
    assert peers["accepts"].endswith(" listening")


def test_a_forked_child_does_not_have_the_owner(tmp_path: Path) -> None:
    with waiting(build_outside("forked"), tmp_path, blocks=True) as (_, words):
        child = words.thread("child")
        said = words.said[child]
        with Session.attach(child, max_stop=LONG) as session:
            wait = session.ask(lambda s: system_wait(s, child))
    assert wait is not None and (wait.kind, wait.object) == ("mutex", said["object"])
    # Before fork(), the child's only thread may have been the thread with that id.
    assert (wait.owner, wait.is_owner_alive) == (said["owner"], None)
    assert "fork() made the process" in wait.unavailable["is_owner_alive"]
