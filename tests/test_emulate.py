"""Routines of the target in the emulator: what they answer is what they told the program, and what they may not do."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

import ompd.debugger.emulation.emulate as emulate
from ompd.binary.elf.dynamic import DynamicLinking, Wanted
from ompd.binary.elf.elf import ElfFile
from ompd.contract.process import CallResult
from ompd.debugger.architecture import X86_64
from ompd.debugger.emulation.emulate import Emulator
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import Loss
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadInput, MalformedFile, MemoryFault, OmpdError, TooMuch, Unavailable
from ompd.session import Session
from tests.support import NotReady
from tests.support.cache import CHECKOUT
from tests.support.damage import cut
from tests.support.emulating import (
    KINDS,
    Changed,
    Held,
    Sample,
    answer,
    at_rest,
    build,
    compared,
    opened,
    runtime_of,
    sample,
)
from tests.support.live import status_of
from tests.support.lldb import VERSIONS, lldb
from tests.support.machine import require_module
from tests.support.runs import (
    READY_SECONDS,
    write_gcore,
)

unicorn = require_module("unicorn")


EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def asked(process: StoppedProcess, name: str, thread: int, *arguments: int) -> CallResult:
    """Call a routine of the program's own, or of its libraries."""
    return process.call(process.find_symbol(name), thread, arguments)


# What they answer


