"""On some processors ``pthread_self()`` does not return the thread pointer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ompd.contract.ompd import ThreadIdKind
from ompd.debugger.threads.threads import Threads
from ompd.isa.architecture import Architecture
from ompd.isa.x86.architectures import X86_64

POINTER, SIZEOF_PTHREAD, NATIVE = 0x7000, 0x700, 11
BELOW = replace(X86_64, tls_variant=1)  # as on aarch64


def threads(architecture: Architecture) -> Threads:
    target: Any = SimpleNamespace(
        architecture=architecture,
        loss=None,
        thread_ids=lambda: [NATIVE],
        registers=lambda thread: {architecture.thread_pointer: POINTER},
    )
    glibc: Any = SimpleNamespace(sizeof_pthread=SIZEOF_PTHREAD)
    return Threads(target, glibc)


@pytest.mark.parametrize(("architecture", "pthread"), [(X86_64, POINTER), (BELOW, POINTER - SIZEOF_PTHREAD)])
def test_pthread_self_is_where_the_c_library_has_the_thread(architecture: Architecture, pthread: int) -> None:
    known = threads(architecture)
    assert (known.thread_pointer(NATIVE), known.pthread_self(NATIVE)) == (POINTER, pthread)
    assert known.thread_for_id(ThreadIdKind.PTHREAD, pthread) == NATIVE
