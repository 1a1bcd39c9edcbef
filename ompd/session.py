"""One stop of one program: opens it, finds its runtimes, keeps what was read. No question is answered here."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ompd.contract.code import is_runtime_file
from ompd.contract.plugin import AddressSpace
from ompd.contract.process import Module
from ompd.debugger.files import FileFinder
from ompd.debugger.inspected import InspectedProcess
from ompd.debugger.targets.base import Target
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import NotInitialised, OmpdError, TargetGone
from ompd.model import TargetRecord
from ompd.plugins.discovery import Found, discover

if TYPE_CHECKING:
    from typing_extensions import Self

    from ompd.live import Stopper

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


class Session:
    """A stopped program, open for questions. Use it in a ``with`` statement, or close it.

    A live process runs between questions; :meth:`ask` stops it for each.
    """

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        exe: str | None = None,
        *,
        process: InspectedProcess | None = None,
        stopper: Stopper | None = None,
    ) -> None:
        self.target = target
        self._is_open = True
        self._stopper = stopper
        self._is_asking = False
        self.process = process if process is not None else InspectedProcess(target, finder, exe)
        # For questions.places: whose code lies at an address; the user's function of a region, by the region's id.
        self.owners: dict[int, str] = {}
        self.source_functions: dict[str, str | None] = {}

    @classmethod
    def open_core(
        cls,
        core: str | PathLike[str],
        *,
        exe: str | PathLike[str] | None = None,
        sysroot: str | PathLike[str] | None = None,
        debug_dirs: Sequence[str | PathLike[str]] = (),
    ) -> Self:
        """Return a session on a core file; see :func:`ompd.open_core`."""
        finder = FileFinder(fspath(sysroot) if sysroot is not None else None, [fspath(d) for d in debug_dirs])
        target = CoreTarget(fspath(core))
        try:
            return cls(target, finder, fspath(exe) if exe is not None else None)
        except BaseException:
            target.close()
            raise

    @classmethod
    def attach(
        cls,
        process_id: int,
        *,
        exe: str | PathLike[str] | None = None,
        sysroot: str | PathLike[str] | None = None,
        debug_dirs: Sequence[str | PathLike[str]] = (),
        nonblocking: bool = False,
    ) -> Self:
        """Return a session on a live process; see :func:`ompd.attach`."""
        from ompd.live import Stopper  # noqa: PLC0415  cores need neither ctypes nor threads

        stopper = Stopper.attach(
            process_id,
            exe=fspath(exe) if exe is not None else None,
            sysroot=fspath(sysroot) if sysroot is not None else None,
            debug_dirs=[fspath(d) for d in debug_dirs],
            nonblocking=nonblocking,
        )
        return cls(stopper.target, stopper.files, process=stopper.base, stopper=stopper)

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

    def begin_stop(self, target: Target, process: InspectedProcess) -> None:
        """From now on be a session on *process* as *target* has it; what was read before is forgotten."""
        self.target, self.process = target, process
        self.source_functions.clear()
        for name in ("_runtimes", "runtime_modules", "lost_runtimes", "record"):
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
    def _runtimes(self) -> tuple[LoadedRuntime, ...]:
        loaded: list[LoadedRuntime] = []
        for found in discover(self.process):
            same = sum(1 for other in loaded if other.found.kind == found.kind)
            space, fault = None, None
            if found.plugin is not None:
                try:
                    space = found.plugin.process_initialize(self.process, found.module)
                except OmpdError as error:
                    fault = error
            loaded.append(LoadedRuntime(found.kind + (f"#{same + 1}" if same else ""), found, space, fault))
        return tuple(loaded)

    @cached_property
    def runtime_modules(self) -> frozenset[Module]:
        """The modules that hold an OpenMP runtime."""
        return frozenset(runtime.found.module for runtime in self.runtimes)

    @cached_property
    def lost_runtimes(self) -> tuple[str, ...]:
        """What is wrong with modules that are called like an OpenMP runtime, or are the program, but whose file is not
        to be had.
        """
        return tuple(
            module.fault
            for module in self.process.modules()
            if module.fault is not None and (module.is_program or is_runtime_file(module.name))
        )

    @cached_property
    def record(self) -> TargetRecord:
        """What was asked."""
        target = self.target
        program = next((module for module in self.process.modules() if module.is_program), None)
        return TargetRecord(
            kind=target.kind,
            file=target.name if target.kind == "core" else None,
            executable=program.name if program is not None else None,
            process_id=target.process_id,
            command=target.command,
            signal=target.signal,
            signal_name=_signal_name(target.signal),
            architecture=target.architecture.name,
            thread_count=len(target.thread_ids()),
        )


def _signal_name(number: int | None) -> str | None:
    try:
        return signal.Signals(number).name if number is not None else None
    except ValueError:
        return None
