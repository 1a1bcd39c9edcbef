"""The process of a library for debuggers loses the rights that such a library never needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ompd.errors import LibraryError
from ompd.runtimes.hosted import connection, process
from ompd.runtimes.hosted.client import HostedLibrary, Loadable
from ompd.runtimes.hosted.loading import sandbox
from ompd.runtimes.hosted.loading.libraries import open_library
from tests.support.build import compiler
from tests.support.cache import CHECKOUT
from tests.support.hosted import unconfined_command
from tests.support.m32 import m32_flags
from tests.support.planted import build_library

# Confines itself without the layers in argv[2], then tries the ways in argv[4] in turn.
_CONFINED = """
import ctypes, errno, json, os, resource, signal, socket, sys, threading
sys.path.insert(0, sys.argv[1])
from ompd.runtimes.hosted.loading import sandbox
def missing(*_):
    raise OSError(errno.ENOSYS, "missing for a test")
for layer in sys.argv[2].split():
    if layer == "seccomp":
        sandbox.LIBSECCOMP = "libnothing.so.0"
    else:
        setattr(sandbox, layer, missing)
pipe = os.pipe()
parent = os.getppid()
def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
def thread():
    each = threading.Thread(target=int)
    each.start()
    each.join()
def through_pipe():
    os.write(pipe[1], b"x")
    assert os.read(pipe[0], 1) == b"x"
def read(path):
    with open(path, "rb") as file:
        file.read(1)
def memory(size):
    buffer = bytearray(size)
def mapped():
    import mmap
    mmap.mmap(-1, 3 << 30).close()
def itself():
    os.kill(os.getpid(), 0)
def many():
    held = []
    try:
        held += (os.dup(0) for _ in range(200))
    finally:
        for each in held:
            os.close(each)
ways = {
    "write": lambda: open(sys.argv[3] + "/written", "w"),
    "remove": lambda: os.unlink(sys.argv[3] + "/there"),
    "append": lambda: open(sys.argv[3] + "/there", "a"),
    "grow": lambda: os.write(out, b"x"),
    "read": lambda: read(sys.argv[3] + "/there"),
    "list": lambda: os.listdir(sys.argv[3]),
    "python": lambda: read(os.__file__),
    "fork": fork, "thread": thread, "exec": lambda: os.execv("/bin/true", ["true"]),
    "kill": lambda: os.kill(parent, 0), "itself": itself,
    "socket": lambda: socket.socket().close(),
    "other": lambda: read(f"/proc/{parent}/environ"),
    "large": lambda: memory(3 << 30), "shared": mapped, "small": lambda: memory(100 << 20),
    "many": many, "pipe": through_pipe, "cwd": lambda: read("etc/hostname"),
}
out = os.open(sys.argv[3] + "/open", os.O_CREAT | os.O_WRONLY)
report = sandbox.confine(1 << 30)
done = {}
for way in sys.argv[4].split():
    try:
        ways[way]()
        done[way] = True
    except (OSError, MemoryError, RuntimeError):
        done[way] = False
