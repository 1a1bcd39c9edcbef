"""Compare the plugin's answers about the stub's structures with the structures that the program wrote, by its own
compiler's layout (``dump.c``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ompd.contract.ompd import ThreadIdKind
from ompd.contract.ompt import state_name
from ompd.contract.plugin import AddressSpace, ThreadHandle
from ompd.errors import OmpdError
from ompd.session import Session
from tests.support import Running, Stopped

# ompt_state_t of the report of 2015, with the names of the same states in OpenMP 5.
STATES = {
    0x00: "work_serial",
    0x01: "work_parallel",
    0x02: "work_reduction",
    0x10: "idle",
    0x20: "overhead",
    0x40: "wait_barrier",
    0x41: "wait_barrier_implicit",
    0x42: "wait_barrier_explicit",
    0x50: "wait_taskwait",
    0x51: "wait_taskgroup",
    0x60: "wait_lock",
    0x61: "wait_lock",
    0x62: "wait_critical",
    0x63: "wait_atomic",
    0x64: "wait_ordered",
    0x80: "undefined",
}
THREADS = {1: "initial", 2: "worker", 3: "other"}
TASKS = {1: "initial", 2: "implicit", 3: "explicit", 5: "explicit"}
STATUSES = {1: "queued", 2: "executing", 3: "suspended", 4: "detached", 5: "complete"}
LOCKS = {1: "lock", 2: "lock", 3: "critical", 4: "critical", 5: "atomic"}
FRAME_FLAGS = {"exit_runtime_frame": 0x20, "reenter_runtime_frame": 0x31}


def written(program: Stopped | Running) -> dict[str, Any]:
    """Return the runtime's structures that a program wrote."""
    folder = program.core.parent if isinstance(program, Stopped) else program.folder
    found: dict[str, Any] = json.loads((folder / "structures.json").read_text())
    return found


