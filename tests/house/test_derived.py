"""The tests' cache of derived data gives the same answers as a new derivation, and no test adds to this cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from ompd.debugger.files.cache import DiskCache
from tests.support import Stopped, derived, stopped
from tests.truth import everything, opened


@pytest.fixture
def core() -> Stopped:
    return stopped("task_queued")  # none of the programs that filled the cache


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make sessions use the cache, and return the list of names of the entries that they read."""
    monkeypatch.setattr(DiskCache, "of_user", DiskCache.of_user)  # restored at the end
    derived.use()
    cache = DiskCache.of_user()
    names: list[str] = []

    def noted(name: str, key: bytes) -> bytes | None:
        entry = DiskCache.read(cache, name, key)
        if entry is not None:
            names.append(name)
        return entry

    monkeypatch.setattr(cache, "read", noted)
    return names


def test_answers_are_those_of_a_session_that_derives_all(core: Stopped, read: list[str]) -> None:
    with opened(core) as session:
        shorter = everything(session)
    assert {name.rpartition("-")[2] for name in read} >= {"symbols.symtab"} and len(set(read)) > 2
    used = len(read)
    DiskCache.of_user = classmethod(lambda cls: cls(None))  # type: ignore[method-assign, assignment]
    with opened(core) as session:
        assert everything(session) == shorter
    assert len(read) == used


def test_nothing_is_added(core: Stopped, read: list[str]) -> None:
    folder = derived.cache_folder()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert before
    with opened(core) as session:
        everything(session)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_test_of_the_users_cache_has_that(
    core: Stopped, read: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMPD_CACHE", "on")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with opened(core) as session:
        everything(session)
    assert read == []
    assert any((tmp_path / "ompd").iterdir())
