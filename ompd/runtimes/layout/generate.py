"""Make tables of layouts: their structures and members, and the text of their files.

The shipped tables (``tables/*.json``) and the tables of ``ompd layout add`` are made in the same way. The caller reads
the debug information and passes the layouts to this module, which opens files only to write tables.
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
"""The size of a structure in bytes, and its members as in a table: offset, size, and for a bit field the first bit and
the width.
"""


@record
class Family:
    """The structures in a table for one kind of runtime. ``types`` are their names in debug information, in order.

    ``telling`` is the type whose presence identifies the runtime. Types in ``optional`` exist only in some builds.
    ``aliases`` are other names of types in some builds.
    """

    telling: str
    types: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)


# Sources of the types: libgomp.h, priority_queue.h and omp-lock.h since GCC 9; kmp.h, kmp_lock.h, ompt-internal.h and
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
            *("private_common", "kmp_cached_addr", "kmp_disp"),
            *("ompt_frame_t", "ompt_task_info_t", "ompt_team_info_t", "ompt_thread_info_t", "ompt_lw_taskteam_s"),
            *("kmp_flag_64<false, true>", "kmp_flag_64<true, false>"),
            "kmp_flag_native<unsigned long long, (flag_type)1, true>",
        ),
        # Types that only later releases have, and types of builds with OMPT. Compilers spell template arguments
        # differently.
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

# Members that tables leave out: padding of a union to a cache line, and members of the C and C++ libraries' types.
_UNWANTED = re.compile(r".*[._](?:pad|align)|(?:.*\.)?(?:__|_M_).*")
# Names that only a vendor's copy of a runtime exports. Intel's runtime exports all names of the newest LLVM runtime,
# but has other layouts. Only Intel's runtime also exports Intel's allocators.
_VENDORS = {"libomp": ("kmp_ext_alloc",)}
_MAX_TEXT = 200
_MAX_NAME = 64
_GCC = re.compile(r"GNU C\S* (\d{1,3}(?:\.\d{1,5}){1,2})\b")
# Source folders in distributions and in LLVM's archives: /build/llvm-toolchain-14-14.0.6, llvm-project-18.1.8
_LLVM = re.compile(r"/(?:llvm-toolchain(?:-\d{1,3})?|llvm-project|llvm|openmp)-(\d{1,3}\.\d{1,3}\.\d{1,3})\b")


def is_wanted(path: str) -> bool:
    """Return whether tables include the member *path* of a structure, a name with dots."""
    return _UNWANTED.fullmatch(path) is None


def release_of(runtime: str, producer: str, folder: str, intels_version: str | None) -> str | None:
    """Return the release of a runtime according to its debug information, None if that does not show it.

    libgomp is compiled by the GCC of its own release. LLVM's runtime does not record its release, but the name of its
    source folder often contains it.

    :param producer: ``DW_AT_producer`` of the unit that defines the structures; *folder* is that unit's
        ``DW_AT_comp_dir``
    :param intels_version: the version among the strings of Intel's runtime, None for other runtimes
    """
    if runtime == "libgomp":
        found = _GCC.search(producer)
        return f"GCC {found[1]}" if found is not None else None
    if intels_version is not None:
        return f"Intel {intels_version}"
    found = _LLVM.search(folder)
    return f"LLVM {found[1]}" if found is not None else None


def telling_exports(runtime: str) -> list[str]:
    """Return the exported names that distinguish a runtime's releases in the shipped tables, in the tables' order. For
    LLVM's runtime also return a name that only Intel's copy exports.
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
    """Return the JSON object of a table's file; see :mod:`ompd.runtimes.layout.table`.

    :param exported: the names of :func:`telling_exports` that the library exports, None if they are unknown
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
    """Return the text of a table's file, with a line for each key and for each structure."""
    lines = [f" {_dump(key)}: {_dump(value)}" for key, value in told.items() if key != "structs"]
    structs = ",\n".join(f"  {_dump(name)}: {_dump(struct)}" for name, struct in told["structs"].items())
    return "{\n" + ",\n".join([*lines, f' "structs": {{\n{structs}\n }}']) + "\n}\n"


def file_name(runtime: str, words: Iterable[str]) -> str:
    """Return the name of a table, which is its file's name without ``.json``. *words* are reduced to letters, digits,
    and dots and dashes between these; the result is the first word that is then not empty.
    """
    for text in words:
        plain = "-".join(re.findall(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*", text))[:_MAX_NAME].rstrip("-.")
        if plain:
            return plain if plain.startswith(f"{runtime}-") else f"{runtime}-{plain}"
    return f"{runtime}-unnamed"


def store(name: str, told: Mapping[str, Any]) -> tuple[table.Table, bool]:
    """Write a table into the user's folder, completely or not at all. An existing table with this name is replaced.

    :returns: the table as read from the new file, and whether it replaced another table
    :raises BadFile: if the table cannot be written, or would be unreadable
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
    """Return *text* shortened for a table, with only characters that JSON can represent."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= _MAX_TEXT else clean[: _MAX_TEXT - 1] + "…"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
