"""Ask a stopped OpenMP program what it is doing.

The front door of the library. Importing it loads nothing else: neither LLDB nor any optional package is needed.

>>> import ompd
>>> with ompd.open_core("core.1234") as session:            # doctest: +SKIP
...     for thread in session.ask_threads().rows:
...         print(thread.thread_num, thread.state)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from ompd.control import LldbInspection
    from ompd.inspection import Inspection

__all__ = ["__version__", "from_lldb", "launch", "open_core"]

__version__ = "0.1.0"


def open_core(
    core: str | PathLike[str],
    *,
    exe: str | PathLike[str] | None = None,
    sysroot: str | PathLike[str] | None = None,
    debug_dirs: tuple[str | PathLike[str], ...] = (),
) -> Inspection:
    """Return a session on the ELF core file *core*; close it, or use it in a ``with`` statement.

    :param exe: the program's executable, where the core names none or another file stands at that path now
    :param sysroot: folder under which the files of the machine that wrote the core are found
    :param debug_dirs: folders searched for separate debug files, before ``/usr/lib/debug``
    :raises BadFile: if *core* is no readable core file, or a file it needs is another build
    """
    from ompd.inspection import Inspection  # noqa: PLC0415

    return Inspection.open_core(core, exe=exe, sysroot=sysroot, debug_dirs=debug_dirs)


def from_lldb(process: Any) -> LldbInspection:
    """Return a session on *process*, an ``lldb.SBProcess`` that is stopped or a core file. It stays LLDB's.

    The session is one of this stop: once the process has run, asking on raises :class:`~ompd.errors.StaleHandle`.

    :raises TargetGone: if there is no process, or it has ended
    :raises TargetError: if it is running
    :raises Unsupported: if its architecture is not supported
    """
    from ompd.control import LldbInspection  # noqa: PLC0415

    return LldbInspection(process)


def launch(
    arguments: Sequence[str | PathLike[str]],
    *,
    env: Mapping[str, str | None] | None = None,
    cwd: str | PathLike[str] | None = None,
    omp_debug: bool = True,
) -> LldbInspection:
    """Return a session on a program that is started under LLDB and stopped at its first instruction.

    Its methods ``continue_to``, ``step_into_region`` and ``events`` run it. Closing the session ends the program: use
    it in a ``with`` statement.

    :param arguments: the program, and what it gets
    :param env: variables that it has besides those of this process, None removes one
    :param cwd: the folder that it runs in, by default that of this process
    :param omp_debug: whether it is started with ``OMP_DEBUG=enabled``, without which there are no events
    :raises BadInput: if it cannot be started
    :raises Unsupported: if no LLDB is installed whose Python module fits this Python
    """
    from ompd.control import launch as launch_it  # noqa: PLC0415

    return launch_it(arguments, env=env, cwd=cwd, omp_debug=omp_debug)
