"""Compare answers with gdb's stacks of the same threads: each user frame, and the place of a thread in the runtime.

gdb and ``ompd`` read the same unwind data and line tables, each by its own code. They may differ in these cases:

- if gdb cannot follow a stack to its end, only the frames that gdb has are compared: a gap in gdb is no contradiction;
- gdb and ``ompd`` infer functions that left the stack by a tail call in different ways, so those of ``ompd`` are not
  compared;
- a thread that meets a construct is where the construct begins, while gdb has the line of the call;
- a function that a compiler made of a construct has the compiler's name in gdb, and the user's in ``ompd``; some
  compilers make two functions, one that the runtime calls and one with the code, and one frame of them is left;
- functions of the C library have several names, and gdb and ``ompd`` may choose different ones: only their places are
  compared;
- gdb 13 leaves out rows of some line tables (in gcc 12's for BOTS' sparselu the two at 0x1ea8, which objdump shows and
  ``maint info line-table`` does not), and gives the line before: if lines differ, addr2line decides;
- gdb knows no CFA of the outermost frame.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.machine import clean_environment, require

Answer = Mapping[str, Any]
Row = Mapping[str, Any]

SCRIPT = Path(__file__).with_name("in_gdb.py")
SECONDS = 120
_MARK = "witness:"
# Names that compilers give to functions made of constructs. Below: functions in which the C library or the linker
# begins a program, and the linker's stubs for functions of other files.
_MADE = re.compile(r"_omp_fn|_omp_cpyfn|omp_outlined|omp_task_|_omp_|omp_(?:reduction|combiner|initializer)|__nv_")
_NAMELESS = re.compile(r"\.?omp_")  # gdb takes clang's names for those of another language, and drops the dot
_BEGIN = re.compile(r"_start$|__libc_start|@plt$")
_CLONE = re.compile(r"\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*")
# Runtime routines between the user's frames and the wait, if they have names. Each shows the kind of wait.
_BARRIER = re.compile(
    r"barrier|__kmp_(?:join|fork|launch|internal_join)|__kmpc_fork|GOMP_\w*(?:parallel|teams|_end$)|reduce|gomp_thread_start|gomp_team_end|__kmpc_(?:for|single|sections|copyprivate)|__kmpc_dispatch"
)
_TASKWAIT, _TASKGROUP = re.compile(r"taskwait|wait_deps|GOMP_task$"), re.compile(r"taskgroup|taskloop")
_LOCK = re.compile(r"lock|critical|mutex|ordered|doacross|atomic|reduce")
_ONLY_POOL = re.compile(r"^GOMP_(?!parallel_end)|^__kmpc_")
_WAIT_WORDS = {
    "wait_barrier": _BARRIER,
    "wait_taskwait": _TASKWAIT,
    "wait_taskgroup": _TASKGROUP,
    **dict.fromkeys(("wait_lock", "wait_critical", "wait_mutex", "wait_ordered", "wait_atomic"), _LOCK),
}
# Routines in which a working thread does not wait, if the runtime's routines have names.
_WAITS = re.compile(
    r"barrier_wait|^__kmp_wait|kmp_flag_\w+.*::wait|taskwait_end|GOMP_barrier|mutex_lock_slow|__kmp_acquire_\w+_lock$"
)


@dataclass(frozen=True)
class Written:
    """A function with gdb's name for it, at a place in the source; *file* and *line* are None if there is none."""

    function: str | None
    file: str | None
    line: int | None

    @property
    def is_made(self) -> bool:
        """Whether a compiler made the function of a construct."""
        return self.function is not None and _MADE.search(self.function) is not None


