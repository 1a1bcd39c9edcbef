"""Threadprivate variables, found by the runtime's DMPL library through DMPL's callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import finalize

from ompd.contract.dmpl import Result
from ompd.contract.dmpl_debugger import Debugger
from ompd.contract.memory import StructView
from ompd.errors import BadInput, CorruptState, OmpdError, Unavailable
from ompd_stub.dmpl import DAMAGED, KEY, NOT_THREADPRIVATE, StubLibrary

if TYPE_CHECKING:
    from ompd_stub.runtime import Runtime

_MAX_VARIABLES = 1 << 16
_CAPACITY = 1 << 20


class Threadprivate:
    """The copies that the stub keeps for the threads of one process at one stop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._debugger = Debugger()
        self._library = StubLibrary()
        self._library.initialise(self._debugger.table, self._debugger.types)
        self._process = self._debugger.add_process(runtime.callbacks)
        # The library's data of the process are destroyed when this stop is no longer used.
        finalize(self, self._debugger.release, self._process, self._library).atexit = False

    def address(self, thread: int, address: int) -> int | None:
        """Return the address of a thread's copy of the variable at *address*, None if it has no storage yet.

        :param thread: the thread's native identifier
        :raises BadInput: if the runtime keeps no copies of the variable
        :raises CorruptState: if the runtime's list of variables is damaged
        :raises OmpdError: if a callback fails
        """
        code, found = self._library.get_tls_address(self._debugger.thread(self._process, thread), address)
        if code == Result.OK:
            return found
        if code == Result.TLS_UNALLOCATED:
            return None
        text = self._library.error_string(code)
        if code == NOT_THREADPRIVATE:
            raise BadInput(f"{address:#x}: {text}")
        if code == DAMAGED:
            raise CorruptState(self._runtime.root.address_of("privates"), text)
        raise self._debugger.fault(self._process) or Unavailable(text)

    def records(self) -> Sequence[StructView]:
        """Return the records of all variables.

        :raises CorruptState: if their list does not end
        """
        first = self._runtime.root.pointer("privates")
        what = "the list of threadprivate variables"
        return tuple(self._runtime.listed("omp_stub_private", first, _MAX_VARIABLES, what).values())

    def copies(self) -> Sequence[tuple[int, int]]:
        """Return the address and size of each thread's storage, including the word before it.

        :raises OmpdError: if the variables cannot be read
        """
        runtime = self._runtime
        callbacks, word = runtime.callbacks, runtime.callbacks.pointer_size
        ends = (record.unsigned("offset") + record.unsigned("size") for record in self.records())
        end = max(ends, default=0)
        if not 0 < end <= _CAPACITY:
            return ()
        key = runtime.word_at(callbacks.find_symbol(KEY))
        copies = []
        for thread in runtime.process.threads():
            try:
                base = callbacks.pthread_key(thread, key)
            except OmpdError:
                continue  # the row of that thread reports the error
            if base is not None:
                copies.append((base - word, end + word))
        return copies
