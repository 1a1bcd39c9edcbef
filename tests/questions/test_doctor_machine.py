"""``ompd doctor`` without a target: its findings about machines, which are folders here, and about this one."""

from __future__ import annotations

import json
import re
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ompd.machine
from ompd.contract.process import Module
from ompd.debugger.modules.loader import LinkMap, Loader
from ompd.debugger.survey.needed import Dependencies
from ompd.debugger.targets.live.processors import allowed_processors, parse_cpu_list
from ompd.errors import Unavailable
from ompd.machine import cores, installation, packages, tracing
from ompd.machine.report import SEVERITIES, Report
from ompd.machine.supply import groups
from ompd.machine.supply.files import Roots
from tests.support.cache import CHECKOUT
from tests.support.command import run

WITH_PTRACE, WITHOUT = "0000000000080000", "0000000000000000"


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def said(report: Report) -> dict[str, tuple[str, str | None]]:
    return {row.kind: (row.severity, row.remedy) for row in report.rows}


# Tracing


@pytest.mark.parametrize(
    ("scope", "capabilities", "severity"),
    [
        *((scope, WITHOUT, severity) for scope, severity in (("0", None), ("1", "warning"), ("2", "error"))),
        *((scope, WITH_PTRACE, None) for scope in ("0", "1", "2")),
        ("3", WITH_PTRACE, "error"),
        ("3", WITHOUT, "error"),
    ],
)
def test_yama_forbids_what_the_kernel_says(scope: str, capabilities: str, severity: str | None, tmp_path: Path) -> None:
    proc = written(tmp_path, self__status=f"CapEff:\t{capabilities}\n", sys__kernel__yama__ptrace_scope=f"{scope}\n")
    report = tracing.examine(proc, tries=False)
    assert [row.severity for row in report.rows] == ([severity] if severity is not None else [])
    assert len(report.rows) + len(report.in_order) == 1
    assert all("ptrace_scope" in (row.remedy or "") for row in report.rows)


def test_a_child_is_traced_and_ends() -> None:
    assert tracing.traced_child_fault() is None
    assert [text for text in tracing.examine().in_order if "a child of this process could be traced" in text]


def test_a_refused_child_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_thread: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(tracing.ptrace, "seize", refuse)
    proc = written(tmp_path, self__status=f"CapEff:\t{WITHOUT}\nSeccomp:\t2\n")
    (row,) = tracing.examine(proc).rows
    assert (row.kind, row.severity) == ("ptrace_refused", "error")
    assert "Operation not permitted (a seccomp filter is in force" in (row.finding or "")
    assert "--cap-add=SYS_PTRACE" in (row.remedy or "")


# Cores


def machine(root: Path, pattern: str, mask: str = "00000033") -> Path:
    return written(root, proc__sys__kernel__core_pattern=f"{pattern}\n", proc__self__coredump_filter=f"{mask}\n")


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.usefixtures("unlimited")
def test_cores_that_are_files_are_in_order(tmp_path: Path) -> None:
    report = cores.examine(machine(tmp_path, "core.%p"))
    assert report.rows == [] and "core.%p, in the folder where the program runs" in report.in_order[0]


@pytest.mark.usefixtures("unlimited")
def test_who_keeps_cores_is_named(tmp_path: Path) -> None:
    for name, folder in (("systemd-coredump", "/var/lib/systemd/coredump"), ("apport", "/var/lib/apport/coredump")):
        root = machine(tmp_path / name, f"|/usr/lib/{name} %P %u")
        assert "not here" in (cores.examine(root).rows[0].finding or "")
        written(root, **{f"usr__lib__{name}": ""})
        row = cores.examine(root).rows[0]
        assert folder in (row.finding or "") and row.severity == "note"
    other = cores.examine(machine(tmp_path / "other", "|/opt/keeper %p"))
    assert "where that program keeps them, if it does, is unknown" in other.rows[0].consequence
    assert said(cores.examine(machine(tmp_path / "none", "")))["core_pattern"][0] == "warning"


@pytest.mark.usefixtures("unlimited")
def test_settings_of_systemd_coredump(tmp_path: Path) -> None:
    root = machine(tmp_path, "|/usr/lib/systemd/systemd-coredump %P")
    written(root, usr__lib__systemd__systemd_coredump="")
    (root / "usr/lib/systemd/systemd-coredump").write_text("")
    (root / "etc/systemd").mkdir(parents=True)
    (root / "etc/systemd/coredump.conf").write_text("[Coredump]\n#Storage=external\nStorage=none\nProcessSizeMax=2G\n")
    findings = [row.finding or "" for row in cores.examine(root).rows]
    assert any("Storage=none" in text for text in findings)
    assert any("ProcessSizeMax=2G" in text for text in findings)


