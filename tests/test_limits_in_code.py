"""The code that reads files: whatever it makes by a number of a file was checked before."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "ompd"
READERS = [
    PACKAGE / "safety" / "reading.py",
    *(path for folder in ("binary", "debugger") for path in sorted((PACKAGE / folder).rglob("*.py"))),
]
# What is made by a number that is none of the file's, or was checked before it is used; each with why that holds.
_OWN = "a number of ours"
_HELD = "of bytes that were read"
_COUNTED = "each reads the target, and a question's reads are counted"
_CHECKED = "checked against the bytes that could hold it, just before"
REASONS = {
    "debugger/emulation/decode_state.py": {"[0] * registers": _OWN, "range(size)": _OWN},
    "debugger/emulation/emulate.py": {"bytes(stack)": "a copy of what was read"},
    "debugger/environment.py": {"range(piece - size, -1, -size)": _HELD},
    "debugger/files/finder.py": {"bytes(file)": "of at most _MAX_COPIED bytes"},
    "binary/core/writer.py": {"bytes(data_at - notes_at - len(raw))": "less than a page", "bytes(out)": _HELD},
    "binary/dwarf/search.py": {"bytes(raw)": _HELD, "range(start, end, _PIECE)": _HELD},
    "binary/dwarf/source/table.py": {
        "range(count)": _CHECKED,
        "range(index, -1, -1)": _HELD,
        "range(cursor.byte())": "at most 255",
        "range(self._lengths[opcode - 1])": "at most 255",
    },
    "binary/dwarf/sections.py": {"bytes(joined)": _HELD, "range(1, self._rows + 1)": _CHECKED},
    "binary/types/values/formatter.py": {"[value] * shown": "at most as many as are shown"},
    "binary/types/values/strings.py": {"range(limit)": "at most _MAX_STRING"},
    "binary/elf/dynamic.py": {
        "range(number, number + _MAX_CHAIN)": _OWN,
        "range(min(count, left))": "at most _MAX_VERSIONS",
    },
    "binary/elf/notes.py": {"bytes(descriptor)": "of memory, at most 64 KB"},
    "binary/core/extract.py": {
        "bytearray(16 + header.size + len(elf.segments) * program.size)": _HELD,
        "bytes(out)": _HELD,
    },
    "binary/core/notes.py": {"range(0, len(data) - size + 1, size)": _HELD},
    "binary/types/values/scalars.py": {
        "range(0, len(raw) - width + 1, width)": _HELD,
        "'0' * (-power - 1)": "as an exponent of a float has digits",
    },
    "binary/elf/symbols.py": {
        "range(position - 1, max(position - 1 - _MAX_NESTED, -1), -1)": "at most _MAX_NESTED",
        "range(count - 1, -1, -1)": _HELD,
        "range(count)": _HELD,
    },
    "debugger/threads/glibc.py": {
        "range(specific.bits * max(specific.elements, 1) // 8 // self._memory.pointer_size)": _COUNTED,
    },
    "debugger/flow/follow.py": {"range(processor.first_vector)": _OWN},
    "debugger/memory.py": {
        "range(address // PAGE, (address + size - 1) // PAGE + 1)": "noted after it was read",
        "bytes(count)": "less than a page",
    },
    "debugger/modules/loader.py": {"range(0, 4 * size, size)": _OWN},
    "debugger/variables/locals.py": {
        "[FunctionLocals((), str(error))] * count": "of functions that were found",
        "[missing] * (count - len(found))": "of functions that were found",
    },
    "debugger/modules/lost.py": {"range(segment.p_vaddr // _PAGE * _PAGE, end, _PAGE)": "at most _MAX_CHECKED"},
    "debugger/modules/proof.py": {
        "range(0, len(raw) - 2 * size + 1, 2 * size)": _HELD,
        "range(0, end, _MANY_PAGES)": "what limits.pages() leaves of it",
        "range(start, end, _PAGE)": "at most _MANY_PAGES",
    },
    "debugger/modules/modules.py": {
        "bytes(data)": _HELD,
        "bytes(size - len(data))": "less than a page",
    },
    "debugger/snapshot/snapshot.py": {
        "range(start // PAGE * PAGE, start + size, PAGE)": _COUNTED,
        "bytearray(arch.prstatus_size)": _OWN,
        "bytes(out)": _HELD,
        "range(count)": _HELD,
        "bytes(high - low)": _HELD,
        "bytes(arch.pointer_size)": _OWN,
    },
    "debugger/system_waits/calls.py": {
        "range(-(-count // (8 * size)) if address else 0)": "at most _MAX_SELECTED",
        "range(count)": "at most _MAX_SELECTED",
    },
    "debugger/system_waits/facts.py": {"range(mask.bit_length())": "of a word"},
    "debugger/system_waits/python.py": {"range(count)": _OWN},
    "debugger/targets/live/processors.py": {"range(low, high + 1)": "below _MAX_CPU"},
    "debugger/targets/core.py": {"'s' * (threads != 1)": "once, or not at all"},
    "debugger/targets/live/copying.py": {
        "range(start, start + size, ptrace.MAX_PIECE)": _COUNTED,
        "range(0, size - PAGE + 1, PAGE)": _HELD,
        "range(address >> PAGE_BITS, (address + size - 1 >> PAGE_BITS) + 1)": _COUNTED,
    },
    "debugger/targets/live/moment.py": {
        "range(first, last + 1)": _COUNTED,
        "range(max(low, mapping.start >> PAGE_BITS), low + block)": "one block of pages",
        "range(mapping.start >> PAGE_BITS, (mapping.end >> PAGE_BITS) + _GROWS)": "counted before (_MAX_EXPANDED)",
    },
    "debugger/targets/lldb/target.py": {
        "range(regions.GetSize())": "the debugger's own list",
        "range(count)": "the debugger's own list",
        "bytes(data)": _HELD,
    },
    "debugger/targets/lldb/run.py": {"range(0, thread.GetStopReasonDataCount(), 2)": "the debugger's own list"},
    "debugger/stacks/steps.py": {"range(words)": "at most _MAX_SPAN_WORDS"},
    "debugger/variables/names.py": {"(Dereference(),) * rest[:stars].count('*')": "of a name that the user typed"},
    "safety/reading.py": {"range(self._size)": "one index of it", "range(_MAX_EXTENTS if start < end else 0)": _OWN},
}


def is_bounded(node: ast.AST) -> bool:
    """Tell whether a size is seen to be small where it stands: by a constant, a length, a smallest, or a limit."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lstrip("_").isupper()
        case ast.UnaryOp(operand=operand):
            return is_bounded(operand)
        case ast.BinOp(left=left, op=ast.Mod() | ast.BitAnd(), right=right):
            return is_bounded(left) or is_bounded(right)
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.RShift()):
            return is_bounded(left)
        case ast.BinOp(left=left, right=right):
            return is_bounded(left) and is_bounded(right)
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Call(func=ast.Name(id="min"), args=given):
            return any(map(is_bounded, given))
        case ast.Call(func=ast.Name(id="max"), args=given):
            return all(map(is_bounded, given))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="limits"))):
            return True
    return False


