"""Cores that were compressed, stored by systemd, cut off, or made to do harm."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pty
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lz4.frame
import pytest

import ompd
from ompd.debugger.files import compressed
from tests.support import FULL, KINDS, Stopped, clean_environment, stopped
from tests.support.command import OMPD, Ran, facts, refused, same_or_unavailable
from tests.support.command import ompd as run
from tests.support.compression import CHECKED, CompressionParameter, zstd_frame, zstd_stream
from tests.support.products import in_turn
from tests.support.runs import limited

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "zstd": lambda data: zstd_frame(data, CHECKED),
    "lz4": lambda data: lz4.frame.compress(data, content_checksum=True),
}
EVERY = in_turn("form", list(COMPRESSORS), most=2)
# A skippable frame of three bytes. pzstd writes such frames before others (RFC 8878, 3.1.2).
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"any"


@pytest.fixture(scope="module")
def good() -> Stopped:
    return stopped("uneven")


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder for temporary files, which must be empty after the test."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def threads(core: Path | str, *options: str | Path) -> Ran:
    return run("threads", core, "--json", *options)


def check_whole(core: Path | str, good: Stopped, *options: str | Path) -> None:
    """Check that *core*, compressed or not, has the same answer as *good*, and that the program wrote the same."""
    ran = threads(core, *options)
    assert (ran.code, ran.err) == (0, "")
    assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)
    whole = threads(good.core).json
    whole["target"]["file"] = str(core)
    assert ran.json == whole


def written(path: Path, *parts: bytes) -> Path:
    path.write_bytes(b"".join(parts))
    return path


# Complete files


@EVERY
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.quick("gcore-lz4", "kernel-gzip")
def test_a_compressed_core_is_answered_as_the_core_itself(tmp_path: Path, spool: Path, form: str, kind: str) -> None:
    core = stopped("uneven", kind=kind)
    # The suffix is wrong on purpose: the content decides.
    check_whole(written(tmp_path / "core.1234.bz2", COMPRESSORS[form](core.core.read_bytes())), core)


@EVERY
@pytest.mark.parametrize("between", [b"", bytes(8)], ids=["joined", "padded"])
@pytest.mark.quick("joined-zstd", "padded-zstd", "padded-lz4")
def test_several_members_are_one_core(tmp_path: Path, spool: Path, good: Stopped, form: str, between: bytes) -> None:
    data, compress = good.core.read_bytes(), COMPRESSORS[form]
    third = len(data) // 3 + 1  # no member begins at the start of a block of the file
    members = [compress(data[at : at + third]) for at in range(0, len(data), third)]
    check_whole(written(tmp_path / "core", between.join(members), between), good)


@pytest.mark.parametrize("form", ["zstd", "lz4"])
def test_frames_that_readers_skip(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    frame = COMPRESSORS[form](good.core.read_bytes())
    check_whole(written(tmp_path / "core", frame, SKIPPABLE), good)
    check_whole(written(tmp_path / "core", SKIPPABLE, frame), good)


def test_a_zstd_stream_that_does_not_tell_its_size(tmp_path: Path, spool: Path, good: Stopped) -> None:
    # systemd-coredump writes such streams.
    data = good.core.read_bytes()
    parts = [data[at : at + 100_003] for at in range(0, len(data), 100_003)]
    check_whole(written(tmp_path / "core", zstd_stream(*parts)), good)


@EVERY
def test_what_follows_the_data_is_left_out_and_said(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    core = written(tmp_path / "core", COMPRESSORS[form](good.core.read_bytes()), b"something else")
    ran = threads(core)
    assert (ran.code, ran.json["complete"]) == (0, True)
    assert ran.err == f"ompd: note: {core}: 14 bytes behind its {form} data are left out\n"
    assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)


def test_python_opens_compressed_cores(tmp_path: Path, spool: Path, good: Stopped) -> None:
    core = written(tmp_path / "core", COMPRESSORS["zstd"](good.core.read_bytes()))
    told: list[str] = []
    with ompd.open_core(core, progress=told.append) as session:
        assert not list(spool.iterdir())
        rows = session.ask_threads().rows
    with ompd.open_core(good.core) as session:
        assert session.ask_threads().rows == rows
    assert told and told[-1].startswith(f"unpacking {core}: 100 %, ")
    with pytest.raises(ompd.errors.BadFile, match="more than 1 MB"):
        ompd.open_core(core, max_size=1 << 20)


def test_zeros_take_no_room_on_the_disk(tmp_path: Path, spool: Path) -> None:
    part, size = random.Random(1).randbytes(3 * 4096 + 5), 128 << 20
    content = part + bytes(size - 2 * len(part)) + part
    file = written(tmp_path / "core", COMPRESSORS["zstd"](content))
    before = os.statvfs(spool)
    unpacked = compressed.unpack(str(file), "core", size)
    after = os.statvfs(spool)
    assert len(unpacked.data) == size
    assert unpacked.data[: len(part)] == part and unpacked.data[-len(part) :] == part
    assert not any(unpacked.data[at] for at in range(len(part), size - len(part), 1 << 16))
    assert (before.f_bfree - after.f_bfree) * after.f_frsize < size // 4
    unpacked.data.close()


# Incomplete files


@EVERY
@pytest.mark.quick("zstd")
def test_a_cut_file_is_answered_as_far_as_it_goes(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    whole = COMPRESSORS[form](good.core.read_bytes())
    answered = 0
    for kept in (len(whole) - 1, len(whole) - 9, len(whole) * 9 // 10, len(whole) // 2, len(whole) // 10, 100, 20, 7):
        core = written(tmp_path / "core", whole[:kept])
        ran = threads(core)
        assert str(core) in ran.err and "cut off" in ran.err and "again" in ran.err, (kept, ran)
        assert ran.code in (1, 3), kept
        if ran.code == 3:
            answered += 1
            assert not ran.json["complete"]
            assert any(f"the compressed file ({form}) is cut off" in warning for warning in ran.json["warnings"])
    # The first cut removes only the last byte, which is no part of the core's data.
    assert answered >= 1


@EVERY
@pytest.mark.quick("gzip")
def test_a_cut_in_the_second_member(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    data, compress = good.core.read_bytes(), COMPRESSORS[form]
    member = compress(data)
    for kept in (1, 3, 12):
        core = written(tmp_path / "core", member, member[:kept])
        ran = threads(core)
        assert ran.code == 3 and f"{core}: the compressed file ({form}) is cut off" in ran.err, kept
        assert same_or_unavailable(ran.json["threads"], good) == facts(good.truth)


@EVERY
def test_damaged_data_is_no_answer(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    whole = bytearray(COMPRESSORS[form](good.core.read_bytes()))
    for at in range(len(whole) // 3, len(whole) // 3 + 64):
        whole[at] ^= 0xA5
    core = written(tmp_path / "core", whole)
    refused("threads", core, names=core, fault=f"its {form} data cannot be unpacked behind", way_out=f"{form} -t")


@EVERY
def test_the_checksum_is_checked(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    whole = bytearray(COMPRESSORS[form](good.core.read_bytes()))
    at = {"gzip": -8, "xz": -40, "zstd": -4, "lz4": -4}[form]
    whole[at] ^= 1
    core = written(tmp_path / "core", whole)
    refused("threads", core, names=core, fault=f"its {form} data cannot be unpacked", way_out="copy the file again")


@EVERY
def test_what_is_no_core_inside(tmp_path: Path, spool: Path, form: str) -> None:
    core = written(tmp_path / "core", COMPRESSORS[form](b"a core is what is left of a program\n"))
    refused("threads", core, names=core, fault="is not an ELF file", way_out="core file")
    core = written(tmp_path / "core", COMPRESSORS[form](b""))
    refused("threads", core, names=core, fault="is empty when it is unpacked", way_out="again")


@EVERY
@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_noise_behind_the_magic_number(tmp_path: Path, spool: Path, form: str, seed: int) -> None:
    noise = random.Random(seed).randbytes(5000)
    core = written(tmp_path / "core", COMPRESSORS[form](b"x" * 100)[: 6 + seed], noise)
    ran = threads(core)
    assert ran.code == 1 and ran.err.startswith(f"ompd: {core}: ") and len(ran.err.splitlines()) == 2


# Files that would fill the disk or the memory


@EVERY
@pytest.mark.quick("zstd")
def test_more_than_is_allowed(tmp_path: Path, spool: Path, good: Stopped, form: str) -> None:
    size = good.core.stat().st_size
    core = written(tmp_path / "core", COMPRESSORS[form](good.core.read_bytes()))
    check_whole(core, good, "--max-size", str(size))
    check_whole(core, good, "--max-size", "1.5g")
    fault = f"holds a core of more than {compressed.format_size(size - 1)}"
    refused("threads", core, "--max-size", str(size - 1), names=core, fault=fault, way_out="--max-size SIZE allows")
    # The limit does not concern cores that are not compressed.
    assert run("threads", good.core, "--max-size", "1").code == 0


@pytest.mark.parametrize("text", ["0", "-1", "1X", "", "1e9", "G", "inf", "1 G", "0.0K"])
@pytest.mark.quick("inf", "1 G", "0", "-1", "1X")
def test_sizes_that_are_none(good: Stopped, text: str) -> None:
    ran = run("threads", good.core, f"--max-size={text}")
    assert ran.code == 2 and "not a size; write 500M or 2G" in ran.err


def bomb(form: str, size: int) -> bytes:
    """Return a file that unpacks to *size* bytes, none of them zero."""
    piece, count = b"\xff" * (1 << 20), size >> 20
    if form == "zstd":
        # One block of 4 bytes for each 128 KB, the most that the format allows.
        block = (128 << 10) << 3 | 1 << 1
        blocks = block.to_bytes(3, "little") + b"\xff"
        return b"\x28\xb5\x2f\xfd\x00\x38" + blocks * (size >> 17) + (1).to_bytes(3, "little")
    if form == "lz4":
        return lz4.frame.compress(piece, content_checksum=True) * count
    compressor: Any = lzma.LZMACompressor(preset=0) if form == "xz" else __import__("zlib").compressobj(1, 8, 31)
    return b"".join([*(compressor.compress(piece) for _ in range(count)), compressor.flush()])


@EVERY
@pytest.mark.quick("gzip")
def test_memory_does_not_follow_what_is_unpacked(tmp_path: Path, spool: Path, form: str) -> None:
    core = written(tmp_path / "core", bomb(form, 256 << 20))
    assert core.stat().st_size < 8 << 20
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(core)], capture_output=True, text=True, env=clean_environment(), check=True
    )
    refusal, peak = done.stdout.rsplit("\n", 2)[:2]
    assert "holds a core of more than 200 MB" in refusal
    assert int(peak) < 100 << 10, f"{form}: {peak} KB"


PEAK = """
import re, sys
import ompd
try:
    ompd.open_core(sys.argv[1], max_size=200 << 20)
