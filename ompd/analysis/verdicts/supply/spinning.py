"""``spin_burn``: threads that use processors while they wait, and the wait policy that makes them do so."""

from __future__ import annotations

from collections.abc import Sequence

from ompd.analysis.verdicts.supply.demand import SHORTEST, Demand, settings_in_words, wanted_ns
from ompd.analysis.words import counted
from ompd.model import Evidence, ThreadRecord, VerdictRecord
from ompd.model.kinds import Confidence, VerdictKind
from ompd.model.supply import Settings, ThreadSupply

# LLVM's runtime spins for 0.2 s by default, libgomp for some milliseconds. A thread that spins, or is ready to, half of
# the time between two looks, 0.5 s apart, does so by a setting.
_SPINS = 0.5
# A thread that ran for less than a twentieth of the time began no region of any length.
_RESTS = 0.05
_LLVM = frozenset(("libomp", "libiomp5"))
_OF_LLVM, _OF_GNU = ("KMP_BLOCKTIME", "KMP_LIBRARY"), ("GOMP_SPINCOUNT",)
# Values that let waiting threads sleep soon.
_QUIET = {
    "OMP_WAIT_POLICY": ("passive",),
    "KMP_BLOCKTIME": ("0", "0ms", "0us"),
    "KMP_LIBRARY": ("throughput", "serial"),
    "GOMP_SPINCOUNT": ("0",),
}
_LISTED = 8


class Spinning:
    """The threads of one process that spin.

    :param moments: the rows of threads at each look, the latest last
    """

    def __init__(self, demand: Demand, moments: Sequence[Sequence[ThreadRecord]]) -> None:
        self._demand, self._supply, self._moments = demand, demand.supply, moments

    def verdict(self) -> VerdictRecord | None:
        """Return the verdict on threads that spin while they wait, None if there are none."""
        if self._supply.seconds < SHORTEST:
            return None
        idle = self._spinning(self._idle())
        if idle and self._has_no_region():
            return self._of_pool(idle)
        waiting = self._spinning(self._waiting())
        return self._of_waiters(waiting) if waiting else None

    def _idle(self) -> set[int]:
        at_looks = [{row.native_thread_id for row in rows if row.state == "idle"} for rows in self._moments]
        return {native for native in set.intersection(*at_looks) if native is not None}

    def _waiting(self) -> set[int]:
        # Threads that wait at the same barrier at all looks, so that they have not gone on in between. A lock has no
        # generation: a thread may have had it between two looks.
        if len(self._moments) < 2:
            return set()
        places = [
            {
                row.native_thread_id: (row.wait.object, row.wait.generation)
                for row in rows
                if row.wait is not None and row.wait.generation is not None
            }
            for rows in self._moments
        ]
        return {n for n, place in places[-1].items() if n and all(each.get(n) == place for each in places)}

    def _spinning(self, natives: set[int]) -> list[ThreadSupply]:
        least = _SPINS * self._supply.seconds * 1e9
        return [t for t in self._supply.threads if t.native_thread_id in natives and wanted_ns(t) >= least]

    def _has_no_region(self) -> bool:
        # Return whether no region can have begun between the looks: no thread that could begin one ran.
        limit = _RESTS * self._supply.seconds * 1e9
        idle = self._idle()
        return all(
            thread.native_thread_id in idle or (thread.ran_ns is not None and thread.ran_ns <= limit)
            for thread in self._supply.threads
        )

    def _of_pool(self, threads: Sequence[ThreadSupply]) -> VerdictRecord:
        have = "thread uses" if len(threads) == 1 else "threads use"
        text = f"{len(threads):,} idle pool {have} {self._burnt(threads):.1f} processors while no region is active"
        return self._verdict(threads, text)

    def _of_waiters(self, threads: Sequence[ThreadSupply]) -> VerdictRecord:
        spin = "spins while it waits, and uses" if len(threads) == 1 else "spin while they wait, and use"
        text = f"{counted(len(threads), 'thread')} {spin} {self._burnt(threads):.1f} processors"
        return self._verdict(threads, text)

    def _burnt(self, threads: Sequence[ThreadSupply]) -> float:
        return self._demand.share(sum(thread.ran_ns or 0 for thread in threads))

    def _verdict(self, threads: Sequence[ThreadSupply], text: str) -> VerdictRecord:
        kinds = self._kinds(threads)
        policy = wait_policy(self._supply.settings, kinds)
        setting = settings_in_words(policy)
        ends = end_of_spinning(policy, kinds)
        useless = without_effect(self._supply.settings, kinds)
        return VerdictRecord(
            kind=VerdictKind.SPIN_BURN,
            stuck=Confidence.UNKNOWN,
            confidence=Confidence.PROVEN,
            summary=text + (f": {setting}" if setting else ""),
            advice=(ends, *(f"{name} has no effect on this runtime" for name in useless)),
            explains=tuple(thread.native_thread_id for thread in threads),
            evidence=tuple(
                Evidence(
                    f"{self._demand.name(thread)} used {(thread.ran_ns or 0) / 1e9:.2f} s of processor time in"
                    f" {self._supply.seconds:.2g} s",
                    "runtime",
                )
                for thread in threads[:_LISTED]
            ),
            unknowns=()
            if policy
            else ("which setting makes them spin: neither the runtime nor the environment says it",),
            next_step="ompd doctor TARGET",
        )

    def _kinds(self, threads: Sequence[ThreadSupply]) -> frozenset[str]:
        kinds = self._supply.settings.kinds
        rows = (self._demand.rows.get(thread.native_thread_id) for thread in threads)
        return frozenset(kinds.get(row.runtime or "", "") for row in rows if row is not None)


def wait_policy(settings: Settings, kinds: frozenset[str]) -> dict[str, str]:
    """Return the variables that let threads of these kinds of runtimes spin, as the runtime has stored them, else by
    the environment. Empty if none does.
    """
    names = ("OMP_WAIT_POLICY", *(_OF_LLVM if kinds & _LLVM else ()), *(_OF_GNU if "libgomp" in kinds else ()))
    given = settings.variables or {}
    stored = {name: value for name, value in settings.displayed.items() if name in given}
    values = ((name, stored.get(name) or given.get(name, "")) for name in names)
    return {name: value for name, value in values if value and value.strip().lower() not in _QUIET[name]}


def end_of_spinning(policy: dict[str, str], kinds: frozenset[str]) -> str:
    """Return the setting that lets waiting threads sleep."""
    if not kinds & _LLVM:
        unset = " and no GOMP_SPINCOUNT" if "GOMP_SPINCOUNT" in policy else ""
        return f"OMP_WAIT_POLICY=passive{unset}"
    if policy.get("KMP_LIBRARY", "").lower() == "turnaround":
        return "KMP_LIBRARY=throughput KMP_BLOCKTIME=0"
    return "KMP_BLOCKTIME=0" if "KMP_BLOCKTIME" in policy else "OMP_WAIT_POLICY=passive"


def without_effect(settings: Settings, kinds: frozenset[str]) -> list[str]:
    """Return the variables of the environment that only a runtime of another kind reads."""
    foreign = (() if kinds & _LLVM else _OF_LLVM) + (() if "libgomp" in kinds else _OF_GNU)
    given = settings.variables or {}
    return [settings_in_words({name: given[name]}) for name in foreign if name in given]