def test_limits_of_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = machine(tmp_path, "core")
    for soft, words in ((0, "leave no core: ulimit -c is 0"), (4096, "cores end after 4096 bytes")):
        monkeypatch.setattr(resource, "getrlimit", lambda _which, soft=soft: (soft, 8192))
        (row,) = (row for row in cores.examine(root).rows if row.kind == "core_limit")
        assert words in (row.finding or "") and "hard limit is 8192" in (row.remedy or "")
    # A limit of 1 also forbids piped cores; no other limit does.
    piped = machine(tmp_path / "piped", "|/opt/keeper")
    for soft, count in ((0, 0), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _which, soft=soft: (soft, soft))
        assert [row.kind for row in cores.examine(piped).rows].count("core_limit") == count


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize(("mask", "severity"), [("0", "error"), ("10", "error"), ("1", "warning"), ("11", None)])
def test_the_filter_of_cores(mask: str, severity: str | None, tmp_path: Path) -> None:
    found = said(cores.examine(machine(tmp_path, "core", mask))).get("coredump_filter")
    assert found == ((severity, found[1]) if severity is not None and found is not None else None)
    assert found is None or "> /proc/self/coredump_filter" in (found[1] or "")


# Installation


def test_what_confines_libraries_of_others_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> list[str | None]:
        report = installation.examine({}, asks_lldb=False)
        return [row.finding for row in report.rows if row.kind == "sandbox"]

    monkeypatch.setattr(installation.sandbox, "landlock_version", lambda: 7)
    monkeypatch.setattr(installation.SystemFolders, "places", lambda *_: iter([__file__]))
    assert rows() == []
    monkeypatch.setattr(installation.sandbox, "landlock_version", lambda: 0)
    assert rows() == ["the kernel does not offer Landlock (Linux 5.13, and `landlock` in its lsm=)"]
    monkeypatch.setattr(installation.SystemFolders, "places", lambda *_: iter(["/nonexistent/libseccomp.so.2"]))
    assert rows()[1:] == ["libseccomp.so.2 is not installed"]


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not installation.is_installed("no_such_package_anywhere.sub")
    monkeypatch.setattr(installation, "is_installed", lambda name: "unicorn" not in name and "lz4" not in name)
    rows = [row for row in installation.examine({}, asks_lldb=False).rows if row.kind == "package_missing"]
    assert {row.subject for row in rows} == {"unicorn", "lz4"}
    assert all((row.remedy or "").endswith(f"-m pip install {row.subject}") for row in rows)


def test_lldb_that_is_missing_is_told_apart_from_one_of_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_installs", lambda: iter(()))
    for commands, kind in (([], "lldb_missing"), (["/usr/bin/lldb-1"], "lldb_python")):
        monkeypatch.setattr(installation, "find_commands", lambda commands=commands: iter(commands))
        rows = {row.kind: row for row in installation.examine({}).rows}
        assert kind in rows and {"lldb_missing", "lldb_python"} & rows.keys() == {kind}
        assert all(command in (rows[kind].finding or "") for command in commands)


def test_servers_and_cache_are_as_the_environment_says(tmp_path: Path) -> None:
    def kinds(**environment: str) -> set[str]:
        return {row.kind for row in installation.examine(environment, asks_lldb=False).rows} - {
            "package_missing",
            "sandbox",
        }

    server = {"DEBUGINFOD_URLS": "https://debuginfod.example"}
    assert kinds(**server, HOME=str(tmp_path)) == set()
    assert kinds(HOME=str(tmp_path)) == {"debuginfod"}
    assert kinds(**server) == {"cache"} and kinds(**server, OMPD_CACHE="off") == set()
    folder = tmp_path / "ompd"
    folder.mkdir(mode=0o700)
    assert kinds(**server, XDG_CACHE_HOME=str(tmp_path)) == set()
    folder.chmod(0o777)
    assert kinds(**server, XDG_CACHE_HOME=str(tmp_path)) == {"cache"}
    folder.rmdir()
    folder.write_text("")
    assert kinds(**server, XDG_CACHE_HOME=str(tmp_path)) == {"cache"}


def test_the_package_of_a_file_is_read_from_dpkgs_lists(tmp_path: Path) -> None:
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "libgomp1:amd64.list").write_text("/.\n/usr\n/lib/x86/libgomp.so.1.0.0\n")
    (info / "libother.list").write_text("/usr/lib/x86/libgomp.so.1.0.0.not\n")
    (info / "Bad;name.list").write_text("/usr/lib/x86/bad.so\n")
    wanted = ["/usr/lib/x86/libgomp.so.1.0.0", "/usr/lib/x86/bad.so", "/home/own.so"]
    assert packages.owners(wanted, tmp_path) == {wanted[0]: "libgomp1"}
    assert packages.owners(wanted, tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("text", "family", "server", "command"),
    [
        ("ID=debian\n", "debian", "debian.net", "sudo apt install p-dbgsym"),
        ('ID=ubuntu\nID_LIKE="debian"\n', "debian", "ubuntu.com", "sudo apt install p-dbgsym"),
        ('ID="rhel"\nID_LIKE="fedora"\n', "fedora", "fedoraproject.org", "sudo dnf debuginfo-install /usr/lib/x.so"),
        ("ID=other\n", None, "elfutils.org", None),
        ("", None, "elfutils.org", None),
    ],
)
def test_distributions(text: str, family: str | None, server: str, command: str | None, tmp_path: Path) -> None:
    found = packages.distribution_of(written(tmp_path, **{"etc__os-release": text}))
    assert found.family == family and found.debuginfod.endswith(server)
    assert packages.debug_command(found, "p", "/usr/lib/x.so") == command


