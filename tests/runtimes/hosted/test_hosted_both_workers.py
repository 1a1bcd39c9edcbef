"""The worker in Python and the worker in C: one protocol, the same limits, and the same answers of one library."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ompd.errors import LibraryError
from ompd.runtimes.hosted import protocol
from ompd.runtimes.hosted.api import Pending
from ompd.runtimes.hosted.client import HostedLibrary, Loadable
from ompd.runtimes.hosted.dmpl import protocol as dmpl_protocol
from ompd.runtimes.hosted.messages import Call
from ompd.runtimes.hosted.process import Limits
from ompd.runtimes.hosted.protocol import BATCH, CALL, CALLED, COUNT, HEADER, MAX_MESSAGE, MAX_PAGES, PAGE, RELEASE
from ompd.runtimes.hosted.signatures import SIGNATURES, Function
from tests.support.hosted import Invented, compiled, invented, time_passes_in
from tests.support.m32 import m32_flags
from tests.support.stub import SOURCES, host32

WIDTHS = (64, 32)
PLAIN = ("-DINITIALIZE_CODE=OK", "-DENUMERATION_STEP=0")
LWP = 1


@contextmanager
def hosted(
    folder: Path, width: int, *needs: Path, seconds: float = 20.0, warnings: list[str] | None = None
) -> Iterator[HostedLibrary]:
    """Host ``hostile.c``, compiled for *width*. The worker loads the files *needs* before it, under their own names."""
    flags = (*m32_flags().compile, *m32_flags().link) if width == 32 else ()
    files = [*needs, compiled(folder, "hostile.c", *PLAIN, *flags)]
    program = host32() if width == 32 else None
    said: list[str] = [] if warnings is None else warnings
    steps = []
    try:
        for file in files:
            steps.append((file.name, os.memfd_create(f"copy of {file.name}"), False))
            os.write(steps[-1][1], file.read_bytes())
        loadable = Loadable(files[-1].name, steps)
        with HostedLibrary(loadable, limits=Limits(seconds=seconds), warnings=said, program=program) as library:
            yield library
    finally:
        for _, descriptor, _ in steps:
            os.close(descriptor)


def numbers(file: str) -> dict[str, int]:
    """Return the values of all enumerators in a source file of the worker in C, by their names."""
    found: dict[str, int] = {}
    for members in re.findall(r"enum(?: \w+)? \{([^}]*)\}", (SOURCES / "host" / file).read_text()):
        value = -1
        for member in filter(None, (each.strip() for each in members.split(","))):
            name, _, given = (part.strip() for part in member.partition("="))
            terms = re.fullmatch(r"(\w+)(?: (<<|/) (\d+))?", given)
            if terms is None:
                value += 1
            else:
                value = found[terms[1]] if terms[1] in found else int(terms[1])
                value = value << int(terms[3]) if terms[2] == "<<" else value // int(terms[3] or 1)
            found[name] = value
    return found


@pytest.mark.parametrize(
    "name",
    [
        *("BATCH", "RESULTS", "CALLBACK", "ANSWER", "WARNING", "RELEASE", "FORGET", "ADD"),
        *("CALLED", "ABSENT", "NOT_CALLED", "NO_HANDLE", "BAD_HANDLE", "BAD_TEXT", "ENDLESS", "BAD_CODE", "BAD_SIZE"),
        *("UNLOADED", "VERSION", "LOAD", "PAGE", "MAX_PAGES", "MAX_MESSAGE"),
    ],
)
def test_a_number_of_the_protocol_is_the_same_in_c(name: str) -> None:
    assert numbers("host.h")[name] == getattr(protocol, name)


def test_numbers_of_calls_and_callbacks_are_the_same_in_c() -> None:
    of_dmpl = numbers("dmpl.c")
    assert {call.name: of_dmpl[call.name] for call in dmpl_protocol.Call} == {
        call.name: int(call) for call in dmpl_protocol.Call
    }
    assert {callback.name: of_dmpl[f"ON_{callback.name}"] for callback in dmpl_protocol.Callback} == {
        callback.name: int(callback) for callback in dmpl_protocol.Callback
    }
    for name in ("MAX_DATA", "MAX_NAME"):
        assert of_dmpl[name] == getattr(dmpl_protocol, name)
    table = (SOURCES / "host" / "ompd.c").read_text().partition("FUNCTIONS[] = {")[2].partition("};")[0]
    rows = re.findall(r'\{"(\w+)", "([^"]*)", "([^"]*)"\}', table)
    expected = {number: one for number, one in SIGNATURES.items() if number != Function.LOAD}
    assert dict(enumerate(rows, 1)) == {number: (one.name, one.takes, one.gives) for number, one in expected.items()}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_message_may_be_as_large_as_the_limit(width: int, tmp_path: Path) -> None:
    with hosted(tmp_path, width) as library:
        size = MAX_MESSAGE - COUNT.size - CALL.size
        (reply,) = library.make([Call(RELEASE, (bytes(size - size % COUNT.size),))])
        assert (reply.code, reply.outcome, reply.rows) == (0, CALLED, ())
        library._process._socket.sendall(HEADER.pack(MAX_MESSAGE + 1, BATCH))
        with pytest.raises(LibraryError, match=r"its process failed \(a message is too large\)"):
            library.make([])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_process_ends_by_itself_when_its_host_sends_nothing_more(width: int, tmp_path: Path) -> None:
    with hosted(tmp_path, width) as library:
        library.batch().process_initialize(invented()).value()
    assert library._process._process.returncode == 0 and library.error is None


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.quick("64")
def test_what_is_kept_of_a_process_is_bounded(width: int, tmp_path: Path) -> None:
    size = 128 << 20
    assert size >= 2 * MAX_PAGES * PAGE
    process = Invented({0x1000: bytes(4096), 0x10000000: bytes(size)}, {"counter": 0x1000})
    with hosted(tmp_path, width, seconds=600.0) as library:
        space = library.batch().process_initialize(process, ahead=1 << 20).value()
        for _ in range(2):
            batch = library.batch()
            assert batch.get_state(batch.get_thread_handle(space, LWP, 39)).value() == (128, 39)
        status = Path(f"/proc/{library.process_id}/status").read_text()
        (kilobytes,) = re.findall(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
        assert int(kilobytes) << 10 < size
    # The library read everything twice, because its process keeps only a part of it.
    assert sum(length for _, length in process.reads) == 2 * size


@pytest.mark.parametrize("width", WIDTHS)
def test_what_the_process_has_already_is_not_loaded_again(width: int, tmp_path: Path) -> None:
    # The process must not get a second C library.
    if width == 32:
        there = m32_flags().libraries[0] / "libc.so.6"
    else:
        lines = Path("/proc/self/maps").read_text().splitlines()
        there = next(Path(line.split()[-1]) for line in lines if line.endswith("/libc.so.6"))
    with hosted(tmp_path, width, there) as library:
        mapped = Path(f"/proc/{library.process_id}/maps").read_text()
        assert "copy of libhostile.so" in mapped and "copy of libc.so.6" not in mapped
        batch = library.batch()
        space = batch.process_initialize(invented())
        assert batch.get_state(batch.get_thread_handle(space, LWP, 30)).value() == (0x1000, 305419896)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("number", "fault"),
    [
        (1, "crashed (SIGSEGV)"),
        (2, "crashed (SIGABRT)"),
        (3, "its process exited with status 3"),
        (7, "took more than 1 s"),
        (9, "took more than 1 s"),
    ],
)
@pytest.mark.quick("1-crashed (SIGSEGV)-64", "7-took more than 1 s-32")
def test_a_library_that_ends_or_does_not_return_is_one_error(
    number: int, fault: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_passes_in(monkeypatch, "ompd_get_state")
    with hosted(tmp_path, width, seconds=1.0 if fault.startswith("took") else 20.0) as library:
        batch = library.batch()
        space = batch.process_initialize(invented())
        error = batch.get_state(batch.get_thread_handle(space, LWP, number)).error()
        assert str(error) == f"libhostile.so: {fault} in ompd_get_state"
        with pytest.raises(ProcessLookupError):
            os.kill(library.process_id, 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_a_library_prints_is_shown_as_text(width: int, tmp_path: Path) -> None:
    warnings: list[str] = []
    with hosted(tmp_path, width, warnings=warnings) as library:
        batch = library.batch()
        space = batch.process_initialize(invented())
        batch.get_state(batch.get_thread_handle(space, LWP, 18)).value()
    assert warnings == [
        r"libhostile.so: clear \x1b[2J\x1b]0;title\x07 it\n",
        r"libhostile.so: printed out \x1b[31m",
        r"libhostile.so: printed error \x1b[32m",
    ]


# The misbehaviour of hostile.c: the values of each call, or the code and the text of its error


def answers(library: HostedLibrary) -> dict[str, object]:
    space = library.batch().process_initialize(invented()).value()
    found: dict[str, object] = {}

    def take(name: str, pending: Pending[Any]) -> None:
        error = pending.error()
        found[name] = (error.rc, str(error)) if error is not None else pending.value()

    for number in (13, 14, 20, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 100):
        batch = library.batch()
        take(f"state {number}", batch.get_state(batch.get_thread_handle(space, LWP, number)))
    batch = library.batch()
    take("states", batch.enumerate_states(space))
    take("variables", batch.enumerate_icvs(space))
    take("settings", batch.get_display_control_vars(space))
    take("kinds", batch.get_device_thread_id_kinds(space))
    take("version", batch.get_omp_version(space))
    take("text of the version", batch.get_omp_version_string(space))
    take("no region", batch.get_curr_parallel_handle(batch.get_thread_handle(space, LWP, 100)))
    take("of no region", batch.get_enclosing_parallel_handle(batch.get_curr_parallel_handle(space)))  # type: ignore[arg-type]
    for scope, number in ((3, 5), (3, 7), (2, 5)):
        take(f"number {number} of {scope}", batch.get_icv_from_scope(space, scope, number))
    for number in range(1, 5):
        take(f"text {number}", batch.get_icv_string_from_scope(space, 3, number))
    library.close()
    found["allocated"] = library.allocated
    return found


def test_both_answer_alike_whatever_a_library_does(tmp_path: Path) -> None:
    found, said = [], []
    for width in WIDTHS:
        warnings: list[str] = []
        with hosted(tmp_path, width, warnings=warnings) as library:
            found.append(answers(library))
            said.append(warnings)
    assert found[0] == found[1]
    assert found[0]["state 27"] == (13, 27) and found[0]["state 13"][1].endswith(  # type: ignore[index]
        "code 4711, which OMPD does not have, in ompd_get_state"
    )
    assert said[0] == said[1] and len(said[0]) > 10
