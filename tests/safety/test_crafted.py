"""The commands on every crafted file: each ends with an answer or a sentence, at a cost that the bytes justify."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crafted.cases import Folder, Server, check, run_case
from tests.crafted.formats import CASES
from tests.support import FULL


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


CHOSEN = [name for name, case in CASES.items() if FULL or case.quick]


def commands_of(name: str) -> tuple[str, ...]:
    """Return the commands to run on a case: the first, and for some cases one more; all of them if FULL is set."""
    asked, number = CASES[name].asked, sum(name.encode())
    if FULL:
        return asked
    return asked[:1] if number % 4 else tuple(dict.fromkeys((asked[0], asked[number // 4 % len(asked)])))


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.quick(
    "cores/memory_that_is_not_there-p_memsz-2^40",
    "cores/loads_that_overlap",
    "cores/program_headers_of_an_odd_size-0",
    "cores/a_thread_of_few_bytes-0",
    "cores/a_thread_of_few_bytes-111",
    "cores/files_without_number",
    "cores/another_machine-no-type",
    "compression/frames_to_pass_over-lz4",
    "compression/a_core_of_much_noise-gzip",
    "compression/a_core_of_zeros-zstd",
    "compression/a_file_that_ends_early-zstd",
    "modules/symbols_over_a_hole",
    "modules/build_ids_60000_times",
    "modules/a_dynamic_section_that_lies-hash-high",
    "modules/a_dynamic_section_over_a_hole",
    "modules/a_minidebuginfo_bomb",
    "dwarf/a_unit_of_an_odd_length-0",
    "dwarf/a_structure_inside_of_itself",
    "dwarf/one_name_100000_times",
    "dwarf/a_name_that_is_not_there-no-end",
    "dwarf/an_index_that_lies-addr",
    "dwarf/a_line_table_that_lies-range-0",
    "dwarf/sections_of_one_byte-lebs",
    "unwinding/a_search_table_that_lies-count-2^32",
    "unwinding/registers_that_lie-all-ones",
    "memory/a_structure_of_libomp_that_lies-th_team is *",
    "memory/a_heap_that_lies-nested-pointers-to-themsel*",
    "memory/a_heap_that_lies-deadlock-pointers-back",
    "stored/a_snapshot_that_lies-itself",
    "stored/a_table_that_lies-sound",
)
def test_a_crafted_file_is_answered_or_refused_within_its_budget(name: str, server: Server, tmp_path: Path) -> None:
    case, folder = CASES[name], Folder(tmp_path / "case")
    folder.path.mkdir()
    case.make(folder)
    # Another user's files are not mapped, so their reads are counted.
    folder.give_away()
    for command in commands_of(name):
        check(case, folder, command, run_case(server, case, folder, command))
        written = folder.path / "written"
        assert not written.exists() or written.stat().st_uid == os.geteuid()
        written.unlink(missing_ok=True)
    shutil.rmtree(folder.path)


def test_every_format_has_its_cases() -> None:
    assert len(CASES) >= 150
    formats = {name.partition("/")[0] for name in CHOSEN}
    assert formats == {"compression", "cores", "dwarf", "memory", "modules", "stored", "unwinding"}


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"code": 2}, "2"),
        ({"err": "Traceback (most recent call last)"}, "Traceback"),
        ({"out": "a\x1b[2Jb"}, "x1b"),
        ({"err": "a\u202eb"}, "202e"),
        ({"held": 200 << 20}, "may be held"),
        ({"anonymous": 200 << 20}, "may be held"),
        ({"read": 1 << 30}, "bytes read"),
        ({"killed": "time"}, "by force"),
        ({"code": -24}, "-24"),
        ({"err": "ompd: there is not enough memory for the answer"}, "not enough"),
    ],
)
def test_what_must_not_be_is_noticed(wrong: dict[str, object], what: str, server: Server, tmp_path: Path) -> None:
    case, folder = CASES["cores/nothing_odd"], Folder(tmp_path)
    case.make(folder)
    ran = run_case(server, case, folder, "threads")
    check(case, folder, "threads", ran)
    with pytest.raises(AssertionError, match=what):
        check(case, folder, "threads", replace(ran, **wrong))  # type: ignore[arg-type]


def test_no_peak_of_memory_is_missed(server: Server, tmp_path: Path) -> None:
    # 290 MB are held for a moment; 310 MB are refused by the kernel.
    for size, refused in ((290, False), (310, True)):
        code = f"b'x' * ({size} << 20)"
        ran = server.run(["-c", code], cwd=tmp_path, env={"OMPD_TEST_CODE": code})
        assert ("MemoryError" in ran.err) == refused, ran
        assert refused or (ran.held is not None and ran.held >= (size - 2) << 20), ran
