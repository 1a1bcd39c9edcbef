"""For gdb: write a core of the program in each state of a libgomp worker.

The first core shows the worker at the start of the runtime's thread routine, the last one after the worker took its
place. Each core has a line on standard output: ``CORE``, its path and the worker's native id.
"""

import os
from pathlib import Path

import gdb

STEPS, QUIET = 400, 60  # instructions: the most in all, and the most without a change
SYSCALL = b"\x0f\x05"

folder = os.environ["CORES"]
for words in ("pagination off", "confirm off", "width 0", "breakpoint pending on"):
    gdb.execute(f"set {words}")
written = 0


def write(worker):
    global written
    written += 1
    gdb.execute(f"gcore {folder}/{written}", to_string=True)
    print("CORE", f"{folder}/{written}", worker, flush=True)


gdb.execute("break pthread_create")
gdb.execute("run", to_string=True)
routine = int(gdb.parse_and_eval("$rdx"))
gdb.execute("delete")
gdb.execute(f"tbreak *{routine:#x}")
gdb.execute("continue", to_string=True)
worker = gdb.selected_thread()
assert int(gdb.parse_and_eval("$pc")) == routine
gdb.execute("set scheduler-locking on")
write(worker.ptid[1])
# The worker's gomp_thread and the heap. Apart from these the worker writes only to its stack.
process = gdb.selected_inferior()
writable = []
for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines():
    place, access, *_ = line.split(None, 5)
    start, end = (int(number, 16) for number in place.split("-"))
    pointer = int(gdb.parse_and_eval("$fs_base"))
    if "w" in access and ("[heap]" in line or start <= pointer < end):
        writable.append((pointer - 1024, 2048) if start <= pointer < end else (start, end - start))
before = None
quiet = 0
for _ in range(STEPS):
    if bytes(process.read_memory(int(gdb.parse_and_eval("$pc")), 2)) == SYSCALL:
        break  # the worker would wait for the other threads, which are stopped
    gdb.execute("stepi", to_string=True)
    now = [bytes(process.read_memory(start, size)) for start, size in writable]
    quiet = quiet + 1 if now == before else 0
    if before is not None and now != before:
        write(worker.ptid[1])
    if quiet == QUIET:
        break
    before = now
write(worker.ptid[1])
gdb.execute("kill")