# Processors


def test_processors_of_masks_and_control_groups(tmp_path: Path) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    roots = Roots(proc, cgroups)
    written(
        proc, **{"7__task__7__status": "Cpus_allowed_list:\t0-1\n", "7__task__8__status": "Cpus_allowed_list:\t3\n"}
    )
    (proc / "7/cgroup").write_text("4:x:/y\r0::/z\u20280::/z\n0::/a/b\n")
    written(cgroups, **{"a__cpu.max": "150000 100000\n", "a__b__cpu.max": "max 100000\n"})
    assert allowed_processors(7, proc) == {0, 1, 3}
    (quota,) = groups.quotas(7, roots)
    assert quota.processors == 1.5 and quota.file == str(cgroups / "a/cpu.max")
    (proc / "7/cgroup").write_text("0::/../c\n")
    with pytest.raises(Unavailable):
        groups.quotas(7, roots)
    (proc / "7/task/7/status").write_text("Cpus_allowed_list:\tall\n")
    (proc / "7/task/8/status").write_text("")
    with pytest.raises(Unavailable):
        allowed_processors(7, proc)
    assert parse_cpu_list("0-99999999999") == parse_cpu_list("3-1") == parse_cpu_list("1,,2") == set()


# Command


def test_without_a_target_the_machine_is_examined() -> None:
    ran = run("doctor", "--json")
    answer = json.loads(ran.stdout)
    assert (ran.returncode, answer["target"]["kind"], answer["complete"]) == (0, "machine", True)
    assert {row["area"] for row in answer["doctor"]} <= {"machine", "installation"}
    assert {row["severity"] for row in answer["doctor"]} <= set(SEVERITIES) and answer["in_order"]
    text = run("doctor")
    assert text.returncode == 0 and text.stdout.count("    remedy: ") == len(answer["doctor"])


def test_the_page_has_all_kinds() -> None:
    page = (CHECKOUT / "docs" / "doctor.md").read_text().partition("## Kinds")[2]
    sources = [
        *Path(ompd.machine.__file__).parent.glob("*.py"),
        *(CHECKOUT / "ompd" / "questions" / "doctor").glob("*.py"),
    ]
    text = "".join(path.read_text() for path in sources)
    kinds = set(re.findall(r"(?:\badd|\bunknown)\(\s*(?:\*\()?\"(\w+)\"", text))
    kinds |= set(re.findall(r"\"((?:nested_)?oversubscription|fork_child)\"", text))
    assert len(kinds) > 25 and {kind for kind in kinds if f"`{kind}`" not in page} == set()


# Chains of libraries


class Linked:
    """A module with the names of the libraries that it was linked with; it is its own file."""

    def __init__(self, number: int, name: str, *needed: str, soname: str | None = None) -> None:
        start = number << 12
        self.record = Module(name, start, start, start + 4096, name, None, is_program=number == 1)
        self.is_program, self.is_extract, self.elf = number == 1, False, self
        self._soname, self._needed = soname, needed

    def soname(self) -> str | None:
        return self._soname

    def needed(self) -> tuple[str, ...]:
        return self._needed


class Listed(Loader):
    """A loader that lists dynamic sections in the order of loading, or has no list."""

    def __init__(self, sections: Sequence[int] | None) -> None:
        self._sections = sections

    @property
    def link_maps(self) -> tuple[LinkMap, ...]:  # type: ignore[override]
        if self._sections is None:
            raise Unavailable("no list")
        return tuple([LinkMap(section, 0, section, 0) for section in self._sections])


def test_of_several_modules_the_one_that_was_loaded_first_brought_a_library() -> None:
    program, libc, late = Linked(1, "/p", "libc.so"), Linked(2, "/lib/libc.so"), Linked(3, "/late.so", "libr.so.1")
    first, runtime = Linked(4, "/first.so", "libr.so.1"), Linked(5, "/libr-hash.so", "libc.so", soname="libr.so.1")
    circle = [Linked(6, "/x.so", "y.so"), Linked(7, "/y.so", "x.so")]
    loaded: list[Any] = [program, libc, late, first, runtime, *circle]
    order = [each.record.start for each in (program, libc, first, runtime, late, *circle)]
    needed = Dependencies(loaded, Listed(order))
    chain = needed.chain(runtime.record)
    assert (chain.begins, chain.modules) == ("dlopen", (first.record, runtime.record))
    assert set(chain.needed_by) == {late.record, first.record}
    assert needed.chain(libc.record).modules == (program.record, libc.record)
    assert needed.chain(circle[0].record).modules == (circle[0].record,)

    unknown = Dependencies(loaded, Listed(None)).chain(runtime.record)
    assert unknown.begins is None and "no list" in (unknown.fault or "")
