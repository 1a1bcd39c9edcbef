"""Compare the answers about a 32-bit core or process with the records of its threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ompd.contract.callbacks import TypeSizes
from ompd.contract.ompd import ThreadIdKind
from ompd.debugger.process import StoppedProcess
from ompd.errors import BadInput, NoAnswer
from ompd.inspection import Inspection
from ompd.model import Answer, StackRecord, VariableRecord

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "GIVEN": "at the start", "EMPTY": ""}
NATIVE_SIZES = TypeSizes(1, 2, 4, sizeof_long=4, sizeof_long_long=8, sizeof_pointer=4)
GLOBALS = {
    "an_int": -5,
    "a_long": -123456789,
    "an_unsigned": 4000000000,
    "a_long_long": 1 << 40,
    "a_double": 1.5,
    "a_long_double": 2.25,
    "a_pair": {"first": 97, "second": -2, "third": 0.5, "fourth": 3, "fifth": 5},
}


def check_stacks(answer: Answer[StackRecord], truth: Mapping[str, Any]) -> None:
    """Check that each thread's frames in the program are those that the thread noted, with their lines."""
    rows = {row.native_thread_id: row for row in answer.rows}
    assert rows.keys() == {thread["id"] for thread in truth["threads"]}
    for thread in truth["threads"]:
        row = rows[thread["id"]]
        assert row.stopped is None
        told = [[f.function, f.line] for f in row.frames if f.file is not None and f.file.endswith("program.c")]
        assert told == thread["frames"], thread["name"]
        signals = [frame for frame in row.frames if frame.signal]
        assert len(signals) == (thread["name"] in ("signal", "fault"))
        names = [frame.function for frame in row.frames]
        waits = {"mutex": "pthread_mutex_lock", "condition": "pthread_cond_wait", "main": "pause"}
        assert waits.get(thread["name"], "run" if thread["name"] != "main" else "main") in str(names)


def value_of(name: str, number: int) -> object:
    return {
        "own_int": 100 + number,
        "own_long_long": -(1 << 40) - number,
        "own_static": number + 0.5,
        "own_aligned": chr(ord("A") + number) + "b",
        "own_zeroed": [0] * 99 + [number],
        "opened": 1000 + number,
    }[name]


def check_variables(session: Inspection, truth: Mapping[str, Any], mechanism: str, *, opened: bool) -> None:
    """Check that each variable has the address and the value that each thread noted."""
    compared = 0
    for name, value in GLOBALS.items():
        for row in session.ask_var(name).rows:
            assert (row.address, row.value, row.mechanism) == (truth["globals"][name], value, "global")
            compared += 1
    for row in session.ask_var("a_pointer").rows:
        assert row.value == f"{truth['globals']['an_int']:#x}"
    for name in truth["threads"][0]["addresses"]:
        if name == "opened" and not opened:
            with pytest.raises(NoAnswer):
                session.ask_var(name)
            continue
        answer = session.ask_var(name)
        assert answer.complete, answer.warnings
        rows: dict[int | None, VariableRecord] = {row.native_thread_id: row for row in answer.rows}
        assert rows.keys() == {thread["id"] for thread in truth["threads"]}
        for thread in truth["threads"]:
            row, address = rows[thread["id"]], thread["addresses"][name]
            assert row.mechanism == mechanism and not row.unavailable
            value = None if address is None else value_of(name, thread["number"])
            assert (row.address, row.value) == (address, value), (name, thread)
            compared += 1
    assert compared == len(truth["threads"]) * (len(GLOBALS) + 5 + opened)


def check_process(process: StoppedProcess, truth: Mapping[str, Any], *, no_keys: Sequence[int] = (1024, -1)) -> None:
    """Check all other generic facts.

    :param no_keys: numbers that are no POSIX thread keys; a snapshot lacks the data to reject all of them
    """
    assert process.contract.type_sizes() == NATIVE_SIZES
    sizes, names = truth["sizes"], ("char", "short", "int", "long", "long long", "pointer")
    fields = ("sizeof_char", "sizeof_short", "sizeof_int", "sizeof_long", "sizeof_long_long", "sizeof_pointer")
    assert [getattr(NATIVE_SIZES, field) for field in fields] == [sizes[name] for name in names]
    assert (process.memory.pointer_size, process.memory.byte_order, process.target.architecture.name) == (
        4,
        "little",
        "i386",
    )
    pair = process.types.find("pair")
    assert process.contract.sizeof(pair) == truth["pair"]["size"]
    for member in ("second", "third", "fourth"):
        assert process.contract.field_offset(pair, member) == truth["pair"][member]
    assert process.environment.at_start() == ENVIRONMENT
    assert set(process.threads.ids()) == {thread["id"] for thread in truth["threads"]}
    states = {}
    for thread in truth["threads"]:
        native = thread["id"]
        assert process.threads.thread_pointer(native) == thread["pthread"]
        assert process.threads.thread_for_id(ThreadIdKind.PTHREAD, thread["pthread"]) == native
        for key, value in zip(truth["keys"], thread["keys"], strict=True):
            assert process.storage.key_value(native, key) == (value or None)
        for key in no_keys:
            with pytest.raises(BadInput):
                process.storage.key_value(native, key)
        states[thread["name"]] = process.waiting.progress(native)
    waits = {"mutex": "blocked", "condition": "blocked", "time": "blocked", "semaphore": "blocked", "main": "blocked"}
    assert {name: states[name] for name in waits} == waits
    assert states["yield"] == states["spin"] == "spinning"
