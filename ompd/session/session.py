"""Sessions: open a program, switch from one moment to the next, close it. The queries are elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, TypeVar, cast

from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.debugger.files.opening import MAX_SIZE, unpack_core
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import Target
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadFile, BadProcess, OmpdError, TargetGone, Unsupported
from ompd.runtimes.discovery import Found, discover
from ompd.session.stop import LoadedRuntime, Stop

if TYPE_CHECKING:
    from typing_extensions import Self

    from ompd.debugger.targets.live.live import LiveProcess
    from ompd.debugger.targets.live.moment import Moment
    from ompd.runtimes.hosted.libraries import Libraries
    from ompd.runtimes.installed import Plugins
    from ompd.session.live import Stopper

PLUGINS = "OMPD_PLUGINS"
"""The environment variable with folders of plugins. The variable is only read if neither the caller nor the command
names folders.
"""

_T = TypeVar("_T")


class Session:
    """A stopped program, open for queries. Use it in a ``with`` statement, or close it.

    A live process runs between queries; :meth:`ask` stops it for each query.
    """

    stop: Stop
    target: Target
    process: StoppedProcess

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        *,
        process: StoppedProcess | None = None,
        stopper: Stopper | None = None,
        plugins: Sequence[str | PathLike[str]] = (),
        ompd_library: str | PathLike[str] | None = None,
    ) -> None:
        self.plugin_folders = _folders(plugins)
        self.ompd_library = fspath(ompd_library) if ompd_library is not None else None
        self._libraries: Libraries | None = None
        if self.plugin_folders:
            self.plugins  # noqa: B018  raises BadInput if a folder has none
        self._is_open = True
        self._stopper = stopper
        self._is_asking = False
        # The reason why a compressed core could not be unpacked completely, and a note about the core.
        self.fault: str | None = None
        self.note: str | None = None
        process = process or StoppedProcess(target, finder, finder.exe)
        self._begin(Stop(target, process, self._found_runtimes))

    @classmethod
    def open_core(
        cls,
        core: str | PathLike[str],
        files: FileOptions | None = None,
        *,
        max_size: int = MAX_SIZE,
        plugins: Sequence[str | PathLike[str]] = (),
        ompd_library: str | PathLike[str] | None = None,
    ) -> Self:
        """Return a session on a core file; see :func:`ompd.open_core`."""
        finder = FileFinder(files)
        name = fspath(core)
        unpacked = unpack_core(name, max_size, files.progress if files is not None else None)
        try:
            target = CoreTarget(name, unpacked.data if unpacked is not None else None)
        except BadFile as error:
            if unpacked is None or unpacked.fault is None:
                raise
            raise BadFile(
                name, f"{unpacked.fault}; what there is of it {error.fault}", hint="copy the file again, whole"
            ) from error
        try:
            session = cls(target, finder, plugins=plugins, ompd_library=ompd_library)
        except BaseException:
            target.close()
            raise
        if unpacked is not None:
            session.fault, session.note = unpacked.fault, unpacked.note
        return session

    @classmethod
    def attach(
        cls,
        process_id: int,
        files: FileOptions | None = None,
        *,
        nonblocking: bool = False,
        max_stop: float | None = None,
        plugins: Sequence[str | PathLike[str]] = (),
        ompd_library: str | PathLike[str] | None = None,
    ) -> Self:
        """Return a session on a live process; see :func:`ompd.attach`."""
        from ompd.session.live import Stopper

        stopper = Stopper.attach(process_id, files, nonblocking=nonblocking, max_stop=max_stop)
        try:
            return cls(
                stopper.target,
                stopper.files,
                process=stopper.base,
                stopper=stopper,
                plugins=plugins,
                ompd_library=ompd_library,
            )
        except BaseException:
            stopper.close()
            raise

    @staticmethod
    def find_refusal(process_id: int, *, nonblocking: bool) -> BadProcess | None:
        """Return why the process *process_id* cannot be inspected. None if it can be inspected, or does not exist."""
        from ompd.debugger.targets.live.refusals import find_refusal

        return find_refusal(process_id, nonblocking=nonblocking)

    def ask(self, question: Callable[[Self], _T], *, may_stop: bool = True) -> _T:
        """Return the result of *question*, which is called with this session. All its reads are of one moment.

        For a live process *question* may be called more than once, and the last result is returned. Calls of
        :meth:`ask` inside of *question* are of the same moment.

        :param may_stop: False to read a live process while it runs, as a nonblocking session does
        :raises TargetGone: if the session was closed, or the process ended
        """
        if self._is_asking or (self._stopper is None and self.ompd_library is None):
            return question(self)
        if not self._is_open:
            raise TargetGone(f"the session on {self.target.name} was closed")
        self._is_asking = True
        try:
            return self._ask(question, may_stop=may_stop)
        finally:
            self._is_asking = False

    def repeat(self, question: Callable[[Self], _T]) -> _T:
        """Return the result of *question* at one moment of a live process. This costs less than :meth:`ask`, if the
        question is repeated often.

        :raises TargetGone: if the session was closed, or the process ended
        :raises BadProcess: if the process executes another program than before, or may not be stopped
        :raises Unavailable: if the process changes faster than it can be copied, or did not stop in time
        :raises Unsupported: if the target is not a live process
        """
        if self._stopper is None:
            raise Unsupported(f"{self.target.name} does not run")
        if not self._is_open:
            raise TargetGone(f"the session on {self.target.name} was closed")
        self._is_asking = True
        try:
            return self._stopper.repeat(self, question)
        finally:
            self._is_asking = False

    @property
    def live_moment(self) -> Moment:
        """The present moment of a live process.

        :raises Unsupported: if the target is not a live process
        """
        if self._stopper is None:
            raise Unsupported(f"{self.target.name} does not run")
        return cast("Moment", self.target)

    @property
    def live_process(self) -> LiveProcess:
        """The live process.

        :raises Unsupported: if the target is not a live process
        """
        if self._stopper is None:
            raise Unsupported(f"{self.target.name} does not run")
        return self._stopper.process

    @property
    def may_stop(self) -> bool:
        """Whether queries stop the process. False for a target that is not a live process."""
        return self._stopper is not None and not self._stopper.nonblocking

    @property
    def is_held(self) -> bool:
        """Whether a signal, a debugger or a frozen control group held the process when the last query began."""
        return self._stopper is not None and self._stopper.held_by is not None

    def _ask(self, question: Callable[[Self], _T], *, may_stop: bool) -> _T:
        # If a library fails during a query, drop the library and run the query again with ompd's own plugin.
        while True:
            failed = self._failed_libraries
            try:
                if self._stopper is not None:
                    result = self._stopper.ask(self, question, may_stop=may_stop)
                else:
                    result = question(self)
            except OmpdError:
                if self._failed_libraries == failed:
                    raise
            else:
                if self._failed_libraries == failed:
                    return result
            if self._stopper is None:
                self._begin(Stop(self.target, self.process, self._found_runtimes, self.stop.owners))

    @property
    def _failed_libraries(self) -> int:
        return self._libraries.lost if self._libraries is not None else 0

    @property
    def hosted_faults(self) -> Sequence[OmpdError]:
        """The failures of libraries that the user named. A library that failed is not used again."""
        return self._libraries.faults if self._libraries is not None else ()

    @property
    def changed_files(self) -> Sequence[str]:
        """The names of the core file and the modules' files that have changed since they were opened."""
        files = [self.target.file] if isinstance(self.target, CoreTarget) else []
        files += [file for module in self.process.modules for file in module.files]
        return [file.name for file in files if file.has_changed()]

    @property
    def shortfalls(self) -> Sequence[str]:
        """The reasons why the last answer on a live process is incomplete. Empty for other targets."""
        return self._stopper.shortfalls if self._stopper is not None else ()

    @property
    def hosted_notes(self) -> Sequence[str]:
        """The output of OMPD libraries, and the reasons why libraries that a runtime names were not used."""
        return self._libraries.notes if self._libraries is not None else ()

    def _begin(self, stop: Stop) -> Stop:
        self.stop, self.target, self.process = stop, stop.target, stop.process
        return stop

    def begin_stop(self, target: Target, process: StoppedProcess) -> Stop:
        """Switch the session to a new stop of *process*, and return that stop.

        The owners of code addresses are kept if the modules are the same. Nothing else is kept from the previous stop.
        """
        before = self.stop
        before.process.routines.close()
        owners = before.owners if before.process.modules is process.modules else None
        return self._begin(Stop(target, process, self._found_runtimes, owners))

    def own_runtimes(self, process: StoppedProcess) -> Iterator[Found]:
        """Yield the runtimes of *process*, each with the plugin that reads it without an OMPD library."""
        return discover(process.contract, lambda: self.plugins, are_named=bool(self.plugin_folders))

    def _found_runtimes(self, process: StoppedProcess) -> Iterator[Found]:
        runtimes = self.own_runtimes(process)
        if self.ompd_library is None:
            return runtimes
        if self._libraries is None:
            from ompd.runtimes.hosted.libraries import Libraries

            self._libraries = Libraries(self.ompd_library, self.process.finder)
        return self._libraries.over(process.contract, runtimes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the target. Answers remain valid; later queries raise :class:`~ompd.errors.TargetGone`."""
        self._is_open = False
        if self._libraries is not None:
            self._libraries.close()
        self.process.close()
        self.target.close()
        if self._stopper is not None:
            self._stopper.close()

    @property
    def runtimes(self) -> tuple[LoadedRuntime, ...]:
        """The OpenMP runtimes of the process, by address.

        :raises TargetGone: if the session was closed
        """
        if not self._is_open:
            raise TargetGone(f"the session on {self.target.name} was closed")
        if self._stopper is not None and not self._is_asking and not self._stopper.has_asked:
            return self.ask(lambda session: session.runtimes)
        return self.stop.runtimes

    @cached_property
    def plugins(self) -> Plugins:
        """The plugins of other distributions.

        :raises BadInput: if a folder that the user named has no plugin
        """
        from ompd.runtimes.installed import Plugins

        return Plugins(self.plugin_folders)


def _folders(plugins: Sequence[str | PathLike[str]]) -> tuple[str, ...]:
    named = [fspath(folder) for folder in plugins]
    return tuple(named or [folder for folder in os.environ.get(PLUGINS, "").split(os.pathsep) if folder])
