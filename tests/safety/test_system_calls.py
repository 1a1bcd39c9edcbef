"""System calls of every command on hostile files: they open, connect to, execute and write only what docs/security.md
allows. The evidence is the kernel's own: strace.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import ompd
from ompd.commands.table import COMMANDS
from ompd.debugger.files.sources import SUFFIXES
from tests.crafted.cases import Case, Folder, Ran, Server, run_case
from tests.crafted.formats import CASES
from tests.support import FULL, Missing, require
from tests.support.cache import CACHE, CHECKOUT

# Calls that name files, make connections or processes, or act on another process.
_TRACED = (
    *("open", "openat", "openat2", "creat", "execve", "execveat", "socket", "connect", "bind", "listen", "sendto"),
    *("unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mkdir"),
    *("mkdirat", "rmdir", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"),
    *(
        "truncate",
        "mount",
        "umount2",
        "setxattr",
        "utimensat",
        "ptrace",
        "process_vm_writev",
        "kill",
        "tkill",
        "tgkill",
    ),
    *(
        "ioctl",
        "fork",
        "vfork",
        "init_module",
        "reboot",
        "setuid",
        "setgid",
        "prctl",
        "syslog",
        "bpf",
        "io_uring_setup",
    ),
)
_CALL = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?|0x[0-9a-f]+)(<.*>)?(?: .*)?")
_CHANGES = frozenset(
    name for name in _TRACED if re.match(r"creat|unlink|rename|link|symlink|mk|rmdir|.*ch|trunc", name)
)
_NEVER = frozenset(_TRACED) - _CHANGES - {"open", "openat", "openat2", "ioctl", "prctl", "utimensat", "socket"}
# Queries whether a descriptor is a terminal, which are harmless.
_ASKS = ("TCGETS", "TIOCGWINSZ", "FIOCLEX")
_WRITERS = {"snapshot": "written", "layout add": "data/ompd"}
_HOSTILE = (
    *("cores/a_note_that_lies-n_descsz", "cores/an_auxiliary_vector_that_lies-execfn", "modules/dynamic"),
    *(f"modules/a_library_that_is_none-{what}" for what in ("fifo", "loop", "watchdog", "tty", "mem", "core", "hole")),
    *(f"modules/a_debug_file_that_is_none-{what}" for what in ("fifo", "device", "tty", "kmsg", "loop", "zero")),
    *(f"modules/a_supplementary_file_that_is_none-{what}" for what in ("fifo", "device", "tty", "mem")),
    *(f"modules/a_debug_file_by_an_odd_name-{what}" for what in ("up", "absolute", "escape")),
    *(f"dwarf/a_split_file_that_is_none-{what}" for what in ("fifo", "device", "itself", "hole")),
    *(f"stored/a_table_that_is_no_file-{what}" for what in ("fifo", "device", "zero", "loop")),
    *(
        "compression/a_core_that_is_sound-zstd",
        "compression/a_core_that_is_sound-gzip",
        "dwarf/names_that_escape-lines",
    ),
    *(
        "stored/an_entry_of_the_cache_that_lies-rows",
        "stored/a_snapshot_that_lies-both",
        "memory/a_vdso_that_lies-sound",
    ),
    "memory/a_real_program_with_debug_information_that_lies-ones",
)
# Commands that load a library on the user's word are left out: the trace would include the library.
_ALONE = [command.name for command in COMMANDS if command.ompd_library is None]
_EVERY = (*_ALONE, "snapshot", "stack --raw", "stack --locals")


class Traced:
    """A server that runs under strace, and the system calls of its runs."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "strace"
        strace = str(require("strace"))
        command = [strace, "-f", "-qq", "-y", "-s", "4096", "-o", str(self.log), "-e", f"trace={','.join(_TRACED)}"]
        try:
            self.server = Server(command)
        except AssertionError as error:
            raise Missing("strace", "cannot trace here", forbidden=True) from error
        self._read = 0

    def calls_of(self, process: int) -> list[str]:
        """Return the system calls of a run, as strace writes them, from the point where the server hands over."""
        with self.log.open(errors="surrogateescape") as file:
            file.seek(self._read)  # runs are sequential
            lines = file.readlines()
            self._read = file.tell()
        calls = [line.rstrip("\n") for line in _whole(lines) if line.startswith(f"{process} ")]
        start = next(number for number, line in enumerate(calls) if "/clear_refs" in line)
        return calls[start + 1 :]


