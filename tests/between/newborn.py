"""For gdb: writes a core of the program in each state of a worker of libgomp's, from where it begins the runtime's
routine until it has taken its place.

A line for each goes to standard output: ``CORE``, its path and the worker's native id.
"""

import os
from pathlib import Path

import gdb

STEPS, QUIET = 400, 60  # instructions at most, and without a change
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
# Its gomp_thread, and what it writes of itself elsewhere: it writes nothing but its stack besides.
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
        break  # it would wait for the others, which stand still
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
