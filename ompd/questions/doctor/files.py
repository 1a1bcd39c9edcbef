"""Missing parts of the target and its files, and their consequences: lost or omitted memory, wrong or missing files,
missing debug information.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ompd.contract.process import Module
from ompd.errors import OmpdError
from ompd.machine import packages
from ompd.machine.report import Report
from ompd.naming import is_runtime_file
from ompd.safety.quoting import quote_file
from ompd.session import Session

if TYPE_CHECKING:
    from ompd.debugger.survey.files import ModuleFiles

_PYTHON_PACKAGES = frozenset(("site-packages", "dist-packages"))
_LISTED = 6  # names of modules in one finding
_MAX_SURVEYED = 64  # user modules on stacks; each may cost the checksum of a debug file
_COPY = (
    "copy it again, whole; if it was written so: ulimit -c unlimited in the shell that starts the program, room on the"
    " disk, and ProcessSizeMax=infinity and ExternalSizeMax=infinity in /etc/systemd/coredump.conf"
)


def target(session: Session) -> Report:
    """Return the report on the target itself: truncation, and memory that the core leaves out."""
    report = Report("target")
    loss = session.target.loss
    name = session.target.name
    if session.fault is not None:
        report.add(
            "core_truncated",
            "error",
            name,
            session.fault,
            "what was behind that place is missing in every answer",
            _COPY,
        )
    if loss is not None:
        costs = ["memory and stacks behind the cut"]
        costs += ["an unknown number of threads"] if loss.threads else []
        costs += ["the names of the files that were mapped, which have to be guessed"] if loss.files else []
        report.add(
            "core_truncated",
            "error",
            name,
            loss.what,
            f"missing: {'; '.join(costs)}; answers are incomplete, and files may be unverified",
            _COPY,
        )
    if session.note is not None:
        report.add("core_note", "note", name, session.note, "it was read all the same", None)
    if session.target.kind == "core" and loss is None:
        _omitted(session, report)
    return report


def _omitted(session: Session, report: Report) -> None:
    omitted = session.process.stack_extents().omitted()
    remedy = "echo 0x33 > /proc/self/coredump_filter in the shell that starts the program, before it crashes"
    if omitted.threads:
        count = len(omitted.threads)
        report.add(
            "pages_omitted",
            "error",
            session.target.name,
            f"the core leaves out the stacks of {count} of {len(session.process.threads.ids())} threads",
            "these threads have no stack beyond the innermost frame, and their states are unknown",
            remedy,
        )
    elif omitted.regions:
        report.add(
            "pages_omitted",
            "note",
            session.target.name,
            f"the core leaves out {omitted.bytes} bytes in {omitted.regions} regions of memory that the program could"
            " write to",
            "variables and structures there are unknown; stacks are all there",
            f"{remedy} (if the program itself left them out, by madvise(MADV_DONTDUMP), nothing can be done)",
        )


def modules(session: Session) -> Report:
    """Return the report on the files of the modules."""
    report = Report("files")
    _unread(session, report)
    _unproven(session, report)
    _debug_information(session, report)
    return report


# Files that are missing, or another build


def _unread(session: Session, report: Report) -> None:
    modules: list[Module] = []
    count = 0
    for module in session.process.symbols.modules():
        if module.fault is None:
            count += 1
            continue
        if module.is_program:
            report.add(
                "file_unreadable",
                "error",
                module.name,
                f"the program's file: {module.fault}",
                "its functions, lines and variables are unknown, and an OpenMP runtime that is linked into it is not"
                " seen",
                _named_by_hand(session, "--exe", "PROGRAM"),
            )
        elif is_runtime_file(module.name):
            report.add(
                "file_unreadable",
                "error",
                module.name,
                f"an OpenMP runtime's file: {module.fault}",
                "none of its threads, regions and tasks is seen",
                _named_by_hand(session, "--sysroot", "FOLDER", module),
            )
        else:
            modules.append(module)
    if modules:
        names = [f"{module.fault}" for module in modules[:_LISTED]]
        more = f"; and {len(modules) - _LISTED} more" if len(modules) > _LISTED else ""
        report.add(
            "file_unreadable",
            "warning",
            modules[0].name if len(modules) == 1 else f"{len(modules)} libraries",
            "; ".join(names) + more,
            "functions there have no names, and stacks that pass through them may end early",
            _named_by_hand(session, "--sysroot", "FOLDER", modules[0]),
        )
    for name in session.process.symbols.unseen_libraries:
        report.add(
            "file_unreadable",
            "error" if is_runtime_file(name) else "warning",
            name,
            f"{name}, which the program needs, is in the part of the target that is lost",
            "what is in it is not seen",
            None,
        )
    if count and not report.rows:
        report.fine(f"the files of all {count} modules were found and are the builds that ran")


def _named_by_hand(session: Session, option: str, value: str, module: Module | None = None) -> str:
    if session.target.kind == "lldb":
        if option == "--exe":
            return "target create PROGRAM --core CORE, or attach with the program's file"
        return "settings set target.exec-search-paths FOLDER, before the process is attached to or the core is loaded"
    if session.target.kind == "gdb":
        return "file PROGRAM" if option == "--exe" else "set sysroot FOLDER"
    remedy = f"ompd doctor {quote_file(_name(session))} {option} {value}"
    if module is not None and module.build_id is not None:
        remedy += f"; or download the build {module.build_id}: {_with_debuginfod(session)}"
    return remedy


def _name(session: Session) -> str:
    target = session.target
    return str(target.process_id) if target.kind == "live" else target.name


def _with_debuginfod(session: Session) -> str:
    server = packages.distribution_of().debuginfod
    if session.target.kind == "lldb":
        return f"settings append plugin.symbol-locator.debuginfod.server-urls {server}"
    if session.target.kind == "gdb":
        return f"set debuginfod urls {server}, and set debuginfod enabled on, before the program is loaded"
    return f"DEBUGINFOD_URLS={server} ompd doctor {quote_file(_name(session))} --debuginfod"


def _unproven(session: Session, report: Report) -> None:
    names = list(session.process.symbols.unproven)
    if names:
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        report.add(
            "file_unproven",
            "warning",
            names[0] if len(names) == 1 else f"{len(names)} files",
            f"not verified to be the builds that ran: {', '.join(names[:_LISTED])}{more}",
            "places from these files are marked, and their variables are not read",
            "copy the core again, whole: the pages that would verify them are lost",
        )


# Debug information


def _debug_information(session: Session, report: Report) -> None:
    sites = _sites(session)
    runtimes = session.stop.runtime_modules
    distribution = packages.distribution_of()
    lacking: list[tuple[ModuleFiles, str, str, str]] = []
    surveyed = 0
    for module in session.process.symbols.modules():
        # Only user modules need debug information: runtimes are read by their layouts, and system libraries not shown.
        if module in runtimes and not module.is_program:
            continue
        if module.fault is not None or module.is_system_library:
            continue
        if not module.is_program and module.start not in sites:
            continue
        surveyed += 1
        if surveyed > _MAX_SURVEYED:
            break
        files = session.process.files_of(module)
        if files is None or (files.is_extract and not _lacks_places(session, sites.get(module.start, ()))):
            continue
        verdict = _verdict(files)
        if verdict is not None:
            lacking.append((files, *verdict))
    paths = [files.module.path for files, *_ in lacking if files.module.path is not None]
    owners = packages.owners(paths) if session.process.finder.sysroot is None else {}
    for files, severity, finding, consequence in lacking:
        package = owners.get(files.module.path or "")
        report.add(
            "debug_information",
            severity,
            files.module.name,
            finding,
            consequence,
            _debug_remedy(session, distribution, files, package),
        )
    if surveyed and not lacking:
        report.fine(f"debug information: the program and your modules on stacks have it ({surveyed} in all)")


def _sites(session: Session) -> dict[int, list[int]]:
    # Return the code addresses on all stacks, by the address at which their module starts.
    sites: dict[int, list[int]] = {}
    visited: set[int] = set()
    for thread in session.process.threads.ids():
        try:
            shape = session.process.stacks.stack(thread).shape
        except OmpdError:
            continue
        for address in shape[1]:
            if address in visited:
                continue
            visited.add(address)
            module = session.process.symbols.module_at(address)
            if module is not None:
                sites.setdefault(module.start, []).append(address)
    return sites


def _lacks_places(session: Session, sites: Sequence[int]) -> bool:
    # A snapshot has only a part of the file: it lacks places if no address on the stacks has a line.
    lines = 0
    for site in sites:
        try:
            lines += any(frame.line is not None for frame in session.process.places.source_frames(site))
        except OmpdError:
            continue
    return bool(sites) and not lines


def _verdict(files: ModuleFiles) -> tuple[str, str, str] | None:
    name = files.module.name
    severity = "warning" if files.module.is_program else "note"
    if files.has_lines is None or files.has_types is None:
        return severity, f"{name}: its sections are damaged", "functions, lines and variables may be missing"
    if files.has_lines and files.has_types:
        return None
    linked = f", and the separate file that it names, {files.debug_link}, is not found" if files.debug_link else ""
    if not files.has_lines and not files.has_types:
        stripped = " and is stripped" if not files.has_names else ""
        lost = "its places have no file and line, and `var` and `stack --locals` know none of its variables"
        if stripped:
            lost = f"its functions have no names but those that it exports; {lost}"
        return severity, f"{name} has no debug information{stripped}{linked}", lost
    if files.has_lines:
        return (
            severity,
            f"{name} has lines and no types{linked}",
            "`var` and `stack --locals` know none of its variables",
        )
    return severity, f"{name} has types and no lines{linked}", "its places have no file and line"


def _debug_remedy(
    session: Session, distribution: packages.Distribution, files: ModuleFiles, package: str | None
) -> str | None:
    path = files.module.path or files.module.name
    command = packages.debug_command(distribution, package, path)
    ways: list[str] = []
    if command is not None or files.debug_link is not None:
        if files.module.build_id is not None:
            ways.append(_with_debuginfod(session))
        if command is not None:
            ways.append(command)
    if files.debug_link is not None and session.target.kind == "gdb":
        ways.append(f"set debug-file-directory FOLDER, where {files.debug_link} is")
    elif files.debug_link is not None and session.target.kind != "lldb":
        ways.append(f"ompd doctor {quote_file(_name(session))} --debug-dir FOLDER, where {files.debug_link} is")
    if not ways and not _is_of_a_package(files):
        ways.append("compile and link it with -g, and do not strip it")
    return "; or ".join(ways) or None


def _is_of_a_package(files: ModuleFiles) -> bool:
    # Return whether a module comes from a package, so that the user cannot compile it with -g: it is in a folder of
    # Python packages, or it is a stripped library.
    is_stripped = not files.has_names and not files.module.is_program
    return is_stripped or not _PYTHON_PACKAGES.isdisjoint((files.module.path or files.module.name).split("/"))
