"""The page of ``ompd report``."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace

import ompd
from ompd.model import TargetRecord
from ompd.render.words import basename, format_target
from ompd.report import sections
from ompd.report.gather import Found
from ompd.report.template import fill


def make_page(found: Found, command: Sequence[str], when: str) -> str:
    """Return the text of the page.

    :param command: the words by which it was made
    :param when: the time, for a person
    """
    target = _mailable(found.runtimes.target)
    folders = found.folders
    return fill(
        "page.html",
        title=f"ompd: {format_target(target, ())}",
        heading=format_target(target, found.runtimes.runtimes),
        complete=found.complete,
        incomplete=folders.without(target.incomplete) if target.incomplete is not None else None,
        warnings=[*map(folders.without, found.warnings)],
        faults={name: folders.without(fault) for name, fault in found.faults.items()},
        goes_on=sections.goes_on(found.why),
        verdicts=list(sections.verdicts(found)),
        more_verdicts=sections.more_verdicts(found.why),
        teams=sections.teams(found),
        legend=sections.legend(found),
        threads=sections.threads(found),
        regions=sections.regions(found),
        tasks=sections.tasks(found),
        icicle=sections.icicle(found),
        runtimes=sections.runtimes(found),
        icvs=sections.icvs(found),
        variables=list(sections.variables(found)),
        environment=found.environment,
        unknown=sections.unknown(found),
        modules=[(basename(name), build_id) for name, build_id in found.modules],
        architecture=target.architecture,
        version=ompd.__version__,
        python=platform.python_version(),
        command=" ".join(command),
        when=when,
        stops=[f"{length / 1e6:.1f} ms" for length in target.stops_ns],
    )


def _mailable(target: TargetRecord) -> TargetRecord:
    # Folders say more of a person than of a program.
    return replace(target, file=basename(target.file) if target.file is not None else None, command=None)
