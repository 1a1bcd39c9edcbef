"""Completion in real shells, the manual page, and ``ompd setup``, which leaves a home as it was.

``python -m tests.commands.test_shells`` rewrites the files in ``share/``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ompd.commands.completing import VARIABLE
from ompd.commands.main import cli
from ompd.commands.setup.completion import SHELLS, format_completion
from ompd.commands.setup.manual import format_manual, leaves
from ompd.commands.setup.start_files import DEBUGGERS, format_line
from ompd.commands.table import GROUPS
from tests.support import clean_environment
from tests.support.cache import CHECKOUT
from tests.support.machine import require
from tests.support.terminal import Terminal

COMPLETIONS = {shell: format_completion(shell) for shell in SHELLS}
MANUAL = format_manual(cli)
COMMANDS = {leaf.name: leaf for leaf in leaves(cli)}
FIRST = {name.partition(" ")[0] for name in COMMANDS}
SHARED = {
    "share/bash-completion/completions/ompd": COMPLETIONS["bash"],
    "share/zsh/site-functions/_ompd": COMPLETIONS["zsh"],
    "share/fish/vendor_completions.d/ompd.fish": COMPLETIONS["fish"],
    "share/man/man1/ompd.1": MANUAL,
}
BASH, ZSH, FISH, PAGE = (CHECKOUT / name for name in SHARED)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment whose PATH has only ``ompd`` and the programs that click's shell functions start."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("env", "bash", "ls"):
        (folder / name).symlink_to(str(shutil.which(name)))
    ompd = folder / "ompd"
    ompd.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(CHECKOUT))} exec {shlex.quote(sys.executable)} -m ompd "$@"\n'
    )
    ompd.chmod(0o755)
    return {"PATH": str(folder), "LC_ALL": "C.UTF-8"}


def options_of(name: str) -> set[str]:
    return {word for switch in COMMANDS[name].switches for word in switch.words}


@pytest.mark.parametrize("name", SHARED)
def test_the_files_of_a_wheel_are_what_the_commands_print(name: str) -> None:
    assert (CHECKOUT / name).read_text() == SHARED[name], "python -m tests.commands.test_shells"


def completed(*words: str) -> set[str]:
    """Return click's completions of the last word for bash."""
    variables = {VARIABLE: "bash_complete", "COMP_WORDS": shlex.join(("ompd", *words[:-1])) + f" {words[-1]}"}
    told = CliRunner().invoke(cli, prog_name="ompd", env={**variables, "COMP_CWORD": str(len(words))})
    return {line.partition(",")[2] for line in told.output.splitlines() if line.startswith("plain,")}


def test_every_command_and_option_is_completed() -> None:
    assert completed("") == FIRST
    for name in COMMANDS:
        assert completed(*name.split(), "--") == {word for word in options_of(name) if word.startswith("--")}, name


# bash


