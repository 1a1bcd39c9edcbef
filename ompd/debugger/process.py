"""The stopped process as plugins see it: the contract, served by the parts of the debugger's half."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ompd import naming
from ompd.contract.memory import ByteOrder
from ompd.contract.process import Frame, Location, Module
from ompd.debugger.emulation.code_checks import TargetCode
from ompd.debugger.emulation.routines import Routines
from ompd.debugger.environment import read_environment
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.memory import TargetMemory
from ompd.debugger.module_callbacks import BoundCallbacks
from ompd.debugger.modules.loader import Loader
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.places import NO_NAMES, CompilerNames, KnownPlaces, Places
from ompd.debugger.regions import Regions
from ompd.debugger.stacks.calls import Calls
from ompd.debugger.stacks.stacks import Stacks
from ompd.debugger.stacks.steps import Steps
from ompd.debugger.symbols import Symbols
from ompd.debugger.targets.base import Target
from ompd.debugger.threads.glibc import GlibcThreads
from ompd.debugger.threads.threads import Threads
from ompd.debugger.threads.tls import ThreadLocalStorage
from ompd.debugger.variables.types import Types, field_offset, sizeof
from ompd.debugger.waiting import Waiting
from ompd.errors import OmpdError

if TYPE_CHECKING:
    from ompd.debugger.flow.conditions import Read
    from ompd.debugger.flow.functions import Functions
    from ompd.debugger.flow.handlers import Handlers
    from ompd.debugger.system_waits.facts import SystemFacts
    from ompd.debugger.system_waits.waits import SystemWaits, ThreadWait
    from ompd.debugger.threads.emutls import EmulatedTls
    from ompd.debugger.threads.gone_code import GoneCode
    from ompd.debugger.variables.locals import FunctionLocals, Locals, Parts
    from ompd.debugger.variables.static import Variables
    from ompd.isa.x86.references import X86References
    from ompd.naming import Routine


class StoppedProcess:
    """One process at one stop; see :class:`ompd.contract.process.Process`. What is computed is kept.

    Each part does one thing, is given the parts that it needs, and can be used by itself. What the contract requires of
    a process are methods of these parts: they are taken over as they are, since a call less is worth it.

    :param exe: the program's file, if the user named one
    :param names: what is known of names that compilers make up
    :param earlier: the same process at another stop: what files say of it is the same
    """

    module_list: ModuleList
    types: Types
    places: Places
    stacks: Stacks

    def __init__(
        self,
        target: Target,
        finder: FileFinder,
        exe: str | None = None,
        *,
        names: CompilerNames = NO_NAMES,
        earlier: StoppedProcess | None = None,
    ) -> None:
        architecture = target.architecture
        self.target, self.finder = target, finder
        modules = ModuleList(target, finder, exe, names.is_made) if earlier is None else earlier.module_list
        types = Types(modules) if earlier is None else earlier.types
        known = KnownPlaces() if earlier is None else earlier.places.known
        steps: Steps = {} if earlier is None else earlier.stacks.steps
        storage: ThreadLocalStorage
        self.module_list, self.types = modules, types
        self.lasting: dict[tuple[str, int], object] = {} if earlier is None else earlier.lasting
        self.memory = memory = TargetMemory(target, modules)
        self.regions = regions = Regions(target, modules)
        self.symbols = symbols = Symbols(
            target, modules, lambda module, symbol, thread: storage.address(module, symbol, thread)
        )
        self.places = places = Places(modules, symbols, names, known)
        self.loader = Loader(memory, symbols, modules.program)
        self.glibc = GlibcThreads(memory, symbols, self.loader, memory.read)
        self.thread_list = threads = Threads(target, self.glibc)
        self.storage = storage = ThreadLocalStorage(
            memory, architecture, self.glibc, self.loader, modules.program, threads.thread_pointer
        )
        self.stacks = stacks = Stacks(
            memory,
            architecture,
            modules,
            symbols,
            regions,
            threads,
            lambda address: places.locate(address).symbol_address,
            steps,
        )
        self.waiting = waiting = Waiting(
            memory, threads, stacks, architecture.system_calls, lambda pc: symbols.vdso_at(pc) is not None
        )
        self.calls = calls = Calls(memory, architecture, modules, symbols, places)
        code = TargetCode(memory, regions, modules, places.symbolize, threads.thread_pointer)
        self.routines = routines = Routines(code, architecture, modules, regions, self.loader)

        # The target
        self.check_current = target.check
        self.architecture_name = architecture.name
        self.auxiliary_vector = target.auxiliary_vector
        # Memory
        self.byte_order: ByteOrder = memory.byte_order
        self.pointer_size = memory.pointer_size
        self.read, self.read_string, self.read_data = memory.read, memory.read_string, memory.read_data
        self.check_data = memory.check_data
        self.to_host, self.type_sizes = memory.to_host, memory.type_sizes
        # Modules, symbols and types
        self.modules, self.module_at = symbols.modules, symbols.module_at
        self.symbol_in, self.symbols_in = symbols.symbol_in, symbols.symbols_in
        self.symbols_with_prefix, self.variable_ranges = symbols.symbols_with_prefix, symbols.variable_ranges
        self.find_symbol, self.modules_naming = symbols.find_symbol, symbols.naming
        self.find_type, self.struct_layout = types.find, types.layout
        self.sizeof, self.field_offset, self.variables_of_type = sizeof, field_offset, types.variables_of_type
        # Threads and stacks
        self.threads, self.registers = threads.threads, threads.registers
        self.thread_pointer, self.thread_for_id = threads.thread_pointer, threads.thread_for_id
        self.pthread_self = threads.pthread_self
        self.pthread_key = storage.key_value
        self.stack = stacks.stack
        self.futex_word, self.progress = waiting.futex_word, waiting.progress
        self.frames_of_handlers = waiting.frames_of_handlers
        # Places and calls
        self.locate, self.symbolize = places.locate, places.symbolize
        self.line_of, self.construct_line = places.line_of, places.construct_line
        self.source_frames, self.source_name = places.source_frames, places.source_name
        self.declared_inside, self.has_parameter = places.declared_inside, places.has_parameter
        self.routine_called, self.addresses_passed = calls.routine_called, calls.addresses_passed
        self.calls_by_pointer, self.function_called = calls.calls_by_pointer, calls.function_called
        self.tail_calls, self.is_linkage = calls.tail_calls, calls.is_linkage
        self.function_named, self.described_tail_calls = calls.function_named, calls.described_tail_calls
        self.receivers = calls.receivers
        self._functions: Functions | None = None
        # Routines of the target
        self.call, self.evaluate = routines.call, routines.evaluate

    def at_another_stop(self, target: Target) -> StoppedProcess:
        """Return the same process as *target* has it. What its files say is kept, what was read of it is not."""
        return StoppedProcess(target, self.finder, names=self.places.names, earlier=self)

    def close(self) -> None:
        """Let go of the modules' files. The target is its owner's to close."""
        self.routines.close()
        self.module_list.close()

    def loaded_modules(self) -> Sequence[LoadedModule]:
        """Return the modules with their files."""
        return list(self.module_list)

    def callbacks(self, module: Module) -> BoundCallbacks:
        """Return the callbacks of the standards for the runtime in *module*: its own symbols and types come first."""
        return BoundCallbacks(
            module, self.memory, self.symbols, self.types, self.places, self.thread_list, self.storage
        )

    def environment(self) -> Mapping[str, str]:
        """Return the environment block the process was started with.

        :raises Unavailable: if the target does not hold it
        """
        return self._environment

    @cached_property
    def _environment(self) -> Mapping[str, str]:
        return read_environment(self.memory, self.module_list.auxiliary_vector)

    # Outside of OpenMP

    def gone_code(self) -> GoneCode | None:
        """Return which threads sleep in code that is no longer there; see :mod:`ompd.debugger.threads.gone_code`."""
        from ompd.debugger.threads.gone_code import gone_code

        return gone_code(self)

    def system_wait(self, thread: int) -> ThreadWait | None:
        """Return what *thread* waits for as C library and kernel have it, None if it is in no call that waits.

        :raises Unavailable: if the target has not got the thread's registers or code
        """
        return self._system_waits.of(thread)

    @cached_property
    def _system_waits(self) -> SystemWaits:
        from ompd.debugger.system_waits.waits import SystemWaits

        return SystemWaits(
            self.memory,
            self.target.architecture,
            self.symbols,
            self.places,
            self.thread_list,
            self.glibc,
            self.stacks,
            self.calls,
            self.waiting,
            self.system,
            self.target.process_id,
        )

    @cached_property
    def system(self) -> SystemFacts:
        """What the kernel says of the process and its threads: processor time, signals, timers, identity."""
        from ompd.debugger.system_waits.facts import SystemFacts

        return SystemFacts(self.target, self.memory, self.module_list)

    @cached_property
    def references(self) -> X86References | None:
        """How this processor's code refers to other code, None if that is not known."""
        from ompd.isa.processors import references_of

        return references_of(self.target.architecture.e_machine)

    def functions(self, routines: Mapping[str, Routine], is_users: Callable[[int], bool]) -> Functions:
        """Return what has been begun by the calls of functions; see :class:`ompd.debugger.flow.functions.Functions`.

        The parameters are those of the first call: what is found out is kept.
        """
        if self._functions is None:
            self._functions = self._make_functions(routines, is_users, self.locate)
        return self._functions

    def arguments_passed(self, frame: Frame) -> Sequence[int | None]:
        """Return what a frame has passed to the function that it called; see :meth:`Process.arguments_passed`."""
        try:
            return self._callers.arguments(frame)
        except OmpdError:
            return ()

    def object_passed(self, frame: Frame) -> int | None:
        """Return what a frame has passed to a routine; see :meth:`Process.object_passed`."""
        try:
            return self._callers.wanted(frame)
        except OmpdError:
            return None

    @cached_property
    def _callers(self) -> Functions:
        # Whose code the functions are that it calls makes no difference to what it passes.
        return self._make_functions(naming.ROUTINES(), lambda at: False, self.locate)

    def _make_functions(
        self, routines: Mapping[str, Routine], is_users: Callable[[int], bool], locate: Callable[[int], Location]
    ) -> Functions:
        from ompd.debugger.flow.functions import Functions

        target, sites = self.target, self.calls.sites
        return Functions(self.memory, target.architecture, self.module_list, sites, locate, routines, is_users)

    def handlers(self, routines: Mapping[str, Routine], is_users: Callable[[int], bool]) -> Handlers:
        """Return the handlers of signals that code installs; see :class:`ompd.debugger.flow.handlers.Handlers`."""
        from ompd.debugger.flow.handlers import Handlers, Unbound

        memory, modules, sites, architecture = self.memory, self.module_list, self.calls.sites, self.target.architecture
        locate = Unbound(memory, modules, architecture, sites, self.locate).locate
        functions = self._make_functions(routines, is_users, locate)
        return Handlers(memory, modules, self.modules_naming, architecture, sites, locate, functions, is_users)

    # Variables

    def thread_local_block(self, module: Module, thread: int) -> tuple[int, int] | None:
        """Return where a thread has its thread-local storage of a module; see :meth:`Process.thread_local_block`."""
        loaded = self.symbols.loaded(module)
        return self.storage.block(loaded, thread) if loaded is not None else None  # the vDSO has none

    def thread_local_address(self, module: Module, offset: int, size: int, name: str, thread: int) -> int:
        """See :meth:`ompd.debugger.threads.tls.ThreadLocalStorage.offset_address`."""
        loaded = self.symbols.loaded(module)
        assert loaded is not None
        return self.storage.offset_address(loaded, offset, size, name, thread)

    @cached_property
    def emulated_tls(self) -> EmulatedTls:
        """The thread-local variables that are kept by a POSIX thread key."""
        from ompd.debugger.threads.emutls import EmulatedTls

        return EmulatedTls(self.memory, self.symbols, self.threads, self.pthread_key)

    @property
    def named_variables(self) -> Variables:
        """The variables of all modules by their names; see :mod:`ompd.debugger.variables.static`."""
        return self.types.named

    def local_variables(
        self,
        frame: Frame,
        thread: int | None = None,
        holds_address: Callable[[str], bool] | None = None,
        parts: Parts | None = None,
    ) -> Sequence[FunctionLocals]:
        """Return the variables of each function that a physical frame is in, one for each of
        ``source_frames(frame.call_site)``; see :class:`ompd.debugger.variables.locals.Locals`.

        :param thread: the native id of the thread that the frame is of, for thread-local variables
        :param holds_address: whether a pointer of that name stands for what it points to
        :param parts: of which variables a part is wanted in place of the whole
        """
        return self._locals.of_frame(frame, thread, holds_address, parts)

    def local_names(self, frame: Frame) -> Collection[str]:
        """Return the names of the variables of the functions that a physical frame is in, as far as files give them."""
        return self._locals.names_at(frame)

    def variables_read(self, frame: Frame, reads: Sequence[Read]) -> Collection[tuple[str, int | None]]:
        """Return which variables of a frame's function its instructions name, by name and line; see
        :mod:`ompd.debugger.variables.mentioned`.
        """
        from ompd.debugger.variables.mentioned import mentioned

        return mentioned(self._locals, frame, reads)

    def parameters(self, frame: Frame, address: int) -> int | None:
        """Return how many parameters the function has that begins at an address, None if that is unknown.

        :param frame: any frame
        """
        from ompd.debugger.variables.mentioned import parameters

        return parameters(self._locals, frame, address)

    @cached_property
    def _locals(self) -> Locals:
        from ompd.debugger.variables.locals import Locals

        return Locals(self.memory, self.storage, self.module_list, self.types, self.places, self.target.architecture)
