"""LLDB's own ``bt``, ``up``, ``down``, ``finish`` leave out the frames of OpenMP runtimes, and no others."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from ompd.lldb import frames as lldb_frames
from ompd.naming import RUNTIME_FILE
from tests.support import FULL, Stopped, clean_environment, require, stopped
from tests.support.cache import CHECKOUT
from tests.support.dap import DebugAdapter
from tests.support.lldb import LOAD, lldb, target_create
from tests.support.lldb_replies import DEBUG, INNER, Replies, create_live, line_with, replies, stop_at

pytestmark = pytest.mark.xdist_group("lldb")

HIDES, HIDES_NOT = 22, (19, 14)
HERE = CHECKOUT / "tests" / "lldb"
ALL, UNFILTERED = "thread backtrace all", "thread backtrace -u all"
ON = "ompd bt is on: bt, up and down leave out the frames of OpenMP runtimes; bt -u shows them\n"
OFF = "ompd bt is off: bt, up and down show the frames of OpenMP runtimes\n"

PROGRAMS = (
    ("hang", "gcc", "kernel"),
    ("hang", "clang", "gcore"),
    ("task_tree", "gcc", "kernel"),
    ("task_tree", "clang", "kernel"),
    ("taskloop", "clang", "kernel"),
    ("nested", "clang", "kernel"),
    ("serialized_middle", "clang", "kernel"),
    ("shrunk_pool", "gcc", "kernel"),
    ("lock", "gcc", "gcore"),
    ("between", "gcc", "kernel"),
)
LINKS = {"runtime": (("-Wl,--as-needed", "-l:libiomp5.a", "-lm"), True), "static": (("-static",), False)}


@dataclass(frozen=True)
class Line:
    """A frame as LLDB prints it."""

    index: int
    module: str
    function: str

    @property
    def is_runtime(self) -> bool:
        return self.module == "libiomp5.so"

    @property
    def is_system(self) -> bool:
        return self.module.startswith(("libc.so", "ld-linux"))


def frames_of(text: str) -> list[Line]:
    found = re.findall(r"^ *\*? *frame #(\d+): 0x\w+ ([^`\n]+)`(?:::)?([^\n]*)$", text, re.MULTILINE)
    return [Line(int(index), module, function) for index, module, function in found]


def threads_of(text: str) -> dict[int, list[Line]]:
    """Return the frames of each thread by LLDB's thread number."""
    pieces = re.split(r"^[* ] thread #(\d+)", text, flags=re.MULTILINE)
    return {int(n): frames_of(piece) for n, piece in zip(pieces[1::2], pieces[2::2], strict=True)}


def native_ids(told: Replies) -> dict[int, int]:
    return {int(n): int(tid, 0) for n, tid in re.findall(r"thread #(\d+): tid = (\w+)", told["thread list"])}


def name_of(frame: Line) -> str:
    """Return the source's function, whose name begins the names of gcc's outlined functions."""
    return re.split(r"[(.]| at ", frame.function)[0]


def create(core: Stopped) -> str:
    return target_create(core.executable, core.core)


@cache
def of_core(program: str, compiler: str, kind: str) -> tuple[Stopped, Replies]:
    core = stopped(program, compiler=compiler, kind=kind)
    told = replies(HIDES, create(core), "thread list", ALL, UNFILTERED, "ompd bt off", ALL)
    return core, told


def is_wrapper(frame: Line, inner: Line | None) -> bool:
    # clang puts a function around the body of a region (with -g) and of a task. From 17 on names have several marks.
    if inner is None or "omp_outlined" not in inner.function:
        return False
    if frame.function.startswith(".omp_task_entry."):
        return True
    return "omp_outlined" in frame.function and not is_body(frame) and is_body(inner)


def is_body(frame: Line) -> bool:
    return re.search(r"_debug__(\.\d+)?$", re.split(r"\(| at ", frame.function)[0].rstrip()) is not None


def expected(frames: Sequence[Line]) -> list[int]:
    """Return the numbers of the frames to show, by the frames around each."""
    users = [frame.index for frame in frames if not frame.is_runtime and not frame.is_system]
    shown = {0}
    for number, frame in enumerate(frames):
        outer = next((other for other in frames[number + 1 :] if not other.is_system), None)
        inner = next((other for other in reversed(frames[:number]) if not other.is_system), None)
        if frame.is_system:
            around = outer or inner
            if around is None or not around.is_runtime:
                shown.add(frame.index)
        elif not frame.is_runtime:
            if not is_wrapper(frame, frames[number - 1] if number else None):
                shown.add(frame.index)
        elif frame.index > max(users, default=-1) and (outer is None or frame.index - 1 in users):
            shown.add(frame.index)
    return sorted(shown)


