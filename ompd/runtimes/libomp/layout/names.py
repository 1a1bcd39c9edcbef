"""What the runtime's types are called: by OMPD's constants and in this plugin, and by debug information.

``ompd-specific.h`` names types as the sources use them; the debug information of a C++ program, and the tables made
from it, by what they are defined as.
"""

from __future__ import annotations

from collections.abc import Mapping

DEFINED_AS: Mapping[str, str] = {
    "ident_t": "ident",
    "kmp_base_drdpa_lock_t": "kmp_base_drdpa_lock",
    "kmp_base_info_t": "kmp_base_info",
    "kmp_base_queuing_lock_t": "kmp_base_queuing_lock",
    "kmp_base_root_t": "kmp_base_root",
    "kmp_base_task_team_t": "kmp_base_task_team",
    "kmp_base_team_t": "kmp_base_team",
    "kmp_base_ticket_lock_t": "kmp_base_ticket_lock",
    "kmp_desc_base_t": "kmp_desc_base",
    "kmp_desc_t": "kmp_desc",
    "kmp_info_t": "kmp_info",
    "kmp_internal_control_t": "kmp_internal_control",
    "kmp_r_sched_t": "kmp_r_sched",
    "kmp_task_t": "kmp_task",
    "kmp_taskdata_t": "kmp_taskdata",
    "kmp_tasking_flags_t": "kmp_tasking_flags",
    "kmp_team_p": "kmp_team",
    "kmp_thread_data_t": "kmp_base_thread_data",
    "ompt_lw_taskteam_t": "ompt_lw_taskteam_s",
}


def defined_as(name: str) -> str:
    """Return what the type *name* of this plugin is called in debug information and tables."""
    return DEFINED_AS.get(name, name)
