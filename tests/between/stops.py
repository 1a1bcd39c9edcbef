"""For gdb: write a core of the program in each state of its initial thread while it enters or leaves a team.

Each core has a line on standard output: ``CORE``, its path, the level that the program has noted, and 1 if the team of
the thread differs from the team of its task, else 0.
"""

import json
import os
import subprocess

import gdb

NEAR = 120  # instructions to step after the last change, in which the runtime may still complete a team
MOST = 1000  # instructions to step at most after a watched field has changed
CORES = 120

folder = os.environ["CORES"]
for words in ("pagination off", "confirm off", "width 0"):
    gdb.execute(f"set {words}")
gdb.execute("break work_begins")
gdb.execute("break work_ends")
gdb.execute("run")
gdb.execute(f"gcore {folder}/first", to_string=True)
asked = [os.environ["PYTHON"], "-m", "tests.between", f"{folder}/first"]
where = json.loads(subprocess.run(asked, stdout=subprocess.PIPE, check=True, text=True).stdout)
gdb.execute("set scheduler-locking step")
process = gdb.selected_inferior()
thread = where["thread"]


def word(address, size=8, signed=False):
    return int.from_bytes(bytes(process.read_memory(address, size)), "little", signed=signed)


def field(name, address):
    offset, size = where[name]
    return word(address + offset, size, signed=size == 4)


def team(address):
    if not address:
        return None
    size, threads = field("t_nproc", address), field("t_threads", address)
    tasks = field("t_implicit_task_taskdata", address) + where["size of a task"] * (size - 1)
    members = [word(threads + 8 * number) for number in range(size)]
    return address, field("t_parent", address), field("t_level", address), members, field("td_team", tasks)


def state():
    task, own = field("th_current_task", thread), field("th_team", thread)
    other = field("td_team", task)
    return task, team(own), team(other) if other != own else None


def watch(name):
    breakpoint = gdb.Breakpoint(f"*(long *){thread + where[name][0]:#x}", gdb.BP_WATCHPOINT, gdb.WP_WRITE)
    breakpoint.silent = True
    return breakpoint


written = 0


def write(now):
    global written
    written += 1
    core = f"{folder}/{written}"
    gdb.execute(f"gcore {core}", to_string=True)
    print("CORE", core, int(gdb.parse_and_eval("here")), int(now[2] is not None), flush=True)


watched = [watch("th_team"), watch("th_current_task")]
while written < CORES:
    gdb.execute("continue", to_string=True)
    if gdb.newest_frame().name() == "work_ends":
        break
    for each in watched:
        each.enabled = False
    now = state()
    write(now)
    near = 0
    for _ in range(MOST):
        if near == NEAR:
            break
        gdb.execute("stepi", to_string=True)
        before, now = now, state()
        if now != before:
            write(now)
        near = 0 if now != before or now[2] is not None else near + 1
    for each in watched:
        each.enabled = True
gdb.execute("kill")
