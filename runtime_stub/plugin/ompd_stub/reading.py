"""The stub's structures in one process: each holds where others are, from one root on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from ompd.contract.helpers.pages import CachedMemory, Heap, read_by_page
from ompd.contract.helpers.stacks import CodeOwners
from ompd.contract.helpers.walks import chain, most_threads
from ompd.contract.memory import Memory, StructLayout, StructView, read_unsigned
from ompd.contract.process import Module, Process
from ompd.errors import CorruptState, LayoutUnavailable, Unavailable

NOT_KEPT = "the runtime keeps this only with OMP_DEBUG=on, or after omp_debug_enable()"


def read_whole(memory: Memory, layout: StructLayout, address: int) -> StructView:
    """Return the structure at *address*, read now.

    :raises CorruptState: if no structure can lie there
    :raises LayoutUnavailable: if its size is not known
    """
    if layout.size is None:
        raise LayoutUnavailable(f"the runtime does not publish the size of {layout.name}")
    if address % memory.pointer_size:
        raise CorruptState(address, f"a {layout.name} is said to lie at an odd address")
    data = read_by_page(memory, address, layout.size)
    return StructView(CachedMemory(memory, address, data), layout, address)


class Reading:
    """Reads the structures of one copy of the stub.

    :param layouts: where their members lie
    :param root: ``struct stub_process``
    """

    def __init__(self, process: Process, module: Module, layouts: Mapping[str, StructLayout], root: StructView) -> None:
        self.process = process
        self.module = module
        self.callbacks = process.callbacks(module)
        self.layouts = layouts
        self.root = root
        self.heap = Heap(self.callbacks)
        self.owners = CodeOwners(process, module)

    def view(self, name: str, address: int) -> StructView:
        """Return the structure *name* at *address*, read whole.

        :raises OmpdError: if it cannot be
        """
        return read_whole(self.heap, self.layouts[name], address)

    def embedded(self, outer: StructView, member: str, name: str) -> StructView:
        """Return the structure *name* that is in a member of *outer*."""
        return StructView(outer.memory, self.layouts[name], outer.address_of(member))

    def pointer(self, view: StructView, member: str) -> int:
        """Return a pointer that has to be there.

        :raises CorruptState: if it is null
        """
        address = view.pointer(member)
        if address is None:
            raise CorruptState(view.address, f"{view.layout.name} without {member}")
        return address

    def word_at(self, address: int) -> int:
        """Return the word at *address*."""
        return read_unsigned(self.callbacks, address, self.callbacks.pointer_size)

    def listed(self, name: str, first: int | None, bound: int, what: str) -> dict[int, StructView]:
        """Return the structures *name* of a list, from *first* on, each of which has the ``next`` one; by address.

        :raises CorruptState: if there is no end of them
        """
        views: dict[int, StructView] = {}

        def following(address: int) -> int | None:
            views[address] = self.view(name, address)
            return views[address].pointer("next")

        for _ in chain(first, following, bound, what):
            pass
        return views

    @cached_property
    def _debug(self) -> bool:
        enabled = self.root.unsigned("debug_enabled")
        if enabled not in (0, 1):
            raise CorruptState(self.root.address_of("debug_enabled"), f"debug_enabled is {enabled}")
        return enabled == 1

    def keeps_states(self) -> bool:
        """Return ``debug_enabled``."""
        return self._debug

    def require_debug(self) -> None:
        """Make sure that it keeps what is for debuggers alone.

        :raises Unavailable: if it does not
        """
        if not self._debug:
            raise Unavailable(NOT_KEPT)

    @cached_property
    def most_threads(self) -> int:
        """More threads than the runtime, or one team, can have."""
        return most_threads(self.process)
