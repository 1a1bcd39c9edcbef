"""The environment of a Linux program, as the kernel put it on the initial stack, and as it is now.

From low addresses to high, the initial stack has these parts (``fs/binfmt_elf.c``, ``create_elf_tables``): ``argc``,
the pointers to the arguments and a null, the pointers to the environment's strings and a null, the auxiliary vector,
the strings of the arguments, those of the environment, and the name of the program's file. When the program sets a
variable, the C library moves the pointers elsewhere, but the initial strings stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ompd.binary.core.notes import AT_EXECFN, AT_RANDOM
from ompd.contract.memory import Memory
from ompd.errors import CorruptState, MemoryFault, SymbolNotFound, Unavailable
from ompd.records import record

if TYPE_CHECKING:
    from ompd.debugger.memory import TargetMemory
    from ompd.debugger.modules.modules import ModuleList
    from ompd.debugger.symbols import Symbols
    from ompd.debugger.targets.base import Target

# Linux allows three quarters of 8 MB for arguments and environment, even if the stack may be larger (fs/exec.c).
LONGEST_STACK_STRINGS = _MAX_BYTES = 6 << 20
_MAX_STRING = 32 << 12  # MAX_ARG_STRLEN
_MAX_VARIABLES = 1 << 17
_MAX_CURRENT = 1 << 13
_WRITTEN_OVER = "the environment: the program has written over its arguments and what follows them"
_SEARCHED = 1 << 14
_PIECE = 1 << 12


@record
class EnvironmentBlock:
    """The strings at the end of the initial stack, by their addresses. Each of ``variables`` is a ``NAME=value``."""

    arguments: Mapping[int, bytes]
    variables: Mapping[int, bytes]
    file_name_address: int
    file_name: bytes


class _Strings(Memory, Protocol):
    def read_string(self, address: int, limit: int = ..., /) -> bytes: ...


class Environment:
    """The environment of one process at one stop."""

    def __init__(self, target: Target, memory: TargetMemory, modules: ModuleList, symbols: Symbols) -> None:
        self._target, self._memory, self._modules, self._symbols = target, memory, modules, symbols
        self._at_start: Mapping[str, str] | None = None

    def at_start(self) -> Mapping[str, str]:
        """Return the environment that the program was started with: the values of the variables by their names.

        :raises Unavailable: if the target has no initial stack, or the program has written over it
        """
        if self._at_start is None:
            self._at_start = read_environment(self._memory, self._modules.auxiliary_vector)
        return self._at_start

    def current(self) -> tuple[Mapping[str, str], bool]:
        """Return the present environment, with changes by ``setenv``, and True.

        If the present environment cannot be read, return the one that the program was started with, and False.

        :raises Unavailable: if the target has neither
        :raises CorruptState: if a part of the environment is lost
        """
        try:
            start, variables = read_current_environment(self._memory, self._symbols.find_symbol("environ"))
        except (SymbolNotFound, Unavailable):
            return self.at_start(), False
        except CorruptState:
            # A snapshot hides the variables that are not OpenMP's by overwriting them.
            if any(module.is_extract for module in self._modules):
                return self.at_start(), False
            raise
        is_on_initial_stack = 0 <= self._target.auxiliary_vector().get(AT_RANDOM, 0) - start < LONGEST_STACK_STRINGS
        if is_on_initial_stack:
            self.at_start()  # raises if the pointers that the kernel wrote are damaged
        return variables, True


def read_environment(memory: _Strings, auxiliary_vector: Mapping[int, int]) -> dict[str, str]:
    """Return the environment that the program was started with: the values of the variables by their names.

    If a name has several values, the first one counts, as for ``getenv``.

    :raises Unavailable: if the target has no initial stack, or the program has written over it
    """
    values: dict[str, str] = {}
    for string in find_environment(memory, auxiliary_vector).variables.values():
        name, equals, value = string.decode("utf-8", "replace").partition("=")
        if equals:
            values.setdefault(name, value)
    return values


def read_current_environment(memory: _Strings, environ: int) -> tuple[int, dict[str, str]]:
    """Return the address of the present pointers to the environment, and the environment.

    :param environ: the address of the C library's variable ``environ``
    :raises Unavailable: if a part of the environment is not in the target
    :raises CorruptState: if a part of the environment is lost: a string is no ``NAME=value``, the pointers do not end,
        or the memory around *environ* is all zeros
    """
    size, order = memory.pointer_size, memory.byte_order
    values: dict[str, str] = {}
    try:
        start = int.from_bytes(memory.read(environ, size), order)
        if not start and not any(memory.read(environ - environ % _PIECE, _PIECE)):
            raise CorruptState(environ, "the environment: nothing but zeros where its pointers are named")
        for number in range(_MAX_CURRENT):
            string = int.from_bytes(memory.read(start + number * size, size), order) if start else 0
            if not string:
                return start, values
            name, equals, value = memory.read_string(string, _MAX_STRING).decode("utf-8", "replace").partition("=")
            if not equals:
                raise CorruptState(string, "the environment: a variable without a value")
            values.setdefault(name, value)
    except MemoryFault as error:
        raise Unavailable(f"the environment as it is now: {error}") from error
    raise CorruptState(start, "the environment: its pointers do not end")


def find_environment(memory: _Strings, auxiliary_vector: Mapping[int, int]) -> EnvironmentBlock:
    """Return the strings of the environment and of the arguments, with their addresses.

    :raises Unavailable: if the target has no initial stack, or the program has written over it
    """
    random, file_name = auxiliary_vector.get(AT_RANDOM), auxiliary_vector.get(AT_EXECFN)
    if not random or not file_name:
        raise Unavailable("the environment: the target does not say where its strings are (AT_EXECFN, AT_RANDOM)")
    try:
        pointers, variables = _pointers(memory, auxiliary_vector, random, file_name)
        arguments = _arguments(memory, pointers, file_name)
        start = _end_of_arguments(pointers, arguments, variables, file_name)
        raw = memory.read(start, file_name - start)
        name = memory.read_string(file_name, _MAX_STRING)
    except MemoryFault as error:
        raise Unavailable(f"the environment: the initial stack is not there ({error})") from error
    if raw[-1:] != b"\0" or any(start < p < file_name and raw[p - start - 1] for p in variables):
        raise Unavailable(_WRITTEN_OVER)  # no NUL is before the file's name, or before a variable
    strings: dict[int, bytes] = {}
    address = start
    for string in raw[:-1].split(b"\0"):
        if string:
            strings[address] = string
        if len(strings) > _MAX_VARIABLES:
            raise CorruptState(start, f"an environment of more than {_MAX_VARIABLES} variables")
        address += len(string) + 1
    return EnvironmentBlock(arguments, strings, file_name, name)


def _pointers(
    memory: _Strings, auxiliary_vector: Mapping[int, int], random: int, file_name: int
) -> tuple[Sequence[int], Sequence[int]]:
    # Return the pointers to the arguments, and those to the environment's strings. They end where the auxiliary vector
    # on the stack begins, which is found by its known entries.
    size, order = memory.pointer_size, memory.byte_order
    pair = AT_EXECFN.to_bytes(size, order) + file_name.to_bytes(size, order)
    position = _find_backwards(memory, pair, random)
    while True:
        raw = memory.read(position - 2 * size, 2 * size)
        kind, value = (int.from_bytes(raw[offset : offset + size], order) for offset in (0, size))
        if kind not in auxiliary_vector or auxiliary_vector[kind] != value:
            break
        position -= 2 * size
    words = _words_before(memory, position)
    if next(words) != 0:
        raise CorruptState(position, "the environment's pointers do not end at the auxiliary vector")
    variables = []
    while word := next(words):
        variables.append(word)
    arguments: list[int] = []
    while (word := next(words)) != len(arguments):
        arguments.append(word)
    return arguments, variables


def _find_backwards(memory: _Strings, pattern: bytes, end: int) -> int:
    raw = b""
    start = end - end % memory.pointer_size
    while len(raw) < _SEARCHED:
        start -= _PIECE
        raw = memory.read(start, _PIECE) + raw
        offset = raw.rfind(pattern)
        while offset >= 0:
            if (start + offset) % memory.pointer_size == 0:
                return start + offset
            offset = raw.rfind(pattern, 0, offset + len(pattern) - 1)
    raise Unavailable("the environment: the auxiliary vector is not on the initial stack")


def _words_before(memory: _Strings, position: int) -> Iterator[int]:
    size = memory.pointer_size
    lowest = position - _MAX_BYTES
    while position > lowest:
        # Read page by page, only as far as words are needed: pages further down may be missing.
        piece = position % _PIECE or _PIECE
        raw = memory.read(position - piece, piece)
        for offset in range(piece - size, -1, -size):
            yield int.from_bytes(raw[offset : offset + size], memory.byte_order)
        position -= piece
    raise CorruptState(position, "the environment's pointers do not end")


def _arguments(memory: _Strings, pointers: Sequence[int], file_name: int) -> dict[int, bytes]:
    # The arguments that are still before the file's name, by their addresses.
    places = sorted({pointer for pointer in pointers if file_name - _MAX_BYTES < pointer < file_name})
    strings: dict[int, bytes] = {}
    total = 0
    for place in places:
        strings[place] = memory.read_string(place, min(_MAX_STRING, file_name - place))
        total += len(strings[place])
        if total > _MAX_BYTES:
            raise CorruptState(place, "the arguments overlap")
    return strings


def _end_of_arguments(
    pointers: Sequence[int], arguments: Mapping[int, bytes], variables: Sequence[int], file_name: int
) -> int:
    # Return the end of the last argument, where the environment's strings begin. But programs move and drop arguments,
    # or overwrite them with a process title. So this end is accepted only if the first variable begins there, or if all
    # arguments are adjacent.
    strings, ends = list(arguments), [place + len(text) + 1 for place, text in arguments.items()]
    if not strings:
        raise Unavailable(_WRITTEN_OVER)
    first = min((pointer for pointer in variables if strings[0] <= pointer < file_name), default=None)
    in_a_row = len(strings) == len(pointers) and strings[1:] == ends[:-1]
    if ends[-1] == first or (in_a_row and (first is None or ends[-1] < first)):
        return ends[-1]
    raise Unavailable(_WRITTEN_OVER)
