"""The functions of one process, each followed once: effects of calls, and constructs and locks that frames hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ompd.contract.process import Frame, Location, Module, Shape
from ompd.debugger.flow.branches import Branches
from ompd.debugger.flow.call_targets import UNKNOWN, CallTargets
from ompd.debugger.flow.code import Code
from ompd.debugger.flow.follow import Function, PlaceFacts
from ompd.debugger.flow.function_code import Called, FunctionCode
from ompd.debugger.flow.passed import Passed
from ompd.debugger.flow.releases import Releases
from ompd.debugger.flow.state import BRANCH, State, number_of
from ompd.debugger.flow.values import FrameValues
from ompd.debugger.memory import TargetMemory
from ompd.debugger.modules.modules import ModuleList
from ompd.debugger.stacks.calls import Calls
from ompd.errors import OmpdError, Unavailable
from ompd.isa.architecture import Architecture
from ompd.isa.instructions import Instruction, Processor
from ompd.isa.processors import processor_of
from ompd.naming import Routine

_MAX_FOLLOWED = 3 << 20  # instructions of all functions together: some seconds


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


class _Point(NamedTuple):
    """The place of a frame in its followed *function*: the instruction's ``address``, and the ``facts`` before it."""

    function: Function
    address: int
    facts: PlaceFacts


