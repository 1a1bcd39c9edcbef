"""``runtimes``: every OpenMP runtime in the process."""

from __future__ import annotations

from ompd.contract.plugin import AddressSpace
from ompd.errors import CorruptState, MemoryFault, TooMuch, Unavailable
from ompd.model import Answer, RuntimeRecord
from ompd.questions.facts import Facts, Problems, answer, begin
from ompd.session import LoadedRuntime, Session


def ask(session: Session) -> Answer[RuntimeRecord]:
    """Return every OpenMP runtime of the process, also those that can only be named."""
    problems = begin(session)
    rows = records(session, problems)
    for fault in session.lost_runtimes:
        problems.unreadable(f"{fault}: an OpenMP runtime in it would not be seen")
    if not rows and not session.lost_runtimes:
        problems.note(f"no OpenMP runtime among the {len(session.process.modules())} modules of the process")
    return answer(session, rows, rows, problems)


def records(session: Session, problems: Problems) -> tuple[RuntimeRecord, ...]:
    """Return the records of all runtimes; what of them cannot be read becomes a warning."""
    return tuple(_record(session, runtime, problems) for runtime in session.runtimes)


def _record(session: Session, runtime: LoadedRuntime, problems: Problems) -> RuntimeRecord:
    facts = Facts(runtime.id, problems)
    found = runtime.found

    def space() -> AddressSpace:
        if runtime.space is not None:
            return runtime.space
        if isinstance(runtime.fault, (CorruptState, MemoryFault, TooMuch)):
            raise runtime.fault  # trying failed
        raise Unavailable(str(runtime.fault) if runtime.fault is not None else _NO_SYMBOLS)

    def locations() -> tuple[str, ...] | None:
        if found.module.unproven is not None:
            raise Unavailable(str(runtime.fault))
        if found.locations_address is None:
            raise Unavailable(_NO_SYMBOLS)
        names = found.dll_locations(session.process)
        if names is None and isinstance(runtime.fault, CorruptState):
            raise runtime.fault
        return names

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
        dll_locations=facts.get("dll_locations", locations),
        keeps_states=facts.get("keeps_states", lambda: space().keeps_states()),
        omp_version=facts.get("omp_version", lambda: space().omp_version()),
        layouts=_other_layouts(runtime.space),
        layout_proof=facts.get("layout_proof", lambda: space().layout_proof),
        unavailable=facts.unavailable,
    )


def _other_layouts(space: AddressSpace | None) -> dict[str, str]:
    # Of the structures that were asked about so far.
    sources = space.layout_sources if space is not None else {}
    return {name: source for name, source in sources.items() if space is not None and source != space.layout_source}


_NO_SYMBOLS = "the runtime has no ompd_ symbols"
