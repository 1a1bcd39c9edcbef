"""ompd uses the names that a runtime gives.

Variables that a preprocessor renamed are shown under their names in the source. The runtime's routines are hidden even
if no file's name shows that they are a runtime's.
"""

from __future__ import annotations

from ompd.questions import stacks
from ompd.questions.stacks.names import RuntimeNames
from ompd.session import Session
from tests.stub.programs import built, core_of
from tests.support.stub import stub_folder


def test_variables_have_their_own_names_and_clauses() -> None:
    with Session.open_core(core_of(built("preprocessed.c"))) as session:
        (row,) = stacks.ask(session, locals=True).rows
    (frame,) = (frame for frame in row.frames if frame.function == "code")
    found = {each.name: (each.type, each.text, each.sharing) for each in frame.locals or ()}
    assert len(found) == len(frame.locals or ())
    assert {name: found[name] for name in found if name not in ("all", "data", "pointer")} == {
        "total": ("double", "2.5", "shared"),
        "each": ("int", "3", "reduction"),
        "own": ("int", "5", "private"),
        "first": ("long", "6", "firstprivate"),
        "last": ("short", "7", "lastprivate"),
        "both": ("char", "98 'b'", "firstlastprivate"),
        "copied": ("float", "1.5", "copyin"),
        "plain": ("int", "8", None),
        "lost": ("double", None, "shared"),
        "wrong": ("int", None, "shared"),
    }
    faults = {each.name: each.unavailable["value"] for each in frame.locals or () if each.text is None}
    assert faults["wrong"] == "its name says that it holds an address, and its type that it does not"
    assert faults.keys() == {"lost", "wrong"} and "0x10" in faults["lost"]


def test_a_runtime_inside_of_the_program_is_hidden_by_the_names_of_its_routines() -> None:
    linked = sorted(str(file) for file in (stub_folder() / "objects").rglob("*.o") if not file.stem.endswith("_label"))
    program = built("preprocessed.c", name="linked-in", links=linked, library="libompd_stub.so")
    with Session.open_core(core_of(program)) as session:
        (runtime,) = session.runtimes
        assert runtime.found.kind == "stub" and runtime.found.module.is_program
        (raw,) = stacks.ask(session, raw=True).rows
        (shown,) = stacks.ask(session).rows
    kinds = {frame.function: frame.kind for frame in raw.frames}
    assert {name: kinds[name] for name in ("code", "run_implicit", "run_region", "GOMP_parallel", "main")} == {
        **dict.fromkeys(("code", "main"), "user"),
        **dict.fromkeys(("run_implicit", "run_region", "GOMP_parallel"), "runtime"),
    }
    assert [frame.function for frame in shown.frames if frame.kind == "user"] == ["code", "main"]
    assert not {"run_implicit", "run_region"} & {frame.function for frame in shown.frames}


def test_what_is_between_the_two_routines_is_the_runtimes() -> None:
    with Session.open_core(core_of(built("preprocessed.c"))) as session:
        names = RuntimeNames(session)
    begin, invoke = "GOMP_parallel", "run_implicit"
    assert names.between(["code", invoke, "inside", begin, "main"]) == [1, 2, 3]
    assert names.between(["code", invoke, "start", None]) == [1]  # the stack of a thread that the runtime made
    nested = ["code", invoke, "inside", begin, "user", invoke, "start"]
    assert names.between(nested) == [1, 2, 3, 5]
    assert names.between(["waits", begin, "main", invoke]) == [1, 3]
    assert names.between([]) == names.between(["main", None]) == []
