"""The released files: wheel, sdist, and one file for machines without pip. Each is used from another folder."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

import pytest

from tests.support import FULL, Missing, Stopped, clean_environment, stopped
from tests.support.cache import CHECKOUT, entry, key_of
from tests.support.command import facts, same_or_unavailable
from tests.support.compression import zstd_frame
from tests.support.m32 import m32_flags
from tools import pyz

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
BACKEND = "import sys; from setuptools import build_meta; print(build_meta.{what}(sys.argv[1]))"
# One process builds and installs once for all tests; pip may be slow.
pytestmark = [pytest.mark.xdist_group("release"), pytest.mark.timeout(600)]
TABLES = sorted(path.name for path in (CHECKOUT / "ompd" / "runtimes" / "layout" / "tables").glob("*.json"))


def run(*words: object, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    env = {name: text for name, text in clean_environment().items() if not name.startswith(("PYTHON", "OMPD"))}
    command = [str(word) for word in words]
    done = subprocess.run(
        command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == code, done
    return done


@cache
def packages() -> Path:
    """Return a folder with the wheels that builds and installations need; pip fetches them once."""

    def fetch(folder: Path) -> None:
        wheels = [*PIP, "wheel", "--wheel-dir", str(folder), "setuptools>=77", "wheel", *dependencies]
        done = subprocess.run(wheels, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing("pip", f"fetched nothing: {done.stderr.strip()}")

    project = (CHECKOUT / "pyproject.toml").read_text()
    listed = project.partition("\ndependencies = [")[2].partition("\n]")[0]
    dependencies = [line.strip().strip('",') for line in listed.strip().splitlines()]
    assert any(text.startswith("click") for text in dependencies)
    return entry("packages", key_of("1", sys.version_info[:2], dependencies), fetch)


def environment(folder: Path, *installed: object) -> Path:
    """Return the Python of a new environment with *installed* in it, without queries to a server."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    offline = ("install", "--no-index", "--find-links", packages(), *installed)
    run(*PIP[:3], "--python", python, *PIP[3:], *offline, cwd=folder.parent)
    return python


def builder(folder: Path) -> Path:
    """Return the Python of the environment for builds in *folder*."""
    return folder / "builder" / "bin" / "python"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist: the sdist is built from a copy of the checkout, the wheel from the unpacked sdist."""
    folder = tmp_path_factory.mktemp("built")
    made = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    source = shutil.copytree(CHECKOUT, folder / "source", ignore=made)
    python = environment(folder / "builder", "setuptools", "wheel")
    run(python, "-c", BACKEND.format(what="build_sdist"), folder, cwd=source)
    (sdist,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(sdist, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    run(python, "-c", BACKEND.format(what="build_wheel"), folder, cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return wheel, sdist


@pytest.fixture(scope="module")
def wheel_with_host(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a checkout in which the program that hosts 32-bit libraries was built."""
    folder = tmp_path_factory.mktemp("with-host")
    shutil.unpack_archive(built[1], folder / "unpacked")
    (source,) = (folder / "unpacked").iterdir()
    flags = m32_flags()
    options = shlex.join((*flags.compile, *flags.link))
    # As in a checkout, add files that a release leaves out.
    for name in ("Makefile", "MANIFEST.in"):
        shutil.copy(CHECKOUT / name, source)
    shutil.copytree(CHECKOUT / "runtime_stub", source / "runtime_stub", ignore=shutil.ignore_patterns("build"))
    run("make", "-s", "host32", f"HOST32_CFLAGS={options}", cwd=source)
    python = builder(built[0].parent)
    run(python, "-c", BACKEND.format(what="build_sdist"), folder, cwd=source)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [name for name in archive.getnames() if "host32" in name]
    run(python, "-c", BACKEND.format(what="build_wheel"), folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def core() -> Stopped:
    return stopped("hang")


def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    names = zipfile.ZipFile(built[0]).namelist()
    ours = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "ompd").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == ours
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"ompd"}
    shared = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    assert shared == {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "share").rglob("*") if path.is_file()}
    assert len(shared) == 4
    assert "ompd/py.typed" in names and any(name.endswith("licenses/LICENSE") for name in names)
    assert [Path(name).name for name in sorted(names) if "/tables/" in name] == TABLES
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert zipfile.ZipFile(built[0]).read(entry_points).decode().split() == [
        *("[console_scripts]", "ompd", "=", "ompd.start:main"),
        *("[pytest11]", "ompd", "=", "ompd.pytest_plugin"),
    ]


