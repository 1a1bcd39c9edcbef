"""Decodes and follows routines of the target that only load. No emulator is needed, and nothing runs in the target.

Getters of OpenMP runtimes are a few plain loads: of the runtime's word in the linkage table, then of a thread-local
variable. :mod:`ompd.isa` executes such instructions. Each load reads the target and is recorded. A routine that writes,
calls the kernel or runs for long is refused. The code is not trusted: it must equal the verified file
(``code_checks``).
"""

from __future__ import annotations

from collections.abc import Collection

from ompd.contract.process import CallResult
from ompd.debugger.emulation.code_checks import TargetCode
from ompd.debugger.memory import PAGE
from ompd.errors import CorruptState, MemoryFault, Unavailable
from ompd.isa.architecture import Architecture
from ompd.isa.getters import State, Undecoded
from ompd.isa.processors import getters_of

_PIECE = 16  # bytes of code per step


class Decoder:
    """Decodes routines of one process at one stop. Pages of code are verified once."""

    def __init__(self, code: TargetCode, architecture: Architecture) -> None:
        self._target = code
        self._architecture = architecture
        self._pages: dict[int, bytes] = {}

    def call(self, routine: int, thread: int, nulls: Collection[int] = ()) -> CallResult:
        """Return the result of a call of *routine* in *thread*, and the memory that it reads.

        :param nulls: the addresses of pointers that the routine reads as null
        :raises Unavailable: if the routine does more than load, or if its code or data cannot be read or trusted
        """
        machine = getters_of(self._architecture.e_machine)
        if machine is None:
            raise Unavailable(
                f"routines of the target are not decoded on this architecture ({self._architecture.name})"
            )
        size = self._architecture.pointer_size
        state = State(
            routine,
            self._target.storage_of(thread),
            machine.REGISTERS,
            self._code,
            lambda address, size: 0 if address in nulls else self._load(address, size),
            # The stack is in the last page of the address space, which no program uses.
            stack=(1 << 8 * size) - 16,
            stack_register=machine.STACK_POINTER,
            pointer_size=size,
        )
        instructions = machine(state, size)
        try:
            while instructions.step():
                pass
        except Undecoded as error:
            raise self._refusal(routine, thread, f"it has {error}") from error
        except MemoryFault as error:
            raise self._refusal(routine, thread, str(error), error.hint) from error
        except CorruptState as error:
            raise self._refusal(routine, thread, str(error)) from error
        return CallResult(state.registers[machine.RESULT], tuple(state.reads))

    def _refusal(self, routine: int, thread: int, reason: str, hint: str = "") -> Unavailable:
        return Unavailable(f"{self._target.name(routine)} cannot be decoded in thread {thread}: {reason}", hint=hint)

    def _code(self, address: int) -> bytes:
        start = address - address % PAGE
        page = self._pages.get(start)
        if page is None:
            fault = self._target.fault(start)
            if fault is not None:
                raise Undecoded(f"a way that {fault}", address)
            page = self._pages[start] = self._target.read_code(start)
        return page[address - start : address - start + _PIECE]

    def _load(self, address: int, size: int) -> int:
        return int.from_bytes(self._target.load(address, size), self._architecture.byte_order)
