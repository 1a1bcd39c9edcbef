"""Runs routines of the target's own code in an emulator, on a copy of its memory. Nothing runs or changes in the
target.

The emulator (unicorn, the extra ``emulate``) copies pages from the target when they are first read. Only a scratch
stack can be written to. A routine that would write elsewhere, call the kernel or leave the code of verified files is
stopped, and its result is unavailable. The code is not trusted: it runs without privileges, and with limits on
instructions, reads and pages.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ompd.contract.process import CallResult
from ompd.debugger.emulation.code_checks import TargetCode
from ompd.errors import BadInput, CorruptState, MalformedFile, MemoryFault, OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.isa.emulator import EmulatedMachine
from ompd.isa.processors import emulated_machine

if TYPE_CHECKING:
    from ompd.debugger.emulation.linking import Linkage

_PAGE = 4096
# The oldest version of unicorn that has the calls that this module uses: 2.1.2, and one byte for the build.
_OLDEST = 0x02010200

# Limits of a routine. Getters of OpenMP runtimes run some ten to a few hundred instructions.
_MAX_INSTRUCTIONS = 200_000
_MAX_READS = 20_000
_MAX_PAGES = 1_024
_MAX_BINDINGS = 64
# The most pages that are kept between calls. Before there can be more, all of them are dropped.
_MAX_KEPT = 1 << 14
# The size in bytes of the emulator's buffer for translated code. If the buffer is full, the emulator translates anew.
_TRANSLATED = 16 << 20
_STACK_SIZE = 1 << 16

# The page numbers of the emulator's own memory. Page 0 is not used.
_STACK_AT = 1
_RETURN_AT = _STACK_AT + _STACK_SIZE // _PAGE
_TRAP_AT = _RETURN_AT + 1
_START_AT = _TRAP_AT + 1
_FIRST = _START_AT + 1

# Addresses in the target's address space: the scratch stack between unmapped pages, a routine's return address, and the
# emulator's start address.
_GAP = 1 << 24
_RETURN = 3 * _GAP + _PAGE // 2
_ROOM = 4 * _GAP
_PLACES = range(0x7000_0000_0000, 0x1000_0000_0000, -(1 << 40))

_READ, _WRITE, _EXECUTE = 1, 2, 4
_WORD = (1 << 64) - 1


@dataclass
class _Call:
    # The state of a running call.
    reads: list[tuple[int, int]]
    pages: int = 0
    reason: str | None = None
    cause: OmpdError | None = None
    raised: BaseException | None = None
    trapped: tuple[int, int, MemoryFault | None] | None = None
    binding: bool = False


class Emulator:
    """Runs routines of one process at one stop. Pages are kept between calls, so it must be closed.

    :param linkage: returns the linkage tables of the process, for the architecture's type of their relocations
    :param is_free: returns whether the target has no mapping between two addresses
    :param loader_code: the first and the end address of each dynamic loader
    :raises Unavailable: if unicorn is not installed, or if this processor is not emulated
    """

    def __init__(
        self,
        code: TargetCode,
        architecture: Architecture,
        linkage: Callable[[int], Linkage],
        is_free: Callable[[int, int], bool],
        loader_code: Sequence[tuple[int, int]],
    ) -> None:
        machine = emulated_machine(architecture.e_machine)
        if machine is None:
            raise Unavailable(f"routines of the target are not emulated on this architecture ({architecture.name})")
        self._machine = machine
        self._code, self._loader_code = code, loader_code
        self.linkage = linkage(architecture.jump_slot)
        place = next((address for address in _PLACES if is_free(address, address + _ROOM)), None)
        if place is None:
            raise Unavailable("routines of the target are not emulated: its memory leaves no room for a stack")
        self.stack_start = place + _GAP
        self._stack_end = self.stack_start + _STACK_SIZE
        self._return = place + _RETURN
        self.start = place
        self._unicorn, self._constants = import_unicorn(machine)
        self._uc: Any = None
        self._hooks: list[int] = []
        self._context: Any = None
        self._call = _Call([])
        self._checked: dict[int, str | None] = {}
        self._open()

    def close(self) -> None:
        """Free the emulator and its pages. The next call makes a new emulator."""
        uc, self._uc, self._context = self._uc, None, None
        # Hooks keep the emulator alive, and through it this object.
        for hook in self._hooks if uc is not None else ():
            uc.hook_del(hook)
        self._hooks = []

    def call(self, routine: int, thread: int, arguments: Sequence[int]) -> CallResult:
        """See :meth:`ompd.contract.process.Process.call`."""
        if len(arguments) > len(self._machine.arguments):
            raise BadInput(f"a routine is called with {len(self._machine.arguments)} arguments at most")
        if not 0 <= routine <= _WORD or any(not -(1 << 63) <= argument <= _WORD for argument in arguments):
            raise BadInput("a routine's address or argument does not fit into a register")
        thread_pointer = self._code.storage_of(thread)
        if self._uc is None or len(self.owners) + _MAX_PAGES > _MAX_KEPT:
            self.close()
            self._open()
        self._call = call = _Call([])
        uc, machine, constants = self._uc, self._machine, self._constants
        try:
            uc.context_restore(self._context)
            uc.mem_write(_STACK_AT * _PAGE, self._clean_stack)
            uc.reg_write(self._thread_pointer, thread_pointer)
            for name, value in zip(machine.arguments, arguments, strict=False):
                uc.reg_write(getattr(constants, name), value & _WORD)
            pc = self._run(routine, call)
            end = self._entry + machine.return_size
            if pc is None and call.trapped is None and uc.reg_read(self._stack_pointer) == end:
                return CallResult(uc.reg_read(self._result), tuple(call.reads))
        except self._unicorn.UcError as error:
            pc, call.reason = None, call.reason or f"the emulator has given up: {error}"
        finally:
            # The emulator keeps an entry for the page that the trap replaced. Later calls must not use it.
            if call.trapped is not None and self._uc is not None:
                uc.ctl(self._unicorn.UC_CTL_TLB_FLUSH, self._unicorn.UC_CTL_IO_WRITE)
        raise self._refusal(routine, thread, call, pc)

    def _refusal(self, routine: int, thread: int, call: _Call, pc: int | None) -> Unavailable:
        reason = call.reason
        if reason is None and call.trapped is not None:
            # The access began in another page and reached into the trapped one, so the trap page's hook did not see it.
            page, access, fault = call.trapped
            writes = access == self._unicorn.UC_MEM_WRITE
            reason = f"would write at {page:#x}" if writes else f"reads at {page:#x}: {fault}"
        elif reason is None:
            reason = "does not return as routines do" if pc is None else "does not end"
        text = f"{self._code.name(routine)} cannot be emulated in thread {thread}: it {reason}"
        refusal = Unavailable(text, hint=call.cause.hint if call.cause is not None else "")
        refusal.__cause__ = call.cause
        return refusal

    # Runs

    def _run(self, routine: int, call: _Call) -> int | None:
        # Runs the routine. Returns the address at which it stopped, None if it returned.
        uc, pc = self._uc, routine
        for _ in range(_MAX_BINDINGS):
            fault = None
            try:
                uc.emu_start(pc, self._return, 0, _MAX_INSTRUCTIONS)
            except self._unicorn.UcError as error:
                fault = error
            if call.raised is not None:
                raise call.raised
            stopped: int = uc.reg_read(self._program_counter)
            if call.binding:
                call.binding = False
                bound = self._bind(call)
                if bound is None:
                    return stopped
                pc = bound
                continue
            if call.reason is None and fault is None:
                return None if stopped == self._return else stopped
            if call.reason is None and fault is not None:
                call.reason = self._explained(fault, stopped)
            return stopped
        call.reason = f"calls more than {_MAX_BINDINGS} routines that the program has not called yet"
        return pc

    def _explained(self, fault: Any, pc: int) -> str:
        if fault.errno == self._unicorn.UC_ERR_INSN_INVALID:
            return f"has an instruction at {self._code.name(pc)} that the emulator does not know"
        return f"cannot go on at {self._code.name(pc)}: {fault}"

    def _bind(self, call: _Call) -> int | None:
        # Returns the address of the routine to which the called entry of a linkage table leads, None with a reason in
        # call.reason. The loader's binding routine gets its two arguments on the stack: below the return address.
        uc = self._uc
        sp: int = uc.reg_read(self._stack_pointer)
        link_map, index = self._stack_word(sp), self._stack_word(sp + 8)
        try:
            bound = self.linkage.bind(link_map, index)
        except (Unavailable, MalformedFile, MemoryFault, CorruptState) as error:
            call.reason, call.cause = f"calls what the program has not called yet: {error}", error
            return None
        uc.reg_write(self._stack_pointer, sp + 16)
        return bound

    def _stack_word(self, address: int) -> int:
        if not self.stack_start <= address <= self._stack_end - 8:
            return 0
        raw = self._uc.mem_read(_STACK_AT * _PAGE + address - self.stack_start, 8)
        return int.from_bytes(raw, "little")

    # The emulator

    def _open(self) -> None:
        unicorn, machine, constants = self._unicorn, self._machine, self._constants
        self._thread_pointer = getattr(constants, machine.thread_pointer)
        self._stack_pointer = getattr(constants, machine.stack_pointer)
        self._program_counter = getattr(constants, machine.program_counter)
        self._result = getattr(constants, machine.result)
        # Maps the target's page number to the emulator's address and the permitted accesses. The list ``owners`` maps
        # the emulator's page number, counted from _FIRST, to the target's address.
        self._pages: dict[int, tuple[int, int]] = {}
        self.owners: list[int] = []
        self._entry = self._stack_end - 256 - machine.return_size
        stack = bytearray(_STACK_SIZE)
        entry_offset = self._entry - self.stack_start
        stack[entry_offset : entry_offset + 8] = self._return.to_bytes(8, "little")
        self._clean_stack = bytes(stack)
        # If the emulator cannot allocate its buffer for translated code, it ends this process. So the buffer is small,
        # and this checks first that there is enough memory.
        try:
            mmap.mmap(-1, 2 * _TRANSLATED + (_FIRST + _MAX_KEPT) * _PAGE).close()
        except (OSError, ValueError) as error:
            raise Unavailable("routines of the target are not emulated: there is not enough memory for it") from error
        try:
            self._uc = uc = unicorn.Uc(getattr(unicorn, machine.arch), getattr(unicorn, machine.mode))
            uc.ctl_set_tcg_buffer_size(_TRANSLATED)
            uc.ctl_set_cpu_model(getattr(constants, machine.model))
            uc.ctl(unicorn.UC_CTL_TLB_TYPE, unicorn.UC_CTL_IO_WRITE, unicorn.UC_TLB_VIRTUAL)
            uc.mem_map(0, (_FIRST + _MAX_KEPT) * _PAGE)
            self._add_hooks(uc, unicorn)
            uc.mem_write(_START_AT * _PAGE, machine.leave_kernel)
            for number in range(_STACK_SIZE // _PAGE):
                self._place(self.stack_start + number * _PAGE, _STACK_AT + number, _READ | _WRITE)
            self._place(self._return, _RETURN_AT, _READ | _EXECUTE)
            self._place(self.start, _START_AT, _EXECUTE)
            machine.prepare(uc, constants, self._return)
            uc.emu_start(self.start, self._return, 0, 2)
            for name in machine.left:
                uc.reg_write(getattr(constants, name), 0)
            del self._pages[self.start // _PAGE]
            uc.reg_write(self._stack_pointer, self._entry)
            self._context = uc.context_save()
        except unicorn.UcError as error:
            self.close()
            raise Unavailable(f"routines of the target are not emulated: {error}") from error

    def _place(self, address: int, page: int, allowed: int) -> None:
        self._pages[address // _PAGE] = page * _PAGE, allowed

    def _add_hooks(self, uc: Any, unicorn: Any) -> None:
        add = uc.hook_add
        last = (_FIRST + _MAX_KEPT) * _PAGE - 1
        self._hooks = [
            add(unicorn.UC_HOOK_TLB_FILL, self._fill),
            # Reads of the target's pages are noted, but not reads of the scratch stack. The range of a hook has
            # addresses of the emulator's own memory.
            add(unicorn.UC_HOOK_MEM_READ, self._note_read, None, _FIRST * _PAGE, last),
            add(
                unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE,
                self._note_trapped,
                None,
                _TRAP_AT * _PAGE,
                (_TRAP_AT + 1) * _PAGE - 1,
            ),
            add(unicorn.UC_HOOK_INTR, self._note_exception),
        ]
        for instruction, reason in self._machine.foreign:
            number = getattr(self._constants, instruction)
            self._hooks.append(add(unicorn.UC_HOOK_INSN, self._refuse_instruction, reason, 1, 0, number))
        for start, end in self._loader_code:
            self._hooks.append(add(unicorn.UC_HOOK_BLOCK, self._enter_loader, None, start, end - 1))

    def _stop(self, reason: str, cause: OmpdError | None = None) -> None:
        call = self._call
        if call.reason is None:
            call.reason, call.cause = reason, cause
        self._uc.emu_stop()

    # Hooks

    def _fill(self, _uc: Any, address: int, access: int, entry: Any, _data: object) -> bool:
        # Called at the first access of each kind to a page of the target.
        call = self._call
        try:
            unicorn = self._unicorn
            if access == unicorn.UC_MEM_FETCH:
                return self._fill_code(address, entry)
            number = address // _PAGE
            page = self._pages.get(number)
            if page is None:
                page = self._fetch(number)
            if access == unicorn.UC_MEM_WRITE and not page[1] & _WRITE:
                call.trapped = address - address % _PAGE, access, None
                entry.paddr, entry.perms = _TRAP_AT * _PAGE, _READ | _WRITE
                return True
            # Without _EXECUTE, because code in the page must be checked first, in _fill_code.
            entry.paddr, entry.perms = page[0], page[1] & (_READ | _WRITE)
            return bool(page[1] & (_READ | _WRITE))
        except MemoryFault as error:
            # The target lacks this page, so the trap page is mapped in its place. The trap page's hook then sees which
            # bytes the routine accesses.
            call.trapped = address - address % _PAGE, access, error
            entry.paddr, entry.perms = _TRAP_AT * _PAGE, _READ | _WRITE
            return True
        except (CorruptState, Unavailable) as error:
            self._stop(str(error), error)
            return False
        except BaseException as error:
            call.raised = error
            self._uc.emu_stop()
            raise

    def _fill_code(self, address: int, entry: Any) -> bool:
        call, number = self._call, address // _PAGE
        page = self._pages.get(number)
        if page is None or not page[1] & _EXECUTE:
            try:
                fault = self._code_fault(number)
                if fault is None:
                    page = page or self._fetch(number)
            except MemoryFault as error:
                fault, call.cause = f"comes to {self._code.name(address)}: {error}", error
            if fault is not None or page is None:
                self._stop(fault or "cannot go on", call.cause)
                return False
            page = self._pages[number] = page[0], page[1] | _EXECUTE
        entry.paddr, entry.perms = page
        return True

    def _fetch(self, number: int) -> tuple[int, int]:
        # Copies a page of the target into the emulator. Returns its address there, and the permitted accesses.
        call = self._call
        call.pages += 1
        if call.pages > _MAX_PAGES:
            raise Unavailable(f"uses more than {_MAX_PAGES} pages")
        address = number * _PAGE
        raw = self._code.load(address, _PAGE)
        place = (_FIRST + len(self.owners)) * _PAGE
        self._uc.mem_write(place, raw)
        self.owners.append(address)
        page = self._pages[number] = place, _READ
        return page

    def _note_read(self, _uc: Any, _access: int, place: int, size: int, _value: int, _data: object) -> None:
        reads = self._call.reads
        reads.append((self.owners[place // _PAGE - _FIRST] + place % _PAGE, size))
        if len(reads) > _MAX_READS:
            self._stop(f"reads more than {_MAX_READS} times")

    def _note_trapped(self, _uc: Any, access: int, place: int, size: int, _value: int, _data: object) -> None:
        trapped = self._call.trapped
        if trapped is None:
            self._stop("reads or writes what it may not")
            return
        page, _, fault = trapped
        address = page + place % _PAGE
        if access == self._unicorn.UC_MEM_WRITE:
            if self.stack_start - _GAP <= address < self.stack_start:
                self._stop(f"needs more than {_STACK_SIZE // 1024} KiB of stack")
            else:
                self._stop(f"would write at {self._where(address)}", fault)
        else:
            self._stop(f"reads {size} bytes at {address:#x}: {fault}", fault)

    def _where(self, address: int) -> str:
        name = self._code.symbolize(address)
        return f"{address:#x} ({name})" if name is not None else f"{address:#x}"

    def _note_exception(self, _uc: Any, number: int, _data: object) -> None:
        self._stop(self._machine.exceptions.get(number, f"raises interrupt {number}"))

    def _refuse_instruction(self, *given: Any) -> int:
        self._stop(given[-1])
        return 0

    def _enter_loader(self, _uc: Any, address: int, _size: int, _data: object) -> None:
        call = self._call
        try:
            link_map = self._stack_word(self._uc.reg_read(self._stack_pointer))
            if link_map and self.linkage.is_binder(address, link_map):
                call.binding = True
                self._uc.emu_stop()
        except BaseException as error:
            call.raised = error
            self._uc.emu_stop()
            raise

    # Code

    def _code_fault(self, number: int) -> str | None:
        # Return why the code in a page must not run, None if it may run.
        if number not in self._checked:
            self._checked[number] = self._code.fault(number * _PAGE)
        return self._checked[number]


def import_unicorn(machine: EmulatedMachine) -> tuple[Any, Any]:
    """Return the module of unicorn, and its module with the constants of a processor.

    :raises Unavailable: if unicorn is not installed, or too old
    """
    hint = "pip install 'ompd[emulate]' adds unicorn 2.1.2 or later"
    try:
        import unicorn

        constants = import_module(f"unicorn.{machine.constants}")
    except (ImportError, OSError) as error:
        raise Unavailable(f"routines of the target are not emulated without unicorn: {error}", hint=hint) from error
    module: Any = unicorn
    number = module.uc_version()[2]
    if number < _OLDEST:
        version = ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8))
        raise Unavailable(f"routines of the target are not emulated by unicorn {version}", hint=hint)
    return module, constants
