"""``ompd hook``: scripts that triage the ranks of a job before the job is ended."""

from __future__ import annotations

import os
import sys

import click

from ompd.commands.ending import end_of_output, fail
from ompd.errors import OmpdError
from ompd.safety.writing import Destination

# The common part of both scripts on each host. Each script defines `ranks`, which prints the processes.
_COMMON = """\
enter() {
    # The folder is new and this user's alone. All files are named from within, so nobody can put another in its place.
    cd -P -- "$1" && [ "$(pwd -P)" = "$1" ] && [ -O . ] && return
    echo "ompd-hook: $1: is not this user's folder" >&2
    exit 1
}

snapshots() {
    # Each process is stopped for milliseconds and goes on: nothing is left stopped, whatever happens here.
    for moment in 1 2; do
        mkdir -p "$moment"
        for process in $(ranks); do
            ompd snapshot "$process" -o "$moment/$(uname -n).$process" > /dev/null
        done
        [ "$moment" = 2 ] || sleep 1
    done
}

page() {
    # What is in the same group at both moments has not moved.
    ompd triage 1 --json > 1.json
    again=(ompd triage 2 --results 2.jsonl --baseline 1.json)
    "${again[@]}" > page.txt
    # From the results, without looking again. If the page cannot be written, the text stands for it.
    "${again[@]}" -o page.html > /dev/null 2>&1
    if [ -s page.html ]; then echo "$folder/page.html"; else echo "$folder/page.txt"; fi
}

is_program() {
    # Launchers and shells are in the job, too.
    grep -qE '/lib(gomp|omp|iomp5|mpi|mpich)[^/]*\\.so' "/proc/$1/maps" 2> /dev/null
}
"""
_SLURM = f"""\
#!/bin/bash
# Two small snapshots of each rank of this Slurm job, a second apart, and one page about them: ompd hook slurm.
#
# In the job:  #SBATCH --signal=B:USR1@300   and   trap '/path/of/this/script' USR1
# In an epilogue or by hand, as the job's user:  SLURM_JOB_ID=4711 /path/of/this/script
# The folder has to be seen by all hosts: OMPD_HOOK_DIR, by default that from which the job was submitted.
set -u
umask 077
job=${{SLURM_JOB_ID:?this script is for a Slurm job}}
self=$(realpath -- "$0")

ranks() {{
    # Processes of this user whose environment has this job.
    for process in /proc/[0-9]*; do
        [ -O "$process" ] || continue
        grep -qzxF "SLURM_JOB_ID=$job" "$process/environ" 2> /dev/null || continue
        is_program "${{process#/proc/}}" && echo "${{process#/proc/}}"
    done
}}

{_COMMON}
if [ "${{1-}}" = host ]; then
    enter "$2"
    snapshots
else
    folder=$(ompd hook slurm --folder "${{OMPD_HOOK_DIR:-${{SLURM_SUBMIT_DIR:-$PWD}}}}/ompd-hook.$job") || exit 1
    enter "$folder"
    srun --overlap --jobid="$job" --ntasks-per-node=1 "$self" host "$folder"
    page
fi
"""
_PMI = f"""\
#!/bin/bash
# Two small snapshots of each rank that a launcher of MPI has started on this host, a second apart, and one page about
# them: ompd hook pmi.
#
# As the user of the job:  /path/of/this/script PID   with the number of mpiexec, or of its proxy on this host
# The folder: OMPD_HOOK_DIR, by default the current one.
set -u
umask 077
launcher=${{1:?the process of the launcher}}

below() {{
    for child in $(cat /proc/"$1"/task/*/children 2> /dev/null); do
        echo "$child"
        below "$child"
    done
}}

ranks() {{
    # Its children alone, and theirs.
    for process in $(below "$launcher"); do
        [ -O "/proc/$process" ] && is_program "$process" && echo "$process"
    done
}}

{_COMMON}
folder=$(ompd hook pmi --folder "${{OMPD_HOOK_DIR:-$PWD}}/ompd-hook.$launcher") || exit 1
enter "$folder"
snapshots
page
"""
_SCRIPTS = {"slurm": _SLURM, "pmi": _PMI}


def _new_folder(name: str) -> str:
    # The name is random, so other users cannot create it in advance.
    try:
        with Destination(f"{name}.{os.urandom(4).hex()}") as place:
            return place.new_folder()
    except OmpdError as error:
        fail(error)


@click.command("hook")
@click.argument("kind", metavar="slurm|pmi", type=click.Choice(list(_SCRIPTS)))
@click.option("--folder", metavar="NAME", hidden=True, help="For the script: make its folder, NAME and a random word.")
def hook(kind: str, folder: str | None) -> None:
    """Prints a script for bash that takes two small snapshots of every rank of one job, a second apart, triages them,
    and leaves one page. `slurm` finds the processes of this user whose environment names the job, on all of its hosts;
    `pmi` takes those that a launcher of MPI has started on this host.

    \b
      $ ompd hook slurm > ~/bin/ompd-hook; chmod +x ~/bin/ompd-hook
      $ sbatch --signal=B:USR1@300 job.sh      # in job.sh: trap ~/bin/ompd-hook USR1
    """
    try:
        text = _SCRIPTS[kind] if folder is None else f"{_new_folder(folder)}\n"
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        end_of_output(error)
