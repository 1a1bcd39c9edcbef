"""``ompd conformance``: the stub's library conforms, vendors' defects are found, and C programs reproduce them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.conformance.cases import Case
from ompd.conformance.rules import RULES, Rule
from ompd.conformance.trying import Runs
from ompd.errors import Rc
from ompd.runtimes.hosted.protocol import ASK_MEMORY
from ompd.runtimes.hosted.trial import client
from ompd.runtimes.hosted.trial.client import Reply
from tests.conformance import scoreboard
from tests.conformance.rules import PAGE, with_table
from tests.conformance.trying import called, expected_calls, run_reproducer, tried, tried_stub
from tests.support import FULL
from tests.support.hosted import Invented
from tests.support.machine import require
from tests.support.ompd_libraries import LIBRARIES, ompd_library
from tests.support.stub import stub_folder

TRIED = LIBRARIES if FULL else LIBRARIES[-1:]
# Defects without a report elsewhere: crashes, wrong codes, and results that are returned although reads fail.
NEWS = {
    "ompd_enumerate_states/all-null": "crashed (SIGSEGV) in ompd_enumerate_states",
    "ompd_finalize/first": "returned ompd_rc_ok",
    "ompd_get_curr_parallel_handle/fault-read_memory/1": "success, with a handle that is not the one without the fault",
    "ompd_get_icv_from_scope/result-4/NULL": "crashed (SIGSEGV) in ompd_get_icv_from_scope",
    "ompd_process_initialize/first": "crashed (SIGSEGV) in ompd_process_initialize",
}
CONTESTED = re.compile(
    "/result-[0-9]+/NULL|/released|/has-text/|ompd_initialize/empty-table|ompd_process_initialize/(first|end|again)"
)


_BEGUN = """
int ompd_get_version_string(const char **text) { *text = "1"; return 0; }
int ompd_initialize(long version, const void *table) { return version == 201811 && table ? 0 : table ? 5 : 3; }
"""
SOURCES = {
    "{needed}": "int not_for_debuggers;",
    "{crashing}": f"__attribute__((constructor)) static void start(void) {{ *(volatile int *)0 = 1; }} {_BEGUN}",
}
EATS = f"""{_BEGUN}
#include <stdlib.h>
int ompd_get_api_version(long *version)
{{
    while (malloc(1 << 24))
        ;
    return *(volatile int *)0;
}}
"""
LOOPS = f"""{_BEGUN}
#include <unistd.h>
int ompd_get_api_version(long *version) {{ *version = 201811; return 0; }}
int ompd_process_initialize(void *context, void **handle) {{ for (;;) usleep(1000); }}
"""


def compiled(source: str, folder: Path) -> str:
    (folder / "library.c").write_text(source)
    command = [str(require("gcc")), "-w", "-shared", "-fPIC", "-o", str(folder / "library.so")]
    subprocess.run([*command, str(folder / "library.c")], check=True)
    return str(folder / "library.so")


def test_the_stubs_library_conforms_to_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: dict[str, Rule] = {}
    keys: list[str] = []
    play = Runs.try_case

    def noting(self: Runs, case: Case) -> Sequence[Reply]:
        rules[case.rule] = case.follows
        keys.append(case.key)
        return play(self, case)

    monkeypatch.setattr(Runs, "try_case", noting)
    found = tried_stub().answer
    assert [(row.key, row.seen) for row in found.rows] == []
    assert found.complete and found.tried > 900
    assert found.warnings == ("no thread has a copy of a global variable: little of DMPL_get_tls_address was tried",)
    # Each key is one word, for lists of known findings.
    assert all(key.split() == [key] for key in keys)
    # The rule "exported" has no case: the symbols show whether a routine exists.
    assert rules.keys() == RULES.keys() - {"exported"}
    assert all(rule.words == RULES[name].words and rule.section for name, rule in rules.items())


def test_the_page_has_every_rule() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "python -m tests.conformance.rules"
    assert all(f"| {name} | " in page and rule.words in page for name, rule in RULES.items())


@pytest.mark.parametrize("name", TRIED)
def test_defects_of_vendors_are_found(name: str) -> None:
    found = {row.key: row for row in tried(name).answer.rows}
    for key, seen in NEWS.items():
        assert found[key].seen == seen
    finalize = found["ompd_finalize/first"]
    assert (finalize.version, finalize.section, finalize.level) == ("OpenMP 5.2", "20.5.1.4", "demands")
    assert tried(name).answer.complete and not tried(name).answer.warnings
    # Without words in the standard there is no demand: null pointers for results, forbidden uses by tools, texts of
    # numbers.
    contested = {row.key: row.level for row in found.values() if CONTESTED.search(row.key)}
    assert len(contested) > 20 and set(contested.values()) == {"suggests"}


@pytest.mark.parametrize("key", NEWS)
@pytest.mark.quick("ompd_get_icv_from_scope/result-4/NULL")
def test_a_reproducer_shows_the_same(key: str, tmp_path: Path) -> None:
    name = "llvm-22"
    found = tried(name)
    lines, status = run_reproducer(found, key, str(ompd_library(name)), tmp_path)
    script = found.scripts[key]
    assert called(lines) == expected_calls(script)
    assert (status < 0) == bool(script.replies[-1].ended)


@pytest.mark.skipif(not FULL, reason="some two hundred programs")
@pytest.mark.parametrize("name", LIBRARIES)
def test_every_reproducer_shows_the_same(name: str, tmp_path: Path) -> None:
    found = tried(name)
    for key, script in found.scripts.items():
        lines, status = run_reproducer(found, key, str(ompd_library(name)), tmp_path)
        assert called(lines) == expected_calls(script), key
        assert (status < 0) == bool(script.replies[-1].ended), key


@pytest.mark.skipif(not FULL, reason="seven libraries")
def test_the_scoreboard_is_what_the_kit_finds() -> None:
    assert scoreboard.page(scoreboard.answers()) == scoreboard.PAGE.read_text(encoding="utf-8"), "make scoreboard"


@pytest.mark.quick()
def test_without_a_program_what_needs_no_handles_is_tried(tmp_path: Path) -> None:
    library = str(ompd_library("llvm-22"))
    known = tmp_path / "known"
    report = tmp_path / "report.xml"
    # One known finding does not make others known.
    known.write_text("# of LLVM 22\n\nompd_finalize/first that is so\n")
    options = ["--expect", str(known), "--json", "--junit", str(report)]
    done = CliRunner().invoke(cli, ["conformance", library, *options])
    assert done.exit_code == 10
    answer = json.loads(done.stdout)
    keys = {row["key"] for row in answer["conformance"]}
    assert {"ompd_finalize/first", "ompd_enumerate_states/all-null"} <= keys
    assert [row["key"] for row in answer["conformance"] if row["is_known"]] == ["ompd_finalize/first"]
    assert answer["schema"] == "ompd/conformance/1" and answer["programs"] == [] and answer["functions"] == 35
    suite = ElementTree.parse(report).getroot()
    cases = suite.findall("testcase")
    failed = {case.get("name") for case in cases if case.find("failure") is not None}
    assert failed == keys - {"ompd_finalize/first"} and len(cases) == len(keys) + 1
    assert [case.get("name") for case in cases if case.find("skipped") is not None] == ["ompd_finalize/first"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(cases)), str(len(failed)), "1")
    # If all findings are known, the library conforms.
    known.write_text("".join(f"{key}\n" for key in sorted(keys)) + "gone/one\n")
    done = CliRunner().invoke(cli, ["conformance", library, "--expect", str(known)])
    assert done.exit_code == 0 and f"{len(keys)} of them known" in done.stdout and "gone: gone/one" in done.stdout


def test_the_stubs_library_conforms_in_the_shell_without_a_program() -> None:
    done = CliRunner().invoke(cli, ["conformance", str(stub_folder() / "libompd_stub.so")])
    assert done.exit_code == 0 and "0 findings in" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nonexistent/libompd.so"], "/nonexistent/libompd.so"),
        ([__file__], "not an ELF file"),
        (["{needed}"], "it has none of ompd_initialize"),
        (["{crashing}"], "crashed (SIGSEGV) in the library's own start"),
        (["{stub}", "/nonexistent/core"], "/nonexistent/core"),
        (["{stub}", "--expect", "/nonexistent/known"], "/nonexistent/known"),
        (["{stub}", "--junit", "/proc/report"], "/proc/report"),
    ],
)
def test_what_cannot_be_tested_is_an_error(arguments: list[str], said: str, tmp_path: Path) -> None:
    libraries = {"{stub}": str(stub_folder() / "libompd_stub.so")}
    if arguments[0] in SOURCES:
        libraries[arguments[0]] = compiled(SOURCES[arguments[0]], tmp_path)
    done = CliRunner().invoke(cli, ["conformance", *(libraries.get(word, word) for word in arguments)])
    assert done.exit_code == 1 and said in done.stderr and "Traceback" not in done.stderr
    assert "--ompd-library" not in done.stderr


def test_a_library_that_eats_all_memory_has_findings(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["conformance", compiled(EATS, tmp_path), "--json"])
    assert done.exit_code == 10
    answer = json.loads(done.stdout)
    found = {row["key"]: row["seen"] for row in answer["conformance"]}
    assert found["ompd_get_api_version/set-up"] == "crashed (SIGSEGV) in ompd_get_api_version"
    assert found["ompd_get_state/there"] == "the library does not have it"
    assert any("gave no version" in warning for warning in answer["warnings"])


def test_what_callbacks_were_answered_takes_a_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MAX_KEPT", 1 << 20)
    process = Invented({0x1000: bytes(1 << 16)}, {})
    answers = client.Answers(process)
    codes = [answers.of((ASK_MEMORY, 0, 0x1000, size, b""))[0] for size in range(1 << 15, (1 << 15) + 64)]
    assert codes[:20] == [Rc.OK] * 20 and codes[-20:] == [Rc.ERROR] * 20
    assert sum(len(raw) for _, _, raw in answers.kept.values()) < 1 << 20
    assert answers.of((ASK_MEMORY, 0, 0x1000, 1 << 15, b""))[0] == Rc.OK  # still answered


@pytest.mark.skipif(not FULL, reason="each call that does not return is waited for")
def test_a_routine_that_never_returns_is_given_up(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["conformance", compiled(LOOPS, tmp_path), "--json"])
    assert done.exit_code == 10
    answer = json.loads(done.stdout)
    seen = [row["seen"] for row in answer["conformance"] if row["function"] == "ompd_process_initialize"]
    assert seen == ["took more than 10 s in ompd_process_initialize"] * len(seen) and 1 < len(seen) <= 3
    assert answer["untried"] == ["ompd_process_initialize"] and not answer["complete"]
