"""The call before a return address, recognised by its code, over invented memory."""

from __future__ import annotations

import pytest

from ompd.debugger.stacks.calls import Calls
from ompd.errors import MemoryFault
from ompd.isa.x86.architectures import X86_64

PC, START, END = 0x7F0000001000, 0x7F0000000000, 0x7F0000002000


class Code:
    """Memory that ends at PC. Its last *held* bytes are nops and this code."""

    byte_order = "little"
    pointer_size = 8

    def __init__(self, code: bytes, held: int) -> None:
        self._code = (b"\x90" * held + code)[-held:] if held else b""

    def read_code(self, address: int, size: int) -> bytes:
        at = address - (PC - len(self._code))
        if at < 0 or at + size > len(self._code):
            raise MemoryFault(address, size)
        return self._code[at : at + size]


class Modules:
    """One module, from START to END, without unwind data."""

    def at(self, address: int) -> object:
        return self if START <= address < END else None

    def function_extent(self, address: int) -> None:
        return None


def calls(memory: Code) -> Calls:
    return Calls(memory, X86_64, Modules(), None, None)  # type: ignore[arg-type]


def distance(target: int) -> bytes:
    return (target - PC).to_bytes(4, "little", signed=True)


@pytest.mark.parametrize(
    ("code", "is_direct"),
    [
        (b"\xe8" + distance(START + 0x10), True),  # call into the module
        (b"\xe8" + distance(END - 1), True),
        (b"\xff\xd3", False),  # call *%rbx
        (b"\x41\xff\xd4", False),  # call *%r12
        (b"\xff\x54\x24\x08", False),  # call *8(%rsp)
        (b"\xff\x15" + distance(START), False),  # call *…(%rip)
        (b"\xe8\x48\x89\xff\xd3", False),  # ends like call *%rbx, but looks like a call to far outside
        (b"\xe8" + distance(END), None),  # this module cannot make the call
        (b"\x48\x89\xc7", None),  # mov %rax, %rdi
        (b"", None),
    ],
)
def test_a_call_by_a_distance_is_told_from_one_by_an_address(code: bytes, is_direct: bool | None) -> None:
    assert calls(Code(code, 16)).is_direct(PC) is is_direct


@pytest.mark.parametrize(
    ("code", "by_pointer"),
    [
        (b"\xe8" + distance(START + 0x10), False),
        (b"\xff\xd3", True),
        (b"\x41\xff\xd4", True),
        (b"\xe8\x48\x89\xff\xd3", True),
        (b"\x48\x89\xc7", None),
        (b"", None),
    ],
)
def test_one_question_tells_calls_by_pointers_from_those_of_what_the_code_names(
    code: bytes, by_pointer: bool | None
) -> None:
    assert calls(Code(code, 16)).calls_by_pointer(PC) is by_pointer


def test_code_that_is_lost_says_nothing() -> None:
    assert calls(Code(b"\xff\xd3", 2)).is_direct(PC) is None
    assert calls(Code(b"", 0)).calls_by_pointer(PC) is None
