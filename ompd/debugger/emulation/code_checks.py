"""Checks before a routine of the target is decoded or emulated.

The routine's code must equal the verified file, and the target must have the thread's storage.
"""

from __future__ import annotations

from collections.abc import Callable

from ompd.contract.memory import read_unsigned
from ompd.debugger.memory import PAGE, TargetMemory
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.regions import Regions
from ompd.errors import MemoryFault, Unavailable


class TargetCode:
    """Code and data of one process at one stop, for the decoder and the emulator.

    :param symbolize: returns the name of an address
    :param thread_pointer: returns the thread pointer of a thread
    """

    def __init__(
        self,
        memory: TargetMemory,
        regions: Regions,
        modules: ModuleList,
        symbolize: Callable[[int], str | None],
        thread_pointer: Callable[[int], int],
    ) -> None:
        self.memory, self._regions, self._modules = memory, regions, modules
        self.symbolize, self.thread_pointer = symbolize, thread_pointer
        self._storage: dict[int, int] = {}

    def name(self, address: int) -> str:
        """Return the name of *address*, or the address as text."""
        return self.symbolize(address) or f"{address:#x}"

    def read_code(self, page: int) -> bytes:
        """Return the page of code at *page*.

        :raises MemoryFault: if the target does not hold the page
        """
        return self.memory.read(page, PAGE)

    def load(self, address: int, size: int) -> bytes:
        """Return *size* bytes of data at *address*.

        :raises MemoryFault: if the target does not hold the bytes
        :raises CorruptState: if the bytes are lost and read as zeros
        """
        self.memory.check_data(address)
        return self.memory.read_data(address, size)

    def fault(self, page: int) -> str | None:
        """Return why the code in the page at *page* must not be followed, None if it may be followed.

        The reason is a text that follows the word "it", which stands for the routine.

        :raises MemoryFault: if the target does not hold the page
        """
        module = self._modules.at(page)
        if module is not None:
            fault = _module_fault(module, is_whole=self.memory.is_whole)
            if fault is not None:
                return fault
        elif not self.memory.is_whole:
            return f"comes to {page:#x}, where the target has lost what module there was"
        if not self._regions.is_code(page):
            return f"comes to {self.name(page)}, where no code is"
        if module is not None:
            # The target's bytes would be run, so they must not have a breakpoint or damage.
            original = module.read_file(page, PAGE)
            if original is not None and original != self.read_code(page):
                return f"comes to code of {module.name} at {page:#x} that is not what its file has"
        return None

    def loop_fault(self, page: int) -> str | None:
        """Return why the code in the page at *page* must not be part of a loop, None if it may be.

        Besides what :meth:`fault` refuses, this is code of no file. The vDSO is such code: what it reads changes with
        time. So is code that the program made, which may change.

        :raises MemoryFault: if the target does not hold the page
        """
        if self._modules.at(page) is None:
            return f"comes to {self.name(page)}, which is code of no file"
        return self.fault(page)

    def is_code(self, address: int) -> bool:
        """Return whether the memory at *address* is executable."""
        return self._regions.is_code(address)

    def storage_of(self, thread: int) -> int:
        """Return the thread pointer of *thread*, after a check that the thread control block there is not lost.

        In the supported ABIs the block's first word is its own address, from which code computes the addresses of
        thread-local variables ("ELF Handling For Thread-Local Storage", 3.4.6). In a lost page this word, and every
        variable, would read as zero.

        :raises Unavailable: if the block is lost
        """
        pointer = self._storage.get(thread)
        if pointer is not None:
            return pointer
        pointer = self.thread_pointer(thread)
        try:
            self_pointer = read_unsigned(self.memory, pointer, self.memory.pointer_size)
        except MemoryFault as error:
            raise Unavailable(f"the storage of thread {thread} is not there: {error}", hint=error.hint) from error
        if self_pointer != pointer:
            raise Unavailable(f"the storage of thread {thread} is lost: at {pointer:#x} is not what threads have")
        self._storage[thread] = pointer
        return pointer


def _module_fault(module: LoadedModule, *, is_whole: bool) -> str | None:
    if module.unproven is not None:
        return f"comes to code of {module.name}, which is {module.unproven}"
    if module.damaged_bytes:
        return f"comes to code of {module.name}, of which bytes in the target are not those of its file"
    if module.elf is None and not is_whole:
        return f"comes to code of {module.name}, and {module.record.fault or 'its file is unknown'}"
    return None
