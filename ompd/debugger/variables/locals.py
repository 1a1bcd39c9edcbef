"""The variables of frames: the variables of a function at an address, their places in the frame, and values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import partial
from typing import NamedTuple, cast

from ompd import naming
from ompd.binary.dwarf import constants as dw
from ompd.binary.dwarf.forms import Value
from ompd.binary.dwarf.index import EntryRef
from ompd.binary.dwarf.lists import location_at
from ompd.binary.dwarf.location import (
    FrameContext,
    derefs_through,
    find_pieces,
    read_pieces,
)
from ompd.binary.types.formatter import ValueFormatter
from ompd.binary.types.layouts import REFERENCES
from ompd.binary.types.locals import Key, LocalVariable, declared_in, find_around, find_scopes
from ompd.binary.types.parts import PartFinder, Step
from ompd.binary.types.shown import Options, Shown
from ompd.binary.types.type_names import type_name
from ompd.binary.types.types import TypeInfo
from ompd.contract.process import Frame
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.places import Places
from ompd.debugger.threads.tls import ThreadLocalStorage
from ompd.debugger.variables.frame_sizes import kept_frame_size
from ompd.debugger.variables.frame_types import LAID, FrameTypes
from ompd.debugger.variables.types import Types
from ompd.errors import OmpdError, Unavailable, Unsupported
from ompd.isa.architecture import Architecture
from ompd.records import record

_ADDRESS_OPERATIONS = frozenset((dw.DW_OP_ADDR, dw.DW_OP_ADDRX, dw.DW_OP_GNU_ADDR_INDEX))
_TLS_OPERATIONS = frozenset((dw.DW_OP_FORM_TLS_ADDRESS, dw.DW_OP_GNU_PUSH_TLS_ADDRESS))
_MAX_ROWS = 512
_MAX_REFERENCES = 64
_MAX_BOUND_BYTES = 8
_NO_PLACE = "optimized out"

Parts = Callable[[str], Sequence[Step]]
"""Given a variable's name, returns the steps to the requested part of the variable, no steps for all of it."""


class LocalValue(NamedTuple):
    """A variable of a function, with its value in one frame.

    ``name`` is ``""`` for a variable without a name. ``type`` is spelled as in the source. For a reference,
    ``referred`` is the referent's type, and ``address`` and ``shown`` are the referent's. ``address`` is None outside
    of memory. ``shown`` is None if the value is unknown, with the reason in ``fault``. ``depth`` counts the enclosing
    blocks, ``line`` is the line of the declaration. ``is_artificial`` marks a variable of the compiler itself.
    ``is_copy`` marks a variable that an enclosing function has, too, by the same declaration in the source. ``derefs``
    is for variables reached through the argument of a construct's function (gcc): 0 for a member of the structure to
    which the argument points, 1 for the target of a pointer in that structure; None otherwise. ``register`` is the
    register that holds the whole variable, None without one. ``storage`` is ``frame``, ``static``, ``thread`` for
    thread-local storage, or ``""`` if unknown.
    """

    name: str
    type: str | None
    referred: str | None
    shown: Shown | None
    address: int | None
    fault: str | None
    depth: int
    line: int | None
    is_parameter: bool
    is_artificial: bool
    is_copy: bool
    derefs: int | None
    storage: str
    register: int | None


@record
class FunctionLocals:
    """The variables of a frame's function, innermost block first; ``fault`` is the reason if they are unknown."""

    variables: tuple[LocalValue, ...]
    fault: str | None = None


class _Prepared(NamedTuple):
    # Facts from the file about a variable at one address.
    variable: LocalVariable
    value: LocalValue
    expression: bytes | None
    fault: str | None


class _Code(NamedTuple):
    # Facts from the file about an address: the functions there, innermost first, and the base of their frame. If the
    # base is the stack pointer, frame_size is the distance from it to the CFA between calls, None if unknown.
    scopes: list[list[_Prepared]]
    by_entry: dict[Key, _Prepared]
    frame_base: bytes | None
    by_stack_pointer: bool
    frame_size: int | None


