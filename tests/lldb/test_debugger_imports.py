"""LLDB in a stranger's folder with a module for every name that could be imported: none of them may run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

import ompd
from ompd.safety.isolation import PACKAGES, AwayFromHere, Isolation
from tests.support import stopped
from tests.support.lldb import LOAD, VERSIONS, batch, lldb, target_create
from tests.support.lldb_replies import LOOKING, Replies
from tests.support.products import sample

PACKAGE = Path(ompd.__file__).parent
IMPORTS = re.compile(rb"^[ \t]*(?:from[ \t]+(\w[\w.]*)[ \t]+import|import[ \t]+(\w[\w., \t]*))", re.MULTILINE)
# The content of each planted module: it notes that it was run.
PLANTED = "open({marker!r}, 'a').write(__name__ + '\\n')\nimport sys; sys.stderr.write('STRANGER\\n')\n"
ENTRY_POINTS = "".join(
    f"[{group}]\nstranger = stranger:run\n" for group in ("pygments.lexers", "pygments.styles", "ompd.runtimes", "lldb")
)


def imported_names(folder: Path) -> set[str]:
    """Return the first parts of all names that files under a folder import, optional ones included."""
    # Text that only looks like an import merely adds a name.
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for name, names in IMPORTS.findall(path.read_bytes()):
            firsts = [each.split()[0] for each in (name, *names.split(b",")) if each.strip()]
            found |= {first.partition(b".")[0].decode() for first in firsts}
    return found


@cache
def all_names() -> frozenset[str]:
    folders = [PACKAGE]
    for name in PACKAGES:
        spec = None
        with suppress(ModuleNotFoundError):  # the parent package is missing
            spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            folders += map(Path, spec.submodule_search_locations)
    assert len(folders) > 5
    names = set().union(*map(imported_names, folders))
    # Modules of other versions and systems count as Python's own, and LLDB's Python may lack any of them.
    others = {"tomllib", "imp", "distutils", "msvcrt", "winreg", "_winapi", "readline", "_lzma", "_ctypes", "stranger"}
    ours = {path.stem for path in PACKAGE.glob("*.py")}  # LLDB adds the script's own folder
    loaded = {name.partition(".")[0] for name in sys.modules}
    return frozenset((names | others | ours | loaded | set(sys.stdlib_module_names) | set(PACKAGES)) - {"__main__"})


def plant(folder: Path, marker: Path, *, but: tuple[str, ...] = ()) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in all_names() - set(but):
        if name.isidentifier():
            (folder / f"{name}.py").write_text(PLANTED.format(marker=str(marker)))
    for name in ("ompd", "click", "rich", "unicorn"):
        if name not in but:
            (folder / f"{name}.py").unlink()
            (folder / name).mkdir()
            (folder / name / "__init__.py").write_text(PLANTED.format(marker=str(marker)))
    metadata = folder / "stranger-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)


def test_the_names_are_those_that_matter() -> None:
    assert {"ompd", "click", "rich", "unicorn", "attr", "IPython", "lzma", "backports", "tomllib"} <= all_names()
    assert len(all_names()) > 300


@pytest.mark.xdist_group("lldb")
@pytest.mark.parametrize(
    ("version", "where"),
    sample([(version, where) for version in VERSIONS for where in ("first", "here")]),
)
@pytest.mark.quick("14-first")
def test_nothing_in_the_current_folder_runs(version: int, where: str, tmp_path: Path) -> None:
    marker, folder, foreign = tmp_path / "marker", tmp_path / "here", tmp_path / "foreign"
    marker.touch()
    # LLDB itself imports the script by its name, from the first folder that has it.
    plant(folder, marker, but=() if where == "here" else ("lldb_script",))
    plant(foreign, marker, but=("lldb_script",))
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(foreign, nobody, -1)
    core = stopped("hang")
    clear = f"script open({str(marker)!r}, 'w').close()"
    first = "script import sys; sys.path[:0] = ['', '.', " + repr(str(foreign)) + "]"
    paths = "script import sys; print(sys.path)"
    told = Replies(
        batch(
            lldb(version),
            [
                *([first] if where == "first" else []),
                *(clear, paths, LOAD, target_create(core.executable, core.core)),
                *(*LOOKING, "ompd threads --json", "ompd stack --raw", "ompd thread 1", "ompd snapshot ../small.core"),
                *("help ompd threads", "ompd threads --bogus", "ompd auto on", "ompd var nothing --debug", paths),
            ],
            cwd=folder,
        )
    )
    assert told[LOAD] == ""
    assert "wait_lock" in told["ompd threads"] and '"schema"' in told["ompd threads --json"]
    assert "small.core: " in told["ompd snapshot ../small.core"]
    assert marker.read_text() == ""
    before, after = told.all(paths)
    assert before == after  # imports of LLDB and of its user are found as before


def test_the_path_while_our_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, writable = tmp_path / "own", tmp_path / "writable"
    for folder, mode in ((own, 0o755), (writable, 0o777)):
        folder.mkdir()
        folder.chmod(mode)
    below = writable / "below"
    below.mkdir()
    usual = ["", ".", str(writable), str(below), *sys.path, str(own), str(tmp_path / "missing")]
    monkeypatch.setattr(sys, "path", usual)
    isolation = Isolation()
    with isolation:
        with isolation:
            inner = list(sys.path)
        assert sys.path == inner
    assert sys.path is usual
    assert str(own) in inner and all(folder.startswith("/") for folder in inner)
    assert not {str(writable), str(below), str(tmp_path / "missing")} & set(inner)
    assert inner.index(str(PACKAGE.parent)) < inner.index(str(own))

    @isolation
    def fails() -> None:
        raise ValueError(sys.path)

    with pytest.raises(ValueError, match="own"):
        fails()
    assert sys.path is usual
    with AwayFromHere():
        assert sys.path[: len(usual) - 2] == usual[2:] and str(PACKAGE.parent) in sys.path


def test_a_package_of_elsewhere_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolation = Isolation()
    isolation.check_loaded()
    (tmp_path / "lz4.py").write_text("")
    spec = importlib.util.spec_from_file_location("lz4", tmp_path / "lz4.py")
    assert spec is not None
    monkeypatch.setitem(sys.modules, "lz4", importlib.util.module_from_spec(spec))
    with pytest.raises(ImportError, match=f"lz4 is loaded already, from {tmp_path}/lz4.py"):
        isolation.check_loaded()


def test_a_folder_of_elsewhere_is_no_part_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # "backports" has folders and no file, so that any such folder on the path becomes a part of the package.
    (tmp_path / "backports").mkdir()
    isolation = Isolation()
    for name in ("backports", "backports.zstd"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module("backports")
    assert str(tmp_path / "backports") in list(loaded.__path__)
    with pytest.raises(ImportError, match=f"backports is loaded already, from .*{tmp_path}/backports"):
        isolation.check_loaded()
    with isolation:  # its parts are searched anew
        isolation.check_loaded()
