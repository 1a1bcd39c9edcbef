"""Cores whose files are elsewhere: under a sysroot, by build-id, in a debuginfod cache or on its servers, or gone."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ompd import open_core
from ompd.binary.elf.elf import ElfFile
from ompd.debugger.files.debuginfod import Servers
from ompd.debugger.files.finder import FileFinder, FileOptions
from ompd.errors import BadFile, BadInput
from ompd.safety.reading import open_paged
from ompd.session import Session
from tests.support import Missing, Stopped, build, running, stopped
from tests.support.command import Ran, abort_process, facts, inside, mapped_files, ompd, same_or_unavailable
from tests.support.debuginfod import Server, serving
from tests.support.runs import kernel_core_obstacle


def run(*arguments: str | Path) -> Ran:
    """Run the command with the servers that the test sets."""
    return ompd(*arguments, environment={"DEBUGINFOD_URLS": os.environ.get("DEBUGINFOD_URLS", "")})


def build_id_of(path: Path) -> str:
    data = open_paged(str(path))
    found = ElfFile(data, str(path)).build_id()
    data.close()
    assert found is not None
    return found.hex()


def by_build_id(folder: Path, digits: str, suffix: str = "") -> Path:
    path = folder / ".build-id" / digits[:2] / (digits[2:] + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@dataclass(frozen=True)
class Moved:
    """A core of a program that was removed from its path, or that ran on another machine."""

    core: Path
    program: Path
    truth: dict[str, Any]

    @property
    def stopped(self) -> Stopped:
        return Stopped(self.program, self.core, self.truth, "uneven", "gcc", "debug", "kernel")


def _command(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Moved:
    """Run a copy of a program, and delete the copy meanwhile. The program is kept in another folder."""
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    folder = tmp_path_factory.mktemp("kept")
    there, ran = folder / "there", folder / "run"
    ran.mkdir()
    there.mkdir()
    program = there / "uneven"
    shutil.copy(build("uneven"), program)
    with running("uneven", folder=ran, executable=program) as process:
        (folder / "kept").mkdir()
        shutil.copy(program, folder / "kept" / "uneven")
        program.unlink()
        abort_process(process.pid)
        (core,) = (path for path in ran.iterdir() if path.name.startswith("core"))
        assert Path(f"{program} (deleted)") in mapped_files(core)
        return Moved(core, program, process.truth)


def original(kept: Moved) -> Path:
    return kept.program.parent.parent / "kept" / "uneven"


def check_whole(kept: Moved, *options: str | Path) -> None:
    """Check that the answer is the same as with the program in its place."""
    ran = run("threads", kept.core, "--json", *options)
    assert (ran.code, ran.err) == (0, "")
    assert same_or_unavailable(ran.json["threads"], kept.stopped) == facts(kept.truth)
    named = run("threads", kept.core, "--json", "--exe", original(kept))
    assert named.code == 0 and ran.json["threads"] == named.json["threads"]
    assert any(row["where"] and row["where"]["function"] == "deeper" for row in ran.json["threads"])


def check_without(kept: Moved, fault: str, *options: str | Path) -> None:
    """Check that facts of the program's file are missing, and that the reason is given."""
    ran = run("threads", kept.core, "--json", *options)
    assert ran.code == 3 and fault in ran.err, ran
    assert same_or_unavailable(ran.json["threads"], kept.stopped) == facts(kept.truth)
    assert all(row["where"] is None or row["where"]["function"] is None for row in ran.json["threads"])


@pytest.fixture
def place(kept: Moved) -> Iterator[Path]:
    """Yield the path where the program was: a test may put a file there."""
    yield kept.program
    kept.program.unlink(missing_ok=True)


# Deleted and replaced


def test_a_deleted_program(kept: Moved) -> None:
    check_without(kept, f"{kept.program} was deleted while the program ran")


def test_a_program_that_was_replaced(kept: Moved, place: Path) -> None:
    other = build("nested")
    shutil.copy(other, place)
    check_without(
        kept,
        f"{place} was replaced while the program ran, and what is there now is another build than the one that ran"
        f" (build-id {build_id_of(other)}, in the target {build_id_of(original(kept))})",
    )