class Functions:
    """The functions of one process at one stop.

    A function is followed in two ways. *By itself*, the effects of the user's functions that it calls are left out.
    *With callees*, these functions may end constructs and locks that the function holds.

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
        runtimes: Collection[Module] | None = None,
    ) -> None:
        self.memory, self.modules = memory, modules
        self._calls, self._is_users = calls, is_users
        self.processor: Processor | None = processor_of(architecture.e_machine)
        self.code = Code(memory, modules, self.processor, locate)
        self.targets = CallTargets(memory, modules, self.processor, self.code, calls, locate, routines)
        self.releases = Releases(self, calls, routines, is_users, runtimes)
        self._values = FrameValues(memory, self.processor, locate)
        self._left = _MAX_FOLLOWED
        self.kept: dict[Shape, Any] = {}
        """For callers: facts that are the same for all stacks of a shape."""
        self._by_itself: dict[int, Function | OmpdError] = {}
        self._with_callees: dict[int, Function | OmpdError] = {}
        self._begins: dict[int, bool] = {}

    @cached_property
    def branches(self) -> Branches:
        """The branches of the functions."""
        return Branches(self)

    @cached_property
    def passed(self) -> Passed:
        """The numbers that functions on stacks have passed to routines."""
        return Passed(self, self._values)

    # Constructs and locks of frames

    def begun(self, frame: Frame) -> tuple[Begun, ...]:
        """Return constructs and locks that the function of *frame* has begun and not ended, ordered by call address.

        :raises Unavailable: if the function's code cannot be followed to where the frame is
        """
        entry = self.code.entry(frame.call_site)
        if not self._may_begin(entry, frame.call_site):
            return ()
        point = _point(self.with_callees(entry), frame)
        return tuple(self._begun(point.facts, frame, point.function))

    def _begun(self, facts: PlaceFacts, frame: Frame, function: Function) -> Iterator[Begun]:
        for call, held in sorted(facts.state.held.items()):
            address, doubt = self._values.read(held.value, frame, function, facts.state), facts.doubts[call]
            if held.passed is not None and address is None:
                address, doubt = held.passed, doubt or BRANCH  # the way is unknown
            if held.passed is not None and address != held.passed:
                continue  # another call began it on the way to here
            is_fixed = held.value is None or held.value.kind == "number"
            yield Begun(call, held.name, held.routine, address, doubt, is_fixed)

    def _may_begin(self, entry: int, address: int) -> bool:
        # A quick check whether a function calls any routine that begins a construct or acquires a lock.
        starts = {entry, self.code.start(address) or entry}
        for start in starts:
            if start not in self._begins:
                targets = self.targets.targets_in(start)
                self._begins[start] = any(self.targets.is_beginning(to) for to in targets if to != UNKNOWN)
        return any(self._begins[start] for start in starts)

    def arguments(self, frame: Frame) -> tuple[int | None, ...]:
        """Return the arguments that *frame*'s present call passes in registers, None for each unknown one.

        :raises Unavailable: if the code of the frame's function cannot be followed to that call
        """
        function, _, facts = _point(self.by_itself(self.code.entry(frame.call_site)), frame)
        registers = self.processor.arguments if self.processor is not None else ()
        values = (facts.state.registers.get(register) for register in registers)
        return tuple(self._values.read(value, frame, function, facts.state) for value in values)

    def object_passed(self, frame: Frame) -> int | None:
        """Return the address of the object, such as a lock, that *frame* has passed to a routine that begins or
        acquires.

        :returns: None if the frame is in no such routine, or if the object is unknown
        :raises Unavailable: if the code of the frame's function cannot be followed to where the frame is
        """
        function, address, facts = _point(self.by_itself(self.code.entry(frame.call_site)), frame)
        instruction = function.instruction(address)
        routine = self.called(instruction).routine if instruction is not None else None
        if routine is None or not routine.begins:
            return None
        return self._values.read(function.argument(routine, facts.state), frame, function, facts.state)

    def released(self, frame: Frame) -> frozenset[tuple[str, int | None]] | None:
        """Return the constructs and locks of other functions that the function of *frame* may have ended so far.

        :returns: the kind of each construct or lock, with the address of its object, None if the object is unknown;
            None instead of the set if even the kinds are unknown
        """
        if self.releases.all == frozenset():
            return frozenset()
        try:
            function, _, facts = _point(self.with_callees(self.code.entry(frame.call_site)), frame)
        except OmpdError:
            return None
        return frozenset(
            (kind, self._values.read(value, frame, function, facts.state)) for kind, value in facts.state.released
        )

    def released_by_jumpers(self, frame: Frame, inner: Frame | None) -> frozenset[tuple[str, int | None]] | None:
        """Return the constructs and locks that functions called by *frame* may have ended before they left by a jump.

        :param inner: the next inner frame, None if *frame* is the innermost one
        :returns: as for :meth:`released`
        """
        if inner is None or frame.call_site == frame.pc or self.releases.all == frozenset():
            return frozenset()
        try:
            called = self._function_called(frame)
            if called is not None and (not self._is_users(called) or self.code.start(inner.call_site) == called):
                return frozenset()
            released = self.releases.of(called) if called is not None else self.releases.all
        except OmpdError:
            return None
        return frozenset((kind, number_of(value)) for kind, value in released) if released is not None else None

    def _function_called(self, frame: Frame) -> int | None:
        # The function that a frame has called, None if unknown.
        function = self.with_callees(self.code.entry(frame.call_site))
        call = function.call_before(frame.pc)
        target = function.called_at(call) if call is not None else None
        called = self._calls.leads_to(target, None) if target is not None else self._calls.target(frame.pc)
        return called if called is not None else self._calls.function_called(frame)

    def has_jumped(self, frame: Frame, inner: Frame | None) -> bool:
        """Return whether *frame* directly called a function of the user's that then left the stack by a jump.

        :param inner: the user's next inner frame, None if *frame* is the innermost one
        """
        if frame.call_site == frame.pc:
            return False
        try:
            called = self._calls.target(frame.pc)
            if called is None or not self._is_users(called) or self._calls.is_stub(called):
                return False
            return inner is None or self.code.entry(inner.call_site) != called
        except OmpdError:
            return True

    # Followed functions

    def by_itself(self, entry: int) -> Function:
        """Return the function at *entry*, without the effects of the user's functions that it calls.

        :raises OmpdError: if its code cannot be followed
        """
        return self._follow(self._by_itself, entry, with_callees=False)

    def with_callees(self, entry: int) -> Function:
        """Return the function at *entry*, with the effects of the user's functions that it calls.

        :raises OmpdError: if its code cannot be followed
        """
        return self._follow(self._with_callees, entry, with_callees=True)

    def _follow(self, followed: dict[int, Function | OmpdError], entry: int, *, with_callees: bool) -> Function:
        if entry not in followed:
            try:
                if self.processor is None:
                    raise Unavailable("code of this processor is not followed")
                followed[entry] = Function(FunctionCode(self, entry, self.processor, with_callees=with_callees))
            except OmpdError as error:
                followed[entry] = error
        function = followed[entry]
        if isinstance(function, OmpdError):
            raise function
        return function

    def spend(self, count: int) -> None:
        """Count *count* more instructions as followed.

        :raises Unavailable: if that exceeds the limit for all functions together
        """
        self._left -= count
        if self._left < 0:
            raise Unavailable("more code would have to be followed than is")

    def states_before(self, address: int) -> Sequence[State]:
        """Return the states before the instruction at *address*, at least one for each way into its block.

        :raises Unavailable: if the code of the instruction's function cannot be followed
        """
        return self.by_itself(self.code.entry(address)).states_before(address)

    # Effects of calls

    def called(self, call: Instruction) -> Called:
        """Return the effects of a call, or of a jump to another function, without those of the called user's code."""
        target = self.targets.target(call) if not _is_by_pointer(call) else None
        return self._ended(call, self.targets.called_at(target) if target is not None else Called())

    def called_with_callees(self, call: Instruction) -> Called:
        """Return the effects of a call, or of a jump to another function, with those of the called user's code."""
        if _is_by_pointer(call):
            return self._ended(call, Called(released=self.releases.all))
        target = self.targets.target(call)
        called = self.called(call)
        if target is None or called.routine is not None or not self._is_users(target):
            return called
        return called if self.releases.all == frozenset() else called._replace(released=self.releases.of(target))

    def _ended(self, call: Instruction, called: Called) -> Called:
        # A call with no code of its function behind it never returns.
        is_last = call.flow == "call" and self.code.start(call.end) != self.code.start(call.address)
        return called._replace(ends=True) if is_last else called


def _point(function: Function, frame: Frame) -> _Point:
    """Return the place of a frame in its *function*.

    :raises Unavailable: if no followed way leads there
    """
    address = frame.pc if frame.call_site == frame.pc else function.call_before(frame.pc)
    facts = function.facts_before(address) if address is not None else None
    if address is None or facts is None:
        raise Unavailable("no way through its function is seen that leads to where it is")
    return _Point(function, address, facts)


def _is_by_pointer(call: Instruction) -> bool:
    return call.target is None and call.word is None