@dataclass(frozen=True)
class Frame:
    """A frame with memory of its own: first the functions inlined there, then the function itself.

    *text* is the address at which ``.text`` of its module begins.
    """

    level: int
    kind: str
    pc: int
    cfa: int | None
    module: str | None
    text: int | None
    written: tuple[Written, ...]

    def lines_elsewhere(self, address: int) -> frozenset[int]:
        """Return the lines of an address and of functions inlined there by ``addr2line``; none if it knows none."""
        if self.module is None or self.text is None:
            return frozenset()
        command = [str(require("addr2line")), "-i", "-j", ".text", "-e", self.module, hex(address - self.text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
        return frozenset(map(int, re.findall(r":(\d+)(?: \(.*\))?$", done.stdout, re.MULTILINE)))


@dataclass(frozen=True)
class Stack:
    """A thread's frames, innermost first, and gdb's reason for stopping; None if gdb came to the end."""

    frames: tuple[Frame, ...]
    stopped: str | None

    @cached_property
    def by_place(self) -> Mapping[tuple[int, int | None], int]:
        """Indices of frames by pc and CFA; the CFA of the outermost frame is None."""
        return {(f.pc, f.cfa if n + 1 < len(self.frames) else None): n for n, f in enumerate(self.frames)}

    def find(self, pc: int, cfa: int | None) -> int | None:
        """Return the index of the frame with this pc and CFA, else None. In the outermost frame only the pc counts."""
        found = self.by_place.get((pc, cfa))
        last = len(self.frames) - 1
        return last if found is None and self.frames and self.frames[last].pc == pc else found


def stacks(target: int | Path, executable: Path) -> Mapping[int, Stack]:
    """Return gdb's stacks of a process or a core, by native thread id; none if gdb cannot open it.

    :raises Missing: if there is no gdb
    """
    command = [str(require("gdb")), "-nx", "-batch", "-iex", "set debuginfod enabled off"]
    command += ["-p", str(target)] if isinstance(target, int) else [str(executable), str(target)]
    done = subprocess.run(
        [*command, "-x", str(SCRIPT)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=SECONDS,
        env=clean_environment(),
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    told = json.loads(lines[-1].removeprefix(_MARK)) if lines else {"threads": [], "texts": {}}
    return {
        thread["thread"]: Stack(tuple(_physical(thread["frames"], told["texts"])), thread["stopped"])
        for thread in told["threads"]
    }


def _physical(frames: Sequence[Row], texts: Mapping[str, int]) -> Iterator[Frame]:
    inlined: list[Written] = []
    for frame in frames:
        inlined.append(Written(frame["function"], frame["file"], frame["line"]))
        if frame["kind"] != "inline":
            module = frame["module"]
            begin = texts.get(module) if module is not None else None
            yield Frame(frame["level"], frame["kind"], frame["pc"], frame["cfa"], module, begin, tuple(inlined))
            inlined = []


def broken(theirs: Mapping[int, Stack], executable: Path, answers: Mapping[str, Answer]) -> list[str]:
    """Return where *answers* contradict gdb's stacks: ``stack``, ``threads``, and ``raw`` (``stack --raw``)."""
    return list(_Judge(theirs, executable, answers).judged())


class _Judge:
    def __init__(self, theirs: Mapping[int, Stack], executable: Path, answers: Mapping[str, Answer]) -> None:
        self._theirs = theirs
        self._answers = answers
        self._rows: Sequence[Row] = answers["stack"]["stack"] if "stack" in answers else ()
        self._runtimes = {_real(row["file"]) for answer in answers.values() for row in answer["runtimes"]}
        shown = {f["module"] for row in self._rows for f in row["frames"] if f["kind"] == "user" and f["module"]}
        self._users = {_real(name) for name in (*shown, str(executable))} - self._runtimes
        self._constructs = set(self._construct_lines())

    def judged(self) -> Iterator[str]:
        for row in self._rows:
            for text in self._of_stack(row):
                yield f"gdb: stack of thread {row['native_thread_id']}: {text}"
        for row in self._answers["raw"]["stack"] if "raw" in self._answers else ():
            for text in self._of_all_frames(row):
                yield f"gdb: all frames of thread {row['native_thread_id']}: {text}"
        for row in self._answers["threads"]["threads"] if "threads" in self._answers else ():
            for text in self._of_thread(row):
                yield f"gdb: thread {row['native_thread_id']}: {text}"

    def _construct_lines(self) -> Iterator[tuple[str, int]]:
        for name, key in (("parallel", "function"), ("tasks", "function"), ("threads", "at_end_of")):
            for row in self._answers[name][name] if name in self._answers else ():
                if row[key] is not None and row[key]["line"] is not None:
                    yield _base(row[key]["file"]), row[key]["line"]
        for row in self._rows:
            for frame in row["frames"]:
                if frame["construct"] is not None and frame["construct"]["line"] is not None:
                    yield _base(frame["construct"]["file"]), frame["construct"]["line"]

    # Stacks

    def _of_stack(self, row: Row) -> Iterator[str]:
        own = row["native_thread_id"]
        passed: dict[int, int] = {}  # by thread: the index of the last matched frame
        first: dict[int, int] = {}
        found: dict[int, set[int]] = {}
        unsure = _before_guesses(row["frames"])
        for place in _places(row["frames"]):
            thread, shown = place[0]["thread"], place[0]
            stack = self._theirs.get(thread)
            if (thread, shown["address"]) in unsure:
                continue
            if stack is None or shown["how"] == "tail-call" or shown["guessed"] or shown["address"] is None:
                continue
            index = stack.find(int(shown["address"], 16), int(shown["cfa"], 16) if shown["cfa"] else None)
            if index is None:
                if stack.stopped is None:
                    yield f"gdb has no frame of thread {thread} at {shown['address']} ({shown['function']})"
                continue
            if index <= passed.get(thread, -1):
                yield f"{shown['function']} at {shown['address']} is not in the order of gdb's frames"
            passed[thread] = index
            first.setdefault(thread, index)
            found.setdefault(thread, set()).add(index)
            if shown["kind"] == "user":
                yield from self._of_frame(place, stack, index)
        for thread, indices in {own: found.get(own, set()), **found}.items():
            stack = self._theirs.get(thread)
            if stack is None or row["stopped"] is not None or thread is None or thread in {at for at, _ in unsure}:
                continue
            begin = 0 if thread == own else first[thread]
            for index in range(begin, len(stack.frames)):
                if index not in indices and not self._may_be_hidden(stack, index):
                    frame = stack.frames[index]
                    name = next((w.function for w in frame.written if w.function), None)
                    yield f"the frame of {name} at {frame.pc:#x} of thread {thread} is not there"

    def _of_all_frames(self, row: Row) -> Iterator[str]:
        stack = self._theirs.get(row["native_thread_id"])
        mine = [f for f in row["frames"] if not f["inlined"] and not f["guessed"] and f["address"] is not None]
        theirs = [f for f in stack.frames if f.kind != "tail-call"] if stack is not None else []
        unsure = _before_guesses(row["frames"])
        for number, (shown, frame) in enumerate(zip(mine, theirs, strict=False)):
            is_outermost = number + 1 == len(theirs)
            is_known = (
                shown["cfa"] is not None and not is_outermost and (shown["thread"], shown["address"]) not in unsure
            )
            cfa = int(shown["cfa"], 16) if is_known and shown["cfa"] is not None else None
            if int(shown["address"], 16) != frame.pc or cfa not in (None, frame.cfa):
                yield f"number {number} is {shown['address']} {shown['cfa']}, where gdb has {frame.pc:#x} {frame.cfa}"
                return
        # gdb looks for no frames outside of main().
        if stack is not None and len(mine) < len(theirs) and row["stopped"] is None and not unsure:
            yield f"there are {len(mine)}, where gdb has {len(theirs)}"

    def _may_be_hidden(self, stack: Stack, index: int) -> bool:
        frame = stack.frames[index]
        if frame.module is None or _real(frame.module) not in self._users or frame.kind in ("tail-call", "signal"):
            return True
        outermost = frame.written[-1].function
        if outermost is None or _BEGIN.search(outermost):
            return True
        # ompd shows one of two functions made of one construct. Functions that copy a task's arguments or combine a
        # reduction's values are not shown.
        return all(written.is_made for written in frame.written)

    def _of_frame(self, place: Sequence[Row], stack: Stack, index: int) -> Iterator[str]:
        frame = stack.frames[index]
        theirs = list(frame.written)
        meets = index > 0 and _real(stack.frames[index - 1].module or "") in self._runtimes
        for shown in place:
            while theirs and not self._is_same(shown, theirs[0], meets, frame) and theirs[0].is_made:
                theirs.pop(0)
            if not theirs or not self._is_same(shown, theirs[0], meets, frame):
                wanted = [f"{w.function} {_base(w.file)}:{w.line}" for w in frame.written]
                said = f"{shown['function']} {_base(shown['file'])}:{shown['line']}"
                yield f"{said} at {shown['address']}, where gdb has {', '.join(wanted)}"
                return
            theirs.pop(0)
        if not all(written.is_made for written in theirs):
            rest = ", ".join(f"{w.function} {_base(w.file)}:{w.line}" for w in theirs)
            yield f"of {place[0]['address']} there are not {rest}"

    def _is_same(self, shown: Row, theirs: Written, meets: bool, frame: Frame) -> bool:
        if shown["function"] is not None and theirs.function is not None and not _is_named(shown["function"], theirs):
            return False
        if shown["line"] is None or theirs.line in (None, 0):
            return shown["line"] is None or not shown["line"] or theirs.line in (None, 0)
        here = _base(shown["file"]), shown["line"]
        if here == (_base(theirs.file), theirs.line) or (meets and here in self._constructs):
            return True
        # In a caller the line is that of the call, which is before the return address.
        called = frame.pc - (frame.level > 0)
        return here[0] == _base(theirs.file) and shown["line"] in frame.lines_elsewhere(called)

    # States

    def _of_thread(self, row: Row) -> Iterator[str]:
        stack, state = self._theirs.get(row["native_thread_id"]), row["state"]
        if stack is None or row["runtime"] is None or state is None:
            return
        frames = _less_handler(stack.frames)
        users = [n for n, f in enumerate(frames) if f.module is not None and _real(f.module) in self._users]
        front = frames[: users[0]] if users else frames
        inside = [f for f in front if f.module is not None and _real(f.module) in self._runtimes]
        names = [w.function for f in inside for w in f.written if w.function is not None]
        if state == "idle":
            shown = [w.function for n in users for w in frames[n].written if w.function]
            if users and not all(map(_BEGIN.search, shown)):
                yield f"it is idle, and gdb has frames of the user's: {shown[:3]}"
            if any(map(_ONLY_POOL.search, names)):
                yield f"it is idle, and in {names}"
        elif state.startswith("wait_"):
            if not inside and stack.stopped is None and users:
                yield f"its state is {state}, and gdb has no frame of the runtime in front of the user's"
            word = _WAIT_WORDS.get(next((w for w in _WAIT_WORDS if state.startswith(w)), ""))
            if word is not None and names and not any(map(word.search, names)):
                yield f"its state is {state}, and it is in {names}"
        elif state.startswith("work_") and row["state_source"] == "derived" and any(map(_WAITS.search, names)):
            yield f"its state is {state}, and it is in {names}"
        yield from self._of_where(row, frames)

    def _of_where(self, row: Row, frames: Sequence[Frame]) -> Iterator[str]:
        where = row["where"]
        if where is None or where["address"] is None:
            return
        address = int(where["address"], 16)
        frame = next((f for f in frames if f.pc - 1 <= address <= f.pc), None)
        if frame is None:
            # WHERE may be a tail call if no user frame is inside of it, or only one without debug information.
            is_through = where["calling"] is not None and where["line"] is not None
            if not (address in self._jumps and (is_through or address == self._innermost(row["native_thread_id"]))):
                yield f"WHERE is {where['address']} ({where['function']}), where gdb has no frame"
            return
        lines = [written.line for written in frame.written]
        is_construct = (_base(where["file"]), where["line"]) in self._constructs
        if where["line"] is None or is_construct or {None, 0, where["line"]} & set(lines):
            return
        if where["line"] not in frame.lines_elsewhere(address):
            yield f"WHERE is line {where['line']}, where gdb has {lines}"

    @cached_property
    def _jumps(self) -> frozenset[int]:
        shown = (frame for row in self._rows for frame in row["frames"] if frame["how"] == "tail-call")
        return frozenset(int(frame["address"], 16) for frame in shown if frame["address"] is not None)

    def _innermost(self, thread: int) -> int | None:
        # Return the address of the user's innermost frame in `stack`.
        row = next((row for row in self._rows if row["native_thread_id"] == thread), None)
        users = (frame for frame in row["frames"] if frame["kind"] == "user") if row is not None else iter(())
        first = next(users, None)
        return int(first["address"], 16) if first is not None and first["address"] is not None else None


def _before_guesses(frames: Sequence[Row]) -> set[tuple[int, str | None]]:
    # Return thread and address of frames in code without unwind data. Both gdb and ompd guess the callers of such a
    # frame, and so its CFA. gdb assumes that the function has pushed nothing.
    physical = [frame for frame in frames if not frame["inlined"] and frame["how"] != "tail-call"]
    return {
        (inner["thread"], inner["address"])
        for inner, outer in pairwise(physical)
        if outer["guessed"] and not inner["guessed"] and outer["thread"] == inner["thread"]
    }


def _places(frames: Sequence[Row]) -> Iterator[list[Row]]:
    # Group each frame with the functions inlined into it.
    place: list[Row] = []
    for frame in frames:
        place.append(frame)
        if not frame["inlined"]:
            yield place
            place = []
    if place:
        yield place


def _less_handler(frames: Sequence[Frame]) -> Sequence[Frame]:
    handlers = [n for n, frame in enumerate(frames) if frame.kind == "signal"]
    return frames[handlers[-1] + 1 :] if handlers else frames


def _is_named(function: str, theirs: Written) -> bool:
    mine, other = _plain(function), _plain(theirs.function or "")
    if mine == other or mine.rpartition("::")[2] == other.rpartition("::")[2]:
        return True
    if not theirs.is_made:
        return False
    if _NAMELESS.match(other):
        return True
    parent = re.split(r"\._omp_|\.omp_|\._omp|_omp_outlined|\.", other)[0]
    return (
        parent in ("", mine, "__") or parent.rpartition("::")[2] == mine.rpartition("::")[2] or parent.startswith("_Z")
    )


def _plain(name: str) -> str:
    # Drop the marks of a function's copies, parameters, and arguments of templates.
    name = _CLONE.sub("", name).removesuffix(" const")
    name = re.sub(r"\[abi:\w+\]", "", name)
    depth, kept = 0, []
    for letter in name.replace("operator()", "operator").replace("(anonymous namespace)", "anonymous"):
        depth += letter in "(<"
        kept.append(letter if not depth else "")
        depth -= letter in ")>"
    return "".join(kept).split(" ")[-1].strip()


def _base(file: str | None) -> str:
    return file.rpartition("/")[2] if file else ""


def _real(file: str) -> str:
    return str(Path(file).resolve()) if file else ""
