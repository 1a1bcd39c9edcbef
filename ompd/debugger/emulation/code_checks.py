"""What is checked before a routine of the target is followed, by the emulator or by the decoder: its code is that of a
file which is verified to be the one that ran, and the thread's storage is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ompd.contract.memory import read_unsigned
from ompd.errors import MemoryFault, Unavailable

if TYPE_CHECKING:
    from ompd.debugger.inspected import InspectedProcess
    from ompd.debugger.modules.modules import LoadedModule

PAGE = 4096


def code_fault(process: InspectedProcess, is_code: Callable[[int], bool], page: int) -> str | None:
    """Return why the code in the page at *page* must not be followed, None if it may be; it goes on after "it".

    :param is_code: says whether an address can be executed
    :raises MemoryFault: if the target does not hold the page
    """
    module = process.loaded_module_at(page)
    if module is not None:
        fault = _module_fault(module, is_whole=process.is_whole)
        if fault is not None:
            return fault
    elif not process.is_whole:
        return f"comes to {page:#x}, where the target has lost what module there was"
    if not is_code(page):
        return f"comes to {process.symbolize(page) or f'{page:#x}'}, where no code is"
    if module is not None:
        # What is held by the target is what would have run. But it is not code that its file has: somebody set a
        # breakpoint, or it is damaged.
        original = module.read_file(page, PAGE)
        if original is not None and original != process.read(page, PAGE):
            return f"comes to code of {module.name} at {page:#x} that is not what its file has"
    return None


def storage_of(process: InspectedProcess, thread: int, pointer_size: int) -> int:
    """Return the thread pointer of *thread*, for ABIs whose thread control block begins with its own address ("ELF
    Handling For Thread-Local Storage", 3.4.6): code finds the address of thread-local variables there. Where a page was
    lost, zeros are there, and every variable would be zero.

    :raises Unavailable: if the block is lost
    """
    pointer = process.thread_pointer(thread)
    try:
        own = read_unsigned(process, pointer, pointer_size)
    except MemoryFault as error:
        raise Unavailable(f"the storage of thread {thread} is not there: {error}", hint=error.hint) from error
    if own != pointer:
        raise Unavailable(f"the storage of thread {thread} is lost: at {pointer:#x} is not what threads have")
    return pointer


def _module_fault(module: LoadedModule, *, is_whole: bool) -> str | None:
    if module.unproven is not None:
        return f"comes to code of {module.name}, which is {module.unproven}"
    if module.damaged_bytes:
        return f"comes to code of {module.name}, of which bytes in the target are not those of its file"
    if module.elf is None and not is_whole:
        return f"comes to code of {module.name}, and {module.record.fault or 'its file is unknown'}"
    return None