@pytest.mark.parametrize(("program", "compiler", "kind"), PROGRAMS if FULL else PROGRAMS[::2])
@pytest.mark.quick("taskloop-clang-kernel")
def test_frames_of_the_runtime_are_left_out_and_no_others(program: str, compiler: str, kind: str) -> None:
    _, told = of_core(program, compiler, kind)
    everything, shown, off = map(threads_of, (told[UNFILTERED], *told.all(ALL)))
    assert everything == off
    assert {n: [frame.index for frame in frames] for n, frames in shown.items()} == {
        n: expected(frames) for n, frames in everything.items()
    }
    for number, frames in shown.items():
        assert all(frame in everything[number] for frame in frames)
    runtime = [sum(f.is_runtime for fs in threads.values() for f in fs) for threads in (everything, shown)]
    assert runtime[0] > 3 * runtime[1]


@pytest.mark.parametrize(("program", "compiler", "kind"), [row for row in PROGRAMS if row[1] == "gcc"])
@pytest.mark.quick("hang-gcc-kernel", "lock-gcc-gcore")
def test_functions_that_the_program_is_in_are_shown(program: str, compiler: str, kind: str) -> None:
    core, told = of_core(program, compiler, kind)
    native = native_ids(told)
    shown = {native[n]: [name_of(frame) for frame in frames] for n, frames in threads_of(told.all(ALL)[0]).items()}
    assert set(shown) == {thread["native_thread_id"] for thread in core.truth["threads"]}
    for thread in core.truth["threads"]:
        names = shown[thread["native_thread_id"]]
        if thread["where"] is not None:
            assert thread["where"]["function"] in names
        # A worker's outermost frame is __kmp_launch_worker. Behind the innermost, at most two are the runtime's.
        if thread["thread_type"] == "worker":
            assert names[-1] == "__kmp_launch_worker"
            assert len([name for name in names[1:] if "kmp" in name]) == (2 if thread["where"] else 1)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.quick("static")
def test_a_runtime_that_is_linked_in_is_known_by_its_functions(link: str) -> None:
    flags, pie = LINKS[link]
    core = stopped("uneven", flags=flags, pie=pie)
    told = replies(HIDES, create(core), "thread list", ALL, UNFILTERED)
    native = native_ids(told)
    everything, shown = threads_of(told[UNFILTERED]), threads_of(told[ALL])
    users = re.compile(r"(main|deeper|rest|watch)(\._omp_fn\.\d+)?(\(| at )")
    hidden = []
    for thread in core.truth["threads"]:
        number = next(n for n, tid in native.items() if tid == thread["native_thread_id"])
        frames = [frame for frame in shown[number] if frame.index]
        assert [f for f in frames if users.match(f.function)] == [
            f for f in everything[number] if f.index and users.match(f.function)
        ]
        left = [re.split(r"[( ]", f.function)[0] for f in frames if "kmp" in f.function or "GOMP" in f.function]
        if thread["role"] == "team":
            is_worker = thread["native_thread_id"] != core.truth["pid"]
            assert left == (["__kmp_GOMP_microtask_wrapper", "__kmp_launch_worker"] if is_worker else [])
        hidden += [f.function for f in everything[number] if f not in shown[number]]
    assert any("__kmp_launch_thread" in name for name in hidden) and any("GOMP_parallel" in name for name in hidden)
    own = re.compile(
        r"(int |void |bool )?(__kmp|___kmp|kmp_|GOMP|__pthread_cond|___pthread|__futex|start_thread|_*clone)"
    )
    assert [name for name in hidden if not own.match(name)] == []


# Names like a runtime's


def test_both_kinds_of_expressions_mean_the_same_files() -> None:
    rule = lldb_frames.runtime_file_expression()
    assert not re.search(r"\\[a-z]|\(\?", rule)  # POSIX has none of these
    for name, is_one in {
        "libomp.so": True,
        "libomp.so.5": True,
        "libomp-14.so.5": True,
        "libiomp5.so": True,
        "libgomp.so.1": True,
        "libgomp.so.1.0.0": True,
        "libgomp-a34b3233.so.1.0.0": True,
        "libomptarget.so.19.1": False,
        "libompfoo.so": False,
        "libiomp5_db.so": False,
        "libompd.so": False,
        "mylibomp.so": False,
        "libgomp-plugin-nvptx.so.1": False,
        "a.out": False,
    }.items():
        assert bool(RUNTIME_FILE.search(name)) == bool(re.search(rule, name)) == is_one, name


