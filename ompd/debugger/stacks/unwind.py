"""The native stack of a thread: from its registers outwards, frame by frame, by call frame information.

Where that ends, and the user wants to see more, callers are guessed; see :mod:`ompd.debugger.stacks.guesses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ompd.binary.cfi.program import Rule
from ompd.binary.dwarf.expression import evaluate
from ompd.contract.process import Shape
from ompd.debugger.stacks.frames import Frame, How, Step
from ompd.debugger.stacks.signal_frames import SignalFrames
from ompd.debugger.stacks.steps import Steps, StepTable, Table
from ompd.errors import MalformedFile, MemoryFault, Unavailable
from ompd.isa.architecture import Architecture, SystemCalls

if TYPE_CHECKING:
    from ompd.debugger.stacks.guesses import Guesser

MAX_FRAMES = 100_000
# Of all stacks together so many frames are kept, which take some 200 MB. Each may still have a few beyond that: those
# of a thread that is not in a recursion.
MAX_ALL_FRAMES, _ALWAYS = 1 << 18, 48
# Stacks are read in aligned blocks of this many bytes, since a read costs more than what it brings.
_BLOCK_SIZE = 4096
_MAX_BLOCKS = 256


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


class _Place:
    """Where a walk has come to: the next frame's pc and registers, how it was found, and the CFA of the one before."""

    __slots__ = ("guessed", "how", "inner_cfa", "interrupted", "pc", "registers")

    def __init__(self, pc: int, registers: dict[int, int]) -> None:
        self.pc, self.registers = pc, registers
        self.how: How = "innermost"
        self.interrupted = self.guessed = False
        self.inner_cfa = -1

    @property
    def is_exact(self) -> bool:
        # Whether the frame stands at the pc, and has not called something from there.
        return self.interrupted or self.how == "innermost"


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
        self._mask = (1 << 8 * architecture.pointer_size) - 1
        self._sp = architecture.dwarf_registers[architecture.sp]
        self._fp = architecture.dwarf_registers[architecture.fp]
        self._table, self._signals = StepTable(read, architecture, table_for, steps), SignalFrames(read, architecture)
        self._steps, self.step_at = self._table.known, self._table.step_at
        self.signal_context, self.is_signal_return = self._signals.context, self._signals.is_return
        self._blocks: dict[int, bytes | None] = {}
        self.frames_given = 0
        self._addresses: dict[int, int] = {}
        self._is_code, self._stack_end, self._function_start = is_code, stack_end, function_start
        self._guesser: Guesser | None = None

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
                step = self._table.known_step(lookup)
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
        at = self._begin(by_name)
        if at is None:
            walk.stopped = "the thread's registers are unknown"
            return
        known_steps, sp, mask = self._steps, self._sp, self._mask
        # A NamedTuple's own constructor takes as long as all else that is done for a frame here.
        new = tuple.__new__
        for count in range(MAX_FRAMES):
            self.frames_given += 1
            if count >= _ALWAYS and self.frames_given > MAX_ALL_FRAMES:
                walk.stopped = f"the stacks of all threads have more than {MAX_ALL_FRAMES} frames"
                return
            pc, registers = at.pc, at.registers
            lookup = pc if at.is_exact else pc - 1
            found = known_steps.get(lookup)
            if found is None or found.__class__ is str:
                found = self._table.known_step(lookup)
            step, fault = (None, found) if isinstance(found, str) else (found, None)
            if step is None or step.function_end <= pc:
                frame = self._signal_frame(at)
                if frame is not None:
                    yield frame
                    continue
            calls = self._clone_before(pc) if step is None and count == 0 else None
            if calls is not None:
                if registers.get(calls.result) == 0:
                    yield Frame(pc, None, registers[sp], registers, None, False, at.how, False, False, lookup)
                    return
                # For the thread that made it the call has not changed what undoes the frame.
                step = self.step_at(pc - len(calls.instruction) - 1)
                fault = fault if step is None else None
            base = registers.get(step.cfa_register) if step is not None and not step.row.cfa.expression else None
            cfa: int | None = (base + step.cfa_offset) & mask if step is not None and base is not None else None
            can_guess = guesser
            if step is not None and cfa is None:
                try:
                    cfa = self._cfa(step, registers)
                except (MemoryFault, MalformedFile, Unavailable) as error:
                    fault = f"no canonical frame address at {pc:#x}: {error}"
                    can_guess = None if isinstance(error, MemoryFault) else guesser
            if step is None or cfa is None:
                frame, stopped = self._guessed(at, step, lookup, fault or "", can_guess)
                yield frame
                if stopped is not None:
                    walk.stopped = stopped
                    return
                continue
            if count >= _ALWAYS:  # in a recursion the same few addresses come again and again
                pc, lookup = self._addresses.setdefault(pc, pc), self._addresses.setdefault(lookup, lookup)
            is_signal_frame = step.row.is_signal_frame
            site, start = pc if is_signal_frame else lookup, step.function_start
            how, interrupted, guessed = at.how, at.interrupted, at.guessed
            yield new(
                Frame, (pc, cfa, registers[sp], registers, start, is_signal_frame, how, interrupted, guessed, site)
            )
            if step.ends or not self._leave(at, step, cfa, walk):
                return
        walk.stopped = f"more than {MAX_FRAMES} frames"

    def _begin(self, by_name: Mapping[str, int]) -> _Place | None:
        numbers = self.architecture.dwarf_registers
        registers = {numbers[name]: value for name, value in by_name.items() if name in numbers}
        pc = by_name.get(self.architecture.pc)
        return _Place(pc, registers) if pc is not None and self._sp in registers else None

    def _signal_frame(self, at: _Place) -> Frame | None:
        # The kernel's frame below a handler, from which the walk then goes on; None if it is none.
        pc, registers = at.pc, at.registers
        context = self.signal_context(pc, registers[self._sp])
        if context is None:
            return None
        cfa = context[self._sp]
        frame = Frame(pc, cfa, registers[self._sp], registers, None, True, at.how, at.interrupted, at.guessed, pc)
        at.registers, at.inner_cfa, at.pc = context, cfa, context[self.architecture.return_address]
        at.how, at.interrupted = "cfi", True
        return frame

    def _guessed(
        self, at: _Place, step: Step | None, lookup: int, fault: str, guesser: Guesser | None
    ) -> tuple[Frame, str | None]:
        # A frame whose caller can only be guessed, from which the walk then goes on, or why it does not.
        pc, registers = at.pc, at.registers
        guess = guesser.caller(pc, registers, is_exact=at.is_exact) if guesser is not None else ""
        start, is_signal_frame = (step.function_start, step.row.is_signal_frame) if step else (None, False)
        cfa = None if isinstance(guess, str) else guess.cfa
        site = pc if is_signal_frame else lookup
        frame = Frame(
            pc, cfa, registers[self._sp], registers, start, is_signal_frame, at.how, at.interrupted, at.guessed, site
        )
        if isinstance(guess, str):
            return frame, f"{fault}, and {guess}" if guess else fault
        at.registers, at.pc, at.how, at.inner_cfa = guess.registers, guess.pc, guess.how, guess.cfa
        at.interrupted, at.guessed = False, True
        return frame, None

    def _leave(self, at: _Place, step: Step, cfa: int, walk: Walk) -> bool:
        # Go on to the caller; False if there is none, or it is unknown, which the walk then says.
        pc, registers, is_signal_frame = at.pc, at.registers, step.row.is_signal_frame
        # A handler may run on a stack of its own, anywhere.
        if cfa <= at.inner_cfa and not at.interrupted and not is_signal_frame:
            walk.stopped = f"the frame at {pc:#x} is not outside of the one that it called: {cfa:#x}"
            return False
        kept = self._kept(step, registers) if at.how == "innermost" or at.interrupted else registers
        try:
            registers = self._caller(step, registers, kept, cfa)
        except (MemoryFault, MalformedFile, Unavailable) as error:
            walk.stopped = f"the caller of {pc:#x} is unknown: {error}"
            return False
        caller = registers.get(step.row.return_register)
        if caller is None or self._sp not in registers:
            what = "return address" if caller is None else "stack pointer"
            walk.stopped = f"the caller of {pc:#x} is unknown: its {what} was not kept"
            return False
        if caller == 0 and not is_signal_frame:  # a signal may come where code was called at 0
            # A stack page that a damaged core lost reads as zeros, too.
            page = (cfa - self.architecture.pointer_size) // _BLOCK_SIZE * _BLOCK_SIZE
            block = self._block(page)
            if block is not None and not any(block):
                walk.stopped = f"the page of its stack at {page:#x} holds nothing but zeros"
            return False
        at.pc, at.registers, at.inner_cfa = caller, registers, cfa
        at.how, at.interrupted = "cfi", is_signal_frame
        return True

    def _clone_before(self, pc: int) -> SystemCalls | None:
        # How the kernel was called where a thread was made right before pc. C libraries leave the code behind it out of
        # their unwind data, since there the new thread begins.
        calls = self.architecture.system_calls
        return calls if calls is not None and any(self._signals.ends_with(pc, code) for code in calls.clones) else None

    def _begin_guesses(self) -> Guesser | None:
        if self._guesser is None and self._is_code is not None:
            from ompd.debugger.stacks.guesses import Guesser

            self._guesser = Guesser(self, self._is_code, self._stack_end, self._function_start)
        if self._guesser is not None:
            self._guesser.begin_stack()
        return self._guesser

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
