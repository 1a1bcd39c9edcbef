"""Routines of the target in the emulator: their answers equal those that the program itself got."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ompd.debugger.modules.modules import LoadedModule
from ompd.debugger.process import StoppedProcess
from ompd.errors import BadInput, Unavailable
from ompd.session import Session
from tests.support import NotReady
from tests.support.emulating import (
    CHANGED,
    KINDS,
    Without,
    answer,
    asked,
    at_rest,
    build,
    changed,
    compared,
    opened,
    refused,
    runtime_of,
    sample,
    word,
)
from tests.support.live import status_of
from tests.support.machine import require_module
from tests.support.runs import (
    READY_SECONDS,
)

unicorn = require_module("unicorn")


EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


# Answers


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
    # Otherwise an emulator that always runs as the same thread would pass.
    calls = [thread["calls"] for thread in sample("lazy").threads]
    for call in ("omp_get_thread_num", "omp_get_level", "omp_in_final", "omp_get_num_threads", "omp_get_max_threads"):
        assert len({told[call] for told in calls}) > 1, call


def test_a_thread_that_the_runtime_does_not_know() -> None:
    # The initial thread: libgomp answers for any thread, Intel's runtime would register this one.
    for kind, told in (("lazy", "0"), ("intel", "would write at 0x")):
        taken = sample(kind)
        with opened(taken) as process:
            (thread,) = set(process.threads.ids()) - {thread["id"] for thread in taken.threads}
            try:
                said = f"{answer(process, 'omp_get_level', thread).as_int}"
            except Unavailable as error:
                said = str(error).partition(": it ")[2]
            assert said.startswith(told), kind


def test_with_another_threads_pointer_answers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        pointer = process.threads.thread_pointer(taken.thread("final task"))
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


def resting_memory(process_id: int) -> list[tuple[str, bytes]]:
    """Return the writable memory once all threads sleep, including the last ones to write."""
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
            block = process.contract.thread_local_block(runtime_of(process), thread["id"])
            assert block is not None
            first, second = answer(process, "omp_get_thread_num", thread["id"]).reads
            # The first read is the distance, in the global offset table; the second is the number, in the thread's own
            # storage.
            module = process.symbols.module_at(first[0])
            assert module == runtime_of(process) and first[1] == 8
            distance = int.from_bytes(process.memory.read(*first), "little", signed=True)
            assert block[0] == process.threads.thread_pointer(thread["id"]) + distance
            assert block[0] <= second[0] and second[0] + second[1] <= block[0] + block[1]
            told = int.from_bytes(process.memory.read(*second), "little")
            assert told == thread["calls"]["omp_get_thread_num"]


def test_reads_are_those_of_data_in_order() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        rows = process.symbols.find_symbol("rows")
        result = asked(process, "sum_rows", thread)
        assert result.value == 1 * ord("o") + 20 * ord("t") + 300 * ord("t")
        wanted = [process.symbols.find_symbol("first_row")]
        for row in range(3):
            at = rows + 24 * row
            wanted += [at + 8, int.from_bytes(process.memory.read(at + 8, 8), "little"), at, at + 16]
        assert sorted(address for address, _ in result.reads) == sorted(wanted)
        assert result.reads[0] == (wanted[0], 8)
        assert asked(process, "reads_much", thread, 5000).reads == tuple(
            (process.symbols.find_symbol("lines") + at, 1) for at in range(5000)
        )


def test_arguments_and_results_are_those_of_c() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        assert asked(process, "sum_six", thread, 1, 2, 3, 4, 5, 6).value == 654321
        assert asked(process, "sum_six", thread, -1).value == (1 << 64) - 1
        assert asked(process, "negative", thread).as_int == -5
        assert asked(process, "call", thread, process.symbols.find_symbol("sum_rows")).value == 37231 + 1
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
        with contextlib.suppress(Unavailable):  # not every version of the emulator knows the instruction
            asked(process, "changes_base", thread)
        assert asked(process, "own_of_thread", thread).value == thread
        refused(process, "write_at", thread, CHANGED)
        assert asked(process, "word_at", thread, process.symbols.find_symbol(CHANGED)).value == 0


# Lazy binding


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
        # The library's slot was not bound before, and is not bound now.
        assert process.routines.emulator().linkage.bound
        slots = [read for read in asked(process, "asks_level", native).reads if read[1] == 8]
        library = process.symbols.module_at(process.symbols.find_symbol("asks_level"))
        assert library is not None
        slot = next(at for at, _ in slots if process.symbols.module_at(at) == library)
        assert process.symbols.module_at(int.from_bytes(process.memory.read(slot, 8), "little")) == library


@pytest.mark.parametrize(("kind", "least"), [("now", 40), ("lazy", 30), ("intel", 100)])
def test_what_the_loader_has_bound_is_what_would_be_bound(kind: str, least: int) -> None:
    # Slots that the loader has already bound are the oracle.
    with opened(sample(kind)) as process:
        linkage = process.routines.linkage(7)
        same = refused = 0
        for link_map in process.loader.link_maps:
            module = process.modules.at(link_map.l_ld)
            for index, slot in enumerate(linkage_slots(module) if module is not None else ()):
                bound = int.from_bytes(process.memory.read(slot, 8), "little")
                if process.modules.at(bound) is module:
                    continue  # not bound yet
                try:
                    assert linkage.bind(link_map.address, index) == bound, (link_map, index)
                    same += 1
                except Unavailable as error:
                    assert "chosen by the processor" in str(error) or not bound
                    refused += 1
        assert same >= least and refused > 0


def linkage_slots(module: LoadedModule) -> list[int]:
    """Return the addresses of the words through which a module calls routines (``.rela.plt``), as pyelftools reads
    them.
    """
    with Path(module.elf.name if module.elf is not None else "").open("rb") as file:
        section = ELFFile(file).get_section_by_name(".rela.plt")
        return [module.bias + int(each["r_offset"]) for each in section.iter_relocations()] if section else []


def test_what_depends_on_the_processor_is_not_bound() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread, text = taken.thread("inner"), process.symbols.find_symbol("rows")
        assert "strlen of /" in refused(process, "asks_length", thread, text)
        assert "no module of the process has nowhere" in refused(process, "asks_nowhere", thread)


@pytest.mark.parametrize("wild", [0, 8, 1 << 47, (1 << 64) - 8, 0x7000_0000_0000, "rows", "endless", "stack"])
def test_wild_words_in_a_linkage_table_are_told(wild: int | str) -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        table = linkage_table(process, "asks_level")
        address = (
            wild if isinstance(wild, int) else process.routines.emulator().stack_start if wild == "stack" else None
        )
        address = process.symbols.find_symbol(str(wild)) if address is None else address
        slot = next(at for at, size in asked(process, "asks_level", thread).reads if at >= table)
    for at in (slot, table + 8, table + 16):
        with changed(taken, {at: word(address)}) as process:
            assert refused(process, "asks_level", thread)


def linkage_table(process: StoppedProcess, name: str) -> int:
    module = process.modules.at(process.symbols.find_symbol(name))
    assert module is not None and module.elf is not None
    return module.bias + dict(module.elf.dynamic())[3]  # DT_PLTGOT


def test_a_forged_list_of_modules_binds_nothing() -> None:
    taken = sample("lazy")
    with opened(taken) as process:
        thread = taken.thread("inner")
        links = [(link, process.memory.read_string(link.l_name).decode()) for link in process.loader.link_maps]
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


# Thread-local blocks and symbols, which plugins need, too


@EVERY_KIND
def test_the_block_of_a_modules_thread_local_variables(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        program = next(module for module in process.symbols.modules() if module.is_program)
        blocks = [process.contract.thread_local_block(program, thread["id"]) for thread in taken.threads]
        assert len(set(blocks)) == len(taken.threads)
        for block, thread in zip(blocks, taken.threads, strict=True):
            assert block is not None and block[0] <= thread["own_word"] < block[0] + block[1]
        if kind not in ("static-pie",):
            library = process.symbols.module_at(process.symbols.find_symbol("asks_level"))
            assert library is not None and process.contract.thread_local_block(library, taken.threads[0]["id"]) is None


def test_a_module_whose_file_is_not_known_has_no_known_block() -> None:
    taken = sample("lazy")
    with opened(taken, finder=Without("libgomp")) as process:
        runtime = next(module for module in process.symbols.modules() if "libgomp" in module.name)
        with pytest.raises(Unavailable, match="unknown"):
            process.contract.thread_local_block(runtime, taken.threads[0]["id"])


@EVERY_KIND
def test_a_stripped_runtimes_routines_are_found_by_name(kind: str) -> None:
    taken = sample(kind)
    with opened(taken) as process:
        runtime = runtime_of(process)
        names = [call.split()[0] for call in taken.threads[0]["calls"] if call]
        for name in names:
            address = process.symbols.symbol_in(runtime, name)
            aliases = (f"{prefix}{name}" for prefix in ("", "__kmp_api_", "ompc_", "gomp_ialias_"))
            assert address is not None and process.places.locate(address).symbol in aliases
        assert process.symbols.symbols_in(runtime, names).keys() == set(names)
