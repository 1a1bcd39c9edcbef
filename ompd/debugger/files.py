"""Files of this machine: mapping them, and finding those that the target names."""

from __future__ import annotations

import errno
import mmap
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ompd.debugger.formats.elf import ElfFile
from ompd.errors import BadFile, MalformedFile

SYSTEM_DEBUG_DIR = "/usr/lib/debug"


def open_mapped(path: str) -> mmap.mmap:
    """Map the regular file at *path* for reading, without read-ahead.

    :raises BadFile: if there is none, it is empty, or may not be read
    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to must not hang
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise BadFile(path, "no such file") from error
    except PermissionError as error:
        raise BadFile(
            path, "no permission to read it", hint="become its owner or root, or have it made readable"
        ) from error
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise BadFile(path, f"cannot be opened: {reason}") from error
    try:
        if Path(path).is_dir():
            raise BadFile(path, "is a directory, not a file")
        if not Path(path).is_file():
            raise BadFile(path, "is not a regular file")
        if os.fstat(descriptor).st_size == 0:
            raise BadFile(path, "is empty")
        mapped = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:
        what = errno.errorcode.get(error.errno or 0, "") if isinstance(error, OSError) else ""
        raise BadFile(path, f"cannot be mapped: {error or what}") from error
    finally:
        os.close(descriptor)
    # Read-ahead on a sparse core of some gigabytes costs seconds when nothing of it is in memory yet.
    if hasattr(mmap, "MADV_RANDOM"):
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped


class FileFinder:
    """Where the files that a target names lie on this machine.

    :param sysroot: folder that stands for the target machine's ``/``, or None for this machine's own
    :param debug_dirs: folders searched for separate debug files, before ``/usr/lib/debug``
    """

    def __init__(self, sysroot: str | None = None, debug_dirs: Sequence[str] = ()) -> None:
        self.sysroot = sysroot
        self._debug_dirs = (*debug_dirs, self.resolve(SYSTEM_DEBUG_DIR))

    def resolve(self, name: str) -> str:
        """Return where the target's file *name* is looked for here."""
        return os.path.join(self.sysroot, name.lstrip("/")) if self.sysroot is not None else name  # noqa: PTH118

    def _debug_candidates(self, path: str, name: str, build_id: bytes | None) -> Iterator[Path]:
        # The order is that of GDB's manual, "Debugging Information in Separate Files".
        if build_id is not None and len(build_id) > 1:
            digits = build_id.hex()
            for folder in self._debug_dirs:
                yield Path(folder, ".build-id", digits[:2], digits[2:] + ".debug")
        if name:
            here = Path(path).parent
            yield here / name
            yield here / ".debug" / name
            for folder in self._debug_dirs:
                yield Path(folder, str(here).lstrip("/"), name)

    def debug_file(self, elf: ElfFile, path: str) -> ElfFile | None:
        """Return the separate debug file of *elf* (at *path*), None if there is none that is proven to be its own.

        By build-id, then by ``.gnu_debuglink``, whose CRC has to agree.
        """
        try:
            build_id, link = elf.build_id(), elf.debuglink()
        except MalformedFile:
            return None
        name, crc = link or ("", 0)
        for candidate in self._debug_candidates(path, name, build_id):
            if not candidate.is_file() or (os.path.exists(path) and os.path.samefile(candidate, path)):  # noqa: PTH110, PTH121
                continue
            try:
                data = open_mapped(str(candidate))
                found = ElfFile(data, str(candidate))
                proven = found.build_id() == build_id if build_id is not None else False
            except (BadFile, MalformedFile):
                continue
            if proven or (link is not None and zlib.crc32(data) == crc):
                return found
        return None
