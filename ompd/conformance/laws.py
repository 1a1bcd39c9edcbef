"""Cases with right arguments, and the laws that their results must obey."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ompd.conformance.cases import (
    HANDLES,
    IMPLICIT,
    OTHER,
    OUT,
    REGION,
    SPACE,
    SPACE_B,
    TASK,
    THREAD,
    THREAD_B,
    UNWRITTEN,
    Case,
    Law,
    Plan,
    call,
    fill,
    good,
    if_ok,
    needs,
    outs,
)
from ompd.conformance.standard import FLAGS
from ompd.contract.ompt import State, is_wait
from ompd.errors import Rc
from ompd.runtimes.hosted.trial.client import Reply, Step

_RAW = bytes([UNWRITTEN])
_OK = frozenset((Rc.OK,))
_KEPT = _OK | {Rc.NEEDS_STATE_TRACKING}
_END = _OK | {Rc.UNAVAILABLE}
_FIRST_YEAR, _LAST_YEAR = 1997, 2100
_MOST_LEVELS = 10
_IMPLICIT_TASK = 5  # a scope


def written(*places: tuple[int, int]) -> Law:
    """Return the law that a call writes its results.

    :param places: pairs of a cell and a size. A successful call must write that many bytes into the cell, and no more
    """

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        for cell, size in places:
            raw = replies[-1].raw(cell)
            parts = [raw[start : min(start + 8, size)] for start in range(0, size, 8)]
            if replies[-1].code == Rc.OK and any(part == _RAW * len(part) for part in parts):
                return "success, and the result was not written"
            if replies[-1].code == Rc.OK and raw[size:] != _RAW * (64 - size):
                return f"more than {size} bytes of the result were written"
        return ""

    return law


def handle(cell: int) -> Law:
    """Return the law that a call gives a handle."""

    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        fault = written((cell, 8))(plan, replies)
        if fault or replies[-1].code != Rc.OK:
            return fault
        return "" if replies[-1].word(cell) else "success, and the handle is null"

    return law


def _omp_version(plan: Plan, replies: Sequence[Reply]) -> str:
    word = replies[-1].word(OUT + 1)
    is_date = _FIRST_YEAR <= word // 100 < _LAST_YEAR and 1 <= word % 100 <= 12
    return "" if is_date else f"{word}, which is no yyyymm"


def _api_version(plan: Plan, replies: Sequence[Reply]) -> str:
    word = replies[-1].word(OUT)
    return "" if word >= 201811 else f"{word}, before the first version that has OMPD"


def owned_text(plan: Plan, replies: Sequence[Reply]) -> str:
    """Return the fault of a text that the tool owns: it must be a text, in the tool's memory."""
    text = replies[-1].text
    if replies[-2].code != Rc.OK:
        return ""
    if text is None or text.raw is None:
        return "no text"
    return "" if text.is_owned else "a text that is not in memory of ompd_callback_memory_alloc"


def _constant_text(plan: Plan, replies: Sequence[Reply]) -> str:
    first, second = replies[-3].text, replies[-1].text
    if first is None or not first.raw:
        return "no text"
    return "" if second is not None and first.raw == second.raw else "another text the second time"


def _compared(first: int, second: int) -> Law:
    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        values = [int.from_bytes(reply.raw(OUT + 2)[:4], "little", signed=True) for reply in replies if reply.code == 0]
        if len(values) != 3:
            return "no success for right handles"
        same, forward, backward = values
        if same:
            return f"{same} for a handle and itself"
        if first == second:
            return ""
        return "" if forward * backward < 0 else f"{forward} for two threads, and {backward} the other way round"

    return law


def _identified(plan: Plan, replies: Sequence[Reply]) -> str:
    wanted = plan.subject.thread.identifiers[plan.kind]
    raw = replies[-1].raw(OUT + 3)
    if raw[: len(wanted)] != wanted:
        return f"{raw[: len(wanted)][::-1].hex()} in place of {wanted[::-1].hex()}"
    return "" if raw[len(wanted) :] == _RAW * (64 - len(wanted)) else "more was written than the identifier has"


def _same(plan: Plan, replies: Sequence[Reply]) -> str:
    # The case's last call compares two handles of one thread, region or task, so its result must be 0.
    value = int.from_bytes(replies[-1].raw(OUT + 10)[:4], "little", signed=True)
    return f"{value} for two handles of the same" if replies[-1].code == Rc.OK and value else ""


