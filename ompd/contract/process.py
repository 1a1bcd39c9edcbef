"""The stopped process as plugins see it: the standards' callbacks, and more."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from ompd.contract.callbacks import Callbacks
from ompd.contract.memory import StructLayout
from ompd.records import record

_SYSTEM_LIBRARY = re.compile(
    r"(?:^|/)(?:libc|libm|libdl|librt|libpthread|ld-linux[-\w]*|ld|libgcc_s|libstdc\+\+|libresolv|libutil|libanl)"
    r"(?:-\d[\d.]*)?\.so(?:\.\d+)*(?: \(deleted\))?$|^\[?(?:vdso|linux-vdso|linux-gate)"
)


def is_system_file(name: str) -> bool:
    """Return whether a module's file has the name of a C or compiler library."""
    return _SYSTEM_LIBRARY.search(name) is not None


@record(eq=False)
class Module:
    """A file that is mapped into the process: the program, a shared library, or the vDSO. Each file has one record.

    ``name`` is the file's name in the target. ``bias`` is added to an address in the file to get the target's address
    (0 for a program that is not position-independent). ``start`` and ``end`` bound the mappings. ``path`` is the file
    on this machine, None if there is none; ``fault`` is then the reason. ``unproven`` is the reason why that file may
    differ from the mapped file, None if it is verified. Facts from an unproven file may be wrong. ``damaged_bytes`` is
    the number of bytes in the target that differ from the file.
    """

    name: str
    bias: int
    start: int
    end: int
    path: str | None
    build_id: str | None
    is_program: bool
    fault: str | None = None
    unproven: str | None = None
    damaged_bytes: int = 0

    @property
    def is_system_library(self) -> bool:
        """Whether the module is a C or compiler library, which every program uses."""
        return is_system_file(self.name)


class Frame(Protocol):
    """One frame of a native stack."""

    @property
    def pc(self) -> int:
        """The program counter; for a caller, the return address."""

    @property
    def call_site(self) -> int:
        """The address to look up in symbols and line tables: for a caller an address within the call instruction, else
        the pc.
        """

    @property
    def sp(self) -> int:
        """The stack pointer."""

    @property
    def cfa(self) -> int | None:
        """The canonical frame address, None if it is unknown."""

    @property
    def registers(self) -> Mapping[int, int]:
        """The known values of registers in this frame, by DWARF number."""

    @property
    def function_start(self) -> int | None:
        """The function's start according to unwind data, None if none covers the pc."""

    @property
    def is_signal_frame(self) -> bool:
        """Whether this is the kernel's frame below a signal handler."""

    @property
    def how(self) -> str:
        """How the frame was found. ``innermost``: by the thread's own registers. ``cfi``: by the unwind data of the
        next inner frame, or by the registers that the kernel saved for a signal. The other two are guesses.
        ``frame-pointer``: by the next inner frame's frame pointer. ``scan``: by a word on the stack that looks like a
        return address.
        """

    @property
    def guessed(self) -> bool:
        """Whether the frame may be wrong, because it or a frame inside of it was found by a guess."""


class SourceFrame(NamedTuple):
    """A function in the source at an address of code.

    ``function`` is the function's name with scopes and template arguments, without parameters, None if it is unknown.
    Functions that compilers make from OpenMP constructs keep their linker name. ``file`` and ``line`` are None without
    debug information. ``inlined`` is True for all functions at the address except the outermost, whose code contains
    the others.
    """

    function: str | None
    file: str | None
    line: int | None
    inlined: bool


Shape = tuple[tuple[int, ...], tuple[int, ...]]
"""The pc of each frame of a stack, innermost first, and the call site of each."""


class Stack:
    """A thread's stack: its frames, innermost first.

    ``stopped`` is the reason why unwinding stopped early, None for a whole stack. ``innermost`` is the first frame,
    None without frames. ``shape`` is equal for stacks whose frames execute the same code, as most stacks of a team do.
    Facts that follow from code need to be derived only once for each shape.

    :param shape: the shape of the frames, if it is known
    """

    __slots__ = ("frames", "innermost", "shape", "stopped")

    def __init__(self, frames: tuple[Frame, ...], stopped: str | None, shape: Shape | None = None) -> None:
        self.frames = frames
        self.stopped = stopped
        self.shape = shape_of(frames) if shape is None else shape
        self.innermost = frames[0] if frames else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stack) and (self.stopped, self.frames) == (other.stopped, other.frames)

    __hash__ = None  # type: ignore[assignment]


