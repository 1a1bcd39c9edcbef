"""``why`` on damaged cores, and without some files' contents: it proves less than of the whole core, but nothing else.

A reader cannot know that a word was changed if no other fact contradicts it. So a proof from a core with one flipped
bit must also be a proof of the whole core, or rest on the very word: the bit is in its evidence, or in an object. Lost
memory is known to be lost, so without it nothing may be proven that the whole core does not prove. The same holds
without symbols and debug information, which no target needs: without them, nothing else may even be likely.

A word read as an integer that holds another value is no proof either. Then no thread that worked may be idle in an
answer that is called complete.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ompd import naming
from ompd.binary.elf.elf import ElfFile
from ompd.contract import memory
from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.debugger.memory import TargetMemory
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import OmpdError
from ompd.model import VerdictRecord, WhyAnswer
from ompd.questions import why as question
from ompd.session import Session
from tests.support import FULL, clean_environment
from tests.support.cache import entry, key_of
from tests.support.changed import ODD, PAGE, Damaged, wrong
from tests.support.damage import cut, loads_of
from tests.support.products import sample
from tests.support.runtimes import INTEL
from tests.support.verdicts import false_proofs
from tests.support.why import GNU, LLVM, WHYS, Why, hung, named

# For each program. Once, 40,000 words were changed in all: 4 of them made a thread idle.
FLIPS = 30 if FULL else 6
PAGES = 40 if FULL else 6
WORDS = 30 if FULL else 8
WORD, NEAR = 8, 64
OF_OTHERS = 0.3
SMALL = 32  # bytes of a read for a member of a structure
PERCENTS = (98, 90, 70, 50, 30, 10)
CASES = [
    (why, compiler, runtime) for why in WHYS.values() for compiler, runtime in why.pairs() if runtime in (GNU, LLVM)
]
SOME = sample(CASES, lambda why, compiler, runtime: [why.program, (compiler, runtime)])
WITH_INTEL = sample(
    [(why, *pair) for why in WHYS.values() for pair in why.pairs() if pair[1] in (GNU, LLVM, INTEL)],
    lambda why, compiler, runtime: [why.program, (compiler, runtime)],
)
# Files stripped of symbols and debug information: the program's, the runtime's, or those of all modules.
STRIPPED = ("program", "runtime", "all")
# The verdict if the runtime's debug information is missing, which shows the dependences of tasks.
LESS = {"task_dependence_cycle": "lock_cycle"}
BARE = [(why, *pair, bare) for why in WHYS.values() for pair in why.pairs() for bare in STRIPPED]
every_case = pytest.mark.parametrize(("why", "compiler", "runtime"), SOME, ids=named)


def words_read(core: Damaged, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[WhyAnswer, list[int]]:
    """Return the answer about the whole core, and the words of data that were read for it."""
    read, words = TargetMemory.read, set()

    def noting(self: TargetMemory, address: int, size: int) -> bytes:
        if size <= SMALL:
            words.update(range(address & -WORD, address + size, WORD))
        return read(self, address, size)

    with monkeypatch.context() as patched:
        patched.setattr(TargetMemory, "read", noting)
        whole = core.answer()
    data = [(load.p_vaddr, load.p_vaddr + load.p_filesz) for load in loads_of(path) if load.p_flags & 2]
    return whole, sorted(word for word in words if any(begin <= word < end for begin, end in data))


def integers_read(core: Damaged, path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the addresses and sizes of the integers and arrays of words that were read for the answer."""
    check, read, found = memory._check_integer, TargetMemory.read, set()

    def checking(address: int, size: int) -> None:
        found.add((address, size))
        check(address, size)

    def noting(self: TargetMemory, address: int, size: int) -> bytes:
        if size <= NEAR and size % WORD == address % WORD == 0:
            found.update((at, WORD) for at in range(address, address + size, WORD))
        return read(self, address, size)

    with monkeypatch.context() as patched:
        patched.setattr(memory, "_check_integer", checking)
        patched.setattr(TargetMemory, "read", noting)
        core.answer()
    data = [range(load.p_vaddr, load.p_vaddr + load.p_filesz) for load in loads_of(path) if load.p_flags & 2]
    return sorted((at, size) for at, size in found if any(at in part and at + size - 1 in part for part in data))


def another(chance: random.Random, old: int, size: int, others: Sequence[int]) -> bytes:
    """Return another integer than *old*: a small one, one near it, or one of *others*, which were read elsewhere."""
    bits = 8 * size
    some = (0, 1, 2, 7, 0x91, old - 1, old + 1, old + 8, old ^ 1 << chance.randrange(bits), ODD, -1, 1 << (bits - 1))
    new = chance.choice(others) if chance.random() < OF_OTHERS else chance.choice(some)
    return (new & (1 << bits) - 1).to_bytes(size, "little")


