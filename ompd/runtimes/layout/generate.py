"""Making tables of layouts: which structures a table has, which of their members, how a file of it is written.

The shipped tables (``tables/*.json``) and those of ``ompd layout add`` are made alike. Whoever reads the debug
information hands in what it says; nothing here opens a file but to write a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ompd.errors import BadFile
from ompd.records import record
from ompd.runtimes.layout import table
from ompd.safety.writing import Destination, make_folder

Shape = tuple[int, Mapping[str, Sequence[int]]]
"""Size of a structure in bytes and its members, each as a table has it: offset, size, and of a bit field its first bit
and width."""


@record
class Family:
    """What a table of one kind of runtime has: ``types`` by their names in debug information, in a table's order.

    ``telling`` is the one by which the runtime is known. Those that are ``optional`` are in some builds only;
    ``aliases`` are other names of types in some builds.
    """

    telling: str
    types: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)


# Which types there are: libgomp.h, priority_queue.h and omp-lock.h since GCC 9; kmp.h, kmp_lock.h, ompt-internal.h and
# kmp_wait_release.h since LLVM 11.
FAMILIES: Mapping[str, Family] = {
    "libgomp": Family(
        "gomp_thread",
        (
            *("gomp_thread", "gomp_team", "gomp_task", "gomp_taskgroup", "gomp_taskwait", "gomp_thread_pool"),
            *("gomp_work_share", "gomp_doacross_work_share", "priority_node", "priority_list", "omp_nest_lock_t"),
        ),
        frozenset(("gomp_doacross_work_share",)),
    ),
    "libomp": Family(
        "kmp_base_info",
        (
            *("ident", "kmp_info", "kmp_base_info", "kmp_desc", "kmp_desc_base", "kmp_team", "kmp_base_team"),
            *("kmp_base_root", "kmp_taskdata", "kmp_tasking_flags", "kmp_task", "kmp_thread_data"),
            *("kmp_base_thread_data", "kmp_base_task_team", "kmp_task_pri_t", "kmp_internal_control", "kmp_r_sched"),
            *("kmp_nested_nthreads_t", "kmp_nested_proc_bind_t", "kmp_barrier_union", "kmp_bstate"),
            *("kmp_barrier_team_union", "kmp_base_queuing_lock", "kmp_base_ticket_lock", "kmp_base_drdpa_lock"),
            *("kmp_base_tas_lock", "kmp_base_futex_lock", "kmp_indirect_lock_t", "kmp_indirect_lock_table"),
            *("kmp_taskgroup", "kmp_base_depnode", "kmp_depnode_list", "kmp_dephash", "kmp_dephash_entry"),
            *("private_common", "kmp_cached_addr"),
            *("ompt_frame_t", "ompt_task_info_t", "ompt_team_info_t", "ompt_thread_info_t", "ompt_lw_taskteam_s"),
            *("kmp_flag_64<false, true>", "kmp_flag_64<true, false>"),
            "kmp_flag_native<unsigned long long, (flag_type)1, true>",
        ),
        # In later releases only; in builds with OMPT only; and compilers write template arguments in several ways.
        frozenset(
            (
                *("kmp_task_pri_t", "kmp_flag_64<false, true>", "kmp_flag_64<true, false>"),
                "kmp_flag_native<unsigned long long, (flag_type)1, true>",
                *("ompt_frame_t", "ompt_task_info_t", "ompt_team_info_t", "ompt_thread_info_t", "ompt_lw_taskteam_s"),
            )
        ),
        {"kmp_task_pri_t": "kmp_task_pri"},
    ),
}

# What only fills a union up to a cache line, and members of the C and C++ libraries' own types.
_UNWANTED = re.compile(r".*[._](?:pad|align)|(?:.*\.)?(?:__|_M_).*")
# Intel's copy of LLVM's runtime has every name that LLVM's newest has, other layouts, and allocators of its own.
_VENDORS = {"libomp": ("kmp_ext_alloc",)}
_MAX_TEXT = 200
_MAX_NAME = 64
_GCC = re.compile(r"GNU C\S* (\d{1,3}(?:\.\d{1,5}){1,2})\b")
# Where distributions and LLVM's own archives unpack their sources: /build/llvm-toolchain-14-14.0.6, llvm-project-18.1.8
_LLVM = re.compile(r"/(?:llvm-toolchain(?:-\d{1,3})?|llvm-project|llvm|openmp)-(\d{1,3}\.\d{1,3}\.\d{1,3})\b")


def is_wanted(path: str) -> bool:
    """Return whether a table has the member *path*, a name with dots, of a structure."""
    return _UNWANTED.fullmatch(path) is None


def release_of(runtime: str, producer: str, folder: str, intels_version: str | None) -> str | None:
    """Return the release of a runtime as its debug information gives it, None if it does not.

    libgomp is compiled by the GCC that it is a part of. LLVM's does not say who compiled it, nor its release; the
    folder of the sources often does.

    :param producer: ``DW_AT_producer`` of the file that defines its structures, *folder* its ``DW_AT_comp_dir``
    :param intels_version: the version among the strings of Intel's
    """
    if runtime == "libgomp":
        found = _GCC.search(producer)
        return f"GCC {found[1]}" if found is not None else None
    if intels_version is not None:
        return f"Intel {intels_version}"
    found = _LLVM.search(folder)
    return f"LLVM {found[1]}" if found is not None else None


def telling_exports(runtime: str) -> list[str]:
    """Return the names by which the shipped tables of a runtime distinguish its releases, in the order of releases; and
    of LLVM's one that Intel's alone exports.
    """
    names = [name for known in table.shipped_tables(runtime) for name in (*known.has_exports, *known.lacks_exports)]
    return list(dict.fromkeys([*names, *_VENDORS.get(runtime, ())]))


def make(
    runtime: str,
    *,
    releases: Sequence[str],
    architecture: str,
    provenance: str,
    build_ids: Mapping[str, str],
    exported: Collection[str] | None,
    structs: Mapping[str, Shape],
) -> dict[str, Any]:
    """Return the object that a file of a table has; see :mod:`ompd.runtimes.layout.table`.

    :param exported: which of :func:`telling_exports` the library exports, None if that is unknown
    """
    names = telling_exports(runtime) if exported is not None else []
    return {
        "format": table.FORMAT,
        "runtime": runtime,
        "releases": [cut(release) for release in releases],
        "architectures": [architecture],
        "provenance": cut(provenance),
        "exports": {
            "has": [name for name in names if name in (exported or ())],
            "lacks": [name for name in names if name not in (exported or ())],
        },
        "build_ids": {build_id: cut(what) for build_id, what in build_ids.items()},
        "structs": {name: {"size": size, "fields": fields} for name, (size, fields) in structs.items()},
    }


def format_table(told: Mapping[str, Any]) -> str:
    """Return the text of a table's file: a line for each key, and for each structure."""
    lines = [f" {_dump(key)}: {_dump(value)}" for key, value in told.items() if key != "structs"]
    structs = ",\n".join(f"  {_dump(name)}: {_dump(struct)}" for name, struct in told["structs"].items())
    return "{\n" + ",\n".join([*lines, f' "structs": {{\n{structs}\n }}']) + "\n}\n"


