"""No command loads a library of the target or a library that a runtime names, unless the user allows it. The evidence
is the kernel's record of executable mappings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import ompd
from ompd.commands.table import COMMANDS
from tests.support import FULL, Missing, clean_environment, require, running, stopped
from tests.support.planted import RAN, build_library, have_run

_MORE = {"var": ("counter",), "snapshot": ("-o", "{folder}/small.core")}
_ALL = [*(command.name for command in COMMANDS if command.ompd_library is None), "snapshot"]
"""All commands but those that are made to load a library."""
_COMMANDS = _ALL if FULL else ["threads", "runtimes", "doctor"]
_TRACED = "open,openat,openat2,mmap,mprotect,pkey_mprotect,mremap,memfd_create,execve,execveat,fork,vfork,clone,clone3"
_MAPPED = re.compile(r"\d+ +mmap\(.*PROT_EXEC.*, \d+<(.*)>(?:\(deleted\))?, (?:0x)?[0-9a-f]+\) = 0x[0-9a-f]+")
# Modules that load foreign code into a process. `doctor` only checks how a library could be confined, and loads none.
_LOADERS = re.compile(r"ompd/runtimes/hosted/(?!(?:loading/)?(?:__init__|sandbox|folders)\.)[\w/]*\.")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A core of a program whose runtime names a library, and the folder that holds the core and such libraries."""
    folder = tmp_path_factory.mktemp("place")
    target = stopped("hang")
    shutil.copy(target.core, folder / "core")
    # Plant a library under each name that a runtime has for it, in the folder where it might be looked for.
    for name in ("iomp5_db", "ompd", "omp", "gomp"):
        build_library(folder, name)
    return folder / "core", folder


def traced(arguments: Sequence[str | Path], folder: Path, log: Path) -> list[str]:
    """Return the system calls of a command, as strace writes them."""
    prefix = [str(require("strace")), "-f", "-qq", "-y", "-s", "4096", "-o", str(log), "-e", f"trace={_TRACED}"]
    ran = log.with_name("ran")
    ran.mkdir(exist_ok=True)
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "ompd", *map(str, arguments)],
        cwd=folder,
        env={
            **clean_environment(),
            "LD_LIBRARY_PATH": f"{folder}:.",
            RAN: str(ran),
            "PYTHONPATH": os.pathsep.join(_path()),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if not log.exists() or "ptrace" in done.stderr.lower().partition("traceback")[0]:
        raise Missing("strace", done.stderr, forbidden=True)
    assert "Traceback" not in done.stderr, done.stderr
    assert have_run(ran) == set()
    return log.read_text(errors="replace").splitlines()


def _path() -> Iterator[str]:
    yield str(Path(ompd.__file__).parents[1])


def executed(calls: Sequence[str]) -> set[str]:
    """Return the files whose code was mapped as executable."""
    return {found[1] for line in calls if (found := _MAPPED.match(line))}


def is_of_python(path: str) -> bool:
    """Return whether a file belongs to Python, its packages, or the system's libraries that these need."""
    own = {sys.prefix, sys.base_prefix, "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/bin", "/usr/local"}
    own |= {os.path.realpath(folder) for folder in sys.path if folder.endswith(("site-packages", "dist-packages"))}
    return any(Path(path).is_relative_to(folder) for folder in own)


@pytest.mark.parametrize("name", _COMMANDS)
@pytest.mark.quick("threads", "doctor")
def test_no_command_maps_code_but_pythons(name: str, place: tuple[Path, Path], tmp_path: Path) -> None:
    core, folder = place
    more = [word.format(folder=tmp_path) for word in _MORE.get(name, ())]
    check(traced([name, core, *more], folder, tmp_path / "log"))


def test_no_code_is_mapped_for_a_process_that_runs(place: tuple[Path, Path], tmp_path: Path) -> None:
    with running("hang", folder=tmp_path) as target:
        check(traced(["runtimes", str(target.pid)], place[1], tmp_path / "log"))


@pytest.mark.parametrize("command", [("threads", "--ompd-library", "named"), ("check",)])
def test_with_the_users_word_only_checked_copies_are_mapped(
    command: tuple[str, ...], place: tuple[Path, Path], tmp_path: Path
) -> None:
    # The library beside the runtime is copied, not its namesake in the current folder or LD_LIBRARY_PATH.
    code = executed(traced([*command, place[0]], place[1], tmp_path / "log"))
    others = {path for path in code if not is_of_python(path)}
    assert "/memfd:libiomp5_db.so" in others and all(path.startswith("/memfd:lib") for path in others)


@pytest.mark.parametrize("name", ["libiomp5_db.so", "./libiomp5_db.so", "open/libiomp5_db.so"])
def test_a_planted_library_is_not_mapped_even_if_it_is_named(
    name: str, place: tuple[Path, Path], tmp_path: Path
) -> None:
    core, folder = place
    planted = build_library(folder / "open", "iomp5_db")
    planted.parent.chmod(0o777)
    wanted = str(planted) if name.startswith("open") else name
    check(traced(["threads", core, "--ompd-library", wanted], folder, tmp_path / "log"), hosts=True)


def check(calls: Sequence[str], *, hosts: bool = False) -> None:
    """Check that only files of Python and its packages are mapped as executable, and that no program is run."""
    code = executed(calls)
    assert any("python" in path for path in code), "strace saw nothing"
    assert {path for path in code if not is_of_python(path)} == set()
    assert not [line for line in calls if "memfd_create" in line or "exec" in line.partition("(")[0]][1:]
    opened = [line for line in calls if " open" in line and "= -1" not in line]
    assert hosts or not [line for line in opened if _LOADERS.search(line.replace("__pycache__/", ""))]
