"""The code that reads files: bytes are copied and decompressed with limits."""

from __future__ import annotations

import ast

from tests.support.cache import CHECKOUT

PACKAGE = CHECKOUT / "ompd"
READERS = [
    PACKAGE / "safety" / "reading.py",
    *(path for folder in ("binary", "debugger") for path in sorted((PACKAGE / folder).rglob("*.py"))),
]


def test_a_file_is_copied_through_one_door() -> None:
    # Except for a file's first 16 bytes, only ElfFile.copy, which checks sizes and holes, makes slices of a file.
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
