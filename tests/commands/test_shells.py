"""Completion in shells, the manual page, and ``ompd setup``: shells really complete, and a home is left as it was.

``python -m tests.commands.test_shells`` writes the files in ``share/`` anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from ompd.commands.main import cli
from ompd.commands.setup.installing import texts_of
from ompd.commands.setup.start_files import DEBUGGERS, format_line
from ompd.commands.setup.words import leaves
from ompd.commands.table import GROUPS
from tests.support import clean_environment
from tests.support.cache import CHECKOUT
from tests.support.machine import require
from tests.support.terminal import Terminal

TEXTS = texts_of(cli)
COMMANDS = {leaf.name: leaf for leaf in leaves(cli)}
FIRST = {name.partition(" ")[0] for name in COMMANDS}
SHARED = {
    "share/bash-completion/completions/ompd": TEXTS.completions["bash"],
    "share/zsh/site-functions/_ompd": TEXTS.completions["zsh"],
    "share/fish/vendor_completions.d/ompd.fish": TEXTS.completions["fish"],
    "share/man/man1/ompd.1": TEXTS.manual,
}
BASH, ZSH, FISH, PAGE = (CHECKOUT / name for name in SHARED)
# A shell finds no program, so none can be started.
NO_PROGRAMS = {"PATH": "/nonexistent", "LC_ALL": "C.UTF-8"}


def options_of(name: str) -> set[str]:
    return {word for switch in COMMANDS[name].switches for word in switch.words}


@pytest.mark.parametrize("name", SHARED)
def test_the_files_of_a_wheel_are_what_the_commands_print(name: str) -> None:
    assert (CHECKOUT / name).read_text() == SHARED[name], "python -m tests.commands.test_shells"


# bash


def in_bash(*words: str, cwd: Path = CHECKOUT) -> list[str]:
    """Return what bash completes the last word to, where it has no terminal."""
    script = f'. "{BASH}"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _ompd; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [shutil.which("bash") or "/bin/bash", "--norc", "-uc", script, "bash", "ompd", *words],
        env=NO_PROGRAMS,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.split()


def test_bash_takes_the_file_for_the_command() -> None:
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", f'. "{BASH}"; complete -p ompd'], env=NO_PROGRAMS, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o default -F _ompd ompd\n"


def test_bash_completes_commands_options_and_values() -> None:
    assert set(in_bash("")) == FIRST
    assert in_bash("sta") == ["stack"] and set(in_bash("layout", "")) == {"show", "add"}
    assert set(in_bash("-")) == {"--version", "-h", "--help"}
    for name in COMMANDS:
        assert set(in_bash(*name.split(), "--")) == {word for word in options_of(name) if word.startswith("--")}, name
    assert set(in_bash("core.1", "--")) == set(in_bash("threads", "core.1", "--"))
    for words in (["--color", "a"], ["--color", "=", "a"], ["core.1", "--exe", "=", "/bin/x", "--color", "a"]):
        assert set(in_bash("stack", *words)) == {"auto", "always"}, words
    assert set(in_bash("stack", "core.1", "--color", "=")) == {"auto", "always", "never"}
    assert set(in_bash("schema", "t")) == {"threads", "tasks", "triage"} and in_bash("completion", "f") == ["fish"]
    assert set(in_bash("layout", "add", "libgomp.debug", "--runtime", "lib")) == {"libgomp", "libomp"}


def test_bash_leaves_names_of_files_to_itself_and_offers_processes() -> None:
    for words in (
        ["stack", "RE"],
        ["stack", "core.1", "--exe", "/b"],
        ["var", "core.1", "x"],
        ["snapshot", "1", "-o", ""],
    ):
        assert in_bash(*words) == [], words
    assert "ompd" in in_bash("stack", "--sysroot", "om") and "README.md" not in in_bash("stack", "--debug-dir", "R")
    mine = str(os.getpid())
    assert mine in in_bash("stack", mine[:-1]) and mine in in_bash(mine)
    assert mine not in in_bash("var", "core.1", mine[:-1])  # a name, no process


def test_nothing_that_is_typed_or_found_is_run(tmp_path: Path) -> None:
    for name in ("$(touch pwned)", "`touch pwned`", "a;touch pwned"):
        (tmp_path / name).mkdir()
        for words in ([name], ["stack", name], ["stack", "--sysroot", name[:1]], ["stack", "--color", name]):
            in_bash(*words, cwd=tmp_path)
    assert not (tmp_path / "pwned").exists()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "core with spaces").touch()
    return folder


def test_tab_completes_in_bash(home: Path) -> None:
    environment = {**NO_PROGRAMS, "HOME": str(home), "TERM": "dumb", "PS1": "ready> ", "HISTFILE": ""}
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


def test_tab_completes_in_zsh(home: Path) -> None:
    zsh = str(require("zsh"))
    subprocess.run([zsh, "-n", str(ZSH)], check=True)
    environment = {**NO_PROGRAMS, "HOME": str(home), "ZDOTDIR": str(home), "TERM": "dumb", "PS1": "ready> "}
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
        terminal.wait_for(f"ompd threads [\b ]*{os.getpid()}"[:-1])  # it may write the line's end anew


def in_fish(line: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [str(require("fish")), "--no-config", "-c", f"source '{FISH}'; complete -C {line!r}"],
        env={**clean_environment(), "HOME": str(cwd), "LC_ALL": "C.UTF-8"},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return {row.partition("\t")[0] for row in done.stdout.splitlines()}


def test_fish_completes(home: Path) -> None:
    assert in_fish("ompd ", home) >= FIRST
    assert in_fish("ompd sta", home) == {"stack"}
    assert in_fish("ompd layout ", home) == {"add", "show"}
    for name in COMMANDS:
        long = {word for word in options_of(name) if word.startswith("--")}
        assert {word.removesuffix("=") for word in in_fish(f"ompd {name} --", home)} == long, name
    assert in_fish("ompd stack x --color ", home) == {"auto", "always", "never"}
    assert "core with spaces" in {word.replace("\\", "") for word in in_fish("ompd stack core", home)}
    assert in_fish("ompd completion ", home) == {"bash", "zsh", "fish"}
    assert str(os.getpid()) in in_fish(f"ompd stack {os.getpid()}"[:-1], home)


# The manual page


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


# Setting up


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
    ".local/share/bash-completion/completions/ompd": TEXTS.completions["bash"],
    ".local/share/zsh/site-functions/_ompd": TEXTS.completions["zsh"],
    ".config/fish/completions/ompd.fish": TEXTS.completions["fish"],
    ".local/share/man/man1/ompd.1": TEXTS.manual,
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
    assert str(page) in files_named(said, "written") and page.read_text() == TEXTS.manual
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
    assert (home / "dot/fish/completions/ompd.fish").read_text() == TEXTS.completions["fish"]
    assert error.count("is not touched: links lead out of") == 4
    set_up(home, "--undo", code=1)
    assert tree(outside) == before and tree(home / "dot") == {}


def test_set_up_takes_the_folders_that_its_user_has_named(home: Path) -> None:
    data = home.parent / "data"
    data.mkdir()
    set_up(home, XDG_DATA_HOME=str(data), XDG_CONFIG_HOME="relative")  # which does not count
    assert (data / "man/man1/ompd.1").read_text() == TEXTS.manual
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
    assert {name for _, names in GROUPS for name in names} == set(cli.commands) == FIRST
    assert isinstance(cli.commands["layout"], click.Group)


if __name__ == "__main__":
    for name, text in SHARED.items():
        (CHECKOUT / name).parent.mkdir(parents=True, exist_ok=True)
        (CHECKOUT / name).write_text(text)