except ompd.errors.BadFile as error:
    print(error)
# Not getrusage: that counts what the parent had when it forked.
print(*re.findall(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read()))
"""


def test_a_window_that_would_fill_the_memory(tmp_path: Path, spool: Path) -> None:
    frame = zstd_stream(b"\x7fELF" * 1000, options={CompressionParameter.window_log: 30})
    core = written(tmp_path / "core", frame)
    refused("threads", core, names=core, fault="too much memory", way_out="unpack it")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    core = written(tmp_path / "core", lzma.compress(b"\x7fELF" * 1000, filters=filters))
    refused("threads", core, names=core, fault="emory usage limit", way_out="unpack it")


def test_a_disk_without_room(tmp_path: Path, good: Stopped) -> None:
    core = written(tmp_path / "core", COMPRESSORS["gzip"](good.core.read_bytes()))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=1m none '{disk}' && TMPDIR='{disk}' exec '{OMPD}' threads '{core}'"
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount]
    if shutil.which("unshare") is None or subprocess.run([*command[:-1], "exit 0"], capture_output=True).returncode:
        pytest.skip("forbidden here: a mount namespace of one's own")
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    if "mount:" in done.stderr:
        pytest.skip(f"forbidden here: {done.stderr}")
    assert done.returncode == 1
    sentence, hint = done.stderr.splitlines()
    assert sentence == f"ompd: {core}: does not fit into {disk} when it is unpacked (1 MB are free there)"
    assert "make room there" in hint and "TMPDIR" in hint


def test_a_quota(tmp_path: Path, spool: Path, good: Stopped) -> None:
    core = written(tmp_path / "core", COMPRESSORS["xz"](good.core.read_bytes()))
    done = subprocess.run(
        limited([str(OMPD), "threads", str(core)], "-f", 200),  # blocks of 512 bytes
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 1
    sentence, hint = done.stderr.splitlines()
    assert sentence.startswith(f"ompd: {core}: does not fit into {spool} when it is unpacked (File too large)")
    assert "TMPDIR" in hint


def test_temporary_files_lie_in_var_tmp(good: Stopped, tmp_path: Path) -> None:
    core = written(tmp_path / "core", COMPRESSORS["zstd"](good.core.read_bytes()))
    for variables in ({}, {"TMPDIR": ""}, {"TMPDIR": str(tmp_path / "gone")}):
        environment = {name: value for name, value in clean_environment().items() if name != "TMPDIR"}
        code = (
            "import sys, os, ompd; session = ompd.open_core(sys.argv[1])\n"
            "with os.scandir('/proc/self/fd') as found: print(*(os.readlink(each.path) for each in found), sep='\\n')"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(core)],
            capture_output=True,
            text=True,
            env={**environment, **variables},
            check=True,
        )
        assert [
            line for line in done.stdout.splitlines() if line.startswith("/var/tmp/") and line.endswith("(deleted)")
        ]


# Progress and interruption


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a core that takes many seconds to unpack, though its zeros take no room on the disk."""
    member = gzip.compress(bytes(64 << 20))
    return written(tmp_path_factory.mktemp("long") / "core", member * 480)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.quick("2", "9")
