"""Threads, as a library reports them. It has no call that lists them: each thread of the process is looked up.

Handles of threads that a region leads to lack what others have in LLVM's library, so that they serve only to get the
native identifier, and by it one of the others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import NoReturn

from ompd.contract.kept import OwnState
from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.ompt import State, is_wait
from ompd.contract.plugin import ConstructCode, SchedulingPoint, ThreadState
from ompd.contract.process import Frame
from ompd.contract.waits import LockState
from ompd.errors import BadInput, LibraryError, OmpdError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, Pending, ThreadRef
from ompd.runtimes.hosted.handles import stacks
from ompd.runtimes.hosted.handles.asking import Asked, given, known
from ompd.runtimes.hosted.handles.regions import Region
from ompd.runtimes.hosted.handles.tasks import Task, Tasks

THREAD_NUM = ("thread-num-var", "ompd-thread-num-var")


class Thread(Asked):
    """See :class:`ompd.contract.plugin.ThreadHandle`.

    :param identifier: the native identifier of the kind by which the library knows it
    :param native: the system's, None if the process has no such thread
    """

    ref: ThreadRef

    def __init__(self, space: Threads, ref: ThreadRef, identifier: int, native: int | None) -> None:
        super().__init__(ref)
        self.space = space
        self.identifier = identifier
        self._native = native

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def address(self) -> int:
        """The thread's native identifier: OMPD does not say where the runtime has the thread's data."""
        return self.identifier

    def native_id(self, kind: ThreadIdKind) -> int:
        """See :meth:`ThreadHandle.native_id`."""
        if kind == self.space.id_kind:
            return self.identifier
        return self.space.fact(
            self,
            self.space.threads(),
            ("native id", kind),
            lambda batch, ref: batch.get_thread_id(ref, kind, self.space.id_size(kind)),
        )

    def native_thread_id(self) -> int:
        """See :meth:`ThreadHandle.native_thread_id`."""
        if self._native is None:
            raise BadInput(f"the process has no thread with the identifier {self.identifier:#x}")
        return self._native

    def thread_type(self) -> str:
        """See :meth:`ThreadHandle.thread_type`: an initial one is the first of the outermost region it is in."""
        regions = self.space.regions_of(self)
        if not regions:
            task = self.space.task_of(self)
            return "initial" if task is not None and task.generating() is None else "worker"
        return "initial" if regions[-1].thread(0) is self else "worker"

    @cached_property
    def team(self) -> tuple[Region, int] | None:
        """The region that it executes, which may be the implicit one at level 0, and its number there; None while it is
        idle.

        :raises OmpdError: if that is unknown
        """
        return self.space.team_of(self)

    def thread_num(self) -> int | None:
        """See :meth:`ThreadHandle.thread_num`."""
        return self.team[1] if self.team is not None else None

    def current_parallel(self) -> Region | None:
        """See :meth:`ThreadHandle.current_parallel`."""
        return self.team[0] if self.team is not None and not self.team[0].is_outside else None

    def current_task(self) -> Task | None:
        """See :meth:`ThreadHandle.current_task`."""
        return self.space.task_of(self) if self.team is not None else None

    def outside_of_target(self) -> None:
        """See :meth:`ThreadHandle.outside_of_target`: the library's enclosing regions go on there."""

    def state(self) -> ThreadState:
        """See :meth:`ThreadHandle.state`."""
        words = None
        try:
            words = self.space.fact(self, self.space.threads(), "state", Batch.get_state)
        except Unavailable:
            if self.team is not None:
                raise
        if self.team is None:
            # It may keep the state of the region that it was in last.
            return ThreadState(State.IDLE, None, "runtime" if words and words.state == State.IDLE else "derived")
        if words is None:
            raise Unavailable("the library returns no state")
        return ThreadState(words.state, words.wait_id or None if is_wait(words.state) else None, "runtime")

    def is_about_to_begin(self) -> NoReturn:
        """See :meth:`ThreadHandle.is_about_to_begin`.

        :raises Unavailable: always
        """
        self.space.no_call("whether a thread has begun the code of its region")

    def tool_data(self) -> int:
        """See :meth:`ThreadHandle.tool_data`."""
        return self.space.tool_data_of(self, self.space.threads(), Scope.THREAD)

    def ompt_id(self) -> int:
        """See :meth:`Numbered.ompt_id`.

        :raises Unavailable: always
        """
        self.space.no_call("the identifiers that a runtime gives")

    def ompt_state(self) -> OwnState:
        """See :meth:`NumberedThread.ompt_state`: ``ompd_get_state``, by the name of ``ompd_enumerate_states``."""
        number = self.space.fact(self, self.space.threads(), "state", Batch.get_state).state
        names = self.space.states()
        if number not in names:
            raise Unavailable(f"the library has no name for its state {number:#x}")
        return OwnState(number, names[number])

    def lock(self) -> LockState | None:
        """See :meth:`ThreadHandle.lock`.

        :raises Unavailable: for a thread that may wait for one
        """
        self.space.no_call("who holds a lock")

    def wait_kind(self) -> str | None:
        """See :meth:`ThreadHandle.wait_kind`.

        :raises Unavailable: always
        """
        self.space.no_call("more of a wait than the thread's state")

    def scheduling_point(self) -> SchedulingPoint | None:
        """See :meth:`ThreadHandle.scheduling_point`.

        :raises Unavailable: always
        """
        self.space.no_call("for which tasks a thread waits")

    def barrier_source(self) -> str | None:
        """See :meth:`ThreadHandle.barrier_source`.

        :raises Unavailable: always
        """
        self.space.no_call("a compiler's note of a construct")

    def idle_frame(self) -> int | None:
        """See :meth:`ThreadHandle.idle_frame`.

        :raises Unavailable: always
        """
        self.space.no_call("the frame in which a thread waits for work")

    def construct_code(self) -> Sequence[ConstructCode]:
        """See :meth:`ThreadHandle.construct_code`: by the frames of its tasks."""
        return stacks.construct_code(self.space, self)

    def threadprivate_address(self, address: int) -> int | None:
        """See :meth:`ThreadHandle.threadprivate_address`."""
        return self.space.threadprivate_of_other(self.native_thread_id(), address)


