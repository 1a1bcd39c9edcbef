"""The files of a live process, in its own root folder. The kernel's links lead to deleted files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ompd.binary.core.notes import AT_PHDR, FileMapping
from ompd.binary.core.procfs import DELETED
from ompd.debugger.files.finder import FileFinder, FileOptions, path_inside
from ompd.errors import BadFile


class LiveFiles(FileFinder):
    """Finds the files of a live process.

    A process in a container has its own root folder, ``/proc/PID/root``. A file that was deleted or replaced after it
    was mapped is available through ``/proc/PID/map_files``, for root only, and the program through ``/proc/PID/exe``.
    Like any file, these are verified before use.

    :param mappings: the process's present mappings of files
    """

    def __init__(
        self,
        process_id: int,
        mappings: Sequence[FileMapping],
        auxiliary_vector: Mapping[int, int],
        options: FileOptions | None = None,
    ) -> None:
        self._proc = Path(f"/proc/{process_id}")
        root = self._proc / "root"
        self._root = "" if _is_ours(root) else str(root)
        self._first = {mapping.name: mapping for mapping in reversed(mappings)}
        headers = auxiliary_vector.get(AT_PHDR, 0)
        self._program = next((m.name for m in mappings if m.start <= headers < m.end), None)
        super().__init__(options)

    def resolve(self, name: str) -> str:
        """Return the path here of the file that the process calls *name*."""
        if self.sysroot is not None:
            return super().resolve(name.removesuffix(DELETED))
        candidates = list(self._candidates(name))
        return next((path for path in candidates if os.access(path, os.R_OK)), candidates[0])

    def _candidates(self, name: str) -> Iterator[str]:
        mapping = self._first.get(name)
        plain = self._inside(name.removesuffix(DELETED))
        if mapping is None or not name.endswith(DELETED):
            yield plain
        if mapping is not None:
            if name == self._program:
                yield str(self._proc / "exe")
            yield str(self._proc / "map_files" / f"{mapping.start:x}-{mapping.end:x}")
            yield plain  # the file that replaced the mapped one may have the same contents

    def _inside(self, name: str) -> str:
        # Follow links inside the process's own root folder.
        try:
            return path_inside(self._root, name) if self._root else name
        except BadFile:
            return self._root + name  # opening it raises the same error


def _is_ours(root: Path) -> bool:
    try:
        return root.samefile("/") and (root.parent / "ns" / "mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return True
