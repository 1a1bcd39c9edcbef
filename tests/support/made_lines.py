"""Line tables."""

from __future__ import annotations


class Made:
    """A replacement for ElfFile that has only debug sections."""

    name = "made"
    byte_order = "little"
    disk_size = 1 << 20

    def __init__(self, **sections: bytes) -> None:
        self._sections = {f".debug_{name}": data for name, data in sections.items()}

    def section(self, name: str) -> str | None:
        return name if name in self._sections else None

    def section_span(self, name: str) -> tuple[bytes, int, int]:
        return self._sections[name], 0, len(self._sections[name])
