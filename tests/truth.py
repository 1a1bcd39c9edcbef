"""Comparing an inspection with what the program itself wrote; see ``fixtures/programs/truth.h`` for the truth's keys.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ompd.model import ParallelRecord, ThreadRecord
from ompd.questions import regions, runtimes, threads
from ompd.session import Session
from tests.support import Stopped

# In mode "neither" nobody keeps states; the program knows in which construct it blocked each thread.
STATE_OF_CONSTRUCT = {
    "critical": "wait_critical",
    "lock": "wait_lock",
    "barrier": "wait_barrier_explicit",
    "implicit_barrier": "wait_barrier_implicit_parallel",
    "idle": "idle",
}


class Comparison:
    """Facts that were equal, by key, and differences as sentences."""

    def __init__(self) -> None:
        self.equal: Counter[str] = Counter()
        self.differences: list[str] = []

    def check(self, subject: str, key: str, ours: object, true: object) -> None:
        """Compare one fact; one that we do not tell is a difference unless the truth has none either."""
        if ours == true and type(ours) is type(true):
            self.equal[key] += 1
        else:
            self.differences.append(f"{subject}: {key} is {ours!r}, in truth {true!r}")


def compare(stopped: Stopped) -> Comparison:
    """Ask everything of a core and compare it with its truth."""
    found = Comparison()
    with Session.open_core(stopped.core) as session:
        thread_answer, region_answer, runtime_answer = threads.ask(session), regions.ask(session), runtimes.ask(session)
        for answer in (thread_answer, region_answer, runtime_answer):
            found.check("answer", "complete", answer.complete, True)
            found.differences += answer.warnings if not answer.complete else ()
        known = _compare_regions(found, session, stopped.truth["regions"], region_answer.rows)
        _compare_threads(found, stopped, thread_answer.rows, known)
        initialised = any(thread["openmp"] for thread in stopped.truth["threads"])
        (runtime,) = runtime_answer.rows
        found.check("runtime", "kind", runtime.kind, "libiomp5")
        if initialised:
            found.check("runtime", "keeps_states", runtime.keeps_states, stopped.mode != "neither")
            found.check("runtime", "layout", runtime.layout, "published")
        found.check("runtime", "dll_locations", runtime.dll_locations, ("libiomp5_db.so",) if initialised else None)
    return found


def _compare_regions(
    found: Comparison, session: Session, truth: list[dict[str, Any]], rows: tuple[ParallelRecord, ...]
) -> dict[int, str]:
    # Returns our id of each of the truth's regions.
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
        # With -g clang's code is in a function that the one with the entry calls; the name of both is the same but for
        # this.
        body = session.process.locate(int(region["code_address"], 16))
        if function is not None and "_debug__" not in (body.symbol or ""):
            found.check(subject, "address", function.address, body.symbol_address)
    return known


def _compare_threads(
    found: Comparison, stopped: Stopped, rows: tuple[ThreadRecord, ...], regions: dict[int, str]
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
            found.check(subject, "where.function", where and where.function, thread["where"]["function"])
            found.check(subject, "where.file", where and where.file and Path(where.file).name, thread["where"]["file"])
            if thread["where"]["line"] is not None:
                found.check(subject, "where.line", where and where.line, thread["where"]["line"])
        elif thread["role"] == "idle":
            found.check(subject, "where", row.where, None)


def _compare_state(
    found: Comparison, subject: str, stopped: Stopped, row: ThreadRecord, thread: dict[str, Any]
) -> None:
    idle = thread["role"] == "idle"
    if idle:
        # What the runtime keeps for a thread that left its team for good is the state of that team's last barrier.
        found.check(subject, "state", row.state, "idle")
    elif stopped.mode == "neither":
        working = "work_parallel" if thread["level"] else "work_serial"
        state = STATE_OF_CONSTRUCT.get(thread["blocked_in"], working)
        if state == "wait_barrier_explicit" and stopped.compiler == "gcc":
            state = "wait_barrier"  # gcc's code calls the same routine for implicit ones
        found.check(subject, "state", row.state, state)
    else:
        found.check(subject, "state", row.state, thread["state"])
        found.check(subject, "wait_id", f"{row.wait_id:#x}" if row.wait_id is not None else None, thread["wait_id"])
    if not idle:
        found.check(subject, "state_source", row.state_source, "derived" if stopped.mode == "neither" else "runtime")