def rests_on(row: VerdictRecord, answer: WhyAnswer, address: int) -> bool:
    """Return whether the changed byte is near a verdict's evidence, or near an object for which threads wait."""
    known = [evidence.address for evidence in row.evidence]
    known += [node.object for node in answer.graph.nodes]
    return any(at is not None and at - NEAR < address < at + NEAR for at in known)


@pytest.mark.timeout(3600)
@every_case
@pytest.mark.quick("lock_cycle-two-gcc-libgomp", "parted-reference-clang++-libomp-19", "locks-cycle-gfortran-libgomp")
def test_a_flipped_bit_proves_nothing_else(
    why: Why, compiler: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _core(why, compiler, runtime)
    core, chance, found = Damaged(path), random.Random(f"{why.name} {compiler} {runtime}"), []
    whole, words = words_read(core, path, monkeypatch)
    for _ in range(FLIPS):
        core.flip = chance.choice(words) + chance.randrange(WORD), chance.randrange(8)
        try:
            answer = core.answer()
        except OmpdError:
            continue
        bad = [row for row in wrong(answer, whole) if not rests_on(row, answer, core.flip[0])]
        found += [(f"{core.flip[0]:#x}", core.flip[1], row.kind, row.explains, row.summary) for row in bad]
    assert found == []


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("why", "compiler", "runtime"), WITH_INTEL, ids=named)
@pytest.mark.quick(
    "lock_cycle-two-gcc-libgomp",
    "self_lock-lock-gcc-libomp-19",
    "no_stall-parallel-clang-intel",
    "event_unfulfilled-taskwait-gcc-libgomp",
    "external_wait-read-gcc-intel",
    "exception-lock-clang++-libomp-19",
    "locks-cycle-gfortran-libgomp",
    "barrier_absent-exited-clang-libomp-19",
)
def test_another_integer_proves_nothing_else(
    why: Why, compiler: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _core(why, compiler, runtime)
    core, chance, found = Damaged(path), random.Random(f"{why.name} {compiler} {runtime}"), []
    whole, (idle, _) = core.answer(), core.idle()
    integers = integers_read(core, path, monkeypatch)
    for _ in range(WORDS):
        core.words = {}
        at, size = chance.choice(integers)
        others = [int.from_bytes(core.read(*other), "little") for other in integers if other[1] == size]
        core.words = {at: another(chance, int.from_bytes(core.read(at, size), "little"), size, others)}
        try:
            answer, (now, warnings) = core.answer(), core.idle()
        except OmpdError:
            continue
        said = f"{at:#x} = {core.words[at].hex()}"
        bad = [row for row in wrong(answer, whole) if not rests_on(row, answer, at)]
        found += [(said, row.kind, row.explains, row.summary) for row in bad]
        found += [(said, "idle", now - idle, "")] if now - idle and not warnings else []
    assert found == []


@pytest.mark.parametrize("of_owner", (True, False), ids=("owner's", "nobody's"))
def test_a_waiting_thread_whose_number_was_overwritten_holds_nothing(of_owner: bool) -> None:
    # glibc notes a mutex's owner by a number that each thread has in its own structure. Here the owner has ended.
    core = Damaged(_core(WHYS["lock_abandoned-mutex"], "gcc", GNU))
    whole = core.answer()
    assert [(row.kind, row.stuck) for row in whole.rows] == [("lock_abandoned", "proven")]
    with Session(core, FileFinder()) as session:
        core.close = lambda: None  # type: ignore[method-assign]
        process = session.process
        waits = {thread: process.system_waits.of(thread) for thread in process.threads.ids()}
        waiting, owner = next(
            (t, wait.owner) for t, wait in waits.items() if wait is not None and wait.owner is not None
        )
        tid = process.glibc.pthreads()[waiting] + process.glibc.member("pthread_tid").offset
    assert owner not in waits
    core.words = {tid: (owner if of_owner else owner ^ 1 << 10).to_bytes(4, "little")}
    answer = core.answer()
    assert list(wrong(answer, whole)) == []
    assert "self_lock" not in {row.kind for row in answer.rows}


@pytest.mark.timeout(3600)
@every_case
@pytest.mark.quick(
    "task_dependence_cycle-lock-gcc-libomp-19", "no_stall-parallel-clang-libomp-19", "locks-cycle-gfortran-libgomp"
)
def test_a_lost_page_proves_nothing_else(
    why: Why, compiler: str, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _core(why, compiler, runtime)
    core = Damaged(path)
    whole, words = words_read(core, path, monkeypatch)
    pages = sorted({word & -PAGE for word in words})
    found = []
    for page in _some(pages, PAGES):
        core.lost = page
        try:
            found += [(hex(page), row.kind, row.explains, row.summary) for row in wrong(core.answer(), whole)]
        except OmpdError:
            continue
    assert found == []


@pytest.mark.timeout(3600)
@every_case
@pytest.mark.quick(
    "event_unfulfilled-taskwait-clang-libomp-19",
    "duplicate_runtimes-mutex-gcc-libgomp",
    "exception-lock-g++-libgomp",
    "parted-reference-clang++-libomp-19",
    "locks-cycle-gfortran-libomp-19",
)
def test_a_core_that_is_cut_off_proves_nothing_else(why: Why, compiler: str, runtime: str, tmp_path: Path) -> None:
    path = _core(why, compiler, runtime)
    whole = Damaged(path).answer()
    found = []
    for percent in PERCENTS if FULL else PERCENTS[1::3]:
        part = cut(path, tmp_path / f"{percent}", path.stat().st_size * percent // 100)
        try:
            answer = Damaged(part).answer()
        except OmpdError:
            continue
        finally:
            part.unlink()
        found += [(percent, row.kind, row.explains, row.summary) for row in wrong(answer, whole)]
    assert found == []


class BareFinder(FileFinder):
    """A finder that finds no separate debug information."""

    def debug_file(self, elf: ElfFile, path: str, target_name: str) -> ElfFile | None:
        return None


def stripped(path: Path) -> Path:
    """Return a copy of a program or library without symbols and debug information."""

    def make(folder: Path) -> None:
        command = ["strip", "--strip-all", "-o", str(folder / "stripped"), str(path)]
        subprocess.run(command, check=True, capture_output=True, env=clean_environment())

    state = path.stat()
    return entry("stripped", key_of(str(path.resolve()), state.st_size, state.st_mtime_ns), make) / "stripped"


def without(core: Path, program: Path, bare: str, sysroot: Path) -> WhyAnswer:
    """Return the answer about a core whose files are in *sysroot*, some of them stripped."""
    with Session.open_core(core) as session:
        names = {Path(module.path) for module in session.process.symbols.modules() if module.path}
    for path in names:
        if not path.is_file():
            continue
        is_program = path.name == program.name
        is_stripped = is_program if bare == "program" else naming.is_runtime_file(path.name) or bare == "all"
        copy = sysroot / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(stripped(path) if is_stripped else path, copy)
    finder = BareFinder(FileOptions(sysroot=sysroot))
    with Session(CoreTarget(str(core)), finder) as session:
        return question.ask(session)


@pytest.mark.parametrize(
    ("why", "compiler", "runtime", "bare"),
    sample(BARE, lambda why, compiler, runtime, bare: [why.name, (why.program, bare), (compiler, runtime, bare)]),
    ids=named,
)
@pytest.mark.quick(
    "self_lock-lock-gcc-libomp-19-program",
    "barrier_absent-exited-gcc-libomp-19-all",
    "no_stall-parallel-clang-intel-program",
    "parted-jumped-clang++-libomp-14-runtime",
    "parted-thrown-g++-libomp-14-all",
    "locks-branch-gfortran-libgomp-runtime",
)
def test_without_symbols_nothing_else_is_said(why: Why, compiler: str, runtime: str, bare: str, tmp_path: Path) -> None:
    core = hung(why, compiler, runtime)
    whole = Damaged(_core(why, compiler, runtime)).answer()
    try:
        answer = without(_core(why, compiler, runtime), core.executable, bare, tmp_path / "root")
    except OmpdError:
        # ompd cannot answer for a stripped runtime without a table, as Intel's.
        assert runtime == INTEL and bare != "program"
        return
    assert [(row.kind, row.summary) for row in wrong(answer, whole)] == []
    assert false_proofs(core, answer) == []
    kinds = {row.kind for row in whole.rows}
    kinds |= {LESS[kind] for kind in kinds if kind in LESS}
    thought = [row for row in answer.rows if row.confidence in ("proven", "likely")]
    assert [(row.kind, row.summary) for row in thought if row.kind not in kinds] == []


def _core(why: Why, compiler: str, runtime: str) -> Path:
    core = hung(why, compiler, runtime).core
    assert core is not None
    return core


def _some(values: Sequence[int], most: int) -> Sequence[int]:
    return values[:: -(-len(values) // most)]
