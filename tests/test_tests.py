"""What holds for the tests themselves: helpers are in modules of their own, and nothing waits by sleeping."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
MODULES = sorted(TESTS.rglob("*.py"))


def named(path: Path) -> str:
    return path.relative_to(TESTS).as_posix()


def test_no_test_file_is_imported() -> None:
    # In texts, too, which are programs for another interpreter.
    imported = re.compile(
        r"^[ \"']*(?:from tests[.\w]*\.test_\w+ import|from tests[.\w]* import .*\btest_|import tests\S*\.test_)",
        re.MULTILINE,
    )
    assert {named(path): found for path in MODULES if (found := imported.findall(path.read_text()))} == {}


def test_modules_of_helpers_have_no_tests() -> None:
    found = []
    for path in MODULES:
        if not path.name.startswith("test_"):
            tree = ast.parse(path.read_text())
            found += [
                f"{named(path)}: {node.name}"
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            ]
    assert found == []
