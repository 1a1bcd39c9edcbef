"""Run by gdb: prints each thread's stack as one line of JSON, after the mark of ``gdb.py``."""

import json
import re

import gdb  # type: ignore[import-not-found]

MARK, MOST_FRAMES = "witness:", 12_000
KINDS = {gdb.INLINE_FRAME: "inline", gdb.TAILCALL_FRAME: "tail-call", gdb.SIGTRAMP_FRAME: "signal"}
_STACK = re.compile(r"stack=(0x[0-9a-f]+)")


def frames():
    """Return the frames of the selected thread, innermost first, and gdb's reason for stopping, None at the end."""
    found, frame = [], gdb.newest_frame()
    try:
        # A thread's stack begins with a return address of 0, which gdb takes for a frame.
        while frame is not None and frame.pc() and len(found) < MOST_FRAMES:
            found.append(described(frame))
            reason = frame.unwind_stop_reason()
            frame = frame.older()
    except gdb.error as error:
        return found, str(error)
    outermost = gdb.FRAME_UNWIND_OUTERMOST
    told = None if reason in (gdb.FRAME_UNWIND_NO_REASON, outermost) else gdb.frame_stop_reason_string(reason)
    return found, told if frame is None or not frame.pc() else "too many frames"


def described(frame):
    """Return gdb's facts about one frame."""
    place, pc = frame.find_sal(), frame.pc()
    stack = _STACK.search(str(frame))
    module = gdb.solib_name(pc) or (gdb.current_progspace().filename if gdb.block_for_pc(pc) or named(pc) else None)
    return {
        "level": frame.level(),
        "kind": KINDS.get(frame.type(), "normal"),
        "pc": pc,
        "cfa": int(stack[1], 16) if stack else None,
        "function": frame.name(),
        "file": place.symtab.fullname() if place.symtab is not None else None,
        "line": place.line if place.symtab is not None else None,
        "module": module,
    }


def named(pc):
    """Return whether an address is in the program's own file; gdb names no module for such an address."""
    return any(first <= pc < end for first, end in own_ranges)


def sections():
    """Return the address ranges of the sections of the program's own file, and the start of ``.text`` by file."""
    own, texts = [], {}
    for line in gdb.execute("info files", to_string=True).splitlines():
        match = re.match(r"\s*(0x[0-9a-f]+) - (0x[0-9a-f]+) is (\S+)(?: in (.+))?$", line)
        if match and match[4] is None:
            own.append((int(match[1], 16), int(match[2], 16)))
        if match and match[3] == ".text":
            texts[match[4] or gdb.current_progspace().filename] = int(match[1], 16)
    return own, texts


own_ranges, text_begins = sections()
told = []
for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
    thread.switch()
    own, stopped = frames()
    told.append({"thread": thread.ptid[1] or thread.ptid[0], "frames": own, "stopped": stopped})
print(MARK + json.dumps({"threads": told, "texts": text_begins}))