def compare(session: Session, raw: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the number of facts that equal the written ones, and the differences."""
    (runtime,) = session.runtimes
    if runtime.space is None:
        raise runtime.fault or AssertionError("no reason")
    rows = list(_all(runtime.space, raw))
    differences = [f"{what}: {told!r}, written {true!r}" for what, told, true in rows if told != true]
    return len(rows) - len(differences), differences


def _all(space: AddressSpace, raw: dict[str, Any]) -> Iterator[tuple[str, object, object]]:
    teams = {team["address"]: team for team in raw["teams"]}
    threads = {thread.address: thread for thread in space.threads()}
    known = {thread["address"]: thread for thread in raw["threads"]}
    natives = {address: threads[address].native_id(ThreadIdKind.LWP) for address in known if address in threads}
    debug = bool(raw["process"]["debug_enabled"])
    yield "keeps_states", space.keeps_states(), debug
    yield "omp_version", space.omp_version(), raw["process"]["openmp_version"]
    for name, member in (("stacksize-var", "stack_size"), ("num-procs-var", "num_procs")):
        yield name, space.icv(name, space), raw["process"][member]
    yield "threads", set(threads), set(known)
    for address, thread in known.items():
        handle, what = threads[address], f"thread {thread['native_id']}"
        yield f"{what} id", thread["id"] > 0, True
        yield f"{what} type", handle.thread_type(), THREADS[thread["type"]]
        yield f"{what} pthread", handle.native_id(ThreadIdKind.PTHREAD), thread["pthread"]
        yield f"{what} native_id", handle.native_id(ThreadIdKind.LWP), thread["native_id"]
        team = teams[thread["team"]] if thread["team"] else None
        yield f"{what} thread_num", handle.thread_num(), thread["thread_num"] if team else None
        region = handle.current_parallel()
        yield f"{what} parallel", region and int(region.id, 16), team["address"] if team and team["level"] else None
        task = handle.current_task()
        yield f"{what} task", task and int(task.id, 16), thread["task"] or None
        if debug:
            state = handle.state()
            yield f"{what} state", state_name(state.state), STATES[thread["state"]]
            yield f"{what} wait_id", state.wait_id or 0, thread["wait_id"]
            yield f"{what} source", state.source, "runtime"
            yield f"{what} tool_data", handle.tool_data(), thread["tool_data"]
            waits = thread["state"] >= 0x40 and thread["state"] != 0x80
            yield f"{what} waits for something", bool(thread["wait_id"]), waits
            yield f"{what} has a stack", thread["stack_low"] < thread["stack_high"], True
        else:
            kept = [thread[name] for name in ("state", "wait_id", "tool_data", "stack_low", "stack_high")]
            yield f"{what} keeps nothing", kept, [0] * 5
        yield from _lock(handle, thread, {lock["address"]: lock for lock in raw["locks"]}, natives)
        if region is not None and team is not None:
            what = f"region {region.id}"
            outer = region.enclosing()
            yield f"{what} enclosing", outer and int(outer.id, 16), _parallel(teams, team["parent"])
            for key in ("size", "level", "active_level", "function"):
                yield f"{what} {key}", getattr(region, key)(), team[key]
            members = [region.thread(number).address for number in range(region.size())]
            yield f"{what} threads", members, team["threads"]
            implicit = [int(region.implicit_task(number).id, 16) for number in range(region.size())]
            yield f"{what} implicit", implicit, team["implicit"]
            gathered = [(len(known.present), known.doubt) for known in region.barriers()]
            yield f"{what} arrived", gathered, [(team["arrived"], None)] if team["arrived"] else []
    yield from _tasks(space, raw, teams, debug)
    for kind in ("threads", "teams", "tasks", "locks"):
        ids = [row["id"] for row in raw[kind]]
        yield f"ids of {kind}", (0 in ids, len(set(ids))), (False, len(ids))


def _parallel(teams: dict[int, Any], address: int) -> int | None:
    return address if address and teams[address]["level"] else None


def _lock(
    handle: ThreadHandle, thread: dict[str, Any], locks: dict[int, Any], natives: dict[int, int]
) -> Iterator[tuple[str, object, object]]:
    what = f"lock of {thread['native_id']}"
    lock = handle.lock()
    if not thread["waits_for"]:
        yield what, lock and lock.address, thread["waits_for_turn"] or None
        return
    true = locks[thread["waits_for"]]
    yield what, lock is not None, True
    if lock is None:
        return
    yield f"{what}: address", lock.address, true["address"]
    yield f"{what}: kind", lock.kind, LOCKS[true["kind"]]
    yield f"{what}: owner", lock.owner, natives.get(true["owner"])
    yield f"{what}: waiters", lock.waiters, tuple(natives[waiter] for waiter in true["waiters"])
    yield f"{what}: count", len(lock.waiters), true["waiter_count"]
    yield f"{what}: variable", lock.variable or 0, true["variable"]
    yield f"{what}: unnamed", lock.is_unnamed, true["kind"] == 4


def _tasks(
    space: AddressSpace, raw: dict[str, Any], teams: dict[int, Any], debug: bool
) -> Iterator[tuple[str, object, object]]:
    handles = {int(task.id, 16): task for task in space.queued_tasks()}
    for thread in space.threads():
        task = thread.current_task()
        while task is not None and int(task.id, 16) not in handles:
            handles[int(task.id, 16)] = task
            task = task.generating()
    known = {task["address"]: task for task in raw["tasks"]}
    for address in known.keys() - handles.keys():  # tasks left on a stack are found from other tasks
        for other in list(handles.values()):
            try:
                outer = other.scheduling()
            except OmpdError:
                break  # it keeps no scheduling tasks
            while outer is not None and int(outer.id, 16) not in handles:
                handles[int(outer.id, 16)] = outer
                outer = outer.scheduling() or outer.generating()
        if debug:
            yield f"task {address:#x}", address in handles, True
    for address, handle in handles.items():
        what, task = f"task {address:#x}", known.get(address)
        yield what, task is not None, True
        if task is None:
            continue
        yield f"{what} kind", handle.kind(), TASKS[task["type"]]
        # The stub's structures call a task that waits for dependences queued; only the program's other truth has its
        # wait.
        status = "queued" if handle.status() == "waiting" else handle.status()
        yield f"{what} status", status, STATUSES[task["status"]]
        generating = handle.generating()
        yield f"{what} generating", int(generating.id, 16) if generating else 0, task["generating"]
        on = handle.thread()
        begun = task["status"] in (2, 3)
        yield f"{what} thread", on.address if on else 0, task["thread"] if begun else 0
        region = handle.parallel()
        yield f"{what} parallel", region and int(region.id, 16), _parallel(teams, task["team"])
        yield f"{what} function", handle.function() or 0, task["function"]
        yield f"{what} final", handle.is_final(), bool(task["is_final"])
        icvs = task["icvs"]
        for name, key in (("max-active-levels-var", "max_active_levels"), ("thread-limit-var", "thread_limit")):
            yield f"{what} {name}", space.icv(name, handle), icvs[key]
        if not debug:
            kept = [task[key] for key in ("scheduling", *FRAME_FLAGS, "exit_frame_flags", "reenter_frame_flags")]
            yield f"{what} keeps nothing", kept, [0] * 5
            continue
        scheduling = handle.scheduling()
        yield f"{what} scheduling", int(scheduling.id, 16) if scheduling else 0, task["scheduling"]
        frames = dict(zip(FRAME_FLAGS, handle.frames(), strict=True))
        for name, frame in frames.items():
            yield f"{what} {name}", frame.address if frame else 0, task[name]
            flags = task[name.replace("runtime_frame", "frame_flags")]
            yield f"{what} flags of {name}", frame.flags if frame else 0, flags
            yield f"{what} true flags of {name}", flags, FRAME_FLAGS[name] if frame else 0
        yield f"{what} tool_data", handle.tool_data(), task["tool_data"]
