"""Emulated thread-local variables: libgcc or compiler-rt keep the copies of such a variable under a POSIX thread key.

For each variable the program has a control object ``__emutls_v.NAME`` with the variable's size, alignment, number and
initial value. Numbers begin at 1, and are 0 until a thread uses the variable. Under one key, each thread keeps an
array: the number of pointers (``size``), then pointers to the thread's copies, in the order of the variables' numbers.
In compiler-rt, and in libgcc since GCC 13, a count ``skip_destructor_rounds`` precedes ``size``. If the key has no
symbol, it is recognised by the values that threads keep under it.
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
"""The prefix of the names of control objects."""

_KEYS = ("emutls_key", "emutls_pthread_key")
_SIZEOF_KEY = 4
_MAX_KEYS = 1 << 12  # PTHREAD_KEYS_MAX is 1024
_MAX_VARIABLES = 1 << 20
_MAX_ROUNDS = 8  # PTHREAD_DESTRUCTOR_ITERATIONS is 4
_MAX_SIZE = 1 << 40
_MAX_KEPT = 1 << 20


class Control(NamedTuple):
    """A variable's control object, at ``address``: the variable's size and alignment in bytes, and its number.

    ``number`` is 0 until a thread uses the variable.
    """

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
        self._keys: dict[int, int] = {}  # the key of a variable's copies, by the address of its control object

    def control(self, address: int) -> Control:
        """Return the control object at *address*.

        :raises CorruptState: if no control object can be there
        """
        word = self._memory.pointer_size
        size, align, number = (read_unsigned(self._memory, address + index * word, word) for index in range(3))
        if not 0 < size < _MAX_SIZE or not 0 < align < _MAX_SIZE or align & align - 1:
            raise CorruptState(address, f"an emulated thread-local variable of {size} bytes, aligned to {align}")
        return Control(address, size, align, number)

    def address(self, control_address: int, thread: int) -> int | None:
        """Return the address of *thread*'s copy of a variable, None if the thread has none yet.

        :param control_address: the address of the variable's control object
        :raises Unavailable: if no key, or more than one, may be the key of the copies
        """
        control = self.control(control_address)
        if not control.number:
            return None
        if control.number > _MAX_VARIABLES:
            return control.number  # in a program without threads, this member is the variable's address
        if control_address not in self._keys:
            self._keys[control_address] = self._find_key(control)
        array = self._storage.key_value(thread, self._keys[control_address])
        return self._copy(array, control.number) if array is not None else None

    def _array(self, address: int) -> tuple[int, int]:
        # Return the address of the pointers in a thread's array, and how many there are. From the start an array has
        # room for some dozen pointers, so a small first word is not their number, but skip_destructor_rounds.
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
        """Read *thread*'s copies of variables, so that a target notes their pages. Faults are ignored.

        :param controls: the addresses of the variables' control objects
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
        return [
            read_unsigned(self._memory, address, _SIZEOF_KEY)
            for module in self._symbols.modules()
            for address in self._symbols.symbols_in(module, _KEYS).values()
        ]

    def _fits(self, key: int, control: Control) -> bool:
        # Return whether *key* may be that of the variable's copies. Then each thread's value of the key is null or the
        # address of a plausible array, and some thread's array has a copy of the variable.
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
        # Return whether the array at this address has a copy of the variable; None if no thread's array can be there.
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
        # The word before a copy is the address of its allocated block, for free().
        block = read_unsigned(self._memory, copy - word, word)
        return True if copy - word - 2 * max(control.align, word) < block <= copy - word else None
