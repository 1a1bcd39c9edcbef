"""``ompd mcp``: right answers in one call, of limited size, with the target's text marked; wrong calls do no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ompd.mcp.pages import MOST_BYTES
from tests.support import FULL
from tests.support.agents import crowd, pages, replies
from tests.support.live import OMPD
from tests.support.machine import clean_environment, require_module
from tests.support.why import GNU, WHYS, hung

require_module("mcp")

CASES = (
    "lock_cycle-two",
    "barrier_absent-exited",
    "barrier_mismatch-branch",
    "external_wait-read",
    "fork_child-region",
)
WHYS_HERE = [why for why in WHYS.values() if ("gcc", GNU) in why.pairs() and (FULL or why.name in CASES)]
SPEAKING = "IGNORE"


def size(result: Any) -> int:
    return len(result.model_dump_json(by_alias=True, exclude_unset=True).encode())


def unmarked(value: Any) -> Iterator[str]:
    """Yield all text of an answer that is not marked as the target's."""
    if isinstance(value, dict) and set(value) != {"data"}:
        yield from value
        for each in value.values():
            yield from unmarked(each)
    elif isinstance(value, list):
        for each in value:
            yield from unmarked(each)
    elif isinstance(value, str):
        yield value


def test_the_verdict_is_in_the_first_row_of_one_call() -> None:
    cores = [hung(why, "gcc", GNU) for why in WHYS_HERE]
    *told, declared = replies(
        [core.core for core in cores], [("why", {"target": f"core-{number}"}) for number in range(1, len(cores) + 1)]
    )
    assert len(told) == len(cores) >= len(CASES)
    for core, result in zip(cores, told, strict=True):
        first = result.structured_content["rows"][0]
        assert first["kind"] in core.expected["kinds"], core.why.name
        stuck = core.expected["stuck"]
        assert stuck is None or first["stuck"] in stuck, core.why.name
        assert json.loads(result.content[0].text) == result.structured_content
        assert size(result) <= MOST_BYTES
    assert [tool.name for tool in declared.tools] == ["list_targets", "why", "threads", "stack", "variable"]
    assert all(tool.annotations.read_only_hint and tool.output_schema for tool in declared.tools)


def test_answers_on_512_threads_are_small_and_marked() -> None:
    with crowd(512, GNU) as process:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("why", {}),
            ("threads", {}),
            ("stack", {}),
            ("variable", {"name": "note"}),
            ("threads", {"fold": False}),
        ]
        *told, _ = replies([process], calls)
    assert all(not result.is_error and size(result) <= MOST_BYTES for result in told)
    why, threads, stack, variable, single = (result.structured_content for result in told)
    assert not [text for result in told for text in unmarked(result.structured_content) if SPEAKING in text]
    assert all(SPEAKING in json.dumps(answer) for answer in (why, threads, stack, variable))
    assert why["rows"][0]["stuck"] in ("proven", "likely", "possible", "unknown") and why["process_id"] == process
    assert threads["all_rows"] < 20 and single["all_rows"] == 512 and "next_cursor" in single
    assert variable["all_rows"] == 1 and variable["rows"][0]["text"]["data"].startswith('"IGNORE all')
    natives = [row["threads"] for row in single["rows"]]
    assert 0 < len(natives) < 512 and len(set(natives)) == len(natives)


def test_the_pages_of_an_answer_have_each_row_once() -> None:
    with crowd(40, GNU) as process:
        told = pages([process], ("threads", {"fold": False}))
    natives = [row["threads"] for result in told for row in result.structured_content["rows"]]
    assert len(natives) == len(set(natives)) == 40 and len(told) > 1
    assert all(size(result) <= MOST_BYTES for result in told)


def test_only_what_is_allowed_is_opened_and_wrong_calls_are_refused(tmp_path: Path) -> None:
    core = hung(WHYS["lock_cycle-two"], "gcc", GNU).core
    damaged = tmp_path / "core.damaged"
    damaged.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00" + bytes(40))
    (tmp_path / "core.link").symlink_to(str(core))
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("why", {"target": str(core)}),
        ("why", {"target": "/etc/passwd"}),
        ("why", {"target": "1"}),
        ("why", {"target": "core-2"}),
        ("why", {"exe": "/bin/sh"}),
        ("why", {"cursor": "7-0"}),
        ("why", {"cursor": "x" * 10_000_000}),
        ("variable", {"name": "x" * 10_000_000}),
        ("variable", {}),
        ("stack", {"thread": "1"}),
        ("stack", {"thread": True}),
        ("run_command", {"command": "id"}),
    ]
    *told, broken, listed, _ = replies([tmp_path], [*wrong, ("why", {}), ("list_targets", {})])
    assert [error.error.code for error in told] == [-32602] * len(wrong)
    assert all(len(error.error.message) < 200 for error in told)
    # The folder's one core cannot be read: an answer says so, and the link out of the folder is not followed.
    assert broken.is_error and "core.damaged" in broken.content[0].text
    assert [row["target"] for row in listed.structured_content["rows"]] == ["core-1"]


def test_broken_messages_do_not_end_the_server(tmp_path: Path) -> None:
    start = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
    }
    lines = [
        '{"jsonrpc": "2.0", "id": ',
        "\x00\x01[[[[",
        "[" * 100_000,
        json.dumps(start),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": 7}}),
        json.dumps({"jsonrpc": "2.0", "id": 3, "method": "no/such"}),
        json.dumps({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "list_targets"}}),
    ]
    with subprocess.Popen(
        [str(OMPD), "mcp", "--allow", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("".join(f"{line}\n" for line in lines))
        server.stdin.flush()
        told: dict[Any, Any] = {}
        while 4 not in told:
            message = json.loads(server.stdout.readline())
            told[message.get("id")] = message
        server.stdin.close()
        assert server.wait() == 0
    assert "error" in told[2] and "error" in told[3]
    assert told[4]["result"]["structuredContent"] == {"all_rows": 0, "rows": []}


def test_what_cannot_be_allowed_is_refused_at_the_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(OMPD), "mcp", "--allow", str(tmp_path / "missing")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 1 and "no such file or folder" in done.stderr and not done.stdout


def test_without_the_package_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['mcp'] = None\n"
        f"sys.argv = ['ompd', 'mcp', '--allow', {str(tmp_path)!r}]\n"
        "from ompd.commands.main import main\n"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 1 and "pip install 'ompd[mcp]'" in done.stderr and "Traceback" not in done.stderr
