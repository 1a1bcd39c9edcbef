"""The first members of queued tasks, which are read for many tasks at once. Thousands of tasks may be side by side in
memory.

Only tasks that could be read whole are included. For all other tasks, each member is read separately and may fail
separately.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ompd.contract.helpers.pages import has_lost_page
from ompd.contract.memory import Field
from ompd.errors import LayoutUnavailable, OmpdError
from ompd.records import record

if TYPE_CHECKING:
    from ompd.runtimes.libomp.plugin import Runtime

# Tasks are read together if the gaps between them are at most _MAX_GAP bytes, and all of them are within _MAX_BYTES.
_MAX_GAP, _MAX_BYTES = 1024, 1 << 16
_SIGNED, _UNSIGNED = {1: "b", 2: "h", 4: "i", 8: "q"}, {1: "B", 2: "H", 4: "I", 8: "Q"}
MAX_CHILDREN = 1 << 22
"""More unfinished children than any task has."""
_NODES = "kmp_taskdata_t.td_depnode"


class Head(NamedTuple):
    """Members of a ``kmp_taskdata_t``, and ``routine`` of the ``kmp_task_t`` that follows it. Null pointers are 0.

    ``depnode`` and ``dephash`` are also 0 if their places are unknown. ``info`` has the bytes from ``ompt_task_info``
    to the end of the structure, and is empty if the runtime does not keep states.
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
    # How the bytes of a task are converted to a Head.
    size: int
    unpack: Callable[[bytes, int], tuple[Any, ...]]
    order: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    info: slice


class Heads:
    """The heads of one runtime's tasks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._structures = runtime.structures
        self._heads: dict[int, Head] = {}
        self.of = self._heads.get
        """Returns the :class:`Head` of the task at an address, None if the task was not read."""

    @cached_property
    def masks(self) -> tuple[int, int, int]:
        """The masks in ``td_flags`` of ``tasktype`` (explicit), ``started`` and ``complete``."""
        flags = self._runtime.task_flags
        return flags["tasktype"], flags["started"], flags["complete"]

    def likeness(self, address: int) -> Hashable | None:
        """Return a value that determines all facts of a task, so tasks with equal values need not be read again. None
        for a task that has begun or has a ``depend`` clause, or whose head was not read.

        :raises OmpdError: if the task's children cannot be found
        """
        head = self.of(address)
        if head is None:
            return None
        explicit, started, _ = self.masks
        if head.depnode or head.flags & (explicit | started) != explicit:
            return None
        return head, self._known_children.get(address, 0)

    @cached_property
    def _known_children(self) -> Mapping[int, int]:
        return self._runtime.waiting.known_children

    def is_plain(self, head: Head) -> bool:
        """Return whether a head belongs to an unfinished explicit task without a ``depend`` clause, whose children have
        none either.
        """
        explicit, _, complete = self.masks
        return (
            head.flags & (explicit | complete) == explicit
            and not head.depnode
            and not head.dephash
            and 0 <= head.children <= MAX_CHILDREN
        )

    def read(self, addresses: Iterable[int]) -> None:
        """Read the heads of the tasks at *addresses*. Tasks that cannot be read are left out."""
        missing = sorted({address for address in addresses if address not in self._heads})
        form = self._form if missing else None
        if form is None:
            return
        run: list[int] = []
        for address in missing:
            if run and (address > run[-1] + form.size + _MAX_GAP or address + form.size > run[0] + _MAX_BYTES):
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
        heads, unpack, order, first, last = self._heads, form.unpack, form.order, form.info.start, form.info.stop
        for address in run:
            offset = address - start
            info = raw[offset + first : offset + last] if last else b""
            heads[address] = Head._make(order((*unpack(raw, offset), 0, info)))

    @cached_property
    def _form(self) -> _Form | None:
        # How heads are converted in this layout. None if the layout lacks members, so that no tasks are read together.
        try:
            return self._form_of_layout()
        except (OmpdError, KeyError):
            return None

    def _form_of_layout(self) -> _Form | None:
        runtime, taskdata = self._runtime, self._structures.layout("kmp_taskdata_t")
        task, size = runtime.task_layout, runtime.task_layout.size or 0
        if not all(self.masks) or not size:
            return None
        routine = runtime.layouts["kmp_task_t"].field("routine")
        members: list[Field | None] = [
            task.field("td_flags"),
            task.field("td_team"),
            task.field("td_parent"),
            taskdata.field("td_ident"),
            taskdata.field("td_incomplete_child_tasks"),
            Field(size + routine.offset, routine.size),
        ]
        signed = members[4]
        try:
            nodes = self._structures.layout(_NODES)
            members += [nodes.field("td_depnode"), nodes.field("td_dephash")]
        except LayoutUnavailable:
            members += [None, None]
        info = self._info(size)
        fields = sorted((field for field in members if field is not None), key=lambda field: field.offset)
        text, end = "<" if runtime.heap.byte_order == "little" else ">", 0
        for field in fields:
            if field.offset < end or field.size not in _UNSIGNED:
                return None  # the layout is wrong; the error appears when a single task is read
            text += f"{field.offset - end}x" + (_SIGNED if field is signed else _UNSIGNED)[field.size]
            end = field.offset + field.size
        places = (fields.index(field) if field is not None else len(fields) for field in members)
        order = itemgetter(*places, len(fields) + 1)
        return _Form(max(end, info.stop), Struct(text).unpack_from, order, info) if info.stop <= end else None

    def _info(self, size: int) -> slice:
        # The part of a task from ompt_task_info to the end. Empty if the runtime does not keep states.
        runtime = self._runtime
        if not runtime.states_are_kept:
            return slice(0, 0)
        start = runtime.task_layout.field("ompt_task_info").offset
        inner = runtime.layouts["ompt_task_info_t"].fields.values()
        if start + max(field.offset + field.size for field in inner) > size:
            raise LayoutUnavailable("ompt_task_info does not end inside of its structure")
        return slice(start, size)