def test_renamed_runtimes_and_users_functions_of_like_names(tmp_path: Path) -> None:
    for name in ("renamed.c", "alike.c", "caller.c"):
        shutil.copy(HERE / name, tmp_path)
    gcc, runtime, here = require("gcc"), "libgomp-a34b3233.so.1.0.0", "-Wl,-rpath,$ORIGIN"
    for words in (
        ["-shared", "-fPIC", "renamed.c", "-o", runtime, f"-Wl,-soname,{runtime}", "-lpthread"],
        ["-shared", "-fPIC", "alike.c", "-o", "libompalike.so", f"-l:{runtime}", here],
        ["caller.c", "-o", "caller", "-lompalike", f"-Wl,-rpath-link,{tmp_path}", here],
    ):
        subprocess.run([gcc, "-g", "-O0", "-L.", *words], cwd=tmp_path, check=True, env=clean_environment())
    told = replies(
        HIDES,
        *("target create caller", "breakpoint set -n omp_get_ready", "run", ALL, UNFILTERED, "continue"),
        *(ALL, "finish", "finish", "frame info", "continue"),
        cwd=tmp_path,
    )
    alone, with_worker = (threads_of(text) for text in told.all(ALL))
    assert [name_of(frame) for frame in alone[1]][:4] == [
        *("omp_get_ready", "kmp_search", "gomp_solve", "main"),
    ]
    assert [frame.index for frame in alone[1]][:4] == [0, 1, 3, 4]
    assert [frame.function for frame in frames_of(told[UNFILTERED])][2].startswith("GOMP_parallel(")
    names = [[name_of(frame) for frame in with_worker[n]] for n in (1, 2)]
    assert [name for name in names[0] if re.match("GOMP|gomp|main", name)] == ["gomp_solve", "main"]
    assert names[1] == ["omp_get_ready", "kmp_search", "gomp_thread_start"]
    assert "gomp_thread_start" in told["frame info"]  # finish from a worker's outermost function ends here
    assert "exited with status = 0" in told.all("continue")[-1]


# Moving and stepping


def test_moving_and_stepping_go_from_one_users_frame_to_the_next() -> None:
    told = replies(
        HIDES,
        *(create_live(), DEBUG, INNER, "run", "breakpoint disable", "ompd thread 0", "up", "up", "frame variable"),
        *("expression -- (int)threads + 100", "down", "expression -- x + 100", "frame select 0"),
        *("finish", "frame info", "thread step-out", "next", "source info", "kill"),
    )
    assert re.search(r"frame #0: .*`inner\._omp_fn", told["ompd thread 0"])
    (first, second), back = told.all("up"), told["down"]
    assert re.match(r"frame #2: .*`inner\(x=2\)", first) and re.match(r"frame #3: .*`work\._omp_fn", second)
    assert re.match(r"frame #2: .*`inner\(x=2\)", back)
    assert "(int) threads = 2" in told["frame variable"]
    assert " = 102\n" in told["expression -- (int)threads + 100"] and " = 102\n" in told["expression -- x + 100"]
    # The primary thread goes on behind the region once all threads have done their part. A worker ends where it began.
    assert re.match(r"frame #0: .*`inner\(x=2\)", told["frame info"])
    assert re.search(r"frame #0: .*`work\._omp_fn", told["thread step-out"])
    assert f"regions.c:{line_with('#pragma omp barrier')}" in told["source info"]


def test_up_leads_from_a_wait_to_the_code_that_waits() -> None:
    core = stopped("hang")
    (waiting,) = (thread for thread in core.truth["threads"] if thread["blocked_in"] == "lock")
    first = "frame select 0"
    told = replies(HIDES, create(core), f"ompd thread {waiting['thread_num']}", first, "up", "down", "frame info")
    where = waiting["where"]
    assert re.match(rf"frame #\d+: .*`{where['function']}\(.* at {where['file']}:{where['line']}:", told["up"])
    assert told["frame info"].startswith("frame #0: ")


@pytest.mark.parametrize("way", ["on", "off"])
@pytest.mark.quick()
def test_finish_ends_where_the_runtime_called_a_workers_code(way: str) -> None:
    told = replies(
        HIDES,
        *(create_live(), DEBUG, f"ompd bt {way}", stop_at("sum += inner(threads)"), "run", "breakpoint disable"),
        *("finish", "frame info", "kill"),
    )
    assert re.match(r"frame #0: .*__kmp_GOMP_microtask_wrapper", told["frame info"])


# Switching


MINE = (
    "script Mine = type('Mine', (), {'get_recognized_arguments': lambda self, frame: []})",
    "frame recognizer add -l Mine -s libm.so.6 -n sin",
)
LIST = "frame recognizer list"


def ours(listed: str) -> list[str]:
    return re.findall(r"^\d+: lldb_script\.(\w+), module ", listed, re.MULTILINE)


