"""All calls of a DMPL library, over invented memory. A 64-bit process and a 32-bit process of the other byte order
exist at once. Mutants of the callbacks have one defect each, which the library must notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ompd_stub.dmpl import DAMAGED, NOT_THREADPRIVATE

from ompd.contract import dmpl
from ompd.contract.callbacks import TypeRef, TypeSizes
from ompd.contract.dmpl import (
    CallbackTable,
    DemangledName,
    Language,
    Library,
    Result,
    RtlNames,
    TypeFunctions,
    VarInfo,
)
from ompd.contract.dmpl_debugger import Debugger, code_of
from ompd.contract.memory import ByteOrder
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import BadInput, FieldNotFound, MemoryFault, SymbolNotFound, TypeNotFound
from ompd.runtimes.hosted.dmpl.client import HostedLibrary
from ompd.runtimes.hosted.process import Limits
from tests.support.hosted import loadable
from tests.support.stub import host32, stub_folder

# The library in C


def file_of(width: int) -> Path:
    """Return the stub's library of 32 or 64 bits."""
    return stub_folder() / ("libompd_stub32.so" if width == 32 else "libompd_stub.so")


@contextmanager
def hosted(
    path: Path, width: int = 64, *, limits: Limits | None = None, warnings: list[str] | None = None
) -> Iterator[HostedLibrary]:
    """Host a DMPL library of 32 or 64 bits."""
    said: list[str] = [] if warnings is None else warnings
    program = host32() if width == 32 else None
    with (
        loadable(path) as found,
        HostedLibrary(found, limits=limits or Limits(), warnings=said, program=program) as library,
    ):
        yield library


@contextmanager
def hosted_instead(width: int) -> Iterator[Callable[[], HostedLibrary]]:
    """Yield a factory for hosted libraries, which replaces ``StubLibrary``. The libraries end with the context.

    :raises Missing: if libraries of that width cannot be hosted here. Raised within a plugin's call, it would look like
        a fault of the plugin.
    """
    if width == 32:
        host32()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(hosted(file_of(width), width))


# A process of invented memory


