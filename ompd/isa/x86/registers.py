"""Registers of x86-64 and 32-bit x86: their numbers in unwind tables and in instructions."""

from __future__ import annotations

# System V psABI for AMD64, figure 3.36; 16 is the return address column
DWARF_64 = {
    name: number
    for number, name in enumerate(
        (
            *("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp"),
            *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"),
        )
    )
}
ENCODED_REGISTERS = tuple(
    DWARF_64[name]
    for name in (
        *("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"),
        *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"),
    )
)
"""The numbers in unwind tables, indexed by the numbers in x86-64 instructions."""

# System V psABI for Intel386, table 2.14; 8 is the column of the return address. Instructions have the same numbers.
DWARF_32 = {name: number for number, name in enumerate(("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip"))}
