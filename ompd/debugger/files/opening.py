"""Opens the core that the user names: compressed ones and systemd's are unpacked first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ompd.debugger.files.progress import Progress
from ompd.errors import BadFile
from ompd.safety.reading import open_paged, read_head

if TYPE_CHECKING:
    from ompd.debugger.files.compressed import Unpacked

# The largest core that systemd-coredump stores by default (ProcessSizeMax=), so none of its cores is refused.
MAX_SIZE = 32 << 30

_HEAD = 6  # bytes that identify a format
_ELF_MAGIC = b"\x7fELF"
_COREDUMPCTL = "coredumpctl:"


def unpack_core(name: str, max_size: int = MAX_SIZE, progress: Progress | None = None) -> Unpacked | None:
    """Unpack the core called *name* if that is necessary. Return None if it is not compressed, or cannot be opened.

    ``coredumpctl:MATCH`` is the core that ``coredumpctl`` selects by MATCH, ``coredumpctl:`` the newest.

    :param max_size: the largest size of the unpacked core in bytes
    :raises BadFile: if it cannot be unpacked, or exceeds *max_size*
    """
    if name.startswith(_COREDUMPCTL) and not os.path.exists(name):  # noqa: PTH110  most calls end here
        return _kept_by_systemd(name, max_size, progress)
    try:
        head = read_head(name, _HEAD)
    except BadFile:
        return None  # opening the file raises the same error
    if head.startswith(_ELF_MAGIC):
        return None
    import ompd.debugger.files.compressed as compressed

    return compressed.unpack(name, name, max_size, progress) if compressed.is_compressed(head) else None


def _kept_by_systemd(name: str, max_size: int, progress: Progress | None) -> Unpacked:
    import ompd.debugger.files.compressed as compressed
    import ompd.debugger.files.coredumps as coredumps

    coredump = coredumps.Coredump(name.removeprefix(_COREDUMPCTL), name)
    path = coredump.stored_file()
    if path is None:
        return coredump.dump(max_size, progress)
    if not os.access(path, os.R_OK):
        raise BadFile(name, f"no permission to read {path}", hint="become its owner or root")
    head = read_head(path, _HEAD)
    if compressed.is_compressed(head):
        unpacked = compressed.unpack(path, name, max_size, progress)
        return unpacked._replace(fault=unpacked.fault or coredump.fault)
    return compressed.Unpacked(open_paged(path), coredump.fault, None)
