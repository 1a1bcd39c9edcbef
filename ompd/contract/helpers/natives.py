"""Convert native thread identifiers of any kind to the operating system's."""

from __future__ import annotations

from ompd.contract.callbacks import Callbacks
from ompd.contract.ompd import ThreadIdKind
from ompd.errors import Unsupported


def native_thread_id(process: Callbacks, identifier: int, kind: ThreadIdKind = ThreadIdKind.PTHREAD) -> int:
    """Return the operating system's identifier of the thread whose native identifier of this *kind* is *identifier*.

    :raises Unsupported: for a kind that runtimes do not keep
    :raises BadInput: if there is no such thread
    """
    if kind == ThreadIdKind.LWP:
        return identifier
    if kind != ThreadIdKind.PTHREAD:
        raise Unsupported(f"the runtime has no thread identifiers of kind {kind!r}")
    return process.thread_for_id(kind, identifier)
