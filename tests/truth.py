"""Compare the answers of ``ompd`` with the truth that the program wrote; ``fixtures/programs/truth.h`` has its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ompd.model import Answer, IcvRecord, ParallelRecord, Place, StackFrame, StackRecord, TaskRecord, ThreadRecord
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads
from ompd.session import Session
from tests.support import RUNTIMES, Running, Stopped

# In mode "neither" the runtime keeps no states, but the program knows the construct that blocks each thread. gcc's code
# calls the same routine for several constructs: these have several states.
STATES_OF_CONSTRUCT = {
    "critical": {"wait_critical"},
    "lock": {"wait_lock"},
    "nest_lock": {"wait_lock"},
    "ordered": {"wait_ordered"},
    "atomic": {"wait_atomic"},
    "barrier": {"gcc": {"wait_barrier"}, "clang": {"wait_barrier_explicit"}},
    "implicit_barrier": {"wait_barrier_implicit_parallel"},
    "workshare_barrier": {
        "gcc": {"wait_barrier", "wait_barrier_implicit_workshare"},
        "clang": {"wait_barrier_implicit_workshare"},
    },
    "reduction_barrier": {"wait_barrier"},
    "reduction": {"gcc": {"wait_atomic", "wait_lock"}, "clang": {"wait_lock"}},
    "taskwait": {"wait_taskwait"},
    "taskgroup": {"wait_taskgroup"},
    "idle": {"idle"},
}
# The stub keeps the states of 2015, where the barrier at a region's end may have the state of any implicit barrier. It
# always keeps the kind of a barrier. gcc calls the routine of an explicit barrier for some implicit ones.
STATES_OF_STUB = {
    **STATES_OF_CONSTRUCT,
    "barrier": {"wait_barrier_explicit"},
    "implicit_barrier": {"wait_barrier_implicit", "wait_barrier_implicit_parallel"},
    "workshare_barrier": {"wait_barrier_explicit", "wait_barrier_implicit"},
    "reduction_barrier": {"wait_barrier_explicit"},
}
# libomp never records these waits, so ompd derives the state even if libomp keeps states.
UNMARKED = {
    "taskwait": "wait_taskwait",
    "taskgroup": "wait_taskgroup",
    "lock": "wait_lock",
    "nest_lock": "wait_lock",
    "critical": "wait_critical",
}
SCHEDULES = {1: "static", 2: "dynamic", 3: "guided", 4: "auto"}
MONOTONIC = 0x80000000
BINDINGS = ("false", "true", "primary", "close", "spread")


# Control variables that cannot be located in a stripped runtime, by its kind. An emulator may read libomp's own. A
# libgomp thread outside of all regions may have no task that keeps its schedule.
UNTOLD = {
    "libgomp": frozenset(("icv.num-procs-var", "icv.run-sched-var")),
    "libomp": frozenset(("icv.num-procs-var", "icv.cancel-var", "icv.max-task-priority-var")),
}


class Comparison:
    """Count equal facts by key, and collect differences as sentences. Facts with *optional* keys may be missing."""

    def __init__(self, optional: Collection[str] = ()) -> None:
        self.equal: Counter[str] = Counter()
        self.differences: list[str] = []
        self._optional = optional

    def check(self, subject: str, key: str, ours: object, true: object) -> None:
        """Compare one fact. A missing answer (None) is a difference, unless the truth is None too or the key is
        optional.
        """
        if ours is None and true is not None and key in self._optional:
            return
        if ours == true and type(ours) is type(true):
            self.equal[key] += 1
        else:
            self.differences.append(f"{subject}: {key} is {ours!r}, in truth {true!r}")


def has_tool(stopped: Stopped | Running) -> bool:
    """Return whether a tool in the program received OMPT events and wrote them down."""
    return stopped.mode != "neither" and RUNTIMES[stopped.runtime].has_ompt


def everything(session: Session) -> tuple[Answer[Any], ...]:
    """Return the answers to all questions of a session."""
    return tuple(question.ask(session) for question in (threads, regions, runtimes, tasks, icvs, stacks))


def opened(program: Stopped | Running) -> Session:
    """Return a session on a core or on a running program."""
    return Session.attach(program.pid) if isinstance(program, Running) else Session.open_core(program.core)


def compare(stopped: Stopped | Running) -> Comparison:
    """Compare all answers about a core or a running program with its truth."""
    with opened(stopped) as session:
        return compare_session(stopped, session)


def compare_session(stopped: Stopped | Running, session: Session) -> Comparison:
    """Compare all answers of a session on the program *stopped* with its truth, for any kind of target."""
    openmp = RUNTIMES[stopped.runtime]
    found = Comparison(UNTOLD.get(openmp.kind, ()))
    answers = session.ask(everything)
    thread_answer, region_answer, runtime_answer, task_answer, icv_answer, stack_answer = answers
    for answer in answers:
        found.check("answer", "complete", answer.complete, True)
        found.differences += answer.warnings if not answer.complete else ()
    known = _compare_regions(found, session, stopped.truth["regions"], region_answer.rows)
    _compare_threads(found, stopped, thread_answer.rows, known)
    _compare_waits(found, stopped, thread_answer.rows)
    _compare_tasks(found, stopped, task_answer.rows)
    _compare_icvs(found, stopped, icv_answer.rows, thread_answer.rows)
    _compare_stacks(found, stopped, stack_answer.rows, task_answer.rows)
    initialised = any(thread["openmp"] for thread in stopped.truth["threads"])
    (runtime,) = runtime_answer.rows
    found.check("runtime", "kind", runtime.kind, openmp.kind)
    if initialised:
        workers = any(thread["thread_type"] == "worker" for thread in stopped.truth["threads"])
        if openmp.kind != "libomp" or workers:  # else a stripped libomp does not show whether it keeps any
            found.check("runtime", "keeps_states", runtime.keeps_states, stopped.mode != "neither")
        found.check("runtime", "layout", runtime.layout, "published" if openmp.has_ompd else "table")
    found.check("runtime", "dll_locations", runtime.dll_locations, openmp.dlls() if initialised else None)
    return found


def _compare_regions(
    found: Comparison, session: Session, truth: list[dict[str, Any]], rows: tuple[ParallelRecord, ...]
) -> dict[int, str]:
    # Return our id of each region of the truth, by the region's key.
    by_shape = {(row.level, row.threads): row for row in rows}
    found.check("regions", "number", len(rows), len(truth))
    known: dict[int, str] = {}
    for region in truth:
        row = by_shape.get((region["level"], tuple(region["threads"])))
        if row is not None:
            known[region["key"]] = row.id
    for region in truth:
        subject = f"region {region['function']}:{region['line']} {region['threads']}"
        row = by_shape.get((region["level"], tuple(region["threads"])))
        if row is None:
            found.differences.append(f"{subject} was not found")
            continue
        found.check(subject, "threads", row.threads, tuple(region["threads"]))
        for key in ("level", "active_level", "team_size"):
            found.check(subject, key, getattr(row, key), region[key])
        found.check(subject, "enclosing", row.enclosing, known.get(region["enclosing"]))
        function = row.function
        found.check(subject, "function", function and function.function, region["function"])
        found.check(subject, "file", function and function.file and Path(function.file).name, region["file"])
        found.check(subject, "line", function and function.line, region["line"])
        # With -g clang puts the body into a second function, which the entry function calls. Their names differ only in
        # "_debug__".
        body = session.process.places.locate(int(region["code_address"], 16))
        if function is not None and "_debug__" not in (body.symbol or ""):
            found.check(subject, "address", function.address, body.symbol_address)
    return known


def _compare_threads(
    found: Comparison, stopped: Stopped | Running, rows: tuple[ThreadRecord, ...], regions: dict[int, str]
) -> None:
    by_native_id = {row.native_thread_id: row for row in rows}
    truth = stopped.truth["threads"]
    found.check("threads", "number", sorted(by_native_id), sorted(thread["native_thread_id"] for thread in truth))
    for thread in truth:
        row = by_native_id.get(thread["native_thread_id"])
        if row is None:
            continue
        subject = f"thread {thread['native_thread_id']} ({thread['role']}, {thread['blocked_in']})"
        found.check(subject, "openmp", row.runtime is not None, thread["openmp"])
        for key in ("thread_num", "team_size", "level", "active_level"):
            found.check(subject, key, getattr(row, key), thread[key])
        found.check(subject, "thread_type", row.thread_type, thread["thread_type"] or "other")
        found.check(subject, "parallel", row.parallel, regions.get(thread["region"]))
        if thread["openmp"]:
            _compare_state(found, subject, stopped, row, thread)
        else:
            found.check(subject, "state", row.state, None)
        if thread["where"] is not None:
            where = row.where
            found.check(subject, "where.function", _function_of(where), thread["where"]["function"])
            found.check(subject, "where.file", where and where.file and Path(where.file).name, thread["where"]["file"])
            if thread["where"]["line"] is not None:
                found.check(subject, "where.line", where and where.line, thread["where"]["line"])
        elif thread["role"] == "idle":
            found.check(subject, "where", row.where, None)


def _compare_state(
    found: Comparison, subject: str, stopped: Stopped | Running, row: ThreadRecord, thread: dict[str, Any]
) -> None:
    idle = thread["role"] == "idle"
    if idle:
        # A thread that has left its team for good keeps the state of the team's last barrier in the runtime.
        found.check(subject, "state", row.state, "idle")
        return
    source = "runtime"
    if not has_tool(stopped):
        working = "work_parallel" if thread["level"] else "work_serial"
        known = STATES_OF_STUB if RUNTIMES[stopped.runtime].kind == "stub" else STATES_OF_CONSTRUCT
        states = known.get(thread["blocked_in"], {working})
        if isinstance(states, dict):
            states = states["clang" if stopped.compiler.startswith("clang") else "gcc"]
        found.check(subject, "state", row.state in states or row.state, True)
        source = "derived" if stopped.mode == "neither" else "runtime"
    elif thread["blocked_in"] in UNMARKED and thread["state"] == "work_parallel":
        found.check(subject, "state", row.state, UNMARKED[thread["blocked_in"]])
        source = "derived"
    else:
        found.check(subject, "state", row.state, thread["state"])
        found.check(subject, "wait_id", f"{row.wait_id:#x}" if row.wait_id is not None else None, thread["wait_id"])
    found.check(subject, "state_source", row.state_source, source)
    if has_tool(stopped):
        found.check(subject, "thread.tool_data", row.tool_data, thread["thread_data"])


def _barrier_of(stopped: Stopped | Running, construct: str) -> str:
    # Runtimes have one barrier for several constructs: the threads of a team meet at it wherever they are in the
    # source. libomp has a separate barrier for clang's tree reductions.
    kind = RUNTIMES[stopped.runtime].kind
    if kind == "stub":
        return "any"
    if construct == "reduction_barrier" and kind != "libgomp" and stopped.compiler.startswith("clang"):
        return construct
    return "end" if construct == "implicit_barrier" else "inner"


def _compare_waits(found: Comparison, stopped: Stopped | Running, rows: tuple[ThreadRecord, ...]) -> None:
    truth = stopped.truth["threads"]
    barriers = ("barrier", "implicit_barrier", "workshare_barrier", "reduction_barrier")
    for thread, row in ((t, r) for t in truth for r in rows if r.native_thread_id == t["native_thread_id"]):
        if thread["role"] != "team":
            continue
        subject = f"thread {thread['native_thread_id']} ({thread['blocked_in']})"
        waits = thread["blocked_in"] not in ("user", "parallel")
        found.check(subject, "waits", row.wait is not None, waits)
        if row.wait is None:
            continue
        if thread["blocked_in"] in barriers:
            team = [t for t in truth if t["region"] == thread["region"] and t["role"] == "team"]
            # A thread that executes a task meanwhile has arrived too: its implicit task waits.
            here = _barrier_of(stopped, thread["blocked_in"])
            arrived = {
                t["thread"]
                for t in stopped.truth["tasks"]
                if t["kind"] == "implicit" and t["region"] == thread["region"] and t["waits"] in barriers
                if _barrier_of(stopped, t["waits"]) == here
            }
            missing = sorted(t["native_thread_id"] for t in team if t["native_thread_id"] not in arrived)
            if len(team) == thread["team_size"]:  # otherwise some threads are in regions of their own
                found.check(subject, "wait.missing", sorted(row.wait.missing or ()), missing)
                found.check(subject, "wait.arrived", row.wait.arrived, len(team) - len(missing))
                found.check(subject, "wait.expected", row.wait.expected, len(team))
        if thread["blocked_in"] == "critical":
            name = thread["object_symbol"]
            if name:
                found.check(subject, "wait.symbol", row.wait.symbol, f"critical({name})")
        if thread["blocked_in"] in ("lock", "nest_lock") and row.wait.object is not None:
            found.check(subject, "wait.symbol", row.wait.symbol, f"&{thread['object_symbol']}")
        if row.wait.owner is not None and thread["holder"] is not None:
            found.check(subject, "wait.owner", row.wait.owner, thread["holder"])
        if thread["wait_id"] is not None and row.wait.object is not None:
            # The stub gives tools the address of its barrier. ompd names a barrier by the word behind the first one.
            behind = 8 if RUNTIMES[stopped.runtime].kind == "stub" and thread["blocked_in"] in barriers else 0
            found.check(subject, "wait.object", f"{row.wait.object - behind:#x}", thread["wait_id"])


def _compare_tasks(found: Comparison, stopped: Stopped | Running, rows: tuple[TaskRecord, ...]) -> None:
    truth = [
        {**task, "status": "waiting"} if task["status"] == "queued" and task["waits"] == "dependence" else task
        for task in stopped.truth["tasks"]
    ]
    kinds = Counter((task["kind"], task["status"], task["thread"]) for task in truth)
    # The truth lacks the initial tasks of threads that declared nothing.
    ours = Counter((r.kind, r.status, r.thread) for r in rows)
    for key in kinds:
        # Without states only a task that waits for its children shows where it is suspended.
        untold = stopped.mode == "neither" and key[:2] == ("explicit", "suspended")
        if not untold or ours[key]:
            found.check(f"tasks {key}", "task.kind,status,thread", ours[key], kinds[key])
    lines = Counter((task["function"], task["line"], task["status"]) for task in truth if task["kind"] == "explicit")
    told = Counter(
        (r.function and r.function.function, r.function and r.function.line, r.status)
        for r in rows
        if r.kind == "explicit"
    )
    found.check("tasks", "task.function", told, lines)
    if not has_tool(stopped):
        return
    by_data = {row.tool_data: row for row in rows if row.tool_data}
    known = {task["key"]: task["data"] for task in truth}
    ids = {row.id: row.tool_data for row in rows}
    for task in truth:
        row = by_data.get(task["data"])
        subject = f"task {task['kind']} {task['data']}"
        found.check(subject, "task", row is not None, True)
        if row is None:
            continue
        for key in ("kind", "status", "thread", "final"):
            found.check(subject, f"task.{key}", getattr(row, key), task[key])
        # The stub never moves a task to another thread.
        may_move = bool(task["untied"]) and RUNTIMES[stopped.runtime].kind in ("libomp", "libiomp5")
        found.check(subject, "task.tied", row.tied is False, may_move)
        for key in ("generating", "scheduling"):
            found.check(subject, f"task.{key}", ids.get(getattr(row, key)), known.get(task[key]))
    for thread in stopped.truth["threads"]:
        for level in thread["tasks"] or ():
            row = by_data.get(level["task_data"])
            if row is None:
                continue
            subject = f"frames of task {level['task_data']}"
            for key in ("exit_frame", "enter_frame"):
                frame = getattr(row, key)
                found.check(subject, key, frame and f"{frame.address:#x}", level[key])
                if frame is not None:
                    found.check(subject, f"{key}.flags", frame.flags, level[f"{key}_flags"])


def compare_stacks(stopped: Stopped | Running) -> Comparison:
    """Compare only the stacks of a core or a running program with its truth."""
    found = Comparison()
    with opened(stopped) as session:
        answer, task_answer = session.ask(stacks_and_tasks)
        found.check("answer", "complete", answer.complete, True)
        found.differences += answer.warnings if not answer.complete else ()
        _compare_stacks(found, stopped, answer.rows, task_answer.rows)
    return found


def stacks_and_tasks(session: Session) -> tuple[Answer[StackRecord], Answer[TaskRecord]]:
    """Return the stacks, and the tasks that they belong to."""
    return stacks.ask(session), tasks.ask(session)


def _compare_stacks(
    found: Comparison, stopped: Stopped | Running, rows: tuple[StackRecord, ...], task_rows: tuple[TaskRecord, ...]
) -> None:
    if not stopped.truth["stacks"]:
        return
    by_native_id = {row.native_thread_id: row for row in rows}
    data = {row.id: row.tool_data for row in task_rows}
    true_data = {task["key"]: task["data"] for task in stopped.truth["tasks"]}
    for thread in stopped.truth["threads"]:
        subject = f"stack of thread {thread['native_thread_id']} ({thread['role']}, {thread['blocked_in']})"
        row = by_native_id.get(thread["native_thread_id"])
        if row is None:
            found.differences.append(f"{subject} was not found")
            continue
        # The program's frames exclude C library functions that the program called or that called it.
        ours = [frame for frame in row.frames if frame.kind == "user"]
        true = thread["stack"] or []
        found.check(subject, "stack.stopped", row.stopped, None)
        found.check(subject, "stack.idle", row.idle, thread["role"] == "idle")
        told, stated = [_in_short(frame) for frame in ours], [_in_short_as_stated(frame) for frame in true]
        if len(told) < len(stated) and any(frame.kind == "unknown" for frame in row.frames):
            # The frames known as the user's are there, in order. The unknown frames may belong to anyone.
            rest = iter(frame["function"] for frame in true)
            functions = [frame.function for frame in ours if not _is_made_by_compiler(frame.function)]
            found.check(subject, "stack.functions", all(function in rest for function in functions), True)
            found.differences.append(f"{subject} is None, in truth {stated}")
            continue
        if len(told) != len(stated):
            found.differences.append(f"{subject} is {told}, in truth {stated}")
            continue
        for number, (frame, statement) in enumerate(zip(ours, true, strict=True)):
            subject = f"stack of thread {thread['native_thread_id']}, {number}: {_in_short_as_stated(statement)}"
            for key in ("function", "file", "line", "thread"):
                found.check(subject, f"stack.{key}", _place_of(frame)[key], statement[key])
            construct = frame.construct
            found.check(subject, "stack.construct", construct and construct.kind, statement["construct"])
            found.check(subject, "stack.construct.line", construct and construct.line, statement["construct_line"])
            file = construct and construct.file and Path(construct.file).name
            found.check(subject, "stack.construct.file", file, statement["construct"] and statement["file"])
            if construct is None:  # compilers may or may not inline the function of a construct
                found.check(subject, "stack.inlined", frame.inlined, statement["inlined"])
            if has_tool(stopped) and statement["task"] is not None:
                found.check(subject, "stack.task", data.get(frame.task or ""), true_data[statement["task"]])


def _is_made_by_compiler(function: str | None) -> bool:
    return function is None or ".omp_" in function


def _function_of(place: StackFrame | Place | None) -> str | None:
    function = place.function if place is not None else None
    if function is not None and function.endswith("::operator()") and ("$_" in function or "lambda" in function):
        function = "operator()"  # the class of a lambda expression has no name; compilers invent different ones
    return function


def _place_of(frame: StackFrame) -> dict[str, object]:
    return {
        "function": _function_of(frame),
        "file": frame.file and Path(frame.file).name,
        "line": frame.line,
        "thread": frame.thread,
    }


def _in_short(frame: StackFrame) -> str:
    place, construct = _place_of(frame), frame.construct
    kind = f" [{construct.kind} {construct.line}]" if construct is not None else ""
    return f"{place['function']}{kind} {place['line']} on {place['thread']}"


def _in_short_as_stated(frame: dict[str, Any]) -> str:
    kind = f" [{frame['construct']} {frame['construct_line']}]" if frame["construct"] else ""
    return f"{frame['function']}{kind} {frame['line']} on {frame['thread']}"


def _compare_icvs(
    found: Comparison, stopped: Stopped | Running, rows: tuple[IcvRecord, ...], threads: tuple[ThreadRecord, ...]
) -> None:
    values = {(row.name, row.handle): row.value for row in rows}
    for thread in stopped.truth["threads"]:
        icvs = thread.get("icvs")
        if not icvs:
            continue
        native = str(thread["native_thread_id"])
        (row,) = [r for r in threads if r.native_thread_id == thread["native_thread_id"]]
        subject = f"icvs of thread {native}"
        nthreads = values.get(("nthreads-var", native))
        first = int(nthreads.split(",")[0]) if isinstance(nthreads, str) else nthreads
        found.check(subject, "icv.nthreads-var", first, icvs["max_threads"])
        found.check(subject, "icv.dyn-var", values.get(("dyn-var", native)), icvs["dynamic"])
        found.check(
            subject, "icv.default-device-var", values.get(("default-device-var", native)), icvs["default_device"]
        )
        for name, key in (("max-active-levels-var", "max_active_levels"), ("thread-limit-var", "thread_limit")):
            found.check(subject, f"icv.{name}", values.get((name, row.task or "")), icvs[key])
        found.check(subject, "icv.final-task-var", values.get(("final-task-var", row.task or "")), icvs["in_final"])
        kind, chunk = icvs["schedule"]
        schedule = values.get(("run-sched-var", row.task or ""))
        if schedule is None:
            found.check(subject, "icv.run-sched-var", None, kind)
        else:
            found.check(subject, "icv.run-sched-var", *_schedules(str(schedule), kind & 0xFFFFFFFF, chunk))
        bind = values.get(("bind-var", row.task or ""))
        bind = bind.split(",")[0] if isinstance(bind, str) else bind
        found.check(subject, "icv.bind-var", bind, BINDINGS[icvs["proc_bind"]])
        runtime = row.runtime or ""
        found.check(subject, "icv.num-procs-var", values.get(("num-procs-var", runtime)), icvs["num_procs"])
        found.check(subject, "icv.cancel-var", values.get(("cancel-var", runtime)), icvs["cancellation"])
        found.check(
            subject,
            "icv.max-task-priority-var",
            values.get(("max-task-priority-var", runtime)),
            icvs["max_task_priority"],
        )
        if row.parallel is not None:
            active = values.get(("active-levels-var", row.parallel))
            found.check(
                subject, "icv.active-levels-var", (active or 0) > 0 if active is not None else None, icvs["in_parallel"]
            )


def _schedules(ours: str, kind: int, chunk: int) -> tuple[tuple[str, int], tuple[str, int]]:
    modifier, _, rest = ours.rpartition(":")
    name, _, size = rest.partition(",")
    told = ("monotonic:" if modifier == "monotonic" else "") + name
    true = ("monotonic:" if kind & MONOTONIC else "") + SCHEDULES[kind & ~MONOTONIC]
    # Without a chunk size omp_get_schedule() returns 0 for static and the runtime's own size for other kinds.
    return (told, int(size or chunk)), (true, chunk)
