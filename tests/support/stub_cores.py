"""Cores of programs on the stub, and defects of a plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ompd.contract.ompd import ThreadIdKind
from ompd.debugger.contract import ModuleCallbacks
from tests.support import Stopped, stopped

# Each runtime decides how many tasks it queues before it executes new ones at once. The expected numbers are for 200
# tasks.
SPECIAL: Mapping[str, Mapping[str, str]] = {"task_queued": {"TASKS": "200"}}


def on_stub(program: str, compiler: str = "gcc", mode: str = "debug", **options: Any) -> Stopped:
    env = {**SPECIAL.get(program, {}), **options.pop("env", {})}
    return stopped(program, compiler=compiler, mode=mode, env=env, **{"runtime": "stub", **options})


Defect = Callable[[ModuleCallbacks], Callable[..., Any]]


DEFECTS: Mapping[str, Defect] = {
    "find_symbol": lambda honest: lambda name, *, thread=None: ModuleCallbacks.find_symbol(honest, name) + 8,
    "read": lambda honest: lambda address, size: ModuleCallbacks.read(honest, address, size)[::-1],
    "read_string": lambda honest: lambda address, limit=4096: b"",
    "thread_for_id": lambda honest: (
        lambda kind, identifier: identifier & 0xFFFF if kind == ThreadIdKind.PTHREAD else identifier
    ),
    "to_host": lambda honest: lambda raw, unit_size: raw[::-1],
}
