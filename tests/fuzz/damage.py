"""Ways to damage a core, drawn from a source of random numbers: equal numbers make equal cases.

Cases damage the bytes that questions read in the intact core: fields of the runtime's structures and of glibc's, the
constants that describe them, pointers, stacks, texts. They also damage headers, notes, and bytes beside all these.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fuzz.oracle import ORDERS, Victim
from tests.fuzz.victims import EVERYTHING, REGISTERS, Span

_PAGE = 4096
_NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 16, 64, 255, 256, 1000, 4096, 65_535, 65_536, 100_000, 1 << 20, 1 << 22, (1 << 22) + 1),
    *(
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
        1 << 32,
        1 << 40,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 2,
        (1 << 64) - 1,
    ),
)
_TEXTS = (
    *(b"\x1b[2J\x1b]0;x\x07", b"\n\rompd: done\n", b"\xff\xfe\x80", "\u202egnp.c\u2066".encode(), b"[red]x[/red]"),
    *(
        b"[link=file:///]x[/link]",
        b"\xed\xa0\x80",
        b"\0",
        b"%s%n",
        b";;;;;",
        b"=" * 8,
        b"9" * 12,
        "\u2028\x85".encode(),
    ),
    b"A" * 300,
)


@dataclass
class Case:
    """The damage of a core: bytes that are written over the file, and memory that is removed."""

    what: str
    patches: list[tuple[int, bytes]] = field(default_factory=list)
    holes: list[Span] = field(default_factory=list)
    order: int = 0
    reads: int | None = None


class Damager:
    """Makes cases for one victim."""

    def __init__(self, victim: Victim) -> None:
        self.victim = victim
        self._core = victim.core
        memory = [span for span in victim.log if span[0] < REGISTERS and self._core.offset_of(span[0]) is not None]
        opened = set(_opening(victim))
        # Opening a session reads much, and always the same. The other spans must be damaged as often.
        self._described = [span for span in memory if span in opened]
        self._asked = [span for span in memory if span not in opened]
        self._texts = [span for span in memory if self._is_text(span)]
        self._starts = sorted({span[0] for span in self._asked})
        self._headers = [s for s in self._core.segments if s.place >= EVERYTHING and s.size]
        self._registers = [s for s in self._core.segments if REGISTERS <= s.place < EVERYTHING]

    def _is_text(self, span: Span) -> bool:
        raw = self._bytes(span[0], min(span[1] - span[0], 256))
        text = raw.split(b"\0", 1)[0]
        return len(text) >= 3 and all(32 <= byte < 127 for byte in text)

    def _bytes(self, address: int, size: int) -> bytes:
        offset = self._core.offset_of(address)
        return self._core.bytes_at(offset, size) if offset is not None else b""

    def case(self, numbers: random.Random) -> Case:
        """Return the next case that *numbers* determine."""
        name = numbers.choices(list(_WAYS), [weight for weight, _ in _WAYS.values()])[0]
        case = Case(name, order=numbers.randrange(len(ORDERS)))
        _WAYS[name][1](self, numbers, case)
        if numbers.random() < 0.03:
            case.reads = numbers.choice((0, 1, 10, 30, 50, 80, 120, 300, 700, 740, 751, 801))
            if numbers.random() < 0.5:
                case.patches, case.holes = [], []
        return case

    # Where

    def _span(self, numbers: random.Random) -> Span:
        return numbers.choice(self._asked if self._asked and numbers.random() < 0.75 else self._described)

    def _word(self, numbers: random.Random) -> tuple[int, int]:
        # Return address and size of an integer that was read, by itself or within a larger read.
        start, end = self._span(numbers)
        size = end - start
        if size in (1, 2, 4, 8):
            return start, size
        place = start + numbers.randrange(max(size // 8, 1)) * 8
        if size > 512 and numbers.random() < 0.6:  # in a block of stack, a word that is not zero
            for _ in range(20):
                place = start + numbers.randrange(size // 8) * 8
                if any(self._bytes(place, 8)):
                    break
        return place, min(8, end - place)

    def _value(self, numbers: random.Random, address: int, size: int) -> int:
        old = int.from_bytes(self._bytes(address, size), "little")
        way = numbers.randrange(8)
        if way <= 1:
            return numbers.choice(_NUMBERS)
        if way == 2:
            return old + numbers.choice((-1, 1, -8, 8, -16, 16, -256, 256))
        if way == 3:
            return address + numbers.choice((0, 0, -8, 8, 1))
        if way <= 5:
            return numbers.choice(self._starts) + numbers.choice((0, 0, 0, -8, 8, 1))
        if way == 6:
            other, size = self._word(numbers)
            return int.from_bytes(self._bytes(other, size), "little")
        return numbers.choice(
            (0x10, 0xDEAD0000, 0x7FFF_FFFF_F000, (1 << 64) - 16, old ^ 1 << numbers.randrange(8 * size))
        )

    def _put(self, case: Case, address: int, value: int, size: int) -> None:
        offset = self._core.offset_of(address)
        if offset is not None and size > 0:
            case.patches.append((offset, (value & (1 << 8 * size) - 1).to_bytes(size, "little")))

    # Ways

    def word(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 1, 1, 2, 3, 6))):
            address, size = self._word(numbers)
            self._put(case, address, self._value(numbers, address, size), size)

    def ring(self, numbers: random.Random, case: Case) -> None:
        # Pointers that point to one another, or to themselves.
        words = [self._word(numbers) for _ in range(numbers.randint(1, 3))]
        shift = numbers.choice((0, 0, 8, -8, 16))
        for (address, size), (other, _) in zip(words, words[1:] + words[:1], strict=True):
            self._put(case, address, other - shift, size)

    def bits(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 2, 8, 40))):
            start, end = self._span(numbers)
            address = numbers.randrange(start, end)
            old = self._bytes(address, 1)
            if old:
                self._put(case, address, old[0] ^ 1 << numbers.randrange(8), 1)

    def beside(self, numbers: random.Random, case: Case) -> None:
        # Bytes beside those that were read, which no answer should depend on.
        for _ in range(numbers.choice((1, 4, 16))):
            start, end = self._span(numbers)
            address = numbers.choice((start - numbers.randint(1, 16), end + numbers.randrange(16)))
            self._put(case, address, numbers.randrange(256), 1)

    def anywhere(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 10, 100))):
            case.patches.append((numbers.randrange(self._core.size), numbers.randbytes(1)))

    def block(self, numbers: random.Random, case: Case) -> None:
        start, end = self._span(numbers)
        offset = self._core.offset_of(start)
        size = min(numbers.choice((end - start, 64, 1024, _PAGE)), self._core.size - (offset or 0))
        if offset is not None:
            fill = numbers.choice(
                (bytes(size), b"\xff" * size, numbers.randbytes(size), self._bytes(start, 8) * (size // 8))
            )
            case.patches.append((offset, fill))

    def registers(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 1, 2, 9))):
            segment = numbers.choice(self._registers)
            at = numbers.randrange(segment.size // 8) * 8
            value = numbers.choice((numbers.choice(_NUMBERS), numbers.choice(self._starts) + numbers.choice((0, 8, 1))))
            case.patches.append((segment.offset + at, struct.pack("<Q", value)))

    def headers(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 1, 2, 4))):
            segment = numbers.choice(self._headers)
            size = min(numbers.choice((1, 2, 4, 8)), segment.size)
            at = numbers.randrange(max(segment.size // size, 1)) * size
            value = numbers.choice((numbers.choice(_NUMBERS), numbers.choice(self._starts), numbers.getrandbits(64)))
            if segment.size > 200 and numbers.random() < 0.2:
                text = numbers.choice(_TEXTS)[: segment.size - at]
                case.patches.append((segment.offset + at, text))
            else:
                case.patches.append((segment.offset + at, (value & (1 << 8 * size) - 1).to_bytes(size, "little")))

    def text(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 1, 3))):
            if not self._texts:
                return self.word(numbers, case)
            start, end = numbers.choice(self._texts)
            length = len(self._bytes(start, end - start).split(b"\0", 1)[0])
            at = numbers.randrange(length + 1)
            self._put_bytes(case, start + at, numbers.choice(_TEXTS)[: end - start - at])

    def _put_bytes(self, case: Case, address: int, raw: bytes) -> None:
        offset = self._core.offset_of(address)
        if offset is not None and raw:
            case.patches.append((offset, raw))

    def hole(self, numbers: random.Random, case: Case) -> None:
        for _ in range(numbers.choice((1, 1, 1, 2, 5))):
            if numbers.random() < 0.4:
                page = self._span(numbers)[0] // _PAGE * _PAGE
                case.holes.append((page, page + _PAGE))
            else:
                address, size = self._word(numbers)
                case.holes.append((address, address + max(size, 1)))


_Way = Callable[[Damager, random.Random, Case], None]
_WAYS: Mapping[str, tuple[int, _Way]] = {
    "word": (34, Damager.word),
    "ring": (9, Damager.ring),
    "bits": (8, Damager.bits),
    "beside": (8, Damager.beside),
    "anywhere": (4, Damager.anywhere),
    "block": (5, Damager.block),
    "registers": (6, Damager.registers),
    "headers": (8, Damager.headers),
    "text": (6, Damager.text),
    "hole": (12, Damager.hole),
}


def _opening(victim: Victim) -> Sequence[Span]:
    with victim.core.opened() as target:
        session = victim.core.session(target)
        list(session.runtimes)
        return list(target.log)


def minimised(victim: Victim, case: Case, fails: Callable[[Case], bool]) -> Case:
    """Return *case* with only those patches, cut as short as possible, and holes that it needs to fail."""
    patches = [(at + i, patch[i : i + 1]) for at, patch in case.patches for i in range(len(patch))]
    if len(patches) <= 256:
        case = Case(case.what, patches, case.holes, case.order, case.reads)
    for name in ("holes", "patches"):
        kept = list(getattr(case, name))
        step = max(len(kept) // 2, 1)
        while step:
            start = 0
            while start < len(kept):
                shorter = kept[:start] + kept[start + step :]
                trial = Case(case.what, case.patches, case.holes, case.order, case.reads)
                setattr(trial, name, shorter)
                if fails(trial):
                    kept = shorter
                    case = trial
                else:
                    start += step
            step //= 2
    return case
