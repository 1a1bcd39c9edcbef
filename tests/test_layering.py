"""The house keeps its order (docs/architecture.md): imports point down, what is optional or slow stays in its place."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import clean_environment, stopped

PACKAGE = Path(__file__).parents[1] / "ompd"

# Layers from the bottom up. A module may import its own layer and those below; plugins and debugger share one and may
# not import each other.
LAYERS = (
    ("errors", "limits", "model", "outlined", "trust", "isolation", "reading", "writing"),
    ("contract",),
    ("debugger", "plugins"),
    ("session", "live"),
    ("questions", "analysis", "render"),
    ("inspection", "control", "commands", "lldb_frames", "lldb_script"),
    ("start",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Imports inside functions: the front door, and what would cost every command its start-up time.
INSIDE_FUNCTIONS = {
    ("ompd", "ompd.inspection"),
    ("ompd", "ompd.control"),
    ("ompd.start", "ompd.commands.main"),
    ("ompd.trust", "grp"),
    ("ompd.debugger.disk_cache", "ompd.writing"),
    ("ompd.trust", "pwd"),
    ("ompd.session", "ompd.live"),
    ("ompd.commands.main", "ompd.render.terminal"),
    ("ompd.commands.main", "ompd.render.schema"),
    ("ompd.commands.main", "ompd.questions.snapshot"),
    ("ompd.commands.main", "ompd.commands.lldb_init"),
    ("ompd.commands.main", "ompd.questions.layouts"),
    ("ompd.commands.prompt", "ompd.render.terminal"),
    ("ompd.debugger.targets.lldb", "lldb"),
    ("ompd.debugger.opening", "ompd.debugger.compressed"),
    ("ompd.debugger.opening", "ompd.debugger.coredumps"),
    ("ompd.debugger.formats.elf", "ompd.debugger.formats.zstd"),
    ("ompd.debugger.compressed", "lz4.frame"),
    ("ompd.debugger.compressed", "zstandard"),
    ("ompd.debugger.files", "ompd.debugger.debuginfod"),
    ("ompd.debugger.inspected", "ompd.debugger.formats.demangle"),
    ("ompd.debugger.formats.dwarf_names", "ompd.debugger.formats.demangle"),
    ("ompd.debugger.inspected", "ompd.debugger.emutls"),
    ("ompd.debugger.inspected", "ompd.debugger.emulate"),
    ("ompd.debugger.inspected", "ompd.debugger.decode"),
    ("ompd.debugger.inspected", "ompd.debugger.linking"),
    ("ompd.debugger.emulate", "unicorn"),
    ("ompd.debugger.inspected", "ompd.debugger.locals"),
    ("ompd.debugger.inspected", "ompd.debugger.tail_calls"),
    ("ompd.debugger.formats.dwarf_lines", "ompd.debugger.formats.dwarf_calls"),
    ("ompd.questions.stacks", "ompd.questions.locals"),
    ("ompd.debugger.types", "ompd.debugger.variables"),
    ("ompd.debugger.variables", "ompd.debugger.formats.demangle"),
    ("ompd.debugger.variable_names", "ompd.debugger.formats.demangle"),
    ("ompd.questions.variables", "ompd.debugger.variable_names"),
    ("ompd.questions.variables", "ompd.debugger.variable_reader"),
    ("ompd.questions.variables", "ompd.debugger.variables"),
    ("ompd.debugger.modules", "ompd.debugger.formats.minidebuginfo"),
    ("ompd.debugger.modules", "ompd.debugger.images"),
    ("ompd.debugger.unwind", "ompd.debugger.guesses"),
    ("ompd.plugins.defaults", "ompd.plugins.demangling"),
    ("ompd.plugins.discovery", "ompd.plugins.libgomp.plugin"),
    ("ompd.plugins.discovery", "ompd.plugins.libomp.plugin"),
    ("ompd.plugins.discovery", "ompd.plugins.stub.plugin"),
}
ONLY_IN = {
    "lldb": {"ompd.debugger.targets.lldb", "ompd.lldb_script"},
    "unicorn": {"ompd.debugger.emulate"},
    "ctypes": {"ompd.plugins.hosted", "ompd.debugger.targets.ptrace"},
    "click": {"ompd.commands.main", "ompd.commands.prompt"},
    "rich": {"ompd.render.terminal"},
    "elftools": set(),
    "itanium_demangler": {"ompd.debugger.formats.demangle"},
    "lz4": {"ompd.debugger.compressed"},
    "zstandard": {"ompd.debugger.compressed", "ompd.debugger.formats.zstd"},
    "urllib": {"ompd.debugger.debuginfod"},
}


def modules() -> dict[str, ast.Module]:
    return {
        ".".join(("ompd", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): ast.parse(
            path.read_text()
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


MODULES = modules()


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    here = layer(module)
    if not here:
        return  # the front door
    for imported in imports(MODULES[module]):
        if not imported.startswith("ompd."):
            continue
        there = layer(imported)
        if there not in RANK:  # a name of the front door's, as ompd.__version__
            continue
        assert RANK[there] <= RANK[here], f"{module} imports {imported}"
        assert {here, there} != {"debugger", "plugins"}, f"{module} imports {imported}"
        if here == "contract":
            assert there in ("contract", "errors")


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("ompd.debugger.formats")])
def test_formats_know_bytes_only(module: str) -> None:
    ours = {name for name in imports(MODULES[module]) if name.startswith("ompd.")}
    below = ("ompd.contract", "ompd.errors", "ompd.limits", "ompd.debugger.formats")
    assert all(name.startswith(below) for name in ours), ours


@pytest.mark.parametrize("module", MODULES)
def test_foreign_packages_stay_in_their_place(module: str) -> None:
    for imported in imports(MODULES[module]):
        allowed = ONLY_IN.get(imported.split(".")[0])
        assert allowed is None or module in allowed, f"{module} imports {imported}"


@pytest.mark.parametrize("module", MODULES)
def test_imports_inside_functions_have_a_reason(module: str) -> None:
    for function in ast.walk(MODULES[module]):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = {name for name in imports(function) if (module, name) not in INSIDE_FUNCTIONS}
            names = {name for name in inside if name in MODULES or not name.startswith("ompd")}
            assert not names, f"{module}.{function.name} imports {names}"


@pytest.mark.parametrize("module", MODULES)
def test_no_module_keeps_state(module: str) -> None:
    assert not [node for node in ast.walk(MODULES[module]) if isinstance(node, ast.Global)]


def loaded_after(code: str) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; sys.stderr.write(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(),
    )
    return set(run.stderr.split())


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_after("import ompd")
    assert not {name for name in loaded if name.startswith("ompd.")}
    assert not loaded & {"lldb", "unicorn", "click", "rich", "elftools"}


def test_threads_as_json_loads_no_slow_package() -> None:
    core = stopped("hang").core
    loaded = loaded_after(
        "import sys\n"
        f"sys.argv = ['ompd', 'threads', '--json', {str(core)!r}]\n"
        "from ompd.commands.main import main\n"
        "try: main()\nexcept SystemExit as end: assert end.code == 0"
    )
    slow = {"rich", "elftools", "lldb", "unicorn", "ctypes", "zstandard", "lz4", "tomllib", "subprocess", "asyncio"}
    slow |= {"itanium_demangler"}
    slow |= {"lzma", "tempfile", "urllib.request", "http.client"}
    slow |= {f"ompd.debugger.{name}" for name in ("compressed", "coredumps", "debuginfod", "formats.zstd")}
    slow |= {"ompd.plugins.libgomp.plugin", "ompd.plugins.stub.plugin", "ompd.plugins.demangling", "ompd.contract.dmpl"}
    assert not loaded & slow