def _state(plan: Plan, replies: Sequence[Reply]) -> str:
    if replies[-1].code != Rc.OK:
        return "" if not plan.subject.keeps_states else "needs_state_tracking, though the runtime keeps states"
    word = replies[-1].word(OUT + 1)
    # Only in a waiting state must the routine also write the wait identifier.
    results = [(OUT + 1, 8), (OUT + 2, 8)] if is_wait(word) else [(OUT + 1, 8)]
    is_enumerated = not plan.states or word in plan.states or word == State.UNDEFINED
    return written(*results)(plan, replies) or (
        "" if is_enumerated else f"state {word:#x}, which ompd_enumerate_states does not have"
    )


def _address(cell: int) -> Law:
    def law(plan: Plan, replies: Sequence[Reply]) -> str:
        fault = written((cell, 16))(plan, replies)
        if fault or replies[-1].code != Rc.OK:
            return fault
        segment, address = replies[-1].words(cell, 2)
        return "" if segment == 0 and address not in (0, (1 << 64) - 1) else f"segment {segment}, address {address:#x}"

    return law


def _frames(plan: Plan, replies: Sequence[Reply]) -> str:
    if replies[-1].code != Rc.OK:
        return "" if not plan.subject.keeps_states else "needs_state_tracking, though the runtime keeps frames"
    unset = int.from_bytes(_RAW * 8, "little")
    for cell in (OUT + 1, OUT + 2):
        segment, address, flag = replies[-1].words(cell, 3)
        if unset in (segment, address):
            return "success, and the frame was not written"
        if address and flag not in FLAGS:
            return "success, and the frame's flag was not written" if flag == unset else f"flag {flag:#x}"
    return ""


def _tool_data(plan: Plan, replies: Sequence[Reply]) -> str:
    return written((OUT + 2, 8), (OUT + 3, 16))(plan, replies)


def laws(functions: frozenset[str], plan: Plan) -> Iterator[Case]:
    """Yield cases with right arguments, whose calls the library exports."""
    for case in _all(plan):
        called = {step["function"] for step in case.steps if step["do"] == "call"}
        if called <= functions:
            yield case


def _plain(function: str, plan: Plan, allowed: frozenset[Rc], law: Law, *after: Step, key: str = "good") -> Case:
    arguments = good(function, plan)
    steps = (*outs(arguments), call(function, *arguments), *after)
    rule = "owned-text" if law is owned_text else "known-state" if law is _state else "result"
    return Case(f"{function}/{key}", function, "right arguments", steps, allowed, rule, law=law, needs=needs(arguments))


def _all(plan: Plan) -> Iterator[Case]:
    yield _plain("ompd_get_api_version", plan, _OK, _api_version)
    text = call("ompd_get_version_string", ("at", OUT))
    read: Step = {"do": "text", "cell": OUT}
    yield Case(
        "ompd_get_version_string/good",
        "ompd_get_version_string",
        "twice",
        (text, read, text, read),
        _OK,
        "lasting-text",
        law=_constant_text,
    )
    yield from _sessions(plan)
    yield _plain("ompd_get_omp_version", plan, _OK, _omp_version)
    text_of: Step = {"do": "text", "cell": OUT + 1}
    yield _plain("ompd_get_omp_version_string", plan, _OK, owned_text, text_of)
    yield _plain("ompd_get_thread_handle", plan, _OK, handle(OUT + 4))
    yield _plain("ompd_get_thread_id", plan, _OK, _identified)
    for function, kind in (
        ("ompd_get_thread_in_parallel", 2),
        ("ompd_get_task_in_parallel", 2),
        ("ompd_get_curr_parallel_handle", 1),
        ("ompd_get_task_parallel_handle", 1),
        ("ompd_get_curr_task_handle", 1),
    ):
        yield _plain(function, plan, _OK, handle(OUT + kind))
    for function in ("ompd_get_enclosing_parallel_handle", "ompd_get_generating_task_handle"):
        yield _plain(function, plan, _OK, handle(OUT + 1))
    yield _plain("ompd_get_scheduling_task_handle", plan, _END | _KEPT, handle(OUT + 1))
    yield _plain("ompd_get_task_function", plan, _KEPT | _END, _address(OUT + 1))
    yield _plain("ompd_get_task_frame", plan, _KEPT, _frames)
    yield _plain("ompd_get_state", plan, _KEPT, _state)
    no_wait = (fill(OUT + 1), call("ompd_get_state", ("in", THREAD), ("at", OUT + 1), ("n", 0)))
    yield Case(
        "ompd_get_state/no-wait-id",
        "ompd_get_state",
        "a null pointer for the wait identifier",
        no_wait,
        _KEPT,
        needs=(THREAD,),
    )
    yield from _chains(plan)
    yield from _comparisons()
    yield from _relations(plan)
    yield from _values(plan)
    yield from _two_spaces(plan)


