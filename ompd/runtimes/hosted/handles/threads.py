"""Threads that a library reports. OMPD has no call that lists threads, so each thread of the process is looked up.

For a region's threads, LLVM's library returns incomplete handles. They are only used to get the native identifier, with
which a complete handle is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from ompd.contract.helpers.walks import MAX_TASKS
from ompd.contract.kept import OwnState
from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State, is_wait
from ompd.contract.plugin import ThreadState
from ompd.errors import BadInput, CorruptState, OmpdError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, Pending, ThreadRef
from ompd.runtimes.hosted.handles import stacks
from ompd.runtimes.hosted.handles.queries import Handle, given, no_call, placed, value

if TYPE_CHECKING:
    from ompd.contract.plugin import ConstructCode
    from ompd.runtimes.hosted.handles.regions import Region
    from ompd.runtimes.hosted.handles.space import HostedSpace
    from ompd.runtimes.hosted.handles.tasks import Task

THREAD_NUM = ("thread-num-var", "ompd-thread-num-var")


class Thread(Handle):
    """An OpenMP thread.

    :param identifier: the native identifier, of the kind that the library supports
    :param native: the operating system's identifier, None if the process has no such thread
    """

    ref: ThreadRef

    def __init__(self, space: HostedSpace, ref: ThreadRef, identifier: int, native: int | None) -> None:
        super().__init__(space, ref)
        self.identifier = identifier
        self._native = native

    @property
    def address(self) -> int:
        """The thread's native identifier, because OMPD does not return the address of the runtime's thread
        descriptor.
        """
        return self.identifier

    def siblings(self) -> Sequence[Thread]:
        """Return all threads of the runtime."""
        return self.space.threads()

    def native_id(self, kind: ThreadIdKind) -> int:
        if kind == self.space.all_threads.id_kind:
            return self.identifier
        size = self.space.all_threads.id_size(kind)
        return self.fact(Batch.get_thread_id, kind, size)

    def native_thread_id(self) -> int:
        if self._native is None:
            raise BadInput(f"the process has no thread with the identifier {self.identifier:#x}")
        return self._native

    def thread_type(self) -> str:
        """Return ``initial`` if the thread is the primary thread of the outermost region around it, else ``worker``."""
        regions = self.regions()
        if not regions:
            task = self._reported_task()
            return "initial" if task is not None and task.generating() is None else "worker"
        return "initial" if regions[-1].thread(0) is self else "worker"

    def regions(self) -> Sequence[Region]:
        """Return the regions that the library reports for the thread: the innermost, then the enclosing ones.

        :raises OmpdError: if the regions are unknown
        """
        region = given(self.space.all_threads.reported_regions.get(self))
        return tuple(region.chain()) if region is not None else ()

    @cached_property
    def team(self) -> tuple[Region, int] | None:
        """The region that the thread executes, which may be the implicit region at level 0, and the thread's number
        there. None while the thread is idle.

        :raises OmpdError: if the region or the number is unknown
        """
        region = given(self.space.all_threads.reported_regions.get(self))
        if region is None or not region.is_live:  # an idle thread may report its last region
            return None
        try:
            number = region.number_of(self)
        except OmpdError:
            # The team's members are unknown. But a variable of the thread itself also has the thread's number.
            number = self.number(THREAD_NUM, Scope.THREAD)
            return (region, number) if 0 <= number < region.size() else None
        return (region, number) if number is not None else None

    def thread_num(self) -> int | None:
        return self.team[1] if self.team is not None else None

    def current_parallel(self) -> Region | None:
        return self.team[0] if self.team is not None and not self.team[0].is_outside else None

    def current_task(self) -> Task | None:
        return self._reported_task() if self.team is not None else None

    def _reported_task(self) -> Task | None:
        # The task that the library reports for the thread. An idle worker may keep its last task.
        return given(self.space.all_threads.reported_tasks.get(self))

    def tasks(self) -> Iterator[Task]:
        """Yield the tasks that the thread executes or has suspended for other tasks, starting with the current task.

        :raises OmpdError: if a task is unknown, or the chain does not end
        """
        task = self.current_task()
        seen: set[Task] = set()
        while task is not None:
            if task in seen or len(seen) >= MAX_TASKS:
                raise CorruptState(self.address, f"{self.space.hosted_library.name}: the tasks of a thread do not end")
            seen.add(task)
            yield task
            if task.is_implicit:
                region = task.parallel()
                # Continue with the task that encountered the region only on the region's primary thread, where that
                # task waits for the region's end.
                task = task.generating() if region is not None and region.thread(0) is self else None
            else:
                task = task.scheduling()

    def outside_of_target(self) -> None:
        """Return None, because the enclosing regions that the library reports include those outside of a target
        region.
        """

    def state(self) -> ThreadState:
        words = None
        try:
            words = self.fact(Batch.get_state)
        except Unavailable:
            if self.team is not None:
                raise
        if self.team is None:
            # The thread may keep its state from its last region.
            return ThreadState(State.IDLE, None, "runtime" if words and words.state == State.IDLE else "derived")
        if words is None:
            raise Unavailable("the library returns no state")
        return ThreadState(words.state, words.wait_id or None if is_wait(words.state) else None, "runtime")

    def is_about_to_begin(self) -> NoReturn:
        no_call("whether a thread has begun the code of its region")

    def tool_data(self) -> int:
        return self.tool_word(Scope.THREAD)

    def ompt_id(self) -> NoReturn:
        no_call("the identifiers that a runtime gives")

    def ompt_state(self) -> OwnState:
        number = self.fact(Batch.get_state).state
        names = self.space.states()
        if number not in names:
            raise Unavailable(f"the library has no name for its state {number:#x}")
        return OwnState(number, names[number])

    def lock(self) -> NoReturn:
        no_call("who holds a lock")

    def wait_kind(self) -> NoReturn:
        no_call("more of a wait than the thread's state")

    def scheduling_point(self) -> NoReturn:
        no_call("for which tasks a thread waits")

    def barrier_source(self) -> NoReturn:
        no_call("a compiler's note of a construct")

    def idle_frame(self) -> NoReturn:
        no_call("the frame in which a thread waits for work")

    def construct_code(self) -> Sequence[ConstructCode]:
        return stacks.construct_code(self)

    def threadprivate_address(self, address: int) -> int | None:
        return self.space.threadprivate_of_other(self.native_thread_id(), address)


class Threads:
    """The threads of a runtime."""

    def __init__(self, space: HostedSpace) -> None:
        self._space = space

    @cached_property
    def id_kind(self) -> ThreadIdKind:
        """The kind of native identifiers used for threads: the first kind that the library supports."""
        for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
            batch = self._space.batch()
            for native in self._space.process.threads():
                try:
                    identifier = self._identifier(kind, native)
                except OmpdError:
                    continue
                error = batch.get_thread_handle(self._space.ref, kind, identifier, self.id_size(kind)).error()
                if error is None or error.rc != Rc.UNSUPPORTED or error.has_ended:
                    return kind
                break
        return ThreadIdKind.PTHREAD

    def id_size(self, kind: ThreadIdKind) -> int | None:
        """Return the size of a native identifier of this *kind*, None if the size is the same in all processes."""
        return self._space.process.pointer_size if kind == ThreadIdKind.PTHREAD else None

    def _identifier(self, kind: ThreadIdKind, native: int) -> int:
        return self._space.process.pthread_self(native) if kind == ThreadIdKind.PTHREAD else native

    @cached_property
    def by_native(self) -> dict[int, Thread | OmpdError | None]:
        """The library's answer for each thread of the process, by the operating system's identifier."""
        answers: dict[int, Thread | OmpdError | None] = {}
        handles: list[tuple[int, int, Pending[ThreadRef]]] = []
        batch = self._space.batch()
        size = self.id_size(self.id_kind)
        for native in self._space.process.threads():
            answers[native] = None
            try:
                identifier = self._identifier(self.id_kind, native)
            except OmpdError as error:
                answers[native] = error
                continue
            pending = batch.get_thread_handle(self._space.ref, self.id_kind, identifier, size)
            handles.append((native, identifier, pending))
        for native, identifier, pending in handles:
            refusal = pending.error()
            if refusal is None:
                answers[native] = Thread(self._space, pending.value(), identifier, native)
            elif refusal.rc != Rc.UNAVAILABLE or refusal.has_ended:
                answers[native] = refusal
        return answers

    @cached_property
    def known(self) -> tuple[Thread, ...]:
        """The threads of the process that are OpenMP threads."""
        return tuple(thread for thread in self.by_native.values() if isinstance(thread, Thread))

    @cached_property
    def by_identifier(self) -> dict[int, Thread]:
        """The threads by the identifier that the library uses, including threads that the process does not have."""
        return {thread.identifier: thread for thread in self.known}

    def in_team(self, region: Region) -> list[Thread | OmpdError]:
        """Return the threads of a region's team by number, with the error in place of an unknown thread.

        :raises OmpdError: if the size of the team is unknown
        """
        batch = self._space.batch()
        handles = [batch.get_thread_in_parallel(region.ref, number) for number in range(region.size())]
        size = self.id_size(self.id_kind)
        identifiers = [batch.get_thread_id(handle, self.id_kind, size) for handle in handles]
        members: list[Thread | OmpdError] = []
        for handle, pending in zip(handles, identifiers, strict=True):
            try:
                identifier = value(self._space.hosted_library, pending)
                thread = self.by_identifier.get(identifier)
                if thread is None:
                    ref = value(self._space.hosted_library, handle)
                    thread = self.by_identifier[identifier] = Thread(self._space, ref, identifier, None)
                members.append(thread)
            except OmpdError as error:
                members.append(error)
        return members

    @cached_property
    def reported_regions(self) -> dict[Thread, Region | OmpdError | None]:
        """The region that the library reports for each thread. An idle thread may keep its last region."""
        batch = self._space.batch()
        pending = [batch.get_curr_parallel_handle(thread.ref) for thread in self.known]
        return dict(zip(self.known, placed(self._space.hosted_library, pending, self._space.regions), strict=True))

    @cached_property
    def reported_tasks(self) -> dict[Thread, Task | OmpdError | None]:
        """The task that the library reports for each thread."""
        # Most threads execute the implicit task of their place in the region, so that task is compared first.
        batch = self._space.batch()
        current = {thread: batch.get_curr_task_handle(thread.ref) for thread in self.known}
        implicit = {thread: _implicit_task(thread) for thread in self.known}
        compared = {
            thread: batch.task_handle_compare(current[thread], task.ref)
            for thread, task in implicit.items()
            if task is not None
        }
        tasks: dict[Thread, Task | OmpdError | None] = {}
        for thread, difference in compared.items():
            if difference.error() is None and difference.value() == 0:
                tasks[thread] = implicit[thread]
        others = [thread for thread in self.known if thread not in tasks]
        pending = [current[thread] for thread in others]
        tasks.update(zip(others, placed(self._space.hosted_library, pending, self._space.tasks), strict=True))
        return tasks


def _implicit_task(thread: Thread) -> Task | None:
    # The implicit task of a thread's place in its region, None if the task is unknown.
    try:
        return thread.team[0].implicit_task(thread.team[1]) if thread.team is not None else None
    except OmpdError:
        return None
