"""A process with LLDB as a library: it reads questions and writes answers, each as a line of JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import ompd
import ompd.questions.why as questions_why
from ompd.debugger.files.finder import FileFinder
from ompd.debugger.targets.lldb.loading import load_lldb
from ompd.debugger.targets.lldb.target import LldbTarget
from ompd.errors import OmpdError
from ompd.model.stalls import SystemWait
from ompd.questions.why.system import system_wait
from ompd.render.json import format_answer
from ompd.session import Session
from tests.support.runs import Stopped
from tests.support.verdicts import in_short
from tests.truth import compare_session

COMMANDS = ("runtimes", "threads", "parallel", "tasks", "icvs")


def compare(question: dict[str, Any]) -> dict[str, Any]:
    """Open the question's core or attach to its process, and compare all answers with the truth in the question."""
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    try:
        target = debugger.CreateTarget(question["executable"])
        if "core" in question:
            process = target.LoadCore(question["core"])
        else:
            error = lldb.SBError()
            process = target.AttachToProcessWithID(debugger.GetListener(), question["pid"], error)
            assert error.Success(), error.GetCString()
        stopped = Stopped(
            Path(question["executable"]),
            Path(question.get("core", "")),
            question["truth"],
            question["program"],
            question["compiler"],
            question["mode"],
            "lldb",
            question["runtime"],
        )
        try:
            with ompd.from_lldb(process) as session:
                found = compare_session(stopped, session)
            answers = {}
            for name in COMMANDS:  # data that one answer loads must not affect the next
                with ompd.from_lldb(process) as session:
                    answers[name] = json.loads(format_answer(name, getattr(session, f"ask_{name}")()))
        finally:
            process.Detach()
        version = debugger.GetVersionString()
        return {"differences": found.differences, "equal": found.equal, "answers": answers, "version": version}
    finally:
        lldb.SBDebugger.Destroy(debugger)


def say(ask: Callable[[], object]) -> str:
    """Return the class and text of the error that *ask* raises, with its hint."""
    try:
        ask()
    except OmpdError as error:
        return f"{type(error).__name__}: {error}; {error.hint}".removesuffix("; ")
    return "no error"


def launch(lldb: Any, target: Any, flags: int = 0) -> Any:
    """Start a program without output and return its process."""
    info = lldb.SBLaunchInfo(None)  # the launch changes it
    info.SetEnvironmentEntries(["OMP_NUM_THREADS=2"], False)
    info.AddOpenFileAction(1, "/dev/null", False, True)
    info.SetLaunchFlags(flags)
    error = lldb.SBError()
    process = target.Launch(info, error)
    assert error.Success(), error.GetCString()
    return process


def await_state(debugger: Any, process: Any, *states: int) -> None:
    """Handle events, as LLDB's command line does, until the process is in one of *states*."""
    event = load_lldb().SBEvent()
    while process.GetState() not in states:
        assert debugger.GetListener().WaitForEvent(10, event), f"no event in state {process.GetState()}"


def situations(question: dict[str, Any]) -> dict[str, str]:
    """Return the errors for a program in each state under LLDB."""
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    told = {}
    try:
        target = debugger.CreateTarget(question["executable"])
        told["no process"] = say(lambda: ompd.from_lldb(target.GetProcess()))
        target.BreakpointCreateByName(question["function"])
        process = launch(lldb, target)
        session = ompd.from_lldb(process)
        told["stopped"] = say(session.ask_threads)
        handles = [thread for runtime in session.runtimes if runtime.space for thread in runtime.space.threads()]
        process.GetSelectedThread().StepInstruction(False)
        told["has run"] = say(session.ask_parallel)
        told["handle"] = say(handles[0].thread_num) if handles else "no error"
        session.close()
        told["closed"] = say(session.ask_threads)
        debugger.SetAsync(True)
        target.DeleteAllBreakpoints()
        process.Continue()
        await_state(debugger, process, lldb.eStateRunning)
        told["running"] = say(lambda: ompd.from_lldb(process))
        process.Kill()
        await_state(debugger, process, lldb.eStateExited)
        debugger.SetAsync(False)
        told["killed"] = say(lambda: ompd.from_lldb(process))
        target.BreakpointCreateByName(question["function"])
        again = launch(lldb, target)
        told["again"] = say(ompd.from_lldb(again).ask_threads)
        told["the first, again"] = say(lambda: session.process.memory.read(0x1000, 8))
        again.Kill()
    finally:
        lldb.SBDebugger.Destroy(debugger)
    return told


def at_entry(question: dict[str, Any]) -> dict[str, str]:
    """Return the error for a program at its first instruction."""
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    try:
        target = debugger.CreateTarget(question["executable"])
        process = launch(lldb, target, lldb.eLaunchFlagStopAtEntry)
        said = say(lambda: ompd.from_lldb(process).ask_threads())
        process.Kill()
        return {"said": said}
    finally:
        lldb.SBDebugger.Destroy(debugger)


def detached(question: dict[str, Any]) -> dict[str, str]:
    """Return the error for a program after LLDB has detached."""
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    try:
        target = debugger.CreateTarget(question["executable"])
        target.BreakpointCreateByName("main")
        process = launch(lldb, target)
        target.DeleteAllBreakpoints()
        number = process.GetProcessID()
        try:
            process.Detach()
            # LLDB may report a detached process as exited.
            await_state(debugger, process, lldb.eStateDetached, lldb.eStateExited)
        finally:
            os.kill(number, signal.SIGKILL)
        return {"said": say(lambda: ompd.from_lldb(process))}
    finally:
        lldb.SBDebugger.Destroy(debugger)


