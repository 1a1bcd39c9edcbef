"""Editors: with the arguments of ``docs/editors.md``, debug adapters do what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ompd.commands.setup.start_files import DEBUGGERS
from tests.support import stopped
from tests.support.cache import CHECKOUT
from tests.support.dap import DebugAdapter
from tests.support.gdb import NEXT, gdb
from tests.support.lldb import build_regions, lldb
from tests.support.products import each_version

pytestmark = pytest.mark.xdist_group("lldb")

PAGE = (CHECKOUT / "docs" / "editors.md").read_text()
LAUNCH, ATTACH = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
(LUA,) = re.findall(r"```lua\n(.*?)```", PAGE, re.DOTALL)
FOLDER = str(DEBUGGERS["LLDB"].script.parent)


def placed(value: Any, **files: Path) -> Any:
    """Return the page's arguments, with files of this machine."""
    text = json.dumps(value).replace("/path/of/ompd", FOLDER)
    for name, file in files.items():
        text = text.replace("${workspaceFolder}/" + name.replace("_", "."), str(file))
    return json.loads(text)


@contextmanager
def begun(adapter: DebugAdapter, arguments: dict[str, Any], function: str | None) -> Iterator[list[dict[str, Any]]]:
    """Begin as an editor does, and yield the threads at the first stop."""
    adapter.ask("initialize", adapterID="test", linesStartAt1=True)
    started = adapter.send(arguments["request"], **arguments)
    adapter.event("initialized")
    if function is not None:
        adapter.ask("setFunctionBreakpoints", breakpoints=[{"name": function}])
    adapter.ask("configurationDone")
    adapter.response(started)
    # The first answer is not used: lldb-dap 20 and later return the threads of the program's start, and gdb refuses
    # while the program runs.
    adapter.answered(adapter.send("threads"))
    if function is not None:
        adapter.event("stopped")
    yield adapter.ask("threads")["threads"]
    adapter.ask("disconnect", terminateDebuggee=True)


def frames(adapter: DebugAdapter, threads: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    (thread,) = [thread["id"] for thread in threads if thread["name"] == name]
    return list(adapter.ask("stackTrace", threadId=thread)["stackFrames"])


def typed(adapter: DebugAdapter, text: str) -> str:
    return str(adapter.ask("evaluate", expression=text, context="repl")["result"])


@each_version(of=(22, 19))
def test_an_editor_with_lldb_names_threads(version: int, tmp_path: Path) -> None:
    found = lldb(version)
    arguments = placed(LAUNCH, a_out=build_regions() / "regions")
    if version < 20:
        arguments["env"] = [f"{name}={value}" for name, value in arguments["env"].items()]
    with (
        DebugAdapter([str(found.binaries / "lldb-dap")], cwd=tmp_path, env=found.environment) as adapter,
        begun(adapter, arguments, "together") as threads,
    ):
        assert {"OMP 0/2", "OMP 1/2"} <= {thread["name"] for thread in threads}
        assert {thread["name"] for thread in threads} <= {"OMP 0/2", "OMP 1/2", "OMP pool"}
        shown = frames(adapter, threads, "OMP 0/2")
        assert "together" in shown[0]["name"]
        subtle = [frame["name"] for frame in shown if frame.get("presentationHint") == "subtle"]
        assert any("__kmp" in name for name in subtle) == (version >= 20)
        assert "regions.c:" in typed(adapter, "omp threads") and "OMP" in typed(adapter, "`ompd threads")


def test_an_editor_with_lldb_names_the_threads_of_a_core(tmp_path: Path) -> None:
    core, found = stopped("hang"), lldb(22)
    arguments = placed(ATTACH, a_out=core.executable, core_1234=core.core)
    with (
        DebugAdapter([str(found.binaries / "lldb-dap")], cwd=tmp_path, env=found.environment) as adapter,
        begun(adapter, arguments, None) as threads,
    ):
        names = sorted(thread["name"] for thread in threads)
        # A core has no names of threads.
        assert names == [*(f"OMP {number}/4" for number in range(4)), f"thread {core.truth['monitor']}"]


def test_an_editor_with_gdb_names_threads_and_hides_the_runtime(tmp_path: Path) -> None:
    found = gdb(NEXT)
    (words,) = re.findall(r"args = \{ (.*?) \}", LUA)
    options = placed(json.loads(f"[{words}]"))
    arguments = placed(LAUNCH, a_out=build_regions() / "regions")
    del arguments["initCommands"], arguments["customThreadFormat"]  # not in the page's configuration for gdb
    with (
        DebugAdapter([*found.command, "-nx", *options], cwd=tmp_path, env=found.environment) as adapter,
        begun(adapter, arguments, "together") as threads,
    ):
        assert {"OMP 0/2", "OMP 1/2"} <= {thread["name"] for thread in threads}
        names = [frame["name"] for frame in frames(adapter, threads, "OMP 0/2")]
        assert names[0] == "together" and re.fullmatch(r"work \[body of parallel regions\.c:\d+\]", names[1])
        assert names[-1] == "main" and not any("kmp" in name for name in names)
        assert "  GDB  " in typed(adapter, "omp threads") and "regions.c:" in typed(adapter, "omp threads")
        # A name given by the user stays, and the other names follow the threads.
        (other,) = [thread["id"] for thread in threads if thread["name"] == "OMP 1/2"]
        typed(adapter, f"thread apply {other} thread name mine")
        adapter.ask("continue", threadId=threads[0]["id"])
        adapter.event("stopped")
        later = {thread["id"]: thread["name"] for thread in adapter.ask("threads")["threads"]}
        assert later[other] == "mine" and "OMP 0/3" in later.values()


def test_the_configurations_for_neovim_are_those_of_the_page() -> None:
    for name in ("request", "program", "customThreadFormat"):
        assert f'{name} = "{LAUNCH[name]}"' in LUA
    assert f'initCommands = {{ "{LAUNCH["initCommands"][0]}" }}' in LUA
    assert LUA.count('env = { OMP_DEBUG = "enabled" }') == 2
