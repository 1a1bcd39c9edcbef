"""The functions of one process, each followed once: effects of calls, and constructs and locks that frames hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ompd import naming
from ompd.binary.elf.elf import PF_X, PT_LOAD
from ompd.contract.memory import read_pointer
from ompd.contract.process import Frame, Location, Shape
from ompd.debugger.flow.branches import Branches
from ompd.debugger.flow.code import Code
from ompd.debugger.flow.follow import Function, PlaceFacts
from ompd.debugger.flow.function_code import Called, FunctionCode
from ompd.debugger.flow.leaks import Leak
from ompd.debugger.flow.state import BRANCH, LOCAL, Released, State, Value, has_same_base
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import LoadedModule, ModuleList
from ompd.debugger.stacks.calls import Calls
from ompd.errors import OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.isa.instructions import Instruction, Processor
from ompd.isa.processors import processor_of
from ompd.naming import Routine

_MAX_CODE = 1 << 20  # bytes of one function
_MAX_ALL_CODE = 1 << 24  # bytes of all the user's modules
_MAX_FUNCTIONS = 1 << 12
_MAX_FOLLOWED = 3 << 20  # instructions of all functions together: some seconds
# Functions that never return.
_ENDS = frozenset(
    (
        *("abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail", "__stack_chk_fail", "_Unwind_Resume"),
        *("__cxa_throw", "__cxa_rethrow", "__cxa_bad_cast", "__clang_call_terminate", "_ZSt9terminatev"),
        *("pthread_exit", "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk", "__fortify_fail", "__chk_fail"),
    )
)
_OF_FORTRAN = re.compile(r"(?:_25|_30)?_$")
# Kinds whose holder the C library records in the object, so releases by other libraries do not matter.
_KEPT_BY_OTHERS = frozenset(("mutex",))
_TWICE = frozenset(("setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "vfork", "getcontext"))


class Begun(NamedTuple):
    """A construct or lock that a function has begun and not ended before its current place.

    ``call`` is the address of the call that began the construct or lock; ``name`` is the name of the called routine.
    ``object`` is the address of the lock or other object; None if the routine has no object, or if it is unknown.
    ``doubt`` is why the construct or lock may have ended: empty without a doubt, else a word of
    :mod:`ompd.debugger.flow.state`. ``is_fixed`` is whether every frame at this place has the same object.
    """

    call: int
    name: str
    routine: Routine
    object: int | None
    doubt: str
    is_fixed: bool


class Functions:
    """The functions of one process at one stop.

    :param routines: the routines that begin or end a construct, or set or release a lock, by their names
    :param is_users: returns whether the code at an address is the user's; only the user's code ends constructs and
        locks that the user's code began
    """

    def __init__(
        self,
        memory: TargetMemory,
        architecture: Architecture,
        modules: ModuleList,
        calls: Calls,
        locate: Callable[[int], Location],
        routines: Mapping[str, Routine],
        is_users: Callable[[int], bool],
    ) -> None:
        self.memory, self.modules, self._calls = memory, modules, calls
        self._locate, self._routines, self._is_users = locate, routines, is_users
        processor = processor_of(architecture.e_machine)
        self.processor: Processor | None = processor
        self.code = Code(memory, modules, processor, locate)
        self._order = architecture.byte_order
        self._left = _MAX_FOLLOWED
        self.kept: dict[Shape, Any] = {}
        """For callers: facts that are the same for all stacks of a shape."""
        self._known: dict[tuple[int, bool], Function | OmpdError] = {}
        self._routine_at: dict[int, Called] = {}
        self._targets: dict[int, frozenset[int]] = {}
        self._leads: dict[tuple[int | None, int | None], int | None] = {}
        self._lets_go: dict[int, frozenset[Released]] = {}
        self._loose: frozenset[Released] | None = None
        self._is_loose_known = False
        self._ending: frozenset[int] = frozenset()  # functions that end constructs or release locks
        self._begins: dict[int, bool] = {}

    @cached_property
    def branches(self) -> Branches:
        """The branches of the functions."""
        return Branches(self)

    # Constructs and locks of frames

    def begun(self, frame: Frame) -> tuple[Begun, ...]:
        """Return constructs and locks that the function of *frame* has begun and not ended, ordered by call address.

        :raises Unavailable: if the function's code cannot be followed to where the frame is
        """
        entry = self.code.entry(frame.call_site)
        if not self._may_begin(entry, frame.call_site):
            return ()
        function = self._function(entry, is_alone=False)
        at = self._place(function, frame)
        place = function.at(at) if at is not None else None
        if place is None:
            raise Unavailable("no way through its function is seen that leads to where it is")
        return tuple(self._begun(place, frame, function))

    def _begun(self, place: PlaceFacts, frame: Frame, function: Function) -> Iterator[Begun]:
        for site, held in sorted(place.state.held.items()):
            found, doubt = self._read(held.value, frame, place.state, function), place.doubts[site]
            if held.passed is not None and found is None:
                found, doubt = held.passed, doubt or BRANCH  # the way is unknown
            if held.passed is not None and found != held.passed:
                continue  # another call began it on the way to here
            is_fixed = held.value is None or held.value.kind == "number"
            yield Begun(site, held.name, held.routine, found, doubt, is_fixed)

    def arguments(self, frame: Frame) -> tuple[int | None, ...]:
        """Return the arguments that *frame*'s present call passes in registers, None for each unknown one.

        :raises Unavailable: if the code of the frame's function cannot be followed to that call
        """
        function = self._function(self.code.entry(frame.call_site), is_alone=True)
        at, processor = self._place(function, frame), self.processor
        place = function.at(at) if at is not None else None
        if place is None or processor is None:
            raise Unavailable("no way through its function is seen that leads to where it is")
        known = (place.state.registers.get(register) for register in processor.arguments)
        return tuple(self._read(value, frame, place.state, function) for value in known)

    def wanted(self, frame: Frame) -> int | None:
        """Return the address of the object, such as a lock, that *frame* has passed to a routine that begins or
        acquires.

        :returns: None if the frame is in no such routine, or if the object is unknown
        :raises Unavailable: if the code of the frame's function cannot be followed to where the frame is
        """
        function = self._function(self.code.entry(frame.call_site), is_alone=True)
        at = self._place(function, frame)
        place = function.at(at) if at is not None else None
        found = function.instruction(at) if at is not None else None
        if place is None or found is None or self.processor is None:
            raise Unavailable("no way through its function is seen that leads to where it is")
        routine = self.called(found, is_alone=True).routine
        if routine is None or not routine.begins:
            return None
        return self._read(function.argument(routine, place.state), frame, place.state, function)

    def let_go(self, frame: Frame) -> frozenset[tuple[str, int | None]] | None:
        """Return the constructs and locks of other functions that the function of *frame* may have ended so far.

        :returns: the kind of each construct or lock, with the address of its object, None if the object is unknown;
            None instead of the set if even the kinds are unknown
        """
        if self.loose() == frozenset():
            return frozenset()
        try:
            function = self._function(self.code.entry(frame.call_site), is_alone=False)
            at = self._place(function, frame)
            place = function.at(at) if at is not None else None
        except OmpdError:
            return None
        if place is None:
            return None
        return frozenset((k, self._read(value, frame, place.state, function)) for k, value in place.state.released)

    def left(self, frame: Frame, inner: Frame | None) -> frozenset[tuple[str, int | None]] | None:
        """Return the constructs and locks that functions called by *frame* may have ended before they left by a jump.

        :param inner: the next inner frame, None if *frame* is the innermost one
        :returns: as for :meth:`let_go`
        """
        if inner is None or frame.call_site == frame.pc or self.loose() == frozenset():
            return frozenset()
        try:
            at = self._place(function := self._function(self.code.entry(frame.call_site), is_alone=False), frame)
            to = function.called_at(at) if at is not None else None
            to = self._calls.leads_to(to, None) if to is not None else self._calls.target(frame.pc)
            if to is None:
                to = self._calls.function_called(frame)
            if to is not None and (not self._is_users(to) or self.code.start(inner.call_site) == to):
                return frozenset()
            ended = self.let_go_by(to) if to is not None else self.loose()
        except OmpdError:
            return None
        return frozenset((kind, _number(value)) for kind, value in ended) if ended is not None else None

    def has_jumped(self, frame: Frame, inner: Frame | None) -> bool:
        """Return whether *frame* directly called a function of the user's that then left the stack by a jump.

        :param inner: the user's next inner frame, None if *frame* is the innermost one
        """
        if frame.call_site == frame.pc:
            return False
        try:
            to = self._calls.target(frame.pc)
            if to is None or not self._is_users(to) or self._calls.is_stub(to):
                return False
            return inner is None or self.code.entry(inner.call_site) != to
        except OmpdError:
            return True

    def _place(self, function: Function, frame: Frame) -> int | None:
        return frame.pc if frame.call_site == frame.pc else function.call_before(frame.pc)

    def _read(self, value: Value | None, frame: Frame, state: State, function: Function) -> int | None:
        # The number that a value stands for, None if neither a register nor memory has it any more.
        if value is None or value.kind in ("result", "bit"):
            return None
        if value.kind == "number":
            return value.at
        if value.kind == "frame":
            return frame.cfa + value.at if frame.cfa is not None else None
        known = self._still_there(value, frame, state)
        if known is not None:
            return known
        origin = function.origins.get(value.at) if value.kind == "made" else None
        processor = self.processor
        if origin is None or processor is None or origin.base.kind != "made":
            return None
        # The value was loaded by way of the function's first argument. If the function is a construct's, that is the
        # compiler's structure of pointers. The word can be read there again, because the function does not write to it.
        base = self._still_there(origin.base, frame, state)
        if base is None or origin.displacement in function.stored or origin.base.at != -1 - processor.arguments[0]:
            return None
        try:
            at = base + origin.displacement
            found = read_pointer(self.memory, at) if self._is_construct(function.entry) else None
            return found + value.more if found is not None else None
        except OmpdError:
            return None

    def _is_construct(self, entry: int) -> bool:
        return naming.is_by_gcc(self._locate(entry).symbol or "")

    def _still_there(self, value: Value, frame: Frame, state: State) -> int | None:
        for register, other in state.registers.items():
            found = frame.registers.get(register) if has_same_base(other, value) else None
            if found is not None:
                return found - other.more + value.more
        for at, (other, width) in state.slots.items():
            if not has_same_base(other, value) or width != self.memory.pointer_size or frame.cfa is None:
                continue
            if value.kind in LOCAL and state.escaped is not None and at + width > state.escaped:
                continue  # the called function may have written there
            try:
                word = read_pointer(self.memory, frame.cfa + at)
            except OmpdError:
                return None
            return word - other.more + value.more if word is not None else None
        return None

    # Functions

    def _function(self, entry: int, *, is_alone: bool) -> Function:
        # is_alone: whether the effects of called functions of the user's are left out
        key = entry, is_alone
        if key not in self._known:
            try:
                self._known[key] = self._follow(entry, is_alone)
            except OmpdError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, OmpdError):
            raise found
        return found

    def _follow(self, entry: int, is_alone: bool) -> Function:
        processor = self.processor
        if processor is None:
            raise Unavailable("code of this processor is not followed")
        return Function(FunctionCode(self, entry, processor, is_alone=is_alone))

    def spend(self, count: int) -> None:
        """Count *count* more instructions as followed.

        :raises Unavailable: if that exceeds the limit for all functions together
        """
        self._left -= count
        if self._left < 0:
            raise Unavailable("more code would have to be followed than is")

    # Calls

    def leads_to(self, found: Instruction) -> int | None:
        """Return the address of the function that an instruction calls, None if unknown, as for calls by pointers."""
        key = found.target, found.word
        if key not in self._leads:
            self._leads[key] = self._calls.leads_to(found.target, found.word)
        return self._leads[key]

    def _at(self, target: int) -> Called:
        # The effects of a call of the function at an address, by the function's name.
        if target not in self._routine_at:
            place = self._locate(target)
            bare = naming.routine_name(place.symbol) if place.symbol_address == target else ""
            # The table has the names without the C library's leading underscores and Fortran's trailing underscore.
            names = (bare, bare.lstrip("_"), _OF_FORTRAN.sub("", bare))
            routine = next((self._routines[name] for name in names if name in self._routines), None)
            self._routine_at[target] = Called(bare.rstrip("_"), routine, bare in _ENDS, bare in _TWICE)
        return self._routine_at[target]

    def routine_at(self, address: int) -> Routine | None:
        """Return the routine at an address that :meth:`Code.constant` has returned, None at other addresses."""
        return self._at(address).routine if address in self.code.taken else None

    def called(self, found: Instruction, *, is_alone: bool) -> Called:
        """Return the effects of a call, or of a jump to another function.

        :param is_alone: whether the effects of called functions of the user's are left out
        """
        there = self._does(found, is_alone)
        if found.flow == "call" and self.code.start(found.end) != self.code.start(found.address):
            return there._replace(ends=True)  # no code of the function follows
        return there

    def _does(self, found: Instruction, is_alone: bool) -> Called:
        is_pointer = found.target is None and found.word is None
        target = self.leads_to(found) if not is_pointer else None
        if target is None:
            return Called(lets_go=frozenset() if is_alone or not is_pointer else self.loose())
        there = self._at(target)
        if there.routine is not None or is_alone or not self._is_users(target):
            return there
        loose = self.loose()
        return there if loose == frozenset() else there._replace(lets_go=self.let_go_by(target))

    def is_routine(self, target: int) -> bool:
        """Return whether *target* is the address of a routine that begins or ends a construct, or a lock's routine."""
        return self._at(target).routine is not None

    def states_before(self, address: int) -> Sequence[State]:
        """Return the states before the instruction at *address*, at least one for each way into its block.

        :raises Unavailable: if the code of the instruction's function cannot be followed
        """
        return self._function(self.code.entry(address), is_alone=True).states_before(address)

    def code_targets(self, start: int) -> frozenset[int]:
        """Return the targets of :meth:`calls_in` the function, or the part of one, at *start*; -1 if unknown."""
        if start not in self._targets:
            self._targets[start] = frozenset(to for _, to in self.calls_in(start))
        return self._targets[start]

    def calls_in(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield each call in a function, or in a part of one: its address and its target, -1 for an unknown target.

        Jumps out of the function count as calls, and so do loads of a routine's address.
        """
        extent, processor = self.modules.function_extent(start), self.processor
        if extent is None or processor is None or extent[1] - start > _MAX_CODE:
            yield start, -1
            return
        code, at = self.memory.read_code(start, extent[1] - start), 0
        while at < len(code):
            found = processor.decode(code, at, start + at)
            if found is None:
                at += 1
                continue
            at += found.size
            if found.flow == "call" or (
                found.flow in ("jump", "branch") and not (found.target and start <= found.target < extent[1])
            ):
                to = self.leads_to(found) if found.target is not None or found.word is not None else -1
                if to is not None:
                    yield found.address, to
            elif found.flow == "computed":
                yield found.address, -1
            elif found.does == "load" and found.operand is not None and found.operand.base is None:
                word = self.code.constant(found.operand.displacement) if not found.operand.is_indexed else None
                if word is not None and self._at(word).routine is not None:
                    yield found.address, word

    def _may_begin(self, entry: int, address: int) -> bool:
        # A quick check whether a function calls any routine that begins a construct or acquires a lock.
        starts = {entry, self.code.start(address) or entry}
        for start in starts:
            if start not in self._begins:
                known = (self._at(to).routine for to in self.code_targets(start) if to >= 0)
                self._begins[start] = any(routine is not None and routine.begins for routine in known)
        return any(self._begins[start] for start in starts)

    # Constructs and locks that functions end without having begun them

    def loose(self) -> frozenset[Released] | None:
        """Return the constructs and locks that some user function ends but does not begin, None if unknown."""
        if not self._is_loose_known:
            self._is_loose_known = True
            try:
                self._loose = self._find_loose()
            except OmpdError:
                self._loose = None
        return self._loose

    def leaks(self, kind: str) -> Iterator[Leak]:
        """Yield the ways on which functions of the user's return with a lock of a *kind* that they set.

        If another function releases the same lock without having set it, or a lock that is not known, the lock may be
        kept on purpose, and is left out. Nothing is yielded if it is unknown which locks functions release.
        """
        loose = self.loose()
        if loose is None or (kind, None) in loose:
            return
        for start in sorted(self._ending):
            try:
                function = self._function(self.code.entry(start), is_alone=False)
                for leak in function.leaks():
                    if leak.held.routine.kind == kind and (kind, leak.held.value) not in loose:
                        yield leak
            except OmpdError:
                continue

    def _find_loose(self) -> frozenset[Released]:
        starts: set[int] = set()
        ends: dict[tuple[int, bool, bool], bool] = {}
        left = _MAX_ALL_CODE
        loose: frozenset[Released] = frozenset()
        for loaded in self.modules:
            if loaded.elf is None or loaded.record.is_system_library or naming.is_runtime_file(loaded.name):
                continue
            kinds = self._ended_by(loaded)
            if kinds is not None and kinds <= _KEPT_BY_OTHERS:
                loose |= {(kind, None) for kind in kinds}
                continue
            for place, at, is_load, is_through in self.code.references(loaded.elf, loaded.bias, left):
                what = at, is_load, is_through
                if what not in ends:
                    ends[what] = self._takes_end(at) if is_load else self._ends_something(-at if is_through else at)
                start = self.code.start(place) if ends[what] else None
                if start is not None and self._is_users(place):
                    starts.add(start)
            left -= sum(s.p_filesz for s in loaded.elf.segments if s.p_type == PT_LOAD and s.p_flags & PF_X)
        if len(starts) > _MAX_FUNCTIONS:
            raise Unavailable("there are more functions than are looked at")
        self._ending = frozenset(starts)
        for start in starts:
            loose |= self._own(start)
        return loose

    def _ended_by(self, loaded: LoadedModule) -> set[str] | None:
        # The kinds of constructs and locks that a library may end, by the routines that its symbols mention. So the
        # code of the library need not be followed: in interpreters it is large, and seldom uses OpenMP. None for the
        # program, which may be stripped, and for libraries without symbols.
        if loaded.record.is_program or loaded.symbols is None:
            return None
        ending = [name for name, routine in self._routines.items() if not routine.begins]
        return {self._routines[name].kind for name in loaded.symbols.mentions(ending)}

    def _takes_end(self, at: int) -> bool:
        # Whether the word at an address points to a routine that ends a construct or releases a lock.
        word = self.code.constant(at)
        routine = self._at(word).routine if word is not None else None
        return routine is not None and not routine.begins

    def _ends_something(self, at: int) -> bool:
        # Whether a call of an address leads to a routine that ends a construct or releases a lock. If *at* is negative,
        # the word at -at has the target.
        try:
            to = self._calls.leads_to(at, None) if at > 0 else self._calls.leads_to(None, -at)
        except OmpdError:
            return False  # not really a call
        routine = self._at(to).routine if to is not None else None
        return routine is not None and not routine.begins

    def _own(self, start: int) -> frozenset[Released]:
        # The constructs and locks that a function itself ends without having begun them. An object that may differ
        # between calls of the function is None.
        try:
            found = self._function(self.code.entry(start), is_alone=True).lets_go
        except OmpdError:
            known = (self._at(to).routine for to in self.code_targets(start) if to >= 0)
            return frozenset((routine.kind, None) for routine in known if routine is not None and not routine.begins)
        return frozenset(
            (kind, value if value is not None and value.kind == "number" else None) for kind, value in found
        )

    def _by_pointer(self, start: int) -> frozenset[int]:
        # The targets of a function's calls by pointers, -1 for an unknown one.
        try:
            function = self._function(self.code.entry(start), is_alone=True)
            known = (self._calls.leads_to(to, None) if to is not None else -1 for to in function.by_pointer)
            return frozenset(to if to is not None else -1 for to in known)
        except OmpdError:
            return frozenset((-1,))

    def let_go_by(self, target: int) -> frozenset[Released] | None:
        """Return the constructs and locks that a function and its callees end without having begun them.

        None if that is unknown.
        """
        if target in self._lets_go:
            return self._lets_go[target]
        found: frozenset[Released] = frozenset()
        seen, waiting = {target}, [target]
        while waiting:
            at = waiting.pop()
            if at == -1:
                loose = self.loose()
                if loose is None:
                    return None
                found |= loose
                continue
            if not self._is_users(at) or self._at(at).routine is not None:
                continue
            start = self.code.start(at)
            if start is None or len(seen) > _MAX_FUNCTIONS:
                return None
            targets = self.code_targets(start)
            if any(routine is not None and not routine.begins for routine in (self._at(to).routine for to in targets)):
                found |= self._own(start)
            if -1 in targets:
                targets = targets - {-1} | self._by_pointer(start)
            waiting.extend(targets - seen)
            seen |= targets
        self._lets_go[target] = found
        return found


def _number(value: Value | None) -> int | None:
    return value.at if value is not None and value.kind == "number" else None
