"""The stopped process, which puts the parts of the package together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.process import Frame, Location, Module
from ompd.debugger.contract import ContractProcess
from ompd.debugger.emulation.code_checks import TargetCode
from ompd.debugger.emulation.routines import Routines
from ompd.debugger.environment import Environment
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.loader import Loader
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.places import KnownPlaces, Places
from ompd.debugger.regions import Regions
from ompd.debugger.stacks.calls import Calls
from ompd.debugger.stacks.stacks import Stacks
from ompd.debugger.stacks.steps import Steps
from ompd.debugger.symbols import Symbols
from ompd.debugger.targets.base import Target
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.debugger.threads.threads import Threads
from ompd.debugger.threads.tls import ThreadLocalStorage
from ompd.debugger.variables.types import Types
from ompd.debugger.waiting import Waiting
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.debugger.emulation.orbits import Orbit, Orbits
    from ompd.debugger.flow.conditions import Read
    from ompd.debugger.flow.functions import Functions
    from ompd.debugger.flow.handlers import Handlers
    from ompd.debugger.snapshot import Snapshot
    from ompd.debugger.source_code import SourceCode
    from ompd.debugger.survey.files import ModuleFiles
    from ompd.debugger.survey.needed import Dependencies
    from ompd.debugger.survey.stack_extents import StackExtents
    from ompd.debugger.system_waits.kernel import SystemFacts
    from ompd.debugger.system_waits.waits import SystemWaits
    from ompd.debugger.threads.emutls import EmulatedTls
    from ompd.debugger.threads.gone_code import GoneCode
    from ompd.debugger.variables.choices import StaticVariable
    from ompd.debugger.variables.locals import Locals
    from ompd.debugger.variables.names import VariableName
    from ompd.debugger.variables.reader import VariableReader
    from ompd.isa.x86.references import X86References
    from ompd.naming import Routine


class StoppedProcess:
    """One process at one stop. Its memory, modules, symbols, threads, stacks and so on are attributes.

    Plugins use :attr:`contract` instead. Parts that few queries need are imported on first use.

    :param exe: the program's file as the user named it, None if the user named none
    :param earlier: the same process at an earlier stop, whose facts about files are kept; None at the first stop
    """

    memory: TargetMemory
    modules: ModuleList
    types: Types
    places: Places
    stacks: Stacks

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        exe: str | None = None,
        *,
        earlier: StoppedProcess | None = None,
    ) -> None:
        architecture = target.architecture
        self.target = target
        self.finder = finder
        self.modules = ModuleList(target, finder, exe) if earlier is None else earlier.modules
        self.types = Types(self.modules) if earlier is None else earlier.types
        self.lasting: dict[tuple[str, int], object] = {} if earlier is None else earlier.lasting
        known_places = KnownPlaces() if earlier is None else earlier.places.known
        steps: Steps = {} if earlier is None else earlier.stacks.steps
        self.memory = TargetMemory(target, self.modules)
        self.regions = Regions(target, self.modules)
        self.symbols = Symbols(target, self.modules)
        self.places = Places(self.modules, self.symbols, known_places)
        self.loader = Loader(self.memory, self.symbols, self.modules.program)
        self.glibc = GlibcThreads(self.memory, self.symbols, self.loader)
        self.threads = Threads(target, self.glibc)
        self.storage = ThreadLocalStorage(
            self.memory, architecture, self.glibc, self.loader, self.modules.program, self.threads
        )
        self.symbols.storage = self.storage
        self.stacks = Stacks(
            self.memory, architecture, self.modules, self.symbols, self.regions, self.threads, self.places, steps
        )
        self.waiting = Waiting(self.memory, self.threads, self.stacks, architecture.system_calls, self.symbols)
        self.calls = Calls(self.memory, architecture, self.modules, self.symbols, self.places)
        code = TargetCode(self.memory, self.regions, self.modules, self.places.symbolize, self.threads.thread_pointer)
        self.routines = Routines(code, architecture, self.modules, self.regions, self.loader)
        self._functions: Functions | None = None
        self.environment = Environment(target, self.memory, self.modules, self.symbols)

    def at_another_stop(self, target: Target) -> StoppedProcess:
        """Return the same process at the stop of *target*. Facts from files are kept, facts from memory are not."""
        return StoppedProcess(target, self.finder, earlier=self)

    def close(self) -> None:
        """Close the modules' files. The target remains open, because its owner closes it."""
        self.routines.close()
        self.modules.close()

    @cached_property
    def contract(self) -> ContractProcess:
        """The interface to this process for plugins."""
        return ContractProcess(self)

    @cached_property
    def source_code(self) -> SourceCode:
        """The lines of the source of the process's code."""
        from ompd.debugger.source_code import SourceCode

        return SourceCode(self.target, self.modules, self.places, self.finder)

    # Outside of OpenMP

    def gone_code(self) -> GoneCode | None:
        """Return the threads that sleep in unloaded code, None if there are none."""
        from ompd.debugger.threads.gone_code import gone_code

        return gone_code(self)

    @cached_property
    def system_waits(self) -> SystemWaits:
        """The waits of threads in the C library and the kernel."""
        from ompd.debugger.system_waits.waits import SystemWaits

        return SystemWaits(self)

    @cached_property
    def system(self) -> SystemFacts:
        """The kernel's facts about the process and its threads: processor time, signals, timers, identity."""
        from ompd.debugger.system_waits.kernel import SystemFacts

        return SystemFacts(self.target, self.memory, self.modules)

    @cached_property
    def references(self) -> X86References | None:
        """Finds references in code of this processor to other code; None if its instructions are unknown."""
        from ompd.isa.processors import references_of

        return references_of(self.target.architecture.e_machine)

    def functions(
        self, routines: Mapping[str, Routine], is_users: Callable[[int], bool], runtimes: Collection[Module]
    ) -> Functions:
        """Return the functions whose code is followed (:class:`ompd.debugger.flow.functions.Functions`).

        All calls of this method return the same object, which is made with the parameters of the first call.
        """
        if self._functions is None:
            self._functions = self._make_functions(routines, is_users, self.places.locate, runtimes)
        return self._functions

    def arguments_passed(self, frame: Frame) -> Sequence[int | None]:
        """Return the arguments of a frame's call (:meth:`Process.arguments_passed`)."""
        try:
            return self._callers.arguments(frame)
        except OmpdError:
            return ()

    def object_passed(self, frame: Frame) -> int | None:
        """Return the object that a frame has passed to a routine (:meth:`Process.object_passed`)."""
        try:
            return self._callers.object_passed(frame)
        except OmpdError:
            return None

    @cached_property
    def _callers(self) -> Functions:
        # Finds arguments of calls. They do not depend on whether the called code is the user's, so none counts as such.
        return self._make_functions(naming.ROUTINES(), lambda address: False, self.places.locate)

    def _make_functions(
        self,
        routines: Mapping[str, Routine],
        is_users: Callable[[int], bool],
        locate: Callable[[int], Location],
        runtimes: Collection[Module] | None = None,
    ) -> Functions:
        from ompd.debugger.flow.functions import Functions

        architecture = self.target.architecture
        return Functions(self.memory, architecture, self.modules, self.calls, locate, routines, is_users, runtimes)

    def handlers(self, routines: Mapping[str, Routine], is_users: Callable[[int], bool]) -> Handlers:
        """Return the signal handlers that the process's code may install.

        See :class:`ompd.debugger.flow.handlers.Handlers`, also for the parameters.
        """
        from ompd.debugger.flow.handlers import Handlers, Unbound

        memory, modules, calls, architecture = self.memory, self.modules, self.calls, self.target.architecture
        locate = Unbound(memory, modules, architecture, calls, self.places.locate).locate
        functions = self._make_functions(routines, is_users, locate)
        return Handlers(memory, modules, self.symbols.naming, architecture, calls, locate, functions, is_users)

    def orbit(self, orbits: Orbits, thread: int) -> Orbit | None:
        """Return the closed orbit of *thread*, None if some of the memory that it reads is of another moment.

        The next stop of a live process then copies that memory, too.

        :raises Unavailable: if the thread is in no closed orbit, or if that cannot be found out
        """
        live = None
        if self.target.kind == "live":
            from ompd.debugger.targets.live.moment import Moment

            live = self.target if isinstance(self.target, Moment) else None
        with live.optional() if live is not None else nullcontext(set[int]()) as missed:
            try:
                orbit = orbits.of(self.threads.registers(thread))
            finally:
                orbits.drop(missed)
        if live is not None and missed:
            live.hoped |= missed
            return None
        return orbit

    # Variables

    @cached_property
    def emulated_tls(self) -> EmulatedTls:
        """The emulated thread-local variables, whose copies are kept under a POSIX thread key."""
        from ompd.debugger.threads.emutls import EmulatedTls

        return EmulatedTls(self.memory, self.symbols, self.threads, self.storage)

    def variable_name(self, text: str) -> VariableName:
        """Return the parts of the variable's name *text*, which a user wrote.

        :raises BadInput: if the text is no possible name
        """
        from ompd.debugger.variables.names import parse_name

        return parse_name(text)

    def variable_reader(
        self, name: VariableName, variables: Sequence[StaticVariable], letter: str, elements: int
    ) -> VariableReader:
        """Return the reader of the static variable *name* in each thread.

        :param variables: the variables that *name* may mean, at least one
        :param letter: one of gdb's formats, or ``""``
        :param elements: the most elements of an array, or characters of a string, to show
        :raises NoAnswer: if there are several variables; the text lists them with distinct names
        """
        from ompd.debugger.variables.choices import list_choices
        from ompd.debugger.variables.reader import VariableReader

        if len(variables) > 1:
            raise list_choices(name, variables)
        return VariableReader(self, variables[0], name.steps, letter=letter, elements=elements)

    @cached_property
    def locals(self) -> Locals:
        """The local variables of the functions on stacks."""
        from ompd.debugger.variables.locals import Locals

        return Locals(self.memory, self.storage, self.modules, self.types, self.places, self.target.architecture)

    def variables_read(self, frame: Frame, reads: Sequence[Read]) -> Collection[tuple[str, int | None]]:
        """Return the variables of a frame's function that *reads* refer to: the name and declaration line of each."""
        from ompd.debugger.variables.mentioned import mentioned

        return mentioned(self.locals, frame, reads)

    def parameters(self, frame: Frame, address: int) -> int | None:
        """Return the number of parameters of the function that begins at *address*, None if unknown.

        :param frame: any frame of the process
        """
        from ompd.debugger.variables.mentioned import parameters

        return parameters(self.locals, frame, address)

    # For doctor and snapshot

    def dependencies(self) -> Dependencies:
        """Return the dependencies between modules."""
        from ompd.debugger.survey.needed import Dependencies

        return Dependencies(self.modules, self.loader)

    def files_of(self, module: Module) -> ModuleFiles | None:
        """Return what the files of *module* have for a debugger, None without the module's own file."""
        from ompd.debugger.survey.files import survey

        loaded = self.symbols.loaded(module)
        return survey(loaded) if loaded is not None else None

    def stack_extents(self) -> StackExtents:
        """Return the extents of the stacks."""
        from ompd.debugger.survey.stack_extents import StackExtents

        return StackExtents(self)

    def take_snapshot(
        self, pages: set[int], *, data_limit: int, keep_environment: bool, kept_variables: tuple[str, ...]
    ) -> Snapshot:
        """Return a snapshot, with the parameters of :func:`ompd.debugger.snapshot.take`."""
        from ompd.debugger.snapshot import take

        return take(
            self, pages, data_limit=data_limit, keep_environment=keep_environment, kept_variables=kept_variables
        )
