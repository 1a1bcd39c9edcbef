"""Processes that the command reads or refuses: by number, of other users, in containers, with deleted files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

import ompd
from ompd.debugger.targets.live import refusals
from ompd.errors import BadProcess
from tests.support import Missing, intel_runtime, require, running
from tests.support.live import OMPD, SOURCES, Worker, build_live, is_let_go, run, status_of, wait_until, working
from tests.support.runs import ENVIRONMENT, READY_SECONDS


@pytest.fixture
def busy() -> Iterator[Worker]:
    """Yield a program with 64 threads that work, and leave a little processor time to inspections."""
    with working("busy", "64", "3000") as worker:
        yield worker


def test_a_process_is_named_by_its_number_or_its_folder(tmp_path: Path) -> None:
    with running("nested", folder=tmp_path) as live:
        told = run("threads", live.pid, "-v")
        assert told.returncode == 0
        assert told.stdout.startswith(f"process {live.pid}   nested   {len(live.truth['threads'])} threads   libiomp5 ")
        assert "the process was not stopped" in told.stderr
        target = json.loads(run("runtimes", f"/proc/{live.pid}", "--json").stdout)["target"]
        assert (target["kind"], target["file"], target["process_id"]) == ("live", None, live.pid)
        assert target["executable"] == str(live.executable) and target["own_thread_ids"] == {}
        answer = json.loads(run("threads", live.pid, "--json").stdout)
        jsonschema.validate(answer, json.loads(run("schema", "threads").stdout))
        assert target["command"] == str(live.executable) and target["stops_ns"] == []
        worker = live.truth["threads"][1]["native_thread_id"]
        thread = run("threads", worker, "--json")
        assert thread.returncode == 0 and f"{worker} is a thread of process {live.pid}" in thread.stderr
        assert json.loads(thread.stdout)["target"]["process_id"] == live.pid


def test_a_file_that_is_called_like_a_number_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("no core")
    done = subprocess.run([str(OMPD), "threads", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "1: is not an ELF file" in done.stderr


@pytest.mark.parametrize("number", ["0", "999999999", "9" * 30, "9" * 5000, "00000000999999999"])
def test_a_number_of_no_process_is_refused(number: str) -> None:
    done = run("threads", number)
    assert done.returncode == 1 and "there is no such process" in done.stderr and "ps -e" in done.stderr


def test_a_zombie_is_refused() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: status_of(process.pid, "State")[0].startswith("Z"))
    done = run("threads", process.pid)
    process.wait()
    assert done.returncode == 1 and "zombie" in done.stderr and f"process {os.getpid()}" in done.stderr


def test_a_thread_of_the_kernel_is_refused() -> None:
    if not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n":
        raise Missing("kthreadd", "process 2 is none of the kernel's", forbidden=True)
    done = run("threads", 2)
    assert done.returncode == 1 and "thread of the kernel" in done.stderr


def test_the_asking_process_is_refused() -> None:
    with pytest.raises(BadProcess, match="the process that asks"):
        ompd.attach(os.getpid())


def test_a_program_without_openmp_is_refused_as_its_core_would_be() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        done = run("threads", process.pid)
        assert done.returncode == 1 and f"process {process.pid}: no OpenMP runtime among its" in done.stderr
        assert run("runtimes", process.pid).returncode == 0
        assert process.poll() is None and is_let_go(process.pid)
    finally:
        process.kill()
        process.wait()


def test_another_users_process_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        raise Missing("root", "only root becomes another user", forbidden=True)
    setpriv = (str(require("setpriv")), "--reuid=65534", "--regid=65534", "--clear-groups")
    process = subprocess.Popen(["sleep", "60"])
    try:
        # The other user may be unable to read this checkout, so the process imports ompd before it becomes that user.
        code = (
            "import os, ompd.inspection, ompd.session.live, sys, ompd\n"
            "os.setgid(65534); os.setuid(65534)\n"
            "from ompd.errors import BadProcess\n"
            "try: ompd.attach(int(sys.argv[1]))\n"
            "except BadProcess as error: print(error, '|', error.hint)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(process.pid)], capture_output=True, text=True)
        assert "belongs to another user (uid 0)" in done.stdout, done.stderr
        assert "as that user, or as root" in done.stdout
        # A process of the same user that has made itself unreadable.
        own = subprocess.Popen(
            [
                *setpriv,
                sys.executable,
                "-I",
                "-S",
                "-c",
                "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True); time.sleep(60)",
            ],
            stdout=subprocess.PIPE,
        )
        try:
            assert own.stdout is not None and own.stdout.readline() == b"ready\n"
            done = subprocess.run([sys.executable, "-c", code, str(own.pid)], capture_output=True, text=True)
            assert "lets no one read it" in done.stdout, done.stderr
        finally:
            own.kill()
            own.communicate()
    finally:
        process.kill()
        process.wait()


def _child(process_id: int) -> int | None:
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    return int(children[0]) if children else None


def test_a_program_in_a_container_is_read_by_its_own_files() -> None:
    # In its own namespaces the program is process 1, and its files are in a folder that is empty here.
    unshare = str(require("unshare"))
    executable, library = build_live("busy"), intel_runtime() / "lib" / "libiomp5.so"
    apart = [unshare, "--pid", "--fork", "--mount", "--mount-proc", "sh", "-c"]
    allowed = subprocess.run([*apart, "mount -t tmpfs none /mnt"], capture_output=True, text=True)
    if allowed.returncode:
        raise Missing("unshare", allowed.stderr.strip(), forbidden=True)
    inside = 'mount -t tmpfs none /mnt && cp "$0" "$1" /mnt && exec /mnt/busy 3 1000'
    command = [*apart, inside, str(executable), str(library)]
    environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": "/mnt"}
    container = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert container.stdout is not None and container.stderr is not None
        assert container.stdout.readline() == "ready\n", container.stderr.read()
        process = _child(container.pid)
        assert process is not None and not Path("/mnt/busy").exists()
        with ompd.attach(process) as session:
            threads, runtimes = session.ask(lambda stopped: (stopped.ask_threads(), stopped.ask_runtimes()))
        assert threads.complete and {row.native_thread_id for row in threads.rows} >= {process}
        assert runtimes.rows[0].file == "/mnt/libiomp5.so"
        assert threads.target.own_thread_ids[str(process)] == 1
        assert len(threads.target.own_thread_ids) == len(threads.rows)
        assert any(row.where is not None and row.where.line is not None for row in threads.rows)
        os.kill(process, signal.SIGTERM)
        said, _ = container.communicate(timeout=READY_SECONDS)
        assert said.startswith("rounds ") and container.returncode == 0
    finally:
        container.kill()  # the container ends with it, since unshare's child has a PDEATHSIG
        container.wait()


def test_files_that_were_deleted_are_read(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        raise Missing("root", "only root follows /proc/PID/map_files", forbidden=True)
    executable, library = tmp_path / "busy", tmp_path / "libiomp5.so"
    shutil.copy(build_live("busy"), executable)
    shutil.copy(intel_runtime() / "lib" / "libiomp5.so", library)
    with working("busy", "3", "1000", executable=executable, env={"LD_LIBRARY_PATH": str(tmp_path)}) as worker:
        executable.unlink()
        library.unlink()
        with ompd.attach(worker.pid) as session:
            threads, runtimes = session.ask(lambda stopped: (stopped.ask_threads(), stopped.ask_runtimes()))
        assert runtimes.rows[0].file == f"{library} (deleted)" and threads.complete
        assert sum(row.runtime is not None for row in threads.rows) >= 3
        worker.finish()


def test_a_replaced_file_is_not_taken_for_the_one_that_runs(tmp_path: Path) -> None:
    executable = tmp_path / "busy"
    shutil.copy(build_live("busy"), executable)
    with working("busy", "3", "1000", executable=executable) as worker:
        executable.unlink()
        shutil.copy("/bin/true", executable)
        with ompd.attach(worker.pid) as session:
            threads = session.ask_threads()
        assert threads.complete
        assert {row.where.file for row in threads.rows if row.where is not None and row.where.line} <= {
            str(SOURCES / "busy.c")
        }
        worker.finish()


def test_a_program_of_another_processor_is_refused() -> None:
    # A 32-bit program for a 64-bit processor (x32), and a program for AArch64.
    for ident, machine, what in ((1, 62, "32-bit program (ELF machine number 62)"), (2, 183, "machine number 183")):
        header = b"\x7fELF" + bytes((ident, 1, 1)) + bytes(9) + struct.pack("<HH", 2, machine)
        with pytest.raises(BadProcess, match=re.escape(what)) as raised:
            refusals._architecture(1, header)
        assert raised.value.hint == "programs of these can be read: x86_64, i386"


def test_a_program_of_32_bits_without_a_c_library_tells_where_it_stands(tmp_path: Path) -> None:
    # Endless pause() in 32-bit code: mov $29, %eax; int $0x80; jmp back
    code = b"\xb8\x1d\x00\x00\x00\xcd\x80\xeb\xf7"
    start, headers = 0x08048000, 52 + 32
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, start + headers, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    size = headers + len(code)
    program = tmp_path / "small"
    program.write_bytes(header + struct.pack("<IIIIIIII", 1, 0, start, start, size, size, 5, 4096) + code)
    program.chmod(0o755)
    try:
        process = subprocess.Popen([str(program)])
    except OSError as error:
        raise Missing("32-bit programs", str(error), forbidden=True) from error
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "small\n")
        done = run("stack", process.pid, "--raw")
        assert f"{start + headers + 7:#x}" in done.stdout and "in small" in done.stdout, done.stdout + done.stderr
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
