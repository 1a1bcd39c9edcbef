"""The command for its user: text, JSON and its keys, exit codes, and options."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

import ompd
from ompd.commands.main import cli
from ompd.commands.table import COMMANDS, GROUPS
from tests.support import FULL, Stopped, clean_environment, stopped
from tests.support.cache import CHECKOUT
from tests.support.command import run

OMPD = Path(sys.executable).with_name("ompd")

# Keys on which scripts may rely; later releases may add more.
TARGET_KEYS = {"kind", "file", "executable", "process_id", "command", "signal", "signal_name", "architecture"}
KEYS = {
    "runtimes": "id kind version file build_id layout dll_locations keeps_states unavailable",
    "threads": "runtime thread_num team_size level active_level native_thread_id thread_type state state_source wait_id"
    " wait parallel task where unavailable",
    "parallel": "id runtime level active_level team_size enclosing function threads unavailable",
}
WAIT_KEYS = {"kind", "object", "symbol", "arrived", "expected", "missing", "owner", "owner_source"}
WHERE_KEYS = {"function", "file", "line", "address"}
ADDRESS = re.compile(r"0x[0-9a-f]+")


def ask(command: str, core: Path, *options: str) -> dict[str, Any]:
    ran = run(command, core, "--json", *options)
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def nested() -> Stopped:
    return stopped("nested")


@pytest.mark.parametrize("command", KEYS)
def test_json_has_the_keys_that_scripts_rely_on(command: str) -> None:
    answer = ask(command, stopped("lock").core)
    assert answer["schema"] == f"ompd/{command}/1"
    assert set(answer["target"]) >= TARGET_KEYS
    assert (answer["complete"], answer["warnings"]) == (True, [])
    rows = answer[command]
    assert rows and all(set(row) >= set(KEYS[command].split()) for row in rows)
    assert all(set(row) >= set(KEYS["runtimes"].split()) for row in answer["runtimes"])
    assert {row.get("runtime", "libiomp5") for row in rows} <= {answer["runtimes"][0]["id"], None}


def test_a_null_means_none_unless_its_row_says_otherwise(nested: Stopped) -> None:
    threads = ask("threads", nested.core)["threads"]
    monitor = next(row for row in threads if row["native_thread_id"] == nested.truth["monitor"])
    assert (monitor["runtime"], monitor["thread_num"], monitor["state"], monitor["unavailable"]) == (
        None,
        None,
        None,
        {},
    )
    waiting = [row for row in threads if row["wait"] is not None]
    assert waiting
    for row in waiting:
        assert set(row["wait"]) >= WAIT_KEYS
        untold = {key for key in ("arrived", "expected", "missing") if row["wait"][key] is None}
        assert all(f"wait.{key}" in row["unavailable"] for key in untold)


def test_addresses_are_strings_and_ids_refer_to_rows(nested: Stopped) -> None:
    threads, regions = ask("threads", nested.core)["threads"], ask("parallel", nested.core)["parallel"]
    ids = [row["id"] for row in regions]
    assert len(set(ids)) == len(ids)
    assert all(row["enclosing"] is None or row["enclosing"] in ids for row in regions)
    assert {row["parallel"] for row in threads} - {None} <= set(ids)
    assert all(ADDRESS.fullmatch(row["function"]["address"]) for row in regions)
    for row in threads:
        where = row["where"]
        assert where is None or (set(where) >= WHERE_KEYS and ADDRESS.fullmatch(where["address"]))
    natives = {row["native_thread_id"] for row in threads}
    assert all(set(row["threads"]) <= natives for row in regions)


def test_a_region_comes_after_the_one_that_encloses_it(nested: Stopped) -> None:
    seen: set[str | None] = {None}
    rows = ask("parallel", nested.core)["parallel"]
    assert len({row["enclosing"] for row in rows}) > 2
    for row in rows:
        assert row["enclosing"] in seen
        seen.add(row["id"])


def test_the_target_is_described(nested: Stopped) -> None:
    target = ask("runtimes", nested.core)["target"]
    assert target["kind"] == "core" and target["file"] == str(nested.core)
    assert target["executable"] == str(nested.executable)
    assert target["process_id"] == nested.truth["pid"]
    assert (target["signal"], target["signal_name"]) == (6, "SIGABRT")
    assert target["command"].startswith(str(nested.executable)[:70])


@pytest.mark.parametrize(
    ("command", "program", "mode"),
    [
        (command.name, *each)
        for number, command in enumerate(COMMANDS)
        for turn, each in enumerate([("lock", "neither"), ("nested", "debug"), ("not_initialised", "tool")])
        if (FULL or turn != number % 3) and (command.ompd_library is None or each[0] != "not_initialised")
    ],
)
@pytest.mark.quick("tasks-not_initialised-tool", "stack-lock-neither", "doctor-nested-debug")
def test_json_is_what_its_schema_says(command: str, program: str, mode: str) -> None:
    schema = json.loads(run("schema", command).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    # truth.c, with its variable thread_count, is in all programs
    words = ["thread_count"] if command == "var" else []
    ran = run(command, stopped(program, mode=mode).core, *words, "--json")
    jsonschema.validate(json.loads(ran.stdout), schema)


def test_the_schema_refuses_what_is_not_an_answer() -> None:
    schema = json.loads(run("schema", "threads").stdout)
    answer = ask("threads", stopped("lock").core)
    answer["threads"][0]["address"] = 5
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, schema)


# Text


def test_equal_threads_are_one_row_and_all_unfolds_them(nested: Stopped) -> None:
    folded, unfolded = run("threads", nested.core), run("threads", nested.core, "--all")
    assert (folded.returncode, unfolded.returncode) == (0, 0)
    assert "6 regions" in folded.stdout and len(folded.stdout.splitlines()) == 6
    assert len(unfolded.stdout.splitlines()) == 3 + len(nested.truth["threads"])
    assert all(str(thread["native_thread_id"]) in unfolded.stdout for thread in nested.truth["threads"])


def test_threads_say_state_wait_and_place() -> None:
    core = stopped("lock")
    text = run("threads", core.core).stdout
    assert re.search(r"[0-3,-]+/4 .*wait_lock +lock &gate +lock\.c:\d+ ", text)
    assert re.search(r"not OpenMP +- +truth\.c:\d+ rest", text)


def test_regions_are_a_tree_and_equal_ones_fold(nested: Stopped) -> None:
    lines = run("parallel", nested.core).stdout.splitlines()[2:]
    assert [re.match(r"\W*", line)[0] for line in lines] == ["", "└─ ", "   └─ "]  # type: ignore[index]
    assert "3 x   parallel  nested.c:31 main" in lines[1] and "2 x   parallel  nested.c:9 innermost" in lines[2]
    unfolded = run("parallel", nested.core, "--all").stdout.splitlines()[2:]
    assert len(unfolded) == len(nested.truth["regions"])


def test_runtimes_say_where_the_layout_is_from() -> None:
    text = run("runtimes", stopped("no_region").core).stdout
    assert re.search(r"layout +published", text) and re.search(r"ompd_dll_locations +libiomp5_db\.so", text)


def test_a_pool_thread_is_idle_and_has_no_number() -> None:
    core = stopped("between").core
    assert re.search(r"^pool +- +\d.* idle +- +-", run("threads", core).stdout, re.MULTILINE)
    # The region has a column only if there are several regions, or with -v.
    assert re.search(r"^pool +- +- .* idle\b.* +- +-", run("threads", core, "-v").stdout, re.MULTILINE)


def test_text_has_colours_only_where_asked(nested: Stopped) -> None:
    assert "\x1b[" not in run("threads", nested.core).stdout
    assert "\x1b[" in run("threads", nested.core, "--color", "always", TERM="xterm").stdout
    assert "\x1b[" not in run("threads", nested.core, "--color", "never", TERM="xterm").stdout


def test_verbose_says_what_is_unknown_and_why() -> None:
    text = run("threads", stopped("lock", mode="neither").core, "-v").stdout
    assert "(derived)" in text and re.search(r"unknown: .*wait_id: ", text)


# Exit codes and usage


def test_wrong_usage_is_2() -> None:
    for arguments in (("threads",), ("threads", "x", "--no-such-option"), ("no-such-command", "x")):
        ran = run(*arguments)
        assert ran.returncode == 2 and ran.stdout == "" and "Traceback" not in ran.stderr, arguments


def test_help_names_commands_options_and_exit_codes() -> None:
    assert all(command in run("--help").stdout for command in KEYS)
    ran = run("threads", "--help")
    assert ran.returncode == 0
    assert all(
        word in ran.stdout for word in ("--json", "--all", "--exe", "--sysroot", "--debug-dir", "Exit codes", "130")
    )


def test_help_groups_the_commands() -> None:
    context = click.Context(cli)
    commands = {name: cli.get_command(context, name) for _, names in GROUPS for name in names}
    text = run("--help").stdout
    assert [line.strip().rstrip(":") for line in text.splitlines() if line.endswith(":")][-len(GROUPS) - 1 :] == [
        *(title for title, _ in GROUPS),
        "Exit codes",
    ]
    for command in commands.values():  # each line fits a terminal of the usual width
        assert command is not None and f"{command.get_short_help_str(80)}\n" in text


def test_version_is_the_packages() -> None:
    assert run("--version").stdout.split()[-1] == ompd.__version__
    described = (CHECKOUT / "pyproject.toml").read_text()
    assert f'version = "{ompd.__version__}"' in described.splitlines()


def test_a_target_alone_means_threads(nested: Stopped, tmp_path: Path) -> None:
    for words in ((), ("--all",), ("--json", "-v")):
        alone, named = run(nested.core, *words), run("threads", nested.core, *words)
        assert (alone.returncode, alone.stdout) == (0, named.stdout), words
    missing = run(tmp_path / "core.1234")
    assert missing.returncode == 1 and "core.1234" in missing.stderr and "Usage" not in missing.stderr
    # No process has a number beyond PID_MAX_LIMIT.
    assert (run("99999999").returncode, run("core.1234").returncode) == (1, 1)


def test_a_mistyped_command_leads_to_the_right_one() -> None:
    for word, near in (("thraeds", "threads"), ("stacks", "stack"), ("task", "tasks"), ("lldbinit", "lldb-init")):
        ran = run(word, "core.1234")
        assert ran.returncode == 2 and f"did you mean '{near}'" in ran.stderr, word
    assert "neither a command nor a file" in run("frobnicate").stderr


def test_python_runs_the_package(nested: Stopped) -> None:
    ran = subprocess.run([sys.executable, "-m", "ompd", "threads", nested.core], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, run("threads", nested.core).stdout)


def test_a_checkout_runs_without_being_installed(nested: Stopped) -> None:
    launcher = CHECKOUT / "cli.py"
    ran = subprocess.run([sys.executable, launcher, "threads", nested.core], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout == run("threads", nested.core).stdout


def test_a_closed_pipe_is_no_error(nested: Stopped) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        ran = subprocess.run(
            [str(OMPD), "threads", str(nested.core), "--all"],
            stdout=out,
            stderr=subprocess.PIPE,
            env=clean_environment(),
        )
    assert b"Traceback" not in ran.stderr and b"BrokenPipe" not in ran.stderr


# The library


def test_the_library_answers_the_same(nested: Stopped) -> None:
    with ompd.open_core(nested.core) as session:
        rows = session.ask_threads().rows
        assert {row.native_thread_id for row in rows} == {t["native_thread_id"] for t in nested.truth["threads"]}
        assert len(session.ask_parallel().rows) == len(nested.truth["regions"])
        assert [runtime.kind for runtime in session.ask_runtimes().rows] == ["libiomp5"]


def test_two_sessions_at_once_do_not_meet(nested: Stopped) -> None:
    other = stopped("two_initial")
    with ompd.open_core(nested.core) as first, ompd.open_core(other.core) as second:
        counts = [(len(s.ask_threads().rows), len(s.ask_parallel().rows)) for s in (first, second, first)]
    assert counts == [(13, 10), (6, 2), (13, 10)]


def test_a_closed_session_says_so(nested: Stopped) -> None:
    session = ompd.open_core(nested.core)
    session.close()
    with pytest.raises(ompd.errors.TargetGone):
        session.ask_threads()
