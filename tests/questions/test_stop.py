"""A stop is one value: only facts about the same files pass from one stop to the next."""

from __future__ import annotations

from ompd.debugger.process import StoppedProcess
from ompd.session import Session
from tests.support import stopped


def test_the_next_stop_has_nothing_that_was_read() -> None:
    with Session.open_core(stopped("hang").core) as session:
        before, space = session.stop, session.runtimes[0].space
        before.owners[1] = "user"
        before.source_functions["region"] = "main"
        session.process.places.line_of(1)
        again = session.begin_stop(session.target, session.process.at_another_stop(session.target))
        assert session.stop is again and session.process is again.process is not before.process
        assert again.owners == {1: "user"} and not again.source_functions
        assert session.process.places.known is before.process.places.known
        assert session.runtimes[0].space is not space is not None
        assert again.record == before.record


def test_nothing_is_kept_of_other_files() -> None:
    with Session.open_core(stopped("hang").core) as session:
        session.stop.owners[1] = "user"
        other = StoppedProcess(session.target, session.process.finder)
        assert session.begin_stop(session.target, other).owners == {}
