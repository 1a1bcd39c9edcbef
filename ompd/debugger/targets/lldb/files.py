"""The files of a process in LLDB, where LLDB has found them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ompd.debugger.files.finder import FileFinder


class LldbFiles(FileFinder):
    """Finds files of a target in LLDB: those that LLDB has found, and others as for any target. All are verified."""

    program_option = "target create FILE --core CORE"

    def __init__(self, process: Any) -> None:
        self._local: dict[str, str] = {}
        self._symbols: dict[str, str] = {}
        super().__init__()
        for module in process.GetTarget().module_iter():
            name, path = target_name(module), path_of(module.GetFileSpec())
            self._local[name] = path
            symbols = path_of(module.GetSymbolFileSpec())
            if symbols not in ("", path):
                self._symbols[path] = symbols

    def resolve(self, name: str) -> str:
        """Return the path of the target's file *name* on this machine."""
        return self._local.get(name) or super().resolve(name)

    def _debug_candidates(self, path: str, target_name: str, name: str, build_id: bytes | None) -> Iterator[str]:
        if path in self._symbols:
            yield self._symbols[path]
        yield from super()._debug_candidates(path, target_name, name, build_id)


def path_of(spec: Any) -> str:
    """Return the path of an ``SBFileSpec``, ``""`` if it is invalid."""
    return str(spec.fullpath or "") if spec.IsValid() else ""


def target_name(module: Any) -> str:
    """Return the target's name of the file of an ``SBModule``. If LLDB read the file under this name, links in it are
    resolved, as in the kernel's names.
    """
    name, local = path_of(module.GetPlatformFileSpec()), path_of(module.GetFileSpec())
    return os.path.realpath(name) if name and name == local and os.path.exists(name) else name or local  # noqa: PTH110
