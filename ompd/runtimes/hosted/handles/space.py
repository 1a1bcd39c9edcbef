"""One runtime of one process, as a library reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NoReturn

from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.ompd import Scope, ThreadIdKind
from ompd.contract.plugin import IcvDescription
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, LayoutUnavailable, LibraryError, Rc, Unavailable
from ompd.runtimes.hosted.api import Batch, Icv, SpaceRef
from ompd.runtimes.hosted.client import HostedLibrary
from ompd.runtimes.hosted.dmpl.beside import Beside, Copies
from ompd.runtimes.hosted.handles import icvs
from ompd.runtimes.hosted.handles.queries import Handle, given, no_call, value
from ompd.runtimes.hosted.handles.regions import Regions
from ompd.runtimes.hosted.handles.tasks import Tasks
from ompd.runtimes.hosted.handles.threads import Thread, Threads

LIBRARY = "library"
"""The name of the layout's source, if only the library knows the layout."""

_QUEUED = "the tasks that no thread executes"
_STATE_PREFIX = "ompt_state_"


class HostedSpace(Handle):
    """A runtime, identified by a library's address space handle.

    :param ref: the address space
    :param is_whole: whether all code of the module belongs to the runtime
    :param beside: the library's DMPL functions, if it may have them
    """

    ref: SpaceRef
    layout_source = LIBRARY
    layout_proof = None
    threadprivate_mechanism = "key"  # DMPL returns copies of threadprivate variables in storage under keys

    def __init__(
        self,
        process: Process,
        module: Module,
        library: HostedLibrary,
        ref: SpaceRef,
        *,
        is_whole: bool = False,
        beside: Beside | None = None,
    ) -> None:
        super().__init__(self, ref)
        self.process = process
        self.module = module
        self.hosted_library = library
        self.beside = beside
        self.owners = CodeOwners(process, module, is_whole=is_whole)
        self.regions = Regions(self)
        self.tasks = Tasks(self)
        self.all_threads = Threads(self)

    def batch(self) -> Batch:
        """Return a new batch of calls.

        :raises StaleHandle: if the process has run since, because the library's process caches memory of the stop
        """
        self.process.check_current()
        return self.hosted_library.batch()

    @property
    def layout_sources(self) -> Mapping[str, str]:
        return {}

    def damage(self) -> Sequence[CorruptState]:
        return ()

    @cached_property
    def _omp_version(self) -> int:
        return value(self.hosted_library, self.batch().get_omp_version(self.ref))

    def omp_version(self) -> int:
        return self._omp_version

    def version(self) -> NoReturn:
        no_call("the version of the runtime itself")

    # Threads

    def threads(self) -> Sequence[Thread]:
        return self.all_threads.known

    def gone_threads(self) -> NoReturn:
        no_call("which threads the runtime has")

    def thread_by_native_id(self, kind: ThreadIdKind, identifier: int) -> Thread | None:
        if kind == ThreadIdKind.LWP:
            return given(self.all_threads.by_native.get(identifier))
        if kind == self.all_threads.id_kind:
            return self.all_threads.by_identifier.get(identifier)
        return given(self.all_threads.by_native.get(self.process.thread_for_id(kind, identifier)))

    @cached_property
    def _states(self) -> Mapping[int, str]:
        return value(self.hosted_library, self.batch().enumerate_states(self.ref))

    def states(self) -> Mapping[int, str]:
        return {number: name.removeprefix(_STATE_PREFIX) for number, name in self._states.items()}

    def keeps_states(self) -> bool:
        """Return whether the library returns the state of at least one thread.

        :raises Unavailable: if there is no thread
        """
        for thread in self.threads():
            try:
                thread.fact(Batch.get_state)
            except Unavailable as error:
                cause = error.__cause__
                if isinstance(cause, LibraryError) and cause.rc == Rc.NEEDS_STATE_TRACKING:
                    return False
            else:
                return True
        raise Unavailable("no thread shows whether the runtime keeps states")

    # Variables

    @cached_property
    def icv_list(self) -> Sequence[Icv]:
        """The control variables that the library lists, in its order.

        :raises OmpdError: if the library does not list them
        """
        return value(self.hosted_library, self.batch().enumerate_icvs(self.ref))

    def icv_of(self, names: Sequence[str], scope: Scope) -> Icv:
        """Return the first listed variable of *scope* whose name is one of *names*.

        :raises Unavailable: if the library has no such variable
        """
        for icv in self.icv_list:
            if icv.name in names and icv.scope == scope:
                return icv
        raise Unavailable(f"{self.hosted_library.name} has no {names[0]} of scope {scope.name.lower()}")

    def icvs(self) -> Sequence[IcvDescription]:
        return icvs.describe(self.icv_list)

    def icv(self, name: str, handle: object) -> int | str:
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        texts = value(self.hosted_library, self.batch().get_display_control_vars(self.ref))
        pairs = (text.partition("=") for text in texts)
        return {name.strip(): setting.strip() for name, _, setting in pairs}

    @cached_property
    def _copies(self) -> Copies | None:
        return self.beside.copies(self.process.callbacks(self.module)) if self.beside is not None else None

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        if self._copies is None:
            no_call("whether a runtime keeps copies of a variable for each thread")
        return self._copies.address(thread, address)

    def threadprivate_copies(self) -> NoReturn:
        raise LayoutUnavailable("OMPD has no call that returns whether a runtime keeps copies of variables")

    # Tasks that no thread executes

    def queued_tasks(self) -> NoReturn:
        no_call(_QUEUED)

    def waiting_tasks(self) -> NoReturn:
        no_call(_QUEUED)

    def prioritized_tasks(self) -> NoReturn:
        no_call(_QUEUED)

    def unlisted_tasks(self) -> NoReturn:
        raise LayoutUnavailable(f"OMPD has no call that returns {_QUEUED}")
