"""The axis ``runtime``: the OpenMP runtimes that the programs of ``fixtures/programs`` are linked with."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from tests.support.builds import Build, builds
from tests.support.debs import deb_folder
from tests.support.libomp_build import NAME as WITH_DEBUG_INFORMATION
from tests.support.libomp_build import libomp_with_debug_information
from tests.support.m32 import m32_flags
from tests.support.machine import clean_environment, intel_runtime, require, table, wheel_folder
from tests.support.stub import DUMP, sources_key, stub_folder

INTEL = "intel"
WHEELS = "libgomp-a34b3233.so.1.0.0"


@dataclass(frozen=True)
class OpenmpRuntime:
    """A runtime by its *name* on the axis.

    *kind* is its kind in ``runtimes``. *file* returns its path, or raises :exc:`Missing`. *options* link with it;
    linker and loader search its folder. *version* returns a text that distinguishes its builds. *has_ompd*: it has
    OMPD's symbols. *has_ompt*: a tool receives its events. *dlls* returns the libraries that it names for debuggers
    once it is initialised, None if it names none. *sources* are additional C files for programs. *compiling* and
    *linking* return options for its processor.
    """

    name: str
    kind: str
    file: Callable[[], Path]
    options: tuple[str, ...]
    version: Callable[[], str]
    has_ompd: bool = False
    has_ompt: bool = True
    dlls: Callable[[], tuple[str, ...] | None] = lambda: None
    sources: tuple[Path, ...] = ()
    compiling: Callable[[], tuple[str, ...]] = tuple
    linking: Callable[[], tuple[str, ...]] = tuple


def _debian(release: int) -> OpenmpRuntime:
    name = f"libomp-{release}"

    def library() -> Path:
        return deb_folder(name) / "usr" / "lib" / f"llvm-{release}" / "lib" / "libomp.so.5"

    # The package has no libomp.so for -lomp.
    return OpenmpRuntime(name, "libomp", library, ("-l:libomp.so.5",), lambda: _digest(library()))


def _stub(
    name: str,
    compiling: Callable[[], tuple[str, ...]],
    linking: Callable[[], tuple[str, ...]],
    *,
    has_tool: bool = False,
) -> OpenmpRuntime:
    def folder() -> Path:
        return stub_folder(flags=compiling() + linking())

    return OpenmpRuntime(
        name,
        "stub",
        lambda: folder() / "libomp_stub.so",
        ("-l:libomp_stub.so", "-Wl,--wrap=rename"),
        sources_key,
        True,
        has_tool,
        # The runtime names the libraries by its own folder with symbolic links resolved.
        lambda: (*(str(folder().resolve() / f"libompd_stub{bits}.so") for bits in ("32", "")), "ompd-stub"),
        (DUMP,),
        compiling,
        linking,
    )


def _with_debug_information() -> OpenmpRuntime:
    # It names a library for debuggers in its own folder; this library is not built.
    library = libomp_with_debug_information
    return OpenmpRuntime(
        WITH_DEBUG_INFORMATION,
        "libomp",
        library,
        ("-l:libomp.so",),
        lambda: _digest(library()),
        True,
        dlls=lambda: ("libompd.so", str(library().with_name("libompd.so"))),
    )


def _of_others(build: Build) -> OpenmpRuntime:
    name = Path(build.file).name.replace("libgomp.so.1.0.0", "libgomp.so.1")
    options = (f"-l:{name}", "-ldl") if build.is_static else (f"-l:{name}",)
    return OpenmpRuntime(
        build.name, build.kind, build.lib_file, options, lambda: _digest(build.lib_file()), linking=build.linking
    )


@cache
def _digest(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _gnus() -> Path:
    # Return the libgomp of the compiler's package. -print-file-name gives a link in the compiler's folder.
    found = subprocess.run(
        [str(require("gcc")), "-print-file-name=libgomp.so.1"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    return Path(found.stdout.strip()).resolve()


def _wheels() -> Path:
    # Return an old libgomp, which lacks the entry points of later releases.
    return wheel_folder("scikit-learn") / "scikit_learn.libs" / WHEELS


STRIPPED = tuple(f"libomp-{release}" for release in (13, 14, 15, 16, 19))
"""Debian's packages of LLVM's runtime, which have neither symbol table nor debug information."""

RUNTIMES: Mapping[str, OpenmpRuntime] = {
    runtime.name: runtime
    for runtime in (
        OpenmpRuntime(
            INTEL,
            "libiomp5",
            lambda: intel_runtime() / "lib" / "libiomp5.so",
            ("-liomp5",),
            lambda: str(table()["intel-openmp"].version),
            True,
            dlls=lambda: ("libiomp5_db.so",),
        ),
        OpenmpRuntime(
            "libgomp",
            "libgomp",
            lambda: _gnus().with_name("libgomp.so.1"),
            ("-l:libgomp.so.1",),
            lambda: _digest(_gnus()),
        ),
        OpenmpRuntime(
            "libgomp-wheel",
            "libgomp",
            _wheels,
            (f"-l:{WHEELS}",),
            lambda: _digest(_wheels()),
        ),
        _stub("stub", tuple, tuple),
        _stub("stub-tool", tuple, tuple, has_tool=True),
        _stub("stub-32", lambda: m32_flags().compile, lambda: m32_flags().link),
        _with_debug_information(),
        *(_debian(int(name.rpartition("-")[2])) for name in STRIPPED),
        *map(_of_others, builds().values()),
    )
}
