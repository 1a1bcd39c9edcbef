"""Plugins from elsewhere (docs/plugins.md): where they are searched, who may own their files, how their mistakes end,
and the page's example, which runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ompd_stub import plugin, runtime
from ompd_stub import tasks as stub_tasks
from ompd_stub import teams as stub_teams
from ompd_stub import threads as stub_threads

import ompd
from ompd.contract import plugin as contract
from ompd.errors import BadInput, PluginFault, Unavailable
from ompd.model import Answer
from ompd.questions import icvs, regions, runtimes, stacks, tasks, threads, variables
from ompd.runtimes import installed
from ompd.runtimes.guarded import Guard, original
from ompd.runtimes.installed import Plugins
from ompd.safety.trust import others_fault
from ompd.session import Session
from tests.stub.programs import FOLDER, built
from tests.support import FULL, clean_environment, stopped
from tests.support.build import compiler
from tests.support.cache import CHECKOUT
from tests.support.machine import tomllib
from tests.support.runs import ENVIRONMENT, cores_allowed
from tests.support.stub import PLUGIN, install_plugin, plugin_folder

POINTS = {"ompd-stub": "ompd_stub.plugin:StubPlugin"}
# Planted code, which leaves a marker when it runs.
PLANTED = "import pathlib\npathlib.Path({marker!r}).write_text('run')\nclass StubPlugin:\n    kind = 'planted'\n"


def on_stub() -> Path:
    return stopped("nested", compiler="gcc", mode="neither", runtime="stub").core


def plant(folder: Path, marker: Path, *, name: str = "planted", points: Sequence[str] = tuple(POINTS)) -> Path:
    install_plugin(folder, name, "1.0", dict.fromkeys(points, f"{name}:StubPlugin"))
    (folder / f"{name}.py").write_text(PLANTED.format(marker=str(marker)))
    return folder


def run_ompd(*words: str, at: Path | None = None, **environment: str | None) -> subprocess.CompletedProcess[str]:
    surroundings = {name: text for name, text in clean_environment().items() if name not in ("PYTHONPATH",)}
    surroundings |= {name: text for name, text in environment.items() if text is not None}
    for name in [name for name, text in environment.items() if text is None]:
        surroundings.pop(name, None)
    command = [sys.executable, str(CHECKOUT / "cli.py"), *words]
    return subprocess.run(command, cwd=at, env=surroundings, capture_output=True, text=True, check=False)


# Where plugins are searched


def as_installed(folder: Path) -> Path:
    """Make *folder* the site-packages of an environment with ompd installed, and return it."""
    shutil.copytree(CHECKOUT / "ompd", folder / "ompd", ignore=shutil.ignore_patterns("__pycache__"))
    install_plugin(folder, "ompd", "0.1.0", {})
    return folder


def told_from(folder: Path, core: Path, *words: str, path: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    code = "import sys; from ompd.start import main; main()"
    surroundings = {**clean_environment(), "PYTHONPATH": os.pathsep.join(map(str, (folder, *path)))}
    del surroundings["OMPD_PLUGINS"]
    return subprocess.run(
        [sys.executable, "-c", code, "runtimes", *words, str(core)],
        cwd=folder.parent,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_beside_ompd_is_found_and_nowhere_else(tmp_path: Path) -> None:
    folder, marker = as_installed(tmp_path / "site-packages"), tmp_path / "marker"
    # Plugins are planted in the current folder, which `python -c` searches first, and on PYTHONPATH.
    plant(tmp_path, marker)
    elsewhere = plant(tmp_path / "elsewhere", marker)
    done = told_from(folder, on_stub(), path=[elsewhere])
    assert done.returncode == 0 and "  plugin  " not in done.stdout and not marker.exists(), done
    # The stub has libgomp's entry points, and is not taken for libgomp.
    assert "\nunknown\n  file  " in done.stdout and "ompd has no plugin for its runtime" in done.stdout
    install_plugin(folder, "ompd-stub", "7.8", POINTS)
    (folder / "ompd_stub").symlink_to(PLUGIN / "ompd_stub")
    (elsewhere / "ompd_stub.py").write_text(PLANTED.format(marker=str(marker)))
    done = told_from(folder, on_stub(), path=[elsewhere])
    assert done.returncode == 0 and not marker.exists(), done
    assert f"  plugin         ompd-stub 7.8 in {folder}\n" in done.stdout
    (row,) = json.loads(told_from(folder, on_stub(), "--json").stdout)["runtimes"]
    assert (row["kind"], row["plugin"]) == ("stub", f"ompd-stub 7.8 in {folder}")


def test_an_editable_one_is_found_by_its_path_file(tmp_path: Path) -> None:
    folder = as_installed(tmp_path / "site-packages")
    metadata = install_plugin(folder, "ompd-stub", "7.8", POINTS)
    (metadata / "RECORD").write_text("__editable__.ompd_stub-7.8.pth,,\nompd_stub-7.8.dist-info/METADATA,,\n")
    (folder / "__editable__.ompd_stub-7.8.pth").write_text(f"import nothing\n{PLUGIN}\n")
    done = told_from(folder, on_stub())
    assert done.returncode == 0 and "ompd-stub 7.8" in done.stdout, done
    (folder / "__editable__.ompd_stub-7.8.pth").write_text("import nothing\n")
    done = told_from(folder, on_stub())
    assert "has no package ompd_stub there" in done.stderr and "Traceback" not in done.stderr, done


def test_a_checkout_has_those_of_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "checkout" / ".venv" / "lib" / "python3.99" / "site-packages"
    own.mkdir(parents=True)
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(installed, "_HERE", str(tmp_path / "checkout" / "ompd"))
    monkeypatch.setattr("site.getsitepackages", lambda: [str(other), str(tmp_path / "none")])
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    assert installed.environment() == [str(own), str(other)]
    install_plugin(own, "ompd", "0.1.0", {})
    assert installed.environment() == [str(own)]
    # An installed ompd has its plugins beside it, and an archive has none.
    install_plugin(tmp_path / "checkout", "ompd", "0.1.0", {})
    assert installed.environment() == [str(tmp_path / "checkout")]
    monkeypatch.setattr(installed, "_HERE", str(tmp_path / "ompd.pyz" / "ompd"))
    assert installed.environment() == []


def test_nothing_is_looked_for_where_a_plugin_of_ours_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[str]:
        raise AssertionError("looked for")

    monkeypatch.delenv("OMPD_PLUGINS")
    monkeypatch.setattr(installed, "environment", fail)
    for compiler_name, name in (("gcc", "libgomp"), ("clang", "intel")):
        core = stopped("nested", compiler=compiler_name, mode="neither", runtime=name).core
        with Session.open_core(core) as session:
            assert [found.found.plugin is not None for found in session.runtimes] == [True]
    with Session.open_core(on_stub()) as session, pytest.raises(AssertionError, match="looked for"):
        print(session.runtimes)


def test_folders_that_the_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = str(plugin_folder())
    done = run_ompd("runtimes", "--plugins", named, str(on_stub()), OMPD_PLUGINS=None)
    assert done.returncode == 0 and f"plugin         ompd-stub 0.1.0 in {named}" in done.stdout, done
    for folder, text in ((tmp_path / "none", "there is no such folder"), (tmp_path, "no plugin is in this folder")):
        for words, variable in ((("--plugins", str(folder)), None), ((), str(folder))):
            done = run_ompd("runtimes", *words, str(on_stub()), OMPD_PLUGINS=variable)
            assert done.returncode == 1 and text in done.stderr, done
    monkeypatch.setenv("OMPD_PLUGINS", str(tmp_path))
    with ompd.open_core(on_stub(), plugins=(named,)) as session:
        (row,) = session.ask_runtimes().rows
        assert row.plugin == f"ompd-stub 0.1.0 in {named}" and session.ask_threads().complete
    with pytest.raises(BadInput, match="no plugin is in this folder"):
        ompd.open_core(on_stub())


# Who may own their files


@pytest.mark.parametrize("path", [".", "planted-1.0.dist-info", "planted-1.0.dist-info/entry_points.txt", "planted.py"])
def test_what_others_may_change_does_not_run(path: str, tmp_path: Path) -> None:
    folder, marker = plant(tmp_path / "planted", tmp_path / "marker"), tmp_path / "marker"
    usual = (folder / path).stat().st_mode
    (folder / path).chmod(0o777)
    done = run_ompd("runtimes", "--plugins", str(folder), str(on_stub()))
    assert done.returncode == 3 and not marker.exists(), done
    assert f"of planted 1.0 in {folder} is not used: others may write to {(folder / path).resolve()}" in done.stderr
    (folder / path).chmod(usual)
    run_ompd("runtimes", "--plugins", str(folder), str(on_stub()))
    assert marker.exists()


def test_one_beside_ompd_that_others_may_change_does_not_run(tmp_path: Path) -> None:
    folder, marker = plant(as_installed(tmp_path / "site-packages"), tmp_path / "marker"), tmp_path / "marker"
    folder.chmod(0o777)
    done = told_from(folder, on_stub())
    assert done.returncode == 3 and "others may write to" in done.stderr and not marker.exists(), done


def test_a_strangers_does_not_run(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    folder, marker = plant(tmp_path / "planted", tmp_path / "marker"), tmp_path / "marker"
    os.chown(folder / "planted.py", 12345, 12345)
    done = run_ompd("runtimes", "--plugins", str(folder), str(on_stub()))
    assert done.returncode == 3 and "belongs to user 12345" in done.stderr and not marker.exists(), done
    # The owner of ompd itself is trusted.
    assert others_fault(str(folder / "planted.py")) is not None
    assert others_fault(str(folder / "planted.py"), trusted={12345}) is None


# Mistakes of plugins


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import no_such_package", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
        ("def", "cannot be loaded: SyntaxError"),
        ("other = 1", "cannot be loaded: AttributeError"),
        ("StubPlugin = 1", "is nothing that can be called"),
        ("class StubPlugin:\n  def __init__(self): 1 / 0", "failed in its maker: ZeroDivisionError: division by zero"),
        ("class StubPlugin: pass", "has no kind"),
        ("class StubPlugin: kind = 'x'", "has no process_initialize"),
        ("class StubPlugin:\n  kind = 3\n  process_initialize = 1", "failed in kind: it returned a value of type int"),
        ("def StubPlugin(): return None", "failed in its maker: it returned a value of type NoneType"),
    ],
)
def test_one_that_cannot_be_used_is_named(code: str, fault: str, tmp_path: Path) -> None:
    plant(tmp_path, tmp_path / "marker", name="broken")
    (tmp_path / "broken.py").write_text(code + "\n")
    done = run_ompd("threads", "--plugins", str(tmp_path), str(on_stub()))
    assert done.returncode == 1 and "Traceback" not in done.stderr and "internal error" not in done.stderr, done
    assert "the plugin broken:StubPlugin of broken 1.0 " in done.stderr and fault in done.stderr


def test_a_package_that_is_loaded_from_elsewhere_is_not_taken(tmp_path: Path) -> None:
    plant(tmp_path, tmp_path / "marker", name="json")
    selected = Plugins([str(tmp_path)]).get("ompd-stub")
    assert selected is not None and isinstance(selected.fault, PluginFault)
    assert "is loaded already under the name json" in str(selected.fault)


@pytest.fixture(scope="module")
def two_runtimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A program on the stub, whose second thread calls a library on libgomp.
    folder = tmp_path_factory.mktemp("two")
    library = folder / "libinner.so"
    command = [str(compiler("gcc").path), "-fopenmp", "-g", "-O0", "-shared", "-fPIC", str(FOLDER / "inner.c")]
    subprocess.run([*command, "-o", str(library)], check=True)
    with cores_allowed():
        environment = {**clean_environment(), **ENVIRONMENT}
        subprocess.run([built("outer.c"), library], cwd=folder, env=environment, check=False)
    (core,) = folder.glob("core*")
    return core


QUESTIONS: Sequence[Any] = (runtimes, threads, regions, tasks, icvs, stacks)
OWN = {
    contract.Plugin: plugin.StubPlugin,
    contract.AddressSpace: runtime.Runtime,
    contract.ThreadHandle: stub_threads.Thread,
    contract.ParallelHandle: stub_teams.Region,
    contract.TaskHandle: stub_tasks.Task,
}


def members() -> Iterator[tuple[type, str]]:
    for protocol, own in OWN.items():
        yield from ((own, name) for name in vars(protocol) if not name.startswith("_"))


def ask(session: Session) -> list[Answer[Any]]:
    return [question.ask(session) for question in QUESTIONS]


@pytest.mark.parametrize("mistake", ["raises", "returns"])
@pytest.mark.quick("raises")
def test_a_mistake_anywhere_costs_no_other_runtime(
    mistake: str, two_runtimes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> object:
        if mistake == "raises":
            raise ZeroDivisionError("planted")
        return object()  # of no type that the contract has

    def others(answers: Sequence[Answer[Any]]) -> list[list[object]]:
        return [[row for row in answer.rows if getattr(row, "runtime", None) == "libgomp"] for answer in answers]

    with Session.open_core(two_runtimes) as session:
        assert {found.found.kind for found in session.runtimes} == {"stub", "libgomp"}
        usual = others(ask(session))
        assert all(answer_rows for answer_rows in usual[1:])
    faults = ("ZeroDivisionError: planted", "failed in ", "does not tell this")
    unseen = []
    for own, name in list(members())[:: 1 if FULL else 3]:
        with monkeypatch.context() as patch:
            patch.setattr(own, name, fail if callable(getattr(own, name, None)) else property(fail), raising=False)
            with Session.open_core(two_runtimes) as session:
                answers = ask(session)
                variables.ask(session, "begun")
        assert [len(rows) for rows in others(answers)] == [len(rows) for rows in usual], (own, name)
        rows = [row.to_dict() for answer in answers for row in (*answer.rows, *answer.runtimes)]
        text = repr((rows, [answer.warnings for answer in answers]))
        if not any(fault in text for fault in faults):
            unseen.append(f"{own.__name__}.{name}")
    # Members that no question uses in this program, or that the questioned handles have as plain attributes.
    assert {
        *("Thread.scheduling_point", "Thread.wait_kind", "Task.is_tied", "Runtime.gone_threads"),
        *("StubPlugin.early_copies", "StubPlugin.rtl_names", "StubPlugin.demangle_name", "Runtime.module"),
        "StubPlugin.named_variable",  # only for local variables
        *("Runtime.threadprivate_mechanism", "Runtime.threadprivate_of_other", "Runtime.states", "Thread.address"),
        "Task.likeness",  # only for tasks in queues
        *("Thread.threadprivate_address", "Region.unfinished_tasks", "Task.source", "Region.source"),
        "Thread.native_id",  # only for threads that the process does not have
        "Thread.idle_frame",  # only for raw stacks
        *("Thread.barrier_source", "Thread.lock", "Runtime.threadprivate_copies", "Runtime.prioritized_tasks"),
        *("Task.thread", "Task.function"),
    } >= set(unseen)


def test_what_one_does_not_have_it_does_not_tell() -> None:
    class Small:
        kind = "small"

        def process_initialize(self, *_arguments: object) -> object:
            return object()

    small = Guard("small of nobody's").plugin(Small)
    assert small.kind == "small"
    with pytest.raises(Unavailable, match="plugin small of nobody's does not tell this: its Small has no early_copies"):
        small.early_copies(None, None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        small.other  # type: ignore[attr-defined]  # noqa: B018


def test_handles_have_one_wrapper_and_equal_ones_are_equal() -> None:
    with Session.open_core(on_stub()) as session:
        space = session.runtimes[0].space
        assert space is not None
        first, again = space.threads()[1], space.threads()[1]
        regions_of = [thread.current_parallel() for thread in (first, again)]
    assert first is again and isinstance(original(first), stub_threads.Thread)
    assert regions_of[0] == regions_of[1] and hash(regions_of[0]) == hash(regions_of[1])
    assert original(regions_of[0]) is not original(regions_of[1])


# The page's example


PAGE = (CHECKOUT / "docs" / "plugins.md").read_text()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A folder with the page's plugin, and a core of a program on its runtime.
    folder = tmp_path_factory.mktemp("tiny")
    sources, compile_it = CHECKOUT / "tests" / "plugins", [str(compiler("gcc").path), "-g", "-pthread"]
    library = ["-shared", "-fPIC", str(sources / "tiny.c"), "-o", "libtiny.so"]
    program = [str(sources / "program.c"), "libtiny.so", "-Wl,-rpath,$ORIGIN", "-o", "program"]
    for words in (library, program):
        subprocess.run([*compile_it, *words], cwd=folder, check=True)
    with cores_allowed():
        subprocess.run([folder / "program"], cwd=folder, env=clean_environment(), check=False)
    (core,) = folder.glob("core*")
    core.rename(folder / "core")
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (project,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    told = tomllib.loads(project)["project"]
    install_plugin(folder / "plugins", told["name"], told["version"], told["entry-points"]["ompd.runtimes"])
    (folder / "plugins" / "tiny_plugin.py").write_text(code)
    return folder


def test_the_smallest_plugin_of_the_page_reads_its_runtime(tiny: Path) -> None:
    with ompd.open_core(tiny / "core", plugins=(tiny / "plugins",)) as session:
        (row,) = session.ask_runtimes().rows
        answer = session.ask_threads()
        assert all(question.ask(session).rows is not None for question in QUESTIONS)
    assert row.kind == "tiny" and row.plugin == f"ompd-tiny 1.0 in {tiny / 'plugins'}"
    assert row.dlls is not None and [(dll.plugin, dll.chosen) for dll in row.dlls] == [(None, False), ("tiny", True)]
    assert [(thread.runtime, thread.thread_num) for thread in answer.rows] == [("tiny", 0), ("tiny", 1), (None, None)]


def test_what_the_page_shows_is_what_is_printed(tiny: Path) -> None:
    shown = re.findall(r"```\n(\$ ompd .*?)```", PAGE, re.DOTALL)
    assert shown
    for block in shown:
        words, _, expected = block.partition("\n")
        done = run_ompd(*words.split()[2:], at=tiny, OMPD_PLUGINS="plugins")
        assert _without_numbers(done.stdout, tiny) == _without_numbers(expected, tiny), done


def _without_numbers(text: str, folder: Path) -> list[str]:
    text = re.sub(r"(in )/\S+/(site-packages|plugins)", r"\1FOLDER", text.replace(str(folder), "/opt/tiny"))
    text = re.sub(r"\b[0-9a-f]{40}\b", "BUILD", text)
    return [re.sub(r" {2,}", "  ", re.sub(r"\b\d{2,}\b", "N", line)).rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("symbol", ["tiny_enter", "no_such_symbol"])
def test_a_symbol_selects_where_no_name_does(symbol: str, tiny: Path, tmp_path: Path) -> None:
    install_plugin(tmp_path, "by-symbol", "2.0", {symbol: "tiny_plugin:TinyPlugin"})
    shutil.copy(tiny / "plugins" / "tiny_plugin.py", tmp_path)
    done = run_ompd("runtimes", "--json", str(tiny / "core"), OMPD_PLUGINS=str(tmp_path))
    (row,) = json.loads(done.stdout)["runtimes"]
    expected = ("tiny", True) if symbol == "tiny_enter" else ("unknown", False)
    assert (row["kind"], row["plugin"] is not None) == expected
