"""Finds out whether a thread's loop can end by itself: the thread is emulated from its registers, on a copy of its
memory.

The thread is in a *closed orbit* if all its registers, and all bytes that it has written, are the same at two passes of
one instruction. Then it repeats this for ever, unless somebody else writes a word that it reads. Nothing runs or
changes in the target.

Registers of vectors and of floating-point numbers are not read, so instructions that use them end the examination. So
does all else of which the emulator does not know what a processor would do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ompd.debugger.emulation.code_checks import TargetCode
from ompd.debugger.emulation.emulate import import_unicorn
from ompd.debugger.emulation.openings import Probe, Word, opening
from ompd.errors import CorruptState, MemoryFault, OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.isa.processors import emulated_machine
from ompd.records import record

_PAGE = 4096
_WORD = (1 << 64) - 1
_TRANSLATED = 16 << 20  # the size in bytes of the emulator's buffer for translated code

# Limits for one thread, and for all threads together.
_MAX_INSTRUCTIONS, _MAX_TOTAL = 20_000, 400_000
_MAX_PAGES, _MAX_KEPT = 64, 2_048
_MAX_WORDS = 12  # words whose effect on the loop is tried
_MAX_TRIED = 30_000  # instructions of all trials for one loop


@record
class Orbit:
    """The closed orbit of a thread.

    ``length`` is the number of instructions of one pass, ``code`` their addresses in ascending order, each once.
    ``words`` are the words that the loop reads, and that others may write. ``awaited`` are those among them of which
    some value makes the thread leave the loop. ``yields`` is whether the loop calls sched_yield.
    """

    length: int
    code: tuple[int, ...]
    words: tuple[Word, ...]
    awaited: tuple[Word, ...]
    yields: bool


class _Ended(Exception):
    """The examination of a thread has ended for the reason that the text names."""


class _Pass:
    """What one pass of a loop does: its instructions, reads and writes, and the range of its stack pointer."""

    def __init__(self) -> None:
        self.code: dict[int, None] = {}
        self.reads: dict[tuple[int, int], None] = {}
        self.changes: list[tuple[int, int]] = []  # address and size of each write that changed bytes
        self.lowest, self.highest = _WORD, 0


class Orbits:
    """The loops of one process's threads at one stop. Pages are kept between threads, so it must be closed.

    :param kernel_words: the distance from the thread pointer, and the size, of memory that the kernel writes; None if
        the C library has none
    :raises Unavailable: if unicorn is not installed, or if loops are not emulated on this processor
    """

    def __init__(
        self, code: TargetCode, architecture: Architecture, start: int, kernel_words: tuple[int, int] | None
    ) -> None:
        machine = emulated_machine(architecture.e_machine)
        if machine is None or machine.loops is None:
            raise Unavailable(f"loops are not examined on this architecture ({architecture.name})")
        self._machine, self._rules = machine, machine.loops
        self._code, self._start, self._kernel_words = code, start, kernel_words
        self._unicorn, self._constants = import_unicorn(machine)
        self._numbers = {name: getattr(self._constants, constant) for name, constant in self._rules.registers}
        self._sp = self._numbers[architecture.sp]
        self._names = architecture.pc, architecture.sp, architecture.thread_pointer
        self._left = _MAX_TOTAL
        self._uc: Any = None
        self._hooks: list[int] = []
        self._awaited: dict[object, tuple[Word, ...]] = {}
        self._pages: dict[int, None] = {}
        self._is_checked: dict[int, bool] = {}
        self._open()

    def close(self) -> None:
        """Free the emulator."""
        for hook in self._hooks:
            self._uc.hook_del(hook)
        self._hooks, self._uc = [], None

    def drop(self, pages: Collection[int]) -> None:
        """Forget the contents of pages, by their numbers, because they are of another moment."""
        for number in pages:
            if number * _PAGE in self._pages:
                del self._pages[number * _PAGE]
                self._uc.mem_unmap(number * _PAGE, _PAGE)

    def of(self, registers: Mapping[str, int]) -> Orbit:
        """Return the closed orbit of a thread with the registers *registers*.

        :raises Unavailable: if the thread is in none, or if that cannot be found out; the text says why
        """
        missing = [name for name in self._numbers if name not in registers]
        if missing:
            raise Unavailable(f"its loop is not examined: register {missing[0]} is not known")
        kept = self._rules.kept_flags
        state = {name: registers[name] & _WORD for name in self._numbers}
        state[self._rules.flags] = state[self._rules.flags] & kept | 0x202
        self._begin(state)
        try:
            self._uc.context_restore(self._context)
            self._write(state)
            anchor, length = self._find(state)
            return self._measured(anchor, length)
        except _Ended as reason:
            raise Unavailable(f"its loop is not closed: it {reason}") from None
        except self._unicorn.UcError as error:
            raise Unavailable(f"its loop is not closed: the emulator has given up: {error}") from error
        finally:
            self._undo(self._written)

    # Phases

    def _begin(self, state: Mapping[str, int]) -> None:
        self._written: dict[int, int] = {}  # bytes as they were, by address
        self._since: dict[int, int] = {}  # bytes as they were at the anchor
        self._anchor: dict[str, int] = {}
        self._count = self._anchored_at = 0
        self._next_anchor = 1
        self._length: int | None = None
        self._reason: str | None = None
        self._raised: BaseException | None = None
        self._new_pages = 0
        self._differs = self._names[1]
        self._pass: _Pass | None = None
        self._probe: Probe | None = None
        self._yields = False
        thread_pointer = state[self._names[2]]
        offset, size = self._kernel_words or (0, 0)
        self._kernels = range(thread_pointer + offset, thread_pointer + offset + size)

    def _find(self, state: Mapping[str, int]) -> tuple[dict[str, int], int]:
        # Find an orbit: return the registers at one of its instructions, and its length. The anchor, with which later
        # passes are compared, moves on after each doubling of the count, so that it comes into the loop.
        self._run(state[self._names[0]])
        self._left -= self._count
        if self._length is None:
            raise _Ended("does not end")
        return dict(self._anchor), self._length

    def _measured(self, anchor: dict[str, int], length: int) -> Orbit:
        self._pass = one = _Pass()
        self._count, self._limit = 0, length
        self._write(anchor)
        self._run(anchor[self._names[0]])
        self._pass = None
        dead = range(one.lowest - 128, one.highest)  # 128: the red zone, which functions use without moving the pointer
        for address, size in one.changes:
            if address not in dead or address + size > dead.stop:
                raise _Ended(f"changes memory at {address:#x} and changes it back")
        seen = {read for read in one.reads if read[0] not in dead}
        for address, size in seen:
            if address in self._kernels or address + size - 1 in self._kernels:
                raise _Ended("reads what the kernel writes")
        words = [Word(address, size, self._value(address, size)) for address, size in sorted(seen)]
        key = tuple(one.code), tuple(words), self._key_of(anchor, one)
        if key not in self._awaited:
            self._awaited[key] = tuple(self._find_awaited(anchor, one, words, length))
        return Orbit(length, tuple(sorted(one.code)), tuple(words), self._awaited[key], self._yields)

    def _key_of(self, anchor: Mapping[str, int], one: _Pass) -> object:
        # The registers with numbers. Those with addresses differ between threads at the same loop.
        return tuple(value for name, value in anchor.items() if name not in self._names and value < one.lowest >> 8)

    def _find_awaited(self, anchor: dict[str, int], one: _Pass, words: Sequence[Word], length: int) -> Iterator[Word]:
        # Yield the words of which a value makes the thread leave the loop.
        budget = _MAX_TRIED
        values = [value for name, value in anchor.items() if name not in self._names] + [word.value for word in words]
        # What a jump leads to is an address of code, such as in a linkage table. No thread waits for such a word.
        data = [word for word in words if not self._code.is_code(word.value)]
        for word in data[:_MAX_WORDS]:
            probe = Probe(word, one.code, one.reads, range(one.lowest - 128, one.highest))

            def leaves(value: int, word: Word = word, probe: Probe = probe) -> bool | None:
                nonlocal budget
                limit = 2 * length + 64
                if budget < limit:
                    return None
                budget -= limit
                return self._try(anchor, word, value, probe, limit)

            condition = opening(word, values, leaves)
            if condition is not None and not probe.is_address:
                yield Word(word.address, word.size, word.value, condition)

    def _try(self, anchor: dict[str, int], word: Word, value: int, probe: Probe, limit: int) -> bool | None:
        # Return whether the thread leaves the loop if *word* has another value; None if it cannot go on so.
        uc, before = self._uc, dict(self._written)
        self._written = {}
        self._remember(word.address, word.size)
        uc.mem_write(word.address, value.to_bytes(word.size, "little"))
        self._probe, self._count, self._limit, probe.has_left = probe, 0, limit, False
        try:
            self._write(anchor)
            self._run(anchor[self._names[0]])
        except (_Ended, self._unicorn.UcError):
            return True if probe.has_left else None
        finally:
            self._probe, self._reason = None, None
            self._undo(self._written)
            self._written = before
        return probe.has_left

    # The emulator

    def _open(self) -> None:
        unicorn, machine, constants = self._unicorn, self._machine, self._constants
        uc = self._uc = unicorn.Uc(getattr(unicorn, machine.arch), getattr(unicorn, machine.mode))
        uc.ctl_set_tcg_buffer_size(_TRANSLATED)
        uc.ctl_set_cpu_model(getattr(constants, machine.model))
        uc.mem_map(self._start, _PAGE)
        uc.mem_write(self._start, machine.leave_kernel)
        self._rules.prepare(uc, constants, self._start + _PAGE // 2)
        uc.emu_start(self._start, self._start + _PAGE // 2, 0, 2)
        for name in machine.left:
            uc.reg_write(getattr(constants, name), 0)
        uc.mem_unmap(self._start, _PAGE)
        self._context = uc.context_save()
        add, unmapped = uc.hook_add, unicorn.UC_HOOK_MEM_UNMAPPED
        self._hooks = [
            add(unmapped, self._map),
            add(unicorn.UC_HOOK_MEM_FETCH_PROT, self._allow_code),
            add(unicorn.UC_HOOK_CODE, self._step),
            add(unicorn.UC_HOOK_MEM_READ, self._note_read),
            add(unicorn.UC_HOOK_MEM_WRITE, self._note_write),
            add(unicorn.UC_HOOK_INTR, self._note_exception),
        ]
        for instruction, reason in machine.foreign:
            number = getattr(constants, instruction)
            if instruction == self._rules.system_call:
                self._hooks.append(add(unicorn.UC_HOOK_INSN, self._call_kernel, reason, 1, 0, number))
            else:
                self._hooks.append(add(unicorn.UC_HOOK_INSN, self._refuse, reason, 1, 0, number))

    def _run(self, pc: int) -> None:
        error: Any = None
        try:
            self._uc.emu_start(pc, self._start)
        except self._unicorn.UcError as fault:
            error = fault
        if self._raised is not None:
            raise self._raised
        if self._reason is not None:
            raise _Ended(self._reason)
        if error is not None:
            raise error

    def _write(self, state: Mapping[str, int]) -> None:
        for name, number in self._numbers.items():
            self._uc.reg_write(number, state[name])

    def _value(self, address: int, size: int) -> int:
        return int.from_bytes(self._bytes(address, size), "little")

    def _bytes(self, address: int, size: int) -> bytes:
        # The page may not be mapped yet: hooks of reads and writes are called before.
        if all(page in self._pages for page in _pages_of(address, size)):
            return bytes(self._uc.mem_read(address, size))
        return b"".join(
            bytes(self._uc.mem_read(place, 1)) if place & -_PAGE in self._pages else self._code.load(place, 1)
            for place in range(address, address + size)
        )

    def _remember(self, address: int, size: int) -> bytes:
        old = self._bytes(address, size)
        for place, byte in zip(range(address, address + size), old, strict=True):
            self._written.setdefault(place, byte)
            self._since.setdefault(place, byte)
        return old

    def _undo(self, written: Mapping[int, int]) -> None:
        for address, byte in written.items():
            if address & -_PAGE in self._pages:
                self._uc.mem_write(address, bytes((byte,)))

    def _stop(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
        self._uc.emu_stop()

    # Hooks

    def _map(self, _uc: Any, access: int, address: int, size: int, _value: int, _data: object) -> bool:
        try:
            for page in _pages_of(address, max(size, 1)):
                if page in self._pages:
                    continue
                self._new_pages += 1
                if self._new_pages > _MAX_PAGES or len(self._pages) >= _MAX_KEPT:
                    self._stop(f"uses more than {_MAX_PAGES} pages")
                    return False
                raw = self._code.load(page, _PAGE)
                allowed = self._unicorn.UC_PROT_READ | self._unicorn.UC_PROT_WRITE
                if access == self._unicorn.UC_MEM_FETCH_UNMAPPED:
                    fault = self._code.loop_fault(page)
                    if fault is not None:
                        self._stop(fault)
                        return False
                    allowed = self._unicorn.UC_PROT_READ | self._unicorn.UC_PROT_EXEC
                self._uc.mem_map(page, _PAGE, allowed)
                self._uc.mem_write(page, raw)
                self._pages[page] = None
        except (MemoryFault, CorruptState, Unavailable) as error:
            self._stop(f"needs what the target does not hold: {error}")
            return False
        except BaseException as error:
            self._raised = error
            self._uc.emu_stop()
            raise
        return True

    def _allow_code(self, _uc: Any, _access: int, address: int, _size: int, _value: int, _data: object) -> bool:
        page = address & -_PAGE
        try:
            fault = self._code.loop_fault(page)
            if fault is None and any(place & -_PAGE == page for place in self._written):
                fault = "executes what it has written"
        except (MemoryFault, OmpdError) as error:
            fault = str(error)
        if fault is not None:
            self._stop(fault)
            return False
        self._uc.mem_protect(page, _PAGE, self._unicorn.UC_PROT_READ | self._unicorn.UC_PROT_EXEC)
        return True

    def _step(self, uc: Any, address: int, size: int, _data: object) -> None:
        try:
            self._count += 1
            if address not in self._is_checked:
                code = bytes(uc.mem_read(address, size)) if 0 < size <= 15 else b""
                self._is_checked[address] = bool(code) and self._rules.unsteady.match(code) is None
            if not self._is_checked[address]:
                self._stop(f"has an instruction at {self._code.name(address)} whose result may change")
            elif self._probe is not None:
                if address not in self._probe.code:
                    self._probe.has_left = True
                    uc.emu_stop()
                elif self._count > self._limit:
                    uc.emu_stop()
            elif self._pass is not None:
                self._step_of_pass(uc, address, self._pass)
            elif self._count > _MAX_INSTRUCTIONS or self._count > self._left:
                self._stop(f"does not come round within {min(_MAX_INSTRUCTIONS, self._left)} instructions")
            elif self._anchor.get(self._names[0]) == address and self._is_round():
                self._length = self._count - self._anchored_at
                uc.emu_stop()
            elif self._count >= self._next_anchor:
                self._next_anchor *= 2
                self._anchored_at, self._since = self._count, {}
                self._anchor = {name: uc.reg_read(number) for name, number in self._numbers.items()}
                self._anchor[self._names[0]] = address
        except BaseException as error:
            self._raised = error
            uc.emu_stop()
            raise

    def _step_of_pass(self, uc: Any, address: int, one: _Pass) -> None:
        if self._count > self._limit:
            uc.emu_stop()
            return
        one.code[address] = None
        pointer = uc.reg_read(self._sp)
        one.lowest, one.highest = min(one.lowest, pointer), max(one.highest, pointer)

    def _is_round(self) -> bool:
        # Whether all is as it was at the anchor. The register that differed the last time is tried first.
        uc, anchor = self._uc, self._anchor
        if self._differs != self._names[0] and uc.reg_read(self._numbers[self._differs]) != anchor[self._differs]:
            return False
        for name, number in self._numbers.items():
            if name != self._names[0] and uc.reg_read(number) != anchor[name]:
                self._differs = name
                return False
        return all(uc.mem_read(place, 1)[0] == byte for place, byte in self._since.items())

    def _note_read(self, _uc: Any, _access: int, address: int, size: int, _value: int, _data: object) -> None:
        if self._pass is not None:
            self._pass.reads[address, size] = None
        elif self._probe is not None and not self._probe.may_read(address, size):
            self._probe.is_address = True
            self._uc.emu_stop()

    def _note_write(self, _uc: Any, _access: int, address: int, size: int, value: int, _data: object) -> None:
        try:
            old = self._remember(address, size)
            if self._pass is not None and int.from_bytes(old, "little") != value & ((1 << 8 * size) - 1):
                self._pass.changes.append((address, size))
        except (MemoryFault, CorruptState, Unavailable) as error:
            self._stop(f"needs what the target does not hold: {error}")
        except BaseException as error:
            self._raised = error
            self._uc.emu_stop()
            raise

    def _note_exception(self, _uc: Any, number: int, _data: object) -> None:
        self._stop(self._machine.exceptions.get(number, f"raises interrupt {number}"))

    def _refuse(self, *given: Any) -> int:
        self._stop(given[-1])
        return 0

    def _call_kernel(self, *given: Any) -> int:
        uc, constants, rules = self._uc, self._constants, self._rules
        number = getattr(constants, rules.number)
        if uc.reg_read(number) not in rules.yields:
            self._stop(given[-1])
            return 0
        self._yields = True
        for register, source in rules.after_call:
            uc.reg_write(getattr(constants, register), uc.reg_read(getattr(constants, source)))
        uc.reg_write(number, 0)
        return 0


def _pages_of(address: int, size: int) -> Sequence[int]:
    return range(address & -_PAGE, address + size, _PAGE)
