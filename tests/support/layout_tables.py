"""Layout tables for tests: a user's folder of tables, and layouts that compilers write for the tests' sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ompd.runtimes.layout import table

SHIPPED = sorted(table.FOLDER.glob("*.json"))
BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


def user_table(folder: Path, name: str, changes: Mapping[str, Any] | None = None, of: str = "libgomp-12") -> Path:
    told = {**json.loads((table.FOLDER / f"{of}.json").read_text()), **(changes or {})}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(told))
    return path


class Sources:
    """Write C structures whose members have the offsets of a table, with padding for bytes that the table omits."""

    def __init__(self) -> None:
        self.count = 0

    def filling(self, size: int) -> str:
        self.count += 1
        return f"char f{self.count}_pad[{size}];" if size else ""

    def struct(self, tag: str, told: Mapping[str, Any]) -> str:
        return f"struct {tag} {self.body(told['size'], told['fields'], '')};\n"

    def body(self, size: int, fields: Mapping[str, Sequence[int]], prefix: str, base: int = 0) -> str:
        lines = [self.filling(size)]
        for path, (offset, length, *bits) in fields.items():
            name = path.removeprefix(prefix)
            if not path.startswith(prefix) or "." in name:
                continue
            at = self.filling(offset - base)
            if bits:
                unit = {4: "unsigned", 8: "unsigned long"}[length]
                gap = f"unsigned : {bits[0]};" if bits[0] else ""
                lines.append(f"struct __attribute__((packed)) {{ {at} {gap} {unit} {name} : {bits[1]}; }};")
                continue
            inside = any(other.startswith(f"{path}.") for other in fields)
            member = f"char {name}[{length}]"
            if inside:
                member = f"struct {self.body(length, fields, f'{path}.', offset)} {name}"
            lines.append(f"struct __attribute__((packed)) {{ {at} {member}; }};")
        return "{ union { " + "\n".join(filter(None, lines)) + " }; }"
