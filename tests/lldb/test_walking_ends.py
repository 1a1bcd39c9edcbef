"""Steps that end before they arrive: nothing that was made for them is left in the debugger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import FULL
from tests.support.gdb import LOAD as LOAD_IN_GDB
from tests.support.gdb import Replies as GdbReplies
from tests.support.gdb import batch, gdb, open_program
from tests.support.live import wait_until
from tests.support.lldb import LOAD as LOAD_IN_LLDB
from tests.support.lldb import batch as lldb_batch
from tests.support.lldb import lldb, target_create
from tests.support.lldb_replies import Replies as LldbReplies
from tests.support.products import each_gdb, each_version
from tests.support.terminal import Terminal
from tests.support.walking import ENDS, build_ends, line_of

LEFT, AFTER = line_of("mine += leave", ENDS), line_of("sum += mine", ENDS)
# By the program's argument: the report of the step, in both debuggers.
SAID = {  # an LLDB may lose its server when the program exits
    "exit": r"ompd: the program ended( with status 3)? before it came to the next line",
    "fault": r"stopped by (signal )?SIGSEGV.* before it came to the next line",
    "signal": r"stopped by (signal )?SIGTERM before it came to the next line",
    "abort": r"stopped by (signal )?SIGABRT before it came to the next line",
    "throw": rf"ends\.cc:{AFTER}|^{AFTER}\s",
}


def in_gdb(name: str, how: str, *commands: str, cwd: Path = Path("/tmp")) -> GdbReplies:
    return batch(gdb(name), [LOAD_IN_GDB, open_program(build_ends()), f"set args {how}", *commands], cwd=cwd)


def in_lldb(version: int, how: str, *commands: str) -> LldbReplies:
    first = (LOAD_IN_LLDB, target_create(build_ends()), f"settings set target.run-args {how}")
    return LldbReplies(lldb_batch(lldb(version), [*first, *commands], cwd=Path("/tmp")))


def listed_by_gdb(text: str) -> list[str]:
    """Return the user's and our breakpoints, without gdb's own for events and its steps."""
    # Breakpoints of a step that gdb has not ended have no number: the process may have ended, which gdb has yet to
    # notice.
    text = re.sub(r"^0(\.\d+)? .*\n(\t.*\n)*", "", text, flags=re.MULTILINE)
    own = re.compile(r"^-\d+(\.\d+)? .*(shlib events|master|\by- )")
    lines = [re.sub(r"0x\w+", "", line) for line in text.splitlines() if re.match(r"-?\d|\tstop", line)]
    return [line for line in lines if not own.match(line) and not re.match(r"-\d+\.1 ", line)]


def listed_by_lldb(text: str) -> list[str]:
    """Return the breakpoints that LLDB lists, without hit counts, places and their resolution."""
    lines = re.findall(r"^ *\d+(?:\.\d+)?: .*$", text, re.MULTILINE)
    return [re.sub(r"0x\w+|hit count = \d+|(un)?resolved|, resolved = \d+|where = |address = .*", "", x) for x in lines]


@pytest.mark.xdist_group("gdb")
@each_gdb()
@pytest.mark.quick()
def test_nothing_is_left_in_gdb(found: str) -> None:
    look = ("maint info breakpoints{0}", "omp next{0}", "maint info  breakpoints{0}")
    asked = [
        part.format(number * " ")
        for number, how in enumerate(SAID)
        for part in (f"set args {how}", "run", *look, "kill")
    ]
    told = in_gdb(
        found, "", f"omp break ends.cc:{LEFT} --thread 1", "break thrown if 0", *asked, "show scheduler-locking"
    )
    for number, how in enumerate(SAID):
        before, step, after = (told[part.format(number * " ")] for part in look)
        assert re.search(SAID[how], step, re.MULTILINE), step
        assert len(listed_by_gdb(before)) >= 5 and listed_by_gdb(after) == listed_by_gdb(before), how
    assert "replay" in told["show scheduler-locking"]


@pytest.mark.xdist_group("lldb")
@each_version()
def test_nothing_is_left_in_lldb(version: int) -> None:
    look = ("run", "breakpoint list", "ompd next", "breakpoint list")
    asked = [part for how in SAID for part in (f"settings set target.run-args {how}", *look, "process kill")]
    told = in_lldb(
        version,
        "",
        *(f"ompd break ends.cc:{LEFT} --thread 1", "breakpoint set -n leave -c 0", *asked),
        "script print(lldb.debugger.GetAsync())",
    )
    lists = told.all("breakpoint list")
    for how, step, before, after in zip(SAID, told.all("ompd next"), lists[::2], lists[1::2], strict=True):
        assert re.search(SAID[how], step, re.MULTILINE), step
        assert len(listed_by_lldb(before)) == 4 and listed_by_lldb(after) == listed_by_lldb(before), how
        assert "tid" not in after
    # The debugger is synchronous, as in any script. LLDB may report only now that the process has ended.
    assert "False" in told["script print(lldb.debugger.GetAsync())"].splitlines()


# Ctrl-C, where people type it


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_ctrl_c_ends_steps_in_gdb(found: str, tmp_path: Path) -> None:
    here = gdb(found)
    command = [*here.command, "-nx", "-q", "-ex", LOAD_IN_GDB, "-ex", "set args forever", str(build_ends())]
    source, stop = f"directory '{ENDS.parent}'", f"omp break ends.cc:{LEFT} --thread 1"
    quiet = [word for each in ("set confirm off", "set pagination off", source, stop) for word in ("-ex", each)]
    environment = {**here.environment, "TERM": "xterm"}
    with Terminal([*command, *quiet, "-ex", "run"], cwd=tmp_path, env=environment) as terminal:
        terminal.wait_for(r"hit Breakpoint 1, (.|\n)*\(gdb\) ")
        terminal.type("maint info breakpoints\n")
        before = listed_by_gdb(terminal.wait_for(r"\(gdb\) "))
        terminal.type("omp next\n")
        wait_until((tmp_path / "goes_on").exists)
        terminal.type("\x03")
        shown = terminal.wait_for(r"stopped by SIGINT before it came to the next line\n(.|\n)*\(gdb\) ")
        assert "x1b" not in shown
        # The step's thread, number 1, is selected again, whichever thread took the signal.
        terminal.type("omp thread\nframe function leave\nomp thread\n")
        assert "x1b" not in terminal.wait_for(r"(OpenMP thread 1/3 at level 1(.|\n)*){2}leave \(how=")
        terminal.type("set var go_on = 0\nomp finish\n")
        terminal.wait_for(r"the region ends\.cc:\d+ has ended(.|\n)*\(gdb\) ")
        terminal.type("maint info breakpoints\n")
        assert listed_by_gdb(terminal.wait_for(r"breakpoint already hit(.|\n)*\(gdb\) ")) == before


@pytest.mark.xdist_group("lldb")
@each_version()
def test_ctrl_c_ends_steps_in_lldb(version: int, tmp_path: Path) -> None:
    here = lldb(version)
    quiet = ["-o", "settings set show-progress false"] if version >= 19 else []
    quiet += ["-o", "settings set show-statusline false"] if version >= 20 else []
    first = ("-o", LOAD_IN_LLDB, "-o", "settings set target.run-args forever")
    stop = ("-o", f"ompd break ends.cc:{LEFT} --thread 1", "-o", "run")
    environment = {**here.environment, "TERM": "xterm"}
    with Terminal(
        [here.command, "-x", *quiet, *first, *stop, str(build_ends())], cwd=tmp_path, env=environment
    ) as terminal:
        terminal.wait_for(rf"stop reason = breakpoint(.|\n)*ends\.cc:{LEFT}")
        for command, what in (("ompd next", "the next line"), ("ompd finish", "the end of the region")):
            (tmp_path / "goes_on").unlink(missing_ok=True)
            terminal.type(f"{command}\n")
            wait_until((tmp_path / "goes_on").exists)
            terminal.type("\x03")
            shown = terminal.wait_for(rf"stopped by Ctrl-C before it came to {what}.*\n(.|\n)*frame #0: .*\n")
            assert "x1b" not in shown
        terminal.type("ompd thread\n")
        terminal.wait_for(r"OpenMP thread 1/3 at level 1")
        terminal.type("expression go_on = 0\n")
        terminal.wait_for(r"= 0\n")
        terminal.type("ompd finish\n")
        terminal.wait_for(r"the region ends\.cc:\d+ has ended")
        terminal.type("breakpoint list\n")
        shown = terminal.wait_for(r"Current breakpoints:\n(.|\n)*\n +\d+\.1: .*\n")
        assert len(listed_by_lldb(shown)) == 2 and "tid" not in shown
        # LLDB's own handler is back: it begins a new line at the prompt.
        terminal.type("\x03")
        terminal.wait_for(r"\^C\n(.|\n)*\(lldb\) ")  # earlier input is lost
        terminal.type("ompd finish\n")
        terminal.wait_for(r"is in no region or task")


# Ctrl-C between any two lines of the code that makes and removes breakpoints

INTERRUPT = """
import sys
class Interrupting:
    def __init__(self, number):
        self.left = number
    def __call__(self, frame, event, _argument):
        code = frame.f_code
        if not code.co_filename.endswith("gdb/running.py") or code.co_name not in ("undo", "__init__"):
            return self
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self
def interrupted(number):
    tracer = Interrupting(number)
    sys.settrace(tracer)
    try:
        gdb.execute("omp next", to_string=True)
    except gdb.error as error:
        print(error)
    finally:
        sys.settrace(None)
    return tracer.left <= 0
"""


@pytest.mark.xdist_group("gdb")
@each_gdb()
def test_ctrl_c_between_any_two_lines_leaves_nothing_in_gdb(found: str, tmp_path: Path) -> None:
    file = tmp_path / "interrupt.py"
    file.write_text(INTERRUPT)
    numbers = range(1, 40) if FULL else range(2, 40, 6)
    asked = [part for n in numbers for part in (f"python print(interrupted({n}))", f"maint info breakpoints{n * ' '}")]
    told = in_gdb(
        found,
        "forever",
        *(f"source {file}", f"omp break ends.cc:{LEFT} --thread 1", "run", f"tbreak {line_of('usleep', ENDS)}"),
        *("continue", "break thrown if 0", "maint info breakpoints", *asked, "kill"),
        cwd=tmp_path,
    )
    before = listed_by_gdb(told["maint info breakpoints"])
    seen = [number for number in numbers if "True" in told[f"python print(interrupted({number}))"]]
    assert len(before) >= 5 and len(seen) >= 4
    for number in numbers:
        assert listed_by_gdb(told[f"maint info breakpoints{number * ' '}"]) == before, number
        if number in seen:
            assert "ompd: interrupted" in told[f"python print(interrupted({number}))"]
