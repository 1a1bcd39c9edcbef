"""What undoes a frame: rows of unwind data, made ready for use."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from ompd.binary.cfi.tables import Row
from ompd.binary.cursor import order_mark
from ompd.debugger.stacks.frames import NOTHING, Step
from ompd.errors import MalformedFile, MemoryFault
from ompd.isa.architecture import Architecture

# More saved words than this in one frame are fetched one by one: no processor we know saves so many side by side.
_MAX_SPAN_WORDS = 32


class Table(Protocol):
    """Unwind data of one module."""

    def row(self, pc: int, /) -> Row | None:
        """Return the row that holds at the link-time address *pc*, None if nothing covers it.

        :raises MalformedFile: if it is malformed
        """


Steps = dict[int, "Step | str"]
"""What undoes the frame at an address, or why that is unknown: by unwind tables alone, the same at every stop."""


class StepTable:
    """What undoes the frames of one stopped process; ``known`` is what was found out, by lookup address.

    :param table_for: gives the unwind table of the module at an address, and what to add to the table's addresses
        to get the target's; None if there is none
    :param known: what was found out at an earlier stop of the same process, and is to be kept for a later one
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        architecture: Architecture,
        table_for: Callable[[int], tuple[Table, int] | None],
        known: Steps | None,
    ) -> None:
        self._read, self._architecture, self._table_for = read, architecture, table_for
        self.known: Steps = known if known is not None else {}
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._pc = architecture.dwarf_registers.get(architecture.pc)
        self._numbers = frozenset(architecture.dwarf_registers.values())
        self._letter = "Q" if architecture.pointer_size == 8 else "I"
        self._order = order_mark(architecture.byte_order)

    def step_at(self, address: int) -> Step | None:
        """Return what undoes a frame at *address*, None if there is no unwind data for it."""
        step = self.known_step(address)
        return None if isinstance(step, str) else step

    def _step(self, pc: int) -> Step | str:
        # What undoes the frame at pc, or why that is unknown.
        try:
            found = self._table_for(pc)
            if found is not None:
                table, bias = found
                row = table.row((pc - bias) & self._mask)
                if row is not None:
                    return self._prepare(row, bias)
        except MalformedFile as error:
            return f"unwind data at {pc:#x} is damaged: {error}"
        return f"no unwind data covers {pc:#x}"

    def known_step(self, pc: int) -> Step | str:
        """Return what undoes a frame at *pc*, or why that is unknown."""
        known = self.known.get(pc)
        if known is None:
            known = self.known[pc] = self._step(pc)
        return (self._step_at_landing_pad(pc) or known) if isinstance(known, str) else known

    def _step_at_landing_pad(self, pc: int) -> Step | None:
        # In assembly language the unwind data of a function may begin only behind that instruction. It is not kept for
        # other stops: whether it is there was read, or could not be.
        pad = self._architecture.landing_pad
        try:
            behind = self._step(pc + len(pad)) if pad else ""
            if isinstance(behind, str) or (behind.function_start - len(pad)) & self._mask != pc:
                return None
            return behind._replace(function_start=pc) if self._read(pc, len(pad)) == pad else None
        except MemoryFault:
            return None

    def _prepare(self, row: Row, bias: int) -> Step:
        size = self._architecture.pointer_size
        # Vector registers are saved too, and no frame depends on them.
        rules = {n: rule for n, rule in row.registers.items() if n in self._numbers or n == row.return_register}
        offsets = {rule.value: number for number, rule in rules.items() if rule.kind == "offset"}
        low, high = min(offsets, default=0), max(offsets, default=-size)
        words = (high - low) // size + 1
        aligned = all((offset - low) % size == 0 for offset in offsets)
        saved_twice = len(offsets) != sum(rule.kind == "offset" for rule in rules.values())
        if not aligned or saved_twice or words > _MAX_SPAN_WORDS:
            offsets, words = {}, 0
        columns = tuple(offsets.get(low + size * word, NOTHING) for word in range(words))
        taken = set(offsets.values())
        rest = tuple(
            (number, rule) for number, rule in rules.items() if number not in taken and rule.kind != "same_value"
        )
        return_rule = row.registers.get(row.return_register)
        returns = "same_value" if return_rule is None else return_rule.kind
        clears = {NOTHING} & set(columns)
        # Where the return address has a register of its own, as on AArch64, a leaf function leaves it there.
        if returns == "same_value" and row.return_register == self._pc:
            clears.add(row.return_register)
        ends = returns == "undefined"
        return Step(
            row,
            (row.function_start + bias) & self._mask,
            (row.function_end + bias) & self._mask,
            row.cfa.register,
            row.cfa.offset,
            low,
            struct.Struct(f"{self._order}{words}{self._letter}"),
            columns,
            tuple(clears),
            rest,
            ends,
            not (row.cfa.expression or row.is_signal_frame)
            and (ends or (not rest and clears <= {NOTHING} and row.return_register in columns)),
        )
