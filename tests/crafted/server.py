"""Run the ``ompd`` command many times, each time in a process of its own, and report how much each run held and read.

The command's modules are imported once, and each run is a fork. Two limits of the kernel end a run that goes too far,
so no peak can be missed: RLIMIT_DATA counts every private writable page when it is requested, RLIMIT_CPU counts every
second. Below these limits, the kernel's own high-water mark (VmHWM, reset after the fork) and its counters of bytes
(``/proc/PID/io``, read when the run has ended and is not yet reaped) measure the cost of the run.

Each request is a line of JSON on standard input, each answer one on standard output.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

MAX_OUTPUT = 64 << 20
"""A run that prints more bytes is ended."""
_KEPT_OUTPUT = 4 << 20
_POLL_SECONDS = 0.002
_MODULES = (
    "ompd.commands.main",
    "ompd.commands.setup.start_files",
    "ompd.debugger.files.compressed",
    "ompd.binary.dwarf.files",
    "ompd.binary.elf.symbols",
    "ompd.binary.elf.compressed",
    "ompd.binary.elf.zstd",
    "ompd.debugger.variables.locals",
    "ompd.debugger.files.opening",
    "ompd.debugger.snapshot",
    "ompd.debugger.variables.static",
    "ompd.inspection",
    "ompd.questions.layouts",
    "ompd.questions.snapshot",
    "ompd.render.terminal",
    "ompd.safety.writing",
    "ompd.session.tables",
    "lz4.frame",
)


def _status(name: str) -> int:
    # Return a row of /proc/self/status in bytes.
    with open("/proc/self/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(f"{name}:"))


def _anonymous(process: int | str) -> int:
    # Return the bytes of resident anonymous pages: the value of RssAnon, from one short row.
    with open(f"/proc/{process}/statm") as file:  # noqa: PTH123
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * resource.getpagesize()


def _child(request: dict[str, Any], out: int, err: int, report: int) -> NoReturn:
    code = 70
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, to in ((nothing, 0), (out, 1), (err, 2)):
            os.dup2(source, to)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (request["cpu"], request["cpu"] + 2))
        data = _status("VmData") + request["data"]
        resource.setrlimit(resource.RLIMIT_DATA, (data, data))
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")
        before = _status("VmHWM")
        sys.argv = ["ompd", *request["argv"]]
        from ompd import start

        setattr(start, "_end_now", lambda _: None)  # noqa: B010  what was held is read at the end
        try:
            exec(request["env"].get("OMPD_TEST_CODE", "main()"), {"main": start.main})  # for the server's own test
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        else:
            code = 0
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(report, json.dumps({"held": _status("VmHWM") - before}).encode())
    except BaseException:  # noqa: BLE001  what Python itself would do, and what tests look for
        os.write(2, traceback.format_exc().encode())
        code = 1
    finally:
        os._exit(code)


def _io(process: int) -> dict[str, int]:
    with open(f"/proc/{process}/io") as file:  # noqa: PTH123
        return {name: int(value) for name, value in (line.split(":") for line in file)}


def _content(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=True) as file:
        return file.read(_KEPT_OUTPUT).decode("utf-8", "surrogateescape")


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Run one command and return its result: sizes in bytes, times in seconds."""
    out, err, report = (os.memfd_create(name) for name in ("out", "err", "report"))
    base = _anonymous("self")
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(request, out, err, report)
    peak, ended = base, None
    killed = None
    while ended is None:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is not None:
            break
        try:
            peak = max(peak, _anonymous(child))
        except (OSError, ValueError):
            continue  # the process has just ended
        if killed is None and time.monotonic() - started > request["seconds"]:
            killed = "time"
        if killed is None and os.fstat(out).st_size + os.fstat(err).st_size > MAX_OUTPUT:
            killed = "output"
        if killed is not None:
            os.kill(child, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    counted = _io(child)
    _, status, used = os.wait4(child, 0)
    told = _content(report)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": _content(out),
        "err": _content(err),
        "killed": killed,
        "cpu": used.ru_utime + used.ru_stime,
        "held": json.loads(told)["held"] if told else None,
        "anonymous": peak - base,
        "read": counted["rchar"],
        "written": counted["wchar"],
        "process": child,
    }


def main() -> None:
    """Answer requests until the input ends."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.environ["OMPD_CACHE"] = "off"
    for name in ("ompd.start", *_MODULES):
        __import__(name)
    gc.collect()
    gc.freeze()
    channel.write("ready\n")
    channel.flush()
    for line in sys.stdin:
        channel.write(json.dumps(serve(json.loads(line))) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
