"""One variable in all threads of one stop: addresses of its copies, their values, and whether they are initialised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from ompd.binary.elf.symbols import Symbol
from ompd.binary.types.formatter import ValueFormatter
from ompd.binary.types.layouts import TypeReader
from ompd.binary.types.parts import Part, PartFinder, Step
from ompd.binary.types.scalars import format_integer
from ompd.binary.types.shown import Json, Options, Shown
from ompd.binary.types.type_names import type_name
from ompd.contract.memory import read_unsigned
from ompd.debugger.variables.choices import EMUTLS, GLOBAL, TLS, StaticVariable
from ompd.errors import BadInput, NoStorage, OmpdError, Unavailable

if TYPE_CHECKING:
    from ompd.debugger.process import StoppedProcess

_MAX_WORDS = 64
_MAX_DIGESTED = 1 << 22


class VariableReader:
    """One variable, or a part of one, in each thread of one stop.

    :param steps: the steps to the part, see :func:`parse_name`
    :param letter: the format of values; for *letter* and *elements* see :class:`Options`
    """

    def __init__(
        self,
        process: StoppedProcess,
        variable: StaticVariable,
        steps: Sequence[Step],
        *,
        letter: str = "",
        elements: int = 200,
    ) -> None:
        self._process = process
        self.variable = variable
        self._steps = steps
        self._options = Options(letter=letter, elements=elements, x87=process.target.architecture.x87)
        self._shown: dict[int, tuple[int, Shown, str | None]] = {}
        self._guards: list[Symbol] | None = None
        bias = variable.module.bias
        self._types = TypeReader(variable.info, process.memory.read_data, bias) if variable.info is not None else None

    def address(self, thread: int) -> int | None:
        """Return the address of the whole variable in *thread*, None if the thread has no storage for it yet.

        :raises Unavailable: if the variable has no place, or an unknown one
        """
        variable = self.variable
        if variable.module.unproven is not None:
            raise Unavailable(
                f"{variable.module.name}: its variables are not read, since it is {variable.module.unproven}"
            )
        if variable.mechanism == GLOBAL:
            return variable.offset
        if variable.mechanism == TLS:
            try:
                return self._thread_local(variable.offset, variable.size or 0, variable.name, thread)
            except NoStorage:
                return None
        if variable.mechanism == EMUTLS:
            return self._process.emulated_tls.address(variable.offset, thread)
        raise Unavailable(f"{variable.name}: {variable.fault}")

    def _thread_local(self, offset: int, size: int, name: str, thread: int) -> int:
        module = self._process.symbols.loaded(self.variable.module)
        assert module is not None
        return self._process.storage.offset_address(module, offset, size, name, thread)

    def show(self, address: int | None) -> tuple[int | None, Shown, str | None]:
        """Return address, value and type of the requested part, in the copy at *address*.

        :param address: None for a variable that the compiler turned into a constant
        :raises OmpdError: if the part cannot be read, or its type is unknown
        """
        if address is None:
            return None, *self._constant()
        if address not in self._shown:
            self._process.memory.check_data(address)
            self._shown[address] = self._show(address)
        return self._shown[address]

    def digest(self, address: int) -> str | None:
        """Return a digest of the value at *address*, None if it cannot be read as a whole.

        It distinguishes values with the same beginning. Only the first megabytes of very large variables count.
        """
        size = min(self.variable.size or 0, _MAX_DIGESTED)
        if not size or self._steps:
            return None
        try:
            return f"{crc32(self._process.memory.read_data(address, size)):08x}"
        except OmpdError:
            return None

    def _constant(self) -> tuple[Shown, str | None]:
        variable = self.variable
        if variable.constant is None or variable.type is None or self._types is None:
            raise Unavailable(f"{variable.name}: {variable.fault}")
        if self._steps:
            raise Unavailable(f"{variable.name} is a constant of the compiler, no part of which is in memory")
        shown = self._formatter(self._types).show(variable.type, variable.constant)
        return shown, type_name(self._types.info, variable.type)

    def _show(self, address: int) -> tuple[int, Shown, str | None]:
        variable = self.variable
        if variable.members and self._types is not None:
            return self._show_block(self._types, address)
        if variable.type is None or self._types is None:
            if self._steps:
                raise BadInput(f"the parts of {variable.name} are unknown: {self.untyped}")
            return address, self._words(address), None
        part = PartFinder(self._types).select(variable.type, address, self._steps)
        return part.address, self._formatter(self._types).show_part(part), type_name(self._types.info, part.type)

    def _formatter(self, types: TypeReader) -> ValueFormatter:
        return ValueFormatter(types, self._options, self._process.places.symbolize)

    def _show_block(self, types: TypeReader, address: int) -> tuple[int, Shown, str | None]:
        if self._steps:
            raise BadInput("the members of a COMMON block are named with it, as in /block/member")
        texts: list[str] = []
        values: dict[str, Json] = {}
        truncated = False
        for name, offset, type_ in self.variable.members:
            shown = self._formatter(types).show_part(Part(type_, address + offset))
            texts.append(f"{name} = {shown.text}")
            values[name] = shown.value
            truncated = truncated or shown.truncated
        return address, Shown(f"( {', '.join(texts)} )", values, truncated), "COMMON block"

    @property
    def type(self) -> str | None:
        """The name of the type, None if it is unknown or depends on the value."""
        variable = self.variable
        if variable.members:
            return "COMMON block"
        return type_name(variable.info, variable.type) if variable.info is not None and not self._steps else None

    @property
    def untyped(self) -> str:
        """The reason why the type is unknown."""
        return f"no debug information of {self.variable.module.name} describes its type"

    def _words(self, address: int) -> Shown:
        # Without a type, a value of the size of a number is shown as a number, others as words.
        size = self.variable.size
        if self.variable.mechanism == EMUTLS:
            size = self._process.emulated_tls.control(self.variable.offset).size
        if not size:
            raise Unavailable(f"{self.variable.name}: {self.untyped}, and its symbol no size")
        order = self._process.memory.byte_order
        unit = next(unit for unit in (8, 4, 2, 1) if size % unit == 0)
        count = min(size // unit, _MAX_WORDS)
        raw = self._process.memory.read_data(address, count * unit)
        letter = self._options.letter if self._options.letter in ("x", "d", "u", "o", "t", "z") else "z"
        words = [
            format_integer(int.from_bytes(raw[offset : offset + unit], order), letter, unit)
            for offset in range(0, len(raw), unit)
        ]
        if size == unit:
            return Shown(words[0], words[0], False)
        cut = count * unit < size
        values: list[Json] = list(words)
        return Shown(f"{{{', '.join(words)}{'...' if cut else ''}}}", values, cut)

    # Variables of C++ with dynamic initialisation

    def initialised(self, thread: int) -> bool | None:
        """Return whether the initialiser of the copy of *thread* has run, None without an initialiser.

        A thread runs it at its first use of the variable, or of another variable in the same file.

        :raises Unavailable: if this variable's guard is unknown
        """
        if self.variable.mechanism != TLS or self.variable.is_fortran or self.variable.info is None:
            return None
        if self._guards is None:
            self._guards = self._process.types.named.guards(self.variable)
        if not self._guards:
            return None
        if len(self._guards) > 1:
            raise Unavailable(f"{self.variable.name}: several guards may be those of its initialisation")
        guard = self._guards[0]
        try:
            where = self._thread_local(guard.address, guard.size, guard.name, thread)
        except NoStorage:
            return False
        return bool(read_unsigned(self._process.memory, where, 1))
