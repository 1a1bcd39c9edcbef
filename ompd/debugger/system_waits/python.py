"""Who holds CPython's interpreter lock, by what the interpreter publishes of itself.

From release 3.13 on ``_PyRuntime`` begins with ``_Py_DebugOffsets``: a mark, the version, and where members are in the
interpreter's own structures (``Include/internal/pycore_debug_offsets.h``). Its own members differ between releases, so
that only those of releases are read whose header is known; and what is found has to be a thread of the process.
"""

from __future__ import annotations

from ompd.contract.memory import Memory, read_unsigned
from ompd.contract.process import Module
from ompd.debugger.symbols import Symbols
from ompd.debugger.system_waits.objects import Owners
from ompd.errors import MemoryFault, Unavailable

_COOKIE = b"xdebugpy"
_WORD = 8
_MAX_OFFSET, _MAX_STRUCTURE = 1 << 22, 1 << 24
_MAX_INTERPRETERS = 1 << 10
# The index of each member among the words of _Py_DebugOffsets, by the release: interpreters_head of the runtime;
# next, ceval_gil and the three of the lock of an interpreter; thread_id and native_thread_id of a thread.
_RUNTIME_HEAD, _NEXT = 5, 8
_INTERPRETER = {(3, 13): 14, (3, 14): 15}  # ceval_gil, gil_runtime_state, _enabled, _locked, _holder
_THREAD = {(3, 13): 19, (3, 14): 22}  # size, prev, next, interp, current_frame, thread_id, native_thread_id


class InterpreterLock:
    """The interpreter lock of the CPython in one module."""

    def __init__(self, memory: Memory, symbols: Symbols, owners: Owners, module: Module) -> None:
        self._memory, self._owners = memory, owners
        self._runtime = symbols.symbol_in(module, "_PyRuntime")

    def holder(self) -> int:
        """Return the native id of the thread that holds it.

        :raises Unavailable: if that is unknown: an interpreter before 3.13, a later one than is known, one without the
            symbol, several interpreters, or memory that contradicts itself
        """
        try:
            return self._holder()
        except MemoryFault as error:
            raise Unavailable(f"the interpreter's state is not in the target: {error}") from error

    def _holder(self) -> int:
        runtime = self._runtime
        if runtime is None:
            raise Unavailable("the Python interpreter has no symbol _PyRuntime, by which its lock is found")
        memory = self._memory
        if memory.pointer_size != _WORD or memory.read(runtime, len(_COOKIE)) != _COOKIE:
            raise Unavailable("this Python interpreter does not publish who holds its lock (CPython 3.13 and later do)")
        version = self._number(runtime + _WORD)
        release = version >> 24 & 0xFF, version >> 16 & 0xFF
        if release not in _INTERPRETER:
            raise Unavailable(f"how CPython {release[0]}.{release[1]} publishes who holds its lock is not known")
        if self._number(runtime + 2 * _WORD):
            raise Unavailable("this Python interpreter is built without a lock (free-threaded)")
        gil_at, state_at, _, locked_at, holder_at = self._offsets(runtime, _INTERPRETER[release], 5)
        thread = self._offsets(runtime, _THREAD[release], 7)
        (head_at,), (next_at,) = self._offsets(runtime, _RUNTIME_HEAD, 1), self._offsets(runtime, _NEXT, 1)
        if not state_at <= holder_at < state_at + 4096 or not state_at <= locked_at < state_at + 4096:
            raise Unavailable("what the Python interpreter publishes of its lock contradicts itself")
        locks = self._locks(self._number(runtime + head_at), next_at, gil_at)
        if len(locks) != 1:
            raise Unavailable(f"the process has {len(locks)} Python interpreters with a lock of their own")
        gil = locks.pop()
        locked = read_unsigned(memory, gil - state_at + locked_at, 4)
        state = self._number(gil - state_at + holder_at)
        if locked != 1 or not state:
            raise Unavailable("nobody holds Python's interpreter lock at this moment")
        pthread, number = self._number(state + thread[5]), self._number(state + thread[6])
        native = self._owners.native_id(number)
        if native is None:
            raise Unavailable(f"the holder of Python's interpreter lock, {number}, is no thread of the process")
        if not pthread or not self._owners.is_thread(native, pthread):
            raise Unavailable("the state of the thread that holds Python's interpreter lock contradicts itself")
        return native

    def _locks(self, interpreter: int, next_at: int, gil_at: int) -> set[int]:
        # Interpreters may have the same lock.
        seen: set[int] = set()
        locks: set[int] = set()
        while interpreter and interpreter not in seen:
            if len(seen) == _MAX_INTERPRETERS:
                raise Unavailable(f"the process seems to have more than {_MAX_INTERPRETERS} Python interpreters")
            seen.add(interpreter)
            locks.add(self._number(interpreter + gil_at))
            interpreter = self._number(interpreter + next_at)
        if interpreter:
            raise Unavailable("the list of Python interpreters does not end")
        return locks - {0}

    def _offsets(self, runtime: int, index: int, count: int) -> list[int]:
        found = [self._number(runtime + (index + number) * _WORD) for number in range(count)]
        if max(found) > _MAX_OFFSET:
            raise Unavailable("what the Python interpreter publishes of its structures contradicts itself")
        return found

    def _number(self, address: int) -> int:
        return read_unsigned(self._memory, address, _WORD)
