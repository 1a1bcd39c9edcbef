"""The runtime's table of threads, found without its symbols.

``__kmp_threads`` points to an array of ``kmp_info_t *``, indexed by gtid. In the same block, the array of
``__kmp_root`` follows this array (``kmp_runtime.cpp``, ``__kmp_do_serial_initialize`` and ``__kmp_expand_threads``). So
the search looks for two pointers, one to each array, among all words of the runtime's variables. The threads in the
first array record their own index (``ds_gtid``), and point to roots in the second array (``th_root``). The roots point
back to threads (``r_uber_thread``). Exactly one pair of pointers must fit this description.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ompd.contract.memory import StructView, read_pointer, read_words
from ompd.contract.process import Module, Process
from ompd.errors import MemoryFault, NotInitialised, OmpdError, Unavailable
from ompd.records import record
from ompd.runtimes.layout.table import Table

# A runtime has some 100 KB of variables; a program into which it is linked may have more.
_MAX_VARIABLES = 16 << 20
# The largest number of places in an array that is accepted.
_MAX_CAPACITY = 1 << 22
# The number of places that are read first. The initial thread has gtid 0 and the first worker has gtid 9, so this part
# of the array has at least one thread.
_FIRST = 32
_TRIED = 3
_MOST_DAMAGED = 1 / 3
_LOWEST_ADDRESS = 1 << 16
# A word from this address on is a pointer: all mappings, and the heaps of position-independent programs, are above it.
_CERTAIN_ADDRESS = 1 << 40


@record
class ThreadTable:
    """``__kmp_threads``: the address of the variable, the address of the array, the array's number of places, and the
    threads (``kmp_info_t``) and roots (``kmp_root_t``) by gtid.
    """

    variable: int
    array: int
    capacity: int
    threads: dict[int, int]
    roots: dict[int, int]


class Variables:
    """All words of the variables of a runtime, at multiples of a pointer's size."""

    def __init__(self, process: Process, module: Module) -> None:
        self.process = process
        self.module = module
        self._zeros: list[range] = []  # ranges of variables that were zero when the program started

    @cached_property
    def words(self) -> dict[int, int]:
        """The words that are not 0, by their address.

        :raises Unavailable: if there are too many variables
        """
        process, size = self.process, self.process.pointer_size
        nonzero: dict[int, int] = {}
        for start, zeros, end in process.variable_ranges(self.module):
            start += -start % size
            if end - start > _MAX_VARIABLES:
                raise Unavailable(f"{self.module.name} has too many variables ({end - start} bytes) to look through")
            words = read_words(process, start, max(end - start, 0) // size)
            nonzero.update((start + index * size, word) for index, word in enumerate(words) if word)
            self._zeros.append(range(zeros, end))
        return nonzero

    def pointers(self) -> dict[int, int]:
        """Return the words that may be pointers to memory outside of the module, by their address."""
        inside = range(self.module.start, self.module.end)
        step = self.process.pointer_size
        return {
            address: word
            for address, word in self.words.items()
            if word >= _LOWEST_ADDRESS and word % step == 0 and word not in inside
        }

    def has_allocated(self) -> bool:
        """Return whether a variable that was zero when the program started points to memory outside of all modules,
        even if that memory is lost.
        """
        return any(
            any(address in zeros for zeros in self._zeros) and self._is_outside(word)
            for address, word in self.pointers().items()
        )

    def _is_outside(self, word: int) -> bool:
        if self.process.module_at(word) is not None:
            return False
        if word >= _CERTAIN_ADDRESS:
            return True
        try:
            self.process.read(word, 1)
        except MemoryFault:
            return False  # nothing is there, so the word is no pointer, but two numbers of 4 bytes each
        return True


def find_threads(variables: Variables, table: Table, *, is_proven: bool = False) -> ThreadTable:
    """Return the runtime's table of threads.

    :param is_proven: whether *table* is known to fit this build. If so, up to a third of the threads may be damaged
    :raises NotInitialised: if the runtime has not allocated any memory
    :raises Unavailable: if no array of the process, or more than one, may be the runtime's array of threads
    """
    pointers = variables.pointers()
    name = variables.module.name
    if not variables.has_allocated():
        raise NotInitialised(
            f"{name} is loaded, but no OpenMP construct or routine has run yet",
            hint="look again after the program's first OpenMP construct",
        )
    candidates = list(_candidates(variables, pointers, table, _MOST_DAMAGED if is_proven else 0))
    arrays = {(candidate.array, candidate.capacity) for candidate in candidates}
    if len(arrays) == 1:
        return candidates[0]
    if not arrays:
        raise Unavailable(f"none of {name}'s variables leads to an array of threads")
    raise Unavailable(f"{len(arrays)} of {name}'s variables lead to arrays that may be those of its threads")


def find_again(variables: Variables, table: Table, earlier: ThreadTable, *, is_proven: bool = False) -> ThreadTable:
    """Return the present contents of the table of threads that was found *earlier*. The search itself is not repeated,
    because conditions of breakpoints need the table of threads often.

    :param is_proven: as for :func:`find_threads`
    :raises Unavailable: if the table has moved
    """
    process = variables.process
    if read_pointer(process, earlier.variable) == earlier.array:
        behind = earlier.array + earlier.capacity * process.pointer_size
        damaged = _MOST_DAMAGED if is_proven else 0
        candidate = _candidate(variables, earlier.variable, earlier.array, behind, table, damaged)
        if candidate is not None:
            return candidate
    raise Unavailable(f"{variables.module.name} has another array of threads now")


def _candidates(
    variables: Variables, pointers: dict[int, int], table: Table, most_damaged: float
) -> Iterator[ThreadTable]:
    values = sorted(set(pointers.values()))
    variable_of = {word: address for address, word in reversed(pointers.items())}
    size = variables.process.pointer_size
    natives = {variables.process.pthread_self(thread) for thread in variables.process.threads()}
    for number, array in enumerate(values):
        if not _begins_well(variables, array, table):
            continue
        root = _initial_root(variables, array, table)
        if root is None:
            continue
        for behind in values[number + 1 :]:
            if behind - array > _MAX_CAPACITY * size:
                break
            try:
                if read_pointer(variables.process, behind + root[0] * size) != root[1]:
                    continue  # reading this one word first avoids reading whole arrays, which may be long
                candidate = _candidate(variables, variable_of[array], array, behind, table, most_damaged)
            except OmpdError:
                continue
            if candidate is not None and natives & _native_ids(variables, candidate, table):
                yield candidate


def _begins_well(variables: Variables, array: int, table: Table) -> bool:
    try:
        places = read_words(variables.process, array, _FIRST)
    except OmpdError:
        return False
    used = [(gtid, thread) for gtid, thread in enumerate(places) if thread][:_TRIED]
    return any(_is_in_place(variables, gtid, thread, table) for gtid, thread in used)


def _initial_root(variables: Variables, array: int, table: Table) -> tuple[int, int] | None:
    # The gtid and the root of an initial thread, None if there is none. The th_root of a thread in the array points to
    # the root, and the root's r_uber_thread to the initial thread.
    process = variables.process
    info, base = table.layout("kmp_base_info"), table.layout("kmp_base_root")
    for gtid, thread in enumerate(read_words(process, array, _FIRST)):
        if not thread or not _is_in_place(variables, gtid, thread, table):
            continue
        try:
            root = StructView(process, info, thread).pointer("th_root")
            owner = StructView(process, base, root).pointer("r_uber_thread") if root is not None else None
            if root is not None and owner is not None:
                number = _gtid(variables, owner, table)
                if 0 <= number < _MAX_CAPACITY and _is_in_place(variables, number, owner, table):
                    return number, root
        except OmpdError:
            continue
    return None


def _is_in_place(variables: Variables, gtid: int, thread: int, table: Table) -> bool:
    try:
        return _gtid(variables, thread, table) == gtid
    except OmpdError:
        return False


def _gtid(variables: Variables, thread: int, table: Table) -> int:
    return StructView(variables.process, table.layout("kmp_base_info"), thread).signed("th_info.ds.ds_gtid")


def _candidate(
    variables: Variables, variable: int, array: int, behind: int, table: Table, most_damaged: float
) -> ThreadTable | None:
    capacity, remainder = divmod(behind - array, variables.process.pointer_size)
    if remainder or not 0 < capacity <= _MAX_CAPACITY:
        return None
    roots = dict(_used(read_words(variables.process, behind, capacity)))
    if not roots:
        return None
    threads = dict(_used(read_words(variables.process, array, capacity)))
    damaged, allowed = 0, int(len(threads) * most_damaged)
    for gtid, thread in threads.items():
        damaged += not _is_in_place(variables, gtid, thread, table)
        if damaged > allowed:
            return None
    info, base = table.layout("kmp_base_info"), table.layout("kmp_base_root")
    used = 0
    for gtid, root in roots.items():
        owner = StructView(variables.process, base, root).pointer("r_uber_thread")
        if owner is None:
            continue  # the root's initial thread has ended, and a worker may have its place in the first array
        used += 1
        if threads.get(gtid) != owner or StructView(variables.process, info, owner).pointer("th_root") != root:
            return None
    if not used:
        return None
    return ThreadTable(variable, array, capacity, threads, roots)


def _used(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((number, pointer) for number, pointer in enumerate(places) if pointer)


def _native_ids(variables: Variables, candidate: ThreadTable, table: Table) -> set[int]:
    layout = table.layout("kmp_base_info")
    natives = set()
    for thread in candidate.threads.values():
        try:
            natives.add(StructView(variables.process, layout, thread).unsigned("th_info.ds.ds_thread"))
        except MemoryFault:
            continue
    return natives
