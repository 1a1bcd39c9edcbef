"""The commands as people use them: typed and completed with TAB at LLDB's prompt, and in an editor's console."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import stopped
from tests.support.dap import DebugAdapter
from tests.support.live import status_of, wait_until
from tests.support.lldb import LOAD, build_regions, lldb, target_create
from tests.support.lldb_replies import replies
from tests.support.products import each_version
from tests.support.terminal import Terminal

pytestmark = pytest.mark.xdist_group("lldb")

TAB = "\t"


def prompt(version: int, folder: Path, *arguments: str) -> Terminal:
    found = lldb(version)
    # LLDB draws its progress at any time, and LLDB 22 also a line at the bottom of the screen.
    quiet = ["-o", "settings set show-progress false"] if version >= 19 else []
    quiet += ["-o", "settings set show-statusline false"] if version >= 20 else []
    environment = {**found.environment, "TERM": "xterm", "HOME": str(folder)}
    return Terminal([found.command, "-x", *quiet, "-o", LOAD, *arguments], cwd=folder, env=environment)


@each_version()
def test_commands_are_completed_with_tab(version: int, tmp_path: Path) -> None:
    with prompt(version, tmp_path) as terminal:
        terminal.wait_for(r"lldb_script\.py\"?\n")  # in quotes if the checkout's path has a space
        terminal.type("ompd " + TAB)
        listed = terminal.wait_for(r"threads +-- .*\n")
        for name in ("auto", "bt", "icvs", "parallel", "runtimes", "status", "tasks", "thread"):
            assert re.search(rf"\s{name} ", listed), listed
        terminal.type("ic" + TAB)
        terminal.wait_for(r"icvs|vs")
        if version >= 19:  # before, LLDB completes no options of script commands
            terminal.type(" --" + TAB)
            listed = terminal.wait_for(r"Available completions:\n(.*\n)+\(lldb\) ")
            for option in ("all", "changed", "debug", "help", "json", "verbose"):
                assert f"--{option} " in listed
            terminal.type("ch" + TAB)
        terminal.type("\n")
        terminal.wait_for(r"error: ompd: there is no process\n")
        terminal.type("omp stat" + TAB + "\n")
        terminal.wait_for(r"process +there is no process\n")


def test_numbers_of_threads_are_completed() -> None:
    # LLDB 19 and before complete no words of script commands.
    core = stopped("hang")

    def complete(text: str) -> str:
        length = len(text)
        asked = f"lldb.debugger.GetCommandInterpreter().HandleCompletion('{text}', {length}, 0, -1, found)"
        return f"script found = lldb.SBStringList(); {asked}; print([found.GetStringAtIndex(n) for n in range(9)][1:])"

    texts = [f"ompd {words}" for words in ("thread ", "stack --thread ", "print --thread ", "break x --thread ")]
    told = replies(22, target_create(core.executable, core.core), *map(complete, [*texts, "ompd stack --thread 1"]))
    for text in texts:
        assert "['0', '1', '2', '3', " in told[complete(text)], text
    assert "['1', " in told[complete("ompd stack --thread 1")]


@each_version()
def test_a_running_process_has_its_words(version: int, tmp_path: Path) -> None:
    with prompt(version, tmp_path, "/bin/sleep") as terminal:
        terminal.wait_for(r"executable set to .*\n")
        terminal.type("process launch --no-stdio -- 60\n")
        process = re.search(r"Process (\d+) launched: .*\n", terminal.wait_for(r"launched: .*\n"))
        assert process is not None
        # LLDB prints this before it lets the process run.
        wait_until(lambda: status_of(int(process[1]), "State") == ["S (sleeping)"])
        terminal.type("ompd threads\n")
        terminal.wait_for(r"error: ompd: process \d+ is running\nompd: stop it first: process interrupt\n")
        terminal.type("process interrupt\n")
        # Under load LLDB omits the reason of the stop.
        terminal.wait_for(r"Process \d+ stopped\n")
        terminal.type("ompd threads\n")
        terminal.wait_for(r"error: ompd: process \d+: no OpenMP runtime among its")


@each_version(of=(22, 19))
@pytest.mark.quick()
def test_the_console_of_an_editor_on_a_live_program(version: int, tmp_path: Path) -> None:
    found = lldb(version)
    with DebugAdapter([str(found.binaries / "lldb-dap")], cwd=tmp_path, env=found.environment) as adapter:
        adapter.ask("initialize", adapterID="lldb-dap", linesStartAt1=True)
        launched = adapter.send(
            "launch",
            program=str(build_regions() / "regions"),
            env=["OMP_DEBUG=enabled"] if version < 20 else {"OMP_DEBUG": "enabled"},
            initCommands=[LOAD],
        )
        adapter.event("initialized")
        adapter.ask("setFunctionBreakpoints", breakpoints=[{"name": "together"}])
        adapter.ask("configurationDone")
        adapter.response(launched)
        thread = adapter.event("stopped")["threadId"]
        frames = adapter.ask("stackTrace", threadId=thread)["stackFrames"]

        def typed(text: str) -> str:
            answer = adapter.ask("evaluate", expression=text, context="repl", frameId=frames[0]["id"])
            return str(answer["result"])

        for command in ("`ompd threads", "omp threads"):
            shown = typed(command)
            assert "OMP" in shown and "  LLDB  " in shown and "regions.c:" in shown
        assert "runtime   libiomp5" in typed("`ompd status")
        assert "error: ompd: the team has 2 threads" in typed("`ompd thread 9")
        if version >= 20:  # before, the adapter completes no commands
            targets = adapter.ask("completions", text="`ompd th", column=9, frameId=frames[0]["id"])["targets"]
            assert {"thread", "threads"} <= {target["label"].split(" --")[0].strip() for target in targets}
        adapter.ask("disconnect", terminateDebuggee=True)


@each_version(of=(22, 19))
def test_the_console_of_an_editor_on_a_core(version: int, tmp_path: Path) -> None:
    core, found = stopped("hang"), lldb(version)
    with DebugAdapter([str(found.binaries / "lldb-dap")], cwd=tmp_path, env=found.environment) as adapter:
        adapter.ask("initialize", adapterID="lldb-dap", linesStartAt1=True)
        attached = adapter.send("attach", program=str(core.executable), coreFile=str(core.core), initCommands=[LOAD])
        adapter.event("initialized")
        adapter.ask("configurationDone")
        adapter.response(attached)
        shown = str(adapter.ask("evaluate", expression="`ompd threads", context="repl")["result"])
        assert "lock &progress_lock" in shown