def test_nothing_is_left_when_it_is_ended(spool: Path, long: Path, number: int) -> None:
    process = subprocess.Popen(
        [str(OMPD), "threads", str(long)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
    )
    try:
        deadline = time.monotonic() + 100
        while process.poll() is None and not [at for at in open_files(process.pid) if at.startswith(f"{spool}/")]:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert process.poll() is None, "it was done before it could be ended"
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert (out, err.strip()) == (b"", b"")


def open_files(process_id: int) -> list[str]:
    found = []
    for descriptor in Path(f"/proc/{process_id}/fd").glob("*"):
        try:
            found.append(str(descriptor.readlink()))
        except OSError:
            continue
    return found


def on_a_terminal(command: list[str], until: str = "") -> tuple[int, str]:
    """Run *command* with its standard error on a terminal; return its exit code and the terminal's text.

    :param until: interrupt the command when the terminal has received this text
    """
    ours, its = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its, env=clean_environment())
    os.close(its)
    sent = b""
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and select.select([ours], [], [], 30)[0]:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the command has closed the terminal
                break
            if not piece:
                break
            sent += piece
            if until and sent.count(until.encode()) >= 3:
                process.send_signal(signal.SIGINT)
                until = ""
        return process.wait(20), sent.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_progress_is_shown_on_a_terminal_that_waits(spool: Path, long: Path) -> None:
    code, sent = on_a_terminal([str(OMPD), "threads", str(long)], until="unpacking")
    assert code == 130
    shown = [line for line in sent.split("\r") if "unpacking" in line]
    assert shown and all(line.startswith(f"\x1b[Kompd: unpacking {long}"[:79]) for line in shown)
    # The progress line is erased at the end.
    assert sent.split("\r\x1b[K")[-1].strip() == ""


