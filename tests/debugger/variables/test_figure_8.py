"""Figure 8 of the DMPL white paper, on common runtimes: each thread counts its own iterations of a loop."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ompd.debugger.process import StoppedProcess
from ompd.errors import BadInput
from ompd.questions import variables
from ompd.session import Session
from tests.stub.programs import FOLDER
from tests.support.build import compiler, run_compiler
from tests.support.cache import entry, key_of
from tests.support.machine import intel_runtime
from tests.support.runs import ENVIRONMENT, cores_allowed, require_kernel_cores
from tests.support.runtimes import RUNTIMES

LLVMS = ("libomp-19", "intel")
USE_TLS, BY_RUNTIME = "", "-fnoopenmp-use-tls"
CASES = [
    *(("gcc", USE_TLS, runtime) for runtime in (*LLVMS, "libgomp")),
    *(("clang", flag, runtime) for flag in (USE_TLS, BY_RUNTIME) for runtime in LLVMS),
]
EXPECTED = [3, 3, 2, 2]


def core_of_figure_8(compiler_name: str, flag: str, runtime: str) -> Path:
    """Return the core of the program once all iterations have counted. Its output is beside the core."""
    require_kernel_cores()
    openmp, used = RUNTIMES[runtime], compiler(compiler_name)
    library = openmp.file().parent
    headers = ["-idirafter", str(intel_runtime() / "opt" / "compiler" / "include")]
    compiling = [str(used.path), "-g", "-O0", "-fPIE", *([flag] if flag else []), *headers]
    parts = {"figure8.c": ["-fopenmp", "-Dfflush=stop_after_all"], "after_all.c": []}
    linking = [f"-L{library}", f"-Wl,-rpath,{library}", *openmp.options, "-lpthread"]

    def make(folder: Path) -> None:
        for name, options in parts.items():
            run_compiler([*compiling, *options, "-c", str(FOLDER / name), "-o", f"{name}.o"], folder)
        run_compiler([str(used.path), "-pie", *(f"{name}.o" for name in parts), "-o", "figure8", *linking], folder)

    texts = [(FOLDER / name).read_text() for name in parts]
    key = key_of("figure-8", used.version, texts, compiling, list(parts.values()), linking, openmp.version())
    program = entry("programs", key, make) / "figure8"

    def make_core(folder: Path) -> None:
        with (folder / "output").open("wb") as output, cores_allowed():
            subprocess.run([program], cwd=folder, stdout=output, env=ENVIRONMENT, timeout=60, check=False)
        (core,) = folder.glob("core*")
        core.rename(folder / "core")

    return entry("cores", key, make_core) / "core"


@pytest.mark.parametrize(("compiler_name", "flag", "runtime"), CASES, ids=lambda word: word or "tls")
@pytest.mark.quick(
    "gcc-tls-libomp-19",
    "gcc-tls-intel",
    "gcc-tls-libgomp",
    "clang-tls-libomp-19",
    "clang--fnoopenmp-use-tls-libomp-19",
    "clang--fnoopenmp-use-tls-intel",
)
def test_each_thread_has_counted_its_iterations(compiler_name: str, flag: str, runtime: str) -> None:
    core = core_of_figure_8(compiler_name, flag, runtime)
    with Session.open_core(core) as session:
        rows = [row for row in variables.ask(session, "a").rows if row.thread_num is not None]
        (found,) = session.runtimes
        assert found.space is not None and isinstance(session.process, StoppedProcess)
        process = session.process
        mechanism = "cached" if flag == BY_RUNTIME else "tls"
        assert [(row.thread_num, row.value, row.mechanism) for row in rows] == [
            (number, count, mechanism) for number, count in enumerate(EXPECTED)
        ]
        assert len({row.address for row in rows}) == len(EXPECTED)
        # DMPL_get_tls_address is for copies that the runtime keeps. The debugger finds other copies in thread-local
        # storage.
        for row in rows:
            (handle,) = (one for one in found.space.threads() if one.native_thread_id() == row.native_thread_id)
            if flag == BY_RUNTIME:
                address = handle.threadprivate_address(
                    process.contract.callbacks(process.symbols.modules()[0]).find_symbol("a")
                )
                assert address == row.address and address is not None
                assert int.from_bytes(process.memory.read(address, 4), "little") == row.value
            else:
                with pytest.raises(BadInput):
                    handle.threadprivate_address(row.address or 0)
    printed = (core.parent / "output").read_text().splitlines()
    assert sorted(line.partition(",")[0] for line in printed) == [f"id={n}" for n in (0, 0, 0, 1, 1, 1, 2, 2, 3, 3)]
