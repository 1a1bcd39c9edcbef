"""The commands in real gdbs print what the shell prints, in any state of the debugger, and beside other extensions."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ompd
from ompd.commands.main import cli
from ompd.commands.setup.start_files import DEBUGGERS
from ompd.commands.table import COMMANDS
from tests.crafted.cases import Folder
from tests.crafted.formats import CASES
from tests.support import stopped
from tests.support.debs import deb_folder
from tests.support.gdb import HERE, LOAD, NAMES, Replies, batch, gdb, open_core, replies
from tests.support.lldb import LOAD as LOAD_IN_LLDB
from tests.support.lldb_replies import NAMED, WORDS
from tests.support.products import each_gdb, sample
from tests.support.terminal import Terminal

pytestmark = pytest.mark.xdist_group("gdb")

PACKAGE = Path(ompd.__file__).parent
SCRIPT = PACKAGE / "gdb_script.py"
OPTIONS = ("", "--all", "-v", "--json")
NO_PROCESS = "ompd: there is no process\nompd: run the program, attach to it, or load a core file\n"


def opened(name: str) -> tuple[str, ...]:
    core = stopped(name)
    return open_core(core.executable, core.core)


def shell(*words: str) -> str:
    return CliRunner().invoke(cli, words).output


def bare(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


@each_gdb()
def test_text_and_json_are_those_of_the_shell(found: str) -> None:
    core = stopped("task_tree").core
    asked = [(c.name, option) for option in OPTIONS for c in COMMANDS if option != "--all" or c.folds]
    words = [f"omp {WORDS[name]} {option}".rstrip() for name, option in asked]
    told = replies(*opened("task_tree"), *words, name=found)
    for name, option in asked:
        printed = told[f"omp {WORDS[name]} {option}".rstrip()]
        expected = shell(name, str(core), *WORDS[name].split()[1:], *option.split())
        if option == "--json":
            there, here = without_numbers(json.loads(printed)), without_numbers(json.loads(expected))
            assert there == here
        elif name in ("threads", "var"):
            assert without_column(printed) == without_column(expected)
        else:
            # The command to type next names no core in gdb.
            assert (
                bare(printed) == bare(expected.replace(f"stack {shlex.quote(str(core))} ", "stack "))
                and len(bare(printed)) > 1
            )


def without_numbers(answer: dict[str, Any]) -> dict[str, Any]:
    # An answer also has the layouts that earlier questions on the same target used.
    for runtime in answer["runtimes"]:
        del runtime["layouts"]
    for row in (*answer.get("threads", ()), *answer.get("var", ())):
        row.pop("gdb_index", None)
    return answer


def without_column(text: str) -> list[str]:
    lines = bare(text)
    head = next(number for number, line in enumerate(lines) if "THREADS" in line)
    found = re.search(r"GDB +", lines[head])
    begin, end = found.span() if found is not None else (0, 0)
    last = next((number for number, line in enumerate(lines) if number > head and not line), len(lines))
    return [
        re.sub(r" +", " ", line[:begin] + line[end:]) if head <= number < last else line
        for number, line in enumerate(lines)
    ]


@each_gdb()
def test_stacks_are_those_of_the_shell(found: str) -> None:
    core = stopped("task_tree", compiler="clang")
    team = [t["native_thread_id"] for t in core.truth["threads"] if t["role"] == "team"]
    asked = ("--raw", "--fold", "--thread 1", f"--thread {team[-1]}", f"--raw --thread {team[0]}")
    told = replies(*open_core(core.executable, core.core), *(f"omp stack {words}" for words in asked), name=found)
    for words in asked:
        printed = told[f"omp stack {words}"]
        assert bare(printed) == bare(shell("stack", str(core.core), *words.split())) and len(bare(printed)) > 2


# Wrong commands, and the beginning of their errors.
WRONG = {
    "omp threads --bogus": "ompd: threads has no option --bogus\nompd: it has --",
    "omp thread 4": "ompd: the team has 4 threads, 0 to 3, and no 4",
    "omp thread two": "ompd: 'two' is not an OpenMP thread number",
    "omp thread 1 2": "ompd: thread takes the OpenMP number of a thread\nompd: ompd thread N; ompd threads shows them",
    "omp thread --level 7 0": "ompd: thread N is in no region of level 7",
    "omp stack --thread 99": "ompd: ",
    "omp stack --thread '1": "ompd: no closing quotation",
    "omp var": "ompd: var needs NAME",
    "omp var a b": "ompd: var takes no 'b'",
    "omp print": "ompd: print needs NAME",
    "omp status 1": "ompd: status takes no '1'",
    "omp nosuch": 'Undefined omp command: "nosuch".  Try "help omp".',
    "omp snapshot": "ompd: snapshot takes the name of the file to write",
    "omp snapshot /nowhere/file": "ompd: /nowhere/file",
}
HERE_NOW = "frame 3", "python print(gdb.selected_thread().num, gdb.selected_frame().level())"


@cache
def of_hang(found: str) -> Replies:
    """Return the replies to all commands of one run on a core."""
    return replies(
        *(*opened("hang"), "info threads", "omp threads --json", "omp threads --all", "thread 2", *HERE_NOW),
        *(f"omp {words}" for words in WORDS.values()),
        *("omp status", "omp", HERE_NOW[1]),
        *(part for number in range(4) for part in (f"omp thread {number}", "thread")),
        *WRONG,
        *("help omp", *(f"help omp {c.name}" for c in COMMANDS), "omp icvs --help", "omp icvs --debug --bogus"),
        *("complete omp thr", "complete omp threads --", "complete omp threads --js", "complete omp var x --format"),
        *("complete ompd st", "complete omp thread --ompd-library n"),
        name=found,
    )


@each_gdb()
def test_threads_have_the_numbers_of_gdb(found: str) -> None:
    told = of_hang(found)
    listed = re.findall(r"^[* ] (\d+) .*\bLWP (\d+)", told["info threads"], re.MULTILINE)
    numbers = {int(native): int(number) for number, native in listed}
    rows = json.loads(told["omp threads --json"])["threads"]
    assert {row["native_thread_id"]: row["gdb_index"] for row in rows} == numbers and len(numbers) == 5
    for row in rows:
        line = next(x for x in told["omp threads --all"].splitlines() if f"  {row['native_thread_id']} " in x)
        assert f"  {row['gdb_index']} " in line


@each_gdb()
def test_looking_keeps_the_selection(found: str) -> None:
    before, after = of_hang(found).all(HERE_NOW[1])
    assert before == after == "2 3\n"


@each_gdb()
def test_a_thread_is_selected_by_its_number(found: str) -> None:
    told = of_hang(found)
    team = {t["thread_num"]: t["native_thread_id"] for t in stopped("hang").truth["threads"] if t["role"] == "team"}
    for number, selected in zip(range(4), told.all("thread"), strict=True):
        assert f"OpenMP thread {number}/4 at level 1 is gdb's thread " in told[f"omp thread {number}"]
        assert re.search(r"\n#\d+ .*(report_progress|simulate).* at .*hang\.c:\d+\n", told[f"omp thread {number}"])
        assert f"LWP {team[number]})" in selected


@each_gdb()
def test_the_prefix_alone_lists_the_threads(found: str) -> None:
    told = of_hang(found)
    assert told["omp"] == told[f"omp {WORDS['threads']}"]


@each_gdb()
def test_wrong_words_are_answered_in_words(found: str) -> None:
    told = of_hang(found)
    for words, answer in WRONG.items():
        printed = re.sub(r"thread \d+", "thread N", told[words])
        assert printed.startswith(answer), words
        assert "Traceback" not in printed and "Error" not in printed
    assert "Traceback" in told["omp icvs --debug --bogus"]


@each_gdb()
def test_a_thread_that_gdb_has_lost_is_none(found: str) -> None:
    # gdb is in this state between a thread's end and the moment when it notices.
    lost = "python gdb.selected_thread = lambda: exec('raise SystemError(\"could not find gdb thread object\")')"
    asked = ("omp threads", "omp stack", "omp status")
    told = replies(*opened("task_tree"), *asked, lost, *(f"{words} " for words in asked), "omp thread", name=found)
    assert [told[f"{words} "] for words in asked] == [told[words] for words in asked]
    assert told["omp thread"].startswith("ompd: no thread is selected")


@each_gdb()
def test_help_and_completion(found: str) -> None:
    told = of_hang(found)
    for command in COMMANDS:
        assert f"omp {command.name} -- {command.summary}" in told["help omp"]
        helped = told[f"help omp {command.name}"]
        assert helped.startswith(f"{command.summary}\n\n{command.help[:60]}")
        assert f"(gdb) ompd {command.name}" in helped and "--json" in helped
    assert told["omp icvs --help"].split() == told["help omp icvs"].split()[-len(told["omp icvs --help"].split()) :]
    assert told["complete omp thr"] == "omp thread\nomp threads\n"
    listed = told["complete omp threads --"].split("\n")
    for name in ("all", "json", "verbose", "debug", "help", "ompd-library"):
        assert f"omp threads --{name}" in listed
    assert told["complete omp threads --js"] == "omp threads --json\n"
    assert "omp var x --format\n" in told["complete omp var x --format"]
    assert told["complete ompd st"] == "ompd stack\nompd status\nompd step\n"
    assert told["complete omp thread --ompd-library n"] == "omp thread --ompd-library named\n"


def test_tab_completes(tmp_path: Path) -> None:
    found = gdb()
    environment = {**found.environment, "TERM": "xterm", "HOME": str(tmp_path)}
    with Terminal([*found.command, "-nx", "-q", "-ex", LOAD], cwd=tmp_path, env=environment) as terminal:
        terminal.wait_for(r"\(gdb\) ")
        terminal.type("omp ic\t--ch\t\n")
        terminal.wait_for(r"omp icvs --changed *\n")
        terminal.wait_for(r"ompd: there is no process\n")


@each_gdb()
def test_without_a_process_they_say_so(found: str) -> None:
    told = replies("omp threads", "omp status", "file /bin/true", "omp thread 1", "starti", "ompd threads", name=found)
    assert told["omp threads"] == told["omp thread 1"] == NO_PROCESS
    assert re.search(r"^process   there is no process$", told["omp status"], re.MULTILINE)
    assert re.fullmatch(
        r"ompd: process \d+: no OpenMP runtime among its \d modules\n"
        r"ompd: the program was not linked with one, or ended before it was loaded\n",
        told["ompd threads"],
    )


@each_gdb()
def test_loading_says_nothing_and_leaves_nothing(found: str) -> None:
    look = "python print(sorted(n for n in globals() if 'ompd' in n.lower()), [n for n in sys.modules if 'ompd' in n])"
    paths = "python import sys; print(sys.path)"
    told = batch(gdb(found), [paths, LOAD, look, LOAD, "omp threads", look, paths], cwd=Path("/tmp"))
    assert told.all(LOAD) == ["", ""]
    assert told.all(look) == 2 * ["[] ['ompd_in_gdb']\n"]
    before, after = told.all(paths)
    assert before == after


# LLVM's own plugin, whose commands have the same names. It prints its own tracebacks if it finds no library.


@pytest.mark.parametrize(
    ("found", "version", "first"),
    # Debian 13's Python loads neither version: one imports `imp`, the other has a C module for Python 3.11.
    sample([(HERE, version, first) for version in (19, 22) for first in (True, False)]),
)
@pytest.mark.quick()
def test_it_lives_beside_llvms_plugin(found: str, version: int, first: bool) -> None:
    root = deb_folder(f"libompd-{version}") / "usr" / "lib" / f"llvm-{version}" / "share" / "gdb" / "python"
    theirs = f"source {root / 'ompd' / '__init__.py'}"
    whose = "python import ompd; print(ompd.__file__)"
    asked = ("omp threads", "omp var truth_held", "omp thread 1", "omp stack --thread 1", "omp icvs")
    alone = batch(gdb(found), [LOAD, *opened("hang"), *asked], cwd=Path("/tmp"))
    order = (LOAD, theirs) if first else (theirs, LOAD)
    told = batch(
        gdb(found), [*order, "help ompd", *opened("hang"), *asked, whose, "omp status", "ompd icvs"], cwd=Path("/tmp")
    )
    assert "OMPD GDB support loaded" in told[theirs] and told[LOAD] == ""
    assert "ompd init -- Find and initialize OMPD library" in told["help ompd"]
    for words in asked:
        assert told[words] == alone[words]
    assert told[whose] == f"{root / 'ompd' / 'ompd.py'}\n"
    assert "prefix    omp; ompd is another package's here\n" in told["omp status"]
    assert "no such" not in told["ompd icvs"].lower() and "ModuleNotFoundError" not in told["ompd icvs"]


@each_gdb()
def test_what_is_missing_is_named(found: str, tmp_path: Path) -> None:
    look = "python import importlib.util; print([n for n in ('click', 'rich') if importlib.util.find_spec(n) is None])"
    shutil.copytree(PACKAGE, tmp_path / "ompd", ignore=shutil.ignore_patterns("__pycache__"))
    load = f"source {tmp_path / 'ompd' / 'gdb_script.py'}"
    told = batch(gdb(found), [look, load, "omp threads", "show version"], cwd=tmp_path)
    if "['click', 'rich']" not in told[look]:
        pytest.skip("gdb's own Python has click and rich")
    assert told[load].startswith("ompd: ompd needs the Python packages click and rich, and they are not in")
    assert "`ompd gdb-init` names" in told[load] and "Traceback" not in told[load]
    assert 'Undefined command: "omp"' in told["omp threads"]


def test_another_installation_is_not_mixed_with_this_one(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "ompd", ignore=shutil.ignore_patterns("__pycache__"))
    load = f"source {tmp_path / 'ompd' / 'gdb_script.py'}"
    told = batch(gdb(), [LOAD, load, *opened("hang"), "omp threads"], cwd=tmp_path)
    assert told[load] == f"ompd: another ompd is loaded already, from {PACKAGE}/__init__.py: start gdb anew\n"
    assert "report_progress" in told["omp threads"]


# Files that could do harm


WALKED = ("thread", "thread 0", f"print {NAMED}", f"print *{NAMED}", "break main", "step", "next --only", "finish")


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("modules/") and "escape" in name][:2])
def test_a_hostile_core_prints_no_escape_and_no_traceback(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "case")
    folder.path.mkdir()
    CASES[name].make(folder)
    core = next(path for path in sorted(folder.path.iterdir()) if path.read_bytes()[16:18] == b"\4\0")
    asked = [f"omp {words}" for words in (*WORDS.values(), *WALKED)]
    told = batch(gdb(), [LOAD, f"core-file {core}", *asked, "omp threads --json", "omp status"], cwd=tmp_path)
    for words in (*asked, "omp threads --json", "omp status"):
        assert told[words]
        assert "\x1b" not in told[words] and "\x07" not in told[words] and "Traceback" not in told[words]


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_of_any_language_are_printed_in_any_locale(locale: str, tmp_path: Path) -> None:
    core = stopped("hang")
    shutil.copy(core.core, tmp_path / "core.größe")
    load = f"core-file {tmp_path}/core.größe"
    told = batch(gdb(), [LOAD, load, "omp threads", "omp stack -v"], cwd=tmp_path, environment={"LC_ALL": locale})
    assert "report_progress" in told["omp threads"]
    assert ("core.größe" if locale == "C.UTF-8" else "core.gr") in told["omp threads"].splitlines()[0]


def test_nothing_in_the_current_folder_runs(tmp_path: Path) -> None:
    for name in ("click", "rich", "ompd", "lz4", "json"):
        (tmp_path / f"{name}.py").write_text("open('marker', 'w')\n")
    environment = {"PYTHONPATH": ""}
    told = batch(gdb(), [LOAD, *opened("hang"), "omp threads"], cwd=tmp_path, environment=environment)
    assert "report_progress" in told["omp threads"] and not (tmp_path / "marker").exists()


# The line in the debuggers' init files


def run_init(debugger: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("ompd")), f"{debugger}-init", *arguments],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("debugger", "name", "line"), [("gdb", ".gdbinit", LOAD), ("lldb", ".lldbinit", LOAD_IN_LLDB)])
def test_the_line_is_written_once_and_removed(debugger: str, name: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / name
    command, _, path = line.rpartition(" ")
    olds = "".join(f"{command} /old{n}/ompd/{Path(path.strip(chr(34))).name}\n" for n in range(2))
    file.write_text(f"first\n{olds}last\n")
    assert run_init(debugger, tmp_path).stdout == f"{line}\n"
    assert run_init(debugger, tmp_path, "--install").stdout == f"{file}: added: {line}\n"
    assert file.read_text() == f"first\n{line}\nlast\n"
    assert run_init(debugger, tmp_path, "--install").stdout == f"{file}: has it already: {line}\n"
    assert run_init(debugger, tmp_path, "--uninstall").stdout == f"{file}: removed\n"
    assert file.read_text() == "first\nlast\n"
    assert run_init(debugger, tmp_path, "--uninstall").stdout == f"~/{name}: has no line of ompd's\n"
    both = run_init(debugger, tmp_path, "--install", "--uninstall")
    assert both.returncode == 1 and "exclude each other" in both.stderr


def test_gdb_reads_the_line_from_the_file_that_it_is_in(tmp_path: Path) -> None:
    found = gdb()
    for file in (tmp_path / ".gdbinit", tmp_path / ".config" / "gdb" / "gdbinit"):
        if file.parent != tmp_path:
            file.parent.mkdir(parents=True)
            file.write_text("set confirm off\n")
        assert run_init("gdb", tmp_path, "--install").stdout == f"{file}: added: {LOAD}\n"
        told = batch(found, ["omp status"], cwd=tmp_path, reads_files=True)
        assert f"ompd      {ompd.__version__}, {SCRIPT}\n" in told["omp status"]
    assert run_init("gdb", tmp_path, "--uninstall").stdout.count(": removed\n") == 2
    assert 'Undefined command: "omp"' in batch(found, ["omp status"], cwd=tmp_path, reads_files=True)["omp status"]


# The API of gdb 12


# Names in the module gdb (its manual, "Python API"), and members of its classes.
GDB_12 = {
    "gdb": "BP_BREAKPOINT Breakpoint COMMAND_DATA COMPLETE_NONE Command Function GdbError INLINE_FRAME VERSION"
    " breakpoints error events execute frame_filters newest_frame parameter parse_and_eval selected_frame"
    " selected_inferior selected_thread solib_name write",
    "gdb.events": "clear_objfiles cont exited inferior_call memory_changed new_objfile register_changed stop",
    "Inferior": "architecture connection is_valid num pid progspace read_memory threads",
    "InferiorThread": "global_num is_running is_valid num ptid switch",
    "Breakpoint": "condition delete enabled is_valid number pending silent thread type",
    "TargetConnection": "type",
    "Frame": "is_valid level name older pc read_register select type",
    "Architecture": "name",
    "Progspace": "filename objfiles",
    "Objfile": "filename owner",
    "EventRegistry": "connect disconnect",
    "Command": "",
}
# Names that other objects have as well. Their uses belong to those objects.
OF_RECORDS = {"address", "end", "function", "line", "number", "registers", "size", "start", "target", "thread"}
OF_OTHERS = {*dir(dict), *dir(str), *dir(list), *OF_RECORDS}
MEMBERS = (
    "python import json; print('ANSWER' + json.dumps({name: sorted(n for n in dir(member) if n[0] != '_')"
    " for name, member in vars(gdb).items() if isinstance(member, type) and member.__module__ == 'gdb'"
    " and name[0] != '_' and name != 'Thread' and not issubclass(member, BaseException)}"
    " | {'gdb': sorted(vars(gdb)), 'gdb.events': sorted(vars(gdb.events))}))"
)
FILES = [SCRIPT, *(PACKAGE / "gdb").glob("*.py"), *(PACKAGE / "debugger" / "targets" / "gdb").glob("*.py")]


@cache
def members_of(found: str) -> dict[str, set[str]]:
    printed = batch(gdb(found), [MEMBERS], cwd=Path("/tmp"))[MEMBERS]
    return {name: set(names) for name, names in json.loads(printed.partition("ANSWER")[2]).items()}


def attributes(tree: ast.Module) -> set[tuple[str, str]]:
    """Return the attributes that a file uses: the text of the owner, and the attribute's name."""
    return {(ast.unparse(node.value), node.attr) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("found", NAMES)
def test_only_what_gdb_12_has_is_used(found: str) -> None:
    known = {of: set(names.split()) for of, names in GDB_12.items()}
    there = members_of(found)
    for of, names in known.items():
        assert names <= there[of], f"{of} of {found} lacks {names - there[of]}"
    of_objects = set().union(*(names for of, names in known.items() if not of.startswith("gdb")))
    all_members = set().union(*(names for of, names in there.items() if not of.startswith("gdb")))
    used_of_gdb: set[str] = set()
    for path in FILES:
        for owner, name in attributes(ast.parse(path.read_text())):
            if owner == "events":
                owner = "gdb.events"
            if owner in ("gdb", "gdb.events"):
                assert name in known[owner], f"{path.name} uses {owner}.{name}"
                used_of_gdb.add(name)
            elif name in all_members - OF_OTHERS:
                assert name in of_objects | known["gdb"], f"{path.name} uses {owner}.{name}"
    assert used_of_gdb == known["gdb"] | known["gdb.events"], "the list names what is not used"


def test_what_is_newer_than_gdb_12_is_noticed() -> None:
    newer = ast.parse("import gdb\ngdb.execute_mi('x')\ngdb.selected_inferior().clear_env()\n")
    used = {name for _, name in attributes(newer)}
    assert {"execute_mi", "clear_env"} <= used
    names = set(" ".join(GDB_12.values()).split())
    assert not {"execute_mi", "clear_env"} & names
    assert "clear_env" in members_of(NAMES[1])["Inferior"]


def test_the_debuggers_are_those_that_have_a_script() -> None:
    assert {debugger.script for debugger in DEBUGGERS.values()} == {*PACKAGE.glob("*_script.py")}