class Invented:
    """The callbacks for a process in which the stub keeps two variables for three threads.

    Thread 1 has used both variables, thread 2 only the first, thread 3 none.
    """

    PROCESS, KEY, TABLE, FIRST, SECOND, STORAGE = 0x1000, 0x1800, 0x2000, 0x4000, 0x4100, 0x5000
    VARIABLES: Mapping[str, tuple[int, int, int]] = {
        "first": (0x6000, 4, 64),
        "second": (0x6010, 24, 128),
    }  # address, size, offset

    def __init__(self, pointer_size: int, byte_order: ByteOrder, *, key: int = 5, with_types: bool = True) -> None:
        self.pointer_size = pointer_size
        self.byte_order: ByteOrder = byte_order
        self.memory = bytearray(0x8000)
        self.symbols = {
            "omp_stub_process": self.PROCESS,
            "__omp_stub_tls_key": self.KEY,
            "omp_stub_layout": self.TABLE,
        }
        self.with_types = with_types
        self.key = key
        self.asked: list[str] = []
        word = pointer_size
        # The compiler may choose the order of these members.
        self.members = {name: at * word for at, name in enumerate(("size", "next", "number", "variable", "offset"))}
        self.size = 5 * word
        self._table([("stub_process", "privates", 2 * word), *(("omp_stub_private", *m) for m in self.members.items())])
        self.word(self.PROCESS + 2 * word, self.SECOND)
        self.word(self.KEY, key)
        self._record(self.SECOND, self.FIRST, "second", 1)
        self._record(self.FIRST, 0, "first", 0)
        self.storage = {1: self.STORAGE + word, 2: self.STORAGE + 0x200 + word}
        self.word(self.STORAGE, 2)
        self.word(self.STORAGE + 0x200, 1)

    def word(self, address: int, value: int, size: int | None = None) -> None:
        size = size or self.pointer_size
        self.memory[address : address + size] = value.to_bytes(size, self.byte_order)

    def _table(self, members: list[tuple[str, str, int]]) -> None:
        rows = [("omp_stub_layout", "", 1, len(members) + 2)]
        rows += [(struct, member, offset, self.pointer_size) for struct, member, offset in members]
        rows += [("stub_process", "", 0, 8 * self.pointer_size), ("omp_stub_private", "", 0, self.size)]
        for number, (struct, member, first, second) in enumerate(rows):
            at = self.TABLE + 72 * number
            self.memory[at : at + len(struct)] = struct.encode()
            self.memory[at + 32 : at + 32 + len(member)] = member.encode()
            self.word(at + 64, first, 4)
            self.word(at + 68, second, 4)

    def _record(self, address: int, following: int, name: str, number: int) -> None:
        variable, size, offset = self.VARIABLES[name]
        values = {"next": following, "variable": variable, "size": size, "offset": offset, "number": number}
        for member, value in values.items():
            self.word(address + self.members[member], value)

    # ompd.contract.callbacks.Callbacks

    def find_symbol(self, name: str, *, thread: int | None = None) -> int:
        self.asked.append(f"symbol {name}")
        if name not in self.symbols:
            raise SymbolNotFound(name)
        return self.symbols[name]

    def read(self, address: int, size: int) -> bytes:
        if not 0x1000 <= address <= len(self.memory) - size:
            raise MemoryFault(address, size)
        return bytes(self.memory[address : address + size])

    def read_string(self, address: int, limit: int = 4096) -> bytes:
        return bytes(self.memory[address:]).partition(b"\0")[0]

    def type_sizes(self) -> TypeSizes:
        self.asked.append("sizes")
        return TypeSizes(1, 2, 4, self.pointer_size, 8, self.pointer_size)

    def find_type(self, name: str) -> TypeRef:
        self.asked.append(f"type {name}")
        if name != "omp_stub_private" or not self.with_types:
            raise TypeNotFound(name)
        return TypeRef("private")

    def sizeof(self, type_ref: TypeRef) -> int:
        assert type_ref == "private"
        return self.size

    def field_offset(self, type_ref: TypeRef, field: str) -> int:
        assert type_ref == "private"
        if field not in self.members:
            raise FieldNotFound("omp_stub_private", field)
        return self.members[field]

    def pthread_key(self, thread: int, key: int) -> int | None:
        self.asked.append(f"key {key} of {thread}")
        if thread not in (1, 2, 3):
            raise BadInput(f"no thread {thread}")
        return self.storage.get(thread) if key == self.key else None

    def thread_for_id(self, kind: ThreadIdKind, identifier: int) -> int:
        return identifier

    def to_host(self, raw: bytes, unit_size: int) -> bytes:
        units = [raw[at : at + unit_size] for at in range(0, len(raw), unit_size)]
        return b"".join(unit[::-1] if self.byte_order == "big" else unit for unit in units)


# All calls of a library

NAMES: Mapping[str, tuple[str | None, int, int]] = {
    "main._omp_fn.0": ("main", VarInfo.NONE, 0),
    "foo.omp_outlined": ("foo", VarInfo.NONE, 0),
    "foo.omp_outlined_debug__.3": ("foo", VarInfo.NONE, 0),
    "bar._omp_fn.12.constprop.0": ("bar", VarInfo.NONE, 0),
    ".gomp_critical_user_log": ("log", VarInfo.NONE, 0),
    "__emutls_v.counter": ("counter", VarInfo.THREADPRIVATE, 0),
    "omp_stub_private_counter": ("counter", VarInfo.THREADPRIVATE, 0),
    "counter.cache.": ("counter", VarInfo.THREADPRIVATE, 0),
    "omp_stub_var_firstlastprivate_x": ("x", VarInfo.FIRSTLASTPRIVATE, 0),
    "omp_stub_at_shared_private_x": ("private_x", VarInfo.SHARED | dmpl.VARINFO_NEEDS_DEREFERENCE, 0),
    "omp_stub_var_borrowed_x": (None, VarInfo.NONE, 0),
    "main": (None, VarInfo.NONE, 0),
    ".omp_outlined.": (None, VarInfo.NONE, 0),
    "": (None, VarInfo.NONE, 0),
    "._omp_fn.0": (None, VarInfo.NONE, 0),
}


