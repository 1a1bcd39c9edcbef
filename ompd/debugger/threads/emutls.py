"""Emulated thread-local storage: variables that libgcc or compiler-rt keep by a POSIX thread key.

Of each variable the program has a control object ``__emutls_v.NAME``: size, alignment, a number from 1 on (0 until a
thread uses it), initial value. Each thread keeps under one key an array of pointers to its copies, behind its
``size``; in compiler-rt, and in newer libgcc than that of GCC 12, a count is before that, ``skip_destructor_rounds``.
Where the key has no symbol it is found by what is under it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ompd.contract.memory import Memory, read_unsigned
from ompd.debugger.modules.loader import SymbolSource
from ompd.debugger.threads.threads import Threads
from ompd.debugger.threads.tls import ThreadLocalStorage
from ompd.errors import BadInput, CorruptState, MemoryFault, OmpdError, Unavailable

PREFIX = "__emutls_v."
"""What the names of control objects begin with."""

_KEYS = ("emutls_key", "emutls_pthread_key")
_SIZEOF_KEY = 4
_MAX_KEYS = 1 << 12  # PTHREAD_KEYS_MAX is 1024
_MAX_VARIABLES = 1 << 20
_MAX_ROUNDS = 8  # PTHREAD_DESTRUCTOR_ITERATIONS is 4
_MAX_SIZE = 1 << 40
_MAX_KEPT = 1 << 20


class Control(NamedTuple):
    """A variable's control object: size and alignment in bytes, and its number, 0 if no thread has used it yet."""

    address: int
    size: int
    align: int
    number: int


class EmulatedTls:
    """The emulated thread-local variables of one process at one stop."""

    def __init__(
        self,
        memory: Memory,
        symbols: SymbolSource,
        threads: Threads,
        storage: ThreadLocalStorage,
    ) -> None:
        self._memory, self._symbols, self._threads, self._storage = memory, symbols, threads, storage
        self._keys: dict[int, int] = {}  # of variables, by their control object: the key of the copies

    def control(self, address: int) -> Control:
        """Return the control object at *address*.

        :raises CorruptState: if it cannot be one
        """
        word = self._memory.pointer_size
        size, align, number = (read_unsigned(self._memory, address + at * word, word) for at in range(3))
        if not 0 < size < _MAX_SIZE or not 0 < align < _MAX_SIZE or align & align - 1:
            raise CorruptState(address, f"an emulated thread-local variable of {size} bytes, aligned to {align}")
        return Control(address, size, align, number)

    def address(self, control_address: int, thread: int) -> int | None:
        """Return where *thread* has its copy of the variable with the control object at an address; None if it has no
        storage yet.

        :raises Unavailable: if the key of the copies cannot be distinguished from others
        """
        control = self.control(control_address)
        if not control.number:
            return None
        if control.number > _MAX_VARIABLES:
            return control.number  # a program without threads has the address itself there
        if control_address not in self._keys:
            self._keys[control_address] = self._find_key(control)
        array = self._storage.key_value(thread, self._keys[control_address])
        return self._copy(array, control.number) if array is not None else None

    def _array(self, address: int) -> tuple[int, int]:
        # Where the pointers of a thread's array begin, and how many there are. Arrays have room for some dozen from the
        # start, so that a small first word is the count of destructors' rounds.
        word = self._memory.pointer_size
        first = read_unsigned(self._memory, address, word)
        if first > _MAX_ROUNDS:
            return address + word, first
        return address + 2 * word, read_unsigned(self._memory, address + word, word)

    def _copy(self, array: int, number: int) -> int | None:
        pointers, length = self._array(array)
        if number > length:
            return None
        word = self._memory.pointer_size
        return read_unsigned(self._memory, pointers + (number - 1) * word, word) or None

    def read_copies(self, controls: Sequence[int], thread: int) -> None:
        """Read the copies that *thread* has of variables, for a target that notes what is read.

        What cannot be read is left.

        :param controls: where their control objects are
        """
        for control_address in controls:
            with suppress(OmpdError):
                copy = self.address(control_address, thread)
                if copy is not None:
                    self._memory.read(copy, min(self.control(control_address).size, _MAX_KEPT))

    # The key

    def _find_key(self, control: Control) -> int:
        named = self._named_keys()
        if len(named) == 1:
            return named[0]
        fitting = [key for key in named or range(_MAX_KEYS) if self._fits(key, control)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            keys = ", ".join(map(str, fitting))
            raise Unavailable(f"emulated thread-local storage: it may be that of any of the POSIX thread keys {keys}")
        raise Unavailable("emulated thread-local storage: no POSIX thread key leads to copies of the variable")

    def _named_keys(self) -> list[int]:
        found: list[int] = []
        for module in self._symbols.modules():
            for address in self._symbols.symbols_in(module, _KEYS).values():
                found.append(read_unsigned(self._memory, address, _SIZEOF_KEY))
        return found

    def _fits(self, key: int, control: Control) -> bool:
        # Whether every thread has under the key nothing, or what can be its array, and one a copy of the variable.
        has_copy = False
        for thread in self._threads.ids():
            try:
                array = self._storage.key_value(thread, key)
                if array is None:
                    continue
                copy = self._plausible_copy(array, control)
            except (BadInput, MemoryFault, CorruptState):
                return False
            if copy is None:
                return False
            has_copy = has_copy or copy
        return has_copy

    def _plausible_copy(self, array: int, control: Control) -> bool | None:
        # Whether the array has a copy of the variable; None if it cannot be such an array.
        word = self._memory.pointer_size
        if array % word:
            return None
        if not 0 < self._array(array)[1] <= _MAX_VARIABLES:
            return None
        copy = self._copy(array, control.number)
        if not copy:
            return False
        if copy % control.align:
            return None
        self._memory.read(copy, min(control.size, word))
        # In front of a copy is the address of the block that it was allocated in, to be freed.
        block = read_unsigned(self._memory, copy - word, word)
        return True if copy - word - 2 * max(control.align, word) < block <= copy - word else None
