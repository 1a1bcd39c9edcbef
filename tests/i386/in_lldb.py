"""For tests/debugger/targets/test_i386.py: compare a 32-bit core or process in LLDB, and print ``equal`` if it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ompd
from ompd.debugger.process import StoppedProcess
from ompd.debugger.targets.lldb.files import LldbFiles
from ompd.debugger.targets.lldb.loading import load_lldb
from ompd.debugger.targets.lldb.target import LldbTarget
from tests.i386.checks import check_process, check_stacks, check_variables


def main(path: str) -> None:
    """Compare the target that the file *path* describes."""
    asked = json.loads(Path(path).read_text())
    lldb = load_lldb()
    debugger = lldb.SBDebugger.Create()
    debugger.SetAsync(False)
    target = debugger.CreateTarget(asked["program"])
    if "core" in asked:
        process = target.LoadCore(asked["core"])
    else:
        error = lldb.SBError()
        process = target.AttachToProcessWithID(debugger.GetListener(), asked["pid"], error)
        assert error.Success(), error.GetCString()
    try:
        with ompd.from_lldb(process) as session:
            check_stacks(session.ask_stacks(raw=True), asked["truth"])
            check_variables(session, asked["truth"], asked["mechanism"], opened=asked["opened"])
        inspected = StoppedProcess(LldbTarget(process), LldbFiles(process))
        check_process(inspected, asked["truth"])
        inspected.close()
    finally:
        process.Detach()
        lldb.SBDebugger.Destroy(debugger)
    print("equal")


if __name__ == "__main__":
    main(sys.argv[1])
