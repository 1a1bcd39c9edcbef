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

    - ``number``: the number ``at``;
    - ``frame``: the CFA + ``at``;
    - ``made``: the result of the instruction at ``at``, + ``more``. If ``at`` is -1 - r, the initial value of register
      r, + ``more``;
    - ``result``: a truth value about the result of the call at ``at``. If ``more`` is 1, it is not 0 if the result is
      not 0. If ``more`` is 0, it is not 0 if the result is 0;
    - ``bit``: as ``result``, but only the lowest bit is known;
    - ``computed``: the value that the instruction at ``at`` left in the register or slot ``of``, + ``more``;
    - ``joined``: the value that the register or slot ``of`` had when ways met at ``at``, + ``more``.

    The kinds ``computed`` and ``joined`` can be read only from a register or slot that still has the value.
    """

    kind: str
    at: int
    more: int = 0
    of: tuple[bool, int] = (False, 0)  # True and a slot's distance from the CFA, or False and a register's number


class Held(NamedTuple):
    """A construct or lock that a call of ``routine``, by the name ``name``, began.

    ``value`` is its object. ``doubt`` is why it may have ended, ``""`` if it certainly has not. ``passed`` is the
    object as the call passes it, if that is a number, else None. If ``value`` is then another object, that one is from
    another call, on another way to the same place.
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