def file_name(runtime: str, words: Iterable[str]) -> str:
    """Return the name of a table, which is that of its file less ``.json``: the first of *words* that has something
    left when it may have letters, digits, and dots and dashes between them.
    """
    for text in words:
        plain = "-".join(re.findall(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*", text))[:_MAX_NAME].rstrip("-.")
        if plain:
            return plain if plain.startswith(f"{runtime}-") else f"{runtime}-{plain}"
    return f"{runtime}-unnamed"


def store(name: str, told: Mapping[str, Any]) -> tuple[table.Table, bool]:
    """Write a table into the user's folder, in place of one of that name, whole or not at all.

    :returns: the table as it is read again, and whether there was one of that name
    :raises BadFile: if it cannot be written, or could not be read again
    """
    folder = table.user_folder()
    if folder is None:
        raise BadFile(f"{name}.json", "cannot be written: neither XDG_DATA_HOME nor HOME names a folder")
    path = folder / f"{name}.json"
    raw = format_table(told).encode("utf-8", "replace")
    try:
        table.parse(path, json.loads(raw))
    except (ValueError, TypeError, KeyError) as error:
        raise BadFile(str(path), f"is not written: {error}, which no runtime has") from error
    if len(raw) > table.MAX_FILE:
        raise BadFile(str(path), f"is not written: it has {len(raw)} bytes, which no table of layouts has")
    try:
        make_folder(str(folder))
        with Destination(path) as place:
            is_there = place.replaced is not None
            with place.written() as stream:
                stream.write(raw)
    except BadFile as error:
        fault = error.fault if error.path == str(path) else f"cannot be written: its folder {error.fault}"
        raise BadFile(str(path), fault, hint="XDG_DATA_HOME names another folder for it") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadFile(
            str(path), f"cannot be written: {reason}", hint="XDG_DATA_HOME names another folder for it"
        ) from error
    return table.load(path), is_there


def cut(text: str) -> str:
    """Return *text* as a table has it: not longer than some words, and what JSON can hold."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= _MAX_TEXT else clean[: _MAX_TEXT - 1] + "…"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
