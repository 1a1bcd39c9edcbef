"""The documentation is right: its Python code runs, and its commands and options exist."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ompd.commands.main import cli
from ompd.commands.table import COMMANDS
from ompd.questions import variables
from ompd.session import Session
from tests.stub.programs import built, core_of
from tests.support import running, stopped
from tests.support.pages import ALL_EXAMPLES, ROOT
from tests.support.stub import stub_folder

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_CONTEXT = click.Context(cli)
CLI = {name: cli.get_command(_CONTEXT, name) for name in cli.list_commands(_CONTEXT)}
EXAMPLES = [example for example in ALL_EXAMPLES if "launch" not in example]  # test_lldb_docs.py runs those
# Words that are not of this field; docs/glossary.md has the right ones.
JARGON = re.compile(r"\b(told|untold|to be had|asked|answers on|worked out|front door|met by|of ours)\b", re.IGNORECASE)
TOLD = {"hang": ("wait_lock", "is in a region of simulate at level 1", "waited for: [")}


@pytest.mark.parametrize("mode", ["debug", "neither"])
@pytest.mark.quick("debug")
def test_the_examples_of_the_python_page_run(mode: str, tmp_path: Path) -> None:
    core = stopped("hang", mode=mode)
    printed = io.StringIO()
    with running("hang", mode=mode, folder=tmp_path) as live, contextlib.redirect_stdout(printed):
        namespace = {"CORE": str(core.core), "NAME": "thread_count", "PID": live.pid}
        for example in EXAMPLES:
            exec(example, namespace)
    (blocked,) = [t["native_thread_id"] for t in core.truth["threads"] if t["blocked_in"] == "lock"]
    assert f"waited for: [{blocked}]" in printed.getvalue() and "still at report_progress\n" in printed.getvalue()
    assert re.search(r"^5 threads, \d{4,} bytes of JSON$", printed.getvalue(), re.MULTILINE)
    assert all(text in printed.getvalue() for text in TOLD["hang"])


def test_the_examples_of_the_page_on_live_processes_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "live.md").read_text(), re.DOTALL)
    printed = io.StringIO()
    with running("nested", folder=tmp_path) as live, contextlib.redirect_stdout(printed):
        namespace = {"PID": live.pid}
        for example in examples:
            exec(example, namespace)
    assert len(examples) == 2
    assert "work_parallel" in printed.getvalue() and "stopped for [" in printed.getvalue()


def test_the_example_of_the_page_on_dmpl_runs() -> None:
    example, in_c = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "dmpl.md").read_text(), re.DOTALL)
    core = core_of(built("figure8.c", "stop.c", flags=("-DBY_KEY",)))
    printed = io.StringIO()
    with Session.open_core(core) as session:
        copies = variables.ask(session, "a").rows
        variable = session.process.symbols.symbol_in(
            next(m for m in session.process.symbols.modules() if m.is_program), "a"
        )
    with contextlib.redirect_stdout(printed):
        exec(example, {"CORE": str(core), "VARIABLE": variable})
    *told, routines, name = printed.getvalue().splitlines()
    assert sorted(told) == sorted(f"{row.native_thread_id} {row.address:#x}" for row in copies)
    assert "microtask_invoker='run_implicit'" in routines and name == "main"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(in_c, {"LIBRARY": str(stub_folder() / "libompd_stub.so")})
    assert printed.getvalue().startswith("ompd: DMPL for libomp_stub 1.0 RtlNames(main_task_dispatcher='GOMP_parallel'")


def test_the_readme_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(example.replace('"core.1234"', repr(str(stopped("hang").core))), {})
    assert "wait_lock" in printed.getvalue()


def test_links_lead_to_files() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())]
    assert len(links) > 100
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_the_index_lists_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text()
    pages = [page.relative_to(docs) for page in docs.rglob("*.md") if page.name != "README.md"]
    assert [page for page in pages if f"]({page})" not in index] == []


def test_every_command_and_option_is_on_the_page_of_commands() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    assert {"threads", "stack"} <= CLI.keys()
    for name, command in CLI.items():
        assert command is not None and f"`{name}" in page, name
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in page or f"`{option}`" in page, option


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_help_explains_the_command(command: str) -> None:
    text = CliRunner().invoke(cli, [command, "--help"]).output
    assert "Exit codes:" in text and "--json" in text and len(text.splitlines()) > 15


def test_pages_and_help_are_in_the_words_of_the_field() -> None:
    texts = {page.name: page.read_text() for page in PAGES}
    groups = [cli, *(command for command in CLI.values() if isinstance(command, click.Group))]
    for group in groups:
        for name in group.list_commands(click.Context(group)):
            text = CliRunner().invoke(group, [name, "--help"]).output
            texts[f"{group.name} {name} --help"] = " ".join(text.split())
    found = {name: JARGON.findall(text.replace("`ask_", "")) for name, text in texts.items()}
    assert not {name: words for name, words in found.items() if words}


def test_files_named_in_the_docs_exist() -> None:
    a_file = re.compile(r"`((?:ompd|tests|fixtures|bench|docs)/[\w./]+)`")
    names = [(page, name) for page in PAGES for name in a_file.findall(page.read_text())]
    assert len(names) > 100
    assert [f"{page.name}: {name}" for page, name in names if not (ROOT / name).exists()] == []


def test_names_in_docstrings_are_there() -> None:
    def is_there(name: str) -> bool:
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            with contextlib.suppress(ModuleNotFoundError):
                found = importlib.import_module(".".join(parts[:end]))
                break
        for part in parts[end:]:
            if part in getattr(found, "__annotations__", ()):
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True

    named = {
        name: file
        for file in (ROOT / "ompd").rglob("*.py")
        for name in re.findall(r":(?:mod|class|func|meth|data|attr|exc):`[~!]?(ompd\.[\w.]+)`", file.read_text())
    }
    assert len(named) > 20
    assert [(name, str(file)) for name, file in named.items() if not is_there(name)] == []