def test_ours_are_there_once_and_removed_alone() -> None:
    told = replies(
        HIDES,
        *(*MINE, LIST, LOAD, LIST, create_live(), LIST, create_live(False), "ompd bt", "ompd bt off", LIST),
        *("target select 0", LIST, "target create /bin/true", LIST, LOAD, LIST, "ompd bt", "ompd bt on", LIST),
        *("target select 1", LIST, "frame recognizer disable 1", "ompd bt", "ompd bt on", LIST),
        *("frame recognizer clear", "ompd bt", "ompd status", "ompd bt on", "ompd status", "ompd bt maybe"),
    )
    rules = ["OpenMPRuntimeFrames", "ClangWrapperFrames", "SystemFramesOfOpenMP", "OpenMPRuntimeFrames"]
    listed = told.all(LIST)
    assert [ours(text) for text in listed] == 3 * [rules] + 4 * [[]] + 3 * [rules]
    assert all("Mine, module libm.so.6, demangled symbol sin" in text for text in listed)
    assert told.all("ompd bt") == [ON, OFF, OFF, OFF] and told["ompd bt off"] == OFF
    assert told.all("ompd bt on") == [ON, ON, ON]
    assert [re.findall(r"^bt +(\w+)$", text, re.MULTILINE) for text in told.all("ompd status")] == [["off"], ["on"]]
    assert told["ompd bt maybe"] == "error: ompd: expected on or off\nompd: ompd bt on\n"


def test_two_debuggers_have_their_own() -> None:
    make = f"script other = lldb.SBDebugger.Create(); other.HandleCommand({LOAD!r}); other.HandleCommand('ompd bt off')"
    told = replies(HIDES, make, "ompd bt", "script other.HandleCommand('ompd bt')", "ompd bt off")
    assert told["ompd bt"] == ON
    assert told["script other.HandleCommand('ompd bt')"] == told["ompd bt off"] == OFF


@pytest.mark.parametrize("version", HIDES_NOT)
@pytest.mark.quick("14")
def test_older_versions_say_why_not(version: int) -> None:
    told = replies(version, create(stopped("hang")), "ompd bt", "ompd bt on", "ompd bt off", LIST, "ompd status", "bt")
    why = f"LLDB {version} cannot leave frames out"
    since = "LLDB 20 and later can; ompd stack leaves them out in every version"
    assert told["ompd bt"] == told["ompd bt off"] == f"ompd bt is off: {why}, {since}\n"
    assert told["ompd bt on"] == f"error: ompd: {why}\nompd: {since}\n"
    assert ours(told[LIST]) == [] and "\nbt        off\n" in told["ompd status"]
    assert "__kmp" in told["bt"]


def test_an_error_in_a_recogniser_shows_the_frame() -> None:
    break_it = "script import ompd.lldb.frames; ompd.lldb.frames.side_of = None"
    told = replies(HIDES, break_it, create(stopped("hang")), ALL, UNFILTERED)
    assert threads_of(told[ALL]) == threads_of(told[UNFILTERED]) and len(frames_of(told[ALL])) > 20


def test_a_constant_of_lldb_is_what_it_is_taken_for() -> None:
    command = "script print(lldb.eSymbolTypeCode)"
    assert replies(HIDES, command)[command] == f"{lldb_frames._CODE_SYMBOL}\n"


# In an editor


@pytest.mark.parametrize("switched", ["on", "off"])
@pytest.mark.quick()
def test_an_editor_shows_hidden_frames_as_subtle(switched: str, tmp_path: Path) -> None:
    core, found = stopped("task_tree", compiler="clang"), lldb(HIDES)
    told = of_core("task_tree", "clang", "kernel")[1]
    everything, shown = threads_of(told[UNFILTERED]), threads_of(told.all(ALL)[0])
    with DebugAdapter([str(found.binaries / "lldb-dap")], cwd=tmp_path, env=found.environment) as adapter:
        adapter.ask("initialize", adapterID="lldb-dap", linesStartAt1=True)
        attached = adapter.send(
            "attach",
            program=str(core.executable),
            coreFile=str(core.core),
            initCommands=[LOAD, f"ompd bt {switched}"],
        )
        adapter.event("initialized")
        adapter.ask("configurationDone")
        adapter.response(attached)
        native = native_ids(told)
        for thread in adapter.ask("threads")["threads"]:
            frames = adapter.ask("stackTrace", threadId=thread["id"])["stackFrames"]
            number = next(n for n, tid in native.items() if tid == thread["id"])
            subtle = {n for n, frame in enumerate(frames) if frame.get("presentationHint") == "subtle"}
            hidden = {f.index for f in everything[number]} - {f.index for f in shown[number]}
            assert len(frames) == len(everything[number])
            assert subtle == (hidden if switched == "on" else set())
            names = [frame["name"] for frame in frames if frame.get("presentationHint") == "subtle"]
            assert switched == "off" or any("kmp" in name for name in names) or thread["id"] == core.truth["monitor"]
