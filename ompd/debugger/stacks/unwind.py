"""The native stack of a thread: from its registers outwards, frame by frame, by call frame information.

Where that ends, and the user wants to see more, callers are guessed; see :mod:`ompd.debugger.stacks.guesses`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ompd.binary.cfi.program import Rule
from ompd.binary.cfi.tables import Row
from ompd.binary.dwarf.expression import evaluate
from ompd.binary.elf.elf import order_mark
from ompd.contract.process import Shape
from ompd.debugger.architecture import Architecture, SystemCalls
from ompd.debugger.stacks.frames import NOTHING, Frame, How, Step
from ompd.errors import MalformedFile, MemoryFault, Unavailable
from ompd.records import record

if TYPE_CHECKING:
    from ompd.debugger.stacks.guesses import Guesser

MAX_FRAMES = 100_000
# Of all stacks together so many frames are kept, which take some 200 MB. Each may still have a few beyond that: those
# of a thread that is not in a recursion.
MAX_ALL_FRAMES, _ALWAYS = 1 << 18, 48
# Stacks are read in aligned blocks of this many bytes, since a read costs more than what it brings.
_BLOCK_SIZE = 4096
_MAX_BLOCKS = 256
# More saved words than this in one frame are fetched one by one: no processor we know saves so many side by side.
_MAX_SPAN_WORDS = 32


@record
class Stack:
    """A thread's frames, innermost first. ``stopped`` is None for a whole stack, else why it could not be followed."""

    frames: list[Frame]
    stopped: str | None

    @property
    def complete(self) -> bool:
        return self.stopped is None


class Walk(Iterator[Frame]):
    """A stack as it is being followed: frames, innermost first.

    ``stopped`` says, at the end, why the stack could not be followed further; None if its outermost frame was reached.
    """

    def __init__(self, frames: Callable[[Walk], Iterator[Frame]]) -> None:
        self.stopped: str | None = None
        self._frames = frames(self)

    def __iter__(self) -> Iterator[Frame]:
        return self._frames

    def __next__(self) -> Frame:
        return next(self._frames)


class Table(Protocol):
    """Unwind data of one module."""

    def row(self, pc: int, /) -> Row | None:
        """Return the row that holds at the link-time address *pc*, None if nothing covers it.

        :raises MalformedFile: if it is malformed
        """


Steps = dict[int, "Step | str"]
"""What undoes the frame at an address, or why that is unknown: by unwind tables alone, the same at every stop."""


