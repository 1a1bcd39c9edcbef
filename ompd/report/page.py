"""The page of ``ompd report``."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace

import ompd
from ompd.model import TargetRecord
from ompd.render.words import basename, format_target
from ompd.report import sections
from ompd.report.gather import PageAnswers
from ompd.report.template import fill


def make_page(answers: PageAnswers, command: Sequence[str], when: str) -> str:
    """Return the text of the page.

    :param command: the words of the command
    :param when: the time, for a person
    """
    target = _mailable(answers.runtimes.target)
    folders = answers.folders
    return fill(
        "page.html",
        title=f"ompd: {format_target(target, ())}",
        headline=sections.headline(answers.why),
        heading=format_target(target, answers.runtimes.runtimes),
        complete=answers.complete,
        incomplete=folders.without(target.incomplete) if target.incomplete is not None else None,
        warnings=[*map(folders.without, answers.warnings)],
        faults={name: folders.without(fault) for name, fault in answers.faults.items()},
        goes_on=sections.goes_on(answers.why),
        verdicts=list(sections.verdicts(answers)),
        more_verdicts=sections.more_verdicts(answers.why),
        teams=sections.teams(answers),
        legend=sections.legend(answers),
        threads=sections.threads(answers),
        regions=sections.regions(answers),
        tasks=sections.tasks(answers),
        icicle=sections.icicle(answers),
        runtimes=sections.runtimes(answers),
        icvs=sections.icvs(answers),
        variables=list(sections.variables(answers)),
        environment=answers.environment,
        unknown=sections.unknown(answers),
        modules=[(basename(name), build_id) for name, build_id in answers.modules],
        architecture=target.architecture,
        version=ompd.__version__,
        python=platform.python_version(),
        command=" ".join(command),
        when=when,
        stops=[f"{length / 1e6:.1f} ms" for length in target.stops_ns],
    )


def _mailable(target: TargetRecord) -> TargetRecord:
    # Folders and arguments are private: people send the page to others.
    return replace(target, file=basename(target.file) if target.file is not None else None, command=None)