def _sessions(plan: Plan) -> Iterator[Case]:
    function = "ompd_process_initialize"
    arguments = good(function, plan)
    steps = (*outs(arguments), call(function, *arguments))
    law = handle(OUT + 1)
    yield Case(f"{function}/good", function, "right arguments", steps, _OK, law=law, setup="loaded", alone=True)
    title = "a second time, of the same process"
    yield Case(f"{function}/again", function, title, steps, _OK, "same-process", law, needs=(SPACE,), alone=True)


def _chains(plan: Plan) -> Iterator[Case]:
    # The last step goes out from the outermost one, and must fail.
    for function, first in (
        ("ompd_get_enclosing_parallel_handle", REGION),
        ("ompd_get_generating_task_handle", IMPLICIT),
    ):
        steps: list[Step] = [fill(OUT + 20, 0), call(function, ("in", first), ("at", OUT + 20))]
        for place in range(OUT + 20, OUT + 20 + plan.subject.thread.level):
            step = call(function, ("in", place), ("at", place + 1))
            steps += fill(place + 1, 0), {**step, "if_ok": True}
        if plan.subject.thread.level < _MOST_LEVELS:
            yield Case(
                f"{function}/end",
                function,
                "of the outermost one",
                tuple(steps),
                frozenset((Rc.UNAVAILABLE,)),
                "none-outside",
                needs=(first,),
                judges_any=True,
            )


def _comparisons() -> Iterator[Case]:
    for letter, function, second in (
        ("T", "ompd_thread_handle_compare", OTHER),
        ("P", "ompd_parallel_handle_compare", REGION),
        ("K", "ompd_task_handle_compare", TASK),
    ):
        first = HANDLES[letter]
        steps = [
            step
            for left, right in ((first, first), (first, second), (second, first))
            for step in (fill(OUT + 2), call(function, ("in", left), ("in", right), ("at", OUT + 2)))
        ]
        title = "itself, and another both ways round" if first != second else "itself"
        law = _compared(first, second)
        yield Case(
            f"{function}/order",
            function,
            title,
            tuple(steps),
            _OK,
            "order",
            law=law,
            needs=(first, second),
        )


def _relations(plan: Plan) -> Iterator[Case]:
    # Each row: a function, its arguments, and the comparison of its result with a handle that must be the same.
    number = ("n", plan.subject.thread.thread_num)
    ways = (
        ("ompd_get_thread_in_parallel", (("in", REGION), number), "ompd_thread_handle_compare", THREAD),
        ("ompd_get_task_parallel_handle", (("in", TASK),), "ompd_parallel_handle_compare", REGION),
        ("ompd_get_curr_parallel_handle", (("in", OTHER),), "ompd_parallel_handle_compare", REGION),
        ("ompd_get_task_in_parallel", (("in", REGION), number), "ompd_task_handle_compare", IMPLICIT),
        ("ompd_get_curr_task_handle", (("in", THREAD),), "ompd_task_handle_compare", TASK),
    )
    for function, arguments, compare, same in ways:
        steps = (
            fill(OUT + 9),
            call(function, *arguments, ("at", OUT + 9)),
            fill(OUT + 10),
            call(compare, ("in", OUT + 9), ("in", same), ("at", OUT + 10)),
        )
        needed = tuple(cell for kind, cell in arguments if kind == "in" and isinstance(cell, int))
        yield Case(
            f"{function}/same",
            function,
            "two ways to the same",
            steps,
            _OK,
            law=_same,
            needs=(*needed, same),
        )
    chained = (
        fill(OUT + 9),
        call("ompd_get_thread_in_parallel", ("in", REGION), number, ("at", OUT + 9)),
        fill(OUT + 10),
        call("ompd_get_curr_parallel_handle", ("in", OUT + 9), ("at", OUT + 10)),
    )
    for byte in (0, 0xA5):
        title = f"a thread of ompd_get_thread_in_parallel, in memory that is filled with {byte:#04x}"
        played: tuple[Step, ...] = ({"do": "poison", "byte": byte}, *chained, {"do": "poison", "byte": 0})
        yield Case(
            f"ompd_get_curr_parallel_handle/of-team-{byte}",
            "ompd_get_curr_parallel_handle",
            title,
            played,
            _OK,
            law=_last_handle,
            needs=(REGION,),
            alone=True,
        )
    size = len(plan.subject.thread.identifiers[plan.kind])
    named = (
        *chained[:2],
        fill(OUT + 3),
        call("ompd_get_thread_id", ("in", OUT + 9), ("n", plan.kind), ("n", size), ("at", OUT + 3)),
    )
    yield Case(
        "ompd_get_thread_id/of-team",
        "ompd_get_thread_id",
        "a thread of ompd_get_thread_in_parallel",
        named,
        _OK,
        law=_identified,
        needs=(REGION,),
    )


