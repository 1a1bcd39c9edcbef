"""``ompd conformance`` for DMPL: the stub's library conforms to the white paper, and its mutants do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.conformance.asking import ask
from ompd.conformance.rules import DMPL_RULES
from ompd.model.conformance import ConformanceFinding
from tests.conformance.rules import PAGE, with_table
from tests.stub.programs import built, core_of
from tests.support import FULL
from tests.support.dmpl_only import dmpl_library

# By the case that finds the mutant: the file, the old text and the new text.
MUTANTS = {
    "DMPL_version_string/there": (
        "dmpl.c",
        "EXPORT const char *DMPL_version_string",
        "const char *DMPL_version_string",
    ),
    "DMPL_version_compatibility/version": ("dmpl.c", "return XLD_INTERFACE_COMPATIBILITY;", "return 2;"),
    "DMPL_version_string/text": ("dmpl.c", 'return "ompd: DMPL for libomp_stub 1.0";', "return NULL;"),
    "DMPL_initialise/first": ("dmpl.c", "    dmpl_extension = NULL;\n    return DMPL_ok;", "    return 1;"),
    "DMPL_error_string/codes": ("dmpl.c", 'return "the name is longer than the buffer";', "return NULL;"),
    "DMPL_demangle_name/codes": ("names.c", "put(result, name, DMPL_ok)", "put(result, name, 7)"),
    "DMPL_demangle_name/too-long": ("names.c", "(int)name.length + !fits", "(int)name.length"),
    "DMPL_demangle_name/flags": ("names.c", "info = DMPL_varinfo_threadprivate;", "info = 0x4007;"),
    "DMPL_get_rtl_names/names": ("dmpl.c", '{"GOMP_parallel", "run_implicit"}', '{"GOMP_parallel", NULL}'),
    "DMPL_get_tls_address/codes": ("dmpl.c", "any ? code : STUB_NOT_THREADPRIVATE", "any ? code : 50"),
    "DMPL_get_tls_address/copies": ("dmpl.c", "*result = base + variable.offset + inside;", "*result = inside;"),
    "DMPL_get_tls_address/processes": (
        "dmpl.c",
        "DMPL_process_info_t *info = callbacks->DMPL_get_process_info_fp(process);",
        "static DMPL_process_info_t *info;",
    ),
    "DMPL_get_tls_address/fault-get_data": (
        "dmpl.c",
        "*value = number_of(lookup->thread, raw, (size_t)size);\n    return code;",
        "*value = number_of(lookup->thread, raw, (size_t)size);\n    else\n        *value = 4096;\n    return DMPL_ok;",
    ),
    "DMPL_get_tls_address/fault-malloc": (
        "dmpl.c",
        "        if (!info)\n            return STUB_NO_MEMORY;\n        *info = found;",
        "        *info = found;",
    ),
    "DMPL_destroy_process_info/release": ("dmpl.c", "    dmpl_callbacks->DMPL_free_fp(info);\n", ""),
}
# Defects that end the library's process.
ENDED = {
    "reads behind the table": (
        *("dmpl.c", "dmpl_extension = NULL;\n"),
        *("dmpl_extension = NULL; (void)*(void *const volatile *)(callbacks + 1);\n",),
        *("DMPL_initialise/first", "crashed (SIGSEGV) in DMPL_initialise"),
    ),
    "writes behind a buffer": (
        *("names.c", "name.length < (size_t)result->room", "1"),
        *("DMPL_demangle_name/too-long", "its process failed (the library wrote behind the buffer for a name)"),
    ),
}


def core() -> str:
    return str(core_of(built("figure8.c", "stop.c", flags=("-DBY_KEY",))))


def findings(library: Path, *, first: bool = False) -> dict[str, ConformanceFinding]:
    return {row.key: row for row in ask(str(library), [core()], first=first).answer.rows}


def test_the_stubs_library_conforms() -> None:
    answer = ask(str(dmpl_library()), [core()]).answer
    assert (answer.rows, answer.warnings, answer.complete, answer.functions) == ((), (), True, 10)
    assert answer.tried > 15 and (answer.version, answer.api_version) == ("ompd: DMPL for libomp_stub 1.0", 1)


@pytest.mark.parametrize("key", list(MUTANTS) if FULL else list(MUTANTS)[::2])
@pytest.mark.quick(
    "DMPL_version_string/there",
    "DMPL_get_tls_address/fault-get_data",
    "DMPL_error_string/codes",
    "DMPL_destroy_process_info/release",
)
def test_a_mutant_is_found(key: str) -> None:
    found = findings(dmpl_library(*MUTANTS[key]))
    assert key in found, found
    assert found[key].version == "DMPL 2004" and found[key].rule in {rule.words for rule in DMPL_RULES.values()}


@pytest.mark.parametrize("name", ENDED)
@pytest.mark.quick("writes behind a buffer")
def test_a_fault_that_ends_the_process_is_a_finding(name: str) -> None:
    file, old, new, key, seen = ENDED[name]
    assert seen in findings(dmpl_library(file, old, new))[key].seen


def test_without_a_program_names_and_texts_are_tried(tmp_path: Path) -> None:
    library = str(dmpl_library(*MUTANTS["DMPL_error_string/codes"]))
    done = CliRunner().invoke(cli, ["conformance", library, "--json"])
    answer = json.loads(done.stdout)
    assert done.exit_code == 10 and "DMPL_get_tls_address was not tried" in done.stderr
    assert [row["key"] for row in answer["conformance"]] == ["DMPL_error_string/codes"]
    expected = tmp_path / "expected"
    expected.write_text("DMPL_error_string/codes\n")
    done = CliRunner().invoke(cli, ["conformance", library, "--expect", str(expected)])
    assert done.exit_code == 0 and "known: DMPL_error_string" in done.stdout


def test_one_that_cannot_be_loaded_is_an_error() -> None:
    start = "static void start(void) { *(volatile int *)0 = 1; }\n"
    start += '__attribute__((section(".init_array"), used)) static void (*const first)(void) = start;\n'
    library = dmpl_library("dmpl.c", "static int initialise(", f"{start}static int initialise(")
    done = CliRunner().invoke(cli, ["conformance", str(library)])
    assert (done.exit_code, done.stdout) == (1, "") and "crashed (SIGSEGV) in the library's own start" in done.stderr


def test_the_page_has_every_rule() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "python -m tests.conformance.rules"
    assert all(f"| {name} | " in page and rule.words in page for name, rule in DMPL_RULES.items())