def shape_of(frames: tuple[Frame, ...]) -> Shape:
    """Return the shape of a stack with these frames."""
    return tuple([frame.pc for frame in frames]), tuple([frame.call_site for frame in frames])


@record
class Location:
    """The module and the symbol that cover an address, each None if there is none."""

    address: int
    module: Module | None
    symbol: str | None
    symbol_address: int | None


class TailCall(NamedTuple):
    """A call that ends a function: the ``address`` of the jump, the start of the ``function`` that contains it, and the
    start of its ``target``.
    """

    address: int
    function: int
    target: int


@record
class Variable:
    """An object in static storage, by its expression in the source: ``lock``, ``table.rows[2].lock``."""

    expression: str
    address: int


@record
class CallResult:
    """The result of a function of the target that was decoded or emulated.

    ``value`` is the whole result register, unsigned; for a narrower type the upper part is undefined. ``reads`` are the
    address and size in bytes of each read, in order: of variables, and of the memory through which code finds them,
    such as entries of the global offset table or the thread's control block. Reads of the function's own stack are left
    out.
    """

    value: int
    reads: tuple[tuple[int, int], ...]

    @property
    def as_int(self) -> int:
        """The result of a function that returns a C ``int``."""
        value = self.value & 0xFFFFFFFF
        return value - (1 << 32) if value >> 31 else value