def test_a_program_that_is_back(kept: Moved, place: Path) -> None:
    shutil.copy(original(kept), place)
    check_whole(kept)


def test_the_right_one_is_found_by_its_build_id(kept: Moved, place: Path, tmp_path: Path) -> None:
    shutil.copy(build("nested"), place)
    shutil.copy(original(kept), by_build_id(tmp_path, build_id_of(original(kept))))
    check_whole(kept, "--debug-dir", tmp_path)


def test_another_one_under_its_build_id_is_refused(kept: Moved, tmp_path: Path) -> None:
    shutil.copy(build("nested"), by_build_id(tmp_path, build_id_of(original(kept))))
    check_without(kept, "was deleted while the program ran", "--debug-dir", tmp_path)


def test_a_program_named_by_hand_is_that_one_or_none(kept: Moved, tmp_path: Path) -> None:
    shutil.copy(original(kept), by_build_id(tmp_path, build_id_of(original(kept))))
    other = build("nested")
    fault = f"{other} is another build than the one that ran (build-id {build_id_of(other)}, in the target "
    check_without(kept, fault + build_id_of(original(kept)), "--exe", other, "--debug-dir", tmp_path)


# A sysroot


@pytest.fixture
def good() -> Stopped:
    return stopped("uneven")


@pytest.fixture
def machine(tmp_path: Path, good: Stopped) -> Path:
    """Return a folder with all files of the run, like the root of another machine."""
    root = tmp_path / "machine"
    for path in mapped_files(good.core):
        if path.exists():
            copy = inside(root, path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return root


def files_of(core: Path, **options: Any) -> dict[str, str | None]:
    with open_core(core, **options) as session:
        return {module.name: module.path for module in session.process.symbols.modules()}


def test_every_file_of_a_sysroot_is_used(good: Stopped, machine: Path) -> None:
    files = files_of(good.core, sysroot=machine)
    assert len(files) >= 4 and all(path == f"{machine}{name}" for name, path in files.items())
    with Session.open_core(good.core) as here, open_core(good.core, sysroot=machine) as there:
        for thread in here.process.threads.ids():
            assert here.process.stacks.stack(thread) == there.process.stacks.stack(thread)


def test_files_here_are_of_another_build_and_those_of_the_sysroot_right(
    kept: Moved, place: Path, tmp_path: Path
) -> None:
    other = build("nested")
    shutil.copy(other, place)
    root = tmp_path / "machine"
    for path in mapped_files(kept.core):
        copy = inside(root, Path(str(path).removesuffix(" (deleted)")))
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(original(kept) if copy.name == "uneven" else path, copy)
    check_whole(kept, "--sysroot", root)
    check_without(kept, f"(build-id {build_id_of(other)}, in the target {build_id_of(original(kept))})")


def test_links_lead_to_where_they_would_on_that_machine(good: Stopped, machine: Path) -> None:
    program = inside(machine, good.executable)
    moved = machine / "opt" / "of" / "it"
    moved.mkdir(parents=True)
    program.rename(moved / "uneven")
    # The path has an absolute link in the middle, a relative one at the end, and one that climbs above the root.
    (machine / "links").symlink_to("/opt/of")
    program.symlink_to("/../../links/it/./here")
    (moved / "here").symlink_to("../../../../../../../opt/of/it/uneven")
    assert files_of(good.core, sysroot=machine)[str(good.executable)] == str(moved / "uneven")
    ran = run("threads", good.core, "--json", "--sysroot", machine)
    assert (ran.code, ran.err) == (0, "")


def test_an_absolute_link_does_not_leave_the_sysroot(good: Stopped, machine: Path) -> None:
    program = inside(machine, good.executable)
    program.unlink()
    program.symlink_to(shutil.copy(good.executable, machine.parent / "outside"))
    ran = run("threads", good.core, "--json", "--sysroot", machine)
    assert ran.code == 3 and f"{machine}{machine.parent / 'outside'} no such file" in ran.err


@pytest.mark.parametrize(
    ("name", "resolved"),
    [
        ("/lib/libx.so", "/lib/libx.so"),
        ("lib/libx.so", "/lib/libx.so"),
        ("/../../etc/passwd", "/etc/passwd"),
        ("/a/../../../etc/./passwd", "/etc/passwd"),
        ("//lib//libx.so", "/lib/libx.so"),
        ("/usr/lib64/libx.so", "/usr/lib/libx.so"),
        ("/up/libx.so", "/libx.so"),
        ("/absolute/libx.so", "/usr/lib/libx.so"),
        ("/", ""),
    ],
)
def test_names_in_a_sysroot(tmp_path: Path, name: str, resolved: str) -> None:
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "usr" / "lib64").symlink_to("lib")
    (tmp_path / "up").symlink_to("../../../..")
    (tmp_path / "absolute").symlink_to("/usr/lib64")
    assert FileFinder(FileOptions(sysroot=str(tmp_path))).resolve(name).rstrip("/") == f"{tmp_path}{resolved}"
    assert FileFinder().resolve(name) == name


