"""What tasks in queues begin with, read of many at once: there may be thousands, and they lie side by side.

What is here was read whole. Of a task that is not here everything is read one by one, with all that can go wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

from ompd.contract.helpers.pages import has_lost_page
from ompd.contract.memory import Field
from ompd.errors import LayoutUnavailable, OmpdError
from ompd.records import record
from ompd.runtimes.libomp.teams.reading import Reading

# Tasks that are no further apart are read together, so many bytes at most.
_GAP, _MOST = 1024, 1 << 16
_SIGNED, _UNSIGNED = {1: "b", 2: "h", 4: "i", 8: "q"}, {1: "B", 2: "H", 4: "I", 8: "Q"}
MAX_CHILDREN = 1 << 22
"""More children that are not complete than any task has."""
_NODES = "kmp_taskdata_t.td_depnode"


class Head(NamedTuple):
    """Members of a ``kmp_taskdata_t``, and ``routine`` of the ``kmp_task_t`` behind it; null pointers are 0.

    ``depnode`` and ``dephash`` are 0, too, where nothing tells where they are. ``info`` is ``ompt_task_info`` where the
    runtime keeps that, else nothing.
    """

    flags: int
    team: int
    parent: int
    ident: int
    children: int
    routine: int
    depnode: int
    dephash: int
    info: bytes


@record
class _Form:
    size: int
    unpack: Callable[[bytes, int], tuple[Any, ...]]
    order: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    info: slice


class Heads:
    """The beginnings of tasks of one runtime that were read.

    :param known_children: returns how many children of each task, by its address, are known that are not complete
    """

    def __init__(self, runtime: Reading, known_children: Callable[[], Mapping[int, int]]) -> None:
        self._runtime = runtime
        self._structures = runtime.structures
        self._count_children = known_children
        self._known: dict[int, Head] = {}
        self.of = self._known.get
        """Returns the :class:`Head` of the task at an address, None if it was not read."""

    @cached_property
    def masks(self) -> tuple[int, int, int]:
        """The flags of explicit tasks, of those that have begun, and of those that are complete."""
        flags = self._runtime.task_flags
        return flags["tasktype"], flags["started"], flags["complete"]

    def likeness(self, address: int) -> Hashable | None:
        """Return all that facts are told by of a task that has not begun and depends on no other, None for others.

        :raises OmpdError: what keeps its children from being found
        """
        head = self.of(address)
        explicit, started, _ = self.masks if head is not None else (0, 0, 0)
        if head is None or head.depnode or head.flags & (explicit | started) != explicit:
            return None
        return head, self._known_children.get(address, 0)

    @cached_property
    def _known_children(self) -> Mapping[int, int]:
        return self._count_children()

    def is_plain(self, head: Head) -> bool:
        """Tell whether it is that of an explicit task, not complete, to which no other task is tied by a dependence."""
        explicit, _, complete = self.masks
        return (
            head.flags & (explicit | complete) == explicit
            and not head.depnode
            and not head.dephash
            and 0 <= head.children <= MAX_CHILDREN
        )

    def read(self, addresses: Iterable[int]) -> None:
        """Read tasks as far as that goes without a fault."""
        wanted = sorted({address for address in addresses if address not in self._known})
        form = self._form if wanted else None
        if form is None:
            return
        run: list[int] = []
        for address in wanted:
            if run and (address > run[-1] + form.size + _GAP or address + form.size > run[0] + _MOST):
                self._read_run(form, run)
                run = []
            run.append(address)
        if run:
            self._read_run(form, run)

    def _read_run(self, form: _Form, run: list[int]) -> None:
        start = run[0]
        try:
            raw = self._runtime.heap.read(start, run[-1] + form.size - start)
        except OmpdError:
            return
        if has_lost_page(raw, start):
            return
        known, unpack, order, first, last = self._known, form.unpack, form.order, form.info.start, form.info.stop
        for address in run:
            at = address - start
            known[address] = Head._make(order((*unpack(raw, at), 0, raw[at + first : at + last] if last else b"")))

    @cached_property
    def _form(self) -> _Form | None:
        try:
            return self._formed()
        except (OmpdError, KeyError):
            return None

    def _formed(self) -> _Form | None:
        runtime, told = self._runtime, self._structures.layout("kmp_taskdata_t")
        task, size = runtime.task_layout, runtime.task_layout.size or 0
        if not all(self.masks) or not size:
            return None
        routine = runtime.layouts["kmp_task_t"].field("routine")
        wanted: list[Field | None] = [
            *(task.field(name) for name in ("td_flags", "td_team", "td_parent")),
            *(told.field(name) for name in ("td_ident", "td_incomplete_child_tasks")),
            Field(size + routine.offset, routine.size),
        ]
        signed = wanted[4]
        try:
            nodes = self._structures.layout(_NODES)
            wanted += [nodes.field(name) for name in ("td_depnode", "td_dephash")]
        except LayoutUnavailable:
            wanted += [None, None]
        info = self._info(size)
        known = sorted((field for field in wanted if field is not None), key=lambda field: field.offset)
        text, at = "<" if runtime.heap.byte_order == "little" else ">", 0
        for field in known:
            if field.offset < at or field.size not in _UNSIGNED:
                return None  # a layout that lies: each task then says what is wrong with it
            text += f"{field.offset - at}x" + (_SIGNED if field is signed else _UNSIGNED)[field.size]
            at = field.offset + field.size
        places = (known.index(field) if field is not None else len(known) for field in wanted)
        order = itemgetter(*places, len(known) + 1)
        return _Form(max(at, info.stop), Struct(text).unpack_from, order, info) if info.stop <= at else None

    def _info(self, size: int) -> slice:
        # What tools' data and frames are read of, with all that is beside them.
        runtime = self._runtime
        if not runtime.states_are_kept:
            return slice(0, 0)
        start = runtime.task_layout.field("ompt_task_info").offset
        inner = runtime.layouts["ompt_task_info_t"].fields.values()
        if start + max(field.offset + field.size for field in inner) > size:
            raise LayoutUnavailable("ompt_task_info does not end inside of its structure")
        return slice(start, size)