class Process(Callbacks, Protocol):
    """One process at one stop. Computed facts are cached until the stop ends."""

    @property
    def lasting(self) -> dict[tuple[str, int], object]:
        """A plugin's facts that outlast a stop, by the plugin's name and the start of its module. The plugin has to
        check that they still hold.
        """

    def check_current(self) -> None:
        """Check that facts which were already read are still valid. Reading memory makes the same check.

        :raises StaleHandle: if the process has run since
        """

    @property
    def architecture_name(self) -> str:
        """The psABI's name of the processor, such as ``x86_64``."""

    def callbacks(self, module: Module) -> Callbacks:
        """Return the callbacks that OMPD and DMPL define, for the runtime in *module*. They look for symbols and types
        in *module* first.
        """

    def modules(self) -> Sequence[Module]:
        """Return all mapped modules, by address."""

    def module_at(self, address: int) -> Module | None:
        """Return the module that has *address* mapped, None for anonymous memory."""

    def symbol_in(self, module: Module, name: str) -> int | None:
        """Return the address of symbol *name* of *module*, None if it has none."""

    def symbols_in(self, module: Module, names: Sequence[str]) -> Mapping[str, int]:
        """Return the addresses of the symbols *names* that *module* has."""

    def symbols_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        """Return the names and addresses of all symbols, in all modules, whose names begin with *prefix*."""

    def variable_ranges(self, module: Module) -> Sequence[tuple[int, int, int]]:
        """Return the ranges that hold the variables of *module*: for each writable segment its start, the start of its
        zero-initialised part, and its end. Empty without the module's file.
        """

    def struct_layout(self, module: Module, name: str, members: Sequence[str]) -> StructLayout:
        """Return the layout of type *name* from the debug information of *module*; members that the type lacks are
        absent.

        :raises LayoutUnavailable: if *module* has no debug information
        :raises TypeNotFound: if the debug information does not have the type
        """

    def threads(self) -> Sequence[int]:
        """Return the operating system's identifiers of all threads, in the target's order."""

    def registers(self, thread: int) -> Mapping[str, int]:
        """Return a thread's registers by the psABI's lower-case names, including the thread pointer."""

    def thread_pointer(self, thread: int) -> int:
        """Return the thread pointer, from which the addresses of static thread-local variables count."""

    def pthread_self(self, thread: int) -> int:
        """Return the value of ``pthread_self()`` in *thread*."""

    def stack(self, thread: int, *, guess: bool = False) -> Stack:
        """Return the native stack of *thread*.

        :param guess: where unwind data ends, continue with guessed frames; see :attr:`Frame.guessed`
        """

    def locate(self, address: int) -> Location:
        """Return the module and symbol of *address*. It never fails: unknown parts are None."""

    def line_of(self, address: int) -> tuple[str | None, int | None]:
        """Return file and line of *address*, ``(None, None)`` without debug information."""

    def source_frames(self, address: int) -> Sequence[SourceFrame]:
        """Return the functions in the source at a code address (a frame's ``call_site``), innermost first: the inlined
        functions, then the function that contains the address.

        The innermost function's line is the line of the code at the address. Every other function's line is the line
        where it calls the function before it. The result has at least one entry, whose function may be unknown.
        """

    def variables_of_type(self, module: Module, names: Sequence[str]) -> Sequence[Variable]:
        """Return the objects in static storage of *module* whose type is one of *names*, each address once.

        Objects are variables, global or not, elements of arrays, and members of structures. Empty without debug
        information.
        """

    def routine_called(self, pc: int) -> str | None:
        """Return the name of the function that the instruction before *pc* calls, None if the code does not show it.

        If the called function ended by a jump, the next inner frame belongs to another function.
        """

    def addresses_passed(self, pc: int, routine: int | None = None) -> Sequence[int]:
        """Return the addresses of functions and variables that the call before *pc* passes as arguments, if debug
        information shows these.

        :param routine: the start of the routine that received the arguments, if the called function ended by a jump to
            that routine
        """

    def arguments_passed(self, frame: Frame) -> Sequence[int | None]:
        """Return the first arguments, numbers or pointers, of the call that a caller's frame is in. An argument that
        the code does not show is None. Empty if the code cannot be followed.
        """

    def object_passed(self, frame: Frame) -> int | None:
        """Return the address that a caller's frame has passed to the OpenMP or POSIX routine it called: the address of
        a lock, or of a critical section's variable. None if the code does not show it.
        """

    def calls_by_pointer(self, pc: int) -> bool | None:
        """Return whether the instruction before *pc* calls through a pointer, so that the code does not name the
        function.

        None if the code does not show it.
        """

    def function_called(self, frame: Frame) -> int | None:
        """Return the start of the function that a caller's frame called through a pointer, None if it is unknown.

        If the called function ended by a jump (a tail call), the next inner frame belongs to another function.
        """

    def tail_calls(self, function: int, reached: int) -> Sequence[Sequence[TailCall]]:
        """Return the chains of tail calls, which leave no frame, from the function at *function* to the function at
        *reached*. Empty if there is no chain, or too many.
        """

    def is_linkage(self, address: int) -> bool:
        """Return whether *address* is in an entry of a linkage table, through which modules call each other's
        routines.
        """

    def futex_word(self, frame: Frame) -> int | None:
        """Return the address of the word on which a thread with this innermost frame sleeps, None if the thread is in
        no system call. Only for frames whose code makes no system call but ``futex``.
        """

    def progress(self, thread: int, flags: int = 0) -> str | None:
        """Return how a waiting thread waits: ``blocked`` if it sleeps in the kernel; ``released`` if it still sleeps,
        but the word it sleeps on has changed, so that it will soon continue; ``spinning`` if it uses processor time.
        None if this is unknown.

        :param flags: the bits of the word that may change without releasing the thread
        """

    def environment(self) -> Mapping[str, str]:
        """Return the environment with which the process was started.

        :raises Unavailable: if the target does not hold it
        """

    def call(self, routine: int, thread: int, arguments: Sequence[int] = ()) -> CallResult:
        """Run the target's own *routine* on its frozen memory, as *thread*, in an emulator.

        Nothing runs or changes in the target. A routine may return outdated facts: before using a result, make the
        checks that the runtime's own code makes before calling the routine.

        :param routine: the routine's address, from :meth:`symbol_in`
        :param arguments: at most six integers or pointers; a negative number stands for a value of a signed C type
        :raises Unavailable: if the routine would write or call the kernel, does not end, or reaches code that is
            unverified or cannot be emulated, or if there is no emulator; the message gives the reason
        :raises BadInput: if there is no such thread, or a number that is not an address
        """

    def evaluate(self, routine: int, thread: int, nulls: Collection[int] = ()) -> CallResult:
        """Return the result and the reads of the target's own *routine*, executed as *thread*. The routine takes no
        arguments.

        A routine that only loads is decoded, without an emulator; any other routine runs in :meth:`call`. The remark
        there about outdated results holds for both.

        :param nulls: the addresses of pointers that the routine reads as null; it must then only load

        :raises Unavailable: if neither is possible; the message gives the reason
        """

    def thread_local_block(self, module: Module, thread: int) -> tuple[int, int] | None:
        """Return address and size in bytes of *thread*'s storage for the thread-local variables of *module*, None if
        the module has no such variables.

        :raises NoStorage: if the thread has no such storage yet
        :raises Unavailable: if this C library does not show the storage, or the module's file is unknown
        :raises CorruptState: if the loader's structures contradict themselves
        """