class _ModuleLocals:
    """The variables of one module's functions.

    :param info: the module's types
    :param stack_pointer: the number of the stack pointer's register in debug information
    """

    def __init__(
        self,
        memory: TargetMemory,
        storage: ThreadLocalStorage,
        module: LoadedModule,
        info: TypeInfo,
        options: Options,
        symbolize: Callable[[int], str | None],
        stack_pointer: int,
    ) -> None:
        self._memory, self._storage, self._stack_pointer = memory, storage, stack_pointer
        self._module = module
        self._info = info
        self._types = FrameTypes(info, memory.read_data, module.bias)
        self._formatter = ValueFormatter(self._types, options, symbolize)
        self._codes: dict[int, _Code | OmpdError] = {}
        self._around: dict[Key, set[tuple[str, int | None]]] = {}

    def _code(self, address: int) -> _Code:
        code = self._codes.get(address)
        if code is None:
            try:
                code = self._read(address)
            except OmpdError as error:
                code = error
            self._codes[address] = code
        if isinstance(code, OmpdError):
            raise code
        return code

    def names_at(self, address: int) -> set[str]:
        """Return the names of the variables of the functions at *address* of the target.

        :raises OmpdError: if the debug information does not have them
        """
        code = self._code(address - self._module.bias)
        return {row.value.name for rows in code.scopes for row in rows if row.value.name}

    def variables(
        self, frame: Frame, thread: int | None, holds_address: Callable[[str], bool] | None, parts: Parts | None
    ) -> list[FunctionLocals]:
        """Return the variables of each function that the frame is in, innermost first; see :meth:`Locals.of_frame`.

        :raises OmpdError: if the debug information does not have them
        """
        code = self._code(frame.call_site - self._module.bias)
        registers = frame.registers
        if code.by_stack_pointer:
            changed = cast("dict[int, int]", copy(frame.registers))
            changed.pop(self._stack_pointer, None)
            if code.frame_size is not None and frame.cfa is not None:
                changed[self._stack_pointer] = frame.cfa - code.frame_size
            registers = changed
        context = FrameContext(
            registers=registers,
            read=self._memory.read_data,
            cfa=frame.cfa,
            bias=self._module.bias,
            pointer_size=self._memory.pointer_size,
            byte_order=self._memory.byte_order,
            thread_local=partial(self._thread_local, thread),
            frame_base=code.frame_base,
        )
        self._types.frame = context
        self._types.bound_variables = _FrameBounds(self, context, code.by_entry)
        try:
            return [
                FunctionLocals(tuple(self._value(row, context, holds_address, parts) for row in rows if row.value.name))
                for rows in code.scopes
            ]
        finally:
            self._types.frame = self._types.bound_variables = None

    def _thread_local(self, thread: int | None, offset: int) -> int:
        if thread is None:
            raise Unavailable("it is thread-local")
        return self._storage.offset_address(self._module, offset, 0, "a variable", thread)

    # Facts from the file

    def _read(self, address: int) -> _Code:
        entry = self._module.lines.function_entry(address) if self._module.lines is not None else None
        if entry is None:
            raise Unavailable("no debug information describes the variables of its function")
        function = EntryRef(*entry)
        scopes = find_scopes(self._info, function, address)
        base = scopes[-1].frame_base
        frame_base = location_at(function.unit, base, address) if base is not None else None
        scope_rows: list[list[_Prepared]] = []
        for scope in scopes:
            outer = self._declared_around(scope.place)
            expressions = [self._expression(variable, address) for variable in scope.variables]
            argument = next(
                (
                    expression
                    for variable, (expression, _) in zip(scope.variables, expressions, strict=True)
                    if outer and variable.is_parameter and variable.is_artificial and not variable.name
                ),
                None,
            )
            rows = [
                _Prepared(variable, self._described(variable, expression, argument, outer), expression, fault)
                for variable, (expression, fault) in zip(scope.variables, expressions, strict=True)
            ]
            # Variables of inner blocks hide those of outer blocks, and variables hide parameters of the same name.
            rows.sort(key=lambda row: (-row.value.depth, row.value.is_parameter))
            scope_rows.append(rows)
        by_stack_pointer = frame_base == bytes((dw.DW_OP_REG0 + self._stack_pointer,))
        by_entry = {key: row for rows in scope_rows for row in rows for key in row.variable.entries}
        return _Code(
            scope_rows, by_entry, frame_base, by_stack_pointer, self._frame_size(address) if by_stack_pointer else None
        )

    def _frame_size(self, address: int) -> int | None:
        # LLVM describes places relative to the value that the stack pointer has between calls. While arguments of a
        # call are pushed, the pointer is lower. The size follows from all rows of the function's unwind data.
        row = self._module.row(address)
        if row is None:
            return None
        rows: list[tuple[int, int]] = []
        start = row.function_start
        while start < row.function_end and len(rows) < _MAX_ROWS:
            step = self._module.row(start)
            if step is None or step.end <= start:
                return None
            rows.append((step.cfa.register if not step.cfa.expression else -1, step.cfa.offset))
            start = step.end
        if start < row.function_end or any(register != self._stack_pointer for register, _ in rows):
            return None
        size = kept_frame_size([offset for _, offset in rows])
        # The size holds only while the function has its whole frame. If the distance to the CFA is smaller, the
        # function has not made its frame yet, or has removed it.
        return size if size is not None and row.cfa.offset >= size else None

    def _declared_around(self, function: EntryRef) -> set[tuple[str, int | None]]:
        # Return the names and lines of the variables of enclosing functions, which gcc may describe again in a
        # construct's function.
        key = function.unit.section, function.unit.offset, function.offset
        if key not in self._around:
            name = function.unit.string(self._info.index.entry(function)[1].get(dw.DW_AT_NAME))
            shares = name is not None and naming.is_by_gcc(name)
            functions = find_around(self._info.index.files, function) if shares else []
            names_and_lines: set[tuple[str, int | None]] = set()
            for place in functions:
                names_and_lines |= declared_in(self._info, place)
            self._around[key] = names_and_lines
        return self._around[key]

    def _expression(self, variable: LocalVariable, address: int) -> tuple[bytes | None, str | None]:
        if variable.location is None:
            return None, None
        try:
            return location_at(variable.unit, variable.location, address), None
        except OmpdError as error:
            return None, str(error)

    def _described(
        self,
        variable: LocalVariable,
        expression: bytes | None,
        argument: bytes | None,
        outer: set[tuple[str, int | None]],
    ) -> LocalValue:
        type_ = referred = None
        if variable.type is not None:
            type_ = type_name(self._info, variable.type)
            target = self._referred(variable.type)
            referred = type_name(self._info, target) if target is not None else None
        derefs = None
        if argument is not None and expression is not None and expression is not argument:
            derefs = derefs_through(argument, expression, self._memory.byte_order)
        return LocalValue(
            name=variable.name,
            type=type_,
            referred=referred,
            shown=None,
            address=None,
            fault=None,
            depth=variable.depth,
            line=variable.line,
            is_parameter=variable.is_parameter,
            is_artificial=variable.is_artificial,
            is_copy=(variable.name, variable.line) in outer,
            derefs=derefs,
            storage=_storage(expression) if variable.location is not None else "",
            register=_register(expression),
        )

    def _referred(self, place: EntryRef) -> EntryRef | None:
        # The type to which a reference leads in the end, None for all other types.
        target: EntryRef | None = None
        try:
            for _ in range(_MAX_REFERENCES):
                resolved, tag, attributes, _ = self._types.resolve(target or place)
                if tag not in REFERENCES or dw.DW_AT_TYPE not in attributes:
                    break
                target = self._info.target(resolved.unit, attributes[dw.DW_AT_TYPE])
        except OmpdError:
            return target
        return target

    # Facts from the frame

    def _value(
        self,
        row: _Prepared,
        context: FrameContext,
        holds_address: Callable[[str], bool] | None,
        parts: Parts | None,
    ) -> LocalValue:
        try:
            place, source = self._source(row, context)
            if holds_address is not None and holds_address(row.value.name):
                place, source = self._pointed_to(place, source)
                row = row._replace(value=row.value._replace(type=type_name(self._info, place)))
            if parts is not None and (steps := parts(row.value.name)):
                return self._part(row.value, place, source, steps)
            address = source if isinstance(source, int) else None
        except OmpdError as error:
            return row.value._replace(fault=str(error))
        try:
            return row.value._replace(shown=self._formatter.show(place, source), address=address)
        except OmpdError as error:
            return row.value._replace(fault=str(error), address=address)

    def _part(self, value: LocalValue, place: EntryRef, source: int | bytes, steps: Sequence[Step]) -> LocalValue:
        if isinstance(source, bytes):
            self._types.laid, source = source, LAID
        part = PartFinder(self._types).select(place, source, steps)
        name = type_name(self._info, part.type)
        return value._replace(
            shown=self._formatter.show_part(part),
            address=part.address if part.address < LAID else None,
            type=name,
            referred=name if value.referred is not None else None,
        )

    def _source(self, row: _Prepared, context: FrameContext) -> tuple[EntryRef, int | bytes]:
        # Return the variable's type, and its address or its bytes. For a reference, return those of what it refers to.
        variable = row.variable
        if row.fault is not None:
            raise Unsupported(row.fault)
        if variable.type is None:
            raise Unavailable("no debug information describes its type")
        return self._types.follow(variable.type, self._raw(row, variable.type, context))

    def _pointed_to(self, place: EntryRef, source: int | bytes) -> tuple[EntryRef, int]:
        pointer, tag, attributes, _ = self._types.resolve(place)
        if tag != dw.DW_TAG_POINTER_TYPE or dw.DW_AT_TYPE not in attributes:
            raise Unsupported("its name says that it holds an address, and its type that it does not")
        size = self._memory.pointer_size
        raw = self._memory.read_data(source, size) if isinstance(source, int) else source[:size]
        target = self._info.target(pointer.unit, attributes[dw.DW_AT_TYPE])
        return target, int.from_bytes(raw, self._memory.byte_order)

    def _raw(self, row: _Prepared, type_: EntryRef, context: FrameContext) -> int | bytes:
        variable = row.variable
        if not row.expression:
            if variable.constant is None or variable.location is not None:
                raise Unavailable(_NO_PLACE)
            return self._constant(variable.constant, self._info.size_at(type_))
        pieces = find_pieces(variable.unit, row.expression, context)
        if len(pieces) == 1 and pieces[0].address is not None:
            return pieces[0].address
        return read_pieces(pieces, self._info.size_at(type_), context.read, context.byte_order)

    def _constant(self, value: Value, size: int) -> bytes:
        if isinstance(value.raw, bytes):
            return value.raw[:size]
        if size > 16:
            raise Unsupported(f"a constant of {size} bytes as a number")
        return (value.raw & (1 << 8 * size) - 1).to_bytes(size, self._memory.byte_order)

    def bound(self, variable: EntryRef, context: FrameContext, by_entry: dict[Key, _Prepared]) -> int:
        """Return the value of a variable that holds the bound of an array of the same frame.

        :raises Unsupported: if it is a variable of another function
        """
        row = by_entry.get((variable.unit.section, variable.unit.offset, variable.offset))
        if row is None or row.variable.type is None:
            raise Unsupported("an array whose bounds are in a variable of another function")
        size = self._info.size_at(row.variable.type)
        if not 0 < size <= _MAX_BOUND_BYTES:
            raise Unsupported(f"an array with a bound of {size} bytes")
        source = self._raw(row, row.variable.type, context)
        raw = self._memory.read_data(source, size) if isinstance(source, int) else source
        number = int.from_bytes(raw[:size], context.byte_order, signed=True)
        return number & (1 << 8 * variable.unit.address_size) - 1


