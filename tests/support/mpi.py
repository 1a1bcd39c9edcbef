"""Open MPI and MPICH, unpacked but not installed: the environment and builds of their programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.build import compiler
from tests.support.cache import entry, key_of
from tests.support.debs import deb_folder
from tests.support.machine import clean_environment
from tests.support.outside import SOURCES


def _of_open_mpi() -> tuple[Path, Path]:
    # Return the folder of Open MPI's libraries, and the folder of the other libraries that it needs.
    shared = deb_folder("openmpi") / "usr" / "lib" / "x86_64-linux-gnu"
    return shared / "openmpi" / "lib", shared


def _of_mpich() -> tuple[Path, Path]:
    folder = deb_folder("mpich")
    return folder / "usr" / "include" / "x86_64-linux-gnu" / "mpich", folder / "usr" / "lib" / "x86_64-linux-gnu"


def environment_of_open_mpi() -> dict[str, str]:
    """Return the environment that an unpacked Open MPI needs for two ranks on one machine."""
    folder = deb_folder("openmpi")
    own, shared = _of_open_mpi()
    libraries = (own, shared, shared / "pmix2" / "lib", folder / "lib" / "x86_64-linux-gnu")
    return {
        "OPAL_PREFIX": str(folder / "usr"),
        "OPAL_LIBDIR": str(own),
        "OPAL_PKGLIBDIR": str(own / "openmpi3"),
        "OPAL_DATADIR": str(folder / "usr" / "share"),
        "OPAL_PKGDATADIR": str(folder / "usr" / "share" / "openmpi"),
        "OPAL_SYSCONFDIR": str(folder / "etc"),
        "PMIX_INSTALL_PREFIX": str(shared / "pmix2"),
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,vader",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMP_WAIT_POLICY": "passive",
    }


def environment_of_mpich() -> dict[str, str]:
    """Return the environment that an unpacked MPICH needs."""
    shared = _of_mpich()[1]
    also = deb_folder("mpich") / "lib" / "x86_64-linux-gnu"
    return {"LD_LIBRARY_PATH": f"{shared}:{also}", "OMP_WAIT_POLICY": "passive"}


def build(library: str, level: str, name: str = "ranks") -> Path:
    """Return the executable of ``tests/outside/NAME.c`` for *library*, one of the two."""
    gcc, source = compiler("gcc"), SOURCES / f"{name}.c"
    if library == "mpich":
        headers, shared = _of_mpich()
        linking = [f"-L{shared}", f"-Wl,-rpath-link,{shared}", "-l:libmpich.so.12"]
    else:
        own, shared = _of_open_mpi()
        headers = own.parent / "include"
        linking = [f"-L{shared}", f"-Wl,-rpath-link,{own}:{shared}", "-l:libmpi.so.40"]
    compiling = ["-g", level, "-fopenmp", "-I", str(headers)]

    def make(folder: Path) -> None:
        command = [str(gcc.path), *compiling, str(source), "-o", str(folder / name), *linking]
        subprocess.run(command, check=True, env=clean_environment())

    key = key_of("outside", source.read_text(), gcc.version, compiling, linking)
    return entry("programs", key, make) / name


def launch_words(library: str) -> tuple[Path, list[str], dict[str, str]]:
    """Return the launcher of *library*, one of the two, its own options, and the environment that it needs."""
    programs = deb_folder(library) / "usr" / "bin"
    if library == "mpich":
        return programs / "mpiexec.hydra", [], environment_of_mpich()
    return programs / "mpirun.openmpi", ["--oversubscribe", "--bind-to", "none"], environment_of_open_mpi()
