"""Builds of runtimes that people have: the table that fits each, with and without an emulator.

ompd's answers about programs on these builds equal what the programs wrote.
``make test`` covers the builds that this machine has anyway, ``OMPD_FULL=1`` every row of ``tests/builds.toml``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ompd.debugger.emulation.decode import Decoder
from ompd.errors import CorruptState, LayoutUnavailable
from ompd.runtimes.layout import table
from ompd.runtimes.libgomp.runtime import Runtime
from ompd.session import Session
from tests.builds import PROGRAMS, WAYS, looked_at, taken_by_old_entry_points, undecoded, verdict
from tests.support import FULL, RUNTIMES, STRIPPED, Stopped, running, stopped
from tests.support.builds import altered, build_id_of, builds
from tests.support.odd import Odd, Words, core_of
from tests.support.snapshots import answers, snapshot, without_files
from tests.truth import compare

BUILDS = builds()
# Builds of this machine, and of the packages and wheels that other tests use.
LOCAL = ("libgomp", "libgomp-wheel", *STRIPPED)
OLD = {"libgomp-wheel": {"OMP_NESTED": "true"}}


def on(runtime: str, program: str = "nested") -> Stopped:
    return stopped(program, mode="neither", runtime=runtime, env=OLD.get(runtime, {}))


def layouts_of(core: Path) -> str:
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        if runtime.space is None:
            raise runtime.fault or AssertionError("no reason")
        return f"{runtime.space.version() if isinstance(runtime.space, Runtime) else ''}: {runtime.space.layout_proof}"


@pytest.mark.parametrize("runtime", LOCAL)
def test_a_table_names_what_this_machine_has(runtime: str) -> None:
    file = RUNTIMES[runtime].file()
    build_id = build_id_of(file.read_bytes(), str(file))
    known = {each for one in table.shipped_tables() for each in one.build_ids}
    if runtime != "libgomp-wheel" and build_id not in known:
        pytest.skip(f"{file} ({build_id}) is newer than the tables: python -m tests.builds --write")
    found = layouts_of(on(runtime).core)
    assert "build-id of " in found, found


@pytest.mark.parametrize("runtime", LOCAL)
def test_without_an_emulator_a_build_that_no_table_names_is_told_as_it_is(runtime: str) -> None:
    core = on(runtime)
    with looked_at("decoded"):
        assert compare(core).differences == []
        found = layouts_of(core.core)
    if runtime.startswith("libgomp"):
        assert re.search(r"[1-9]\d+ addresses that its own code reads", found), found


@pytest.mark.parametrize("link", ["libgomp in the program", "static libgomp"])
def test_without_an_emulator_a_library_that_is_linked_into_the_program(link: str) -> None:
    # The library has the program's build-id, which no table can name.
    core = core_of(Odd("mixed", link=link), "gcc")
    with looked_at("decoded"):
        Words(core).check(missing=link == "static libgomp")
        assert "addresses that its own code reads" in layouts_of(core.path)


def test_without_an_emulator_a_live_process(tmp_path: Path) -> None:
    with looked_at("decoded"), running("nested", mode="neither", runtime="libgomp", folder=tmp_path) as alive:
        assert compare(alive).differences == []


def test_without_an_emulator_a_snapshot(tmp_path: Path) -> None:
    core = on("libgomp").core
    with looked_at("decoded"):
        assert without_files(snapshot(core, tmp_path)) == answers(core)


def test_the_emulator_is_not_needed_where_getters_only_load(monkeypatch: pytest.MonkeyPatch) -> None:
    core = on("libgomp")
    with looked_at("emulated"):
        found = layouts_of(core.core)
        command = [sys.executable, "-c", LOADED, str(core.core)]
        loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        assert "ompd.debugger.emulation.decode" in loaded and "unicorn" not in loaded
        monkeypatch.setattr(Decoder, "call", undecoded)
        assert layouts_of(core.core) == found


LOADED = """
import sys
from dataclasses import replace
from ompd.runtimes.layout import table
from ompd.questions import threads
from ompd.session import Session
honest = table.tables
table.tables = lambda *given: (replace(known, build_ids={}) for known in honest(*given))
with Session.open_core(sys.argv[1]) as session:
    assert threads.ask(session).complete