class Unwinder:
    """Follows stacks of one stopped process.

    :param read: gives exactly so many bytes at the target's address, or raises MemoryFault
    :param table_for: gives the unwind table of the module at an address, and what to add to the table's addresses
        to get the target's; None if there is none
    :param steps: what was found out at an earlier stop of the same process, and is to be kept for a later one
    :param is_code: says whether an address is in memory that can be executed; without it there are no guesses
    :param stack_end: says where the mapping ends that an address is in, None if it is in none
    :param function_start: says where symbols say that the function at an address begins, None if they do not
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        architecture: Architecture,
        table_for: Callable[[int], tuple[Table, int] | None],
        steps: Steps | None = None,
        *,
        is_code: Callable[[int], bool] | None = None,
        stack_end: Callable[[int], int | None] = lambda address: None,
        function_start: Callable[[int], int | None] = lambda address: None,
    ) -> None:
        self.read = read
        self.architecture = architecture
        self._table_for = table_for
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._sp = architecture.dwarf_registers[architecture.sp]
        self._fp = architecture.dwarf_registers[architecture.fp]
        self._pc = architecture.dwarf_registers.get(architecture.pc)
        self._numbers = frozenset(architecture.dwarf_registers.values())
        self._letter = "Q" if architecture.pointer_size == 8 else "I"
        self._order = order_mark(architecture.byte_order)
        self._steps = steps if steps is not None else {}
        self._blocks: dict[int, bytes | None] = {}
        self.frames_given = 0
        self._addresses: dict[int, int] = {}
        self._is_code, self._stack_end, self._function_start = is_code, stack_end, function_start
        self._guesser: Guesser | None = None
        self._signal_returns: dict[int, int | None] = {}

    def shape(self, by_name: Mapping[str, int]) -> tuple[Shape, Frame] | None:
        """Return the shape of the stack of the thread that has these registers, and its innermost frame. None if it has
        to be followed frame by frame: because it is deep, or not whole, or has frames that plain rules do not undo.

        It is that of the frames that :meth:`unwind` would yield, without making them.
        """
        architecture = self.architecture
        numbers = architecture.dwarf_registers
        registers = {numbers[name]: value for name, value in by_name.items() if name in numbers}
        pc = lookup = by_name.get(architecture.pc, 0)
        steps, blocks, sp, mask = self._steps, self._blocks, self._sp, self._mask
        if sp not in registers:
            return None
        pcs: list[int] = []
        sites: list[int] = []
        inner_cfa = -1
        innermost: Frame | None = None
        while len(pcs) < _ALWAYS:
            step = steps.get(lookup)
            if step is None or step.__class__ is str:
                step = self._known_step(lookup)
            if isinstance(step, str) or step.function_end <= pc:
                return None
            base = registers.get(step.cfa_register)
            if base is None or not step.is_plain:
                return None
            cfa = (base + step.cfa_offset) & mask
            pcs.append(pc)
            sites.append(lookup)
            if innermost is None:
                start = step.function_start
                innermost = Frame(pc, cfa, registers[sp], registers, start, False, "innermost", False, False, pc)
            if step.ends:
                return (tuple(pcs), tuple(sites)), innermost
            if cfa <= inner_cfa:
                return None
            address = (cfa + step.span_offset) & mask
            offset = address % _BLOCK_SIZE
            block = blocks.get(address - offset)
            try:
                if block is None or offset + step.span.size > _BLOCK_SIZE:
                    words = self._saved(step, address)
                else:
                    words = step.span.unpack_from(block, offset)
            except MemoryFault:
                return None
            if inner_cfa < 0:
                registers = self._kept(step, registers)
            registers[sp] = inner_cfa = cfa
            registers.update(zip(step.columns, words))  # noqa: B905  as many as there are
            pc = registers[step.row.return_register]
            if pc == 0:
                return None
            lookup = pc - 1
        return None

    def stack(self, registers: Mapping[str, int], *, guess: bool = False) -> Stack:
        """Return the whole stack of the thread that has *registers*, by the psABI's lower-case names."""
        walk = self.unwind(registers, guess=guess)
        frames = list(walk)
        return Stack(frames, walk.stopped)

    def unwind(self, registers: Mapping[str, int], *, guess: bool = False) -> Walk:
        """Follow the stack of the thread that has *registers*, by the psABI's lower-case names, as far as it is asked.

        It ends with the frame whose return address is undefined or 0, or in which the thread has only been made; or
        where nothing covers the pc, memory cannot be read, a CFA is not beyond the inner frame's, or after
        :data:`MAX_FRAMES`, fewer if all stacks together have many. Nothing is raised for these.

        :param guess: go on by guesses where unwind data does not say the caller. All frames from there on are marked
            as guessed, by unwind data or not: what a guess found may be another stack.
        """
        return Walk(lambda walk: self._frames(registers, walk, self._begin_guesses() if guess else None))

    def _frames(self, by_name: Mapping[str, int], walk: Walk, guesser: Guesser | None) -> Iterator[Frame]:
        architecture = self.architecture
        numbers = architecture.dwarf_registers
        registers = {numbers[name]: value for name, value in by_name.items() if name in numbers}
        pc = by_name.get(architecture.pc)
        if pc is None or self._sp not in registers:
            walk.stopped = "the thread's registers are unknown"
            return
        how: How = "innermost"
        interrupted = guessed = False
        inner_cfa = -1
        steps, sp, mask = self._steps, self._sp, self._mask
        # A NamedTuple's own constructor takes as long as all else that is done for a frame here.
        new = tuple.__new__
        for count in range(MAX_FRAMES):
            self.frames_given += 1
            if count >= _ALWAYS and self.frames_given > MAX_ALL_FRAMES:
                walk.stopped = f"the stacks of all threads have more than {MAX_ALL_FRAMES} frames"
                return
            is_exact = interrupted or how == "innermost"
            lookup = pc if is_exact else pc - 1
            known = steps.get(lookup)
            if known is None or known.__class__ is str:
                known = self._known_step(lookup)
            step, fault = (None, known) if isinstance(known, str) else (known, None)
            if step is None or step.function_end <= pc:
                context = self.signal_context(pc, registers[sp])
                if context is not None:
                    yield Frame(pc, context[sp], registers[sp], registers, None, True, how, interrupted, guessed, pc)
                    registers, inner_cfa = context, context[sp]
                    pc, how, interrupted = context[architecture.return_address], "cfi", True
                    continue
            calls = self._clone_before(pc) if step is None and count == 0 else None
            if calls is not None:
                if registers.get(calls.result) == 0:
                    yield Frame(pc, None, registers[sp], registers, None, False, how, interrupted, guessed, lookup)
                    return
                # For the thread that made it the call has not changed what undoes the frame.
                step = self.step_at(pc - len(calls.instruction) - 1)
                fault = fault if step is None else None
            is_lost = False
            base = registers.get(step.cfa_register) if step is not None and not step.row.cfa.expression else None
            if step is not None and base is not None:
                cfa = (base + step.cfa_offset) & mask
            elif step is not None:
                try:
                    cfa = self._cfa(step, registers)
                except (MemoryFault, MalformedFile, Unavailable) as error:
                    fault = f"no canonical frame address at {pc:#x}: {error}"
                    is_lost = isinstance(error, MemoryFault)
            if step is None or fault is not None:
                guess = "" if guesser is None or is_lost else guesser.caller(pc, registers, is_exact=is_exact)
                start, is_signal_frame = (step.function_start, step.row.is_signal_frame) if step else (None, False)
                guessed_cfa = None if isinstance(guess, str) else guess.cfa
                site = pc if is_signal_frame else lookup
                yield Frame(
                    pc, guessed_cfa, registers[sp], registers, start, is_signal_frame, how, interrupted, guessed, site
                )
                if isinstance(guess, str):
                    walk.stopped = f"{fault}, and {guess}" if guess else fault
                    return
                registers, pc, how, inner_cfa = guess.registers, guess.pc, guess.how, guess.cfa
                interrupted, guessed = False, True
                continue
            row, is_signal_frame = step.row, step.row.is_signal_frame
            if count >= _ALWAYS:  # in a recursion the same few addresses come again and again
                pc, lookup = self._addresses.setdefault(pc, pc), self._addresses.setdefault(lookup, lookup)
            site = pc if is_signal_frame else lookup
            start = step.function_start
            yield new(
                Frame, (pc, cfa, registers[sp], registers, start, is_signal_frame, how, interrupted, guessed, site)
            )
            if step.ends:
                return
            # A handler may run on a stack of its own, anywhere.
            if cfa <= inner_cfa and not interrupted and not is_signal_frame:
                walk.stopped = f"the frame at {pc:#x} is not outside of the one that it called: {cfa:#x}"
                return
            inner_cfa = cfa
            kept = self._kept(step, registers) if how == "innermost" or interrupted else registers
            try:
                registers = self._caller(step, registers, kept, cfa)
            except (MemoryFault, MalformedFile, Unavailable) as error:
                walk.stopped = f"the caller of {pc:#x} is unknown: {error}"
                return
            caller = registers.get(row.return_register)
            if caller is None:
                walk.stopped = f"the caller of {pc:#x} is unknown: its return address was not kept"
                return
            if sp not in registers:
                walk.stopped = f"the caller of {pc:#x} is unknown: its stack pointer was not kept"
                return
            if caller == 0 and not is_signal_frame:  # a signal may come where code was called at 0
                # A stack page that a damaged core lost reads as zeros, too.
                page = (cfa - self.architecture.pointer_size) // _BLOCK_SIZE * _BLOCK_SIZE
                block = self._block(page)
                if block is not None and not any(block):
                    walk.stopped = f"the page of its stack at {page:#x} holds nothing but zeros"
                return
            pc, how, interrupted = caller, "cfi", is_signal_frame
        walk.stopped = f"more than {MAX_FRAMES} frames"

    def _clone_before(self, pc: int) -> SystemCalls | None:
        # How the kernel was called where a thread was made right before pc. C libraries leave the code behind it out of
        # their unwind data, since there the new thread begins.
        calls = self.architecture.system_calls
        return calls if calls is not None and any(self._ends_with(pc, code) for code in calls.clones) else None

    # Rows

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

    def _known_step(self, pc: int) -> Step | str:
        known = self._steps.get(pc)
        if known is None:
            known = self._steps[pc] = self._step(pc)
        return (self._step_at_landing_pad(pc) or known) if isinstance(known, str) else known

    def _step_at_landing_pad(self, pc: int) -> Step | None:
        # In assembly language the unwind data of a function may begin only behind that instruction. It is not kept for
        # other stops: whether it is there was read, or could not be.
        pad = self.architecture.landing_pad
        try:
            behind = self._step(pc + len(pad)) if pad else ""
            if isinstance(behind, str) or (behind.function_start - len(pad)) & self._mask != pc:
                return None
            return behind._replace(function_start=pc) if self.read(pc, len(pad)) == pad else None
        except MemoryFault:
            return None

    def _prepare(self, row: Row, bias: int) -> Step:
        size = self.architecture.pointer_size
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

    # Without unwind data

    def signal_context(self, pc: int, sp: int) -> dict[int, int] | None:
        """Return the interrupted registers, as the kernel saved them, where *pc* is that of a return from a handler,
        else None.
        """
        place = self._signal_return(pc)
        if place is None:
            return None
        places = {number: place + offset for number, offset in self.architecture.signal_context.items()}
        low, high = min(places.values()), max(places.values())
        try:
            data = self.read((sp + low) & self._mask, high - low + self.architecture.pointer_size)
        except MemoryFault:
            return None
        word = struct.Struct(self._order + self._letter)
        return {number: word.unpack_from(data, offset - low)[0] for number, offset in places.items()}

    def is_signal_return(self, pc: int) -> bool:
        """Return whether at *pc* the program returns from a signal handler.

        By the code there: not every C library has unwind data for it.
        """
        return self._signal_return(pc) is not None

    def _signal_return(self, pc: int) -> int | None:
        # The distance from the stack pointer to what the kernel saved, None if pc is not at such a return.
        if pc not in self._signal_returns:
            self._signal_returns[pc] = self._find_signal_return(pc)
        return self._signal_returns[pc]

    def _find_signal_return(self, pc: int) -> int | None:
        codes = self.architecture.signal_returns
        try:
            data = self.read(pc, max(len(code) for code, _, _ in codes))
        except MemoryFault:
            return None
        fitting = (
            context
            for code, within, context in codes
            if data.startswith(code[within:]) and self._ends_with(pc, code[:within])
        )
        return next(fitting, None)

    def _ends_with(self, pc: int, code: bytes) -> bool:
        # Whether code is before pc.
        try:
            return not code or self.read((pc - len(code)) & self._mask, len(code)) == code
        except MemoryFault:
            return False

    def _begin_guesses(self) -> Guesser | None:
        if self._guesser is None and self._is_code is not None:
            from ompd.debugger.stacks.guesses import Guesser  # noqa: PLC0415  what asks for no guesses has no use for it

            self._guesser = Guesser(self, self._is_code, self._stack_end, self._function_start)
        if self._guesser is not None:
            self._guesser.begin_stack()
        return self._guesser

    def step_at(self, address: int) -> Step | None:
        """Return what undoes a frame at *address*, None if there is no unwind data for it."""
        step = self._known_step(address)
        return None if isinstance(step, str) else step

    def caller_of(self, step: Step, sp: int, fp: int | None) -> tuple[int, int] | None:
        """Return CFA and return address of a frame of which no more is known than stack and frame pointer, None if
        these do not give them.
        """
        registers = {self._sp: sp} | ({} if fp is None else {self._fp: fp})
        try:
            cfa = self._cfa(step, registers)
            caller = self._caller(step, registers, registers, cfa).get(step.row.return_register)
        except (MemoryFault, MalformedFile, Unavailable):
            return None
        return None if caller is None else (cfa, caller)

    # Frames

    def _cfa(self, step: Step, registers: Mapping[int, int]) -> int:
        if step.row.cfa.expression:
            return self._evaluate(step.row.cfa.expression, registers, ())
        base = registers.get(step.cfa_register)
        if base is None:
            raise Unavailable(f"the value of register {step.cfa_register} is unknown in this frame")
        return (base + step.cfa_offset) & self._mask

    def _kept(self, step: Step, registers: dict[int, int]) -> dict[int, int]:
        # What a called function hands back to its caller. A signal may come where all registers are in use.
        if step.row.is_signal_frame:
            return registers
        kept = {*self.architecture.callee_saved, self._sp, step.row.return_register}
        return {number: value for number, value in registers.items() if number in kept}

    def _caller(self, step: Step, registers: Mapping[int, int], kept: dict[int, int], cfa: int) -> dict[int, int]:
        # The caller's registers: what the callee had to keep, what it saved, and the stack pointer, which is the CFA by
        # definition (DWARF 5, 6.4: its value at the call, which is what it is again after the return).
        caller = kept.copy()
        caller[self._sp] = cfa
        if step.columns:
            address = (cfa + step.span_offset) & self._mask
            offset = address % _BLOCK_SIZE
            block = self._blocks.get(address - offset)
            if block is None or offset + step.span.size > _BLOCK_SIZE:
                words = self._saved(step, address)
            else:
                words = step.span.unpack_from(block, offset)
            caller.update(zip(step.columns, words))  # noqa: B905  as many as there are
        for number in step.clears:
            caller.pop(number, None)
        for number, rule in step.rest:
            value = self._apply(rule, registers, cfa)
            if value is None:
                caller.pop(number, None)
            else:
                caller[number] = value
        return caller

    def _saved(self, step: Step, address: int) -> tuple[int, ...]:
        offset = address % _BLOCK_SIZE
        if offset + step.span.size <= _BLOCK_SIZE:
            block = self._block(address - offset)
            if block is not None:
                return step.span.unpack_from(block, offset)
        return step.span.unpack(self.read(address, step.span.size))

    def _block(self, address: int) -> bytes | None:
        # A whole block, None where the target does not hold all of it: then its parts may still be there.
        blocks = self._blocks
        if address not in blocks:
            if len(blocks) >= _MAX_BLOCKS:
                blocks.clear()
            try:
                blocks[address] = self.read(address, _BLOCK_SIZE)
            except MemoryFault:
                blocks[address] = None
        return blocks[address]

    def _apply(self, rule: Rule, registers: Mapping[int, int], cfa: int) -> int | None:
        # The caller's value of one register; None if it was not kept.
        if rule.kind == "offset":
            return self._word((cfa + rule.value) & self._mask)
        if rule.kind == "val_offset":
            return (cfa + rule.value) & self._mask
        if rule.kind == "register":
            return registers.get(rule.value)
        if rule.kind == "expression":
            return self._word(self._evaluate(rule.expression, registers, (cfa,)))
        if rule.kind == "val_expression":
            return self._evaluate(rule.expression, registers, (cfa,))
        return None

    def _word(self, address: int) -> int:
        return int.from_bytes(self.read(address, self.architecture.pointer_size), self.architecture.byte_order)

    def _evaluate(self, expression: bytes, registers: Mapping[int, int], initial: tuple[int, ...]) -> int:
        return evaluate(
            expression,
            registers,
            self.read,
            initial=initial,
            pointer_size=self.architecture.pointer_size,
            byte_order=self.architecture.byte_order,
        )
