"""docs/why.md shows the output of `ompd why`. ``python -m tests.questions.why.test_why_docs`` rewrites its examples."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

import ompd
from ompd.model.kinds import VerdictKind
from tests.support import clean_environment
from tests.support.cache import CHECKOUT
from tests.support.demo import OMPD, alike
from tests.support.why import WHYS, hung

PAGE = CHECKOUT / "docs" / "why.md"
# The program, its compiler, its runtime, and an environment variable for it (set to 1, or to a value); then the output.
EXAMPLE = re.compile(
    r"^<!-- (\S+) (\S+) (\S+)(?: ([A-Z_]+(?:=\w+)?))? -->\n(?:```\n(.*?)```\n)?", re.MULTILINE | re.DOTALL
)
SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)

OF_SEVERAL = {
    "conditions",
    "guards",
    "exception",
    "locks",
    "parted",
}  # programs in other languages or on other subjects, which are not named after a verdict
# tests/debugger/targets/test_harmless.py, tests/questions/why/test_supply.py and tests/questions/why/test_why_spins.py
# have their programs.
OF_OTHER_TESTS = {"runtime_unloaded", "few_processors", "throttled", "starved", "spin_burn", "limits", "spin_wait"}


def printed(name: str, compiler: str, runtime: str, variable: str, folder: Path) -> str:
    """Return the output for a program's core, without the line that describes the target."""
    core = folder / "core.1234"
    core.unlink(missing_ok=True)
    key, _, value = variable.partition("=")
    environment = {key: value or "1"} if variable else {}
    core.symlink_to(hung(WHYS[name], compiler, runtime, environment=environment).core or "")
    words = [str(OMPD), "why", "core.1234"]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=clean_environment(), check=False)
    assert run.returncode in (0, 3), run.stderr  # 3: a thread of the team is missing
    return f"$ ompd why core.1234\n{run.stdout.partition(chr(10) * 2)[2]}"


SECTIONS = dict(SECTION.findall(PAGE.read_text().partition("\n## Verdicts\n")[2]))
EXAMPLES = [(kind, *found) for kind, text in SECTIONS.items() for found in EXAMPLE.findall(text)]


def test_every_verdict_has_a_section() -> None:
    programs = {why.program for why in WHYS.values()} - OF_SEVERAL
    assert {kind for kind in VerdictKind if not kind.is_cause} == set(SECTIONS) and programs <= set(SECTIONS)
    assert len(re.findall(r"^### ", PAGE.read_text(), re.MULTILINE)) == len(SECTIONS)
    for kind, text in SECTIONS.items():
        assert kind in ("no_stall", "undecided") or "To mend it, " in text, kind
        assert EXAMPLE.search(text) or kind in OF_OTHER_TESTS, kind


@pytest.mark.parametrize(
    ("kind", "name", "compiler", "runtime", "variable", "shown"), EXAMPLES, ids=lambda one: str(one)[:30]
)
@pytest.mark.quick(
    "lock_cycle-lock_cycle-section-gcc-libgomp--*",
    "taskwait_starved-taskwait_starved-untied-clang-lib*",
    "undecided-lock_abandoned-returned-gcc-libgomp-WHY_*",
)
def test_the_page_shows_what_is_printed(
    kind: str, name: str, compiler: str, runtime: str, variable: str, shown: str, tmp_path: Path
) -> None:
    key, _, value = variable.partition("=")
    with ompd.open_core(
        hung(WHYS[name], compiler, runtime, environment={key: value or "1"} if key else {}).core
    ) as core:
        assert core.ask_why().rows[0].kind == kind
    assert alike(printed(name, compiler, runtime, variable, tmp_path)) == alike(shown)


def write_page() -> None:
    """Rewrite the page's examples."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def shown(found: re.Match[str]) -> str:
            text = printed(found[1], found[2], found[3], found[4] or "", folder)
            return f"{found[0].partition(chr(10))[0]}\n```\n{text}```\n"

        PAGE.write_text(EXAMPLE.sub(shown, PAGE.read_text()))


if __name__ == "__main__":
    write_page()
