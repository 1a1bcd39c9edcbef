"""OMPD's own names and numbers (OpenMP 5.2, chapter 20, and the additions of 6.0; ``omp-tools.h``)."""

from __future__ import annotations

from enum import IntEnum

API_VERSION = 201811
"""The only API version that the libraries of LLVM and Intel accept. A host asks ``ompd_get_api_version`` first."""

DLL_LOCATIONS = "ompd_dll_locations"
"""``const char **`` in the target: NULL until the runtime is ready, then a NULL-terminated vector of file names."""

DLL_LOCATIONS_VALID = "ompd_dll_locations_valid"
"""The program executes this place once the vector is complete. It may be a label instead of a function."""


class Scope(IntEnum):
    """``ompd_scope_t``: the kind of handle that an ICV or tool data belongs to."""

    GLOBAL = 1
    ADDRESS_SPACE = 2
    THREAD = 3
    PARALLEL = 4
    IMPLICIT_TASK = 5
    TASK = 6
    TEAMS = 7
    TARGET = 8


class ThreadIdKind(IntEnum):
    """Kinds of native thread identifiers (``ompd_thread_id_t``; the ``ompd-types.h`` supplement)."""

    PTHREAD = 0
    LWP = 1
    WINTHREAD = 2