def why(question: dict[str, Any]) -> dict[str, Any]:
    """Return the verdicts on a core in short form."""
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    try:
        process = debugger.CreateTarget(question["executable"]).LoadCore(question["core"])
        with ompd.from_lldb(process) as session:
            return {"verdicts": [in_short(row) for row in questions_why.ask(session).rows]}
    finally:
        lldb.SBDebugger.Destroy(debugger)


def plain(session: Any) -> Any:
    """Return the rows of ``threads`` in JSON."""
    return json.loads(format_answer("threads", session.ask_threads()))["threads"]


def run(question: dict[str, Any]) -> dict[str, Any]:
    """Run a program to one place after another, and return the threads at each place."""
    stops = []
    with ompd.launch(question["program"]) as session:
        number = session.stop.record.process_id
        old = session.process
        for place in question["places"]:
            event = session.step_into_region() if place == "INTO" else session.continue_to(place)
            stops.append({"event": event.name, "thread": event.native_thread_id, "threads": plain(session)})
        stale = say(lambda: old.memory.read(session.target.auxiliary_vector()[25], 8))
    return {"stops": stops, "stale": stale, "alive after closing": Path(f"/proc/{number}").exists()}


def events(question: dict[str, Any]) -> dict[str, Any]:
    """Start a program and return its events."""
    with ompd.launch(question["program"], cwd=question.get("cwd")) as session:
        if "after" in question:
            session.continue_to(question["after"])
        found = session.events(*question["names"], limit=question.get("limit"))
        return {"events": [(event.name, event.native_thread_id) for event in found]}


def waiting(question: dict[str, Any]) -> dict[str, Any]:
    """Run a program until thread 0 is in the function ``together``, and return the number of looks at it."""
    looks: list[int] = []

    def is_there(session: Any) -> Any:
        looks.append(session.target.process_id)
        rows = session.ask_threads()
        return [r.where.function for r in rows if r.thread_num == 0 and r.where and r.where.function == "together"]

    with ompd.launch(question["program"]) as session:
        found = session.wait_until(is_there, stable=2, interval=0.005)
        told = {"found": found, "looks": len(looks), "listed": dir(session), "text": repr(session)}
        told["process"] = f"<session on process {looks[0]}>"
        told["ended"] = say(lambda: session.wait_until(lambda session: False, interval=5))
        return told


def events_with(question: dict[str, Any]) -> dict[str, Any]:
    """Run a program with an environment, and return its events and the error."""
    found: list[str] = []

    def follow() -> None:
        with ompd.launch(question["program"], env=question["environment"], omp_debug=False) as session:
            found.extend(event.name for event in session.events(*question["names"]))

    return {"said": say(follow), "events": found}


def refusals(question: dict[str, Any]) -> dict[str, str]:
    """Return the errors of wrong uses of ``launch`` and its session."""
    program, said = question["program"], {}
    with ompd.launch(program) as session:
        said["no function"] = say(lambda: session.continue_to("no_such_function"))
        said["no line"] = say(lambda: session.continue_to("regions.c:3000"))
        said["no event"] = say(lambda: next(session.events("parallel_middle")))
        session.continue_to("together")
        said["too slow"] = say(lambda: session.continue_to("task_end", seconds=0.3))
        said["after the limit"] = say(session.ask_threads)
        said["past the end"] = say(lambda: session.continue_to("task_begin"))
    with ompd.launch(program, omp_debug=False) as session:
        said["not enabled"] = say(lambda: session.continue_to("parallel_begin"))
    said["no program"] = say(lambda: ompd.launch(["/no/such/program"]))
    said["no list"] = say(lambda: ompd.launch("./a.out"))
    said["nothing"] = say(lambda: ompd.launch([]))
    said["no folder"] = say(lambda: ompd.launch(program, cwd="/no/such/folder")).partition(" cannot be started: ")[0]
    return said


def outside(question: dict[str, Any]) -> dict[str, Any]:
    """Return the waits outside of OpenMP of the core's or process's threads, by native id."""
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    try:
        target = debugger.CreateTarget(question["executable"])
        error = lldb.SBError()
        if "core" in question:
            process = target.LoadCore(question["core"])
        else:
            process = target.AttachToProcessWithID(debugger.GetListener(), question["pid"], error)
            assert error.Success(), error.GetCString()
        try:
            with Session(LldbTarget(process), FileFinder()) as session:
                found = {thread: system_wait(session, thread) for thread in session.process.threads.ids()}
        finally:
            process.Detach()
        members = [field.name for field in fields(SystemWait)]
        return {
            str(thread): {name: getattr(wait, name) for name in members} if wait is not None else None
            for thread, wait in found.items()
        }
    finally:
        lldb.SBDebugger.Destroy(debugger)


QUESTIONS = {
    "compare": compare,
    "situations": situations,
    "at_entry": at_entry,
    "detached": detached,
    "why": why,
    "run": run,
    "events": events,
    "waiting": waiting,
    "events_with": events_with,
    "refusals": refusals,
    "outside": outside,
}


def main() -> None:
    """Answer questions until the end of the input."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr  # stdout is only for answers
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = QUESTIONS[question.pop("question")](question)
        except Exception:  # noqa: BLE001  whatever it is, the test has to show it
            answer = {"fault": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
