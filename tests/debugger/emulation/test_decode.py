"""Load-only routines, followed without an emulator: their answers and reads are compared with the emulator's (Unicorn).
Routines that do anything else are refused.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import Any

import pytest

from ompd.debugger.emulation.decode import Decoder
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.process import StoppedProcess
from ompd.errors import Unavailable
from ompd.isa.getters import State, Undecoded
from ompd.isa.x86.architectures import X86_64
from ompd.isa.x86.getters import X86
from tests.support import FULL
from tests.support.emulating import KINDS, Held, opened, sample
from tests.support.machine import require_module

unicorn = require_module("unicorn")
x86 = require_module("unicorn.x86_const")

# The limit of random instructions that the emulator runs. The decoder's own limit is in bytes of code.
INSTRUCTIONS = 300
PAGE = 4096
CODE, THREAD = 0x40000, 0x50000
STACK = {8: (1 << 64) - 16, 4: (1 << 32) - 16}


# The getters of runtimes


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "intel"])
def test_getters_of_libgomp_answer_and_read_as_in_the_emulator(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        compared = 0
        for name in GETTERS:
            routine = process.symbols.find_symbol(name)
            for thread in taken.threads:
                decoded = process.routines.decoder.call(routine, thread["id"])
                assert decoded == process.routines.call(routine, thread["id"]), name
                compared += 1
        assert compared >= 9 * 4


GETTERS = (
    *("omp_get_thread_num", "omp_get_level", "omp_get_active_level", "omp_get_num_threads", "omp_in_final"),
    *("omp_get_dynamic", "omp_get_max_threads", "omp_get_thread_limit", "omp_get_default_device"),
)


# Instructions: random ones, as the emulator carries them out


def memory_at(page: int) -> bytes:
    return random.Random(page).randbytes(PAGE)


class Machine:
    """Code of one page, over memory in which an address determines its byte; followed, and run by the emulator."""

    def __init__(self, code: bytes, pointer_size: int) -> None:
        self._code = code.ljust(PAGE, b"\xf4")
        self._size = pointer_size
        self._top = 0x61000
        # In 32 bits the emulator takes the thread pointer only from a table of descriptors.
        self._thread = THREAD if pointer_size == 8 else 0

    def followed(self) -> tuple[list[int], list[tuple[int, int]]]:
        state = State(
            *(CODE, self._thread, 16, self._code_at, self._load),
            stack=self._top,
            stack_register=4,
            pointer_size=self._size,
        )
        instructions = X86(state, self._size)
        while instructions.step():
            pass
        return state.registers, state.reads

    def _code_at(self, address: int) -> bytes:
        if not CODE <= address < CODE + PAGE:
            raise Undecoded("no code", address)
        return self._code[address - CODE :]

    def _load(self, address: int, size: int) -> int:
        first, rest = divmod(address, PAGE)
        if rest + size > PAGE or not 16 <= first < 1 << 20 or first in (CODE // PAGE, 0x60, 0x61):
            raise Undecoded("no memory", address)
        return int.from_bytes(memory_at(first)[rest : rest + size], "little")

    def run(self) -> tuple[list[int], list[tuple[int, int]]]:
        is_64 = self._size == 8
        uc = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64 if is_64 else unicorn.UC_MODE_32)
        uc.mem_map(CODE, PAGE)
        uc.mem_write(CODE, self._code)
        uc.mem_map(self._top - PAGE, 2 * PAGE)
        uc.mem_write(self._top, (CODE + PAGE - 1).to_bytes(8, "little"))
        reads: list[tuple[int, int]] = []

        def unmapped(uc: Any, _access: int, address: int, size: int, *_: object) -> bool:
            page = address // PAGE
            uc.mem_map(page * PAGE, PAGE)
            uc.mem_write(page * PAGE, memory_at(page))
            return True

        def read(_uc: Any, _access: int, address: int, size: int, *_: object) -> None:
            if not self._top - PAGE <= address < self._top + PAGE:
                reads.append((address, size))

        uc.hook_add(unicorn.UC_HOOK_MEM_READ_UNMAPPED, unmapped)
        uc.hook_add(unicorn.UC_HOOK_MEM_READ, read)
        names = [f"R{name}" for name in ("AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", *range(8, 16))]
        if not is_64:
            names = [f"E{name[1:]}" for name in names[:8]]
        registers = [getattr(x86, f"UC_X86_REG_{name}") for name in names]
        for register in registers:
            uc.reg_write(register, 0)
        uc.reg_write(registers[4], self._top)
        if is_64:
            uc.reg_write(x86.UC_X86_REG_FS_BASE, self._thread)
        uc.emu_start(CODE, CODE + PAGE - 1, 0, INSTRUCTIONS)
        # The last return has popped the return address from the stack.
        found = [uc.reg_read(register) for register in registers] + [0] * (16 - len(registers))
        found[4] -= self._size
        return found, reads


# Opcodes with a second operand, each with the size of the constant that follows.
FORMS = (
    *((bytes([opcode]), 0) for opcode in (0x8B, 0x89, 0x8D, 0x84, 0x85, 0x63)),
    *((bytes([opcode]), 0) for opcode in (0x01, 0x03, 0x09, 0x0B, 0x21, 0x23, 0x29, 0x2B, 0x31, 0x33, 0x39, 0x3B)),
    *((bytes([0x0F, opcode]), 0) for opcode in (0xB6, 0xB7, 0xBE, 0xBF, 0x1F, *range(0x40, 0x50), *range(0x90, 0xA0))),
    *((bytes([opcode]), 1) for opcode in (0x80, 0x83)),
    *((bytes([opcode]), 4) for opcode in (0x81, 0xC7)),
)


def instruction(chance: random.Random, pointer_size: int) -> bytes:
    """Return a random instruction that the decoder knows, with random operands."""
    kind = chance.random()
    rex = bytes([chance.randrange(0x40, 0x50)]) if pointer_size == 8 and chance.random() < 0.6 else b""
    if kind < 0.1:
        return rex[:1] + bytes([chance.randrange(0xB8, 0xC0)]) + constant(chance, 8 if rex and rex[0] & 8 else 4)
    if kind < 0.2:
        jump = bytes([chance.choice([*range(0x70, 0x80), 0xEB]), chance.randrange(12)])
        return chance.choice([jump, jump, b"\xe8" + bytes([chance.randrange(24), 0, 0, 0])])
    if kind < 0.28:
        return bytes([chance.randrange(0x50, 0x60)])
    if kind < 0.32:
        return chance.choice([b"\xf3\x0f\x1e\xfa", b"\x90", b"\x66\x90", b"\xc3", b"\x2d" + constant(chance, 4)])
    if kind < 0.36:
        segment = b"\x64" if pointer_size == 8 else b"\x65"
        return segment + (rex + b"\x8b\x04\x25" if pointer_size == 8 else b"\xa1") + constant(chance, 4)
    opcode, follows = chance.choice(FORMS)
    mode, other = chance.choice((0, 1, 2, 3, 3)), chance.randrange(8)
    operand = bytes([mode << 6 | chance.randrange(8) << 3 | other])
    if mode != 3 and other == 4:
        index = chance.randrange(256)
        operand += bytes([index])
        other = index & 7
    length = (4 if other == 5 else 0, 1, 4, 0)[mode]
    prefix = chance.choice((b"", b"", b"", b"\x66", b"\x64" if pointer_size == 8 else b"\x65"))
    follows = 2 if follows == 4 and prefix == b"\x66" and not (rex and rex[0] & 8) else follows
    return prefix + rex + opcode + operand + constant(chance, length) + constant(chance, follows)


def constant(chance: random.Random, size: int) -> bytes:
    if size < 4:
        return chance.randbytes(size)
    return chance.choice((chance.randrange(0x10000, 0x30000), chance.randrange(1 << 8 * size))).to_bytes(size, "little")


# By name: the pointer size, the code, and why it is not followed.
REFUSED = {
    "writes": (8, "89 07 c3", "a write to memory"),  # mov %eax, (%rdi)
    "writes more": (8, "83 04 25 00 00 02 00 01 c3", "a write to memory"),  # addl $1, 0x20000
    "calls the kernel": (8, "0f 05 c3", "opcode 0xf05"),
    "jumps to anywhere": (8, "ff e0", "opcode 0xff"),
    "copies": (8, "f3 a4 c3", "0xa4 with a prefix of repetition"),
    "has an instruction of AVX": (8, "c5 f8 77 c3", "opcode 0xc5"),
    "does not end": (8, "eb fe", "more instructions than a routine has that only loads"),
    "calls itself": (8, "e8 fb ff ff ff", "more stack than a routine needs"),
    "takes what it did not put": (8, "58 c3", "a stack that is empty"),
    "moves its stack": (8, "48 83 ec 08 c3", "a stack that was moved"),
    "has a breakpoint": (8, "cc c3", "opcode 0xcc"),
    "asks for parity": (8, "7a 00 c3", "a condition of parity"),
    "runs into what is no code": (8, "e9 00 00 10 00", "no code"),
    "calls the kernel in 32 bits": (4, "cd 80 c3", "opcode 0xcd"),
    "has an instruction of 64 bits": (4, "63 c0 c3", "opcode 0x63"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_more_than_load_is_refused(name: str) -> None:
    pointer_size, code, why = REFUSED[name]
    with pytest.raises(Undecoded, match=why):
        Machine(bytes.fromhex(code), pointer_size).followed()


def test_the_thread_pointer_of_32_bits() -> None:
    # As in libgomp: a routine that returns its own address locates a table, and a load is relative to the thread
    # pointer.
    code = "e8 0b 00 00 00  81 c0 fb 0f 00 00  65 8b 00 c3 90  8b 04 24 c3"
    machine = Machine(bytes.fromhex(code), 4)
    machine._thread = THREAD
    registers, reads = machine.followed()
    assert reads == [((CODE + 5 + 0xFFB + THREAD) & 0xFFFFFFFF, 4)]
    assert registers[0] == machine._load(*reads[0])


# Code and memory of a target


def refusal(process: StoppedProcess, thread: int, routine: str = "omp_get_level") -> str:
    """Return why a routine of the runtime is not followed."""
    with pytest.raises(Unavailable) as raised:
        process.routines.decoder.call(process.symbols.find_symbol(routine), thread)
    text = str(raised.value)
    assert text.startswith(f"{routine} cannot be decoded in thread {thread}: "), text
    return text


def test_code_that_is_not_what_its_file_has_is_not_followed() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        at = process.symbols.find_symbol("omp_get_level")
        page, within = at & ~0xFFF, at & 0xFFF
        original = process.memory.read(page, PAGE)
    patched = original[:within] + b"\xcc" + original[within + 1 :]  # a breakpoint
    with opened(taken, Held(taken, {page: patched})) as process:
        assert "that is not what its file has" in refusal(process, taken.thread("inner"))
    with opened(taken, Held(taken, {page: original})) as process:
        assert process.routines.decoder.call(at, taken.thread("inner")).as_int == 2


def test_code_of_a_file_that_is_not_verified_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        monkeypatch.setattr(LoadedModule, "unproven", "another file than ran", raising=False)
        assert process.modules.at(process.symbols.find_symbol("omp_get_level")) is not None
        assert "which is another file than ran" in refusal(process, taken.thread("inner"))


def test_a_thread_whose_storage_is_lost_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        # A wrong thread pointer: the word at it is not its own address.
        pointer = process.threads.thread_pointer(taken.thread("inner")) + 64
        monkeypatch.setattr(process.routines.code, "thread_pointer", lambda thread: pointer)
        with pytest.raises(Unavailable, match="is lost"):
            process.routines.evaluate(process.symbols.find_symbol("omp_get_level"), taken.thread("inner"))


def test_what_is_not_decoded_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        routine, thread = process.symbols.find_symbol("asks_level"), taken.thread("inner")
        with pytest.raises(Unavailable, match="cannot be decoded"):  # the loader has to bind a call
            process.routines.decoder.call(routine, thread)
        assert process.routines.evaluate(routine, thread) == process.routines.call(routine, thread)
    monkeypatch.setitem(sys.modules, "unicorn", None)
    with opened(taken) as process, pytest.raises(Unavailable) as raised:
        process.routines.evaluate(routine, thread)
    assert "cannot be decoded" in str(raised.value) and "without unicorn" in str(raised.value)
    assert raised.value.hint.startswith("pip install 'ompd[emulate]'")


def test_other_processors_are_not_decoded() -> None:
    taken = sample("lazy")
    architecture = replace(X86_64, name="riscv64", e_machine=243)
    with opened(taken) as process, pytest.raises(Unavailable, match=r"not decoded on this architecture \(riscv64\)"):
        Decoder(process.routines.code, architecture).call(0, process.threads.ids()[0])


@pytest.mark.parametrize("pointer_size", [8, 4], ids=["x86-64", "i386"])
def test_random_instructions_do_as_in_the_emulator(pointer_size: int) -> None:
    equal, refused = 0, 0
    for seed in range(4000 if FULL else 600):
        chance = random.Random(seed)
        code = b"".join(instruction(chance, pointer_size) for _ in range(chance.randrange(1, 9)))
        machine = Machine(code + 16 * b"\xc3", pointer_size)
        try:
            followed = machine.followed()
        except Undecoded:
            refused += 1
            continue
        assert followed == machine.run(), f"seed {seed}: {code.hex(' ')}"
        equal += 1
    assert equal > 80
