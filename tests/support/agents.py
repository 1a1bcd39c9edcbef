"""A client of ``ompd mcp``, by the SDK's own classes, and a program to look at."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support.cache import CHECKOUT
from tests.support.live import OMPD, build_live
from tests.support.machine import clean_environment, require_module
from tests.support.runs import READY_SECONDS, can_be_read

CROWD = CHECKOUT / "tests" / "mcp"
Call = tuple[str, dict[str, Any]]


def replies(allow: Sequence[object], calls: Sequence[Call]) -> list[Any]:
    """Return what one server answers to calls of tools: results, or the errors of the protocol."""
    return asyncio.run(_replies(allow, calls))


def pages(allow: Sequence[object], call: Call) -> list[Any]:
    """Return all pages of an answer."""
    return asyncio.run(_replies(allow, [call], follows=True))[:-1]


async def _replies(allow: Sequence[object], calls: Sequence[Call], *, follows: bool = False) -> list[Any]:
    client = require_module("mcp.client.client")
    stdio = require_module("mcp.client.stdio")
    errors = require_module("mcp.shared.exceptions")
    words = [word for each in allow for word in ("--allow", str(each))]
    server = stdio.StdioServerParameters(command=str(OMPD), args=["mcp", *words], env=clean_environment())
    told: list[Any] = []
    async with client.Client(stdio.stdio_client(server)) as session:
        for name, arguments in calls:
            try:
                told.append(await session.call_tool(name, arguments))
            except errors.MCPError as error:
                told.append(error)
            while follows and (cursor := told[-1].structured_content.get("next_cursor")) is not None:
                told.append(await session.call_tool(name, {"cursor": cursor}))
        told.append(await session.list_tools())
    return told


@contextmanager
def crowd(threads: int, runtime: str) -> Iterator[int]:
    """Run ``tests/mcp/crowd.c`` until its threads are where they stay; the value is its process."""
    program = build_live("crowd", runtime=runtime, folder=CROWD)
    with subprocess.Popen([str(program), str(threads)], stdout=subprocess.PIPE, env=clean_environment()) as process:
        try:
            assert process.stdout is not None
            output = process.stdout.fileno()
            assert can_be_read(output, READY_SECONDS) and os.read(output, 1) == b"r"
            yield process.pid
        finally:
            process.kill()
