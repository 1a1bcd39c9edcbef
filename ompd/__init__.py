"""Inspection of OpenMP programs: core files and running processes.

This module has the public functions of the library. Its import loads no other module of ompd, and needs neither LLDB
nor an optional package.

>>> import ompd
>>> with ompd.open_core("core.1234") as session:            # doctest: +SKIP
...     for thread in session.ask_threads().rows:
...         print(thread.thread_num, thread.state)
"""

from __future__ import annotations

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, but the import of `typing` takes longer than this whole module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    from ompd.inspection import Inspection
    from ompd.lldb.control import LldbInspection

__all__ = ["__version__", "attach", "from_gdb", "from_lldb", "launch", "open_core"]

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
    ompd_library: str | PathLike[str] | None = None,
    source_dirs: tuple[str | PathLike[str], ...] = (),
) -> Inspection:
    """Return a session on the ELF core file *core*; close it, or use it in a ``with`` statement.

    A compressed core (gzip, xz, zstd, lz4) is unpacked into a temporary file without a name. ``coredumpctl:MATCH`` is
    the core that systemd's ``coredumpctl`` selects by MATCH, ``coredumpctl:`` is the newest one.

    :param exe: the program's executable, if the core does not name it or the file has changed since
    :param sysroot: folder that holds the files of the machine on which the program ran
    :param debug_dirs: folders searched for separate debug files and ``.build-id`` folders, before ``/usr/lib/debug``
    :param debuginfod: download missing files from the servers in DEBUGINFOD_URLS
    :param max_size: largest size in bytes of a compressed core once it is unpacked
    :param progress: receives lines to show during long operations: unpacking, downloading
    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :param ompd_library: file of an OMPD library that answers in place of ompd's own plugins, or ``named`` for the
        library that the runtime names (docs/hosted.md)
    :param source_dirs: folders with source files, if they are not where they were compiled
    :raises BadFile: if *core* is not a readable core file, or a file that it needs is of another build
    :raises BadInput: if *debuginfod* is set and DEBUGINFOD_URLS names no server, or a folder has no plugin
    """
    from ompd.debugger.files.finder import FileOptions
    from ompd.inspection import Inspection

    return Inspection.open_core(
        core,
        FileOptions(exe, sysroot, debug_dirs, debuginfod, progress, source_dirs),
        max_size=max_size,
        plugins=plugins,
        ompd_library=ompd_library,
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
    ompd_library: str | PathLike[str] | None = None,
    source_dirs: tuple[str | PathLike[str], ...] = (),
) -> Inspection:
    """Return a session on the running process *process_id*; close it, or use it in a ``with`` statement.

    The process keeps running. Each query stops it for some milliseconds, and its answer is of that moment. To run
    several queries on one moment, put them into a function for :meth:`~ompd.session.session.Session.ask`.

    :param exe: the program's executable, if the process's own cannot be read
    :param sysroot: folder that holds the process's files, if it is not the process's root folder
    :param debug_dirs: folders searched for separate debug files, before ``/usr/lib/debug``
    :param debuginfod: download missing files from the servers in DEBUGINFOD_URLS
    :param nonblocking: never stop the process; facts about different threads may then be of different moments
    :param max_stop: longest stop, in milliseconds; if None, 50, and 0.2 more for each thread above 256
    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :param ompd_library: file of an OMPD library that answers in place of ompd's own plugins, or ``named`` for the
        library that the runtime names (docs/hosted.md)
    :param source_dirs: folders with source files, if they are not where they were compiled
    :raises BadInput: if *max_stop* is not positive, or is more than an hour, or a folder has no plugin
    :raises BadProcess: if there is no such process, or it may not be read; also raised by queries if the process does
        not stop in time
    """
    from ompd.debugger.files.finder import FileOptions
    from ompd.inspection import Inspection

    return Inspection.attach(
        process_id,
        FileOptions(exe, sysroot, debug_dirs, debuginfod, source_dirs=source_dirs),
        nonblocking=nonblocking,
        max_stop=max_stop,
        plugins=plugins,
        ompd_library=ompd_library,
    )


def from_lldb(
    process: Any,
    *,
    plugins: tuple[str | PathLike[str], ...] = (),
    ompd_library: str | PathLike[str] | None = None,
) -> LldbInspection:
    """Return a session on *process*, an ``lldb.SBProcess`` that is stopped or a core file. LLDB keeps the process.

    The session belongs to this stop: once the process has run, queries raise :class:`~ompd.errors.StaleHandle`.

    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :param ompd_library: file of an OMPD library that answers in place of ompd's own plugins, or ``named`` for the
        library that the runtime names (docs/hosted.md)
    :raises BadInput: if a folder in *plugins* has no plugin
    :raises TargetGone: if there is no process, or it has ended
    :raises TargetError: if it is running
    :raises Unsupported: if its architecture is not supported
    """
    from ompd.lldb.control import LldbInspection

    return LldbInspection(process, plugins=plugins, ompd_library=ompd_library)


def from_gdb(*, ompd_library: str | PathLike[str] | None = None) -> Inspection:
    """Return a session on gdb's selected inferior, a stopped process or a core file, in gdb's own Python.

    The session belongs to this stop: once gdb has run the process, queries raise :class:`~ompd.errors.StaleHandle`.
    Open a new session for the next stop.

    :param ompd_library: file of an OMPD library that answers in place of ompd's own plugins, or ``named`` for the
        library that the runtime names (docs/hosted.md)
    :raises TargetGone: if there is no process
    :raises TargetError: if it is running
    :raises Unsupported: if this is not gdb's Python, or gdb reaches the process through another program
    """
    try:
        from ompd.gdb.sessions import opened_here
    except ModuleNotFoundError as error:
        if error.name != "gdb":
            raise
        from ompd.errors import Unsupported

        raise Unsupported(
            "from_gdb() is for gdb's own Python", hint="gdb -x SCRIPT, with `python import ompd` in it; see docs/api.md"
        ) from error
    return opened_here(str(ompd_library) if ompd_library is not None else None)


def launch(
    arguments: Sequence[str | PathLike[str]],
    *,
    env: Mapping[str, str | None] | None = None,
    cwd: str | PathLike[str] | None = None,
    omp_debug: bool = True,
    plugins: tuple[str | PathLike[str], ...] = (),
    ompd_library: str | PathLike[str] | None = None,
) -> LldbInspection:
    """Return a session on a program that is started under LLDB and stopped at its first instruction.

    The session's methods ``continue_to``, ``step_into_region`` and ``events`` run the program. Closing the session ends
    the program: use it in a ``with`` statement.

    :param arguments: the program and its arguments
    :param env: environment variables to add to those of this process; a variable with None is removed
    :param cwd: the folder in which the program runs, by default the current folder of this process
    :param omp_debug: whether to start the program with ``OMP_DEBUG=enabled``; without it, Intel's runtime has no events
    :param plugins: folders with plugins for other OpenMP runtimes (docs/plugins.md)
    :param ompd_library: file of an OMPD library that answers in place of ompd's own plugins, or ``named`` for the
        library that the runtime names (docs/hosted.md)
    :raises BadInput: if the program cannot be started, or a folder has no plugin
    :raises Unsupported: if no LLDB is installed whose Python module fits this Python
    """
    from ompd.lldb.control import launch as launch_it

    return launch_it(arguments, env=env, cwd=cwd, omp_debug=omp_debug, plugins=plugins, ompd_library=ompd_library)