print(*sys.modules)
"""


# Builds that must not be trusted


def library_of(folder: Path, raw: bytes) -> Path:
    """Return the path of a library that no table names: *raw* with another build-id."""
    build_id = bytes.fromhex(build_id_of(raw, "library") or "")
    assert len(build_id) == 20 and raw.count(build_id) == 1
    path = folder / "libgomp.so.1"
    path.write_bytes(raw.replace(build_id, build_id[::-1]))
    return path


def gnus() -> bytes:
    return RUNTIMES["libgomp"].file().resolve().read_bytes()


@pytest.mark.parametrize("way", ["emulated", "decoded"])
def test_a_routine_that_reads_elsewhere_contradicts_every_table(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # omp_get_level() reads ts.active_level: mov %fs:48(%rax), %eax; ret
    raw = altered(gnus(), "omp_get_level", b"\x8b\x40\x2c\xc3", b"\x8b\x40\x30\xc3")
    core = taken_by_old_entry_points(library_of(tmp_path, raw))
    if way == "emulated":
        monkeypatch.setattr(Decoder, "call", undecoded)
    with looked_at(way), pytest.raises(LayoutUnavailable) as refused:
        layouts_of(core)
    assert "not that of GCC 12: omp_get_level does not read ts.level where it should be" in str(refused.value)
    assert "ompd layout add FILE" in refused.value.hint


# The first instruction of a getter (endbr64), and its replacements: lfence and a nop; a jump to itself; ud2.
BEGINS = bytes.fromhex("f3 0f 1e fa")
INSTEAD = {"a fence": "0f ae e8 90", "a loop": "eb fe 90 90", "what is no code": "0f 0b 90 90"}


@pytest.mark.parametrize("name", INSTEAD)
def test_a_build_that_cannot_be_decoded_is_refused_with_what_to_type(name: str, tmp_path: Path) -> None:
    raw = altered(gnus(), "omp_get_thread_num", BEGINS, bytes.fromhex(INSTEAD[name]))
    core = taken_by_old_entry_points(library_of(tmp_path, raw))
    with looked_at("decoded"), pytest.raises(LayoutUnavailable) as refused:
        layouts_of(core)
    assert "omp_get_thread_num cannot be decoded" in str(refused.value)
    assert "pip install 'ompd[emulate]'" in refused.value.hint and "ompd layout add FILE" in refused.value.hint
    if name == "a fence":
        assert "addresses that its own code reads" in layouts_of(core)  # the emulator knows the fence


@pytest.mark.parametrize("routine", ["omp_get_level", "omp_get_num_threads", "omp_in_final"])
def test_a_table_is_not_believed_by_half_of_the_routines(routine: str, tmp_path: Path) -> None:
    raw = altered(gnus(), routine, BEGINS, bytes.fromhex(INSTEAD["a loop"]))
    core = taken_by_old_entry_points(library_of(tmp_path, raw))
    with pytest.raises(LayoutUnavailable, match=f"not that of GCC 12: {routine} cannot be followed"):
        layouts_of(core)


def test_the_build_id_of_another_release_is_not_believed(tmp_path: Path) -> None:
    raw, known = RUNTIMES["libgomp-wheel"].file().read_bytes(), build_id_of(gnus(), "libgomp")
    forged = raw.replace(bytes.fromhex(build_id_of(raw, "wheel") or ""), bytes.fromhex(known or ""))
    assert build_id_of(forged, "forged") == known
    path = tmp_path / RUNTIMES["libgomp-wheel"].file().name
    path.write_bytes(forged)
    with pytest.raises(CorruptState, match="should be that of GCC 12, but"):
        layouts_of(taken_by_old_entry_points(path))


# All builds


@pytest.mark.skipif(not FULL, reason="only with OMPD_FULL=1")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BUILDS)
def test_every_build(name: str, way: str) -> None:
    known = BUILDS[name]
    found = verdict(known, way, PROGRAMS)
    if known.refused:
        assert found.table is None and "no layout that is known fits" in found.said
        return
    assert found.is_true, (found.said, found.differences)
    names = {what for each in table.shipped_tables(known.kind) for what in each.build_ids.values()}
    if way == "named" and not known.is_static and known.what() in names:
        assert f"build-id of {known.what()}" in found.said
