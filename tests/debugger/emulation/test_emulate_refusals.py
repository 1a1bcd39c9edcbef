"""Refused emulations and their reasons: routines that write, unproven code, lost memory."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ompd.debugger.emulation.emulate as emulate
from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.base import Loss
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadInput, OmpdError, TooMuch, Unavailable
from tests.support.cache import CHECKOUT
from tests.support.damage import cut
from tests.support.emulating import (
    CHANGED,
    Changed,
    Held,
    Sample,
    Without,
    answer,
    asked,
    at_rest,
    changed,
    compared,
    opened,
    refused,
    runtime_of,
    sample,
    word,
)
from tests.support.lldb import VERSIONS, lldb
from tests.support.runs import (
    write_gcore,
)

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
        # The refusal has no effect on the next call.
        assert answer(process, "omp_get_level", thread).as_int == 2


def test_what_begins_in_one_page_and_ends_in_another() -> None:
    taken = sample("lazy")
    thread = taken.thread("inner")
    with opened(taken) as process:
        regions = process.target.regions()
        end = next(region.end for region in regions if process.regions.is_free(region.end, region.end + 4096))
        assert f"reads at {end:#x}: " in refused(process, "word_at", thread, end - 4)
        assert f"would write at {end - 4:#x}" in refused(process, "write_at", thread, end - 4)
        lines = process.symbols.find_symbol("lines")
        border = (lines + 4096) & ~0xFFF
        assert asked(process, "word_at", thread, border - 4).reads == ((border - 4, 8),)


def test_without_strictness_a_write_would_go_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    # This shows that the test above can fail.
    monkeypatch.setattr(emulate, "_READ", emulate._READ | emulate._WRITE)
    taken = sample("lazy")
    with opened(taken) as process:
        thread, at = taken.thread("inner"), process.symbols.find_symbol(CHANGED)
        assert asked(process, "write_at", thread, at).value == 1
        assert process.memory.read(at, 8) == bytes(8)


def test_addresses_that_are_no_code_and_threads_that_are_not_there() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread, good = taken.thread("inner"), process.symbols.find_symbol("negative")
        for routine in (
            0,
            8,
            1 << 46,
            1 << 63,
            (1 << 64) - 1,
            process.symbols.find_symbol("rows"),
            process.symbols.modules()[0].start,
        ):
            with pytest.raises(Unavailable, match=r"where no code is|cannot read"):
                process.routines.call(routine, thread)
        for routine in (-1, 1 << 64):
            with pytest.raises(BadInput):
                process.routines.call(routine, thread)
        for unknown in (0, -1, 1, 1 << 40):
            with pytest.raises(BadInput, match="no thread"):
                process.routines.call(good, unknown)
        assert process.routines.call(good, thread).as_int == -5


def code_of(process: StoppedProcess) -> int:
    address = process.symbols.symbol_in(runtime_of(process), "omp_get_thread_num")
    assert address is not None
    return address


@pytest.mark.parametrize(
    "code", [b"\xeb\xfe", b"\xcc", b"\xb8\x07\0\0\0\xc3", bytes(16), b"\xff" * 16, b"\xc3"], ids=lambda c: c[:4].hex()
)
def test_code_that_its_file_does_not_have_is_not_run(code: bytes) -> None:
    # In a static program a kernel's core has all code that was written to. This test makes code differ from its file.
    taken = sample("lazy")
    with opened(taken) as process:
        at, page = code_of(process), code_of(process) & ~0xFFF
        original = process.memory.read(page, 4096)
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
        module = process.modules.at(process.symbols.find_symbol(called))
        assert isinstance(module, LoadedModule)
        meant = module.start
        honest = {each.start: getattr(each, attribute) for each in process.modules}
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
        runtime = next(module for module in process.symbols.modules() if "libgomp" in module.name)
        with pytest.raises(Unavailable, match="libgomp"):
            process.routines.call(runtime.start + 0x10000, taken.thread("inner"))


def test_memory_that_is_lost_is_told() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        pages = {at & ~0xFFF for at, _ in answer(process, "omp_get_num_threads", thread).reads}
    assert len(pages) > 1
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
        pointer = process.threads.thread_pointer(thread)
    for data in (bytes(4096), word(pointer + 8), None):
        at = pointer & ~0xFFF if data is None else pointer
        with changed(taken, {at: data}) as process, pytest.raises(Unavailable, match=f"storage of thread {thread} is"):
            answer(process, "omp_get_level", thread)


@pytest.mark.parametrize("percent", [99, 97, 60, 20])
def test_of_a_core_that_was_cut_answers_are_true_or_not_given(percent: int, tmp_path: Path) -> None:
    # The cut at 99 % removes only modules that no call needs. The other cuts also remove the data that proves the
    # files.
    taken = sample("lazy")
    cut_core = cut(taken.core, tmp_path / "core", taken.core.stat().st_size * percent // 100)
    told = 0
    with opened(taken, CoreTarget(str(cut_core))) as process:
        for thread in taken.threads:
            for call, truth in thread["calls"].items():
                name, *arguments = call.split() or [""]
                with contextlib.suppress(OmpdError):
                    result = process.routines.call(
                        process.symbols.find_symbol(name), thread["id"], list(map(int, arguments))
                    )
                    assert result.as_int == truth
                    told += 1
    assert told == (6 * 25 if percent == 99 else 0)


def test_a_core_of_gdbs_answers(tmp_path: Path) -> None:
    # gdb's core contains no code.
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
@pytest.mark.quick()
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
        process.routines.emulator()  # which in itself reads nothing of the target
        process.memory.max_reads = 3
        process.memory.begin_question()
        with pytest.raises(TooMuch):
            compared(process, taken.threads)
