"""The command ``ompd`` on good cores, and on cores with changed bytes."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ompd.model import ThreadRecord
from tests.support import Stopped, clean_environment
from tests.support.budget import within
from tests.support.runs import limited

OMPD = Path(sys.executable).with_name("ompd")
QUICK_SECONDS = 10
# More than any answer needs. A false count in a core must not make the command allocate more.
MEMORY = 1 << 30


PT_LOAD, PT_NOTE, PN_XNUM = 1, 4, 0xFFFF


NT_PRSTATUS, NT_FILE = 1, 0x46494C45


EHDR, PHDR, NHDR = "<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<III"


Bytes = bytes | bytearray


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def ompd(*arguments: str | Path, environment: Mapping[str, str] | None = None, **options: Any) -> Ran:
    """Run the command, and check that it is quick, needs little memory and prints no traceback.

    :param environment: variables to add
    """
    with within(QUICK_SECONDS):
        done = subprocess.run(
            limited([str(OMPD), *map(str, arguments)], "-v", MEMORY >> 10),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**clean_environment(), **(environment or {})},
            timeout=60,
            check=False,
            **options,
        )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def refused(
    *arguments: str | Path,
    names: Path | str,
    fault: str,
    way_out: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Check that a command gives no answer, but a sentence with the file and the fault, and a line with the remedy."""
    ran = ompd(*arguments, environment=environment)
    assert (ran.code, ran.out) == (1, ""), ran
    sentence, hint, *more = ran.err.splitlines()
    assert not more
    assert sentence.startswith("ompd: ") and str(names) in sentence and fault in sentence, sentence
    assert hint.startswith("ompd: ") and way_out in hint, hint


@dataclass(frozen=True)
class Header:
    """A program header and its file offset."""

    at: int
    p_type: int
    p_offset: int
    p_filesz: int


def program_headers(core: Bytes) -> list[Header]:
    e_phoff, e_phnum = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    found = []
    for number in range(e_phnum):
        at = e_phoff + number * struct.calcsize(PHDR)
        p_type, _, p_offset, _, _, p_filesz, _, _ = struct.unpack_from(PHDR, core, at)
        found.append(Header(at, p_type, p_offset, p_filesz))
    return found


def notes(core: Bytes, wanted: int) -> list[int]:
    """Return the file offsets of the descriptors of all notes of type *wanted*."""
    found = []
    for header in program_headers(core):
        at, end = header.p_offset, header.p_offset + header.p_filesz
        while header.p_type == PT_NOTE and at < end:
            n_namesz, n_descsz, n_type = struct.unpack_from(NHDR, core, at)
            at += 12 + -(-n_namesz // 4) * 4
            if n_type == wanted:
                found.append(at)
            at += -(-n_descsz // 4) * 4
    return found


def patched(original: Path, to: Path, patch: Callable[[bytearray], None]) -> Path:
    data = bytearray(original.read_bytes())
    patch(data)
    to.write_bytes(data)
    return to


def same_or_unavailable(rows: Sequence[Mapping[str, Any]] | Sequence[ThreadRecord], good: Stopped) -> int:
    """Compare the rows of threads with the program's truth and return the number of equal facts."""
    truth = {thread["native_thread_id"]: thread for thread in good.truth["threads"]}
    told = 0
    for row in rows:
        fact = row.get if isinstance(row, Mapping) else lambda key, row=row: getattr(row, key)
        true = truth.get(fact("native_thread_id"))
        if true is None:
            continue
        for key in ("thread_num", "team_size", "level", "active_level"):
            if fact(key) is None and (key in fact("unavailable") or fact("runtime") is None):
                continue
            assert fact(key) == true[key], f"thread {true['native_thread_id']}: {key}"
            told += 1
    return told


def facts(truth: Mapping[str, Any]) -> int:
    """Return the number of facts that same_or_unavailable() counts for a complete answer."""
    return 4 * sum(thread["openmp"] for thread in truth["threads"])


def mapped_files(core: Path) -> set[Path]:
    data = core.read_bytes()
    (at,) = notes(data, NT_FILE)
    (count,) = struct.unpack_from("<Q", data, at)
    names = data[at + 16 + 24 * count :].split(b"\0", count)[:count]
    return {Path(os.fsdecode(name)) for name in names}


def inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def abort_process(process_id: int) -> None:
    os.kill(process_id, signal.SIGABRT)
    deadline = time.monotonic() + 100
    stat = Path(f"/proc/{process_id}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(OMPD), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**clean_environment(), **environment},
        stdin=subprocess.DEVNULL,
        timeout=100,
    )
