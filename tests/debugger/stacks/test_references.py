"""References in code to an address, found by the distance to it, and compared with a search at every index."""

from __future__ import annotations

import random

import pytest

from ompd.debugger.flow.code import _distances


@pytest.mark.parametrize("size", [0, 3, 4, 100, 70_000, 200_000])
def test_all_distances_to_a_target_are_found(size: int) -> None:
    chance = random.Random(size)
    for _ in range(5):
        code = bytearray(chance.choices(b"\x00\x01\xff\xfe\x02", k=size))
        target = chance.randrange(-100_000, size + 100_000)
        planted = [chance.randrange(size - 3) for _ in range(3)] if size > 3 else []
        for index in planted:
            code[index : index + 4] = (target - 4 - index).to_bytes(4, "little", signed=True)
        every = [
            index
            for index in range(size - 3)
            if int.from_bytes(code[index : index + 4], "little", signed=True) == target - 4 - index
        ]
        assert sorted(_distances(bytes(code), target)) == every
        assert planted[-1:] == [] or planted[-1] in every
