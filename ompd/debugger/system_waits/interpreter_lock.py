"""The holder of CPython's interpreter lock, by the offsets that the interpreter publishes.

From release 3.13 on ``_PyRuntime`` begins with ``_Py_DebugOffsets``: a mark, the version, and the offsets of members in
the interpreter's structures (``Include/internal/pycore_debug_offsets.h``). The layout of ``_Py_DebugOffsets`` differs
between releases, so it is read only for known releases. The lock names the thread state that took it last. A thread
state notes the thread that made it, but another thread may use the state. So the holder is the thread whose
``_Py_tss_tstate`` is the lock's thread state.
"""

from __future__ import annotations

from collections.abc import Sequence

from ompd.contract.memory import Memory, read_unsigned
from ompd.contract.process import Module
from ompd.debugger.symbols import Symbols
from ompd.errors import MemoryFault, OmpdError, SymbolNotFound, Unavailable

_COOKIE = b"xdebugpy"
_WORD = 8
_MAX_OFFSET, _MAX_STRUCTURE = 1 << 22, 1 << 24
_MAX_INTERPRETERS = 1 << 10
# The numbers of the words of _Py_DebugOffsets with the offsets of interpreters_head in the runtime, and of next in an
# interpreter.
_RUNTIME_HEAD, _NEXT = 5, 8
# The number of the word with the first of five offsets, by release. The five are ceval_gil, gil_runtime_state,
# _enabled, _locked and _holder.
_INTERPRETER = {(3, 13): 14, (3, 14): 15}
# A thread-local variable: the address of the thread's state if the thread has the lock, null while it waits for the
# lock.
_CURRENT = "_Py_tss_tstate"


class InterpreterLock:
    """The interpreter lock of the CPython in one module."""

    def __init__(self, memory: Memory, symbols: Symbols, threads: Sequence[int], module: Module) -> None:
        self._memory, self._symbols, self._threads, self._module = memory, symbols, threads, module
        self._runtime = symbols.symbol_in(module, "_PyRuntime")

    def holder(self) -> int:
        """Return the native id of the thread that holds the lock.

        :raises Unavailable: if the release is older than 3.13 or not known yet, if symbols are missing, if there are
            several locks, if no lock is held, or if memory contradicts itself
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
        users = [thread for thread in self._threads if self._current_state(thread) == state]
        if len(users) != 1:
            count = f"{len(users)} threads of the process use"
            raise Unavailable(f"{count} the thread state {state:#x}, which holds Python's interpreter lock")
        return users[0]

    def _current_state(self, thread: int) -> int | None:
        try:
            return self._number(self._symbols.find_symbol_in(self._module, _CURRENT, thread=thread))
        except SymbolNotFound as error:
            raise Unavailable(f"which thread holds Python's interpreter lock is not known: {error}") from error
        except OmpdError:
            return None  # the thread has no copy of the interpreter's variable, or the copy is lost

    def _locks(self, interpreter: int, next_at: int, gil_at: int) -> set[int]:
        # The addresses of all interpreters' locks, each once: interpreters may share a lock.
        visited: set[int] = set()
        locks: set[int] = set()
        while interpreter and interpreter not in visited:
            if len(visited) == _MAX_INTERPRETERS:
                raise Unavailable(f"the process seems to have more than {_MAX_INTERPRETERS} Python interpreters")
            visited.add(interpreter)
            locks.add(self._number(interpreter + gil_at))
            interpreter = self._number(interpreter + next_at)
        if interpreter:
            raise Unavailable("the list of Python interpreters does not end")
        return locks - {0}

    def _offsets(self, runtime: int, index: int, count: int) -> list[int]:
        offsets = [self._number(runtime + (index + number) * _WORD) for number in range(count)]
        if max(offsets) > _MAX_OFFSET:
            raise Unavailable("what the Python interpreter publishes of its structures contradicts itself")
        return offsets

    def _number(self, address: int) -> int:
        return read_unsigned(self._memory, address, _WORD)