def _whole(lines: Iterable[str]) -> Iterator[str]:
    # strace splits a call that another process interrupts into two lines.
    begun: dict[str, str] = defaultdict(str)
    for line in lines:
        process = line.partition(" ")[0]
        if line.endswith("<unfinished ...>\n"):
            begun[process] = line.removesuffix("<unfinished ...>\n")
            continue
        resumed = re.match(r"\d+ +<\.\.\. \w+ resumed>", line)
        yield begun.pop(process, "") + line[resumed.end() :] if resumed else line


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    found = Traced(tmp_path_factory.mktemp("traced"))
    yield found
    found.server.close()


def _is_of_python(path: str) -> bool:
    folders = {sys.prefix, sys.base_prefix, os.path.dirname(os.__file__), str(Path(ompd.__file__).parent)}  # noqa: PTH120
    # ompd looks for plugins where it is installed, and in folders that the user names.
    home = Path(ompd.__file__).parents[1]
    if path == str(home) or path.startswith((f"{home}/ompd.egg-info/", f"{home}/runtime_stub/plugin")):
        return True
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _may_be_read(path: str, folder: Path, process: int) -> bool:
    # Regular files that the user named, and the core; Python's own files; the kernel's files on this process.
    if Path(path).is_relative_to(folder):
        return stat.S_ISREG(Path(path).stat().st_mode) or Path(path).is_dir() if Path(path).exists() else True
    if path.startswith((f"/proc/{process}/", "/proc/self/")) or path == "/dev/null":
        return "/mem" not in path
    if path.startswith(("/dev/", "/proc/", "/sys/")):
        return False
    usual = ("/etc/ld.so.cache", "/etc/localtime", "/etc/passwd", "/etc/nsswitch.conf", "/usr/", "/lib/", "/lib64/")
    if os.path.splitext(path)[1] in SUFFIXES and Path(path).is_file():  # noqa: PTH122
        return True  # a source file that debug information names
    made = (CACHE.resolve(), *(room.resolve() for room in CACHE.iterdir()))  # by tests: the files of cores
    return path.startswith(usual) or _is_of_python(path) or any(Path(path).is_relative_to(room) for room in made)


def _violations(calls: Sequence[str], folder: Path, process: int, writes: str | None) -> Iterator[str]:
    for line in calls:
        found = _CALL.fullmatch(line)
        if found is None:
            continue  # signals, and the exit
        _, name, given, result, opened = found.groups()
        if name in ("socket", "connect") and ("AF_UNIX, SOCK_STREAM" in given or "/nscd/socket" in given):
            continue  # the C library asks its name cache for a user's name
        if name in _NEVER and result != "-1":
            yield f"{name} is never called: {line}"
        elif name == "ioctl" and not any(word in given for word in _ASKS):
            yield f"what does it ask? {line}"
        elif name == "socket":
            yield f"nothing is connected to: {line}"
        elif name in _CHANGES and result != "-1":
            if writes is None or str(folder) not in given:
                yield f"something is changed: {line}"
        elif name.startswith("open") and result != "-1":
            path = (opened or "<>")[1:-1].removesuffix(" (deleted)").split("<char")[0]
            writing = re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC", given) is not None
            if "O_PATH" in given or path == "/dev/null":
                continue
            if writing:
                named = writes is not None and Path(path).is_relative_to(folder)
                if not named and "O_TMPFILE" not in given and f"{folder}/ompd-" not in path:
                    yield f"something is written: {line}"
            elif not _may_be_read(path, folder, process):
                yield f"something else is opened: {line}"


