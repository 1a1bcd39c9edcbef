"""Snapshots with lines of source: only at the user's request, only some lines, shown on machines without the files."""

from __future__ import annotations

import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.binary.core import notes
from ompd.binary.core.source_note import KeptFile, format_source, parse_source
from ompd.errors import MalformedFile
from tests.support.command import ompd
from tests.support.proof import await_rest

STUCK = """#include <pthread.h>

static void stay(pthread_mutex_t *lock)
{
    #pragma omp parallel num_threads(2)
    {
        pthread_mutex_lock(lock);
        pthread_mutex_lock(lock); // near
    }
}
{filler}
// FAR AWAY
{filler}
int main(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    stay(&lock);
}
""".replace("{filler}", "\n" * 20)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that hangs, and whose source is there while the test takes the snapshots."""
    folder = tmp_path_factory.mktemp("stuck")
    (folder / "stuck.c").write_text(STUCK)
    subprocess.run(["gcc", "-g", "-O0", "-fopenmp", "stuck.c", "-o", "stuck"], cwd=folder, check=True)
    with subprocess.Popen([str(folder / "stuck")], cwd=folder) as process:
        try:
            await_rest(process.pid)
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def snapshots(process: subprocess.Popen[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a snapshot that has lines of source, one without, and one of the first."""
    folder = tmp_path_factory.mktemp("snapshots")
    source = Path(f"/proc/{process.pid}/cwd").readlink() / "stuck.c"
    for name, target, options in (
        ("plain", process.pid, []),
        ("source", process.pid, ["--with-source"]),
        ("again", folder / "source", ["--with-source"]),
        ("dropped", folder / "source", []),
    ):
        ran = ompd("snapshot", target, "-o", folder / name, *options)
        assert (ran.code, ran.err) == (0, "")
        if name == "source":
            source.unlink()
    return folder


def verdict_of(text: str) -> list[str]:
    """Return the sentences below the line about the target."""
    lines = text.splitlines()[2:]
    return lines[: lines.index("")]


def test_the_lines_are_shown_without_the_file(snapshots: Path, tmp_path: Path) -> None:
    plain = ompd("why", snapshots / "plain")
    assert "-->" not in plain.out
    for name in ("source", "again"):
        ran = ompd("why", snapshots / name)
        assert (ran.code, ran.err) == (plain.code, "")
        assert "8 |         pthread_mutex_lock(lock); // near\n" in ran.out and "^ thread" in ran.out
        (excerpt, *_) = ompd("why", snapshots / name, "--json").json["why"][0]["sources"]
        assert (excerpt["path"], excerpt["note"]) == (None, None)
    page = tmp_path / "page.html"
    assert ompd("report", snapshots / "source", "-o", page).code == 0
    assert "// near" in page.read_text()


def test_only_lines_at_places_are_kept_and_only_at_the_users_request(snapshots: Path) -> None:
    for name, has_lines in (("plain", False), ("dropped", False), ("source", True), ("again", True)):
        data = (snapshots / name).read_bytes()
        assert (b"// near" in data) is has_lines, name
        # The lines of a caller are there as well, those between the two places are not.
        assert (b"    stay(&lock);" in data) is has_lines and b"FAR AWAY" not in data, name


def test_a_reader_that_does_not_know_the_note_skips_it(snapshots: Path, tmp_path: Path) -> None:
    data = (snapshots / "source").read_bytes()
    kind = notes.NT_OMPD_SOURCE.to_bytes(4, "little")
    assert data.count(kind) == 1
    (tmp_path / "core").write_bytes(data.replace(kind, (notes.NT_OMPD_SOURCE + 1).to_bytes(4, "little")))
    ran, plain = ompd("why", tmp_path / "core"), ompd("why", snapshots / "plain")
    assert (ran.code, ran.err) == (plain.code, "") and verdict_of(ran.out) == verdict_of(plain.out)


def test_damaged_lines_are_a_warning(snapshots: Path, tmp_path: Path) -> None:
    whole = ompd("why", snapshots / "source")
    data = (snapshots / "source").read_bytes()
    (tmp_path / "core").write_bytes(data.replace(b"// near", b"// fear"))
    ran = ompd("why", tmp_path / "core")
    assert ran.code == whole.code and "// fear" not in ran.out
    assert verdict_of(ran.out) == verdict_of(whole.out)
    assert ran.err == "ompd: note: the snapshot's lines of source are damaged\n"
    for command in ("threads", "stack", "tasks"):
        assert ompd(command, tmp_path / "core").code == ompd(command, snapshots / "source").code


def test_a_note_is_read_as_it_was_written() -> None:
    files = {"/src/ä.c": KeptFile("it is newer", {7: "a", 9: "b" * 240}), "b.f90": KeptFile(None, {})}
    raw = format_source(files)
    assert parse_source(raw) == files
    for damaged in (b"", b"abc", raw[:-1], raw[:9] + b"x" + raw[10:], bytes(4), bytes(notes.MAX_SOURCE_NOTE + 1)):
        with pytest.raises(MalformedFile):
            parse_source(damaged)


@pytest.mark.parametrize("text", ["[]", "1", '{"a": 1}', '{"a": [null]}', '{"a": [null, [["1", "x"]]]}', "[" * 100_000])
def test_a_note_of_something_else_is_malformed(text: str) -> None:
    raw = text.encode()
    with pytest.raises(MalformedFile):
        parse_source(zlib.crc32(raw).to_bytes(4, "little") + raw)
