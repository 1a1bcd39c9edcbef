"""A file whose code is to run is opened only if nobody but root and this user could have placed or changed it."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import ompd.safety.libraries
from ompd.errors import BadFile
from ompd.safety.libraries import open_trusted, sealed_copy
from ompd.safety.reading import PagedFile

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def opened(path: Path | str, *, most: int = 1 << 20, runs: bool = True) -> bytes:
    descriptor, status = open_trusted(str(path), most=most, runs=runs)
    try:
        assert os.fstat(descriptor).st_ino == status.st_ino
        return os.pread(descriptor, 100, 0)
    finally:
        os.close(descriptor)


def refusal(path: Path | str, **options: bool | int) -> str:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(BadFile) as raised:
        opened(path, **options)  # type: ignore[arg-type]
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors  # nothing stays open
    assert str(raised.value).startswith(f"{path}: ")
    return raised.value.fault


@pytest.fixture
def file(tmp_path: Path) -> Path:
    # The parent of the folder is not sticky, as usual.
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    path = folder / "library.so"
    path.write_bytes(b"sound")
    path.chmod(0o644)
    return path


def test_a_file_of_ones_own_is_opened(file: Path) -> None:
    assert opened(file) == b"sound"
    assert opened(f"/{file}") == opened(f"{file.parent}/./../folder//library.so") == b"sound"


def test_links_of_ones_own_are_followed(file: Path, tmp_path: Path) -> None:
    (tmp_path / "absolute").symlink_to(file)
    (tmp_path / "up").symlink_to("folder/../folder/library.so")
    (tmp_path / "other").symlink_to("folder")
    (tmp_path / "twice").symlink_to("up")
    for name in ("absolute", "up", "other/library.so", "twice"):
        assert opened(tmp_path / name) == b"sound"


@pytest.mark.parametrize("path", ["library.so", "./library.so", "../folder/library.so", "", "~/library.so"])
def test_no_path_is_relative_to_the_current_folder(file: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert refusal(path) == "is not an absolute path"


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_no_folder_of_the_path_may_be_written_by_others(file: Path, mode: int) -> None:
    if mode == 0o775:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(file.parent, 0, STRANGER)
    file.parent.chmod(mode)
    assert refusal(file) == f"is refused: others may write to {file.parent}"


@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_others_may_not_write_to_the_file(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert refusal(file) == f"is refused: others may write to {file}"


def test_ones_own_file_in_a_sticky_folder_is_taken(file: Path) -> None:
    # In a sticky folder, only the file's owner can replace it.
    file.parent.chmod(0o1777)
    assert opened(file) == b"sound"


@needs_root
def test_nothing_of_a_stranger_is_taken(file: Path, tmp_path: Path) -> None:
    os.chown(file, STRANGER, -1)
    assert refusal(file) == f"is refused: {file} belongs to user {STRANGER}"
    os.chown(file, 0, -1)
    os.chown(file.parent, STRANGER, -1)
    assert refusal(file) == f"is refused: {file.parent} belongs to user {STRANGER}"
    os.chown(file.parent, 0, -1)
    (tmp_path / "link").symlink_to(file)
    assert opened(tmp_path / "link") == b"sound"
    os.lchown(tmp_path / "link", STRANGER, -1)
    assert refusal(tmp_path / "link") == f"is refused: {tmp_path}/link belongs to user {STRANGER}"
    # The same holds for a link in the middle of the path, and for one behind another link.
    (tmp_path / "way").symlink_to("folder")
    (tmp_path / "through").symlink_to("way/library.so")
    os.lchown(tmp_path / "way", STRANGER, -1)
    for name in ("way/library.so", "through"):
        assert refusal(tmp_path / name) == f"is refused: {tmp_path}/way belongs to user {STRANGER}"


@needs_root
def test_a_strangers_file_in_a_sticky_folder_is_refused(file: Path) -> None:
    file.parent.chmod(0o1777)
    os.chown(file, STRANGER, -1)
    assert "belongs to user" in refusal(file)
    # The folder's owner may also replace entries there.
    os.chown(file, 0, -1)
    os.chown(file.parent, STRANGER, -1)
    assert "belongs to user" in refusal(file)


def test_an_access_list_that_lets_others_write_is_seen(file: Path) -> None:
    # acl(5): tag, permissions, id. The group's bits of the mode are the mask.
    entries = ((1, 6, -1), (2, 6, STRANGER), (4, 4, -1), (16, 6, -1), (32, 4, -1))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(file, "system.posix_acl_access", packed)
    except OSError as error:
        pytest.skip(f"no access lists here: {error.strerror}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o664
    assert refusal(file) == f"is refused: others may write to {file}"


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_what_runs_as_its_owner_is_refused(file: Path, bit: int) -> None:
    file.chmod(0o755 | bit)
    assert refusal(file) == "is refused: it runs with the rights of its owner or group (setuid)"


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, make_socket])
def test_what_is_no_file_is_not_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "it")
    assert refusal(tmp_path / "it") == "is not a regular file"


def test_devices_are_not_opened() -> None:
    assert refusal("/dev/null") in (
        "is refused: others may write to /dev/null",
        "is not a regular file",
    )


def test_what_is_below_a_file_is_not_there(file: Path) -> None:
    assert refusal(f"{file}/more") == "cannot be opened: Not a directory"
    assert refusal(f"{file}/../library.so") == "cannot be opened: Not a directory"


def test_what_is_not_there_is_said_to_be_so(file: Path) -> None:
    with pytest.raises(BadFile) as raised:
        opened(f"{file}.1")
    assert raised.value.fault == "no such file" and isinstance(raised.value.__cause__, FileNotFoundError)
    assert "null" in refusal(f"{file}\0x")


def test_links_without_end_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert refusal(tmp_path / "a") == f"cannot be opened: {os.strerror(errno.ELOOP)}"
    (tmp_path / "c").symlink_to("c/c")
    assert refusal(tmp_path / "c") == f"cannot be opened: {os.strerror(errno.ELOOP)}"


def test_sizes_have_a_limit(file: Path) -> None:
    assert refusal(file, most=4) == "is refused: it has 5 bytes, and no such file has more than 4"
    file.write_bytes(b"")
    assert refusal(file) == "is empty"
    os.truncate(file, 60 << 20)
    assert refusal(file, most=1 << 30) == "is refused: it is almost nothing but holes"


def test_links_of_the_kernel_are_not_followed(file: Path, tmp_path: Path) -> None:
    # A kernel link does not lead where its text says: /proc/PID/root may be another container's, and reads "/".
    with file.open("rb") as held:
        for path in (f"/proc/self/root{file}", f"/proc/self/fd/{held.fileno()}", f"/proc/{os.getpid()}/cwd/x"):
            assert "is a link of the kernel's, as into a container" in refusal(path)
    (tmp_path / "in").symlink_to(f"/proc/{os.getpid()}/root{file}")
    assert "is a link of the kernel's" in refusal(tmp_path / "in")


def mounted(monkeypatch: pytest.MonkeyPatch, *, kind: str = "ext4", options: str = "rw", others: str = "rw") -> None:
    # Make the kernel describe every file system like this one.
    usual = ompd.safety.libraries._lines

    def lines(path: str) -> list[str]:
        found = usual(path)
        if path != "/proc/self/mountinfo":
            return found
        return [f"{' '.join(line.split(' ')[:5])} {options} shared:1 - {kind} none {others}" for line in found]

    monkeypatch.setattr(ompd.safety.libraries, "_lines", lines)


def test_a_file_system_on_which_nothing_may_run_is_respected(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The code would run from a copy in memory, which the mount cannot forbid.
    mounted(monkeypatch, options="rw,nosuid,noexec")
    assert refusal(file) == f"is refused: {file} is on a file system that is mounted noexec"
    assert opened(file, runs=False) == b"sound"
    mounted(monkeypatch, others="rw,noexec")
    assert "noexec" in refusal(file)


def test_a_mount_points_name_splits_no_line(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_bytes("36 35 98:0 / /a\rb\x85\u2028 rw - fuse x user_id=7\n37 35\n".encode())
    assert [line.split(" ")[0] for line in ompd.safety.libraries._lines(str(table))] == ["36", "37", ""]


@pytest.mark.parametrize("kind", ["fuse", "fuse.sshfs", "fuseblk"])
def test_a_file_system_that_a_stranger_makes_up_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    mounted(monkeypatch, kind=kind, others=f"rw,user_id={STRANGER},group_id=0,allow_other")
    assert "is on a file system that a program of somebody else makes up (FUSE)" in refusal(file)
    mounted(monkeypatch, kind=kind, others="rw")
    assert "FUSE" in refusal(file)
    for user in {0, os.geteuid()}:
        mounted(monkeypatch, kind=kind, others=f"rw,user_id={user},group_id=0,allow_other")
        assert opened(file) == b"sound"


def test_what_takes_the_files_place_while_it_is_checked_is_not_opened(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After the first look at the file, its name belongs to another file.
    usual, swaps = os.fstat, []

    def fstat(descriptor: int) -> os.stat_result:
        found = usual(descriptor)
        if stat.S_ISREG(found.st_mode) and not swaps:
            planted = file.with_name("planted")
            planted.write_bytes(b"planted")
            planted.replace(file)
            swaps.append(found.st_ino)
        return found

    monkeypatch.setattr(os, "fstat", fstat)
    descriptor, status = open_trusted(str(file), most=100)
    monkeypatch.undo()
    assert os.pread(descriptor, 10, 0) == b"sound" and swaps == [status.st_ino]
    os.close(descriptor)
    assert opened(file) == b"planted"


# Copies


def test_a_copy_can_be_changed_by_nobody(file: Path) -> None:
    descriptor, status = open_trusted(str(file), most=100)
    copy = sealed_copy(descriptor, status, str(file))
    os.close(descriptor)
    file.write_bytes(b"WRITTEN IN PLACE")
    with PagedFile(copy, "copy") as data:
        assert bytes(data) == b"sound"
    assert not os.get_inheritable(copy)
    for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDONLY):
        with pytest.raises(OSError):
            again = os.open(f"/proc/self/fd/{copy}", flags)
            try:
                os.ftruncate(again, 0)
                os.pwrite(again, b"x", 0)
            finally:
                os.close(again)
    os.close(copy)


@pytest.mark.parametrize("change", ["write", "grow", "shrink"])
def test_a_file_that_changes_while_it_is_copied_is_refused(
    file: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    descriptor, status = open_trusted(str(file), most=100)
    usual = os.pread

    def pread(*arguments: int) -> bytes:
        file.write_bytes({"write": b"other", "grow": b"sound and more", "shrink": b"s"}[change])
        os.utime(file, ns=(1, 1))
        return usual(*arguments)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(BadFile, match="changed while it was read"):
        sealed_copy(descriptor, status, str(file))
    os.close(descriptor)


def test_a_python_that_lacks_the_call_copies_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    descriptor, status = open_trusted(str(file), most=100)
    copy = sealed_copy(descriptor, status, str(file))
    assert os.pread(copy, 10, 0) == b"sound"
    os.close(copy)
    os.close(descriptor)


def test_an_old_kernel_copies_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Kernels before Linux 6.3 do not know MFD_NOEXEC_SEAL.
    usual = os.memfd_create

    def memfd_create(name: str, flags: int) -> int:
        if flags & 8:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return usual(name, flags)

    monkeypatch.setattr(os, "memfd_create", memfd_create)
    descriptor, status = open_trusted(str(file), most=100)
    copy = sealed_copy(descriptor, status, str(file))
    with pytest.raises(OSError):
        os.close(os.open(f"/proc/self/fd/{copy}", os.O_RDWR | os.O_TRUNC))
    os.close(copy)
    os.close(descriptor)
