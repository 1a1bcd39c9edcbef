"""The house keeps its order (docs/architecture.md): imports point down, what is optional or slow stays in its place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import imports as house
from tests.support import stopped
from tests.support.imports import PACKAGE, imports, loaded_after, modules

# Each process that runs any of these has to read all files.
pytestmark = pytest.mark.xdist_group("house")

STUBS = Path(__file__).parents[1] / "runtime_stub" / "plugin" / "ompd_stub"

# Layers from the bottom up. A module may import its own layer and those below; those that share one as halves
# do may not import each other.
LAYERS = (
    ("errors", "model", "naming", "records", "safety"),
    ("binary", "contract"),
    ("debugger", "runtimes"),
    ("session", "analysis", "machine"),
    ("questions", "conformance", "render"),
    ("report", "triage"),
    ("inspection", "commands", "lldb", "lldb_script", "gdb", "gdb_script"),
    ("start", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
# Imports inside functions: the package's own functions, and what would cost every command its start-up time.
INSIDE_FUNCTIONS = {
    ("ompd", "ompd.debugger.files.finder"),
    ("ompd", "ompd.inspection"),
    ("ompd", "ompd.gdb.sessions"),
    ("ompd", "ompd.errors"),
    ("ompd", "ompd.lldb.control"),
    ("ompd.start", "ompd.commands.main"),
    ("ompd.safety.libraries", "ctypes"),
    ("ompd.safety.trust", "grp"),
    ("ompd.debugger.files.cache", "ompd.safety.writing"),
    ("ompd.debugger.system_waits.facts", "ompd.debugger.targets.live.sharers"),
    ("ompd.safety.trust", "pwd"),
    ("ompd.session.session", "ompd.session.live"),
    ("ompd.session.waiting", "ompd.debugger.targets.live.tracer"),
    ("ompd.model.base", "ompd.safety.isolation"),
    ("ompd.model.base", "pandas"),
    ("ompd.model.openmp", "ompd.model.json"),
    ("ompd.session.session", "ompd.runtimes.hosted.libraries"),
    ("ompd.session.face", "ompd.debugger.files.debug_file"),
    ("ompd.session.face", "ompd.debugger.snapshot.snapshot"),
    ("ompd.commands.main", "difflib"),
    ("ompd.commands.main", "ompd.render.terminal"),
    ("ompd.commands.main", "ompd.render.schema"),
    ("ompd.commands.main", "ompd.questions.snapshot"),
    ("ompd.commands.setup.installing", "ompd.commands.setup.completion"),
    ("ompd.commands.setup.installing", "ompd.commands.setup.home_files"),
    ("ompd.commands.setup.installing", "ompd.commands.setup.manual"),
    ("ompd.commands.setup.installing", "ompd.commands.setup.start_files"),
    ("ompd.commands.setup.installing", "ompd.commands.setup.words"),
    ("ompd.commands.main", "ompd.questions.layouts"),
    ("ompd.commands.libraries.conformance", "ompd.conformance.asking"),
    ("ompd.commands.libraries.conformance", "ompd.model.conformance"),
    ("ompd.commands.libraries.conformance", "ompd.render.conformance"),
    ("ompd.commands.libraries.conformance", "ompd.render.json"),
    ("ompd.commands.main", "ompd.render.answers.libraries.layouts"),
    ("ompd.commands.prompt", "ompd.render.terminal"),
    *(
        ("ompd.commands.shell.triage", f"ompd.triage.{name}")
        for name in ("baseline", "engine", "run", "targets", "work")
    ),
    ("ompd.commands.shell.triage", "ompd.triage.clusters"),
    ("ompd.triage.clusters", "distributed"),
    ("ompd.triage.clusters", "mpi4py.futures"),
    ("ompd.triage.clusters", "distributed.Client"),
    ("ompd.triage.clusters", "mpi4py.futures.MPIPoolExecutor"),
    ("ompd.commands.shell.triage", "ompd.render.answers.triage"),
    ("ompd.commands.shell.triage", "ompd.render.json"),
    ("ompd.commands.shell.triage", "ompd.report.triage.page"),
    ("ompd.commands.asking", "ompd.questions.regions"),
    ("ompd.commands.asking", "ompd.questions.tasks"),
    ("ompd.commands.asking", "ompd.questions.stacks"),
    ("ompd.commands.asking", "ompd.questions.icvs"),
    ("ompd.commands.asking", "ompd.questions.why"),
    ("ompd.commands.asking", "ompd.questions.why.looks"),
    ("ompd.render.terminal", "ompd.render.answers.why"),
    ("ompd.render.terminal", "ompd.render.answers.why_dot"),
    ("ompd.render.terminal", "ompd.render.answers.libraries.findings"),
    ("ompd.render.terminal", "ompd.render.answers.libraries.layouts"),
    ("ompd.render.terminal", "ompd.render.exchange"),
    ("ompd.render.terminal", "ompd.render.answers.diff"),
    ("ompd.commands.shell.diff", "ompd.questions.diff"),
    ("ompd.commands.shell.diff", "ompd.analysis.differences"),
    ("ompd.commands.shell.diff", "ompd.render.saved"),
    ("ompd.commands.shell.diff", "ompd.render.terminal"),
    ("ompd.commands.shell.report", "ompd.report.gather"),
    ("ompd.commands.shell.report", "ompd.report.page"),
    ("ompd.commands.shell.report", "ompd.questions.why.looks"),
    ("ompd.commands.asking", "ompd.questions.variables"),
    ("ompd.commands.asking", "ompd.questions.doctor"),
    ("ompd.commands.asking", "ompd.questions.check.answering"),
    ("ompd.inspection", "ompd.questions.check"),
    ("ompd.inspection", "ompd.questions.check.answering"),
    ("ompd.render.terminal", "ompd.render.answers.libraries.checks"),
    ("ompd.session.face", "ompd.runtimes.hosted.handles.space"),
    ("ompd.debugger.targets.lldb.loading", "lldb"),
    *(("ompd.gdb_script", name) for name in ("gdb", "os")),
    *(("ompd.gdb_script", name) for name in ("importlib.util", "importlib.util.find_spec")),
    *(("ompd.gdb_script", name) for name in ("ompd.gdb.commands", "ompd.safety.isolation")),
    ("ompd.debugger.files.opening", "ompd.debugger.files.compressed"),
    ("ompd.debugger.files.opening", "ompd.debugger.files.coredumps"),
    ("ompd.binary.elf.elf", "ompd.binary.elf.compressed"),
    ("ompd.binary.elf.compressed", "ompd.binary.elf.zstd"),
    ("ompd.debugger.files.compressed", "lz4.frame"),
    ("ompd.debugger.files.compressed", "ompd.binary.elf.zstd"),
    ("ompd.debugger.files.finder", "ompd.debugger.files.debuginfod"),
    ("ompd.debugger.places", "ompd.binary.demangle"),
    ("ompd.binary.dwarf.source.names", "ompd.binary.demangle"),
    ("ompd.debugger.process", "ompd.debugger.system_waits.facts"),
    ("ompd.debugger.process", "ompd.debugger.system_waits.waits"),
    ("ompd.debugger.process", "ompd.debugger.flow.functions"),
    ("ompd.debugger.process", "ompd.debugger.flow.handlers"),
    ("ompd.debugger.process", "ompd.debugger.flow.processors"),
    ("ompd.debugger.process", "ompd.debugger.threads.emutls"),
    ("ompd.debugger.process", "ompd.debugger.threads.gone_code"),
    ("ompd.debugger.emulation.routines", "ompd.debugger.emulation.emulate"),
    ("ompd.debugger.emulation.routines", "ompd.debugger.emulation.decode"),
    ("ompd.debugger.emulation.routines", "ompd.debugger.emulation.linking"),
    ("ompd.debugger.emulation.emulate", "unicorn"),
    ("ompd.debugger.process", "ompd.debugger.variables.locals"),
    ("ompd.debugger.process", "ompd.debugger.variables.mentioned"),
    ("ompd.debugger.stacks.calls", "ompd.debugger.stacks.tail_calls"),
    ("ompd.binary.dwarf.source.lines", "ompd.binary.dwarf.source.calls"),
    ("ompd.questions.stacks.thread_frames", "ompd.questions.stacks.locals"),
    ("ompd.debugger.variables.types", "ompd.debugger.variables.static"),
    ("ompd.debugger.variables.static", "ompd.binary.demangle"),
    ("ompd.debugger.variables.names", "ompd.binary.demangle"),
    ("ompd.session.face", "ompd.debugger.survey.files"),
    ("ompd.session.face", "ompd.debugger.survey.needed"),
    ("ompd.session.face", "ompd.debugger.survey.stack_extents"),
    ("ompd.session.face", "ompd.debugger.targets.live.processors"),
    ("ompd.session.face", "ompd.debugger.targets.live.refusals"),
    ("ompd.session.face", "ompd.debugger.system_waits.facts"),
    ("ompd.session.face", "ompd.debugger.variables.names"),
    ("ompd.session.face", "ompd.debugger.variables.reader"),
    ("ompd.session.face", "ompd.debugger.variables.choices"),
    ("ompd.debugger.modules.modules", "ompd.binary.elf.minidebuginfo"),
    ("ompd.debugger.modules.modules", "ompd.debugger.modules.images"),
    ("ompd.debugger.stacks.unwind", "ompd.debugger.stacks.guesses"),
    ("ompd.contract.helpers.defaults", "ompd.contract.helpers.demangling"),
    ("ompd.session.session", "ompd.runtimes.installed"),
    ("ompd.runtimes.layout.second_reader", "elftools"),
    ("ompd.runtimes.layout.second_reader", "elftools.elf.elffile"),
    ("ompd.runtimes.layout.second_reader", "elftools.elf.elffile.ELFFile"),
    ("ompd.runtimes.layout.table", "importlib.resources"),
    ("ompd.runtimes.layout.table", "importlib.resources.files"),
    ("ompd.runtimes.installed", "importlib"),
    ("ompd.runtimes.installed", "importlib.import_module"),
    ("ompd.runtimes.installed", "importlib.machinery"),
    ("ompd.runtimes.installed", "importlib.machinery.PathFinder"),
    ("ompd.runtimes.installed", "importlib.util"),
    ("ompd.runtimes.installed", "importlib.util.module_from_spec"),
    ("ompd.runtimes.installed", "ompd.runtimes.guarded"),
    ("ompd.runtimes.discovery", "ompd.runtimes.libgomp.plugin"),
    ("ompd.runtimes.hosted.worker.main", "ompd.runtimes.hosted.dmpl.worker"),
    ("ompd.runtimes.hosted.worker.main", "ompd.runtimes.hosted.trial.worker"),
    ("ompd.runtimes.hosted.worker.main", "ompd.runtimes.hosted.worker.batches"),
    ("ompd.runtimes.discovery", "ompd.runtimes.libomp.plugin"),
}
ONLY_IN = {
    "lldb": {
        "ompd.debugger.targets.lldb.loading",
        "ompd.lldb.commands",
        "ompd.lldb.looking",
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
                "commands",
                "frames",
                "functions",
                "looking",
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
        *(f"ompd.runtimes.hosted.worker.{name}" for name in ("batches", "callbacks", "calls", "lifeline", "raw")),
        "ompd.runtimes.hosted.loading.loader",
        "ompd.runtimes.hosted.loading.sandbox",
        "ompd.safety.libraries",
        *(f"ompd.runtimes.hosted.dmpl.{name}" for name in ("table", "worker")),
        "ompd.runtimes.hosted.trial.worker",
    },
    "distributed": {"ompd.triage.clusters"},
    "mpi4py": {"ompd.triage.clusters"},
    "click": {
        *(
            f"ompd.commands.{name}"
            for name in ("ending", "main", "options", "prompt", "setup.installing", "setup.words")
        ),
        *(f"ompd.commands.shell.{name}" for name in ("diff", "hook", "report", "request", "triage")),
        "ompd.commands.libraries.conformance",
    },
    "rich": {"ompd.render.terminal"},
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
    """Each module of a package with each name that it imports, wherever in it.

    A rule is one test, not one for each of hundreds of modules, which would take longer to count than to run.
    """
    return ((module, imported) for module, tree in modules(package).items() for imported in sorted(imports(tree)))


def may_import(here: str, there: str) -> bool:
    if here == "contract" and there not in ("contract", "errors", "naming", "records"):
        return False
    return RANK[there] <= RANK[here] and {here, there} != {"debugger", "runtimes"}


def test_imports_point_down() -> None:
    ours = [(module, imported) for module, imported in each_import() if imported.startswith("ompd.")]
    # The front door is above all of them; what is in no layer is a name of it, as ompd.__version__.
    known = [pair for pair in ours if layer(pair[0]) and layer(pair[1]) in RANK]
    assert len(known) > len(modules(PACKAGE))
    assert [pair for pair in known if not may_import(layer(pair[0]), layer(pair[1]))] == []


def test_a_plugin_of_others_imports_the_contract_alone() -> None:
    allowed = tuple(f"{name}." for name in (*sys.stdlib_module_names, "ompd.contract", "ompd.errors", "ompd_stub"))
    assert [pair for pair in each_import(STUBS) if not f"{pair[1]}.".startswith(allowed)] == []


def test_imports_of_the_stubs_plugin_have_an_order() -> None:
    # Those for type checking included.
    of_the_stub = modules(STUBS)
    waiting = {name: imports(tree) & of_the_stub.keys() - {name} for name, tree in of_the_stub.items()}
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
    below = {
        (name.removeprefix("ompd.questions."), imported)
        for name, imported_files in house.files().items()
        for imported in imported_files
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


def test_imports_inside_functions_have_a_reason() -> None:
    inside = {
        (module, name)
        for module, tree in modules(PACKAGE).items()
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for name in imports(function)
        if name in modules(PACKAGE) or not name.startswith("ompd")
    }
    assert inside - INSIDE_FUNCTIONS == set()


def test_no_module_keeps_state() -> None:
    nodes = ((module, node) for module, tree in modules(PACKAGE).items() for node in ast.walk(tree))
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
