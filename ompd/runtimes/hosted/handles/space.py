"""One runtime of one process, as a library reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NoReturn

from ompd.contract.helpers.defaults import Plain
from ompd.contract.plugin import IcvDescription, TaskHandle
from ompd.contract.waits import GoneThread
from ompd.errors import LayoutUnavailable
from ompd.runtimes.hosted.dmpl.beside import Beside, Copies
from ompd.runtimes.hosted.handles import icvs
from ompd.runtimes.hosted.handles.threads import Threads

LIBRARY = "library"
"""The source of the layout where only a library knows it."""

_LISTS = "the tasks that no thread executes"


class HostedSpace(Plain, Threads):
    """See :class:`ompd.contract.plugin.AddressSpace`."""

    @property
    def layout_source(self) -> str:
        """See :attr:`AddressSpace.layout_source`: only the library knows it."""
        return LIBRARY

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return {}

    @property
    def layout_proof(self) -> None:
        """See :attr:`AddressSpace.layout_proof`."""

    beside: Beside | None = None
    """The library's DMPL functions, if it may have them."""

    @cached_property
    def _copies(self) -> Copies | None:
        return self.beside.copies(self.process.callbacks(self.module)) if self.beside is not None else None

    @property
    def threadprivate_mechanism(self) -> str:
        """See :attr:`AddressSpace.threadprivate_mechanism`: DMPL is for storage under keys."""
        return "key"

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`: by ``DMPL_get_tls_address``, if the library has it.

        :raises Unavailable: if it does not
        """
        if self._copies is None:
            self.no_call("whether a runtime keeps copies of a variable for each thread")
        return self._copies.address(thread, address)

    @cached_property
    def _omp_version(self) -> int:
        return self.value(self.batch().get_omp_version(self.space_ref))

    def omp_version(self) -> int:
        """See :meth:`AddressSpace.omp_version`."""
        return self._omp_version

    def version(self) -> NoReturn:
        """See :meth:`AddressSpace.version`.

        :raises Unavailable: always
        """
        self.no_call("the version of the runtime itself")

    def gone_threads(self) -> Sequence[GoneThread]:
        """See :meth:`AddressSpace.gone_threads`.

        :raises Unavailable: always
        """
        self.no_call("which threads the runtime has")

    @cached_property
    def _states(self) -> Mapping[int, str]:
        return self.value(self.batch().enumerate_states(self.space_ref))

    def states(self) -> Mapping[int, str]:
        """See :meth:`AddressSpace.states`: without the prefix that libraries put before the names."""
        prefix = "ompt_state_"
        return {number: name.removeprefix(prefix) for number, name in self._states.items()}

    # Variables

    def icvs(self) -> Sequence[IcvDescription]:
        """See :meth:`AddressSpace.icvs`: of each name the first."""
        return icvs.describe(self.icv_list)

    def icv(self, name: str, handle: object) -> int | str:
        """See :meth:`AddressSpace.icv`."""
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        """See :meth:`AddressSpace.display_control_vars`."""
        texts = self.value(self.batch().get_display_control_vars(self.space_ref))
        pairs = (text.partition("=") for text in texts)
        return {name.strip(): value.strip() for name, _, value in pairs}

    # What OMPD has no call for

    def queued_tasks(self) -> Iterable[TaskHandle]:
        """See :meth:`AddressSpace.queued_tasks`.

        :raises Unavailable: always
        """
        self.no_call(_LISTS)

    def waiting_tasks(self) -> Sequence[TaskHandle]:
        """See :meth:`AddressSpace.waiting_tasks`.

        :raises Unavailable: always
        """
        self.no_call(_LISTS)

    def prioritized_tasks(self) -> Sequence[TaskHandle]:
        """See :meth:`AddressSpace.prioritized_tasks`.

        :raises Unavailable: always
        """
        self.no_call(_LISTS)

    def unlisted_tasks(self) -> Mapping[str, int]:
        """See :meth:`AddressSpace.unlisted_tasks`.

        :raises LayoutUnavailable: always
        """
        raise LayoutUnavailable(f"OMPD has no call that returns {_LISTS}")

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """See :meth:`AddressSpace.threadprivate_copies`.

        :raises LayoutUnavailable: always
        """
        raise LayoutUnavailable("OMPD has no call that returns whether a runtime keeps copies of variables")