def sizes(node: ast.AST) -> list[ast.expr]:
    """Return by which numbers a node makes a buffer, a list or a walk, none if it makes none."""
    match node:
        case ast.Call(func=ast.Name(id="bytes" | "bytearray"), args=[given]):
            return [given] if isinstance(given, (ast.BinOp, ast.Name, ast.UnaryOp, ast.Attribute)) else []
        case ast.Call(func=ast.Name(id="range"), args=given):
            return given[:2]
        case ast.BinOp(left=ast.List() | ast.Tuple() | ast.Constant(value=str() | bytes()), op=ast.Mult(), right=count):
            return [count]
        case ast.BinOp(left=count, op=ast.Mult(), right=ast.List() | ast.Tuple() | ast.Constant(value=str() | bytes())):
            return [count]
    return []


def test_nothing_is_made_by_a_number_of_a_file_that_was_not_checked() -> None:
    found: dict[str, set[str]] = {}
    for path in READERS:
        for node in ast.walk(ast.parse(path.read_text())):
            if not all(map(is_bounded, sizes(node))):
                found.setdefault(str(path.relative_to(PACKAGE)), set()).add(ast.unparse(node))
    new = {name: made - REASONS.get(name, {}).keys() for name, made in found.items()}
    assert not {name: made for name, made in new.items() if made}, (
        "pass ompd/safety/limits.py, or say why it is bounded"
    )
    gone = {name: reasons.keys() - found.get(name, set()) for name, reasons in REASONS.items()}
    assert not {name: made for name, made in gone.items() if made}


def test_a_file_is_copied_through_one_door() -> None:
    # What lies in a file, from here to there: ElfFile.copy asks about sizes and holes.
    found = {}
    for path in sorted((PACKAGE / "binary").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Subscript(
                    value=ast.Attribute(value=ast.Name("elf") | ast.Attribute(attr="_elf"), attr="data")
                ):
                    found[f"{path.name}:{node.lineno}"] = ast.unparse(node)
    assert set(found.values()) == {"elf.data[:16]"}, found


def test_what_is_decompressed_has_a_limit() -> None:
    names = ("decompress", "inflate", "inflate_zstd")
    found = {}
    for path in READERS:
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=given) if name in names:
                    found[f"{path.name}:{node.lineno}"] = len(given)
    assert set(found.values()) == {2}, found