def in_bash(programs: dict[str, str], *words: str, cwd: Path = CHECKOUT) -> list[str]:
    """Return bash's completions of the last word, without a terminal. Options from ``compopt`` have a colon."""
    script = (
        f'. "{BASH}"; compopt() {{ COMPREPLY+=(":$2"); }}; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1));'
        ' _ompd_completion ompd; printf "%s\\n" "${COMPREPLY[@]-}"'
    )
    done = subprocess.run(
        [shutil.which("bash") or "/bin/bash", "--norc", "-uc", script, "bash", "ompd", *words],
        env=programs,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()


def test_bash_takes_the_file_for_the_command(programs: dict[str, str]) -> None:
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", f'. "{BASH}"; complete -p ompd'], env=programs, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o nosort -F _ompd_completion ompd\n"


def test_bash_completes_commands_options_and_values(programs: dict[str, str]) -> None:
    complete = partial(in_bash, programs)
    assert set(complete("")) == {*FIRST, ":default"}
    assert complete("sta") == [":default", "stack"] and set(complete("layout", "")) == {"show", "add"}
    assert set(complete("-")) == {"--version", "-h", "--help"}
    assert set(complete("core.1", "--")) == set(complete("threads", "core.1", "--")) > {"--csv", "--json"}
    for words in (["--color", "a"], ["--color", "=", "a"], ["core.1", "--exe", "=", "/bin/x", "--color", "a"]):
        assert set(complete("stack", *words)) == {"auto", "always"}, words
    assert set(complete("stack", "core.1", "--color", "=")) == {"auto", "always", "never"}
    assert set(complete("schema", "t")) == {"threads", "tasks", "triage"} and complete("completion", "f") == ["fish"]
    assert set(complete("layout", "add", "libgomp.debug", "--runtime", "lib")) == {"libgomp", "libomp"}
    assert complete("stack", "core.1", "--ompd-library", "n") == [":default", "named"]


@pytest.mark.quick()
def test_bash_leaves_names_of_files_to_itself_and_offers_processes(programs: dict[str, str]) -> None:
    complete = partial(in_bash, programs)
    for words in (["stack", "RE"], ["stack", "core.1", "--exe", "/b"], ["snapshot", "1", "-o", ""]):
        assert complete(*words) == [":default"], words
    for words in (["stack", "--sysroot", "om"], ["stack", "core.1", "--debug-dir", "R"], ["stack", "--plugins", ""]):
        assert complete(*words) == [":dirnames"], words
    assert complete("var", "core.1", "x") == []
    mine = str(os.getpid())
    assert mine in complete("stack", mine[:-1]) and mine in complete(mine)
    assert mine not in complete("var", "core.1", mine[:-1])  # the word is a variable's name, not a process


def test_nothing_that_is_typed_or_found_is_run(programs: dict[str, str], tmp_path: Path) -> None:
    for name in ("$(touch pwned)", "`touch pwned`", "a;touch pwned"):
        (tmp_path / name).mkdir()
        for words in ([name], ["stack", name], ["stack", "--sysroot", name[:1]], ["stack", "--color", name]):
            in_bash(programs, *words, cwd=tmp_path)
    assert not (tmp_path / "pwned").exists()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "core with spaces").touch()
    return folder


def test_tab_completes_in_bash(home: Path, programs: dict[str, str]) -> None:
    environment = {**programs, "HOME": str(home), "TERM": "dumb", "PS1": "ready> ", "HISTFILE": ""}
    with Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], cwd=home, env=environment) as terminal:
        terminal.type(f"bind 'set enable-bracketed-paste off'; . '{BASH}'\n")
        terminal.wait_for(r"\nready> $")
        terminal.type("ompd sta\t")
        terminal.wait_for("ompd stack ")
        terminal.type("--loc\t")
        terminal.wait_for("--locals ")
        terminal.type("core\t")
        terminal.wait_for(r"core\\ with\\ spaces ")
        terminal.type("--color=nev\t")
        terminal.wait_for("--color=never ")


def test_tab_completes_in_zsh(home: Path, programs: dict[str, str]) -> None:
    zsh = str(require("zsh"))
    subprocess.run([zsh, "-n", str(ZSH)], check=True)
    environment = {**programs, "HOME": str(home), "ZDOTDIR": str(home), "TERM": "dumb", "PS1": "ready> "}
    found = f"fpath=('{ZSH.parent}' $fpath); autoload -U compinit; compinit -u -D"
    with Terminal([zsh, "-f", "-i"], cwd=home, env=environment) as terminal:
        terminal.wait_for("ready> ")
        terminal.type(f"unsetopt zle_bracketed_paste; PS1='go> '; {found}\n")
        terminal.wait_for("go> $")
        terminal.type("ompd sta\t")
        terminal.wait_for("ompd stack ")
        terminal.type("--loc\t")
        terminal.wait_for("--locals ")
        terminal.type("core\t")
        terminal.wait_for(r"core\\ with\\ spaces ")
        terminal.type("--color=nev\t")
        terminal.wait_for("--color=never ")
        terminal.type("\x15ompd layout ad\t")
        terminal.wait_for("layout add ")
        terminal.type("--runtime=libg\t")
        terminal.wait_for("--runtime=libgomp ")
        terminal.type(f"\x15ompd thr\t{os.getpid()}"[:-1] + "\t")
        terminal.wait_for(f"ompd threads [\b ]*{os.getpid()}"[:-1])  # the shell may redraw the end of the line