def _last_handle(plan: Plan, replies: Sequence[Reply]) -> str:
    codes = [reply for reply in replies if reply.code is not None]
    return "" if (codes and codes[-1].code != Rc.OK) or codes[-1].word(OUT + 10) else "success, and the handle is null"


def _values(plan: Plan) -> Iterator[Case]:
    for scope, cell in ((3, THREAD), (4, REGION), (5, IMPLICIT), (6, TASK)):
        arguments = (("in", cell), ("n", scope), ("at", OUT + 2), ("at", OUT + 3))
        steps = (fill(OUT + 2), fill(OUT + 3), call("ompd_get_tool_data", *arguments))
        allowed = _KEPT | {Rc.UNSUPPORTED}
        yield Case(
            f"ompd_get_tool_data/scope-{scope}",
            "ompd_get_tool_data",
            f"scope {scope}",
            steps,
            allowed,
            "implicit-task-data" if scope == _IMPLICIT_TASK else "result",
            _tool_data,
            needs=(cell,),
        )
    for scope, cell in ((1, SPACE), (2, SPACE)):
        arguments = (("in", cell), ("n", scope), ("at", OUT + 2), ("at", OUT + 3))
        get = call("ompd_get_tool_data", *arguments)
        refused = frozenset(Rc) - {Rc.OK, Rc.INCOMPLETE}
        yield Case(
            f"ompd_get_tool_data/scope-{scope}",
            "ompd_get_tool_data",
            f"scope {scope}, which has none",
            (get,),
            refused,
            "no-tool-data",
            needs=(cell,),
        )


def _two_spaces(plan: Plan) -> Iterator[Case]:
    identifier = plan.subject.thread.identifiers[plan.kind]
    thread = (("n", plan.kind), ("n", len(identifier)), ("raw", identifier.hex()))
    second = (
        fill(SPACE_B, 0),
        call("ompd_process_initialize", ("n", 2), ("at", SPACE_B)),
    )
    yield Case(
        "ompd_process_initialize/second",
        "ompd_process_initialize",
        "a second process",
        second,
        _OK,
        "each-process",
        needs=(SPACE,),
        alone=True,
    )
    of_second = (*second, if_ok(call("ompd_get_thread_handle", ("in", SPACE_B), *thread, ("at", THREAD_B))))
    number = (
        *of_second,
        fill(OUT + 3),
        if_ok(call("ompd_get_thread_id", ("in", THREAD_B), *thread[:2], ("at", OUT + 3))),
    )
    yield Case(
        "ompd_get_thread_id/second",
        "ompd_get_thread_id",
        "a thread of a second process",
        number,
        _OK,
        "each-process",
        law=_identified,
        needs=(SPACE,),
        alone=True,
    )
    orphan = (
        *of_second,
        if_ok(call("ompd_rel_address_space_handle", ("in", SPACE_B))),
        fill(OUT + 3),
        if_ok(call("ompd_get_thread_id", ("in", THREAD_B), *thread[:2], ("at", OUT + 3))),
    )
    yield Case(
        "ompd_get_thread_id/orphan",
        "ompd_get_thread_id",
        "a thread of a process whose handle was released",
        orphan,
        frozenset((Rc.STALE_HANDLE, Rc.BAD_INPUT, Rc.ERROR, Rc.INCOMPATIBLE_HANDLE, Rc.UNAVAILABLE)),
        "released",
        needs=(SPACE,),
        alone=True,
    )
    gone = (
        *number[:-2],
        if_ok(call("ompd_rel_thread_handle", ("in", THREAD_B))),
        if_ok(call("ompd_rel_address_space_handle", ("in", SPACE_B))),
    )
    first = (*gone, fill(OUT + 3), if_ok(call("ompd_get_thread_id", ("in", THREAD), *thread[:2], ("at", OUT + 3))))
    yield Case(
        "ompd_get_thread_id/first",
        "ompd_get_thread_id",
        "a thread of the first process, when a second one has come and gone",
        first,
        _OK,
        "each-process",
        law=_identified,
        needs=(THREAD,),
        alone=True,
    )