class _FrameBounds:
    # The variables of one frame that hold bounds of arrays, by their entries.

    def __init__(self, module: _ModuleLocals, context: FrameContext, by_entry: dict[Key, _Prepared]) -> None:
        self._module, self._context, self._by_entry = module, context, by_entry

    def read(self, variable: EntryRef) -> int:
        return self._module.bound(variable, self._context, self._by_entry)


def _storage(expression: bytes | None) -> str:
    if not expression:
        return "frame"
    if expression[-1] in _TLS_OPERATIONS:
        return "thread"
    return "static" if expression[0] in _ADDRESS_OPERATIONS else "frame"


def _register(expression: bytes | None) -> int | None:
    is_one = expression is not None and len(expression) == 1 and dw.DW_OP_REG0 <= expression[0] <= dw.DW_OP_REG31
    return expression[0] - dw.DW_OP_REG0 if is_one and expression is not None else None


class Locals:
    """The variables of the frames of one stop. Facts from files are kept for other frames at the same address.

    :param elements: the number of elements of an array, and of characters of a string, that are shown
    """

    def __init__(
        self,
        memory: TargetMemory,
        storage: ThreadLocalStorage,
        modules: ModuleList,
        types: Types,
        places: Places,
        architecture: Architecture,
        *,
        elements: int = 200,
    ) -> None:
        self._memory, self._storage, self._modules = memory, storage, modules
        self._types, self._places, self._architecture = types, places, architecture
        self._options = Options(elements=elements, x87=architecture.x87, bare=True)
        self._of_modules: dict[int, _ModuleLocals | None] = {}

    def names_at(self, frame: Frame) -> Collection[str]:
        """Return the names of the variables of a frame's functions, empty if debug information has none."""
        try:
            return self._in_module(frame).names_at(frame.call_site)
        except OmpdError:
            return ()

    def of_frame(
        self,
        frame: Frame,
        thread: int | None = None,
        holds_address: Callable[[str], bool] | None = None,
        parts: Parts | None = None,
    ) -> Sequence[FunctionLocals]:
        """Return the variables of a frame's functions, one item for each of ``source_frames(frame.call_site)``.

        :param thread: the native id of the frame's thread, for thread-local variables
        :param holds_address: returns whether a pointer with this name stands for the object to which it points
        :param parts: returns the steps to the requested part of a variable, no steps for the whole variable
        """
        count = len(self._places.source_frames(frame.call_site))
        try:
            if frame.guessed:
                raise Unavailable("the frame is a guess, by which no variable is found for certain")
            if frame.is_signal_frame:
                raise Unavailable("the frame is the kernel's")
            functions = self._in_module(frame).variables(frame, thread, holds_address, parts)
        except OmpdError as error:
            return [FunctionLocals((), str(error))] * count
        missing = FunctionLocals((), "no debug information describes the variables of its function")
        return [*[missing] * (count - len(functions)), *functions[max(len(functions) - count, 0) :]]

    def _in_module(self, frame: Frame) -> _ModuleLocals:
        module = self._modules.at(frame.call_site)
        if module is None:
            raise Unavailable("its code is in no module")
        if module.start not in self._of_modules:
            self._of_modules[module.start] = self._make(module)
        locals_of_module = self._of_modules[module.start]
        if locals_of_module is None:
            raise Unavailable(f"{module.record.name} has no debug information")
        return locals_of_module

    def _make(self, module: LoadedModule) -> _ModuleLocals | None:
        info = self._types.info_of(module) if module.lines is not None else None
        if info is None:
            return None
        architecture, places = self._architecture, self._places
        return _ModuleLocals(
            self._memory,
            self._storage,
            module,
            info,
            self._options,
            places.symbolize,
            architecture.dwarf_registers[architecture.sp],
        )