def _looked_at(traced: Traced, case: Case, folder: Folder, command: str) -> tuple[Ran, list[str]]:
    ran = run_case(traced.server, case, folder, command)
    calls = traced.calls_of(ran.process)
    assert calls, "strace told nothing of the run"
    writes = next((what for start, what in _WRITERS.items() if command.startswith(start)), None)
    if case.name.startswith("stored/an_entry_of_the_cache"):
        writes = "cache"
    return ran, list(_violations(calls, folder.path, ran.process, writes))


def _names() -> Mapping[str, tuple[str, ...]]:
    if FULL:
        return {name: case.asked for name, case in CASES.items()}
    named = [name for name in _HOSTILE if name in CASES]
    return {name: CASES[name].asked[:2] for name in named}


@pytest.mark.parametrize("name", _names())
@pytest.mark.quick(
    "modules/a_debug_file_that_is_none-tty",
    "dwarf/a_split_file_that_is_none-hole",
    "stored/a_table_that_is_no_file-device",
    "dwarf/names_that_escape-lines",
)
def test_nothing_is_opened_run_or_written_but_what_is_promised(name: str, traced: Traced, tmp_path: Path) -> None:
    case, folder = CASES[name], Folder(tmp_path / "case")
    folder.path.mkdir()
    case.make(folder)
    folder.give_away()
    for command in _names()[name]:
        ran, found = _looked_at(traced, case, folder, command)
        assert not found, (str(ran), found[:10])
        (folder.path / "written").unlink(missing_ok=True)


@pytest.mark.parametrize("command", _EVERY)
@pytest.mark.quick("parallel", "tasks", "stack", "doctor", "stack --raw")
def test_every_command_on_a_core_that_names_devices(command: str, traced: Traced, tmp_path: Path) -> None:
    for name in ("modules/a_library_that_is_none-watchdog", "modules/a_debug_file_that_is_none-tty"):
        case, folder = CASES[name], Folder(tmp_path / name.replace("/", "-"))
        folder.path.mkdir()
        case.make(folder)
        folder.give_away()
        _, found = _looked_at(traced, case, folder, command)
        assert not found, found[:10]


def test_what_must_not_be_done_is_noticed(tmp_path: Path) -> None:
    usual = f'1 openat(AT_FDCWD<{tmp_path}>, "core", O_RDONLY|O_CLOEXEC) = 3<{tmp_path}/core>'
    (tmp_path / "core").touch()
    os.mkfifo(tmp_path / "fifo")
    assert not list(_violations([usual], tmp_path, 1, None))
    for line in (
        '1 execve("/bin/sh", ["sh"], 0x1 /* 3 vars */) = 0',
        "1 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 3<TCP:[1]>",
        '1 openat(AT_FDCWD</>, "/dev/ptmx", O_RDONLY) = 3</dev/ptmx<char 5:2>>',
        '1 openat(AT_FDCWD</>, "x", O_RDONLY) = 3</home/somebody/x>',
        f'1 openat(AT_FDCWD</>, "fifo", O_RDONLY|O_NONBLOCK) = 3<{tmp_path}/fifo>',
        f'1 openat(AT_FDCWD</>, "core", O_WRONLY) = 3<{tmp_path}/core>',
        f'1 unlink("{tmp_path}/core") = 0',
        f'1 renameat(AT_FDCWD<{CHECKOUT}>, "a", AT_FDCWD<{CHECKOUT}>, "b") = 0',
        "1 ioctl(3</dev/watchdog>, WDIOC_KEEPALIVE) = 0",
        "1 ptrace(PTRACE_SEIZE, 5, NULL, 0) = 0",
    ):
        assert len(list(_violations([line], tmp_path, 1, None))) == 1, line
