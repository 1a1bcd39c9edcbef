"""What belongs to one moment of a program: its target, the process, its runtimes, and what was found out there."""

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


class Stop:
    """One moment. Nothing of it changes but what is found out later, and it is thrown away whole.

    :param discover: finds the OpenMP runtimes of a process
    :param owners: whose code is at an address, as far as an earlier moment found out of the same files
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
        # For questions.places: whose code is at an address; the user's function of a region, by the region's id; where
        # a thread is, by its stack's shape.
        self.owners: dict[int, str] = {} if owners is None else owners
        self.source_functions: dict[str, str | None] = {}
        self.straight: dict[Shape, Straight] = {}

    @cached_property
    def runtimes(self) -> tuple[LoadedRuntime, ...]:
        """The OpenMP runtimes of the process, by address."""
        loaded: list[LoadedRuntime] = []
        for found in self._discover(self.process):
            same = sum(1 for other in loaded if other.found.kind == found.kind)
            space: AddressSpace | None = None
            fault = found.fault
            if found.plugin is not None:
                try:
                    self._check(found.module)
                    space = found.plugin.process_initialize(self.process.contract, found.module)
                    with suppress(CorruptState, MemoryFault):  # which is for the queries to report
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
        lost = self.process.symbols.lost_data(module)
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
            any(process.symbols.module_at(frame.call_site) is module for frame in process.stacks.stack(thread).frames)
            for thread in process.threads.ids()
        )

    @cached_property
    def runtime_modules(self) -> frozenset[Module]:
        """The modules that hold an OpenMP runtime."""
        return frozenset(runtime.found.module for runtime in self.runtimes)

    @cached_property
    def whole_runtimes(self) -> frozenset[Module]:
        """Those that hold nothing else, whatever their functions are called."""
        return frozenset(
            runtime.found.module
            for runtime in self.runtimes
            if runtime.found.hosted is not None and runtime.found.is_whole
        )

    @cached_property
    def lost_libraries(self) -> tuple[str, ...]:
        """Those of :attr:`lost_runtimes` that are called like an OpenMP runtime: one of it was surely there."""
        return tuple(fault for name, fault in self._lost if is_runtime_file(name))

    @cached_property
    def lost_runtimes(self) -> tuple[str, ...]:
        """What is wrong with modules that are called like an OpenMP runtime, or are the program, but whose file was not
        found, or that were in a part of the target that is lost.
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
        """What was inspected."""
        target, process = self.target, self.process
        program = process.modules.program
        return TargetRecord(
            kind=target.kind,
            file=target.name if target.kind != "live" else None,
            # A module whose name is lost has a made-up one, that is no path.
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
    """Return what a signal is called, None for one without a name, as those of real time."""
    try:
        return signal.Signals(number).name if number is not None else None
    except ValueError:
        return None
