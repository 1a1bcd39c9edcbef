"""Regular expressions for calls, jumps and loads of addresses in the code of x86-64 and i386.

The code is searched, not decoded: a match may be in the middle of another instruction. Callers check that a function
begins at the address, or that the instruction is plausible.
"""

from __future__ import annotations

from ompd.isa.architecture import CallPatterns
from ompd.isa.x86.registers import ENCODED_REGISTERS

# E8 with a distance, FF /2 with each form of operand (ModRM, SIB, displacement); the same in 32-bit and 64-bit code
CALL = (
    rb"(?s:\xe8(?P<distance>....)"
    rb"|\xff(?:[\x10-\x13\x16\x17\xd0-\xd7]"
    rb"|\x14(?:[^\x05\x0d\x15\x1d\x25\x2d\x35\x3d\x45\x4d\x55\x5d\x65\x6d\x75\x7d"
    rb"\x85\x8d\x95\x9d\xa5\xad\xb5\xbd\xc5\xcd\xd5\xdd\xe5\xed\xf5\xfd]|.....)"
    rb"|\x15....|[\x50-\x53\x55-\x57].|\x54..|[\x90-\x93\x95-\x97]....|\x94.....))\Z"
)

CALLS_64 = CallPatterns(
    # lea distance(%rip), any register; mov $address, %edi
    address=rb"(?s:[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?P<distance>....)|\xbf(?P<absolute>....))",
    call=rb"(?s:(?:\xe8|(?P<through>\xff\x15))(?P<distance>....))",
    linkage=rb"(?s:(?:\xf3\x0f\x1e\xfa)?[\x3e\xf2]?\xff\x25(?P<distance>....))",
    # jmp distance, conditional or not; jmp *distance(%rip)
    jump=rb"(?s:(?=(?:\xe9|\x0f[\x80-\x8f]|(?P<through>\xff\x25))(?P<distance>....)|[\xeb\x70-\x7f](?P<near>.)))",
    # call *register; call *(register), *distance(register), *distance(register, register)
    by_pointer=rb"(?s:(?:(?P<extended>[\x41\x43\x45\x47])|[\x40\x42\x44\x46])?\xff(?:(?P<register>[\xd0-\xd7])"
    rb"|[\x10-\x13\x16\x17]|\x14.|[\x50-\x53\x55-\x57].|\x54..|[\x90-\x93\x95-\x97]....|\x94.....))",
    numbers=ENCODED_REGISTERS,
    call_sizes=(6, 5),
    pointer_call_sizes=(2, 3, 4, 5, 6, 7, 8),
    # jmp *distance(%rip); push $number, jmp distance; push distance(%rip), jmp *distance(%rip)
    stub=rb"(?s:(?:\xf3\x0f\x1e\xfa)?(?:[\x3e\xf2]?\xff\x25.{4}|\x68.{4}[\x3e\xf2]?\xe9.{4}"
    rb"|\xff\x35.{4}[\x3e\xf2]?\xff\x25.{4}).*)",
    stub_size=16,
    unbound=rb"(?:\xf3\x0f\x1e\xfa)?\x68(?s:(....))",  # push $number
    unbound_size=9,
)

CALLS_32 = CallPatterns(
    # lea distance(register), any register; push $address, mov $address to a register, to (%esp), to distance(%esp).
    # Other code often contains these bytes, too, so callers examine the code that follows.
    address=rb"(?s:\x8d[\x80-\x83\x85-\x8b\x8d-\x93\x95-\x9b\x9d-\xa3\xa5-\xab\xad-\xb3\xb5-\xbb\xbd-\xbf]"
    rb"(?=(?P<from_table>....))|(?:[\x68\xb8-\xbf]|\xc7\x04\x24|\xc7\x44\x24.)(?=(?P<absolute>....)))",
    call=rb"(?s:\xe8(?P<distance>....)"
    rb"|(?P<through>\xff(?:\x15(?P<absolute>....)|[\x90-\x93\x95-\x97](?P<from_table>....))))",
    linkage=rb"(?s:(?:\xf3\x0f\x1e\xfb)?\xff(?:\x25(?P<absolute>....)|\xa3(?P<from_table>....)))",
    # jmp distance, conditional or not; jmp *address, *distance(register)
    jump=rb"(?s:(?=(?:\xe9|\x0f[\x80-\x8f])(?P<distance>....)|[\xeb\x70-\x7f](?P<near>.)"
    rb"|(?P<through>\xff(?:\x25(?P<absolute>....)|[\xa0-\xa3\xa5-\xa7](?P<from_table>....)))))",
    # as on x86-64, without its additional registers
    by_pointer=rb"(?s:(?P<extended>)\xff(?:(?P<register>[\xd0-\xd7])"
    rb"|[\x10-\x13\x16\x17]|\x14.|[\x50-\x53\x55-\x57].|\x54..|[\x90-\x93\x95-\x97]....|\x94.....))",
    numbers=tuple(range(8)),
    call_sizes=(6, 5),
    pointer_call_sizes=(2, 3, 4, 5, 6, 7, 8),
    # jmp *address, *distance(%ebx); push $number, jmp distance; push address, jmp *address, or both by %ebx
    stub=rb"(?s:(?:\xf3\x0f\x1e\xfb)?(?:\xff[\x25\xa3].{4}|\x68.{4}\xe9.{4}|\xff[\x35\xb3].{4}\xff[\x25\xa3].{4}).*)",
    stub_size=16,
)

FAR_JUMPS = rb"(?s:(?=(?:[\xe8\xe9]|\x0f[\x80-\x8f]|(?P<through>\xff[\x15\x25]))(?P<distance>....)))"
"""Matches, with an empty match, before a call or a jump with a distance of four bytes."""

LOADS = rb"(?s:(?=[\x48\x4c]\x8b[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?P<distance>....)))"
"""Matches, with an empty match, before a load of a word at a distance."""