def test_links_that_do_not_end(good: Stopped, machine: Path) -> None:
    program = inside(machine, good.executable)
    program.unlink()
    program.symlink_to(good.executable)  # in the sysroot, the target is the link itself
    ran = run("threads", good.core, "--json", "--sysroot", machine)
    assert ran.code == 3 and f"{program} has too many symbolic links in its path" in ran.err
    with pytest.raises(BadFile, match="symbolic links"):
        FileFinder(FileOptions(sysroot=str(machine))).resolve(str(good.executable))


def test_fedoras_links_to_executables(kept: Moved, tmp_path: Path) -> None:
    root = tmp_path / "machine"
    for path in mapped_files(kept.core):
        copy = inside(root, path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            shutil.copy(path, copy)
    (root / "usr" / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(original(kept), root / "usr" / "bin" / "called-otherwise")
    by_build_id(root / "usr" / "lib", build_id_of(original(kept))).symlink_to("/usr/bin/called-otherwise")
    check_whole(kept, "--sysroot", root)


# Debug files


@dataclass(frozen=True)
class Split:
    """A run of a program without symbols. *debug* has them, in a folder that is not searched."""

    core: Path
    program: Path
    debug: Path
    truth: dict[str, Any]


def _split(folder: Path, strip: Callable[[Path, Path], None]) -> Split:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    if shutil.which("objcopy") is None:
        raise Missing("binutils", "no objcopy")
    ran, program, debug = folder / "run", folder / "program", folder / "kept.debug"
    ran.mkdir()
    _command("objcopy", "--only-keep-debug", build("uneven"), debug)
    strip(build("uneven"), program)
    with running("uneven", folder=ran, executable=program) as process:
        abort_process(process.pid)
        (core,) = (path for path in ran.iterdir() if path.name.startswith("core"))
        return Split(core, program, debug, process.truth)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    return _split(tmp_path_factory.mktemp("split"), lambda whole, to: _command("objcopy", "--strip-all", whole, to))


def places(core: Path, *options: str | Path) -> set[tuple[str | None, str | None, int | None]]:
    ran = run("threads", core, "--json", *options)
    assert (ran.code, ran.err) == (0, "")
    wheres = [row["where"] for row in ran.json["threads"] if row["where"] is not None]
    return {(where["function"], Path(str(where["file"])).name, where["line"]) for where in wheres}


def test_a_debug_file_by_its_build_id(split: Split, tmp_path: Path) -> None:
    assert not any(function == "deeper" for function, _, _ in places(split.core))
    folder = tmp_path / "debug"
    shutil.copy(split.debug, by_build_id(folder, build_id_of(split.program), ".debug"))
    whole = places(stopped("uneven").core)
    assert places(split.core, "--debug-dir", folder) == whole and any(name == "deeper" for name, _, _ in whole)


def test_a_debug_file_of_the_sysroot(split: Split, tmp_path: Path) -> None:
    for path in mapped_files(split.core):
        if path.exists():
            inside(tmp_path, path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, inside(tmp_path, path))
    shutil.copy(split.debug, tmp_path / "it.debug")
    by_build_id(tmp_path / "usr/lib/debug", build_id_of(split.program), ".debug").symlink_to("/it.debug")
    assert places(split.core, "--sysroot", tmp_path) == places(stopped("uneven").core)


def test_minidebuginfo_names_functions(tmp_path: Path) -> None:
    if shutil.which("xz") is None:
        raise Missing("xz", "not found (Debian package xz-utils)")

    def strip(whole: Path, to: Path) -> None:
        # As Fedora's build does: a section has the functions that .dynsym lacks, compressed.
        mini = tmp_path / "mini"
        _command("objcopy", "--strip-debug", "--remove-section=.comment", whole, mini)
        _command("xz", "--keep", mini)
        _command("objcopy", "--strip-all", f"--add-section=.gnu_debugdata={mini}.xz", whole, to)

    split = _split(tmp_path, strip)
    found = places(split.core)
    assert ("deeper", "None", None) in found and {name for name, _, _ in found} >= {"main", "deeper"}
    # A debug file has more facts and is preferred.
    shutil.copy(split.debug, by_build_id(tmp_path / "debug", build_id_of(split.program), ".debug"))
    assert places(split.core, "--debug-dir", tmp_path / "debug") == places(stopped("uneven").core)


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_a_debug_file_with_compressed_sections(split: Split, tmp_path: Path, method: str) -> None:
    file = by_build_id(tmp_path, build_id_of(split.program), ".debug")
    done = subprocess.run(["objcopy", f"--compress-debug-sections={method}", split.debug, file], capture_output=True)
    if done.returncode:
        pytest.skip(f"missing: an objcopy that knows {method}")
    assert file.stat().st_size < split.debug.stat().st_size
    assert places(split.core, "--debug-dir", tmp_path) == places(stopped("uneven").core)


# debuginfod's cache and servers


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(folder))
    monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
    return folder


@pytest.mark.parametrize("variable", ["DEBUGINFOD_CACHE_PATH", "XDG_CACHE_HOME", "HOME", "older"])
@pytest.mark.quick("HOME")
def test_what_debuginfods_client_has_fetched_is_used(
    kept: Moved, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("DEBUGINFOD_CACHE_PATH", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME" if variable == "older" else variable, str(tmp_path))
    within = {
        "DEBUGINFOD_CACHE_PATH": ".",
        "XDG_CACHE_HOME": "debuginfod_client",
        "HOME": ".cache/debuginfod_client",
        "older": ".debuginfod_client_cache",
    }[variable]
    folder = tmp_path / within
    executable = folder / build_id_of(original(kept)) / "executable"
    executable.parent.mkdir(parents=True)
    shutil.copy(original(kept), executable)
    check_whole(kept)
    debuginfo = folder / build_id_of(split.program) / "debuginfo"
    debuginfo.parent.mkdir(exist_ok=True)
    shutil.copy(split.debug, debuginfo)
    assert places(split.core) == places(stopped("uneven").core)
    before = sorted(path for path in folder.rglob("*"))
    # An empty file without permissions records that a server did not have the file.
    for file in (executable, debuginfo):
        file.unlink()
        file.touch(mode=0)
    check_without(kept, "was deleted while the program ran")
    assert not any(name == "deeper" for name, _, _ in places(split.core))
    assert sorted(path for path in folder.rglob("*")) == before


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        yield state


def test_files_are_fetched_by_the_users_word_alone(
    kept: Moved, split: Split, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", f"ima:enforcing {server.url}/")
    digits, other = build_id_of(original(kept)), build_id_of(split.program)
    server.files[f"/buildid/{digits}/executable"] = original(kept).read_bytes()
    server.files[f"/buildid/{other}/debuginfo"] = split.debug.read_bytes()
    check_without(kept, "was deleted while the program ran")
    assert server.asked == [] and not cache.exists()

    check_whole(kept, "--debuginfod")
    assert f"/buildid/{digits}/executable" in server.asked
    assert (cache / digits / "executable").read_bytes() == original(kept).read_bytes()
    assert places(split.core, "--debuginfod") == places(stopped("uneven").core)
    # No other file is left there. Cached files are not requested again, and need no network.
    assert {path.name for path in cache.rglob("*") if path.is_file()} == {"executable", "debuginfo"}
    asked = server.asked.count(f"/buildid/{digits}/executable")
    check_whole(kept, "--debuginfod")
    check_whole(kept)
    assert server.asked.count(f"/buildid/{digits}/executable") == asked == 1


def test_a_server_that_sends_something_else(
    kept: Moved, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = build_id_of(original(kept))
    for content, lies in (
        (build("nested").read_bytes(), False),
        (b"<html>", False),
        (original(kept).read_bytes(), True),
    ):
        server.files[f"/buildid/{digits}/executable"] = content
        server.lies = lies
        monkeypatch.setenv("DEBUGINFOD_URLS", server.url)
        check_without(kept, "was deleted while the program ran", "--debuginfod")
        assert not [path for path in cache.rglob("*") if path.is_file()]


def test_the_next_server_is_asked(kept: Moved, cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:  # bound, but not listening
        nobody.bind(("127.0.0.1", 0))
        silent = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        server.files[f"/buildid/{build_id_of(original(kept))}/executable"] = original(kept).read_bytes()
        monkeypatch.setenv("DEBUGINFOD_URLS", f"{silent} http://no.such.host.invalid http: {server.url}")
        check_whole(kept, "--debuginfod")


def test_servers_that_take_too_long_or_send_too_much(tmp_path: Path, server: Server) -> None:
    build_id = bytes(range(20))
    server.files[f"/buildid/{build_id.hex()}/executable"] = bytes(4000)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        environment = {"DEBUGINFOD_TIMEOUT": "0.3", "DEBUGINFOD_URLS": f"http://127.0.0.1:{mute.getsockname()[1]}"}
        servers = Servers(environment, str(tmp_path))
        assert servers.fetch(build_id, "executable") is None  # a server that never answers is given up
        assert servers.fetch(build_id, "debuginfo") is None  # it is not asked twice
        mute.setblocking(False)
        mute.accept()[0].close()
        with pytest.raises(BlockingIOError):
            mute.accept()
    server.drips = True
    assert Servers({**environment, "DEBUGINFOD_URLS": server.url}, str(tmp_path)).fetch(build_id, "executable") is None
    server.drips = False
    limited = {"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_MAXSIZE": "3999"}
    assert Servers(limited, str(tmp_path)).fetch(build_id, "executable") is None
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written(
    kept: Moved, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spool"))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", server.url)
    server.files[f"/buildid/{build_id_of(original(kept))}/executable"] = original(kept).read_bytes()
    check_whole(kept, "--debuginfod")
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "0", "", "soon", "1e400"])
@pytest.mark.quick("soon", "1e400")
def test_numbers_that_are_none(tmp_path: Path, server: Server, text: str) -> None:
    program = build("uneven")
    digits = build_id_of(program)
    server.files[f"/buildid/{digits}/executable"] = program.read_bytes()
    environment = {"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_TIMEOUT": text, "DEBUGINFOD_MAXSIZE": text}
    found = Servers(environment, str(tmp_path)).fetch(bytes.fromhex(digits), "executable")
    assert found is not None and Path(found).read_bytes() == program.read_bytes()


@pytest.mark.parametrize("urls", ["", "ima:ignore", "file:///etc ftp://127.0.0.1"])
def test_no_server_is_named(kept: Moved, cache: Path, monkeypatch: pytest.MonkeyPatch, urls: str) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", urls)
    ran = run("threads", kept.core, "--debuginfod")
    assert (ran.code, ran.out) == (1, "")
    sentence, hint = ran.err.splitlines()
    assert sentence == "ompd: DEBUGINFOD_URLS names no server to ask for files" and "https://" in hint
    with pytest.raises(BadInput):
        Servers({"DEBUGINFOD_URLS": urls}, os.devnull)
