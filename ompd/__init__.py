"""Ask an OpenMP program what it is doing: a core file, or a process that runs.

The front door of the library. Importing it loads nothing else: neither LLDB nor any optional package is needed.

>>> import ompd
>>> with ompd.open_core("core.1234") as session:            # doctest: +SKIP
...     for thread in session.ask_threads().rows:
...         print(thread.thread_num, thread.state)
"""

from __future__ import annotations

TYPE_CHECKING = False  # as that of `typing`, whose import takes longer than all that is here

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from ompd.inspection import Inspection
    from ompd.lldb.control import LldbInspection

__all__ = ["__version__", "attach", "from_lldb", "launch", "open_core"]

__version__ = "0.2.0"


def open_core(
    core: str | PathLike[str],
    *,
    exe: str | PathLike[str] | None = None,
    sysroot: str | PathLike[str] | None = None,
    debug_dirs: tuple[str | PathLike[str], ...] = (),
    debuginfod: bool = False,
    max_size: int = 32 << 30,
    progress: Callable[[str], None] | None = None,
    plugins: tuple[str | PathLike[str], ...] = (),
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
    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :raises BadFile: if *core* is no readable core file, or a file it needs is another build
    :raises BadInput: if servers are to be asked and DEBUGINFOD_URLS names none, or a folder has no plugin
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
        plugins=plugins,
    )


def attach(
    process_id: int,
    *,
    exe: str | PathLike[str] | None = None,
    sysroot: str | PathLike[str] | None = None,
    debug_dirs: tuple[str | PathLike[str], ...] = (),
    debuginfod: bool = False,
    nonblocking: bool = False,
    max_stop: float | None = None,
    plugins: tuple[str | PathLike[str], ...] = (),
) -> Inspection:
    """Return a session on the running process with that number; close it, or use it in a ``with`` statement.

    The process runs on. Each question stops it for some milliseconds and answers of that moment; several are of one
    moment if they are asked in a function that is given to :meth:`~ompd.session.session.Session.ask`.

    :param exe: the program's executable, where the one that runs cannot be read
    :param sysroot: folder under which its files are found, if that is not its own root folder
    :param debug_dirs: folders searched for separate debug files, before ``/usr/lib/debug``
    :param debuginfod: fetch files that are not here from the servers that DEBUGINFOD_URLS names
    :param nonblocking: never stop it: what is told of different threads may then be of different moments
    :param max_stop: how long each stop may last, in milliseconds; if None, 50, and 0.2 more for each thread above 256
    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :raises BadInput: if *max_stop* is not positive, or is more than an hour, or a folder has no plugin
    :raises BadProcess: if there is no such process, or it may not be read; asking raises it if the process does not
        stop in time
    """
    from ompd.inspection import Inspection  # noqa: PLC0415

    return Inspection.attach(
        process_id,
        exe=exe,
        sysroot=sysroot,
        debug_dirs=debug_dirs,
        debuginfod=debuginfod,
        nonblocking=nonblocking,
        max_stop=max_stop,
        plugins=plugins,
    )


def from_lldb(process: Any, *, plugins: tuple[str | PathLike[str], ...] = ()) -> LldbInspection:
    """Return a session on *process*, an ``lldb.SBProcess`` that is stopped or a core file. It stays LLDB's.

    The session is one of this stop: once the process has run, asking on raises :class:`~ompd.errors.StaleHandle`.

    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :raises BadInput: if such a folder has no plugin
    :raises TargetGone: if there is no process, or it has ended
    :raises TargetError: if it is running
    :raises Unsupported: if its architecture is not supported
    """
    from ompd.lldb.control import LldbInspection  # noqa: PLC0415

    return LldbInspection(process, plugins=plugins)


def launch(
    arguments: Sequence[str | PathLike[str]],
    *,
    env: Mapping[str, str | None] | None = None,
    cwd: str | PathLike[str] | None = None,
    omp_debug: bool = True,
    plugins: tuple[str | PathLike[str], ...] = (),
) -> LldbInspection:
    """Return a session on a program that is started under LLDB and stopped at its first instruction.

    Its methods ``continue_to``, ``step_into_region`` and ``events`` run it. Closing the session ends the program: use
    it in a ``with`` statement.

    :param arguments: the program, and what it gets
    :param env: variables that it has besides those of this process, None removes one
    :param cwd: the folder that it runs in, by default that of this process
    :param omp_debug: whether it is started with ``OMP_DEBUG=enabled``, without which there are no events
    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :raises BadInput: if it cannot be started, or such a folder has no plugin
    :raises Unsupported: if no LLDB is installed whose Python module fits this Python
    """
    from ompd.lldb.control import launch as launch_it  # noqa: PLC0415

    return launch_it(arguments, env=env, cwd=cwd, omp_debug=omp_debug, plugins=plugins)
