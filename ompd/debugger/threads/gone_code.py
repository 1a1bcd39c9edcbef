"""Finds threads that sleep in unloaded code, and the library to which the code belonged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from ompd.binary.core.procfs import parse_maps
from ompd.binary.elf.elf import PF_X, PT_LOAD, ElfFile
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.debugger.process import StoppedProcess

_MAX_THREADS, _MAX_STACK, _MAX_FILE = 64, 1 << 14, 1 << 26
# Files of OpenMP runtimes, which are looked for in each folder that has a module of the process.
_RUNTIMES = ("libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so")


class GoneCode(NamedTuple):
    """The threads that sleep in a system call from unloaded code.

    ``threads`` has their program counters, by thread. ``runtime`` is the file of the OpenMP runtime to which the code
    belonged, None if that is unknown.
    """

    threads: dict[int, int]
    runtime: str | None


def gone_code(process: StoppedProcess) -> GoneCode | None:
    """Return the threads that sleep in unloaded code, None if there are none."""
    pcs = _asleep_without_code(process)
    return GoneCode(pcs, _former_module(process, pcs)) if pcs else None


def _asleep_without_code(process: StoppedProcess) -> dict[int, int]:
    # The program counters of threads that sleep in unloaded code, by thread. For a damaged core the result is empty: it
    # may have lost mappings of code that was still loaded.
    target = process.target
    calls, arguments = target.architecture.system_calls, target.architecture.kernel_arguments
    if target.kind not in ("live", "core") or target.loss is not None or calls is None or arguments is None:
        return {}
    pcs: dict[int, int] = {}
    for thread in process.threads.ids():
        registers = process.threads.registers(thread)
        pc, number = registers.get(target.architecture.pc, 0), registers.get(arguments.number)
        is_in_call = number is not None and number < 1 << 31  # outside of system calls the number is -1
        call = pc - len(calls.instruction)
        if is_in_call and pc and process.regions.end_of(call) is None and not process.regions.is_code(call):
            pcs[thread] = pc
    return pcs if pcs and not _is_mapped(process, pcs) else {}


def _is_mapped(process: StoppedProcess, pcs: dict[int, int]) -> bool:
    # Return whether the code of any of the threads is still mapped, but unreadable. True if the mappings are unknown.
    if process.target.kind != "live":
        return False
    try:
        mappings = parse_maps(process.target.proc_text("maps"))
    except OmpdError:
        return True
    return any(m.start < pc <= m.end for m in mappings for pc in pcs.values())


def _former_module(process: StoppedProcess, pcs: dict[int, int]) -> str | None:
    # The first runtime's file that fits the program counters and the stacks, None without one.
    words = [word for thread in sorted(pcs)[:_MAX_THREADS] for word in _stack_words(process, thread)]
    fitting = [name for name in _candidates(process) if _fits(process, name, set(pcs.values()), words)]
    return fitting[0] if fitting else None


def _candidates(process: StoppedProcess) -> Iterator[str]:
    folders = {str(PurePosixPath(module.name).parent) for module in process.symbols.modules()}
    for folder in sorted(folder for folder in folders if folder.startswith("/")):
        for name in _RUNTIMES:
            yield f"{folder}/{name}"


def _stack_words(process: StoppedProcess, thread: int) -> Sequence[int]:
    architecture = process.target.architecture
    sp, size = process.threads.registers(thread).get(architecture.sp), architecture.pointer_size
    end = process.regions.end_of(sp) if sp is not None else None
    if sp is None or end is None:
        return ()
    with suppress(OmpdError):
        raw = process.memory.read(sp, min(end - sp, _MAX_STACK) // size * size)
        return [
            int.from_bytes(raw[offset : offset + size], architecture.byte_order) for offset in range(0, len(raw), size)
        ]
    return ()


def _fits(process: StoppedProcess, name: str, pcs: set[int], words: Sequence[int]) -> bool:
    # Return whether the file *name* fits at some load address: each program counter is behind one of the file's system
    # calls, and some word on the stacks is a return address in the file.
    architecture = process.target.architecture
    try:
        path = Path(process.finder.resolve(name))
        elf = ElfFile(path.read_bytes() if path.stat().st_size <= _MAX_FILE else b"", name)
        code = [(s.p_vaddr, elf.segment_data(s)) for s in elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_X]
    except (OSError, OmpdError):
        return False
    instruction = architecture.system_calls.instruction if architecture.system_calls is not None else b"(none)"
    calls = ((start, re.finditer(re.escape(instruction), data)) for start, data in code)
    ends_of_calls = {start + match.end() for start, matches in calls for match in matches}
    any_pc, page = next(iter(pcs)), process.memory.page_size
    for end in ends_of_calls:
        bias = any_pc - end
        if bias % page or not {pc - bias for pc in pcs} <= ends_of_calls:
            continue
        for start, data in code:
            offsets = (word - bias - start for word in words if 0 < word - bias - start < len(data))
            before = (data[max(offset - architecture.max_call_size, 0) : offset] for offset in offsets)
            if any(architecture.call_pattern.search(instructions) for instructions in before):
                return True
    return False
