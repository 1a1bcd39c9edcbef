"""Which setting has bound threads to processors, in the setting's own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ompd.analysis.verdicts.supply.demand import Demand, processors_in_words, settings_in_words
from ompd.model import Evidence
from ompd.model.supply import OtherProcess, Settings, ThreadSupply
from ompd.records import record

_GNU, _LLVM = "libgomp", frozenset(("libomp", "libiomp5"))
_FALSE = ("false", "0", "no", "off")
_AFFINITY_TYPES = ("balanced", "compact", "explicit", "logical", "physical", "proclist", "scatter")
# Variables that launchers set in the environment of the processes that they start and bind, and how to change that.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI", "mpirun --bind-to none, or --map-by slot:PE=N for N threads a rank"),
    ("PMIX_RANK", "the launcher of the ranks", "its option for binding, such as mpirun --bind-to none"),
    ("PMI_SIZE", "mpiexec", "mpiexec -bind-to none, or -bind-to core:N for N threads a rank"),
    ("SLURM_CPUS_ON_NODE", "Slurm", "srun --cpus-per-task=N for N threads a task, or srun --cpu-bind=none"),
)


@record(kw_only=True)
class Cause:
    """Why threads may use few processors: ``text`` in a sentence, ``advice`` on how to change it."""

    text: str
    advice: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()
    unknowns: tuple[str, ...] = ()


def binding_settings(settings: Settings) -> dict[str, str]:
    """Return the variables of the environment by which the process's runtimes bind threads, with their values.

    Empty if no runtime binds threads.
    """
    variables = settings.variables or {}
    if variables.get("OMP_PROC_BIND", "").strip().lower() in _FALSE:
        return {}
    names = ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"]
    is_llvm = not _LLVM.isdisjoint(settings.kinds.values())
    if is_llvm:
        names = ["KMP_AFFINITY", *names]
    bindings = {name: variables[name] for name in names if variables.get(name, "").strip()}
    affinity = bindings.get("KMP_AFFINITY", "").lower()
    if "none" in affinity or "disabled" in affinity:
        return {}
    if affinity and not any(word in affinity for word in _AFFINITY_TYPES):
        del bindings["KMP_AFFINITY"]  # other words, such as verbose, bind nothing
    return bindings


class Causes:
    """Finds the setting that has bound threads of one process."""

    def __init__(self, demand: Demand) -> None:
        self._demand, self._supply, self._settings = demand, demand.supply, demand.supply.settings
        self._bindings = binding_settings(self._settings)

    def of(self, cpus: frozenset[int], threads: Sequence[ThreadSupply], others: Sequence[OtherProcess]) -> Cause:
        """Return why *threads* may use only the processors *cpus*, which threads of *others* use, too."""
        setting = settings_in_words(self._bindings)
        is_by_runtime = bool(self._bindings) and not self._was_narrow(cpus, threads)
        if is_by_runtime and others and len(threads) <= len(cpus):
            return self._of_processes(setting, cpus)
        if is_by_runtime and not all(map(self._demand.is_of_openmp, threads)):
            return self._inherited(setting)
        if is_by_runtime:
            return self._bound(setting)
        return self._from_outside(cpus)

    def _was_narrow(self, cpus: frozenset[int], threads: Sequence[ThreadSupply]) -> bool:
        # Return whether the process had no other processors before its runtime bound threads.
        counted = self._settings.processors
        if counted is not None and _GNU not in self._settings.kinds.values():
            return counted <= len(cpus)
        parent = self._supply.parent_processors
        if parent is not None and parent <= cpus:
            return True
        if set(self._bindings) == {"OMP_PROC_BIND"}:
            # Without a list of places, a runtime spreads a team over all processors that it has.
            word = self._bindings["OMP_PROC_BIND"].strip().lower()
            members = [thread for thread in threads if self._is_member(thread)]
            return not word.startswith(("master", "primary")) and len(members) > max(1, len(cpus))
        return False

    def _is_member(self, thread: ThreadSupply) -> bool:
        row = self._demand.rows.get(thread.native_thread_id)
        return row is not None and row.runtime is not None and (row.active_level or 0) == 1

    def _bound(self, setting: str) -> Cause:
        names = list(self._bindings)
        change = "list more places in it" if names[-1] in ("OMP_PLACES", "GOMP_CPU_AFFINITY") else "set it anew"
        return Cause(
            text=f"{setting} binds them there",
            advice=(f"unset {' '.join(names)}, or {change}: one processor for each thread",),
            evidence=(self._in_environment(setting), *self._by_runtime()),
        )

    def _inherited(self, setting: str) -> Cause:
        return Cause(
            text=f"{setting} has bound the initial thread there, and the threads that it created inherit that",
            advice=(
                f"unset {' '.join(self._bindings)}; or create these threads before OpenMP begins, or let them call"
                " sched_setaffinity()",
            ),
            evidence=(self._in_environment(setting), *self._of_initial(), *self._by_runtime()),
        )

    def _of_processes(self, setting: str, cpus: frozenset[int]) -> Cause:
        where = processors_in_words(cpus)
        return Cause(
            text=f"{setting} binds each process from the same place on, and no process knows of the others",
            advice=(
                f"unset {' '.join(self._bindings)}, or give each process processors of its own, by OMP_PLACES, taskset"
                f" or mpirun --bind-to core: now all use {where}",
            ),
            evidence=(self._in_environment(setting), *self._by_runtime()),
        )

    def _from_outside(self, cpus: frozenset[int]) -> Cause:
        supply = self._supply
        variables: Mapping[str, str] = self._settings.variables or {}
        if supply.cpuset is not None and supply.cpuset <= cpus and supply.cpuset != supply.online:
            file = supply.cpuset_file
            return Cause(
                text=f"its control group has no other processors ({file})",
                advice=(f"allow more processors there (docker run --cpuset-cpus), or {self._fewer(cpus)}",),
                evidence=(Evidence(f"{file} allows {processors_in_words(supply.cpuset)}", "runtime"),),
            )
        launcher = next((row for row in _LAUNCHERS if row[0] in variables), None)
        initial = next((t.processors for t in supply.threads if t.native_thread_id == supply.process_id), None)
        if launcher is not None and initial is not None and initial <= cpus:
            name, who, change = launcher
            return Cause(
                text=f"{who} has bound the process there",
                advice=(f"{change}; or {self._fewer(cpus)}",),
                evidence=(Evidence(f"{settings_in_words({name: variables[name]})} in its environment", "derived"),),
            )
        if initial is not None and not initial <= cpus:
            return Cause(
                text="these threads have been bound, and not by a setting of OpenMP: sched_setaffinity()",
                advice=("look for sched_setaffinity() or pthread_setaffinity_np() in the program and its libraries",),
            )
        parent = supply.parent_processors
        if parent is not None and parent <= cpus:
            text = f"its parent {supply.parent} may use no others either (taskset, a batch system)"
        else:
            text = "taskset or sched_setaffinity() has bound the process there"
        return Cause(
            text=text,
            advice=(
                f"allow it more processors (taskset, the batch system, sched_setaffinity()), or {self._fewer(cpus)}",
            ),
            unknowns=() if self._settings.variables is not None else ("settings of OpenMP: no environment was read",),
        )

    @staticmethod
    def _fewer(cpus: frozenset[int]) -> str:
        return f"start fewer threads (OMP_NUM_THREADS={len(cpus)})"

    @staticmethod
    def _in_environment(setting: str) -> Evidence:
        return Evidence(f"{setting} in its environment", "runtime")

    def _by_runtime(self) -> list[Evidence]:
        bind = self._settings.bind
        return [Evidence(f"the runtime's bind-var is {bind}", "runtime")] if bind is not None else []

    def _of_initial(self) -> list[Evidence]:
        for thread in self._supply.threads:
            if thread.native_thread_id == self._supply.process_id and thread.processors:
                where = processors_in_words(thread.processors)
                return [Evidence(f"the initial thread may use {where}", "runtime")]
        return []
