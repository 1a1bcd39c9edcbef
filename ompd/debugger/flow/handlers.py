"""The possible signal handlers of a process, and whether the code of one may set another thread free.

The kernel reports which signals have handlers, but not the handlers themselves. So this module searches the code for
calls that install handlers. It follows the arguments of these calls, and then the calls in the handlers.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ompd import naming
from ompd.binary.elf.dynamic import DynamicLinking
from ompd.binary.elf.elf import ElfFile
from ompd.binary.elf.symbols import SymbolTable
from ompd.contract.memory import read_pointer
from ompd.contract.process import Location
from ompd.debugger.flow.call_targets import UNKNOWN
from ompd.debugger.flow.code import Code
from ompd.debugger.flow.functions import Functions
from ompd.debugger.flow.state import MASK, State, Value, added, number_of
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.stacks.calls import Calls
from ompd.errors import OmpdError
from ompd.isa.architecture import Architecture
from ompd.isa.instructions import Processor
from ompd.isa.processors import processor_of

# Functions that install a handler: their second argument is the handler, or the address of a structure that begins with
# the handler.
_BY_ADDRESS = ("signal", "bsd_signal", "sysv_signal", "ssignal", "sigset")
_BY_STRUCTURE = ("sigaction",)
_BY_NUMBER = "syscall"  # its first argument is the number of the system call
_WITH_UNDERSCORES = ("__sysv_signal", "__bsd_signal", "__sigaction")
# libgfortran's routines for programs in Fortran. Their arguments are not followed.
_OF_FORTRAN = (
    *("_gfortran_signal_func", "_gfortran_signal_func_int", "_gfortran_signal_sub", "_gfortran_signal_sub_int"),
    *("_gfortran_alarm_sub_i4", "_gfortran_alarm_sub_i8", "_gfortran_alarm_sub_int_i4", "_gfortran_alarm_sub_int_i8"),
)
_WITHOUT_RESTART = ("sysv_signal", "sigset")
# Functions whose arguments are followed.
_FOLLOWED = (*_BY_ADDRESS, *_BY_STRUCTURE, _BY_NUMBER, *_WITH_UNDERSCORES)
_INTERRUPTS = "siginterrupt"  # removes SA_RESTART
_INSTALLERS = (*_FOLLOWED, *_OF_FORTRAN, _INTERRUPTS)
# A sleeping thread does not cause these signals, but a handler that interrupts it may.
_FAULTS = frozenset((signal.SIGILL, signal.SIGTRAP, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS))
_SIGNALS = frozenset(range(1, 65)) - _FAULTS - {32, 33}  # glibc reserves these two
_NO_FUNCTIONS = (0, 1, 2, MASK)  # SIG_DFL, SIG_IGN, SIG_HOLD, SIG_ERR
# Libraries whose handlers print the stack and end the process: libgfortran (runtime/compile_options.c), Open MPI
# (opal/util/stacktrace.c), PMIx, and UCX (ucs/debug/debug.c). libevent's handler writes to a private socket (signal.c).
# OpenSSL's handlers exist only while it prompts for a password (crypto/ui/ui_openssl.c).
_KNOWN = re.compile(
    r"(?:^|/)lib(?:(gfortran)|open-pal|pmix|ucs|event(?:_core|_pthreads)?|crypto)(?:-[0-9a-f.]+)*\.so(?:\.\d+)*"
    r"(?: \(deleted\))?$"
)
_BY_GFORTRAN = (signal.SIGQUIT, signal.SIGABRT, signal.SIGXCPU, signal.SIGXFSZ, *_FAULTS)
# libomp may install handlers for these signals (KMP_HANDLE_SIGNALS; z_Linux_util.cpp). They end the process, too.
_BY_LIBOMP = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT, signal.SIGTERM, signal.SIGPIPE),
    *_FAULTS,
)
# A symbol by which CPython is known. Its handlers set no thread free: one records the signal (Modules/signalmodule.c),
# and faulthandler's writes stacks.
_OF_PYTHON = "PyErr_CheckSignals"
# Functions that set no thread free: they write, end the process, or send a signal, whose handler is checked, too.
_HARMLESS = re.compile(
    r"write|read|open|close|fsync|lseek|getpid|getppid|gettid|time|clock_gettime|gettimeofday|times|clock|kill|raise|abort"
    r"|_exit|_Exit|signal|sigaction|sigemptyset|sigfillset|sigaddset|sigdelset|alarm|setitimer|pthread_self|pthread_kill"
    r"|v?sn?printf|strsignal|strerror|errno_location"
    r"|mem(?:set|cpy|move|cmp|chr)|str(?:n?len|n?cpy|n?cat|n?cmp|r?chr)|malloc|calloc|realloc|free|sleep|usleep|nanosleep"
    r"|backtrace(?:_symbols(?:_fd)?)?|stack_chk_fail|omp_get_\w+|kmpc_global_thread_num|sched_yield"
)
# Functions that set no thread free, unless the program defines streams or conversions: they would run its code.
_OF_STREAMS = re.compile(r"v?f?printf|f?puts|f?putc|putchar|fflush|fwrite|perror|psignal")
_MAKES_STREAMS = ("fopencookie", "register_printf_function", "register_printf_specifier")
_MAX_FUNCTIONS = 64
_MAX_CODE = 1 << 25  # of one module: OpenBLAS has 20 MB


class Handler(NamedTuple):
    """A possible handler in a process, for the signal ``number``, None if unknown.

    If it ``releases``, it may set other threads free, or leave its own thread's wait by a jump. If it ``ends``, it was
    installed without SA_RESTART. Then a wait for a semaphore that it interrupts may end when the handler returns. If it
    ``writes``, it may write to any word of the program.
    """

    number: int | None
    releases: bool
    ends: bool = True
    writes: bool = True

    def may_come(self, blocked: Collection[int]) -> bool:
        """Return whether the handler may run in a thread with these signals *blocked*."""
        return self.number not in blocked if self.number is not None else bool(_SIGNALS.difference(blocked))


_UNKNOWN = Handler(None, releases=True)


class Handlers:
    """The handlers of one process at one stop.

    :param modules_naming: yields the modules that have or refer to symbols of some names; see :meth:`Symbols.naming`
    :param functions: the functions of the process, made with :meth:`Unbound.locate`, so that linkage table entries that
        were not called yet have names, too
    :param is_users: returns whether code at an address is the user's
    """

    def __init__(
        self,
        memory: TargetMemory,
        modules: ModuleList,
        modules_naming: Callable[[Collection[str]], Iterable[tuple[LoadedModule, Collection[str] | None]]],
        architecture: Architecture,
        calls: Calls,
        locate: Callable[[int], Location],
        functions: Functions,
        is_users: Callable[[int], bool],
    ) -> None:
        self._modules_naming = modules_naming
        self._memory, self._architecture, self._modules = memory, architecture, modules
        self._calls, self._locate = calls, locate
        self._functions, self._is_users = functions, is_users
        self._processor = processor = processor_of(architecture.e_machine)
        self._code = Code(memory, modules, processor, locate)
        self._releases: dict[int, bool] = {}

    def all(self, caught: Collection[int] | None) -> list[Handler]:
        """Return the handlers that may run while threads wait, and may set one free, end its wait, or write a word.

        :param caught: the numbers of the signals that have handlers, None if they are unknown
        """
        handlers: set[Handler] = set()
        for loaded, names in self._modules_naming(_INSTALLERS):
            library = _KNOWN.search(loaded.name)
            if naming.is_runtime_file(loaded.name):
                handlers.update(_by_library(number) for number in _BY_LIBOMP)
            elif library is not None:
                handlers.update(_by_library(number) for number in (_BY_GFORTRAN if library[1] else (None,)))
            else:
                handlers.update(self._of(loaded, names))
        if caught is not None:
            # A caught signal without a known call that installs its handler may have any handler.
            by_number = {n: [handler for handler in handlers if handler.number in (None, n)] for n in caught}
            handlers = {
                handler._replace(number=number)
                for number, possible in by_number.items()
                for handler in possible or (_UNKNOWN,)
            }
        if any(handler.releases and handler.number in _FAULTS for handler in handlers):
            # The handler of another signal may cause a fault, or raise its signal.
            handlers = {handler._replace(releases=True) for handler in handlers}
        relevant = [
            handler
            for handler in handlers
            if (handler.releases or handler.ends or handler.writes)
            and (handler.number is None or handler.number in _SIGNALS)
        ]
        return sorted(relevant, key=lambda handler: (not handler.releases, handler.number or 0))

    def _of(self, loaded: LoadedModule, names: Collection[str] | None) -> Iterator[Handler]:
        # The handlers that a module may have installed.
        if names is None or loaded.elf is None or loaded.symbols is None or self._processor is None:
            yield _UNKNOWN
        elif loaded.symbols.find(_OF_PYTHON) is not None:
            yield Handler(None, releases=False, writes=False)
        elif any(name in _OF_FORTRAN for name in names):
            yield _UNKNOWN
        else:
            try:
                for call, name in self._installing_calls(loaded, loaded.elf, loaded.symbols, self._processor):
                    for handler in self._installed(call, name, self._processor):
                        yield handler._replace(ends=handler.ends or _INTERRUPTS in names)
            except OmpdError:
                yield _UNKNOWN

    def _installing_calls(
        self, loaded: LoadedModule, elf: ElfFile, symbols: SymbolTable, processor: Processor
    ) -> Iterator[tuple[int | None, str]]:
        # The addresses of calls that install handlers, each with the called function's name. The address is None if
        # code only takes the function's address.
        yield from ((None, name) for name in symbols.passed_on(_FOLLOWED))
        functions = {symbol.address + loaded.bias: name for name, symbol in symbols.find_many(_FOLLOWED).items()}
        words: dict[int, str] = {}
        if functions:  # a static program, or one with functions of these names
            words.update(
                (word, functions[to]) for word, to in self._code.words_with(functions, elf, loaded.bias).items()
            )
        for link_address, relocation, name in DynamicLinking(elf).words(_FOLLOWED):
            word = link_address + loaded.bias
            if relocation == self._architecture.word_relocation:
                yield None, name
                continue
            function = read_pointer(self._memory, word)
            # A word without the function was not called through: the function is missing, or not bound yet.
            if function in functions or (function is not None and self._code.module_at(function) is not loaded):
                words[word] = name
        leads_to = {**functions, **words}
        stubs: dict[int, str] = {}
        for place, address, is_load, is_through in self._code.references_to(leads_to, elf, loaded.bias, _MAX_CODE):
            if (is_load or is_through) == (address not in words):
                continue
            if self._calls.is_stub(place):
                function = read_pointer(self._memory, address)
                starts = range(place, place - processor.max_size, -1)
                stubs.update((stub, leads_to[address]) for stub in starts if self._goes_to(stub, function))
            else:
                yield (None if is_load else place), leads_to[address]
        for place, address, _, _ in self._code.references_to(stubs, elf, loaded.bias, _MAX_CODE):
            if not self._calls.is_stub(place):
                yield place, stubs[address]

    def _goes_to(self, stub: int, function: int | None) -> bool:
        try:
            return self._calls.leads_to(stub, None) == function
        except OmpdError:
            return False

    def _installed(self, call: int | None, name: str, processor: Processor) -> Iterator[Handler]:
        try:
            states = self._functions.states_before(call) if call is not None else ()
        except OmpdError:
            states = ()
        signals = processor.signals
        if not states:
            yield _UNKNOWN
        for state in states:
            first, second = (state.registers.get(register) for register in processor.arguments[:2])
            number = number_of(first)
            if _plain(name) == _BY_NUMBER:
                if number is None or number == signals.rt_sigaction:
                    yield _UNKNOWN
                continue
            handler, ends = number_of(second), _plain(name) in _WITHOUT_RESTART
            if _plain(name) in _BY_STRUCTURE:
                if handler == 0:
                    continue  # without a structure, the call only queries the handler
                flags = _member(state, second, signals.sa_flags, 4)
                ends = flags is None or not flags & signals.sa_restart
                handler = _member(state, second, 0, 8)
            if handler is None:
                yield Handler(number, releases=True)
            elif handler not in _NO_FUNCTIONS:
                yield Handler(number, self._may_release(handler), ends)

    def _may_release(self, handler: int) -> bool:
        if handler not in self._releases:
            try:
                self._releases[handler] = not self._is_harmless(handler)
            except OmpdError:
                self._releases[handler] = True
        return self._releases[handler]

    def _is_harmless(self, handler: int) -> bool:
        functions = self._functions
        if self._processor is None or not self._is_users(handler) or functions.releases.of(handler) != frozenset():
            return False
        checked, waiting = {handler}, [handler]
        while waiting:
            function = waiting.pop()
            extent = self._modules.function_extent(function)
            if extent is None or extent[0] != function or len(checked) > _MAX_FUNCTIONS:
                return False
            if self._processor.system_call in self._memory.read_code(function, extent[1] - function):
                return False
            for call, target in functions.targets.calls_in(function):
                if target in checked:
                    continue
                checked.add(target)
                if target == UNKNOWN or self._is_by_variable(call, self._processor):
                    return False
                place = self._locate(target)
                name = _plain(place.symbol or "") if place.symbol_address == target else ""
                if functions.targets.is_routine(target) or (self._does_no_harm(name) and not self._is_users(target)):
                    continue
                if name == _BY_NUMBER and self._is_harmless_call(call, self._processor):
                    checked.discard(target)  # syscall() may be called again, with another number
                    continue
                if not self._is_users(target):
                    return False
                waiting.append(target)
        return True

    def _does_no_harm(self, name: str) -> bool:
        return bool(_HARMLESS.fullmatch(name) or (_OF_STREAMS.fullmatch(name) and not self._makes_streams))

    @cached_property
    def _makes_streams(self) -> bool:
        return any(True for _ in self._modules_naming(_MAKES_STREAMS))

    def _is_by_variable(self, call: int, processor: Processor) -> bool:
        # Whether the call goes through a writable word in memory, which may hold any function.
        instruction = processor.decode(self._memory.read_code(call, processor.max_size), 0, call)
        return instruction is None or (instruction.word is not None and self._code.constant(instruction.word) is None)

    def _is_harmless_call(self, call: int, processor: Processor) -> bool:
        states = self._functions.states_before(call)
        numbers = [number_of(state.registers.get(processor.arguments[0])) for state in states]
        return bool(numbers) and all(number in processor.signals.harmless for number in numbers)


class Unbound:
    """Finds names for the entries of linkage tables whose functions were not called yet.

    :param locate: returns the symbol and module of an address
    """

    def __init__(
        self,
        memory: TargetMemory,
        modules: ModuleList,
        architecture: Architecture,
        calls: Calls,
        locate: Callable[[int], Location],
    ) -> None:
        self._memory, self._modules, self._calls, self._locate = memory, modules, calls, locate
        self._patterns, self._jump_slot = architecture.calls, architecture.jump_slot

    def locate(self, address: int) -> Location:
        """Return the symbol and module of an address; in a linkage table, the symbol that the entry refers to."""
        place = self._locate(address)
        if place.symbol_address == address or not self._calls.is_stub(address):
            return place
        try:
            name = self._name(address)
        except OmpdError:
            return place
        return Location(address, place.module, name, address) if name is not None else place

    def _name(self, address: int) -> str | None:
        loaded = self._modules.at(address)
        if loaded is None or loaded.elf is None or self._patterns is None or self._patterns.unbound is None:
            return None
        pushed = re.match(self._patterns.unbound, self._memory.read_code(address, self._patterns.unbound_size))
        if pushed is None:
            return None
        index = int.from_bytes(pushed[1], self._memory.byte_order)
        return DynamicLinking(loaded.elf).wanted(index, self._jump_slot).name


def _by_library(number: int | None) -> Handler:
    return Handler(number, releases=False, ends=False, writes=False)


def _plain(symbol: str) -> str:
    # The name of a function of the C library or a runtime, without prefixes of aliases and suffixes of checks.
    name = naming.routine_name(symbol).removeprefix("__GI_").removeprefix("_IO_")
    return name if name in ("_exit", "_Exit") else name.lstrip("_").removesuffix("_chk")


def _member(state: State, structure: Value | None, offset: int, width: int) -> int | None:
    # The number at *offset* in a structure in the frame, None if it is unknown or not of this width.
    slot = state.slot_at(added(structure, offset))
    return number_of(slot.value) if slot is not None and slot.width == width else None