@pytest.mark.quick()
def test_no_progress_where_no_one_looks_or_waits(tmp_path: Path, spool: Path, long: Path, good: Stopped) -> None:
    ran = subprocess.run(
        ["timeout", "2", str(OMPD), "threads", str(long)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (124, "")
    core = written(tmp_path / "core", COMPRESSORS["zstd"](good.core.read_bytes()))
    assert on_a_terminal([str(OMPD), "threads", str(core)]) == (0, "")


# Cores that systemd stores

FAKE = """#!/bin/sh
printf '%s\\n' "$*" >>{calls}
for word in "$@"; do last=$word; done
case "$*" in
*" dump "*) cat "{core}"; exit 0;;
esac
case "$last $*" in
nothing*--field=*) exit 0;;
nothing*) echo 'No coredumps found.' >&2; exit 1;;
esac
case "$*" in
*--json=short*) {json};;
*--field=COREDUMP_FILENAME*) echo "{stored}";;
*) echo 'unknown' >&2; exit 1;;
esac
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: Stopped) -> Callable[..., Path]:
    def make(
        *, stored: Path | str = "", state: str = "present", json_known: bool = True, core: Path | None = None
    ) -> Path:
        folder, calls = tmp_path / "bin", tmp_path / "calls"
        folder.mkdir(exist_ok=True)
        entry = json.dumps([{"pid": 1234, "corefile": state}])
        text = FAKE.format(
            calls=calls,
            core=core or good.core,
            json=f"echo '{entry}'" if json_known else "echo \"unrecognized option '--json=short'\" >&2; exit 1",
            stored=stored,
        )
        (folder / "coredumpctl").write_text(text)
        (folder / "coredumpctl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return calls

    return make


@pytest.mark.parametrize("match", ["", "1234", "/usr/bin/my program", "COREDUMP_UID=1000; touch x", "$(touch x)"])
@pytest.mark.quick("$(touch x)", "1234")
def test_a_core_of_systemds(
    tmp_path: Path, spool: Path, good: Stopped, systemd: Callable[..., Path], match: str
) -> None:
    stored = written(tmp_path / "core.uneven.1000.zst", COMPRESSORS["zstd"](good.core.read_bytes()))
    calls = systemd(stored=stored)
    check_whole(f"coredumpctl:{match}", good)
    for call in calls.read_text().splitlines():
        assert call.startswith("--no-pager --quiet -1 ")
        assert call.endswith(f"list -- {match}" if match else "list --")
    assert not Path("x").exists()


def test_an_old_coredumpctl_without_json(
    tmp_path: Path, spool: Path, good: Stopped, systemd: Callable[..., Path]
) -> None:
    systemd(stored=good.core, json_known=False)
    check_whole("coredumpctl:1234", good)
    systemd(json_known=False)  # and a core in the journal
    check_whole("coredumpctl:1234", good)


def test_a_core_in_the_journal_is_dumped(spool: Path, good: Stopped, systemd: Callable[..., Path]) -> None:
    calls = systemd(state="journal")
    check_whole("coredumpctl:1234", good)
    assert "--no-pager --quiet dump -- 1234" in calls.read_text().splitlines()
    refused(
        "threads",
        "coredumpctl:1234",
        "--max-size",
        "1M",
        names="coredumpctl:1234",
        fault="holds a core of more than 1 MB",
        way_out="--max-size",
    )


def test_a_core_that_systemd_cut(tmp_path: Path, spool: Path, good: Stopped, systemd: Callable[..., Path]) -> None:
    systemd(stored=good.core, state="truncated")
    ran = threads("coredumpctl:1234")
    assert ran.code == 3 and "coredumpctl:1234: systemd-coredump kept only the beginning of the core" in ran.err


@pytest.mark.parametrize("state", ["missing", "none", "error", "inaccessible"])
def test_a_core_that_systemd_has_not(spool: Path, systemd: Callable[..., Path], state: str) -> None:
    systemd(state=state)
    hint = {"missing": "MaxUse=", "none": "Storage=", "error": "coredumpctl info", "inaccessible": "root"}[state]
    refused("threads", "coredumpctl:1234", names="coredumpctl:1234", fault=f"core file is {state}", way_out=hint)


def test_a_core_that_systemd_has_lost(tmp_path: Path, spool: Path, systemd: Callable[..., Path]) -> None:
    systemd(stored=tmp_path / "gone")
    fault = f"coredumpctl knows it, but {tmp_path / 'gone'} is not there"
    refused("threads", "coredumpctl:1", names="coredumpctl:1", fault=fault, way_out="MaxUse=")


def test_no_such_core_of_systemds(spool: Path, systemd: Callable[..., Path]) -> None:
    systemd()
    name = "coredumpctl:nothing"
    refused("threads", name, names=name, fault="No coredumps found.", way_out="coredumpctl list")


@pytest.mark.parametrize("match", ["-h", "--root=/", " ", "a\nb", "\x1b[2J"])
def test_matches_that_could_be_something_else(spool: Path, systemd: Callable[..., Path], match: str) -> None:
    calls = systemd()
    ran = run("threads", f"coredumpctl:{match}")
    assert ran.code == 1 and "is nothing that coredumpctl could look for" in ran.err
    assert not calls.exists()


def test_no_coredumpctl(spool: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    name = "coredumpctl:1234"
    refused("threads", name, names=name, fault="coredumpctl is not installed on this machine", way_out="core_pattern")
