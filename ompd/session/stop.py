"""One moment of a program: its target, the process, its runtimes, and facts derived from them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from ompd.contract.plugin import AddressSpace
from ompd.contract.process import Module, Shape
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import Target
from ompd.errors import CorruptState, MemoryFault, NotInitialised, OmpdError, Unavailable
from ompd.model import Place, TargetRecord
from ompd.naming import is_runtime_file
from ompd.records import record
from ompd.runtimes.discovery import Found


@record
class LoadedRuntime:
    """An OpenMP runtime of the process, with its address space handle (``space``), or the reason why it has none
    (``fault``).
    """

    id: str
    found: Found
    space: AddressSpace | None
    fault: OmpdError | None

    @property
    def is_initialised(self) -> bool:
        """Whether OpenMP code has run on the runtime; True if that is unknown."""
        return not isinstance(self.fault, NotInitialised)


class Straight(NamedTuple):
    """The index of the innermost user frame of a stack, and the place in that frame, found by code addresses only.

    Both are the same for all stacks of one shape, and None if code addresses do not show them.
    """

    frame: int | None
    place: Place | None


class Stop:
    """One moment of a program. Facts are computed when they are needed, and dropped with this object.

    :param discover: finds the OpenMP runtimes of a process
    :param owners: owners of code addresses, from an earlier moment with the same files
    """

    def __init__(
        self,
        target: Target,
        process: StoppedProcess,
        discover: Callable[[StoppedProcess], Iterable[Found]],
        owners: dict[int, str] | None = None,
    ) -> None:
        self.target, self.process = target, process
        self._discover = discover
        # Caches of questions.places: the owner of the code at an address; the user's function of a region, by the
        # region's id; the place of a thread, by the shape of its stack.
        self.owners: dict[int, str] = {} if owners is None else owners
        self.source_functions: dict[str, str | None] = {}
        self.straight: dict[Shape, Straight] = {}

    @cached_property
    def runtimes(self) -> tuple[LoadedRuntime, ...]:
        """The OpenMP runtimes of the process, by address."""
        loaded: list[LoadedRuntime] = []
        for found in self._discover(self.process):
            earlier = sum(1 for other in loaded if other.found.kind == found.kind)
            space: AddressSpace | None = None
            fault = found.fault
            if found.plugin is not None:
                try:
                    self._check(found.module)
                    space = found.plugin.process_initialize(self.process.contract, found.module)
                    with suppress(CorruptState, MemoryFault):  # queries report this error
                        space.threads()
                except NotInitialised as error:
                    fault = self._contradiction(found.module, error) or (error if space is None else None)
                    space = None if isinstance(fault, CorruptState) else space
                except OmpdError as error:
                    fault = error
            loaded.append(LoadedRuntime(found.kind + (f"#{earlier + 1}" if earlier else ""), found, space, fault))
        return tuple(loaded)

    def _check(self, module: Module) -> None:
        # The symbols of a module's file give the addresses of its variables. So the file must be of the right build,
        # and the variables must be in the target.
        if module.unproven is not None:
            raise Unavailable(
                f"{module.name}: its variables are not read, since nothing that is left proves this file to be the"
                " build that ran"
            )
        lost_address = self.process.symbols.lost_data(module)
        if lost_address is not None:
            raise CorruptState(
                lost_address, f"{module.name}: its variables are lost: zeros stand where its file has others"
            )

    def _contradiction(self, module: Module, error: NotInitialised) -> CorruptState | None:
        # A runtime that reads as not initialised may be unused, or its variables may be lost: both read as zeros. The
        # stacks show which it is.
        count = self.threads_inside(module)
        if count <= 1:  # a single thread may be initialising or leaving the runtime
            return None
        return CorruptState(module.start, f"{error}, yet {count} threads are in its code: its variables are lost")

    def threads_inside(self, module: Module) -> int:
        """Return the number of threads with a frame of *module* on their stacks."""
        process = self.process
        return sum(
            any(process.symbols.module_at(frame.call_site) is module for frame in process.stacks.stack(thread).frames)
            for thread in process.threads.ids()
        )

    @cached_property
    def runtime_modules(self) -> frozenset[Module]:
        """The modules that hold an OpenMP runtime."""
        return frozenset(runtime.found.module for runtime in self.runtimes)

    @cached_property
    def whole_runtimes(self) -> frozenset[Module]:
        """The modules that contain nothing but a runtime, so that all their functions are the runtime's, whatever their
        names.

        Each is an unknown runtime, which the OMPD library that the user named reads.
        """
        return frozenset(
            runtime.found.module
            for runtime in self.runtimes
            if runtime.found.hosted is not None and runtime.found.is_whole
        )

    @cached_property
    def lost_libraries(self) -> tuple[str, ...]:
        """The faults in :attr:`lost_runtimes` whose modules have the file name of an OpenMP runtime."""
        return tuple(fault for name, fault in self._lost if is_runtime_file(name))

    @cached_property
    def lost_runtimes(self) -> tuple[str, ...]:
        """The faults of modules that may hold an OpenMP runtime, but cannot be read.

        These modules are the program, and modules with the file name of a runtime. Their file is missing, or they were
        in a lost part of the target.
        """
        return tuple(fault for _, fault in self._lost)

    @cached_property
    def _lost(self) -> tuple[tuple[str, str], ...]:
        faults = [
            (module.name, module.fault)
            for module in self.process.symbols.modules()
            if module.fault is not None and (module.is_program or is_runtime_file(module.name))
        ]
        unseen = [name for name in self.process.symbols.unseen_libraries if is_runtime_file(name)]
        return (*faults, *((name, f"{name}, which the program needs, is in the part that is lost") for name in unseen))

    @cached_property
    def record(self) -> TargetRecord:
        """The record of the target."""
        target, process = self.target, self.process
        program = process.modules.program
        return TargetRecord(
            kind=target.kind,
            file=target.name if target.kind != "live" else None,
            # A module whose name is lost has an invented name without a path.
            executable=program.name if program is not None and "/" in program.name else None,
            process_id=target.process_id,
            command=target.command,
            signal=target.signal,
            signal_name=signal_name(target.signal),
            architecture=target.architecture.name,
            thread_count=len(process.threads.ids()) if process.threads.names_all else None,
            incomplete=target.loss.what if target.loss is not None else None,
            unproven=tuple(process.symbols.unproven),
        )


def signal_name(number: int | None) -> str | None:
    """Return the name of a signal, None for a signal without one, such as a real-time signal."""
    try:
        return signal.Signals(number).name if number is not None else None
    except ValueError:
        return None
