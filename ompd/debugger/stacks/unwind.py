"""Follows the native stack of a thread: from its registers outwards, frame by frame, by call frame information.

If unwind data ends, callers can be guessed (``guesses``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ompd.binary.cfi.program import Rule
from ompd.binary.dwarf.expression import evaluate
from ompd.debugger.stacks.frames import Frame, How
from ompd.debugger.stacks.signal_frames import SignalFrames
from ompd.debugger.stacks.steps import Steps, StepTable, UnwindStep
from ompd.errors import MalformedFile, MemoryFault, Unavailable
from ompd.isa.architecture import Architecture

if TYPE_CHECKING:
    from ompd.debugger.memory import TargetMemory
    from ompd.debugger.modules.modules import ModuleList
    from ompd.debugger.places import Places
    from ompd.debugger.regions import Regions
    from ompd.debugger.stacks.guesses import Guesser
    from ompd.debugger.symbols import Symbols

MAX_FRAMES = 100_000
# The most frames of all stacks together (some 200 MB), and how many innermost frames each further stack still has.
MAX_ALL_FRAMES, _FRAMES_OF_EACH = 1 << 18, 48
# Stacks are read in aligned blocks of this many bytes, because one large read costs less than many small ones.
_BLOCK_SIZE = 4096
_MAX_BLOCKS = 256


class Unwinder:
    """Follows the stacks of one stopped process, by unwind steps, signal frames and stack memory.

    :param known_steps: the steps of an earlier stop of the same process, to which new ones are added
    """

    def __init__(
        self,
        memory: TargetMemory,
        architecture: Architecture,
        modules: ModuleList,
        symbols: Symbols,
        regions: Regions,
        places: Places,
        known_steps: Steps,
    ) -> None:
        self.memory, self.architecture = memory, architecture
        self.steps = StepTable(memory, architecture, modules, symbols, known_steps)
        self.signals = SignalFrames(memory, architecture)
        self.mask = (1 << 8 * architecture.pointer_size) - 1
        self.sp = architecture.dwarf_registers[architecture.sp]
        self.fp = architecture.dwarf_registers[architecture.fp]
        self._kept_by_calls = frozenset((*architecture.callee_saved, self.sp))
        self._regions, self._places = regions, places
        self._blocks: dict[int, bytes | None] = {}
        self._guesser: Guesser | None = None
        self.frames_given = 0

    def unwind(self, registers: Mapping[str, int], *, guess: bool = False) -> StackWalk:
        """Return the walk along the stack of a thread.

        The walk ends at a frame with an undefined or zero return address, or with the thread's creation. It ends early
        if no unwind data covers the pc, if memory cannot be read, or if a CFA is not beyond the inner frame's. It also
        ends after :data:`MAX_FRAMES`, or fewer if all stacks together have many. None of these raises an error.

        :param registers: the thread's registers, by the psABI's lower-case names
        :param guess: whether to guess the caller if unwind data does not give it; all frames from there on are marked
            as guessed, because a guess may be on another stack
        """
        return StackWalk(self, registers, self._guesser_of_new_stack() if guess else None)

    def _guesser_of_new_stack(self) -> Guesser:
        if self._guesser is None:
            from ompd.debugger.stacks.guesses import Guesser

            self._guesser = Guesser(self, self._regions, self._places)
        self._guesser.begin_stack()
        return self._guesser

    def caller_of(self, step: UnwindStep, sp: int, fp: int | None) -> tuple[int, int] | None:
        """Return the CFA and the return address of a frame, computed from its stack pointer and frame pointer only.

        :returns: None if these two registers are not enough
        """
        registers = {self.sp: sp} | ({} if fp is None else {self.fp: fp})
        try:
            cfa = self.cfa(step, registers)
            caller = self.caller_registers(step, registers, registers, cfa).get(step.row.return_register)
        except (MemoryFault, MalformedFile, Unavailable):
            return None
        return None if caller is None else (cfa, caller)

    def cfa(self, step: UnwindStep, registers: Mapping[int, int]) -> int:
        """Return the canonical frame address of a frame.

        :raises Unavailable: if a register that the address depends on is unknown
        """
        if step.row.cfa.expression:
            return self._evaluate(step.row.cfa.expression, registers, ())
        base = registers.get(step.cfa_register)
        if base is None:
            raise Unavailable(f"the value of register {step.cfa_register} is unknown in this frame")
        return (base + step.cfa_offset) & self.mask

    def kept(self, step: UnwindStep, registers: dict[int, int]) -> dict[int, int]:
        """Return those of *registers* that a function preserves for its caller.

        A signal frame preserves all registers, because a signal may interrupt code that uses any of them.
        """
        if step.row.is_signal_frame:
            return registers
        kept, return_register = self._kept_by_calls, step.row.return_register
        return {n: value for n, value in registers.items() if n in kept or n == return_register}

    def caller_registers(
        self, step: UnwindStep, registers: Mapping[int, int], kept: dict[int, int], cfa: int
    ) -> dict[int, int]:
        """Return the registers of a frame's caller: those that the frame preserved or saved, and the stack pointer.

        The caller's stack pointer is the CFA by definition (DWARF 5, 6.4: its value at the call and after the return).
        """
        caller = kept.copy()
        caller[self.sp] = cfa
        if step.columns:
            address = (cfa + step.span_offset) & self.mask
            offset = address % _BLOCK_SIZE
            block = self._blocks.get(address - offset)
            if block is None or offset + step.span.size > _BLOCK_SIZE:
                words = self._saved_words(step, address)
            else:
                words = step.span.unpack_from(block, offset)
            caller.update(zip(step.columns, words))  # noqa: B905  equal in number
        for number in step.clears:
            caller.pop(number, None)
        for number, rule in step.rest:
            value = self._apply(rule, registers, cfa)
            if value is None:
                caller.pop(number, None)
            else:
                caller[number] = value
        return caller

    def _saved_words(self, step: UnwindStep, address: int) -> tuple[int, ...]:
        offset = address % _BLOCK_SIZE
        if offset + step.span.size <= _BLOCK_SIZE:
            block = self._block(address - offset)
            if block is not None:
                return step.span.unpack_from(block, offset)
        return step.span.unpack(self.memory.read(address, step.span.size))

    def _block(self, address: int) -> bytes | None:
        # Return the whole block at *address*, None if the target lacks a part of it. Then smaller reads may succeed.
        blocks = self._blocks
        if address not in blocks:
            if len(blocks) >= _MAX_BLOCKS:
                blocks.clear()
            try:
                blocks[address] = self.memory.read(address, _BLOCK_SIZE)
            except MemoryFault:
                blocks[address] = None
        return blocks[address]

    def zeroed_page(self, cfa: int) -> int | None:
        """Return the address of the page with a frame's return address if that page is all zeros, else None.

        Such a page may be lost: a page that a damaged core has lost reads as zeros.
        """
        page = (cfa - self.architecture.pointer_size) // _BLOCK_SIZE * _BLOCK_SIZE
        block = self._block(page)
        return page if block is not None and not any(block) else None

    def _apply(self, rule: Rule, registers: Mapping[int, int], cfa: int) -> int | None:
        # Return the value of one register in the frame's caller by its *rule*, None if unknown.
        if rule.kind == "offset":
            return self._word((cfa + rule.value) & self.mask)
        if rule.kind == "val_offset":
            return (cfa + rule.value) & self.mask
        if rule.kind == "register":
            return registers.get(rule.value)
        if rule.kind == "expression":
            return self._word(self._evaluate(rule.expression, registers, (cfa,)))
        if rule.kind == "val_expression":
            return self._evaluate(rule.expression, registers, (cfa,))
        return None

    def _word(self, address: int) -> int:
        return int.from_bytes(self.memory.read(address, self.architecture.pointer_size), self.architecture.byte_order)

    def _evaluate(self, expression: bytes, registers: Mapping[int, int], initial: tuple[int, ...]) -> int:
        return evaluate(
            expression,
            registers,
            self.memory.read,
            initial=initial,
            pointer_size=self.architecture.pointer_size,
            byte_order=self.architecture.byte_order,
        )


class StackWalk(Iterator[Frame]):
    """The frames of one stack, innermost first. Each frame is found when the iterator is advanced.

    After the last frame, ``stopped`` is the reason why the stack ends there, None if it is the outermost frame.
    """

    # The next frame: its pc and registers, and how it was found. If ``_is_exact``, the frame executes at the pc;
    # otherwise a call returns to the pc.
    _pc: int
    _registers: dict[int, int]
    _how: How

    def __init__(self, unwinder: Unwinder, registers: Mapping[str, int], guesser: Guesser | None) -> None:
        self.stopped: str | None = None
        self._unwinder, self._guesser = unwinder, guesser
        self._how = "innermost"
        self._is_exact, self._interrupted, self._guessed = True, False, False
        self._inner_cfa = -1
        self._frames = self._follow(registers)

    def __iter__(self) -> Iterator[Frame]:
        return self._frames

    def __next__(self) -> Frame:
        return next(self._frames)

    def _follow(self, by_name: Mapping[str, int]) -> Iterator[Frame]:
        unwinder = self._unwinder
        numbers = unwinder.architecture.dwarf_registers
        registers = {numbers[name]: value for name, value in by_name.items() if name in numbers}
        pc, sp, mask = by_name.get(unwinder.architecture.pc), unwinder.sp, unwinder.mask
        if pc is None or sp not in registers:
            self.stopped = "the thread's registers are unknown"
            return
        self._pc, self._registers = pc, registers
        known_steps = unwinder.steps.known
        addresses: dict[int, int] = {}
        # The constructor of a NamedTuple takes as long as the rest of the work for a frame.
        new = tuple.__new__
        for count in range(MAX_FRAMES):
            unwinder.frames_given += 1
            if count >= _FRAMES_OF_EACH and unwinder.frames_given > MAX_ALL_FRAMES:
                self.stopped = f"the stacks of all threads have more than {MAX_ALL_FRAMES} frames"
                return
            pc, registers = self._pc, self._registers
            lookup = pc if self._is_exact else pc - 1
            step_or_reason = known_steps.get(lookup)
            if step_or_reason is None or step_or_reason.__class__ is str:
                step_or_reason = unwinder.steps.step_or_reason(lookup)
            step, fault = (None, step_or_reason) if isinstance(step_or_reason, str) else (step_or_reason, "")
            if step is None or step.function_end <= pc:
                signal_frame = self._pass_signal_frame()
                if signal_frame is not None:
                    yield signal_frame
                    continue
            if step is None and count == 0 and (clone := self._clone_call_before(pc)) is not None:
                if self._is_new_thread(registers):
                    yield Frame(pc, None, registers[sp], registers, None, False, self._how, False, False, lookup)
                    return
                # In the creating thread, the system call has not changed any register that unwinding needs.
                step = unwinder.steps.at(pc - clone - 1)
                fault = "" if step is not None else fault
            cfa: int | None = None
            can_guess = True
            if step is not None:
                base = registers.get(step.cfa_register) if not step.row.cfa.expression else None
                if base is not None:
                    cfa = (base + step.cfa_offset) & mask
                else:
                    try:
                        cfa = unwinder.cfa(step, registers)
                    except (MemoryFault, MalformedFile, Unavailable) as error:
                        fault = f"no canonical frame address at {pc:#x}: {error}"
                        can_guess = not isinstance(error, MemoryFault)
            if step is None or cfa is None:
                frame, has_caller = self._pass_guessed(step, lookup, fault, self._guesser if can_guess else None)
                yield frame
                if not has_caller:
                    return
                continue
            if count >= _FRAMES_OF_EACH:  # share equal numbers: a recursion has the same few addresses again and again
                pc, lookup = addresses.setdefault(pc, pc), addresses.setdefault(lookup, lookup)
            is_signal_frame = step.row.is_signal_frame
            yield new(
                Frame,
                (
                    pc,
                    cfa,
                    registers[sp],
                    registers,
                    step.function_start,
                    is_signal_frame,
                    self._how,
                    self._interrupted,
                    self._guessed,
                    pc if is_signal_frame else lookup,
                ),
            )
            if step.ends or not self._pass(step, cfa):
                return
        self.stopped = f"more than {MAX_FRAMES} frames"

    def _pass(self, step: UnwindStep, cfa: int) -> bool:
        # Goes on to the caller. Returns False if there is no caller. Also returns False if the caller is unknown, and
        # then sets ``stopped`` to the reason.
        unwinder, pc, registers = self._unwinder, self._pc, self._registers
        is_signal_frame = step.row.is_signal_frame
        # The stack of a signal handler may be at any address.
        if cfa <= self._inner_cfa and not self._interrupted and not is_signal_frame:
            self.stopped = f"the frame at {pc:#x} is not outside of the one that it called: {cfa:#x}"
            return False
        kept = unwinder.kept(step, registers) if self._is_exact else registers
        try:
            registers = unwinder.caller_registers(step, registers, kept, cfa)
        except (MemoryFault, MalformedFile, Unavailable) as error:
            self.stopped = f"the caller of {pc:#x} is unknown: {error}"
            return False
        caller = registers.get(step.row.return_register)
        if caller is None or unwinder.sp not in registers:
            missing = "return address" if caller is None else "stack pointer"
            self.stopped = f"the caller of {pc:#x} is unknown: its {missing} was not kept"
            return False
        if caller == 0 and not is_signal_frame:  # a signal may interrupt a call of address 0
            page = unwinder.zeroed_page(cfa)
            if page is not None:
                self.stopped = f"the page of its stack at {page:#x} holds nothing but zeros"
            return False
        self._pc, self._registers, self._inner_cfa = caller, registers, cfa
        self._how, self._is_exact, self._interrupted = "cfi", is_signal_frame, is_signal_frame
        return True

    def _pass_signal_frame(self) -> Frame | None:
        # If the present frame is the kernel's below a handler, returns it and goes on to the interrupted frame. Returns
        # None for any other frame.
        unwinder, pc, registers = self._unwinder, self._pc, self._registers
        saved = unwinder.signals.interrupted_registers(pc, registers[unwinder.sp])
        if saved is None:
            return None
        cfa = saved[unwinder.sp]
        frame = Frame(
            pc, cfa, registers[unwinder.sp], registers, None, True, self._how, self._interrupted, self._guessed, pc
        )
        self._registers, self._inner_cfa = saved, cfa
        self._pc = saved[unwinder.architecture.return_address]
        self._how, self._is_exact, self._interrupted = "cfi", True, True
        return frame

    def _pass_guessed(
        self, step: UnwindStep | None, lookup: int, fault: str, guesser: Guesser | None
    ) -> tuple[Frame, bool]:
        # Returns a frame whose caller can only be guessed, and whether there is a guess for its caller.
        sp, pc, registers = self._unwinder.sp, self._pc, self._registers
        guess = guesser.caller(pc, registers, is_exact=self._is_exact) if guesser is not None else ""
        start, is_signal_frame = (step.function_start, step.row.is_signal_frame) if step else (None, False)
        frame = Frame(
            pc,
            None if isinstance(guess, str) else guess.cfa,
            registers[sp],
            registers,
            start,
            is_signal_frame,
            self._how,
            self._interrupted,
            self._guessed,
            pc if is_signal_frame else lookup,
        )
        if isinstance(guess, str):
            self.stopped = f"{fault}, and {guess}" if guess else fault
            return frame, False
        self._registers, self._pc, self._how, self._inner_cfa = guess.registers, guess.pc, guess.how, guess.cfa
        self._is_exact, self._interrupted, self._guessed = False, False, True
        return frame, True

    def _clone_call_before(self, pc: int) -> int | None:
        # Return the size of the instruction right before pc if it is a system call that may create a thread; None for
        # other code. Behind this call C libraries have no unwind data, because the new thread begins there.
        calls = self._unwinder.architecture.system_calls
        if calls is None or not any(self._unwinder.signals.ends_with(pc, code) for code in calls.clones):
            return None
        return len(calls.instruction)

    def _is_new_thread(self, registers: Mapping[int, int]) -> bool:
        # Whether a thread whose pc is right behind such a call is the new thread. In the new thread the call returns 0.
        calls = self._unwinder.architecture.system_calls
        return calls is not None and registers.get(calls.result) == 0
