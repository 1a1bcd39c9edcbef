"""One stop of one program: opens it, finds its runtimes, keeps what was read. No question is answered here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ompd.contract.plugin import AddressSpace
from ompd.contract.process import Module, Shape
from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.debugger.files.opening import MAX_SIZE, unpack_core
from ompd.debugger.inspected import InspectedProcess
from ompd.debugger.targets.base import Target
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadFile, CorruptState, MemoryFault, NotInitialised, OmpdError, TargetGone, Unavailable
from ompd.model import Place, TargetRecord
from ompd.naming import is_runtime_file
from ompd.runtimes.discovery import Found, discover

if TYPE_CHECKING:
    from typing_extensions import Self

    from ompd.runtimes.installed import Plugins
    from ompd.session.live import Stopper

PLUGINS = "OMPD_PLUGINS"
"""The environment variable that names folders with plugins where a program, or a debugger's commands, name none."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class LoadedRuntime:
    """An OpenMP runtime of the process: what was found, and its handles, or why there are none."""

    id: str
    found: Found
    space: AddressSpace | None
    fault: OmpdError | None

    @property
    def is_initialised(self) -> bool:
        """Whether anything of OpenMP has run on it, as far as can be told."""
        return not isinstance(self.fault, NotInitialised)


class Straight(NamedTuple):
    """What code alone tells of where a thread is, the same for all stacks of one shape: which frame is the
    innermost one that is the user's, and its place. None where more is needed to tell it.
    """

    frame: int | None
    place: Place | None


