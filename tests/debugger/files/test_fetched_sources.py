"""Source files from debuginfod servers: only at the user's request, only text, within limits of size and time."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ompd.binary.elf.elf import ElfFile
from ompd.debugger.files.debuginfod import Servers
from ompd.debugger.files.sources import MAX_SOURCE, Origin, Sources, name_in_cache
from ompd.errors import Unavailable
from tests.support import RUNTIMES, require
from tests.support.command import ompd
from tests.support.debuginfod import Server, serving
from tests.support.proof import await_rest

BUILD = bytes(range(20))
FILE = "/gone/build dir/../src/100%?#.c"
ASKED = f"/buildid/{BUILD.hex()}/source/gone/src/100%25%3F%23.c"
TEXT = b"int main(void)\n{\n    return 0;\n}\n"
STUCK = """#include <pthread.h>
int main(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    #pragma omp parallel num_threads(2)
    {
        pthread_mutex_lock(&lock);
        pthread_mutex_lock(&lock);
    }
}
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state


def sources(cache: Path, url: str, **settings: str) -> Sources:
    environment = {"DEBUGINFOD_URLS": url, **settings}
    return Sources((), str, [str(cache)], Servers(environment, str(cache)))


def test_a_file_is_fetched_and_kept(server: Server, tmp_path: Path) -> None:
    server.files[ASKED] = TEXT
    fetched = sources(tmp_path, server.url).read(FILE, Origin(build_id=BUILD))
    assert (fetched.lines[2], fetched.note) == ("    return 0;", None)
    assert [path.name for path in (tmp_path / BUILD.hex()).iterdir()] == [name_in_cache(FILE)]
    # The next time it is in the cache, as are files that debuginfod's own client fetched.
    again = Sources((), str, [str(tmp_path)]).read(FILE, Origin(build_id=BUILD))
    assert again == fetched and server.asked == [ASKED]


def test_names_in_the_cache_are_those_of_debuginfods_client() -> None:
    # Made by path_escape() of elfutils 0.192, compiled by itself.
    assert name_in_cache("/usr/src/a b.c") == "source-14ba34e8-#usr#src#a#b.c"
    assert name_in_cache("/ä.c") == "source-0b2e8bac-###.c"
    assert name_in_cache(f"/{'d' * 300}/main.c") == f"source-0faf4869-{'d' * 110}#main.c"


def test_what_is_not_the_compiled_text_is_refused(server: Server, tmp_path: Path) -> None:
    origin = Origin(hashlib.md5(TEXT).digest(), BUILD)
    for content in (b"\x7fELF\0\0", b"x" * (MAX_SOURCE + 1), b""):
        server.files[ASKED] = content
        with pytest.raises(Unavailable, match="no such file"):
            sources(tmp_path, server.url).read(FILE, Origin(build_id=BUILD))
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    server.files[ASKED] = b"// another version\n"
    with pytest.raises(Unavailable):
        sources(tmp_path, server.url).read(FILE, origin)
    server.files[ASKED] = TEXT
    (tmp_path / BUILD.hex() / name_in_cache(FILE)).unlink()
    assert sources(tmp_path, server.url).read(FILE, origin).lines[0] == "int main(void)"


def test_only_source_files_are_requested(server: Server, tmp_path: Path) -> None:
    server.files[f"/buildid/{BUILD.hex()}/source/etc/passwd"] = TEXT
    for name in ("/etc/passwd", "relative/main.c", f"/{'d/' * 3000}main.c"):
        with pytest.raises(Unavailable):
            sources(tmp_path, server.url).read(name, Origin(build_id=BUILD))
    with pytest.raises(Unavailable):
        sources(tmp_path, server.url).read(FILE, Origin())  # the build is unknown
    assert server.asked == []


def test_a_slow_server_is_given_up(server: Server, tmp_path: Path) -> None:
    server.files[ASKED] = TEXT * 1000
    server.drips = True
    with pytest.raises(Unavailable):
        sources(tmp_path, server.url, DEBUGINFOD_TIMEOUT="0.3").read(FILE, Origin(build_id=BUILD))
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(Unavailable):
            sources(tmp_path, url, DEBUGINFOD_TIMEOUT="0.3").read(FILE, Origin(build_id=BUILD))
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_here_gives_way_to_that_of_the_build(server: Server, tmp_path: Path) -> None:
    here = tmp_path / "main.c"
    here.write_bytes(b"\n" + TEXT)
    program = tmp_path / "program"
    program.write_bytes(b"x")
    server.files[f"/buildid/{BUILD.hex()}/source{here}"] = TEXT
    subprocess.run(["touch", "-d", "2001-01-01", str(program)], check=True)
    reader = sources(tmp_path / "cache", server.url)
    for origin in (Origin(hashlib.md5(TEXT).digest(), BUILD), Origin(None, BUILD, str(program))):
        assert reader.read(str(here), origin).lines[0] == "int main(void)"
    server.files.clear()
    changed = sources(tmp_path / "other", server.url).read(str(here), Origin(None, BUILD, str(program)))
    assert changed.lines[0] == "" and "is newer than" in (changed.note or "")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_why_shows_fetched_lines(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    source, program = tmp_path / "stuck.c", tmp_path / "stuck"
    source.write_text(STUCK)
    runtime = RUNTIMES["libomp-19"].file()
    link = [f"-L{runtime.parent}", f"-Wl,-rpath,{runtime.parent}", f"-l:{runtime.name}"] if compiler == "clang" else []
    flags = ["-gdwarf-5", "-fopenmp", "-c" if link else "-O0"]
    driver = str(require(compiler))
    compiled = tmp_path / "stuck.o" if link else program
    subprocess.run([driver, *flags, str(source), "-o", str(compiled)], check=True)
    if link:
        subprocess.run([driver, str(compiled), "-o", str(program), *link, "-lpthread"], check=True)
    build_id = ElfFile(program.read_bytes(), "stuck").build_id()
    if build_id is None:
        pytest.skip("missing: a linker that writes build-ids")
    source.unlink()
    path = f"/buildid/{build_id.hex()}/source{source}"
    server.files[path] = STUCK.encode()
    environment = {"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache")}
    process = subprocess.Popen([str(program)])
    try:
        await_rest(process.pid)
        without = ompd("why", process.pid, environment=environment)
        assert "-->" not in without.out and server.asked == []
        shown = ompd("why", process.pid, "--debuginfod", environment=environment).out
        assert "7 |         pthread_mutex_lock(&lock);" in shown and path in server.asked
        # A file of another MD5 is refused, with the reason. gcc writes no MD5.
        source.write_text("\n" + STUCK)
        server.files.clear()
        (tmp_path / "cache" / build_id.hex() / name_in_cache(str(source))).unlink()
        changed = ompd("why", process.pid, "-v", environment=environment).out
    finally:
        process.kill()
        process.wait()
    reason = "has changed since it was compiled" if compiler == "clang" else f"is newer than {program}"
    assert f"= {source} {reason}" in changed and ("pthread_mutex_lock" in changed) is (compiler == "gcc")
