"""A library with only DMPL's functions, as the white paper has them: the answers that it can and cannot give."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ompd.commands.main import cli
from tests.stub.programs import built, core_of
from tests.support.build import compiler
from tests.support.cache import CHECKOUT
from tests.support.dmpl_only import dmpl_library
from tests.support.stub import INCLUDE

REASON = "is a DMPL library: DMPL has no function for threads, regions, tasks or control variables"


def figure_8() -> Path:
    return core_of(built("figure8.c", "stop.c", flags=("-DBY_KEY",)))


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def answer(*words: str | Path, code: int = 0) -> Any:
    done = run(*words, "--json", "--ompd-library", dmpl_library())
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_runtimes_shows_that_it_serves() -> None:
    (row,) = answer("runtimes", figure_8())["runtimes"]
    assert row["plugin"] == f"DMPL library {dmpl_library()} (ompd: DMPL for libomp_stub 1.0)"
    assert row["version"] is None and row["unavailable"]["version"] == f"{dmpl_library()} {REASON}"


def test_var_has_the_copy_of_each_thread() -> None:
    core = figure_8()
    own = json.loads(run("var", core, "a", "--json").stdout)["var"]
    told = answer("var", core, "a")["var"]
    expected = {row["native_thread_id"]: (row["address"], row["value"], row["mechanism"]) for row in own}
    assert {row["native_thread_id"]: (row["address"], row["value"], row["mechanism"]) for row in told} == expected
    assert sorted(row["value"] for row in told) == [2, 2, 3, 3]
    assert all(row["thread_num"] is None and REASON in row["unavailable"]["thread_num"] for row in told)


def test_threads_have_places_and_no_numbers() -> None:
    found = answer("threads", figure_8())
    assert found["complete"] and any(REASON in warning for warning in found["warnings"])
    assert len(found["threads"]) == 4
    for row in found["threads"]:
        unknown = ("runtime", "thread_num", "team_size", "level", "thread_type", "state", "parallel", "task")
        assert {row[key] for key in unknown} == {None}
        assert all(REASON in row["unavailable"][key] for key in unknown)
    assert found["threads"][0]["where"]["function"] == "ompd_bp_parallel_end"


def test_stacks_hide_the_routines_that_it_names() -> None:
    core = core_of(built("preprocessed.c"))
    (row,) = answer("stack", core, "--locals", code=3)["stack"]
    names = [frame["function"] for frame in row["frames"] if frame["kind"] == "user"]
    assert names == ["code", "main"] and REASON in row["stopped"]
    (frame,) = (frame for frame in row["frames"] if frame["function"] == "code")
    values = {each["name"]: (each["text"], each["sharing"]) for each in frame["locals"]}
    assert values["total"] == ("2.5", "shared") and values["first"] == ("6", "firstprivate")


@pytest.mark.parametrize("command", ["parallel", "tasks", "icvs", "why"])
def test_what_dmpl_has_no_function_for_is_no_empty_answer(command: str) -> None:
    done = run(command, figure_8(), "--ompd-library", dmpl_library())
    assert (done.exit_code, done.stdout) == (1, "") and REASON in done.stderr


def test_a_variable_is_not_global_if_the_runtime_cannot_be_read(tmp_path: Path) -> None:
    # The snapshot has the memory that this library reads, and not the memory that the plugin reads.
    small = tmp_path / "small.core"
    run("snapshot", figure_8(), "-o", small, "--ompd-library", dmpl_library())
    done = run("var", small, "a", "--json")
    rows = json.loads(done.stdout)["var"]
    assert done.exit_code == 3 and {(row["mechanism"], row["value"]) for row in rows} == {(None, None)}
    assert all("the core file leaves out the page" in row["unavailable"]["value"] for row in rows)


def test_one_that_crashes_is_given_up(tmp_path: Path) -> None:
    library = tmp_path / "libodd.so"
    source = CHECKOUT / "tests" / "dmpl" / "odd.c"
    command = [str(compiler("gcc").path), "-shared", "-fPIC", "-O1", f"-I{INCLUDE}", "-DODD_crash", str(source)]
    subprocess.run([*command, "-o", str(library)], check=True)
    core = figure_8()
    own, done = run("var", core, "a"), run("var", core, "a", "--ompd-library", library)
    assert done.stdout == own.stdout
    assert "libodd.so: crashed (SIGSEGV) in DMPL_get_tls_address; it is given up" in done.stderr
