"""Names that compilers and OpenMP runtimes make, and the facts in them."""

from __future__ import annotations

import re

import pytest

from ompd import naming

# By the name of an outlined function: the function that contains the construct, the construct if the name has it, and
# whether clang's own function calls it.
OUTLINED: dict[str, tuple[str | None, str | None, bool]] = {
    "main._omp_fn.0": ("main", None, False),
    "a._omp_fn.1._omp_fn.2.isra.0.cold": ("a._omp_fn.1", None, False),
    ".omp_outlined.": (None, None, False),
    ".omp_outlined._debug__.3": (None, None, True),
    ".omp_outlined..9.omp_outlined": (None, None, False),
    ".omp_outlined..9.omp_outlined_debug__": (None, None, True),
    "f.omp_outlined_debug__": ("f", None, True),
    "f.omp_outlined.7.constprop.0": ("f", None, False),
    "f.omp_outlined_debug__.omp_outlined": ("f", None, False),
    "f.omp_outlined_debug__.7.omp_outlined_debug__.12": ("f", None, True),
    "f.omp_outlined.omp_outlined": ("f", None, False),
    "_ZN1A1tIdEET_S1_.omp_outlined_debug__.omp_outlined": ("_ZN1A1tIdEET_S1_", None, False),
    ".omp_task_entry..5": (None, "task", False),
    ".omp_task_entry..10": (None, "task", False),
    "__omp_offloading_fe00_2142f5_main_l35": ("main", "target", False),
    "__omp_offloading_fe00_2142f5_main_l35_debug__": ("main", "target", True),
    "__omp_offloading_fe00_2142f5_my_l5_l35_1": ("my_l5", "target", False),
    "__omp_offloading_fe00_2142f5_main_l39_debug__.omp_outlined_debug__.omp_outlined": ("main", None, False),
}
ADDED = (
    *("main._omp_cpyfn.1", ".omp.reduction.reduction_func", "f.omp_outlined_debug__.omp.reduction.reduction_func"),
    *(".omp.copyprivate.copy_func", ".omp_combiner..2", ".omp_task_dup.", ".red_comb."),
)
OTHERS = (
    *("main", "._omp_fn.0", "f._omp_fn.", "f._omp_fn.0x", ".x.omp_outlined", "f.omp_outlinedx", "omp_get_level"),
    "cold_start",
)

# A runtime's functions in its symbol table: the name in the source, whether user code calls it, whether only libomp has
# it, and whether its thread waits in it.
ROUTINES: dict[str, tuple[str, bool, bool, bool]] = {
    "__kmpc_barrier": ("__kmpc_barrier", True, True, False),
    "GOMP_parallel": ("GOMP_parallel", True, False, False),
    "GOMP_parallel@@VERSION": ("GOMP_parallel", True, False, False),
    "__kmp_api_GOMP_parallel_40_alias": ("GOMP_parallel_40_alias", True, True, False),
    "gomp_ialias_omp_get_level": ("omp_get_level", True, False, False),
    "gomp_set_nest_lock_30": ("omp_set_nest_lock", True, False, False),
    "GOACC_parallel_keyed": ("GOACC_parallel_keyed", True, False, False),
    "omp_get_thread_num": ("omp_get_thread_num", True, False, False),
    "omp_free": ("omp_free", True, False, False),
    "ompc_set_num_threads": ("ompc_set_num_threads", True, False, False),
    "kmp_set_blocktime": ("kmp_set_blocktime", True, False, False),
    "kmp_threadprivate_insert": ("kmp_threadprivate_insert", False, False, False),
    "gomp_barrier_wait_end": ("gomp_barrier_wait_end", False, False, False),
    "__kmp_fork_call": ("__kmp_fork_call", False, True, False),
    "__kmp_suspend_64": ("__kmp_suspend_64", False, True, True),
    "_Z13__kmp_suspendILb0ELb1EEviPv": ("__kmp_suspend", False, True, True),
    "_ZL24__kmp_acquire_futex_lockP": ("__kmp_acquire_futex_lock", False, True, True),
    "ompt_start_tool": ("ompt_start_tool", False, False, False),
}
USERS = ("main", "gompertz", "omp_of_mine", "wait", "_ZN3omp4waitEv", "kompute")


@pytest.mark.parametrize("name", OUTLINED)
def test_functions_with_the_code_of_constructs(name: str) -> None:
    parent, construct, is_body = OUTLINED[name]
    assert naming.parse_outlined(name) == naming.Outlined(parent, construct)
    assert naming.is_body(name) == is_body
    assert naming.is_construct_code(name)
    assert not naming.is_added(name)
    assert not naming.is_runtime_symbol(name)
    assert not naming.is_entry(name)
    assert naming.is_by_gcc(name) == ("_omp_fn" in name)


@pytest.mark.parametrize("name", ADDED)
def test_functions_that_compilers_add(name: str) -> None:
    assert naming.is_added(name)
    assert naming.parse_outlined(name) is None


@pytest.mark.parametrize("name", [*OTHERS, *USERS])
def test_functions_of_the_user(name: str) -> None:
    assert naming.parse_outlined(name) is None
    assert not naming.is_added(name)


@pytest.mark.parametrize("name", ROUTINES)
def test_functions_of_runtimes(name: str) -> None:
    source, is_entry, is_reserved, waits = ROUTINES[name]
    assert naming.routine_name(name) == source
    assert naming.is_entry(name) == is_entry
    assert naming.is_reserved(name) == is_reserved
    assert naming.has_thread_wait(name) == waits
    assert naming.is_runtime_symbol(name)
    assert not naming.is_construct(name)


@pytest.mark.parametrize("name", USERS)
def test_functions_that_no_runtime_has(name: str) -> None:
    assert not naming.is_runtime_symbol(name)
    assert not naming.is_reserved(name)


@pytest.mark.parametrize(
    ("part", "whole"),
    [("f.cold", "f"), ("f.cold.7", "f"), ("f._omp_fn.0.cold", "f._omp_fn.0"), ("f", None), (".cold", None)],
)
def test_parts_that_are_seldom_executed(part: str, whole: str | None) -> None:
    assert naming.without_cold(part) == whole
    assert naming.without_cold(f"{part}x") is None


def test_what_lldb_searches_finds_the_same() -> None:
    parallel = [name for name, (_, construct, _) in OUTLINED.items() if construct is None and not name.endswith("cold")]
    found = [name for name in [*OUTLINED, *ADDED, *OTHERS, *ROUTINES] if re.search(naming.CONSTRUCT_EXPRESSION, name)]
    assert set(found) >= {name for name in parallel if "constprop" not in name}
    assert all(naming.is_construct_code(name) for name in found if name not in OTHERS)
    assert all(re.search(naming.RUNTIME_EXPRESSION, naming.routine_name(name)) for name in ROUTINES)
