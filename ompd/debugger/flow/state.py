"""What is known at one place of a function, whichever way led there: values, and which calls are not undone yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ompd.debugger.flow.instructions import Operand
from ompd.naming import Routine

MASK = (1 << 64) - 1
_MAX_SLOTS = 1 << 10  # words of its frame that are followed; what more there are count as unknown

# Why it is not certain that what a call began is not ended yet, by what is in between.
ENTERED, BRANCH, CALLEE, POINTER, OTHER, LEAVING, JUMP, TWICE, PAUSED = (
    *("entered", "branch", "callee", "pointer", "other", "leaving", "jump", "twice", "paused"),
)


class Value(NamedTuple):
    """A value. ``kind`` is ``number``, which is ``at``; ``frame``: the CFA and ``at``; ``made``: what the instruction
    at ``at`` made, and ``more``, or, with -1 - r in its place, what register r had at the function's beginning; or
    ``result``: something that is not 0 where the result of the call at ``at`` is not (``more`` is 1), or where it is
    (0); of a ``bit`` only the lowest bit is like that.
    """

    kind: str
    at: int
    more: int = 0


class Held(NamedTuple):
    """What a call began: with which object, and why it is not certain that it still holds (``""`` if it is)."""

    routine: Routine
    name: str
    value: Value | None
    doubt: str


Released = tuple[str, "Value | None"]
"""A kind, and the object, None if it is unknown which."""


class State:
    """What is known at one place."""

    __slots__ = ("escaped", "flags", "held", "registers", "released", "slots")

    def __init__(self, registers: dict[int, Value]) -> None:
        self.registers = registers
        self.slots: dict[int, tuple[Value, int]] = {}  # by distance from the CFA: what is there, and its width
        self.escaped: int | None = None  # from this distance on upwards others may write
        self.held: dict[int, Held] = {}
        self.released: frozenset[Released] = frozenset()
        self.flags: tuple[int, bool] | None = None  # a call, and whether equal means that its result is not 0

    def copy(self) -> State:
        """Return another state with the same facts."""
        made = State(dict(self.registers))
        made.slots, made.escaped = dict(self.slots), self.escaped
        made.held, made.released, made.flags = dict(self.held), self.released, self.flags
        return made

    def join(self, other: State) -> bool:
        """Keep what also *other* has; return whether this has changed."""
        changed = False
        for number in [n for n, value in self.registers.items() if other.registers.get(n) != value]:
            del self.registers[number]
            changed = True
        for at in [at for at, value in self.slots.items() if other.slots.get(at) != value]:
            del self.slots[at]
            changed = True
        if other.escaped is not None and (self.escaped is None or other.escaped < self.escaped):
            self.escaped, changed = other.escaped, True
        if self.flags is not None and self.flags != other.flags:
            self.flags, changed = None, True
        if not other.released <= self.released:
            self.released, changed = self.released | other.released, True
        return self._join_held(other.held) or changed

    def _join_held(self, others: Mapping[int, Held]) -> bool:
        changed = False
        alike = {site for site, held in self.held.items() if _has_like(held, others)}
        alike |= {site for site, held in others.items() if _has_like(held, self.held)}
        for site in (*self.held, *(site for site in others if site not in self.held)):
            mine, other = self.held.get(site), others.get(site)
            found = mine or other
            assert found is not None
            if mine is None or other is None:
                doubt = found.doubt or ("" if site in alike else BRANCH)
                joined = found._replace(doubt=doubt) if found.routine.ends else None
            else:
                value = mine.value if mine.value == other.value else None
                joined = mine._replace(value=value, doubt=min(filter(None, (mine.doubt, other.doubt)), default=""))
            if joined is None:
                changed |= self.held.pop(site, None) is not None
            elif joined != mine:
                self.held[site], changed = joined, True
        return changed

    # Values

    def forget(self, where: int) -> None:
        """Take it that what *where* made is no longer what it was, since it makes something anew."""

        def is_gone(value: Value | None) -> bool:
            return value is not None and value.kind != "number" and value.kind != "frame" and value.at == where

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

    def set(self, register: int, value: Value | None) -> None:
        """Give a register a value, None if it is unknown."""
        if value is None:
            self.registers.pop(register, None)
        else:
            self.registers[register] = value

    def address_of(self, operand: Operand) -> Value | None:
        """Return where a place in memory is, None if that is unknown."""
        if operand.is_indexed:
            return None
        if operand.base is None:
            return Value("number", operand.displacement & MASK)
        return added(self.registers.get(operand.base), operand.displacement)

    def write(self, operand: Operand | None, width: int, value: Value | None) -> None:
        """Note that *width* bytes are written at a place, or anywhere without one."""
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

    def write_escaped(self) -> None:
        """Note that others may have written what they can."""
        if self.escaped is not None:
            self._drop(self.escaped, None)

    def escape(self, value: Value | None) -> None:
        """Note that an address in the frame was taken: from there on upwards others may write."""
        if value is not None and value.kind == "frame" and (self.escaped is None or value.at < self.escaped):
            self.escaped = value.at

    def _drop(self, start: int, end: int | None) -> None:
        for at in [a for a, (_, w) in self.slots.items() if a + w > start and (end is None or a < end)]:
            del self.slots[at]


def _has_like(held: Held, others: Mapping[int, Held]) -> bool:
    # Whether others certainly hold the same object by another call.
    if held.doubt or (held.value is None and held.routine.argument is not None):
        return False
    return any(
        (other.routine.kind, other.value, other.doubt) == (held.routine.kind, held.value, "")
        and other.routine.argument == held.routine.argument
        for other in others.values()
    )


def added(value: Value | None, distance: int) -> Value | None:
    """Return *value* and a distance, None if that is unknown."""
    if value is None or value.kind in ("result", "bit"):
        return None
    if value.kind == "made":
        return value._replace(more=value.more + distance)
    return value._replace(at=value.at + distance & MASK if value.kind == "number" else value.at + distance)


def meets(one: Value | None, other: Value | None) -> bool | None:
    """Return whether two objects are the same one, None if that is unknown."""
    if one is None or other is None:
        return None
    if one == other:
        return True
    return False if one.kind == other.kind and (one.kind != "made" or one.at == other.at) else None
