"""``ompd layout``: its output, the tables that it writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.commands.shell.layout import layout
from ompd.questions import layouts
from ompd.runtimes.layout import generate, table
from tests.support.cache import CHECKOUT
from tests.support.command import run
from tests.support.imports import loaded_after
from tests.support.layout_sources import SOURCE, compile_c
from tests.support.layout_tables import BUILD_ID, SHIPPED, user_table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of tables, which does not exist yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "ompd" / "layouts"


def ask(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_show_lists_the_tables_and_how_they_were_made(folder: Path) -> None:
    user_table(folder, "mine", {"build_ids": {BUILD_ID: "ours"}, "provenance": "by hand"})
    ran = run("layout", "show", XDG_DATA_HOME=str(folder.parents[1]))
    assert (ran.returncode, ran.stderr) == (0, "")
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert rows[0] == ["NAME", "RUNTIME", "RELEASES", "ARCHITECTURES", "BUILD-IDS", "FROM"]
    assert [row[0] for row in rows[1 : len(SHIPPED) + 2]] == [*(path.stem for path in SHIPPED), "mine"]
    assert "mine: by hand" in ran.stdout and BUILD_ID not in ran.stdout
    ran = run("layout", "show", "-v", XDG_DATA_HOME=str(folder.parents[1]))
    assert f"mine: build-id {BUILD_ID}: ours" in ran.stdout and f"mine: file {folder / 'mine.json'}" in ran.stdout


def test_show_prints_the_structures_of_a_table() -> None:
    ran = run("layout", "show", "libgomp-13")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\ngomp_thread   120 bytes\n       0         8  fn\n" in ran.stdout
    ran = run("layout", "show", "libomp-18")
    assert "\n   206:1   15 bits  th_topology_attrs.reserved\n" in ran.stdout


def test_json_is_what_its_schema_says(folder: Path) -> None:
    schema = json.loads(run("schema", "layout").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": "ompd/layout/1"}
    user_table(folder, "mine")
    (folder / "bad.json").write_text("[]")
    for words in (["show"], ["show", "libomp-18"], ["show", "mine"]):
        ran = run("layout", *words, "--json", XDG_DATA_HOME=str(folder.parents[1]))
        answer = json.loads(ran.stdout)
        jsonschema.validate(answer, schema)
        assert ran.returncode == (3 if words == ["show"] else 0)
        assert answer["complete"] == (words != ["show"])
        assert set(answer["layout"][0]) >= {"name", "runtime", "origin", "file", "releases", "architectures"}
    assert answer["structs"][0]["members"][0] == {"name": "fn", "offset": 0, "size": 8, "first_bit": None, "bits": None}


def test_show_says_what_a_bit_field_is(folder: Path) -> None:
    structs = layouts.known("libomp-18").structs or ()
    flags = next(struct for struct in structs if struct.name == "kmp_tasking_flags")
    told = json.loads((table.FOLDER / "libomp-18.json").read_text())["structs"]["kmp_tasking_flags"]["fields"]
    found = {each.name: (each.offset, each.first_bit, each.bits) for each in flags.members}
    assert found == {name: (offset, first, bits) for name, (offset, _, first, bits) in told.items()}


def test_show_of_no_table_is_no_answer(folder: Path) -> None:
    code, out, error = ask("layout", "show", "no-such-table")
    assert (code, out) == (1, "") and "no table with the name 'no-such-table'" in error
    folder.mkdir(parents=True)
    (folder / "bad.json").write_text("[]")
    code, out, error = ask("layout", "show", "bad")
    assert (code, out) == (1, "") and "is not a table of layouts" in error


def test_add_says_what_it_wrote(tmp_path: Path, folder: Path) -> None:
    program = compile_c(tmp_path, SOURCE, f"-Wl,--build-id=0x{BUILD_ID}")
    code, out, error = ask("layout", "add", program)
    assert (code, error) == (0, "")
    assert "10 structures" in out and BUILD_ID in out and str(folder) in out
    code, out, error = ask("layout", "add", program, "--json")
    assert code == 0 and json.loads(out)["layout"][0]["build_ids"].keys() == {BUILD_ID}
    assert "takes the place" in error
    code, _, error = ask("layout", "add", compile_c(tmp_path, SOURCE, "-Wl,--build-id=none", name="bare"))
    assert code == 0 and "has no build-id" in error


def test_wrong_usage_is_2_and_no_answer_is_1(tmp_path: Path) -> None:
    for arguments in (
        ["layout", "add"],
        ["layout", "add", "x", "--runtime", "other"],
        ["layout", "show", "a", "b"],
        ["layout", "no-such"],
    ):
        assert ask(*arguments)[:2] == (2, ""), arguments
    ran = run("layout", "add", tmp_path / "nothing")
    assert (ran.returncode, ran.stdout) == (1, "") and "no such file" in ran.stderr and "Traceback" not in ran.stderr


def test_names_of_tables_reach_no_terminal_as_they_are(folder: Path) -> None:
    changes = {"releases": ["\x1b[31mred"], "provenance": "\x07", "build_ids": {"aa": "\x1b]0;title"}}
    user_table(folder, "mine", changes)
    user_table(folder, "bad\x1b[2J", {"format": 5})
    for words in (["show"], ["show", "-v"], ["show", "mine"]):
        code, out, error = ask("layout", *words)
        assert code in (0, 3) and "\x1b" not in out + error and "\x07" not in out + error


def test_help_lists_the_command() -> None:
    assert "layout" in ask("--help")[1]
    for words in (["layout"], ["layout", "show"], ["layout", "add"]):
        assert "Exit codes:" in ask(*words, "--help")[1]


def test_every_runtime_that_has_tables_can_be_named() -> None:
    parameters = {each.name: each for each in layout.commands["add"].params}
    assert list(parameters["runtime"].type.choices) == list(generate.FAMILIES)  # type: ignore[attr-defined]


def test_options_are_on_the_page_of_commands() -> None:
    page = (CHECKOUT / "docs" / "commands.md").read_text()
    assert {"add", "show"} <= set(layout.commands)
    for name, command in layout.commands.items():
        assert f"`layout {name}" in page
        options = [option for each in command.params for option in each.opts if option.startswith("--")]
        assert all(f"`{option}" in page for option in options)


def test_no_other_command_loads_what_makes_tables() -> None:
    loaded = loaded_after("import ompd.commands.main")
    assert not loaded & {
        "ompd.questions.layouts",
        "ompd.session.tables",
        "ompd.runtimes.layout.generate",
        "ompd.debugger.files.debug_file",
        "tempfile",
    }