print(json.dumps([report, done, os.getcwd(), resource.getrlimit(resource.RLIMIT_CORE)]))
"""
_NEVER = ("write", "remove", "append", "grow", "read", "list", "fork", "exec", "kill", "socket", "other", "large")
_STILL = ("python", "itself", "small", "pipe")


def confined(folder: Path, *ways: str, without: str = "") -> tuple[dict[str, str], dict[str, bool]]:
    """Return the sandbox's report, and for each way whether it was open."""
    (folder / "there").write_bytes(b"x")
    done = subprocess.run(
        [sys.executable, "-I", "-c", _CONFINED, str(CHECKOUT), without, str(folder), " ".join(ways)],
        capture_output=True,
        env={},
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report, found, current, cores = json.loads(done.stdout)
    assert current == "/" and cores[1] <= 1
    return report, found


def layer(report: dict[str, str], name: str) -> None:
    if report[name]:
        pytest.skip(f"{name} is not in force here: {report[name]}")


def test_it_takes_what_no_library_needs(tmp_path: Path) -> None:
    report, found = confined(tmp_path, *_NEVER, "thread", "shared", "many", *_STILL)
    for name in ("Landlock", "seccomp"):
        layer(report, name)
    assert report == dict.fromkeys(("limits", "no new privileges", "Landlock", "seccomp"), "")
    assert {way for way, is_open in found.items() if is_open} == set(_STILL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["open", "there"]
    assert (tmp_path / "there").read_bytes() == b"x" and (tmp_path / "open").read_bytes() == b""


def test_without_libseccomp_the_kernel_still_protects_files(tmp_path: Path) -> None:
    report, found = confined(tmp_path, *_NEVER, *_STILL, without="seccomp")
    assert report["seccomp"] == "libnothing.so.0 is not installed"
    layer(report, "Landlock")
    shut = {"write", "remove", "append", "grow", "read", "list", "exec", "other", "large"}
    assert not {way for way in shut if found[way]}


def test_without_landlock_the_list_of_calls_still_protects_files(tmp_path: Path) -> None:
    report, found = confined(tmp_path, *_NEVER, *_STILL, without="_restrict_files")
    assert report["Landlock"] == "[Errno 38] missing for a test"
    layer(report, "seccomp")
    # The process may read what the user may read.
    assert {way for way, is_open in found.items() if is_open} == {*_STILL, "read", "list", "other"}


def test_limits_alone_protect_the_machine(tmp_path: Path) -> None:
    ways = ("write", "grow", "large", "shared", "many", *_STILL)
    report, found = confined(tmp_path, *ways, without="_restrict_files seccomp _refuse_privileges")
    assert report["limits"] == "" and report["no new privileges"] == "[Errno 38] missing for a test"
    assert {way for way, is_open in found.items() if is_open} == {*_STILL, "write"}
    assert (tmp_path / "written").read_bytes() == b""


def test_another_program_is_confined_before_it_starts(tmp_path: Path) -> None:
    # The worker in C is confined like this, because it has no code to confine itself.
    (tmp_path / "there").write_bytes(b"text")
    program = os.path.realpath(sys.executable)
    text = "import json, os, sys\ndef can(what):\n try: return bool(what() or 1)\n except OSError: return False\n"
    text += "fork = can(os.fork) if sys.argv[2] else False\n"
    text += "print(json.dumps([os.getcwd(), can(lambda: open(sys.argv[1])), can(lambda: open(os.__file__)), fork]))"
    command = [sys.executable, "-I", sandbox.__file__, "--exec", str(1 << 30)]
    report = sandbox_report()
    done = subprocess.run(
        [*command, program, "-I", "-c", text, str(tmp_path / "there"), "" if report["seccomp"] else "fork"],
        env={},
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["/", bool(report["Landlock"]), True, False]
    for words in (["python3"], ["-1", program], []):
        refused = subprocess.run([*command[:-1], *words], env={}, capture_output=True, check=False)
        assert refused.returncode != 0 and refused.stderr.startswith(b"usage: ")


def test_another_program_may_take_the_memory_that_it_is_allowed() -> None:
    program = os.path.realpath(sys.executable)
    text = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0])"

    def limit(memory: int) -> int:
        command = [sys.executable, "-I", sandbox.__file__, "--exec", str(memory), program, "-I", "-c", text]
        return int(subprocess.run(command, env={}, capture_output=True, check=True).stdout)

    assert round((limit(3 << 30) - limit(1 << 28)) / (1 << 28)) == 11


def of_script(path: Path) -> None:
    path.write_text("#!/bin/sh\n")


def of_headers_elsewhere(path: Path) -> None:
    raw = bytearray(Path(os.path.realpath(sys.executable)).read_bytes())
    raw[32:40] = (len(raw) - 64).to_bytes(8, sys.byteorder)  # e_phoff
    path.write_bytes(raw)


@pytest.mark.parametrize("write", [of_script, of_headers_elsewhere, Path.touch])
def test_a_program_that_could_not_be_confined_is_refused(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # If the name of the program's loader is unknown, Landlock cannot be used at all.
    program = tmp_path / "program"
    write(program)
    program.chmod(0o755)
    monkeypatch.setattr(connection, "interpreters", lambda: [sys.executable])
    library = build_library(tmp_path, "it")
    refused = rf"its process failed \({program} is no program that can be confined: .*\)$"
    with open_library(str(library)) as opened, pytest.raises(LibraryError, match=refused):
        HostedLibrary(opened, program=program)


def test_a_program_of_32_bits_is_confined_alike(tmp_path: Path) -> None:
    # The loader and the C library for 32 bits are in their own folder.
    m32 = m32_flags()
    source = tmp_path / "tries.c"
    source.write_text(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n"
        "int main(int count, char **names) { (void)count; "
        'printf("%d %d %d", open(names[1], O_RDONLY) >= 0, open(names[1], O_WRONLY) >= 0, '
        "prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)); fflush(stdout); _exit(0); }"
    )
    program = tmp_path / "tries"
    subprocess.run([str(compiler("gcc").path), str(source), *m32.compile, *m32.link, "-o", str(program)], check=True)
    command = [sys.executable, "-I", sandbox.__file__, "--exec", str(1 << 30), str(program), str(source)]
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    report = sandbox_report()
    layer(report, "Landlock")
    assert done.stdout.split()[:2] == ["0", "0"]


def test_who_runs_a_library_that_nothing_confines_is_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Run by root, an unconfined library could end every process of the machine.
    library = build_library(tmp_path, "it")
    absent = dict.fromkeys(("Landlock", "seccomp"), "missing for a test")
    for lost, count in ((absent, 1), ({"Landlock": "missing", "seccomp": ""}, 0), ({"seccomp": "missing"}, 0)):
        monkeypatch.setattr(process, "worker_command", unconfined_command(lost))
        warnings: list[str] = []
        with open_library(str(library)) as opened, pytest.raises(LibraryError, match="has no function"):
            HostedLibrary(Loadable(opened.name, opened.steps), warnings=warnings)
        assert [line.partition(": ")[2].partition(":")[0] for line in warnings] == ["runs with all your rights"] * count


def sandbox_report() -> dict[str, str]:
    """Return, for a process of this machine, why each layer of the sandbox is not in force; "" if it is."""
    text = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); import json\n"
    text += "from ompd.runtimes.hosted.loading import sandbox; print(json.dumps(sandbox.confine(1 << 30)))"
    done = subprocess.run([sys.executable, "-I", "-c", text], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