class State:
    """The facts at one place."""

    __slots__ = ("escaped", "flags", "held", "registers", "released", "slots")

    def __init__(self, registers: dict[int, Value]) -> None:
        self.registers = registers
        self.slots: dict[int, tuple[Value, int]] = {}  # by distance from the CFA: the value, and its width in bytes
        self.escaped: int | None = None  # other functions may write to the frame from this distance to the CFA upwards
        self.held: dict[int, Held] = {}
        self.released: frozenset[Released] = frozenset()
        self.flags: tuple[int, bool] | None = None  # a call's address, and whether "equal" means that it returned not 0

    def copy(self) -> State:
        """Return a copy of this state."""
        made = State(dict(self.registers))
        made.slots, made.escaped = dict(self.slots), self.escaped
        made.held, made.released, made.flags = dict(self.held), self.released, self.flags
        return made

    def join(self, other: State, where: int) -> bool:
        """Keep only the facts that *other* has, too, and return whether this state has changed.

        A register or slot whose values differ gets a new value of the kind ``joined``. If several of them had the same
        value on each way, they share one new value.

        :param where: the address at which the ways meet
        """
        joined: dict[tuple[Value, Value], Value] = {}
        changed = False
        for number, value in sorted(self.registers.items()):
            there = other.registers.get(number)
            if value != there or _is_of_join(value, where):
                new = Value("joined", where, 0, (False, number))
                new = joined.setdefault((value, there), new) if there is not None else new
                changed |= new != value
                self.registers[number] = new
        for at, (value, width) in sorted(self.slots.items()):
            there, other_width = other.slots.get(at, (None, 0))
            if there is None or width != other_width:
                del self.slots[at]
                changed = True
            elif value != there or _is_of_join(value, where):
                new = joined.setdefault((value, there), Value("joined", where, 0, (True, at)))
                changed |= new != value
                self.slots[at] = new, width
        if other.escaped is not None and (self.escaped is None or other.escaped < self.escaped):
            self.escaped, changed = other.escaped, True
        if self.flags is not None and self.flags != other.flags:
            self.flags, changed = None, True
        released = frozenset((kind, None if _is_of_join(value, where) else value) for kind, value in other.released)
        if not released <= self.released:
            self.released, changed = self.released | released, True
        return self._join_held(other.held, joined, where) or changed

    def _join_held(self, others: Mapping[int, Held], joined: Mapping[tuple[Value, Value], Value], where: int) -> bool:
        def both(value: Value | None, other: Value | None) -> Value | None:
            # The value after the ways have met, None if it is unknown or they differ.
            if value is None or other is None:
                return None
            return value if value == other and not _is_of_join(value, where) else joined.get((value, other))

        def like(held: Held, some: Iterable[Held], is_other: bool) -> Held | None:
            # Returns *held*, with the common value, if one of *some* certainly holds the same object, else None.
            for each in some if not held.doubt else ():
                value = both(each.value, held.value) if is_other else both(held.value, each.value)
                if (each.routine.kind, each.routine.argument) != (held.routine.kind, held.routine.argument):
                    continue
                if not each.doubt and (value is not None or held.routine.argument is None):
                    return held._replace(value=value)
            return None

        joint: Held | None
        changed = False
        mine = dict(self.held)
        for site in (*mine, *(site for site in others if site not in mine)):
            one, other = mine.get(site), others.get(site)
            if one is not None and other is not None:
                doubt = min(filter(None, (one.doubt, other.doubt)), default="")
                passed = one.passed if one.passed == other.passed else None
                joint = one._replace(value=both(one.value, other.value), doubt=doubt, passed=passed)
            elif one is not None:
                joint = like(one, others.values(), False) or one._replace(doubt=one.doubt or BRANCH)
            else:
                assert other is not None
                value = None if _is_of_join(other.value, where) else other.value
                joint = like(other, mine.values(), True) or other._replace(value=value, doubt=other.doubt or BRANCH)
            # A construct's code is entered only at its beginning. Any other way has ended or left it.
            is_over = joint.routine.kind not in OBJECTS and joint.doubt == BRANCH
            if (one is None or other is None) and (is_over or not joint.routine.ends):
                joint = None
            if joint is None:
                changed |= self.held.pop(site, None) is not None
            elif joint != one:
                self.held[site], changed = joint, True
        return changed

    # Values

    def forget(self, where: int) -> None:
        """Invalidate the values that the instruction at *where* made earlier, because it now makes new ones."""

        def is_gone(value: Value | None) -> bool:
            return value is not None and value.kind not in ("number", "frame", "joined") and value.at == where

        for number in [n for n, value in self.registers.items() if is_gone(value)]:
            del self.registers[number]
        for at in [at for at, (value, _) in self.slots.items() if is_gone(value)]:
            del self.slots[at]
        for site, held in self.held.items():
            if is_gone(held.value):
                self.held[site] = held._replace(value=None)
        if any(is_gone(value) for _, value in self.released):
            self.released = frozenset((k, None if is_gone(value) else value) for k, value in self.released)
        if self.flags is not None and self.flags[0] == where:
            self.flags = None

    def keep(self, register: int, where: int) -> None:
        """Set a register to the unknown value that the instruction at *where* has left in it (``computed``)."""
        self.registers[register] = Value("computed", where, 0, (False, register))

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
            return Value("number", operand.displacement & MASK)
        return added(self.registers.get(operand.base), operand.displacement)

    def write(self, operand: Operand | None, width: int, value: Value | None) -> None:
        """Record a write of *width* bytes to *operand*, None for an unknown operand.

        :param value: what is written, None if unknown
        """
        at = self.address_of(operand) if operand is not None else None
        if at is not None and at.kind == "frame":
            self._drop(at.at, at.at + width)
            if value is not None and len(self.slots) < _MAX_SLOTS:
                self.slots[at.at] = value, width
            return
        base = self.registers.get(operand.base) if operand is not None and operand.base is not None else None
        if operand is not None and base is not None and base.kind == "frame":
            self._drop(base.at + operand.displacement, None)  # an array's element
        elif at is None or at.kind != "number":
            self.write_escaped()

    def seen(self, value: Value | None) -> Value | None:
        """Return *value*; None if it can be read only from a register or slot, and none has it any more."""
        if value is None or value.kind not in LOCAL:
            return value
        values = (*self.registers.values(), *(value for value, _ in self.slots.values()))
        return value if any(has_same_base(each, value) for each in values) else None

    def write_from(self, value: Value) -> bool:
        """Record possible writes by other code from *value* upwards. Return whether it is an address in the frame."""
        if value.kind == "frame":
            self._drop(value.at, None)
        return value.kind == "frame"

    def write_escaped(self) -> None:
        """Record possible writes by other code to all memory that it can reach."""
        if self.escaped is not None:
            self._drop(self.escaped, None)

    def escape(self, value: Value | None) -> None:
        """Record that the address *value* was taken. If it is in the frame, other code may write from there upwards."""
        if value is not None and value.kind == "frame" and (self.escaped is None or value.at < self.escaped):
            self.escaped = value.at

    def _drop(self, start: int, end: int | None) -> None:
        for at in [a for a, (_, w) in self.slots.items() if a + w > start and (end is None or a < end)]:
            del self.slots[at]


def _is_of_join(value: Value | None, where: int) -> bool:
    # Whether a value is from an earlier join of the ways that meet at *where*. It is outdated, because they meet anew.
    return value is not None and value.kind == "joined" and value.at == where


def added(value: Value | None, distance: int) -> Value | None:
    """Return the sum of *value* and a distance, None if unknown."""
    if value is None or value.kind in ("result", "bit"):
        return None
    if value.kind in ("made", *LOCAL):
        return value._replace(more=value.more + distance)
    return value._replace(at=value.at + distance & MASK if value.kind == "number" else value.at + distance)


def meets(one: Value | None, other: Value | None) -> bool | None:
    """Return whether two values are the same object, None if unknown."""
    if one is None or other is None:
        return None
    if one == other:
        return True
    if one.kind != other.kind:
        return None
    return False if one.kind in ("number", "frame") or has_same_base(one, other) else None


def has_same_base(one: Value, other: Value) -> bool:
    """Return whether two values are the same but for their distances ``more``."""
    return one._replace(more=0) == other._replace(more=0)
