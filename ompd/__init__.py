"""Ask a stopped OpenMP program what it is doing.

The front door of the library. Importing it loads nothing else: neither LLDB nor any optional package is needed.

>>> import ompd
>>> with ompd.open_core("core.1234") as session:            # doctest: +SKIP
...     for thread in session.ask_threads().rows:
...         print(thread.thread_num, thread.state)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from ompd.inspection import Inspection

__all__ = ["__version__", "open_core"]

__version__ = "0.1.0"


def open_core(
    core: str | PathLike[str],
    *,
    exe: str | PathLike[str] | None = None,
    sysroot: str | PathLike[str] | None = None,
    debug_dirs: tuple[str | PathLike[str], ...] = (),
    debuginfod: bool = False,
    max_size: int = 32 << 30,
    progress: Callable[[str], None] | None = None,
) -> Inspection:
    """Return a session on the ELF core file *core*; close it, or use it in a ``with`` statement.

    One that is compressed (gzip, xz, zstd, lz4) is unpacked into a temporary file without a name.
    ``coredumpctl:MATCH`` is the core of systemd-coredump's that ``coredumpctl`` selects by MATCH, ``coredumpctl:`` the
    newest.

    :param exe: the program's executable, where the core names none or another file stands at that path now
    :param sysroot: folder under which the files of the machine that wrote the core are found
    :param debug_dirs: folders searched for separate debug files and ``.build-id`` folders, before ``/usr/lib/debug``
    :param debuginfod: fetch files that are not here from the servers that DEBUGINFOD_URLS names
    :param max_size: how many bytes a compressed core may have when it is unpacked
    :param progress: called with a line to show while something takes its time: unpacking, fetching
    :raises BadFile: if *core* is no readable core file, or a file it needs is another build
    :raises BadInput: if servers are to be asked and DEBUGINFOD_URLS names none
    """
    from ompd.inspection import Inspection  # noqa: PLC0415

    return Inspection.open_core(
        core,
        exe=exe,
        sysroot=sysroot,
        debug_dirs=debug_dirs,
        debuginfod=debuginfod,
        max_size=max_size,
        progress=progress,
    )
