"""LLVM's libomp with debug information, as Spack and developers build it; no Debian package has such a libomp.

It is built once from Debian's source package of LLVM 19, of which only openmp and its build dependencies are unpacked.
This takes about two minutes, half of them in the compilers. The library stays in ``.cache/libomp/``. ``make test-full``
and ``make bench`` use it; ``python -m tests.support.tools libomp`` builds it if it is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.support.builds import fetch_source
from tests.support.cache import CACHE, entry, key_of
from tests.support.debs import run_tool
from tests.support.machine import Missing, require

NAME = "libomp-19-debug"
_SUITE, _SOURCE = "bookworm", "llvm-toolchain-19"
_PARTS = ("openmp", "cmake", "runtimes", "llvm/cmake", "llvm/utils/lit")
_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
    *("-DLIBOMP_OMPD_SUPPORT=ON", "-DLIBOMP_OMPD_GDB_SUPPORT=OFF"),
    *("-DOPENMP_ENABLE_LIBOMPTARGET=OFF", "-DOPENMP_ENABLE_OMPT_TOOLS=OFF"),
)
_WHEEL = "cmake==3.31.6"  # for machines without cmake
_ROOM, _KEY = "libomp", key_of(_SUITE, _SOURCE, _PARTS, _OPTIONS)


def libomp_with_debug_information() -> Path:
    """Return ``libomp.so``.

    :raises Missing: if it was not built
    """
    library = CACHE / _ROOM / _KEY / "libomp.so"
    if not library.exists():
        raise Missing(NAME, f"nothing in {library.parent} (python -m tests.support.tools libomp)")
    return library


def build_libomp() -> Path:
    """Return :func:`libomp_with_debug_information`, after building it if it is missing.

    :raises Missing: if something that the build needs is missing
    """
    return entry(_ROOM, _KEY, _make) / "libomp.so"


def _make(folder: Path) -> None:
    compilers = [f"-DCMAKE_{language}_COMPILER={require(tool)}" for language, tool in (("C", "gcc"), ("CXX", "g++"))]
    cmake = _cmake(folder)
    archive = fetch_source(_SUITE, _SOURCE, folder)
    version = archive.name.removeprefix(f"{_SOURCE}_").removesuffix(".orig.tar.xz")
    root = f"{_SOURCE}_{version}"
    run_tool(NAME, ["tar", "xf", str(archive), *(f"{root}/{part}" for part in _PARTS)], folder)
    archive.unlink()
    source, made = folder / root, folder / "made"
    places = ["-G", "Unix Makefiles", "-S", str(source / "openmp"), "-B", str(made)]
    options = [*_OPTIONS, f"-DPACKAGE_VERSION={version}", f"-DPython3_EXECUTABLE={sys.executable}", *compilers]
    run_tool(NAME, [str(cmake), *places, *options], folder)
    run_tool(NAME, [str(cmake), "--build", str(made), "--target", "omp", "-j", str(os.cpu_count() or 1)], folder)
    (library,) = (path for path in made.rglob("libomp.so") if path.is_file() and not path.is_symlink())
    shutil.move(library, folder / "libomp.so")
    for rest in (source, made, folder / "cmake"):
        shutil.rmtree(rest, ignore_errors=True)


def _cmake(folder: Path) -> Path:
    found = shutil.which("cmake")
    if found is not None:
        return Path(found)
    target = folder / "cmake"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--disable-pip-version-check"]
    run_tool(NAME, [*pip, "--target", str(target), _WHEEL], folder)
    return target / "cmake" / "data" / "bin" / "cmake"
