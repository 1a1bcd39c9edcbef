"""DMPL's own names and numbers, from the header of the white paper (2004), in its order."""

from __future__ import annotations

from enum import IntEnum

INTERFACE_COMPATIBILITY = 1
"""``XLD_INTERFACE_COMPATIBILITY``: version of the interface."""

VARINFO_NEEDS_DEREFERENCE = 0x8000
"""Bit that may be or-ed into any :class:`VarInfo`: the variable's storage holds its address."""


class Result(IntEnum):
    """Result codes; both halves may use their own from ``FIRST_USER_CODE`` on."""

    OK = 0
    TLS_UNALLOCATED = 1
    NAME_TOO_LONG = 2
    NAME_UNCHANGED = 3
    FIRST_USER_CODE = 100


class Language(IntEnum):
    """Language codes; the paper spells C++ ``cplus`` in its figure and ``cplusplus`` in its header."""

    UNKNOWN = 0
    C = ord("c")
    CPLUSPLUS = ord("C")
    CPLUS = CPLUSPLUS
    F77 = ord("f")
    F9X = ord("F")


class VarInfo(IntEnum):
    """What a demangled name says of a variable: the clause it was listed in."""

    NONE = 0
    PRIVATE = 1
    SHARED = 2
    FIRSTPRIVATE = 3
    LASTPRIVATE = 4
    FIRSTLASTPRIVATE = 5
    REDUCTION = 6
    THREADPRIVATE = 7
    THREADSHARED = 8
    COPYIN = 9


CALLBACKS = (
    "put_process_info",
    "get_process_info",
    "put_thread_info",
    "get_thread_info",
    "get_process",
    "get_type_sizes",
    "find_symbol",
    "find_type",
    "get_data",
    "get_pthread_key",
    "target_to_host",
    "malloc",
    "free",
    "error_string",
    "prints",
)
"""Members of ``DMPL_callbacks_t`` without their ``_fp``, in order. ``sizeof`` and ``field_offset`` have types but no
member.
"""

FUNCTIONS = (
    "DMPL_initialise",
    "DMPL_version_compatibility",
    "DMPL_version_string",
    "DMPL_error_string",
    "DMPL_destroy_process_info",
    "DMPL_destroy_thread_info",
    "DMPL_demangle_name",
    "DMPL_get_tls_address",
    "DMPL_get_rtl_names",
)
"""What a DMPL library exports; the figures spell the first one ``DMPL_initialize``."""
