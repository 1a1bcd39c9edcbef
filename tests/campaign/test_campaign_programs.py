"""The programs of the campaign: the contents of their table, their compilers, and the checks of their results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import programs, registries
from tests.campaign.program import KINDS, ends_well, has_runtime
from tests.campaign.use import libraries
from tests.support.runtimes import RUNTIMES

_PLACES = {"root", "inputs", "scratch", "library"}


def test_at_least_twenty_five_programs_of_others() -> None:
    names = [recipe.name for recipe in programs.RECIPES] + list(registries.rows())
    assert len(names) == len(set(names))
    assert len(names) >= 25


@pytest.mark.parametrize("name", registries.rows())
def test_a_row_is_whole(name: str) -> None:
    row = registries.rows()[name]
    assert bool(row.debs) != bool(row.wheels)
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", wheel) for wheel in row.wheels)
    assert set(row.runtimes) <= set(KINDS)
    texts = (*row.words, *row.libraries, *row.environment.values(), row.file or "")
    assert {place for text in texts for place in re.findall(r"{(\w*)}", text)} <= _PLACES
    re.compile(row.prints)
    if row.words[0] == "{library}":
        assert row.words[1] in libraries.USES
        float(row.words[2])


def test_packages_come_from_no_registry_by_name() -> None:
    folder = Path(registries.__file__).parent
    addresses = {path.name: re.findall(r"https?://[\w.]+", path.read_text()) for path in folder.rglob("*.py")}
    assert "programs.py" in addresses
    assert {found for each in addresses.values() for found in each} <= {"https://github.com"}


def test_recipes_take_turns_with_all_compilers_and_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", Path)
    for compilers in programs.COMPILERS.values():
        seen = {turn for index in range(len(programs.RECIPES)) for turn in programs.turns(index, compilers)}
        assert seen == {(compiler, level) for compiler in compilers for level in programs.LEVELS}


def test_a_compiler_that_is_not_here_has_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find", lambda name: Path(name) if name == "gcc-12" else None)
    assert {name for index in range(9) for name, _ in programs.turns(index, programs.COMPILERS["intel"])} == {"gcc-12"}


@pytest.mark.parametrize(
    ("status", "output", "wrong"),
    [(0, "Verification = 7", None), (1, "Verification = 7", "ended with 1"), (0, "Verification", "printed")],
)
def test_a_result_is_judged(status: int, output: str, wrong: str | None) -> None:
    found = ends_well(r"Verification = \d")(status, output)
    assert found is None if wrong is None else wrong in str(found)


def test_a_process_without_a_runtime_has_none() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert not has_runtime(process.pid)
        finally:
            process.kill()
    assert not has_runtime(process.pid)


@pytest.mark.parametrize("runtime", KINDS)
def test_a_process_with_a_runtime_has_one(runtime: str) -> None:
    code = f"import ctypes; ctypes.CDLL({str(RUNTIMES[runtime].file())!r}); print('there', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"there\n"
            assert has_runtime(process.pid)
        finally:
            process.kill()


def test_what_cannot_be_fetched_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(name: str, *_: object) -> Path:
        raise registries.Missing(name, "no registry here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registries, "unpack_debs", fail)
        assert list(registries.fetched(tmp_path, ["fasttree"], KINDS)) == []
    assert "not fetched: fasttree: fasttree: no registry here" in capsys.readouterr().err


@pytest.mark.quick()
def test_inputs_are_the_same_each_time(tmp_path: Path) -> None:
    script = registries.USE / "inputs.py"
    texts = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        subprocess.run([sys.executable, str(script), str(folder)], check=True)
        texts.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert texts[0] == texts[1]
    assert "hpcc.hpccinf.txt" in texts[0]
