"""Damaged 32-bit cores, and questions that have no answer for 32-bit programs."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

import ompd
from ompd.binary.core.notes import NT_386_TLS
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import MalformedFile, NoAnswer, OmpdError, SymbolNotFound, Unavailable
from ompd.isa.x86.architectures import I386
from tests.i386.checks import check_process
from tests.i386.programs import TEAM, compiled, process_of, sample, team_of
from tests.support.comparing import as_json, compare
from tests.support.m32 import m32_flags
from tests.support.runs import (
    write_gcore,
)

CUTS = 60


def test_a_core_that_is_cut_off_tells_nothing_false(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = taken.core.read_bytes()
    with ompd.open_core(str(taken.core)) as session:
        intact = {
            "stack": as_json("stack", session.ask_stacks(raw=True)),
            "var": as_json("var", session.ask_var("own_int")),
        }
    end_of_notes = max(s["p_offset"] + s["p_filesz"] for s in ELFFile(io.BytesIO(whole)).iter_segments("PT_NOTE"))
    chance = random.Random(386)
    sizes = [0, 3, 16, 51, 52, 60, 200, end_of_notes - 1, end_of_notes, len(whole) - 1]
    sizes += [chance.randrange(end_of_notes) for _ in range(CUTS // 2)]
    sizes += [chance.randrange(end_of_notes, len(whole)) for _ in range(CUTS - len(sizes))]
    told = refused = 0
    cut = tmp_path / "core"
    for size in sorted(sizes, reverse=True):
        if not cut.exists():
            shutil.copy(taken.core, cut)
        os.truncate(cut, size)
        for command, whole_answer in intact.items():
            try:
                with ompd.open_core(str(cut), exe=str(taken.program)) as session:
                    asked = session.ask_stacks(raw=True) if command == "stack" else session.ask_var("own_int")
                    answer = as_json(command, asked)
            except OmpdError:
                answer = None
                refused += 1
            found = compare(command, whole_answer, answer)
            assert not found.wrong, (size, command, found.wrong)
            told += found.told
    assert told and refused


def test_notes_whose_page_is_lost_give_no_thread_the_pointer_of_another(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = bytearray(taken.core.read_bytes())
    notes = next(ELFFile(io.BytesIO(bytes(whole))).iter_segments("PT_NOTE"))
    pointers = {thread["id"]: thread["pthread"] for thread in taken.truth["threads"]}
    start = -(-notes["p_offset"] // 4096) * 4096
    compared = 0
    for page in range(start, notes["p_offset"] + notes["p_filesz"], 4096):
        damaged = bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
        (tmp_path / "core").write_bytes(damaged)
        target = CoreTarget(str(tmp_path / "core"))
        for thread in target.thread_ids():
            pointer = target.registers(thread).get(I386.thread_pointer)
            assert pointer in (None, pointers[thread])
            compared += pointer is not None
        target.close()
    assert compared


def test_a_damaged_note_of_descriptors_is_an_error(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = bytearray(taken.core.read_bytes())
    at = whole.index(struct.pack("<III6s", 6, 48, NT_386_TLS, b"LINUX\0"))
    struct.pack_into("<I", whole, at + 4, 46)  # the padding makes it 48
    (tmp_path / "core").write_bytes(whole)
    with pytest.raises(ompd.errors.BadFile, match="NT_386_TLS note has 46 bytes"):
        CoreTarget(str(tmp_path / "core"))
    with pytest.raises(MalformedFile):
        ompd.binary.core.notes.parse_descriptors(bytes(17), "little")


def test_without_descriptors_glibcs_lists_tell_the_thread_pointers(tmp_path: Path) -> None:
    taken = sample("gcc-O0-pie")
    whole = taken.core.read_bytes()
    unknown = struct.pack("<III6s", 6, 48, 0x2FF, b"LINUX\0")
    changed_core = whole.replace(struct.pack("<III6s", 6, 48, NT_386_TLS, b"LINUX\0"), unknown)
    assert changed_core != whole
    (tmp_path / "core").write_bytes(changed_core)
    with process_of(tmp_path / "core") as process:
        assert all("gs_base" not in process.threads.registers(thread) for thread in process.threads.ids())
        check_process(process, taken.truth)


@pytest.mark.parametrize("name", ["gcc-O0-pie", "clang-O0-no_pie-gcore"])
def test_local_variables_have_the_values_that_they_were_given(name: str) -> None:
    taken = sample(name)
    with process_of(taken.core) as process:
        for thread in taken.truth["threads"][:-1]:
            frame = next(
                f for f in process.stacks.stack(thread["id"]).frames if process.places.locate(f.pc).symbol == "outer"
            )
            (function,) = process.locals.of_frame(frame, thread["id"])
            told = {row.name: row.shown.text for row in function.variables if row.shown is not None}
            assert {name: told[name] for name in ("number", "wide", "real", "kept")} == {
                "number": str(thread["number"]),
                "wide": str(1 << 33),
                "real": "0.5",
                "kept": str(0.5 + (1 << 33)),
            }


def test_routines_are_not_run_and_runtimes_without_layouts_are_not_read() -> None:
    taken = sample("gcc-O0-pie")
    with process_of(taken.core) as process:
        routine = process.symbols.find_symbol("main")
        with pytest.raises(Unavailable, match=r"not emulated on this architecture \(i386\)"):
            process.routines.call(routine, process.threads.ids()[0])
        with pytest.raises(SymbolNotFound):
            process.symbols.find_symbol("no_such_symbol")
    m32 = m32_flags()
    options = ["-fopenmp", *m32.compile]
    program = compiled("gcc", options, {"team.c": TEAM}, ["team.c", *m32.link], "program") / "program"
    with team_of(program) as running, ompd.attach(running.pid) as session:
        (runtime,) = session.ask_runtimes().rows
        assert runtime.kind == "libgomp" and runtime.layout is None
        for ask in (session.ask_threads, session.ask_parallel, session.ask_tasks, session.ask_icvs):
            with pytest.raises(NoAnswer, match=r"which release .* is not known"):
                ask()
        answer = session.ask_stacks()
    assert not answer.complete and len(answer.rows) == 3
    assert all(row.thread_num is None and row.frames for row in answer.rows)


def test_getters_that_only_load_are_decoded(tmp_path: Path) -> None:
    m32 = m32_flags()
    options = ["-fopenmp", *m32.compile]
    program = compiled("gcc", options, {"team.c": TEAM}, ["team.c", *m32.link], "program") / "program"
    with team_of(program) as process:
        write_gcore(process.pid, tmp_path / "core")
    with process_of(tmp_path / "core") as inspected:

        def answers(name: str) -> list[int]:
            routine = inspected.symbols.find_symbol(name)
            return sorted(inspected.routines.evaluate(routine, thread).as_int for thread in inspected.threads.ids())

        assert answers("omp_get_thread_num") == [0, 1, 2]
        assert answers("omp_get_num_threads") == [3, 3, 3]
        assert answers("omp_get_level") == [1, 1, 1]
        assert answers("omp_in_final") == [0, 0, 0]
