"""Sources of layouts: the offsets that a runtime publishes, its self-description and its debug information agree."""

from __future__ import annotations

from typing import Any

import pytest

from ompd.errors import LayoutUnavailable
from ompd.questions import runtimes, threads
from ompd.runtimes.layout import dwarf, published, selfdescribed
from ompd.runtimes.libomp.layout.structures import load_layouts
from ompd.runtimes.libomp.plugin import Runtime
from ompd.session import Session
from tests.support import stopped
from tests.truth import compare


def runtime_of(session: Session) -> Runtime:
    space = session.runtimes[0].space
    assert isinstance(space, Runtime)
    return space


def without_self_description(*_: Any) -> dict[str, Any]:
    raise LayoutUnavailable("hidden")


def test_debug_information_and_self_description_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.open_core(stopped("lock").core) as session:
        runtime = runtime_of(session)
        told = selfdescribed.load(session.process.contract, runtime.module)
        assert selfdescribed.contradictions(runtime.layouts, told) == {}
        monkeypatch.setattr(selfdescribed, "load", without_self_description)
        known = load_layouts(session.process.contract, runtime.module)
    compared = 0
    for name, layout in known.items():
        assert layout.source == dwarf.SOURCE
        for field, where in layout.fields.items():
            assert told[name].fields[field] == where, f"{name}.{field}"
            compared += 1
    assert compared == 21
    assert known["kmp_thread_data_t"].size == told["kmp_thread_data_t"].size


@pytest.mark.parametrize("program", ["lock", "task_queued", "nest_lock", "critical", "barrier"])
@pytest.mark.quick("lock", "nest_lock", "critical", "barrier")
def test_waits_and_queues_are_told_by_debug_information_too(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfdescribed, "load", without_self_description)
    assert compare(stopped(program, mode="neither")).differences == []


@pytest.mark.parametrize("program", ["nested", "task_tree", "serialized_three"])
@pytest.mark.quick("nested", "serialized_three")
def test_debug_information_stands_in_for_what_is_published(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "load", without_self_description)
    found = compare(stopped(program, mode="neither"))
    assert found.differences == ["runtime: layout is 'dwarf', in truth 'published'"]


def test_without_either_source_what_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfdescribed, "load", without_self_description)
    monkeypatch.setattr(dwarf, "load", without_self_description)
    found = compare(stopped("lock", mode="neither"))
    assert found.differences == []  # but fewer facts
    with Session.open_core(stopped("lock", mode="neither").core) as session, pytest.raises(LayoutUnavailable):
        runtime_of(session).queued_tasks()


def test_two_sources_that_contradict_each_other_are_not_believed() -> None:
    with Session.open_core(stopped("lock").core) as session:
        runtime = runtime_of(session)
        told = selfdescribed.load(session.process.contract, runtime.module)
        fields = {**told["kmp_taskdata_t"].fields, "td_team": told["kmp_taskdata_t"].fields["td_parent"]}
        wrong = {**told, "kmp_taskdata_t": type(told["kmp_taskdata_t"])("kmp_taskdata_t", None, fields, "published")}
        found = selfdescribed.contradictions(runtime.layouts, wrong)
        assert {name: list(faults) for name, faults in found.items()} == {"kmp_taskdata_t": ["td_team"]}


def test_what_only_debug_information_tells_is_said_to_be_from_there() -> None:
    core = stopped("lock_kinds", mode="neither", env={"KMP_LOCK_KIND": "ticket"}).core
    with Session.open_core(core) as session:
        assert runtimes.ask(session).rows[0].layouts == {}
        (runtime,) = threads.ask(session).runtimes
    assert (runtime.layout, runtime.layouts) == ("published", {"kmp_base_ticket_lock_t": "dwarf"})
