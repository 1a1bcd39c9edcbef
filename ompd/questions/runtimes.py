"""``runtimes``: the OpenMP runtimes in the process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.contract.plugin import AddressSpace
from ompd.errors import CorruptState, MemoryFault, PluginFault, TooMuch, Unavailable
from ompd.model import Answer, DllRecord, RuntimeRecord
from ompd.questions.facts.answers import NO_PLUGIN, answer, begin
from ompd.questions.facts.gathering import Facts, Problems
from ompd.runtimes import discovery
from ompd.runtimes.discovery import Found
from ompd.runtimes.hosted.loading.folders import SystemFolders, places
from ompd.safety.libraries import NO_FILE
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> Answer[RuntimeRecord]:
    """Return the OpenMP runtimes of the process, also those that ompd cannot read."""
    problems = begin(session)
    rows = records(session, problems)
    for fault in session.stop.lost_libraries:
        problems.incomplete(f"{fault}: an OpenMP runtime in it would not be seen")
    if not rows and not session.stop.lost_runtimes:
        problems.note(f"no OpenMP runtime among the {len(session.process.symbols.modules())} modules of the process")
    return answer(session, rows, rows, problems)


def records(session: Session, problems: Problems) -> tuple[RuntimeRecord, ...]:
    """Return the records of all runtimes. Facts that cannot be read are None, and become warnings of *problems*."""
    return tuple(_record(session, runtime, problems) for runtime in session.runtimes)


def _record(session: Session, runtime: LoadedRuntime, problems: Problems) -> RuntimeRecord:
    facts = Facts(runtime.id, problems)
    found = runtime.found
    damage: Sequence[CorruptState] = ()
    if runtime.space is not None:
        damage = facts.known("damage", runtime.space.damage, damage)
    for fault in damage:
        problems.unreadable(runtime.id, fault)

    def space() -> AddressSpace:
        if runtime.space is not None:
            return runtime.space
        if isinstance(runtime.fault, (CorruptState, MemoryFault, PluginFault, TooMuch)):
            raise runtime.fault  # trying failed
        raise Unavailable(str(runtime.fault) if runtime.fault is not None else f"{found.module.name} {NO_PLUGIN}")

    def locations() -> tuple[str, ...] | None:
        if found.module.unproven is not None:
            raise Unavailable(str(runtime.fault))
        if found.locations_address is None:
            raise Unavailable(f"{found.module.name} has no ompd_dll_locations")
        names = found.dll_locations(session.process.contract)
        if names is None and isinstance(runtime.fault, CorruptState):
            raise runtime.fault
        if names is None and runtime.space is not None:
            raise CorruptState(found.locations_address, "ompd_dll_locations is NULL, but the runtime is initialised")
        return names

    names = facts.get("dll_locations", locations)
    if "dll_locations" in facts.unavailable:
        facts.unavailable["dlls"] = facts.unavailable["dll_locations"]

    def build_id() -> str | None:
        if found.module.build_id is None and found.module.unproven is not None:
            raise Unavailable(found.module.unproven)
        return found.module.build_id

    return RuntimeRecord(
        id=runtime.id,
        kind=found.kind,
        version=facts.get("version", lambda: space().version()),
        file=found.module.name,
        build_id=facts.get("build_id", build_id),
        layout=facts.get("layout", lambda: space().layout_source),
        dll_locations=names,
        keeps_states=facts.get("keeps_states", lambda: space().keeps_states()),
        omp_version=facts.get("omp_version", lambda: space().omp_version()),
        layouts=facts.known("layouts", lambda: _other_layouts(runtime.space), {}),
        layout_proof=facts.get("layout_proof", lambda: space().layout_proof),
        dlls=_dlls(session, runtime, names) if names is not None else None,
        plugin=_plugin(found),
        unavailable=facts.unavailable,
    )


def _plugin(found: Found) -> str | None:
    if found.hosted is not None:
        return f"{found.hosted.interface} library {found.hosted.file} ({found.hosted.version})"
    return found.selected.origin if found.selected is not None else None


def _dlls(session: Session, runtime: LoadedRuntime, names: Sequence[str]) -> tuple[DllRecord, ...]:
    # Return the libraries for debuggers that the runtime names. A debugger chooses the first that suits it. A file that
    # only the target names is foreign code, so it is not loaded.
    if runtime.found.hosted is not None:
        files = [_file_of(session, runtime, name) for name in names]
        return tuple(_dlls_beside_loaded(runtime.found.hosted.file, names, files))
    chosen = next((index for index, name in enumerate(names) if runtime.found.served_by(name)), None)
    rows = []
    for index, name in enumerate(names):
        if runtime.found.served_by(name):
            rows.append(_dll_of_plugin(runtime.found, name, is_chosen=index == chosen))
        elif not name:
            rows.append(DllRecord(name, None, False, False, "it names nothing"))
        else:
            path, reason = _file_of(session, runtime, name)
            rows.append(DllRecord(name, None, reason is None, False, reason or _FOREIGN, path))
    return tuple(rows)


def _dlls_beside_loaded(
    loaded: str, names: Sequence[str], files: Sequence[tuple[str, str | None]]
) -> Iterator[DllRecord]:
    # Yield the named libraries if --ompd-library has loaded the file *loaded*. The chosen one is the name whose file it
    # is, or else the first name whose file is named like it.
    paths = [path for path, _ in files]
    file_names = [path.rpartition("/")[2] for path in paths]
    loaded_name = loaded.rpartition("/")[2]
    if loaded in paths:
        chosen: int | None = paths.index(loaded)
    else:
        chosen = file_names.index(loaded_name) if loaded_name in file_names else None
    for index, (name, (path, reason)) in enumerate(zip(names, files, strict=True)):
        if index == chosen:
            yield DllRecord(name, None, True, True, "loaded, as --ompd-library says", loaded)
        else:
            yield DllRecord(name, None, reason is None, False, reason or f"{loaded} serves", path)


def _dll_of_plugin(found: Found, name: str, *, is_chosen: bool) -> DllRecord:
    if found.fault is not None:
        return DllRecord(name, None, False, False, str(found.fault))
    plugin = discovery.built_in(name) or found.kind
    if not is_chosen:
        return DllRecord(name, plugin, True, False, "one before it serves")
    serves = f"the plugin of {found.selected.origin}" if found.selected is not None else f"our own plugin for {plugin}"
    return DllRecord(name, plugin, True, True, serves)


def _file_of(session: Session, runtime: LoadedRuntime, name: str) -> tuple[str, str | None]:
    # The first file that --ompd-library would load. If there is none, the first file and the reason.
    refused: list[tuple[str, str]] = []
    for path in places(name, runtime.found.module.name, session.process.finder, SystemFolders()):
        reason = session.process.finder.unsuitable_library(path)
        if reason is None:
            return path, None
        refused.append((path, reason))
    first = refused[0] if refused else (name, NO_FILE)
    return next((refusal for refusal in refused if refusal[1] != NO_FILE), first)


_FOREIGN = "foreign code, which is not loaded because a target names it"


def _other_layouts(space: AddressSpace | None) -> dict[str, str]:
    # Return the source of the layout of each structure whose source differs from that of the runtime. Structures that
    # no query has needed so far are missing.
    sources = space.layout_sources if space is not None else {}
    return {name: source for name, source in sources.items() if space is not None and source != space.layout_source}
