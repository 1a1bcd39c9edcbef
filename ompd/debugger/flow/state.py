"""The facts that hold on every way to one place of a function: values, and the constructs and locks that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ompd.isa.instructions import Operand
from ompd.naming import Routine

MASK = (1 << 64) - 1
OBJECTS = ("lock", "nest_lock", "mutex")
"""Kinds of objects that a function may acquire on only some of its ways."""
_MAX_SLOTS = 1 << 10  # words of a frame that are followed; further ones count as unknown

# Reasons to doubt that a construct or lock is still held: events between the call that began it and the place.
ENTERED, BRANCH, CALLEE, POINTER, OTHER, LEAVING, JUMP, TWICE, PAUSED = (
    *("entered", "branch", "callee", "pointer", "other", "leaving", "jump", "twice", "paused"),
)


class Value(NamedTuple):
    """A value, by its ``kind``:

    - ``number``: the number ``offset``;
    - ``frame``: the CFA + ``offset``;
    - ``made``: the result of the instruction at ``site``, + ``offset``. If ``site`` is -1 - r, the initial value of
      register r, + ``offset``;
    - ``result``: a truth value about the result of the call at ``site``. If ``offset`` is 1, it is not 0 if the result
      is not 0. If ``offset`` is 0, it is not 0 if the result is 0;
    - ``bit``: as ``result``, but only the lowest bit is known;
    - ``computed``: the value that the instruction at ``site`` left in the register or slot ``home``, + ``offset``;
    - ``joined``: the value that the register or slot ``home`` had when ways met at ``site``, + ``offset``.

    The kinds ``computed`` and ``joined`` can be read only from a register or slot that still has the value.

    If ``size`` is 4, a ``made``, ``computed`` or ``joined`` value is only the lowest four bytes.
    """

    kind: str
    site: int = 0
    offset: int = 0
    home: tuple[bool, int] = (False, 0)  # True and a slot's distance from the CFA, or False and a register's number
    size: int = 8


class Held(NamedTuple):
    """A construct or lock that a call of ``routine``, by the name ``name``, began.

    ``value`` is its object. ``doubt`` is why it may have ended, ``""`` if it certainly has not. ``passed`` is the
    number that the call passes as the object, None if it passes no number. A ``value`` that differs from ``passed`` is
    the object of another call, on another way to the same place.
    """

    routine: Routine
    name: str
    value: Value | None
    doubt: str
    passed: int | None


LOCAL = ("computed", "joined")
"""Kinds of values that can be read only from a register or slot that still has them."""
Released = tuple[str, "Value | None"]
"""The kind of a construct or lock that was ended, and its object, None if that is unknown."""


class Slot(NamedTuple):
    """A word of the frame: its ``value``, and its ``width`` in bytes."""

    value: Value
    width: int


class State:
    """The facts at one place."""

    __slots__ = ("escaped", "flags", "held", "registers", "released", "slots")

    def __init__(self, registers: dict[int, Value]) -> None:
        self.registers = registers
        self.slots: dict[int, Slot] = {}  # by distance from the CFA
        self.escaped: int | None = None  # other functions may write to the frame from this distance to the CFA upwards
        self.held: dict[int, Held] = {}  # by the address of the call that began it
        self.released: frozenset[Released] = frozenset()
        self.flags: tuple[int, bool] | None = None  # a call's address, and whether "equal" means that it returned not 0

    def copy(self) -> State:
        """Return a copy of this state."""
        copy = State(dict(self.registers))
        copy.slots, copy.escaped = dict(self.slots), self.escaped
        copy.held, copy.released, copy.flags = dict(self.held), self.released, self.flags
        return copy

    # Ways that meet

    def join(self, other: State, place: int) -> bool:
        """Keep only the facts that *other* has, too, and return whether this state has changed.

        A register or slot whose values differ gets a new value of the kind ``joined``. If several of them had the same
        value on each way, they share one new value.

        :param place: the address at which the ways meet
        """
        meeting = _Meeting(place)
        changed = False
        for number, value in sorted(self.registers.items()):
            other_value = other.registers.get(number)
            if value != other_value or meeting.is_outdated(value):
                joined = meeting.join(value, other_value, (False, number))
                changed |= joined != value
                self.registers[number] = joined
        for distance, slot in sorted(self.slots.items()):
            other_slot = other.slots.get(distance)
            if other_slot is None or slot.width != other_slot.width:
                del self.slots[distance]
                changed = True
            elif slot != other_slot or meeting.is_outdated(slot.value):
                joined = meeting.join(slot.value, other_slot.value, (True, distance))
                changed |= joined != slot.value
                self.slots[distance] = Slot(joined, slot.width)
        if other.escaped is not None and (self.escaped is None or other.escaped < self.escaped):
            self.escaped, changed = other.escaped, True
        if self.flags is not None and self.flags != other.flags:
            self.flags, changed = None, True
        released = frozenset((kind, None if meeting.is_outdated(value) else value) for kind, value in other.released)
        if not released <= self.released:
            self.released, changed = self.released | released, True
        return self._join_held(other.held, meeting) or changed

    def _join_held(self, others: Mapping[int, Held], meeting: _Meeting) -> bool:
        changed = False
        before = dict(self.held)
        for call in dict.fromkeys((*before, *others)):
            held, other = before.get(call), others.get(call)
            if held is not None and other is not None:
                joined: Held | None = meeting.join_held(held, other)
            elif held is not None:
                pairs = [(present, meeting.common(held.value, present.value)) for present in others.values()]
                joined = _join_unmatched(held, held.value, pairs)
            else:
                assert other is not None
                pairs = [(present, meeting.common(present.value, other.value)) for present in before.values()]
                joined = _join_unmatched(other, None if meeting.is_outdated(other.value) else other.value, pairs)
            if joined is None:
                changed |= self.held.pop(call, None) is not None
            elif joined != held:
                self.held[call], changed = joined, True
        return changed

    # Values

    def forget(self, site: int) -> None:
        """Invalidate the values that the instruction at *site* made earlier, because it now makes new ones."""

        def is_gone(value: Value | None) -> bool:
            return value is not None and value.kind not in ("number", "frame", "joined") and value.site == site

        for number in [number for number, value in self.registers.items() if is_gone(value)]:
            del self.registers[number]
        for distance in [distance for distance, slot in self.slots.items() if is_gone(slot.value)]:
            del self.slots[distance]
        for call, held in self.held.items():
            if is_gone(held.value):
                self.held[call] = held._replace(value=None)
        if any(is_gone(value) for _, value in self.released):
            self.released = frozenset((kind, None if is_gone(value) else value) for kind, value in self.released)
        if self.flags is not None and self.flags[0] == site:
            self.flags = None

    def set_computed(self, register: int, site: int) -> None:
        """Set a register to the unknown value that the instruction at *site* has left in it."""
        self.registers[register] = Value("computed", site, home=(False, register))

    def set(self, register: int, value: Value | None) -> None:
        """Set a register to a value, None if unknown."""
        if value is None:
            self.registers.pop(register, None)
        else:
            self.registers[register] = value

    def address_of(self, operand: Operand) -> Value | None:
        """Return the address of an operand, None if it is unknown."""
        if operand.is_indexed:
            return None
        if operand.base is None:
            return Value("number", offset=operand.displacement & MASK)
        return added(self.registers.get(operand.base), operand.displacement)

    def slot_at(self, address: Value | None) -> Slot | None:
        """Return the slot of the frame at an address, None if none is known there."""
        distance = frame_distance(address)
        return self.slots.get(distance) if distance is not None else None

    def write(self, operand: Operand | None, width: int, value: Value | None) -> None:
        """Record a write of *width* bytes to *operand*, None for an unknown operand.

        :param value: what is written, None if unknown
        """
        address = self.address_of(operand) if operand is not None else None
        distance = frame_distance(address)
        if distance is not None:
            self._drop_slots(distance, distance + width)
            if value is not None and len(self.slots) < _MAX_SLOTS:
                self.slots[distance] = Slot(value, width)
            return
        base = self.registers.get(operand.base) if operand is not None and operand.base is not None else None
        array = frame_distance(base)
        if operand is not None and array is not None:
            self._drop_slots(array + operand.displacement, None)  # any element of the array
        elif number_of(address) is None:
            self.write_escaped()

    def readable(self, value: Value | None) -> Value | None:
        """Return *value*; None if it can be read only from a register or slot, and none has it any more."""
        if value is None or value.kind not in LOCAL:
            return value
        values = (*self.registers.values(), *(slot.value for slot in self.slots.values()))
        return value if any(has_same_base(present, value) for present in values) else None

    def write_from(self, address: Value) -> bool:
        """Record possible writes by other code from an address upwards. Return whether it is in the frame."""
        distance = frame_distance(address)
        if distance is not None:
            self._drop_slots(distance, None)
        return distance is not None

    def write_escaped(self) -> None:
        """Record possible writes by other code to all memory that it can reach."""
        if self.escaped is not None:
            self._drop_slots(self.escaped, None)

    def escape(self, address: Value | None) -> None:
        """Record that an address was taken. If it is in the frame, other code may write from there upwards."""
        distance = frame_distance(address)
        if distance is not None and (self.escaped is None or distance < self.escaped):
            self.escaped = distance

    def _drop_slots(self, start: int, end: int | None) -> None:
        # Forgets the slots that overlap the range between two distances from the CFA. Without an end, the range is
        # open.
        for distance, slot in list(self.slots.items()):
            if distance + slot.width > start and (end is None or distance < end):
                del self.slots[distance]


class _Meeting:
    """A *place* where ways meet, and the new values of registers and slots whose values differ between the ways."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._values: dict[tuple[Value, Value], Value] = {}  # by the values on both ways

    def is_outdated(self, value: Value | None) -> bool:
        """Return whether a value is from an earlier join at this place, where the ways now meet anew."""
        return value is not None and value.kind == "joined" and value.site == self._place

    def join(self, value: Value, other: Value | None, home: tuple[bool, int]) -> Value:
        """Return the new value of a register or slot, by its values on both ways."""
        joined = Value("joined", self._place, home=home)
        return self._values.setdefault((value, other), joined) if other is not None else joined

    def common(self, value: Value | None, other: Value | None) -> Value | None:
        """Return the value of an object behind this place, by its values on both ways.

        None if it is unknown, or if the values differ.
        """
        if value is None or other is None:
            return None
        return value if value == other and not self.is_outdated(value) else self._values.get((value, other))

    def join_held(self, held: Held, other: Held) -> Held:
        """Return the construct or lock of one call, by its facts on both ways."""
        doubt = min(filter(None, (held.doubt, other.doubt)), default="")
        passed = held.passed if held.passed == other.passed else None
        return held._replace(value=self.common(held.value, other.value), doubt=doubt, passed=passed)


