"""Records are dataclasses that share the slow parts of the standard decorator."""

from __future__ import annotations

import copy
import pickle
from dataclasses import field, fields, is_dataclass, replace
from functools import cached_property

import pytest

from ompd.records import record


@record
class Point:
    x: int
    y: int = 2
    near: list[int] = field(default_factory=list, repr=False)


@record
class Named(Point):
    name: str = ""

    def __repr__(self) -> str:
        return self.name


@record(eq=False)
class Handle:
    x: int


@record(kw_only=True)
class Keyed:
    x: int


@record(slots=False)
class Keeping:
    x: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.x


def test_a_record_without_slots_keeps_what_is_computed() -> None:
    keeping = Keeping(2)
    assert keeping.twice == 4 and keeping.__dict__ == {"x": 2, "twice": 4}
    assert keeping == Keeping(2) and replace(keeping, x=3).twice == 6


def test_records_have_what_dataclasses_have() -> None:
    point = Point(1)
    assert is_dataclass(point) and [each.name for each in fields(point)] == ["x", "y", "near"]
    assert replace(point, y=3) == Point(1, 3) != point
    assert repr(point) == "Point(x=1, y=2)" and repr(Named(1, name="here")) == "here"
    assert Point(1).near is not Point(1).near
    with pytest.raises(AttributeError):
        point.z = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Keyed(1)  # type: ignore[misc]
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_records_are_equal_if_their_members_are() -> None:
    assert Point(1, 2) == Point(1) and Point(1) != Named(1) and Point(1) != (1, 2, [])
    assert hash(Keyed(x=1)) == hash(Keyed(x=1)) and len({Keyed(x=1), Keyed(x=1), Keyed(x=2)}) == 2
    assert Handle(1) != Handle(1) and len({Handle(1), Handle(1)}) == 2


def test_records_are_copied() -> None:
    for made in (copy.deepcopy(Named(1, 2, [3], "n")), pickle.loads(pickle.dumps(Named(1, 2, [3], "n")))):
        assert (made.x, made.y, made.near, made.name) == (1, 2, [3], "n")
