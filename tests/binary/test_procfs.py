"""The texts of /proc, and refusals of processes, including those of other systems."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path

import pytest

from ompd.binary.core.notes import FileMapping
from ompd.binary.core.procfs import (
    file_mappings,
    find_connection,
    parse_maps,
    parse_stat,
    parse_status,
    parse_syscall,
)
from ompd.debugger.targets.live.refusals import refusal
from ompd.errors import MalformedFile, TargetGone

MAPS = rb"""55d5a0a00000-55d5a0a01000 r--p 00000000 fd:01 1234                       /home/me/a b\012c
55d5a0a01000-55d5a0a02000 r-xp 00001000 fd:01 1234                       /home/me/a b\012c (deleted)
55d5a1000000-55d5a1021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000001000 ---p 00000000 00:00 0
7f0000001000-7f0000002000 rw-s 00000000 00:05 7                          /dev/nvidia0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
"""


def test_mappings_have_their_names_and_permissions() -> None:
    found = parse_maps(MAPS)
    assert [m.name for m in found] == [
        *("/home/me/a b\nc", "/home/me/a b\nc (deleted)", "[heap]", "", "/dev/nvidia0", "[vsyscall]")
    ]
    assert [(m.is_readable, m.is_writable, m.is_executable) for m in found[:4]] == [
        *((True, False, False), (True, False, True), (True, True, False), (False, False, False))
    ]
    assert file_mappings(found) == [
        FileMapping(0x55D5A0A00000, 0x55D5A0A01000, 0, "/home/me/a b\nc"),
        FileMapping(0x55D5A0A01000, 0x55D5A0A02000, 0x1000, "/home/me/a b\nc (deleted)"),
    ]
    assert parse_maps(b"") == []


SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # the line ends of Python's splitlines() other than the newline


def test_a_mapped_files_name_may_have_any_separator(tmp_path: Path) -> None:
    path = tmp_path / f"a{SEPARATORS}\n7f1111110000-7f1111120000 r-xp 00000000 fe:00 42 b"
    path.write_bytes(bytes(mmap.PAGESIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        found = parse_maps(Path("/proc/self/maps").read_bytes())
    assert [each.name for each in found if each.name.startswith(str(tmp_path))] == [str(path)]
    assert 0x7F1111110000 not in [each.start for each in found]


def test_a_backslash_in_a_mapped_files_name_stays(tmp_path: Path) -> None:
    (found,) = parse_maps(rb"1000-2000 r--p 00000000 fd:01 1234    /a\134\101" + b"\n")
    assert found.name == r"/a\134\101"


@pytest.mark.parametrize("text", [b"1000-2000", b"xyz-2000 r--p 0 0 0", b"1000 r--p 0 0:0 0", b"1000-2000 r--p zz 0 0"])
def test_a_line_that_is_none_of_a_mapping_is_an_error(text: bytes) -> None:
    with pytest.raises(MalformedFile):
        parse_maps(text)


def test_the_state_of_a_thread_is_behind_its_name() -> None:
    fields = " ".join(["S", "1", "2", "3", "4", "5", "2129984", *map(str, range(9, 53))])
    stat = parse_stat(f"77 (a) S 1 (b)) {fields}\n".encode())
    assert (stat.state, stat.flags) == ("S", 2129984)
    with pytest.raises(MalformedFile):
        parse_stat(b"77 (a) S 1")


def test_where_a_thread_is_blocked() -> None:
    assert parse_syscall(b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe10 0x7f0045\n") == (0x7FFE10, 0x7F0045)
    assert parse_syscall(b"-1 0x7ffe10 0x7f0045\n") == (0x7FFE10, 0x7F0045)
    assert parse_syscall(b"running\n") is None and parse_syscall(b"") is None


def test_status_is_read_by_names() -> None:
    assert parse_status(b"Name:\ta:b\nTracerPid:\t0\nodd\n") == {"Name": "a:b", "TracerPid": "0"}


@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_threads_name_makes_no_line_of_its_status(separator: str) -> None:
    assert parse_status(f"Name:\ta{separator}NSpid: 1\nUid:\t7\n".encode()).keys() == {"Name", "Uid"}


def test_a_sockets_name_claims_no_other_socket() -> None:
    # The kernel writes a newline in an abstract name unchanged.
    with socket.socketpair()[0] as victim, socket.socket(socket.AF_UNIX) as liar, socket.socket(socket.AF_UNIX) as own:
        number = os.fstat(victim.fileno()).st_ino
        liar.bind(f"\0x{os.getpid()}\n0: 00000003 00000000 00000000 0001 03 {number} /forged")
        own.bind(f"\0y{os.getpid()} \r z")
        table = Path("/proc/net/unix").read_bytes()
        assert b" %d /forged\n" % number in table
        assert find_connection(table, number) is None
        assert find_connection(table, os.fstat(own.fileno()).st_ino) == f"@y{os.getpid()} \r z"


def refused(proc: Path, *, uid: int, capabilities: str = "0", scope: str | None = None, tracer: int = 0) -> str:
    for folder, text in (
        ("12", f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nTracerPid:\t{tracer}\n"),
        ("self", f"CapEff:\t{capabilities}\nSeccomp:\t2\n"),
    ):
        (proc / folder).mkdir()
        (proc / folder / "status").write_text(text)
    if uid == os.geteuid():
        os.chown(proc / "12" / "status", uid, -1)
    if scope is not None:
        (proc / "sys/kernel/yama").mkdir(parents=True)
        (proc / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    (proc / "77").mkdir()
    (proc / "77/comm").write_text("strace\n")
    error = refusal(12, proc)
    return f"{error} | {error.hint}"


def test_a_refusal_says_why_and_what_to_do(tmp_path: Path) -> None:
    us = os.geteuid()
    cases = [
        ({"uid": us, "tracer": 77}, "traced already, by process 77 (strace)", "--nonblocking"),
        ({"uid": us + 1}, f"belongs to another user (uid {us + 1})", "or as root"),
        ({"uid": us, "scope": "1"}, "only its parent may trace it", "PR_SET_PTRACER_ANY"),
        ({"uid": us, "scope": "2"}, "only root may trace", "sudo"),
        ({"uid": us, "scope": "3"}, "no process may be traced here", "core"),
        ({"uid": us + 1, "scope": "3", "capabilities": "1ffffffffff"}, "no process may be traced here", "core"),
        ({"uid": us, "scope": "0"}, "a seccomp filter is in force", "--cap-add=SYS_PTRACE"),
        ({"uid": us, "capabilities": "1ffffffffff"}, "does not allow to trace it", "--cap-add=SYS_PTRACE"),
    ]
    for number, (system, fault, remedy) in enumerate(cases):
        proc = tmp_path / str(number)
        proc.mkdir()
        told = refused(proc, **system)
        assert fault in told.partition(" | ")[0], (system, told)
        assert remedy in told.partition(" | ")[2], (system, told)
    assert isinstance(refusal(5, tmp_path), TargetGone)