def _join_unmatched(held: Held, value: Value | None, pairs: Iterable[tuple[Held, Value | None]]) -> Held | None:
    """Return a construct or lock behind the place where ways meet, if its call is on one of the ways only.

    None if it is over there.

    :param value: its object behind the place, None if unknown
    :param pairs: the constructs and locks on the other way, each with the value that its object and the one of *held*
        have in common, None if unknown
    """
    if not held.routine.ends:
        return None
    for other, common in pairs:
        if _is_same_object(held, other, common):
            return held._replace(value=common)
    doubt = held.doubt or BRANCH
    # A construct's code is entered only at its beginning. Any other way has ended or left it.
    is_over = held.routine.kind not in OBJECTS and doubt == BRANCH
    return held._replace(value=value, doubt=doubt) if not is_over else None


def _is_same_object(held: Held, other: Held, common: Value | None) -> bool:
    # Whether two calls, each on its own way, certainly hold the same object, whose value is then *common*.
    routine, other_routine = held.routine, other.routine
    if held.doubt or other.doubt or (routine.kind, routine.argument) != (other_routine.kind, other_routine.argument):
        return False
    return common is not None or routine.argument is None


def number_of(value: Value | None) -> int | None:
    """Return the number that a value is, None if it is no known number."""
    return value.offset if value is not None and value.kind == "number" else None


def frame_distance(value: Value | None) -> int | None:
    """Return the distance of an address from the CFA, None if it is not known to be in the frame."""
    return value.offset if value is not None and value.kind == "frame" else None


def added(value: Value | None, distance: int) -> Value | None:
    """Return the sum of *value* and a distance, None if unknown."""
    if value is None or value.kind in ("result", "bit"):
        return None
    total = value.offset + distance
    return value._replace(offset=total & MASK if value.kind == "number" else total)


def meets(value: Value | None, other: Value | None) -> bool | None:
    """Return whether two values are the same object, None if unknown."""
    if value is None or other is None:
        return None
    if value == other:
        return True
    return False if has_same_base(value, other) else None


def has_same_base(value: Value, other: Value) -> bool:
    """Return whether two values are the same but for their offsets."""
    return value._replace(offset=0) == other._replace(offset=0)
