"""Untied tasks that continue inside of themselves.

If the queue is full, libomp executes the next part of such a task at once, on top of the part that asked for it. libomp
then notes that the task was suspended for itself.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import ompd
from ompd.questions.tasks import _Collector
from ompd.runtimes.libomp.handles import Task
from tests.support import Missing, clean_environment, intel_runtime, stopped
from tests.support.build import compiler
from tests.support.runs import ENVIRONMENT, cores_allowed, kernel_core_obstacle

# A queue has room for 256 tasks. The second thread takes none, so the tasks of the first one stay queued.
SOURCE = """
#include <stdlib.h>
#include <unistd.h>
static volatile int begun;
int main(void) {
    #pragma omp parallel num_threads(2)
    if (__builtin_expect(__sync_fetch_and_add(&begun, 1) == 0, 1)) {
        #pragma omp task untied
        for (int i = 0; i < 400; i++) {
            #pragma omp task untied firstprivate(i)
            if (i == 350)
                abort();
        }
        #pragma omp taskwait
    } else
        for (;;)
            pause();
}
"""


def test_a_task_that_goes_on_in_itself_has_a_whole_stack(tmp_path: Path) -> None:
    obstacle = kernel_core_obstacle()
    if obstacle is not None:
        raise Missing("kernel core", obstacle, forbidden=True)
    library = intel_runtime() / "lib"
    (tmp_path / "untied.c").write_text(SOURCE)
    command = [str(compiler("clang").path), "-g", "-O1", "-fopenmp=libiomp5", "untied.c", "-o", "untied"]
    command += [f"-L{library}", f"-Wl,-rpath,{library}"]
    subprocess.run(command, cwd=tmp_path, check=True, env=clean_environment())
    where = tmp_path / "run"
    where.mkdir()
    with cores_allowed():
        variables = {**clean_environment(), **ENVIRONMENT, "OMP_DEBUG": "enabled"}
        subprocess.run([str(tmp_path / "untied")], cwd=where, check=False, env=variables)
    with ompd.open_core(next(where.glob("core*"))) as session:
        stacks, tasks = session.ask_stacks(), session.ask_tasks()
    # The runtime notes that the outer task is suspended for itself.
    assert any(row.scheduling == row.id for row in tasks.rows)
    assert stacks.complete and tasks.complete
    (failed,) = [row for row in stacks.rows if row.signal is not None]
    parts = [f for f in failed.frames if f.construct is not None and f.construct.kind == "task"]
    assert len(parts) > 2 and failed.frames[-1].function == "main" and failed.stopped is None


def test_a_task_that_is_over_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # libomp keeps the note about the task that was suspended for an untied task, even after the untied task continues
    # on another thread.
    core = stopped("task_tree", runtime="intel").core
    over = SimpleNamespace(id="0x1234")
    honest = Task.scheduling
    monkeypatch.setattr(Task, "scheduling", lambda task: over if task.kind() == "implicit" else honest(task))
    monkeypatch.setattr(_Collector, "_suspended_by", lambda self, task: iter(()))
    with ompd.open_core(core) as session:
        answer = session.ask_tasks()
    rows = [row for row in answer.rows if row.kind == "implicit"]
    assert rows and all(row.scheduling is None and "0x1234" in row.unavailable["scheduling"] for row in rows)
    assert answer.complete


def test_a_task_in_a_queue_is_on_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # A thread's chain of tasks may hold an untied task that continued on another thread and was queued again.
    with ompd.open_core(stopped("task_queued", runtime="intel").core) as session:
        (runtime,) = session.runtimes
        assert runtime.space is not None
        queued = next(iter(runtime.space.queued_tasks()))
        monkeypatch.setattr(Task, "scheduling", lambda task: queued if task.status() == "executing" else None)
        (row,) = [row for row in session.ask_tasks().rows if row.id == queued.id]
    assert (row.status, row.thread) == ("queued", None)


def test_a_task_that_a_thread_has_just_taken_is_in_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    # __kmp_task_start sets the thread's th_current_task before the task's td_flags.started.
    with ompd.open_core(stopped("task_queued", runtime="intel").core) as session:
        rows = session.ask_tasks().rows
        executing = next(row for row in rows if row.status == "executing" and row.kind == "explicit")
        honest = Task.status
        monkeypatch.setattr(Task, "status", lambda task: "queued" if task.id == executing.id else honest(task))
        assert executing in session.ask_tasks().rows