def of_source(name: str) -> tuple[str | None, int | None]:
    return {".omp_outlined.": ("solve", 17), "main._omp_fn.0": ("main", 23)}.get(name, (None, None))


Broken = Callable[[CallbackTable], CallbackTable]
BrokenTypes = Callable[[TypeFunctions], TypeFunctions]


def unbroken(table: Any) -> Any:
    return table


def differences(library: Library, break_table: Broken = unbroken, break_types: BrokenTypes = unbroken) -> list[str]:
    """Make all calls of a library and return the wrong results as sentences. One of its callbacks may be broken."""
    found: list[str] = []

    def expect(what: str, told: object, true: object) -> None:
        if told != true:
            found.append(f"{what}: {told!r}, in truth {true!r}")

    debugger = Debugger()
    expect("initialise", library.initialise(break_table(debugger.table), break_types(debugger.types)), Result.OK)
    wide, narrow = Invented(8, "little"), Invented(4, "big", key=3)
    other = Invented(8, "little", with_types=False)
    processes = {name: debugger.add_process(p) for name, p in (("64", wide), ("32", narrow), ("plain", other))}
    for _ in range(2):  # the second pass uses the library's stored results
        for name, invented in (("64", wide), ("32", narrow), ("plain", other)):
            for thread, variable, inside, code in (
                (1, "first", 0, Result.OK),
                (1, "second", 16, Result.OK),
                (2, "first", 3, Result.OK),
                (2, "second", 0, Result.TLS_UNALLOCATED),
                (3, "first", 0, Result.TLS_UNALLOCATED),
            ):
                address, _, offset = Invented.VARIABLES[variable]
                true = invented.storage[thread] + offset + inside if code == Result.OK else 0
                ref = debugger.thread(processes[name], thread)
                for asked in (address + inside, offset + inside):  # as in debug information; as in Figure 10
                    told = library.get_tls_address(ref, asked)
                    expect(f"{variable}+{inside} of thread {thread}, {name}", told, (code, true))
            ref = debugger.thread(processes[name], 1)
            expect("no variable", library.get_tls_address(ref, 0x7000)[0], NOT_THREADPRIVATE)
    for invented in (wide, narrow, other):
        # The library has stored its findings in the debugger, per process and per thread with storage.
        expect("symbols", invented.asked.count("symbol __omp_stub_tls_key"), 1)
        expect("sizes", invented.asked.count("sizes"), 1)
        expect("types", invented.asked.count("type omp_stub_private"), 1)
        expect("tables", invented.asked.count("symbol omp_stub_layout"), 2 if invented is other else 1)
        for thread in (1, 2):
            expect("keys", sum(asked.endswith(f"of {thread}") for asked in invented.asked), 1)
    # The library prints a fault of the debugger, and returns its code.
    lost = Invented(8, "little")
    lost.word(Invented.PROCESS + 16, 0xDEAD0000)
    lost_thread = debugger.thread(debugger.add_process(lost), 1)
    code, _ = library.get_tls_address(lost_thread, Invented.VARIABLES["first"][0])
    expect("lost memory", code, code_of(MemoryFault(0, 0)))
    expect("text of it", library.error_string(code), "device read error")
    expect("printed", [text.rpartition(": ")[2] for text in debugger.printed], ["device read error"])
    for name, thread_number in (("lost key", 9),):
        ref = debugger.thread(processes["64"], thread_number)
        expect(name, library.get_tls_address(ref, Invented.VARIABLES["first"][0])[0], code_of(BadInput("")))
    cyclic = Invented(8, "little")
    cyclic.word(Invented.FIRST + cyclic.members["next"], Invented.SECOND)
    ref = debugger.thread(debugger.add_process(cyclic), 1)
    expect("cycle", library.get_tls_address(ref, 0x7000)[0], DAMAGED)
    # Names
    for name, (source, flags, line) in NAMES.items():
        true_name = source if source is not None else name
        code = Result.OK if source is not None else Result.NAME_UNCHANGED
        length = len(true_name)
        expect(name, library.demangle_name(name, 100), DemangledName(code, length, true_name, flags, line))
        expect(name, library.demangle_name(name, length + 1), DemangledName(code, length, true_name, flags, line))
        too_long = DemangledName(Result.NAME_TOO_LONG, length + 1, "", flags, line)
        expect(name, library.demangle_name(name, length), too_long)
    told = library.demangle_name(".omp_outlined.", 100, of_source)
    expect("by debug information", told, DemangledName(Result.OK, 5, "solve", VarInfo.NONE, 17))
    told = library.demangle_name("main._omp_fn.0", 100, of_source)
    expect("its line", told, DemangledName(Result.OK, 4, "main", VarInfo.NONE, 23))
    # Versions, texts, routines
    expect("compatibility", library.version_compatibility(), 1)
    expect("version", library.version_string(), "ompd: DMPL for libomp_stub 1.0")
    expect("text", library.error_string(Result.TLS_UNALLOCATED), "the thread has no storage for its copy yet")
    names = RtlNames("GOMP_parallel", "run_implicit")
    for language in (Language.C, Language.CPLUSPLUS, Language.F77, Language.F9X):
        expect(f"routines in {language.name}", library.get_rtl_names(language), names)
    for unknown in (Language.UNKNOWN, ord("x")):
        expect("routines in no language", library.get_rtl_names(unknown), None)
    # The library frees what the debugger stored for these processes, but nothing of other processes.
    kept = debugger.allocated
    for name in ("64", "32", "plain"):
        debugger.release(processes[name], library)
    expect("given back", kept - debugger.allocated, 9)  # per process one block, and two for threads
    again = debugger.add_process(wide)
    told = library.get_tls_address(debugger.thread(again, 1), Invented.VARIABLES["first"][0])
    expect("anew", told, (Result.OK, wide.storage[1] + 64))
    expect("of another process", library.get_tls_address(lost_thread, 0x7000)[0], code_of(MemoryFault(0, 0)))
    return found


