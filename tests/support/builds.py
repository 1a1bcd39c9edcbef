"""Builds of libgomp and libomp in common use (``tests/builds.toml``), which apt and pip fetch into the cache.

Other Debian suites than this machine's have separate package lists, which apt keeps in ``.cache/apt/``. A library that
needs a newer C library than this machine's runs on the C library of its own suite: programs are linked with that
loader.
"""

from __future__ import annotations

import fnmatch
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ompd.binary.elf.elf import ElfFile
from tests.support.cache import CACHE, CHECKOUT, key_of, locked
from tests.support.debs import run_tool, suite_options
from tests.support.machine import Missing, tomllib

TABLE = CHECKOUT / "tests" / "builds.toml"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
# Platforms of wheels that run on the tests' machines, in order of preference.
_PLATFORMS = (
    *("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014", "manylinux_2_12"),
    *("manylinux2010", "manylinux_2_5", "manylinux1"),
)
_RELEASES = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13", "forky": "Debian 14 (forky)"}


@dataclass(frozen=True)
class Build:
    """One row of builds.toml."""

    name: str
    kind: str
    file: str
    suite: str | None = None
    package: str | None = None
    wheels: tuple[str, ...] = ()
    python: str | None = None
    also: tuple[str, ...] = ()
    libc: bool = False
    refused: bool = False
    untold: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """Whether the build is a static library."""
        return self.file.endswith(".a")

    @property
    def folder(self) -> Path:
        """The folder of the build, which need not exist."""
        return CACHE / "builds" / f"{self.name}-{key_of(self.suite, self.package, self.wheels, self.file)[:12]}"

    def lib_file(self) -> Path:
        """Return the library.

        :raises Missing: if it was not fetched
        """
        path = self.folder / Path(self.file).name
        if not path.exists() or (self.libc and not _libc(str(self.suite)).is_dir()):
            raise Missing(self.name, f"nothing in {self.folder} (python -m tests.builds --fetch)")
        return path

    def what(self) -> str:
        """Return a description for people: package or wheel, its version, and the file.

        :raises Missing: if it was not fetched
        """
        self.lib_file()
        fetched: list[str] = json.loads((self.folder / "what.json").read_text())
        name = Path(self.file).name
        if self.wheels:
            return f"wheels of {', '.join([*fetched, *self.also])}: {name}, x86_64"
        return f"{_RELEASES.get(str(self.suite), f'Debian {self.suite}')}, {fetched[0]}, {name}, x86_64"

    def linking(self) -> tuple[str, ...]:
        """Return the linker's options for this build, without the library itself."""
        root = _libc(str(self.suite)) / _LIBRARIES
        if self.is_static:
            return ("-static", f"-B{root}", f"-L{root}") if self.libc else ("-static",)
        if not self.libc:
            return ()
        # The library's references to the newer C library are bound when the program starts.
        return (
            "-Wl,--allow-shlib-undefined",
            f"-Wl,-rpath,{root}",
            f"-Wl,--dynamic-linker={root / 'ld-linux-x86-64.so.2'}",
        )


@cache
def builds() -> dict[str, Build]:
    """Return the rows of builds.toml by name."""
    rows = tomllib.loads(TABLE.read_text())["build"]
    return {
        row["name"]: Build(**{**row, **{name: tuple(row.get(name, ())) for name in ("wheels", "also")}}) for row in rows
    }


