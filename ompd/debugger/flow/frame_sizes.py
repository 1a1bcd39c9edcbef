"""The size of a function's frame where it stands, computed from its instructions."""

from __future__ import annotations

from ompd.debugger.flow.instructions import Instruction, Processor


def frame_size(processor: Processor, code: bytes, start: int, pc: int, below_cfa: int) -> int | None:
    """Return the distance from the stack pointer to the CFA at *pc*, in bytes; None if it may vary.

    All instructions of the function are read. The distance varies if one of them moves the stack pointer by an unknown
    amount, as for ``alloca()`` and arrays of variable length, or if a place is reached with two distances.

    :param code: the function's code, all of it, which begins at *start*
    :param below_cfa: how far its frame pointer is below its CFA, once it has one
    """
    size: int | None = processor.entry_distance
    body: int | None = None  # behind the prologue, which ends with the first jump or call
    sizes: dict[int, int] = {}  # by the target of a jump
    address, end, result = start, start + len(code), None
    while address < end:
        if address in sizes and size not in (None, sizes[address]):
            return None
        # Code behind a jump that no known jump leads to has the frame of most of the function.
        size = sizes.setdefault(address, size if size is not None else body or processor.entry_distance)
        if address == pc:
            result = size
        instruction = processor.decode(code, address - start, address)
        if instruction is None:
            return None
        after = _size_after(processor, instruction, size, below_cfa)
        if after is None:
            return None
        size = after
        if instruction.flow != "next" and body is None:
            body = size
        target = instruction.target if instruction.flow in ("jump", "branch") else None
        if target is not None and start <= target < end and sizes.setdefault(target, size) != size:
            return None
        if instruction.flow in ("jump", "return", "stop", "computed"):
            size = None
        address = instruction.end
    return result


def _size_after(processor: Processor, instruction: Instruction, size: int, below_cfa: int) -> int | None:
    # The distance behind an instruction, None if that is unknown.
    sp, fp, does = processor.stack_pointer, processor.frame_pointer, instruction.does
    word = processor.entry_distance
    if sp in instruction.clobbers:
        return None
    if does == "push":
        return size + word
    if does == "pop":
        return size - word if instruction.to != sp else None
    if does == "leave":
        return below_cfa - word
    if instruction.to != sp:
        return size
    if does == "add":
        return size - instruction.value
    if does == "copy" and instruction.source == fp:
        return below_cfa
    operand = instruction.operand
    if does == "address" and operand is not None and operand.base in (sp, fp) and not operand.is_indexed:
        return (below_cfa if operand.base == fp else size) - operand.displacement
    return None
