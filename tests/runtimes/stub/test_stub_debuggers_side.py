"""The stub's offers to debuggers: libraries that it names, one of which suits, states that it keeps on request, copies
of threadprivate variables, frames of tasks, and structures that it damages on request.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ompd_stub.dmpl import StubLibrary
from ompd_stub.runtime import Runtime

from ompd.contract.callbacks import Callbacks, TypeSizes
from ompd.contract.ompd import ThreadIdKind
from ompd.debugger.contract import ModuleCallbacks
from ompd.debugger.targets.core import CoreTarget
from ompd.errors import BadInput, CorruptState, NoAnswer, OmpdError
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads, variables
from ompd.runtimes.guarded import original
from ompd.session import Session
from tests.stub.programs import DEBUG, FOLDER, built, core_of
from tests.stub.structures import written
from tests.support import FULL, clean_environment, require, stopped, stub_cores
from tests.support.budget import within
from tests.support.build import compiler
from tests.support.dmpl import hosted_instead
from tests.support.m32 import m32_flags
from tests.support.runs import ENVIRONMENT, cores_allowed
from tests.support.spaces import without_spaces
from tests.support.stub import INCLUDE, stub_folder

OMPD = Path(sys.executable).with_name("ompd")
EVERYTHING = (threads, regions, runtimes, tasks, icvs, stacks)
FIGURE_8: Mapping[str, Mapping[str, Any]] = {
    "tls": {},
    "key": {"flags": ("-DBY_KEY",)},
    "emutls": {"flags": ("-DEMULATED",), "clang": {"emulated.c": ("-femulated-tls",)}},
}


WIDTHS = (64, 32)


def machine(width: int) -> tuple[str, ...]:
    return m32_flags().compile + m32_flags().link if width == 32 else ()


def figure_8(mechanism: str, width: int = 64) -> Path:
    sources = ["figure8.c", "stop.c", *(["emulated.c"] if mechanism == "emutls" else [])]
    return core_of(built(*sources, machine=machine(width), **FIGURE_8[mechanism]))


# Threadprivate variables, by each of the runtime's DMPL libraries


@pytest.fixture(params=["python", 64, 32])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "python":
        yield
        return
    with hosted_instead(request.param) as instead:
        monkeypatch.setattr("ompd_stub.threadprivate.StubLibrary", instead)
        yield


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mechanism", FIGURE_8)
@pytest.mark.quick(
    "python-tls-64",
    "python-tls-32",
    "python-emutls-32",
    "64-key-64",
    "64-key-32",
    "64-emutls-64",
    "64-emutls-32",
    "32-tls-64",
    "32-tls-32",
    "32-key-64",
    "32-key-32",
)
def test_figure_8(mechanism: str, width: int, library: None) -> None:
    with Session.open_core(figure_8(mechanism, width)) as session:
        rows = variables.ask(session, "a").rows
    assert [(row.thread_num, row.value, row.mechanism) for row in rows] == [
        *((0, 3, mechanism), (1, 3, mechanism), (2, 2, mechanism), (3, 2, mechanism))
    ]
    assert len({row.address for row in rows}) == 4
    printed = (figure_8(mechanism, width).parent / "output").read_text().splitlines()
    assert sorted(line.partition(",")[0] for line in printed) == [f"id={n}" for n in (0, 0, 0, 1, 1, 1, 2, 2, 3, 3)]


def private(width: int = 64) -> tuple[Path, list[dict[str, Any]]]:
    library = built("late.c", name="liblate.so", machine=machine(width))
    core = core_of(built("private.c", machine=machine(width)), str(library))
    return core, json.loads((core.parent / "private.json").read_text())


PRIVATE = ("counter", "place.x", "place.name", "table[0]", "table[1]", "late_one")


def told_of_private(core: Path) -> dict[tuple[int, str], tuple[int | None, str | None]]:
    found = {}
    with Session.open_core(core) as session:
        for name in PRIVATE:
            for row in variables.ask(session, name).rows:
                assert row.mechanism == "key" and not row.unavailable
                found[row.native_thread_id, name] = row.address, row.text
    return found


def wrong_of_private(width: int = 64) -> list[str]:
    core, truth = private(width)
    told = told_of_private(core)
    wrong = []
    for row in truth:
        address, text = told[row["native"], row["name"]]
        if (address, (text or "").strip('"').replace("\\000", "")) != (row["address"], row["value"]):
            wrong.append(f"{row}: {address}, {text}")
    # A thread gets storage for all known variables when it first uses one. A thread that has used none has no storage.
    # No thread has storage for a variable that came later, unless it has used that, too.
    natives = {native for native, _ in told}
    without = {name: sum(told[native, name][0] is None for native in natives) for name in PRIVATE}
    if without != {"counter": 1, "place.x": 1, "place.name": 1, "table[0]": 1, "table[1]": 1, "late_one": 3}:
        wrong.append(f"{without} threads have no storage")
    return wrong


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.quick("python-64", "64-64", "64-32", "32-64", "32-32")
def test_copies_that_the_runtime_keeps(width: int, library: None) -> None:
    assert wrong_of_private(width) == []


def test_a_plain_variable_has_no_copies(library: None) -> None:
    core, _ = private()
    with Session.open_core(core) as session:
        assert {row.mechanism for row in variables.ask(session, "shared").rows} == {"global"}
        (runtime,) = session.runtimes
        assert runtime.space is not None
        with pytest.raises(BadInput, match="keeps no copies"):
            runtime.space.threads()[0].threadprivate_address(0x7FFF0000)


@pytest.mark.quick("python")
def test_what_nobody_has_used_has_no_storage(library: None) -> None:
    core = core_of(built("locations.c"))
    with Session.open_core(core) as session:
        with pytest.raises(NoAnswer, match="counter"):
            variables.ask(session, "counter")
        (runtime,) = session.runtimes
        assert runtime.space is not None and runtime.space.threadprivate_copies() == ()


def test_a_stub_without_debug_information_tells_the_same(monkeypatch: pytest.MonkeyPatch, library: None) -> None:
    # The stub's own table has the offsets of members.
    def find_type(self: ModuleCallbacks, name: str) -> Any:
        from ompd.errors import TypeNotFound

        raise TypeNotFound(name)

    monkeypatch.setattr(ModuleCallbacks, "find_type", find_type)
    assert wrong_of_private() == []


@pytest.mark.quick("python")
def test_a_stripped_stub_tells_the_same(library: None) -> None:
    stripped = stub_folder(flags=("-s",))
    program = built("figure8.c", "stop.c", flags=("-DBY_KEY",))
    core = core_of(program, environment={"LD_LIBRARY_PATH": str(stripped), "OMP_DEBUG": "on"})
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        assert runtime.found.module.path == str((stripped / "libomp_stub.so").resolve())
        assert [row.value for row in variables.ask(session, "a").rows] == [3, 3, 2, 2]
        rows = threads.ask(session)
        told = stacks.ask(session)
    assert rows.complete and [row.state for row in rows.rows] == ["overhead", *3 * ["wait_barrier_implicit"]]
    assert {row.boundaries for row in told.rows} <= {None, "runtime"}


Defect = Callable[[ModuleCallbacks], Callable[..., Any]]
DEFECTS: Mapping[str, Defect] = {
    "type_sizes": lambda honest: lambda: TypeSizes(1, 2, 4, 4, 8, 4),
    "find_type": lambda honest: lambda name: ModuleCallbacks.find_type(honest, "stub_thread"),
    "sizeof": lambda honest: lambda type_ref: 8,
    "field_offset": lambda honest: lambda type_ref, name: 0,
    "pthread_key": lambda honest: lambda thread, key: ModuleCallbacks.pthread_key(honest, thread, key + 1),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_in_a_callback_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong_of_private() == []
    honest = ModuleCallbacks.__init__

    def broken(self: ModuleCallbacks, *arguments: Any) -> None:
        honest(self, *arguments)
        setattr(self, name, DEFECTS[name](self))

    monkeypatch.setattr(ModuleCallbacks, "__init__", broken)
    try:
        noticed = bool(wrong_of_private())
    except (AssertionError, OmpdError):
        noticed = True
    assert noticed


def test_there_is_a_defect_for_each_callback() -> None:
    served = {name for name in vars(Callbacks) if not name.startswith("_")} | {"read"}
    assert DEFECTS.keys() | stub_cores.DEFECTS.keys() == served


@pytest.mark.parametrize("compiler_name", ["gcc", "clang"])
def test_names_of_constructs_mean_functions_and_lines(compiler_name: str) -> None:
    library = StubLibrary()
    with Session.open_core(stopped("nested", compiler=compiler_name).core) as session:
        program = next(module for module in session.process.symbols.modules() if module.is_program)
        source_of = session.process.contract.callbacks(program).source_of
        rows = regions.ask(session).rows
        assert len(rows) > 5
        for row in rows:
            assert row.function is not None and row.function.address is not None
            mangled = session.process.places.locate(row.function.address).symbol or ""
            told = library.demangle_name(mangled, 80, source_of)
            assert (told.code, told.demangled, told.decl_line) == (0, row.function.function, row.function.line)
        assert library.demangle_name("nobody._omp_fn.7", 80, source_of).decl_line == 0


def test_two_programs_at_once(library: None) -> None:
    # The two programs even have different widths.
    core, truth = private()
    with Session.open_core(core) as one, Session.open_core(figure_8("key", 32)) as other:
        for _ in range(2):
            assert [row.value for row in variables.ask(other, "a").rows] == [3, 3, 2, 2]
            counters = {row.native_thread_id: row.address for row in variables.ask(one, "counter").rows}
            for row in truth:
                if row["name"] == "counter":
                    assert counters[row["native"]] == row["address"]


def test_copies_from_before_the_runtime_has_begun(library: None) -> None:
    core = core_of(built("early.c"))
    with Session.open_core(core) as session:
        answer = variables.ask(session, "early")
        (runtime,) = session.runtimes
        assert not runtime.is_initialised
    assert [row.value for row in answer.rows] == [-1, 1234, None] and answer.complete
    assert {row.mechanism for row in answer.rows} == {"key"}
    assert answer.rows[2].address is None and not answer.rows[2].unavailable


def test_a_librarys_variable_is_not_the_programs_of_its_name() -> None:
    library = built("twice_opened.c", name="libtwice.so")
    core = core_of(built("twice.c"), str(library))
    own, others = (int(word, 16) for word in (core.parent / "output").read_text().split())
    with Session.open_core(core) as session:
        for name, address, value in (("counted", own, 1), ("libtwice.so::counted", others, 1000)):
            (row,) = variables.ask(session, name).rows
            assert (row.address, row.value) == (address, value)


def test_variables_in_namespaces_of_cxx(tmp_path: Path) -> None:
    (tmp_path / "program.cc").write_text(
        "#include <omp_stub.h>\n"
        "namespace outer { long big = 9; OMP_STUB_THREADPRIVATE(big); long &get() { return OMP_STUB_PRIVATE(big); } }\n"
    )
    command = [str(compiler("g++").path), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "program.cc"]
    subprocess.run(command, cwd=tmp_path, check=True)


# Libraries that it names


def made_for_32_bits(folder: Path) -> Path:
    made = folder / "libompd_stub32.so"
    flags = ["-m32", "-shared", "-nostdlib", "-fPIC"]
    subprocess.run([str(compiler("gcc").path), *flags, str(FOLDER / "dll.c"), "-o", str(made)], check=True)
    return made


def test_of_the_libraries_it_names_one_suits(tmp_path: Path) -> None:
    # By default the stub names the libraries of 32 and 64 bits beside the runtime, by their whole paths, and a plugin.
    for name in ("libomp_stub.so", "libomp_stub_label.so"):
        shutil.copy(stub_folder() / name, tmp_path)
    made_for_32_bits(tmp_path)
    foreign = tmp_path / "libompd_stub.so"
    subprocess.run(
        [str(compiler("gcc").path), "-shared", "-fPIC", str(FOLDER / "dll.c"), "-o", str(foreign)], check=True
    )
    core = core_of(built("locations.c"), environment={"LD_LIBRARY_PATH": str(tmp_path)})
    with Session.open_core(core) as session:
        (row,) = runtimes.ask(session).rows
    assert row.dll_locations == (str(tmp_path / "libompd_stub32.so"), str(foreign), "ompd-stub")
    assert row.dlls is not None
    assert [(dll.suitable, dll.chosen, dll.plugin) for dll in row.dlls] == [
        *((False, False, None), (True, False, None), (True, True, "stub"))
    ]
    assert row.dlls[0].reason == "a library of 32 bits, and this program has 64"
    assert row.dlls[1].file == str(foreign) and "not loaded" in row.dlls[1].reason
    done = subprocess.run([OMPD, "runtimes", str(core)], capture_output=True, text=True, check=True)
    assert "cannot serve: a library of 32 bits" in done.stdout
    assert "ompd-stub  serves: the plugin of ompd-stub 0.1.0 in " in done.stdout


@pytest.mark.parametrize(
    ("names", "chosen", "reasons"),
    [
        ("/nowhere/libompd.so.1:ompd-stub", 1, ("there is no such file here", "the plugin of ompd-stub ")),
        ("./libompd_stub.so:ompd-stub", 1, ("which is not loaded", "the plugin of ompd-stub ")),
        ("ompd-stub:ompd-stub", 0, ("the plugin of ompd-stub ", "one before it serves")),
        (f"{FOLDER}/dll.c", None, ("not an ELF file",)),
        ("", None, ("",)),
    ],
)
def test_names_of_all_kinds(names: str, chosen: int | None, reasons: tuple[str, ...]) -> None:
    core = core_of(built("locations.c"), environment={"OMP_STUB_DLLS": names})
    with Session.open_core(core) as session:
        (row,) = runtimes.ask(session).rows
        # The module's exports identify the runtime, even if none of the names is ours.
        assert row.kind == "stub" and threads.ask(session).complete
    assert row.dlls is not None
    assert next((index for index, dll in enumerate(row.dlls) if dll.chosen), None) == chosen
    assert all(reason in dll.reason for dll, reason in zip(row.dlls, reasons, strict=True))


def test_runtimes_says_could_serve_of_what_named_loads(tmp_path: Path) -> None:
    # Relative names start in the runtime's folder, whatever ompd's current folder is.
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
        shutil.copy(stub_folder() / "libompd_stub.so", tmp_path / name)
    shutil.copy(stub_folder() / "libomp_stub.so", tmp_path)
    (tmp_path / "open").chmod(0o777)
    environment = {**DEBUG, "LD_LIBRARY_PATH": str(tmp_path)}
    for names, reasons in (
        ("open/libompd_stub.so:closed/libompd_stub.so", ("others may write to", "which is not loaded")),
        ("open/libompd_stub.so:./libompd_stub.so", ("others may write to", "there is no such file here")),
    ):
        core = core_of(built("locations.c"), environment={**environment, "OMP_STUB_DLLS": names})
        with Session.open_core(core) as session:
            (row,) = runtimes.ask(session).rows
        dlls = row.dlls or ()
        assert all(reason in dll.reason for dll, reason in zip(dlls, reasons, strict=True))
        with Session.open_core(core, ompd_library="named") as session:
            (runtime,) = session.runtimes
            hosted = runtime.found.hosted
        suitable = [dll.file for dll in dlls if dll.suitable]
        assert suitable == ([hosted.file] if hosted is not None else [])


@pytest.mark.parametrize("library", ["libomp_stub.so", "libomp_stub_label.so"])
def test_before_the_runtime_has_begun(library: str) -> None:
    core = core_of(built("locations.c", name=f"locations-{library[:-3]}", library=library), "before")
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        assert runtime.found.kind == "stub" and not runtime.is_initialised
        (row,) = runtimes.ask(session).rows
    assert row.dll_locations is None and row.dlls is None and "dll_locations" not in row.unavailable


@pytest.mark.parametrize("flags", [("-fPIE",), ("-fno-pie", "-no-pie")], ids=" ".join)
def test_a_program_with_copies_of_its_variables(flags: tuple[str, ...]) -> None:
    # The program refers to the variables, so the linker makes room for them in it, and the runtime uses this room.
    program = built("copied.c", name=f"copied{len(flags)}", flags=flags[:1], links=flags[1:])
    listed = subprocess.run([require("readelf"), "-rW", program], capture_output=True, text=True, check=True).stdout
    assert {"ompd_dll_locations", "omp_stub_process"} <= set(re.findall(r"R_\w+_COPY +\S+ (\w+)", listed))
    core = core_of(program)
    before, *names, where = (core.parent / "output").read_text().splitlines()
    with Session.open_core(core) as session:
        (row,) = runtimes.ask(session).rows
        answer = threads.ask(session)
        (runtime,) = session.runtimes
        root = session.process.contract.callbacks(runtime.found.module).find_symbol("omp_stub_process")
    assert before == "before: 0" and row.dll_locations == tuple(names) and f"at {root:#x}" == where
    assert answer.complete and [row.thread_num for row in answer.rows] == [0, 1, 2]
    assert answer.rows[0].state == "work_parallel"


# States that it keeps


@pytest.mark.parametrize(
    ("arguments", "environment", "keeps"),
    [
        ((), {"OMP_DEBUG": "on"}, True),
        ((), {"OMP_DEBUG": "enabled"}, True),
        ((), {"OMP_DEBUG": "oN"}, True),
        ((), {"OMP_DEBUG": "ENABLED"}, True),
        ((), {"OMP_DEBUG": "off"}, False),
        ((), {"OMP_DEBUG": "maybe"}, False),
        ((), {}, False),
        (("enable",), {}, True),
        (("late",), {}, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("library", ["libomp_stub.so", "libomp_stub_label.so"])
def test_what_makes_it_keep_states(
    arguments: tuple[str, ...], environment: Mapping[str, str], keeps: bool, library: str
) -> None:
    program = built("locations.c", name=f"locations-{library[:-3]}", library=library)
    core = core_of(program, *arguments, environment=environment)
    with Session.open_core(core) as session:
        (row,) = runtimes.ask(session).rows
        answer = threads.ask(session)
    assert row.keeps_states is keeps and answer.complete
    assert {thread.state_source for thread in answer.rows} == {"runtime" if keeps else "derived"}
    said = (core.parent / "output").read_text()
    assert bool(said) == (arguments == ("late",) or environment.get("OMP_DEBUG") == "maybe")


PRELOADED = "libomp_debug.so"


@pytest.mark.parametrize(
    "environment",
    [{}, *({"OMP_DEBUG": word} for word in ("on", "enabled", "On", "eNABLED", "off", "Disabled"))],
    ids=str,
)
@pytest.mark.parametrize("library", ["libomp_stub.so", "libomp_stub_label.so"])
def test_a_preloaded_library_makes_it_keep_states(environment: Mapping[str, str], library: str) -> None:
    # The preloaded library and OMP_DEBUG are two ways, and either is enough.
    program = built("locations.c", name=f"locations-{library[:-3]}", library=library)
    core = core_of(program, environment={**environment, "LD_PRELOAD": str(without_spaces(stub_folder() / PRELOADED))})
    with Session.open_core(core) as session:
        (row,) = runtimes.ask(session).rows
        answer = threads.ask(session)
    assert row.keeps_states is True and answer.complete
    assert {thread.state_source for thread in answer.rows} == {"runtime"}
    assert (core.parent / "output").read_text() == ""


@pytest.mark.parametrize("binding", ["0", "1"], ids=["lazy", "now"])
def test_what_is_preloaded_is_empty_and_does_no_harm(binding: str) -> None:
    library = stub_folder() / PRELOADED
    listed = subprocess.run([require("readelf"), "-dsW", library], capture_output=True, text=True, check=True).stdout
    assert "(NEEDED)" not in listed
    table = listed.partition("'.dynsym'")[2].partition("'.symtab'")[0]
    dynamic = re.findall(r"(\w+) +\w+ +(UND|\d+) (\S+)$", table, re.MULTILINE)
    assert dynamic == [("WEAK", "UND", "omp_debug_enable")]
    # readelf is a process without an OpenMP runtime.
    done = subprocess.run(
        [require("readelf"), "--version"],
        capture_output=True,
        text=True,
        env={
            **clean_environment(),
            "LD_PRELOAD": str(without_spaces(library)),
            "LD_BIND_NOW" if binding == "1" else "UNUSED": "1",
        },
        check=False,
    )
    assert done.returncode == 0 and done.stderr == ""


def test_a_librarys_initializer_makes_it_keep_states() -> None:
    enable = built("enable.c", name="libenable.so")
    program = built("locations.c", name="locations-enabled", links=(str(enable), f"-Wl,-rpath,{enable.parent}"))
    if "libenable.so" not in subprocess.run([require("readelf"), "-d", program], capture_output=True, text=True).stdout:
        program = built(
            "locations.c",
            name="locations-needed",
            links=("-Wl,--no-as-needed", str(enable), f"-Wl,-rpath,{enable.parent}"),
        )
    with Session.open_core(core_of(program, environment={})) as session:
        (row,) = runtimes.ask(session).rows
    assert row.keeps_states is True


# Stacks


@pytest.mark.parametrize("environment", [{"OMP_DEBUG": "on"}, {}, {"LD_LIBRARY_PATH": "stripped"}], ids=str)
def test_code_that_has_ended_with_a_jump(environment: Mapping[str, str]) -> None:
    if "LD_LIBRARY_PATH" in environment:
        environment = {"LD_LIBRARY_PATH": str(stub_folder(flags=("-s",)))}
    core = core_of(built("jumped.c", flags=("-O2",)), environment=environment)
    with Session.open_core(core) as session:
        rows = {row.thread_num: row for row in threads.ask(session).rows if row.runtime is not None}
    states = [rows[number].state for number in range(3)]
    # Without symbols the purpose of the runtime's routine that called pause() is unknown.
    working = None if "LD_LIBRARY_PATH" in environment else "work_parallel"
    assert states == ["wait_barrier_explicit", working, "wait_barrier_explicit"]
    assert all(rows[number].wait.missing == (rows[1].native_thread_id,) for number in (0, 2))  # type: ignore[union-attr]


def test_a_region_whose_code_is_called_by_the_function_that_met_it() -> None:
    with Session.open_core(core_of(built("old_calls.c"))) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None and threads.ask(session).complete
        primary, worker = runtime.space.threads()
        for thread, functions in ((primary, ("body", "main")), (worker, ("body",))):
            frames = session.process.stacks.stack(thread.native_id(ThreadIdKind.LWP)).frames
            (code,) = thread.construct_code()
            names = [session.process.places.locate(frame.call_site).symbol for frame in frames[: code.frame + 1]]
            assert code.kind == "parallel" and tuple(names[-len(functions) :]) == functions


@pytest.mark.parametrize("outer", ["stub", "libgomp"])
def test_a_stack_leads_through_the_regions_of_two_runtimes(outer: str, tmp_path: Path) -> None:
    gomp = ["-fopenmp", "-g", "-O0"]
    if outer == "stub":
        library = tmp_path / "libinner.so"
        source = str(FOLDER / "inner.c")
        subprocess.run([str(compiler("gcc").path), *gomp, "-shared", "-fPIC", source, "-o", str(library)], check=True)
        program = built("outer.c")
    else:
        library = built("inner.c", name="libinner.so")
        program = tmp_path / "outer"
        subprocess.run([str(compiler("gcc").path), *gomp, str(FOLDER / "outer.c"), "-o", str(program)], check=True)
    run = tmp_path / "run"
    run.mkdir()
    surroundings = {**clean_environment(), **ENVIRONMENT}
    with cores_allowed():
        subprocess.run([program, library], cwd=run, env=surroundings, check=False)
    (core,) = run.glob("core*")
    with Session.open_core(core) as session:
        assert len(session.runtimes) == 2
        told = [row for row in stacks.ask(session).rows if row.runtime is not None]
    assert len(told) == 4
    for row in told:
        written = [frame for frame in row.frames if frame.kind == "user"]
        assert row.stopped is None and written[-1].function == "main" and written[-1].construct is None
        assert [frame.construct.kind for frame in written if frame.construct] == ["parallel"] * (
            2 if any(frame.function == "inner" for frame in written) else 1
        )


# Frames


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("flags", [(), ("-O2",)], ids=["O0", "O2"])
def test_frames_are_those_of_the_reports_picture(flags: tuple[str, ...], width: int) -> None:
    core = core_of(built("picture.c", name=f"picture{len(flags)}", flags=flags, machine=machine(width)))
    noted = json.loads((core.parent / "picture.json").read_text())
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        by_native = {thread.native_id(ThreadIdKind.LWP): thread for thread in runtime.space.threads()}
        (first, _), (second, _) = noted["B on 1"], noted["B on 2"]

        def function(thread: int, address: int) -> tuple[str | None, int]:
            # Returns the function whose frame contains an address, and the index of the frame on the stack.
            frames = session.process.stacks.stack(thread).frames
            (index,) = [i for i, f in enumerate(frames) if f.sp <= address < (f.cfa or 0)]
            return session.process.places.locate(frames[index].call_site).symbol, index

        # Each frame that the program noted is a frame of the function for A, B or C.
        for what, (thread, address) in [(what, place) for what, place in noted.items() if what != "end"]:
            assert (function(thread, address)[0] or "").startswith(f"code_{what[0].lower()}"), what
        c = by_native[second].current_task()
        b = by_native[first].current_task()
        assert c is not None and b is not None
        r4, r3, r2 = c, c.generating(), b
        assert r3 is not None and r3.generating() is not None
        r1 = r3.generating()
        assert r1 is not None and r1 is r2.generating() and r1.generating() is None
        # r1 has met the outer region and never left the runtime. r2 is in code B. r3 is in code B, too, and has met the
        # inner region. r4 is in code C.
        outside, met_a = r1.frames()
        assert outside is None and met_a is not None and function(first, met_a.address)[0] == "code_a"
        left_b, met_nothing = r2.frames()
        assert left_b is not None and met_nothing is None
        assert function(first, left_b.address)[0] == "run_implicit"
        left_b2, met_b2 = r3.frames()
        assert left_b2 is not None and met_b2 is not None
        assert function(second, left_b2.address)[0] == "run_implicit"
        assert function(second, met_b2.address)[0] == "code_b"
        left_c, met_nothing = r4.frames()
        assert left_c is not None and met_nothing is None
        # The runtime's frame has called code C, and code B has called the runtime.
        symbol, index = function(second, left_c.address)
        assert symbol == "run_implicit" and 0 < index < function(second, met_b2.address)[1]
        assert function(second, met_b2.address)[1] < function(second, left_b2.address)[1]
        assert [code.kind for code in by_native[second].construct_code()] == ["parallel", "parallel"]


# Structures that it damages

FAULTS: Mapping[str, str] = {
    "cyclic_queue": "the queue of a team's tasks does not end",
    "bad_team": "no team of the runtime lies there",
    "bad_parent": "team at level 0, with one around it",
    "thread_count": "the runtime is said to have 2147483647 threads",
    "thread_cycle": "the list of threads does not end",
    "torn_frame": "exit_runtime_frame is 0x",
    "lock_cycle": "the line of those who wait for a lock does not end",
    "bad_state": "thread in state 0xffff",
    "private_cycle": "the list of threadprivate variables does not end",
}


@pytest.mark.parametrize("word", FAULTS)
@pytest.mark.quick(
    "bad_team", "bad_parent", "thread_count", "thread_cycle", "torn_frame", "lock_cycle", "bad_state", "private_cycle"
)
def test_what_is_wrong_is_said_by_every_command(word: str) -> None:
    core = core_of(built("faults.c"), word)
    assert (core.parent / "output").read_text() == ""
    with Session.open_core(core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        damage = runtime.space.damage()
        assert damage and all(isinstance(error, CorruptState) for error in damage)
        for question in EVERYTHING:
            with within(5):  # only that it ends; benchmarks measure how fast
                answer = question.ask(session)
            assert not answer.complete and any(FAULTS[word] in warning for warning in answer.warnings)
        answer = variables.ask(session, "own")
        assert not answer.complete and any(FAULTS[word] in warning for warning in answer.warnings)


def test_no_region_is_said_not_to_be_there_that_cannot_be_read() -> None:
    core = core_of(built("faults.c"), "thread_cycle")
    done = subprocess.run([OMPD, "parallel", str(core)], capture_output=True, text=True, check=False)
    assert done.returncode == 3 and "parallel regions unknown" in done.stdout


def test_a_lock_that_leads_nowhere_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    core = stub_cores.on_stub("lock")
    waiting = next(thread for thread in written(core)["threads"] if thread["waits_for"])
    with Session.open_core(core.core) as session:
        (runtime,) = session.runtimes
        space = original(runtime.space)
        assert isinstance(space, Runtime)
        place = waiting["address"] + space.layouts["stub_thread"].field("waits_for").offset
    honest = CoreTarget.read

    def read(self: CoreTarget, address: int, size: int) -> bytes:
        data = bytearray(honest(self, address, size))
        for at in range(8):
            if address <= place + at < address + size:
                data[place + at - address] = 0x40
        return bytes(data)

    monkeypatch.setattr(CoreTarget, "read", read)
    with Session.open_core(core.core) as session:
        answer = threads.ask(session)
    (row,) = [row for row in answer.rows if row.native_thread_id == waiting["native_id"]]
    assert not answer.complete and "cannot read" in row.unavailable["wait.owner"]


def test_commands_end_with_what_is_wrong() -> None:
    core = core_of(built("faults.c"), "cyclic_queue")
    for command in ("threads", "parallel", "tasks", "icvs", "stack", "runtimes"):
        done = subprocess.run(
            [OMPD, command, str(core)],
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=100,
            check=False,
        )
        assert done.returncode == 3 and "does not end" in done.stderr and done.stdout, command


def test_nothing_is_wrong_otherwise() -> None:
    for core in (core_of(built("faults.c"), "nothing"), private()[0], figure_8("key")):
        with Session.open_core(core) as session:
            (runtime,) = session.runtimes
            assert runtime.space is not None and runtime.space.damage() == ()
            assert all(question.ask(session).complete for question in EVERYTHING)


def test_native_ids_of_both_kinds() -> None:
    with Session.open_core(figure_8("key")) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        for thread in runtime.space.threads():
            native = thread.native_id(ThreadIdKind.LWP)
            pthread = thread.native_id(ThreadIdKind.PTHREAD)
            assert runtime.space.thread_by_native_id(ThreadIdKind.LWP, native) is thread
            assert runtime.space.thread_by_native_id(ThreadIdKind.PTHREAD, pthread) is thread
            with pytest.raises(OmpdError, match="WINTHREAD"):
                thread.native_id(ThreadIdKind.WINTHREAD)
        with pytest.raises(OmpdError, match="WINTHREAD"):
            runtime.space.thread_by_native_id(ThreadIdKind.WINTHREAD, 1)
        assert runtime.space.thread_by_native_id(ThreadIdKind.LWP, 1) is None


@pytest.mark.xdist_group("busy")
@pytest.mark.parametrize("environment", [{"OMP_DEBUG": "on"}, {}], ids=["debug", "plain"])
@pytest.mark.quick()
def test_nothing_is_wrong_whenever_a_busy_program_is_stopped(environment: Mapping[str, str]) -> None:
    surroundings = {**clean_environment(), **environment}
    with subprocess.Popen([built("busy.c")], stdout=subprocess.PIPE, env=surroundings) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            for _ in range(20 if FULL else 8):
                with Session.attach(process.pid) as session:
                    answers = session.ask(lambda stop: [question.ask(stop) for question in EVERYTHING])
                    (runtime,) = session.runtimes
                    assert runtime.space is not None and runtime.space.damage() == ()
                assert [answer.warnings for answer in answers if not answer.complete] == []
                regions_told = {row.id: row for row in answers[1].rows}
                for row in answers[0].rows:
                    if row.parallel is not None:
                        assert regions_told[row.parallel].threads[row.thread_num] == row.native_thread_id
        finally:
            process.kill()
