"""Unwind steps: rows of unwind data, prepared so that frames are unwound fast."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.cfi.program import Rule
from ompd.binary.cfi.tables import Row
from ompd.binary.cursor import order_mark
from ompd.errors import MalformedFile, MemoryFault
from ompd.isa.architecture import Architecture

if TYPE_CHECKING:
    from ompd.debugger.memory import TargetMemory
    from ompd.debugger.modules.modules import ModuleList
    from ompd.debugger.symbols import Symbols

# The most adjacent words that are read at once. If a frame saves more, which no known processor does, they are read one
# by one.
_MAX_SPAN_WORDS = 32
NOTHING = -1
"""Stands for no register, in place of a register's number."""


class UnwindStep(NamedTuple):
    """A row of unwind data, prepared to undo a frame. ``function_start`` and ``function_end`` are target addresses.

    The adjacent words in which the frame has saved registers, its span, are read and unpacked together.
    """

    row: Row
    function_start: int
    function_end: int
    cfa_register: int
    cfa_offset: int
    span_offset: int  # from the CFA to the first saved word
    span: struct.Struct
    columns: tuple[int, ...]  # the register that each word of the span has, or NOTHING
    # The numbers without a value in the caller: NOTHING, and a return address that is still in a register.
    clears: tuple[int, ...]
    rest: tuple[tuple[int, Rule], ...]  # the registers that are not in the span, each with its rule
    ends: bool  # whether this is the outermost frame: its return address is undefined


Steps = dict[int, "UnwindStep | str"]
"""The unwind step at each address, or why there is none. Steps depend only on files, so every stop has the same."""


class StepTable:
    """The unwind steps of one stopped process.

    :param known: the steps that were looked up at an earlier stop of the same process; new ones are added to it
    """

    def __init__(
        self,
        memory: TargetMemory,
        architecture: Architecture,
        modules: ModuleList,
        symbols: Symbols,
        known: Steps,
    ) -> None:
        self._memory, self._architecture = memory, architecture
        self._modules, self._symbols = modules, symbols
        self.known = known
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._pc = architecture.dwarf_registers.get(architecture.pc)
        self._numbers = frozenset(architecture.dwarf_registers.values())
        self._letter = "Q" if architecture.pointer_size == 8 else "I"
        self._order = order_mark(architecture.byte_order)

    def at(self, address: int) -> UnwindStep | None:
        """Return the step that undoes a frame at *address*, None without unwind data for it."""
        step = self.step_or_reason(address)
        return None if isinstance(step, str) else step

    def step_or_reason(self, address: int) -> UnwindStep | str:
        """Return the step that undoes a frame at *address*, or why there is none."""
        step = self.known.get(address)
        if step is None:
            step = self.known[address] = self._look_up(address)
        return (self._step_at_landing_pad(address) or step) if isinstance(step, str) else step

    def _look_up(self, address: int) -> UnwindStep | str:
        try:
            module = self._modules.at(address) or self._symbols.vdso_at(address)
            row = module.row((address - module.bias) & self._mask) if module is not None else None
        except MalformedFile as error:
            return f"unwind data at {address:#x} is damaged: {error}"
        if module is None or row is None:
            return f"no unwind data covers {address:#x}"
        return self._prepare(row, module.bias)

    def _step_at_landing_pad(self, address: int) -> UnwindStep | None:
        # The step for a landing pad, None for other code. In assembly language, a function's unwind data may begin
        # behind the landing pad with which the function begins. Such a step is not kept for other stops: it depends on
        # the target's memory, where the instruction must be read.
        pad = self._architecture.landing_pad
        try:
            behind = self._look_up(address + len(pad)) if pad else ""
            if isinstance(behind, str) or (behind.function_start - len(pad)) & self._mask != address:
                return None
            return behind._replace(function_start=address) if self._memory.read(address, len(pad)) == pad else None
        except MemoryFault:
            return None

    def _prepare(self, row: Row, bias: int) -> UnwindStep:
        size = self._architecture.pointer_size
        # Saved vector registers are ignored, because no frame depends on them.
        rules = {n: rule for n, rule in row.registers.items() if n in self._numbers or n == row.return_register}
        offsets = {rule.value: number for number, rule in rules.items() if rule.kind == "offset"}
        low, high = min(offsets, default=0), max(offsets, default=-size)
        words = (high - low) // size + 1
        aligned = all((offset - low) % size == 0 for offset in offsets)
        saved_twice = len(offsets) != sum(rule.kind == "offset" for rule in rules.values())
        if not aligned or saved_twice or words > _MAX_SPAN_WORDS:
            offsets, words = {}, 0
        columns = tuple(offsets.get(low + size * word, NOTHING) for word in range(words))
        in_span = set(offsets.values())
        others = tuple(
            (number, rule) for number, rule in rules.items() if number not in in_span and rule.kind != "same_value"
        )
        return_rule = row.registers.get(row.return_register)
        return_kind = "same_value" if return_rule is None else return_rule.kind
        clears = {NOTHING} & set(columns)
        # On a processor with a link register, such as AArch64, a leaf function leaves its return address there. It is
        # not the caller's own return address.
        if return_kind == "same_value" and row.return_register == self._pc:
            clears.add(row.return_register)
        return UnwindStep(
            row,
            (row.function_start + bias) & self._mask,
            (row.function_end + bias) & self._mask,
            row.cfa.register,
            row.cfa.offset,
            low,
            struct.Struct(f"{self._order}{words}{self._letter}"),
            columns,
            tuple(clears),
            others,
            return_kind == "undefined",
        )
