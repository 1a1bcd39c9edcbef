"""Mutants of the stub's OMPD library; in each mutant one function has one defect."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.cache import entry, key_of
from tests.support.machine import require
from tests.support.stub import SOURCES, sources_key

_FLAGS = ("-std=c11", "-g", "-O1", "-ffreestanding", "-fno-stack-protector", "-fPIC", "-fvisibility=hidden", "-w")


class Mutant(NamedTuple):
    """A change in *function* of *file* in ``runtime_stub/ompd``: *old* becomes *new*."""

    file: str
    function: str
    old: str
    new: str

    @property
    def name(self) -> str:
        """The id of the mutant in tests."""
        return re.sub(r"\W+", "-", f"{self.function} {self.old} to {self.new}").strip("-")[:110]


_SPACE = (
    ("ompd_initialize", "!callbacks ||", "0 ||"),
    ("ompd_initialize", "version != 201811", "0"),
    ("ompd_initialize", "version != 201811", "version < 201811"),
    ("ompd_initialize", "return ompd_rc_bad_input", "return ompd_rc_error"),
    ("ompd_initialize", "return ompd_rc_ok", "return ompd_rc_error"),
    ("ompd_finalize", "return ompd_rc_unsupported", "return ompd_rc_ok"),
    ("ompd_finalize", "ompd_callbacks = NULL;", ""),
    ("ompd_finalize", "return ompd_rc_unsupported", "return ompd_rc_error"),
    ("ompd_get_api_version", "if (!version)", "if (0)"),
    ("ompd_get_api_version", "201811", "5"),
    ("ompd_get_version_string", "if (!text)", "if (0)"),
    ("ompd_get_version_string", '"ompd: OMPD for libomp_stub 1.0"', "NULL"),
    ("allocate", "rc == ompd_rc_ok && !*memory ? ompd_rc_nomem : rc", "ompd_rc_ok"),
    ("new_handle", "if (!address)", "if (0)"),
    ("new_handle", "(*handle)->mark = mark;", ""),
    ("new_handle", "(*handle)->space = space;", ""),
    ("new_handle", "(*handle)->address = address;", "(*handle)->address = address + 8;"),
    ("check_handle", "if (!ompd_callbacks)", "if (0)"),
    ("check_handle", "!any ||", ""),
    ("check_handle", "|| any->mark != mark", ""),
    ("check_handle", "any->space->mark == MARK_SPACE", "1"),
    ("release", "*(volatile uint64_t *)handle = 0;", ""),
    ("release", "return ompd_callbacks->free_memory(handle);", "return ompd_rc_ok;"),
    ("ompd_rel_address_space_handle", "MARK_SPACE", "MARK_TASK"),
    ("ompd_rel_thread_handle", "MARK_THREAD", "MARK_TASK"),
    ("ompd_rel_parallel_handle", "MARK_REGION", "MARK_TASK"),
    ("ompd_rel_task_handle", "MARK_TASK", "MARK_REGION"),
    ("ompd_rel_address_space_handle", "release(handle, MARK_SPACE)", "handle ? ompd_rc_ok : ompd_rc_stale_handle"),
    ("ompd_rel_thread_handle", "release(handle, MARK_THREAD)", "handle ? ompd_rc_ok : ompd_rc_stale_handle"),
    ("ompd_rel_parallel_handle", "release(handle, MARK_REGION)", "handle ? ompd_rc_ok : ompd_rc_stale_handle"),
    ("ompd_rel_task_handle", "release(handle, MARK_TASK)", "handle ? ompd_rc_ok : ompd_rc_stale_handle"),
    ("read_bytes", "return ompd_callbacks->read_memory(", "return ompd_rc_ok & ompd_callbacks->read_memory("),
    ("host_number", "if (rc != ompd_rc_ok)", "if (0)"),
    ("read_number", "rc == ompd_rc_ok ?", "1 ?"),
    ("keeps_states", "enabled == 1 ? ompd_rc_ok", "enabled == 1 ? ompd_rc_needs_state_tracking"),
    ("keeps_states", "if (rc != ompd_rc_ok)", "if (0)"),
    ("find_symbol", "return rc;", "return ompd_rc_ok;"),
    ("find_members", "if (code)", "if (0)"),
    ("ompd_process_initialize", "!context ||", ""),
    ("ompd_process_initialize", "|| !handle", ""),
    ("ompd_process_initialize", "*handle = space;", ";"),
    ("ompd_process_initialize", "space->mark = MARK_SPACE;", ""),
    ("ompd_process_initialize", "space->context = context;", ""),
    (
        "ompd_process_initialize",
        "rc = find_members(context, space);",
        "rc = find_members(context, space), rc = ompd_rc_ok;",
    ),
    (
        "ompd_process_initialize",
        "rc = allocate(sizeof **handle, &memory);",
        "static struct _ompd_aspace_handle one; memory = &one;",
    ),
    ("ompd_device_initialize", "return ompd_rc_unsupported", "return ompd_rc_ok"),
    ("ompd_get_omp_version", "if (!version)", "if (0)"),
    ("ompd_get_omp_version", "if (rc != ompd_rc_ok)", "if (0)"),
    ("ompd_get_omp_version", "(ompd_word_t)number", "(ompd_word_t)number + 50"),
    ("ompd_get_omp_version_string", "if (!text)", "if (0)"),
    ("ompd_get_omp_version_string", "if (rc != ompd_rc_ok)", "if (0)"),
    (
        "ompd_get_omp_version_string",
        'return text_copy("libomp_stub 1.0", text);',
        'return *text = "libomp_stub 1.0", ompd_rc_ok;',
    ),
)
_FACTS = (
    ("text_copy", "*copy = memory;", ""),
    ("text_copy", "if (rc == ompd_rc_ok)", "if (1)"),
    ("STATES", '"ompt_state_idle"', '"ompt_state_idel"'),
    ("STATES", "{0x10, 0x100,", "{0x10, 0x103,"),
    ("ompd_enumerate_states", "*more = at + 1 < STATE_NAMES;", "*more = 1;"),
    ("ompd_enumerate_states", "*more = at + 1 < STATE_NAMES;", "*more = 0;"),
    ("ompd_enumerate_states", "*more = at + 1 < STATE_NAMES;", "*more = -1;"),
    ("ompd_enumerate_states", "if (++at >= STATE_NAMES)", "if (at >= STATE_NAMES)"),
    (
        "ompd_enumerate_states",
        "if (++at >= STATE_NAMES)\n            return ompd_rc_bad_input;",
        "++at; at %= STATE_NAMES;",
    ),
    ("ompd_enumerate_states", "!next ||", ""),
    ("ompd_enumerate_states", "|| !name", ""),
    ("ompd_enumerate_states", "|| !more", ""),
    (
        "ompd_enumerate_states",
        "return text_copy(STATES[at].name, name);",
        "return *name = STATES[at].name, ompd_rc_ok;",
    ),
    ("ompd_get_state", "if (rc != ompd_rc_ok)", "if (0)"),
    ("ompd_get_state", "if (!state)", "if (0)"),
    ("ompd_get_state", "rc == ompd_rc_ok && wait_id", "rc == ompd_rc_ok"),
    ("ompd_get_state", "rc == ompd_rc_ok && wait_id", "rc == ompd_rc_ok && 0"),
    ("ompd_get_state", "*state = STATES[at].number;", "*state = STATES[at].number + 0x300;"),
    ("ompd_get_state", "*state = STATES[at].number;", ""),
    ("ompd_enumerate_icvs", "*more = current + 1 < ICV_COUNT;", "*more = 1;"),
    ("ompd_enumerate_icvs", "*more = current + 1 < ICV_COUNT;", ""),
    ("ompd_enumerate_icvs", "*next = current + 1;", "*next = current;"),
    ("ompd_enumerate_icvs", "*scope = (ompd_scope_t)ICVS[current].scope;", ""),
    ("ompd_enumerate_icvs", "*scope = (ompd_scope_t)ICVS[current].scope;", "*scope = ompd_scope_task;"),
    ("ompd_enumerate_icvs", "|| current >= ICV_COUNT", ""),
    ("ompd_enumerate_icvs", "ICVS[current].name, name", "ICVS[0].name, name"),
    (
        "ompd_enumerate_icvs",
        "return text_copy(ICVS[current].name, name);",
        "return *name = ICVS[current].name, ompd_rc_ok;",
    ),
    ("ompd_enumerate_icvs", "if (rc != ompd_rc_ok)", "if (0)"),
    ("ompd_enumerate_icvs", "!next ||", ""),
    ("thread_num", "*number = at;", "*number = at + 1;"),
    ("thread_num", "rc == ompd_rc_ok && found == thread->address", "1"),
    ("mark_of", "case ompd_scope_parallel: return MARK_REGION;", "case ompd_scope_parallel: return MARK_TASK;"),
    ("check_scope", "if (!handle)", "if (0)"),
    ("check_scope", "!value ||", ""),
    ("check_scope", "|| id > ICV_COUNT", ""),
    ("check_scope", "|| scope != (ompd_scope_t)ICVS[id - 1].scope", ""),
    ("check_scope", "return check_handle(handle, mark_of(scope));", "return ompd_rc_ok;"),
    ("ompd_get_icv_from_scope", "*value = number;", ""),
    ("ompd_get_icv_from_scope", "*value = number;", "*value = number + 1;"),
    ("ompd_get_icv_from_scope", "*value = number;\n    return rc;", "*value = number;\n    return ompd_rc_ok;"),
    ("schedule", "if (rc != ompd_rc_ok)", "if (0)"),
    (
        "ompd_get_icv_string_from_scope",
        "rc = ompd_get_icv_from_scope(handle, scope, id, &number);",
        "return ompd_rc_unsupported;",
    ),
    ("ompd_get_icv_string_from_scope", "rc == ompd_rc_ok ? text_copy(text, value) : rc", "text_copy(text, value)"),
    ("ompd_get_display_control_vars", "if (rc != ompd_rc_ok)", "if (0)"),
    ("ompd_get_display_control_vars", "vector[SETTING_COUNT] = NULL;", ""),
    ("write_setting", "*at++ = '=';", ""),
    ("ompd_get_display_control_vars", "if (!variables)", "if (0)"),
    ("ompd_rel_display_control_vars", "!variables ||", ""),
    ("ompd_rel_display_control_vars", "ompd_callbacks->free_memory((void *)(uintptr_t)*variables)", "ompd_rc_ok"),
    ("ompd_get_tool_data", "!value ||", ""),
    ("ompd_get_tool_data", "|| !pointer", ""),
    ("ompd_get_tool_data", "default: return ompd_rc_unsupported;", "default: member = stub_thread_tool_data; break;"),
    ("ompd_get_tool_data", "pointer->address = word;", ""),
    ("ompd_get_tool_data", "*value = (ompd_word_t)word;", ""),
    ("ompd_get_tool_data", "case ompd_scope_task: member", "case ompd_scope_task: return ompd_rc_bad_input; member"),
    ("ompd_get_tool_data", "return rc;\n}", "return ompd_rc_ok;\n}"),
)
_HANDLES = (
    ("lead", "return rc == ompd_rc_ok ?", "return 1 ?"),
    ("compare", "one->address == other->address ? 0", "1 ? 0"),
    ("compare", "one->address == other->address ? 0", "0 ? 0"),
    ("compare", "? -1 : 1", "? 1 : 1"),
    ("compare", "rc = check_handle(other, mark);", "rc = ompd_rc_ok;"),
    ("find_thread", "identifier == wanted", "identifier != wanted"),
    ("find_thread", "return rc;", "return ompd_rc_ok;"),
    ("ompd_get_thread_handle", "kind != ompd_thread_id_pthread && kind != ompd_thread_id_lwp", "0"),
    ("ompd_get_thread_handle", "size != 4 && size != 8", "0"),
    ("ompd_get_thread_handle", "handle && id", "handle"),
    ("ompd_get_thread_handle", "handle && id", "id"),
    ("ompd_get_thread_id", "kind != ompd_thread_id_pthread && kind != ompd_thread_id_lwp", "0"),
    ("ompd_get_thread_id", "size != 4 && size != 8", "0"),
    ("ompd_get_thread_id", "is_pthread ? stub_thread_pthread", "!is_pthread ? stub_thread_pthread"),
    ("ompd_get_thread_id", "((unsigned char *)id)[at] = bytes[at];", ";"),
    (
        "ompd_get_thread_id",
        "((unsigned char *)id)[at] = bytes[at];",
        "((unsigned char *)id)[at + 1] = ((unsigned char *)id)[at] = bytes[at];",
    ),
    ("ompd_get_thread_id", "MARK_THREAD, id", "MARK_THREAD, 1"),
    ("member_of_team", "number < 0 ||", "0 ||"),
    ("member_of_team", "number >= size ||", "0 ||"),
    ("member_of_team", "number >= size ||", "number > size ||"),
    ("member_of_team", "(uint64_t)number *", "(uint64_t)(number ^ 1) *"),
    ("member_of_team", "return ompd_rc_bad_input;", "return ompd_rc_unavailable;"),
    ("ompd_get_thread_in_parallel", "stub_team_threads, number, MARK_THREAD", "stub_team_threads, 0, MARK_THREAD"),
    ("ompd_get_task_in_parallel", "stub_team_implicit, number, MARK_TASK", "stub_team_implicit, number, MARK_THREAD"),
    ("ompd_get_curr_parallel_handle", "stub_thread_team", "stub_thread_task"),
    ("ompd_get_enclosing_parallel_handle", "stub_team_parent", "stub_team_threads"),
    ("ompd_get_task_parallel_handle", "stub_task_team", "stub_task_thread"),
    ("ompd_get_curr_task_handle", "stub_thread_task", "stub_thread_team"),
    ("ompd_get_generating_task_handle", "stub_task_generating", "stub_task_team"),
    ("ompd_get_scheduling_task_handle", "rc = ompd_rc_unavailable;", "rc = ompd_rc_error;"),
    *(
        (function, f"MARK_{mark}, handle", f"MARK_{mark}, 1")
        for function, mark in (
            ("ompd_get_thread_in_parallel", "REGION"),
            ("ompd_get_curr_parallel_handle", "THREAD"),
            ("ompd_get_enclosing_parallel_handle", "REGION"),
            ("ompd_get_task_parallel_handle", "TASK"),
            ("ompd_get_curr_task_handle", "THREAD"),
            ("ompd_get_generating_task_handle", "TASK"),
            ("ompd_get_scheduling_task_handle", "TASK"),
            ("ompd_get_task_in_parallel", "REGION"),
        )
    ),
    ("ompd_get_task_function", "MARK_TASK, entry", "MARK_TASK, 1"),
    ("ompd_get_task_function", "entry->address = function;", ""),
    ("ompd_get_task_function", "entry->segment = OMPD_SEGMENT_UNSPECIFIED;", "entry->segment = 7;"),
    ("ompd_get_task_function", "return rc;", "return ompd_rc_ok;"),
    ("read_frame", "frame->frame_flag = flag;", ""),
    ("read_frame", "frame->frame_flag = flag;", "frame->frame_flag = flag + 2;"),
    ("read_frame", "frame->frame_address.address = found;", ""),
    ("read_frame", "return rc;", "return ompd_rc_ok;"),
    ("ompd_get_task_frame", "exit && enter", "exit"),
    ("ompd_get_task_frame", "exit && enter", "enter"),
    ("ompd_get_task_frame", "rc = keeps_states(task->space);", "rc = ompd_rc_unsupported;"),
)
MUTANTS = tuple(
    Mutant(file, *row)
    for file, rows in (("space.c", _SPACE), ("facts.c", _FACTS), ("handles.c", _HANDLES))
    for row in rows
)


def changed(mutant: Mutant) -> str:
    """Return the file's text with the change.

    :raises AssertionError: if *old* does not occur exactly once in the function
    """
    text = (SOURCES / "ompd" / mutant.file).read_text()
    # Match from the line with the function's name to its closing brace, in the first column or at the end of a single
    # line.
    pattern = rf"^(?![\s#])[^\n;]*\b{mutant.function}\b[^\n;]*(?:\n(?!\}}).*?\n\}}|[^\n]*\}}$)"
    found = list(re.finditer(pattern, text, re.M | re.S))
    places = [one for one in found if mutant.old in one[0]]
    assert places, f"no place for {mutant}"
    one = places[0]
    return text[: one.start()] + one[0].replace(mutant.old, mutant.new, 1) + text[one.end() :]


def library(mutant: Mutant) -> Path:
    """Return the mutant, compiled."""
    compiler, text = require("gcc"), changed(mutant)

    def make(folder: Path) -> None:
        sources = folder / "source"
        for name in ("ompd", "dmpl", "include"):
            shutil.copytree(SOURCES / name, sources / name)
        (sources / "ompd" / mutant.file).write_text(text)
        files = [str(path) for name in ("ompd", "dmpl") for path in sorted((sources / name).glob("*.c"))]
        out = ["-shared", "-nostdlib", "-o", str(folder / "libompd_stub.so")]
        subprocess.run([str(compiler), *_FLAGS, f"-I{sources / 'include'}", *out, *files], check=True)

    return entry("stub-mutants", key_of(sources_key(), text, _FLAGS), make) / "libompd_stub.so"
