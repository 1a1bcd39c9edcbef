"""Decisions for contradictions and gaps in the documents on OMPT; ``docs/dev/ompt.md`` has the reasons.

Each ruling changes the declarations of the report's appendix into those of ``runtime_stub/include/ompt.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from tests.ompt.declarations import Declarations, Signature
from tests.ompt.report import Report


@dataclass(frozen=True)
class Ruling:
    """A ruling on *subject*, its name in ``docs/dev/ompt.md``; *apply* changes the declarations.

    ``settles`` is the name that the appendix and the text declare differently, or "" for rulings on other matters.
    """

    subject: str
    apply: Callable[[Declarations, Report], None]
    settles: str = ""


def _cursor(held: Declarations, report: Report) -> None:
    held.aliases["ompt_target_buffer_cursor_t"] = "uint64_t"


def _buffer_request(held: Declarations, report: Report) -> None:
    name = "ompt_target_buffer_request_callback_t"
    held.functions[name] = report.text.functions[name]


def _record_types(held: Declarations, report: Report) -> None:
    parameters = held.functions["ompt_target_set_trace_ompt"].parameters
    parameters[parameters.index("ompt_record_type_t")] = "uint32_t"


def _atomic_types(held: Declarations, report: Report) -> None:
    held.aliases["ompt_atomic_type_t"] = "uint32_t"


def _lock_types(held: Declarations, report: Report) -> None:
    held.functions["ompt_enumerate_lock_types"] = held.functions["ompt_enumerate_lock_type"]


def _documentation(held: Declarations, report: Report) -> None:
    parameters = held.functions["ompt_target_get_device_info"].parameters
    assert parameters[-1] == "const char *"
    parameters[-1] = "const char **"


def _target_task_end(held: Declarations, report: Report) -> None:
    events = held.enumerations["ompt_event_t"]
    events["ompt_event_target_task_end"] = events["ompt_event_target_task_end_sync"]


def _unchanged(held: Declarations, report: Report) -> None:
    # The appendix is right.
    return


RULINGS = (
    Ruling("ompt_target_buffer_cursor_t", _cursor),
    Ruling("ompt_target_buffer_request_callback_t", _buffer_request, "ompt_target_buffer_request_callback_t"),
    Ruling("rtype", _record_types),
    Ruling("dev_task_id", _unchanged),
    Ruling("ompt_atomic_type_t", _atomic_types),
    Ruling("ompt_enumerate_lock_types", _lock_types),
    Ruling("ompt_initialize_fn_t", _unchanged, "ompt_initialize_fn_t"),
    Ruling("documentation", _documentation),
    Ruling("ompt_target_start_trace", _unchanged),
    Ruling("ompt_event_target_task_end", _target_task_end),
)

# Names in our header for numbers without a name in the report.
NAMED = {
    "ompt2015_set_error": 0,
    "ompt2015_set_no_callback": 1,
    "ompt2015_set_never": 2,
    "ompt2015_set_sometimes": 3,
    "ompt2015_set_always": 4,
    "ompt2015_version_of_initialize": 1,
    "ompt2015_version_of_tool": 2,
    "ompt2015_control_start": 1,
    "ompt2015_control_pause": 2,
    "ompt2015_control_flush": 3,
    "ompt2015_control_end": 4,
    "ompt2015_control_first_own": 64,
}
# Functions that programs define or call by name. All others are looked up, and our header declares only their types.
GLOBAL = {"ompt_tool", "ompt_initialize", "ompt_control"}

# Numbers of OpenMP 5.2 that LLVM's header lacks; Intel's header has them.
ADDED_BY_52 = {
    "ompt_target_map_flag_always": 0x40,
    "ompt_target_map_flag_present": 0x80,
    "ompt_target_map_flag_close": 0x100,
    "ompt_target_map_flag_shared": 0x200,
}


def held_2015(report: Report) -> Declarations:
    """Return the declarations that a header for the report must have: those of appendix, text and draft, after the
    rulings.
    """
    held = deepcopy(report.appendix)
    for part in (report.text, report.draft):
        held.functions = {**deepcopy(part.functions), **held.functions}
    for ruling in RULINGS:
        ruling.apply(held, report)
    held.enumerations[""] = dict(NAMED)
    looked_up = {name for name in held.functions if not name.endswith("_t") and name not in GLOBAL}
    held.functions = {f"{name}_t" if name in looked_up else name: it for name, it in held.functions.items()}
    # The second spelling is an alias of the same type.
    del held.functions["ompt_enumerate_lock_types_t"]
    held.aliases["ompt_enumerate_lock_types_t"] = "ompt_enumerate_lock_type_t"
    return held


def held_5(header: Declarations) -> Declarations:
    """Return the declarations that a header for OpenMP 5.2 must have, based on LLVM's *header*."""
    held = deepcopy(header)
    held.enumerations["ompt_target_map_flag_t"].update(ADDED_BY_52)
    held.functions.setdefault(
        "ompt_start_tool", Signature("ompt_start_tool_result_t *", ["unsigned int", "const char *"])
    )
    return held