class Session:
    """A stopped program, open for questions. Use it in a ``with`` statement, or close it.

    A live process runs between questions; :meth:`ask` stops it for each.
    """

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        *,
        process: InspectedProcess | None = None,
        stopper: Stopper | None = None,
        plugins: Sequence[str | PathLike[str]] = (),
    ) -> None:
        self.target = target
        self.plugin_folders = _folders(plugins)
        if self.plugin_folders:
            self.plugins  # noqa: B018  which have to be there
        self._is_open = True
        self._stopper = stopper
        self._is_asking = False
        self.finder = finder
        # Why the target is not whole, and what is odd about it, from before it could be read.
        self.fault: str | None = None
        self.note: str | None = None
        self.process = process if process is not None else InspectedProcess(target, finder, finder.exe)
        # For questions.places: whose code lies at an address; the user's function of a region, by the region's id;
        # where a thread is, by its stack's shape.
        self.owners: dict[int, str] = {}
        self.source_functions: dict[str, str | None] = {}
        self.straight: dict[Shape, Straight] = {}

    @classmethod
    def open_core(
        cls,
        core: str | PathLike[str],
        files: FileOptions | None = None,
        *,
        max_size: int = MAX_SIZE,
        plugins: Sequence[str | PathLike[str]] = (),
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
            session = cls(target, finder, plugins=plugins)
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
    ) -> Self:
        """Return a session on a live process; see :func:`ompd.attach`."""
        from ompd.session.live import Stopper  # noqa: PLC0415  cores need neither ctypes nor threads

        stopper = Stopper.attach(process_id, files, nonblocking=nonblocking, max_stop=max_stop)
        try:
            return cls(stopper.target, stopper.files, process=stopper.base, stopper=stopper, plugins=plugins)
        except BaseException:
            stopper.close()
            raise

    def ask(self, question: Callable[[Self], _T]) -> _T:
        """Return what *question* answers when it is called with this session: all that it reads is of one moment.

        Of a live process it is called more than once; what counts is what it returns the last time. Within a question
        others may be asked: they are then of the same moment.

        :raises TargetGone: if the session was closed, or the process ended
        """
        if self._stopper is None or self._is_asking:
            return question(self)
        if not self._is_open:
            raise TargetGone(f"the session on {self.target.name} was closed")
        self._is_asking = True
        try:
            return self._stopper.ask(self, lambda: question(self))
        finally:
            self._is_asking = False

    @property
    def shortfalls(self) -> Sequence[str]:
        """Why what was asked last is not whole: what a stop of a live process left out. Empty for other targets."""
        return self._stopper.shortfalls if self._stopper is not None else ()

    def begin_stop(self, target: Target, process: InspectedProcess) -> None:
        """From now on be a session on *process* as *target* has it; what was read before is forgotten."""
        self.process.close_emulator()
        self.target, self.process = target, process
        self.source_functions.clear()
        self.straight.clear()
        for name in ("_runtimes", "runtime_modules", "lost_libraries", "lost_runtimes", "_lost", "record"):
            self.__dict__.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the target. What was answered stays; asking on raises :class:`~ompd.errors.TargetGone`."""
        self._is_open = False
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
        return self._runtimes

    @cached_property
    def plugins(self) -> Plugins:
        """The plugins of other distributions.

        :raises BadInput: if a folder that the user named has none
        """
        from ompd.runtimes.installed import Plugins  # noqa: PLC0415  most runtimes need none

        return Plugins(self.plugin_folders)

    @cached_property
    def _runtimes(self) -> tuple[LoadedRuntime, ...]:
        loaded: list[LoadedRuntime] = []
        for found in discover(self.process, lambda: self.plugins, are_named=bool(self.plugin_folders)):
            same = sum(1 for other in loaded if other.found.kind == found.kind)
            space: AddressSpace | None = None
            fault = found.fault
            if found.plugin is not None:
                try:
                    self._check(found.module)
                    space = found.plugin.process_initialize(self.process, found.module)
                    with suppress(CorruptState, MemoryFault):  # which is for the questions to tell
                        space.threads()
                except NotInitialised as error:
                    fault = self._contradiction(found.module, error) or (error if space is None else None)
                    space = None if isinstance(fault, CorruptState) else space
                except OmpdError as error:
                    fault = error
            loaded.append(LoadedRuntime(found.kind + (f"#{same + 1}" if same else ""), found, space, fault))
        return tuple(loaded)

    def _check(self, module: Module) -> None:
        # Variables are found by the symbols of a module's file. They must be the right ones, and still be there.
        if module.unproven is not None:
            raise Unavailable(
                f"{module.name}: its variables are not read, since nothing that is left proves this file to be the"
                " build that ran"
            )
        lost = self.process.lost_data(module)
        if lost is not None:
            raise CorruptState(lost, f"{module.name}: its variables are lost: zeros stand where its file has others")

    def _contradiction(self, module: Module, error: NotInitialised) -> CorruptState | None:
        # Zeros that stand for lost variables look as if nothing had run yet. Stacks know better.
        count = self.threads_inside(module)
        if count <= 1:  # one may be on its way into the runtime, or out of it
            return None
        return CorruptState(module.start, f"{error}, yet {count} threads are in its code: its variables are lost")

    def threads_inside(self, module: Module) -> int:
        """Return how many threads have a frame of *module* on their stacks: none if it was merely loaded."""
        process = self.process
        return sum(
            any(process.module_at(frame.call_site) is module for frame in process.stack(thread).frames)
            for thread in process.threads()
        )

    @cached_property
    def runtime_modules(self) -> frozenset[Module]:
        """The modules that hold an OpenMP runtime."""
        return frozenset(runtime.found.module for runtime in self.runtimes)

    @cached_property
    def lost_libraries(self) -> tuple[str, ...]:
        """Those of :attr:`lost_runtimes` that are called like an OpenMP runtime: one of it was surely there."""
        return tuple(fault for name, fault in self._lost if is_runtime_file(name))

    @cached_property
    def lost_runtimes(self) -> tuple[str, ...]:
        """What is wrong with modules that are called like an OpenMP runtime, or are the program, but whose file is not
        to be had, or that lay in a part of the target that is lost.
        """
        return tuple(fault for _, fault in self._lost)

    @cached_property
    def _lost(self) -> tuple[tuple[str, str], ...]:
        faults = [
            (module.name, module.fault)
            for module in self.process.modules()
            if module.fault is not None and (module.is_program or is_runtime_file(module.name))
        ]
        unseen = [name for name in self.process.unseen_libraries if is_runtime_file(name)]
        return (*faults, *((name, f"{name}, which the program needs, is in the part that is lost") for name in unseen))

    @cached_property
    def record(self) -> TargetRecord:
        """What was asked."""
        target = self.target
        program = next((module for module in self.process.modules() if module.is_program), None)
        return TargetRecord(
            kind=target.kind,
            file=target.name if target.kind != "live" else None,
            # A module whose name is lost has one of ours, that is no path.
            executable=program.name if program is not None and "/" in program.name else None,
            process_id=target.process_id,
            command=target.command,
            signal=target.signal,
            signal_name=signal_name(target.signal),
            architecture=target.architecture.name,
            thread_count=len(self.process.threads()) if self.process.names_all_threads else None,
            incomplete=target.loss.what if target.loss is not None else None,
            unproven=tuple(self.process.unproven),
        )


def _folders(plugins: Sequence[str | PathLike[str]]) -> tuple[str, ...]:
    named = [fspath(folder) for folder in plugins]
    return tuple(named or [folder for folder in os.environ.get(PLUGINS, "").split(os.pathsep) if folder])


def signal_name(number: int | None) -> str | None:
    """Return what a signal is called, None for one without a name, as those of real time."""
    try:
        return signal.Signals(number).name if number is not None else None
    except ValueError:
        return None
