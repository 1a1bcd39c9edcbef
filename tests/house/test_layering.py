"""Imports go to lower layers, and only certain modules import optional or slow packages: docs/dev/architecture.md."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import imports as house
from tests.support import stopped
from tests.support.cache import CHECKOUT
from tests.support.imports import PACKAGE, imports, loaded_after, modules

# Each process that runs one of these tests reads all files.
pytestmark = pytest.mark.xdist_group("house")

STUBS = CHECKOUT / "runtime_stub" / "plugin" / "ompd_stub"

# Layers from the bottom up. A module may import its own layer and lower ones, but the two halves ``debugger`` and
# ``runtimes`` may not import each other.
LAYERS = (
    ("errors", "model", "naming", "records", "safety"),
    ("binary", "contract", "isa"),
    ("debugger", "runtimes"),
    ("session", "analysis", "machine"),
    ("questions", "conformance", "render"),
    ("report", "triage", "run", "pytest_plugin"),
    ("inspection", "commands", "frontends", "mcp", "lldb", "lldb_script", "gdb", "gdb_script"),
    ("start", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ONLY_IN = {
    "lldb": {
        "ompd.debugger.targets.lldb.loading",
        "ompd.lldb.code",
        "ompd.lldb.commands",
        "ompd.lldb.debugger",
        "ompd.lldb.prompts",
        "ompd.lldb.running",
        "ompd.lldb.stops",
        "ompd.lldb.walking",
    },
    "gdb": {
        "ompd.gdb_script",
        *(
            f"ompd.gdb.{name}"
            for name in (
                "code",
                "commands",
                "debugger",
                "frames",
                "functions",
                "names",
                "prompts",
                "running",
                "sessions",
                "stops",
                "walking",
            )
        ),
        *(f"ompd.debugger.targets.gdb.{name}" for name in ("files", "inferior", "target")),
    },
    "unicorn": {"ompd.debugger.emulation.emulate"},
    "ctypes": {
        "ompd.debugger.targets.live.ptrace",
        "ompd.lldb.interrupts",
        "ompd.pytest_plugin",
        *(f"ompd.runtimes.hosted.worker.{name}" for name in ("callbacks", "calls", "main", "raw")),
        "ompd.runtimes.hosted.loading.loader",
        "ompd.runtimes.hosted.loading.sandbox",
        "ompd.safety.libraries",
        *(f"ompd.runtimes.hosted.dmpl.{name}" for name in ("table", "worker")),
        "ompd.runtimes.hosted.trial.worker",
    },
    "distributed": {"ompd.triage.clusters"},
    "mcp": {"ompd.mcp.server"},
    "mpi4py": {"ompd.triage.clusters"},
    "click": {
        *(f"ompd.commands.{name}" for name in ("completing", "ending", "main", "options")),
        "ompd.frontends.prompt",
        *(f"ompd.commands.setup.{name}" for name in ("completion", "installing", "manual")),
        *(
            f"ompd.commands.shell.{name}"
            for name in (
                "conformance",
                "diff",
                "hook",
                "layout",
                "mcp",
                "profile",
                "questions",
                "report",
                "request",
                "run",
                "schema",
                "snapshot",
                "triage",
            )
        ),
    },
    "rich": {"ompd.render.colours"},
    "jinja2": {"ompd.report.template"},
    "markupsafe": {"ompd.report.sections", "ompd.report.template", "ompd.report.triage.sections"},
    "pandas": {"ompd.model.base"},
    "elftools": {"ompd.runtimes.layout.second_reader"},
    "itanium_demangler": {"ompd.binary.demangle"},
    "lz4": {"ompd.debugger.files.compressed"},
    "backports": {"ompd.binary.elf.zstd"},
    "compression": {"ompd.binary.elf.zstd"},
    "urllib": {"ompd.debugger.files.debuginfod"},
}


def layer(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def each_import(package: Path = PACKAGE) -> Iterator[tuple[str, str]]:
    """Return pairs of a module of the package and a name that it imports at any place.

    A rule is a single test: collecting a test for each of hundreds of modules would take longer than running it.
    """
    return ((module, imported) for module, tree in modules(package).items() for imported in sorted(imports(tree)))


def may_import(here: str, there: str) -> bool:
    if here == "contract" and there not in ("contract", "errors", "naming", "records"):
        return False
    return RANK[there] <= RANK[here] and {here, there} != {"debugger", "runtimes"}


def test_imports_point_down() -> None:
    ours = [(module, imported) for module, imported in each_import() if imported.startswith("ompd.")]
    # ompd itself is above all layers; names in no layer are its own, such as ompd.__version__.
    known = [pair for pair in ours if layer(pair[0]) and layer(pair[1]) in RANK]
    assert len(known) > len(modules(PACKAGE))
    assert [pair for pair in known if not may_import(layer(pair[0]), layer(pair[1]))] == []


def test_a_plugin_of_others_imports_the_contract_alone() -> None:
    allowed = tuple(f"{name}." for name in (*sys.stdlib_module_names, "ompd.contract", "ompd.errors", "ompd_stub"))
    assert [pair for pair in each_import(STUBS) if not f"{pair[1]}.".startswith(allowed)] == []


def test_imports_of_the_stubs_plugin_have_an_order() -> None:
    of_the_stub = modules(STUBS)
    waiting = {
        name: imports(tree, at_run_time=True) & of_the_stub.keys() - {name} for name, tree in of_the_stub.items()
    }
    order: list[str] = []
    while waiting:
        ready = [name for name, needed in waiting.items() if needed <= {*order, "ompd_stub"}]
        assert ready, f"in a circle: {sorted(waiting)}"
        order += ready
        waiting = {name: needed for name, needed in waiting.items() if name not in ready}
    assert order[-1] == "ompd_stub.plugin"


def test_formats_know_bytes_only() -> None:
    below = ("ompd.errors", "ompd.records", "ompd.safety.limits", "ompd.binary")
    ours = [pair for pair in each_import() if pair[0].startswith("ompd.binary") and pair[1].startswith("ompd.")]
    assert [pair for pair in ours if pair[1] != "ompd.safety" and not pair[1].startswith(below)] == []


def test_of_the_runtimes_half_only_what_loads_libraries_reads_files() -> None:
    readers = {name for name, needed in house.files().items() if any(each.startswith("ompd.binary") for each in needed)}
    assert {name for name in readers if layer(name) == "runtimes"} == {"ompd.runtimes.hosted.loading.needs"}


def test_queries_know_of_the_debuggers_half_what_the_session_shows() -> None:
    # Imports of its classes for type checking only are allowed.
    below = {
        (name.removeprefix("ompd.questions."), imported)
        for name, tree in modules(PACKAGE).items()
        for imported in imports(tree, at_run_time=True)
        if name.startswith("ompd.questions") and layer(imported) in ("debugger", "binary")
    }
    assert not below


def test_the_graph_on_the_page_is_that_of_the_code() -> None:
    text = house.PAGE.read_text()
    assert house.page(text) == text, "draw it anew: make graph"


def test_circles_are_found_whole() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": set(), "f": {"g"}, "g": {"f"}}
    frozen = {name: frozenset(needed) for name, needed in graph.items()}
    assert house.circles(frozen) == [frozenset("abc"), frozenset("fg")]
    chain = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset()}
    assert house.reduced(chain) == {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset()}
    assert house.reduced(frozen) == frozen


def test_every_folder_says_what_it_is() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert all(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) for folder in folders)


def test_foreign_packages_stay_in_their_place() -> None:
    foreign = [(module, name.split(".")[0]) for module, name in each_import() if name.split(".")[0] in ONLY_IN]
    assert {name for _, name in foreign} == ONLY_IN.keys()
    assert [(module, name) for module, name in foreign if module not in ONLY_IN[name]] == []


def test_no_module_keeps_state() -> None:
    nodes = ((module, node) for module, tree in modules(PACKAGE).items() for node in house.statements(tree))
    keep = {module for module, node in nodes if isinstance(node, ast.Global)}
    assert keep == set()


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_after("import ompd")
    assert not {name for name in loaded if name.startswith("ompd.")}
    assert not loaded & {"lldb", "unicorn", "click", "rich", "elftools", "jinja2"}


def test_threads_as_json_loads_no_slow_package() -> None:
    core = stopped("hang").core
    loaded = loaded_after(
        "import sys\n"
        f"sys.argv = ['ompd', 'threads', '--json', {str(core)!r}]\n"
        "from ompd.commands.main import main\n"
        "try: main()\nexcept SystemExit as end: assert end.code == 0"
    )
    slow = {
        "jinja2",
        "markupsafe",
        "ompd.report",
        "rich",
        "elftools",
        "lldb",
        "unicorn",
        "ctypes",
        "backports",
        "lz4",
        "tomllib",
        "subprocess",
        "asyncio",
    }
    slow |= {"itanium_demangler", "ompd.binary.elf.compressed", "ompd.binary.elf.zstd"}
    slow |= {"lzma", "tempfile", "urllib.request", "http.client"}
    slow |= {f"ompd.debugger.files.{name}" for name in ("compressed", "coredumps", "debuginfod")}
    slow |= {
        "ompd.runtimes.libgomp.plugin",
        "ompd.runtimes.guarded",
        "ompd.runtimes.installed",
        "ompd_stub",
        "ompd.contract.helpers.demangling",
        "ompd.contract.dmpl",
    }
    assert not loaded & slow
