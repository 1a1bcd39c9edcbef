"""Constructs and locks that threads are inside of: programs in ``tests/held`` write them, and their code shows them.

No thread may be reported to hold what it does not hold.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ompd.analysis.moment import Moment
from ompd.analysis.waits.holders import Holders
from ompd.debugger.flow import functions
from ompd.debugger.flow.follow import Function
from ompd.debugger.flow.function_code import Called
from ompd.errors import OmpdError
from ompd.isa.instructions import Instruction
from ompd.isa.x86.decoder import decode
from ompd.model import HeldRecord, Wait
from ompd.model.kinds import Kind
from ompd.naming import ROUTINES
from ompd.questions.why.held import held
from ompd.session import Session
from tests.support import clean_environment, require
from tests.support.cache import CHECKOUT
from tests.support.damage import cut
from tests.support.flow import ListedCode
from tests.support.odd import Core, Odd, core_of
from tests.support.products import sample
from tests.support.snapshots import snapshot
from tests.support.why import GNU, WHYS, hung

FOLDER = CHECKOUT / "tests" / "held"
PROGRAMS = ("locks", "joins", "constructs", "exceptions")
FLAGS = ("-O0", "-O1 -fcf-protection=full", "-O2", "-O3 -fno-plt -fPIC")
BUILDS = [
    *product(PROGRAMS, ("gcc",), FLAGS, ("dynamic", "libgomp")),
    *product(PROGRAMS, ("clang",), FLAGS, ("dynamic",)),
]
# push, pop, leave, ret, moves, calls, comparisons, jumps, and operations on results
PIECES = (
    *(b"\x50", b"\x58", b"\xc9", b"\xc3", b"\x48\x89\xe5", b"\x48\x8b\x45\xf8", b"\x48\x89\x45\xf8"),
    *(b"\x48\x8d\x7d\xf0", b"\xe8\0\0\0\0", b"\x85\xc0", b"\x74\x05", b"\x75\xf0", b"\xeb\x03", b"\xff\xd3"),
    *(b"\xff\xe0", b"\x83\xf0\x01", b"\x0f\x94\xc0", b"\x48\x8b\x3f", b"\x48\x83\xec\x10"),
    *(b"\xbf\x10\x20\0\0", b"\x48\x89\xc7", b"\x34\xff", b"\xa8\x01"),
)
EACH_BUILD = pytest.mark.parametrize(("name", "compiler", "flags", "link"), sample(BUILDS))


def core(name: str, compiler: str, flags: str, link: str, *, strip: bool = False) -> Core:
    return core_of(Odd(name, flags=flags.split(), link=link, folder=FOLDER, strip=strip), compiler)


def records(of: Core) -> list[tuple[dict[str, Any], tuple[HeldRecord, ...]]]:
    with Session.open_core(of.path) as session:
        return [(word, held(session, word["tid"])) for word in of.words if "tid" in word]


def is_same(true: list[Any], record: HeldRecord) -> bool:
    kind, address, _ = true
    number = int(address, 16) if address != "(nil)" else None
    if kind.partition("(")[0] != record.kind:
        return False
    return record.object in (None, number) if number is not None else "(" not in kind or kind == record.symbol


@EACH_BUILD
@pytest.mark.quick(
    "locks-gcc--O0-dynamic", "joins-gcc--O1 -fcf-protection=full-libgomp", "constructs-clang--O2-dynamic"
)
def test_nobody_is_said_to_hold_what_it_does_not(name: str, compiler: str, flags: str, link: str) -> None:
    for word, found in records(core(name, compiler, flags, link)):
        for record in found:
            assert not record.is_certain or any(is_same(true, record) for true in word["held"]), (word, record)


@EACH_BUILD
def test_what_the_code_shows_is_found(name: str, compiler: str, flags: str, link: str) -> None:
    for word, found in records(core(name, compiler, flags, link)):
        certain = [record for record in found if record.is_certain]
        for true in word["held"]:
            assert not true[2] or any(is_same(true, record) for record in certain), (word, true, found)


@pytest.mark.parametrize(("compiler", "flags"), [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O2")])
@pytest.mark.quick("gcc--O2", "clang--O0", "clang--O2")
def test_locks_are_named_with_place_and_reason(compiler: str, flags: str) -> None:
    known = {word["name"]: (word, found) for word, found in records(core("locks", compiler, flags, "dynamic"))}
    word, (record,) = known["set_one"]
    assert (record.kind, record.symbol, record.object) == ("lock", "&l[0]", int(word["held"][0][1], 16))
    assert record.place is not None
    assert (record.place.function, record.place.file is not None, record.place.line) == ("set_one", True, 7)
    assert record.reason == "omp_set_lock(&l[0]) at locks.c:7 is not released before line 7"
    word, found = known["region_data"]
    assert compiler == "gcc" or [each.object for each in found] == [int(word["held"][0][1], 16)]
    _, found = known["inner"]
    assert [each.symbol for each in found] == ["&l[4]", "&l[3]"]


def test_which_of_two_locks_a_thread_has_set_its_register_tells() -> None:
    known = {word["name"]: (word, found) for word, found in records(core("joins", "gcc", "-O2", "libgomp"))}
    for name, symbol in (("one_of_two", "&l[0]"), ("element", "&l[8]"), ("moved_on", "&l[11]")):
        word, (record,) = known[name]
        assert (record.symbol, record.is_certain, record.object) == (symbol, True, int(word["held"][0][1], 16))
    _, found = known["changed"]
    assert [(record.object, record.is_certain) for record in found] == [(None, True)]


def test_the_holder_of_a_lock_is_the_one_that_stands_in_it() -> None:
    found = records(core("locks", "gcc", "-O2", "libgomp"))
    moment = Moment(threads=(), held={word["tid"]: each for word, each in found})
    words = {word["name"]: word for word, _ in found}
    for name, holds in (("set_one", True), ("set_by_another", False)):
        lock = int(words[name]["held"][0][1], 16)
        holding = Holders(moment).of(Wait(kind=Kind.LOCK, object=lock), Kind.LOCK)
        assert (holding.threads == (words[name]["tid"],)) == holds, name


def test_locks_of_fortran() -> None:
    of = hung(WHYS["locks-cycle"], "gfortran", GNU)
    with Session.open_core(of.core) as session:
        found = [record for thread in session.process.threads.ids() for record in held(session, thread)]
    assert [record.is_certain for record in found] == [True, True]
    assert sorted((record.symbol or "").partition(".")[0] for record in found) == ["&first", "&second"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.quick("gcc")
def test_a_stripped_program_says_the_same_but_names(compiler: str) -> None:
    for name in PROGRAMS:
        for word, found in records(core(name, compiler, "-O2", "dynamic", strip=True)):
            for record in found:
                if record.kind == "critical":
                    continue  # its name identifies it
                assert not record.is_certain or any(is_same(true, record) for true in word["held"]), (word, record)


def wrong(path: Path, of: Core) -> list[tuple[Any, HeldRecord]]:
    """Return the certain records of a damaged core that are not true."""
    found = []
    with Session.open_core(path) as session:
        for word in (word for word in of.words if "tid" in word):
            try:
                known = held(session, word["tid"])
            except OmpdError:
                continue
            sure = (record for record in known if record.is_certain)
            found += [(word, record) for record in sure if not any(is_same(true, record) for true in word["held"])]
    return found


def test_a_snapshot_says_the_same(tmp_path: Path) -> None:
    of = core("locks", "gcc", "-O2", "libgomp")
    small = Core(snapshot(of.path, tmp_path), of.executable, of.words)
    assert records(small) == records(of)


@pytest.mark.parametrize("percent", [10, 50, 90])
def test_of_a_core_that_is_cut_off_nothing_wrong_is_said(percent: int, tmp_path: Path) -> None:
    of = core("locks", "clang", "-O2", "dynamic")
    assert wrong(cut(of.path, tmp_path / "cut", of.path.stat().st_size * percent // 100), of) == []


@pytest.mark.parametrize("most", [0, 100, 1000])
def test_of_more_code_than_is_followed_nothing_wrong_is_said(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_MAX_FOLLOWED", most)
    of = core("locks", "gcc", "-O2", "libgomp")
    assert wrong(of.path, of) == []


class CodeWithPads(ListedCode):
    """Code with landing pads for some calls, and constants at all addresses."""

    def __init__(
        self, inside: range, instructions: dict[int, Instruction], called: Callable[[Instruction], Called]
    ) -> None:
        super().__init__(inside[0], instructions, called)
        self._inside = inside

    def is_own(self, target: int) -> bool:
        return target in self._inside

    def pads(self, call: int) -> list[int]:
        return [] if call % 5 else [self._inside[call % len(self._inside)]]

    def constant(self, address: int) -> int:
        return address


@pytest.mark.parametrize("seed", range(3))
def test_random_code_is_followed_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    routines = [*ROUTINES().items()]
    for _ in range(200):
        pieces = (chance.choice(PIECES) if chance.random() < 0.93 else chance.randbytes(1) for _ in range(100))
        code = b"".join(pieces)
        inside = range(0x1000, 0x1000 + len(code))

        def called(found: Instruction) -> Called:
            number = found.address
            name, routine = routines[number % len(routines)]
            lets_go = (frozenset(), None, frozenset({("lock", None)}))[number % 3]
            return Called(name, routine if number % 4 else None, not number % 17, not number % 29, lets_go)

        decoded = {at: found for at in inside if (found := decode(code, at - 0x1000, at)) is not None}
        try:
            function = Function(CodeWithPads(inside, decoded, called))
        except OmpdError:
            continue
        for at in inside:
            facts = function.facts_before(at)
            assert facts is None or facts.doubts.keys() == facts.state.held.keys()


@pytest.mark.parametrize("library", ["libgomp", "libiomp5"])
@pytest.mark.quick("libgomp")
def test_instructions_are_as_long_as_objdump_has_them(library: str) -> None:
    objdump = require("objdump")
    of = core("locks", "gcc", "-O2", "libgomp" if library == "libgomp" else "dynamic")
    with Session.open_core(of.path) as session:
        path = next(module.path for module in session.process.symbols.modules() if library in module.name)
    assert path is not None
    command = [str(objdump), "-d", "-w", "-z", "--show-raw-insn", path]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=True)
    count = 0
    for line in done.stdout.splitlines():
        found = re.match(r" *([0-9a-f]+):\t((?:[0-9a-f]{2} )+)", line)
        if found is None or "(bad)" in line or ".byte" in line or found[2].startswith("9b "):
            continue  # objdump takes fwait for a part of the next instruction
        raw = bytes.fromhex(found[2])
        instruction = decode(raw + bytes(16), 0, int(found[1], 16))
        assert instruction is not None, line
        assert instruction.size == len(raw), line
        count += 1
    assert count > 10_000
