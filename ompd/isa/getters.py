"""The state of an interpreter for routines that only load: registers, the routine's own stack, the target's memory."""

from __future__ import annotations

from collections.abc import Callable

# A routine that only loads has some ten instructions, of 16 bytes at most.
_MAX_CODE = 1 << 11
_MAX_STACK = 64


class Undecoded(Exception):
    """Raised if a routine does more than load, or has an unsupported instruction. The message says which."""

    def __init__(self, what: str, address: int) -> None:
        super().__init__(f"{what} at {address:#x}")


class State:
    """Registers, the program counter ``pc``, and ``reads``: the address and size of each read.

    :param code: returns at least one byte of verified code, starting at a program counter
    :param memory: reads an unsigned integer of the target, given its address and its size in bytes
    :param stack: the top of the routine's own stack, an address that is not mapped in the target
    """

    def __init__(
        self,
        pc: int,
        thread_pointer: int,
        registers: int,
        code: Callable[[int], bytes],
        memory: Callable[[int, int], int],
        *,
        stack: int,
        stack_register: int,
        pointer_size: int,
    ) -> None:
        self.pc, self.thread_pointer, self.code = pc, thread_pointer, code
        self.registers = [0] * registers
        self.reads: list[tuple[int, int]] = []
        self._memory = memory
        self._top = stack
        self._stack: list[int] = []
        self._stack_register = stack_register
        self._pointer_size = pointer_size
        self._left = _MAX_CODE
        self.registers[stack_register] = stack

    def advance(self, size: int) -> None:
        """Continue after an instruction of *size* bytes.

        :raises Undecoded: if the routine has more code than routines that only load have
        """
        if size > self._left:
            raise Undecoded("more instructions than a routine has that only loads", self.pc + self._left)
        self._left -= size
        self.pc += size

    def jump(self, address: int) -> None:
        """Continue at *address*."""
        self.pc = address & ((1 << 8 * self._pointer_size) - 1)

    def load(self, address: int, size: int) -> int:
        """Return the unsigned integer at *address*, from the target or from the routine's own stack."""
        depth, rest = divmod(self._top - address, self._pointer_size)
        if 0 < depth <= len(self._stack) and not rest and size == self._pointer_size:
            return self._stack[depth - 1]
        value = self._memory(address, size)
        self.reads.append((address, size))
        return value

    def push(self, value: int) -> None:
        """Push a word."""
        self._check_stack()
        if len(self._stack) >= _MAX_STACK:
            raise Undecoded("more stack than a routine needs that only loads", self.pc)
        self._stack.append(value)
        self.registers[self._stack_register] -= self._pointer_size

    def pop(self) -> int:
        """Pop a word."""
        self._check_stack()
        if not self._stack:
            raise Undecoded("a stack that is empty", self.pc)
        self.registers[self._stack_register] += self._pointer_size
        return self._stack.pop()

    def _check_stack(self) -> None:
        if self.registers[self._stack_register] != self._top - len(self._stack) * self._pointer_size:
            raise Undecoded("a stack that was moved", self.pc)

    def returns(self) -> bool:
        """Return from a routine. The result is True if another interpreted routine called it and continues."""
        self._check_stack()
        if not self._stack:
            return False
        self.pc = self.pop()
        return True
