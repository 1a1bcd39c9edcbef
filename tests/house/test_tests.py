"""Rules for the tests themselves: helpers are in separate modules, nothing waits by sleeping, every test asserts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import minutes
from tests.support.cache import CHECKOUT

TESTS = CHECKOUT / "tests"
PAGE = TESTS.parent / "docs" / "dev" / "testing.md"
MODULES = sorted(TESTS.rglob("*.py"))
# Each process that runs one of these tests reads all files.
pytestmark = pytest.mark.xdist_group("tests")


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def named(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def test_no_test_file_is_imported() -> None:
    # Search strings, too: some are programs for another interpreter.
    imported = re.compile(
        r"^[ \"']*(?:from tests[.\w]*\.test_\w+ import|from tests[.\w]* import .*\btest_|import tests\S*\.test_)",
        re.MULTILINE,
    )
    assert {named(path): found for path in MODULES if (found := imported.findall(path.read_text()))} == {}


def test_modules_of_helpers_have_no_tests() -> None:
    found = []
    for path in MODULES:
        if not path.name.startswith("test_"):
            found += [
                f"{named(path)}: {node.name}"
                for node in nodes(path)
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            ]
    assert found == []


def modules_imported(path: Path) -> dict[str, ModuleType]:
    """Return the project's modules that a file imports, by their names in the file."""
    found = {}
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("ompd", "tests"):
            try:
                source = __import__(node.module, fromlist=[name.name for name in node.names])
            except ModuleNotFoundError as error:
                # Only modules of a debugger or of a library that is not installed may be missing.
                assert error.name is None or error.name.split(".")[0] not in ("ompd", "tests"), error
                continue
            for name in node.names:
                module = getattr(source, name.name, None)
                if isinstance(module, ModuleType):
                    found[name.asname or name.name] = module
    return found


def missing(path: Path) -> Iterator[str]:
    """Yield attributes of the project's modules that a file uses but that do not exist."""
    # Skip names that the file also binds elsewhere: they may be something else here.
    bound = {node.id for node in nodes(path) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes(path) if isinstance(node, ast.arg)}
    modules = {name: module for name, module in modules_imported(path).items() if name not in bound}
    for node in nodes(path):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None and not hasattr(module, node.attr):
                yield f"{module.__name__}.{node.attr}"


def test_what_tests_take_of_modules_is_there() -> None:
    # Tests are not type checked: without this test only a run of all tests would show that a moved function is missing.
    assert {named(path): names for path in MODULES if (names := list(missing(path)))} == {}


def test_each_quick_case_is_there(names_of_no_quick_case: set[str]) -> None:
    assert names_of_no_quick_case == set()