class Threads(Tasks):
    """An address space with its threads."""

    @abstractmethod
    def states(self) -> Mapping[int, str]:
        """See :meth:`AddressSpace.states`."""

    @cached_property
    def id_kind(self) -> ThreadIdKind:
        """The kind of native identifiers by which the library knows threads: the first of which it does not say that
        it is not supported.
        """
        for kind in (ThreadIdKind.PTHREAD, ThreadIdKind.LWP):
            batch = self.batch()
            for native in self.process.threads():
                identifier = known(partial(self._identifier, kind, native), None)
                if identifier is None:
                    continue
                size = self.id_size(kind)
                error = batch.get_thread_handle(self.space_ref, kind, identifier, size).error()
                if error is None or error.rc != Rc.UNSUPPORTED or error.has_ended:
                    return kind
                break
        return ThreadIdKind.PTHREAD

    def id_size(self, kind: ThreadIdKind) -> int | None:
        """Return the size of a native identifier of a kind, None for one of which it is always the same."""
        return self.process.pointer_size if kind == ThreadIdKind.PTHREAD else None

    def _identifier(self, kind: ThreadIdKind, native: int) -> int:
        return self.process.pthread_self(native) if kind == ThreadIdKind.PTHREAD else native

    @cached_property
    def _found(self) -> dict[int, Thread | OmpdError | None]:
        # What the library says of each of the process's threads, by the system's identifier.
        found: dict[int, Thread | OmpdError | None] = {}
        asked: list[tuple[int, int, Pending[ThreadRef]]] = []
        batch = self.batch()
        for native in self.process.threads():
            found[native] = None
            try:
                identifier = self._identifier(self.id_kind, native)
            except OmpdError as error:
                found[native] = error
                continue
            size = self.id_size(self.id_kind)
            pending = batch.get_thread_handle(self.space_ref, self.id_kind, identifier, size)
            asked.append((native, identifier, pending))
        for native, identifier, pending in asked:
            refusal = pending.error()
            if refusal is None:
                found[native] = Thread(self, pending.value(), identifier, native)
            elif refusal.rc != Rc.UNAVAILABLE or refusal.has_ended:
                found[native] = refusal
        return found

    @cached_property
    def _threads(self) -> tuple[Thread, ...]:
        return tuple(one for one in self._found.values() if isinstance(one, Thread))

    @cached_property
    def _by_identifier(self) -> dict[int, Thread]:
        return {thread.identifier: thread for thread in self._threads}

    def threads(self) -> Sequence[Thread]:
        """See :meth:`AddressSpace.threads`: those that the process has."""
        return self._threads

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        """See :meth:`AddressSpace.thread_by_native_id`."""
        if kind == ThreadIdKind.LWP:
            return given(self._found.get(identifier))
        if kind == self.id_kind:
            return self._by_identifier.get(identifier)
        return given(self._found.get(self.process.thread_for_id(kind, identifier)))

    # Teams

    def members_of(self, region: Region) -> list[Thread | OmpdError]:  # type: ignore[override]
        """See :meth:`Region.members`."""
        batch = self.batch()
        handles = [batch.get_thread_in_parallel(region.ref, number) for number in range(region.size())]
        size = self.id_size(self.id_kind)
        identifiers = [batch.get_thread_id(handle, self.id_kind, size) for handle in handles]
        found: list[Thread | OmpdError] = []
        for handle, identifier in zip(handles, identifiers, strict=True):
            try:
                known_as = self.value(identifier)
                thread = self._by_identifier.get(known_as)
                if thread is None:
                    thread = self._by_identifier[known_as] = Thread(self, self.value(handle), known_as, None)
                found.append(thread)
            except OmpdError as error:
                found.append(error)
        return found

    @cached_property
    def _innermost(self) -> dict[Thread, Region | OmpdError | None]:
        batch = self.batch()
        pending = [batch.get_curr_parallel_handle(thread.ref) for thread in self._threads]
        return dict(zip(self._threads, self.placed(pending, self.regions_at), strict=True))

    def regions_of(self, thread: Thread) -> Sequence[Region]:  # type: ignore[override]
        """See :meth:`Regions.regions_of`."""
        return tuple(self.chain(given(self._innermost.get(thread))))

    def team_of(self, thread: Thread) -> tuple[Region, int] | None:
        """See :attr:`Thread.team`."""
        region = given(self._innermost.get(thread))
        if region is None:
            return None
        if not region.is_live:
            return None  # it was in it last
        try:
            number = region.number_of(thread)
        except OmpdError:
            # The members of the team are unknown. The thread's own variable has its number, too.
            number = self.number_of(thread, self._threads, THREAD_NUM, Scope.THREAD)
            return (region, number) if 0 <= number < region.size() else None
        return (region, number) if number is not None else None

    # Tasks

    def task_of(self, thread: Thread) -> Task | None:
        """Return the task that the library says a thread executes."""
        return given(self._current.get(thread))

    @cached_property
    def _current(self) -> dict[Thread, Task | OmpdError | None]:
        # Most execute the implicit task of their place in their region.
        batch = self.batch()
        current = {thread: batch.get_curr_task_handle(thread.ref) for thread in self._threads}
        places = {thread: known(partial(getattr, thread, "team"), None) for thread in self._threads}
        implicit = {
            thread: known(partial(self.implicit_task_of, *place), None)
            for thread, place in places.items()
            if place is not None
        }
        compared = {
            thread: batch.task_handle_compare(current[thread], task.ref)
            for thread, task in implicit.items()
            if task is not None
        }
        found: dict[Thread, Task | OmpdError | None] = {}
        for thread, same in compared.items():
            if same.error() is None and same.value() == 0:
                found[thread] = implicit[thread]
        others = [thread for thread in self._threads if thread not in found]
        placed = self.placed([current[thread] for thread in others], self.tasks_at)
        return {**found, **dict(zip(others, placed, strict=True))}

    def keeps_states(self) -> bool:
        """See :meth:`AddressSpace.keeps_states`: whether the library returns the state of any thread.

        :raises Unavailable: if there is no thread
        """
        for thread in self._threads:
            try:
                self.fact(thread, self._threads, "state", Batch.get_state)
            except Unavailable as error:
                cause = error.__cause__
                if isinstance(cause, LibraryError) and cause.rc == Rc.NEEDS_STATE_TRACKING:
                    return False
            else:
                return True
        raise Unavailable("no thread shows whether the runtime keeps states")

    def entry_on_stacks(self, region: Region) -> int:
        """See :meth:`Regions.entry_on_stacks`."""
        return stacks.entry_of_region(self, region)

    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :meth:`Region.encountering_frames`."""
        return stacks.encountering_frames(self, region)

    @abstractmethod
    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`."""
