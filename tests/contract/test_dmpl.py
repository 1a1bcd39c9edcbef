"""DMPL: its tables and numbers, and its library's half against its debugger's half, over invented memory.

:func:`tests.support.dmpl.differences` asks a library everything. Other tests break one callback or
function, which must be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from ompd_stub.dmpl import DAMAGED, NO_MEMORY, StubLibrary

from ompd.contract import dmpl
from ompd.contract.dmpl import (
    CallbackTable,
    DemangledName,
    Language,
    Result,
    RtlNames,
    TypeFunctions,
    VarInfo,
)
from ompd.contract.dmpl_debugger import Debugger, code_of, error_text
from ompd.errors import BadInput, Unavailable
from tests.support.dmpl import TABLE_MUTANTS, TYPE_MUTANTS, Invented, differences


def test_both_halves_agree() -> None:
    assert differences(StubLibrary()) == []


def test_there_is_a_mutant_for_each() -> None:
    assert tuple(TABLE_MUTANTS) == tuple(field.name for field in fields(CallbackTable))
    assert tuple(TYPE_MUTANTS) == tuple(field.name for field in fields(TypeFunctions))
    assert sorted(LIBRARY_MUTANTS) == sorted(name for name in vars(dmpl.Library) if not name.startswith("_"))


@pytest.mark.parametrize("name", TABLE_MUTANTS)
def test_a_defect_in_a_callback_is_noticed(name: str) -> None:
    def broken(table: CallbackTable) -> CallbackTable:
        return replace(table, **{name: TABLE_MUTANTS[name](table)})

    assert differences(StubLibrary(), break_table=broken) != []


@pytest.mark.parametrize("name", TYPE_MUTANTS)
def test_a_defect_in_a_type_function_is_noticed(name: str) -> None:
    def broken(types: TypeFunctions) -> TypeFunctions:
        return replace(types, **{name: TYPE_MUTANTS[name](types)})

    assert differences(StubLibrary(), break_types=broken) != []


LIBRARY_MUTANTS: Mapping[str, Callable[[StubLibrary], Callable[..., Any]]] = {
    "initialise": lambda library: lambda callbacks, types: 0,
    "version_compatibility": lambda library: lambda: 2,
    "version_string": lambda library: lambda: "",
    "error_string": lambda library: lambda code: f"code {code}",
    "destroy_process_info": lambda library: lambda info: 0,
    "destroy_thread_info": lambda library: lambda info: 0,
    "demangle_name": lambda library: lambda name, length, source_of=None: DemangledName(0, len(name), name, 0, 0),
    "get_tls_address": lambda library: lambda thread, address: (0, address),
    "get_rtl_names": lambda library: lambda language: RtlNames("GOMP_parallel", "run_implicit"),
}


@pytest.mark.parametrize("name", LIBRARY_MUTANTS)
def test_a_defect_in_a_function_is_noticed(name: str) -> None:
    library = StubLibrary()
    setattr(library, name, LIBRARY_MUTANTS[name](library))
    assert differences(library) != []


# Names and numbers, as the paper's header has them


def test_names_and_numbers_are_those_of_the_header() -> None:
    assert [(code.name, code.value) for code in Result] == [
        *(("OK", 0), ("TLS_UNALLOCATED", 1), ("NAME_TOO_LONG", 2), ("NAME_UNCHANGED", 3), ("FIRST_USER_CODE", 100))
    ]
    assert {name: chr(code) for name, code in Language.__members__.items() if code} == {
        "C": "c",
        "CPLUSPLUS": "C",
        "CPLUS": "C",
        "F77": "f",
        "F9X": "F",
    }
    assert Language.UNKNOWN == 0 and Language.CPLUS is Language.CPLUSPLUS
    assert " ".join(code.name.lower() for code in VarInfo) == (
        "none private shared firstprivate lastprivate firstlastprivate reduction threadprivate threadshared copyin"
    )
    assert list(VarInfo) == list(range(10)) and dmpl.VARINFO_NEEDS_DEREFERENCE == 0x8000
    assert StubLibrary.initialize is StubLibrary.initialise
    assert list(dmpl.TargetTypeSizes._fields) == [
        *("short_size", "int_size", "long_size", "long_long_size", "pointer_size")
    ]
    assert dmpl.RtlNames._fields == ("main_task_dispatcher", "microtask_invoker")


def test_codes_have_texts() -> None:
    assert error_text(Result.TLS_UNALLOCATED) == "no space has been allocated for this object"
    assert error_text(code_of(Unavailable(""))) == "unavailable"
    assert error_text(99) == "code 99, which nobody has defined" and error_text(4711).startswith("code 4711")
    library = StubLibrary()
    assert library.error_string(NO_MEMORY) == "the debugger gives no memory"
    assert library.error_string(4711) == "a code that is not this library's"


def test_a_library_that_was_not_initialised_says_so() -> None:
    debugger, library = Debugger(), StubLibrary()
    thread = debugger.thread(debugger.add_process(Invented(8, "little")), 1)
    code, _ = library.get_tls_address(thread, 0x6000)
    assert library.error_string(code) == "the library has not been initialised"
    assert library.destroy_process_info(bytearray(1)) == code


def test_what_is_not_the_debuggers_is_refused() -> None:
    table = Debugger().table
    for ask in (table.get_process_info, table.get_thread_info, table.get_process, table.get_type_sizes):
        with pytest.raises(BadInput):
            ask("mine")  # type: ignore[operator]
    assert table.malloc(1 << 40) is None and table.malloc(-1) is None


@pytest.mark.parametrize("count", [0, 1 << 31])
def test_a_table_that_lies_is_damaged(count: int) -> None:
    process = Invented(8, "little", with_types=False)
    process.word(Invented.TABLE + 68, count, 4)
    debugger, library = Debugger(), StubLibrary()
    library.initialise(debugger.table, debugger.types)
    thread = debugger.thread(debugger.add_process(process), 1)
    assert library.get_tls_address(thread, 0x6000) == (DAMAGED, 0)
