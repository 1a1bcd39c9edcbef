"""One copy of the stub in one process: which threads, teams and tasks there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ompd.contract.helpers.defaults import AllQueued
from ompd.contract.ompt import FROM_2015
from ompd.contract.plugin import ConstructCode, IcvDescription, SchedulingPoint, ThreadState
from ompd.contract.process import Frame
from ompd.contract.waits import BarrierState, LockState
from ompd.errors import CorruptState, SymbolNotFound
from ompd_stub import icvs, integrity, points, stacks, states, structures, waits
from ompd_stub.teams import Region
from ompd_stub.threadprivate import Threadprivate
from ompd_stub.threads import Thread, Threads

_VERSION = "omp_stub_version"


class Runtime(AllQueued, Threads):
    """Keeps what it has read. See :class:`ompd.contract.plugin.AddressSpace`."""

    layout_source = structures.SOURCE
    layout_proof = None

    @property
    def layout_sources(self) -> Mapping[str, str]:
        """See :attr:`AddressSpace.layout_sources`."""
        return dict.fromkeys(self.layouts, structures.SOURCE)

    # What the runtime says of itself

    def omp_version(self) -> int:
        """Return ``openmp_version``."""
        return self.root.unsigned("openmp_version")

    def version(self) -> str | None:
        """Return what is in ``omp_stub_version``, None in a build without."""
        try:
            address = self.callbacks.find_symbol(_VERSION)
        except SymbolNotFound:
            return None
        return self.callbacks.read_string(address, 256).decode("utf-8", "replace").removeprefix("libomp_stub ")

    def states(self) -> Mapping[int, str]:
        """Return the states that the stub knows, of 2015, as OpenMP 5 names and numbers them."""
        return {state.value: state.name.lower() for state in FROM_2015.values()}

    # What other parts of the plugin find out

    def state_of(self, thread: Thread) -> ThreadState:
        """See :func:`ompd_stub.states.thread_state`."""
        return states.thread_state(thread)

    def kind_of(self, thread: Thread) -> str | None:
        """See :func:`ompd_stub.points.kind_of`."""
        return points.kind_of(thread)

    def point_of(self, thread: Thread) -> SchedulingPoint | None:
        """See :func:`ompd_stub.points.point_of`."""
        return points.point_of(thread)

    def lock_of(self, thread: Thread) -> LockState | None:
        """See :func:`ompd_stub.waits.lock_of`."""
        return waits.lock_of(thread)

    def barriers_of(self, region: Region) -> Sequence[BarrierState]:
        """See :func:`ompd_stub.waits.barriers_of`."""
        return waits.barriers_of(self, region)

    def construct_code_of(self, thread: Thread) -> Sequence[ConstructCode]:
        """See :func:`ompd_stub.stacks.construct_code`."""
        return stacks.construct_code(thread)

    def encountering_frames_of(self, region: Region) -> Sequence[Frame]:
        """See :func:`ompd_stub.stacks.encountering_frames`."""
        return stacks.encountering_frames(self, region)

    @cached_property
    def threadprivate(self) -> Threadprivate:
        """The copies of threadprivate variables that the runtime keeps."""
        return Threadprivate(self)

    threadprivate_mechanism = "key"

    def threadprivate_of_other(self, thread: int, address: int) -> int | None:
        """See :meth:`AddressSpace.threadprivate_of_other`: any thread may have a value under the key."""
        return self.threadprivate.address(thread, address)

    def threadprivate_copies(self) -> Sequence[tuple[int, int]]:
        """See :meth:`AddressSpace.threadprivate_copies`."""
        return self.threadprivate.copies()

    def damage(self) -> Sequence[CorruptState]:
        """See :meth:`AddressSpace.damage`."""
        return self._damage

    @cached_property
    def _damage(self) -> Sequence[CorruptState]:
        return integrity.damage(self, self.threadprivate)

    # Settings

    def icvs(self) -> Sequence[IcvDescription]:
        """See :meth:`AddressSpace.icvs`."""
        return icvs.describe()

    def icv(self, name: str, handle: object) -> int | str:
        """See :meth:`AddressSpace.icv`."""
        return icvs.read(self, name, handle)

    def display_control_vars(self) -> Mapping[str, str]:
        """See :meth:`AddressSpace.display_control_vars`."""
        return icvs.display(self)