@pytest.mark.skipif(not FULL, reason="builds the wheel once more: make test-full")
def test_the_program_for_32_bits_is_in_the_wheel_where_it_was_built(
    built: tuple[Path, Path], wheel_with_host: Path, tmp_path: Path
) -> None:
    without, names = (set(zipfile.ZipFile(wheel).namelist()) for wheel in (built[0], wheel_with_host))
    assert names - without == {"ompd/runtimes/hosted/host32"} and without <= names
    python = environment(tmp_path / "fresh", "--no-deps", wheel_with_host)
    program = run(
        *(python, "-c", "from ompd.runtimes.hosted.narrow import PROGRAM; print(PROGRAM)"), cwd=tmp_path
    ).stdout.strip()
    assert program.startswith(str(tmp_path)) and os.access(program, os.X_OK)
    run(program, cwd=tmp_path, code=1)  # it runs, but lacks its arguments


# The sdist alone is enough in a short run: the wheel above is built from it.
@pytest.mark.parametrize("which", [pytest.param(0, id="wheel")] * FULL + [pytest.param(1, id="sdist")])
@pytest.mark.quick()
def test_what_was_installed_works_from_another_folder(
    which: int, built: tuple[Path, Path], core: Stopped, tmp_path: Path
) -> None:
    # pip builds the wheel of an sdist in a separate environment, from the same folder of packages.
    python = environment(tmp_path / "fresh", built[which])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    version = run(python, "-m", "ompd", "--version", cwd=elsewhere).stdout
    assert version == run(python.parent / "ompd", "--version", cwd=elsewhere).stdout
    assert version.split()[-1] in built[which].name
    check(core, elsewhere, python.parent / "ompd")
    assert run(python, "-c", "import ompd_stub", cwd=elsewhere, code=1).stderr.count("ModuleNotFoundError") == 1
    assert (python.parents[1] / "share/man/man1/ompd.1").is_file()
    loads = run(
        "bash",
        "-c",
        f"PATH={python.parent}:$PATH; . {python.parents[1]}/share/bash-completion/completions/ompd; complete -p ompd",
        cwd=elsewhere,
    )
    assert loads.stdout == "complete -o nosort -F _ompd_completion ompd\n"
    typed = "import ompd, pathlib; print((pathlib.Path(ompd.__file__).parent / 'py.typed').is_file(), ompd.__file__)"
    is_typed, file = run(python, "-c", typed, cwd=elsewhere).stdout.split()
    assert is_typed == "True" and file.startswith(str(tmp_path))


def check(core: Stopped, folder: Path, *command: object) -> None:
    """Check that *command* answers correctly on a core, as JSON and as text, and has the layout tables."""
    answer = json.loads(run(*command, "threads", "--json", core.core, cwd=folder).stdout)
    assert same_or_unavailable(answer["threads"], core) == facts(core.truth)
    assert "wait_lock" in run(*command, "threads", core.core, cwd=folder).stdout
    for other, text in {
        "parallel": "level 1",
        "stack": "simulate",
        "tasks": "initial task",
        "icvs": "nthreads-var",
    }.items():
        assert text in run(*command, other, core.core, cwd=folder).stdout
    tables = json.loads(run(*command, "layout", "show", "--json", cwd=folder).stdout)["layout"]
    assert [f"{row['name']}.json" for row in tables if row["origin"] == "shipped"] == TABLES


# One file


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("one") / "ompd.pyz"
    without = pyz.make(file)
    assert "lz4" in without and not set(without) - {"lz4", "backports.zstd"}
    return file


@pytest.mark.quick()
def test_one_file_is_all_that_a_python_without_packages_needs(one_file: Path, core: Stopped, tmp_path: Path) -> None:
    command = (sys.executable, "-I", "-S", one_file)
    check(core, tmp_path, *command)
    run(*command, "report", core.core, "-o", tmp_path / "page.html", cwd=tmp_path)
    assert "<h1>" in (tmp_path / "page.html").read_text()
    assert os.access(one_file, os.X_OK) and one_file.read_bytes().startswith(b"#!/usr/bin/env python3\n")


def test_one_file_says_what_it_lacks(one_file: Path, core: Stopped, tmp_path: Path) -> None:
    command = (sys.executable, "-I", "-S", one_file)
    packed = tmp_path / "core.zst"
    packed.write_bytes(zstd_frame(core.core.read_bytes()))
    if sys.version_info < (3, 14):
        refused = run(*command, "threads", packed, cwd=tmp_path, code=1).stderr
        assert "by zstd" in refused and "install backports.zstd" in refused
    refused = run(*command, "lldb-init", cwd=tmp_path, code=1).stderr
    assert "inside of an archive" in refused and "install ompd with pip" in refused


@pytest.mark.quick()
def test_a_stripped_runtime_is_read_by_the_tables_in_the_one_file(one_file: Path, tmp_path: Path) -> None:
    core = stopped("nested", mode="neither", runtime="libgomp")
    command = (sys.executable, "-I", "-S", one_file, "runtimes", "--json", core.core)
    (runtime,) = json.loads(run(*command, cwd=tmp_path).stdout)["runtimes"]
    assert runtime["layout"] == "table"
    assert one_file.name not in os.listdir(tmp_path)  # noqa: PTH208  nothing is unpacked here
