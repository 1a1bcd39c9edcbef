"""The files that a live process has mapped: those of its own root folder, and deleted ones by the kernel's links."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ompd.binary.core.notes import AT_PHDR, FileMapping
from ompd.binary.core.procfs import DELETED
from ompd.debugger.files.finder import FileFinder, FileOptions, path_inside
from ompd.errors import BadFile


class LiveFiles(FileFinder):
    """Where the files of a live process lie, as seen from here.

    A process in a container has a root folder of its own, which ``/proc/PID/root`` is. A file that was deleted or
    replaced since it was mapped is still there behind ``/proc/PID/map_files``, which only root may follow, and the
    program behind ``/proc/PID/exe``. As any file these have to prove that they are the ones.

    :param mappings: of files, as the process has them now
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
        at = auxiliary_vector.get(AT_PHDR, 0)
        self._program = next((m.name for m in mappings if m.start <= at < m.end), None)
        super().__init__(options)

    def resolve(self, name: str) -> str:
        """Return where the file that the process calls *name* is found here."""
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
            yield plain  # what replaced it may be the same file again

    def _inside(self, name: str) -> str:
        # Links of the process's own root folder lead to where they would for it.
        try:
            return path_inside(self._root, name) if self._root else name
        except BadFile:
            return self._root + name  # which says so when it is opened


def _is_ours(root: Path) -> bool:
    try:
        return root.samefile("/") and (root.parent / "ns" / "mnt").readlink() == Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return True