def test_the_page_has_each_folder_of_tests() -> None:
    table = PAGE.read_text().partition("| tests | about | minutes |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `([a-z_/]+)` \|", table, re.MULTILINE)
    assert sorted(rows) == sorted({str(path.parent.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")})


def test_minutes_are_those_of_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.binary.test_elf" name="test_a" time="61.0"/>'
        '<testcase classname="tests.binary.test_cfi" name="test_b" time="59"/>'
        '<testcase classname="tests.debugger.targets.test_live" name="test_c" time="30"/></testsuite></testsuites>'
    )
    page = "| tests | about | minutes |\n|---|---|---|\n| `binary` | a | 1.5 |\n| `debugger/targets` | b | |\n"
    expected = page.replace("1.5", "2.0").replace("b | |", "b | 0.5 |")
    assert minutes.with_minutes(page, minutes.seconds_by_folder(report)) == expected


# Sleeping

# Sleeps outside of waiting loops, by file: their number and purpose.
SLEEPS = {
    "lldb/regions.c": (1, "docs/lldb.md shows its code and addresses; who stops there sees the others wait"),
    "odd/cancel.c": (1, "that a region is cancelled is seen only by a thread that is let out of it"),
    "odd/odd.h": (1, "the end of a loop that reads the words of others"),
    "campaign/campaign.py": (2, "programs are stopped at random moments"),
    "outside/waits.c": (2, "what two of its threads do until the program ends"),
    "stacks/work.c": (1, "one of the things that a thread does until it is stopped somewhere"),
    "run/stuck.c": (1, "a command that sleeps for some seconds is one of the cases"),
    "support/settled.h": (1, "the end of the loop that waits"),
    "commands/test_command_line.py": (
        1,
        "the command is interrupted at some moments; tests/debugger/targets/test_interrupts.py does so at any call",
    ),
    "runtimes/libgomp/test_libgomp_waits.py": (
        1,
        "in the body of a loop that waits for a flag, where the thread is stopped",
    ),
    "debugger/targets/test_live_survival.py": (1, "inspections are ended at random moments"),
    "support/debuginfod.py": (1, "a server that sends byte by byte"),
}
_A_SLEEP = re.compile(r"\b(?:u|nano|clock_nano)?sleep\(")
_POLLS = re.compile(r"\b(?:while|for) \(")


def c_sleeps(text: str) -> list[str]:
    """Return the lines with a sleep outside of loops: neither the line nor the one before begins a loop."""
    found, before = [], ""
    for line in text.splitlines():
        if _A_SLEEP.search(line) and not _POLLS.search(line) and not _POLLS.search(before):
            found.append(line.strip())
        before = line
    return found


def python_sleeps(path: Path) -> list[str]:
    """Return the calls of ``time.sleep`` outside of ``while`` loops."""
    loops = [node for node in nodes(path) if isinstance(node, ast.While)]
    polled = {inner for loop in loops for part in loop.body for inner in ast.walk(part)}
    return [
        ast.unparse(node)
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and node not in polled
    ]


def c_texts(path: Path) -> str:
    """Return the C programs in the strings of a module."""
    texts = (node.value for node in nodes(path) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return "\n".join(text for text in texts if "#include" in text)


def test_nothing_waits_by_sleeping() -> None:
    found: dict[str, list[str]] = {}
    for path in MODULES:
        found[named(path)] = python_sleeps(path) + c_sleeps(c_texts(path))
    for pattern in ("*.c", "*.cc", "*.cpp", "*.h"):
        for path in TESTS.rglob(pattern):
            found[named(path)] = c_sleeps(path.read_text())
    few = {name: SLEEPS.get(name, (0, ""))[0] for name in found.keys() | SLEEPS.keys()}
    assert {name: lines for name, lines in found.items() if len(lines) != few[name]} == {}


_CLOCK = re.compile(r"\b(?:monotonic|perf_counter|time|time_ns)\(\)")
_DEADLINE = re.compile(r"monotonic\(\) < (?:deadline|end)\b|deadline - time\.monotonic|process_time|identity")


def test_no_time_of_the_clock_is_asserted() -> None:
    # Deadlines are allowed: they end loops that wait.
    found = []
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Assert):
                text = ast.unparse(node.test)
                if _CLOCK.search(text) and not _DEADLINE.search(text):
                    found.append(f"{named(path)}: {text}")
    assert found == []


# Assertions


def test_every_test_asserts_something() -> None:
    # A test asserts by itself or in functions that it calls; functions with the same name count as one.
    functions: dict[str, list[ast.FunctionDef]] = {}
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)

    def checks(node: ast.FunctionDef) -> bool:
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Assert, ast.Raise)):
                return True
            if isinstance(inner, ast.Call):
                name = inner.func.attr if isinstance(inner.func, ast.Attribute) else getattr(inner.func, "id", "")
                if name in known or name in ("raises", "fail", "check_call"):
                    return True
                if any(word.arg == "check" and getattr(word.value, "value", False) for word in inner.keywords):
                    return True
        return False

    known: set[str] = set()
    while more := {name for name, each in functions.items() if any(map(checks, each))} - known:
        known |= more
    assert sorted(name for name in functions if name.startswith("test_") and name not in known) == []