def fetch(build: Build, *, every: bool = False) -> Path:
    """Return the library of *build*, after fetching it if it is missing.

    :param every: fetch all wheels of the build, not only the first; all must have the same library
    :raises Missing: if apt or pip cannot fetch it
    """
    if build.libc:
        _fetch_libc(str(build.suite))
    with locked(f"builds-{build.name}"):
        if every or not build.folder.is_dir():
            unfinished = build.folder.with_name(build.folder.name + ".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            what = _from_wheels(build, unfinished, every) if build.wheels else _from_package(build, unfinished)
            (unfinished / "what.json").write_text(json.dumps(what))
            shutil.rmtree(build.folder, ignore_errors=True)
            unfinished.rename(build.folder)
    return build.lib_file()


def _from_package(build: Build, folder: Path) -> list[str]:
    suite, package = str(build.suite), str(build.package)
    file = _download(build.name, suite, package, folder)
    run_tool(build.name, ["dpkg-deb", "-x", str(file), str(folder / "root")], folder)
    found = folder / "root" / build.file
    if not found.is_file():
        raise Missing(build.name, f"{file.name} has no {build.file}")
    shutil.copy(found, folder / found.name)
    if found.name == "libgomp.so.1.0.0":
        (folder / "libgomp.so.1").symlink_to(found.name)  # the name that programs are linked with
    version = run_tool(build.name, ["dpkg-deb", "-f", str(file), "Version"], folder).strip()
    shutil.rmtree(folder / "root")
    file.unlink()
    return [f"{package} {version}"]


def _from_wheels(build: Build, folder: Path, every: bool) -> list[str]:
    seen: list[str] = []
    target = folder / Path(build.file).name
    for wheel in build.wheels if every else build.wheels[:1]:
        platforms = [option for name in _PLATFORMS for option in ("--platform", f"{name}_x86_64")]
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"),
            *("--disable-pip-version-check", "--no-cache-dir", "--python-version", str(build.python)),
            *(*platforms, "--platform", "any", "--dest", str(folder), wheel),
        ]
        run_tool(build.name, command, folder)
        (archive,) = folder.glob("*.whl")
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if fnmatch.fnmatch(Path(name).name, build.file)]
            if len(names) != 1:
                raise Missing(build.name, f"{archive.name} has {len(names)} files {build.file}")
            raw = opened.read(names[0])
        archive.unlink()
        # Compare build-ids: each wheel has changed the names in the library in its own way.
        if target.exists() and build_id_of(target.read_bytes(), wheel) != build_id_of(raw, wheel):
            raise Missing(build.name, f"{wheel} has another {build.file} than {build.wheels[0]}")
        if not target.exists():
            target.write_bytes(raw)
        seen.append(wheel.replace("==", " "))
    return seen


def build_id_of(raw: bytes, name: str) -> str | None:
    """Return the build-id of a library in hexadecimal, or None if it has none."""
    found = ElfFile(raw, name).build_id()
    return found.hex() if found is not None else None


def altered(raw: bytes, routine: str, old: bytes, new: bytes) -> bytes:
    """Return a copy of the library in which *new* replaces the first occurrence of *old* in the exported *routine*."""
    with BytesIO(raw) as stream:
        file = ELFFile(stream)
        (symbol,) = (each for each in file.get_section_by_name(".dynsym").iter_symbols() if each.name == routine)
        (start,) = file.address_offsets(symbol["st_value"])
    at = raw.index(old, start, start + symbol["st_size"])
    return raw[:at] + new + raw[at + len(old) :]


# Debian


def _libc(suite: str) -> Path:
    return CACHE / "builds" / f"libc-{suite}"


def _fetch_libc(suite: str) -> None:
    # Unpack the C library, with the archives for static programs; leave out headers and the like.
    folder = _libc(suite)
    with locked(f"builds-libc-{suite}"):
        if folder.is_dir():
            return
        unfinished = folder.with_name(folder.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        root, libraries = unfinished / "root", unfinished / _LIBRARIES
        root.mkdir(parents=True)
        libraries.mkdir(parents=True)
        for package in ("libc6", "libc6-dev"):
            file = _download(f"libc-{suite}", suite, package, unfinished)
            run_tool(suite, ["dpkg-deb", "-x", str(file), str(root)], unfinished)
            file.unlink()
        for source in (root / "lib" / "x86_64-linux-gnu", root / _LIBRARIES):
            for path in source.glob("*") if source.is_dir() else ():
                if path.is_file() and not path.is_symlink() and re.search(r"\.(?:so[.\d]*|a|o)$", path.name):
                    shutil.copy(path, libraries / path.name)
        shutil.rmtree(root)
        unfinished.rename(folder)


def _download(name: str, suite: str, package: str, folder: Path) -> Path:
    run_tool(name, ["apt-get", *suite_options(suite), "-qq", "download", package], folder)
    (found,) = folder.glob("*.deb")
    return found


def fetch_source(suite: str, source: str, folder: Path) -> Path:
    """Return the original archive of a source package, fetched into *folder*.

    :raises Missing: if apt cannot fetch it
    """
    command = ["apt-get", *suite_options(suite, "deb-src"), "-qq", "--download-only", "--tar-only", "source", source]
    run_tool(source, command, folder)
    (found,) = folder.glob("*.orig.tar.*")
    return found
