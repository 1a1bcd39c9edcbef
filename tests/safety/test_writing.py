"""Files are written only where the user said, never through a link or a file of another user."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ompd.safety.writing
from ompd.commands.setup.start_files import DEBUGGERS, install_line
from ompd.errors import BadFile
from ompd.questions.snapshot import take_snapshot
from ompd.safety.trust import others_fault
from ompd.safety.writing import Destination, make_folder
from ompd.session import Session
from tests.support import clean_environment, stopped
from tests.support.cache import CHECKOUT

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def write(path: Path | str, data: bytes = b"new") -> None:
    with Destination(path) as place, place.written() as file:
        file.write(data)


@pytest.fixture
def sticky(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "sticky"
    folder.mkdir()
    folder.chmod(0o1777)
    yield folder
    assert not list(folder.glob(".ompd.*"))  # no temporary file is left


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(path, b"first")
    assert path.read_bytes() == b"first" and stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    other = tmp_path / "other"
    os.link(path, other)
    write(path, b"second")
    assert path.read_bytes() == b"second" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert other.read_bytes() == b"first" and sorted(p.name for p in tmp_path.iterdir()) == ["file", "other"]


def test_a_file_that_is_opened_keeps_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link", "file"):
        with Destination(tmp_path / name) as place, os.fdopen(place.opened(), "r+b", buffering=0) as file:
            file.write(b"x")
    assert (tmp_path / "file").read_bytes() == b"xxx" and stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_new_folder_is_its_users_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with Destination(tmp_path / "link" / "new") as place:
        assert place.new_folder() == str(tmp_path / "new")
        with pytest.raises(BadFile, match="File exists"):
            place.new_folder()
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


@needs_root
def test_links_of_others_lead_to_no_file_and_no_folder(sticky: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    for name, leads_to in (("way", victim), ("last", victim / "file")):
        (sticky / name).symlink_to(leads_to)
        os.chown(sticky / name, STRANGER, STRANGER, follow_symlinks=False)
    for path in (sticky / "way" / "file", sticky / "last"):
        with pytest.raises(BadFile, match="is a link of user"), Destination(path) as place:
            os.close(place.opened())
        with pytest.raises(BadFile, match="is a link of user"), Destination(path) as place:
            place.new_folder()
    assert not list(victim.iterdir())


def test_relative_paths_and_own_links_lead_where_they_always_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to("../a/b")
    (tmp_path / "a" / "b" / "last").symlink_to("real")
    write("absolute/up/../up/./last")
    assert (tmp_path / "a" / "b" / "real").read_bytes() == b"new" and (tmp_path / "a" / "b" / "last").is_symlink()
    write("plain")
    assert (tmp_path / "plain").read_bytes() == b"new"


def test_what_is_no_file_is_not_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    for name, words in {
        "pipe": "is not a regular file",
        "": "is not a regular file",
        ".": "is not a regular file",
        "..": "is not a regular file",
        "loop": "Too many levels",
        "file/below": "Not a directory",
        "none/below": "No such file",
        "x" * 300: "too long",
    }.items():
        with pytest.raises(BadFile, match=words):
            write(f"{tmp_path}/{name}")
    with pytest.raises(BadFile, match="is not a regular file"):
        write("a\0b")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(BadFile):
        write(tmp_path / "none" / "below")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_error_leaves_what_was_there(sticky: Path) -> None:
    (sticky / "file").write_bytes(b"old")
    with pytest.raises(ValueError), Destination(sticky / "file") as place, place.written() as file:
        file.write(b"new")
        raise ValueError
    assert [p.name for p in sticky.iterdir()] == ["file"] and (sticky / "file").read_bytes() == b"old"


@needs_root
def test_a_strangers_link_is_refused_wherever_it_is_on_the_way(sticky: Path, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.mkdir()
    (sticky / "file").symlink_to(aim / "file")
    (sticky / "folder").symlink_to(aim)
    (sticky / "mine").symlink_to(sticky / "folder")
    for name in ("file", "folder"):
        os.chown(sticky / name, STRANGER, STRANGER, follow_symlinks=False)
    for path, link in (("file", "file"), ("folder/file", "folder"), ("mine/file", "folder")):
        with pytest.raises(BadFile, match=f"{link} on the way to it is a link of user {STRANGER}") as caught:
            write(sticky / path)
        assert caught.value.path == str(sticky / path) and caught.value.hint
    assert not list(aim.iterdir())


@needs_root
def test_a_strangers_file_in_a_sticky_folder_is_not_replaced(sticky: Path, tmp_path: Path) -> None:
    theirs = sticky / "file"
    theirs.write_bytes(b"theirs")
    os.chown(theirs, STRANGER, STRANGER)
    with pytest.raises(BadFile, match=f"a file of that name belongs to user {STRANGER}"):
        write(theirs)
    assert theirs.read_bytes() == b"theirs"
    # In a folder that is not sticky, root may replace the file as usual: only its name is taken.
    plain = tmp_path / "file"
    plain.write_bytes(b"theirs")
    os.chown(plain, STRANGER, STRANGER)
    os.link(plain, tmp_path / "kept")
    write(plain)
    assert plain.read_bytes() == b"new" and plain.stat().st_uid == 0 and (tmp_path / "kept").read_bytes() == b"theirs"


@needs_root
def test_what_is_put_in_place_meanwhile_is_not_followed(sticky: Path, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    moved = tmp_path / "moved"
    folder = tmp_path / "folder"
    folder.mkdir()
    with Destination(folder / "file") as place, place.written() as file:
        file.write(b"new")
        folder.rename(moved)  # the opened folder counts, even if it is renamed
        folder.symlink_to(sticky)
    assert (moved / "file").read_bytes() == b"new" and not list(sticky.iterdir())
    late = Destination(sticky / "late")
    with pytest.raises(BadFile, match="is not a regular file"), late, late.written():
        (sticky / "late").symlink_to(aim)
    assert not aim.exists() and (sticky / "late").is_symlink()


@needs_root
def test_a_snapshot_through_a_strangers_link_is_refused_before_anything_is_read(sticky: Path, tmp_path: Path) -> None:
    (sticky / "small.core").symlink_to(tmp_path / "aim")
    os.chown(sticky / "small.core", STRANGER, STRANGER, follow_symlinks=False)
    core = stopped("hang").core
    command = [sys.executable, str(CHECKOUT / "cli.py"), "snapshot", str(core), "-o", str(sticky / "small.core")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
    assert (done.returncode, done.stdout) == (1, "") and not (tmp_path / "aim").exists()
    assert done.stderr.startswith(
        f"ompd: {sticky}/small.core: is not written: small.core on the way to it is a link of"
    )
    with Session.open_core(core) as session:
        assert take_snapshot(session, sticky / "own.core").size == (sticky / "own.core").stat().st_size


def test_folders_are_made_only_where_others_decide_nothing(tmp_path: Path) -> None:
    make_folder(str(tmp_path / "a" / "b"))
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    make_folder(str(tmp_path / "a" / "b"))
    open_one = tmp_path / "open"
    open_one.mkdir()
    open_one.chmod(0o777)
    with pytest.raises(BadFile, match=f"others may write to {open_one}"):
        make_folder(str(open_one / "a" / "b"))
    assert not list(open_one.iterdir())


@needs_root
def test_who_could_change_a_file(tmp_path: Path) -> None:
    script = tmp_path / "folder" / "script.py"
    script.parent.mkdir()
    script.write_text("")
    assert others_fault(str(script)) is None
    script.chmod(0o666)
    assert others_fault(str(script)) == f"others may write to {script}"
    script.chmod(0o644)
    script.parent.chmod(0o777)
    assert others_fault(str(script)) == f"others may write to {script.parent}"
    script.parent.chmod(0o1777)
    assert others_fault(str(script)) is None
    assert others_fault(str(script.parent)) == f"others may write to {script.parent}"
    os.chown(script.parent, STRANGER, -1)
    assert others_fault(str(script)) == f"{script.parent} belongs to user {STRANGER}"
    os.chown(script.parent, 0, 50)  # a system group without members
    script.parent.chmod(0o775)
    assert others_fault(str(script)) == f"others may write to {script.parent}"
    assert others_fault(str(script), private_groups=True) is None
    os.chown(script.parent, 0, STRANGER)
    assert others_fault(str(script), private_groups=True) == f"others may write to {script.parent}"
    link = tmp_path / "link"
    link.symlink_to("./folder/../folder/")
    assert others_fault(str(link / "script.py")) == f"others may write to {script.parent}"
    script.parent.chmod(0o755)
    assert others_fault(f"{link}//script.py") is None
    os.chown(link, STRANGER, -1, follow_symlinks=False)
    assert others_fault(str(link / "script.py")) == f"{link} belongs to user {STRANGER}"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="Too many levels"):
        others_fault(str(loop))
    assert others_fault("/") is None


@needs_root
def test_install_refuses_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = tmp_path / ".lldbinit"
    lldb = DEBUGGERS["LLDB"]
    assert install_line(lldb, "command script import /a/ompd/lldb_script.py") == (settings, True)
    assert install_line(lldb, "command script import /a/ompd/lldb_script.py") == (settings, False)
    settings.chmod(0o646)
    with pytest.raises(BadFile, match=f"is not changed: others may write to {settings}"):
        install_line(lldb, "line")
    settings.chmod(0o644)
    os.chown(settings, STRANGER, STRANGER)
    with pytest.raises(BadFile, match=f"is not changed: {settings} belongs to user {STRANGER}"):
        install_line(lldb, "line")
    settings.unlink()
    settings.symlink_to(tmp_path / "elsewhere")
    os.chown(settings, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(BadFile, match=r"\.lldbinit on the way to it is a link of user"):
        install_line(lldb, "line")
    settings.unlink()
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(BadFile, match=f"is not changed: {tmp_path} belongs to user {STRANGER}"):
        install_line(lldb, "line")
    os.chown(tmp_path, 0, 0)
    real = tmp_path / "dotfiles"
    real.write_text("settings set prompt x\n")
    settings.symlink_to(real)  # the user's own link is as good as a file
    install_line(lldb, "line")
    assert settings.is_symlink() and real.read_text() == "settings set prompt x\nline\n"
    script = tmp_path / "open" / "lldb_script.py"
    script.parent.mkdir()
    script.write_text("")
    script.parent.chmod(0o777)
    with pytest.raises(BadFile, match="is not made part of LLDB: others may write to"):
        install_line(replace(lldb, script=script), "another line")
    assert "another" not in real.read_text()


def test_nothing_else_in_the_package_writes_by_name() -> None:
    # Code that creates, renames or removes files; each of these places was reviewed (docs/security.md).
    known = {
        "ompd/safety/writing.py",
        "ompd/debugger/files/cache.py",  # by the descriptor of its folder
        "ompd/debugger/files/debuginfod.py",
        "ompd/debugger/files/compressed.py",  # files without names
        "ompd/debugger/files/coredumps.py",
        "ompd/pytest_plugin.py",  # in a new folder, which only the user may enter
        "ompd/run/testing.py",  # in the same folder
        "ompd/runtimes/hosted/loading/sandbox.py",  # names flags with which no file may be opened there
    }
    words = ("O_CREAT", "O_WRONLY", "os.rename", "os.replace", "os.unlink", "write_text", "write_bytes", "tempfile.")
    package = Path(ompd.safety.writing.__file__).parents[1]
    found = {
        f"ompd/{path.relative_to(package)}"
        for path in package.rglob("*.py")
        if any(word in path.read_text() for word in words)
    }
    assert found - {"ompd/commands/ending.py", "ompd/start.py"} == known  # these two open /dev/null