@EVERY_KIND
def test_every_answer_is_what_the_program_was_told(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        assert compared(process, taken.threads) == (6 * 25, [])
        for thread in taken.threads:
            result = asked(process, "own_of_thread", thread["id"])
            assert result.value == thread["id"]
            assert (thread["own_word"], 8) in result.reads


def test_the_truth_is_not_the_same_everywhere() -> None:
    # Else an emulator that always runs as one thread would do.
    calls = [thread["calls"] for thread in sample("lazy").threads]
    for call in ("omp_get_thread_num", "omp_get_level", "omp_in_final", "omp_get_num_threads", "omp_get_max_threads"):
        assert len({told[call] for told in calls}) > 1, call


def test_a_thread_that_the_runtime_does_not_know() -> None:
    # The one that the process began with: libgomp has an answer for all, Intel's would make the thread known.
    for kind, told in (("lazy", "0"), ("intel", "would write at 0x")):
        taken = sample(kind)
        with opened(taken) as process:
            (thread,) = set(process.threads()) - {thread["id"] for thread in taken.threads}
            try:
                said = f"{answer(process, 'omp_get_level', thread).as_int}"
            except Unavailable as error:
                said = str(error).partition(": it ")[2]
            assert said.startswith(told), kind


def test_with_another_threads_pointer_answers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        pointer = process.thread_pointer(taken.thread("final task"))
        monkeypatch.setattr(process.routines.code, "thread_pointer", lambda thread: pointer)
        assert len(compared(process, taken.threads)[1]) > 10


@pytest.mark.parametrize("kind", ["lazy", "static-pie", "intel"])
def test_a_live_process_answers_and_is_not_changed(kind: str, tmp_path: Path) -> None:
    with at_rest(build(KINDS[kind]) / "program", tmp_path) as process, Session.attach(process.pid) as session:
        threads = json.loads((tmp_path / "truth.json").read_text())
        before = resting_memory(process.pid)
        assert session.ask(lambda asking: compared(asking.process, threads)) == (6 * 25, [])
        assert session.ask(lambda asking: refused(asking.process, "write_at", threads[0]["id"], CHANGED))
        assert writable_memory(process.pid) == before


CHANGED = "changed"


def refused(process: StoppedProcess, name: str, thread: int, *arguments: int | str) -> str:
    """Return why a routine of the program's is not run to its end."""
    given = [process.find_symbol(each) if isinstance(each, str) else each for each in arguments]
    with pytest.raises(Unavailable) as raised:
        asked(process, name, thread, *given)
    text = str(raised.value)
    assert text.startswith(f"{name} cannot be emulated in thread {thread}: it ")
    return text.partition(": it ")[2]


def resting_memory(process_id: int) -> list[tuple[str, bytes]]:
    """Return what can be written to once all threads, the last ones to tell among them, wait."""
    deadline = time.monotonic() + READY_SECONDS
    while {state[:1] for state in status_of(process_id, "State")} != {"S"}:
        if time.monotonic() > deadline:
            raise NotReady("emulate/program.c does not rest")
        time.sleep(0.001)
    return writable_memory(process_id)


def writable_memory(process_id: int) -> list[tuple[str, bytes]]:
    memory = []
    with Path(f"/proc/{process_id}/mem").open("rb") as file:
        for line in Path(f"/proc/{process_id}/maps").read_text().splitlines():
            span, allowed = line.split()[:2]
            if allowed.startswith("rw"):
                start, end = (int(word, 16) for word in span.split("-"))
                file.seek(start)
                memory.append((span, file.read(end - start)))
    return memory


def test_reads_tell_where_the_runtime_keeps_things() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        for thread in taken.threads:
            block = process.thread_local_block(runtime_of(process), thread["id"])
            assert block is not None
            first, second = answer(process, "omp_get_thread_num", thread["id"]).reads
            # An entry of the global offset table has the distance, then the thread's own storage the number.
            module = process.module_at(first[0])
            assert module == runtime_of(process) and first[1] == 8
            distance = int.from_bytes(process.read(*first), "little", signed=True)
            assert block[0] == process.thread_pointer(thread["id"]) + distance
            assert block[0] <= second[0] and second[0] + second[1] <= block[0] + block[1]
            told = int.from_bytes(process.read(*second), "little")
            assert told == thread["calls"]["omp_get_thread_num"]


def test_reads_are_those_of_data_in_order() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        rows = process.find_symbol("rows")
        result = asked(process, "sum_rows", thread)
        assert result.value == 1 * ord("o") + 20 * ord("t") + 300 * ord("t")
        wanted = [process.find_symbol("first_row")]
        for row in range(3):
            at = rows + 24 * row
            wanted += [at + 8, int.from_bytes(process.read(at + 8, 8), "little"), at, at + 16]
        assert sorted(address for address, _ in result.reads) == sorted(wanted)
        assert result.reads[0] == (wanted[0], 8)
        assert asked(process, "reads_much", thread, 5000).reads == tuple(
            (process.find_symbol("lines") + at, 1) for at in range(5000)
        )


def test_arguments_and_results_are_those_of_c() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        assert asked(process, "sum_six", thread, 1, 2, 3, 4, 5, 6).value == 654321
        assert asked(process, "sum_six", thread, -1).value == (1 << 64) - 1
        assert asked(process, "negative", thread).as_int == -5
        assert asked(process, "call", thread, process.find_symbol("sum_rows")).value == 37231 + 1
        assert asked(process, "misaligned", thread).value == 8  # as after a call instruction
        assert asked(process, "rising", thread, 40).value == 820
        for arguments in ([0] * 7, [1 << 64], [-(1 << 63) - 1]):
            with pytest.raises(BadInput):
                asked(process, "negative", thread, *arguments)


def test_nothing_is_left_of_a_call() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        assert [asked(process, "keeps_state", thread).value for _ in range(3)] == [0, 0, 0]
        with contextlib.suppress(Unavailable):  # not every version of the emulator knows it
            asked(process, "changes_base", thread)
        assert asked(process, "own_of_thread", thread).value == thread
        refused(process, "write_at", thread, CHANGED)
        assert asked(process, "word_at", thread, process.find_symbol(CHANGED)).value == 0


# What is bound lazily


@pytest.mark.parametrize("kind", ["lazy", "sysv-hash", "intel"])
def test_what_the_program_has_not_called_yet_is_bound_as_the_loader_would(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        for thread in taken.threads:
            calls, native = thread["calls"], thread["id"]
            assert asked(process, "asks_level", native).as_int == 100 + calls["omp_get_level"]
            assert asked(process, "asks_team_size", native, 1).as_int == 100 + calls["omp_get_team_size 1"]
            assert asked(process, "asks_chosen", native).as_int == 102
            assert asked(process, "asks_old", native).as_int == 101
            assert asked(process, "asks_own", native).as_int == 103
        # It was not bound before, nor is it now.
        assert process.routines.emulator().linkage.bound
        slots = [read for read in asked(process, "asks_level", native).reads if read[1] == 8]
        library = process.module_at(process.find_symbol("asks_level"))
        assert library is not None
        slot = next(at for at, _ in slots if process.module_at(at) == library)
        assert process.module_at(int.from_bytes(process.read(slot, 8), "little")) == library


@pytest.mark.parametrize(("kind", "least"), [("now", 40), ("lazy", 30), ("intel", 100)])
def test_what_the_loader_has_bound_is_what_would_be_bound(kind: str, least: int) -> None:
    # Where the loader has done it already, its words are the oracle.
    with opened(sample(kind)) as process:
        linkage = process.routines.linkage(7)
        same = refused = 0
        for link_map in process.loader.link_maps:
            linked = linkage._of(link_map)
            for index, slot in enumerate(linkage_slots(linked.module) if linked is not None else ()):
                bound = int.from_bytes(process.read(slot, 8), "little")
                if process.module_list.at(bound) is (linked.module if linked is not None else None):
                    continue  # not yet
                try:
                    assert linkage.bind(link_map.address, index) == bound, (link_map, index)
                    same += 1
                except Unavailable as error:
                    assert "chosen by the processor" in str(error) or not bound
                    refused += 1
        assert same >= least and refused > 0


def linkage_slots(module: LoadedModule) -> list[int]:
    """Return the addresses of a module's words that routines are called through, as pyelftools reads them."""
    with Path(module.elf.name if module.elf is not None else "").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".rela.plt")
        return [module.bias + int(each["r_offset"]) for each in section.iter_relocations()] if section else []


def test_what_depends_on_the_processor_is_not_bound() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread, text = taken.thread("inner"), process.find_symbol("rows")
        assert "strlen of /" in refused(process, "asks_length", thread, text)
        assert "no module of the process has nowhere" in refused(process, "asks_nowhere", thread)


@contextmanager
def changed(taken: Sample, memory: Mapping[int, bytes | None] = {}, **facts: Any) -> Iterator[StoppedProcess]:
    with opened(taken, Changed(taken, memory, **facts)) as process:
        yield process


def word(value: int) -> bytes:
    return (value & (1 << 64) - 1).to_bytes(8, "little")


@pytest.mark.parametrize("wild", [0, 8, 1 << 47, (1 << 64) - 8, 0x7000_0000_0000, "rows", "endless", "stack"])
def test_wild_words_in_a_linkage_table_are_told(wild: int | str) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        table = linkage_table(process, "asks_level")
        address = (
            wild if isinstance(wild, int) else process.routines.emulator().stack_start if wild == "stack" else None
        )
        address = process.find_symbol(str(wild)) if address is None else address
        slot = next(at for at, size in asked(process, "asks_level", thread).reads if at >= table)
    for at in (slot, table + 8, table + 16):
        with changed(taken, {at: word(address)}) as process:
            assert refused(process, "asks_level", thread)


def linkage_table(process: StoppedProcess, name: str) -> int:
    module = process.module_list.at(process.find_symbol(name))
    assert module is not None and module.elf is not None
    return module.bias + dict(module.elf.dynamic())[3]  # DT_PLTGOT


def test_a_forged_list_of_modules_binds_nothing() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        links = [(link, process.read_string(link.l_name).decode()) for link in process.loader.link_maps]
    at = {Path(name).name: link for link, name in links}
    asking, versions, libc = at["libasking.so"].address, at["libversions.so"], at["libc.so.6"]
    forged: dict[str, dict[int, bytes | None]] = {
        "does not end": {libc.address + 24: word(asking)},
        "leads nowhere": {asking + 24: word(0x1000)},
        "another address": {versions.address: word(versions.l_addr + 0x1000)},
        "another's section": {asking + 16: word(versions.l_ld)},
        "no name": {versions.address + 8: word(1)},
        "nothing": {asking & ~0xFFF: None},
    }
    for what, memory in forged.items():
        with changed(taken, memory) as process:
            assert refused(process, "asks_chosen", thread), what


# What is refused

REFUSED: dict[str, tuple[tuple[int | str, ...], str]] = {
    "word_at": ((8,), "reads 8 bytes at 0x8: .*nothing was mapped"),
    "byte_at": ((-1,), "reads 1 bytes at 0xffffffffffffffff: "),
    "write_at": ((CHANGED,), r"would write at 0x[0-9a-f]+ \(changed\)"),
    "add_locked": ((), r"would write at 0x[0-9a-f]+ \(changed\)"),
    "writes_itself": ((), r"would write at 0x[0-9a-f]+ \(writes_itself\)"),
    "rising": ((100,), "needs more than 64 KiB of stack"),
    "reads_much": ((20_001,), "reads more than 20000 times"),
    "endless_string": ((), "reads more than 20000 times"),
    "strides": (("lines", -4096), "reads 1 bytes at|uses more than|reads more than"),
    "asks_kernel": ((), "would call the kernel"),
    "does_syscall": ((), "would call the kernel"),
    "does_sysenter": ((), "would call the kernel"),
    "does_int80": ((), "would call the kernel"),
    "does_int3": ((), "has a breakpoint"),
    "does_halt": ((), "not for programs"),
    "does_clock": ((), "reads a clock"),
    "does_privileged": ((), "not for programs"),
    "does_input": ((), "not for programs"),
    "does_cpuid": ((), "asks for the processor"),
    "does_divide": ((), "divides by zero"),
    "does_avx": ((), "an instruction at does_avx that the emulator does not know"),
    "does_invalid": ((), "an instruction at does_invalid that the emulator does not know"),
    "endless": ((), "does not end"),
    "endless_pair": ((), "does not end"),
    "jumps_to": (("data_word",), r"comes to data_word, where no code is|comes to \w+(\+\d+)?, where no code is"),
    "leaves_stack": ((), "where no code is|does not return"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_routine_that_does_more_than_read_is_stopped(name: str) -> None:
    arguments, why = REFUSED[name]
    taken = sample("lazy")
    thread = taken.thread("serialized")
    with opened(taken) as process:
        reads = process.memory.reads_left
        assert re.search(why, refused(process, name, thread, *arguments))
        assert reads - process.memory.reads_left < 2_000
        # The next call does not know of it.
        assert answer(process, "omp_get_level", thread).as_int == 2


def test_what_begins_in_one_page_and_ends_in_another() -> None:
    taken = sample("lazy")
    thread = taken.thread("inner")
    with opened(taken) as process:
        regions = process.target.regions()
        end = next(region.end for region in regions if process.regions.is_free(region.end, region.end + 4096))
        assert f"reads at {end:#x}: " in refused(process, "word_at", thread, end - 4)
        assert f"would write at {end - 4:#x}" in refused(process, "write_at", thread, end - 4)
        lines = process.find_symbol("lines")
        border = (lines + 4096) & ~0xFFF
        assert asked(process, "word_at", thread, border - 4).reads == ((border - 4, 8),)


def test_without_strictness_a_write_would_go_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # That the test above can fail.
    monkeypatch.setattr(emulate, "_READ", emulate._READ | emulate._WRITE)
    taken = sample("lazy")
    with opened(taken) as process:
        thread, at = taken.thread("inner"), process.find_symbol(CHANGED)
        assert asked(process, "write_at", thread, at).value == 1
        assert process.read(at, 8) == bytes(8)


def test_addresses_that_are_no_code_and_threads_that_are_not_there() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread, good = taken.thread("inner"), process.find_symbol("negative")
        for routine in (0, 8, 1 << 46, 1 << 63, (1 << 64) - 1, process.find_symbol("rows"), process.modules()[0].start):
            with pytest.raises(Unavailable, match=r"where no code is|cannot read"):
                process.call(routine, thread)
        for routine in (-1, 1 << 64):
            with pytest.raises(BadInput):
                process.call(routine, thread)
        for unknown in (0, -1, 1, 1 << 40):
            with pytest.raises(BadInput, match="no thread"):
                process.call(good, unknown)
        assert process.call(good, thread).as_int == -5


def code_of(process: StoppedProcess) -> int:
    address = process.symbol_in(runtime_of(process), "omp_get_thread_num")
    assert address is not None
    return address


@pytest.mark.parametrize(
    "code", [b"\xeb\xfe", b"\xcc", b"\xb8\x07\0\0\0\xc3", bytes(16), b"\xff" * 16, b"\xc3"], ids=lambda c: c[:4].hex()
)
def test_code_that_its_file_does_not_have_is_not_run(code: bytes) -> None:
    # In a static program the kernel's core has all of the code that was written to; here it is made to differ.
    taken = sample("lazy")
    with opened(taken) as process:
        at, page = code_of(process), code_of(process) & ~0xFFF
        original = process.read(page, 4096)
    within = at - page
    patched = original[:within] + code + original[within + len(code) :]
    with opened(taken, Held(taken, {page: patched})) as process, pytest.raises(Unavailable, match="not what its file"):
        answer(process, "omp_get_thread_num", taken.thread("inner"))
    with opened(taken, Held(taken, {page: original})) as process:
        assert answer(process, "omp_get_level", taken.thread("inner")).as_int == 2


@pytest.mark.parametrize(
    ("attribute", "value", "why"),
    [
        ("unproven", "not proven", "not proven|no file that is known"),
        ("damaged_bytes", 1, "bytes in the target are not those"),
    ],
)
@pytest.mark.parametrize("where", ["runtime", "library"])
def test_code_of_files_that_are_not_surely_those_that_ran_is_not_run(
    attribute: str, value: object, why: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        name = "asks_chosen" if where == "library" else "omp_get_level"
        called = "chosen" if where == "library" else name
        module = process.module_list.at(process.find_symbol(called))
        assert isinstance(module, LoadedModule)
        meant = module.start
        honest = {each.start: getattr(each, attribute) for each in process.module_list}
        monkeypatch.setattr(
            LoadedModule,
            attribute,
            property(lambda each: value if each.start == meant else honest[each.start]),
        )
        with pytest.raises(Unavailable, match=why):
            asked(process, name, taken.thread("inner"))
        assert asked(process, "negative", taken.thread("inner")).as_int == -5


def test_a_core_that_was_cut_runs_nothing_of_files_it_does_not_prove() -> None:
    taken = sample("lazy")
    loss = Loss("cut", threads=False, files=False)
    with opened(taken, Changed(taken, loss=loss), Without("libgomp")) as process:
        runtime = next(module for module in process.modules() if "libgomp" in module.name)
        with pytest.raises(Unavailable, match="libgomp"):
            process.call(runtime.start + 0x10000, taken.thread("inner"))


class Without(FileFinder):
    """Finds no file of some name."""

    def __init__(self, name: str) -> None:
        self._missing = name
        super().__init__()

    def resolve(self, name: str) -> str:
        return "/nonexistent" if self._missing in name else super().resolve(name)


def test_memory_that_is_lost_is_told() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        pages = {at & ~0xFFF for at, _ in answer(process, "omp_get_num_threads", thread).reads}
    for page in pages:
        with (
            changed(taken, {page: None}) as process,
            pytest.raises(Unavailable, match=r"reads \d bytes at 0x|is not there"),
        ):
            answer(process, "omp_get_num_threads", thread)


def test_a_thread_whose_storage_is_lost_answers_nothing() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        pointer = process.thread_pointer(thread)
    for data in (bytes(4096), word(pointer + 8), None):
        at = pointer & ~0xFFF if data is None else pointer
        with changed(taken, {at: data}) as process, pytest.raises(Unavailable, match=f"storage of thread {thread} is"):
            answer(process, "omp_get_level", thread)


@pytest.mark.parametrize("percent", [99, 97, 60, 20])
def test_of_a_core_that_was_cut_answers_are_true_or_not_given(percent: int, tmp_path: Path) -> None:
    # Behind 99 % lie only modules that are not asked; of the others what proves the files lies at the end, too.
    taken = sample("lazy")
    cut_core = cut(taken.core, tmp_path / "core", taken.core.stat().st_size * percent // 100)
    told = 0
    with opened(taken, CoreTarget(str(cut_core))) as process:
        for thread in taken.threads:
            for call, truth in thread["calls"].items():
                name, *arguments = call.split() or [""]
                with contextlib.suppress(OmpdError):
                    result = process.call(process.find_symbol(name), thread["id"], list(map(int, arguments)))
                    assert result.as_int == truth
                    told += 1
    assert told == (6 * 25 if percent == 99 else 0)


def test_a_core_of_gdbs_answers(tmp_path: Path) -> None:
    # It has no code at all.
    with at_rest(sample("lazy").program, tmp_path) as process:
        write_gcore(process.pid, tmp_path / "core")
    taken = Sample(sample("lazy").program, tmp_path / "core", json.loads((tmp_path / "truth.json").read_text()))
    with opened(taken) as inspected:
        assert compared(inspected, taken.threads) == (6 * 25, [])


UNDER_LLDB = """
import json, sys
import ompd
from ompd.debugger.targets.lldb.loading import load_lldb
from tests.support.emulating import answer, compared
lldb = load_lldb()
debugger = lldb.SBDebugger.Create()
debugger.SetAsync(False)
program, core, process_id, truth = sys.argv[1:]
target = debugger.CreateTarget(program)
target.BreakpointCreateByName("omp_get_level")
if core:
    process = target.LoadCore(core)
else:
    process = target.AttachToProcessWithID(debugger.GetListener(), int(process_id), lldb.SBError())
with ompd.from_lldb(process) as session:
    print(compared(session.process, json.load(open(truth))))
"""


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize("version", VERSIONS)
def test_under_lldb_the_same_is_answered(version: int, tmp_path: Path) -> None:
    used, taken = lldb(version), sample("lazy")
    if f"python{sys.version_info.major}.{sys.version_info.minor}" not in used.environment["PYTHONPATH"]:
        pytest.skip(f"forbidden here: the module of LLDB {version} is of another Python")
    environment = {**used.environment, "OMPD_LLDB": used.command}
    environment["PYTHONPATH"] = f"{CHECKOUT}:{environment['PYTHONPATH']}"

    def told(*arguments: str) -> str:
        command = [sys.executable, "-c", UNDER_LLDB, str(taken.program), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        return run.stdout.strip() or run.stderr

    assert told(str(taken.core), "", str(taken.core.parent / "truth.json")) == "(150, [])"
    if version == VERSIONS[0]:
        with at_rest(taken.program, tmp_path) as process:
            assert told("", str(process.pid), str(tmp_path / "truth.json")) == "(150, [])"


def test_a_question_ends_when_it_has_read_enough() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        process.routines.emulator()  # which reads nothing of the target by itself
        process.memory.max_reads = 3
        process.memory.begin_question()
        with pytest.raises(TooMuch):
            compared(process, taken.threads)


# The emulator


def test_pages_are_read_once_and_for_each_stop_anew() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        compared(process, taken.threads)
        left = process.memory.reads_left
        compared(process, taken.threads)
        assert process.memory.reads_left == left
        other = process.at_another_stop(CoreTarget(str(taken.core)))
        other_left = other.memory.reads_left
        compared(other, taken.threads)
        assert other.memory.reads_left < other_left and other.routines.emulator() is not process.routines.emulator()
        other.routines.close()
        assert compared(other, taken.threads[:1])[1] == []


def test_an_emulator_that_is_full_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    monkeypatch.setattr(emulate, "_MAX_KEPT", emulate._MAX_PAGES + 4)
    with opened(taken) as process:
        assert compared(process, taken.threads) == (6 * 25, [])
        assert len(process.routines.emulator().owners) <= emulate._MAX_KEPT


def test_what_lies_where_the_stack_would_be_is_left_alone() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        place = process.routines.emulator().start
        regions = process.target.regions()
    for occupied in (place, place + emulate._ROOM - 4096, place + emulate._GAP):
        more = [*regions, replace(regions[0], start=occupied, end=occupied + 4096)]
        with changed(taken, regions=lambda more=more: more) as process:
            assert process.routines.emulator().start != place
            assert answer(process, "omp_get_level", taken.thread("inner")).as_int == 2
    everything = [replace(regions[0], start=0, end=1 << 47)]
    with changed(taken, regions=lambda: everything) as process, pytest.raises(Unavailable, match="no room"):
        answer(process, "omp_get_level", taken.thread("inner"))


def test_another_processor_is_not_emulated() -> None:
    taken = sample("lazy")
    architecture = replace(X86_64, name="aarch64", e_machine=183)
    with opened(taken) as process, pytest.raises(Unavailable, match=r"not emulated on this architecture \(aarch64\)"):
        Emulator(process.routines.code, architecture, process.routines.linkage, process.regions.is_free, ())


WITHOUT = """
import sys
sys.modules["unicorn"] = None
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import Unavailable
process = StoppedProcess(CoreTarget(sys.argv[1]), FileFinder())
try:
    process.call(process.find_symbol("negative"), process.threads()[0])
except Unavailable as error:
    print(error.hint)
"""
AT_FIRST = """
import sys
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.core import CoreTarget
process = StoppedProcess(CoreTarget(sys.argv[1]), FileFinder())
routine = process.find_symbol("negative")
print("unicorn" in sys.modules, process.call(routine, process.threads()[0]).as_int, "unicorn" in sys.modules)
"""


def test_a_unicorn_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unicorn, "uc_version", lambda: (2, 1, 0x020101FF))
    taken = sample("lazy")
    with opened(taken) as process, pytest.raises(Unavailable, match=r"by unicorn 2\.1\.1") as raised:
        answer(process, "omp_get_level", taken.thread("inner"))
    assert "ompd[emulate]" in raised.value.hint


@pytest.mark.parametrize(("code", "said"), [(WITHOUT, "pip install 'ompd[emulate]'"), (AT_FIRST, "False -5 True")])
def test_unicorn_is_asked_for_at_the_first_call(code: str, said: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", code, str(sample("lazy").core)], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith(said)


# Random code, without a target


class Noise:
    """What the emulator uses of a process: pages of random bytes, some of them code."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def storage_of(self, thread: int) -> int:
        return 0x5000_0000_0800

    def fault(self, page: int) -> str | None:
        return None if page >> 40 in (0x30, 0x40) else f"comes to {page:#x}, where no code is"

    def name(self, address: int) -> str:
        return f"{address:#x}"

    def symbolize(self, address: int) -> None:
        return None

    def load(self, address: int, size: int) -> bytes:
        if address >> 40 not in (0x30, 0x40, 0x50):
            raise MemoryFault(address, size)
        return random.Random(address + self._seed).randbytes(size)


def test_random_code_ends_in_an_answer_or_a_reason() -> None:
    noise: Any = Noise(1)
    linkage: Any = SimpleNamespace(is_binder=lambda *given: given[0] % 16 == 0, bind=lambda *given: given[1])
    loader = [(0x4000_0000_0000, 0x4000_0000_1000)]
    emulator = Emulator(noise, X86_64, lambda kind: linkage, lambda *span: True, loader)
    answered = 0
    for number in range(3000):
        try:
            emulator.call(0x3000_0000_0000 + number * 977, 1, [0x4000_0000_0000, 0x5000_0000_0000, number])
            answered += 1
        except OmpdError as error:
            assert type(error) is Unavailable
    assert 0 < answered < 300
    emulator.close()


@pytest.mark.parametrize("library", ["libasking.so", "libversions.so", "program"])
def test_damaged_tables_of_a_file_are_told(library: str) -> None:
    intact = (sample("lazy").program.parent / library).read_bytes()
    chance = random.Random(library)
    told = 0
    for _ in range(400):
        data = bytearray(intact)
        for _ in range(chance.choice((3, 30, 300))):
            data[chance.randrange(0x40, len(data) // 2)] = chance.choice((0, 1, 0xFF, chance.randrange(256)))
        try:
            dynamic = DynamicLinking(ElfFile(bytes(data), library))
            for index in range(4):
                wanted = dynamic.wanted(index, 7)
                told += dynamic.find(wanted) is None
            for name in ("chosen", "asks_level", ""):
                dynamic.find(Wanted(name, None, None, 0))
            assert len(dynamic.needed) < 100 and dynamic.soname is None
        except MalformedFile:
            told += 1
    assert told > 100


# Thread-local blocks and symbols, which plugins ask for besides


@EVERY_KIND
def test_the_block_of_a_modules_thread_local_variables(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        program = next(module for module in process.modules() if module.is_program)
        blocks = [process.thread_local_block(program, thread["id"]) for thread in taken.threads]
        assert len(set(blocks)) == len(taken.threads)
        for block, thread in zip(blocks, taken.threads, strict=True):
            assert block is not None and block[0] <= thread["own_word"] < block[0] + block[1]
        if kind not in ("static-pie",):
            library = process.module_at(process.find_symbol("asks_level"))
            assert library is not None and process.thread_local_block(library, taken.threads[0]["id"]) is None


def test_a_module_whose_file_is_not_known_has_no_known_block() -> None:
    taken = sample("lazy")
    with opened(taken, finder=Without("libgomp")) as process:
        runtime = next(module for module in process.modules() if "libgomp" in module.name)
        with pytest.raises(Unavailable, match="unknown"):
            process.thread_local_block(runtime, taken.threads[0]["id"])


@EVERY_KIND
def test_a_stripped_runtimes_routines_are_found_by_name(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        runtime = runtime_of(process)
        names = [call.split()[0] for call in taken.threads[0]["calls"] if call]
        for name in names:
            address = process.symbol_in(runtime, name)
            aliases = (f"{prefix}{name}" for prefix in ("", "__kmp_api_", "ompc_", "gomp_ialias_"))
            assert address is not None and process.locate(address).symbol in aliases
        assert process.symbols_in(runtime, names).keys() == set(names)