def in_fish(programs: dict[str, str], line: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [str(require("fish")), "--no-config", "-c", f"source '{FISH}'; complete -C {line!r}"],
        env={**clean_environment(), **programs, "HOME": str(cwd)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return {row.partition("\t")[0] for row in done.stdout.splitlines()}


def test_fish_completes(home: Path, programs: dict[str, str]) -> None:
    def complete(line: str) -> set[str]:
        return in_fish(programs, line, home)

    assert complete("ompd ") >= FIRST
    assert complete("ompd sta") == {"stack"}
    assert complete("ompd layout ") == {"add", "show"}
    long = {word for word in options_of("stack") if word.startswith("--")}
    assert {word.removesuffix("=") for word in complete("ompd stack --")} == long
    assert complete("ompd stack x --color ") == {"auto", "always", "never"}
    assert complete("ompd stack x --color=nev") == {"--color=never"}
    assert "--exe=core" in {word.partition("\\")[0].partition(" ")[0] for word in complete("ompd stack x --exe=cor")}
    assert "core with spaces" in {word.replace("\\", "") for word in complete("ompd stack core")}
    assert complete("ompd completion ") == {"bash", "zsh", "fish"}
    assert str(os.getpid()) in complete(f"ompd stack {os.getpid()}"[:-1])


# Manual page


def test_the_manual_page_has_all_commands_and_options() -> None:
    man = str(require("man"))
    environment = {**clean_environment(), "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "MANROFFOPT": "", "PAGER": "cat"}
    done = subprocess.run(
        [man, "--warnings=w", "-l", str(PAGE)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    text = re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)
    for name, leaf in COMMANDS.items():
        part = re.search(rf"^   ompd {name}\b.*?(?=^   ompd |^EXIT)", text, re.MULTILINE | re.DOTALL)
        assert part is not None, name
        shared = text[: text.index("\nCOMMANDS\n")]
        assert all(switch.words[-1] in part[0] or switch.words[-1] in shared for switch in leaf.switches), name
    assert "$ ompd threads core.1234\n" in text and "1/4      1      1235" in text
    assert "130    interrupted" in text


# Set-up


HOME_ALONE = {**clean_environment(), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}


def tree(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def set_up(home: Path, *options: str, code: int = 0, **variables: str) -> tuple[list[str], str]:
    programs = home.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("bash", "zsh", "fish", "gdb"):
        program = programs / name
        program.touch()
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "ompd", "setup", *options],
        env={**HOME_ALONE, "PATH": str(programs), "HOME": str(home), **variables, "PYTHONPATH": str(CHECKOUT)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done
    return done.stdout.splitlines(), done.stderr


WRITTEN = {
    ".local/share/bash-completion/completions/ompd": COMPLETIONS["bash"],
    ".local/share/zsh/site-functions/_ompd": COMPLETIONS["zsh"],
    ".config/fish/completions/ompd.fish": COMPLETIONS["fish"],
    ".local/share/man/man1/ompd.1": MANUAL,
}


def files_named(said: Sequence[str], what: str) -> set[str]:
    return {line.partition(": ")[0] for line in said if line.partition(": ")[2].startswith(what)}


def test_set_up_writes_what_it_says_and_takes_it_back(home: Path) -> None:
    (home / ".gdbinit").write_text("set confirm off\n")
    before = tree(home)
    planned, _ = set_up(home, "--dry-run")
    assert tree(home) == before and not (home / ".local").exists()
    said, _ = set_up(home)
    after = tree(home)
    assert {name: after[name].decode() for name in WRITTEN if isinstance(after[name], bytes)} == WRITTEN  # type: ignore[union-attr]
    assert after[".gdbinit"] == f"set confirm off\n{format_line(DEBUGGERS['gdb'])}\n".encode()
    new = {str(home / name) for name in after if after[name] != before.get(name)}
    assert new == files_named(said, "written") | files_named(said, "added")
    assert new == files_named(planned, "would be written") | files_named(planned, "would be added")
    assert any(f"fpath=({home}/.local/share/zsh/site-functions $fpath)" in line for line in said)
    again, _ = set_up(home)
    assert tree(home) == after and new == files_named(again, "is so already") | files_named(again, "has it already")
    planned, _ = set_up(home, "--undo", "--dry-run")
    assert tree(home) == after and files_named(planned, "would be removed") == new
    removed, _ = set_up(home, "--undo")
    assert files_named(removed, "removed") == new
    left = tree(home)
    assert left.pop(".lldbinit", b"") == b"" and left == before and not (home / ".local").exists()
    assert set_up(home, "--undo")[0] == ["there is nothing of ompd's"]


def test_set_up_replaces_what_another_release_wrote_and_nothing_else(home: Path) -> None:
    page, theirs = home / ".local/share/man/man1/ompd.1", home / ".config/fish/completions/ompd.fish"
    for file in (page, theirs):
        file.parent.mkdir(parents=True)
    page.write_text('.\\" made by `ompd manual`, ompd 0.1.0\nold\n')
    theirs.write_text("# mine\n")
    said, error = set_up(home, code=1)
    assert str(page) in files_named(said, "written") and page.read_text() == MANUAL
    assert (
        error
        == f"ompd: {theirs}: is not touched: ompd did not write it\nompd: move it away if ompd is to write this file\n"
    )
    _, error = set_up(home, "--undo", code=1)
    assert theirs.read_text() == "# mine\n" and not page.exists() and str(theirs) in error


def test_set_up_follows_no_link_out_of_the_home(home: Path) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    (outside / "gdbinit").write_text("theirs\n")
    (home / ".gdbinit").symlink_to(outside / "gdbinit")
    (home / ".local").symlink_to(outside)
    (home / "dot").mkdir()
    (home / ".config").symlink_to(home / "dot")
    before = tree(outside)
    said, error = set_up(home, code=1)
    assert tree(outside) == before and not files_named(said, "written") - {
        str(home / ".config/fish/completions/ompd.fish")
    }
    assert (home / "dot/fish/completions/ompd.fish").read_text() == COMPLETIONS["fish"]
    assert error.count("is not touched: links lead out of") == 4
    set_up(home, "--undo", code=1)
    assert tree(outside) == before and tree(home / "dot") == {}


def test_set_up_takes_the_folders_that_its_user_has_named(home: Path) -> None:
    data = home.parent / "data"
    data.mkdir()
    set_up(home, XDG_DATA_HOME=str(data), XDG_CONFIG_HOME="relative")  # relative paths are ignored
    assert (data / "man/man1/ompd.1").read_text() == MANUAL
    assert (home / ".config/fish/completions/ompd.fish").exists() and not (home / ".local").exists()
    done = subprocess.run(
        [sys.executable, "-m", "ompd", "setup"],
        env={**HOME_ALONE, "HOME": str(home / "none"), "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 1
        and done.stderr == f"ompd: {home}/none: is no folder, and should be your home\nompd: set HOME\n"
    )


@pytest.mark.parametrize("words", [("setup", "--dry-run"), ("lldb-init", "--uninstall"), ("gdb-init", "--uninstall")])
def test_an_empty_home_is_none(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ompd", *words],
        env={**HOME_ALONE, "HOME": "", "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ompd: HOME: is no folder, and should be your home\nompd: set HOME\n"


def test_every_command_has_a_place_in_the_help() -> None:
    assert {name for _, names in GROUPS for name in names} == FIRST
    assert isinstance(cli.get_command(click.Context(cli), "layout"), click.Group)


if __name__ == "__main__":
    for name, text in SHARED.items():
        (CHECKOUT / name).parent.mkdir(parents=True, exist_ok=True)
        (CHECKOUT / name).write_text(text)