# Mutants of the callbacks, one each


def swapped(raw: bytes) -> bytes:
    return raw[::-1]


def always_the_first(table: CallbackTable) -> Callable[[Any], Any]:
    seen: list[Any] = []

    def get_process(thread: Any) -> Any:
        seen.append(table.get_process(thread))
        return seen[0]

    return get_process


TABLE_MUTANTS: Mapping[str, Callable[[CallbackTable], Callable[..., Any]]] = {
    "put_process_info": lambda table: lambda process, info: None,
    "get_process_info": lambda table: lambda process: None,
    "put_thread_info": lambda table: lambda thread, info: None,
    "get_thread_info": lambda table: lambda thread: None,
    "get_process": lambda table: always_the_first(table),
    "get_type_sizes": lambda table: (
        lambda process: (
            table.get_type_sizes(process)[0],
            table.get_type_sizes(process)[1]._replace(pointer_size=8),
        )
    ),
    "find_symbol": lambda table: lambda process, name: (0, table.find_symbol(process, name)[1] + 8),
    "find_type": lambda table: lambda process, name, language: None,
    "get_data": lambda table: lambda thread, address, size: table.get_data(thread, address + 1, size),
    "get_pthread_key": lambda table: lambda thread, key: table.get_pthread_key(thread, key + 1),
    "target_to_host": lambda table: lambda thread, raw: swapped(table.target_to_host(thread, raw)),
    "malloc": lambda table: lambda size: None,
    "free": lambda table: lambda storage: None,
    "error_string": lambda table: lambda code: "",
    "prints": lambda table: lambda text: None,
}
TYPE_MUTANTS: Mapping[str, Callable[[TypeFunctions], Callable[..., Any]]] = {
    "sizeof": lambda types: lambda type_: 0,
    "field_offset": lambda types: lambda type_, name: 0,
}
