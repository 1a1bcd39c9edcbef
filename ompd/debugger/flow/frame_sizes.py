"""The size of a function's frame while it calls other functions, computed from its instructions."""

from __future__ import annotations

from ompd.isa.instructions import Instruction, Processor


def frame_size(processor: Processor, code: bytes, start: int, pc: int, below_cfa: int) -> int | None:
    """Return the distance from the stack pointer to the CFA at *pc*, in bytes; None if the code does not prove it.

    All instructions of the function are read. The distance is proven if it is the same at all calls, jumps and
    branches, and if all returns have the distance of the entry. Then the way to *pc* does not matter, even through a
    jump table or an exception handler. Nothing is proven for functions that pass arguments on the stack, or call
    ``alloca()``.

    :param code: the whole code of the function, which begins at *start*
    :param below_cfa: the distance in bytes from the frame pointer, after its setup, to the CFA
    """
    size: int | None = processor.entry_distance
    body: int | None = None  # the distance after the prologue, which ends with the first call, jump or branch
    sizes: dict[int, int] = {}  # the distance at each instruction read so far, and at each target of a jump
    address, end, result = start, start + len(code), None
    while address < end:
        if size is not None and sizes.get(address, size) != size:
            return None
        # Code behind a jump may be reached only through a jump table or a handler. All jumps have the distance *body*.
        size = sizes.setdefault(address, size if size is not None else body or processor.entry_distance)
        if address == pc:
            result = size
        instruction = processor.decode(code, address - start, address)
        after = _size_after(processor, instruction, size, below_cfa) if instruction is not None else None
        if instruction is None or after is None:
            return None
        size = after
        target = instruction.target
        is_inside = target is not None and start <= target < end
        if _leaves(instruction, is_inside) and size == processor.entry_distance:
            size = None
        elif instruction.flow != "next":
            if body is None:
                body = size
            if size != body:
                return None
            if is_inside and target is not None and instruction.flow in ("jump", "branch"):
                sizes.setdefault(target, size)
                if sizes[target] != size:
                    return None
            size = size if instruction.flow in ("call", "branch") else None
        address = instruction.end
    return result


def _leaves(instruction: Instruction, is_inside: bool) -> bool:
    # Whether this instruction leaves the function: a return, or a jump to another function.
    return instruction.flow == "return" or (instruction.flow in ("jump", "computed") and not is_inside)


def _size_after(processor: Processor, instruction: Instruction, size: int, below_cfa: int) -> int | None:
    # The distance to the CFA after an instruction that is reached with the distance *size*, None if unknown.
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
